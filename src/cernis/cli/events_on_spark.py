"""`cernis run --engine spark` and `cernis explain --engine spark`.

The same output as the embedded engine's, byte for byte where it is text: the rows that
matches report, their order, and how values are written are those of the files.

Cost: the query, the files and the output are checked before Spark starts, which takes
seconds. The first matches and their number are two jobs; lines and Parquet are one, whose
results are merged from files of the tasks (`cernis.spark.files.merge`).
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cernis.cli.deliver import ANSWER, MATCH, Noun, say_found, say_written, write_number
from cernis.cli.show import answers_table, errors, matches_table, waiting
from cernis.cli.show import output as standard_output
from cernis.pattern.atom import TypeIs
from cernis.pattern.selection import counts_only
from cernis.results.answers import Answers
from cernis.results.jsonlines import answer_lines, text_of
from cernis.results.match import Match
from cernis.run.query import Query
from cernis.spark.carriers import convert
from cernis.spark.files.check import Files, open_files, readable
from cernis.spark.local.session import session
from cernis.spark.requirements import tests_and_atoms

if TYPE_CHECKING:
    from cernis.spark.files.load import Frames
    from cernis.spark.files.merge import Parts
    from cernis.spark.prepare import Job
    from cernis.spark.worker import Work

__all__ = ["explain", "readable", "run"]

_LARGEST = 2**63 - 1


def run(
    query: Query,
    files: Files,
    form: dict[str, Any],
    *,
    output: str | None,
    count: bool,
    limit: int | None,
    shown: int,
    on_error: str,
    allowance: dict[str, Any],
) -> None:
    """Find the matches of a query in files, on Spark."""
    with _running(query, files, form, on_error, allowance) as running:
        if count:
            write_number(running.total(), limit, output)
        elif output is None:
            running.show(shown if limit is None else limit)
        else:
            running.write(output, limit)
        for note in running.notes():
            errors().print(f"note: {note}", soft_wrap=True)


def explain(query: Query, files: Files, form: dict[str, Any]) -> str:
    """How the query would be run, with the share of events that would travel."""
    with _running(query, files, form, "fail", {}) as running:
        return running.explained()


@contextmanager
def _running(
    query: Query, files: Files, form: dict[str, Any], on_error: str, allowance: dict[str, Any]
) -> Iterator[_Running]:
    sources = open_files(files, query, on_error=on_error, **form)
    with waiting("starting Spark"):
        spark = session()
    # needs Spark, which may be missing: `session` says so
    from cernis.spark.files.load import frames_of_files

    types = {atom.type for atom in _types_asked(query)}
    reading = {name: form[name] for name in ("time", "type", "time_unit")}
    with ExitStack() as stack:
        with waiting("reading files"):
            frames = stack.enter_context(
                frames_of_files(spark, sources, on_error=on_error, types=types)
            )
        yield _Running(query, frames, reading, allowance)


def _types_asked(query: Query) -> list[TypeIs]:
    return [atom for atom in tests_and_atoms(query.plan)[1] if isinstance(atom, TypeIs)]


@dataclass
class _Running:
    """A query on DataFrames."""

    query: Query
    frames: Frames
    reading: dict[str, Any]
    allowance: dict[str, Any]
    said: list[str] = field(default_factory=list)
    found_any: bool = False

    # ------------------------------------------------------------- numbers

    def total(self) -> int:
        """How many matches (or answers) there are."""
        matches = self._matches(*self._prepare(matches="count"))
        with waiting("counting on Spark"):
            number = matches.count() if self._is_head else _sum(matches, matches.columns[-1])
        self.found_any = number > 0
        return number

    @property
    def _is_head(self) -> bool:
        """Whether the query has answers, and not matches."""
        return self.query.plan.head is not None

    @property
    def noun(self) -> Noun:
        return ANSWER if self._is_head else MATCH

    # --------------------------------------------------------------- table

    def show(self, limit: int) -> None:
        """A table of the first matches, and how many there are."""
        total = self.total()
        console = standard_output()
        shown, counting = 0, False
        if total and limit:
            job, work, order = self._prepare_ordered(limit, lines=True)
            matches = self._matches(job, work)
            with waiting("running on Spark"):
                first = matches.orderBy(*order).limit(limit).toArrow()
            shown = first.num_rows
            if self._is_head:
                table = _as_read(first, _without_place(work.answer))
                console.print(answers_table(Answers(self._names(), table).head(limit)))
            else:
                lines = [json.loads(line) for line in first.column("line").to_pylist()]
                counting = counts_only(self.query.pattern)
                console.print(matches_table(list(map(self._match, lines)), counting=counting))
        say_found(console, total, 0 if counting else total - shown, self.noun)

    def _match(self, line: dict[str, Any]) -> Match:
        interval = (line.get("start", line["end"]), line["end"])
        counted = {"COUNT(*)": line["count"]} if "count" in line else {}
        return Match(
            start=interval[0],
            end=interval[1],
            start_ts=self._time(line.get("start_ts", line["end_ts"])),
            end_ts=self._time(line["end_ts"]),
            vars=line.get("vars", {}),
            partition=line["partition"],
            aggregates=line.get("aggregates", counted),
            interval=interval,
            positions={},
            _events=None,  # type: ignore[arg-type]
            _attributes={},
        )

    def _time(self, value: Any) -> Any:
        """A time of a line of JSON as the value that it was."""
        columns = next(iter(self.frames.columns.values()))
        name = self.reading["time"] or "ts"
        if name not in columns.names:
            return value
        if pa.types.is_timestamp(columns.field(name).type):
            return datetime.fromisoformat(value)
        return date.fromisoformat(value) if pa.types.is_date(columns.field(name).type) else value

    # --------------------------------------------------------------- files

    def write(self, output: str, limit: int | None) -> None:
        """JSON lines or Parquet, to a file or to standard output."""
        from cernis.spark.files.merge import parts_of

        parquet = output.endswith(".parquet")
        job, work, order = self._prepare_ordered(limit, lines=not parquet)
        matches = self._matches(job, work)
        place = Path(tempfile.gettempdir()) if output == "-" else Path(output).absolute().parent
        with ExitStack() as stack:
            with waiting("running on Spark"):
                schema = work.schema
                assert schema is not None
                found = parts_of(matches, schema, order, place, sort=_is_scattered(job))
                parts = stack.enter_context(found)
            self.found_any = parts.count > 0
            if parquet:
                written = self._write_parquet(work, parts, limit, output)
            elif output == "-":
                self._write_lines(work, parts, limit, sys.stdout.buffer)
                sys.stdout.buffer.flush()
                return
            else:
                with open(output, "wb") as file:
                    written = self._write_lines(work, parts, limit, file)
        say_written(written, output, self.noun)

    def _write_lines(self, work: Work, parts: Parts, limit: int | None, file: BinaryIO) -> int:
        lines = self._answer_lines(work) if self._is_head else _match_lines
        written = 0
        for table in _first(parts.merged(), limit):
            for batch in table.to_batches():
                file.write(text_of(lines(batch)))
            written += table.num_rows
        return written

    def _answer_lines(self, work: Work) -> Callable[[pa.RecordBatch], pa.StringArray]:
        names, schema = self._names(), _without_place(work.answer)

        def lines(batch: pa.RecordBatch) -> pa.StringArray:
            table = _as_read(pa.Table.from_batches([batch]), schema)
            *values, ends, times = (column.combine_chunks() for column in table.columns)
            return answer_lines(names, values, ends, times)

        return lines

    def _write_parquet(self, work: Work, parts: Parts, limit: int | None, output: str) -> int:
        schema = _without_place(work.answer)
        if counts_only(self.query.pattern):
            schema = _narrowed(schema, parts)
        written = 0
        with pq.ParquetWriter(output, schema) as writer:
            for table in _first(parts.merged(), limit):
                writer.write_table(_as_read(table, schema))
                written += table.num_rows
        return written

    def _names(self) -> list[str]:
        head = self.query.plan.head
        assert head is not None
        return [column.name for column in head.columns]

    # ---------------------------------------------------------------- jobs

    def _prepare_ordered(self, limit: int | None, *, lines: bool) -> tuple[Job, Work, list[str]]:
        """Return the job, its work, and the columns that put its matches in order."""
        if lines and not self._is_head:
            return *self._prepare(matches="lines", limit=limit), ["end_ts", "end", "place"]
        job, work = self._prepare(matches="events", limit=limit, placed=True)
        assert work.answer is not None
        if self._is_head:
            end, end_ts, place = work.answer.names[-3:]
            return job, work, [end_ts, end, place]
        return job, work, ["end_ts", "end", work.answer.names[-1]]

    def _prepare(self, **how: Any) -> tuple[Job, Work]:
        from cernis.spark.prepare import JobOptions, make_work, prepare_job

        options = JobOptions(
            **self.reading,
            **self.allowance,
            row=self.frames.row,
            on_error=self.frames.on_error,
            **how,
        )
        job = prepare_job(self.frames.frames, self.query, options)
        return job, make_work(job)

    def _matches(self, job: Job, work: Work) -> Any:
        from cernis.spark.batch import recognize_batch

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            matches = recognize_batch(job, work)
        self.said += [str(one.message) for one in caught if str(one.message) not in self.said]
        return matches

    def explained(self) -> str:
        from cernis.spark.explanation import explain as explain_job

        options = {**self.reading, "row": self.frames.row, "on_error": self.frames.on_error}
        with waiting("counting on Spark"):
            return str(explain_job(self.frames.frames, self.query, measure=True, **options))

    # --------------------------------------------------------------- notes

    def notes(self) -> Iterator[str]:
        """What a user should know of the run."""
        yield from self.said
        yield from self.frames.notes
        yield from self._absent_types()
        yield from self.query.plan.notes
        if self.allowance.get("on_budget") == "partial" and self.query.plan.tables is not None:
            yield "--partial: a task that spends its budget stops there, and matches may be missing"

    def _absent_types(self) -> Iterator[str]:
        """Types that no event has. Spark looks for them only where nothing was found."""
        for atom in _types_asked(self.query) if self.frames.rows else ():
            names = [n for n in self.frames.frames if atom.stream in (None, n)]
            unknown = [n for n in names if n not in self.frames.types]
            if any(atom.type in self.frames.types.get(n, ()) for n in names):
                continue
            if unknown and (self.found_any or any(self._has(n, atom.type) for n in unknown)):
                continue
            where = f" of stream {atom.stream!r}" if atom.stream else ""
            yield f"no event{where} has the type {atom.type!r}"

    def _has(self, stream: str, type_: str) -> bool:
        data = self.frames.frames[stream]
        from cernis.spark.frame import quoted

        return not data.filter(data[quoted(self.reading["type"])] == type_).isEmpty()


def _sum(counts: Any, name: str) -> int:
    """The exact sum of a column of counts; it may be larger than any number of Spark's."""
    digits = f"lpad(cast(`{name}` as string), 38, '0')"
    high = f"coalesce(sum(cast(substring({digits}, 1, 20) as decimal(38, 0))), 0)"
    low = f"coalesce(sum(cast(substring({digits}, 21, 18) as decimal(38, 0))), 0)"
    row = counts.selectExpr(high, low).collect()[0]
    return int(row[0]) * 10**18 + int(row[1])


def _match_lines(batch: pa.RecordBatch) -> pa.StringArray:
    return pc.binary_join_element_wise(batch.column("line"), "", "\n")


def _first(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The first rows of all."""
    left = limit
    for table in tables:
        if left is not None:
            table = table.slice(0, left)
            left -= table.num_rows
        yield table
        if left == 0:
            return


def _as_read(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of an answer in the types of the files, without those that are not in it."""
    columns = [convert(table.column(name), schema.field(name).type) for name in schema.names]
    return pa.table(columns, schema.names)


def _without_place(schema: pa.Schema | None) -> pa.Schema:
    assert schema is not None
    return schema.remove(len(schema) - 1)


def _narrowed(schema: pa.Schema, parts: Parts) -> pa.Schema:
    """Counts in the narrowest type that holds them all, as the embedded engine has them."""
    name = schema.names[-1]
    most = max((pc.max(column).as_py() or 0 for column in parts.column(name)), default=0)
    narrow = schema.set(len(schema) - 1, pa.field(name, pa.int64()))
    return narrow if most <= _LARGEST else schema


def _is_scattered(job: Job) -> bool:
    """Return whether a task may find its matches in another order than that of their ends."""
    from cernis.spark.batch import is_sliced

    return job.plan.head is not None or is_sliced(job)
