"""`StreamPlan`: what `cernis stream` will do, checked as far as possible without Spark.

    arguments ─ checked, without Spark ─▶ StreamPlan ─ Spark starts ─▶ DataFrames

A plan is of a query over rows, of a rule set, or of a query over RDF. The rules of a set may change
while its stream runs (`rule_watch`): the query is then stopped after the micro-batch that runs, and
a query with the new rules goes on from the checkpoint (`spark.streaming.versions` says why): events
wait for a few seconds, and none is lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cernis
from cernis.cli.arguments import named_graphs, read_secret
from cernis.cli.metrics import MetricsTarget, StreamMetrics, parse_listen, parse_metrics
from cernis.cli.options import StreamOptions
from cernis.cli.streams.live import WatermarkClock
from cernis.cli.streams.rule_watch import RuleWatch
from cernis.errors import CernisError, QueryError, StrictError
from cernis.events.source import DEFAULT_TIME, column_for
from cernis.events.times import UNITS
from cernis.output import UsedFile, refuse_overwriting
from cernis.plan.report import write_entry
from cernis.run.query import Query
from cernis.run.rows.feed import DEFAULT_BUDGET
from cernis.run.rows.statement import SqlQuery
from cernis.run.rules.reading.streams import name_streams, unite_declared
from cernis.run.rules.rule import RuleSetError, describe_mistake, name_warning
from cernis.run.rules.rule_set import RuleSet
from cernis.run.session import RunOptions
from cernis.spark.keys import explain_rules
from cernis.spark.streaming import sinks, sources
from cernis.spark.streaming.sources import UNDECODED, NamedSources, StreamInput
from cernis.work.checkpoint import read_note
from cernis.work.ddl import parse_schemas
from cernis.work.endpoints import (
    Folder,
    Sink,
    Source,
    add_properties,
    check_folders,
    choose_form,
    parse_folder,
    parse_properties,
    parse_sink,
)
from cernis.work.interval import parse_milliseconds

if TYPE_CHECKING:
    from cernis.rdf.query import GraphQuery
    from cernis.spark import Notes, Progress
    from cernis.spark.rdf.streams import GraphInput
    from cernis.spark.rdf.versions import VersionNote
    from cernis.work.reading import AnswerForm

GRAPH_FORMS: dict[str, AnswerForm] = {"jsonl": "lines", "nq": "quads", "parquet": "events"}


@dataclass(frozen=True, kw_only=True)
class StreamArguments(StreamOptions):
    """The query or the rules, and the options of the command."""

    text: str = ""
    language: str = "ceql"
    rules: str | Path | None = None
    """A folder, a file or a text of rules; None: `text` is a single query."""
    reading: RunOptions
    unit: str | None = None
    """The unit of numbers, where it is given; `reading` has the unit in any case."""

    @property
    def metrics_target(self) -> MetricsTarget | None:
        if self.listen is not None:
            return parse_listen(self.listen)
        return None if self.metrics is None else parse_metrics(self.metrics)


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """Where a stream goes and how it is timed, which no language changes."""

    sink: Sink | None
    checkpoint: Folder | None
    late_output: Folder | None
    form: str
    lateness: timedelta
    ahead: timedelta | None
    trigger: dict[str, Any]
    metrics: MetricsTarget | None
    secret: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class StreamPlan(ABC):
    """What the command will do, checked as far as possible without Spark."""

    arguments: StreamArguments
    delivered: Delivered

    @property
    @abstractmethod
    def sources(self) -> list[Source]:
        """The sources."""

    @property
    def waiting_clauses(self) -> Sequence[str]:
        """The clauses that hold back results until time has passed."""
        return ()

    @property
    def needs_protobuf(self) -> bool:
        return False

    @property
    def title(self) -> str:
        return f"{', '.join(map(str, self.sources))} → {self.delivered.sink}"

    def notes(self) -> Iterator[str]:
        """Yield what to say before the stream is read."""
        return iter(())

    def describe_batch(self, progress: Progress) -> Iterator[str]:
        """Yield what to say about a micro-batch; it may be asked for more than once."""
        return iter(())

    @property
    def flow(self) -> dict[str, Any]:
        """The options of `recognize` that say how a stream runs."""
        delivered = self.delivered
        assert delivered.checkpoint is not None
        late_output = delivered.late_output
        return {
            "lateness": delivered.lateness,
            "ahead": delivered.ahead,
            "late_output": None if late_output is None else str(late_output.path),
            "checkpoint": str(delivered.checkpoint.path),
            "secret": delivered.secret,
        }

    @abstractmethod
    def read(self, spark: Any) -> dict[str, Any]:
        """Return a streaming DataFrame for each stream."""

    @abstractmethod
    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        """Return the matches in the form of the sink; lines have a column `line`."""

    @abstractmethod
    def explain(self, frames: dict[str, Any]) -> list[str]:
        """Say how the query runs, and how its streams are read."""

    @abstractmethod
    def watermark_clock(self, frames: dict[str, Any]) -> WatermarkClock:
        """Return how to read Spark's watermark."""

    def describe_rules(self, metrics: StreamMetrics) -> None:  # noqa: B027
        """Tell the metrics which rules run, if there are rules."""

    def close(self) -> None:  # noqa: B027
        """Release the checkpoint, so that another run may have it."""

    def look(self, frames: dict[str, Any], metrics: StreamMetrics) -> bool:
        """Look for changes, and say what they are; return whether the query must start anew."""
        return False


@dataclass(frozen=True, kw_only=True)
class RowStreamPlan(StreamPlan):
    """A query, or rules, over rows."""

    inputs: list[StreamInput]

    @property
    def options(self) -> dict[str, Any]:
        """The options of `recognize` and `explain`."""
        reading = self.arguments.reading
        return {
            "time": reading.time,
            "type": reading.type,
            "time_unit": reading.time_unit,
            "row": self.arguments.row,
            "matches": "lines" if self.delivered.form == "jsonl" else "events",
            "tasks": self.arguments.buckets,
            "on_error": reading.on_error,
            "tables": reading.tables,
        }

    @property
    def recognition(self) -> dict[str, Any]:
        """The options of `recognize`."""
        return {**self.options, **self.flow, "corrupt": UNDECODED}

    @property
    def sources(self) -> list[Source]:
        return [input_.source for input_ in self.inputs]

    @property
    def needs_protobuf(self) -> bool:
        return any(input_.format == "protobuf" for input_ in self.inputs)

    def notes(self) -> Iterator[str]:
        for input_ in self.inputs:
            if input_.found_in is not None:
                yield f"{input_.stream}: the columns of {input_.found_in}: {input_.columns}"

    def read(self, spark: Any) -> dict[str, Any]:
        arguments = self.arguments
        return sources.read_inputs(spark, self.inputs, arguments.reading, arguments.max_files)

    def explain_sources(self) -> Iterator[str]:
        """Say how the streams are read."""
        for input_ in self.inputs:
            read = f"{input_.stream}: {input_.source}, {input_.format}: {input_.columns}"
            yield from write_entry("source", [read])

    def watermark_clock(self, frames: dict[str, Any]) -> WatermarkClock:
        from cernis.spark.streaming.dataflow import SHIFT

        stream, first = next(iter(frames.items()))
        reading = self.arguments.reading
        time = column_for(reading.time, stream, None) or DEFAULT_TIME
        kind = dict(first.dtypes).get(time, "timestamp")
        if kind in ("timestamp", "timestamp_ntz", "date"):
            return WatermarkClock()
        return WatermarkClock(SHIFT, UNITS[reading.time_unit])


@dataclass(frozen=True, kw_only=True)
class PatternStreamPlan(RowStreamPlan):
    """A query over rows."""

    query: Query

    @property
    def waiting_clauses(self) -> Sequence[str]:
        return self.query.pattern.waiting_clauses

    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        from cernis.spark import recognize

        found = recognize(choose_frames(frames), self.query, notes=notes, **self.recognition)
        is_text = self.delivered.form == "jsonl"
        return sinks.format_lines(found, self.query.plan.answer_names) if is_text else found

    def explain(self, frames: dict[str, Any]) -> list[str]:
        from cernis.spark import explain

        attributes = {name: frame.drop(UNDECODED) for name, frame in frames.items()}
        explanation = explain(choose_frames(attributes), self.query, **self.options)
        return [str(explanation), *self.explain_sources()]


@dataclass(frozen=True, kw_only=True)
class StatementStreamPlan(RowStreamPlan):
    """A statement with MATCH_RECOGNIZE."""

    query: SqlQuery

    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        from cernis.spark.options import JobOptions
        from cernis.spark.statement import run_query

        reading = self.arguments.reading
        rows = {name: frame.drop(UNDECODED) for name, frame in frames.items()}
        options = JobOptions(
            **self.flow,
            tasks=self.arguments.buckets,
            on_error="fail" if reading.on_error == "fail" else "skip",
        )
        found = run_query(spark, self.query, rows, DEFAULT_BUDGET, options)
        return sinks.format_rows(found) if self.delivered.form == "jsonl" else found

    def explain(self, frames: dict[str, Any]) -> list[str]:
        return [self.query.explain(), *self.explain_sources()]


@dataclass(frozen=True, kw_only=True)
class RuleStreamPlan(RowStreamPlan):
    """Rules over rows."""

    watch: RuleWatch

    @property
    def waiting_clauses(self) -> Sequence[str]:
        patterns = (rule.query.pattern for rule in self.watch.rules)
        return [clause for pattern in patterns for clause in pattern.waiting_clauses]

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
        return self.watch.take_changes(partial(self._check, frames), metrics)

    def _check(self, frames: dict[str, Any], rules: RuleSet) -> None:
        """Raise the mistakes that rules have on the streams."""
        from cernis.spark.options import JobOptions
        from cernis.spark.prepare import prepare_rule_job

        prepare_rule_job(
            choose_frames(frames), rules, JobOptions(**self.options, corrupt=UNDECODED)
        )


@dataclass(frozen=True, kw_only=True)
class LinkedStreamPlan(StreamPlan):
    """A query over RDF."""

    query: GraphQuery
    inputs: list[GraphInput]
    told: dict[int, VersionNote] = field(default_factory=dict)
    """The versions of a live background in the micro-batches so far."""

    @property
    def sources(self) -> list[Source]:
        return [input_.source for input_ in self.inputs]

    @property
    def background(self) -> Any:
        given = self.arguments.background
        return named_graphs(given) if given else None

    @property
    def dated(self) -> bool:
        return all(input_.dated for input_ in self.inputs)

    def describe_batch(self, progress: Progress) -> Iterator[str]:
        """Say which version of a live background a micro-batch was the first to use."""
        checkpoint = self.delivered.checkpoint
        last = max(self.told, default=-1)
        if not self.arguments.live or checkpoint is None or progress.batch <= last:
            return
        from cernis.spark.rdf.versions import VersionFolder

        note = VersionFolder(str(checkpoint.path), ()).find(progress.batch)
        if note is None:
            return
        self.told[progress.batch] = note
        if note.same_as(self.told.get(last)):
            return
        if note.problem is not None:
            yield f"the background is still {note.version}: {note.problem}"
        else:
            yield f"background {note.version}, from micro-batch {progress.batch} on"

    def read(self, spark: Any) -> dict[str, Any]:
        return {each.stream: each.read(spark, self.arguments.max_files) for each in self.inputs}

    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        from cernis.spark.rdf.recognize import RdfOptions, recognize_rdf_stream

        arguments = self.arguments
        options = RdfOptions(
            matches=GRAPH_FORMS[self.delivered.form],
            time_unit=self._unit,
            background=self.background,
            live=arguments.live,
            tasks=arguments.buckets,
            on_error="fail" if arguments.reading.on_error == "fail" else "skip",
            reading={input_.stream: input_.describe() for input_ in self.inputs},
            **self.flow,
        )
        return recognize_rdf_stream(spark, self.query, frames, options, notes)

    def explain(self, frames: dict[str, Any]) -> list[str]:
        from cernis.spark.rdf.explanation import SolutionExplanation

        buckets = self.arguments.buckets
        lines = [str(SolutionExplanation(self.query, tasks=buckets, is_streaming=True))]
        for input_ in self.inputs:
            lines += write_entry("source", [input_.explain()])
        return lines

    def watermark_clock(self, frames: dict[str, Any]) -> WatermarkClock:
        from cernis.spark.streaming.dataflow import SHIFT

        return WatermarkClock() if self.dated else WatermarkClock(SHIFT, UNITS[self._unit])

    @property
    def _unit(self) -> str:
        return self.inputs[0].rule.unit


# ----------------------------------------------------------------- checking


def make_plan(arguments: StreamArguments) -> StreamPlan:
    """Check the query or the rules, and the arguments; return the plan."""
    if arguments.rules is not None:
        plan: StreamPlan = _plan_rules(arguments, arguments.rules)
    elif arguments.language == "spaseq":
        plan = _plan_graphs(arguments)
    elif arguments.language == "sql":
        plan = _plan_statement(arguments)
    else:
        plan = _plan_query(arguments)
    check_plan_folders(plan)
    return _add_properties(plan, parse_properties(arguments.kafka or ()))


def _add_properties(plan: StreamPlan, properties: dict[str, str]) -> StreamPlan:
    """Return a plan whose topics have properties of Kafka's client."""
    assert isinstance(plan, RowStreamPlan | LinkedStreamPlan)
    sink = plan.delivered.sink
    delivered = replace(
        plan.delivered, sink=None if sink is None else add_properties(sink, properties)
    )
    inputs: Any = [replace(i, source=add_properties(i.source, properties)) for i in plan.inputs]
    return replace(plan, inputs=inputs, delivered=delivered)


def _plan_query(arguments: StreamArguments) -> StreamPlan:
    given = sources.parse_sources(arguments.source)
    columns = parse_schemas(arguments.schema or ())
    query = _parse_query(arguments, given, columns)
    if arguments.reading.strict and query.warnings:
        raise StrictError(query.warnings)
    pattern = query.pattern
    inputs = sources.decide_inputs(
        given, pattern.streams, pattern.declared, columns, arguments.reading
    )
    sources.check_query(inputs, pattern, arguments.reading)
    delivered = check_delivery(arguments)
    return PatternStreamPlan(query=query, inputs=inputs, arguments=arguments, delivered=delivered)


def _plan_statement(arguments: StreamArguments) -> StreamPlan:
    query = SqlQuery(arguments.text, dialect=arguments.dialect or "spark")
    if not query.plans:
        raise CernisError("cernis stream: the statement has no MATCH_RECOGNIZE")
    given = sources.parse_sources(arguments.source)
    tables = list(dict.fromkeys(filter(None, (plan.find_table() for plan in query.plans))))
    streams = tables if len(given) == len(tables) == 1 else []
    columns = parse_schemas(arguments.schema or ())
    inputs = sources.decide_inputs(given, streams, None, columns, arguments.reading)
    delivered = check_delivery(arguments)
    return StatementStreamPlan(query=query, inputs=inputs, arguments=arguments, delivered=delivered)


def _plan_rules(arguments: StreamArguments, source: str | Path) -> StreamPlan:
    watch, reading = RuleWatch(source, arguments.on_bad_rule), arguments.reading
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
        parse_schemas(arguments.schema or ()),
        reading,
    )
    _check_columns(watch.rules, inputs, arguments)
    delivered = check_delivery(arguments)
    return RuleStreamPlan(watch=watch, inputs=inputs, arguments=arguments, delivered=delivered)


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


def _plan_graphs(arguments: StreamArguments) -> StreamPlan:
    from cernis.spark.rdf.files import check_knowledge
    from cernis.spark.rdf.streams import decide_graph_inputs

    query = cernis.query(arguments.text, lang="spaseq")
    if arguments.schema:
        raise CernisError("--schema: RDF has no columns")
    if arguments.row is not None:
        raise CernisError("--row: RDF has no columns; messages and files number their events")
    delivered = check_delivery(arguments)
    if delivered.form == "nq" and query.query.construct is None:
        raise CernisError("--output-format nq: only CONSTRUCT makes graphs; this query SELECTs")
    noted: dict[str, Any] = {}
    if delivered.checkpoint is not None:
        note = read_note(str(delivered.checkpoint.path), delivered.secret) or {}
        noted = note.get("reading") or {}
    inputs = decide_graph_inputs(query, arguments.source, arguments.reading, arguments.unit, noted)
    plan = LinkedStreamPlan(query=query, inputs=inputs, arguments=arguments, delivered=delivered)
    check_knowledge(query, plan.background)
    if arguments.live and not arguments.background:
        raise CernisError("--live-background: name the files with --background")
    return plan


def check_delivery(arguments: StreamArguments) -> Delivered:
    """Check where a stream goes, and its times."""
    sink = None if arguments.sink is None else parse_sink(arguments.sink)
    trigger: dict[str, Any] = {"availableNow": True} if arguments.once else {}
    if arguments.trigger is not None:
        every = parse_milliseconds("--trigger", arguments.trigger)
        trigger = {"processingTime": f"{every} milliseconds"}
    endless = arguments.ahead.strip().lower() == "none"
    return Delivered(
        sink=sink,
        checkpoint=_folder("--checkpoint", arguments.checkpoint),
        late_output=_folder("--late-output", arguments.late_output),
        form=choose_form(sink, arguments.output_format)
        if sink is not None
        else arguments.output_format or "parquet",
        lateness=_time("--lateness", arguments.lateness),
        ahead=None if endless else _time("--ahead", arguments.ahead),
        trigger=trigger,
        metrics=arguments.metrics_target,
        secret=None if arguments.secret is None else read_secret(arguments.secret),
    )


def _folder(option: str, argument: str | None) -> Folder | None:
    return None if argument is None else parse_folder(option, argument)


def _time(option: str, argument: str) -> timedelta:
    return timedelta(milliseconds=parse_milliseconds(option, argument))


def _parse_query(
    arguments: StreamArguments, given: NamedSources, columns: dict[str | None, str]
) -> Query:
    """Parse the query; arguments by position may take their names from the first files."""
    text, language, reading = arguments.text, arguments.language, arguments.reading
    try:
        return cernis.query(text, lang=language)
    except QueryError:
        if language != "cq":
            raise
    inputs = sources.decide_inputs(given, (), None, columns, reading)
    return cernis.query(text, lang=language, schema=sources.known_schema(inputs, reading))


def check_plan_folders(plan: StreamPlan) -> None:
    """Raise an error for folders that are not apart, or that cannot be written to."""
    delivered = plan.delivered
    written = [
        ("--sink", delivered.sink),
        ("--checkpoint", delivered.checkpoint),
        ("--late-output", delivered.late_output),
    ]
    check_folders(plan.sources, written)
    if delivered.metrics is not None and delivered.metrics.path is not None:
        endpoints = [*(("--source", source) for source in plan.sources), *written]
        used = (
            UsedFile(option, each.path) for option, each in endpoints if isinstance(each, Folder)
        )
        refuse_overwriting(delivered.metrics.path, "the metrics", used)
    if isinstance(delivered.sink, Folder) and delivered.checkpoint is not None:
        sinks.check_sink(delivered.sink, delivered.checkpoint)


def choose_frames(frames: dict[str, Any]) -> Any:
    """Return one stream without its name, which may differ from the query's."""
    return frames if len(frames) > 1 else next(iter(frames.values()))
