"""Random sequences whose events are compared with any earlier one, and events for them."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random
from typing import Any

_OPERATORS = ["=", "=", "<", "<=", ">", ">=", "!="]
_STEPS = ["{}", "{}", "{}", "{}", "({} OR D)", "{}+", "({} ; D)", "({} : D)", "({} -> D)", "{}?"]
_ROUNDS = ["{}+", "{}+", "{}{{2}}", "{}{{2,}}"]
_ENDINGS = [*_ROUNDS, "{}?", "{}{{0,}}"]
_WINDOWS = ["", " WITHIN 6 EVENTS", " WITHIN 9 EVENTS", " WITHIN 5 MILLISECONDS"]
_STRATEGIES = ["", "", "", "", "", "NEXT ", "LAST ", "MAX ", "LONGEST "]
_PARTITIONS = ["", "", "", " PARTITION BY [c]"]
_SCALED = ["", "", "", " * 2", " + 1"]
_ODD = [float("nan"), float("inf"), float("inf"), -float("inf")]


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
        return _make_range(random, other, one)
    found = [f"{one}[{name}] {op} {other}[{name}]{scale}"]
    if random.random() < 0.2:
        found.append(f"{other}[{random.choice('pk')}] = {one}[k]")
    return found


def make_star_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query whose later events are mostly compared with one earlier event."""
    size, centre = random.choice([3, 3, 4, 4, 5]), random.choice([0, 0, 0, 1])
    row, rays = f"{random.choice('ABC')} AS v0", list[int]()
    arrows = random.choice([0, 0, 0, 1, 2, size])
    for i in range(1, size):
        is_ray = i > centre and random.random() < 0.75
        rays += [i] if is_ray else []
        iterates = is_ray and i < size - 1 and random.random() < 0.2
        kind = random.choice(_ROUNDS) if iterates else "{}"
        kind = kind if is_ray or i == centre else random.choice(_STEPS)
        separator = random.choices([" ; ", " -> "], [14, 1])[0]
        separator = " -> " if centre < i <= centre + arrows else separator
        row += f"{separator}{kind.format(random.choice('ABC'))} AS v{i}"
    conditions = list[str]()
    for i in rays:
        if f"+ AS v{i}" in row or f"}} AS v{i}" in row:
            conditions.append(f"v{i}[p] {random.choice(_OPERATORS[2:6])} v{centre}[p]")
        else:
            conditions += _compare_ray(random, f"v{centre}", f"v{i}")
    if size - 1 in rays and random.random() < 0.1:
        conditions += _compare(random, "v0", f"v{size - 1}")
    following = random.choice(["", "", "", " ; D AS w", " ; (A OR B)+ AS w"])
    formula = f"({row}{following})" + (f" FILTER {' AND '.join(conditions)}" if conditions else "")
    formula = f"({formula})+" if conditions and random.random() < 0.15 else formula
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def _compare_ray(random: Random, centre: str, ray: str) -> list[str]:
    """Return conditions between a centre and a ray: an order, or a range of either."""
    chance, low, high = random.random(), random.choice(["<", "<="]), random.choice([">", ">="])
    if chance < 0.15:
        return [f"{ray}[p] {high} {centre}[p] * 0.5", f"{ray}[p] {low} {centre}[p] * 1.5"]
    if chance < 0.2:
        return _make_range(random, ray, centre)
    if chance < 0.25:
        share = f"0.5 * {random.choice([centre, centre, ray])}[p]"
        return [f"ABS({ray}[p] - {centre}[p]) {low} {random.choice(['0.5', share])}"]
    if chance < 0.4:
        return _compare(random, centre, ray)
    name, scale = random.choice("ppk"), random.choice(_SCALED)
    return [f"{ray}[{name}] {random.choice([low, high])} {centre}[{name}]{scale}"]


def _make_range(random: Random, later: str, earlier: str) -> list[str]:
    """Return the two ends of a range around one event, mostly the later one."""
    one, other = random.choice([(earlier, later), (earlier, later), (later, earlier)])
    ends = [f"{one}[p] >= {other}[p] * 0.5", f"{one}[p] <= {other}[p] * 1.5"]
    return random.sample(ends, 2)


def make_any_order_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query of events in any order, mostly compared with one of them."""
    types = random.choice(["AB", "ABC", "ABC", "BCA", "CAB", "CBD", "AAB", "ABCD", "DBCA"])
    row = " ALL ".join(f"{type_} AS v{i}" for i, type_ in enumerate(types))
    centre, others = random.randrange(len(types)), [*range(len(types))]
    others.remove(centre)
    conditions = []
    for other in others:
        one = random.choices([centre, others[-1]], [12, 1])[0]
        if random.random() < 0.2:
            conditions.append(f"ABS(v{other}[p] - v{one}[p]) {random.choice(['<', '<='])} 1")
        elif random.random() < 0.2:
            conditions += _make_range(random, f"v{other}", f"v{one}")
        elif random.random() < 0.9:
            op = random.choices([*_OPERATORS[2:6], "="], [2, 2, 2, 2, 3])[0]
            names = random.choice(["pp", "pp", "kk", "pk"])
            scale = random.choice(_SCALED) if op != "=" else ""
            conditions.append(f"v{one}[{names[0]}] {op} v{other}[{names[1]}]{scale}")
    if random.random() < 0.3:
        conditions += [f"v{i}[k] = v{i + 1}[k]" for i in range(len(types) - 1)]
    if random.random() < 0.2 or not conditions:
        conditions.append(f"v{random.randrange(len(types))}[p > 0]")
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    selected = random.choice(["*", "*", "*", "v0, v1"])
    return f"SELECT {strategy}{selected} WHERE ({row}) FILTER {' AND '.join(conditions)}{ending}"


def make_tree_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query each of whose later events is compared with an earlier one.

    Mostly by order; often all events share a key, or all but some.
    """
    size = random.choice([3, 3, 4, 4, 5])
    single = [i in (0, size - 1) or random.random() < 0.8 for i in range(size)]
    kinds = [_STEPS[0] if own else random.choice(_STEPS[4:]) for own in single]
    parts = [f"{kind.format(random.choice('ABC'))} AS v{i}" for i, kind in enumerate(kinds)]
    known, conditions = [0], list[str]()
    for i in range(1, size):
        if single[i] and random.random() < 0.8:
            earlier = random.choice(known)
            conditions += _compare_ray(random, f"v{earlier}", f"v{i}")
        known += [i] if single[i] else []
    if random.random() < 0.35:
        keyed = [i for i in range(size) if random.random() < 0.85]
        conditions += [f"v{one}[k] = v{other}[k]" for one, other in pairwise(keyed)]
    formula = f"({' ; '.join(parts)})" + (f" FILTER {' AND '.join(conditions)}" * bool(conditions))
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def make_nested_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query in which rays of a star are mostly centres themselves.

    An event is compared with one that lies inside no pair yet: no two conditions cross.
    """
    size = random.choice([4, 4, 5, 5, 6])
    between = [random.choice(["{}"] * 6 + _STEPS[4:5] + _STEPS) for _ in range(size - 2)]
    kinds = ["{}", *between, "{}"]
    row = f"{random.choice('AAB')} AS v0"
    for i, kind in enumerate(kinds[1:], start=1):
        near = random.choices([" ; ", " : ", " ;[3 EVENTS] ", " ;[2 MILLISECONDS] "], [27, 1, 1, 1])
        row += f"{near[0]}{kind.format(random.choice('AAB'))} AS v{i}"
    open_, conditions, is_keyed = [0], list[str](), random.random() < 0.2
    for i in range(1, size):
        if kinds[i] == "{}":
            while len(open_) > 1 and (i == size - 1 or random.random() < 0.35):
                open_.pop()
            conditions += _compare_ray(random, f"v{open_[-1]}", f"v{i}")
            conditions += [f"v{open_[-1]}[k] = v{i}[k]"] if is_keyed else []
            open_.append(i)
    formula = f"({row}) FILTER {' AND '.join(conditions)}"
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def make_alternative_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query that has an event it compares in one of several ways."""
    text = random.choice((make_far_query, make_star_query))(random, after=after)
    found = random.choice([*re.finditer(r"(?<!-> )\b[A-C] AS v\d", text)])
    event, name = found.group(), found.group().split(" AS ")[1]
    ways = [
        f"({event} ALL D)",
        f"(({event} ; D) OR {random.choice('ABC')} AS {name})",
        f"({event} OR (D ; {event}))",
        f"({event} OR {random.choice('ABC')} AS {name})",
    ]
    return text[: found.start()] + random.choice(ways) + text[found.end() :]


def make_ends_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query that compares the first and the last event of an iteration."""
    first, last, op = "FIRST(t[p])", "LAST(t[p])", random.choice(_OPERATORS[1:])
    scale = random.choice(_SCALED) if op not in ("=", "!=") else ""
    condition = f"{last} {op} {first}{scale}"
    if random.random() < 0.3:
        condition = f"{first}{scale} {op} {last}"
    if random.random() < 0.3:
        condition += " AND t[p >= 0]"
    before, following = random.choice(["", "", "C AS a ; "]), random.choice(["", "", " ; C AS b"])
    if before and following and random.random() < 0.5:
        condition += " AND a[k] = b[k]"
    iterated = random.choice(["A+", "(A OR B)+", "A :+", "B+"])
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    formula = f"({before}{iterated} AS t{following}) FILTER {condition}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def make_ending_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query whose last compared event iterates, or may be left out."""
    size, is_keyed = random.choice([1, 1, 2, 2, 3]), random.random() < 0.15
    row, conditions, known = f"{random.choice('AAB')} AS v0", list[str](), [0]
    for i in range(1, size + 1):
        kind = random.choice(_STEPS[:5] + _STEPS if i < size else _ENDINGS)
        separator = random.choices([" ; ", " : "], [20, 1])[0]
        row += f"{separator}{kind.format(random.choice('AAB'))} AS v{i}"
        if i == size or (kind in _STEPS[:5] and random.random() < 0.7):
            name, op = random.choice("ppk"), random.choice(_OPERATORS[2:6])
            scale = random.choice(_SCALED) if i < size else ""
            conditions.append(f"v{i}[{name}] {op} v{random.choice([0, *known])}[{name}]{scale}")
            conditions += [f"v0[k] = v{i}[k]"] if is_keyed else []
            known.append(i)
    following = random.choice(["", "", "", " ; D AS w", " ; (A OR B)+ AS w"])
    formula = f"({row}{following}) FILTER {' AND '.join(conditions)}"
    formula = f"({formula})+" if random.random() < 0.1 else formula
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def make_return_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query whose last compared event is the next one that fits, after a `;`.

    Mostly a peak, a drop, and the next return.
    """
    size = random.choice([3, 3, 3, 4, 4, 5])
    row, rays = f"{random.choice('AAB')} AS v0", list[int]()
    for i in range(1, size):
        is_ray = i == size - 1 or random.random() < 0.6
        rays += [i] if is_ray else []
        kind = "{}" if is_ray else random.choice(["{}", "{}", "({} OR D)", *_STEPS])
        separator = " -> " if i == size - 1 else random.choices([" ; ", " -> "], [15, 1])[0]
        row += f"{separator}{kind.format(random.choice('AAB'))} AS v{i}"
    conditions = list[str]()
    for i in rays:
        conditions += _compare_ray(random, "v0", f"v{i}")
    if random.random() < 0.3:
        conditions += [f"v{i}[k] = v{i + 1}[k]" for i in range(size - 1)]
    if random.random() < 0.2:
        conditions.append(f"v{random.randrange(size)}[p > 0]")
    before = random.choice(["", "", "", "C AS y ; ", "A AS y -> ", "(A OR B)+ AS y ; "])
    following = random.choice(["", "", "", " ; D AS w", " ; (A OR B)+ AS w", " -> A AS w"])
    if before and random.random() < 0.3 and "+" not in before:
        conditions.append(f"y[p] {random.choice(_OPERATORS[2:6])} v0[p]")
    formula = f"({before}{row}{following}) FILTER {' AND '.join(conditions)}"
    formula = f"({formula})+" if random.random() < 0.1 else formula
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE {formula}{ending}"


def make_spread_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query that bounds the greatest and the least values of an iteration."""
    low, high = random.choice(["<", "<=", "="]), random.choice([">", ">="])
    limit, other = random.choice([0, 1, 1.5, 2, 3]), random.choice([1, 2, 3, 4])
    conditions = random.sample(
        [
            f"MAX(t[p]) - MIN(t[p]) {low} {limit}",
            f"MAX(t[p]) {low} MIN(t[p]) * {limit}",
            f"{limit} + MIN(t[p]) {high} MAX(t[p])",
            f"MAX(t[p]) - a[p] {low} {limit}",
            f"a[p] - {limit} * MIN(t[p]) {low} 1",
            f"MAX(t[p]) {low} {other + limit}",
            f"MIN(t[p]) {high} {other - limit}",
            f"MAX(t[p]) {high} {other}",
            f"SUM(t[p]) {random.choice([low, high])} {other + 3}",
            f"SUM(t[k]) {low} {other}",
            "COUNT(t) > 1",
        ],
        random.choice([1, 2, 2, 3]),
    )
    before = "C AS a ; " if "a[p]" in " ".join(conditions) else random.choice(["", "", "C AS a ; "])
    iterated = random.choice(["A+", "A+", "(A OR B)+", "A :+", "A ->+"])
    row = f"{before}{iterated} AS t{random.choice(['', '', ' ; C AS b'])}"
    strategy = random.choice(_STRATEGIES if after else _STRATEGIES[:-1])
    ending = f"{random.choice(_PARTITIONS)}{random.choice(_WINDOWS)}"
    return f"SELECT {strategy}* WHERE ({row}) FILTER {' AND '.join(conditions)}{ending}"


FAR = (
    make_alternative_query,
    make_spread_query,
    make_ending_query,
    make_ends_query,
    make_far_query,
    make_nested_query,
    make_nested_query,
    make_return_query,
    make_star_query,
    make_tree_query,
    make_any_order_query,
)


def make_far_events(random: Random, text: str) -> list[dict[str, Any]]:
    """Return events of the types of a query, nearly all with values: long sequences match, too."""
    types = [one for one in "ABCD" if any(f"{one}{after}" in text for after in " )+?{")]
    time, events = 0, []
    for _ in range(random.choice([9, 12, 14])):
        time += random.choice([0, 1, 1])
        attributes = {
            "k": random.choice([0, 0, 1, 1, 1, 1, 2, None]),
            "p": random.choice([0, 1, 2, 2.5, 3, 4, 5, 5, None, random.choice(_ODD)]),
            "c": random.choice([0, 1, 1, 1]),
        }
        events.append({"type": random.choice(types), "ts": time, **attributes})
    return events


_GUARDS = [
    "D AS g FILTER g[k] = v0[k]",
    "D AS g",
    "D AS g FILTER g[p] > v0[p]",
    "D AS g ; C AS h FILTER g[k] = v1[k]",
]
_AGGREGATES = "c, COUNT(*) AS n, MAX(v1[p]) AS most, SUM(v0[p]) AS total, COUNT(v1) AS ones"


def make_clause_query(random: Random, *, after: bool = True) -> str:
    """Return the text of a query with another clause around comparisons of far events."""
    makers = (
        make_far_query,
        make_star_query,
        make_tree_query,
        make_nested_query,
        make_return_query,
        make_any_order_query,
    )
    text = random.choice(makers)(random, after=after)
    selected, rest = text.split(" WHERE ", 1)
    strategy = selected.removesuffix("v0, v1").removesuffix("*")
    ends = [i for i in (rest.find(" PARTITION BY"), rest.find(" WITHIN")) if i >= 0]
    formula, ending = rest[: min(ends, default=len(rest))], rest[min(ends, default=len(rest)) :]
    guard, length = random.choice(_GUARDS), random.choice(["2 MILLISECONDS", "3 EVENTS"])
    match random.choice(["group", "group", "without", "before", "unless", "consume", "limit"]):
        case "group":
            window = ending.removeprefix(_PARTITIONS[-1])
            having = random.choice(["", " HAVING COUNT(*) > 1"])
            ending = f"{_PARTITIONS[-1]}{window} GROUP BY [c]{having}"
            return f"{strategy}{_AGGREGATES} WHERE {formula}{ending}"
        case "without" if after:
            formula = f"{formula} WITHOUT ({guard}) FOR {length}"
        case "before":
            formula = f"{formula} WITHOUT ({guard}) BEFORE {length}"
        case "unless":
            formula = f"({formula}) UNLESS ({guard})"
        case "consume":
            ending = f"{ending} CONSUME BY ANY"
        case _:
            ending = f"{ending} LIMIT 1"
    return f"{selected} WHERE {formula}{ending}"
