"""`DeadlineColumn`: the deadlines of matches of `WITHOUT … FOR`, as times.

A deadline in time is the end's time plus the duration. One that counts events is the time of that
event; NULL if the input was complete before it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cernis.errors import DataError
from cernis.events.column_types import is_text
from cernis.events.store import EventStore
from cernis.events.times import parse_timestamps
from cernis.pattern.predicate import Calculation, ConstantDuration, IntervalTime
from cernis.pattern.query import Unit, Window
from cernis.results.sets.matchset import Positions
from cernis.results.terms.term import calculate_term, to_column

DEADLINE = "deadline_ts"
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class DeadlineColumn:
    """The window after a match, and the events at deadlines that count events."""

    within: Window
    ends: Positions = field(default_factory=lambda: _NOTHING)
    positions: Positions = field(default_factory=lambda: _NOTHING)
    """For each of `ends` the position of the event at the deadline; -1 if there is none."""

    def read(self, ends: Positions, events: EventStore) -> pa.Array:
        """Return the deadline of each match that ends at these positions."""
        if self.within.unit is Unit.TIME:
            return _add(events.times(ends), self.within, events.time_unit)
        at = self.find_positions(ends)
        known = np.flatnonzero(at >= 0)
        index = np.full(len(at), -1)
        index[known] = np.arange(len(known))
        indices = pa.array(index, pa.int64(), mask=index < 0)
        return events.times(at[known]).take(indices)

    def find_positions(self, ends: Positions) -> Positions:
        """Return where the deadlines are: at events, -1 if there is none; or the ends for times."""
        if self.within.unit is Unit.TIME:
            return ends
        order = np.argsort(self.ends, kind="stable")
        return self.positions[order[np.searchsorted(self.ends, ends, sorter=order)]]

    def join(self, others: Sequence[DeadlineColumn]) -> DeadlineColumn:
        """Return the deadlines of the matches of several results of one session."""
        parts = [self, *others]
        ends, at = np.unique(np.concatenate([part.ends for part in parts]), return_index=True)
        positions = np.concatenate([part.positions for part in parts])[at]
        return DeadlineColumn(self.within, ends, positions)


def _add(times: pa.Array, within: Window, time_unit: str) -> pa.Array:
    if is_text(times.type):
        times = parse_timestamps(times)
    later = Calculation("+", IntervalTime("END"), ConstantDuration(within.size))
    try:
        return to_column(calculate_term(later, lambda _: times, time_unit), len(times))
    except (DataError, OverflowError):  # later than any time
        return pa.nulls(len(times), times.type)
