"""Golden prints: what each operator becomes."""

from __future__ import annotations

from textwrap import dedent

import pytest

from cernis.automata.unary.construct import construct
from cernis.automata.unary.mermaid import draw_cea
from cernis.errors import BudgetError
from cernis.languages.ceql.parse import parse
from cernis.pattern.formula import Event, Sequence
from cernis.pattern.waits import is_nullable


def automaton(formula: str) -> str:
    return str(construct(parse(f"SELECT * WHERE {formula}").formula))


GOLDEN = {
    "A": """
        > 0  A / A → 1
        ^ 1
    """,
    "S>A": """
        > 0  S>A / A → 1
        ^ 1
    """,
    "A AS x ; B": """
        > 0  A / A,x → 1
          1  * / - → 1
             B / B → 2
        ^ 2
    """,
    "A AS x -> B": """
        > 0  A / A,x → 1
          1  not B / - → 1
             B / B → 2
        ^ 2
    """,
    "A -> (B OR C) FILTER B[v > 1]": """
        > 0  A / A → 1
          1  not (B [v > 1] or C) / - → 1
             B [v > 1] / B → 2
             C / C → 2
        ^ 2
    """,
    "A : B": """
        > 0  A / A → 1
          1  B / B → 2
        ^ 2
    """,
    "A OR B": """
        > 0  A / A → 1
             B / B → 1
        ^ 1
    """,
    "A+": """
        > 0  A / A → 1
          1  ε → 3
             ε → 2
          2  * / - → 2
             ε → 0
        ^ 3
    """,
    "A:+": """
        > 0  A / A → 1
          1  ε → 2
             ε → 0
        ^ 2
    """,
    "A : B? : C": """
        > 0  A / A → 1
          1  B / B → 2
             ε → 2
          2  C / C → 3
        ^ 3
    """,
    "A:{2,3}": """
        > 0  A / A → 1
          1  A / A → 2
          2  A / A → 3
             ε → 3
        ^ 3
    """,
    "(A AS x ; B AS y) FILTER x[p > 1] AND y[q = 'n']": """
        > 0  A [p > 1] / A,x → 1
          1  * / - → 1
             B [q = 'n'] / B,y → 2
        ^ 2
    """,
    "(A AS x) FILTER x[p > 1] OR x[q < 2]": """
        > 0  A [p > 1] / A,x → 1
             A [q < 2] / A,x → 1
        ^ 1
    """,
    "A : NOT (B FILTER B[p > 1])": """
        > 0  A / A → 1
          1  not (B [p > 1]) / - → 2
        ^ 2
    """,
    "A ALL B": """
        > 0  all of 1…2, 3…4 → 5
          1  A / A → 2
          2
          3  B / B → 4
          4
        ^ 5
    """,
    "(A ; C) UNLESS B": """
        > 0  ε → 1
          1  A / A → 2
             within scope 0
          2  * / - → 2
             C / C → 4
             within scope 0
          3  B / B → 5
          4  ε → 6
             within scope 0
          5  (end of a guard)
        ^ 6
        scope 0: unless 3 … 5
    """,
}


@pytest.mark.parametrize("formula", GOLDEN)
def test_each_operator_has_its_automaton(formula: str) -> None:
    assert automaton(formula) == dedent(GOLDEN[formula]).strip("\n")


def test_an_automaton_prints_itself_as_a_mermaid_diagram() -> None:
    cea = construct(parse("SELECT * WHERE A : B").formula)
    assert draw_cea(cea) == dedent(
        """\
        stateDiagram-v2
          direction LR
          [*] --> s0
          s0 --> s1 : A / A
          s1 --> s2 : B / B
          s2 --> [*]"""
    )


@pytest.mark.parametrize("operator", [" ; ", " : ", " OR "])
def test_the_automaton_is_linear_in_the_formula(operator: str) -> None:
    def size(n: int) -> int:
        cea = construct(parse("SELECT * WHERE " + operator.join(["(A OR B)+"] * n)).formula)
        return cea.size + sum(map(len, cea.reads)) + sum(map(len, cea.silent))

    assert size(40) - size(20) == 2 * (size(20) - size(10))


def test_bounds_that_unroll_too_far_are_refused() -> None:
    with pytest.raises(BudgetError, match="unrolls to 1,000,000 copies"):
        automaton("A{2,1000000}")


def test_nested_bounds_that_unroll_too_far_are_refused() -> None:
    with pytest.raises(BudgetError, match="more than 50,000 automaton states"):
        automaton("((A{300}){300}){300}")


def test_a_sequence_may_be_left_out_only_if_all_of_it_may() -> None:
    formula = parse("SELECT * WHERE A? ; B?").formula
    assert is_nullable(formula)
    assert not is_nullable(Sequence((formula, Event("C"))))
