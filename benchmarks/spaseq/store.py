"""SPAseQ without an engine: a SPARQL store for each event, and a list of runs.

Each event is loaded into the default graph of a pyoxigraph store, next to the background knowledge,
and asked a SPARQL query for each graph pattern. The solutions go to a list of runs (`runs`). Both
sides begin with N-Quads, and must find as many matches.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from heapq import merge
from typing import Any, NamedTuple

from benchmarks.clock import race
from benchmarks.record import Case, Record, divide
from benchmarks.scale import BenchmarkScale
from benchmarks.spaseq.queries import WORKLOADS
from benchmarks.spaseq.runs import OfferedEvent, OfferedRow, RunList, read_value
from benchmarks.spaseq.stages import KNOWN
from benchmarks.spaseq.tables import NAME, STORE, STORE_OURS
from cernis.errors import CernisError
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.quads import import_oxigraph
from tools.cases.spaseq.sparql import write_graph_pattern

ASKED = (("market", ";"), ("cards", ","), ("cards", ";"), ("smart grid", ";"))
_TIME = "http://www.w3.org/ns/prov#generatedAtTime"


class _AskedPattern(NamedTuple):
    """A graph pattern as SPARQL, the reading of its solutions, and its streams."""

    reading: int
    streams: tuple[str, ...]
    names: tuple[str, ...]
    sparql: str


class StoreRuns:
    """A SPARQL store for each event, and a list of runs."""

    def __init__(self, text: str, background: Mapping[str, bytes] | None) -> None:
        self._ox = import_oxigraph()
        self.query = GraphQuery(text)
        self._store = self._ox.Store()
        for known in (background or {}).values():
            self._store.load(known, self._ox.RdfFormat.N_QUADS)
        linked, query = self.query.plan.linked, self.query.query
        self._asked = [
            self._ask(number, linked.alternatives[reading.alternative].gpms[0])
            for number, reading in enumerate(linked.readings)
        ]
        self._codes: dict[str, int] = {}
        self._values: list[Any] = []
        assert query.within is not None
        self._runs = RunList(query, linked, self._values, query.within, index=False)

    def _ask(self, reading: int, name: str) -> _AskedPattern:
        gpm = self.query.query.gpm(name)
        pattern = g.split_filters(gpm.pattern)[0]
        names = tuple(v for v in g.find_variables(pattern) if not v.startswith("_:"))
        shown = " ".join(f"?{v}" for v in names)
        sparql = f"SELECT DISTINCT {shown} WHERE {write_graph_pattern(pattern)}"
        return _AskedPattern(reading, gpm.streams, names, sparql)

    def count(self, streams: Mapping[str, bytes]) -> int:
        """Return the number of matches in some streams."""
        return len(list(self._runs.run(self._solve(streams))))

    def _solve(self, streams: Mapping[str, bytes]) -> Iterator[OfferedEvent]:
        """Yield the events in order of time, with the solutions of their patterns."""
        ox, last, moment, numbers = self._ox, None, 0, 0
        for at, stream, quads in merge(*(self._read(*one) for one in streams.items())):
            moment, last = moment + (at != last), at
            self._store.extend(ox.Quad(q.subject, q.predicate, q.object) for q in quads)
            event = OfferedEvent(moment, at, stream, {})
            for asked in self._asked:
                if stream in asked.streams:
                    for solution in self._store.query(asked.sparql):
                        bound = {v: self._code(str(solution[v])) for v in asked.names}
                        event.rows.setdefault(asked.reading, []).append(OfferedRow(numbers, bound))
                        numbers += 1
            self._store.clear_graph(ox.DefaultGraph())
            if event.rows:
                yield event

    def _read(self, stream: str, text: bytes) -> Iterator[tuple[int, str, list[Any]]]:
        """Yield the time, the stream and the quads of each event; its time stands before them."""
        at, quads = 0, list[Any]()
        for quad in self._ox.parse(text, self._ox.RdfFormat.N_QUADS):
            if quad.predicate.value == _TIME:
                if quads:
                    yield at, stream, quads
                moment = datetime.fromisoformat(quad.object.value)
                at, quads = int(moment.timestamp() * 1000) * 1_000_000, []
            else:
                quads.append(quad)
        yield at, stream, quads

    def _code(self, term: str) -> int:
        code = self._codes.setdefault(term, len(self._values))
        if code == len(self._values):
            self._values.append(read_value(term))
        return code


def measure_store(scale: BenchmarkScale) -> list[Record]:
    """Measure both from N-Quads to all matches, on small streams."""
    return [record for name, link in ASKED for record in _compare(scale, name, link)]


def _compare(scale: BenchmarkScale, name: str, link: str) -> list[Record]:
    workload, events = WORKLOADS[name], 4 * scale.spaseq_listed_events
    text = workload.query(workload.sequences[link], scale.spaseq_listed_windows[-1])
    streams, known = workload.streams(events), workload.make_background(KNOWN)
    found: dict[str, int] = {}

    def ask_store() -> float:
        runs = StoreRuns(text, known)
        begin = time.perf_counter()
        found[STORE] = runs.count(streams)
        return time.perf_counter() - begin

    def ask_engine() -> float:
        session = GraphQuery(text).session(background=known)
        begin = time.perf_counter()
        found[STORE_OURS] = session.collect(streams).write_jsonl(io.BytesIO())
        return time.perf_counter() - begin

    best = race({STORE: ask_store, STORE_OURS: ask_engine}, scale.rounds)
    if len(set(found.values())) > 1:
        raise CernisError(f"engine and SPARQL store disagree on the matches of {name} {link}")
    case: Case = {"query": name, "strategy": link}
    ratio = divide(best[STORE], best[STORE_OURS])
    return [
        *(Record(NAME, way, events / best[way], "events/s", case) for way in (STORE, STORE_OURS)),
        Record(NAME, "matches found", found[STORE], "matches", case),
        Record(NAME, "store to engine", ratio, "×", case),
    ]
