"""Which calculated attributes rise, or fall, with an attribute: `0.99 * p` rises with p.

Two that rise with the same attribute have the same order of events, so one search tree has the
order of both. Rounding keeps that: of two floats, the larger one has no smaller product, sum or
difference with a constant.

Cost contract: linear in the value.
"""

from __future__ import annotations

from cernis.pattern import predicate as pred

_STRICT = frozenset({"@BELOW", "@ABOVE"})
_BOUNDS = frozenset({"@UP_TO", "@FROM"}) | _STRICT
LARGEST = 1.7976931348623157e308
"""The largest float that is not infinite."""


def find_direction(
    attribute: pred.Attribute, *, is_finite: bool = False
) -> tuple[str, bool] | None:
    """Return the attribute that a value follows, and whether it rises with it; None: unknown.

    A share of an infinite number is as wide as all numbers, so the ends of such a range rise only
    among finite ones (`is_finite`), or among infinite ones.

    >>> share = pred.Arithmetic("*", pred.Literal(-0.5), pred.Attribute(("p",)))
    >>> find_direction(pred.Attribute(("(-0.5 * p)",), value=share))
    ('p', False)
    """
    term = attribute.term
    if isinstance(term, pred.TermCall):
        match term.arguments:
            case (pred.Reference(attribute=inner), pred.Literal()) if term.function in _BOUNDS:
                return find_direction(inner)
            case (pred.Reference(attribute=inner), pred.Reference(attribute=limit)):
                follows = is_finite or term.function in _STRICT
                is_share = follows and _is_share(limit.own_value, inner.own_value)
                return find_direction(inner) if is_share else None
        return None
    return None if term is not None else _follow(attribute.own_value)


def _follow(value: pred.Value) -> tuple[str, bool] | None:
    match value:
        case pred.Attribute():
            return value.name, True
        case pred.Negative(body=body):
            return _turn(_follow(body))
        case pred.Arithmetic("+" | "-" | "*" | "/" as op, body, pred.Literal(value=number)):
            found = _follow(body)
        case pred.Arithmetic("+" | "-" | "*" as op, pred.Literal(value=number), body):
            found = _turn(_follow(body)) if op == "-" else _follow(body)
        case _:
            return None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if op in ("*", "/") and number <= 0:
        return _turn(found) if number < 0 else None
    return found


def _is_share(limit: pred.Value, value: pred.Value) -> bool:
    """Whether a distance is a share of a value, a half at most: bounds so far from it rise with it.

    The value then rises by twice as much as the distance at least. What is nearer than half of the
    value has an exact difference from it, so that rounding turns no two bounds around.
    """
    match limit:
        case pred.Arithmetic("*", pred.Literal(value=int() | float() as share), body):
            pass
        case pred.Arithmetic("*", body, pred.Literal(value=int() | float() as share)):
            pass
        case _:
            return False
    return body == value and 0 < share <= 0.5


def is_float(attribute: pred.Attribute) -> bool:
    """Whether a calculated attribute is a float whatever numbers it is calculated from."""
    value = attribute.value
    while isinstance(value, pred.Arithmetic | pred.Negative):
        if isinstance(value, pred.Negative):
            value = value.body
            continue
        sides = value.left, value.right
        if any(isinstance(side, pred.Literal) and isinstance(side.value, float) for side in sides):
            return True
        value = value.right if isinstance(value.left, pred.Literal) else value.left
    return False


def _turn(found: tuple[str, bool] | None) -> tuple[str, bool] | None:
    return None if found is None else (found[0], not found[1])
