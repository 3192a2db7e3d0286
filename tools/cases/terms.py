"""Random terms: values in SELECT and conditions on them, for the cases of `grammar`.

Every term is right for its formula: `x[a]` stands only for variables that hold one event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Select, SelectedTerm, Variable
from cernis.pattern.variables import marked_variables, single_variables

Chooser = Callable[[int], int]
Chosen = TypeVar("Chosen")

_OPERATORS: tuple[pred.Operator, ...] = (">=", "<=", "=", "!=", "<", ">")


def make_value_select(choose: Chooser, body: cel.Formula) -> Select:
    """Select a few terms, some with names, beside variables or alone."""
    names = marked_variables(body)
    items: dict[str, Variable | SelectedTerm] = {}
    for number in range(1 + choose(3)):
        alias = f"v{number}" if choose(2) else None
        item = SelectedTerm(make_term(choose, body, 2), alias)
        items.setdefault(item.name, item)
    if names and choose(2):
        name = _pick(choose, names)
        items.setdefault(name, Variable(name))
    return Select(False, tuple(items.values()))


def make_term_condition(choose: Chooser, body: cel.Formula) -> pred.Condition:
    """Compare two terms, or ask for an order of the events of a variable."""
    names = marked_variables(body)
    if names and choose(4) == 0:
        op = _pick(choose, tuple(pred.MONOTONE.values()))
        return pred.Monotone(_pick(choose, names), _attribute(choose), op)
    left, right = make_term(choose, body, 1), make_term(choose, body, choose(2))
    condition = pred.CompareTerms(_pick(choose, _OPERATORS), left, right)
    if isinstance(left, pred.Reference) and isinstance(right, pred.Reference):
        return pred.Compare(condition.op, left, right)  # as the parser reads it
    return condition


def make_term(choose: Chooser, body: cel.Formula, depth: int) -> pred.MatchTerm:
    """Make a term over the variables of a formula."""
    names, single = marked_variables(body), tuple(sorted(single_variables(body)))
    kind = choose(9) if depth else choose(7)
    if kind >= 7:
        left, right = make_term(choose, body, depth - 1), make_term(choose, body, depth - 1)
        if choose(6) == 0:
            return pred.Opposite(left) if not isinstance(left, pred.Literal) else left
        return pred.Calculation(_pick(choose, ("+", "-", "*", "/", "%")), left, right)
    match kind:
        case 0 | 1 if single:
            return pred.Reference(_pick(choose, single), _attribute(choose))
        case 2 | 3 | 4 if names:
            return _make_aggregate(choose, names)
        case 5:
            moment = pred.IntervalTime("START" if choose(2) else "END")
            if choose(2):
                return moment
            span = pred.ConstantDuration(Fraction(_pick(choose, (1, 2, 5)) * 1_000_000))
            return pred.Calculation("-", pred.IntervalTime("END"), span)
        case _:
            return pred.Literal(_pick(choose, (1, 2, 0, 3)))


def _make_aggregate(choose: Chooser, names: Sequence[str]) -> pred.Aggregate:
    functions = ("COUNT", "SUM", "MIN", "MAX", "AVG", "FIRST", "LAST", "DISTINCT")
    function, name = _pick(choose, functions), _pick(choose, names)
    if function == "COUNT" and choose(3):
        return pred.Aggregate("COUNT", name if choose(3) else None)
    reference = pred.Reference(name, _attribute(choose))
    if function == "DISTINCT":
        return pred.Aggregate("COUNT", reference, distinct=True)
    return pred.Aggregate(function, reference)


def _attribute(choose: Chooser) -> pred.Attribute:
    return pred.Attribute((_pick(choose, "ab"),))


def _pick(choose: Chooser, items: Sequence[Chosen]) -> Chosen:
    return items[choose(len(items))]
