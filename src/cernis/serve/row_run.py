"""`HeldRowRun`: a run of SQL with MATCH_RECOGNIZE, and the ways to look at it.

The table has the rows of the statement. The timeline and *why not* are about its last clause: its
events are the rows of the clause's relation along the first expression of ORDER BY, and its matches
those of the clause. Where the statement is the clause alone, one row per match, a row of the table
opens its match.

DuckDB runs without files, network and settings, in a part of the worker's memory.

Cost contract: a run holds the rows of the clause and of the statement; the rest is as in `runs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.automata.rows.construct import ACCEPT
from cernis.errors import Diagnostic, QueryError
from cernis.integers import count_noun
from cernis.languages.sql.row_pattern import RowsPerMatch
from cernis.plan.rows.plan import RowPlan
from cernis.results.finding import Finding
from cernis.results.index_timeline import MOST_LANES, OTHER_TYPES, LanesBy
from cernis.results.trace_steps import TraceStep
from cernis.results.values import python_records
from cernis.run.rows.host import HostLimits
from cernis.run.rows.row_trace import FoundInterval, RowTrace
from cernis.run.rows.statement import SqlQuery
from cernis.serve.data import Axis, EventData, guess_type, to_number
from cernis.serve.failure import RequestError
from cernis.serve.runs import MOST_PAGE, HeldRun, name_row, select_equal
from cernis.views.automaton import DrawnEdge, DrawnState, lay_out
from cernis.views.timeline_index import FoundMatch, Lane, TimelineIndex

Positions = NDArray[np.int64]
_ROWS = "rows"
_MOST_STATES = 40
_NO_INTERVAL = ("start", "end", "start_row", "end_row", "start_number", "end_number")
_PLAIN = frozenset({"kind", "expressions", "from_"})
"""What a statement may have that is a clause alone."""


class HeldRowRun(HeldRun):
    """A run of SQL."""

    kind = "rows"

    def __init__(self, text: str, data: EventData, memory: int) -> None:
        super().__init__()
        if not text.strip():
            raise QueryError([Diagnostic("the query is empty")], text)
        self.query = SqlQuery(text)
        began = perf_counter()
        limits = HostLimits(memory=memory, threads=1, spills=False)
        self.trace = self.query.trace(data.tables, limits=limits) if self.query.plans else None
        if self.trace is None:
            self.result = self.query.run(data.tables, limits=limits)
        else:
            self.result = self.trace.result
        self.seconds = perf_counter() - began
        number = 0 if self.trace is None else len(self.trace.matches)
        if self.trace is not None and not self._is_plain:
            told = count_noun(number, "match", "matches")
            self.result.notes += (f"{told} of the clause are on the timeline",)
        self.time_unit = data.time_unit

    @property
    def _clause(self) -> RowTrace:
        if self.trace is None:
            raise RequestError("bad_request", "the statement has no MATCH_RECOGNIZE")
        return self.trace

    @property
    def _is_plain(self) -> bool:
        """Whether the rows of the statement are the matches of its clause, in order."""
        tree, plans = self.query.statement.query, self.query.plans
        used = {name for name, value in tree.args.items() if value}
        starred = len(tree.expressions) == 1 and tree.expressions[0].is_star
        alone = len(plans) == 1 and plans[0].clause.rows is RowsPerMatch.ONE
        return alone and starred and used <= _PLAIN and self._matches_agree

    @property
    def _matches_agree(self) -> bool:
        return self.trace is not None and len(self.trace.matches) == self.result.count()

    # --------------------------------------------------------------------- events

    @property
    def events(self) -> int:
        return 0 if self.trace is None else self.trace.rows.num_rows

    @cached_property
    def _axis(self) -> tuple[Axis, NDArray[np.float64]]:
        """The axis, and the time of each row of the clause."""
        plan, rows = self._clause.plan, self._clause.rows
        order = plan.clause.order
        name = order[0].tree.this.name.lower() if order else ""
        found = [one for one in rows.schema if one.name.lower() == name]
        kind = found[0].type if found else None
        usable = kind is not None and (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_timestamp(kind)
            or pa.types.is_date(kind)
        )
        if not usable or rows.column(found[0].name).null_count:
            return Axis("row", self.time_unit), np.arange(rows.num_rows, dtype=np.float64)
        axis = Axis.of(kind, self.time_unit)
        return axis, axis.numbers(rows.column(found[0].name))

    @cached_property
    def _by_time(self) -> Positions:
        """The row of the clause at each position."""
        if self.trace is None:
            return np.zeros(0, np.int64)
        return np.argsort(self._axis[1], kind="stable")

    @cached_property
    def _positions(self) -> Positions:
        """The position of each row of the clause."""
        positions = np.empty_like(self._by_time)
        positions[self._by_time] = np.arange(len(positions))
        return positions

    @property
    def span(self) -> dict[str, Any]:
        if not self.events:
            return {"from": 0, "to": 0, "unit": "row"}
        first, last = self._times([0, self.events - 1])
        return {"from": first, "to": last, "unit": self._axis[0].unit}

    def _times(self, rows: Sequence[int]) -> list[Any]:
        return [to_number(self._axis[1][self._by_time[row]]) for row in rows]

    @cached_property
    def _lanes(self) -> tuple[Positions, list[str]]:
        """The lane of each position by type, and the names of lanes."""
        rows = self._clause.rows
        column = guess_type(rows.schema)
        if column is None:
            return np.zeros(self.events, np.int64), [_ROWS]
        encoded = rows.column(column).cast(pa.string()).dictionary_encode().combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        names = encoded.dictionary.to_pylist()
        codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy()[self._by_time]
        if len(names) <= MOST_LANES:
            return codes, names
        return np.minimum(codes, MOST_LANES - 1), [*names[: MOST_LANES - 1], OTHER_TYPES]

    def list_events(self, rows: Sequence[int]) -> dict[str, Any]:
        asked = [row for row in rows[:MOST_PAGE] if 0 <= row < self.events]
        if not asked:
            return {"columns": [], "events": []}
        own = self._by_time[asked]
        taken = self._clause.rows.take(pa.array(own)).combine_chunks()
        records = python_records(taken.to_struct_array().combine_chunks())
        numbers = self._clause.numbers[own].tolist()
        codes, names = self._lanes
        events = [
            {
                "row": row,
                "name": name_row(number),
                "number": number,
                "stream": _ROWS,
                "type": names[codes[row]] if codes[row] >= 0 else None,
                "ts": time,
                "values": list(record.values()),
            }
            for row, number, time, record in zip(
                asked, numbers, self._times(asked), records, strict=True
            )
        ]
        return {"columns": taken.column_names, "events": events}

    def name_events(self, rows: Sequence[int]) -> list[str]:
        return [name_row(int(self._clause.numbers[self._by_time[row]])) for row in rows]

    @property
    def keys(self) -> list[str]:
        if self.trace is None:
            return []
        first = [part.tree.name.lower() for part in self.trace.plan.clause.partition]
        plain = [one.name for one in self.trace.rows.schema if not pa.types.is_nested(one.type)]
        return sorted(plain, key=lambda name: name.lower() not in first)

    def _select(self, key: str, value: str) -> Positions:
        chosen = select_equal(self._clause.rows.column(key), value)
        return np.flatnonzero(chosen[self._by_time])

    def _seek(self, number: int) -> int:
        return self._find_position(number)

    def _find_position(self, row: int) -> int:
        at = np.flatnonzero(self._clause.numbers == row)
        return int(self._positions[at[0]]) if len(at) else self.events

    # --------------------------------------------------------------------- result

    @property
    def words(self) -> str:
        return self.query.explain()

    @property
    def columns(self) -> list[str]:
        return list(self.result.schema.names)

    @property
    def variables(self) -> list[str]:
        return [] if self.trace is None else list(self.trace.plan.clause.variables)

    def _hold(self, match: FoundInterval) -> dict[str, list[int]]:
        """Return the positions of a match's rows, by variable."""
        held: dict[str, list[int]] = {}
        for row, name in zip(range(match.first, match.end), match.variables, strict=True):
            held.setdefault(name, []).append(int(self._positions[row]))
        return held

    def page(self, offset: int, limit: int) -> dict[str, Any]:
        shown = super().page(offset, limit)
        if self._is_plain:
            matches = self._clause.matches[offset : offset + len(shown["rows"])]
            for row, match in zip(shown["rows"], matches, strict=True):
                row |= self._locate(match)
        return shown

    def _locate(self, match: FoundInterval) -> dict[str, Any]:
        first, last = (int(self._positions[row]) for row in (match.first, match.end - 1))
        start, end = self._times([first, last])
        numbers = self._clause.numbers
        return {
            "start": start,
            "end": end,
            "start_row": first,
            "end_row": last,
            "start_number": int(numbers[match.first]),
            "end_number": int(numbers[match.end - 1]),
            "events": self._hold(match),
        }

    def _write_item(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict.fromkeys(_NO_INTERVAL), "values": list(item.values()), "events": {}}

    # ----------------------------------------------------------------- timeline

    @cached_property
    def _ends(self) -> tuple[Positions, Positions]:
        """The matches by their ends: which match, and where it ends."""
        lasts = np.array([match.end - 1 for match in self._clause.matches], np.int64)
        ends = self._positions[lasts]
        order = np.argsort(ends, kind="stable")
        return order, ends[order]

    def _index_timeline(self, lanes: LanesBy) -> TimelineIndex:
        if self.trace is None:
            none = np.zeros(0, np.int64)
            return TimelineIndex(np.zeros(0), none, "row", (), none, none, [0])
        axis, times = self._axis
        order, ends = self._ends
        distinct, counts = np.unique(ends, return_counts=True)
        lane_of, names = self._lanes
        if lanes == "type":
            shown = [Lane(name, np.flatnonzero(lane_of == i)) for i, name in enumerate(names)]
        else:
            holds = self.trace.holds[self._by_time]
            shown = [
                Lane(name, np.flatnonzero(h))
                for name, h in zip(self.variables, holds.T, strict=True)
            ]

        def find_matches(asked: Positions) -> list[FoundMatch]:
            firsts = np.searchsorted(ends, asked).tolist()
            held = (self._hold(self._clause.matches[order[first]]) for first in firsts)
            return [
                FoundMatch(end, tuple((name, tuple(rows)) for name, rows in one.items()))
                for end, one in zip(asked.tolist(), held, strict=True)
            ]

        return TimelineIndex(
            times=times[self._by_time],
            rows=np.arange(self.events),
            unit=axis.unit,
            lanes=tuple(shown[:MOST_LANES]),
            lane_of=lane_of if lanes == "type" else None,
            ends=distinct,
            counts=[0, *np.cumsum(counts).tolist()],
            find_matches=find_matches,
        )

    def timeline(
        self, start: float | None, stop: float | None, width: int, lanes: LanesBy
    ) -> dict[str, Any]:
        view = super().timeline(start, stop, width, lanes)
        for match in view["matches"]:  # the number of a match in the order of the clause
            match["index"] = str(int(self._ends[0][int(match["index"])]))
        return view

    # ------------------------------------------------------------------- looking

    def draw_automaton(self, *, counted: bool = False) -> dict[str, Any] | None:
        if self.trace is None or len(self.trace.plan.automaton.edges) > _MOST_STATES:
            return None
        return {**draw_row_automaton(self.trace.plan), "counted": 0}

    def _trace_step(self, row: int) -> TraceStep:
        raise RequestError("bad_request", "steps are shown for CEQL and SPAseQ")

    def _explain(self, rows: Sequence[int]) -> Finding:
        numbers = self._clause.numbers
        return self._clause.why(int(numbers[self._by_time[row]]) for row in rows)


def draw_row_automaton(plan: RowPlan) -> dict[str, Any]:
    """Return the automaton of a row pattern with positions for its states."""
    automaton = plan.automaton
    arrivals: dict[int, list[str]] = {}
    for edges in automaton.edges:
        for edge in edges:
            if edge.variable != ACCEPT:
                arrivals.setdefault(edge.target, []).append(automaton.variables[edge.variable])
    states = [
        DrawnState(
            f"after {' or '.join(dict.fromkeys(arrivals[i]))}" if i in arrivals else "start",
            initial=i == 0,
            final=any(edge.variable == ACCEPT for edge in edges),
        )
        for i, edges in enumerate(automaton.edges)
    ]
    drawn = dict.fromkeys(
        DrawnEdge(i, edge.target, automaton.variables[edge.variable])
        for i, edges in enumerate(automaton.edges)
        for edge in edges
        if edge.variable != ACCEPT
    )
    return lay_out(states, [*drawn]).to_dict()
