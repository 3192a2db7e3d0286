"""Sequences of SPAseQ as automata of links: what is read, from where, and what must agree."""

from __future__ import annotations

from textwrap import dedent

import pytest

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.automata.linked.construct import MOST_MISSING, construct_linked
from cernis.errors import QueryError
from cernis.languages.spaseq import parse

QUERY = """\
PREFIX : <http://example.org/>
{form} FROM STREAM S1 <http://example.org/1> FROM STREAM S2 <http://example.org/2>
WHERE {{ SEQ ({sequence})
  DEFINE GPM A ON S1 {{ ?a :of ?k ; :value ?v }}
  DEFINE GPM B ON S2 {{ ?b :of ?k ; :value ?w FILTER (?w > ?v) }}
  DEFINE GPM C ON S2 {{ ?c :of ?k }}
  DEFINE GPM D ON S1 {{ ?d :at ?p OPTIONAL {{ ?d :of ?k }} }}
  DEFINE GPM E ON S1 {{ ?e :at ?p }}
}} {clause}"""


def linked(sequence: str, form: str = "SELECT *", clause: str = "") -> LinkedAutomaton:
    return construct_linked(parse(QUERY.format(sequence=sequence, form=form, clause=clause)))


def same(found: LinkedAutomaton, text: str) -> None:
    lines = str(found).splitlines()
    assert lines[1:] == dedent(text).strip().splitlines()


def test_example_12_of_the_paper_has_four_states_with_its_start() -> None:
    example = parse("""
        SELECT * FROM STREAM S1 <http://example.org/1> FROM STREAM S2 <http://example.org/2>
        FROM STREAM S3 <http://example.org/3>
        WHERE { SEQ (A, B+, C)
          DEFINE GPM A ON S1 { ?a a <urn:A> } DEFINE GPM B ON S2 { ?b a <urn:B> }
          DEFINE GPM C ON S3 { ?c a <urn:C> } }
    """)
    found = construct_linked(example)
    assert 1 + len(found.states) == 4
    same(
        found,
        """
        start A → 1()
        1() , B → 2()
        2() , B → 2()
        2() , C → 3() ■
        """,
    )


def test_runs_keep_what_later_steps_compare_and_nothing_else() -> None:
    same(
        linked("A ; B : E"),
        """
        start A → 1(?k, ?v)
        1(?k, ?v) ; B on ?k if 1 condition holds → 2()
        2() : E → 3() ■
        """,
    )


def test_one_step_keeps_nothing() -> None:
    found = linked("A")
    assert found.stores == ()
    same(found, "start A → 1() ■")


def test_rounds_alone_skip_and_bind_afresh() -> None:
    found = linked("A+")
    assert found.local == (frozenset({"a", "k", "v"}),)
    same(found, "start A → 1() ■\n1() ; A → 1() ■")


def test_rounds_in_a_sequence_follow_at_once() -> None:
    same(
        linked("A ; C+ ; E"),
        """
        start A → 1(?k)
        1(?k) ; C on ?k → 2(?k)
        2(?k) , C on ?k → 2(?k)
        2(?k) ; E → 3() ■
        """,
    )


def test_a_step_that_may_be_left_out_has_a_way_around_it() -> None:
    same(
        linked("A ; C? , E"),
        """
        start A → 1(?k)
        1(?k) ; C on ?k → 2()
        1(?k) , E → 3() ■
        2() , E → 3() ■
        """,
    )


def test_a_negated_step_is_a_guard_of_those_who_wait() -> None:
    same(
        linked("A ; C! ; E"),
        """
        start A → 1(?k)
        1(?k) ; E → 3() ■
        1(?k) ; waits for step 3: not C on ?k
        """,
    )


def test_alternatives_are_transitions_side_by_side() -> None:
    same(
        linked("(A & C) | E"),
        """
        start A & C → 1() ■
        start E → 1() ■
        """,
    )


def test_a_variable_that_may_be_missing_makes_two_readings() -> None:
    same(
        linked("D ; C"),
        """
        start D without ?k → 1()
        start D → 1(?k)
        1() ; C → 2() ■
        1(?k) ; C on ?k → 2() ■
        """,
    )


def test_a_missing_variable_that_nobody_asks_for_makes_one() -> None:
    same(linked("D ; E"), "start D → 1(?p)\n1(?p) ; E on ?p → 2() ■")


def test_a_key_is_no_variable_of_a_round() -> None:
    assert linked("C+").local == (frozenset({"c", "k"}),)
    assert linked("C+", clause="PARTITION BY (?k)").local == (frozenset({"c"}),)


def test_columns_are_what_steps_compare_or_the_answer_tells() -> None:
    assert linked("A ; B", "SELECT ?a").columns == ("a", "k", "v", "w")
    assert linked("A", "SELECT ?a").columns == ("a",)
    assert linked("A ; E", "CONSTRUCT { ?a a ?e }").columns == ("a", "e")


@pytest.mark.parametrize(
    ("sequence", "rivals"),
    [
        ("A ; B", []),
        ("A+", []),
        ("A+ ; B+", []),
        ("A | E", []),
        ("A | (A & E)", []),
        ("A+ ; E?", [{0, 1}]),
        ("A ; B+ ; E? ; C ; D", []),
        ("A ; B+ ; C? ; D", [{1, 2}]),
        ("A? ; E ; D? ; C", [{0, 1}, {1, 2}]),
        ("A? ; E", []),
    ],
)
def test_it_is_known_which_steps_two_runs_may_differ_in(
    sequence: str, rivals: list[set[int]]
) -> None:
    assert linked(sequence).rivals == frozenset(map(frozenset, rivals))


def test_an_exit_tells_what_a_later_step_compares_and_the_answer_hides() -> None:
    exits = linked("A ; B+ ; C", "SELECT ?a ?b LIST(?w)").exits
    assert [(one.step, one.following, one.told, one.hidden) for one in exits] == [
        (0, 1, ("a",), ("k", "v")),
        (1, 1, ("w",), ()),
        (1, 2, ("b", "w"), ()),
        (2, -1, (), ()),
    ]


def test_too_many_variables_that_may_be_missing_are_refused() -> None:
    several = range(MOST_MISSING + 1)
    optional = " ".join(f"OPTIONAL {{ ?x :p{i} ?v{i} }}" for i in several)
    needed = " ; ".join(f":p{i} ?v{i}" for i in several)
    query = parse(f"""PREFIX : <http://example.org/>
        SELECT * FROM STREAM S <http://example.org/s> WHERE {{ SEQ (A ; B)
        DEFINE GPM A ON S {{ ?x a :X {optional} }} DEFINE GPM B ON S {{ ?y {needed} }} }}""")
    with pytest.raises(QueryError, match="7 variables of A may be unbound and are asked for"):
        construct_linked(query)


def test_long_sequences_are_planned_without_a_search_for_two_ways() -> None:
    found = linked(" ; ".join(["E?"] * 60 + ["A"]))
    assert len(found.rivals) == 61 * 60 // 2
    assert len(found.exits) == 61 * 60 // 2 + 1
