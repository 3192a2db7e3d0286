"""Spark gives the answers of the corpus and of the oracle, however its rows are spread.

A job costs Spark a fraction of a second, whatever its size: cases are run many at a time,
as one union. In CI a part of the corpus runs, on one number of tasks; `make soak`
runs all of them on each, and more random ones.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from itertools import cycle
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Consume, Pattern, Strategy, Unit, counts_only
from cernis.spark.recognition import recognize
from tools.cases.corpus import CorpusCase, CorpusGroup, read_cases
from tools.cases.differential import (
    assert_agrees,
    assert_counts_agree,
    assert_groups_agree,
    comparable_group,
)
from tools.cases.strategies import cases as random_cases
from tools.cases.strategies import crossing_cases, grouped_cases, guarded_cases
from tools.cases.tables import STREAM, make_table, split_by_stream

ROW = "row number"
SPREAD = (1, 2, 3)
LONG_SPREADS = [pytest.param(spread, marks=pytest.mark.fuzz) for spread in SPREAD[1:]]
AT_ONCE = 12

Events = Sequence[dict[str, Any]]


class Job(NamedTuple):
    """A query and its events, by stream."""

    query: cernis.Query
    streams: dict[str, pa.Table]
    tables: dict[str, Any]


def job(
    pattern: Pattern | cernis.Query,
    events: Events,
    timed: bool | None = None,
    tables: Mapping[str, Sequence[Any]] | None = None,
) -> Job:
    """The events with their row numbers, as one stream or several."""
    query = pattern if isinstance(pattern, cernis.Query) else cernis.query(pattern)
    within = query.pattern.within
    in_time = within is not None and within.unit is Unit.TIME
    in_time = in_time or any(one.within.unit is Unit.TIME for one in query.pattern.without)
    in_time = in_time or Unit.TIME in query.pattern.inner_units
    if in_time or query.pattern.forget is not None:
        timed = True
    if timed is None:
        timed = any("ts" in event for event in events)
    rows: dict[str, list[int]] = {name: [] for name in query.pattern.streams}
    apart: dict[str, list[dict[str, Any]]] = {name: [] for name in query.pattern.streams}
    for row, event in enumerate(events):
        name = str(event.get(STREAM, query.pattern.streams[0] if query.pattern.streams else "S"))
        if not query.pattern.streams or name in query.pattern.streams:
            rows.setdefault(name, []).append(row)
            apart.setdefault(name, []).append(event)
    streams = {
        name: make_table(part, timed=timed).append_column(ROW, pa.array(rows[name], pa.int64()))
        for name, part in apart.items()
    }
    if not streams:
        streams = {"S": make_table([], timed=timed).append_column(ROW, pa.array([], pa.int64()))}
    return Job(query, streams, {name: list(rows) for name, rows in (tables or {}).items()})


def run(spark: Any, jobs: Sequence[Job], spread: int, **options: Any) -> list[list[Any]]:
    """The lines that each job gives, on so many partitions and tasks."""
    found: list[list[Any]] = [[] for _ in jobs]
    for first in range(0, len(jobs), AT_ONCE):
        frames = [
            _frame(spark, one, spread, options).selectExpr(f"{i} as i", "line")
            for i, one in enumerate(jobs[first : first + AT_ONCE], first)
        ]
        for row in reduce(lambda a, b: a.union(b), frames).collect():
            found[row.i].append(json.loads(row.line))
    return found


def _frame(spark: Any, one: Job, spread: int, options: dict[str, Any]) -> Any:
    frames = {
        name: spark.createDataFrame(events).repartition(spread)
        for name, events in one.streams.items()
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this query runs in a single task")
        given = frames if len(frames) > 1 else next(iter(frames.values()))
        options = {"tasks": spread, "sample": 1.0, "matches": "lines", **options}
        return recognize(given, one.query, row=ROW, tables=one.tables, **options)


def triples(lines: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int, dict[str, list[int]]]]:
    for line in lines:
        yield line["start"], line["end"], line["vars"]


# ------------------------------------------------------------------ corpus


@pytest.mark.parametrize("spread", [1, *LONG_SPREADS])
def test_the_corpus_has_the_answers_worked_out_by_hand(spark: Any, spread: int) -> None:
    chosen = [case for case in _corpus() if case.groups is None]
    _answered(spark, chosen[SPREAD.index(spread) :: 64 * len(SPREAD)], spread)


@pytest.mark.fuzz
@pytest.mark.parametrize("spread", SPREAD)
def test_all_of_the_corpus_has_these_answers_on_any_number_of_tasks(
    spark: Any, spread: int
) -> None:
    _answered(spark, _corpus(), spread)


def _corpus() -> list[CorpusCase]:
    every = [case for case in read_cases() if case.answers is None]
    return [case for case in every if not {"EVERY", "OVERALL"} & {*case.query.split()}]


def _answered(spark: Any, chosen: Sequence[CorpusCase], spread: int) -> None:
    queries = [cernis.query(case.query, lang=case.lang) for case in chosen]
    pairs = zip(queries, chosen, strict=True)
    jobs = [job(query, case.events, tables=case.tables) for query, case in pairs]
    for case, lines in zip(chosen, run(spark, jobs, spread), strict=True):
        _check(case, lines)


def test_tables_have_the_answers_worked_out_by_hand(spark: Any) -> None:
    _answered(spark, [case for case in read_cases() if case.tables][::4], 2)


@pytest.mark.parametrize("spread", [2, LONG_SPREADS[1]])
def test_suppression_has_the_answers_worked_out_by_hand(spark: Any, spread: int) -> None:
    chosen = [case for case in read_cases() if case.suppressed is not None]
    _answered(spark, chosen[SPREAD.index(spread) :: 4], spread)


@pytest.mark.parametrize("spread", [2, LONG_SPREADS[1]])
def test_groups_have_the_answers_worked_out_by_hand(spark: Any, spread: int) -> None:
    grouped = [case for case in read_cases() if case.groups is not None]
    _answered(spark, grouped[SPREAD.index(spread) :: 8], spread)


def when(line: dict[str, Any]) -> list[Any]:
    """The interval or the end of a group."""
    return [line[name] for name in ("from_ts", "to_ts", "end") if name in line]


def _check(case: CorpusCase, lines: list[dict[str, Any]]) -> None:
    if case.groups is not None:
        case.check_groups(CorpusGroup.of(when(g), g["partition"], g["values"]) for g in lines)
    if case.counts is not None and lines and "count" in lines[0]:
        counted = sorted((line["end"], line["count"]) for line in lines)
        assert counted == sorted(case.counts), case.name
    if case.matches is None:
        return
    case.check(triples(lines))
    if case.values is not None:
        values = (tuple(line["values"].values()) for line in lines)
        case.check_values(zip(triples(lines), values, strict=True))
    if case.suppressed is not None:
        numbers = (line["suppressed"] for line in lines)
        case.check_suppressed(zip(triples(lines), numbers, strict=True))


def test_a_head_that_drops_variables_has_each_answer_once(spark: Any) -> None:
    chosen = [case for case in read_cases() if case.answers is not None]
    for case, spread in zip(chosen, cycle(SPREAD), strict=False):
        one = job(cernis.query(case.query, lang="cq"), case.events)
        df = spark.createDataFrame(next(iter(one.streams.values()))).repartition(spread)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = recognize(df, one.query, row=ROW, tasks=spread, sample=1.0)
        answers = [row.asDict() for row in found.orderBy("end_ts", "end").collect()]
        names = [name for name in found.columns if name not in ("end", "end_ts")]
        got = {(a["end"], tuple(a[name] for name in names)) for a in answers}
        assert got == {(end, tuple(values[n] for n in names)) for end, values in case.answers}
        assert len(answers) == len(case.answers)


# ------------------------------------------------------------------ random


def _agree(spark: Any, drawn: Sequence[tuple[Pattern, Events]], spread: int) -> None:
    jobs = [job(pattern, events) for pattern, events in drawn]
    for (pattern, events), lines in zip(drawn, run(spark, jobs, spread), strict=True):
        if pattern.grouping is not None:
            groups = (comparable_group(when(g), g["partition"], g["values"]) for g in lines)
            assert_groups_agree(pattern, events, groups)
        elif counts_only(pattern):
            counted = [(line["end"], line["count"]) for line in lines]
            assert_counts_agree(pattern, events, counted)
        else:
            assert_agrees(pattern, events, triples(lines))


few = settings(
    max_examples=max(1, settings.default.max_examples // 100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


def many(**features: Any) -> st.SearchStrategy[list[tuple[Pattern, Events]]]:
    return st.lists(random_cases(**features), min_size=AT_ONCE, max_size=AT_ONCE)


@few
@given(many(), st.sampled_from(SPREAD))
def test_random_queries_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(
        after=("free", "equal", "residual"),
        before=("free", "equal"),
        consume=(Consume.NONE,),
        untimed=False,
    ),
    st.lists(guarded_cases() | crossing_cases(), min_size=AT_ONCE // 2, max_size=AT_ONCE // 2),
    st.sampled_from(SPREAD),
)
def test_what_must_be_absent_agrees_with_the_oracle(
    spark: Any,
    drawn: list[tuple[Pattern, Events]],
    guarded: list[tuple[Pattern, Events]],
    spread: int,
) -> None:
    _agree(spark, [*drawn[: AT_ONCE // 2], *guarded], spread)


def test_the_time_of_the_whole_input_and_its_end_decide_deadlines(spark: Any) -> None:
    query = "SELECT * FROM S WHERE A AS a WITHOUT B FOR 5 SECONDS PARTITION BY [k]"
    start = datetime(2024, 1, 2)
    seconds = [("A", "x", 0), ("A", "y", 1), ("B", "y", 3), ("A", "z", 4), ("C", None, 6)]
    rows = [(kind, key, start + timedelta(seconds=at)) for kind, key, at in seconds]
    df = spark.createDataFrame(rows, "type string, k string, ts timestamp").repartition(3)
    found = recognize(df, query, tasks=2).select("k", "deadline_ts").collect()
    assert [(row.k, row.deadline_ts) for row in found] == [("x", start + timedelta(seconds=5))]
    assert recognize(df, query, tasks=2, complete=True).count() == 2
    counted = recognize(df, query, tasks=2, matches="count", complete=True).collect()
    assert sum(row["count"] for row in counted) == 2


def test_lines_that_wait_for_events_have_their_deadline(spark: Any) -> None:
    query = "SELECT a FROM S WHERE A AS a WITHOUT B FOR 1 EVENTS PARTITION BY [k]"
    rows = [("A", 1, 0), ("A", 2, 1), ("C", 2, 2), ("C", 2, 3), ("C", 1, 4), ("C", 1, 5)]
    df = spark.createDataFrame(rows, "type string, k long, ts long").coalesce(1)
    found = recognize(df, query, tasks=3, matches="lines")
    assert found.columns == ["end", "end_ts", "deadline_ts", "line", "place"]
    ordered = found.orderBy("deadline_ts", "end", "place").collect()
    assert [(row.end, row.deadline_ts) for row in ordered] == [(1, 2), (0, 4)]


@few
@given(many(windows=(Unit.EVENTS, Unit.TIME), untimed=False), st.sampled_from(SPREAD))
def test_windows_cut_into_slices_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(strategies=(Strategy.NEXT, Strategy.LAST, Strategy.MAX, Strategy.ANY, Strategy.STRICT)),
    st.sampled_from(SPREAD),
)
def test_strategies_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(strategies=(Strategy.LONGEST,), binary=True, size=7, events=9)
    | many(
        strategies=(Strategy.LONGEST,), after=("free", "equal"), consume=(Consume.NONE,), size=5
    ),
    st.sampled_from(SPREAD),
)
def test_longest_agrees_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(binary=True, previous=True, partition_by_inside=True, size=7, events=7)
    | many(families=("neighbours",), windows=(Unit.TIME, Unit.EVENTS), events=9),
    st.sampled_from(SPREAD),
)
def test_comparisons_between_events_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(gaps=True, next_=True, binary=True, size=6, events=9, windows=(None, *Unit)),
    st.sampled_from(SPREAD),
)
def test_arrows_and_gaps_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(partition=True, windows=(Unit.EVENTS, Unit.TIME), consume=tuple(Consume)),
    st.sampled_from(SPREAD),
)
def test_partitions_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(forget=True, untimed=False, selects=("*", "list", "NONE", "COUNT")),
    st.sampled_from(SPREAD),
)
def test_lives_of_partitions_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    st.lists(
        grouped_cases(partition=True, windows=(None, Unit.EVENTS, Unit.TIME), events=10)
        | grouped_cases(after=("free", "equal"), before=("free",), size=5, events=8),
        min_size=AT_ONCE,
        max_size=AT_ONCE,
    ),
    st.sampled_from(SPREAD),
)
def test_groups_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    _agree(spark, drawn, spread)


@few
@given(
    many(streams=("S", "T"), untimed=False, windows=(None, Unit.EVENTS, Unit.TIME)),
    st.sampled_from(SPREAD),
)
def test_several_streams_agree_with_the_oracle(
    spark: Any, drawn: list[tuple[Pattern, Events]], spread: int
) -> None:
    ordered = []
    for pattern, events in drawn:
        read = [e for e in events if not pattern.streams or e[STREAM] in pattern.streams]
        ordered.append((pattern, split_by_stream(read)[0]))
    _agree(spark, ordered, spread)
