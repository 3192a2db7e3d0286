"""The answers of a conjunctive query by its definition: the oracle's matches, projected.

Each head tuple once, with the row of the first match's end. NULL is a value; a variable
that several atoms have is read off the first, for their values agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cernis.languages.conjunctive import lower
from cernis.languages.conjunctive.query import ConjunctiveQuery
from cernis.pattern.query import Pattern, Unit
from cernis.testing import oracle
from cernis.testing.oracle import OracleMatch
from cernis.testing.predicates import Event, read_attribute


def find_answers(query: ConjunctiveQuery, events: Sequence[Event]) -> dict[tuple[Any, ...], int]:
    """Return each answer with the row at which it first appears; events are in order of time."""
    return project_matches(query, oracle.evaluate(lower(query), events), events)


def project_matches(
    query: ConjunctiveQuery, matches: Sequence[OracleMatch], events: Sequence[Event]
) -> dict[tuple[Any, ...], int]:
    """Return the distinct head tuples of matches, which are in order of their ends."""
    found: dict[tuple[Any, ...], int] = {}
    for match in matches:
        found.setdefault(
            tuple(_read_value(query, name, match, events) for name in query.head), match.end
        )
    return found


def _read_value(
    query: ConjunctiveQuery, name: str, match: OracleMatch, events: Sequence[Event]
) -> Any:
    if name in query.timestamps:
        (row,) = match.vars[str(query.timestamps[name][0])]
        return events[row].get("ts", row)
    index = query.holders[name][0]
    (row,) = match.vars[str(index)]
    return read_attribute(query.columns[index][name], events[row])


def keep_inside(
    pattern: Pattern, matches: Sequence[OracleMatch], events: Sequence[Event]
) -> list[OracleMatch]:
    """Return the matches that start inside the window that ends at the last event.

    Events come in order of time. A window that is counted inside a partition ends at
    the last event of the partition.
    """
    return [match for match in matches if _begins_inside(pattern, match, events)]


def _begins_inside(pattern: Pattern, match: OracleMatch, events: Sequence[Event]) -> bool:
    window = pattern.within
    if window is None:
        return True
    if window.unit is Unit.TIME:
        span = events[-1]["ts"] - events[match.start]["ts"]
        return bool(span * oracle.NANOSECONDS <= window.size)
    own = [row for row in range(len(events)) if _read_key(pattern, events[row]) == match.partition]
    if window.unit is Unit.EVENTS:
        return len(own) - 1 - own.index(match.start) <= window.size
    assert window.attribute is not None
    read = [read_attribute(window.attribute, events[row]) for row in own]
    last = [value for value in read if value is not None and value == value][-1]
    span = last - read_attribute(window.attribute, events[match.start])
    return bool(span <= (float(window.size) if isinstance(span, float) else window.size))


def _read_key(pattern: Pattern, event: Event) -> tuple[Any, ...]:
    return tuple(
        next((event[a] for a in group if event.get(a) is not None), None)
        for group in pattern.partition
    )
