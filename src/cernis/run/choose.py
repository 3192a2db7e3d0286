"""Apply a selection strategy and SELECT to matches that are listed one by one.

Plans that are not listed decide both on compact sets.

Cost contract: quadratic in the candidates of one end position for MAX, linear otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cernis.pattern.query import Strategy


class Candidate(NamedTuple):
    """A valuation: its start, and which variables each marked position has."""

    start: int
    labels: frozenset[tuple[str, int]]

    @property
    def positions(self) -> frozenset[int]:
        return frozenset(position for _, position in self.labels)


def mark_variables(candidate: Candidate) -> dict[str, list[int]]:
    """Return the positions of each variable."""
    marks: dict[str, list[int]] = {}
    for variable, position in candidate.labels:
        marks.setdefault(variable, []).append(position)
    return marks


def choose(strategy: Strategy, end: int, found: set[Candidate]) -> set[Candidate]:
    """Return the candidates of one end position that the strategy keeps."""
    match strategy:
        case Strategy.ALL:
            return found
        case Strategy.STRICT:
            return {c for c in found if len(c.positions) == end - c.start + 1}
        case Strategy.MAX:
            sets = {c.positions for c in found}
            maximal = {s for s in sets if not any(s < other for other in sets)}
            return {c for c in found if c.positions in maximal}
        case Strategy.NEXT:
            best = max((c.positions for c in found), key=_sort_earliest_first, default=None)
            return {c for c in found if c.positions == best}
        case Strategy.LAST | Strategy.ANY:
            best = max((c.positions for c in found), key=_sort_latest_first, default=None)
            last = {c for c in found if c.positions == best}
            if strategy is Strategy.LAST or not last:
                return last
            return {min(last, key=lambda c: (-c.start, sorted(c.labels)))}
        case Strategy.LONGEST:  # `run.longest` compares the intervals of different ends
            first = min((c.start for c in found), default=0)
            return choose(Strategy.MAX, end, {c for c in found if c.start == first})


def _sort_latest_first(positions: frozenset[int]) -> list[int]:
    return sorted(positions, reverse=True)


def _sort_earliest_first(positions: frozenset[int]) -> list[int]:
    # the greater list has the smaller number at the first difference, or is longer
    return [-position for position in sorted(positions)]


def project(found: Iterable[Candidate], variables: Iterable[str]) -> set[Candidate]:
    """Return the candidates restricted to some variables, as a set."""
    kept = frozenset(variables)
    return {Candidate(c.start, frozenset((v, p) for v, p in c.labels if v in kept)) for c in found}
