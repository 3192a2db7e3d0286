"""Solutions to the rows that the engine reads: one for each way to match a step at a timestamp.

A step of one pattern has its solutions as rows; a step of several (`A & B`) has their join by
timestamp. A row knows its *reading*: which alternative of which step it is, and which of the
optional variables it binds.

Cost: a few passes over the solutions in NumPy. No Python per event or row; a dictionary lookup for
each distinct key of PARTITION BY in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cernis.engine.dag.records import NOTHING
from cernis.engine.linked.step import LinkedRows
from cernis.languages.spaseq.graphs import graph as g
from cernis.plan.linked import LinkedPlan
from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.terms import Codes
from cernis.rdf.solving.columns import ProgramColumn, keep_rows, plan_program
from cernis.rdf.solving.likeness import RowLikeness
from cernis.rdf.solving.solutions import (
    Solutions,
    arrange,
    drop_repeats,
    join_solutions,
    project,
)
from cernis.rdf.solving.terms.values import TermValues


class TimeWindow(NamedTuple):
    """How long a match may take, in nanoseconds; and where tumbling windows begin."""

    size: int | None
    origin: int | None = None

    def bounds(self, times: Int64s) -> Int64s:
        """Return the earliest start of a match that ends at each of these times."""
        if self.size is None:
            return np.full(len(times), NOTHING, np.int64)
        if self.origin is None:
            return times - self.size
        whole = (times - self.origin) // self.size * self.size
        return self.origin + np.maximum(whole, 0)


class StoredRows(NamedTuple):
    """The rows of a batch, as `cernis.rdf.solving.row_store` keeps them."""

    first: int
    """The number of the first row."""
    codes: Codes
    """A column for each variable of the automaton."""
    alternative: Codes
    event: Int64s
    """The numbers of a row's events, one for each pattern of its alternative, then -1."""
    time: Int64s


class _Way(NamedTuple):
    """An alternative of a step, with its condition compiled."""

    gpms: tuple[str, ...]
    names: tuple[str, ...]
    condition: ProgramColumn | None
    optional: tuple[str, ...]
    """The variables that tell its readings apart."""
    readings: Codes
    """By the bits of those that are bound."""
    repeats: bool
    """Whether two pairs of solutions may join to one row."""


class _RowTable(NamedTuple):
    codes: Codes
    event: Codes
    moment: Int64s
    reading: Codes


class RowBuilder:
    """Build the rows of a query, batch by batch."""

    def __init__(self, plan: LinkedPlan, values: TermValues, window: TimeWindow) -> None:
        query, linked = plan.query, plan.linked
        self.linked, self.window, self.values = linked, window, values
        self.partition = [linked.columns.index(name) for name in query.partition]
        self.parts: dict[tuple[int, ...], int] = {}
        """The number of each partition, by the codes of its key."""
        self.width = max(len(one.gpms) for one in linked.alternatives)
        self._certain = {
            gpm.name: frozenset(g.find_certain_variables(gpm.pattern)) for gpm in query.gpms
        }
        self._names = plan.patterns
        self._ways = [self._plan_way(a, query.source) for a in range(len(linked.alternatives))]
        alone = {way.gpms[0] for way in self._ways if len(way.gpms) == 1}
        self._only_joined = [name for name in self._names if name not in alone]
        """The patterns that are in no step alone: their solutions count as events of their
        partition also where `&` finds no partner."""
        self.rows = self.events = self.moments = 0
        self.likeness = RowLikeness(linked)

    def _plan_way(self, alternative: int, source: str) -> _Way:
        linked, one = self.linked, self.linked.alternatives[alternative]
        condition = None
        if one.own:
            condition = plan_program(g.AndExpression(one.own), one.names, self.values, source)
        numbers = [i for i, r in enumerate(linked.readings) if r.alternative == alternative]
        asked = frozenset().union(*(linked.readings[i].bound for i in numbers))
        optional = tuple(sorted(asked - one.certain))
        readings = np.full(1 << len(optional), -1, np.int32)
        for i in numbers:
            bound = linked.readings[i].bound
            readings[sum(1 << k for k, name in enumerate(optional) if name in bound)] = i
        patterns = [frozenset(self._names[gpm]) - self._certain[gpm] for gpm in one.gpms]
        repeats = len(one.gpms) > 1 and any(patterns)
        return _Way(one.gpms, one.names, condition, optional, readings, repeats)

    def build(
        self, events: GraphEvents, found: Mapping[str, Solutions]
    ) -> tuple[LinkedRows, StoredRows]:
        """Return the rows of a batch, from the solutions of each pattern in it.

        The batch must not end within a timestamp. Its triples are not read.
        """
        new = np.ones(events.size, np.int64)
        new[1:] = events.times[1:] != events.times[:-1]
        moments = np.cumsum(new) - 1
        tables = [self._build_table(way, found, moments) for way in self._ways]
        if self.partition:
            tables += [self._build_ticks(found[gpm], moments) for gpm in self._only_joined]
        columns = zip(*tables, strict=True)
        codes, event, moment, reading = map(np.concatenate, columns)
        order = np.argsort(moment, kind="stable")
        codes, event, moment, reading = codes[order], event[order], moment[order], reading[order]
        sizes = [len(table.moment) for table in tables]
        ways = np.arange(len(tables)).astype(np.int32) % np.int32(len(self._ways))
        alternative = np.repeat(ways, sizes)[order]
        time = events.times[event[:, 0]]
        rows = LinkedRows(
            reading,
            codes,
            moment + self.moments,
            time,
            self.window.bounds(time),
            self._number_parts(codes),
            self.likeness.number(alternative, reading, event, codes),
        )
        numbers = np.where(event >= 0, event.astype(np.int64) + self.events, -1)
        stored = StoredRows(self.rows, codes, alternative, numbers, time)
        self.rows += len(reading)
        self.events += events.size
        self.moments += int(new.sum())
        return rows, stored

    def _build_table(self, way: _Way, found: Mapping[str, Solutions], moments: Int64s) -> _RowTable:
        """Return the rows of one alternative."""
        values = self.values.update()
        whole = _add_event(found[way.gpms[0]], moments, 0)
        certain = self._certain[way.gpms[0]]
        for index, gpm in enumerate(way.gpms[1:], 1):
            more = _add_event(found[gpm], moments, index)
            whole = join_solutions(whole, more, certain & self._certain[gpm], values)
            certain |= self._certain[gpm]
        if way.condition is not None:
            operands = arrange(whole, way.names).codes
            whole = whole.take(keep_rows(way.condition, operands, self.values))
        columns = self.linked.columns
        whole = project(whole, (*columns, *map(_event_column, range(self.width))))
        if way.repeats:
            whole = drop_repeats(whole)
        codes, event = whole.codes[:, : len(columns)], whole.codes[:, len(columns) :]
        moment = whole.event.astype(np.int64)
        bits = np.zeros(len(codes), np.int64)
        for k, name in enumerate(way.optional):
            bits |= (codes[:, columns.index(name)] >= 0).astype(np.int64) << k
        return _RowTable(codes, event, moment, way.readings[bits])

    def _build_ticks(self, found: Solutions, moments: Int64s) -> _RowTable:
        """Return rows that begin nothing and move nothing."""
        codes = arrange(found, tuple(self.linked.columns)).codes
        event = np.full((len(codes), self.width), -1, np.int32)
        event[:, 0] = found.event
        reading = np.full(len(codes), len(self.linked.readings), np.int32)
        return _RowTable(codes, event, moments[found.event], reading)

    def _number_parts(self, codes: Codes) -> Codes:
        """Return the number of each row's partition."""
        if not self.partition or not len(codes):
            return np.zeros(len(codes), np.int32)
        distinct, inverse = np.unique(codes[:, self.partition], axis=0, return_inverse=True)
        known = [self.parts.setdefault(tuple(key), len(self.parts)) for key in distinct.tolist()]
        return np.array(known, np.int32)[inverse.reshape(-1)]


def _event_column(index: int) -> str:
    """Return the name of a column that holds an event: no variable has it."""
    return f"@{index}"


def _add_event(found: Solutions, moments: Int64s, index: int) -> Solutions:
    """Return solutions by timestamp, with their event as one more column."""
    codes = np.concatenate([found.codes, found.event.reshape(-1, 1)], axis=1)
    names = (*found.names, _event_column(index))
    return Solutions(names, moments[found.event].astype(np.int32), codes)
