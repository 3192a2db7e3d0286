"""Solve graph patterns in Spark's Python workers, and recognize matches in the solutions.

Of batches, the first kind of task reads events and solves the graph patterns in each. Its rows say
which task reads them: the task of their key or of their cell of time, and also the task whose cell
begins within a window. On streams, tasks solve the patterns where events arrive
(`SolutionSpreader`), in any order; the solutions travel to the buckets of their keys, which log and
buffer solutions as they do rows of events. So a bucket that is restored never solves a pattern
again, whatever background knowledge has become since. The second kind of task, and a bucket, reads
the solutions in order of time, and runs the engine (`SolutionWork`).

An event may have several solutions, also in several buckets. One of its rows leads: it stands for
the event where events are counted or set aside.

A worker process reads background knowledge once, from its file or from the bytes that came with
the task, and caches it for later tasks.

Cost contract: parsing, and a few passes over the solutions. Matches leave as they are found. This
module does not import Spark: its input and output are iterators of Arrow batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import DataError
from cernis.events.batch import Int64s
from cernis.events.mistakes import did_you_mean
from cernis.pattern.spaseq import SpaseqQuery
from cernis.plan.graphs import GraphPlan
from cernis.plan.plan import Distribution
from cernis.rdf.exchange import STREAM as STREAM_NUMBER
from cernis.rdf.exchange import TS, SolutionFormat, SolutionWriter
from cernis.rdf.live_background import BackgroundContent, BackgroundFile
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.events import GraphEvents, encode_events
from cernis.rdf.reading.parts import FilePart, PartReader
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.session import GraphSession
from cernis.rdf.source import TableSource
from cernis.spark.rdf.files import Knowledge
from cernis.spark.rdf.layout import cell_length
from cernis.spark.rdf.versions import VersionFolder
from cernis.spark.streaming.task import find_batch
from cernis.work.columns import BUCKET, EVENT, LEAD, OWN, STREAM
from cernis.work.layout import Layout
from cernis.work.reading import AnswerForm, Recognizer, Work
from cernis.work.report import EngineState

LOW, HIGH = "@low", "@high"


@dataclass(frozen=True, kw_only=True)
class SolutionWork(Work):
    """A plan, its background, and how its answer looks; a tick is a nanosecond."""

    plan: GraphPlan
    background: Knowledge
    unit: str
    numeric_times: bool
    """Whether times are numbers, not dates."""
    layout: Layout
    tasks: int
    low: int = 0
    length: int = 1
    """Where the first cell of time begins, and how long each is."""
    form: AnswerForm = "events"
    placed: bool = False
    """Columns before those of the answer order the matches."""
    limit: int | None = None
    checkpoint: str | None = None
    """The checkpoint that has the versions of a live background."""

    def open(self, frozen: bytes | None = None) -> SolutionRecognizer:
        return SolutionRecognizer(self, frozen)

    @property
    def stream_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.plan.query.streams)

    def read_ticks(self, table: pa.Table) -> Int64s:
        return np.asarray(table.column(TS), np.int64)

    def select_events(self, table: pa.Table) -> pa.Table:
        own = super().select_events(table)
        return own.append_column(STREAM, own.column(STREAM_NUMBER))

    def split(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the solutions in tables that do not end within a timestamp."""
        held: list[pa.Table] = []
        for table in tables:
            times = np.asarray(table.column(TS))
            cut = int(np.searchsorted(times, times[-1]))
            if cut or (held and held[-1].column(TS)[-1].as_py() != times[0]):
                yield pa.concat_tables([*held, table.slice(0, cut)])
                held = []
            held.append(table.slice(cut))
        if held:
            yield pa.concat_tables(held)

    def open_session(self) -> GraphSession:
        live = self.checkpoint is not None
        source = TableSource(self.plan, self.unit, self.numeric_times, live=live)
        return GraphSession(self.plan, source)

    def solution_schema(self) -> pa.Schema:
        """Return the columns of the rows between the two kinds of tasks."""
        fields = list(SolutionFormat(self.plan, live=self.checkpoint is not None).schema)
        fields.append(pa.field(BUCKET, pa.int32()))
        if self.layout.distribution is Distribution.SLICED:
            fields.append(pa.field(OWN, pa.bool_()))
        return pa.schema(fields)


_solvers: dict[tuple[SpaseqQuery, Knowledge | str], SolutionWriter] = {}


def open_solver(work: SolutionWork, batch: int = 0) -> SolutionWriter:
    """Return the patterns and the background of a query, cached from the task before.

    A live background has the version that belongs to a micro-batch.
    """
    if work.checkpoint is not None:
        return _open_live_solver(work, work.checkpoint, batch)
    key = work.plan.query, work.background
    solver = _solvers.get(key)
    if solver is None:
        _solvers.clear()
        named: dict[Any, list[Any]] = {}
        for name, source in work.background:
            named.setdefault(name, []).append(source)
        sources: Any = named.get(None, []) if None in named else named
        solver = SolutionWriter(work.plan, sources or None)
        _solvers[key] = solver
    return solver


def _open_live_solver(work: SolutionWork, checkpoint: str, batch: int) -> SolutionWriter:
    files = tuple(BackgroundFile(name, str(path)) for name, path in work.background)
    folder, query = VersionFolder(checkpoint, files), work.plan.query

    def make(content: BackgroundContent) -> SolutionWriter:
        solver = SolutionWriter(work.plan, content)
        _solvers.clear()
        _solvers[query, content.version] = solver
        return solver

    version = folder.pin(batch, make).version
    return _solvers.get((query, version)) or make(folder.read(version))


# ------------------------------------------------------------------ solutions


def solve_parts(
    work: SolutionWork, parts: Sequence[FilePart], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the solutions in parts of files, which the rows name by number."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            solver = open_solver(work)
            reader = PartReader(parts[number], solver.terms)
            for events in reader:
                yield from _spread(work, solver, events, work.low, work.length)
                solver.forget(reader)


def solve_rows(work: SolutionWork, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the solutions in events that come as rows: stream, number, ts, triples."""
    for batch in batches:
        if not batch.num_rows:
            continue
        solver = open_solver(work)
        low, length = work.low, work.length
        if LOW in batch.schema.names:
            low, high = (batch.column(name)[0].as_py() for name in (LOW, HIGH))
            length = cell_length(work.layout.window or 0, high - low, work.tasks)
        events = encode_rows(work.stream_names, batch, solver.terms)
        yield from _spread(work, solver, events, low, length)
        solver.forget()


def encode_rows(names: Sequence[str], rows: pa.RecordBatch, terms: Terms) -> GraphEvents:
    """Return the events of rows, in their order; `names` are the streams of the query."""
    known = {name: i for i, name in enumerate(names)}
    streams = [known.get(name, -1) for name in rows.column("stream").to_pylist()]
    if -1 in streams:
        name = rows.column("stream")[streams.index(-1)].as_py()
        raise DataError(
            f"the query has no stream {name!r}{did_you_mean(str(name), names)}; "
            f"it has {', '.join(names)}"
        )
    triples = rows.column("triples")
    offsets = np.asarray(triples.offsets, np.int64)
    flat = triples.flatten()
    return encode_events(
        np.asarray(rows.column("ts"), np.int64),
        np.array(streams, np.int32),
        np.asarray(rows.column("number"), np.int64),
        offsets - offsets[0],
        (flat.field("s"), flat.field("p"), flat.field("o")),
        terms,
    )


def _spread(
    work: SolutionWork, solver: SolutionWriter, events: GraphEvents, low: int, length: int
) -> Iterator[pa.RecordBatch]:
    """Yield the solutions in events as rows, each with the task that reads it."""
    layout = work.layout
    batch, codes, _ = solver.write(events, ticks=layout.ticks)
    if not batch.num_rows:
        return
    if layout.distribution is Distribution.SLICED:
        yield from _spread_cells(work, batch, low, length)
        return
    buckets = hash_keys([codes[name] for name in layout.key], solver.terms, batch.num_rows)
    yield batch.append_column(BUCKET, pa.array((buckets % work.tasks).astype(np.int32)))


def hash_keys(key: Sequence[Codes], terms: Terms, rows: int) -> NDArray[np.int64]:
    """Hash the values of a key in each row, equally in every process; 0 where there is no key."""
    hashes = np.zeros(rows, np.uint64)
    for codes in key:
        hashes = hashes * np.uint64(31) + _hashes(codes, terms)
    return (hashes >> np.uint64(1)).astype(np.int64)


def _hashes(codes: Codes, terms: Terms) -> NDArray[np.uint64]:
    """Hash each term's text, equally in every process."""
    distinct, index = np.unique(codes, return_inverse=True)
    texts = terms.texts(distinct).to_pylist()
    hashes = [0 if text is None else zlib.crc32(text.encode()) for text in texts]
    found: NDArray[np.uint64] = np.array(hashes, np.uint64)[index]
    return found


def _spread_cells(
    work: SolutionWork, batch: pa.RecordBatch, low: int, length: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows for the tasks of their cells, and for the tasks of cells within a window after."""
    window = work.layout.window or 0
    times = np.asarray(batch.column(TS), np.int64) - low
    cells, inside = times // length, times % length
    own = batch.append_column(BUCKET, pa.array((cells % work.tasks).astype(np.int32)))
    yield own.append_column(OWN, pa.array(np.ones(len(cells), np.bool_)))
    soon = np.flatnonzero(inside >= length - window)
    if work.tasks > 1 and len(soon):
        once_more = batch.take(pa.array(soon))
        after = ((cells[soon] + 1) % work.tasks).astype(np.int32)
        once_more = once_more.append_column(BUCKET, pa.array(after))
        yield once_more.append_column(OWN, pa.array(np.zeros(len(soon), np.bool_)))


@dataclass(frozen=True)
class SolutionSpreader:
    """Solves the patterns in the events of a stream, and sends the solutions to their buckets."""

    work: SolutionWork
    buckets: tuple[int, ...]
    side_output: bool
    """Whether the event travels, as it came, with the row that leads."""

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        solver = open_solver(self.work, find_batch())
        for rows in table.to_batches():
            events = encode_rows(self.work.stream_names, rows, solver.terms)
            batch, codes, event = solver.write(events, ticks=self.work.layout.ticks)
            if batch.num_rows:
                key = [codes[name] for name in self.work.layout.key]
                hashes = hash_keys(key, solver.terms, batch.num_rows)
                buckets = np.array(self.buckets, np.int32)[hashes % len(self.buckets)]
                lead = np.zeros(batch.num_rows, np.bool_)
                lead[np.unique(event, return_index=True)[1]] = True
                lead &= event >= 0
                solved = pa.Table.from_batches([batch])
                if self.side_output:
                    whole = rows.column(EVENT).take(pa.array(np.where(lead, event, 0)))
                    solved = solved.append_column(EVENT, pc.if_else(pa.array(lead), whole, None))
                solved = solved.append_column(LEAD, pa.array(lead))
                yield solved.append_column(BUCKET, pa.array(buckets))
            solver.forget()


# -------------------------------------------------------------------- matches


class SolutionRecognizer(Recognizer):
    """The session over the solutions of a task, or of a bucket."""

    def __init__(self, work: SolutionWork, frozen: bytes | None = None) -> None:
        self.work, self.session = work, work.open_session()
        self.left = work.limit
        """How many more matches are wanted; None: any number."""
        if frozen is not None:
            self.session.thaw(frozen)

    @property
    def is_done(self) -> bool:
        return self.left == 0

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        for rows, own in _split_own(table):
            found = self.session.push(rows)
            if own and not self.is_done:
                yield from self._format(found)
            self.session.forget()

    def _format(self, found: GraphMatches) -> Iterator[pa.RecordBatch]:
        """Yield matches in the form of the answer."""
        work = self.work
        match work.form:
            case "count":
                count = found.count()
                counted = pa.RecordBatch.from_pydict({"count": [str(count)]})
                batches = iter([counted] if count else [])
            case "lines":
                batches = found.placed_lines(self.left)
            case "quads":
                batches = found.placed_quads(self.left)
            case _:
                listed = found.placed_batches if work.placed else found.batches
                batches = (_cast(batch, work.schema) for batch in listed(self.left))
        for batch in batches:
            yield batch
            self.left = None if self.left is None else self.left - batch.num_rows

    def replay(self, table: pa.Table) -> None:
        self.session.push(table)

    def forget(self) -> None:
        self.session.forget()

    def freeze(self) -> bytes:
        return self.session.freeze()

    def count_state(self) -> EngineState:
        feed = self.session.feed
        return EngineState(len(feed.builder.parts), feed.engine.records)


def _split_own(table: pa.Table) -> Iterator[tuple[pa.Table, bool]]:
    """Yield rows of a task's own cells, and rows of the window before them."""
    if OWN not in table.column_names:
        yield table, True
        return
    own = np.asarray(table.column(OWN))
    begins = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(own)]
    for begin, end in pairwise(begins):
        if begin < end:
            yield table.slice(begin, end - begin), bool(own[begin])


def _cast(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.RecordBatch:
    """Cast the columns to types that Spark has."""
    assert schema is not None
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_timestamp(column.type) and column.type != field.type:
            exact = np.asarray(column.cast(pa.int64()))
            whole = exact if pa.types.is_integer(field.type) else exact // 1000
            column = pa.array(whole).cast(field.type)
        columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def solution_answer_schema(work: SolutionWork) -> pa.Schema:
    """Return the columns of the answer, in types that Spark has."""
    if work.form == "count":
        return pa.schema([("count", pa.string())])
    if work.form in ("lines", "quads"):
        return pa.schema([("end", pa.int64()), ("place", pa.binary()), ("line", pa.string())])
    exact = work.placed
    fields = [pa.field("@end", pa.int64()), pa.field("@place", pa.binary())] if exact else []
    for field in work.open_session().matches([]).schema:
        if pa.types.is_timestamp(field.type):
            field = field.with_type(pa.int64() if exact else pa.timestamp("us", "UTC"))
        fields.append(field)
    return pa.schema(fields)
