"""The work of a task that finds the matches of a MATCH_RECOGNIZE clause in partitions of rows.

Rows come partition by partition, in order, with masks and values that Spark has computed. A
recognizer matches them chunk by chunk: a partition whose rows may go on is *open*, and the matcher
says which matches no row to come can change. So a hot partition streams through its task. It gives
the rows of matches with their match, classifier and index; Spark computes the measures over these.

Cost contract: linear in the rows, amortized: a chunk is as large as what is held. Memory for one
chunk and the rows that a match may still need; WITH UNMATCHED ROWS needs whole partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cernis.events.batch import Int64s
from cernis.plan.rows.matcher import PARTITION, ROW, RowMatcher
from cernis.run.rows.feed import DEFAULT_BUDGET, MatchedRows, RowFeed, describe_rows
from cernis.work.reading import Recognizer, Work
from cernis.work.report import EngineState

_CHUNK = 1 << 17
"""The number of rows that are matched at once, at least."""


@dataclass(frozen=True, kw_only=True)
class RowPatternWork(Work):
    """Reads rows in order, once."""

    matcher: RowMatcher
    kept: tuple[str, ...]
    """The columns of rows that go on to the measures."""
    budget: int = DEFAULT_BUDGET

    @property
    def stream_names(self) -> tuple[str, ...]:
        return ("rows",)

    def read_ticks(self, table: pa.Table) -> Int64s:
        raise NotImplementedError  # rows come in order


@dataclass(frozen=True, kw_only=True)
class PartitionWork(RowPatternWork):
    """Finds the matches in whole partitions."""

    def open(self, frozen: bytes | None = None) -> Recognizer:
        return _PartitionRecognizer(self)


class RowTask(Recognizer):
    """A session that reads a batch, once."""

    def replay(self, table: pa.Table) -> None:
        raise NotImplementedError  # a batch is read once

    def forget(self) -> None:
        """Nothing: what is read is dropped."""

    def freeze(self) -> bytes:
        raise NotImplementedError  # a batch has no state

    def count_state(self) -> EngineState:
        return EngineState(keys=0, records=0, stored=0)


class _PartitionRecognizer(RowTask):
    def __init__(self, work: PartitionWork) -> None:
        self.work = work
        self.feed = RowFeed(work.matcher, work.budget)
        self.pending: list[pa.Table] = []
        self.size = 0
        """How many rows are pending."""
        self.due = _CHUNK
        self.partition = -1
        """The partition of the first pending row, if rows of it were matched before."""
        self.number = 0
        """How many matches it has had."""

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        self.pending.append(table)
        self.size += table.num_rows
        if self.size >= self.due:
            yield from self._match(goes_on=True)

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.size:
            yield from self._match(goes_on=False)

    def _match(self, *, goes_on: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the matches that are certain, and hold the rows that others need."""
        table = pa.concat_tables(self.pending).combine_chunks()
        partitions = np.asarray(table.column(PARTITION), np.int64)
        end = len(partitions)
        if goes_on and self.work.matcher.shows_unmatched:
            # whether a match covers a row is known when its partition is whole
            others = np.flatnonzero(partitions != partitions[-1])
            end = int(others[-1]) + 1 if len(others) else 0
        part = table.slice(0, end)
        begun = bool(self.partition == partitions[0])
        matched, stop = self.feed.match_part(
            part, begun=begun, goes_on=goes_on and end == len(partitions), number=self.number
        )
        numbers = matched.numbers
        if begun:
            own = (partitions[matched.starts] == self.partition) & (numbers > 0)
            numbers = numbers + own * self.number
            matched = matched._replace(numbers=numbers)
        if end:
            last = numbers[partitions[matched.starts] == partitions[end - 1]]
            before = self.number if begun and partitions[end - 1] == self.partition else 0
            self.partition, self.number = int(partitions[end - 1]), int(last.max(initial=before))
        stop = stop if end == len(partitions) else end
        self.pending = [table.slice(stop)] if goes_on else []
        self.size = table.num_rows - stop
        self.due = max(_CHUNK, 2 * self.size)
        yield from self._describe(part, matched)

    def _describe(self, table: pa.Table, matched: MatchedRows) -> Iterator[pa.RecordBatch]:
        numbers = np.asarray(table.column(ROW), np.int64)
        rows = table.select(list(self.work.kept)).take(pa.array(matched.rows))
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        described = describe_rows(matched, numbers, self.work.matcher)
        yield from pa.table({**columns, **described}).to_batches(max_chunksize=1 << 16)
