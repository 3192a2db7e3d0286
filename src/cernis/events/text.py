"""CSV and JSON lines, read in blocks of whole records.

The text is cut into blocks of whole records, and each block goes through pyarrow's parser with
the types known so far. Only a block that fails is read again, value by value, to promote a type
(integer to double, seconds to nanoseconds) or to say which line is broken. Cost: pyarrow's
parser, plus one scan for line ends; memory: one block.

Rejected: pyarrow's own streaming readers. They fix every column's type at the first block, number
broken rows only without threads, and stop at the first value that does not convert.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from cernis.errors import DataError
from cernis.events.batch import Bools, Int64s
from cernis.events.csv_form import GUESSED, CsvForm, guess_form, open_records
from cernis.events.mistakes import Mistakes, check_names
from cernis.events.pipe import Pipe
from cernis.events.reader import Piece, Place
from cernis.events.times import cast_text, is_fraction, is_text, parse_timestamps

BLOCK_BYTES = 1 << 23
LONGEST_RECORD = 1 << 24
"""In bytes, unless CERNIS_LONGEST_RECORD says otherwise. Parsing takes several times as much."""
_SHOWN_BYTES = 400
_GUESSED_BYTES = 1 << 16
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")
_JSON_BYTES = 1 << 20  # of a block at a time, so that all cores take part
_DEEPEST = 100

_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)

Types = dict[str, pa.DataType]
Bad = dict[int, tuple[str | None, str]]  # row of the block -> (column, reason)

_NAMES = (
    (pa.types.is_integer, "a whole number"),
    (is_fraction, "a number"),
    (pa.types.is_boolean, "true or false"),
    (pa.types.is_temporal, "a time"),
    (is_text, "text"),
)


def describe_type(type_: pa.DataType) -> str:
    """Return what a person would call a type.

    >>> describe_type(pa.int32()), describe_type(pa.timestamp("ns"))
    ('a whole number', 'a time')
    """
    return next((name for test, name in _NAMES if test(type_)), f"a {type_}")


# ------------------------------------------------------------------ blocks


class BrokenRecord(NamedTuple):
    """A line that no record ends in, or a record that is too long: its beginning, and why."""

    text: str
    reason: str
    lines: int = 1


def longest_record() -> int:
    """Return how many bytes a record of text may have: a line of JSON, a row of CSV."""
    setting = os.environ.get("CERNIS_LONGEST_RECORD", "")
    if setting and not (setting.isdecimal() and int(setting)):
        raise DataError(f"CERNIS_LONGEST_RECORD={_short(setting)}: expected a number of bytes")
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
        self._types: Types = dict(declared)
        self._schema: pa.Schema | None = None
        self._header_lines = 0

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
        row, line = 0, 1 + self._header_lines
        for block in self._blocks():
            if isinstance(block, BrokenRecord):
                where = f"{self.label}, line {line} (row {row})"
                text = _short(block.text)
                self.mistakes.bad(self.label, row, None, block.reason, text=text, where=where)
                row, line = row + 1, line + block.lines
                continue
            table, kept, total = self._parse(block, row, line, columns)
            rows = np.arange(row, row + total, dtype=np.int64)
            if kept is not None:
                rows = rows[kept]
            if len(rows):
                yield Piece(table, rows, partial(self._find_place, block, rows, row, line))
            row += total
            line += count_byte(block, b"\n")
        self.count = row

    def _find_place(self, block: bytes, rows: Int64s, row: int, line: int, i: int) -> Place:
        record = next(islice(self._records(block), int(rows[i]) - row, None), None)
        return self._place(int(rows[i]), line, record)

    def _place(self, row: int, line: int, record: tuple[int, str] | None) -> Place:
        if record is None:
            return Place(f"{self.label}, row {row}")
        return Place(f"{self.label}, line {line + record[0]} (row {row})", record[1])

    def _report(self, block: bytes, row: int, line: int, bad: Bad) -> None:
        """Report bad rows, one by one."""
        records = dict(enumerate(self._records(block))) if bad else {}
        for number, (column, reason) in sorted(bad.items()):
            where, text = self._place(row + number, line, records.get(number))
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
        rest, skips, ended = b"", False, False
        while not ended:
            data = stream.read(self.block_bytes)
            ended = not data
            if skips:  # the rest of a line that is too long
                end = data.find(b"\n") + 1
                skips, data = not end, data[end:] if end else b""
            rest += data
            while rest:
                final = ended or len(rest) > longest
                end = self._last_end(rest, final=final, ended=ended)
                if end:
                    yield from self._part_long_records(rest[:end], longest)
                    rest = rest[end:]
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
            yield BrokenRecord(text, _too_long(longest), lines)
            done = end
        if done < len(block):
            yield block[done:]

    def _describe_broken(self, rest: bytes, longest: int, ended: bool) -> tuple[str, str]:
        """Return the beginning of a record that does not end, and what is wrong with it."""
        return rest[:_SHOWN_BYTES].decode(errors="replace"), _too_long(longest)

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


# --------------------------------------------------------------------- CSV


class CsvReader(TextReader):
    """CSV, with a header line unless columns are given; an empty cell, `NULL` and `null` are NULL.

    A quoted empty cell is an empty string. A flat file leaves the cells of attributes empty that an
    event type does not have, so an empty cell is NULL in text columns too.
    """

    def __init__(
        self,
        path: Path | Pipe,
        mistakes: Mistakes,
        declared: Mapping[str, pa.DataType],
        form: CsvForm = GUESSED,
        type_column: str | None = "type",
    ) -> None:
        types = {} if type_column is None else {type_column: pa.string()}
        super().__init__(path, mistakes, {**types, **declared})
        with self._look():
            first = self._first_bytes().decode("utf-8-sig", errors="replace")
            self.form = guess_form(first, form)
            self._delimiter, self._quote = self.form.delimiter or ",", self.form.quote or ""
            self._quoted = _match_quoted(self._delimiter.encode(), self._quote.encode())
            self._names = self._header(form.columns)

    def _first_bytes(self) -> bytes:
        with self._open() as stream:
            try:
                first: bytes = stream.read(_GUESSED_BYTES)
            except (OSError, pa.ArrowException) as error:
                raise DataError(f"{self.label}: cannot be read: {error}") from error
        return first

    def _header(self, columns: tuple[str, ...] | None) -> list[str]:
        """Return the names of the columns, which the first line has unless they are given."""
        if columns is not None:
            check_names(self.label, columns)
        first = next(self._read(), b"")
        if isinstance(first, BrokenRecord):
            if columns is not None:
                return [*columns]
            raise DataError(f"{self.label}: the header cannot be read: {first.reason}")
        lines = (line.decode("utf-8-sig", errors="replace") for line in io.BytesIO(first))
        reader = open_records(lines, self._delimiter, self._quote)
        try:
            names = next((names for names in reader if names), None)
        except csv.Error as error:
            raise DataError(f"{self.label}: the header cannot be read: {error}") from error
        if columns is not None:
            if names == [*columns]:
                raise DataError(
                    f"{self.label}: the first line names the columns, so leave out their names"
                )
            return [*columns]
        self._header_lines = reader.line_num
        check_names(self.label, names or [])
        return names or []

    def _empty(self) -> pa.Schema:
        return pa.schema([(n, self._types.get(n, pa.null())) for n in self._names])

    def _last_end(self, block: bytes, *, final: bool, ended: bool) -> int:
        quote = self._quote.encode()
        if not quote:
            return len(block) if ended else after_last_line(block)
        end = len(block) if ended and not count_byte(block, quote) % 2 else 0
        if not end and not ended:
            end = after_last_record(block, quote)
        if end or not final:
            return end
        # quotes inside of values that are not quoted are plain text: look at each
        quoted = list(self._quoted.finditer(block))
        if not quoted or quoted[-1][1]:
            end = len(block) if ended else after_last_line(block)
        else:
            end = block.rfind(b"\n", 0, quoted.pop().start()) + 1
        for value in reversed(quoted):
            if value.start() < end <= value.end():  # a line end inside of a value
                end = block.rfind(b"\n", 0, value.start()) + 1
        return end

    def _ends(self, block: bytes) -> Int64s:
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
        spans = np.array([value.span() for value in self._quoted.finditer(block)], np.int64)
        before = np.searchsorted(spans.reshape(-1), ends)
        outside: Int64s = ends[before % 2 == 0]  # not between a value's beginning and its end
        return outside

    def _describe_broken(self, rest: bytes, longest: int, ended: bool) -> tuple[str, str]:
        text, reason = super()._describe_broken(rest, longest, ended)
        if not any(not value[1] for value in self._quoted.finditer(rest)):
            return text, reason
        within = "before the end of the file" if ended else f"within {longest:,} bytes"
        return text.split("\n")[0].rstrip("\r"), f"a quote is not closed {within}"

    def _blocks(self) -> Iterator[bytes | BrokenRecord]:
        header = self._header_lines
        for i, block in enumerate(self._read()):
            if i == 0 and not header and not isinstance(block, BrokenRecord):
                block = block.removeprefix(b"\xef\xbb\xbf")
            if header and not isinstance(block, BrokenRecord):
                start = 0
                for _ in range(header):
                    end = block.find(b"\n", start)
                    start = end + 1 if end >= 0 else len(block)
                block, header = block[start:], 0
            yield block

    def _records(self, block: bytes) -> Iterator[tuple[int, str]]:
        lines = _lines(block)
        reader = open_records(lines, self._delimiter, self._quote)
        start = 0
        try:
            for cells in reader:
                if cells:
                    yield start, "".join(lines[start : reader.line_num]).rstrip("\r\n")
                start = reader.line_num
        except csv.Error:
            return

    def _parse(
        self, block: bytes, row: int, line: int, columns: Sequence[str] | None
    ) -> tuple[pa.Table, Bools | None, int]:
        try:
            table = self._arrow(block, columns, self._types, None)
        except pa.ArrowInvalid:
            table = None
        if table is None or any(pa.types.is_binary(t) for t in table.schema.types):
            return self._parse_slowly(block, row, line, columns)
        for field in table.schema:
            if pa.types.is_null(self._types.get(field.name, pa.null())):
                self._types[field.name] = field.type
        return table, None, table.num_rows

    def _parse_slowly(
        self, block: bytes, row: int, line: int, columns: Sequence[str] | None
    ) -> tuple[pa.Table, Bools | None, int]:
        """Parse a block with mistakes in it: all cells as bytes, then column by column."""
        broken: list[Any] = []
        raw_types = {name: pa.binary() for name in self._names}
        clean, mark = _mark_bad_bytes(block)  # pyarrow hands over no row that is not UTF-8
        raw = self._arrow(clean, columns, raw_types, broken)
        total = raw.num_rows + len(broken)
        bad: Bad = {}
        for b in broken:
            reason = f"expected {b.expected_columns} values, found {b.actual_columns}"
            text = b.text.replace(mark, "\ufffd") if mark else b.text
            bad[b.number - 1] = (None, f"{reason}: {_short(text)!r}")
        kept = np.ones(total, np.bool_)
        kept[list(bad)] = False
        numbers = np.flatnonzero(kept)
        arrays = []
        for name in raw.column_names:
            array, reasons = self._convert(name, raw.column(name).combine_chunks(), mark)
            arrays.append(array)
            for i, reason in reasons.items():
                bad.setdefault(int(numbers[i]), (name, reason))
        table = pa.table(arrays, names=raw.column_names)
        self._report(block, row, line, bad)
        if bad:
            ok = np.ones(total, np.bool_)
            ok[list(bad)] = False
            table = table.filter(pa.array(ok[numbers]))
            kept = ok
        return table, kept, total

    def _convert(self, name: str, raw: pa.Array, mark: str) -> tuple[pa.Array, dict[int, str]]:
        """Return a column in its type, and why some values do not fit; `mark` is in bad text."""
        text, reasons = raw.cast(pa.string()), {}
        if mark:
            bad = pc.match_substring(text, mark).fill_null(False)
            reasons = {int(i): "the text is not UTF-8" for i in np.flatnonzero(bad)}
        known = self._types.get(name, pa.null())
        if pa.types.is_binary(known) or is_text(known):
            return text, reasons
        if pa.types.is_null(known):
            known = self._infer_type(text)
        tries = [(t, *convert_text(text, t)) for t in self._wider_types(name, known)]
        type_, array, failed = min(tries, key=lambda t: int(t[2].sum()))
        self._types[name] = type_
        for i in np.flatnonzero(failed).tolist():
            reasons.setdefault(i, f"{_short(text[i].as_py())!r} is not {describe_type(type_)}")
        return array, reasons

    def _infer_type(self, text: pa.Array) -> pa.DataType:
        for type_ in (
            pa.int64(),
            pa.float64(),
            pa.bool_(),
            pa.date32(),
            pa.timestamp("s"),
            pa.timestamp("ns"),
            pa.timestamp("ns", "UTC"),
        ):
            if not convert_text(text, type_)[1].any():
                return type_ if text.null_count < len(text) else pa.null()
        return pa.string()

    def _wider_types(self, name: str, type_: pa.DataType) -> list[pa.DataType]:
        """Return a type and those that it may be promoted to."""
        if name in self._declared:
            return [type_]
        if pa.types.is_int64(type_):
            return [type_, pa.float64()]
        if pa.types.is_date32(type_):
            return [type_, pa.timestamp("s"), pa.timestamp("ns")]
        if pa.types.is_timestamp(type_) and type_.unit == "s":
            return [type_, pa.timestamp("ns", type_.tz)]
        return [type_]

    def _arrow(
        self,
        block: bytes,
        columns: Sequence[str] | None,
        types: Types,
        broken: list[Any] | None,
    ) -> pa.Table:
        """Parse a block; with a list of `broken` rows, those are added to it and left out."""

        def set_aside(invalid: Any) -> str:
            assert broken is not None
            broken.append(invalid)
            return "skip"

        known = {n: t for n, t in types.items() if not pa.types.is_null(t)}
        if not block or block.isspace():
            wanted = self._names if columns is None else columns
            return pa.schema([(n, types.get(n, pa.null())) for n in wanted]).empty_table()
        return pyarrow.csv.read_csv(
            pa.BufferReader(block),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=broken is None, column_names=self._names, block_size=len(block) + 1
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=self._quote or False,
                newlines_in_values=True,
                invalid_row_handler=None if broken is None else set_aside,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=known,
                include_columns=None if columns is None else list(columns),
                null_values=["", "NULL", "null"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _match_quoted(delimiter: bytes, quote: bytes) -> re.Pattern[bytes]:
    """Return a pattern of values in quotes; without its closing quote, a value has no group."""
    if not quote:
        return re.compile(rb"(?!)()")
    sign, end = re.escape(quote), re.escape(delimiter)
    inside = rb"[^%b]*+" % sign
    return re.compile(
        rb"(?<![^%b\r\n])%b%b(?:%b%b%b)*+(%b|\Z)" % (end, sign, inside, sign, sign, inside, sign),
        re.DOTALL,
    )


def _mark_bad_bytes(block: bytes) -> tuple[bytes, str]:
    """Return text in which a sign stands for each byte that is not UTF-8, and the sign, or "".

    >>> _mark_bad_bytes(b"a"), _mark_bad_bytes(b"a\\xff")
    ((b'a', ''), (b'a\\xee\\x80\\x80', '\\ue000'))
    """
    text = block.decode(errors="surrogateescape")
    unused = (sign for sign in map(chr, range(0xE000, 0xF900)) if sign not in text)
    mark = next(unused, "\ufffd")
    clean = re.sub("[\udc80-\udcff]", mark, text)
    return (block, "") if clean == text else (clean.encode(), mark)


def convert_text(text: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Bools]:
    """Convert text to a type, with marks where a value does not convert."""
    if is_text(type_):
        return text, np.zeros(len(text), np.bool_)
    if pa.types.is_null(type_):
        return text.cast(pa.string()), np.zeros(len(text), np.bool_)
    trimmed = pc.utf8_trim_whitespace(text)
    if pa.types.is_timestamp(type_):
        parsed = parse_timestamps(trimmed, type_.unit).cast(type_)
        bad = pc.and_not(parsed.is_null(), text.is_null())
        return parsed, bad.to_numpy(zero_copy_only=False)
    return cast_text(trimmed, type_)


def _lines(block: bytes) -> list[str]:
    text = block.decode("utf-8-sig", errors="replace")
    return list(io.StringIO(text, newline=""))


def _too_long(longest: int) -> str:
    return f"the record is longer than {longest:,} bytes (CERNIS_LONGEST_RECORD allows more)"


def _short(text: object) -> str:
    line = str(text)
    return line if len(line) <= 80 else line[:79] + "…"


# -------------------------------------------------------------- JSON lines


class JsonReader(TextReader):
    """One JSON object a line; blank lines do not count as rows."""

    def _empty(self) -> pa.Schema:
        return pa.schema([])

    def _last_end(self, block: bytes, *, final: bool, ended: bool) -> int:
        return len(block) if ended and len(block) <= longest_record() else after_last_line(block)

    def _ends(self, block: bytes) -> Int64s:
        return np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1

    def _blocks(self) -> Iterator[bytes | BrokenRecord]:
        for i, block in enumerate(self._read()):
            if i == 0 and not isinstance(block, BrokenRecord):
                block = block.removeprefix(b"\xef\xbb\xbf")
                if block.lstrip().startswith(b"["):
                    raise DataError(
                        f"{self.label}: expected one JSON object a line, found a JSON array"
                    )
            yield block

    def _records(self, block: bytes) -> Iterator[tuple[int, str]]:
        for i, line in _json_lines(block):
            yield i, line.decode(errors="replace").rstrip("\r")

    def _parse(
        self, block: bytes, row: int, line: int, columns: Sequence[str] | None
    ) -> tuple[pa.Table, Bools | None, int]:
        if not block or block.isspace():
            return pa.table({}), None, 0
        sound = _is_utf8(block) and not _is_deep(block)
        table = self._arrow(block, columns) if sound else None
        if table is None:
            return self._parse_slowly(block, row, line, columns)
        return table, None, table.num_rows

    def _arrow(self, block: bytes, columns: Sequence[str] | None) -> pa.Table | None:
        """Parse the block with pyarrow; None if it has to be parsed slowly."""
        known = [(n, t) for n, t in self._types.items() if not pa.types.is_null(t)]
        unexpected = "infer"
        if columns is not None:
            known, unexpected = [(n, t) for n, t in known if n in columns], "ignore"
            if len(known) < len(columns):
                unexpected = "infer"
        try:
            table = _json_table(block, known, unexpected)
        except pa.ArrowInvalid:
            try:
                table = _json_table(block, [], "infer", len(block))
            except pa.ArrowInvalid:
                return None
        if columns is not None:
            have = frozenset(table.column_names)
            table = pa.table(
                [table.column(n) if n in have else pa.nulls(table.num_rows) for n in columns],
                names=list(columns),
            )
        for i, field in enumerate(table.schema):
            type_ = self._agree_type(field.name, field.type)
            if type_ is None:
                return None
            self._types[field.name] = type_
            if type_ != field.type and not pa.types.is_null(field.type):
                try:
                    table = table.set_column(i, field.name, table.column(i).cast(type_))
                except pa.ArrowInvalid:
                    return None
        return table

    def _agree_type(self, name: str, found: pa.DataType) -> pa.DataType | None:
        """Return the type of a column that this block found otherwise, or None if there is none."""
        known = self._types.get(name, pa.null())
        if known == found or pa.types.is_null(found):
            return known
        if pa.types.is_null(known):
            return found
        if pa.types.is_struct(known) and pa.types.is_struct(found) and name not in self._declared:
            return found
        if pa.types.is_integer(found) and pa.types.is_floating(known):
            return known
        if pa.types.is_floating(found) and pa.types.is_integer(known):
            return None if name in self._declared else pa.float64()
        return None

    def _parse_slowly(
        self, block: bytes, row: int, line: int, columns: Sequence[str] | None
    ) -> tuple[pa.Table, Bools | None, int]:
        read = [_json_object(raw) for _, raw in _json_lines(block)]
        total = len(read)
        records = {i: record for i, (record, _) in enumerate(read) if record is not None}
        bad: Bad = {i: (None, reason) for i, (_, reason) in enumerate(read) if i not in records}
        numbers = list(records)
        table, failed = make_table(list(records.values()), self._types, frozenset(self._declared))
        for i, (column, reason) in failed.items():
            bad[numbers[i]] = (column, reason)
        self._report(block, row, line, bad)
        kept = np.ones(total, np.bool_)
        kept[list(bad)] = False
        table = table.filter(pa.array(kept[numbers], pa.bool_()))
        for field in table.schema:
            self._types[field.name] = field.type
        if columns is not None:
            table = table.select(list(columns))
        return table, kept, total


def _json_table(
    block: bytes, known: list[tuple[str, pa.DataType]], unexpected: str, size: int = _JSON_BYTES
) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(block),
        read_options=pyarrow.json.ReadOptions(block_size=size + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(known) if known else None,
            unexpected_field_behavior=unexpected,
        ),
    )


def _is_utf8(block: bytes) -> bool:
    """Return whether a block is UTF-8: pyarrow's JSON reader does not check it."""
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_deep(block: bytes) -> bool:
    """Return whether some line may nest deeper than is safe for a parser that recurses.

    Brackets inside strings count too; such a block is parsed slowly.
    """
    data = np.frombuffer(block, np.uint8)
    folded = data | 0x20  # { is [ and } is ] but for this bit
    opening, closing = folded == ord("{"), folded == ord("}")
    lines = data == ord("\n")
    if np.count_nonzero(opening) <= _DEEPEST + np.count_nonzero(lines):
        return False
    at = np.flatnonzero(opening | closing | lines)
    depth = np.cumsum(np.where(opening[at], 1, np.where(closing[at], -1, 0)))
    starts = np.concatenate([[0], depth[lines[at]]])
    line = np.concatenate([[0], np.cumsum(lines[at])[:-1]])
    return bool((depth - starts[line]).max(initial=0) > _DEEPEST)


def _json_lines(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the lines that are not blank, with their numbers."""
    return ((i, line) for i, line in enumerate(block.split(b"\n")) if line.strip())


def _json_object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object in a line, or why there is none."""
    try:
        text = line.decode()
        record = json.loads(text)
    except UnicodeDecodeError:
        return None, "the text is not UTF-8"
    except json.JSONDecodeError as error:
        return None, f"not valid JSON: {error.msg} at character {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        return None, f"not valid JSON: {error}"
    if not isinstance(record, dict):
        return None, f"expected a JSON object, found {_short(text)}"
    if _depth(record) > _DEEPEST:
        return None, f"nested more than {_DEEPEST} deep"
    return record, ""


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        inside = (v.values() if isinstance(v, dict) else v for v in level)
        level = [w for v in inside for w in v if isinstance(w, (dict, list))]
        depth += 1
    return depth


# ----------------------------------------------------------------- records


def make_table(
    records: Sequence[Mapping[str, Any]],
    known: Mapping[str, pa.DataType],
    fixed: frozenset[str] = frozenset(),
) -> tuple[pa.Table, dict[int, tuple[str, str]]]:
    """Return records as a table, and why some do not fit, by row.

    It has a column for every known name and every name that occurs. A column has its known type,
    or else the type of its first value; integers are promoted to doubles unless the column is
    `fixed`.

    >>> table, failed = make_table([{"a": 1}, {"a": 2.5}, {"a": "x", "b": True}], {})
    >>> table.column("a").to_pylist(), failed
    ([1.0, 2.5, None], {2: ('a', "'x' is not a number")})
    """
    names = list(dict.fromkeys([*known, *(name for record in records for name in record)]))
    arrays: list[pa.Array] = []
    failed: dict[int, tuple[str, str]] = {}
    for name in names:
        values = [record.get(name) for record in records]
        array, bad = _make_column(values, known.get(name, pa.null()), name in fixed)
        arrays.append(array)
        for i in bad:
            shown = _short(values[i])
            failed.setdefault(i, (name, f"{shown!r} is not {describe_type(array.type)}"))
    if not names:
        return pa.table({}), {}
    return pa.table(arrays, names=names), failed


def _make_column(values: list[Any], known: pa.DataType, fixed: bool) -> tuple[pa.Array, list[int]]:
    if pa.types.is_null(known):
        try:
            return pa.array(values), []
        except _REFUSED:
            first = next((v for v in values if v is not None), None)
            known = pa.float64() if isinstance(first, float) else _scalar_type(first)
    tries = [known]
    if pa.types.is_integer(known) and not fixed:
        tries.append(pa.float64())
    if pa.types.is_timestamp(known) and not fixed:
        tries.append(pa.timestamp("ns", known.tz))
    return min((_make_array(values, type_) for type_ in tries), key=lambda made: len(made[1]))


def _scalar_type(value: Any) -> pa.DataType:
    try:
        return pa.scalar(value).type
    except _REFUSED:
        return pa.float64() if isinstance(value, int) else pa.string()


def _make_array(values: list[Any], type_: pa.DataType) -> tuple[pa.Array, list[int]]:
    try:
        return pa.array(values, type_), []
    except _REFUSED:
        pass
    if pa.types.is_temporal(type_):
        texts = pa.array([v if isinstance(v, str) else None for v in values], pa.string())
        array, failed = convert_text(texts, type_)
        odd = (i for i, v in enumerate(values) if v is not None and not isinstance(v, str))
        return array, sorted({*np.flatnonzero(failed).tolist(), *odd})
    fitted = [_fit(value, type_) for value in values]
    bad = [i for i, v in enumerate(values) if v is not None and fitted[i] is None]
    return pa.array(fitted, type_), bad


def _fit(value: Any, type_: pa.DataType) -> Any:
    """Return the value if the type can hold it, else None."""
    if isinstance(value, bool) and not pa.types.is_boolean(type_):
        return None
    try:
        if isinstance(value, float) and pa.types.is_integer(type_):
            return int(value) if value.is_integer() else None
        if isinstance(value, int) and pa.types.is_floating(type_):
            value = float(value)
        pa.scalar(value, type_)
    except _REFUSED:
        return None
    return value
