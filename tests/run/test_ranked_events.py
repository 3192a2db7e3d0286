"""Where events stand inside their partitions, against a list of each partition's events."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cernis.run.stages.ranked_events import RankedEvents

batches = st.lists(st.lists(st.integers(-1, 3), max_size=6), max_size=8)


@given(batches, st.data())
def test_neighbours_in_a_partition_have_neighbouring_ranks_and_both_ways_agree(given_keys, data):
    where, keys, begin = RankedEvents(), [], 0
    for batch in given_keys:
        where.note(len(keys), np.array(batch, np.int64))
        keys += batch
        if data.draw(st.booleans(), label="forget"):
            begin = data.draw(st.integers(begin, len(keys)), label="before")
            where.forget_before(begin)
        if data.draw(st.booleans(), label="renumber"):
            kept = sorted(
                data.draw(st.sets(st.sampled_from(sorted({*keys, 0} - {-1}))), label="kept")
            )
            where.keep_keys(np.array(kept, np.int64))
            keys = [kept.index(key) if key in kept else -1 for key in keys]
        assert where.keys_of(np.arange(begin, len(keys))).tolist() == keys[begin:]
        for key in {*keys[begin:]} - {-1}:
            members = [p for p in range(begin, len(keys)) if keys[p] == key]
            local = [where.to_local(p) for p in members]
            first = local[0][1]
            assert local == [(key, first + i) for i in range(len(members))]
            where.forget_before(begin)  # answers are kept until something changes
            assert [where.to_global(*pair) for pair in local] == members
