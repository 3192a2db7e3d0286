"""The solutions of a graph pattern in each event of a batch.

A `Matcher` plans a pattern once; `solutions` runs the plan on a batch, in kernels
(`cernis.engine.graphs.search`), with no Python per event. Meaning is SPARQL's: parts are solved on
their own and put together bottom-up, so a filter sees the variables of its own group, and an
OPTIONAL that mentions variables from outside behaves as the standard says. Within that, the plan
merges basic graph patterns that are joined, and moves each condition to the smallest part that
always binds its variables, where it says the same.

Background knowledge does not change, so `GRAPH <kb> { P }` is solved once, when the matcher is
built, over the named graph as one big event; its solutions are hashed by the variables that they
always share with what they are joined with, and each row of an event looks them up. The other
way round, P once per row, would be better only where P has far more solutions than will ever be
asked for; a budget guards that.

Cost: see `cernis.engine.graphs.search`. Per batch some tens of microseconds for each operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs import search as k
from cernis.engine.graphs.search import Codes
from cernis.errors import BudgetError, DataError
from cernis.pattern import graph as g
from cernis.rdf.reading.background import Triples
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.solving.programs import Program, compile_expression, joined_programs
from cernis.rdf.solving.values import TermValues

__all__ = ["BUDGET", "Matcher", "Solutions"]

BUDGET = 20_000_000
"""Solutions that a pattern may have over background knowledge."""
_LOOKED_PER_SOLUTION = 50
"""And how many triples may be looked at for each of these."""
_MOST_ROWS = 1 << 28
_ANY = np.iinfo(np.int64).max

Names = tuple[str, ...]
Conditions = tuple[g.Expression, ...]


class Solutions(NamedTuple):
    """What was found in the events of a batch: rows in order of event, distinct within each."""

    names: Names
    event: Codes
    """The index of a row's event in the batch."""
    codes: Codes
    """A column for each name; -1 is unbound."""


class Matcher:
    """A graph pattern, ready to be solved in any number of batches.

    `keep`: the variables to give, in this order; without it, all but blank nodes.
    """

    def __init__(
        self,
        pattern: g.GraphPattern,
        values: TermValues,
        background: Mapping[int, Triples] | None = None,
        keep: Sequence[str] | None = None,
        *,
        budget: int = BUDGET,
        source: str = "",
    ) -> None:
        shown = [name for name in g.find_variables(pattern) if not name.startswith("_:")]
        self.names: Names = tuple(shown if keep is None else keep)
        self._values = values
        planner = _Planner(values, background or {}, budget, source)
        self._plan = planner.plan(pattern, (), frozenset(self.names), _Events())

    def solutions(self, events: GraphEvents, streams: Collection[int] | None = None) -> Solutions:
        """The solutions in the events of these streams, or of all."""
        if streams is None:
            wanted = np.arange(events.size, dtype=np.int32)
        else:
            here = np.isin(events.streams, np.fromiter(streams, np.int32))
            wanted = np.flatnonzero(here).astype(np.int32)
        p, s, o = map(_plain, (events.p, events.s, events.o))
        graph = k.Graph(events.first, p, s, o, len(s))
        values, era = self._values.current(), self._values.era
        run = _Run(graph, values, _MOST_ROWS, _ANY, _too_many, era)
        table = _projected(_solve(self._plan, run, wanted), self.names)
        return Solutions(table.names, table.event, table.codes)


def _plain(codes: Codes) -> Codes:
    """In the form that kernels are compiled for; a copy only where it is not."""
    return np.require(codes, np.int32, ["C", "W"])


def _too_many(limit: int) -> BudgetError:
    return BudgetError(
        f"a graph pattern has more than {limit:,} solutions in one batch of events: "
        "make it more selective, or read smaller batches"
    )


# --------------------------------------------------------------------- plans


class _Memory:
    """What conditions on a single variable have answered so far, term by term."""

    def __init__(self, conditions: int) -> None:
        self._answers = np.full((conditions, 0), k.UNASKED, np.int8)
        self._era = 0

    def answers(self, terms: int, era: int) -> NDArray[np.int8]:
        if era != self._era:
            self._answers, self._era = self._answers[:, :0], era
        conditions, room = self._answers.shape
        if terms > room:
            more = max(terms, 2 * room) - room
            new = np.full((conditions, more), k.UNASKED, np.int8)
            self._answers = np.concatenate([self._answers, new], axis=1)
        return self._answers


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """A basic graph pattern and the conditions on it."""

    names: Names
    certain: frozenset[str]
    search: k.Search
    depth: int
    repeats: bool
    memory: _Memory


@dataclass(frozen=True, slots=True, eq=False)
class _Once:
    """The empty pattern: one solution without variables in every event."""

    names: Names = ()
    certain: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """Solutions that are the same in every event."""

    names: Names
    certain: frozenset[str]
    codes: Codes


@dataclass(frozen=True, slots=True, eq=False)
class _Paired:
    names: Names
    certain: frozenset[str]
    left: _Plan
    right: _Plan
    join: k.Join
    depth: int
    index: tuple[Codes, Codes] | None
    """Of the right side, where that is fixed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Alternatives:
    names: Names
    certain: frozenset[str]
    parts: tuple[_Plan, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    names: Names
    certain: frozenset[str]
    inner: _Plan
    program: Program


_Plan = _Searched | _Once | _Fixed | _Paired | _Alternatives | _Kept


# ------------------------------------------------------------ sorts of graphs

_Node = int | str
"""The code of a constant, or the name of a variable."""
_Triple = tuple[_Node, _Node, _Node]

_ROLES = {"pso": (1, 0, 2), "pos": (1, 2, 0), "spo": (0, 1, 2), "ops": (2, 1, 0)}
"""Sort orders: places of the keys in (s, p, o)."""


def _known(triple: _Triple, known: Collection[_Node]) -> tuple[bool, bool, bool]:
    subject, predicate, object_ = (isinstance(node, int) or node in known for node in triple)
    return subject, predicate, object_


class _Events:
    """The graphs of events: small, in one order, of which nothing is known beforehand."""

    def cost(self, triple: _Triple, known: Collection[_Node]) -> float:
        """A guess at how many triples fit once some variables are known."""
        subject, predicate, object_ = _known(triple, known)
        return (1 / 8 if predicate else 1) / (32 if subject else 1) / (16 if object_ else 1)

    def order(self, known: tuple[bool, bool, bool]) -> tuple[int, tuple[int, int, int]]:
        return 0, _ROLES["pso"]


class _Knowledge:
    """Graphs of background knowledge, each one event; sorted in whichever orders are needed."""

    def __init__(self, graphs: Sequence[Triples]) -> None:
        self._spo = [np.concatenate(part) for part in zip(*graphs, strict=True)]
        self._sizes = [graph.size for graph in graphs]
        self._orders = ["pso"]
        self._counts: dict[tuple[int | None, ...], int] = {}
        self._distinct: dict[tuple[int, int], int] = {}

    def cost(self, triple: _Triple, known: Collection[_Node]) -> float:
        """How many triples have the constants, divided by the distinct values of what is known."""
        count = float(self._count(tuple(n if isinstance(n, int) else None for n in triple)))
        predicate = triple[1] if isinstance(triple[1], int) else -1
        for place, node in enumerate(triple):
            if not isinstance(node, int) and node in known:
                count /= max(1, self._distinct_values(place, predicate))
        return count

    def _count(self, constants: tuple[int | None, ...]) -> int:
        if constants not in self._counts:
            fits = np.ones(len(self._spo[0]), np.bool_)
            for column, code in zip(self._spo, constants, strict=True):
                if code is not None:
                    fits &= column == code
            self._counts[constants] = int(np.count_nonzero(fits))
        return self._counts[constants]

    def _distinct_values(self, place: int, predicate: int) -> int:
        key = place, predicate
        if key not in self._distinct:
            column = self._spo[place]
            if predicate >= 0:
                column = column[self._spo[1] == predicate]
            self._distinct[key] = len(np.unique(column))
        return self._distinct[key]

    def order(self, known: tuple[bool, bool, bool]) -> tuple[int, tuple[int, int, int]]:
        subject, predicate, object_ = known
        if predicate:
            name = "pos" if object_ and not subject else "pso"
        else:
            name = "spo" if subject else "ops" if object_ else "pso"
        if name not in self._orders:
            self._orders.append(name)
        return self._orders.index(name), _ROLES[name]

    def graph(self) -> k.Graph:
        """All graphs in the orders that were asked for."""
        first = np.zeros(len(self._sizes) + 1, np.int64)
        np.cumsum(self._sizes, out=first[1:])
        number = np.repeat(np.arange(len(self._sizes), dtype=np.int32), self._sizes)
        columns: list[list[Codes]] = [[], [], []]
        for name in self._orders:
            keys = [self._spo[role] for role in _ROLES[name]]
            if name != "pso":
                place = np.lexsort((*keys[::-1], number))
                keys = [key[place] for key in keys]
            for column, key in zip(columns, keys, strict=True):
                column.append(key)
        one, two, three = map(np.concatenate, columns)
        return k.Graph(first, one, two, three, int(first[-1]))


_World = _Events | _Knowledge


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
        world: _World,
    ) -> _Plan:
        """A plan for a pattern and conditions on its solutions; `needed`: what is asked for."""
        match pattern:
            case g.FilterPattern(inner, condition):
                return self.plan(inner, conditions + _conjuncts(condition), needed, world)
            case g.BasicPattern() | g.JoinPattern():
                return self._joined(pattern, conditions, needed, world)
            case g.OptionalPattern():
                return self._optional(pattern, conditions, needed, world)
            case g.UnionPattern(parts):
                plans = tuple(self.plan(part, conditions, needed, world) for part in parts)
                return self._alternatives(plans)
            case g.BackgroundPattern():
                return self._background(pattern, conditions, needed)

    def _alternatives(self, plans: tuple[_Plan, ...]) -> _Plan:
        names = tuple(dict.fromkeys(name for plan in plans for name in plan.names))
        certain = frozenset.intersection(*(plan.certain for plan in plans))
        return self._settled(_Alternatives(names, certain, plans), plans)

    # -------------------------------------------------------------- joins

    def _joined(
        self,
        pattern: g.BasicPattern | g.JoinPattern,
        conditions: Conditions,
        needed: frozenset[str],
        world: _World,
    ) -> _Plan:
        basic, parts, lifted = _flattened(pattern)
        conditions += lifted
        patterns: list[g.GraphPattern] = [basic] if basic.triples else []
        patterns += parts
        if not patterns:
            return self._kept(_Once(), conditions)
        own: list[Conditions] = [()] * len(patterns)
        rest: list[g.Expression] = []
        for condition in conditions:
            mentioned = _mentioned(condition)
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
        asked = needed.union(*map(_mentioned, rest))
        plans: list[_Plan] = []
        for i, part in enumerate(patterns):
            others = asked.union(*bound[:i], *bound[i + 1 :])
            if isinstance(part, g.BasicPattern):
                plans.append(self._searched(part, own[i], others, world))
            else:
                plans.append(self.plan(part, own[i], others, world))
        return self._folded(plans, rest)

    def _folded(self, plans: list[_Plan], conditions: list[g.Expression]) -> _Plan:
        """A left-deep join: first what changes from event to event, then what is fixed."""
        waiting = sorted(plans, key=lambda plan: isinstance(plan, _Fixed))
        found = waiting.pop(0)
        while waiting:
            following = max(waiting, key=partial(_attraction, found))
            waiting.remove(following)
            certain = found.certain | following.certain
            ready = [c for c in conditions if not waiting or _mentioned(c) <= certain]
            conditions = [c for c in conditions if c not in ready]
            found = self._paired(found, following, tuple(ready), is_optional=False)
        return self._kept(found, tuple(conditions))

    def _optional(
        self,
        pattern: g.OptionalPattern,
        conditions: Conditions,
        needed: frozenset[str],
        world: _World,
    ) -> _Plan:
        inner, extra = pattern.pattern, pattern.extra
        below = tuple(c for c in conditions if _mentioned(c) <= g.find_certain_variables(inner))
        above = tuple(c for c in conditions if c not in below)
        between = () if pattern.condition is None else _conjuncts(pattern.condition)
        inside = tuple(c for c in between if _mentioned(c) <= g.find_certain_variables(extra))
        between = tuple(c for c in between if c not in inside)
        asked = needed.union(*map(_mentioned, above + between))
        left = self.plan(inner, below, asked.union(g.find_variables(extra)), world)
        right = self.plan(extra, inside, asked.union(g.find_variables(inner)), world)
        return self._kept(self._paired(left, right, between, is_optional=True), above)

    def _paired(
        self, left: _Plan, right: _Plan, conditions: Conditions, is_optional: bool
    ) -> _Plan:
        if isinstance(left, _Once) and not is_optional:
            return self._kept(right, conditions)
        names = _both(left.names, right.names)
        certain = left.certain if is_optional else left.certain | right.certain
        program = self._program(conditions, names)
        always = left.certain & right.certain
        join = _join(left.names, right.names, always, program.steps, is_optional)
        index = _index(right.codes, join.right_keys) if isinstance(right, _Fixed) else None
        plan = _Paired(names, certain, left, right, join, program.depth, index)
        return self._settled(plan, (left, right))

    def _kept(self, plan: _Plan, conditions: Conditions) -> _Plan:
        if not conditions:
            return plan
        program = self._program(conditions, plan.names)
        return self._settled(_Kept(plan.names, plan.certain, plan, program), (plan,))

    def _program(self, conditions: Conditions, names: Names) -> Program:
        if not conditions:
            return Program(np.zeros((0, 3), np.int32), 1)
        columns = {name: column for column, name in enumerate(names)}
        together = conditions[0] if len(conditions) == 1 else g.AndExpression(conditions)
        return compile_expression(together, columns, {}, self.values, self.source)

    def _settled(self, plan: _Plan, parts: Iterable[_Plan]) -> _Plan:
        """What is made of fixed parts alone is fixed itself."""
        if not all(isinstance(part, _Fixed) for part in parts):
            return plan
        none = np.zeros(0, np.int32)
        nothing = k.Graph(np.zeros(2, np.int64), none, none, none, 0)
        table = _distinct(_solve(plan, self._run(nothing), np.zeros(1, np.int32)))
        return _Fixed(table.names, plan.certain, table.codes)

    # ----------------------------------------------- basic graph patterns

    def _searched(
        self, basic: g.BasicPattern, conditions: Conditions, needed: frozenset[str], world: _World
    ) -> _Searched:
        triples = [self._coded(triple) for triple in dict.fromkeys(basic.triples)]
        columns: dict[_Node, int] = {name: i for i, name in enumerate(g.find_variables(basic))}
        count = len(columns)
        names = tuple(name for name in g.find_variables(basic) if name in needed)
        for node in (node for triple in triples for node in triple):
            columns.setdefault(node, len(columns))
        row = np.array([-1 if isinstance(node, str) else node for node in columns], np.int32)
        tested = [_mentioned(condition) for condition in conditions]
        ordered = _ordered(triples, tested, world)
        levels = [_level(triple, known, columns, world) for triple, known in ordered]
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
        steps, begins, depth = joined_programs(programs)
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
        memory = _Memory(len(programs))
        return _Searched(names, frozenset(names), search, depth, len(names) < count, memory)

    def _coded(self, triple: g.Triple) -> _Triple:
        subject, predicate, object_ = (
            node.name if isinstance(node, g.GraphVariable) else self.values.constant(node.text)
            for node in triple.nodes()
        )
        return subject, predicate, object_

    # --------------------------------------------------------- background

    def _background(
        self, pattern: g.BackgroundPattern, conditions: Conditions, needed: frozenset[str]
    ) -> _Plan:
        inner, name = pattern.pattern, pattern.name
        codes = self._graphs(name)
        inside = tuple(c for c in conditions if _mentioned(c) <= g.find_certain_variables(inner))
        outside = tuple(c for c in conditions if c not in inside)
        asked = needed.union(*map(_mentioned, outside))
        if isinstance(name, g.GraphVariable):
            asked |= {name.name}
        if not codes:
            return _Fixed((), frozenset(), np.zeros((0, 0), np.int32))
        world = _Knowledge([self.background[code] for code in codes])
        plan = self.plan(inner, inside, asked, world)
        table = _solve(plan, self._run(world.graph()), np.arange(len(codes), dtype=np.int32))
        certain = plan.certain
        if isinstance(name, g.GraphVariable):
            table = _with_graph(table, name.name, np.array(codes, np.int32))
            certain |= {name.name}
        shown = tuple(column for column in table.names if column in asked)
        table = _projected(table._replace(event=np.zeros(len(table.event), np.int32)), shown)
        return self._kept(_Fixed(shown, certain & set(shown), table.codes), outside)

    def _graphs(self, name: g.Node) -> list[int]:
        """The codes of the graphs that a name stands for."""
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

    def _run(self, graph: k.Graph) -> _Run:
        allowed = self.budget * _LOOKED_PER_SOLUTION
        return _Run(graph, self.values.current(), self.budget, allowed, self._over_budget)

    def _over_budget(self, limit: int) -> BudgetError:
        return BudgetError(
            f"a pattern over background knowledge has more than {limit:,} solutions, or takes more "
            f"than {limit * _LOOKED_PER_SOLUTION:,} triples to look at: make it more selective "
            "(name predicates, join its triples by variables, put a FILTER inside GRAPH), or raise "
            "the budget"
        )


def _attraction(found: _Plan, plan: _Plan) -> tuple[bool, int]:
    """Which part is joined next: the largest, of equals the first."""
    return not isinstance(plan, _Fixed), len(plan.certain & found.certain)


class _Level(NamedTuple):
    numbers: tuple[int, ...]
    """In the order of `cernis.engine.graphs.search.ORDER`."""
    bound: tuple[int, ...]
    """The columns that are bound here."""


def _level(
    triple: _Triple, known: frozenset[_Node], columns: Mapping[_Node, int], world: _World
) -> _Level:
    """How a triple is found once some variables are known."""
    order, roles = world.order(_known(triple, known))
    nodes = [triple[role] for role in roles]
    searched = 0
    while searched < 3 and (isinstance(nodes[searched], int) or nodes[searched] in known):
        searched += 1
    binds = [
        isinstance(node, str) and node not in known and node not in nodes[:i]
        for i, node in enumerate(nodes)
    ]
    places = [columns[node] for node in nodes]
    bits = sum(bound << i for i, bound in enumerate(binds))
    bound = tuple(place for place, is_bound in zip(places, binds, strict=True) if is_bound)
    return _Level((order, searched, bits, *places), bound)


def _ordered(
    triples: Sequence[_Triple], tested: Sequence[frozenset[str]], world: _World
) -> Iterator[tuple[_Triple, frozenset[_Node]]]:
    """Triples in the order in which they are looked for, each with what is known by then.

    The cheapest comes next, among those that share a variable with what is known, if some do;
    one with which a condition can be tested counts half.
    """
    waiting, known = list(triples), frozenset[_Node]()

    def cost(triple: _Triple) -> float:
        then = known.union(triple)
        tests = any(names <= then and not names <= known for names in tested)
        return world.cost(triple, known) / (2 if tests else 1)

    while waiting:
        best = min([t for t in waiting if known.intersection(t)] or waiting, key=cost)
        waiting.remove(best)
        yield best, known
        known |= {node for node in best if isinstance(node, str)}


def _flattened(
    pattern: g.GraphPattern,
) -> tuple[g.BasicPattern, list[g.GraphPattern], Conditions]:
    """All triples that are joined directly, the other parts, and conditions on the triples."""
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
            case g.FilterPattern(g.BasicPattern() as basic, condition) if _mentioned(
                condition
            ) <= g.find_certain_variables(basic):
                triples.extend(basic.triples)
                conditions += _conjuncts(condition)
            case _:
                parts.append(part)
    return g.BasicPattern(tuple(triples)), parts, conditions


def _conjuncts(condition: g.Expression) -> Conditions:
    """The parts of a condition that must all be true."""
    if isinstance(condition, g.AndExpression):
        return tuple(c for part in condition.parts for c in _conjuncts(part))
    return (condition,)


def _mentioned(condition: g.Expression) -> frozenset[str]:
    return frozenset(variable.name for variable in g.find_mentions(condition))


def _places(names: Iterable[str], among: Names) -> Codes:
    return np.array([among.index(n) if n in among else -1 for n in names], np.int32)


# ------------------------------------------------------------------- running


class _Table(NamedTuple):
    names: Names
    event: Codes
    codes: Codes


class _Run(NamedTuple):
    """What a plan is run on, and how many rows it may make."""

    graph: k.Graph
    values: e.Values
    limit: int
    """Rows of a table."""
    allowed: int
    """Triples that a search may look at."""
    complaint: Callable[[int], BudgetError]
    era: int = 0
    """How often the codes of terms have changed."""


def _solve(plan: _Plan, run: _Run, events: Codes) -> _Table:
    """The solutions in some events."""
    match plan:
        case _Once():
            return _Table((), events, np.zeros((len(events), 0), np.int32))
        case _Fixed(names, _, codes):
            if len(events) * len(codes) > run.limit:
                raise run.complaint(run.limit)
            return _Table(names, np.repeat(events, len(codes)), np.tile(codes, (len(events), 1)))
        case _Searched():
            return _solve_search(plan, run, events)
        case _Paired():
            return _solve_pair(plan, run, events)
        case _Alternatives(names, _, parts):
            tables = [_spread(_solve(part, run, events), names) for part in parts]
            event = np.concatenate([table.event for table in tables])
            place = np.argsort(event, kind="stable")
            codes = np.concatenate([table.codes for table in tables])
            return _distinct(_Table(names, event[place], codes[place]))
        case _Kept(names, _, inner, program):
            table = _solve(inner, run, events)
            mask = e.keep(program.steps, run.values, table.codes, e.new_stack(program.depth))
            return _Table(names, table.event[mask], table.codes[mask])


def _solve_search(plan: _Searched, run: _Run, events: Codes) -> _Table:
    search = plan.search
    levels = len(search.levels)
    scratch = k.Scratch(
        search.row.copy(),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros(levels + 1, np.int64),
        plan.memory.answers(len(run.values.facts), run.era),
        e.new_stack(plan.depth),
    )

    def fill(event: Codes, codes: Codes, state: NDArray[np.int64]) -> int:
        state[k.ALLOWED] = run.allowed
        return k.find(search, run.graph, run.values, events, scratch, event, codes, state)

    table = _filled(plan.names, len(events), run, fill)
    return _distinct(table) if plan.repeats else table


def _solve_pair(plan: _Paired, run: _Run, events: Codes) -> _Table:
    left = _solve(plan.left, run, events)
    if plan.index is not None and isinstance(plan.right, _Fixed):
        right = _Table(plan.right.names, left.event[:0], plan.right.codes)
    else:
        new = np.ones(len(left.event), np.bool_)
        new[1:] = left.event[1:] != left.event[:-1]
        right = _solve(plan.right, run, left.event[new])
    table = _joined(left, right, plan.join, plan.depth, plan.index, run)
    return _distinct(table) if len(plan.join.left_loose) else table


def _join(
    left: Names, right: Names, certain: Collection[str], steps: Codes, is_optional: bool
) -> k.Join:
    """How tables with these columns are joined; both always bind what is `certain`."""
    shared = [name for name in left if name in right]
    keys = [name for name in shared if name in certain]
    loose = [name for name in shared if name not in certain]
    names = _both(left, right)
    return k.Join(
        _places(keys, left),
        _places(keys, right),
        _places(loose, left),
        _places(loose, right),
        _places(names, left),
        _places(names, right),
        steps,
        is_optional,
    )


def _both(left: Names, right: Names) -> Names:
    return tuple(dict.fromkeys((*left, *right)))


def _joined(
    left: _Table,
    right: _Table,
    join: k.Join,
    depth: int,
    index: tuple[Codes, Codes] | None,
    run: _Run,
) -> _Table:
    """Two tables joined event by event; or, with an index, each row with all of the right."""
    names = _both(left.names, right.names)
    heads, chain = _room(k.largest_event(right.event)) if index is None else index
    row, stack = np.zeros(len(names), np.int32), e.new_stack(depth)

    def fill(event: Codes, codes: Codes, state: NDArray[np.int64]) -> int:
        return k.join_tables(
            join,
            left.event,
            left.codes,
            right.event,
            right.codes,
            heads,
            chain,
            index is not None,
            run.values,
            stack,
            row,
            event,
            codes,
            state,
        )

    return _filled(names, len(left.event), run, fill)


def _filled(
    names: Names,
    guess: int,
    run: _Run,
    fill: Callable[[Codes, Codes, NDArray[np.int64]], int],
) -> _Table:
    """The table that a kernel makes, in as much room as it needs."""
    room = min(run.limit, max(1024, guess))
    event, codes = np.empty(room, np.int32), np.empty((room, len(names)), np.int32)
    state = np.zeros(4, np.int64)
    while (status := fill(event, codes, state)) != k.DONE:
        if status == k.SPENT or room == run.limit:
            raise run.complaint(run.limit)
        rows, room = int(state[k.ROWS]), min(2 * room, run.limit)
        grown, wider = np.empty(room, np.int32), np.empty((room, len(names)), np.int32)
        grown[:rows], wider[:rows] = event[:rows], codes[:rows]
        event, codes = grown, wider
    rows = int(state[k.ROWS])
    if 2 * rows < room:
        return _Table(names, event[:rows].copy(), codes[:rows].copy())
    return _Table(names, event[:rows], codes[:rows])


def _room(rows: int) -> tuple[Codes, Codes]:
    """Heads and chain of an index of so many rows."""
    size = 1 << max(rows - 1, 0).bit_length()
    return np.empty(size, np.int32), np.empty(max(rows, 1), np.int32)


def _index(codes: Codes, columns: Codes) -> tuple[Codes, Codes]:
    heads, chain = _room(len(codes))
    k.fill_index(codes, columns, 0, len(codes), heads, chain)
    return heads, chain


def _distinct(table: _Table) -> _Table:
    if len(table.event) < 2:
        return table
    mask = np.empty(len(table.event), np.bool_)
    columns = np.arange(len(table.names), dtype=np.int32)
    room = _room(k.largest_event(table.event))
    k.mark_distinct(table.event, table.codes, columns, *room, mask)
    return table if mask.all() else _Table(table.names, table.event[mask], table.codes[mask])


def _spread(table: _Table, names: Names) -> _Table:
    """The same rows with these columns; what is not there is unbound."""
    if table.names == names:
        return table
    codes = np.full((len(table.event), len(names)), -1, np.int32)
    for column, name in enumerate(names):
        if name in table.names:
            codes[:, column] = table.codes[:, table.names.index(name)]
    return _Table(names, table.event, codes)


def _projected(table: _Table, names: Names) -> _Table:
    spread = _spread(table, names)
    return spread if set(table.names) <= set(names) else _distinct(spread)


def _with_graph(table: _Table, name: str, graphs: Codes) -> _Table:
    """Solutions in several graphs, with the graph's name as one more variable."""
    own = graphs[table.event]
    if name not in table.names:
        codes = np.concatenate([table.codes, own.reshape(-1, 1)], axis=1)
        return _Table((*table.names, name), table.event, codes)
    column = table.names.index(name)
    fits = (table.codes[:, column] == own) | (table.codes[:, column] < 0)
    codes = table.codes[fits]
    codes[:, column] = own[fits]
    return _Table(table.names, table.event[fits], codes)


def projected(found: Solutions, names: Names) -> Solutions:
    """Some columns of a table, in this order; distinct rows per event."""
    return Solutions(*_projected(_Table(*found), names))


def join_solutions(
    left: Solutions, right: Solutions, certain: Collection[str], values: e.Values
) -> Solutions:
    """The compatible pairs of two tables, event by event; both always bind what is `certain`."""
    join = _join(left.names, right.names, certain, np.zeros((0, 3), np.int32), False)
    none = np.zeros(0, np.int32)
    nothing = k.Graph(np.zeros(2, np.int64), none, none, none, 0)
    run = _Run(nothing, values, _MOST_ROWS, _ANY, _too_many)
    return Solutions(*_joined(_Table(*left), _Table(*right), join, 1, None, run))
