"""Runs that a worker holds: the matches of a query, and the ways to look at them.

A `HeldEventRun` is of CEQL or a conjunctive query, a `HeldLinkedRun` of SPAseQ. Both hold the
compact set of matches, not the matches: counts are exact at once, pages index into the set, and a
download is cut at a limit.

In a run, the `row` of an event is its position: its rank in the order of time over all streams.
People see its `name`, which has the number that the command line and Python give it.

Cost contract: a page, a sample and a picture cost what `Result.page`, `sample` and `timeline`
promise; nothing lists all matches.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import Diagnostic, QueryError, WarningNote
from cernis.events.column_types import value_type
from cernis.events.evaluation.attributes import attribute
from cernis.integers import write_integer
from cernis.plan.explain import Explanation
from cernis.rdf.matches import GraphMatch, GraphMatches, write_bound
from cernis.rdf.query import GraphQuery
from cernis.rdf.timeline import GraphEnds, GraphLanes, index_graphs
from cernis.rdf.trace.look import GraphTrace
from cernis.results.answers import Answer, Answers
from cernis.results.finding import Finding
from cernis.results.formats.columns import MatchFields
from cernis.results.groups import Groups, MatchGroup
from cernis.results.index_timeline import LanesBy, index_timeline
from cernis.results.match import Match
from cernis.results.matches import Matches
from cernis.results.result import Result
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet
from cernis.results.trace_steps import TraceStep
from cernis.results.values import python_records
from cernis.run.query import Query
from cernis.run.trace.look import Trace
from cernis.serve.check import KnownData, find_mistakes
from cernis.serve.data import EventData, to_number
from cernis.serve.download import WRITERS
from cernis.serve.failure import RequestError
from cernis.serve.rdf import COLUMNS, GraphData
from cernis.views.timeline_index import TimelineIndex

MOST_PAGE = 1000
_MOST_PICKED = 50
_SHOWN = 12
_NOT_FOLLOWED = "steps are shown for matches, not for groups and answers"
_KINDS = {Matches: "matches", Answers: "answers", Groups: "groups", GraphMatches: "graphs"}


class HeldRun(ABC):
    """A query that has run over some data, and its result."""

    result: Result[Any]
    seconds: float = 0.0

    def __init__(self) -> None:
        self._indexes: dict[LanesBy, TimelineIndex] = {}

    @property
    @abstractmethod
    def events(self) -> int:
        """How many events were read."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The plan in words."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the values of a match."""

    @property
    @abstractmethod
    def variables(self) -> list[str]:
        """The variables that hold events."""

    @property
    @abstractmethod
    def span(self) -> dict[str, Any]:
        """The first and the last time on the axis, and its unit."""

    @abstractmethod
    def list_events(self, rows: Sequence[int]) -> dict[str, Any]:
        """Return the values of some events."""

    @abstractmethod
    def name_events(self, rows: Sequence[int]) -> list[str]:
        """Return the names of some events, as the command line and Python number them."""

    @property
    @abstractmethod
    def keys(self) -> list[str]:
        """The columns of events by whose values they can be found, the likeliest first."""

    @property
    def partition(self) -> list[str]:
        """The components of PARTITION BY."""
        return []

    @abstractmethod
    def _select(self, key: str, value: str) -> NDArray[np.int64]:
        """Return the events that have a value, which is written as text, in one of the `keys`."""

    @abstractmethod
    def _seek(self, number: int) -> int:
        """Return the position of the event with a number, or of one with the next number."""

    @abstractmethod
    def _write_item(self, item: Any) -> dict[str, Any]:
        """Return one match as a row of the table."""

    @property
    def kind(self) -> str:
        """What the result holds."""
        return "counts" if self.result.counting else _KINDS[type(self.result)]

    def summarize(self) -> dict[str, Any]:
        """Return what the page shows first."""
        return {
            "kind": self.kind,
            "events": self.events,
            "count": write_integer(self.result.count()),
            "rows": write_integer(len_of(self.result)),
            "seconds": round(self.seconds, 4),
            "notes": [
                {"text": str(note), "code": note.code if isinstance(note, WarningNote) else ""}
                for note in self.result.notes
            ],
            "partial": self.result.partial,
            "columns": self.columns,
            "variables": self.variables,
            "keys": self.keys,
            "partition": self.partition,
            "plan": read_plan(self.words),
            "automaton": self.draw_automaton(),
            "time": self.span,
        }

    @abstractmethod
    def draw_automaton(self, *, counted: bool = False) -> dict[str, Any] | None:
        """Return the automaton with positions for its states; None if there is none to draw.

        `counted`: also how often edges were taken, over how many of the first events.
        """

    @abstractmethod
    def _trace_step(self, row: int) -> TraceStep:
        """Return what an event did; its rows are those of the trace."""

    @abstractmethod
    def _explain(self, rows: Sequence[int]) -> Finding:
        """Return why events are no match; its rows are those of the trace."""

    @abstractmethod
    def _find_position(self, row: int) -> int:
        """Return the position of a row of the trace."""

    @abstractmethod
    def _times(self, rows: Sequence[int]) -> list[Any]:
        """Return the times of some events on the axis."""

    def step(self, row: int) -> dict[str, Any]:
        """Return what an event did, and which partial matches wait after it."""
        if not 0 <= row < self.events:
            raise RequestError("not_found", "there is no such event")
        found = self._trace_step(row)
        described = self.list_events([row])
        return {
            "row": row,
            "event": {"columns": described["columns"], **described["events"][0]},
            "states": [
                {
                    "state": one.state,
                    "partial": write_integer(one.partial),
                    "since": self._times([self._find_position(one.since)])[0],
                }
                for one in found.states
            ],
            "taken": [
                {"edge": one.edge, "from": one.source, "to": one.target, "label": one.label}
                for one in found.taken
            ],
            "waiting": [
                self._write_example(one.state, one.example) for one in found.states if one.example
            ],
            "completed": write_integer(found.completed),
            "partition": self._find_partition(row),
            "whole": found.whole,
            "exact": found.exact,
        }

    def _write_example(self, state: int, marks: Sequence[tuple[int, str]]) -> dict[str, Any]:
        """Return a partial match that waits in a state."""
        marked = [(self._find_position(row), name) for row, name in marks]
        shown = marked[:_SHOWN]
        names = self.name_events([row for row, _ in shown])
        text = ", ".join(f"{name}: {event}" for event, (_, name) in zip(names, shown, strict=True))
        more = ", …" if len(marked) > _SHOWN else ""
        return {"state": state, "events": [row for row, _ in marked], "text": text + more}

    def _find_partition(self, row: int) -> dict[str, Any] | None:
        """Return the partition that a step looks into, with the neighbours of its event there.

        None: the stream is not split.
        """
        return None

    def explain_rows(self, rows: Sequence[int]) -> dict[str, Any]:
        """Return whether some events are a match, and if not, what is in their way."""
        asked = [row for row in rows[:_MOST_PICKED] if 0 <= row < self.events]
        found = self._explain(asked)
        stopped = None if found.stopped_at is None else self._find_position(found.stopped_at)
        positions = [self._find_position(step.row) for step in found.steps]
        return {
            "matches": found.matches,
            "steps": [
                {**step._asdict(), "row": row, "name": name}
                for step, row, name in zip(
                    found.steps, positions, self.name_events(positions), strict=True
                )
            ],
            "stopped_at": stopped,
            "text": str(found),
        }

    @abstractmethod
    def _index_timeline(self, lanes: LanesBy) -> TimelineIndex:
        """Return the events and the ends of matches along time."""

    def timeline(
        self, start: float | None, stop: float | None, width: int, lanes: LanesBy
    ) -> dict[str, Any]:
        """Return what a picture of an interval shows; the first call makes an index."""
        if lanes not in self._indexes:
            index = self._index_timeline(lanes)
            self._indexes[lanes] = replace(index, rows=np.arange(len(index.times)))
        view = self._indexes[lanes].view(start, stop, width).to_dict()
        marks = [mark for match in view["matches"] for mark in match["marks"]]
        events: list[dict[str, Any]] = [*view["events"], *marks]
        for event, name in zip(events, self.name_events([e["row"] for e in events]), strict=True):
            event["name"] = name
        return view

    def find_events(
        self, offset: int, limit: int, key: str, value: str, number: int | None
    ) -> dict[str, Any]:
        """Return a page of the events in the order of time, or of those with a value in a key.

        With `number` the page begins there, or where that event would be.
        """
        if key and key not in self.keys:
            raise RequestError("not_found", f"these events have no column {key}")
        every = self._select(key, value) if key else np.arange(self.events)
        if number is not None:
            offset = int(np.searchsorted(every, self._seek(number)))
        first = max(0, min(offset, len(every) - 1))
        page = every[first : first + min(limit, MOST_PAGE)].tolist()
        return {**self.list_events(page), "offset": first, "total": len(every)}

    def page(self, offset: int, limit: int) -> dict[str, Any]:
        """Return the matches from `offset` on."""
        items = self.result.page(offset, min(limit, MOST_PAGE))
        return self._write_page([(offset + i, item) for i, item in enumerate(items)])

    def sample(self, n: int, seed: int | None) -> dict[str, Any]:
        """Return some matches, each set of so many equally likely."""
        items = self.result.sample(min(n, MOST_PAGE), seed)
        return self._write_page([(None, item) for item in items])

    def _write_page(self, items: Sequence[tuple[int | None, Any]]) -> dict[str, Any]:
        rows = [
            {"index": None if index is None else write_integer(index), **self._write_item(item)}
            for index, item in items
        ]
        return {"total": write_integer(len_of(self.result)), "columns": self.columns, "rows": rows}

    def download(self, path: Path, form: str, most: int, size: int) -> dict[str, Any]:
        """Write the first matches to a file of about a size at most; return how many there are."""
        return {
            "written": WRITERS[form](self.result, path, most, size),
            "total": write_integer(len_of(self.result)),
        }


def len_of(result: Result[Any]) -> int:
    """Return how many rows a result has: of SELECT COUNT(*) alone, how many ends."""
    return len(result) if result.counting else result.count()


def read_plan(words: str) -> dict[str, Any]:
    """Return the plan in words, with its class and cost by themselves."""
    lines = words.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("class ")), None)
    described: list[str] = []
    if first is not None:
        described = [lines[first][13:]]
        for line in lines[first + 1 :]:
            if not line.startswith(" "):
                break
            described.append(line[13:])
    return {"words": words, "class": described[0] if described else "", "cost": described[1:]}


class HeldEventRun(HeldRun):
    """A run of CEQL or of a conjunctive query."""

    def __init__(self, language: str, text: str, data: EventData) -> None:
        super().__init__()
        known = KnownData.of(data.write_schema())
        if mistakes := find_mistakes(language, text, known):
            raise QueryError(mistakes, text)
        schema = known.arguments() if known is not None and language == "cq" else None
        self.query: Query[Any] = Query(text, lang=language, schema=schema)
        self.data = data
        tables = {join.table for join in self.query.pattern.joins}
        self.joined = {name: data.tables[name] for name in tables if name in data.tables}
        self.streams = {n: table for n, table in data.tables.items() if n not in self.joined}
        began = perf_counter()
        self.session = self.query.session(**data.reading, tables=self.joined)
        self.result = self.session.collect(self.streams)
        self.result.count()
        self.seconds = perf_counter() - began
        self.axis = data.axis

    @property
    def events(self) -> int:
        return self.session.events

    @property
    def words(self) -> str:
        return str(self.query.explain())

    @property
    def columns(self) -> list[str]:
        match self.result:
            case Matches():
                counted = ["COUNT(*)"] if self.result.counting else []
                return [*self.fields.keys, *(term.name for term in self.fields.terms), *counted]
            case Answers():
                return list(self.result.names)
        return list(self.result.schema.names)

    @property
    def fields(self) -> MatchFields:
        """The columns of matches."""
        return MatchFields.of(self.query.pattern, self.session.plan.variables)

    @property
    def variables(self) -> list[str]:
        return self.fields.shown if isinstance(self.result, Matches) else []

    @property
    def span(self) -> dict[str, Any]:
        if not self.events:
            return {"from": 0, "to": 0, "unit": self.axis.unit}
        first, last = self._times([0, self.events - 1])
        return {"from": first, "to": last, "unit": self.axis.unit}

    def _times(self, rows: Sequence[int]) -> list[Any]:
        if self.axis.unit == "row":
            return list(rows)
        column = self.session.store.times(np.asarray(rows, np.int64))
        return [to_number(value) for value in self.axis.numbers(column)]

    def list_events(self, rows: Sequence[int]) -> dict[str, Any]:
        store = self.session.store
        asked = [row for row in rows[:MOST_PAGE] if 0 <= row < self.events]
        positions = np.array(asked, np.int64)
        records = python_records(store.structs(positions)) if asked else []
        numbers = store.rows(positions).tolist() if asked else []
        streams = [store.stream_at(row) for row in asked]
        columns = list(records[0]) if records else []
        times = self._times(asked) if asked else []
        events = [
            {
                "row": row,
                "name": name_row(number),
                "number": number - self._first_rows[stream],
                "stream": stream,
                "type": record.get(self.session.options.type_column),
                "ts": time,
                "values": list(record.values()),
            }
            for row, number, stream, time, record in zip(
                asked, numbers, streams, times, records, strict=True
            )
        ]
        return {"columns": columns, "events": events}

    def name_events(self, rows: Sequence[int]) -> list[str]:
        return [name_row(row) for row in self.session.store.rows(np.array(rows, np.int64))]

    @property
    def keys(self) -> list[str]:
        plain = (
            column.name
            for table in self.data.tables.values()
            for column in table.schema
            if not pa.types.is_nested(column.type)
        )
        return list(dict.fromkeys([*chain(*self.query.pattern.partition), *plain]))

    @property
    def partition(self) -> list[str]:
        return list(self.query.pattern.components)

    def _select(self, key: str, value: str) -> NDArray[np.int64]:
        def compare(_: str, table: pa.Table) -> NDArray[np.bool_]:
            column = attribute(table, tuple(key.split(".")))
            if column is None:
                return np.zeros(table.num_rows, np.bool_)
            return select_equal(column, value)

        batches = self.session.store.stored_batches()
        marks = [batch.interleave(compare) for batch in batches]
        return np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *marks]))

    def _seek(self, number: int) -> int:
        at = int(np.searchsorted(self._rows, number, sorter=self._by_row))
        return int(self._by_row[at]) if at < self.events else self.events

    @cached_property
    def _first_rows(self) -> dict[str, int]:
        """The row of the first event of each stream: rows count on from one to the next."""
        given = list(self.data.tables.items())
        names = self.query.pattern.streams
        if len(given) == len(names) == 1:
            return {names[0]: 0}
        order = [(name, self.data.tables[name]) for name in names] or given
        rows = [table.num_rows for _, table in order]
        firsts = accumulate(rows, initial=0)
        return {name: first for (name, _), first in zip(order, firsts, strict=False)}

    @cached_property
    def _trace(self) -> Trace:
        if not isinstance(self.result, Matches):
            raise RequestError("bad_request", _NOT_FOLLOWED)
        return self.query.trace(self.result)

    def draw_automaton(self, *, counted: bool = False) -> dict[str, Any] | None:
        drawn = self._trace.automaton() if counted else Explanation(self.session.plan).automaton()
        if drawn is None:
            return None
        return {**drawn.to_dict(), "counted": self._trace.counted if counted else 0}

    def _trace_step(self, row: int) -> TraceStep:
        return self._trace.step(int(self._rows[row]))

    def _find_partition(self, row: int) -> dict[str, Any] | None:
        if not self.query.pattern.partition:
            return None
        events = self._trace.events
        members = events.list_members(row)
        before, after = members[members < row][-1:].tolist(), members[members > row][:1].tolist()
        return {
            "key": events.write_key(row),
            "before": before[0] if before else None,
            "after": after[0] if after else None,
        }

    def _explain(self, rows: Sequence[int]) -> Finding:
        return self._trace.why(int(self._rows[row]) for row in rows)

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """The row of the input of each event, by position."""
        return self.session.store.rows(np.arange(self.events))

    @cached_property
    def _by_row(self) -> NDArray[np.int64]:
        return np.argsort(self._rows, kind="stable")

    def _find_position(self, row: int) -> int:
        return self._seek(row)

    def _index_timeline(self, lanes: LanesBy) -> TimelineIndex:
        if isinstance(self.result, Matches):
            return self.result.timeline_index(lanes)
        formula = self.query.pattern.formula
        return index_timeline(self.session.store, formula, ListedMatches((), []), lanes, show=False)

    def page(self, offset: int, limit: int) -> dict[str, Any]:
        shown = super().page(offset, limit)
        return self._add_marks(shown, lambda found: found.page(offset, min(limit, MOST_PAGE)))

    def sample(self, n: int, seed: int | None) -> dict[str, Any]:
        seed = secrets.randbits(32) if seed is None else seed
        shown = super().sample(n, seed)
        return self._add_marks(shown, lambda found: found.sample(min(n, MOST_PAGE), seed))

    def write_match(self, match: Match) -> dict[str, Any]:
        """Return one match as a row of the table, with its events."""
        held = {name: list(positions) for name, positions in match.positions.items()}
        return {"index": None, **self._write_item(match), "events": _add_ends(held, match.interval)}

    def _add_marks(
        self, shown: dict[str, Any], take: Callable[[MatchSet], MatchBlock]
    ) -> dict[str, Any]:
        """Add the events that are known of each match, also where SELECT has values alone.

        Without a variable are the first and the last event, if no variable holds them.
        """
        if not isinstance(self.result, Matches) or self.result.counting:
            return shown
        block, names = take(self.result.match_set), self.result.match_set.variables
        for i, row in enumerate(shown["rows"]):
            held = {
                name: block.positions[v][block.offsets[v][i] : block.offsets[v][i + 1]].tolist()
                for v, name in enumerate(names)
            }
            row["events"] = _add_ends(held, (int(block.start[i]), int(block.end[i])))
        return shown

    def _write_item(self, item: Match | Answer | MatchGroup) -> dict[str, Any]:
        if isinstance(item, Answer):
            return {**self._no_interval(), "values": list(item.values.values()), "events": {}}
        if isinstance(item, MatchGroup):
            values = [*item.time.values(), *item.partition.values(), *item.values.values()]
            return {**self._no_interval(), "values": values, "events": {}}
        first, last = item.interval
        start, end = self._times([first, last])
        values = [*item.partition.values(), *item.values.values()]
        more = {"deadline": item.deadline_ts} if item.deadline_ts is not None else {}
        if item.suppressed is not None:
            more["suppressed"] = item.suppressed
        at = {"start": start, "end": end, "start_row": first, "end_row": last}
        numbers = {"start_number": item.start, "end_number": item.end}
        return {**at, **numbers, **more, "values": values, "events": {}}

    def _no_interval(self) -> dict[str, Any]:
        return dict.fromkeys(("start", "end", "start_row", "end_row", "start_number", "end_number"))


class HeldLinkedRun(HeldRun):
    """A run of SPAseQ."""

    result: GraphMatches

    def __init__(self, text: str, data: GraphData) -> None:
        super().__init__()
        self.query = GraphQuery(text)
        self.data = data
        self.names = data.assign(self.query)
        streams = {name: data.streams[own] for name, own in self.names.items()}
        missing = [name for name in self.query.plan.background if name not in data.background]
        if missing:
            raise QueryError(
                [Diagnostic(f"no background graph <{missing[0]}> comes with these streams")], text
            )
        began = perf_counter()
        background = {name: data.background[name] for name in self.query.plan.background}
        self._streams, self._background = streams, background or None
        self.result = self.query.run(streams, background=self._background)
        self.result.count()
        self.seconds = perf_counter() - began

    @property
    def events(self) -> int:
        return self.data.events.size

    @property
    def words(self) -> str:
        return str(self.query.explain())

    @property
    def columns(self) -> list[str]:
        return [name for name in self.result.schema.names if name not in _OWN]

    @property
    def variables(self) -> list[str]:
        return list(self.names)

    @property
    def span(self) -> dict[str, Any]:
        times = self.data.times
        first, last = (times[0], times[-1]) if len(times) else (0.0, 0.0)
        return {"from": to_number(first), "to": to_number(last), "unit": self.data.axis.unit}

    def list_events(self, rows: Sequence[int]) -> dict[str, Any]:
        data, names = self.data, list(self.data.streams)
        events = []
        for row in rows[:MOST_PAGE]:
            if not 0 <= row < data.events.size:
                continue
            stream, number = names[data.events.streams[row]], int(data.events.numbers[row])
            values = [stream, number, data.write_time(row), data.triples(row)]
            at = {"row": row, "number": number, "stream": stream, "type": stream}
            at |= {"name": self.name_events([row])[0]}
            events.append({**at, "ts": to_number(data.times[row]), "values": values})
        return {"columns": ["stream", *COLUMNS], "events": events}

    def name_events(self, rows: Sequence[int]) -> list[str]:
        named = (
            self._name_graph(row) or (self._stream_of(row), int(self.data.events.numbers[row]))
            for row in rows
        )
        return [f"{stream} {number}" for stream, number in named]

    @property
    def keys(self) -> list[str]:
        return ["triples", "stream"]

    def _select(self, key: str, value: str) -> NDArray[np.int64]:
        """Return the graphs of a stream, or those whose triples hold a text."""
        if key == "stream":
            found = (self._stream_of(row) == value for row in range(self.events))
        else:
            found = (value in self.data.triples(row) for row in range(self.events))
        return np.flatnonzero(np.fromiter(found, np.bool_, self.events))

    def _seek(self, number: int) -> int:
        return number

    @cached_property
    def _trace(self) -> GraphTrace:
        return self.query.trace(self._streams, background=self._background)

    def draw_automaton(self, *, counted: bool = False) -> dict[str, Any]:
        drawn = self._trace.automaton() if counted else self.query.explain().automaton()
        return {**drawn.to_dict(), "counted": self._trace.counted if counted else 0}

    def _trace_step(self, row: int) -> TraceStep:
        """Return what a graph did; one of a stream that the query does not read does nothing."""
        streams = list(self.data.streams)
        own = [streams.index(name) for name in self.names.values()]
        before = np.flatnonzero(np.isin(self.data.events.streams[: row + 1], own))
        graph = self._name_graph(int(before[-1])) if len(before) else None
        if graph is None:
            return TraceStep(row, {}, (), (), 0, True, True)
        found = self._trace.step(graph)
        return found if before[-1] == row else found._replace(taken=(), completed=0)

    def _explain(self, rows: Sequence[int]) -> Finding:
        graphs = []
        for row in rows:
            if (graph := self._name_graph(row)) is None:
                stream = self._stream_of(row)
                raise RequestError("data", f"the query does not read the stream {stream}")
            graphs.append(graph)
        return self._trace.why(graphs)

    def _stream_of(self, row: int) -> str:
        return list(self.data.streams)[int(self.data.events.streams[row])]

    def _name_graph(self, row: int) -> tuple[str, int] | None:
        """Return the stream of the query that a graph is of, and its number in it."""
        own = {own: name for name, own in self.names.items()}.get(self._stream_of(row))
        return None if own is None else (own, int(self.data.events.numbers[row]))

    def _find_position(self, row: int) -> int:
        stream, number = self._trace.name_graph(row)
        return int(self.data.positions[self.names[stream]][number])

    def _times(self, rows: Sequence[int]) -> list[Any]:
        return [to_number(self.data.times[row]) for row in rows]

    def _index_timeline(self, lanes: LanesBy) -> TimelineIndex:
        """Return the index; a lane is a stream, of the data or as the query calls it."""
        data, events = self.data, self.data.events
        names = {own: name for name, own in self.names.items()}
        shown = [names.get(own, own) if lanes == "variable" else own for own in data.streams]
        along = GraphLanes(events.times, data.times, data.axis.unit, events.streams, shown)
        ends = GraphEnds(*self.result.count_times(), self._find_page, self._hold)
        return index_graphs(along, ends)

    def _find_page(self, number: int) -> list[GraphMatch]:
        return self.result.page(number, 1)

    def _hold(self, item: GraphMatch) -> dict[str, list[int]]:
        """Return the rows of a match's events, by stream."""
        held: dict[str, list[int]] = {}
        for stream, number in item.events:
            row = int(self.data.positions[self.names[stream]][number])
            held.setdefault(stream, []).append(row)
        return held

    def _write_item(self, item: GraphMatch) -> dict[str, Any]:
        held = self._hold(item)
        rows = sorted(row for several in held.values() for row in several)
        found = [item.bindings.get(name) for name in self.columns]
        values = [None if value is None else write_bound(value) for value in found]
        times = self.data.times
        return {
            "start": to_number(times[rows[0]]),
            "end": to_number(times[rows[-1]]),
            "start_row": rows[0],
            "end_row": rows[-1],
            "start_number": None,
            "end_number": None,
            "values": values,
            "events": held,
        }


_OWN = ("start_ts", "end_ts", "events")


def _add_ends(held: dict[str, list[int]], interval: tuple[int, int]) -> dict[str, list[int]]:
    """Add the first and the last event under no variable, if no variable holds them."""
    known = set(chain(*held.values()))
    others = [position for position in dict.fromkeys(interval) if position not in known]
    return {**held, "": others} if others else held


def name_row(number: int) -> str:
    return f"row {number}"


def select_equal(column: pa.ChunkedArray, text: str) -> NDArray[np.bool_]:
    """Return which values of a column are the one that is written as text."""
    wanted = _read_value(text, value_type(column.type))
    if wanted is None:
        return np.zeros(len(column), np.bool_)
    equal = pc.equal(column.cast(wanted.type), wanted)
    return np.asarray(pc.fill_null(equal, False).to_numpy(), np.bool_)


def _read_value(text: str, type_: pa.DataType) -> pa.Scalar | None:
    """Return a value that is written as text; None where no value of the type is written so.

    >>> _read_value("7", pa.float64()), _read_value("x", pa.int64())
    (<pyarrow.DoubleScalar: 7.0>, None)
    """
    try:
        return pa.scalar(text).cast(type_)
    except pa.ArrowException:
        return None
