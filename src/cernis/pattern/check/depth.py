"""How deeply a query may be nested: the passes after this one are recursive."""

from __future__ import annotations

from collections.abc import Iterable

from cernis.errors import Diagnostic
from cernis.pattern.formula import Event, Filter, Formula, KeyPart, PartitionBy, children
from cernis.pattern.predicate import (
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    Attribute,
    Compare,
    Comparison,
    Condition,
    Holds,
    InRange,
    InSet,
    IsNull,
    Like,
    Literal,
    Negation,
    Negative,
    Or,
    Predicate,
    Reference,
    Value,
)
from cernis.pattern.query import Pattern

MAX_DEPTH = 100
"""How deeply formulas, conditions, predicates and values may be nested, all together."""

_Node = Formula | Condition | Predicate | Value | Reference | KeyPart


def _list_children(node: _Node) -> Iterable[_Node]:
    match node:
        case Event() | Attribute() | Literal():
            return ()
        case Filter(body=body, condition=condition):
            return body, condition
        case PartitionBy(body=body, keys=keys):
            return body, *keys
        case KeyPart(attribute=attribute) | Reference(attribute=attribute):
            return (attribute,)
        case Holds(predicate=predicate):
            return (predicate,)
        case Compare(left=left, right=right):
            return left, right
        case Comparison(left=first, right=second) | Arithmetic(left=first, right=second):
            return first, second
        case InSet(body=value, values=values):
            return value, *values
        case InRange(body=value, low=low, high=high):
            return value, low, high
        case Like(body=value) | IsNull(body=value) | Negative(body=value):
            return (value,)
        case Negation(body=inner):
            return (inner,)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return parts
        case And(parts=tests) | Or(parts=tests):
            return tests
        case _:
            return children(node)


def find_too_deep(pattern: Pattern) -> Diagnostic | None:
    """Return the mistake of a pattern that is nested too deeply, if it is; not recursive."""
    stack: list[tuple[_Node, int]] = [(pattern.formula, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            return Diagnostic(f"the query is nested more than {MAX_DEPTH} deep", node.span)
        stack.extend((child, depth + 1) for child in _list_children(node))
    return None
