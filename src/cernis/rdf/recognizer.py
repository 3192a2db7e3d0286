"""Solutions of graph patterns to matches: rows, the engine, and the store of rows.

`cernis.rdf.session.GraphSession` solves the patterns itself;
`cernis.rdf.exchange.SolutionSession` reads solutions from other processes.

Cost: memory of a run that calls `forget` is bounded by the window: rows that no partial match
reaches and terms that are in no state are dropped whenever their number has doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.engine.dag.links import DagSegment
from cernis.engine.graphs.expressions import new_stack
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.tables import tables_of
from cernis.errors import DataError, SessionGuard
from cernis.output import UsedFile
from cernis.pattern import graph as g
from cernis.pattern.spaseq import SelectedExpression, SelectedVariable, SpaseqQuery
from cernis.plan.graphs import GraphPlan
from cernis.rdf.computed import check_expression
from cernis.rdf.matches import (
    AnswerColumn,
    AnswerOutput,
    AnswerShape,
    GraphMatches,
    TimeFormat,
)
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.terms import Codes
from cernis.rdf.reading.times import read_times
from cernis.rdf.row_store import RowStore
from cernis.rdf.solving.answers import AnsweredConditions
from cernis.rdf.solving.programs import compile_expression
from cernis.rdf.solving.rows import RowBuilder, TimeWindow
from cernis.rdf.solving.solutions import Solutions
from cernis.rdf.solving.values import TermValues
from cernis.results.linked import LinkedMatches

_MANY_ROWS, _MANY_TERMS = 1 << 18, 1 << 20
_ROWS = ("rows",)


class GraphRecognizer:
    """Find the matches of a query in solutions, batch by batch, in one thread at a time.

    The terms in `values` so far are the query's own and are never dropped. After an error `guard`
    refuses to go on.
    """

    def __init__(self, plan: GraphPlan, values: TermValues, unit: str) -> None:
        self.plan, self.query, self.linked, self.unit = plan, plan.query, plan.linked, unit
        self.versions: list[str] | None = None
        """The versions of a live background so far, the last of which is current."""
        self.many_rows, self.many_terms = _MANY_ROWS, _MANY_TERMS
        """The numbers of rows and terms up to which `forget` keeps all."""
        self.guard = SessionGuard()
        self._begin(values)

    def _begin(self, values: TermValues) -> None:
        """Make the engine and its state, empty, over a dictionary of terms."""
        plan, query, linked, unit = self.plan, self.query, self.linked, self.unit
        self.values, self.terms = values, values.terms
        window = TimeWindow(query.within, _find_origin(query, unit))
        self.builder = RowBuilder(plan, values, window)
        self.answered = AnsweredConditions(values, query.source)
        depth = [1]

        def compile_condition(
            condition: g.Expression, row: dict[str, int], kept: dict[str, int]
        ) -> NDArray[np.int32]:
            if self.answered.takes(condition):
                return self.answered.add(condition, row, kept).steps
            program = compile_expression(condition, row, kept, values, query.source)
            depth[0] = max(depth[0], program.depth)
            return program.steps

        tables = tables_of(linked, compile_condition)
        self.stack = new_stack(depth[0])
        self.engine = LinkedEngine(tables, len(linked.columns), partitioned=bool(query.partition))
        for output in self.shape.outputs:
            if output.expression is not None:
                check_expression(output.expression, query.source)
        self.store = RowStore()
        self._rows_left = self._terms_left = 0
        self._own_terms = len(self.terms)

    @property
    def events(self) -> int:
        """The number of events read."""
        return self.builder.events

    @property
    def numeric_times(self) -> bool:
        """Whether times are numbers, not dates."""
        return False

    @property
    def notes(self) -> list[str]:
        """Remarks on the run, for its results."""
        return []

    @property
    def used(self) -> tuple[UsedFile, ...]:
        """The files of the run, for its results."""
        return ()

    def recognize(
        self,
        events: GraphEvents,
        found: Mapping[str, Solutions],
        versions: Codes | None = None,
    ) -> list[DagSegment]:
        """Read a batch of whole timestamps and the solutions in it; the triples are not read.

        Events are solved with the `versions` of the background; without these, with the last.
        """
        first = self.builder.events
        rows, stored = self.builder.build(events, found)
        if versions is None:
            versions = np.full(events.size, max(len(self.versions or ()) - 1, 0), np.int32)
        self.store.add(stored, events, first, versions)
        parts = max(len(self.builder.parts), 1)
        self.answered.begin()
        values = self.values.update()
        return self.engine.push(rows, values, self.stack, parts, self.answered.fill)

    # ----------------------------------------------------------------- state

    def forget(self) -> None:
        """Drop the rows and terms that no partial match needs, if there are many."""
        with self.guard:
            self._forget()

    def _forget(self) -> None:
        many_rows = self.store.size > max(self.many_rows, 2 * self._rows_left)
        many_terms = len(self.terms) > max(self.many_terms, 2 * self._terms_left)
        if many_rows or many_terms:
            self.store = self.store.copy(self.earliest_row())
            self._rows_left = self.store.size
        if many_terms:
            self._forget_terms()
            self._terms_left = len(self.terms)

    def earliest_row(self) -> int:
        """Return the number of the earliest row that is needed."""
        return self.engine.earliest()

    def _forget_terms(self) -> None:
        """Drop the terms that are in no state; the others get new codes."""
        live = np.zeros(len(self.terms), np.bool_)
        live[: self._own_terms] = True
        parts = self.engine.live_keys()
        numbers = set(parts.tolist())
        keys = {key: n for key, n in self.builder.parts.items() if n in numbers}
        for codes in (*self._codes(), np.array(list(keys), np.int32)):
            live[codes[codes >= 0]] = True
        self.values.keep(live)
        new_codes = self.terms.keep(live)
        self.engine.keep_keys(parts)
        self.engine.recode(new_codes)
        place = {n: i for i, n in enumerate(parts.tolist())}
        self.builder.parts = {
            tuple(new_codes[list(key)].tolist()): place[n] for key, n in keys.items()
        }
        self._recode(new_codes)

    def _codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms in the state."""
        yield self.engine.live_codes()
        yield from self.store.codes()

    def _recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms outside the engine."""
        self.store = self.store.recode(new_codes)

    # --------------------------------------------------------------- answers

    def matches(self, segments: list[DagSegment]) -> GraphMatches:
        """Return the matches of some segments of the engine."""
        labels = [frozenset(_ROWS)] * len(self.linked.alternatives)
        found = LinkedMatches(_ROWS, segments, labels)
        form = TimeFormat(self.unit if self.numeric_times else None)
        store, terms, distinct = (
            self.store.copy(),
            self.terms.view(),
            not self.builder.likeness.merges,
        )
        shape = self.shape
        if self.versions is not None:
            shape = shape._replace(versions=tuple(self.versions))
        return GraphMatches(found, store, terms, shape, form, distinct, self.notes, self.used)

    @cached_property
    def shape(self) -> AnswerShape:
        """The columns of the answers."""
        return shape_answers(self.query, self.linked)


def shape_answers(query: SpaseqQuery, linked: LinkedAutomaton) -> AnswerShape:
    """Return the columns of a query's answers."""
    steps = np.array([one.step for one in linked.alternatives], np.int32)
    streams = tuple(name for name, _ in query.streams)
    local = {name: step for step, names in enumerate(linked.local) for name in names}
    bound = {
        name
        for one in linked.alternatives
        if not query.steps[one.step].negated
        for name in one.names
    }

    def column(name: str, variable: str, listed: bool = False) -> AnswerColumn:
        return AnswerColumn(name, linked.columns.index(variable), listed, local.get(variable))

    if query.construct is not None:
        named = {variable.name for variable in g.find_template_variables(query.construct)}
        chosen = [column(name, name) for name in linked.columns if name in named]
    elif query.select is None:
        chosen = [column(name, name) for name in linked.columns if name in bound]
    else:
        empty = AnswerShape((), streams, steps, is_distinct=query.distinct)
        return _shape_selected(query, empty, column)
    outputs = tuple(AnswerOutput(one.name, place) for place, one in enumerate(chosen))
    whole = AnswerShape(tuple(chosen), streams, steps, outputs, query.construct)
    return whole._replace(is_distinct=query.distinct)


def _shape_selected(
    query: SpaseqQuery, shape: AnswerShape, column: Callable[[str, str, bool], AnswerColumn]
) -> AnswerShape:
    """Return the columns of SELECT, then those that only its expressions read."""
    chosen: list[AnswerColumn] = []
    outputs: list[AnswerOutput] = []
    for one in query.select or ():
        if isinstance(one, SelectedVariable):
            outputs.append(AnswerOutput(one.name, len(chosen)))
            chosen.append(column(one.name, one.variable, one.listed))
        else:
            outputs.append(AnswerOutput(one.name, -1, one.expression))
    for one in query.select or ():
        if isinstance(one, SelectedExpression):
            chosen += [column(name, name, False) for name in sorted(one.last_values)]
            chosen += [column(name, name, True) for name in sorted(one.all_values)]
    return shape._replace(columns=tuple(chosen), outputs=tuple(outputs))


def _find_origin(query: SpaseqQuery, unit: str) -> int | None:
    """Return where tumbling windows begin, in nanoseconds."""
    if query.tumbling_from is None:
        return None
    return parse_time(query.tumbling_from, unit, "TUMBLING FROM")


def parse_time(time: int | float | str | datetime, unit: str, what: str) -> int:
    """Return a number of units, or a date, in nanoseconds.

    >>> parse_time(2, "s", "advance"), parse_time("1970-01-01T00:00:01Z", "s", "advance")
    (2000000000, 1000000000)
    """
    if isinstance(time, datetime):
        time = time.isoformat()
    kind = {int: "integer", float: "double"}.get(type(time), "dateTime")
    text = f'"{time}"^^<http://www.w3.org/2001/XMLSchema#{kind}>'
    times, good = read_times(pa.array([text], pa.string()), unit)
    if not good[0]:
        raise DataError(f"{what} {time}: is no time")
    return int(times[0])
