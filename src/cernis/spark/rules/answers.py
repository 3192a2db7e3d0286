"""The columns of the matches of many rules: those of all rules, NULL where a rule has no such one.

Rules that have a column of one name share it, in a type that holds the values of all. Counts and
sums of integers travel as decimals, since a task does not know how large those of others are.

Where the output has the order of one process, rule after rule, the last columns hold it. Does not
import Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cernis.pattern.query import Pattern
from cernis.results.groups import Groups
from cernis.results.jsonlines import TextEvents
from cernis.results.matches import Matches
from cernis.results.of_rules import fill_table, name_rules, unite_columns
from cernis.run.rules.session import RuleSession
from cernis.spark.carriers import carrier_of
from cernis.spark.group_parts import DECIMAL, cast_groups, exact_columns
from cernis.spark.worker import AnswerForm

ORDER = ("@rule", "@time", "@end", "@place")
"""The columns that order matches: the place of the rule, the time and the row of the end."""


def list_answers(found: Any, form: AnswerForm, text: TextEvents) -> Iterable[pa.RecordBatch]:
    """Return what a rule has found as lines or columns."""
    if form == "lines":
        return found.lines(text) if isinstance(found, Matches) else found.lines()
    if form == "flat":
        return found.flat_batches(events=text != "named")  # type: ignore[no-any-return]
    if isinstance(found, Matches) and not found.counting:
        return found.batches()
    return found.counts().to_batches()  # type: ignore[no-any-return]


def unite_answers(session: RuleSession, form: AnswerForm, text: TextEvents) -> pa.Schema:
    """Return the columns of all rules of a session that is prepared, in the engine's types."""
    schemas, exact = list[pa.Schema](), set[str]()
    for running in session.running:
        found = running.session.empty_result()
        if form == "flat":
            schema = next(found.flat_batches(events=text != "named")).schema
        else:
            schema = found.counts().schema if found.counting else found.schema
        schemas.append(schema)
        if isinstance(found, Groups):
            exact.update(exact_columns(running.pattern, schema))
        elif found.counting:
            exact.add("count")
    fields = [
        column.with_type(DECIMAL)
        if column.name in exact and pa.types.is_int64(column.type)
        else column
        for column in unite_columns(schemas)
    ]
    return pa.schema(fields)


def name_answers(united: pa.Schema, *, ordered: bool) -> pa.Schema:
    """Return the columns of named matches in the types that carry them in Spark.

    >>> name_answers(pa.schema({"rule": pa.string()}), ordered=False).names
    ['rule', 'rule_']
    """
    carried = [each.with_type(carrier_of(each.type) or each.type) for each in name_rules(united)]
    return add_order(pa.schema(carried)) if ordered else pa.schema(carried)


def add_order(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the columns that order matches."""
    return pa.schema([*schema, *(pa.field(name, pa.int64()) for name in ORDER)])


def fill_columns(batch: pa.RecordBatch, united: pa.Schema) -> list[pa.Array]:
    """Return the columns of all rules for the matches of one."""
    table = pa.Table.from_batches([batch])
    exact = [each.name for each in united if each.type == DECIMAL]
    table = cast_groups(table, [name for name in exact if name in table.column_names], "decimal")
    filled = fill_table(table, united)
    return [column.combine_chunks() for column in filled.columns]


def order_answers(
    batch: pa.RecordBatch, number: int, places: pa.Array, pattern: Pattern
) -> list[pa.Array]:
    """Return the columns of `ORDER` for some matches of a rule."""
    size = batch.num_rows
    first = pa.repeat(pa.scalar(number, pa.int64()), size)
    if is_ordered_by_place(pattern):
        nothing = pa.repeat(pa.scalar(0, pa.int64()), size)
        return [first, nothing, nothing, places]
    times = batch.column(batch.schema.names.index("end_ts"))
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    end = batch.column(batch.schema.names.index("end"))
    return [first, times.cast(pa.int64(), safe=False), end.cast(pa.int64()), places]


def is_ordered_by_place(pattern: Pattern) -> bool:
    """Return whether one task has to find all matches of a rule, for their order."""
    grouping = pattern.grouping
    ranks = pattern.ranks_intervals or pattern.ranks_overall
    return ranks or (grouping is not None and not grouping.end)
