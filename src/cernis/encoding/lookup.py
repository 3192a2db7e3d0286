"""`Lookup`: the row of a table that has the key of an event.

Keys are equal as partition keys are (`keys`): numbers across types, instants across units; NULL and
NaN have no row.

Cost contract: one hash look-up per event and component of the key, whatever the size of the table.
Memory: the keys of the table, and at most as many keys of events that the table lacks. Turned down:
Arrow's join, which hashes the whole table anew for each batch, carries no
nested columns, and compares values of one type alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cernis.encoding.keys import Tuples
from cernis.events.batch import Int64s

_SPARE = 1 << 16


class Lookup:
    """The rows of a table by key.

    >>> lookup = Lookup([pa.chunked_array([["a", None, "b"]])])
    >>> lookup.find([pa.chunked_array([["b", "x", None, "a"]])]).tolist()
    [2, -1, -1, 0]
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """`twice` is a pair of rows with one key, if there is one; then nothing is found."""
        self._keys = Tuples(len(columns))
        codes = self._number(columns)
        self._rows = np.flatnonzero(codes >= 0)
        self.twice = self._find_twice(codes)

    def _find_twice(self, codes: Int64s) -> tuple[int, int] | None:
        present = codes[self._rows]
        repeats = np.flatnonzero(present < np.arange(len(present)))
        if not len(repeats):
            return None
        again = int(repeats[0])
        first = int(np.flatnonzero(present == present[again])[0])
        return int(self._rows[first]), int(self._rows[again])

    def find(self, columns: Sequence[pa.ChunkedArray]) -> Int64s:
        """Return the row for each key; -1 where the table has none."""
        codes = self._number(columns)
        known = len(self._rows)
        is_known = (codes >= 0) & (codes < known)
        rows = np.full(len(codes), -1, np.int64)
        rows[is_known] = self._rows[codes[is_known]]
        if self._keys.value_count > 2 * known + _SPARE:
            self._keys.keep_only(np.arange(known))
        return rows

    def _number(self, columns: Sequence[pa.ChunkedArray]) -> Int64s:
        parts = zip(self._keys.components, columns, strict=True)
        return self._keys.codes([component.codes(column) for component, column in parts])
