"""Random sequences whose events are compared with any earlier one, and events for them."""

from __future__ import annotations

from random import Random

_OPERATORS = ["=", "=", "<", "<=", ">", ">=", "!="]
_STEPS = ["{}", "{}", "{}", "{}", "({} OR D)", "{}+", "({} ; D)", "({} : D)", "({} -> D)"]
_WINDOWS = ["", " WITHIN 6 EVENTS", " WITHIN 9 EVENTS", " WITHIN 5 MILLISECONDS"]
_STRATEGIES = ["", "", "", "", "", "NEXT ", "LAST ", "MAX ", "LONGEST "]
_PARTITIONS = ["", "", "", " PARTITION BY [c]"]
_SCALED = ["", "", "", " * 2", " + 1"]


def make_far_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query whose comparisons are mostly a tree; `after`: perhaps LONGEST."""
    size = random.choice([3, 3, 3, 4, 4, 5])
    row, single = "", list[int]()
    for i in range(size):
        kind = random.choice(_STEPS) if 0 < i < size - 1 else "{}"
        single += [i] if kind in _STEPS[:5] else []
        separator = random.choices([" ; ", " -> ", " : "], [12, 1, 1])[0] if i else ""
        row += f"{separator}{kind.format(random.choice('ABC'))} AS v{i}"
    conditions = []
    for number, i in enumerate(single[1:], start=1):
        if random.random() < (0.75 if i == size - 1 else 0.35):
            earlier = random.choice(single[:number])
            conditions += _compare(random, f"v{earlier}", f"v{i}")
    if random.random() < 0.15:
        conditions += _compare(random, "v0", f"v{size - 1}")
    if random.random() < 0.2:
        conditions.append(f"v{random.randrange(size)}[p > 0]")
    before = random.choice(["", "", "", "(A OR B)+ ; ", "A+ AS z ; "])
    formula = f"({before}{row})" + (f" FILTER {' AND '.join(conditions)}" if conditions else "")
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def _compare(random: Random, one: str, other: str) -> list[str]:
    """Return conditions between two events: one, two, or a range with computed ends."""
    name, op, scale = random.choice("pk"), random.choice(_OPERATORS), random.choice(_SCALED)
    if random.random() < 0.15:
        return [f"{other}[p] >= {one}[p] * 0.5", f"{other}[p] <= {one}[p] * 1.5"]
    found = [f"{one}[{name}] {op} {other}[{name}]{scale}"]
    if random.random() < 0.2:
        found.append(f"{other}[{random.choice('pk')}] = {one}[k]")
    return found
