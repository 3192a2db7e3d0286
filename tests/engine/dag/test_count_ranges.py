"""Counting over search trees while the window slides: as many as counting each end finds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis
from cernis.engine.dag.count import count_matches
from cernis.engine.dag.count_ranges import count_steps
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.slide import count_values
from cernis.engine.dag.steps import Filings, Steps, choose_vertices, read_steps
from cernis.rdf.query import GraphQuery
from cernis.rdf.session import GraphSession
from cernis.results.sets.linked import join_segments

pytest.importorskip("pyoxigraph")

XSD = "http://www.w3.org/2001/XMLSchema#"
QUERY = """PREFIX : <urn:>
SELECT * WITHIN {within} SECONDS {tumbling} FROM STREAM S <urn:s> WHERE {{
  SEQ ({steps})
  DEFINE GPM A ON S {{ ?m :p ?a ; :v ?x }}
  DEFINE GPM B ON S {{ ?m :p ?b ; :v ?y {second} }}
  DEFINE GPM C ON S {{ ?m :p ?c ; :v ?z {third} }}
  DEFINE GPM D ON S {{ ?m :p ?d {fourth} }} }}"""
ORDERS = ("", "FILTER (?b < ?a)", "FILTER (?b <= ?a)", "FILTER (?b > ?a)", "FILTER (?b >= ?a)")


def open_query(
    steps: str, orders: tuple[str, str, str], within: int, tumbling: str = ""
) -> GraphQuery:
    second, third, fourth = orders
    unused = [name for name in "CD" if name not in steps]
    text = QUERY.format(
        steps=steps, second=second, third=third, fourth=fourth, within=within, tumbling=tumbling
    )
    lines = [
        line for line in text.splitlines() if not any(f"GPM {name} " in line for name in unused)
    ]
    if unused:
        lines[-1] += " }"
    return cernis.query("\n".join(lines), lang="spaseq")


def write_events(rng: random.Random, number: int, prices: int = 9) -> bytes:
    """Return events with prices of all kinds of numbers, some with two of them."""
    kinds = rng.choice([("integer",), ("integer", "decimal", "float", "double")])
    lines = []
    for at in range(number):
        for _ in range(rng.choice([1, 1, 1, 2])):
            value = f'"{rng.randrange(prices)}"^^<{XSD}{rng.choice(kinds)}>'
            lines.append(f"<urn:m{rng.randrange(2)}> <urn:p> {value} <urn:g:{at}> .\n")
        for company in range(2):
            value = f'"{rng.randrange(prices)}"^^<{XSD}integer>'
            lines.append(f"<urn:m{company}> <urn:v> {value} <urn:g:{at}> .\n")
    return "".join(lines).encode()


def write_steady_events(seed: int, number: int = 60) -> bytes:
    """Return events of one company, with a price and a volume each."""
    rng = random.Random(seed)
    return "".join(
        f'<urn:m0> <urn:{name}> "{rng.randrange(30)}"^^<{XSD}integer> <urn:g:{at}> .\n'
        for at in range(number)
        for name in "pv"
    ).encode()


def find_segments(session: GraphSession, events: bytes) -> list[DagSegment]:
    """Return the compact match sets of a stream."""
    return [segment for batch in session.open({"S": events}) for segment in session.read(batch)]


def read(segments: list[DagSegment]) -> tuple[Steps, Filings]:
    return read_steps(segments[-1].memory, choose_vertices(join_segments(segments)))


def count_each(segments: list[DagSegment]) -> list[int]:
    return [number for segment in segments for number in count_matches(segment)]


@given(st.integers(0, 2**32))
def test_it_agrees_with_counting_each_end(seed: int) -> None:
    rng = random.Random(seed)
    first, second = rng.choice(":;"), rng.choice("::;,")
    steps = rng.choice([f"A {first} B", f"A {first} B {second} C", "A : B? : C", "A : B+; : C"])
    third = rng.choice(ORDERS).translate(str.maketrans("ab", "bc"))
    tumbling = rng.choice(["", "", "TUMBLING FROM 0"])
    query = open_query(steps, (rng.choice(ORDERS), third, ""), rng.randint(1, 30), tumbling)
    segments = find_segments(query.session(), write_events(rng, 40))
    if segments:
        assert count_steps(*read(segments)) in (count_each(segments), None)
        assert count_values(*read(segments)) == count_each(segments)


@pytest.mark.parametrize(
    ("steps", "second", "third"),
    [
        ("A : B : C", "?b < ?a", "?c > ?b"),
        ("A : B : C", "?b >= ?a", "?c <= ?b"),
        ("A : B : C", "true", "?c > ?b"),
        ("A : B : C", "?b < ?a", "true"),
        ("A ; B : C", "?b < ?a", "?c > ?b"),
    ],
)
def test_three_steps_by_one_value_are_counted_as_the_window_slides(
    steps: str, second: str, third: str
) -> None:
    query = open_query(steps, (f"FILTER ({second})", f"FILTER ({third})", ""), 20)
    for seed in range(3):
        segments = find_segments(query.session(), write_steady_events(seed))
        assert count_steps(*read(segments)) == count_each(segments)


@pytest.mark.parametrize(
    ("steps", "third", "fourth"),
    [("A : B : C", "?z > ?y", ""), ("A : B : C : D", "?c > ?b", "?d < ?c")],
)
def test_it_gives_up_where_steps_are_asked_by_another_value_and_at_four_steps(
    steps: str, third: str, fourth: str
) -> None:
    orders = ("FILTER (?b < ?a)", f"FILTER ({third})", f"FILTER ({fourth})" if fourth else "")
    query = open_query(steps, orders, 20)
    events = write_steady_events(3)
    segments = find_segments(query.session(), events)
    assert count_steps(*read(segments)) is None
    assert query.run({"S": events}).count() == sum(count_each(segments))
