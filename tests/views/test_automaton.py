"""Automata as people look at them: states, edges in words, points, and the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Pattern
from cernis.views.automaton import AutomatonView
from cernis.views.layout import StateEdge, lay_out_graph
from tools.cases.strategies import patterns

SVG = "{http://www.w3.org/2000/svg}"


def view(formula: str, rest: str = "") -> AutomatonView:
    found = cernis.query(f"SELECT * FROM S WHERE {formula} {rest}").explain().automaton()
    assert found is not None
    return found


def write(seen: AutomatonView) -> list[str]:
    """Return a line for each edge that is not a loop of waiting."""
    names = {state.id: state.name for state in seen.states}
    return [
        f"{names[e.source]} —{e.condition}{f' → {e.label}' if e.label else ''}— {names[e.target]}"
        for e in seen.edges
        if e.kind != "wait"
    ]


@pytest.mark.parametrize(
    ("formula", "edges"),
    [
        (
            "(BUY AS b ; SELL+ AS s) FILTER b[price > 120] AND s[price < 100 OR name = 'x']",
            [
                "start —BUY with price > 120 → b— after b",
                "after b —SELL with (price < 100 or name = 'x') → s— after s",
                "after s —SELL with (price < 100 or name = 'x') → s— after s",
            ],
        ),
        (
            "(F+ AS f : G AS s)",
            [
                "start —F → f— after f",
                "after f —F → f— after f",
                "after f —right after, G → s— after s",
            ],
        ),
        (
            "A : NOT B : C",
            ["start —A— after A", "after A —not B— passed on", "passed on —C— after C"],
        ),
        (
            "(A AS a ; C) UNLESS (X AS x FILTER x[v IS NULL])",
            [
                "start —A → a— after a",
                "unless —X with v IS NULL → x— excluded",
                "after a —C— after C",
                "after a —— unless",
            ],
        ),
        (
            "(A AS a ; B AS b ; C) FILTER a[x] = b[y] AND b[z] < C[z]",
            [
                "start —A → a— after a",
                "after a —B with y = a[x] → b— after b",
                "after b —C with z > b[z]— after C",
            ],
        ),
        (
            "(A AS a ALL B AS b) FILTER a[x] = b[x]",
            [
                "start —A → a— after a",
                "start —B → b— after b",
                "after b —A with x = b[x] → a— match",
                "after a —B with x = a[x] → b— match",
            ],
        ),
        (
            "A AS a ;[2 SECONDS] B",
            ["start —A → a— after a", "after a —B, within [2 SECONDS] of a— after B"],
        ),
    ],
)
def test_edges_say_in_words_what_an_event_must_be(formula: str, edges: list[str]) -> None:
    assert sorted(write(view(formula))) == sorted(edges)


def test_a_state_that_waits_has_a_loop_and_a_final_one_may_go_on() -> None:
    seen = view("A AS a ; B+ AS b")
    assert [(s.name, s.initial, s.final) for s in seen.states] == [
        ("start", True, False),
        ("after a", False, False),
        ("after b", False, True),
    ]
    assert [e.source for e in seen.edges if e.kind == "wait"] == [1, 2]


def test_rounds_of_two_are_told_apart() -> None:
    states = view("(A ; A)+ AS a").states
    assert [(s.name, s.final) for s in states] == [
        ("start", False),
        ("after a", False),
        ("after a (2)", True),
    ]


def test_a_sequence_of_graphs_is_drawn_with_its_joins_and_what_it_excludes() -> None:
    text = """SELECT ?x FROM STREAM S <urn:s> WHERE { SEQ (A ; B! ; C)
      DEFINE GPM A ON S { ?x <urn:a> ?v } DEFINE GPM B ON S { ?x <urn:b> ?w }
      DEFINE GPM C ON S { ?x <urn:c> ?u . FILTER (?u > ?v) } }"""
    query = cernis.query(text, lang="spaseq")
    assert write(query.explain().automaton()) == [
        "start —A— after A",
        "after A —the first C with the same ?x and ?u > ?v— after C",
        "after A —before C: B with the same ?x— excluded",
    ]
    assert "after C" in query._repr_html_()
    assert "after C" in query.explain()._repr_html_()


def test_a_plan_without_an_automaton_has_no_view() -> None:
    query = "(A AS a ; B AS b) FILTER a[x] = b[x] OR a[y] < b[y]"
    explanation = cernis.query(f"SELECT * FROM S WHERE {query}").explain()
    assert (explanation.automaton() is None) == (explanation.mermaid() == "")


def test_counts_are_written_beside_what_is_read() -> None:
    seen = view("A AS a ; B AS b").with_counts({0: 1234})
    assert [edge.taken for edge in seen.edges] == [1234, 0, None]
    assert "1,234×" in seen.svg()
    assert seen.to_dict()["edges"][0]["count"] == 1234


def test_text_from_queries_is_escaped() -> None:
    seen = view("(A AS a ; `<b>`) FILTER a[name = '<script>&']")
    root = ET.fromstring(seen.svg())
    assert any("<script>&" in (each.text or "") for each in root.iter(f"{SVG}text"))
    assert "<script" not in seen.svg()


def test_a_picture_says_which_states_are_alive() -> None:
    assert "12 partial" in view("A ; B").svg(alive={1: "12 partial"})


@settings(max_examples=40)
@given(patterns(binary=True))
def test_every_automaton_has_places_inside_its_picture(pattern: Pattern) -> None:
    seen = cernis.query(pattern).explain().automaton()
    if seen is None:
        return
    assert len({(s.x, s.y) for s in seen.states}) == len(seen.states)
    assert sum(s.initial for s in seen.states) == 1
    for state in seen.states:
        assert 0 < state.x < seen.width
        assert 0 < state.y < seen.height
    for edge in seen.edges:
        assert {edge.source, edge.target} <= {s.id for s in seen.states}
    ET.fromstring(seen.svg())


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25),
        )
    )
)
def test_edges_go_to_the_right_unless_they_go_back(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    size, pairs = graph
    layout = lay_out_graph([40.0] * size, [StateEdge(a, b) for a, b in pairs], 0)
    assert len(set(layout.points)) == size
    for i, (a, b) in enumerate(pairs):
        if a != b and i not in layout.back:
            assert layout.points[a][0] < layout.points[b][0]


def test_labels_of_edges_that_meet_stand_apart() -> None:
    query = cernis.query("Q(x, y) <- T(a: x), S(a: x, b: y), R(a: x, b: y)", lang="cq")
    view = query.explain().automaton()
    assert view is not None
    texts = [one for one in ET.fromstring(view.svg()).iter() if one.tag.endswith("text")]
    points = [(one.get("x"), one.get("y")) for one in texts]
    assert len(set(points)) == len(points) > 6
