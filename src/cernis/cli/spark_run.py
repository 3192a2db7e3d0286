"""`SparkRun`: deliver the matches of a query that runs on Spark.

The output is the local engine's, byte for byte where it is text. The first matches and their
number are two jobs. Lines and columns are one job, whose results are merged from the files of
the tasks (`cernis.spark.files.merge`).
"""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from cernis.cli.arguments import Delivery
from cernis.cli.deliver import (
    COLUMN_FORMS,
    ResultKind,
    open_delivery,
    open_writer,
    say_written,
    show_first,
    write_number,
    write_rows,
)
from cernis.cli.terminal import print_notes, spinner
from cernis.errors import StrictError, list_warnings
from cernis.results.flat import flatten_column
from cernis.results.jsonlines import text_of

if TYPE_CHECKING:
    from cernis.spark.files.merge import MatchFiles

MOST_ROWS = 2**31 - 1
"""The largest limit that Spark takes."""


class SparkRun(ABC):
    """A query on Spark."""

    kind: ResultKind

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._found_any = False

    @abstractmethod
    def count(self) -> int:
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

    @contextmanager
    def _note_any(self, writing: AbstractContextManager[MatchFiles]) -> Iterator[MatchFiles]:
        """Write matches, and note whether there are any."""
        with writing as files:
            self._found_any = files.count > 0
            yield files

    # ------------------------------------------------------------ delivery

    def deliver(self, delivery: Delivery, *, strict: bool = False) -> None:
        """Show, count or write the matches, then print the notes, or raise the warnings."""
        if delivery.count:
            write_number(self.count(), delivery)
        elif delivery.form == "table" or delivery.output is None:
            count = self.count()
            shown, events = min(delivery.shown, MOST_ROWS), delivery.events
            first = self.first(shown, events=events) if count and shown else []
            show_first(first, count, self.kind, events=events)
        else:
            self._write(delivery)
        notes = list(self.notes())
        if strict and (found := list_warnings(notes)):
            raise StrictError(found)
        print_notes(notes)

    def _write(self, delivery: Delivery) -> None:
        output, limit = delivery.output or "-", delivery.limit
        folder = Path(tempfile.gettempdir()) if output == "-" else Path(output).absolute().parent
        with ExitStack() as stack:
            with spinner("running on Spark"):
                files = stack.enter_context(self.find(delivery, folder))
            tables = _take(files.merge(), limit)
            file = stack.enter_context(open_delivery(output))
            if delivery.form in COLUMN_FORMS:
                written = self._write_columns(tables, self.schema(files), file, delivery)
            else:
                written = self._write_lines(tables, file)
        say_written(written, output, self.kind)

    def _write_lines(self, tables: Iterator[pa.Table], file: BinaryIO) -> int:
        written = 0
        for lines in self._format(tables):
            file.write(text_of(lines))
            written += len(lines)
        return written

    def _format(self, tables: Iterator[pa.Table]) -> Iterator[pa.StringArray]:
        number = 0
        for table in tables:
            for batch in table.to_batches():
                yield self.lines(batch, number)
                number += batch.num_rows

    def _write_columns(
        self, tables: Iterator[pa.Table], schema: pa.Schema, file: BinaryIO, delivery: Delivery
    ) -> int:
        written = 0
        is_flat, output = delivery.form == "csv", delivery.output or "-"
        columns = _flatten(schema.empty_table()).schema if is_flat else schema
        with open_writer(delivery.form, file, columns, output) as writer:
            for table in tables:
                found = self.columns(table, schema)
                write_rows(writer, _flatten(found) if is_flat else found)
                written += table.num_rows
        return written

    @contextmanager
    def catch_warnings(self) -> Iterator[None]:
        """Turn warnings into notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        texts = [str(warning.message) for warning in caught]
        self._warnings += [text for text in texts if text not in self._warnings]


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
