"""The keywords of conjunctive queries: which word is which terminal, and what messages call it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cernis.languages.text import words

TERMINALS: Mapping[str, str] = dict(words.TERMINALS) | {"NULL": "_NULL"}
"""Keyword, in capitals, to the terminal of the grammar."""

_PHRASES = words.read_phrases(
    (
        ("ARROW", "TURNSTILE", "'<-'"),
        ("AT", "", "'@' and a timestamp"),
        ("INT FLOAT STRING TRUE FALSE MINUS PLUS", "", "a constant"),
        ("INT FLOAT", "MINUS PLUS", "a number"),
        ("CMP GT", "", "a comparison such as = or <"),
        ("_CREATE _DECLARE", "", "CREATE STREAM"),
        ("_EVENT _EVENTS", "", "EVENTS"),
    )
)


def describe_expected(terminals: Collection[str], name_role: str) -> str:
    """Return what may stand here, in human words; `name_role` is what a name would be.

    >>> describe_expected({"NAME", "QUOTED", "RPAR"}, "a variable")
    "a variable or ')'"
    """
    left = set(terminals) - {"OF"}
    phrases: list[str] = []
    if "NAME" in left:
        phrases.append(name_role)
        left -= {"NAME", "QUOTED"} | words.SOFT
    for whole, unsaid, phrase in _PHRASES:
        if whole <= left:
            left -= whole | unsaid
            phrases.append(phrase)
    return words.list_terminals(left, phrases)
