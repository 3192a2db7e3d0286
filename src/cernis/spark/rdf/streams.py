"""Streams of RDF before they are read: folders of files and topics of graphs that grow.

The first file of a folder tells where its events have their times, and whether these are dates, as
with `cernis run`. The checkpoint notes that decision, and later runs keep it. A topic has no first
message to look at: its events have one of the usual properties, or `--time` says where their times
are; they are dates, unless `--time-unit` says what numbers count.

Imports Spark only where streams are read. `streaming.sources` does the same for rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cernis.errors import CernisError, DataError
from cernis.rdf.query import GraphQuery, parse_time_rule
from cernis.rdf.reading.parts import FilePart, look_ahead
from cernis.rdf.reading.quads import find_format
from cernis.rdf.reading.times import TimeRule
from cernis.run.session import RunOptions
from cernis.spark.streaming.sources import ARRIVED, check_folder, choose_starting, list_names
from cernis.work.endpoints import Folder, Source, Topic, parse_source
from cernis.work.rdf_sources import check_graph_reading, name_graph_sources

_SUFFIXES = {"nq": "nq", "nquads": "nq", "trig": "trig", "jsonld": "jsonld"}


@dataclass(frozen=True, kw_only=True)
class GraphInput:
    """One stream, before it is read."""

    stream: str
    source: Source
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

    def explain(self) -> str:
        """Say how the stream is read."""
        rule = "the time at which Kafka received it" if self.arrived else str(self.rule)
        if not self.arrived and not self.rule.is_decided():
            rule = "a usual property"
        times = "dates" if self.dated else f"numbers of {self.rule.unit}"
        return f"{self.stream}: {self.source}, {self.format}; times by {rule}, {times}"

    def read(self, spark: Any, max_files: int | None) -> Any:
        """Return the streaming DataFrame of its events."""
        from cernis.spark.rdf.texts import parse_graphs

        time: Any = self.rule
        if isinstance(self.source, Topic):
            texts = self._load_topic(spark, self.source)
            time = "timestamp" if self.arrived else time
        else:
            texts = self._load_folder(spark, self.source, max_files)
        return parse_graphs(
            texts,
            self.stream,
            format=self.format,
            time=time,
            time_unit=self.rule.unit,
            dated=self.dated,
        )

    def _load_folder(self, spark: Any, folder: Folder, max_files: int | None) -> Any:
        from cernis.spark.rdf.texts import FILES

        reader = spark.readStream.format("binaryFile").schema(FILES)
        if max_files is not None:
            reader = reader.option("maxFilesPerTrigger", max_files)
        if self.is_named:
            ends = [name for name, format_ in _SUFFIXES.items() if format_ == self.format]
            packed = [f".{end}{gz}" for end in ends for gz in ("", ".gz")]
            reader = reader.option("pathGlobFilter", f"*{{{','.join(packed)}}}")
        return reader.load(f"file://{folder.path}")

    def _load_topic(self, spark: Any, topic: Topic) -> Any:
        from cernis.spark.streaming.kafka import load_records

        options = dict(topic.options)
        per_trigger = int(options["per_trigger"]) if "per_trigger" in options else None
        starting, more = choose_starting(topic)
        return load_records(
            spark,
            topic.servers,
            topic.topic,
            starting=starting,
            per_trigger=per_trigger,
            options=more,
        )


def decide_graph_inputs(
    query: GraphQuery,
    given: Sequence[str],
    reading: RunOptions,
    unit: str | None,
    noted: Mapping[str, Any],
) -> list[GraphInput]:
    """Decide how the streams of a query are read.

    `unit` is that of times which are numbers, if it is given. `noted` is what a checkpoint knows of
    each stream (`GraphInput.describe`).
    """
    check_graph_reading(reading)
    sources = name_graph_sources(query.query, [parse_source(one) for one in given])
    inputs = [
        _decide_input(name, source, reading, unit, noted.get(name))
        for name, source in sources.items()
    ]
    if len({input_.dated for input_ in inputs}) > 1:
        raise DataError("the times of one stream are dates and those of another are numbers")
    return inputs


def _decide_input(
    stream: str, source: Source, reading: RunOptions, given_unit: str | None, noted: Any
) -> GraphInput:
    """Decide how a stream is read, as before if a checkpoint has noted it."""
    asked = reading.format
    if asked is not None and asked not in _SUFFIXES:
        raise CernisError(f"--format {asked}: RDF streams are nquads, trig or jsonld")
    unit = given_unit or "ms"
    time = reading.time if isinstance(reading.time, str) else None
    if isinstance(source, Topic):
        arrived = time == ARRIVED
        rule = parse_time_rule(None if arrived else time, unit)
        assert isinstance(rule, TimeRule)
        dated = arrived or given_unit is None
        format_ = _SUFFIXES[asked or "nq"]
        return GraphInput(
            stream=stream, source=source, format=format_, rule=rule, dated=dated, arrived=arrived
        )
    check_folder(source)
    if noted is not None:
        rule = TimeRule(property=noted["time"], pattern=noted["name"], unit=noted["unit"])
        if time is not None:
            given = parse_time_rule(time, given_unit or noted["unit"])
            assert isinstance(given, TimeRule)
            rule = given
        return GraphInput(
            stream=stream,
            source=source,
            format=_SUFFIXES[asked] if asked is not None else noted["format"],
            rule=rule,
            dated=noted["dates"],
            is_named=asked is None,
        )
    rule = parse_time_rule(time, unit)
    assert isinstance(rule, TimeRule)
    return _look_at_folder(stream, source, rule, asked, dated=given_unit is None)


def _look_at_folder(
    stream: str, folder: Folder, rule: TimeRule, asked: str | None, *, dated: bool
) -> GraphInput:
    """Decide how a folder is read by its first file."""
    files = [folder.path / name for name in list_names(folder.path)]
    forms = {file: form for file in files if (form := _form_of_file(file)) is not None}
    if asked is None and len(set(forms.values())) != 1:
        if forms:
            kinds = " and ".join(sorted(set(forms.values())))
            raise DataError(f"{folder}: has files of {kinds}; keep them in folders of their own")
        raise DataError(
            f"{folder}: no file in it tells their form by its suffix; name one with --format "
            "(nquads, trig, jsonld)"
        )
    format_ = _SUFFIXES[asked] if asked is not None else next(iter(forms.values()))
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
        stream=stream, source=folder, format=format_, rule=rule, dated=dated, is_named=asked is None
    )


def _form_of_file(path: Path) -> str | None:
    try:
        return _SUFFIXES.get(find_format(path))
    except DataError:
        return None
