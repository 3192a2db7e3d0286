"""Write a sequence of steps in the language of each contestant.

Bounds: in Cernis and in joins two events lie at most so far apart; FlinkCEP, Flink SQL and Esper
leave out the bound itself, so theirs is one millisecond longer. What a language cannot say is an
empty text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import NamedTuple

SEPARATOR = " ;; "
"""Between the statements for an engine that takes several."""
_FOUND = "count(*), coalesce(sum(f), 0), coalesce(sum(l), 0)"


class ComparedSteps(NamedTuple):
    """A condition on two steps: the later one has an equal attribute, or a higher one."""

    earlier: int
    later: int
    attribute: str
    operator: str
    plus: int = 0


@dataclass(frozen=True, slots=True)
class PeerSteps:
    """A sequence of events of these types within a window of milliseconds."""

    types: tuple[str, ...]
    window: int
    mode: str = "any"
    """`any` and `next`: which events a step may skip; `absent`: the last step must not happen."""
    compared: tuple[ComparedSteps, ...] = ()
    floors: tuple[int, ...] = ()
    """For each step, a number that the price is above."""
    is_keyed: bool = False
    """All events have the same key, which `compared` does not say again."""
    repeated: tuple[int, int, int] | None = None
    """A step, how often it is repeated at least, and at most (0: no bound)."""

    @property
    def names(self) -> str:
        """One letter for each step."""
        return ascii_lowercase[: len(self.types)]

    @property
    def conditions(self) -> tuple[ComparedSteps, ...]:
        """All comparisons, those of the key with the first step among them."""
        keys = range(1, len(self.types)) if self.is_keyed else ()
        return (*(ComparedSteps(0, step, "key", "=") for step in keys), *self.compared)

    def floor(self, step: int) -> int | None:
        """Return the number that the price of a step must be above."""
        return self.floors[step] if self.floors else None


def expand(steps: PeerSteps) -> list[PeerSteps]:
    """Return the sequences without repetition that are the same, for those who know none.

    >>> [each.types for each in expand(PeerSteps(("A", "B"), 9, repeated=(1, 1, 2)))]
    [('A', 'B'), ('A', 'B', 'B')]
    """
    if steps.repeated is None:
        return [steps]
    step, least, most = steps.repeated
    before, kind, after = steps.types[:step], steps.types[step], steps.types[step + 1 :]
    return [
        replace(steps, types=(*before, *[kind] * times, *after), repeated=None)
        for times in range(least, most + 1)
    ]


def write_ceql(steps: PeerSteps, unit: str = "MILLISECONDS") -> str:
    """Return a query of Cernis and, with the unit EVENTS, of CORE.

    >>> rising = ComparedSteps(0, 1, "price", "<", 5)
    >>> write_ceql(PeerSteps(("A", "B"), 9, compared=(rising,)), "EVENTS")
    'SELECT * FROM S WHERE A AS a ; B AS b FILTER a[price] + 5 < b[price] WITHIN 9 EVENTS'
    """
    written = [f"{kind} AS {name}" for kind, name in zip(steps.types, steps.names, strict=True)]
    if steps.repeated is not None:
        step, least, most = steps.repeated
        times = f"{{{least},{most}}}" if most else "+"
        written[step] = written[step].replace(" AS", f"{times} AS")
    key = " PARTITION BY [key]" if steps.is_keyed else ""
    if steps.mode == "absent":
        absent = f"WITHOUT {steps.types[1]} FOR {steps.window} {unit}"
        return f"SELECT * FROM S WHERE {written[0]} {absent}{key}"
    conditions = [
        f"{steps.names[i]}[price > {steps.floor(i)}]" for i in range(len(steps.floors))
    ] + [
        f"{steps.names[c.earlier]}[{c.attribute}]{f' + {c.plus}' if c.plus else ''} {c.operator} "
        f"{steps.names[c.later]}[{c.attribute}]"
        for c in steps.compared
    ]
    filters = f" FILTER {' AND '.join(conditions)}" if conditions else ""
    arrow = " -> " if steps.mode == "next" else " ; "
    return f"SELECT * FROM S WHERE {arrow.join(written)}{filters}{key} WITHIN {steps.window} {unit}"


def write_core(sequences: Sequence[PeerSteps]) -> str:
    """Return the query for CORE, which counts windows in events and knows no comparison."""
    is_known = len(sequences) == 1 and not sequences[0].conditions and not sequences[0].floors
    if not is_known or sequences[0].mode != "any" or (sequences[0].repeated or (0, 0, 0))[2]:
        return ""
    return write_ceql(sequences[0], "EVENTS")


def write_joins(sequences: Iterable[PeerSteps]) -> str:
    """Return self-joins of the table `s`, for DuckDB and Spark SQL; empty if there is none."""
    parts = [_write_join(each) for each in _expand_all(sequences)]
    return f"SELECT {_FOUND} FROM ({' UNION ALL '.join(parts)})" if parts else ""


def _write_join(steps: PeerSteps) -> str:
    first, names = steps.names[0], steps.names
    if steps.mode == "absent":
        return (
            f"SELECT a.row AS f, a.row AS l FROM s a WHERE a.type = '{steps.types[0]}' "
            f"AND a.ts + {steps.window} < (SELECT max(ts) FROM s) "
            f"AND NOT EXISTS (SELECT 1 FROM s b WHERE b.type = '{steps.types[1]}' "
            f"AND b.key = a.key AND b.ts > a.ts AND b.ts <= a.ts + {steps.window})"
        )
    joins = ""
    for i, name in enumerate(names[1:], 1):
        conditions = " AND ".join(_write_conditions(steps, i))
        joins += f" JOIN s {name} ON {conditions} AND {name}.ts > {names[i - 1]}.ts"
        joins += f" AND {name}.ts <= {first}.ts + {steps.window}"
    where = " AND ".join(_write_conditions(steps, 0))
    return f"SELECT {first}.row AS f, {names[-1]}.row AS l FROM s {first}{joins} WHERE {where}"


def _write_conditions(steps: PeerSteps, step: int) -> Iterator[str]:
    name = steps.names[step]
    yield f"{name}.type = '{steps.types[step]}'"
    if (floor := steps.floor(step)) is not None:
        yield f"{name}.price > {floor}"
    for each in steps.conditions:
        if each.later == step:
            yield _write_compared(each, f"{steps.names[each.earlier]}.", f"{name}.")


def _write_compared(each: ComparedSteps, earlier: str, later: str) -> str:
    plus = f" + {each.plus}" if each.plus else ""
    operator = {"<": ">", "=": "="}[each.operator]
    return f"{later}{each.attribute} {operator} {earlier}{each.attribute}{plus}"


def write_asof(steps: PeerSteps) -> str:
    """Return the next events as ASOF joins of DuckDB."""
    joins = "".join(
        f" ASOF JOIN (SELECT * FROM s WHERE type = '{kind}') {name} ON "
        f"{f'a.key = {name}.key AND ' if steps.is_keyed else ''}{before}.ts < {name}.ts"
        for kind, name, before in zip(steps.types[1:], steps.names[1:], steps.names, strict=False)
    )
    last = steps.names[-1]
    return (
        f"SELECT {_FOUND} FROM (SELECT a.row AS f, {last}.row AS l FROM s a{joins} "
        f"WHERE a.type = '{steps.types[0]}' AND {last}.ts <= a.ts + {steps.window})"
    )


def write_windows(steps: PeerSteps) -> str:
    """Return the next events by window functions: from the last step on, rows get what follows."""
    over = f"OVER ({'PARTITION BY key ' if steps.is_keyed else ''}ORDER BY ts DESC "
    over += "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    source, value = "s", "struct(ts, row)"
    for number, kind in enumerate(reversed(steps.types[1:])):
        found = f"max(CASE WHEN type = '{kind}' THEN struct(-ts AS at, {value} AS last) END) {over}"
        source = f"(SELECT *, {found} AS next{number} FROM {source})"
        value = f"next{number}.last"
    return (
        f"SELECT {_FOUND} FROM (SELECT row AS f, {value}.row AS l FROM {source} "
        f"WHERE type = '{steps.types[0]}' AND {value}.ts <= ts + {steps.window})"
    )


def write_epl(sequences: Iterable[PeerSteps]) -> str:
    """Return statements for Esper."""
    return SEPARATOR.join(_write_epl(each) for each in _expand_all(sequences))


def _write_epl(steps: PeerSteps) -> str:
    last = steps.names[0 if steps.mode == "absent" else -1]
    select = f"select a.row as first_row, {last}.row as last_row from pattern [every "
    events = [
        f"{name}=Event({', '.join(_write_filters(steps, i, ''))})"
        for i, name in enumerate(steps.names)
    ]
    if steps.mode == "absent":
        absent = events[1].partition("=")[2]
        return f"{select}{events[0]} -> (timer:interval({steps.window + 1} msec) and not {absent})]"
    every = "every " if steps.mode == "any" else ""
    written = f"{every}{events[-1]}"
    for event in reversed(events[1:-1]):
        written = f"{every}{event} -> ({written})"
    return f"{select}{events[0]} -> ({written}) where timer:within({steps.window + 1} msec)]"


def _write_filters(steps: PeerSteps, step: int, owner: str, equals: str = "=") -> Iterator[str]:
    yield f"type{equals}'{steps.types[step]}'"
    if (floor := steps.floor(step)) is not None:
        yield f"price > {floor}"
    for each in steps.conditions:
        if each.later == step:
            text = _write_compared(each, f"{steps.names[each.earlier]}.", owner)
            yield text.replace(" = ", equals)


def write_siddhi(sequences: Sequence[PeerSteps]) -> str:
    """Return queries for Siddhi."""
    if any(each.mode == "any" for each in sequences):
        return ""
    return SEPARATOR.join(_write_siddhi(each) for each in _expand_all(sequences))


def _write_siddhi(steps: PeerSteps) -> str:
    events = [
        f"S[{' and '.join(_write_filters(steps, i, '', ' == '))}]" for i in range(len(steps.names))
    ]
    named = [f"{name}={event}" for name, event in zip(steps.names, events, strict=True)]
    select = "select a.row as f, {}.row as l insert into Found;"
    if steps.mode == "absent":
        absent = f"not {events[1]} for {steps.window + 1} millisec"
        return f"from every {named[0]} -> {absent} {select.format('a')}"
    within = f"within {steps.window} millisec"
    return f"from every {' -> '.join(named)} {within} {select.format(steps.names[-1])}"


def write_row_pattern(steps: PeerSteps) -> str:
    """Return the next events as Flink's MATCH_RECOGNIZE: between them are other types."""
    pattern, defined = ["a"], [f"a AS a.type = '{steps.types[0]}'"]
    for kind, name in zip(steps.types[1:], steps.names[1:], strict=True):
        pattern += [f"no_{name}*", name]
        defined += [f"no_{name} AS no_{name}.type <> '{kind}'", f"{name} AS {name}.type = '{kind}'"]
    key = "PARTITION BY key " if steps.is_keyed else ""
    seconds = f"{(steps.window + 1) / 1000:.3f}"
    return quote_names(
        f"SELECT f, l FROM s MATCH_RECOGNIZE ({key}ORDER BY at "
        f"MEASURES a.row AS f, {steps.names[-1]}.row AS l AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN ({' '.join(pattern)}) WITHIN INTERVAL '{seconds}' SECOND(5, 3) "
        f"DEFINE {', '.join(defined)}) AS m"
    )


def quote_names(statement: str) -> str:
    """Put the names of columns that are words of Flink's SQL between backquotes.

    >>> quote_names("SELECT a.row, type FROM s ORDER BY at")
    'SELECT a.`row`, `type` FROM s ORDER BY `at`'
    """
    for name in ("row", "type", "key", "at"):
        for before in (" ", ".", "("):
            for after in (" ", ",", ")"):
                statement = statement.replace(f"{before}{name}{after}", f"{before}`{name}`{after}")
        if statement.endswith(f" {name}"):
            statement = f"{statement.removesuffix(name)}`{name}`"
    return statement


def write_plainly(sequences: Iterable[PeerSteps]) -> str:
    """Return the sequences for the driver of FlinkCEP, which has no reader of JSON."""
    return SEPARATOR.join(
        "|".join(
            (
                ",".join(each.types),
                str(each.window),
                each.mode,
                "keyed" if each.is_keyed else "",
                ",".join(" ".join(map(str, one)) for one in each.compared),
                ",".join(map(str, each.floors)),
                " ".join(map(str, each.repeated or ())),
            )
        )
        for each in sequences
    )


def _expand_all(sequences: Iterable[PeerSteps]) -> list[PeerSteps]:
    """Return the sequences without repetition; none if one is without a bound."""
    sequences = list(sequences)
    if any(each.repeated is not None and not each.repeated[2] for each in sequences):
        return []
    return [one for each in sequences for one in expand(each)]
