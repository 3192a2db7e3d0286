"""Check files of events before Spark starts.

Mistakes in a file's name, its columns or the query are found within milliseconds, with the
embedded engine's messages; Spark takes seconds to start.

Does not import Spark.
"""

from __future__ import annotations

from typing import Any

from cernis.events.order import Ordering
from cernis.events.source import Source, open_events, schema_of
from cernis.pattern.check import resolve
from cernis.pattern.query import Unit
from cernis.run.query import Query


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
    if pattern.declared is None and not any(source.is_blank for source in sources):
        resolve(pattern, schema_of(sources))
    ordering = Ordering(sources)
    if pattern.within is not None and pattern.within.unit is Unit.TIME:
        ordering.scale.ticks(pattern.within.size)
    if pattern.forget is not None:
        ordering.scale.ticks(pattern.forget, "FORGET AFTER")
    if pattern.suppress is not None:
        ordering.scale.ticks(pattern.suppress.length, "SUPPRESS BY … FOR")
    return sources
