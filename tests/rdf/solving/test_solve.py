"""Graph patterns over events: small cases one by one, and random ones against pyoxigraph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.errors import BudgetError, DataError, QueryError
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.reading.background import Triples, load_background
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.terms import Terms
from cernis.rdf.solving.solutions import Solutions
from cernis.rdf.solving.solve import Matcher
from cernis.rdf.solving.terms.values import TermValues
from cernis.testing.spaseq.graph_patterns import find_solutions
from tools.cases.spaseq.sparql import write_graph_pattern

ox = pytest.importorskip("pyoxigraph")

XSD = "http://www.w3.org/2001/XMLSchema#"
Row = dict[str, str]


# ------------------------------------------------------------------- writing


def node(text: str) -> g.Node:
    if text.startswith("?"):
        return g.GraphVariable(text[1:])
    if text.startswith("_:"):
        return g.GraphVariable(text)
    return g.Term(full(text))


def full(text: str) -> str:
    """Short forms of terms: `:a`, `5`, `2.5`, `true`."""
    if text.startswith(":"):
        return f"<http://x/{text[1:]}>"
    if text.lstrip("-").isdigit():
        return f'"{text}"^^<{XSD}integer>'
    if text.lstrip("-").replace(".", "").isdigit():
        return f'"{text}"^^<{XSD}decimal>'
    if text in ("true", "false"):
        return f'"{text}"^^<{XSD}boolean>'
    return text


def short(text: str) -> str:
    return f":{text[10:-1]}" if text.startswith("<http://x/") else text


def triples(text: str) -> list[tuple[str, str, str]]:
    """`:a :p 1. :b :q "x"` as triples of full terms."""
    found = []
    for part in text.split(" . "):
        if part.strip():
            subject, predicate, object_ = part.strip().rstrip(" .").split(None, 2)
            found.append((full(subject), full(predicate), full(object_)))
    return found


def bgp(text: str) -> g.BasicPattern:
    parts = [part.strip().rstrip(" .").split(None, 2) for part in text.split(" . ") if part.strip()]
    return g.BasicPattern(tuple(g.Triple(node(s), node(p), node(o)) for s, p, o in parts))


def var(name: str) -> g.GraphVariable:
    return g.GraphVariable(name)


def more(name: str, text: str) -> g.Expression:
    return g.ComparisonExpression(">", var(name), g.Term(full(text)))


def bound(name: str) -> g.Expression:
    return g.CallExpression("BOUND", (var(name),))


# ------------------------------------------------------------------- solving


def batch(
    terms: Terms,
    graphs: Sequence[Iterable[tuple[str, str, str]]],
    streams: Sequence[int] | None = None,
) -> GraphEvents:
    """Graphs as the events of a batch."""
    codes = [
        sorted({(terms.code(p), terms.code(s), terms.code(o)) for s, p, o in graph})
        for graph in graphs
    ]
    flat = np.array([t for graph in codes for t in graph], np.int32).reshape(-1, 3)
    count = len(graphs)
    return GraphEvents(
        np.arange(count, dtype=np.int64),
        np.zeros(count, np.int32) if streams is None else np.array(streams, np.int32),
        np.arange(count, dtype=np.int64),
        np.cumsum([0, *map(len, codes)]).astype(np.int64),
        flat[:, 1].copy(),
        flat[:, 0].copy(),
        flat[:, 2].copy(),
    )


def list_rows(solutions: Solutions, terms: Terms) -> list[tuple[int, Row]]:
    return [
        (
            int(event),
            {n: terms.text(c) for n, c in zip(solutions.names, row, strict=True) if c >= 0},
        )
        for event, row in zip(solutions.event, solutions.codes.tolist(), strict=True)
    ]


def solve(
    pattern: g.GraphPattern,
    *graphs: str,
    background: dict[str, str] | None = None,
    keep: Sequence[str] | None = None,
    budget: int = 1000,
) -> list[list[str]]:
    """Per event its rows, short and sorted: `a=:x b=1`."""
    terms = Terms()
    values = TermValues(terms)
    knowledge = {
        name: "\n".join(" ".join(t) + " ." for t in triples(text)).encode()
        for name, text in (background or {}).items()
    }
    loaded = load_background(knowledge, terms, format="nt") if knowledge else {}
    matcher = Matcher(pattern, values, loaded, keep, budget=budget)
    events = batch(terms, [triples(text) for text in graphs])
    found = list_rows(matcher.solve(events), terms)
    return [
        sorted(
            " ".join(f"{name}={short(text)}" for name, text in sorted(row.items()))
            for event, row in found
            if event == k
        )
        for k in range(len(graphs))
    ]


# ------------------------------------------------------ basic graph patterns


def test_triples_are_joined_by_their_variables() -> None:
    found = solve(
        bgp("?s :p ?a . ?s :q ?b"),
        ":x :p 1 . :x :q 2 . :y :p 3",
        ":x :p 1 . :y :q 2",
        ":x :p 1 . :x :p 2 . :x :q 3",
    )
    one, two, three = (full(str(k)) for k in (1, 2, 3))
    assert found == [
        [f"a={one} b={two} s=:x"],
        [],
        [f"a={one} b={three} s=:x", f"a={two} b={three} s=:x"],
    ]


def test_the_empty_pattern_holds_once_everywhere() -> None:
    assert solve(bgp(""), ":x :p :y", "") == [[""], [""]]


def test_a_variable_twice_in_a_triple_is_one_variable() -> None:
    data = ":x :p :x . :x :p :y . :p :p :p"
    assert solve(bgp("?a :p ?a"), data) == [["a=:p", "a=:x"]]
    assert solve(bgp("?a ?a ?b"), data) == [["a=:p b=:p"]]
    assert solve(bgp("?a ?a ?a"), data) == [["a=:p"]]


def test_predicates_may_be_variables() -> None:
    data = ":x :p :y . :y :q :x . :y :p :y"
    assert solve(bgp("?a ?p ?b . ?b ?p ?b"), data) == [["a=:x b=:y p=:p", "a=:y b=:y p=:p"]]
    assert solve(bgp(":x ?p ?o . ?o ?q :x"), data) == [["o=:y p=:p q=:q"]]


def test_constants_may_stand_anywhere() -> None:
    data = ":x :p 1 . :x :p 2 . :y :p 1"
    assert solve(bgp("?s :p 1"), data) == [["s=:x", "s=:y"]]
    assert solve(bgp(":y :p 1"), data) == [[""]]
    assert solve(bgp(":y :p 2"), data) == [[]]
    assert solve(bgp("?s ?p 2"), data) == [["p=:p s=:x"]]


def test_blank_nodes_of_a_pattern_are_variables_that_are_not_shown() -> None:
    assert solve(bgp("?s :p _:b . _:b :q ?o"), ":x :p :m . :m :q 1 . :x :p :n . :n :q 1") == [
        [f"o={full('1')} s=:x"]
    ]


def test_terms_are_matched_by_their_text_and_not_by_their_value() -> None:
    data = f':x :p 1 . :y :p "01"^^<{XSD}integer>'
    assert solve(bgp("?s :p 1"), data) == [["s=:x"]]


def test_only_what_is_kept_is_shown_and_only_once() -> None:
    data = ":x :p 1 . :x :p 2 . :y :p 1"
    assert solve(bgp("?s :p ?o"), data, keep=["s"]) == [["s=:x", "s=:y"]]
    assert solve(bgp("?s :p ?o"), data, "", keep=[]) == [[""], []]
    assert solve(bgp("?s :p ?o"), data, keep=["s", "nobody"]) == [["s=:x", "s=:y"]]


def test_large_events_are_searched_like_small_ones() -> None:
    data = " . ".join(f":s{k} :p{k % 7} :s{(k * 5) % 60}" for k in range(400))
    for text in ("?a :p1 ?b . ?b :p2 ?c", "?a ?p ?b . ?b ?p ?a", "?a :p3 :s10", ":s9 ?p ?o"):
        pattern = bgp(text)
        assert solve(pattern, data)[0] == expected(pattern, data)


def test_more_solutions_than_events_find_room() -> None:
    data = " . ".join(f":s{k} :p :o" for k in range(100))
    assert len(solve(bgp("?a :p ?x . ?b :p ?x"), data, data)[1]) == 10_000


def test_only_events_of_the_streams_asked_for_are_looked_at() -> None:
    terms = Terms()
    matcher = Matcher(bgp("?s :p ?o"), TermValues(terms))
    events = batch(terms, [triples(":x :p 1")] * 5, streams=[0, 1, 2, 1, 0])
    assert matcher.solve(events, {1}).event.tolist() == [1, 3]
    assert matcher.solve(events, {0, 2}).event.tolist() == [0, 2, 4]
    assert matcher.solve(events).event.tolist() == [0, 1, 2, 3, 4]
    assert matcher.solve(events, {7}).event.tolist() == []


def test_a_batch_without_events_has_no_solutions() -> None:
    assert solve(bgp("?s :p ?o")) == []


# ------------------------------------------------------------------- filters


def test_a_filter_sees_the_terms_of_later_batches() -> None:
    terms = Terms()
    matcher = Matcher(g.FilterPattern(bgp("?s :p ?o"), more("o", "10")), TermValues(terms))
    for k in range(8, 13):
        found = matcher.solve(batch(terms, [triples(f":x :p {k}")]))
        assert len(found.event) == (k > 10)


def test_a_filter_that_fails_is_not_true() -> None:
    pattern = g.FilterPattern(bgp("?s :p ?o"), more("o", "1"))
    assert solve(pattern, ':x :p 2 . :y :p "2" . :z :p :z') == [[f"o={full('2')} s=:x"]]
    negated = g.FilterPattern(bgp("?s :p ?o"), g.NotExpression(more("o", "1")))
    assert solve(negated, ':x :p 2 . :y :p "2" . :z :p 0') == [[f"o={full('0')} s=:z"]]


def test_a_filter_does_not_see_variables_of_other_groups() -> None:
    inner = g.FilterPattern(bgp("?s :q ?b"), more("a", "0"))
    assert solve(g.JoinPattern((bgp("?s :p ?a"), inner)), ":x :p 1 . :x :q 2") == [[]]
    outer = g.FilterPattern(g.JoinPattern((bgp("?s :p ?a"), bgp("?s :q ?b"))), more("a", "0"))
    assert len(solve(outer, ":x :p 1 . :x :q 2")[0]) == 1


def test_a_filter_on_an_unbound_variable_fails_unless_bound_is_asked() -> None:
    optional = g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b"))
    data = ":x :p 1 . :x :q 2 . :y :p 1"
    one, two = full("1"), full("2")
    assert solve(g.FilterPattern(optional, more("b", "0")), data) == [[f"a={one} b={two} s=:x"]]
    assert solve(g.FilterPattern(optional, g.NotExpression(bound("b"))), data) == [
        [f"a={one} s=:y"]
    ]
    either = g.OrExpression((more("b", "5"), more("a", "0")))
    assert len(solve(g.FilterPattern(optional, either), data)[0]) == 2


# ------------------------------------------------------------------ optional


def test_an_optional_part_is_there_or_not() -> None:
    pattern = g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b"))
    one = full("1")
    assert solve(pattern, ":x :p 1 . :x :q 1 . :y :p 1", ":y :q 1") == [
        [f"a={one} b={one} s=:x", f"a={one} s=:y"],
        [],
    ]


def test_two_optional_parts_stand_side_by_side() -> None:
    pattern = g.OptionalPattern(
        g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b")), bgp("?s :r ?c")
    )
    one = full("1")
    assert solve(pattern, ":x :p 1 . :x :r 1 . :y :p 1 . :y :q 1") == [
        [f"a={one} b={one} s=:y", f"a={one} c={one} s=:x"]
    ]


def test_the_second_optional_part_may_bind_what_the_first_did_not() -> None:
    pattern = g.OptionalPattern(
        g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b")), bgp("?s :r ?b")
    )
    data = ":x :p :a . :x :r :c . :y :p :a . :y :q :b . :y :r :c"
    assert solve(pattern, data) == [["a=:a b=:b s=:y", "a=:a b=:c s=:x"]]


def test_the_condition_of_an_optional_part_sees_both_sides() -> None:
    condition = g.ComparisonExpression("<", var("b"), var("a"))
    pattern = g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b"), condition)
    data = ":x :p 5 . :x :q 3 . :x :q 7 . :y :p 5 . :y :q 9"
    three, five = full("3"), full("5")
    assert solve(pattern, data) == [[f"a={five} b={three} s=:x", f"a={five} s=:y"]]


def test_a_filter_in_a_group_inside_an_optional_part_sees_that_group_only() -> None:
    condition = g.ComparisonExpression("<", var("b"), var("a"))
    inner = g.FilterPattern(bgp("?s :q ?b"), condition)
    assert solve(g.OptionalPattern(bgp("?s :p ?a"), inner), ":x :p 5 . :x :q 3") == [
        [f"a={full('5')} s=:x"]
    ]


def test_a_pattern_that_is_not_well_designed_is_solved_bottom_up() -> None:
    inner = g.OptionalPattern(bgp("?y :q ?b"), bgp("?x :r ?c"))
    pattern = g.OptionalPattern(bgp("?x :p ?a"), inner)
    data = ":x :p :a . :y :q :b . :z :r :c"
    # ?x is :z inside of the optional part, so that does not fit, and is not tried without ?c
    assert solve(pattern, data) == [["a=:a x=:x"]]


def test_a_group_may_begin_with_an_optional_part() -> None:
    pattern = g.JoinPattern(
        (g.OptionalPattern(g.BasicPattern(()), bgp("?s :q ?b")), bgp("?s :p ?a"))
    )
    assert solve(pattern, ":x :p :a . :x :q :b", ":x :p :a", ":x :p :a . :y :q :b") == [
        ["a=:a b=:b s=:x"],
        ["a=:a s=:x"],
        [],
    ]


# --------------------------------------------------------------------- union


def test_a_union_has_what_either_side_has() -> None:
    pattern = g.UnionPattern((bgp("?s :p ?a"), bgp("?s :q ?b")))
    assert solve(pattern, ":x :p :a . :x :q :b", ":x :q :b") == [
        ["a=:a s=:x", "b=:b s=:x"],
        ["b=:b s=:x"],
    ]


def test_what_both_sides_of_a_union_have_is_there_once() -> None:
    assert solve(
        g.UnionPattern((bgp("?s :p ?a"), bgp("?s ?p ?a"))), ":x :p :a", keep=["s", "a"]
    ) == [["a=:a s=:x"]]


def test_a_union_is_joined_with_unbound_variables() -> None:
    union = g.UnionPattern((bgp("?s :p ?a"), bgp("?s :q ?b")))
    pattern = g.JoinPattern((union, bgp("?a :r ?b")))
    data = ":x :p :a . :x :q :b . :a :r :b . :a :r :c"
    assert solve(pattern, data) == [["a=:a b=:b s=:x", "a=:a b=:c s=:x"]]


# ---------------------------------------------------------------- background

KB = {"http://x/kb": ":a :in :north . :b :in :south . :north :next :south . :a :size 7"}
SENSOR = bgp("?r :by ?s")


def kb(text: str, name: str = ":kb") -> g.BackgroundPattern:
    return g.BackgroundPattern(node(name), bgp(text))


def test_background_knowledge_is_joined_with_every_event() -> None:
    pattern = g.JoinPattern((SENSOR, kb("?s :in ?place")))
    found = solve(pattern, ":r1 :by :a", ":r2 :by :c", ":r3 :by :b . :r4 :by :a", background=KB)
    assert found == [
        ["place=:north r=:r1 s=:a"],
        [],
        ["place=:north r=:r4 s=:a", "place=:south r=:r3 s=:b"],
    ]


def test_events_are_not_looked_up_in_the_background_nor_the_other_way_round() -> None:
    assert solve(kb("?s :in ?o"), ":x :in :y", background={"http://x/kb": ":z :p :z"}) == [[]]
    assert solve(bgp("?s :in ?o"), ":x :p :y", background=KB) == [[]]


def test_background_knowledge_alone_holds_in_every_event() -> None:
    assert solve(kb("?s :size ?o"), ":x :p :y", "", background=KB) == [
        [f"o={full('7')} s=:a"],
        [f"o={full('7')} s=:a"],
    ]


def test_background_knowledge_may_be_optional_and_filtered() -> None:
    extra = g.BackgroundPattern(node(":kb"), g.FilterPattern(bgp("?s :size ?n"), more("n", "5")))
    pattern = g.OptionalPattern(SENSOR, extra)
    seven = full("7")
    assert solve(pattern, ":r :by :a", ":r :by :b", background=KB) == [
        [f"n={seven} r=:r s=:a"],
        ["r=:r s=:b"],
    ]
    outside = g.FilterPattern(g.JoinPattern((SENSOR, kb("?s :size ?n"))), more("n", "8"))
    assert solve(outside, ":r :by :a", background=KB) == [[]]


def test_patterns_over_the_background_use_all_ways_into_it() -> None:
    for text, found in {
        "?s :in :south": ["s=:b"],
        ":a ?p ?o . ?o ?q ?z": ["o=:north p=:in q=:next z=:south"],
        "?s ?p :south": ["p=:in s=:b", "p=:next s=:north"],
        "?s :in ?x . ?x :next ?y . ?t :in ?y": ["s=:a t=:b x=:north y=:south"],
    }.items():
        assert solve(kb(text), ":x :p :y", background=KB) == [found]


def test_a_graph_variable_ranges_over_all_loaded_graphs() -> None:
    two = {"http://x/k1": ":a :in :north", "http://x/k2": ":a :in :south . :k2 :in :x"}
    pattern = g.JoinPattern((SENSOR, kb("?s :in ?o", "?g")))
    assert solve(pattern, ":r :by :a", background=two) == [
        ["g=:k1 o=:north r=:r s=:a", "g=:k2 o=:south r=:r s=:a"]
    ]
    assert solve(kb("?g :in ?o", "?g"), ":r :by :a", background=two) == [["g=:k2 o=:x"]]


def test_two_background_graphs_may_be_chained() -> None:
    two = {"http://x/k1": ":a :in :north", "http://x/k2": ":north :cold true"}
    pattern = g.JoinPattern((kb("?o :cold ?c", ":k2"), kb("?s :in ?o", ":k1"), SENSOR))
    assert solve(pattern, ":r :by :a", ":r :by :b", background=two) == [
        [f"c={full('true')} o=:north r=:r s=:a"],
        [],
    ]


def test_a_graph_that_is_not_loaded_is_named_with_those_that_are() -> None:
    with pytest.raises(DataError, match=r"no background graph <http://x/other> .*<http://x/kb>"):
        solve(kb("?s ?p ?o", ":other"), "", background=KB)
    with pytest.raises(DataError, match="loaded: none"):
        solve(kb("?s ?p ?o"), "")


def test_too_many_solutions_in_the_background_are_refused() -> None:
    large = {"http://x/kb": " . ".join(f":s{k} :p :o" for k in range(50))}
    assert len(solve(kb("?a :p ?o"), "", background=large, budget=50)[0]) == 50
    with pytest.raises(BudgetError, match="more than 2,000 solutions"):
        solve(kb("?a :p ?o . ?b :p ?o"), "", background=large, budget=2000)
    total = g.ComparisonExpression("=", g.ArithmeticExpression("+", var("a"), var("b")), var("c"))
    hopeless = g.FilterPattern(bgp("?a :p ?x . ?b :p ?y . ?c :p ?z"), total)
    with pytest.raises(BudgetError, match="triples to look at"):
        solve(g.BackgroundPattern(node(":kb"), hopeless), "", background=large, budget=100)


def test_a_mistake_in_a_filter_is_found_when_the_matcher_is_built() -> None:
    wrong = g.FilterPattern(bgp("?s :p ?o"), g.CallExpression("STR", ()))
    with pytest.raises(QueryError, match="STR takes 1 argument, here are 0"):
        Matcher(wrong, TermValues(Terms()))


# ---------------------------------------------------------- values and absence


def call(name: str, *arguments: g.Expression) -> g.CallExpression:
    return g.CallExpression(name, arguments)


def bind(pattern: g.GraphPattern, name: str, expression: g.Expression) -> g.BindPattern:
    return g.BindPattern(pattern, var(name), expression)


def test_iris_are_relative_to_a_base() -> None:
    base = g.Term("<http://x/a/b>")
    made = bind(bgp("?s :p ?t"), "i", call("IRI", var("t"), base))
    assert solve(made, ':x :p "c" . :x :p "../d" . :x :p "urn:e"')[0] == [
        'i=:a/c s=:x t="c"',
        'i=:d s=:x t="../d"',
        'i=<urn:e> s=:x t="urn:e"',
    ]


def test_a_filter_of_optional_may_ask_exists_of_both_sides() -> None:
    asked = g.ExistsExpression(bgp("?b :r ?a"))
    pattern = g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b"), asked)
    assert solve(pattern, ":x :p 1 . :x :q :y . :x :q :z . :z :r 1 . :v :p 1 . :v :q :y") == [
        [f"a={full('1')} b=:z s=:x", f"a={full('1')} s=:v"]
    ]


def test_a_bound_value_is_a_term_in_its_canonical_form() -> None:
    total = g.ArithmeticExpression("+", var("a"), g.Term(full("0.50")))
    assert solve(bind(bgp("?s :p ?a"), "b", total), ":x :p 1 . :y :p :z") == [
        [f"a={full('1')} b={full('1.5')} s=:x", "a=:z s=:y"]
    ]


def test_a_bound_value_can_be_joined_and_filtered() -> None:
    double = g.ArithmeticExpression("*", var("a"), g.Term(full("2")))
    joined = g.JoinPattern((bind(bgp("?s :p ?a"), "b", double), bgp("?t :q ?b")))
    assert solve(joined, ":x :p 2 . :y :q 4 . :z :q 5") == [
        [f"a={full('2')} b={full('4')} s=:x t=:y"]
    ]
    large = g.FilterPattern(bind(bgp("?s :p ?a"), "b", double), more("b", "5"))
    assert solve(large, ":x :p 2 . :x :p 3") == [[f"a={full('3')} b={full('6')} s=:x"]]


def test_functions_of_two_variables_and_of_computed_values() -> None:
    text = call("CONCAT", call("STR", var("a")), g.Term('"-"'), call("STR", var("b")))
    pattern = bind(bgp("?s :p ?a . ?s :q ?b"), "c", text)
    assert solve(pattern, ':x :p "u" . :x :q "v"') == [['a="u" b="v" c="u-v" s=:x']]
    kind = call("DATATYPE", g.ArithmeticExpression("+", var("a"), var("b")))
    decimal = g.ComparisonExpression("=", kind, g.Term(f"<{XSD}decimal>"))
    found = solve(
        g.FilterPattern(bgp("?s :p ?a . ?s :q ?b"), decimal),
        ":x :p 1 . :x :q 2.5 . :x :q 2",
    )
    assert found == [[f"a={full('1')} b={full('2.5')} s=:x"]]


def test_a_pattern_of_regex_may_be_a_variable_and_one_that_is_none_does_not_fit() -> None:
    pattern = g.FilterPattern(bgp("?s :p ?a . ?s :q ?b"), call("REGEX", var("a"), var("b")))
    assert solve(pattern, ':x :p "abc" . :x :q "^a" . :x :q "^b" . :x :q "("') == [
        ['a="abc" b="^a" s=:x']
    ]


def test_values_made_for_a_batch_are_dropped_with_it() -> None:
    terms = Terms()
    values = TermValues(terms)
    text = call("CONCAT", call("STR", var("s")), call("STR", var("a")))
    pattern = g.FilterPattern(bgp("?s :p ?a"), call("CONTAINS", text, g.Term('"9"')))
    matcher = Matcher(pattern, values)
    sizes = []
    for k in range(5):
        data = " . ".join(f':x{k} :p "{k}{i}"' for i in range(50))
        assert len(matcher.solve(batch(terms, [triples(data)])).event) == 5
        sizes.append((values._made, len(values._interned)))
    assert len(set(sizes)) == 1


def test_dates_and_durations_are_written() -> None:
    begin, end = (
        f'"{text}"^^<{XSD}dateTime>' for text in ("2020-02-29T23:30:00Z", "2020-03-01T01:00:00.5Z")
    )
    between = g.ArithmeticExpression("-", var("b"), var("a"))
    pattern = bind(bgp("?s :p ?a . ?s :q ?b"), "d", between)
    later = bind(pattern, "e", g.ArithmeticExpression("+", var("b"), var("d")))
    (row,) = solve(later, f":x :p {begin} . :x :q {end}")[0]
    assert f'd="PT1H30M0.5S"^^<{XSD}dayTimeDuration>' in row
    assert f'e="2020-03-01T02:30:01Z"^^<{XSD}dateTime>' in row


def test_triple_terms_are_taken_apart_and_made() -> None:
    inner = '<<( <http://x/a> <http://x/p> "x \\"y"@en )>>'
    outer = f"<<( <http://x/b> <http://x/q> {inner} )>>"
    terms = Terms()
    pattern: g.GraphPattern = bgp("?s :says ?t")
    for name, function in {"b": "SUBJECT", "q": "PREDICATE", "i": "OBJECT"}.items():
        pattern = bind(pattern, name, call(function, var("t")))
    pattern = bind(pattern, "x", call("OBJECT", var("i")))
    pattern = bind(pattern, "again", call("TRIPLE", var("b"), var("q"), var("i")))
    pattern = bind(pattern, "no", call("isTRIPLE".upper(), var("x")))
    events = batch(terms, [[(full(":s"), full(":says"), outer)]])
    ((_, row),) = list_rows(Matcher(pattern, TermValues(terms)).solve(events), terms)
    assert row == {
        "s": full(":s"), "t": outer, "again": outer, "i": inner, "no": full("false"),
        "b": full(":b"), "q": full(":q"), "x": '"x \\"y"@en',
    }  # fmt: skip
    text = g.FilterPattern(bgp("?s :says ?t"), call("STRLEN", call("STR", var("t"))))
    assert len(Matcher(text, TermValues(terms)).solve(events).event) == 0


def rows_of(*rows: str) -> g.ValuesPattern:
    """VALUES (?a ?b) with these rows; `-` is UNDEF."""
    cells = [[None if t == "-" else g.Term(full(t)) for t in row.split()] for row in rows]
    return g.ValuesPattern((var("a"), var("b")), tuple(map(tuple, cells)))


def test_values_are_joined_with_every_event() -> None:
    pattern = g.JoinPattern((bgp("?s :p ?a"), rows_of(":u 1", ":v -")))
    assert solve(pattern, ":x :p :u . :y :p :v . :z :p :w", ":x :p :u") == [
        [f"a=:u b={full('1')} s=:x", "a=:v s=:y"],
        [f"a=:u b={full('1')} s=:x"],
    ]


def test_exists_asks_for_solutions_that_fit() -> None:
    exists = g.ExistsExpression(bgp("?s :q ?b"), g.ComparisonExpression("<", var("b"), var("a")))
    data = ":x :p 5 . :x :q 3 . :y :p 5 . :y :q 9"
    five = full("5")
    assert solve(g.FilterPattern(bgp("?s :p ?a"), exists), data) == [[f"a={five} s=:x"]]
    assert solve(g.FilterPattern(bgp("?s :p ?a"), g.NotExpression(exists)), data) == [
        [f"a={five} s=:y"]
    ]
    either = g.OrExpression((exists, g.ComparisonExpression("=", var("s"), g.Term(full(":y")))))
    assert len(solve(g.FilterPattern(bgp("?s :p ?a"), either), data)[0]) == 2
    answer = bind(bgp("?s :p ?a"), "c", exists)
    assert solve(answer, data) == [
        [f"a={five} c={full('false')} s=:y", f"a={five} c={full('true')} s=:x"]
    ]


def test_exists_may_look_at_background_knowledge() -> None:
    known = g.ExistsExpression(g.BackgroundPattern(node(":kb"), bgp("?s :size ?n")))
    pattern = g.FilterPattern(bgp("?r :by ?s"), known)
    assert solve(pattern, ":r :by :a . :r :by :b", background=KB) == [["r=:r s=:a"]]


def test_minus_drops_what_shares_a_variable_and_fits() -> None:
    pattern = g.MinusPattern(bgp("?s :p ?a"), bgp("?s :q ?b"))
    assert solve(pattern, ":x :p 1 . :y :p 1 . :y :q 1") == [[f"a={full('1')} s=:x"]]
    other = g.MinusPattern(bgp("?s :p ?a"), bgp("?t :q ?b"))
    assert len(solve(other, ":x :p 1 . :y :q 1")[0]) == 1
    optional = g.OptionalPattern(bgp("?s :p ?a"), bgp("?s :q ?b"))
    loose = g.MinusPattern(optional, bgp("?b :r ?c"))
    data = ":x :p :u . :x :q :v . :v :r :w . :y :p :u"
    assert solve(loose, data) == [["a=:u s=:y"]]


# --------------------------------------------------- against another engine


def expected(
    pattern: g.GraphPattern, data: str, background: dict[str, str] | None = None
) -> list[str]:
    return sorted(
        " ".join(f"{name}={short(text)}" for name, text in sorted(row.items()))
        for row in solve_with_pyoxigraph(
            pattern, triples(data), {k: triples(v) for k, v in (background or {}).items()}
        )
    )


def solve_with_pyoxigraph(
    pattern: g.GraphPattern,
    graph: Iterable[tuple[str, str, str]],
    background: dict[str, list[tuple[str, str, str]]],
) -> list[Row]:
    """What pyoxigraph finds."""
    store = ox.Store()
    lines = [" ".join(triple) + " ." for triple in graph]
    lines += [f"{' '.join(t)} <{name}> ." for name, part in background.items() for t in part]
    store.extend(ox.parse("\n".join(lines).encode(), ox.RdfFormat.N_QUADS))
    names = [name for name in g.find_variables(pattern) if not name.startswith("_:")]
    found = store.query(f"SELECT DISTINCT * WHERE {write_graph_pattern(pattern)}")
    rows = []
    for solution in found:
        row = {name: solution[name] for name in names if f"?{name}" in map(str, found.variables)}
        rows.append({name: str(term) for name, term in row.items() if term is not None})
    return rows


SUBJECTS = [":a", ":b", "_:n", "_:m"]
PREDICATES = [":p", ":q", ":r"]
OBJECTS = [*SUBJECTS, ":p", '"x"', '"y"', '"x"@en', "1", "2", "2.5", "-3", "true"]
OBJECTS += [
    f'"2.5"^^<{XSD}double>',
    f'"2020-01-01T00:00:00Z"^^<{XSD}dateTime>',
    f'"2021-01-01T00:00:00Z"^^<{XSD}dateTime>',
    f'"z"^^<{XSD}dateTime>',
    '"x"^^<http://x/t>',
]
VARIABLES = ["?a", "?b", "?c", "?d"]
GRAPHS = ["http://x/k1", "http://x/k2"]

triple = st.tuples(
    st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES), st.sampled_from(OBJECTS)
).map(lambda t: (full(t[0]), full(t[1]), full(t[2])))
small_graph = st.lists(triple, max_size=8, unique=True)
pattern_triple = st.builds(
    lambda s, p, o: g.Triple(node(s), node(p), node(o)),
    st.sampled_from([*VARIABLES, *VARIABLES, ":a", "_:v"]),
    st.sampled_from([*PREDICATES, *PREDICATES, "?a", "?d"]),
    st.sampled_from([*VARIABLES, *VARIABLES, *VARIABLES, ":b", '"x"', "2"]),
)
leaf = st.sampled_from([g.GraphVariable(name[1:]) for name in VARIABLES])
value: st.SearchStrategy[g.Expression] = st.one_of(
    leaf,
    leaf,
    st.sampled_from(["1", "2.5", '"x"', ":a", "0"]).map(lambda text: g.Term(full(text))),
    st.builds(lambda v: g.ArithmeticExpression("+", v, g.Term(full("1"))), leaf),
    st.builds(lambda v: g.CallExpression("STR", (v,)), leaf),
    st.builds(lambda v: g.CallExpression("DATATYPE", (v,)), leaf),
)
condition = st.recursive(
    st.one_of(
        st.builds(g.ComparisonExpression, st.sampled_from(["=", "!="]), value, value),
        st.builds(lambda v: g.CallExpression("BOUND", (v,)), leaf),
        st.builds(
            lambda name, v: g.CallExpression(name, (v,)),
            st.sampled_from(["ISIRI", "ISNUMERIC"]),
            leaf,
        ),
        st.builds(lambda v: more(v.name, "1"), leaf),
        st.builds(lambda v: g.ComparisonExpression("<=", v, g.Term(full("2"))), leaf),
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(g.AndExpression),
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(g.OrExpression),
        inner.map(g.NotExpression),
    ),
    max_leaves=4,
)


simple = st.builds(g.ComparisonExpression, st.sampled_from(["=", "!="]), leaf, leaf)
bound_value = st.one_of(
    st.builds(lambda v: g.ArithmeticExpression("*", v, g.Term(full("2"))), leaf),
    st.builds(lambda v, w: call("CONCAT", call("STR", v), call("STR", w)), leaf, leaf),
    st.builds(lambda v, w: call("DATATYPE", g.ArithmeticExpression("+", v, w)), leaf, leaf),
    st.builds(lambda v, w, c: call("IF", c, v, w), leaf, leaf, simple),
    st.builds(lambda v, w: call("COALESCE", g.NegativeExpression(v), call("STR", w)), leaf, leaf),
    st.builds(lambda v: call("SUBSTR", call("STR", v), g.Term(full("2"))), leaf),
)


@st.composite
def hard_conditions(draw: st.DrawFn) -> g.Expression:
    """Conditions that need columns of their own, in OPTIONAL and EXISTS of both sides."""
    if draw(st.booleans()):
        text = call("CONCAT", call("STR", draw(leaf)), call("STR", draw(leaf)))
        return g.ComparisonExpression("<", text, call("CONCAT", call("STR", draw(leaf)), text))
    asked = g.ExistsExpression(draw(patterns(0)), draw(st.one_of(st.none(), simple)))
    return g.NotExpression(asked) if draw(st.booleans()) else asked


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3, inside: bool = False) -> g.GraphPattern:
    kind = draw(st.sampled_from(range(13 if inside else 14))) if depth else 0
    if kind <= 3:
        count = draw(st.integers(0 if depth < 3 else 1, 3))
        return g.BasicPattern(tuple(draw(pattern_triple) for _ in range(count)))
    inner = patterns(depth - 1, inside or kind == 13)
    if kind == 4:
        return g.FilterPattern(draw(inner), draw(condition))
    if kind == 5:
        return g.JoinPattern(tuple(draw(st.lists(inner, min_size=2, max_size=3))))
    if kind in (6, 7):
        between = st.one_of(st.none(), condition, condition, hard_conditions())
        return g.OptionalPattern(draw(inner), draw(inner), draw(between))
    if kind == 8:
        return g.UnionPattern(tuple(draw(st.lists(inner, min_size=2, max_size=2))))
    if kind == 9:
        return g.MinusPattern(draw(inner), draw(inner))
    if kind == 10:
        part, name = draw(inner), f"n{draw(st.integers(0, 1))}"
        if name in g.find_variables(part):
            return part
        return g.BindPattern(part, var(name), draw(bound_value))
    if kind == 11:
        cells = st.sampled_from([None, ":a", ":b", "2", '"x"'])
        rows = draw(st.lists(st.tuples(cells, cells), max_size=3, unique=True))
        terms = [tuple(None if c is None else g.Term(full(c)) for c in row) for row in rows]
        return g.ValuesPattern((var("a"), var("b")), tuple(terms))
    if kind == 12:
        fewer = st.one_of(st.none(), simple, hard_conditions())
        asked = g.ExistsExpression(draw(patterns(0)), draw(fewer))
        negated = draw(st.booleans())
        return g.FilterPattern(draw(inner), g.NotExpression(asked) if negated else asked)
    part = draw(inner)
    names = [":k1", ":k2", "?g", *(["?b"] if isinstance(part, g.BasicPattern) else [])]
    return g.BackgroundPattern(node(draw(st.sampled_from(names))), part)


def rename_blanks(pattern: g.GraphPattern) -> g.GraphPattern:
    """A blank node of a pattern belongs to one basic graph pattern, as in SPARQL's syntax."""
    count = 0

    def rename(part: g.GraphPattern) -> g.GraphPattern:
        nonlocal count
        match part:
            case g.BasicPattern(some):
                count += 1

                def fresh(n: g.Node) -> g.Node:
                    hidden = isinstance(n, g.GraphVariable) and n.hidden
                    return g.GraphVariable(f"{n.name}{count}") if hidden else n

                return g.BasicPattern(tuple(g.Triple(*map(fresh, t.nodes())) for t in some))
            case g.JoinPattern(parts):
                return g.JoinPattern(tuple(map(rename, parts)))
            case g.UnionPattern(parts):
                return g.UnionPattern(tuple(map(rename, parts)))
            case g.OptionalPattern(inner, extra, between):
                asked = between and rename_asked(between)
                return g.OptionalPattern(rename(inner), rename(extra), asked)
            case g.FilterPattern(inner, only):
                return g.FilterPattern(rename(inner), rename_asked(only))
            case g.BackgroundPattern(name, inner):
                return g.BackgroundPattern(name, rename(inner))
            case g.MinusPattern(inner, removed):
                return g.MinusPattern(rename(inner), rename(removed))
            case g.BindPattern(inner, variable, expression):
                return g.BindPattern(rename(inner), variable, expression)
            case g.ValuesPattern() | g.ClosurePattern() | g.UnfoldPattern():
                return part

    def rename_asked(condition: g.Expression) -> g.Expression:
        match condition:
            case g.NotExpression(g.ExistsExpression() as asked):
                return g.NotExpression(rename_asked(asked))
            case g.ExistsExpression(inner, fewer):
                return g.ExistsExpression(rename(inner), fewer and rename_asked(fewer))
        return condition

    return rename(pattern)


INTENDED = {
    "graphs that are not loaded": "DataError here; no solutions in SPARQL. Both graphs are loaded.",
    "GRAPH ?g around another GRAPH": "binds ?g to every graph, as SPARQL's algebra has it; "
    "pyoxigraph leaves ?g unbound.",
    "GRAPH ?g with ?g in an OPTIONAL inside": "is solved bottom-up, then joined with the names; "
    "pyoxigraph lets the name in beforehand.",
    "expressions": "those of test_expressions.py.",
}
"""Where pyoxigraph and this package differ on purpose; the strategies stay clear of it."""


def as_background(terms: Terms, part: Iterable[tuple[str, str, str]]) -> Triples:
    events = batch(terms, [part])
    return Triples(events.s, events.p, events.o)


def comparable(rows: Iterable[Row]) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(row.items()) for row in rows}


@settings(max_examples=max(100, settings.default.max_examples))
@given(patterns().map(rename_blanks), st.lists(small_graph, min_size=1, max_size=4), st.data())
def test_another_engine_finds_the_same_solutions(
    pattern: g.GraphPattern, graphs: list[list[tuple[str, str, str]]], data: st.DataObject
) -> None:
    knowledge = {name: data.draw(small_graph.filter(len)) for name in GRAPHS}
    terms = Terms()
    values = TermValues(terms)
    loaded = {
        terms.code(f"<{name}>"): as_background(terms, part) for name, part in knowledge.items()
    }
    matcher = Matcher(pattern, values, loaded)
    found = list_rows(matcher.solve(batch(terms, graphs)), terms)
    assert [event for event, _ in found] == sorted(event for event, _ in found)
    for k, graph in enumerate(graphs):
        here = [row for event, row in found if event == k]
        assert len(comparable(here)) == len(here)
        assert comparable(here) == comparable(solve_with_pyoxigraph(pattern, graph, knowledge)), (
            write_graph_pattern(pattern)
        )
    keep = data.draw(st.lists(st.sampled_from("abcd"), unique=True))
    kept = Matcher(pattern, values, loaded, keep).solve(batch(terms, graphs))
    projected = {(k, frozenset((n, t) for n, t in row.items() if n in keep)) for k, row in found}
    rows = [(k, frozenset(row.items())) for k, row in list_rows(kept, terms)]
    assert len(set(rows)) == len(rows)
    assert set(rows) == projected


predicate = st.sampled_from([":p", ":q"]).map(lambda text: g.Term(full(text)))
path: st.SearchStrategy[g.Path] = st.recursive(
    st.one_of(
        predicate,
        st.builds(
            g.NegatedPath, st.tuples(predicate), st.one_of(st.just(()), st.tuples(predicate))
        ),
    ),
    lambda inner: st.one_of(
        st.builds(g.InversePath, inner),
        st.builds(g.PathChain, st.tuples(inner, inner)),
        st.builds(g.PathChoice, st.tuples(inner, inner)),
        st.builds(g.RepeatedPath, inner, st.sampled_from("*+?")),
    ),
    max_leaves=3,
)
ENDS = ["?a", "?b", "?a", ":a", ":none"]
closure = st.builds(
    g.ClosurePattern,
    st.sampled_from(ENDS).map(node),
    st.builds(g.RepeatedPath, path, st.sampled_from("*+?")),
    st.sampled_from([*ENDS, "2"]).map(node),
)


@settings(max_examples=max(66, settings.default.max_examples))
@given(closure, st.lists(small_graph, min_size=1, max_size=3), st.booleans())
def test_another_engine_and_the_definition_follow_the_same_ways(
    pattern: g.ClosurePattern, graphs: list[list[tuple[str, str, str]]], known: bool
) -> None:
    asked: g.GraphPattern = pattern
    if known:
        asked = g.BackgroundPattern(g.Term(full(":k1")), pattern)
    terms = Terms()
    background = {terms.code(f"<{GRAPHS[0]}>"): as_background(terms, graphs[0])} if known else {}
    matcher = Matcher(asked, TermValues(terms), background)
    found = list_rows(matcher.solve(batch(terms, graphs)), terms)
    for number, graph in enumerate(graphs):
        rows = [row for event, row in found if event == number]
        asked_of = {GRAPHS[0]: graphs[0]} if known else {}
        assert len(rows) == len(comparable(rows))
        # pyoxigraph does not stay at a term that the graph does not have; SPARQL 1.1 (18.4) does
        there = {part for s, _, o in (graphs[0] if known else graph) for part in (s, o)}
        ends = {end.text for end in (pattern.subject, pattern.object) if isinstance(end, g.Term)}
        if ends <= there:
            assert comparable(rows) == comparable(solve_with_pyoxigraph(asked, graph, asked_of))
        dataset = {f"<{name}>": part for name, part in asked_of.items()}
        assert comparable(rows) == comparable(find_solutions(asked, graph, dataset))


part = st.sampled_from(["?a", "?b", "?c", ":a", ":p", "1"]).map(node)
ab, pq = st.sampled_from([":a", ":b"]), st.sampled_from([":p", ":q"])
said = st.recursive(
    st.tuples(ab, pq, st.sampled_from(["1", ":a"])),
    lambda inner: st.tuples(ab, pq, inner),
    max_leaves=2,
)


def write_triple_term(parts: tuple[Any, ...]) -> str:
    inside = [write_triple_term(one) if isinstance(one, tuple) else full(one) for one in parts]
    return f"<<( {' '.join(inside)} )>>"


@given(st.tuples(part, part, part), st.lists(said, max_size=4), st.booleans())
def test_triple_terms_with_variables_are_taken_apart_as_another_engine_does(
    form: tuple[g.Node, g.Node, g.Node], terms_said: list[tuple[Any, ...]], nested: bool
) -> None:
    first, second = g.GraphVariable("_:.t"), g.GraphVariable("_:.u")
    pattern: g.GraphPattern = g.BasicPattern((g.Triple(node("?a"), node(":says"), first),))
    if nested:
        pattern = g.UnfoldPattern(pattern, first, g.Triple(node("?d"), node(":q"), second))
    pattern = g.UnfoldPattern(pattern, second if nested else first, g.Triple(*form))
    graph = [(full(":a"), full(":says"), write_triple_term(one)) for one in terms_said]
    graph.append((full(":b"), full(":says"), full(":a")))
    terms = Terms()
    found = list_rows(Matcher(pattern, TermValues(terms), {}).solve(batch(terms, [graph])), terms)
    rows = [{n: v for n, v in row.items() if not n.startswith("_:")} for _, row in found]
    assert comparable(rows) == comparable(find_visible(pattern, graph))
    if form[0] != node("1") and form[1] != node("1"):
        assert comparable(rows) == comparable(solve_with_pyoxigraph(pattern, graph, {}))


def find_visible(pattern: g.GraphPattern, graph: list[tuple[str, str, str]]) -> list[Row]:
    """The solutions by the definition, without blank nodes."""
    solutions = find_solutions(pattern, graph, {})
    return [{n: v for n, v in one.items() if not n.startswith("_:")} for one in solutions]
