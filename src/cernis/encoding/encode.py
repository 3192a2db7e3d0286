"""`AtomEncoder`: the truth of every atom of a query, as one small code per event.

Atoms are grouped by the column that they read. A group puts the column's values
into few *classes*, such that all values of a class give its atoms the same truth:

* text compared with constants for equality: a hash table of those constants, straight
  on Arrow's buffers;
* numbers and times compared with constants: the intervals between the constants;
* dictionaries, booleans, and text under LIKE or order: the distinct values, each
  evaluated once (text that is mostly distinct: row by row);
* everything else (arithmetic, several columns): Arrow compute, row by row.

In all but the last, atoms are evaluated (by `evaluate_predicate`) on one representative
per class and never on rows. The classes of an event's groups are the digits of a mixed-radix
number, and a table maps it to the code of the event's vector. Codes count up as vectors
first appear. Cost: one pass of a few nanoseconds per row and group, one for the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cernis.encoding import classify
from cernis.encoding.hashing import BytesTable, IntTable
from cernis.events.batch import EventBatch, Int32s
from cernis.events.column_types import is_text, join_chunks
from cernis.events.evaluation.attributes import attribute
from cernis.events.evaluation.evaluate import (
    SharedLookup,
    evaluate_predicate,
    float_at_most,
    parse_instant,
    replace_surrogates,
)
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs

Path = tuple[str, ...]
Vector = tuple[bool, ...]
Add = Callable[[classify.Codes, npt.NDArray[Any]], None]

_DENSE = 1 << 20
_NARROW = 1 << 31
_WIDE = 1 << 62
_PACKED = 8
_MANY = 0.5  # if more of a batch's texts are new, evaluating each of them once does not pay
_DISTINCT = 1 << 16
_SHORT = 1 << 14  # rows in a chunk
_FEW = 16  # values that are put into classes one by one


class KnownTruths(Protocol):
    """The combinations of truths of some atoms that events have had."""

    @property
    def atoms(self) -> tuple[Atom, ...]: ...
    @property
    def vectors(self) -> list[Vector]: ...


class SeenTruths(NamedTuple):
    """The combinations of truths of some atoms that events have had."""

    atoms: tuple[Atom, ...]
    vectors: list[Vector]


class Encoder(KnownTruths, Protocol):
    """Tells which atoms hold for an event."""

    def encode(self, batch: EventBatch) -> Int32s:
        """Return one code per event; `vectors[code]` is the truth of every atom."""


Encode = Callable[[Sequence[Atom]], Encoder]


class AtomEncoder:
    """Give each event the code of its vector of truth values.

    >>> cheap = pred.Comparison("<", pred.Attribute(("price",)), pred.Literal(10))
    >>> encoder = AtomEncoder([TypeIs("A"), cheap])
    >>> events = pa.table({"type": ["A", "B", "A"], "price": [3, 30, None]})
    >>> encoder.encode(EventBatch.of(events)).tolist(), encoder.vectors
    ([0, 1, 2], [(True, True), (False, False), (True, False)])
    """

    def __init__(
        self, atoms: Sequence[Atom], type_column: str = "type", known: KnownGroups | None = None
    ) -> None:
        """Encoders with the same `known` groups of atoms share the classes of their values."""
        self.atoms = tuple(atoms)
        self.vectors: list[Vector] = []
        self._codes: dict[Vector, int] = {}
        self._groups = _group_atoms(self.atoms, type_column, {} if known is None else known)
        self._table: _Combination | None = None

    def encode(self, batch: EventBatch) -> Int32s:
        """Return one code per event; `vectors[code]` is the truth of every atom."""
        return batch.interleave(self._part)

    def _part(self, stream: str, table: pa.Table) -> Int32s:
        if not self._groups:
            return np.full(table.num_rows, self._code_of([]), np.int32)
        out = np.empty(table.num_rows, np.int32)
        for rows, pieces in _cut_columns(self._groups, table):
            out[rows] = self._run(stream, pieces, rows.stop - rows.start)
        return out

    def _run(self, stream: str, columns: list[list[pa.Array | None]], length: int) -> Int32s:
        digits = [group.digit(stream, columns[i], length) for i, group in enumerate(self._groups)]
        sizes = tuple(len(group.classes) for group in self._groups)
        if self._table is None or self._table.sizes != sizes:
            self._table = _combination(sizes)
        return self._table.codes(digits, length, self._code_of)

    def _code_of(self, classes: Sequence[int]) -> int:
        """Return the code of the vector that a class of each group makes up."""
        truths = [False] * len(self.atoms)
        for group, number in zip(self._groups, classes, strict=False):
            for atom, holds in zip(group.atoms, group.classes[number], strict=True):
                truths[atom] = holds
        vector = tuple(truths)
        code = self._codes.setdefault(vector, len(self.vectors))
        if code == len(self.vectors):
            self.vectors.append(vector)
        return code


class ClassEncoder:
    """Give each event the class of its values for each group of atoms.

    It is for the atoms of many automata, of which each asks few (`encoding.bundle`): the vectors of
    all atoms together are too many for a code each.
    """

    def __init__(self, atoms: Sequence[Atom], type_column: str = "type") -> None:
        self._groups = _group_atoms(tuple(atoms), type_column, {})

    @property
    def groups(self) -> list[tuple[tuple[int, ...], list[Vector]]]:
        """Return for each group the indices of its atoms, and their truth in each class."""
        return [(group.atoms, group.classes) for group in self._groups]

    def encode(self, batch: EventBatch) -> list[npt.NDArray[np.int64]]:
        """Return a class per event, for each group."""
        return [batch.interleave(partial(self._part, group)) for group in self._groups]

    def _part(self, group: _Group, stream: str, table: pa.Table) -> npt.NDArray[np.int64]:
        out = np.zeros(table.num_rows, np.int64)
        for rows, [columns] in _cut_columns([group], table):
            digit = group.digit(stream, columns, rows.stop - rows.start)
            digit.add(out[rows], digit.lookup)
        return out


@lru_cache(maxsize=1 << 15)
def compares_constants(atom: Atom) -> bool:
    """Return whether an atom compares one column with constants, by few classes of its values.

    Text is compared for equality alone: its order needs a class for each value.
    """
    if isinstance(atom, TypeIs):
        return True
    predicate = collect_sets(atom)
    paths = {each.path for each in pred.attributes_of(predicate)}
    if len(paths) != 1 or not _is_plain(predicate):
        return False
    texts = any(isinstance(each, str) for each in _constants(predicate))
    return _is_equality(predicate) or not texts


# ------------------------------------------------------------------ chunks


def _cut_columns(
    groups: Sequence[_Group], table: pa.Table
) -> Iterator[tuple[slice, list[list[pa.Array | None]]]]:
    """Yield rows that lie within one chunk of each column, and the columns of each group there."""
    columns = [group.columns(table) for group in groups]
    cuts = _cuts(columns, table.num_rows)
    if len(cuts) > 4 + table.num_rows / _SHORT:
        columns = [[c if c is None else join_chunks(c) for c in some] for some in columns]
        cuts = _cuts(columns, table.num_rows)
    for start, stop in pairwise(cuts):
        yield (
            slice(start, stop),
            [[_slice_chunk(column, start, stop) for column in some] for some in columns],
        )


def _cuts(groups: list[list[pa.ChunkedArray | None]], rows: int) -> list[int]:
    """Return the rows at which some column's chunk ends, with 0 and the number of rows."""
    cuts = {0, rows}
    for column in chain.from_iterable(groups):
        if column is not None and column.num_chunks > 1:
            cuts.update(np.cumsum([len(chunk) for chunk in column.chunks]).tolist())
    return sorted(cuts)


def _slice_chunk(column: pa.ChunkedArray | None, start: int, stop: int) -> pa.Array | None:
    """Return rows of a column that lie within one chunk."""
    if column is None:
        return None
    if column.num_chunks == 1:
        chunk = column.chunk(0)
        return chunk if len(chunk) == stop - start else chunk.slice(start, stop - start)
    pieces = column.slice(start, stop - start).chunks
    return next(chunk for chunk in pieces if len(chunk))


# ------------------------------------------------------------------ groups


@dataclass(frozen=True, slots=True)
class _AtomTest:
    """An atom as a predicate, and the stream it is confined to."""

    predicate: pred.Predicate
    stream: str | None = None


class _Group:
    """Atoms that look at the same columns, and the classes of values met so far."""

    def __init__(self, paths: tuple[Path, ...], atoms: list[int], tests: list[_AtomTest]) -> None:
        self.paths = paths
        self.atoms = tuple(atoms)
        self._tests = tests
        self.classes: list[Vector] = []
        self._numbers: dict[Vector, int] = {}
        self._constants = [c for test in tests for c in _constants(test.predicate)]
        self._only_equality = all(_is_equality(test.predicate) for test in tests)
        self._only_constants = all(_is_plain(test.predicate) for test in tests)
        self._streams = {test.stream for test in tests}
        self._cache: dict[Any, Any] = {}
        self._many_distinct = False

    def columns(self, table: pa.Table) -> list[pa.ChunkedArray | None]:
        return [attribute(table, path) for path in self.paths]

    def digit(self, stream: str, columns: list[pa.Array | None], length: int) -> _Digit:
        """Return how to add this group's class numbers for some rows."""
        stream = stream if len(self._streams) > 1 or None not in self._streams else ""
        if len(columns) != 1:
            return self._by_row(stream, columns, length)
        column = columns[0]
        if column is None or pa.types.is_null(column.type):
            return self._everywhere(stream)
        type_ = column.type
        if pa.types.is_dictionary(type_):
            return self._by_dictionary(stream, column)
        if pa.types.is_boolean(type_):
            return self._by_boolean(stream, column)
        if is_text(type_):
            if self._only_equality:
                return self._by_literal(stream, column)
            if not self._many_distinct:
                return self._by_distinct(stream, column)
        elif self._only_constants:
            digit = self._by_threshold(stream, column)
            if digit is not None:
                return digit
        return self._by_row(stream, columns, length)

    # one representative per class

    def _class_of(self, vector: Vector) -> int:
        number = self._numbers.setdefault(vector, len(self.classes))
        if number == len(self.classes):
            self.classes.append(vector)
        return number

    def _classify(self, stream: str, values: pa.Array) -> npt.NDArray[np.int64]:
        """Return the class of each value: evaluate every atom on it."""
        lookup = self._share([values])
        truths = [self._truth(test, stream, lookup, len(values)) for test in self._tests]
        if len(values) < _FEW:
            vectors = zip(*(truth.tolist() for truth in truths), strict=True)
            return np.array([self._class_of(vector) for vector in vectors], np.int64)
        rows = np.ascontiguousarray(np.stack(truths, axis=1))
        packed = np.packbits(rows, axis=1)
        _, first, back = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        numbers = [self._class_of(tuple(rows[i].tolist())) for i in first]
        return np.array(numbers, np.int64)[back.reshape(-1)]

    def _share(self, columns: list[pa.Array | None]) -> SharedLookup:
        """Return the columns for all atoms of the group."""
        by_path = dict(zip(self.paths, columns, strict=True))
        return SharedLookup(lambda path: by_path[path])

    def _truth(
        self, test: _AtomTest, stream: str, lookup: SharedLookup, length: int
    ) -> npt.NDArray[np.bool_]:
        if test.stream is not None and test.stream != stream:
            return np.zeros(length, np.bool_)
        found = evaluate_predicate(test.predicate, lookup, length)
        if found.null_count:
            found = found.fill_null(False)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

    def _classes_of(self, key: str, stream: str, values: pa.Array) -> npt.NDArray[np.int64]:
        """Return the class of each value; the cache keeps them by the key."""
        if (key, stream) not in self._cache:
            self._cache[key, stream] = self._classify(stream, values)
        found: npt.NDArray[np.int64] = self._cache[key, stream]
        return found

    def _everywhere(self, stream: str) -> _Digit:
        return _Digit(self._classes_of("null", stream, pa.nulls(1)), _add_at(0))

    def _by_dictionary(self, stream: str, column: pa.DictionaryArray) -> _Digit:
        values, indices = column.dictionary, column.indices.cast(pa.int32())
        key = ("dictionary", stream)
        known, lookup = self._cache.get(key, (None, None))
        if known is None or not (known.type == values.type and known.equals(values)):
            with_null = pa.concat_arrays([values, pa.nulls(1, values.type)])
            lookup = self._classify(stream, with_null)
            self._cache[key] = values, lookup
        index, nulls = classify.values_of(indices, np.int32), classify.nulls_of(indices)
        return _Digit(
            lookup,
            lambda codes, scaled: classify.add_by_index(codes, index, scaled, scaled[-1], nulls),
        )

    def _by_distinct(self, stream: str, column: pa.Array) -> _Digit:
        """Evaluate text under LIKE or order once for each value."""
        key = ("distinct", stream)
        if key not in self._cache:
            self._cache[key] = BytesTable(), np.empty(0, np.int64)
        table, classes = self._cache[key]
        known = len(table)
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        index = table.codes(*classify.text_of(column), valid)
        new = len(table) - known
        if new:
            ends = table.ends[known:]
            # from 0: Arrow's ascii_lower reads past the end of texts that begin elsewhere
            texts = pa.LargeStringArray.from_buffers(
                new,
                pa.py_buffer(ends - ends[0]),
                pa.py_buffer(table.pool[ends[0] : ends[-1]].copy()),
            )
            classes = np.concatenate([classes, self._classify(stream, texts)])
        self._cache[key] = table, classes
        if len(table) > _DISTINCT or (len(column) > 1000 and new > _MANY * len(column)):
            self._many_distinct = True
            del self._cache[key]
        lookup = np.append(classes, self._everywhere(stream).lookup)
        return _Digit(lookup, _add_at(index))  # -1, for NULL, is the last entry

    def _by_boolean(self, stream: str, column: pa.Array) -> _Digit:
        lookup = self._classes_of("boolean", stream, pa.array([False, True, None]))
        index = classify.values_of(column.cast(pa.int32()).fill_null(2), np.int32)
        nulls = classify.nulls_of(pa.array([0]))
        return _Digit(
            lookup,
            lambda codes, scaled: classify.add_by_index(codes, index, scaled, scaled[2], nulls),
        )

    @cached_property
    def _literals(self) -> tuple[classify.Literals, pa.Array]:
        """The constant texts as a table; as values, with one that is none of them and NULL."""
        constants = (replace_surrogates(c) for c in self._constants if isinstance(c, str))
        texts = list(dict.fromkeys(constants))
        other = max(texts, key=len, default="") + "?"
        return classify.Literals(texts), pa.array([*texts, other, None], pa.string())

    def _by_literal(self, stream: str, column: pa.Array) -> _Digit:
        literals, values = self._literals
        lookup = self._classes_of("text", stream, values)
        return _Digit(lookup, lambda codes, scaled: literals.add(codes, column, scaled))

    def _by_threshold(self, stream: str, column: pa.Array) -> _Digit | None:
        type_ = column.type
        key = (type_, stream)
        if key not in self._cache:
            self._cache[key] = self._thresholds(stream, type_)
        if self._cache[key] is None:
            return None
        thresholds, lookup = self._cache[key]
        wide = _widen(column)
        values, nulls = classify.values_of(wide, thresholds.dtype), classify.nulls_of(wide)
        return _Digit(
            lookup,
            lambda codes, scaled: classify.add_by_thresholds(
                codes, values, thresholds, scaled, nulls
            ),
        )

    def _thresholds(
        self, stream: str, type_: pa.DataType
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None:
        """Return the values at which the truth of some atom can change, and the classes between."""
        dtype = _ordered_as(type_)
        if dtype is None:
            return None
        if dtype.kind == "f":
            thresholds = _float_thresholds(self._constants, dtype)
            lowest, odd = np.array([-np.inf], dtype), [None, math.nan]
        else:
            thresholds = _int_thresholds(self._constants, type_, dtype)
            lowest, odd = np.array([np.iinfo(dtype).min], dtype), [None]
        ends = pa.array(np.concatenate([lowest, thresholds]).astype(dtype))
        if not ends.type.equals(type_):
            ends = ends.view(type_)
        values = pa.concat_arrays([ends, pa.array(odd, ends.type)])
        wide = {"f": np.float64, "u": np.uint64}.get(dtype.kind, np.int64)
        return thresholds.astype(wide), self._classify(stream, values)

    # row by row

    def _by_row(self, stream: str, columns: list[pa.Array | None], length: int) -> _Digit:
        """Evaluate every atom on every row; eight atoms make a byte, bytes make a class."""
        plain = [
            c.dictionary_decode() if c is not None and pa.types.is_dictionary(c.type) else c
            for c in columns
        ]
        numbers, seen = np.zeros(length, np.int64), [()]
        shared = self._share(plain)
        for first in range(0, len(self._tests), 8):
            tests = self._tests[first : first + 8]
            byte = np.zeros(length, np.uint8)
            for i, test in enumerate(tests):
                byte |= self._truth(test, stream, shared, length).view(np.uint8) << np.uint8(i)
            table = IntTable()
            numbers = table.codes(numbers << 8 | byte)
            seen = [
                seen[pair >> 8] + tuple(bool(pair >> i & 1) for i in range(len(tests)))
                for pair in table.values.tolist()
            ]
        lookup = np.array([self._class_of(vector) for vector in seen], np.int64)
        return _Digit(lookup, _add_at(numbers))


KnownGroups = MutableMapping[tuple[tuple[Path, ...], tuple[tuple[int, _AtomTest], ...]], _Group]
"""Groups by their columns, and by their atoms with the indices of these in an encoder."""


@dataclass(frozen=True, slots=True, eq=False)
class _Digit:
    """One group's digit in the codes of some rows.

    `lookup` maps what the kernel finds to class numbers. `add` runs the kernel with that lookup,
    scaled to the digit's position in the code.
    """

    lookup: npt.NDArray[np.int64]
    add: Add


def _add_at(index: int | npt.NDArray[Any]) -> Add:
    """Return how to add the entries at an index."""

    def add(codes: classify.Codes, scaled: npt.NDArray[Any]) -> None:
        codes += scaled[index]

    return add


def _ordered_as(type_: pa.DataType) -> Any:
    """Return the machine type in which a column's values compare as they are, if there is one."""
    types = pa.types
    if types.is_integer(type_) or types.is_float64(type_) or types.is_float32(type_):
        return np.dtype(type_.to_pandas_dtype())
    if types.is_date32(type_) or types.is_time32(type_):
        return np.dtype(np.int32)
    if types.is_timestamp(type_) or types.is_date64(type_) or types.is_time64(type_):
        return np.dtype(np.int64)
    return None


def _widen(column: pa.Array) -> pa.Array:
    """Return the column as 64-bit numbers, so that few kernels are compiled."""
    type_, types = column.type, pa.types
    if types.is_floating(type_):
        return column.cast(pa.float64())
    if types.is_unsigned_integer(type_):
        return column.cast(pa.uint64())
    if types.is_date32(type_) or types.is_time32(type_):
        column = column.view(pa.int32())
    return column.cast(pa.int64()) if types.is_integer(column.type) else column


def _int_thresholds(
    constants: Iterable[pred.Scalar], type_: pa.DataType, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return the smallest integers at and above each constant."""
    info = np.iinfo(dtype)
    found = set()
    for constant in constants:
        number: pred.Number | Fraction | None
        if isinstance(constant, str):
            number = parse_instant(constant, type_)
        else:
            number = None if isinstance(constant, bool) else pred.to_exact(constant)
        if number is None or isinstance(number, float):
            continue
        found |= {math.ceil(number), math.floor(number) + 1}
    return np.array(sorted(t for t in found if int(info.min) < t <= int(info.max)), dtype)


def _float_thresholds(constants: Iterable[pred.Scalar], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the smallest floats at and above each constant."""
    found = set()
    for constant in constants:
        if isinstance(constant, (bool, str)):
            continue
        constant = pred.to_machine(constant)
        with np.errstate(over="ignore"):
            below = dtype.type(float_at_most(constant))
            if float(below) > constant:
                below = np.nextafter(below, dtype.type(-np.inf))
            above = np.nextafter(below, dtype.type(np.inf))
        found |= {below, above}
    return np.array(sorted(t for t in found if t > -np.inf and t == t), dtype)


# ------------------------------------------------------------- predicates


def _group_atoms(atoms: Sequence[Atom], type_column: str, known: KnownGroups) -> list[_Group]:
    """Group atoms by the columns that they read and the way to classify these."""
    by_kind: dict[tuple[tuple[Path, ...], str], list[tuple[int, _AtomTest]]] = {}
    for i, atom in enumerate(atoms):
        if isinstance(atom, TypeIs):
            is_type = pred.Comparison("=", pred.Attribute((type_column,)), pred.Literal(atom.type))
            test = _AtomTest(is_type, atom.stream)
        else:
            test = _AtomTest(collect_sets(atom))
        paths = tuple(dict.fromkeys(a.path for a in pred.attributes_of(test.predicate)))
        kind = "rows"
        if len(paths) == 1:
            predicate = test.predicate
            kind = (
                "equality" if _is_equality(predicate)
                else "plain" if _is_plain(predicate)
                else "one column"
            )  # fmt: skip
        by_kind.setdefault((paths, kind), []).append((i, test))
    groups = []
    for (paths, kind), members in by_kind.items():
        size = len(members) if kind in ("equality", "plain") else _PACKED
        for first in range(0, len(members), size):
            some = tuple(members[first : first + size])
            group = known.get((paths, some))
            if group is None:
                group = _Group(paths, [i for i, _ in some], [test for _, test in some])
                known[paths, some] = group
            groups.append(group)
    return groups


def collect_sets(predicate: pred.Predicate) -> pred.Predicate:
    """Write `a = 1 OR a = 2 OR …` as `a IN {1, 2, …}`."""
    match predicate:
        case pred.Or(parts=parts):
            rest: list[pred.Predicate] = []
            values: dict[pred.Attribute, dict[pred.Literal, None]] = {}
            for part in parts:
                match part:
                    case (
                        pred.Comparison(
                            op="=", left=pred.Attribute() as a, right=pred.Literal() as v
                        )
                        | pred.Comparison(
                            op="=", left=pred.Literal() as v, right=pred.Attribute() as a
                        )
                    ):
                        values.setdefault(a, {})[v] = None
                    case _:
                        rest.append(collect_sets(part))
            sets: list[pred.Predicate] = [pred.InSet(a, tuple(vs)) for a, vs in values.items()]
            return pred.Or((*sets, *rest)) if len(sets) + len(rest) != 1 else (*sets, *rest)[0]
        case pred.And(parts=parts):
            return pred.And(tuple(collect_sets(part) for part in parts))
        case pred.Negation(body=body):
            return pred.Negation(collect_sets(body))
    return predicate


def _is_equality(predicate: pred.Predicate) -> bool:
    """Return whether it only asks which constants the value equals."""
    match predicate:
        case pred.Comparison(op="=" | "!=") | pred.InSet() | pred.IsNull():
            return _is_plain(predicate)
        case pred.And(parts=parts) | pred.Or(parts=parts):
            return all(_is_equality(part) for part in parts)
        case pred.Negation(body=body):
            return _is_equality(body)
    return False


def _is_plain(predicate: pred.Predicate) -> bool:
    """Return whether it only compares its column with constants."""
    match predicate:
        case (
            pred.Comparison(left=pred.Attribute(), right=pred.Literal())
            | pred.Comparison(left=pred.Literal(), right=pred.Attribute())
            | pred.InSet(body=pred.Attribute())
            | pred.InRange(body=pred.Attribute())
            | pred.IsNull(body=pred.Attribute())
        ):
            return True
        case pred.And(parts=parts) | pred.Or(parts=parts):
            return all(_is_plain(part) for part in parts)
        case pred.Negation(body=body):
            return _is_plain(body)
    return False


def _constants(node: pred.Predicate) -> Iterable[pred.Scalar]:
    match node:
        case pred.Comparison(left=left, right=right):
            yield from (side.value for side in (left, right) if isinstance(side, pred.Literal))
        case pred.InSet(values=values):
            yield from (v.value for v in values)
        case pred.InRange(low=low, high=high):
            yield from (low.value, high.value)
        case pred.And(parts=parts) | pred.Or(parts=parts):
            for part in parts:
                yield from _constants(part)
        case pred.Negation(body=body):
            yield from _constants(body)


# ------------------------------------------------------------ combinations

CodeOf = Callable[[Sequence[int]], int]


class _SparseCodes:
    """The codes of integers, each worked out when the integer first appears."""

    def __init__(self) -> None:
        self._table = IntTable()
        self._codes = np.empty(0, np.int32)

    def look_up(self, keys: npt.NDArray[np.int64], code_of: Callable[[int], int]) -> Int32s:
        numbers = self._table.codes(keys)
        new = self._table.values[len(self._codes) :].tolist()
        if new:
            self._codes = np.append(self._codes, np.array([code_of(key) for key in new], np.int32))
        return self._codes[numbers]


class _Combination:
    """Map class numbers of all groups to codes, by a dense table if it is small.

    The table is a cache for some numbers of classes; when those grow, a new one
    takes its place.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        product = math.prod(sizes)
        self._strides = [math.prod(sizes[:i]) for i in range(len(sizes))]
        self._dtype = np.int32 if product <= _NARROW else np.int64
        self._dense = np.full(product, -1, np.int32) if product <= _DENSE else None
        self._sparse = _SparseCodes()

    def codes(self, digits: list[_Digit], length: int, code_of: CodeOf) -> Int32s:
        sums: Any = np.zeros(length, self._dtype)
        for digit, stride in zip(digits, self._strides, strict=True):
            digit.add(sums, (digit.lookup * stride).astype(self._dtype))
        if self._dense is None:
            return self._sparse.look_up(
                sums.astype(np.int64), lambda total: code_of(self._digits(total))
            )
        out = np.empty(length, np.int32)
        if classify.finish(sums, self._dense, out):
            for total in _in_order_of_appearance(sums[out < 0], len(self._dense)):
                self._dense[total] = code_of(self._digits(total))
            classify.finish(sums, self._dense, out)
        return out

    def _digits(self, total: int) -> list[int]:
        digits = []
        for size in self.sizes:
            total, digit = divmod(total, size)
            digits.append(digit)
        return digits


class _StagedCombination:
    """Map combinations that are too many for one number: some groups first, then the rest."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        product, split = 1, 0
        while product * sizes[split] <= _NARROW:
            product *= sizes[split]
            split += 1
        self._split = split
        self._first = _Combination(sizes[:split])
        self._rest = _combination(sizes[split:])
        self._pairs = _SparseCodes()
        self._firsts: dict[tuple[int, ...], int] = {}
        self._rests: dict[tuple[int, ...], int] = {}

    def codes(self, digits: list[_Digit], length: int, code_of: CodeOf) -> Int32s:
        first = self._first.codes(digits[: self._split], length, _number_digits(self._firsts))
        rest = self._rest.codes(digits[self._split :], length, _number_digits(self._rests))
        firsts, rests = list(self._firsts), list(self._rests)
        return self._pairs.look_up(
            first.astype(np.int64) << 31 | rest,
            lambda pair: code_of(firsts[pair >> 31] + rests[pair & (_NARROW - 1)]),
        )


def _number_digits(numbers: dict[tuple[int, ...], int]) -> CodeOf:
    return lambda digits: numbers.setdefault(tuple(digits), len(numbers))


def _combination(sizes: tuple[int, ...]) -> Any:
    return _Combination(sizes) if math.prod(sizes) <= _WIDE else _StagedCombination(sizes)


def _in_order_of_appearance(values: classify.Codes, most: int) -> list[int]:
    """Return the distinct values, all smaller than `most`, without sorting the rows.

    >>> _in_order_of_appearance(np.array([2, 0, 2, 5]), 6)
    [2, 0, 5]
    """
    rows = np.arange(len(values))
    first = np.full(most, len(values))
    first[values[::-1]] = rows[::-1]  # of repeated indices, NumPy keeps the last
    distinct = np.flatnonzero(first < len(values))
    return [int(value) for value in distinct[np.argsort(first[distinct])]]
