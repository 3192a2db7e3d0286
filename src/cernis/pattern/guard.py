"""Guards: formulas that must not occur, and their conditions on the match that they guard.

`UNLESS ψ` and `WITHOUT ψ` have a guard ψ. The outermost FILTER of ψ may mention variables of the
formula φ that is guarded; a name that ψ binds itself is always ψ's own.
"""

from __future__ import annotations

from typing import NamedTuple

from cernis.pattern import formula as cel
from cernis.pattern.predicate import Condition, conjoin, conjuncts, mentioned_variables
from cernis.pattern.variables import marked_variables


class SplitGuard(NamedTuple):
    """A guard, split into what it is alone and how it depends on the match."""

    formula: cel.Formula
    """Without the conditions that mention variables of the match."""
    conditions: tuple[Condition, ...]
    """The conditions that mention them; they are about the events of both together."""
    names: frozenset[str]
    """The variables of the guard."""

    @property
    def foreign(self) -> frozenset[str]:
        """The variables of the match that the conditions mention."""
        found = (mentioned_variables(condition) for condition in self.conditions)
        return frozenset().union(*found) - self.names


def split_guard(formula: cel.Formula) -> SplitGuard:
    """Split a guard; the text has been checked, so every name is the guard's or the match's.

    >>> from cernis.pattern.predicate import Attribute, Compare, Reference
    >>> p, o = Reference("p", Attribute(("order",))), Reference("o", Attribute(("id",)))
    >>> guard = split_guard(cel.Filter(cel.As(cel.Event("PAY"), "p"), Compare("=", p, o)))
    >>> guard.formula, sorted(guard.foreign)
    (As(body=Event(type='PAY', stream=None), variable='p'), ['o'])
    """
    names = frozenset(marked_variables(formula))
    own: list[cel.Filter] = []
    conditions: list[Condition] = []
    node = formula
    while isinstance(node, cel.Filter):
        parts = list(conjuncts(node.condition))
        kept = [part for part in parts if mentioned_variables(part) <= names]
        conditions += [part for part in parts if not mentioned_variables(part) <= names]
        if len(kept) == len(parts):
            own.append(node)
        elif kept:
            own.append(cel.Filter(node.body, conjoin(kept), span=node.span))
        node = node.body
    for outer in reversed(own):
        node = cel.Filter(node, outer.condition, span=outer.span)
    return SplitGuard(node, tuple(conditions), names)
