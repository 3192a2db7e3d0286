"""Check RDF files and background knowledge before Spark starts.

Mistakes in a file's name, its first events or the query are found within a second, with the
local reader's messages. Paths become absolute: tasks read the files where they run.

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cernis.errors import CernisError, DataError
from cernis.rdf.query import GraphQuery, parse_time_rule
from cernis.rdf.reading.parts import PIECE, FilePart, list_files, look_ahead, split_stream
from cernis.rdf.reading.times import TimeRule

Knowledge = tuple[tuple[str | None, str | bytes], ...]
"""Background: for each source the name of its graph, and its path or its bytes."""


class GraphFiles(NamedTuple):
    """The files of all streams, in parts, and what their first events tell."""

    parts: tuple[FilePart, ...]
    numeric_times: bool
    """Whether times are numbers, not dates."""
    low: int
    span: int
    """When the streams begin, and about how long they last."""


def check_graph_files(
    query: GraphQuery,
    events: Any,
    *,
    scopes: int = 0,
    time: str | TimeRule | Mapping[str, TimeRule] | None = None,
    time_unit: str = "ms",
    format: str | None = None,
    on_error: str = "fail",
    piece: int = PIECE,
) -> GraphFiles:
    """Split the files of all streams, in the order of the query, and read their first events.

    Blank nodes are named after their file. Numbers of files begin at `scopes`: those before are
    the background's.
    """
    if on_error not in ("fail", "skip"):
        raise CernisError(f"on_error={on_error!r}: on Spark it is 'fail' or 'skip'")
    streams = query.name_streams(events)
    names = [name for name, _ in query.query.streams]
    for name in names:
        if name not in streams:
            raise DataError(
                f"no events for the stream {name}: give a file for each of {', '.join(names)}"
            )
    rules = parse_time_rule(time, time_unit)
    parts: list[FilePart] = []
    prospects = []
    for i, name in enumerate(names):
        files = [str(Path(file).absolute()) for file in list_files(streams[name])]
        rule = rules.get(name) if isinstance(rules, Mapping) else rules
        first = FilePart(
            path=files[0],
            stream=i,
            scope="",
            time=rule or TimeRule(unit=time_unit),
            format=format,
            on_error=on_error,
        )
        prospects.append(look_ahead(first))
        own = [f"f{scopes + k}" for k in range(len(files))]
        scopes += len(files)
        parts += split_stream(
            files,
            stream=i,
            scopes=own,
            time=prospects[-1].time,
            format=format,
            on_error=on_error,
            piece=piece,
        )
    begun = [(p.first, p.first + p.span) for p in prospects if p.first is not None]
    low = min((first for first, _ in begun), default=0)
    high = max((last for _, last in begun), default=0)
    return GraphFiles(tuple(parts), all(p.numeric_times for p in prospects), low, high - low)


def check_knowledge(query: GraphQuery, background: Any) -> Knowledge:
    """Return background knowledge as it travels to workers: paths, or bytes."""
    given = query.name_graphs(background)
    if given is None:
        return ()
    named = given if isinstance(given, Mapping) else {None: given}
    return tuple(
        (name, _path_or_bytes(one))
        for name, some in named.items()
        for one in (some if isinstance(some, list | tuple) else [some])
    )


def _path_or_bytes(source: Any) -> str | bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, str | Path):
        path = Path(source).absolute()
        try:
            path.open("rb").close()
        except OSError as error:
            raise DataError(f"{source}: cannot be read: {error.strerror}") from error
        return str(path)
    if hasattr(source, "read"):
        text: bytes = source.read()
        return text
    raise CernisError(
        f"background knowledge for Spark is a file or bytes, not {type(source).__name__}; "
        "write a store to a file first"
    )
