"""Each function on columns equals its form for single values, on a table of edge values."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from cernis.events.evaluation.attributes import calculate_attribute
from cernis.events.evaluation.evaluate import calculate_column
from cernis.events.evaluation.functions import COLUMNS
from cernis.languages.ceql.parse import parse_value
from cernis.pattern.functions import BUILTIN, FUNCTIONS, Function
from cernis.testing.predicates import evaluate_value
from tools.cases.edges import COLUMNS_OF, LISTS, ROUNDED, list_calls, normalize


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_columns_equal_single_values(name: str) -> None:
    for call, columns in list_calls(FUNCTIONS[name]):
        length = len(next(iter(columns.values())))
        found = calculate_column(call, lambda path, c=columns: c[path[0]], length).to_pylist()  # type: ignore[misc]
        rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
        for row, value in zip(rows, found, strict=True):
            event = dict(zip(columns, row, strict=True))
            wanted = evaluate_value(call, event)
            if isinstance(value, float) and isinstance(wanted, int):  # NULL tells no type
                wanted = float(wanted)
            if name in ROUNDED and isinstance(wanted, float) and math.isfinite(wanted):
                assert value == pytest.approx(wanted, rel=1e-14, abs=1e-300), (call, row)
            else:
                assert normalize(value) == normalize(wanted), (call, row, value, wanted)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda one: one.name)
def test_the_example_is_true(function: Function) -> None:
    text, arrow, wanted = function.example.partition(" → ")
    if arrow:
        found = evaluate_value(parse_value(text), {})
        expected = None if wanted == "NULL" else evaluate_value(parse_value(wanted), {})
        if isinstance(found, datetime | date):
            found = found.isoformat().removesuffix("+00:00")
        assert found == (float(expected) if isinstance(expected, Decimal) else expected)


def test_every_function_has_a_form_for_columns() -> None:
    elsewhere = {"MOD", "COALESCE", "NULLIF", "CONTAINS"}
    assert set(COLUMNS) | elsewhere == BUILTIN


def test_a_list_contains_an_element() -> None:
    table = pa.table({"args": COLUMNS_OF["lists"]})
    value = parse_value("CONTAINS(args, 'a')")
    wanted = [evaluate_value(value, {"args": each}) for each in LISTS]
    found = calculate_attribute(table, "CONTAINS(args, 'a')")
    assert found is not None
    assert found.to_pylist() == wanted == [False, True, True, None, True, None]


def test_a_column_of_the_name_comes_first() -> None:
    from cernis.events.evaluation.attributes import attribute

    table = pa.table({"LOWER(user)": ["own"], "user": ["X"]})
    own, other = attribute(table, ("LOWER(user)",)), attribute(table, ("UPPER(user)",))
    assert own is not None
    assert other is not None
    assert (own.to_pylist(), other.to_pylist()) == (["own"], ["X"])
    assert attribute(table, ("no function)",)) is None
