"""Decimals and constants: each digit that is written counts, up to 76 of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis import pattern as p
from cernis.languages.ceql import parse
from cernis.testing import oracle
from tools.cases.differential import assert_agrees

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
TYPES = [
    pa.decimal128(18, 2),
    pa.decimal128(20, 2),
    pa.decimal128(34, 0),
    pa.decimal128(38, 0),
    pa.decimal128(38, 10),
    pa.decimal128(38, 18),
    pa.decimal128(38, 38),
    pa.decimal256(50, 3),
    pa.decimal256(76, 0),
    pa.decimal256(76, 40),
]
RULES = "RULE r{i} AS SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[v = {c}] AND b[v = {c}]\n"

CONDITIONS = [
    "a[v {op} {c}]",
    "a[{c} {op} v]",
    "a[NOT (v {op} {c})]",
    "a[v {op} {c} OR v = {d}]",
    "a[v IN {{{c}, {d}, 1.5, 7}}]",
    "a[v IN {{{c}..{d}}}]",
    "a[-v {op} -({c})]",
    "a[n.v {op} {c}]",
    "a[v {op} w]",
    "a[v] {op} b[v]",
    "a[v] {op} b[w]",
    "-a[v] {op} -b[v]",
    "a[v] {op} {c}",
    "MIN(a[v]) {op} {c} AND a[v] != b[v]",
    "SUM(b[v]) {op} {c} AND a[v] != b[v]",
    "a[v] {op} {c} OR b[w] {op} {d}",
]
"""`c` and `d` are constants, near the values of `v` and `w`."""


@contextmanager
def any_length() -> Iterator[None]:
    with localcontext(prec=200):
        yield


def near(unscaled: int, scale: int) -> Decimal:
    with any_length():
        return Decimal(unscaled).scaleb(-scale)


@st.composite
def numbers(draw: st.DrawFn) -> tuple[pa.DataType, list[Decimal], list[Decimal]]:
    """A type, decimals of it that lie close together, and constants that lie among them."""
    type_ = draw(st.sampled_from(TYPES))
    most = 10**type_.precision - 1
    digits = draw(st.integers(1, type_.precision))
    middle = draw(st.integers(-(10**digits) + 1, 10**digits - 1))
    some = st.integers(-2, 2).map(lambda step: max(-most, min(most, middle + step)))
    values = draw(st.lists(some, min_size=4, max_size=8))
    between = st.sampled_from([0, 0, 1, 5, 9])
    constants = [near(draw(some) * 10 + draw(between), type_.scale + 1) for _ in range(2)]
    return type_, [near(value, type_.scale) for value in values], constants


def write(constant: Decimal) -> str:
    """A constant as a person writes it: with a point."""
    digits = f"{constant:f}"
    return digits if "." in digits else f"{digits}.0"


@pytest.mark.parametrize("condition", CONDITIONS)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(numbers(), st.sampled_from(OPERATORS))
def test_decimals_and_constants_agree_with_the_oracle(
    condition: str, drawn: tuple[pa.DataType, list[Decimal], list[Decimal]], op: str
) -> None:
    type_, values, (c, d) = drawn[0], drawn[1], sorted(drawn[2])
    events: list[dict[str, Any]] = [
        {"type": "AB"[i % 2], "ts": i, "v": value, "w": values[-i], "n": {"v": value}}
        for i, value in enumerate(values)
    ]
    table = pa.table(
        {
            "type": [event["type"] for event in events],
            "ts": [event["ts"] for event in events],
            "v": pa.array(values, type_),
            "w": pa.array([event["w"] for event in events], type_),
            "n": pa.array([event["n"] for event in events], pa.struct({"v": type_})),
        }
    )
    filtered = condition.format(op=op, c=write(c), d=write(d))
    pattern = parse(f"SELECT * FROM S WHERE (A AS a ; B AS b) FILTER {filtered}")
    assert parse(str(pattern)) == pattern
    assert_agrees(pattern, events, list(cernis.query(pattern).run(table)))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(numbers(), st.sampled_from(OPERATORS))
def test_groups_of_decimals_agree_with_the_oracle(
    drawn: tuple[pa.DataType, list[Decimal], list[Decimal]], op: str
) -> None:
    type_, values, (c, _) = drawn
    table = pa.table({"type": ["A"] * len(values), "v": pa.array(values, type_)})
    pattern = parse(
        "SELECT COUNT(*) AS n FROM S WHERE A AS a GROUP BY END "
        f"HAVING SUM(a[v]) {op} {write(c)} AND MAX(a[v]) {op} {write(c)}"
    )
    events = [{"type": "A", "v": value} for value in values]
    found = cernis.query(pattern).run(table).to_arrow()["end"].to_pylist()
    assert [(end,) for end in found] == [
        group.when for group in oracle.evaluate_groups(pattern, events)
    ]


LONG = ["9007199254740992.01", "9007199254740992.02", "9007199254740992.03"]
EVENTS = pa.table(
    {
        "type": ["A", "B", "A"],
        "ts": [1, 2, 3],
        "v": pa.array(map(Decimal, LONG), pa.decimal128(18, 2)),
        "k": [9007199254740993] * 3,
    }
)


def rows(query: str, lang: str = "ceql", events: Any = EVENTS) -> list[int]:
    return [match.start for match in cernis.query(query, lang=lang).run(events)]


def test_a_constant_keeps_its_digits_until_the_type_of_its_column_is_known() -> None:
    assert rows("SELECT * FROM S WHERE A AS a FILTER a[v < 9007199254740992.02]") == [0]
    assert rows("SELECT * FROM S WHERE A AS a FILTER a[k < 9007199254740993.5]") == [0, 2]
    assert rows("SELECT * FROM S WHERE A AS a FILTER a[k > 9007199254740993.5]") == []
    assert rows("SELECT * FROM S WHERE A AS a FILTER a[k IN {9007199254740993.0, 1, 2}]") == [0, 2]
    doubles = EVENTS.set_column(2, "v", pa.array([0.1, 0.2, 0.30000000000000004]))
    equal = "SELECT * FROM S WHERE A AS a FILTER a[v = {}]"
    assert rows(equal.format("0.1"), events=doubles) == [0]
    assert rows(equal.format("0.30000000000000004"), events=doubles) == [2]
    assert rows(equal.format("0.3"), events=doubles) == []


def test_a_constant_of_a_conjunctive_query_keeps_its_digits() -> None:
    assert rows("Q(k) <- A(v: 9007199254740992.03, k: k)", "cq") == [2]
    assert rows("Q(v) <- A(v: v), v < 9007199254740992.03", "cq") == [0]


def test_a_constant_of_the_builder_keeps_its_digits() -> None:
    limit = Decimal("9007199254740992.02")
    query = p.select().where(p.event("A").where(p.attr("v") < limit))
    assert str(query).endswith("A[v < 9007199254740992.02]")
    assert [match.start for match in cernis.query(query.build()).run(EVENTS)] == [0]
    assert str(p.attr("v") < Decimal("0.10")) == "v < 0.1"
    with pytest.raises(cernis.QueryError, match="out of range"):
        p.attr("v") < Decimal("1e-999")  # noqa: B015


def test_rules_that_ask_for_a_decimal_get_its_events() -> None:
    cents = [Decimal(n).scaleb(-2) for n in range(50)]
    values = [*cents, *cents]
    events = pa.table({"type": ["A"] * 50 + ["B"] * 50, "v": pa.array(values, pa.decimal128(9, 2))})
    rules = cernis.rules("".join(RULES.format(i=i, c=f"{c + 0:f}") for i, c in enumerate(cents)))
    assert all(len(list(matches)) == 1 for matches in rules.run(events).values())
    digits = [near(9007199254740992 * 100 + n, 2) for n in range(50)]
    column = pa.array([*digits, *digits], pa.decimal128(20, 2))
    rules = cernis.rules("".join(RULES.format(i=i, c=f"{c:f}") for i, c in enumerate(digits)))
    found = rules.run(events.set_column(1, "v", column))
    assert all(len(list(matches)) == 1 for matches in found.values())


@pytest.mark.parametrize("number", ["1e999", "1e-999", "0.5e-999999999999999999999"])
def test_a_number_that_is_no_float_is_refused_where_it_stands(number: str) -> None:
    with pytest.raises(cernis.QueryError, match=r"column 43: the number is out of range(.|\n)*\^"):
        cernis.query(f"SELECT * FROM S WHERE A AS a FILTER a[v < {number}]")


@pytest.mark.parametrize("type_", [pa.decimal128(38, 0), pa.decimal256(40, 0)])
def test_decimals_of_more_than_34_digits_keep_their_order(type_: pa.DataType) -> None:
    large = 10 ** (type_.precision - 1)
    column = pa.array([large, large + 1, large + 2], type_)
    events = EVENTS.set_column(2, "v", column)
    query = cernis.query("SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[v] < b[v]")
    assert query.run(events).count() == 1
    falling = cernis.query("SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[v] > b[v]")
    assert falling.run(events).count() == 0
    assert "more than 34 digits" in str(query.explain(events))


def test_longer_decimals_than_the_first_events_have_are_refused() -> None:
    session = cernis.query("SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[v] < b[v]").session()
    session.push([{"type": "A", "v": Decimal("1.5")}])
    with pytest.raises(cernis.DataError) as raised:
        session.push([{"type": "B", "v": Decimal(10**37 + 1)}])
    assert str(raised.value) == (
        "'v' holds decimals of more than 34 digits, whose order can be compared only where that is "
        "known before the query runs; give the column one type from the first events on"
    )


@pytest.mark.parametrize(
    "formula",
    [
        "(A AS a ; B AS b) FILTER b[v] {op} 2 * a[v]",
        "(A AS a ; B AS b) FILTER -b[v] {op} ROUND(a[v], 1) * -3",
        "(A AS a ; B AS b) FILTER b[v] {op} ROUND(a[v], 1) AND b[v] {op} a[v]",
        "(A AS a ; B AS b) FILTER NOT b[v] {op} a[n] + 1",
        "(A AS a : B AS b) FILTER PREV(a)[v] * 2 {op} b[v]",
        "(A AS a ; B AS b) UNLESS (B AS c FILTER c[v] {op} 2 * a[v])",
    ],
)
def test_beside_a_calculated_number_a_decimal_is_the_nearest_float(formula: str) -> None:
    values = [
        ("A", "1.10", 2),
        ("B", "2.20", 3),
        ("A", "1.10", 2),
        ("B", "3.30", 5),
        ("B", "3.00", 3),
    ]
    events = [{"type": type_, "v": Decimal(v), "n": n} for type_, v, n in values]
    columns = {name: [event[name] for event in events] for name in ("type", "v", "n")}
    table = pa.table({**columns, "v": pa.array(columns["v"], pa.decimal128(10, 2))})
    for op in OPERATORS:
        query = cernis.query(f"SELECT * WHERE {formula.format(op=op)}")
        assert_agrees(query.pattern, events, list(query.run(table)))
