"""A conjunctive query as joined atoms, straight from the query.

The planner finds the join in the pattern that a query lowers to (`plan.joins`). This module reads
it off the query, for tests of the construction by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from cernis.automata.correlated.hierarchical import JoinAtom
from cernis.automata.unary.cea import Is, Test, conjoin
from cernis.pattern.atom import TypeIs
from cernis.pattern.conjunctive import (
    ConjunctiveComparison,
    ConjunctiveQuery,
    find_single_event_tests,
)
from cernis.pattern.predicate import TIME


@dataclass(frozen=True, slots=True)
class AtomJoin:
    """A conjunctive query as joined atoms, and the comparisons that these leave out."""

    atoms: tuple[JoinAtom, ...]
    residual: tuple[ConjunctiveComparison, ...] = ()

    @property
    def variables(self) -> tuple[tuple[str, ...], ...]:
        """The variables of each atom, as `cernis.automata.correlated.qtree` asks for them."""
        return tuple(tuple(atom.columns) for atom in self.atoms)


def make_join(query: ConjunctiveQuery) -> AtomJoin:
    """Return the join of a conjunctive query; each atom's label is its index.

    A timestamp that several atoms have is a variable like any other, of attribute @time.
    """
    tests, residual = find_single_event_tests(query)
    atoms = []
    for index, (atom, columns, own) in enumerate(
        zip(query.atoms, query.columns, tests, strict=True)
    ):
        test: Test = Is(TypeIs(atom.relation, atom.stream))
        for more in own:
            test = conjoin(test, Is(more))
        named = {name: attribute.name for name, attribute in columns.items()}
        if atom.time is not None and len(query.moments[atom.time]) > 1:
            named[atom.time] = TIME.name
        sort = frozenset({(atom.stream, atom.relation)})
        atoms.append(JoinAtom(test, frozenset({str(index)}), sort, named))
    return AtomJoin(tuple(atoms), residual)
