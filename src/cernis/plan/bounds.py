"""Find the sums and counts of a match that are bounded from above.

`SUM(x[a]) <= 100` gets no better with one more event of x, if no value is negative. So the listing
of candidates leaves a branch as soon as its events add up to more (`engine.dag.enumerate`). Whether
values have one sign, the data show. Only conditions of the outermost FILTERs speak of all events of
a match. They stay conditions on candidates: bounds prune, in floating point and with room to spare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from cernis.automata.correlated.pcea import WeightBound
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.write import write_condition


def find_bounds(formula: cel.Formula) -> tuple[WeightBound, ...]:
    """Return the bounds that hold of the whole match.

    >>> from cernis.languages.ceql import parse
    >>> query = "SELECT * WHERE (A+ AS x ; B) FILTER SUM(x[v]) < 9 AND 2 <= COUNT(*)"
    >>> [(b.variable, b.attribute, b.sign, b.limit) for b in find_bounds(parse(query).formula)]
    [('x', 'v', 1, 9.0)]
    """
    found: list[WeightBound] = []
    if any(isinstance(node, cel.All) for node in cel.walk(formula)):
        return ()  # an event may serve two parts, and counts once
    while isinstance(formula, cel.Filter | cel.PartitionBy | cel.As | cel.Within):
        if isinstance(formula, cel.Filter):
            for condition in pred.conjuncts(formula.condition):
                found += _read_bounds(condition)
        formula = formula.body
    return tuple(found)


def _read_bounds(condition: pred.Condition) -> Iterator[WeightBound]:
    match condition:
        case pred.CompareTerms(op=op, left=pred.Literal(), right=pred.Aggregate() as term):
            mirrored = pred.CompareTerms(pred.MIRRORED[op], term, condition.left)
            text = write_condition(condition)
            yield from (replace(bound, text=text) for bound in _read_bounds(mirrored))
        case pred.CompareTerms(
            op=op,
            left=pred.Aggregate(function=function, argument=argument, distinct=False),
            right=pred.Literal(value=int() | float() | Decimal() as limit),
        ) if not isinstance(limit, bool) and op != "!=":
            text = write_condition(condition)
            is_upper = op in ("<", "<=", "=")
            match argument:
                case None | str() if is_upper:
                    yield WeightBound(argument, None, 1, float(limit), text)
                case pred.Reference(variable=x, attribute=attribute) if function == "SUM":
                    if is_upper:
                        yield WeightBound(x, attribute.name, 1, float(limit), text)
                    if op in (">", ">=", "="):
                        yield WeightBound(x, attribute.name, -1, -float(limit), text)
