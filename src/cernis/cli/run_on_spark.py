"""`cernis run` and `cernis explain` of a query or a rule set, on Spark.

The query, the files and the output are checked before Spark starts, which takes seconds. The output
is the local engine's, byte for byte where it is text: matches have the row numbers, the order and
the types of the files. The first matches and their number are two jobs. Lines and columns are one
job, whose results are merged from the files of the tasks (`cernis.spark.files.merge`), of a rule
set rule after rule.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

import cernis
from cernis.cli.arguments import Delivery, RunArguments, all_files, has_pipe
from cernis.cli.deliver import (
    ANSWERS,
    COUNTS,
    GRAPH_MATCHES,
    GROUPS,
    CountedRule,
    Found,
    FoundByRules,
    ResultKind,
    Shares,
    deliver,
    kind_of,
    list_notes,
    open_writer,
    show_first,
    write_number,
    write_rows,
)
from cernis.cli.run import parse_graph_query, parse_query
from cernis.cli.terminal import spinner
from cernis.errors import CernisError, WarningNote, list_warnings
from cernis.events.source import Source
from cernis.pattern.atom import TypeIs
from cernis.pattern.query import Variable
from cernis.rdf.matches import GraphMatch
from cernis.results.answers import Answers
from cernis.results.formats.columns import SUPPRESSED
from cernis.results.formats.flat import flatten_column
from cernis.results.formats.jsonlines import TextEvents, answer_lines, text_of
from cernis.results.groups import MatchGroup
from cernis.results.match import Match
from cernis.results.of_rules import name_rules
from cernis.results.terms.deadline import DEADLINE
from cernis.results.values import python_values
from cernis.run.advice import absent_types, unmet_conditions
from cernis.run.advice.to_blame import NOTHING_MATCHED
from cernis.run.metrics import SessionMetrics
from cernis.run.query import Query
from cernis.run.requirements import tests_and_atoms
from cernis.run.rules.explain import describe_silence
from cernis.run.rules.rule import Rule
from cernis.run.rules.rule_set import RuleSet
from cernis.run.session import MAY_WAIT, RunOptions, Session
from cernis.spark.files.check import check_files, check_rule_files
from cernis.spark.keys import explain_rules
from cernis.spark.local.session import session, spark_class
from cernis.spark.rdf.explanation import explain_graphs
from cernis.spark.rdf.files import check_graph_files
from cernis.work.carriers import convert
from cernis.work.rules import ORDER

if TYPE_CHECKING:
    from cernis.spark.files.load import FileFrames
    from cernis.spark.files.merge import MatchFiles
    from cernis.spark.prepare import QueryJob, RuleJob
    from cernis.spark.rdf.recognize import RdfJob
    from cernis.work.query import QueryWork
    from cernis.work.reading import AnswerForm

MOST_ROWS = 2**31 - 1
"""The largest limit that Spark takes."""
_LARGEST = 2**63 - 1
_FEW_ROWS = 100_000
_SMALL = 1 << 24
"""This process reads so many rows, or so many bytes of RDF, again, to say why nothing was found."""
_EXPLAIN = "cernis explain --engine spark says which condition no event satisfies"


def run(arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of a query, or of all rules, in files, and deliver them."""
    if arguments.language == "spaseq":
        deliver(_open_graphs(arguments, delivery), delivery, strict=arguments.options.strict)
        return
    if arguments.language == "sql":
        from cernis.cli.run_statement import find_rows_on_spark

        deliver(find_rows_on_spark(arguments), delivery)
        return
    with _open(arguments) as (rules, queries, frames), ExitStack() as stack:
        found: Found = (
            _QueryRun(queries[0], frames, arguments)
            if rules is None
            else _FoundOnSpark(rules, frames, arguments, stack)
        )
        deliver(found, delivery, strict=arguments.options.strict)


def explain(arguments: RunArguments) -> str:
    """Explain how Spark runs a query or rules, and in how many parts it reads RDF.

    Of a query over events, it has the share of relevant events in the files. Of rules with files, a
    job counts: which rules take most of the time, and which find nothing.
    """
    if arguments.language == "spaseq":
        return _explain_graphs(arguments)
    if arguments.language == "sql":
        from cernis.cli.run_statement import read_statement

        return read_statement(arguments, "spark").explain()
    if arguments.rules is not None:
        return _explain_rules(arguments)
    if not arguments.files:
        raise typer.BadParameter("name a file of events", param_hint="--events")
    with _open(arguments) as (_, [query], frames):
        from cernis.spark.explanation import explain as explain_job

        with spinner("counting on Spark"):
            options = _make_job_options(arguments, frames)
            return str(explain_job(frames.frames, query, measure=True, **options))


def _explain_graphs(arguments: RunArguments) -> str:
    query, files = cernis.query(arguments.text, lang="spaseq"), arguments.files
    if not files:
        return str(explain_graphs(query))
    reading = arguments.reading_graphs
    del reading["background"]
    return str(explain_graphs(query, check_graph_files(query, files, **reading).parts))


def _explain_rules(arguments: RunArguments) -> str:
    assert arguments.rules is not None
    shared = explain_rules(RuleSet.of(arguments.rules, arguments.on_bad_rule))
    if not arguments.files:
        return shared
    with _open(arguments) as (rules, _, frames), ExitStack() as stack:
        assert rules is not None
        found = _FoundOnSpark(rules, frames, arguments, stack)
        numbers = {
            each.rule: each.numbers for each in found.count_rules() if each.numbers is not None
        }
        silent = []
        for rule in rules:
            if not found.matches[rule.name]:
                notes = list_warnings([*found.list_notes_of(rule)])
                silent.append((rule.name, describe_silence(rule, numbers[rule.name].events, notes)))
    return "\n".join([shared, *rules.explain_run(numbers, found.matches, silent)])


@contextmanager
def _open(
    arguments: RunArguments,
) -> Iterator[tuple[RuleSet | None, list[Query[Any]], FileFrames]]:
    """Check the queries and the files, start Spark, and load the streams that queries read."""
    rules, on_error, reading = None, str(arguments.options.on_error), arguments.reading
    if arguments.rules is not None:
        rules = RuleSet.of(arguments.rules, arguments.on_bad_rule)
        queries = [rule.query for rule in rules]
        sources = check_rule_files(rules, arguments.files, on_error=on_error, **reading)
    else:
        queries = [parse_query(arguments)]
        sources = check_files(queries[0], arguments.files, on_error=on_error, **reading)
    with _load_frames(sources, queries, on_error) as frames:
        yield rules, queries, frames


@contextmanager
def _load_frames(
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


def _make_job_options(arguments: RunArguments, frames: FileFrames) -> dict[str, Any]:
    """Return how a job reads the frames of files."""
    names = ("time", "type", "time_unit", "tables", "budget", "on_budget", "complete")
    reading = {name: getattr(arguments.options, name) for name in names}
    return {**reading, "row": frames.row, "on_error": frames.on_error}


# ------------------------------------------------------------------ a query


class _SparkRun(Found):
    """What a query has found on Spark."""

    kind: ResultKind

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._found_any = False

    @abstractmethod
    def count_all(self) -> int:
        """Count the matches."""

    @abstractmethod
    def first(self, limit: int, *, events: bool = False) -> Sequence[Any]:
        """Return the first matches, in order; with `events`, they have their events."""

    @abstractmethod
    def find(self, delivery: Delivery, folder: Path) -> AbstractContextManager[MatchFiles]:
        """Have the tasks write their matches to files in a folder."""

    @abstractmethod
    def lines(self, batch: pa.RecordBatch, number: int) -> pa.StringArray:
        """Return the lines of some matches, of which the first has a number."""

    @abstractmethod
    def schema(self, files: MatchFiles) -> pa.Schema:
        """Return the columns of the output, in a form that has columns."""

    @abstractmethod
    def columns(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return merged matches with the columns of the output."""

    def notes(self) -> Iterator[str]:
        """Yield remarks on the run."""
        yield from self._warnings

    # ------------------------------------------------------------ delivery

    def count(self, delivery: Delivery, file: BinaryIO) -> None:
        write_number(self.count_all(), delivery, file)

    def show(self, delivery: Delivery) -> None:
        count = self.count_all()
        shown, events = min(delivery.shown, MOST_ROWS), delivery.events
        first = self.first(shown, events=events) if count and shown else []
        show_first(first, count, self.kind, events=events)

    def describe_written(self, number: int, output: str) -> str:
        return f"wrote {self.kind.describe(number)} to {output}"

    def write_lines(self, delivery: Delivery, file: BinaryIO) -> int:
        written = 0
        with self._merge(delivery) as (_, tables):
            for batch in (batch for table in tables for batch in table.to_batches()):
                file.write(text_of(self.lines(batch, written)))
                written += batch.num_rows
        return written

    def write_columns(self, delivery: Delivery, file: BinaryIO) -> int:
        written = 0
        is_flat, output = delivery.form == "csv", delivery.output or "-"
        with self._merge(delivery) as (files, tables):
            schema = self.schema(files)
            columns = _flatten(schema.empty_table()).schema if is_flat else schema
            with open_writer(delivery.form, file, columns, output) as writer:
                for table in tables:
                    found = self.columns(table, schema)
                    write_rows(writer, _flatten(found) if is_flat else found)
                    written += table.num_rows
        return written

    @contextmanager
    def _merge(self, delivery: Delivery) -> Iterator[tuple[MatchFiles, Iterator[pa.Table]]]:
        """Run the job; yield the files of its tasks, and their first matches in order."""
        with ExitStack() as stack:
            with spinner("running on Spark"):
                files = stack.enter_context(self.find(delivery, _choose_folder(delivery)))
            self._found_any = files.count > 0
            yield files, _take(files.merge(), delivery.limit)

    @contextmanager
    def catch_warnings(self) -> Iterator[None]:
        """Turn warnings into notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        texts = [str(warning.message) for warning in caught]
        self._warnings += [text for text in texts if text not in self._warnings]


def _choose_folder(delivery: Delivery) -> Path:
    """Return the folder in which tasks write their matches, before these are merged."""
    output = delivery.output or "-"
    return Path(tempfile.gettempdir()) if output == "-" else Path(output).absolute().parent


def _flatten(table: pa.Table) -> pa.Table:
    """Return a table whose columns a CSV file can hold."""
    columns = [flatten_column(column.combine_chunks()) for column in table.columns]
    return pa.table(columns, table.column_names)


def _take(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """Yield the first rows, up to the limit."""
    left = limit
    for table in tables if left != 0 else ():
        if left is not None:
            table = table.slice(0, left)
            left -= table.num_rows
        yield table
        if left == 0:
            return


# -------------------------------------------------------------- over events


@dataclass(frozen=True, slots=True, eq=False)
class _ReadMatch(Match):
    """A match that was read from a line of JSON, with the events that the line has."""

    read: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict, repr=False)

    def events(self, variable: str) -> list[dict[str, Any]]:
        return self.read[variable]


class _QueryRun(_SparkRun):
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

    def count_all(self) -> int:
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
        return write_matches(matches, self._work.schema, order, folder, sort=sort)

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

        options |= _make_job_options(self.arguments, self.frames)
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
        if self.query.pattern.absent_after is not None and not self.arguments.options.complete:
            yield MAY_WAIT
        if self.arguments.options.on_budget == "partial" and self.query.plan.tables is not None:
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
            tables=self.arguments.options.tables,
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

        data, column = self.frames.frames[stream], self.arguments.options.type
        if not isinstance(column, str) or column not in data.columns:
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


# ----------------------------------------------------------------- over RDF


_FORMS: dict[str, AnswerForm] = {
    "parquet": "events",
    "arrow": "events",
    "csv": "events",
    "nq": "quads",
}


def _open_graphs(arguments: RunArguments, delivery: Delivery) -> Found:
    query, reading = parse_graph_query(arguments, delivery), arguments.reading_graphs
    on_error = arguments.options.on_error
    if on_error not in ("fail", "skip"):
        raise CernisError(f"--on-error {on_error}: on Spark it is fail or skip")
    spark_class()  # an error if Spark is missing
    from cernis.spark.rdf.recognize import RdfOptions, prepare_rdf_job

    with spinner("looking at files"):
        times = reading.pop("time")
        job = prepare_rdf_job(query, arguments.files, RdfOptions(times=times, **reading))
    with spinner("starting Spark"):
        spark = session()
    return _SolutionRun(job, spark, arguments)


class _SolutionRun(_SparkRun):
    """A query on RDF files."""

    kind = GRAPH_MATCHES

    def __init__(self, job: RdfJob, spark: Any, arguments: RunArguments) -> None:
        super().__init__()
        self.job, self.spark, self.arguments = job, spark, arguments
        self._form: AnswerForm = "lines"

    def count_all(self) -> int:
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
        return write_matches(matches, schema, order, folder, sort=self.job.layout.repeats)

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
        if self.arguments.options.on_error == "skip":
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


# -------------------------------------------------------------------- rules


class _FoundOnSpark(FoundByRules):
    """What rules find in one job."""

    def __init__(
        self, rules: RuleSet, frames: FileFrames, arguments: RunArguments, stack: ExitStack
    ) -> None:
        """`stack` deletes the files of the tasks."""
        self.names = rules.names
        self.rules, self.frames, self.arguments = rules, frames, arguments
        self.matches = Counter[str]()
        """How many matches each rule has, of those that were wanted."""
        self._stack = stack

    def count_rules(self) -> Sequence[CountedRule]:
        from cernis.spark.batch import recognize_rule_batch

        with spinner("running on Spark"):
            rows = recognize_rule_batch(self._prepare(matches="measures")).toArrow().to_pylist()
        own: dict[str, list[dict[str, Any]]] = {name: [] for name in self.rules.names}
        for row in rows:
            own[row["rule"]].append(json.loads(row["numbers"]))
        for name, parts in own.items():
            self.matches[name] = sum(int(part["matches"]) for part in parts)
        return [CountedRule(name, self.matches[name], _add_up(own[name])) for name in own]

    def list_lines(self, delivery: Delivery) -> Shares:
        text = "whole" if delivery.events else "named"
        job = self._prepare(matches="lines", text=text, placed=True, limit=delivery.limit)
        for name, table in self._merge(self._find(job, delivery), delivery.limit):
            for lines in table.column("line").chunks:
                yield name, pc.binary_join_element_wise(lines, "", "\n")

    def list_tables(self, delivery: Delivery) -> tuple[pa.Schema, Shares]:
        form, text = "flat" if delivery.form == "csv" else "events", "named"
        if form == "flat" and delivery.events:
            text = "whole"
        job = self._prepare(matches=form, text=text, placed=True, limit=delivery.limit)
        united, files = job.work.united, self._find(job, delivery)
        assert united is not None
        named = pa.schema([*name_rules(united)][1:])
        exact = [each.name for each in named if pa.types.is_decimal(each.type)]
        types = narrow_integers(named, exact, files).types
        schema = pa.schema([*zip(united.names, types, strict=True)])

        def list_parts() -> Shares:
            for name, table in self._merge(files, delivery.limit):
                pairs = zip(named.names, types, strict=True)
                columns = [convert(table.column(own), type_) for own, type_ in pairs]
                yield name, pa.table(columns, schema=schema)

        return schema, list_parts()

    def _prepare(self, **options: Any) -> RuleJob:
        from cernis.spark.options import JobOptions
        from cernis.spark.prepare import prepare_rule_job

        options |= _make_job_options(self.arguments, self.frames)
        return prepare_rule_job(self.frames.frames, self.rules, JobOptions(**options))

    def _find(self, job: RuleJob, delivery: Delivery) -> MatchFiles:
        """Have the tasks write the matches of all rules to files."""
        from cernis.spark.batch import recognize_rule_batch
        from cernis.spark.files.merge import write_matches

        folder = _choose_folder(delivery)
        found, schema = recognize_rule_batch(job), job.work.schema
        assert schema is not None
        with spinner("running on Spark"):
            return self._stack.enter_context(write_matches(found, schema, ORDER, folder, sort=True))

    def _merge(self, files: MatchFiles, limit: int | None) -> Iterator[tuple[str, pa.Table]]:
        """Yield the first matches of each rule, in the order of this process."""
        for table in files.merge():
            numbers = np.asarray(table.column(ORDER[0]))
            bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            for first, last in pairwise(bounds):
                if first == last:
                    continue
                name = self.rules.names[int(numbers[first])]
                left = None if limit is None else limit - self.matches[name]
                own = table.slice(first, last - first).slice(0, left)
                self.matches[name] += len(own)
                if len(own):
                    yield name, own

    def notes(self) -> Iterable[str]:
        pairs = ((rule, self.list_notes_of(rule)) for rule in self.rules)
        return list_notes(pairs, common=self.frames.notes)

    def list_notes_of(self, rule: Rule) -> Iterator[str]:
        """Yield remarks on a rule; the types of derived events are not known here."""
        streams = rule.query.pattern.streams
        made = {each.query.pattern.into for each in self.rules}
        frames = self.frames.frames.items()
        own = {name: frame for name, frame in frames if not streams or name in streams}
        run = _QueryRun(
            rule.query, replace(self.frames, frames=own), self.arguments, reads_again=False
        )
        yield from run.notes_of(self.matches[rule.name], warns=made.isdisjoint(streams))


def _add_up(parts: Sequence[Mapping[str, Any]]) -> SessionMetrics:
    """Return the numbers of a rule in all tasks."""
    seconds = Counter[str]()
    for part in parts:
        seconds.update(part["seconds"])
    names = [name for name in SessionMetrics.__slots__ if name != "seconds"]
    sums = {name: sum(part[name] for part in parts) for name in names}
    return SessionMetrics(**sums, seconds=dict(seconds))
