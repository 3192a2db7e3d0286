"""MAX over matches that all have as many events: none contains another, so it keeps them all.

Such a query is planned as if it had no strategy. Nothing is compared, aggregates cost a constant
for each event, and conditions between events need no list of matches.
"""

from __future__ import annotations

from dataclasses import replace

from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Strategy


def drop_idle_max(pattern: Pattern) -> Pattern:
    """Return the pattern without MAX where all of its matches have as many events.

    >>> from cernis.languages.ceql import parse
    >>> print(drop_idle_max(parse("SELECT MAX * WHERE A ; (B OR C) ; D{2,2}")))
    SELECT * WHERE A ; (B OR C) ; D{2}
    >>> print(drop_idle_max(parse("SELECT MAX * WHERE A ; B+")))
    SELECT MAX * WHERE A ; B+
    """
    if pattern.strategy is Strategy.MAX and count_marks(pattern.formula) is not None:
        return replace(pattern, strategy=Strategy.ALL)
    return pattern


def count_marks(formula: cel.Formula) -> int | None:
    """Return how many events every match of a formula has; None: not all have as many.

    >>> from cernis.languages.ceql import parse
    >>> count_marks(parse("SELECT * WHERE (A : NOT B : C) AS x").formula)
    2
    """
    match formula:
        case cel.Event():
            return 1
        case cel.Not():
            return 0
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            counts = [count_marks(part) for part in parts]
            return None if None in counts else sum(filter(None, counts))
        case cel.Choice(parts=parts):
            first, *others = {count_marks(part) for part in parts}
            return None if others else first
        case cel.All():  # one event may serve several parts
            return None
        case cel.Iterate(body=body, low=low, high=high):
            count = count_marks(body)
            return count and low * count if low == high else None
        case cel.Optional():
            return None
        case _:
            return count_marks(formula.body)
