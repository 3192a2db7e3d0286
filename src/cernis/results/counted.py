"""A match set of numbers alone: how many matches end where, where matches are only counted.

Cost contract: the numbers are there already. The matches are not: there is nothing to list or
draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from cernis.engine.residues import flatten_integers
from cernis.engine.unary.aggregate import EndAggregates
from cernis.errors import StateError
from cernis.results.matchset import MatchBlock, Positions

_NONE_KEPT = (
    "a query that is SELECT COUNT(*) alone, and matches='count', keep no matches: "
    "list or sample a query that selects variables"
)


class CountedMatches:
    """The numbers of matches at some ends."""

    def __init__(self, variables: Sequence[str], taken: Sequence[EndAggregates]) -> None:
        self.variables = tuple(variables)
        self.taken = tuple(taken)

    @cached_property
    def _numbers(self) -> list[int]:
        return [n for each in self.taken for n in flatten_integers(each.counts).tolist()]

    def count(self) -> int:
        return sum(self._numbers)

    def is_empty(self) -> bool:
        return not any(len(each.ends) for each in self.taken)

    def counts(self) -> tuple[Positions, list[int]]:
        ends = np.concatenate([np.empty(0, np.int64), *(each.ends for each in self.taken)])
        return ends, self._numbers

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        raise StateError(_NONE_KEPT)

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        raise StateError(_NONE_KEPT)

    def of_ends(self, ends: Positions, most: int = 1) -> Iterator[MatchBlock]:
        raise StateError(_NONE_KEPT)

    def page(self, offset: int, n: int) -> MatchBlock:
        raise StateError(_NONE_KEPT)
