from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from cernis.automata.unary.construct import is_correlated
from cernis.languages.ceql.parse import parse
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.check import check
from cernis.pattern.query import Consume, Pattern, SelectedTerm, Strategy, Unit, Variable
from cernis.testing.oracle import evaluate, order_rows
from tools.cases.grammar import (
    EVERYTHING,
    FAMILIES,
    RISING,
    Events,
    Family,
    Features,
    find_bound_variables,
    random_case,
    split_batches,
)
from tools.cases.strategies import cases, cuts, patterns, streams

MANY = range(400)


@pytest.fixture(scope="module")
def everything() -> list[tuple[Pattern, Events]]:
    rest = replace(EVERYTHING, gaps=True, strategies=(Strategy.LONGEST,))
    return [random_case(seed, EVERYTHING if seed % 4 else rest) for seed in MANY]


def nodes(found: list[tuple[Pattern, Events]]) -> Counter[type]:
    return Counter(type(node) for pattern, _ in found for node in cel.walk(pattern.formula))


def test_random_cases_often_match() -> None:
    hits = sum(bool(evaluate(*random_case(seed))) for seed in MANY)
    assert hits > 0.4 * len(MANY)


@pytest.mark.parametrize("family", FAMILIES)
def test_queries_of_a_family_compare_events_and_often_match(family: Family) -> None:
    found = [random_case(seed, Features(families=(family,), events=14)) for seed in range(200)]
    assert all(is_correlated(pattern.formula) for pattern, _ in found)
    assert all(check(pattern) == [] and parse(str(pattern)) == pattern for pattern, _ in found)
    assert sum(bool(evaluate(*each)) for each in found) > 0.2 * len(found)


def test_every_operator_and_clause_comes_up(everything: list[tuple[Pattern, Events]]) -> None:
    used = nodes(everything)
    assert all(used[kind] >= 5 for kind in cel.Formula.__args__)
    queries = [pattern for pattern, _ in everything]
    assert {q.strategy for q in queries} == set(Strategy)
    assert {q.consume for q in queries} == set(Consume)
    assert {q.within.unit if q.within else None for q in queries} == {None, *Unit}
    assert any(q.limit for q in queries)
    assert any(len(q.partition) > 1 for q in queries)
    assert any(not q.select.everything and not q.select.items for q in queries)


def test_streams_have_ties_gaps_nulls_and_disorder(
    everything: list[tuple[Pattern, Events]],
) -> None:
    times = [[event["ts"] for event in events] for _, events in everything if "ts" in str(events)]
    assert any(sorted(each) != each for each in times)
    assert any(len(set(each)) < len(each) for each in times)
    assert any(events and "ts" not in events[0] for _, events in everything)
    values = [value for _, events in everything for event in events for value in event.values()]
    assert None in values
    assert any(value != value for value in values)


@pytest.mark.parametrize(
    ("switch", "gone"),
    [
        ("all_", cel.All),
        ("unless", cel.Unless),
        ("not_", cel.Not),
        ("optional", cel.Optional),
        ("iterate", cel.Iterate),
        ("contiguous", cel.Contiguous),
        ("filters", cel.Filter),
        ("partition_by_inside", cel.PartitionBy),
    ],
)
def test_an_operator_that_is_switched_off_does_not_come_up(switch: str, gone: type) -> None:
    switches: dict[str, Any] = {switch: False}
    features = replace(EVERYTHING, **switches)
    found = [random_case(seed, features) for seed in MANY]
    if switch == "filters":
        found = [
            (p, e) for p, e in found if not any(isinstance(n, cel.Not) for n in cel.walk(p.formula))
        ]
    assert nodes(found)[gone] == 0


def test_without_binary_no_filter_compares_events() -> None:
    def compares(condition: pred.Condition) -> bool:
        match condition:
            case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
                return any(map(compares, parts))
            case _:
                return isinstance(condition, pred.Compare)

    def some(features: Features) -> bool:
        return any(
            compares(node.condition)
            for seed in MANY
            for node in cel.walk(random_case(seed, features)[0].formula)
            if isinstance(node, cel.Filter)
        )

    assert some(Features(binary=True, previous=True))
    assert some(Features(binary=True))
    assert not some(Features(binary=False))


@settings(max_examples=150, deadline=None)
@given(cases(binary=True, previous=True, partition_by_inside=True, streams=("S", "T")))
def test_a_random_query_is_well_formed(case: tuple[Pattern, Events]) -> None:
    pattern, _ = case
    for node in cel.walk(pattern.formula):
        if isinstance(node, cel.Filter):
            assert _variables(node.condition) <= set(find_bound_variables(node.body))
        elif isinstance(node, cel.Not):
            allowed = (cel.Event, cel.As, cel.Choice, cel.Filter)
            assert all(isinstance(below, allowed) for below in cel.walk(node.body))
        elif isinstance(node, cel.Iterate):
            assert node.high is None or 1 <= node.high >= node.low
    for item in pattern.select.items:
        match item:
            case Variable(name=x):
                assert x in find_bound_variables(pattern.formula)
            case SelectedTerm(term=term):
                assert {*pred.variables_of(term)} <= {*find_bound_variables(pattern.formula)}
    assert check(pattern) == []
    assert parse(str(pattern)) == pattern


def _variables(condition: pred.Condition) -> set[str]:
    match condition:
        case pred.Holds(variable=x):
            return {x}
        case pred.Compare(left=left, right=right):
            return {left.variable, right.variable}
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            return set().union(*map(_variables, parts))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_rising_attributes_never_decrease_and_time_windows_have_times(
    case: tuple[Pattern, Events],
) -> None:
    pattern, events = case
    ordered = [events[row] for row in order_rows(pattern, events)]
    for name in RISING:
        values = [event[name] for event in ordered if name in event]
        assert values == sorted(values)
    if pattern.within and pattern.within.unit is Unit.TIME:
        assert all("ts" in event for event in events)


@settings(max_examples=50, deadline=None)
@given(st.data(), streams())
def test_the_batches_of_a_split_make_up_the_stream(data: st.DataObject, events: Events) -> None:
    split = split_batches(events, data.draw(cuts(len(events))))
    assert [event for batch in split for event in batch] == events


def test_a_counterexample_shrinks_to_the_smallest() -> None:
    smallest = find(
        patterns(),
        lambda p: any(isinstance(n, cel.Unless) for n in cel.walk(p.formula)),
        settings=settings(phases=tuple(Phase)),  # `ci` leaves shrinking out
    )
    assert len(list(cel.walk(smallest.formula))) == 3
    assert (smallest.within, smallest.partition, smallest.limit) == (None, (), None)
