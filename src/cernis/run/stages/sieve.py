"""Check candidates one by one and keep the matches.

For queries that compare events with each other (and for NEXT and MAX over patterns
that begin with NOT). The engine's automaton yields a superset of the matches. The sieve
verifies each candidate against the formula, then applies strategy, SELECT, CONSUME BY and
LIMIT, in that order. Plans that are not listed decide all of these on compact sets.

Cost contract: linear in the candidates, which can be many more than the matches (for MAX, quadratic
in those of one end); a budget (`results.budget`) bounds that work. Every match in a partial
answer is real: where the strategy or CONSUME BY depends on candidates that were not checked, an end
position gives none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.engine.settings import NEVER
from cernis.engine.unary.arena import ArenaSegment
from cernis.engine.unary.best import find_reachable
from cernis.errors import RowError
from cernis.events.batch import EventBatch
from cernis.events.column_types import is_number
from cernis.events.store import EventStore
from cernis.pattern.query import Consume, Strategy
from cernis.plan.weights import EventWeight
from cernis.results.budget import describe_candidates
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, join, take
from cernis.results.sets.unary import CompactMatches
from cernis.run.check.checked_events import CheckedEvents
from cernis.run.check.conditions import EventView
from cernis.run.check.verify import Mark, Verifier
from cernis.run.stages.ranked_events import RankedEvents
from cernis.run.stages.stage import Numbers, OpeningStage, ReadBatch, Run, Stages
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    frozen_record,
    listed,
    number,
    read,
    require,
    write,
)

_FREE_EVENTS = 4
"""A candidate of more events costs the budget as many more."""
_COMPARED_AT_ONCE = 1024
"""So many comparisons of candidates take about as long as to check one."""

Found = Iterator[tuple[int, int, list[list[int]]]]
"""Candidates: start, end, and the positions of each of the plan's candidate variables."""


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
        case Strategy.LONGEST:  # `run.stages.longest` compares the intervals of different ends
            first = min((c.start for c in found), default=0)
            return choose(Strategy.MAX, end, {c for c in found if c.start == first})


def _weigh(
    weights: Sequence[EventWeight],
    store: EventStore,
    segment: ArenaSegment,
    labels: Sequence[frozenset[str]],
) -> NDArray[np.float64] | None:
    """Return the weight of each node: NULL weighs nothing, NaN passes no threshold.

    None where values are no numbers, or endless.
    """
    nodes = find_reachable(segment)
    label, positions = segment.arena["label"][nodes], segment.arena["position"][nodes]
    found = np.zeros(int(segment.roots["node"].max(initial=0)) + 1)
    for weight in weights:
        holds = np.array([weight.variable in names for names in labels])[label]
        values = np.ones(int(holds.sum()))
        if weight.attribute is not None:
            column = store.column(positions[holds], weight.attribute)
            if not is_number(column.type) and column.null_count < len(column):
                return None
            values = np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0))
            if np.isinf(values).any():
                return None
        values = np.where(np.isnan(values), -np.inf, weight.factor * values)
        found[nodes[holds]] += values
    return found


def _sort_latest_first(positions: frozenset[int]) -> list[int]:
    return sorted(positions, reverse=True)


def _sort_earliest_first(positions: frozenset[int]) -> list[int]:
    # the greater list has the smaller number at the first difference, or is longer
    return [-position for position in sorted(positions)]


def project(found: Iterable[Candidate], variables: Iterable[str]) -> set[Candidate]:
    """Return the candidates restricted to some variables, as a set."""
    kept = frozenset(variables)
    return {Candidate(c.start, frozenset((v, p) for v, p in c.labels if v in kept)) for c in found}


@frozen_record
class FrozenSieve:
    """Partitions, each with the number of its events that were consumed."""

    consumed: list[list[int]] = listed(listed(number(-1, MOST_EVENTS), 2))

    def check(self, sizes: Sizes) -> None:
        require(all(events >= 0 for _, events in self.consumed), "'consumed' is out of range")


class Sieve(OpeningStage):
    """Turns candidates into matches, batch after batch."""

    name = "sieve"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        plan = run.plan
        self.plan = plan
        self.verifier = Verifier(plan.pattern.formula)
        self.events = CheckedEvents(self.verifier.atoms, run.store, run.encode)
        self.budget = run.budget
        self._why = describe_candidates(plan.pattern.formula, plan.undecided)
        self.limit = plan.limit
        self.consumed: dict[int, int] = {}
        self._ranks: RankedEvents | None = None

    def note(self, read: ReadBatch) -> None:
        self.read(read.batch, read.keys)

    def note_stored(self, batch: EventBatch, keys: Numbers | None) -> None:
        self.read(batch, keys, self.run.kept_from)

    def read(self, batch: EventBatch, keys: Numbers | None, since: int = 0) -> None:
        """Store the codes of a batch, and the ranks of its events from position `since` on."""
        self.events.note(batch)
        if keys is not None:
            if self._ranks is None:
                self._ranks = RankedEvents()
            old = max(0, since - batch.base)
            self._ranks.note(batch.base + old, keys[old:])

    def find_candidates(self, segments: list[Any]) -> MatchSet:
        """Return the candidates in compact sets."""
        names = self.plan.candidate_variables
        return self.run.feed.find(names, segments, None, self.budget)

    def open(self, segments: list[Any], stages: Stages | None = None) -> ListedMatches:
        candidates = self.find_candidates(segments)
        if self.plan.exact and self.plan.pattern.strategy is Strategy.LONGEST:
            candidates = self._keep_earliest(candidates)
        return self.matches(candidates)

    def _keep_earliest(self, candidates: MatchSet) -> ListedMatches:
        """Return the candidates of the earliest start of each end; all spend the budget.

        Each of them is a valuation, so that shorter ones need no check.
        """
        names, blocks = self.plan.candidate_variables, []
        for block in candidates.blocks():
            self.budget.spend(len(block.end), self._why)
            blocks.append(keep_earliest(block))
            if self.budget.spent:
                break
        return ListedMatches(names, [keep_earliest(join(blocks, len(names)))])

    def forget_before(self, position: int, stages: Stages | None = None) -> None:
        self.events.forget_before(position)
        if self._ranks is not None:
            self._ranks.forget_before(position)

    def keep_keys(self, keys: Numbers) -> None:
        if self._ranks is not None:
            self._ranks.keep_keys(keys)
        if self.plan.pattern.consume is Consume.PARTITION:
            number = {key: i for i, key in enumerate(keys.tolist())}
            self.consumed = {number[k]: v for k, v in self.consumed.items() if k in number}

    @property
    def find_keys(self) -> Callable[[Numbers], Numbers] | None:
        return None if self.run.keys is None else self.keys_of

    def read_keys(self, first: int, end: int) -> Numbers | None:
        if self._ranks is None:
            return np.full(end - first, -1, np.int64)
        return self._ranks.keys_of(np.arange(first, end))

    def keys_of(self, ends: Numbers) -> Numbers:
        return np.zeros(len(ends), np.int64) if self._ranks is None else self._ranks.keys_of(ends)

    def freeze(self, stages: Stages | None = None) -> Tree:
        """Return the state that the stored events do not determine."""
        return write(FrozenSieve([[*pair] for pair in self.consumed.items()]))

    def thaw(self, tree: Tree) -> None:
        self.consumed = {pair[0]: pair[1] for pair in read(FrozenSieve, tree).consumed}

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
            (one for block in self._list_heavy(found) for one in unpack(block)), key=lambda c: c[1]
        ):
            if self.budget.spent:
                break
            listed += [(match.start, end, mark_variables(match)) for match in find(end, candidates)]
        return ListedMatches.of(names, listed)

    def _list_heavy(self, found: MatchSet) -> Iterator[MatchBlock]:
        """Return the candidates; where the plan has a threshold, those that may pass it."""
        threshold, heavy = self.plan.threshold, None
        if threshold is not None and isinstance(found, CompactMatches):
            weigh = partial(_weigh, threshold.weights, self.run.store)
            heavy = found.list_heavy(weigh, threshold.least, self.budget.left + 1)
        return found.blocks() if heavy is None else heavy

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
            events = len(set().union(*positions))
            self.budget.spend(max(1, events - _FREE_EVENTS), self._why)
            if self.budget.spent:
                break
            checked = self._check(start, positions, key, last)
            if checked is not None:
                valid.add(checked)
        if pattern.strategy is Strategy.MAX:  # which are compared with each other
            self.budget.spend(len(valid) ** 2 // _COMPARED_AT_ONCE, self._why)
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
        try:
            is_valid = exact or self.verifier.accepts(tuple(marks), first, last, view)
        except RowError as error:
            raise self.events.store.locate(error, self._to_global(key, last)) from error
        if not is_valid:
            return None
        return Candidate(first, frozenset(labels))

    def _to_local(self, position: int) -> tuple[int, int]:
        """Return the partition of an event, and its position inside."""
        return (0, position) if self._ranks is None else self._ranks.to_local(position)

    def _to_global(self, key: int, local: int) -> int:
        return local if self._ranks is None else self._ranks.to_global(key, local)


def unpack(block: MatchBlock) -> Found:
    """Yield the start, the end, and the positions of each variable of each match."""
    starts, ends = block.start.tolist(), block.end.tolist()
    offsets = [offset.tolist() for offset in block.offsets]
    positions = [position.tolist() for position in block.positions]
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        yield start, end, [p[o[i] : o[i + 1]] for p, o in zip(positions, offsets, strict=True)]


def keep_earliest(block: MatchBlock) -> MatchBlock:
    """Return the matches of the earliest start of each end."""
    ends, which = np.unique(block.end, return_inverse=True)
    earliest = np.full(len(ends), NEVER)
    np.minimum.at(earliest, which, block.start)
    return take(block, np.flatnonzero(block.start == earliest[which]))
