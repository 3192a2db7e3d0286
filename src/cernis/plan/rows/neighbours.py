"""Which rows can be part of a match, by a row and the two rows beside it.

A host drops the other rows before they reach the matcher. What the host computes of a condition, a
*mask*, is necessary: a row is mapped to a variable only if the mask holds.

**What is dropped.** An edge of the automaton reads a row as a variable v, from a state s to a state
t. A row *fits* the edge if it satisfies the mask of v; s is the first state, or the row before
satisfies the mask of a variable with which an edge enters s; and t accepts, or the row after
satisfies the mask of a variable with which an edge leaves t. A row that fits no edge is dropped.

**Why nothing changes.** A match that has rows is a path from the first state to one that accepts,
on neighbouring rows of a partition, so each of its rows fits the edge that reads it. So no row of a
match is dropped, and of the paths that the matcher tries at a row, those that reach an accepting
state stay, in their order of preference: the first of them is the same match. Rows keep the number
that they had in their partition (RANK), and the matcher begins anew where a number is missing. So
rows that become neighbours by the dropping are none to the matcher, and no match is won. Values of
other rows that a condition looks at are of rows of the match, or were computed by the host before
(PREV and NEXT). MATCH_NUMBER counts the same matches.

**Where no row is dropped.** Anchors look at the ends of a partition, empty matches begin at any
row, and WITH UNMATCHED ROWS shows all. Nor can a row be dropped where a variable without a
condition may stand beside itself, as X in `X* A`. `A X* B` could do without rows that no A
precedes, but "some row before" and "some row after" are frames without a bound, the second of which
Spark computes in quadratic time.

**Why not before the shuffle.** Which rows are neighbours is known when a partition is in order,
after the shuffle. A row that fits nothing keeps its neighbours apart, so without RANK it cannot go;
the host sends only the columns that masks and results need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cernis.automata.rows.construct import ACCEPT, RowAutomaton

_MOST = 24
"""With more edges, the condition costs more than it saves."""


class FittingEdge(NamedTuple):
    """A variable, and those that may stand beside it: of the row before, and of the row after."""

    variable: int
    before: tuple[int, ...] | None
    """None: the variable begins a match."""
    after: tuple[int, ...] | None
    """None: the variable ends a match."""


def find_fitting_edges(
    automaton: RowAutomaton, masks: Sequence[bool]
) -> tuple[FittingEdge, ...] | None:
    """Return what the rows of matches fit; None: every row fits.

    `masks` tells which variables have a mask.

    >>> from cernis.automata.rows.construct import construct
    >>> from cernis.languages.sql.pattern import parse_pattern
    >>> automaton = construct(parse_pattern("A B+"), ["A", "B"])
    >>> for edge in find_fitting_edges(automaton, [False, True]):
    ...     print(edge)
    FittingEdge(variable=0, before=None, after=(1,))
    FittingEdge(variable=1, before=(0,), after=None)
    FittingEdge(variable=1, before=(1,), after=None)
    """
    entering: list[set[int]] = [set() for _ in automaton.edges]
    leaving = [{edge.variable for edge in edges} for edges in automaton.edges]
    for edges in automaton.edges:
        for edge in edges:
            if edge.variable != ACCEPT:
                entering[edge.target].add(edge.variable)
    found: dict[FittingEdge, None] = {}
    for state, edges in enumerate(automaton.edges):
        before = None if state == 0 else tuple(sorted(entering[state]))
        for edge in edges:
            if edge.variable != ACCEPT:
                after = leaving[edge.target]
                told = None if ACCEPT in after else tuple(sorted(after))
                found[FittingEdge(edge.variable, before, told)] = None

    def is_any(beside: Sequence[int] | None) -> bool:
        return beside is None or not all(masks[variable] for variable in beside)

    if any(not masks[v] and is_any(before) and is_any(after) for v, before, after in found):
        return None
    return tuple(found) if len(found) <= _MOST else None
