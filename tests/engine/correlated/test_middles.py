"""Runs that wait for the events between: they go on once, also where memory runs out meanwhile."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import cernis
from cernis.engine.correlated import runtime
from cernis.engine.dag import records as r
from tools.cases.differential import assert_agrees
from tools.cases.tables import make_table

RETURN = "(A AS a ; B AS b -> C AS c) FILTER b[p] < a[p] AND c[p] >= a[p] AND c[p] <= 2 * a[p]"
WAITING = [
    RETURN,
    "(A AS a ; D AS d ; C AS c) FILTER a[p] < c[p]",
    "(A AS a ; B AS b ; C AS c) FILTER b[p] < a[p] AND c[p] > a[p]",
    "(A AS a ; B AS b ; D AS d ; C AS c) FILTER b[p] < a[p] AND c[p] > a[p]",
    "(A AS a ; B AS b ; D AS d ; C AS c) FILTER b[p] < a[p] AND d[p] > b[p] AND c[p] > a[p]",
]


def query(where: str) -> cernis.Query:
    return cernis.query(f"SELECT * FROM S WHERE {where}")


@pytest.mark.parametrize("where", WAITING)
@pytest.mark.parametrize("seed", range(4))
def test_no_run_goes_on_twice_where_memory_runs_out(
    where: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, make_room = Random(seed), r.make_room

    def make_little_room(memory: r.RunMemory, array: int, room: int, least: int) -> r.RunMemory:
        memory, size = make_room(memory, array, room, least), int(memory.counters[array])
        name = r.GROWING[array]
        if name in ("nodes", "branches"):  # what filing needs, and little more
            size += room + random.randrange(4)
            memory = memory._replace(**{name: getattr(memory, name)[:size]})
        return memory

    monkeypatch.setattr(runtime, "FIRST_RECORDS", 2)
    monkeypatch.setattr(r, "make_room", make_little_room)
    events = [
        {"type": random.choice("AABCD"), "ts": i, "p": random.randrange(1, 9)} for i in range(30)
    ]
    found = query(where).run(make_table(events, timed=True))
    assert_agrees(query(where).pattern, events, list(found))


def read_prices(text: str) -> pa.Table:
    kinds, prices = zip(*((one[0], int(one[1:])) for one in text.split()), strict=True)
    return pa.table({"type": kinds, "p": prices})


def test_each_drop_has_the_next_return_to_its_peak() -> None:
    found = query(RETURN).run(read_prices("A5 B3 B2 C9 C4 C6 B1 C7 A9 C5 B4 C12"))
    places = sorted((m.end, m.start, m.vars["b"][0]) for m in found)
    assert places == [(3, 0, 1), (3, 0, 2), (7, 0, 6), (11, 8, 10)]


def test_an_event_that_ends_a_match_may_be_the_drop_of_the_next() -> None:
    alike = query(RETURN.replace("B AS", "A AS").replace("C AS", "A AS"))
    events = [{"type": "A", "ts": i, "p": p} for i, p in enumerate([3, 1, 4, 2, 3, 2, 2, 5])]
    assert_agrees(alike.pattern, events, list(alike.run(make_table(events, timed=True))))


def test_a_return_moves_no_more_peaks_than_it_has_matches() -> None:
    random = np.random.default_rng(1)
    kinds, prices = random.choice(["A", "B", "C"], 3000), random.random(3000)
    prices[kinds == "C"] += 5  # no return
    session = query(f"{RETURN} WITHIN 2000 EVENTS").session()
    session.push(pa.table({"type": kinds, "p": prices}))
    memory = session.pipeline.feed.engine.memory
    assert memory.counters[r.VERTICES] <= np.isin(kinds, ["A", "B"]).sum() + 1
