"""Deliver what `cernis run` has found: a table, a number, JSON lines, CSV, columns.

`Found` is what a query or a rule set has found, in this process or on Spark. In this process, the
matches of a query come in runs, one for each batch of events that had some. Each run is delivered
before the next batch is read: the input may be larger than memory.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cernis.cli.arguments import Delivery
from cernis.cli.terminal import (
    TerminalFile,
    answers_table,
    error_console,
    events_table,
    graph_matches_table,
    groups_table,
    make_table,
    matches_table,
    output_console,
    print_message,
    print_note,
    print_notes,
    table_console,
    value_text,
)
from cernis.compiled.tiers import announce_compiling, is_compiling
from cernis.errors import (
    CernisError,
    DataError,
    StrictError,
    WarningNote,
    list_warnings,
    neutralize,
)
from cernis.integers import count_noun, describe_integer, write_integer
from cernis.output import open_output
from cernis.pattern.query import counts_only
from cernis.results.answers import Answers
from cernis.results.formats.jsonlines import name_lines, text_of
from cernis.results.groups import Groups
from cernis.results.match import Match
from cernis.results.matches import Matches
from cernis.results.of_rules import name_rules, name_table
from cernis.run.metrics import SessionMetrics

if TYPE_CHECKING:
    from cernis.rdf.session import GraphSession
    from cernis.results.result import Result
    from cernis.run.query import Query
    from cernis.run.rules.rule import Rule
    from cernis.run.session import Session

    Runs = Generator[Result[Any], None, None]

_SHOWN_WHOLE = 10**100
"""Larger counts are shown by their size; `--count` writes every digit."""


@dataclass(frozen=True)
class ResultKind:
    """A kind of result: its noun, and the table that shows it."""

    noun: tuple[str, str]
    table: Callable[[Sequence[Any]], Table]

    def describe(self, count: int) -> str:
        return f"{describe_integer(count, _SHOWN_WHOLE)} {self.noun[count != 1]}"


MATCHES = ResultKind(Matches.noun, matches_table)
COUNTS = ResultKind(Matches.noun, partial(matches_table, counting=True))
"""Of SELECT COUNT(*): a row is the number of matches at one end."""
ANSWERS = ResultKind(Answers.noun, answers_table)
GROUPS = ResultKind(Groups.noun, groups_table)
GRAPH_MATCHES = ResultKind(Matches.noun, graph_matches_table)


def kind_of(query: Query[Any]) -> ResultKind:
    """Return what a query over events finds."""
    if query.plan.head is not None:
        return ANSWERS
    if query.pattern.grouping is not None:
        return GROUPS
    return COUNTS if counts_only(query.pattern) else MATCHES


class Found(ABC):
    """What a query or a rule set has found; each method is called at most once."""

    @abstractmethod
    def count(self, delivery: Delivery, file: BinaryIO) -> None:
        """Write the number of matches, or of those of each rule; no match is listed."""

    @abstractmethod
    def show(self, delivery: Delivery) -> None:
        """Print a table."""

    @abstractmethod
    def write_lines(self, delivery: Delivery, file: BinaryIO) -> int:
        """Write lines of JSON, or the graphs of CONSTRUCT as N-Quads; return how many matches."""

    @abstractmethod
    def write_columns(self, delivery: Delivery, file: BinaryIO) -> int:
        """Write columns in a form that has one schema; return how many matches."""

    @abstractmethod
    def describe_written(self, number: int, output: str) -> str:
        """Say how many matches were written, and where."""

    @abstractmethod
    def notes(self) -> Iterable[str]:
        """Return remarks on the run, after its matches are delivered."""


def deliver(found: Found, delivery: Delivery, *, strict: bool = False) -> None:
    """Show, count or write the matches, then print the notes; with `strict`, raise warnings."""
    if delivery.count:
        with open_output(delivery.output or "-") as file:
            found.count(delivery, file)
    elif delivery.form == "table" or delivery.output is None:
        found.show(delivery)
    else:
        with open_delivery(delivery.output) as file:
            has_columns = delivery.form in COLUMN_FORMS
            write = found.write_columns if has_columns else found.write_lines
            number = write(delivery, file)
        if delivery.output != "-":
            print_message(found.describe_written(number, delivery.output))
    notes = list(found.notes())
    if strict and (warnings := list_warnings(notes)):
        raise StrictError(warnings)
    print_notes(notes)


@contextmanager
def open_delivery(output: str) -> Iterator[BinaryIO]:
    """Open an output; on a terminal, control characters are shown as signs."""
    with open_output(output) as file:
        shown = output == "-" and sys.stdout.isatty()
        yield cast(BinaryIO, TerminalFile(file)) if shown else file


def _show_events(match: Any) -> None:
    """Print the events of a match under its rows."""
    if isinstance(match, Match) and match.positions:
        console = table_console()
        console.print(f"\nrows {match.start} to {match.end}")
        console.print(events_table(match))


def show_first(first: Sequence[Any], count: int, kind: ResultKind, *, events: bool = False) -> None:
    """Print a table of the first of so many matches, their number, and perhaps their events."""
    console = table_console()
    if first:
        console.print(kind.table(first))
    more = 0 if kind is COUNTS else count - len(first)
    left = f"; {describe_integer(more, _SHOWN_WHOLE)} more" if more else ""
    console.print(f"{kind.describe(count)}{left}")
    for match in first if events else ():
        _show_events(match)


def write_number(count: int, delivery: Delivery, file: BinaryIO) -> None:
    """Write the number of matches, or the limit if that is less."""
    number = count if delivery.limit is None else min(delivery.limit, count)
    file.write(f"{write_integer(number)}\n".encode())


def _open_parquet(file: BinaryIO, schema: pa.Schema, output: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(file, schema)


def _open_arrow(file: BinaryIO, schema: pa.Schema, output: str) -> Any:
    return pa.ipc.new_stream(file, schema) if output == "-" else pa.ipc.new_file(file, schema)


def _open_csv(file: BinaryIO, schema: pa.Schema, output: str) -> Any:
    import pyarrow.csv as pacsv

    return pacsv.CSVWriter(file, schema)


_WRITERS = {"parquet": _open_parquet, "arrow": _open_arrow, "csv": _open_csv}
COLUMN_FORMS = frozenset(_WRITERS)
"""The forms that have one schema."""


def open_writer(form: str, file: BinaryIO, schema: pa.Schema, output: str) -> Any:
    """Return a writer of tables and record batches, which is a context manager.

    Before pyarrow 21, a CSV repeats what came before an empty chunk: write tables by `write_rows`.
    """
    return _WRITERS[form](file, schema, output)


def write_rows(writer: Any, table: pa.Table) -> None:
    """Write a table without empty chunks."""
    if len(table):
        writer.write_table(table.combine_chunks())


def _cast(batch: pa.RecordBatch, schema: pa.Schema, output: str) -> pa.RecordBatch:
    if batch.schema == schema:
        return batch
    try:
        return batch.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(
            f"{output}: the columns of the events changed on the way, which only JSON lines can "
            "follow; write .jsonl"
        ) from error


# ------------------------------------------------------------- this process


class FoundRuns(Found):
    """What a query has found in this process, run after run."""

    def __init__(
        self,
        runs: Runs,
        kind: ResultKind,
        nothing: Callable[[], Result[Any]],
        notes: Callable[[], Iterable[str]],
    ) -> None:
        """`nothing` gives a result, for its columns, if no run comes."""
        self._runs, self._kind, self._nothing, self._list_notes = runs, kind, nothing, notes

    def count(self, delivery: Delivery, file: BinaryIO) -> None:
        write_number(sum(matches.count() for matches in self._runs), delivery, file)

    def show(self, delivery: Delivery) -> None:
        first: list[Any] = []
        count, limit = 0, delivery.shown
        for found in self._runs:
            count += found.count()
            first += found.head(limit - len(first))
        show_first(first, count, self._kind, events=delivery.events)

    def write_lines(self, delivery: Delivery, file: BinaryIO) -> int:
        written = 0
        with closing(self._runs):
            for matches in self._runs:
                left = None if delivery.limit is None else delivery.limit - written
                if delivery.form == "nq":
                    from cernis.rdf.matches import GraphMatches

                    assert isinstance(matches, GraphMatches)
                    written += matches.write_nquads(file, limit=left, first=written)
                else:
                    written += matches.write_jsonl(file, limit=left, events=delivery.events)
                file.flush()
                if written == delivery.limit:
                    break
        return written

    def write_columns(self, delivery: Delivery, file: BinaryIO) -> int:
        output, written = delivery.output or "-", 0
        writer: Any = None
        schema = pa.schema([])
        with closing(self._runs), ExitStack() as stack:
            for matches in self._runs:
                left = None if delivery.limit is None else delivery.limit - written
                for batch in list_batches(matches, delivery, left):
                    if writer is None:
                        schema = batch.schema
                        writer = open_writer(delivery.form, file, schema, output)
                        stack.enter_context(writer)
                    if batch.num_rows:
                        writer.write_batch(_cast(batch, schema, output))
                    written += batch.num_rows
                file.flush()
                if written == delivery.limit:
                    break
            if writer is None:
                schema = next(list_batches(self._nothing(), delivery, 0)).schema
                stack.enter_context(open_writer(delivery.form, file, schema, output))
        return written

    def describe_written(self, number: int, output: str) -> str:
        return f"wrote {self._kind.describe(number)} to {output}"

    def notes(self) -> Iterable[str]:
        return self._list_notes()


def list_batches(
    matches: Result[Any], delivery: Delivery, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the first matches, in a first batch that may have no match."""
    if delivery.form == "csv":
        return matches.flat_batches(limit, events=delivery.events)
    return chain([pa.RecordBatch.from_pylist([], matches.schema)], matches.batches(limit))


def complete_notes(session: Session | GraphSession) -> Iterable[str]:
    """Return the notes of a session that reads no more: a limit may have ended it early."""
    session.mistakes.complete()
    return session.notes


def stream_files(session: Session | GraphSession, files: Any, output: str | None) -> Runs:
    """Yield the runs of matches in the files, and show how many events have been read.

    The number is on standard error, if that is a terminal that no lines are written to.
    """
    announce_compiling(print_note)
    console = error_console()
    if not console.is_terminal or (output == "-" and sys.stdout.isatty()):
        yield from session.stream(files)
        return
    columns = (SpinnerColumn(), _EventsRead(session), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task("", total=None)
        yield from session.stream(files)


class _EventsRead(ProgressColumn):
    def __init__(self, session: Session | GraphSession) -> None:
        super().__init__()
        self._session = session

    def render(self, task: Task) -> Text:
        if is_compiling():
            return Text("compiling the engine (once on this machine)")
        return Text(f"{count_noun(self._session.events, 'event')} read")


# -------------------------------------------------------------------- rules

Shares = Iterator[tuple[str, Any]]
"""Pieces of an output with the names of their rules: lines, or tables."""


@dataclass(frozen=True)
class CountedRule:
    """How many matches a rule has, and what it has read and kept."""

    rule: str
    matches: int
    numbers: SessionMetrics | None = None


class FoundByRules(Found):
    """What the rules of a set have found, rule after rule, each match with the name of its rule."""

    names: Sequence[str]

    @abstractmethod
    def count_rules(self) -> Sequence[CountedRule]:
        """Return the numbers of each rule; no match is listed."""

    @abstractmethod
    def list_lines(self, delivery: Delivery) -> Shares:
        """Yield the lines of the first matches of each rule."""

    @abstractmethod
    def list_tables(self, delivery: Delivery) -> tuple[pa.Schema, Shares]:
        """Return the columns of all rules, and tables of the first matches of each that have them.

        A `DataError` says that rules have columns of one name and different types.
        """

    def count(self, delivery: Delivery, file: BinaryIO) -> None:
        for each in self.count_rules():
            number = each.matches
            number = number if delivery.limit is None else min(number, delivery.limit)
            file.write(f"{neutralize(each.rule)}\t{number}\n".encode())

    def show(self, delivery: Delivery) -> None:
        output_console().print(make_table(*_tabulate(self.count_rules())))

    def write_lines(self, delivery: Delivery, file: BinaryIO) -> int:
        number = 0
        for rule, lines in self.list_lines(delivery):
            file.write(text_of(name_lines(rule, lines)))
            number += len(lines)
        return number

    def write_columns(self, delivery: Delivery, file: BinaryIO) -> int:
        """Write the matches of all rules with the columns of all; those of others are NULL."""
        output, number = delivery.output or "-", 0
        try:
            united, tables = self.list_tables(delivery)
        except DataError as error:
            raise CernisError(f"{output}: {error}; write .jsonl") from error
        schema = name_rules(united)
        with open_writer(delivery.form, file, schema, output) as writer:
            for rule, table in tables:
                write_rows(writer, name_table(rule, table, schema))
                number += len(table)
        return number

    def describe_written(self, number: int, output: str) -> str:
        matches, rules = count_noun(number, "match"), count_noun(len(self.names), "rule")
        return f"{matches} of {rules} written to {output}"


def _tabulate(found: Sequence[CountedRule]) -> tuple[list[str], list[list[Text]]]:
    """Return the columns and the rows of a table of rules."""
    rows = [[value_text(each.rule), value_text(each.matches)] for each in found]
    names = ["rule", "matches"]
    numbers = [each.numbers for each in found if each.numbers is not None]
    if not numbers:
        return names, rows
    names += ["suppressed", "events", "records", "seconds"]
    for row, own in zip(rows, numbers, strict=True):
        row += [value_text(own.suppressed), value_text(own.events), value_text(own.records)]
        row.append(value_text(f"{sum(own.seconds.values()):.3f}"))
    return names, rows


def list_notes(pairs: Iterable[tuple[Rule, Iterable[str]]], common: Collection[str]) -> list[str]:
    """Return the notes of all rules, each once; a warning names its rule unless it is `common`."""
    from cernis.run.rules.rule import name_warning

    notes: dict[str, None] = {}
    for rule, several in pairs:
        for note in several:
            if isinstance(note, WarningNote) and note not in common:
                note = name_warning(rule, note)
            notes[note] = None
    return [*notes]
