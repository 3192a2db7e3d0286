"""The text in PATTERN (…) to a `RowPattern`.

Linear in the text, with the limits of `languages/text/read.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.sql.row_pattern import (
    RowAlternation,
    RowAnchor,
    RowExclusion,
    RowPattern,
    RowPermutation,
    RowRepetition,
    RowSequence,
    RowVariable,
)
from cernis.languages.text import mistakes
from cernis.languages.text.read import Syntax, read_rules, read_tokens
from cernis.languages.text.tokens import Token, span_of
from cernis.languages.text.tree import LanguageReader, unquote
from cernis.languages.text.words import SPOKEN, list_terminals

MOST_REPETITIONS = 10_000
_STRAY_HELP = dict(mistakes.STRAY_HELP) | {
    "&&": "parts of a pattern stand side by side: A B",
    "||": "use '|'",
    ";": "parts of a pattern stand side by side: A B",
    ".": "a variable without a condition in DEFINE matches every row",
    "[": "write a condition in DEFINE",
}
_SPOKEN = dict(SPOKEN) | {
    "LEXCLUDE": "'{-'",
    "REXCLUDE": "'-}'",
    "VBAR": "'|'",
    "CIRCUMFLEX": "'^'",
    "DOLLAR": "'$'",
    "_PERMUTE": "PERMUTE",
    "$END": "the end of the pattern",
}
_PRIMARY = frozenset({"NAME", "QUOTED", "LPAR", "LEXCLUDE", "CIRCUMFLEX", "DOLLAR", "_PERMUTE"})
_QUANTIFIER = frozenset({"STAR", "PLUS", "QMARK", "LBRACE"})


def _explain_lexeme(token: Token) -> Diagnostic | None:
    return mistakes.explain_lexeme(token, _STRAY_HELP)


def _explain_token(
    token: Token, accepted: set[str], before: Sequence[Token], end: int
) -> Diagnostic:
    phrases = []
    if accepted >= _PRIMARY:
        phrases.append("a variable or '('")
        accepted = accepted - _PRIMARY
    if accepted >= _QUANTIFIER:
        phrases.append("a quantifier")
        accepted = accepted - _QUANTIFIER
    expected = list_terminals(accepted, phrases, _SPOKEN)
    suggestion = None
    if token.type == "VBAR" or (before and before[-1].type == "VBAR"):
        suggestion = "write () for an empty alternative"
    if token.type == "$END":
        told = "the pattern ends too early"
        return Diagnostic(told, Span(end, end), expected, suggestion)
    return mistakes.explain_unexpected(token, end, expected, suggestion)


SYNTAX = Syntax(["cernis.languages.sql"], ["row_pattern"], {}, _explain_lexeme, _explain_token)


def parse_pattern(text: str, offset: int = 0, source: str | None = None) -> RowPattern:
    """Return the pattern of a text, which begins at an offset of a statement.

    >>> str(parse_pattern("a (b | c)*? {- d{2,} -} $"))
    'A (B | C)*? {- D{2,} -} $'
    """
    reader = _PatternReader(text, offset)
    try:
        tokens = read_tokens(SYNTAX, text)
        for word, following in pairwise(tokens):
            if word.value.upper() == "PERMUTE" and following.type == "LPAR":
                word.type = "_PERMUTE"
        pattern: RowPattern = read_rules(SYNTAX, "row_pattern", tokens, reader)
        if reader.mistakes.found:
            raise QueryError(reader.mistakes.found, text)
    except QueryError as error:
        moved = [replace(one, span=_move(one.span, offset)) for one in error.diagnostics]
        raise QueryError(moved, text if source is None else source) from None
    return pattern


def _move(span: Span | None, offset: int) -> Span | None:
    return None if span is None else Span(span.start + offset, span.end + offset)


class _PatternReader(LanguageReader):
    def __init__(self, source: str, offset: int) -> None:
        super().__init__(source)
        self.offset = offset

    def row_pattern(self, span: Span, parts: list[RowPattern]) -> RowPattern:
        return parts[0]

    def alternation(self, span: Span, parts: list[Any]) -> RowPattern:
        return RowAlternation(tuple(part for part in parts if not isinstance(part, Token)))

    def concatenation(self, span: Span, parts: list[RowPattern]) -> RowPattern:
        return parts[0] if len(parts) == 1 else RowSequence(tuple(parts))

    def group(self, span: Span, parts: list[RowPattern | None]) -> RowPattern:
        return parts[0] if parts and parts[0] is not None else RowSequence(())

    def permutation(self, span: Span, parts: list[RowPattern]) -> RowPattern:
        return RowPermutation(tuple(parts))

    def exclusion(self, span: Span, parts: list[Any]) -> RowPattern:
        return RowExclusion(parts[1])

    def start_anchor(self, span: Span, parts: list[Token]) -> RowPattern:
        return RowAnchor(at_end=False)

    def end_anchor(self, span: Span, parts: list[Token]) -> RowPattern:
        return RowAnchor(at_end=True)

    def variable(self, span: Span, parts: list[Token]) -> RowPattern:
        return RowVariable(read_identifier(parts[0].value), _move(span, self.offset))

    def repetition(self, span: Span, parts: list[Any]) -> RowPattern:
        part, (least, most, greedy) = parts
        return RowRepetition(part, least, most, greedy)

    def quantifier(self, span: Span, parts: list[Any]) -> tuple[int, int | None, bool]:
        sign, reluctant = parts
        known = {"STAR": (0, None), "PLUS": (1, None), "QMARK": (0, 1)}
        least, most = known[sign.type] if isinstance(sign, Token) else sign
        return least, most, reluctant is None

    def bounds(self, span: Span, parts: list[Any]) -> tuple[int, int | None]:
        least, most = parts[0]
        if most == 0 or (most is not None and most < least):
            told = "at least 1 repetition" if most == 0 else f"at least {least}"
            self.mistakes.note("the upper bound is too small", span, expected=told)
            return least, max(least, 1)
        return least, most

    def exactly(self, span: Span, parts: list[Token]) -> tuple[int, int | None]:
        number = self._read_bound(parts[0])
        return number, number

    def between(self, span: Span, parts: list[Token | None]) -> tuple[int, int | None]:
        least, most = (None if part is None else self._read_bound(part) for part in parts)
        return least or 0, most

    def _read_bound(self, token: Token) -> int:
        number = int(token.value[:9]) if len(token.value) < 9 else MOST_REPETITIONS + 1
        if number > MOST_REPETITIONS:
            message = f"at most {MOST_REPETITIONS:,} repetitions can be counted"
            self.mistakes.note(message, span_of(token))
            return 1
        return number


def read_identifier(text: str) -> str:
    """Return a name: in capitals, or as it stands in quotes; backticks do not keep small letters.

    >>> read_identifier("down"), read_identifier('"down"'), read_identifier("`down`")
    ('DOWN', 'down', 'DOWN')
    """
    if text[:1] == "`":
        return unquote(text).upper()
    return unquote(text) if text[:1] == '"' else text.upper()
