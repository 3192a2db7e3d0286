"""Queries whose candidates are checked one by one read events as all others do."""

from __future__ import annotations

import cernis


def test_the_type_column_may_have_another_name() -> None:
    query = "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x[a] < z[a]"
    events = [{"kind": kind, "a": a} for kind, a in (("A", 1), ("B", 5), ("C", 2), ("C", 0))]
    found = cernis.query(query).run(events, type="kind")
    assert [(match.start, match.end) for match in found] == [(0, 2)]
    guarded = "SELECT * WHERE A AS x ; C AS z UNLESS (B AS u ; B AS v FILTER u[a] = v[a])"
    assert cernis.query(guarded).run(events, type="kind").count() == 2


def test_an_order_beside_an_equality_that_may_hold_gives_each_match_once() -> None:
    query = cernis.query(
        "SELECT * FROM S WHERE (A+ AS x) "
        "FILTER PREV(x)[u] <= x[u] AND (PREV(x)[u] = x[u] OR x[u <= 2])"
    )
    events = [{"type": "A", "u": u} for u in (1, 4, 4, 1, 4)]
    found = sorted(tuple(match.vars["x"]) for match in query.run(events))
    assert found == [(0,), (0, 3), (1,), (1, 2), (1, 2, 4), (1, 4), (2,), (2, 4), (3,), (4,)]
