"""`recognize`, `recognize_rules`: matches in DataFrames, as a DataFrame.

Their parts: `prepare` decides, `batch` and `streaming.recognize` build the DataFrame of the
matches. All rules of a set share one DataFrame, and one shuffle for each key. Apart
(`together=False`), each rule of a batch has a DataFrame of its own columns, with its own plan and
its own shuffle: nothing is shared but the input, which each of them reads.

The module is not called `recognize`, which would hide the function `cernis.spark.recognize`.
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
from cernis.results.budget import CANDIDATE_BUDGET, OnBudget
from cernis.run.query import Query
from cernis.run.rules.rule_set import RuleSet
from cernis.signature import Secret
from cernis.spark.batch import recognize_batch, recognize_rule_batch
from cernis.spark.notes import Notes
from cernis.spark.options import SAMPLE, JobOptions, OnRows
from cernis.spark.prepare import make_work, prepare_job, prepare_rule_job, prepare_rules_apart
from cernis.work.group_parts import NumberForm
from cernis.work.reading import AnswerForm


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
    read_files: bool = True,
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
    Tasks read Parquet files themselves where their row groups lie in order of time (`explain` says
    so), and Spark moves no row; with `read_files=False`, Spark reads all files. `on_error` says
    what happens to rows without a usable time. `budget` holds for each task.
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
        read_files=read_files,
        on_error=on_error,
        budget=budget,
        on_budget=on_budget,
        ids=ids,
        numbers=numbers,
        complete=complete,
        tables=tables or {},
        corrupt=corrupt,
        lateness=lateness,
        ahead=ahead,
        late_output=late_output,
        checkpoint=checkpoint,
        secret=secret,
    )
    job = prepare_job(events, query, options, lang=lang)
    for warning in job.query.warnings:
        warnings.warn(warning, stacklevel=2)
    if not job.is_streaming:
        if notes is not None:
            raise CernisError("notes= is for streams; of a batch, explain has them")
        return _warn_of_alike(recognize_batch(job, make_work(job)))
    # needs more of Spark than batches do
    from cernis.spark.streaming.recognize import recognize_stream

    return _warn_of_alike(recognize_stream(job, notes))


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


# -------------------------------------------------------------------- rules


def recognize_rules(
    events: Any,
    rules: Any,
    *,
    notes: Notes | None = None,
    together: bool = True,
    **options: Any,
) -> Any:
    """Return the matches of rules as a lazy DataFrame: one shuffle for all rules with the same key.

    `events` is a DataFrame, or several in a dict by stream. `rules` is a `RuleSet`, or what
    `cernis.rules` takes. The options are those of `recognize`.

    The DataFrame has the columns `rule`, `end`, `end_ts`, `line` (the match as JSON) and `place`.
    With `matches="events"`, of batches, it has `rule` and the columns of all rules, NULL where a
    rule has no such one. With `together=False`, of batches, the result is a dict with a DataFrame
    for each rule, by its name, which runs as a job of its own; INSERT INTO does not go with that.

    With the `checkpoint` of an earlier run a stream goes on: rules with the same name and text keep
    their state, others begin with the next micro-batch. Stop the earlier query first.
    """
    rules = rules if isinstance(rules, RuleSet) else RuleSet.of(rules)
    if notes is not None and not is_streaming(events):
        raise CernisError("notes= is for streams")
    if not together and not is_streaming(events):
        return _recognize_apart(events, rules, JobOptions(**options))
    forms = ("lines",) if is_streaming(events) else ("lines", "events")
    if options.setdefault("matches", "lines") not in forms:
        expected = "'lines' or 'events'"
        if is_streaming(events):
            expected = "'lines' on a stream: rules have answers of different columns"
        raise CernisError(f"matches={options['matches']!r}: rules give {expected}")
    job = prepare_rule_job(events, rules, JobOptions(**options))
    for rule in rules:
        for warning in rule.query.warnings:
            warnings.warn(f"rule {rule.name}: {warning}", stacklevel=2)
    if not job.is_streaming:
        return recognize_rule_batch(job)
    # needs more of Spark than batches do
    from cernis.spark.streaming.recognize import recognize_rule_stream

    return recognize_rule_stream(job, notes)


def _recognize_apart(events: Any, rules: RuleSet, options: JobOptions) -> dict[str, Any]:
    """Return a DataFrame for each rule."""
    found = {}
    for rule, job in prepare_rules_apart(events, rules, options):
        for warning in job.query.warnings:
            warnings.warn(f"rule {rule.name}: {warning}", stacklevel=3)
        found[rule.name] = recognize_batch(job, make_work(job))
    return found


def is_streaming(events: Any) -> bool:
    """Return whether some of the DataFrames are streaming ones."""
    frames = [*events.values()] if isinstance(events, Mapping) else [events]
    return any(getattr(frame, "isStreaming", False) for frame in frames)
