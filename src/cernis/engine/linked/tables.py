"""A linked automaton as arrays: the transitions of a reading, the stores of a state.

Variables are columns of rows and of waiting runs alike. A store looks at some of them, an
*index* of the store at fewer: those that its runs share with a reading. Readings that share the
same columns with a store share the index.

Cost contract: built once per query, linear in the automaton.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.automata.linked.order import (
    find_ended,
    find_order,
    find_rounds,
    find_sorted,
    name_sources,
)
from cernis.engine.dag.records import OPERATORS
from cernis.errors import BudgetError
from cernis.languages.spaseq.graphs.graph import Expression

STRICT, NEXT, ANY = range(3)
LINKS = {",": STRICT, ";": NEXT, ":": ANY}
MOST_INDEXES, MOST_COLUMNS = 64, 256
"""The most indexes of a store, and the most columns. Six variables that may be missing are joined
in 64 ways; `waiting` has an entry and its index as one int32."""

Ints = NDArray[np.int32]
Compile = Callable[[Expression, dict[str, int], dict[str, int]], Ints]
"""Compile a condition: from the columns of a row and of a run to the steps of a program."""


class LinkedTables(NamedTuple):
    """The arrays that the kernels read. `x_first[i]:x_first[i + 1]` are the indices of i in x.

    The last reading has no transitions: a row of it only advances the time of its partition.
    """

    reading_first: Ints
    reading_transitions: Ints
    guard_first: Ints
    reading_guards: Ints
    transition_store: Ints
    """-1: a match begins."""
    transition_index: Ints
    transition_target: Ints
    transition_label: Ints
    transition_final: NDArray[np.uint8]
    transition_fresh: NDArray[np.uint8]
    """Per column: whether it is bound afresh."""
    transition_exit: Ints
    """The index of the end among the exits of the target's step; -1: it does not end there."""
    store_exit: Ints
    """The index of the step it waits for among the exits of the store's step."""
    guard_store: Ints
    guard_index: Ints
    order_program: Ints
    """Per transition, and then per guard: the program of the limit that an ordered index is
    asked with; -1: none."""
    asked_first: Ints
    """Per transition, and then per guard: the programs that have to hold."""
    program_first: Ints
    programs: Ints
    store_link: Ints
    store_first: Ints
    store_columns: Ints
    state_first: Ints
    """Per state: its stores, which follow each other."""
    index_of: Ints
    """Per store and slot: the number of an index; -1: the slot is empty."""
    index_order: Ints
    """1: an index in ascending order of a column, -1: descending, 0: in none."""
    index_ordered: Ints
    index_first: Ints
    index_columns: Ints
    store_sorted: Ints
    """Per store, the column by whose order runs wait in search trees; -1: in none."""
    order_operator: Ints
    """Per transition, and then per guard: how the ordered value of a run is to be to the limit."""
    store_again: Ints
    """Per store, the one in which its runs would wait for further rounds, which they do here; -1:
    no value decides their rounds."""
    store_is_again: NDArray[np.uint8]
    """Per store, whether it is one of these, or has no rounds but the one that a step ends."""
    store_ending: Ints
    """Per store in whose search trees runs wait for rounds that a step ends, the transition that
    does; -1: none."""
    store_home: Ints
    """Per store from which such a transition comes, the one with the search trees; -1: none."""


def tables_of(linked: LinkedAutomaton, compile_: Compile) -> LinkedTables:
    """The arrays of an automaton."""
    column = {name: i for i, name in enumerate(linked.columns)}
    order = sorted(range(len(linked.stores)), key=lambda s: linked.stores[s].state)
    number = {store: i for i, store in enumerate(order)}
    stores = [linked.stores[store] for store in order]
    indexes: dict[tuple[int, tuple[str, ...], _Order | None], int] = {}
    slots: list[list[int]] = [[] for _ in stores]

    def index(store: int, joins: tuple[str, ...], order: _Order | None) -> int:
        key = (number[store], joins, order)
        if key not in indexes:
            indexes[key] = len(indexes)
            slots[key[0]].append(indexes[key])
        return indexes[key]

    by_order = find_sorted(linked)
    asked: list[list[Ints]] = []
    limits: list[Ints | None] = []
    orders: list[_Order | None] = []
    operators: list[int] = []

    def compare(reading: int, store: int | None) -> None:
        """The programs of a transition or guard, and the order that would serve it."""
        from_row, from_run = (
            {name: column[name] for name in names} for names in name_sources(linked, reading, store)
        )
        conditions = linked.conditions(reading)
        asked.append([compile_(one, from_row, from_run) for one in conditions])
        found = [find_order(one, from_row, from_run) for one in conditions]
        first = next((one for one in found if one is not None), None)
        is_strict = store is not None and linked.stores[store].link == ","
        if is_strict and by_order[store or 0] is None:
            first = None
        # groups that wait for the next timestamp are met then or never: order would hide them
        orders.append(None if first is None or is_strict else _Order(first.variable, first.sign))
        limits.append(None if first is None else compile_(first.limit, from_row, {}))
        operators.append(0 if first is None else OPERATORS[first.op])

    exits = number_exits(linked)
    transitions = linked.transitions
    for transition in transitions:
        compare(transition.reading, transition.store)
    for guard in linked.guards:
        compare(guard.reading, guard.store)
    transition_index = [
        -1 if t.store is None else index(t.store, t.joins, order)
        for t, order in zip(transitions, orders, strict=False)
    ]
    guard_index = [
        index(one.store, one.joins, order)
        for one, order in zip(linked.guards, orders[len(transitions) :], strict=True)
    ]
    fresh = np.zeros((len(transitions), len(column)), np.uint8)
    for i, transition in enumerate(transitions):
        for name in transition.fresh:
            if name in column:
                fresh[i, column[name]] = 1
    reading_first, reading_transitions = _grouped(
        len(linked.readings) + 1, [t.reading for t in transitions]
    )
    guard_first, reading_guards = _grouped(
        len(linked.readings) + 1, [one.reading for one in linked.guards]
    )
    state_first, _ = _grouped(len(linked.states), [store.state for store in stores])
    widest = max(map(len, slots), default=0)
    if widest > MOST_INDEXES or len(column) > MOST_COLUMNS:
        raise BudgetError(
            f"the query joins {len(column)} variables in {widest} ways; at most {MOST_COLUMNS} "
            f"and {MOST_INDEXES} are possible"
        )
    index_of = np.full((len(stores), max(widest, 1)), -1, np.int32)
    for i, own in enumerate(slots):
        index_of[i, : len(own)] = own
    index_columns = [[column[v] for v in joins] for _, joins, _ in indexes]
    again = np.full(len(stores), -1, np.int32)
    for rounds in find_rounds(linked):
        again[number[rounds.first]] = number[rounds.again]
    ending, home = np.full((2, len(stores)), -1, np.int32)
    only = np.zeros(len(stores), np.bool_)
    for ended in find_ended(linked):
        (transition_number,) = (i for i, t in enumerate(transitions) if t.store == ended.left)
        ending[number[ended.first]] = transition_number
        home[number[ended.left]] = number[ended.first]
        if ended.again is None:
            only[number[ended.left]] = True
        else:
            again[number[ended.first]] = number[ended.again]
    flat = [program for some in asked for program in some]
    order_program = np.full(len(limits), -1, np.int32)
    for i, limit in enumerate(limits):
        if limit is not None:
            order_program[i] = len(flat)
            flat.append(limit)
    return LinkedTables(
        reading_first,
        reading_transitions,
        guard_first,
        reading_guards,
        _ints(-1 if t.store is None else number[t.store] for t in transitions),
        _ints(transition_index),
        _ints(t.target for t in transitions),
        _ints(linked.readings[t.reading].alternative for t in transitions),
        np.array([t.final for t in transitions], np.uint8),
        fresh,
        _ints(exits.get((linked.states[t.target].step, -1), -1) for t in transitions),
        _ints(exits[linked.states[store.state].step, store.step] for store in stores),
        _ints(number[one.store] for one in linked.guards),
        _ints(guard_index),
        order_program,
        _firsts(map(len, asked)),
        _firsts(map(len, flat)),
        np.concatenate([np.empty((0, 3), np.int32), *flat]).astype(np.int32),
        _ints(LINKS[store.link] for store in stores),
        _firsts(len(store.kept) for store in stores),
        _ints(column[v] for store in stores for v in store.kept),
        state_first,
        index_of,
        _ints(0 if order is None else order.sign for _, _, order in indexes),
        _ints(0 if order is None else column[order.variable] for _, _, order in indexes),
        _firsts(map(len, index_columns)),
        _ints(c for columns in index_columns for c in columns),
        _ints(-1 if (by := by_order[store]) is None else column[by] for store in order),
        _ints(operators),
        again,
        (np.isin(np.arange(len(stores)), again) | only).astype(np.uint8),
        ending,
        home,
    )


def number_exits(linked: LinkedAutomaton) -> dict[tuple[int, int], int]:
    """Return the index of each exit among those of its step.

    The keys are its step and the step that follows.
    """
    indices: dict[tuple[int, int], int] = {}
    of_step: Counter[int] = Counter()
    for one in linked.exits:
        indices[one.step, one.following] = of_step[one.step]
        of_step[one.step] += 1
    return indices


class _Order(NamedTuple):
    """An index by the value of a variable, ascending (1) or descending (-1)."""

    variable: str
    sign: int


def _ints(numbers: Iterable[int]) -> Ints:
    return np.array(list(numbers), np.int32)


def _firsts(lengths: Iterable[int]) -> Ints:
    return np.cumsum([0, *lengths]).astype(np.int32)


def _grouped(groups: int, of: Sequence[int]) -> tuple[Ints, Ints]:
    """Members by group: where each group begins, and the members."""
    numbers = np.array(of, np.int64)
    return (
        np.searchsorted(np.sort(numbers), np.arange(groups + 1)).astype(np.int32),
        np.argsort(numbers, kind="stable").astype(np.int32),
    )
