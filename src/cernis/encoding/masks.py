"""`MaskEncoder`: the truth of a query's atoms, read off masks that somebody else computed.

A query planner that runs predicates close to the data, such as Spark's, hands over columns
of bits: bit i of a mask says whether the i-th of its atoms holds. `AtomEncoder` evaluates the
atoms that it could not.

Cost contract: one hash lookup per event and mask column, one more if atoms are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cernis.encoding.encode import AtomEncoder, Vector
from cernis.encoding.hashing import IntTable
from cernis.events.batch import MASK, EventBatch, Int32s, Int64s
from cernis.pattern.atom import Atom

BITS = 60
"""Atoms in one column; the sign is left alone, so that masks are small numbers."""


def mask_column(number: int) -> str:
    """Return the name of the column that holds atoms BITS · number and on."""
    return f"{MASK}{number}"


class MaskEncoder:
    """Give each event the code of its vector of truth values, read off masks.

    >>> from cernis.pattern.atom import TypeIs
    >>> encoder = MaskEncoder([TypeIs("B"), TypeIs("C")], {TypeIs("A"): 0, TypeIs("B"): 1})
    >>> events = pa.table({"type": ["A", "B", "C"], "@mask0": [1, 2, 0]})
    >>> encoder.encode(EventBatch.of(events)).tolist(), encoder.vectors
    ([0, 1, 2], [(False, False), (True, False), (False, True)])
    """

    def __init__(
        self, atoms: Sequence[Atom], bits: Mapping[Atom, int], type_column: str = "type"
    ) -> None:
        self.atoms = tuple(atoms)
        self.vectors: list[Vector] = []
        self._bits = [bits.get(atom) for atom in self.atoms]
        self._columns = sorted({bit // BITS for bit in self._bits if bit is not None})
        left = [atom for atom, bit in zip(self.atoms, self._bits, strict=True) if bit is None]
        self._left = AtomEncoder(left, type_column) if left else None
        self._masks = [IntTable() for _ in self._columns]
        self._pairs = [IntTable() for _ in range(len(self._columns) + bool(left) - 1)]

    def encode(self, batch: EventBatch) -> Int32s:
        """Return one code per event; `vectors[code]` is the truth of every atom."""
        codes = [
            table.codes(batch.interleave(self._mask(column)))
            for column, table in zip(self._columns, self._masks, strict=True)
        ]
        if self._left is not None:
            codes.append(self._left.encode(batch).astype(np.int64))
        if not codes:
            codes = [np.zeros(len(batch), np.int64)]
        found = codes[0]
        for pairs, more in zip(self._pairs, codes[1:], strict=True):
            found = pairs.codes(found << 31 | more)
        self._learn(found)
        return found.astype(np.int32)

    def _mask(self, column: int) -> Callable[[str, pa.Table], Int64s]:
        wanted = sum({1 << b % BITS for b in self._bits if b is not None and b // BITS == column})

        def part(_: str, table: pa.Table) -> Int64s:
            return np.asarray(table.column(mask_column(column)), np.int64) & np.int64(wanted)

        return part

    def _learn(self, codes: Int64s) -> None:
        """Add the vectors of new codes; codes count up as they first appear."""
        for code in range(len(self.vectors), int(codes.max(initial=-1)) + 1):
            self.vectors.append(self._vector(code))

    def _vector(self, code: int) -> Vector:
        parts = []
        for pairs in reversed(self._pairs):
            code, part = divmod(int(pairs.values[code]), 1 << 31)
            parts.append(part)
        parts.append(code)
        parts.reverse()
        masks = {
            column: int(table.values[part])
            for column, table, part in zip(self._columns, self._masks, parts, strict=False)
        }
        left = iter(self._left.vectors[parts[-1]] if self._left is not None else ())
        return tuple(
            next(left) if bit is None else bool(masks[bit // BITS] >> bit % BITS & 1)
            for bit in self._bits
        )
