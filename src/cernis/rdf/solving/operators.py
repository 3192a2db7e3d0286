"""The operators of a plan for a graph pattern, and how they run on a batch of events.

`cernis.rdf.solving.plan` makes plans. Every operator has `names`, the variables of its solutions,
and `certain`, those that every solution binds.

Cost: some tens of microseconds per operator and batch, and its kernel
(`cernis.engine.graphs.search`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs import search as k
from cernis.engine.graphs.search import Codes
from cernis.rdf.solving.programs import Program
from cernis.rdf.solving.solutions import (
    Names,
    RowBudget,
    Solutions,
    arrange,
    drop_repeats,
    fill_table,
    join_by_event,
)


class AnswerCache:
    """The answers of conditions on a single variable, term by term."""

    def __init__(self, conditions: int) -> None:
        self._answers = np.full((conditions, 0), k.UNASKED, np.int8)
        self._era = 0

    def answers(self, terms: int, era: int) -> NDArray[np.int8]:
        """Return the answers so far, with room for all terms; a new era has new codes."""
        if era != self._era:
            self._answers, self._era = self._answers[:, :0], era
        conditions, room = self._answers.shape
        if terms > room:
            more = max(terms, 2 * room) - room
            new = np.full((conditions, more), k.UNASKED, np.int8)
            self._answers = np.concatenate([self._answers, new], axis=1)
        return self._answers


@dataclass(frozen=True, slots=True, eq=False)
class SearchNode:
    """A basic graph pattern and the conditions on it."""

    names: Names
    certain: frozenset[str]
    search: k.Search
    depth: int
    repeats: bool
    """Whether variables are left out, so that solutions may repeat."""
    cache: AnswerCache


@dataclass(frozen=True, slots=True, eq=False)
class UnitNode:
    """The empty pattern: one solution without variables in every event."""

    names: Names = ()
    certain: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class FixedNode:
    """Solutions that are the same in every event."""

    names: Names
    certain: frozenset[str]
    codes: Codes


@dataclass(frozen=True, slots=True, eq=False)
class JoinNode:
    """A join, or the left join of OPTIONAL."""

    names: Names
    certain: frozenset[str]
    left: PlanNode
    right: PlanNode
    join: k.Join
    depth: int
    index: tuple[Codes, Codes] | None
    """An index of the right side, where that is fixed."""


@dataclass(frozen=True, slots=True, eq=False)
class UnionNode:
    """The solutions of all parts."""

    names: Names
    certain: frozenset[str]
    parts: tuple[PlanNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FilterNode:
    """The solutions for which a condition holds."""

    names: Names
    certain: frozenset[str]
    inner: PlanNode
    program: Program


PlanNode = SearchNode | UnitNode | FixedNode | JoinNode | UnionNode | FilterNode


class PlanInput(NamedTuple):
    """The graphs that a plan runs on, and its budgets."""

    graph: k.Graph
    values: e.Values
    budget: RowBudget
    search_budget: int
    """How many triples a search may look at."""
    era: int = 0
    """How often the codes of terms have changed."""


def run_plan(plan: PlanNode, data: PlanInput, events: Codes) -> Solutions:
    """Return the solutions in these events."""
    match plan:
        case UnitNode():
            return Solutions((), events, np.zeros((len(events), 0), np.int32))
        case FixedNode(names, _, codes):
            if len(events) * len(codes) > data.budget.limit:
                raise data.budget.complain(data.budget.limit)
            everywhere = np.tile(codes, (len(events), 1))
            return Solutions(names, np.repeat(events, len(codes)), everywhere)
        case SearchNode():
            return _run_search(plan, data, events)
        case JoinNode():
            return _run_join(plan, data, events)
        case UnionNode(names, _, parts):
            tables = [arrange(run_plan(part, data, events), names) for part in parts]
            event = np.concatenate([table.event for table in tables])
            place = np.argsort(event, kind="stable")
            codes = np.concatenate([table.codes for table in tables])
            return drop_repeats(Solutions(names, event[place], codes[place]))
        case FilterNode(_, _, inner, program):
            table = run_plan(inner, data, events)
            stack = e.new_stack(program.depth)
            return table.take(e.keep(program.steps, data.values, table.codes, stack))


def _run_search(plan: SearchNode, data: PlanInput, events: Codes) -> Solutions:
    search = plan.search
    levels = len(search.levels)
    scratch = k.Scratch(
        search.row.copy(),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros(levels + 1, np.int64),
        plan.cache.answers(len(data.values.facts), data.era),
        e.new_stack(plan.depth),
    )

    def fill(event: Codes, codes: Codes, state: NDArray[np.int64]) -> int:
        state[k.ALLOWED] = data.search_budget
        return k.find(search, data.graph, data.values, events, scratch, event, codes, state)

    table = fill_table(plan.names, len(events), data.budget, fill)
    return drop_repeats(table) if plan.repeats else table


def _run_join(plan: JoinNode, data: PlanInput, events: Codes) -> Solutions:
    left = run_plan(plan.left, data, events)
    if plan.index is not None and isinstance(plan.right, FixedNode):
        right = Solutions(plan.right.names, left.event[:0], plan.right.codes)
    else:
        new = np.ones(len(left.event), np.bool_)
        new[1:] = left.event[1:] != left.event[:-1]
        right = run_plan(plan.right, data, left.event[new])
    table = join_by_event(left, right, plan.join, plan.depth, plan.index, data.values, data.budget)
    return drop_repeats(table) if len(plan.join.left_loose) else table
