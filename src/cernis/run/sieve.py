"""Check candidates one by one and keep the matches.

For queries that compare events with each other (and for NEXT and MAX over patterns
that begin with NOT). The engine's automaton yields a superset of the matches. The sieve
verifies each candidate against the formula, then applies strategy, SELECT, CONSUME BY and
LIMIT, in that order.

Cost contract: linear in the candidates, which can be many more than the matches; a
budget (`run.budget`) bounds their number. Every match in a partial answer is real: where the
strategy or CONSUME BY depends on candidates that were not checked, an end position gives none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.encode import Encode
from cernis.events.batch import EventBatch
from cernis.events.store import EventStore
from cernis.pattern.query import Consume, Strategy
from cernis.plan.plan import Plan
from cernis.results.matchset import ListedMatches, MatchBlock, MatchSet
from cernis.run.budget import Budget, describe_candidates
from cernis.run.checked_events import CheckedEvents
from cernis.run.choose import Candidate, choose, mark_variables, project
from cernis.run.conditions import EventView
from cernis.run.partition_places import PartitionPlaces
from cernis.run.verify import Mark, Verifier
from cernis.state import MOST_EVENTS, check_list, check_mapping, check_number

Found = Iterator[tuple[int, int, list[list[int]]]]
"""Candidates: start, end, and the positions of each of the plan's candidate variables."""


class Sieve:
    """Turns candidates into matches, batch after batch."""

    def __init__(
        self,
        plan: Plan,
        store: EventStore,
        budget: Budget,
        encode: Encode,
    ) -> None:
        self.plan = plan
        self.verifier = Verifier(plan.pattern.formula)
        self.events = CheckedEvents(self.verifier.atoms, store, encode)
        self.budget = budget
        self._why = describe_candidates(plan.pattern.formula)
        self.limit = plan.limit
        self.consumed: dict[int, int] = {}
        self._places: PartitionPlaces | None = None

    def note(self, batch: EventBatch, keys: NDArray[np.int64] | None, since: int = 0) -> None:
        """Store the codes of a batch, and the ranks of its events from position `since` on."""
        self.events.note(batch)
        if keys is not None:
            if self._places is None:
                self._places = PartitionPlaces()
            old = max(0, since - batch.base)
            self._places.note(batch.base + old, keys[old:])

    def forget_before(self, position: int) -> None:
        """Drop the events before this position, which no candidate reaches."""
        self.events.forget_before(position)
        if self._places is not None:
            self._places.forget_before(position)

    def keep_keys(self, keys: NDArray[np.int64]) -> None:
        """Renumber keys: keys[i] becomes i; the others have nothing alive."""
        if self._places is not None:
            self._places.keep_keys(keys)
        if self.plan.pattern.consume is Consume.PARTITION:
            number = {key: i for i, key in enumerate(keys.tolist())}
            self.consumed = {number[k]: v for k, v in self.consumed.items() if k in number}

    def read_keys(self, first: int, end: int) -> NDArray[np.int64]:
        """Return the partition of each event from position `first` on, or -1."""
        if self._places is None:
            return np.full(end - first, -1, np.int64)
        return self._places.keys_of(np.arange(first, end))

    def keys_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the partitions of events that matches end with."""
        if self._places is None:
            return np.zeros(len(positions), np.int64)
        return self._places.keys_of(positions)

    def freeze(self) -> dict[str, Any]:
        """Return the state that the stored events do not determine."""
        return {"consumed": list(self.consumed.items())}

    def thaw(self, frozen: object) -> None:
        """Restore what `freeze` returned, before the stored events are noted again."""
        parts = check_mapping(frozen, "'sieve'")
        pairs = check_list(parts.get("consumed"), "consumed")
        self.consumed = {
            check_number(key, "consumed", -1): check_number(number, "consumed", 0, MOST_EVENTS)
            for key, number in (check_list(pair, "consumed", 2) for pair in pairs)
        }

    def matches(self, found: MatchSet) -> ListedMatches:
        """Return the matches among these candidates."""
        return self._list(found, self._find_at, self.plan.variables)

    @property
    def labels(self) -> tuple[str, ...]:
        """The variables of candidates that are checked: every one that the formula has."""
        names = self.plan.candidate_variables
        return tuple(name for name in names if self.verifier.path_of(name) is None)

    def check(self, found: MatchSet) -> ListedMatches:
        """Return the valuations among these candidates, without strategy, SELECT and LIMIT.

        Except for STRICT, which looks at each one alone.
        """
        return self._list(found, self._check_at, self.labels)

    def _list(
        self, found: MatchSet, find: Callable[[int, Found], list[Candidate]], names: tuple[str, ...]
    ) -> ListedMatches:
        listed = []
        for end, candidates in groupby(
            (one for block in found.blocks() for one in unpack(block)), key=lambda c: c[1]
        ):
            if self.budget.spent:
                break
            listed += [(match.start, end, mark_variables(match)) for match in find(end, candidates)]
        return ListedMatches.of(names, listed)

    def _check_at(self, end: int, candidates: Found) -> list[Candidate]:
        key, last = self._to_local(end)
        valid = self._find_valid(key, last, candidates)
        if self.plan.pattern.strategy is Strategy.STRICT:
            valid = choose(Strategy.STRICT, last, valid)
        return [self._globalize(key, candidate) for candidate in valid]

    def _find_at(self, end: int, candidates: Found) -> list[Candidate]:
        pattern = self.plan.pattern
        key, last = self._to_local(end)
        valid = self._find_valid(key, last, candidates)
        chosen = choose(pattern.strategy, last, valid)
        kept = [self._globalize(key, c) for c in project(chosen, self.plan.variables)]
        if pattern.consume is not Consume.NONE and pattern.strategy is not Strategy.LONGEST:
            scope = -1 if pattern.consume is Consume.ANY else key
            kept = [c for c in kept if c.start > self.consumed.get(scope, -1)]
            if kept:
                self.consumed[scope] = end
        kept.sort(key=lambda c: (-c.start, sorted(c.labels)))
        return kept if self.limit is None else kept[: self.limit]

    def _find_valid(self, key: int, last: int, candidates: Found) -> set[Candidate]:
        """Return the valuations that end at one position; none if the strategy cannot decide."""
        pattern = self.plan.pattern
        valid: set[Candidate] = set()
        for start, _, positions in candidates:
            self.budget.spend(1, self._why)
            if self.budget.spent:
                break
            checked = self._check(start, positions, key, last)
            if checked is not None:
                valid.add(checked)
        decided = pattern.strategy is Strategy.ALL and pattern.consume is Consume.NONE
        return set() if self.budget.spent and not decided else valid

    def _globalize(self, key: int, candidate: Candidate) -> Candidate:
        """Return a candidate with positions in the whole stream."""
        labels = frozenset((v, self._to_global(key, p)) for v, p in candidate.labels)
        return Candidate(self._to_global(key, candidate.start), labels)

    def _check(
        self, start: int, positions: list[list[int]], key: int, last: int
    ) -> Candidate | None:
        """Return a candidate that is a match, its positions counted inside its partition."""
        marks, labels = [], []
        for variable, where in zip(self.plan.candidate_variables, positions, strict=True):
            path = self.verifier.path_of(variable)
            for position in where:
                _, local = self._to_local(position)
                if path is None:
                    labels.append((variable, local))
                else:
                    marks.append(Mark(local, path))
        _, first = self._to_local(start)
        view = EventView(
            lambda p: self.events.read_truth(self._to_global(key, p)),
            lambda p, attribute: self.events.read_value(self._to_global(key, p), attribute),
            lambda p: self.events.read_value(self._to_global(key, p), None),
            self.events.tick,
        )
        exact = self.plan.exact
        if not exact and not self.verifier.accepts(tuple(marks), first, last, view):
            return None
        return Candidate(first, frozenset(labels))

    def _to_local(self, position: int) -> tuple[int, int]:
        """Return the partition of an event, and its position inside."""
        return (0, position) if self._places is None else self._places.to_local(position)

    def _to_global(self, key: int, local: int) -> int:
        return local if self._places is None else self._places.to_global(key, local)


def unpack(block: MatchBlock) -> Found:
    """Yield the start, the end, and the positions of each variable of each match."""
    starts, ends = block.start.tolist(), block.end.tolist()
    offsets = [offset.tolist() for offset in block.offsets]
    positions = [position.tolist() for position in block.positions]
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        yield start, end, [p[o[i] : o[i + 1]] for p, o in zip(positions, offsets, strict=True)]
