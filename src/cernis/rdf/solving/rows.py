"""From events to the rows that the engine reads: one for each way to match a step at a timestamp.

Each graph pattern is solved once per batch; a step of one pattern has its solutions as rows, a
step of several (`A & B`) their join by timestamp. A row knows its *reading*: which alternative of
which step it is, and which of the variables that may be missing it binds.

Cost: that of the graph patterns, and a few passes over the rows in NumPy. No Python per event or
row; a dictionary lookup for each distinct key of PARTITION BY in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.linked.automaton import Linked
from cernis.engine.correlated.records import NOTHING
from cernis.engine.graphs.expressions import keep, new_stack
from cernis.engine.linked.step import LinkedRows
from cernis.pattern import graph as g
from cernis.pattern.spaseq import SpaseqQuery
from cernis.rdf.reading.background import Triples
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.terms import Codes
from cernis.rdf.solving.programs import Program, compile_expression
from cernis.rdf.solving.solve import Matcher, Solutions, join_solutions, projected
from cernis.rdf.solving.values import TermValues

Int64s = NDArray[np.int64]


class Window(NamedTuple):
    """How long a match may take, in nanoseconds; and where tumbling windows begin."""

    size: int | None
    origin: int | None = None

    def bounds(self, times: Int64s) -> Int64s:
        """The earliest start of a match that ends at each of these times."""
        if self.size is None:
            return np.full(len(times), NOTHING, np.int64)
        if self.origin is None:
            return times - self.size
        whole = (times - self.origin) // self.size * self.size
        return self.origin + np.maximum(whole, 0)


class StoredRows(NamedTuple):
    """The rows of a batch, as `cernis.rdf.row_store` keeps them."""

    first: int
    """The number of the first row."""
    codes: Codes
    """A column for each variable that somebody asks for."""
    alternative: Codes
    event: Int64s
    """The numbers of a row's events, one for each pattern of its alternative, then -1."""
    time: Int64s


class _Way(NamedTuple):
    """An alternative, ready to be read."""

    gpms: tuple[str, ...]
    names: tuple[str, ...]
    own: Program | None
    missing: tuple[str, ...]
    """The variables that tell its readings apart."""
    readings: Codes
    """By the bits of those that are bound."""


class RowReader:
    """A query's patterns, ready to be solved in any number of batches."""

    def __init__(
        self,
        query: SpaseqQuery,
        linked: Linked,
        values: TermValues,
        background: Mapping[int, Triples],
        window: Window,
    ) -> None:
        self.linked, self.window, self.values = linked, window, values
        self.partition = [linked.columns.index(name) for name in query.partition]
        self.parts: dict[tuple[int, ...], int] = {}
        self.width = max(len(one.gpms) for one in linked.alternatives)
        self._certain = {
            gpm.name: frozenset(g.find_certain_variables(gpm.pattern)) for gpm in query.gpms
        }
        index = {name: i for i, (name, _) in enumerate(query.streams)}
        used = {name for one in linked.alternatives for name in one.gpms}
        self._streams = {gpm.name: [index[name] for name in gpm.streams] for gpm in query.gpms}
        self._matchers = {
            gpm.name: Matcher(
                g.split_filters(gpm.pattern)[0],
                values,
                background,
                [name for name in g.find_variables(gpm.pattern) if name in self._asked(gpm.name)],
                source=query.source,
            )
            for gpm in query.gpms
            if gpm.name in used
        }
        self._ways = [self._way(a, query.source) for a in range(len(linked.alternatives))]
        self.rows = self.events = self.moments = 0
        self.repeated = False
        """Whether some events have matched a step in two ways."""
        self.certain = not any(way.missing for way in self._ways)
        """Whether every row binds all that is asked of its step."""

    def _asked(self, gpm: str) -> set[str]:
        """The variables of a pattern that steps or the answer need, or patterns joined by `&`."""
        asked = set(self.linked.columns)
        for one in self.linked.alternatives:
            if gpm in one.gpms and len(one.gpms) > 1:
                asked.update(one.names)
        return asked

    def _way(self, alternative: int, source: str) -> _Way:
        linked, one = self.linked, self.linked.alternatives[alternative]
        own = None
        if one.own:
            places = {name: i for i, name in enumerate(one.names)}
            own = compile_expression(g.AndExpression(one.own), places, {}, self.values, source)
        numbers = [i for i, r in enumerate(linked.readings) if r.alternative == alternative]
        asked = frozenset().union(*(linked.readings[i].bound for i in numbers))
        missing = tuple(sorted(asked - one.certain))
        readings = np.full(1 << len(missing), -1, np.int32)
        for i in numbers:
            bound = linked.readings[i].bound
            readings[sum(1 << k for k, name in enumerate(missing) if name in bound)] = i
        return _Way(one.gpms, one.names, own, missing, readings)

    # ----------------------------------------------------------------- reading

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The patterns that are asked for, and the variables that each is solved for."""
        return {name: matcher.names for name, matcher in self._matchers.items()}

    def solve(self, events: GraphEvents) -> dict[str, Solutions]:
        """The solutions of each pattern in some events, whatever their order."""
        return {
            name: matcher.solutions(events, self._streams[name])
            for name, matcher in self._matchers.items()
        }

    def read(self, events: GraphEvents) -> tuple[LinkedRows, StoredRows]:
        """The rows of a batch that does not end within a timestamp."""
        return self.read_solved(events, self.solve(events))

    def read_solved(
        self, events: GraphEvents, found: Mapping[str, Solutions]
    ) -> tuple[LinkedRows, StoredRows]:
        """The same where the patterns are solved already; the triples are not looked at."""
        new = np.ones(events.size, np.int64)
        new[1:] = events.times[1:] != events.times[:-1]
        moments = np.cumsum(new) - 1
        tables = [self._table(way, found, moments) for way in self._ways]
        if self.partition:
            tables += [self._ticks(found[gpm], moments) for gpm in self._joined_only()]
        codes = np.concatenate([table.codes for table in tables])
        event = np.concatenate([table.event for table in tables])
        moment = np.concatenate([table.moment for table in tables])
        order = np.argsort(moment, kind="stable")
        codes, event, moment = codes[order], event[order], moment[order]
        sizes = [len(table.moment) for table in tables]
        ways = np.arange(len(tables)).astype(np.int32) % np.int32(len(self._ways))
        alternative = np.repeat(ways, sizes)[order]
        reading = np.concatenate([table.reading for table in tables])[order]
        time = events.times[event[:, 0]]
        rows = LinkedRows(
            reading,
            codes,
            moment + self.moments,
            time,
            self.window.bounds(time),
            self._parts_of(codes),
        )
        shown = np.where(event >= 0, event.astype(np.int64) + self.events, -1)
        stored = StoredRows(self.rows, codes, alternative, shown, time)
        self.repeated = self.repeated or any(table.repeated for table in tables)
        self.rows += len(reading)
        self.events += events.size
        self.moments += int(new.sum())
        return rows, stored

    def _table(self, way: _Way, found: Mapping[str, Solutions], moments: Int64s) -> _Table:
        values = self.values.current()
        whole = _with_event(found[way.gpms[0]], moments, 0)
        certain = self._certain[way.gpms[0]]
        for place, gpm in enumerate(way.gpms[1:], 1):
            more = _with_event(found[gpm], moments, place)
            whole = join_solutions(whole, more, certain & self._certain[gpm], values)
            certain |= self._certain[gpm]
        if way.own is not None:
            stack = new_stack(way.own.depth)
            fits = keep(way.own.steps, values, _spread(whole, way.names), stack)
            whole = Solutions(whole.names, whole.event[fits], whole.codes[fits])
        columns = self.linked.columns
        whole = projected(whole, (*columns, *map(_event, range(self.width))))
        codes, event = whole.codes[:, : len(columns)], whole.codes[:, len(columns) :]
        moment = whole.event.astype(np.int64)
        bits = np.zeros(len(codes), np.int64)
        for k, name in enumerate(way.missing):
            bits |= (codes[:, columns.index(name)] >= 0).astype(np.int64) << k
        return _Table(codes, event, moment, way.readings[bits], _repeats(event))

    def _joined_only(self) -> list[str]:
        """The patterns that are in no step alone: their solutions count as events of their
        partition also where `&` finds no partner."""
        alone = {way.gpms[0] for way in self._ways if len(way.gpms) == 1}
        return [name for name in self._matchers if name not in alone]

    def _ticks(self, found: Solutions, moments: Int64s) -> _Table:
        """Rows that begin nothing and move nothing."""
        codes = _spread(found, self.linked.columns)
        event = np.full((len(codes), self.width), -1, np.int32)
        event[:, 0] = found.event
        reading = np.full(len(codes), len(self.linked.readings), np.int32)
        return _Table(codes, event, moments[found.event], reading, False)

    def _parts_of(self, codes: Codes) -> Codes:
        """The number of each row's partition."""
        if not self.partition or not len(codes):
            return np.zeros(len(codes), np.int32)
        distinct, place = np.unique(codes[:, self.partition], axis=0, return_inverse=True)
        known = [self.parts.setdefault(tuple(key), len(self.parts)) for key in distinct.tolist()]
        return np.array(known, np.int32)[place.reshape(-1)]


class _Table(NamedTuple):
    codes: Codes
    event: Codes
    moment: Int64s
    reading: Codes
    repeated: bool


def _event(place: int) -> str:
    """The name of a column that holds an event: no variable has it."""
    return f"@{place}"


def _with_event(found: Solutions, moments: Int64s, place: int) -> Solutions:
    """Solutions by timestamp, with their event as one more column."""
    codes = np.concatenate([found.codes, found.event.reshape(-1, 1)], axis=1)
    return Solutions((*found.names, _event(place)), moments[found.event].astype(np.int32), codes)


def _spread(table: Solutions, names: Sequence[str]) -> Codes:
    codes = np.full((len(table.event), len(names)), -1, np.int32)
    for column, name in enumerate(names):
        if name in table.names:
            codes[:, column] = table.codes[:, table.names.index(name)]
    return codes


def _repeats(event: Codes) -> bool:
    """Whether two rows have the same events; rows of the same events lie together only where
    there is one event in each, so several are sorted first."""
    if event.shape[1] > 1:
        event = event[np.lexsort(event.T)]
    return bool(len(event) > 1 and (event[1:] == event[:-1]).all(axis=1).any())
