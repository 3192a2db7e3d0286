"""Which attributes of an event must travel to Python, and which atoms are asked of it.

Predicates that Spark evaluates travel as bits. What is left is what the answer shows,
what events are compared or partitioned by, and what the predicates need that Spark
could not evaluate. Everything else is never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cernis.automata.unary.alphabet import Asking
from cernis.automata.unary.cea import ANYTHING, Is, Test
from cernis.pattern import formula as cel
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.predicate import (
    RANK,
    TIME,
    TIME_NS,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Reference,
    attributes_of,
)
from cernis.pattern.query import Pattern
from cernis.plan.plan import Plan
from cernis.results.columns import MatchFields
from cernis.run.verify import Verifier

_COMPUTED = frozenset({TIME.name, TIME_NS.name, RANK.name})


def asked(plan: Plan) -> tuple[tuple[Test, ...], tuple[Atom, ...]]:
    """The tests that make an event count, and all atoms that are asked of it.

    The automaton's, and where candidates are checked, what lies inside of them as well:
    an event of any type that the formula names.
    """
    if plan.tables is not None:
        automaton: Asking = plan.tables.pcea
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
    return tests, tuple(atoms)


def needed(plan: Plan, left: Sequence[Atom], *, shown: bool) -> tuple[set[str], bool]:
    """The attributes (dotted names) that must travel, and whether all columns must.

    `shown`: the answer has the events of a match in it, not only their rows.
    """
    names = {*compared(plan.pattern), *(n for group in plan.pattern.partition for n in group)}
    within = plan.pattern.within
    if within is not None and within.attribute is not None:
        names.add(within.attribute.name)
    for atom in left:
        if not isinstance(atom, TypeIs):
            names |= {attribute.name for attribute in attributes_of(atom)}
    whole = False
    if plan.head is not None:
        names |= {column.attribute for column in plan.head.columns if column.attribute is not None}
        return names - _COMPUTED, False
    fields = MatchFields.of(plan.pattern, plan.variables)
    for item in fields.aggregates:
        if isinstance(item.argument, Reference):
            names.add(item.argument.attribute.name)
    if shown and not fields.counting:
        names |= {name for held in fields.attributes.values() for name in held}
        whole = any(not fields.attributes.get(name) for name in fields.variables)
    return names - _COMPUTED, whole


def compared(pattern: Pattern) -> Iterator[str]:
    """What events are compared by."""
    for node in cel.walk(pattern.formula):
        if isinstance(node, cel.PartitionBy):
            yield from (key.attribute.name for key in node.keys)
        elif isinstance(node, cel.Filter):
            yield from _references(node.condition)


def _references(condition: Condition) -> Iterator[str]:
    match condition:
        case Compare(left=left, right=right):
            yield left.attribute.name
            yield right.attribute.name
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from _references(part)
