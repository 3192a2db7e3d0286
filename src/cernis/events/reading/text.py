"""Text, read in blocks of whole records: what CSV and JSON lines have in common.

The text is cut into blocks of whole records, and each block goes through pyarrow's parser with
the types known so far. Only a block that fails is read again, value by value, to promote a type
(integer to double, seconds to nanoseconds) or to say which line is broken. Cost: pyarrow's
parser, plus one scan for line ends; memory: one block.

Rejected: pyarrow's own streaming readers. They fix every column's type at the first block, number
broken rows only without threads, and stop at the first value that does not convert.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.batch import Bools, Int64s
from cernis.events.reading.mistakes import Mistakes
from cernis.events.reading.pipe import Pipe
from cernis.events.reading.reader import Piece, RowSource
from cernis.events.reading.records import show_short

BLOCK_BYTES = 1 << 23
LONGEST_RECORD = 1 << 24
"""In bytes, unless CERNIS_LONGEST_RECORD says otherwise. Parsing takes several times as much."""
_SHOWN_BYTES = 400
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")

Bad = dict[int, tuple[str | None, str]]  # row of the block -> (column, reason)


class TextPosition(NamedTuple):
    """How far a text has been read: bytes, rows, lines."""

    offset: int = 0
    row: int = 0
    line: int = 1
    skip: int = 0
    """How many records behind these bytes were read as well."""


class BrokenRecord(NamedTuple):
    """A line that no record ends in, or a record that is too long: its beginning, and why."""

    text: str
    reason: str
    lines: int = 1


def longest_record() -> int:
    """Return how many bytes a record may have: a line of JSON or N-Quads, a row of CSV."""
    setting = os.environ.get("CERNIS_LONGEST_RECORD", "")
    if setting and not (setting.isdecimal() and int(setting)):
        raise DataError(f"CERNIS_LONGEST_RECORD={show_short(setting)}: expected a number of bytes")
    return int(setting or LONGEST_RECORD)


def after_last_line(block: bytes) -> int:
    """Return the end of the last whole line."""
    return block.rfind(b"\n") + 1


def after_last_record(block: bytes, quote: bytes = b'"') -> int:
    """Return the end of the last CSV record: a line end with as many quotes before it as close."""
    before = count_byte(block, quote)  # quotes before the line end at hand
    stop = len(block)
    while (end := block.rfind(b"\n", 0, stop)) >= 0:
        before -= block.count(quote, end, stop)
        if before % 2 == 0:
            return end + 1
        stop = end
    return 0


def count_byte(block: bytes, byte: bytes) -> int:
    """Count a byte; several times faster than `bytes.count` where it is common."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord(byte)))


# ------------------------------------------------------------------ reader


class TextReader:
    """The base of CSV and JSON lines: blocks, line numbers, row numbers, bad rows."""

    def __init__(
        self, path: Path | Pipe, mistakes: Mistakes, declared: Mapping[str, pa.DataType]
    ) -> None:
        self.label = path.label if isinstance(path, Pipe) else str(path)
        self.path = path
        self.reopens = not isinstance(path, Pipe)
        self.mistakes = mistakes
        self.count: int | None = None
        self.nbytes: int | None = None  # a compressed file may become any size
        if not isinstance(path, Pipe) and path.suffix.lower() not in COMPRESSED:
            self.nbytes = path.stat().st_size
        self.block_bytes = BLOCK_BYTES
        self._looks = False
        """Whether this pass only looks at the beginning."""
        self.has_rows = True
        """Whether a row could be read, as far as is known."""
        self._declared = dict(declared)
        self._types: dict[str, pa.DataType] = dict(declared)
        self._schema: pa.Schema | None = None
        self.header_lines = 0
        self.first = TextPosition()
        """Where the text begins, which may be the rest of one."""
        self.position = TextPosition()
        """Where the piece that was given last ends."""
        self._offset = 0
        """The bytes before the end of the block that was given last."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first block."""
        if self._schema is None:
            self.mistakes.begin(self.label, quiet=True)
            with self._look():
                table = next((piece.table for piece in self.pieces(None)), None)
            self.has_rows = table is not None
            if table is None:
                self._schema = self._empty()
            else:
                self._schema = pa.schema([(n, self._types[n]) for n in table.column_names])
        return self._schema

    def know(self, schema: pa.Schema) -> None:
        """Take these columns for those of the text, which then need not be looked at."""
        self._schema = schema
        self.expect({each.name: each.type for each in schema})

    def expect(self, types: Mapping[str, pa.DataType]) -> None:
        """Expect columns of these types, as in another file of the stream."""
        self._types = {**types, **self._types}

    @contextmanager
    def _look(self) -> Iterator[None]:
        """Look at the beginning of the file: a pipe keeps what is read meanwhile."""
        self._looks = True
        try:
            yield
        finally:
            self._looks = False

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        self.position = self.first
        row, line = self.first.row, self.first.line
        if not self.first.offset:
            line += self.header_lines
        for block in self._blocks():
            if isinstance(block, BrokenRecord):
                where = f"{self.label}, line {line} (row {row})"
                text = show_short(block.text)
                self.mistakes.bad(self.label, row, None, block.reason, text=text, where=where)
                row, line = row + 1, line + block.lines
                continue
            table, kept, total = self._parse(block, row, line, columns)
            rows = np.arange(row, row + total, dtype=np.int64)
            if kept is not None:
                rows = rows[kept]
            first_row, first_line = row, line
            row, line = row + total, line + count_byte(block, b"\n")
            self.position = TextPosition(self._offset, row, line)
            if len(rows):
                source = partial(self._find_source, block, rows, first_row, first_line)
                yield Piece(table, rows, source)
        self.count = row

    def _find_source(self, block: bytes, rows: Int64s, row: int, line: int, i: int) -> RowSource:
        record = next(islice(self._records(block), int(rows[i]) - row, None), None)
        return self._make_source(int(rows[i]), line, record)

    def _make_source(self, row: int, line: int, record: tuple[int, str] | None) -> RowSource:
        if record is None:
            return RowSource(f"{self.label}, row {row}")
        return RowSource(f"{self.label}, line {line + record[0]} (row {row})", record[1])

    def _report(self, block: bytes, row: int, line: int, bad: Bad) -> None:
        """Report bad rows, one by one."""
        records = dict(enumerate(self._records(block))) if bad else {}
        for number, (column, reason) in sorted(bad.items()):
            where, text = self._make_source(row + number, line, records.get(number))
            self.mistakes.bad(self.label, row + number, column, reason, text=text, where=where)

    def _open(self) -> Any:
        if isinstance(self.path, Pipe):
            return self.path.open(look=self._looks)
        try:
            return pa.input_stream(str(self.path), compression="detect")
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.label}: cannot be read: {error}") from error

    def _read(self) -> Iterator[bytes | BrokenRecord]:
        """Read the file in blocks of whole records."""
        with self._open() as stream:
            try:
                yield from self._cut_blocks(stream, longest_record())
            except (OSError, pa.ArrowException) as error:
                raise DataError(f"{self.label}: cannot be read: {error}") from error

    def _cut_blocks(self, stream: Any, longest: int) -> Iterator[bytes | BrokenRecord]:
        rest, skips, first, ended = b"", False, True, False
        read = self.first.offset
        while not ended:
            data = stream.read(self.block_bytes)
            read += len(data)
            if first and data.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(
                    f"{self.label}: the text is UTF-16; convert it to UTF-8: "
                    "iconv -f UTF-16 -t UTF-8 OLD > NEW"
                )
            first, ended = False, not data
            if skips:  # the rest of a line that is too long
                end = data.find(b"\n") + 1
                skips, data = not end, data[end:] if end else b""
            rest += data
            while rest:
                final = ended or len(rest) > longest
                end = self._last_end(rest, final=final, ended=ended)
                if end:
                    *parts, last = self._part_long_records(rest[:end], longest)
                    yield from parts
                    rest = rest[end:]
                    self._offset = read - len(rest)
                    yield last
                elif final:
                    yield BrokenRecord(*self._describe_broken(rest, longest, ended))
                    end = rest.find(b"\n") + 1
                    skips, rest = not end, rest[end:] if end else b""
                else:
                    break

    def _part_long_records(self, block: bytes, longest: int) -> Iterator[bytes | BrokenRecord]:
        """Yield a block in which no record is too long, those that are, and the other blocks."""
        if len(block) <= longest:
            yield block
            return
        ends = np.union1d(self._ends(block), [len(block)])
        starts = np.concatenate([[0], ends[:-1]])
        done = 0
        for i in np.flatnonzero(ends - starts > longest).tolist():
            start, end = int(starts[i]), int(ends[i])
            if start > done:
                yield block[done:start]
            text = block[start : start + _SHOWN_BYTES].decode(errors="replace")
            lines = block.count(b"\n", start, end)
            yield BrokenRecord(text, describe_too_long(longest), lines)
            done = end
        if done < len(block):
            yield block[done:]

    def _describe_broken(self, rest: bytes, longest: int, ended: bool) -> tuple[str, str]:
        """Return the beginning of a record that does not end, and what is wrong with it."""
        return rest[:_SHOWN_BYTES].decode(errors="replace"), describe_too_long(longest)

    # defined by each format

    def _last_end(self, block: bytes, *, final: bool, ended: bool) -> int:
        """Return where the last whole record ends, 0 if none does.

        Exact if the answer is `final`; the file may have `ended`.
        """
        raise NotImplementedError

    def _ends(self, block: bytes) -> Int64s:
        """Return where the records end."""
        raise NotImplementedError

    def _blocks(self) -> Iterator[bytes | BrokenRecord]:
        raise NotImplementedError

    def _records(self, block: bytes) -> Iterable[tuple[int, str]]:
        """Yield (line inside the block, text) of every record, broken ones too."""
        raise NotImplementedError

    def _parse(
        self, block: bytes, row: int, line: int, columns: Sequence[str] | None
    ) -> tuple[pa.Table, Bools | None, int]:
        """Return a table, marks of the records in it (None: all), and the number of records."""
        raise NotImplementedError

    def _empty(self) -> pa.Schema:
        """Return the columns of a file without records."""
        raise NotImplementedError


def describe_too_long(longest: int) -> str:
    """Return what is wrong with a record of more bytes than are allowed."""
    return f"the record is longer than {longest:,} bytes (CERNIS_LONGEST_RECORD allows more)"


def open_block(block: bytes) -> pa.BufferReader:
    """Return a file of a copy of the block, in Arrow's own memory.

    A thread of Arrow's may free the block after the parser has returned. To free memory of Python's
    it would wait for the interpreter; if that ends meanwhile, the process aborts.
    """
    copy = pa.allocate_buffer(len(block))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(block, np.uint8)
    return pa.BufferReader(copy)
