from __future__ import annotations

from typing import Any

import pytest

import cernis
from cernis.automata.correlated.pcea import PCEA, Link, Ordered, RunSource, Transition
from cernis.automata.unary.cea import ANYTHING, Either, Is, Isnt
from cernis.pattern.atom import TypeIs
from cernis.pattern.predicate import Attribute, Comparison, Literal
from tools.cases.naive import NaiveRuns, is_linked, is_passed

NAN = float("nan")


def pairs(link: Link) -> PCEA:
    """Any two events that are linked."""
    return PCEA(
        ("first", "second"),
        (
            Transition((), ANYTHING, frozenset({"x"}), 0),
            Transition((RunSource(0, link),), ANYTHING, frozenset({"y"}), 1),
        ),
        frozenset({1}),
    )


@pytest.mark.parametrize(
    ("link", "values"),
    [
        (Link(equal=(("a", "a"),)), [(1, 1.0)]),
        (Link(different=(("a", "a"),)), [(1, 2), (NAN, NAN)]),
        (Link(unlike=(("a", "a"),)), [(1, 2), (1, "1"), (None, None), (NAN, NAN), (1, None)]),
        (Link(ordered=(Ordered("a", "<", "a"),)), [(1, 2)]),
        (Link(ordered=(Ordered("a", ">=", "a"),)), [(1, 1.0)]),
        (Link(equal=(("a", "b.c"),)), []),
    ],
)
def test_what_a_link_asks_of_two_values(link: Link, values: list[tuple[Any, Any]]) -> None:
    cases = [(1, 1.0), (1, 2), (1, "1"), (None, None), (NAN, NAN), (1, None)]
    found = [pair for pair in cases if is_linked(link, {"a": pair[0]}, {"a": pair[1]})]
    assert str(found) == str(values)


def test_nested_attributes_are_compared() -> None:
    assert is_linked(Link(equal=(("a", "b.c"),)), {"a": 1}, {"b": {"c": 1}})


def test_a_contiguous_link_wants_the_event_right_before() -> None:
    events = [{}, {}, {}]
    anywhere = [(m.start, m.end) for m in NaiveRuns(pairs(Link())).run(events)]
    right_before = [(m.start, m.end) for m in NaiveRuns(pairs(Link(contiguous=True))).run(events)]
    assert anywhere == [(0, 1), (0, 2), (1, 2)]
    assert right_before == [(0, 1), (1, 2)]


def test_what_a_test_asks_of_an_event() -> None:
    cheap = Comparison("<", Attribute(("a",)), Literal(3))
    event = {"type": "A", "_stream": "S", "a": 1}
    assert is_passed(Is(TypeIs("A", "S")), event)
    assert not is_passed(Is(TypeIs("A", "U")), event)
    assert is_passed(Either((Is(TypeIs("B")), Is(cheap))), event)
    assert is_passed(Isnt(Is(cheap)), {})
    assert is_passed(Is(TypeIs("A")), {"kind": "A"}, type="kind")


def test_runs_grow_with_the_stream_unless_a_window_ends_them() -> None:
    free, bounded = NaiveRuns(pairs(Link())), NaiveRuns(pairs(Link()), 2)
    for _ in range(20):
        free.push({})
        bounded.push({})
    assert free.size == 20 + 190
    assert bounded.size == 3 + 3


def test_a_guard_takes_runs_out() -> None:
    query = cernis.query("SELECT * WHERE (A AS a ; B AS b) UNLESS (C AS c FILTER c[k] = a[k])")
    assert query.plan.tables is not None
    kinds = [("A", 1), ("A", 2), ("C", 1), ("B", 0), ("C", 2), ("B", 0)]
    found = NaiveRuns(query.plan.tables.pcea).run([{"type": kind, "k": k} for kind, k in kinds])
    assert [(match.start, match.end) for match in found] == [(1, 3)]
