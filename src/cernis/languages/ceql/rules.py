"""A text of rules: `RULE name AS SELECT …`, one after the other.

Each rule is parsed alone, where it stands: lines and columns in its mistakes are those of the whole
text. `RULE`, a name and `AS` cannot follow each other inside a query, so they tell where a rule
begins.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from cernis.errors import CernisError, Diagnostic, QueryError
from cernis.languages.ceql.mistakes import quote_keyword
from cernis.languages.ceql.parse import SYNTAX, parse, parse_schema
from cernis.languages.ceql.words import SOFT
from cernis.languages.text.parameters import cut_defaults, use_defaults
from cernis.languages.text.tokens import Token, span_of
from cernis.languages.text.tree import unquote
from cernis.pattern.query import Pattern
from cernis.pattern.write import capitalize_ascii
from cernis.schema import Schema


class ParsedRule(NamedTuple):
    """A rule of a text: its name, its line, and its query or what is wrong with it."""

    name: str
    line: int
    pattern: Pattern | None
    mistake: CernisError | None = None


def is_rule_set(text: str) -> bool:
    """Return whether a text has rules, and is no single query."""
    return bool(_find_heads(SYNTAX.lexer.cut(text)))


def parse_rules(text: str) -> list[ParsedRule]:
    """Return the rules of a text; declarations before the first one are those of all rules.

    So are the defaults of a PARAMETER clause there.

    >>> text = "RULE a AS SELECT * WHERE A; RULE b AS SELECT * WHERE B"
    >>> [rule.name for rule in parse_rules(text)]
    ['a', 'b']
    """
    tokens = SYNTAX.lexer.cut(text)
    heads = _find_heads(tokens)
    if not heads:
        span = span_of(tokens[0]) if tokens else None
        mistake = Diagnostic("a rule set is made of rules", span, expected="RULE name AS SELECT …")
        raise QueryError([mistake], text)
    begins = [_start(tokens[head]) for head in heads]
    declarations = text[: begins[0]]
    _, defaults = cut_defaults(tokens[: heads[0]], text)
    declared, ahead = _parse_declarations(declarations)
    rules = []
    for head, end in zip(heads, [*begins[1:], len(text)], strict=True):
        name, as_ = tokens[head + 1 : head + 3]
        begin = _start(as_) + len(as_.value)
        line = text.count("\n", 0, _start(name)) + 1
        title = unquote(name.value) if name.type == "QUOTED" else name.value
        if not _can_be_name(name):
            rules.append(ParsedRule(title, line, None, _refuse_keyword(name, text)))
            continue
        before, statement = _find_before(text, declarations, begin), text[begin:end]
        blank = ahead + re.sub(r"[^\n]", " ", before)
        shown = declarations + before + statement
        try:
            with use_defaults(defaults):
                pattern = parse(blank + statement)
            pattern = replace(pattern, source=shown, declared=declared or pattern.declared)
            rules.append(ParsedRule(title, line, pattern))
        except QueryError as error:
            rules.append(ParsedRule(title, line, None, QueryError(error.diagnostics, shown)))
        except CernisError as error:
            rules.append(ParsedRule(title, line, None, error))
    return rules


@lru_cache(maxsize=16)
def _parse_declarations(text: str) -> tuple[Schema | None, str]:
    """Return the schema of the declarations of all rules, and the text that stands before each.

    Declarations that are right are parsed once, also if many files begin with the same ones, and
    rules have blanks of the same shape before them. Each rule reports the mistakes of wrong ones,
    with its own. No parameter and no function of a user may stand in a declaration, so its text
    says all.
    """
    try:
        schema = parse_schema(text)
    except CernisError:
        return None, text
    return schema if schema.streams else None, re.sub(r"[^\n]", " ", text)


def _find_before(text: str, declarations: str, begin: int) -> str:
    """Return as many lines as stand between declarations and a query, and the begin of its line."""
    lines = text.count("\n", len(declarations), begin)
    if not lines:
        return text[len(declarations) : begin]
    return "\n" * lines + text[text.rfind("\n", 0, begin) + 1 : begin]


def _find_heads(tokens: list[Token]) -> list[int]:
    """Return where `RULE name AS` stands."""
    return [
        i
        for i, (word, name, as_) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False))
        if word.type == "NAME"
        and capitalize_ascii(word.value) == "RULE"
        and as_.type == "_AS"
        and (_can_be_name(name) or name.value.isidentifier())
    ]


def _can_be_name(token: Token) -> bool:
    return token.type in ("NAME", "QUOTED") or token.type in SOFT


def _refuse_keyword(name: Token, text: str) -> QueryError:
    mistake = Diagnostic(
        f"unexpected {name.value!r}",
        span_of(name),
        expected="the name of a rule",
        suggestion=quote_keyword(name.value),
    )
    return QueryError([mistake], text)


def _start(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos
