"""Compare two events by equal values across one event that stands between them.

In `A AS a ; B AS b ; C AS c` with `c[x] = a[x]` links compare neighbours alone: a run after B has
forgotten the x of its A. So the automaton is rewritten. A B begins a run of its own, and a C
gathers an A with its x *and* a B. The B must come after the A. The B's after the last A with this x
come after all A's with this x, and the index of B's, in the order of positions, has them as a
range. Before an A joins the others with its x, it gathers them with the B's since the last A (the
state *joined*, which marks no event). So each pair of an A and a later B is in one such product.

`A -> B` asks for the first of these B's instead of all, and the A's that have it leave. `B -> C`
takes the products out of their index, and later C's with this x ask for the B's after it.

Cost contract: two transitions of two links for each alternative of the event between; per event a
logarithm of the B's.

Turned down: a run for each pair of a B and a value of x that waits, as the linked runtime has them
(an event costs as many steps as there are values). Turned down, too: several events between. Their
runs begin before the next A and end after it, so no range has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cernis.automata.correlated.between import How, Verdict
from cernis.automata.correlated.exclusion import are_exclusive_tests
from cernis.automata.correlated.middles import find_comparison
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
from cernis.pattern.waits import Location


@dataclass(frozen=True, slots=True)
class Crossing:
    """The states of three events in a row, and the attributes in which the outer two agree."""

    first: int
    between: tuple[int, ...]
    """One state, or one for each alternative of an OR."""
    last: int
    equal: tuple[tuple[str, str], ...]
    begins: Test
    """What the first event passes."""
    to_between: Link
    to_last: Link

    @property
    def arrow(self) -> str | None:
        """The `->` before the last event."""
        return self.to_last.arrow


def find_crossing(
    pcea: PCEA, formula: cel.Formula, verdicts: Mapping[Location, Verdict]
) -> Crossing | None:
    """Return the three states, if the conditions left to candidates all compare the outer two."""
    opened = [location for location, verdict in verdicts.items() if verdict.how is How.CANDIDATE]
    links = [source.link for t in pcea.transitions for source in t.sources]
    if not opened or pcea.removals or not pcea.is_chain:
        return None
    if any(link.unless is not None or link.since is not None for link in links):
        return None
    pairs: set[tuple[tuple[int, str], tuple[int, str]]] = set()
    for location in opened:
        leaf = find_comparison(formula, *location)
        sides = None if leaf is None or leaf.op != "=" else _find_sides(pcea, leaf)
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
    to_last = _find_sources(pcea, {last})
    between = {source.state for source in to_last}
    to_between = _find_sources(pcea, between)
    links = [{source.link for source in sources} for sources in (to_between, to_last)]
    if {source.state for source in to_between} != {first} or any(len(each) != 1 for each in links):
        return None
    (before,), (after,) = links
    if any(replace(link, arrow=None) != ANY_LINK for link in (before, after)):
        return None
    if before.arrow is not None and len(between) > 1:
        return None  # no index has the first of both
    onward = {t.target for t in pcea.transitions for s in t.sources if s.state in between}
    if onward != {last} or between & pcea.finals or _is_on_cycle(pcea, first):
        return None
    tests = {
        q: {t.test for t in pcea.transitions if t.target == q} for q in (first, *between, last)
    }
    if any(len(each) != 1 for each in tests.values()):
        return None
    begins, ends = (next(iter(tests[state])) for state in (first, last))
    reads = [next(iter(tests[state])) for state in between]
    if not all(are_exclusive_tests(begins, each) for each in reads):
        return None
    if after.arrow is not None and not all(
        are_exclusive_tests(each, ends) for each in (begins, *reads)
    ):
        return None
    return Crossing(first, tuple(sorted(between)), last, equal, begins, before, after)


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


def _find_sources(pcea: PCEA, states: Collection[int]) -> set[RunSource]:
    """Return the sources of the transitions into states of a chain; none if one begins there."""
    found = [t.sources for t in pcea.transitions if t.target in states]
    return {source for sources in found for source in sources} if all(found) else set()


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

    def gather(
        equal: tuple[tuple[str, str], ...], between: int, *, touches: bool
    ) -> tuple[RunSource, ...]:
        after = Link(gap=ANY_DISTANCE, after_last=which, touches=touches)
        return RunSource(crossing.first, Link(equal=equal)), RunSource(between, after)

    own = tuple((name, name) for name, _ in crossing.equal)
    kept = [t for t in pcea.transitions if t.target not in (*crossing.between, crossing.last)]
    ends = next(t for t in pcea.transitions if t.target == crossing.last)
    done = RunSource(joined, Link(equal=crossing.equal, arrow=crossing.arrow))
    has_arrow = crossing.arrow is not None
    made = [replace(ends, sources=(done,))]
    for state in crossing.between:
        reads = next(t for t in pcea.transitions if t.target == state)
        joins = gather(own, state, touches=True)
        made += [
            replace(reads, sources=()),
            Transition(joins, crossing.begins, frozenset(), joined),
            replace(ends, sources=gather(crossing.equal, state, touches=has_arrow)),
        ]
    name = f"{pcea.names[crossing.first]} and {_name_between(pcea, crossing)}"
    return replace(pcea, names=(*pcea.names, name), transitions=(*kept, *made))


def _name_between(pcea: PCEA, crossing: Crossing) -> str:
    return " or ".join(dict.fromkeys(pcea.names[state] for state in crossing.between))


def judge_across(
    pcea: PCEA, crossing: Crossing, verdicts: Mapping[Location, Verdict]
) -> dict[Location, Verdict]:
    """Return the verdicts, with those of the conditions that the gathering decides."""
    why = f"gathered across {_name_between(pcea, crossing)}"
    return {
        location: Verdict(v.text, How.EQUAL, why) if v.how is How.CANDIDATE else v
        for location, v in verdicts.items()
    }
