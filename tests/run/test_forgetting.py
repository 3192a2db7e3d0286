"""What has left the window leaves memory, and forgetting never shows in the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cernis
from cernis.engine.correlated import runtime
from cernis.run import feed
from cernis.run.stages import pipeline

CHAIN = "SELECT * FROM S WHERE (A AS x ; B AS y ; C AS z) FILTER x[id] = y[id] AND y[id] = z[id]"
UNLIKE = "SELECT * FROM S WHERE (A AS x ; B AS y) FILTER x[id] = y[id] AND x[user] != y[user]"
ORDERED = "SELECT * FROM S WHERE (A AS x ; B AS y) FILTER x[id] = y[id] AND x[price] < y[price]"
JOINED = "SELECT * FROM S WHERE (A AS x ALL B AS y) FILTER x[id] = y[id]"
FAR = "SELECT * FROM S WHERE (A AS x ; B AS y ; C AS z) FILTER x[id] = z[id] AND x[user] = y[user]"

QUERIES = [CHAIN, UNLIKE, ORDERED, JOINED, FAR]


def stream(events: int, keys: int, seed: int = 0) -> pa.Table:
    """Keys that come and go: each lives for a while around its own time."""
    draw = np.random.default_rng(seed)
    where = np.arange(events) * keys // events
    return pa.table(
        {
            "type": draw.choice(["A", "B", "C"], events),
            "id": where + draw.integers(0, 4, events),
            "user": where + draw.integers(0, 3, events),
            "price": draw.integers(0, 9, events),
            "shop": where + draw.integers(0, 2, events),
        }
    )


def found(query: cernis.Query, table: pa.Table, batch: int) -> list[Any]:
    running = query.session()
    matches = []
    for low in range(0, table.num_rows, batch):
        matches += [
            (m.start, m.end, m.vars) for m in running.push(table.slice(low, batch)) if m is not None
        ]
        running.forget()
    return matches


@pytest.mark.parametrize("partition", ["", " PARTITION BY [shop]"])
@pytest.mark.parametrize("query", QUERIES)
def test_forgetting_values_and_keys_changes_no_answer(
    query: str, partition: str, monkeypatch: Any
) -> None:
    ready = cernis.query(f"{query}{partition} WITHIN 12 EVENTS")
    table = stream(900, 300)
    expected = [(m.start, m.end, m.vars) for m in ready.run(table)]
    monkeypatch.setattr(feed, "_FORGET_CODES", 8)
    monkeypatch.setattr(pipeline, "_FORGET_KEYS", 8)
    monkeypatch.setattr(runtime, "FIRST_RECORDS", 32)
    assert sorted(found(ready, table, 50), key=str) == sorted(expected, key=str)
    assert expected


@pytest.mark.parametrize("query", QUERIES)
def test_memory_does_not_grow_with_the_stream(query: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "_FORGET_CODES", 64)
    running = cernis.query(f"{query} WITHIN 100 EVENTS").session()
    sizes = []
    for part in range(20):
        running.push(stream(2_000, 500, seed=part))
        running.forget()
        found = running.pipeline.feed
        assert isinstance(found, feed.CorrelatedFeed)
        sizes.append((running.engine.records, sum(found.equality.value_counts())))
    records, values = zip(*sizes, strict=True)
    assert max(records[10:]) <= 2 * max(records[:10])
    assert max(values[10:]) <= 2 * max(values[:10])


@pytest.mark.parametrize("select", ["*", "LONGEST *"])
def test_a_frozen_state_holds_no_keys_that_no_match_can_need(select: str) -> None:
    query = cernis.query(
        f"SELECT {select} FROM S WHERE (A AS a ; B AS b) PARTITION BY [k] WITHIN 3 MILLISECONDS"
    )
    session, sizes = query.session(), []
    for first in range(0, 3000, 300):
        events = [{"type": "A", "ts": at, "k": at} for at in range(first, first + 300)]
        assert session.push(events).count() == 0
        sizes.append(len(session.freeze()))
    assert max(sizes[1:]) < 1.1 * sizes[1]
