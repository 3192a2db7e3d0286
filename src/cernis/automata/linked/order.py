"""Conditions that order one value of waiting runs, and the stores that can keep runs in that order.

Under `:` runs stay in a store until they leave the window. If the step compares one value by order,
and no later step needs that value, runs of a join key can wait in one search tree by it
(`engine.linked.trees`): a row then names a range of runs in one step. If the value stays live, runs
with different values have different futures, and each value is a group of its own.

The rounds of `B+` are an exception. If each of them compares the same value of the run, by order,
and nothing later needs it, then a run and its last round tell all rounds between: those B that fit
the run. So runs wait for any number of rounds in one search tree, and the rounds of a match are
found when it is listed (`engine.dag.rounds`).

So are steps that ask nothing of a value which the next step compares. In `A ; B+; ; C`, where C
compares the fare of A and B does not, every B is a round of every A before it. C names a range of
the As that have had one (`EndedRounds`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from cernis.automata.linked.automaton import LinkedAutomaton, LinkedTransition
from cernis.languages.spaseq.graphs.graph import (
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


class Rounds(NamedTuple):
    """The rounds of a step that all compare one value of a run by order, and nothing else."""

    first: int
    """The store in which runs wait for the first round."""
    again: int
    """The store in which they wait for one more."""
    variable: str


class EndedRounds(NamedTuple):
    """Rounds that ask nothing of a value, which the step after them compares by order."""

    first: int
    """The store in which runs wait for the first round."""
    again: int | None
    """The store in which they wait for one more; None: they take one."""
    left: int
    """The store in which they wait for the step that ends them."""
    variable: str


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
    in_rounds = {one.first: one.variable for one in find_rounds(linked)}
    ended = find_ended(linked)
    in_rounds |= {one.first: one.variable for one in ended}
    decided = {*in_rounds, *(one.left for one in ended)}
    return tuple(
        in_rounds.get(store)
        if one.link != ":" or store in guarded or store in decided
        else _find_sorted(linked, store)
        for store, one in enumerate(linked.stores)
    )


def _find_sorted(linked: LinkedAutomaton, store: int) -> str | None:
    found: set[str | None] = set()
    for transition in linked.transitions:
        if transition.store == store:
            variable = _find_compared(linked, transition)
            is_live = variable in linked.states[transition.target].bound
            found.add(None if is_live else variable)
    return found.pop() if len(found) == 1 else None


def _find_compared(linked: LinkedAutomaton, transition: LinkedTransition) -> str | None:
    """Return the variable of runs that a transition compares by order, beside those it joins."""
    conditions, store = linked.conditions(transition.reading), transition.store
    if store is None or len(conditions) != 1:
        return None
    order = find_order(conditions[0], *name_sources(linked, transition.reading, store))
    if order is None or {*linked.stores[store].kept} - {order.variable} != {*transition.joins}:
        return None
    return order.variable


def find_rounds(linked: LinkedAutomaton) -> tuple[Rounds, ...]:
    """Return the rounds that one value of a run decides."""
    guarded = {guard.store for guard in linked.guards}
    found = []
    for before, again in _find_steps(linked):
        if again is None:
            continue
        rounds = _join_rounds(linked, before, again)
        if rounds is not None and not {rounds.first, rounds.again} & guarded:
            found.append(rounds)
    return tuple(found)


def _find_steps(
    linked: LinkedAutomaton,
) -> Iterator[tuple[LinkedTransition, LinkedTransition | None]]:
    """Yield the transitions into each state that has one, and perhaps one for further rounds."""
    for state in range(len(linked.states)):
        into = [one for one in linked.transitions if one.target == state]
        own = {number for number, store in enumerate(linked.stores) if store.state == state}
        before = [one for one in into if one.store is not None and one.store not in own]
        again = [one for one in into if one.store in own]
        if len(before) == 1 and len(again) <= 1 and len(into) == 1 + len(again):
            yield before[0], again[0] if again else None


def _join_rounds(
    linked: LinkedAutomaton, before: LinkedTransition, again: LinkedTransition
) -> Rounds | None:
    """Return the first round and the others as one, if they ask the same of the same runs."""
    variable = _find_compared(linked, before)
    if variable is None or variable != _find_compared(linked, again):
        return None
    assert before.store is not None
    assert again.store is not None
    one, other = linked.stores[before.store], linked.stores[again.store]
    is_same = (one.link, one.kept, before.reading) == (other.link, other.kept, again.reading)
    left = [store for store in linked.stores if store.state == other.state and store != other]
    is_needed = any(variable in store.kept for store in left)
    taken = [t for t in linked.transitions if t.store in (before.store, again.store)]
    if not is_same or is_needed or len(taken) != 2:
        return None
    return Rounds(before.store, again.store, variable)


def find_ended(linked: LinkedAutomaton) -> tuple[EndedRounds, ...]:
    """Return the rounds that ask nothing of a value, and are ended by a step that compares it."""
    guarded = {guard.store for guard in linked.guards}
    found = []
    for before, again in _find_steps(linked):
        ended = _end_rounds(linked, before, again)
        if ended is not None and not {*ended[:3]} & guarded:
            found.append(ended)
    return tuple(found)


def _end_rounds(
    linked: LinkedAutomaton, before: LinkedTransition, again: LinkedTransition | None
) -> EndedRounds | None:
    """Return rounds with the step that ends them, if all ask for the same runs."""
    assert before.store is not None
    rounds = [before] if again is None else [before, again]
    waiting = [one.store for one in rounds if one.store is not None]
    left = [
        number
        for number, store in enumerate(linked.stores)
        if store.state == before.target and number not in waiting
    ]
    if len(left) != 1:
        return None
    taken = [one for one in linked.transitions if one.store in (*waiting, *left)]
    after = [one for one in taken if one.store in left]
    variable = _find_compared(linked, after[0]) if len(after) == 1 else None
    if variable is None or variable in linked.states[after[0].target].bound:
        return None
    stores = [linked.stores[number] for number in (*waiting, *left)]
    links = {store.link for store in stores[:-1]}
    kept = {*stores[0].kept}
    beside = [store for store in linked.stores if store.state == stores[0].state]
    asks_nothing = all(
        not linked.conditions(one.reading) and {*one.joins} == kept - {variable} for one in rounds
    )
    if (
        not asks_nothing
        or len({store.kept for store in stores}) > 1
        or len({one.reading for one in rounds}) > 1
        or len(taken) != len(rounds) + 1
        or len(beside) != 1
        or any(one.final for one in rounds)
        or stores[-1].link == ","
        or links not in ([{":"}] if again is None else [{";"}, {":"}])
    ):
        return None
    return EndedRounds(before.store, None if again is None else waiting[1], left[0], variable)
