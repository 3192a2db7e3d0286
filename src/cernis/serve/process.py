"""`WorkerProcess`: a worker as the server sees it, with its limits on time and memory.

The worker is a process of its own (`python -m cernis.serve.worker`) that answers one request at a
time, in frames of JSON over its standard input and output. No object is pickled, so a worker that
has been led astray cannot do more to the server than to send it wrong text.

A request that takes too long, needs too much memory or is not awaited any more ends the process: no
kernel has to look at a flag. On Linux the server reads how much memory the process has, ten times
a second. Elsewhere the worker's own limit of its address space is all there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cernis.serve.failure import RequestError
from cernis.serve.limits import Limits
from cernis.serve.wire import receive_frame, write_frame

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_GLANCE = 0.1
_MOST_WAITING = 64
_LONGEST_START = 60.0


class WorkerProcess:
    """A process that answers the requests of one visitor, one at a time."""

    def __init__(self, limits: Limits, folder: Path) -> None:
        self.limits = limits
        self.folder = folder
        """The working directory of the process: nothing else is in it."""
        self.runs: set[str] = set()
        """The runs that the process holds."""
        self._process: asyncio.subprocess.Process | None = None
        self._is_ready = False
        self._lock = asyncio.Lock()
        self._waiting = 0

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._waiting > 0

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """The number of the process, while there is one."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process, unless it runs; it says when it is ready."""
        if self.is_alive:
            return
        self.runs.clear()
        self._is_ready = False
        # -P: nothing is imported from the working directory
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "cernis.serve.worker", str(self.limits.memory_bytes),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            cwd=self.folder, start_new_session=True,
        )  # fmt: skip

    def adopt(self, spare: WorkerProcess) -> None:
        """Take over the process of a worker that has not answered anything yet."""
        if not self.is_alive:
            self._process, spare._process = spare._process, None
            self._is_ready, spare._is_ready = spare._is_ready, False
            self.runs.clear()

    async def stop(self) -> None:
        """End the process at once, and what it was doing."""
        process, self._process = self._process, None
        self.runs.clear()
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def ask(
        self, request: Mapping[str, Any], seconds: float | None = None, *, ends: bool = False
    ) -> bytes:
        """Return the JSON that answers a request; raise a `RequestError` where there is none.

        Who stops waiting for a request that has begun lets it come to its end, or with `ends`
        ends the process.
        """
        if self._waiting >= _MOST_WAITING:
            raise RequestError("quota", "too many requests at once; wait for their answers")
        self._waiting += 1
        try:
            async with self._lock:
                limit = self.limits.seconds if seconds is None else seconds
                work = asyncio.create_task(self._ask(request, limit))
                try:
                    return await asyncio.shield(work)
                except asyncio.CancelledError:
                    if ends:
                        work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                    raise
        finally:
            self._waiting -= 1

    async def _ask(self, request: Mapping[str, Any], seconds: float) -> bytes:
        await self.start()
        if not self._is_ready:  # the time that Python takes to start is not the visitor's
            await self._wait_for(self._receive(), _LONGEST_START)
            self._is_ready = True
        asked = self._exchange(json.dumps(request).encode())
        return _open_answer(await self._wait_for(asked, seconds))

    async def _wait_for(self, work: Coroutine[Any, Any, bytes], seconds: float) -> bytes:
        """Return what the process sends; end it where it exceeds a limit."""
        answer = asyncio.create_task(work)
        watch = asyncio.create_task(self._watch_memory())
        try:
            done, _ = await asyncio.wait(
                {answer, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            await self._abandon(answer, watch)
            raise
        if answer in done and answer.exception() is None:
            watch.cancel()
            return answer.result()
        code = "memory" if watch in done else "time"
        if answer in done:
            code = "memory" if await self._was_killed() else "internal"
        await self._abandon(answer, watch)
        raise _explain_end(code, self.limits)

    async def _abandon(self, *tasks: asyncio.Task[Any]) -> None:
        await self.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _exchange(self, request: bytes) -> bytes:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.write(write_frame(request))
        await process.stdin.drain()
        return await self._receive()

    async def _receive(self) -> bytes:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        return await receive_frame(process.stdout)

    async def _watch_memory(self) -> None:
        """Return when the process has more memory than it may."""
        while True:
            await asyncio.sleep(_GLANCE)
            if self.measure_memory() > self.limits.memory_bytes:
                return

    def measure_memory(self) -> int:
        """Return the resident memory of the process, 0 where that is not known."""
        if self._process is None:
            return 0
        try:
            fields = Path(f"/proc/{self._process.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(fields[1]) * _PAGE

    async def _was_killed(self) -> bool:
        """Whether the system has ended the process: it does so where memory is short."""
        return self._process is not None and await self._process.wait() < 0


def _open_answer(frame: bytes) -> bytes:
    if frame[:1] == b"+":
        return frame[1:]
    told = json.loads(frame[1:])
    raise RequestError(told.pop("code"), told.pop("message"), told.pop("hint", None), **told)


def _explain_end(code: str, limits: Limits) -> RequestError:
    match code:
        case "time":
            return RequestError("time", limits.explain_seconds())
        case "memory":
            return RequestError("memory", limits.explain_memory())
    return RequestError("internal", "the process that answers has ended; try again")
