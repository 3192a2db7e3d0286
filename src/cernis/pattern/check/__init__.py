"""Check the names and types of a pattern against a schema of the events.

`check` returns every mistake, `resolve` raises them together. Without a schema they check scopes,
bounds and constants alone. The engine that runs regular expressions knows their mistakes; the
caller passes it as `regex_mistake`.

Scopes: a type's name is a variable, and so is each AS variable; variables inside NOT and
on the right of UNLESS are not seen outside. An attribute must be known to at least one of
the event types that its variable can stand for; on the others it is NULL. `type` and `ts`
are always known. Linear in the pattern times its depth; recursive, which is safe because
`MAX_DEPTH` is looked at first.
"""

from __future__ import annotations

from cernis.errors import Diagnostic, QueryError
from cernis.pattern.check.clauses import PatternCheck
from cernis.pattern.check.depth import MAX_DEPTH, find_too_deep
from cernis.pattern.check.predicates import MOST_MISTAKES, RegexMistake
from cernis.pattern.check.terms import AGGREGATES
from cernis.pattern.query import Pattern
from cernis.schema import Schema

__all__ = [
    "AGGREGATES",
    "MAX_DEPTH",
    "MOST_MISTAKES",
    "check",
    "find_too_deep",
    "resolve",
]


def check(
    pattern: Pattern, schema: Schema | None = None, regex_mistake: RegexMistake | None = None
) -> list[Diagnostic]:
    """Return every mistake, in the order of the text.

    The pattern must be right for the schema that it declares itself and for the given one.
    Without `regex_mistake` any regular expression is taken for right.

    >>> from cernis.pattern.formula import Event
    >>> [mistake.message for mistake in check(Pattern(Event("A"), limit=-1))]
    ['LIMIT must not be negative']
    """
    deep = find_too_deep(pattern)
    if deep is not None:
        return [deep]
    known = [one for one in (pattern.declared, schema) if one is not None]
    schemas: list[Schema | None] = [*known] if known else [None]
    mistakes: dict[Diagnostic, None] = {}
    for one in schemas:
        mistakes.update(dict.fromkeys(PatternCheck(pattern, one, regex_mistake).run()))
    return sorted(mistakes, key=lambda mistake: (mistake.span is None, mistake.span))


def resolve(
    pattern: Pattern, schema: Schema | None = None, regex_mistake: RegexMistake | None = None
) -> Pattern:
    """Return the pattern, if it is right; otherwise raise QueryError with every mistake."""
    mistakes = check(pattern, schema, regex_mistake)
    if mistakes:
        raise QueryError(mistakes, pattern.source)
    return pattern
