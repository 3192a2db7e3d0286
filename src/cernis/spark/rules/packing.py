"""`RulePacking`: rows travel once for each key of rules that they can move.

Cost contract: per row and key, one look-up in the index over types and constants
(`run.rules.routing.Router`). Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cernis.events.batch import Bools
from cernis.run.rules.routing import ConstantTest, Router
from cernis.spark.rules.versions import RuleRecord
from cernis.spark.streaming.packing import Packing
from cernis.spark.streaming.side_output import find_batch
from cernis.spark.worker import BUCKET, HOME, STREAM, RowReading, name_columns


@dataclass(frozen=True)
class RulePacking(Packing):
    """The work of a task that packs rows for rules."""

    reading: RowReading
    record: RuleRecord
    equalities: tuple[tuple[frozenset[ConstantTest] | None, ...], ...]
    """For each version and group: those of which one holds for an event that moves a rule of the
    group; None: any event may. Where there are none, the group has no rules."""

    def spread(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows once for each key of rules that they can move; one of these counts."""
        record = self.record
        version = record.versions.index(record.find_version(find_batch()))
        columns = [bucket_column(group) for group in range(len(record.groups))]
        rows = table.drop_columns([BUCKET, *columns])
        free = np.ones(table.num_rows, np.bool_)
        for group, equalities in enumerate(self.equalities[version]):
            if equalities is not None and not equalities:
                continue
            bucket = table.column(columns[group])
            wanted = np.asarray(bucket.is_valid())
            if equalities is not None:
                router = Router({0: equalities}, self.reading.reading.type_column)
                wanted = wanted & _find_relevant(router, self.reading, rows)
            if wanted.any():
                keep = pa.array(wanted)
                own = rows.filter(keep).append_column(BUCKET, bucket.filter(keep))
                yield own.append_column(HOME, pa.array(free[wanted]))
                free &= ~wanted


def bucket_column(group: int) -> str:
    """Return the column that has the bucket of an event for the rules of one key."""
    return f"{BUCKET}{group}"


def _find_relevant(router: Router, reading: RowReading, rows: pa.Table) -> Bools:
    """Return which events can move a rule."""
    found = np.zeros(rows.num_rows, np.bool_)
    for number, stream in enumerate(reading.streams):
        places = np.arange(rows.num_rows)
        own = rows
        if STREAM in rows.column_names:
            places = np.flatnonzero(np.asarray(rows.column(STREAM)) == number)
            own = rows.take(pa.array(places))
        for at in router.route(name_columns(own, stream)).values():
            found[places[at]] = True
    return found
