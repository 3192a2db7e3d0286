"""The arrows of a formula: which atoms may begin the part after a `->`, and where they stand.

A *path* leads from a formula to a node below it, by the numbers of children. A `->` has a *wait*:
the parts before it, and the atoms that can begin the part after it. `cernis.testing.oracle`
defines when an event fits; this file is for the passes that build automata and check candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred

Path = tuple[int, ...]


class Wait(NamedTuple):
    """One `->`: nothing between its sides fits one of the atoms."""

    node: Path
    """The sequence or the iteration."""
    part: int
    """The part after the arrow; 0 for an iteration, whose rounds are both sides."""
    before: tuple[Path, ...]
    """The parts before the arrow."""
    first: tuple[tuple[Path, cel.Event], ...]
    """The atoms that can begin the part after it."""


def list_events(node: cel.Formula, path: Path = ()) -> Iterator[tuple[Path, frozenset[str]]]:
    """Yield each atom that can mark an event, with the variables that the event joins."""
    match node:
        case cel.Event(type=name):
            yield path, frozenset({name})
        case cel.As(body=body, variable=variable):
            for below, names in list_events(body, (*path, 0)):
                yield below, names | {variable}
        case _:
            for i, child in enumerate(_list_marked(node)):
                yield from list_events(child, (*path, i))


def find_bound(body: cel.Formula, path: Path = ()) -> dict[str, frozenset[Path]]:
    """Return for each variable the atoms of the formula that give it events."""
    found: dict[str, set[Path]] = {}
    for below, names in list_events(body, path):
        for name in names:
            found.setdefault(name, set()).add(below)
    return {name: frozenset(paths) for name, paths in found.items()}


def _list_marked(node: cel.Formula) -> tuple[cel.Formula, ...]:
    """Return the children whose events are in the match: not a guard, not what NOT excludes."""
    match node:
        case cel.Not():
            return ()
        case cel.Unless(body=body):
            return (body,)
        case _:
            return cel.children(node)


def is_nullable(node: cel.Formula) -> bool:
    """Return whether a formula may be left out.

    >>> is_nullable(cel.Sequence((cel.Optional(cel.Event("A")), cel.Event("B"))))
    False
    """
    match node:
        case cel.Event() | cel.Not():
            return False
        case cel.Optional():
            return True
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts) | cel.All(parts=parts):
            return all(is_nullable(part) for part in parts)
        case cel.Choice(parts=parts):
            return any(is_nullable(part) for part in parts)
        case cel.Iterate(body=body, low=low):
            return low == 0 or is_nullable(body)
        case _:
            return is_nullable(node.body)


def list_first(node: cel.Formula, path: Path = ()) -> Iterator[tuple[Path, cel.Formula]]:
    """Yield what can begin a formula: its first atoms, and any NOT or ALL at its beginning.

    >>> A, B, C = map(cel.Event, "ABC")
    >>> [found.type for _, found in list_first(cel.Sequence((cel.Optional(A), B, C)))]
    ['A', 'B']
    """
    match node:
        case cel.Event() | cel.Not() | cel.All():
            yield path, node
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            for i, part in enumerate(parts):
                yield from list_first(part, (*path, i))
                if not is_nullable(part):
                    return
        case cel.Choice(parts=parts):
            for i, part in enumerate(parts):
                yield from list_first(part, (*path, i))
        case _:
            yield from list_first(node.body, (*path, 0))


def list_waits(node: cel.Formula, path: Path = ()) -> Iterator[Wait]:
    """Yield the waits of a formula, without those of its guards."""
    match node:
        case cel.Sequence(parts=parts):
            for i, part in enumerate(parts[1:], start=1):
                if node.separator_before(i).next:
                    before = tuple((*path, j) for j in range(i))
                    yield Wait(path, i, before, _list_atoms(part, (*path, i)))
        case cel.Iterate(body=body) if node.separator.next:
            yield Wait(path, 0, (path,), _list_atoms(body, (*path, 0)))
    for i, child in enumerate(_list_marked(node)):
        yield from list_waits(child, (*path, i))


def _list_atoms(node: cel.Formula, path: Path) -> tuple[tuple[Path, cel.Event], ...]:
    return tuple((at, e) for at, e in list_first(node, path) if isinstance(e, cel.Event))


def is_below(path: Path, above: Path) -> bool:
    """Return whether a path leads to the other one's node or to a node below it."""
    return path[: len(above)] == above


def has_arrow(formula: cel.Formula) -> bool:
    """Return whether a formula has a `->`, also in its guards: a FILTER then says what fits, too.

    >>> has_arrow(cel.Sequence((cel.Event("A"), cel.Event("B"))))
    False
    """
    return any(
        separator.next for node in cel.walk(formula) for separator in cel.list_separators(node)
    )


def find_undecided(node: cel.Filter, path: Path = ()) -> frozenset[tuple[Path, int]]:
    """Return the waits of a FILTER's body for which an OR looks at both sides of the arrow.

    What fits then depends on the events before the arrow: no automaton that looks at one event
    at a time decides it.
    """
    names = {
        name
        for part in _list_choices(node.condition)
        for leaf in pred.leaves(part)
        for name in pred.leaf_variables(leaf)
    }
    if not names:
        return frozenset()
    below = (*path, 0)
    bound = find_bound(node.body, below)
    touched = frozenset[Path]().union(*(bound.get(name, ()) for name in names))
    return frozenset(
        (wait.node, wait.part)
        for wait in list_waits(node.body, below)
        if any(at in touched for at, _ in wait.first)
        and any(is_below(at, side) for at in touched for side in wait.before)
    )


Location = tuple[Path, int]
"""Where a condition stands: the path of its FILTER or PARTITION BY, and its index there."""


def find_deciding(formula: cel.Formula, wait: Wait) -> frozenset[Location] | str:
    """Return the comparisons that decide what fits, beside conditions on the event alone.

    If an index cannot decide it: the reason, in words.
    """
    found: set[Location] = set()
    for path, _ in wait.first:
        node = formula
        for depth in range(len(path)):
            at, below = path[:depth], (*path[:depth], 0)
            if isinstance(node, cel.PartitionBy):
                found.add((at, 0))
            elif isinstance(node, cel.Filter):
                before = wait.before if is_below(wait.node, at) else ()
                bound = find_bound(node.body, below)
                direct = {
                    name
                    for name, atoms in bound.items()
                    if path in atoms or any(is_below(a, side) for a in atoms for side in before)
                }
                own = {name for name, atoms in bound.items() if path in atoms}
                around = {
                    name
                    for name in own
                    if any(is_below(a, side) for a in bound[name] for side in before)
                }
                touching = _find_touching(node.condition, own, direct, around)
                if isinstance(touching, str):
                    return touching
                found |= {(at, i) for i in touching}
            node = cel.children(node)[path[depth]]
    return frozenset(found)


def _find_touching(
    condition: pred.Condition, own: set[str], direct: set[str], around: set[str]
) -> list[int] | str:
    """Return the numbers of the comparisons that touch an event; or why they do not decide alone.

    `own` are the variables of the event, and `direct` has the ones before the arrow as well.
    `around` are variables of the event that also have events before the arrow, as in an iteration.
    """
    if next(_list_choices(condition), None) is not None:
        return "an OR decides what fits"
    every, near, touching = [], [], []
    for i, leaf in enumerate(pred.leaves(condition)):
        names = pred.leaf_variables(leaf)
        if isinstance(leaf, pred.Compare) and leaf.is_transitive:
            pair = [(side.variable, side.attribute.name) for side in (leaf.left, leaf.right)]
            every.append(pair)
            if direct.issuperset(names):
                near.append(pair)
        if own.intersection(names) and not isinstance(leaf, pred.Holds):
            if not isinstance(leaf, pred.Compare) or leaf.shift is not None:
                return "a calculation decides what fits"
            if leaf.op == "!=":
                return "runs that differ are no range of an index"
            if direct.issuperset(names):
                touching.append(i)
    for one in _join_pairs(every):
        here = {key for key in one if key[0] in direct}
        alone = len(here) < 2 or not any(key[0] in own for key in here)
        alone = alone and not any(key[0] in around for key in here)
        if not alone and not any(here <= group for group in _join_pairs(near)):
            return "values are equal through an event that is not next to the arrow"
    return touching


def _join_pairs(pairs: list[list[tuple[str, str]]]) -> list[set[tuple[str, str]]]:
    """Return the connected components."""
    groups: list[set[tuple[str, str]]] = []
    for pair in pairs:
        met = [group for group in groups if not group.isdisjoint(pair)]
        groups = [group for group in groups if group not in met]
        groups.append(set(pair).union(*met))
    return groups


def _list_choices(condition: pred.Condition) -> Iterator[pred.AnyOf]:
    match condition:
        case pred.AnyOf():
            yield condition
        case pred.AllOf(parts=parts):
            for part in parts:
                yield from _list_choices(part)
