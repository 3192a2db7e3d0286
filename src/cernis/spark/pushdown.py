"""`Pushdown`: the predicates that Spark evaluates before rows travel to Python.

Cost contract: linear in the atoms and in the streams. Nothing runs: this builds expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column

from cernis.pattern.atom import Atom
from cernis.plan.plan import Plan
from cernis.spark.frame import Frame
from cernis.spark.relevance import make_masks, relevance_condition
from cernis.spark.requirements import tests_and_atoms


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
