"""Whether two runs of a PCEA can write the same match, and automata in which none can.

The engine writes one match for each run, so a match that several runs write would come
several times. `ambiguous` tells whether that can happen. Of a chain it looks at pairs of
runs forwards, from the event at which they part. A tree is read from its last event
backwards: that event is the latest of the match, so two runs with the same match have it
in common, and either they came by different transitions (`alike` then asks whether the
rest can be the same) or their sources are compared in turn. Where a transition gathers
several runs, the labels that only one of them can write tell which events are
whose; where they do not, the answer is yes. The answer "no" is always right; "yes" may be
too careful, since nothing is known of the values that tests and links look at, except
that a test and its opposite exclude each other.

`determinize_chain` is Theorem 8 of the chain automata paper, for automata without joins: a
state is the set of all states that runs with the same marks so far are in. What one event
or one pair of neighbours may satisfy is cut into regions that exclude each other, tests into
conjunctions of tests and their opposites, equalities into `equal` and `unlike`.

Cost contract: `ambiguous` looks at pairs of states that write the same labels, at most
`MOST_PAIRS`, each with the pairs of their transitions. `determinize_chain` is exponential
in the worst case and gives up beyond `MOST_TRANSITIONS` transitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from math import prod

from cernis.automata.correlated.fragments import contradictory
from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Link, Source, Transition
from cernis.automata.unary.cea import ANYTHING, Both, Isnt, Test, both

MOST_PAIRS = 20_000
MOST_PAIRED_SOURCES = 4
MOST_TRANSITIONS = 500
MOST_TESTS = 6
MOST_REGIONS = 81

Labels = frozenset[str]
Pair = tuple[str, str]


def ambiguous(pcea: PCEA, labels_kept: frozenset[str] | None = None) -> bool:
    """Whether two runs may write the same match when only these labels are kept.

    >>> from cernis.pattern.formula import Choice, Event
    >>> from cernis.automata.correlated.correlate import correlate
    >>> ambiguous(correlate(Choice((Event("A"), Event("B")))).pcea)
    False
    >>> ambiguous(correlate(Choice((Event("A"), Event("A")))).pcea)
    True
    """
    kept = labels_kept
    if kept is None:
        kept = Labels().union(*(t.labels for t in pcea.transitions))
    if any(not t.labels & kept for t in pcea.transitions):
        return True
    return _chain_ambiguous(pcea, kept) if pcea.chain else _Backwards(pcea).ambiguous(kept)


def _chain_ambiguous(pcea: PCEA, kept: Labels) -> bool:
    """Forwards: two runs part at a state, and go on in pairs of states over the same events."""
    after: dict[int | None, list[Transition]] = {}
    for t in pcea.transitions:
        after.setdefault(t.sources[0].state if t.sources else None, []).append(t)
    useful = _leads_to_an_end(pcea)
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


def _leads_to_an_end(pcea: PCEA) -> set[int]:
    sources: dict[int, set[int]] = {}
    for t in pcea.transitions:
        sources.setdefault(t.target, set()).update(source.state for source in t.sources)
    useful = set(pcea.finals)
    stack = list(useful)
    while stack:
        for state in sources.get(stack.pop(), set()) - useful:
            useful.add(state)
            stack.append(state)
    return useful


def _compatible(
    ones: Iterable[Transition], others: Iterable[Transition], kept: Labels
) -> Iterator[tuple[Transition, Transition]]:
    """Pairs that one event after one and the same other may take, with the same labels."""
    by_labels: dict[Labels, list[Transition]] = {}
    for other in others:
        by_labels.setdefault(other.labels & kept, []).append(other)
    for one in ones:
        for other in by_labels.get(one.labels & kept, ()):
            if exclusive(one.test, other.test):
                continue
            if any(opposed(a.link, b.link) for a in one.sources for b in other.sources):
                continue
            yield one, other


class _TooManyPairsError(Exception):
    pass


class _Backwards:
    """Pairs of runs, read from their common last event."""

    def __init__(self, pcea: PCEA) -> None:
        self.pcea = pcea
        self.into: list[list[Transition]] = [[] for _ in pcea.names]
        for transition in pcea.transitions:
            self.into[transition.target].append(transition)
        self.may = self._may()
        self.must = self._must()
        self.taken: dict[int, tuple[Transition, ...]] = {}
        # pairs of states that may end runs with the same match, by kept labels
        self.alike: dict[tuple[int, int, Labels], bool] = {}

    def ambiguous(self, kept: Labels) -> bool:
        try:
            return any(
                self._same(p, q, kept) for p, q in combinations(sorted(self.pcea.finals), 2)
            ) or any(self._differ(kept))
        except _TooManyPairsError:
            return True

    def _differ(self, kept: Labels) -> Iterator[bool]:
        """For each state that a run can be in, whether two runs to it can be told apart."""
        stack = [(state, kept) for state in sorted(self.pcea.finals)]
        seen = set(stack)
        while stack:
            state, labels = stack.pop()
            for one, other in combinations(self.into[state], 2):
                yield self._same_by(one, other, labels)
            for transition in self.into[state]:
                owned = self._owned([transition], labels)
                if owned is None:
                    yield True
                    return
                for source, own in zip(transition.sources, owned, strict=True):
                    following = (source.state, own)
                    if following not in seen:
                        seen.add(following)
                        stack.append(following)

    def _owned(self, transitions: Sequence[Transition], kept: Labels) -> list[Labels] | None:
        """The labels that only one source's run writes; None where they do not tell all.

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

    def _same(self, p: int, q: int, kept: Labels) -> bool:
        """Whether a run to p and a run to q may write the same (the least fixpoint)."""
        key = (min(p, q), max(p, q), kept)
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

    def _same_by(self, one: Transition, other: Transition, kept: Labels) -> bool:
        condition = self._condition(one, other, kept)
        if isinstance(condition, bool):
            return condition
        return all(self._same(*key) for key in condition)

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
        if one.labels & kept != other.labels & kept or exclusive(one.test, other.test):
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
            if opposed(a.link, b.link):
                return False
            return [_key(a.state, b.state, kept)]
        return self._paired(one, other, kept)

    def _paired(
        self, one: Transition, other: Transition, kept: Labels
    ) -> bool | list[tuple[int, int, Labels]]:
        """Sources paired up so that each pair has labels of its own."""
        if len(one.sources) > MOST_PAIRED_SOURCES:
            return True
        for order in permutations(other.sources):
            paired = Transition(order, other.test, other.labels, other.target)
            owned = self._owned([one, paired], kept)
            if owned is not None:
                return [
                    _key(a.state, b.state, own)
                    for a, b, own in zip(one.sources, order, owned, strict=True)
                ]
        return True

    # --------------------------------------------------- what runs can write

    def _before(self, transition: Transition, labels: Sequence[Labels]) -> Labels:
        """Labels of the events before the one that the transition reads."""
        return Labels().union(*(labels[source.state] for source in transition.sources))

    def _may(self) -> list[Labels]:
        found = [Labels()] * len(self.pcea.names)
        grown = True
        while grown:
            grown = False
            for t in self.pcea.transitions:
                more = found[t.target] | t.labels | self._before(t, found)
                if more != found[t.target]:
                    found[t.target] = more
                    grown = True
        return found

    def _must(self) -> list[Labels]:
        found = list(self.may)
        shrunk = True
        while shrunk:
            shrunk = False
            for t in self.pcea.transitions:
                less = found[t.target] & (t.labels | self._before(t, found))
                if less != found[t.target]:
                    found[t.target] = less
                    shrunk = True
        return found

    def _below(self, state: int) -> Collection[Transition]:
        """Every transition that a run to the state may have taken."""
        if state not in self.taken:
            seen = {state}
            stack = [state]
            while stack:
                for transition in self.into[stack.pop()]:
                    for source in transition.sources:
                        if source.state not in seen:
                            seen.add(source.state)
                            stack.append(source.state)
            self.taken[state] = tuple(t for each in sorted(seen) for t in self.into[each])
        return self.taken[state]


def _key(p: int, q: int, kept: Labels) -> tuple[int, int, Labels]:
    return min(p, q), max(p, q), kept


# ------------------------------------------------------------ contradictions


def _parts(test: Test) -> tuple[Test, ...]:
    return test.parts if isinstance(test, Both) else (test,)


def exclusive(one: Test, other: Test) -> bool:
    """Whether no event passes both: two types, or a test and its opposite.

    >>> from cernis.automata.unary.cea import Is
    >>> from cernis.pattern.atom import TypeIs
    >>> exclusive(Is(TypeIs("A")), both(Isnt(Is(TypeIs("A"))), Is(TypeIs("B"))))
    True
    """
    joint = both(one, other)
    parts = set(_parts(joint))
    return contradictory(joint) or any(
        isinstance(part, Isnt) and set(_parts(part.body)) <= parts for part in parts
    )


_OUTCOMES: Mapping[str, frozenset[str]] = {
    "<": frozenset("<"),
    "<=": frozenset("<="),
    ">": frozenset(">"),
    ">=": frozenset(">="),
}
_EQUAL = frozenset("=")
_NOT_EQUAL = frozenset("<>?")
_EVERY = frozenset("<=>?")


def _outcomes(link: Link) -> dict[Pair, frozenset[str]]:
    """pair → what comparing it may give (`?`: neither less nor equal nor more)."""
    found: dict[Pair, frozenset[str]] = {}
    facts = [(pair, _EQUAL) for pair in link.equal]
    facts += [(pair, _NOT_EQUAL) for pair in (*link.different, *link.unlike)]
    facts += [((o.earlier, o.later), _OUTCOMES[o.op]) for o in link.ordered]
    for pair, outcomes in facts:
        found[pair] = found.get(pair, _EVERY) & outcomes
    return found


def opposed(one: Link, other: Link) -> bool:
    """Whether no pair of events satisfies both links.

    >>> opposed(Link(equal=(("a", "b"),)), Link(unlike=(("a", "b"),)))
    True
    """
    left, right = _outcomes(one), _outcomes(other)
    return any(not left[pair] & right[pair] for pair in left.keys() & right.keys())


# ----------------------------------------------------------- determinization


class _GivenUpError(Exception):
    pass


def determinize_chain(pcea: PCEA) -> PCEA | None:
    """An equivalent automaton in which each match has one run; None where that is too hard.

    >>> from cernis.pattern.formula import Choice, Event
    >>> from cernis.automata.correlated.correlate import correlate
    >>> print(determinize_chain(correlate(Choice((Event("A"), Event("A")))).pcea))
    ^ 0 A  A / A
    """
    if not pcea.chain:
        return None
    begin: list[Transition] = []
    after: list[list[Transition]] = [[] for _ in pcea.names]
    for transition in pcea.transitions:
        if transition.sources:
            after[transition.sources[0].state].append(transition)
        else:
            begin.append(transition)
    number: dict[frozenset[int], int] = {}
    order: list[frozenset[int]] = []
    made: list[Transition] = []

    def follow(source: int | None, transitions: list[Transition]) -> None:
        for region in _regions(transitions):
            if region.targets not in number:
                number[region.targets] = len(order)
                order.append(region.targets)
            sources = () if source is None else (Source(source, region.link),)
            made.append(Transition(sources, region.test, region.labels, number[region.targets]))
            if len(made) > MOST_TRANSITIONS:
                raise _GivenUpError

    try:
        follow(None, begin)
        for states in order:
            follow(number[states], [t for state in sorted(states) for t in after[state]])
    except _GivenUpError:
        return None
    names = [" | ".join(dict.fromkeys(pcea.names[s] for s in sorted(each))) for each in order]
    finals = frozenset(number[each] for each in order if each & pcea.finals)
    return _minimal(PCEA(tuple(names), tuple(made), finals))


def _minimal(pcea: PCEA) -> PCEA:
    """States from which the same can follow are one; links that leave nothing open are joined."""
    block = [int(state in pcea.finals) for state in range(len(pcea.names))]
    while True:
        ways: list[set[tuple[Link, Test, Labels, int]]] = [set() for _ in block]
        for t in pcea.transitions:
            for source in t.sources:
                ways[source.state].add((source.link, t.test, t.labels, block[t.target]))
        number: dict[tuple[int, frozenset[tuple[Link, Test, Labels, int]]], int] = {}
        refined = [
            number.setdefault((old, frozenset(found)), len(number))
            for old, found in zip(block, ways, strict=True)
        ]
        if len(set(refined)) == len(set(block)):
            break
        block = refined
    names = dict(reversed(list(zip(refined, pcea.names, strict=True))))
    moved = (
        Transition(
            tuple(replace(s, state=refined[s.state]) for s in t.sources),
            t.test,
            t.labels,
            refined[t.target],
        )
        for t in pcea.transitions
    )
    return PCEA(
        tuple(names[number] for number in sorted(names)),
        tuple(sorted(_closed_up(dict.fromkeys(moved)), key=lambda t: t.target)),
        frozenset(refined[state] for state in pcea.finals),
    )


def _closed_up(transitions: Iterable[Transition]) -> Iterator[Transition]:
    """Where a pair may be equal or not, all else being the same, it is not asked."""
    alike: dict[Transition, list[Link]] = {}
    for t in transitions:
        bare = replace(t, sources=tuple(replace(s, link=ANY_LINK) for s in t.sources))
        alike.setdefault(bare, []).extend(s.link for s in t.sources)
    for bare, links in alike.items():
        if not bare.sources:
            yield bare
        for link in _joined_links(links):
            yield replace(bare, sources=(replace(bare.sources[0], link=link),))


def _joined_links(links: list[Link]) -> list[Link]:
    for one, other in combinations(links, 2):
        whole = _union(one, other)
        if whole is not None:
            return _joined_links([whole, *(link for link in links if link not in (one, other))])
    return links


def _union(one: Link, other: Link) -> Link | None:
    """The link of both, if they differ in whether one pair is equal or not."""
    cut = (set(one.equal) & set(other.unlike)) | (set(one.unlike) & set(other.equal))
    if len(cut) != 1:
        return None
    whole, same = (_unasked(link, *cut) for link in (one, other))
    return whole if whole == same else None


def _unasked(link: Link, pair: Pair) -> Link:
    return replace(
        link,
        equal=tuple(each for each in link.equal if each != pair),
        unlike=tuple(each for each in link.unlike if each != pair),
    )


@dataclass(frozen=True, slots=True)
class _Region:
    """Events and links that take the same transitions; regions exclude each other."""

    labels: Labels
    test: Test
    link: Link
    targets: frozenset[int]


def _regions(transitions: list[Transition]) -> Iterator[_Region]:
    by_labels: dict[Labels, list[Transition]] = {}
    for transition in transitions:
        by_labels.setdefault(transition.labels, []).append(transition)
    for labels, alike in by_labels.items():
        for test, passed in _minterms(alike):
            for link, taken in _cut_links(passed):
                yield _Region(labels, test, link, frozenset(t.target for t in taken))


def _minterms(transitions: list[Transition]) -> Iterator[tuple[Test, list[Transition]]]:
    """Tests that exclude each other, each with the transitions whose test it implies."""
    tests = list(dict.fromkeys(t.test for t in transitions))
    for group in _overlapping(tests):
        if len(group) > MOST_TESTS:
            raise _GivenUpError
        for size in range(1, len(group) + 1):
            for held in combinations(group, size):
                failed = [test for test in group if test not in held]
                test = _minterm(held, failed)
                if test is not None:
                    yield test, [t for t in transitions if t.test in held]


def _overlapping(tests: list[Test]) -> list[list[Test]]:
    """The tests in groups such that an event passes tests of one group only."""
    groups: list[list[Test]] = []
    for test in tests:
        joined = [g for g in groups if any(not exclusive(test, other) for other in g)]
        groups = [g for g in groups if g not in joined]
        groups.append([*(other for g in joined for other in g), test])
    return groups


def _minterm(held: Sequence[Test], failed: Sequence[Test]) -> Test | None:
    """All of the first and none of the others; None if that cannot be."""
    test: Test = ANYTHING
    for each in held:
        test = both(test, each)
    if exclusive(test, ANYTHING):
        return None
    known = set(_parts(test))
    for each in failed:
        if exclusive(test, each):
            continue
        left = tuple(part for part in _parts(each) if part not in known)
        if not left:
            return None
        test = both(test, Isnt(left[0] if len(left) == 1 else Both(left)))
    return test


Outcome = frozenset[str]
"""What comparing a pair gives: = or ≠, or ? where the values cannot be compared."""

_SAME: Outcome = frozenset("=")
_OTHER: Outcome = frozenset("≠")
_NEITHER: Outcome = frozenset("?")


def _cut_links(transitions: list[Transition]) -> Iterator[tuple[Link, list[Transition]]]:
    """Links that exclude each other, each with the transitions whose link it implies."""
    if not transitions[0].sources:
        yield Link(), transitions
        return
    kept = _anywhere(transitions)
    links = [t.sources[0].link for t in kept]
    if len({(link.ordered, link.contiguous) for link in links}) > 1:
        raise _GivenUpError  # the opposite of an order, or of being right before, is no link
    asked = [_asked(link) for link in links]
    pairs = tuple(dict.fromkeys(pair for each in asked for pair in each))
    cuts = [_cut({each.get(pair) for each in asked}) for pair in pairs]
    if prod(map(len, cuts)) > MOST_REGIONS:
        raise _GivenUpError
    for cells in product(*cuts):
        held = dict(zip(pairs, cells, strict=True))
        taken = [
            t
            for t, each in zip(kept, asked, strict=True)
            if all(held[pair] <= outcome for pair, outcome in each.items())
        ]
        if not taken:
            continue
        if _NEITHER in cells:
            raise _GivenUpError  # that two values cannot be compared is no link
        link = Link(
            equal=tuple(pair for pair in pairs if held[pair] == _SAME),
            different=tuple(pair for pair in pairs if held[pair] == _OTHER),
            unlike=tuple(pair for pair in pairs if held[pair] == _OTHER | _NEITHER),
            ordered=links[0].ordered,
            contiguous=links[0].contiguous,
        )
        yield link, taken


def _anywhere(transitions: list[Transition]) -> list[Transition]:
    """Without those that another takes too, and not only from the event right before."""

    def facts(t: Transition) -> tuple[int, Link]:
        return t.target, replace(t.sources[0].link, contiguous=False)

    free = {facts(t) for t in transitions if not t.sources[0].link.contiguous}
    return [t for t in transitions if not t.sources[0].link.contiguous or facts(t) not in free]


def _asked(link: Link) -> dict[Pair, Outcome]:
    found: dict[Pair, Outcome] = {}
    facts = [(pair, _SAME) for pair in link.equal]
    facts += [(pair, _OTHER) for pair in link.different]
    facts += [(pair, _OTHER | _NEITHER) for pair in link.unlike]
    for pair, outcome in facts:
        found[pair] = found.get(pair, outcome) & outcome
    return found


def _cut(asked: Collection[Outcome | None]) -> tuple[Outcome, ...]:
    """The outcomes that must be told apart when different links ask these of one pair."""
    if len(asked) == 1:
        return tuple(outcome for outcome in asked if outcome)
    if _OTHER in asked:
        return _SAME, _OTHER, _NEITHER
    return _SAME, _OTHER | _NEITHER
