"""The versions of a live background on streams: one for each micro-batch, noted in the checkpoint.

The first task of a micro-batch that needs the background looks at its files, and notes their
version under the number of the micro-batch; all other tasks take what is noted. A micro-batch that
runs again finds its note, so it gives the same matches whatever the files have become. Copies of
the files lie beside the notes, by version.

    checkpoint/cernis-background/batches/000000000017    {"version": "eaa13ded91dc79a4", …}
    checkpoint/cernis-background/versions/eaa13ded91dc79a4/0.ttl

A note appears whole, and at most once: it is written under another name and linked. Files that
cannot be read leave the version of the note before, and the note says why.

Cost: a micro-batch reads a small file, or asks for the state of the files and writes one. The last
`_KEPT` notes stay, with the versions that they name.

Does not import Spark.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cernis.errors import DataError, StateError
from cernis.rdf.reading.live_background import (
    BackgroundContent,
    BackgroundFile,
    BackgroundFiles,
    name_version,
)

FOLDER = "cernis-background"
_KEPT = 100

_files: dict[tuple[BackgroundFile, ...], BackgroundFiles] = {}
_last: dict[tuple[BackgroundFile, ...], str] = {}
"""By the files: how this process saw them last, and their version then."""


class VersionNote(NamedTuple):
    """The version that a micro-batch is solved with."""

    version: str
    read: str
    """When a task looked at the files."""
    problem: str | None = None
    """Why the files as they are now cannot be read."""

    def same_as(self, other: VersionNote | None) -> bool:
        """Return whether another note says the same, at another time."""
        return other is not None and other._replace(read=self.read) == self


class VersionFolder:
    """The notes and the copies in a checkpoint."""

    def __init__(self, checkpoint: str, files: tuple[BackgroundFile, ...]) -> None:
        self.files = files
        self._notes = Path(checkpoint, FOLDER, "batches")
        self._copies = Path(checkpoint, FOLDER, "versions")

    def pin(self, batch: int, check: Callable[[BackgroundContent], object]) -> VersionNote:
        """Return the note of a micro-batch, which is written if there is none.

        `check` raises an error for content that cannot be used.
        """
        note = self.find(batch)
        if note is not None:
            return note
        self._write_note(batch, self._look(batch, check))
        note = self.find(batch)
        assert note is not None
        if batch % _KEPT == 0:
            self._clean(batch)
        return note

    def read(self, version: str) -> BackgroundContent:
        """Return the copies of a version."""
        folder = self._copies / version
        try:
            contents = [(folder / name).read_bytes() for name in self._names()]
        except OSError as error:
            raise StateError(
                f"version {version} of the background, with which a micro-batch has begun, is not "
                f"in {folder} any more ({error.strerror}): restore the checkpoint's folder from a "
                "copy, or begin with a new checkpoint folder"
            ) from error
        if name_version(self.files, contents) != version:
            raise StateError(f"{folder}: the checkpoint is damaged: another version lies there")
        return BackgroundContent(version, self.files, tuple(contents))

    def _names(self) -> list[str]:
        """Return the names of the copies."""
        return [f"{i}{''.join(Path(file.path).suffixes)}" for i, file in enumerate(self.files)]

    def _look(self, batch: int, check: Callable[[BackgroundContent], object]) -> VersionNote:
        """Return the version of the files as they are."""
        now, before = datetime.now(UTC).isoformat(timespec="seconds"), self._find_before(batch)
        seen = _files.setdefault(self.files, BackgroundFiles(_by_name(self.files)))
        known = _last.get(self.files)
        if known is not None and not seen.look() and (self._copies / known).is_dir():
            return VersionNote(known, now)
        try:
            content = seen.read()
            if before is None or content.version != before.version:
                check(content)
        except DataError as error:
            _last.pop(self.files, None)
            if before is None:
                raise
            return VersionNote(before.version, now, str(error))
        self._copy(content)
        _last[self.files] = content.version
        return VersionNote(content.version, now)

    def _find_before(self, batch: int) -> VersionNote | None:
        """Return the latest note before a micro-batch."""
        numbers = [number for number in self._list_notes() if number < batch]
        return self.find(max(numbers)) if numbers else None

    def _list_notes(self) -> list[int]:
        if not self._notes.is_dir():
            return []
        return [int(name) for name in os.listdir(self._notes) if name.isdecimal()]

    def find(self, batch: int) -> VersionNote | None:
        """Return the note of a micro-batch; None if it has none."""
        path = self._notes / f"{batch:012}"
        try:
            written: Any = json.loads(path.read_bytes())
            return VersionNote(written["version"], written["read"], written["problem"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"{path}: the checkpoint is damaged: {error}") from error

    def _write_note(self, batch: int, note: VersionNote) -> None:
        self._notes.mkdir(parents=True, exist_ok=True)
        writing = self._notes / f".{batch:012}-{secrets.token_hex(4)}"
        writing.write_text(json.dumps(note._asdict()))
        try:
            os.link(writing, self._notes / f"{batch:012}")
        except FileExistsError:
            pass  # another task was first
        except OSError:  # a file system without links
            writing.replace(self._notes / f"{batch:012}")
        finally:
            writing.unlink(missing_ok=True)

    def _copy(self, content: BackgroundContent) -> None:
        target = self._copies / content.version
        if target.is_dir():
            return
        writing = self._copies / f".{content.version}-{secrets.token_hex(4)}"
        writing.mkdir(parents=True)
        for name, text in zip(self._names(), content.contents, strict=True):
            (writing / name).write_bytes(text)
        try:
            writing.rename(target)
        except OSError:  # another task was first
            shutil.rmtree(writing)

    def _clean(self, batch: int) -> None:
        """Drop old notes, and the versions that no note names any more."""
        kept = set()
        for number in self._list_notes():
            if number < batch - _KEPT:
                (self._notes / f"{number:012}").unlink(missing_ok=True)
            elif (note := self.find(number)) is not None:
                kept.add(note.version)
        for copy in self._copies.iterdir():
            if not copy.name.startswith(".") and copy.name not in kept:
                shutil.rmtree(copy, ignore_errors=True)


def _by_name(files: tuple[BackgroundFile, ...]) -> Any:
    """Return files as `BackgroundFiles` takes them."""
    named: dict[Any, list[str]] = {}
    for name, path in files:
        named.setdefault(name, []).append(path)
    return named
