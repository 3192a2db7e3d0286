from __future__ import annotations

from typing import Any

import pytest

from cernis.pattern.predicate import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    InRange,
    InSet,
    IsNull,
    Like,
    Literal,
    Negation,
    Negative,
    Or,
    Predicate,
)
from cernis.testing.predicates import evaluate_value, holds, read_attribute, truth

NAN = float("nan")
P = Attribute(("p",))
TRUE = Comparison("=", Literal(1), Literal(1))
FALSE = Comparison("=", Literal(1), Literal(2))
UNKNOWN = Comparison("=", Attribute(("absent",)), Literal(1))


def p(found: Any) -> dict[str, Any]:
    return {"p": found}


@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [
        (1, "=", 1.0, True),
        (1, "<", 1.5, True),
        (2, "<=", 1, False),
        ("a", "<", "b", True),
        ("B", "<", "a", True),
        (True, "=", True, True),
        (False, "<", True, True),
        (None, "=", 1, None),
        (None, "!=", 1, None),
        ("1", "=", 1, None),
        ("1", "!=", 1, None),
        (True, "=", 1, None),
        (NAN, "=", NAN, False),
        (NAN, "!=", NAN, True),
        (NAN, "<", 1, False),
        (NAN, ">=", 1, False),
        (NAN, "=", None, None),
    ],
)
def test_a_comparison_is_true_false_or_unknown(
    left: Any, op: Any, right: Any, expected: bool | None
) -> None:
    event = {"l": left, "r": right}
    assert truth(Comparison(op, Attribute(("l",)), Attribute(("r",))), event) is expected


def test_a_missing_attribute_is_null() -> None:
    assert truth(Comparison("=", P, Literal(1)), {}) is None
    assert truth(IsNull(P), {}) is True


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, False, True),
        (TRUE, UNKNOWN, None, True),
        (FALSE, FALSE, False, False),
        (FALSE, UNKNOWN, False, None),
        (UNKNOWN, UNKNOWN, None, None),
    ],
)
def test_and_and_or_follow_the_table_of_three_values(
    left: Predicate, right: Predicate, both: bool | None, either: bool | None
) -> None:
    for parts in ((left, right), (right, left)):
        assert truth(And(parts), {}) is both
        assert truth(Or(parts), {}) is either


def test_not_unknown_is_unknown_and_neither_holds() -> None:
    assert truth(Negation(UNKNOWN), {}) is None
    assert not holds(UNKNOWN, {})
    assert not holds(Negation(UNKNOWN), {})
    assert holds(Negation(FALSE), {})


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", 1, 2, 3),
        ("-", 1, 2.5, -1.5),
        ("*", 2**62, 4, 2**64),
        ("/", 3, 2, 1.5),
        ("/", 3, 0, None),
        ("/", 3.0, 0.0, None),
        ("%", 7, 3, 1),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", -7.5, 2, -1.5),
        ("%", 7, 0, None),
        ("+", None, 1, None),
        ("+", "a", 1, None),
        ("*", True, 1, None),
    ],
)
def test_arithmetic(op: Any, left: Any, right: Any, expected: Any) -> None:
    event = {"l": left, "r": right}
    assert evaluate_value(Arithmetic(op, Attribute(("l",)), Attribute(("r",))), event) == expected


def test_the_negative_of_a_number_and_of_anything_else() -> None:
    assert evaluate_value(Negative(P), p(3)) == -3
    assert evaluate_value(Negative(P), p("3")) is None
    assert evaluate_value(Negative(P), p(None)) is None


@pytest.mark.parametrize(
    ("regex", "text", "expected"),
    [
        ("ab", "ab", True),
        ("ab", "abc", False),
        ("a|b", "ab", False),
        ("a.*", "a", True),
        (r"\d", "٣", False),
        ("", "", True),
        ("a", None, None),
        ("1", 1, None),
    ],
)
def test_like_matches_the_whole_string(regex: str, text: Any, expected: bool | None) -> None:
    assert truth(Like(P, regex), p(text)) is expected


def test_in_a_set_is_a_chain_of_equalities() -> None:
    one_or_x = InSet(P, (Literal(1), Literal("x")))
    assert truth(one_or_x, p(1)) is True
    assert truth(one_or_x, p(2)) is None  # 2 = 1 is false, 2 = 'x' unknown
    assert truth(InSet(P, (Literal(1),)), p(2)) is False
    assert truth(InSet(P, (Literal(1),)), p(None)) is None


def test_in_a_range_has_both_ends() -> None:
    found = [truth(InRange(P, Literal(1), Literal(3)), p(v)) for v in (0, 1, 3, 3.5, None, "2")]
    assert found == [False, True, True, False, None, None]


def test_is_null_is_never_unknown() -> None:
    assert [truth(IsNull(P), p(v)) for v in (None, 0, NAN)] == [True, False, False]
    assert [truth(IsNull(P, negated=True), p(v)) for v in (None, 0)] == [False, True]


def test_a_nested_attribute_is_reached_by_its_path() -> None:
    path = Attribute(("a", "b"))
    assert read_attribute(path, {"a": {"b": 3}}) == 3
    assert read_attribute(path, {"a": {}}) is None
    assert read_attribute(path, {"a": 3}) is None
