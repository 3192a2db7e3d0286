"""`EventBuffer`: the events that the watermark has not passed yet.

The buffer is a list of sorted runs. A new run is merged with runs that are not much larger, so
that there are O(log n) runs, and an event is sorted O(log n) times. The events that the
watermark has passed are the beginnings of all runs.

Cost: O(log n) comparisons for an event among n. Turned down: one sorted table, which every new
event would copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.events.batch import Bools, Int64s
from cernis.work.columns import TICKS

_LONG = 1 << 14
"""Rows of a chunk that is not worth a copy."""


class EventBuffer:
    """Events that wait for the watermark, released in order of time and then of `ties`.

    >>> waiting = EventBuffer(["@row"])
    >>> waiting.add(pa.table({TICKS: [7, 3], "@row": [0, 1]}))
    >>> waiting.release(7).column("@row").to_pylist(), len(waiting), waiting.earliest
    ([1], 1, 7)
    """

    def __init__(self, ties: Sequence[str]) -> None:
        self.ties = tuple(ties)
        self._runs: list[pa.Table] = []

    def __len__(self) -> int:
        return sum(run.num_rows for run in self._runs)

    @property
    def earliest(self) -> int | None:
        """The time of the first event in the buffer."""
        return min((int(_ticks(run)[0]) for run in self._runs), default=None)

    def add(self, table: pa.Table) -> None:
        """Add events, in any order."""
        merged = [table] if table.num_rows else []
        size = table.num_rows
        while merged and self._runs and self._runs[-1].num_rows <= 2 * size:
            merged.insert(0, self._runs.pop())
            size += merged[0].num_rows
        if merged:
            self._runs.append(self._sorted(merged))

    def release(self, before: int) -> pa.Table | None:
        """Remove the events before a time, and return them in order."""
        passed, left = [], []
        for run in self._runs:
            number = int(np.searchsorted(_ticks(run), before))
            if number:
                passed.append(run.slice(0, number))
            if number < run.num_rows:
                left.append(run.slice(number))
        self._runs = left
        if len(passed) == 1:
            return _join_short(passed[0])
        return self._sorted(passed) if passed else None

    def table(self) -> pa.Table | None:
        """Return all events, in order."""
        return self._sorted(self._runs) if self._runs else None

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        by = [np.asarray(table.column(name)) for name in (*reversed(self.ties), TICKS)]
        if _is_sorted(by):
            return _join_short(table)
        return table.combine_chunks().take(pa.array(np.lexsort(by)))


def _join_short(table: pa.Table) -> pa.Table:
    """Return a table without short chunks, each of which would cost a call; long ones stay."""
    chunks = table.column(TICKS).num_chunks
    return table if chunks * _LONG <= table.num_rows else table.combine_chunks()


def _is_sorted(by: Sequence[NDArray[Any]]) -> bool:
    """Return whether rows are in order of columns, the last of which counts most."""
    tied: Bools = np.ones(max(len(by[0]) - 1, 0), np.bool_)
    for column in reversed(by):
        before, after = column[:-1], column[1:]
        if (tied & (after < before)).any():
            return False
        tied &= after == before
        if not tied.any():
            break
    return True


def _ticks(run: pa.Table) -> Int64s:
    return np.asarray(run.column(TICKS))
