"""From a SPAseQ query on streaming DataFrames to the streaming DataFrame of its matches.

    events ─ watermark ─▶ solve, pack (stream_worker) ─ shuffle by key ─▶ buckets ─▶ matches

All languages share the buckets (`cernis.spark.streaming`); here they hold solutions. If the query
has no window, a bucket freezes its session. `layout` says which solutions go to which bucket.
"""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cernis.errors import CernisError, DataError
from cernis.plan.plan import Distribution
from cernis.rdf.exchange import TS, SolutionWriter
from cernis.rdf.live_background import list_background_files
from cernis.rdf.query import GraphQuery
from cernis.spark.graphs.check import check_knowledge
from cernis.spark.graphs.layout import choose_graph_stream_layout
from cernis.spark.graphs.prepare import COLUMNS, UNDECODABLE, check_columns
from cernis.spark.graphs.stream_worker import GraphPacking, GraphStreamWork
from cernis.spark.graphs.worker import GraphAnswerForm, GraphWork, answer_schema
from cernis.spark.options import check_tasks, count_tasks
from cernis.spark.streaming.checkpoint import claim
from cernis.spark.streaming.dataflow import (
    SHIFT,
    StreamOptions,
    add_watermark,
    choose_buckets,
    explain_rejection,
    find_matches,
    prepare_session,
    row_metrics,
)
from cernis.spark.streaming.packing import PACKED, pack_rows
from cernis.spark.streaming.progress import ROWS
from cernis.spark.streaming.side_output import AHEAD, EVENT, REASON
from cernis.spark.worker import BUCKET, STREAM

_TIME = "time"


@dataclass(frozen=True, kw_only=True)
class GraphStreamOptions:
    """How a SPAseQ query runs on streams; `recognize_graphs` documents the options."""

    form: GraphAnswerForm = "events"
    unit: str = "ms"
    background: Any = None
    live: bool = False
    tasks: int | None = None
    on_error: str = "fail"
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How streams are read, for the note in the checkpoint."""
    flow: StreamOptions = field(default_factory=StreamOptions)


def recognize_graph_stream(
    spark: SparkSession,
    query: GraphQuery,
    frames: Mapping[Any, DataFrame],
    options: GraphStreamOptions,
) -> DataFrame:
    """Return the matches in streams, by name; None names a DataFrame of several."""
    if options.form not in ("events", "lines", "count", "quads"):
        raise CernisError(f"matches={options.form!r}: expected 'events', 'lines' or 'count'")
    if options.on_error not in ("fail", "skip"):
        raise CernisError(f"on_error={options.on_error!r}: on Spark it is 'fail' or 'skip'")
    if options.live and options.flow.secret is not None:
        raise CernisError(
            "secret= does not go with live background: its versions in the checkpoint are not "
            "signed"
        )
    check_tasks(options.tasks)
    dated = _are_dated(frames)
    stream = _make_work(spark, query, options, dated)
    if stream.window is None:
        warnings.warn(
            "no WITHIN bounds a match, so the state keeps every partial match", stacklevel=3
        )
    prepare_session(spark)
    flow = options.flow
    if flow.checkpoint is not None:
        claim(flow.checkpoint, _note(stream, options.reading), flow.secret)
    name = secrets.token_hex(4)  # Spark wants all names of metrics in a query to differ
    if flow.notes is not None:
        flow.notes.watch_stream([], [], name)
    rows = None
    for i, (stream_name, frame) in enumerate(frames.items()):
        own = _watch(frame, stream_name, stream, flow).observe(f"{ROWS}{name}.{i}", *row_metrics())
        own = own.filter(_goes_on(options)).select(*_columns(stream))
        rows = own if rows is None else rows.unionByName(own)
    assert rows is not None
    packing = GraphPacking(
        streams=stream.stream_names,
        side_output=bool(flow.late_output),
        fails=options.on_error == "fail",
        work=stream.work,
        buckets=stream.buckets,
    )
    packed = rows.mapInArrow(partial(pack_rows, packing), PACKED)
    found: DataFrame = find_matches(packed, stream, flow, name)
    return _name_graphs(found) if options.form == "quads" else found


def _name_graphs(found: DataFrame) -> DataFrame:
    """Name the graphs of CONSTRUCT after their matches: a match has the same name each time."""
    line = F.rtrim(F.replace(F.col("line"), F.lit("\0"), F.md5("line")), F.lit("\n"))
    return found.withColumn("line", line).filter(F.col("line") != "")


# ---------------------------------------------------------------- decisions


def _are_dated(frames: Mapping[Any, DataFrame]) -> bool:
    """Return whether times are dates: the rows have a column `time`."""
    for name, frame in frames.items():
        check_columns(frame, () if name is None else ("stream",))
    dated = [_TIME in frame.columns for frame in frames.values()]
    if any(dated) != all(dated):
        raise DataError("the times of one stream are dates and those of another are numbers")
    return all(dated)


def _make_work(
    spark: SparkSession, query: GraphQuery, options: GraphStreamOptions, dated: bool
) -> GraphStreamWork:
    plan, layout = query.plan, choose_graph_stream_layout(query.plan)
    knowledge = check_knowledge(query, options.background)
    if not knowledge:
        SolutionWriter(plan)  # says which background is missing
    checkpoint = check_live(options) if options.live else None
    single = layout.distribution is Distribution.SINGLE
    number = 1 if single else options.tasks or count_tasks(spark)
    asked = 1 if single else options.tasks
    buckets = choose_buckets(spark, number, asked, options.flow)
    work = GraphWork(
        plan=plan,
        background=knowledge,
        unit=options.unit,
        numeric_times=not dated,
        layout=layout,
        tasks=len(buckets),
        form=options.form,
        checkpoint=checkpoint,
    )
    work = replace(work, schema=answer_schema(work))
    return GraphStreamWork(
        work=work,
        query=_fingerprint(work, buckets),
        buckets=buckets,
        shift=0 if dated else SHIFT,
        window=plan.window,
    )


def check_live(options: GraphStreamOptions) -> str:
    """Return the folder of the checkpoint, in which the versions of the background are noted."""
    files = list_background_files(options.background)
    if not files:
        raise CernisError("live background: there is no background to be read again")
    checkpoint = options.flow.checkpoint
    if checkpoint is None or "://" in checkpoint.removeprefix("file://"):
        raise CernisError(
            "a live background needs checkpoint=, a folder that all machines see: the version that "
            "each micro-batch used is noted there"
        )
    return checkpoint.removeprefix("file://")


def _fingerprint(work: GraphWork, buckets: tuple[int, ...]) -> str:
    """Return a digest of what a state belongs to: the query, its times and its buckets."""
    times = (work.unit, work.numeric_times, work.form, work.checkpoint is not None)
    described = [str(work.plan.query), repr(times), str(work.schema), repr(buckets)]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]


def _note(stream: GraphStreamWork, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the query, for the note in its checkpoint."""
    work = stream.work
    return {
        "query": str(work.plan.query),
        "times": f"numbers of {work.unit}" if work.numeric_times else "dates",
        "reading": dict(reading),
        "answer": [f"{field.name}: {field.type}" for field in work.schema or ()],
        "buckets": [*stream.buckets],
        "state": stream.query,
    }


# --------------------------------------------------------------------- rows


def _watch(
    frame: DataFrame, name: str | None, stream: GraphStreamWork, flow: StreamOptions
) -> DataFrame:
    """Add the name of the stream, why a row is set aside, and the watermark."""
    if name is not None:
        frame = frame.withColumn("stream", F.lit(name))
    micros = F.expr(f"({TS} - pmod({TS}, 1000L)) div 1000L")
    undecoded = F.col(UNDECODABLE).isNotNull() if UNDECODABLE in frame.columns else None
    reason = explain_rejection(micros, F.col(TS).isNull(), undecoded, flow, stream.shift)
    event = F.to_json(F.struct(*frame.columns))
    if not flow.late_output:  # for the message, where a bad event is an error
        event = F.lit(None).cast("string") if undecoded is None else F.col(UNDECODABLE)
    frame = frame.withColumn(EVENT, event)
    watched: DataFrame = add_watermark(frame.withColumn(REASON, reason), micros, flow, stream.shift)
    return watched


def _goes_on(options: GraphStreamOptions) -> Column:
    """Return which rows travel: to be read, to be written to the side output, or to be an error."""
    reason = F.col(REASON)
    if options.flow.late_output:
        return F.lit(True)
    if options.on_error == "fail":
        return reason.isNull() | (reason != AHEAD)
    return reason.isNull()


def _columns(stream: GraphStreamWork) -> list[Column]:
    names = F.array(*(F.lit(name) for name in stream.stream_names))
    place = F.greatest(F.array_position(names, F.col("stream")).cast("int") - 1, F.lit(0))
    columns = [F.col(name) for name in COLUMNS]
    # events that are set aside go to the first bucket, and say their stream by its number
    columns += [F.lit(stream.buckets[0]).alias(BUCKET), place.alias(STREAM)]
    return [*columns, F.col(REASON), F.col(EVENT)]
