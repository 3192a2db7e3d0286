"""`QueryWork`: the work of Spark's Python workers for one query: rows in, matches (or groups) out.

`reading` says what tasks and buckets have in common for all queries. Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from cernis.encoding.masks import MaskEncoder
from cernis.errors import Diagnostic, QueryError
from cernis.events.batch import EventBatch
from cernis.pattern.atom import Atom
from cernis.pattern.predicate import TIME
from cernis.pattern.query import Pattern
from cernis.plan.plan import Plan
from cernis.results.answers import Answers
from cernis.results.formats.columns import distinct_names
from cernis.results.formats.jsonlines import TextEvents
from cernis.results.groups import Groups
from cernis.results.matches import Matches
from cernis.results.sets.matchset import join
from cernis.results.sortable import write_sortable
from cernis.results.terms.deadline import DEADLINE
from cernis.run.feed import Measures
from cernis.run.query import Query
from cernis.run.session import Session
from cernis.run.stages.best import BestFirst
from cernis.run.stages.groups import Grouper
from cernis.work.carriers import carrier_of
from cernis.work.columns import NOW, OWN, PLACE
from cernis.work.group_parts import (
    NumberForm,
    cast_groups,
    group_schema,
    read_parts,
    spark_schema,
    write_parts,
)
from cernis.work.reading import AnswerForm, Recognizer, RowWork, cast_answer, gather
from cernis.work.report import EngineState

RANKING = (pa.field("@value", pa.binary()), pa.field("@tie", pa.binary()))
"""Keys that sort as the matches of ORDER BY do: by the value, NULL if it is last, then the rest."""

_FORGET_EVERY = 1 << 16


@dataclass(frozen=True, kw_only=True)
class QueryWork(RowWork):
    """A plan, the columns of its rows, and how its answer looks."""

    plan: Plan
    bits: Mapping[Atom, int] = field(default_factory=dict)
    """The atoms that Spark evaluates, and the numbers of their bits."""
    form: AnswerForm = "events"
    text: TextEvents = "named"
    """Which events of its matches a line, or a flat column, has."""
    answer: pa.Schema | None = None
    """The columns of the answer, in the engine's types."""
    placed: bool = False
    """A last column says in which order a part found its matches."""
    limit: int | None = None
    """Each part gives at most so many matches, its first."""
    ids: bool = False
    """A column names each match."""
    ranked: bool = False
    """Behind the columns of the answer come those of `RANKING`, by which Spark merges parts."""
    measures: Measures | None = None
    """The aggregates over matches that are enough, where they are counted or grouped."""
    parts: pa.Schema | None = None
    """The columns of the parts of groups, as `Grouper.freeze` has them; None: groups are whole."""
    numbers: NumberForm = "decimal"
    exact: tuple[str, ...] = ()
    """The columns of groups that are integers of any size."""

    def is_count(self, found: Matches) -> bool:
        """Return whether the answer is the number of matches."""
        return self.form == "count" or (self.form in ("events", "flat") and found.counting)

    def open(self, frozen: bytes | None = None) -> QueryRecognizer:
        return QueryRecognizer(self, frozen)

    def open_session(
        self, frozen: bytes | None = None, *, parts: bool = False
    ) -> Session[Matches | Answers | Groups]:
        """Begin a session, or thaw a frozen one; with `parts`, it reports parts of groups."""
        measures = self.measures
        encode = partial(MaskEncoder, bits=self.bits, type_column=self.reading.type_column)
        if frozen is not None:
            return Session.thaw(self.plan, frozen, self.reading, measures=measures, encode=encode)
        return Session(self.plan, self.reading, measures=measures, parts=parts, encode=encode)


def refuse_overall(pattern: Pattern) -> None:
    """Raise an error for a query of a stream that asks for the best of the whole input."""
    if not pattern.ranks_overall:
        return
    limit = f"LIMIT {pattern.limit}"
    wrong = Diagnostic(
        f"{limit} OVERALL needs an input that ends: a stream never knows the best of all",
        next(iter(pattern.spans.get("limit", ())), None),
        suggestion=f"write {limit} EVERY 1 HOUR for the best of each hour",
    )
    raise QueryError([wrong], pattern.source)


def finish_groups(
    work: QueryWork, rows: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the groups whose parts Spark has added up; `rows` are the columns that travel."""
    assert work.parts is not None
    last = QueryRecognizer(replace(work, parts=None))
    last.learn(rows)
    tables = gather(batches)
    if work.placed or work.form == "lines":  # all at once: groups come in order
        tables = iter([pa.concat_tables(found)] if (found := list(tables)) else [])
    for table in tables:
        yield from last.add_up(read_parts(table, work.parts))


def part_schema(work: QueryWork, table: pa.Table) -> pa.Schema:
    """Return the columns of parts of groups, for rows with the columns of a table."""
    session = work.open_session(parts=True)
    found = session.take(work.read_batch(table.slice(0, 0)), work.scale)
    assert isinstance(found, Groups)
    return found.schema


def answer_schema(work: QueryWork, table: pa.Table) -> pa.Schema:
    """Return the columns of the answer, for rows with the columns of a table."""
    session = work.open_session()
    found = session.take(work.read_batch(table.slice(0, 0)), work.scale)
    if work.form == "lines" and not isinstance(found, Answers):
        times = _find_end_type(found)
        columns = {"end": pa.int64(), "end_ts": times}
        if isinstance(found, Matches) and found.orders_by_deadline:
            columns[DEADLINE] = times
        return pa.schema(columns | {"line": pa.string(), "place": pa.int64()})
    match found:
        case Answers():
            schema = found.schema
        case Groups():
            schema = group_schema(found.schema, work.exact, work.numbers)
        case _ if work.is_count(found):
            schema = cast_counts(found.counts(), work.numbers).schema
        case _ if work.form == "flat":
            schema = next(found.flat_batches(events=work.text != "named")).schema
        case _:
            schema = found.schema
            if work.ids:
                name = distinct_names([*schema.names, "id"])[-1]
                schema = schema.append(pa.field(name, pa.string()))
    return schema.append(pa.field(PLACE, pa.int64())) if work.placed else schema


def line_schema(reading: RowWork, rows: pa.Schema) -> pa.Schema:
    """Return the columns of the lines of rules, in the types that carry them in Spark."""
    work = QueryWork(
        streams=reading.streams,
        reading=reading.reading,
        scale=reading.scale,
        plan=Query("SELECT NONE WHERE * AS e").plan,
        form="lines",
    )
    return carry_answer([pa.field("rule", pa.string()), *answer_schema(work, rows.empty_table())])


def carry_answer(answer: Iterable[pa.Field]) -> pa.Schema:
    """Return columns in the types that carry them in Spark."""
    return pa.schema([field.with_type(carrier_of(field.type) or field.type) for field in answer])


def _find_end_type(found: Matches | Groups) -> pa.DataType:
    if isinstance(found, Groups):
        return found.end_type
    return found.counts().schema.field("end_ts").type


class QueryRecognizer(Recognizer):
    """The session of a query in one part, or in one bucket."""

    def __init__(self, work: QueryWork, frozen: bytes | None = None) -> None:
        self.work = work
        self.session = work.open_session(frozen, parts=work.parts is not None)
        self.given = 0
        self.now: int | None = None
        """The last time of the whole input, where rows carry it."""
        self._kept_events = 0
        """How many events the session had when it last dropped some."""

    @property
    def is_done(self) -> bool:
        return self.left == 0

    @property
    def left(self) -> int | None:
        """How many more matches the answer may have; None: any number."""
        return None if self.work.limit is None else self.work.limit - self.given

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if self.is_done:
            return
        if NOW in table.column_names and table.num_rows:
            self.now = self.work.read_now(table)
        first, last = _find_own(table)
        yield from self._read_beside(table.slice(0, first))
        if first < last:
            own = self._batch(table.slice(first, last - first))
            yield from self._give(self.session.take(own, self.work.scale))
        yield from self._read_beside(table.slice(last))

    def _read_beside(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Read events of other slices; give the matches of this one that they make certain."""
        if not table.num_rows or self.is_done:
            return
        if not self.work.plan.pattern.without:
            self.pass_over(table)
        else:
            batch = self._batch(table)
            yield from self._give(self.session.take(batch, self.work.scale, own=False))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give what waits for the end of the input: groups or their parts, matches."""
        pattern = self.work.plan.pattern
        if self.now is not None and not self.is_done:
            yield from self._give(self.session.advance(self.now, self.work.scale))
        waits = pattern.grouping is not None or self.session.pipeline.waits
        waits = waits or (self.work.reading.complete and pattern.absent_after is not None)
        if waits and not self.is_done:
            yield from self._give(self.session.finish())

    def learn(self, rows: pa.Schema) -> None:
        """Learn the types of the columns that travel."""
        self.session.pass_over(self._batch(rows.empty_table()), self.work.scale)

    def add_up(self, parts: pa.Table) -> Iterator[pa.RecordBatch]:
        """Give the groups of these parts, one for each group."""
        grouper = self.session.pipeline.stages.closing
        assert isinstance(grouper, Grouper)
        grouper.read_groups(parts)
        yield from self.finish()

    def _give(self, found: Matches | Answers | Groups) -> Iterator[pa.RecordBatch]:
        if isinstance(found, Groups) and self.work.parts is not None:
            yield from write_parts(found.to_arrow(), spark_schema(self.work.parts))
            return
        ranking = self._rank(found) if self.work.ranked and isinstance(found, Matches) else None
        given, schema = 0, self.work.schema
        assert schema is not None
        for batch in self._format(found):
            batch = cast_answer(self._add_ranks(batch.slice(0, self.left)), schema)
            if ranking is not None:
                for field, keys in zip(RANKING, ranking, strict=True):
                    batch = batch.append_column(field, keys[given : given + batch.num_rows])
                given += batch.num_rows
            if batch.num_rows:
                yield batch
            if self.is_done:
                return

    def _rank(self, found: Matches) -> tuple[pa.Array, pa.Array]:
        """Return the columns of `RANKING`; matches of one end are those of one task."""
        store = self.session.store
        (best,) = (one for one in self.session.pipeline.stages if isinstance(one, BestFirst))
        block = join(tuple(found.match_set.blocks()), len(found.match_set.variables))
        values, ends = best.evaluate(block), block.end
        times = store.column(ends, TIME.name).to_pylist() if store.is_timed else [0] * len(ends)
        streams = {stream.name: number for number, stream in enumerate(self.work.streams)}
        ties = [
            (write_sortable(time) or b"")
            + int(row).to_bytes(8, "big")
            + streams[store.stream_at(int(end))].to_bytes(2, "big")
            + rank.to_bytes(8, "big")
            for rank, (time, row, end) in enumerate(zip(times, store.rows(ends), ends, strict=True))
        ]
        return pa.array([*map(write_sortable, values)], pa.binary()), pa.array(ties, pa.binary())

    def pass_over(self, table: pa.Table) -> None:
        """Read events without reporting the matches that end at them."""
        pattern = self.work.plan.pattern
        if pattern.is_free and self.work.plan.head is None:
            self.session.pass_over(self._batch(table), self.work.scale)
        else:
            self.session.take(self._batch(table), self.work.scale)

    def replay(self, table: pa.Table) -> None:
        grouping = self.work.plan.pattern.grouping
        if grouping is None or grouping.end:
            self.pass_over(table)
        else:
            self.session.take(self._batch(table), self.work.scale)

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        for found in self.session.pass_watermark(nanoseconds, self.work.scale):
            yield from self._give(found)

    @property
    def first_end(self) -> int | None:
        return self.session.first_group_end

    @property
    def next_deadline(self) -> int | None:
        return self.session.pipeline.next_deadline(self.work.scale)

    def keep_order(self) -> None:
        self.session.keep_order()

    def renew_budget(self) -> None:
        self.session.renew_budget()

    def forget(self) -> None:
        session = self.session
        if session.events - session.kept_from > max(_FORGET_EVERY, 2 * self._kept_events):
            session.forget()
            self._kept_events = session.events - session.kept_from

    def freeze(self) -> bytes:
        return self.session.freeze()

    def count_state(self) -> EngineState:
        own = self.session.metrics()
        return EngineState(own.keys, own.records, own.stored, own.stored_bytes)

    def _format(self, found: Matches | Answers | Groups) -> Iterable[pa.RecordBatch]:
        if isinstance(found, Answers):
            return found.batches()
        if self.work.form == "lines":
            if isinstance(found, Groups):
                return found.lines()
            return found.lines(self.work.text, deadlines=found.orders_by_deadline)
        if isinstance(found, Groups):
            groups = cast_groups(found.to_arrow(), self.work.exact, self.work.numbers)
            return list(groups.to_batches())
        if self.work.is_count(found):
            counted: list[pa.RecordBatch] = cast_counts(
                found.counts(), self.work.numbers
            ).to_batches()
            return counted
        if self.work.form == "flat":
            return found.flat_batches(events=self.work.text != "named")
        return found.batches(ids=self.work.ids)

    def _add_ranks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the rank of each row among those of the part, which is the order of matches."""
        ranks = np.arange(self.given, self.given + batch.num_rows)
        self.given += batch.num_rows
        assert self.work.schema is not None
        if batch.num_columns == len(self.work.schema):
            return batch
        return batch.append_column(self.work.schema.names[-1], pa.array(ranks, pa.int64()))

    def _batch(self, table: pa.Table) -> EventBatch:
        return self.work.read_batch(table, self.session.events)


def _find_own(table: pa.Table) -> tuple[int, int]:
    """Return where the rows of the part itself begin and end, which stand together."""
    if OWN not in table.column_names:
        return 0, table.num_rows
    own = np.flatnonzero(np.asarray(table.column(OWN)))
    return (int(own[0]), int(own[-1]) + 1) if len(own) else (table.num_rows, table.num_rows)


def cast_counts(counts: pa.Table, numbers: NumberForm = "decimal") -> pa.Table:
    """Cast counts to the one type that Spark has for all tasks."""
    return cast_groups(counts, ["count"], numbers)
