"""Parquet and Arrow files, read batch by batch; the reader for a path, by its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cernis.errors import DataError
from cernis.events.mistakes import Mistakes, did_you_mean
from cernis.events.reader import (
    BATCH_ROWS,
    Piece,
    Reader,
    check_columns,
    first_line,
    number_rows,
    read_schema,
    simplify_table,
)
from cernis.events.text import CsvReader, JsonReader
from cernis.events.times import is_text

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")


class ParquetReader:
    """A Parquet file; text columns that are dictionaries in the file stay dictionaries."""

    reopens = True

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path
        self._dictionaries: list[str] = []
        file = self._open()
        metadata = file.metadata
        self.count: int | None = metadata.num_rows
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        self.nbytes: int | None = sum(group.total_byte_size for group in groups)
        self.schema = read_schema(self.label, file.schema_arrow)
        try:
            self._dictionaries = _dictionary_columns(file)
        except (OSError, pa.ArrowException) as error:
            raise self._refuse(0, error) from error
        self.schema = read_schema(self.label, self._open().schema_arrow)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        first = 0
        try:
            for batch in self._open().iter_batches(
                BATCH_ROWS, columns=None if columns is None else list(columns)
            ):
                table = check_columns(self.label, pa.Table.from_batches([batch]))
                yield number_rows(self.label, simplify_table(table), first)
                first += table.num_rows
        except (OSError, pa.ArrowException) as error:
            raise self._refuse(first, error) from error

    def _refuse(self, first: int, error: Exception) -> DataError:
        return DataError(
            f"{self.label}: the rows from {first} on cannot be read: {first_line(error)}"
        )

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(
                self._path, memory_map=True, read_dictionary=self._dictionaries or None
            )
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.label}: not a readable Parquet file: {first_line(error)}"
            ) from error


def _dictionary_columns(file: pq.ParquetFile) -> list[str]:
    """Return the top-level text columns that are dictionary-encoded in the first row group."""
    names = [field.name for field in file.schema_arrow if is_text(field.type)]
    if not file.metadata.num_row_groups or not names:
        return []
    # reading a row is an exception if metadata is damaged; asking for metadata ends the process
    next(file.iter_batches(1, row_groups=[0], columns=names), None)
    group, paths = file.metadata.row_group(0), [column.path for column in file.schema]
    coded = {i: path for i, path in enumerate(paths) if path in names}
    return [path for i, path in coded.items() if "RLE_DICTIONARY" in group.column(i).encodings]


class ArrowFileReader:
    """An Arrow IPC file or stream, memory-mapped."""

    reopens = True

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path
        self.count: int | None = None
        self.nbytes: int | None = 0
        self.schema = read_schema(self.label, self._open().schema)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        first = 0
        try:
            reader = self._open()
            if isinstance(reader, pa.RecordBatchFileReader):
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                batches = iter(reader)
            for batch in batches:
                table = pa.Table.from_batches([batch])
                if columns is not None:
                    table = table.select(list(columns))
                table = simplify_table(check_columns(self.label, table))
                for start in range(0, table.num_rows, BATCH_ROWS):
                    yield number_rows(self.label, table.slice(start, BATCH_ROWS), first + start)
                first += table.num_rows
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.label}: the rows from {first} on cannot be read: {first_line(error)}"
            ) from error
        self.count = first

    def _open(self) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
        try:
            try:
                return pa.ipc.open_file(pa.memory_map(str(self._path)))
            except pa.ArrowInvalid:
                return pa.ipc.open_stream(pa.memory_map(str(self._path)))
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.label}: not a readable Arrow file: {first_line(error)}"
            ) from error


def open_file(
    path: Path,
    format_: str | None,
    mistakes: Mistakes,
    declared: Mapping[str, pa.DataType],
    type_column: str = "type",
) -> Reader:
    """Return the reader for a path, by its suffix unless a format is named."""
    check_path(path)
    match format_ or format_of(path):
        case "csv":
            return CsvReader(path, mistakes, declared, type_column=type_column)
        case "tsv":
            return CsvReader(path, mistakes, declared, "\t", type_column)
        case "jsonl":
            return JsonReader(path, mistakes, declared)
        case "parquet":
            return ParquetReader(path)
        case "arrow":
            return ArrowFileReader(path)
        case other:
            known = sorted(set(FORMATS.values()))
            raise DataError(
                f"unknown format {other!r}; expected one of {', '.join(known)}"
                f"{did_you_mean(str(other), known)}"
            )


def check_path(path: Path) -> None:
    """Raise if a path is no file with something in it."""
    if not path.exists():
        folder = path.parent
        beside = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        raise DataError(f"{path}: no such file{did_you_mean(path.name, beside)}")
    if path.is_dir():
        raise DataError(f"{path}: is a directory, not a file of events")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")


def format_of(path: Path) -> str:
    """Return the format that the suffix of a path names.

    >>> format_of(Path("trades.csv.gz"))
    'csv'
    """
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in FORMATS:
        said = f"the suffix {suffix!r}" if suffix else "a name without a suffix"
        raise DataError(
            f"{path}: cannot tell the format from {said}; "
            f"name one of {', '.join(sorted(set(FORMATS.values())))}"
        )
    return FORMATS[suffix]


def stem_of(path: Path) -> str:
    """Return the name of the stream in a file.

    >>> stem_of(Path("data/trades.csv.gz"))
    'trades'
    """
    name = path.name
    for suffix in reversed(path.suffixes):
        if suffix.lower() in COMPRESSED or suffix.lower() in FORMATS:
            name = name.removesuffix(suffix)
        else:
            break
    return name
