"""`cernis stream` for rule sets: a folder of rules, which may change while its stream runs.

When files have changed (`rule_watch`), the query is stopped after the micro-batch that runs, and a
query with the new rules goes on from the checkpoint (`spark.streaming.versions` says why): events
wait for a few seconds, and none is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cernis.cli.metrics import StreamMetrics
from cernis.cli.rule_watch import RuleWatch
from cernis.cli.stream import (
    RowStreamPlan,
    StreamArguments,
    check_delivery,
    check_folders,
    choose_frames,
    run_stream,
)
from cernis.cli.terminal import print_message
from cernis.errors import CernisError, StrictError
from cernis.run.rules.changes import compare_rules
from cernis.run.rules.rule import RuleSetError, describe_mistake, name_warning
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.streams import name_streams, unite_declared
from cernis.spark.keys import explain_rules
from cernis.spark.streaming import sinks, sources
from cernis.spark.streaming.sources import UNDECODED, StreamInput

if TYPE_CHECKING:
    from cernis.spark import Notes


@dataclass(frozen=True, kw_only=True)
class RuleStreamPlan(RowStreamPlan):
    """Rules over rows."""

    watch: RuleWatch

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "matches": "lines"}

    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        from cernis.spark import recognize_rules

        found = recognize_rules(
            choose_frames(frames), self.watch.rules, notes=notes, **self.recognition
        )
        is_text = self.delivered.form == "jsonl"
        return sinks.format_lines(found, None) if is_text else found.drop("place")

    def explain(self, frames: dict[str, Any]) -> list[str]:
        self._check(frames, self.watch.rules)
        return [explain_rules(self.watch.rules), *self.explain_sources()]

    def describe_rules(self, metrics: StreamMetrics) -> None:
        metrics.change_rules(self.watch.rules.names, {})

    def look(self, frames: dict[str, Any], metrics: StreamMetrics) -> bool:
        if self.arguments.once:
            return False
        revision = self.watch.look(partial(self._check, frames))
        if revision is None:
            return False
        for mistake in revision.refused:
            print_message(f"rules: refused, and what was there stays: {mistake}")
        changes = compare_rules(self.watch.rules, revision.rules)
        numbers = {word: len(names) for word, names in changes._asdict().items() if word != "kept"}
        metrics.change_rules(revision.rules.names, {**numbers, "refused": len(revision.refused)})
        if not any(numbers.values()):
            return False
        self.watch.rules = revision.rules
        print_message(f"rules: {changes}")
        return True

    def _check(self, frames: dict[str, Any], rules: RuleSet) -> None:
        """Raise the mistakes that rules have on the streams."""
        from cernis.spark.options import JobOptions
        from cernis.spark.prepare import prepare_rule_job

        prepare_rule_job(
            choose_frames(frames), rules, JobOptions(**self.options, corrupt=UNDECODED)
        )


def stream(source: str | Path, arguments: StreamArguments) -> None:
    """Run a rule set on streams until it ends or a signal comes, or explain it."""
    run_stream(make_plan(source, arguments))


def make_plan(source: str | Path, arguments: StreamArguments) -> RuleStreamPlan:
    """Check the rules and the arguments, and return the plan."""
    watch, reading = RuleWatch(source), arguments.reading
    warned = [
        name_warning(rule, warning) for rule in watch.rules for warning in rule.query.warnings
    ]
    if reading.strict and warned:
        raise StrictError(warned)
    patterns = [rule.query.pattern for rule in watch.rules]
    inputs = sources.decide_inputs(
        sources.parse_sources(arguments.source),
        name_streams(patterns),
        unite_declared(patterns),
        sources.parse_schemas(arguments.schema),
        reading,
    )
    _check_columns(watch.rules, inputs, arguments)
    delivered = check_delivery(arguments)
    plan = RuleStreamPlan(watch=watch, inputs=inputs, arguments=arguments, delivered=delivered)
    check_folders(plan)
    return plan


def _check_columns(rules: RuleSet, inputs: list[StreamInput], arguments: StreamArguments) -> None:
    """Check the rules that read no stream of matches: the columns of others are not known yet."""
    made, mistakes = {rule.query.pattern.into for rule in rules}, []
    for rule in rules:
        streams = rule.query.pattern.streams
        own = [each for each in inputs if not streams or each.stream in streams]
        try:
            if made.isdisjoint(streams):
                sources.check_query(own, rule.query.pattern, arguments.reading)
        except CernisError as error:
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
    if mistakes:
        raise RuleSetError(mistakes)
