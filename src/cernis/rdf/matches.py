"""The matches of a SPAseQ query: lazy, like those of the other languages.

A match has its first and last time, the terms of what was selected, and its events, each by
stream and number. They are put together column by column from the rows that a match consists
of; a Python object is made only for a match that somebody asks for as one.

They come in one order, however they are found: by end, latest start first, then by their events
and by their terms. That is sorted out among the matches of one end; an end with more than a
million events in its matches is given in pieces, each sorted in itself.

Cost contract: `count` and `sample` do not enumerate, unless two runs may be one match (several
solutions of one event that look the same in the answer, or two ways to read the same events):
then matches are listed and told apart. `head` looks at all matches of the ends that it shows, up
to that million.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import CernisError
from cernis.events.times import UNITS
from cernis.pattern import graph as g
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.row_store import FoundRows, RowStore
from cernis.rdf.solving.rows import Int64s
from cernis.results.jsonlines import text_of
from cernis.results.matchset import MatchBlock, MatchSet, pieces, take
from cernis.results.values import iso_texts, json_text, json_texts, python_values

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_WEIGHT = 1 << 20
_OWN_COLUMNS = ("start_ts", "end_ts", "events")
_PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
_XSD = "http://www.w3.org/2001/XMLSchema#"


class AnswerColumn(NamedTuple):
    """A selected variable, the column of rows that holds it, and the step that binds it anew in
    each round, if one does."""

    name: str
    place: int
    listed: bool
    step: int | None


class AnswerShape(NamedTuple):
    """The columns of a query's answer, and where its rows hold them."""

    columns: tuple[AnswerColumn, ...]
    streams: tuple[str, ...]
    steps: Codes
    """The step of each alternative."""
    construct: tuple[g.Triple, ...] | None = None

    @property
    def labels(self) -> list[str]:
        """The names of the Arrow columns; a name that is taken gets an underscore."""
        names = [column.name for column in self.columns]
        labels: list[str] = []
        for name in names:
            label = name
            while label in _OWN_COLUMNS or (label != name and label in (*names, *labels)):
                label += "_"
            labels.append(label)
        return labels


class TimeFormat(NamedTuple):
    """Show times as numbers of a unit, or as dates without one."""

    unit: str | None

    def column(self, times: Int64s) -> pa.Array:
        if self.unit is None:
            return pa.array(times, pa.timestamp("ns", "UTC"))
        return pa.array(times // UNITS[self.unit], pa.int64())

    def texts(self, times: Int64s) -> pa.Array:
        """Return times as JSON."""
        if self.unit is not None:
            return json_texts(self.column(times))
        return pc.binary_join_element_wise('"', self._dates(times), '"', "")

    def terms(self, times: Int64s) -> pa.Array:
        """Return times as RDF terms."""
        if self.unit is None:
            kind, texts = "dateTime", self._dates(times)
        else:
            kind, texts = "integer", self.column(times).cast(pa.string())
        return pc.binary_join_element_wise('"', texts, f'"^^<{_XSD}{kind}>', "")

    def _dates(self, times: Int64s) -> pa.Array:
        """Return times in ISO 8601, without trailing zeros."""
        short = pc.replace_substring_regex(iso_texts(self.column(times)), r"(\.\d*?)0+Z$", r"\1Z")
        return pc.replace_substring(short, ".Z", "Z")


@dataclass(frozen=True, slots=True)
class GraphMatch:
    """One match: its times, its terms in N-Triples form, its events as (stream, number)."""

    start_ts: Any
    end_ts: Any
    bindings: Mapping[str, str | list[str]]
    events: tuple[tuple[str, int], ...]


class _Block(NamedTuple):
    """Matches with their rows."""

    start: Int64s
    end: Int64s
    values: tuple[Codes | tuple[Int64s, Codes], ...]
    """Per column: a code for each match, or for lists offsets and codes."""
    offsets: Int64s
    streams: Codes
    numbers: Int64s


class GraphMatches:
    """Every match of a query, or of a part of a stream."""

    counting = False

    def __init__(
        self,
        found: MatchSet,
        store: RowStore,
        terms: Terms,
        shape: AnswerShape,
        clock: TimeFormat,
        distinct: bool,
    ) -> None:
        self._found, self._store, self._terms = found, store, terms
        self._shape, self._clock = shape, clock
        self._distinct = distinct
        """Whether no two runs are one match."""

    # ------------------------------------------------------------------ count

    @cached_property
    def _count(self) -> int:
        if self._distinct:
            return self._found.count()
        return sum(len(block.start) for block in self._found_blocks())

    def count(self) -> int:
        """How many matches there are."""
        return self._count

    def __iter__(self) -> Iterator[GraphMatch]:
        return self._iterate(None)

    def head(self, n: int = 10) -> list[GraphMatch]:
        """The first matches."""
        return list(self._iterate(n))

    def sample(self, k: int = 10, seed: int | None = None) -> list[GraphMatch]:
        """Some matches, each equally likely."""
        if not self.count():
            return []
        if self._distinct:
            drawn = self._block(self._found.sample(k, seed))
            return list(self._objects(self._in_order([drawn])))
        chosen = random.Random(seed).sample(range(self.count()), min(k, self.count()))
        matches = list(self)
        return [matches[i] for i in sorted(chosen)]

    def _iterate(self, limit: int | None) -> Iterator[GraphMatch]:
        for block in self._blocks(limit):
            yield from self._objects(block)

    def _objects(self, block: _Block) -> Iterator[GraphMatch]:
        table = self._batch(block)
        start, end = (python_values(table.column(name)) for name in ("start_ts", "end_ts"))
        events = table.column("events").to_pylist()
        bound = [table.column(label).to_pylist() for label in self._shape.labels]
        names = [column.name for column in self._shape.columns]
        for i in range(len(start)):
            values = {n: v[i] for n, v in zip(names, bound, strict=True) if v[i] is not None}
            told = tuple((event["stream"], event["number"]) for event in events[i])
            yield GraphMatch(start[i], end[i], values, told)

    # ----------------------------------------------------------------- blocks

    def _blocks(self, limit: int | None) -> Iterator[_Block]:
        """The matches, or the first of them, in order."""
        left = limit
        for block in self._ordered() if left != 0 else ():
            if left is not None and len(block.start) > left:
                block = _first(block, left)
            yield block
            if left is not None:
                left -= len(block.start)
                if left == 0:
                    return

    def _ordered(self) -> Iterator[_Block]:
        held: list[_Block] = []
        for block in self._found_blocks():
            last = int(np.searchsorted(block.end, block.end[-1]))
            if held and block.end[0] != held[0].end[0]:
                yield self._in_order(held)
                held = []
            if last:
                yield self._in_order([*held, _part(block, 0, last)])
                held = []
            held.append(_part(block, last, len(block.end)))
            if sum(len(one.numbers) for one in held) > _WEIGHT:
                yield self._in_order(held)
                held = []
        if held:
            yield self._in_order(held)

    def _found_blocks(self) -> Iterator[_Block]:
        """The matches by end, each once."""
        seen = _Deduplicator()
        for whole in self._found.blocks(None):
            for piece in pieces(whole, _WEIGHT):
                block = self._block(piece)
                if not self._distinct:
                    block = seen.drop_repeats(block)
                if len(block.start):
                    yield block

    def _in_order(self, blocks: Sequence[_Block]) -> _Block:
        block = _together(blocks)
        order = np.lexsort((-block.start, block.end))
        start, end = block.start[order], block.end[order]
        if ((start[1:] == start[:-1]) & (end[1:] == end[:-1])).any():
            order, tied = _sorted(block.end, self._places(block, told=False))
            if tied:
                order, _ = _sorted(block.end, self._places(block))
        return block if (np.diff(order) == 1).all() else _taken(block, order)

    def _places(self, block: _Block, *, told: bool = True) -> pa.Array:
        """Bytes that sort as the matches of one end do: by start and events, and by what they tell.

        No term has a byte below 32 in it.
        """
        latest_first = ~(block.start.astype(np.uint64) ^ np.uint64(1 << 63))
        parts: list[Any] = [_fixed(latest_first.astype(">u8").view(np.uint8).reshape(-1, 8))]
        events = np.empty((len(block.numbers), 13), np.uint8)
        events[:, 0] = 1
        events[:, 1:5] = block.streams.astype(">u4").view(np.uint8).reshape(-1, 4)
        events[:, 5:] = block.numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        parts += [_joined_bytes(block.offsets, events), b"\0"]
        for value in block.values if told else ():
            codes = value[1] if isinstance(value, tuple) else value
            texts = pc.fill_null(self._terms.texts(codes), "").cast(pa.binary())
            if isinstance(value, tuple):
                ended = pc.binary_join_element_wise(texts, b"\1", b"")
                lists = pa.ListArray.from_arrays(pa.array(value[0], pa.int32()), ended)
                texts = pc.binary_join(lists, b"")
            parts += [texts, b"\0"]
        return pc.binary_join_element_wise(*parts, b"")

    def _block(self, found: MatchBlock) -> _Block:
        offsets = found.offsets[0]
        rows = self._store.rows(found.positions[0])
        first, last = offsets[:-1], offsets[1:] - 1
        values = tuple(self._values(column, rows, offsets) for column in self._shape.columns)
        there = rows.event >= 0
        upto = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
        streams, numbers = self._store.events(rows.event[there])
        block = _Block(rows.time[first], rows.time[last], values, upto[offsets], streams, numbers)
        order = np.argsort(block.end, kind="stable")
        return block if (np.diff(order) == 1).all() else _taken(block, order)

    def _values(
        self, column: AnswerColumn, rows: FoundRows, offsets: Int64s
    ) -> Codes | tuple[Int64s, Codes]:
        codes = rows.codes[:, column.place]
        bound = codes >= 0
        if column.listed:
            upto = np.concatenate(([0], np.cumsum(bound)))
            return upto[offsets], codes[bound]
        if column.step is not None:  # the last round decides, also that it is unbound
            bound = self._shape.steps[rows.alternative] == column.step
        places = np.where(bound, np.arange(len(codes)), -1)
        if not len(offsets) - 1:
            return codes[:0]
        latest = np.maximum.reduceat(places, offsets[:-1])
        return np.where(latest >= 0, codes[latest], np.int32(-1))

    # ------------------------------------------------------------------ Arrow

    @property
    def schema(self) -> pa.Schema:
        """The columns of `to_arrow`."""
        return self._batch(self._empty()).schema

    def _empty(self) -> _Block:
        none, longs = np.empty(0, np.int32), np.empty(0, np.int64)
        start = np.zeros(1, np.int64)
        values = tuple((start, none) if c.listed else none for c in self._shape.columns)
        return _Block(longs, longs, values, start, none, longs)

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The matches as Arrow: times, a column of terms for each variable, lists of events."""
        for block in self._blocks(limit):
            yield self._batch(block)

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        return pa.Table.from_batches(self.batches(limit), self.schema)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        return self.to_arrow(limit).to_pandas()

    def to_polars(self, limit: int | None = None) -> pl.DataFrame:
        import polars as pl

        return pl.from_arrow(self.to_arrow(limit))  # type: ignore[return-value]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batch(self, block: _Block) -> pa.RecordBatch:
        columns = {
            "start_ts": self._clock.column(block.start),
            "end_ts": self._clock.column(block.end),
        }
        for label, value in zip(self._shape.labels, block.values, strict=True):
            columns[label] = self._texts(value)
        names = pa.array(self._shape.streams, pa.string())
        events = pa.StructArray.from_arrays(
            [names.take(pa.array(block.streams)), pa.array(block.numbers)], ["stream", "number"]
        )
        columns["events"] = pa.ListArray.from_arrays(pa.array(block.offsets, pa.int32()), events)
        return pa.RecordBatch.from_pydict(columns)

    def _texts(self, value: Codes | tuple[Int64s, Codes]) -> pa.Array:
        if isinstance(value, tuple):
            offsets, codes = value
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), self._terms.texts(codes))
        return self._terms.texts(value)

    # ------------------------------------------------------------------- text

    def write_jsonl(self, path: str | Path | BinaryIO, *, limit: int | None = None) -> int:
        """One match a line; gives their number."""
        return self._written(path, limit, self._lines)

    def placed_lines(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The lines with what puts them in order among those of other parts of a stream: the end
        in nanoseconds, then `place`."""
        for block in self._blocks(limit):
            yield self._placed(block, self._lines(block, 0, ""))

    def placed_quads(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The same for the graphs of CONSTRUCT; a zero byte stands where their numbers go."""
        for block in self._blocks(limit):
            numbers = pa.array(["\0"] * len(block.start), pa.string())
            yield self._placed(block, self._numbered_quads(block, numbers))

    def placed_batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The same for the columns of `to_arrow`, which come after `@end` and `@place`."""
        for block in self._blocks(limit):
            batch = self._batch(block)
            columns = [pa.array(block.end), self._places(block), *batch.columns]
            yield pa.RecordBatch.from_arrays(columns, ["@end", "@place", *batch.schema.names])

    def _placed(self, block: _Block, lines: pa.Array) -> pa.RecordBatch:
        columns = [pa.array(block.end), self._places(block), lines]
        return pa.RecordBatch.from_arrays(columns, ["end", "place", "line"])

    def _lines(self, block: _Block, first: int, newline: str = "\n") -> pa.StringArray:
        bindings = [
            pc.binary_join_element_wise(
                json_text(column.name) + ":", self._json(value), "", null_handling="emit_null"
            )
            for column, value in zip(self._shape.columns, block.values, strict=True)
        ]
        inside = pa.array([""] * len(block.start), pa.string())
        if bindings:
            # Arrow leaves out rows that have nothing to join
            some = [np.asarray(binding.is_valid()) for binding in bindings]
            bindings[0] = pc.if_else(pa.array(np.any(some, axis=0)), bindings[0], "")
            inside = pc.binary_join_element_wise(*bindings, ",", null_handling="skip")
        names = pa.array([json_text(name) for name in self._shape.streams], pa.string())
        events = pc.binary_join_element_wise(
            "[", names.take(pa.array(block.streams)), ",",
            pa.array(block.numbers).cast(pa.string()), "]", "",
        )  # fmt: skip
        lists = pa.ListArray.from_arrays(pa.array(block.offsets, pa.int32()), events)
        return pc.binary_join_element_wise(
            '{"start_ts":', self._clock.texts(block.start),
            ',"end_ts":', self._clock.texts(block.end),
            ',"bindings":{', inside, '},"events":[', pc.binary_join(lists, ","),
            "]}" + newline, "",
        )  # fmt: skip

    def _json(self, value: Codes | tuple[Int64s, Codes]) -> pa.Array:
        """Terms as JSON; null where there is none."""
        codes = value[1] if isinstance(value, tuple) else value
        texts = json_texts(self._terms.texts(codes))
        if not isinstance(value, tuple):
            return pc.if_else(pa.array(codes >= 0), texts, None)
        lists = pa.ListArray.from_arrays(pa.array(value[0], pa.int32()), texts)
        return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")

    def write_nquads(
        self, path: str | Path | BinaryIO, *, limit: int | None = None, first: int = 0
    ) -> int:
        """The graphs that CONSTRUCT makes, one for each match, with the time of its end.

        They are numbered from `first` on, in their names.
        """
        if self._shape.construct is None:
            raise CernisError("only a CONSTRUCT query has graphs to write; this one SELECTs")
        return self._written(path, limit, lambda block, n: self._quads(block, first + n))

    def _quads(self, block: _Block, first: int) -> pa.StringArray:
        numbers = pa.array(np.arange(first, first + len(block.start)))
        return self._numbered_quads(block, numbers.cast(pa.string()))

    def _numbered_quads(self, block: _Block, numbers: pa.StringArray) -> pa.StringArray:
        graph = pc.binary_join_element_wise("<urn:cernis:match:", numbers, ">", "")
        lines = [_quad(graph, _PROV, self._clock.terms(block.end), None)]
        places = {column.name: value for column, value in zip(
            self._shape.columns, block.values, strict=True)}  # fmt: skip
        for triple in self._shape.construct or ():
            nodes = [self._node(node, places, numbers) for node in triple.nodes()]
            lines.append(_quad(nodes[0], nodes[1], nodes[2], graph, _sensible(nodes)))
        return pc.binary_join_element_wise(*lines, "", null_handling="skip")

    def _node(self, node: g.Node, places: Mapping[str, Any], numbers: pa.Array) -> pa.Array:
        if isinstance(node, g.Term):
            return pa.array([node.text] * len(numbers), pa.string())
        if node.hidden:
            name = "".join(c for c in node.name if c.isalnum())
            return pc.binary_join_element_wise("_:m", numbers, f"x{name}", "")
        codes = places[node.name]
        return pc.if_else(pa.array(codes >= 0), self._terms.texts(codes), None)

    def _written(
        self,
        path: str | Path | BinaryIO,
        limit: int | None,
        lines: Callable[[_Block, int], pa.StringArray],
    ) -> int:
        if isinstance(path, str | Path):
            with open(path, "wb") as file:
                return self._written(file, limit, lines)
        written = 0
        for block in self._blocks(limit):
            path.write(text_of(lines(block, written)))
            written += len(block.start)
        return written

    def __repr__(self) -> str:
        count = self.count()
        number = f"{count:,}" if count < 10**24 else f"about 10^{len(str(count)) - 1}"
        return f"<{number} {'match' if count == 1 else 'matches'}>"


class _Deduplicator:
    """Drop matches that came before: those of the current end, since ends do not come back."""

    def __init__(self) -> None:
        self._end: int | None = None
        self._known: set[bytes] = set()

    def drop_repeats(self, block: _Block) -> _Block:
        fresh = []
        events = np.stack([block.streams.astype(np.int64), block.numbers], axis=1)
        for i in range(len(block.start)):
            if block.end[i] != self._end:
                self._end, self._known = int(block.end[i]), set()
            held = events[block.offsets[i] : block.offsets[i + 1]].tobytes()
            told = b"|".join(
                (v[1][v[0][i] : v[0][i + 1]] if isinstance(v, tuple) else v[i]).tobytes()
                for v in block.values
            )
            key = held + b"||" + told
            if key not in self._known:
                self._known.add(key)
                fresh.append(i)
        return block if len(fresh) == len(block.start) else _taken(block, np.array(fresh, np.int64))


def _sorted(end: Int64s, places: pa.Array) -> tuple[Int64s, bool]:
    """The order of matches by end and place, and whether two have the same."""
    by = [("end", "ascending"), ("place", "ascending")]
    order = pc.sort_indices(pa.table({"end": end, "place": places}), sort_keys=by).to_numpy()
    held, ends = places.take(pa.array(order)), end[order]
    same = np.asarray(pc.equal(held.slice(1), held.slice(0, len(held) - 1)))
    return order, bool((same & (ends[1:] == ends[:-1])).any())


def _fixed(rows: NDArray[np.uint8]) -> pa.Array:
    """Each row's bytes."""
    return _joined_bytes(np.arange(len(rows) + 1), rows)


def _joined_bytes(offsets: Int64s, rows: NDArray[np.uint8]) -> pa.Array:
    """The bytes of some rows, list by list."""
    at = (offsets * rows.shape[1]).astype(np.int32)
    flat = np.ascontiguousarray(rows).reshape(-1)
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(at), pa.py_buffer(flat)]
    )


def _part(block: _Block, low: int, high: int) -> _Block:
    """The matches from `low` up to `high`."""
    if (low, high) == (0, len(block.start)):
        return block
    return _taken(block, np.arange(low, high))


def _together(blocks: Sequence[_Block]) -> _Block:
    """Matches one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    values: list[Codes | tuple[Int64s, Codes]] = []
    for parts in zip(*(block.values for block in blocks), strict=True):
        lists = [value for value in parts if isinstance(value, tuple)]
        if lists:
            codes = np.concatenate([value[1] for value in lists])
            values.append((_offsets([value[0] for value in lists]), codes))
        else:
            values.append(np.concatenate(parts))
    return _Block(
        np.concatenate([block.start for block in blocks]),
        np.concatenate([block.end for block in blocks]),
        tuple(values),
        _offsets([block.offsets for block in blocks]),
        np.concatenate([block.streams for block in blocks]),
        np.concatenate([block.numbers for block in blocks]),
    )


def _offsets(several: Sequence[Int64s]) -> Int64s:
    """The offsets of lists that lie one after the other."""
    sizes = np.concatenate([np.diff(offsets) for offsets in several])
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _taken(block: _Block, indices: Int64s) -> _Block:
    values: list[Codes | tuple[Int64s, Codes]] = []
    for value in block.values:
        if isinstance(value, tuple):
            offsets, (codes,) = _cut(value[0], [value[1]], indices)
            values.append((offsets, codes))
        else:
            values.append(value[indices])
    offsets, (streams, numbers) = _cut(block.offsets, [block.streams, block.numbers], indices)
    return _Block(
        block.start[indices], block.end[indices], tuple(values), offsets, streams, numbers
    )


def _cut(offsets: Int64s, flat: Sequence[Any], indices: Int64s) -> tuple[Int64s, tuple[Any, ...]]:
    """Some lists of several: by the offsets of all and what they hold."""
    block = MatchBlock(
        np.empty(len(offsets) - 1, np.int64),
        np.empty(len(offsets) - 1, np.int64),
        tuple(offsets for _ in flat),
        tuple(flat),
    )
    chosen = take(block, indices)
    return chosen.offsets[0], chosen.positions


def _first(block: _Block, number: int) -> _Block:
    return _taken(block, np.arange(number))


def _quad(
    subject: Any, predicate: Any, object_: Any, graph: Any, where: pa.Array | None = None
) -> pa.Array:
    parts = [subject, " ", predicate, " ", object_]
    parts += [" ", graph, " .\n"] if graph is not None else [" .\n"]
    line = pc.binary_join_element_wise(*parts, "", null_handling="emit_null")
    return line if where is None else pc.if_else(where, line, None)


def _sensible(nodes: Sequence[pa.Array]) -> pa.Array:
    """Whether three terms make a triple: no literal first, an IRI second, none unbound."""
    subject, predicate, object_ = nodes
    fits = pc.and_(pc.invert(pc.starts_with(subject, '"')), pc.starts_with(predicate, "<"))
    there: Iterable[pa.Array] = (subject.is_valid(), predicate.is_valid(), object_.is_valid())
    for mask in there:
        fits = pc.and_(pc.fill_null(fits, False), mask)
    return fits
