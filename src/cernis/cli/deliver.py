"""Deliver the matches (or answers) of `cernis run`: a table, a number, JSON lines, CSV, columns.

Matches come in runs, one for each batch of events that had some. Each run is delivered before
the next batch is read: the input may be larger than memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
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
    matches_table,
    print_message,
    print_note,
    table_console,
)
from cernis.compiled.tiers import announce_compiling, is_compiling
from cernis.errors import DataError
from cernis.integers import count_noun, describe_integer, write_integer
from cernis.output import open_output
from cernis.pattern.selection import counts_only
from cernis.results.answers import Answers
from cernis.results.groups import Groups
from cernis.results.match import Match
from cernis.results.matches import Matches

if TYPE_CHECKING:
    from cernis.rdf.session import GraphSession
    from cernis.results.result import Result
    from cernis.run.query import Query
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


def deliver(
    runs: Runs, delivery: Delivery, kind: ResultKind, nothing: Callable[[], Result[Any]]
) -> None:
    """Show, count or write the matches; `nothing` gives a result, for its columns, if none come."""
    if delivery.count:
        write_number(sum(matches.count() for matches in runs), delivery)
        return
    if delivery.form == "table":
        _show(runs, delivery, kind)
        return
    assert delivery.output is not None
    with closing(runs), open_delivery(delivery.output) as file:
        if delivery.form in COLUMN_FORMS:
            written = _write_batches(runs, delivery, file, nothing)
        else:
            written = _write_lines(runs, delivery, file)
    say_written(written, delivery.output, kind)


@contextmanager
def open_delivery(output: str) -> Iterator[BinaryIO]:
    """Open an output; on a terminal, control characters are shown as signs."""
    with open_output(output) as file:
        shown = output == "-" and sys.stdout.isatty()
        yield cast(BinaryIO, TerminalFile(file)) if shown else file


def _show(runs: Runs, delivery: Delivery, kind: ResultKind) -> None:
    first: list[Any] = []
    count, limit = 0, delivery.shown
    for found in runs:
        count += found.count()
        first += found.head(limit - len(first))
    show_first(first, count, kind, events=delivery.events)


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


def write_number(count: int, delivery: Delivery) -> None:
    """Write the number of matches, or the limit if that is less."""
    number = count if delivery.limit is None else min(delivery.limit, count)
    with open_output(delivery.output or "-") as file:
        file.write(f"{write_integer(number)}\n".encode())


def _write_lines(runs: Runs, delivery: Delivery, file: BinaryIO) -> int:
    """Write lines of JSON, or the graphs of CONSTRUCT as N-Quads."""
    written = 0
    for matches in runs:
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


def _write_batches(
    runs: Runs, delivery: Delivery, file: BinaryIO, nothing: Callable[[], Result[Any]]
) -> int:
    """Write the columns of matches in a form that has one schema."""
    output, written = delivery.output or "-", 0
    writer: Any = None
    schema = pa.schema([])

    def batches_of(matches: Result[Any], left: int | None) -> Iterator[pa.RecordBatch]:
        if delivery.form == "csv":
            return matches.flat_batches(left, events=delivery.events)
        return chain([pa.RecordBatch.from_pylist([], matches.schema)], matches.batches(left))

    with ExitStack() as stack:
        for matches in runs:
            left = None if delivery.limit is None else delivery.limit - written
            for batch in batches_of(matches, left):
                if writer is None:
                    schema = batch.schema
                    writer = stack.enter_context(open_writer(delivery.form, file, schema, output))
                if batch.num_rows:
                    writer.write_batch(_cast(batch, schema, output))
                written += batch.num_rows
            file.flush()
            if written == delivery.limit:
                break
        if writer is None:
            schema = next(batches_of(nothing(), 0)).schema
            stack.enter_context(open_writer(delivery.form, file, schema, output))
    return written


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


def say_written(number: int, output: str, kind: ResultKind) -> None:
    """Print how many matches were written, and where, unless to standard output."""
    if output == "-":
        return
    print_message(f"wrote {kind.describe(number)} to {output}")


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
