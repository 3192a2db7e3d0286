"""Find the conditions between distant events that can be checked while matches are listed.

A condition of the outermost FILTERs speaks of all events of a match, so it is decided as
soon as two events that it compares are both chosen. The kernel drops a partial match that
fails, and never lists its completions. Conditions inside the formula hold of a part of the
match (a round of an iteration, a side of an OR), and are verified on whole candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

from cernis.automata.correlated.between import How, Verdict
from cernis.automata.correlated.pcea import EVERY_INDEX, Apart, Unindexed
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.write import write_condition


def find_conditions_apart(
    formula: cel.Formula, verdicts: Sequence[Verdict], unindexed: Unindexed = EVERY_INDEX
) -> tuple[tuple[Apart, ...], bool]:
    """Return the conditions to check while listing, and whether no other is undecided."""
    left = {verdict.text for verdict in verdicts if verdict.how is How.CANDIDATE}
    found: dict[Apart, None] = {}
    decided = set()
    for leaf in cel.take_off(formula, cel.PartitionBy, cel.As)[1]:
        if not isinstance(leaf, pred.Compare):
            continue
        text = write_condition(leaf)
        if text in left and _is_checkable(leaf, unindexed):
            decided.add(text)
            found[_make_apart(leaf)] = None
    return tuple(found), left <= decided


def _is_checkable(leaf: pred.Compare, unindexed: Unindexed) -> bool:
    one, other = leaf.left.attribute.name, leaf.right.attribute.name
    obstacle = unindexed.explain(leaf.op, one, other)
    return not leaf.adjacent and leaf.shift is None and not obstacle


def _make_apart(leaf: pred.Compare) -> Apart:
    left, right = leaf.left, leaf.right
    return Apart(left.variable, left.attribute.name, leaf.op, right.variable, right.attribute.name)
