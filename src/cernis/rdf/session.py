"""A SPAseQ query over RDF streams, from files to matches.

One session reads one streamset: events in batches, solutions of the graph patterns, rows, the
engine. `collect` keeps all, `stream` gives the matches of each batch and lets go of what no
partial match needs.

Cost: parsing is most of it; see `cernis.rdf.reading.quads`. Memory of `stream` is that of the
window: rows that no partial match reaches are let go of, and so are terms that nobody holds any
more, each time there are twice as many as were left the last time. `collect` keeps all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.automata.linked.automaton import Linked
from cernis.engine.correlated.enumerate import Snapshot
from cernis.engine.graphs.expressions import new_stack
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.linked.tables import tables_of
from cernis.errors import DataError
from cernis.events.mistakes import Mistakes, OnError
from cernis.pattern import graph as g
from cernis.pattern.spaseq import SpaseqQuery
from cernis.rdf.matches import AnswerColumn, AnswerShape, GraphMatches, TimeFormat
from cernis.rdf.reading.background import load_background
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Terms
from cernis.rdf.reading.times import TimeRule, read_times
from cernis.rdf.row_store import RowStore
from cernis.rdf.solving.programs import compile_expression
from cernis.rdf.solving.rows import RowReader, Window
from cernis.rdf.solving.values import TermValues
from cernis.results.correlated import CorrelatedMatches

_MANY_ROWS, _MANY_TERMS = 1 << 18, 1 << 20
_ROWS = ("rows",)


class GraphRunOptions(NamedTuple):
    """How to read the streams of a run."""

    time: TimeRule | Mapping[str, TimeRule] | None = None
    format: str | None = None
    on_error: OnError = "fail"


class GraphSession:
    """One run of a query."""

    def __init__(
        self,
        query: SpaseqQuery,
        linked: Linked,
        options: GraphRunOptions,
        background: Any = None,
        unit: str = "ms",
    ) -> None:
        self.query, self.linked, self.options, self.unit = query, linked, options, unit
        self.mistakes = Mistakes(options.on_error)
        self.terms = Terms()
        self.values = TermValues(self.terms)
        graphs = load_background(background, self.terms) if background is not None else {}
        window = Window(query.within, _origin(query, unit))
        self.reader = RowReader(query, linked, self.values, graphs, window)
        depth = [1]

        def compiled(
            condition: g.Expression, row: dict[str, int], kept: dict[str, int]
        ) -> NDArray[np.int32]:
            program = compile_expression(condition, row, kept, self.values, query.source)
            depth[0] = max(depth[0], program.depth)
            return program.steps

        tables = tables_of(linked, compiled)
        self.stack = new_stack(depth[0])
        self.engine = LinkedEngine(tables, len(linked.columns), partitioned=bool(query.partition))
        self.store = RowStore()
        self.streams: Streamset | None = None
        self.many_rows, self.many_terms = _MANY_ROWS, _MANY_TERMS
        """From how many on rows and terms are let go of."""
        self._rows_left = self._terms_left = 0
        self._own_terms = len(self.terms)

    @property
    def events(self) -> int:
        """How many events have been read."""
        return self.reader.events

    @property
    def notes(self) -> list[str]:
        """What was left out."""
        skipped = self.streams.skipped if self.streams is not None else {}
        return [
            f"{stream}: {number:,} {'lines or events were' if number > 1 else 'line or event was'}"
            " left out"
            for stream, number in skipped.items()
            if number
        ]

    # ------------------------------------------------------------------- runs

    def open(self, sources: Mapping[str, Any]) -> Streamset:
        """The streams of the query, in its order."""
        missing = [name for name, _ in self.query.streams if name not in sources]
        if missing:
            raise DataError(
                f"no events for the stream {missing[0]}: give a file for each of "
                f"{', '.join(name for name, _ in self.query.streams)}"
            )
        ordered = {name: sources[name] for name, _ in self.query.streams}
        self.streams = Streamset(
            ordered,
            self.terms,
            time=self.options.time or TimeRule(unit=self.unit),
            format=self.options.format,
            bad=self.mistakes,
        )
        return self.streams

    def collect(self, sources: Mapping[str, Any]) -> GraphMatches:
        """All matches of some streams."""
        snapshots = [one for batch in self.open(sources) for one in self._push(batch)]
        return self._matches(snapshots)

    def stream(self, sources: Mapping[str, Any]) -> Iterator[GraphMatches]:
        """The matches of each batch that has some."""
        for batch in self.open(sources):
            if found := self._push(batch):
                yield self._matches(found)
            self.forget()

    def push(self, events: GraphEvents) -> GraphMatches:
        """The matches that end in a batch, which must end with a timestamp."""
        return self._matches(self._push(events))

    def push_nothing(self) -> GraphMatches:
        """No matches, in the form that matches have."""
        return self._matches([])

    def _push(self, events: GraphEvents) -> list[Snapshot]:
        first = self.reader.events
        rows, stored = self.reader.read(events)
        self.store.add(stored, events, first)
        parts = max(len(self.reader.parts), 1)
        return self.engine.push(rows, self.values.current(), self.stack, parts)

    def forget(self) -> None:
        """Lets go of rows and terms, if there are many that nobody needs."""
        many_rows = self.store.size > max(self.many_rows, 2 * self._rows_left)
        many_terms = len(self.terms) > max(self.many_terms, 2 * self._terms_left)
        if many_rows or many_terms:
            self.store = self.store.copy(self.engine.earliest())
            self._rows_left = self.store.size
        if many_terms:
            self._forget_terms()
            self._terms_left = len(self.terms)

    def _forget_terms(self) -> None:
        """Gives new codes to the terms that somebody holds; the query's own come first and stay."""
        assert self.streams is not None
        live = np.zeros(len(self.terms), np.bool_)
        live[: self._own_terms] = True
        parts = self.engine.held_parts()
        numbers = set(parts.tolist())
        keys = {key: n for key, n in self.reader.parts.items() if n in numbers}
        held = [self.engine.held(), *self.store.codes(), *self.streams.codes()]
        held += [np.array(list(keys), np.int32)] if keys else []
        for codes in held:
            live[codes[codes >= 0]] = True
        self.values.keep(live)
        moved = self.terms.keep(live)
        self.engine.renumber(moved, parts)
        self.store = self.store.recode(moved)
        self.streams.recode(moved)
        place = {n: i for i, n in enumerate(parts.tolist())}
        self.reader.parts = {tuple(moved[list(key)].tolist()): place[n] for key, n in keys.items()}

    # ---------------------------------------------------------------- answers

    def _matches(self, snapshots: list[Snapshot]) -> GraphMatches:
        labels = [frozenset(_ROWS)] * len(self.linked.alternatives)
        found = CorrelatedMatches(_ROWS, snapshots, labels)
        counted = self.streams is not None and self.streams.counted
        clock = TimeFormat(self.unit if counted else None)
        return GraphMatches(
            found,
            self.store.copy(),
            self.terms.view(),
            self.shape,
            clock,
            self._distinct(),
            self.notes,
        )

    @cached_property
    def shape(self) -> AnswerShape:
        """What the answers consist of."""
        return shape_answers(self.query, self.linked)

    def _distinct(self) -> bool:
        """Whether no two runs can be one match: events match a step in one way, or in ways that
        the answer tells apart."""
        if self.linked.ambiguous or not self.reader.repeated:
            return not self.linked.ambiguous
        told = {
            column.place for column in self.shape.columns if column.step is None or column.listed
        }
        return self.reader.certain and len(told) == len(self.linked.columns)


def shape_answers(query: SpaseqQuery, linked: Linked) -> AnswerShape:
    """The columns of the answers of a query."""
    steps = np.array([one.step for one in linked.alternatives], np.int32)
    streams = tuple(name for name, _ in query.streams)
    local = {name: step for step, names in enumerate(linked.local) for name in names}
    bound = {
        name
        for one in linked.alternatives
        if not query.steps[one.step].negated
        for name in one.names
    }

    def column(name: str, variable: str, listed: bool) -> AnswerColumn:
        return AnswerColumn(name, linked.columns.index(variable), listed, local.get(variable))

    if query.construct is not None:
        named = {
            node.name
            for triple in query.construct
            for node in triple.nodes()
            if isinstance(node, g.GraphVariable) and not node.hidden
        }
        chosen = [column(name, name, False) for name in linked.columns if name in named]
    elif query.select is None:
        chosen = [column(name, name, False) for name in linked.columns if name in bound]
    else:
        chosen = [column(one.name, one.variable, one.listed) for one in query.select]
    return AnswerShape(tuple(chosen), streams, steps, query.construct)


def _origin(query: SpaseqQuery, unit: str) -> int | None:
    """Where tumbling windows begin, in nanoseconds."""
    if query.tumbling_from is None:
        return None
    kind = "integer" if isinstance(query.tumbling_from, int) else "dateTime"
    text = f'"{query.tumbling_from}"^^<http://www.w3.org/2001/XMLSchema#{kind}>'
    times, good = read_times(pa.array([text], pa.string()), unit)
    if not good[0]:
        raise DataError(f"TUMBLING FROM {query.tumbling_from}: is no time")
    return int(times[0])
