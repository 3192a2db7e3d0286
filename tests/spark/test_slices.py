"""Slices of time or positions find the matches of the oracle wherever the line is cut. Without
Spark: slices are made by hand, and read by the code of the workers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import cernis
from cernis.events.order import Scale
from cernis.pattern.query import Consume, Pattern, Unit, counts_only
from cernis.run.session import RunOptions
from cernis.work.columns import NOW, OWN, PART, ROW
from cernis.work.layout import (
    ahead_in_events,
    ahead_in_ticks,
    back_in_events,
    back_in_ticks,
    choose_layout,
)
from cernis.work.query import QueryWork, answer_schema
from cernis.work.reading import StreamColumns
from cernis.work.reading import recognize_rows as recognize
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.strategies import cases, crossing_cases, guarded_cases
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
many = settings(
    max_examples=max(20, settings.default.max_examples // 4),
    suppress_health_check=list(HealthCheck),
)
SCALE = Scale(10**6, 10**6)


def read_slices(
    pattern: Pattern, events: Events, cuts: Sequence[int], complete: bool
) -> Iterator[dict[str, Any]]:
    """Yield the matches of all slices, which are cut at these times or positions."""
    query = cernis.query(pattern)
    layout = choose_layout(query.plan, timed=True)
    rows = sorted(enumerate(events), key=lambda row: (row[1]["ts"], row[0]))
    table = make_table([event for _, event in rows], timed=True)
    table = table.append_column(ROW, pa.array([row for row, _ in rows], pa.int64()))
    columns = {name: name for name in table.column_names if name != ROW}
    work = QueryWork(
        plan=query.plan,
        streams=(StreamColumns(name="S", columns=columns),),
        reading=RunOptions(time="ts", complete=complete),
        scale=SCALE,
        form="lines",
    )
    work = replace(work, schema=answer_schema(work, table.slice(0, 0)))
    times = [event["ts"] for _, event in rows]
    table = table.append_column(NOW, pa.array([max(times)] * len(times), pa.int64()))
    if layout.counts_in_slices:
        line, back, ahead = [*range(len(rows))], back_in_events(pattern), ahead_in_events(pattern)
    else:
        line, reach = times, back_in_ticks(pattern, SCALE)
        assert reach is not None
        back, ahead = reach, ahead_in_ticks(pattern, SCALE)
    ends = [-1, *sorted(cuts), max(line) + 1]
    parts = []
    for number, (low, high) in enumerate(pairwise(ends)):
        read = [low - back <= at < high + ahead for at in line]
        own = pa.array([low <= at < high for at in line])
        part = table.append_column(OWN, own).append_column(
            PART, pa.array([number] * len(times), pa.int32())
        )
        parts.append(part.filter(pa.array(read)))
    for batch in recognize(work, pa.concat_tables(parts).to_batches()):
        yield from map(json.loads, batch.column("line").to_pylist())


def check_slices(case: tuple[Pattern, Events], cuts: Sequence[int], complete: bool) -> None:
    pattern, events = case
    layout = choose_layout(cernis.query(pattern).plan, timed=True)
    assume(events and (layout.cut or layout.counts_in_slices))
    events = [{**event, "ts": event.get("ts", i)} for i, event in enumerate(events)]
    found = list(read_slices(pattern, events, cuts, complete))
    if counts_only(pattern):
        counted = [(line["end"], line["count"]) for line in found]
        assert_counts_agree(pattern, events, counted, complete=complete)
    else:
        triples = ((line["start"], line["end"], line["vars"]) for line in found)
        assert_agrees(pattern, events, triples, complete=complete)


CUTS = st.lists(st.integers(0, 20), max_size=4)


@pytest.mark.parametrize("link", ["free", "equal", "residual"])
@many
@given(data=st.data(), cuts=CUTS, complete=st.booleans())
def test_what_must_be_absent_around_a_slice_counts(
    link: Any, data: st.DataObject, cuts: list[int], complete: bool
) -> None:
    sides = data.draw(st.sampled_from([("after",), ("before",), ("after", "before")]))
    features: dict[str, Any] = dict.fromkeys(sides, (link,))
    unit = data.draw(st.sampled_from([Unit.TIME, Unit.EVENTS]))
    features |= {"consume": (Consume.NONE,), "windows": (unit,), "untimed": False}
    check_slices(data.draw(cases(**features, size=5)), cuts, complete)


@many
@given(
    case=cases(
        gaps=True, consume=(Consume.NONE,), windows=(None, Unit.EVENTS), size=5, untimed=False
    ),
    cuts=CUTS,
)
def test_gaps_bound_what_a_slice_reads(case: Any, cuts: list[int]) -> None:
    check_slices(case, cuts, complete=False)


@many
@given(case=guarded_cases() | crossing_cases(), cuts=CUTS)
def test_guards_are_the_same_in_slices(case: Any, cuts: list[int]) -> None:
    check_slices(case, cuts, complete=False)


@pytest.mark.parametrize(
    ("clauses", "line"),
    [
        ("A WITHOUT B FOR 5 EVENTS", "positions"),
        ("A : B : C", "positions"),
        ("A ; B WITHOUT C FOR 2 EVENTS WITHOUT C BEFORE 3 EVENTS WITHIN 9 EVENTS", "positions"),
        ("A ;[5 EVENTS] B", "positions"),
        ("A WITHOUT B FOR 5 SECONDS", "time"),
        ("A : B WITHOUT C FOR 5 SECONDS", ""),
        ("A ; B WITHOUT C FOR 5 EVENTS", ""),
        ("A ; B WITHOUT C FOR 5 EVENTS WITHIN 1 SECOND", ""),
        ("A WITHOUT B FOR 5 EVENTS FORGET AFTER 1 HOUR", ""),
    ],
)
def test_bounds_in_time_or_in_events_give_slices(clauses: str, line: str) -> None:
    query = cernis.query(f"SELECT * FROM S WHERE {clauses}")
    layout = choose_layout(query.plan, timed=True)
    assert layout.distribution.value == ("sliced" if line else "single")
    assert layout.counts_in_slices == (line == "positions")
    assert f"{layout.distribution.value}: " in str(query.explain())
    assert f"slices of {line}" in str(query.explain()) or not line


def test_an_order_and_its_payment_may_lie_in_different_slices() -> None:
    text = "SELECT * WHERE ORDER AS o WITHOUT (PAY AS p FILTER p[id] = o[id]) FOR 5 MILLISECONDS"
    kinds = [("ORDER", 1, 0), ("ORDER", 2, 3), ("PAY", 2, 8), ("ORDER", 3, 9), ("NOTE", 0, 11)]
    events = [{"type": kind, "id": key, "ts": ts} for kind, key, ts in kinds]
    pattern = cernis.query(text).pattern
    assert choose_layout(cernis.query(text).plan, timed=True).distribution.value == "sliced"
    for cut in range(12):
        found = read_slices(pattern, events, [cut], complete=False)
        assert [line["end"] for line in found] == [0]
        complete = read_slices(pattern, events, [cut], complete=True)
        assert sorted(line["end"] for line in complete) == [0, 3]
