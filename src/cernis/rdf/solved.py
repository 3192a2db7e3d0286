"""Events whose graph patterns are solved elsewhere: solutions travel as text, and are matched here.

Solving needs an event alone, recognizing needs the order of all of them. `PatternSolver` does the
first, in any number of processes; `SolvedColumns` says how its solutions are written as a table
(one row each: time, stream, number, pattern, the text of every variable); `SolvedSession` reads
such tables in order of time and finds the matches.

What travels is less than the events: solutions only, and of these the variables that another
step or the answer asks for. Where the next timestamp of the streamset counts (`,`), a row without
a pattern stands for each timestamp that has no solution.

Cost: a few passes in NumPy and Arrow over the rows; each distinct text of a batch is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.rdf.matches import GraphMatches
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.background import load_background
from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.parts import PartReader
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms
from cernis.rdf.session import GraphRunOptions, GraphSession
from cernis.rdf.solving.rows import RowReader, Window
from cernis.rdf.solving.solve import Solutions
from cernis.rdf.solving.values import TermValues

__all__ = [
    "GPM",
    "NUMBER",
    "STREAM",
    "TS",
    "PatternSolver",
    "Solved",
    "SolvedColumns",
    "SolvedSession",
    "events_of_texts",
]

TS, STREAM, NUMBER, GPM = "ts", "stream", "number", "gpm"
_MANY_TERMS = 1 << 20
_NO_GPM = -1


class Solved(NamedTuple):
    """A batch of events in order, without their triples, and what was found in them."""

    events: GraphEvents
    found: Mapping[str, Solutions]


# ------------------------------------------------------------------- tables


class SolvedColumns:
    """How the solutions of a query's patterns are written as a table.

    A row without a pattern is a timestamp, and nothing else.
    """

    def __init__(self, reader: RowReader) -> None:
        self.names = reader.names
        self.gpms = list(self.names)
        self.variables = list(dict.fromkeys(v for names in self.names.values() for v in names))
        self.schema = pa.schema(
            [
                (TS, pa.int64()),
                (STREAM, pa.int32()),
                (NUMBER, pa.int64()),
                (GPM, pa.int32()),
                *((f"v{i}", pa.string()) for i in range(len(self.variables))),
            ]
        )

    def written(
        self, solved: Solved, terms: Terms, *, ticks: bool
    ) -> tuple[pa.RecordBatch, dict[str, Codes]]:
        """The table of some solutions, and the codes of each variable in its rows.

        With `ticks`, timestamps that have no solution are in it as well.
        """
        events, found = solved
        sizes = [len(found[gpm].event) for gpm in self.gpms]
        event = np.concatenate([np.empty(0, np.int32), *(found[g].event for g in self.gpms)])
        codes = {name: np.full(sum(sizes), UNBOUND, np.int32) for name in self.variables}
        upto = np.cumsum([0, *sizes])
        for i, gpm in enumerate(self.gpms):
            for column, name in enumerate(found[gpm].names):
                codes[name][upto[i] : upto[i + 1]] = found[gpm].codes[:, column]
        times, streams = events.times[event], events.streams[event]
        numbers = events.numbers[event]
        kinds = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        if ticks:
            bare = np.setdiff1d(events.times, times)
            times = np.concatenate([times, bare])
            streams = np.concatenate([streams, np.zeros(len(bare), np.int32)])
            numbers = np.concatenate([numbers, np.full(len(bare), -1)])
            kinds = np.concatenate([kinds, np.full(len(bare), _NO_GPM, np.int32)])
            none = np.full(len(bare), UNBOUND, np.int32)
            codes = {name: np.concatenate([held, none]) for name, held in codes.items()}
        columns = [times, streams, numbers, kinds, *map(distinct_texts(terms), codes.values())]
        batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=self.schema)
        return batch, codes

    def read(self, table: pa.Table, terms: Terms) -> Solved:
        """What a table says, whatever the order of its rows."""
        times, numbers = (np.asarray(table.column(name), np.int64) for name in (TS, NUMBER))
        streams, kinds = (np.asarray(table.column(name), np.int32) for name in (STREAM, GPM))
        order = np.lexsort((kinds, numbers, streams, times))
        times, streams, numbers = times[order], streams[order], numbers[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = np.diff(times).astype(bool) | np.diff(streams).astype(bool)
        new[1:] |= np.diff(numbers).astype(bool)
        event = (np.cumsum(new) - 1).astype(np.int32)
        events = _bare(times[new], streams[new], numbers[new])
        codes = {
            name: _codes(table.column(f"v{i}"), terms)[order]
            for i, name in enumerate(self.variables)
        }
        kinds, found = kinds[order], {}
        for i, gpm in enumerate(self.gpms):
            mine = np.flatnonzero(kinds == i)
            columns = [codes[name][mine] for name in self.names[gpm]]
            held = np.stack(columns, axis=1) if columns else np.empty((len(mine), 0), np.int32)
            found[gpm] = Solutions(self.names[gpm], event[mine], np.ascontiguousarray(held))
        return Solved(events, found)


def distinct_texts(terms: Terms) -> Any:
    """A function from codes to their texts that looks up each distinct one once."""

    def texts(codes: Codes) -> pa.StringArray:
        distinct, place = np.unique(codes, return_inverse=True)
        return terms.texts(distinct).take(pa.array(place))

    return texts


def _codes(column: pa.ChunkedArray, terms: Terms) -> Codes:
    """The codes of some texts; -1 where there is none."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    known = np.append(terms.add(encoded.dictionary.to_pylist()), np.int32(UNBOUND))
    places = encoded.indices.fill_null(len(known) - 1)
    codes: Codes = known[np.asarray(places)]
    return codes


def _bare(times: Int64s, streams: Codes, numbers: Int64s) -> GraphEvents:
    none = np.empty(0, np.int32)
    return GraphEvents(
        times, streams, numbers, np.zeros(len(times) + 1, np.int64), none, none, none
    )


def events_of_texts(
    times: Int64s,
    streams: Codes,
    numbers: Int64s,
    offsets: Int64s,
    triples: tuple[pa.StringArray, pa.StringArray, pa.StringArray],
    terms: Terms,
) -> GraphEvents:
    """Events whose triples come as texts, in any order: event i has those from offsets[i] on."""
    s, p, o = (terms.encode(texts) for texts in triples)
    event = np.repeat(np.arange(len(times)), np.diff(offsets))
    order = np.lexsort((o, s, p, event))
    event, s, p, o = event[order], s[order], p[order], o[order]
    new: NDArray[np.bool_] = np.ones(len(s), np.bool_)
    new[1:] = (event[1:] != event[:-1]) | (p[1:] != p[:-1])
    new[1:] |= (s[1:] != s[:-1]) | (o[1:] != o[:-1])
    first = np.searchsorted(event[new], np.arange(len(times) + 1))
    return GraphEvents(times, streams, numbers, first, s[new], p[new], o[new])


# ------------------------------------------------------------------- solving


class PatternSolver:
    """A query's graph patterns and its background knowledge, for events of any order.

    It may serve any number of tasks, one after the other.
    """

    def __init__(self, query: GraphQuery, background: Any = None) -> None:
        self.terms = Terms()
        self.values = TermValues(self.terms)
        graphs = load_background(background, self.terms) if background is not None else {}
        self.reader = RowReader(query.query, query.linked, self.values, graphs, Window(None))
        self.columns = SolvedColumns(self.reader)
        self._own = self._left = len(self.terms)

    def forget(self, stream: PartReader | None = None) -> None:
        """Lets go of the terms that nobody holds, if there are many; `stream` is being read."""
        if len(self.terms) <= max(_MANY_TERMS, 2 * self._left):
            return
        live = np.zeros(len(self.terms), np.bool_)
        live[: self._own] = True
        for codes in stream.codes() if stream is not None else ():
            live[codes] = True
        self.values.keep(live)
        moved = self.terms.keep(live)
        self._left = len(self.terms)
        if stream is not None:
            stream.recode(moved)

    def solve(self, events: GraphEvents) -> Solved:
        return Solved(events, self.reader.solve(events))


# --------------------------------------------------------------- recognizing


class _Foretold(Streamset):
    """Streams that are read elsewhere, of which it is known whether their times are numbers."""

    def __init__(self, counted: bool) -> None:
        self._counted = counted

    @property
    def counted(self) -> bool:
        return self._counted

    @property
    def skipped(self) -> dict[str, int]:
        return {}

    def codes(self) -> Iterator[Codes]:
        return iter(())

    def recode(self, new_codes: Codes) -> None:
        pass


class SolvedSession(GraphSession):
    """A run over solutions: tables in order of time, each of whole timestamps."""

    def __init__(self, query: GraphQuery, unit: str, counted: bool) -> None:
        asked = query.query
        known = dict.fromkeys(query.graph_names(), b"")  # nothing is solved here
        super().__init__(asked, query.linked, GraphRunOptions(), known or None, unit)
        self.streams = _Foretold(counted)
        self.columns = SolvedColumns(self.reader)

    def take(self, table: pa.Table) -> GraphMatches:
        """The matches that end in a table."""
        solved = self.columns.read(table, self.terms)
        first = self.reader.events
        rows, stored = self.reader.read_solved(*solved)
        self.store.add(stored, solved.events, first)
        parts = max(len(self.reader.parts), 1)
        found = self.engine.push(rows, self.values.current(), self.stack, parts)
        return self._matches(found)
