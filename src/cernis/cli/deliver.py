"""Where the matches (or answers) of `cernis run` go: a table, a number, JSON lines, Parquet.

Matches come in runs, one for each batch of events that had some, and each run is
delivered before the next batch is read: the input may be larger than memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from cernis.cli.show import answers_table, errors, matches_table
from cernis.errors import DataError
from cernis.results.answers import Answer, Answers
from cernis.results.matches import Matches

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from cernis.rdf.session import GraphSession
    from cernis.results.match import Match
    from cernis.results.result import Result
    from cernis.run.session import Session

    Runs = Generator[Result[Any], None, None]

MATCH, ANSWER = ("match", "matches"), ("answer", "answers")
Noun = tuple[str, str]


def show(runs: Runs, limit: int, console: Console, noun: Noun = MATCH) -> None:
    """A table of the first matches, and how many there are."""
    first: list[Match] = []
    answers: list[Answer] = []
    count, counting = 0, False
    for found in runs:
        count += found.count()
        if isinstance(found, Answers):
            answers += found.head(limit - len(answers))
        elif isinstance(found, Matches):
            counting = found.counting
            first += found.head(limit - len(first))
    if first:
        console.print(matches_table(first, counting=counting))
    if answers:
        console.print(answers_table(answers))
    say_found(console, count, 0 if counting else count - len(first) - len(answers), noun)


def say_found(console: Console, count: int, more: int, noun: Noun) -> None:
    """How many matches there are, and how many of them are not shown."""
    console.print(f"{_number(count, noun)}{f'; {more:,} more' if more else ''}")


def write_count(runs: Runs, limit: int | None, output: str | None) -> None:
    """The number of matches."""
    write_number(sum(matches.count() for matches in runs), limit, output)


def write_number(count: int, limit: int | None, output: str | None) -> None:
    """A number of matches, of which no more than the limit are wanted."""
    number = count if limit is None else min(limit, count)
    if output is None or output == "-":
        typer.echo(number)
    else:
        Path(output).write_text(f"{number}\n")


def write_graphs(runs: Runs, limit: int | None, output: str) -> None:
    """The graphs of CONSTRUCT, as N-Quads."""
    from cernis.rdf.matches import GraphMatches

    written = 0
    with closing(runs), open(output, "wb") as file:
        for matches in runs:
            assert isinstance(matches, GraphMatches)
            left = None if limit is None else limit - written
            written += matches.write_nquads(file, limit=left, first=written)
            if written == limit:
                break
    say_written(written, output, MATCH)


def write_lines(runs: Runs, limit: int | None, output: str, noun: Noun = MATCH) -> None:
    """JSON lines, to standard output or a file."""
    if output == "-":
        _lines(runs, limit, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with open(output, "wb") as file:
        say_written(_lines(runs, limit, file), output, noun)


def _lines(runs: Runs, limit: int | None, file: BinaryIO) -> int:
    written = 0
    with closing(runs):
        for matches in runs:
            left = None if limit is None else limit - written
            written += matches.write_jsonl(file, limit=left)
            if written == limit:
                break
    return written


def write_parquet(
    runs: Runs,
    limit: int | None,
    output: str,
    schema: Callable[[], pa.Schema],
    noun: Noun = MATCH,
) -> None:
    """A Parquet file; `schema` is asked for the columns if there is no match."""
    import pyarrow.parquet as pq

    written = 0
    writer: pq.ParquetWriter | None = None
    with closing(runs), ExitStack() as stack:
        for matches in runs:
            left = None if limit is None else limit - written
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(output, matches.schema))
            for batch in matches.batches(left):
                writer.write_batch(_cast(batch, writer.schema, output))
                written += batch.num_rows
            if written == limit:
                break
        if writer is None:
            stack.enter_context(pq.ParquetWriter(output, schema()))
    say_written(written, output, noun)


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


def say_written(number: int, output: str, noun: Noun) -> None:
    """How many matches went where."""
    errors().print(f"wrote {_number(number, noun)} to {output}", soft_wrap=True)


def _number(count: int, noun: Noun) -> str:
    return f"{count:,} {noun[count != 1]}"


def watched(session: Session | GraphSession, files: Any, output: str | None) -> Runs:
    """The runs of matches in the files; meanwhile the number of events read is on display.

    On standard error, if that is a terminal that no lines are written to.
    """
    console = errors()
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
        return Text(f"{self._session.events:,} events read")
