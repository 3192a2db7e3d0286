"""The reference of functions, made from the table of functions."""

from __future__ import annotations

from cernis.pattern.functions import FUNCTIONS, Function

_HEAD = """\
# Functions

<!-- Generated from src/cernis/pattern/functions.py by `make pages`. -->

A function stands wherever a value stands: between the brackets of an event, in conditions between
events, in `SELECT`, `ORDER BY`, `HAVING`, `PARTITION BY [LOWER(user)]`, `JOIN … ON LOWER(a) =
t.b`, and inside aggregates, as in `SUM(x[price] * x[amount])`. Names of functions are no keywords:
an attribute may be called `hour`, and `HOUR(` is the function.

`LOWER(x[a])` is `x[LOWER(a)]`: a function of the attributes of one event is an attribute of that
event. So in `FILTER` it is asked of every event of x, and two of them are compared as attributes
are, with an index. In a term, x holds one event, or the function stands inside an aggregate.

- **NULL.** An argument that is NULL, or of another type, makes the value NULL, unless the line
  says otherwise.
- **Spark.** A value is that of Spark SQL in ANSI mode. Where Spark raises an error for one value,
  as for an overflow, a division by zero or a text that is no number, the value is NULL. `FLOOR`
  and `CEIL` of NaN are NULL as well.
- **Decimals** count as the nearest double in functions of numbers, as they do in arithmetic.
- **Times** are in UTC unless a time zone is named: `HOUR(ts, 'Europe/Berlin')`. The zone of those
  that name none is set by `cernis.query(text, time_zone='Europe/Berlin')`, `cernis.rules(…,
  time_zone=…)` or `cernis --time-zone Europe/Berlin run …`; the query then has it in each call, on
  Spark as well. The zone of a Spark session does not matter. Text in ISO 8601 is read as a time;
  without a zone of its own it counts as UTC.
- **Cost.** What depends on one event is computed once for a batch, on whole columns. On Spark,
  Catalyst computes the functions marked *Catalyst* before events travel to Python; it gives the
  same bits. The others run in the Python workers, where the mathematical library and regular
  expressions are those of the embedded engine. A key of `PARTITION BY` with one of those crosses to
  Python once more, before the shuffle.

`LIKE` takes a regular expression that matches the whole text, as in the papers on CEQL. `MATCHES`
is another word for it that says so. The wildcards of SQL have the names `SQL_LIKE` and
`SQL_ILIKE`: a second operator that is spelt almost like `LIKE` and means something else would be
mistaken for it.

`IF` and `CASE` take conditions on one event or on several: `IF(a[v] > b[v], a[v], b[v])`. A
function that is true or false may be an argument: `COALESCE(CONTAINS(name, 'x'), FALSE) = TRUE`.
`NOT` stands before any condition; it holds where the condition is false, and an unknown one stays
unknown.

Your own functions are registered in Python: see [your own score](../how-to/own-function.md).
"""

_CHOICES = (
    (
        "IF(condition, value, value)",
        "The first value if the condition holds, else the second.",
        "IF(price > 5, 'high', 'low')",
    ),
    (
        "CASE WHEN condition THEN value … [ELSE value] END",
        "The value of the first condition that holds; NULL without one.",
        "CASE WHEN hour < 6 THEN 'night' ELSE 'day' END",
    ),
)
"""What is no function, but stands beside COALESCE: its conditions are no values."""

_LISTS = (
    (
        "ANY(list, name -> condition)",
        "Whether the condition is true of an element, which has the name; a condition itself.",
        "ANY(arguments, a -> a = '-enc' OR STARTS_WITH(a, '-e'))",
    ),
)
"""What stands beside SIZE."""

_BY_CATALYST = frozenset({"FLOOR", "CEIL", "LEAST", "GREATEST", "MOD", "COALESCE", "NULLIF"})
"""Computed by Catalyst with more than one function of Spark."""


def write_functions_page() -> str:
    """Return the page of all functions of the package, by group."""
    groups: dict[str, list[Function]] = {}
    for function in FUNCTIONS.values():
        groups.setdefault(function.group, []).append(function)
    parts = [_HEAD]
    for group, functions in groups.items():
        parts.append(f"## {group}\n")
        lines = "| function | meaning | example | on Spark |\n|---|---|---|---|\n"
        lines += "".join(map(_write_line, functions))
        if group == "Choice":
            lines += "".join(f"| `{a}` | {b} | `{c}` | Catalyst |\n" for a, b, c in _CHOICES)
        if group == "Lists":
            lines += "".join(f"| `{a}` | {b} | `{c}` | Python |\n" for a, b, c in _LISTS)
        parts.append(lines)
    return "\n".join(parts)


def _write_line(function: Function) -> str:
    signature = function.signature.replace("→ same", "→ the same")
    if function.name == "CAST":
        signature = "CAST(value AS type)"
    summary = function.summary.replace("|", "\\|")
    is_native = bool(function.spark) or function.name in _BY_CATALYST
    where = "Catalyst" if is_native else "Python"
    return f"| `{signature}` | {summary} | `{function.example}` | {where} |\n"
