"""Close an ALL: put its parts side by side, so that its last event gathers them.

Each step into an end of a part is made once more, to a closing state, with an end of every
other part as a source; so are the steps of several parts at once. Such a step begins several
times, so no event can come before it: there, parts of one event each are interleaved, written
out in every order. ALL is associative: groups of parts may be closed first.

Cost contract: a step for each choice of ends; at most `MOST_TRANSITIONS` steps, and at most
`MOST_INTERLEAVED` parts in every order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, product

from cernis.automata.correlated import fragments
from cernis.automata.correlated.fragments import NOTHING, Fragment, RefusedError, States, Step
from cernis.automata.correlated.pcea import RunSource
from cernis.automata.unary.cea import ANYTHING, Test, conjoin, conjoin_tests
from cernis.errors import Span

MOST_INTERLEAVED = 3

Arrangement = int | tuple["Arrangement", ...]
"""Parts of an ALL by number, in groups."""


def close_groups(
    arrangement: Arrangement, parts: Mapping[int, Fragment], states: States, span: Span | None
) -> Fragment:
    """Close groups of parts before the whole, since ALL is associative."""
    if isinstance(arrangement, int):
        return parts.get(arrangement, NOTHING)
    found = [close_groups(each, parts, states, span) for each in arrangement]
    there = [part for part in found if part.steps]
    if len(there) < 2:
        return there[0] if there else NOTHING
    return close_parts(there, states, span)


def close_parts(parts: list[Fragment], states: States, span: Span | None) -> Fragment:
    """Return the parts side by side; the closing event may be the last of several."""
    steps = list(chain.from_iterable(part.steps for part in parts))
    closing: dict[tuple[int, ...], int] = {}
    for together, test in _list_closings(parts):
        target = states.merge(tuple(s.target for s in together if s), closing)
        own = tuple(chain.from_iterable(s.sources for s in together if s))
        others = [p.last for p, closer in zip(parts, together, strict=True) if not closer]
        for done in product(*others):
            sources = (*own, *(RunSource(state) for state in done))
            steps.append(Step(sources, test, target))
            if len(steps) > fragments.MOST_TRANSITIONS:
                raise RefusedError("ALL has too many ways to be closed", span)
    return fragments.trim(Fragment(tuple(steps), tuple(closing.values())))


def interleave(parts: list[Fragment], states: States, span: Span | None) -> Fragment:
    """Return parts of one event each in every order, some of them at once."""
    single = all(not part.onward for part in parts)
    if not single or len(parts) > MOST_INTERLEAVED:
        raise RefusedError(
            "something comes before an ALL whose parts are not single events"
            if not single
            else f"something comes before an ALL of more than {MOST_INTERLEAVED} parts",
            span,
        )
    cases = []
    for blocks in _list_ordered_partitions(tuple(range(len(parts)))):
        built = NOTHING
        for block in blocks:
            steps = []
            closing: dict[tuple[int, ...], int] = {}
            for together in product(*(parts[i].steps for i in block)):
                test = conjoin_tests(step.test for step in together)
                if not fragments.is_contradictory(test):
                    target = states.merge(tuple(step.target for step in together), closing)
                    steps.append(Step((), test, target))
            if not steps:
                break
            one = Fragment(tuple(steps), tuple(closing.values()))
            built = fragments.concatenate(built, one)
        else:
            cases.append(built)
    return fragments.unite_fragments(cases)


def _list_closings(parts: list[Fragment]) -> Iterator[tuple[tuple[Step | None, ...], Test]]:
    """Yield for each part the step that ends it with the last event, or None if it ended before.

    Steps that no event takes at once are left out early: parts of different types never are.
    """
    found: list[tuple[tuple[Step | None, ...], Test]] = [((), ANYTHING)]
    while found:
        chosen, test = found.pop()
        if len(chosen) == len(parts):
            if any(chosen):
                yield chosen, test
            continue
        part = parts[-1 - len(chosen)]
        more: list[tuple[tuple[Step | None, ...], Test]] = []
        for step in part.steps:
            joint = conjoin(test, step.test)
            if step.target in part.last and not fragments.is_contradictory(joint):
                more.append(((step, *chosen), joint))
        found += [*reversed(more), ((None, *chosen), test)]


def list_subsets(items: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Yield all subsets, smaller ones first.

    >>> list(list_subsets([0, 1]))
    [(), (0,), (1,), (0, 1)]
    """
    found = tuple(items)
    for size in range(len(found) + 1):
        yield from combinations(found, size)


def _list_ordered_partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every way to read the items in groups, one after the other.

    >>> list(_list_ordered_partitions((0, 1)))
    [((0,), (1,)), ((1,), (0,)), ((0, 1),)]
    """
    if not items:
        yield ()
        return
    for first in list_subsets(items):
        if first:
            for rest in _list_ordered_partitions(tuple(i for i in items if i not in first)):
                yield (first, *rest)


def nest_groups(number: int, groups: Iterable[frozenset[int]]) -> tuple[Arrangement, ...]:
    """Return numbers in nested groups, without groups that cut through another.

    >>> nest_groups(4, [frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 1, 3})])
    (2, (3, (0, 1)))
    """
    top: list[tuple[frozenset[int], Arrangement]] = [(frozenset({i}), i) for i in range(number)]
    for group in sorted(set(groups), key=lambda group: (len(group), sorted(group))):
        inside = [each for each in top if each[0] <= group]
        whole = len(group) == sum(len(members) for members, _ in inside)
        if whole and 1 < len(inside) < len(top):
            top = [each for each in top if each not in inside]
            top.append((group, tuple(arrangement for _, arrangement in inside)))
    return tuple(arrangement for _, arrangement in top)
