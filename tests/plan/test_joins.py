"""Which formulas are joins of single events, and what their variables are."""

from __future__ import annotations

import pytest

from cernis.automata.correlated.between import How
from cernis.automata.correlated.hierarchical import JoinAtom
from cernis.languages.ceql import parse
from cernis.plan.joins import EventJoin, recognize_join


def join(text: str) -> EventJoin | None:
    return recognize_join(parse(f"SELECT * FROM S WHERE {text}").formula)


def columns(text: str) -> list[dict[str, str]]:
    found = join(text)
    assert found is not None
    return [dict(atom.columns) for atom in found.atoms]


def only(text: str) -> JoinAtom:
    found = join(text)
    assert found is not None
    return found.atoms[0]


def test_equal_attributes_are_one_variable() -> None:
    assert columns("(A AS x ALL B AS y) FILTER x[k] = y[k]") == [{"k": "k"}, {"k": "k"}]


def test_a_variable_is_called_by_all_its_attributes() -> None:
    assert columns("(A AS x ALL B AS y) FILTER x[user] = y[owner]") == [
        {"user=owner": "user"},
        {"user=owner": "owner"},
    ]


def test_equality_is_transitive() -> None:
    text = "(A AS x ALL B AS y ALL C AS z) FILTER x[k] = y[k] AND y[k] = z[k]"
    assert columns(text) == [{"k": "k"}] * 3


def test_filters_inside_each_other_count_together() -> None:
    text = "((A AS x ALL B AS y ALL C AS z) FILTER x[k] = y[k]) FILTER y[l] = z[l]"
    assert columns(text) == [{"k": "k"}, {"k": "k", "l": "l"}, {"l": "l"}]


def test_types_are_names_too() -> None:
    assert columns("(A ALL B) FILTER A[k] = B[k]") == [{"k": "k"}] * 2


def test_events_of_one_type_are_is_unique_for_their_variables() -> None:
    text = "(A AS x ALL A AS y) FILTER x[k] = y[k]"
    assert columns(text) == [{"k": "k"}] * 2
    found = join(text)
    assert found is not None
    assert found.own == (frozenset({"x"}), frozenset({"y"}))
    assert found.is_unique_for(frozenset({"x", "y"}))
    assert not found.is_unique_for(frozenset({"x", "A"}))


def test_two_variables_with_the_same_attributes_have_different_names() -> None:
    text = "(A AS x ALL B AS y ALL C AS z ALL D AS w) FILTER x[k] = y[k] AND z[k] = w[k]"
    assert columns(text) == [{"k": "k"}, {"k": "k"}, {"k#1": "k"}, {"k#1": "k"}]


def test_two_attributes_of_one_event_in_one_variable_are_compared_there() -> None:
    text = "(A AS x ALL B AS y) FILTER x[k] = y[k] AND x[l] = y[k]"
    assert columns(text) == [{"k=l": "k"}, {"k=l": "k"}]
    assert str(only(text).test) != str(only("(A AS x ALL B AS y) FILTER x[k] = y[k]").test)
    assert "l" in str(only(text).test)


def test_an_attribute_compared_with_one_of_the_same_event_is_no_join() -> None:
    assert columns("(A AS x ALL B AS y) FILTER x[k] = x[l] AND x[m] = y[m]") == [
        {"k=l": "k", "m": "m"},
        {"m": "m"},
    ]


def test_what_one_event_is_asked_goes_into_its_test() -> None:
    text = "(A AS x ALL B AS y) FILTER x[k] = y[k] AND x[v > 3]"
    found = join(text)
    assert found is not None
    assert [v.how for v in found.verdicts] == [How.EQUAL, How.UNARY]
    assert "v" in str(only(text).test)
    assert found.texts == ("A AS x", "B AS y")


def test_events_without_any_condition_are_a_join_without_variables() -> None:
    assert columns("A ALL B") == [{}, {}]


def test_several_names_of_one_event_are_all_its_own() -> None:
    found = join("((A AS x) AS v ALL B AS y) FILTER v[k] = y[k] AND x[l] = y[l]")
    assert found is not None
    assert found.own[0] == frozenset({"A", "x", "v"})
    assert found.variables == (("k", "l"), ("k", "l"))


@pytest.mark.parametrize(
    "text",
    [
        # not single events, not ALL
        "(A AS x ; B AS y) FILTER x[k] = y[k]",
        "(A AS x ALL (B ; C) AS y) FILTER x[k] = y[k]",
        "(A AS x ALL B+ AS y) FILTER x[k] = y[k]",
        "(A AS x ALL (B OR C) AS y) FILTER x[k] = y[k]",
        "(A ALL B) OR C",
        "A",
        # not equalities
        "(A AS x ALL B AS y) FILTER x[k] != y[k]",
        "(A AS x ALL B AS y) FILTER x[k] < y[k]",
        "(A AS x ALL B AS y) FILTER x[k] = y[k] OR x[l] = y[l]",
        # a name that several events have stands for all of them
        "(A AS x ALL A AS y ALL B AS z) FILTER A[k] = z[k]",
        "(A AS x ALL A AS y) FILTER A[v > 3]",
        "(A ALL A AS y) FILTER A[k] = y[k]",
        "(A AS x ALL B AS x ALL C AS z) FILTER x[k] = z[k]",
        # a name for all of it
        "((A ALL B) AS m ALL C AS z) FILTER m[k] = z[k]",
        "((A AS x ALL B AS y) PARTITION BY [k]) AS m",
    ],
)
def test_anything_else_is_not_a_join(text: str) -> None:
    assert join(text) is None
