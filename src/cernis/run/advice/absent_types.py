"""Types that a query names and no event has: probably misspelt, or in another column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cernis.encoding.encode import KnownTruths
from cernis.errors import Diagnostic, Span
from cernis.events.batch import EventBatch
from cernis.pattern import formula as cel
from cernis.pattern.atom import TypeIs
from cernis.pattern.query import Pattern
from cernis.pattern.suggest import did_you_mean

CODE = "absent-type"

_SAMPLE = 1 << 16
_SHOWN = 5


class SampledTypes:
    """The types in the first rows of a run, for suggestions; they are read when they are needed."""

    def __init__(self) -> None:
        self._columns: list[pa.ChunkedArray] = []
        self._names: list[str] | None = None

    def add(self, batch: EventBatch) -> None:
        """Keep the types of the first rows of a batch, if it is the first one."""
        if not self._columns:
            tables = [table for _, table in batch.parts]
            name = batch.type_column
            self._names = None
            self._columns = [t.column(name)[:_SAMPLE] for t in tables if name in t.column_names]

    def names(self) -> list[str]:
        """Return the distinct types."""
        if self._names is None:
            found = (value.as_py() for column in self._columns for value in pc.unique(column))
            self._names = list(dict.fromkeys(value for value in found if isinstance(value, str)))
        return self._names


def find_absent_types(
    pattern: Pattern, encoders: Iterable[KnownTruths], types: SampledTypes
) -> Iterator[Diagnostic]:
    """Yield a warning for each type that the query names and no event has had."""
    for atom in dict.fromkeys(atom for encoder in encoders for atom in _unseen_types(encoder)):
        yield describe_absent_type(pattern, atom, types.names())


def describe_absent_type(
    pattern: Pattern, atom: TypeIs, types: list[str], *, so_far: bool = False
) -> Diagnostic:
    """Return the warning about a type that no event has; `types` are some that events have."""
    where = f" of stream {atom.stream!r}" if atom.stream else ""
    suggestion = did_you_mean(atom.type, types)
    if suggestion is None and types:
        more = ", …" if len(types) > _SHOWN else ""
        suggestion = f"the types of events are {', '.join(sorted(types)[:_SHOWN])}{more}"
    return Diagnostic(
        f"no event{where} has the type {atom.type!r}{' so far' if so_far else ''}",
        _find_span(pattern, atom),
        suggestion=suggestion,
        code=CODE,
    )


def _unseen_types(encoder: KnownTruths) -> Iterator[TypeIs]:
    for index, atom in enumerate(encoder.atoms):
        if isinstance(atom, TypeIs) and not any(vector[index] for vector in encoder.vectors):
            yield atom


def _find_span(pattern: Pattern, atom: TypeIs) -> Span | None:
    """Return where the type stands first in the query."""
    for node in pattern.nodes:
        if isinstance(node, cel.Event) and (node.type, node.stream) == (atom.type, atom.stream):
            return node.span if pattern.source else None
    return None
