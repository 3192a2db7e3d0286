"""`recognize_rules`: the matches of each rule of a set in DataFrames, as a DataFrame for each rule.

Each rule has its own plan and its own shuffle. Spark reads the columns and the rows that the rule
asks for; nothing runs until a DataFrame is asked for its rows.

Cost contract: nothing is shared between the rules but the input, which each of them reads. Cache it
where reading is dear.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cernis.errors import CernisError
from cernis.events.source import choose_inputs
from cernis.run.rule import Rule, RuleSetError, describe_mistake, refuse_inserts
from cernis.run.rules import RuleSet, name_streams
from cernis.spark.batch import recognize_batch
from cernis.spark.options import JobOptions
from cernis.spark.prepare import Job, make_work, prepare_job


def recognize_rules(events: Any, rules: Any, **options: Any) -> dict[str, Any]:
    """Return the matches of each rule, by its name, as lazy DataFrames.

    `events` is a DataFrame, or several in a dict by stream. `rules` is a `RuleSet`, or what
    `cernis.rules` takes. The options are those of `recognize` for batches.
    """
    found = {}
    for rule, job in prepare_rules(events, rules, JobOptions(**options)):
        for warning in job.query.warnings:
            warnings.warn(f"rule {rule.name}: {warning}", stacklevel=2)
        found[rule.name] = recognize_batch(job, make_work(job))
    return found


def prepare_rules(events: Any, rules: Any, options: JobOptions) -> list[tuple[Rule, Job]]:
    """Decide how each rule runs; raise the mistakes of all rules together."""
    rules = rules if isinstance(rules, RuleSet) else RuleSet.of(rules)
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
        if job.is_streaming:
            raise CernisError(
                "a rule set on Spark reads batches so far; on a stream, run its rules one by one "
                "with cernis.spark.recognize"
            )
        jobs.append((rule, job))
    if mistakes:
        raise RuleSetError(mistakes)
    return jobs
