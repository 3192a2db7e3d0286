"""Match sets as lists, and the cutting and joining of blocks."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cernis.results.sets.matchset import ListedMatches, MatchBlock, join, part, pieces, take

VARIABLES = ("x", "y")

places = st.lists(st.integers(0, 9), max_size=4, unique=True).map(sorted)
matches = st.tuples(st.integers(0, 9), st.integers(0, 9), places, places).map(
    lambda m: (min(m[:2]), max(m[:2]), {"x": m[2], "y": m[3]})
)
listed = st.lists(matches, max_size=12).map(lambda rows: ListedMatches.of(VARIABLES, rows))


def rows_of(block: MatchBlock) -> list[tuple[int, int, dict[str, list[int]]]]:
    return [
        (
            int(block.start[i]),
            int(block.end[i]),
            {
                v: block.positions[k][block.offsets[k][i] : block.offsets[k][i + 1]].tolist()
                for k, v in enumerate(VARIABLES)
            },
        )
        for i in range(len(block.start))
    ]


@given(st.lists(matches, max_size=12))
def test_matches_come_by_end_and_then_latest_start_and_once(
    rows: list[tuple[int, int, dict[str, list[int]]]],
) -> None:
    found = rows_of(ListedMatches.of(VARIABLES, rows).block)
    assert [(end, -start) for start, end, _ in found] == sorted(
        (end, -start) for start, end, _ in found
    )
    assert all(row in rows for row in found)
    assert all(found.count(row) == 1 for row in rows)


@given(listed)
def test_counts_per_end_add_up_to_the_count(found: ListedMatches) -> None:
    ends, counts = found.counts()
    assert dict(zip(ends.tolist(), counts, strict=True)) == Counter(found.block.end.tolist())
    assert sum(counts) == found.count()


@given(listed, st.integers(1, 20))
def test_pieces_put_together_are_the_block(found: ListedMatches, weight: int) -> None:
    cut = list(pieces(found.block, weight))
    assert rows_of(join(cut, 2)) == rows_of(found.block)
    for piece in cut:
        load = len(piece.start) + sum(len(p) for p in piece.positions)
        assert load <= weight or len(piece.start) == 1


@given(listed, st.data())
def test_taking_matches_by_index_keeps_their_positions(
    found: ListedMatches, data: st.DataObject
) -> None:
    indices = data.draw(
        st.lists(st.integers(0, found.count() - 1)) if found.count() else st.just([])
    )
    every = rows_of(found.block)
    assert rows_of(take(found.block, np.array(indices, np.int64))) == [every[i] for i in indices]


def test_a_part_is_the_matches_between_two_indices() -> None:
    found = ListedMatches.of(VARIABLES, [(i, i, {"x": [i], "y": []}) for i in range(5)])
    assert rows_of(part(found.block, 1, 3)) == rows_of(found.block)[1:3]


def test_blocks_stop_at_the_limit() -> None:
    found = ListedMatches.of(VARIABLES, [(i, i, {"x": [i]}) for i in range(5)])
    assert sum(len(block.start) for block in found.blocks(3)) == 3
    assert sum(len(block.start) for block in found.blocks()) == 5
    assert list(found.blocks(0)) == []


def test_a_sample_has_distinct_matches_and_is_repeatable() -> None:
    found = ListedMatches.of(VARIABLES, [(i, i, {"x": [i]}) for i in range(50)])
    drawn = found.sample(10, 7)
    assert len(set(drawn.start.tolist())) == 10
    assert drawn.start.tolist() == found.sample(10, 7).start.tolist()
    assert drawn.start.tolist() != found.sample(10, 8).start.tolist()
    assert found.sample(100, 7).start.tolist() == list(range(50))


def test_every_match_is_as_likely_in_a_sample() -> None:
    found = ListedMatches.of(VARIABLES, [(i, i, {"x": [i]}) for i in range(5)])
    drawn = Counter(i for seed in range(2000) for i in found.sample(2, seed).start.tolist())
    assert all(abs(drawn[i] - 800) < 110 for i in range(5))  # five standard deviations


def test_no_blocks_are_an_empty_set() -> None:
    found = ListedMatches(VARIABLES, [])
    assert found.count() == 0
    assert found.counts()[1] == []
    assert list(found.blocks()) == []
    assert len(found.sample(3, 1).start) == 0
