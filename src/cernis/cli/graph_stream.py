"""`cernis stream` for SPAseQ: folders of RDF files and topics of graphs that grow.

The first file of a folder tells where its events have their times, and whether these are dates, as
with `cernis run`. The checkpoint notes that decision, and later runs keep it. A topic has no first
message to look at: its events have one of the usual properties, or `--time` says where their times
are; they are dates, unless `--time-unit` says what numbers count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cernis
from cernis.cli.arguments import named_graphs
from cernis.cli.live import WatermarkClock
from cernis.cli.stream import (
    StreamArguments,
    StreamPlan,
    check_delivery,
    check_folders,
    run_stream,
)
from cernis.errors import CernisError, DataError
from cernis.events.mistakes import did_you_mean
from cernis.events.times import UNITS
from cernis.plan.report import write_entry
from cernis.rdf.name_streams import name_streams
from cernis.rdf.query import GraphQuery, parse_time_rule
from cernis.rdf.reading.parts import FilePart, look_ahead
from cernis.rdf.reading.quads import find_format
from cernis.rdf.reading.times import TimeRule
from cernis.spark.options import AnswerForm
from cernis.spark.rdf.explanation import SolutionExplanation
from cernis.spark.rdf.files import check_knowledge
from cernis.spark.rdf.versions import VersionFolder, VersionNote
from cernis.spark.streaming.checkpoint import read_note
from cernis.spark.streaming.endpoints import Folder, Source, Topic, parse_source
from cernis.spark.streaming.sources import ARRIVED, check_folder, list_names

if TYPE_CHECKING:
    from cernis.spark import Notes, Progress

_FORMS: dict[str, AnswerForm] = {"jsonl": "lines", "nq": "quads", "parquet": "events"}
_SUFFIXES = {"nq": "nq", "nquads": "nq", "trig": "trig", "jsonld": "jsonld"}


@dataclass(frozen=True, kw_only=True)
class GraphInput:
    """One stream, before it is read."""

    stream: str
    place: Source
    format: str
    rule: TimeRule
    dated: bool
    arrived: bool = False
    """Whether events have the time at which Kafka received them."""
    is_named: bool = True
    """Whether only files with the suffix of the format are read."""

    def describe(self) -> dict[str, Any]:
        """Describe how the stream is read, for the note in the checkpoint."""
        rule = self.rule
        return {
            "format": self.format,
            "time": "kafka_timestamp" if self.arrived else rule.property,
            "name": rule.pattern,
            "unit": rule.unit,
            "dates": self.dated,
        }


@dataclass(frozen=True, kw_only=True)
class GraphStreamPlan(StreamPlan):
    """A SPAseQ query on streams."""

    query: GraphQuery
    inputs: list[GraphInput]
    told: dict[int, VersionNote] = field(default_factory=dict)
    """The versions of a live background in the micro-batches so far."""

    @property
    def places(self) -> list[Source]:
        return [input_.place for input_ in self.inputs]

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
        return {
            input_.stream: self._read_topic(spark, input_, input_.place)
            if isinstance(input_.place, Topic)
            else self._read_folder(spark, input_, input_.place)
            for input_ in self.inputs
        }

    def _read_folder(self, spark: Any, input_: GraphInput, folder: Folder) -> Any:
        from cernis.spark.rdf.texts import FILES

        reader = spark.readStream.format("binaryFile").schema(FILES)
        if self.arguments.max_files is not None:
            reader = reader.option("maxFilesPerTrigger", self.arguments.max_files)
        if input_.is_named:
            ends = [name for name, format_ in _SUFFIXES.items() if format_ == input_.format]
            packed = [f".{end}{gz}" for end in ends for gz in ("", ".gz")]
            reader = reader.option("pathGlobFilter", f"*{{{','.join(packed)}}}")
        return self._parse(reader.load(f"file://{folder.path}"), input_, input_.rule)

    def _read_topic(self, spark: Any, input_: GraphInput, place: Topic) -> Any:
        from cernis.spark.streaming.kafka import load_records

        options = dict(place.options)
        per_trigger = int(options["per_trigger"]) if "per_trigger" in options else None
        starting = options.get("starting", "earliest")
        records = load_records(
            spark, place.servers, place.topic, starting=starting, per_trigger=per_trigger
        )
        return self._parse(records, input_, "timestamp" if input_.arrived else input_.rule)

    def _parse(self, texts: Any, input_: GraphInput, time: Any) -> Any:
        from cernis.spark import parse_graphs

        return parse_graphs(
            texts,
            input_.stream,
            format=input_.format,
            time=time,
            time_unit=input_.rule.unit,
            dated=input_.dated,
        )

    def recognize(self, spark: Any, frames: dict[str, Any], notes: Notes) -> Any:
        from cernis.spark.rdf.recognize import RdfOptions, recognize_rdf_stream

        arguments, delivered = self.arguments, self.delivered
        assert delivered.checkpoint is not None
        late_output = delivered.late_output
        options = RdfOptions(
            matches=_FORMS[delivered.form],
            time_unit=self._unit,
            background=self.background,
            live=arguments.live,
            tasks=arguments.buckets,
            on_error="fail" if arguments.reading.on_error == "fail" else "skip",
            reading={input_.stream: input_.describe() for input_ in self.inputs},
            lateness=delivered.lateness,
            ahead=delivered.ahead,
            late_output=None if late_output is None else str(late_output.path),
            checkpoint=str(delivered.checkpoint.path),
            secret=delivered.secret,
        )
        return recognize_rdf_stream(spark, self.query, frames, options, notes)

    def explain(self, frames: dict[str, Any]) -> list[str]:
        buckets = self.arguments.buckets
        explanation = SolutionExplanation(self.query, tasks=buckets, is_streaming=True)
        lines = [str(explanation)]
        for input_ in self.inputs:
            rule = "the time at which Kafka received it" if input_.arrived else str(input_.rule)
            if not input_.arrived and not input_.rule.is_decided():
                rule = "a usual property"
            times = "dates" if input_.dated else f"numbers of {input_.rule.unit}"
            read = f"{input_.stream}: {input_.place}, {input_.format}; times by {rule}, {times}"
            lines += write_entry("source", [read])
        return lines

    def watermark_clock(self, frames: dict[str, Any]) -> WatermarkClock:
        from cernis.spark.streaming.dataflow import SHIFT

        return WatermarkClock() if self.dated else WatermarkClock(SHIFT, UNITS[self._unit])

    @property
    def _unit(self) -> str:
        return self.inputs[0].rule.unit


def stream(text: str, arguments: StreamArguments) -> None:
    """Run a SPAseQ query on streams until it ends or a signal comes, or explain it."""
    run_stream(make_graph_stream_plan(text, arguments))


# ----------------------------------------------------------------- checking


def make_graph_stream_plan(text: str, arguments: StreamArguments) -> GraphStreamPlan:
    """Check the arguments, and return the plan."""
    query = cernis.query(text, lang="spaseq")
    _check_arguments(arguments)
    delivered = check_delivery(arguments)
    if delivered.form == "nq" and query.query.construct is None:
        raise CernisError("--output-format nq: only CONSTRUCT makes graphs; this query SELECTs")
    noted: dict[str, Any] = {}
    if delivered.checkpoint is not None:
        note = read_note(str(delivered.checkpoint.path), delivered.secret) or {}
        noted = note.get("reading") or {}
    places = _name_places(query, [parse_source(one) for one in arguments.source])
    inputs = [
        _decide_input(name, place, arguments, noted.get(name)) for name, place in places.items()
    ]
    if len({input_.dated for input_ in inputs}) > 1:
        raise DataError("the times of one stream are dates and those of another are numbers")
    plan = GraphStreamPlan(query=query, inputs=inputs, arguments=arguments, delivered=delivered)
    check_knowledge(query, plan.background)
    if arguments.live and not arguments.background:
        raise CernisError("--live-background: name the files with --background")
    check_folders(plan)
    return plan


def _check_arguments(arguments: StreamArguments) -> None:
    reading = arguments.reading
    if arguments.schema:
        raise CernisError("--schema: RDF has no columns")
    if arguments.row is not None:
        raise CernisError("--row: RDF has no columns; messages and files number their events")
    if any(option is not None for option in (reading.columns, reading.delimiter, reading.quote)):
        raise CernisError("--columns, --delimiter and --quote are for CSV, not for RDF streams")
    if reading.tables:
        raise CernisError("--table: SPAseQ joins background knowledge: --background FILE")
    if isinstance(reading.time, dict):
        raise CernisError("--time NAME=COLUMN: RDF streams have one rule for their times")


def _name_places(
    query: GraphQuery, given: Sequence[tuple[str | None, Source]]
) -> dict[str, Source]:
    """Return the source of each stream: by name, by the name of its folder or topic, in order."""
    names = [name for name, _ in query.query.streams]
    found: dict[str, Source] = {}
    if any(name is not None for name, _ in given):
        for name, place in given:
            if name is None:
                raise CernisError(f"{place}: name the streams of all sources, as NAME=URI, or none")
            if name not in names:
                raise DataError(
                    f"the query has no stream {name!r}{did_you_mean(name, names)}; "
                    f"it has {', '.join(names)}"
                )
            if name in found:
                raise CernisError(f"two sources for the stream {name!r}: {found[name]} and {place}")
            found[name] = place
        for name in names:
            if name not in found:
                raise DataError(f"no source for the stream {name}: give one for each of {names}")
        return {name: found[name] for name in names}
    own = [place.path.name if isinstance(place, Folder) else place.topic for _, place in given]
    numbers = {Path(name): i for i, name in enumerate(own)}
    if len(numbers) < len(given) or len(given) != len(names):
        counted = f"{len(given)} source{'s' * (len(given) != 1)}"
        raise DataError(
            f"the query reads {len(names)} stream{'s' * (len(names) != 1)} ({', '.join(names)}), "
            f"and there {'is' if len(given) == 1 else 'are'} {counted}; name them as NAME=URI"
        )
    chosen = name_streams(query.query, list(numbers))
    return {name: given[numbers[chosen[name]]][1] for name in names}


def _decide_input(stream: str, place: Source, arguments: StreamArguments, noted: Any) -> GraphInput:
    """Decide how a stream is read, as before if a checkpoint has noted it."""
    reading = arguments.reading
    asked = reading.format
    if asked is not None and asked not in _SUFFIXES:
        raise CernisError(f"--format {asked}: RDF streams are nquads, trig or jsonld")
    unit = arguments.unit or "ms"
    time = reading.time if isinstance(reading.time, str) else None
    if isinstance(place, Topic):
        arrived = time == ARRIVED
        rule = parse_time_rule(None if arrived else time, unit)
        assert isinstance(rule, TimeRule)
        dated = arrived or arguments.unit is None
        format_ = _SUFFIXES[asked or "nq"]
        return GraphInput(
            stream=stream, place=place, format=format_, rule=rule, dated=dated, arrived=arrived
        )
    check_folder(place)
    if noted is not None:
        rule = TimeRule(property=noted["time"], pattern=noted["name"], unit=noted["unit"])
        if time is not None:
            given = parse_time_rule(time, arguments.unit or noted["unit"])
            assert isinstance(given, TimeRule)
            rule = given
        return GraphInput(
            stream=stream,
            place=place,
            format=_SUFFIXES[asked] if asked is not None else noted["format"],
            rule=rule,
            dated=noted["dates"],
            is_named=asked is None,
        )
    return _look_at_folder(stream, place, arguments, time)


def _look_at_folder(
    stream: str, place: Folder, arguments: StreamArguments, time: str | None
) -> GraphInput:
    """Decide how a folder is read by its first file."""
    asked, unit = arguments.reading.format, arguments.unit or "ms"
    rule = parse_time_rule(time, unit)
    assert isinstance(rule, TimeRule)
    files = [place.path / name for name in list_names(place.path)]
    forms = {file: form for file in files if (form := _form_of_file(file)) is not None}
    if asked is None and len(set(forms.values())) != 1:
        if forms:
            kinds = " and ".join(sorted(set(forms.values())))
            raise DataError(f"{place}: has files of {kinds}; keep them in folders of their own")
        raise DataError(
            f"{place}: no file in it tells their form by its suffix; name one with --format "
            "(nquads, trig, jsonld)"
        )
    format_ = _SUFFIXES[asked] if asked is not None else next(iter(forms.values()))
    dated = arguments.unit is None
    first = next((f for f in (files if asked else forms) if f.is_file() and f.stat().st_size), None)
    if first is not None:
        # its events need not be in order
        prospect = look_ahead(
            FilePart(
                path=str(first), stream=0, scope="", time=rule, format=format_, on_error="skip"
            )
        )
        if prospect.first is not None:
            rule, dated = prospect.time, not prospect.numeric_times
    return GraphInput(
        stream=stream, place=place, format=format_, rule=rule, dated=dated, is_named=asked is None
    )


def _form_of_file(path: Path) -> str | None:
    try:
        return _SUFFIXES.get(find_format(path))
    except DataError:
        return None
