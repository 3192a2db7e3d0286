"""The keywords of SPAseQ: which word is which terminal, and what messages call a terminal.

Words are retyped after lexing, in any case, but for `a`, which is a small letter as in SPARQL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cernis.languages.text import words

_KEYWORDS = (
    "BASE PREFIX SELECT CONSTRUCT LIST AS WITHIN TUMBLING FROM STREAM PARTITION BY WHERE SEQ "
    "DEFINE GPM ON FILTER OPTIONAL UNION GRAPH IN BIND VALUES MINUS EXISTS"
)

TERMINALS: Mapping[str, str] = (
    {word: f"_{word}" for word in _KEYWORDS.split()}
    | {word: word for word in ("NOT", "TRUE", "FALSE", "UNDEF", "DISTINCT")}
    | dict.fromkeys(words.NANOSECONDS, "UNIT")
)
"""Keyword, in capitals, to the terminal of the grammar."""

_SPOKEN = dict(words.SPOKEN) | {
    "_FROM": "FROM STREAM",
    "_PARTITION": "PARTITION BY",
    "_DEFINE": "DEFINE GPM",
    "VAR": "a variable such as ?x",
    "IRI": "an IRI in angle brackets",
    "PNAME_NS": "a prefix such as ex:",
    "INTEGER": "a whole number",
    "BANG": "'!'",
}

_NUMBER = "INTEGER DECIMAL DOUBLE"
_SIGN = "PLUS MORE MINUS"
_TERM = f"VAR IRI PNAME PNAME_NS BLANK STRING {_NUMBER} TRUE FALSE {_SIGN} LSQB LTRIPLE"

_ELEMENTS = "LBRACE _BIND _VALUES _MINUS"

_PHRASES = words.read_phrases(
    (
        ("BANG VAR LPAR NAME", f"{_TERM} UNIT NOT _EXISTS", "an expression such as ?x > 5"),
        ("A", f"{_TERM} CIRCUMFLEX BANG LPAR", "a predicate such as :p"),
        ("VAR BLANK LSQB RBRACE", f"{_TERM} LPAR", "a triple pattern such as ?x :p ?y"),
        ("VAR BLANK LSQB", f"{_TERM} LPAR SLASH VBAR STAR QMARK", "an object such as ?x"),
        ("UNDEF", _TERM, "a value such as :a or 5"),
        ("_FILTER _OPTIONAL _GRAPH", _ELEMENTS, "an element such as FILTER"),
        ("CMP ANDAND", "OROR PLUS MORE MINUS STAR SLASH NOT _IN", "an operator such as = or &&"),
        ("OROR ANDAND", "PLUS MORE MINUS STAR SLASH", "an operator such as &&"),
        ("AMP VBAR", "PLUS QMARK BANG", "an operator such as '+' or '&'"),
        ("COMMA SEMICOLON COLON", "LINK", "a separator such as ';'"),
        ("STAR VAR _LIST", "LPAR DISTINCT", "'*' or a variable such as ?x"),
        ("VAR IRI PNAME", "PNAME_NS", "an IRI or a variable"),
        ("IRI PNAME", "PNAME_NS", "an IRI"),
        (_NUMBER, "", "a number"),
    )
)
_UNSAID = {"LANG", "CARETS"}
_ROLES = {
    "_GPM": "a name for the graph pattern",
    "_STREAM": "a name for the stream",
    "_ON": "the name of a stream",
    "_FILTER": "a function",
}


def describe_expected(terminals: Collection[str], last: str, in_sequence: bool) -> str:
    """Return what may stand here, in human words; `last` is the terminal before.

    >>> describe_expected({"NAME", "LPAR"}, "LPAR", True)
    "the name of a graph pattern or '('"
    """
    left = set(terminals) - _UNSAID
    phrases: list[str] = []
    for whole, unsaid, phrase in _PHRASES:
        if whole <= left:
            left -= (whole - {"RBRACE", "LPAR"} if "BLANK" in whole else whole) | unsaid
            phrases.append(phrase)
    if "NAME" in left:
        left.remove("NAME")
        graph_pattern = "the name of a graph pattern" if in_sequence else "the name of a stream"
        phrases.insert(0, _ROLES.get(last, graph_pattern))
        if last == "_FILTER":
            left -= {"UNIT"}
    return words.list_terminals(left, phrases, _SPOKEN)
