"""`Solutions`: a table of solutions for the events of a batch, and the operations on such tables.

A solution is a row: the index of its event, and the code of a term for each variable, -1 where it
is unbound. Rows are in order of event.

Cost: each operation is one pass of a kernel (`cernis.engine.graphs.search`) over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs import search as k
from cernis.engine.graphs.search import Codes
from cernis.errors import BudgetError
from cernis.rdf.reading.events import GraphEvents

Names = tuple[str, ...]


class Solutions(NamedTuple):
    """A table of solutions in order of event."""

    names: Names
    event: Codes
    """The index of a row's event in the batch."""
    codes: Codes
    """A column for each name; -1 is unbound."""

    def take(self, rows: NDArray[np.bool_]) -> Solutions:
        """Return the rows that a mask selects."""
        return Solutions(self.names, self.event[rows], self.codes[rows])


class SolvedBatch(NamedTuple):
    """Events of whole timestamps in order, and the solutions of each pattern in them."""

    events: GraphEvents
    found: Mapping[str, Solutions]
    versions: Codes
    """The version of a live background that each event was solved with, by its index."""


class RowBudget(NamedTuple):
    """How many rows a table may have, and the error if it has more."""

    limit: int
    complain: Callable[[int], BudgetError]


def _complain_of_batch(limit: int) -> BudgetError:
    return BudgetError(
        f"a graph pattern has more than {limit:,} solutions in one batch of events: "
        "make it more selective, or read smaller batches"
    )


BATCH_BUDGET = RowBudget(1 << 28, _complain_of_batch)


# ------------------------------------------------------------------- columns


def arrange(table: Solutions, names: Names) -> Solutions:
    """Return the rows with these columns, in this order; a missing column is unbound."""
    if table.names == names:
        return table
    codes = np.full((len(table.event), len(names)), -1, np.int32)
    for column, name in enumerate(names):
        if name in table.names:
            codes[:, column] = table.codes[:, table.names.index(name)]
    return Solutions(names, table.event, codes)


def project(table: Solutions, names: Names) -> Solutions:
    """Return these columns, in this order, without repeated rows of an event."""
    narrow = arrange(table, names)
    return narrow if set(table.names) <= set(names) else drop_repeats(narrow)


def drop_repeats(table: Solutions) -> Solutions:
    """Return the table without repeated rows of an event."""
    if len(table.event) < 2:
        return table
    mask = np.empty(len(table.event), np.bool_)
    columns = np.arange(len(table.names), dtype=np.int32)
    heads, chain = _allocate_index(k.largest_event(table.event))
    k.mark_distinct(table.event, table.codes, columns, heads, chain, mask)
    return table if mask.all() else table.take(mask)


# --------------------------------------------------------------------- joins


def merge_names(left: Names, right: Names) -> Names:
    """Return the columns of a join."""
    return tuple(dict.fromkeys((*left, *right)))


def describe_join(
    left: Names, right: Names, certain: Collection[str], steps: Codes, is_optional: bool
) -> k.Join:
    """Return the join of tables with these columns; both always bind the names in `certain`."""
    shared = [name for name in left if name in right]
    keys = [name for name in shared if name in certain]
    loose = [name for name in shared if name not in certain]
    names = merge_names(left, right)
    return k.Join(
        _find_columns(keys, left),
        _find_columns(keys, right),
        _find_columns(loose, left),
        _find_columns(loose, right),
        _find_columns(names, left),
        _find_columns(names, right),
        steps,
        is_optional,
    )


def _find_columns(names: Iterable[str], among: Names) -> Codes:
    return np.array([among.index(n) if n in among else -1 for n in names], np.int32)


def build_index(codes: Codes, columns: Codes) -> tuple[Codes, Codes]:
    """Return a hash index of rows by some columns."""
    heads, chain = _allocate_index(len(codes))
    k.fill_index(codes, columns, 0, len(codes), heads, chain)
    return heads, chain


def _allocate_index(rows: int) -> tuple[Codes, Codes]:
    """Return room for an index of so many rows."""
    size = 1 << max(rows - 1, 0).bit_length()
    return np.empty(size, np.int32), np.empty(max(rows, 1), np.int32)


def join_solutions(
    left: Solutions, right: Solutions, certain: Collection[str], values: e.Values
) -> Solutions:
    """Join two tables event by event; both always bind the names in `certain`."""
    join = describe_join(left.names, right.names, certain, np.zeros((0, 3), np.int32), False)
    return join_by_event(left, right, join, 1, None, values, BATCH_BUDGET)


def join_by_event(
    left: Solutions,
    right: Solutions,
    join: k.Join,
    depth: int,
    index: tuple[Codes, Codes] | None,
    values: e.Values,
    budget: RowBudget,
) -> Solutions:
    """Join two tables event by event; with an index of the right, each row with all of the right.

    `depth` is the depth of the stack for the join's condition.
    """
    names = merge_names(left.names, right.names)
    heads, chain = _allocate_index(k.largest_event(right.event)) if index is None else index
    sides = k.EventTable(left.event, left.codes), k.EventTable(right.event, right.codes)
    by_keys = k.HashIndex(heads, chain, index is not None)
    scratch = k.JoinScratch(np.zeros(len(names), np.int32), e.new_stack(depth))

    def fill(event: Codes, codes: Codes, state: NDArray[np.int64]) -> int:
        out = k.EventTable(event, codes)
        return k.join_tables(join, *sides, by_keys, values, scratch, out, state)

    return fill_table(names, len(left.event), budget, fill)


def fill_table(
    names: Names,
    guess: int,
    budget: RowBudget,
    fill: Callable[[Codes, Codes, NDArray[np.int64]], int],
) -> Solutions:
    """Return the table that a kernel fills; the arrays double while it needs more room."""
    room = min(budget.limit, max(1024, guess))
    event, codes = np.empty(room, np.int32), np.empty((room, len(names)), np.int32)
    state = np.zeros(4, np.int64)
    while (status := fill(event, codes, state)) != k.DONE:
        if status == k.SPENT or room == budget.limit:
            raise budget.complain(budget.limit)
        rows, room = int(state[k.ROWS]), min(2 * room, budget.limit)
        grown, wider = np.empty(room, np.int32), np.empty((room, len(names)), np.int32)
        grown[:rows], wider[:rows] = event[:rows], codes[:rows]
        event, codes = grown, wider
    rows = int(state[k.ROWS])
    if 2 * rows < room:
        return Solutions(names, event[:rows].copy(), codes[:rows].copy())
    return Solutions(names, event[:rows], codes[:rows])
