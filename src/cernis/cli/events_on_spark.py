"""`cernis run` and `cernis explain` for queries over events, on Spark.

The query, the files and the output are checked before Spark starts, which takes seconds.
Matches have the row numbers, the order and the types of the files (`cernis.cli.spark_run`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from cernis.cli.arguments import Delivery, RunArguments, has_pipe
from cernis.cli.deliver import ANSWERS, COUNTS, GROUPS, kind_of
from cernis.cli.events import parse_query
from cernis.cli.spark_run import SparkRun
from cernis.cli.terminal import spinner
from cernis.errors import WarningNote, list_warnings
from cernis.events.source import Source
from cernis.pattern.atom import TypeIs
from cernis.pattern.query import Variable
from cernis.results.answers import Answers
from cernis.results.columns import SUPPRESSED
from cernis.results.deadline import DEADLINE
from cernis.results.groups import MatchGroup
from cernis.results.jsonlines import TextEvents, answer_lines
from cernis.results.match import Match
from cernis.run.advice import absent_types, unmet_conditions
from cernis.run.advice.to_blame import NOTHING_MATCHED
from cernis.run.query import Query
from cernis.run.session import MAY_WAIT, RunOptions, Session
from cernis.spark.carriers import convert
from cernis.spark.files.check import check_files
from cernis.spark.local.session import session
from cernis.spark.requirements import tests_and_atoms

if TYPE_CHECKING:
    from cernis.spark.files.load import FileFrames
    from cernis.spark.files.merge import MatchFiles
    from cernis.spark.prepare import QueryJob
    from cernis.spark.worker import QueryWork

_LARGEST = 2**63 - 1
_FEW_ROWS = 100_000
_EXPLAIN = "cernis explain --engine spark says which condition no event satisfies"


def run(arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of a query in files, and deliver them."""
    query = parse_query(arguments)
    with _open(query, arguments) as frames:
        EventRun(query, frames, arguments).deliver(delivery, strict=arguments.strict)


def explain(arguments: RunArguments) -> str:
    """Explain how Spark runs a query, with the share of relevant events in the files."""
    if not arguments.files:
        raise typer.BadParameter("name a file of events", param_hint="--events")
    query = parse_query(arguments)
    with _open(query, arguments) as frames:
        from cernis.spark.explanation import explain as explain_job

        with spinner("counting on Spark"):
            options = make_job_options(arguments, frames)
            return str(explain_job(frames.frames, query, measure=True, **options))


def _open(query: Query[Any], arguments: RunArguments) -> AbstractContextManager[FileFrames]:
    on_error = arguments.on_error
    sources = check_files(query, arguments.files, on_error=on_error, **arguments.reading)
    return load_frames(sources, [query], on_error)


@contextmanager
def load_frames(
    sources: Sequence[Source], queries: Sequence[Query[Any]], on_error: str
) -> Iterator[FileFrames]:
    """Start Spark, and load the streams that queries read."""
    with spinner("starting Spark"):
        spark = session()
    # needs Spark, which may be missing: `session` says so
    from cernis.spark.files.load import load_files

    types = {atom.type for query in queries for atom in _types(query)}
    loading = load_files(spark, sources, on_error=on_error, types=types)
    with ExitStack() as stack:
        with spinner("reading files"):
            frames = stack.enter_context(loading)
        yield frames
    sources[0].mistakes.complete()


def _types(query: Query[Any]) -> list[TypeIs]:
    """Return the types of events that a query asks for."""
    return [atom for atom in tests_and_atoms(query.plan)[1] if isinstance(atom, TypeIs)]


def make_job_options(arguments: RunArguments, frames: FileFrames) -> dict[str, Any]:
    """Return how a job reads the frames of files."""
    names = ("time", "type", "time_unit", "tables")
    reading = {name: getattr(arguments, name) for name in names}
    return {**reading, "row": frames.row, "on_error": frames.on_error}


@dataclass(frozen=True, slots=True, eq=False)
class _ReadMatch(Match):
    """A match that was read from a line of JSON, with the events that the line has."""

    read: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict, repr=False)

    def events(self, variable: str) -> list[dict[str, Any]]:
        return self.read[variable]


class EventRun(SparkRun):
    """A query on DataFrames of files."""

    def __init__(
        self,
        query: Query[Any],
        frames: FileFrames,
        arguments: RunArguments,
        *,
        reads_again: bool = True,
    ) -> None:
        """`reads_again`: this process may read a small input, to say why nothing was found."""
        super().__init__()
        self.query, self.frames, self.arguments = query, frames, arguments
        self._is_ruled = not reads_again
        self._reads_again = (
            reads_again and frames.rows <= _FEW_ROWS and not has_pipe(arguments.files)
        )
        self.kind = kind_of(query)
        self._warns = True
        items = query.pattern.select.items
        self._attributes = {
            item.name: item.attributes for item in items if isinstance(item, Variable)
        }

    @property
    def _gives_answers(self) -> bool:
        return self.kind is ANSWERS

    # -------------------------------------------------------------- matches

    def count(self) -> int:
        is_listed = self._gives_answers or self.kind is GROUPS
        job, work = self._prepare(matches="events" if self.kind is GROUPS else "count")
        matches = self._matches(job, work)
        with spinner("counting on Spark"):
            count = matches.count() if is_listed else _sum(matches, matches.columns[-1])
        self._found_any = count > 0
        return count

    def first(self, limit: int, *, events: bool = False) -> Sequence[Any]:
        job, work = self._prepare_ordered(limit, "jsonl", "placed" if events else "named")
        matches = self._matches(job, work)
        order = [matches[name].asc_nulls_last() for name in self._order(job, work)]
        with spinner("running on Spark"):
            first = matches.orderBy(*order).limit(limit).toArrow()
        if self._gives_answers:
            table = _as_read(first, _without_place(work))
            return Answers(self._names, table).head(limit)
        make = self._group if self.kind is GROUPS else self._match
        return [make(json.loads(line)) for line in first.column("line").to_pylist()]

    def _group(self, line: dict[str, Any]) -> MatchGroup:
        held, values = line.pop("partition"), line.pop("values")
        when = {name: self._time(at) if name != "end" else at for name, at in line.items()}
        return MatchGroup(when, held, values)

    def _match(self, line: dict[str, Any]) -> Match:
        interval = (line.get("start", line["end"]), line["end"])
        counted = {"COUNT(*)": line["count"]} if "count" in line else {}
        return _ReadMatch(
            start=interval[0],
            end=interval[1],
            start_ts=self._time(line.get("start_ts", line["end_ts"])),
            end_ts=self._time(line["end_ts"]),
            vars=line.get("vars", {}),
            partition=line["partition"],
            values=line.get("values", counted),
            interval=interval,
            positions=line.get("positions", {}),
            _events=None,  # type: ignore[arg-type]
            _attributes=self._attributes,
            deadline_ts=self._time(line.get(DEADLINE)),
            read={
                name: [self._event(event) for event in events]
                for name, events in line.get("events", {}).items()
            },
            suppressed=line.get(SUPPRESSED),
        )

    def _time(self, value: Any) -> Any:
        """Return the value of a time in a line of JSON."""
        if not isinstance(value, str):
            return value
        kinds = self.frames.times.values()
        if any(map(pa.types.is_timestamp, kinds)) or (
            any(map(pa.types.is_date, kinds)) and "T" in value
        ):
            return datetime.fromisoformat(value)
        return date.fromisoformat(value) if any(map(pa.types.is_date, kinds)) else value

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event of a line of JSON with its times as times."""
        readers = self._readers
        return {
            name: readers[name](value) if name in readers and isinstance(value, str) else value
            for name, value in event.items()
        }

    @cached_property
    def _readers(self) -> dict[str, Callable[[str], Any]]:
        """How the texts of times are read, by attribute."""
        readers: dict[str, Callable[[str], Any]] = {}
        for column in (column for columns in self.frames.columns.values() for column in columns):
            if pa.types.is_timestamp(column.type):
                readers[column.name] = datetime.fromisoformat
            elif pa.types.is_date(column.type):
                readers[column.name] = date.fromisoformat
        return readers

    # --------------------------------------------------------------- files

    def find(self, delivery: Delivery, folder: Path) -> AbstractContextManager[MatchFiles]:
        from cernis.spark.files.merge import write_matches
        from cernis.spark.prepare import is_sliced

        text: TextEvents = "whole" if delivery.events else "named"
        job, self._work = self._prepare_ordered(delivery.limit, delivery.form, text)
        assert self._work.schema is not None
        # of sliced rows, and of distinct answers, a task finds matches in another order
        sort = self._gives_answers or (self._work.parts is None and is_sliced(job))
        matches, order = self._matches(job, self._work), self._order(job, self._work)
        sort = sort or order[0] == DEADLINE
        return self._note_any(write_matches(matches, self._work.schema, order, folder, sort=sort))

    def lines(self, batch: pa.RecordBatch, number: int) -> pa.StringArray:
        if not self._gives_answers:
            return pc.binary_join_element_wise(batch.column("line"), "", "\n")
        table = _as_read(pa.Table.from_batches([batch]), _without_place(self._work))
        *values, ends, times = (column.combine_chunks() for column in table.columns)
        return answer_lines(self._names, values, ends, times)

    def schema(self, files: MatchFiles) -> pa.Schema:
        schema = _without_place(self._work)
        exact = schema.names[-1:] if self.kind is COUNTS else self._work.exact
        return narrow_integers(schema, exact, files)

    def columns(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        return _as_read(table, schema)

    @cached_property
    def _names(self) -> list[str]:
        head = self.query.plan.head
        assert head is not None
        return [column.name for column in head.columns]

    # ---------------------------------------------------------------- jobs

    def _prepare_ordered(
        self, limit: int | None, form: str, text: TextEvents
    ) -> tuple[QueryJob, QueryWork]:
        """Prepare a job whose answer has the columns that order it."""
        # a task finds its matches in the order in which they become certain
        is_first = not self.query.pattern.orders_by_deadline
        options: dict[str, Any] = {"limit": limit if is_first else None}
        if self.query.pattern.ranks_intervals:
            options["tasks"] = 1  # which finds them in order
        if self._gives_answers or form in ("parquet", "arrow"):
            return self._prepare(matches="events", placed=True, **options)
        if form == "csv":
            return self._prepare(matches="flat", placed=True, text=text, **options)
        return self._prepare(matches="lines", text=text, **options)

    def _order(self, job: QueryJob, work: QueryWork) -> list[str]:
        """Return the columns that put matches in order.

        One task finds those that wait for events as soon as they are certain. Of several tasks, the
        deadline and the end decide.
        """
        assert work.answer is not None
        if self._gives_answers:
            end, end_ts, place = work.answer.names[-3:]
            return [end_ts, end, place]
        grouping, place = self.query.pattern.grouping, work.answer.names[-1]
        has_groups = grouping is not None and not grouping.end and work.form != "lines"
        pattern = self.query.pattern
        if has_groups or pattern.ranks_intervals or pattern.ranks_overall:
            return [place, place]  # one task has all of them, in order
        if self.query.pattern.orders_by_deadline and DEADLINE in work.answer.names:
            return [place, place] if job.tasks == 1 else [DEADLINE, "end", place]
        return ["end_ts", "end", place]

    def _prepare(self, **options: Any) -> tuple[QueryJob, QueryWork]:
        from cernis.spark.options import JobOptions
        from cernis.spark.prepare import make_work, prepare_job

        options |= {**make_job_options(self.arguments, self.frames), **self.arguments.limits}
        job = prepare_job(self.frames.frames, self.query, JobOptions(**options))
        return job, make_work(job)

    def _matches(self, job: QueryJob, work: QueryWork) -> Any:
        from cernis.spark.batch import recognize_batch

        with self.catch_warnings():
            return recognize_batch(job, work)

    # --------------------------------------------------------------- notes

    def notes_of(self, count: int, *, warns: bool) -> Iterator[str]:
        """Yield remarks on so many matches, which another job has found; `warns` of the events."""
        self._found_any, self._warns = count > 0, warns
        yield from self.notes()

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        yield from self.frames.notes
        yield from self.query.warnings
        yield from self._warn_about_events() if self._warns else ()
        yield from self.query.plan.notes
        if self.query.pattern.absent_after is not None and not self.arguments.complete:
            yield MAY_WAIT
        if self.arguments.partial and self.query.plan.tables is not None:
            yield "--partial: a task that spends its budget stops there, and matches may be missing"

    def _warn_about_events(self) -> Iterator[str]:
        """Yield warnings about types and conditions, and what is to blame where nothing matches.

        If nothing was found in a small input, this process reads it once more, as the embedded
        engine does. A large one tells only which types are absent.
        """
        if self._found_any or not self._reads_again:
            absent = list(self._absent_types())
            yield from absent
            if not (self._found_any or absent or self._is_ruled):
                yield f"{NOTHING_MATCHED}{_EXPLAIN}"
            return
        options = RunOptions(
            **self.arguments.reading,
            tables=self.arguments.tables,
            on_error=self.frames.on_error,
            budget=0,
            on_budget="partial",
        )
        session = Session[Any](self.query.plan, options, measures={})
        for _ in session.stream(self.arguments.files):
            pass
        codes = (absent_types.CODE, unmet_conditions.CODE)
        yield from (note for note in list_warnings(session.notes) if note.code in codes)
        yield from (note for note in session.notes if note.startswith(NOTHING_MATCHED))

    def _absent_types(self) -> Iterator[str]:
        """Yield the types that no event has. Spark looks for them only if nothing was found."""
        for atom in _types(self.query) if self.frames.rows else ():
            names = [n for n in self.frames.frames if atom.stream in (None, n)]
            unknown = [n for n in names if n not in self.frames.types]
            if any(atom.type in self.frames.types.get(n, ()) for n in names):
                continue
            if unknown and (self._found_any or any(self._has(n, atom.type) for n in unknown)):
                continue
            pattern = self.query.pattern
            yield WarningNote.of(
                absent_types.describe_absent_type(pattern, atom, []), pattern.source
            )

    def _has(self, stream: str, type_: str) -> bool:
        from cernis.spark.unify import quote_name

        data, column = self.frames.frames[stream], self.arguments.type
        if column is None or column not in data.columns:
            return type_ == stream
        return not data.filter(data[quote_name(column)].cast("string") == type_).isEmpty()


def _sum(counts: Any, name: str) -> int:
    """Return the exact sum of a column of counts, which no number of Spark's may hold."""
    digits = f"lpad(cast(`{name}` as string), 38, '0')"
    high = f"coalesce(sum(cast(substring({digits}, 1, 20) as decimal(38, 0))), 0)"
    low = f"coalesce(sum(cast(substring({digits}, 21, 18) as decimal(38, 0))), 0)"
    row = counts.selectExpr(high, low).collect()[0]
    return int(row[0]) * 10**18 + int(row[1])


def _as_read(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of the schema, converted from the types that carry them."""
    columns = [convert(table.column(name), schema.field(name).type) for name in schema.names]
    return pa.table(columns, schema.names)


def _without_place(work: QueryWork) -> pa.Schema:
    assert work.answer is not None
    return work.answer.remove(len(work.answer) - 1)


def narrow_integers(schema: pa.Schema, exact: Sequence[str], files: MatchFiles) -> pa.Schema:
    """Return the schema with exact integers in the narrowest type that holds all of a column."""
    for name in exact:
        most = max((pc.max(pc.abs(c)).as_py() or 0 for c in files.column(name)), default=0)
        if most <= _LARGEST:
            at = schema.get_field_index(name)
            schema = schema.set(at, pa.field(name, pa.int64()))
    return schema
