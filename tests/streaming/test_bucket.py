"""A bucket finds what the oracle finds: whatever the order of arrival, the micro-batches,
the worker that runs it, attempts that fail and restarts. Without Spark: the state store is
a dictionary, and workers are dictionaries of buckets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import StateError
from cernis.events.order import Scale
from cernis.events.source import stream_of
from cernis.pattern.query import Consume, Pattern, Strategy, Unit, counts_only
from cernis.run.feed import Measures
from cernis.run.session import RunOptions
from cernis.run.stages.groups import find_measures
from cernis.schema import Schema
from cernis.work import log
from cernis.work.bucket import Bucket, BucketWork, restore_bucket
from cernis.work.carriers import write_blob
from cernis.work.columns import ROW, STREAM
from cernis.work.layout import back_in_ticks, choose_stream_layout
from cernis.work.query import QueryWork, answer_schema
from cernis.work.reading import StreamColumns
from tools.cases.differential import (
    assert_agrees,
    assert_counts_agree,
    assert_groups_agree,
    assert_suppression_agrees,
    comparable_group,
    comparable_match,
)
from tools.cases.state_store import MemoryStore
from tools.cases.strategies import cases as random_cases
from tools.cases.strategies import (
    crossing_cases,
    grouped_cases,
    guarded_cases,
    ordered_cases,
    suppressed_cases,
)
from tools.cases.tables import STREAM as OF_STREAM
from tools.cases.tables import make_table, split_by_stream

Events = Sequence[dict[str, Any]]
FOREVER = 2**40
few = settings(max_examples=max(20, settings.default.max_examples // 5))
MILLIS = Scale(10**6, 10**6)
PLAIN = ("*", "list", "NONE", "COUNT")
RELEASED = Path(__file__).parent / "checkpoints"


def schema_of(columns: dict[str, pa.Table]) -> Schema:
    return Schema(tuple(stream_of(name, events.schema) for name, events in columns.items()))


def find_measures_of(query: cernis.Query, columns: dict[str, pa.Table]) -> Measures | None:
    if query.pattern.grouping is None:
        return None
    schemas = [table.schema for table in columns.values()]
    return find_measures(query.pattern, schema_of(columns), schemas)


def stream_work_of(query: cernis.Query, columns: dict[str, pa.Table], **changes: Any) -> BucketWork:
    """How a query is run on these streams, in one bucket."""
    streams = tuple(
        StreamColumns(
            name=name, columns={c: c for c in events.column_names if c not in (ROW, STREAM)}
        )
        for name, events in columns.items()
    )
    plan = query.plan.for_schema(schema_of(columns))
    work = QueryWork(
        plan=plan,
        streams=streams,
        reading=RunOptions(time="ts"),
        scale=MILLIS,
        form="lines",
        measures=find_measures_of(query, columns),
    )
    empty = pa.concat_tables([t.slice(0, 0) for t in columns.values()], promote_options="default")
    work = QueryWork(**{**work.__dict__, "schema": answer_schema(work, empty)})
    cut = choose_stream_layout(plan).cut
    window = back_in_ticks(query.pattern, work.scale) if cut else None
    how = {"numbered": True, "window": window, "buckets": (0,), **changes}
    return BucketWork(work=work, query="q", **how)


def nothing(before: int | None, after: int | None) -> None:
    """No one is called."""


@dataclass
class Run:
    """A query on micro-batches, by several workers."""

    stream: BucketWork
    store: MemoryStore = field(default_factory=MemoryStore)
    workers: list[dict[int, Bucket]] = field(default_factory=lambda: [{}, {}, {}])
    found: list[dict[str, Any]] = field(default_factory=list)

    def batch(
        self,
        events: pa.Table | None,
        watermark: int | None,
        worker: int = 0,
        *,
        fails: bool = False,
    ) -> Bucket:
        """One micro-batch; one that fails leaves nothing but what its worker has in memory."""
        live = self.workers[worker]
        store = self.store.copy() if fails else self.store
        bucket = restore_bucket(self.stream, 0, store, live.pop(0, None))
        blobs = [] if events is None else [write_blob(events)]
        lines = [
            json.loads(line)
            for batch in bucket.take(store, blobs, watermark, nothing)
            for line in batch.column("line").to_pylist()
        ]
        live[0] = bucket
        if not fails:
            self.found += lines
        return bucket

    def restart(self) -> None:
        for worker in self.workers:
            worker.clear()

    def triples(self) -> Iterator[tuple[int, int, dict[str, list[int]]]]:
        for line in self.found:
            yield line["start"], line["end"], line["vars"]


# ------------------------------------------------------------------ random


def arrived(pattern: Pattern, events: Events) -> tuple[pa.Table, dict[str, pa.Table]]:
    """All events as one table with row and stream numbers, and the tables by stream."""
    names = pattern.streams or ("S",)
    rows = [(i, e) for i, e in enumerate(events) if str(e.get(OF_STREAM, names[0])) in names]
    whole = make_table([e for _, e in rows], timed=True)
    whole = whole.append_column(ROW, pa.array([i for i, _ in rows], pa.int64()))
    if len(names) > 1:
        numbers = [names.index(str(e[OF_STREAM])) for _, e in rows]
        whole = whole.append_column(STREAM, pa.array(numbers, pa.int32()))
    if OF_STREAM in whole.column_names:
        whole = whole.drop_columns([OF_STREAM])
    return whole, dict.fromkeys(names, whole)


def run_at_random(data: st.DataObject, pattern: Pattern, events: Events, snapshots: bool) -> Run:
    """The events in any order within the lateness, in any batches, by any worker."""
    whole, columns = arrived(pattern, events)
    query = cernis.query(pattern)
    changes = {"window": None} if snapshots else {}
    run = Run(stream_work_of(query, columns, **changes))
    times = whole.column("ts").to_pylist()
    lateness = data.draw(st.sampled_from((0, 1, 3, 10)))
    early = data.draw(st.lists(st.integers(0, lateness), min_size=len(times), max_size=len(times)))
    order = sorted(range(len(times)), key=lambda i: (times[i] - early[i], i))
    # an event that comes before one that is `lateness` earlier is within the lateness
    marks = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=max(1, len(times))))
    seen: int | None = None
    first = 0
    for size in [*marks, len(times)]:
        part = order[first : first + size]
        first += size
        watermark = None if seen is None else seen - lateness
        events_now = whole.take(pa.array(part, pa.int64())) if part else None
        worker = data.draw(st.integers(0, 2))
        match data.draw(st.sampled_from(("fine", "fails", "fails otherwise", "restart"))):
            case "fails":
                run.batch(events_now, watermark, worker, fails=True)
            case "fails otherwise":
                other = None if events_now is None else events_now.slice(0, len(part) // 2)
                run.batch(other, watermark, worker, fails=True)
            case "restart":
                run.restart()
        bucket = run.batch(events_now, watermark, data.draw(st.integers(0, 2)))
        assert bucket.late is None
        now = [times[i] for i in part]
        seen = max(now if seen is None else [seen, *now], default=None)
    run.batch(None, FOREVER, data.draw(st.integers(0, 2)))
    return run


def run_and_push(
    data: st.DataObject, pattern: Pattern, drawn: Events, snapshots: bool
) -> tuple[Run, list[Any]]:
    """A bucket and a session that have read the same events, and after them all of time."""
    assume(drawn)
    events = [{**event, "ts": event.get("ts", i)} for i, event in enumerate(drawn)]
    session = cernis.query(pattern).session(time="ts")
    pushed = [*session.push(make_table(events, timed=True)), *session.advance(FOREVER, MILLIS)]
    return run_at_random(data, pattern, events, snapshots), pushed


def _when(line: dict[str, Any]) -> list[Any]:
    """The interval or the end of a group."""
    return [line[name] for name in ("from_ts", "to_ts", "end") if name in line]


def agree(data: st.DataObject, case: tuple[Pattern, Events]) -> None:
    pattern, events = case
    if not events:
        return
    if any("ts" not in event for event in events):
        events = [{**event, "ts": i} for i, event in enumerate(events)]
    run = run_at_random(data, pattern, events, data.draw(st.booleans()) or bool(pattern.without))
    after = pattern.absent_after  # time goes on for ever, events do not
    complete = after is not None and after.within.unit is Unit.TIME
    if pattern.grouping is not None:
        groups = (comparable_group(_when(g), g["partition"], g["values"]) for g in run.found)
        assert_groups_agree(pattern, events, groups, complete=complete)
    elif after is not None:
        assert_agrees(pattern, events, run.triples(), complete=complete)
    elif counts_only(pattern):
        assert_counts_agree(pattern, events, [(x["end"], x["count"]) for x in run.found])
    else:
        assert_agrees(pattern, events, run.triples())


@pytest.fixture(autouse=True)
def _small_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SMALLEST_SNAPSHOT", 1 << 11)


@given(st.data(), random_cases(untimed=False))
def test_any_order_and_any_batches_give_the_matches_of_the_oracle(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(st.data(), random_cases(untimed=False, windows=(Unit.TIME,), events=14))
def test_what_has_left_the_window_is_not_missed(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(
    st.data(),
    random_cases(untimed=False, gaps=True, next_=True, binary=True, size=6, events=9)
    | random_cases(
        untimed=False, next_=True, families=("order", "previous", "neighbours"), events=9
    ),
)
def test_arrows_and_gaps_survive_restarts(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(
    st.data(),
    random_cases(
        untimed=False,
        partition=True,
        windows=(Unit.EVENTS, Unit.TIME, None),
        consume=tuple(Consume),
        strategies=(Strategy.ALL, Strategy.NEXT, Strategy.LAST),
        events=12,
    ),
)
def test_partitions_and_consumption_survive_restarts(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(st.data(), suppressed_cases(windows=(Unit.TIME, Unit.EVENTS, None), events=12))
def test_what_is_silenced_survives_restarts(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    pattern, events = case
    if events:
        run = run_at_random(data, pattern, events, data.draw(st.booleans()))
        numbers = (line["suppressed"] for line in run.found)
        assert_suppression_agrees(pattern, events, zip(run.triples(), numbers, strict=True))


@given(
    st.data(),
    random_cases(
        untimed=False,
        windows=(Unit.TIME, None),
        strategies=(Strategy.NEXT, Strategy.LAST, Strategy.MAX, Strategy.ANY, Strategy.STRICT),
    ),
)
def test_strategies_choose_the_same_matches(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(
    st.data(),
    random_cases(
        untimed=False,
        windows=(Unit.TIME, None),
        strategies=(Strategy.LONGEST,),
        consume=tuple(Consume),
        selects=PLAIN[:3],
    ),
)
def test_longest_reports_the_matches_that_a_session_pushes(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    """What still waits when time goes on without an end is not reported."""
    run, pushed = run_and_push(data, *case, snapshots=data.draw(st.booleans()))
    assert sorted(map(comparable_match, run.triples())) == sorted(map(comparable_match, pushed))


@few
@given(
    st.data(),
    random_cases(
        untimed=False,
        windows=(Unit.TIME, None),
        strategies=(Strategy.LONGEST,),
        consume=(Consume.NONE,),
        selects=PLAIN[:3],
        after=("free", "equal", "residual"),
        before=("free",),
        size=5,
    ),
)
def test_longest_reports_what_without_leaves_when_deadlines_have_passed(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    run, pushed = run_and_push(data, *case, snapshots=True)
    assert sorted(map(comparable_match, run.triples())) == sorted(map(comparable_match, pushed))


@few
@given(
    st.data(),
    ordered_cases(
        every=True,
        untimed=False,
        windows=(Unit.TIME, None),
        strategies=(Strategy.ALL, Strategy.LONGEST),
    ),
)
def test_the_best_of_an_interval_are_reported_when_the_watermark_has_passed_it(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    run, pushed = run_and_push(data, *case, snapshots=data.draw(st.booleans()))
    # of equal values, starts and ends any match is right
    found = [(line["start"], line["end"], str(line["values"]["v"])) for line in run.found]
    assert sorted(found) == sorted((m.start, m.end, str(m.values["v"])) for m in pushed)


LONGEST_IN_TIME: dict[str, Any] = {"untimed": False, "strategies": (Strategy.LONGEST,)}


@given(st.data(), random_cases(**LONGEST_IN_TIME, windows=(Unit.TIME,), consume=tuple(Consume)))
def test_the_watermark_makes_the_longest_of_a_window_certain(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(
    st.data(),
    random_cases(**LONGEST_IN_TIME, windows=(Unit.TIME,), gaps=True, next_=True, size=5, events=8),
)
def test_the_watermark_makes_the_longest_with_gaps_certain(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(st.data(), random_cases(**LONGEST_IN_TIME, forget=True, selects=PLAIN))
def test_the_watermark_makes_the_longest_of_a_forgotten_partition_certain(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(st.data(), grouped_cases(strategies=(Strategy.LONGEST,), windows=(Unit.TIME,)))
def test_groups_of_the_longest_agree(data: st.DataObject, case: tuple[Pattern, Events]) -> None:
    pattern, _ = case
    assert pattern.grouping is not None
    if pattern.grouping.every is not None or pattern.grouping.end:
        agree(data, case)


def visit(user: str, minute: int) -> dict[str, Any]:
    return {"type": "PAGE", "ts": 60_000 * minute, "user": user}


def run_visits(query: str, visits: list[dict[str, Any]], marks: Sequence[int]) -> list[int]:
    """Run the visits of the first micro-batch; return how much each of the watermarks reports."""
    whole, columns = arrived(cernis.query(query).pattern, visits)
    run = Run(stream_work_of(cernis.query(query), columns))
    reported, next_call = [], 0
    for number, minute in enumerate(marks):
        if 60_000 * minute < next_call:  # the timer has not rung
            reported.append(0)
            continue
        run.restart()
        before = len(run.found)
        run.batch(whole if number == 0 else None, 60_000 * minute)
        assert run.store.head is not None
        call = log.Header.from_bytes(run.store.head).timer
        next_call = FOREVER if call is None else call
        reported.append(len(run.found) - before)
    return reported


SESSIONS = "SELECT LONGEST s FROM S WHERE (PAGE+[30 MINUTES]) AS s PARTITION BY [user]"
RUNS = "SELECT LONGEST s FROM S WHERE PAGE+ AS s PARTITION BY [user]"
VISITS = [visit("u", 0), visit("v", 5), visit("u", 20), visit("u", 45)]


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        (SESSIONS, [0, 0, 1, 0, 1]),
        (f"{RUNS} WITHIN 1 HOUR", [0, 0, 0, 1, 1]),
        (f"{RUNS} FORGET AFTER 30 MINUTES", [0, 0, 1, 0, 1]),
        (f"{SESSIONS.replace('s FROM', 'COUNT(*) FROM')} GROUP BY EVERY 1 MINUTE", [0, 0, 1, 0, 1]),
    ],
)
def test_a_timer_rings_when_time_makes_a_match_certain(query: str, reported: list[int]) -> None:
    assert run_visits(query, VISITS, (0, 35, 46, 61, 76)) == reported


@given(
    st.data(),
    random_cases(untimed=False, binary=True, previous=True, size=7, events=7),
)
def test_comparisons_between_events_find_the_same_matches(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(st.data(), guarded_cases(after=False) | crossing_cases(after=False))
def test_guards_survive_restarts(data: st.DataObject, case: tuple[Pattern, Events]) -> None:
    agree(data, case)


@given(
    st.data(),
    random_cases(untimed=False, forget=True, binary=True, size=7, events=9, selects=PLAIN),
)
def test_lives_of_partitions_survive_restarts(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


@given(
    st.data(),
    random_cases(
        untimed=False,
        after=("free", "equal", "residual"),
        before=("free",),
        consume=(Consume.NONE,),
        selects=("*", "list", "NONE"),
        events=9,
    ),
)
def test_matches_that_wait_survive_restarts(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


def test_a_match_is_reported_when_the_watermark_has_passed_its_deadline() -> None:
    run = started(cernis.query("SELECT * FROM S WHERE A WITHOUT B FOR 5 MILLISECONDS"))
    timers: list[int | None] = []
    bucket = run.batch(events_at([1], "A"), None)
    assert [*bucket.take(run.store, [], 3, lambda _, after: timers.append(after))] == []
    assert timers == [7]  # the first watermark after the deadline
    run.restart()
    run.batch(None, 6)
    assert run.found == []
    run.batch(None, 7)
    run.batch(None, 8)
    assert [(line["end"], line["deadline_ts"]) for line in run.found] == [(0, 6)]


def _ends(case: tuple[Pattern, Events]) -> bool:
    """Whether the groups of a case end on a stream."""
    grouping, within = case[0].grouping, case[0].within
    assert grouping is not None
    if grouping.of_start:
        return within is not None and within.unit is Unit.TIME
    return grouping.end or grouping.every is not None


@given(
    st.data(),
    grouped_cases(partition=True, windows=(None, Unit.EVENTS, Unit.TIME), events=10).filter(_ends),
)
def test_groups_survive_restarts(data: st.DataObject, case: tuple[Pattern, Events]) -> None:
    agree(data, case)


@few
@given(
    st.data(),
    (
        grouped_cases(
            after=("free", "equal"), before=("free",), windows=(None, Unit.TIME), size=5, events=8
        )
        | grouped_cases(
            after=("free",), strategies=(Strategy.LONGEST,), windows=(Unit.TIME,), size=5, events=8
        )
    ).filter(lambda case: _ends(case) and _is_timed(case)),
)
def test_groups_of_what_without_leaves_survive_restarts(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    agree(data, case)


def _is_timed(case: tuple[Pattern, Events]) -> bool:
    """Whether deadlines are times: on a stream, those that count events may never come."""
    after = case[0].absent_after
    return after is None or after.within.unit is Unit.TIME


def test_a_group_waits_for_the_deadlines_of_its_matches() -> None:
    text = "SELECT COUNT(*) AS n FROM S WHERE A WITHOUT B FOR 5 MILLISECONDS "
    run = started(cernis.query(text + "GROUP BY EVERY 10 MILLISECONDS"))
    timers: list[int | None] = []
    bucket = run.batch(events_at([1, 9, 30], "AAC"), None)
    assert [*bucket.take(run.store, [], 12, lambda _, after: timers.append(after))] == []
    assert timers == [15]  # not 10, which is past, and at which the group is not complete
    run.batch(None, 14)
    assert run.found == []
    run.restart()
    run.batch(None, 15)
    assert run.found == [{"from_ts": 0, "to_ts": 10, "partition": {}, "values": {"n": 2}}]


@given(st.data(), random_cases(streams=("S", "T"), untimed=False, windows=(None, Unit.TIME)))
def test_several_streams_are_merged_by_time(
    data: st.DataObject, case: tuple[Pattern, Events]
) -> None:
    pattern, events = case
    read = [e for e in events if not pattern.streams or e[OF_STREAM] in pattern.streams]
    agree(data, (pattern, split_by_stream(read)[0]))


# ------------------------------------------------------------------- state


def test_a_group_is_reported_when_the_watermark_has_passed_its_end() -> None:
    query = cernis.query("SELECT COUNT(*) AS n FROM S WHERE A ; B GROUP BY EVERY 10 MILLISECONDS")
    run = started(query)
    timers: list[int | None] = []
    bucket = run.batch(events_at([1, 4, 7, 12], "ABBB"), None)
    blobs = [write_blob(events_at([25], first=4))]
    assert [*bucket.take(run.store, blobs, 8, lambda _, after: timers.append(after))] == []
    assert timers == [10]  # the group of the first ten milliseconds is open
    run.batch(None, 10)
    assert run.found == [{"from_ts": 0, "to_ts": 10, "partition": {}, "values": {"n": 2}}]
    run.restart()
    run.batch(None, 20)
    run.batch(None, 29)
    assert [line["values"]["n"] for line in run.found] == [2, 1]
    run.batch(None, 30)
    assert [line["values"]["n"] for line in run.found] == [2, 1, 1]


def test_a_group_of_the_start_is_reported_when_the_watermark_has_passed_the_window() -> None:
    run = started(
        cernis.query(
            "SELECT COUNT(*) AS n, COUNT(DISTINCT B[ts]) AS ends FROM S WHERE A ; B "
            "WITHIN 5 MILLISECONDS GROUP BY EVERY 10 MILLISECONDS OF START"
        )
    )
    timers: list[int | None] = []
    bucket = run.batch(events_at([8, 9, 13, 14], "AABB"), None)
    assert [*bucket.take(run.store, [], 14, lambda _, after: timers.append(after))] == []
    assert timers == [15]  # five milliseconds after the interval
    run.restart()
    run.batch(None, 15)
    values = {"n": 3, "ends": 2}
    assert run.found == [{"from_ts": 0, "to_ts": 10, "partition": {}, "values": values}]


def pairs(within: str = "") -> cernis.Query:
    return cernis.query(f"SELECT * FROM S WHERE A ; B {within}")


def events_at(times: Sequence[int], types: str = "B", first: int = 0) -> pa.Table:
    names = [types[i % len(types)] for i in range(len(times))]
    rows = pa.array(range(first, first + len(times)), pa.int64())
    return pa.table({"type": names, "ts": pa.array(times, pa.int64()), ROW: rows})


def started(query: cernis.Query, **changes: Any) -> Run:
    return Run(stream_work_of(query, {"S": events_at([])}, **changes))


def test_a_chunk_stays_exactly_as_long_as_a_match_can_reach_it() -> None:
    run = started(pairs("WITHIN 50 MILLISECONDS"))
    run.batch(events_at([0], "A"), None)
    for i in range(1, 80):
        run.restart()
        run.batch(events_at([i], first=i), i)
    run.batch(None, FOREVER)
    assert [line["end"] for line in run.found] == [*range(1, 51)]
    assert not run.store.chunks


def test_a_batch_writes_what_came_however_much_is_kept() -> None:
    def written(kept: int) -> tuple[int, int]:
        run = started(pairs("WITHIN 100000 MILLISECONDS"))
        run.batch(events_at([*range(kept)], "AC"), None)
        run.store.written = run.store.read = 0
        for i in range(20):
            run.batch(events_at([kept + i], first=kept + i), kept + i)
        return run.store.written, run.store.read

    (few, _), (many, read) = written(100), written(10_000)
    assert many < 1.2 * few
    assert read == 0


def test_snapshots_cost_no_more_than_a_few_times_what_came() -> None:
    run = started(cernis.query("SELECT * FROM S WHERE A ; B CONSUME BY PARTITION"))
    came = 0
    for i in range(300):
        events = events_at([*range(100 * i, 100 * i + 100)], "ACCCCB", first=100 * i)
        came += len(write_blob(events))
        run.batch(events, 100 * i)
    assert run.store.written < 5 * came
    assert run.store.size < 3 * (1 << 16)


def test_state_grows_with_the_window_and_not_with_the_stream() -> None:
    def most(window: int, batches: int) -> int:
        run = started(pairs(f"WITHIN {window} MILLISECONDS"))
        sizes = []
        for i in range(batches):
            times = [*range(100 * i, 100 * i + 100)]
            run.batch(events_at(times, "AC", first=100 * i), 100 * i)
            sizes.append(run.store.size)
        return max(sizes)

    short, long, wide = most(500, 30), most(500, 120), most(2000, 120)
    assert long <= 1.1 * short
    assert 2.5 * long < wide < 5 * long


def test_late_events_are_counted_and_given_back() -> None:
    run = started(pairs())
    run.batch(events_at([100], "A"), None)
    bucket = run.batch(events_at([99, 100, 101], "B", first=1), 100)
    assert bucket.late is not None
    assert bucket.late.column(ROW).to_pylist() == [1]
    assert (bucket.report.late, bucket.report.events) == (1, 2)
    run.batch(None, FOREVER)
    assert [(line["start"], line["end"]) for line in run.found] == [(0, 2), (0, 3)]


def test_rows_without_numbers_are_numbered_as_they_come() -> None:
    run = started(pairs(), numbered=False, buckets=(7, 0))
    run.batch(events_at([5, 4], "AB"), None)
    run.batch(events_at([6], "B"), 3)
    run.batch(None, FOREVER)
    assert [(line["start"], line["end"]) for line in run.found] == [(1, 5)]


def test_one_timer_is_set_for_what_comes_next() -> None:
    stream = stream_work_of(pairs("WITHIN 50 MILLISECONDS"), {"S": events_at([])})
    store, calls = MemoryStore(), []
    bucket = restore_bucket(stream, 0, store, None)
    for events, watermark in ((events_at([100], "A"), None), (None, 101), (None, 151)):
        blobs = [] if events is None else [write_blob(events)]
        list(bucket.take(store, blobs, watermark, lambda *call: calls.append(call)))
    assert calls == [(None, 101), (101, 151), (151, None)]


def test_the_state_of_another_query_is_refused() -> None:
    run = started(pairs())
    run.batch(events_at([1], "A"), None)
    other = replace(run.stream, query="another")
    with pytest.raises(StateError, match="belongs to another query"):
        restore_bucket(other, 0, run.store, None)


def test_damaged_state_is_said_to_be_damaged() -> None:
    run = started(pairs())
    run.batch(events_at([1], "A"), None)
    run.restart()
    run.store.chunks.clear()
    with pytest.raises(StateError, match="bucket 0: the checkpoint is damaged: chunk 0 is missing"):
        run.batch(None, 5)


def written(query: cernis.Query, **changes: Any) -> Run:
    """A run that has written three chunks, or a snapshot, and has no worker any more."""
    run = started(query, **changes)
    for first in (0, 100, 200):
        run.batch(events_at([*range(first, first + 100)], "ACB", first=first), first or None)
    run.restart()
    return run


@pytest.mark.parametrize("at", [0, 20, 200, -9])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_chunk_that_has_changed_is_refused(number: int, at: int) -> None:
    run = written(pairs("WITHIN 5000 MILLISECONDS"))
    changed = bytearray(run.store.chunks[number])
    changed[at] ^= 4
    run.store.chunks[number] = bytes(changed)
    with pytest.raises(StateError) as raised:
        run.batch(None, 400)
    assert str(raised.value) == (
        f"bucket 0: the checkpoint is damaged: chunk {number} is not as it was written; restore "
        "its folder from a copy, or begin with a new checkpoint folder"
    )


def test_chunks_in_another_order_are_refused() -> None:
    run = written(pairs("WITHIN 5000 MILLISECONDS"))
    chunks = run.store.chunks
    chunks[0], chunks[1] = chunks[1], chunks[0]
    with pytest.raises(StateError, match="chunk 1 does not follow the one before it"):
        run.batch(None, 400)
    chunks[0], chunks[1], chunks[2] = chunks[1], chunks[0], chunks[1]
    with pytest.raises(StateError, match="chunk 2 does not follow the one before it"):
        run.batch(None, 400)


@pytest.mark.parametrize("at", [2, 30, -3])
def test_a_header_that_has_changed_is_refused(at: int) -> None:
    run = written(pairs("WITHIN 5000 MILLISECONDS"))
    assert run.store.head is not None
    changed = bytearray(run.store.head)
    changed[at] ^= 4
    run.store.head = bytes(changed)
    with pytest.raises(StateError, match="bucket 0: the checkpoint is damaged: its header is not"):
        run.batch(None, 400)


@pytest.mark.parametrize("part", [0, 1])
def test_a_snapshot_that_has_changed_is_refused(part: int) -> None:
    run = written(pairs(), window=None)
    assert run.store.frozen is not None
    parts = [bytearray(content) for content in run.store.frozen]
    parts[part][-5] ^= 4
    run.store.frozen = bytes(parts[0]), bytes(parts[1])
    with pytest.raises(
        StateError, match="bucket 0: the checkpoint is damaged: its snapshot is not"
    ):
        run.batch(None, 400)


def test_a_chunk_with_other_columns_is_refused() -> None:
    run = written(pairs("WITHIN 5000 MILLISECONDS"))
    notes = {"before": ""}
    run.store.chunks[0] = log.seal(write_blob(pa.table({"type": ["A"]}), notes))
    with pytest.raises(StateError, match="bucket 0: the checkpoint is damaged"):
        run.batch(None, 400)


# --------------------------------------------------------------- signatures

SECRET = "0123456789abcdef"
CHANGED = "the checkpoint was signed with another secret, or was changed since"


def test_a_signed_state_goes_on_with_its_secret() -> None:
    runs = [written(pairs("WITHIN 5000 MILLISECONDS"), secret=secret) for secret in (None, SECRET)]
    for run in runs:
        run.batch(events_at([300, 301], "AB", first=300), 400)
    assert runs[0].found == runs[1].found != []


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (SECRET, None, "the checkpoint is signed: give the secret that it was signed with"),
        (SECRET, SECRET[::-1], CHANGED),
        (None, SECRET, "the checkpoint is not signed, and a secret was given"),
    ],
)
def test_another_secret_is_refused(before: str | None, now: str | None, message: str) -> None:
    run = written(pairs(), secret=before)
    run.stream = replace(run.stream, secret=now)
    with pytest.raises(StateError, match=f"bucket 0: {message}"):
        run.batch(None, 400)


def test_a_header_that_was_forged_is_refused() -> None:
    run = written(pairs(), secret=SECRET)
    assert run.store.head is not None
    head = run.store.head
    forged = log.Header.from_bytes(head, run.stream.derive_key(0))
    forged.watermark = 10**9
    for content in (forged.to_bytes(), forged.to_bytes(run.stream.derive_key(1))):
        run.store.head = content
        with pytest.raises(StateError, match="signed"):
            run.batch(None, 400)
    run.store.head = head
    run.batch(None, 400)


def test_chunks_and_snapshots_that_were_forged_do_not_belong_to_a_signed_header() -> None:
    run = written(pairs("WITHIN 5000 MILLISECONDS"), secret=SECRET)
    chunk = log.read_chunk(run.store.chunks[2], 2)
    forged = write_blob(chunk.slice(1), {"before": log._token_before(chunk)})
    run.store.chunks[2] = log.seal(forged)
    with pytest.raises(StateError, match="chunk 2 is not the last one"):
        run.batch(None, 400)
    run = written(pairs(), window=None, secret=SECRET)
    assert run.store.frozen is not None
    session, waiting = run.store.frozen
    assert waiting
    run.store.frozen = session, b""
    with pytest.raises(StateError, match="its snapshot is not as it was written"):
        run.batch(None, 400)


# ---------------------------------------------------------------- upgrades

KEPT = {
    "chunks": pairs("WITHIN 5000 MILLISECONDS"),
    "snapshot": cernis.query("SELECT * FROM S WHERE A ; B CONSUME BY PARTITION"),
}


def resume(name: str, store: MemoryStore) -> Run:
    """A run of a kept checkpoint that no worker has in memory."""
    changes = {"window": None} if name == "snapshot" else {}
    return replace(started(KEPT[name], **changes), store=store)


@pytest.mark.parametrize("name", KEPT)
def test_a_checkpoint_of_this_version_goes_on(name: str) -> None:
    kept = resume(name, MemoryStore.load(RELEASED / name / f"version-{log.VERSION}"))
    whole = started(KEPT[name])
    for first in (0, 100, 200):
        whole.batch(events_at([*range(first, first + 100)], "ACB", first=first), first or None)
    whole.found.clear()
    for run in (kept, whole):
        run.batch(events_at([300, 301], "AB", first=300), 300)
        run.batch(None, FOREVER)
    assert list(kept.triples()) == list(whole.triples()) != []


@pytest.mark.parametrize("version", range(1, log.VERSION))
@pytest.mark.parametrize("name", KEPT)
def test_a_checkpoint_of_an_earlier_version_is_refused_with_what_to_do(
    name: str, version: int
) -> None:
    run = resume(name, MemoryStore.load(RELEASED / name / f"version-{version}"))
    with pytest.raises(StateError) as raised:
        run.batch(None, 400)
    assert str(raised.value) == (
        "bucket 0: the checkpoint was written by another version of Cernis; run it with that "
        "version, or begin a new one in another folder"
    )


def write_missing_checkpoints() -> None:
    for name, query in KEPT.items():
        folder = RELEASED / name / f"version-{log.VERSION}"
        if not folder.exists():
            log.SMALLEST_SNAPSHOT = 1
            changes = {"window": None} if name == "snapshot" else {}
            written(query, **changes).store.save(folder)


if __name__ == "__main__":
    write_missing_checkpoints()
