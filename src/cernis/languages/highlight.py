"""Pygments lexers for CEQL, conjunctive queries and SPAseQ, for sites, slides and terminals.

They cut a text with the lexers of the parsers themselves, so they know every keyword and every
literal of the language. What is not part of the language is an error token, and nothing raises:
pages show parts of queries. Pygments finds the lexers by name (entry points `pygments.lexers`) as
`ceql`, `cq` and `spaseq`. Linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pygments import token as colour
from pygments.lexer import Lexer

from cernis.languages.ceql.parse import SYNTAX as CEQL
from cernis.languages.conjunctive.parse import SYNTAX as CONJUNCTIVE
from cernis.languages.spaseq.parse import SYNTAX as SPASEQ
from cernis.languages.text.read import Syntax
from cernis.languages.text.tokens import Token, span_of
from cernis.pattern.functions import find_function
from cernis.pattern.write import capitalize_ascii

_COLOURS: dict[str, Any] = {
    **dict.fromkeys(("NAME", "QUOTED"), colour.Name),
    **dict.fromkeys(("INT", "INTEGER"), colour.Number.Integer),
    **dict.fromkeys(("FLOAT", "DECIMAL", "DOUBLE"), colour.Number.Float),
    **dict.fromkeys(("TRUE", "FALSE"), colour.Keyword.Constant),
    **dict.fromkeys(("PNAME", "PNAME_NS"), colour.Name.Tag),
    **dict.fromkeys(("FOREIGN", "UNCLOSED", "UNCLOSED_COMMENT", "STRAY", "BAD_IRI"), colour.Error),
    "BLANK": colour.Name.Label,
    "IRI": colour.String.Other,
    "LANG": colour.Name.Decorator,
    "STRING": colour.String,
    "UNIT": colour.Keyword.Type,
    **dict.fromkeys(("VAR", "PARAMETER"), colour.Name.Variable),
}
_PUNCTUATION = frozenset(("LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE", "COMMA", "DOT"))
_STRATEGIES = frozenset(("ANY", "STRATEGY", "LASTMAX"))
_AGGREGATES = frozenset(("AGGREGATE", "LASTMAX", "PREV"))


class CernisLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """A Pygments lexer that cuts a text with the lexer of a parser."""

    syntax: ClassVar[Syntax]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield (position, kind, text) for every character of a text."""
        tokens = self.syntax.lexer.cut(text)
        done = 0
        for i, token in enumerate(tokens):
            start, end = span_of(token)
            yield from _read_gap(text, done, start)
            yield start, find_colour(tokens, i), text[start:end]
            done = end
        yield from _read_gap(text, done, len(text))


class CeqlLexer(CernisLexer):
    """CEQL, and rule sets."""

    name = "CEQL"
    aliases: ClassVar[list[str]] = ["ceql"]
    filenames: ClassVar[list[str]] = ["*.ceql"]
    syntax = CEQL


class ConjunctiveLexer(CernisLexer):
    """Conjunctive queries."""

    name = "Cernis conjunctive query"
    aliases: ClassVar[list[str]] = ["cq"]
    filenames: ClassVar[list[str]] = ["*.cq"]
    syntax = CONJUNCTIVE


class SpaseqLexer(CernisLexer):
    """SPAseQ."""

    name = "SPAseQ"
    aliases: ClassVar[list[str]] = ["spaseq"]
    filenames: ClassVar[list[str]] = ["*.spaseq"]
    syntax = SPASEQ


def find_colour(tokens: Sequence[Token], i: int) -> Any:
    """Return the kind of a token; soft keywords are keywords only where they can be one."""
    kind = tokens[i].type
    before = tokens[i - 1].type if i else ""
    after = tokens[i + 1].type if i + 1 < len(tokens) else ""
    is_function = kind in ("NAME", "UNIT") and find_function(tokens[i].value) is not None
    if (kind in _AGGREGATES or is_function) and after == "LPAR":
        return colour.Name.Function
    if kind in _STRATEGIES:
        return colour.Keyword if before in ("_SELECT", "_BY") else colour.Name
    if kind in ("AGGREGATE", "PREV") or (kind == "_ORDER" and after != "_BY"):
        return colour.Name
    word = capitalize_ascii(tokens[i].value) if kind == "NAME" else ""
    follows = {"RULE": ("NAME", "QUOTED"), "PARAMETER": ("PARAMETER",)}
    if after in follows.get(word, ()):
        return colour.Keyword
    if kind in ("NAME", "QUOTED") and (before == "_AS" or after == "LSQB"):
        return colour.Name.Variable
    if tokens[i].value == "…":  # pages leave parts of a query out
        return colour.Text
    if kind in _COLOURS:
        return _COLOURS[kind]
    if tokens[i].value[0].isalpha():
        return colour.Keyword
    return colour.Punctuation if kind in _PUNCTUATION else colour.Operator


def _read_gap(text: str, start: int, end: int) -> Iterator[tuple[int, Any, str]]:
    """Yield what the parser ignores: spaces and comments."""
    gap = text[start:end]
    inner = gap.strip()
    if not inner:
        if gap:
            yield start, colour.Whitespace, gap
        return
    at = gap.index(inner)
    for offset, kind, part in (
        (0, colour.Whitespace, gap[:at]),
        (at, colour.Comment, inner),
        (at + len(inner), colour.Whitespace, gap[at + len(inner) :]),
    ):
        if part:
            yield start + offset, kind, part
