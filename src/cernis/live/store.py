"""`LocalStore`: the checkpoint of one process, in one SQLite file.

It holds the state of a bucket (`work.log.Store`), the positions of the inputs, and what was put
out last. All of them change in one transaction, so that after any end of the process they belong
together. Only one process can have a store open.

Why SQLite: it is part of Python, its transactions survive `kill -9` at any instruction, and a
checkpoint is one file that can be copied. Turned down: files that are renamed one by one, which do
not commit together; a key-value store with compiled parts (LMDB, RocksDB), one more dependency
for some writes a second.

Cost contract: a commit writes what has changed, without waiting for the disk (`synchronous =
NORMAL` with a write-ahead log): a process that is killed loses nothing. A machine that loses power
may go back some commits as a whole.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cernis.errors import StateError
from cernis.work.log import damaged

FILE = "cernis.sqlite"
_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS chunks (number INTEGER PRIMARY KEY, chunk BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS positions (input TEXT PRIMARY KEY, position TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (input TEXT, name TEXT, PRIMARY KEY (input, name)) WITHOUT ROWID;
"""


class LocalStore:
    """The checkpoint in a folder; None: in memory, for a run that is not continued."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._database = self._open()

    def _open(self) -> sqlite3.Connection:
        where = ":memory:" if self.folder is None else str(self.folder / FILE)
        database = sqlite3.connect(where, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise StateError(
                    f"{self.folder}: the checkpoint was written by another version of Cernis; go "
                    "on with that version, or begin with a new folder"
                )
            database.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            database.close()
            if "locked" in str(error):
                raise StateError(
                    f"{self.folder}: another process runs with this checkpoint; end it first, or "
                    "name another folder"
                ) from error
            raise StateError(f"{self.folder}: the checkpoint cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            database.close()
            raise damaged(f"{FILE}: {error}") from error
        return database

    def commit(self) -> None:
        """Make everything since the last commit certain."""
        try:
            self._database.execute("COMMIT")
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise StateError(f"{self.folder}: the checkpoint cannot be written: {error}") from error

    def close(self) -> None:
        """End without a commit: what came since the last one comes again."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._database.close()

    @property
    def run(self) -> str:
        """The name of the run, which all restarts from one checkpoint share."""
        name = self.read_note("id")
        if name is None:
            name = secrets.token_hex(8)
            self.write_note("id", name)
            self.commit()
        return str(name)

    # ------------------------------------------------------ state of a bucket

    def header(self) -> bytes | None:
        return self._get("header")

    def put_header(self, header: bytes) -> None:
        self._put("header", header)

    def chunk(self, number: int) -> bytes | None:
        found = self._one("SELECT chunk FROM chunks WHERE number = ?", number)
        return None if found is None else bytes(found)

    def put_chunk(self, number: int, chunk: bytes) -> None:
        self._run("INSERT OR REPLACE INTO chunks VALUES (?, ?)", number, chunk)

    def drop_chunk(self, number: int) -> None:
        self._run("DELETE FROM chunks WHERE number = ?", number)

    def snapshot(self) -> tuple[bytes, bytes] | None:
        session, waiting = self._get("session"), self._get("waiting")
        return None if session is None or waiting is None else (session, waiting)

    def put_snapshot(self, session: bytes, waiting: bytes) -> None:
        self._put("session", session)
        self._put("waiting", waiting)

    # -------------------------------------------------------- inputs, output

    def read_note(self, name: str) -> Any:
        """Return a value that was noted; None if there is none."""
        found = self._get(f"note {name}")
        try:
            return None if found is None else json.loads(found)
        except ValueError as error:
            raise damaged(f"its note on {name}: {error}") from error

    def write_note(self, name: str, value: Any) -> None:
        """Note a value that JSON can hold."""
        self._put(f"note {name}", json.dumps(value).encode())

    def position(self, input_: str) -> Any:
        """Return where an input goes on; None: at its beginning."""
        found = self._one("SELECT position FROM positions WHERE input = ?", input_)
        return None if found is None else json.loads(found)

    def put_position(self, input_: str, position: Any) -> None:
        self._run("INSERT OR REPLACE INTO positions VALUES (?, ?)", input_, json.dumps(position))

    def files(self, input_: str) -> set[str]:
        """Return the files of a folder that were read."""
        rows = self._database.execute("SELECT name FROM files WHERE input = ?", (input_,))
        return {name for (name,) in rows}

    def put_files(self, input_: str, names: Iterable[str]) -> None:
        self._database.executemany(
            "INSERT OR IGNORE INTO files VALUES (?, ?)", [(input_, name) for name in names]
        )

    def _get(self, name: str) -> bytes | None:
        found = self._one("SELECT value FROM kept WHERE name = ?", name)
        return None if found is None else bytes(found)

    def _put(self, name: str, value: bytes) -> None:
        self._run("INSERT OR REPLACE INTO kept VALUES (?, ?)", name, value)

    def _one(self, statement: str, *values: Any) -> Any:
        found = self._database.execute(statement, values).fetchone()
        return None if found is None else found[0]

    def _run(self, statement: str, *values: Any) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise StateError(f"{self.folder}: the checkpoint cannot be written: {error}") from error
