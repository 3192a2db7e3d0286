"""`EventStore`: keeps events for the output and gathers them by position.

It holds the batches as they came: slices of the input, no copies, and consecutive row
numbers as one integer. So it costs what the input's own tables cost.
Gathering is one `take` per batch and column touched. Dictionaries come out as plain
values, an attribute that a stream does not have is null there, and types that differ
between streams are promoted.

Single events can outlast their batches, such as those of the best matches so far: they are
copied into *thinned* batches. Small batches of a stream that is read as it comes are joined: a
table is not kept for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.compiled import borrowing as kernel
from cernis.compiled import read_only
from cernis.compiled.tiers import arrays_first
from cernis.errors import DataError, RowError
from cernis.events.batch import (
    TIMES,
    Bools,
    EventBatch,
    Int32s,
    Int64s,
    StoredEvents,
    is_computed,
    take_parts,
)
from cernis.events.column_types import (
    cast_to,
    common_type,
    is_number,
    join_chunks,
    make_contiguous,
    value_type,
)
from cernis.events.evaluation.attributes import attribute, take_sources
from cernis.events.kinds import NULL, Int8s, kind_of, kinds_in
from cernis.events.times import tick_of, to_ticks
from cernis.pattern.predicate import TIME, TIME_NS

_NO_POSITIONS: Int64s = np.empty(0, np.int64)
_SMALL, _SEVERAL = 1 << 10, 64
"""Batches of fewer events are small; so many of them, one after the other, become one."""
_FEW = 8
_LARGEST_OFFSET = 2**31 - 1


class StoredBatch(NamedTuple):
    """A batch of a store: the stored events at some indices, or all of these."""

    base: int
    size: int
    events: StoredEvents
    at: Int32s | None
    positions: Int64s | None = None
    """Of a thinned batch: the positions of its events, ascending, where others are missing."""

    @property
    def end(self) -> int:
        """The position after its last event."""
        return self.base + self.size

    @property
    def nbytes(self) -> int:
        """The memory of its events, shared with other stores or not."""
        if self.at is None:
            return self.events.nbytes
        return self.events.nbytes * len(self.at) // self.events.size + self.at.nbytes

    @property
    def shift(self) -> int | None:
        """How far the rows of its events are from their positions; None: it differs."""
        rows = self.events.rows
        if not isinstance(rows, int) or self.at is not None or self.positions is not None:
            return None
        return rows - self.base

    def cut(self, first: int, end: int) -> StoredBatch:
        """Return the batch without events before and after some positions, where that is cheap."""
        first, end = max(first, self.base), min(end, self.end)
        if self.at is None or self.positions is not None or (first, end) == (self.base, self.end):
            return self
        at = self.at[first - self.base : end - self.base].copy()
        return StoredBatch(first, end - first, self.events, at)

    def thin(self, positions: Int64s) -> StoredBatch:
        """Return a copy of the events at these positions, which ascend."""
        events = StoredEvents.of(copy_stored(self.events, self.find_indices(positions)))
        base, size = int(positions[0]), int(positions[-1] - positions[0]) + 1
        return StoredBatch(base, size, events, None, positions)

    def find_indices(self, positions: Int64s) -> Int64s:
        """Return the indices of its events at some positions, among the stored ones."""
        local = positions - self.base
        if self.positions is not None:
            local = np.searchsorted(self.positions, positions)
            if (self.positions[np.minimum(local, len(self.positions) - 1)] != positions).any():
                raise LookupError("an event that was asked for is no longer kept")
        return local if self.at is None else self.at[local].astype(np.int64)


class EventStore:
    """The events of the batches appended and not yet forgotten.

    >>> store = EventStore()
    >>> store.append(EventBatch.of(pa.table({"type": ["A", "B"], "price": [3, 4]})))
    >>> store.column(np.array([1, 0, 1]), "price").to_pylist()
    [4, 3, 4]
    """

    def __init__(self, time_unit: str = "ms") -> None:
        self.time_unit = time_unit
        """The unit of integer times."""
        self.batches: list[StoredBatch] = []
        self._bases: list[int] = []
        self._types: dict[str, pa.DataType] = {}
        self._schemas: set[pa.Schema] = set()
        self._latest: pa.Schema | None = None
        self._kinds: dict[str, tuple[int, ...]] = {}
        self._type_column = "type"
        self._time_column: str | None = None
        self._small = 0
        """How many small batches of its own, alike in their columns, are the last ones."""

    @property
    def nbytes(self) -> int:
        """The memory of the stored events, shared with other stores or not."""
        return sum(stored.nbytes for stored in self.batches)

    def append(self, batch: EventBatch) -> None:
        """Keep the events of a batch; an empty batch gives its columns alone."""
        if self.batches:
            before = self.batches[-1]
            if batch.base < before.end or (batch.base > before.end and before.positions is None):
                raise ValueError("a batch must start where the one before it ended")
        streams = {name for name, _ in batch.parts}
        for name, table in batch.parts if batch.chosen is None else batch.chosen.stored.parts:
            if name in streams:
                self._learn(table.schema)
        if len(batch) or not self.batches:  # nothing, between events, has no column of times
            self._type_column, self._time_column = batch.type_column, batch.time_column
        if not len(batch):
            return
        events, at = batch.chosen or (StoredEvents.of(batch), None)
        stored = StoredBatch(batch.base, len(batch), events, at)
        is_small = batch.chosen is None and self._is_small(stored)
        self._small = self._small + 1 if is_small else 0
        self.batches.append(stored)
        self._bases.append(batch.base)
        if self._small >= _SEVERAL:
            joined = _join_batches(self.batches[-_SEVERAL:])
            self.use([*self.batches[:-_SEVERAL], joined])
            self._small = int(joined.size < _SMALL)

    def _is_small(self, stored: StoredBatch) -> bool:
        """Return whether a batch is small and may be joined with those before it."""
        events, before = stored.events, self.batches[-1].events if self.batches else None
        if stored.size >= _SMALL or len(events.parts) > 1:
            return False
        if before is None or not self._small:
            return True
        (name, table), (last, known) = events.parts[0], before.parts[0]
        return name == last and table.schema.equals(known.schema)

    def expect(self, schema: pa.Schema, type_column: str, time_column: str | None) -> None:
        """Set the columns, for a stream without events."""
        self._learn(schema)
        self._type_column, self._time_column = type_column, time_column

    def forget_before(self, position: int, kept: Int64s = _NO_POSITIONS) -> None:
        """Drop the events before a position, but for those at `kept`, which ascend."""
        last = bisect_right(self.batches, position, key=lambda stored: stored.end)
        batches = list[StoredBatch]()
        for stored in self.batches[: last + 1]:
            rest = None if stored.end <= position else stored.cut(position, stored.end)
            if rest is not stored:
                low, high = np.searchsorted(kept, [stored.base, min(stored.end, position)])
                batches += [stored.thin(kept[low:high])] if low < high else []
            batches += [] if rest is None else [rest]
        self.use(batches + self.batches[last + 1 :])

    def use(self, batches: list[StoredBatch]) -> None:
        """Keep these batches, in new lists: a copy of the store for matches keeps the old ones."""
        self.batches, self._bases = batches, [stored.base for stored in batches]
        self._small = 0

    def add_earlier(self, earlier: EventStore) -> EventStore:
        """Return a copy with the events that only an earlier copy of this store still has."""
        joined = copy(self)
        older = earlier.batches
        if self._bases:
            known = self._bases[0]
            older = [stored.cut(0, known) for stored in older if stored.base < known]
        joined.use(older + self.batches)
        return joined

    def stored_batches(self) -> Iterator[EventBatch]:
        """Return the whole batches in order, without times: these are in the tables."""
        return (self._write(stored) for stored in self.batches if stored.positions is None)

    def thinned_batches(self) -> Iterator[tuple[Int64s, EventBatch]]:
        """Return the events that have outlasted their batches, with their positions."""
        for stored in self.batches:
            if stored.positions is not None:
                yield stored.positions, self._write(stored)

    def append_thinned(self, positions: Int64s, batch: EventBatch) -> None:
        """Keep events at these positions, which ascend, before all whole batches."""
        self.append(replace(batch, base=int(positions[0])))
        size = int(positions[-1] - positions[0]) + 1
        self.batches[-1] = self.batches[-1]._replace(size=size, positions=positions)
        self._small = 0

    def _write(self, stored: StoredBatch) -> EventBatch:
        events, every = stored.events, np.arange(stored.events.size, dtype=np.int64)
        whole = EventBatch(
            stored.base,
            events.find_rows(every),
            None,
            events.parts,
            events.which,
            events.index,
            self._type_column,
            self._time_column,
        )
        return whole if stored.at is None else take_parts(whole, stored.at.astype(np.int64))

    def stream_at(self, position: int) -> str:
        """Return the stream of an event."""
        [(stored, own)] = self._split(np.array([position], np.int64))
        (index,), events = stored.find_indices(own), stored.events
        return events.parts[0 if events.which is None else int(events.which[index])][0]

    def locate(self, error: RowError, position: int) -> DataError:
        """Return an error of a value with the stream and the row of its event."""
        (row,) = self.rows(np.array([position], np.int64))
        return error.locate(self.stream_at(position), int(row))

    @property
    def span(self) -> range:
        """The positions of the events in whole batches."""
        whole = [stored for stored in self.batches if stored.positions is None]
        return range(whole[0].base, whole[-1].end) if whole else range(0)

    @property
    def schemas(self) -> frozenset[pa.Schema]:
        """The schemas of all tables that came or are expected; they decide the types of values."""
        return frozenset(self._schemas)

    @property
    def schema_count(self) -> int:
        """How many such schemas there are: none is ever dropped."""
        return len(self._schemas)

    @property
    def time_column(self) -> str | None:
        """The column in which events have their times; None: they have none."""
        return self._time_column

    @property
    def type_column(self) -> str:
        """The column in which events have their types."""
        return self._type_column

    def rows(self, positions: Int64s) -> Int64s:
        """Return row numbers of the input."""
        if (shift := self._find_shift(positions)) is not None:
            return positions + shift
        distinct, back = _distinct(positions)
        found = [
            stored.events.find_rows(stored.find_indices(own))
            for stored, own in self._split(distinct)
        ]
        rows = np.concatenate([np.empty(0, np.int64), *found])
        return rows if back is None else rows[back]

    def _find_shift(self, positions: Int64s) -> int | None:
        """Return how far the rows of some events are from their positions; None: it differs."""
        if not len(positions):
            return None
        ends = int(positions.min()), int(positions.max())
        self._check_stored(*ends)
        first, last = (bisect_right(self._bases, end) - 1 for end in ends)
        shifts = {stored.shift for stored in self.batches[first : last + 1]}
        return shifts.pop() if len(shifts) == 1 else None

    @property
    def is_timed(self) -> bool:
        """Whether the events so far have a column of times."""
        return self._time_column is not None

    def times(self, positions: Int64s) -> pa.Array:
        """Return the values of the time column, or row numbers where there is none."""
        if self._time_column is None:
            return pa.array(self.rows(positions))
        return self.column(positions, self._time_column)

    def ticks(self, positions: Int64s, tick: int) -> tuple[Int64s, Bools | None]:
        """Return times in ticks of so many nanoseconds, and which of them are no times."""
        return to_ticks(pa.chunked_array([self.times(positions)]), self.time_unit, tick)

    def column(self, positions: Int64s, attribute: str) -> pa.Array:
        """Return the values of an attribute; null where an event lacks it."""
        if attribute in (TIME.name, TIME_NS.name):
            return self._numeric_times(positions, attribute == TIME_NS.name)
        return self._column(*_distinct(positions), attribute)

    def list_kinds(self, name: str) -> tuple[int, ...]:
        """Return the kinds of values that an attribute has in the tables that came so far."""
        known = self._kinds.get(name)
        if known is None:
            path = tuple(name.split("."))
            found = (_find_type(schema, path) for schema in self._schemas)
            known = tuple(sorted({kind_of(type_) for type_ in found} - {NULL}))
            self._kinds[name] = known
        return known

    def kinds(self, positions: Int64s, name: str) -> Int8s | None:
        """Return the kind of each value of an attribute; None if all have one kind."""
        if len(self.list_kinds(name)) < 2:
            return None
        path = tuple(name.split("."))
        distinct, back = _distinct(positions)
        kinds = np.zeros(len(distinct), np.int8)
        for table, rows, own in self._read_parts(distinct):
            column = attribute(table, path)
            if column is not None:
                kinds[own] = kinds_in(column)[rows]
        return kinds if back is None else kinds[back]

    def column_of_kind(self, positions: Int64s, name: str, kind: int) -> pa.Array:
        """Return the values of an attribute that have this kind, in a type of it; others are null.

        `column` gives values of several kinds as text.
        """
        path = tuple(name.split("."))
        types = [_find_type(schema, path) for schema in self._schemas]
        type_ = reduce(common_type, (t for t in types if kind_of(t) == kind), pa.null())
        return self._gather(*_distinct(positions), path, type_, kind)

    def _numeric_times(self, positions: Int64s, nanoseconds: bool) -> pa.Array:
        """Return times as numbers, in the unit of the column or in nanoseconds."""
        if self._time_column is None:
            plain_positions = pa.array(np.asarray(positions, np.int64))
            return pa.nulls(len(positions), pa.int64()) if nanoseconds else plain_positions
        values = self.times(positions)
        if not nanoseconds and is_number(values.type):
            return values
        tick = 1 if nanoseconds else tick_of(values.type, self.time_unit) or 1
        ticks, bad = to_ticks(pa.chunked_array([values]), self.time_unit, tick)
        return pa.array(ticks, mask=bad)

    def structs(self, positions: Int64s, attributes: Sequence[str] | None = None) -> pa.StructArray:
        """Return events: type, time and the other attributes, or only the named ones."""
        names = self._names() if attributes is None else list(attributes)
        if not names:
            return pa.array([{}] * len(positions), pa.struct([]))
        distinct, back = _distinct(positions)
        columns = [self._column(distinct, back, name) for name in names]
        fields = [pa.field(n, c.type) for n, c in zip(names, columns, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=fields)

    def _column(self, distinct: Int64s, back: Int32s | None, attribute: str) -> pa.Array:
        path = tuple(attribute.split("."))
        return self._gather(distinct, back, path, self._type_of(attribute, path))

    def _names(self) -> list[str]:
        first = [n for n in (self._type_column, self._time_column) if n in self._types]
        others = [n for n in self._types if n not in first]
        return [n for n in (*first, *others) if n is not None and not is_computed(n)]

    def _learn(self, schema: pa.Schema) -> None:
        if self._latest is not None and schema.equals(self._latest):  # a hash reads all fields
            return
        self._latest = schema
        if schema in self._schemas:
            return
        self._schemas.add(schema)
        self._kinds.clear()
        types = _list_types(schema)
        if not self._types:
            self._types = dict(types)
            return
        for name, type_ in types.items():
            self._types[name] = common_type(self._types.get(name, type_), type_)

    def _type_of(self, name: str, path: tuple[str, ...]) -> pa.DataType:
        if name in self._types:
            return self._types[name]
        if name.endswith(")"):  # calculated: its type depends on the columns of each table
            return reduce(common_type, (_find_type(one, path) for one in self._schemas), pa.null())
        type_ = self._types.get(path[0], pa.null())
        for step in path[1:]:
            if not pa.types.is_struct(type_) or type_.get_field_index(step) < 0:
                return pa.null()
            type_ = type_.field(step).type
        return value_type(type_)

    def _read_parts(self, distinct: Int64s) -> Iterator[tuple[pa.Table, Int64s, Int64s]]:
        """Yield each table with rows of it, and the indices of these among ascending positions."""
        start = 0
        for stored, own in self._split(distinct):
            for table, rows, at in _per_part(stored.events, stored.find_indices(own)):
                yield table, rows, np.arange(start, start + len(own))[at]
            start += len(own)

    def _gather(
        self,
        distinct: Int64s,
        back: Int32s | None,
        path: tuple[str, ...],
        type_: pa.DataType,
        kind: int | None = None,
    ) -> pa.Array:
        """Return one attribute, or its values of one kind, at the positions of `_distinct`."""
        arrays: list[pa.Array] = []
        indices: list[Int64s] = []
        for table, rows, own in self._read_parts(distinct):
            if path[-1].endswith(")"):  # calculated: of these rows alone
                table, rows = take_sources(table, path, rows), np.arange(len(rows))
            try:
                found = attribute(table, path)
            except RowError as error:
                raise self.locate(error, int(distinct[own[error.row]])) from error
            if found is None or (kind is not None and kind_of(found.type) != kind):
                arrays.append(pa.nulls(len(rows), type_))
            else:
                arrays.append(cast_to(make_contiguous(found.take(pa.array(rows))), type_))
            indices.append(own)
        if len(arrays) < 2:
            return _spread(arrays[0] if arrays else pa.nulls(0, type_), back)
        whole, order = pa.concat_arrays(arrays), np.concatenate(indices)
        if (order[1:] > order[:-1]).all():
            return _spread(whole, back)
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return whole.take(pa.array(inverse if back is None else inverse[back]))

    def _split(self, distinct: Int64s) -> Iterator[tuple[StoredBatch, Int64s]]:
        """Yield each batch with its share of ascending positions."""
        if len(distinct):
            self._check_stored(int(distinct[0]), int(distinct[-1]))
        start = 0
        while start < len(distinct):
            stored = self.batches[bisect_right(self._bases, int(distinct[start])) - 1]
            stop = int(np.searchsorted(distinct, stored.end))
            if stop == start:
                raise LookupError(f"the event at position {distinct[start]} is no longer kept")
            yield stored, distinct[start:stop]
            start = stop

    def _check_stored(self, first: int, last: int) -> None:
        if not self.batches or first < self.batches[0].base:
            raise LookupError(f"the event at position {first} is no longer (or not yet) kept")
        end = self.batches[-1].end
        if last >= end:
            raise LookupError(f"there is no event at position {last}; {end} is the next one")


def _join_batches(batches: Sequence[StoredBatch]) -> StoredBatch:
    """Return whole batches of one table each, alike in their columns, as one."""
    parts, rows = [], []
    for _, size, events, *_ in batches:
        every = np.arange(size, dtype=np.int64)
        (name, table), index = events.parts[0], events.index
        parts.append(table if index is None else table.take(pa.array(index)))
        rows.append(events.find_rows(every))
    columns = [join_chunks(column) for column in pa.concat_tables(parts).columns]
    table = pa.table(columns, names=parts[0].column_names)
    whole = EventBatch(batches[0].base, np.concatenate(rows), None, ((name, table),))
    return StoredBatch(whole.base, len(whole), StoredEvents.of(whole), None)


@lru_cache(maxsize=64)
def _list_types(schema: pa.Schema) -> Mapping[str, pa.DataType]:
    """Return the types of values of the columns, but for those that are computed."""
    return {
        field.name: value_type(field.type)
        for field in schema
        if not is_computed(field.name) or field.name == TIMES
    }


def copy_stored(events: StoredEvents, at: Int64s) -> EventBatch:
    """Return a copy of the events at some indices."""
    rows = events.find_rows(np.arange(events.size, dtype=np.int64))
    return take_parts(EventBatch(0, rows, None, events.parts, events.which, events.index), at)


def _spread(values: pa.Array, indices: Int32s | None) -> pa.Array:
    """Return the values at the indices that `_distinct` gave; None: all values.

    Columns are taken one by one: Arrow takes structs in twice the time of their columns. Texts of
    one length, as types and names of a step often are, are taken as numbers are.
    """
    if indices is None:
        return values
    width, at = _find_width(values), pa.array(indices)
    if not width or width * len(at) > _LARGEST_OFFSET:
        return pc.take(values, at, boundscheck=False)
    _, begins, text = values.buffers()
    first = int(np.frombuffer(begins, np.int32)[values.offset])
    plain = [None, text.slice(first, width * len(values))]
    words = pa.Array.from_buffers(pa.binary(width), len(values), plain)
    taken = pc.take(words, at, boundscheck=False)
    buffers = [None, _list_offsets(width, len(at)), taken.buffers()[1]]
    return pa.Array.from_buffers(values.type, len(at), buffers)


@lru_cache(maxsize=8)
def _list_offsets(width: int, number: int) -> pa.Buffer:
    """Return the offsets of so many texts of one length; columns share them."""
    return pa.py_buffer(np.arange(0, width * number + 1, width, dtype=np.int32))


def _find_width(values: pa.Array) -> int:
    """Return the bytes of each text, if all have as many; 0: they differ, or are no texts."""
    if not pa.types.is_string(values.type) or values.null_count or not len(values):
        return 0
    ends = pc.min_max(pc.binary_length(values))
    shortest, longest = ends["min"].as_py(), ends["max"].as_py()
    return int(shortest) if shortest == longest else 0


def _distinct(positions: Int64s) -> tuple[Int64s, Int32s | None]:
    """Return the positions ascending, each once, and the index of each given one among them.

    Matches share events, so a block asks for few events many times. Positions of a block lie
    close together, where marking beats sorting.

    >>> _distinct(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1], dtype=int32))
    """
    positions = np.asarray(positions, np.int64)
    if len(positions) <= _FEW:  # Python is done before NumPy has begun
        given = positions.tolist()
        ascending = sorted({*given})
        if ascending == given:
            return positions, None
        ranks = [ascending.index(each) for each in given]
        return np.array(ascending, np.int64), np.array(ranks, np.int32)
    if (positions[1:] > positions[:-1]).all():
        return positions, None
    low = int(positions.min())
    reach = int(positions.max()) - low + 1
    if reach > 8 * len(positions) + 1024:
        distinct, back = np.unique(positions, return_inverse=True)
        return distinct, back.astype(np.int32)
    arguments = positions, low, reach
    return arrays_first(
        _rank_marked, partial(_rank_with_arrays, *arguments), partial(_rank_positions, *arguments)
    )


def _rank_with_arrays(positions: Int64s, low: int, reach: int) -> tuple[Int64s, Int32s]:
    """Do as `_distinct` for positions from `low` on, within a reach."""
    present = np.zeros(reach, np.bool_)
    marked = positions - low
    present[marked] = True
    indices = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present) + low, indices[marked]


def _rank_positions(positions: Int64s, low: int, reach: int) -> tuple[Int64s, Int32s]:
    distinct, back = np.empty(reach, np.int64), np.empty(len(positions), np.int32)
    given = read_only(np.ascontiguousarray(positions))
    found = _rank_marked(given, low, np.zeros(reach, np.int32), distinct, back)
    return distinct[:found], back


@kernel
def _rank_marked(positions: Int64s, low: int, ranks: Int32s, distinct: Int64s, back: Int32s) -> int:
    """Write the distinct positions and the rank of each one; return how many are distinct."""
    for i in range(len(positions)):
        ranks[positions[i] - low] = 1
    found = 0
    for i in range(len(ranks)):
        present = ranks[i]
        ranks[i] = found
        distinct[found] = low + i
        found += present
    for i in range(len(positions)):
        back[i] = ranks[positions[i] - low]
    return found


def _per_part(
    stored: StoredEvents, local: Int64s
) -> Iterator[tuple[pa.Table, Int64s, Int64s | slice]]:
    """Yield (table, rows in it, which of `local` they are) for each part touched."""
    if stored.which is None:
        rows = local if stored.index is None else stored.index[local]
        yield stored.parts[0][1], rows, slice(None)
        return
    assert stored.index is not None
    which = stored.which[local]
    for number, (_, table) in enumerate(stored.parts):
        at = np.flatnonzero(which == number)
        if len(at):
            yield table, stored.index[local[at]], at


def _find_type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    """Return the type of an attribute in a table of this schema; null where it has none."""
    column = attribute(schema.empty_table(), path)
    return pa.null() if column is None else value_type(column.type)
