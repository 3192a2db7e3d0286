"""JSON lines: one object a line.

A block goes through pyarrow's parser, unless it is not UTF-8, nests deeper than is safe for a
parser that recurses, or has a line `null`; one that fails is parsed again, line by line. A few
lines of plain values are parsed in Python, which takes less time than to wake Arrow's threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from cernis.errors import DataError
from cernis.events.batch import Bools, Int64s
from cernis.events.reading.records import make_table, show_short
from cernis.events.reading.text import (
    Bad,
    BrokenRecord,
    TextReader,
    after_last_line,
    longest_record,
    open_block,
)

_BLOCK_BYTES = 1 << 20  # at a time, so that all cores take part
_FEW_BYTES = 1 << 12
"""A block that is parsed sooner than another thread wakes up, in which Arrow would read it."""
_PLAIN: dict[pa.DataType, frozenset[type]] = {
    pa.bool_(): frozenset({bool, type(None)}),
    pa.int64(): frozenset({int, type(None)}),
    pa.float64(): frozenset({float, int, type(None)}),
    pa.string(): frozenset({str, type(None)}),
}
"""The types of JSON values in a column of each type on which Arrow's parser and Python's agree."""
_DEEPEST = 100
_NULL = re.compile(rb"[ \t\r]*n")
_NULL_AFTER = re.compile(rb"\n[ \t\r]*n")  # a literal begin, which is searched quickly


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
        if columns is None and len(block) <= _FEW_BYTES:
            table = _read_few_lines(block, self._types)
            if table is not None:
                return table, None, table.num_rows
        sound = _is_utf8(block) and not _is_deep(block) and not _has_null(block)
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
    block: bytes, known: list[tuple[str, pa.DataType]], unexpected: str, size: int = _BLOCK_BYTES
) -> pa.Table:
    return pyarrow.json.read_json(
        open_block(block),
        read_options=pyarrow.json.ReadOptions(block_size=size + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(known) if known else None,
            unexpected_field_behavior=unexpected,
        ),
    )


def _read_few_lines(block: bytes, types: Mapping[str, pa.DataType]) -> pa.Table | None:
    """Return lines as Arrow's parser does, if all their values are plain and of known types."""
    texts = {name: pa.string() if pa.types.is_timestamp(t) else t for name, t in types.items()}
    if not texts or not _PLAIN.keys() >= {*texts.values()}:
        return None
    try:
        records = [_PLAIN_JSON.decode(line.decode()) for _, line in _json_lines(block)]
        if not all(
            isinstance(record, dict) and record.keys() <= texts.keys() for record in records
        ):
            return None
        columns = []
        for name, type_ in texts.items():
            values = [record.get(name) for record in records]
            if not _PLAIN[type_].issuperset(map(type, values)):
                return None
            columns.append(pa.array(values, type_).cast(types[name]))
    except (pa.ArrowException, OverflowError, RecursionError, ValueError):
        return None
    return pa.table(columns, names=[*texts])


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_PLAIN_JSON = json.JSONDecoder(parse_constant=_refuse_constant)  # NaN is no JSON


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


def _has_null(block: bytes) -> bool:
    """Return whether a line begins as `null` does, at which pyarrow's parser ends the process."""
    return bool(_NULL.match(block) or _NULL_AFTER.search(block))


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
        return None, f"expected a JSON object, found {show_short(text)}"
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
