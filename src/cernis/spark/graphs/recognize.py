"""`recognize_graphs`: the matches of a SPAseQ query in RDF streams, as a DataFrame.

    files ─ parts ─▶ read, solve (worker) ─ shuffle by key or cell of time ─ sort ─▶ engine (worker)

Nothing runs until the result is asked for, but the first events of each stream are read here: they
say where times are, and whether these are dates; and large N-Quads files are looked through for
places to cut. Graph patterns are solved where the events are read, in parallel; what travels are
their solutions. `cernis.spark.graphs.layout` says how these are spread.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.errors import CernisError, DataError
from cernis.plan.plan import Distribution
from cernis.rdf.exchange import TS, SolutionWriter
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import PIECE, FilePart
from cernis.rdf.reading.times import TimeRule
from cernis.spark.graphs.check import Knowledge, knowledge_of, open_streams
from cernis.spark.graphs.layout import GraphLayout, cell_length, explain_graphs, graph_layout
from cernis.spark.graphs.worker import (
    HIGH,
    LOW,
    GraphsWanted,
    GraphWork,
    answer_schema,
    recognize_solved,
    solve_parts,
    solve_rows,
)
from cernis.spark.tasks import DEFAULT_TASKS
from cernis.spark.worker import BUCKET

__all__ = ["GraphJob", "explain_graphs", "graph_job", "recognize_graphs"]

_COLUMNS = ("stream", "number", "ts", "triples")


def recognize_graphs(
    spark: SparkSession,
    query: GraphQuery | str,
    events: Any,
    *,
    background: Any = None,
    time: str | TimeRule | Mapping[str, TimeRule] | None = None,
    time_unit: str = "ms",
    format: str | None = None,
    on_error: str = "fail",
    matches: GraphsWanted = "events",
    tasks: int | None = None,
    piece: int = PIECE,
) -> DataFrame:
    """The matches in RDF streams as a lazy DataFrame, with the columns of `GraphMatches.to_arrow`.

    `events` has the files of each stream (one, several, or a folder), by name or in the order of
    FROM STREAM; or is a DataFrame of the source `rdf` (`cernis.spark.RdfDataSource`), whose
    streams are named as in the query. Files are read where the tasks run, so all machines must
    see them under the same path; so are files of `background`, which may be bytes as well.
    `background`, `time`, `time_unit` and `format` are those of `GraphQuery.run`; `on_error` is
    "fail" or "skip". `matches="lines"` gives each match as a line of JSON, with what puts the lines
    in order (`end`, `place`); `matches="count"` numbers of matches to be added up. `tasks` is how
    many tasks recognize; `piece` how many bytes of a large N-Quads file one task reads.
    """
    asked = query if isinstance(query, GraphQuery) else GraphQuery(query)
    job = graph_job(
        asked,
        events,
        background=background,
        time=time,
        time_unit=time_unit,
        format=format,
        on_error=on_error,
        piece=piece,
    )
    return job.matches(spark, matches, tasks=tasks)


@dataclass(frozen=True)
class GraphJob:
    """A query on RDF streams, decided and not yet run."""

    query: GraphQuery
    layout: GraphLayout
    parts: tuple[FilePart, ...]
    frame: DataFrame | None
    """Events as rows, where they do not come from files."""
    background: Knowledge
    unit: str
    counted: bool
    low: int
    span: int
    """When the streams begin, and about how long they go on."""

    def work(
        self, tasks: int, wanted: GraphsWanted = "events", limit: int | None = None
    ) -> GraphWork:
        """What the workers are told."""
        work = GraphWork(
            plan=self.query.plan,
            background=self.background,
            unit=self.unit,
            counted=self.counted,
            layout=self.layout,
            tasks=tasks,
            low=self.low,
            length=cell_length(self.layout.window or 0, self.span, tasks),
            wanted=wanted,
            limit=limit,
        )
        return replace(work, schema=answer_schema(work))

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of matches, in Arrow's types."""
        return self.work(1).session().matches([]).schema

    def tasks(self, spark: SparkSession, asked: int | None = None) -> int:
        """How many tasks recognize."""
        if self.layout.distribution is Distribution.SINGLE:
            return 1
        if asked is not None:
            if asked < 1:
                raise CernisError(f"tasks={asked}: at least one task is needed")
            return asked
        told = spark.conf.get("spark.sql.shuffle.partitions", DEFAULT_TASKS) or DEFAULT_TASKS
        context = getattr(spark, "_sc", None)
        if told == DEFAULT_TASKS and context is not None:
            return max(1, 2 * int(context.defaultParallelism))
        return max(1, int(told))

    def matches(
        self,
        spark: SparkSession,
        wanted: GraphsWanted = "events",
        *,
        tasks: int | None = None,
        limit: int | None = None,
    ) -> DataFrame:
        """The DataFrame of the answer."""
        if wanted not in ("events", "lines", "count", "placed", "quads"):
            raise CernisError(f"matches={wanted!r}: expected 'events', 'lines' or 'count'")
        if self.layout.distribution is Distribution.SINGLE:
            warnings.warn(
                f"this query runs in a single task; what would make it parallel: "
                f"{self.layout.parallel}",
                stacklevel=3,
            )
        if wanted == "count" and self.layout.again:
            lines = self.matches(spark, "lines", tasks=tasks)
            return lines.agg(F.count(F.lit(1)).cast("string").alias("count"))
        work = self.work(self.tasks(spark, tasks), wanted, limit)
        rows = self._solved(spark, work)
        spread = rows.repartitionById(work.tasks, F.col(BUCKET)).drop(BUCKET)
        found = spread.sortWithinPartitions(TS).mapInArrow(
            partial(recognize_solved, work), _spark_schema(work.schema)
        )
        return found.dropDuplicates() if self.layout.again and wanted != "count" else found

    def _solved(self, spark: SparkSession, work: GraphWork) -> DataFrame:
        schema = _spark_schema(work.solution_schema())
        if self.frame is None:
            number = len(self.parts)
            ids = spark.range(0, number, 1, max(number, 1))
            return ids.mapInArrow(partial(solve_parts, work, self.parts), schema)
        rows = self.frame.select(*_COLUMNS)
        if self.layout.distribution is Distribution.SLICED:
            span = self.frame.agg(F.struct(F.min(TS).alias("low"), F.max(TS).alias("high")))
            ends = span.scalar()
            rows = rows.withColumns({LOW: ends["low"], HIGH: ends["high"]})
        return rows.mapInArrow(partial(solve_rows, work), schema)


def graph_job(
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
    """What `recognize_graphs` decides before anything runs."""
    known = knowledge_of(query, background)
    if not known:
        SolutionWriter(query.plan)  # says which background is missing
    layout = graph_layout(query.plan)
    if _is_frame(events):
        _check(events)
        counted = _is_counted(events)
        return GraphJob(query, layout, (), events, known, time_unit, counted, 0, 0)
    opened = open_streams(
        query,
        events,
        scopes=len(known),
        time=time,
        time_unit=time_unit,
        format=format,
        on_error=on_error,
        piece=piece,
    )
    return GraphJob(
        query,
        layout,
        opened.parts,
        None,
        known,
        time_unit,
        opened.counted,
        opened.low,
        opened.span,
    )


# ---------------------------------------------------------------- DataFrames


def _is_frame(events: Any) -> bool:
    return hasattr(events, "mapInArrow")


def _check(events: DataFrame) -> None:
    missing = [name for name in _COLUMNS if name not in events.columns]
    if missing:
        raise DataError(
            f"the events have no column {missing[0]!r}: read RDF files by "
            "spark.read.format('rdf'), which gives stream, number, ts, time, graph and triples"
        )


def _is_counted(events: DataFrame) -> bool:
    """Whether times are numbers: the first event tells."""
    if "time" not in events.columns:
        return True
    first = events.select("time").head(1)
    return not first or first[0][0] is None


def _spark_schema(schema: pa.Schema | None) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
