"""The matches of a SPAseQ query: lazy, like those of the other languages.

A match has its first and last time, the selected terms, and its events, each by stream and number.
Blocks of matches become columns in NumPy and Arrow; a Python object is made only for a match that
somebody asks for as one.

The order does not depend on how matches are found: by end, latest start first, then by events and
terms. The matches of one end are sorted together; if they hold more than a million events, each
piece of a million is sorted by itself.

Cost contract: `count`, `counts` and `sample` do not enumerate, unless two runs may be one match
(`cernis.rdf.solving.likeness`): then matches are listed and told apart. `head` lists all matches of
the ends that it shows, up to that million.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import CernisError
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.terms import show_term
from cernis.output import UsedFile
from cernis.rdf.reading.events import Int64s
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.shape import AnswerColumn, AnswerShape, TimeFormat
from cernis.rdf.solving.computed import compute_texts
from cernis.rdf.solving.row_store import RowStore
from cernis.rdf.solving.rows import StoredRows
from cernis.rdf.timeline import GraphEnds, GraphLanes, index_graphs, view_graphs
from cernis.results.formats.columns import count_column
from cernis.results.formats.jsonlines import text_of
from cernis.results.notebook import html_table, write_value
from cernis.results.result import Notes, Result
from cernis.results.sets.matchset import (
    MatchBlock,
    MatchSet,
    join,
    limit_blocks,
    part,
    pieces,
    take,
)
from cernis.results.sets.rooted import LISTED
from cernis.results.values import json_text, json_texts, python_values
from cernis.views.timeline import Timeline, draw_timeline
from cernis.views.timeline_index import TimelineIndex

_WEIGHT = 1 << 20
_EVENT_LISTS = 4
"""The lists of a block after those of its columns: what there is of each event."""
_time_of = itemgetter(0)
_PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
_USED = "<http://www.w3.org/ns/prov#used>"


def write_bound(value: str | Sequence[str]) -> str:
    """Return a term, or a list of them, as tables for people have it."""
    return show_term(value) if isinstance(value, str) else ", ".join(map(show_term, value))


@dataclass(frozen=True, slots=True)
class GraphMatch:
    """One match: its times, its terms in N-Triples form, its events as (stream, number)."""

    start_ts: Any
    end_ts: Any
    bindings: Mapping[str, str | list[str]]
    events: tuple[tuple[str, int], ...]
    background: tuple[str, ...] = ()
    """The version of a live background that each event was solved with."""
    _times: tuple[float, ...] = field(default=(), repr=False, compare=False)
    """The times of its events on the axis of a picture; none: there is no picture."""
    _unit: str = field(default="number", repr=False, compare=False)

    def _repr_html_(self) -> str:
        names = [f"?{name}" for name in self.bindings]
        terms = [write_bound(value) for value in self.bindings.values()]
        labels = [f"{stream} {number}" for stream, number in self.events]
        title = f"a match from {write_value(self.start_ts)} to {write_value(self.end_ts)}"
        rows = [[*terms, ", ".join(labels)]]
        picture = ""
        if self._times:
            view = view_graphs([stream for stream, _ in self.events], self._times, self._unit)
            titles = dict(enumerate(labels))
            picture = draw_timeline(view, 640, standalone=False, titles=titles)
        return html_table(title, [*names, "events"], rows, more=False, picture=picture)


class GraphMatches(Result[GraphMatch]):
    """The matches of a SPAseQ query, lazily: by end, latest start first.

    A block of matches has a list for each column of the answer, of one code (-1 for unbound)
    unless the column is listed; then lists of times, streams, numbers and versions of the events.
    Its starts and ends are times.
    """

    def __init__(
        self,
        found: MatchSet,
        store: RowStore,
        terms: Terms,
        shape: AnswerShape,
        clock: TimeFormat,
        distinct: bool,
        notes: Notes = (),
        used: Sequence[UsedFile] = (),
    ) -> None:
        super().__init__(notes, used=used)
        self._found, self._store, self._terms = found, store, terms
        self._shape, self._clock = shape, clock
        self._repeats = not distinct
        """Whether two runs may be one match."""
        self._distinct = distinct and not shape.is_distinct
        """Whether each run is an answer."""

    # ---------------------------------------------------------------- numbers

    @property
    def clock(self) -> TimeFormat:
        """How times are shown."""
        return self._clock

    @cached_property
    def _count(self) -> int:
        if self._distinct:
            return self._found.count()
        return sum(len(block.start) for block in self._answer_blocks())

    def count(self) -> int:
        """Return the number of matches, exactly."""
        return self._count

    def counts(self) -> pa.Table:
        """Return the number of matches at each time at which some end: `end_ts`, `count`.

        Counts have the types of `Matches.counts`.
        """
        ends, counts = self.count_times()
        return pa.table({"end_ts": self._clock.column(ends), "count": count_column(counts)})

    def count_times(self) -> tuple[Int64s, list[int]]:
        """Return the times at which matches end, in nanoseconds, and how many end there."""
        totals: dict[int, int] = {}
        for end, number in self._counted_ends():
            totals[end] = totals.get(end, 0) + number
        ends = np.array(sorted(totals), np.int64)
        return ends, [totals[end] for end in ends.tolist()]

    def _counted_ends(self) -> Iterator[tuple[int, int]]:
        """Yield times at which matches end with numbers of matches; a time may come twice."""
        if not self._distinct:
            for block in self._answer_blocks():
                times, numbers = np.unique(block.end, return_counts=True)
                yield from zip(times.tolist(), numbers.tolist(), strict=True)
            return
        rows, counts = self._found.counts()
        if counts:
            yield from zip(self._store.rows(rows).time.tolist(), counts, strict=True)

    def count_last_events(self) -> dict[tuple[int, int], int] | None:
        """Return how many matches end with each event, by the index of its stream and its number.

        A match that ends with several at one timestamp counts for each. None: two runs may be one
        match, so that matches must be listed to be counted.
        """
        if not self._distinct:
            return None
        found, counts = self._found.counts()
        if not counts:
            return {}
        totals: dict[int, int] = {}
        for events, count in zip(self._store.rows(found).event.tolist(), counts, strict=True):
            for event in {event for event in events if event >= 0}:
                totals[event] = totals.get(event, 0) + count
        streams, numbers, _ = self._store.events(np.array([*totals], np.int64))
        pairs = zip(streams.tolist(), numbers.tolist(), strict=True)
        return dict(zip(pairs, totals.values(), strict=True))

    # ---------------------------------------------------------------- objects

    def _items(self, limit: int | None) -> Iterator[GraphMatch]:
        for block in self._blocks(limit):
            yield from self._objects(block)

    def _draw(self, k: int, seed: int | None) -> Iterable[GraphMatch]:
        if not self.count():
            return []
        if self._distinct:
            return self._objects(self._sort_blocks([self._block(self._found.sample(k, seed))]))
        chosen = random.Random(seed).sample(range(self.count()), min(k, self.count()))
        matches = list(self._items(None))
        return [matches[i] for i in sorted(chosen)]

    def _page(self, offset: int, n: int) -> Iterable[GraphMatch]:
        if not self._distinct:
            return islice(self._items(offset + n), offset, offset + n)
        return chain.from_iterable(map(self._objects, self._page_blocks(offset, n)))

    def _page_blocks(self, offset: int, n: int) -> Iterator[MatchBlock]:
        """Return the matches of a page; those of a timestamp that has few are in order."""
        upto, stop = self._upto, min(offset + n, self.count())
        while offset < stop:
            at = bisect_right(upto, offset)
            before, high = upto[at - 1] if at else 0, min(stop, upto[at])
            if upto[at] - before <= LISTED:
                whole = self._sort_blocks(
                    [self._block(self._found.page(before, upto[at] - before))]
                )
                yield part(whole, offset - before, high - before)
            else:
                yield self._block(self._found.page(offset, high - offset))
            offset = high

    @cached_property
    def _upto(self) -> list[int]:
        """The number of matches up to each timestamp at which some end, and including it."""
        numbers = (sum(n for _, n in group) for _, group in groupby(self._counted_ends(), _time_of))
        return list(accumulate(numbers))

    def _objects(self, block: MatchBlock) -> Iterator[GraphMatch]:
        table = self._batch(block)
        start, end = (python_values(table.column(name)) for name in ("start_ts", "end_ts"))
        events = table.column("events").to_pylist()
        bound = [table.column(label).to_pylist() for label in self._shape.labels]
        names = [output.name for output in self._shape.outputs]
        used: list[Any] = [()] * len(start)
        times, offsets = self._clock.find_positions(block.positions[-4]), block.offsets[-4]
        if self._shape.versions is not None:
            used = [tuple(versions) for versions in table.column("background").to_pylist()]
        for i in range(len(start)):
            values = {n: v[i] for n, v in zip(names, bound, strict=True) if v[i] is not None}
            pairs = tuple((event["stream"], event["number"]) for event in events[i])
            at = tuple(times[offsets[i] : offsets[i + 1]].tolist())
            yield GraphMatch(start[i], end[i], values, pairs, used[i], at, self._clock.axis)

    def _table_of(self, items: Sequence[GraphMatch]) -> tuple[list[str], list[list[object]]]:
        names = [output.name for output in self._shape.outputs]
        rows: list[list[object]] = []
        for match in items:
            terms = [write_bound(match.bindings.get(name, "")) for name in names]
            events = ", ".join(f"{stream} {number}" for stream, number in match.events)
            rows.append([match.start_ts, match.end_ts, *terms, events])
        return ["start_ts", "end_ts", *(f"?{name}" for name in names), "events"], rows

    # --------------------------------------------------------------- pictures

    def timeline(
        self, start: float | None = None, stop: float | None = None, *, width: int = 600
    ) -> Timeline:
        """Return what a picture of an interval shows, in `width` bins; `svg()` draws it.

        A lane is a stream, with the events in which a graph pattern of the query has a solution.
        `start` and `stop` lie on its axis: milliseconds since 1970, or numbers.
        """
        return self.timeline_index().view(start, stop, width)

    def timeline_index(self) -> TimelineIndex:
        """Return the index that `timeline` asks, which is made once."""
        return self._index

    @cached_property
    def _solved(self) -> tuple[Int64s, Codes, Int64s]:
        """The times of the events in which a pattern has a solution, their streams, numbers."""
        held, ticks = self._store.list_events()
        if not len(held):
            return ticks, np.empty(0, np.int32), held
        streams, numbers, _ = self._store.events(held)
        return ticks, streams, numbers

    @cached_property
    def _index(self) -> TimelineIndex:
        ticks, streams, numbers = self._solved
        names = self._shape.streams
        pairs = zip(streams.tolist(), numbers.tolist(), strict=True)
        ranks = {(names[stream], number): rank for rank, (stream, number) in enumerate(pairs)}

        def hold(match: GraphMatch) -> dict[str, list[int]]:
            found: dict[str, list[int]] = {}
            for event in match.events:
                found.setdefault(event[0], []).append(ranks[event])
            return found

        lanes = GraphLanes(
            ticks, self._clock.find_positions(ticks), self._clock.axis, streams, names
        )
        ends = GraphEnds(*self.count_times(), lambda number: self.page(number, 1), hold)
        return index_graphs(lanes, ends)

    def plot(
        self, start: float | None = None, stop: float | None = None, *, width: int = 640
    ) -> Any:
        """Return the timeline as an Altair chart (extra `notebook`): marks or bins, not events."""
        from cernis.views.plot import plot_timeline

        return plot_timeline(self.timeline(start, stop, width=width // 4), width)

    def _picture(self) -> str:
        if not self.count():
            return ""
        view, (_, streams, numbers) = self.timeline(), self._solved
        held = {mark.position for one in view.matches for mark in one.marks}
        titles = {rank: f"{self._shape.streams[streams[rank]]} {numbers[rank]}" for rank in held}
        return draw_timeline(view, standalone=False, titles=titles)

    # ----------------------------------------------------------------- blocks

    def _blocks(self, limit: int | None) -> Iterator[MatchBlock]:
        """Return the matches, or the first `limit`, in order."""
        return limit_blocks(self._answer_blocks(in_order=True), limit)

    def _answer_blocks(self, *, in_order: bool = False) -> Iterator[MatchBlock]:
        """Return all answers by end; of equal ones, DISTINCT keeps the first in order."""
        if self._shape.is_distinct:
            return _keep_first(self._ordered(), self._answer_keys)
        return self._ordered() if in_order else self._found_blocks()

    def _answer_keys(self, block: MatchBlock) -> pa.Array:
        """Return bytes that are equal where matches end at one time and show the same.

        No term has a byte below 32 in it.
        """
        parts: list[Any] = [_number_bytes(block.end)]
        for _, offsets, terms in self._outputs(block):
            texts = pc.binary_join_element_wise(b"\1", terms.cast(pa.binary()), b"")
            texts = pc.fill_null(texts, b"\2")
            parts += [
                texts if offsets is None else pc.binary_join(_lists(offsets, texts), b""),
                b"\0",
            ]
        return pc.binary_join_element_wise(*parts, b"").cast(pa.large_binary())

    def _ordered(self) -> Iterator[MatchBlock]:
        """Return all matches in order: a block waits until its last end is complete."""
        waiting: list[MatchBlock] = []
        for block in self._found_blocks():
            last = int(np.searchsorted(block.end, block.end[-1]))
            if waiting and block.end[0] != waiting[0].end[0]:
                yield self._sort_blocks(waiting)
                waiting = []
            if last:
                yield self._sort_blocks([*waiting, part(block, 0, last)])
                waiting = []
            waiting.append(part(block, last, len(block.end)))
            if sum(len(each.positions[-1]) for each in waiting) > _WEIGHT:
                yield self._sort_blocks(waiting)
                waiting = []
        if waiting:
            yield self._sort_blocks(waiting)

    def _found_blocks(self) -> Iterator[MatchBlock]:
        """Return the matches by end, each once."""
        cut = (piece for whole in self._found.blocks(None) for piece in pieces(whole, _WEIGHT))
        blocks = (block for block in map(self._block, cut) if len(block.start))
        return _keep_first(blocks, _match_keys) if self._repeats else blocks

    def _sort_blocks(self, blocks: Sequence[MatchBlock]) -> MatchBlock:
        """Join blocks and sort their matches by end, start, events and terms."""
        block = join(blocks, len(self._shape.columns) + _EVENT_LISTS)
        order = np.lexsort((-block.start, block.end))
        start, end = block.start[order], block.end[order]
        if ((start[1:] == start[:-1]) & (end[1:] == end[:-1])).any():
            order, tied = _sort_by_keys(block.end, self._sort_keys(block, terms=False))
            if tied:
                order, _ = _sort_by_keys(block.end, self._sort_keys(block))
        return block if (np.diff(order) == 1).all() else take(block, order)

    def _sort_keys(self, block: MatchBlock, *, terms: bool = True) -> pa.Array:
        """Return bytes that sort as the matches of one end do: by start, events and terms.

        No term has a byte below 32 in it.
        """
        latest_first = ~(block.start.astype(np.uint64) ^ np.uint64(1 << 63))
        parts: list[Any] = [_number_bytes(latest_first.astype(">u8"))]
        *_, streams, numbers, _ = block.positions
        events = np.empty((len(numbers), 13), np.uint8)
        events[:, 0] = 1
        events[:, 1:5] = streams.astype(">u4").view(np.uint8).reshape(-1, 4)
        events[:, 5:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        parts += [_list_bytes(block.offsets[-1], events), b"\0"]
        for column, offsets, codes in self._columns(block) if terms else ():
            texts = pc.fill_null(self._terms.texts(codes), "").cast(pa.binary())
            if column.listed:
                ended = pc.binary_join_element_wise(texts, b"\1", b"")
                texts = pc.binary_join(_lists(offsets, ended), b"")
            parts += [texts, b"\0"]
        return pc.binary_join_element_wise(*parts, b"")

    def _block(self, found: MatchBlock) -> MatchBlock:
        """Look up the rows of matches, and sort the matches by end."""
        offsets = found.offsets[0]
        rows = self._store.rows(found.positions[0])
        first, last = offsets[:-1], offsets[1:] - 1
        columns = self._shape.columns
        lists: list[Any] = [self._values(column, rows, offsets) for column in columns]
        there = rows.event >= 0
        held = there.sum(axis=1)
        upto = np.concatenate(([0], np.cumsum(held)))[offsets]
        lists.append((upto, np.repeat(rows.time, held)))
        lists += [(upto, values) for values in self._store.events(rows.event[there])]
        ends = tuple(upto for upto, _ in lists)
        codes = tuple(values.astype(np.int64) for _, values in lists)
        block = MatchBlock(rows.time[first], rows.time[last], ends, codes)
        order = np.argsort(block.end, kind="stable")
        return block if (np.diff(order) == 1).all() else take(block, order)

    def _columns(self, block: MatchBlock) -> Iterator[tuple[AnswerColumn, Int64s, Int64s]]:
        """Return the columns of the answer, each with the offsets and codes of its lists."""
        return zip(self._shape.columns, block.offsets, block.positions, strict=False)

    def _outputs(self, block: MatchBlock) -> Iterator[tuple[str, Int64s | None, pa.Array]]:
        """Return the names of what is shown, offsets of lists, and terms; null where unbound."""
        columns = list(self._columns(block))
        for name, index, expression in self._shape.outputs:
            if expression is None:
                column, offsets, codes = columns[index]
                yield name, offsets if column.listed else None, self._terms.texts(codes)
                continue
            yield name, None, self._compute(expression, columns, len(block.start))

    def _compute(
        self,
        expression: g.Expression,
        columns: Sequence[tuple[AnswerColumn, Int64s, Int64s]],
        rows: int,
    ) -> pa.Array:
        """Return the value of an expression for each match."""
        hidden = columns[sum(output.expression is None for output in self._shape.outputs) :]
        singles = {column.name: codes for column, _, codes in hidden if not column.listed}
        lists = {column.name: (upto, codes) for column, upto, codes in hidden if column.listed}
        mentioned = {variable.name for variable in g.find_mentions(expression)}
        return compute_texts(
            expression,
            {name: codes for name, codes in singles.items() if name in mentioned},
            lists,
            self._terms.texts,
            rows,
        )

    def _values(
        self, column: AnswerColumn, rows: StoredRows, offsets: Int64s
    ) -> tuple[Int64s, Codes]:
        """Return the terms of a column as lists, by the offsets of matches among the rows."""
        codes = rows.codes[:, column.row_column]
        bound = codes >= 0
        if column.listed:
            upto = np.concatenate(([0], np.cumsum(bound)))
            return upto[offsets], codes[bound]
        if column.step is not None:  # the last round decides, also that it is unbound
            bound = self._shape.steps[rows.alternative] == column.step
        rows_bound = np.where(bound, np.arange(len(codes)), -1)
        single = np.arange(len(offsets))
        if len(offsets) == 1:
            return single, codes[:0]
        latest = np.maximum.reduceat(rows_bound, offsets[:-1])
        return single, np.where(latest >= 0, codes[latest], np.int32(-1))

    # ------------------------------------------------------------------ Arrow

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of `to_arrow`: times, terms of each variable, lists of events."""
        none, width = np.empty(0, np.int64), len(self._shape.columns) + _EVENT_LISTS
        empty = MatchBlock(none, none, (np.zeros(1, np.int64),) * width, (none,) * width)
        return self._batch(empty).schema

    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        return map(self._batch, self._blocks(limit))

    def _batch(self, block: MatchBlock) -> pa.RecordBatch:
        columns = {
            "start_ts": self._clock.column(block.start),
            "end_ts": self._clock.column(block.end),
        }
        for label, (_, offsets, texts) in zip(
            self._shape.labels, self._outputs(block), strict=True
        ):
            columns[label] = texts if offsets is None else _lists(offsets, texts)
        *_, streams, numbers, versions = map(pa.array, block.positions)
        names = pa.array(self._shape.streams, pa.string()).take(streams)
        events = pa.StructArray.from_arrays([names, numbers], ["stream", "number"])
        columns["events"] = _lists(block.offsets[-1], events)
        if self._shape.versions is not None:
            named = pa.array(self._shape.versions, pa.string()).take(versions)
            columns["background"] = _lists(block.offsets[-1], named)
        return pa.RecordBatch.from_pydict(columns)

    # ------------------------------------------------------------------- text

    def _lines(self, limit: int | None, *, whole: bool = False) -> Iterator[pa.StringArray]:
        return (self._json_lines(block, "\n") for block in self._blocks(limit))

    def placed_lines(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Return lines with their order among those of other parts of a stream.

        That order is by `end` in nanoseconds, then by `place`.
        """
        for block in self._blocks(limit):
            yield self._with_order(block, self._json_lines(block, ""))

    def placed_quads(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Return the graphs of CONSTRUCT with their order, as `placed_lines` does.

        A zero byte stands where the number of a graph goes.
        """
        for block in self._blocks(limit):
            numbers = pa.array(["\0"] * len(block.start), pa.string())
            yield self._with_order(block, self._quads(block, numbers))

    def placed_batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Return the columns of `to_arrow` after `@end` and `@place`, which order them."""
        for block in self._blocks(limit):
            batch = self._batch(block)
            columns = [pa.array(block.end), self._sort_keys(block), *batch.columns]
            yield pa.RecordBatch.from_arrays(columns, ["@end", "@place", *batch.schema.names])

    def _with_order(self, block: MatchBlock, lines: pa.Array) -> pa.RecordBatch:
        columns = [pa.array(block.end), self._sort_keys(block), lines]
        return pa.RecordBatch.from_arrays(columns, ["end", "place", "line"])

    def _json_lines(self, block: MatchBlock, newline: str) -> pa.StringArray:
        bindings = [
            pc.binary_join_element_wise(
                json_text(name) + ":",
                self._json(offsets, texts),
                "",
                null_handling="emit_null",
            )
            for name, offsets, texts in self._outputs(block)
        ]
        inside = pa.array([""] * len(block.start), pa.string())
        if bindings:
            # Arrow leaves out rows that have nothing to join
            some = [np.asarray(binding.is_valid()) for binding in bindings]
            bindings[0] = pc.if_else(pa.array(np.any(some, axis=0)), bindings[0], "")
            inside = pc.binary_join_element_wise(*bindings, ",", null_handling="skip")
        *_, streams, numbers, versions = map(pa.array, block.positions)
        names = pa.array(map(json_text, self._shape.streams), pa.string()).take(streams)
        events = pc.binary_join_element_wise("[", names, ",", numbers.cast(pa.string()), "]", "")
        told = pc.binary_join(_lists(block.offsets[-1], events), ",")
        if self._shape.versions is not None:
            named = pa.array(map(json_text, self._shape.versions), pa.string()).take(versions)
            used = pc.binary_join(_lists(block.offsets[-1], named), ",")
            told = pc.binary_join_element_wise(told, '],"background":[', used, "")
        return pc.binary_join_element_wise(
            '{"start_ts":', self._clock.texts(block.start),
            ',"end_ts":', self._clock.texts(block.end),
            ',"bindings":{', inside, '},"events":[', told,
            "]}" + newline, "",
        )  # fmt: skip

    def _json(self, offsets: Int64s | None, terms: pa.Array) -> pa.Array:
        """Return terms, or lists of them, as JSON; null where there is none."""
        texts = json_texts(terms)
        if offsets is None:
            return pc.if_else(terms.is_valid(), texts, None)
        lists = pc.binary_join(_lists(offsets, texts), ",")
        return pc.binary_join_element_wise("[", lists, "]", "")

    def write_nquads(
        self, path: str | Path | BinaryIO, *, limit: int | None = None, first: int = 0
    ) -> int:
        """Write the graph that CONSTRUCT makes of each match, and return the number of matches.

        Matches are numbered from `first` on, in the names of their graphs; each graph has the time
        of its match's end. A match that leaves every triple unbound makes no graph, which would be
        an event without content.
        """
        if self._shape.construct is None:
            raise CernisError("only a CONSTRUCT query has graphs to write; this one SELECTs")
        return self._write_texts(path, self._numbered_quads(self._checked_limit(limit), first))

    def open_nquads(self, *, first: int = 0) -> QuadFile:
        """Return the graphs of CONSTRUCT as a file of N-Quads, made while it is read.

        Matches are numbered from `first` on, as in `write_nquads`.
        """
        if self._shape.construct is None:
            raise CernisError("only a CONSTRUCT query has graphs to read; this one SELECTs")
        return QuadFile(self._numbered_quads(None, first))

    def _numbered_quads(self, limit: int | None, first: int) -> Iterator[pa.StringArray]:
        for block in self._blocks(limit):
            numbers = pa.array(np.arange(first, first + len(block.start)))
            yield self._quads(block, numbers.cast(pa.string()))
            first += len(block.start)

    def _quads(self, block: MatchBlock, numbers: pa.StringArray) -> pa.StringArray:
        graph = pc.binary_join_element_wise("<urn:cernis:match:", numbers, ">", "")
        lines = [_quad(graph, _PROV, self._clock.terms(block.end), None)]
        values = {column.name: codes for column, _, codes in self._columns(block)}
        for template in self._shape.construct or ():
            triple, forms = g.split_template(template)
            nodes = [self._node(node, values, numbers, forms) for node in triple.nodes()]
            lines.append(_quad(nodes[0], nodes[1], nodes[2], graph, _are_triples(nodes)))
        some = np.zeros(len(block.start), np.bool_)
        for line in lines[1:]:
            some |= np.asarray(line.is_valid())
        if self._shape.versions is not None:
            lines.append(self._used_versions(block, graph))
        graphs = pc.binary_join_element_wise(*lines, "", null_handling="skip")
        return pc.if_else(pa.array(some), graphs, "")

    def _used_versions(self, block: MatchBlock, graph: pa.Array) -> pa.Array:
        """Return lines that say which versions of the background a match was made with."""
        versions, offsets = block.positions[-1], block.offsets[-1]
        match = np.repeat(np.arange(len(block.start)), np.diff(offsets))
        again = np.zeros(len(versions), np.bool_)
        again[1:] = (match[1:] == match[:-1]) & (versions[1:] == versions[:-1])
        named = pa.array(self._shape.versions, pa.string()).take(pa.array(versions))
        term = pc.binary_join_element_wise("<urn:cernis:background:", named, ">", "")
        lines = _quad(graph.take(pa.array(match)), _USED, term, None)
        return pc.binary_join(_lists(offsets, pc.if_else(pa.array(again), "", lines)), "")

    def _node(
        self,
        node: g.Node,
        values: Mapping[str, Any],
        numbers: pa.Array,
        forms: Mapping[str, g.Triple],
    ) -> pa.Array:
        """Return the terms of a node of CONSTRUCT; null where it has none."""
        if isinstance(node, g.Term):
            return pa.array([node.text] * len(numbers), pa.string())
        if node.name in forms:
            inside = [self._node(one, values, numbers, forms) for one in forms[node.name].nodes()]
            term = pc.binary_join_element_wise("<<(", *inside, ")>>", " ")
            return pc.if_else(_are_triples(inside), term, None)
        if node.hidden:
            name = "".join(c for c in node.name if c.isalnum())
            return pc.binary_join_element_wise("_:m", numbers, f"x{name}", "")
        codes = values[node.name]
        return pc.if_else(pa.array(codes >= 0), self._terms.texts(codes), None)


class QuadFile:
    """Texts as a binary file to read."""

    def __init__(self, texts: Iterator[pa.StringArray]) -> None:
        self._texts, self._left = texts, b""

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes: so many, or all; fewer at the end."""
        parts, room = [self._left], len(self._left)
        while size < 0 or room < size:
            texts = next(self._texts, None)
            if texts is None:
                break
            parts.append(bytes(text_of(texts)))
            room += len(parts[-1])
        whole = b"".join(parts)
        cut = len(whole) if size < 0 else size
        self._left = whole[cut:]
        return whole[:cut]


def _keep_first(
    blocks: Iterable[MatchBlock], name: Callable[[MatchBlock], pa.Array]
) -> Iterator[MatchBlock]:
    """Return the first of the matches of each end that have one name; ends do not come back."""
    seen = pa.array([], pa.large_binary())
    for block in blocks:
        keys = name(block)
        _, first = np.unique(keys.dictionary_encode().indices, return_index=True)
        fresh = np.zeros(len(keys), np.bool_)
        fresh[first] = True
        fresh &= ~np.asarray(pc.is_in(keys, value_set=seen))
        last = keys.filter(pa.array((block.end == block.end[-1]) & fresh))
        seen = pa.concat_arrays([seen, last]) if block.end[0] == block.end[-1] else last
        if fresh.any():
            yield take(block, np.flatnonzero(fresh))


def _match_keys(block: MatchBlock) -> pa.Array:
    """Return bytes that are equal where matches end at one time and are the same."""
    parts = [_number_bytes(block.end)]
    for offsets, values in zip(block.offsets, block.positions, strict=True):
        own = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)
        parts += [_number_bytes(np.diff(offsets)), _list_bytes(offsets, own)]
    return pc.binary_join_element_wise(*parts, b"").cast(pa.large_binary())


def _sort_by_keys(end: Int64s, keys: pa.Array) -> tuple[Int64s, bool]:
    """Return the order of matches by end and sort key, and whether two have the same."""
    by = [("end", "ascending"), ("key", "ascending")]
    order = pc.sort_indices(pa.table({"end": end, "key": keys}), sort_keys=by).to_numpy()
    in_order, ends = keys.take(pa.array(order)), end[order]
    same = np.asarray(pc.equal(in_order.slice(1), in_order.slice(0, len(in_order) - 1)))
    return order, bool((same & (ends[1:] == ends[:-1])).any())


def _number_bytes(numbers: NDArray[Any]) -> pa.Array:
    """Return the eight bytes of each number."""
    rows = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8)
    return _list_bytes(np.arange(len(rows) + 1), rows)


def _list_bytes(offsets: Int64s, rows: NDArray[np.uint8]) -> pa.Array:
    """Return the bytes of each list of rows."""
    at = (offsets * rows.shape[1]).astype(np.int32)
    flat = np.ascontiguousarray(rows).reshape(-1)
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(at), pa.py_buffer(flat)]
    )


def _lists(offsets: Int64s, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _quad(
    subject: Any, predicate: Any, object_: Any, graph: Any, where: pa.Array | None = None
) -> pa.Array:
    parts = [subject, " ", predicate, " ", object_]
    parts += [" ", graph, " .\n"] if graph is not None else [" .\n"]
    line = pc.binary_join_element_wise(*parts, "", null_handling="emit_null")
    return line if where is None else pc.if_else(where, line, None)


def _are_triples(nodes: Sequence[pa.Array]) -> pa.Array:
    """Return whether three terms make a triple: an IRI or blank node, an IRI, and any term."""
    subject, predicate, object_ = nodes
    fits = pc.and_(pc.invert(pc.starts_with(subject, '"')), pc.starts_with(predicate, "<"))
    for node in (subject, predicate):
        fits = pc.and_(fits, pc.invert(pc.starts_with(node, "<<(")))
    there: Iterable[pa.Array] = (subject.is_valid(), predicate.is_valid(), object_.is_valid())
    for mask in there:
        fits = pc.and_(pc.fill_null(fits, False), mask)
    return fits
