"""Keywords and terminals in messages: English lists, units of time, names of terminals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

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
    {word: f"_{word}" for word in ("CREATE", "DECLARE", "STREAM", "EVENT", "EVENTS", "WITHIN")}
    | {"TRUE": "TRUE", "FALSE": "FALSE"}
    | dict.fromkeys(NANOSECONDS, "UNIT")
)
"""Each keyword of `grammar.lark`, in capitals, with its terminal."""

SOFT = frozenset({"UNIT", "_EVENT", "_EVENTS", "_STREAM", "_CREATE", "_DECLARE"})
"""Terminals of `grammar.lark` that may stand where a name may."""

SPOKEN: Mapping[str, str] = {
    "UNIT": "a unit of time such as MINUTES",
    "STRING": "a string in quotes",
    "INT": "a whole number",
    "FLOAT": "a number",
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
    "QMARK": "'?'",
    "STAR": "'*'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "$END": "the end of the query",
}
"""How messages call terminals that are not keywords."""


class Phrase(NamedTuple):
    """A phrase that messages use for a set of terminals that are all expected."""

    whole: frozenset[str]
    unsaid: frozenset[str]
    """Terminals that are not mentioned beside the phrase."""
    text: str


def read_phrases(rows: Iterable[tuple[str, str, str]]) -> tuple[Phrase, ...]:
    """Read phrases from rows of terminals, terminals that go unsaid, and a text."""
    return tuple(
        Phrase(frozenset(whole.split()), frozenset(unsaid.split()), text)
        for whole, unsaid, text in rows
    )


def list_terminals(
    terminals: Iterable[str], phrases: Iterable[str] = (), spoken: Mapping[str, str] = SPOKEN
) -> str:
    """Return an English list of phrases and terminals: words, then punctuation, then the end.

    >>> list_terminals({"LPAR", "_WHERE", "$END"}, ["a name"])
    "a name, WHERE, '(' or the end of the query"
    """

    def rank(terminal: str) -> tuple[int, str]:
        punctuation = spoken.get(terminal, "").startswith("'")
        return (terminal == "$END") * 2 + punctuation, terminal

    words = [spoken.get(name) or name.lstrip("_") for name in sorted(terminals, key=rank)]
    return list_words(list(dict.fromkeys([*phrases, *words])))


def list_words(phrases: Collection[str]) -> str:
    """Return phrases as an English list.

    >>> list_words(["'('", "NOT", "a name"])
    "'(', NOT or a name"
    """
    *head, last = phrases
    return f"{', '.join(head)} or {last}" if head else last
