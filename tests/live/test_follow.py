"""Matches of live inputs in Python: a plain loop, asyncio, back pressure, ends."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import cernis

PAIRS = "SELECT * FROM S WHERE A AS a ; A AS b WITHIN 1 SECOND"


def make_event(time: int) -> dict[str, Any]:
    return {"type": "A", "ts": time}


def fill(queue: cernis.EventQueue, times: range) -> None:
    for time in times:
        queue.put(make_event(time))
    queue.close()


def test_a_queue_is_followed_until_it_is_closed() -> None:
    queue = cernis.EventQueue()
    threading.Thread(target=fill, args=(queue, range(0, 3000, 500))).start()
    found = [(match["start_ts"], match["end_ts"]) for match in _query().follow(queue)]
    batch = _query().run([make_event(time) for time in range(0, 3000, 500)])
    assert sorted(found) == sorted((match.start_ts, match.end_ts) for match in batch)


@pytest.mark.parametrize("others", [[], [2500, 3000]])
def test_a_deadline_at_the_last_event_is_not_past(others: list[int]) -> None:
    text = "SELECT * FROM S WHERE A AS a WITHOUT B FOR 2 SECONDS"
    if others:
        text = "SELECT * FROM S, R WHERE S>A AS a WITHOUT R>B FOR 2 SECONDS"
    queues, events = {"S": cernis.EventQueue()}, {"S": [make_event(t) for t in (500, 1000, 3000)]}
    if others:
        queues["R"], events["R"] = cernis.EventQueue(), [make_event(time) for time in others]
    for name, queue in queues.items():
        queue.put(events[name])
        queue.close()
    found = [match["start_ts"] for match in cernis.query(text).follow(queues)]
    assert found == [match.start_ts for match in cernis.query(text).run(events)] == [500]


def _query() -> cernis.Query[Any]:
    return cernis.query(PAIRS)


def test_asyncio_gets_matches_while_other_tasks_run() -> None:
    async def main() -> tuple[list[int], int]:
        queue, ticks, ends = cernis.EventQueue(), 0, []
        queue.put(make_event(0))

        async def tick() -> None:
            nonlocal ticks
            for time in range(1, 5):
                await asyncio.to_thread(queue.put, make_event(500 * time))
                ticks += 1
                await asyncio.sleep(0)
            queue.close()

        task = asyncio.create_task(tick())
        async for match in await asyncio.to_thread(cernis.follow, _query(), queue):
            ends.append(match["end_ts"])
        await task
        return ends, ticks

    ends, ticks = asyncio.run(main())
    assert sorted(ends) == [500, 1000, 1000, 1500, 1500, 2000, 2000]
    assert ticks == 4


def test_a_loop_that_is_left_ends_the_threads() -> None:
    queue = cernis.EventQueue()
    queue.put([make_event(time) for time in range(0, 3000, 500)])
    before = threading.active_count()
    matches = iter(cernis.follow(_query(), queue))
    next(matches)
    assert threading.active_count() == before + 1
    matches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_a_task_that_is_cancelled_closes_nothing_under_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, said = cernis.EventQueue(), list[str]()
    queue.put([make_event(0), make_event(500)])
    following = cernis.follow(_query(), queue)
    run, entered, leave = following._run, threading.Event(), threading.Event()
    take, close = run.take, run.close

    def take_slowly(*arrived: Any) -> None:
        entered.set()
        leave.wait(60)
        take(*arrived)
        said.append("read")

    def close_and_say() -> None:
        said.append("closed")
        close()

    monkeypatch.setattr(run, "take", take_slowly)
    monkeypatch.setattr(run, "close", close_and_say)

    async def consume() -> None:
        async for _ in following:
            raise AssertionError("no match is given before its step has ended")

    async def main() -> None:
        task = asyncio.create_task(consume())
        await asyncio.to_thread(entered.wait, 60)
        threading.Timer(0.2, leave.set).start()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert said == ["read", "closed"]


def test_a_second_consumer_is_refused() -> None:
    queue = cernis.EventQueue()
    queue.put([make_event(0), make_event(500)])
    following = cernis.follow(_query(), queue)
    first = iter(following)
    next(first)
    with pytest.raises(cernis.StateError, match="the matches are read already"):
        next(iter(following))
    first.close()  # type: ignore[attr-defined]


def test_a_full_queue_says_so() -> None:
    queue = cernis.EventQueue(1)
    queue.put(make_event(0))
    with pytest.raises(cernis.StateError, match="the queue is full: its reader falls behind"):
        queue.put(make_event(1), timeout=0)


def test_rules_are_followed_in_a_file_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "S.jsonl"
    path.write_text("".join(json.dumps(make_event(time)) + "\n" for time in (0, 500)))
    rules = cernis.rules({"pairs": PAIRS, "all": "SELECT * FROM S WHERE A AS a"})
    found = sorted(match["rule"] for match in rules.follow(path, once=True))
    assert found == ["all", "all", "pairs"]


def test_what_cannot_be_followed_is_named() -> None:
    with pytest.raises(cernis.CernisError, match="cannot follow 'list'"):
        cernis.follow(_query(), [make_event(0)])


@pytest.mark.parametrize("chunks", [[("S", 0), ("T", 1)], [("T", 0), ("S", 1)], [("S", 0)]])
def test_inputs_send_in_any_order_and_one_may_send_nothing(
    chunks: list[tuple[str, int]], tmp_path: Path
) -> None:
    """Rows that come alone have the columns of the other input, too, without values."""
    for name in ("S", "T"):
        own = [f"A,{time},{name}\n" for each, time in chunks if each == name]
        (tmp_path / f"{name}.csv").write_text(f"type,ts,{name.lower()}\n" + "".join(own))
    query = cernis.query("SELECT * FROM S, T WHERE * AS a ; * AS b FILTER a[s = 'S'] OR b[s = 'S']")
    files = {name: tmp_path / f"{name}.csv" for name in ("S", "T")}
    found = list(query.follow(files, once=True, lateness="10s"))
    assert len(found) == query.run(files).count() == len(chunks) - 1
