"""How deeply a query may be nested: the passes after this one are recursive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, cast

from cernis.errors import Diagnostic
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Event, Filter, Formula, KeyPart, PartitionBy, children
from cernis.pattern.query import Pattern, SelectedTerm

MAX_DEPTH = 100
"""How deeply formulas, conditions, predicates and values may be nested, all together."""

_Node = Formula | pred.Condition | pred.Predicate | pred.Value | pred.MatchTerm | KeyPart


_OF_LONG_CONDITIONS: dict[type, Callable[[Any], Iterable[_Node]]] = {
    pred.Literal: lambda node: (),
    pred.Comparison: attrgetter("left", "right"),
    pred.Call: attrgetter("arguments"),
    pred.And: attrgetter("parts"),
    pred.Or: attrgetter("parts"),
}
"""The parts of the nodes that rules have by the thousand: a look into a table for each."""


def _list_children(node: _Node) -> Iterable[_Node]:
    match node:
        case pred.Attribute(value=value) if value is not None:
            return (value,)
        case Event() | pred.Attribute() | pred.Monotone():
            return ()
        case pred.Aggregate(argument=pred.Reference() as argument):
            return (argument,)
        case pred.Aggregate() | pred.IntervalTime() | pred.ConstantDuration():
            return ()
        case Filter(body=body, condition=condition):
            return body, condition
        case PartitionBy(body=body, keys=keys):
            return body, *keys
        case KeyPart(attribute=attribute) | pred.Reference(attribute=attribute):
            return (attribute,)
        case pred.Holds(predicate=predicate):
            return (predicate,)
        case pred.Compare(left=left, right=right):
            return left, right
        case pred.CompareTerms(left=one, right=other) | pred.Calculation(left=one, right=other):
            return one, other
        case pred.CompareNeighbours(left=one, right=other):
            return one, other
        case pred.Opposite(body=term):
            return (term,)
        case pred.Arithmetic(left=first, right=second):
            return first, second
        case pred.InSet(body=value, values=values):
            return value, *values
        case pred.InRange(body=value, low=low, high=high):
            return value, low, high
        case pred.Like(body=value) | pred.IsNull(body=value) | pred.Negative(body=value):
            return (value,)
        case pred.TermCall(arguments=terms):
            return terms
        case pred.Case(branches=branches, otherwise=otherwise):
            parts_of = [each for branch in branches for each in branch]
            return parts_of if otherwise is None else [*parts_of, otherwise]
        case pred.Denied(body=denied):
            return (denied,)
        case pred.Negation(body=inner):
            return (inner,)
        case pred.AnyElement(body=value, predicate=test):
            return value, test
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            return parts
        case _:
            return children(cast("Formula", node))


def find_too_deep(pattern: Pattern) -> Diagnostic | None:
    """Return the mistake of a pattern that is nested too deeply, if it is; not recursive."""
    level: list[_Node] = [pattern.formula]
    level += [absence.formula for absence in pattern.without]
    level += [item.term for item in pattern.select.items if isinstance(item, SelectedTerm)]
    if pattern.order is not None:
        level.append(pattern.order.term)
    if pattern.grouping is not None and pattern.grouping.having is not None:
        level.append(pattern.grouping.having)
    table = _OF_LONG_CONDITIONS
    for _ in range(MAX_DEPTH):
        level = [part for node in level for part in table.get(node.__class__, _list_children)(node)]
        if not level:
            return None
    return Diagnostic(f"the query is nested more than {MAX_DEPTH} deep", level[-1].span)
