"""Which indexes a plan of compared events has, and what the kernel writes to them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import cernis
from cernis.engine.correlated.stores import Uses, find_uses
from cernis.engine.dag import records as r

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


def test_vertices_of_one_event_share_their_way_through_a_search_tree() -> None:
    session = cernis.query(
        "SELECT * FROM S WHERE A+ AS s FILTER PREV(s)[p] < s[p] WITHIN 500 EVENTS"
    ).session()
    prices = np.random.default_rng(5).random(700)
    session.push(pa.table({"type": ["A"] * 600, "p": prices[:600]}))
    engine = session.pipeline.feed.engine
    engine.collect()
    begin = engine.memory.counters.copy()
    session.push(pa.table({"type": ["A"] * 100, "p": prices[600:]}))
    vertices, branches = (engine.memory.counters - begin)[[r.VERTICES, r.BRANCHES]]
    ways = 2 * np.log(500)  # the length of a way in a tree of so many values
    assert vertices > 190
    assert branches < 1.9 * ways * 100
