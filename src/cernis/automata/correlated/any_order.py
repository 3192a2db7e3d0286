"""Compare events in any order: `A ALL B ALL C` with `a[p] < b[p] AND b[k] = c[k]`.

One of the events, the *centre*, is compared with all others. Whatever the order in which they come,
the last one is compared with what it knows:

- The centre last: it gathers the others, each by its own link.
- Another last, which gathers the centre. The others came before the centre, which has gathered
  them; or after it, and are rays of a star (`middles`), in the order in which they came.

So a match has one run: its order of arrival. No event may be two of the events.

Cost contract: 10 states for three events, 32 for four. Of more, or where no event is the centre,
`correlate` closes the parts, and candidates are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise, permutations
from typing import NamedTuple

from cernis.automata.correlated.pcea import (
    PCEA,
    Link,
    PassedStage,
    RunSource,
    StarStage,
    Transition,
)
from cernis.automata.unary.cea import Test


class SingleEvent(NamedTuple):
    """An event of the match: its name, what it passes and the labels that it gets."""

    name: str
    test: Test
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class CentreLinks:
    """How an event is compared with the centre."""

    before: Link
    """What the centre asks for, if it comes later."""
    after: Link
    """What the event asks for, if it comes later than the centre."""
    ray: Link
    """The same, as an index of rays has it."""
    key: tuple[str, ...] = ()
    """Its attributes that have the values that the centre shares with all events."""


def compare_in_any_order(
    centre: SingleEvent, others: Sequence[SingleEvent], links: Sequence[CentreLinks]
) -> PCEA:
    """Return the automaton of events in any order; `links` compare the others with the centre.

    >>> from cernis.automata.correlated.pcea import Ordered
    >>> from cernis.automata.unary.cea import Is
    >>> from cernis.pattern.atom import TypeIs
    >>> a, b, c = (SingleEvent(n, Is(TypeIs(n)), frozenset({n})) for n in "abc")
    >>> order = Ordered("p", "<", "p")
    >>> up, down = Link(ordered=(order,)), Link(ordered=(order.turned,))
    >>> links = [CentreLinks(up, down, down), CentreLinks(down, up, up)]
    >>> print(compare_in_any_order(b, [a, c], links).transitions[-1])
    after 0 where p < p and 1 where p > p: b / b
    """
    made = list[Transition]()

    def add(event: SingleEvent, *sources: RunSource) -> int:
        made.append(Transition(sources, event.test, event.labels, len(made)))
        return len(made) - 1

    singles = [add(event) for event in others]
    names, numbers = [event.name for event in others], range(len(others))
    finals = set[int]()
    subsets = chain.from_iterable(combinations(numbers, size) for size in range(len(others) + 1))
    for gathered in subsets:
        middle = add(centre, *(RunSource(singles[i], links[i].before) for i in gathered))
        names.append(centre.name)
        later = [i for i in numbers if i not in gathered]
        finals |= set() if later else {middle}
        for *rays, last in permutations(later) if later else ():
            end = len(made) + max(len(rays) - 1, 0)
            stages, asked = list[PassedStage](), list[RunSource]()
            for stage, (i, following) in enumerate(pairwise((*rays, last))):
                state, link = add(others[i], *asked) if asked else singles[i], links[i].ray
                names += [others[i].name] * len(asked)
                stages.append(PassedStage(state, link, link.equal))
                star = StarStage(middle, end, stage - 1)
                key = tuple(zip(links[i].key, links[following].key, strict=True))
                turned = tuple(order.turned for order in link.ordered)
                asked = [RunSource(state, Link(key, ordered=turned, ray=star))]
            whole = replace(links[last].after, once=tuple(stages))
            finals.add(add(others[last], *asked, RunSource(middle, whole)))
            names.append(others[last].name)
    return PCEA(tuple(names), tuple(made), frozenset(finals))
