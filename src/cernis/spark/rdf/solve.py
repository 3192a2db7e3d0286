"""Solve graph patterns in Spark's Python workers.

Of batches, the first kind of task reads events and solves the graph patterns in each. Its rows say
which task reads them: the task of their key or of their cell of time, and also the task whose cell
begins within a window. On streams, tasks solve the patterns where events arrive
(`SolutionSpreader`), in any order; the solutions travel to the buckets of their keys, which log and
buffer solutions as they do rows of events. So a bucket that is restored never solves a pattern
again, whatever background knowledge has become since. The second kind of task, and a bucket, reads
the solutions in order of time, and runs the engine (`work.rdf`).

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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.languages.spaseq.query import SpaseqQuery
from cernis.plan.plan import Distribution
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.live_background import BackgroundContent, BackgroundFile
from cernis.rdf.reading.parts import FilePart, PartReader
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.solving.exchange import TS, SolutionFormat, SolutionWriter
from cernis.spark.rdf.files import Knowledge
from cernis.spark.rdf.layout import cell_length
from cernis.spark.rdf.versions import VersionFolder
from cernis.spark.streaming.task import find_batch
from cernis.work.columns import BUCKET, EVENT, LEAD, OWN
from cernis.work.layout import Layout
from cernis.work.rdf import GraphWork, encode_rows

LOW, HIGH = "@low", "@high"


@dataclass(frozen=True, kw_only=True)
class SolutionWork(GraphWork):
    """The work on solutions, and how tasks solve and share them."""

    background: Knowledge
    layout: Layout
    tasks: int
    low: int = 0
    length: int = 1
    """Where the first cell of time begins, and how long each is."""
    checkpoint: str | None = None
    """The checkpoint that has the versions of a live background."""

    @property
    def has_versions(self) -> bool:
        return self.checkpoint is not None

    def solution_schema(self) -> pa.Schema:
        """Return the columns of the rows between the two kinds of tasks."""
        fields = list(SolutionFormat(self.plan, live=self.has_versions).schema)
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
