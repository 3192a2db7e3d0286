"""Q-trees: decide whether joined atoms are hierarchical, and build the tree that shows it.

The input is abstract: for each atom, the names of its variables. Atoms are *hierarchical*
when for any two variables the sets of atoms that hold them are nested or disjoint. Then
the variables form a tree (the q-tree): from its root to an atom lie exactly the atom's
variables. A join along that tree needs no intermediate results.

Here one node has all variables that the same atoms hold (the paper writes them one below
the other, in any order). `compact` leaves only nodes where the tree branches, and atoms;
each has the variables that its path gained since the branching above. Variables of no
atom but one, and atoms without variables, are allowed; the latter join with everything.

Cost: linear in the number of variable occurrences, up to comparing sets of atoms, and
nothing recurses, so that a long query needs no deep stack. Names of the seed (003,
appendix B): q-tree τ_Q, compact q-tree, atoms(x).

>>> trees = build_q_trees([("x",), ("x", "y"), ("x", "y")])
>>> print(draw_trees(trees, ("T(x)", "S(x, y)", "R(x, y)")))
x
├─ T(x)
└─ y
   ├─ S(x, y)
   └─ R(x, y)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cernis.automata.correlated.classes import connect

Atoms = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why atoms are not hierarchical: two variables whose atoms overlap but do not nest."""

    first: str
    second: str
    both: int
    """An atom that has the two of them."""
    only_first: int
    only_second: int

    def explain(self, texts: Sequence[str]) -> str:
        """Return the reason in words, with a text for each atom.

        >>> find_conflict([("x",), ("x", "y"), ("y",)]).explain(("T(x)", "R(x, y)", "S(y)"))
        "'x' and 'y' meet in R(x, y), but T(x) has only 'x' and S(y) only 'y'"
        """
        return (
            f"'{self.first}' and '{self.second}' meet in {texts[self.both]}, "
            f"but {texts[self.only_first]} has only '{self.first}' "
            f"and {texts[self.only_second]} only '{self.second}'"
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a q-tree: an atom, or variables with what hangs below them."""

    variables: tuple[str, ...]
    """The variables that the path gains at this node, in order of appearance."""
    children: tuple[Node, ...] = ()
    atom: int | None = None

    def walk(self) -> Iterator[Node]:
        """Yield this node and every node below it, parents first, from left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def atoms(self) -> tuple[int, ...]:
        """Return the atoms below, from left to right."""
        return tuple(node.atom for node in self.walk() if node.atom is not None)


# ----------------------------------------------------------------- hierarchy


def _find_holders(atoms: Atoms) -> dict[str, frozenset[int]]:
    """Return atoms(x) of every variable, in order of appearance."""
    found: dict[str, set[int]] = {}
    for index, variables in enumerate(atoms):
        for name in variables:
            found.setdefault(name, set()).add(index)
    return {name: frozenset(indices) for name, indices in found.items()}


def _sort_outermost_first(
    variables: Sequence[str], holders: dict[str, frozenset[int]]
) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(variables), key=lambda name: -len(holders[name])))


def find_conflict(atoms: Atoms) -> Conflict | None:
    """Return the variables that break the hierarchy, or None for hierarchical atoms.

    >>> find_conflict([("x",), ("x", "y"), ("y",)])
    Conflict(first='x', second='y', both=1, only_first=0, only_second=2)
    """
    holders = _find_holders(atoms)
    order = {name: rank for rank, name in enumerate(holders)}
    nested: set[tuple[str, str]] = set()
    for index, variables in enumerate(atoms):
        for wide, narrow in pairwise(_sort_outermost_first(variables, holders)):
            if (wide, narrow) in nested:
                continue
            nested.add((wide, narrow))
            if not holders[narrow] <= holders[wide]:
                one, other = sorted((wide, narrow), key=order.__getitem__)
                return Conflict(
                    one,
                    other,
                    index,
                    min(holders[one] - holders[other]),
                    min(holders[other] - holders[one]),
                )
    return None


def find_components(atoms: Atoms) -> tuple[tuple[int, ...], ...]:
    """Return the atoms that shared variables connect; no variable is in two components.

    >>> find_components([("x",), ("y",), ("x", "z"), ()])
    ((0, 2), (1,), (3,))
    """
    alone = [(index, index) for index in range(len(atoms))]
    shared = [(min(held), other) for held in _find_holders(atoms).values() for other in held]
    return tuple(map(tuple, connect([*alone, *shared])))


# --------------------------------------------------------------------- trees


def build_q_trees(atoms: Atoms) -> tuple[Node, ...]:
    """Return the q-tree of each component, of hierarchical atoms (`find_conflict` is None)."""
    if find_conflict(atoms) is not None:
        raise ValueError("the atoms are not hierarchical")
    holders = _find_holders(atoms)
    groups: dict[frozenset[int], list[str]] = {}
    for name, held in holders.items():
        groups.setdefault(held, []).append(name)
    below: dict[frozenset[int] | None, list[tuple[int, Node]]] = {}

    def hang(parent: frozenset[int] | None, node: Node, first: int) -> None:
        below.setdefault(parent, []).append((first, node))

    parents: dict[frozenset[int], frozenset[int] | None] = {}
    for index, variables in enumerate(atoms):
        path = dict.fromkeys(holders[name] for name in _sort_outermost_first(variables, holders))
        last: frozenset[int] | None = None
        for held in path:
            parents[held] = last
            last = held
        hang(last, Node((), (), index), index)
    # the narrowest first: a node's children are all there when it is made
    for held in sorted(groups, key=len):
        children = tuple(node for _, node in sorted(below[held], key=lambda entry: entry[0]))
        hang(parents[held], Node(tuple(groups[held]), children), min(held))
    return tuple(node for _, node in sorted(below.get(None, ()), key=lambda entry: entry[0]))


def compact(tree: Node) -> Node:
    """Return the tree without inner nodes that have one child; the child keeps their variables.

    >>> compact(build_q_trees([("x", "y")])[0])
    Node(variables=('x', 'y'), children=(), atom=0)
    """
    made: dict[int, Node] = {}
    for node in reversed(list(tree.walk())):
        children = tuple(made[id(child)] for child in node.children)
        if len(children) == 1:
            (child,) = children
            joined = (*node.variables, *child.variables)
            made[id(node)] = Node(joined, child.children, child.atom)
        else:
            made[id(node)] = Node(node.variables, children, node.atom)
    return made[id(tree)]


def build_forest(atoms: Atoms) -> Node:
    """Return the compact q-tree; several components hang below a root without variables."""
    trees = tuple(map(compact, build_q_trees(atoms)))
    return trees[0] if len(trees) == 1 else Node((), trees)


def draw_trees(trees: Sequence[Node], texts: Sequence[str]) -> str:
    """Return trees as text, with a text for each atom."""
    lines: list[str] = []
    stack = [(tree, "", "") for tree in reversed(trees)]
    while stack:
        node, lead, indent = stack.pop()
        names = ", ".join(node.variables)
        text = names if node.atom is None else texts[node.atom]
        if node.atom is None and not names:
            text = "×"
        lines.append(lead + text)
        for child in reversed(node.children):
            final = child is node.children[-1]
            stack.append(
                (child, indent + ("└─ " if final else "├─ "), indent + ("   " if final else "│  "))
            )
    return "\n".join(lines)
