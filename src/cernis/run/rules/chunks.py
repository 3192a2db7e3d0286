"""Join batches of the input to chunks, which rules read one after the other.

Each rule costs some calls for each chunk, so many rules take larger chunks.

Cost contract: one copy of the events of a chunk where it has several batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cernis.events.batch import EventBatch

CHUNK = 1 << 20
"""So many events are routed at once: each rule has a cost for each chunk."""
CHUNK_PER_RULE = 1 << 12
"""Many rules take larger chunks, of so many events for each rule."""
LARGEST_CHUNK = 1 << 23
CHUNK_BYTES = 1 << 28
"""Limits of larger chunks, in events and in bytes."""


def join_batches(batches: Iterable[EventBatch], rules: int) -> Iterator[EventBatch]:
    """Yield chunks for this number of rules, where batches of one stream follow each other."""
    most = min(max(CHUNK, CHUNK_PER_RULE * rules), LARGEST_CHUNK)
    waiting: list[EventBatch] = []
    events = size = 0
    for batch in batches:
        events, size = events + len(batch), size + batch.parts[0][1].nbytes
        is_large = events > most or (events > CHUNK and size > CHUNK_BYTES)
        if waiting and (is_large or not _is_alike(waiting[0], batch)):
            yield _concatenate(waiting)
            waiting, events, size = [], len(batch), batch.parts[0][1].nbytes
        waiting.append(batch)
    if waiting:
        yield _concatenate(waiting)


def _is_alike(first: EventBatch, batch: EventBatch) -> bool:
    plain = all(len(each.parts) == 1 and each.index is None for each in (first, batch))
    return (
        plain
        and first.parts[0][0] == batch.parts[0][0]
        and first.parts[0][1].schema == batch.parts[0][1].schema
    )


def _concatenate(batches: Sequence[EventBatch]) -> EventBatch:
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    times = [batch.time for batch in batches if batch.time is not None]
    table = pa.concat_tables([batch.parts[0][1] for batch in batches])
    return replace(
        first,
        rows=np.concatenate([batch.rows for batch in batches]),
        time=np.concatenate(times) if times else None,
        parts=((first.parts[0][0], table),),
    )
