"""Pack rows into blobs: one Arrow stream for each bucket travels through the shuffle.

Spark's stateful operator has a fixed cost for each row and each group of a micro-batch, so
there are as few of both as possible. A blob carries its arrival, so that a bucket reads its
events in the order in which they came, however the shuffle mixed them.

Cost: one stable sort of the bucket numbers and one pass over the columns. Imports Spark only
in `pack_rows`, to ask which task this is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import DataError
from cernis.events.batch import Bools, EventBatch
from cernis.pattern.simple_tests import ConstantTest
from cernis.run.rules.routing.router import RoutedRules, Router
from cernis.spark.streaming.task import find_batch
from cernis.work.carriers import write_blob
from cernis.work.columns import (
    AHEAD,
    ARRIVAL,
    BLOB,
    BUCKET,
    EVENT,
    LEAD,
    REASON,
    STREAM,
)
from cernis.work.reading import RowWork, gather
from cernis.work.rule_record import RuleRecord
from cernis.work.side_output import select_aside

PACKED = f"bucket int, {ARRIVAL} bigint, {BLOB} binary"
_SCHEMA = pa.schema({"bucket": pa.int32(), ARRIVAL: pa.int64(), BLOB: pa.binary()})

PIECES = 1 << 31
"""A task gives fewer blobs than this in a micro-batch."""


Spread = Callable[[pa.Table], Iterator[pa.Table]]
"""Yields the rows of events that are read, each with its bucket."""


@dataclass(frozen=True)
class Packing:
    """The work of a task that packs rows."""

    streams: tuple[str, ...]
    side_output: bool
    """Events that are not read go to their buckets too, which write them to a folder."""
    fails: bool
    """An event that cannot be read is an error."""
    spread: Spread | None = None
    """How rows find their buckets in Python; None: Spark has found them."""


def pack_rows(packing: Packing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as blobs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    for piece, table in enumerate(gather(batches)):
        arrival = partition * PIECES + piece
        rejected = table.column(REASON).is_valid()
        if pc.any(rejected).as_py():
            rejected_rows, table = table.filter(rejected), table.filter(pc.invert(rejected))
            _check(packing, rejected_rows)
            if packing.side_output:
                yield from pack_buckets(select_aside(rejected_rows, BUCKET), arrival)
        if table.num_rows:
            rows = table.drop_columns([REASON])
            for spread in [rows] if packing.spread is None else packing.spread(rows):
                yield from pack_buckets(spread, arrival)


def _check(packing: Packing, rejected_rows: pa.Table) -> None:
    reasons = rejected_rows.column(REASON)
    bad = rejected_rows.filter(pc.not_equal(reasons, AHEAD))
    if packing.fails and bad.num_rows:
        stream = bad.column(STREAM)[0].as_py() if STREAM in bad.column_names else 0
        event = f": {bad.column(EVENT)[0]}" if EVENT in bad.column_names else ""
        raise DataError(
            f"stream {packing.streams[stream]!r}: an event cannot be read ({bad.column(REASON)[0]})"
            f"{event}; to count such events and go on: on_error='skip', or --on-error skip"
        )


def pack_buckets(table: pa.Table, arrival: int) -> Iterator[pa.RecordBatch]:
    """Yield a blob for each bucket that has rows.

    >>> table = pa.table({BUCKET: pa.array([2, 1, 2], pa.int32()), "a0": [5, 6, 7]})
    >>> from cernis.work.carriers import read_blob
    >>> [packed] = pack_buckets(table, 0)
    >>> packed["bucket"].to_pylist(), read_blob(packed[BLOB][1].as_py())["a0"].to_pylist()
    ([1, 2], [5, 7])
    """
    buckets = np.asarray(table.column(BUCKET))
    order = np.argsort(buckets, kind="stable")
    numbers, firsts = np.unique(buckets[order], return_index=True)
    rows = table.drop_columns([BUCKET]).combine_chunks()
    if len(numbers) > 1:
        rows = rows.take(pa.array(order))
    ends = [*firsts[1:], len(order)]
    packed = [
        write_blob(rows.slice(first, end - first))
        for first, end in zip(firsts.tolist(), ends, strict=True)
    ]
    columns = [
        pa.array(numbers, pa.int32()),
        pa.array([arrival] * len(packed), pa.int64()),
        pa.array(packed, pa.binary()),
    ]
    yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


# -------------------------------------------------------------------- rules


@dataclass(frozen=True)
class RuleSpreader:
    """Sends each row once to every key of rules that it can move; one of these buckets counts it.

    Cost contract: per row and key, one look-up in the index over types and constants
    (`run.rules.routing.Router`).
    """

    reading: RowWork
    record: RuleRecord
    equalities: tuple[tuple[frozenset[ConstantTest] | None, ...], ...]
    """For each version and group: those of which one holds for an event that moves a rule of the
    group; None: any event may. Where there are none, the group has no rules."""

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        record = self.record
        version = record.versions.index(record.find_version(find_batch()))
        columns = [bucket_column(group) for group in range(len(record.groups))]
        rows = table.drop_columns([BUCKET, *columns])
        free = np.ones(table.num_rows, np.bool_)
        for group, equalities in enumerate(self.equalities[version]):
            if equalities is not None and not equalities:
                continue
            bucket = table.column(columns[group])
            wanted = np.asarray(bucket.is_valid())
            if equalities is not None:
                alone = RoutedRules((), {None: equalities})
                router = Router({0: alone}, self.reading.reading.type_column)
                wanted = wanted & _find_relevant(router, self.reading, rows)
            if wanted.any():
                keep = pa.array(wanted)
                own = rows.filter(keep).append_column(BUCKET, bucket.filter(keep))
                yield own.append_column(LEAD, pa.array(free[wanted]))
                free &= ~wanted


def bucket_column(group: int) -> str:
    """Return the column that has the bucket of an event for the rules of one key."""
    return f"{BUCKET}{group}"


def _find_relevant(router: Router, reading: RowWork, rows: pa.Table) -> Bools:
    """Return which events can move a rule."""
    found = np.zeros(rows.num_rows, np.bool_)
    for number, stream in enumerate(reading.streams):
        indices = np.arange(rows.num_rows)
        own = rows
        if STREAM in rows.column_names:
            indices = np.flatnonzero(np.asarray(rows.column(STREAM)) == number)
            own = rows.take(pa.array(indices))
        for at, _ in router.route(EventBatch.of(stream.select(own))).values():
            found[indices[at]] = True
    return found
