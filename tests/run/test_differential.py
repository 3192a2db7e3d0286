"""The embedded engine against the oracle, on random queries and streams.

In CI the cases are the same each time; `make fuzz` looks for new ones, as many as wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Consume, Pattern, Strategy, Unit, counts_only
from cernis.results.match import Match
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.grammar import FAMILIES, Family
from tools.cases.grammar import split_batches as split
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table, split_by_stream

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

many = settings(
    max_examples=max(80, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)

some = settings(
    max_examples=max(33, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


def streams(pattern: Pattern, events: Events) -> pa.Table:
    return make_table(events, timed=True if needs_time(pattern) else None)


def needs_time(pattern: Pattern) -> bool:
    return pattern.within is not None and pattern.within.unit is Unit.TIME


def compare(pattern: Pattern, events: Events, found: cernis.Matches) -> None:
    if counts_only(pattern):
        counted = found.counts().to_pydict()
        assert_counts_agree(pattern, events, zip(counted["end"], counted["count"], strict=True))
        return
    matches = list(found)
    assert_agrees(pattern, events, matches)
    assert found.count() == len(matches)
    if pattern.within is None or pattern.within.unit is Unit.EVENTS:
        # a window's clock may read the same for several starts; here it never does
        order = [(m.end_ts, m.end, -m.start_ts, -m.start) for m in matches]
        assert order == sorted(order)


@many
@given(cases())
def test_the_engine_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, cernis.query(pattern).run(streams(pattern, events)))


@many
@given(cases(strategies=(Strategy.NEXT, Strategy.LAST, Strategy.MAX, Strategy.ANY)))
def test_the_strategies_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, cernis.query(pattern).run(streams(pattern, events)))


@many
@given(cases(binary=True, previous=True, partition_by_inside=True, size=7, events=7))
def test_comparisons_between_events_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, cernis.query(pattern).run(streams(pattern, events)))


@many
@given(cases(partition=True, windows=(Unit.EVENTS, Unit.ATTRIBUTE), consume=tuple(Consume)))
def test_windows_inside_partitions_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, cernis.query(pattern).run(streams(pattern, events)))


@many
@given(cases(streams=("S", "T"), untimed=False, windows=(None, Unit.EVENTS, Unit.TIME)))
def test_several_streams_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    read = [e for e in events if not pattern.streams or e["_stream"] in pattern.streams]
    events, apart = split_by_stream(read)
    for name in pattern.streams:
        apart.setdefault(name, [])
    tables = {name: make_table(part, timed=True) for name, part in apart.items()}
    if tables:
        compare(pattern, events, cernis.query(pattern).run(tables))


def pieces(pattern: Pattern, events: Events, at: list[int]) -> Iterator[pa.Table]:
    whole = streams(pattern, events)
    for piece in split(range(len(events)), at):
        yield whole.slice(piece[0] if piece else 0, len(piece))


def in_order(events: Events) -> Events:
    return sorted(events, key=lambda e: e["ts"]) if events and "ts" in events[0] else events


def plain(match: Match) -> tuple[int, int, dict[str, tuple[int, ...]]]:
    return match.start, match.end, {x: tuple(rows) for x, rows in match.vars.items()}


@many
@given(
    cases(binary=True, previous=True, disorder=False).flatmap(
        lambda c: st.tuples(st.just(c), cuts(len(c[1])))
    )
)
def test_any_split_into_batches_gives_the_same_matches_in_the_same_order(
    drawn: tuple[Case, list[int]],
) -> None:
    (pattern, events), at = drawn
    if counts_only(pattern):
        return
    query = cernis.query(pattern)
    events = in_order(events)
    whole = [plain(m) for m in query.run(streams(pattern, events))]
    session = query.session()
    parts = [plain(m) for piece in pieces(pattern, events, at) for m in session.push(piece)]
    assert parts == whole


@many
@given(
    cases(binary=True, previous=True, disorder=False).flatmap(
        lambda c: st.tuples(st.just(c), cuts(len(c[1])))
    )
)
def test_freezing_and_thawing_between_batches_changes_nothing(
    drawn: tuple[Case, list[int]],
) -> None:
    (pattern, events), at = drawn
    if counts_only(pattern):
        return
    events = in_order(events)
    whole = [plain(m) for m in cernis.query(pattern).run(streams(pattern, events))]
    session = cernis.query(pattern).session()
    parts = []
    for piece in pieces(pattern, events, at):
        parts += [plain(m) for m in session.push(piece)]
        session = cernis.query(pattern).thaw(session.freeze())
    assert parts == whole


# ------------------------------------------------- events that are compared


@pytest.mark.parametrize("family", FAMILIES)
@some
@given(data=st.data())
def test_every_family_of_correlated_queries_agrees_with_the_oracle(
    family: Family, data: st.DataObject
) -> None:
    pattern, events = data.draw(cases(families=(family,), events=14))
    compare(pattern, events, cernis.query(pattern).run(streams(pattern, events)))


@pytest.mark.parametrize("family", FAMILIES)
@some
@given(data=st.data())
def test_correlation_in_windows_agrees_with_the_oracle(family: Family, data: st.DataObject) -> None:
    """Small windows over streams longer than they are, so that events are forgotten."""
    short = cases(families=(family,), events=7, windows=tuple(Unit), disorder=False)
    pattern, drawn = data.draw(short)
    pattern = replace(pattern, strategy=Strategy.ALL, consume=Consume.NONE)
    events = repeated(in_order(drawn), 2)
    compare(pattern, events, cernis.query(pattern).run(streams(pattern, events)))


@pytest.mark.parametrize("family", FAMILIES)
@some
@given(data=st.data())
def test_correlation_does_not_depend_on_batches_nor_on_freezing(
    family: Family, data: st.DataObject
) -> None:
    pattern, events = data.draw(cases(families=(family,), events=14, disorder=False))
    at = data.draw(cuts(len(events)))
    events = in_order(events)
    query = cernis.query(pattern)
    whole = query.run(streams(pattern, events))
    session, frozen = query.session(), query.session()
    parts, again = [], []
    for piece in pieces(pattern, events, at):
        parts.append(session.push(piece))
        again.append(frozen.push(piece))
        frozen = cernis.query(pattern).thaw(frozen.freeze())
    for pushed in (parts, again):
        if counts_only(pattern):
            counts = [row for part in pushed for row in part.counts().to_pylist()]
            assert counts == whole.counts().to_pylist()
        else:
            assert [plain(m) for part in pushed for m in part] == [plain(m) for m in whole]


# ------------------------------------------------------------------ samples


@pytest.mark.parametrize("k", [1, 3, 1000])
@many
@given(case=cases(limit=False))
def test_a_sample_is_made_of_distinct_matches(k: int, case: Case) -> None:
    pattern, events = case
    if counts_only(pattern):
        return
    found = cernis.query(pattern).run(streams(pattern, events))
    everything = {(m.start, m.end, str(m.vars)) for m in found}
    sample = [(m.start, m.end, str(m.vars)) for m in found.sample(k, seed=1)]
    assert len(sample) == len(set(sample)) == min(k, len(everything))
    assert set(sample) <= everything


def repeated(events: Events, times: int) -> Events:
    """The events again and again, later and later, with attributes that go on rising."""
    span = 1 + max((event.get("ts", 0) for event in events), default=0)
    rise = {
        name: 1 + max((event[name] for event in events if name in event), default=0)
        for name in ("n", "m")
    }
    return [
        {
            name: value + again * (span if name == "ts" else rise.get(name, 0))
            if name in ("ts", "n", "m")
            else value
            for name, value in event.items()
        }
        for again in range(times)
        for event in events
    ]


@many
@given(cases(disorder=False, windows=tuple(Unit), all_=False, size=7))
def test_how_often_memory_is_given_back_changes_nothing(case: Case) -> None:
    pattern, drawn = case
    events = repeated(in_order(drawn), 30)
    query = cernis.query(pattern)
    plenty = query.run(streams(pattern, events))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.engine.unary.runtime.FIRST_NODES", 128)
        session = query.session()
        scarce = session.push(streams(pattern, events))
    if not counts_only(pattern):  # numbers alone need no arena
        assert len(session.engine.memory.arena) < 100_000
    assert scarce.counts().equals(plenty.counts())
    if not counts_only(pattern):
        assert [plain(m) for m in scarce.head(200)] == [plain(m) for m in plenty.head(200)]
