"""Compare two events across a part of the formula that compares nothing with them.

In `A AS a ; M ; C AS c` with `a[p] < c[p]`, links compare neighbours alone: a run after M has
forgotten its a. So the automaton is rewritten. M begins runs of its own, anywhere, and a c gathers
a run of M *and* an a: the link between a and c decides the condition as if they were neighbours.
The run of M must begin after the a. The engine files an a for this link once there is such a run
(`Link.once`), and lists the runs of M that began after the a it has chosen (`Link.inside`).

M is any set of states that is entered from a and left to c alone, by `;`: several steps, an OR, an
iteration, with comparisons of its own, or with a middle inside. Conditions whose events lie inside
each other, or one after the other, are all decided so. Where they cross, the first is decided: the
other looks into a middle.

Cost contract: one state and a few transitions for each pair of events; searches of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cernis.automata.correlated.between import KIND_OF, How, Verdict, add_comparison, is_range
from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Link, RunSource, Transition, Unindexed
from cernis.automata.unary.tidy import find_reachable
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.waits import Path, Place


@dataclass(frozen=True, slots=True)
class FarPair:
    """A condition between the events of two states; the first is the earlier one."""

    place: Place
    first: int
    last: int
    earlier: str
    op: pred.Operator
    later: str


@dataclass(frozen=True, slots=True)
class GatheredMiddles:
    """The automaton, and the verdicts of the conditions that it decides."""

    pcea: PCEA
    verdicts: dict[Place, Verdict]


def gather_middles(
    pcea: PCEA, formula: cel.Formula, verdicts: Mapping[Place, Verdict], unindexed: Unindexed
) -> GatheredMiddles:
    """Return the automaton that compares events across middles, as many as it can."""
    graph = _StateOrder(pcea)
    pairs: dict[tuple[int, int], list[FarPair]] = {}
    for place, verdict in verdicts.items():
        leaf = find_comparison(formula, *place) if verdict.how is How.CANDIDATE else None
        pair = None if leaf is None else _find_pair(pcea, graph, place, leaf)
        if pair is not None and not unindexed.explain(pair.op, pair.earlier, pair.later):
            pairs.setdefault((pair.first, pair.last), []).append(pair)
    regions = {ends: graph.find_between(*ends) for ends in pairs}
    found, begun = pcea, set[int]()
    decided: dict[Place, Verdict] = {}
    for ends in sorted(pairs, key=lambda ends: (len(regions[ends]), ends)):
        link, linked = _link_pairs(pairs[ends], unindexed)
        made = _gather(found, ends, regions[ends], link, begun) if linked else None
        if made is not None:
            found = made
            names = dict.fromkeys(pcea.names[state] for state in sorted(regions[ends]))
            why = f"across {', '.join(names)}"
            for pair in linked:
                text = verdicts[pair.place].text
                how = KIND_OF.get(pair.op, How.ORDERED)
                decided[pair.place] = Verdict(text, how, why)
    return GatheredMiddles(found, decided)


def find_comparison(formula: cel.Formula, path: Path, number: int) -> pred.Compare | None:
    """Return a condition of a FILTER, if it compares two events and must hold."""
    node = formula
    for child in path:
        node = cel.children(node)[child]
    if not isinstance(node, cel.Filter):
        return None
    leaf = tuple(pred.leaves(node.condition))[number]
    is_needed = any(leaf is each for each in pred.conjuncts(node.condition))
    if not is_needed or not isinstance(leaf, pred.Compare):
        return None
    return None if leaf.adjacent or leaf.shift is not None else leaf


class _StateOrder:
    """Which states may be read right before and right after each state."""

    def __init__(self, pcea: PCEA) -> None:
        self.before: dict[int, set[int]] = {}
        self.after: dict[int, set[int]] = {}
        for t in pcea.transitions:
            for source in t.sources:
                self.before.setdefault(t.target, set()).add(source.state)
                self.after.setdefault(source.state, set()).add(t.target)

    def is_earlier(self, one: int, other: int) -> bool:
        """Whether a state comes before another in some run."""
        following = self.after.get(one, set())
        return other in find_reachable(following, lambda state: self.after.get(state, ()))

    def find_between(self, first: int, last: int) -> frozenset[int]:
        """Return the states between two states, without passing either."""
        forward = self.after.get(first, set()) - {last}
        back = self.before.get(last, set()) - {first}
        after = find_reachable(forward, lambda s: self.after.get(s, set()) - {first, last})
        before = find_reachable(back, lambda s: self.before.get(s, set()) - {first, last})
        return frozenset(after & before)


def _find_pair(pcea: PCEA, graph: _StateOrder, place: Place, leaf: pred.Compare) -> FarPair | None:
    """Return the two states of a condition, if each of its variables has one event in a match."""
    states = []
    for side in (leaf.left, leaf.right):
        found = {t.target for t in pcea.transitions if side.variable in t.labels}
        if len(found) != 1:
            return None
        states.append(found.pop())
    one, other = states
    if any(graph.is_earlier(state, state) for state in states):
        return None
    names = leaf.left.attribute.name, leaf.right.attribute.name
    if graph.is_earlier(one, other):
        return FarPair(place, one, other, names[0], leaf.op, names[1])
    if graph.is_earlier(other, one):
        return FarPair(place, other, one, names[1], pred.MIRRORED[leaf.op], names[0])
    return None


def _link_pairs(pairs: list[FarPair], unindexed: Unindexed) -> tuple[Link, list[FarPair]]:
    """Return a link that decides conditions between the same events, and those it has room for."""
    link, linked = ANY_LINK, []
    for pair in sorted(pairs, key=lambda each: (each.op != "=", each.op == "!=", each.place)):
        added = add_comparison(link, pair.earlier, pair.op, pair.later)
        is_wide = is_range(added) and pair.earlier in unindexed.wide
        if not isinstance(added, str) and not is_wide:
            link = added
            linked.append(pair)
    return link, linked


def _gather(
    pcea: PCEA, ends: tuple[int, int], region: frozenset[int], link: Link, begun: set[int]
) -> PCEA | None:
    """Return the automaton whose last event gathers the first and a run of the states between.

    None: these are entered or left in another way. `begun` are the states at which middles begin.
    """
    first, last = ends
    made: list[Transition] = []
    entered: set[int] = set()
    if not region or region & (pcea.finals | pcea.guard_states):
        return None
    for t in pcea.transitions:
        states = {source.state for source in t.sources}
        if t.target in region:
            if states == {first} and t.sources == (RunSource(first),):
                t = replace(t, sources=())
                entered.add(t.target)
            elif not states <= region or (not states and t.target not in begun):
                return None
        elif states & region:
            if t.target != last or len(t.sources) > 1 or t.sources[0].link != ANY_LINK:
                return None
            middle = t.sources[0].state
            sources = (
                RunSource(middle, Link(inside=True)),
                RunSource(first, replace(link, once=middle)),
            )
            t = replace(t, sources=sources)
        made.append(t)
    begun |= entered
    return replace(pcea, transitions=tuple(made))
