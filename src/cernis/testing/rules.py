"""The meaning of a rule set as a short program: the oracle of streams of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cernis.pattern.query import Pattern
from cernis.testing.oracle import STREAM, OracleMatch, evaluate
from cernis.testing.predicates import Event


class _Placed(NamedTuple):
    """An event with its place: that of the event it was derived from, then a rule and a match."""

    path: tuple[int, ...]
    row: int
    event: Event


def evaluate_rules(
    patterns: Mapping[str, Pattern], events: Sequence[Event], stream: str = "S"
) -> dict[str, list[OracleMatch]]:
    """Return the matches of each rule, in rows of the input; events are in the order of time.

    The row of a derived event is that of the event that ends its match.
    """
    known = [_Placed((row,), row, {STREAM: stream, **event}) for row, event in enumerate(events)]
    left = list(patterns)
    found: dict[str, list[OracleMatch]] = {}
    while left:
        waits = {patterns[name].into for name in left}
        name = next(n for n in left if waits.isdisjoint({*patterns[n].streams}))
        left.remove(name)
        pattern = patterns[name]
        read = sorted(each for each in known if each.event[STREAM] in pattern.streams)
        matches = evaluate(pattern, [each.event for each in read])
        found[name] = [_in_rows(match, [each.row for each in read]) for match in matches]
        if pattern.into is not None:
            number = list(patterns).index(name)
            known += [
                _Placed(
                    (*read[match.end].path, number, i),
                    read[match.end].row,
                    {
                        STREAM: pattern.into,
                        "type": pattern.into,
                        "ts": read[match.end].event["ts"],
                        **match.values,
                    },
                )
                for i, match in enumerate(matches)
            ]
    return found


def _in_rows(match: OracleMatch, rows: Sequence[int]) -> OracleMatch:
    held = {x: tuple(rows[at] for at in places) for x, places in match.vars.items()}
    return OracleMatch(rows[match.start], rows[match.end], held, match.partition, match.values)
