"""A session that is dropped gives its memory back at once: no session holds itself.

Python's search for cycles counts objects, not bytes. It starts late where a few large arrays are
all that is left behind.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest

import cernis
from benchmarks.endurance import QUERIES

GRAPHS = """PREFIX : <urn:x:>
SELECT ?x ?z WITHIN 1 MINUTES FROM STREAM S <urn:s>
WHERE { SEQ (A ; B)
  DEFINE GPM A ON S { ?x :p ?y }
  DEFINE GPM B ON S { ?x :q ?z } }"""
QUADS = b"""<urn:x:a> <urn:x:p> <urn:x:b> <urn:e/at/1> .
<urn:x:a> <urn:x:q> <urn:x:c> <urn:e/at/2> .
<urn:x:a> <urn:x:r> <urn:x:d> <urn:e/at/3> .
"""
LEVELS = """RULE sold AS INSERT INTO Sold SELECT a[name] AS name FROM S WHERE SELL AS a
RULE again AS SELECT * FROM Sold WHERE Sold ; Sold PARTITION BY [name] WITHIN 9 EVENTS
RULE first AS SELECT * FROM S WHERE SELL PARTITION BY [name] SUPPRESS BY [name] FOR 5 SECONDS"""


@pytest.fixture(autouse=True)
def no_search_for_cycles() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make_events() -> pa.Table:
    kinds, names = ["SELL", "BUY"] * 20, ["a", "b", "c", "d"] * 10
    at = pa.array([i * 400_000_000 for i in range(40)], pa.timestamp("ns"))
    many = list(range(960, 1000))
    columns = {"type": kinds, "name": names, "visit": many, "volume": many, "price": many}
    return pa.table({**columns, "ts": at})


@pytest.mark.parametrize("name", QUERIES)
def test_a_session_is_freed_when_it_is_dropped(name: str) -> None:
    query = cernis.query(QUERIES[name])
    session = query.session(time="ts")
    matches = session.push(make_events())
    list(matches)
    thawed = query.thaw(session.freeze())
    dropped = [weakref.ref(each) for each in (session, session.pipeline, thawed)]
    del session, matches, thawed
    assert [each() for each in dropped] == [None, None, None]


def test_a_session_of_rules_is_freed_when_it_is_dropped() -> None:
    rules = cernis.rules(LEVELS)
    session = rules.session(time="ts")
    found = session.push(make_events())
    thawed = rules.thaw(session.freeze())
    inner = [weakref.ref(each) for each in session.sessions]
    dropped = [weakref.ref(session), weakref.ref(thawed), *inner]
    del session, found, thawed
    assert {each() for each in dropped} == {None}


def test_a_session_over_graphs_is_freed_when_it_is_dropped() -> None:
    query = cernis.query(GRAPHS, lang="spaseq")
    session = query.session()
    found = session.push(QUADS)
    assert found.count() == 1
    thawed = query.thaw(session.freeze())
    dropped = [weakref.ref(session), weakref.ref(thawed)]
    del session, found, thawed
    assert [each() for each in dropped] == [None, None]
