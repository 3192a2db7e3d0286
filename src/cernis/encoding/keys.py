"""Partition keys: one int64 code per event, equal exactly when the keys are.

A key has a component for each group of `PARTITION BY`: the first of the group's attributes
that the event has. Codes count up as keys first appear and stay the
same from batch to batch. -1 means that the event belongs to no partition: a component
is NULL, or NaN, which equals nothing.

Numbers are equal across types (1 and 1.0), instants across units and zones; a number,
a text and a truth value are never equal. `Numbering` is that equality for one
component, `Tuples` for several; `compare` numbers other columns with them. Cost: one
hash lookup per row, attribute and further component; a dictionary column costs one per
distinct value. Memory: some 40 bytes a key and its text, so a million keys are fine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.encoding.classify import text_of
from cernis.encoding.hashing import BytesTable, IntTable
from cernis.events.batch import Bools, EventBatch, Int64s
from cernis.events.column_types import is_text
from cernis.events.evaluation.attributes import attribute
from cernis.events.times import DAY, UNITS, to_integers
from cernis.state import (
    Tree,
    array,
    check_mapping,
    frozen_record,
    is_inside,
    listed,
    part,
    read,
    require,
    write,
)

Arrays = dict[str, npt.NDArray[Any]]

NONE = -1  # the event has no such attribute
_NEVER = -2  # it has, but the value equals nothing

_LARGEST = 2**63 - 1
_LOW = 2**31 - 1  # the bits of a pair that hold its last component
_EXACT = Context(prec=100)  # more digits than an Arrow decimal has
_BYTE_KINDS = frozenset({"text", "bytes", "other"})


@frozen_record
class FrozenInts:
    """Values of one kind, and the numbers that they have."""

    numbers: Int64s = array(np.int64, "values", low=0)
    values: Int64s = array(np.int64, "values")


@frozen_record
class FrozenTexts:
    """Texts or bytes, one after the other, and the numbers that they have."""

    numbers: Int64s = array(np.int64, "texts", low=0)
    pool: npt.NDArray[np.uint8] = array(np.uint8, "pool")
    ends: Int64s = array(np.int64, "texts+1", low=0, below="pool+1")


@frozen_record
class FrozenTuples:
    """The values of each component of keys, and the pairs that make keys of them."""

    pairs: list[Int64s] = listed(array(np.int64, "pairs"), "joins")
    components: list[Tree] = listed(part(), "components")


class KeyCoder:
    """A numbering of the keys of events.

    >>> coder = KeyCoder([["a", "b"]])
    >>> events = pa.table({"type": ["T"] * 4, "a": [7, None, None, 8], "b": [1.5, 7.0, None, 9.0]})
    >>> coder.encode(EventBatch.of(events)).tolist(), len(coder)
    ([0, 0, -1, 1], 2)
    """

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self.groups = tuple(tuple(group) for group in groups)
        self._paths = [[tuple(name.split(".")) for name in group] for group in self.groups]
        self._keys = Tuples(len(self.groups))

    def __len__(self) -> int:
        """Return how many keys there have been."""
        return len(self._keys)

    def encode(self, batch: EventBatch) -> Int64s:
        """Return a code per event, or -1."""
        return batch.interleave(lambda _, table: self._part(table))

    @property
    def is_plain(self) -> bool:
        """Whether keys are attributes alone, and no values of functions."""
        return not any(name.endswith(")") for group in self.groups for name in group)

    def encode_some(self, batch: EventBatch, at: Int64s) -> Int64s:
        """Return a code, or -1, for each of some events."""
        index = at if batch.index is None else batch.index[at]
        codes = np.empty(len(at), np.int64)
        for number in range(len(batch.parts)):
            own = slice(None) if batch.which is None else batch.which[at] == number
            codes[own] = batch.read_part(number, partial(self._take_part, pa.array(index[own])))
        return codes

    def _take_part(self, rows: pa.Array, _: str, table: pa.Table) -> Int64s:
        names = {start for name in chain(*self.groups) for start in (name, name.split(".")[0])}
        own = [name for name in table.column_names if name in names] or table.column_names[:1]
        return self._part(table.select(own).take(rows))

    def _part(self, table: pa.Table) -> Int64s:
        components = zip(self._keys.components, self._paths, strict=True)
        return self._keys.codes([_first_present(table, paths, part) for part, paths in components])

    def find_keys(self, values: pa.Array) -> Int64s:
        """Return the keys, ascending, whose first component has one of these values."""
        wanted = self._keys.components[0].codes(pa.chunked_array([values]))
        return np.flatnonzero(np.isin(self._keys.list_first(), wanted[wanted >= 0]))

    def keep_only(self, codes: Int64s) -> None:
        """Forget all keys but these (ascending); codes[i] becomes i, and new keys follow."""
        self._keys.keep_only(codes)

    def freeze(self) -> Tree:
        """Return the state."""
        return self._keys.freeze()

    def thaw(self, tree: Tree) -> None:
        """Restore the state that `freeze` returned."""
        self._keys.thaw(tree)


class OwnedKeys(KeyCoder):
    """A numbering of the keys of events, apart for each owner: a number that a batch has per event.

    Without components a key is its owner.
    """

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        super().__init__(groups)
        self._keys = Tuples(max(1, len(self.groups)), leading=True)

    def encode(self, batch: EventBatch) -> Int64s:
        """Return a code per event, or -1."""
        assert batch.owners is not None
        parts = zip(self._keys.components, self._paths, strict=False)
        found = [batch.interleave(partial(_read_component, *each)) for each in parts]
        if not self.groups:
            nothing = pa.chunked_array([np.zeros(len(batch), np.int64)])
            found = [self._keys.components[0].codes(nothing)]
        return self._keys.codes([batch.owners, *found])

    @property
    def is_plain(self) -> bool:
        return False  # the owner is a part of it

    def list_owners(self) -> Int64s:
        """Return the owner of each key; -1 where a key is gone."""
        return self._keys.list_first()

    def find_keys(self, values: pa.Array) -> Int64s:
        """Return the keys, ascending, of these owners."""
        return np.flatnonzero(np.isin(self.list_owners(), np.asarray(values)))


def _read_component(
    component: Numbering, paths: list[tuple[str, ...]], _: str, table: pa.Table
) -> Int64s:
    return _first_present(table, paths, component)


def _first_present(table: pa.Table, paths: list[tuple[str, ...]], component: Numbering) -> Int64s:
    """Return for each row the code of the first attribute that it has."""
    codes = np.full(table.num_rows, NONE, np.int64)
    lacking: Bools | None = None  # None: all rows
    for path in paths:
        column = attribute(table, path)
        if column is None or pa.types.is_null(column.type):
            continue
        if lacking is None:
            codes = component.codes(column)
        else:
            codes[lacking] = component.codes(column.filter(pa.array(lacking)))
        lacking = codes == NONE
        if not lacking.any():
            break
    return codes


# ------------------------------------------------------------------ tuples


class Tuples:
    """A numbering of tuples of values, component by component.

    `pairs[i]` numbers pairs of a tuple's first components and the next one, so a
    tuple of k values is k - 1 lookups of integers. With `leading`, a code from elsewhere
    (0 … 2**31 - 1, or negative) comes first in every tuple.
    """

    def __init__(self, arity: int, leading: bool = False) -> None:
        self.components = [Numbering() for _ in range(arity)]
        self.leading = leading
        self._pairs = [IntTable() for _ in range(arity - 1 + leading)]

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self.components[0])

    @property
    def value_count(self) -> int:
        """The most values in any table; values of incomplete tuples count as well."""
        return max(len(self), *(len(component) for component in self.components))

    def codes(self, parts: Sequence[Int64s]) -> Int64s:
        """Return a code per row from the codes of its parts (the leading one first), or -1."""
        codes = parts[0]
        for more, pairs in zip(parts[1:], self._pairs, strict=True):
            valid = (codes >= 0) & (more >= 0)
            codes = pairs.codes(codes << 31 | more, None if valid.all() else valid)
        return np.maximum(codes, NONE) if codes.min(initial=0) < NONE else codes

    def list_first(self) -> Int64s:
        """Return the code of the first component of each tuple; -1 where a tuple is gone.

        It is the leading code, if there is one.
        """
        firsts = None if self.leading else np.arange(len(self.components[0]))
        for pairs in self._pairs:
            before = pairs.values >> 31
            firsts = np.where(pairs.values >= 0, before if firsts is None else firsts[before], NONE)
        assert firsts is not None
        return firsts

    def keep_only(self, codes: Int64s) -> None:
        """Forget all tuples but these (ascending); codes[i] becomes i."""
        for level in range(len(self._pairs) - 1, -1, -1):
            pairs = self._pairs[level].values[codes]
            before, last = pairs >> 31, pairs & _LOW
            if level or not self.leading:
                codes = np.unique(before)
                before = np.searchsorted(codes, before)
            lasts = np.unique(last[pairs >= 0])
            ranks = before << 31 | np.searchsorted(lasts, last)
            self._pairs[level] = IntTable(_mask_dead(ranks, pairs >= 0))
            self.components[level + 1 - self.leading].keep_only(lasts)
        if not self.leading:
            self.components[0].keep_only(codes)

    def keep_leading(self, codes: Int64s) -> None:
        """Renumber leading codes, codes[i] (ascending) to i; tuples keep their numbers.

        Tuples of dropped leading codes are never met again; `keep_only` frees their memory.
        """
        pairs = self._pairs[0].values
        before = pairs >> 31
        ranks = np.searchsorted(codes, before)
        kept = (pairs >= 0) & np.isin(before, codes)
        self._pairs[0] = IntTable(_mask_dead(ranks << 31 | pairs & _LOW, kept))

    def freeze(self) -> Tree:
        pairs = [table.values for table in self._pairs]
        return write(FrozenTuples(pairs, [each.freeze() for each in self.components]))

    def thaw(self, tree: Tree) -> None:
        """Restore the state that `freeze` returned."""
        sizes = {"components": len(self.components), "joins": len(self._pairs)}
        frozen = read(FrozenTuples, tree, **sizes)
        for component, own in zip(self.components, frozen.components, strict=True):
            component.thaw(own)
        known = 1 << 31 if self.leading else len(self.components[0])
        for i, component in enumerate(self.components[1 - self.leading :]):
            pairs = frozen.pairs[i]
            alive = pairs[pairs >= 0]
            require(
                is_inside(alive >> 31, 0, known) and is_inside(alive & _LOW, 0, len(component)),
                "a key has components that are not there",
            )
            self._pairs[i] = _thaw_ints(pairs)
            known = len(pairs)


def select_arrays(start: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """Return the arrays whose name starts with `start`, without that start."""
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}


def _mask_dead(pairs: Int64s, alive: Bools) -> Int64s:
    """Replace pairs that are not alive by others, all different, that no lookup finds."""
    return pairs if alive.all() else np.where(alive, pairs, -1 - np.arange(len(pairs)))


# --------------------------------------------------------------- numbering


class _KindTable:
    """The values of one kind: a table that numbers them, and their component codes."""

    def __init__(self, table: IntTable | BytesTable, numbers: Int64s | None = None) -> None:
        self.table = table
        self.numbers = np.empty(0, np.int64) if numbers is None else numbers


class Numbering:
    """A numbering of values of all kinds, as they first appear.

    >>> numbering = Numbering()
    >>> numbering.codes(pa.chunked_array([[7, 8]])).tolist()
    [0, 1]
    >>> numbering.codes(pa.chunked_array([[8.0, None, 7.5]])).tolist()
    [1, -1, 2]
    """

    def __init__(self) -> None:
        self._kinds: dict[str, _KindTable] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def codes(self, column: pa.ChunkedArray) -> Int64s:
        """Return a code per row: -1 for NULL, -2 for a value that equals nothing."""
        if pa.types.is_null(column.type):
            return np.full(len(column), NONE, np.int64)
        chunks = [self._chunk(chunk) for chunk in column.chunks]
        return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, np.int64), *chunks])

    def _chunk(self, values: pa.Array) -> Int64s:
        codes = self._plain(values)
        return self._dictionary(_distinct(values)) if codes is None else codes

    def _plain(self, values: pa.Array) -> Int64s | None:
        """Return a code per row; None for decimals, lists and the like."""
        type_, types = values.type, pa.types
        if types.is_dictionary(type_):
            return self._dictionary(values)
        if is_text(type_) or types.is_binary(type_):
            return self._bytes("text" if is_text(type_) else "bytes", values)
        if types.is_fixed_size_binary(type_):
            return self._bytes("bytes", values.cast(pa.binary()))
        if types.is_large_binary(type_):
            return self._bytes("bytes", values.view(pa.large_string()))  # the same layout
        if types.is_integer(type_):
            return self._integers(values)
        if types.is_floating(type_):
            return self._floats(values)
        if types.is_boolean(type_):
            return self._ints("boolean", values.cast(pa.int64()))
        if types.is_temporal(type_) and not types.is_interval(type_):
            return self._times(values)
        return None

    # one method for each kind of values

    def _component_codes(self, kind: str, codes: Int64s) -> Int64s:
        """Return the component's codes for codes of one kind."""
        known = self._kinds[kind]
        new = len(known.table) - len(known.numbers)
        if new:
            fresh = np.arange(self._count, self._count + new, dtype=np.int64)
            known.numbers = np.concatenate([known.numbers, fresh])
            self._count += new
        if len(known.numbers) in (0, self._count):
            return codes  # none but NONE, or the only kind so far: they are the component's
        return np.where(codes < 0, codes, known.numbers[np.maximum(codes, 0)])

    def _table(self, kind: str) -> Any:
        if kind not in self._kinds:
            self._kinds[kind] = _KindTable(BytesTable() if kind in _BYTE_KINDS else IntTable())
        return self._kinds[kind].table

    def _ints(self, kind: str, values: pa.Array, only: Bools | None = None) -> Int64s:
        valid = valid_rows(values)
        if only is not None:
            valid = only if valid is None else valid & only
        numbers = values.fill_null(0) if values.null_count else values
        return self._component_codes(kind, self._table(kind).codes(np.asarray(numbers), valid))

    def _bytes(self, kind: str, values: pa.Array) -> Int64s:
        codes = self._table(kind).codes(*text_of(values), valid_rows(values))
        return self._component_codes(kind, codes)

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
        whole = (numbers >= -(2.0**63)) & (numbers < 2.0**63) & (np.floor(numbers) == numbers)
        valid = valid_rows(values)
        present = whole if valid is None else whole & valid
        integers = pa.array(np.where(present, numbers, 0.0).astype(np.int64))
        codes = self._ints("int", integers, present)
        if whole.all():
            return codes
        unsigned = (numbers >= 2.0**63) & (numbers < 2.0**64)
        if unsigned.any():
            wrapped = np.where(unsigned, numbers, 0.0).astype(np.uint64).view(np.int64)
            codes = np.where(unsigned, self._ints("uint64", pa.array(wrapped), unsigned), codes)
        never = np.isnan(numbers)
        odd = ~(whole | unsigned | never)
        bits = self._ints("float", floats.view(pa.int64()), odd)
        return np.where(odd, bits, np.where(never, _NEVER, codes))

    def _times(self, values: pa.Array) -> Int64s:
        type_ = values.type
        ticks, factor = ticks_of(values)
        instants = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
        kind = "instant" if instants else "time" if pa.types.is_time(type_) else "duration"
        numbers = ticks.fill_null(0).to_numpy()
        fits = (numbers <= _LARGEST // factor) & (numbers >= -(_LARGEST // factor))
        scaled = pa.array(np.where(fits, numbers, 0) * factor)
        valid = valid_rows(values)
        codes = self._ints(kind, scaled, fits if valid is None else fits & valid)
        far = ~fits
        for unit in UNITS.values():  # the coarsest that it is whole in: one form for each time
            if not far.any():
                break
            if unit >= factor:
                whole = far & (numbers % (unit // factor) == 0)
                ticks = pa.array(numbers // (unit // factor))
                codes = np.where(whole, self._ints(f"{kind}:{unit}", ticks, whole), codes)
                far &= ~whole
        return codes

    def _dictionary(self, values: pa.DictionaryArray) -> Int64s:
        own = values.dictionary
        codes = self._plain(own)
        if codes is None:
            codes = self._others(own)
        index = values.indices
        if index.null_count:
            index = index.cast(pa.int64()).fill_null(len(codes))
        found: Int64s = np.append(codes, NONE)[np.asarray(index)]
        return found

    def _others(self, values: pa.Array) -> Int64s:
        """Number decimals, lists and the like, one Python value at a time (they are distinct)."""
        codes = np.full(len(values), NONE, np.int64)
        for i, value in enumerate(values.to_pylist()):
            if value is not None:
                codes[i] = self._chunk(_canonical(value))[0]
        return codes

    def keep_only(self, codes: Int64s) -> None:
        """Forget all values but those with these codes (ascending); codes[i] becomes i."""
        for known in self._kinds.values():
            kept = np.flatnonzero(np.isin(known.numbers, codes))
            known.table.keep_only(kept)
            known.numbers = np.searchsorted(codes, known.numbers[kept])
        self._count = len(codes)

    def freeze(self) -> Tree:
        return {
            kind: write(
                FrozenInts(known.numbers, known.table.values)
                if isinstance(known.table, IntTable)
                else FrozenTexts(known.numbers, known.table.pool, known.table.ends)
            )
            for kind, known in self._kinds.items()
        }

    def thaw(self, tree: Tree) -> None:
        self._kinds.clear()
        for kind, written in tree.items():
            own = check_mapping(written, "a kind of values")
            table: IntTable | BytesTable
            if kind in _BYTE_KINDS:
                texts = read(FrozenTexts, own)
                table, numbers = _thaw_bytes(texts), texts.numbers
            else:
                ints = read(FrozenInts, own)
                table, numbers = _thaw_ints(ints.values), ints.numbers
            self._kinds[kind] = _KindTable(table, numbers)
        self._count = sum(len(known.numbers) for known in self._kinds.values())
        free = np.ones(self._count, np.bool_)
        for known in self._kinds.values():
            require(
                is_inside(known.numbers, 0, self._count)
                and bool((np.diff(known.numbers) > 0).all()),
                "the numbers of values are not in order",
            )
            free[known.numbers] = False
        require(not free.any(), "two values have one number")


def _thaw_ints(values: Int64s) -> IntTable:
    """Return the table of frozen values, which are all different."""
    table = IntTable(values)
    numbered = np.array_equal(table.codes(values), np.arange(len(values)))
    require(numbered and len(table) == len(values), "a value comes twice")
    return table


def _thaw_bytes(frozen: FrozenTexts) -> BytesTable:
    """Return the table of frozen strings, which are all different."""
    pool, ends = frozen.pool, frozen.ends
    sound = ends[0] == 0 and ends[-1] == len(pool)
    require(sound and bool((np.diff(ends) >= 0).all()), "texts are not in order")
    table = BytesTable(pool, ends)
    numbered = np.array_equal(table.codes(ends, pool), np.arange(len(ends) - 1))
    require(numbered and len(table) == len(ends) - 1, "a value comes twice")
    return table


def ticks_of(values: pa.Array) -> tuple[pa.Array, int]:
    """Return times and durations as int64, and the nanoseconds in their unit.

    >>> ticks, nanoseconds = ticks_of(pa.array([1], pa.date32()))
    >>> ticks.to_pylist(), nanoseconds
    ([86400], 1000000000)
    """
    ticks = to_integers(values)
    if pa.types.is_date32(values.type):
        return pc.multiply(ticks, DAY // UNITS["s"]), UNITS["s"]
    return ticks, UNITS["ms" if pa.types.is_date64(values.type) else values.type.unit]


def valid_rows(values: pa.Array) -> Bools | None:
    """Return marks where there are values; None if there are values everywhere."""
    if not values.null_count:
        return None
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _distinct(values: pa.Array) -> pa.DictionaryArray:
    try:
        return values.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        missing = values.is_null().to_numpy(zero_copy_only=False)
        index = pa.array(np.arange(len(values), dtype=np.int32), mask=missing)
        return pa.DictionaryArray.from_arrays(index, values)


def _canonical(value: Any) -> pa.Array:
    """Return a value as the number that it equals, or else as bytes that no other value has."""
    if isinstance(value, Decimal) and value.is_finite():
        if value == value.to_integral_value() and -(2**63) <= value < 2**64:
            return pa.array([int(value)], pa.int64() if value < 2**63 else pa.uint64())
        if Decimal(float(value)) == value:
            return pa.array([float(value)])
        value = value.normalize(_EXACT)
    return pa.array([repr(value).encode()], pa.binary())
