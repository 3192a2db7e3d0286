"""`cernis run --engine spark` and `cernis explain --engine spark` for SPAseQ queries.

The same output as the local engine's, byte for byte where it is text. The query and the first
events are looked at before Spark starts, which takes seconds. Matches leave the tasks in order
and are merged from their files (`cernis.spark.files.merge`).
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cernis.cli.deliver import MATCH, say_written, write_number
from cernis.cli.show import errors, waiting
from cernis.cli.show import output as standard_output
from cernis.cli.spaseq import show_first
from cernis.errors import CernisError
from cernis.rdf.matches import GraphMatch
from cernis.rdf.query import GraphQuery
from cernis.results.jsonlines import text_of
from cernis.results.values import python_values
from cernis.spark.graphs.check import check_graph_files
from cernis.spark.graphs.explanation import explain_graphs
from cernis.spark.local.session import session, spark_class

if TYPE_CHECKING:
    from cernis.spark.files.merge import Parts
    from cernis.spark.graphs.prepare import GraphJob

Files = Sequence[Path] | Mapping[str, Path]


def run(
    query: GraphQuery,
    files: Files,
    reading: dict[str, Any],
    *,
    output: str | None,
    count: bool,
    limit: int | None,
    shown: int,
) -> None:
    """Find the matches of a query in files, on Spark."""
    if reading["on_error"] not in ("fail", "skip"):
        raise CernisError(f"--on-error {reading['on_error']}: on Spark it is fail or skip")
    spark_class()  # says so where Spark is missing
    from cernis.spark.graphs.prepare import prepare_graph_job

    with waiting("looking at files"):
        job = prepare_graph_job(query, files, **reading)
    with waiting("starting Spark"):
        spark = session()
    running = _Running(job, spark)
    if count:
        write_number(running.total(), limit, output)
    elif output is None:
        running.show(shown if limit is None else limit)
    else:
        running.write(output, limit)
    for note in running.notes(reading["on_error"]):
        errors().print(f"note: {note}", soft_wrap=True)


def explain(query: GraphQuery, files: Files, reading: dict[str, Any]) -> str:
    """How the query would be run; with files, in how many parts they would be read."""
    if not files:
        return str(explain_graphs(query))
    reading = {name: reading[name] for name in ("time", "time_unit", "format", "on_error")}
    return str(explain_graphs(query, check_graph_files(query, files, **reading).parts))


class _Running:
    """A query on RDF files."""

    def __init__(self, job: GraphJob, spark: Any) -> None:
        self.job, self.spark = job, spark
        self._said: list[str] = []

    @cached_property
    def _columns(self) -> pa.Schema:
        from cernis.spark.graphs.prepare import make_graph_work

        return make_graph_work(self.job, 1).open_session().matches([]).schema

    def total(self) -> int:
        counts = self._matches("count")
        with waiting("counting on Spark"):
            return sum(int(row[0]) for row in counts.collect())

    def show(self, limit: int) -> None:
        """A table of the first matches, and how many there are."""
        total = self.total()
        first: list[GraphMatch] = []
        if total and limit:
            lines = self._matches("lines", limit)
            with waiting("running on Spark"):
                table = lines.orderBy("end", "place").limit(limit).toArrow()
            first = [self._match(json.loads(line)) for line in table.column("line").to_pylist()]
        show_first(first, total, standard_output())

    def _match(self, line: dict[str, Any]) -> GraphMatch:
        times = [self._time(line[name]) for name in ("start_ts", "end_ts")]
        events = tuple((stream, number) for stream, number in line["events"])
        return GraphMatch(times[0], times[1], line["bindings"], events)

    def _time(self, value: Any) -> Any:
        """A time of a line of JSON as the value that it was."""
        kind = self._columns.field("start_ts").type
        return python_values(pa.array([value], pa.string()).cast(kind))[0] if value else value

    def write(self, output: str, limit: int | None) -> None:
        """JSON lines, Parquet or N-Quads, to a file or to standard output."""
        from cernis.spark.files.merge import parts_of
        from cernis.spark.graphs.prepare import make_graph_work

        form = {".parquet": "placed", ".nq": "quads"}.get(Path(output).suffix, "lines")
        matches = self._matches(form, limit)
        schema = make_graph_work(self.job, 1, form).schema  # type: ignore[arg-type]
        assert schema is not None
        place = Path(tempfile.gettempdir()) if output == "-" else Path(output).absolute().parent
        with ExitStack() as stack:
            with waiting("running on Spark"):
                found = parts_of(
                    matches, schema, schema.names[:2], place, sort=self.job.layout.repeats
                )
                parts = stack.enter_context(found)
            if output == "-":
                _write_text(parts, limit, sys.stdout.buffer, form)
                sys.stdout.buffer.flush()
                return
            if form == "placed":
                written = self._write_parquet(parts, limit, output)
            else:
                with open(output, "wb") as file:
                    written = _write_text(parts, limit, file, form)
        say_written(written, output, MATCH)

    def _write_parquet(self, parts: Parts, limit: int | None, output: str) -> int:
        schema, written = self._columns, 0
        with pq.ParquetWriter(output, schema) as writer:
            for table in _first(parts.merged(), limit):
                told = pa.Table.from_arrays(table.columns[2:], schema.names)
                writer.write_table(told.cast(schema))
                written += table.num_rows
        return written

    def _matches(self, wanted: Any, limit: int | None = None) -> Any:
        from cernis.spark.graphs.batch import recognize_graph_batch

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            matches = recognize_graph_batch(self.spark, self.job, wanted, limit=limit)
        self._said += [str(one.message) for one in caught if str(one.message) not in self._said]
        return matches

    def notes(self, on_error: str) -> Iterator[str]:
        """What a user should know of the run."""
        yield from self._said
        if on_error == "skip":
            yield "--on-error skip: lines and events that cannot be read are left out, uncounted"


def _write_text(parts: Parts, limit: int | None, file: BinaryIO, form: str) -> int:
    written = 0
    for table in _first(parts.merged(), limit):
        for batch in table.to_batches():
            line = batch.column("line")
            if form == "quads":
                numbers = pa.array(range(written, written + len(line))).cast(pa.string())
                line = pc.binary_join(pc.split_pattern(line, "\0"), numbers)
            else:
                line = pc.binary_join_element_wise(line, "", "\n")
            file.write(text_of(line))
            written += len(line)
    return written


def _first(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The first rows of all."""
    left = limit
    for table in tables if left != 0 else ():
        if left is not None:
            table = table.slice(0, left)
            left -= table.num_rows
        yield table
        if left == 0:
            return
