"""Find a sum or a count of a match that must be large, or small, enough.

`SUM(x[v]) > 400` is a sum of weights, one for each event, as ORDER BY has them (`weights`). Where a
formula compares no events with each other, its candidates are listed in the order of that sum on
the compact set (`engine.unary.best`), and the list ends at the threshold. So listing is paid by
what passes it. The condition stays one on candidates: weights are floats, with room to spare.
Beside other conditions on candidates, these are listed as they come, and pruned by all `bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cernis.automata.correlated.pcea import ANY_LINK, PCEA
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.write import write_condition
from cernis.plan.weights import EventWeight, split_weights


@dataclass(frozen=True, slots=True)
class WeightThreshold:
    """The weights of the events of a match add up to at least so much."""

    weights: tuple[EventWeight, ...]
    least: float
    text: str
    """The condition."""


def find_threshold(formula: cel.Formula) -> WeightThreshold | None:
    """Return the first condition of the whole match that is a threshold.

    >>> from cernis.languages.ceql import parse
    >>> find_threshold(parse("SELECT * WHERE A+ AS x FILTER SUM(x[v]) < 9").formula)
    WeightThreshold(weights=(EventWeight(variable='x', attribute='v', factor=-1),), least=-9.0, \
text='SUM(x[v]) < 9')
    """
    if any(isinstance(node, cel.All) for node in cel.walk(formula)):
        return None  # an event may serve two parts, and counts once
    _, conditions = cel.take_off(formula, cel.PartitionBy, cel.As, cel.Within)
    return next(filter(None, map(_read_threshold, conditions)), None)


def can_list_by_weight(pcea: PCEA) -> bool:
    """Whether an automaton compares nothing, so that one that reads symbols has its candidates."""
    links = [source.link for t in pcea.transitions for source in t.sources]
    plain = all(replace(link, contiguous=False) == ANY_LINK for link in links)
    return plain and pcea.is_chain and not pcea.guard_states


def _read_threshold(condition: pred.Condition) -> WeightThreshold | None:
    if not isinstance(condition, pred.CompareTerms) or condition.op == "!=":
        return None
    left, right = condition.left, condition.right
    op: pred.Operator = condition.op
    if isinstance(left, pred.Literal):
        op, left, right = pred.MIRRORED[op], right, left
    if not isinstance(right, pred.Literal) or isinstance(right.value, bool | str):
        return None
    parts = [*pred.walk_term(left)]
    is_distinct = any(isinstance(part, pred.Aggregate) and part.distinct for part in parts)
    if is_distinct or any(isinstance(part, pred.Literal) for part in parts):
        return None
    weights = split_weights(left, 1)
    if not weights or not any(isinstance(part, pred.Aggregate) for part in parts):
        return None
    least, text = float(right.value), write_condition(condition)
    if op in ("<", "<="):
        opposite = tuple(replace(weight, factor=-weight.factor) for weight in weights)
        return WeightThreshold(opposite, -least, text)
    return WeightThreshold(tuple(weights), least, text)
