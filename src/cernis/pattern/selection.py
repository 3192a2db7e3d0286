"""What SELECT keeps: variables, and the terms of groups."""

from __future__ import annotations

from dataclasses import replace

from cernis.errors import Span
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
from cernis.pattern.variables import marked_variables, single_variables, starred_variables


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
