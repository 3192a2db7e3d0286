"""Rounds that are looked up: a row makes one vertex, and a count does not list."""

from __future__ import annotations

import pytest

import cernis
from cernis.engine.dag.records import VERTICES
from cernis.rdf.session import GraphSession

QUERY = """
PREFIX : <urn:g:>
SELECT * FROM STREAM S <urn:g:s>
WHERE {{
  SEQ ({sequence})
  DEFINE GPM A ON S {{ ?x :a ?a ; :of ?k }}
  DEFINE GPM B ON S {{ ?y :b ?b ; :of ?k {of_b} }}
  DEFINE GPM C ON S {{ ?z :c ?c ; :of ?k {of_c} }}
}}
"""
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
FORMS = [
    pytest.param("A ; B+;", "FILTER (?b < ?a)", "", id="a value decides rounds"),
    pytest.param("A : B+: : C", "FILTER (?b < ?a)", "", id="any rounds of those that fit"),
    pytest.param("A ; B+; ; C", "", "FILTER (?c < ?a)", id="a step ends rounds"),
    pytest.param("A : B+: : C", "", "FILTER (?c < ?a)", id="a step ends any rounds"),
    pytest.param("A : B : C", "", "FILTER (?c < ?a)", id="a step ends one round"),
]


def read(sequence: str, of_b: str, of_c: str, events: list[tuple[str, int]]) -> GraphSession:
    text = QUERY.format(sequence=sequence, of_b=of_b, of_c=of_c)
    session = cernis.query(text, lang="spaseq").session(time_unit="s", keep=True)
    lines = []
    for time, (name, number) in enumerate(events):
        graph = f"<urn:g:e{time}/at/{time}>"
        lines += [
            f'<urn:g:n{time}> <urn:g:{name}> "{number}"^^{INTEGER} {graph} .',
            f"<urn:g:n{time}> <urn:g:of> <urn:g:k> {graph} .",
        ]
    session.push({"S": "\n".join(lines).encode()})
    session.finish()
    return session


@pytest.mark.parametrize(("sequence", "of_b", "of_c"), FORMS)
@pytest.mark.parametrize("values", [20, 200])
def test_a_row_makes_one_vertex_however_many_values_wait(
    sequence: str, of_b: str, of_c: str, values: int
) -> None:
    firsts = [("a", number) for number in range(1, values + 1)]
    session = read(sequence, of_b, of_c, firsts + [("b", 0), ("c", 0)] * 3)
    rows = values + (6 if "C" in sequence else 3)
    assert session.engine.memory.dag.counters[VERTICES] - 1 == rows


@pytest.mark.parametrize(
    ("sequence", "number"),
    [
        ("A ; B+; ; C", 300 * 150),
        ("A : B+: : C", 150 * (2**300 - 1)),
        ("A : B : C", 300 * 150),
        ("A : B+: ; C", 150 * (2**300 - 1)),
    ],
)
def test_matches_that_nobody_could_list_are_counted(sequence: str, number: int) -> None:
    firsts = [("a", number) for number in range(300)]
    events = [*firsts, *[("b", 0)] * 300, ("c", 149)]
    session = read(sequence, "", "FILTER (?c < ?a)", events)
    assert session.pull().count() == number
