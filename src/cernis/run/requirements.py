"""What a plan requires of an event: the tests, the atoms, and the attributes that it reads.

On Spark, predicates that it evaluates travel as bits. Attributes travel if the answer shows them,
if events are compared or partitioned by them, or if a predicate needs them that Spark cannot
evaluate. Spark reads no other column. Rules copy no other column either (`list_columns`).

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cernis.automata.unary.alphabet import TestedAutomaton
from cernis.automata.unary.cea import ANYTHING, Is, Test
from cernis.events.evaluation.attributes import read_calculated
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.query import Pattern
from cernis.pattern.selection import group_terms
from cernis.plan.absence import link_guard
from cernis.plan.plan import Plan
from cernis.results.formats.columns import MatchFields
from cernis.run.check.verify import Verifier, list_condition_atoms

_COMPUTED = frozenset({pred.TIME.name, pred.TIME_NS.name, pred.RANK.name})


def tests_and_atoms(plan: Plan) -> tuple[tuple[Test, ...], tuple[Atom, ...]]:
    """Return the tests that make an event relevant, and all atoms that it is tested for.

    Both are the automaton's. Where candidates are verified, the events between those of a
    candidate count as well: every event of a type that the formula names is relevant.
    """
    if plan.tables is not None:
        automaton: TestedAutomaton = plan.tables.pcea
        tests = automaton.tests()
    else:
        assert plan.unary is not None
        automaton = plan.unary.cea
        tests = plan.unary.cea.changing()
    atoms = dict.fromkeys(automaton.atoms())
    if plan.listed:
        checked = Verifier(plan.pattern.formula).atoms
        atoms |= dict.fromkeys(checked)
        if not plan.exact:
            tests += tuple(Is(atom) for atom in checked if isinstance(atom, TypeIs))
            if any(isinstance(node, cel.Not) for node in cel.walk(plan.pattern.formula)):
                tests += (ANYTHING,)
    for guard in plan.guards:
        more, asked = tests_and_atoms(guard)
        tests += more
        atoms |= dict.fromkeys(asked)
    for absence in plan.pattern.without:
        for condition in link_guard(plan.pattern, absence).residual:
            atoms |= dict.fromkeys(list_condition_atoms(condition))
    return tests, tuple(atoms)


def required_attributes(
    plan: Plan, left: Sequence[Atom], *, shown: bool, named: bool = False
) -> tuple[set[str], bool]:
    """Return the (dotted) attributes that travel, and whether all columns do.

    `left` are the atoms that the workers evaluate. `shown`: the answer has the events of a
    match, not only their row numbers. `named`: it has at least the attributes that SELECT names.
    """
    names = {
        *compared_attributes(plan.pattern),
        *(n for group in plan.pattern.partition for n in group),
    }
    within = plan.pattern.within
    if within is not None and within.attribute is not None:
        names.add(within.attribute.name)
    for atom in left:
        if not isinstance(atom, TypeIs):
            names |= {attribute.name for attribute in pred.attributes_of(atom)}
    whole = False
    if plan.head is not None:
        names |= {column.attribute for column in plan.head.columns if column.attribute is not None}
        return names - _COMPUTED, False
    if plan.pattern.grouping is not None:
        for term in group_terms(plan.pattern):
            names |= _list_sources(pred.term_attributes(term))
        return names - _COMPUTED, False
    fields = MatchFields.of(plan.pattern, plan.variables)
    for item in fields.terms:
        names |= _list_sources(pred.term_attributes(item.term))
    if plan.pattern.order is not None:
        ordering = pred.term_attributes(plan.pattern.order.term)
        names |= _list_sources(ordering)
    if (shown or named) and not fields.counting:
        names |= {name for held in fields.attributes.values() for name in held}
    if shown and not fields.counting:
        whole = any(not fields.attributes.get(name) for name in fields.shown)
    return names - _COMPUTED, whole


def list_columns(plan: Plan) -> frozenset[str]:
    """Return the columns that a plan reads, but for those of events that matches show alone."""
    _, atoms = tests_and_atoms(plan)
    names, _ = required_attributes(plan, atoms, shown=False, named=True)
    return find_columns(names)


def find_columns(names: Iterable[str]) -> frozenset[str]:
    """Return attributes, and the columns that they are fields of or calculated from."""
    names = {*names}
    calculated = (read_calculated(name) for name in names if name.endswith(")"))
    values = (value for value in calculated if value is not None)
    names |= {source.name for value in values for source in pred.attributes_of(value)}
    return frozenset(part for name in names for part in (name, name.split(".")[0]))


def _list_sources(attributes: Iterable[pred.Attribute]) -> set[str]:
    """Return the attributes that events have, from which others are calculated."""
    return {source.name for attribute in attributes for source in attribute.sources}


def compared_attributes(pattern: Pattern) -> Iterator[str]:
    """Yield the attributes by which events are compared."""
    for node in pattern.nodes:
        if isinstance(node, cel.PartitionBy):
            yield from _list_sources(key.attribute for key in node.keys)
        elif isinstance(node, cel.Within):
            if node.window.attribute is not None:
                yield node.window.attribute.name
        elif isinstance(node, cel.Filter):
            for leaf in pred.leaves(node.condition):
                match leaf.body if isinstance(leaf, pred.Denied) else leaf:
                    case pred.Compare(left=left, right=right):
                        for side in (left, right):
                            yield from (source.name for source in side.attribute.sources)
                    case (
                        pred.CompareTerms(left=one, right=other)
                        | pred.CompareNeighbours(left=one, right=other)
                    ):
                        for term in (one, other):
                            yield from _list_sources(pred.term_attributes(term))
                    case pred.Monotone(attribute=attribute):
                        yield attribute.name
