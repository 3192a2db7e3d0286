"""Random sequences whose outer events are compared across an event between, and events for them."""

from __future__ import annotations

from random import Random
from typing import Any

_TYPES = ["ABC"] * 5 + ["ABA", "ACB"]
_EQUAL = [
    "c[k] = a[k]",
    "a[k] = c[k]",
    "c[k] = a[k] AND c[p] = a[p]",
    "a[p] = c[k]",
    "c[k] = a[k] AND b[p > 0]",
    "a[k] = c[k] AND c[p > 0]",
]
_BEFORE = ["", "", "A AS z ; ", "D AS z -> ", "C AS z ; "]
_AFTER = ["", "", " ; D AS w", " -> A AS w"]
_SELECTED = [*["*"] * 6, "a, c", "b"]
_PARTITIONS = ["", "", "", " PARTITION BY [c]"]
_WINDOWS = ["", " WITHIN 6 EVENTS", " WITHIN 9 EVENTS", " WITHIN 5 MILLISECONDS"]
_STRATEGIES = ["", "", "", "", "NEXT ", "LAST ", "MAX ", "STRICT ", "LONGEST "]


def make_crossing_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query that compares across an event; `after`: perhaps with LONGEST."""
    first, between, last = list(random.choice(_TYPES))
    before, following = random.choice(_BEFORE), random.choice(_AFTER)
    one, other = random.choice(";>"), random.choice(";>")
    between = random.choice([between] * 3 + [f"({between} OR D)"])
    row = f"{first} AS a {one} {between} AS b {other} {last} AS c".replace(">", "->")
    conditions = [random.choice(_EQUAL)]
    if before and random.random() < 0.4:
        conditions.append("z[p] = a[p]")
    if following and random.random() < 0.4:
        conditions.append("w[p] >= c[p]")
    formula = f"({before}{row}{following}) FILTER {' AND '.join(conditions)}"
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}{random.choice(_SELECTED)} WHERE {formula}{ending}"


def make_crossing_events(random: Random) -> list[dict[str, Any]]:
    """Return events of four types with few values, in order of time."""
    time, events = 0, []
    for _ in range(random.choice([8, 14, 22])):
        time += random.choice([0, 0, 1, 2])
        attributes = {
            "k": random.choice([0, 1, 1, None]),
            "p": random.choice([0, 1, 2, 2.5, None, float("nan")]),
            "c": random.choice([0, 1]),
        }
        events.append({"type": random.choice("AABBCCD"), "ts": time, **attributes})
    return events
