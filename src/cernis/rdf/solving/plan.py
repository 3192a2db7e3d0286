"""Graph patterns to plans: which triples to search, in which order, and where conditions go.

Parts are solved on their own and put together bottom-up, as SPARQL defines it, so a filter sees
the variables of its own group, and an OPTIONAL that mentions variables from outside behaves as the
standard says. Within that, the planner merges basic graph patterns that are joined, and moves each
condition to the smallest part that always binds its variables, where it means the same.

Background knowledge does not change, so `GRAPH <kb> { P }` is solved once, by the planner, over the
named graph as one big event. Its solutions are hashed by the variables that they always share with
the other side of the join, and each row of an event looks them up. The rejected design solves P
once per row: that is faster only where P has far more solutions than rows will ask for. A budget
guards that case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cernis.engine.graphs import search as k
from cernis.engine.graphs.search import Codes
from cernis.errors import BudgetError, DataError
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.graphs.paths import END, START, step_pattern
from cernis.rdf.reading.background import Triples
from cernis.rdf.solving import operators as op
from cernis.rdf.solving.columns import (
    is_hard,
    plan_column,
    plan_program,
    replace_parts,
)
from cernis.rdf.solving.solutions import (
    Names,
    RowBudget,
    Solutions,
    build_index,
    describe_join,
    drop_repeats,
    merge_names,
    project,
)
from cernis.rdf.solving.terms.functions import write_boolean
from cernis.rdf.solving.terms.programs import Program, compile_expression, join_programs
from cernis.rdf.solving.terms.values import TermValues

BUDGET = 20_000_000
"""Solutions that a pattern may have over background knowledge."""
_LOOKED_PER_SOLUTION = 50
"""How many triples may be looked at for each of these."""

Conditions = tuple[g.Expression, ...]

_Node = int | str
"""The code of a constant, or the name of a variable."""
_Triple = tuple[_Node, _Node, _Node]

_ROLES = {"pso": (1, 0, 2), "pos": (1, 2, 0), "spo": (0, 1, 2), "ops": (2, 1, 0)}
"""Sort orders: for each key, its role in a triple (0: subject, 1: predicate, 2: object)."""


def plan_pattern(
    pattern: g.GraphPattern,
    names: Iterable[str],
    values: TermValues,
    background: Mapping[int, Triples],
    budget: int = BUDGET,
    source: str = "",
) -> op.PlanNode:
    """Return a plan for the solutions of a pattern, restricted to these variables.

    `background` has graphs by the code of their name, `source` is the query's text for messages.
    """
    planner = _Planner(values, background, budget, source)
    return planner.plan(pattern, (), frozenset(names), _EventGraphs())


# -------------------------------------------------------------------- graphs


class _EventGraphs:
    """The graphs of events: small, in one sort order, without statistics."""

    def cost(self, triple: _Triple, known: Collection[_Node]) -> float:
        """Guess how many triples fit once some variables are known."""
        subject, predicate, object_ = _find_known(triple, known)
        return (1 / 8 if predicate else 1) / (32 if subject else 1) / (16 if object_ else 1)

    def order(self, known: tuple[bool, bool, bool]) -> tuple[int, tuple[int, int, int]]:
        """Return the number of the sort order, and the roles of its keys."""
        return 0, _ROLES["pso"]


class _BackgroundGraphs:
    """Graphs of background knowledge, each one event, in the sort orders that searches need."""

    def __init__(self, graphs: Sequence[Triples]) -> None:
        self._spo = [np.concatenate(part) for part in zip(*graphs, strict=True)]
        self._sizes = [graph.size for graph in graphs]
        self._orders = ["pso"]
        self._counts: dict[tuple[int | None, ...], int] = {}
        self._distinct: dict[tuple[int, int], int] = {}

    def cost(self, triple: _Triple, known: Collection[_Node]) -> float:
        """Count the triples with the constants, divided by the values of each known variable."""
        count = float(self._count(tuple(n if isinstance(n, int) else None for n in triple)))
        predicate = triple[1] if isinstance(triple[1], int) else -1
        for role, node in enumerate(triple):
            if not isinstance(node, int) and node in known:
                count /= max(1, self._count_values(role, predicate))
        return count

    def _count(self, constants: tuple[int | None, ...]) -> int:
        if constants not in self._counts:
            fits = np.ones(len(self._spo[0]), np.bool_)
            for column, code in zip(self._spo, constants, strict=True):
                if code is not None:
                    fits &= column == code
            self._counts[constants] = int(np.count_nonzero(fits))
        return self._counts[constants]

    def _count_values(self, role: int, predicate: int) -> int:
        key = role, predicate
        if key not in self._distinct:
            column = self._spo[role]
            if predicate >= 0:
                column = column[self._spo[1] == predicate]
            self._distinct[key] = len(np.unique(column))
        return self._distinct[key]

    def order(self, known: tuple[bool, bool, bool]) -> tuple[int, tuple[int, int, int]]:
        """Return the number of the best sort order, which is added, and the roles of its keys."""
        subject, predicate, object_ = known
        if predicate:
            name = "pos" if object_ and not subject else "pso"
        else:
            name = "spo" if subject else "ops" if object_ else "pso"
        if name not in self._orders:
            self._orders.append(name)
        return self._orders.index(name), _ROLES[name]

    def graph(self) -> k.Graph:
        """Return all graphs in the sort orders that were asked for."""
        first = np.cumsum([0, *self._sizes])
        number = np.repeat(np.arange(len(self._sizes), dtype=np.int32), self._sizes)
        columns: list[list[Codes]] = [[], [], []]
        for name in self._orders:
            keys = [self._spo[role] for role in _ROLES[name]]
            if name != "pso":
                order = np.lexsort((*keys[::-1], number))
                keys = [key[order] for key in keys]
            for column, key in zip(columns, keys, strict=True):
                column.append(key)
        one, two, three = map(np.concatenate, columns)
        return k.Graph(first, one, two, three, int(first[-1]))


_Dataset = _EventGraphs | _BackgroundGraphs


def _find_known(triple: _Triple, known: Collection[_Node]) -> tuple[bool, bool, bool]:
    subject, predicate, object_ = (isinstance(node, int) or node in known for node in triple)
    return subject, predicate, object_


# ------------------------------------------------------------------ planning


class _Planner(NamedTuple):
    values: TermValues
    background: Mapping[int, Triples]
    budget: int
    source: str

    def plan(
        self,
        pattern: g.GraphPattern,
        conditions: Conditions,
        needed: frozenset[str],
        dataset: _Dataset,
    ) -> op.PlanNode:
        """Plan a pattern and conditions on its solutions, of which the variables are `needed`."""
        match pattern:
            case g.FilterPattern(inner, condition):
                parts = g.split_and(condition)
                hard = tuple(part for part in parts if is_hard(part))
                conditions += tuple(part for part in parts if part not in hard)
                asked = needed.union(*map(_find_all_names, hard))
                plan = self.plan(inner, conditions, asked, dataset)
                return self._filter_hard(plan, hard, dataset)
            case g.BasicPattern() | g.JoinPattern():
                return self._plan_joined(pattern, conditions, needed, dataset)
            case g.OptionalPattern():
                return self._plan_optional(pattern, conditions, needed, dataset)
            case g.UnionPattern(parts):
                plans = tuple(self.plan(part, conditions, needed, dataset) for part in parts)
                names = tuple(dict.fromkeys(name for plan in plans for name in plan.names))
                certain = frozenset.intersection(*(plan.certain for plan in plans))
                return self._fix(op.UnionNode(names, certain, plans), plans)
            case g.BackgroundPattern():
                return self._plan_background(pattern, conditions, needed)
            case g.BindPattern():
                return self._plan_bind(pattern, conditions, needed, dataset)
            case g.MinusPattern(inner, removed):
                shared = frozenset(g.find_variables(removed))
                left = self.plan(inner, conditions, needed | shared, dataset)
                right = self.plan(removed, (), frozenset(g.find_variables(inner)), dataset)
                return self._probe(left, right, (), None)
            case g.ValuesPattern(variables, rows):
                names = tuple(variable.name for variable in variables)
                cells = [
                    [-1 if term is None else self.values.constant(term.text) for term in row]
                    for row in rows
                ]
                codes = np.array(cells, np.int32).reshape(len(rows), len(names))
                certain = frozenset(g.find_certain_variables(pattern))
                return self._filter(op.FixedNode(names, certain, codes), conditions)
            case g.ClosurePattern():
                return self._plan_closure(pattern, conditions, needed, dataset)
            case g.UnfoldPattern():
                return self.plan(_take_apart(pattern), conditions, needed, dataset)

    # ------------------------------------------------- expressions as columns

    def _plan_bind(
        self,
        pattern: g.BindPattern,
        conditions: Conditions,
        needed: frozenset[str],
        dataset: _Dataset,
    ) -> op.PlanNode:
        inner, expression = pattern.pattern, pattern.expression
        below = tuple(c for c in conditions if _find_mentions(c) <= g.find_certain_variables(inner))
        above = tuple(c for c in conditions if c not in below)
        asked = needed.union(*map(_find_mentions, above)) | _find_all_names(expression)
        plan = self.plan(inner, below, asked, dataset)
        plan, expression = self._answer_exists(plan, expression, dataset)
        column = plan_column(expression, plan.names, self.values, self.source)
        names = (*plan.names, pattern.variable.name)
        plan = self._fix(op.ExtendNode(names, plan.certain, plan, column), (plan,))
        return self._filter(plan, above)

    def _filter_hard(
        self, plan: op.PlanNode, conditions: Conditions, dataset: _Dataset
    ) -> op.PlanNode:
        """Filter by conditions that need columns of their own."""
        for condition in conditions:
            plan, known = self._answer_exists(plan, condition, dataset)
            column = plan_program(known, plan.names, self.values, self.source)
            node = op.ColumnFilterNode(plan.names, plan.certain, plan, column)
            plan = self._fix(node, (plan,))
        return plan

    def _answer_exists(
        self, plan: op.PlanNode, expression: g.Expression, dataset: _Dataset
    ) -> tuple[op.PlanNode, g.Expression]:
        """Return a plan with a column for each EXISTS, and the expression that reads these."""
        found: dict[int, g.GraphVariable] = {}
        for one in g.find_exists(expression):
            # the name is unique, so that no join takes it for a variable of both sides
            variable = g.GraphVariable(f"_:exists {id(one)}")
            pattern, rest, outer = _push_hard(one.pattern, one.condition)
            shared = tuple(other.name for other in one.shared)
            asked = frozenset((*plan.names, *shared)).union(*map(_find_all_names, rest + outer))
            right = self.plan(pattern, (), asked, dataset)
            if outer:
                plan = self._refine(plan, right, rest, outer, variable.name, dataset, shared)
            else:
                plan = self._probe(plan, right, rest, variable.name, shared)
            found[id(one)] = variable
        return plan, replace_parts(expression, found) if found else expression

    def _probe(
        self,
        left: op.PlanNode,
        right: op.PlanNode,
        conditions: Conditions,
        answer: str | None,
        gathered: tuple[str, ...] = (),
    ) -> op.PlanNode:
        """Plan EXISTS, whose answer is a column of this name, or MINUS.

        With `gathered`, the answer is the set of values that these variables have.
        """
        always = left.certain & right.certain
        loose = [name for name in left.names if name in right.names]
        if answer is None and not loose:
            return left
        again = () if answer or always else tuple(left.names.index(name) for name in loose)
        rows = (*left.names, op.ROW_NUMBER)
        others = (*right.names, *(f"{op.ROW_NUMBER} {column}" for column in again))
        names = merge_names(rows, others)
        program = self._compile(conditions, names)
        join = describe_join(rows, others, always, program.steps, is_optional=False)
        index = None
        if isinstance(right, op.FixedNode):
            index = build_index(right.codes, join.right_keys)
        answers = None
        shown = left.names
        if answer is not None:
            false, true = (self.values.constant(write_boolean(one)) for one in (False, True))
            answers, shown = (false, true), (*left.names, answer)
        shared = tuple((one, len(names) - len(again) + i) for i, one in enumerate(again))
        return op.ProbeNode(
            shown, left.certain, left, right, join, program.depth, index, answers, shared, gathered
        )

    def _refine(
        self,
        left: op.PlanNode,
        right: op.PlanNode,
        conditions: Conditions,
        hard: Conditions,
        answer: str | None,
        dataset: _Dataset,
        gathered: tuple[str, ...] = (),
    ) -> op.PlanNode:
        """Plan EXISTS, whose answer is a column of this name, or OPTIONAL, with hard conditions."""
        row = f"{op.ROW_NUMBER} {id(hard)}"
        given = op.GivenNode((*left.names, row), left.certain | {row})
        inner = self._join(given, right, conditions, is_optional=False)
        inner = self._filter_hard(inner, hard, dataset)
        if answer is None:
            names = merge_names(left.names, right.names)
            return op.RefineNode(names, left.certain, left, inner, row, None, ())
        false, true = (self.values.constant(write_boolean(one)) for one in (False, True))
        names = (*left.names, answer)
        return op.RefineNode(names, left.certain, left, inner, row, (false, true), gathered)

    def _plan_closure(
        self,
        pattern: g.ClosurePattern,
        conditions: Conditions,
        needed: frozenset[str],
        dataset: _Dataset,
    ) -> op.PlanNode:
        columns = START.name, END.name
        step = self.plan(step_pattern(pattern.path), (), frozenset(columns), dataset)
        inner = op.UnionNode(columns, frozenset(columns), (step,))  # puts the columns in order
        one, other = map(self._encode_node, (pattern.subject, pattern.object))
        asked = needed.union(*map(_find_mentions, conditions))
        names = tuple(name for name in g.find_variables(pattern) if name in asked)
        node = op.ClosureNode(names, frozenset(names), inner, (one, other), pattern.path.sign)
        return self._filter(node, conditions)

    # -------------------------------------------------------------- joins

    def _plan_joined(
        self,
        pattern: g.BasicPattern | g.JoinPattern,
        conditions: Conditions,
        needed: frozenset[str],
        dataset: _Dataset,
    ) -> op.PlanNode:
        basic, parts, lifted = _flatten(pattern)
        conditions += lifted
        patterns: list[g.GraphPattern] = [basic] if basic.triples else []
        patterns += parts
        if not patterns:
            return self._filter(op.UnitNode(), conditions)
        own: list[Conditions] = [()] * len(patterns)
        rest: list[g.Expression] = []
        for condition in conditions:
            mentioned = _find_mentions(condition)
            fitting = [
                i for i, part in enumerate(patterns) if mentioned <= g.find_certain_variables(part)
            ]
            if len(patterns) == 1:
                fitting = [0]
            if fitting:
                own[fitting[0]] += (condition,)
            else:
                rest.append(condition)
        bound = [frozenset(g.find_variables(part)) for part in patterns]
        asked = needed.union(*map(_find_mentions, rest))
        plans: list[op.PlanNode] = []
        for i, part in enumerate(patterns):
            others = asked.union(*bound[:i], *bound[i + 1 :])
            if isinstance(part, g.BasicPattern):
                plans.append(self._plan_search(part, own[i], others, dataset))
            else:
                plans.append(self.plan(part, own[i], others, dataset))
        return self._join_all(plans, rest)

    def _join_all(self, plans: list[op.PlanNode], conditions: list[g.Expression]) -> op.PlanNode:
        """Plan a left-deep join: first parts that change from event to event, then fixed ones."""
        waiting = sorted(plans, key=lambda plan: isinstance(plan, op.FixedNode))
        found = waiting.pop(0)
        while waiting:
            following = max(waiting, key=partial(_attraction, found))
            waiting.remove(following)
            certain = found.certain | following.certain
            ready = [c for c in conditions if not waiting or _find_mentions(c) <= certain]
            conditions = [c for c in conditions if c not in ready]
            found = self._join(found, following, tuple(ready), is_optional=False)
        return self._filter(found, tuple(conditions))

    def _plan_optional(
        self,
        pattern: g.OptionalPattern,
        conditions: Conditions,
        needed: frozenset[str],
        dataset: _Dataset,
    ) -> op.PlanNode:
        inner, extra = pattern.pattern, pattern.extra
        below = tuple(c for c in conditions if _find_mentions(c) <= g.find_certain_variables(inner))
        above = tuple(c for c in conditions if c not in below)
        extra, between, outer = _push_hard(extra, pattern.condition)
        inside = tuple(c for c in between if _find_mentions(c) <= g.find_certain_variables(extra))
        between = tuple(c for c in between if c not in inside)
        asked = needed.union(*map(_find_mentions, above + between), *map(_find_all_names, outer))
        left = self.plan(inner, below, asked.union(g.find_variables(extra)), dataset)
        right = self.plan(extra, inside, asked.union(g.find_variables(inner)), dataset)
        if outer:
            return self._filter(self._refine(left, right, between, outer, None, dataset), above)
        return self._filter(self._join(left, right, between, is_optional=True), above)

    def _join(
        self, left: op.PlanNode, right: op.PlanNode, conditions: Conditions, is_optional: bool
    ) -> op.PlanNode:
        if isinstance(left, op.UnitNode) and not is_optional:
            return self._filter(right, conditions)
        names = merge_names(left.names, right.names)
        certain = left.certain if is_optional else left.certain | right.certain
        program = self._compile(conditions, names)
        always = left.certain & right.certain
        join = describe_join(left.names, right.names, always, program.steps, is_optional)
        index = None
        if isinstance(right, op.FixedNode):
            index = build_index(right.codes, join.right_keys)
        plan = op.JoinNode(names, certain, left, right, join, program.depth, index)
        return self._fix(plan, (left, right))

    def _filter(self, plan: op.PlanNode, conditions: Conditions) -> op.PlanNode:
        if not conditions:
            return plan
        program = self._compile(conditions, plan.names)
        return self._fix(op.FilterNode(plan.names, plan.certain, plan, program), (plan,))

    def _compile(self, conditions: Conditions, names: Names) -> Program:
        if not conditions:
            return Program(np.zeros((0, 3), np.int32), 1)
        columns = {name: column for column, name in enumerate(names)}
        together = conditions[0] if len(conditions) == 1 else g.AndExpression(conditions)
        return compile_expression(together, columns, {}, self.values, self.source)

    def _fix(self, plan: op.PlanNode, parts: Iterable[op.PlanNode]) -> op.PlanNode:
        """Run a plan now if all its parts are fixed."""
        if not all(isinstance(part, op.FixedNode) for part in parts):
            return plan
        none = np.zeros(0, np.int32)
        empty = k.Graph(np.zeros(2, np.int64), none, none, none, 0)
        table = drop_repeats(self._run(plan, empty, 1))
        return op.FixedNode(table.names, plan.certain, table.codes)

    # ----------------------------------------------- basic graph patterns

    def _plan_search(
        self,
        basic: g.BasicPattern,
        conditions: Conditions,
        needed: frozenset[str],
        dataset: _Dataset,
    ) -> op.SearchNode:
        triples = [self._encode(triple) for triple in dict.fromkeys(basic.triples)]
        columns: dict[_Node, int] = {name: i for i, name in enumerate(g.find_variables(basic))}
        count = len(columns)
        names = tuple(name for name in g.find_variables(basic) if name in needed)
        for node in (node for triple in triples for node in triple):
            columns.setdefault(node, len(columns))
        row = np.array([-1 if isinstance(node, str) else node for node in columns], np.int32)
        tested = [_find_mentions(condition) for condition in conditions]
        in_order = _order_triples(triples, tested, dataset)
        levels = [_plan_level(triple, known, columns, dataset) for triple, known in in_order]
        bound_at = {
            column: i for i, level in reversed(list(enumerate(levels))) for column in level.bound
        }
        filters: list[list[tuple[Program, int]]] = [[] for _ in levels]
        variables = {str(name): column for name, column in columns.items() if column < count}
        for condition, names_in_it in zip(conditions, tested, strict=True):
            asked = [columns[name] for name in names_in_it if name in columns]
            program = compile_expression(condition, variables, {}, self.values, self.source)
            at = max((bound_at[column] for column in asked), default=0)
            filters[at].append((program, asked[0] if len(asked) == 1 else -1))
        programs = [program for level in filters for program, _ in level]
        steps, begins, depth = join_programs(programs)
        shown = [columns[name] for name in names]
        search = k.Search(
            row,
            np.array([level.numbers for level in levels], np.int64),
            np.cumsum([0, *map(len, filters)]).astype(np.int32),
            begins,
            steps,
            np.array([single for level in filters for _, single in level], np.int32),
            np.array(shown, np.int32),
            max((bound_at[column] for column in shown), default=-1),
        )
        cache = op.AnswerCache(len(programs))
        return op.SearchNode(names, frozenset(names), search, depth, len(names) < count, cache)

    def _encode(self, triple: g.Triple) -> _Triple:
        subject, predicate, object_ = map(self._encode_node, triple.nodes())
        return subject, predicate, object_

    def _encode_node(self, node: g.Node) -> _Node:
        return node.name if isinstance(node, g.GraphVariable) else self.values.constant(node.text)

    # --------------------------------------------------------- background

    def _plan_background(
        self, pattern: g.BackgroundPattern, conditions: Conditions, needed: frozenset[str]
    ) -> op.PlanNode:
        """Solve a pattern over background graphs."""
        inner, name = pattern.pattern, pattern.name
        codes = self._find_graphs(name)
        inside = tuple(
            c for c in conditions if _find_mentions(c) <= g.find_certain_variables(inner)
        )
        outside = tuple(c for c in conditions if c not in inside)
        asked = needed.union(*map(_find_mentions, outside))
        if isinstance(name, g.GraphVariable):
            asked |= {name.name}
        if not codes:
            return op.FixedNode((), frozenset(), np.zeros((0, 0), np.int32))
        dataset = _BackgroundGraphs([self.background[code] for code in codes])
        plan = self.plan(inner, inside, asked, dataset)
        table = self._run(plan, dataset.graph(), len(codes))
        certain = plan.certain
        if isinstance(name, g.GraphVariable):
            table = _add_graph_name(table, name.name, np.array(codes, np.int32))
            certain |= {name.name}
        shown = tuple(column for column in table.names if column in asked)
        table = project(table._replace(event=np.zeros(len(table.event), np.int32)), shown)
        return self._filter(op.FixedNode(shown, certain & set(shown), table.codes), outside)

    def _find_graphs(self, name: g.Node) -> list[int]:
        """Return the codes of the graphs that a name stands for."""
        if isinstance(name, g.GraphVariable):
            return list(self.background)
        terms = self.values.terms
        code = terms.find(name.text)
        if code not in self.background:
            loaded = ", ".join(sorted(map(terms.text, self.background))) or "none"
            raise DataError(
                f"no background graph {name.text} is loaded (loaded: {loaded}): give a file for it"
            )
        return [code]

    def _run(self, plan: op.PlanNode, graph: k.Graph, graphs: int) -> Solutions:
        rows = RowBudget(self.budget, _complain_of_background)
        allowed = self.budget * _LOOKED_PER_SOLUTION
        data = op.PlanInput(graph, self.values, rows, allowed)
        return op.run_plan(plan, data, np.arange(graphs, dtype=np.int32))


def _complain_of_background(limit: int) -> BudgetError:
    return BudgetError(
        f"a pattern over background knowledge has more than {limit:,} solutions, or takes more "
        f"than {limit * _LOOKED_PER_SOLUTION:,} triples to look at: make it more selective "
        "(name predicates, join its triples by variables, put a FILTER inside GRAPH), or raise "
        "the budget"
    )


def _add_graph_name(table: Solutions, name: str, graphs: Codes) -> Solutions:
    """Add the name of each solution's graph as one more variable."""
    own = graphs[table.event]
    if name not in table.names:
        codes = np.concatenate([table.codes, own.reshape(-1, 1)], axis=1)
        return Solutions((*table.names, name), table.event, codes)
    column = table.names.index(name)
    fits = (table.codes[:, column] == own) | (table.codes[:, column] < 0)
    codes = table.codes[fits]
    codes[:, column] = own[fits]
    return Solutions(table.names, table.event[fits], codes)


def _attraction(found: op.PlanNode, plan: op.PlanNode) -> tuple[bool, int]:
    """Rank the part to join next: the largest, of equals the first."""
    return not isinstance(plan, op.FixedNode), len(plan.certain & found.certain)


class _Level(NamedTuple):
    numbers: tuple[int, ...]
    """In the order of `cernis.engine.graphs.search.ORDER`."""
    bound: tuple[int, ...]
    """The columns that are bound here."""


def _plan_level(
    triple: _Triple, known: frozenset[_Node], columns: Mapping[_Node, int], dataset: _Dataset
) -> _Level:
    """Plan the search for a triple when some variables are known."""
    order, roles = dataset.order(_find_known(triple, known))
    nodes = [triple[role] for role in roles]
    searched = 0
    while searched < 3 and (isinstance(nodes[searched], int) or nodes[searched] in known):
        searched += 1
    binds = [
        isinstance(node, str) and node not in known and node not in nodes[:i]
        for i, node in enumerate(nodes)
    ]
    bound_columns = [columns[node] for node in nodes]
    bits = sum(bound << i for i, bound in enumerate(binds))
    bound = tuple(column for column, is_bound in zip(bound_columns, binds, strict=True) if is_bound)
    return _Level((order, searched, bits, *bound_columns), bound)


def _order_triples(
    triples: Sequence[_Triple], tested: Sequence[frozenset[str]], dataset: _Dataset
) -> Iterator[tuple[_Triple, frozenset[_Node]]]:
    """Yield triples in the order of the search, each with the variables known by then.

    The cheapest comes next, among those that share a known variable, if some do; a triple after
    which a condition can be tested costs half.
    """
    waiting, known = list(triples), frozenset[_Node]()

    def cost(triple: _Triple) -> float:
        then = known.union(triple)
        tests = any(names <= then and not names <= known for names in tested)
        return dataset.cost(triple, known) / (2 if tests else 1)

    while waiting:
        best = min([t for t in waiting if known.intersection(t)] or waiting, key=cost)
        waiting.remove(best)
        yield best, known
        known |= {node for node in best if isinstance(node, str)}


def _flatten(pattern: g.GraphPattern) -> tuple[g.BasicPattern, list[g.GraphPattern], Conditions]:
    """Return all triples that are joined directly, the other parts, and conditions on triples."""
    triples: list[g.Triple] = []
    parts: list[g.GraphPattern] = []
    conditions: Conditions = ()
    waiting = [pattern]
    while waiting:
        part = waiting.pop(0)
        match part:
            case g.BasicPattern(some):
                triples.extend(some)
            case g.JoinPattern(some_parts):
                waiting[:0] = some_parts
            case g.FilterPattern(g.BasicPattern() as basic, condition) if _find_mentions(
                condition
            ) <= g.find_certain_variables(basic) and not is_hard(condition):
                triples.extend(basic.triples)
                conditions += g.split_and(condition)
            case _:
                parts.append(part)
    return g.BasicPattern(tuple(triples)), parts, conditions


def _take_apart(pattern: g.UnfoldPattern) -> g.GraphPattern:
    """Return the pattern that binds the parts of a triple term, and compares known ones."""

    def call(name: str, *arguments: g.Expression) -> g.CallExpression:
        return g.CallExpression(name, arguments)

    found: g.GraphPattern = g.FilterPattern(pattern.pattern, call("ISTRIPLE", pattern.variable))
    known = g.find_certain_variables(pattern.pattern)
    conditions: list[g.Expression] = []
    names = ("SUBJECT", "PREDICATE", "OBJECT")
    for name, node in zip(names, pattern.form.nodes(), strict=True):
        part = call(name, pattern.variable)
        if isinstance(node, g.Term) or node.name in known:
            conditions.append(call("SAMETERM", part, node))
        else:
            known.add(node.name)
            found = g.BindPattern(found, node, part)
    return g.FilterPattern(found, g.AndExpression(tuple(conditions))) if conditions else found


def _push_hard(
    pattern: g.GraphPattern, condition: g.Expression | None
) -> tuple[g.GraphPattern, Conditions, Conditions]:
    """Return a pattern with the conditions on it that need columns, and the other conditions.

    The last ones need columns, too, and variables from outside of the pattern.
    """
    conditions = g.split_and(condition)
    hard = tuple(filter(is_hard, conditions))
    names = set(g.find_variables(pattern))
    own = tuple(one for one in hard if _find_all_names(one) <= names)
    outer = tuple(one for one in hard if one not in own)
    rest = tuple(c for c in conditions if c not in hard)
    return (g.FilterPattern(pattern, g.AndExpression(own)) if own else pattern), rest, outer


def _list_expressions(node: g.GraphPattern | g.Expression) -> Iterator[Any]:
    yield node
    for child in g.list_children(node):
        yield from _list_expressions(child)


def _find_all_names(node: g.GraphPattern | g.Expression) -> frozenset[str]:
    """Return the variables of an expression, with all that EXISTS has."""
    names = {one.name for one in _list_expressions(node) if isinstance(one, g.GraphVariable)}
    asked = [one for one in _list_expressions(node) if isinstance(one, g.ExistsExpression)]
    names |= {variable.name for one in asked for variable in one.shared}
    patterns = [one for one in _list_expressions(node) if isinstance(one, g.GraphPattern)]
    return frozenset(names.union(*map(g.find_variables, patterns)))


def _find_mentions(condition: g.Expression) -> frozenset[str]:
    return frozenset(variable.name for variable in g.find_mentions(condition))
