"""From a SPAseQ query and RDF streams to a `GraphJob`: every decision, before anything runs.

The first events of each stream are read here: they say where times are, and whether these are
dates. Large N-Quads files are scanned for places to cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cernis.errors import DataError
from cernis.events.mistakes import did_you_mean
from cernis.rdf.exchange import SolutionWriter
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import PIECE
from cernis.rdf.reading.times import TimeRule
from cernis.spark.graphs.check import GraphFiles, Knowledge, check_graph_files, check_knowledge
from cernis.spark.graphs.layout import GraphLayout, cell_length, choose_graph_layout
from cernis.spark.graphs.worker import GraphAnswerForm, GraphWork, answer_schema

COLUMNS = ("stream", "number", "ts", "triples")
"""The columns of a DataFrame of events."""
UNDECODABLE = "undecodable"
"""A column that rows of texts have (`cernis.spark.parse_graphs`): why one could not be read."""


@dataclass(frozen=True, eq=False)
class GraphJob:
    """The decisions about a query on RDF streams."""

    query: GraphQuery
    layout: GraphLayout
    files: GraphFiles
    frame: DataFrame | None
    """Events as rows, where they do not come from files."""
    background: Knowledge
    unit: str


def prepare_graph_job(
    query: GraphQuery,
    events: Any,
    *,
    background: Any = None,
    time: str | TimeRule | Mapping[str, TimeRule] | None = None,
    time_unit: str = "ms",
    format: str | None = None,
    on_error: str = "fail",
    piece: int = PIECE,
) -> GraphJob:
    """Decide how a query runs on files or on a DataFrame of events."""
    knowledge = check_knowledge(query, background)
    if not knowledge:
        SolutionWriter(query.plan)  # says which background is missing
    frame = events if hasattr(events, "mapInArrow") else None
    if frame is not None:
        check_columns(frame)
        frame = _take_readable(frame, on_error)
        files = GraphFiles((), _is_counted(frame), 0, 0)
    else:
        files = check_graph_files(
            query,
            events,
            scopes=len(knowledge),
            time=time,
            time_unit=time_unit,
            format=format,
            on_error=on_error,
            piece=piece,
        )
    return GraphJob(query, choose_graph_layout(query.plan), files, frame, knowledge, time_unit)


def find_streaming_frames(query: GraphQuery, events: Any) -> dict[str | None, DataFrame] | None:
    """Return the DataFrames of streams, if they are streaming ones; None names a mixed one."""
    named = events if isinstance(events, Mapping) else {None: events}
    if not any(getattr(frame, "isStreaming", False) for frame in named.values()):
        return None
    names = [name for name, _ in query.query.streams]
    for name, frame in named.items():
        if name is not None and name not in names:
            raise DataError(
                f"the query has no stream {name!r}{did_you_mean(str(name), names)}; "
                f"it has {', '.join(names)}"
            )
        if not getattr(frame, "isStreaming", False):
            raise DataError(f"stream {name}: streams are all streaming DataFrames, or none is")
    return dict(named)


def make_graph_work(
    job: GraphJob, tasks: int, form: GraphAnswerForm = "events", limit: int | None = None
) -> GraphWork:
    """Return the description of the work that travels to the workers."""
    work = GraphWork(
        plan=job.query.plan,
        background=job.background,
        unit=job.unit,
        numeric_times=job.files.numeric_times,
        layout=job.layout,
        tasks=tasks,
        low=job.files.low,
        length=cell_length(job.layout.window or 0, job.files.span, tasks),
        form=form,
        limit=limit,
    )
    return replace(work, schema=answer_schema(work))


def check_columns(events: DataFrame, known: Sequence[str] = ()) -> None:
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


def _is_counted(events: DataFrame) -> bool:
    """Return whether times are numbers, as the first event tells."""
    if "time" not in events.columns:
        return True
    first = events.select("time").head(1)
    return not first or first[0][0] is None
