"""`Pushdown`: the predicates that Spark evaluates, as the relevance and the masks of events.

`relevance_condition` is for `DataFrame.filter`: it keeps every event on which some test of the
automaton may pass. Atoms that Catalyst cannot evaluate count as possible. `make_masks` gives
the truth of all atoms as bits.

Tests are simplified first: chains are flattened, repeated parts and parts that a wider one
implies are dropped, `type = 'A' OR type = 'B'` becomes one `IN`. A file source uses an `OR`
only if it understands all of it; otherwise a wider condition that it understands is put in
front.

Turned down: the disjunctive normal form, which file sources use best, but which grows
exponentially with the tests.

Cost: linear in the atoms, tests and streams, plus a lookup by one member for each part that may
be implied. Nothing runs: this builds expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.automata.unary.cea import Both, Either, Is, Isnt, Test
from cernis.encoding.masks import BITS
from cernis.events.evaluation.evaluate import replace_surrogates
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.predicate import Attribute, InSet, Literal
from cernis.plan.plan import Plan
from cernis.run.requirements import tests_and_atoms
from cernis.spark import catalyst
from cernis.spark.catalyst import Bound, Columns, Mode, Truth, as_column
from cernis.spark.frame import Frame


@dataclass(frozen=True, eq=False)
class Pushdown:
    """The atoms of a query and who evaluates them, with Catalyst's expressions by stream."""

    atoms: tuple[Atom, ...]
    translated: tuple[Atom, ...]
    """The atoms that Catalyst evaluates, in all streams alike."""
    masks: Mapping[str, tuple[Column, ...]]
    """The truth of the translated atoms, as bits of integers."""
    relevance: Mapping[str, Column | None]
    """True where some test may pass; None: possibly everywhere."""

    @property
    def left(self) -> tuple[Atom, ...]:
        """The atoms that the workers evaluate."""
        translated = set(self.translated)
        return tuple(atom for atom in self.atoms if atom not in translated)

    def without_masks(self) -> Pushdown:
        """Return the same where Spark evaluates nothing: tasks read the events."""
        return replace(self, translated=(), masks=dict.fromkeys(self.masks, ()))


def push_down(plan: Plan, frames: Sequence[Frame], *, enabled: bool) -> Pushdown:
    """Translate what Catalyst can evaluate exactly; where not `enabled`, nothing."""
    tests, atoms = tests_and_atoms(plan)
    if not enabled:
        return Pushdown(atoms, (), {f.stream: () for f in frames}, {f.stream: None for f in frames})
    known = [set(make_masks(atoms, f.columns, f.type, f.stream).atoms) for f in frames]
    translated = tuple(atom for atom in atoms if all(atom in some for some in known))
    return Pushdown(
        atoms,
        translated,
        {f.stream: make_masks(translated, f.columns, f.type, f.stream).columns for f in frames},
        {f.stream: relevance_condition(tests, f.columns, f.type, f.stream) for f in frames},
    )


# --------------------------------------------------------------- relevance


def relevance_condition(
    tests: Sequence[Test], columns: Columns, type_column: str, stream: str
) -> Column | None:
    """Return a condition that holds where some test may pass; None: possibly everywhere.

    The condition may be NULL instead of false.
    """
    leaves = _Leaves(columns, type_column, stream)
    formula = leaves.some(tests, Mode.AT_LEAST)
    if isinstance(formula, bool):
        return None if formula else F.lit(False)
    whole = leaves.write(formula, Mode.AT_LEAST)
    if whole.pushed:
        return as_column(whole.truth)
    front = leaves.write(leaves.some(tests, Mode.PUSHED), Mode.PUSHED).truth
    if isinstance(front, bool):
        return as_column(whole.truth)
    # coalesce keeps the optimizer from merging the two again
    return front & F.coalesce(as_column(whole.truth), F.lit(False))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An atom holds, or does not."""

    atom: Atom
    holds: bool


@dataclass(frozen=True, slots=True)
class _Conjunction:
    parts: tuple[_Formula, ...]


@dataclass(frozen=True, slots=True)
class _Disjunction:
    parts: tuple[_Formula, ...]


_Formula: TypeAlias = bool | _Leaf | _Conjunction | _Disjunction


def _simplify(test: Test, wanted: bool, known: Callable[[_Leaf], _Formula]) -> _Formula:
    """Return where the test passes, or where it fails, with negation at the atoms only."""
    match test:
        case Is(atom=atom):
            return known(_Leaf(atom, wanted))
        case Isnt(body=body):
            return _simplify(body, not wanted, known)
        case Both(parts=parts):
            return (_all if wanted else _any)(_simplify(part, wanted, known) for part in parts)
        case Either(parts=parts):
            return (_any if wanted else _all)(_simplify(part, wanted, known) for part in parts)


def _all(parts: Iterable[_Formula]) -> _Formula:
    """Join by AND, simplified.

    >>> a, b = (_Leaf(TypeIs(name), True) for name in "AB")
    >>> _all([a, True, _all([a, b])]) == _Conjunction((a, b)), _all([a, _any([a, b])]) == a
    (True, True)
    """
    return _combine(parts, _Conjunction, _Disjunction, True)


def _any(parts: Iterable[_Formula]) -> _Formula:
    """Join by OR, simplified.

    >>> a, b = (_Leaf(TypeIs(name), True) for name in "AB")
    >>> _any([_all([a, b]), b]) == b, _any([a, _Leaf(a.atom, False)])
    (True, True)
    """
    return _combine(parts, _Disjunction, _Conjunction, False)


def _combine(
    parts: Iterable[_Formula],
    same: type[_Conjunction | _Disjunction],
    dual: type[_Conjunction | _Disjunction],
    neutral: bool,
) -> _Formula:
    found: dict[_Formula, None] = {}
    for part in parts:
        if isinstance(part, bool):
            if part is not neutral:
                return part
        else:
            found |= dict.fromkeys(part.parts if isinstance(part, same) else (part,))
    if any(isinstance(p, _Leaf) and _Leaf(p.atom, not p.holds) in found for p in found):
        return not neutral
    kept = _without_implied([*found], dual)
    return same(tuple(kept)) if len(kept) > 1 else kept[0] if kept else neutral


def _without_implied(
    parts: list[_Formula], dual: type[_Conjunction | _Disjunction]
) -> list[_Formula]:
    """Drop `a AND b` beside `a` in an OR, and the other way round."""
    members = {p: frozenset(p.parts) if isinstance(p, dual) else frozenset((p,)) for p in parts}
    by_member: dict[_Formula, list[frozenset[_Formula]]] = {}
    kept: set[_Formula] = set()
    for part in sorted(parts, key=lambda p: len(members[p])):
        own = members[part]
        if not any(other <= own for member in own for other in by_member.get(member, ())):
            kept.add(part)
            by_member.setdefault(next(iter(own)), []).append(own)
    return [part for part in parts if part in kept]


@dataclass(frozen=True, slots=True, eq=False)
class _Leaves:
    """The atoms of one stream, each translated once in each mode."""

    columns: Columns
    type_column: str
    stream: str
    _found: dict[tuple[Atom, Mode], Bound] = field(default_factory=dict)

    def some(self, tests: Sequence[Test], mode: Mode) -> _Formula:
        """Return the formula for: some test may pass."""

        def known(leaf: _Leaf) -> _Formula:
            truth = self._leaf(leaf, mode).truth
            return truth if isinstance(truth, bool) else leaf

        return _any(_simplify(test, True, known) for test in tests)

    def write(self, formula: _Formula, mode: Mode) -> Bound:
        match formula:
            case bool():
                return Bound(formula, True)
            case _Leaf():
                return self._leaf(formula, mode)
            case _Conjunction(parts=parts):
                return _join(catalyst.both, [self.write(part, mode) for part in parts])
            case _Disjunction(parts=parts):
                names = [Literal(name) for part in parts if (name := _type(part)) is not None]
                rest = [part for part in parts if len(names) < 2 or _type(part) is None]
                found = [self.write(part, mode) for part in rest]
                if len(names) > 1:
                    one_of = InSet(Attribute((self.type_column,)), tuple(names))
                    found.insert(0, self._bound(one_of, mode))
                return _join(catalyst.either, found)

    def _leaf(self, leaf: _Leaf, mode: Mode) -> Bound:
        if leaf.holds:
            return self._bound(leaf.atom, mode)
        surely = self._bound(leaf.atom, Mode.AT_MOST).truth
        if isinstance(surely, bool):
            return Bound(not surely, True)
        if mode is Mode.PUSHED:
            return Bound(True, True)
        return Bound(~F.coalesce(surely, F.lit(False)), False)

    def _bound(self, atom: Atom, mode: Mode) -> Bound:
        if mode is Mode.PUSHED and self._bound(atom, Mode.AT_LEAST).pushed:
            mode = Mode.AT_LEAST
        if (atom, mode) not in self._found:
            found = catalyst.translate_bound(
                atom, self.columns, self.type_column, self.stream, mode
            )
            self._found[atom, mode] = found
        return self._found[atom, mode]


def _type(formula: _Formula) -> str | None:
    """Return the type of an event, if the formula asks only for that."""
    if isinstance(formula, _Leaf) and formula.holds and isinstance(formula.atom, TypeIs):
        return formula.atom.type
    return None


def _join(join: Callable[[Iterable[Truth]], Truth], parts: list[Bound]) -> Bound:
    return Bound(join(part.truth for part in parts), all(part.pushed for part in parts))


# ------------------------------------------------------------------- masks


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """Bit `i % BITS` of column `i // BITS` says whether the i-th atom holds; never NULL.

    `untranslated` has the other atoms, and why the worker must evaluate them. Streams that shall
    have the same bits need atoms that can be translated in all of them.
    """

    columns: tuple[Column, ...]
    atoms: tuple[Atom, ...]
    untranslated: Mapping[Atom, str]


def make_masks(atoms: Sequence[Atom], columns: Columns, type_column: str, stream: str) -> Masks:
    """Return the truth of the atoms as bits of integers."""
    truths: dict[Atom, Truth] = {}
    kept: dict[Atom, str] = {}
    for atom in dict.fromkeys(atoms):
        found = catalyst.translate_exactly(atom, columns, type_column, stream)
        if isinstance(found, catalyst.Untranslated):
            kept[atom] = found.reason
        else:
            truths[atom] = found
    pairs = [*truths.items()]
    text = type_column in columns and isinstance(columns[type_column][1], T.StringType)
    return Masks(
        tuple(_mask(pairs[i : i + BITS], text) for i in range(0, len(pairs), BITS)),
        tuple(truths),
        kept,
    )


def _mask(atoms: Sequence[tuple[Atom, Truth]], text: bool) -> Column:
    constant = 0
    parts: list[Column] = []
    types: dict[str, tuple[Column, int]] = {}
    for i, (atom, truth) in enumerate(atoms):
        bit = 1 << i
        if isinstance(truth, bool):
            constant |= bit if truth else 0
        elif isinstance(atom, TypeIs) and text:
            name = replace_surrogates(atom.type)
            types[name] = truth, bit | types.get(name, (truth, 0))[1]
        else:
            parts.append(F.when(truth, _bits(bit)).otherwise(_bits(0)))
    if types:
        parts.append(_by_type([*types.values()]))
    if constant or not parts:
        parts.append(_bits(constant))
    return catalyst.join_balanced(parts, lambda a, b: a.bitwiseOR(b))


def _by_type(types: Sequence[tuple[Column, int]]) -> Column:
    """Return the bits of an event's type by one CASE: an event has one type."""
    (first, bits), *rest = types
    found = F.when(first, _bits(bits))
    for truth, bits in rest:
        found = found.when(truth, _bits(bits))
    return found.otherwise(_bits(0))


def _bits(number: int) -> Column:
    return F.lit(number).cast("bigint")
