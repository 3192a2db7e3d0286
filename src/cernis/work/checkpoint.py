"""The note in a checkpoint's folder: which query it belongs to, checked before the query starts.

The note has the query, its columns and its buckets. Another query is an error that shows the
difference; Spark itself notices some differences in the first micro-batch, and others never.
The note also gives the number of buckets, unless the user does.

The note is one small file that appears whole. Without a checkpoint folder, the state itself
refuses another query, in the first micro-batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from cernis.errors import StateError
from cernis.run.freeze import check_versions
from cernis.signature import Secret, check_signature, check_signed, derive_key
from cernis.work.side_output import open_folder, write_file

NOTE = "cernis.json"
VERSION = 1
_SIGNATURE = "signature"
FUNCTIONS = "functions"
"""The versions of the functions of users, where a query calls some."""


def read_note(folder: str, secret: Secret = None) -> dict[str, Any] | None:
    """Read the note in a folder; None if there is none yet."""
    system, path = open_folder(folder)
    where = f"{path}/{NOTE}"
    if system.get_file_info(where).type is fs.FileType.NotFound:
        return None
    with system.open_input_stream(where) as file:
        try:
            note: dict[str, Any] = json.loads(file.read())
        except ValueError as error:
            raise StateError(f"{folder}: the note of the checkpoint is damaged: {error}") from error
    if note.get("version") != VERSION:
        raise StateError(
            f"{folder}: the checkpoint was written by another version of Cernis; go on with that "
            "version, or begin with a new folder"
        )
    key = derive_key(secret, "note")
    signature = note.pop(_SIGNATURE, None)
    check_signed(signature is not None, key, f"{folder}: the checkpoint")
    if key:
        check_signature(str(signature).encode(), _sign(note, key), f"{folder}: the checkpoint")
    return note


def claim(folder: str, note: Mapping[str, Any], secret: Secret = None) -> None:
    """Write the note of a checkpoint; an error if it belongs to another query."""
    before = read_note(folder, secret)
    if before is not None:
        check_same(folder, before, note)
    if before is None or before.get(FUNCTIONS) != note.get(FUNCTIONS):
        write_note(folder, note, secret)


def write_note(folder: str, note: Mapping[str, Any], secret: Secret = None) -> None:
    """Write the note of a checkpoint, in place of an earlier one."""
    written: dict[str, Any] = {"version": VERSION, **note}
    if key := derive_key(secret, "note"):
        written[_SIGNATURE] = _sign(written, key).decode()
    write_file(folder, NOTE, json.dumps(written, indent=1).encode())


def _sign(note: Mapping[str, Any], key: bytes) -> bytes:
    """Return the signature of a note, as text."""
    content = json.dumps(note, sort_keys=True).encode()
    return hashlib.blake2b(content, key=key, digest_size=32).hexdigest().encode()


def check_same(folder: str, before: Mapping[str, Any], note: Mapping[str, Any]) -> None:
    """Raise an error, which shows the differences, if a checkpoint belongs to another run."""
    before = {**before, "columns": _fill_types(before.get("columns"), note.get("columns"))}
    changed = [name for name in note if name != FUNCTIONS and before.get(name) != note[name]]
    if changed:
        differences = "\n".join(
            f"  {name} was {_short(before.get(name))}\n  {' ' * len(name)}  is {_short(note[name])}"
            for name in changed
        )
        raise StateError(
            f"{folder}: the checkpoint belongs to another run; nothing was touched\n{differences}\n"
            "  help: go on with what it was, or begin with a new checkpoint folder (and, to have "
            "no match twice, a new output)"
        )
    check_versions(before.get(FUNCTIONS), *(f"{name}()" for name in note.get(FUNCTIONS, ())))


def _fill_types(before: Any, columns: Any) -> Any:
    """Return the types of columns that a note has; earlier notes have none inside of structs."""
    if not isinstance(before, dict) or not isinstance(columns, dict):
        return before
    return {
        stream: {
            name: type_ or columns.get(stream, {}).get(name, "") for name, type_ in own.items()
        }
        for stream, own in before.items()
    }


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
