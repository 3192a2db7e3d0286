"""Timelines: aggregates of events and matches for an interval, and their picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis
from cernis.results.index_timeline import OTHER_TYPES
from cernis.views.axis import list_ticks
from cernis.views.timeline_index import Lane, TimelineIndex, cumulate

SVG = "{http://www.w3.org/2000/svg}"
SALES = "SELECT * FROM S WHERE (BUY AS b ; SELL+ AS s) FILTER b[price > 50]"


def trade(n: int = 40, step: int = 1000) -> list[dict[str, Any]]:
    kinds = ["BUY", "SELL", "SELL", "QUOTE"]
    return [
        {"type": kinds[i * 7 % 4], "ts": i // 2 * step, "price": i * 37 % 100} for i in range(n)
    ]


def run(query: str = SALES, events: Any = None, **options: Any) -> cernis.Matches:
    return cernis.query(query).run(trade() if events is None else events, **options)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 10**30)), max_size=30),
    st.integers(-5, 25),
    st.integers(1, 30),
    st.integers(1, 7),
)
def test_every_bin_has_the_events_and_ends_of_its_interval(
    events: list[tuple[int, int, int]], start: int, length: int, width: int
) -> None:
    events = sorted(events)
    times = np.array([float(time) for time, _, _ in events])
    lane_of = np.array([lane for _, lane, _ in events], np.int64)
    ends = [(i, n) for i, (_, _, n) in enumerate(events) if n % 2]
    index = TimelineIndex(
        times=times,
        rows=np.arange(len(events)),
        unit="number",
        lanes=tuple(Lane(str(i), np.flatnonzero(lane_of == i)) for i in range(3)),
        lane_of=lane_of,
        ends=np.array([i for i, _ in ends], np.int64),
        counts=cumulate([n for _, n in ends]),
    )
    view = index.view(start, start + length, width)
    edges = np.linspace(start, start + length, width + 1)

    def bin_of(time: float) -> int | None:
        inside = [i for i in range(width) if edges[i] <= time < edges[i + 1]]
        return width - 1 if time == edges[-1] else inside[0] if inside else None

    naive = Counter((lane, bin_of(time)) for time, lane, _ in events)
    for number, lane in enumerate(view.lanes):
        assert lane.bins == tuple(naive[number, i] for i in range(width))
        assert lane.total == sum(lane.bins)
    assert view.ends == tuple(
        sum(n for i, n in ends if bin_of(events[i][0]) == each) for each in range(width)
    )
    inside = [i for i, (time, _, _) in enumerate(events) if bin_of(time) is not None]
    assert [mark.row for mark in view.events] == inside


def test_a_result_has_a_lane_for_each_type_and_counts_all_its_matches() -> None:
    matches = run(time="ts")
    view = matches.timeline(width=10)
    assert [(lane.name, lane.total) for lane in view.lanes] == [
        ("BUY", 10),
        ("QUOTE", 10),
        ("SELL", 20),
    ]
    assert sum(view.ends) == matches.count()
    assert (view.start, view.stop, view.unit) == (0.0, 19_000.0, "number")


def test_the_lane_of_a_variable_has_the_events_that_it_may_hold() -> None:
    events = trade()
    view = run(events=events, time="ts").timeline(lanes="variable")
    dear = [i for i, e in enumerate(events) if e["type"] == "BUY" and e["price"] > 50]
    assert [lane.name for lane in view.lanes] == ["b", "s"]
    assert [mark.row for mark in view.events if mark.lane == 0] == dear
    assert view.lanes[1].total == 20


@pytest.mark.parametrize("lanes", ["type", "variable"])
@pytest.mark.parametrize(
    "query",
    [SALES, "SELECT * FROM S WHERE (BUY AS b ; SELL AS s) FILTER b[price] < s[price]"],
)
def test_the_matches_in_view_are_matches_of_the_result(query: str, lanes: Any) -> None:
    matches = run(f"{query} WITHIN 6 SECONDS", time="ts")
    listed = list(matches)
    assert matches.timeline(3000, 12_000, lanes=lanes).matches
    for one in matches.timeline(3000, 12_000, lanes=lanes).matches:
        held = {(mark.variable, mark.row) for mark in one.marks}
        match = listed[one.number]
        assert held == {(name, row) for name, rows in match.vars.items() for row in rows}
        assert match.start_ts <= 12_000
        assert match.end_ts >= 3000


def test_inside_a_long_match_the_match_is_shown() -> None:
    events = [{"type": kind, "ts": i * 1000} for i, kind in enumerate("AXXXXXB")]
    view = run("SELECT * FROM S WHERE A AS a ; B AS b", events, time="ts").timeline(2000, 3000)
    assert sum(view.ends) == 0
    assert [[mark.row for mark in one.marks] for one in view.matches] == [[0, 6]]


def test_a_result_of_numbers_alone_shows_how_many_matches_end_where() -> None:
    view = run("SELECT COUNT(*) FROM S WHERE BUY ; SELL", time="ts").timeline(width=4)
    assert view.matches == ()
    assert sum(view.ends) == run("SELECT * FROM S WHERE BUY ; SELL", time="ts").count()


def test_listed_matches_are_found_by_their_ends_in_any_order() -> None:
    query = "SELECT * FROM S WHERE BUY AS b WITHOUT SELL FOR 3 SECONDS PARTITION BY [price]"
    matches = run(query, time="ts")
    shown = matches.timeline().matches
    assert {one.marks[0].row for one in shown} <= {match.end for match in matches}
    assert shown


def test_times_are_milliseconds_rows_or_numbers() -> None:
    dates = pa.table({"type": ["A", "A"], "ts": pa.array([0, 1_500_000], pa.timestamp("us"))})
    query = "SELECT * FROM S WHERE A AS a"
    first = run(query, dates, time="ts").timeline()
    assert (first.start, first.stop, first.unit) == (0.0, 1500.0, "ms")
    second = run(query, [{"type": "A"}, {"type": "A"}]).timeline()
    assert (second.start, second.stop, second.unit) == (0.0, 1.0, "row")
    text = [{"type": "A", "ts": "2024-01-01T00:00:00"}, {"type": "A", "ts": "2024-01-01T00:00:02"}]
    third = run(query, text, time="ts").timeline()
    assert third.unit == "ms"
    assert third.stop - third.start == 2000.0


def test_many_types_share_a_lane_and_streams_without_types_are_lanes() -> None:
    events = [{"type": f"T{i % 40}", "ts": i} for i in range(200)] + [{"type": "T3", "ts": 999}]
    lanes = run("SELECT * FROM S WHERE T3 AS a", events, time="ts").timeline().lanes
    assert len(lanes) == 24
    assert lanes[-1].name == OTHER_TYPES
    assert sum(lane.total for lane in lanes) == 201
    two = {"S": [{"ts": 1}, {"ts": 3}], "R": [{"ts": 2}]}
    query = "SELECT * FROM S, R WHERE S AS a ; R AS b"
    both = cernis.query(query).run(two, time="ts", type=None).timeline()
    assert [(lane.name, lane.total) for lane in both.lanes] == [("S", 2), ("R", 1)]


def test_nothing_has_a_timeline_too() -> None:
    view = run("SELECT * FROM S WHERE A AS a", []).timeline(width=3)
    assert view.ends == (0, 0, 0)
    ET.fromstring(view.svg())


def test_the_picture_is_well_formed_escaped_and_without_script() -> None:
    events = [
        {"type": kind, "ts": i, "price": 60 + i}
        for i, kind in enumerate(["<script>", 'x"y', "BUY", "SELL", "&\x1b"])
    ]
    view = run(events=events, time="ts").timeline()
    for standalone in (True, False):
        text = view.svg(standalone=standalone)
        root = ET.fromstring(text)
        assert len(root.findall(f".//{SVG}circle")) == 5 + 2
        assert "<script" not in text
        assert "\x1b" not in text
        assert not [name for each in root.iter() for name in each.attrib if name.startswith("on")]
    assert "currentColor" in view.svg(standalone=False)


def test_many_events_are_drawn_as_densities() -> None:
    root = ET.fromstring(run(events=trade(3000), time="ts").timeline().svg())
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert "BUY: 750 events" in titles
    assert len(root.findall(f".//{SVG}circle")) < 200


@given(st.floats(-1e13, 1e13), st.floats(1e-3, 1e12), st.sampled_from(["ms", "row", "number"]))
def test_ticks_are_few_and_inside(start: float, length: float, unit: str) -> None:
    ticks = list_ticks(start, start + length, unit)
    assert len(ticks) <= 25
    slack = length * 1e-6 + abs(start) * 1e-9
    assert all(start - slack <= tick.at <= start + length + slack for tick in ticks)
