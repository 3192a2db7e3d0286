"""Random rules over wide events: the tests of detections, texts of any case, NaN and NULL."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

COLUMNS = ("Image", "Cmd", "User")
LOADS = (-3, 0, 0.1, 0.7, 1, 2.5, 9007199254740993)
"""Numbers, some of which are no floats."""
WORDS = ("mimi", "Kat", "powershell", "sch", "ſ", "K", "ä", "-enc", "cmd.exe", "%")


def write_test(chance: Random) -> str:
    """Return a condition on one event, as rules write them."""
    column, word = chance.choice(COLUMNS), chance.choice(WORDS).replace("%", "")
    plain = word or "x"
    low, high = sorted([chance.choice(LOADS), chance.choice(LOADS)])
    forms = [
        f"SQL_ILIKE({column}, '%{word}%')",
        f"SQL_ILIKE({column}, '{plain}')",
        f"SQL_LIKE({column}, '%{word}')",
        f"CONTAINS({column}, '{plain}')",
        f"CONTAINS(LOWER({column}), '{plain.lower()}')",
        f"LOWER({column}) = '{plain.lower()}'",
        f"{column} LIKE '(?i).*{plain.replace('.', '[.]')}.*'",
        f"{column} LIKE '(?i).*{plain}.*'",
        f"{column} IN {{'{plain}', 'Kat'}}",
        f"EventID = {chance.randrange(4)}",
        f"{column} IS NULL",
        f"EventID > {chance.randrange(4)}",
        f"{chance.randrange(4)} >= EventID",
        f"(Load >= {low} AND Load < {high})",
        f"Load IN RANGE ({low}, {high})",
        f"Load {chance.choice(['<', '<=', '>', '>='])} {chance.choice(LOADS)}",
    ]
    return chance.choice(forms)


def write_step(chance: Random) -> str:
    """Return the conditions of a rule on one event."""
    parts = []
    for _ in range(chance.randint(1, 3)):
        several = [write_test(chance) for _ in range(chance.randint(1, 4))]
        part = f"({' OR '.join(several)})"
        parts.append(f"NOT {part}" if chance.random() < 0.2 else part)
    return " AND ".join(parts)


def write_rule(chance: Random) -> str:
    """Return a rule: of one event, of two, with an absence, or with groups."""
    kind = chance.randrange(5)
    one, other = write_step(chance), write_step(chance)
    if kind == 0:
        within = f"PARTITION BY [Host] WITHIN {chance.randint(1, 9)} SECONDS"
        return (
            f"SELECT * FROM log WHERE (log AS a ; log AS b) FILTER a[{one}] AND b[{other}] {within}"
        )
    if kind == 1:
        absent = f"WITHOUT (log AS w FILTER w[{other}]) FOR {chance.randint(1, 5)} SECONDS"
        return f"SELECT * FROM log WHERE log AS e FILTER e[{one}] {absent} PARTITION BY [Host]"
    if kind == 2:
        every = f"EVERY {chance.randint(1, 5)} SECONDS"
        return (
            f"SELECT COUNT(*) AS n FROM log WHERE log AS e FILTER e[{one}] PARTITION BY [Host] "
            f"GROUP BY [Host], {every} HAVING COUNT(*) > {chance.randint(0, 2)}"
        )
    return f"SELECT * FROM log WHERE log AS e FILTER e[{one}]"


def make_events(chance: Random, count: int) -> pa.Table:
    """Return events of two hosts, many of which have the time of the one before."""

    def write_text() -> str | None:
        words = [chance.choice(WORDS) for _ in range(chance.randint(0, 3))]
        text = chance.choice(["", " ", "\\"]).join(words)
        return chance.choice([text, text.upper(), text.lower(), None])

    rows: list[dict[str, Any]] = []
    time = 0
    for _ in range(count):
        time += chance.randrange(3) * 500
        own: dict[str, Any] = {name: write_text() for name in COLUMNS}
        rows.append(
            {"ts": time, "Host": chance.choice("ab"), "EventID": chance.randrange(4), **own}
        )
    table = pa.Table.from_pylist(rows)
    loads = [chance.choice([None, float("nan"), *map(float, LOADS)]) for _ in rows]
    kinds = [pa.float64(), pa.float32(), pa.int64(), pa.decimal128(20, 2)]
    kind = chance.choice(kinds)
    if not pa.types.is_floating(kind):
        loads = [each if each is not None and each.is_integer() else None for each in loads]
    table = table.append_column("Load", pa.array(loads).cast(kind, safe=False))
    if chance.random() < 0.5:
        image = table.column("Image").dictionary_encode()
        table = table.set_column(table.schema.get_field_index("Image"), "Image", image)
    return table
