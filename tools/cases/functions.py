"""Random expressions with functions, as text, and queries that use them in every place."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

Write = Callable[[str], str]
"""Writes an attribute where the expression stands: `a` between brackets, `x[a]` elsewhere."""

_NUMBERS = ("0", "1", "2.5", "-3", "0.5")
_TEXTS = ("''", "'a'", "'Ab'", "' b '", "'ß'")
_COMPARE = ("=", "!=", "<", "<=", ">", ">=")


SCHEMA = pa.schema(
    {
        "type": pa.string(),
        "ts": pa.int64(),
        "a": pa.int64(),
        "b": pa.float64(),
        "s": pa.string(),
        "t": pa.string(),
        "l": pa.list_(pa.string()),
    }
)
"""The columns of the events."""


class Expressions:
    """Makes expressions of a depth from a source of random numbers."""

    def __init__(self, chance: random.Random, write: Write) -> None:
        self.chance = chance
        self.write = write

    def pick(self, items: Sequence[str]) -> str:
        return self.chance.choice(items)

    def number(self, depth: int) -> str:
        """Return an expression of a number."""
        if depth == 0 or self.chance.random() < 0.15:
            return (
                self.write(self.pick("ab")) if self.chance.random() < 0.75 else self.pick(_NUMBERS)
            )
        one, other = self.number(depth - 1), self.number(depth - 1)
        when = f"WHEN {self.truth(0)} THEN {other}"
        forms = (
            f"({one} {self.pick('+-')} {other})",
            f"({one} * {self.pick(('2', '-1', '0.5'))})",
            f"({one} / {other})",
            f"ABS({one})",
            f"SIGN({one})",
            f"ROUND({one}, {self.pick(('0', '1', '2'))})",
            f"FLOOR({one})",
            f"CEIL({one})",
            f"SQRT({one})",
            f"MOD({one}, {other})",
            f"LEAST({one}, {other})",
            f"GREATEST({one}, {other})",
            f"COALESCE({one}, {other})",
            f"NULLIF({one}, {other})",
            f"LENGTH({self.text(depth - 1)})",
            f"CAST({self.text(depth - 1)} AS INT)",
            f"IF({self.truth(depth - 1)}, {self.write('a')}, {other})",
            f"CASE WHEN {self.truth(depth - 1)} THEN {self.write('b')} {when} END",
        )
        return self.pick(forms)

    def text(self, depth: int) -> str:
        """Return an expression of a text."""
        if depth == 0 or self.chance.random() < 0.15:
            return self.write(self.pick("st")) if self.chance.random() < 0.75 else self.pick(_TEXTS)
        one, other = self.text(depth - 1), self.text(depth - 1)
        forms = (
            f"LOWER({one})",
            f"UPPER({one})",
            f"TRIM({one})",
            f"SUBSTRING({one}, {self.pick(('1', '2', '-2'))}, {self.pick(('1', '3'))})",
            f"CONCAT({one}, {other})",
            f"REPLACE({one}, 'a', {self.pick(_TEXTS)})",
            f"SPLIT_PART({one}, 'b', {self.pick(('1', '2', '-1'))})",
            f"REGEXP_EXTRACT({one}, '([a-c]+)')",
            f"COALESCE({one}, {other})",
            f"CAST({self.write('a')} AS STRING)",
            f"IF({self.truth(depth - 1)}, {self.write('s')}, {other})",
        )
        return self.pick(forms)

    def truth(self, depth: int) -> str:
        """Return a condition."""
        below = max(0, depth - 1)
        forms = (
            f"{self.number(below)} {self.pick(_COMPARE)} {self.number(below)}",
            f"{self.text(below)} {self.pick(('=', '!='))} {self.text(below)}",
            f"STARTS_WITH({self.text(below)}, {self.pick(_TEXTS)})",
            f"ENDS_WITH({self.text(below)}, {self.text(below)})",
            f"CONTAINS({self.text(below)}, {self.pick(_TEXTS)})",
            f"SQL_LIKE({self.text(below)}, '_b%')",
            f"SQL_ILIKE({self.text(below)}, 'A%')",
            f"ENDS_WITH({self.text(below)}, 'b') = CONTAINS({self.text(below)}, 'a')",
            f"COALESCE(CONTAINS({self.text(below)}, 'b'), FALSE) = TRUE",
            f"ANY({self.write('l')}, e -> STARTS_WITH(e, {self.pick(_TEXTS)}) OR LENGTH(e) = 2)",
        )
        test = self.pick(forms)
        if depth and self.chance.random() < 0.4:
            test = f"({test} {self.pick(('AND', 'OR'))} {self.truth(depth - 1)})"
        return f"NOT {test}" if self.chance.random() < 0.2 else test


def make_query(chance: random.Random, depth: int = 4) -> str:
    """Return a query over the attributes a, b, s and t, with functions in most of its places."""
    inside = Expressions(chance, str)
    first, second = (Expressions(chance, f"{name}[{{}}]".format) for name in "xy")
    either = Expressions(chance, lambda name: f"{chance.choice('xy')}[{name}]")
    one_event = f"x[{inside.truth(depth)}]"
    between = [
        f"{first.number(depth)} {chance.choice(_COMPARE)} {second.number(depth)}",
        f"{first.text(depth)} {chance.choice(('=', '!='))} {second.text(depth)}",
        f"ABS({either.number(1)} - {second.number(1)}) <= {first.number(1)}",
        f"LENGTH({either.text(2)}) > {either.number(1)}",
        f"STARTS_WITH({first.text(2)}, {second.text(1)})",
    ]
    chosen = chance.choice(between)
    parts = [one_event] * (chance.random() < 0.6) + [
        f"NOT ({chosen} AND {one_event})" if chance.random() < 0.3 else chosen
    ]
    select = chance.choice(
        (
            "*",
            f"{first.number(depth)} AS n, {second.text(depth)} AS s, {either.number(2)} AS e",
            f"MAX(y[b] - {second.number(2)}) AS m, COUNT(DISTINCT LOWER(y[s])) AS d",
        )
    )
    rest = chance.choice(("", f" PARTITION BY [LOWER({chance.choice('st')})]"))
    formula = chance.choice(("A AS x ; B AS y", "A AS x : B AS y"))
    return f"SELECT {select} FROM S WHERE ({formula}) FILTER {' AND '.join(parts)}{rest}"


def make_events(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Return events with small numbers, text, and NULLs."""
    return [
        {
            "type": chance.choice("AB"),
            "ts": number,
            "a": chance.choice((0, 1, -2, 5, 9, None)),
            "b": chance.choice((0.5, -1.0, 2.25, 2.5, 1e3, None)),
            "s": chance.choice(("a", "Ab", " b ", "", "ßb", "abcab", None)),
            "t": chance.choice(("A", "ab", "12", "-7", "𝒳b", None)),
            "l": chance.choice((["a", "𝒳b"], ["b"], [None, "A"], [], None)),
        }
        for number in range(count)
    ]
