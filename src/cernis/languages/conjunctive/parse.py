"""The text of a conjunctive query to `ConjunctiveQuery`.

Linear in the text, with the limits of `languages/text/read.py` on its length and its tokens.
Functions nest, to a depth that is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from cernis.errors import Diagnostic, QueryError
from cernis.languages.conjunctive.mistakes import explain_lexeme, explain_token
from cernis.languages.conjunctive.names import resolve
from cernis.languages.conjunctive.query import ConjunctiveQuery
from cernis.languages.conjunctive.tree import ConjunctiveReader, WrittenConjunctiveQuery
from cernis.languages.conjunctive.words import TERMINALS
from cernis.languages.text.mistakes import sort_mistakes
from cernis.languages.text.read import Syntax, read_rules, read_tokens
from cernis.languages.text.tokens import Token, cut_token, span_of
from cernis.pattern.check.depth import MAX_DEPTH
from cernis.pattern.functions import FUNCTIONS
from cernis.schema import Schema

SYNTAX = Syntax(
    ["cernis.languages.text", "cernis.languages.conjunctive"],
    ["conjunctive"],
    TERMINALS,
    explain_lexeme,
    explain_token,
)
_RELATION = ["NAME", "LPAR"]
_PIECES = {"ARROW": ("CMP", "MINUS"), "TURNSTILE": ("COLON", "MINUS")}


def _retype_in_context(tokens: list[Token]) -> Iterator[Token]:
    """Retype the tokens whose terminal depends on their surroundings: see `grammar.lark`."""
    arrow = False
    for number, token in enumerate(tokens):
        if token.type in _PIECES:
            if arrow:
                first, second = _PIECES[token.type]
                yield cut_token(token, first, 0, 1)
                yield cut_token(token, second, 1, 2)
                continue
            arrow = True
        elif token.type == "GT" and [t.type for t in tokens[number + 1 : number + 3]] == _RELATION:
            token.type = "OF"
        yield token


_COMPARES = frozenset(("CMP", "GT"))


def _retype_functions(tokens: list[Token], text: str) -> None:
    """Tell functions from relations: they are compared, or stand in another function.

    In `x > LENGTH(y)` the name before could be a stream: it is a variable if it is one elsewhere.
    """
    opened: list[int] = []
    closes: dict[int, int] = {}
    arrow = next((i for i, token in enumerate(tokens) if token.type in _PIECES), len(tokens))
    for number, token in enumerate(tokens):
        if token.type == "LPAR" and number > arrow:
            opened.append(number)
            if len(opened) > MAX_DEPTH:
                message = f"the query is nested more than {MAX_DEPTH} deep"
                raise QueryError([Diagnostic(message, span_of(token))], text)
        elif token.type == "RPAR" and opened:
            closes[opened.pop()] = number
    inside = -1
    variables = {tokens[i].value for i in range(1, arrow) if tokens[i].type == "NAME"}
    variables |= {tokens[i].value for opens, end in closes.items() for i in range(opens, end)}
    for number, token in enumerate(tokens[:-1]):
        if token.type != "NAME" or number + 1 not in closes:
            continue
        end = closes[number + 1]
        after = tokens[end + 1].type if end + 1 < len(tokens) else ""
        before = [each.type for each in tokens[max(number - 2, 0) : number]]
        is_right = before[-1:] in (["CMP"], ["GT"])
        if before == ["NAME", "GT"]:
            is_right = token.value.upper() in FUNCTIONS and tokens[number - 2].value in variables
        if number < inside or after in _COMPARES or is_right:
            token.type, inside = "FUNCTION", max(inside, end)


def _read(text: str, reader: ConjunctiveReader) -> WrittenConjunctiveQuery:
    tokens = read_tokens(SYNTAX, text)
    if tokens and tokens[-1].type in ("SEMICOLON", "DOT"):
        tokens.pop()  # the habits of SQL and of Datalog
    _retype_functions(tokens, text)
    found: WrittenConjunctiveQuery = read_rules(
        SYNTAX, "conjunctive", list(_retype_in_context(tokens)), reader
    )
    return found


def parse(text: str, *, schema: Schema | None = None) -> ConjunctiveQuery:
    """Return the query that a text stands for; raise QueryError with every mistake found.

    Arguments by position need the attributes of their relation: declared in the text
    (`CREATE STREAM S { EVENT T { a:int } }`), or given as `schema`.

    >>> parse("Q(x) <- T(a: x), S(a: x, b: 3)").atoms[1].relation
    'S'
    """
    reader = ConjunctiveReader(text)
    query = resolve(_read(text, reader), schema, text, reader.mistakes)
    if reader.mistakes.found:
        raise QueryError(sort_mistakes(reader.mistakes.found), text)
    return query
