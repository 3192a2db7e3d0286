"""`SparkRun`: deliver the matches of a query that runs on Spark.

The output is the local engine's, byte for byte where it is text. The first matches and their
number are two jobs. Lines and Parquet are one job, whose results are merged from the files of
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
import pyarrow.parquet as pq

from cernis.cli.arguments import Delivery
from cernis.cli.deliver import ResultKind, say_written, show_first, write_number
from cernis.cli.terminal import print_notes, spinner
from cernis.errors import StrictError, list_warnings
from cernis.output import open_output
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

    @abstractmethod
    def count(self) -> int:
        """Count the matches."""

    @abstractmethod
    def first(self, limit: int) -> Sequence[Any]:
        """Return the first matches, in order."""

    @abstractmethod
    def find(
        self, output: str, limit: int | None, folder: Path
    ) -> AbstractContextManager[MatchFiles]:
        """Have the tasks write their matches to files in a folder."""

    @abstractmethod
    def lines(self, batch: pa.RecordBatch, number: int) -> pa.StringArray:
        """Return the lines of some matches, of which the first has a number."""

    @abstractmethod
    def schema(self, files: MatchFiles) -> pa.Schema:
        """Return the columns of a Parquet file."""

    @abstractmethod
    def columns(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return merged matches with the columns of a Parquet file."""

    def notes(self) -> Iterator[str]:
        """Yield remarks on the run."""
        yield from self._warnings

    # ------------------------------------------------------------ delivery

    def deliver(self, delivery: Delivery, *, strict: bool = False) -> None:
        """Show, count or write the matches, then print the notes, or raise the warnings."""
        if delivery.count:
            write_number(self.count(), delivery)
        elif delivery.form == "table" or delivery.output is None:
            count = self.count()
            first = self.first(min(delivery.shown, MOST_ROWS)) if count and delivery.shown else []
            show_first(first, count, self.kind)
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
                files = stack.enter_context(self.find(output, limit, folder))
            tables = _take(files.merge(), limit)
            file = stack.enter_context(open_output(output))
            if delivery.form == "parquet":
                written = self._write_parquet(tables, self.schema(files), file)
            else:
                written = self._write_lines(tables, file)
        say_written(written, output, self.kind)

    def _write_lines(self, tables: Iterator[pa.Table], file: BinaryIO) -> int:
        written = 0
        for table in tables:
            for batch in table.to_batches():
                file.write(text_of(self.lines(batch, written)))
                written += batch.num_rows
        return written

    def _write_parquet(self, tables: Iterator[pa.Table], schema: pa.Schema, file: BinaryIO) -> int:
        written = 0
        with pq.ParquetWriter(file, schema) as writer:
            for table in tables:
                writer.write_table(self.columns(table, schema))
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
