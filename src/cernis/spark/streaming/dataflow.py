"""The DataFrames around the buckets, for queries in all languages: watermark, buckets, matches.

Spark keeps the watermark: the largest time among all rows of a stream, relevant or not, less
the allowed lateness; of several streams, the smallest. Events too far ahead of the clock are
set aside and do not count for it, since one of them would make all others late.

Buckets are numbered so that Spark's own hash of the number spreads them evenly over its
partitions: the numbers 0, 1, 2, … can all fall into one.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.spark.options import DEFAULT_TASKS, JobOptions, count_tasks, shuffle_partitions
from cernis.spark.streaming.balance import choose_balanced
from cernis.spark.streaming.packing import PACKED, Packing, Spread, pack_rows
from cernis.spark.streaming.processor import ANSWER, FOUND, REPORTED, RULES, BucketProcessor
from cernis.spark.streaming.progress import BUCKETS, GAUGES
from cernis.spark.unify import quote_name
from cernis.work.bucket import BucketWork
from cernis.work.carriers import read_blob
from cernis.work.checkpoint import read_note
from cernis.work.columns import AHEAD, REASON, UNDECODABLE, UNTIMED
from cernis.work.interval import parse_milliseconds
from cernis.work.reading import Work

MARK = "@mark"
SHIFT = 2**43
"""Milliseconds added to times that are plain numbers: Spark's watermark begins at 0."""

_FIRST_TIME = "0001-01-01 00:00:00"
_STORE = "spark.sql.streaming.stateStore."
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_SETTINGS = {
    f"{_STORE}providerClass": (
        f"{_PROVIDERS}HDFSBackedStateStoreProvider",
        f"{_PROVIDERS}RocksDBStateStoreProvider",
    ),
    f"{_STORE}rocksdb.changelogCheckpointing.enabled": ("false", "true"),
}
"""Settings that a query needs: Spark's default, and the value that replaces it."""


# ---------------------------------------------------------------- decisions


def prepare_session(spark: Any) -> None:
    """Set what a stateful query needs, unless the user has set it."""
    for name, (default, value) in _SETTINGS.items():
        if spark.conf.get(name, "") in ("", default):
            spark.conf.set(name, value)
    partitions = shuffle_partitions(spark)
    if partitions == DEFAULT_TASKS:
        warnings.warn(
            f"spark.sql.shuffle.partitions is {partitions}, and every micro-batch will start so "
            "many tasks; set it to the number of cores before the first run (it stays what "
            "it was for a checkpoint)",
            stacklevel=5,
        )


def choose_buckets(spark: Any, options: JobOptions, *, single: bool) -> tuple[int, ...]:
    """Return the checkpoint's buckets, unless the user asks for another number."""
    asked = 1 if single else options.tasks
    number = asked or count_tasks(spark)
    note = None if options.checkpoint is None else read_note(options.checkpoint, options.secret)
    if note is not None and asked in (None, len(note["buckets"])):
        return tuple(note["buckets"])
    return choose_balanced(number, int(shuffle_partitions(spark)))


def describe_answer(work: Work) -> list[str]:
    """Return the columns of the answer, for the note in a checkpoint."""
    return [f"{field.name}: {field.type}" for field in work.schema or ()]


def digest_state(*described: str) -> str:
    """Return a digest of what a state belongs to."""
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]


# --------------------------------------------------------------------- rows


def explain_rejection(
    micros: Column, untimed: Column, undecoded: Column | None, options: JobOptions, shift: int
) -> Column:
    """Return why a row is set aside; NULL where it is read."""
    reason = F.when(untimed, UNTIMED)
    if undecoded is not None:
        reason = F.when(undecoded, UNDECODABLE).when(untimed, UNTIMED)
    if options.ahead is not None:
        limit = _clock_and(1000 * parse_milliseconds("ahead", options.ahead))
        reason = reason.when(micros > limit, AHEAD)
    return reason.when(_shifted(micros, shift).isNull(), UNTIMED)


def add_watermark(data: Any, micros: Column, options: JobOptions, shift: int) -> Any:
    """Add the watermark of rows with times in microseconds; rows with a REASON do not count."""
    mark = F.when(F.col(REASON).isNull(), _shifted(micros, shift))
    first = F.lit(_FIRST_TIME).cast("timestamp")
    lateness = parse_milliseconds("lateness", options.lateness)
    return data.withColumn(MARK, F.coalesce(F.timestamp_micros(mark), first)).withWatermark(
        quote_name(MARK), f"{lateness} milliseconds"
    )


def goes_on(wanted: Column, options: JobOptions) -> Column:
    """Return which rows travel: to be read, to be written to the side output, or to be an error.

    `wanted` are those that are read.
    """
    reason = F.col(REASON)
    if options.late_output:
        return wanted | reason.isNotNull()
    if options.on_error == "fail":
        return wanted | (reason.isNotNull() & (reason != AHEAD))
    return wanted


def row_metrics() -> Iterator[Column]:
    """Yield the numbers of rows that came, and that were set aside."""
    yield F.count(F.lit(1)).alias("rows")
    for name in (UNTIMED, UNDECODABLE, AHEAD):
        yield F.count_if(F.col(REASON) == name).alias(name)


def _shifted(micros: Column, shift: int) -> Column:
    moved = F.try_add(micros, F.lit(1000 * shift)) if shift else micros
    return F.when(moved.between(F.lit(-(2**57)), F.lit(2**57)), moved)


def _clock_and(ahead: int) -> Column:
    """Return the machine's time at the begin of a micro-batch plus `ahead`, in microseconds.

    Spark writes numbers into the Java code that it makes of a query, and a time would make it
    compile anew in each micro-batch. It interprets `array_sort`, whose arguments are outside.
    """
    clock = F.unix_micros(F.current_timestamp()) + F.lit(ahead)
    return F.array_sort(F.array(clock))[0]


# ------------------------------------------------------------------ buckets


def find_matches(
    rows: Any, work: BucketWork, options: JobOptions, name: str, spread: Spread | None = None
) -> Any:
    """Return the matches that the buckets find in rows; `name` names their metrics."""
    packing = Packing(
        work.work.stream_names, bool(options.late_output), options.on_error == "fail", spread
    )
    return run_buckets(rows.mapInArrow(partial(pack_rows, packing), PACKED), work, options, name)


def run_buckets(
    packed: Any, work: BucketWork, options: JobOptions, name: str, begins: Any = None
) -> Any:
    """Return the matches that the buckets find in blobs; `begins` groups state by its bucket."""
    found = (
        packed.groupBy("bucket")
        .transformWithState(
            BucketProcessor(
                replace(work, secret=options.secret, side_output=options.late_output or None).run
            ),
            outputStructType=T.StructType.fromDDL(ANSWER),
            outputMode="Append",
            timeMode="EventTime",
            initialState=begins,
        )
        .observe(f"{BUCKETS}{name}", *_bucket_metrics(work))
    )
    schema = from_arrow_schema(work.work.schema, prefer_timestamp_ntz=True)
    return found.filter(F.col(FOUND).isNotNull()).select(FOUND).mapInArrow(_unpack, schema)


def _bucket_metrics(work: BucketWork) -> Iterator[Column]:
    for name in REPORTED:
        yield F.sum(name).alias(name)
    for number in work.buckets[:64]:
        for name in GAUGES:
            own = F.when(F.col("bucket") == number, F.col(name))
            yield F.max(own).alias(f"{name} in {number}")
        if work.record is not None:
            told = F.when(F.col("bucket") == number, F.col(RULES))
            yield F.max(told).alias(f"{RULES} in {number}")


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0):
            yield from read_blob(blob.as_py()).to_batches()
