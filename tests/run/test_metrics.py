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


def test_a_rule_set_names_its_costliest_rules_and_those_that_found_nothing() -> None:
    rules = {f"r{i}": f"SELECT * FROM S WHERE A AS a FILTER a[k < {i}]" for i in range(12)}
    session = cernis.rules(rules).session()
    session.push(EVENTS)
    numbers = session.metrics()
    spent = [sum(each.seconds.values()) for each in numbers.costliest().values()]
    assert len(spent) == 10
    assert spent == sorted(sum(each.seconds.values()) for each in numbers.values())[:1:-1]
    assert list(numbers.costliest(3)) == list(numbers.costliest())[:3]
    assert numbers.silent == ("r0",)
