"""Downloads: the first matches of a result, up to a number of matches and about a number of bytes.

A match may hold thousands of events, so the number of matches alone does not bound a file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
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


def write_parquet(result: Result[Any], path: Path, most: int, size: int) -> int:
    """Write the columns of `to_arrow`; return the number of rows."""
    written = 0
    try:
        with path.open("wb") as file, pq.ParquetWriter(file, result.schema) as writer:
            for batch in result.batches(most):
                writer.write_batch(batch)
                written += batch.num_rows
                if file.tell() > size:
                    break
    except pa.ArrowNotImplementedError as error:
        raise DataError(f"Parquet cannot hold these columns: {error}") from error
    return written
