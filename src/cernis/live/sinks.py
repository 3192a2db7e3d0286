"""Sinks: where matches go, and how each gets there once.

Matches are *staged* while events are read, and *released* after the checkpoint has committed. What
is staged survives the process: as a file that is not named yet, or in the checkpoint. A run that
goes on releases what the last one staged and may not have released; a sink recognizes what it has
already.

| sink | staged | released | a match arrives |
|---|---|---|---|
| folder | a file with a hidden name | the file gets its name | once |
| Kafka | in the checkpoint | a transaction with the number of the delivery | once |
| webhook | in the checkpoint | a POST, repeated until it succeeds, with a key | at least once |
| standard output, a function | not at all | at once | at least once |

Cost contract: a folder gets one file for each commit that has matches.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cernis.errors import CernisError
from cernis.results.formats.jsonlines import text_of

LINE = "line"
_WRITING = ".writing"
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
_LOOK, _GRACE = 0.1, 0.7
"""Seconds between looks for a signal, and for which an answer is waited for in spite of one."""


class Sink(ABC):
    """Where matches go."""

    is_exact = False
    """Whether each match arrives once."""
    waits = True
    """Whether matches are seen after a commit only."""
    releases_aside = False
    """Whether a release takes long, and can run while more is added."""

    @abstractmethod
    def add(self, batch: pa.RecordBatch) -> None:
        """Stage some matches."""

    @property
    def is_pressing(self) -> bool:
        """Whether something is staged that should be seen soon."""
        return False

    def stage(self, number: int) -> Any:
        """End a delivery; return what the checkpoint keeps of it (for JSON), None: nothing."""
        return None

    def release(self, number: int, staged: Any) -> None:  # noqa: B027
        """Let a delivery be seen that has committed; also one that a former run has staged."""

    def recover(self, number: int) -> None:  # noqa: B027
        """Drop what was staged after the last delivery that has committed."""

    def close(self) -> None:  # noqa: B027
        """End."""


def join_lines(batch: pa.RecordBatch) -> bytes:
    """Return lines as text, each with its end."""
    return bytes(text_of(pc.binary_join_element_wise(batch.column(LINE), "", "\n")))


class LineSink(Sink):
    """Lines that are written as they are found."""

    waits = False

    def __init__(self, write: Callable[[bytes], None] | None = None) -> None:
        self._write = write or _write_standard_output

    def add(self, batch: pa.RecordBatch) -> None:
        self._write(join_lines(batch))


def _write_standard_output(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()


class FunctionSink(Sink):
    """A Python function that gets Arrow batches of matches."""

    waits = False

    def __init__(self, call: Callable[[pa.RecordBatch], object]) -> None:
        self._call = call

    def add(self, batch: pa.RecordBatch) -> None:
        self._call(batch)


class FolderSink(Sink):
    """Files in a folder: Parquet, or JSON lines."""

    is_exact = True

    def __init__(self, folder: Path, form: str) -> None:
        self.folder = folder
        self._suffix = form
        self._file: Any = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def _hidden(self) -> Path:
        return self.folder / f".matches{_WRITING}"

    def _name(self, number: int) -> Path:
        return self.folder / f"matches-{number:09}.{self._suffix}"

    def add(self, batch: pa.RecordBatch) -> None:
        if self._suffix != "parquet":
            self._file = self._file or open(self._hidden, "wb")  # noqa: SIM115
            self._file.write(join_lines(batch))
        else:
            self._file = self._file or pq.ParquetWriter(self._hidden, batch.schema)
            self._file.write_batch(batch)

    def stage(self, number: int) -> Any:
        if self._file is None:
            return None
        self._file.close()
        self._file = None
        staged = self.folder / f".{self._name(number).name}{_WRITING}"
        with open(self._hidden, "rb") as file:
            os.fsync(file.fileno())
        os.replace(self._hidden, staged)
        return staged.name

    def release(self, number: int, staged: Any) -> None:
        hidden = self.folder / str(staged)
        if hidden.exists():  # otherwise it has its name, and somebody may have taken it away
            os.replace(hidden, self._name(number))

    def recover(self, number: int) -> None:
        for path in self.folder.glob(f".matches*{_WRITING}"):
            path.unlink()
        later = [*self.folder.glob(f"matches-*.{self._suffix}")]
        if any(path.stem.split("-")[-1] > f"{number:09}" for path in later):
            raise CernisError(
                f"--sink {self.folder}: has the matches of another run, not those of this "
                "checkpoint; go on with the checkpoint of that run, or name a new folder"
            )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._hidden.unlink(missing_ok=True)


class WebhookSink(Sink):
    """An HTTP server that gets lines of JSON by POST.

    Each delivery has the header `Idempotency-Key`, which is the same when it is repeated.
    """

    releases_aside = True

    def __init__(self, url: str, run: str, stopping: Callable[[], bool] = lambda: False) -> None:
        self.url, self.run = url, run
        self._stopping = stopping
        self._lines: list[bytes] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._lines.append(join_lines(batch))

    @property
    def is_pressing(self) -> bool:
        return bool(self._lines)

    def stage(self, number: int) -> Any:
        lines, self._lines = b"".join(self._lines), []
        return lines.decode() if lines else None

    def release(self, number: int, staged: Any) -> None:
        headers = {
            "Content-Type": "application/x-ndjson",
            "Idempotency-Key": f"{self.run}-{number}",
        }
        request = urllib.request.Request(self.url, str(staged).encode(), headers, method="POST")
        wait = _FIRST_WAIT
        while not self._deliver(request):
            self._rest(monotonic() + wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _deliver(self, request: urllib.request.Request) -> bool:
        """Return whether the server has taken a delivery; its answer is waited for in a thread."""
        answers: Queue[bool | CernisError] = Queue()
        Thread(target=lambda: answers.put(self._ask(request)), daemon=True).start()
        patience = monotonic() + _GRACE
        while True:
            with suppress(Empty):
                answer = answers.get(timeout=_LOOK)
                if isinstance(answer, CernisError):
                    raise answer
                return answer
            if monotonic() > patience:
                self._rest(monotonic())

    def _ask(self, request: urllib.request.Request) -> bool | CernisError:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                answer.read(1 << 16)
            return True
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 409, 425, 429):
                return CernisError(f"{self.url}: answers {error.code} {error.reason}")
        except (OSError, HTTPException):
            pass
        return False

    def _rest(self, until: float) -> None:
        """Wait; raise an error if the run is to stop."""
        while True:
            if self._stopping():
                raise CernisError(f"{self.url}: cannot be reached; the matches stay staged")
            if (left := until - monotonic()) <= 0:
                return
            sleep(min(_LOOK, left))
