"""Solutions between processes: solved in one, matched in another.

Solving needs one event at a time, in any order; recognition needs all of them in order of time. A
`SolutionWriter` solves events, in any number of processes, and writes the solutions as Arrow
tables. A `cernis.rdf.source.TableSource` reads such tables in order of time, for a session.
`SolutionFormat` is the format of the tables: a row for each solution, with its time, stream,
number, pattern, and the text of every variable.

Tables are smaller than events: they have solutions only, and of these the variables that another
step or the answer needs. Where the next timestamp of the streamset counts (`,`), a row without a
pattern stands for each timestamp without a solution.

Cost: a few passes in NumPy and Arrow over the rows; each distinct text of a batch is encoded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.plan.linked import LinkedPlan
from cernis.rdf.reading.background import load_background
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.live_background import BackgroundContent
from cernis.rdf.reading.terms import UNBOUND, CodeHolder, Codes, Terms
from cernis.rdf.solving.solutions import Solutions, SolvedBatch
from cernis.rdf.solving.solve import PatternSolver
from cernis.rdf.solving.terms.values import TermValues

TS, STREAM, NUMBER, GPM, VERSION = "ts", "stream", "number", "gpm", "background"
_MANY_TERMS = 1 << 20
_NO_GPM = -1


class WrittenSolutions(NamedTuple):
    """A table of solutions, with what its texts do not tell any more."""

    batch: pa.RecordBatch
    codes: dict[str, Codes]
    """The codes of each variable in the rows."""
    event: NDArray[np.int64]
    """The index of each row's event; -1: the row stands for a timestamp."""


class SolutionFormat:
    """Write the solutions of a query's patterns as a table, and read them.

    A row without a pattern is a timestamp without a solution. With a `live` background, rows have
    its version.
    """

    def __init__(self, plan: LinkedPlan, *, live: bool = False) -> None:
        self._names, self._live = plan.patterns, live
        self._variables = list(dict.fromkeys(v for names in self._names.values() for v in names))
        self.schema = pa.schema(
            [
                (TS, pa.int64()),
                (STREAM, pa.int32()),
                (NUMBER, pa.int64()),
                (GPM, pa.int32()),
                *((f"v{i}", pa.string()) for i in range(len(self._variables))),
                *([(VERSION, pa.string())] if live else []),
            ]
        )

    def write(
        self,
        events: GraphEvents,
        found: Mapping[str, Solutions],
        terms: Terms,
        *,
        ticks: bool,
        version: str | None = None,
    ) -> WrittenSolutions:
        """Return the table of some solutions, made with a version of a live background.

        With `ticks`, timestamps without a solution have a row as well.
        """
        tables = [found[gpm] for gpm in self._names]
        sizes = [len(table.event) for table in tables]
        event = np.concatenate([np.empty(0, np.int64), *(table.event for table in tables)])
        codes = {name: np.full(sum(sizes), UNBOUND, np.int32) for name in self._variables}
        upto = np.cumsum([0, *sizes])
        for i, table in enumerate(tables):
            for column, name in enumerate(table.names):
                codes[name][upto[i] : upto[i + 1]] = table.codes[:, column]
        times, streams = events.times[event], events.streams[event]
        numbers = events.numbers[event]
        kinds = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        if ticks:
            bare = np.setdiff1d(events.times, times)
            times = np.concatenate([times, bare])
            streams = np.concatenate([streams, np.zeros(len(bare), np.int32)])
            numbers = np.concatenate([numbers, np.full(len(bare), -1)])
            kinds = np.concatenate([kinds, np.full(len(bare), _NO_GPM, np.int32)])
            event = np.concatenate([event, np.full(len(bare), -1)])
            none = np.full(len(bare), UNBOUND, np.int32)
            codes = {name: np.concatenate([column, none]) for name, column in codes.items()}
        columns = [times, streams, numbers, kinds, *map(terms.repeated_texts, codes.values())]
        if self._live:
            columns.append(pa.array([version], pa.string()).take(pa.array(np.zeros_like(times))))
        batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=self.schema)
        return WrittenSolutions(batch, codes, event)

    def read(self, table: pa.Table, terms: Terms) -> tuple[SolvedBatch, pa.Array | None]:
        """Return the solutions of a table, whatever the order of its rows.

        With a live background, also the name of the version that each event was solved with.
        """
        times, numbers = (np.asarray(table.column(name), np.int64) for name in (TS, NUMBER))
        streams, kinds = (np.asarray(table.column(name), np.int32) for name in (STREAM, GPM))
        order = np.lexsort((kinds, numbers, streams, times))
        times, streams, numbers = times[order], streams[order], numbers[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = np.diff(times).astype(bool) | np.diff(streams).astype(bool)
        new[1:] |= np.diff(numbers).astype(bool)
        event = (np.cumsum(new) - 1).astype(np.int32)
        none, first = np.empty(0, np.int32), np.zeros(int(new.sum()) + 1, np.int64)
        events = GraphEvents(times[new], streams[new], numbers[new], first, none, none, none)
        codes = {
            name: _encode(table.column(f"v{i}"), terms)[order]
            for i, name in enumerate(self._variables)
        }
        kinds, found = kinds[order], {}
        for i, (gpm, names) in enumerate(self._names.items()):
            mine = np.flatnonzero(kinds == i)
            columns = [codes[name][mine] for name in names]
            own = np.stack(columns, axis=1) if columns else np.empty((len(mine), 0), np.int32)
            found[gpm] = Solutions(names, event[mine], np.ascontiguousarray(own))
        versions = None
        if self._live:
            column = table.column(VERSION).combine_chunks()
            versions = column.take(pa.array(order[new]))
        return SolvedBatch(events, found, np.zeros(events.size, np.int32)), versions


def _encode(column: pa.ChunkedArray, terms: Terms) -> Codes:
    """Return the codes of some texts; -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    known = np.append(terms.add(encoded.dictionary.to_pylist()), np.int32(UNBOUND))
    indices = encoded.indices.fill_null(len(known) - 1)
    codes: Codes = known[np.asarray(indices)]
    return codes


class SolutionWriter:
    """One end: solve the patterns of a query in events of any order, and write the solutions.

    A writer may serve any number of tasks, one after the other.
    """

    def __init__(self, plan: LinkedPlan, background: Any = None) -> None:
        """`background` is what `GraphQuery.run` takes, or a version of a live one."""
        self.terms = Terms()
        self._values = TermValues(self.terms)
        self._version: str | None = None
        if isinstance(background, BackgroundContent):
            self._version, graphs = background.version, background.load(self.terms)
        else:
            graphs = load_background(background, self.terms)
        self._solver = PatternSolver(plan, self._values, graphs)
        self._format = SolutionFormat(plan, live=self._version is not None)
        self._own_terms = self._terms_left = len(self.terms)

    def write(self, events: GraphEvents, *, ticks: bool) -> WrittenSolutions:
        """Return the solutions in some events as a table.

        With `ticks`, timestamps without a solution have a row as well.
        """
        found, version = self._solver.solve(events), self._version
        return self._format.write(events, found, self.terms, ticks=ticks, version=version)

    def forget(self, stream: CodeHolder | None = None) -> None:
        """Drop the terms that the reader of the stream does not need, if there are many."""
        if len(self.terms) <= max(_MANY_TERMS, 2 * self._terms_left):
            return
        held = stream.codes() if stream is not None else ()
        new_codes = self._values.keep_terms(self._own_terms, held)
        self._terms_left = len(self.terms)
        if stream is not None:
            stream.recode(new_codes)
