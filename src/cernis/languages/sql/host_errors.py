"""What a host says of a statement, with the location of the name that it is about.

A host sees SQL that Cernis has written, so its own line numbers mean nothing to the user. It does
name what it does not know: a column, a function, a table. The first of these names that stands in
the user's statement, outside of strings and comments, is the location.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from cernis.errors import CernisError, DataError, Diagnostic, QueryError, Span
from cernis.languages.sql.translate import write_differences, write_division

_NAMED = re.compile(r"[\"'`]([^\"'`]+)[\"'`]|with name (\S+)")
_KIND = re.compile(r"^(?:\[[A-Z_.]+\] )?(?:[A-Z][a-z]+ )*Error: |^\[[A-Z_.0-9]+\] ")
_TABLE = re.compile(r"\b(?:table|view)\b.* (?:does not exist|cannot be found)", re.IGNORECASE)
_DATA = re.compile(r"^(?:Conversion|Invalid Input|Out of Range) Error|^\[(?:CAST_|ARITHMETIC_)")
_NO_TRUTH = re.compile(r"coalesce", re.IGNORECASE)
"""The condition of a mask stands in COALESCE, which wants a truth value."""
_LEXEME = re.compile(
    r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|\"(?:[^\"]|\"\")*\"|`[^`]*`|[^\W\d]\w*", re.DOTALL
)


def write_host_sql(tree: exp.Expr, dialect: str, text: str) -> str:
    """Return a part of a statement in the SQL of a host; refuse what it has no words for."""
    try:
        written = write_differences(write_division(tree.copy(), dialect), dialect)
        return written.sql(dialect, unsupported_level=ErrorLevel.IMMEDIATE)
    except UnsupportedError as error:
        told = str(error).rstrip(".")
        span = _find_function(told, text)
        raise QueryError([Diagnostic(told[:1].lower() + told[1:], span)], text) from None


def _find_function(message: str, text: str) -> Span | None:
    """Return where a function stands that the library calls by the name of its class."""
    for name in re.findall(r"'(\w+)'", message):
        kind = getattr(exp, name, None)
        if isinstance(kind, type) and issubclass(kind, exp.Func):
            for lexeme in _LEXEME.finditer(text):
                if lexeme[0].upper() in kind.sql_names():
                    return Span(*lexeme.span())
    return None


def find_culprit(writers: Iterable[tuple[Span | None, Any]], fails: Any) -> Span | None:
    """Return the span of the first expression that a host refuses when it stands alone."""
    return next((span for span, writer in writers if fails(writer)), None)


def explain_host_error(message: str, text: str, part: Span | None = None) -> CernisError:
    """Return an error of a host as one of the statement; `part` is the span of the expression.

    >>> print(explain_host_error('Binder Error: Referenced column "x" not found', "SELECT x"))
    line 1, column 8: referenced column "x" not found
      SELECT x
             ^
    """
    first, _, rest = message.strip().partition("\n")
    span = find_named(first, text, part) or part
    if span is None:
        return DataError(message.partition("Candidate functions:")[0].strip())
    told = _KIND.sub("", first).rstrip("!.")
    if _NO_TRUTH.search(told) and "coalesce" not in text[span.start : span.end].lower():
        told = "the condition is neither true nor false"
    help_ = rest.strip().partition("\n")[0].replace('"', "'")
    suggestion = None if not help_ or help_.endswith(":") else help_[:1].lower() + help_[1:]
    found = Diagnostic(told[:1].lower() + told[1:], span, suggestion=suggestion)
    if _TABLE.search(first) or _DATA.search(first):  # the statement may be right
        return DataError(found.render(text))
    return QueryError([found], text)


def find_named(message: str, text: str, part: Span | None = None) -> Span | None:
    """Return where a name of a message stands in a statement, or in a part of it."""
    begin, end = part or (0, len(text))
    for quoted, named in _NAMED.findall(message):
        name = re.split(r"\W", quoted or named.strip("\"'`"))[0].lower()
        if not name or name.startswith("_rows"):
            continue
        for lexeme in _LEXEME.finditer(text, begin, end):
            if lexeme[0].strip('"`').lower() == name:
                return Span(*lexeme.span())
    return None
