"""Runs under LONGEST: every event that fits belongs to them.

Of the matches of `E+[d]` with one interval, the one with every E of the interval contains all
others: each E more makes gaps smaller. So `E+[d]` is read as `E->+[d]`. That has one match for each
interval, where `E+[d]` has one for each set of events. It holds where the whole formula is such an
iteration of single events without a bound, and conditions look at one event at a time. A guard
whose conditions mention the match may remove that one and leave others, so there it does not hold.
"""

from __future__ import annotations

from dataclasses import replace

from cernis.pattern import formula as cel
from cernis.pattern.check.scopes import is_single_event
from cernis.pattern.guard import split_guard
from cernis.pattern.predicate import Condition, Holds, conjuncts
from cernis.pattern.query import Pattern, Strategy


def take_whole_runs(pattern: Pattern) -> Pattern:
    """Return the pattern with the rounds of a longest run taken one after the other.

    >>> from cernis.languages.ceql import parse
    >>> print(take_whole_runs(parse("SELECT LONGEST s WHERE (PAGE+[30 MINUTES]) AS s")))
    SELECT LONGEST s WHERE PAGE->+[30 MINUTES] AS s
    """
    is_linked = any(split_guard(one.formula).foreign for one in pattern.without)
    if pattern.strategy is not Strategy.LONGEST or is_linked:
        return pattern
    return replace(pattern, formula=_take_next(pattern.formula))


def is_whole_run(formula: cel.Formula) -> bool:
    """Whether an interval has one set of events: every event inside that fits.

    >>> from cernis.languages.ceql import parse
    >>> run, pair = "SELECT * WHERE PAGE->+[30 MINUTES] AS s", "SELECT * WHERE (PAGE ; PAGE)"
    >>> is_whole_run(parse(run).formula), is_whole_run(parse(pair).formula)
    (True, False)
    """
    match formula:
        case cel.As(body=body):
            return is_whole_run(body)
        case cel.Filter(body=body, condition=condition):
            return _looks_at_one_event(condition) and is_whole_run(body)
        case cel.Iterate(body=body, separator=separator):
            return separator.next and is_single_event(body)
    return False


def _looks_at_one_event(condition: Condition) -> bool:
    return all(isinstance(part, Holds) for part in conjuncts(condition))


def _take_next(node: cel.Formula) -> cel.Formula:
    match node:
        case cel.As(body=body):
            return replace(node, body=_take_next(body))
        case cel.Filter(body=body, condition=condition):
            if _looks_at_one_event(condition):
                return replace(node, body=_take_next(body))
        case cel.Iterate(body=body, high=None, contiguous=False, separator=separator):
            has_marks = not any(isinstance(inner, cel.Not) for inner in cel.walk(body))
            gap = separator.gap
            if gap is not None and not gap.least and has_marks and is_single_event(body):
                return replace(node, separator=replace(separator, next=True))
    return node
