"""Aggregates over all matches, against matches that are listed one by one and the oracle."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from math import comb, inf, isclose, isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.engine.unary.aggregate import (
    EndAggregates,
    Measure,
    MeasuredColumn,
    MeasuredPairs,
)
from cernis.engine.words import list_integers
from cernis.events.batch import EventBatch
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.plan.plan import Plan
from cernis.run.feed import SlidingFeed
from cernis.run.session import RunOptions, Session
from cernis.state import pack, unpack
from cernis.testing import oracle
from tools.cases.grammar import split_batches as split
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

many = settings(
    max_examples=max(80, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)
ELIGIBLE: dict[str, Any] = {
    "strategies": (Strategy.ALL, Strategy.STRICT, Strategy.NEXT),
    "consume": (Consume.NONE,),
    "selects": ("*", "list", "NONE"),
    "limit": False,
}

# ------------------------------------------------------- values, by an event's row

INTEGERS: list[int | None] = [3, -5, None, 2**62, 0, -(2**63), 7, None, 2**63 - 1, -1, 2**61]
REALS: list[float | None] = [0.5, None, -2.25, 1e3, nan, 0.0, -0.0, None, inf, 4.0, -8.5]


def integer(row: int) -> int | None:
    return INTEGERS[row * 7 % len(INTEGERS)]


def real(row: int) -> float | None:
    return REALS[row * 5 % len(REALS)]


def column(rows: Sequence[int], is_real: bool) -> MeasuredColumn:
    values = [real(row) if is_real else integer(row) for row in rows]
    dtype = np.float64 if is_real else np.int64
    filled = np.array([0 if value is None else value for value in values], dtype)
    return MeasuredColumn(filled, np.array([value is not None for value in values], np.bool_))


def measures_of(variables: Sequence[str]) -> list[Measure]:
    """Return for each variable its events, an attribute of integers and one of floats."""
    return [
        measure
        for variable in variables
        for measure in (
            Measure(variable),
            Measure(variable, total=True, least=True, greatest=True),
            Measure(variable, is_real=True, total=True, least=True, greatest=True),
        )
    ]


# ------------------------------------------------------------------------ running


class RowFeed(SlidingFeed):
    """Measures values that an event's row decides, and keeps the aggregates."""

    def __init__(self, plan: Plan, encode: Any, measures: Sequence[Measure]) -> None:
        assert plan.unary is not None
        super().__init__(plan.unary, plan.settings, encode, dict.fromkeys(measures, ()))
        self.found: list[EndAggregates] = []

    def _read_measures(self, batch: EventBatch) -> list[MeasuredColumn]:
        rows = batch.rows.tolist()
        return [column(rows, m.is_real) if m.total else MeasuredColumn() for m in self.measures]

    def take(self, batch: EventBatch, keys: Any, clock: Any) -> list[Any]:
        self.found += super().take(batch, keys, clock)
        return []


def aggregate(
    plan: Plan, batches: Sequence[Any], measures: Sequence[Measure], freeze_before: int = -1
) -> dict[int, tuple[Any, ...]]:
    """Return the aggregates of each end: the count, then (pairs, total, least, greatest)."""
    session: Session[Any] = Session(plan, RunOptions())
    found: list[EndAggregates] = []
    session.pipeline.run.feed = feed = RowFeed(plan, session._encode, measures)
    feed.found = found
    for number, batch in enumerate(batches):
        if number == freeze_before:
            session.forget()
            tree = unpack(pack(feed.freeze()))
            other = cernis.query(plan.pattern).plan
            session.pipeline.run.feed = feed = RowFeed(other, session._encode, measures)
            feed.found = found
            feed.thaw(tree)
        session.push(batch)
    return read_all(found)


def read_all(found: Sequence[EndAggregates]) -> dict[int, tuple[Any, ...]]:
    ends: dict[int, tuple[Any, ...]] = {}
    for each in found:
        counts = list_integers(each.counts)
        measured = [read_columns(part) for part in each.measures]
        for i, end in enumerate(each.ends.tolist()):
            assert end not in ends
            columns = [tuple(None if a is None else a[i] for a in part) for part in measured]
            ends[end] = (int(counts[i]), *columns)
    return ends


def read_columns(part: MeasuredPairs) -> list[Any]:
    total = part.total if part.total is None else list_integers(part.total)
    return [list_integers(part.pairs), total, part.least, part.greatest]


def expect(matches: Sequence[Any], measures: Sequence[Measure]) -> dict[int, list[Any]]:
    """Aggregate matches one by one."""
    by_end = defaultdict(list)
    for match in matches:
        by_end[match.interval[1]].append(match)
    found: dict[int, list[Any]] = {}
    for end, ended in by_end.items():
        found[end] = [len(ended)]
        for measure in measures:
            rows = [row for match in ended for row in match.vars.get(measure.variable, ())]
            if not measure.total:
                found[end].append((len(rows), None, None, None))
                continue
            values = [real(row) if measure.is_real else integer(row) for row in rows]
            present = [value for value in values if value is not None]
            least = greatest = None
            if present:
                ordered = [v for v in present if not isnan(v)] or present
                least, greatest = min(ordered), max(ordered)
            found[end].append((len(present), sum(present), least, greatest))
    return found


def same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) or isinstance(got, float):
        if isnan(wanted) or isnan(got):
            return isnan(wanted) and isnan(got)
        return isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return int(got) == wanted


def compare(
    got: dict[int, tuple[Any, ...]], wanted: dict[int, list[Any]], measures: Sequence[Measure]
) -> None:
    assert {end: each[0] for end, each in got.items()} == {e: w[0] for e, w in wanted.items()}
    for end, (_, *columns) in got.items():
        for measure, found, expected in zip(measures, columns, wanted[end][1:], strict=True):
            assert int(found[0]) == expected[0]
            if expected[0] and measure.total:
                pairs = zip(found[1:], expected[1:], strict=True)
                assert all(same(g, w) for g, w in pairs), (end, measure, found, expected)


def streams(pattern: Pattern, events: Events) -> Any:
    timed = pattern.within is not None and pattern.within.unit is Unit.TIME
    return make_table(events, timed=True if timed else None)


def check(
    pattern: Pattern, events: Events, batches: Sequence[Any], freeze_before: int = -1
) -> None:
    query = cernis.query(pattern)
    if query.plan.unary is None or query.plan.listed:
        return
    measures = measures_of(query.plan.variables)
    matches = list(query.run(streams(pattern, events)))
    got = aggregate(query.plan, batches, measures, freeze_before)
    compare(got, expect(matches, measures), measures)


# -------------------------------------------------------------------------- tests


@many
@given(cases(**ELIGIBLE))
def test_aggregates_agree_with_matches_listed_one_by_one(case: Case) -> None:
    pattern, events = case
    check(pattern, events, [streams(pattern, events)])


@many
@given(cases(**ELIGIBLE, windows=(Unit.EVENTS, Unit.TIME, Unit.ATTRIBUTE), events=16, size=5))
def test_aggregates_agree_inside_windows(case: Case) -> None:
    pattern, events = case
    check(pattern, events, [streams(pattern, events)])


@many
@given(
    cases(**ELIGIBLE, disorder=False, events=14).flatmap(
        lambda c: st.tuples(st.just(c), cuts(len(c[1])))
    )
)
def test_any_split_into_batches_gives_the_same_aggregates(drawn: tuple[Case, list[int]]) -> None:
    (pattern, events), at = drawn
    events = sorted(events, key=lambda e: e["ts"]) if events and "ts" in events[0] else events
    whole = streams(pattern, events)
    pieces = split(range(len(events)), at)
    check(pattern, events, [whole.slice(p[0] if p else 0, len(p)) for p in pieces])


@many
@given(
    cases(**ELIGIBLE, disorder=False, events=14).flatmap(
        lambda c: st.tuples(st.just(c), st.integers(0, len(c[1])))
    )
)
def test_freezing_and_thawing_changes_nothing(drawn: tuple[Case, int]) -> None:
    (pattern, events), at = drawn
    events = sorted(events, key=lambda e: e["ts"]) if events and "ts" in events[0] else events
    whole = streams(pattern, events)
    check(pattern, events, [whole.slice(0, at), whole.slice(at)], freeze_before=1)


@many
@given(cases(**ELIGIBLE))
def test_counts_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    plan = cernis.query(pattern).plan
    if plan.listed or plan.unary is None:
        return
    got = aggregate(plan, [streams(pattern, events)], [])
    rows = oracle.order_rows(pattern, events)
    expected = dict(oracle.count_matches(pattern, events))
    assert {rows[end]: each[0] for end, each in got.items()} == expected


def run_symbols(text: str, types: Sequence[str], parts: int = 3) -> list[tuple[int, int]]:
    """Return (end, count) for a query over events that have a type only."""
    table = make_table([{"type": type_} for type_ in types])
    step = max(1, len(types) // parts)
    pieces = [table.slice(at, step) for at in range(0, len(types), step)]
    found = aggregate(cernis.query(text).plan, pieces, [])
    return [(end, each[0]) for end, each in found.items()]


@pytest.mark.parametrize(("length", "window"), [(3, 50), (12, 200), (24, 400)])
def test_counts_beyond_64_bits_are_exact(length: int, window: int) -> None:
    text = f"SELECT * FROM S WHERE {' ; '.join('A' * length)} WITHIN {window} EVENTS"
    expected = [(end, comb(min(end, window), length - 1)) for end in range(length - 1, 3 * window)]
    # the last event is fixed, the others are any of those before it in the window
    assert run_symbols(text, "A" * 3 * window) == expected


@pytest.mark.parametrize("least", [1, -1])
def test_numbers_of_one_window_take_no_residues_for_those_of_two(least: int) -> None:
    length, rounds = 12, 150
    window = length * rounds - 1
    pattern = " ; ".join(f"T{i}" for i in range(length))
    plan = cernis.query(f"SELECT * FROM S WHERE {pattern} WITHIN {window} EVENTS").plan
    table = make_table([{"type": f"T{i % length}"} for i in range(4 * window)])
    session: Session[Any] = Session(plan, RunOptions())
    measure = Measure("T1", total=True)
    session.pipeline.run.feed = feed = RowFeed(plan, session._encode, [measure])
    feed._read_measures = lambda batch: [  # type: ignore[method-assign]
        MeasuredColumn(np.where(batch.rows % 7, 1, least))
    ]
    session.push(table)
    for end, (count, (pairs, total, *_)) in read_all(feed.found).items():
        begun = min(end // length + 1, rounds)
        assert pairs == count == comb(begun + length - 2, length - 1)
        assert total <= count if least < 0 else total == count
    assert comb(2 * rounds, length - 1) > 2**62 > 16 * count
    # bounds of sums are sums of absolute values: exact sums say nothing about them
    assert len(feed.engine.lanes.moduli.primes) == (1 if least > 0 else 2)


def test_counts_beyond_the_range_of_floats_are_exact() -> None:
    types = "A" * 3000 + "B" * 1300 + "A" * 40
    found = dict(run_symbols("SELECT * FROM S WHERE A+ WITHIN 1199 EVENTS", types, parts=7))
    assert found == {
        end: 2 ** types[max(0, end - 1199) : end].count("A")
        for end, type_ in enumerate(types)
        if type_ == "A"
    }


def test_sums_beyond_64_bits_are_exact_and_signed() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS x ; A AS y ; A AS z WITHIN 60 EVENTS")
    events = [{"type": "A"}] * 200
    measures = measures_of(("x", "z"))
    matches = list(query.run(make_table(events)))
    got = aggregate(query.plan, [make_table(events)], measures)
    compare(got, expect(matches, measures), measures)
    assert any(int(each[2][1]) > 2**70 for each in got.values())


@pytest.mark.parametrize("pattern", ["A ; B", "A ; B WITHIN 20 EVENTS", "(A ; B) OR (A ; A ; B)"])
def test_sums_over_many_starts_are_exact(pattern: str) -> None:
    events = [{"type": "A", "v": 2**61}] * 9 + [{"type": "B", "v": 1}]
    text = f"SELECT COUNT(*) AS n, SUM(A[v]) AS s FROM S WHERE {pattern} GROUP BY END"
    (row,) = cernis.query(text).run(events).to_arrow().to_pylist()
    expected = (9, 9 * 2**61) if "OR" not in pattern else (45, (9 + 2 * 36) * 2**61)
    assert (row["n"], int(row["s"])) == expected


def add_up_by_hand(types: list[str], values: list[int], window: int) -> dict[int, tuple[int, int]]:
    """Return the number of matches of A ; B+ ; C at each end, and the sum over their B."""
    found = {}
    for end in (i for i, type_ in enumerate(types) if type_ == "C"):
        begun, runs, total = 0, 0, 0
        for i in range(max(0, end - window), end):
            if types[i] == "A":
                begun += 1
            elif types[i] == "B":
                runs, more = 2 * runs + begun, runs + begun
                total = 2 * total + values[i] * more
        if runs:
            found[end] = runs, total
    return found


@pytest.mark.parametrize("window", [90, 200, 10**6])
@pytest.mark.parametrize("weights", [(0, 1, 5), (-3, 2**40), (2**62, -(2**62), 2**50, -1)])
def test_sums_over_iterations_stay_exact_as_their_residues_are_reduced(
    weights: tuple[int, ...], window: int
) -> None:
    draw = random.Random(window)
    types = [draw.choice("ABBC") for _ in range(500)]
    values = [draw.choice(weights) for _ in types]
    text = (
        "SELECT COUNT(*) AS n, SUM(B[v]) AS s FROM S WHERE A ; B+ ; C WITHIN {} EVENTS GROUP BY END"
    )
    rows = cernis.query(text.format(window)).run(
        [{"type": type_, "v": value} for type_, value in zip(types, values, strict=True)]
    )
    found = {row["end"]: (int(row["n"]), int(row["s"])) for row in rows.to_arrow().to_pylist()}
    assert found == add_up_by_hand(types, values, window)
    assert max(n for n, _ in found.values()) > 2**25


def test_many_partitions_come_and_go() -> None:
    text = "SELECT * FROM S WHERE A ; B+ ; C PARTITION BY [k] WITHIN {} EVENTS"
    draw = np.random.default_rng(3)
    keys = (np.arange(6000) // 12 + draw.integers(0, 9, 6000)).tolist()
    types = draw.choice(list("ABC"), 6000).tolist()
    events = [{"type": t, "k": str(k)} for t, k in zip(types, keys, strict=True)]
    for window in (4, 9):
        query = cernis.query(text.format(window))
        table = make_table(events)
        got = aggregate(query.plan, [table.slice(at, 700) for at in range(0, 6000, 700)], [])
        counted = query.run(table).counts().to_pydict()
        expected = dict(zip(counted["end"], counted["count"], strict=True))
        assert {end: each[0] for end, each in got.items()} == expected


def test_a_partition_counts_in_a_wide_window_as_a_stream_without_partitions() -> None:
    pattern = " ; ".join(f"T{i}" for i in range(9))
    events = [{"type": f"T{i % 9}", "k": 1} for i in range(12_000)]
    found = []
    for partition in ("", "PARTITION BY [k] "):
        text = f"SELECT COUNT(*) AS n FROM S WHERE {pattern} {partition}WITHIN 4000 EVENTS"
        rows = cernis.query(f"{text} GROUP BY END").run(events).to_arrow().to_pylist()
        found.append([(row["end"], int(row["n"])) for row in rows])
    rounds = 4000 // 9
    assert found[0] == found[1]
    assert found[0][-1] == (11_996, comb(rounds + 7, 8))


def test_a_thawed_log_leads_through_states_without_partial_matches() -> None:
    query = cernis.query("SELECT * FROM S WHERE A ALL B ALL NOT (A OR B) WITHIN 8 EVENTS")
    events = [{"type": type_} for type_ in "ABCCBACABBCACBACCABA" * 8]
    table = make_table(events)
    counted = query.run(table).counts().to_pydict()
    for at in range(1, len(events), 3):
        parts = [table.slice(0, at), table.slice(at)]
        got = aggregate(query.plan, parts, [], freeze_before=1)
        assert [(end, each[0]) for end, each in got.items()] == list(
            zip(counted["end"], counted["count"], strict=True)
        )
