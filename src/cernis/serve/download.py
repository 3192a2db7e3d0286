"""Downloads: the first matches of a result, up to a number of matches and about a number of bytes.

A match may hold thousands of events, so the number of matches alone does not bound a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from cernis.errors import DataError
from cernis.results.result import Result


class _Full(Exception):
    """The file has as many bytes as it may."""


class _BoundedLines:
    """A file of lines that takes whole lines up to a number of bytes."""

    def __init__(self, file: BinaryIO, room: int) -> None:
        self._file, self._room = file, room
        self.lines = 0

    def write(self, data: memoryview) -> int:
        text = bytes(data)
        is_cut = len(text) > self._room
        if is_cut:
            text = text[: text.rfind(b"\n", 0, self._room) + 1]
        self._room -= len(text)
        self.lines += text.count(b"\n")
        self._file.write(text)
        if is_cut:
            raise _Full
        return len(text)


def write_lines(result: Result[Any], path: Path, most: int, size: int) -> int:
    """Write matches with their events as JSON lines; return how many."""
    with path.open("wb") as file:
        bounded = _BoundedLines(file, size)
        with suppress(_Full):
            result.write_jsonl(cast(BinaryIO, bounded), limit=most, events=True)
        return bounded.lines


def write_csv(result: Result[Any], path: Path, most: int, size: int) -> int:
    """Write the columns that `Result.write_csv` has; return the number of rows."""
    batches = result.flat_batches(most)
    first = next(batches)
    with path.open("wb") as file, pacsv.CSVWriter(file, first.schema) as writer:
        return _write_batches(batches, writer, file, size)


def write_parquet(result: Result[Any], path: Path, most: int, size: int) -> int:
    """Write the columns of `to_arrow`; return the number of rows."""
    try:
        with path.open("wb") as file, pq.ParquetWriter(file, result.schema) as writer:
            return _write_batches(result.batches(most), writer, file, size)
    except pa.ArrowNotImplementedError as error:
        raise DataError(f"Parquet cannot hold these columns: {error}") from error


def _write_batches(
    batches: Iterator[pa.RecordBatch], writer: Any, file: BinaryIO, size: int
) -> int:
    """Write batches until the file has its size; return the number of rows."""
    written = 0
    for batch in batches:
        if batch.num_rows:  # pyarrow before 21 would repeat in a CSV what came before
            writer.write_batch(batch)
        written += batch.num_rows
        if file.tell() > size:
            break
    return written


WRITERS = {"csv": write_csv, "jsonl": write_lines, "parquet": write_parquet}
"""What writes a download, by its suffix."""
