"""Recognize joins: single events in any order, tied by equal attributes.

`(A AS x ALL B AS y ALL C) FILTER x[a] = y[a] AND …`, which is also what a conjunctive
query lowers to. Equalities are closed transitively: each class of attributes that must
be equal is a variable of the join, in the sense of conjunctive queries.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations

from cernis.automata.correlated.any_order import CentreLinks, SingleEvent, compare_in_any_order
from cernis.automata.correlated.between import KIND_OF, How, Verdict
from cernis.automata.correlated.classes import Key, close_equalities
from cernis.automata.correlated.exclusion import are_exclusive_tests
from cernis.automata.correlated.hierarchical import JoinAtom
from cernis.automata.correlated.middles import FarPair, PairLinks, Ray, find_path
from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Link, Unindexed
from cernis.automata.unary.cea import Test, conjoin
from cernis.automata.unary.construct import build_test, build_type_test
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.waits import find_bound
from cernis.pattern.write import write_condition

_MOST_IN_ANY_ORDER = 4
"""Of more events, there are too many orders of arrival."""


@dataclass(frozen=True)
class EventJoin:
    """The atoms of a join, in the order of the text."""

    atoms: tuple[JoinAtom, ...]
    texts: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    own: tuple[frozenset[str], ...]
    """Per atom, the names that no other atom has."""

    @property
    def variables(self) -> tuple[tuple[str, ...], ...]:
        """The variables of each atom."""
        return tuple(tuple(atom.columns) for atom in self.atoms)

    def is_unique_for(self, selected: frozenset[str]) -> bool:
        """Whether each atom has a selected variable that no other atom has."""
        return all(names & selected for names in self.own)


@dataclass
class _JoinedEvent:
    event: cel.Event
    names: tuple[str, ...]


def recognize_join(formula: cel.Formula) -> EventJoin | None:
    """Return the formula as a join, if it is one."""
    body, conditions = cel.take_off(formula)
    if not isinstance(body, cel.All) or any(not _is_simple(c) for c in conditions):
        return None
    found = [_read_single(part) for part in body.parts]
    atoms = [atom for atom in found if atom is not None]
    if len(atoms) < len(found):
        return None
    every = Counter(name for atom in atoms for name in set(atom.names))
    own = tuple(frozenset(n for n in atom.names if every[n] == 1) for atom in atoms)
    owner = {name: i for i, names in enumerate(own) for name in names}
    if any(name not in owner for c in conditions for name in _names(c)):
        return None
    columns, tests = _name_variables(atoms, conditions, owner)
    joined = []
    for i, atom in enumerate(atoms):
        test: Test = build_type_test(atom.event)
        for predicate in tests[i]:
            test = conjoin(test, build_test(predicate))
        sort = frozenset({(atom.event.stream, atom.event.type)})
        joined.append(JoinAtom(test, frozenset(atom.names), sort, columns[i]))
    return EventJoin(
        tuple(joined),
        tuple(_write_atom(atom) for atom in atoms),
        tuple(_judge(c) for c in conditions),
        own,
    )


@dataclass(frozen=True)
class StarInAnyOrder:
    """Events in any order, of which one is compared with all others."""

    pcea: PCEA
    verdicts: tuple[Verdict, ...]
    own: tuple[frozenset[str], ...]
    """Per event, its names."""


def recognize_star(formula: cel.Formula, unindexed: Unindexed) -> StarInAnyOrder | None:
    """Return the automaton of events in any order, one of which is compared with all others."""
    body, conditions = cel.take_off(formula)
    found = [_read_single(part) for part in body.parts] if isinstance(body, cel.All) else []
    atoms = [atom for atom in found if atom is not None]
    owner = {name: i for i, atom in enumerate(atoms) for name in atom.names}
    is_small = len(found) == len(atoms) and 2 <= len(atoms) <= _MOST_IN_ANY_ORDER
    if not is_small or len(owner) < sum(len({*a.names}) for a in atoms):
        return None
    tests: list[Test] = [build_type_test(atom.event) for atom in atoms]
    pairs = list[FarPair]()
    for number, condition in enumerate(conditions):
        match condition:
            case pred.Holds(variable=x, predicate=own) if x in owner:
                tests[owner[x]] = conjoin(tests[owner[x]], build_test(own))
            case pred.Compare(op=op, left=left, right=right, adjacent=False, shift=None) if (
                op != "!=" and {left.variable, right.variable} <= owner.keys()
            ):
                one, other = owner[left.variable], owner[right.variable]
                names = left.attribute.name, right.attribute.name
                if one == other or unindexed.explain(op, *names):
                    return None
                pairs.append(FarPair(((), number), one, other, names[0], op, names[1]))
            case _:
                return None
    if not _are_apart(tests):
        return None
    events = [
        SingleEvent(a.names[-1], t, frozenset(a.names)) for a, t in zip(atoms, tests, strict=True)
    ]
    for centre, event in enumerate(events):
        others = [i for i in range(len(events)) if i != centre]
        links = _link_centre(centre, others, pairs, PairLinks(formula, unindexed))
        if links is not None:
            pcea = compare_in_any_order(event, [events[i] for i in others], links)
            verdicts = tuple(_judge(c, "in any order") for c in conditions)
            return StarInAnyOrder(pcea, verdicts, tuple(frozenset(a.names) for a in atoms))
    return None


def explain_any_order(formula: cel.Formula, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Return the verdicts; of events in any order, they say what keeps conditions from an index."""
    body, conditions = cel.take_off(formula)
    parts = body.parts if isinstance(body, cel.All) else ()
    owner = {name: i for i, part in enumerate(parts) for name in find_bound(part)}
    texts, pairs = list[str](), dict[str, FarPair]()
    for number, condition in enumerate(conditions):
        texts.append(write_condition(condition))
        if isinstance(condition, pred.Compare) and {*_names(condition)} <= owner.keys():
            one, other = (owner[name] for name in _names(condition))
            pairs[texts[-1]] = FarPair(((), number), one, other, "", condition.op, "")
    compared = {frozenset((pair.first, pair.last)) for pair in pairs.values()}
    every, atoms = range(len(parts)), [atom.event.type for atom in map(_read_single, parts) if atom]
    has_centre = any(all({i, j} in compared for j in every if j != i) for i in every)
    found = []
    for verdict in verdicts:
        pair = pairs.get(verdict.text)
        if verdict.how is How.CANDIDATE and pair is not None:
            others = [o for o in pairs.values() if {o.first, o.last} != {pair.first, pair.last}]
            path = [texts[each.location[1]] for each in find_path(others, pair.first, pair.last)]
            if path:
                why = f"; it closes a cycle with {' and '.join(path)}"
            elif pair.op == "!=":
                why = "; values that differ are no range"
            elif not has_centre:
                why = "; no event is compared with all others"
            else:
                why = "; one event may be two of them" if len({*atoms}) < len(atoms) else ""
            verdict = replace(verdict, why=f"{verdict.why}{why}")
        found.append(verdict)
    return tuple(found)


def _link_centre(
    centre: int, others: list[int], pairs: list[FarPair], ends: PairLinks
) -> list[CentreLinks] | None:
    """Return the links of a centre with the others; None: no index decides all conditions so."""
    equal: dict[int, list[tuple[str, str]]] = {i: [] for i in others}
    key: dict[int, list[tuple[str, str]]] = {i: [] for i in others}
    same = [p for p in pairs if p.op == "="]
    sides = [((str(p.first), p.earlier), (str(p.last), p.later)) for p in same]
    for values in close_equalities(sides):
        members = {int(event or 0): name for event, name in values.keys}
        if centre not in members or len(members) < len(values.keys):
            return None
        own = key if len(members) > len(others) else equal
        for i in members.keys() - {centre}:
            own[i].append((members[centre], members[i]))
    links = []
    for i in others:
        between = [
            p if p.first == centre else p.turned for p in pairs if {p.first, p.last} == {centre, i}
        ]
        ordered = [p for p in between if p.op != "="]
        found = _link_event(key[i], equal[i], ordered, ends)
        if found is None:
            return None
        links.append(found)
    known = sum(p.op == "=" or centre in (p.first, p.last) for p in pairs)
    return links if known == len(pairs) else None


def _link_event(
    key: list[tuple[str, str]],
    equal: list[tuple[str, str]],
    ordered: list[FarPair],
    ends: PairLinks,
) -> CentreLinks | None:
    """Return the links of a centre with one event; None: no index decides all conditions."""
    after, before = (
        ends.link_pairs(sorted(own, key=lambda pair: pair.op, reverse=True), ANY_LINK)
        for own in (ordered, [pair.turned for pair in ordered])
    )
    if min(len(after[1]), len(before[1])) < len(ordered):
        return None
    own = ends.order_value(Link((*key, *equal), ordered=after[0].ordered), tuple(key))
    rises = ends.are_alike(order.later for order in own.ordered)
    if not Ray(0, own, rises=rises).can_be_asked(tuple(key)):
        return None
    turned = tuple((later, earlier) for earlier, later in (*key, *equal))
    return CentreLinks(
        replace(before[0], equal=turned),
        replace(after[0], equal=(*key, *equal)),
        own,
        tuple(later for _, later in key),
    )


def _are_apart(tests: list[Test]) -> bool:
    return all(are_exclusive_tests(*pair) for pair in combinations(tests, 2))


def _is_simple(condition: pred.Condition) -> bool:
    """Whether a condition is x[P], or a plain equality of attributes."""
    match condition:
        case pred.Holds():
            return True
        case pred.Compare(op="=", adjacent=False, shift=None):
            return True
        case _:
            return False


def _names(condition: pred.Condition) -> tuple[str, ...]:
    match condition:
        case pred.Holds(variable=variable):
            return (variable,)
        case pred.Compare(left=left, right=right):
            return left.variable, right.variable
        case _:
            return ()


def _read_single(part: cel.Formula) -> _JoinedEvent | None:
    names: list[str] = []
    while isinstance(part, cel.As):
        names.append(part.variable)
        part = part.body
    return _JoinedEvent(part, (part.type, *names)) if isinstance(part, cel.Event) else None


def _name_variables(
    atoms: list[_JoinedEvent], conditions: list[pred.Condition], owner: dict[str, int]
) -> tuple[list[dict[str, str]], list[list[pred.Predicate]]]:
    """Return for each atom the attribute of each variable of the join, and its own predicates."""
    own: list[list[pred.Predicate]] = [[] for _ in atoms]
    equal: list[tuple[Key, Key]] = []
    for condition in conditions:
        match condition:
            case pred.Holds(variable=variable, predicate=predicate):
                own[owner[variable]].append(predicate)
            case pred.Compare(left=left, right=right):
                one, other = (
                    (str(owner[side.variable]), side.attribute.name) for side in (left, right)
                )
                equal.append((one, other))
    columns: list[dict[str, str]] = [{} for _ in atoms]
    taken: set[str] = set()
    classes = [sorted((int(k or 0), a) for k, a in c.keys) for c in close_equalities(equal)]
    for number, members in enumerate(sorted(classes)):
        if len(members) == 1:  # x[a] = x[a]: the value is there, and is not NaN
            ((atom, attribute),) = members
            own[atom].append(_equal(attribute, attribute))
            continue
        name = _join_names(members)
        if name in taken:
            name = f"{name}#{number}"
        taken.add(name)
        for atom, attribute in members:
            if name in columns[atom]:
                own[atom].append(_equal(columns[atom][name], attribute))
            else:
                columns[atom][name] = attribute
    return columns, own


def _equal(left: str, right: str) -> pred.Comparison:
    return pred.Comparison("=", pred.Attribute.named(left), pred.Attribute.named(right))


def _join_names(group: list[tuple[int, str]]) -> str:
    """Return the name of a variable of the join: its attributes, joined by `=`."""
    return "=".join(dict.fromkeys(attribute for _, attribute in group))


def _write_atom(atom: _JoinedEvent) -> str:
    variable = atom.names[-1]
    return atom.event.type if variable == atom.event.type else f"{atom.event.type} AS {variable}"


def _judge(condition: pred.Condition, ordered: str = "") -> Verdict:
    text = write_condition(condition)
    if isinstance(condition, pred.Holds):
        return Verdict(text, How.UNARY, "looks at one event")
    if ordered and isinstance(condition, pred.Compare):
        return Verdict(text, KIND_OF.get(condition.op, How.ORDERED), ordered)
    return Verdict(text, How.EQUAL, "joins events of a hierarchical query")
