"""Partition keys: one int64 code per event, equal exactly when the keys are.

A key has a component per group of `PARTITION BY`; a component is the first of the
group's attributes that the event has. Codes count up as keys first appear and stay the
same from batch to batch; -1 means that the event belongs to no partition (a component
is NULL, or NaN, which equals nothing).

Numbers are equal across types (1 and 1.0), instants across units and zones; a number,
a text and a truth value are never equal. Cost: one hash lookup per row, attribute and
further component; a dictionary column costs one per distinct value. A million keys are
fine: memory is some 40 bytes a key and its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import StateError
from cernis.events.batch import Bools, EventBatch, Int64s, attribute
from cernis.events.classify import text_of
from cernis.events.hashing import BytesTable, IntTable
from cernis.events.store import EventStore, cast_to, common_type
from cernis.events.times import DAY, UNITS, is_text

NONE = -1  # the event has no such attribute
_NEVER = -2  # it has, but the value equals nothing

_LARGEST = 2**63 - 1
_BYTE_KINDS = frozenset({"text", "bytes", "other"})


class KeyCoder:
    """Numbers the keys of events.

    >>> coder = KeyCoder([["a", "b"]])
    >>> events = pa.table({"type": ["T"] * 4, "a": [7, None, None, 8], "b": [1.5, 7.0, None, 9.0]})
    >>> coder.encode(EventBatch.of(events)).tolist(), len(coder)
    ([0, 0, -1, 1], 2)
    """

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self.groups = tuple(tuple(group) for group in groups)
        self._components = [_Component(group) for group in self.groups]
        self._pairs = [IntTable() for _ in self.groups[1:]]

    def __len__(self) -> int:
        """How many keys there have been."""
        return len(self._pairs[-1]) if self._pairs else len(self._components[0])

    def encode(self, batch: EventBatch) -> Int64s:
        """A code per event, or -1."""
        return batch.interleave(lambda _, table: self._part(table))

    def _part(self, table: pa.Table) -> Int64s:
        codes = self._components[0].encode(table)
        for component, pairs in zip(self._components[1:], self._pairs, strict=True):
            more = component.encode(table)
            valid = (codes >= 0) & (more >= 0)
            codes = pairs.codes(codes << 31 | more, None if valid.all() else valid)
        return codes

    def keep_only(self, codes: Int64s) -> None:
        """Forget all keys but these (ascending); codes[i] becomes i, and new keys go on after."""
        for level in range(len(self._pairs) - 1, -1, -1):
            pairs = self._pairs[level].values[codes]
            before, last = pairs >> 31, pairs & (2**31 - 1)
            codes, lasts = np.unique(before), np.unique(last)
            ranks = np.searchsorted(codes, before) << 31 | np.searchsorted(lasts, last)
            self._pairs[level] = IntTable(ranks)
            self._components[level + 1].keep_only(lasts)
        self._components[0].keep_only(codes)

    def freeze(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as plain arrays."""
        arrays = {f"pairs.{i}": table.values.copy() for i, table in enumerate(self._pairs)}
        for i, component in enumerate(self._components):
            for name, array in component.freeze().items():
                arrays[f"component.{i}.{name}"] = array
        return arrays

    def thaw(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from what `freeze` gave."""
        try:
            self._pairs = [IntTable(arrays[f"pairs.{i}"]) for i in range(len(self._pairs))]
            for i, component in enumerate(self._components):
                start = f"component.{i}."
                component.thaw(
                    {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
                )
        except (KeyError, ValueError) as error:
            raise StateError(f"frozen partition keys cannot be read: {error}") from error


def key_columns(batch: EventBatch, groups: Sequence[Sequence[str]]) -> list[pa.Array]:
    """Per group the key's values: the first of its attributes that is not NULL."""
    store = EventStore()
    store.append(batch)
    positions = np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
    keys = []
    for group in groups:
        columns = [store.column(positions, name) for name in group]
        type_ = reduce(common_type, (column.type for column in columns))
        keys.append(pc.coalesce(*(cast_to(column, type_) for column in columns)))
    return keys


# -------------------------------------------------------------- components


class _Kind:
    """The values of one kind: a table that numbers them, and their component codes."""

    def __init__(self, table: IntTable | BytesTable, numbers: Int64s | None = None) -> None:
        self.table = table
        self.numbers = np.empty(0, np.int64) if numbers is None else numbers


class _Component:
    """One component of the key; kinds share its numbering."""

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self._paths = [tuple(name.split(".")) for name in attributes]
        self._kinds: dict[str, _Kind] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def encode(self, table: pa.Table) -> Int64s:
        codes = np.full(table.num_rows, NONE, np.int64)
        lacking: Bools | None = None  # None: all rows
        for path in self._paths:
            column = attribute(table, path)
            if column is None or pa.types.is_null(column.type):
                continue
            if lacking is None:
                codes = self._column(column)
            else:
                codes[lacking] = self._column(column.filter(pa.array(lacking)))
            lacking = codes == NONE
            if not lacking.any():
                break
        return np.maximum(codes, NONE) if codes.min(initial=0) < NONE else codes

    def _column(self, column: pa.ChunkedArray) -> Int64s:
        chunks = [self._chunk(chunk) for chunk in column.chunks]
        return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, np.int64), *chunks])

    def _chunk(self, values: pa.Array) -> Int64s:
        type_, types = values.type, pa.types
        if types.is_dictionary(type_):
            return self._dictionary(values)
        if is_text(type_) or types.is_binary(type_) or types.is_large_binary(type_):
            return self._bytes("text" if is_text(type_) else "bytes", values)
        if types.is_integer(type_):
            return self._integers(values)
        if types.is_floating(type_):
            return self._floats(values)
        if types.is_boolean(type_):
            return self._ints("boolean", values.cast(pa.int64()))
        if types.is_temporal(type_) and not types.is_interval(type_):
            return self._times(values)
        return self._dictionary(_distinct(values))

    # one kind of values each

    def _numbered(self, kind: str, codes: Int64s) -> Int64s:
        """A kind's own codes as the component's."""
        known = self._kinds[kind]
        new = len(known.table) - len(known.numbers)
        if new:
            fresh = np.arange(self._count, self._count + new, dtype=np.int64)
            known.numbers = np.concatenate([known.numbers, fresh])
            self._count += new
        if len(known.numbers) == self._count:
            return codes  # the only kind so far: its codes are the component's
        if not len(known.numbers):
            return codes  # none but NONE
        return np.where(codes < 0, codes, known.numbers[np.maximum(codes, 0)])

    def _table(self, kind: str) -> Any:
        if kind not in self._kinds:
            self._kinds[kind] = _Kind(BytesTable() if kind in _BYTE_KINDS else IntTable())
        return self._kinds[kind].table

    def _ints(self, kind: str, values: pa.Array, only: Bools | None = None) -> Int64s:
        valid = _valid(values)
        if only is not None:
            valid = only if valid is None else valid & only
        numbers = values.fill_null(0) if values.null_count else values
        return self._numbered(kind, self._table(kind).codes(np.asarray(numbers), valid))

    def _bytes(self, kind: str, values: pa.Array) -> Int64s:
        offsets, data = text_of(values)
        return self._numbered(kind, self._table(kind).codes(offsets, data, _valid(values)))

    def _integers(self, values: pa.Array) -> Int64s:
        if not pa.types.is_uint64(values.type):
            return self._ints("int", values.cast(pa.int64()))
        small = values.fill_null(0).to_numpy() <= _LARGEST
        wrapped = values.view(pa.int64())
        codes = self._ints("int", wrapped, small)
        if small.all():
            return codes
        return np.where(small, codes, self._ints("uint64", wrapped, ~small))

    def _floats(self, values: pa.Array) -> Int64s:
        floats = values.cast(pa.float64())
        numbers = floats.fill_null(0.0).to_numpy()
        whole = (np.abs(numbers) < 2.0**63) & (np.floor(numbers) == numbers)
        valid = _valid(values)
        present = whole if valid is None else whole & valid
        integers = pa.array(np.where(present, numbers, 0.0).astype(np.int64))
        codes = self._ints("int", integers, present)
        if not whole.all():
            never = np.isnan(numbers)
            bits = self._ints("float", floats.view(pa.int64()), ~(whole | never))
            codes = np.where(whole, codes, np.where(never, _NEVER, bits))
        return codes

    def _times(self, values: pa.Array) -> Int64s:
        type_ = values.type
        narrow = pa.types.is_date32(type_) or pa.types.is_time32(type_)
        ticks = values.view(pa.int32() if narrow else pa.int64()).cast(pa.int64())
        if pa.types.is_date(type_):
            factor = DAY if narrow else UNITS["ms"]
        else:
            factor = UNITS[type_.unit]
        instants = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
        kind = "instant" if instants else "time" if pa.types.is_time(type_) else "duration"
        numbers = ticks.fill_null(0).to_numpy()
        fits = np.abs(numbers) <= _LARGEST // factor
        scaled = pa.array(np.where(fits, numbers, 0) * factor)
        valid = _valid(values)
        codes = self._ints(kind, scaled, fits if valid is None else fits & valid)
        if fits.all():
            return codes
        return np.where(fits, codes, self._ints(f"{kind}:{factor}", ticks, ~fits))

    def _dictionary(self, values: pa.DictionaryArray) -> Int64s:
        own = values.dictionary
        codes = self._others(own) if _is_odd(own.type) else self._chunk(own)
        index = values.indices
        if not index.null_count:
            plain: Int64s = codes[np.asarray(index)] if len(codes) else np.empty(0, np.int64)
            return plain
        padded: Int64s = np.append(codes, NONE)
        found: Int64s = padded[np.asarray(index.cast(pa.int64()).fill_null(len(codes)))]
        return found

    def _others(self, values: pa.Array) -> Int64s:
        """Decimals, lists and the like, one Python value at a time (they are distinct)."""
        codes = np.full(len(values), NONE, np.int64)
        for i, value in enumerate(values.to_pylist()):
            if value is not None:
                codes[i] = self._chunk(_plain_kin(value))[0]
        return codes

    def keep_only(self, codes: Int64s) -> None:
        """Forget all values but those with these codes (ascending); codes[i] becomes i."""
        for known in self._kinds.values():
            kept = np.flatnonzero(np.isin(known.numbers, codes))
            known.table = known.table.only(kept)
            known.numbers = np.searchsorted(codes, known.numbers[kept])
        self._count = len(codes)

    def freeze(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for kind, known in self._kinds.items():
            arrays[f"{kind}.numbers"] = known.numbers.copy()
            if isinstance(known.table, IntTable):
                arrays[f"{kind}.values"] = known.table.values.copy()
            else:
                arrays[f"{kind}.pool"] = known.table.pool.copy()
                arrays[f"{kind}.ends"] = known.table.ends.copy()
        return arrays

    def thaw(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._kinds.clear()
        for name, numbers in arrays.items():
            kind, _, part = name.rpartition(".")
            if part != "numbers":
                continue
            table: IntTable | BytesTable
            if kind in _BYTE_KINDS:
                table = BytesTable(arrays[f"{kind}.pool"], arrays[f"{kind}.ends"])
            else:
                table = IntTable(arrays[f"{kind}.values"])
            self._kinds[kind] = _Kind(table, numbers.copy())
        self._count = sum(len(known.numbers) for known in self._kinds.values())


def _valid(values: pa.Array) -> Bools | None:
    if not values.null_count:
        return None
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


_CHUNK_TESTS: tuple[Callable[[pa.DataType], bool], ...] = (
    is_text,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
)


def _is_odd(type_: pa.DataType) -> bool:
    temporal = pa.types.is_temporal(type_) and not pa.types.is_interval(type_)
    return not temporal and not any(test(type_) for test in _CHUNK_TESTS)


def _distinct(values: pa.Array) -> pa.DictionaryArray:
    try:
        return values.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        index = pa.array(np.arange(len(values), dtype=np.int32), mask=~_present(values))
        return pa.DictionaryArray.from_arrays(index, values)


def _present(values: pa.Array) -> Bools:
    valid = _valid(values)
    return np.ones(len(values), np.bool_) if valid is None else valid


def _plain_kin(value: Any) -> pa.Array:
    """One value as the number it equals, else as a text that no other value has."""
    if isinstance(value, Decimal) and value.is_finite():
        if value == value.to_integral_value() and abs(value) <= _LARGEST:
            return pa.array([int(value)], pa.int64())
        if Decimal(float(value)) == value:
            return pa.array([float(value)])
        value = value.normalize()
    return pa.array([repr(value).encode()], pa.binary())
