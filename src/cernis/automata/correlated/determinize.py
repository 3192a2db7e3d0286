"""Determinize a chain automaton: each match has one run.

Theorem 8 of the chain automata paper, for automata without joins: a state is the set of all
states that runs with the same marks so far are in. Events and pairs of neighbours are cut into
regions that exclude each other: tests into conjunctions of tests and their opposites,
equalities into `equal` and `unlike`.

Cost contract: exponential in the worst case; gives up beyond `MOST_TRANSITIONS` transitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from cernis.automata.correlated.exclusion import Pair, are_exclusive_tests
from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Link, RunSource, Transition
from cernis.automata.unary import cea
from cernis.automata.unary.cea import ANYTHING, Isnt, Test, conjoin, test_parts

MOST_TRANSITIONS = 500
MOST_TESTS = 6
MOST_REGIONS = 81

Labels = frozenset[str]


class _GivenUpError(Exception):
    pass


def determinize_chain(pcea: PCEA) -> PCEA | None:
    """Return an equivalent automaton with one run for each match; None where that is too hard.

    >>> from cernis.pattern.formula import Choice, Event
    >>> from cernis.automata.correlated.correlate import correlate
    >>> print(determinize_chain(correlate(Choice((Event("A"), Event("A")))).pcea))
    ^ 0 A  A / A
    """
    if not pcea.is_chain or pcea.timed_states or pcea.guards or pcea.removals:
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
        for region in _cut_regions(transitions):
            if region.targets not in number:
                number[region.targets] = len(order)
                order.append(region.targets)
            sources = () if source is None else (RunSource(source, region.link),)
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
    found = _minimize(PCEA(tuple(names), tuple(made), finals))
    links = [source.link for t in found.transitions for source in t.sources]
    return None if any(map(_has_no_index, links)) else found


def _has_no_index(link: Link) -> bool:
    """Return whether no store has all that a link asks: an order, and values that differ."""
    if link.asks_recent and link.gap is not None and link.gap.least:
        return True
    tree = (link.ordered and not link.strict) or link.gap is not None
    return bool(tree and (link.different or link.unlike))


def _minimize(pcea: PCEA) -> PCEA:
    """Merge states from which the same can follow; drop comparisons that decide nothing."""
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
        tuple(sorted(_widen_links(dict.fromkeys(moved)), key=lambda t: t.target)),
        frozenset(refined[state] for state in pcea.finals),
    )


def _widen_links(transitions: Iterable[Transition]) -> Iterator[Transition]:
    """Yield the transitions without comparisons whose two outcomes lead to the same."""
    alike: dict[Transition, list[Link]] = {}
    for t in transitions:
        bare = replace(t, sources=tuple(replace(s, link=ANY_LINK) for s in t.sources))
        alike.setdefault(bare, []).extend(s.link for s in t.sources)
    for bare, links in alike.items():
        if not bare.sources:
            yield bare
        for link in _join_links(links):
            yield replace(bare, sources=(replace(bare.sources[0], link=link),))


def _join_links(links: list[Link]) -> list[Link]:
    for one, other in combinations(links, 2):
        whole = _unite_links(one, other)
        if whole is not None:
            return _join_links([whole, *(link for link in links if link not in (one, other))])
    return links


def _unite_links(one: Link, other: Link) -> Link | None:
    """Return the union of two links, if they differ only in whether one pair is equal."""
    cut = (set(one.equal) & set(other.unlike)) | (set(one.unlike) & set(other.equal))
    if len(cut) != 1:
        return None
    whole, same = (_drop_pair(link, *cut) for link in (one, other))
    return whole if whole == same else None


def _drop_pair(link: Link, pair: Pair) -> Link:
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


def _cut_regions(transitions: list[Transition]) -> Iterator[_Region]:
    by_labels: dict[Labels, list[Transition]] = {}
    for transition in transitions:
        by_labels.setdefault(transition.labels, []).append(transition)
    for labels, alike in by_labels.items():
        for test, passed in _cut_tests(alike):
            for link, taken in _cut_links(passed):
                yield _Region(labels, test, link, frozenset(t.target for t in taken))


def _cut_tests(transitions: list[Transition]) -> Iterator[tuple[Test, list[Transition]]]:
    """Yield tests that exclude each other, each with the transitions whose test it implies."""
    tests = list(dict.fromkeys(t.test for t in transitions))
    for group in _group_overlapping(tests):
        if len(group) > MOST_TESTS:
            raise _GivenUpError
        for size in range(1, len(group) + 1):
            for held in combinations(group, size):
                failed = [test for test in group if test not in held]
                test = _conjoin(held, failed)
                if test is not None:
                    yield test, [t for t in transitions if t.test in held]


def _group_overlapping(tests: list[Test]) -> list[list[Test]]:
    """Return the tests in groups such that an event passes tests of one group only."""
    groups: list[list[Test]] = []
    for test in tests:
        joined = [g for g in groups if any(not are_exclusive_tests(test, other) for other in g)]
        groups = [g for g in groups if g not in joined]
        groups.append([*(other for g in joined for other in g), test])
    return groups


def _conjoin(held: Sequence[Test], failed: Sequence[Test]) -> Test | None:
    """Return the test of all of the first and none of the others; None if no event passes."""
    test = cea.conjoin_tests(held)
    if are_exclusive_tests(test, ANYTHING):
        return None
    known = set(test_parts(test))
    for each in failed:
        if are_exclusive_tests(test, each):
            continue
        left = tuple(part for part in test_parts(each) if part not in known)
        if not left:
            return None
        test = conjoin(test, Isnt(left[0] if len(left) == 1 else cea.Both(left)))
    return test


Outcome = frozenset[str]
"""What comparing a pair gives: = or ≠, or ? where the values cannot be compared."""

_SAME: Outcome = frozenset("=")
_OTHER: Outcome = frozenset("≠")
_NEITHER: Outcome = frozenset("?")


def _cut_links(transitions: list[Transition]) -> Iterator[tuple[Link, list[Transition]]]:
    """Yield links that exclude each other, each with the transitions whose link it implies."""
    if not transitions[0].sources:
        yield Link(), transitions
        return
    kept = _drop_redundant(transitions)
    links = [t.sources[0].link for t in kept]
    if any(link.arrow is not None for link in links):
        raise _GivenUpError  # whose runs leave the index together is decided by the formula
    if len({(link.ordered, link.contiguous, link.gap) for link in links}) > 1:
        raise _GivenUpError  # the opposite of an order, a gap or being right before is no link
    asked = [_outcomes(link) for link in links]
    pairs = tuple(dict.fromkeys(pair for each in asked for pair in each))
    cuts = [_cut_outcomes({each.get(pair) for each in asked}) for pair in pairs]
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
            gap=links[0].gap,
        )
        yield link, taken


def _drop_redundant(transitions: list[Transition]) -> list[Transition]:
    """Drop contiguous transitions that a transition without contiguity includes."""

    def facts(t: Transition) -> tuple[int, Link]:
        return t.target, replace(t.sources[0].link, contiguous=False)

    free = {facts(t) for t in transitions if not t.sources[0].link.contiguous}
    return [t for t in transitions if not t.sources[0].link.contiguous or facts(t) not in free]


def _outcomes(link: Link) -> dict[Pair, Outcome]:
    found: dict[Pair, Outcome] = {}
    facts = [(pair, _SAME) for pair in link.equal]
    facts += [(pair, _OTHER) for pair in link.different]
    facts += [(pair, _OTHER | _NEITHER) for pair in link.unlike]
    for pair, outcome in facts:
        found[pair] = found.get(pair, outcome) & outcome
    return found


def _cut_outcomes(asked: Collection[Outcome | None]) -> tuple[Outcome, ...]:
    """Return the outcomes to tell apart when different links ask these of one pair."""
    if len(asked) == 1:
        return tuple(outcome for outcome in asked if outcome)
    if _OTHER in asked:
        return _SAME, _OTHER, _NEITHER
    return _SAME, _OTHER | _NEITHER
