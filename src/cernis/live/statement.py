"""From a statement with MATCH_RECOGNIZE and a live input to the work of one bucket.

The statement has one clause over a table, which is the input. DuckDB computes masks, measures and
the statement around the clause, batch by batch (`work.row_stream`). Times become timestamps in the
column that ORDER BY names, whatever form the input has them in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cernis.errors import CernisError, DataError
from cernis.events.source import Source
from cernis.events.times import describe_bad_time, to_ticks
from cernis.live.prepare import LiveOptions, LocalWork, Prepared, Travel
from cernis.run.rows.statement import SqlQuery, find_result_schema
from cernis.work.row_stream import RowStreamWork, check_around, check_stream_clause

_MICROSECOND = 1_000


class _TimedTravel(Travel):
    """Rows under their own names, with timestamps."""

    def __init__(self, source: Source, time_unit: str) -> None:
        self._unit = time_unit
        super().__init__([source], None)

    def name(self, number: int, attribute: str) -> str:
        return attribute

    def carry(self, number: int, table: pa.Table) -> pa.Table:
        table = self._fit(number, table)
        column = table.column(self._time)
        kind = pa.timestamp("us", getattr(column.type, "tz", None))
        if pa.types.is_timestamp(column.type):
            times = column.cast(kind, safe=False)
        else:
            ticks, bad = to_ticks(column, self._unit, _MICROSECOND)
            if bad is not None:
                told = describe_bad_time(column[int(bad.argmax())].as_py())
                raise DataError(f"column {self._time!r}: {told}")
            times = pa.array(ticks, pa.int64()).cast(kind)
        at = table.column_names.index(self._time)
        return table.set_column(at, self._time, times)


def prepare_statement(
    query: SqlQuery, inputs: Mapping[str, Any], options: LiveOptions, form: str
) -> Prepared:
    """Open the input of a statement, and check the statement against its columns."""
    table = check_around(query)
    [plan] = query.plans
    wanted = check_stream_clause(plan)
    if options.row is not None:
        raise CernisError("--row: rows of one time are read in the order in which they come")
    reading = replace(options.reading, time=options.reading.time or wanted, type=None)
    options = replace(options, reading=reading)
    sources = options.open_sources(inputs, [table], None)
    [source] = sources
    plan.check_columns(source.schema.names)
    time = next(name for name in source.schema.names if name.lower() == wanted.lower())
    if time != source.time_column:
        raise CernisError(f"--time {source.time_column}: the statement orders rows by {time!r}")
    travel = _TimedTravel(source, reading.time_unit)
    rows = travel.carry(0, source.schema.empty_table()).schema
    names = {column.name.lower() for _, column in plan.list_columns()}
    columns = tuple(name for name in rows.names if name.lower() in names)
    find_result_schema(plan, rows, query)  # an error if the host does not run it
    work = RowStreamWork(
        text=query.text,
        dialect=query.dialect,
        number=0,
        columns=columns,
        time=time,
        around=True,
        lines=form == "jsonl",
    )
    kinds = {each.name: str(each.type) for each in rows}
    note = {"query": query.text, "dialect": query.dialect, "columns": {table: kinds}}
    digest = hashlib.sha256(repr(sorted(note.items())).encode()).hexdigest()[:32]
    buckets = LocalWork(
        work=work,
        query=digest,
        buckets=(0,),
        numbered=False,
        finds_late=False,
        in_order=True,
        secret=options.secret,
    )
    opening = options.describe_opening([table], None)
    return Prepared(sources=sources, travel=travel, buckets=buckets, note=note, opening=opening)
