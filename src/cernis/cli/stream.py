"""`cernis stream`: run a query over folders or topics that grow.

    arguments ─ checked, without Spark ─▶ StreamPlan ─ Spark starts ─▶ DataFrames ─▶ running query

The arguments are checked before Spark starts, which takes seconds, and before anything is
written. While the query runs, this process waits for its end, or for a signal. The first signal
stops the query after the micro-batch that runs, the second stops it at once, the third does not
wait for Spark. A later run continues from the checkpoint in all three cases.

The session has its own settings: times without a zone are UTC, names are case-sensitive, and a
micro-batch has one task per core. Turned down: the settings of a session that runs already;
the matches would depend on them.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import typer

import cernis
from cernis.cli.live import Tally, WatermarkClock, show_live, summarize
from cernis.cli.metrics import MetricsPlace, StreamMetrics, parse_metrics, publish, write_file
from cernis.cli.terminal import error_console, print_message, print_notes, spinner
from cernis.errors import QueryError, StrictError, neutralize
from cernis.events.source import DEFAULT_TIME, column_for
from cernis.events.times import UNITS
from cernis.plan.explain import write_entry
from cernis.run.query import Query
from cernis.run.session import RunOptions
from cernis.spark.local.session import is_chosen, local_session, session, spark_class
from cernis.spark.streaming import sinks, sources
from cernis.spark.streaming.endpoints import (
    Folder,
    Sink,
    StandardOutput,
    Topic,
    check_apart,
    check_writable,
    parse_folder,
    parse_sink,
)
from cernis.spark.streaming.interval import parse_milliseconds
from cernis.spark.streaming.sources import UNDECODED, Places, StreamInput

if TYPE_CHECKING:
    from cernis.spark import Progress

_POLL = 0.2
_PARTITIONS = "spark.sql.shuffle.partitions"
_OWN = {"spark.sql.session.timeZone": "UTC", "spark.sql.caseSensitive": "true"}


@dataclass(frozen=True, kw_only=True)
class StreamArguments:
    """The options of the command, as text."""

    source: list[str]
    sink: str | None
    checkpoint: str | None
    schema: list[str]
    reading: RunOptions
    row: str | None
    lateness: str
    ahead: str
    late_output: str | None
    output_format: str | None
    buckets: int | None
    trigger: str | None
    max_files: int | None
    once: bool
    explain: bool
    cores: int | None
    metrics: str | None


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """What the command will do, checked as far as possible without Spark."""

    query: Query
    inputs: list[StreamInput]
    sink: Sink | None
    checkpoint: Folder | None
    late_output: Folder | None
    form: str
    lateness: timedelta
    ahead: timedelta | None
    trigger: dict[str, Any]
    metrics: MetricsPlace | None
    arguments: StreamArguments

    @property
    def options(self) -> dict[str, Any]:
        """The options of `recognize` and `explain`."""
        reading = self.arguments.reading
        return {
            "time": reading.time,
            "type": reading.type,
            "time_unit": reading.time_unit,
            "row": self.arguments.row,
            "matches": "lines" if self.form == "jsonl" else "events",
            "tasks": self.arguments.buckets,
            "on_error": reading.on_error,
            "tables": reading.tables,
        }

    @property
    def answers(self) -> list[str] | None:
        """The names of a query's answers; None if it has matches."""
        head = self.query.plan.head
        return None if head is None else [column.name for column in head.columns]

    @property
    def title(self) -> str:
        return f"{', '.join(str(input_.place) for input_ in self.inputs)} → {self.sink}"


def stream(text: str, language: str, arguments: StreamArguments) -> None:
    """Run a query on streams until it ends or a signal comes, or explain it."""
    plan = make_plan(text, language, arguments)
    spark = _session(arguments.cores, plan)
    for input_ in plan.inputs:
        if input_.found_in is not None:
            print_message(
                f"note: {input_.stream}: the columns of {input_.found_in}: {input_.columns}"
            )
    frames = sources.read_inputs(spark, plan.inputs, arguments.reading, arguments.max_files)
    if arguments.explain:
        typer.echo(neutralize(_explain(plan, frames)))
    else:
        _run(plan, spark, frames)


# ----------------------------------------------------------------- checking


def make_plan(text: str, language: str, arguments: StreamArguments) -> StreamPlan:
    """Check the arguments, and return the plan."""
    places = sources.parse_sources(arguments.source)
    columns = sources.parse_schemas(arguments.schema)
    query = _query(text, language, places, columns, arguments.reading)
    if arguments.reading.strict and query.warnings:
        raise StrictError(query.warnings)
    pattern = query.pattern
    inputs = sources.decide_inputs(
        places, pattern.streams, pattern.declared, columns, arguments.reading
    )
    sources.check_query(inputs, pattern, arguments.reading)
    sink = None if arguments.sink is None else parse_sink(arguments.sink)
    trigger: dict[str, Any] = {"availableNow": True} if arguments.once else {}
    if arguments.trigger is not None:
        every = parse_milliseconds("--trigger", arguments.trigger)
        trigger = {"processingTime": f"{every} milliseconds"}
    endless = arguments.ahead.strip().lower() == "none"
    plan = StreamPlan(
        query=query,
        inputs=inputs,
        sink=sink,
        checkpoint=_folder("--checkpoint", arguments.checkpoint),
        late_output=_folder("--late-output", arguments.late_output),
        form=sinks.choose_form(sink, arguments.output_format)
        if sink is not None
        else arguments.output_format or "parquet",
        lateness=_time("--lateness", arguments.lateness),
        ahead=None if endless else _time("--ahead", arguments.ahead),
        trigger=trigger,
        metrics=None if arguments.metrics is None else parse_metrics(arguments.metrics),
        arguments=arguments,
    )
    _check_folders(plan)
    return plan


def _folder(option: str, argument: str | None) -> Folder | None:
    return None if argument is None else parse_folder(option, argument)


def _time(option: str, argument: str) -> timedelta:
    return timedelta(milliseconds=parse_milliseconds(option, argument))


def _query(
    text: str, language: str, places: Places, columns: dict[str | None, str], reading: RunOptions
) -> Query:
    """Parse the query; arguments by position may take their names from the first files."""
    try:
        return cernis.query(text, lang=language)
    except QueryError:
        if language != "cq":
            raise
    inputs = sources.decide_inputs(places, (), None, columns, reading)
    return cernis.query(text, lang=language, schema=sources.known_schema(inputs, reading))


def _check_folders(plan: StreamPlan) -> None:
    written = [
        ("--sink", plan.sink),
        ("--checkpoint", plan.checkpoint),
        ("--late-output", plan.late_output),
    ]
    folders = [(option, place) for option, place in written if isinstance(place, Folder)]
    read = [("--source", one.place) for one in plan.inputs if isinstance(one.place, Folder)]
    check_apart([*read, *folders])
    for option, folder in folders:
        check_writable(option, folder)
    if isinstance(plan.sink, Folder) and plan.checkpoint is not None:
        sinks.check_sink(plan.sink, plan.checkpoint)


# ------------------------------------------------------------------ session


def _session(cores: int | None, plan: StreamPlan) -> Any:
    spark_class()  # an error if Spark is missing
    chosen = is_chosen()
    conf = {} if chosen else _connector(plan)
    with spinner("starting Spark"):
        if chosen:
            spark = session().newSession()
        else:
            spark = local_session(cores or "*", app="cernis stream", conf=conf)
    from cernis.spark.options import DEFAULT_TASKS

    for name, value in _OWN.items():
        spark.conf.set(name, value)
    if not chosen or spark.conf.get(_PARTITIONS, DEFAULT_TASKS) == DEFAULT_TASKS:
        spark.conf.set(_PARTITIONS, str(spark.sparkContext.defaultParallelism))
    return spark


def _connector(plan: StreamPlan) -> dict[str, str]:
    """How Spark gets the connector for Kafka, if the command needs it."""
    topics = [input_ for input_ in plan.inputs if isinstance(input_.place, Topic)]
    if not topics and not isinstance(plan.sink, Topic):
        return {}
    from cernis.spark.streaming.connector import UnreachableError, fetch_connector, kafka_package

    protobuf = any(input_.format == "protobuf" for input_ in topics)
    try:
        with spinner("fetching the connector for Kafka"):
            jars, note = fetch_connector(protobuf=protobuf)
    except UnreachableError:  # Spark may know of another registry, or keep the jars itself
        return {"spark.jars.packages": kafka_package(protobuf=protobuf)}
    if note is not None:
        print_message(f"note: {note}")
    return {"spark.jars": ",".join(map(str, jars))}


# ------------------------------------------------------------------ running


def _run(plan: StreamPlan, spark: Any, frames: dict[str, Any]) -> None:
    from cernis.spark import watch

    assert plan.sink is not None
    folder = plan.sink.path if isinstance(plan.sink, Folder) else None
    tally = Tally(plan.title, _clock(plan, frames), folder)
    metrics = StreamMetrics()

    def take(progress: Progress) -> None:
        tally.take(progress)
        if metrics.take(progress):
            write_file(plan.metrics, metrics)

    found = _recognize(plan, frames)
    with publish(plan.metrics, metrics) as address:
        if address is not None:
            print_message(f"note: metrics at {address}")
        listener = watch(spark, take)
        try:
            _run_to_end(plan, found, tally, take)
        finally:
            with suppress(Exception):  # Java may be gone
                spark.streams.removeListener(listener)
    print_message(summarize(tally.view()))


def _recognize(plan: StreamPlan, frames: dict[str, Any]) -> Any:
    from cernis.spark import recognize

    assert plan.checkpoint is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = recognize(
            _streams(frames),
            plan.query,
            lateness=plan.lateness,
            ahead=plan.ahead,
            late_output=None if plan.late_output is None else str(plan.late_output.path),
            corrupt=UNDECODED,
            checkpoint=str(plan.checkpoint.path),
            **plan.options,
        )
    print_notes(one.message.args[0] for one in caught if isinstance(one.message, Warning))
    return sinks.format_lines(found, plan.answers) if plan.form == "jsonl" else found


def _streams(frames: dict[str, Any]) -> Any:
    """Return one stream without its name, which may differ from the query's."""
    return frames if len(frames) > 1 else next(iter(frames.values()))


def _run_to_end(
    plan: StreamPlan, found: Any, tally: Tally, take: Callable[[Progress], None]
) -> None:
    from cernis.spark import progress_of

    assert plan.sink is not None
    assert plan.checkpoint is not None
    console, out = error_console(), _Output(tally)
    printing = isinstance(plan.sink, StandardOutput) and sys.stdout.isatty()
    form, trigger = plan.form, plan.trigger
    with (
        _signals() as caught,
        show_live(tally, console, wanted=console.is_terminal and not printing),
    ):
        running = sinks.start(
            found, plan.sink, plan.checkpoint, form=form, trigger=trigger, out=out.write
        )
        try:
            _wait(running, caught, tally)
        except sinks.SparkGone:
            if not caught.number:
                raise
            return  # the signal reached all processes of the group
        except Exception:
            if out.is_closed:
                raise BrokenPipeError from None
            raise
    for numbers in running.recentProgress:  # the listener may lag behind
        if (progress := progress_of(numbers)) is not None:
            take(progress)


def _wait(running: Any, caught: _Signals, tally: Tally) -> None:
    while not sinks.await_end(running, _POLL):
        if caught.number:
            tally.stopping()
            sinks.stop(running, lambda: caught.number > 1)
            return


class _Output:
    """Standard output, for lines; its reader may close it."""

    def __init__(self, tally: Tally) -> None:
        self.is_closed = False
        self._tally = tally

    def write(self, lines: memoryview) -> None:
        try:
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self.is_closed = True
            raise
        if lines:
            self._tally.take_lines(bytes(lines[-(1 << 16) :]).decode(errors="replace").splitlines())


class _Signals:
    """The number of signals to stop."""

    number = 0

    def caught(self, number: int, frame: object) -> None:
        self.number += 1
        if self.number > 2:
            raise KeyboardInterrupt


@contextmanager
def _signals() -> Iterator[_Signals]:
    caught = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield caught  # only the main thread receives signals
        return
    before = {n: signal.signal(n, caught.caught) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ----------------------------------------------------------------- telling


def _explain(plan: StreamPlan, frames: dict[str, Any]) -> str:
    from cernis.spark import explain

    attributes = {name: frame.drop(UNDECODED) for name, frame in frames.items()}
    lines = [str(explain(_streams(attributes), plan.query, **plan.options))]
    for input_ in plan.inputs:
        lines += write_entry(
            "source", [f"{input_.stream}: {input_.place}, {input_.format}: {input_.columns}"]
        )
    ahead = "" if plan.ahead is None else f"; ahead of the clock by at most {plan.arguments.ahead}"
    lines += write_entry("time", [f"lateness {plan.arguments.lateness}{ahead}"])
    if plan.sink is not None:
        lines += write_entry(
            "sink", [f"{plan.sink}, {plan.form}, {sinks.delivery_guarantee(plan.sink)}"]
        )
    if plan.checkpoint is not None:
        there = (plan.checkpoint.path / "offsets").is_dir()
        lines += write_entry(
            "checkpoint", [f"{plan.checkpoint}, {'begun before' if there else 'new'}"]
        )
    return "\n".join(lines)


def _clock(plan: StreamPlan, frames: dict[str, Any]) -> WatermarkClock:
    """Return how to read Spark's watermark."""
    from cernis.spark.streaming.dataflow import SHIFT

    stream, first = next(iter(frames.items()))
    reading = plan.arguments.reading
    time = column_for(reading.time, stream, None) or DEFAULT_TIME
    kind = dict(first.dtypes).get(time, "timestamp")
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return WatermarkClock()
    return WatermarkClock(SHIFT, UNITS[reading.time_unit])
