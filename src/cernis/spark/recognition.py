"""`recognize`: the matches of a query in DataFrames, as a DataFrame.

Its parts: `prepare` decides, `batch` and `streaming.recognize` build the DataFrame of the
matches. The module is not called `recognize`, which would hide the function
`cernis.spark.recognize`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from cernis.errors import CernisError
from cernis.events.source import TimeColumns, TypeColumns
from cernis.pattern.query import Pattern
from cernis.run.budget import CANDIDATE_BUDGET, OnBudget
from cernis.run.query import Query
from cernis.signature import Secret
from cernis.spark.batch import recognize_batch
from cernis.spark.group_parts import NumberForm
from cernis.spark.notes import Notes
from cernis.spark.options import SAMPLE, JobOptions, OnRows
from cernis.spark.prepare import make_work, prepare_job
from cernis.spark.worker import AnswerForm


def recognize(
    events: Any,
    query: str | Query | Pattern,
    *,
    lang: str = "ceql",
    time: TimeColumns = None,
    type: TypeColumns = "type",
    time_unit: str = "ms",
    row: str | None = None,
    matches: AnswerForm = "events",
    tasks: int | None = None,
    sample: float = SAMPLE,
    pushdown: bool = True,
    on_error: OnRows = "fail",
    budget: int = CANDIDATE_BUDGET,
    on_budget: OnBudget = "fail",
    ids: bool = False,
    numbers: NumberForm = "decimal",
    complete: bool = False,
    tables: Mapping[str, Any] | None = None,
    lateness: str | timedelta = "0 seconds",
    ahead: str | timedelta | None = "1 hour",
    late_output: str | None = None,
    corrupt: str | None = None,
    checkpoint: str | None = None,
    notes: Notes | None = None,
    secret: Secret = None,
) -> Any:
    """Return the matches in a DataFrame (or several, in a dict by stream) as a lazy DataFrame.

    `time`, `type` and `time_unit` are those of `Query.run`. `row` names a column of row
    numbers, which break ties of time; without it rows are numbered as they come.
    `matches="count"` gives the number of matches at each end; `matches="lines"` gives each
    match as a line of JSON with row numbers, as the command line writes it. `tasks` is the
    number of tasks. `sample` is the share of the events that is sampled to cut time into slices
    and to find keys with far too many events; 0 does not look for such keys and saves that
    sample. `pushdown=False` evaluates predicates in Python, to measure what Catalyst saves.
    `on_error` says what happens to rows without a usable time. `budget` holds for each task.
    With `ids`, a column `id` names each match; the same rows give the same name. Numbers of
    matches and sums of integers over the matches of a group (GROUP BY) are decimals of 38 digits,
    and longer ones an error; `numbers="text"` gives them as text of any length. `complete` says
    that nothing follows the rows, so that what waits for a deadline (WITHOUT … FOR) is certain.
    `tables` are those that the query joins, by name: static DataFrames, or what `Query.run` takes.
    Why the answer is empty, `explain(…, measure=True).notes` says.

    Streaming DataFrames give a streaming DataFrame. `lateness` is how late an event may come;
    matches are reported when it has passed. Later events are counted, and so are events that
    lie more than `ahead` after the machine's clock (None: no limit), and bad events under
    `on_error="skip"`. All of these are written to the folder `late_output`. `corrupt` names a
    column that is not NULL where a row could not be decoded. `checkpoint` is the folder that
    the query will be started with; a checkpoint of another query is an error here and now.
    `tasks` is then the number of buckets that keys are spread over, which a checkpoint fixes,
    and `budget` holds for each bucket in each micro-batch. `notes` (a new `Notes`) gets warnings
    about the events while they come: odd times, types that no event has, conditions that none
    satisfies. `secret` signs the state of Cernis in the checkpoint. The other options are for
    batches.
    """
    options = JobOptions(
        time=time,
        type=type,
        time_unit=time_unit,
        row=row,
        matches=matches,
        tasks=tasks,
        sample=sample,
        pushdown=pushdown,
        on_error=on_error,
        budget=budget,
        on_budget=on_budget,
        ids=ids,
        numbers=numbers,
        complete=complete,
        tables=tables or {},
        corrupt=corrupt,
    )
    job = prepare_job(events, query, options, lang=lang)
    for warning in job.query.warnings:
        warnings.warn(warning, stacklevel=2)
    if not job.is_streaming:
        if notes is not None:
            raise CernisError("notes= is for streams; of a batch, explain has them")
        return _warn_of_alike(recognize_batch(job, make_work(job)))
    # needs more of Spark than batches do
    from cernis.spark.streaming.dataflow import StreamOptions
    from cernis.spark.streaming.recognize import recognize_stream

    found = recognize_stream(
        job,
        StreamOptions(
            lateness=lateness,
            ahead=ahead,
            late_output=late_output,
            checkpoint=checkpoint,
            notes=notes,
            secret=secret,
        ),
    )
    return _warn_of_alike(found)


def _warn_of_alike(found: Any) -> Any:
    """Warn of columns that Spark does not tell apart, as it ignores case, and return the frame."""
    if str(found.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true":
        return found
    known: dict[str, str] = {}
    for name in found.columns:
        other = known.setdefault(name.lower(), name)
        if other != name:
            warnings.warn(
                f"Spark does not tell the columns {other!r} and {name!r} apart; give one of them "
                f"another name: {name} AS …",
                stacklevel=3,
            )
    return found


def recognizer(query: str | Query | Pattern, **options: Any) -> Callable[[Any], Any]:
    """Return `recognize` for one query, for `df.transform(recognizer(query))`."""
    return partial(recognize, query=query, **options)
