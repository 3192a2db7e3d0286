"""Rewrite a condition on the difference of two events as comparisons that an index decides.

- `ABS(a[p] - b[p]) <= 5` is a range of `a[p]`: it lies between two bounds that `b` has. The bounds
  are rounded as the difference is (`cernis.events.evaluation.reach`), so the range decides the
  condition.
- `b[p] - a[p] <= 5` has one bound.
- `ABS(a[p] - b[p]) < 0.01 * a[p]` is a range of `b[p]`, with bounds of `a`. If `a` is the earlier
  event, and the share is a half at most, both bounds rise with `a[p]`: one tree has their order.
- `b[ts] - a[ts] <= 5 MINUTES` compares `b[ts]` with `a[ts] + 5 MINUTES`. If `ts` has the time of
  events, it is a gap: runs leave their index when it has passed.

Rejected: a grid of cells that are compared by equality. It needs three look-ups for each event, and
a constant distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.variables import single_variables
from cernis.pattern.write import name_calculated, write_term, write_value

_LARGEST = 2**52
"""Constants beyond are not exact beside floats."""

_BOUNDS = {"<=": ("@UP_TO", "@FROM"), "<": ("@BELOW", "@ABOVE")}
_WORDS = {
    "@UP_TO": "up to {} + {}",
    "@BELOW": "below {} + {}",
    "@FROM": "from {} - {}",
    "@ABOVE": "above {} - {}",
}


def is_bounded(leaf: pred.Compare) -> bool:
    """Whether a comparison of a number with a bound may be an end of a range."""
    return leaf.origin is not None and leaf.left.attribute.name.endswith(pred.NUMBER)


class _Operand(NamedTuple):
    """An operand of the difference: a value of one event."""

    variable: str
    value: pred.Value
    term: pred.MatchTerm


def compare_distance(condition: pred.CompareTerms, body: cel.Formula) -> pred.Condition | None:
    """Return the comparisons that decide a condition on a difference; None: there are none.

    >>> from cernis.languages.ceql import parse
    >>> node = parse("SELECT * WHERE A AS a ; B AS b FILTER ABS(a[v] - b[v]) <= 5").formula
    >>> [side.left.attribute.name for side in compare_distance(node.condition, node.body).parts]
    ['(v + 0)', '(v + 0)']
    """
    op, left, right = _move_duration(condition)
    if not _is_difference(left):
        op, left, right = pred.MIRRORED[op], right, left
    match left:
        case pred.TermCall("ABS", (pred.Calculation("-", one, other),)):
            is_absolute = True
        case pred.Calculation("-", one, other):
            is_absolute = False
        case _:
            return None
    sides = _read_side(one), _read_side(other)
    former, latter = sides
    if former is None or latter is None or op in ("=", "!=") or (is_absolute and op[0] == ">"):
        return None
    names = {former.variable, latter.variable}
    if len(names) < 2 or not names <= single_variables(body) or _share_events(body, names):
        return None
    if isinstance(right, pred.ConstantDuration):
        return None if is_absolute else _compare_times(condition, op, former, latter, right)
    limit = _read_limit(right)
    if limit is None:
        return None
    owners = {*pred.variables_of(right)}
    order = _list_variables(body)
    last = max(names, key=order.index)
    owner = owners.pop() if owners else last
    if owners or owner not in names:
        return None
    if op[0] == ">":  # x - y > c is y - x < -c
        op, former, latter = pred.MIRRORED[op], latter, former
        limit = _negate(limit)
    center, other_side = (former, latter) if former.variable == owner else (latter, former)
    found = _bound(condition, op, center, other_side, limit, is_absolute, center is former)
    return pred.conjoin(found, condition.span)


def _move_duration(
    condition: pred.CompareTerms,
) -> tuple[pred.Operator, pred.MatchTerm, pred.MatchTerm]:
    """Return `a[ts] + d > b[ts]` as `b[ts] - a[ts] < d`, and any other condition as it is."""
    op, left, right = condition.op, condition.left, condition.right
    if isinstance(right, pred.Calculation) and isinstance(right.right, pred.ConstantDuration):
        op, left, right = pred.MIRRORED[op], right, left
    match left:
        case pred.Calculation("+", body, pred.ConstantDuration() as limit):
            return pred.MIRRORED[op], pred.Calculation("-", right, body), limit
        case pred.Calculation("-", body, pred.ConstantDuration() as limit):
            return op, pred.Calculation("-", body, right), limit
    return condition.op, condition.left, condition.right


def _is_difference(term: pred.MatchTerm) -> bool:
    match term:
        case pred.TermCall("ABS", (body,)):
            return _is_difference(body)
        case pred.Calculation(op="-"):
            return len({*pred.variables_of(term)}) == 2
    return False


def _read_side(term: pred.MatchTerm) -> _Operand | None:
    value, names = pred.to_value(term), {*pred.variables_of(term)}
    return None if value is None or len(names) != 1 else _Operand(names.pop(), value, term)


def _read_limit(term: pred.MatchTerm) -> pred.Value | None:
    value = pred.to_value(term)
    match value:
        case pred.Literal(value=int() | float() as number) if not isinstance(number, bool):
            return value if abs(number) <= _LARGEST else None
        case pred.Negative(body=pred.Literal(value=int() | float() as number)):
            return None if isinstance(number, bool) else pred.Literal(-number)
        case pred.Literal():
            return None
    return value if value is not None and any(pred.attributes_of(value)) else None


def _negate(value: pred.Value) -> pred.Value:
    match value:
        case pred.Literal(value=int() | float() as number):
            return pred.Literal(-number)
        case pred.Negative(body=body):
            return body
    return pred.Negative(value)


def _share_events(body: cel.Formula, names: set[str]) -> bool:
    """Whether one event may have both variables."""
    return any(
        isinstance(node, cel.As)
        and node.variable in names
        and any(name in _list_variables(node.body) for name in names - {node.variable})
        for node in cel.walk(body)
    )


def _list_variables(body: cel.Formula) -> list[str]:
    """Return the variables of a formula, as they are written."""
    nodes = [node for node in cel.walk(body) if isinstance(node, cel.As | cel.Event)]
    return [node.variable if isinstance(node, cel.As) else node.type or "" for node in nodes]


def _compare_times(
    origin: pred.CompareTerms,
    op: pred.Operator,
    former: _Operand,
    latter: _Operand,
    limit: pred.ConstantDuration,
) -> pred.Condition | None:
    """Return `x op y + d` for a duration d."""
    if limit.nanoseconds.denominator != 1:
        return None
    if not all(isinstance(side.term, pred.Reference) for side in (former, latter)):
        return None
    text = f"({write_value(latter.value)} + {write_term(limit)})"
    far = pred.Attribute((text,), term=pred.Calculation("+", latter.term, limit))
    is_clock = pred.is_time(former.term) and pred.is_time(latter.term)
    return pred.Compare(
        op,
        pred.Reference(former.variable, name_calculated(former.value)),
        pred.Reference(latter.variable, far),
        origin=origin,
        reach=limit.nanoseconds if is_clock and op[0] == "<" else None,
        span=origin.span,
    )


def _bound(
    origin: pred.CompareTerms,
    op: pred.Operator,
    center: _Operand,
    other: _Operand,
    limit: pred.Value,
    is_absolute: bool,
    is_first: bool,
) -> tuple[pred.Compare, ...]:
    """Return the comparisons of a value with what lies around another one.

    Without ABS, `center - other` is small if the center `is_first`, and `other - center` if not.
    """
    upper, lower = _BOUNDS[op]
    value = pred.Arithmetic("+", other.value, pred.Literal(0))  # the number that is subtracted
    found = []
    ways: tuple[tuple[str, pred.Operator], ...] = ((lower, ">="), (upper, "<="))
    for function, way in ways:
        if is_absolute or is_first == (function is lower):
            found.append(_compare(origin, other.variable, value, way, center, function, limit))
    return tuple(found)


def _compare(
    origin: pred.CompareTerms,
    variable: str,
    value: pred.Value,
    op: pred.Operator,
    center: _Operand,
    function: str,
    limit: pred.Value,
) -> pred.Compare:
    """Return the comparison of a value with a bound that another event has."""
    arguments: Sequence[pred.MatchTerm] = [
        each
        if isinstance(each, pred.Literal)
        else pred.Reference(center.variable, name_calculated(each))
        for each in (center.value, limit)
    ]
    text = _WORDS[function].format(write_value(center.value), write_value(limit))
    bound = pred.Attribute((f"({text})",), term=pred.TermCall(function, tuple(arguments)))
    return pred.Compare(
        op,
        pred.Reference(variable, name_calculated(value)),
        pred.Reference(center.variable, bound),
        origin=origin,
        span=origin.span,
    )
