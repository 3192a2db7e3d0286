"""A few lines of JSON, which are parsed without Arrow, are read as Arrow reads them."""

from __future__ import annotations

import io
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.events.reading import json_text
from cernis.events.reading.mistakes import Mistakes
from cernis.events.reading.pipe import Pipe

TYPES = {
    "a": pa.int64(),
    "b": pa.float64(),
    "c": pa.string(),
    "d": pa.bool_(),
    "e": pa.timestamp("s"),
    "f": pa.timestamp("ns"),
    "g": pa.timestamp("ms", "UTC"),
    "h": pa.list_(pa.int64()),
}
NUMBERS = [
    "1",
    "-0",
    "3.0",
    "1e5",
    "1E400",
    "-1e-400",
    "9223372036854775807",
    "9223372036854775808",
]
NUMBERS += ["123456789012345678901234567890.5", "9007199254740993", "NaN", "-Infinity", "01", ".5"]
TEXTS = ["", "x", "é", "\\u0000", "\\ud800", "\\ud83d\\ude00", "a\tb", "2024-01-02", "9999-12-31"]
TEXTS += ["2024-01-02T10:00:00", "2024-01-02 10:00:00Z", "2024-01-02T10:00:00+01:00"]
TEXTS += ["2024-01-02T10:00:00.123456789", "2024-01-02T10", "1677-01-01"]
VALUES = [*NUMBERS, "null", "true", "false", "[1]", "{}", *(f'"{text}"' for text in TEXTS)]
ODD = ["3", "null", "{} {}", " ", "{}\r", "\v", "{}\f", "\u2028", '{"a": 1', "\udc80"]


@st.composite
def blocks(draw: st.DrawFn) -> tuple[bytes, dict[str, pa.DataType]]:
    names = draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=4, unique=True))
    pair = st.tuples(st.sampled_from([*names, *names, *names, "z"]), st.sampled_from(VALUES))
    an_object = st.lists(pair, max_size=4).map(
        lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
    )
    lines = draw(st.lists(an_object | an_object | st.sampled_from(ODD), min_size=1, max_size=4))
    text = "\n".join(lines).encode(errors="surrogateescape") + b"\n"
    return text, {name: TYPES[name] for name in names}


def read(block: bytes, types: dict[str, pa.DataType]) -> tuple[pa.Table, list[int]]:
    """Return the rows of a block, and their numbers, where the columns are known."""
    reader = json_text.JsonReader(Pipe.of("S", io.BytesIO(block)), Mistakes("skip"), {})
    reader.know(pa.schema(types))
    pieces = [*reader.pieces(None)]
    rows = [row for piece in pieces for row in piece.rows.tolist()]
    tables = [pa.schema(types).empty_table(), *(piece.table for piece in pieces)]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks(), rows


@given(given=blocks())
def test_few_lines_are_read_as_arrow_reads_them(
    given: tuple[bytes, dict[str, pa.DataType]],
) -> None:
    found = read(*given)
    with patch.object(json_text, "_FEW_BYTES", 0):
        expected = read(*given)
    assert found[1] == expected[1]
    assert found[0].equals(expected[0])


def test_plain_values_are_read_without_arrow() -> None:
    block = b'{"a": 1, "b": 2, "c": "x", "d": true, "e": "2024-01-02T10:00:00"}\n{"a": null}\n'
    types = {name: TYPES[name] for name in "abcde"}
    with patch.object(json_text, "_json_table", side_effect=AssertionError):
        table, rows = read(block, types)
    assert rows == [0, 1]
    assert table.column("b").to_pylist() == [2.0, None]


@pytest.mark.parametrize("before", ["", " ", "\t \r", "\n", '{"a": 1}\n \n '])
@pytest.mark.parametrize("lines", [1, 2000])
def test_a_line_that_is_null_is_a_bad_row(before: str, lines: int) -> None:
    block = f'{before}null\n{{"a": 2}}\n'.encode() * lines
    table, rows = read(block, {"a": pa.int64()})
    assert table.column("a").to_pylist() == ([1, 2] if "{" in before else [2]) * lines
    assert len(rows) == table.num_rows
