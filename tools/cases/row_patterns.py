"""Random MATCH_RECOGNIZE statements, with the rows that the oracle says they return.

A case has a pattern over a few variables, conditions, measures, a way to skip and a way to show
rows. Conditions and measures come from lists that have each of them twice: as SQL, and as a
function of the rows of a partition and the variables of a match, written down directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from cernis.languages.sql.row_pattern import (
    RowAlternation,
    RowAnchor,
    RowExclusion,
    RowPattern,
    RowPermutation,
    RowRepetition,
    RowSequence,
    RowsPerMatch,
    RowVariable,
    SkipMode,
    walk_pattern,
)
from cernis.testing.row_patterns import SkipMistake, recognize

VARIABLES = ("A", "B", "C")
SUBSET = ("A", "C")
Row = dict[str, Any]


@dataclass(frozen=True)
class Path:
    """Some rows of a match, as a condition or a measure sees them."""

    rows: Sequence[Row]
    """The partition."""
    start: int
    names: Sequence[str]
    number: int = 0

    def places(self, *variables: str) -> list[int]:
        """Return the rows of some variables, or of all."""
        wanted = variables or VARIABLES
        return [self.start + i for i, name in enumerate(self.names) if name in wanted]

    def at(self, place: int | None, shift: int = 0) -> Any:
        """Return x of a row of the partition; None: there is no such row."""
        if place is None or not 0 <= place + shift < len(self.rows):
            return None
        return self.rows[place + shift]["x"]

    def last(self, *variables: str, back: int = 0) -> int | None:
        places = self.places(*variables)
        return places[-1 - back] if len(places) > back else None

    def first(self, *variables: str, on: int = 0) -> int | None:
        places = self.places(*variables)
        return places[on] if len(places) > on else None

    def values(self, *variables: str) -> list[int]:
        found = (self.at(place) for place in self.places(*variables))
        return [value for value in found if value is not None]


class Known(NamedTuple):
    """SQL, and what it means."""

    sql: str
    value: Callable[[Path], Any]


def _less(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one < other


def _total(values: Sequence[int]) -> int | None:
    return sum(values) if values else None


def list_conditions(v: str, other: str, *, dependent: bool) -> list[Known]:
    """Return conditions on a variable; `dependent`: those that depend on the path."""
    if not dependent:
        return [
            Known("x > 1", lambda p: _less(1, p.at(p.last()))),
            Known(f"{v}.x < PREV({v}.x)", lambda p: _less(p.at(p.last()), p.at(p.last(), -1))),
            Known(
                "x >= NEXT(x, 2) OR x = 0",
                lambda p: _or(
                    _not(_less(p.at(p.last()), p.at(p.last(), 2))), _equal(p.at(p.last()), 0)
                ),
            ),
            Known(
                f"{v}.x IS NULL OR x <= 2", lambda p: p.at(p.last()) is None or p.at(p.last()) <= 2
            ),
            Known(
                "x % 2 = 0",
                lambda p: _equal(None if p.at(p.last()) is None else p.at(p.last()) % 2, 0),
            ),
        ]
    return [
        Known(f"{v}.x > LAST({v}.x, 1)", lambda p: _less(p.at(p.last(v, back=1)), p.at(p.last()))),
        Known(
            f"LAST({v}.x, 1) IS NULL OR x <> LAST({v}.x, 1)",
            lambda p: _or(
                p.at(p.last(v, back=1)) is None,
                _not(_equal(p.at(p.last()), p.at(p.last(v, back=1)))),
            ),
        ),
        Known("x >= FIRST(x)", lambda p: _not(_less(p.at(p.last()), p.at(p.first())))),
        Known(f"COUNT({v}.*) <= 2", lambda p: len(p.places(v)) <= 2),
        Known(
            "SUM(x) < 6 AND x IS NOT NULL",
            lambda p: p.at(p.last()) is not None and (sum(p.values()) < 6),
        ),
        Known(
            f"{v}.x >= {other}.x",
            lambda p: (
                _not(_less(p.at(p.last(v)), p.at(p.last(other))))
                if v != other
                else _not(_less(p.at(p.last()), p.at(p.last())))
            ),
        ),
        Known(
            f"x + FIRST({other}.x, 1) > 2",
            lambda p: (
                None
                if None in (p.at(p.last()), p.at(p.first(other, on=1)))
                else p.at(p.last()) + p.at(p.first(other, on=1)) > 2
            ),
        ),
        Known(
            "PREV(FIRST(x)) IS NULL OR MAX(x) - MIN(x) < 3",
            lambda p: _or(
                p.at(p.first(), -1) is None,
                _less(max(p.values()) - min(p.values()), 3) if p.values() else None,
            ),
        ),
        Known(
            "COALESCE(LAST(CLASSIFIER(), 1) = 'A', TRUE)",
            lambda p: len(p.names) == 1 or p.names[-2] == "A",
        ),
        Known(
            "PREV(CLASSIFIER()) IS NULL OR PREV(CLASSIFIER()) <> 'C'",
            lambda p: len(p.names) == 1 or p.names[-2] != "C",
        ),
        Known("FIRST(CLASSIFIER()) IN ('A', 'B')", lambda p: p.names[0] in ("A", "B")),
        Known("COUNT(*) <= MATCH_NUMBER()", lambda p: len(p.names) <= p.number),
        Known(
            "CASE WHEN x > FIRST(x) THEN TRUE WHEN COUNT(*) > 1 THEN x IS NULL ELSE TRUE END",
            lambda p: (
                _less(p.at(p.first()), p.at(p.last()))
                or len(p.names) == 1
                or p.at(p.last()) is None
            ),
        ),
        Known(
            "GREATEST(COALESCE(x, 0), COALESCE(FIRST(x), 0)) < 4",
            lambda p: max(p.at(p.last()) or 0, p.at(p.first()) or 0) < 4,
        ),
        Known(
            "AVG(U.x) > 1",
            lambda p: (
                _less(len(p.values(*SUBSET)), sum(p.values(*SUBSET))) if p.values(*SUBSET) else None
            ),
        ),
    ]


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _equal(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one == other


def _or(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


MEASURES = (
    Known("MATCH_NUMBER()", lambda p: p.number),
    Known("CLASSIFIER()", lambda p: p.names[-1] if p.names else None),
    Known("COUNT(*)", lambda p: len(p.names)),
    Known("A.x", lambda p: p.at(p.last("A"))),
    Known("FIRST(A.x) + 1", lambda p: None if (v := p.at(p.first("A"))) is None else v + 1),
    Known("LAST(x, 1)", lambda p: p.at(p.last(back=1))),
    Known("FIRST(U.x, 1)", lambda p: p.at(p.first(*SUBSET, on=1))),
    Known("LAST(B.x, 2)", lambda p: p.at(p.last("B", back=2))),
    Known("PREV(B.x)", lambda p: p.at(p.last("B"), -1)),
    Known("NEXT(FIRST(x), 2)", lambda p: p.at(p.first(), 2)),
    Known("PREV(LAST(A.x, 1), 1)", lambda p: p.at(p.last("A", back=1), -1)),
    Known("SUM(U.x)", lambda p: _total(p.values(*SUBSET))),
    Known("COUNT(B.x) * 2", lambda p: 2 * len(p.values("B"))),
    Known("COUNT(C.*)", lambda p: len(p.places("C"))),
    Known("PREV(CLASSIFIER())", lambda p: p.names[-2] if len(p.names) > 1 else None),
    Known("SUM(U.x * MATCH_NUMBER())", lambda p: _total([v * p.number for v in p.values(*SUBSET)])),
    Known("MAX(x)", lambda p: max(p.values(), default=None)),
    Known(
        "CLASSIFIER(U)",
        lambda p: None if (at := p.last(*SUBSET)) is None else p.names[at - p.start],
    ),
)
FINAL = (
    Known("FINAL LAST(x)", lambda p: p.at(p.last())),
    Known("FINAL COUNT(*)", lambda p: len(p.names)),
    Known("FINAL FIRST(B.x, 1)", lambda p: p.at(p.first("B", on=1))),
)


@dataclass(frozen=True)
class RowCase:
    """A statement over the table `t`, its rows, and what it returns; None: a mistake of SKIP TO."""

    statement: str
    rows: list[Row]
    expected: list[tuple[Any, ...]] | None
    pattern: RowPattern
    columns: tuple[str, ...]
    define: dict[str, Known]

    def fits(
        self, partition: Sequence[Row], start: int, names: tuple[str, ...], number: int
    ) -> bool:
        """Return whether the last of some rows satisfies the condition of its variable."""
        known = self.define.get(names[-1])
        return known is None or bool(known.value(Path(partition, start, names, number)))


def draw_pattern(chance: Random, depth: int = 3) -> RowPattern:
    """Return a random pattern."""
    kind = chance.randrange(9) if depth > 0 else 0
    if kind <= 1:
        return RowVariable(chance.choice(VARIABLES))
    if kind == 2:
        return RowSequence(
            tuple(draw_pattern(chance, depth - 1) for _ in range(chance.randrange(2, 4)))
        )
    if kind == 3:
        return RowAlternation(
            tuple(draw_pattern(chance, depth - 1) for _ in range(chance.randrange(2, 4)))
        )
    if kind == 4:
        wide = chance.randrange(2, 4)
        return RowPermutation(tuple(draw_pattern(chance, depth - 2) for _ in range(wide)))
    if kind == 5 and depth > 1:
        return RowExclusion(draw_pattern(chance, depth - 1))
    if kind == 6 and depth < 3:
        return chance.choice((RowAnchor(False), RowAnchor(True), RowSequence(())))
    least = chance.choice((0, 0, 1, 2))
    most = chance.choice((None, None, None, max(least, 1), least + 2))
    return RowRepetition(draw_pattern(chance, depth - 1), least, most, chance.random() < 0.65)


def draw_case(
    seed: int, *, dependent: bool = False, modes: Sequence[RowsPerMatch] = tuple(RowsPerMatch)
) -> RowCase:
    """Return a random case; `dependent`: with conditions that depend on the path."""
    chance = Random(seed)
    pattern = draw_pattern(chance)
    used = {part.name for part in walk_pattern(pattern) if isinstance(part, RowVariable)}
    pattern = RowSequence(
        (pattern, *(RowRepetition(RowVariable(v), 0, 1) for v in VARIABLES if v not in used))
    )
    rows = [
        {"g": chance.choice("ab"), "t": t, "x": chance.choice((None, 0, 1, 1, 2, 2, 3, 4))}
        for t in chance.sample(range(20), chance.randrange(1, 9))
    ]
    mode = chance.choice(list(modes))
    if any(isinstance(part, RowExclusion) for part in walk_pattern(pattern)):
        mode = RowsPerMatch.ALL if mode is RowsPerMatch.ALL_WITH_UNMATCHED else mode
    skip, target = chance.choice(list(SkipMode)), chance.choice((*VARIABLES, "U"))
    within = chance.choice((None, None, 3, 8))
    define: dict[str, Known] = {}
    for variable in VARIABLES:
        if chance.random() < 0.8:
            menu = list_conditions(
                variable, chance.choice(VARIABLES), dependent=dependent and chance.random() < 0.6
            )
            define[variable] = chance.choice(menu)
    measures = chance.sample(MEASURES, 5) + (
        [chance.choice(FINAL)] if chance.random() < 0.5 else []
    )
    statement = _write(pattern, mode, skip, target, within, define, measures)
    aims = SUBSET if target == "U" else (target,)
    try:
        expected = _expect(pattern, rows, mode, (skip, aims), within, define, measures)
    except SkipMistake:
        expected = None
    names = (
        "g",
        *(() if mode is RowsPerMatch.ONE else ("t",)),
        *(f"m{i}" for i in range(len(measures))),
    )
    return RowCase(statement, rows, expected, pattern, names, define)


def draw_stream_case(seed: int, *, bounded: bool = False) -> RowCase:
    """Return a case that a stream can decide.

    `bounded`: with WITHIN, an interval of seconds, so that it decides all, and with matches.
    """
    number = seed
    while True:
        case = draw_case(number, dependent=bool(number % 2), modes=(RowsPerMatch.ONE,))
        fits = not bounded or ("WITHIN" in case.statement and bool(case.expected))
        if fits and case.expected is not None and not re.search(r"NEXT\(|\$", case.statement):
            text = re.sub(r"WITHIN (\d+)", r"WITHIN INTERVAL '\1' SECOND", case.statement)
            return replace(case, statement=text)
        number += 1


def _write(
    pattern: RowPattern,
    mode: RowsPerMatch,
    skip: SkipMode,
    target: str,
    within: int | None,
    define: dict[str, Known],
    measures: Sequence[Known],
) -> str:
    skips = {
        SkipMode.PAST_LAST_ROW: "PAST LAST ROW",
        SkipMode.TO_NEXT_ROW: "TO NEXT ROW",
        SkipMode.TO_FIRST: f"TO FIRST {target}",
        SkipMode.TO_LAST: f"TO LAST {target}",
    }
    told = ", ".join(f"{measure.sql} AS m{i}" for i, measure in enumerate(measures))
    defined = ", ".join(f"{name} AS {known.sql}" for name, known in define.items())
    shown = [
        "g",
        *(() if mode is RowsPerMatch.ONE else ("t",)),
        *(f"m{i}" for i in range(len(measures))),
    ]
    return (
        f"SELECT {', '.join(shown)} FROM t MATCH_RECOGNIZE ("
        f"PARTITION BY g ORDER BY t MEASURES {told} {mode.value} "
        f"AFTER MATCH SKIP {skips[skip]} PATTERN ({pattern}) "
        f"{f'WITHIN {within} ' if within else ''}SUBSET U = ({', '.join(SUBSET)})"
        f"{f' DEFINE {defined}' if defined else ''})"
    )


def _expect(
    pattern: RowPattern,
    rows: list[Row],
    mode: RowsPerMatch,
    skip: tuple[SkipMode, Sequence[str]],
    within: int | None,
    define: dict[str, Known],
    measures: Sequence[Known],
) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for key in sorted({row["g"] for row in rows}):
        partition = sorted((row for row in rows if row["g"] == key), key=lambda row: row["t"])

        def condition(
            start: int, names: tuple[str, ...], number: int, partition: list[Row] = partition
        ) -> bool:
            known = define.get(names[-1])
            return known is None or bool(known.value(Path(partition, start, names, number)))

        times = [row["t"] for row in partition]
        limits = None
        if within is not None:
            limits = [sum(time < own + within for time in times) for own in times]
        number, covered = 0, 0
        for start, word in recognize(pattern, len(partition), condition, *skip, limits):
            if word is None:
                if mode is RowsPerMatch.ALL_WITH_UNMATCHED and start >= covered:
                    found.append((key, times[start], *(None for _ in measures)))
                continue
            number += 1
            names = [name for name, _ in word]
            covered = max(covered, start + len(names))
            whole = Path(partition, start, names, number)
            if mode is RowsPerMatch.ONE:
                found.append((key, *(measure.value(whole) for measure in measures)))
                continue
            if not names and mode is not RowsPerMatch.ALL_OMIT_EMPTY:
                found.append((key, times[start], *(measure.value(whole) for measure in measures)))
            for i, (_, excluded) in enumerate(word):
                running = Path(partition, start, names[: i + 1], number)
                if not excluded:
                    values = ((whole if m in FINAL else running) for m in measures)
                    found.append(
                        (
                            key,
                            times[start + i],
                            *(m.value(p) for m, p in zip(measures, values, strict=True)),
                        )
                    )
    return found
