"""Compare two events by equal values across one event that stands between them.

In `A AS a ; B AS b ; C AS c` with `c[x] = a[x]` links compare neighbours alone: a run after B has
forgotten the x of its A. So the automaton is rewritten. A B begins a run of its own, and a C
gathers an A with its x *and* a B. The B must come after the A. The B's after the last A with this x
come after all A's with this x, and the index of B's, in the order of positions, has them as a
range. Before an A joins the others with its x, it gathers them with the B's since the last A (the
state *joined*, which marks no event). So each pair of an A and a later B is in one such product.

`A -> B` asks for the first of these B's in place of all, and the A's that have it leave. `B -> C`
takes the products out of their index, and later C's with this x ask for the B's after it.

Cost contract: two transitions more, of two links each; per event a logarithm of the B's.

Turned down: a run for each pair of a B and a value of x that waits, as the linked runtime has them
(an event costs as many steps as there are values). Turned down, too: several events between. Their
runs begin before the next A and end after it, so no range has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cernis.automata.correlated.between import How, Verdict
from cernis.automata.correlated.exclusion import are_exclusive_tests
from cernis.automata.correlated.pcea import (
    ANY_DISTANCE,
    ANY_LINK,
    PCEA,
    Link,
    RunSource,
    Transition,
)
from cernis.automata.unary.cea import Test
from cernis.automata.unary.tidy import find_reachable
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.waits import Path, Place


@dataclass(frozen=True, slots=True)
class Crossing:
    """The states of three events in a row, and the attributes in which the outer two agree."""

    first: int
    between: int
    last: int
    equal: tuple[tuple[str, str], ...]
    begins: Test
    """What the first event passes."""
    reads: Test
    """What the event between passes."""
    to_between: Link
    to_last: Link

    @property
    def arrow(self) -> str | None:
        """The `->` before the last event."""
        return self.to_last.arrow


def find_crossing(
    pcea: PCEA, formula: cel.Formula, verdicts: Mapping[Place, Verdict]
) -> Crossing | None:
    """Return the three states, if the conditions left to candidates all compare the outer two."""
    opened = [place for place, verdict in verdicts.items() if verdict.how is How.CANDIDATE]
    leaves = [_find_equality(formula, *place) for place in opened]
    links = [source.link for t in pcea.transitions for source in t.sources]
    if not leaves or pcea.removals or not pcea.is_chain:
        return None
    if any(link.unless is not None or link.since is not None for link in links):
        return None
    pairs: set[tuple[tuple[int, str], tuple[int, str]]] = set()
    for leaf in leaves:
        sides = None if leaf is None else _find_sides(pcea, leaf)
        if sides is None:
            return None
        pairs.add(sides)
    ends = {(one[0], other[0]) for one, other in pairs}
    if len(ends) != 1:
        return None
    ((first, last),) = ends
    equal = tuple(sorted((one[1], other[1]) for one, other in pairs))
    if len({earlier for earlier, _ in equal}) < len(equal):
        return None
    return _check_states(pcea, first, last, equal)


def _check_states(
    pcea: PCEA, first: int, last: int, equal: tuple[tuple[str, str], ...]
) -> Crossing | None:
    """Return the crossing, if one event that nothing compares stands between the two."""
    to_last = _find_only_link(pcea, last)
    to_between = None if to_last is None else _find_only_link(pcea, to_last.state)
    if to_last is None or to_between is None or to_between.state != first:
        return None
    between = to_last.state
    after = {t.target for t in pcea.transitions for s in t.sources if s.state == between}
    if after != {last} or between in pcea.finals or _is_on_cycle(pcea, first):
        return None
    tests = [{t.test for t in pcea.transitions if t.target == q} for q in (first, between, last)]
    if any(len(each) != 1 for each in tests):
        return None
    begins, reads, ends = (next(iter(each)) for each in tests)
    links = to_between.link, to_last.link
    if any(replace(link, arrow=None) != ANY_LINK for link in links):
        return None
    if not are_exclusive_tests(begins, reads):
        return None
    if to_last.link.arrow is not None and not (
        are_exclusive_tests(reads, ends) and are_exclusive_tests(begins, ends)
    ):
        return None
    return Crossing(first, between, last, equal, begins, reads, *links)


def _find_equality(formula: cel.Formula, path: Path, number: int) -> pred.Compare | None:
    """Return a condition of a FILTER, if it is an equality of two events that must hold."""
    node = formula
    for child in path:
        node = cel.children(node)[child]
    if not isinstance(node, cel.Filter):
        return None
    leaf = tuple(pred.leaves(node.condition))[number]
    is_needed = any(leaf is each for each in pred.conjuncts(node.condition))
    return leaf if is_needed and isinstance(leaf, pred.Compare) and leaf.is_transitive else None


def _find_sides(pcea: PCEA, leaf: pred.Compare) -> tuple[tuple[int, str], tuple[int, str]] | None:
    """Return (state, attribute) of the earlier and of the later side, if each has one state."""
    sides = []
    for side in (leaf.left, leaf.right):
        states = {t.target for t in pcea.transitions if side.variable in t.labels}
        if len(states) != 1:
            return None
        sides.append((states.pop(), side.attribute.name))
    one, other = sides
    return (other, one) if other[0] in _find_before(pcea, {one[0]}) else (one, other)


def _find_only_link(pcea: PCEA, state: int) -> RunSource | None:
    """Return the link into a state, if all of its transitions have the same one."""
    found = {t.sources for t in pcea.transitions if t.target == state}
    sources = found.pop() if len(found) == 1 else ()
    return sources[0] if len(sources) == 1 else None


def _find_before(pcea: PCEA, states: Iterable[int]) -> set[int]:
    """Return the states that lead to one of these."""
    into: dict[int, set[int]] = {}
    for t in pcea.transitions:
        into.setdefault(t.target, set()).update(source.state for source in t.sources)
    direct = {before for state in states for before in into.get(state, ())}
    return find_reachable(direct, lambda state: into.get(state, ()))


def _is_on_cycle(pcea: PCEA, state: int) -> bool:
    return state in _find_before(pcea, {state})


def gather_across(pcea: PCEA, crossing: Crossing) -> PCEA:
    """Return the automaton that gathers the first event and the one between where it ends."""
    joined = len(pcea.names)
    which: Literal["all", "first"] = "all" if crossing.to_between.arrow is None else "first"

    def gather(equal: tuple[tuple[str, str], ...], *, touches: bool) -> tuple[RunSource, ...]:
        after = Link(gap=ANY_DISTANCE, after_last=which, touches=touches)
        waiting = RunSource(crossing.first, Link(equal=equal))
        return waiting, RunSource(crossing.between, after)

    own = tuple((name, name) for name, _ in crossing.equal)
    kept = [t for t in pcea.transitions if t.target not in (crossing.between, crossing.last)]
    between = next(t for t in pcea.transitions if t.target == crossing.between)
    ends = next(t for t in pcea.transitions if t.target == crossing.last)
    done = RunSource(joined, Link(equal=crossing.equal, arrow=crossing.arrow))
    has_arrow = crossing.arrow is not None
    made = [
        replace(between, sources=()),
        Transition(gather(own, touches=True), crossing.begins, frozenset(), joined),
        replace(ends, sources=(done,)),
        replace(ends, sources=gather(crossing.equal, touches=has_arrow)),
    ]
    name = f"{pcea.names[crossing.first]} and {pcea.names[crossing.between]}"
    return replace(pcea, names=(*pcea.names, name), transitions=(*kept, *made))


def judge_across(
    pcea: PCEA, crossing: Crossing, verdicts: Mapping[Place, Verdict]
) -> dict[Place, Verdict]:
    """Return the verdicts, with those of the conditions that the gathering decides."""
    why = f"gathered across {pcea.names[crossing.between]}"
    return {
        place: Verdict(v.text, How.EQUAL, why) if v.how is How.CANDIDATE else v
        for place, v in verdicts.items()
    }
