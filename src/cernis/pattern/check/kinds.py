"""Kinds of values: what can be compared with what, and which attributes events have."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import cast

from cernis.pattern.formula import ANY_TYPE
from cernis.pattern.predicate import Literal
from cernis.pattern.query import TableJoin
from cernis.schema import Attributes, Kind, Stream

Kinds = Mapping[str, Kind | None]
"""Attributes by name; None for one whose kind is not known."""

Sort = tuple[str | None, str]
"""A sort of event: its stream, where one is named, and its type."""

_ALWAYS = {"type": Kind.STRING, "ts": None}
_CLASSES = {
    Kind.INT: "number",
    Kind.FLOAT: "number",
    Kind.STRING: "string",
    Kind.BOOL: "boolean",
    Kind.TIMESTAMP: "timestamp",
}


def class_of(kind: Kind | None) -> str | None:
    """Return the class of a kind, within which values are compared; None where it is not known."""
    return None if kind is None else _CLASSES.get(kind)


def kind_of_literal(literal: Literal) -> Kind:
    match literal.value:
        case bool():
            return Kind.BOOL
        case int():
            return Kind.INT
        case float() | Decimal():
            return Kind.FLOAT
        case _:
            return Kind.STRING


def class_of_literal(literal: Literal) -> str:
    return _CLASSES[kind_of_literal(literal)]


def unite_kinds(kinds: Iterable[Kind | None]) -> Kind | None:
    """Return the kind of an attribute that several event types have.

    >>> unite_kinds([Kind.INT, Kind.FLOAT]), unite_kinds([Kind.INT, Kind.STRING])
    (<Kind.FLOAT: 'double'>, None)
    """
    distinct = set(kinds)
    if len(distinct) == 1:
        return distinct.pop()
    if all(kind is not None and kind.numeric for kind in distinct):
        return Kind.FLOAT
    return None


def is_time(text: str) -> bool:
    """Whether a text is a date or a time in ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def add_tables(stream: Stream, joins: Iterable[TableJoin]) -> Stream:
    """Return a stream with an attribute for each table that is joined to it, if it has none."""
    for table in [join.table for join in joins if join.stream == stream.name]:
        if table not in stream.attributes:
            events = {type_: {table: Kind.OTHER, **own} for type_, own in stream.events.items()}
            stream = Stream(stream.name, {**stream.attributes, table: Kind.OTHER}, events)
    return stream


class KnownEvents:
    """The attributes of the events that a query reads, as far as a schema tells."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self.streams = tuple(streams)
        self._kinds: dict[frozenset[Sort], Kinds | None] = {}

    def kinds_of(self, sorts: frozenset[Sort]) -> Kinds | None:
        """Return the attributes that events of these sorts have; None where they are not known."""
        if sorts not in self._kinds:
            self._kinds[sorts] = self._find_kinds(sorts)
        return self._kinds[sorts]

    def all_kinds(self) -> Kinds | None:
        """Return the attributes that any event can have; None where they are not known."""
        if not self.streams:
            return None
        return _unite_attributes(
            attributes
            for stream in self.streams
            for attributes in (stream.attributes, *stream.events.values())
        )

    def _find_kinds(self, sorts: frozenset[Sort]) -> Kinds | None:
        if not sorts:  # under NOT: a variable that holds no event has any attribute
            return None
        known: list[Attributes] = []
        for stream, type_ in sorts:
            found = self._find_attributes(stream, type_)
            if not found:
                return None
            known += found
        return _unite_attributes(known)

    def _find_attributes(self, stream_name: str | None, type_: str) -> list[Attributes]:
        """Return the attributes of one sort of event in each stream; none if one is not known."""
        found = []
        for stream in self.streams:
            if stream_name is None or stream.name == stream_name:
                if type_ == ANY_TYPE:
                    found += [stream.attributes, *stream.events.values()]
                elif type_ in stream.events:
                    found.append(stream.events[type_])
                elif not stream.events:
                    if not stream.attributes:
                        return []
                    found.append(stream.attributes)
        return found


def _unite_attributes(maps: Iterable[Attributes]) -> Kinds:
    united = [*{id(attributes): attributes for attributes in maps if attributes}.values()]
    if len(united) == 1:  # a thousand rules ask the same
        return ChainMap(cast("dict[str, Kind | None]", united[0]), _ALWAYS)
    found: dict[str, list[Kind]] = {}
    for attributes in united:
        for name, kind in attributes.items():
            found.setdefault(name, []).append(kind)
    return {**_ALWAYS, **{name: unite_kinds(kinds) for name, kinds in found.items()}}
