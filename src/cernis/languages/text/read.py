"""From text to what a reader makes of it, for every language: limits, tokens, an LALR parse.

Linear in the text. The parser keeps its own stack, and three limits hold for any text: its
length, the number of its tokens and the depth of its nesting. A hostile query therefore
costs a bounded time and is refused with a message. An Earley parser would give shorter
grammars and a worse bound.

A misspelt keyword is reported and read as the keyword, so that the mistakes after it are
reported too; `5m` is read as `5 MINUTES`; any other syntax error ends the parse.

The tables of a grammar are loaded, not built (`cernis.languages.text.tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lark import Lark

from cernis.cycles import make_lasting
from cernis.errors import BudgetError, Diagnostic, QueryError
from cernis.languages.text import mistakes as m
from cernis.languages.text.lalr import END, Lexer, Parser
from cernis.languages.text.parameters import bind_tokens
from cernis.languages.text.tables import Grammar
from cernis.languages.text.tokens import Token
from cernis.languages.text.tree import LanguageReader
from cernis.pattern.check import MAX_DEPTH
from cernis.pattern.write import capitalize_ascii

MAX_TEXT = 1 << 20
"""The longest text, in characters."""

MAX_TOKENS = 50_000
"""The most tokens in a text; a pattern has at most as many nodes."""


@dataclass(frozen=True)
class Syntax:
    """A language: its grammar, its keywords, and how it explains mistakes."""

    packages: Sequence[str]
    """The packages whose `grammar.lark` make the grammar."""
    start: Sequence[str]
    keywords: Mapping[str, str]
    """Keyword, in capitals, to its terminal; a misspelt word may be one of these."""
    explain_lexeme: Callable[[Token], Diagnostic | None]
    """Explains a lexeme that no query holds; None for all others."""
    explain_token: Callable[[Token, set[str], Sequence[Token], int], Diagnostic]
    """Explains a token that is not among the accepted terminals, given the tokens before it and
    the end of the text."""
    retype: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """The terminal of a word, by the one that it was cut as: for NAME, else that of its keyword."""
    placeholders: bool = True

    @cached_property
    def grammar(self) -> Grammar:
        return Grammar(self.packages, [*self.start, "lexical"], self.placeholders)

    @cached_property
    def lexer(self) -> Lexer:
        return Lexer(self._lark, {"NAME": self._find_keyword, **self.retype})

    @cached_property
    def parser(self) -> Parser:
        return Parser(self._lark)

    @cached_property
    def _lark(self) -> Lark:
        with make_lasting():
            return self.grammar.load()

    def _find_keyword(self, word: str) -> str:
        return self.keywords.get(capitalize_ascii(word), "NAME")


def read_tokens(syntax: Syntax, text: str) -> list[Token]:
    """Return the tokens of a text; raise mistakes in its length, lexemes or brackets."""
    if len(text) > MAX_TEXT:
        raise BudgetError(
            f"the query has {len(text):,} characters; at most {MAX_TEXT:,} are allowed"
        )
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if clean != text:
        raise QueryError([Diagnostic("the query holds characters that are not Unicode")], clean)
    tokens = syntax.lexer.cut(text, MAX_TOKENS + 1)
    bound_tokens(tokens)
    mistakes = m.find_lexical_mistakes(tokens, syntax.explain_lexeme)
    if not any(token.type.startswith("UNCLOSED") for token in tokens[-1:]):
        mistakes += m.find_bracket_mistakes(tokens, text, MAX_DEPTH)
    if mistakes:
        raise QueryError(m.sort_mistakes(mistakes), text)
    tokens = bind_tokens(tokens, text)
    m.expand_units(tokens, syntax.keywords)
    return tokens


def bound_tokens(tokens: Sequence[Token]) -> None:
    """Raise BudgetError if there are too many tokens."""
    if len(tokens) > MAX_TOKENS:
        raise BudgetError(f"the query has more than {MAX_TOKENS:,} words and symbols")


def read_rules(
    syntax: Syntax,
    start: str,
    tokens: list[Token],
    reader: LanguageReader,
    misspelt: list[Diagnostic] | None = None,
) -> Any:
    """Return what a reader makes of the tokens of its text; raise the syntax errors.

    Where keywords are misspelt and nothing else is wrong, their mistakes go into `misspelt`, if
    that is given, so that the caller can look for others.
    """
    text, mistakes = reader.source, list[Diagnostic]()

    def recover(number: int) -> None:
        """Read a misspelt keyword as the keyword; raise any other syntax error."""
        before = tokens[:number]
        end = tokens[-1].end_pos if tokens else 0
        token = tokens[number] if number < len(tokens) else Token(END, "", end, end)
        accepted = syntax.parser.find_accepted(start, before)
        meant = m.guess_keyword(token, accepted, syntax.keywords)
        if meant is None or len(mistakes) == m.MOST_MISTAKES:
            mistakes.append(syntax.explain_token(token, accepted, before, len(text.rstrip())))
            raise QueryError(mistakes, text)
        mistakes.append(m.explain_misspelling(token, meant))
        token.type, token.value = syntax.keywords[meant], meant

    found = syntax.parser.run(start, tokens, reader, recover)
    if mistakes and misspelt is None:
        raise QueryError(mistakes, text)
    if misspelt is not None:
        misspelt[:] = [*mistakes, *misspelt][: m.MOST_MISTAKES]
    return found
