"""Syntax errors in conjunctive queries, as a person would explain them.

What both languages share (lexemes, brackets, misspelt keywords) is CEQL's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lark import Token

from cernis.errors import Diagnostic, Span
from cernis.languages.ceql import mistakes as ceql
from cernis.languages.ceql.mistakes import span_of
from cernis.languages.ceql.words import describe, list_words

_HELP = {
    "&&": "use ',' between atoms",
    "&": "use ',' between atoms",
    "||": "a conjunctive query has no OR",
    "|": "a conjunctive query has no OR",
    "->": "the head comes first: Q(x) <- T(x)",
    "←": "write '<-'",
    "∧": "use ',' between atoms",
}
_SPOKEN = {
    "ARROW": "'<-'",
    "TURNSTILE": None,
    "AT": "'@' and a timestamp",
    "OF": None,
}
_CONSTANTS = {"STRING", "INT", "FLOAT", "MINUS", "PLUS", "TRUE", "FALSE"}
_JOINING = {"AND", "OR"}


def lexical_mistakes(tokens: Iterable[Token], text: str) -> list[Diagnostic]:
    """Every lexeme that no query holds."""
    return [
        replace(one, suggestion=_HELP[text[slice(*one.span)]])
        if one.span and text[slice(*one.span)] in _HELP
        else one
        for one in ceql.lexical_mistakes(tokens)
    ]


def _role(before: Sequence[Token], in_head: bool) -> str:
    """What a name would be if it stood here."""
    last = before[-1].type if before else ""
    opened = [token.type for token in before if token.type in ("LPAR", "RPAR")]
    if "LBRACE" in {token.type for token in before} and last in ("LBRACE", "COLON"):
        return "a type such as int or string" if last == "COLON" else "an attribute"
    if last in ("AT", "MINUS"):
        return "a timestamp"
    if opened and opened[-1] == "LPAR":
        return "a variable"
    if in_head:
        return "a query such as Q(x)"
    if last in ("CMP", "GT"):
        return "a variable"
    return "an atom such as T(x)"


def _expected(accepted: set[str], role: str) -> str:
    spoken = [text for name, text in _SPOKEN.items() if name in accepted and text is not None]
    rest = accepted - _SPOKEN.keys()
    if rest >= {"STRING", "INT"}:
        rest -= _CONSTANTS
        spoken.append("a constant")
    if not rest:
        return list_words(spoken)
    others = describe(rest, role)
    return ", ".join([*spoken, others]) if " or " in others else list_words([*spoken, others])


def _suggest(token: Token, before: Sequence[Token]) -> str | None:
    last = before[-1] if before else None
    if token.type == "NAME" and token.value.upper() in _JOINING:
        no_or = token.value.upper() == "OR"
        return "a conjunctive query has no OR" if no_or else "use ',' between atoms"
    if last is not None and last.type == "NAME" and last.value.upper() == "NOT":
        return "a conjunctive query has no negation"
    if token.type == "NAME" and last is not None and last.type == "RPAR":
        return "put ',' between two atoms"
    if token.type == "_NULL":
        return "a missing value equals nothing; write _ for an argument that does not matter"
    if token.type in ("SEMICOLON", "DOT"):
        return "use ',' between atoms"
    if token.type == "CMP" and token.value == "=" and last is not None and last.type == "RPAR":
        return "the head and the body are joined by '<-'"
    return None


def unexpected(token: Token, accepted: set[str], before: Sequence[Token], end: int) -> Diagnostic:
    """What is wrong with a token that the parser did not expect; `end` is the text's end."""
    in_head = not any(earlier.type in ("ARROW", "TURNSTILE") for earlier in before)
    expected = _expected(accepted, _role(before, in_head))
    suggestion = _suggest(token, before)
    if token.type == "$END":
        return Diagnostic("the query ends too early", Span(end, end), expected, suggestion)
    shown = token.value if len(token.value) <= 40 else token.value[:39] + "…"
    message = f"unexpected {shown}" if token.type == "STRING" else f"unexpected '{shown}'"
    return Diagnostic(message, span_of(token), expected, suggestion)
