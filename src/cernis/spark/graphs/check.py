"""RDF streams and background knowledge for Spark: opened and checked before it starts.

What is wrong with a file's name, its first events or the query is known within a second, in the
words of the local reader. Paths are made absolute: tasks read the files where they run.

Knows nothing of Spark itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cernis.errors import CernisError, DataError
from cernis.rdf.query import GraphQuery, parse_time_rule
from cernis.rdf.reading.parts import (
    PIECE,
    FilePart,
    Prospect,
    list_files,
    look_ahead,
    split_stream,
)
from cernis.rdf.reading.times import TimeRule

Knowledge = tuple[tuple[str | None, str | bytes], ...]
"""Background: the name of each source's graph, and its file or what is in it."""


class Opened(NamedTuple):
    """The files of all streams."""

    parts: tuple[FilePart, ...]
    counted: bool
    """Whether times are numbers, and not dates."""
    low: int
    span: int
    """When the streams begin, and about how long they go on."""


def open_streams(
    query: GraphQuery,
    events: Any,
    *,
    scopes: int = 0,
    time: str | TimeRule | Mapping[str, TimeRule] | None = None,
    time_unit: str = "ms",
    format: str | None = None,
    on_error: str = "fail",
    piece: int = PIECE,
) -> Opened:
    """The parts of all streams, in the order of the query, and what their first events tell.

    Blank nodes are called after their file, from number `scopes` on: background comes before.
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
    prospects: list[Prospect] = []
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
    return Opened(tuple(parts), all(p.counted for p in prospects), low, high - low)


def knowledge_of(query: GraphQuery, background: Any) -> Knowledge:
    """Background knowledge as it is sent to workers: paths, or bytes."""
    given = query.name_graphs(background)
    if given is None:
        return ()
    pairs: Sequence[tuple[str | None, Any]]
    if isinstance(given, Mapping):
        pairs = [(name, one) for name, some in given.items() for one in _each(some)]
    else:
        pairs = [(None, one) for one in _each(given)]
    return tuple((name, _sent(one)) for name, one in pairs)


def _each(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _sent(source: Any) -> str | bytes:
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
