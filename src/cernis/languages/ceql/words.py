"""The keywords of CEQL: which word is which terminal, and what a terminal is called in speech.

Words are retyped after lexing (see `grammar.lark`), in any case. Soft keywords, such as
EVENT or MAX, may be names too; the clause words may at least name attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

_SPECIAL = {
    "ANY": "ANY",
    "NOT": "NOT",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NEXT": "STRATEGY",
    "STRICT": "STRATEGY",
    "LAST": "LASTMAX",
    "MAX": "LASTMAX",
    "COUNT": "AGGREGATE",
    "SUM": "AGGREGATE",
    "MIN": "AGGREGATE",
    "AVG": "AGGREGATE",
    "FIRST": "AGGREGATE",
    "PREV": "PREV",
}
_CLAUSE = (
    "CREATE",
    "DECLARE",
    "STREAM",
    "EVENT",
    "EVENTS",
    "SELECT",
    "FROM",
    "WHERE",
    "FILTER",
    "PARTITION",
    "BY",
    "WITHIN",
    "CONSUME",
    "LIMIT",
    "AS",
    "IN",
    "ALL",
    "OR",
    "AND",
    "UNLESS",
    "NONE",
    "LIKE",
    "IS",
    "NULL",
    "RANGE",
)

_MILLISECOND = 1_000_000
_UNIT_SIZES = {
    "DAY": 86_400_000 * _MILLISECOND,
    "HOUR": 3_600_000 * _MILLISECOND,
    "MINUTE": 60_000 * _MILLISECOND,
    "SECOND": 1_000 * _MILLISECOND,
    "MILLISECOND": _MILLISECOND,
}
NANOSECONDS: Mapping[str, int] = _UNIT_SIZES | {f"{u}S": n for u, n in _UNIT_SIZES.items()}
"""The size of each unit of time, by its singular and its plural."""

TERMINALS: Mapping[str, str] = (
    _SPECIAL | {word: f"_{word}" for word in _CLAUSE} | dict.fromkeys(NANOSECONDS, "UNIT")
)
"""Keyword, in capitals, to the terminal of the grammar."""

SOFT = frozenset(
    {
        "ANY",
        "STRATEGY",
        "LASTMAX",
        "AGGREGATE",
        "UNIT",
        "PREV",
        "_EVENT",
        "_EVENTS",
        "_STREAM",
        "_CREATE",
        "_DECLARE",
        "_RANGE",
    }
)
"""Terminals that may stand where a name may."""

CLAUSE_WORDS = frozenset(
    {
        "_SELECT",
        "_FROM",
        "_WHERE",
        "_FILTER",
        "_PARTITION",
        "_BY",
        "_WITHIN",
        "_CONSUME",
        "_LIMIT",
        "_AS",
        "_ALL",
        "_UNLESS",
        "_NONE",
    }
)
"""Terminals that may stand where an attribute may, on top of the soft ones."""

_PUNCTUATION = {
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "DOT": "'.'",
    "DOTS": "'..'",
    "QMARK": "'?'",
    "STAR": "'*'",
    "GT": "'>'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STRING": "a string in quotes",
    "INT": "a whole number",
    "FLOAT": "a number",
    "$END": "the end of the query",
}

# Sets of terminals that read better as one thing, in the order in which they are said; a
# set that is there whole is taken. Terminals in the second set go unsaid with it.
_GROUPS: tuple[tuple[str, str, str], ...] = (
    ("ANY _NONE _PARTITION", "", "ANY, NONE or PARTITION"),
    ("INT FLOAT STRING TRUE FALSE MINUS PLUS", "", "a constant such as 5 or 'x'"),
    ("INT FLOAT", "MINUS PLUS", "a number"),
    ("CMP GT", "", "a comparison such as = or <"),
    ("PLUS MINUS STAR SLASH PERCENT", "", "an arithmetic operator"),
    (
        "SEMICOLON COLON",
        "_OR _ALL _UNLESS _AS _IN PLUS COLON_PLUS QMARK LBRACE COLON_LBRACE GT",
        "an operator such as ';', OR or +",
    ),
    ("_WITHIN _CONSUME _LIMIT", "_PARTITION", "a clause such as WITHIN"),
    ("_CREATE _DECLARE", "", "CREATE STREAM"),
    ("_EVENT _EVENTS", "", "EVENTS"),
)
_PARSED_GROUPS = tuple(
    (frozenset(whole.split()), frozenset(unsaid.split()), phrase)
    for whole, unsaid, phrase in _GROUPS
)


def speak(terminal: str) -> str:
    """What a terminal is called when talking to a person.

    >>> speak("_WHERE"), speak("LPAR"), speak("UNIT")
    ('WHERE', "'('", 'a unit of time such as MINUTES')
    """
    if terminal in _PUNCTUATION:
        return _PUNCTUATION[terminal]
    if terminal == "UNIT":
        return "a unit of time such as MINUTES"
    if terminal == "AGGREGATE":
        return "an aggregate such as COUNT"
    if terminal in ("STRATEGY", "LASTMAX"):
        return "a strategy such as NEXT"
    word = terminal.lstrip("_")
    return f"{word} BY" if word in ("PARTITION", "CONSUME") else word


def list_words(phrases: Collection[str]) -> str:
    """Phrases as an English list.

    >>> list_words(["'('", "NOT", "a name"])
    "'(', NOT or a name"
    """
    *head, last = phrases
    return f"{', '.join(head)} or {last}" if head else last


def describe(terminals: Collection[str], name_role: str) -> str:
    """What may stand here, in human words; `name_role` is what a name would be.

    >>> describe({"NAME", "QUOTED", "LPAR"}, "an event type")
    "an event type or '('"
    """
    left = set(terminals)
    phrases: list[str] = []
    if "NAME" in left:
        phrases.append(name_role)
        left -= {"NAME", "QUOTED"} | SOFT
        if "_WITHIN" in left and "_BY" in left:
            left -= CLAUSE_WORDS
    for whole, unsaid, phrase in _PARSED_GROUPS:
        if whole <= left:
            left -= whole | unsaid
            phrases.append(phrase)
    phrases.extend(map(speak, sorted(left, key=_rank)))
    return list_words(list(dict.fromkeys(phrases)))


def _rank(terminal: str) -> tuple[int, str]:
    """Words first, then punctuation, then the end."""
    return (terminal == "$END") * 2 + (terminal in _PUNCTUATION), terminal
