"""Random UNLESS around a formula or a part, whose conditions mention it, and events for it."""

from __future__ import annotations

from random import Random
from typing import Any

_BODIES = [
    "A AS a ; B AS b",
    "A AS a ; A AS m ; B AS b",
    "A AS a ; C AS m ; B AS b",
    "A AS a : B AS b",
    "(A+) AS a ; B AS b",
    "A AS a ; (B+) AS b",
    "A AS a -> B AS b",
    "A AS a ALL B AS b",
    "A AS a ;[2 MILLISECONDS] B AS b",
    "A AS a ; (B OR C) AS b",
    "A AS a ; C? ; B AS b",
    "(A AS a)? ; C ; B AS b",
    "A AS a ; B AS b OR C AS a ; A AS b",
]
_GUARDS = [
    *["C AS c"] * 4,
    "(A OR C) AS c",
    "B AS c",
    "(C+) AS c",
    "C AS d ; A AS c",
    "C AS c : C AS d",
    "C AS d ;[1 MILLISECONDS] C AS c",
    "(C AS c ; A AS d) FILTER c[k] = d[k]",
]
_COMPARED = ["{}[k] = {}[k]"] * 4 + ["{}[p] > {}[p]", "{}[p] <= {}[p]", "{}[k] != {}[k]"]
_PLACES = ["{}"] * 6 + ["({}) ; A", "C ; ({})", "(C ; ({})) UNLESS B", "({})+", "({}) OR C"]
_WINDOWS = ["", " WITHIN 2 MILLISECONDS", " WITHIN 6 MILLISECONDS", " WITHIN 5 EVENTS"]
_STRATEGIES = ["", "", "", "NEXT ", "LAST ", "MAX ", "LONGEST ", "STRICT "]


def make_guarded_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query with guards; `after`: perhaps with WITHOUT … FOR and LONGEST."""

    def compare(one: str, other: str) -> str:
        sides = [one, other]
        random.shuffle(sides)
        return random.choice(_COMPARED).format(*sides)

    def guard() -> str:
        conditions = [compare("c", random.choice("ab")) for _ in range(random.choice([0, 1, 1, 2]))]
        filtered = f" FILTER {' AND '.join(conditions)}" if conditions else ""
        return f"(({random.choice(_GUARDS)}){filtered})"

    formula, equal = (
        f"({random.choice(_BODIES)})",
        random.choice(["a[k] = b[k]", "a[p] < b[p]", ""]),
    )
    inside = random.random() < 0.5
    if equal and inside:
        formula = f"({formula} FILTER {equal})"
    formula = f"{formula} UNLESS {guard()}"
    if random.random() < 0.1:
        formula = f"({formula}) UNLESS {guard()}"
    formula = random.choice(_PLACES).format(formula)
    if equal and not inside:
        formula = f"({formula}) FILTER {equal}"
    strategy = random.choice(_STRATEGIES)
    without = random.choice(["", "", "", "", " WITHOUT A FOR 1 MILLISECONDS"])
    if not after:
        strategy, without = strategy.replace("LONGEST ", ""), ""
    partition = random.choice(["", "", " PARTITION BY [c]", " PARTITION BY [k]"])
    return f"SELECT {strategy}* WHERE {formula}{without}{partition}{random.choice(_WINDOWS)}"


def make_guarded_events(random: Random) -> list[dict[str, Any]]:
    """Return events of three types with few values, in order of time."""
    time, events = 0, []
    for _ in range(random.choice([8, 12, 18])):
        time += random.choice([0, 0, 1, 2])
        attributes = {
            "k": random.choice([0, 1, 1, None]),
            "p": random.choice([0, 1, 2, 2.5, None, float("nan")]),
            "c": random.choice([0, 1]),
        }
        events.append({"type": random.choice("ABC"), "ts": time, **attributes})
    return events
