"""From a conjunctive query to the `Pattern` that has its matches.

Each atom is an event named by its index, and all of them are joined by ALL: any order,
one event for several atoms if need be. Shared variables are equalities between events;
constants, a variable twice in one atom and comparisons inside one atom are tests of a single
event. The match keeps every atom: a head that drops variables is a projection of the matches.

Where the timestamps put all atoms in one strict order, the pattern is a sequence. The
comparisons of neighbours stay, for events may have the same time; the others follow from
them. In such an order `tn - t1 < 5 SECONDS` is the window, and so is `tn - t1 < 5`, which
counts the unit of the time column. Any other difference is a comparison with a shift, and
so is one in another unit than the window's.

Linear in the query, but for a variable in n atoms, which is n-1 equalities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from math import ceil
from typing import cast

from cernis.languages.conjunctive import query as q
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.predicate import MIRRORED, TIME, TIME_NS, Literal, Operator
from cernis.pattern.query import Pattern, Select, Unit, Window
from cernis.pattern.query import Variable as Selected
from cernis.pattern.write import call_terms


def lower(query: q.ConjunctiveQuery) -> Pattern:
    """Return the pattern whose matches give each atom, by its index, its event."""
    order = find_time_order(query)
    window, spent = _choose_window(query, order)
    spent |= _find_implied(query, order)
    tests_of_atoms, rest = q.find_single_event_tests(query)
    conditions: list[pred.Condition] = [
        pred.Holds(str(index), test, span=test.span)
        for index, tests in enumerate(tests_of_atoms)
        for test in tests
    ]
    conditions += _make_equalities(query.atoms)
    conditions += [_make_condition(query, node) for node in rest if node not in spent]
    indices = range(len(query.atoms)) if order is None else order
    parts = tuple(_make_event(index, query.atoms[index]) for index in indices)
    formula = cel.All(parts) if order is None else cel.Sequence(parts)
    return Pattern(
        formula=cel.put_filter(formula if len(parts) > 1 else parts[0], conditions),
        select=Select(False, tuple(Selected(str(index)) for index in range(len(query.atoms)))),
        within=window,
        declared=query.declared,
        source=query.source,
    )


def _make_event(index: int, atom: q.Atom) -> cel.Formula:
    event = cel.Event(atom.relation, atom.stream, span=atom.span)
    return cel.As(event, str(index), span=atom.span)


# ------------------------------------------------------------- several events


def _make_equalities(atoms: Sequence[q.Atom]) -> Iterator[pred.Condition]:
    """Yield the equalities of each occurrence of a variable with the one before it."""
    last: dict[str, pred.Reference] = {}
    for index, atom in enumerate(atoms):
        time = {} if atom.time is None else {f"@{atom.time}": TIME}
        for name, attribute in (atom.columns | time).items():
            here = pred.Reference(str(index), attribute, span=atom.span)
            if name in last:
                yield pred.Compare("=", last[name], here, span=atom.span)
            last[name] = here


def _make_condition(query: q.ConjunctiveQuery, node: q.ConjunctiveComparison) -> pred.Condition:
    """Return a comparison that no single event decides as a condition on two of them."""
    match node:
        case (
            q.ConjunctiveComparison(left=q.Computed()) | q.ConjunctiveComparison(right=q.Computed())
        ):
            return _make_computed(query, node)
        case q.ConjunctiveComparison(op=op, left=q.Difference() as difference, right=limit):
            return _make_bound(query, node, op, difference, limit)
        case q.ConjunctiveComparison(op=op, left=limit, right=q.Difference() as difference):
            return _make_bound(query, node, MIRRORED[op], difference, limit)
        case q.ConjunctiveComparison(
            op=op, left=q.ConjunctiveVariable() as one, right=q.ConjunctiveVariable() as other
        ):
            left, right = _make_reference(query, one), _make_reference(query, other)
            return pred.Compare(op, left, right, span=node.span)
        case _:
            raise ValueError(f"{node} compares nothing of the body")


def _make_computed(query: q.ConjunctiveQuery, node: q.ConjunctiveComparison) -> pred.Condition:
    """Return a comparison with functions, of one event if an atom has all of its variables."""
    sides = (node.left, node.right)
    names = [
        variable.name
        for side in sides
        for variable in (side.variables if isinstance(side, q.Computed) else (side,))
        if isinstance(variable, q.ConjunctiveVariable)
    ]
    holding = [{*query.holders.get(name, query.timestamps.get(name, ()))} for name in names]
    home = min(set.intersection(*holding), default=None) if holding else None
    left, right = (_make_term(query, side, home) for side in sides)
    return replace(pred.compare_terms(node.op, left, right), span=node.span)


def _make_term(
    query: q.ConjunctiveQuery, side: q.Side | pred.Value, home: int | None
) -> pred.MatchTerm:
    """Return a side of a comparison as a term of the events of atoms."""
    match side:
        case q.Computed(value=value):
            return _make_term(query, value, home)
        case q.ConjunctiveVariable(name=name, span=span) | pred.Attribute(path=(name,), span=span):
            if home is not None and name in query.columns[home]:
                return pred.Reference(str(home), query.columns[home][name], span=span)
            return _make_reference(query, q.ConjunctiveVariable(name, span=span))
        case pred.Arithmetic(op=op, left=one, right=other, span=span):
            terms = _make_term(query, one, home), _make_term(query, other, home)
            return pred.Calculation(op, *terms, span=span)
        case pred.Call(function=function, arguments=arguments, span=span):
            inner = tuple(_make_term(query, each, home) for each in arguments)
            return call_terms(function, inner, span)
        case Literal():
            return side
        case _:
            raise ValueError(f"{side} is no term of a function")


def _make_bound(
    query: q.ConjunctiveQuery,
    node: q.ConjunctiveComparison,
    op: Operator,
    difference: q.Difference,
    limit: q.Side,
) -> pred.Condition:
    """Return `t2 - t1 op limit` as `t2 op t1 + limit`."""
    clock = TIME_NS if isinstance(limit, q.Duration) else TIME
    left, right = (
        pred.Reference(str(query.timestamps[side.name][0]), clock, span=side.span)
        for side in (difference.left, difference.right)
    )
    return pred.Compare(op, left, right, shift=_read_number(limit), span=node.span)


def _read_number(limit: q.Side) -> int | float:
    if isinstance(limit, q.Duration):
        whole = limit.nanoseconds
        return int(whole) if whole.denominator == 1 else float(whole)
    return pred.to_machine(cast(pred.Number, cast(Literal, limit).value))


def _make_reference(query: q.ConjunctiveQuery, variable: q.ConjunctiveVariable) -> pred.Reference:
    if variable.name in query.timestamps:
        return pred.Reference(str(query.timestamps[variable.name][0]), TIME, span=variable.span)
    index = query.holders[variable.name][0]
    return pred.Reference(str(index), query.columns[index][variable.name], span=variable.span)


# ----------------------------------------------------------------------- time


def find_time_order(query: q.ConjunctiveQuery) -> tuple[int, ...] | None:
    """Return the atoms in the order that their timestamps force, if they force one."""
    times = [atom.time for atom in query.atoms]
    if None in times or len(set(times)) < len(times) or len(times) < 2:
        return None
    index_of = {cast(str, name): index for index, name in enumerate(times)}
    before: dict[int, set[int]] = {index: set() for index in index_of.values()}
    for node in query.comparisons:
        if isinstance(node.left, q.ConjunctiveVariable) and isinstance(
            node.right, q.ConjunctiveVariable
        ):
            pair = index_of.get(node.left.name), index_of.get(node.right.name)
            if None not in pair and node.op in ("<", ">"):
                early, late = cast("tuple[int, int]", pair if node.op == "<" else pair[::-1])
                before[late].add(early)
    return _find_only_order(before)


def _find_only_order(before: dict[int, set[int]]) -> tuple[int, ...] | None:
    """Return the order in which each node follows those before it, if there is exactly one.

    >>> _find_only_order({0: set(), 1: {0}, 2: {1}}), _find_only_order({0: set(), 1: set(), 2: {0}})
    ((0, 1, 2), None)
    """
    sorter = TopologicalSorter(before)
    order: list[int] = []
    try:
        sorter.prepare()
    except CycleError:
        return None
    while ready := sorter.get_ready():
        if len(ready) > 1:
            return None
        order += ready
        sorter.done(*ready)
    return tuple(order)


def _find_implied(
    query: q.ConjunctiveQuery, order: tuple[int, ...] | None
) -> frozenset[q.ConjunctiveComparison]:
    """Return the comparisons of timestamps that follow from those of neighbours in the order."""
    if order is None:
        return frozenset()
    rank_of = {query.atoms[index].time: rank for rank, index in enumerate(order)}
    found = []
    for node in query.comparisons:
        match node:
            case q.ConjunctiveComparison(
                op=op, left=q.ConjunctiveVariable(name=one), right=q.ConjunctiveVariable(name=other)
            ) if one in rank_of and other in rank_of and op != "=":
                ahead = rank_of[other] - rank_of[one]
                later = {"!=": abs(ahead), "<": ahead, "<=": ahead}.get(op, -ahead)
                if later > 1 or (later == 1 and op not in ("<", ">")):
                    found.append(node)
    return frozenset(found)


def _choose_window(
    query: q.ConjunctiveQuery, order: tuple[int, ...] | None
) -> tuple[Window | None, frozenset[q.ConjunctiveComparison]]:
    """Return the window, and the comparisons that it replaces."""
    if order is None or (query.within is not None and query.within.unit is not Unit.TIME):
        return query.within, frozenset()
    ends = query.atoms[order[-1]].time, query.atoms[order[0]].time
    spans = {node: size for node in query.comparisons if (size := _window_of(node, ends))}
    lasting = {node: size for node, size in spans.items() if size.unit is Unit.TIME}
    if query.within is not None or lasting:
        windows = [*lasting.values(), *([query.within] if query.within is not None else [])]
        return min(windows, key=_reach), frozenset(lasting)
    return min(spans.values(), key=_reach, default=None), frozenset(spans)


def _reach(window: Window) -> tuple[Fraction, bool]:
    return window.size, not window.strict


def _window_of(node: q.ConjunctiveComparison, ends: tuple[str | None, str | None]) -> Window | None:
    """Return the window that `last - first < limit` is; None for any other comparison."""
    match node:
        case q.ConjunctiveComparison(op=op, left=q.Difference() as difference, right=limit):
            pass
        case q.ConjunctiveComparison(op=op, left=limit, right=q.Difference() as difference):
            op = MIRRORED[op]
        case _:
            return None
    if (difference.left.name, difference.right.name) != ends or op not in ("<", "<="):
        return None
    if isinstance(limit, q.Duration):
        size = limit.nanoseconds if op == "<=" else Fraction(ceil(limit.nanoseconds) - 1)
        return Window(Unit.TIME, size, span=node.span) if size >= 0 else None
    size, strict = Fraction(repr(_read_number(limit))), op == "<"
    if size < 0 or (strict and size == 0):
        return None
    return Window(Unit.ATTRIBUTE, size, TIME, strict=strict, span=node.span)
