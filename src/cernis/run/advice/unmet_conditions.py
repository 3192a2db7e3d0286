"""Conditions on single events that every match needs and no event has satisfied.

Where there is one, nothing can match, and it is to blame. This reads no event again: its caller
says which tests some event has passed. In a session, the encoder knows each combination of truths
that has occurred (`find_passed`); Spark counts the rows that pass each test (`cernis.spark.notes`).
Conditions that compare events are left out: an index does not count searches that find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cernis.automata.unary.alphabet import passes
from cernis.automata.unary.cea import Both, Either, Test, find_atoms
from cernis.automata.unary.construct import build_test, build_type_test
from cernis.encoding.encode import KnownTruths
from cernis.errors import Diagnostic
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom
from cernis.pattern.query import Pattern
from cernis.pattern.variables import bound_variables
from cernis.pattern.write import write_condition

CODE = "unmet-condition"

_MOST_TRUTHS = 1 << 18

Truths = dict[Atom, bool]
Holders = dict[str, list[cel.Event]]
"""For each variable, the atoms of a formula whose events it holds."""
Passed = Callable[[Test], bool | None]
"""Whether some event has passed a test; None: not known."""


class NeededCondition(NamedTuple):
    """A condition that an event of every match satisfies, as tests of events."""

    condition: pred.Holds
    types: Test
    """The event is one that the variable can hold."""
    whole: Test
    parts: tuple[tuple[pred.Holds, Test], ...]
    """The parts of a conjunction; alone, they may be to blame."""

    @property
    def tests(self) -> list[Test]:
        """All tests that somebody must have counted."""
        return list(dict.fromkeys([self.types, self.whole, *(test for _, test in self.parts)]))


def find_unmet_conditions(
    pattern: Pattern, passed: Passed, *, so_far: bool = False
) -> Iterator[Diagnostic]:
    """Yield a warning for each such condition; with `so_far`, more events may come."""
    for needed in list_needed_conditions(pattern):
        known = {test: passed(test) for test in needed.tests}
        if None in known.values() or not known[needed.types] or known[needed.whole]:
            continue
        alone = [one for one, test in needed.parts if not known[test]]
        for blamed in alone or [needed.condition]:
            together = " at once" if not alone and len(needed.parts) > 1 else ""
            yield Diagnostic(
                f"nothing can match{' so far' if so_far else ''}: no event satisfies "
                f"{write_condition(blamed)}{together}",
                blamed.span if pattern.source else None,
                code=CODE,
            )


def find_passed(encoder: KnownTruths) -> Passed:
    """Return which tests the events of a session have passed; of very many atoms, not known."""
    if len(encoder.atoms) * len(encoder.vectors) > _MOST_TRUTHS:
        return lambda test: None
    known = frozenset(encoder.atoms)
    seen = [dict(zip(encoder.atoms, vector, strict=True)) for vector in encoder.vectors]

    def passed(test: Test) -> bool | None:
        if not known.issuperset(find_atoms(test)):
            return None
        return any(passes(test, truths) for truths in seen)

    return passed


def list_needed_conditions(pattern: Pattern) -> Iterator[NeededCondition]:
    """Yield the conditions that an event of every match satisfies."""
    for condition, holders in _needed_conditions(pattern.formula):
        types = Either(tuple(build_type_test(event) for event in holders[condition.variable]))
        parts = [(one, build_test(one.predicate)) for one in _split(condition)]
        yield NeededCondition(
            condition,
            types,
            Both((types, build_test(condition.predicate))),
            tuple((one, Both((types, test))) for one, test in parts),
        )


def _split(condition: pred.Holds) -> list[pred.Holds]:
    predicate = condition.predicate
    if not isinstance(predicate, pred.And):
        return [condition]
    variable = condition.variable
    return [pred.Holds(variable, part, span=part.span) for part in predicate.parts]


def _needed_conditions(formula: cel.Formula) -> Iterator[tuple[pred.Holds, Holders]]:
    """Yield the conditions that an event of every match satisfies, with the atoms in scope."""
    stack = [formula]
    while stack:
        match stack.pop():
            case cel.Filter(body=body, condition=condition):
                bound, holders = bound_variables(body), _find_holders(body)
                for part in pred.conjuncts(condition):
                    if isinstance(part, pred.Holds) and part.variable in bound:
                        yield part, holders
                stack.append(body)
            case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts) | cel.All(parts=parts):
                stack.extend(reversed(parts))
            case cel.Iterate(body=body, low=low) if low:
                stack.append(body)
            case cel.As(body=body) | cel.PartitionBy(body=body) | cel.Within(body=body):
                stack.append(body)
            case cel.Unless(body=body):
                stack.append(body)


def _find_holders(formula: cel.Formula) -> Holders:
    found: Holders = {}
    stack: list[tuple[cel.Formula, tuple[str, ...]]] = [(formula, ())]
    while stack:
        node, names = stack.pop()
        match node:
            case cel.Event(type=name):
                for variable in {name, *names}:
                    found.setdefault(variable, []).append(node)
            case cel.Not():
                pass
            case cel.As(body=body, variable=variable):
                stack.append((body, (*names, variable)))
            case cel.Unless(body=body):
                stack.append((body, names))
            case _:
                stack.extend((child, names) for child in cel.children(node))
    return found
