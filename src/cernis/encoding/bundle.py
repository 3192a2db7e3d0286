"""`BundleEncoder`: the truth of the atoms of many automata, for events that each concern one.

Each distinct atom is evaluated once for all automata, on classes of values (`encode`). A table per
group of atoms then maps an automaton and a class to the bits of the automaton's own atoms, so an
event's bits are one look-up per group. Its code is the place of these bits among those of all
automata.

Cost contract: per event one pass for each column that is compared, however many automata there are.
Memory: four bytes per automaton and class of a group; an automaton with n atoms has 2ⁿ codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cernis.encoding.encode import ClassEncoder, Vector
from cernis.events.batch import EventBatch, Int64s
from cernis.pattern.atom import Atom

MOST_ATOMS = 12
"""An automaton that asks more than this is in no bundle."""


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
        numbers = {atom: number for number, atom in enumerate(every)}
        self._classes = ClassEncoder(every, type_column)
        self._sizes = [len(atoms) for atoms in automata]
        self._firsts = np.cumsum([0, *(1 << size for size in self._sizes)])
        asked = np.array([numbers[atom] for atoms in automata for atom in atoms], np.int64)
        whose = np.repeat(np.arange(len(automata)), self._sizes)
        bits = np.array([1 << i for size in self._sizes for i in range(size)], np.int32)
        self._groups = [
            _BundleGroup(atoms, asked, whose, bits, len(automata))
            for atoms, _ in self._classes.groups
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
        return codes

    def find_vector(self, code: int) -> tuple[int, Vector]:
        """Return the place of an automaton, and the truth of its atoms."""
        place = int(np.searchsorted(self._firsts, code, side="right")) - 1
        bits = code - int(self._firsts[place])
        return place, tuple(bool(bits >> i & 1) for i in range(self._sizes[place]))


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
