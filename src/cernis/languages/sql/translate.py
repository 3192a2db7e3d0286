"""What the SQL library leaves untranslated between dialects: TO_CHAR, DUAL, `/`, and DATEDIFF.

`translate` follows the library's parser. Formats of TO_CHAR become those of `strftime`, which the
library writes for each host; a format with other elements is refused, and so are those of numbers.
Oracle's table DUAL becomes a query of one row.

Functions for the time between two times count full units (Trino, Flink, Spark, Databricks), or
where a unit ends and the next begins (DuckDB, Snowflake): between 10:59 and 11:01 lies no hour, or
one. The library takes both for the same. `translate` makes the first a `TimestampDiff` and the
second a `DateDiff`, and `write_differences` writes both for a host.

`write_division` runs when the host is known. `/` of whole numbers truncates in Trino, Flink and
RisingWave. DuckDB has an operator that truncates whole numbers and divides all others. Spark has
none: its text asks for the types of the operands, and the result is a DOUBLE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from cernis.errors import Diagnostic, QueryError, Span

_ELEMENTS = {
    "YYYY": "%Y",
    "YY": "%y",
    "MM": "%m",
    "MON": "%b",
    "DD": "%d",
    "DY": "%a",
    "HH24": "%H",
    "HH12": "%I",
    "HH": "%I",
    "MI": "%M",
    "SS": "%S",
    "FF6": "%f",
    "AM": "%p",
    "PM": "%p",
}
_LEXEME = re.compile(
    rf"({'|'.join(sorted(_ELEMENTS, key=len, reverse=True))})|\"([^\"%]*)\"|[-/.,:; ]",
    re.IGNORECASE,
)
_NATIVE = ("duckdb", "spark", "databricks")
"""Dialects of hosts, which read their own formats."""
_FULL_UNITS = ("trino", "flink", "spark", "databricks")
"""Dialects whose functions count full units."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")


def translate(tree: exp.Expr, dialect: str, text: str, offset: int) -> exp.Expr:
    """Return a tree with TO_CHAR and DUAL translated; its text stands at an offset of a statement.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT TO_CHAR(t, 'DD-MON-YY') FROM dual", dialect="oracle")
    >>> translate(tree, "oracle", "", 0).sql("duckdb")
    "SELECT UPPER(STRFTIME(t, '%d-%b-%y')) FROM (SELECT 'X' AS DUMMY) AS dual"
    """

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.ToChar) and node.args.get("format") is not None:
            return _translate_to_char(node, dialect, text, offset)
        is_dual = isinstance(node, exp.Table) and not node.db and node.name.upper() == "DUAL"
        if is_dual and dialect in ("oracle", "snowflake"):
            row = exp.select(exp.alias_(exp.Literal.string("X"), "DUMMY"))
            return row.subquery(node.alias or node.name, copy=False)
        if isinstance(node, exp.DateDiff) and _counts_full_units(node, dialect):
            sides = {"this": node.this, "expression": node.expression}
            return exp.TimestampDiff(**sides, unit=node.args["unit"])
        return node

    return tree.transform(change, copy=False)


def _translate_to_char(node: exp.ToChar, dialect: str, text: str, offset: int) -> exp.Expr:
    form = node.args["format"]
    if dialect in _NATIVE:
        return exp.Anonymous(this="TO_CHAR", expressions=[node.this, form])
    told = str(form.this) if isinstance(form, exp.Literal) else ""
    written, at = "", 0
    while at < len(told) and (lexeme := _LEXEME.match(told, at)):
        element, quoted = lexeme.groups()
        written += _ELEMENTS[element.upper()] if element else quoted or lexeme[0].strip('"')
        at = lexeme.end()
    if not told or at < len(told):
        start = offset + node.meta.get("start", 0)
        if "start" in form.meta:
            start = offset + form.meta["start"]
        span = Span(start, max(offset + form.meta.get("end", 0) + 1, start + 1))
        known = ", ".join(_ELEMENTS)
        message = "TO_CHAR: only formats of times are supported"
        raise QueryError([Diagnostic(message, span, expected=f"a text of {known}")], text)
    changed = exp.TimeToStr(this=node.this, format=exp.Literal.string(written))
    names = re.findall("MON|DY", told, re.IGNORECASE)
    if dialect == "oracle" and names and all(name.isupper() for name in names):
        return exp.Upper(this=changed)
    return changed


def _counts_full_units(node: exp.DateDiff, dialect: str) -> bool:
    if dialect not in _FULL_UNITS or node.args.get("unit") is None:
        return False  # DATEDIFF(later, earlier) of Spark counts days
    places = [_find_place(node.expression), _find_place(node.this)]
    return dialect != "databricks" or places == sorted(places)


def _find_place(tree: exp.Expr) -> int:
    """Return where a tree begins in its text; 0: the library does not say."""
    return min((int(one.meta.get("start", 0)) for one in tree.find_all(exp.Identifier)), default=0)


def write_differences(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return a tree whose times between times count on the host as they do in their dialect.

    >>> import sqlglot
    >>> full = sqlglot.parse_one("date_diff('hour', a, b)", dialect="trino")
    >>> full = translate(full, "trino", "", 0)
    >>> write_differences(full, "duckdb").sql("duckdb")
    "DATE_SUB('HOUR', a, b)"
    >>> begun = sqlglot.parse_one("DATEDIFF(hour, a, b)", dialect="snowflake")
    >>> write_differences(begun, "spark").sql("spark")
    "TIMESTAMPDIFF(HOUR, DATE_TRUNC('HOUR', a), DATE_TRUNC('HOUR', b))"
    """

    def change(node: exp.Expr) -> exp.Expr:
        unit = node.args.get("unit")
        if unit is None:
            return node
        if isinstance(node, exp.TimestampDiff) and dialect == "duckdb":
            parts = [exp.Literal.string(unit.name), node.expression, node.this]
            return exp.Anonymous(this="DATE_SUB", expressions=parts)
        if isinstance(node, exp.DateDiff) and dialect == "spark":
            sides = {
                name: exp.TimestampTrunc(this=node.args[name], unit=unit.copy())
                for name in ("this", "expression")
            }
            return exp.TimestampDiff(**sides, unit=unit)
        return node

    return tree.transform(change, copy=False)


def write_division(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return a tree whose divisions of whole numbers truncate where those of its dialect do.

    >>> import sqlglot
    >>> write_division(sqlglot.parse_one("a / b", dialect="trino"), "duckdb").sql("duckdb")
    'a // b'
    """
    found = [one for one in tree.find_all(exp.Div) if one.args.get("typed")]
    types = [exp.and_(*map(_is_whole, _list_operands(one))) for one in found]
    for node, are_whole in reversed([*zip(found, types, strict=True)]):  # inner ones first
        plain = exp.Div(this=node.left.copy(), expression=node.right.copy())
        changed: exp.Expr = exp.IntDiv(this=node.left.copy(), expression=node.right.copy())
        if dialect != "duckdb":
            whole = exp.cast(exp.cast(plain.copy(), "bigint"), "double")
            changed = exp.If(this=are_whole, true=whole, false=plain)
        if node is tree:
            return changed
        node.replace(changed)
    return tree


def _list_operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the values that a calculation is made of."""
    if isinstance(node, exp.Paren | exp.Neg):
        yield from _list_operands(node.this)
    elif isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        yield from _list_operands(node.left)
        yield from _list_operands(node.right)
    else:
        yield node


def _is_whole(value: exp.Expr) -> exp.Expr:
    return exp.func("typeof", value.copy()).isin(*map(exp.Literal.string, _WHOLE))
