"""Explain the syntax errors of conjunctive queries as a person would."""

from __future__ import annotations

from collections.abc import Sequence

from cernis.errors import Diagnostic
from cernis.languages.conjunctive.words import describe_expected
from cernis.languages.text import mistakes
from cernis.languages.text.tokens import Token

_STRAY_HELP = dict(mistakes.STRAY_HELP) | {
    "&&": "use ',' between atoms",
    "&": "use ',' between atoms",
    "||": "a conjunctive query has no OR",
    "|": "a conjunctive query has no OR",
    "!": "a conjunctive query has no negation",
    "=<": "use '<='",
    "->": "the head comes first: Q(x) <- T(x)",
    "←": "write '<-'",
    "∧": "use ',' between atoms",
}
_JOINING = {"AND", "OR"}


def explain_lexeme(token: Token) -> Diagnostic | None:
    """Explain a lexeme that no query holds; None for all others."""
    return mistakes.explain_lexeme(token, _STRAY_HELP)


def _describe_name(before: Sequence[Token], in_head: bool) -> str:
    """Return what a name would be if it stood here."""
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


def explain_token(
    token: Token, accepted: set[str], before: Sequence[Token], end: int
) -> Diagnostic:
    """Explain a token that the parser did not expect; `end` is the text's end."""
    in_head = not any(earlier.type in ("ARROW", "TURNSTILE") for earlier in before)
    expected = describe_expected(accepted, _describe_name(before, in_head))
    return mistakes.explain_unexpected(token, end, expected, _suggest(token, before))
