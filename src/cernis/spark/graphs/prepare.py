"""From a SPAseQ query and RDF streams to a `GraphJob`: every decision, before anything runs.

The first events of each stream are read here: they say where times are, and whether these are
dates. Large N-Quads files are scanned for places to cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from cernis.errors import DataError
from cernis.rdf.exchange import SolutionWriter
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import PIECE
from cernis.rdf.reading.times import TimeRule
from cernis.spark.graphs.check import GraphFiles, Knowledge, check_graph_files, check_knowledge
from cernis.spark.graphs.layout import GraphLayout, cell_length, choose_graph_layout
from cernis.spark.graphs.worker import GraphAnswerForm, GraphWork, answer_schema

COLUMNS = ("stream", "number", "ts", "triples")
"""The columns of a DataFrame of events."""


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
        _check_columns(frame)
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


def _check_columns(events: DataFrame) -> None:
    missing = [name for name in COLUMNS if name not in events.columns]
    if missing:
        raise DataError(
            f"the events have no column {missing[0]!r}: read RDF files by "
            "spark.read.format('rdf'), which gives stream, number, ts, time, graph and triples"
        )


def _is_counted(events: DataFrame) -> bool:
    """Return whether times are numbers, as the first event tells."""
    if "time" not in events.columns:
        return True
    first = events.select("time").head(1)
    return not first or first[0][0] is None
