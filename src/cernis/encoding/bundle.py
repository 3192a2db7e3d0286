"""`BundleEncoder`: the truth of the atoms of many automata, for events that each concern one.

Each distinct atom that compares a column with constants is evaluated once for all automata, on
classes of values (`encode`). A table per group of atoms then maps an automaton and a class to the
bits of the automaton's own atoms, so an event's bits are one look-up per group. Other atoms, such
as those that compare two columns, are evaluated row by row, each on the events of the automata that
ask it. The code of an event is the place of its bits among those of all automata.

Cost contract: per event one pass for each column that is compared with constants, however many
automata there are, and one for each other atom that its own automaton asks; per batch some tens of
microseconds for each other atom. Memory: four bytes per automaton and class of a group; an
automaton with n atoms has 2ⁿ codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.encoding.encode import AtomEncoder, ClassEncoder, Vector, compares_constants
from cernis.events.batch import Bools, EventBatch, Int64s
from cernis.events.order import join_table
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs

MOST_ATOMS = 12
"""An automaton that asks more than this is in no bundle."""
_FEW_AUTOMATA = 16
"""The events of so many automata are put together, and not looked for among all."""


@dataclass(frozen=True)
class SeenTruths:
    """The combinations of truths of some atoms that events have had."""

    atoms: tuple[Atom, ...]
    vectors: list[Vector]


class BundleEncoder:
    """Give each event the code of the atoms that hold for it, of the automaton that reads it.

    >>> from cernis.pattern.atom import TypeIs
    >>> import pyarrow as pa
    >>> encoder = BundleEncoder([(TypeIs("A"), TypeIs("B")), (TypeIs("B"),)], "type")
    >>> events = EventBatch.of(pa.table({"type": ["A", "B", "B"]}))
    >>> codes = encoder.encode(events, np.array([0, 0, 1]))
    >>> [encoder.find_vector(code) for code in codes.tolist()]
    [(0, (True, False)), (0, (False, True)), (1, (True,))]
    """

    def __init__(self, automata: Sequence[Sequence[Atom]], type_column: str) -> None:
        every = [*dict.fromkeys(chain.from_iterable(automata))]
        every.sort(key=compares_constants, reverse=True)  # those that need a pass each come last
        numbers = {atom: number for number, atom in enumerate(every)}
        plain = sum(map(compares_constants, every))
        self._classes = ClassEncoder(every[:plain], type_column)
        self._atoms = [tuple(atoms) for atoms in automata]
        self._sizes = [len(atoms) for atoms in automata]
        self._firsts = np.cumsum([0, *(1 << size for size in self._sizes)])
        asked = np.array([numbers[atom] for atoms in automata for atom in atoms], np.int64)
        whose = np.repeat(np.arange(len(automata)), self._sizes)
        bits = np.array([1 << i for size in self._sizes for i in range(size)], np.int32)
        self._groups = [
            _BundleGroup(atoms, asked, whose, bits, len(automata))
            for atoms, _ in self._classes.groups
        ]
        self._row_atoms = [
            _RowAtom(every[number], whose[own := asked == number], bits[own], len(automata))
            for number in range(plain, len(every))
        ]

    def __len__(self) -> int:
        """Return how many codes there are."""
        return int(self._firsts[-1])

    def encode(self, batch: EventBatch, places: Int64s) -> Int64s:
        """Return a code per event; `places` are those of the automata that read the events."""
        codes = self._firsts[places]
        found = self._classes.encode(batch)
        groups = zip(self._groups, self._classes.groups, found, strict=True)
        for group, (_, classes), numbers in groups:
            codes += group.find_bits(classes)[places, numbers]
        if self._row_atoms:
            rows = iter([self._find_row_bits(*part) for part in _split_parts(batch, places)])
            codes += batch.interleave(lambda _, __: next(rows))
        return codes

    def _find_row_bits(self, table: pa.Table, places: Int64s) -> NDArray[np.int32]:
        """Return the bits of the atoms that are evaluated row by row; a row has its automaton."""
        order = np.argsort(places, kind="stable")
        numbers = np.arange(len(self._sizes) + 1)
        cuts = np.searchsorted(places[order], numbers)
        found = np.zeros(len(places), np.int32)
        for atom in self._row_atoms:
            atom.add_bits(table, places, (order, cuts), found)
        return found

    def find_vector(self, code: int) -> tuple[int, Vector]:
        """Return the place of an automaton, and the truth of its atoms."""
        place = int(np.searchsorted(self._firsts, code, side="right")) - 1
        bits = code - int(self._firsts[place])
        return place, tuple(bool(bits >> i & 1) for i in range(self._sizes[place]))

    def list_truths(self, place: int, seen: Bools) -> SeenTruths:
        """Return the truths of the atoms of an automaton, for the codes that are seen."""
        first = int(self._firsts[place])
        own = np.flatnonzero(seen[first : int(self._firsts[place + 1])]) + first
        return SeenTruths(self._atoms[place], [self.find_vector(code)[1] for code in own.tolist()])


def _split_parts(batch: EventBatch, places: Int64s) -> list[tuple[pa.Table, Int64s]]:
    """Return the table of each part, with the automaton that reads each row; -1: none does."""
    if batch.which is None and batch.index is None:
        return [(batch.parts[0][1], places)]
    found = []
    for part, (_, table) in enumerate(batch.parts):
        at = np.arange(len(batch)) if batch.which is None else np.flatnonzero(batch.which == part)
        own = np.full(table.num_rows, -1, np.int64)
        own[at if batch.index is None else batch.index[at]] = places[at]
        found.append((table, own))
    return found


class _RowAtom:
    """An atom that is evaluated on the events of the automata that ask it."""

    def __init__(self, atom: Atom, whose: Int64s, bits: NDArray[np.int32], automata: int) -> None:
        """`whose` are the automata that ask it, and `bits` its bit in each."""
        assert not isinstance(atom, TypeIs)
        paths = [each.path for each in pred.attributes_of(atom)]
        names = (name for path in paths for name in (path[0], ".".join(path)))
        self._columns = [*dict.fromkeys(names)]
        self._encoder = AtomEncoder([atom])
        self._whose = whose
        self._bits = np.zeros(automata, np.int32)
        self._bits[whose] = bits

    def add_bits(
        self,
        table: pa.Table,
        places: Int64s,
        sorted_rows: tuple[Int64s, Int64s],
        found: NDArray[np.int32],
    ) -> None:
        """Add its bit where it holds; `sorted_rows` are those of each automaton, and the cuts."""
        order, cuts = sorted_rows
        if len(self._whose) == len(cuts) - 1:
            rows = np.flatnonzero(places >= 0)
        elif len(self._whose) <= _FEW_AUTOMATA:
            rows = np.concatenate([order[cuts[one] : cuts[one + 1]] for one in self._whose])
        else:
            rows = np.flatnonzero(self._bits[places] * (places >= 0))
        if not len(rows):
            return
        known = table.column_names
        own = join_table(table.select([name for name in self._columns if name in known]))
        codes = self._encoder.encode(EventBatch.of(own.take(pa.array(rows))))
        truths = np.array([vector[0] for vector in self._encoder.vectors], np.bool_)
        found[rows] += self._bits[places[rows]] * truths[codes]


class _BundleGroup:
    """The bits of each automaton in each class of a group."""

    def __init__(
        self,
        atoms: Sequence[int],
        asked: Int64s,
        whose: Int64s,
        bits: NDArray[np.int32],
        automata: int,
    ) -> None:
        """`asked` are the atoms of all automata, `whose` and `bits` their automata and bits."""
        at = np.flatnonzero(np.isin(asked, np.array(atoms, np.int64)))
        ranks = {atom: rank for rank, atom in enumerate(atoms)}
        self._columns = np.array([ranks[atom] for atom in asked[at].tolist()], np.int64)
        self._whose, self._bits = whose[at], bits[at]
        self._table = np.zeros((automata, 8), np.int32)
        self._known = 0

    def find_bits(self, classes: Sequence[Vector]) -> NDArray[np.int32]:
        """Return the bits per automaton and class."""
        if len(classes) > self._known:
            new = np.array(classes[self._known :], np.bool_)
            if len(classes) > self._table.shape[1]:
                larger = np.zeros((len(self._table), 2 * len(classes)), np.int32)
                larger[:, : self._known] = self._table[:, : self._known]
                self._table = larger
            firsts = np.flatnonzero(np.diff(self._whose, prepend=-1))
            own = new[:, self._columns] * self._bits
            sums = np.add.reduceat(own, firsts, axis=1) if len(firsts) else own
            self._table[self._whose[firsts], self._known : len(classes)] = sums.T
            self._known = len(classes)
        return self._table
