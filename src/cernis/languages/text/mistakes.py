"""Explain the syntax errors that all languages have in common.

Nothing here runs on a query that parses. There are three sources of mistakes, in the order in
which they are looked for: lexemes that no query holds, brackets that do not match, and tokens
that the parser did not expect. The first two report every mistake, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise

from cernis.errors import Diagnostic, Span
from cernis.languages.text.tokens import Token, shorten, span_of
from cernis.pattern.suggest import find_closest

MOST_MISTAKES = 20

OPENING = {"LPAR": "(", "LSQB": "[", "LBRACE": "{", "COLON_LBRACE": "{", "ARROW_LBRACE": "{"}
CLOSING = {"RPAR": "(", "RSQB": "[", "RBRACE": "{"}

STRAY_HELP: Mapping[str, str] = {
    "=>": "use '>='",
    "**": "use '*'; there is no power",
    "≤": "use '<='",
    "≥": "use '>='",
    "≠": "use '!='",
    "’": "use straight quotes: '",
    "‘": "use straight quotes: '",
    "“": "use straight quotes: '",
    "”": "use straight quotes: '",
    "−": "use '-'",
}
"""Suggestions for symbols that no language has."""

ABBREVIATIONS: Mapping[str, str] = {
    "d": "DAYS",
    "h": "HOURS",
    "hr": "HOURS",
    "hrs": "HOURS",
    "m": "MINUTES",
    "min": "MINUTES",
    "mins": "MINUTES",
    "s": "SECONDS",
    "sec": "SECONDS",
    "secs": "SECONDS",
    "ms": "MILLISECONDS",
    "millis": "MILLISECONDS",
    "row": "EVENTS",
    "rows": "EVENTS",
}
"""Words that stand for a unit after a number, where no name may stand."""

_LEXICAL = frozenset(("STRAY", "FOREIGN", "UNCLOSED", "UNCLOSED_COMMENT", "BAD_IRI"))
"""The terminals of lexemes that no query holds: `lexical` in the grammars. Letters that are not
ASCII make some others wrong."""

_NUMBERS = frozenset(("INT", "FLOAT", "INTEGER", "DECIMAL"))


def sort_mistakes(mistakes: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return mistakes in the order of the text."""
    return sorted(mistakes, key=lambda mistake: mistake.span or (0, 0))


# ----------------------------------------------------------------------- lexemes


def explain_stray(token: Token, help_: Mapping[str, str]) -> Diagnostic:
    """Explain a symbol that the language does not have."""
    shown = token.value if token.value.isprintable() else repr(token.value)[1:-1]
    message = f"'{shown}' is not part of the language"
    return Diagnostic(message, span_of(token), suggestion=help_.get(token.value))


def explain_lexeme(token: Token, help_: Mapping[str, str]) -> Diagnostic | None:
    """Explain a lexeme of `grammar.lark` that no query holds; None for all others."""
    span = span_of(token)
    match token.type:
        case "STRAY" | "FOREIGN":
            return explain_stray(token, help_)
        case "UNCLOSED":
            return Diagnostic(
                f"the quote {token.value[0]} is never closed",
                Span(span.start, span.start + 1),
                suggestion="a quote inside the quotes is written twice",
            )
        case "UNCLOSED_COMMENT":
            return Diagnostic(
                "the comment is never closed",
                Span(span.start, span.start + 2),
                suggestion="end it with */",
            )
        case _:
            return None


def find_lexical_mistakes(
    tokens: Iterable[Token], explain: Callable[[Token], Diagnostic | None]
) -> list[Diagnostic]:
    """Return the lexemes that no query holds, up to a limit."""
    wrong = (one for one in tokens if one.type in _LEXICAL or not one.value.isascii())
    found = (mistake for token in wrong if (mistake := explain(token)) is not None)
    return list(islice(found, MOST_MISTAKES))


# ---------------------------------------------------------------------- brackets


def _describe_location(source: str, position: int) -> str:
    begin = source.rfind("\n", 0, position) + 1
    return f"line {source.count(chr(10), 0, begin) + 1}, column {position - begin + 1}"


def find_bracket_mistakes(tokens: Iterable[Token], source: str, deepest: int) -> list[Diagnostic]:
    """Return brackets that open or close nothing, and brackets nested too deeply."""
    open_: list[Token] = []
    for token in tokens:
        if token.type in OPENING:
            open_.append(token)
            if len(open_) > deepest:
                message = f"brackets are nested more than {deepest} deep"
                return [Diagnostic(message, span_of(token))]
        elif token.type in CLOSING:
            if not open_:
                return [Diagnostic(f"'{token.value}' closes nothing", span_of(token))]
            opened = open_.pop()
            if OPENING[opened.type] != CLOSING[token.type]:
                where = _describe_location(source, span_of(opened).end - 1)
                message = f"'{token.value}' does not close '{OPENING[opened.type]}' of {where}"
                return [Diagnostic(message, span_of(token))]
    return [
        Diagnostic(
            f"'{OPENING[token.type]}' is never closed",
            Span(span_of(token).end - 1, span_of(token).end),
        )
        for token in open_[:MOST_MISTAKES]
    ]


# ------------------------------------------------------------------------ tokens


def guess_keyword(token: Token, accepted: set[str], keywords: Mapping[str, str]) -> str | None:
    """Return the keyword that a misspelt word stands for, if one may stand here."""
    if token.type != "NAME" or not token.value.isidentifier():
        return None
    words = sorted(word for word, terminal in keywords.items() if terminal in accepted)
    return find_closest(token.value, words, cutoff=0.7)


def expand_units(tokens: Sequence[Token], keywords: Mapping[str, str]) -> None:
    """Retype words such as `m` after a number as units: no language has a name there."""
    for number, token in pairwise(tokens):
        if number.type in _NUMBERS and token.type in ("NAME", "AGGREGATE"):  # MIN is a function
            meant = ABBREVIATIONS.get(token.value.lower())
            if meant is not None and meant in keywords:
                token.type, token.value = keywords[meant], meant


def explain_misspelling(token: Token, meant: str) -> Diagnostic:
    return Diagnostic(
        f"unexpected '{token.value}'", span_of(token), suggestion=f"did you mean '{meant}'?"
    )


def explain_unexpected(
    token: Token, end: int, expected: str, suggestion: str | None = None
) -> Diagnostic:
    """Say that a token was not expected; `end` is the end of the text."""
    if token.type == "$END":
        return Diagnostic("the query ends too early", Span(end, end), expected, suggestion)
    shown = shorten(token.value)
    message = f"unexpected {shown}" if token.type == "STRING" else f"unexpected '{shown}'"
    return Diagnostic(message, span_of(token), expected, suggestion)
