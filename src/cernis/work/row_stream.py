"""The work of a bucket that finds the matches of a MATCH_RECOGNIZE clause in a stream of rows.

Rows come in order of time, of all partitions of the bucket. When time has passed, the bucket looks
for matches in the rows that it holds, reports those that no row to come can change, and drops the
rows that no search needs: those before the row at which the search of their partition goes on,
except for the ones that PREV still sees. DuckDB computes masks and measures, here in the worker,
because conditions look at rows before and after a shuffle that only a bucket sees in order.

A match is certain when the preferred way through the rows reaches its end before any way that is
preferred to it reaches the last row (`engine.rows.match`), or when WITHIN has closed it.

State: the held rows, bounded by WITHIN where there is one, each with three columns: whether the
search has passed it, whether its partition had rows before, and how many matches it has had.

Cost contract: linear in the held rows for each micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError, DataError, Diagnostic, QueryError
from cernis.events.batch import Int64s
from cernis.extras import import_extra
from cernis.plan.rows.matcher import ROW
from cernis.run.rows.feed import DEFAULT_BUDGET, EarlierRows, RowFeed
from cernis.run.rows.statement import DuckClause, SqlQuery, lock
from cernis.state import pack, unpack
from cernis.work.carriers import read_blob, write_blob
from cernis.work.columns import TICKS
from cernis.work.reading import Recognizer, Work, cast_answer, drop_column
from cernis.work.report import EngineState

_ID, _DONE, _BEGUN, _NUMBERS = "@id", "@done", "@begun", "@numbers"
_PURPOSE = "MATCH_RECOGNIZE on a stream"


@dataclass(frozen=True, kw_only=True)
class RowStreamWork(Work):
    """Finds the matches of the clause of a statement, `SELECT * FROM rows MATCH_RECOGNIZE (…)`."""

    text: str
    dialect: str
    number: int
    """Which clause of the statement."""
    columns: tuple[str, ...]
    """The columns of rows that travel."""
    time: str
    budget: int = DEFAULT_BUDGET

    @cached_property
    def plan(self) -> Any:
        return SqlQuery(self.text, self.dialect).plans[self.number]

    def open(self, frozen: bytes | None = None) -> Recognizer:
        return _StreamRecognizer(self, frozen)

    @property
    def stream_names(self) -> tuple[str, ...]:
        return ("rows",)

    @property
    def tick(self) -> int:
        return 1_000

    def list_ties(self, *, numbered: bool) -> list[str]:
        return [_ID]

    def read_ticks(self, table: pa.Table) -> Int64s:
        column = table.column(self.time)
        if column.null_count:
            raise DataError(f"column {self.time!r}: a row has no time")
        return np.asarray(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()))

    def number_rows(self, table: pa.Table, numbers: Int64s | None) -> pa.Table:
        table = super().number_rows(table, numbers)
        assert numbers is not None
        return drop_column(table, _ID).append_column(_ID, pa.array(numbers, pa.int64()))

    @property
    def context(self) -> int:
        """How many rows before a search are needed: for PREV, MATCH_NUMBER() and `^`."""
        from cernis.languages.sql.terms import MatchNumberTerm, RowTerm, find_terms
        from cernis.pattern.row_pattern import RowAnchor, walk_pattern

        clause, plan = self.plan.clause, self.plan
        found = [measure.expression for measure in plan.measures]
        found += [
            find_terms(clause.define[name], clause, plan.text, variable=name)
            for name in clause.define
        ]
        terms = [term for one in found for term in one.terms]
        shifts = [-term.shift for term in terms if isinstance(term, RowTerm)]
        anchored = any(isinstance(part, RowAnchor) for part in walk_pattern(clause.pattern))
        numbered = any(isinstance(term, MatchNumberTerm) for term in terms)
        return max([0, *shifts, int(anchored or numbered)])


class _StreamRecognizer(Recognizer):
    def __init__(self, work: RowStreamWork, frozen: bytes | None) -> None:
        self.work = work
        self.feed = RowFeed(work.plan.matcher, work.budget)
        self.context = work.context
        self.held: pa.Table | None = None
        self.new: list[pa.Table] = []
        self.deadline = np.inf
        if frozen is not None:
            tree = unpack(frozen)
            self.deadline = float(tree["deadline"]) if tree["deadline"] is not None else np.inf
            if len(tree["rows"]):
                self.held = read_blob(tree["rows"].tobytes())

    @property
    def next_deadline(self) -> int | None:
        return None if np.isinf(self.deadline) else int(self.deadline)

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        self.replay(table)
        return iter(())

    def replay(self, table: pa.Table) -> None:
        table = drop_column(table, TICKS)
        size = table.num_rows
        table = table.append_column(_DONE, pa.array(np.zeros(size, np.bool_)))
        table = table.append_column(_BEGUN, pa.array(np.zeros(size, np.bool_)))
        self.new.append(table.append_column(_NUMBERS, pa.array(np.zeros(size, np.int64))))

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        now = nanoseconds / 1000
        if not self.new and now < self.deadline:
            return
        tables = [*([] if self.held is None else [self.held]), *self.new]
        self.new = []
        if not tables:
            return
        found = self._match(pa.concat_tables(tables), now)
        if found.num_rows:
            for batch in found.combine_chunks().to_batches():
                yield cast_answer(batch, self.work.schema) if self.work.schema else batch

    def _match(self, rows: pa.Table, now: float) -> pa.Table:
        """Return the results of the matches that are certain, and hold what searches need."""
        duckdb = import_extra("duckdb", _PURPOSE)
        flags = [_ID, _DONE, _BEGUN, _NUMBERS]
        with duckdb.connect() as cursor:
            lock(cursor)
            cursor.register("given", rows)
            clause = DuckClause(cursor, self.work.plan, self.work.columns)
            numbered = f'(SELECT *, "{_ID}" AS "{ROW}" FROM given)'
            table = clause.hold_rows(numbered, also=flags, every=True)
            ids, done, begun, numbers = (
                np.asarray(table.column(name).combine_chunks().to_numpy(zero_copy_only=False))
                for name in flags
            )
            # what a partition has had is known by its first rows
            begun, numbers = _spread(table, begun), _spread(table, numbers)
            earlier = EarlierRows(done.astype(np.bool_), begun, numbers, now)
            matched, search = self.feed.match_open(table, earlier)
            found = cursor.sql(clause.write_measures(table, matched)).to_arrow_table()
        self.deadline = search.deadline
        self._hold(rows, ids, search, begun, numbers)
        return found

    def _hold(self, rows: pa.Table, ids: Any, search: Any, begun: Any, numbers: Any) -> None:
        own = search.partitions
        places = np.arange(len(own))
        first = np.searchsorted(own, np.arange(len(search.stops)))
        keep_from = np.maximum(search.stops - self.context, first)
        kept = places >= keep_from[own]
        begun = begun | (keep_from > first)[own]
        numbers = numbers + search.matches[own]
        columns = {
            _ID: ids[kept],
            _DONE: (places < search.stops[own])[kept],
            _BEGUN: begun[kept],
            _NUMBERS: numbers[kept],
        }
        by_id = np.argsort(np.asarray(rows.column(_ID)), kind="stable")
        index = by_id[np.searchsorted(np.asarray(rows.column(_ID))[by_id], ids[kept])]
        table = rows.take(pa.array(index))
        for name, values in columns.items():
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(values))
        self.held = table.combine_chunks()

    def forget(self) -> None:
        """Nothing: each match drops what it needs no more."""

    def freeze(self) -> bytes:
        tables = [*([] if self.held is None else [self.held]), *self.new]
        blob = write_blob(pa.concat_tables(tables)) if tables else b""
        deadline = None if np.isinf(self.deadline) else self.deadline
        return pack({"rows": np.frombuffer(blob, np.uint8), "deadline": deadline})

    def count_state(self) -> EngineState:
        held = self.held
        rows, size = (0, 0) if held is None else (held.num_rows, held.nbytes)
        return EngineState(keys=0, records=0, stored=rows, stored_bytes=size)


def _spread(table: pa.Table, values: Any) -> Any:
    """Give each row the value that the first row of its partition has."""
    from cernis.plan.rows.matcher import PARTITION

    partitions = np.asarray(table.column(PARTITION), np.int64)
    begins = np.ones(len(partitions), np.bool_)
    begins[1:] = partitions[1:] != partitions[:-1]
    heads = np.flatnonzero(begins)
    return np.repeat(values[heads], np.diff(np.append(heads, len(partitions))))


def check_stream_clause(plan: Any) -> str:
    """Return the column of event time; refuse what a stream cannot decide."""
    from sqlglot import exp

    from cernis.languages.sql.terms import RowTerm, find_terms
    from cernis.pattern.row_pattern import RowAnchor, RowsPerMatch, walk_pattern

    clause = plan.clause

    def fail(message: str, span: Any) -> CernisError:
        return QueryError([Diagnostic(f"on a stream, {message}", span)], plan.text)

    order = clause.order
    if (
        len(order) != 1
        or not isinstance(order[0].tree.this, exp.Column)
        or order[0].tree.args.get("desc")
    ):
        span = order[0].span if order else plan.recognition.span
        raise fail("ORDER BY is the column of event time, ascending", span)
    if clause.rows is not RowsPerMatch.ONE:
        raise fail("matches are reported as ONE ROW PER MATCH", plan.recognition.span)
    if any(part == RowAnchor(at_end=True) for part in walk_pattern(clause.pattern)):
        raise fail("no partition ends, so '$' matches nothing", clause.pattern_span)
    found = [measure.expression for measure in plan.measures]
    found += [find_terms(clause.define[n], clause, plan.text, variable=n) for n in clause.define]
    for expression in found:
        if any(isinstance(term, RowTerm) and term.shift > 0 for term in expression.terms):
            raise fail("NEXT looks at rows that have not come", expression.source.span)
    return str(order[0].tree.this.name)
