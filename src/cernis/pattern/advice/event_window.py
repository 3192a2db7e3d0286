"""`WITHIN 10 EVENTS` bounds a distance, so a match spans eleven events: a note, not a warning.

Every window of events is off by one for somebody who counts events, and right for somebody who
counts steps, so `check` and `explain` say it always, and a run only where the formula has as many
events as the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from cernis.pattern import formula as cel
from cernis.pattern.check.scopes import is_single_event
from cernis.pattern.query import Pattern, Unit


def note_event_window(pattern: Pattern) -> Iterator[str]:
    """Yield how many events a match spans, if its window counts them.

    >>> from cernis.languages.ceql import parse
    >>> list(note_event_window(parse("SELECT * WHERE A ; B WITHIN 10 EVENTS")))
    ['WITHIN 10 EVENTS: a match spans at most 11 events; WITHIN 9 EVENTS are at most 10']
    """
    within = pattern.within
    if within is None or within.unit is not Unit.EVENTS or within.size < 1 or within.plain:
        return
    size = floor(within.size)
    yield (
        f"WITHIN {size} EVENTS: a match spans at most {size + 1} events; "
        f"WITHIN {size - 1} EVENTS are at most {size}"
    )


def note_exact_window(pattern: Pattern) -> Iterator[str]:
    """Yield the note if the formula is a sequence of as many events as the window counts."""
    formula = pattern.formula
    while isinstance(formula, cel.Filter | cel.As):
        formula = formula.body
    if not isinstance(formula, cel.Sequence) or pattern.within is None:
        return
    if len(formula.parts) == pattern.within.size > 2 and all(map(is_single_event, formula.parts)):
        yield from note_event_window(pattern)
