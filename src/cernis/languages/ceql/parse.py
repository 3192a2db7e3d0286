"""CEQL text to `Pattern`: tokens, retyped by what stands around them, then rules (`tree.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from cernis.errors import CernisError, Diagnostic, QueryError
from cernis.languages.ceql.habits import NO_FUNCTIONS
from cernis.languages.ceql.mistakes import explain_lexeme, explain_token
from cernis.languages.ceql.tree import INTERVAL_TIMES, CeqlReader
from cernis.languages.ceql.words import TERMINALS
from cernis.languages.text.mistakes import expand_units, sort_mistakes
from cernis.languages.text.parameters import Constant, read_constant
from cernis.languages.text.read import Syntax, read_rules, read_tokens
from cernis.languages.text.tokens import Token
from cernis.pattern.check import check, find_too_deep
from cernis.pattern.functions import find_function, is_zone
from cernis.pattern.predicate import Value
from cernis.pattern.query import Pattern
from cernis.pattern.selection import settle_select
from cernis.pattern.write import capitalize_ascii
from cernis.schema import Schema

FindSchema = Callable[[Pattern], Schema | None]
"""Gives the schema of the events that a pattern reads, if it is known."""

SYNTAX = Syntax(
    ["cernis.languages.text", "cernis.languages.ceql"],
    ["query", "schema", "alone_value"],
    TERMINALS,
    explain_lexeme,
    explain_token,
)


def _touches(one: Diagnostic, others: list[Diagnostic]) -> bool:
    """Whether a mistake is about the text of another one."""
    return one.span is None or any(
        other.span and one.span.start < other.span.end and other.span.start < one.span.end
        for other in others
    )


_AFTER_NAME = frozenset(("COMMA", "LSQB", "GT", "_FROM", "_WHERE", "_AS"))
"""What may follow a name in SELECT, so that a strategy's word before it is a name."""

_BEFORE_TERM = frozenset(
    (
        "_FILTER",
        "_HAVING",
        "_AND",
        "_OR",
        "LPAR",
        "CMP",
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "PERCENT",
    )
)
"""What may stand before a term in FILTER and HAVING."""

_BEGINS_TERM = frozenset(("INT", "FLOAT", "STRING", "LPAR", "PLUS", "MINUS"))
"""What begins a term and no event type, so that `>` before it compares."""


def _retype_in_context(tokens: list[Token]) -> None:
    """Tell strategies from names in SELECT, and `END > t` from the event type of a stream.

    `ORDER` is a name, of an event type for example, unless `BY` follows.
    """
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        if token.type == "_ORDER" and (following is None or following.type != "_BY"):
            token.type = "NAME"
    _retype_functions(tokens)
    for number, token in enumerate(tokens[:-2]):
        if token.type == "_SELECT" and tokens[number + 1].type in ("ANY", "STRATEGY", "LASTMAX"):
            second, third = tokens[number + 1 : number + 3]
            aggregate = second.type == "LASTMAX" and third.type == "LPAR"
            is_component = third.type == "LSQB" and not _is_in_formula(second, tokens)
            if not aggregate and (is_component or third.type not in _AFTER_NAME):
                second.type = "CHOICE"
        elif tokens[number + 2].type == "GT" and token.type in _BEFORE_TERM:
            second, third, *fourth = tokens[number + 1 : number + 4]
            begins = [one.type for one in fourth if one.type in _BEGINS_TERM]
            is_compared = begins or capitalize_ascii(second.value) in INTERVAL_TIMES
            if second.type == "NAME" and is_compared:
                third.type = "CMP"


_CALLED = {"CAST": "CAST", "IF": "IF"}
_BEFORE_CALL = _BEFORE_TERM | {"LSQB", "COMMA", "NOT", "_SELECT", "_BY", "GT", "_WHEN", "_THEN"}
"""What may stand before a function, so that a name which is none can be reported as one."""
_OPEN = _BEFORE_CALL | {"_ELSE", "DOT"}
"""What may not stand before the END of a CASE: a value follows."""


def _retype_functions(tokens: list[Token]) -> None:
    """Tell functions from names: `(` follows them. So none of their names is a keyword.

    The words of CASE are keywords from `CASE WHEN` to its `END`; MATCHES is LIKE before a text.
    """
    depth, before = 0, ""
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        if token.type not in ("NAME", "UNIT"):
            before = token.type
            continue
        after = "" if following is None else following.type
        word = capitalize_ascii(token.value)
        is_name, is_closed = token.type == "NAME", before not in _OPEN
        if is_name and word == "CASE" and _is_word(following, "WHEN"):
            depth, token.type = depth + 1, "CASE"
        elif is_name and depth and word in ("WHEN", "THEN", "ELSE") and is_closed:
            token.type = f"_{word}"
        elif is_name and depth and word == "END" and is_closed:
            depth, token.type = depth - 1, "_END"
        elif is_name and word == "MATCHES" and after == "STRING":
            token.type = "_LIKE"
        elif after == "LPAR" and (is_name or (token.type == "UNIT" and before != "INT")):
            function = find_function(word)
            may_be = before in _BEFORE_CALL and word.isascii() and word not in NO_FUNCTIONS
            if function is not None or word in _CALLED or may_be:
                is_test = function is not None and function.gives == "boolean"
                token.type = _CALLED.get(word) or ("TEST" if is_test else "FUNCTION")
        before = token.type


def _is_word(token: Token | None, word: str) -> bool:
    return token is not None and token.type == "NAME" and capitalize_ascii(token.value) == word


def _is_in_formula(word: Token, tokens: list[Token]) -> bool:
    """Whether a word also stands after WHERE, as a type or a variable."""
    where = next((i for i, token in enumerate(tokens) if token.type == "_WHERE"), len(tokens))
    return any(
        token.value == word.value and before.type != "_BY" and after.type != "LPAR"
        for before, token, after in zip(
            tokens[where:], tokens[where + 1 :], [*tokens[where + 2 :], word], strict=False
        )
    )


def _read(reader: CeqlReader, start: str) -> Any:
    tokens = read_tokens(SYNTAX, reader.source)
    _retype_in_context(tokens)
    if tokens and tokens[-1].type == "SEMICOLON":
        tokens.pop()  # the habit of SQL
    return read_rules(SYNTAX, start, tokens, reader, reader.mistakes.found)


_TIME_ZONE: ContextVar[str | None] = ContextVar("_TIME_ZONE", default=None)
_process_zone: list[str | None] = [None]


@contextmanager
def use_time_zone(zone: str | None) -> Iterator[None]:
    """Parse texts whose functions of time are in a zone, unless they name one; None: as before.

    A pattern has the zone in each call, so that states, tasks of Spark and rules need no setting.

    >>> with use_time_zone("Europe/Berlin"):
    ...     print(parse("SELECT * WHERE A AS a FILTER a[HOUR(ts) < 6]"))
    SELECT * WHERE A AS a FILTER a[HOUR(ts, 'Europe/Berlin') < 6]
    """
    token = _TIME_ZONE.set(_check_zone(zone) or _TIME_ZONE.get())
    try:
        yield
    finally:
        _TIME_ZONE.reset(token)


def set_time_zone(zone: str | None) -> None:
    """Set the time zone of all texts that this process parses, in any thread; None: UTC."""
    _process_zone[0] = _check_zone(zone)


def find_time_zone() -> str | None:
    """Return the time zone of texts that are parsed now; None: UTC."""
    return _TIME_ZONE.get() or _process_zone[0]


def _check_zone(zone: str | None) -> str | None:
    if zone is not None and not is_zone(zone):
        raise CernisError(f"unknown time zone {zone!r}; one is such as 'Europe/Berlin'")
    return zone


def parse(text: str, find_schema: FindSchema = lambda pattern: None) -> Pattern:
    """Return the pattern that a CEQL text stands for; raise QueryError with its mistakes.

    The pattern's names and types are for `cernis.pattern.check`. Where the text has other mistakes,
    theirs come with them: of scopes, and of names and types in the schema of `find_schema`.

    >>> parse("SELECT * FROM S WHERE SELL AS a ; BUY AS b").formula.parts[0]
    As(body=Event(type='SELL', stream=None), variable='a')
    """
    reader = CeqlReader(text, find_time_zone())
    mistakes = reader.mistakes.found
    pattern: Pattern = _read(reader, "query")
    deep = find_too_deep(pattern)
    if deep is None:
        pattern = settle_select(pattern)
    if mistakes:
        others = [
            one for one in check(pattern, find_schema(pattern)) if not _touches(one, mistakes)
        ]
        raise QueryError(sort_mistakes([*mistakes, *others]), text)
    if deep is not None:
        raise QueryError([deep], text)
    return pattern


def parse_schema(text: str) -> Schema:
    """Return the schema of a text that holds CREATE STREAM declarations alone.

    >>> parse_schema("CREATE STREAM S { EVENT A { x:int } }").stream("S").events
    {'A': {'x': <Kind.INT: 'int'>}}
    """
    reader = CeqlReader(text)
    schema: Schema = _read(reader, "schema")
    if reader.mistakes.found:
        raise QueryError(sort_mistakes(reader.mistakes.found), text)
    return schema


def parse_value(text: str) -> Value:
    """Return the value that the text of a calculated attribute stands for.

    >>> parse_value("LOWER(user.name)").function
    'LOWER'
    """
    reader = CeqlReader(text)
    value: Value = _read(reader, "alone_value")
    return value


def parse_constant(text: str) -> Constant:
    """Return the value of a parameter that a person writes; what is no constant is a text.

    >>> parse_constant("1.05"), parse_constant("ann"), parse_constant("5m")
    (1.05, 'ann', datetime.timedelta(seconds=300))
    """
    tokens = SYNTAX.lexer.cut(text)
    expand_units(tokens, SYNTAX.keywords)
    return read_constant(text, tokens)
