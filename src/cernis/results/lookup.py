"""What results need of the events of a run: rows, times and attributes, by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from cernis.results.matchset import Positions


class EventLookup(Protocol):
    """The events of a run, by position."""

    def rows(self, positions: Positions) -> Positions:
        """Return the row numbers of the input, in the order it was given."""

    def times(self, positions: Positions) -> pa.Array:
        """Return the values of the time column, or row numbers where there is none."""

    def structs(
        self, positions: Positions, attributes: Sequence[str] | None = None
    ) -> pa.StructArray:
        """Return the events themselves, or some of their attributes."""

    def column(self, positions: Positions, attribute: str) -> pa.Array:
        """Return one attribute; null where the event does not have it."""
