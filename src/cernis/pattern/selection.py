"""Which variables a query keeps."""

from __future__ import annotations

from cernis.pattern import formula as cel
from cernis.pattern.predicate import Reference
from cernis.pattern.query import Aggregate, Pattern, Variable


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
            case cel.Event(type=name):
                if everything or not covered:
                    names.append(name)
            case cel.Not():
                continue
            case cel.As(body=body, variable=variable):
                names.append(variable)
                stack.append((body, True))
            case cel.Unless(body=body):
                stack.append((body, covered))
            case _:
                stack.extend((child, covered) for child in reversed(cel.children(node)))
    return names


def counts_only(pattern: Pattern) -> bool:
    """Whether the query is a lone `SELECT COUNT(*)`."""
    return pattern.select.items == (Aggregate("COUNT"),)


def selected_variables(pattern: Pattern) -> tuple[str, ...]:
    """Return the variables of a match in the order of the query, those of aggregates included."""
    if pattern.select.everything or counts_only(pattern):
        return starred_variables(pattern.formula)
    names: list[str] = []
    for item in pattern.select.items:
        match item:
            case Variable(name=name) | Aggregate(argument=str(name)):
                names.append(name)
            case Aggregate(argument=Reference(variable=name)):
                names.append(name)
    return tuple(dict.fromkeys(names))
