"""Check files of events before Spark starts.

Mistakes in a file's name, its columns or the query are found within milliseconds, with the
embedded engine's messages; Spark takes seconds to start.

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cernis.errors import CernisError
from cernis.events.order import Ordering
from cernis.events.source import Source, open_events, schema_of
from cernis.pattern.check import resolve
from cernis.pattern.query import Pattern, Unit
from cernis.run.query import Query
from cernis.run.rules.reading.streams import name_streams, unite_declared
from cernis.run.rules.rule import RuleSetError, describe_mistake
from cernis.run.rules.rule_set import RuleSet


def check_files(
    query: Query, files: Any, *, on_error: str = "fail", **reading: Any
) -> list[Source]:
    """Open the streams that a query reads, and check it against their columns.

    `reading` are the options of `Query.run` that say how events are read.
    """
    pattern = query.pattern
    sources = open_events(
        files, names=pattern.streams, on_error=on_error, declared=pattern.declared, **reading
    )
    _check_pattern(pattern, sources)
    return sources


def check_rule_files(
    rules: RuleSet, files: Any, *, on_error: str = "fail", **reading: Any
) -> list[Source]:
    """Open the streams that rules read, and check the rules against their columns."""
    patterns = [rule.query.pattern for rule in rules]
    names, declared = name_streams(patterns), unite_declared(patterns)
    sources = open_events(files, names=names, on_error=on_error, declared=declared, **reading)
    mistakes, made = [], {pattern.into for pattern in patterns}
    for rule, pattern in zip(rules, patterns, strict=True):
        if not made.isdisjoint(pattern.streams):
            continue  # checked when the columns of the streams of matches are known
        own = [each for each in sources if not pattern.streams or each.name in pattern.streams]
        try:
            _check_pattern(pattern, own)
        except CernisError as error:
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
    if mistakes:
        raise RuleSetError(mistakes)
    return sources


def _check_pattern(pattern: Pattern, sources: Sequence[Source]) -> None:
    if pattern.declared is None and not any(source.is_blank for source in sources):
        resolve(pattern, schema_of(sources))
    ordering = Ordering(sources)
    if pattern.within is not None and pattern.within.unit is Unit.TIME:
        ordering.scale.ticks(pattern.within.size)
    if pattern.forget is not None:
        ordering.scale.ticks(pattern.forget, "FORGET AFTER")
    if pattern.suppress is not None:
        ordering.scale.ticks(pattern.suppress.length, "SUPPRESS BY … FOR")
