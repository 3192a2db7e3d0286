"""`RdfDataSource`: read RDF files on Spark, one row for each event.

    spark.dataSource.register(RdfDataSource)
    spark.read.format("rdf").option("stream", "S1").load("plant.nq")

Columns: `stream`, `number` (of the event in its stream), `ts` (nanoseconds), `time` (the same as a
timestamp; NULL where times are numbers), `graph`, `triples` (an array of s, p, o). Terms are
N-Triples text. Events, numbers and names of blank nodes are equal to the local reader's.

The options are the local reader's: `time` (a property, or `graph:` and a regular expression),
`time_unit`, `format`, `on_error` (fail or skip). With `stream`, all files are one stream, in the
order given (a folder: by name); without, each file is a stream with the file's name. One task
reads a file, several read a large N-Quads file (about `piece` bytes each);
`cernis.rdf.reading.parts` says why the result is the same. Paths are looked up on the machines
that read; give absolute ones.

Cost: parsing. Rows leave as Arrow batches. Spark starts a process each time that it asks for the
schema or for the parts of the files, so imports are inside of functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cernis.errors import CernisError

if TYPE_CHECKING:
    import pyarrow as pa

    from cernis.rdf.reading.events import GraphEvents
    from cernis.rdf.reading.parts import FilePart
    from cernis.rdf.reading.terms import Codes, Terms

SCHEMA = (
    "stream string, number bigint, ts bigint, time timestamp, graph string, "
    "triples array<struct<s: string, p: string, o: string>>"
)
COLUMNS = ("stream", "number", "ts", "triples")
"""The columns that a DataFrame of events must have."""
UNDECODABLE = "undecodable"
"""A column that rows of texts have (`texts`): why one could not be read."""
_OPTIONS = ("path", "paths", "stream", "time", "time_unit", "format", "on_error", "piece")


class RdfDataSource(DataSource):
    """Events of RDF streams; `format("rdf")`."""

    @classmethod
    def name(cls) -> str:
        return "rdf"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> RdfReader:
        return RdfReader(dict(self.options), schema)


@dataclass
class RdfPartition(InputPartition):
    """A part of a file, and the name of its stream."""

    part: FilePart
    stream: str


class RdfReader(DataSourceReader):
    """Read parts of files."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._schema = schema

    def partitions(self) -> Sequence[RdfPartition]:
        from cernis.rdf.query import parse_time_rule
        from cernis.rdf.reading.parts import PIECE, split_stream
        from cernis.rdf.reading.times import TimeRule

        options = self._options
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise CernisError(f"rdf has no option {unknown[0]!r}; it has {', '.join(_OPTIONS[2:])}")
        rule = parse_time_rule(options.get("time"), options.get("time_unit", "ms"))
        assert rule is None or isinstance(rule, TimeRule)
        on_error = options.get("on_error", "fail")
        if on_error not in ("fail", "skip"):
            raise CernisError(f"on_error={on_error!r}: expected 'fail' or 'skip'")
        found: list[RdfPartition] = []
        for index, (name, files, scopes) in enumerate(self._streams()):
            parts = split_stream(
                files,
                stream=index,
                scopes=scopes,
                time=rule,
                format=options.get("format"),
                on_error=on_error,
                piece=int(options.get("piece", PIECE)),
            )
            found += [RdfPartition(part, name) for part in parts]
        return found

    def _streams(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield the name, the files and the scopes of each stream."""
        from cernis.rdf.reading.parts import list_files

        options = self._options
        given = json.loads(options["paths"]) if "paths" in options else options.get("path")
        if not given:
            raise CernisError("name the RDF files: spark.read.format('rdf').load('stream.nq')")
        local = [_local(one) for one in ([given] if isinstance(given, str) else given)]
        files = [str(Path(file).absolute()) for file in list_files(local)]
        if "stream" in options:
            name = options["stream"]
            yield name, files, [f"{name}-{i}" for i in range(len(files))]
            return
        for i, file in enumerate(files):
            yield Path(file).name.split(".")[0], [file], [f"f{i}"]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from cernis.rdf.reading.parts import PartReader
        from cernis.rdf.reading.terms import Terms

        assert isinstance(partition, RdfPartition)
        terms = Terms()
        schema = to_arrow_schema(self._schema, timezone="UTC")
        reader = PartReader(partition.part, terms)
        for events in reader:
            dated = reader.numeric_times is False
            yield _rows(events, reader.names, terms, partition.stream, dated, schema)


def _rows(
    events: GraphEvents, names: Codes, terms: Terms, stream: str, dated: bool, schema: pa.Schema
) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    from cernis.work.rdf import write_triples

    times = pa.array(events.times // 1000) if dated else pa.nulls(events.size, pa.int64())
    columns = [
        pa.array([stream], pa.string()).take(pa.array(np.zeros(events.size, np.int64))),
        pa.array(events.numbers),
        pa.array(events.times),
        times.cast(schema.field("time").type),
        terms.repeated_texts(names),
        write_triples(events, terms, schema.field("triples").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _local(path: str) -> str:
    return path.removeprefix("file://").replace("file:/", "/", 1)
