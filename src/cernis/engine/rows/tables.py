"""A row automaton as arrays, the rows that kernels read, and the matches that they give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.rows.construct import RowAutomaton

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_MATCH, UNDECIDED = -1, -2
"""The length of a row at which no match begins, or at which rows to come decide."""
OPEN, BEGUN = 1, 2
"""Flags of partitions: rows may still come; its first rows are not here any more."""


class RowTables(NamedTuple):
    """The edges of all states, one after the other, in the order of preference."""

    first: Numbers
    """Per state, the number of its first edge; one more at the end."""
    variable: Numbers
    """Negative: accept."""
    target: Numbers
    anchors: Numbers
    excluded: Numbers


class PartitionedRows(NamedTuple):
    """Rows, partition by partition, each in its order."""

    bounds: Numbers
    """The first row of each partition; one more at the end."""
    holds: Flags
    """Per row and variable, whether the condition of the variable holds."""
    limits: Numbers
    """Per row, the row before which a match ends that begins there (WITHIN). In an open partition,
    beyond the last row: rows to come may be in the match."""
    firsts: Numbers
    """Per partition, the first row at which a match may begin."""
    flags: Numbers
    """Per partition, OPEN and BEGUN."""
    lasts: Numbers
    """Per partition, the last row at which the search may begin: it begins at the first, and again
    at each row up to this one, and ends where it meets a row that it has tried."""
    untils: Numbers
    """Per partition, the row before which matches begin."""
    numbers: Numbers
    """Per partition, how many matches it has had."""


class Skipping(NamedTuple):
    """AFTER MATCH SKIP."""

    mode: int
    """The value of a `SkipMode`."""
    targets: Flags
    """Per variable, whether SKIP TO FIRST or LAST means its rows."""


class FoundRows(NamedTuple):
    """The matches, in order, and the rows at which none begins."""

    starts: Numbers
    lengths: Numbers
    """0: an empty match; NO_MATCH."""
    labels: Numbers
    """The rows of all matches: twice the variable, and one more where the row is left out."""
    nexts: Numbers
    """The row at which the search goes on after each; negative: why it cannot."""
    stops: Numbers
    """Per partition, the row at which the search goes on when more rows come."""
    status: int
    """FOUND, or why the search ended at the last match."""


FOUND, NO_TARGET, FIRST_ROW, BUDGET = range(4)


def close_partitions(bounds: Numbers, holds: Flags, limits: Numbers) -> PartitionedRows:
    """Return whole partitions: no row comes before or after them."""
    firsts = bounds[:-1]
    flags = np.zeros(len(firsts), np.int64)
    numbers = np.zeros(len(firsts), np.int64)
    return PartitionedRows(bounds, holds, limits, firsts, flags, firsts, bounds[1:], numbers)


def make_tables(automaton: RowAutomaton) -> RowTables:
    """Return an automaton as arrays."""
    edges = [edge for own in automaton.edges for edge in own]
    first = np.cumsum([0, *map(len, automaton.edges)], dtype=np.int64)
    columns = zip(*((e.variable, e.target, e.anchors, e.excluded) for e in edges), strict=True)
    variable, target, anchors, excluded = (np.array(column, np.int64) for column in columns)
    return RowTables(first, variable, target, anchors, excluded)
