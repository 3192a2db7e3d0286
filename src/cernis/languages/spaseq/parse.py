"""The text of a SPAseQ query to `SpaseqQuery`.

Linear in the text, with the limits of `languages/text/read.py` on its length, its tokens and
the depth of its brackets. The lexer is SPARQL's throughout; inside SEQ (…) its tokens are cut
anew, because there ':' separates. A lexer that follows the parser's state would do the same
in one go, and could not lex a text that does not parse, so that mistakes would hide others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cernis.errors import QueryError
from cernis.languages.spaseq.mistakes import explain_lexeme, explain_token
from cernis.languages.spaseq.names import find_too_deep, resolve
from cernis.languages.spaseq.query import SpaseqQuery
from cernis.languages.spaseq.tree import SpaseqReader, WrittenSpaseqQuery
from cernis.languages.spaseq.words import TERMINALS
from cernis.languages.text.mistakes import sort_mistakes
from cernis.languages.text.read import Syntax, bound_tokens, read_rules, read_tokens
from cernis.languages.text.tokens import Token, cut_token
from cernis.pattern.suggest import find_closest
from cernis.pattern.write import capitalize_ascii

_SEPARATORS = ("COMMA", "SEMICOLON", "COLON")
_NUMBERS = ("INTEGER", "DECIMAL", "DOUBLE")
_CUT = ("PNAME", "PNAME_NS", "BLANK", "VAR")
"""Tokens of SPARQL that are several tokens inside SEQ."""
_PIECE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|.", re.DOTALL)
_PIECES = {":": "COLON", "?": "QMARK"}


def _retype_word(word: str) -> str:
    """Return the terminal of a word: that of its keyword, if it is one."""
    if word == "a":
        return "A"
    return TERMINALS.get(capitalize_ascii(word), "NAME")


def _retype_prefix(word: str) -> str:
    return "PNAME_NS" if word.index(":") == len(word) - 1 else "PNAME"


SYNTAX = Syntax(
    ["cernis.languages.spaseq"],
    ["spaseq"],
    TERMINALS,
    explain_lexeme,
    explain_token,
    {"NAME": _retype_word, "PNAME": _retype_prefix},
    placeholders=False,
)


# ----------------------------------------------------------------------- tokens


def _cut_name(token: Token) -> Iterator[Token]:
    """Cut a token of SPARQL into names and symbols."""
    for found in _PIECE.finditer(token.value):
        is_name = found[0][0].isalpha() or found[0][0] == "_"
        type_ = "NAME" if is_name else _PIECES.get(found[0], "STRAY")
        yield cut_token(token, type_, found.start(), found.end())


def _retype_name(token: Token) -> Token:
    """Make a keyword a name, where only a name can stand."""
    if token.value.isidentifier():
        token.type = "NAME"
    return token


def _retype_steps(tokens: Sequence[Token]) -> list[Token]:
    """Cut the tokens inside SEQ's brackets anew."""
    found: list[Token] = []
    for token in tokens:
        found += _cut_name(token) if token.type in _CUT else (_retype_name(token),)
    for before, token, after in zip(found, found[1:], found[2:], strict=False):
        ends = after.type in (*_SEPARATORS, "RPAR")
        if before.type == "PLUS" and token.type in _SEPARATORS and ends:
            token.type = "LINK"
    return found


def _is_sequence_start(token: Token, after: Token) -> bool:
    if after.type != "LPAR":
        return False
    misspelt = token.type == "NAME" and find_closest(token.value, ["SEQ"], cutoff=0.7) is not None
    return token.type == "_SEQ" or misspelt


def _find_close(tokens: Sequence[Token], opened: int) -> int:
    """Return where the bracket opened there is closed; brackets have been checked."""
    depth = 0
    for index in range(opened, len(tokens)):
        depth += {"LPAR": 1, "RPAR": -1}.get(tokens[index].type, 0)
        if depth == 0:
            return index
    return len(tokens) - 1


def _is_sign(token: Token, following: Sequence[Token]) -> bool:
    """Whether a '+' stands right before a number."""
    return any(after.type in _NUMBERS and after.start_pos == token.end_pos for after in following)


def _retype_in_context(tokens: list[Token]) -> Iterator[Token]:
    """Retype the tokens whose terminal depends on their surroundings: see `grammar.lark`."""
    braces = index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1 : index + 2]
        index += 1
        if token.type == "PLUS" and not _is_sign(token, following):
            token.type = "MORE"
        yield token
        braces += {"LBRACE": 1, "RBRACE": -1}.get(token.type, 0)
        if not following:
            continue
        if braces <= 1 and _is_sequence_start(token, following[0]):
            closed = _find_close(tokens, index)
            yield from _retype_steps(tokens[index : closed + 1])
            index = closed + 1
        elif token.type in ("_GPM", "_STREAM") and following[0].value.isidentifier():
            yield _retype_name(following[0])
            index += 1
        elif token.type == "_ON":
            while index < len(tokens) and (
                tokens[index].type == "COMMA" or tokens[index].value.isidentifier()
            ):
                yield _retype_name(tokens[index])
                index += 1


# ------------------------------------------------------------------------ query


def parse(text: str) -> SpaseqQuery:
    """Return the query that a text stands for; raise QueryError with every mistake found.

    >>> query = parse("SELECT * FROM STREAM S <http://a/s> WHERE {"
    ...     " SEQ (A ; B+) DEFINE GPM A ON S { ?x a ?y } DEFINE GPM B ON S { ?y a ?z } }")
    >>> query.steps[1].rounds
    ','
    """
    tokens = list(_retype_in_context(read_tokens(SYNTAX, text)))
    bound_tokens(tokens)
    labels = (token.value[2:] for token in tokens if token.type == "BLANK")
    reader = SpaseqReader(text, labels)
    written: WrittenSpaseqQuery = read_rules(SYNTAX, "spaseq", tokens, reader)
    mistakes = reader.mistakes
    deep = find_too_deep(written.gpms)
    if deep is not None:
        raise QueryError(sort_mistakes([*mistakes.found, deep]), text)
    query = resolve(written, mistakes, text)
    if mistakes.found:
        raise QueryError(sort_mistakes(mistakes.found), text)
    return query
