"""`GraphWork`: what a host runs for a SPAseQ query, over tables of solutions.

Graph patterns are solved where events are read; the rows between are those of
`rdf.solving.exchange.SolutionFormat`. A recognizer reads whole timestamps, in order of time.

Events travel as rows before they are solved: their number in the stream, their time, and their
triples as text (`encode_rows`, `write_triples`).

Cost contract: a few passes over the solutions. Matches leave as they are found. Does not import
Spark: its input and output are Arrow tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events.batch import Int64s
from cernis.plan.linked import LinkedPlan
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.events import GraphEvents, encode_events
from cernis.rdf.reading.terms import Terms
from cernis.rdf.session import GraphSession
from cernis.rdf.solving.exchange import STREAM as STREAM_NUMBER
from cernis.rdf.solving.exchange import TS
from cernis.rdf.source import TableSource, check_stream
from cernis.work.columns import OWN, STREAM
from cernis.work.reading import AnswerForm, Recognizer, Work
from cernis.work.report import EngineState


@dataclass(frozen=True, kw_only=True)
class GraphWork(Work):
    """A plan, and how its answer looks; a tick is a nanosecond."""

    plan: LinkedPlan
    unit: str
    numeric_times: bool
    """Whether times are numbers, not dates."""
    form: AnswerForm = "events"
    placed: bool = False
    """Columns before those of the answer order the matches."""
    limit: int | None = None

    def open(self, frozen: bytes | None = None) -> SolutionRecognizer:
        return SolutionRecognizer(self, frozen)

    @property
    def has_versions(self) -> bool:
        """Whether rows have the version of a live background."""
        return False

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
        source = TableSource(self.plan, self.unit, self.numeric_times, live=self.has_versions)
        return GraphSession(self.plan, source)


# --------------------------------------------------------------------- events


def encode_rows(names: Sequence[str], rows: pa.RecordBatch, terms: Terms) -> GraphEvents:
    """Return the events of rows, in their order; `names` are the streams of the query."""
    found = pc.index_in(rows.column("stream"), pa.array(names, pa.string()))
    streams = np.asarray(found.fill_null(-1), np.int32)
    if (streams < 0).any():
        check_stream(rows.column("stream")[int(streams.argmin())].as_py(), names)
    triples = rows.column("triples")
    offsets = np.asarray(triples.offsets, np.int64)
    flat = triples.flatten()
    return encode_events(
        np.asarray(rows.column("ts"), np.int64),
        streams,
        np.asarray(rows.column("number"), np.int64),
        offsets - offsets[0],
        (flat.field("s"), flat.field("p"), flat.field("o")),
        terms,
    )


def write_triples(events: GraphEvents, terms: Terms, type_: pa.DataType) -> pa.ListArray:
    """Return the triples of events as lists of s, p, o."""
    columns = [terms.repeated_texts(codes) for codes in (events.s, events.p, events.o)]
    triples = pa.StructArray.from_arrays(columns, fields=list(type_.value_type))
    return pa.ListArray.from_arrays(pa.array(events.first, pa.int32()), triples, type=type_)


# -------------------------------------------------------------------- matches


class SolutionRecognizer(Recognizer):
    """The session over the solutions of a task, or of a bucket."""

    def __init__(self, work: GraphWork, frozen: bytes | None = None) -> None:
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


def solution_answer_schema(work: GraphWork) -> pa.Schema:
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
