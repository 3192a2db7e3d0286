"""Compare two events across others: across a part that compares nothing with them, and in a star.

In `A AS a ; M ; C AS c` with `a[p] < c[p]`, links compare neighbours alone: a run after M has
forgotten its a. So the automaton is rewritten. M begins runs of its own, anywhere, and a c gathers
a run of M *and* an a: the link between a and c decides the condition as if they were neighbours.
The run of M must begin after the a. The engine files an a for this link once there is such a run
(`Link.once`), and lists the runs of M that began after the a it has chosen (`Link.inside`).

M is any set of states that is entered from a and left to c alone, by `;`: several steps, an OR, an
iteration, with comparisons of its own, or with a middle inside. If M is one event, `:` or a gap may
stand before c: the latest M is near enough, or none is. Conditions whose events lie inside
each other, or one after the other, are all decided so. Where they cross, the first is decided: the
other looks into a middle.

In a *star* several later events, its *rays*, are compared with one earlier event, its *centre*:
`A AS a ; B AS b ; C AS c` with `b[p] < a[p] AND c[p] > a[p]`. Each ray but the last is read
anywhere. The centre passes a stage for each ray, and for each middle between two of them, before it
is filed for the last ray. That one gathers the ray before it and the centre; a ray gathers the ray
before it. Which ones, is known when the centre is chosen (`Link.ray`).

A ray may be the centre of a star itself, whose rays lie between it and the next one of the outer
star: that one ends both stars. It gathers the inner rays beside the inner centre, which lets the
outer centre go on when it has passed its own stages.

Values that the centre and all rays have in common, `a[k] = b[k] AND b[k] = c[k]`, are the *key* of
a star: every index of it is kept by key. A part between the rays may have it or not.

The last ray is one event that each match has. Where it iterates, or may be left out, the automaton
gets a path of its own for each case first (`split_paths`).

Cost contract: a few transitions for each pair of events; searches of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from cernis.automata.correlated.between import KIND_OF, How, Verdict, add_comparison
from cernis.automata.correlated.pcea import (
    ANY_LINK,
    PCEA,
    Link,
    Ordered,
    PassedStage,
    RunSource,
    StarStage,
    Transition,
    Unindexed,
)
from cernis.automata.correlated.split_paths import SplitPaths, split_centre, split_paths
from cernis.automata.unary.cea import Is
from cernis.automata.unary.tidy import find_reachable
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.rising import LARGEST, find_direction
from cernis.pattern.waits import Location, Path

Equal = tuple[tuple[str, str], ...]
"""Attributes of two events that are equal."""
_MOST_SPLITS = 8
"""Each split copies the states of a star."""


@dataclass(frozen=True, slots=True)
class FarPair:
    """A condition between the events of two states; the first is the earlier one."""

    location: Location
    first: int
    last: int
    earlier: str
    op: pred.Operator
    later: str

    @property
    def turned(self) -> FarPair:
        """The same condition, if the other event is the earlier one."""
        op = pred.MIRRORED[self.op]
        return FarPair(self.location, self.last, self.first, self.later, op, self.earlier)


@dataclass(frozen=True, slots=True)
class Ray:
    """A state whose event is compared with the centre, and the link that decides it."""

    state: int
    link: Link
    pairs: tuple[FarPair, ...] = ()
    """The conditions that links between neighbours leave."""
    rises: bool = False
    """Whether both ends of a range that the ray has rise, or fall, with one attribute of it."""
    arrow: str | None = None
    """The `->` that leads to it."""
    again: bool = False
    """Whether something else than a chain of `->` lies before this arrow."""

    @property
    def whole_link(self) -> Link:
        """The link to the centre, with the arrow."""
        return replace(self.link, arrow=self.arrow, again=self.again)

    def can_be_asked(self, key: Equal) -> bool:
        """Whether an index of rays, by the key, has the order of what the centre asks for."""
        is_plain = replace(self.link, ordered=()) == Link(equal=key)
        return (
            is_plain and bool(self.link.ordered or key) and (self.rises or not self.link.is_range)
        )


class SharedKey:
    """The values in which the centre and all rays of a star are equal.

    For each value, the attribute that has it, by state. The states of a part between two rays are
    there if each step into, inside and out of it keeps the value.
    """

    def __init__(self, star: _Star, equal: list[FarPair]) -> None:
        self.star, self.equal = star, equal
        links: dict[tuple[int, int], list[Equal]] = {}
        for t in star.pcea.transitions:
            for source in t.sources:
                links.setdefault((source.state, t.target), []).append(source.link.equal)
        self.links = {ends: set(one).intersection(*rest) for ends, (one, *rest) in links.items()}
        own = [
            a for (state, _), pairs in self.links.items() if state == star.centre for a, _ in pairs
        ]
        own += [pair.earlier for pair in equal if pair.first == star.centre]
        found = (self._follow(name) for name in sorted({*own}))
        self.attributes = [attributes for attributes in found if attributes is not None]

    def pair(self, one: int, other: int) -> Equal:
        """Return the attributes of two states that are equal, in the order of the centre's."""
        return tuple(
            (own[one], own[other]) for own in self.attributes if {one, other} <= own.keys()
        )

    def covers(self, pair: FarPair) -> bool:
        """Return whether a condition follows from the key."""
        values = (pair.earlier, pair.later)
        return pair.op == "=" and any(
            (own.get(pair.first), own.get(pair.last)) == values for own in self.attributes
        )

    def is_only(self, link: Link, one: int, other: int) -> bool:
        """Return whether a link between two states compares the key, and nothing else."""
        same = {*link.equal} == {*self.pair(one, other)}
        return same and replace(link, equal=()) == ANY_LINK

    def _follow(self, name: str) -> dict[int, str] | None:
        """Return which attributes have the value that the centre has in one; None: not all rays."""
        star, found = self.star, {self.star.centre: name}
        for before, region, ray in zip(star.previous, star.regions, star.rays, strict=True):
            through = self._follow_links(before, found[before], region | {ray.state})
            if through is None:
                far = [p for p in self.equal if p.last == ray.state]
                far = [p for p in far if found.get(p.first) == p.earlier]
                if not far:
                    return None
                through = {ray.state: far[0].later}
            found |= through
        return found

    def _follow_links(
        self, before: int, name: str, states: frozenset[int]
    ) -> dict[int, str] | None:
        """Return the attributes of the states up to a ray; None: a step does not keep the value."""
        found, waiting = {before: name}, [before]
        while waiting:
            state = waiting.pop()
            for (source, target), pairs in self.links.items():
                if source == state and target in states:
                    equal = sorted(b for a, b in pairs if a == found[state])
                    if not equal or found.get(target, equal[0]) not in equal:
                        return None
                    if target not in found:
                        found[target] = equal[0]
                        waiting.append(target)
        return found if found.keys() >= states else None


@dataclass(frozen=True, slots=True)
class GatheredMiddles:
    """The automaton, and the verdicts of the conditions that it decides."""

    pcea: PCEA
    verdicts: dict[Location, Verdict]
    left: dict[Location, Verdict] = field(default_factory=dict)
    """Those of conditions that others are in the way of."""
    arrows: frozenset[str] = frozenset()
    """The `->` whose events let the centre of a star go on."""


def gather_middles(
    pcea: PCEA, formula: cel.Formula, verdicts: Mapping[Location, Verdict], unindexed: Unindexed
) -> GatheredMiddles:
    """Return the automaton that compares events across middles, as many as it can."""
    leaves = [find_comparison(formula, *location) for location in verdicts]
    sides = [side for leaf in leaves if leaf for side in (leaf.left, leaf.right)]
    pcea = _unite_alternatives(pcea, frozenset(side.variable for side in sides))
    graph = _StateOrder(pcea)
    pairs: dict[int, dict[int, list[FarPair]]] = {}
    compared, iterated = list[FarPair](), dict[Location, Verdict]()
    for location in verdicts:
        leaf = find_comparison(formula, *location)
        own = [] if leaf is None else _find_pairs(pcea, graph, formula, location, leaf)
        compared += own
        is_left = verdicts[location].how is How.CANDIDATE
        if is_left and leaf is not None and not own:
            iterated[location] = _explain_iterated(pcea, graph, leaf, verdicts[location])
        for pair in own if is_left else ():
            if not unindexed.explain(pair.op, pair.earlier, pair.later):
                pairs.setdefault(pair.first, {}).setdefault(pair.last, []).append(pair)
    conditions, ends = _Conditions(pcea, graph, pairs), PairLinks(formula, unindexed)
    best, locations = GatheredMiddles(pcea, {}), {pair.location for pair in conditions.far}
    for finite, splits, inner_first in product((False, True), (False, True), (True, False)):
        if best.verdicts.keys() < locations and (not finite or ends.shares):
            one = conditions.split_shares(ends) if finite else conditions
            one = one.split_paths() if splits else one
            links = PairLinks(formula, unindexed, is_finite=finite)
            made = _gather(one, links, verdicts, inner_first)
            best = max(best, made, key=lambda each: len(each.verdicts))
    left = (pair for pair in conditions.far if pair.location not in best.verdicts)
    explained = _explain_left(pcea, graph, compared, left, verdicts)
    return replace(best, left=iterated | explained)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """An automaton, and the conditions that links between its neighbours leave."""

    pcea: PCEA
    graph: _StateOrder
    pairs: dict[int, dict[int, list[FarPair]]]
    """By the states of the earlier and of the later event."""

    @property
    def far(self) -> list[FarPair]:
        """All pairs."""
        return [pair for lasts in self.pairs.values() for own in lasts.values() for pair in own]

    def split_paths(self) -> _Conditions:
        """Return the automaton with paths of their own to last rays that iterate, or are optional.

        A condition may have several pairs of states then.
        """
        found = self
        for _ in range(_MOST_SPLITS):
            made = next(filter(None, map(found._split_path, sorted(found.pairs))), None)
            if made is None:
                break
            found = made
        return found

    def split_shares(self, ends: PairLinks) -> _Conditions:
        """Return the automaton with a path of their own for centres that are infinite.

        That is, where a range is a share of a centre wide: it then has all numbers.
        """
        found = self
        for centre, lasts in sorted(self.pairs.items()):
            pairs = (pair for own in lasts.values() for pair in own)
            names = {ends.shares[pair.earlier] for pair in pairs if pair.earlier in ends.shares}
            if len(names) == 1:
                value, most = pred.Attribute.named(*names), pred.Literal(LARGEST)
                tests = (
                    Is(pred.Comparison("<=", value, most)),
                    Is(pred.Comparison(">", value, most)),
                )
                found = found._split(centre, partial(split_centre, tests=tests)) or found
        return found

    def _split_path(self, centre: int) -> _Conditions | None:
        return self._split(centre, split_paths)

    def _split(
        self,
        centre: int,
        split: Callable[[PCEA, int, frozenset[int], int], SplitPaths | None],
    ) -> _Conditions | None:
        last = max(self.pairs[centre], key=lambda state: self.graph.count_before(state, centre))
        between = self.graph.find_between(centre, last)
        made = split(self.pcea, centre, between, last)
        if made is None:
            return None
        pairs: dict[int, dict[int, list[FarPair]]] = {}
        copied = (
            replace(pair, first=first, last=end)
            for pair in self.far
            for path in made.paths
            for first in path.get(pair.first, (pair.first,))[-1:]
            for end in path.get(pair.last, (pair.last,))
        )
        for pair in dict.fromkeys(copied):
            pairs.setdefault(pair.first, {}).setdefault(pair.last, []).append(pair)
        return _Conditions(made.pcea, _StateOrder(made.pcea), pairs)


def _gather(
    conditions: _Conditions,
    ends: PairLinks,
    verdicts: Mapping[Location, Verdict],
    inner_first: bool,
) -> GatheredMiddles:
    """Return the automaton with the stars that can be gathered, inner ones first or last."""
    pcea, graph, pairs = conditions.pcea, conditions.graph, conditions.pairs
    equal = [pair for pair in conditions.far if pair.op == "="]
    made, arrows = pcea, frozenset[str]()
    judged, begun = dict[FarPair, Verdict](), set[int]()
    spans = {
        centre: max(len(graph.find_between(centre, last)) for last in pairs[centre])
        for centre in pairs
    }
    centres = sorted(pairs, key=lambda state: (spans[state], state), reverse=not inner_first)
    for centre in centres:
        rays = _find_rays(pcea, graph, centre, pairs[centre], ends)
        for some in _choose_rays(rays):
            if any(pair in judged for ray in some for pair in ray.pairs):
                continue
            star = _Star(pcea, graph, centre, some, StarConditions(pairs, ends, equal))
            gathered = star.gather(made, begun)
            if gathered is not None:
                begun |= star.begun
                judged |= star.judge(verdicts)
                made, arrows = gathered, arrows | star.arrows
    left = {pair.location for pair in conditions.far if pair not in judged}
    decided = sorted(judged.items(), key=lambda item: ("across" in item[1].why, len(item[1].why)))
    found = {pair.location: verdict for pair, verdict in decided if pair.location not in left}
    return GatheredMiddles(made, found, arrows=arrows)


def _unite_alternatives(pcea: PCEA, compared: frozenset[str]) -> PCEA:
    """Return the automaton with one state for those that go on alike: `(A OR B) AS x` has two.

    Runs stay what they are, since transitions write the labels. Events of one state have the same
    ones of the `compared` variables.
    """
    labels: dict[int, set[frozenset[str]]] = {}
    for t in pcea.transitions:
        labels.setdefault(t.target, set()).add(t.labels & compared)
    kept = pcea.guard_states
    kind = [
        (s in pcea.finals, s if s in kept or len(labels.get(s, ())) > 1 else labels.get(s))
        for s in range(len(pcea.names))
    ]
    classes = [kind.index(each) for each in kind]
    while True:
        going: list[set[object]] = [set() for _ in classes]
        for t in pcea.transitions:
            gathered = frozenset((classes[s.state], s.link) for s in t.sources)
            for source in t.sources:
                on = (t.test, t.labels, classes[t.target], source.link, gathered, len(t.sources))
                going[source.state].add(on)
        finer = [(classes[s], frozenset(going[s])) for s in range(len(classes))]
        refined = [finer.index(each) for each in finer]
        if refined == classes:
            break
        classes = refined
    first = sorted({*classes})
    number = [first.index(each) for each in classes]

    def rename(source: RunSource) -> RunSource:
        return replace(source, state=number[source.state])

    united = [
        replace(t, sources=tuple(map(rename, t.sources)), target=number[t.target])
        for t in pcea.transitions
    ]
    return PCEA(
        tuple(pcea.names[state] for state in first),
        tuple(dict.fromkeys(united)),
        frozenset(number[state] for state in pcea.finals),
        tuple((number[state], rename(source)) for state, source in pcea.guards),
        tuple((number[state], rename(source)) for state, source in pcea.removals),
    )


def _explain_iterated(
    pcea: PCEA, graph: _StateOrder, leaf: pred.Compare, known: Verdict
) -> Verdict:
    """Return the verdict of a condition on events that are several; it says which are."""
    for variable in (leaf.left.variable, leaf.right.variable):
        own = {t.target for t in pcea.transitions if variable in t.labels}
        if any(graph.is_earlier(state, state) for state in own):
            return replace(known, why=f"{known.why}; {variable} iterates")
    return known


def _explain_left(
    pcea: PCEA,
    graph: _StateOrder,
    compared: list[FarPair],
    left: Iterable[FarPair],
    verdicts: Mapping[Location, Verdict],
) -> dict[Location, Verdict]:
    """Return verdicts that say what is in the way of the conditions that are left."""
    found = {}
    for pair in left:
        known = verdicts[pair.location]
        ends = {pair.first, pair.last}
        others = [
            each
            for each in compared
            if each.location != pair.location and {each.first, each.last} != ends
        ]
        path = find_path(others, pair.first, pair.last)
        crossing = [each for each in others if graph.do_cross(each, pair)]
        named = dict.fromkeys(verdicts[each.location].text for each in path or crossing[:1])
        texts = " and ".join(named)
        why = f"it {'closes a cycle with' if path else 'crosses'} {texts}" if texts else ""
        why = why or _find_obstacle(pcea, graph, compared, pair, verdicts)
        if why:
            found[pair.location] = replace(known, why=f"{known.why}; {why}")
    return found


def _find_obstacle(
    pcea: PCEA,
    graph: _StateOrder,
    compared: list[FarPair],
    pair: FarPair,
    verdicts: Mapping[Location, Verdict],
) -> str:
    """Return what stands between the events of a condition and keeps it from an index, if known."""
    between = graph.find_between(pair.first, pair.last)
    inside = [
        source.link
        for t in pcea.transitions
        for source in t.sources
        if t.target in between | {pair.last} and source.state in between | {pair.first}
    ]
    if any(link.contiguous for link in inside):
        return "':' stands between, too"
    if any(link.gap is not None for link in inside):
        return "a gap stands between, too"
    if any(link.arrow is not None for link in inside):
        return "'->' stands between, too"
    if graph.is_begun_before(pair.last, pair.first):
        return f"{pcea.names[pair.first]} may be left out"
    rays = {each.last: each for each in compared if each.first == pair.first}
    for each in compared:
        if each.first in rays and each.first in between and each.last in between:
            texts = verdicts[rays[each.first].location].text, verdicts[each.location].text
            return f"{' and '.join(texts)} make {pcea.names[each.first]} a centre inside of a star"
    for each in rays.values():
        if each.last in between and each.op == "!=":
            return f"{verdicts[each.location].text} is no order"
    for each in rays.values():
        own = {one.op: one for one in compared if (one.first, one.last) == (each.first, each.last)}
        state, both = each.last, [verdicts[one.location].text for one in own.values()]
        if state in between and "=" in own and len(own) > 1:
            return f"{' and '.join(both)} are no range"
        if state in between and graph.is_earlier(state, state):
            return f"{pcea.names[state]} iterates"
        if state in between and graph.can_skip(pair.first, state, pair.last):
            return f"{pcea.names[state]} may be left out"
    for each in compared:
        if each.last == pair.last and each.first in between:
            return f"{verdicts[each.location].text} compares {pcea.names[pair.last]} as well"
    is_iterated = graph.is_earlier(pair.last, pair.last)
    return f"{pcea.names[pair.last]} iterates" if is_iterated else ""


def find_path(compared: list[FarPair], first: int, last: int) -> list[FarPair]:
    """Return comparisons that lead from one state to another; empty: none do."""
    paths: dict[int, list[FarPair]] = {first: []}
    waiting = [first]
    while waiting and last not in paths:
        state = waiting.pop(0)
        for pair in compared:
            if state in (pair.first, pair.last):
                other = pair.first + pair.last - state
                if other not in paths:
                    paths[other] = [*paths[state], pair]
                    waiting.append(other)
    return paths.get(last, [])


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
        self.begins = {t.target for t in pcea.transitions if not t.sources}
        for t in pcea.transitions:
            for source in t.sources:
                self.before.setdefault(t.target, set()).add(source.state)
                self.after.setdefault(source.state, set()).add(t.target)

    def is_earlier(self, one: int, other: int) -> bool:
        """Return whether a state comes before another in some run."""
        following = self.after.get(one, set())
        return other in find_reachable(following, lambda state: self.after.get(state, ()))

    def find_between(self, first: int, last: int) -> frozenset[int]:
        """Return the states between two states, without passing either."""
        ends = {first, last}
        return frozenset(_walk(self.after, first, ends) & _walk(self.before, last, ends))

    def do_alternate(self, one: int, other: int) -> bool:
        """Return whether two states of an iteration take turns."""
        return self.is_earlier(one, one) and not (
            one in _walk(self.after, one, {other}) or other in _walk(self.after, other, {one})
        )

    def is_begun_before(self, one: int, other: int) -> bool:
        """Return whether a run may come to a state without the other."""
        return not self.begins.isdisjoint({one} | _walk(self.before, one, {other}))

    def can_skip(self, first: int, state: int, last: int) -> bool:
        """Return whether a run may come from one state to another without a third."""
        return last in _walk(self.after, first, {state})

    def repeats(self, state: int) -> bool:
        """Return whether a state comes right after itself, and in no other rounds."""
        following = _walk(self.after, state, {state})
        is_alone = not any(state in self.after.get(each, ()) for each in following)
        return is_alone and state in self.after.get(state, ())

    def do_cross(self, one: FarPair, other: FarPair) -> bool:
        """Return whether each of two conditions begins or ends inside the other, and not both."""
        inner, outer = (self.find_between(pair.first, pair.last) for pair in (one, other))
        return (
            len({one.first, one.last} & outer) == 1 and len({other.first, other.last} & inner) == 1
        )

    def count_before(self, state: int, centre: int) -> int:
        """Return how many other states may come before a state, after the centre."""
        return len(_walk(self.before, state, {centre, state}))


def _walk(steps: Mapping[int, set[int]], begin: int, without: set[int]) -> set[int]:
    """Return the states that steps lead to, without passing some."""
    first = steps.get(begin, set()) - without
    return find_reachable(first, lambda state: steps.get(state, set()) - without)


def _find_pairs(
    pcea: PCEA, graph: _StateOrder, formula: cel.Formula, location: Location, leaf: pred.Compare
) -> list[FarPair]:
    """Return the pairs of states that a condition compares; empty: not each is one event.

    A variable has a state for each of its rounds, as in `B{3}`; the last may be iterated. In an
    iteration around the FILTER the two events take turns.
    """
    names = leaf.left.attribute.name, leaf.right.attribute.name
    variables = leaf.left.variable, leaf.right.variable
    ones, others = ({t.target for t in pcea.transitions if v in t.labels} for v in variables)
    found = []
    for one, other in product(sorted(ones), sorted(others)):
        if graph.do_alternate(one, other):
            if _is_iterated(formula, location, leaf):
                return []
            is_first, is_last = graph.is_begun_before(one, other), graph.is_begun_before(other, one)
        else:
            is_first, is_last = graph.is_earlier(one, other), graph.is_earlier(other, one)
            earlier, later = (one, other) if is_first else (other, one)
            rounds = graph.is_earlier(later, later) and not graph.repeats(later)
            if rounds or graph.is_earlier(earlier, earlier):
                return []
        if is_first == is_last:
            return []
        pair = FarPair(location, one, other, names[0], leaf.op, names[1])
        found.append(pair if is_first else pair.turned)
    return found


def _is_iterated(formula: cel.Formula, location: Location, leaf: pred.Compare) -> bool:
    """Whether the body of a FILTER has an iteration around an event that its condition compares."""
    node = formula
    for child in location[0]:
        node = cel.children(node)[child]
    names = {leaf.left.variable, leaf.right.variable}
    rounds = (each for each in cel.walk(node) if isinstance(each, cel.Iterate))
    return any(
        (each.variable if isinstance(each, cel.As) else each.type) in names
        for body in rounds
        for each in cel.walk(body)
        if isinstance(each, cel.As | cel.Event)
    )


def _find_rays(
    pcea: PCEA,
    graph: _StateOrder,
    centre: int,
    lasts: Mapping[int, list[FarPair]],
    ends: PairLinks,
) -> list[Ray]:
    """Return the rays around a centre, in their order; the first may be its neighbour."""
    rays = []
    following, arrows = graph.after.get(centre, set()), _follow_arrows(pcea, graph, centre)
    for state in sorted(
        {*lasts} | following | {*arrows}, key=lambda state: graph.count_before(state, centre)
    ):
        links = _list_links(pcea, state)
        is_next = state in following
        if is_next and (len(links) != 1 or len(following) > 1) and state not in lasts:
            continue
        own = next(iter(links)) if is_next and len(links) == 1 else ANY_LINK
        arrow = arrows.get(state)
        link, linked = ends.link_pairs(lasts.get(state, []), replace(own, arrow=None))
        if linked or arrow is not None or (is_next and link != ANY_LINK):
            rises = ends.are_alike(order.later for order in link.ordered)
            late = None if arrow is not None or is_next else _find_arrow(pcea, state)
            rays.append(Ray(state, link, tuple(linked), rises, arrow or late, late is not None))
    return rays


def _list_links(pcea: PCEA, state: int) -> set[Link]:
    """Return the links that lead to a state from others."""
    into = (source for t in pcea.transitions if t.target == state for source in t.sources)
    return {source.link for source in into if source.state != state}


def _list_links_between(pcea: PCEA, state: int, target: int) -> set[Link]:
    """Return the links that lead from one state to another."""
    into = (source for t in pcea.transitions if t.target == target for source in t.sources)
    return {source.link for source in into if source.state == state}


def _follow_arrows(pcea: PCEA, graph: _StateOrder, centre: int) -> dict[int, str]:
    """Return the states that a chain of `->` from a centre leads to, each with its arrow."""
    found, state = dict[int, str](), centre
    while len(following := graph.after.get(state, set())) == 1:
        (state,) = following
        arrow = _find_arrow(pcea, state)
        if arrow is None or state in found:
            break
        found[state] = arrow
    return found


def _find_arrow(pcea: PCEA, state: int) -> str | None:
    """Return the `->` by which all events come to a state."""
    links = _list_links(pcea, state)
    return next(iter(links)).arrow if len(links) == 1 else None


def _choose_rays(rays: list[Ray]) -> Iterator[tuple[Ray, ...]]:
    """Yield the sets of rays to try: all, the first ones, and each alone; with a far one each.

    A neighbour that is compared by equal values alone may be a part before the other rays, too.
    """
    tried = [rays[:count] for count in range(len(rays), 0, -1)] + [[ray] for ray in rays[1:]]
    for some in tried:
        if len(some) > 1 and not some[0].pairs and not some[0].link.ordered:
            yield tuple(some[1:])
        if any(ray.pairs for ray in some):
            yield tuple(some)


class PairLinks:
    """Puts conditions between two events on a link, as many as an index decides.

    `is_finite`: states have events with finite values alone, or with infinite ones.
    """

    def __init__(
        self, formula: cel.Formula, unindexed: Unindexed, *, is_finite: bool = False
    ) -> None:
        self.unindexed = unindexed
        leaves = cel.list_leaves(cel.walk(formula))
        sides = [
            s for leaf in leaves if isinstance(leaf, pred.Compare) for s in (leaf.left, leaf.right)
        ]
        attributes = {side.attribute.name: side.attribute for side in sides}
        directions = {
            name: (find_direction(own), find_direction(own, is_finite=True))
            for name, own in attributes.items()
        }
        self.directions = {name: both[is_finite] for name, both in directions.items()}
        self.shares = {
            name: finite[0]
            for name, (any_, finite) in directions.items()
            if any_ is None and finite is not None
        }
        """The ends of ranges that rise if values are finite, and the attributes of these values."""

    def link_pairs(self, pairs: list[FarPair], link: Link) -> tuple[Link, list[FarPair]]:
        """Return a link that decides conditions between the same events, and those in it."""
        linked = []
        by_kind = sorted(pairs, key=lambda each: (each.op != "=", each.op == "!=", each.location))
        for pair in by_kind:
            added = add_comparison(link, pair.earlier, pair.op, pair.later, self.unindexed)
            if isinstance(added, str):
                added = self.make_span(link, pair) or added
            if not isinstance(added, str):
                link = added
                linked.append(pair)
        return link, linked

    def order_value(self, link: Link, key: Equal) -> Link:
        """Return the link to a ray whose value is no key of the star, so that a tree has it."""
        own = [pair for pair in link.equal if pair not in key]
        if len(own) != 1 or link.ordered or self.unindexed.explain("<", *own[0]):
            return link
        ((earlier, later),) = own
        return replace(link, equal=key, ordered=(Ordered(earlier, "=", later),))

    def are_alike(self, names: Iterable[str]) -> bool:
        """Return whether attributes rise, or fall, with the same one."""
        directions = {self.directions.get(name) for name in names}
        return len(directions) == 1 and None not in directions

    def make_span(self, link: Link, pair: FarPair) -> Link | None:
        """Return the link with a range of the earlier event that the later value lies in.

        Both ends have to rise, or to fall, with one attribute.
        """
        if len(link.ordered) != 1 or replace(link, ordered=(), equal=()) != ANY_LINK:
            return None
        match pair.op:
            case "<" | "<=" | ">" | ">=" as op:
                lower, upper = sorted(
                    [*link.ordered, Ordered(pair.earlier, op, pair.later)], key=lambda o: o.op[0]
                )
            case _:
                return None
        if (lower.op[0], upper.op[0]) != ("<", ">") or lower.later != upper.later:
            return None
        if not self.are_alike((lower.earlier, upper.earlier)):
            return None
        is_wide = {lower.earlier, upper.earlier} & self.unindexed.wide
        return None if is_wide else replace(link, ordered=(lower, upper))


@dataclass(frozen=True, slots=True)
class StarConditions:
    """The conditions that links between neighbours leave, and what puts them on links."""

    pairs: Mapping[int, Mapping[int, list[FarPair]]]
    """By the states of the earlier and of the later event."""
    ends: PairLinks
    equal: list[FarPair]


class _Star:
    """A centre and its rays, on the automaton that it was found in."""

    def __init__(
        self,
        pcea: PCEA,
        graph: _StateOrder,
        centre: int,
        rays: tuple[Ray, ...],
        compared: StarConditions,
    ) -> None:
        self.pcea, self.centre, self.rays, self.last = pcea, centre, rays, rays[-1].state
        self.again = rays[-1].again and not any(ray.arrow for ray in rays[:-1])
        """Whether the centre waits for the last stage once more after each last ray."""
        self.previous = (centre, *(ray.state for ray in rays[:-1]))
        """For each ray, the state of the ray before it, or the centre."""
        self.is_last_iterated = self.last in graph.after.get(self.last, ())
        ends = zip(self.previous, rays, strict=True)
        self.regions = [graph.find_between(before, ray.state) for before, ray in ends]
        self.states = frozenset(self.previous[1:]).union(*self.regions)
        """The states between the centre and the last ray."""
        self.begun: set[int] = set()
        """The states at which middles and rays begin."""
        self.stages: tuple[PassedStage, ...] = ()
        """What the centre passes before the last ray; known once it is gathered."""
        self.nexts = [ray.arrow is not None and not ray.again for ray in rays]
        """Which rays are the next that fits the centre, in a chain of `->`."""
        self.arrows = frozenset(ray.arrow for ray in rays if ray.arrow is not None)
        self.equal, self.key = compared.equal, SharedKey(self, compared.equal)
        keys = [self.key.pair(centre, ray.state) for ray in rays[:-1]]
        links = [compared.ends.order_value(r.link, k) for r, k in zip(rays, keys, strict=False)]
        ordered = (replace(r, link=link) for r, link in zip(rays, links, strict=False))
        last = rays[-1]
        if self.again:
            key = self.key.pair(centre, last.state)
            last = replace(last, link=compared.ends.order_value(last.link, key))
        self.rays = (*ordered, last)
        self.inner = self._find_inner(graph, compared)
        """Per ray, the star whose centre is the ray before it."""

    def _find_inner(self, graph: _StateOrder, compared: StarConditions) -> list[_Star | None]:
        """Return, per ray, the star around the ray before it; None: nothing compares with that."""
        found: list[_Star | None] = []
        for before, region, ray in zip(self.previous, self.regions, self.rays, strict=True):
            lasts = compared.pairs.get(before, {})
            inside = {state: own for state, own in lasts.items() if state in region}
            rays = _find_rays(self.pcea, graph, before, inside, compared.ends) if region else []
            rays = [one for one in rays if one.state in region]
            is_part = not rays or (all(not one.pairs for one in rays) and self._keeps_key(rays))
            if before == self.centre or is_part or not region:
                found.append(None)
            else:
                some = (*rays, Ray(ray.state, ANY_LINK))
                found.append(_Star(self.pcea, graph, before, some, compared))
        return found

    def _keeps_key(self, rays: list[Ray]) -> bool:
        """Return whether neighbours of a ray are compared with it by the key of the star alone."""
        return all(
            self.key.is_only(link, before, ray.state)
            for ray in rays
            for before in self.previous
            for link in _list_links_between(self.pcea, before, ray.state)
        )

    def gather(self, pcea: PCEA, begun: set[int]) -> PCEA | None:
        """Return the automaton whose last ray gathers what is before it.

        None: the states between are entered or left in another way. `begun` are the states at which
        other middles begin.
        """
        if self.is_last_iterated:
            return None
        if not self.states:
            return self._link_neighbour(pcea)
        if self.states & (pcea.finals | pcea.guard_states):
            return None
        gathered = [source for source in pcea.sources if source.link.ray or source.link.once]
        rays = {source.state for source in gathered if source.link.ray is not None}
        centres = {source.state for source in gathered if source.link.ray is None}
        if self.centre in rays or centres & {*self.previous[1:]}:
            return None  # an event would be gathered twice
        if sum(map(len, self.regions)) + len(self.rays) - 1 != len(self.states):
            return None  # a ray lies in the part before another
        keys = [self.key.pair(self.centre, ray.state) for ray in self.rays]
        if not all(
            is_next or ray.can_be_asked(key)
            for ray, key, is_next in zip(self.rays[:-1], keys, self.nexts, strict=False)
        ):
            return None
        if not self._has_first_arrows() or not self._has_last_arrow(pcea):
            return None
        for star, is_next in zip(self.inner, (False, *self.nexts), strict=False):
            if star is not None:
                own = None if is_next else star.gather(pcea, begun | self.begun)
                if own is None:
                    return None
                pcea = own
                self.begun |= star.begun
        middles = [
            self._find_middles(pcea, i) if star is None else set[int]()
            for i, star in enumerate(self.inner)
        ]
        if len(self.rays) > 1 and any(len(each) > 1 for each in middles):
            return None
        begun = begun | self.begun
        self.stages = self._list_stages(middles)
        made: list[Transition] = []
        for t in pcea.transitions:
            states = {source.state for source in t.sources}
            ray = next((i for i, ray in enumerate(self.rays) if ray.state == t.target), None)
            region = next((i for i, own in enumerate(self.regions) if t.target in own), None)
            if region is not None:
                before = self.previous[region]
                if states == {before}:
                    (source, *more) = t.sources
                    if more or not self.key.is_only(source.link, before, t.target):
                        return None
                    t = replace(t, sources=())
                    self.begun.add(t.target)
                elif not states <= self.regions[region] or (not states and t.target not in begun):
                    return None
            elif ray is not None and (ray < len(self.rays) - 1 or states & self.states):
                sources = self._gather_ray(t, ray, middles)
                if sources is None:
                    return None
                t = replace(t, sources=sources)
                if not sources:
                    self.begun.add(t.target)
            elif states & self.states:
                return None
            elif ray is not None and self.centre in states:
                # what lies between may be left out: the two are neighbours then
                link = self._merge(t.sources[0].link, self.rays[ray].link)
                if len(t.sources) > 1 or link is None or self.again:
                    return None
                t = replace(t, sources=(RunSource(self.centre, link),))
            made.append(t)
        return replace(pcea, transitions=tuple(made))

    def judge(self, verdicts: Mapping[Location, Verdict]) -> dict[FarPair, Verdict]:
        """Return the verdicts of the conditions that the star decides."""
        found, names = {}, self.pcea.names
        for pair in self.equal:
            if self.key.covers(pair):
                why = "all events of the star have it"
                found[pair] = Verdict(verdicts[pair.location].text, How.EQUAL, why)
        for i, ray in enumerate(self.rays):
            between = frozenset(self.previous[1 : i + 1]).union(*self.regions[: i + 1])
            across = ", ".join(dict.fromkeys(names[state] for state in sorted(between)))
            for pair in ray.pairs:
                why = f"across {across}" if across else "all its pairs are neighbours"
                how = KIND_OF.get(pair.op, How.ORDERED)
                found[pair] = Verdict(verdicts[pair.location].text, how, why)
        for star in self.inner:
            found |= {} if star is None else star.judge(verdicts)
        return found

    def _has_first_arrows(self) -> bool:
        """Whether rays of a `->` come right after the centre and each other, before all others.

        The first event that fits the centre after the ones before is then the next one, and what a
        stage notes.
        """
        count = sum(self.nexts)
        is_plain = all(
            replace(ray.link, equal=(), ordered=()) == ANY_LINK for ray in self.rays[:count]
        )
        return all(self.nexts[:count]) and not any(self.regions[:count]) and (is_plain or not count)

    def _has_last_arrow(self, pcea: PCEA) -> bool:
        """Whether no other `->` is compared with the centre than chains, and a last one.

        What comes right before that one is a single event: the one that the centre waits for once
        more. Its values are in a search tree.
        """
        if not self.again:
            return not any(ray.again for ray in self.rays)
        *rays, last = self.rays
        link, region, before = last.link, self.regions[-1], self.previous[-1]
        steps = {(s.state, t.target) for t in pcea.transitions for s in t.sources}
        if not link.ordered or replace(link, equal=(), ordered=()) != ANY_LINK:
            return False
        if not rays:
            return bool(region) and not any({*step} <= region for step in steps)
        return not region and (before, before) not in steps and self.inner[-1] is None

    @staticmethod
    def _merge(link: Link, whole: Link) -> Link | None:
        """Return a link with what another decides; None: it has more than that, beside a key."""
        if link.ordered and not {*link.ordered} <= {*whole.ordered}:
            return None
        if link.different and not {*link.different} <= {*whole.different}:
            return None
        if replace(link, equal=(), ordered=(), different=()) != ANY_LINK:
            return None
        return replace(whole, equal=tuple(dict.fromkeys((*whole.equal, *link.equal))))

    def _link_neighbour(self, pcea: PCEA) -> PCEA:
        """Return the automaton whose only ray is next to the centre, and has its link."""
        made = [
            replace(
                t,
                sources=tuple(
                    replace(source, link=self.rays[0].whole_link)
                    if (source.state, t.target) == (self.centre, self.last)
                    else source
                    for source in t.sources
                ),
            )
            for t in pcea.transitions
        ]
        return replace(pcea, transitions=tuple(made))

    def _find_middles(self, pcea: PCEA, ray: int) -> set[int]:
        """Return the states in which the part before a ray ends."""
        into = [t for t in pcea.transitions if t.target == self.rays[ray].state]
        return {s.state for t in into for s in t.sources} & self.regions[ray]

    def _gather_ray(
        self, t: Transition, ray: int, middles: list[set[int]]
    ) -> tuple[RunSource, ...] | None:
        """Return what a transition into a ray gathers; None: it comes from elsewhere."""
        is_last, is_keyed = ray == len(self.rays) - 1, True
        inner = self.inner[ray]
        if inner is not None:
            *rays, source = t.sources
            if source.state != inner.centre:
                return None
            asked = self._ask_ray(ray - 1, middles)
            equal = tuple(dict.fromkeys((*asked.equal, *source.link.equal)))
            asked = replace(asked, equal=equal, once=source.link.once)
            both = (*rays, RunSource(inner.centre, asked))
            return (*both, self._ask_centre(source.state, middles)) if is_last else both
        if len(t.sources) != 1:
            return None
        (source,) = t.sources
        if source.state == t.target:  # another round: one that fits the centre, too
            if self.nexts[ray] or not self.key.is_only(source.link, t.target, t.target):
                return None
            own = replace(self._ask_ray(ray, middles), equal=self.key.pair(t.target, t.target))
            return (RunSource(t.target, replace(own, once=())),)
        near = Link(contiguous=source.link.contiguous, gap=source.link.gap)
        if near != ANY_LINK and not self._has_single_middles(ray, source.link):
            return None
        if ray > 0 or self.regions[ray]:
            is_arrow = self.nexts[ray] or (is_last and self.again)
            link = replace(source.link, arrow=None) if is_arrow else source.link
            link = replace(link, contiguous=False, gap=None)
            is_keyed = self.key.is_only(link, source.state, t.target)
        if not is_keyed or source.state not in (self.regions[ray] or {self.previous[ray]}):
            return None
        found = []
        if self.regions[ray]:
            alone = ray == 0 and not is_last
            star = StarStage(self.centre, self.last, -1) if alone else None
            equal = self.key.pair(source.state, t.target)
            between = replace(near, inside=True, ray=star, equal=equal)
            found.append(RunSource(source.state, between))
        if ray > 0:
            found.append(RunSource(self.rays[ray - 1].state, self._ask_ray(ray - 1, middles)))
        if is_last:
            found.append(self._ask_centre(source.state, middles))
        return tuple(found)

    def _has_single_middles(self, ray: int, link: Link) -> bool:
        """Whether the part before a ray is one event, and the link asks for the latest of these.

        If that is near enough, it comes after all runs that have waited for one.
        """
        region = self.regions[ray]
        into = (t for t in self.pcea.transitions if t.target in region)
        is_single = not any(source.state in region for t in into for source in t.sources)
        is_latest = link.gap is None or link.gap.least == 0
        return bool(region) and is_single and is_latest

    def _ask_centre(self, before: int, middles: list[set[int]]) -> RunSource:
        """Return what the last ray gathers of the centre, if it comes from a state."""
        link, key = self.rays[-1].whole_link, self.key.pair(self.centre, self.last)
        stages = (
            (self._pass_middle(self.centre, before),)
            if len(self.rays) == 1
            else self._list_stages(middles)
        )
        equal = tuple(dict.fromkeys((*link.equal, *key)))
        return RunSource(self.centre, replace(link, equal=equal, once=stages))

    def _pass_middle(self, waiting: int, state: int) -> PassedStage:
        """Return the stage at which a run waits for a part between."""
        return PassedStage(state, equal=self.key.pair(waiting, state))

    def _ask_ray(self, ray: int, middles: list[set[int]]) -> Link:
        """Return the link by which the next ray, or the last one, gathers a ray."""
        own, following = self.rays[ray], self.rays[ray + 1]
        then = tuple(self._pass_middle(own.state, state) for state in middles[ray + 1])
        stages = [stage.state for stage in self._list_stages(middles)]
        star = StarStage(self.centre, self.last, stages.index(own.state) - 1)
        if self.nexts[ray]:
            return Link(once=then, ray=star, is_next=True)
        mirrored = tuple(order.turned for order in own.link.ordered)
        key = self.key.pair(own.state, following.state)
        return Link(key, ordered=mirrored, once=then, ray=star)

    def _list_stages(self, middles: list[set[int]]) -> tuple[PassedStage, ...]:
        """Return what the centre waits for before the last ray."""
        stages = []
        following = [*self.inner[1:], None]
        for ray, between, star in zip(self.rays, middles, following, strict=True):
            stages += [self._pass_middle(self.centre, state) for state in between]
            if ray is not self.rays[-1]:
                after = () if star is None else star.stages
                stages.append(PassedStage(ray.state, ray.link, ray.link.equal, after))
        return tuple(stages)
