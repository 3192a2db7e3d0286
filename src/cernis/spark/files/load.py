"""Load files of events as DataFrames.

Spark reads the Parquet that it can read, and filters reach the files. Everything else (text,
Arrow, types that Spark does not have, bad rows to be set aside) is *staged*: this process reads
it as the embedded engine does, with the same types, messages and counts, and writes it to a
temporary folder as Parquet files with row numbers.

Turned down: Spark's own readers of text. They infer other types, and silently drop or blank
out rows that they do not understand.

Cost: staging is one pass in this process, chunk by chunk, and the disk space of the events in
Parquet. One pass over the time column, if the footers of Parquet files do not tell that every
event has a time.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.errors import CernisError, DataError, Diagnostic, WarningNote
from cernis.events.batch import is_computed
from cernis.events.column_types import cast_to, common_type, value_type
from cernis.events.odd_times import TimeSpan, check_times, unite_spans
from cernis.events.order import Ordering
from cernis.events.reading.files import ParquetReader
from cernis.events.reading.folders import FilesReader, FolderReader
from cernis.events.source import Chunk, Source
from cernis.events.times import to_ticks
from cernis.run.advice.skipped_rows import note_skipped
from cernis.spark.numbering import number_file_rows
from cernis.spark.options import OnRows
from cernis.spark.row_groups import is_type_of_spark, list_statistics
from cernis.spark.unify import quote_name
from cernis.work.carriers import carrier_of, convert, note_type
from cernis.work.columns import ROW, TICKS

_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4_RAW"})
_ODD = re.compile(r"[][{}*?\\:]|/[._][^/]*$")
"""Paths that Spark takes for patterns or for hidden files."""

Types = dict[str, pa.DataType]


@dataclass(frozen=True)
class FileFrames:
    """The streams of a query as DataFrames, each with its row numbers in `row`."""

    frames: dict[str, Any]
    columns: dict[str, pa.Schema]
    """The columns of each stream, in the types of the file."""
    times: Types
    """The types of the time columns."""
    on_error: OnRows
    """How Spark treats events without a usable time."""
    types: dict[str, frozenset[str]]
    """For each staged stream, the types of the query that have events."""
    notes: list[str]
    rows: int
    """About how many events there are, with bad ones."""
    row: str = ROW


@contextmanager
def load_files(
    spark: Any, sources: Sequence[Source], *, on_error: str = "fail", types: Collection[str] = ()
) -> Iterator[FileFrames]:
    """Load the sources as DataFrames, and delete staged files afterwards.

    `types` are the types that the query asks for.
    """
    folder = Path(tempfile.mkdtemp(prefix="cernis-staged-"))
    try:
        yield _Staging(spark, folder, sources, on_error, frozenset(types)).load()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _StagedSource:
    """A source in temporary Parquet files."""

    folder: Path
    types: Types
    seen: frozenset[str]
    times: TimeSpan | None


@dataclass
class _Staging:
    spark: Any
    folder: Path
    sources: Sequence[Source]
    on_error: str
    types: frozenset[str]

    def load(self) -> FileFrames:
        unit = Ordering(self.sources).unit_ns
        staged: dict[str, _StagedSource] = {}
        first = 0
        firsts: dict[str, int] = {}
        for source in self.sources:
            firsts[source.name] = first
            if not self._is_read_by_spark(source):
                staged[source.name] = self._stage(source, first, unit)
            first += source.reader.count or 0
        columns = {s.name: _columns(s, staged.get(s.name)) for s in self.sources}
        ticked = not self._have_one_time_type(columns)
        for source in self.sources if ticked else ():
            if source.name not in staged:
                staged[source.name] = self._stage(source, firsts[source.name], unit)
                columns[source.name] = _columns(source, staged[source.name])
        frames = {
            source.name: self._frame_of_staged(staged[source.name], unit if ticked else None)
            if source.name in staged
            else self._frame_of_parquet(source, firsts[source.name])
            for source in self.sources
        }
        seen = {name: one.seen for name, one in staged.items()}
        policy: OnRows = "fail" if self.on_error == "fail" else "skip"
        times = {s.name: columns[s.name].field(s.timed_by).type for s in self.sources if s.timed_by}
        odd = self._check_times(staged, unit)
        notes = [*note_skipped(self.sources), *map(WarningNote.of, odd)]
        return FileFrames(frames, columns, times, policy, seen, notes, first)

    def _check_times(
        self, staged: dict[str, _StagedSource], unit: int | None
    ) -> Iterable[Diagnostic]:
        """Return a warning about times in another unit, as far as files and footers tell them."""
        spans = [
            staged[source.name].times if source.name in staged else _read_span(source)
            for source in self.sources
            if source.timed_by is not None
        ]
        known = [span for span in spans if span is not None]
        if unit is None or not known or len(known) < len(spans):
            return ()
        return check_times(self.sources, unite_spans(known))

    def _is_read_by_spark(self, source: Source) -> bool:
        """Return whether the source is Parquet that Spark can read, with no row to set aside."""
        files = _parquet_files(source)
        if not files or not all(map(_is_known_to_spark, files)):
            return False
        if source.timed_by is None or _have_times(files, source):
            return True
        if self.on_error not in ("fail", "skip"):
            return False
        # raises an error for a bad row, if that is one
        good = sum(len(chunk.rows) for chunk in source.chunks())
        if source.blank_rows:
            return False
        source.mistakes.skipped[source.label] = (source.reader.count or 0) - good
        return True

    def _have_one_time_type(self, columns: dict[str, pa.Schema]) -> bool:
        """Return whether Spark has one type for the times of all streams."""
        times = [columns[s.name].field(s.timed_by).type for s in self.sources if s.timed_by]
        return all(map(_is_time_of_spark, times)) and len({*map(carrier_of, times)}) < 2

    def _stage(self, source: Source, first: int, unit: int | None) -> _StagedSource:
        master = self.spark.conf.get("spark.master", "local")
        if not master.startswith("local"):
            raise CernisError(
                f"{source.label}: is read here, and the machines of {master} cannot see what "
                "is read here; give Parquet files, in a place that all of them see"
            )
        folder = self.folder / f"stream{len(os.listdir(self.folder))}"
        folder.mkdir()
        return _Writer(source, folder, first, unit, self.types).write()

    def _frame_of_staged(self, staged: _StagedSource, unit: int | None) -> Any:
        schema = _file_schema(staged.types)
        data = self.spark.read.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
        columns = [
            F.col(f"c{i}").alias(name, metadata=note_type(type_))
            for i, (name, type_) in enumerate(staged.types.items())
        ]
        if unit is not None:
            columns.append(F.col(TICKS).alias(TICKS, metadata={"tick": unit}))
        return data.parquet(f"file://{staged.folder}").select(*columns, ROW)

    def _frame_of_parquet(self, source: Source, first: int) -> Any:
        files = _parquet_files(source)
        path = Path(source.label).resolve()
        if _ODD.search(path.as_posix()):
            path, target = self.folder / f"link{len(os.listdir(self.folder))}.parquet", path
            path.symlink_to(target)
        data = number_file_rows(self.spark.read.parquet(f"file://{path.as_posix()}"), len(files))
        own = {f.name: f.type for f in pq.read_schema(files[0])}
        columns = [
            F.col(quote_name(name)).alias(
                name, metadata=note_type(source.schema.field(name).type) if name in own else {}
            )
            for name in data.columns
            if name != ROW
        ]
        return data.select(*columns, (F.col(ROW) + F.lit(first)).alias(ROW))


def _columns(source: Source, staged: _StagedSource | None) -> pa.Schema:
    if staged is not None:
        return pa.schema(staged.types)
    return pa.schema([(f.name, value_type(f.type)) for f in source.columns])


# ----------------------------------------------------- what Spark can read


def _parquet_files(source: Source) -> list[str]:
    """Return the files of a source, if Spark can read them as one; none otherwise."""
    reader = source.reader
    if isinstance(reader, FolderReader):
        return reader.files
    if isinstance(reader, FilesReader) and reader.folder is not None:
        files = [one for one in reader.readers if isinstance(one, ParquetReader)]
        are_alike = all(one.schema.equals(files[0].schema) for one in files)
        all_files = len(files) == len(reader.readers)
        return [one.label for one in files] if all_files and are_alike else []
    return [source.label] if isinstance(reader, ParquetReader) else []


def _is_known_to_spark(file: str) -> bool:
    """Return whether Spark reads the file and all of its columns."""
    opened = pq.ParquetFile(file)
    schema, metadata = opened.schema_arrow, opened.metadata
    names = {name.lower() for name in schema.names}
    if not names or len(names) < len(schema.names) or names & {"_metadata", ROW, TICKS}:
        return False
    codecs = {
        metadata.row_group(i).column(j).compression
        for i in range(metadata.num_row_groups)
        for j in range(metadata.num_columns)
    }
    return codecs <= _CODECS and all(map(is_type_of_spark, schema.types))


def _is_time_of_spark(type_: pa.DataType) -> bool:
    """Return whether a time column of this type is one for Spark, with the same unit."""
    types = pa.types
    return bool(
        types.is_signed_integer(type_)
        or type_ in (pa.uint8(), pa.uint16(), pa.uint32())
        or types.is_timestamp(type_)
        or types.is_date32(type_)
        or types.is_floating(type_)
        or types.is_decimal128(type_)
    )


def _have_times(files: Sequence[str], source: Source) -> bool:
    """Return whether the footers tell that every row has a usable time."""
    assert source.timed_by is not None
    type_ = value_type(source.columns.field(source.timed_by).type)
    if not (pa.types.is_integer(type_) or pa.types.is_temporal(type_)) or type_ == pa.uint64():
        return False
    known = _list_statistics(files, source.timed_by)
    return all(one is not None and one.has_null_count and not one.null_count for one in known)


def _list_statistics(files: Sequence[str], column: str) -> Iterator[Any]:
    for file in files:
        yield from list_statistics(pq.read_metadata(file), column)


def _read_span(source: Source) -> TimeSpan | None:
    """Return the first and the last time of Parquet files, if the footers tell them."""
    assert source.timed_by is not None
    assert source.tick is not None
    type_ = value_type(source.columns.field(source.timed_by).type)
    known = [*_list_statistics(_parquet_files(source), source.timed_by)]
    if not known or any(one is None or not one.has_min_max for one in known):
        return None
    ends = pa.array([end for one in known for end in (one.min, one.max)], type_)
    ticks, bad = to_ticks(pa.chunked_array([ends]), source.time_unit, source.tick)
    if bad is not None:
        return None
    return TimeSpan(int(ticks.min()) * source.tick, int(ticks.max()) * source.tick)


# ------------------------------------------------------------------ staging


def _file_schema(types: Types) -> pa.Schema:
    """Return the columns of a staged file, named by index: Spark takes not every name."""
    fields = [(f"c{i}", carrier_of(type_)) for i, type_ in enumerate(types.values())]
    return pa.schema([*fields, (ROW, pa.int64()), (TICKS, pa.int64())])


def _own_types(schema: pa.Schema) -> Types:
    return {f.name: value_type(f.type) for f in schema if not is_computed(f.name)}


class _Writer:
    """Writes a source chunk by chunk.

    The columns of text may change on the way: an integer turns out to be a fraction, a record
    has a new attribute. Then a new file begins, and at the end files in another form than the
    last are written once more.
    """

    def __init__(
        self, source: Source, folder: Path, first: int, unit: int | None, types: frozenset[str]
    ) -> None:
        self.source, self.folder, self.first, self.unit = source, folder, first, unit
        self.types = types
        self.seen: set[str] = set()
        self.times: TimeSpan | None = None
        self.files: list[tuple[Path, Types]] = []
        self._numbers = count()
        self._writer: pq.ParquetWriter | None = None

    def write(self) -> _StagedSource:
        types = {} if self.source.is_blank else _own_types(self.source.schema)
        try:
            for chunk in self.source.chunks(tick=self.unit):
                if len(chunk.rows):
                    self._add(chunk)
        finally:
            self._close()
        if self.files:
            types = _common_types([types for _, types in self.files])
        else:
            pq.write_table(self._schema(types).empty_table(), self._path())
        for path, own in self.files:
            if [*own.items()] != [*types.items()]:
                self._write_again(path, own, types)
        return _StagedSource(self.folder, types, frozenset(self.seen), self.times)

    def _add(self, chunk: Chunk) -> None:
        own = _own_types(chunk.table.schema)
        if self._writer is None or [*self.files[-1][1].items()] != [*own.items()]:
            self._close()
            path = self._path()
            self._writer = pq.ParquetWriter(path, self._schema(own))
            self.files.append((path, own))
        arrays = [self._carry(name, chunk) for name in own]
        arrays.append(pa.array(chunk.rows + self.first))
        arrays.append(pa.nulls(len(chunk.rows), pa.int64()) if chunk.time is None else chunk.time)
        self._writer.write_table(pa.table(arrays, schema=self._schema(own)))
        if chunk.time is not None and self.unit is not None:
            first, last = int(chunk.time.min()) * self.unit, int(chunk.time.max()) * self.unit
            span = TimeSpan(first, last)
            self.times = span if self.times is None else unite_spans([self.times, span])
        if self.types:
            found = pc.unique(chunk.table.column(self.source.type_column))
            self.seen |= self.types.intersection(found.to_pylist())

    def _schema(self, types: Types) -> pa.Schema:
        for name, type_ in types.items():
            if carrier_of(type_) is None:
                raise DataError(
                    f"{self.source.label}: the column {name!r} holds {type_}, which Spark has "
                    "no type for; drop the column, or use --engine local"
                )
        return _file_schema(types)

    def _carry(self, name: str, chunk: Chunk) -> pa.ChunkedArray:
        column = chunk.table.column(name)
        try:
            return convert(column, carrier_of(column.type))
        except pa.ArrowInvalid as error:
            row = chunk.rows[_find_lost(column)]
            raise DataError(
                f"{self.source.label}, row {row}, column {name!r}: Spark counts microseconds and "
                "cannot hold this time; round it, or use --engine local"
            ) from error

    def _path(self) -> Path:
        return self.folder / f"{next(self._numbers):06}.parquet"

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write_again(self, path: Path, own: Types, types: Types) -> None:
        schema = self._schema(types)
        with pq.ParquetFile(path) as file, pq.ParquetWriter(self._path(), schema) as writer:
            for batch in file.iter_batches():
                table = pa.Table.from_batches([batch])
                arrays = []
                for name, type_ in types.items():
                    arrays.append(
                        _recast(table, [*own].index(name), own[name], type_)
                        if name in own
                        else pa.nulls(len(table), carrier_of(type_))
                    )
                writer.write_table(
                    pa.table([*arrays, table.column(ROW), table.column(TICKS)], schema=schema)
                )
        path.unlink()


def _recast(table: pa.Table, index: int, own: pa.DataType, type_: pa.DataType) -> pa.ChunkedArray:
    column = cast_to(convert(table.column(index), own).combine_chunks(), type_)
    return convert(pa.chunked_array([column]), carrier_of(type_))


def _common_types(all_types: Sequence[Types]) -> Types:
    """Return the columns of all files, in types that hold the values of each."""
    common: Types = {}
    for types in all_types:
        for name, type_ in types.items():
            common[name] = common_type(common.get(name, type_), type_)
    return common


def _find_lost(column: pa.ChunkedArray) -> int:
    """Return the index of the first value that its carrier cannot hold."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(column.slice(low, middle - low), carrier_of(column.type))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
