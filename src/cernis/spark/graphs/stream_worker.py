"""The work of Spark's Python workers for SPAseQ on streams, over Arrow tables.

Tasks solve the graph patterns where events arrive (`GraphPacking`), in any order; the solutions
travel to the buckets of their keys. A bucket logs and buffers solutions as it does rows of events,
and reads them in order of time (`GraphStreamWork`). So a bucket that is restored never solves a
pattern again, whatever background knowledge has become since.

An event may have several solutions, also in several buckets. One of its rows leads: it stands for
the event where events are counted or set aside.

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.batch import Int64s
from cernis.rdf.exchange import STREAM as STREAM_NUMBER
from cernis.rdf.exchange import TS
from cernis.spark.graphs.worker import (
    GraphWork,
    align_timestamps,
    encode_rows,
    format_matches,
    hash_keys,
    open_solver,
)
from cernis.spark.streaming.packing import Packing
from cernis.spark.streaming.report import EngineState
from cernis.spark.streaming.side_output import EVENT, find_batch
from cernis.spark.streaming.work import BucketWork, drop_column
from cernis.spark.worker import BUCKET, STREAM

LEAD = "@lead"
"""Whether a row stands for its event."""


@dataclass(frozen=True)
class GraphPacking(Packing):
    """The work of a task that solves the patterns in events and packs the solutions."""

    work: GraphWork
    buckets: tuple[int, ...]

    def spread(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the solutions in events, each with its bucket."""
        solver = open_solver(self.work, find_batch())
        for rows in table.to_batches():
            events = encode_rows(self.streams, rows, solver.terms)
            batch, codes, event = solver.write(events, ticks=self.work.layout.ticks)
            if batch.num_rows:
                key = [codes[name] for name in self.work.layout.key]
                hashes = hash_keys(key, solver.terms, batch.num_rows)
                buckets = np.array(self.buckets, np.int32)[hashes % len(self.buckets)]
                lead = np.zeros(batch.num_rows, np.bool_)
                lead[np.unique(event, return_index=True)[1]] = True
                lead &= event >= 0
                solved = pa.Table.from_batches([batch])
                if self.side_output:
                    whole = rows.column(EVENT).take(pa.array(np.where(lead, event, 0)))
                    solved = solved.append_column(EVENT, pc.if_else(pa.array(lead), whole, None))
                solved = solved.append_column(LEAD, pa.array(lead))
                yield solved.append_column(BUCKET, pa.array(buckets))
            solver.forget()


@dataclass(frozen=True, kw_only=True)
class GraphStreamWork(BucketWork):
    """The work of the buckets of a SPAseQ query; a tick is a nanosecond."""

    work: GraphWork

    @property
    def stream_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.work.plan.query.streams)

    @property
    def schema(self) -> pa.Schema | None:
        return self.work.schema

    def open(self, frozen: bytes | None = None) -> SolutionRecognizer:
        return SolutionRecognizer(self.work, frozen)

    def read_ticks(self, table: pa.Table) -> Int64s:
        return np.asarray(table.column(TS), np.int64)

    def number_rows(self, table: pa.Table, first: int, place: int) -> pa.Table:
        """Return the rows as they are: events have numbers of their own."""
        return drop_column(table, LEAD)

    def select_events(self, table: pa.Table) -> pa.Table:
        own = table.filter(table.column(LEAD))
        return own.append_column(STREAM, own.column(STREAM_NUMBER))

    def split(self, table: pa.Table | None) -> Iterator[pa.Table]:
        """Yield the solutions in pieces that do not end within a timestamp."""
        return align_timestamps(super().split(table))


class SolutionRecognizer:
    """The session of a bucket over solutions."""

    first_end: int | None = None
    next_deadline: int | None = None

    def __init__(self, work: GraphWork, frozen: bytes | None = None) -> None:
        self.work, self.session = work, work.open_session()
        if frozen is not None:
            self.session.thaw(frozen)

    def renew_budget(self) -> None:
        """Nothing is limited per micro-batch."""

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the matches that end in a table."""
        found = self.session.push(table)
        if self.work.form != "count":
            yield from format_matches(self.work, found, None)
        elif count := found.count():
            yield pa.RecordBatch.from_pydict({"count": [str(count)]})

    def replay(self, table: pa.Table) -> None:
        """Read solutions again whose matches were reported before."""
        self.session.push(table)

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        """Yield nothing: a match is certain when it ends."""
        return iter(())

    def forget(self) -> None:
        self.session.forget()

    def freeze(self) -> bytes:
        return self.session.freeze()

    def count_state(self) -> EngineState:
        feed = self.session.feed
        return EngineState(len(feed.builder.parts), feed.engine.records)
