"""`sql` and `match_recognize`: SQL statements with MATCH_RECOGNIZE on Spark.

    rows ─ window: masks, PREV and NEXT ─▶ tasks, by PARTITION BY ─▶ rows of matches ─▶ measures

Spark evaluates every expression. Its window puts the rows of a partition into one task, in order,
so the matcher needs no shuffle of its own. Where the pattern allows it, rows that fit no variable
stay in the JVM. Workers get masks, the values that conditions look at, and the columns that the
result needs. Measures are one more shuffle, of the rows of matches.

One task reads a partition, and without PARTITION BY all rows, as the standard demands: they stream
through it (`work.row_patterns`), and Spark's window spills to disk. Where WITHIN bounds a match,
all rows, or partitions with far too many, can be cut into slices of time (`row_slices`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type
from sqlglot import exp

from cernis.errors import CernisError, QueryError, Span
from cernis.languages.sql.host_errors import explain_host_error, find_culprit, write_host_sql
from cernis.plan.rows.matcher import CLASSIFIER, EXCLUDED, MATCH, NUMBER, PLACE, ROW, is_read
from cernis.plan.rows.plan import RowPlan
from cernis.plan.rows.write import QueryWriter
from cernis.run.rows.feed import DEFAULT_BUDGET
from cernis.run.rows.statement import SqlQuery
from cernis.spark.options import JobOptions, count_tasks
from cernis.work.columns import OWN
from cernis.work.reading import recognize_rows
from cernis.work.row_patterns import PartitionWork
from cernis.work.row_slices import (
    CHOSEN_FIELDS,
    CHUNK,
    EARLY,
    GROUP,
    HEAD,
    SLICE,
    SLICE_FIELDS,
    ChosenWork,
    SeamWork,
    SliceWork,
)

_AFTER = "@after"
_POSSIBLE = "@possible"
_WORTH = 8
"""How many tasks make up for what slices cost."""
_BEFORE = "SELECT * FROM rows MATCH_RECOGNIZE ("
_ADDED = (
    T.StructField(MATCH, T.LongType()),
    T.StructField(NUMBER, T.LongType()),
    T.StructField(PLACE, T.LongType()),
    T.StructField(CLASSIFIER, T.StringType()),
    T.StructField(EXCLUDED, T.BooleanType()),
)


def sql(
    spark: Any,
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    dialect: str = "spark",
    budget: int = DEFAULT_BUDGET,
    tasks: int | None = None,
    sample: float = 0.0,
    stream: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Return the rows of a query that may have MATCH_RECOGNIZE clauses, as a lazy DataFrame.

    The query may use the tables and views of the session, and DataFrames that are given by name.
    `dialect` is the SQL that the text is written in, `budget` how many transitions the search of a
    task may try where conditions depend on the path.

    Where WITHIN bounds a match, `tasks` cuts the rows of a clause without PARTITION BY into so many
    slices of time; without it they are cut where eight tasks or more share the work. `sample` looks
    for partitions with far too many rows in a share of the rows, such as 0.02, and cuts these.

    Rows of a streaming DataFrame give a streaming DataFrame. `stream` has the options of
    `recognize` for streams: `lateness`, `ahead`, `late_output`, `checkpoint`, `tasks`, `on_error`,
    `secret`.
    """
    query = SqlQuery(text, dialect=dialect)
    options = JobOptions(**{"tasks": tasks, "sample": sample, **(stream or {})})
    return run_query(spark, query, {**(tables or {}), **named}, budget, options)


def run_query(
    spark: Any,
    query: SqlQuery,
    tables: Mapping[str, Any],
    budget: int,
    options: JobOptions | None = None,
) -> Any:
    """Return the rows of a statement over DataFrames by name, and tables of the session."""
    runner = _SparkRunner(spark, query, tables, budget, options or JobOptions())
    for plan in query.plans:
        runner.answer(plan)
    query.statement.check_columns()
    return runner.query(query.statement.query)


def match_recognize(
    rows: Any,
    clause: str,
    **options: Any,
) -> Any:
    """Return the matches of a clause in a DataFrame, as a DataFrame.

    `clause` is what stands in the brackets of MATCH_RECOGNIZE. The options are those of `sql`.
    """
    text = f"{_BEFORE}{clause}\n)"
    try:
        return sql(rows.sparkSession, text, {"rows": rows}, **options)
    except QueryError as error:
        moved = [replace(one, span=_move(one.span)) for one in error.diagnostics]
        raise QueryError(moved, clause) from None


def _move(span: Span | None) -> Span | None:
    """Return a span in the clause for one in the statement around it."""
    if span is None:
        return None
    return Span(max(span.start - len(_BEFORE), 0), max(span.end - len(_BEFORE), 0))


class _SparkRunner:
    """Runs one statement."""

    def __init__(
        self,
        spark: Any,
        query: SqlQuery,
        tables: Mapping[str, Any],
        budget: int,
        options: JobOptions,
    ) -> None:
        self.spark = spark
        self.statement = query
        self.options = options
        self.tables = {name.lower(): frame for name, frame in tables.items()}
        self.budget = budget

    def query(self, tree: exp.Query) -> Any:
        """Return the rows of a query over tables of the session, and given ones."""
        used: dict[str, Any] = {}
        tree = tree.copy()
        own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            name = table.name.lower()
            if not table.db and name in self.tables and name not in own:
                used[f"cernis_{name}"] = self.tables[name]
                alias = table.alias or table.name
                table.set("this", exp.to_identifier(f"cernis_{name}"))
                table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        return self.run(write_host_sql(tree, "spark", self.statement.text), **used)

    def run(self, text: str, **frames: Any) -> Any:
        """Return the rows of a text; DataFrames stand for the tables of their names."""
        try:
            return self._ask(text, frames)
        except PySparkException as error:
            raise self._explain(error) from None

    def _ask(self, text: str, frames: Mapping[str, Any]) -> Any:
        return self.spark.sql(_name_frames(text, frames), **frames)

    def run_clause(
        self, writer: QueryWriter, write: Callable[[QueryWriter], str], rows: Any
    ) -> Any:
        """Return the rows of a query of a clause; `cernis_rows` stands for rows."""

        def fails(one: QueryWriter) -> bool:
            try:
                self._ask(write(one), frames)
            except PySparkException:
                return True
            return False

        frames = {"cernis_rows": rows}
        try:
            return self._ask(write(writer), frames)
        except PySparkException as error:
            raise self._explain(error, find_culprit(writer.isolate(), fails)) from None

    def _explain(self, error: PySparkException, part: Span | None = None) -> CernisError:
        """Return an error of Spark as one of the user's statement."""
        first = str(error.getMessage() or error).split("\n")[0]
        return explain_host_error(first.partition(" SQLSTATE:")[0], self.statement.text, part)

    def answer(self, plan: RowPlan) -> None:
        """Make a table of a clause's result, with the clause's name."""
        rows = self.query(plan.recognition.rows)
        columns = tuple(rows.columns)
        plan.check_columns(columns)
        if rows.isStreaming:
            from cernis.spark.streaming.row_patterns import recognize_row_stream

            found = recognize_row_stream(rows, plan, self.statement, self.options, self.budget)
            self.tables[plan.recognition.name] = found
            return
        writer = QueryWriter(plan, "spark", columns)
        numbered = rows.withColumn(ROW, F.monotonically_increasing_id())
        pieces = self.options.tasks or count_tasks(self.spark)
        if pieces > 1 and self._is_cut(plan, pieces):
            matched = self._match_slices(rows, numbered, writer, pieces)
        else:
            matched = self._match_partitions(numbered, writer)
        found = self.run_clause(writer, lambda one: one.write_measures("cernis_rows"), matched)
        self.tables[plan.recognition.name] = found

    def _is_cut(self, plan: RowPlan, pieces: int) -> bool:
        """Return whether partitions are cut into slices, which takes twice the work in all."""
        if plan.whole_partitions:
            return False
        if plan.clause.partition:
            return self.options.sample > 0
        return self.options.tasks is not None or pieces >= _WORTH

    def _match_partitions(self, numbered: Any, writer: QueryWriter) -> Any:
        """Return the rows of matches: one task reads a partition."""
        masked = self.run_clause(writer, lambda one: one.write_rows("cernis_rows"), numbered)
        possible = writer.write_fitting() or writer.write_possible()
        if possible is not None:
            masked = masked.withColumn(_POSSIBLE, F.expr(possible)).filter(F.col(_POSSIBLE))
        kept = tuple(writer.kept)
        read = [ROW, *filter(is_read, masked.columns)]
        sent = masked.select(*(f"`{name}`" for name in dict.fromkeys([*read, *kept])))
        work = PartitionWork(matcher=writer.plan.matcher, kept=kept, budget=self.budget)
        schema = T.StructType([*_find_fields(masked, kept), *_ADDED])
        return sent.mapInArrow(partial(recognize_rows, work), schema)

    def _match_slices(self, rows: Any, numbered: Any, writer: QueryWriter, pieces: int) -> Any:
        """Return the rows of matches: tasks read slices of partitions."""
        from cernis.spark.row_slices import AROUND, slice_partitions

        sliced = slice_partitions(rows, numbered, writer, pieces, self.options.sample)
        own = replace(writer, part=SLICE)
        masked = self.run_clause(own, lambda one: one.write_rows("cernis_rows"), sliced)
        fitting = own.write_fitting()
        if fitting is not None:
            # one row that fits nothing stays between two that fit, and keeps them apart
            after = F.expr(f"coalesce(lag({fitting}) OVER {own.window}, true)")
            masked = masked.withColumn(_AFTER, after).filter(F.expr(fitting) | F.col(_AFTER))
        masked = masked.filter(~F.col(AROUND))
        kept, keys = tuple(writer.kept), tuple(writer.partition_columns)
        read = [ROW, SLICE, OWN, EARLY, *filter(is_read, masked.columns)]
        sent = masked.select(*(f"`{name}`" for name in dict.fromkeys([*read, *kept])))
        named: dict[str, Any] = {"matcher": writer.plan.matcher, "kept": kept}
        named["budget"] = self.budget
        found = sent.mapInArrow(
            partial(recognize_rows, SliceWork(keys=keys, **named)),
            T.StructType([*_find_fields(masked, keys), *_to_fields(SLICE_FIELDS)]),
        )
        quoted = [f"`{name}`" for name in keys]
        partition = f"PARTITION BY {', '.join(quoted)} " if keys else ""
        order = f"({partition}ORDER BY `{SLICE}`, `{CHUNK}`)"
        found = found.withColumn(GROUP, F.expr(f"first_value(`{HEAD}`) OVER {order}"))
        chosen = found.drop(*keys).mapInArrow(
            partial(recognize_rows, SeamWork(**named)), T.StructType(_to_fields(CHOSEN_FIELDS))
        )
        schema = T.StructType([*_find_fields(masked, kept), *_ADDED])
        work = partial(recognize_rows, ChosenWork(**named))
        return chosen.repartition(pieces).mapInArrow(work, schema)


def _name_frames(text: str, frames: Iterable[str]) -> str:
    """Return a text in which the names of DataFrames stand in braces, as Spark wants them."""
    text = text.replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = re.sub(rf"(?<![\w`'\"]){name}(?![\w`'\"])", f"{{{name}}}", text)
    return text


def _find_fields(frame: Any, names: Iterable[str]) -> list[T.StructField]:
    return [field for name in names for field in frame.schema if field.name == name]


def _to_fields(types: Mapping[str, Any]) -> list[T.StructField]:
    return [T.StructField(name, from_arrow_type(kind)) for name, kind in types.items()]
