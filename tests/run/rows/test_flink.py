"""The same statements on Flink and here return the same rows.

Flink's dependencies do not go together with ours, so it stands in an environment of its own:
`CERNIS_FLINK` names its Python, which has `apache-flink`. Without the variable the test is skipped.

The statements are those that both read: variables with quantifiers, one row per match, conditions
on the row and on rows of the match before it, WITHIN. Where Flink differs from the standard the
statements leave it out, and `docs/how-to/coming-from-match-recognize.md` says so.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("duckdb")

import cernis
import tools

FLINK = os.environ.get("CERNIS_FLINK", "")
CASES = int(os.environ.get("CERNIS_FLINK_CASES", "12"))
SCHEMA = pa.schema([("g", pa.string()), ("ts", pa.timestamp("ms")), ("x", pa.int64())])
CONDITIONS = {
    "A": ("A.x < 2", "A.x <= 1 AND (LAST(A.x, 1) IS NULL OR A.x >= LAST(A.x, 1))"),
    "B": (
        "B.x BETWEEN 2 AND 3",
        "B.x BETWEEN 2 AND 3 AND SUM(B.x) < 8",
        "(B.x = 2 OR B.x = 3) AND (LAST(B.x, 1) IS NULL OR B.x > LAST(B.x, 1))",
    ),
    "C": ("C.x = 4", "C.x >= 4 AND C.x > A.x"),
}
"""No row fits two variables: Flink does not go back to try the second."""
MEASURES = "FIRST(A.x) AS f, LAST(B.x) AS l, SUM(B.x) AS s, COUNT(C.x) AS n"


def draw_statement(chance: Random) -> str:
    first = chance.choice(("", "", "+", "*", "?", "{2}", "{1,2}"))
    middle = chance.choice(("", "+", "{2}", "{1,2}"))
    if first in ("", "{2}"):  # Flink refuses an optional variable after a greedy one
        middle = chance.choice(("", "+", "*", "?", "{1,2}"))
    skip = chance.choice(("PAST LAST ROW", "TO NEXT ROW"))
    within = chance.choice(("", "", " WITHIN INTERVAL '4' SECOND"))
    define = ", ".join(f"{v} AS {chance.choice(menu)}" for v, menu in CONDITIONS.items())
    return (
        f"SELECT g, f, l, s, n FROM t MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts "
        f"MEASURES {MEASURES} ONE ROW PER MATCH AFTER MATCH SKIP {skip} "
        f"PATTERN (A{first} B{middle} C){within} DEFINE {define}) AS m"
    )


def draw_rows(chance: Random) -> list[dict[str, Any]]:
    return [
        {"g": chance.choice("ab"), "ts": second, "x": chance.choice((0, 1, 1, 2, 2, 3, 4, 4))}
        for second in sorted(chance.sample(range(60), 40))
    ]


@pytest.mark.skipif(not FLINK, reason="CERNIS_FLINK names a Python that has apache-flink")
def test_flink_returns_the_same_rows() -> None:
    chance = Random(7)
    cases = [{"statement": draw_statement(chance), "rows": draw_rows(chance)} for _ in range(CASES)]
    script = Path(tools.__file__).parent / "flink_rows.py"
    done = subprocess.run(
        [FLINK, str(script)], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    for case, answer in zip(cases, json.loads(done.stdout), strict=True):
        begin = datetime(2024, 1, 1)
        rows = [{**row, "ts": begin + timedelta(seconds=row["ts"])} for row in case["rows"]]
        table = pa.Table.from_pylist(rows, SCHEMA)
        found = cernis.sql(case["statement"], t=table, dialect="flink")
        own = [[int(v) if isinstance(v, Decimal) else v for v in row.values()] for row in found]
        assert sorted(own, key=repr) == sorted(answer.get("rows", []), key=repr), (case, answer)
