"""A table of edge values for each function, and calls that try them all."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

from cernis.pattern.functions import Function
from cernis.pattern.predicate import Attribute, Call, Literal, Value

INTEGERS = [0, 1, -1, 2, 7, -7, 125, 2**53 + 1, 2**63 - 1, -(2**63), None]
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 2.675, 1.005, -2.675, 0.125, 1e16, 123456789.5,
    4503599627370497.5, 1e300, -1e300, 5e-324, 1e-7, 9.223372036854775e18, 2.0**63,
    math.inf, -math.inf, math.nan, None,
]  # fmt: skip
DECIMALS = [Decimal("0.10"), Decimal("-2.67"), Decimal("99.99"), None]
TEXTS = [
    "", " ", "a", "ABC", " abc ", "straße", "İstanbul", "ΑΣ", "naïve", "𝒳𝒴𝒵", "a😀b😀", "e\u0301",
    "a%b", "a_b", "line\nbreak", "a,b,,c", "10.1.2.3", "10.256.0.1", "01.2.3.4", "2001:db8::1",
    "12", " -7 ", "1.5", "+3", "9223372036854775808", "1e3", "NaN", "-Infinity", "true",
    "no", "\\", "1969-12-31T23:59:59.5", "2016-12-31T23:59:60", "2024-03-31T02:30:00+02:00",
    "0001-01-01", None,
]  # fmt: skip
TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1900, 2, 28, 12, 0),
    datetime(2024, 2, 29, 0, 30), datetime(2024, 3, 31, 0, 59, 59), datetime(2024, 3, 31, 1, 0),
    datetime(2024, 10, 27, 0, 30), datetime(2024, 10, 27, 1, 30),
    datetime(2016, 12, 31, 23, 59, 59), datetime(1970, 1, 1), None,
]  # fmt: skip
DATES = [date(1969, 12, 31), date(2024, 2, 29), None]
LISTS = [[], ["a"], ["a", None], [None], ["A", "a", "a"], None]
COLUMNS_OF = {
    "integers": pa.array(INTEGERS, pa.int64()),
    "floats": pa.array(FLOATS, pa.float64()),
    "decimals": pa.array(DECIMALS, pa.decimal128(9, 2)),
    "texts": pa.array(TEXTS, pa.string()),
    "times": pa.array(TIMES, pa.timestamp("us")),
    "dates": pa.array(DATES, pa.date32()),
    "lists": pa.array(LISTS, pa.list_(pa.string())),
    "booleans": pa.array([True, False, None]),
}
BY_CLASS = {
    "number": ("integers", "floats", "decimals"),
    "string": ("texts",),
    "timestamp": ("times", "dates"),
    "list": ("lists",),
    "any": ("integers", "floats", "texts"),
}
CONSTANTS: dict[str, list[tuple[Any, ...]]] = {
    "ROUND": [(), (0,), (2,), (-1,), (5,)],
    "SUBSTRING": [(1,), (2, 3), (0, 2), (-2,), (-3, 2), (-9, 8), (2, 0), (2, -1), (9, 9)],
    "REPLACE": [("a", "xy"), ("", "z"), ("😀", "")],
    "SQL_LIKE": [("a%",), ("%b",), ("_",), (r"a\%b",), ("line_break",), ("",), ("%",)],
    "SQL_ILIKE": [("A%",), ("STRASSE",), ("İ%",)],
    "REGEXP_EXTRACT": [("([a-z]+)",), ("a(.)?b", 1), ("[0-9]+", 0), ("(x)|(b)", 2)],
    "SPLIT_PART": [(",", 1), (",", 3), (",", -1), (",", 9), (",", -9), ("", 1), (",", 0)],
    "CIDR_MATCH": [("10.0.0.0/8",), ("0.0.0.0/0", "2001:db8::/32"), ("192.168.0.0/16",)],
    "CAST": [(name,) for name in ("INT", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP", "DATE")],
    "YEAR": [(), ("Europe/Berlin",), ("America/New_York",)],
    "DATE": [(), ("Europe/Berlin",)],
}
for _name in ("MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DAY_OF_WEEK"):
    CONSTANTS[_name] = CONSTANTS["YEAR"]
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
ROUNDED = {"EXP", "LN", "POWER", "HAVERSINE"}
"""The mathematical library of NumPy may differ in the last bit."""


def list_calls(function: Function) -> list[tuple[Value, dict[str, pa.Array]]]:
    """Return calls of a function with columns that hold every combination of edge values."""
    calls: list[tuple[Value, dict[str, pa.Array]]] = []
    fixed = CONSTANTS.get(function.name, [()])
    if function.name == "DATE_TRUNC":
        for unit, zone, name in product(UNITS, ((), ("Europe/Berlin",)), ("times", "dates")):
            literals = tuple(map(Literal, zone))
            call = Call(function.name, (Literal(unit), Attribute(("a",)), *literals))
            calls.append((call, {"a": COLUMNS_OF[name]}))
        return calls
    free = [i for i in range(len(function.takes)) if i not in function.constants]
    for constants in fixed:
        of_cast = ("times", "dates") if function.name == "CAST" else ()
        for names in product(*((*BY_CLASS[function.takes[i]], *of_cast) for i in free)):
            if "any" in function.takes and {*names} & {"texts"} and len({*names}) > 1:
                continue  # a clash, which the checker notes where it knows the types
            rows = list(product(*(COLUMNS_OF[name].to_pylist() for name in names)))
            if len(free) > 2:  # places on a globe
                rows = [(0.0, 0.0, 52.5, 13.4), (90.0, 0.0, -90.0, 7.0), (None, 1, 2, 3)]
                rows += [(math.nan, 1, 2, 3), (10.0, 179.0, 10.0, -179.0), (1.5, 2, 1.5, 2)]
                columns = {f"a{i}": pa.array([row[i] for row in rows], pa.float64()) for i in free}
            else:
                columns = {
                    f"a{i}": pa.array([row[k] for row in rows], COLUMNS_OF[name].type)
                    for k, (i, name) in enumerate(zip(free, names, strict=True))
                }
            free_values: list[Value] = [Attribute((name,)) for name in columns]
            arguments = (*free_values, *map(Literal, constants))
            calls.append((Call(function.name, arguments), columns))
    return calls


def normalize(value: Any) -> Any:
    """Return a value that equals itself: NaN, and times as instants."""
    if isinstance(value, float):
        return ("NaN",) if value != value else (value, math.copysign(1, value))
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value
