"""From text to a tree, for every language: limits first, then tokens, then an LALR parse.

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
from functools import cached_property, partial
from itertools import islice
from operator import itemgetter
from typing import Any, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken
from lark.lexer import BasicLexer

from cernis.cycles import make_lasting
from cernis.errors import BudgetError, Diagnostic, QueryError
from cernis.languages.text import mistakes as m
from cernis.languages.text.parameters import bind_tokens
from cernis.languages.text.tables import Grammar
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
    callbacks: Mapping[str, Callable[[Token], Token]] = field(default_factory=dict)
    """Retype tokens, by their terminal; NAME becomes the terminal of its keyword without one."""
    placeholders: bool = True

    @cached_property
    def grammar(self) -> Grammar:
        return Grammar(self.packages, [*self.start, "lexical"], self.placeholders)

    @cached_property
    def parser(self) -> Lark:
        with make_lasting():
            parser = self.grammar.load()
        parser.lexer_conf.callbacks = {"NAME": self._retype_word, **self.callbacks}
        parser.lexer = BasicLexer(parser.lexer_conf)  # Lark builds one for each text otherwise
        _shorten_chains(parser)
        return parser

    def _retype_word(self, token: Token) -> Token:
        token.type = self.keywords.get(capitalize_ascii(token.value), "NAME")
        return token


def _shorten_chains(parser: Lark) -> None:
    """Let rules that stand for one other rule, as levels of precedence do, pass its node on.

    Lark builds a node for each, copies the positions of the one inside, and drops it: most of the
    time of a long condition. Nodes of rules whose names begin with `_` give their children to the
    node above, whatever their names.
    """
    for rule in parser.rules:
        is_chain = len(rule.expansion) == 1 and not rule.expansion[0].is_term
        if not is_chain or rule.alias is not None or any(rule.options.empty_indices):
            continue
        inside, name = rule.expansion[0].name.startswith("_"), str(rule.origin.name)
        if name.startswith("_"):
            parser._callbacks[rule] = itemgetter(0) if inside else partial(_wrap_node, name)
        elif rule.options.expand1 and not inside:
            parser._callbacks[rule] = itemgetter(0)


def _wrap_node(name: str, children: list[Any]) -> Tree[Token]:
    """Return a node with one node inside, whose positions it has."""
    return Tree(name, children, children[0].meta)


def read_tokens(syntax: Syntax, text: str) -> list[Token]:
    """Return the tokens of a text; raise mistakes in its length, lexemes or brackets."""
    if len(text) > MAX_TEXT:
        raise BudgetError(
            f"the query has {len(text):,} characters; at most {MAX_TEXT:,} are allowed"
        )
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if clean != text:
        raise QueryError([Diagnostic("the query holds characters that are not Unicode")], clean)
    tokens = list(islice(syntax.parser.lex(text), MAX_TOKENS + 1))
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


def read_tree(
    syntax: Syntax,
    start: str,
    tokens: list[Token],
    text: str,
    misspelt: list[Diagnostic] | None = None,
) -> Tree[Token]:
    """Parse the tokens of a text; raise its syntax errors.

    Where keywords are misspelt and nothing else is wrong, their mistakes go into `misspelt`, if
    that is given, so that the caller can look for others.
    """
    parser = syntax.parser.parse_interactive(start=start)
    mistakes: list[Diagnostic] = []
    tree: Tree[Token] | None = None
    end = tokens[-1] if tokens else Token("$END", "", 0, 1, 1, 1, 1, 0)
    for number, token in enumerate([*tokens, Token.new_borrow_pos("$END", "", end)]):
        try:
            tree = parser.feed_token(token)
        except UnexpectedToken:
            before = tokens[:number]
            accepted = _find_accepted(syntax, start, before)
            meant = m.guess_keyword(token, accepted, syntax.keywords)
            if meant is None or len(mistakes) == m.MOST_MISTAKES:
                mistakes.append(syntax.explain_token(token, accepted, before, len(text.rstrip())))
                break
            mistakes.append(m.explain_misspelling(token, meant))
            token.type, token.value = syntax.keywords[meant], meant
            parser.feed_token(token)
    if mistakes and (tree is None or misspelt is None):
        raise QueryError(mistakes, text)
    if misspelt is not None:
        misspelt += mistakes
    return cast("Tree[Token]", tree)


def _find_accepted(syntax: Syntax, start: str, tokens: list[Token]) -> set[str]:
    """Return the terminals that may follow; replays the tokens, as a failed feed reduces rules."""
    parser = syntax.parser.parse_interactive(start=start)
    for token in tokens:
        parser.feed_token(token)
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepted
