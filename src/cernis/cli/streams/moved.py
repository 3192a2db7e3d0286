"""`cernis stream --engine spark` with a checkpoint of one process, and the way back.

The folder of the checkpoint belongs to the engine that wrote it last: Spark, once it has planned a
micro-batch, until a run in one process takes its state back and removes what Spark has written. The
store of the process stays open meanwhile, so that no second run has the checkpoint.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cernis.cli.metrics import StreamMetrics
from cernis.cli.streams.live import WatermarkClock
from cernis.cli.streams.local import LocalCommand, explain_command, read_command
from cernis.cli.streams.plan import StreamArguments, StreamPlan, check_delivery, check_plan_folders
from cernis.errors import CernisError
from cernis.events.times import UNITS
from cernis.live.inputs import LiveInput
from cernis.live.moving import MOVED, RULES, RULES_ON_SPARK, TaskReading, read_in_tasks
from cernis.live.prepare import Prepared, Travel, check_rules
from cernis.live.run import match_inputs, release_staged, resume_inputs
from cernis.live.store import FILE, LocalStore
from cernis.run.rules.rule_set import RuleSet
from cernis.spark.keys import KeyedRules
from cernis.spark.streaming import sinks
from cernis.work.checkpoint import check_same
from cernis.work.endpoints import Folder, Source, Topic, add_properties, parse_properties
from cernis.work.moving import list_pieces
from cernis.work.query import QueryWork, carry_answer
from cernis.work.rule_record import RuleKey, RuleRecord, RuleVersion
from cernis.work.rules import RuleWork

if TYPE_CHECKING:
    from cernis.spark import Notes


def is_moved(arguments: StreamArguments) -> bool:
    """Return whether a run in one process began the checkpoint of a stream."""
    return arguments.checkpoint is not None and (Path(arguments.checkpoint) / FILE).exists()


def plan_moved(arguments: StreamArguments) -> MovedStreamPlan:
    """Check the query or the rules against the checkpoint, and return the plan."""
    if arguments.buckets not in (None, 1):
        raise CernisError("--buckets: a checkpoint of one process has one bucket")
    command, delivered = read_command(arguments), check_delivery(arguments)
    if isinstance(delivered.sink, Topic):
        properties = parse_properties(arguments.kafka or ())
        delivered = replace(delivered, sink=add_properties(delivered.sink, properties))
    assert command.folder is not None
    store = LocalStore(command.folder, command.secret)
    try:
        resume_inputs(command.inputs, store)
        prepared = command.prepare()
        inputs = {name: command.inputs[name] for name in match_inputs(command.inputs, prepared)}
        plan = MovedStreamPlan(
            command=command,
            store=store,
            prepared=prepared,
            inputs=inputs,
            read_rows=read_in_tasks(prepared, inputs, has_text=delivered.late_output is not None),
            arguments=arguments,
            delivered=delivered,
        )
        check_same(str(command.folder), store.read_note("run"), prepared.note)
        check_plan_folders(plan)
    except BaseException:
        store.close()
        raise
    return plan


@dataclass(frozen=True, kw_only=True)
class MovedStreamPlan(StreamPlan):
    """A query, or rules, that a process began."""

    command: LocalCommand
    store: LocalStore
    prepared: Prepared
    inputs: dict[str, LiveInput]
    """In the order of the sources."""
    read_rows: TaskReading

    @property
    def sources(self) -> list[Source]:
        sources = [self.command.sources[name] for name in self.inputs]
        return [source for source in sources if isinstance(source, Folder | Topic)]

    @property
    def waiting_clauses(self) -> list[str]:
        return self.command.waiting_clauses

    def close(self) -> None:
        self.store.close()

    @property
    def _folder(self) -> Path:
        assert self.command.folder is not None
        return self.command.folder

    @property
    def _shift(self) -> int:
        from cernis.spark.streaming.dataflow import SHIFT

        travel = self.prepared.travel
        is_plain = isinstance(travel, Travel) and pa.types.is_integer(travel.time_type)
        return SHIFT if is_plain else 0

    def read(self, spark: Any) -> dict[str, Any]:
        return {}

    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        from cernis.spark.options import JobOptions
        from cernis.spark.streaming.moved import MovedSource, is_begun, recognize_moved

        state = None
        if not is_begun(self._folder, committed=True):
            state = [*list_pieces(self.store, self.prepared.buckets.derive_key(0))]
        if not is_begun(self._folder):
            sinks_ = self.command.open_sinks(self.store.run, lambda: False)
            release_staged(self.store, sinks_, int(self.store.read_note("batch") or 0))
            labels = [each.label for each in self.inputs.values()]
            note = {"inputs": labels, "tick": self.prepared.tick, "shift": self._shift}
            self.store.write_note(MOVED, note)
            self.store.commit()
        work = self.prepared.buckets.work
        work = replace(work, schema=carry_answer(work.schema or ()))
        stream = replace(
            self.prepared.buckets,
            work=work,
            finds_late=True,
            shift=self._shift,
            record=self._record_rules(),
        )
        on_error = self.arguments.reading.on_error
        options = JobOptions(**self.flow, on_error="fail" if on_error == "fail" else "skip")
        sources = [
            MovedSource(source, self.store.position(input_.label), self.arguments.max_files)
            for source, input_ in zip(self.sources, self.inputs.values(), strict=True)
        ]
        name = secrets.token_hex(4)
        found = recognize_moved(spark, sources, self.read_rows, stream, state, options, name)
        return self._form(found)

    def _form(self, found: Any) -> Any:
        """Return matches in the form of the sink."""
        work, is_text = self.prepared.buckets.work, self.delivered.form == "jsonl"
        if isinstance(work, RuleWork):
            return sinks.format_lines(found, None) if is_text else found.drop("place")
        if isinstance(work, QueryWork) and is_text:
            return sinks.format_lines(found, work.plan.answer_names)
        return found

    def _record_rules(self) -> RuleRecord | None:
        """Note which rules hold from which micro-batch on."""
        from cernis.spark.streaming.versions import extend_record, find_last_batch

        if self.command.watch is None:
            return None
        rules, folder = self.command.watch.rules, str(self._folder)
        last = find_last_batch(folder)
        noted = self.store.read_note(RULES_ON_SPARK) if last >= 0 else None
        known = RuleRecord.from_note(folder, noted or self.store.read_note(RULES) or {})
        if noted is None:  # these are the rules of the process until the first micro-batch
            known = known._replace(versions=(RuleVersion(-1, known.versions[-1].rules),))
        record = extend_record(known, [KeyedRules(RuleKey(), rules.rules)], (1, 1), last)
        self.store.write_note(RULES_ON_SPARK, record.to_note())
        self.store.commit()
        return record

    def explain(self, frames: dict[str, Any]) -> list[str]:
        return [*explain_command(self.command)]

    def watermark_clock(self, frames: dict[str, Any]) -> WatermarkClock:
        unit = UNITS[self.arguments.reading.time_unit]
        return WatermarkClock(self._shift, unit) if self._shift else WatermarkClock()

    def describe_rules(self, metrics: StreamMetrics) -> None:
        if self.command.watch is not None:
            metrics.change_rules(self.command.watch.rules.names, {})

    def look(self, frames: dict[str, Any], metrics: StreamMetrics) -> bool:
        watch = self.command.watch
        if watch is None or self.arguments.once:
            return False
        return watch.take_changes(self._check, metrics)

    def _check(self, rules: RuleSet) -> None:
        work = self.prepared.buckets.work
        assert isinstance(work, RuleWork)
        check_rules(work, rules)
