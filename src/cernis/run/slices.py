"""Read the batches of a whole run in slices, on several threads.

A slice is a run of batches, and finds the matches that end in them. It begins to read earlier, as
far back as a match can reach: what ends there belongs to the slice before it. So slices need
nothing of each other, and give the same matches in the same order as one thread does. Each has a
pipeline of its own, with encoders, numbers of partitions and an engine; they share the tables of
the automaton. The pipeline that goes on has the state of the last one.

Cost contract: a slice reads at most a quarter of its events twice, and is not made otherwise.
Arrow, NumPy and the kernels leave the interpreter to other threads; Python runs per batch.

Turned down: a thread for each part of the keys, which would have to merge matches by their ends;
and a thread that encodes ahead of one that steps, which saves the shorter of the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from cernis.errors import CernisError
from cernis.events.batch import EventBatch, take_events
from cernis.events.order import Scale
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.plan.reach import bound_match, is_bounded_in_time
from cernis.run.feed import CorrelatedFeed, SlidingFeed, StartFeed, UnaryFeed
from cernis.run.stages.pipeline import Pipeline

MOST_BATCHES = 16
"""The most batches that a slice has: matches are reported, and progress is shown, after it."""
_SPARE = 4
"""A slice has at least so many times the events that it reads for others."""


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_threads(asked: int | None) -> int:
    """Return how many threads read, of so many that were asked for; None: one for each core."""
    if asked is not None and asked < 1:
        raise CernisError("threads must be at least 1")
    return count_cores() if asked is None else asked


def gather_batches(
    batches: Iterator[EventBatch], pipeline: Pipeline, threads: int
) -> Iterator[list[EventBatch]]:
    """Yield batches to read together: each alone where they are not read in slices.

    The first batch is always alone: it compiles what the others need.
    """
    if threads < 2 or not can_slice(pipeline):
        yield from ([batch] for batch in batches)
        return
    most = 1
    while some := [*islice(batches, most)]:
        yield some
        most = threads * MOST_BATCHES


def can_slice(pipeline: Pipeline) -> bool:
    """Return whether a slice of the events finds the matches that end in it by itself."""
    plan, feed = pipeline.plan, pipeline.feed
    is_plain = type(feed) is UnaryFeed and feed.engine.thresholds is None
    if isinstance(feed, CorrelatedFeed):
        is_plain = not feed.tables.counts_positions
    if isinstance(feed, SlidingFeed) and not isinstance(feed, StartFeed):
        is_plain = not feed.measures  # sums of floats depend on where they begin
    is_plain = is_plain and not plan.listed and plan.runs is None
    is_plain = is_plain and pipeline.limit.most is None and pipeline.clock is None
    return is_plain and not pipeline.run.purpose.keep and _is_bounded(plan.pattern)


def _is_bounded(pattern: Pattern) -> bool:
    """Return whether a match ends near its start, and no match decides about later ones."""
    is_free = pattern.consume is Consume.NONE and pattern.strategy is not Strategy.LONGEST
    is_free = is_free and pattern.suppress is None and pattern.forget is None
    is_free = is_free and not pattern.without and not pattern.ranks_overall
    return is_free and (is_bounded_in_time(pattern) or _count_most(pattern) is not None)


def _count_most(pattern: Pattern) -> int | None:
    """Return the most events from start to end of a match.

    Events of a partition are no bound: any number of others may lie between them.
    """
    found = None if pattern.partition else bound_match(pattern, Unit.EVENTS)
    return None if found is None else ceil(found)


class Slice(NamedTuple):
    """Batches of a run: `before` are read for the matches that end in its `own`."""

    before: list[EventBatch]
    own: list[EventBatch]


def take_batches(
    pipeline: Pipeline, batches: Sequence[EventBatch], scale: Scale, threads: int
) -> list[Any]:
    """Read batches, in slices where that pays; return what `Pipeline.take` does."""
    slices = cut_slices(pipeline.plan.pattern, batches, scale, threads)
    schemas = {(name, table.schema) for batch in batches for name, table in batch.parts}
    is_alike = len(schemas) == len(
        {name for name, _ in schemas}
    )  # encoders compare kinds of values
    if len(slices) < 2 or not is_alike:
        return [one for batch in batches for one in pipeline.take(batch, scale)]
    pipelines = [pipeline, *(pipeline.begin_at(_find_base(each)) for each in slices[1:])]
    with ThreadPoolExecutor(len(slices)) as pool:
        taken = [*pool.map(_read_slice, pipelines, slices, [scale] * len(slices))]
    for other, slice_ in zip(pipelines[1:], slices[1:], strict=True):
        pipeline.go_on_as(other, slice_.own)
    return [one for some in taken for one in some]


def _find_base(slice_: Slice) -> int:
    return [*slice_.before, *slice_.own][0].base


def _read_slice(pipeline: Pipeline, slice_: Slice, scale: Scale) -> list[Any]:
    for batch in slice_.before:
        pipeline.take(batch, scale, own=False)
    if slice_.before:
        pipeline.begin_own()
    return [one for batch in slice_.own for one in pipeline.take(batch, scale)]


def cut_slices(
    pattern: Pattern, batches: Sequence[EventBatch], scale: Scale, threads: int
) -> list[Slice]:
    """Cut batches into as many slices as there are threads, or into one."""
    size = ceil(len(batches) / threads)
    firsts = range(0, len(batches), max(size, 1))
    slices = [
        Slice(
            _find_before(pattern, batches[:first], batches[first], scale),
            [*batches[first : first + size]],
        )
        for first in firsts
    ]
    pays = all(_SPARE * _count(before) <= _count(own) for before, own in slices)
    # a match may reach back to events that are not at hand
    reaches = any(before and before[0].base == batches[0].base > 0 for before, _ in slices)
    return slices if pays and not reaches else [Slice([], [*batches])]


def _count(batches: Sequence[EventBatch]) -> int:
    return sum(map(len, batches))


def _find_before(
    pattern: Pattern, earlier: Sequence[EventBatch], first: EventBatch, scale: Scale
) -> list[EventBatch]:
    """Return the events before a batch that a match which ends in it can have."""
    since = _find_since(pattern, earlier, first, scale)
    return [_cut_before(batch, since) for batch in earlier if batch.base + len(batch) > since]


def _find_since(
    pattern: Pattern, earlier: Sequence[EventBatch], first: EventBatch, scale: Scale
) -> int:
    """Return the first position that a match which ends in a batch, or later, can have."""
    if not earlier:
        return first.base
    since, most = earlier[0].base, _count_most(pattern)
    if most is not None:
        since = max(since, first.base - most)
    ticks = _count_ticks(pattern, scale)
    if ticks is None:
        return since
    if first.time is None:  # ticks are positions
        return max(since, first.base - ticks)
    low = int(first.time[0]) - ticks
    found = [
        batch.base + int(np.searchsorted(batch.time, low))
        for batch in earlier
        if batch.time is not None and len(batch) and batch.time[-1] >= low
    ]
    return max(since, min(found, default=first.base))


def _count_ticks(pattern: Pattern, scale: Scale) -> int | None:
    """Return the most ticks from start to end of a match; None: times are no bound."""
    within, bound = pattern.within, bound_match(pattern)
    if within is not None and within.plain:
        return scale.plain_ticks(within.size)
    return None if bound is None or scale.unit_ns is None else scale.ticks(bound)


def _cut_before(batch: EventBatch, since: int) -> EventBatch:
    """Return a batch without its events before a position."""
    skipped = since - batch.base
    if skipped <= 0:
        return batch
    kept = take_events(batch, np.arange(skipped, len(batch)))
    return replace(kept, base=since, chosen=None)
