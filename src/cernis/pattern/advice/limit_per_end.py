"""ORDER BY … LIMIT that leaves nothing out: it counts the matches of one end, and each has few.

`ORDER BY x DESC LIMIT 5` is the habit of SQL, where it means the five best of all.
"""

from __future__ import annotations

from collections.abc import Iterator

from cernis.errors import Diagnostic
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Strategy

CODE = "limit-per-end"

_ONE_FOR_AN_END = (Strategy.NEXT, Strategy.LAST, Strategy.ANY)


def find_idle_limit(pattern: Pattern) -> Iterator[Diagnostic]:
    """Yield a warning where no end can have more matches than LIMIT keeps.

    >>> from cernis.languages.ceql import parse
    >>> query = parse("SELECT NEXT * WHERE A ; B ORDER BY A[x] DESC LIMIT 5")
    >>> [found.suggestion for found in find_idle_limit(query)]
    ['write LIMIT 5 OVERALL for the best of all; on a stream, LIMIT 5 EVERY 1 HOUR']
    """
    body = pattern.formula
    while isinstance(body, cel.As | cel.Filter):
        body = body.body
    if not counts_ends(pattern):
        return
    if pattern.strategy in _ONE_FOR_AN_END:
        yield describe_idle_limit(pattern, f"of which {pattern.strategy.value} leaves one")
    elif isinstance(body, cel.Event):
        yield describe_idle_limit(pattern, "and a single event is one match")


def counts_ends(pattern: Pattern) -> bool:
    """Return whether LIMIT keeps the best matches of each end."""
    is_ranked = pattern.ranks_intervals or pattern.ranks_overall
    return pattern.order is not None and bool(pattern.limit) and not is_ranked


def describe_idle_limit(pattern: Pattern, why: str) -> Diagnostic:
    """Return the warning that LIMIT leaves nothing out."""
    limit = f"LIMIT {pattern.limit}"
    return Diagnostic(
        f"{limit} leaves nothing out: it counts the matches of each end, {why}",
        next(iter(pattern.spans.get("limit", ())), None),
        suggestion=f"write {limit} OVERALL for the best of all; on a stream, {limit} EVERY 1 HOUR",
        code=CODE,
    )
