"""DuckDB as the host of a statement: a database in memory, with limits and without rights.

Files of tables are read before `lock` takes files, the network, extensions and settings away.

Memory is bounded: DuckDB gets half of the machine's, unless the caller says otherwise. What does
not fit is written to a folder that goes with the database, or, where `spills` is off, is an error.
The limit holds for DuckDB's own sorting, joining and grouping; the rows of a clause and of the
result are outside of it, in Arrow.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from cernis.errors import CernisError, DataError, MemoryShortage
from cernis.extras import import_extra

PURPOSE = "SQL with MATCH_RECOGNIZE"
_READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
    ".json": "read_json",
    ".parquet": "read_parquet",
}
_LIMIT = re.compile(r"/([\d.]+ \w+) used")


class HostLimits(NamedTuple):
    """What a statement may use."""

    memory: int | None = None
    """Bytes; None: half of the machine's."""
    threads: int | None = None
    """None: one for each core."""
    spills: bool = True
    """Whether what does not fit into memory may be written to disk."""


_USUAL = HostLimits()


@contextmanager
def open_host(limits: HostLimits = _USUAL) -> Iterator[Any]:
    """Yield a connection to an empty database, which may still read files: see `lock`."""
    with TemporaryDirectory(prefix="cernis-sql-") as folder, _connect(limits, folder) as cursor:
        yield cursor


@contextmanager
def open_locked_host(limits: HostLimits = _USUAL) -> Iterator[Any]:
    """Yield a connection without rights, whose tables no other connection sees.

    A new database costs twenty milliseconds or more, so connections with the usual limits share
    one, which is empty: their tables are temporary.
    """
    if limits != _USUAL:
        with open_host(limits) as cursor:
            lock(cursor)
            yield cursor
        return
    with _shared.find().cursor() as cursor:
        yield cursor


class _SharedHost:
    """The database that statements with the usual limits share."""

    def __init__(self) -> None:
        self._opening = Lock()
        self._database: Any = None

    def find(self) -> Any:
        """Return the database; the first call opens it."""
        with self._opening:
            if self._database is None:
                folder = mkdtemp(prefix="cernis-sql-")
                atexit.register(_remove_folder, folder, os.getpid())
                self._database = _connect(_USUAL, folder)
                lock(self._database)
            return self._database

    def leave(self) -> None:
        """Leave the database to the process that this one was forked from.

        Its threads are not here, so closing it would wait for ever: it is never closed.
        """
        if self._database is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))
        self._opening, self._database = Lock(), None


_shared = _SharedHost()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.leave)


def _remove_folder(folder: str, process: int) -> None:
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)


def _connect(limits: HostLimits, folder: str) -> Any:
    """Return a connection to an empty database that writes what does not fit to a folder."""
    cursor = import_extra("duckdb", PURPOSE).connect()
    memory = _find_half() if limits.memory is None else limits.memory
    if memory:
        cursor.execute(f"SET memory_limit = '{max(memory // 1000, 1)} KB'")
    spilled = folder.replace("'", "''") if limits.spills else ""
    cursor.execute(f"SET temp_directory = '{spilled}'")
    if limits.threads is not None:
        cursor.execute(f"SET threads = {limits.threads}")
    return cursor


def _find_half() -> int:
    """Return half of the machine's memory in bytes; 0: the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 0


def lock(cursor: Any) -> None:
    """Take files, the network and settings away from a connection."""
    cursor.execute("SET python_enable_replacements = false")
    cursor.execute("SET autoinstall_known_extensions = false")
    cursor.execute("SET autoload_known_extensions = false")
    cursor.execute("SET enable_external_access = false")
    cursor.execute("SET lock_configuration = true")


def add_table(cursor: Any, name: str, table: Any) -> None:
    """Give a connection a table."""
    if isinstance(table, str | Path):
        path = Path(table)
        reader = _READERS.get(path.suffix.lower())
        if path.suffix in (".arrow", ".feather"):
            import pyarrow.feather as feather

            add_table(cursor, name, feather.read_table(path))
            return
        if not path.exists():
            raise DataError(f"{path}: no such file")
        if reader is None:
            raise DataError(f"{path}: the form is told by the suffix: {', '.join(_READERS)}")
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            cursor.execute(f"CREATE TABLE {quoted} AS SELECT * FROM {reader}(?)", [str(path)])
        except Exception as error:
            raise translate_error(error, f"{path}: ") from None
        return
    if isinstance(table, list):
        table = pa.Table.from_pylist(table)
    try:
        cursor.register(name, table)
    except Exception as error:
        raise translate_error(error, f"{name}: ") from None


def write_parquet(table: Path, target: Path) -> None:
    """Write the file of a table as Parquet, in the types that the table has here."""
    with open_host() as cursor:
        add_table(cursor, "file", table)
        cursor.execute("COPY file TO ? (FORMAT parquet)", [str(target)])


def translate_error(error: Exception, prefix: str = "") -> CernisError:
    """Return an error of DuckDB as one of a user; raise what is none, or a lack of memory."""
    duckdb = import_extra("duckdb", PURPOSE)
    if not isinstance(error, duckdb.Error):
        raise error
    if isinstance(error, duckdb.OutOfMemoryException):
        limit = _LIMIT.search(str(error))
        told = f" of {limit[1]}" if limit else ""
        raise MemoryShortage(
            f"{prefix}DuckDB has used up its limit{told}; max_memory (--max-memory) sets another"
        ) from None
    first = str(error).split("\n\n")[0]
    return DataError(f"{prefix}{first}")
