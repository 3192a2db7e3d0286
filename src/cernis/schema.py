"""The schema of events: streams, their event types, the kinds of their attributes.

A schema is declared in the query (`CREATE STREAM …`), read off the data, or unknown.
An attribute that an event type does not have is NULL on its events, so a stream has one flat
record for all types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The kinds of values that predicates tell apart."""

    INT = "int"
    FLOAT = "double"
    STRING = "string"
    BOOL = "boolean"
    TIMESTAMP = "timestamp"
    OTHER = "other"

    __hash__ = object.__hash__  # members are single, and Enum hashes their names in Python

    @property
    def numeric(self) -> bool:
        """Whether values are numbers."""
        return self in (Kind.INT, Kind.FLOAT)


Attributes = Mapping[str, Kind]


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: its attributes, by event type where that is known.

    `events` is empty when the types are not known (a table whose type column was not
    read); then `attributes` holds for every type. Nested attributes have dotted names.
    """

    name: str
    # a mapping has no hash; the name alone is hash enough
    attributes: Attributes = field(default_factory=dict, hash=False)
    events: Mapping[str, Attributes] = field(default_factory=dict, hash=False)
    long_decimals: frozenset[str] = frozenset()
    """The attributes whose decimals have more digits than an index keeps in order."""
    decimals: frozenset[str] = frozenset()
    """All attributes that are decimals."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The streams a query may name."""

    streams: tuple[Stream, ...] = ()

    def stream(self, name: str) -> Stream | None:
        """Return the stream of this name, if there is one."""
        return next((s for s in self.streams if s.name == name), None)


def find_unordered(schema: Schema) -> frozenset[str]:
    """Return the attributes whose order no index keeps: text and long decimals in some stream.

    >>> sorted(find_unordered(Schema((Stream("S", {"name": Kind.STRING, "n": Kind.INT}),))))
    ['name']
    """
    texts = frozenset(name for name, kind in _list_kinds(schema) if kind is Kind.STRING)
    return texts.union(*(stream.long_decimals for stream in schema.streams))


def are_mixed(schema: Schema, names: Collection[str]) -> bool:
    """Whether some values of these attributes cannot be compared: text and numbers, for example.

    >>> mixed = Schema((Stream("S", {"v": Kind.INT}), Stream("T", {"v": Kind.STRING})))
    >>> are_mixed(mixed, ["v"]), are_mixed(Schema(mixed.streams[:1]), ["v"])
    (True, False)
    """
    kinds = {kind for name, kind in _list_kinds(schema) if name in names}
    return len(kinds) > 1 and not all(kind.numeric for kind in kinds)


def are_times(schema: Schema, names: Iterable[str]) -> bool:
    """Whether these attributes hold times in every stream that has them.

    >>> schema = Schema((Stream("S", {"at": Kind.TIMESTAMP, "n": Kind.INT}),))
    >>> are_times(schema, ["at"]), are_times(schema, ["at", "n"])
    (True, False)
    """
    kinds: dict[str, set[Kind]] = {}
    for name, kind in _list_kinds(schema):
        kinds.setdefault(name, set()).add(kind)
    return all(kinds.get(name) == {Kind.TIMESTAMP} for name in names)


def list_kinds(schema: Schema, names: Collection[str]) -> Iterator[Kind]:
    """Yield the kinds that these attributes have in the streams."""
    return (kind for name, kind in _list_kinds(schema) if name in names)


def _list_kinds(schema: Schema) -> Iterator[tuple[str, Kind]]:
    for stream in schema.streams:
        for attributes in (stream.attributes, *stream.events.values()):
            yield from attributes.items()
