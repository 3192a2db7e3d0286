"""Conditions between events that are not neighbours: what can be checked while listing.

A condition of the outermost FILTERs speaks of all events of a match, so it can be decided
as soon as two events that it compares are both chosen: a partial match that fails is
given up there, in the kernel, and none of its completions is ever looked at. Conditions
inside the formula hold of a part of the match (a round of an iteration, a side of an OR)
and are left to be verified on whole candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cernis.automata.correlated.between import How, Verdict
from cernis.automata.correlated.pcea import Apart
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.write import write_condition


def conditions_apart(
    formula: cel.Formula, verdicts: Sequence[Verdict], unordered: frozenset[str] = frozenset()
) -> tuple[tuple[Apart, ...], bool]:
    """The conditions to check while listing, and whether they are all that is left."""
    left = {verdict.text for verdict in verdicts if verdict.how is How.CANDIDATE}
    found: dict[Apart, None] = {}
    decided = set()
    for leaf in _outermost(formula):
        text = write_condition(leaf)
        if text in left and _checkable(leaf, unordered):
            decided.add(text)
            found[_apart(leaf)] = None
    return tuple(found), left <= decided


def _outermost(formula: cel.Formula) -> Iterator[pred.Compare]:
    """The comparisons that hold of the whole match."""
    while isinstance(formula, cel.Filter | cel.PartitionBy | cel.As):
        if isinstance(formula, cel.Filter):
            for condition in pred.conjuncts(formula.condition):
                if isinstance(condition, pred.Compare):
                    yield condition
        formula = formula.body


def _checkable(leaf: pred.Compare, unordered: frozenset[str]) -> bool:
    names = {leaf.left.attribute.name, leaf.right.attribute.name}
    ordered = leaf.op not in ("=", "!=")
    return not leaf.adjacent and leaf.shift is None and not (ordered and names & unordered)


def _apart(leaf: pred.Compare) -> Apart:
    left, right = leaf.left, leaf.right
    return Apart(left.variable, left.attribute.name, leaf.op, right.variable, right.attribute.name)
