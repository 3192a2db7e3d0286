"""From a SPAseQ query and RDF streams to the DataFrame of its matches.

    files ─ parts ─▶ read, solve (solve) ─ shuffle by key or cell of time ─ sort ─▶ engine
    events ─ watermark ─▶ solve, pack (solve) ─ shuffle by key ─▶ buckets ─▶ matches

Every decision is made before anything runs. The first events of each stream are read here: they say
where times are, and whether these are dates. Large N-Quads files are scanned for cuts.
Tasks solve the graph patterns where they read the events; only solutions travel, as `layout` says.

On streams, all queries share the buckets (`cernis.spark.streaming`); here they hold solutions. If
the query has no window, a bucket freezes its session.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.errors import CernisError, DataError
from cernis.plan.plan import Distribution
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.live_background import list_background_files
from cernis.rdf.reading.parts import PIECE
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.solving.exchange import TS, SolutionWriter
from cernis.rdf.source import check_stream
from cernis.signature import Secret
from cernis.spark.notes import Notes
from cernis.spark.options import JobOptions, OnRows, check_tasks, count_tasks
from cernis.spark.rdf import solve
from cernis.spark.rdf.files import GraphFiles, Knowledge, check_graph_files, check_knowledge
from cernis.spark.rdf.layout import (
    cell_length,
    choose_solution_layout,
    choose_solution_stream_layout,
)
from cernis.spark.rdf.solve import SolutionSpreader, SolutionWork
from cernis.spark.rdf.source import COLUMNS, UNDECODABLE
from cernis.spark.streaming.dataflow import (
    SHIFT,
    add_watermark,
    choose_buckets,
    describe_answer,
    digest_state,
    explain_rejection,
    find_matches,
    goes_on,
    prepare_session,
    row_metrics,
)
from cernis.spark.streaming.progress import ROWS
from cernis.work.bucket import BucketWork
from cernis.work.checkpoint import claim
from cernis.work.columns import BUCKET, EVENT, REASON, STREAM
from cernis.work.layout import Layout
from cernis.work.rdf import solution_answer_schema
from cernis.work.reading import AnswerForm, recognize_rows

_TIME = "time"


@dataclass(frozen=True, kw_only=True)
class RdfOptions(JobOptions):
    """How a query runs on RDF streams; `recognize_graphs` documents the options."""

    times: str | TimeRule | Mapping[str, TimeRule] | None = None
    """Where events have their times."""
    format: str | None = None
    piece: int = PIECE
    background: Any = None
    live: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How streams are read, for the note in the checkpoint."""

    def check(self) -> None:
        if self.matches not in ("events", "lines", "count", "quads"):
            raise CernisError(f"matches={self.matches!r}: expected 'events', 'lines' or 'count'")
        if self.on_error not in ("fail", "skip"):
            raise CernisError(f"on_error={self.on_error!r}: on Spark it is 'fail' or 'skip'")
        check_tasks(self.tasks)


def recognize_graphs(
    spark: Any,
    query: GraphQuery | str,
    events: Any,
    *,
    background: Any = None,
    live: bool = False,
    time: str | TimeRule | Mapping[str, TimeRule] | None = None,
    time_unit: str = "ms",
    format: str | None = None,
    on_error: OnRows = "fail",
    matches: AnswerForm = "events",
    tasks: int | None = None,
    piece: int | None = None,
    lateness: str | timedelta = "0 seconds",
    ahead: str | timedelta | None = "1 hour",
    late_output: str | None = None,
    checkpoint: str | None = None,
    notes: Notes | None = None,
    secret: Secret = None,
) -> Any:
    """Return the matches in RDF streams as a lazy DataFrame.

    Its columns are those of `GraphMatches.to_arrow`. `events` has the files of each stream (one,
    several, or a folder), by name or in the order of FROM STREAM; or it is a DataFrame of the
    source `rdf` (`cernis.spark.RdfDataSource`), whose streams are named as in the query. Tasks
    read the files, so all machines must see them under the same path. The same holds for files
    of `background`, which may be bytes as well. `background`, `time`, `time_unit` and `format` are
    those of `GraphQuery.run`; `on_error` is "fail" or "skip". `matches="lines"` gives each match as
    a line of JSON, with the columns that order the lines (`end`, `place`); `matches="count"` gives
    numbers of matches that add up to the count. `tasks` is the number of tasks that run the
    engine; `piece` is how many bytes of a large N-Quads file one task reads.

    A streaming DataFrame of events (`cernis.spark.parse_graphs` makes one of texts), or one for
    each stream by name, gives a streaming DataFrame. Times are dates if the rows have a column
    `time`; otherwise `ts` counts nanoseconds of plain numbers, which `time_unit` shows. Events may
    come in any order within the `lateness`. `lateness`, `ahead`, `late_output`, `checkpoint`,
    `secret` and `notes` are those of `recognize`; notes on graphs say how many were skipped.
    `tasks` is then the number of buckets that keys are spread over, which a checkpoint fixes. The
    files of a `live` background are read again in the first micro-batch after they have changed;
    each match has the versions that its events were solved with (`background`).
    """
    query = query if isinstance(query, GraphQuery) else GraphQuery(query)
    options = RdfOptions(
        times=time,
        time_unit=time_unit,
        format=format,
        piece=piece or PIECE,
        background=background,
        live=live,
        matches=matches,
        tasks=tasks,
        on_error=on_error,
        lateness=lateness,
        ahead=ahead,
        late_output=late_output,
        checkpoint=checkpoint,
        secret=secret,
    )
    frames = find_streaming_frames(query, events)
    if frames is not None:
        return recognize_rdf_stream(spark, query, frames, options, notes)
    if notes is not None:
        raise CernisError("notes= is for streams")
    if live:
        raise CernisError("live background: a batch reads its background once")
    return recognize_rdf_batch(spark, prepare_rdf_job(query, events, options))


@dataclass(frozen=True, eq=False)
class RdfJob:
    """The decisions about a query on RDF streams."""

    query: GraphQuery
    layout: Layout
    files: GraphFiles
    frame: DataFrame | None
    """Events as rows, where they do not come from files."""
    background: Knowledge
    options: RdfOptions

    def make_work(self, tasks: int = 1) -> SolutionWork:
        """Return the description of the work that travels to the workers."""
        files, options = self.files, self.options
        work = SolutionWork(
            plan=self.query.plan,
            background=self.background,
            unit=options.time_unit,
            numeric_times=files.numeric_times,
            layout=self.layout,
            tasks=tasks,
            low=files.low,
            length=cell_length(self.layout.window or 0, files.span, tasks),
            form=options.matches,
            placed=options.placed,
            limit=options.limit,
        )
        return replace(work, schema=solution_answer_schema(work))


# ------------------------------------------------------------------ batches


def prepare_rdf_job(query: GraphQuery, events: Any, options: RdfOptions) -> RdfJob:
    """Decide how a query runs on files or on a DataFrame of events."""
    knowledge = _find_knowledge(query, options)
    frame = events if hasattr(events, "mapInArrow") else None
    if frame is not None:
        _check_columns(frame)
        frame = _take_readable(frame, options.on_error)
        files = GraphFiles((), _has_numeric_times(frame), 0, 0)
    else:
        files = check_graph_files(
            query,
            events,
            scopes=len(knowledge),
            time=options.times,
            time_unit=options.time_unit,
            format=options.format,
            on_error=options.on_error,
            piece=options.piece,
        )
    return RdfJob(query, choose_solution_layout(query.plan), files, frame, knowledge, options)


def _find_knowledge(query: GraphQuery, options: RdfOptions) -> Knowledge:
    knowledge = check_knowledge(query, options.background)
    if not knowledge:
        SolutionWriter(query.plan)  # says which background is missing
    return knowledge


def recognize_rdf_batch(spark: SparkSession, job: RdfJob) -> DataFrame:
    """Return the DataFrame of the matches."""
    job.options.check()
    layout, options = job.layout, job.options
    single = layout.distribution is Distribution.SINGLE
    if single:
        warnings.warn(
            f"this query runs in a single task; what would make it parallel: {layout.parallel}",
            stacklevel=3,
        )
    counts = options.matches == "count" and layout.repeats
    if counts:
        job = replace(job, options=replace(options, matches="lines"))
    work = job.make_work(1 if single else options.tasks or count_tasks(spark))
    rows = _solve(spark, job, work).repartitionById(work.tasks, F.col(BUCKET)).drop(BUCKET)
    found = rows.sortWithinPartitions(TS).mapInArrow(
        partial(recognize_rows, work), _spark_schema(work.schema)
    )
    if layout.repeats:
        found = found.dropDuplicates()
    return found.agg(F.count(F.lit(1)).cast("string").alias("count")) if counts else found


def _solve(spark: SparkSession, job: RdfJob, work: SolutionWork) -> DataFrame:
    """Return the solutions of all graph patterns, each with its task."""
    schema = _spark_schema(work.solution_schema())
    if job.frame is None:
        number = len(job.files.parts)
        ids = spark.range(0, number, 1, max(number, 1))
        return ids.mapInArrow(partial(solve.solve_parts, work, job.files.parts), schema)
    rows = job.frame.select(*COLUMNS)
    if job.layout.distribution is Distribution.SLICED:
        span = job.frame.agg(F.struct(F.min(TS).alias("low"), F.max(TS).alias("high")))
        ends = span.scalar()
        rows = rows.withColumns({solve.LOW: ends["low"], solve.HIGH: ends["high"]})
    return rows.mapInArrow(partial(solve.solve_rows, work), schema)


def _spark_schema(schema: Any) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _check_columns(events: DataFrame, known: Sequence[str] = ()) -> None:
    """Raise an error if a DataFrame of events lacks a column; `known` need not be there."""
    missing = [name for name in COLUMNS if name not in (*events.columns, *known)]
    if missing:
        raise DataError(
            f"the events have no column {missing[0]!r}: read RDF files by "
            "spark.read.format('rdf') and texts by cernis.spark.parse_graphs, which give stream, "
            "number, ts, time, graph and triples"
        )


def _take_readable(events: DataFrame, on_error: str) -> DataFrame:
    """Drop the rows of texts that could not be read, or make them an error."""
    if UNDECODABLE not in events.columns:
        return events
    if on_error == "skip":
        return events.filter(F.col(UNDECODABLE).isNull())
    mistake = F.concat(F.lit("an event cannot be read: "), F.col(UNDECODABLE))
    checked = F.when(F.col(UNDECODABLE).isNull(), F.col("ts")).otherwise(F.raise_error(mistake))
    return events.withColumn("ts", checked)


def _has_numeric_times(events: DataFrame) -> bool:
    """Return whether times are numbers, as the first event tells."""
    if _TIME not in events.columns:
        return True
    first = events.select(_TIME).head(1)
    return not first or first[0][0] is None


# ------------------------------------------------------------------ streams


def find_streaming_frames(query: GraphQuery, events: Any) -> dict[str | None, DataFrame] | None:
    """Return the DataFrames of streams, if they are streaming ones; None names a mixed one."""
    named = events if isinstance(events, Mapping) else {None: events}
    if not any(getattr(frame, "isStreaming", False) for frame in named.values()):
        return None
    names = [name for name, _ in query.query.streams]
    for name, frame in named.items():
        if name is not None:
            check_stream(name, names)
        if not getattr(frame, "isStreaming", False):
            raise DataError(f"stream {name}: streams are all streaming DataFrames, or none is")
    return dict(named)


def recognize_rdf_stream(
    spark: SparkSession,
    query: GraphQuery,
    frames: Mapping[Any, DataFrame],
    options: RdfOptions,
    notes: Notes | None = None,
) -> DataFrame:
    """Return the matches in streams, by name; None names a DataFrame of several."""
    options.check()
    if options.live and options.secret is not None:
        raise CernisError(
            "secret= does not go with live background: its versions in the checkpoint are not "
            "signed"
        )
    stream, work = _make_stream_work(spark, query, options, dated=_are_dated(frames))
    if stream.window is None:
        warnings.warn(
            "no WITHIN bounds a match, so the state keeps every partial match", stacklevel=3
        )
    prepare_session(spark)
    if options.checkpoint is not None:
        claim(options.checkpoint, _describe_stream(stream, work, options), options.secret)
    name = secrets.token_hex(4)  # Spark wants all names of metrics in a query to differ
    if notes is not None:
        notes.watch_stream([], [], name)
    rows = None
    for i, (stream_name, frame) in enumerate(frames.items()):
        own = _watch(frame, stream_name, stream.shift, options)
        own = own.observe(f"{ROWS}{name}.{i}", *row_metrics())
        own = own.filter(goes_on(F.col(REASON).isNull(), options)).select(*_columns(stream))
        rows = own if rows is None else rows.unionByName(own)
    spread = SolutionSpreader(work, stream.buckets, bool(options.late_output))
    found: DataFrame = find_matches(rows, stream, options, name, spread)
    return _name_graphs(found) if options.matches == "quads" else found


def _name_graphs(found: DataFrame) -> DataFrame:
    """Name the graphs of CONSTRUCT after their matches: a match has the same name each time."""
    line = F.rtrim(F.replace(F.col("line"), F.lit("\0"), F.md5("line")), F.lit("\n"))
    return found.withColumn("line", line).filter(F.col("line") != "")


def _are_dated(frames: Mapping[Any, DataFrame]) -> bool:
    """Return whether times are dates: the rows have a column `time`."""
    for name, frame in frames.items():
        _check_columns(frame, () if name is None else ("stream",))
    dated = [_TIME in frame.columns for frame in frames.values()]
    if any(dated) != all(dated):
        raise DataError("the times of one stream are dates and those of another are numbers")
    return all(dated)


def _make_stream_work(
    spark: SparkSession, query: GraphQuery, options: RdfOptions, *, dated: bool
) -> tuple[BucketWork, SolutionWork]:
    plan, layout = query.plan, choose_solution_stream_layout(query.plan)
    knowledge = _find_knowledge(query, options)
    checkpoint = check_live(options) if options.live else None
    single = layout.distribution is Distribution.SINGLE
    buckets = choose_buckets(spark, options, single=single)
    work = SolutionWork(
        plan=plan,
        background=knowledge,
        unit=options.time_unit,
        numeric_times=not dated,
        layout=layout,
        tasks=len(buckets),
        form=options.matches,
        checkpoint=checkpoint,
    )
    work = replace(work, schema=solution_answer_schema(work))
    times = (work.unit, work.numeric_times, work.form, work.checkpoint is not None)
    described = [str(plan.query), repr(times), str(work.schema), repr(buckets)]
    stream = BucketWork(
        work=work,
        query=digest_state(*described),
        buckets=buckets,
        shift=0 if dated else SHIFT,
        window=plan.window,
    )
    return stream, work


def check_live(options: RdfOptions) -> str:
    """Return the folder of the checkpoint, in which the versions of the background are noted."""
    files = list_background_files(options.background)
    if not files:
        raise CernisError("live background: there is no background to be read again")
    checkpoint = options.checkpoint
    if checkpoint is None or "://" in checkpoint.removeprefix("file://"):
        raise CernisError(
            "a live background needs checkpoint=, a folder that all machines see: the version that "
            "each micro-batch used is noted there"
        )
    return checkpoint.removeprefix("file://")


def _describe_stream(stream: BucketWork, work: SolutionWork, options: RdfOptions) -> dict[str, Any]:
    """Describe the query, for the note in its checkpoint."""
    return {
        "query": str(work.plan.query),
        "times": f"numbers of {work.unit}" if work.numeric_times else "dates",
        "reading": dict(options.reading),
        "answer": describe_answer(work),
        "buckets": [*stream.buckets],
        "state": stream.query,
    }


def _watch(frame: DataFrame, name: str | None, shift: int, options: RdfOptions) -> DataFrame:
    """Add the name of the stream, why a row is set aside, and the watermark."""
    if name is not None:
        frame = frame.withColumn("stream", F.lit(name))
    micros = F.expr(f"({TS} - pmod({TS}, 1000L)) div 1000L")
    undecoded = F.col(UNDECODABLE).isNotNull() if UNDECODABLE in frame.columns else None
    reason = explain_rejection(micros, F.col(TS).isNull(), undecoded, options, shift)
    event = F.to_json(F.struct(*frame.columns))
    if not options.late_output:  # for the message, where a bad event is an error
        event = F.lit(None).cast("string") if undecoded is None else F.col(UNDECODABLE)
    frame = frame.withColumn(EVENT, event)
    watched: DataFrame = add_watermark(frame.withColumn(REASON, reason), micros, options, shift)
    return watched


def _columns(stream: BucketWork) -> list[Column]:
    names = F.array(*(F.lit(name) for name in stream.work.stream_names))
    number = F.greatest(F.array_position(names, F.col("stream")).cast("int") - 1, F.lit(0))
    columns = [F.col(name) for name in COLUMNS]
    # events that are set aside go to the first bucket, and say their stream by its number
    columns += [F.lit(stream.buckets[0]).alias(BUCKET), number.alias(STREAM)]
    return [*columns, F.col(REASON), F.col(EVENT)]
