"""WITHIN inside a formula as gaps, which an index decides.

The neighbours in a part that is within w lie within w of each other. So each separator below `(φ
WITHIN w)` gets the gap w, and partial matches leave with it. Where φ is a pair of single events,
the gap says all that WITHIN does, and takes its place. Otherwise links inside φ ask when their runs
began it (`cernis.automata.correlated.correlate`), or candidates are checked.
"""

from __future__ import annotations

from dataclasses import replace

from cernis.pattern import formula as cel
from cernis.pattern.check.scopes import is_single_event
from cernis.pattern.formula import Gap, Unit, Window
from cernis.pattern.query import Pattern
from cernis.pattern.waits import is_nullable


def lower_inner_windows(pattern: Pattern) -> Pattern:
    """Return the pattern with gaps below each WITHIN inside its formula.

    >>> from cernis.languages.ceql import parse
    >>> print(lower_inner_windows(parse("SELECT * WHERE (A ; B WITHIN 5 MINUTES) ; C")))
    SELECT * WHERE (A ;[5 MINUTES] B) ; C
    """
    return replace(pattern, formula=_lower(pattern.formula))


def _lower(node: cel.Formula) -> cel.Formula:
    """Lower every WITHIN at or below a node."""
    match node:
        case cel.Not():
            return node
        case cel.Within(body=body, window=window):
            body = _lower(body)
            if window.unit is Unit.ATTRIBUTE:
                return replace(node, body=body)
            narrowed = _narrow(body, Gap(window.unit, window.size))
            return narrowed if _is_decided(narrowed, window) else replace(node, body=narrowed)
        case _:
            return cel.map_children(node, _lower)


def _narrow(node: cel.Formula, gap: Gap) -> cel.Formula:
    """Return a formula that lies within a gap, with this gap wherever two parts are neighbours."""
    match node:
        case cel.As() | cel.Filter() | cel.PartitionBy() | cel.Within() | cel.Unless():
            return replace(node, body=_narrow(node.body, gap))
        case cel.Choice(parts=parts):
            return replace(node, parts=tuple(_narrow(part, gap) for part in parts))
        case cel.Sequence(parts=parts) if all(map(_has_ends, parts)):
            separators = [node.separator_before(i) for i in range(1, len(parts))]
            return replace(
                node,
                parts=tuple(_narrow(part, gap) for part in parts),
                separators=tuple(_shorten(separator, gap) for separator in separators),
            )
        case cel.Iterate(body=body) if _has_ends(body) and not node.contiguous:
            separator = _shorten(node.separator, gap)
            return replace(node, body=_narrow(body, gap), separator=separator)
        case _:
            return node


def _has_ends(part: cel.Formula) -> bool:
    """Whether a part begins and ends with events of the match, and is never left out."""
    simple = not any(isinstance(inner, cel.Not | cel.All) for inner in cel.walk(part))
    return simple and not is_nullable(part)


def _shorten(separator: cel.Separator, gap: Gap) -> cel.Separator:
    own = separator.gap
    if own is None:
        return replace(separator, gap=gap)
    if own.unit is not gap.unit or gap.most < own.least:
        return separator
    return replace(separator, gap=replace(own, most=min(own.most, gap.most)))


def _is_decided(node: cel.Formula, window: Window) -> bool:
    """Whether a formula is one event, or two with a gap that is as narrow as the window."""
    match node:
        case cel.As() | cel.Filter() | cel.PartitionBy() | cel.Within() | cel.Unless():
            return _is_decided(node.body, window)
        case cel.Sequence(parts=(first, second)):
            gap = node.separator_before(1).gap
            return is_single_event(first) and is_single_event(second) and _is_inside(gap, window)
        case cel.Iterate(body=body, high=2):
            is_pair = not node.contiguous and is_single_event(body)
            return is_pair and _is_inside(node.separator.gap, window)
        case _:
            return is_single_event(node)


def _is_inside(gap: Gap | None, window: Window) -> bool:
    return gap is not None and gap.unit is window.unit and gap.most <= window.size
