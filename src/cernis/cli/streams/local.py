"""`cernis stream`: a live stream in this process, without Spark.

    arguments ─ checked ─▶ inputs, sink, checkpoint ─▶ LiveRun ─▶ until a signal, or the end

The first signal ends the run after a commit; a later run goes on from the checkpoint. Without a
checkpoint, nothing is kept.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import monotonic

import typer

import cernis
from cernis.cli.arguments import RunArguments, named_graphs, read_secret
from cernis.cli.log import log_numbers
from cernis.cli.metrics import StreamMetrics, publish, write_file
from cernis.cli.options import DialectName
from cernis.cli.streams.live import (
    Tally,
    WatermarkClock,
    caught_hangup,
    caught_signals,
    describe_waiting,
    show_live,
    summarize,
)
from cernis.cli.streams.plan import GRAPH_FORMS, StreamArguments
from cernis.cli.streams.rule_watch import RuleWatch
from cernis.cli.terminal import error_console, print_message, print_notes
from cernis.errors import CernisError, StrictError, neutralize
from cernis.live.connect import open_input, open_sink
from cernis.live.inputs import InputStopped, LiveInput
from cernis.live.prepare import LiveOptions, Prepared, prepare_query, prepare_rules
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import FolderSink, Sink
from cernis.live.statement import prepare_statement
from cernis.live.store import FILE, LocalStore
from cernis.pattern.query import ABSENCE_AFTER, Pattern
from cernis.plan.report import write_entry
from cernis.rdf.query import GraphQuery
from cernis.run.query import Query
from cernis.run.rows.statement import SqlQuery
from cernis.work import endpoints
from cernis.work.ddl import parse_schemas
from cernis.work.interval import parse_milliseconds
from cernis.work.progress import Progress
from cernis.work.rdf_sources import name_graph_sources
from cernis.work.reading import AnswerForm
from cernis.work.row_stream import UNBOUNDED

AnyQuery = Query | SqlQuery | GraphQuery
_LOCAL = "in one process; --engine spark has it"
_FORMATS = {"json": "jsonl"}
_LOG_EVERY, _LOOK_EVERY = 10.0, 0.25
_SWITCH = 0.0005
"""Seconds after which a thread that reads lets the engine go on: Python's 5 ms are a long time."""


def stream_local(arguments: StreamArguments) -> None:
    """Run a query or rules on live inputs until they end or a signal comes."""
    _refuse(arguments)
    command = read_command(arguments)
    if arguments.explain:
        typer.echo(neutralize("\n".join(explain_command(command))))
        return
    folder = command.folder
    if folder is not None and (folder / "offsets").is_dir() and not (folder / FILE).exists():
        raise CernisError(
            f"--checkpoint {folder}: a run on Spark has begun it; go on with --engine spark, or "
            "begin with a new folder: its state is spread by keys, and has what Spark made of "
            "columns in their place. Only a checkpoint that one process began moves both ways"
        )
    store = LocalStore(folder, command.secret)
    try:
        if folder is not None and (folder / "offsets").is_dir():
            from cernis.cli.streams.back import take_stream_back

            assert command.sink is not None
            lateness = command.pace.lateness
            take_stream_back(folder, command.sink, store, command.secret, lateness)
        _run(command, store)
    finally:
        store.close()


def read_command(arguments: StreamArguments) -> LocalCommand:
    """Check the query or the rules, and the arguments."""
    watch = None if arguments.rules is None else RuleWatch(arguments.rules, arguments.on_bad_rule)
    query: AnyQuery | None = None
    if arguments.language == "sql":
        query = SqlQuery(arguments.text, dialect=arguments.dialect or "duckdb")
    elif watch is None:
        query = cernis.query(arguments.text, lang=arguments.language)
    warned = [*getattr(query, "warnings", ())]
    if arguments.reading.strict and warned:
        raise StrictError(warned)
    print_notes(warned)
    if isinstance(query, SqlQuery) and any(plan.clause.within is None for plan in query.plans):
        print_message(f"note: {UNBOUNDED}")
    properties = endpoints.parse_properties(arguments.kafka or ())
    given = [*map(endpoints.parse_live_source, arguments.source)]
    if isinstance(query, GraphQuery):
        named = name_graph_sources(query.query, given)
        if arguments.live and not arguments.background:
            raise CernisError("--live-background: name the files with --background")
    else:
        named = endpoints.name_sources(given)
    sources = {name: endpoints.add_properties(each, properties) for name, each in named.items()}
    sink = None
    if arguments.sink is not None:
        sink = endpoints.add_properties(endpoints.parse_live_sink(arguments.sink), properties)
    form = "jsonl" if sink is None else endpoints.choose_form(sink, arguments.output_format)
    _check_folders(arguments, sources, sink)
    return LocalCommand(arguments, query, watch, sources, sink, form)


def follow_files(arguments: RunArguments, events: list[str]) -> None:
    """Run a query or rules on files and pipes that go on: a stream without a checkpoint."""
    stream_local(
        StreamArguments(
            text=arguments.text,
            language=arguments.language,
            rules=arguments.rules,
            reading=arguments.options,
            source=events,
            sink="-",
            ahead="none",
            dialect=None if arguments.dialect is None else DialectName(arguments.dialect),
            background=[*arguments.background],
        )
    )


class LocalCommand:
    """What the command has to do."""

    def __init__(
        self,
        arguments: StreamArguments,
        query: AnyQuery | None,
        watch: RuleWatch | None,
        sources: dict[str, endpoints.LiveSource],
        sink: endpoints.LiveSink | None,
        form: str,
    ) -> None:
        self.arguments, self.query, self.watch = arguments, query, watch
        self.sources, self.sink, self.form = sources, sink, form
        reading = arguments.reading
        self.secret = None if arguments.secret is None else read_secret(arguments.secret)
        self.options = LiveOptions(
            reading=replace(reading, format=_FORMATS.get(str(reading.format), reading.format)),
            columns=parse_schemas(arguments.schema or ()),
            row=arguments.row,
            secret=self.secret,
        )

    @cached_property
    def inputs(self) -> dict[str, LiveInput]:
        once = self.arguments.once
        return {name: open_input(source, once=once) for name, source in self.sources.items()}

    @property
    def folder(self) -> Path | None:
        """The folder of the checkpoint."""
        given = self.arguments.checkpoint
        return None if given is None else endpoints.parse_folder("--checkpoint", given).path

    def open_sinks(self, run: str, is_stopping: Callable[[], bool]) -> list[Sink]:
        """Return the sink of matches and the sink of events that are not read."""
        assert self.sink is not None
        sinks = [open_sink(self.sink, self.form, run, is_stopping)]
        if self.arguments.late_output is not None:
            late = endpoints.parse_folder("--late-output", self.arguments.late_output)
            sinks.append(FolderSink(late.path, "jsonl"))
        return sinks

    def prepare(self) -> Prepared:
        if self.watch is not None:
            return prepare_rules(self.watch.rules, self.inputs, self.options)
        assert self.query is not None
        if isinstance(self.query, SqlQuery):
            return prepare_statement(self.query, self.inputs, self.options, self.form)
        if isinstance(self.query, GraphQuery):
            return self._prepare_graphs(self.query)
        form: AnswerForm = "lines" if self.form == "jsonl" else "events"
        return prepare_query(self.query, self.inputs, self.options, form)

    def _prepare_graphs(self, query: GraphQuery) -> Prepared:
        from cernis.live.rdf import GraphOptions, prepare_graphs

        arguments = self.arguments
        graphs = GraphOptions(
            background=named_graphs(arguments.background) if arguments.background else None,
            live=arguments.live,
            unit=arguments.unit,
            idle=self.pace.idle,
            goes_on=arguments.checkpoint is not None,
            tell=print_message,
        )
        form = GRAPH_FORMS[self.form]
        return prepare_graphs(query, self.inputs, self.options, form, graphs)

    @property
    def waiting_clauses(self) -> list[str]:
        """The clauses whose results events to come may decide, also after the inputs' end."""
        patterns: list[Pattern] = []
        if self.watch is not None:
            patterns = [rule.query.pattern for rule in self.watch.rules]
        elif isinstance(self.query, Query):
            patterns = [self.query.pattern]
        goes_on = self.arguments.checkpoint is not None  # otherwise the end decides the rest
        return [
            clause
            for pattern in patterns
            for clause in pattern.waiting_clauses
            if goes_on or clause == ABSENCE_AFTER
        ]

    @property
    def pace(self) -> Pace:
        arguments = self.arguments
        ahead, idle = arguments.ahead.strip().lower(), arguments.idle
        every = arguments.trigger
        return Pace(
            lateness=parse_milliseconds("--lateness", arguments.lateness) / 1000,
            ahead=None if ahead == "none" else parse_milliseconds("--ahead", ahead) / 1000,
            idle=None if idle is None else parse_milliseconds("--idle", idle) / 1000,
            commit=None if every is None else parse_milliseconds("--trigger", every) / 1000,
        )


def _run(command: LocalCommand, store: LocalStore) -> None:
    arguments = command.arguments
    target = arguments.metrics_target
    title = f"{', '.join(map(str, command.sources.values()))} → {command.sink}"
    watch = command.watch
    sys.setswitchinterval(_SWITCH)
    console, metrics, tally = error_console(), StreamMetrics(), Tally(title, WatermarkClock())
    hangup = None if watch is None else watch.read_again
    with (
        publish(target, metrics) as address,
        caught_hangup(hangup),
        caught_signals(lambda: _stop(command.inputs)) as caught,
        suppress(InputStopped),
    ):
        if address is not None:
            print_message(f"note: metrics at {address}")
        resume_inputs(command.inputs, store)
        prepared = command.prepare()
        sinks = command.open_sinks(store.run, lambda: caught.number > 0)
        run = LiveRun(prepared, command.inputs, store, sinks, command.pace)
        print_notes(note for each in run.inputs for note in getattr(each, "notes", ()))

        memory = MemoryBound(arguments.max_memory)

        def look() -> None:
            metrics.step()
            memory.check(run)
            if watch is None or arguments.once:
                return
            if watch.take_changes(run.check_rules, metrics):
                run.change_rules(watch.rules)

        log = ProgressLog()

        def told(progress: Progress) -> None:
            log.take(progress)
            tally.take(progress)
            if metrics.take(progress):
                write_file(target, metrics)

        run.told = told
        printing = isinstance(command.sink, endpoints.StandardOutput) and sys.stdout.isatty()
        if watch is not None:
            metrics.change_rules(watch.rules.names, {})
        with show_live(tally, console, wanted=console.is_terminal and not printing):
            run.run(lambda: caught.number > 0, look)
        if arguments.once:
            print_notes(describe_waiting(tally.view(), arguments.lateness, command.waiting_clauses))
    print_message(summarize(tally.view()))


class ProgressLog:
    """The numbers of a running stream in structured logs, some seconds apart."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._told = monotonic()

    def take(self, progress: Progress) -> None:
        """Add the numbers of a commit, and write the sums when it is time."""
        for name in ("rows", "matches", "late", "ahead"):
            self._sums[name] += getattr(progress, name)
        if monotonic() < self._told + _LOG_EVERY:
            return
        self._told = monotonic()
        log_numbers(
            "progress",
            **self._sums,
            waiting=progress.waiting,
            state_bytes=progress.state_bytes,
            watermark=progress.watermark,
        )


class MemoryBound:
    """The memory that this process may need; None: any."""

    def __init__(self, mebibytes: int | None) -> None:
        self._most = mebibytes
        self._looked = 0.0

    def check(self, run: LiveRun) -> None:
        """Commit, and raise an error, if the process needs more."""
        if self._most is None or monotonic() < self._looked + _LOOK_EVERY:
            return
        self._looked = monotonic()
        used = read_memory() >> 20
        if used <= self._most:
            return
        run.commit()
        report = run.bucket.measure()
        kept = "; all that was read is in the checkpoint" if run.store.folder is not None else ""
        raise CernisError(
            f"--max-memory {self._most}: this process needs {used:,} MiB, with "
            f"{report.waiting:,} events that wait and {report.stored:,} that matches may still "
            f"report{kept}\n  help: a window (WITHIN), fewer keys and less --lateness need less, "
            "and --engine spark has more"
        )


def read_memory() -> int:
    """Return the bytes of memory that this process has now."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * resource.getpagesize()
    except OSError:  # no Linux: the most that it has had
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10


def _stop(inputs: dict[str, LiveInput]) -> None:
    for input_ in inputs.values():
        input_.stop()


# ----------------------------------------------------------------- checking


def _refuse(arguments: StreamArguments) -> None:
    """Raise an error for options that one process does not have."""
    given = {
        "--buckets": arguments.buckets,
        "--cores": arguments.cores,
        "--max-files": arguments.max_files,
    }
    for option, value in given.items():
        if value:
            raise CernisError(f"{option}: not {_LOCAL}")
    if arguments.reading.format == "protobuf":
        raise CernisError(f"--format protobuf: not {_LOCAL}")


def _check_folders(
    arguments: StreamArguments,
    sources: dict[str, endpoints.LiveSource],
    sink: endpoints.LiveSink | None,
) -> None:
    written = [("--sink", sink)]
    for option, text in (
        ("--checkpoint", arguments.checkpoint),
        ("--late-output", arguments.late_output),
    ):
        if text is not None:
            written.append((option, endpoints.parse_folder(option, text)))
    endpoints.check_folders(sources.values(), written)


def explain_command(command: LocalCommand) -> Iterator[str]:
    """Say how the query runs, what it reads, and where its matches go."""
    arguments, sink = command.arguments, command.sink
    if command.query is not None:
        yield str(command.query.explain())
    for name, source in command.sources.items():
        yield from write_entry("source", [f"{name}: {source}"])
    yield from write_entry("time", [f"lateness {arguments.lateness}"])
    if sink is not None:
        is_exact = isinstance(sink, endpoints.Folder | endpoints.Topic)
        once = "exactly once" if is_exact else "at least once"
        yield from write_entry("sink", [f"{sink}, {once}"])
    if command.folder is not None:
        state = "begun before" if (command.folder / FILE).exists() else "new"
        yield from write_entry("checkpoint", [f"{arguments.checkpoint}, {state}"])
