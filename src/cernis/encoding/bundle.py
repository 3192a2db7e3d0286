"""`BundleEncoder`: the truth of the atoms of many automata, for events that each concern one.

Each distinct atom that compares a column with constants is evaluated once for all automata, on
classes of values (`encode`). A table per group of atoms then maps an automaton and a class to the
bits of the automaton's own atoms, so an event's bits are one look-up per group. Other atoms, such
as those that compare two columns or look for a text, are evaluated row by row, each on the events
of the automata that ask it. The code of an event is the rank of its bits among those of all
automata.

The other atoms of a test are *merged* into one (`MergedAlphabet`). It is evaluated on the events
alone for which the rest of the test holds, and each of its parts on those that the parts before it
leave open.

Cost contract: per event one pass for each column that is compared with constants, however many
automata there are, and one for each other atom that its own automaton asks; per batch some tens of
microseconds for each other atom of an automaton that has events. Memory: four bytes per automaton
and class of a group; an automaton with n atoms has 2ⁿ codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.unary.alphabet import Alphabet, passes
from cernis.automata.unary.cea import Both, Either, Is, Test, find_atoms
from cernis.encoding.encode import ClassEncoder, SeenTruths, Vector, compares_constants
from cernis.events.batch import Bools, EventBatch, Int64s
from cernis.events.column_types import is_text, value_type
from cernis.events.evaluation.attributes import attribute
from cernis.events.evaluation.evaluate import evaluate_predicate
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.simple_tests import ConstantTest, Form, find_tests

_NO_NEEDS: Mapping[Atom, frozenset[Atom]] = MappingProxyType({})
MOST_ATOMS = 12
"""An automaton that asks more than this is in no bundle."""


class MergedAlphabet:
    """The alphabet of an automaton, whose tests ask few atoms.

    >>> like = [pred.Like(pred.Attribute(("x",)), text) for text in ("a", "b")]
    >>> test = Both((Is(TypeIs("A")), Either((Is(like[0]), Is(like[1])))))
    >>> merge_test(test) == Both((Is(TypeIs("A")), Is(pred.Or(tuple(like)))))
    True
    """

    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet
        self._merged = {test: merge_test(test) for test in alphabet.tests}
        every = (find_atoms(test) for test in self._merged.values())
        self.atoms: tuple[Atom, ...] = tuple(dict.fromkeys(chain.from_iterable(every)))
        self.is_merged = any(test != merged for test, merged in self._merged.items())
        needs: dict[Atom, frozenset[Atom]] = {}
        for test in self._merged.values():
            parts = test.parts if isinstance(test, Both) else (test,)
            known = {part.atom for part in parts if isinstance(part, Is)}
            plain = frozenset(atom for atom in known if compares_constants(atom))
            for atom in {*find_atoms(test)} - plain:
                needs[atom] = needs.get(atom, plain) & plain
        self.asked = AskedAtoms.of(self.atoms, needs)

    def symbol(self, vector: Vector) -> int:
        """Return the symbol of an event with these truth values of `atoms`."""
        if not self.is_merged and self.atoms == self._alphabet.atoms:
            return self._alphabet.symbol(vector)
        truth = dict(zip(self.atoms, vector, strict=True))
        passed = (test for test, merged in self._merged.items() if passes(merged, truth))
        return self._alphabet.symbol_of(frozenset(passed))


def merge_test(test: Test) -> Test:
    """Return a test in which one atom stands for all that compare no constants."""
    parts = test.parts if isinstance(test, Both) else (test,)
    plain = [part for part in parts if isinstance(part, Is) and compares_constants(part.atom)]
    rest = [part for part in parts if part not in plain]
    found = [_write_predicate(part) for part in rest]
    predicates = tuple(one for one in found if one is not None)
    if len(predicates) < len(rest) or sum(1 for part in rest for _ in find_atoms(part)) < 2:
        return test
    merged = Is(predicates[0] if len(predicates) == 1 else pred.And(predicates))
    return Both((*plain, merged)) if plain else merged


def _write_predicate(test: Test) -> pred.Predicate | None:
    """Return a predicate that is true where a test holds, or None without one."""
    match test:
        case Is(atom=atom):
            return None if isinstance(atom, TypeIs) else atom
        case Both(parts=parts) | Either(parts=parts) if parts:
            found = [_write_predicate(part) for part in parts]
            known = tuple(one for one in found if one is not None)
            if len(known) < len(parts):
                return None
            return pred.And(known) if isinstance(test, Both) else pred.Or(known)
    return None


class _RowAtom(NamedTuple):
    """An atom of an automaton that is evaluated on the events that the automaton reads."""

    predicate: pred.Predicate
    bit: int
    needs: int
    """The bits without which it is not asked."""


class AskedAtoms(NamedTuple):
    """The atoms of an automaton, each with its bit, by the way in which they are evaluated."""

    atoms: tuple[Atom, ...]
    plain: tuple[tuple[Atom, int], ...]
    """Those that compare constants."""
    rows: tuple[_RowAtom, ...]

    @classmethod
    def of(
        cls, atoms: Sequence[Atom], needs: Mapping[Atom, frozenset[Atom]] = _NO_NEEDS
    ) -> AskedAtoms:
        """`needs` are atoms without which the automaton does not ask another one."""
        bits = {atom: 1 << i for i, atom in enumerate(atoms)}
        plain, rows = [], []
        for atom, bit in bits.items():
            if isinstance(atom, TypeIs) or compares_constants(atom):
                plain.append((atom, bit))
            else:
                needed = sum(bits[one] for one in needs.get(atom, ()))
                rows.append(_RowAtom(atom, bit, needed))
        return cls(tuple(atoms), tuple(plain), tuple(rows))


class BundleEncoder:
    """Give each event the code of the atoms that hold for it, of the automaton that reads it.

    >>> from cernis.pattern.atom import TypeIs
    >>> import pyarrow as pa
    >>> asked = AskedAtoms.of((TypeIs("A"), TypeIs("B"))), AskedAtoms.of((TypeIs("B"),))
    >>> encoder = BundleEncoder(asked, "type")
    >>> events = EventBatch.of(pa.table({"type": ["A", "B", "B"]}))
    >>> codes = encoder.encode(events, np.array([0, 0, 1]))
    >>> [encoder.find_vector(code) for code in codes.tolist()]
    [(0, (True, False)), (0, (False, True)), (1, (True,))]
    """

    def __init__(self, automata: Sequence[AskedAtoms], type_column: str) -> None:
        self._automata = automata
        self._sizes = [len(each.atoms) for each in automata]
        self._firsts = np.cumsum([0, *(1 << size for size in self._sizes)])
        numbers: dict[Atom, int] = {}
        every = [
            (numbers.setdefault(atom, len(numbers)), index, bit)
            for index, each in enumerate(automata)
            for atom, bit in each.plain
        ]
        asked, whose, bits = np.array(every, np.int64).reshape(-1, 3).T
        self._classes = ClassEncoder([*numbers], type_column)
        self._groups = [
            _BundleGroup(atoms, asked, whose, bits.astype(np.int32), len(automata))
            for atoms, _ in self._classes.groups
        ]
        self._has_rows = any(each.rows for each in automata)

    def __len__(self) -> int:
        """Return how many codes there are."""
        return int(self._firsts[-1])

    @property
    def automata(self) -> int:
        return len(self._automata)

    def encode(self, batch: EventBatch, indices: Int64s) -> Int64s:
        """Return a code per event; `indices` has the automaton that reads each.

        An index of -1 means that no automaton reads the event; its code means nothing.
        """
        codes = self._firsts[indices]
        found = self._classes.encode(batch)
        groups = zip(self._groups, self._classes.groups, found, strict=True)
        for group, (_, classes), numbers in groups:
            codes += group.find_bits(classes)[indices, numbers]
        if self._has_rows:
            bits = codes - self._firsts[indices]
            parts = _split_parts(batch, indices, bits)
            rows = iter([self._find_row_bits(*part) for part in parts])
            codes += batch.interleave(lambda _, __: next(rows))
        return codes

    def _find_row_bits(self, table: pa.Table, indices: Int64s, bits: Int64s) -> Int64s:
        """Return the bits of the atoms that are evaluated row by row.

        A row has the index of its automaton and the bits of the other atoms.
        """
        order = np.argsort(indices, kind="stable")
        cuts = np.searchsorted(indices[order], np.arange(len(self._sizes) + 1))
        asked: dict[pred.Predicate, list[Int64s]] = {}
        own_bits: dict[pred.Predicate, dict[int, int]] = {}
        for index in np.flatnonzero(np.diff(cuts)).tolist():
            rows = order[cuts[index] : cuts[index + 1]]
            for each in self._automata[index].rows:
                own = rows[bits[rows] & each.needs == each.needs]
                if len(own):
                    asked.setdefault(each.predicate, []).append(own)
                    own_bits.setdefault(each.predicate, {})[index] = each.bit
        found = np.zeros(len(indices), np.int64)
        columns = RowColumns(table)
        for predicate, several in asked.items():
            rows = np.concatenate(several) if len(several) > 1 else several[0]
            rows, whose = find_true(predicate, columns, rows), own_bits[predicate]
            found[rows] += np.array([whose[index] for index in indices[rows].tolist()], np.int64)
        return found

    def find_vector(self, code: int) -> tuple[int, Vector]:
        """Return the index of an automaton, and the truth of its atoms."""
        index = int(np.searchsorted(self._firsts, code, side="right")) - 1
        bits = code - int(self._firsts[index])
        return index, tuple(bool(bits >> i & 1) for i in range(self._sizes[index]))

    def list_truths(self, index: int, seen: Bools) -> SeenTruths:
        """Return the truths of the atoms of an automaton, for the codes that are seen."""
        first = int(self._firsts[index])
        own = np.flatnonzero(seen[first : int(self._firsts[index + 1])]) + first
        truths = [self.find_vector(code)[1] for code in own.tolist()]
        return SeenTruths(self._automata[index].atoms, truths)


class GrownEncoder:
    """The encoder of automata to which some were added, which have an encoder of their own.

    >>> a, b = AskedAtoms.of((TypeIs("A"),)), AskedAtoms.of((TypeIs("B"),))
    >>> encoder = GrownEncoder(BundleEncoder([a], "type"), BundleEncoder([b], "type"))
    >>> codes = encoder.encode(EventBatch.of(pa.table({"type": ["A", "B"]})), np.array([0, 1]))
    >>> [encoder.find_vector(code) for code in codes.tolist()]
    [(0, (True,)), (1, (True,))]
    """

    def __init__(self, settled: BundleEncoder, recent: BundleEncoder) -> None:
        self._settled, self._recent = settled, recent

    def __len__(self) -> int:
        """Return how many codes there are."""
        return len(self._settled) + len(self._recent)

    def encode(self, batch: EventBatch, indices: Int64s) -> Int64s:
        """Return a code per event, like `BundleEncoder.encode` over all automata."""
        first = self._settled.automata
        is_recent = indices >= first
        if not is_recent.any():
            return self._settled.encode(batch, indices)
        codes = self._settled.encode(batch, np.where(is_recent, -1, indices))
        recent = self._recent.encode(batch, np.where(is_recent, indices - first, -1))
        return np.where(is_recent, recent + len(self._settled), codes)

    def find_vector(self, code: int) -> tuple[int, Vector]:
        """Return the index of an automaton, and the truth of its atoms."""
        if code < len(self._settled):
            return self._settled.find_vector(code)
        index, vector = self._recent.find_vector(code - len(self._settled))
        return index + self._settled.automata, vector

    def list_truths(self, index: int, seen: Bools) -> SeenTruths:
        """Return the truths of the atoms of an automaton, for the codes that are seen."""
        if index < self._settled.automata:
            return self._settled.list_truths(index, seen)
        own = seen[len(self._settled) :]
        return self._recent.list_truths(index - self._settled.automata, own)


def _split_parts(
    batch: EventBatch, indices: Int64s, bits: Int64s
) -> list[tuple[pa.Table, Int64s, Int64s]]:
    """Return each part's table, and per row the index of its automaton (-1: none) and its bits."""
    if batch.which is None and batch.index is None:
        return [(batch.parts[0][1], indices, bits)]
    found = []
    for part, (_, table) in enumerate(batch.parts):
        at = np.arange(len(batch)) if batch.which is None else np.flatnonzero(batch.which == part)
        own = np.full((2, table.num_rows), -1, np.int64)
        own[:, at if batch.index is None else batch.index[at]] = indices[at], bits[at]
        found.append((table, own[0], own[1]))
    return found


class RowColumns:
    """The columns of a table, of which some rows are read at a time."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[tuple[str, ...], pa.ChunkedArray | None] = {}
        self._rows: Int64s | None = None
        self._taken: dict[tuple[str, ...], pa.Array | None] = {}
        self._texts: dict[str, dict[int, str | None]] = {}

    def take(self, path: tuple[str, ...], rows: Int64s) -> pa.Array | None:
        """Return some values of an attribute; None: the table has none of it."""
        if rows is not self._rows:
            self._rows, self._taken = rows, {}
        if path not in self._taken:
            if path not in self._columns:
                self._columns[path] = attribute(self._table, path)
            column = self._columns[path]
            if column is not None:
                taken = column.take(pa.array(rows))
                column = taken.cast(value_type(taken.type)).combine_chunks()
            self._taken[path] = column
        return self._taken[path]

    def keep_possible(self, tests: frozenset[ConstantTest], rows: Int64s) -> Int64s:
        """Return the rows for which one of some tests of texts holds, and those that are unclear.

        Only ASCII is clear: other letters have several forms.
        """
        (name,) = {test.attribute for test in tests}
        assert name is not None
        path = tuple(name.split("."))
        if path not in self._columns:
            self._columns[path] = attribute(self._table, path)
        column, known = self._columns[path], self._texts.setdefault(name, {})
        if column is None or not is_text(value_type(column.type)):
            return rows
        kept = []
        for row in rows.tolist():
            if row not in known:
                text = column[row].as_py()
                known[row] = None if text is None else text.lower() if text.isascii() else _UNCLEAR
            text = known[row]
            kept.append(text is _UNCLEAR or (text is not None and _may_hold(tests, text)))
        return rows[kept]


_FEW = 32
"""Of so few rows, texts are looked at one by one before Arrow is asked."""
_UNCLEAR = "not ASCII"


def _may_hold(tests: frozenset[ConstantTest], text: str) -> bool:
    return any(
        str(test.value) in text if test.form is Form.PART else test.value == text for test in tests
    )


@lru_cache(1 << 16)
def _find_text_tests(predicate: pred.Predicate) -> frozenset[ConstantTest] | None:
    """Return tests of texts in one attribute, of which one holds where a predicate is true."""
    tests = find_tests(predicate)
    if not isinstance(tests, frozenset) or not tests:
        return None
    is_text = all(test.attribute and test.form in (Form.FOLDED, Form.PART) for test in tests)
    return tests if is_text and len({test.attribute for test in tests}) == 1 else None


def find_true(predicate: pred.Predicate, columns: RowColumns, rows: Int64s) -> Int64s:
    """Return the rows for which a predicate is true; parts read those that are left to them."""
    match predicate:
        case pred.And(parts=parts):
            for part in parts:
                rows = find_true(part, columns, rows) if len(rows) else rows
            return rows
        case pred.Or(parts=parts):
            found, rest = [], rows
            for part in parts:
                own = find_true(part, columns, rest) if len(rest) else rest
                if len(own):
                    found.append(own)
                    rest = rest[~np.isin(rest, own)]
            return np.concatenate(found) if found else rows[:0]
    if len(rows) <= _FEW and (tests := _find_text_tests(predicate)) is not None:
        rows = columns.keep_possible(tests, rows)
        if not len(rows):
            return rows
    truths = evaluate_predicate(predicate, lambda path: columns.take(path, rows), len(rows))
    return rows[np.asarray(truths.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)]


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
