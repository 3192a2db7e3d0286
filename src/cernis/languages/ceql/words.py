"""The keywords of CEQL: which word is which terminal, and what messages call a terminal.

Words are retyped after lexing (see `grammar.lark`), in any case. Soft keywords, such as
EVENT or MAX, may be names too; the clause words may at least name attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cernis.languages.text import words
from cernis.pattern.predicate import MONOTONE

_SPECIAL = (
    {word: word for word in ("ANY", "BEFORE", "DISTINCT", "LEFT", "NOT", "PREV")}
    | dict.fromkeys(MONOTONE, "MONOTONE")
    | dict.fromkeys(("NEXT", "STRICT", "LONGEST"), "STRATEGY")
    | dict.fromkeys(("LAST", "MAX"), "LASTMAX")
    | dict.fromkeys(("ASC", "DESC"), "DIRECTION")
    | dict.fromkeys(("COUNT", "SUM", "MIN", "AVG", "FIRST"), "AGGREGATE")
)
_OTHERS = (
    "SELECT FROM WHERE FILTER PARTITION BY CONSUME LIMIT AS IN ALL OR AND UNLESS NONE LIKE IS NULL "
    "RANGE GROUP HAVING EVERY FORGET AFTER SUPPRESS WITHOUT FOR TO ORDER JOIN ON INSERT INTO "
    "OF OVERALL PER"
)

TERMINALS: Mapping[str, str] = (
    dict(words.TERMINALS) | _SPECIAL | {word: f"_{word}" for word in _OTHERS.split()}
)
"""Keyword, in capitals, to the terminal of the grammar."""

_SOFT = "ANY STRATEGY LASTMAX AGGREGATE DISTINCT MONOTONE PREV DIRECTION _RANGE"
_SOFT_CLAUSES = (
    "_GROUP _HAVING _EVERY _FORGET _AFTER _SUPPRESS _WITHOUT _FOR BEFORE _TO _ORDER LEFT _JOIN _ON "
    "_INSERT _INTO _OF _OVERALL _PER"
)
SOFT = words.SOFT | set(_SOFT.split()) | set(_SOFT_CLAUSES.split())
"""Terminals that may stand where a name may."""

_CLAUSE = "SELECT FROM WHERE FILTER PARTITION BY WITHIN CONSUME LIMIT AS ALL UNLESS NONE"
CLAUSE_WORDS = frozenset(f"_{word}" for word in _CLAUSE.split())
"""Terminals that may stand where an attribute may, on top of the soft ones."""

_SPOKEN = dict(words.SPOKEN) | {
    "AGGREGATE": "an aggregate such as COUNT",
    "CHOICE": "a strategy such as NEXT",
    "MONOTONE": "INCREASING",
    "_PARTITION": "PARTITION BY",
    "_CONSUME": "CONSUME BY",
    "_GROUP": "GROUP BY",
    "_FORGET": "FORGET AFTER",
    "_ORDER": "ORDER BY",
    "_SUPPRESS": "SUPPRESS BY",
    "_INSERT": "INSERT INTO",
    "DIRECTION": "ASC or DESC",
    "DOTS": "'..'",
    "GT": "'>'",
}

_CALLS = frozenset(("FUNCTION", "TEST", "CAST", "IF", "CASE"))
"""What begins a function: it may stand wherever a value may, which goes without saying."""

_ARROWS = "ARROW ARROW_PLUS ARROW_LBRACE"
_PHRASES = words.read_phrases(
    (
        ("ANY _NONE _PARTITION", "", "ANY, NONE or PARTITION"),
        ("INT FLOAT STRING TRUE FALSE MINUS PLUS", "", "a constant such as 5 or 'x'"),
        ("INT FLOAT", "MINUS PLUS", "a number"),
        ("CMP GT", "", "a comparison such as = or <"),
        ("PLUS MINUS STAR SLASH PERCENT", "", "an arithmetic operator"),
        (
            "SEMICOLON COLON",
            f"_OR _ALL _UNLESS _AS _IN QMARK LBRACE COLON_LBRACE GT PLUS COLON_PLUS LSQB {_ARROWS}",
            "an operator such as ';', OR or +",
        ),
        (
            "_WITHIN _CONSUME _LIMIT",
            "_PARTITION _GROUP _ORDER _FORGET _SUPPRESS _WITHOUT",
            "a clause such as WITHIN",
        ),
        ("_CREATE _DECLARE", "", "CREATE STREAM"),
        ("_JOIN LEFT", "", "JOIN"),
        ("_EVENT _EVENTS", "", "EVENTS"),
    )
)


def describe_expected(terminals: Collection[str], name_role: str) -> str:
    """Return what may stand here, in human words; `name_role` is what a name would be.

    >>> describe_expected({"NAME", "QUOTED", "LPAR"}, "an event type")
    "an event type or '('"
    """
    left = set(terminals) - _CALLS
    phrases: list[str] = []
    if "LSQB" in left:
        left -= {"DOT"}  # x.price is read, and x[price] is how it is written
    if "NAME" in left:
        phrases.append(name_role)
        left -= {"NAME", "QUOTED"} | SOFT
        if "_WITHIN" in left and "_BY" in left:
            left -= CLAUSE_WORDS
        if "NOT" in left:
            left -= {"LSQB"}  # a gap, where most queries have a formula
    for whole, unsaid, phrase in _PHRASES:
        if whole <= left:
            left -= whole | unsaid
            phrases.append(phrase)
    return words.list_terminals(left, phrases, _SPOKEN)
