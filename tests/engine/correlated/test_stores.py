"""What the kernel of compared events is compiled with: the indexes of a plan, and few engines."""

from __future__ import annotations

import pytest

import cernis
from cernis.engine.correlated.stores import Uses, find_uses

PAIR = "(A AS a ; B AS b)"
USED = {
    f"{PAIR} FILTER a[x] = b[x] WITHIN 9 EVENTS": set(),
    f"{PAIR} FILTER a[x] != b[x] WITHIN 9 EVENTS": {"lists"},
    f"{PAIR} FILTER a[x] < b[x] WITHIN 9 EVENTS": {"orders"},
    "A AS a ;[3 EVENTS] B AS b": {"gaps"},
    "(A AS a -> B AS b) FILTER a[x] = b[x] WITHIN 9 EVENTS": {"arrows"},
    f"({PAIR} FILTER a[x] = b[x]) UNLESS (C AS c FILTER c[x] = a[x]) WITHIN 9 EVENTS": {"guards"},
    "A+[3 EVENTS] AS a PARTITION BY [x]": {"gaps", "arrows"},
    "(A AS a ; B AS b ; C AS c) FILTER a[x] = c[x] WITHIN 9 EVENTS": {"middles"},
    "(A AS a -> B AS b) FILTER a[x] < b[x] WITHIN 9 EVENTS": set(Uses._fields)
    - {"orders", "middles"},
}


@pytest.mark.parametrize("where", USED)
def test_a_query_compiles_the_indexes_of_its_plan(where: str) -> None:
    strategy = "LONGEST a" if "+" in where else "*"
    tables = cernis.query(f"SELECT {strategy} FROM S WHERE {where}").plan.tables
    assert tables is not None
    uses = find_uses(tables.arrays)
    assert {name for name, used in uses._asdict().items() if used} == USED[where]
