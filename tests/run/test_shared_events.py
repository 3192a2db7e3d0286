"""Rules share the events that they keep: no answer shows it, and each event is kept once."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cernis
from cernis.run.rules.session import RuleSession

TYPES = ("A", "B", "C")
RULES = {
    "long": "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[v > 7] AND b[v > 8]",
    "keyed": "SELECT * FROM S WHERE (A AS a ; B AS b) PARTITION BY [k] WITHIN 9 MILLISECONDS",
    "equal": "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[k] = b[k] WITHIN 20 MILLISECONDS",
    "larger": "SELECT * FROM S WHERE (A AS a ; C AS b) FILTER a[k] = b[k] AND a[v] < b[v] "
    "WITHIN 15 MILLISECONDS",
    "listed": "SELECT MAX * FROM S WHERE (A AS a ; B AS b ; C AS c) FILTER a[k] = c[k] AND "
    "a[v] < c[v] WITHIN 12 EVENTS",
    "next": "SELECT a, b FROM S WHERE (A AS a -> B AS b) FILTER a[k] = b[k] WITHIN 30 MILLISECONDS",
    "longest": "SELECT LONGEST * FROM S WHERE (A:+ AS a) PARTITION BY [k] WITHIN 9 MILLISECONDS",
    "absent": "SELECT * FROM S WHERE A AS a FILTER a[v > 6] WITHOUT B FOR 3 MILLISECONDS",
    "grouped": "SELECT [k], COUNT(*) AS n FROM S WHERE (A AS a ; B AS b) PARTITION BY [k] "
    "WITHIN 9 MILLISECONDS GROUP BY [k], EVERY 20 MILLISECONDS",
    "quiet": "SELECT * FROM S WHERE (A AS a ; C AS c) PARTITION BY [k] WITHIN 9 MILLISECONDS "
    "SUPPRESS BY [k] FOR 12 MILLISECONDS",
    "forgetful": "SELECT * FROM S WHERE (A AS a ; B AS b) PARTITION BY [k] FORGET AFTER "
    "4 MILLISECONDS",
    "other": "SELECT * FROM T WHERE (A AS a ; B AS b) WITHIN 9 MILLISECONDS",
    "both": "SELECT * FROM S, T WHERE (S>A AS a ; T>B AS b) WITHIN 9 MILLISECONDS",
    "joined": "SELECT * FROM T JOIN names ON k = names.id WHERE (A AS a ; B AS b) "
    "FILTER a[names.n > 1] WITHIN 9 MILLISECONDS",
    **{
        f"key {i}": f"SELECT * FROM S WHERE (A AS a ; {TYPES[i % 3]} AS b) FILTER a[k = {i % 4}] "
        f"AND b[k = {i % 4}] AND b[v > {i % 5}] WITHIN {i + 3} MILLISECONDS"
        for i in range(10)
    },
}
DERIVED = {
    "made": "INSERT INTO D SELECT a[k] AS k FROM S WHERE (A AS a ; B AS b) FILTER a[v > 7] "
    "WITHIN 9 MILLISECONDS",
    "reader": "SELECT * FROM D, S WHERE (D AS x ; S>A AS a) FILTER x[k] = a[k] "
    "WITHIN 30 MILLISECONDS",
}
NAMES = pa.table({"id": [0, 1, 3], "n": [1, 2, 3]})


def make_stream(chance: Random, first: int, events: int, columns: str) -> pa.Table:
    return pa.table(
        {
            "type": pa.array([chance.choice(TYPES) for _ in range(events)], pa.string()),
            **{
                name: pa.array([chance.randrange(10) % 4 for _ in range(events)], pa.int64())
                for name in columns
            },
            "v": pa.array([chance.randrange(10) for _ in range(events)], pa.int64()),
            "ts": pa.array(range(first, first + events), pa.int64()),
        }
    )


def read(found: Any) -> list[dict[str, Any]]:
    """Return matches without row numbers, which count the events of all streams."""
    table = found.to_arrow()
    named = [name for name in table.column_names if name not in ("start", "end")]
    return table.select(named).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(3))
def test_each_rule_finds_alone_what_it_finds_among_others_that_forget(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.events.repack._SMALL", 4 ** (seed % 4))
    chance = Random(seed)
    texts = {**RULES, **DERIVED}
    rules = cernis.rules(texts)
    together = rules.session(tables={"names": NAMES})
    sets = [DERIVED, *({name: text} for name, text in RULES.items())]
    apart = [cernis.rules(own).session(tables={"names": NAMES}) for own in sets]
    found: dict[str, list[Any]] = {name: [] for name in texts}
    expected: dict[str, list[Any]] = {name: [] for name in texts}
    held = []

    def add(results: dict[str, Any], to: dict[str, list[Any]]) -> None:
        for name, each in results.items():
            to[name] += read(each)

    first = 0
    for _ in range(25):
        size = chance.choice([1, 2, 5, 20])
        events = {
            "S": make_stream(chance, first, size, "k"),
            "T": make_stream(chance, first, size, "kj"),
        }
        first += size
        results = together.push(events)
        held.append((results, {name: read(each) for name, each in results.items()}))
        add(results, found)
        for session in apart:
            streams = {name for pattern in session.running.patterns for name in pattern.streams}
            own = {name: table for name, table in events.items() if name in streams}
            add(session.push(own), expected)
        if chance.random() < 0.6:
            together.forget()
        if chance.random() < 0.2:
            together = rules.thaw(together.freeze(), tables={"names": NAMES})
    add(together.finish(), found)
    for session in apart:
        add(session.finish(), expected)
    for name in texts:
        assert found[name] == expected[name], name
    assert sum(map(bool, found.values())) > 20
    for results, before in held:  # what was given stays valid
        assert {name: read(each) for name, each in results.items()} == before


def make_events(first: int, size: int) -> pa.Table:
    chance = np.random.default_rng(first)
    return pa.table(
        {
            "type": pa.array(TYPES).take(pa.array(chance.integers(0, 3, size))),
            "k": chance.integers(0, 50, size),
            "v": chance.integers(0, 1000, size),
            "ts": np.arange(first, first + size),
        }
    )


def push_all(session: RuleSession, events: int, size: int) -> list[tuple[int, int, int]]:
    """Push pieces; return the events and bytes of the set, and the records of partial matches."""
    found = []
    for first in range(0, events, size):
        session.push(make_events(first, size))
        numbers = session.metrics().values()
        stored = session.measure_stored()
        found.append((stored.events, stored.bytes, sum(each.records for each in numbers)))
    return found


@pytest.mark.parametrize(
    "condition",
    ["FILTER a[v > {0}] AND b[v < 900]", "FILTER a[k] = b[k] AND a[v > {0}]"],
)
def test_the_rules_of_a_set_keep_the_events_of_the_widest_window_once(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.run.rules.session._FORGET_EVERY", 1 << 13)
    rules = cernis.rules(
        {
            f"r{i}": f"SELECT * FROM S WHERE (A AS a ; B AS b) {condition.format(4 * i)} "
            f"WITHIN {100 + 10 * i} MILLISECONDS"
            for i in range(40)
        }
    )
    session = rules.session()
    sizes = push_all(session, 4_000, 200)
    most = 3 * 490  # the widest window, twice, and a piece
    one = make_events(0, 1_000).nbytes / 1_000
    assert max(events for events, _, _ in sizes) < most
    assert max(size for _, size, _ in sizes) < most * (one + 4 * len(rules))
    records = [records for _, _, records in sizes]
    assert max(records[10:]) <= 2 * max(records[:10])


def test_rules_that_few_events_concern_forget_after_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.run.rules.session._FORGET_AFTER", 5_000)
    condition = "A AS a FILTER a[v = 1] WITHOUT B FOR 5 MILLISECONDS"
    session = cernis.rules({"rare": f"SELECT * FROM S WHERE {condition}"}).session()
    sizes = push_all(session, 20_000, 200)
    kept = [events for events, _, _ in sizes]
    assert max(kept) > 20
    assert max(kept[50:]) <= 1.2 * max(kept[:50])


def test_a_rule_that_keeps_a_few_old_events_does_not_keep_those_around_them() -> None:
    rules = cernis.rules(
        {
            "rare": "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[v = 1] AND b[v = 1]",
            "common": "SELECT * FROM S WHERE (A AS a ; B AS b) WITHIN 50 MILLISECONDS",
        }
    )
    session = rules.session()
    for first in range(0, 40_000, 2_000):
        session.push(make_events(first, 2_000))
        session.forget()
    rare = session.metrics()["rare"]
    assert 0 < rare.stored < 100
    assert session.measure_stored().events < 2_200


def test_rules_that_read_small_pieces_keep_few_batches() -> None:
    rules = cernis.rules({"all": "SELECT * FROM S WHERE (A AS a ; B AS b) WITHIN 1 HOUR"})
    session = rules.session()
    found = []
    for first in range(300):
        found += session.push(make_events(first, 1))["all"].to_arrow().to_pylist()
    session.forget()
    assert len(session.sessions[0].store.batches) == 1
    last = session.push(make_events(300, 50))["all"].to_arrow().to_pylist()
    whole = pa.concat_tables([*(make_events(i, 1) for i in range(300)), make_events(300, 50)])
    assert found + last == rules.run(whole)["all"].to_arrow().to_pylist()


def test_the_numbers_of_a_session_have_the_memory_of_its_events() -> None:
    session = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b WITHIN 9 EVENTS").session()
    events = make_events(0, 100)
    session.push(events)
    assert session.metrics().stored_bytes == events.nbytes
    session.forget()
    session.push(make_events(100, 20))
    session.forget()
    assert session.metrics().stored_bytes == make_events(100, 20).nbytes
