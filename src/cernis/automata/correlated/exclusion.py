"""Whether two tests exclude each other, or two links: nothing satisfies both."""

from __future__ import annotations

from collections.abc import Mapping

from cernis.automata.correlated.fragments import is_contradictory
from cernis.automata.correlated.pcea import Link
from cernis.automata.unary.cea import Isnt, Test, conjoin, test_parts

Pair = tuple[str, str]


def are_exclusive_tests(one: Test, other: Test) -> bool:
    """Whether no event passes both: two types, or a test and its opposite.

    >>> from cernis.automata.unary.cea import Is
    >>> from cernis.pattern.atom import TypeIs
    >>> are_exclusive_tests(Is(TypeIs("A")), conjoin(Isnt(Is(TypeIs("A"))), Is(TypeIs("B"))))
    True
    """
    joint = conjoin(one, other)
    parts = set(test_parts(joint))
    return is_contradictory(joint) or any(
        isinstance(part, Isnt) and set(test_parts(part.body)) <= parts for part in parts
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
    """Return for each pair the outcomes of comparing it (`?`: neither less, equal nor more)."""
    found: dict[Pair, frozenset[str]] = {}
    facts = [(pair, _EQUAL) for pair in link.equal]
    facts += [(pair, _NOT_EQUAL) for pair in (*link.different, *link.unlike)]
    facts += [((o.earlier, o.later), _OUTCOMES[o.op]) for o in link.ordered]
    for pair, outcomes in facts:
        found[pair] = found.get(pair, _EVERY) & outcomes
    return found


def are_exclusive_links(one: Link, other: Link) -> bool:
    """Whether no pair of events satisfies both links.

    >>> are_exclusive_links(Link(equal=(("a", "b"),)), Link(unlike=(("a", "b"),)))
    True
    """
    left, right = _outcomes(one), _outcomes(other)
    return any(not left[pair] & right[pair] for pair in left.keys() & right.keys())
