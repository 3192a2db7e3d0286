"""`LocalStore`: the checkpoint of one process, in one SQLite file.

It holds the state of a bucket (`work.log.Store`), the positions of the inputs, and what was put
out last. All of them change in one transaction, so that after any end of the process they belong
together. Only one process can have a store open.

Why SQLite: it is part of Python, its transactions survive `kill -9` at any instruction, and a
checkpoint is one file that can be copied. Turned down: files that are renamed one by one, which do
not commit together; a key-value store with compiled parts (LMDB, RocksDB), one more dependency
for some writes a second.

With a secret of the user, the positions, the notes and the header of the state are signed; chunks
and snapshots belong to the header (`work.log`).

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
from cernis.signature import Secret, check_signature, check_signed, derive_key
from cernis.work.log import damaged, open_seal, seal

FILE = "cernis.sqlite"
_VERSION = 2
_DIGEST = 16
_SIGNED = "signed"
_TABLES = """
CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS chunks (number INTEGER PRIMARY KEY, chunk BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    input TEXT, name TEXT, seal BLOB NOT NULL, PRIMARY KEY (input, name)
) WITHOUT ROWID;
"""


class LocalStore:
    """The checkpoint in a folder; None: in memory, for a run that is not continued."""

    def __init__(self, folder: Path | None, secret: Secret = None) -> None:
        self.folder, self._key = folder, derive_key(secret, "note")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._database = self._open()
        signed = self._get(_SIGNED)
        if signed is None:
            self._put(_SIGNED, b"yes" if self._key else b"no")
        else:
            check_signed(signed == b"yes", self._key, f"{folder}: the checkpoint")

    def _open(self) -> sqlite3.Connection:
        where = ":memory:" if self.folder is None else str(self.folder / FILE)
        database = sqlite3.connect(where, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA page_size = 32768")  # chunks are large
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
        if found is None:
            return None
        try:
            return json.loads(self._unseal(found, name))
        except ValueError as error:
            raise damaged(f"its note on {name}: {error}") from error

    def write_note(self, name: str, value: Any) -> None:
        """Note a value that JSON can hold."""
        self._put(f"note {name}", self._seal(json.dumps(value).encode(), name))

    def position(self, input_: str) -> Any:
        """Return where an input goes on; None: at its beginning."""
        return self.read_note(f"position {input_}")

    def put_position(self, input_: str, position: Any) -> None:
        self.write_note(f"position {input_}", position)

    def files(self, input_: str) -> set[str]:
        """Return the files of a folder that were read."""
        rows = self._database.execute("SELECT name, seal FROM files WHERE input = ?", (input_,))
        return {self._unseal(sealed, f"file {input_}").decode() for _, sealed in rows}

    def put_files(self, input_: str, names: Iterable[str]) -> None:
        rows = [(input_, n, self._seal(n.encode(), f"file {input_}")) for n in names]
        self._database.executemany("INSERT OR IGNORE INTO files VALUES (?, ?, ?)", rows)

    def _seal(self, content: bytes, about: str) -> bytes:
        """Return content with a digest, which says what the content is about."""
        return seal(about.encode() + b"\0" + content, self._key)

    def _unseal(self, sealed: bytes, about: str) -> bytes:
        if self._key:
            expected = seal(sealed[_DIGEST:], self._key)
            check_signature(sealed, expected, f"{self.folder}: the checkpoint")
        named, _, content = (sealed[_DIGEST:] if self._key else open_seal(sealed, about)).partition(
            b"\0"
        )
        if named != about.encode():
            raise damaged(f"its note on {about} is another one")
        return content

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
