"""`BucketProcessor`: Spark calls it for each bucket in each micro-batch.

Each start of a query also starts a Python process that only declares the state. So this module
loads neither the engine nor Arrow before a bucket runs; until then the processor carries its
work (`bucket.BucketWork.run`) as bytes.

Cost contract: per bucket and micro-batch some five calls to the state store, and the cost of
`bucket`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from cernis.spark.streaming.task import find_batch, find_run
from cernis.work.columns import ARRIVAL, BLOB
from cernis.work.report import BucketAnswer, BucketCall, Report

FOUND = "found"
REPORTED = tuple(Report.__dataclass_fields__)
"""The numbers that a bucket reports."""

RULES = "rules"
"""The numbers of each rule that a bucket reports, as JSON."""

ANSWER = ", ".join(
    ["bucket int", f"{FOUND} binary", f"{RULES} string", *(f"{name} double" for name in REPORTED)]
)

_BYTES = StructType([StructField("bytes", BinaryType())])
_NUMBER = StructType([StructField("number", LongType())])


class BucketProcessor(StatefulProcessor):
    """Run the buckets of a query."""

    def __init__(self, run: Callable[[Any, BucketCall], Iterator[BucketAnswer]]) -> None:
        """`run` gets the state store and a call."""
        # functions of users may stand anywhere
        self._packed = cloudpickle.dumps(run)  # type: ignore[no-untyped-call]

    @cached_property
    def _unpacked(self) -> Callable[[Any, BucketCall], Iterator[BucketAnswer]]:
        run: Callable[[Any, BucketCall], Iterator[BucketAnswer]] = pickle.loads(self._packed)
        return run

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.store = _SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        packed = sorted((row[ARRIVAL], bytes(row[BLOB])) for row in rows)
        yield from self._run(key[0], [blob for _, blob in packed], timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        yield from self._run(key[0], [], timerValues, rang=True)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Take a piece of the state of another host; a timer calls as soon as time passes."""
        kind, number, content = (initialState[name] for name in ("kind", "number", "content"))
        self.store.put(kind, number, bytes(content))
        if kind == "header":
            self.handle.registerTimer(1)

    def close(self) -> None:
        """Nothing is held open."""

    def _run(
        self, number: int, blobs: list[bytes], timers: Any, *, rang: bool = False
    ) -> Iterator[Row]:
        watermark = timers.getCurrentWatermarkInMs()
        call = BucketCall(
            number, blobs, watermark, self._move_timer, rang, find_batch(), find_run()
        )
        for answer in self._unpacked(self.store, call):
            numbers = {name: float(value) for name, value in asdict(answer.report).items()}
            yield Row(bucket=number, **{FOUND: answer.found, RULES: answer.rules}, **numbers)

    def _move_timer(self, before: int | None, after: int | None) -> None:
        if before is not None:
            self.handle.deleteTimer(before)
        if after is not None:
            self.handle.registerTimer(after)


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

    def put(self, kind: str, number: int, content: bytes) -> None:
        """Put a piece of a state (`work.moving.StatePiece`)."""
        match kind:
            case "header":
                self.put_header(content)
            case "chunk":
                self.put_chunk(number, content)
            case _:
                self._snapshot.updateValue((int(kind == "waiting"),), (content,))
