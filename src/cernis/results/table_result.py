"""`TableResult`: a result whose items are the rows of an Arrow table.

Cost contract: every member is linear in its output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from cernis.output import UsedFile
from cernis.results.result import Item, Notes, Result

_BATCH = 1 << 16


class TableResult(Result[Item]):
    """The base of `Answers` and `Groups`."""

    def __init__(
        self,
        table: pa.Table,
        notes: Notes = (),
        partial: bool = False,
        used: Sequence[UsedFile] = (),
    ) -> None:
        super().__init__(notes, partial, used)
        self._table = table.combine_chunks()

    @abstractmethod
    def _objects(self, batch: pa.RecordBatch) -> Iterator[Item]:
        """Make the rows of a batch as Python objects."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._table.schema

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._table.num_rows)

    def _items(self, limit: int | None) -> Iterator[Item]:
        return chain.from_iterable(map(self._objects, self._batches(limit)))

    def _draw(self, k: int, seed: int | None) -> Iterator[Item]:
        chosen = np.random.default_rng(seed).permutation(self.count())[:k]
        return self._list(self._table.take(pa.array(np.sort(chosen))))

    def _page(self, offset: int, n: int) -> Iterator[Item]:
        return self._list(self._table.slice(min(offset, self.count()), n))

    def _list(self, table: pa.Table) -> Iterator[Item]:
        return chain.from_iterable(map(self._objects, table.combine_chunks().to_batches()))

    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        return iter(self._table.slice(0, limit).to_batches(max_chunksize=_BATCH))
