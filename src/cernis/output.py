"""Files that a run writes: they appear whole, and never in place of a file that the run reads.

An output is written beside its final path, under a hidden name (`.cernis-…`), and moved there when
it is complete. An error, Ctrl-C or a kill leaves no file of that name, and one that was there
before as it was. Standard output (`-`), devices and pipes are written directly.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from cernis.errors import DataError

_DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/")
"""Names of open files; the file behind such a name is not to be replaced."""
_INPUT = "the input"
_MOST_LINKS = 40
"""As many as Linux follows."""


class UsedFile(NamedTuple):
    """A file that a run reads or writes, and what it is to the run."""

    role: str
    path: str | Path


def input_files(values: Iterable[object]) -> list[UsedFile]:
    """Return those inputs of a run that are files, or folders."""
    return [UsedFile(_INPUT, one) for one in values if isinstance(one, str | Path)]


def refuse_overwriting(output: str | Path, content: str, used: Iterable[UsedFile]) -> None:
    """Raise if an output is one of the files in use, or lies in a folder that is read.

    >>> refuse_overwriting("a.csv", "the matches", [UsedFile("the input", "./a.csv")])
    Traceback (most recent call last):
    cernis.DataError: a.csv: the matches cannot be written there: it is the input ./a.csv
    """
    for role, path in used:
        if role == _INPUT and str(path) == "-":
            continue  # standard input is not standard output
        if _is_same_file(output, path):
            relation = "is"
        elif Path(path).is_dir() and Path(_target(path)) in Path(_target(output)).parents:
            relation = "lies in"
        else:
            continue
        raise DataError(f"{output}: {content} cannot be written there: it {relation} {role} {path}")


def _is_same_file(one: str | Path, other: str | Path) -> bool:
    if str(one) == "-" or str(other) == "-":
        return str(one) == str(other)
    found = []
    for path in (one, other):
        with suppress(OSError, ValueError):
            found.append(os.stat(path))
    if any(not stat.S_ISREG(each.st_mode) for each in found):
        return False
    return _target(one) == _target(other) or (len(found) == 2 and os.path.samestat(*found))


def _target(path: str | Path) -> str:
    """Return the path behind symbolic links; names of open files are not followed."""
    path = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        if path.startswith(_DESCRIPTORS) or not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    if path.startswith(_DESCRIPTORS):
        return path
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


class OutputFile:
    """A file to write; it has its name once it is complete."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self._target = ""
        self._unfinished = ""
        if str(path) == "-":
            self.file = cast(BinaryIO, sys.stdout.buffer)
            return
        try:
            self._target = _target(path)
            self.file = self._open()
        except (OSError, ValueError) as error:
            raise _cannot_write(path, error) from error

    def _open(self) -> BinaryIO:
        mode = None
        with suppress(FileNotFoundError):
            mode = os.stat(self.path).st_mode
        if mode is not None and not os.access(self.path, os.W_OK):
            raise PermissionError(13, "Permission denied")
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory")
        special = mode is not None and not stat.S_ISREG(mode)
        if special or self._target.startswith(_DESCRIPTORS):
            return _open_file(self.path, os.open(self.path, os.O_WRONLY))
        self._unfinished = os.path.join(
            os.path.dirname(self._target), f".cernis-{secrets.token_hex(8)}"
        )
        number = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if mode is not None:
            os.chmod(number, stat.S_IMODE(mode))
        return _open_file(self.path, number)

    def complete(self) -> None:
        """Flush the file, and give it its name; more may be written to it afterwards."""
        self.file.flush()
        if self._unfinished:
            try:
                os.replace(self._unfinished, self._target)
            except OSError as error:
                raise _cannot_write(self.path, error) from error
            self._unfinished = ""

    def close(self) -> None:
        """Close the file; one that is not complete is deleted."""
        if str(self.path) == "-":
            return
        with suppress(DataError, OSError):  # of what is left in the buffer of a full disk
            self.file.close()
        if self._unfinished:
            with suppress(OSError):
                os.unlink(self._unfinished)


@contextmanager
def open_output(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to write, which appears when the block ends without an error."""
    output = OutputFile(path)
    try:
        yield output.file
        output.complete()
    finally:
        output.close()


class _RawFile(io.FileIO):
    """A file whose errors say which file could not be written."""

    def __init__(self, path: str | Path, number: int) -> None:
        super().__init__(number, "w")
        self._path = path

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(self._path, error) from error


def _open_file(path: str | Path, number: int) -> BinaryIO:
    return io.BufferedWriter(_RawFile(path, number), 1 << 16)


def _cannot_write(path: str | Path, error: OSError | ValueError) -> DataError:
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError(f"{path}: cannot be written: {reason}")
