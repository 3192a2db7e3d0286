"""The term of ORDER BY as a sum of weights, one for each event of a match.

`SUM(x[a])`, `COUNT(x)`, `x[a]` of a single x, constants, and sums and differences of these, also
times a number, give each event a weight by the variables that hold it. The best matches are then
found on the compact set (`engine.unary.best`). For other terms matches are listed and sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern
from cernis.pattern.variables import bound_variables


@dataclass(frozen=True, slots=True)
class EventWeight:
    """An event of the variable weighs `factor` times its attribute, or `factor` alone."""

    variable: str
    attribute: str | None
    factor: int | float


def find_weights(pattern: Pattern) -> tuple[EventWeight, ...] | None:
    """Return the weights whose sum orders the matches; None if the term is no such sum.

    Of a variable that may hold no event, `SUM` may be NULL, which is no number.
    """
    if pattern.order is None:
        return None
    found = split_weights(pattern.order.term, 1)
    bound = bound_variables(pattern.formula)
    if found is None or any(w.attribute and w.variable not in bound for w in found):
        return None
    return tuple(found)


def split_weights(term: pred.MatchTerm, factor: int | float) -> list[EventWeight] | None:
    """Return the weights that a term adds up, times a factor; None: it is no sum of weights."""
    match term:
        case pred.Reference(variable=variable, attribute=attribute):
            return [EventWeight(variable, attribute.name, factor)]
        case pred.Aggregate(function="COUNT", argument=str(variable)):
            return [EventWeight(variable, None, factor)]
        case pred.Aggregate(function="SUM", argument=pred.Reference() as inside):
            return [EventWeight(inside.variable, inside.attribute.name, factor)]
        case pred.Literal(value=value) if pred.is_number(value):
            return []
        case pred.Opposite(body=body):
            return split_weights(body, -factor)
        case pred.Calculation(op="+" | "-" as op, left=left, right=right):
            one, other = (
                split_weights(left, factor),
                split_weights(right, factor if op == "+" else -factor),
            )
            return None if one is None or other is None else one + other
        case pred.Calculation(op="*", left=pred.Literal(value=value), right=body) if pred.is_number(
            value
        ):
            return split_weights(body, factor * pred.to_machine(value))
        case pred.Calculation(op="*", left=body, right=pred.Literal(value=value)) if pred.is_number(
            value
        ):
            return split_weights(body, factor * pred.to_machine(value))
        case _:
            return None
