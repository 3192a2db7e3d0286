"""Events that are read several times: a command of the workbench takes several passes over them.

A pipe has no events left for the second pass, and its numbers would be those of no events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cernis.errors import DataError
from cernis.events.reading.pipe import is_pipe


def make_rereadable(events: Any) -> Any:
    """Return events that can be read again: an iterator as a list; a pipe is an error."""
    if isinstance(events, Mapping):
        return {name: make_rereadable(each) for name, each in events.items()}
    paths = events if isinstance(events, list | tuple) else [events]
    for path in paths:
        if isinstance(path, str | Path) and is_pipe(Path(path)):
            raise DataError(
                f"{path}: the events are read several times, and a pipe gives them once; "
                "write them to a file"
            )
    if hasattr(events, "read_all"):  # a reader of Arrow's batches
        return events.read_all()
    return list(events) if isinstance(events, Iterator) else events
