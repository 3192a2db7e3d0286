"""`Pipe`: an input that can be read only once, such as standard input.

The columns must be known before the events are read, so the beginning of a pipe is needed twice.
A pipe keeps the bytes that were read to look at them, at most `MOST_KEPT`, and the pass over the
events starts with those. Compressed data is recognized by its first bytes, and decompressed.

A pipe is read in large blocks, since its events may have to be sorted. A *live* one gives what has
come so far: its events are in order, and matches are to be reported at once.

Cost: memory for the bytes looked at, which are dropped once they are read.

Rejected: a copy of the pipe on disk. A pipe need not end, and may be larger than the disk.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from cernis.errors import DataError

STANDARD_INPUT = Path("-")
MOST_KEPT = 1 << 26
_LOOK = 1 << 16
_PATIENCE = 2.0
_DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bz2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
)


def is_pipe(path: Path) -> bool:
    """Return whether a path is standard input, a named pipe or another open file.

    >>> is_pipe(Path("-")), is_pipe(Path("/dev/stdin")), is_pipe(Path("trades.csv"))
    (True, True, False)
    """
    if path == STANDARD_INPUT or path.as_posix().startswith(_DESCRIPTORS):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def is_standard_input(path: Path) -> bool:
    """Return whether a path names standard input."""
    return path == STANDARD_INPUT or path.as_posix() in (
        "/dev/stdin",
        "/dev/fd/0",
        "/proc/self/fd/0",
    )


_tell: list[Callable[[], None]] = []


def announce_waiting(tell: Callable[[], None]) -> None:
    """Call `tell` once, when a pipe that is not live has been waited for, two seconds in all."""
    _tell[:] = [tell]


class Pipe:
    """An open pipe, with the bytes that were looked at."""

    def __init__(self, path: Path, *, is_live: bool = False) -> None:
        self._is_live = is_live
        self.label = "standard input" if is_standard_input(path) else str(path)
        self._kept = bytearray()
        self._is_read = False
        try:
            number = os.dup(0) if is_standard_input(path) else os.open(path, os.O_RDONLY)
            self._stream = _decompress(io.BufferedReader(_Arriving(number, is_live), _LOOK))
        except OSError as error:
            raise DataError(f"{self.label}: cannot be read: {error.strerror}") from error

    @classmethod
    def of(cls, label: str, stream: Any) -> Pipe:
        """Return a live pipe of the bytes that `read1` of a stream gives, none at its end."""
        pipe = cls.__new__(cls)
        pipe.label, pipe._stream, pipe._is_live = label, stream, True
        pipe._kept, pipe._is_read = bytearray(), False
        return pipe

    def look(self, size: int = _LOOK) -> bytes:
        """Return the first bytes, which stay to be read."""
        found, stream = b"", self.open(look=True)
        while len(found) < size and (more := stream.read(size - len(found))):
            found += more
            if self._is_live and b"\n" in found:
                break
        return found

    def open(self, *, look: bool) -> PipeStream:
        """Return the bytes from the first one on: to `look` at them, or to read all of them."""
        if self._is_read:
            raise DataError(f"{self.label}: the events were read already and cannot be read again")
        self._is_read = not look
        return PipeStream(self, look)

    def read(self, at: int, size: int, *, keep: bool) -> bytes:
        """Return up to `size` bytes from an offset on; none at the end."""
        if at < len(self._kept):
            return bytes(self._kept[at : at + size])
        if not keep and self._kept:
            self._kept = bytearray()
        read = getattr(self._stream, "read1", None) if self._is_live else None
        data: bytes = (read or self._stream.read)(size)
        if keep:
            self._kept += data
            if len(self._kept) > MOST_KEPT:
                raise DataError(
                    f"{self.label}: none of the first {MOST_KEPT:,} bytes can be read as events"
                )
        return data


class PipeStream:
    """The bytes of a pipe as a file that is read from its beginning."""

    closed = False

    def __init__(self, pipe: Pipe, look: bool) -> None:
        self._pipe, self._look, self._at = pipe, look, 0

    def read(self, size: int) -> bytes:
        data = self._pipe.read(self._at, size, keep=self._look)
        self._at += len(data)
        return data

    def __enter__(self) -> PipeStream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _decompress(file: Any) -> Any:
    """Return the file, or what it is when it is decompressed."""
    first = file.read(6)
    whole = io.BufferedReader(_Continued(first, file), _LOOK)
    codec = next((name for magic, name in _MAGIC if first.startswith(magic)), None)
    if codec is None:
        return whole
    return pa.CompressedInputStream(pa.PythonFile(whole, mode="r"), codec)


class _Arriving(io.RawIOBase):
    """The bytes of an open file as they come; says so if they are waited for, unless live."""

    def __init__(self, number: int, is_live: bool) -> None:
        self._number = number
        self._patience = None if is_live else _PATIENCE

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        if not self.closed:
            os.close(self._number)
        super().close()

    def readinto(self, buffer: Any) -> int:
        if self._patience is not None and _tell:
            began = monotonic()
            if not _wait(self._number, self._patience):
                self._patience = None
                _tell.pop()()
            else:
                self._patience = max(0.0, self._patience - (monotonic() - began))
        data = os.read(self._number, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _wait(number: int, seconds: float) -> bool:
    """Return whether bytes come within some seconds, or nothing can tell."""
    try:
        return bool(select.select([number], [], [], seconds)[0])
    except (OSError, ValueError):  # not every system waits for files
        return True


class _Continued(io.RawIOBase):
    """Some bytes, then the rest of a file."""

    def __init__(self, first: bytes, rest: Any) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, self._first = self._first[: len(buffer)], self._first[len(buffer) :]
        data = data or self._rest.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)
