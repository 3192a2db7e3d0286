"""The work of a task that finds the matches of a MATCH_RECOGNIZE clause in partitions of rows.

Rows come partition by partition, in order, with masks and values that Spark has computed. A
recognizer holds the rows of the last partition until another one begins, because only then the
partition is whole. It gives the rows of matches with their match, classifier and place; Spark
computes the measures over these.

Cost contract: memory for the largest partition and one batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cernis.events.batch import Int64s
from cernis.plan.rows.matcher import PARTITION, ROW, RowMatcher
from cernis.run.rows.feed import DEFAULT_BUDGET, RowFeed, describe_rows
from cernis.work.reading import Recognizer, Work
from cernis.work.report import EngineState


@dataclass(frozen=True, kw_only=True)
class PartitionWork(Work):
    """Finds the matches in whole partitions."""

    matcher: RowMatcher
    kept: tuple[str, ...]
    """The columns of rows that go on to the measures."""
    budget: int = DEFAULT_BUDGET

    def open(self, frozen: bytes | None = None) -> Recognizer:
        assert frozen is None, "a batch has no state"
        return _PartitionRecognizer(self)

    @property
    def stream_names(self) -> tuple[str, ...]:
        return ("rows",)

    def read_ticks(self, table: pa.Table) -> Int64s:
        raise NotImplementedError  # rows come in order


class _PartitionRecognizer(Recognizer):
    def __init__(self, work: PartitionWork) -> None:
        self.work = work
        self.feed = RowFeed(work.matcher, work.budget)
        self.pending: list[pa.Table] = []

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        partitions = np.asarray(table.column(PARTITION), np.int64)
        held = self.pending[0].column(PARTITION)[0].as_py() if self.pending else None
        begins = np.flatnonzero(partitions != partitions[-1])
        last = int(begins[-1]) + 1 if len(begins) else 0
        if last == 0 and held in (None, int(partitions[-1])):
            self.pending.append(table)
            return
        whole = pa.concat_tables([*self.pending, table.slice(0, last)])
        self.pending = [table.slice(last)]
        yield from self._match(whole)

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.pending:
            whole = pa.concat_tables(self.pending)
            self.pending = []
            yield from self._match(whole)

    def _match(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the matches in whole partitions."""
        table = table.combine_chunks()
        matched = self.feed.match(table)
        numbers = np.asarray(table.column(ROW), np.int64)
        rows = table.select(list(self.work.kept)).take(pa.array(matched.rows))
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        described = describe_rows(matched, numbers, self.work.matcher)
        yield from pa.table({**columns, **described}).to_batches(max_chunksize=1 << 16)

    def replay(self, table: pa.Table) -> None:
        raise NotImplementedError  # a batch is read once

    def forget(self) -> None:
        """Nothing: whole partitions are needed."""

    def freeze(self) -> bytes:
        raise NotImplementedError  # a batch has no state

    def count_state(self) -> EngineState:
        rows = sum(table.num_rows for table in self.pending)
        return EngineState(keys=len(self.pending), records=0, stored=rows)
