"""Search trees of waiting runs: all kinds of numbers, rows that are alike, frozen states."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

import cernis
from cernis.engine.dag import records as r
from cernis.rdf.query import GraphQuery

pytest.importorskip("pyoxigraph")

XSD = "http://www.w3.org/2001/XMLSchema#"
QUERY = """PREFIX : <urn:> SELECT {select} WITHIN 9 SECONDS FROM STREAM S <urn:s> WHERE {{
  SEQ ({steps})
  DEFINE GPM A ON S {{ ?m :in ?a }}
  DEFINE GPM B ON S {{ ?m :out ?b FILTER ({condition}) }}
  DEFINE GPM C ON S {{ ?m :in ?c FILTER (?c >= ?b) }} }}"""
NUMBERS = {
    "integer": ("1", "2", "-3", "16777216", "16777217", "9007199254740993", "9223372036854775807"),
    "decimal": ("0.1", "1.5", "-2.50", "0.10000000000000001", "123456789012345.6789"),
    "float": ("0.1", "1.5", "16777216", "INF", "NaN", "-0.0"),
    "double": ("0.1", "1.5", "9007199254740992", "-INF", "1e300", "NaN"),
    "string": ("1", "2"),
}


def write_events(seed: int, number: int = 18) -> bytes:
    rng = random.Random(seed)
    lines = []
    for at in range(number):
        name = rng.choice(["in", "out"])
        for _ in range(rng.choice([1, 1, 2])):
            kind = rng.choice(sorted(NUMBERS))
            value = f'"{rng.choice(NUMBERS[kind])}"^^<{XSD}{kind}>'
            lines.append(f"<urn:m{rng.randrange(2)}> <urn:{name}> {value} <urn:g:{at}> .\n")
    return "".join(lines).encode()


def open_query(select: str, steps: str, condition: str) -> GraphQuery:
    text = QUERY.format(select=select, steps=steps, condition=condition)
    return cernis.query(text, lang="spaseq")


def describe(matches: cernis.GraphMatches) -> list[str]:
    return sorted(f"{match.events} {match.bindings}" for match in matches)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("select", ["?m ?a ?b", "?m"])
def test_ranges_of_trees_have_the_runs_that_checks_one_by_one_find(select: str, op: str) -> None:
    trees = open_query(select, "A : B : C", f"?b {op} ?a")
    assert "in the order of ?a" in str(trees.explain())
    groups = open_query(select, "A : B : C", f"?b {op} ?a && (?b {op} ?a || false)")
    assert "in the order of ?a" not in str(groups.explain())
    for seed in range(6):
        events = write_events(seed)
        found = trees.run(events)
        assert describe(found) == describe(groups.run(events))
        assert found.count() == len(list(found))


def test_a_row_makes_one_vertex_for_all_runs_that_fit() -> None:
    events = b"".join(b'<urn:m> <urn:in> "%d" <urn:g:%d> .\n' % (i, i) for i in range(300))
    numbers = events.replace(b'" <', f'"^^<{XSD}integer> <'.encode())
    session = open_query("*", "A : B", "?b < ?a").session()
    session.push(numbers)
    session.push(f'<urn:m> <urn:out> "0"^^<{XSD}integer> <urn:g:300> .\n'.encode())
    assert len(list(session.finish())) == 299
    assert int(session.engine.memory.dag.counters[r.VERTICES]) < 350


@pytest.mark.parametrize("seed", range(4))
def test_trees_are_frozen_and_thawed(seed: int) -> None:
    query = open_query("?m ?b", "A : B : C", "?b <= ?a")
    lines = write_events(seed).splitlines(keepends=True)
    expected = describe(query.run(b"".join(lines)))
    session, found = query.session(), []
    for _, event in groupby(lines, key=lambda line: line.split()[-2]):
        found += list(session.push(b"".join(event)))
        session = query.thaw(session.freeze())
    found += list(session.finish())
    assert sorted(f"{match.events} {match.bindings}" for match in found) == expected
