"""The meaning of a rule set as a short program: the oracle of streams of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cernis.pattern.query import Pattern, Unit
from cernis.testing.oracle import (
    NANOSECONDS,
    STREAM,
    OracleMatch,
    evaluate,
    evaluate_groups,
    find_following,
)
from cernis.testing.predicates import Event

_LATE = 1 << 62
"""Stands in paths in place of a rule: events at times of their own come after others."""


class _RankedEvent(NamedTuple):
    """An event with its path: the path of its origin, then a rule and a match for each step."""

    path: tuple[int, ...]
    row: int
    event: Event


def evaluate_rules(
    patterns: Mapping[str, Pattern],
    events: Sequence[Event],
    stream: str = "S",
    *,
    complete: bool = False,
) -> dict[str, list[OracleMatch]]:
    """Return the matches of each rule, in rows of the input; events are in the order of time.

    A derived event has the row of the event that ends its match, or of the last event before the
    end of its group. A rule with GROUP BY has no matches.
    """
    known = [
        _RankedEvent((row,), row, {STREAM: stream, **event}) for row, event in enumerate(events)
    ]
    left = list(patterns)
    found: dict[str, list[OracleMatch]] = {}
    while left:
        waits = {patterns[name].into for name in left}
        name = next(n for n in left if waits.isdisjoint({*patterns[n].streams}))
        left.remove(name)
        pattern = patterns[name]
        read = sorted(each for each in known if each.event[STREAM] in pattern.streams)
        own = [each.event for each in read]
        number = list(patterns).index(name)
        if pattern.grouping is not None:
            found[name] = []
            known += _derive_groups(pattern, own, number, known[: len(events)], complete)
            continue
        until = known[len(events) - 1].event["ts"] if pattern.into and events else None
        matches = evaluate(pattern, own, until=until, complete=complete)
        found[name] = [_in_rows(match, [each.row for each in read]) for match in matches]
        if pattern.into is not None:
            known += _derive_matches(pattern, matches, read, number, known[: len(events)])
    return found


def _derive_matches(
    pattern: Pattern,
    matches: Sequence[OracleMatch],
    read: Sequence[_RankedEvent],
    number: int,
    events: Sequence[_RankedEvent],
) -> Iterator[_RankedEvent]:
    """Yield the events that matches become: after their ends, or at their deadlines."""
    absence = pattern.absent_after
    for i, match in enumerate(matches):
        end = read[match.end]
        path, ts = (*end.path, number, i), end.event["ts"]
        if absence is not None and absence.within.unit is Unit.EVENTS:
            following = find_following(pattern, [each.event for each in read], match.end)
            size = int(absence.within.size)
            at = read[following[size - 1] if size <= len(following) else -1]
            path, ts = (*at.path, number, i), at.event["ts"]
        elif absence is not None:
            ts += int(absence.within.size / NANOSECONDS)
            passed = sum(each.event["ts"] <= ts for each in events)
            path = (passed - 1, _LATE, ts, number, i)
        event = {STREAM: pattern.into, "type": pattern.into, "ts": ts, **match.values}
        yield _RankedEvent(path, end.row, event)


def _derive_groups(
    pattern: Pattern,
    own: Sequence[Event],
    number: int,
    events: Sequence[_RankedEvent],
    complete: bool,
) -> Iterator[_RankedEvent]:
    """Yield the events that groups of EVERY become, at the ends of their intervals."""
    groups = evaluate_groups(pattern, own, complete=complete)
    for i, group in enumerate(sorted(groups, key=lambda group: group.when)):
        ts = int(group.when[1])
        passed = sum(each.event["ts"] < ts for each in events)
        path = (passed - 1, _LATE, ts, number, i)
        event = {STREAM: pattern.into, "type": pattern.into, "ts": ts}
        yield _RankedEvent(
            path, events[passed - 1].row, event | {**group.partition, **group.values}
        )


def _in_rows(match: OracleMatch, rows: Sequence[int]) -> OracleMatch:
    held = {x: tuple(rows[at] for at in indices) for x, indices in match.vars.items()}
    return OracleMatch(rows[match.start], rows[match.end], held, match.partition, match.values)
