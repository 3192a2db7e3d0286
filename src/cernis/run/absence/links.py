"""`LinkCodes`: codes of the values that link a guard to a match.

Cost contract: per event, a look into a hash table for each side of the equalities. Values that
neither a recent event nor anything that waits has are dropped once they are the majority.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.compare import Equality
from cernis.encoding.keys import select_arrays
from cernis.events.batch import EventBatch
from cernis.plan.absence import GuardLinks
from cernis.run.event_log import EventLog

Numbers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

_SPARE = 1 << 16
"""So many dead values are kept in any case."""


class LinkCodes:
    """Two events have equal codes if the compared values, and the partitions, are equal."""

    def __init__(self, links: GuardLinks, *, partitioned: bool) -> None:
        inside = tuple(pair.inside.attribute.name for pair in links.equal)
        outside = tuple(pair.outside.attribute.name for pair in links.equal)
        self.inside, self.outside = links.equal[0].events
        columns = [*dict.fromkeys([inside, outside])]
        self._rows = columns.index(inside), columns.index(outside)
        self._equality = Equality([columns], partitioned)
        self._log = EventLog(len(columns))

    def note(self, batch: EventBatch, keys: Numbers | None) -> None:
        """Read the codes of a batch."""
        self._log.append(batch.base, self._equality.encode(batch, keys))

    def read_inside(self, positions: Numbers) -> Numbers:
        """Return the codes of events of the guard."""
        return self._log.read(self._rows[0], positions)

    def read_outside(self, positions: Numbers) -> Numbers:
        """Return the codes of events of a match."""
        return self._log.read(self._rows[1], positions)

    def forget_before(self, position: int) -> None:
        self._log.forget_before(position)

    def forget_values(self, live: Numbers) -> Numbers | None:
        """Drop the values that neither these codes nor recent events have, once they are many.

        Return the codes kept, ascending: the first becomes 0, and so on. None: nothing changes.
        """
        if self.size <= 2 * len(live) + _SPARE:
            return None
        is_kept = np.zeros(self.size + 1, np.bool_)
        is_kept[live] = True
        for row in range(self._log.rows):
            self._log.mark(row, is_kept)
        is_kept[-1] = False  # where values are missing
        kept = np.flatnonzero(is_kept)
        self._equality.keep_only(0, kept)
        for row in range(self._log.rows):
            self._log.renumber(row, kept)
        return kept

    @property
    def size(self) -> int:
        """How many values have a code."""
        return self._equality.sizes()[0]

    def find_partitions(self, codes: Numbers) -> Numbers:
        """Return the partitions of values; -1 where a value is missing, or its partition gone."""
        known = np.append(self._equality.list_partitions(0), -1)
        return known[codes]

    def keep_keys(self, keys: Numbers) -> None:
        self._equality.keep_partitions(keys)

    def freeze(self) -> Arrays:
        arrays = {f"equality.{name}": array for name, array in self._equality.freeze().items()}
        return arrays | {f"log.{name}": array for name, array in self._log.freeze().items()}

    def thaw(self, arrays: Mapping[str, NDArray[Any]], position: int) -> None:
        self._equality.thaw(select_arrays("equality.", arrays))
        codes = dict.fromkeys(range(self._log.rows), self.size)
        self._log.thaw(select_arrays("log.", arrays), position, codes)
