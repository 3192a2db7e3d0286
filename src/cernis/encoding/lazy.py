"""`LazyEncoder`: the truths of atoms for few events, each where a test still depends on it.

A rule of a set reads the few events that can move it, and asks dozens of atoms. Each of them costs
some calls, whatever the number of events. So tests are walked part by part: the parts of a
conjunction read the events that the parts before them leave, those of a disjunction the ones that
no part before them holds for. An atom that no test depends on counts as false. So vectors say
which tests hold, and not which atoms do; who needs the latter takes an `AtomEncoder`.

Cost contract: some tens of microseconds for each atom that is asked, and nothing for the others.
Batches with many events go to an `AtomEncoder`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.unary.cea import Both, Either, Is, Isnt, Test
from cernis.encoding.bundle import RowColumns, find_true
from cernis.encoding.encode import AtomEncoder, Encode, Vector
from cernis.events.batch import EventBatch, Int32s, Int64s
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs

_MANY = 1 << 12
"""A batch with more events is encoded column by column."""


class LazyEncoder:
    """Give each event a code of the tests that hold for it.

    >>> cheap = pred.Comparison("<", pred.Attribute(("price",)), pred.Literal(10))
    >>> encoder = LazyEncoder([TypeIs("A"), cheap], [Both((Is(TypeIs("A")), Is(cheap)))], "type")
    >>> events = pa.table({"type": ["A", "B", "A"], "price": [3, 3, 30]})
    >>> [encoder.vectors[code] for code in encoder.encode(EventBatch.of(events))]
    [(True, True), (False, False), (True, False)]
    """

    def __init__(
        self,
        atoms: Sequence[Atom],
        tests: Sequence[Test],
        type_column: str,
        encode: Encode | None = None,
    ) -> None:
        self.atoms = tuple(atoms)
        self.vectors: list[Vector] = []
        self._tests = tests
        self._type_column = type_column
        self._codes: dict[Vector, int] = {}
        self._numbers = {atom: number for number, atom in enumerate(self.atoms)}
        self._whole = (encode or (lambda some: AtomEncoder(some, type_column)))(self.atoms)

    def encode(self, batch: EventBatch) -> Int32s:
        """Return one code per event; `vectors[code]` says which tests hold."""
        if len(batch) > _MANY:
            codes = self._whole.encode(batch)
            known = [self._number(vector) for vector in self._whole.vectors]
            return np.array(known, np.int32)[codes]
        return batch.interleave(self._part)

    def _part(self, stream: str, table: pa.Table) -> Int32s:
        rows = np.arange(table.num_rows, dtype=np.int64)
        walk = _Walk(RowColumns(table), stream, self._type_column, self._numbers, len(rows))
        for test in self._tests:
            walk.find(test, rows)
        packed = np.packbits(walk.truths, axis=1)
        _, first, back = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        codes = [self._number(tuple(walk.truths[row].tolist())) for row in first.tolist()]
        return np.array(codes, np.int32)[back.reshape(-1)]

    def _number(self, vector: Vector) -> int:
        code = self._codes.setdefault(vector, len(self.vectors))
        if code == len(self.vectors):
            self.vectors.append(vector)
        return code


class _Walk:
    """The truths of atoms that tests have asked, for the rows of a table."""

    def __init__(
        self,
        columns: RowColumns,
        stream: str,
        type_column: str,
        numbers: dict[Atom, int],
        length: int,
    ) -> None:
        self._columns, self._stream, self._type_column = columns, stream, type_column
        self._numbers = numbers
        self._asked: NDArray[np.bool_] = np.zeros((length, len(numbers)), np.bool_)
        self.truths: NDArray[np.bool_] = np.zeros((length, len(numbers)), np.bool_)

    def find(self, test: Test, rows: Int64s) -> Int64s:
        """Return the rows for which a test holds."""
        if not len(rows):
            return rows
        match test:
            case Is(atom=atom):
                return self._find_atom(atom, rows)
            case Both(parts=parts):
                for part in parts:
                    rows = self.find(part, rows)
                return rows
            case Either(parts=parts):
                rest = rows
                for part in parts:
                    rest = np.setdiff1d(rest, self.find(part, rest), assume_unique=True)
                return np.setdiff1d(rows, rest, assume_unique=True)
            case Isnt(body=body):
                return np.setdiff1d(rows, self.find(body, rows), assume_unique=True)

    def _find_atom(self, atom: Atom, rows: Int64s) -> Int64s:
        number = self._numbers[atom]
        new = rows[~self._asked[rows, number]]
        if len(new):
            self._asked[new, number] = True
            self.truths[self._evaluate(atom, new), number] = True
        found: Int64s = rows[self.truths[rows, number]]
        return found

    def _evaluate(self, atom: Atom, rows: Int64s) -> Int64s:
        if not isinstance(atom, TypeIs):
            return find_true(atom, self._columns, rows)
        if atom.stream is not None and atom.stream != self._stream:
            return rows[:0]
        named = pred.Comparison("=", pred.Attribute((self._type_column,)), pred.Literal(atom.type))
        return find_true(named, self._columns, rows)
