"""Frozen state: declared beside the record that has it; packed, unpacked and checked here.

A part of a session freezes as a *tree*: names with numbers, texts, lists, NumPy arrays and other
trees. `pack` writes a tree as versioned bytes: a JSON header and the bytes of the arrays. Nothing
in them is code.

A record of state is a class whose fields are declared with their types and bounds:

    @frozen_record
    class Occurrences:
        end: Numbers = array(np.int64, "occurrences", low=0, below="position")
        start: Numbers = array(np.int64, "occurrences")

`write` turns a record into a tree, and `read` a tree into a record. `read` refuses whatever is not
as declared, with a `StateError`, before anything has changed: the kernels trust their arrays, and
bytes of a stranger may hold any numbers. Sizes have names. A name that is new in a shape gets the
length that is found. Elsewhere it is a size that the reader gives, or a field before it: a number,
or the length of an array or a list. `"position+1"` is one more. The relations that cannot be
declared stand in the record's method `check`.

A checksum finds accidents; the checks see that no number leads a kernel out of its arrays or into a
circle. A sound state that is not the one that was frozen cannot be told from a real one.

Cost contract: linear in the state, with a few NumPy passes over each array.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, Protocol, TypeVar, cast, dataclass_transform

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cernis.errors import StateError

MAGIC = b"CERNIS\n\x00"
VERSION = 2
_HEAD = struct.Struct("<8sHIQ")
_DTYPES = {name: np.dtype(name) for name in ("|u1", "<i2", "<i4", "<i8", "<f8")}
"""The types of arrays, by their names in the header; records are written as bytes."""

Tree = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]
Sizes = dict[str, int]
Record = TypeVar("Record")

LOWEST, ABOVE = -(2**63), 2**63
"""The range of int64."""
MOST_EVENTS = 2**62
"""Positions and row numbers stay below, so that sums of two fit into int64."""


# ---------------------------------------------------------------------- bytes


def pack(tree: Mapping[str, Any]) -> bytes:
    """Return a tree as bytes.

    >>> unpack(pack({"rows": [{"at": np.array([3, 4])}], "end": 5}))
    {'rows': [{'at': array([3, 4])}], 'end': 5}
    """
    meta, arrays = split_arrays(tree)
    described, blobs = [], []
    for name, array in arrays.items():
        flat = np.ascontiguousarray(array)
        if flat.dtype.names is not None:
            flat = flat.reshape(-1).view(np.uint8)
        described.append([name, flat.dtype.str, list(flat.shape), flat.nbytes])
        blobs.append(flat.tobytes())
    header = json.dumps({"meta": meta, "arrays": described}).encode()
    body = header + b"".join(blobs)
    return _HEAD.pack(MAGIC, VERSION, zlib.crc32(body), len(header)) + body


def unpack(frozen: bytes) -> Tree:
    """Return the tree that `pack` got; StateError for other bytes."""
    if not isinstance(frozen, bytes | bytearray | memoryview) or bytes(frozen[:8]) != MAGIC:
        raise StateError("these bytes are not a frozen Cernis state")
    require(len(frozen) >= _HEAD.size, "its header cannot be read")
    _, version, checksum, length = _HEAD.unpack_from(frozen)
    if version != VERSION:
        raise StateError(
            f"the state was frozen in version {version} of the format, and this Cernis reads "
            f"version {VERSION}; thaw it with the Cernis that froze it, or run the query on the "
            "stream from its beginning"
        )
    body = memoryview(frozen)[_HEAD.size :]
    if zlib.crc32(body) != checksum or length > len(body):
        raise StateError("the frozen state is damaged: its checksum does not match")
    arrays: dict[str, NDArray[Any]] = {}
    at = length
    try:
        header = json.loads(bytes(body[:length]))
        meta, described = header["meta"], header["arrays"]
        for name, kind, shape, size in described:
            dtype = _DTYPES[kind]
            sides = [check_number(side, "the shape of an array", 0) for side in shape]
            require(size == prod(sides) * dtype.itemsize, "an array has another size")
            require(isinstance(name, str) and name not in arrays, "an array comes twice")
            arrays[name] = np.frombuffer(body[at : at + size], dtype).reshape(sides).copy()
            at += size
        require(isinstance(meta, dict) and at == len(body), "its parts do not fill it")
        return join_arrays(meta, arrays)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise StateError("the frozen state is damaged: its header cannot be read") from error


def split_arrays(tree: Mapping[str, Any]) -> tuple[Tree, dict[str, NDArray[Any]]]:
    """Return a tree without its arrays, and the arrays by their paths.

    >>> split_arrays({"rows": [{"at": np.array([3])}], "end": 5})
    ({'rows': [{}], 'end': 5}, {'rows/0/at': array([3])})
    """
    arrays: dict[str, NDArray[Any]] = {}

    def split(part: Any, path: str) -> Any:
        if isinstance(part, np.ndarray):
            arrays[path] = part
            return None
        if isinstance(part, Mapping):
            own = [(name, each, f"{path}/{name}" if path else name) for name, each in part.items()]
            found = [(name, each, split(each, at)) for name, each, at in own]
            return {name: rest for name, each, rest in found if not isinstance(each, np.ndarray)}
        if isinstance(part, list | tuple):
            return [split(each, f"{path}/{i}") for i, each in enumerate(part)]
        return part

    return split(tree, ""), arrays


def join_arrays(meta: Tree, arrays: Arrays) -> Tree:
    """Return the tree that `split_arrays` got; KeyError, TypeError and others for other parts."""
    for path, array in arrays.items():
        *steps, last = path.split("/")
        part: Any = meta
        for step in steps:
            part = part[int(step)] if isinstance(part, list) else part[step]
        at: Any = int(last) if isinstance(part, list) else last
        is_free = part[at] is None if isinstance(part, list) else at not in part
        require(is_free, "an array comes twice")
        part[at] = array
    return meta


# --------------------------------------------------------------- declarations


class FieldKind(Protocol):
    """How a declared value is written, and read with the names of sizes that are known."""

    def write(self, value: Any) -> Any: ...

    def read(self, written: Any, name: str, sizes: Sizes) -> Any: ...


Bound = int | str | Callable[[Sizes], Any]
"""A number, the name of a size, or a function of all sizes: a number, or an array of numbers."""
Bounds = Mapping[str, tuple[Bound, Bound]]


@dataclass(frozen=True)
class _ArrayField:
    dtype: np.dtype[Any]
    shape: tuple[Bound, ...]
    low: Bound
    below: Bound
    columns: Bounds

    def write(self, value: Any) -> Any:
        return np.array(value, self.dtype)  # a copy: the engine may go on with its own

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        require(isinstance(written, np.ndarray), f"{name!r} is missing")
        array = cast("NDArray[Any]", written)
        is_bytes = self.dtype.names is not None and array.dtype == np.uint8 and array.ndim == 1
        if is_bytes and array.size % self.dtype.itemsize == 0:
            array = array.view(self.dtype)
        fits = array.dtype == self.dtype and array.ndim == len(self.shape)
        for side, have in zip(self.shape, array.shape, strict=False):
            if isinstance(side, str) and side not in sizes and "+" not in side:
                sizes[side] = have
            fits = fits and _find_size(side, sizes) == have
        require(fits, f"{name!r} has another type or shape")
        if array.dtype.kind in "iu":
            _check_inside(array, name, self.low, self.below, sizes)
        for column, (low, below) in self.columns.items():
            _check_inside(array[column], f"{column} of {name}", low, below, sizes)
        return array


def _check_inside(numbers: NDArray[Any], name: str, low: Bound, below: Bound, sizes: Sizes) -> None:
    least, most = _find_size(low, sizes), _find_size(below, sizes)
    require(is_inside(numbers, least, most), f"{name!r} is out of range")


def _find_size(bound: Bound, sizes: Sizes) -> Any:
    """Return a number, or an array of numbers, that a bound stands for."""
    if callable(bound):
        return bound(sizes)
    if isinstance(bound, int):
        return bound
    name, _, more = bound.partition("+")
    return sizes[name] + int(more or 0)


def at_least_one(name: str) -> Bound:
    """Return a size that is at least 1."""
    return lambda sizes: max(_find_size(name, sizes), 1)


@dataclass(frozen=True)
class _NumberField:
    low: Bound
    below: Bound

    def write(self, value: Any) -> Any:
        return int(value)

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        low, below = _find_size(self.low, sizes), _find_size(self.below, sizes)
        return check_number(written, f"{name!r}", low, below)


@dataclass(frozen=True)
class _TextField:
    def write(self, value: Any) -> Any:
        return value

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        return check_text(written, f"{name!r}")


@dataclass(frozen=True)
class _ChoiceField:
    values: Collection[Any]

    def write(self, value: Any) -> Any:
        return value

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        known = [each for each in self.values if type(each) is type(written) and each == written]
        require(bool(known), f"{name!r} has another value")
        return written


@dataclass(frozen=True)
class _TreeField:
    """A tree that its reader checks."""

    def write(self, value: Any) -> Any:
        return value

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        return check_mapping(written, f"{name!r}")


@dataclass(frozen=True)
class _ListField:
    item: FieldKind
    length: Bound | None

    def write(self, value: Any) -> Any:
        return [self.item.write(each) for each in value]

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        items = check_list(written, f"{name!r}")
        if self.length is not None:
            require(len(items) == _find_size(self.length, sizes), f"{name!r} is no such list")
        return [self.item.read(each, name, dict(sizes)) for each in items]


@dataclass(frozen=True)
class _MappingField:
    item: FieldKind

    def write(self, value: Any) -> Any:
        return {name: self.item.write(each) for name, each in value.items()}

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        items = check_mapping(written, f"{name!r}")
        return {
            check_text(key, f"a name of {name!r}"): self.item.read(each, name, dict(sizes))
            for key, each in items.items()
        }


@dataclass(frozen=True)
class _RecordField:
    record: type[Any]

    def write(self, value: Any) -> Any:
        return write(value)

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        return read(self.record, check_mapping(written, f"{name!r}"), **sizes)


@dataclass(frozen=True)
class _OptionalField:
    item: FieldKind

    def write(self, value: Any) -> Any:
        return None if value is None else self.item.write(value)

    def read(self, written: Any, name: str, sizes: Sizes) -> Any:
        return None if written is None else self.item.read(written, name, sizes)


def declare(kind: FieldKind) -> Any:
    """Declare a field of a record of state, of a kind of its own."""
    return field(metadata={"kind": kind})


def array(
    dtype: DTypeLike,
    *shape: Bound,
    low: Bound = LOWEST,
    below: Bound = ABOVE,
    columns: Bounds | None = None,
) -> Any:
    """Declare an array of numbers in [low, below), or of records with bounds by column."""
    return declare(_ArrayField(np.dtype(dtype), shape, low, below, columns or {}))


def number(low: Bound = LOWEST, below: Bound = ABOVE) -> Any:
    """Declare a whole number in [low, below)."""
    return declare(_NumberField(low, below))


def text() -> Any:
    """Declare a text."""
    return declare(_TextField())


def choice(values: Collection[Any]) -> Any:
    """Declare one of some values."""
    return declare(_ChoiceField(values))


def flag() -> Any:
    """Declare a yes or no."""
    return choice((False, True))


def part() -> Any:
    """Declare a tree that its reader checks."""
    return declare(_TreeField())


def listed(item: Any, length: Bound | None = None) -> Any:
    """Declare a list."""
    return declare(_ListField(_kind_of(item), length))


def named(item: Any) -> Any:
    """Declare values by text."""
    return declare(_MappingField(_kind_of(item)))


def nested(record: type[Any]) -> Any:
    """Declare a record inside another; it knows the sizes of the outer one so far."""
    return declare(_RecordField(record))


def optional(item: Any) -> Any:
    """Declare a value that may be missing; it is None then."""
    return declare(_OptionalField(_kind_of(item)))


def _kind_of(item: Any) -> FieldKind:
    return cast(FieldKind, item.metadata["kind"])


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(
        declare,
        array,
        number,
        text,
        choice,
        flag,
        part,
        listed,
        named,
        nested,
        optional,
    ),
)
def frozen_record(declared: type[Record]) -> type[Record]:
    """Make a record of state of a class with declared fields."""
    return dataclass(frozen=True, eq=False)(declared)


def _list_kinds(record: Any) -> list[tuple[str, FieldKind]]:
    return [(each.name, each.metadata["kind"]) for each in fields(record)]


def write(record: Any) -> Tree:
    """Return a record of state as a tree."""
    kinds = _list_kinds(type(record))
    written = {name: kind.write(getattr(record, name)) for name, kind in kinds}
    return {name: value for name, value in written.items() if value is not None}


def read(record: type[Record], tree: Mapping[str, Any], **sizes: int) -> Record:
    """Return the record of a tree, if it is as declared.

    >>> @frozen_record
    ... class Rows:
    ...     rows: Any = array(np.int64, "rows", below="end")
    >>> read(Rows, {"rows": np.array([4, 9])}, end=9)
    Traceback (most recent call last):
        ...
    cernis.StateError: the frozen state is damaged: 'rows' is out of range
    """
    found: dict[str, Any] = {}
    for name, kind in _list_kinds(record):
        value = found[name] = kind.read(tree.get(name), name, sizes)
        if isinstance(value, int | list | np.ndarray):
            sizes[name] = value if isinstance(value, int) else len(value)
    made = record(**found)
    if check := getattr(made, "check", None):
        check(sizes)
    return made


# --------------------------------------------------------------------- checks


def require(sound: bool | np.bool_, what: str) -> None:
    """Raise if something about a state is not as it must be."""
    if not sound:
        raise StateError(f"the frozen state is damaged: {what}")


def is_inside(
    numbers: NDArray[Any], low: int | NDArray[Any] = LOWEST, below: int | NDArray[Any] = ABOVE
) -> bool:
    """Return whether all numbers lie in [low, below).

    >>> is_inside(np.array([0, 3]), 0, 4), is_inside(np.array([0, 3]), 0, np.array([1, 3]))
    (True, False)
    """
    if not numbers.size:
        return True
    if isinstance(low, int) and isinstance(below, int):
        return low <= int(numbers.min()) and int(numbers.max()) < below
    return bool(((numbers >= low) & (numbers < below)).all())


def read_array(
    arrays: Arrays,
    name: str,
    dtype: DTypeLike,
    shape: Sequence[int | None] = (None,),
    *,
    low: int | NDArray[Any] = LOWEST,
    below: int | NDArray[Any] = ABOVE,
) -> NDArray[Any]:
    """Return an array of this type and shape (None: any length), its numbers in [low, below).

    >>> read_array({"rows": np.array([4, 9])}, "rows", np.int64, below=9)
    Traceback (most recent call last):
        ...
    cernis.StateError: the frozen state is damaged: 'rows' is out of range
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise StateError(f"the frozen state is damaged: {name!r} is missing")
    fits = len(shape) == array.ndim and all(
        wanted is None or wanted == have for wanted, have in zip(shape, array.shape, strict=True)
    )
    require(array.dtype == dtype and fits, f"{name!r} has another type or shape")
    if array.dtype.kind in "iu":
        require(is_inside(array, low, below), f"{name!r} is out of range")
    return array


def read_records(arrays: Arrays, name: str, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return records that were frozen as the bytes of their layout."""
    written = read_array(arrays, name, np.uint8)
    require(len(written) % dtype.itemsize == 0, f"{name!r} ends inside a record")
    return np.frombuffer(written.tobytes(), dtype).copy()


def check_number(value: object, what: str, low: int = LOWEST, below: int = ABOVE) -> int:
    """Return a whole number in [low, below).

    >>> check_number(True, "position")
    Traceback (most recent call last):
        ...
    cernis.StateError: the frozen state is damaged: position is no such number
    """
    if isinstance(value, int) and not isinstance(value, bool) and low <= value < below:
        return value
    raise StateError(f"the frozen state is damaged: {what} is no such number")


def check_text(value: object, what: str) -> str:
    """Return a text that UTF-8 can hold."""
    if isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value):
        return value
    raise StateError(f"the frozen state is damaged: {what} is no text")


def check_list(value: object, what: str, length: int | None = None) -> list[Any]:
    """Return a list, of this length where one is given."""
    if isinstance(value, list) and length in (None, len(value)):
        return value
    raise StateError(f"the frozen state is damaged: {what} is no such list")


def check_mapping(value: object, what: str) -> dict[str, Any]:
    """Return names with their values."""
    if isinstance(value, dict):
        return value
    raise StateError(f"the frozen state is damaged: {what} is no set of names and values")
