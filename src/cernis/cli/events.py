"""`cernis run` and `cernis explain` for queries over events, in this process."""

from __future__ import annotations

from typing import Any

import cernis
from cernis.cli.arguments import Delivery, Files, RunArguments, all_files, has_pipe
from cernis.cli.deliver import deliver, kind_of, stream_files
from cernis.cli.terminal import print_note, print_notes
from cernis.engine.unary.aggregate import is_compiled
from cernis.events.pipe import announce_waiting
from cernis.pattern.query import Unit
from cernis.plan.explain import Explanation
from cernis.run.feed import Measures
from cernis.run.session import RunOptions, Session

_FEW_EVENTS = 32
_WAITS = (
    "the rows of a pipe are sorted by time, so matches come when it ends; if they are in order, "
    "--in-order writes matches as they are found"
)
_WALKED_BYTES = 1 << 32
"""Events of so many bytes, times the window, are counted while the aggregator is compiled."""


def run(arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of a query in files, and deliver them."""
    query, files = parse_query(arguments), arguments.files
    reading = {**arguments.reading, "on_error": arguments.on_error, **arguments.limits}
    reading["tables"] = arguments.tables
    options = RunOptions(**reading, strict=arguments.strict, in_order=arguments.in_order)
    announce_waiting(lambda: print_note(_WAITS))
    measures: Measures | None = (
        {} if delivery.count and not _has_narrow_window(query, files) else None
    )
    session = Session(query.plan, options, measures=measures)
    runs = stream_files(session, files, delivery.output)
    deliver(runs, delivery, kind_of(query), session.finish)
    session.mistakes.complete()  # --limit may end the run early
    print_notes(session.notes)


def _has_narrow_window(query: cernis.Query[Any], files: Files) -> bool:
    """Whether matches span so few events that counting them takes no aggregator.

    The aggregator takes ten times as long to compile as the kernels that every other query uses.
    So without code of it the window may be wider, as far as the files are small.
    """
    within = query.pattern.within
    if within is None or within.unit is not Unit.EVENTS:
        return False
    if within.size <= _FEW_EVENTS or is_compiled() or has_pipe(files):
        return within.size <= _FEW_EVENTS
    size = sum(file.stat().st_size for file in all_files(files) if file.is_file())
    return within.size * size <= _WALKED_BYTES


def explain(arguments: RunArguments) -> Explanation:
    """Explain what a query does and costs."""
    return parse_query(arguments).explain(
        arguments.files or None, **arguments.reading, tables=arguments.tables
    )


def parse_query(arguments: RunArguments) -> cernis.Query[Any]:
    """Parse a query; arguments by position may take their names from the files."""
    try:
        query = cernis.query(arguments.text, lang=arguments.language)
        if arguments.strict and query.warnings:
            raise cernis.StrictError(query.warnings)
        return query
    except cernis.QueryError:
        if arguments.language != "cq" or not arguments.files or has_pipe(arguments.files):
            raise
    known = cernis.schema_of(arguments.files, **arguments.reading)
    return cernis.query(arguments.text, lang=arguments.language, schema=known)
