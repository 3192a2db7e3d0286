"""Values that links compare, as integers: the columns that the correlated engine reads.

`Equality` gives codes that are equal exactly when values (or tuples of them) are;
`kinds` gives the kind of each value, which `!=` needs as well; `OrderValues` gives pairs of
words that sort as the values do. All stay the same from batch to batch. With them

    a = b    ⇔  code(a) == code(b) >= 0
    a != b   ⇔  kind(a) == kind(b) > 0 and (code(a) != code(b) or code(a) < 0)
    a < b    ⇔  comparable(a, b) and (hi, lo)(a) < (hi, lo)(b)

where NULL has code -1 and kind 0, NaN code -1 and the kind of numbers, and `comparable`
is the rule in the comment at `NOTHING`. The attribute `@time` is the event's
timestamp, or its position where no time column was named.

Order takes two words: int64 and float64 together do not fit into one. The first is
the float64 at or below the number, as an integer that sorts alike. The second is the rest, in
2⁻⁶² of the distance to the next float64. So integers, floats and decimals of up to 34
digits compare exactly with each other. Instants are nanoseconds, whatever their unit, 93
bits wide. The order of text does not fit into words: `OrderValues` refuses to compare text with
text.

Cost: one hash lookup per row for each component of a column, and one for each component
but the first (partitions count as one); a few nanoseconds per row for each ordered
column. Decimals take some microseconds per distinct value of a batch. Memory: the values that
have a code, until `keep_only` drops some.

Rejected: codes that are ranks, which tell apart and sort in one word. A later value may lie
between two neighbours, and then all codes must change.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from math import inf, nextafter
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.compiled import kernel
from cernis.compiled.tiers import arrays_first
from cernis.encoding.clock import to_sortable
from cernis.encoding.keys import NONE, Tuples, ticks_of, valid_rows
from cernis.errors import DataError
from cernis.events.batch import EventBatch, Int64s
from cernis.events.column_types import MOST_ORDERED_DIGITS, is_long_decimal, value_type
from cernis.events.evaluation.attributes import attribute
from cernis.events.evaluation.evaluate import EXACT
from cernis.events.kinds import (
    BOOLEAN,
    BYTES,
    CLOCK_TIME,
    DURATION,
    INSTANT,
    NUMBER,
    OTHER,
    TEXT,
    Int8s,
    kind_of,
    kinds_in,
)
from cernis.events.times import parse_timestamps
from cernis.state import Tree, frozen_record, listed, number, part, read, require, text, write

TIME = "@time"

NOTHING = -(2**63)
INFINITY = 0x7FF0000000000000
KIND_BITS = 34
# In the first word numbers are INFINITY at most, NOTHING stands for NULL and NaN, and
# every other kind has a region of its own above, told by the bits from KIND_BITS on:
# a and b are comparable ⇔ neither is NOTHING, and both are at most INFINITY or
# a >> KIND_BITS == b >> KIND_BITS.

_REST_BITS = 62
_UNORDERED = frozenset({TEXT, BYTES})


Calculate = Callable[[pa.Table], pa.Array]
"""Gives the values of a column that the events do not have, computed from others."""
NOT_CALCULATED: Mapping[str, Calculate] = MappingProxyType({})


def kinds(batch: EventBatch, attributes: Sequence[str]) -> Int8s:
    """Return the kind of each value, 0 for NULL, as an array of shape (attributes, events).

    >>> batch = EventBatch.of(pa.table({"a": [1.5, float("nan"), None], "b": ["x", "y", "z"]}))
    >>> kinds(batch, ["a", "b"]).tolist()
    [[1, 1, 0], [2, 2, 2]]
    """
    found = np.empty((len(attributes), len(batch)), np.int8)
    for row, name in zip(found, attributes, strict=True):
        row[:] = _per_part(batch, name, kinds_in)
    return found


# ---------------------------------------------------------------- equality


@frozen_record
class FrozenDomains:
    """The codes of each domain of values that are compared by =."""

    domains: list[Tree] = listed(part(), "domains")


@frozen_record
class FrozenPartitions:
    """How many partitions a domain without attributes has."""

    partitions: int = number(0, 1 << 31)


@frozen_record
class FrozenOrder:
    """The attributes that have held text, and the kinds of times."""

    texts: list[str] = listed(text())
    times: list[int] = listed(number(0, OTHER + 1))


class Equality:
    """Codes of columns, one numbering for each domain.

    A column is a tuple of attributes; all columns of a domain have as many, and their
    codes are equal exactly when all values are. With `partitioned`, events of
    different partitions have different codes. `calculated` has the columns that the events do not
    have.

    >>> codes = Equality([[("id",), ("parent",)]], partitioned=False)
    >>> events = pa.table({"id": [7, 8, 9], "parent": [None, 7.0, 8.5]})
    >>> codes.encode(EventBatch.of(events)).tolist(), codes.sizes()
    ([[0, 1, 2], [-1, 0, 3]], [4])
    """

    def __init__(
        self,
        domains: Sequence[Sequence[tuple[str, ...]]],
        partitioned: bool = False,
        calculated: Mapping[str, Calculate] = NOT_CALCULATED,
    ) -> None:
        self.partitioned = partitioned
        self._domains = [_Domain(columns, partitioned, calculated) for columns in domains]
        self._columns = sum(len(domain.columns) for domain in self._domains)

    def encode(self, batch: EventBatch, keys: Int64s | None = None) -> Int64s:
        """Return codes of shape (columns, events); -1 where a value (or key) is missing."""
        if self.partitioned != (keys is not None):
            raise ValueError("partition keys are given exactly when the codes are partitioned")
        codes = np.empty((self._columns, len(batch)), np.int64)
        row = 0
        for domain in self._domains:
            for column in domain.columns:
                codes[row] = domain.encode(batch, column, keys)
                row += 1
        return codes

    def sizes(self) -> list[int]:
        """Return how many codes each domain has given."""
        return [len(domain) for domain in self._domains]

    def value_counts(self) -> list[int]:
        """Return how many values each domain keeps; those of incomplete tuples have no code."""
        return [domain.value_count for domain in self._domains]

    def keep_only(self, domain: int, codes: Int64s) -> None:
        """Forget all codes of the domain but these (ascending); codes[i] becomes i.

        Not for a domain without attributes, whose codes are those of partitions.
        """
        tuples = self._domains[domain].tuples
        if tuples is None:
            raise ValueError("a domain without attributes has the partitions' codes")
        tuples.keep_only(codes)

    def list_partitions(self, domain: int) -> Int64s:
        """Return the partition of each code of a domain; -1 where it was dropped."""
        tuples = self._domains[domain].tuples
        if tuples is None or not self.partitioned:
            raise ValueError("only tuples of attributes inside partitions have partitions")
        return tuples.list_first()

    def keep_partitions(self, codes: Int64s) -> None:
        """Renumber partition codes: codes[i] (ascending) becomes i, the others are dropped.

        Codes of domains do not change; those of dropped partitions stay until `keep_only`.
        """
        for domain in self._domains:
            domain.keep_partitions(codes)

    def freeze(self) -> Tree:
        """Return the state."""
        return write(FrozenDomains([domain.freeze() for domain in self._domains]))

    def thaw(self, tree: Tree) -> None:
        """Restore the state that `freeze` returned."""
        frozen = read(FrozenDomains, tree, domains=len(self._domains))
        for domain, own in zip(self._domains, frozen.domains, strict=True):
            domain.thaw(own)


class _Domain:
    """One numbering and the columns that share it."""

    def __init__(
        self,
        columns: Sequence[tuple[str, ...]],
        partitioned: bool,
        calculated: Mapping[str, Calculate],
    ) -> None:
        arities = {len(column) for column in columns}
        if len(arities) != 1:
            raise ValueError("the columns of a domain have one number of attributes")
        self.columns = tuple(columns)
        self.partitioned = partitioned
        self.calculated = calculated
        arity = arities.pop()
        self.tuples = Tuples(arity, leading=partitioned) if arity else None
        self._partitions = 0

    def __len__(self) -> int:
        if self.tuples is not None:
            return len(self.tuples)
        return self._partitions if self.partitioned else 1

    @property
    def value_count(self) -> int:
        return len(self) if self.tuples is None else self.tuples.value_count

    def encode(self, batch: EventBatch, column: tuple[str, ...], keys: Int64s | None) -> Int64s:
        if self.tuples is None:
            if keys is None:
                return np.zeros(len(batch), np.int64)
            self._partitions = max(self._partitions, int(keys.max(initial=NONE)) + 1)
            return np.maximum(keys, NONE)
        parts = [] if keys is None else [keys]
        for name, numbering in zip(column, self.tuples.components, strict=True):
            parts.append(_per_part(batch, name, numbering.codes, self.calculated))
        return self.tuples.codes(parts)

    def keep_partitions(self, codes: Int64s) -> None:
        if self.tuples is None:
            self._partitions = len(codes)
        elif self.partitioned:
            self.tuples.keep_leading(codes)

    def freeze(self) -> Tree:
        if self.tuples is not None:
            return self.tuples.freeze()
        return write(FrozenPartitions(self._partitions))

    def thaw(self, tree: Tree) -> None:
        if self.tuples is not None:
            self.tuples.thaw(tree)
        else:
            self._partitions = read(FrozenPartitions, tree).partitions


# ------------------------------------------------------------------- order


class OrderValues:
    """Two words per value that sort as the values do.

    `pairs` are the columns that are compared with each other; `encode` raises where both
    hold text, and where a decimal has more than 34 digits. `text` collects the columns that have
    held text. Columns of `one_word` do without the second word. `calculated` has the columns that
    the events do not have.

    >>> order = OrderValues(["a", "b"])
    >>> events = pa.table({"a": [2**53 + 1, None], "b": [2.0**53, 0.5]})
    >>> high, low = order.encode(EventBatch.of(events))
    >>> bool(high[0, 0] == high[1, 0]), bool(low[0, 0] > low[1, 0]), int(high[0, 1]) == NOTHING
    (True, True, True)
    """

    def __init__(
        self,
        columns: Sequence[str],
        pairs: Iterable[tuple[str, str]] = (),
        calculated: Mapping[str, Calculate] = NOT_CALCULATED,
        one_word: Container[str] = (),
    ) -> None:
        self.columns = tuple(columns)
        self.one_word = one_word
        self.pairs = tuple(pairs)
        self.calculated = calculated
        self.text: set[str] = set()
        self._time_kinds: set[int] = set()

    def encode(self, batch: EventBatch) -> Int64s:
        """Return words of shape (2, columns, events); the first is NOTHING for NULL and NaN."""
        words = np.zeros((2, len(self.columns), len(batch)), np.int64)
        for i, name in enumerate(self.columns):
            columns = _columns(batch, name, self.calculated)
            self._learn_kinds(name, columns)
            parts = [_column_words(column) for column in columns]
            if any(_has_long_decimals(column) for column in columns):
                raise DataError(_refuse_decimals(name))
            words[0, i] = _interleave(batch, [high for high, _ in parts])
            if any(low is not None for _, low in parts):
                words[1, i] = _interleave(batch, [_rest(words) for words in parts])
                if name in self.one_word and words[1, i].any():
                    raise DataError(_refuse_large(name))
        for earlier, later in self.pairs:
            if earlier in self.text and later in self.text:
                raise DataError(_refuse_text(earlier, later))
        return words

    def freeze(self) -> Tree:
        """Return the state."""
        return write(FrozenOrder(sorted(self.text), sorted(self._time_kinds)))

    def thaw(self, tree: Tree) -> None:
        """Restore the state that `freeze` returned."""
        frozen = read(FrozenOrder, tree)
        require({*frozen.texts} <= {*self.columns}, "the query compares no such text")
        self.text, self._time_kinds = {*frozen.texts}, {*frozen.times}

    def _learn_kinds(self, name: str, columns: list[pa.ChunkedArray]) -> None:
        present = {kind_of(c.type) for c in columns if c.null_count < len(c)}
        if present & _UNORDERED:
            self.text.add(name)
        if name == TIME:
            self._time_kinds |= present
            if {NUMBER, INSTANT} <= self._time_kinds:
                raise DataError(
                    "times are compared, but they are numbers in one input and dates in another; "
                    "give all inputs a time column of one kind"
                )


def _has_long_decimals(column: pa.ChunkedArray) -> bool:
    """Return whether some decimal has more digits than its words hold."""
    type_ = value_type(column.type)
    if not is_long_decimal(type_):
        return False
    return any(
        len(value.normalize(EXACT).as_tuple().digits) > MOST_ORDERED_DIGITS
        for value in column.cast(type_).unique().drop_null().to_pylist()
    )


def _refuse_decimals(name: str) -> str:
    """Return the message for decimals that are compared by order."""
    return (
        f"{name!r} holds decimals of more than {MOST_ORDERED_DIGITS} digits, whose order can be "
        "compared only where that is known before the query runs; give the column one type from "
        "the first events on"
    )


def _refuse_large(name: str) -> str:
    """Return the message for whole numbers that a range of floats meets."""
    return (
        f"{name!r} is a whole number beyond 2⁵³ where numbers with a fraction came before, and a "
        "range of it is asked for; declare that it is an int with CREATE STREAM"
    )


def _refuse_text(earlier: str, later: str) -> str:
    """Return the message for columns of text that are compared by order."""
    named = repr(earlier) if earlier == later else f"{earlier!r} and {later!r}"
    holds = "holds" if earlier == later else "hold"
    which = "it is" if earlier == later else "they are"
    return (
        f"{named} {holds} text, whose order can be compared only where that is known "
        f"before the query runs; declare that {which} text with CREATE STREAM"
    )


_Words = tuple[Int64s, Int64s | None]
"""First and second words; None: the second words are 0."""


def _rest(words: _Words) -> Int64s:
    high, low = words
    return np.zeros(len(high), np.int64) if low is None else low


def _column_words(column: pa.ChunkedArray) -> _Words:
    chunks = [_words(chunk) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    high = np.concatenate([np.empty(0, np.int64), *(high for high, _ in chunks)])
    if all(low is None for _, low in chunks):
        return high, None
    return high, np.concatenate([_rest(chunk) for chunk in chunks])


def _words(values: pa.Array) -> _Words:
    type_, kind = values.type, kind_of(values.type)
    if pa.types.is_dictionary(type_):
        return _look_up(_words(values.dictionary), values.indices)
    if pa.types.is_decimal(type_):
        return _decimal_words(values)
    high, low = np.empty(len(values), np.int64), np.zeros(len(values), np.int64)
    if pa.types.is_floating(type_):
        floats = values.cast(pa.float64()).fill_null(np.nan).to_numpy()
        sort, loop = partial(_sort_floats, floats, high), partial(_write_floats, floats, high)
        arrays_first(_write_floats, sort, loop)
        return high, None
    if kind == NUMBER:
        unsigned = pa.types.is_uint64(type_)
        numbers = values.view(pa.int64()) if unsigned else values.cast(pa.int64())
        args = _fill(numbers), unsigned, high, low
        loop = partial(_write_integers, *args)
        more = arrays_first(_write_integers, partial(_sort_integers, *args), loop)
    elif kind in (BOOLEAN, INSTANT, CLOCK_TIME, DURATION):
        ticks, factor = (values.cast(pa.int64()), 1) if kind == BOOLEAN else ticks_of(values)
        middle = INFINITY + (kind << KIND_BITS) + (1 << KIND_BITS - 1)
        some = _fill(ticks), factor, middle, high, low
        loop = partial(_write_ticks, *some)
        more = arrays_first(_write_ticks, partial(_sort_ticks, *some), loop)
    else:
        return np.full(len(values), NOTHING, np.int64), None
    valid = valid_rows(values)
    if valid is not None:
        high[~valid] = NOTHING
    return high, low if more else None


def _fill(values: pa.Array) -> Int64s:
    return np.asarray(values.fill_null(0) if values.null_count else values)


def _look_up(words: _Words, index: pa.Array) -> _Words:
    high, low = words
    valid = valid_rows(index)
    if valid is not None:
        # one entry more, for rows without a value
        index = index.cast(pa.int64()).fill_null(len(high))
        high = np.append(high, NOTHING)
        low = None if low is None else np.append(low, 0)
    at = np.asarray(index)
    return high[at], None if low is None else low[at]


def _sort_floats(numbers: npt.NDArray[np.float64], high: Int64s) -> Literal[True]:
    """Do the work of `_write_floats` by NumPy."""
    high[:] = np.where(numbers == numbers, to_sortable(numbers), NOTHING)
    return True


def _sort_integers(numbers: Int64s, unsigned: bool, high: Int64s, low: Int64s) -> bool | None:
    """Do the work of `_write_integers`, unless some number has too many bits for a float64."""
    least, most = numbers.min(initial=0), numbers.max(initial=0)
    if most >= 1 << 53 or least < (0 if unsigned else -(1 << 53)):
        return None
    high[:] = to_sortable(numbers.astype(np.float64))
    return False


def _sort_ticks(ticks: Int64s, factor: int, middle: int, high: Int64s, low: Int64s) -> bool:
    """Do the work of `_write_ticks`."""
    upper, lower = (ticks >> 31) * factor, (ticks & 0x7FFFFFFF) * factor
    total = ((upper & 0x7FFFFFFF) << 31) + lower
    high[:] = middle + (upper >> 31) + (total >> _REST_BITS)
    low[:] = total & ((1 << _REST_BITS) - 1)
    return bool(low.any())


@kernel
def _write_floats(numbers: npt.NDArray[np.float64], high: Int64s) -> bool:
    """Write the words of floats."""
    floats = high.view(np.float64)
    for i in range(len(numbers)):
        number = numbers[i]
        if number == number:
            floats[i] = number + 0.0  # both zeros alike
            high[i] ^= (high[i] >> 63) & 0x7FFFFFFFFFFFFFFF
        else:
            high[i] = NOTHING
    return True


@kernel
def _write_integers(numbers: Int64s, unsigned: bool, high: Int64s, low: Int64s) -> bool:
    """Write first words, and second words that are not 0; return whether there are such.

    With `unsigned`, a negative number stands for itself plus 2**64.
    """
    floats = high.view(np.float64)
    more = False
    for i in range(len(numbers)):
        number = numbers[i]
        bits = 0  # too many for a float64
        if unsigned and number < 0:
            bits = 11
        else:
            size = number if number >= 0 else ~number
            while size >> (53 + bits):
                bits += 1
        rest = number - ((number >> bits) << bits)
        floats[i] = float(number - rest)
        if unsigned and number < 0:
            floats[i] += 18446744073709551616.0
        high[i] ^= (high[i] >> 63) & 0x7FFFFFFFFFFFFFFF
        if rest:
            low[i] = rest << (_REST_BITS - bits)
            more = True
    return more


@kernel
def _write_ticks(ticks: Int64s, factor: int, middle: int, high: Int64s, low: Int64s) -> bool:
    """Write `ticks * factor` around the middle of a region: its bits from 62 on, and those below.

    The product may have 93 bits, so 31 bits of the ticks are multiplied at a time. Writes and
    returns as `_write_integers` does.
    """
    more = False
    for i in range(len(ticks)):
        upper, lower = (ticks[i] >> 31) * factor, (ticks[i] & 0x7FFFFFFF) * factor
        total = ((upper & 0x7FFFFFFF) << 31) + lower
        high[i] = middle + (upper >> 31) + (total >> _REST_BITS)
        rest = total & ((1 << _REST_BITS) - 1)
        if rest:
            low[i] = rest
            more = True
    return more


def _decimal_words(values: pa.Array) -> _Words:
    if values.type.scale == 0 and values.type.precision <= 18:
        return _words(values.cast(pa.int64()))
    encoded = values.dictionary_encode()
    below, rest = np.empty(len(encoded.dictionary)), np.empty(len(encoded.dictionary), np.int64)
    for i, value in enumerate(encoded.dictionary.to_pylist()):
        below[i], rest[i] = _split_decimal(value)
    return _look_up((to_sortable(below), rest), encoded.indices)


def _split_decimal(value: Decimal) -> tuple[float, int]:
    """Return the float64 at or below, and the rest; in integers, as fractions are far slower.

    >>> _split_decimal(Decimal("0.5")), _split_decimal(Decimal(2**53 + 1))[1] == 2**61
    ((0.5, 0), True)
    """
    number, divisor = value.as_integer_ratio()
    below = number / divisor
    top, bottom = below.as_integer_ratio()
    if top * divisor > number * bottom:
        below = nextafter(below, -inf)
        top, bottom = below.as_integer_ratio()
    step, part = (nextafter(below, inf) - below).as_integer_ratio()
    rest = number * bottom - top * divisor
    return below, (rest * part << _REST_BITS) // (divisor * bottom * step)


# ----------------------------------------------------------------- columns


def _per_part(
    batch: EventBatch,
    name: str,
    values: Callable[[pa.ChunkedArray], npt.NDArray[Any]],
    calculated: Mapping[str, Calculate] = NOT_CALCULATED,
) -> npt.NDArray[Any]:
    return _interleave(batch, [values(column) for column in _columns(batch, name, calculated)])


def _interleave(batch: EventBatch, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    remaining = iter(parts)
    return batch.interleave(lambda _, table: next(remaining))


def _columns(
    batch: EventBatch, name: str, calculated: Mapping[str, Calculate] = NOT_CALCULATED
) -> list[pa.ChunkedArray]:
    """Return the attribute in each part of the batch."""
    if name in calculated:
        calculate = calculated[name]
        parts = range(len(batch.parts))
        columns = (batch.read_part(i, lambda _, table: calculate(table)) for i in parts)
        return [pa.chunked_array([column]) for column in columns]
    if name == TIME:
        if batch.time_column is None:
            return [pa.chunked_array([at]) for at in _positions(batch)]
        return [_as_times(column) for column in _columns(batch, batch.time_column)]
    path = tuple(name.split("."))
    found = ((table, attribute(table, path)) for _, table in batch.parts)
    return [
        pa.chunked_array([pa.nulls(table.num_rows)]) if column is None else column
        for table, column in found
    ]


def _as_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if kind_of(column.type) != TEXT:
        return column
    return pa.chunked_array([parse_timestamps(c) for c in column.chunks], pa.timestamp("ns", "UTC"))


def _positions(batch: EventBatch) -> list[Int64s]:
    """Return for each part the positions of its rows."""
    at = np.arange(batch.base, batch.base + len(batch), dtype=np.int64)
    positions = []
    for source, (_, table) in enumerate(batch.parts):
        mine = slice(None) if batch.which is None else batch.which == source
        rows = slice(None) if batch.index is None else batch.index[mine]
        found = np.zeros(table.num_rows, np.int64)
        found[rows] = at[mine]
        positions.append(found)
    return positions
