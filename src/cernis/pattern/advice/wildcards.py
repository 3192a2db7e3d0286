"""LIKE with the `%` of SQL: here LIKE takes a regular expression, in which `%` is a letter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cernis.errors import Diagnostic
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern
from cernis.pattern.write import write_predicate

CODE = "like-percent"

_PLAIN = re.compile(r"[\w\s%.,;:@#&=<>/'\"-]*%[\w\s%.,;:@#&=<>/'\"-]*")
"""A text with a `%` and no sign of a regular expression but a dot, of addresses for example."""


def find_wildcards(pattern: Pattern) -> Iterator[Diagnostic]:
    """Yield a warning for each LIKE whose pattern is one of SQL, not a regular expression.

    >>> from cernis.languages.ceql import parse
    >>> query = parse("SELECT * WHERE A FILTER A[name LIKE 'MS%']")
    >>> [found.suggestion for found in find_wildcards(query)]
    ["write name LIKE 'MS.*'"]
    """
    for leaf in cel.list_leaves(pattern.nodes):
        if isinstance(leaf, pred.Holds):
            yield from map(_describe, _list_likes(leaf.predicate))


def _list_likes(predicate: pred.Predicate) -> Iterator[pred.Like]:
    stack = [predicate]
    while stack:
        match stack.pop():
            case pred.Like(pattern=text) as like if _PLAIN.fullmatch(text):
                yield like
            case pred.And(parts=parts) | pred.Or(parts=parts):
                stack.extend(reversed(parts))
            case pred.Negation(body=body):
                stack.append(body)


def _describe(like: pred.Like) -> Diagnostic:
    meant = pred.Like(like.body, like.pattern.replace(".", r"\.").replace("%", ".*"))
    return Diagnostic(
        "LIKE takes a regular expression, in which % is a plain sign",
        like.pattern_span or like.span,
        suggestion=f"write {write_predicate(meant)}",
        code=CODE,
    )
