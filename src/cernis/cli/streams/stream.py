"""`cernis stream`: run a query, or a rule set, over folders or topics that grow.

    StreamPlan ─ Spark starts ─▶ DataFrames ─▶ running query

The arguments are checked before Spark starts, which takes seconds, and before anything is
written (`plan`). While the query runs, this process waits for its end, or for a signal. The
first signal stops the query after the micro-batch that runs, the second stops it at once, the third
does not wait for Spark. A later run continues from the checkpoint in all three cases. A plan may
change while it runs: then the query is stopped in the same way and started anew.

The session has its own settings: times without a zone are UTC, names are case-sensitive, and a
micro-batch has one task per core. Turned down: the settings of a session that runs already;
the matches would depend on them.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from cernis.cli.metrics import StreamMetrics, publish, write_file
from cernis.cli.streams.live import (
    CaughtSignals,
    Tally,
    caught_signals,
    describe_waiting,
    show_live,
    summarize,
)
from cernis.cli.streams.moved import is_moved, plan_moved
from cernis.cli.streams.plan import Delivered, StreamArguments, StreamPlan, make_plan
from cernis.cli.terminal import error_console, print_message, print_notes, spinner
from cernis.errors import StrictError, WarningNote, neutralize
from cernis.plan.report import write_entry
from cernis.run.advice import skipped_rows
from cernis.spark.local.session import is_chosen, local_session, session, spark_class
from cernis.spark.streaming import sinks
from cernis.work.endpoints import Folder, StandardOutput, Topic

if TYPE_CHECKING:
    from cernis.spark import Notes, Progress

_POLL = 0.2
_RESTARTS = 3
_PARTITIONS = "spark.sql.shuffle.partitions"
_OWN = {"spark.sql.session.timeZone": "UTC", "spark.sql.caseSensitive": "true"}


def stream(arguments: StreamArguments) -> None:
    """Run a query or rules on streams until they end or a signal comes, or explain them."""
    plan = plan_moved(arguments) if is_moved(arguments) else make_plan(arguments)
    try:
        spark = _session(plan.arguments.cores, plan)
        for note in plan.notes():
            print_message(f"note: {note}")
        frames = plan.read(spark)
        if plan.arguments.explain:
            typer.echo(neutralize(_explain(plan, frames)))
        else:
            _run(plan, spark, frames)
    finally:
        plan.close()


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
    if not any(isinstance(source, Topic) for source in (*plan.sources, plan.delivered.sink)):
        return {}
    from cernis.spark.streaming.connector import UnreachableError, fetch_connector, kafka_package

    protobuf = plan.needs_protobuf
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

    sink, target = plan.delivered.sink, plan.delivered.metrics
    assert sink is not None
    folder = sink.path if isinstance(sink, Folder) else None
    tally = Tally(plan.title, plan.watermark_clock(frames), folder)
    metrics = StreamMetrics()
    warned = _StreamWarnings(plan.arguments.reading.strict, metrics)

    def take(progress: Progress) -> None:
        tally.take(progress)
        for note in plan.describe_batch(progress):
            print_message(f"note: {note}")
        warned.take(progress)
        if metrics.take(progress):
            write_file(target, metrics)

    def recognize() -> Any:
        return _recognize(plan, spark, frames, warned.renew())

    def look() -> bool:
        metrics.step()
        if not plan.arguments.once:  # which ends anyway
            warned.refuse()
        return plan.look(frames, metrics)

    plan.describe_rules(metrics)
    found = recognize()
    with publish(target, metrics) as address:
        if address is not None:
            print_message(f"note: metrics at {address}")
        listener = watch(spark, take)
        try:
            _run_to_end(_Begun(plan.delivered, tally, take, look), found, recognize)
            warned.tell(at_end=True)
            write_file(target, metrics)
        finally:
            with suppress(Exception):  # Java may be gone
                spark.streams.removeListener(listener)
    if plan.arguments.once:
        print_notes(describe_waiting(tally.view(), plan.arguments.lateness, plan.waiting_clauses))
    print_message(summarize(tally.view()))
    warned.refuse()


class _StreamWarnings:
    """Warnings about the events of a stream; each is said once, on standard error."""

    def __init__(self, strict: bool, metrics: StreamMetrics) -> None:
        self._strict = strict
        self._metrics = metrics
        self._notes: Notes | None = None
        self._found: dict[str, WarningNote] = {}
        self._lock = threading.Lock()
        self._is_new = False
        """Whether this process has seen the first micro-batch of the stream."""

    def renew(self) -> Notes:
        """Return the notes of the query that starts now."""
        from cernis.spark import Notes

        self._notes = Notes()
        return self._notes

    def take(self, progress: Progress) -> None:
        """Say what a micro-batch shows."""
        assert self._notes is not None
        self._is_new |= progress.batch == 0
        self._notes.take(progress)
        self.tell()

    def tell(self, *, at_end: bool = False) -> None:
        """Say what is new. Few rows are enough at the end of a stream that began here."""
        from cernis.spark.notes import FEWEST_ROWS

        assert self._notes is not None
        with self._lock:  # Spark's thread and this one
            found = self._notes.warnings(1 if at_end and self._is_new else FEWEST_ROWS)
            new = {key: note for note in found if (key := _subject(note)) not in self._found}
            self._found |= new
        for note in new.values():
            self._metrics.warn(note.code)
        if not self._strict:
            print_notes(new.values())

    def refuse(self) -> None:
        """Raise what was found, if warnings are errors."""
        if self._strict and self._found:
            raise StrictError(self._found.values())


def _subject(note: WarningNote) -> str:
    """Return what a warning is about: numbers and suggestions change from batch to batch."""
    return note.code if note.code == skipped_rows.CODE else note.splitlines()[0]


def _recognize(plan: StreamPlan, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = plan.recognize(spark, frames, notes)
    print_notes(one.message.args[0] for one in caught if isinstance(one.message, Warning))
    return found


class _Begun(NamedTuple):
    """A stream that runs: where it goes, and who is told."""

    delivered: Delivered
    tally: Tally
    take: Callable[[Progress], None]
    look: Callable[[], bool]


def _run_to_end(begun: _Begun, found: Any, again: Callable[[], Any]) -> None:
    """Run the query, and another one after each change; `again` gives its matches."""
    tally, sink = begun.tally, begun.delivered.sink
    console, out = error_console(), _Output(tally)
    printing = isinstance(sink, StandardOutput) and sys.stdout.isatty()
    with (
        caught_signals() as caught,
        show_live(tally, console, wanted=console.is_terminal and not printing),
    ):
        try:
            while _run_patiently(begun, found, out, caught):
                found = again()
        except sinks.SparkGone:
            if not caught.number:
                raise
            # the signal reached all processes of the group
        except Exception:
            if out.is_closed:
                raise BrokenPipeError from None
            raise


def _run_patiently(begun: _Begun, found: Any, out: _Output, caught: CaughtSignals) -> bool:
    """Run the query, which starts again if its processes were late; return as `_run_once`."""
    for _ in range(_RESTARTS):
        try:
            return _run_once(begun, found, out, caught)
        except sinks.WorkerLate as late:
            print_message(f"note: {late}; the stream starts again from its checkpoint")
    return _run_once(begun, found, out, caught)


def _run_once(begun: _Begun, found: Any, out: _Output, caught: CaughtSignals) -> bool:
    """Run the query until it ends, a signal comes or there is a change; return whether there is."""
    from cernis.spark import progress_of

    delivered = begun.delivered
    sink, checkpoint = delivered.sink, delivered.checkpoint
    assert sink is not None
    assert checkpoint is not None
    form, trigger = delivered.form, delivered.trigger
    running = sinks.start(found, sink, checkpoint, form=form, trigger=trigger, out=out.write)
    has_changed = _wait(running, caught, begun)
    for numbers in running.recentProgress:  # the listener may lag behind
        if (progress := progress_of(numbers)) is not None:
            begun.take(progress)
    return has_changed


def _wait(running: Any, caught: CaughtSignals, begun: _Begun) -> bool:
    """Wait for the end, a signal or a change; return whether there is a change."""
    while not sinks.await_end(running, _POLL):
        if caught.number:
            begun.tally.stopping()
            sinks.stop(running, lambda: caught.number > 1)
            return False
        try:
            has_changed = begun.look()
        except StrictError:
            sinks.stop(running, lambda: caught.number > 1)
            raise
        if has_changed:
            sinks.stop(running, lambda: caught.number > 1)
            return True
    return False


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


# ----------------------------------------------------------------- telling


def _explain(plan: StreamPlan, frames: dict[str, Any]) -> str:
    arguments, delivered = plan.arguments, plan.delivered
    lines = plan.explain(frames)
    ahead = "" if delivered.ahead is None else f"; ahead of the clock by at most {arguments.ahead}"
    lines += write_entry("time", [f"lateness {arguments.lateness}{ahead}"])
    if (sink := delivered.sink) is not None:
        lines += write_entry(
            "sink", [f"{sink}, {delivered.form}, {sinks.delivery_guarantee(sink)}"]
        )
    if (checkpoint := delivered.checkpoint) is not None:
        begun = (checkpoint.path / "offsets").is_dir()
        lines += write_entry("checkpoint", [f"{checkpoint}, {'begun before' if begun else 'new'}"])
    return "\n".join(lines)
