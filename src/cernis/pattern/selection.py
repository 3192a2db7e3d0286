"""Which variables a query keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from cernis.errors import Span
from cernis.pattern import formula as cel
from cernis.pattern.predicate import (
    Aggregate,
    Attribute,
    CompareTerms,
    Denied,
    IntervalTime,
    MatchTerm,
    Reference,
    leaves,
    variables_of,
    walk_term,
)
from cernis.pattern.query import Pattern, SelectedTerm, Variable


def marked_variables(formula: cel.Formula) -> tuple[str, ...]:
    """Return every variable that a match can give events to; guards and NOT have none."""
    return tuple(dict.fromkeys(_names(formula, everything=True)))


def starred_variables(formula: cel.Formula) -> tuple[str, ...]:
    """Return the variables of `*`: every AS variable, and every type outside of any AS."""
    return tuple(dict.fromkeys(_names(formula, everything=False)))


def _names(formula: cel.Formula, *, everything: bool) -> list[str]:
    names: list[str] = []
    stack: list[tuple[cel.Formula, bool]] = [(formula, False)]
    while stack:
        node, covered = stack.pop()
        match node:
            case cel.Event(type=cel.ANY_TYPE):
                continue
            case cel.Event(type=name):
                if everything or not covered:
                    names.append(name)
            case cel.Not():
                continue
            case cel.As(body=body, hidden=True):
                stack.append((body, covered))
            case cel.As(body=body, variable=variable):
                names.append(variable)
                stack.append((body, True))
            case cel.Unless(body=body):
                stack.append((body, covered))
            case _:
                stack.extend((child, covered) for child in reversed(cel.children(node)))
    return names


def bound_variables(formula: cel.Formula) -> frozenset[str]:
    """Return the variables that hold at least one event in every valuation of the formula.

    >>> sorted(bound_variables(cel.Sequence((cel.Event("A"), cel.Iterate(cel.Event("B"))))))
    ['A', 'B']
    """
    counts = _count_events(formula).items()
    return frozenset(name for name, (least, _) in counts if least and name != _WHOLE)


def single_variables(formula: cel.Formula) -> frozenset[str]:
    """Return the variables that hold exactly one event in every valuation of the formula.

    >>> single_variables(cel.Sequence((cel.Event("A"), cel.Iterate(cel.Event("B")))))
    frozenset({'A'})
    """
    counts = _count_events(formula).items()
    return frozenset(name for name, bounds in counts if bounds == (1, 1) and name != _WHOLE)


Bounds = tuple[int, int]
"""How many events a variable holds, at least and at most; two stand for any larger number."""

_ABSENT: Bounds = (0, 0)
_WHOLE = ""
"""The name under which the number of all marked events is kept."""


def _count_events(formula: cel.Formula) -> dict[str, Bounds]:
    """Return how many events each variable, and the formula as a whole, can hold."""
    match formula:
        case cel.Event(type=cel.ANY_TYPE):
            return {_WHOLE: (1, 1)}
        case cel.Event(type=name):
            return {name: (1, 1), _WHOLE: (1, 1)}
        case cel.Not():
            return {_WHOLE: _ABSENT}
        case cel.As(body=body, variable=variable):
            counts = _count_events(body)
            whole, own = counts[_WHOLE], counts.get(variable, _ABSENT)
            # all events of the body: those that the variable held before are among them
            counts[variable] = max(whole[0], own[0]), whole[1]
            return counts
        case cel.Iterate(body=body, low=low, high=high):
            return {
                name: (min(2, least * low), min(2, most * (2 if high is None else high)))
                for name, (least, most) in _count_events(body).items()
            }
        case cel.Optional(body=body):
            return {name: (0, most) for name, (_, most) in _count_events(body).items()}
        case cel.Choice(parts=parts):
            each = [_count_events(part) for part in parts]
            held = Counter(name for counts in each for name in counts)
            merged = _merge(each, lambda a, b: (min(a[0], b[0]), max(a[1], b[1])))
            return {n: b if held[n] == len(parts) else (0, b[1]) for n, b in merged.items()}
        case cel.All(parts=parts):  # one event may serve several parts
            return _merge(
                map(_count_events, parts), lambda a, b: (max(a[0], b[0]), min(2, a[1] + b[1]))
            )
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            return _merge(
                map(_count_events, parts), lambda a, b: (min(2, a[0] + b[0]), min(2, a[1] + b[1]))
            )
        case _:
            return _count_events(formula.body)


def _merge(
    parts: Iterable[dict[str, Bounds]], combine: Callable[[Bounds, Bounds], Bounds]
) -> dict[str, Bounds]:
    """Return the counts of all parts; a part without a variable leaves its count as it is."""
    first, *others = parts
    first = dict(first)
    for other in others:
        for name, bounds in other.items():
            first[name] = combine(first.get(name, _ABSENT), bounds)
    return first


def group_terms(pattern: Pattern) -> list[MatchTerm]:
    """Return the terms of SELECT and HAVING of a query with GROUP BY."""
    terms = [item.term for item in pattern.select.items if isinstance(item, SelectedTerm)]
    having = pattern.grouping.having if pattern.grouping else None
    for leaf in leaves(having) if having is not None else ():
        leaf = leaf.body if isinstance(leaf, Denied) else leaf
        if isinstance(leaf, CompareTerms):
            terms += (leaf.left, leaf.right)
    return terms


def list_distinct(pattern: Pattern) -> list[Reference]:
    """Return the attributes whose different values a query with GROUP BY counts."""
    parts = (part for term in group_terms(pattern) for part in walk_term(term))
    counted = (part.argument for part in parts if isinstance(part, Aggregate) and part.distinct)
    return list(dict.fromkeys(one for one in counted if isinstance(one, Reference)))


def added_columns(pattern: Pattern) -> list[str]:
    """Return the columns of groups that are counts or sums: over no match they are 0."""
    items = (item for item in pattern.select.items if isinstance(item, SelectedTerm))
    return [
        item.name
        for item in items
        if isinstance(item.term, Aggregate) and item.term.function in ("COUNT", "SUM")
    ]


def counts_only(pattern: Pattern) -> bool:
    """Whether the query is a lone `SELECT COUNT(*)`."""
    return pattern.grouping is None and pattern.select.items == (SelectedTerm(Aggregate("COUNT")),)


def selected_variables(pattern: Pattern) -> tuple[str, ...]:
    """Return the variables that tell matches apart, in the order of the query.

    Those that occur only inside a term are among them; `COUNT(*)` names all that `*` would.
    """
    names: list[str] = []
    if pattern.select.everything:
        names += starred_variables(pattern.formula)
        return tuple(dict.fromkeys([*names, *_ordering_variables(pattern)]))
    if pattern.grouping is not None:
        names += starred_variables(pattern.formula)
        for term in group_terms(pattern):
            names += variables_of(term)
        return tuple(dict.fromkeys(names))
    for item in pattern.select.items:
        match item:
            case Variable(name=name):
                names.append(name)
            case SelectedTerm(term=term):
                names += variables_of(term)
                if Aggregate("COUNT") in walk_term(term):
                    names += starred_variables(pattern.formula)
    return tuple(dict.fromkeys([*names, *_ordering_variables(pattern)]))


def _ordering_variables(pattern: Pattern) -> tuple[str, ...]:
    """Return the variables that ORDER BY names."""
    if pattern.order is None:
        return ()
    names = tuple(variables_of(pattern.order.term))
    if Aggregate("COUNT") in walk_term(pattern.order.term):
        names += starred_variables(pattern.formula)
    return names


def settle_select(pattern: Pattern) -> Pattern:
    """Tell the variables from the values in SELECT, now that the formula is known.

    `START` is a variable if the formula has one of that name. `x[a]` is a value if x holds one
    event; otherwise it is x, with the attribute a of its events.
    """
    if pattern.grouping is not None:
        return pattern
    names = set(marked_variables(pattern.formula))
    several = names - single_variables(pattern.formula)

    def settle(item: Variable | SelectedTerm) -> Variable | SelectedTerm:
        match item:
            case SelectedTerm(term=IntervalTime(span=Span(start, end)), alias=None):
                name = pattern.source[start:end]
                return Variable(name, span=item.span) if name in names else item
            case SelectedTerm(term=Reference(variable=x, attribute=attribute), alias=None):
                if x in several:
                    return Variable(x, (attribute.name,), span=item.span)
            case Variable(name=x, attributes=(only,)) if x not in several:
                return SelectedTerm(Reference(x, Attribute.named(only)), span=item.span)
        return item

    items = tuple(map(settle, pattern.select.items))
    return replace(pattern, select=replace(pattern.select, items=items))
