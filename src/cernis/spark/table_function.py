"""`cernis` for Spark SQL: a table function that gives the matches of a query in a table.

    SELECT * FROM cernis(TABLE(trades) PARTITION BY name ORDER BY (ts), 'SELECT …')

(Spark's parser takes the text for a second ORDER BY without the parentheses, or without
`query =>` before it.) Each partition is a stream of its own, read in the order that ORDER BY
gives; the columns of the answer follow from the query and the table, as with `recognize`.
`cernis_all` is for callers who name no partition: the query's own PARTITION BY and the time
column arrange the rows, all of them on one task if the query has none.

Cost contract: Spark calls a table function whose columns depend on its arguments one row at a
time, so each event costs a Python object; the engine reads them as Arrow tables. `recognize`
has no such cost, and does not shuffle irrelevant events. Turned down: table functions over
Arrow batches, which have the same columns for every query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, OrderingColumn, PartitioningColumn

from cernis.errors import CernisError, Diagnostic, QueryError
from cernis.events.order import Ordering
from cernis.events.source import DEFAULT_TIME, open_events
from cernis.pattern.query import Consume, Unit
from cernis.results.groups import Groups
from cernis.results.matches import Matches
from cernis.results.values import python_values
from cernis.run.query import Query
from cernis.run.session import Session
from cernis.spark.frame import arrow_type
from cernis.spark.unify import quote_name
from cernis.work.columns import ROW
from cernis.work.group_parts import cast_groups, exact_columns
from cernis.work.query import QueryWork, answer_schema, cast_counts
from cernis.work.reading import StreamColumns

_ROWS = 1 << 16


def register(spark: Any) -> None:
    """Register `cernis` and `cernis_all` for a session's SQL."""
    from pyspark.sql.functions import udtf

    spark.udtf.register("cernis", udtf(Recognized))
    spark.udtf.register("cernis_all", udtf(RecognizedAll))


@dataclass
class Analyzed(AnalyzeResult):
    """The result of the analysis of a call, for the instances that run it."""

    query: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    events: bytes = b""
    exact: tuple[str, ...] = ()
    """The columns of groups that are integers of any size."""


class Recognized:
    """The session of one partition, which gets its rows in tables."""

    def __init__(self, analyzed: Analyzed) -> None:
        self.schema = pa.ipc.read_schema(pa.py_buffer(analyzed.events))
        self.session: Session[Any] = Query(analyzed.query).session(**analyzed.reading)
        self.exact = analyzed.exact
        self.rows: list[Row] = []

    @staticmethod
    def analyze(
        events: AnalyzeArgument,
        query: AnalyzeArgument,
        time: AnalyzeArgument | None = None,
        type: AnalyzeArgument | None = None,
        time_unit: AnalyzeArgument | None = None,
    ) -> Analyzed:
        if not events.isTable or not isinstance(events.dataType, T.StructType):
            raise CernisError("cernis: the first argument is a table: TABLE(trades)")
        given = {"time": time, "type": type, "time_unit": time_unit}
        reading = _read_columns({name: each for name, each in given.items() if each is not None})
        text = _text("query", query)
        for column in events.dataType.fields:
            if arrow_type(column.dataType) is None:
                raise CernisError(
                    f"cernis: the column {column.name!r} holds {column.dataType.simpleString()}, "
                    "which cannot travel to Python; leave it out: TABLE(SELECT … FROM …)"
                )
        schema = to_arrow_schema(events.dataType, timezone="UTC")
        try:
            answer, exact = _answer_schema(Query(text), schema, **reading)
        except QueryError as error:
            raise CernisError(f"cernis: {error}") from None
        return Analyzed(
            schema=from_arrow_schema(answer, prefer_timestamp_ntz=True),
            query=text,
            reading=reading,
            events=schema.serialize().to_pybytes(),
            exact=exact,
        )

    def eval(self, events: Row, query: str, *_: Any, **__: Any) -> Iterator[tuple[Any, ...]]:
        self.rows.append(events)
        if len(self.rows) >= _ROWS:
            yield from self._push()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        yield from self._push()
        yield from self._give(self.session.finish())

    def _push(self) -> Iterator[tuple[Any, ...]]:
        rows, self.rows = self.rows, []
        columns = [
            pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self.schema)
        ]
        yield from self._give(self.session.push(pa.table(columns, schema=self.schema)))

    def _give(self, found: Matches | Groups) -> Iterator[tuple[Any, ...]]:
        if isinstance(found, Groups):
            batches = cast_groups(found.to_arrow(), self.exact, "decimal").to_batches()
        elif found.counting:
            batches = cast_counts(found.counts()).to_batches()
        else:
            batches = found.batches()
        for batch in batches:
            yield from zip(*(python_values(column) for column in batch.columns), strict=True)


class RecognizedAll(Recognized):
    """Like `Recognized`, with rows arranged as the query needs them."""

    @staticmethod
    def analyze(
        events: AnalyzeArgument,
        query: AnalyzeArgument,
        time: AnalyzeArgument | None = None,
        type: AnalyzeArgument | None = None,
        time_unit: AnalyzeArgument | None = None,
    ) -> Analyzed:
        analyzed = Recognized.analyze(events, query, time, type, time_unit)
        pattern = Query(analyzed.query).pattern
        # a column of the key that has alternatives does not say which rows belong together
        key = [group[0] for group in pattern.spreading_groups if len(group) == 1]
        if pattern.grouping is not None and not pattern.grouping.end:
            # all matches of a group belong together
            key = [name for name in key if name in pattern.grouping.components]
        after = pattern.absent_after
        if pattern.consume is Consume.ANY or (after is not None and after.within.unit is Unit.TIME):
            key = []  # events of other keys end matches, or let their deadline pass
        columns = pa.ipc.read_schema(pa.py_buffer(analyzed.events)).names
        analyzed.partitionBy = [PartitioningColumn(_quote_path(name, columns)) for name in key]
        analyzed.withSinglePartition = not key
        column = analyzed.reading.get("time", DEFAULT_TIME)
        if column in columns:
            analyzed.orderBy = [OrderingColumn(quote_name(column))]
        return analyzed


def _quote_path(name: str, columns: list[str]) -> str:
    """Quote a column, or the path to an attribute inside of one, for Spark's expressions.

    >>> _quote_path("user.id", ["user"]), _quote_path("user.id", ["user.id"])
    ('`user`.`id`', '`user.id`')
    """
    return ".".join(map(quote_name, [name] if name in columns else name.split(".")))


def _answer_schema(
    query: Query, schema: pa.Schema, **reading: Any
) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the columns of the answer, for events with these columns, and which are exact."""
    for join in query.pattern.joins:
        message = "JOIN does not go with the table function: join the tables in SQL, before it"
        raise QueryError([Diagnostic(message, join.span)], query.pattern.source)
    session = query.session(**reading)
    session.check(schema.empty_table())
    options = session.options
    [source] = open_events(
        schema.empty_table(), names=query.pattern.streams, time=options.time, type=options.type
    )
    work = QueryWork(
        plan=session.plan,
        streams=(
            StreamColumns(name=source.name, columns={name: name for name in source.schema.names}),
        ),
        reading=replace(options, time=source.time_column),
        scale=Ordering([source]).scale,
    )
    rows = source.schema.append(pa.field(ROW, pa.int64())).empty_table()
    if query.pattern.grouping is not None:
        work = replace(work, exact=exact_columns(query.pattern, answer_schema(work, rows)))
    return answer_schema(work, rows), work.exact


def _read_columns(given: Mapping[str, AnalyzeArgument]) -> dict[str, str | None]:
    """Return how events are read; `type => NULL`: no column has types. Other NULLs say nothing."""
    reading = {
        name: None if _is_null(argument) else _text(name, argument)
        for name, argument in given.items()
    }
    return {name: each for name, each in reading.items() if each is not None or name == "type"}


def _is_null(argument: AnalyzeArgument) -> bool:
    return argument.isConstantExpression and argument.value is None


def _text(name: str, argument: AnalyzeArgument) -> str:
    if not argument.isConstantExpression or not isinstance(argument.value, str):
        raise CernisError(f"cernis: the argument {name} must be a text that does not vary")
    return argument.value
