"""Inputs that grow: standard input, a file, a folder, a socket.

An input opens as events do anywhere (`open_reader` for `events.source`): its text is cut, parsed
and checked by the readers of files. What is its own: it waits for more in place of ending, and it
knows the *position* after the rows that it gave last, a value for JSON from which a later run goes
on.

Inputs are read by threads (`arrivals`), which wait in `read1`; `stop` ends the wait. With `once`,
an input ends where it would wait.

Cost contract: a file is asked for more every `_PAUSE` seconds, a folder is listed as often while
nothing is new. Turned down: notifications of the operating system (inotify), which network file
systems do not send.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from cernis.errors import DataError, StateError
from cernis.events.batch import Int64s
from cernis.events.column_types import value_type
from cernis.events.reading.files import Opening, open_file, open_pipe, open_text
from cernis.events.reading.json_text import JsonReader
from cernis.events.reading.pipe import Pipe
from cernis.events.reading.reader import Piece, Reader
from cernis.events.reading.text import TextPosition, TextReader
from cernis.work.log import damaged

ARRIVED = "kafka_timestamp"
"""The time column of a topic whose events have none of their own."""
_PAUSE = 0.005
_FOLDER_PAUSE = 0.05
_READ = 1 << 20
_UNFINISHED = (".", "_")
"""Files whose names begin so are not finished, or no events."""


class InputStopped(Exception):
    """The run ends while an input waits."""


class InputSilent(Exception):
    """Nothing has come until the `alarm` of an input."""


class KnownText(NamedTuple):
    """The form and the columns of an input."""

    format: str
    schema: pa.Schema

    def to_note(self) -> list[str]:
        """Return it for the note of a checkpoint."""
        return [self.format, b64encode(self.schema.serialize()).decode()]

    @classmethod
    def from_note(cls, note: Any) -> KnownText:
        """Read what `to_note` has written."""
        try:
            format_, schema = note
            return cls(str(format_), pa.ipc.read_schema(pa.py_buffer(b64decode(schema))))
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise damaged(f"the columns of an input: {error}") from error


class ArrivedTexts(NamedTuple):
    """Messages that have come: their texts, numbers, and when they came, in nanoseconds."""

    texts: list[bytes]
    numbers: Int64s
    arrived: Int64s


class LiveInput(ABC):
    """An input that grows."""

    def __init__(self, label: str, *, once: bool = False) -> None:
        self.label = label
        self.once = once
        self.known: KnownText | None = None
        """What an earlier run has found, which this one expects."""
        self.alarm: float | None = None
        """When a wait ends with `InputSilent`, by the monotonic clock; None: never."""
        self._stopping = Event()

    def stop(self) -> None:
        """End a wait; nothing more is read."""
        self._stopping.set()

    def close(self) -> None:  # noqa: B027
        """Let go of what is open, once nothing is read any more."""

    def wait(self, seconds: float) -> None:
        """Wait for more; raises `InputStopped` and `InputSilent`."""
        if self._stopping.wait(seconds):
            raise InputStopped
        if self.alarm is not None and monotonic() >= self.alarm:
            self.alarm = None
            raise InputSilent

    @abstractmethod
    def open_reader(self, opening: Opening) -> Reader:
        """Return the reader of its rows."""

    def resume(self, position: Any, done: set[str]) -> None:  # noqa: B027
        """Go on from where an earlier run came to; before it is opened."""

    @property
    def position(self) -> Any:
        """Where the rows that were given last end; None: the input cannot be read again."""
        return None

    def take_done(self) -> list[str]:
        """Return the files that were read to their ends since the last call."""
        return []


class PositionedReader(Protocol):
    """A reader of text that knows how far it has come."""

    position: TextPosition


class TextInput(LiveInput):
    """Text that comes as bytes."""

    _reader: Reader | PositionedReader | None = None

    def open_reader(self, opening: Opening) -> Reader:
        pipe = Pipe.of(self.label, self)
        if self.known is None:
            reader = open_pipe(pipe, opening)
        else:
            reader = open_text(pipe, self.known.format, opening)
            if isinstance(reader, TextReader):
                reader.know(self.known.schema)
        self._reader = reader
        return reader

    def read_by(self, reader: PositionedReader) -> None:
        """Let another reader cut the text that `read1` gives."""
        self._reader = reader

    @abstractmethod
    def read1(self, size: int) -> bytes:
        """Return the bytes that have come, at least one; none at the end."""


class PipeInput(TextInput):
    """Bytes from standard input, or from another open file."""

    def __init__(self, descriptor: int = 0, label: str = "standard input") -> None:
        super().__init__(label)
        self._descriptor = os.dup(descriptor)
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # a full pipe is then read in few pieces
            with suppress(OSError):  # no pipe, or not allowed
                fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _READ)

    def read1(self, size: int) -> bytes:
        while not select.select([self._descriptor], [], [], 0.1)[0]:
            self.wait(0)
        return os.read(self._descriptor, min(size, _READ))


class SocketInput(TextInput):
    """Lines that a server sends; when it closes the connection, the input has ended."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"tcp://{host}:{port}")
        self._address = host, port
        self._socket: socket.socket | None = None

    def read1(self, size: int) -> bytes:
        if self._socket is None:
            try:
                self._socket = socket.create_connection(self._address, timeout=30)
            except OSError as error:
                raise DataError(f"{self.label}: cannot connect: {error}") from error
        while not select.select([self._socket], [], [], 0.1)[0]:
            self.wait(0)
        return self._socket.recv(min(size, _READ))


# ------------------------------------------------------------------- a file


class _Segment(NamedTuple):
    """From which byte of the text on which file follows, and where in it."""

    begins: int
    inode: int
    offset: int


class FileInput(TextInput):
    """A file that grows, and that another may replace under its name (rotation).

    A file that was replaced is read to its end first. The position has the file's number (inode): a
    run that finds another file under the name looks for no older ones, and says so.
    """

    def __init__(self, path: Path, *, once: bool = False) -> None:
        super().__init__(str(path), once=once)
        self.path = path
        self._descriptor: int | None = None
        self._head = b""
        """The header of CSV, which a run that goes on reads again, and a new file repeats."""
        self._first = TextPosition()
        self._given = 0
        self._segments: list[_Segment] = []
        self.notes: list[str] = []

    def resume(self, position: Any, done: set[str]) -> None:
        inode, offset, row, line, head, *skip = (int(number) for number in position)
        self._open()
        assert self._descriptor is not None
        found = os.fstat(self._descriptor)
        if found.st_ino != inode or found.st_size < offset:
            self.notes.append(
                f"{self.label}: another file than the last run has read; it is read from its "
                "beginning, and what the former one had after that is not read"
            )
            return
        self._head = os.pread(self._descriptor, head, 0)
        self._first = TextPosition(offset - head, row, line, *skip)
        self._given = offset - head
        self._segments = [_Segment(offset, inode, offset)]
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def open_reader(self, opening: Opening) -> Reader:
        self._pending = self._head
        reader = super().open_reader(opening)
        if isinstance(reader, TextReader):
            reader.first = reader.position = self._first
            self._keep_head(reader)
        return reader

    def read_by(self, reader: PositionedReader) -> None:
        self._pending = b""
        reader.position = self._first
        super().read_by(reader)

    def _keep_head(self, reader: TextReader) -> None:
        """Keep the header of CSV, which stands in the first lines of the file."""
        if self._head or not reader.header_lines or self._descriptor is None:
            return
        beginning = os.pread(self._descriptor, _READ, 0).splitlines(keepends=True)
        self._head = b"".join(beginning[: reader.header_lines])

    @property
    def position(self) -> Any:
        found = getattr(self._reader, "position", None)
        if found is None or not self._segments:
            return None
        offset, row, line, skip = found
        own = [each for each in self._segments if each.begins <= offset]
        self._segments = self._segments[max(0, len(own) - 1) :]
        begins, inode, start = self._segments[0]
        at = max(start, start + offset - begins)
        return [inode, at, row, line, len(self._head), *([skip] if skip else ())]

    def read1(self, size: int) -> bytes:
        if self._pending:
            head, self._pending = self._pending, b""
            self._given += len(head)
            return head
        if self._descriptor is None:
            self._open()
        while True:
            assert self._descriptor is not None
            if data := os.read(self._descriptor, min(size, _READ)):
                self._given += len(data)
                return data
            if self.once:
                return b""
            if not self._follow():
                self.wait(_PAUSE)

    def _open(self) -> None:
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise DataError(f"{self.label}: cannot be read: {error.strerror}") from error
        self._segments.append(_Segment(self._given, os.fstat(self._descriptor).st_ino, 0))

    def _follow(self) -> bool:
        """Go on with the file that has the name now; return whether it is another one."""
        assert self._descriptor is not None
        own = os.fstat(self._descriptor)
        at = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        if own.st_size < at:  # truncated in place
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            self._segments.append(_Segment(self._given, own.st_ino, 0))
            return True
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return False
        if now.st_ino == own.st_ino or own.st_size > at or not now.st_size:
            return False
        os.close(self._descriptor)
        self._open()
        if self._head:
            if os.read(self._descriptor, len(self._head)) != self._head:
                raise DataError(f"{self.label}: the new file has another header than before")
            last = self._segments.pop()
            self._segments.append(last._replace(offset=len(self._head)))
        return True


# ----------------------------------------------------------------- a folder


class FolderInput(LiveInput):
    """Files that appear in a folder, each whole: by the time of their last change, then by name."""

    def __init__(self, folder: Path, *, once: bool = False, pattern: str | None = None) -> None:
        super().__init__(str(folder), once=once)
        self.folder = folder
        self.pattern = pattern or "*"
        self.done: set[str] = set()
        """The files that were read to their ends."""
        self._new: list[str] = []
        self.before = 0
        """The number of events in these, where events have numbers."""
        self._at = ("", 0)
        self._skip = ("", 0)

    def resume(self, position: Any, done: set[str]) -> None:
        self.done = {*done}
        name, pieces, *before = position
        self._skip, self.before = (str(name), int(pieces)), sum(map(int, before))
        self._at = self._skip

    @property
    def position(self) -> Any:
        return [*self._at, self.before] if self.before else [*self._at]

    def take_done(self) -> list[str]:
        new, self._new = self._new, []
        return new

    def open_reader(self, opening: Opening) -> Reader:
        return _FolderPieces(self, opening)

    def wait_for_files(self) -> list[Path]:
        """Return files that were not read; none: there will be none."""
        while not (found := self._list_files()):
            if self.once:
                return []
            self.wait(_FOLDER_PAUSE)
        return found

    def _list_files(self) -> list[Path]:
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(_UNFINISHED) or entry.name in self.done:
                    continue
                if entry.is_file() and Path(entry.name).match(self.pattern):
                    found.append((entry.stat().st_mtime_ns, entry.name))
        first = self._skip[0]  # the one that the last run was reading
        return [
            self.folder / name
            for _, name in sorted(found, key=lambda each: (each[1] != first, *each))
        ]

    def begin(self, path: Path) -> int:
        """Return how many pieces of a file an earlier run has read."""
        name, pieces = self._skip
        return pieces if name == path.name else 0

    def note(self, path: Path, pieces: int) -> None:
        """Note that some pieces of a file are given."""
        self._at = path.name, pieces

    def end(self, path: Path) -> None:
        """Note that a file is given whole."""
        self.done.add(path.name)
        self._new.append(path.name)
        self._at = "", 0


@dataclass
class _FolderPieces:
    """The rows of the files of a folder that grows."""

    input: FolderInput
    opening: Opening
    reopens: bool = False
    count: int | None = None
    nbytes: int | None = None
    _types: dict[str, pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.label = self.input.label

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the first file; waits for one."""
        if self.input.known is not None:
            return self.input.known.schema
        for path in self.input.wait_for_files():
            reader = self._open(path)
            if reader.schema.names:
                return reader.schema
        return pa.schema(dict(self.opening.types))

    def _open(self, path: Path) -> Reader:
        reader = open_file(path, self.opening)
        if isinstance(reader, TextReader):
            reader.expect(self._types)
        return reader

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        first = 0
        while files := self.input.wait_for_files():
            for path in files:
                reader, number = self._open(path), 0
                skipped = self.input.begin(path)
                for number, piece in enumerate(reader.pieces(columns), 1):
                    if number > skipped:
                        self.input.note(path, number)
                        yield piece._replace(
                            rows=piece.rows + first, file=reader.label, first=first
                        )
                types = {each.name: value_type(each.type) for each in reader.schema}
                self._types = {**types, **self._types}
                first += reader.count or 0
                self.input.end(path)


def describe_input(input_: LiveInput, schema: pa.Schema) -> KnownText | None:
    """Return what a later run expects of an input that it can go on with."""
    if input_.position is None:
        return None
    reader = getattr(input_, "_reader", None)
    return KnownText("jsonl" if isinstance(reader, JsonReader) else "csv", schema)


def resume_input(input_: LiveInput, position: Any, done: set[str]) -> None:
    """Let an input go on; raise an error for a position that no run has written."""
    try:
        input_.resume(position, done)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise StateError(
            f"{input_.label}: the checkpoint has no position of it: {position!r}"
        ) from error
