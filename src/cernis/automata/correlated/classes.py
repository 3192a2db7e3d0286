"""Classes of attributes that must agree, and whether comparing neighbours enforces them.

An automaton compares an event with the one its run read before, never with one further
back. Two facts decide whether that is enough for a condition between events:

* Equality is transitive. The attributes that equalities tie together are one *class*
  (`KeyClass`); where the events that have an attribute of the class always stand next to
  each other, comparing neighbours compares all of them.
* Any other comparison is enforced only if all events that it compares are neighbours.

`Shape` answers both from the graph of a fragment: states, and which state is read right
after which. It looks at the graph alone, so it may say no where some test would have
said that the path in question never happens; it never says yes wrongly.

Cost contract: classes are near linear; a `Shape` takes one search per state it is asked
about, O(states · edges) at worst.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from cernis.automata.unary.tidy import find_reachable

T = TypeVar("T")

Key = tuple[str | None, str]
"""(variable, attribute); without a variable, of every event."""


@dataclass(frozen=True, slots=True)
class KeyClass:
    """All events of these variables have one common value in these attributes."""

    keys: tuple[Key, ...]

    def attributes(self, labels: Collection[str]) -> tuple[str, ...]:
        """Return the attributes of an event with these labels that belong to the class.

        >>> KeyClass((("x", "a"), ("y", "b"), (None, "c"))).attributes({"A", "y"})
        ('b', 'c')
        """
        found = (a for variable, a in self.keys if variable is None or variable in labels)
        return tuple(dict.fromkeys(found))


def close_equalities(pairs: Iterable[tuple[Key, Key]]) -> list[KeyClass]:
    """Return the classes that these equalities make together.

    >>> x, y, z = ("x", "a"), ("y", "b"), ("z", "c")
    >>> [c.keys for c in close_equalities([(x, y), (z, z), (y, ("v", "d"))])]
    [(('x', 'a'), ('y', 'b'), ('v', 'd')), (('z', 'c'),)]
    """
    return [KeyClass(tuple(keys)) for keys in connect(pairs)]


def connect(pairs: Iterable[tuple[T, T]]) -> list[list[T]]:
    """Return the groups that pairs connect, each and all in order of appearance."""
    parent: dict[T, T] = {}

    def root(key: T) -> T:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for left, right in pairs:
        one, other = root(left), root(right)
        parent[other] = one
    groups: dict[T, list[T]] = {}
    for key in parent:
        groups.setdefault(root(key), []).append(key)
    return list(groups.values())


def choose_attributes(earlier: Sequence[str], later: Sequence[str]) -> tuple[str, str]:
    """Return the attributes of two events to compare, where all of either event agree.

    >>> choose_attributes(("a", "b"), ("b", "c"))
    ('b', 'b')
    """
    common = [name for name in earlier if name in later]
    return (common[0], common[0]) if common else (earlier[0], later[0])


@dataclass(frozen=True)
class Shape:
    """The steps of a fragment: from which states, to which state."""

    steps: tuple[tuple[tuple[int, ...], int], ...]

    @cached_property
    def _before(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for sources, target in self.steps:
            found.setdefault(target, set()).update(sources)
        return found

    @cached_property
    def _after(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for sources, target in self.steps:
            for source in sources:
                found.setdefault(source, set()).add(target)
        return found

    @property
    def is_chain(self) -> bool:
        """No step gathers several runs."""
        return all(len(sources) <= 1 for sources, _ in self.steps)

    def following(self, state: int) -> Collection[int]:
        """Return the states that may be read right after."""
        return self._after.get(state, set())

    def _earlier(self, states: Iterable[int]) -> set[int]:
        """Return the states before one of these; these are among them only on a cycle."""
        direct = {before for state in states for before in self._before.get(state, ())}
        return find_reachable(direct, lambda state: self._before.get(state, ()))

    def find_gap(self, states: Collection[int]) -> int | None:
        """Return a state outside that stands between two of these in some run, if there is one."""
        earlier = self._earlier(states)
        for state in states:
            for following in self._after.get(state, ()):
                if following not in states and following in earlier:
                    return following
        for sources, target in self.steps:
            if len(sources) > 1 and target not in states:
                sides = sum(self._reaches(source, states) for source in sources)
                if sides > 1:
                    return target
        return None

    def find_between(self, one: Collection[int], other: Collection[int]) -> int | None:
        """Return a state between one of these and one of those, if there is one."""
        for left, right in ((one, other), (other, one)):
            earlier = self._earlier(right)
            for state in left:
                for following in self._after.get(state, ()):
                    if following in earlier:
                        return following
        for sources, target in self.steps:
            if len(sources) > 1:
                with_one = {source for source in sources if self._reaches(source, one)}
                with_other = {source for source in sources if self._reaches(source, other)}
                if with_one and with_other and len(with_one | with_other) > 1:
                    return target
        return None

    def _reaches(self, source: int, states: Collection[int]) -> bool:
        return source in states or not self._earlier((source,)).isdisjoint(states)
