"""Check files of events before Spark starts.

Mistakes in a file's name, its columns or the query are found within milliseconds, with the
embedded engine's messages; Spark takes seconds to start. On Spark a stream may also be a
folder of Parquet files, in the order of their names.

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from cernis.errors import DataError
from cernis.events.files import stem_of
from cernis.events.order import Ordering
from cernis.events.reader import (
    BATCH_ROWS,
    Piece,
    first_line,
    number_rows,
    simplify_schema,
    simplify_table,
)
from cernis.events.source import Source, open_events, schema_of
from cernis.pattern.check import resolve
from cernis.pattern.query import Unit
from cernis.run.query import Query

Files = Sequence[Path] | Mapping[str, Path]


class FolderReader:
    """A folder of Parquet files, in the order of their names, without hidden files."""

    reopens = True
    nbytes: int | None = None

    def __init__(self, folder: Path) -> None:
        self.label = str(folder)
        try:
            found = ds.dataset(folder, format="parquet", partitioning="hive")
            self.files = sorted(found.files)
            self._dataset = ds.dataset(
                self.files, format="parquet", partitioning="hive", partition_base_dir=str(folder)
            )
            self.count: int | None = self._dataset.count_rows() if self.files else 0
        except (OSError, pa.ArrowException) as error:
            said = first_line(error)
            raise DataError(f"{folder}: not a folder of Parquet files: {said}") from error
        if not self.files:
            raise DataError(f"{folder}: the folder has no Parquet files in it")
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


def without_folders(files: Files) -> Any:
    """Replace folders by tables without rows, for callers that read no folders."""
    return _replace_folders(files, _folders(files))


def check_files(
    query: Query,
    files: Files,
    *,
    time: str | None = None,
    type: str = "type",
    time_unit: str = "ms",
    format: str | None = None,
    on_error: str = "fail",
) -> list[Source]:
    """Open the streams that a query reads, and check it against their columns."""
    pattern = query.pattern
    folders, alone = _folders(files), len(files) == 1
    sources = open_events(
        _replace_folders(files, folders),
        names=pattern.streams,
        time=time,
        type=type,
        time_unit=time_unit,
        format=format,
        on_error=on_error,
        declared=pattern.declared,
    )
    for i, source in enumerate(sources):
        folder = next(iter(folders.values()), None) if alone else folders.get(source.name)
        if folder is not None:
            sources[i] = Source(
                source.name,
                folder,
                time=time,
                type=type,
                time_unit=time_unit,
                mistakes=source.mistakes,
            )
    if pattern.declared is None:
        resolve(pattern, schema_of(sources))
    ordering = Ordering(sources)
    if pattern.within is not None and pattern.within.unit is Unit.TIME:
        ordering.scale.ticks(pattern.within.size)
    if pattern.forget is not None:
        ordering.scale.ticks(pattern.forget, "FORGET AFTER")
    if pattern.suppress is not None:
        ordering.scale.ticks(pattern.suppress.length, "SUPPRESS BY … FOR")
    return sources


def _by_name(files: Files) -> dict[str, Path]:
    if isinstance(files, Mapping):
        return dict(files)
    named = {stem_of(path): path for path in files}
    if len(named) < len(files):
        open_events(list(files))  # says which two have one name
    return named


def _folders(files: Files) -> dict[str, FolderReader]:
    named = _by_name(files).items()
    return {name: FolderReader(path) for name, path in named if path.is_dir()}


def _replace_folders(files: Files, folders: Mapping[str, FolderReader]) -> Any:
    tables = {name: folder.schema.empty_table() for name, folder in folders.items()}
    return {**_by_name(files), **tables} if folders else files
