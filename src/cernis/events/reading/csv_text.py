"""CSV: rows of cells between delimiters, some of them in quotes.

A block goes through pyarrow's parser; one that fails is parsed again as bytes, and its columns are
converted one by one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cernis.errors import DataError
from cernis.events.batch import Bools, Int64s
from cernis.events.column_types import is_text
from cernis.events.reading.csv_form import GUESSED, CsvForm, guess_form, open_records
from cernis.events.reading.mistakes import Mistakes, check_names
from cernis.events.reading.pipe import Pipe
from cernis.events.reading.records import convert_text, describe_type, show_short
from cernis.events.reading.text import (
    Bad,
    BrokenRecord,
    TextReader,
    after_last_line,
    after_last_record,
    count_byte,
    open_block,
)

_GUESSED_BYTES = 1 << 16


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
        self.header_lines = reader.line_num
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
        header = self.header_lines
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
            bad[b.number - 1] = (None, f"{reason}: {show_short(text)!r}")
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
            reasons.setdefault(i, f"{show_short(text[i].as_py())!r} is not {describe_type(type_)}")
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
        types: dict[str, pa.DataType],
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
            open_block(block),
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


def _lines(block: bytes) -> list[str]:
    text = block.decode("utf-8-sig", errors="replace")
    return list(io.StringIO(text, newline=""))
