"""Laws of the algebra and of the clauses, each said in another way than the oracle does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.pattern import formula as cel
from cernis.pattern.predicate import Attribute, Comparison, Holds, Literal
from cernis.pattern.query import Consume, Pattern, Select, Strategy, Unit, Window
from cernis.testing.oracle import (
    EPSILON,
    OracleMatch,
    Valuation,
    count_matches,
    evaluate,
    find_valuations,
    positions,
)
from tools.cases import grammar
from tools.cases.differential import ComparableMatch, comparable_match
from tools.cases.grammar import EVERYTHING, Events, Features
from tools.cases.strategies import cases, streams

A, B, C = cel.Event("A"), cel.Event("B"), cel.Event("C")
SMALL = Features(size=3, events=6)
TYPES = st.lists(st.sampled_from("ABC"), max_size=7).map(
    lambda names: [{"type": name} for name in names]
)
quick = settings(max_examples=60, deadline=None)


def chooser(draw: st.DrawFn) -> grammar.Chooser:
    return lambda below: draw(st.integers(0, below - 1))


@st.composite
def formulas(draw: st.DrawFn) -> cel.Formula:
    return grammar.QueryGrammar(chooser(draw), SMALL).make_formula(3)


def answers(pattern: Pattern, events: Events) -> set[ComparableMatch]:
    return set(map(comparable_match, evaluate(pattern, events)))


# --------------------------------------------------------------------- CEL


@quick
@given(TYPES, st.lists(st.sampled_from("ABC"), min_size=1, max_size=3), st.booleans())
def test_a_sequence_of_types_is_every_choice_of_rows_that_spells_it(
    events: Events, word: list[str], contiguous: bool
) -> None:
    node = (cel.Contiguous if contiguous else cel.Sequence)(tuple(map(cel.Event, word)))
    expected = {
        Valuation(rows[0], rows[-1], frozenset(zip(word, rows, strict=True)))
        for rows in combinations(range(len(events)), len(word))
        if [events[row]["type"] for row in rows] == word
        and (not contiguous or rows[-1] - rows[0] == len(word) - 1)
    }
    assert find_valuations(node, events) == expected


@quick
@given(TYPES, st.integers(0, 3), st.integers(0, 3) | st.none(), st.booleans())
def test_an_iteration_of_a_type_is_every_subset_of_its_rows_of_the_right_size(
    events: Events, low: int, more: int | None, contiguous: bool
) -> None:
    high = None if more is None else low + more
    rows = [row for row, event in enumerate(events) if event["type"] == "A"]
    expected = {
        Valuation(some[0], some[-1], frozenset(("A", row) for row in some))
        for size in range(max(low, 1), len(events) + 1 if high is None else high + 1)
        for some in combinations(rows, size)
        if not contiguous or some[-1] - some[0] == size - 1
    }
    if low == 0:
        expected.add(EPSILON)
    assert find_valuations(cel.Iterate(A, low, high, contiguous), events) == expected


Law = Callable[[cel.Formula, cel.Formula, cel.Formula], tuple[cel.Formula, cel.Formula]]

LAWS: dict[str, Law] = {
    "OR takes no notice of repetition": lambda f, g, h: (cel.Choice((f, f)), f),
    "OR takes no notice of order": lambda f, g, h: (cel.Choice((f, g)), cel.Choice((g, f))),
    "ALL takes no notice of order": lambda f, g, h: (cel.All((f, g)), cel.All((g, f))),
    "a sequence may be bracketed to the left": lambda f, g, h: (
        cel.Sequence((f, g, h)),
        cel.Sequence((cel.Sequence((f, g)), h)),
    ),
    "a sequence may be bracketed to the right": lambda f, g, h: (
        cel.Sequence((f, g, h)),
        cel.Sequence((f, cel.Sequence((g, h)))),
    ),
    "a contiguous chain may be bracketed to the left": lambda f, g, h: (
        cel.Contiguous((f, g, h)),
        cel.Contiguous((cel.Contiguous((f, g)), h)),
    ),
    "a contiguous chain may be bracketed to the right": lambda f, g, h: (
        cel.Contiguous((f, g, h)),
        cel.Contiguous((f, cel.Contiguous((g, h)))),
    ),
    "ALL may be bracketed": lambda f, g, h: (
        cel.All((f, g, h)),
        cel.All((f, cel.All((g, h)))),
    ),
    "a sequence distributes over OR": lambda f, g, h: (
        cel.Sequence((f, cel.Choice((g, h)))),
        cel.Choice((cel.Sequence((f, g)), cel.Sequence((f, h)))),
    ),
    "an optional part is there or not": lambda f, g, h: (
        cel.Sequence((f, cel.Optional(g), h)),
        cel.Choice((cel.Sequence((f, h)), cel.Sequence((f, g, h)))),
    ),
    "an optional contiguous part is there or not": lambda f, g, h: (
        cel.Contiguous((f, cel.Optional(g), h)),
        cel.Choice((cel.Contiguous((f, h)), cel.Contiguous((f, g, h)))),
    ),
    "a plus is one, or one and a plus": lambda f, g, h: (
        cel.Iterate(f),
        cel.Choice((f, cel.Sequence((f, cel.Iterate(f))))),
    ),
    "a colon plus is one, or one and a colon plus": lambda f, g, h: (
        cel.Iterate(f, contiguous=True),
        cel.Choice((f, cel.Contiguous((f, cel.Iterate(f, contiguous=True))))),
    ),
    "two to three are two, or three": lambda f, g, h: (
        cel.Iterate(f, 2, 3),
        cel.Choice((cel.Sequence((f, f)), cel.Sequence((f, f, f)))),
    ),
    "zero to one is optional": lambda f, g, h: (cel.Iterate(f, 0, 1), cel.Optional(f)),
    "UNLESS either is UNLESS one UNLESS the other": lambda f, g, h: (
        cel.Unless(f, cel.Choice((g, h))),
        cel.Unless(cel.Unless(f, g), h),
    ),
    "AS twice is AS once": lambda f, g, h: (cel.As(cel.As(f, "w"), "w"), cel.As(f, "w")),
    "NOT a choice is neither": lambda f, g, h: (
        cel.Contiguous((cel.Not(cel.Choice((A, B))), f)),
        cel.Contiguous((cel.Choice((C, cel.Event("D"))), f)),
    ),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_law_of_the_algebra(law: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(formulas(), formulas(), formulas(), streams(events=5, untimed=True))
    def holds(f: cel.Formula, g: cel.Formula, h: cel.Formula, events: Events) -> None:
        left, right = LAWS[law](f, g, h)
        assert _marks(law, find_valuations(left, events)) == _marks(
            law, find_valuations(right, events)
        )

    holds()


def _marks(law: str, found: set[Valuation]) -> set[Valuation]:
    """For the law of NOT, whose sides mark differently, what neither marks at the start."""
    if law != "NOT a choice is neither":
        return found
    return {
        v._replace(labels=frozenset((x, i) for x, i in v.labels if i != v.start)) for v in found
    }


@quick
@given(formulas(), formulas(), TYPES)
def test_unless_keeps_what_has_no_guard_strictly_inside(
    body: cel.Formula, guard: cel.Formula, events: Events
) -> None:
    intervals = {(g.start, g.end) for g in find_valuations(guard, events)} - {(0, -1)}
    kept = find_valuations(cel.Unless(body, guard), events)
    for v in find_valuations(body, events):
        inner = product(range(v.start + 1, v.end), repeat=2)
        assert (v in kept) == intervals.isdisjoint(inner)


def test_a_filter_sees_every_event_of_its_variable_and_passes_over_none() -> None:
    events: Events = [{"type": "A", "p": p} for p in (1, 2, None, 2)]
    two = Holds("A", Comparison("=", Attribute(("p",)), Literal(2)))
    found = find_valuations(cel.Filter(cel.Iterate(A), two), events)
    assert {positions(v) for v in found} == {frozenset(s) for s in ({1}, {3}, {1, 3})}


# -------------------------------------------------------------------- CEQL


def _plain(case: tuple[Pattern, Events]) -> tuple[Pattern, Events]:
    pattern, events = case
    plain = replace(pattern, strategy=Strategy.ALL, consume=Consume.NONE, limit=None)
    return replace(plain, select=Select()), events


def _by_end(found: list[OracleMatch]) -> dict[int, list[OracleMatch]]:
    groups: dict[int, list[OracleMatch]] = defaultdict(list)
    for match in found:
        groups[match.end].append(match)
    return groups


# With all variables of a formula under one AS, a match shows all its positions.
def _shown(pattern: Pattern) -> Pattern:
    return replace(pattern, formula=cel.As(pattern.formula, "all"))


@quick
@given(cases(disorder=False).map(_plain))
def test_next_and_last_are_the_greatest_in_two_orders_of_binary_numbers(
    case: tuple[Pattern, Events],
) -> None:
    pattern, events = case
    pattern = replace(_shown(pattern), partition=())
    ends = _by_end(evaluate(pattern, events))

    def forwards(match: OracleMatch) -> list[bool]:
        return [row in match.vars["all"] for row in range(len(events))]

    def backwards(match: OracleMatch) -> list[bool]:
        return forwards(match)[::-1]

    for strategy, order in ((Strategy.NEXT, forwards), (Strategy.LAST, backwards)):
        expected = {
            comparable_match(match)
            for here in ends.values()
            for match in here
            if order(match) == max(map(order, here))
        }
        assert answers(replace(pattern, strategy=strategy), events) == expected


@quick
@given(cases(disorder=False).map(_plain))
def test_max_keeps_what_no_other_contains_and_strict_what_has_no_gap(
    case: tuple[Pattern, Events],
) -> None:
    pattern, events = case
    pattern = replace(_shown(pattern), partition=())
    found = evaluate(pattern, events)
    maximal = {
        comparable_match(m)
        for m in found
        if not any(m.end == n.end and set(m.vars["all"]) < set(n.vars["all"]) for n in found)
    }
    gapless = {comparable_match(m) for m in found if len(m.vars["all"]) == m.end - m.start + 1}
    assert answers(replace(pattern, strategy=Strategy.MAX), events) == maximal
    assert answers(replace(pattern, strategy=Strategy.STRICT), events) == gapless


@quick
@given(cases())
def test_any_gives_one_match_for_each_end_that_has_some(case: tuple[Pattern, Events]) -> None:
    pattern, events = _plain(case)
    everything = _by_end(evaluate(pattern, events))
    chosen = evaluate(replace(pattern, strategy=Strategy.ANY), events)
    assert sorted(m.end for m in chosen) == sorted(everything)
    assert all(m in everything[m.end] for m in chosen)


@quick
@given(cases(untimed=False), st.integers(1, 6))
def test_a_larger_window_keeps_all_matches_of_a_smaller_one(
    case: tuple[Pattern, Events], size: int
) -> None:
    pattern, events = _plain(case)
    for unit, scale in ((Unit.EVENTS, 1), (Unit.TIME, grammar.MILLISECOND)):
        smaller, larger, unbounded = (
            answers(replace(pattern, within=window), events)
            for window in (
                Window(unit, Fraction(size * scale)),
                Window(unit, Fraction(size * scale + scale)),
                None,
            )
        )
        assert smaller <= larger <= unbounded


@quick
@given(cases(partition=False, windows=(None, Unit.EVENTS), strategies=tuple(Strategy)))
def test_a_partition_answers_as_if_its_events_were_alone(
    case: tuple[Pattern, Events],
) -> None:
    pattern, events = case
    pattern = replace(pattern, consume=Consume.NONE, limit=None)
    for row, event in enumerate(events):
        event["k"] = (None, "p", "q")[row % 3]
    expected = set()
    for key in "pq":
        rows = [row for row, event in enumerate(events) if event["k"] == key]
        for match in evaluate(pattern, [events[row] for row in rows]):
            held = {x: [rows[i] for i in found] for x, found in match.vars.items()}
            expected.add(comparable_match((rows[match.start], rows[match.end], held)))
    assert answers(replace(pattern, partition=(("k",),)), events) == expected


@quick
@given(cases(untimed=False), st.randoms(use_true_random=False))
def test_the_order_in_which_events_are_given_changes_row_numbers_alone(
    case: tuple[Pattern, Events], random: Random
) -> None:
    pattern, events = case
    for row, event in enumerate(sorted(events, key=lambda event: event["ts"])):
        event["ts"] += row  # no ties
    shuffled = random.sample(range(len(events)), len(events))
    back = {old: new for new, old in enumerate(shuffled)}
    expected = {
        comparable_match(
            (back[m.start], back[m.end], {x: [back[r] for r in s] for x, s in m.vars.items()})
        )
        for m in evaluate(pattern, events)
    }
    assert answers(pattern, [events[row] for row in shuffled]) == expected


@quick
@given(cases(disorder=False, partition=False))
def test_after_consumption_matches_of_different_ends_share_nothing(
    case: tuple[Pattern, Events],
) -> None:
    pattern, events = _plain(case)
    consumed = evaluate(replace(pattern, consume=Consume.ANY), events)
    for m, n in product(consumed, repeat=2):
        assert m.end == n.end or m.end < n.start or n.end < m.start
    first = min((m.end for m in evaluate(pattern, events)), default=None)
    assert min((m.end for m in consumed), default=None) == first


@quick
@given(cases(), st.integers(0, 3))
def test_limit_cuts_each_end_to_so_many(case: tuple[Pattern, Events], limit: int) -> None:
    pattern, events = case
    everything = dict(count_matches(replace(pattern, limit=None), events))
    limited = dict(count_matches(replace(pattern, limit=limit), events))
    assert limited == {end: min(number, limit) for end, number in everything.items() if limit}


@quick
@given(cases(selects=("*",), strategies=(Strategy.ALL,), consume=(Consume.NONE,), limit=False))
def test_none_is_the_set_of_intervals(case: tuple[Pattern, Events]) -> None:
    pattern, events = case
    intervals = {(m.start, m.end) for m in evaluate(pattern, events)}
    alone = evaluate(replace(pattern, select=Select(False)), events)
    assert sorted((m.start, m.end) for m in alone) == sorted(intervals)
    assert all(not m.vars for m in alone)


@quick
@given(st.integers(0, 10**6))
def test_matches_come_by_end_with_the_latest_start_first(seed: int) -> None:
    pattern, events = grammar.random_case(seed, replace(EVERYTHING, disorder=False))
    order = [(m.end, -m.start) for m in evaluate(pattern, events)]
    assert order == sorted(order)


def test_an_empty_valuation_is_neutral_in_sequences_and_never_a_match() -> None:
    events: Events = [{"type": "A"}, {"type": "B"}]
    maybe = cel.Optional(A)
    assert EPSILON in find_valuations(maybe, events)
    assert find_valuations(cel.Sequence((maybe, maybe)), []) == {EPSILON}
    assert [(m.start, m.end) for m in evaluate(Pattern(maybe), events)] == [(0, 0)]


def test_a_window_on_floats_is_measured_in_floats() -> None:
    events: Events = [{"type": "A", "f": 0.1}, {"type": "B", "f": 0.1 + 0.1}]
    window = Window(Unit.ATTRIBUTE, Fraction(1, 10), Attribute(("f",)))
    assert len(evaluate(Pattern(cel.Sequence((A, B)), within=window), events)) == 1


def test_a_key_of_nan_or_null_is_no_key_and_one_equals_one_point_zero() -> None:
    values = (1, float("nan"), 1.0, float("nan"), None, True)
    events: Events = [{"type": "A", "k": k} for k in values]
    pattern = Pattern(cel.Sequence((A, A)), partition=(("k",),))
    assert [(m.start, m.end) for m in evaluate(pattern, events)] == [(0, 2)]


def test_the_stream_of_events_that_do_not_name_theirs() -> None:
    pattern = Pattern(cel.Event("A", "S"), streams=("S",))
    assert len(evaluate(pattern, [{"type": "A"}])) == 1
    both = replace(pattern, streams=("S", "T"))
    assert len(evaluate(both, [{"type": "A"}], stream="S")) == 1
    assert evaluate(both, [{"type": "A"}], stream="T") == []


def test_time_may_tick_in_other_units() -> None:
    window = Window(Unit.TIME, Fraction(5 * 10**9))
    pattern = Pattern(cel.Sequence((A, B)), within=window)
    events: Events = [{"kind": "A", "at": 0}, {"kind": "B", "at": 5}, {"kind": "B", "at": 6}]
    found = evaluate(pattern, events, time="at", type="kind", tick=10**9)
    assert [(m.start, m.end) for m in found] == [(0, 1)]
