"""`cernis.sql`: statements with MATCH_RECOGNIZE on DuckDB, in this process.

Each clause is answered in turn: DuckDB sorts its rows and computes masks, the matcher finds the
matches, DuckDB computes the measures, and the result becomes a table with the clause's name. Then
DuckDB runs the statement around the clauses.

Safety. The database is in memory. Before a statement runs, it loses access to files, the network
and extensions, and its settings are locked; the tables that it sees are those that were given.
`connection` is for a database of one's own, with the rights that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError, DataError, Diagnostic, QueryError, Span, WarningNote
from cernis.extras import import_extra
from cernis.output import UsedFile
from cernis.plan.rows.matcher import ROW, is_read
from cernis.results.formats.jsonlines import row_lines
from cernis.results.table_result import TableResult
from cernis.results.values import python_records
from cernis.run.rows.feed import DEFAULT_BUDGET, MatchedRows, RowFeed, describe_rows
from cernis.run.rows.host import (
    PURPOSE,
    HostLimits,
    add_table,
    lock,
    open_host,
    open_locked_host,
    translate_error,
)
from cernis.run.rows.order import add_ranks, find_row_order

if TYPE_CHECKING:
    from cernis.run.rows.row_trace import RowTrace

_MOST_SORTED = 10_000_000
"""The most rows that are sorted in Arrow, outside of the host's limit of memory."""
_GIVEN = "@given"
"""The number of a row in the relation, from 0 on."""


class SqlRows(TableResult[dict[str, Any]]):
    """The rows of a statement."""

    noun = ("row", "rows")

    def counts(self) -> pa.Table:
        """Return the number of rows: they have no common time."""
        return pa.table({"rows": [self.count()]})

    def _objects(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        return iter(python_records(batch.to_struct_array()))

    def _lines(self, limit: int | None, *, whole: bool = False) -> Iterator[pa.StringArray]:
        yield from map(row_lines, self._batches(limit))

    def _table_of(self, items: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[object]]]:
        names = list(self.schema.names)
        return names, [[item[name] for name in names] for item in items]


@dataclass(frozen=True)
class SqlQuery:
    """A statement, parsed and planned."""

    text: str
    dialect: str = "duckdb"

    def __post_init__(self) -> None:
        import_extra("sqlglot", PURPOSE)
        _ = self.plans

    @cached_property
    def statement(self) -> Any:
        from cernis.languages.sql.statement import parse_statement

        return parse_statement(self.text, self.dialect)

    @cached_property
    def plans(self) -> Any:
        from cernis.plan.rows.plan import plan_statement

        return plan_statement(self.statement)

    @property
    def warnings(self) -> tuple[WarningNote, ...]:
        """What a right statement probably does not mean: nothing is known of statements."""
        return ()

    def explain(self) -> str:
        """Return what each clause does and costs."""
        parts = [plan.explain() for plan in self.plans]
        if not parts:
            return "no MATCH_RECOGNIZE: the host runs the statement as it is"
        return "\n\n".join(parts)

    def run(
        self,
        tables: Mapping[str, Any],
        *,
        connection: Any = None,
        budget: int | None = None,
        used: Sequence[UsedFile] = (),
        limits: HostLimits | None = None,
    ) -> SqlRows:
        """Run the statement over tables."""
        if connection is not None and limits is not None:
            raise CernisError("max_memory: a connection of your own has its own memory_limit")
        limits = None if connection is not None else limits or HostLimits()
        return self._run(tables, connection, budget, limits).collect(used)

    def trace(
        self,
        tables: Mapping[str, Any],
        *,
        budget: int | None = None,
        limits: HostLimits | None = None,
    ) -> RowTrace:
        """Run the statement and hold the rows and matches of its last clause."""
        runner = self._run(tables, None, budget, limits or HostLimits(), traces=True)
        if runner.trace is None:
            raise QueryError([Diagnostic("the statement has no MATCH_RECOGNIZE")])
        return replace(runner.trace, result=runner.collect())

    def _run(
        self,
        tables: Mapping[str, Any],
        connection: Any,
        budget: int | None,
        limits: HostLimits | None,
        *,
        traces: bool = False,
    ) -> _DuckRunner:
        reads_files = any(isinstance(table, str | Path) for table in tables.values())
        if limits is None:
            host = connection.cursor()
        else:
            host = open_host(limits) if reads_files else open_locked_host(limits)
        with host as cursor:
            for name, table in tables.items():
                add_table(cursor, name, table)
            if limits is not None and reads_files:
                lock(cursor)
            most = DEFAULT_BUDGET if budget is None else budget
            runner = _DuckRunner(cursor, self, most, traces=traces, is_own=limits is not None)
            runner.run()
            return runner


def _explain(error: Exception, text: str, clause: DuckClause | None = None) -> CernisError:
    """Return an error of DuckDB, with the location of what it is about."""
    from cernis.languages.sql.host_errors import explain_host_error

    duckdb = import_extra("duckdb", PURPOSE)
    parsed = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
    of_data = (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)
    if not isinstance(error, (*parsed, *of_data)):
        return translate_error(error)
    part = None if clause is None else clause.find_culprit()
    if part is None and isinstance(error, of_data):
        return translate_error(error)
    return explain_host_error(str(error).split("\n\n")[0], text, part)


def _write(tree: Any, query: SqlQuery) -> str:
    from cernis.languages.sql.host_errors import write_host_sql

    return write_host_sql(tree, "duckdb", query.text)


class _DuckRunner:
    """Runs one statement."""

    def __init__(
        self, cursor: Any, query: SqlQuery, budget: int, *, traces: bool, is_own: bool
    ) -> None:
        self.cursor, self.is_own = cursor, is_own
        self.query = query
        self.budget = budget
        self.traces = traces
        self.notes: list[str] = []
        self.trace: RowTrace | None = None
        self.found: pa.Table

    def run(self) -> None:
        statement = self.query.statement
        if not self.traces:
            statement.check_columns()
        for plan in self.query.plans:
            self._answer(plan)
        self.found = pa.table({})
        self.notes += [one.message for one in statement.bare[:1]]
        if not statement.bare:
            self.found = _convert_intervals(self._fetch(_write(statement.query, self.query)))

    def collect(self, used: Sequence[UsedFile] = ()) -> SqlRows:
        """Return the rows of the statement, which has run."""
        return SqlRows(self.found, self.notes, used=used)

    def _fetch(self, text: str) -> pa.Table:
        try:
            return self.cursor.sql(text).to_arrow_table()
        except Exception as error:
            raise _explain(error, self.query.text) from None

    def _answer(self, plan: Any) -> None:
        """Make a table of a clause's result, with the clause's name."""
        name = plan.recognition.name
        rows = _write(plan.recognition.rows, self.query)
        schema = self._fetch(f"DESCRIBE ({rows})")
        plan.check_columns(columns := tuple(schema.column("column_name").to_pylist()))
        if not plan.clause.order:
            self.notes.append("MATCH_RECOGNIZE without ORDER BY: rows are taken as they come")
        clause = DuckClause(self.cursor, plan, columns, is_own=self.is_own)
        try:
            number = f'row_number() OVER () AS "{ROW}"'
            traced = [*columns, _GIVEN] if self.traces and plan is self.query.plans[-1] else []
            number += f', row_number() OVER () - 1 AS "{_GIVEN}"' if traced else ""
            numbered = f"(SELECT *, {number} FROM ({rows}))"
            table = clause.hold_rows(numbered, also=traced, every=bool(traced))
            feed = RowFeed(plan.matcher, self.budget)
            matched = feed.match(table)
            if traced:
                self.trace = _make_trace(plan, table, columns, matched, feed)
            found = clause.write_measures(table, matched)
            self.cursor.execute(f"CREATE TEMP TABLE {name} AS {found}")
            clause.drop_rows()
        except Exception as error:
            raise _explain(error, self.query.text, clause) from None


_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def _convert_intervals(table: pa.Table, *, months: bool = True) -> pa.Table:
    """Return a table with durations for intervals, which few formats have.

    Intervals with months have no fixed length: their column becomes texts, or they are refused.
    """
    for at, field in enumerate(table.schema):
        if not pa.types.is_interval(field.type):
            continue
        column = pa.concat_arrays([*table.column(at).chunks, pa.nulls(0, field.type)])
        parts = np.frombuffer(column.buffers()[1] or b"", _INTERVAL)[: len(column)]
        missing = np.asarray(column.is_null())
        size = parts["days"].astype(np.int64) * 86_400_000_000 + parts["nanoseconds"] // 1_000
        converted = pa.array(size, pa.duration("us"), mask=missing)
        if (parts["months"][~missing] != 0).any():
            if not months:
                raise DataError(f"column {field.name!r}: an interval of months has no fixed length")
            told = [f"P{m}M{d}DT{n / 1e9:g}S" for m, d, n in parts.tolist()]
            converted = pa.array(told, pa.string(), mask=missing)
        table = table.set_column(at, field.name, converted)
    return table


_PLAIN = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG)?INT(EGER)?|FLOAT|DOUBLE|VARCHAR|BLOB|DATE|DECIMAL.*"
    r"|TIME|TIMESTAMP(_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE"
)
"""The types whose values come back from Arrow as they went."""


def _is_plain(kind: Any) -> bool:
    return _PLAIN.fullmatch(str(kind)) is not None


def _make_trace(
    plan: Any, table: pa.Table, columns: Sequence[str], matched: MatchedRows, feed: RowFeed
) -> RowTrace:
    from cernis.run.rows.row_trace import RowTrace

    numbers = np.asarray(table.column(_GIVEN), np.int64)
    rows = _convert_intervals(table.select(list(columns)))
    return RowTrace(plan, rows, numbers, table, matched, feed, SqlRows(table.slice(0, 0)))


def find_result_schema(plan: Any, schema: pa.Schema, around: SqlQuery | None = None) -> pa.Schema:
    """Return the columns of a clause's result over rows, or of the statement `around` it."""
    if around is not None:
        around.statement.check_columns()
    duckdb = import_extra("duckdb", PURPOSE)
    with open_locked_host() as cursor:
        cursor.register("given", schema.empty_table())
        clause = DuckClause(cursor, plan, tuple(schema.names))
        try:
            table = clause.hold_rows(f'(SELECT *, 0::BIGINT AS "{ROW}" FROM given)')
            matched = RowFeed(plan.matcher).match(table)
            return clause.read_result(clause.write_measures(table, matched), around).schema
        except duckdb.Error as error:
            raise _explain(error, plan.text, clause) from None


class DuckClause:
    """A clause on a connection: its rows in order with masks, then its measures.

    Rows whose order NumPy can find are held in Arrow, and DuckDB streams over them. Others are
    sorted and held by DuckDB; so are those of a user's connection, which may have collations.
    """

    def __init__(
        self, cursor: Any, plan: Any, columns: tuple[str, ...], *, is_own: bool = True
    ) -> None:
        from cernis.plan.rows.write import QueryWriter

        self.cursor = cursor
        self.writer = QueryWriter(plan, "duckdb", columns)
        self.matcher = plan.matcher
        self.name = plan.recognition.name
        self.held = self.writer.quote(f"{self.name}@rows")
        self.may_sort = is_own and "collate" not in plan.text.lower()
        self.sorted: pa.Table | None = None
        """The rows in order, if they are in Arrow."""
        self.numbered = self.joined = ""
        """The queries of the rows, and of the rows of matches; empty until they are written."""

    def find_culprit(self) -> Span | None:
        """Return the span of the expression that DuckDB refuses; None: it is none of them."""
        from cernis.languages.sql.host_errors import find_culprit

        duckdb = import_extra("duckdb", PURPOSE)

        def fails(writer: Any) -> bool:
            rows = writer.write_rows(self.numbered)
            try:
                whole = writer.write_measures(self.joined) if self.joined else rows
                self.cursor.execute(f"SELECT count(COLUMNS(*)) FROM ({whole})")
            except duckdb.Error:
                return True
            return False

        return find_culprit(self.writer.isolate(), fails) if self.numbered else None

    def hold_rows(
        self, numbered: str, *, also: Sequence[str] = (), every: bool = False
    ) -> pa.Table:
        """Keep the rows in their order; return what the matcher reads, and other columns.

        ROW numbers the rows of `numbered` for ties, and becomes their number in the order.
        `every`: also rows that fit no variable.
        """
        self.numbered = numbered
        writer, q = self.writer, self.writer.quote
        fitting = None if every else writer.write_fitting()
        where = f" WHERE {fitting}" if fitting else ""
        near = [name for name, _ in writer.list_shifted()]
        in_order = replace(writer, is_sorted=True)
        self.sorted = self._sort_rows(numbered, [in_order.write_rows(""), *writer.kept], also)
        if self.sorted is not None:
            self.cursor.register(f"{self.name}@rows", self.sorted)
            rows = f"({in_order.write_rows(self.held)}){where}"
            names = self.cursor.sql(f"SELECT * FROM {rows} LIMIT 0").columns
            read = dict.fromkeys([ROW, *filter(is_read, names), *also, *near])
            found = self.cursor.sql(f"SELECT {', '.join(map(q, read))} FROM {rows}")
            return found.to_arrow_table()
        keys = ", ".join([*writer.keys, *writer.order, q(ROW)])
        number = f"row_number() OVER (ORDER BY {keys}) AS {q(ROW)}"
        rows = writer.write_rows(f"(SELECT * REPLACE ({number}) FROM {numbered})")
        self.cursor.execute(f"CREATE TEMP TABLE {self.held} AS SELECT * FROM ({rows}){where}")
        names = [row[0] for row in self.cursor.execute(f"DESCRIBE {self.held}").fetchall()]
        read = dict.fromkeys([ROW, *filter(is_read, names), *also])
        chosen = f"SELECT {', '.join(map(q, read))} FROM {self.held} ORDER BY {q(ROW)}"
        return self.cursor.sql(chosen).to_arrow_table()

    def _sort_rows(
        self, numbered: str, reading: Sequence[str], also: Sequence[str]
    ) -> pa.Table | None:
        """Return the rows in order, with the columns that `reading` may name and others.

        None: DuckDB has to sort them.
        """
        if not self.may_sort:
            return None
        q = self.writer.quote
        orders = [part.tree for part in self.writer.plan.clause.order]
        sorts = [*self.writer.keys, *(self.writer.write(tree.this) for tree in orders)]
        texts = " ".join(reading).lower()
        kept = [column for column in self.writer.columns if column.lower() in texts]
        names = [f"@sort{number}" for number in range(len(sorts))]
        chosen = [q(column) for column in dict.fromkeys([*kept, *also, ROW])]
        chosen += [f"{sql} AS {q(name)}" for sql, name in zip(sorts, names, strict=True)]
        asked = self.cursor.sql(f"SELECT {', '.join(chosen)} FROM {numbered}")
        if not all(_is_plain(kind) for kind in asked.types):
            return None
        if asked.count("*").fetchall()[0][0] > _MOST_SORTED:
            return None
        rows = asked.to_arrow_table()
        columns = [(rows.column(name), False) for name in (*names, ROW)]
        first = len(self.writer.keys)
        for number, tree in enumerate(orders, start=first):
            columns[number] = (columns[number][0], bool(tree.args.get("desc")))
        keys = [column for column, _ in columns[:first]]
        order = find_row_order(keys, columns[first:], rows.num_rows)
        return None if order is None else add_ranks(rows.drop_columns([*names, ROW]), order)

    def write_measures(self, table: pa.Table, matched: MatchedRows) -> str:
        """Return the query of the measures over the rows of matches."""
        q, name = self.writer.quote, f"{self.name}@matched"
        numbers = np.asarray(table.column(ROW), np.int64)
        described = describe_rows(matched, numbers, self.matcher)
        rows = pa.table({ROW: numbers[matched.rows], **described})
        joined = q(name)
        if self.sorted is not None:
            rows = self._add_kept(rows, table, matched)
        else:
            kept = "".join(f", s.{q(column)}" for column in self.writer.kept)
            on = f"m.{q(ROW)} = s.{q(ROW)}"
            joined = f"(SELECT m.*{kept} FROM {q(name)} AS m JOIN {self.held} AS s ON {on})"
        self.cursor.register(name, rows)
        self.joined = joined
        return self.writer.write_measures(joined)

    def _add_kept(self, rows: pa.Table, table: pa.Table, matched: MatchedRows) -> pa.Table:
        """Return the rows of matches with the columns that measures are computed from."""
        assert self.sorted is not None
        indices = pa.array(np.asarray(rows.column(ROW)) - 1)
        for name in self.writer.kept:
            if name in self.sorted.column_names:
                column = self.sorted.column(name).take(indices)
            else:
                column = table.column(name).take(pa.array(matched.rows))
            rows = rows.append_column(name, column)
        return rows

    def read_result(self, measures: str, around: SqlQuery | None) -> pa.Table:
        """Return the rows of the measures, or of the statement `around` the clause."""
        if around is not None:
            self.cursor.execute(f"CREATE TEMP TABLE {self.name} AS {measures}")
            measures = _write(around.statement.query, around)
        return _convert_intervals(self.cursor.sql(measures).to_arrow_table(), months=False)

    def drop_rows(self) -> None:
        self.cursor.unregister(f"{self.name}@matched")
        if self.sorted is None:
            self.cursor.execute(f"DROP TABLE {self.held}")
        else:
            self.cursor.unregister(f"{self.name}@rows")
            self.sorted = None
