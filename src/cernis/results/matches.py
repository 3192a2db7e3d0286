"""`Matches`: the result of a query over events.

It holds the set of matches, not the matches: they are made when they are asked for, block by block.

Cost contract: `count`, `counts`, `sample` and `page` cost what the match set promises: linear in
the compact set, whatever the number of matches. They never enumerate. `batches`, `to_arrow` and
`write_…` are linear in their output, in Arrow; iteration makes a Python object for each match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.store import EventStore
from cernis.output import UsedFile
from cernis.pattern.query import Pattern, Strategy
from cernis.results.formats.columns import (
    SUPPRESSED,
    MatchFields,
    count_batch,
    partition_columns,
    read_suppressed,
    record_batch,
)
from cernis.results.formats.flat import flat_batch
from cernis.results.formats.jsonlines import (
    EndedLines,
    TextEvents,
    count_lines,
    match_lines,
    sort_rows,
)
from cernis.results.index_timeline import LanesBy, index_timeline, title_marks
from cernis.results.match import Match
from cernis.results.notebook import match_table
from cernis.results.result import Notes, Result
from cernis.results.sets.counted import read_counts
from cernis.results.sets.matchset import (
    ListedMatches,
    MatchBlock,
    MatchSet,
    Positions,
    join,
    limit_blocks,
    pieces,
    take,
)
from cernis.results.terms.deadline import DEADLINE, DeadlineColumn
from cernis.results.values import python_values
from cernis.views.timeline import Timeline, draw_timeline
from cernis.views.timeline_index import TimelineIndex

_PIECE = 1 << 18
_OBJECTS = 1 << 14  # Python objects are made for so many positions at once: they stay in cache


class MatchValues(NamedTuple):
    """Some matches as events of another stream."""

    ends: Positions
    positions: Positions
    """The positions of the events that they stand after: ends, or deadlines that count events."""
    times: pa.Array
    """The times of their ends, or their deadlines."""
    columns: dict[str, pa.Array]


class Matches(Result[Match]):
    """The matches of a run, lazily: by end position, latest start first."""

    def __init__(
        self,
        found: MatchSet,
        events: EventStore,
        pattern: Pattern,
        *,
        notes: Notes = (),
        partial: bool = False,
        used: Sequence[UsedFile] = (),
        deadline: DeadlineColumn | None = None,
        counting: bool = False,
    ) -> None:
        super().__init__(notes, partial, used)
        self.pattern = pattern
        self._found = found
        self._events = events
        self._deadline = deadline
        self._counting = counting
        self._indexes: dict[LanesBy, TimelineIndex] = {}

    @cached_property
    def _fields(self) -> MatchFields:
        fields = MatchFields.of(self.pattern, self._found.variables, self._deadline)
        return replace(fields, counting=True, items=()) if self._counting else fields

    @property
    def counting(self) -> bool:
        """Whether the rows are counts, not matches: `SELECT COUNT(*)` alone, `matches="count"`."""
        return self._fields.counting

    @property
    def fields(self) -> MatchFields:
        """The columns of a match, for views."""
        return self._fields

    @property
    def match_set(self) -> MatchSet:
        """The matches as arrays of positions, for views."""
        return self._found

    @property
    def store(self) -> EventStore:
        """The events by position, for views."""
        return self._events

    @cached_property
    def _count(self) -> int:
        return self._found.count()

    def count(self) -> int:
        """Return the number of matches, exactly, without enumerating them.

        A stream that is only to be counted costs less in a session with `matches="count"`.
        """
        return self._count

    def __len__(self) -> int:
        return len(read_counts(self._found)[0]) if self.counting else self.count()

    def counts(self) -> pa.Table:
        """Return the number of matches at each end position that has any.

        Columns `end`, `end_ts`, those of the partition, `count`: int64 if all fit, then
        decimal128(38, 0), then decimal256(76, 0), then strings of digits.
        """
        ends, counts = read_counts(self._found)
        return pa.Table.from_batches([count_batch(ends, counts, self._fields, self._events)])

    # ------------------------------------------------------------ objects

    def _items(self, limit: int | None) -> Iterator[Match]:
        if self.counting:
            yield from self._count_objects(limit)
            return
        for block in self._pieces(limit):
            for piece in pieces(block, _OBJECTS, lists=bool(self._fields.shown)):
                yield from self._objects(piece)

    def make_matches(self, block: MatchBlock) -> list[Match]:
        """Return some matches of the set as objects."""
        return list(self._objects(block))

    def _draw(self, k: int, seed: int | None) -> Iterator[Match]:
        return self._objects(self._found.sample(k, seed))

    def _page(self, offset: int, n: int) -> Iterator[Match]:
        if self.counting:
            return self._count_objects(n, offset)
        return self._objects(self._found.page(offset, n))

    def _objects(self, block: MatchBlock) -> Iterator[Match]:
        fields, events = self._fields, self._events
        shown = [fields.variables.index(name) for name in fields.shown]
        positions = [block.positions[v] for v in shown]
        offsets = [block.offsets[v] for v in shown]
        rows = [sort_rows(events.rows(p), o) for p, o in zip(positions, offsets, strict=True)]
        marks = rows_held = _lists(fields.shown, positions, offsets, len(block.start))
        if not all(map(np.array_equal, rows, positions)):
            rows_held = _lists(fields.shown, rows, offsets, len(block.start))
        values = fields.values(block, events)
        columns = zip(
            events.rows(block.start).tolist(),
            events.rows(block.end).tolist(),
            python_values(events.times(block.start)),
            python_values(events.times(block.end)),
            rows_held,
            self._partitions(block.end),
            _records([*values], [*values.values()], len(block.start)),
            zip(block.start.tolist(), block.end.tolist(), strict=True),
            marks,
            strict=True,
        )
        make = partial(Match, _events=events, _attributes=fields.attributes)
        if fields.deadline is None and not fields.suppresses:
            return starmap(make, columns)  # which are in the order of a match's fields
        further: dict[str, Iterable[Any]] = {}
        if fields.deadline is not None:
            further[DEADLINE] = python_values(fields.deadline.read(block.end, events))
        if fields.suppresses:
            further[SUPPRESSED] = python_values(read_suppressed(block))
        return (
            make(*row, **dict(zip(further, more, strict=True)))
            for row, *more in zip(columns, *further.values(), strict=True)
        )

    def _count_objects(self, limit: int | None, offset: int = 0) -> Iterator[Match]:
        ends, counts = self._found.counts()
        low = min(offset, len(ends))
        ends, counts = ends[low:][:limit], counts[low:][:limit]
        columns = zip(
            ends.tolist(),
            counts,
            self._events.rows(ends).tolist(),
            python_values(self._events.times(ends)),
            self._partitions(ends),
            strict=True,
        )
        for position, count, row, ts, key in columns:
            counted, at = {"COUNT(*)": count}, (position, position)
            yield Match(row, row, ts, ts, {}, key, counted, at, {}, self._events, {})

    def _partitions(self, ends: Positions) -> Iterable[dict[str, Any]]:
        columns = partition_columns(ends, self._fields, self._events)
        return _records(self._fields.keys, columns, len(ends))

    # ------------------------------------------------------------ pictures

    def timeline(
        self,
        start: float | None = None,
        stop: float | None = None,
        *,
        width: int = 600,
        lanes: LanesBy = "type",
    ) -> Timeline:
        """Return what a picture of an interval shows, in `width` bins; `svg()` draws it.

        `start` and `stop` are values on its axis: milliseconds since 1970, the numbers of a column
        of numbers, or rows. Lanes are types of events, or variables. The first call indexes the
        events and counts the matches; then a call costs O(lanes · width · log events).
        """
        return self.timeline_index(lanes).view(start, stop, width)

    def timeline_index(self, lanes: LanesBy = "type") -> TimelineIndex:
        """Return the index that `timeline` asks, which is made once."""
        if lanes not in self._indexes:
            self._indexes[lanes] = index_timeline(
                self._events, self.pattern.formula, self._found, lanes, show=not self.counting
            )
        return self._indexes[lanes]

    def plot(
        self,
        start: float | None = None,
        stop: float | None = None,
        *,
        width: int = 640,
        lanes: LanesBy = "type",
    ) -> Any:
        """Return the timeline as an Altair chart (extra `notebook`): marks or bins, not events."""
        from cernis.views.plot import plot_timeline

        return plot_timeline(self.timeline(start, stop, width=width // 4, lanes=lanes), width)

    def _picture(self) -> str:
        if not self._events.span or not self.count():
            return ""
        view = self.timeline()
        return draw_timeline(view, standalone=False, titles=title_marks(self._events, view))

    # ----------------------------------------------------- Arrow and text

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of `to_arrow`: interval, partition, lists of events, values."""
        return self._schema(ids=False)

    def _schema(self, *, ids: bool) -> pa.Schema:
        if self.counting:
            return self.counts().schema
        empty = join((), len(self._fields.variables))
        return record_batch(empty, self._fields, self._events, ids=ids).schema

    def batches(self, limit: int | None = None, *, ids: bool = False) -> Iterator[pa.RecordBatch]:
        """Return the matches, or the first `limit`, as Arrow record batches.

        With `ids`, a last column has a name for each match that depends on the rows of its
        events alone.
        """
        return self._batches(self._checked_limit(limit), ids=ids)

    def _batches(self, limit: int | None, *, ids: bool = False) -> Iterator[pa.RecordBatch]:
        if self.counting:
            yield from self.counts().slice(0, limit).to_batches()
            return
        schema: pa.Schema | None = None  # most batches of a stream have no matches
        for block in self._pieces(limit):
            schema = schema or (self._schema(ids=True) if ids else self.schema)
            batch = record_batch(block, self._fields, self._events, ids=ids)
            yield batch if batch.schema == schema else batch.cast(schema)

    def _pieces(self, limit: int | None, *, lists: bool = True) -> Iterator[MatchBlock]:
        lists = lists and bool(self._fields.shown)
        whole = self._found.blocks(limit)
        cut = (piece for block in whole for piece in pieces(block, _PIECE, lists=lists))
        return limit_blocks(cut, limit)

    def list_values(self) -> Iterator[MatchValues]:
        """Yield what is needed to make events of the matches, block by block."""
        deadline = self._fields.deadline
        for block in self._pieces(None, lists=False):
            events = self._events
            ends = block.end
            times, positions = events.times(ends), ends
            if deadline is not None:
                times = deadline.read(ends, events)
                positions = deadline.find_positions(ends)
            yield MatchValues(ends, positions, times, self._fields.values(block, events))

    def join(self, others: Sequence[Matches]) -> Matches:
        """Return these matches and those of later batches of the same session as one result.

        Those of LONGEST, which may end before others that were certain earlier, come by their ends.
        """
        parts = [self, *others]
        last = parts[-1]
        found = ListedMatches(
            self._found.variables, [block for part in parts for block in part._found.blocks()]
        )
        if self.pattern.strategy is Strategy.LONGEST and not self.pattern.without:
            ordered = take(found.block, np.argsort(found.block.end, kind="stable"))
            found = ListedMatches(found.variables, [ordered])
        stores = (part.store for part in parts)
        events = reduce(lambda earlier, later: later.add_earlier(earlier), stores)
        deadline, *later = (part._fields.deadline for part in parts)
        if deadline is not None:
            deadline = deadline.join([each for each in later if each is not None])
        return Matches(
            found,
            events,
            self.pattern,
            notes=last.notes,
            partial=last.partial,
            used=last._used,
            deadline=deadline,
        )

    @property
    def orders_by_deadline(self) -> bool:
        """Whether matches of different partitions are in the order of their deadlines."""
        return self.pattern.orders_by_deadline and not self.counting

    def lines(
        self, text: TextEvents = "named", *, deadlines: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Return the lines of `write_jsonl` as a column, beside the row and time of their ends.

        With `deadlines`, also beside the time of their deadlines (`WITHOUT … FOR`).
        """
        for found in self._lines_by_end(None, "", text=text):
            columns = {"end": pa.array(found.rows, pa.int64()), "end_ts": found.times}
            if deadlines and self._fields.deadline is not None:
                columns[DEADLINE] = self._fields.deadline.read(found.ends, self._events)
            columns["line"] = found.lines
            yield pa.RecordBatch.from_pydict(columns)

    def _lines(self, limit: int | None, *, whole: bool = False) -> Iterator[pa.StringArray]:
        text: TextEvents = "whole" if whole else "named"
        return (found.lines for found in self._lines_by_end(limit, "\n", text=text))

    def flat_batches(
        self, limit: int | None = None, *, events: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Return the matches as batches that a CSV file can hold; the first one is empty.

        A variable is a JSON list of its rows, with `events` of its events. An attribute that SELECT
        names of it is a JSON list of values.
        """
        if self.counting:
            yield from super().flat_batches(limit)
            return
        nothing = join((), len(self._fields.variables))
        yield flat_batch(nothing, self._fields, self._events, whole=events)
        for block in self._pieces(limit):
            yield flat_batch(block, self._fields, self._events, whole=events)

    def _lines_by_end(
        self, limit: int | None, newline: str, *, text: TextEvents = "named"
    ) -> Iterator[EndedLines]:
        fields, events = self._fields, self._events
        if self.counting:
            ends, counts = read_counts(self._found)
            ends, counts = ends[:limit], counts[:limit]
            yield count_lines(ends, counts, fields, events, newline)
            return
        for block in self._pieces(limit):
            yield match_lines(block, fields, events, newline, text=text)

    def _table_of(self, items: Sequence[Match]) -> tuple[list[str], list[list[object]]]:
        return match_table(items)


def _lists(
    names: Sequence[str], columns: Sequence[Positions], offsets: Sequence[Positions], length: int
) -> Iterable[dict[str, list[int]]]:
    """Return {variable: its part of the column} for each match."""
    if not names:
        return [{}] * length
    split = [
        [column[a:b] for a, b in pairwise(offset.tolist())]
        for column, offset in zip((c.tolist() for c in columns), offsets, strict=True)
    ]
    return [dict(zip(names, lists, strict=True)) for lists in zip(*split, strict=True)]


def _records(
    names: Sequence[str], columns: Sequence[pa.Array], length: int
) -> Iterable[dict[str, Any]]:
    if not names:
        return [{}] * length
    values = zip(*(python_values(column) for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in values]
