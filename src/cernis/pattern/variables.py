"""The variables of a formula: which it has, and how many events each may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from cernis.pattern import formula as cel


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
            case cel.Event(type=cel.ANY_TYPE):
                continue
            case cel.Event(type=name):
                if everything or not covered:
                    names.append(name)
            case cel.Not():
                continue
            case cel.As(body=body, hidden=True):
                stack.append((body, covered))
            case cel.As(body=body, variable=variable):
                names.append(variable)
                stack.append((body, True))
            case cel.Unless(body=body):
                stack.append((body, covered))
            case _:
                stack.extend((child, covered) for child in reversed(cel.children(node)))
    return names


def bound_variables(formula: cel.Formula) -> frozenset[str]:
    """Return the variables that hold at least one event in every valuation of the formula.

    >>> sorted(bound_variables(cel.Sequence((cel.Event("A"), cel.Iterate(cel.Event("B"))))))
    ['A', 'B']
    """
    counts = _count_events(formula).items()
    return frozenset(name for name, (least, _) in counts if least and name != _WHOLE)


def single_variables(formula: cel.Formula) -> frozenset[str]:
    """Return the variables that hold exactly one event in every valuation of the formula.

    >>> single_variables(cel.Sequence((cel.Event("A"), cel.Iterate(cel.Event("B")))))
    frozenset({'A'})
    """
    counts = _count_events(formula).items()
    return frozenset(name for name, bounds in counts if bounds == (1, 1) and name != _WHOLE)


Bounds = tuple[int, int]
"""How many events a variable holds, at least and at most; two stand for any larger number."""

_ABSENT: Bounds = (0, 0)
_WHOLE = ""
"""The name under which the number of all marked events is kept."""


def _count_events(formula: cel.Formula) -> dict[str, Bounds]:
    """Return how many events each variable, and the formula as a whole, can hold."""
    match formula:
        case cel.Event(type=cel.ANY_TYPE):
            return {_WHOLE: (1, 1)}
        case cel.Event(type=name):
            return {name: (1, 1), _WHOLE: (1, 1)}
        case cel.Not():
            return {_WHOLE: _ABSENT}
        case cel.As(body=body, variable=variable):
            counts = _count_events(body)
            whole, own = counts[_WHOLE], counts.get(variable, _ABSENT)
            # all events of the body: those that the variable held before are among them
            counts[variable] = max(whole[0], own[0]), whole[1]
            return counts
        case cel.Iterate(body=body, low=low, high=high):
            return {
                name: (min(2, least * low), min(2, most * (2 if high is None else high)))
                for name, (least, most) in _count_events(body).items()
            }
        case cel.Optional(body=body):
            return {name: (0, most) for name, (_, most) in _count_events(body).items()}
        case cel.Choice(parts=parts):
            each = [_count_events(part) for part in parts]
            held = Counter(name for counts in each for name in counts)
            merged = _merge(each, lambda a, b: (min(a[0], b[0]), max(a[1], b[1])))
            return {n: b if held[n] == len(parts) else (0, b[1]) for n, b in merged.items()}
        case cel.All(parts=parts):  # one event may serve several parts
            return _merge(
                map(_count_events, parts), lambda a, b: (max(a[0], b[0]), min(2, a[1] + b[1]))
            )
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            return _merge(
                map(_count_events, parts), lambda a, b: (min(2, a[0] + b[0]), min(2, a[1] + b[1]))
            )
        case _:
            return _count_events(formula.body)


def _merge(
    parts: Iterable[dict[str, Bounds]], combine: Callable[[Bounds, Bounds], Bounds]
) -> dict[str, Bounds]:
    """Return the counts of all parts; a part without a variable leaves its count as it is."""
    first, *others = parts
    first = dict(first)
    for other in others:
        for name, bounds in other.items():
            first[name] = combine(first.get(name, _ABSENT), bounds)
    return first
