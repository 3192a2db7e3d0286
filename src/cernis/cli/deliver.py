"""Deliver the matches (or answers) of `cernis run`: as a table, a number, JSON lines, Parquet.

Matches come in runs, one for each batch of events that had some. Each run is delivered before
the next batch is read: the input may be larger than memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cernis.cli.arguments import Delivery
from cernis.cli.terminal import (
    answers_table,
    error_console,
    graph_matches_table,
    groups_table,
    matches_table,
    output_console,
    print_message,
)
from cernis.compiled.tiers import is_compiling
from cernis.errors import DataError
from cernis.output import open_output
from cernis.pattern.selection import counts_only
from cernis.results.answers import Answers
from cernis.results.groups import Groups
from cernis.results.matches import Matches

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from cernis.rdf.session import GraphSession
    from cernis.results.result import Result
    from cernis.run.query import Query
    from cernis.run.session import Session

    Runs = Generator[Result[Any], None, None]


@dataclass(frozen=True)
class ResultKind:
    """A kind of result: its noun, and the table that shows it."""

    noun: tuple[str, str]
    table: Callable[[Sequence[Any]], Table]

    def describe(self, count: int) -> str:
        return f"{count:,} {self.noun[count != 1]}"


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
    runs: Runs, delivery: Delivery, kind: ResultKind, schema: Callable[[], pa.Schema]
) -> None:
    """Show, count or write the matches; `schema` gives the columns if there are none."""
    limit, output = delivery.limit, delivery.output
    if delivery.count:
        write_number(sum(matches.count() for matches in runs), delivery)
    elif output is None:
        _show(runs, delivery.shown, kind)
    elif output.endswith(".parquet"):
        say_written(_write_parquet(runs, limit, output, schema), output, kind)
    elif output.endswith(".nq"):
        say_written(_write_graphs(runs, limit, output), output, kind)
    else:
        with open_output(output) as file:
            written = _write_lines(runs, limit, file)
        say_written(written, output, kind)


def _show(runs: Runs, limit: int, kind: ResultKind) -> None:
    first: list[Any] = []
    count = 0
    for found in runs:
        count += found.count()
        first += found.head(limit - len(first))
    show_first(first, count, kind)


def show_first(first: Sequence[Any], count: int, kind: ResultKind) -> None:
    """Print a table of the first of so many matches, and their number."""
    console = output_console()
    if first:
        console.print(kind.table(first))
    more = 0 if kind is COUNTS else count - len(first)
    console.print(f"{kind.describe(count)}{f'; {more:,} more' if more else ''}")


def write_number(count: int, delivery: Delivery) -> None:
    """Write the number of matches, or the limit if that is less."""
    number = count if delivery.limit is None else min(delivery.limit, count)
    with open_output(delivery.output or "-") as file:
        file.write(b"%d\n" % number)


def _write_graphs(runs: Runs, limit: int | None, output: str) -> int:
    """Write the graphs of CONSTRUCT, as N-Quads."""
    from cernis.rdf.matches import GraphMatches

    written = 0
    with closing(runs), open_output(output) as file:
        for matches in runs:
            assert isinstance(matches, GraphMatches)
            left = None if limit is None else limit - written
            written += matches.write_nquads(file, limit=left, first=written)
            if written == limit:
                break
    return written


def _write_lines(runs: Runs, limit: int | None, file: BinaryIO) -> int:
    written = 0
    with closing(runs):
        for matches in runs:
            left = None if limit is None else limit - written
            written += matches.write_jsonl(file, limit=left)
            if written == limit:
                break
    return written


def _write_parquet(
    runs: Runs, limit: int | None, output: str, schema: Callable[[], pa.Schema]
) -> int:
    import pyarrow.parquet as pq

    written = 0
    writer: pq.ParquetWriter | None = None
    with closing(runs), open_output(output) as file, ExitStack() as stack:
        for matches in runs:
            left = None if limit is None else limit - written
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(file, matches.schema))
            for batch in matches.batches(left):
                writer.write_batch(_cast(batch, writer.schema, output))
                written += batch.num_rows
            if written == limit:
                break
        if writer is None:
            stack.enter_context(pq.ParquetWriter(file, schema()))
    return written


def _cast(batch: pa.RecordBatch, schema: pa.Schema, output: str) -> pa.RecordBatch:
    if batch.schema == schema:
        return batch
    try:
        return batch.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(
            f"{output}: the columns of the events changed on the way, which a Parquet file "
            "cannot follow; write .jsonl"
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
        return Text(f"{self._session.events:,} events read")
