"""The numbers of a session."""

from __future__ import annotations

import cernis

EVENTS = [{"type": t, "k": k} for k in range(4) for t in "ACB"]


def test_a_session_says_what_it_has_read_and_what_it_keeps() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 9 EVENTS")
    session = query.session()
    session.push(EVENTS)
    session.push(EVENTS)
    numbers = session.metrics()
    assert (numbers.events, numbers.stored, numbers.keys) == (24, 24, 4)
    assert numbers.relevant == 16  # not C
    assert numbers.dropped_keys == 0
    assert numbers.records > 8
    assert list(numbers.seconds) == ["encode", "engine", "find"]
    assert all(spent > 0 for spent in numbers.seconds.values())


def test_dropped_partitions_are_counted() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k]")
    session = query.session(max_keys=2, on_full="oldest")
    session.push(EVENTS)
    assert session.metrics().dropped_keys == 2
