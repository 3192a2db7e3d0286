"""Construct the PCEA of a hierarchical join: Theorem 4.1 of the PCEA paper.

`construct_join` takes joined atoms (each asks a test of one event and gives each of its
variables an attribute) and makes the PCEA whose runs are the joins: one run for each
way to give every atom one event such that equal variables have equal values. Events
may come in any order, and one event may serve several atoms.

A state is a node of the compact q-tree, complete. A node is completed by its last event,
which serves some of the atoms below; the rest are in the largest subtrees that the
event does not touch, and each of those must be complete before. All atoms of such a
subtree share the same variables with the rest of the node, so comparing its last event
with the event read now is enough. One match has one run: the last event of a node, the
atoms it serves and so the subtrees are functions of the match.

Without self joins there is one transition for each atom and node above it: quadratic in
the query. Where atoms may share an event, every subset of them is a transition: up to
exponential, as in the paper, and refused beyond MOST_TRANSITIONS.

Where the atoms below a node call a variable's attribute by different names, a link must
know which name to look for, so the node has one state for each *view*: the attributes
of the shared variables in the last event. (The paper's binary predicates are unions
over the atoms below, which an engine cannot hash by one key.) Disconnected atoms meet
in a root without variables, whose links compare nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from cernis.automata.correlated.pcea import PCEA, Link, RunSource, Transition
from cernis.automata.correlated.qtree import Node, build_forest
from cernis.automata.unary.cea import Both, Is, Test, conjoin, conjoin_tests
from cernis.errors import BudgetError
from cernis.pattern import predicate as pred
from cernis.pattern.predicate import TIME, Attribute

MOST_TRANSITIONS = 2_000

Sort = tuple[str | None, str]
"""The stream, where one is named, and the type of an event."""

View = tuple[str, ...]
"""The attributes that hold the variables of the path above a node, in the path's order."""


@dataclass(frozen=True, slots=True)
class JoinAtom:
    """One atom of a join: what its event must be, and where its variables are."""

    test: Test
    labels: frozenset[str]
    types: frozenset[Sort]
    """The sorts of events that can pass the test; atoms with no sort in common never
    share an event."""
    columns: Mapping[str, str]
    """Variable to attribute (dotted where nested)."""

    def may_share(self, other: JoinAtom) -> bool:
        """Return whether one event could serve both atoms."""
        return any(
            one == two and (here is None or there is None or here == there)
            for here, one in self.types
            for there, two in other.types
        )


def construct_join(atoms: Sequence[JoinAtom]) -> PCEA:
    """Return the automaton of a hierarchical join; ValueError where the atoms are not hierarchical.

    BudgetError where it has more than MOST_TRANSITIONS transitions.
    """
    if not atoms:
        raise ValueError("a join has at least one atom")
    return _JoinBuilder(atoms).build()


class _Spot:
    """A node of the compact q-tree, as the construction needs it."""

    def __init__(self, node: Node, name: str, shared: tuple[str, ...]) -> None:
        self.node = node
        self.name = name
        self.shared = shared
        """The variables on the path above, which its atoms share with the rest."""
        self.leaves = node.atoms()
        self.children: list[_Spot] = []


class _JoinBuilder:
    def __init__(self, atoms: Sequence[JoinAtom]) -> None:
        self.atoms = atoms
        self.names: list[str] = []
        self.states: dict[tuple[int, View], int] = {}
        self.transitions: list[Transition] = []
        self.root = self._build_spots(build_forest([tuple(atom.columns) for atom in atoms]))

    def _build_spots(self, tree: Node) -> _Spot:
        root = _Spot(tree, _name(tree, self.atoms, ()), ())
        stack = [(root, tree.variables)]
        while stack:
            spot, path = stack.pop()
            for child in spot.node.children:
                below = _Spot(child, _name(child, self.atoms, path), path)
                spot.children.append(below)
                stack.append((below, (*path, *child.variables)))
        return root

    def build(self) -> PCEA:
        order: list[_Spot] = [self.root]
        for spot in order:
            order += spot.children
        # children first, so that the views of every source are known
        views: dict[int, dict[View, None]] = {}
        for spot in reversed(order):
            views[id(spot)] = {}
            for served in list_shared_subsets(
                spot.leaves, lambda one, other: self.atoms[one].may_share(self.atoms[other])
            ):
                columns = self.atoms[served[0]].columns
                view = tuple(columns[name] for name in spot.shared)
                views[id(spot)][view] = None
                self._complete(spot, served, view, views)
        return PCEA(
            tuple(self.names), tuple(self.transitions), frozenset({self._state(self.root, ())})
        )

    def _complete(
        self,
        spot: _Spot,
        served: tuple[int, ...],
        view: View,
        views: Mapping[int, Mapping[View, None]],
    ) -> None:
        """Add the transitions whose event is the node's last and serves exactly these atoms."""
        test = self._test(served)
        labels = frozenset[str]().union(*(self.atoms[index].labels for index in served))
        target = self._state(spot, view)
        choices = [
            [self._source(rest, seen, witness) for seen in views[id(rest)]]
            for rest, witness in _find_untouched(spot, frozenset(served))
        ]
        for sources in product(*choices):
            if len(self.transitions) == MOST_TRANSITIONS:
                raise BudgetError(
                    f"the join needs more than {MOST_TRANSITIONS:,} transitions: "
                    "too many of its atoms may share an event"
                )
            self.transitions.append(Transition(sources, test, labels, target))

    def _source(self, rest: _Spot, seen: View, witness: int) -> RunSource:
        now = self.atoms[witness].columns
        pairs = zip(seen, (now[name] for name in rest.shared), strict=True)
        return RunSource(self._state(rest, seen), Link(equal=tuple(dict.fromkeys(pairs))))

    def _state(self, spot: _Spot, view: View) -> int:
        key = (id(spot), view)
        if key not in self.states:
            self.states[key] = len(self.names)
            others = sum(1 for known, _ in self.states if known == id(spot))
            self.names.append(spot.name if others == 1 else f"{spot.name} by {', '.join(view)}")
        return self.states[key]

    def _test(self, served: Sequence[int]) -> Test:
        """Return the test of an event that serves all of these atoms."""
        pairs: dict[tuple[str, str], None] = {}
        first: dict[str, str] = {}
        for index in served:
            for name, column in self.atoms[index].columns.items():
                if name in first:
                    # a = a is not idle: it keeps NULL and NaN out, which equal nothing
                    pairs[first[name], column] = None
                else:
                    first[name] = column
        test = conjoin_tests(self.atoms[index].test for index in served)
        pairs.pop((TIME.name, TIME.name), None)  # which every event has, and no column holds
        same = tuple(
            Is(pred.Comparison("=", Attribute.named(here), Attribute.named(there)))
            for here, there in pairs
        )
        return conjoin(test, Both(same)) if same else test


def _name(node: Node, atoms: Sequence[JoinAtom], path: tuple[str, ...]) -> str:
    if node.atom is not None:
        return " ".join(sorted(atoms[node.atom].labels))
    return ", ".join((*path, *node.variables)) or "×"


def _find_untouched(spot: _Spot, served: frozenset[int]) -> Iterator[tuple[_Spot, int]]:
    """Yield the largest subtrees without a served atom, each with a served atom beside it."""
    stack = [spot]
    while stack:
        inside = stack.pop()
        witness = next((index for index in inside.leaves if index in served), None)
        assert witness is not None
        for child in inside.children:
            if served.isdisjoint(child.leaves):
                yield child, witness
            else:
                stack.append(child)


def list_shared_subsets(
    items: Sequence[int], may_share: Callable[[int, int], bool]
) -> Iterator[tuple[int, ...]]:
    """Yield every non-empty set of items of which any two may share an event.

    >>> list(list_shared_subsets([0, 1, 2], lambda a, b: (a, b) != (0, 2)))
    [(0,), (0, 1), (1,), (1, 2), (2,)]
    """
    stack: list[tuple[tuple[int, ...], int]] = [((), 0)]
    while stack:
        chosen, index = stack.pop()
        if index == len(items):
            continue
        stack.append((chosen, index + 1))
        item = items[index]
        if all(may_share(earlier, item) for earlier in chosen):
            yield (*chosen, item)
            stack.append(((*chosen, item), index + 1))
