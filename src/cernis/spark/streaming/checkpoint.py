"""What a checkpoint belongs to: a note in its folder, looked at before anything is started.

Spark itself would notice some changes when the first micro-batch runs, or not at all. The
note says which query a checkpoint is for, on which columns, in how many buckets; a query
that differs is refused with what differs. Buckets that are not asked for are the note's.

The note is one small file that is put in place whole. Where no checkpoint folder is named,
the state itself still refuses another query's, in the first micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from cernis.errors import StateError
from cernis.spark.streaming.aside import opened

NOTE = "cernis.json"
VERSION = 1


def noted(folder: str) -> dict[str, Any] | None:
    """What the checkpoint in a folder belongs to; None where there is nothing yet."""
    system, path = opened(folder)
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
    return note


def claim(folder: str, note: Mapping[str, Any]) -> None:
    """Notes what a checkpoint belongs to, or refuses if it belongs to something else."""
    before = noted(folder)
    if before is None:
        _write(folder, {"version": VERSION, **note})
        return
    changed = [name for name in note if before.get(name) != note[name]]
    if changed:
        told = "\n".join(
            f"  {name} was {_short(before.get(name))}\n  {' ' * len(name)}  is {_short(note[name])}"
            for name in changed
        )
        raise StateError(
            f"{folder}: the checkpoint belongs to another run; nothing was touched\n{told}\n"
            "  help: go on with what it was, or begin with a new checkpoint folder (and, to have "
            "no match twice, a new output)"
        )


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


def _write(folder: str, note: Mapping[str, Any]) -> None:
    system, path = opened(folder)
    system.create_dir(path, recursive=True)
    with system.open_output_stream(f"{path}/{NOTE}.writing") as file:
        file.write(json.dumps(note, indent=1).encode())
    system.move(f"{path}/{NOTE}.writing", f"{path}/{NOTE}")
