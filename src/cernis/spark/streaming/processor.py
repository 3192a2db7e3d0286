"""`BucketProcessor`: Spark calls it for each bucket in each micro-batch.

Python workers live on between micro-batches, and cache the buckets that they have run: the
state store only has to tell whether the cached bucket is still valid (`log`). A bucket leaves
the cache while it runs, and returns when its call has succeeded.

Each start of a query also starts a Python process that only declares the state. So this module
loads neither the engine nor Arrow before a bucket runs; until then the processor carries its
query as bytes.

Cost contract: per bucket and micro-batch some five calls to the state store, and the cost of
`bucket`. A worker caches the last `_MOST` buckets.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from cernis.spark.streaming.report import Report

if TYPE_CHECKING:
    from cernis.spark.streaming.bucket import Bucket
    from cernis.spark.streaming.work import BucketWork

FOUND = "found"
REPORTED = tuple(Report.__dataclass_fields__)
"""The numbers that a bucket reports."""

RULES = "rules"
"""The numbers of each rule that a bucket reports, as JSON."""

ANSWER = ", ".join(
    ["bucket int", f"{FOUND} binary", f"{RULES} string", *(f"{name} double" for name in REPORTED)]
)

_MOST = 256
_live: OrderedDict[tuple[str, int], Bucket] = OrderedDict()

_BYTES = StructType([StructField("bytes", BinaryType())])
_NUMBER = StructType([StructField("number", LongType())])


class BucketProcessor(StatefulProcessor):
    """Run the buckets of a query."""

    def __init__(self, stream: BucketWork, side_output: str | None) -> None:
        self._packed = pickle.dumps((stream, side_output))

    @cached_property
    def _unpacked(self) -> tuple[BucketWork, str | None]:
        work: tuple[BucketWork, str | None] = pickle.loads(self._packed)
        return work

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.store = _SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        from cernis.spark.streaming.packing import ARRIVAL, BLOB

        packed = sorted((row[ARRIVAL], bytes(row[BLOB])) for row in rows)
        yield from self._run(key[0], [blob for _, blob in packed], timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        yield from self._run(key[0], [], timerValues, rang=True)

    def close(self) -> None:
        """Nothing is held open."""

    def _run(
        self, number: int, blobs: list[bytes], timers: Any, *, rang: bool = False
    ) -> Iterator[Row]:
        import pyarrow as pa

        from cernis.spark.streaming.bucket import restore_bucket
        from cernis.spark.streaming.packing import write_blob
        from cernis.spark.streaming.side_output import find_batch, write_side_output

        stream, side_output = self._unpacked
        milliseconds = timers.getCurrentWatermarkInMs()
        watermark = milliseconds - stream.shift if milliseconds > 0 else None
        bucket = restore_bucket(stream, number, self.store, _live.pop((stream.query, number), None))
        if rang:
            bucket.log.header.timer = None  # Spark has removed it
        bucket.revise(self.store, find_batch())
        for batch in bucket.take(self.store, blobs, watermark, self._move_timer):
            yield _row(number, write_blob(pa.Table.from_batches([batch])), Report())
        if side_output is not None and (aside := bucket.read_aside()) is not None:
            write_side_output(side_output, number, aside, stream.stream_names)
        yield _row(number, None, bucket.report, stream.describe_rules(bucket.recognizer))
        _live[stream.query, number] = bucket
        while len(_live) > _MOST:
            _live.popitem(last=False)

    def _move_timer(self, before: int | None, after: int | None) -> None:
        shift = self._unpacked[0].shift
        if before is not None:
            self.handle.deleteTimer(before + shift)
        if after is not None:
            self.handle.registerTimer(after + shift)


def _row(number: int, matches: bytes | None, report: Report, rules: str | None = None) -> Row:
    numbers = {name: float(value) for name, value in asdict(report).items()}
    return Row(bucket=number, **{FOUND: matches, RULES: rules}, **numbers)


class _SparkStore:
    """Spark's state store as a bucket sees it."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("header", _BYTES)
        self._chunks = handle.getMapState("chunks", _NUMBER, _BYTES)
        self._snapshot = handle.getMapState("snapshot", _NUMBER, _BYTES)

    def header(self) -> bytes | None:
        row = self._header.get()
        return None if row is None else bytes(row[0])

    def put_header(self, header: bytes) -> None:
        self._header.update((header,))

    def chunk(self, number: int) -> bytes | None:
        row = self._chunks.getValue((number,))
        return None if row is None else bytes(row[0])

    def put_chunk(self, number: int, chunk: bytes) -> None:
        self._chunks.updateValue((number,), (chunk,))

    def drop_chunk(self, number: int) -> None:
        self._chunks.removeKey((number,))

    def snapshot(self) -> tuple[bytes, bytes] | None:
        session, waiting = self._snapshot.getValue((0,)), self._snapshot.getValue((1,))
        return (
            None if session is None or waiting is None else (bytes(session[0]), bytes(waiting[0]))
        )

    def put_snapshot(self, session: bytes, waiting: bytes) -> None:
        self._snapshot.updateValue((0,), (session,))
        self._snapshot.updateValue((1,), (waiting,))
