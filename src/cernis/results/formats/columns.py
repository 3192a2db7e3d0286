"""Blocks of matches as Arrow columns.

A batch has `start` and `end` (row numbers of the input), `start_ts` and `end_ts` (and `deadline_ts`
of WITHOUT … FOR, `suppressed` of SUPPRESS BY), a column for each component of PARTITION BY, and the
columns of SELECT in their order: a list of events for each variable, one value for each term. A
query that is
`SELECT COUNT(*)` alone has one row for each end position instead: `end`, `end_ts`, the partition,
`count`.

Cost contract: linear in the positions of the block, all of it in NumPy and Arrow; no
Python object for a match or an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.engine.words import Integers, find_most, to_integers, widen, write_digits
from cernis.events.evaluation.evaluate import EXACT
from cernis.events.store import EventStore
from cernis.pattern.query import Pattern, SelectedTerm, Variable, counts_only
from cernis.pattern.variables import starred_variables
from cernis.results.sets.identity import match_ids
from cernis.results.sets.matchset import MatchBlock, Positions
from cernis.results.terms.deadline import DEADLINE, DeadlineColumn
from cernis.results.terms.term import evaluate_term

SUPPRESSED = "suppressed"
_INTERVAL = ("start", "end", "start_ts", "end_ts")


@dataclass(frozen=True, slots=True)
class MatchFields:
    """The columns that each match of a query has."""

    variables: tuple[str, ...]
    """The variables of a block: those that tell matches apart."""
    items: tuple[Variable | SelectedTerm, ...]
    """The variables and terms that are columns, in the order of the query."""
    partition: tuple[tuple[str, ...], ...]
    counting: bool
    deadline: DeadlineColumn | None = None
    suppresses: bool = False

    @classmethod
    def of(
        cls, pattern: Pattern, variables: Sequence[str], deadline: DeadlineColumn | None = None
    ) -> MatchFields:
        counting = counts_only(pattern)
        items = () if counting else pattern.select.items
        if pattern.select.everything:
            items = tuple(map(Variable, variables))
            if pattern.order is not None:  # its variables are named, and no columns
                starred = starred_variables(pattern.formula)
                items = tuple(item for item in items if item.name in starred)
        if deadline is None and pattern.absent_after is not None:
            deadline = DeadlineColumn(pattern.absent_after.within)
        return cls(
            tuple(variables),
            items,
            pattern.partition,
            counting,
            deadline,
            pattern.suppress is not None,
        )

    @property
    def shown(self) -> list[str]:
        """The variables that are columns."""
        return [item.name for item in self.items if isinstance(item, Variable)]

    @property
    def terms(self) -> list[SelectedTerm]:
        return [item for item in self.items if isinstance(item, SelectedTerm)]

    @property
    def attributes(self) -> dict[str, tuple[str, ...]]:
        """The attributes of each variable that is a column; none named: all."""
        return {item.name: item.attributes for item in self.items if isinstance(item, Variable)}

    def without_variables(self) -> MatchFields:
        """Return the columns without those of variables."""
        return replace(self, items=tuple(self.terms))

    @property
    def keys(self) -> list[str]:
        """The names of the partition's components: `a`, or `a|b` for alternatives."""
        return ["|".join(group) for group in self.partition]

    def values(self, block: MatchBlock, events: EventStore) -> dict[str, pa.Array]:
        """Return the values of the terms by the names of their columns."""
        return {
            item.name: evaluate_term(item.term, block, self.variables, events)
            for item in self.terms
        }


def record_batch(
    block: MatchBlock, fields: MatchFields, events: EventStore, *, ids: bool = False
) -> pa.RecordBatch:
    """Return the matches of a block with their events, and with `ids` a name for each."""
    rows = [pa.array(events.rows(each), pa.int64()) for each in (block.start, block.end)]
    times = [events.times(each) for each in (block.start, block.end)] if events.is_timed else rows
    columns = [
        *rows,
        *times,
        *([] if fields.deadline is None else [fields.deadline.read(block.end, events)]),
        *([read_suppressed(block)] if fields.suppresses else []),
        *partition_columns(block.end, fields, events),
    ]
    for item in fields.items:
        if isinstance(item, SelectedTerm):
            columns.append(evaluate_term(item.term, block, fields.variables, events))
            continue
        v = fields.variables.index(item.name)
        structs = events.structs(block.positions[v], item.attributes or None)
        offsets = pa.array(block.offsets[v], pa.int32())
        columns.append(pa.ListArray.from_arrays(offsets, structs))
    interval = _INTERVAL if fields.deadline is None else (*_INTERVAL, DEADLINE)
    interval = (*interval, SUPPRESSED) if fields.suppresses else interval
    names = [*interval, *fields.keys, *(item.name for item in fields.items)]
    if ids:
        columns.append(match_ids(block, events.rows))
        names.append("id")
    return pa.RecordBatch.from_arrays(columns, distinct_names(names))


def read_suppressed(block: MatchBlock) -> pa.Array:
    """Return how many matches were silenced before each."""
    silenced = block.suppressed
    return pa.array(np.zeros(len(block.end), np.int64) if silenced is None else silenced)


def count_batch(
    ends: Positions, counts: Integers, fields: MatchFields, events: EventStore
) -> pa.RecordBatch:
    """Return the number of matches at each end position."""
    columns = [
        pa.array(events.rows(ends), pa.int64()),
        events.times(ends),
        *partition_columns(ends, fields, events),
        count_column(counts),
    ]
    return pa.RecordBatch.from_arrays(
        columns, distinct_names(["end", "end_ts", *fields.keys, "count"])
    )


def count_column(counts: Sequence[int] | Integers, scale: int | None = None) -> pa.Array:
    """Return integers in the narrowest type that holds them all, or decimals of a scale.

    int64, then decimal128(38, 0), then decimal256(76, 0), then their digits as strings.

    >>> [str(count_column([n]).type) for n in (2**62, 2**63, 2**200, 2**300)]
    ['int64', 'decimal128(38, 0)', 'decimal256(76, 0)', 'string']
    >>> count_column([-5], 2).to_pylist()
    [Decimal('-0.05')]
    """
    numbers = to_integers(counts)
    most = find_most(numbers)
    if most < 2**63 and scale is None:
        return pa.array(numbers if numbers.ndim == 1 else numbers[:, 0])
    if most >= 10**76:
        begins, text = write_digits(numbers)
        offsets = pa.array(begins, pa.int32())
        texts = pa.StringArray.from_buffers(len(numbers), offsets.buffers()[1], pa.py_buffer(text))
        return texts if scale is None else _place_points(texts, scale)
    type_ = pa.decimal128(38, scale or 0) if most < 10**38 else pa.decimal256(76, scale or 0)
    words = widen(numbers, type_.byte_width // 8)
    return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(words)])


def _place_points(digits: pa.Array, scale: int) -> pa.Array:
    """Return the decimals of so many places that have these digits, as text."""
    decimals = (EXACT.scaleb(Decimal(each), -scale) for each in digits.to_pylist())
    return pa.array([format(each, "f") for each in decimals], pa.string())


def partition_columns(ends: Positions, fields: MatchFields, events: EventStore) -> list[pa.Array]:
    """Return the key of each match's partition, read off its last event."""
    return [_key([events.column(ends, name) for name in group]) for group in fields.partition]


def _key(alternatives: Sequence[pa.Array]) -> pa.Array:
    """Return the first alternative that is not null, in a type for all, or else as strings."""
    if len(alternatives) == 1:
        return alternatives[0]
    kinds = [pa.schema([("key", column.type)]) for column in alternatives]
    try:
        kind = pa.unify_schemas(kinds, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kind = pa.string()
    return pc.coalesce(*(column.cast(kind) for column in alternatives))


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return the names, with `_` appended to one that is taken: tables need distinct columns.

    >>> distinct_names(["start", "name", "start", "name"])
    ['start', 'name', 'start_', 'name_']
    """
    taken: dict[str, None] = {}
    for name in names:
        while name in taken:
            name += "_"
        taken[name] = None
    return list(taken)
