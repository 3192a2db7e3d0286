"""`cernis run` and `cernis explain` for SPAseQ queries over RDF streams, on Spark.

The query and the first events are checked before Spark starts, which takes seconds. Matches leave
the tasks in order (`cernis.cli.spark_run`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import cernis
from cernis.cli.arguments import Delivery, RunArguments, all_files, has_pipe
from cernis.cli.deliver import GRAPH_MATCHES
from cernis.cli.graphs import parse_query
from cernis.cli.spark_run import SparkRun
from cernis.cli.terminal import spinner
from cernis.errors import CernisError, list_warnings
from cernis.rdf.matches import GraphMatch
from cernis.results.values import python_values
from cernis.spark.local.session import session, spark_class
from cernis.spark.rdf.explanation import SolutionExplanation, explain_graphs
from cernis.spark.rdf.files import check_graph_files

if TYPE_CHECKING:
    from cernis.spark.files.merge import MatchFiles
    from cernis.spark.options import AnswerForm
    from cernis.spark.rdf.recognize import RdfJob

_FORMS: dict[str, AnswerForm] = {
    "parquet": "events",
    "arrow": "events",
    "csv": "events",
    "nq": "quads",
}
_SMALL = 1 << 24
"""This process reads so many bytes again, to say why nothing was found."""


def run(arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of a query in RDF files, and deliver them."""
    query, reading = parse_query(arguments.text, delivery), arguments.reading_graphs
    on_error = arguments.on_error
    if on_error not in ("fail", "skip"):
        raise CernisError(f"--on-error {on_error}: on Spark it is fail or skip")
    spark_class()  # an error if Spark is missing
    from cernis.spark.rdf.recognize import RdfOptions, prepare_rdf_job

    with spinner("looking at files"):
        times = reading.pop("time")
        job = prepare_rdf_job(query, arguments.files, RdfOptions(times=times, **reading))
    with spinner("starting Spark"):
        spark = session()
    _GraphRun(job, spark, arguments).deliver(delivery, strict=arguments.strict)


def explain(arguments: RunArguments) -> SolutionExplanation:
    """Explain how Spark runs a query; with files, in how many parts it reads them."""
    query, files = cernis.query(arguments.text, lang="spaseq"), arguments.files
    if not files:
        return explain_graphs(query)
    reading = arguments.reading_graphs
    del reading["background"]
    return explain_graphs(query, check_graph_files(query, files, **reading).parts)


class _GraphRun(SparkRun):
    """A query on RDF files."""

    kind = GRAPH_MATCHES

    def __init__(self, job: RdfJob, spark: Any, arguments: RunArguments) -> None:
        super().__init__()
        self.job, self.spark, self.arguments = job, spark, arguments
        self._form: AnswerForm = "lines"

    def count(self) -> int:
        counts = self._recognize(self._prepare("count"))
        with spinner("counting on Spark"):
            count = sum(int(row[0]) for row in counts.collect())
        self._found_any = count > 0
        return count

    def first(self, limit: int, *, events: bool = False) -> Sequence[GraphMatch]:
        lines = self._recognize(self._prepare("lines", limit))
        with spinner("running on Spark"):
            table = lines.orderBy("end", "place").limit(limit).toArrow()
        return [self._match(json.loads(line)) for line in table.column("line").to_pylist()]

    def _match(self, line: dict[str, Any]) -> GraphMatch:
        start, end = (self._time(line[name]) for name in ("start_ts", "end_ts"))
        events = tuple((stream, number) for stream, number in line["events"])
        return GraphMatch(start, end, line["bindings"], events)

    def _time(self, value: Any) -> Any:
        """Return the value of a time in a line of JSON."""
        type_ = self._schema.field("start_ts").type
        return python_values(pa.array([value], pa.string()).cast(type_))[0] if value else value

    def find(self, delivery: Delivery, folder: Path) -> AbstractContextManager[MatchFiles]:
        from cernis.spark.files.merge import write_matches

        self._form = _FORMS.get(delivery.form, "lines")
        job = self._prepare(self._form, delivery.limit)
        matches, schema = self._recognize(job), job.make_work().schema
        assert schema is not None
        order = schema.names[:2]
        writing = write_matches(matches, schema, order, folder, sort=self.job.layout.repeats)
        return self._note_any(writing)

    def lines(self, batch: pa.RecordBatch, number: int) -> pa.StringArray:
        line = batch.column("line")
        if self._form == "quads":
            numbers = pa.array(range(number, number + len(line))).cast(pa.string())
            return pc.binary_join(pc.split_pattern(line, "\0"), numbers)
        return pc.binary_join_element_wise(line, "", "\n")

    @cached_property
    def _schema(self) -> pa.Schema:
        """The columns of matches, in the engine's types."""
        return self.job.make_work().open_session().matches([]).schema

    def schema(self, files: MatchFiles) -> pa.Schema:
        return self._schema

    def columns(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_arrays(table.columns[2:], schema.names).cast(schema)

    def _prepare(self, form: AnswerForm, limit: int | None = None) -> RdfJob:
        options = replace(self.job.options, matches=form, placed=form == "events", limit=limit)
        return replace(self.job, options=options)

    def _recognize(self, job: RdfJob) -> Any:
        from cernis.spark.rdf.recognize import recognize_rdf_batch

        with self.catch_warnings():
            return recognize_rdf_batch(self.spark, job)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        yield from self._warn_about_events()
        if self.arguments.on_error == "skip":
            yield "--on-error skip: lines and events that cannot be read are left out, uncounted"

    def _warn_about_events(self) -> Iterator[str]:
        """Yield what is odd about the events of a small input in which nothing was found.

        This process reads it once more, as the embedded engine does.
        """
        files = self.arguments.files
        if self._found_any or has_pipe(files):
            return
        if sum(file.stat().st_size for file in all_files(files)) > _SMALL:
            return
        session = self.job.query.session(**self.arguments.reading_graphs)
        for _ in session.stream(self.job.query.name_streams(files)):
            pass
        yield from list_warnings(session.notes)
