"""Workers as the server sees them: limits end them, and the next request starts another."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from cernis.serve.failure import RequestError
from cernis.serve.limits import Limits
from cernis.serve.process import WorkerProcess
from cernis.serve.visitors import Visitors

CHECK = {"do": "check", "language": "ceql", "query": "SELECT * FROM S WHERE A", "schema": None}
LONG = {
    "do": "run",
    "run": "r",
    "language": "ceql",
    "query": "SELECT LONGEST u FROM s WHERE (SELL OR BUY)+ AS u FILTER u INCREASING BY price",
    "source": {"sample": "stocks-million"},
}

Story = Callable[[WorkerProcess], Awaitable[None]]


def tell(story: Story, folder: Path, **limits: Any) -> None:
    """Let something happen to a worker, and end it."""

    async def live() -> None:
        worker = WorkerProcess(Limits(**limits), folder)
        try:
            await story(worker)
        finally:
            await worker.stop()

    asyncio.run(live())


def test_a_worker_outlives_a_refusal_and_is_replaced_after_a_limit(tmp_path: Path) -> None:
    async def story(worker: WorkerProcess) -> None:
        assert json.loads(await worker.ask(CHECK)) == {"diagnostics": []}
        first = worker.pid
        with pytest.raises(RequestError) as refused:
            await worker.ask({"do": "matches", "run": "none", "offset": 0, "limit": 1})
        assert refused.value.code == "not_found"
        with pytest.raises(RequestError) as refused:
            await worker.ask({"do": "__class__"})
        assert refused.value.code == "bad_request"
        assert worker.pid == first
        with pytest.raises(RequestError) as refused:
            await worker.ask(LONG, seconds=0.5)
        assert refused.value.code == "time"
        assert not worker.is_alive
        assert json.loads(await worker.ask(CHECK)) == {"diagnostics": []}
        assert worker.pid != first

    tell(story, tmp_path)


def test_who_stops_waiting_ends_the_run(tmp_path: Path) -> None:
    async def story(worker: WorkerProcess) -> None:
        waiting = asyncio.create_task(worker.ask(LONG, ends=True))
        while not worker.is_busy or worker.pid is None:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not worker.is_alive
        assert not worker.is_busy

    tell(story, tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_worker_that_needs_too_much_memory_is_ended(tmp_path: Path) -> None:
    async def story(worker: WorkerProcess) -> None:
        with pytest.raises(RequestError) as refused:
            await worker.ask(LONG)
        assert refused.value.code == "memory"
        assert refused.value.message.startswith("the run was ended: it needed more than 32 MiB")

    tell(story, tmp_path, memory_bytes=32 << 20)


def test_a_visitor_waits_where_all_workers_are_at_work() -> None:
    async def live() -> None:
        visitors = Visitors(Limits(visitors=1), [], {})
        try:
            first, second = await visitors.admit(), await visitors.admit()
            running = asyncio.create_task(visitors.ask(first, LONG, ends=True))
            while not (first.worker.is_busy and first.worker.is_alive):
                await asyncio.sleep(0.01)
            with pytest.raises(RequestError) as refused:
                await visitors.ask(second, CHECK)
            assert (refused.value.code, refused.value.status) == ("busy", 503)
            assert refused.value.message.startswith("as many visitors as there may be")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert json.loads(await visitors.ask(second, CHECK)) == {"diagnostics": []}
        finally:
            await visitors.close()
        assert not visitors.folder.exists()

    asyncio.run(live())
