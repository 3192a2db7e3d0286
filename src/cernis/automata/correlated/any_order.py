"""Compare three events in any order: `A ALL B ALL C` with `a[p] < b[p] AND b[p] < c[p]`.

One of the three, the *centre*, is compared with both others. Whatever the order in which they come,
the last one is compared with what it knows:

- The centre last: it gathers the two others, each by its own link.
- Another last, which gathers the centre. The third came before the centre, which has gathered it;
  or after it, and is a ray of a star (`middles`).

So a match has one run: its order of arrival. No event may be two of the three.

Cost contract: eight states. Of more events in any order, several would be rays at once, in an order
of their own each: `correlate` closes those, and candidates are checked.
"""

from __future__ import annotations

from typing import NamedTuple

from cernis.automata.correlated.pcea import (
    PCEA,
    Link,
    Ordered,
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


def compare_in_any_order(
    centre: SingleEvent,
    one: SingleEvent,
    other: SingleEvent,
    to_one: Ordered,
    to_other: Ordered,
) -> PCEA:
    """Return the automaton of three events; the orders are those of the centre with the others.

    >>> from cernis.automata.unary.cea import Is
    >>> from cernis.pattern.atom import TypeIs
    >>> a, b, c = (SingleEvent(n, Is(TypeIs(n)), frozenset({n})) for n in "abc")
    >>> order = Ordered("p", "<", "p")
    >>> print(compare_in_any_order(b, a, c, order.turned, order).transitions[-1])
    after 1 where p < p and 2 where p > p: b / b
    """
    names = (centre, one, other, centre, centre, other, one, centre)
    mid, first, second, mid_first, mid_second, end_other, end_one, end_mid = range(8)
    sources: tuple[tuple[int, tuple[RunSource, ...]], ...] = (
        (mid, ()),
        (first, ()),
        (second, ()),
        (mid_first, (_ask(first, to_one.turned),)),
        (mid_second, (_ask(second, to_other.turned),)),
        (end_other, (_ask(mid_first, to_other),)),
        (end_other, _ask_star(mid, first, end_other, to_one, to_other)),
        (end_one, (_ask(mid_second, to_one),)),
        (end_one, _ask_star(mid, second, end_one, to_other, to_one)),
        (end_mid, (_ask(first, to_one.turned), _ask(second, to_other.turned))),
    )
    return PCEA(
        tuple(event.name for event in names),
        tuple(
            Transition(own, names[state].test, names[state].labels, state) for state, own in sources
        ),
        frozenset({end_other, end_one, end_mid}),
    )


def _ask(state: int, order: Ordered) -> RunSource:
    return RunSource(state, Link(ordered=(order,)))


def _ask_star(
    centre: int, ray: int, last: int, to_ray: Ordered, to_last: Ordered
) -> tuple[RunSource, ...]:
    """Return what the last event gathers, if a ray came after the centre."""
    passed = PassedStage(ray, Link(ordered=(to_ray,)))
    return (
        RunSource(ray, Link(ordered=(to_ray.turned,), ray=StarStage(centre, last, -1))),
        RunSource(centre, Link(ordered=(to_last,), once=(passed,))),
    )
