"""`recognize_rules`: the matches of the rules of a set in DataFrames.

All rules share one DataFrame, and one shuffle for each key, in batches (`batch`) and on streams
(`stream`). Spark reads the columns and the rows that some rule needs; nothing runs until the
DataFrame is asked for its rows.

Apart (`together=False`), each rule of a batch has a DataFrame of its own columns, with its own plan
and its own shuffle. Nothing is shared between the rules but the input, which each of them reads.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from cernis.errors import CernisError
from cernis.events.source import choose_inputs
from cernis.run.rules.rule import Rule, RuleSetError, describe_mistake, refuse_inserts
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.streams import name_streams
from cernis.signature import Secret
from cernis.spark.batch import recognize_batch
from cernis.spark.notes import Notes
from cernis.spark.options import JobOptions
from cernis.spark.prepare import Job, make_work, prepare_job
from cernis.spark.rules.batch import recognize_rule_batch
from cernis.spark.rules.prepare import prepare_rule_job


def recognize_rules(
    events: Any,
    rules: Any,
    *,
    lateness: str | timedelta = "0 seconds",
    ahead: str | timedelta | None = "1 hour",
    late_output: str | None = None,
    checkpoint: str | None = None,
    notes: Notes | None = None,
    secret: Secret = None,
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
    if together or is_streaming(events):
        forms = ("lines",) if is_streaming(events) else ("lines", "events")
        if options.setdefault("matches", "lines") not in forms:
            expected = "'lines' or 'events'"
            if is_streaming(events):
                expected = "'lines' on a stream: rules have answers of different columns"
            raise CernisError(f"matches={options['matches']!r}: rules give {expected}")
        rule_job = prepare_rule_job(events, rules, JobOptions(**options))
        for rule in rules:
            for warning in rule.query.warnings:
                warnings.warn(f"rule {rule.name}: {warning}", stacklevel=2)
        if not rule_job.is_streaming:
            return recognize_rule_batch(rule_job)
        # needs more of Spark than batches do
        from cernis.spark.rules.stream import recognize_rule_stream
        from cernis.spark.streaming.dataflow import StreamOptions

        return recognize_rule_stream(
            rule_job,
            StreamOptions(
                lateness=lateness,
                ahead=ahead,
                late_output=late_output,
                checkpoint=checkpoint,
                notes=notes,
                secret=secret,
            ),
        )
    found = {}
    for rule, job in prepare_rules(events, rules, JobOptions(**options)):
        for warning in job.query.warnings:
            warnings.warn(f"rule {rule.name}: {warning}", stacklevel=2)
        found[rule.name] = recognize_batch(job, make_work(job))
    return found


def is_streaming(events: Any) -> bool:
    """Return whether some of the DataFrames are streaming ones."""
    frames = [*events.values()] if isinstance(events, Mapping) else [events]
    return any(getattr(frame, "isStreaming", False) for frame in frames)


def prepare_rules(events: Any, rules: RuleSet, options: JobOptions) -> list[tuple[Rule, Job]]:
    """Decide how each rule runs; raise the mistakes of all rules together."""
    refuse_inserts(rules)
    names = name_streams([rule.query.pattern for rule in rules])
    if isinstance(events, Mapping) and events:
        events = dict(choose_inputs([*events.items()], names))
        if options.row is None and len(events) > 1:
            options = replace(options, streams=events)
    else:
        choose_inputs([(None, events)], names)
    jobs, mistakes = [], []
    for rule in rules:
        try:
            job = prepare_job(events, rule.query, options)
        except CernisError as error:
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
            continue
        jobs.append((rule, job))
    if mistakes:
        raise RuleSetError(mistakes)
    return jobs
