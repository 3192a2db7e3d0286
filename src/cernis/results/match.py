"""`Match`: one match as a Python object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cernis.events.store import EventStore
from cernis.results.index_timeline import title_marks, view_match
from cernis.results.notebook import match_view
from cernis.results.values import python_records
from cernis.views.text_timeline import write_timeline
from cernis.views.timeline import draw_timeline


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """One match: where it starts and ends, and which rows its variables hold.

    Rows are 0-based row numbers of the input in the order it was given. Two matches
    are equal when they have the same interval, variables, partition and values.

    A row of a query that is `SELECT COUNT(*)` alone is a match of its end position
    only, without variables; its value `COUNT(*)` is the number of matches there.
    """

    start: int
    end: int
    start_ts: Any
    end_ts: Any
    vars: Mapping[str, Sequence[int]]
    partition: Mapping[str, Any]
    values: Mapping[str, Any]
    interval: tuple[int, int] = field(repr=False)
    """The positions of start and end: ranks in the order of time."""
    positions: Mapping[str, Sequence[int]] = field(repr=False)
    """The positions that the variables hold, ascending."""
    _events: EventStore = field(repr=False)
    _attributes: Mapping[str, tuple[str, ...]] = field(repr=False)
    deadline_ts: Any = field(default=None, repr=False)
    """Of WITHOUT … FOR: until when nothing that was excluded has come."""
    suppressed: int | None = field(default=None, repr=False)
    """Of SUPPRESS BY: how many matches were silenced since the one before."""

    def events(self, variable: str) -> list[dict[str, Any]]:
        """Return the events of a variable, in the order of the stream."""
        if variable not in self.positions:
            known = ", ".join(self.positions) or "none"
            raise KeyError(f"no variable {variable!r} in this match; it has {known}")
        positions = np.array(self.positions[variable], np.int64)
        return python_records(
            self._events.structs(positions, self._attributes.get(variable) or None)
        )

    @property
    def attributes(self) -> Mapping[str, tuple[str, ...]]:
        """The attributes that SELECT names of each variable; none: all."""
        return self._attributes

    def _repr_html_(self) -> str:
        return match_view(self, self._picture() if self.positions else "")

    def _picture(self) -> str:
        marks = tuple(self.positions.items())
        view = view_match(self._events, self.interval, marks)
        return draw_timeline(view, 640, standalone=False, titles=title_marks(self._events, view))

    def timeline(self, width: int = 60) -> str:
        """Draw the match in text."""
        ends = (f"row {self.start}", f"row {self.end}")
        return write_timeline(self.positions, *self.interval, width=width, ends=ends)

    def _identity(self) -> tuple[Any, ...]:
        return self.start, self.end, self.vars, self.partition, self.values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Match) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.start, self.end, *(tuple(rows) for rows in self.vars.values())))
