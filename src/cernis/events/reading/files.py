"""Parquet and Arrow files, read batch by batch; the reader for a file or a pipe, by its format."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cernis.errors import DataError
from cernis.events.column_types import is_text
from cernis.events.reading.csv_form import GUESSED, CsvForm
from cernis.events.reading.csv_text import CsvReader
from cernis.events.reading.json_text import JsonReader
from cernis.events.reading.mistakes import Mistakes, did_you_mean
from cernis.events.reading.pipe import Pipe, is_pipe
from cernis.events.reading.reader import (
    BATCH_ROWS,
    BatchReader,
    EmptyReader,
    Piece,
    Reader,
    check_columns,
    first_line,
    number_rows,
    read_schema,
    simplify_table,
)
from cernis.events.reading.text import COMPRESSED

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


class Opening(NamedTuple):
    """How a file is opened: its format, what its text means, and what happens to bad rows."""

    format: str | None
    mistakes: Mistakes
    types: Mapping[str, pa.DataType]
    """The types of columns of text that are declared."""
    type_column: str | None = "type"
    form: CsvForm = GUESSED
    in_order: bool = False
    """Whether the rows of a pipe are in order of time."""


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
        for table in self.tables(columns):
            yield number_rows(self.label, table, first)
            first += table.num_rows

    def tables(
        self, columns: Sequence[str] | None, groups: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        """Read all columns, or some of them, of all groups of rows, or of some."""
        first = 0
        names = None if columns is None else list(columns)
        try:
            for batch in self._open().iter_batches(BATCH_ROWS, groups, names):
                table = check_columns(self.label, pa.Table.from_batches([batch]))
                yield simplify_table(table)
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


def open_file(path: Path, opening: Opening) -> Reader:
    """Return the reader for a file or a pipe, by its suffix or its first bytes."""
    if is_pipe(path):
        return open_pipe(Pipe(path, is_live=opening.in_order), opening)
    check_path(path)
    format_ = opening.format or format_of(path)
    if path.stat().st_size == 0:
        if format_ in ("parquet", "arrow"):
            raise DataError(f"{path}: the file is empty, which no {format_} file is")
        return EmptyReader(str(path), "the file is empty")
    _check_form(str(path), format_, opening.form)
    match format_:
        case "parquet" | "arrow" if path.suffix.lower() in COMPRESSED:
            raise DataError(
                f"{path}: a compressed {format_} file cannot be read; decompress it first"
            )
        case "parquet":
            return ParquetReader(path)
        case "arrow":
            return ArrowFileReader(path)
        case _:
            return open_text(path, format_, opening)


def open_text(path: Path | Pipe, format_: str, opening: Opening) -> Reader:
    """Return the reader for text."""
    _, mistakes, types, type_column, form, _ = opening
    match format_:
        case "csv":
            return CsvReader(path, mistakes, types, form, type_column)
        case "tsv":
            tabs = replace(form, delimiter=form.delimiter or "\t")
            return CsvReader(path, mistakes, types, tabs, type_column)
        case "jsonl":
            return JsonReader(path, mistakes, types)
        case other:
            known = sorted(set(FORMATS.values()))
            raise DataError(
                f"unknown format {other!r}; expected one of {', '.join(known)}"
                f"{did_you_mean(str(other), known)}"
            )


def _check_form(label: str, format_: str, form: CsvForm) -> None:
    """Raise if columns, a delimiter or a quote are given for a file that is not CSV."""
    if form.is_given and format_ in ("jsonl", "parquet", "arrow"):
        raise DataError(f"{label}: columns, delimiter and quote are for CSV, and this is {format_}")


def open_pipe(pipe: Pipe, opening: Opening) -> Reader:
    """Return the reader for a pipe, by its first bytes."""
    first = pipe.look()
    if not first:
        return EmptyReader(pipe.label, "nothing came")
    format_ = opening.format or _sniff_format(first)
    _check_form(pipe.label, format_, opening.form)
    if format_ == "parquet" or first.startswith(b"ARROW1"):
        raise DataError(
            f"{pipe.label}: a Parquet or Arrow file is read from its end, which a pipe does not "
            "allow; give the file itself, or an Arrow stream"
        )
    if format_ != "arrow":
        return open_text(pipe, format_, opening)
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(pipe.open(look=False), mode="r"))
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{pipe.label}: not a readable Arrow stream: {first_line(error)}"
        ) from error
    return BatchReader(pipe.label, reader.schema, reader)


def _sniff_format(first: bytes) -> str:
    """Return the format of data that begins so.

    >>> _sniff_format(b'{"type": "SELL"}'), _sniff_format(b"type,price"), _sniff_format(b"PAR1")
    ('jsonl', 'csv', 'parquet')
    """
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in b"{[" else "csv"


def check_path(path: Path) -> None:
    """Raise if there is no such file."""
    if not path.exists():
        if path.is_symlink():
            raise DataError(f"{path}: {_describe_link(path)}")
        folder = path.parent
        beside = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        raise DataError(f"{path}: no such file{did_you_mean(path.name, beside)}")
    if path.is_dir():
        raise DataError(f"{path}: is a directory, not a file of events")


def _describe_link(path: Path) -> str:
    """Return what is wrong with a link that leads to no file."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a link that leads back to itself"
    return f"is a link to {path.readlink()}, which is no file"


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
