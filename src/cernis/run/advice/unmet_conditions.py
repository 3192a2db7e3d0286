"""Conditions on single events that every match needs and no event has satisfied.

Where there is one, nothing can match, and it is to blame. The encoder knows each combination of
truths that has occurred (`Encoder.vectors`), so this reads no event again. Conditions that compare
events are not looked at: an index does not count what it was asked for in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cernis.automata.unary.cea import Both, Either, Is, Isnt, Test, find_atoms
from cernis.automata.unary.construct import build_test, build_type_test
from cernis.encoding.encode import Encoder
from cernis.errors import Diagnostic
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom
from cernis.pattern.query import Pattern
from cernis.pattern.selection import bound_variables
from cernis.pattern.write import write_condition

CODE = "unmet-condition"

_MOST_TRUTHS = 1 << 18

Truths = dict[Atom, bool]
Holders = dict[str, list[cel.Event]]
"""For each variable, the atoms of a formula whose events it holds."""


def find_unmet_conditions(pattern: Pattern, encoder: Encoder) -> Iterator[Diagnostic]:
    """Yield a warning for each such condition; of a query with very many atoms, none."""
    if len(encoder.atoms) * len(encoder.vectors) > _MOST_TRUTHS:
        return
    known = frozenset(encoder.atoms)
    seen = [dict(zip(encoder.atoms, vector, strict=True)) for vector in encoder.vectors]
    for condition, holders in _needed_conditions(pattern.formula):
        types = [build_type_test(event) for event in holders[condition.variable]]
        whole = build_test(condition.predicate)
        if not known.issuperset(atom for test in (*types, whole) for atom in find_atoms(test)):
            continue
        candidates = [truths for truths in seen if any(_holds(test, truths) for test in types)]
        if not candidates or any(_holds(whole, truths) for truths in candidates):
            continue
        parts = _split(condition)
        alone = [one for one in parts if not _is_met(one, candidates)]
        for blamed in alone or [condition]:
            together = " at once" if not alone and len(parts) > 1 else ""
            yield Diagnostic(
                f"nothing can match: no event satisfies {write_condition(blamed)}{together}",
                blamed.span if pattern.source else None,
                code=CODE,
            )


def _split(condition: pred.Holds) -> list[pred.Holds]:
    predicate = condition.predicate
    if not isinstance(predicate, pred.And):
        return [condition]
    variable = condition.variable
    return [pred.Holds(variable, part, span=part.span) for part in predicate.parts]


def _is_met(condition: pred.Holds, candidates: Sequence[Truths]) -> bool:
    test = build_test(condition.predicate)
    return any(_holds(test, truths) for truths in candidates)


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


def _holds(test: Test, truths: Truths) -> bool:
    match test:
        case Is(atom=atom):
            return truths[atom]
        case Isnt(body=body):
            return not _holds(body, truths)
        case Both(parts=parts):
            return all(_holds(part, truths) for part in parts)
        case Either(parts=parts):
            return any(_holds(part, truths) for part in parts)
