"""`Matches`: what a run gives back.

It holds the set of matches, not the matches: they are made when they are asked for,
block by block. Counting and sampling never enumerate.

Cost contract: `count`, `counts` and `sample` cost what the match set promises (linear
in the compact set, whatever the number of matches); `batches`, `to_arrow`, `write_…`
are linear in their output, in Arrow; iteration makes a Python object for each match.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from cernis.pattern.query import Pattern
from cernis.results.aggregate import evaluate
from cernis.results.columns import (
    Events,
    Shape,
    count_batch,
    empty_block,
    partition_columns,
    record_batch,
)
from cernis.results.html import html_table
from cernis.results.jsonlines import count_lines, match_lines, sorted_rows, text_of
from cernis.results.match import Match
from cernis.results.matchset import MatchBlock, MatchSet, Positions, part, pieces
from cernis.results.values import python_values

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_PIECE = 1 << 18
_OBJECTS = 1 << 14  # Python objects are made for so many positions at once: they stay in cache
_SHOWN = 10


class Matches:
    """The matches of a run, lazily."""

    def __init__(
        self,
        found: MatchSet,
        events: Events,
        pattern: Pattern,
        *,
        notes: Sequence[str] = (),
        partial: bool = False,
    ) -> None:
        self.pattern = pattern
        self.notes = tuple(notes)
        """What the run has to say, such as that the events had to be sorted."""
        self.partial = partial
        """Whether a budget ended the search before all matches were found."""
        self._found = found
        self._events = events
        self._shape = Shape.of(pattern, found.variables)

    @property
    def counting(self) -> bool:
        """Whether the query is `SELECT COUNT(*)` alone: its rows are counts, not matches."""
        return self._shape.counting

    # ------------------------------------------------------------ numbers

    @cached_property
    def _count(self) -> int:
        return self._found.count()

    def count(self) -> int:
        """The number of matches, exactly, without enumerating them."""
        return self._count

    def counts(self) -> pa.Table:
        """The number of matches at each end position that has any.

        Columns `end`, `end_ts`, those of the partition, `count`: int64 if all fit, then
        decimal128(38, 0), then decimal256(76, 0), then strings of digits.
        """
        ends, counts = self._found.counts()
        return pa.Table.from_batches([count_batch(ends, counts, self._shape, self._events)])

    # ------------------------------------------------------------ objects

    def __iter__(self) -> Iterator[Match]:
        """The matches by end position, latest start first."""
        return self._iterate(None)

    def head(self, n: int = 10) -> list[Match]:
        """The first n matches."""
        return list(islice(self._iterate(n), _number(n)))

    def sample(self, k: int = 10, seed: int | None = None) -> list[Match]:
        """k distinct matches, each set of k equally likely; all when there are fewer."""
        return list(self._objects(self._found.sample(_number(k), seed)))

    def _iterate(self, limit: int | None) -> Iterator[Match]:
        if self._shape.counting:
            yield from self._count_objects(limit)
            return
        for block in self._pieces(limit):
            for piece in pieces(block, _OBJECTS):
                yield from self._objects(piece)

    def _objects(self, block: MatchBlock) -> Iterator[Match]:
        shape, events = self._shape, self._events
        rows = tuple(
            sorted_rows(events.rows(p), o)
            for p, o in zip(block.positions, block.offsets, strict=True)
        )
        marks = held = _lists(shape.variables, block.positions, block)
        if not all(map(np.array_equal, rows, block.positions)):
            held = _lists(shape.variables, rows, block)
        aggregates = [evaluate(item, block, shape.variables, events) for item in shape.aggregates]
        columns = zip(
            events.rows(block.start).tolist(),
            events.rows(block.end).tolist(),
            python_values(events.times(block.start)),
            python_values(events.times(block.end)),
            held,
            marks,
            self._partitions(block.end),
            _records(shape.aggregate_names, aggregates, len(block.start)),
            zip(block.start.tolist(), block.end.tolist(), strict=True),
            strict=True,
        )
        for start, end, start_ts, end_ts, found, positions, key, values, interval in columns:
            yield Match(
                start=start,
                end=end,
                start_ts=start_ts,
                end_ts=end_ts,
                vars=found,
                partition=key,
                aggregates=values,
                interval=interval,
                positions=positions,
                _events=events,
                _attributes=shape.attributes,
            )

    def _count_objects(self, limit: int | None) -> Iterator[Match]:
        ends, counts = self._found.counts()
        ends, counts = ends[:limit], counts[:limit]
        columns = zip(
            ends.tolist(),
            counts,
            self._events.rows(ends).tolist(),
            python_values(self._events.times(ends)),
            self._partitions(ends),
            strict=True,
        )
        for position, count, row, ts, key in columns:
            yield Match(
                start=row,
                end=row,
                start_ts=ts,
                end_ts=ts,
                vars={},
                partition=key,
                aggregates={"COUNT(*)": count},
                interval=(position, position),
                positions={},
                _events=self._events,
                _attributes={},
            )

    def _partitions(self, ends: Positions) -> Iterable[dict[str, Any]]:
        columns = partition_columns(ends, self._shape, self._events)
        return _records(self._shape.keys, columns, len(ends))

    # -------------------------------------------------------------- Arrow

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self._schema(ids=False)

    def _schema(self, *, ids: bool) -> pa.Schema:
        if self._shape.counting:
            return self.counts().schema
        return record_batch(empty_block(self._shape), self._shape, self._events, ids=ids).schema

    def batches(self, limit: int | None = None, *, ids: bool = False) -> Iterator[pa.RecordBatch]:
        """The matches, or the first `limit`, as Arrow record batches.

        With `ids`, a last column has a name for each match that depends on the rows of its
        events alone.
        """
        if self._shape.counting:
            yield from self.counts().slice(0, limit).to_batches()
            return
        schema = self._schema(ids=True) if ids else self.schema
        for block in self._pieces(limit):
            batch = record_batch(block, self._shape, self._events, ids=ids)
            yield batch if batch.schema == schema else batch.cast(schema)

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """The matches, or the first `limit`, as an Arrow table with the events in it."""
        return pa.Table.from_batches(self.batches(limit), self.schema)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """The matches, or the first `limit`, as a pandas frame (pandas must be installed)."""
        return self.to_arrow(limit).to_pandas()

    def to_polars(self, limit: int | None = None) -> pl.DataFrame:
        """The matches, or the first `limit`, as a polars frame (polars must be installed)."""
        import polars as pl

        return pl.DataFrame(self.to_arrow(limit))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow stream interface: DuckDB, polars and others read the matches as a table."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _pieces(self, limit: int | None) -> Iterator[MatchBlock]:
        left = None if limit is None else _number(limit)
        for block in self._found.blocks(left):
            for piece in pieces(block, _PIECE):
                if left is not None:
                    piece = part(piece, 0, min(left, len(piece.start)))
                    left -= len(piece.start)
                if len(piece.start):
                    yield piece
                if left == 0:
                    return

    # -------------------------------------------------------------- files

    def write_jsonl(self, path: str | Path | BinaryIO, *, limit: int | None = None) -> int:
        """Write one match a line; `-` is standard output. Gives the number of lines."""
        if not isinstance(path, str | Path):
            return _written(self._line_blocks(limit), path.write)
        if str(path) == "-":
            number = _written(self._line_blocks(limit), sys.stdout.buffer.write)
            sys.stdout.buffer.flush()
            return number
        with open(path, "wb") as file:
            return _written(self._line_blocks(limit), file.write)

    def _line_blocks(self, limit: int | None) -> Iterator[tuple[int, memoryview]]:
        for _, lines in self._lines(limit, "\n"):
            yield len(lines), text_of(lines)

    def lines(self) -> Iterator[pa.RecordBatch]:
        """The lines of `write_jsonl` as a column, beside the row and time of their ends."""
        for ends, lines in self._lines(None, ""):
            rows = pa.array(self._events.rows(ends), pa.int64())
            times = self._events.times(ends)
            yield pa.RecordBatch.from_arrays([rows, times, lines], ["end", "end_ts", "line"])

    def _lines(self, limit: int | None, newline: str) -> Iterator[tuple[Positions, pa.StringArray]]:
        shape, events = self._shape, self._events
        if shape.counting:
            ends, counts = self._found.counts()
            ends, counts = ends[:limit], counts[:limit]
            yield ends, count_lines(ends, counts, shape, events, newline)
            return
        for block in self._pieces(limit):
            yield block.end, match_lines(block, shape, events, newline)

    def write_parquet(self, path: str | Path, *, limit: int | None = None) -> int:
        """Write the matches with their events to a Parquet file, batch by batch."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(path, self.schema) as writer:
            batches = ((batch.num_rows, batch) for batch in self.batches(limit))
            return _written(batches, writer.write_batch)

    # ------------------------------------------------------------ showing

    def _title(self) -> str:
        count = self.count()
        number = f"{count:,}" if count < 10**24 else f"about 10^{len(str(count)) - 1}"
        return f"{number} {'match' if count == 1 else 'matches'}"

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        shown = self.head(_SHOWN)
        return html_table(self._title(), shown, more=self.count() > len(shown))


def _number(n: int) -> int:
    if n < 0:
        raise ValueError(f"a number of matches cannot be negative: {n}")
    return n


def _lists(
    names: Sequence[str], columns: Sequence[Positions], block: MatchBlock
) -> Iterable[dict[str, list[int]]]:
    """{variable: its part of the column} for each match."""
    if not names:
        return [{}] * len(block.start)
    split = [
        [column[a:b] for a, b in pairwise(offset.tolist())]
        for column, offset in zip((c.tolist() for c in columns), block.offsets, strict=True)
    ]
    return [dict(zip(names, lists, strict=True)) for lists in zip(*split, strict=True)]


def _records(
    names: Sequence[str], columns: Sequence[pa.Array], length: int
) -> Iterable[dict[str, Any]]:
    if not names:
        return [{}] * length
    values = zip(*(python_values(column) for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in values]


def _written(parts: Iterable[tuple[int, Any]], write: Callable[[Any], object]) -> int:
    total = 0
    for number, piece in parts:
        write(piece)
        total += number
    return total


__all__ = ["Match", "Matches"]
