"""What people write who know SQL, MATCH_RECOGNIZE, Esper or Flink, and how it is written here.

Some habits are read as they are meant, where that is unambiguous: `==`, `5m`, `x.price`, a `;` at
the end. The others have a sentence in this file. Each is recognized by the token that the parser
did not expect and the tokens before it; suggestions name no more than what stands before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cernis.languages.text.tokens import Token, span_of

_SEQUENCE = "';' (some time later), '->' (the next that fits) or ':' (right after)"
_FOLLOWS = frozenset(
    ("FOLLOWEDBY", "FOLLOWEDBYANY", "FOLLOWED", "THEN", "BEGIN", "NOTFOLLOWEDBY", "NOTNEXT")
)
_ABSENT = frozenset(("NOTFOLLOWEDBY", "NOTNEXT"))
_CALLS = frozenset(("SEQ", "PATTERN", "SEQUENCE"))
_ABSENCE = "write WITHOUT B FOR 5 MINUTES after the formula, or A ; C UNLESS B"
_CONDITIONS = "conditions on attributes stand in FILTER: SELL AS x FILTER x[price > 100]"
_BEFORE = frozenset(("PREVIOUS", "LAG", "PRIOR", "LASTVALUE"))
_AGGREGATES = {"MEDIAN", "MODE", "PERCENTILE", "STDDEV", "VARIANCE"}
NO_FUNCTIONS = _BEFORE | _AGGREGATES
"""Words that look like functions of values, and have a sentence of their own."""
_CONSTANTS = frozenset(("INT", "FLOAT", "STRING", "MINUS"))
_VALUES = frozenset(("_SELECT", "_FILTER", "_HAVING", "_ORDER"))
"""The clauses in which values stand."""


def suggest_for_habit(
    token: Token, accepted: set[str], before: Sequence[Token], clause: str
) -> str | None:
    """Return how to write what a habit has written; None if the token is no known habit."""
    last = before[-1] if before else None
    word = token.value.upper() if token.type != "STRING" else ""
    in_formula = "QMARK" in accepted
    if word == "BETWEEN" and last is not None:
        name = last.value if last.type == "NAME" else "x"
        inside = f"{name} IN RANGE (3, 5)" if last.type == "NAME" else "x[price IN RANGE (3, 5)]"
        return f"write {inside}, both ends included"
    if word == "INTERVAL" and "INT" in accepted:
        return "write the duration as it is spoken: 5 MINUTES"
    if token.type == "STRING" and "INT" in accepted and "NAME" not in accepted:
        return f"write the duration without quotes: {token.value[1:-1]}"
    if token.type == "STRING" and clause in ("_WHERE", "_WITHOUT") and "NAME" in accepted:
        return f"write the type without quotes: {_write_type(token.value[1:-1])}"
    if token.type == "LPAR" and last is not None and last.type == "_IN":
        if clause == "_WHERE":
            return f"a type is written as it is: WHERE SELL OR BUY; {_CONDITIONS}"
        return "write a set in braces: IN {3, 5}; a range is IN {3..5} or IN RANGE (3, 5)"
    if word in ("MATCH_RECOGNIZE", "PATTERN", "EVENT") and "_WHERE" in accepted:
        return "write the pattern after WHERE: A : B:+ for A B+ of MATCH_RECOGNIZE"
    if word in ("PATTERN", "SEQ") and "_SELECT" in accepted:
        return "write a query: SELECT * FROM stream WHERE A ; B WITHIN 5 MINUTES"
    if in_formula and word in _FOLLOWS | {"NEXT"}:
        if word in _ABSENT:
            return _ABSENCE
        return f"between two events stands {_SEQUENCE}"
    if in_formula and (absence := _suggest_for_absence(word, accepted, before, clause)) is not None:
        return absence
    if token.type == "LPAR" and in_formula and last is not None:
        return _suggest_for_call(token, last)
    if token.type == "LPAR" and clause in _VALUES and last is not None and _is_word(last):
        return _suggest_for_function(last)
    if clause == "_SELECT" and any(_is_distinct(*pair) for pair in pairwise(before)):
        return (
            "matches are distinct already; for each user once, write SELECT [user], COUNT(*) … "
            "PARTITION BY [user] GROUP BY [user]"
        )
    if word == "TOP" or (last is not None and last.value.upper() == "TOP" and clause == "_SELECT"):
        return "write LIMIT 5 at the end, with ORDER BY before it"
    if token.type == "LSQB" and clause == "_GROUP" and last is not None and _is_word(last):
        return "a group is one of PARTITION BY, without a variable: GROUP BY [user]"
    if in_formula and token.type == "NOT":
        return _ABSENCE
    if in_formula and last is not None and last.value.upper() == "EVERY":
        return "leave EVERY out: every match is found, unless SELECT names a strategy"
    if in_formula and word == "WHERE":
        return "conditions on events stand in FILTER: FILTER x[price > 100]"
    if in_formula and last is not None and token.type in ("CMP", "_LIKE", "_IS"):
        if last.value.upper() == "TYPE":
            return f"a type is written as it is: WHERE SELL; {_CONDITIONS}"
        if token.value == "=":
            return f"name an event with AS: SELL AS {last.value}; {_CONDITIONS}"
        return _CONDITIONS
    if last is not None and last.type == "GT" and clause == "_WHERE" and token.type in _CONSTANTS:
        return _CONDITIONS
    return None


def _suggest_for_absence(
    word: str, accepted: set[str], before: Sequence[Token], clause: str
) -> str | None:
    """Suggest for `A UNLESS B FOR 1 HOUR`, `WITHOUT B WITHIN 1 HOUR`, `(A WITHOUT B FOR …)`."""
    is_inside = "RPAR" in accepted
    if word == "WITHOUT" and is_inside:
        return "WITHOUT stands after the whole formula; UNLESS says what must not lie inside a part"
    if word == "FOR" and is_inside:
        return "FOR stands after the parentheses: WITHOUT (B ; C) FOR 5 MINUTES"
    if word == "FOR" and any(token.value.upper() == "UNLESS" for token in before):
        return "UNLESS looks inside a match; what must not follow is WITHOUT B FOR 5 MINUTES"
    if word in ("WITHIN", "UNTIL") and clause == "_WITHOUT":
        return "say how long with FOR, or BEFORE a match: WITHOUT B FOR 5 MINUTES"
    return None


def _is_word(token: Token) -> bool:
    return token.type in ("NAME", "UNIT", "DISTINCT", "LEFT")


def _is_distinct(first: Token, second: Token) -> bool:
    return first.type == "_SELECT" and second.type == "DISTINCT"


def _suggest_for_function(name: Token) -> str:
    """Suggest for `LAG(price)`, `MEDIAN(x[price])` and the like."""
    if name.value.upper() in _BEFORE:
        return "PREV(x)[price] is the event before: FILTER PREV(x)[price] < x[price]"
    return "the functions of several events are COUNT, SUM, AVG, MIN, MAX, FIRST and LAST"


def _suggest_for_call(token: Token, last: Token) -> str | None:
    """Suggest for `SEQ(A, B)`, `PATTERN (A B)` and `SELL(price > 3)`."""
    if last.value.upper() in _CALLS:
        return f"write the events without {last.value}: between two of them stands {_SEQUENCE}"
    if last.type in ("NAME", "QUOTED") and span_of(last).end == span_of(token).start:
        name = last.value
        return f"conditions stand in FILTER: {name} AS x FILTER x[price > 100]"
    return None


def _write_type(text: str) -> str:
    return text if text.isidentifier() else f"`{text}`"
