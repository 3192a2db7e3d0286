"""Several files of one stream: listed, matched by a glob, or in a folder.

Files follow one another in the order given, or of their names; rows are counted through all of
them, and messages name the file and the row in it. A column that one of them does not have is NULL
there. The types of text columns go on from file to file, as they do from block to block.

Cost: opening looks at the first block of each file of text, and at the footer of each Parquet
file. Reading holds one piece. If the times of files overlap, all of them are sorted in memory.

Rejected: merging the files by time, one chunk of each in memory: a folder may have thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from cernis.errors import DataError
from cernis.events.column_types import common_type, value_type
from cernis.events.reading.files import FORMATS, Opening, format_of, open_file
from cernis.events.reading.paths import (
    check_inside,
    files_in,
    folders_in,
    is_glob,
    match_files,
    table_format,
)
from cernis.events.reading.reader import (
    BATCH_ROWS,
    EmptyReader,
    Piece,
    Reader,
    first_line,
    number_rows,
    simplify_schema,
    simplify_table,
)
from cernis.events.reading.text import BLOCK_BYTES, TextReader

_LOOK_BYTES = 1 << 20


class FilesReader:
    """Files of one stream, one after the other."""

    def __init__(self, label: str, readers: Sequence[Reader], folder: Path | None = None) -> None:
        self.label = label
        self.readers = tuple(readers)
        self.folder = folder
        """The folder that they are all the files of."""
        self.reopens = all(reader.reopens for reader in readers)
        self.schema = _join_columns(readers)

    @property
    def count(self) -> int | None:
        counts = [reader.count for reader in self.readers if reader.count is not None]
        return sum(counts) if len(counts) == len(self.readers) else None

    @property
    def nbytes(self) -> int | None:
        sizes = [reader.nbytes for reader in self.readers if reader.nbytes is not None]
        return sum(sizes) if len(sizes) == len(self.readers) else None

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        first = 0
        for reader in self.readers:
            own = frozenset(reader.schema.names)
            known = None if columns is None else [name for name in columns if name in own]
            for piece in reader.pieces(known):
                yield piece._replace(rows=piece.rows + first, file=reader.label, first=first)
            first += reader.count or 0


def _join_columns(readers: Sequence[Reader]) -> pa.Schema:
    """Return the columns of all files, in types that hold the values of each."""
    types: dict[str, pa.DataType] = {}
    for reader in readers:
        schema = reader.schema if not isinstance(reader, TextReader) else _look_at(reader, types)
        for field in schema:
            known = types.get(field.name)
            if known is None or known == field.type:
                types[field.name] = field.type
            else:
                types[field.name] = common_type(value_type(known), value_type(field.type))
    return pa.schema(types)


def _look_at(reader: TextReader, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the columns of a file of text, after files with columns of these types."""
    reader.expect({name: value_type(type_) for name, type_ in types.items()})
    reader.block_bytes = _LOOK_BYTES
    schema = reader.schema
    reader.block_bytes = BLOCK_BYTES
    return schema


class FolderReader:
    """A folder of Parquet files in folders (`day=2024-01-02`), whose names are columns."""

    reopens = True
    nbytes: int | None = None

    def __init__(self, folder: Path) -> None:
        import pyarrow.dataset as ds  # takes a moment to load

        self.label = str(folder)
        try:
            found = ds.dataset(folder, format="parquet", partitioning="hive")
            self.files = sorted(found.files)
            check_inside(folder, [Path(file) for file in self.files])
            self._dataset = ds.dataset(
                self.files, format="parquet", partitioning="hive", partition_base_dir=str(folder)
            )
            self.count: int | None = self._dataset.count_rows() if self.files else 0
        except (OSError, pa.ArrowException) as error:
            said = first_line(error)
            raise DataError(f"{folder}: not a folder of Parquet files: {said}") from error
        self.schema = simplify_schema(self._dataset.schema)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        first = 0
        names = None if columns is None else list(columns)
        try:
            for batch in self._dataset.to_batches(columns=names, batch_size=BATCH_ROWS):
                if batch.num_rows:
                    table = simplify_table(pa.Table.from_batches([batch]))
                    yield number_rows(self.label, table, first)
                    first += table.num_rows
        except (OSError, pa.ArrowException) as error:
            said = first_line(error)
            raise DataError(
                f"{self.label}: the rows from {first} on cannot be read: {said}"
            ) from error


def open_path(path: Path, opening: Opening) -> Reader:
    """Return the reader for a file, a pipe, a folder, or the files that a glob matches."""
    if is_glob(path):
        return FilesReader(str(path), [open_file(file, opening) for file in match_files(path)])
    return _open_folder(path, opening) if path.is_dir() else open_file(path, opening)


def open_paths(paths: Sequence[Path], opening: Opening) -> Reader:
    """Return the reader for several paths of one stream."""
    if len(paths) == 1:
        return open_path(paths[0], opening)
    readers: list[Reader] = []
    for path in paths:
        reader = open_path(path, opening)
        readers += reader.readers if isinstance(reader, FilesReader) else [reader]
    return FilesReader(f"{paths[0]} and {len(paths) - 1} more", readers)


def expand_path(path: Path) -> list[Path]:
    """Return the files that a path stands for; a folder stays one."""
    return match_files(path) if is_glob(path) else [path]


def _open_folder(folder: Path, opening: Opening) -> Reader:
    table = table_format(folder)
    if table is not None:
        raise DataError(
            f"{folder}: is a table of {table}, and not all files in it are part of the table; "
            f"read it with Spark, and pass the DataFrame"
        )
    files, folders = files_in(folder), folders_in(folder)
    if not files and not folders:
        return EmptyReader(str(folder), "the folder is empty")
    if folders and not files and opening.format in (None, "parquet"):
        return FolderReader(folder)
    if folders:
        raise DataError(
            f"{folder}: has folders beside its files; name the files with a glob, such as "
            f"'{folder}/**/*.csv'"
        )
    alike = opening._replace(format=opening.format or _format_of_files(folder, files))
    return FilesReader(str(folder), [open_file(file, alike) for file in files], folder)


def _format_of_files(folder: Path, files: Sequence[Path]) -> str:
    """Return the one format of the files in a folder."""
    formats = sorted({format_of(file) for file in files})
    if formats[1:]:
        raise DataError(
            f"{folder}: has files of {' and '.join(formats)}; keep them in folders of their own, "
            f"or name them with a glob, such as '{folder}/*{_suffix(formats[0])}'"
        )
    return formats[0]


def _suffix(format_: str) -> str:
    return next(suffix for suffix, of in FORMATS.items() if of == format_)
