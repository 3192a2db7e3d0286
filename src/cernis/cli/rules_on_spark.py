"""`cernis run` for rule sets, on Spark: the files are read once, and each rule is a job.

The rules, the files and the output are checked before Spark starts, which takes seconds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.events_on_spark import EventRun, load_frames
from cernis.cli.rules import FoundByRule, deliver, list_notes
from cernis.cli.terminal import print_notes
from cernis.errors import CernisError, StrictError, list_warnings
from cernis.run.rule import Rule
from cernis.run.rules import RuleSet
from cernis.spark.files.check import check_rule_files

if TYPE_CHECKING:
    from cernis.spark.files.load import FileFrames


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, and deliver them."""
    rules, on_error = RuleSet.of(source), arguments.on_error
    _check_delivery(delivery)
    sources = check_rule_files(rules, arguments.files, on_error=on_error, **arguments.reading)
    with load_frames(sources, [rule.query for rule in rules], on_error) as frames:
        runs = {rule.name: _make_run(rule, frames, arguments) for rule in rules}
        deliver(
            [FoundByRule(name, run.count, run.list_lines) for name, run in runs.items()], delivery
        )
        pairs = ((rule, runs[rule.name].notes()) for rule in rules)
        notes = list_notes(pairs, common=frames.notes)
    if arguments.strict and (found := list_warnings(notes)):
        raise StrictError(found)
    print_notes(notes)


def _check_delivery(delivery: Delivery) -> None:
    """Raise an error for a form in which Spark does not write the matches of rules."""
    if delivery.form not in ("table", "jsonl") or delivery.events:
        where = (delivery.output if delivery.form != "table" else None) or "--events-in-output"
        message = "on Spark the matches of a rule set are written as .jsonl so far"
        raise CernisError(f"{where}: {message}")


def _make_run(rule: Rule, frames: FileFrames, arguments: RunArguments) -> EventRun:
    streams = rule.query.pattern.streams
    own = {name: df for name, df in frames.frames.items() if not streams or name in streams}
    own_frames = replace(frames, frames=own)
    return EventRun(rule.query, own_frames, arguments, reads_again=False)
