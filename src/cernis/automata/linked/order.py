"""Conditions that order one value of waiting runs, and the stores that can keep runs in that order.

Under `:` runs stay in a store until they leave the window. If the step compares one value by order,
and no later step needs that value, runs of a join key can wait in one search tree by it
(`engine.linked.trees`): a row then names a range of runs in one step. If the value stays live, runs
with different values have different futures, and each value is a group of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.pattern.graph import (
    CallExpression,
    ComparisonExpression,
    Expression,
    GraphVariable,
    Term,
    find_mentions,
    list_children,
)

_OF_NUMBERS = ("ABS", "CEIL", "FLOOR", "ROUND")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class OrderCondition(NamedTuple):
    """A condition as `run's variable` `op` `limit`, which a row computes."""

    variable: str
    op: str
    limit: Expression

    @property
    def sign(self) -> int:
        """1: runs that fit come first in ascending order of the variable; -1: in descending."""
        return 1 if self.op in ("<", "<=") else -1


def find_order(
    condition: Expression, from_row: Collection[str], from_run: Collection[str]
) -> OrderCondition | None:
    """Return a condition as an order of one value of runs, if it is one.

    >>> price, fare = GraphVariable("price"), GraphVariable("fare")
    >>> find_order(ComparisonExpression("<", price, fare), {"price"}, {"fare"})[:2]
    ('fare', '>')
    """
    if not isinstance(condition, ComparisonExpression) or condition.op not in _MIRRORED:
        return None
    for limit, value, op in (
        (condition.left, condition.right, _MIRRORED[condition.op]),
        (condition.right, condition.left, condition.op),
    ):
        names = {variable.name for variable in find_mentions(limit)}
        waits = isinstance(value, GraphVariable) and value.name in from_run
        if waits and names and names <= set(from_row) and _is_direct(limit):
            assert isinstance(value, GraphVariable)
            return OrderCondition(value.name, op, limit)
    return None


def _is_direct(limit: Expression) -> bool:
    """Whether a program computes a limit: its functions are of numbers, or of one term."""
    if isinstance(limit, CallExpression) and limit.name not in _OF_NUMBERS:
        variables = [one for one in limit.arguments if isinstance(one, GraphVariable)]
        constants = [one for one in limit.arguments if isinstance(one, Term)]
        first, *rest = limit.arguments
        is_of_one = isinstance(first, GraphVariable) and len(variables) == 1
        return is_of_one and len(constants) == len(rest)
    return all(_is_direct(part) for part in list_children(limit))  # type: ignore[arg-type]


def name_sources(
    linked: LinkedAutomaton, reading: int, store: int | None
) -> tuple[set[str], set[str]]:
    """Return the variables that conditions take from the row, and those they take from runs."""
    bound = linked.readings[reading].bound
    own = linked.alternatives[linked.readings[reading].alternative].names
    kept = set(linked.stores[store].kept) if store is not None else set()
    from_row = {v for v in own if v in linked.columns and (v in bound or v not in kept)}
    return from_row, kept - from_row


def find_sorted(linked: LinkedAutomaton) -> tuple[str | None, ...]:
    """Return for each store the variable by whose order its runs wait in search trees, or None."""
    guarded = {guard.store for guard in linked.guards}
    return tuple(
        None if one.link != ":" or store in guarded else _find_sorted(linked, store)
        for store, one in enumerate(linked.stores)
    )


def _find_sorted(linked: LinkedAutomaton, store: int) -> str | None:
    kept = set(linked.stores[store].kept)
    found: set[str | None] = set()
    for transition in linked.transitions:
        if transition.store != store:
            continue
        conditions = linked.conditions(transition.reading)
        order = None
        if len(conditions) == 1:
            order = find_order(conditions[0], *name_sources(linked, transition.reading, store))
        alone = (
            order is not None
            and kept - {order.variable} == set(transition.joins)
            and order.variable not in linked.states[transition.target].bound
        )
        found.add(order.variable if order is not None and alone else None)
    return found.pop() if len(found) == 1 else None
