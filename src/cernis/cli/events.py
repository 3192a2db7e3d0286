"""`cernis run` and `cernis explain` for queries over events, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cernis
from cernis.cli.arguments import Delivery, EventOptions, Files
from cernis.cli.deliver import deliver, kind_of, stream_files
from cernis.cli.terminal import print_notes


def run(text: str, language: str, files: Files, options: EventOptions, delivery: Delivery) -> None:
    """Find the matches of a query in files, and deliver them."""
    query = parse_query(text, language, files, options)
    reading = {**options.reading, "on_error": options.on_error, **options.limits}
    session = query.session(**reading)
    runs = stream_files(session, files, delivery.output)
    deliver(runs, delivery, kind_of(query), lambda: query.run(files, **reading).schema)
    print_notes(session.notes)


def explain(text: str, language: str, files: Files, options: EventOptions, *, mermaid: bool) -> str:
    """Explain what a query does and costs; `mermaid` draws its automaton."""
    query = parse_query(text, language, files, options)
    explanation = query.explain(files or None, **options.reading)
    return explanation.mermaid() if mermaid else str(explanation)


def parse_query(
    text: str,
    language: str,
    files: Files,
    options: EventOptions,
    readable: Callable[[Any], Any] = lambda files: files,
) -> cernis.Query[Any]:
    """Parse a query; arguments by position may take their names from the files.

    `readable` turns the files into something that `schema_of` reads.
    """
    try:
        return cernis.query(text, lang=language)
    except cernis.QueryError:
        if language != "cq" or not files:
            raise
    known = cernis.schema_of(readable(files), **options.reading)
    return cernis.query(text, lang=language, schema=known)
