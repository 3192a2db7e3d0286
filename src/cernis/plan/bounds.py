"""Find the sums, counts and differences of a match that are bounded from above.

`SUM(x[a]) <= 100` gets no better with one more event of x, if no value is negative. So the listing
of candidates leaves a branch as soon as its events add up to more (`engine.dag.enumerate`). Whether
values have one sign, the data show.

Nor does `MAX(x[a]) - MIN(x[a]) < c`, or `MAX(x[a]) < 1.1 * MIN(x[a])`, whatever the signs: the
greatest value rises, the least one falls. If x is one iteration, each branch that is not left leads
to a match, so a match costs as many steps as there are events in its window for each of its own.

Only conditions of the outermost FILTERs speak of all events of a match. They stay conditions on
candidates: bounds prune, in floating point and with room to spare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from math import inf

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
    >>> query = "SELECT * WHERE A+ AS x FILTER MAX(x[v]) - MIN(x[v]) < 3"
    >>> [(b.attribute, b.sign, b.limit, b.terms) for b in find_bounds(parse(query).formula)]
    [('v', 1.0, inf, 0), ('v', -1.0, 3.0, 2)]
    """
    if any(isinstance(node, cel.All) for node in cel.walk(formula)):
        return ()  # an event may serve two parts, and counts once
    _, conditions = cel.take_off(formula, cel.PartitionBy, cel.As, cel.Within)
    return tuple(bound for condition in conditions for bound in _read_bounds(condition))


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
        case pred.CompareTerms(op="<" | "<=" | "=", left=left, right=right):
            yield from _read_difference(left, right, write_condition(condition))
        case pred.CompareTerms(op=">" | ">=", left=left, right=right):
            yield from _read_difference(right, left, write_condition(condition))


def _read_difference(less: pred.MatchTerm, more: pred.MatchTerm, text: str) -> list[WeightBound]:
    """Return bounds on values of which no event lowers the one side, or raises the other."""
    one, other = _split_extremes(less, 1.0), _split_extremes(more, -1.0)
    if one is None or other is None:
        return []
    limit = sum(each for each in (*one, *other) if isinstance(each, float))
    found = [each for each in (*one, *other) if isinstance(each, WeightBound)]
    if len(found) < 2:
        return []
    last = replace(found[-1], limit=-limit, terms=len(found))
    return [replace(bound, text=text) for bound in (*found[:-1], last)]


def _split_extremes(term: pred.MatchTerm, factor: float) -> list[WeightBound | float] | None:
    """Return the values that a term adds up, times a factor: constants, and those of events.

    None: one more event may lower it.
    """
    match term:
        case pred.Literal(value=int() | float() | Decimal() as value) if not isinstance(
            value, bool
        ):
            return [factor * float(value)]
        case pred.Reference() as value:
            return [_make_extreme(value, factor)]
        case pred.Aggregate(function="MAX", argument=pred.Reference() as value) if factor > 0:
            return [_make_extreme(value, factor)]
        case pred.Aggregate(function="MIN", argument=pred.Reference() as value) if factor < 0:
            return [_make_extreme(value, factor)]
        case pred.Opposite(body=body):
            return _split_extremes(body, -factor)
        case pred.Calculation(op="+" | "-" as op, left=left, right=right):
            one = _split_extremes(left, factor)
            other = _split_extremes(right, factor if op == "+" else -factor)
            return None if one is None or other is None else one + other
        case (
            pred.Calculation(op="*", left=pred.Literal() as scale, right=body)
            | pred.Calculation(op="*", left=body, right=pred.Literal() as scale)
        ):
            known = _split_extremes(scale, factor)
            by = known[0] if known else None
            return _split_extremes(body, by) if isinstance(by, float) else None
    return None


def _make_extreme(value: pred.Reference, factor: float) -> WeightBound:
    name = value.attribute.name
    return WeightBound(value.variable, name, factor, inf, is_extreme=True, terms=0)
