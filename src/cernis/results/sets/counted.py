"""A match set of numbers alone: how many matches end where, where matches are only counted.

Cost contract: the numbers are there already. The matches are not: there is nothing to list or
draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cernis.engine.unary.aggregate import EndAggregates
from cernis.engine.words import Integers, add_up, join_integers, list_integers, to_integers
from cernis.errors import StateError
from cernis.results.sets.matchset import MatchBlock, MatchSet, Positions

_NONE_KEPT = (
    "a query that is SELECT COUNT(*) alone, and matches='count', keep no matches: "
    "list or sample a query that selects variables"
)


CountLevels = Callable[[Mapping[str, NDArray[np.int64]], int, NDArray[np.int64]], NDArray[np.int64]]
"""Counts matches at levels (`engine.unary.levels`), given those of all events by variable, how many
there are, and the groups of the ends; None where the events of the run are not kept."""


class CountedMatches:
    """The numbers of matches at some ends."""

    def __init__(
        self,
        variables: Sequence[str],
        taken: Sequence[EndAggregates],
        count_levels: CountLevels | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self.taken = tuple(taken)
        self.count_levels = count_levels

    @cached_property
    def _numbers(self) -> Integers:
        none = np.empty(0, np.int64)
        return join_integers([none, *(each.counts for each in self.taken)])

    def count(self) -> int:
        first = np.zeros(min(1, len(self._numbers)), np.int64)
        return sum(add_up(self._numbers, first))

    def is_empty(self) -> bool:
        return not any(len(each.ends) for each in self.taken)

    def counts(self) -> tuple[Positions, list[int]]:
        ends, numbers = self.arrays()
        return ends, list_integers(numbers)

    def arrays(self) -> tuple[Positions, Integers]:
        """Return the ends and the numbers of matches."""
        none = np.empty(0, np.int64)
        return np.concatenate([none, *(each.ends for each in self.taken)]), self._numbers

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        raise StateError(_NONE_KEPT)

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        raise StateError(_NONE_KEPT)

    def of_ends(self, ends: Positions, most: int = 1) -> Iterator[MatchBlock]:
        raise StateError(_NONE_KEPT)

    def page(self, offset: int, n: int) -> MatchBlock:
        raise StateError(_NONE_KEPT)


def read_counts(found: MatchSet) -> tuple[Positions, Integers]:
    """Return the ends and the numbers of matches of any set."""
    if isinstance(found, CountedMatches):
        return found.arrays()
    ends, numbers = found.counts()
    return ends, to_integers(numbers)
