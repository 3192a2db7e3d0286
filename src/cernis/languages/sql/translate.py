"""What the SQL library leaves untranslated between dialects, or translates wrongly.

`translate` follows the library's parser. Formats of Oracle's TO_CHAR and of Trino's
FORMAT_DATETIME become those of `strftime` (`formats`), which are written for each host; a format
with other elements is refused, and so are those of numbers. Oracle's table DUAL becomes a query of
one row. Only the host knows whether its TRUNC without a format is of a time or of a number.

Functions for the time between two times count full units (Trino, Flink, Spark, Databricks), or
where a unit ends and the next begins (DuckDB, Snowflake): between 10:59 and 11:01 lies no hour, or
one. The library takes both for the same. `translate` makes the first a `TimestampDiff` and the
second a `DateDiff`, and `write_differences` writes both for a host.

On Spark, the library adds days whatever the unit is, and truncates times to days or to NULL.
`write_differences` writes intervals and DATE_TRUNC, and gives ROW_NUMBER an order, which Spark
wants. Oracle's TRUNC with a format and Flink's FLOOR to a unit become DATE_TRUNC, too. Days of the
week count from 0, Sunday, between the two passes.

Hints are advice to another database, and left out.

`write_division` runs when the host is known. `/` of whole numbers truncates in Trino, Flink and
RisingWave. DuckDB has an operator that truncates whole numbers and divides all others. Spark has
none: its text asks for the types of the operands, and the result is a DOUBLE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import sqlglot
from sqlglot import exp

from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.sql.formats import (
    JODA_ELEMENTS,
    ORACLE_ELEMENTS,
    read_joda_format,
    read_oracle_format,
    unquote_java_format,
    write_spark_format,
)
from cernis.languages.sql.row_numbers import refuse_row_numbers, replace_row_numbers

_NATIVE = ("duckdb", "spark", "databricks")
"""Dialects of hosts, which read their own formats."""
_JAVA = ("spark", "databricks", "flink")
"""Dialects whose formats of times have quotes around words."""
_STRFTIME = "strftime"
"""The note at a function that its format is one of `strftime`, whichever host runs it."""
_WHOLE_OR_DAY = "@trunc"
"""Oracle's TRUNC without a format: of a number, or of a time."""
_TRUNC = {
    "duckdb": sqlglot.parse_one(
        """cast_to_type(CASE
            WHEN typeof(x) LIKE 'TIMESTAMP%' OR typeof(x) = 'DATE'
            THEN CAST(CAST(CAST(x AS TEXT) AS DATE) AS TEXT)
            WHEN typeof(x) IN ('FLOAT', 'DOUBLE')
            THEN CAST(trunc(CAST(CAST(x AS TEXT) AS DOUBLE)) AS TEXT)
            ELSE split_part(CAST(x AS TEXT), '.', 1) END, x)""",
        dialect="duckdb",
    ),
    "spark": sqlglot.parse_one(
        """from_csv(CASE
            WHEN typeof(x) LIKE 'timestamp%' OR typeof(x) = 'date'
            THEN CAST(CAST(CAST(x AS STRING) AS DATE) AS STRING)
            WHEN typeof(x) IN ('float', 'double')
            THEN CAST(CAST(CAST(x AS STRING) AS DOUBLE)
              - CAST(CAST(x AS STRING) AS DOUBLE) % 1 AS STRING)
            WHEN CAST(x AS STRING) LIKE '%E-%' THEN '0'
            ELSE split_part(CAST(x AS STRING), '.', 1) END, concat('v ', typeof(x))).v""",
        dialect="spark",
    ),
}
"""Oracle's TRUNC of a time or a number x. All branches are texts: they must have one type."""
_SPARK_FUNCTIONS = {
    exp.TimeToStr: "DATE_FORMAT",
    exp.StrToTime: "TO_TIMESTAMP",
    exp.StrToDate: "TO_DATE",
}
_CLOCK = re.compile("%-?[HIMSfp]")
_TRUNC_UNITS = {
    **dict.fromkeys(("HH24", "HH12", "HH"), "HOUR"),
    **dict.fromkeys(("DD", "DDD", "J"), "DAY"),
    **dict.fromkeys(("MM", "MON", "MONTH"), "MONTH"),
    **dict.fromkeys(("YYYY", "YYY", "YY", "Y", "YEAR"), "YEAR"),
    "MI": "MINUTE",
    "Q": "QUARTER",
    "IW": "WEEK",
}
"""The units of the formats of Oracle's TRUNC."""
_FROM_ONE = ("spark", "databricks", "flink")
"""Dialects whose DAYOFWEEK of a Sunday is 1."""
_STRICT = ("oracle", "snowflake")
"""Dialects whose GREATEST and LEAST are NULL where a value is; the library knows others."""
_JOINED = ("oracle", "spark", "databricks", "trino")
"""Dialects whose LISTAGG joins texts with nothing between them; the library writes a comma."""
_PARTS_OF_DAYS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_THREE = exp.Literal.number(3)
_TIMESTAMP_LITERAL = "%Y-%m-%d %H:%M:%S.%f"
"""The format that the library reads Oracle's TIMESTAMP '…' with."""
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
        match node:
            case exp.Select() if dialect not in _NATIVE:
                node.set("hint", None)
                if dialect == "oracle":
                    replace_row_numbers(node)
            case exp.TimeToStr() | exp.StrToTime() | exp.StrToDate():
                return _translate_format(node, dialect)
            case exp.ToChar() if node.args.get("format") is not None:
                return _translate_to_char(node, dialect, text, offset)
            case exp.ParseDatetime() if dialect == "trino":
                form = _read_joda(node, node.args["format"], text, offset)
                return _note_format(exp.StrToTime(this=node.this, format=form))
            case exp.Anonymous(this=str(name), expressions=[value, form]) if (
                name.upper() == "FORMAT_DATETIME" and dialect == "trino"
            ):
                form = _read_joda(node, form, text, offset)
                return _note_format(exp.TimeToStr(this=value, format=form))
            case exp.Table() if not node.db and node.name.upper() == "DUAL":
                return _write_dual(node) if dialect in ("oracle", "snowflake") else node
            case exp.DateDiff() if _counts_full_units(node, dialect):
                sides = {"this": node.this, "expression": node.expression}
                return exp.TimestampDiff(**sides, unit=node.args["unit"])
            case exp.DateTrunc() if dialect == "oracle":
                return _translate_trunc(node, text, offset)
            case exp.Anonymous(this=str(name), expressions=[value]) if (
                dialect == "oracle" and name.upper() == "TRUNC"
            ):
                return exp.Anonymous(this=_WHOLE_OR_DAY, expressions=[value])
            case exp.Floor() if node.args.get("to") is not None:
                return exp.TimestampTrunc(this=node.this, unit=exp.var(node.args["to"].name))
            case exp.Anonymous(this=str(name)) if name.upper() == "NUMTODSINTERVAL":
                return _write_interval(*node.expressions)
            case exp.DayOfWeek() if dialect in _FROM_ONE:
                return exp.paren(exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
            case exp.GroupConcat() if dialect in _JOINED and node.args.get("separator") is None:
                node.set("separator", exp.Literal.string(""))
            case exp.Greatest() | exp.Least() if dialect in _STRICT:
                node.set("ignore_nulls", False)
        return node

    changed = _change_inner_first(tree, change)
    if dialect == "oracle":
        refuse_row_numbers(changed, text, offset)
    return changed


def _change_inner_first(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a tree whose nodes are changed; the method of the library leaves out arguments."""
    for node in reversed([*tree.walk()]):
        changed = change(node)
        if node is tree:
            return changed
        if changed is not node:
            node.replace(changed)
    raise AssertionError("a tree has a root")


def _translate_format(node: exp.Expr, dialect: str) -> exp.Expr:
    """Return a function whose format is one of `strftime`; formats of Java stay."""
    form = node.args.get("format")
    if form is None or form.name == _TIMESTAMP_LITERAL:
        return exp.cast(node.this, "date" if isinstance(node, exp.StrToDate) else "timestamp")
    if not isinstance(form, exp.Literal) or dialect in _JAVA:
        return node
    if dialect == "oracle":
        told = form.name.replace("RRRR", "%Y").replace("RR", "%y")
        kind = exp.StrToTime if _CLOCK.search(told) else type(node)
        node = kind(this=node.this, format=exp.Literal.string(told))
    return _note_format(node)


def _note_format(node: exp.Expr) -> exp.Expr:
    node.meta[_STRFTIME] = True
    return node


def _read_joda(node: exp.Expr, form: exp.Expr, text: str, offset: int) -> exp.Expr:
    read = read_joda_format(form.name) if isinstance(form, exp.Literal) else None
    if read is None:
        known = f"a text of {', '.join(JODA_ELEMENTS)}"
        name = "PARSE_DATETIME" if isinstance(node, exp.ParseDatetime) else "FORMAT_DATETIME"
        message = f"{name}: the format is not supported"
        raise QueryError([Diagnostic(message, _locate(form, node, offset), known)], text)
    return exp.Literal.string(read)


def _translate_trunc(node: exp.DateTrunc, text: str, offset: int) -> exp.Expr:
    form = node.args["unit"]
    unit = _TRUNC_UNITS.get(form.name.upper())
    if unit is None:
        known = ", ".join(_TRUNC_UNITS)
        found = Diagnostic(
            "TRUNC: the format is not supported", _locate(form, node, offset), f"one of {known}"
        )
        raise QueryError([found], text)
    return exp.TimestampTrunc(this=node.this, unit=exp.var(unit))


def _locate(part: exp.Expr, node: exp.Expr, offset: int) -> Span:
    """Return the span of a part of a node, or of the node."""
    start = offset + part.meta.get("start", node.meta.get("start", 0))
    return Span(start, max(offset + part.meta.get("end", 0) + 1, start + 1))


def _write_dual(node: exp.Table) -> exp.Expr:
    row = exp.select(exp.alias_(exp.Literal.string("X"), "DUMMY"))
    return row.subquery(node.alias or node.name, copy=False)


def _write_interval(number: exp.Expr, unit: exp.Expr) -> exp.Expr:
    """Return an interval of a number of units."""
    if isinstance(number, exp.Literal):
        return exp.Interval(this=exp.Literal.string(number.name), unit=exp.var(unit.name.upper()))
    one = exp.Interval(this=exp.Literal.string("1"), unit=exp.var(unit.name.upper()))
    return exp.paren(exp.Mul(this=exp.paren(number.copy()), expression=one))


def _translate_to_char(node: exp.ToChar, dialect: str, text: str, offset: int) -> exp.Expr:
    form = node.args["format"]
    if dialect in _NATIVE:
        return exp.Anonymous(this="TO_CHAR", expressions=[node.this, form])
    told = str(form.this) if isinstance(form, exp.Literal) else ""
    written = read_oracle_format(told)
    if written is None:
        span = _locate(form, node, offset)
        known = ", ".join(ORACLE_ELEMENTS)
        message = "TO_CHAR: only formats of times are supported"
        raise QueryError([Diagnostic(message, span, expected=f"a text of {known}")], text)
    form = exp.Literal.string(written)
    changed = _note_format(exp.TimeToStr(this=node.this, format=form))
    names = re.findall("MON|DY", told, re.IGNORECASE)
    if dialect == "oracle" and names and all(name.isupper() for name in names):
        return exp.Upper(this=changed)
    return changed


def _counts_full_units(node: exp.DateDiff, dialect: str) -> bool:
    if dialect not in _FULL_UNITS or node.args.get("unit") is None:
        return False  # DATEDIFF(later, earlier) of Spark counts days
    starts = [_find_start(node.expression), _find_start(node.this)]
    return dialect != "databricks" or starts == sorted(starts)


def _find_start(tree: exp.Expr) -> int:
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
        if isinstance(node, exp.Anonymous) and node.this == _WHOLE_OR_DAY:
            return _write_trunc(node.expressions[0], dialect)
        if isinstance(node, exp.AddMonths) and node.args.get("preserve_end_of_month"):
            return _write_months(node)
        return _write_for_spark(node) if dialect == "spark" else _write_for_duckdb(node)

    return _change_inner_first(tree, change)


def _write_trunc(value: exp.Expr, dialect: str) -> exp.Expr:
    """Return a number without its fraction, or a time without its time of the day."""
    tree = _TRUNC[dialect].copy()
    for column in [*tree.find_all(exp.Column)]:
        column.replace(value.copy())
    return tree


def _write_months(node: exp.AddMonths) -> exp.Expr:
    """Return a time some months later; the last day of a month becomes one, with its clock."""
    day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
    months = _write_interval(node.expression, exp.var("MONTH"))
    time = exp.paren(node.this)
    following = exp.Add(this=time, expression=day)
    later = exp.Sub(this=exp.Add(this=following, expression=months), expression=day)
    is_last = exp.EQ(this=exp.Day(this=following.copy()), expression=exp.Literal.number(1))
    same = exp.Add(this=time.copy(), expression=months.copy())
    return exp.Case().when(is_last, later).else_(same)


def _write_for_duckdb(node: exp.Expr) -> exp.Expr:
    unit = node.args.get("unit")
    match node:
        case exp.Select():
            node.set("hint", None)
        case exp.TimestampDiff() if unit is not None:
            parts = [exp.Literal.string(unit.name), node.expression, node.this]
            return exp.Anonymous(this="DATE_SUB", expressions=parts)
        case exp.AddMonths():
            months = _write_interval(node.expression, exp.var("MONTH"))
            return exp.cast(exp.Add(this=node.this, expression=months), "date")
        case exp.TimeToStr() | exp.StrToTime() | exp.StrToDate():
            form = node.args.get("format")
            if isinstance(form, exp.Literal) and not node.meta.get(_STRFTIME):
                node.set("format", exp.Literal.string(unquote_java_format(form.name)))
    return node


def _write_for_spark(node: exp.Expr) -> exp.Expr:
    unit = node.args.get("unit")
    match node:
        case exp.TimeToStr() | exp.StrToTime() | exp.StrToDate() if node.meta.get(_STRFTIME):
            is_read = not isinstance(node, exp.TimeToStr)
            form = write_spark_format(node.args["format"].name, reads=is_read)
            if form is not None:
                name = _SPARK_FUNCTIONS[type(node)]
                return exp.Anonymous(this=name, expressions=[node.this, exp.Literal.string(form)])
        case exp.DateDiff() if unit is not None:
            sides = {
                name: exp.TimestampTrunc(this=node.args[name], unit=unit.copy())
                for name in ("this", "expression")
            }
            return exp.TimestampDiff(**sides, unit=unit)
        case exp.DateAdd() | exp.DateSub() if unit is not None:
            calculate = exp.Add if isinstance(node, exp.DateAdd) else exp.Sub
            number = node.expression
            if isinstance(number, exp.Cast):  # the library's own
                number = number.this
            if unit.name.upper() == "QUARTER":
                number, unit = exp.Mul(this=exp.paren(number), expression=_THREE), exp.var("MONTH")
            return exp.paren(calculate(this=node.this, expression=_write_interval(number, unit)))
        case exp.DateTrunc() if unit is not None and unit.name.upper() in _PARTS_OF_DAYS:
            return exp.TimestampTrunc(this=node.this, unit=exp.var(unit.name))
        case exp.Window(this=exp.RowNumber()) if node.args.get("order") is None:
            node.set("order", exp.Order(expressions=[exp.Ordered(this=exp.null())]))
        case exp.DayOfWeek():
            days = exp.Anonymous(this="DAYOFWEEK", expressions=[node.this])
            return exp.paren(exp.Sub(this=days, expression=exp.Literal.number(1)))
        case exp.DayOfWeekIso():
            days = exp.Anonymous(this="WEEKDAY", expressions=[node.this])
            return exp.paren(exp.Add(this=days, expression=exp.Literal.number(1)))
        case exp.RegexpLike() if node.args.get("full_match"):
            whole = [exp.Literal.string("^(?:"), node.expression, exp.Literal.string(")$")]
            return exp.RegexpLike(this=node.this, expression=exp.func("CONCAT", *whole))
        case exp.Greatest() | exp.Least() if node.args.get("ignore_nulls") is False:
            missing = exp.or_(
                *(
                    exp.Is(this=one.copy(), expression=exp.null())
                    for one in (node.this, *node.expressions)
                )
            )
            plain = type(node)(this=node.this, expressions=node.expressions, ignore_nulls=True)
            return exp.If(this=missing, true=exp.null(), false=plain)
    return node


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
