"""UNLESS that excludes nothing: between the first and the last event there is no room for it.

`ORDER UNLESS PAY` is the habit of thinking that UNLESS looks at what follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cernis.errors import Diagnostic
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Unit
from cernis.pattern.write import write_operand

IDLE = "unless-idle"


def find_idle_guards(pattern: Pattern) -> Iterator[Diagnostic]:
    """Yield a warning for each UNLESS inside of which nothing fits.

    >>> order = cel.Unless(cel.Event("ORDER"), cel.Event("PAY"))
    >>> [found.suggestion for found in find_idle_guards(Pattern(order))]
    ['write WITHOUT PAY FOR a time']
    """
    widths: dict[int, float] = {}
    for node in cel.walk(pattern.formula):
        if isinstance(node, cel.Unless) and (width := _widest(node.body, widths)) <= 2:
            guard = write_operand(node.guard)
            inside = "a single event" if width <= 1 else "two neighbouring events"
            yield Diagnostic(
                f"UNLESS {guard} excludes nothing: nothing lies inside {inside}",
                node.guard.span,
                suggestion=f"write WITHOUT {guard} FOR a time",
                code=IDLE,
            )


def _widest(node: cel.Formula, known: dict[int, float]) -> float:
    """Return the most positions between the first and the last event, both included."""
    if id(node) not in known:
        known[id(node)] = _find_widest(node, known)
    return known[id(node)]


def _find_widest(node: cel.Formula, known: dict[int, float]) -> float:
    match node:
        case cel.Event() | cel.Not():
            return 1
        case cel.Choice(parts=parts):
            return max(_widest(part, known) for part in parts)
        case cel.Contiguous(parts=parts):
            return sum(_widest(part, known) for part in parts)
        case cel.Sequence(parts=(only,)) | cel.All(parts=(only,)):
            return _widest(only, known)
        case cel.Sequence() | cel.All():
            return math.inf
        case cel.Iterate(body=body, high=high, contiguous=contiguous):
            if high == 1:
                return _widest(body, known)
            return _widest(body, known) * high if contiguous and high is not None else math.inf
        case cel.Within(body=body, window=window):
            most = window.size + 1 if window.unit is Unit.EVENTS else math.inf
            return min(_widest(body, known), float(most))
        case _:
            return _widest(node.body, known)
