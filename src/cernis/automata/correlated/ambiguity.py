"""Whether two runs of a PCEA can write the same match.

The engine writes one match for each run, so a match that several runs write would come
several times. Pairs of runs of a chain are followed forwards, from the event at which they
part. A tree is read from its last event backwards: that event is the latest of the match, so
two runs with the same match have it in common. Either they came by different transitions
(`alike` then asks whether the rest can be the same), or their sources are compared in turn.
Where a transition gathers several runs, the labels that only one of them can write tell which
events are whose; where they do not, the answer is yes.

The answer "no" is always right. "Yes" may be too careful: nothing is known of the values that
tests and links look at, except that a test and its opposite exclude each other.

Cost contract: pairs of states that write the same labels, at most `MOST_PAIRS`, each with the
pairs of their transitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import combinations, permutations, product

from cernis.automata.correlated.exclusion import are_exclusive_links, are_exclusive_tests
from cernis.automata.correlated.pcea import PCEA, Transition
from cernis.automata.unary.tidy import find_reachable

MOST_PAIRS = 20_000
MOST_PAIRED_SOURCES = 4

Labels = frozenset[str]


def is_ambiguous(pcea: PCEA, labels_kept: frozenset[str] | None = None) -> bool:
    """Whether two runs may write the same match when only these labels are kept.

    >>> from cernis.pattern.formula import Choice, Event
    >>> from cernis.automata.correlated.correlate import correlate
    >>> is_ambiguous(correlate(Choice((Event("A"), Event("B")))).pcea)
    False
    >>> is_ambiguous(correlate(Choice((Event("A"), Event("A")))).pcea)
    True
    """
    pcea, kept = pcea.drop_guards(), labels_kept
    if kept is None:
        kept = Labels().union(*(t.labels for t in pcea.transitions))
    if any(not t.labels & kept for t in pcea.transitions):
        return True
    return _is_chain_ambiguous(pcea, kept) if pcea.is_chain else _Backwards(pcea).is_ambiguous(kept)


def _is_chain_ambiguous(pcea: PCEA, kept: Labels) -> bool:
    """Follow pairs of runs forwards, from the state at which they part."""
    after: dict[int | None, list[Transition]] = {}
    for t in pcea.transitions:
        after.setdefault(t.sources[0].state if t.sources else None, []).append(t)
    useful = _find_useful(pcea)
    parted = [
        (one.target, other.target)
        for following in after.values()
        for one, other in _compatible(following, following, kept)
        if one is not other
    ]
    seen = set(parted)
    while parted:
        p, q = parted.pop()
        if p not in useful or q not in useful:
            continue
        if p == q or {p, q} <= pcea.finals:
            return True
        if len(seen) > MOST_PAIRS:
            return True
        for one, other in _compatible(after.get(p, []), after.get(q, []), kept):
            pair = (one.target, other.target)
            if pair not in seen:
                seen.add(pair)
                parted.append(pair)
    return False


def _find_useful(pcea: PCEA) -> set[int]:
    """Return the states from which a run can end."""
    sources: dict[int, set[int]] = {}
    for t in pcea.transitions:
        sources.setdefault(t.target, set()).update(source.state for source in t.sources)
    return find_reachable(pcea.finals, lambda state: sources.get(state, ()))


def _compatible(
    ones: Iterable[Transition], others: Iterable[Transition], kept: Labels
) -> Iterator[tuple[Transition, Transition]]:
    """Yield the pairs that one event may take after the same event, with the same labels."""
    by_labels: dict[Labels, list[Transition]] = {}
    for other in others:
        by_labels.setdefault(other.labels & kept, []).append(other)
    for one in ones:
        for other in by_labels.get(one.labels & kept, ()):
            if are_exclusive_tests(one.test, other.test):
                continue
            if any(are_exclusive_links(a.link, b.link) for a in one.sources for b in other.sources):
                continue
            yield one, other


class _TooManyPairsError(Exception):
    pass


class _Backwards:
    """Pairs of runs, read backwards from their common last event."""

    def __init__(self, pcea: PCEA) -> None:
        self.pcea = pcea
        self.into: list[list[Transition]] = [[] for _ in pcea.names]
        for transition in pcea.transitions:
            self.into[transition.target].append(transition)
        self.may = self._settle([Labels()] * len(pcea.names), Labels.union)
        self.must = self._settle(self.may, Labels.intersection)
        self.taken: dict[int, tuple[Transition, ...]] = {}
        # pairs of states that may end runs with the same match, by kept labels
        self.alike: dict[tuple[int, int, Labels], bool] = {}

    def is_ambiguous(self, kept: Labels) -> bool:
        try:
            return any(
                self._may_be_same(p, q, kept) for p, q in combinations(sorted(self.pcea.finals), 2)
            ) or any(self._find_differences(kept))
        except _TooManyPairsError:
            return True

    def _find_differences(self, kept: Labels) -> Iterator[bool]:
        """Yield for each state whether two runs to it may write the same match."""
        stack = [(state, kept) for state in sorted(self.pcea.finals)]
        seen = set(stack)
        while stack:
            state, labels = stack.pop()
            for one, other in combinations(self.into[state], 2):
                yield self._may_be_same_by(one, other, labels)
            for transition in self.into[state]:
                owned = self._own_labels([transition], labels)
                if owned is None:
                    yield True
                    return
                for source, own in zip(transition.sources, owned, strict=True):
                    following = (source.state, own)
                    if following not in seen:
                        seen.add(following)
                        stack.append(following)

    def _own_labels(self, transitions: Sequence[Transition], kept: Labels) -> list[Labels] | None:
        """Return the labels that only one source's run writes; None where they do not tell all.

        The transitions have their sources in the same order.
        """
        sources = list(zip(*(t.sources for t in transitions), strict=True))
        written = [Labels().union(*(self.may[s.state] for s in each)) & kept for each in sources]
        if len(written) == 1:
            return [kept]
        owned = []
        for i, each in enumerate(sources):
            others = Labels().union(*(w for j, w in enumerate(written) if j != i))
            own = written[i] - others
            if any(not t.labels & own for s in each for t in self._below(s.state)):
                return None
            owned.append(own)
        return owned

    # ------------------------------------------------- can they be the same

    def _may_be_same(self, p: int, q: int, kept: Labels) -> bool:
        """Whether a run to p and a run to q may write the same (the least fixpoint)."""
        key = _key(p, q, kept)
        if key in self.alike:
            return self.alike[key]
        if len(self.alike) > MOST_PAIRS:
            raise _TooManyPairsError
        order = [key]
        self.alike[key] = False
        for at in order:
            for asked in self._asks(at):
                if asked not in self.alike:
                    if len(self.alike) > MOST_PAIRS:
                        raise _TooManyPairsError
                    self.alike[asked] = False
                    order.append(asked)
        grown = True
        while grown:
            grown = False
            for at in reversed(order):
                if not self.alike[at] and self._holds(at):
                    self.alike[at] = grown = True
        return self.alike[key]

    def _may_be_same_by(self, one: Transition, other: Transition, kept: Labels) -> bool:
        condition = self._condition(one, other, kept)
        if isinstance(condition, bool):
            return condition
        return all(self._may_be_same(*key) for key in condition)

    def _asks(self, at: tuple[int, int, Labels]) -> Iterator[tuple[int, int, Labels]]:
        p, q, kept = at
        for one, other in product(self.into[p], self.into[q]):
            condition = self._condition(one, other, kept)
            if not isinstance(condition, bool):
                yield from condition

    def _holds(self, at: tuple[int, int, Labels]) -> bool:
        p, q, kept = at
        for one, other in product(self.into[p], self.into[q]):
            condition = self._condition(one, other, kept)
            if condition if isinstance(condition, bool) else all(self.alike[k] for k in condition):
                return True
        return False

    def _condition(
        self, one: Transition, other: Transition, kept: Labels
    ) -> bool | list[tuple[int, int, Labels]]:
        """Whether runs that end by these may write the same, or the pairs that decide it."""
        if one.labels & kept != other.labels & kept or are_exclusive_tests(one.test, other.test):
            return False
        if bool(one.sources) != bool(other.sources):
            return False
        if not (self._before(one, self.must) & kept <= self._before(other, self.may)):
            return False
        if not (self._before(other, self.must) & kept <= self._before(one, self.may)):
            return False
        if len(one.sources) != len(other.sources):
            return True
        if len(one.sources) == 1:
            (a,), (b,) = one.sources, other.sources
            if are_exclusive_links(a.link, b.link):
                return False
            return [_key(a.state, b.state, kept)]
        return self._pair_sources(one, other, kept)

    def _pair_sources(
        self, one: Transition, other: Transition, kept: Labels
    ) -> bool | list[tuple[int, int, Labels]]:
        """Pair the sources so that each pair has labels of its own; True if that fails."""
        if len(one.sources) > MOST_PAIRED_SOURCES:
            return True
        for order in permutations(other.sources):
            paired = Transition(order, other.test, other.labels, other.target)
            owned = self._own_labels([one, paired], kept)
            if owned is not None:
                return [
                    _key(a.state, b.state, own)
                    for a, b, own in zip(one.sources, order, owned, strict=True)
                ]
        return True

    # --------------------------------------------------- what runs can write

    def _before(self, transition: Transition, labels: Sequence[Labels]) -> Labels:
        """Return the labels of the events before the one that the transition reads."""
        return Labels().union(*(labels[source.state] for source in transition.sources))

    def _settle(
        self, labels: Sequence[Labels], combine: Callable[[Labels, Labels], Labels]
    ) -> list[Labels]:
        """Combine the labels of each state with those of the runs to it, until nothing changes."""
        found = list(labels)
        changed = True
        while changed:
            changed = False
            for t in self.pcea.transitions:
                new = combine(found[t.target], t.labels | self._before(t, found))
                if new != found[t.target]:
                    found[t.target] = new
                    changed = True
        return found

    def _below(self, state: int) -> Collection[Transition]:
        """Return every transition that a run to the state may have taken."""
        if state not in self.taken:
            below = find_reachable(
                [state], lambda each: (s.state for t in self.into[each] for s in t.sources)
            )
            self.taken[state] = tuple(t for each in sorted(below) for t in self.into[each])
        return self.taken[state]


def _key(p: int, q: int, kept: Labels) -> tuple[int, int, Labels]:
    return min(p, q), max(p, q), kept
