"""`sql` and `match_recognize`: SQL statements with MATCH_RECOGNIZE on Spark.

    rows ─ window: masks, PREV and NEXT ─▶ tasks, by PARTITION BY ─▶ rows of matches ─▶ measures

Spark evaluates every expression. Its window puts the rows of a partition into one task, in order,
so the matcher needs no shuffle of its own. Where the pattern allows it, rows that fit no variable
stay in the JVM. Workers get masks, the values that conditions look at, and the columns that the
result needs. Measures are one more shuffle, of the rows of matches.

Without PARTITION BY one task reads all rows, as the standard demands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlglot import exp

from cernis.errors import CernisError, DataError, QueryError, Span
from cernis.plan.rows.matcher import CLASSIFIER, EXCLUDED, MATCH, NUMBER, PLACE, ROW, is_read
from cernis.plan.rows.plan import RowPlan
from cernis.plan.rows.write import QueryWriter
from cernis.run.rows.feed import DEFAULT_BUDGET
from cernis.run.rows.statement import SqlQuery
from cernis.spark.options import JobOptions
from cernis.work.reading import recognize_rows
from cernis.work.row_patterns import PartitionWork

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
    stream: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Return the rows of a query that may have MATCH_RECOGNIZE clauses, as a lazy DataFrame.

    The query may use the tables and views of the session, and DataFrames that are given by name.
    `dialect` is the SQL that the text is written in, `budget` how many transitions the search of a
    task may try where conditions depend on the path.

    Rows of a streaming DataFrame give a streaming DataFrame. `stream` has the options of
    `recognize` for streams: `lateness`, `ahead`, `late_output`, `checkpoint`, `tasks`, `on_error`,
    `secret`.
    """
    query = SqlQuery(text, dialect=dialect)
    options = JobOptions(**(stream or {}))
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
    return runner.query(query.statement.query)


def match_recognize(
    rows: Any,
    clause: str,
    *,
    dialect: str = "spark",
    budget: int = DEFAULT_BUDGET,
    stream: Mapping[str, Any] | None = None,
) -> Any:
    """Return the matches of a clause in a DataFrame, as a DataFrame; other options as in `sql`.

    `clause` is what stands in the brackets of MATCH_RECOGNIZE.
    """
    text = f"{_BEFORE}{clause}\n)"
    try:
        spark, tables = rows.sparkSession, {"rows": rows}
        return sql(spark, text, tables, dialect=dialect, budget=budget, stream=stream)
    except QueryError as error:
        moved = [replace(one, span=_move(one.span)) for one in error.diagnostics]
        raise QueryError(moved, clause) from None


def _move(span: Span | None) -> Span | None:
    """Return a place in the clause for one in the statement around it."""
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
        return self.run(tree.sql("spark"), **used)

    def run(self, text: str, **frames: Any) -> Any:
        """Return the rows of a text; DataFrames stand for the tables of their names."""
        text = text.replace("{", "{{").replace("}", "}}")
        for name in frames:
            text = re.sub(rf"(?<![\w`'\"]){name}(?![\w`'\"])", f"{{{name}}}", text)
        try:
            return self.spark.sql(text, **frames)
        except PySparkException as error:
            raise _translate(error) from None

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
        masked = self.run(writer.write_rows("cernis_rows"), cernis_rows=numbered)
        fitting = writer.write_fitting()
        if fitting is not None:
            masked = masked.filter(fitting)
        kept = tuple(writer.kept)
        read = [ROW, *filter(is_read, masked.columns)]
        sent = masked.select(*(f"`{name}`" for name in dict.fromkeys([*read, *kept])))
        fields = [field for name in kept for field in masked.schema if field.name == name]
        work = PartitionWork(matcher=plan.matcher, kept=kept, budget=self.budget)
        schema = T.StructType([*fields, *_ADDED])
        matched = sent.mapInArrow(partial(recognize_rows, work), schema)
        text = writer.write_measures("cernis_matched")
        self.tables[plan.recognition.name] = self.run(text, cernis_matched=matched)


def _translate(error: PySparkException) -> CernisError:
    """Return an error of Spark as one of a user."""
    first = str(error.getMessage() or error).split("\n")[0]
    return DataError(first)
