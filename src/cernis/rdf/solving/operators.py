"""The operators of a plan for a graph pattern, and how they run on a batch of events.

`cernis.rdf.solving.plan` makes plans.

Cost: some tens of microseconds per operator and batch, and its kernel
(`cernis.engine.graphs.search`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs import search as k
from cernis.engine.graphs.closure import WayEdges, find_ways
from cernis.engine.graphs.search import Codes
from cernis.rdf.solving.columns import (
    Column,
    ProgramColumn,
    extend_table,
    keep_rows,
)
from cernis.rdf.solving.sets import write_set
from cernis.rdf.solving.solutions import (
    Names,
    RowBudget,
    Solutions,
    arrange,
    drop_repeats,
    fill_table,
    join_by_event,
)
from cernis.rdf.solving.terms.programs import Program
from cernis.rdf.solving.terms.values import TermValues

ROW_NUMBER = "@row"
"""The column of a row's number: no variable has this name."""


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
class OperatorNode:
    """An operator: the variables of its solutions, and those that every solution binds."""

    names: Names
    certain: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class PairNode(OperatorNode):
    """An operator that compares the solutions of two others."""

    left: PlanNode
    right: PlanNode
    join: k.Join
    depth: int
    index: tuple[Codes, Codes] | None
    """An index of the right side, where that is fixed."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchNode(OperatorNode):
    """A basic graph pattern and the conditions on it."""

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
class FixedNode(OperatorNode):
    """Solutions that are the same in every event."""

    codes: Codes


@dataclass(frozen=True, slots=True, eq=False)
class JoinNode(PairNode):
    """A join, or the left join of OPTIONAL."""


@dataclass(frozen=True, slots=True, eq=False)
class UnionNode(OperatorNode):
    """The solutions of all parts."""

    parts: tuple[PlanNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FilterNode(OperatorNode):
    """The solutions for which a condition holds."""

    inner: PlanNode
    program: Program


@dataclass(frozen=True, slots=True, eq=False)
class ColumnFilterNode(OperatorNode):
    """The solutions for which a condition holds that needs columns of its own."""

    inner: PlanNode
    column: ProgramColumn


@dataclass(frozen=True, slots=True, eq=False)
class ExtendNode(OperatorNode):
    """Solutions with the value of an expression as their last column."""

    inner: PlanNode
    column: Column


@dataclass(frozen=True, slots=True, eq=False)
class ProbeNode(PairNode):
    """Solutions of the left that fit some of the right: EXISTS, whose answer is one more column,
    or MINUS, which drops them."""

    answers: tuple[int, int] | None
    """The codes of false and true, for EXISTS."""
    shared: tuple[tuple[int, int], ...]
    """For MINUS where no variable is shared for certain: the columns of those that may be, in the
    left and, once more, in the join."""
    gathered: Names
    """For EXISTS, the variables of other steps: its answer is the set of their values."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenNode(OperatorNode):
    """The solutions of the left of a `RefineNode`, with their row numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class RefineNode(OperatorNode):
    """OPTIONAL and EXISTS with a condition that needs columns of both sides.

    A solution of the left fits if the inner plan, which begins with a `GivenNode`, has it.
    """

    left: PlanNode
    inner: PlanNode
    row: str
    """The column of row numbers in the inner plan."""
    answers: tuple[int, int] | None
    """The codes of false and true, for EXISTS; None: OPTIONAL."""
    gathered: Names
    """As of `ProbeNode`."""


@dataclass(frozen=True, slots=True, eq=False)
class ClosureNode:
    """The pairs of nodes with a way of any length between them, or of at most one step."""

    names: Names
    certain: frozenset[str]
    inner: PlanNode
    """One step, from the first column to the second."""
    ends: tuple[str | int, str | int]
    """At each end the name of a variable, or the code of a term."""
    sign: str


PlanNode = (
    SearchNode
    | UnitNode
    | FixedNode
    | JoinNode
    | UnionNode
    | FilterNode
    | ColumnFilterNode
    | ExtendNode
    | ProbeNode
    | GivenNode
    | RefineNode
    | ClosureNode
)


class PlanInput(NamedTuple):
    """The graphs that a plan runs on, and its budgets."""

    graph: k.Graph
    terms: TermValues
    budget: RowBudget
    search_budget: int
    """How many triples a search may look at."""
    given: Solutions | None = None
    """The solutions of `GivenNode`."""

    @property
    def values(self) -> e.Values:
        """The values of all terms; BIND makes new ones on the way."""
        return self.terms.update()


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
            order = np.argsort(event, kind="stable")
            codes = np.concatenate([table.codes for table in tables])
            return drop_repeats(Solutions(names, event[order], codes[order]))
        case FilterNode(_, _, inner, program):
            table = run_plan(inner, data, events)
            stack = e.new_stack(program.depth)
            return table.take(e.keep(program.steps, data.values, table.codes, stack))
        case ColumnFilterNode(_, _, inner, condition):
            table = run_plan(inner, data, events)
            return table.take(keep_rows(condition, table.codes, data.terms))
        case ExtendNode(names, _, inner, column):
            return extend_table(run_plan(inner, data, events), names[-1], column, data.terms)
        case ProbeNode():
            return _run_probe(plan, data, events)
        case GivenNode():
            assert data.given is not None, "an inner plan runs inside of a RefineNode"
            return data.given
        case RefineNode():
            return _run_refine(plan, data, events)
        case ClosureNode():
            return _run_closure(plan, data, events)


def _run_search(plan: SearchNode, data: PlanInput, events: Codes) -> Solutions:
    search = plan.search
    levels = len(search.levels)
    scratch = k.Scratch(
        search.row.copy(),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros(levels + 1, np.int64),
        plan.cache.answers(len(data.values.facts), data.terms.era),
        e.new_stack(plan.depth),
    )

    def fill(event: Codes, codes: Codes, state: NDArray[np.int64]) -> int:
        state[k.ALLOWED] = data.search_budget
        return k.find(search, data.graph, data.values, events, scratch, event, codes, state)

    table = fill_table(plan.names, len(events), data.budget, fill)
    return drop_repeats(table) if plan.repeats else table


def _run_right(plan: JoinNode | ProbeNode, data: PlanInput, left: Solutions) -> Solutions:
    """Return the right side of a join, in the events that the left has."""
    if plan.index is not None and isinstance(plan.right, FixedNode):
        return Solutions(plan.right.names, left.event[:0], plan.right.codes)
    new = np.ones(len(left.event), np.bool_)
    new[1:] = left.event[1:] != left.event[:-1]
    return run_plan(plan.right, data, left.event[new])


def _run_probe(plan: ProbeNode, data: PlanInput, events: Codes) -> Solutions:
    left = run_plan(plan.left, data, events)
    numbered = _number_rows(left, ROW_NUMBER)
    right = _run_right(plan, data, left)
    if plan.shared:
        again = right.codes[:, [right.names.index(left.names[one]) for one, _ in plan.shared]]
        names = (*right.names, *(f"{ROW_NUMBER} {one}" for one, _ in plan.shared))
        right = Solutions(names, right.event, np.concatenate([right.codes, again], axis=1))
    found = join_by_event(
        numbered, right, plan.join, plan.depth, plan.index, data.values, data.budget
    )
    rows = found.codes[:, len(left.names)]
    if plan.gathered:
        sets = _gather(found, rows, plan.gathered, len(left.event), data.terms)
        return _add_column(left, plan.names[-1], sets)
    if plan.shared:
        both = [(left.codes[rows, i] >= 0) & (found.codes[:, j] >= 0) for i, j in plan.shared]
        rows = rows[np.any(both, axis=0)]
    fits = np.zeros(len(left.event), np.bool_)
    fits[rows] = True
    if plan.answers is None:
        return left.take(~fits)
    return _add_column(left, plan.names[-1], np.where(fits, plan.answers[1], plan.answers[0]))


def _gather(
    found: Solutions, rows: Codes, names: Names, size: int, values: TermValues
) -> NDArray[np.int64]:
    """Return for each of so many rows the code of a set: the values of some columns, as text.

    A variable that is no column is unbound.
    """
    nothing = np.full(len(rows), e.UNBOUND, np.int32)
    columns = [
        found.codes[:, found.names.index(name)] if name in found.names else nothing
        for name in names
    ]
    table = np.unique(np.stack([rows, *columns], axis=1), axis=0)
    cells = values.terms.texts(table[:, 1:].reshape(-1)).to_pylist()
    width = len(names)
    listed = [cells[at : at + width] for at in range(0, len(cells), width)]
    first = np.searchsorted(table[:, 0], np.arange(size + 1)).tolist()
    codes = [values.terms.code(write_set(listed[a:b])) for a, b in pairwise(first)]
    return np.array(codes, np.int64)


def _number_rows(table: Solutions, name: str) -> Solutions:
    return _add_column(table, name, np.arange(len(table.event)))


def _add_column(table: Solutions, name: str, column: NDArray[np.int64]) -> Solutions:
    codes = np.concatenate([table.codes, column.astype(np.int32).reshape(-1, 1)], axis=1)
    return Solutions((*table.names, name), table.event, codes)


def _run_refine(plan: RefineNode, data: PlanInput, events: Codes) -> Solutions:
    left = run_plan(plan.left, data, events)
    inside = data._replace(given=_number_rows(left, plan.row))
    found = run_plan(plan.inner, inside, events)
    rows = found.codes[:, found.names.index(plan.row)]
    if plan.gathered:
        sets = _gather(found, rows, plan.gathered, len(left.event), data.terms)
        return _add_column(left, plan.names[-1], sets)
    fits = np.zeros(len(left.event), np.bool_)
    fits[rows] = True
    if plan.answers is not None:
        return _add_column(left, plan.names[-1], np.where(fits, plan.answers[1], plan.answers[0]))
    both = arrange(found, plan.names), arrange(left.take(~fits), plan.names)
    event = np.concatenate([table.event for table in both])
    order = np.argsort(event, kind="stable")
    codes = np.concatenate([table.codes for table in both])
    return drop_repeats(Solutions(plan.names, event[order], codes[order]))


def _run_join(plan: JoinNode, data: PlanInput, events: Codes) -> Solutions:
    left = run_plan(plan.left, data, events)
    right = _run_right(plan, data, left)
    table = join_by_event(left, right, plan.join, plan.depth, plan.index, data.values, data.budget)
    return drop_repeats(table) if len(plan.join.left_loose) else table


def _run_closure(plan: ClosureNode, data: PlanInput, events: Codes) -> Solutions:
    """Follow steps from each node, or from the term at an end; a way of no step stays there."""
    step = run_plan(plan.inner, data, events)
    pairs = _Pairs(step.event, step.codes[:, 0], step.codes[:, 1])
    if plan.sign != "?":
        pairs = _follow_steps(pairs, plan.ends, data.budget)
    if plan.sign != "+":
        pairs = _join_pairs(pairs, _list_standing(plan.ends, data.graph, events))
    one, other = plan.ends
    fits = np.ones(len(pairs.event), np.bool_)
    for end, column in ((one, pairs.source), (other, pairs.target)):
        if isinstance(end, int):
            fits &= column == end
    if one == other:
        fits &= pairs.source == pairs.target
    columns = {one: pairs.source[fits], other: pairs.target[fits]}
    event = pairs.event[fits]
    codes = np.empty((len(event), len(plan.names)), np.int32)
    for i, name in enumerate(plan.names):
        codes[:, i] = columns[name]
    return drop_repeats(_sort_table(plan.names, event, codes))


class _Pairs(NamedTuple):
    event: Codes
    source: Codes
    target: Codes


def _join_pairs(one: _Pairs, other: _Pairs) -> _Pairs:
    return _Pairs(*(np.concatenate(both) for both in zip(one, other, strict=True)))


def _follow_steps(steps: _Pairs, ends: tuple[str | int, str | int], budget: RowBudget) -> _Pairs:
    """Return the pairs with a way of one step or more; from an end that is a term, if one is."""
    if isinstance(ends[1], int) and not isinstance(ends[0], int):
        back = _follow_steps(_Pairs(steps.event, steps.target, steps.source), ends[::-1], budget)
        return _Pairs(back.event, back.target, back.source)
    if not len(steps.event):
        return steps
    order = np.lexsort((steps.source, steps.event))
    event, source, target = (column[order] for column in steps)
    nodes, numbers = np.unique(np.concatenate([source, target]), return_inverse=True)
    source, target = np.split(numbers.astype(np.int32), 2)
    first = np.searchsorted(event, np.arange(int(event[-1]) + 2)).astype(np.int64)
    begins = np.ones(len(event), np.bool_)
    begins[1:] = (event[1:] != event[:-1]) | (source[1:] != source[:-1])
    if isinstance(ends[0], int):
        begins &= nodes[source] == ends[0]
    events, starts = event[begins], source[begins]
    ways = find_ways(WayEdges(first, source, target), events, starts, len(nodes), budget.limit)
    if ways is None:
        raise budget.complain(budget.limit)
    origin, reached = ways
    return _Pairs(events[origin], nodes[starts[origin]], nodes[reached])


def _list_standing(ends: tuple[str | int, str | int], graph: k.Graph, events: Codes) -> _Pairs:
    """Return the ways without a step: from each node of a graph, or from the term at an end."""
    terms = [end for end in ends if isinstance(end, int)]
    if terms:
        codes = np.full(len(events), terms[0], np.int32)
        return _Pairs(events, codes, codes)
    sizes = graph.first[events + 1] - graph.first[events]
    indices = np.arange(int(sizes.sum())) + np.repeat(
        graph.first[events] - np.cumsum(sizes) + sizes, sizes
    )
    event = np.tile(np.repeat(events, sizes), 2)
    codes = np.concatenate([graph.two[indices], graph.three[indices]])
    nodes = drop_repeats(_sort_table(("node",), event, codes.reshape(-1, 1)))
    return _Pairs(nodes.event, nodes.codes[:, 0], nodes.codes[:, 0])


def _sort_table(names: Names, event: Codes, codes: Codes) -> Solutions:
    order = np.argsort(event, kind="stable")
    return Solutions(names, event[order], codes[order])
