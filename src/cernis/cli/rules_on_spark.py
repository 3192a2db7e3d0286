"""`cernis run` and `explain` for rule sets, on Spark: files are read once, each rule is a job.

Rules with INSERT INTO run together, all rules of the set in one job.

The rules, the files and the output are checked before Spark starts, which takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.events_on_spark import EventRun, load_frames, make_job_options
from cernis.cli.rules import FoundByRule, deliver, list_notes
from cernis.cli.terminal import print_notes, spinner
from cernis.errors import CernisError, StrictError, list_warnings
from cernis.pattern.selection import counts_only
from cernis.run.rule import Rule
from cernis.run.rules import RuleSet
from cernis.spark.files.check import check_rule_files
from cernis.spark.rules.explanation import explain_rules

if TYPE_CHECKING:
    from cernis.spark.files.load import FileFrames


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, and deliver them."""
    rules, on_error = RuleSet.of(source), arguments.on_error
    if any(rule.query.pattern.into is not None for rule in rules):
        _check_delivery(delivery)
    sources = check_rule_files(rules, arguments.files, on_error=on_error, **arguments.reading)
    with load_frames(sources, [rule.query for rule in rules], on_error) as frames:
        if any(rule.query.pattern.into is not None for rule in rules):
            deliver(_run_together(rules, frames, arguments), delivery)
            print_notes(frames.notes)
            return
        runs = {rule.name: _make_run(rule, frames, arguments) for rule in rules}
        deliver([_find_by_rule(name, run, delivery) for name, run in runs.items()], delivery)
        pairs = ((rule, runs[rule.name].notes()) for rule in rules)
        notes = list_notes(pairs, common=frames.notes)
    if arguments.strict and (found := list_warnings(notes)):
        raise StrictError(found)
    print_notes(notes)


def explain(source: str | Path, arguments: RunArguments) -> str:
    """Explain what the rules share, and in which shuffles their events travel."""
    if arguments.files:
        raise CernisError(
            "on Spark a rule set is explained without events; leave out --events, or --engine spark"
        )
    return explain_rules(RuleSet.of(source))


def _run_together(rules: RuleSet, frames: FileFrames, arguments: RunArguments) -> list[FoundByRule]:
    """Find the matches of all rules in one job, and return them in the order of this process."""
    from cernis.spark.options import JobOptions
    from cernis.spark.rules.batch import recognize_rule_batch
    from cernis.spark.rules.prepare import prepare_rule_job

    options = JobOptions(**make_job_options(arguments, frames), complete=arguments.complete)
    job = prepare_rule_job(frames.frames, rules, options)
    job = replace(job, work=replace(job.work, names_rules=False))
    with spinner("running on Spark"):
        found = recognize_rule_batch(job).orderBy("end_ts", "end", "place").toArrow()
    return [_select_rule(rule, found) for rule in rules]


def _select_rule(rule: Rule, found: pa.Table) -> FoundByRule:
    own = found.filter(pc.equal(found.column("rule"), rule.name)).column("line")

    def count() -> int:
        if not counts_only(rule.query.pattern):
            return len(own)
        return sum(json.loads(line)["count"] for line in own.to_pylist())

    def list_lines(limit: int | None) -> Iterator[pa.StringArray]:
        for lines in own.slice(0, limit).chunks:
            yield pc.binary_join_element_wise(lines, "", "\n")

    return FoundByRule(rule.name, count, list_lines)


def _find_by_rule(name: str, run: EventRun, delivery: Delivery) -> FoundByRule:
    """Return what a rule finds in a job of its own."""

    def list_lines(limit: int | None) -> Iterator[pa.StringArray]:
        return run.list_lines(replace(delivery, limit=limit, form="jsonl"))

    def list_batches(limit: int | None) -> Iterator[pa.RecordBatch]:
        return run.list_batches(replace(delivery, limit=limit))

    return FoundByRule(name, run.count, list_lines, list_batches)


def _check_delivery(delivery: Delivery) -> None:
    """Raise an error for a form in which Spark does not write rules that run together."""
    if delivery.form not in ("table", "jsonl") or delivery.events:
        where = (delivery.output if delivery.form != "table" else None) or "--events-in-output"
        message = "on Spark the matches of rules with INSERT INTO are written as .jsonl"
        raise CernisError(f"{where}: {message}")


def _make_run(rule: Rule, frames: FileFrames, arguments: RunArguments) -> EventRun:
    streams = rule.query.pattern.streams
    own = {name: df for name, df in frames.frames.items() if not streams or name in streams}
    own_frames = replace(frames, frames=own)
    return EventRun(rule.query, own_frames, arguments, reads_again=False)
