"""Streaming DataFrames give the answers of the corpus and of the oracle: whatever the
micro-batches, the order of arrival within the lateness, the number of buckets, and restarts.

A micro-batch costs Spark about a second, whatever its size: cases run many at a time, as
one streaming query, one file of each case in each micro-batch. In CI some cases of the
corpus run; `make soak` runs all of them, and more random ones.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import CernisError, DataError, StateError
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.spark import progress_of, recognize
from tools.cases.corpus import CorpusGroup, read_cases
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.strategies import cases as random_cases
from tools.cases.strategies import crossing_cases, guarded_cases
from tools.cases.tables import STREAM, make_table, split_by_stream

ROW = "row number"
AT_ONCE = 4
FAR = 10**9
"""A time that passes all others."""

Events = Sequence[dict[str, Any]]


class Source:
    """A folder that files of events are put into, in order."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder, self.schema, self.files = folder, schema, 0
        folder.mkdir(parents=True)

    def put(self, events: pa.Table) -> None:
        path = self.folder / f"{self.files:06}.parquet"
        pq.write_table(events.cast(self.schema), self.folder / ".writing")
        os.utime(self.folder / ".writing", (10**9 + self.files, 10**9 + self.files))
        (self.folder / ".writing").rename(path)
        self.files += 1

    def stream(self, spark: Any) -> Any:
        empty = self.folder.parent / f"{self.folder.name}.schema.parquet"
        pq.write_table(self.schema.empty_table(), empty)
        reader = spark.readStream.schema(spark.read.parquet(str(empty)).schema)
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def arrivals(times: Sequence[int], lateness: int, files: int, chance: random.Random) -> list[Any]:
    """The rows of each file: any order in which no event comes too late."""
    early = [chance.randint(0, lateness) for _ in times]
    order = sorted(range(len(times)), key=lambda i: (times[i] - early[i], i))
    cuts = sorted(chance.randint(0, len(order)) for _ in range(files - 1))
    return [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def put(source: Source, events: pa.Table, lateness: int, chance: random.Random) -> None:
    """All events in two files, and a last one that lets all of them be read."""
    times = events.column("ts").to_pylist()
    for rows in arrivals(times, lateness, 2, chance):
        source.put(events.take(pa.array(rows, pa.int64())))
    nulls = [pa.nulls(1, field.type) for field in events.schema]
    last = pa.table(nulls, schema=events.schema)
    far = pa.array([FAR], pa.int64())
    source.put(last.set_column(events.schema.get_field_index("ts"), "ts", far))


def by_streams(query: cernis.Query, events: Events) -> dict[str, pa.Table]:
    """The events of each stream, with their row numbers, and times where they have none."""
    names = query.pattern.streams or ("S",)
    rows: dict[str, list[int]] = {name: [] for name in names}
    apart: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row, event in enumerate(events):
        name = str(event.get(STREAM, names[0]))
        if name in apart:
            rows[name].append(row)
            apart[name].append({"ts": row, **event})
    return {
        name: make_table(part, timed=True).append_column(ROW, pa.array(rows[name], pa.int64()))
        for name, part in apart.items()
    }


def run(
    spark: Any, folder: Path, drawn: Sequence[tuple[cernis.Query, Events]], seed: int
) -> list[list[Any]]:
    """The lines that each query gives, all of them in one streaming query."""
    chance = random.Random(seed)
    lateness = chance.choice((0, 2, 10))
    frames = []
    for i, (query, events) in enumerate(drawn):
        streams = {}
        for name, part in by_streams(query, events).items():
            source = Source(folder / f"in{i}{name}", part.schema)
            put(source, part, lateness, chance)
            streams[name] = source.stream(spark)
        given = streams if len(streams) > 1 else next(iter(streams.values()))
        found = recognize(
            given,
            query,
            row=ROW,
            tasks=chance.choice((1, 2, 5)),
            matches="lines",
            lateness=f"{lateness} milliseconds",
        )
        frames.append(found.selectExpr(f"{i} as i", "line"))
    name = f"found{seed}_{abs(hash(str(folder)))}"
    started = reduce(lambda a, b: a.union(b), frames).writeStream.format("memory").queryName(name)
    running = started.start()
    running.processAllAvailable()
    running.stop()
    lines: list[list[Any]] = [[] for _ in drawn]
    for row in spark.table(name).collect():
        lines[row.i].append(json.loads(row.line))
    spark.catalog.dropTempView(name)
    return lines


def triples(lines: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int, dict[str, list[int]]]]:
    for line in lines:
        yield line["start"], line["end"], line["vars"]


@pytest.fixture(autouse=True)
def _one_partition(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


# ------------------------------------------------------------------ corpus


def _answered(spark: Any, folder: Path, every: int) -> None:
    # what LONGEST and WITHOUT hold back comes when the input ends, and a stream does not
    chosen = [c for c in read_cases() if c.answers is None and c.groups is None]
    chosen = [case for case in chosen if not case.pattern().without and not case.tables]
    chosen = [case for case in chosen if "LONGEST" not in case.query]
    chosen = [case for case in chosen if not {"EVERY", "OVERALL"} & {*case.query.split()}][::every]
    for first in range(0, len(chosen), AT_ONCE):
        some = chosen[first : first + AT_ONCE]
        drawn = [(cernis.query(case.query, lang=case.lang), case.events) for case in some]
        found = run(spark, folder / str(first), drawn, seed=first)
        for case, lines in zip(some, found, strict=True):
            if case.counts is not None and lines and "count" in lines[0]:
                counted = sorted((line["end"], line["count"]) for line in lines)
                assert counted == sorted(case.counts), case.name
            elif case.matches is not None:
                case.check(triples(lines))


def test_the_corpus_has_the_answers_worked_out_by_hand(spark: Any, tmp_path: Path) -> None:
    _answered(spark, tmp_path, every=300)


def test_a_static_table_is_joined_to_a_stream(spark: Any, tmp_path: Path) -> None:
    cases = [case for case in read_cases() if case.tables and "FROM S JOIN co ON" in case.query]
    case = next(case for case in cases if "PARTITION BY" in case.query)
    (events,) = by_streams(cernis.query(case.query), case.events).values()
    source = Source(tmp_path / "in", events.schema)
    put(source, events, 0, random.Random(1))
    tables = {name: spark.createDataFrame(list(rows)) for name, rows in case.tables.items()}
    found = recognize(source.stream(spark), case.query, row=ROW, tables=tables, matches="lines")
    running = found.writeStream.format("memory").queryName("joined").start()
    running.processAllAvailable()
    running.stop()
    case.check(triples([json.loads(row.line) for row in spark.table("joined").collect()]))


def test_matches_are_certain_when_the_watermark_has_passed_their_deadline(
    spark: Any, tmp_path: Path
) -> None:
    queries = [(case.pattern(), case.events) for case in read_cases() if case.topic == "absence"]
    in_time = [
        (pattern, events)
        for pattern, events in queries
        if pattern.absent_after is not None and pattern.absent_after.within.unit is Unit.TIME
    ]
    runs = [{"type": kind, "ts": 2 * i, "k": i % 2} for i, kind in enumerate("AABAAABBA")]
    waiting = [
        "SELECT LONGEST a FROM S WHERE (A+[4 MILLISECONDS]) AS a PARTITION BY [k]",
        "SELECT LONGEST * FROM S WHERE A ; B WITHIN 5 MILLISECONDS",
        "SELECT LONGEST a FROM S WHERE A+[4 MILLISECONDS] AS a WITHOUT B FOR 3 MILLISECONDS",
        "SELECT * FROM S WHERE (A AS a -> B AS b) FILTER a[k] <= b[k]",
        "SELECT * FROM S WHERE A ; B ORDER BY START DESC LIMIT 1 EVERY 7 MILLISECONDS",
    ]
    chosen = [*in_time[:3], *((cernis.query(text).pattern, runs) for text in waiting)]
    found = run(spark, tmp_path, [(cernis.query(pattern), e) for pattern, e in chosen], seed=1)
    for (pattern, events), lines in zip(chosen, found, strict=True):
        assert_agrees(pattern, events, triples(lines), complete=True)


def test_groups_have_the_answers_worked_out_by_hand(spark: Any, tmp_path: Path) -> None:
    grouped = [case for case in read_cases() if case.groups is not None]
    ending = [case for case in grouped if any(g.when for g in case.groups or ())]
    ending = [case for case in ending if "OF START" not in case.query or "WITHIN" in case.query]
    often = re.compile("WITHOUT|OF START|DISTINCT")
    chosen = [case for i, case in enumerate(ending) if i % 12 == 0 or often.search(case.query)]
    drawn = [(cernis.query(case.query), case.events) for case in chosen]
    for case, lines in zip(chosen, run(spark, tmp_path, drawn, seed=1), strict=True):
        case.check_groups(
            CorpusGroup.of(
                [line[name] for name in ("from_ts", "to_ts", "end") if name in line],
                line["partition"],
                line["values"],
            )
            for line in lines
        )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT COUNT(*) FROM S WHERE A PARTITION BY [type] GROUP BY [type]",
            "GROUP BY on a stream needs EVERY or END: other groups never end",
        ),
        (
            "SELECT COUNT(*) FROM S WHERE A ; B WITHIN 9 EVENTS GROUP BY EVERY 1 DAY OF START",
            "EVERY … OF START on a stream needs WITHIN a time: other groups never end",
        ),
        (
            "SELECT * FROM S WHERE A ORDER BY A[x] DESC LIMIT 5 OVERALL",
            "LIMIT 5 OVERALL needs an input that ends: a stream never knows the best of all",
        ),
    ],
)
def test_groups_and_rankings_that_never_end_are_refused(
    spark: Any, tmp_path: Path, query: str, message: str
) -> None:
    stream = Source(tmp_path / "in", make_table([], timed=True).schema).stream(spark)
    with pytest.raises(cernis.QueryError, match=message) as caught:
        recognize(stream, query)
    assert "^" in str(caught.value)


@pytest.mark.fuzz
def test_all_of_the_corpus_has_these_answers(spark: Any, tmp_path: Path) -> None:
    _answered(spark, tmp_path, every=1)


# ------------------------------------------------------------------ random

few = settings(
    max_examples=max(1, settings.default.max_examples // 100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


Drawn = list[tuple[Pattern, Events]]
SEEDS = st.integers(0, 10**6)


def many(number: int, **features: Any) -> st.SearchStrategy[Drawn]:
    drawn = random_cases(untimed=False, **features)
    return st.lists(drawn, min_size=number, max_size=number)


def _agree(spark: Any, folder: Path, drawn: Sequence[tuple[Pattern, Events]], seed: int) -> None:
    from cernis.pattern.query import counts_only

    timed = [(p, [{"ts": i, **event} for i, event in enumerate(events)]) for p, events in drawn]
    queries = [(cernis.query(pattern), events) for pattern, events in timed]
    found = run(spark, folder, queries, seed)
    for (pattern, events), lines in zip(timed, found, strict=True):
        if counts_only(pattern):
            counted = [(line["end"], line["count"]) for line in lines]
            assert_counts_agree(pattern, events, counted)
        else:
            complete = pattern.absent_after is not None
            assert_agrees(pattern, events, triples(lines), complete=complete)


KEYED = {
    "partition": True,
    "windows": (None, Unit.EVENTS, Unit.TIME),
    "consume": tuple(Consume),
}
AT_ONE_END = tuple(s for s in Strategy if s is not Strategy.LONGEST)
WINDOWS = {"windows": (None, Unit.TIME), "strategies": AT_ONE_END}
COMPARED = {"binary": True, "next_": True, "gaps": True, "size": 7, "events": 7}
WAITING = {
    "after": ("free", "equal"),
    "before": ("free",),
    "strategies": AT_ONE_END,
    "consume": (Consume.NONE,),
    "selects": ("*", "list", "NONE"),
}
STREAMS = {"streams": ("S", "T"), "windows": (None, Unit.TIME)}


def _ends_in_time(case: tuple[Pattern, Events]) -> bool:
    """Whether the watermark passes every deadline."""
    after = case[0].absent_after
    return after is None or after.within.unit is Unit.TIME


def _by_stream(drawn: Sequence[tuple[Pattern, Events]]) -> list[tuple[Pattern, Events]]:
    ordered: list[tuple[Pattern, Events]] = []
    for pattern, events in drawn:
        read = [e for e in events if not pattern.streams or e[STREAM] in pattern.streams]
        ordered.append((pattern, split_by_stream(read)[0]))
    return ordered


@few
@given(
    many(1, **KEYED),
    many(1, **COMPARED),
    many(1, **STREAMS),
    guarded_cases(after=False) | crossing_cases(after=False),
    random_cases(untimed=False, **WAITING).filter(_ends_in_time),
    SEEDS,
)
def test_queries_of_all_kinds_agree_with_the_oracle(
    spark: Any,
    tmp_path_factory: Any,
    keyed: Drawn,
    compared: Drawn,
    streams: Drawn,
    guarded: tuple[Pattern, Events],
    waiting: tuple[Pattern, Events],
    seed: int,
) -> None:
    drawn = [*keyed, *compared, *_by_stream(streams), guarded, waiting]
    _agree(spark, tmp_path_factory.mktemp("kinds"), drawn, seed)


@pytest.mark.fuzz
@few
@given(many(AT_ONCE, **KEYED), SEEDS)
def test_keyed_queries_agree_with_the_oracle(
    spark: Any, tmp_path_factory: Any, drawn: Drawn, seed: int
) -> None:
    _agree(spark, tmp_path_factory.mktemp("keyed"), drawn, seed)


@pytest.mark.fuzz
@few
@given(many(AT_ONCE, **WINDOWS), SEEDS)
def test_windows_and_strategies_agree_with_the_oracle(
    spark: Any, tmp_path_factory: Any, drawn: Drawn, seed: int
) -> None:
    _agree(spark, tmp_path_factory.mktemp("windows"), drawn, seed)


@pytest.mark.fuzz
@few
@given(many(AT_ONCE, **COMPARED), SEEDS)
def test_comparisons_between_events_agree_with_the_oracle(
    spark: Any, tmp_path_factory: Any, drawn: Drawn, seed: int
) -> None:
    _agree(spark, tmp_path_factory.mktemp("compared"), drawn, seed)


@pytest.mark.fuzz
@few
@given(many(AT_ONCE, **STREAMS), SEEDS)
def test_several_streams_agree_with_the_oracle(
    spark: Any, tmp_path_factory: Any, drawn: Drawn, seed: int
) -> None:
    _agree(spark, tmp_path_factory.mktemp("streams"), _by_stream(drawn), seed)


# ------------------------------------------------------------------- state

PAIRS = "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[k = 1] PARTITION BY [k] WITHIN 5 SECONDS"
TRADES = pa.schema(
    {"type": pa.string(), "ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "note": pa.string()}
)
NOON = 1_700_000_000 * 10**6


def trades(*events: tuple[str, float | None, int]) -> pa.Table:
    """Events of a type, so many seconds after noon, with a key."""
    moments = [None if s is None else NOON + round(s * 10**6) for _, s, _ in events]
    columns = {
        "type": [type_ for type_, _, _ in events],
        "ts": pa.array(moments, pa.int64()).cast(TRADES.field("ts").type),
        "k": [k for _, _, k in events],
        "note": [f"{type_}{s}" for type_, s, _ in events],
    }
    return pa.table(columns, schema=TRADES)


class Query:
    """A streaming query with files in and files out, that can be stopped and started again."""

    def __init__(self, spark: Any, folder: Path, query: str = PAIRS, **options: Any) -> None:
        self.spark, self.folder, self.query = spark, folder, query
        self.options: dict[str, Any] = {"lateness": "1 second", "tasks": 3, **options}
        self.source = Source(folder / "in", TRADES)
        self.progress: list[Any] = []

    def run(self, *tables: pa.Table) -> None:
        """Puts files, reads them all, and stops."""
        for events in tables:
            self.source.put(events)
        found = recognize(self.source.stream(self.spark), self.query, **self.options)
        running = (
            found.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .start(str(self.folder / "out"))
        )
        try:
            running.processAllAvailable()
            told = [progress_of(one) for one in running.recentProgress]
            self.progress += [one for one in told if one is not None]
        finally:
            running.stop()

    def found(self) -> list[Any]:
        rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return sorted((row.a[0]["note"], row.b[0]["note"]) for row in rows)

    def sums(self, name: str) -> int:
        return sum(getattr(one, name) for one in self.progress)


def test_a_query_goes_on_where_it_was_stopped(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, ids=True)
    query.run(trades(("A", 0, 1), ("A", 0, 2), ("B", 1, 1)))
    query.run(trades(("B", 3, 1), ("B", 2.5, 1)))
    query.run(trades(("B", 6, 1), ("C", 60, 9)))
    expected = [("A0", "B1"), ("A0", "B2.5"), ("A0", "B3")]
    assert query.found() == expected
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.select("id").distinct().count() == len(expected)
    assert query.sums("matches") == len(expected)


def test_batch_and_streaming_give_the_same_rows(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(3)
    events = [(chance.choice("AB"), i / 10, chance.randint(1, 3)) for i in range(200)]
    shuffled = sorted(events, key=lambda event: event[1] - chance.random())
    pieces = [shuffled[i : i + 50] for i in range(0, 200, 50)]
    query = Query(spark, tmp_path)
    query.run(*(trades(*piece) for piece in pieces), trades(("C", 99, 9)))
    found = recognize(spark.createDataFrame(trades(*events)), PAIRS).drop("start", "end")
    streamed = spark.read.parquet(str(tmp_path / "out")).drop("start", "end")
    assert streamed.columns == found.columns
    assert found.count() == streamed.count() > 0
    assert found.exceptAll(streamed).isEmpty()


def test_times_without_a_zone_count_as_utc_in_any_session(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.source.schema = TRADES.set(1, pa.field("ts", pa.timestamp("us")))
    three = (datetime(2024, 3, 10, 3, tzinfo=UTC).timestamp() * 10**6 - NOON) / 10**6
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set(
        "spark.sql.session.timeZone", "America/New_York"
    )  # 2:00 to 3:00 is no time there
    try:
        query.run(*(trades((type_, three + s, 1)) for type_, s in (("A", -2), ("B", 2), ("C", 99))))
        assert query.sums("late") == 0
        (row,) = spark.read.parquet(str(tmp_path / "out")).collect()
        assert row.end_ts == datetime(2024, 3, 10, 3, 0, 2)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_late_events_and_those_of_a_clock_ahead_are_set_aside(spark: Any, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    query = Query(spark, tmp_path, late_output=str(aside), on_error="skip")
    query.run(
        trades(("A", 0, 1), ("B", 10, 1), ("A", 10**9, 1)),
        trades(("B", 1, 1), ("B", 9, 1), ("A", None, 1)),
        trades(("C", 60, 9)),
    )
    assert query.found() == []
    assert (query.sums("late"), query.sums("ahead"), query.sums("untimed")) == (1, 1, 1)
    lines = [json.loads(line) for path in aside.glob("*.jsonl") for line in path.open()]
    told = sorted((line["reason"], line["event"]["note"]) for line in lines)
    assert told == [("ahead", "A1000000000"), ("late", "B1"), ("no time", "ANone")]
    assert query.progress[-1].watermark is not None
    assert query.progress[-1].watermark.startswith("2023")


def test_a_batch_that_runs_again_on_other_partitions_sets_each_event_aside_once(
    spark: Any, tmp_path: Path
) -> None:
    source, aside = Source(tmp_path / "in", TRADES), tmp_path / "aside"
    options = {"late_output": str(aside), "on_error": "skip", "tasks": 2}
    source.put(trades(*(("A", None if k % 2 else 10**9 + k, k) for k in range(12))))

    def run(partitions: int, write: Callable[[Any, int], Any]) -> None:
        stream = source.stream(spark).repartition(partitions)
        started = recognize(stream, PAIRS, **options).writeStream.foreachBatch(write)
        running = started.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            running.processAllAvailable()
        finally:
            running.stop()

    def fail(found: Any, _: int) -> None:
        found.collect()
        raise OSError("the sink is full")

    with pytest.raises(Exception, match="the sink is full"):
        run(3, fail)
    run(1, lambda found, _: found.collect())
    lines = [json.loads(line) for path in aside.glob("*.jsonl") for line in path.open()]
    assert sorted(line["event"]["k"] for line in lines) == list(range(12))


def test_a_second_run_leaves_the_side_output_of_the_first(spark: Any, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    for name, kind in (("first", "A"), ("second", "B")):
        query = Query(spark, tmp_path / name, late_output=str(aside), on_error="skip", tasks=1)
        query.run(trades((kind, None, 1)))
    files = sorted(aside.iterdir())
    lines = [json.loads(line) for path in files for line in path.open()]
    assert sorted(line["event"]["note"] for line in lines) == ["ANone", "BNone"]
    assert len({path.name.rsplit("-", 3)[0] for path in files}) == 2


def test_an_event_without_a_time_stops_the_query_unless_told_otherwise(
    spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"an event cannot be read \(no time\)"):
        Query(spark, tmp_path).run(trades(("A", None, 1)))


def test_state_leaves_with_the_window(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.run(trades(*(("A", i / 100, 1) for i in range(400))), trades(("C", 60, 9)))
    first, last = query.progress[0], query.progress[-1]
    assert first.state_bytes > 0
    assert (last.state_bytes, last.waiting) == (0, 0)
    assert (query.sums("rows"), query.sums("events"), query.sums("irrelevant")) == (401, 400, 1)


def test_a_checkpoint_of_another_query_is_refused_before_anything_is_touched(
    spark: Any, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    query = Query(spark, tmp_path, checkpoint=checkpoint)
    query.run(trades(("A", 0, 1)))
    before = sorted(path.name for path in Path(checkpoint).rglob("*"))
    query.query = PAIRS.replace("5 SECONDS", "6 SECONDS")
    with pytest.raises(StateError, match="belongs to another run; nothing was touched"):
        query.run()
    query.query, query.options["tasks"] = PAIRS, 5
    with pytest.raises(StateError, match="buckets was"):
        query.run()
    assert sorted(path.name for path in Path(checkpoint).rglob("*")) == before
    query.options["tasks"] = None  # the checkpoint knows
    query.run(trades(("B", 1, 1), ("C", 60, 9)))
    assert query.found() == [("A0", "B1")]


def test_a_checkpoint_of_other_types_inside_a_struct_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    checkpoint = tmp_path / "checkpoint"

    def claim(id_: str) -> None:
        schema = f"type string, ts timestamp, user struct<id: {id_}, name: string>"
        source = spark.readStream.schema(schema).json(str(tmp_path / "in"))
        query = "SELECT END AS last FROM S WHERE A AS a ; B AS b FILTER a[user.id] = b[user.id]"
        recognize(source, f"{query} WITHIN 5 SECONDS", checkpoint=str(checkpoint))

    claim("bigint")
    claim("bigint")
    with pytest.raises(StateError, match=r'"user\.id": "int64"'):
        claim("string")
    (note,) = (path for path in checkpoint.iterdir() if "int64" in path.read_text())
    note.write_text(note.read_text().replace('"user.id": "int64"', '"user.id": ""'))
    claim("string")  # notes of earlier versions do not say


def test_the_state_itself_refuses_another_query(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.run(trades(("A", 0, 1)))
    query.query = PAIRS.replace("5 SECONDS", "6 SECONDS")
    with pytest.raises(Exception, match="belongs to another query"):
        query.run(trades(("B", 1, 1)))


def test_answers_of_a_head_that_drops_variables_come_once(spark: Any, tmp_path: Path) -> None:
    query = "Q(x) <- A(k: x)@t1, B(k: x)@t2, t1 < t2"
    source = Source(tmp_path / "in", TRADES)
    for events in (
        trades(("A", 0, 1), ("B", 1, 1)),
        trades(("B", 2, 1), ("A", 3, 2), ("B", 4, 2)),
        trades(("C", 60, 9)),
    ):
        source.put(events)
    found = recognize(source.stream(spark), query, lang="cq")
    running = found.writeStream.format("memory").queryName("heads").start()
    running.processAllAvailable()
    running.stop()
    assert sorted(row.x for row in spark.table("heads").collect()) == [1, 2]


# ------------------------------------------------------------------- errors


def test_what_cannot_be_streamed_is_said_before_anything_starts(spark: Any, tmp_path: Path) -> None:
    stream = Source(tmp_path / "in", TRADES).stream(spark)
    with pytest.raises(DataError, match="no time column; name it with time="):
        recognize(stream.drop("ts"), PAIRS)
    with pytest.raises(CernisError, match="lateness a while: expected a time like"):
        recognize(stream, PAIRS, lateness="a while")
    with pytest.raises(DataError, match="no column 'broken' for what could not be decoded"):
        recognize(stream, PAIRS, corrupt="broken")
    batch = spark.createDataFrame(trades(("A", 0, 1)))
    with pytest.raises(CernisError, match="corrupt='note' is for streams"):
        recognize(batch, PAIRS, corrupt="note")
    with pytest.raises(DataError, match="some streams are streaming DataFrames and some are not"):
        recognize({"S": stream, "T": batch}, PAIRS.replace("FROM S", "FROM S, T"))
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    with pytest.warns(UserWarning, match="shuffle.partitions is 200"):
        recognize(stream, PAIRS, tasks=1)


def test_explain_tells_of_buckets_and_state(spark: Any, tmp_path: Path) -> None:
    stream = Source(tmp_path / "in", TRADES).stream(spark)
    told = str(cernis.spark.explain(stream, PAIRS, tasks=4))
    assert "streaming: by a hash of k, 4 buckets" in told
    assert "state: the events of the window" in told
    told = str(cernis.spark.explain(stream, "SELECT * FROM S WHERE A ; B", tasks=4))
    assert "streaming: 1 bucket; what would make it parallel: a key" in told
    assert "state: snapshots of the engine" in told
