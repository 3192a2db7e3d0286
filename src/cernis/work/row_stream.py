"""The work of a bucket that finds the matches of a MATCH_RECOGNIZE clause in a stream of rows.

Rows come in order of time, of all partitions of the bucket. When time has passed, the bucket looks
for matches in the rows that it holds, reports those that no row to come can change, and drops the
rows that no search needs: those before the row at which the search of their partition goes on,
except for the ones that PREV still sees. DuckDB computes masks and measures, here in the worker,
because conditions look at rows before and after a shuffle that only a bucket sees in order.

A match is certain when the preferred way through the rows reaches its end before any way that is
preferred to it reaches the last row (`engine.rows.match`), or when WITHIN has closed it.

State: the held rows, bounded by WITHIN where there is one, each with four columns: whether the
search has passed it, whether its partition had rows before, how many matches it has had, and when
time decides its search.

Cost contract: for each micro-batch, linear in the held rows of the partitions that have new rows or
whose time has come, and a glance at a hash and a time for each of the others.
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
from cernis.plan.rows.matcher import ROW
from cernis.results.formats.jsonlines import row_lines
from cernis.run.rows.feed import DEFAULT_BUDGET, EarlierRows, RowFeed
from cernis.run.rows.host import open_locked_host
from cernis.run.rows.statement import DuckClause, SqlQuery
from cernis.state import pack, unpack
from cernis.work.carriers import read_blob, write_blob
from cernis.work.columns import TICKS
from cernis.work.reading import Recognizer, Work, cast_answer, drop_column
from cernis.work.report import EngineState

_ID, _DONE, _BEGUN, _NUMBERS = "@id", "@done", "@begun", "@numbers"
_DEADLINE = "@deadline"
_ROW_BY_ROW = frozenset({"kind", "expressions", "from_", "where"})
_ON_SPARK = frozenset({"joins", "with_", "union"})
"""What Spark does row by row around a clause on a stream."""
LINE = "line"
UNBOUNDED = "MATCH_RECOGNIZE without WITHIN: the state keeps the rows that a match may still need"


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
    around: bool = False
    """Whether the bucket runs the statement around the clause, too (`check_around`)."""
    lines: bool = False
    """Whether rows leave as lines of JSON."""

    @cached_property
    def query(self) -> SqlQuery:
        return SqlQuery(self.text, self.dialect)

    @property
    def plan(self) -> Any:
        return self.query.plans[self.number]

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
        from cernis.languages.sql.row_pattern import RowAnchor, walk_pattern

        plan = self.plan
        anchored = any(isinstance(part, RowAnchor) for part in walk_pattern(plan.clause.pattern))
        before: int = plan.count_neighbours()[0]
        return max(before, int(anchored or plan.is_numbered))


class _StreamRecognizer(Recognizer):
    def __init__(self, work: RowStreamWork, frozen: bytes | None) -> None:
        self.work = work
        self.feed = RowFeed(work.plan.matcher, work.budget)
        self.context = work.context
        self.held: pa.Table | None = None
        self.new: list[pa.Table] = []
        self.hashes = np.zeros(0, np.uint64)
        """Of the keys of the held rows, except for the last ones, which are not hashed yet."""
        if frozen is not None:
            tree = unpack(frozen)
            if len(tree["rows"]):
                self.held = read_blob(tree["rows"].tobytes())

    @property
    def deadline(self) -> float:
        """The first time that decides a search when it has passed, in microseconds."""
        return np.inf if self.held is None else float(self._deadlines.min(initial=np.inf))

    @property
    def _deadlines(self) -> Any:
        assert self.held is not None
        return np.asarray(self.held.column(_DEADLINE))

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
        table = table.append_column(_NUMBERS, pa.array(np.zeros(size, np.int64)))
        self.new.append(table.append_column(_DEADLINE, pa.array(np.full(size, np.inf))))

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        now = nanoseconds / 1000
        if not self.new and now < self.deadline:
            return
        yield from self._write(self._match(now))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the matches that the end of the input makes certain."""
        if self.held is not None or self.new:
            yield from self._write(self._match(np.inf))

    def _write(self, found: pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in found.combine_chunks().to_batches():
            if self.work.lines:
                yield pa.record_batch({LINE: row_lines(batch, "")})
            else:
                yield cast_answer(batch, self.work.schema) if self.work.schema else batch

    def _match(self, now: float) -> pa.Table:
        """Return the results of the matches that are certain, and hold what searches need."""
        flags = [_ID, _DONE, _BEGUN, _NUMBERS]
        with open_locked_host() as cursor:
            rows, rest = self._select(cursor, now)
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
            around = self.work.query if self.work.around else None
            found = clause.read_result(clause.write_measures(table, matched), around)
        kept = self._keep(rows, ids, search, begun, numbers)
        self.held = pa.concat_tables([rest, kept]).combine_chunks()
        return found

    def _select(self, cursor: Any, now: float) -> tuple[pa.Table, pa.Table]:
        """Return the rows of partitions that have something to decide, and the other held rows.

        They are found by hashes of their keys; keys that share one are decided together.
        """
        new, self.new = pa.concat_tables(self.new) if self.new else None, []
        held = self.held
        if held is None:
            assert new is not None
            self.hashes = np.zeros(0, np.uint64)
            return new, new.slice(0, 0)
        fresh = self._hash(cursor, held.slice(len(self.hashes)))
        self.hashes = np.concatenate([self.hashes, fresh])
        chosen = self._deadlines <= now
        if new is not None:
            chosen |= np.isin(self.hashes, np.unique(self._hash(cursor, new)))
        self.hashes = self.hashes[~chosen]
        rows = held.filter(pa.array(chosen))
        rows = rows if new is None else pa.concat_tables([rows, new])
        return rows, held.filter(pa.array(~chosen))

    def _hash(self, cursor: Any, rows: pa.Table) -> Any:
        """Return hashes of the keys of rows; they are of this process, and not frozen."""
        keys = [part.tree.name for part in self.work.plan.clause.partition]
        if not keys:
            return np.zeros(rows.num_rows, np.uint64)
        cursor.register("hashed", rows)
        quoted = ", ".join('"' + key.replace('"', '""') + '"' for key in keys)
        found = cursor.sql(f"SELECT hash({quoted}) AS h FROM hashed").to_arrow_table()
        return np.asarray(found.column("h"))

    def _keep(self, rows: pa.Table, ids: Any, search: Any, begun: Any, numbers: Any) -> pa.Table:
        """Return the rows that searches still need."""
        own = search.partitions
        indices = np.arange(len(own))
        first = np.searchsorted(own, np.arange(len(search.stops)))
        keep_from = np.maximum(search.stops - self.context, first)
        kept = indices >= keep_from[own]
        begun = begun | (keep_from > first)[own]
        numbers = numbers + search.matches[own]
        columns = {
            _ID: ids[kept],
            _DONE: (indices < search.stops[own])[kept],
            _BEGUN: begun[kept],
            _NUMBERS: numbers[kept],
            _DEADLINE: search.deadlines[own][kept],
        }
        by_id = np.argsort(np.asarray(rows.column(_ID)), kind="stable")
        index = by_id[np.searchsorted(np.asarray(rows.column(_ID))[by_id], ids[kept])]
        table = rows.take(pa.array(index))
        for name, values in columns.items():
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(values))
        return table

    def forget(self) -> None:
        """Nothing: each match drops what it needs no more."""

    def freeze(self) -> bytes:
        tables = [*([] if self.held is None else [self.held]), *self.new]
        blob = write_blob(pa.concat_tables(tables)) if tables else b""
        return pack({"rows": np.frombuffer(blob, np.uint8)})

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


def check_around(query: SqlQuery) -> str:
    """Return the table of a statement that one process can run on a stream; refuse others.

    It has one clause over a table, and selects and filters the rows of the clause one by one.
    """
    from sqlglot import exp

    def fail(message: str) -> CernisError:
        spans = [plan.recognition.span for plan in query.plans]
        return QueryError([Diagnostic(f"in one process, {message}", *spans[:1])], query.text)

    if len(query.plans) != 1:
        raise fail("a stream has a statement with one MATCH_RECOGNIZE")
    [plan] = query.plans
    if not (table := plan.find_table()):
        raise fail("MATCH_RECOGNIZE on a stream reads a table")
    tree = query.statement.query
    more = {name for name, value in tree.args.items() if value} - _ROW_BY_ROW
    needs_all = tree.find(exp.AggFunc, exp.Window) is not None
    if isinstance(tree, exp.SetOperation):
        more = {tree.key, *(["distinct"] if tree.args.get("distinct") else [])}
    if more or needs_all or tree.find(exp.Subquery) or tree.find(exp.Select) is not tree:
        told = ", ".join(sorted(more)).replace("_", "").upper()
        told = told or ("aggregates or windows" if needs_all else "queries inside")
        hint = "" if needs_all or more - _ON_SPARK else " (--engine spark has it)"
        raise fail(
            "the statement around MATCH_RECOGNIZE selects and filters rows one by one; it has "
            f"{told}{hint}"
        )
    return str(table)


def check_stream_clause(plan: Any) -> str:
    """Return the column of event time; refuse what a stream cannot decide."""
    from sqlglot import exp

    from cernis.languages.sql.row_pattern import RowAnchor, RowsPerMatch, walk_pattern
    from cernis.languages.sql.terms import RowTerm, find_terms

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
