"""`cernis stream --engine local`: a live stream in this process, without Spark.

    arguments ─ checked ─▶ inputs, sink, checkpoint ─▶ LiveRun ─▶ until a signal, or the end

The first signal ends the run after a commit; a later run goes on from the checkpoint. Without a
checkpoint, nothing is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import typer

import cernis
from cernis.cli.live import (
    Tally,
    WatermarkClock,
    caught_signals,
    describe_waiting,
    show_live,
    summarize,
)
from cernis.cli.metrics import StreamMetrics, parse_metrics, publish, write_file
from cernis.cli.rule_watch import RuleWatch
from cernis.cli.stream_plan import StreamArguments
from cernis.cli.terminal import error_console, print_message, print_notes
from cernis.errors import CernisError, StrictError, neutralize
from cernis.live.inputs import InputStopped, LiveInput
from cernis.live.places import open_input, open_sink
from cernis.live.prepare import Prepared, prepare_query, prepare_rules
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import FolderSink
from cernis.live.store import LocalStore
from cernis.plan.report import write_entry
from cernis.run.query import Query
from cernis.work import endpoints
from cernis.work.interval import parse_milliseconds
from cernis.work.progress import Progress

_LOCAL = "in one process; --engine spark has it"


def stream_local(arguments: StreamArguments) -> None:
    """Run a query or rules on live inputs until they end or a signal comes."""
    _refuse(arguments)
    watch = None if arguments.rules is None else RuleWatch(arguments.rules)
    query = None if watch is not None else cernis.query(arguments.text, lang=arguments.language)
    warned = [] if query is None else [*query.warnings]
    if arguments.reading.strict and warned:
        raise StrictError(warned)
    print_notes(warned)
    places = endpoints.name_places([*map(endpoints.parse_live_source, arguments.source)])
    sink = None if arguments.sink is None else endpoints.parse_live_sink(arguments.sink)
    form = "jsonl" if sink is None else endpoints.choose_form(sink, arguments.output_format)
    _check_folders(arguments, places, sink)
    if arguments.explain:
        typer.echo(neutralize("\n".join(_explain(arguments, query, places, sink))))
        return
    assert sink is not None
    folder = None
    if arguments.checkpoint is not None:
        folder = endpoints.parse_folder("--checkpoint", arguments.checkpoint).path
    store = LocalStore(folder)
    try:
        _run(_Command(arguments, query, watch, places, sink, form), store)
    finally:
        store.close()


class _Command:
    """What the command has to do."""

    def __init__(
        self,
        arguments: StreamArguments,
        query: Query | None,
        watch: RuleWatch | None,
        places: dict[str, endpoints.LiveSource],
        sink: endpoints.LiveSink,
        form: str,
    ) -> None:
        self.arguments, self.query, self.watch = arguments, query, watch
        self.places, self.sink, self.form = places, sink, form
        self.inputs = {
            name: open_input(place, once=arguments.once) for name, place in places.items()
        }

    def prepare(self) -> Prepared:
        reading = self.arguments.reading
        if self.watch is not None:
            return prepare_rules(self.watch.rules, self.inputs, reading)
        assert self.query is not None
        is_text = self.form == "jsonl"
        return prepare_query(self.query, self.inputs, reading, "lines" if is_text else "events")

    @property
    def pace(self) -> Pace:
        arguments = self.arguments
        ahead, idle = arguments.ahead.strip().lower(), arguments.idle
        every = parse_milliseconds("--trigger", arguments.trigger or "1s") / 1000
        return Pace(
            lateness=parse_milliseconds("--lateness", arguments.lateness) / 1000,
            ahead=None if ahead == "none" else parse_milliseconds("--ahead", ahead) / 1000,
            idle=None if idle is None else parse_milliseconds("--idle", idle) / 1000,
            commit=every,
        )


def _run(command: _Command, store: LocalStore) -> None:
    arguments = command.arguments
    place = None if arguments.metrics is None else parse_metrics(arguments.metrics)
    aside = None
    if arguments.late_output is not None:
        late = endpoints.parse_folder("--late-output", arguments.late_output)
        aside = FolderSink(late.path, "jsonl")
    title = f"{', '.join(map(str, command.places.values()))} → {command.sink}"
    console, metrics, tally = error_console(), StreamMetrics(), Tally(title, WatermarkClock())
    with caught_signals(lambda: _stop(command.inputs)) as caught, suppress(InputStopped):
        resume_inputs(command.inputs, store)
        prepared = command.prepare()
        sink = open_sink(command.sink, command.form, store.run, lambda: caught.number > 0)
        run = LiveRun(prepared, command.inputs, store, sink, command.pace, aside=aside)
        print_notes(note for each in run.inputs for note in getattr(each, "notes", ()))

        def look() -> None:
            watch = command.watch
            if watch is None or arguments.once:
                return
            if watch.take_changes(run.check_rules, metrics):
                run.change_rules(watch.rules)

        def told(progress: Progress) -> None:
            tally.take(progress)
            if metrics.take(progress):
                write_file(place, metrics)

        run.told = told
        printing = isinstance(command.sink, endpoints.StandardOutput) and sys.stdout.isatty()
        with publish(place, metrics) as address:
            if address is not None:
                print_message(f"note: metrics at {address}")
            with show_live(tally, console, wanted=console.is_terminal and not printing):
                run.run(lambda: caught.number > 0, look)
        if arguments.once:
            print_notes(describe_waiting(tally.view(), arguments.lateness))
    print_message(summarize(tally.view()))


def _stop(inputs: dict[str, LiveInput]) -> None:
    for input_ in inputs.values():
        input_.stop()


# ----------------------------------------------------------------- checking


def _refuse(arguments: StreamArguments) -> None:
    """Raise an error for options that one process does not have."""
    given = {
        "--schema": arguments.schema,
        "--row": arguments.row,
        "--buckets": arguments.buckets,
        "--cores": arguments.cores,
        "--max-files": arguments.max_files,
        "--secret": arguments.secret,
    }
    for option, value in given.items():
        if value:
            raise CernisError(f"{option}: not {_LOCAL}")
    if arguments.language == "spaseq":
        raise CernisError(f"RDF streams do not run {_LOCAL}")


def _check_folders(
    arguments: StreamArguments,
    places: dict[str, endpoints.LiveSource],
    sink: endpoints.LiveSink | None,
) -> None:
    written = [("--sink", sink)]
    for option, text in (
        ("--checkpoint", arguments.checkpoint),
        ("--late-output", arguments.late_output),
    ):
        if text is not None:
            written.append((option, endpoints.parse_folder(option, text)))
    endpoints.check_folders(places.values(), written)


def _explain(
    arguments: StreamArguments,
    query: Query | None,
    places: dict[str, endpoints.LiveSource],
    sink: endpoints.LiveSink | None,
) -> Iterator[str]:
    if query is not None:
        yield str(query.explain())
    for name, place in places.items():
        yield from write_entry("source", [f"{name}: {place}"])
    yield from write_entry("time", [f"lateness {arguments.lateness}"])
    if sink is not None:
        is_exact = isinstance(sink, endpoints.Folder | endpoints.Topic)
        once = "exactly once" if is_exact else "at least once"
        yield from write_entry("sink", [f"{sink}, {once}"])
    if arguments.checkpoint is not None:
        begun = (Path(arguments.checkpoint) / "cernis.sqlite").exists()
        state = "begun before" if begun else "new"
        yield from write_entry("checkpoint", [f"{arguments.checkpoint}, {state}"])
