"""`JobOptions`: how queries run on Spark, as batches and on streams, whatever their language.

The public functions collect their keywords in it, and pass it on. It also says how many tasks a
query has, unless the user does. Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from cernis.errors import CernisError
from cernis.events.batch import TYPES
from cernis.events.source import TimeColumns, TypeColumns
from cernis.results.budget import CANDIDATE_BUDGET, OnBudget
from cernis.results.formats.jsonlines import TextEvents
from cernis.signature import Secret
from cernis.work.group_parts import NumberForm
from cernis.work.reading import AnswerForm

OnRows = Literal["fail", "skip"]

SAMPLE = 0.02
DEFAULT_TASKS = "200"
"""Spark's own default of `spark.sql.shuffle.partitions`."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How a query runs on Spark; `recognize` and `recognize_graphs` document the options."""

    time: TimeColumns = None
    type: TypeColumns = "type"
    time_unit: str = "ms"
    row: str | None = None
    matches: AnswerForm = "events"
    text: TextEvents = "named"
    """Which events of its matches a line, or a flat column, has."""
    tasks: int | None = None
    sample: float = SAMPLE
    pushdown: bool = True
    read_files: bool = True
    """Tasks may read Parquet files themselves."""
    on_error: OnRows = "fail"
    budget: int = CANDIDATE_BUDGET
    on_budget: OnBudget = "fail"
    placed: bool = False
    """The answer has columns that say in which order matches are found."""
    limit: int | None = None
    """Each task may stop after this many matches."""
    ids: bool = False
    numbers: NumberForm = "decimal"
    complete: bool = False
    """Nothing follows the rows: what waits for a deadline is certain."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """The tables that the query joins, by name: DataFrames, or what `Query.run` takes."""
    streams: Mapping[str, Any] = field(default_factory=dict)
    """The streams of a rule set, in order: rows are numbered through all of them."""
    corrupt: str | None = None
    """A column with the text of rows that could not be decoded; it is no attribute."""
    # streams
    lateness: str | timedelta = "0 seconds"
    ahead: str | timedelta | None = "1 hour"
    late_output: str | None = None
    checkpoint: str | None = None
    secret: Secret = field(default=None, repr=False)

    @property
    def type_column(self) -> str:
        """The column in which events have their types."""
        return self.type if isinstance(self.type, str) else TYPES

    def check(self) -> None:
        """Raise an error for a value that an option cannot have."""
        if self.matches not in ("events", "count", "lines", "flat", "measures"):
            raise CernisError(f"matches={self.matches!r}: expected 'events', 'count' or 'lines'")
        if self.numbers not in ("decimal", "text"):
            raise CernisError(f"numbers={self.numbers!r}: expected 'decimal' or 'text'")
        if self.on_error not in ("fail", "skip"):
            raise CernisError(f"on_error={self.on_error!r}: expected 'fail' or 'skip'")
        if not 0 <= self.sample <= 1:
            raise CernisError(f"sample={self.sample}: expected a share between 0 and 1")
        check_tasks(self.tasks)


def check_tasks(tasks: int | None) -> None:
    if tasks is not None and tasks < 1:
        raise CernisError(f"tasks={tasks}: at least one task is needed")


def count_tasks(spark: Any) -> int:
    """Return `spark.sql.shuffle.partitions`; where that is Spark's default, two per core."""
    partitions = shuffle_partitions(spark)
    context = getattr(spark, "_sc", None)
    if partitions == DEFAULT_TASKS and context is not None:
        return max(1, 2 * int(context.defaultParallelism))
    return max(1, int(partitions))


def shuffle_partitions(spark: Any) -> str:
    return str(spark.conf.get("spark.sql.shuffle.partitions", DEFAULT_TASKS) or DEFAULT_TASKS)
