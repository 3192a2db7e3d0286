"""The head of a conjunctive query that drops variables: which events its answers need.

An answer is a tuple of values, and each value is read off the event of one atom. Of the
atoms that have a variable, the last one in time is taken, so that an answer needs as few
events of a match as possible.

Where timestamps put the atoms in one order, the atoms before the first needed one matter
only by their start: of all partial matches with one key, the one that started last stays in
the window longest. So their states are *collapsed*: an index keeps the latest start for each
key, and no run. For
`Q(y, t3) <- r(x)@t1, s(x, y)@t2, t(y)@t3, t1 < t2 < t3, t3 - t1 < 5` everything before
the last atom collapses: these are the tables H_R and H_S of Algorithm 1 of the dynamic
evaluation paper, with its line 6 corrected (the maximum of the old and the new start is
kept), for chains of any length, and every event takes constant time. An index by order or
by ≠ has no such single best entry; states whose runs are found through one are not
collapsed.

All other matches are enumerated and projected: `run.stages.projection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cernis.automata.correlated.pcea import PCEA
from cernis.engine.correlated.tables import store_of
from cernis.engine.dag.records import UNION
from cernis.languages.conjunctive.query import ConjunctiveQuery


@dataclass(frozen=True, slots=True)
class HeadColumn:
    """A variable of the head, the atom that it is read off, and the attribute there."""

    name: str
    atom: int
    attribute: str | None
    """None: the event's timestamp."""


@dataclass(frozen=True, slots=True)
class Head:
    """How an answer is read off a match."""

    columns: tuple[HeadColumn, ...]
    order: tuple[int, ...] | None
    """The atoms by time, if that is one order."""

    @property
    def first_needed(self) -> int:
        """How many atoms come before the first that is needed; 0 where there is no order."""
        if self.order is None:
            return 0
        ranks = [self.order.index(column.atom) for column in self.columns]
        return min(ranks, default=len(self.order) - 1)

    @property
    def dated(self) -> str | None:
        """The variable that says when a match ends, if there is one.

        An answer with it can only be found again at the same time.
        """
        if self.order is None:
            return None
        last = self.order[-1]
        dates = [c.name for c in self.columns if c.attribute is None and c.atom == last]
        return dates[0] if dates else None


def make_head(query: ConjunctiveQuery, order: Sequence[int] | None) -> Head | None:
    """Return how answers are read off matches; None where they are the matches.

    `order` has the atoms by time, if that is one order.
    """
    if query.full:
        return None
    rank = range(len(query.atoms)) if order is None else order
    columns = []
    for name in dict.fromkeys(query.head):
        is_time = name in query.timestamps
        holders = query.timestamps[name] if is_time else query.holders[name]
        atom = max(holders, key=rank.index)
        attribute = None if is_time else query.columns[atom][name].name
        columns.append(HeadColumn(name, atom, attribute))
    return Head(tuple(columns), None if order is None else tuple(order))


def find_collapsible(head: Head, pcea: PCEA) -> frozenset[int]:
    """Return the states of which only the latest start matters to the answers."""
    depth = _measure_depths(pcea)
    if depth is None:
        return frozenset()
    links = [source for t in pcea.transitions for source in t.sources]
    unsuited = {s.state for s in links if store_of(s.state, s.link).kind != UNION}
    return frozenset(q for q, d in depth.items() if d < head.first_needed) - unsuited


def _measure_depths(pcea: PCEA) -> dict[int, int] | None:
    """Return how many events each state of a chain has read before its last; None if it varies."""
    if not pcea.is_chain:
        return None
    found: dict[int, int] = {}
    for _ in pcea.names:
        for t in pcea.transitions:
            before = [found.get(source.state) for source in t.sources]
            if None in before:
                continue
            depth = 1 + max((d for d in before if d is not None), default=-1)
            if found.setdefault(t.target, depth) != depth:
                return None
    return found


def describe_cost(head: Head, collapsed: frozenset[int] = frozenset()) -> str:
    """Return what finding the answers costs, in words."""
    shown = ", ".join(column.name for column in head.columns)
    if head.order is not None and len(collapsed) == len(head.order) - 1:
        return f"the distinct ({shown}): found at once, without enumerating matches"
    if collapsed:
        return (
            f"the distinct ({shown}): matches are enumerated and projected, but for "
            f"{len(collapsed)} of {len(head.order or ())} atoms only the latest start is kept"
        )
    return f"the distinct ({shown}): all matches are enumerated and projected"
