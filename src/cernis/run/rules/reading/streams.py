"""Which streams rules read: the streams that are given, declared ones, and the events of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cernis.events.batch import EventBatch, take_events
from cernis.events.source import DescribedStream
from cernis.pattern.query import Pattern
from cernis.schema import Schema


def name_streams(patterns: Sequence[Pattern]) -> list[str]:
    """Return the streams that are given to rules; none: a rule without FROM reads all."""
    if not all(pattern.streams for pattern in patterns):
        return []
    made = {pattern.into for pattern in patterns}
    every = dict.fromkeys(name for each in patterns for name in each.streams)
    return [name for name in every if name not in made]


def unite_declared(patterns: Iterable[Pattern]) -> Schema | None:
    """Return the streams that any rule declares."""
    streams = {
        stream.name: stream
        for pattern in patterns
        if pattern.declared is not None
        for stream in pattern.declared.streams
    }
    return Schema(tuple(streams.values())) if streams else None


def choose_streams(sources: Sequence[DescribedStream], pattern: Pattern) -> list[DescribedStream]:
    """Return the sources that a rule reads."""
    return [each for each in sources if not pattern.streams or each.name in pattern.streams]


def confine(batch: EventBatch, streams: tuple[str, ...]) -> EventBatch:
    """Return the events of some streams; none named: of all."""
    if not streams or all(name in streams for name, _ in batch.parts):
        return batch
    wanted = np.array([name in streams for name, _ in batch.parts])
    marks = np.full(len(batch), wanted[0]) if batch.which is None else wanted[batch.which]
    return take_events(batch, np.flatnonzero(marks), streams)
