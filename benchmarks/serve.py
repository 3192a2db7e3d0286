"""`cernis bench serve`: how long the playground's server takes for a picture, a page, a sample.

A worker as the server starts it, a stream of a million trades, and a query with 10^12 matches.
Times are those of a worker's answers, from the request to the last byte of JSON, without HTTP.
The first picture makes an index; each later one, a *zoom*, asks it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.benchmark import Benchmark, Step
from benchmarks.record import Record
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, tabulate
from cernis.serve.limits import Limits
from cernis.serve.process import WorkerProcess

NAME = "serve"
_RUN = "measured"
_WIDTH = 1200
_ZOOMS = (1, 10, 1000, 100_000)
_PLACES = 5
QUERY = "SELECT * FROM stocks WHERE SELL AS a ; BUY AS b ; SELL AS c WITHIN 4 MINUTES"


def run_serve(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure the answers of one worker."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(scale, step, Path(folder)))


async def _measure(scale: BenchmarkScale, step: Step, folder: Path) -> list[Record]:
    worker = WorkerProcess(Limits(seconds=600), folder)
    try:
        return await _ask_all(worker, scale, step)
    finally:
        await worker.stop()


async def _ask_all(worker: WorkerProcess, scale: BenchmarkScale, step: Step) -> list[Record]:
    source = {"sample": scale.served}
    step("events", 0, 4)
    await worker.ask({"do": "describe", "source": source})
    step("the run", 1, 4)
    asked = {"run": _RUN, "language": "ceql", "query": QUERY, "source": source}
    seconds, told = await _time(worker, {"do": "run", **asked})
    made = json.loads(told)
    total, begin, end = int(made["count"]), made["time"]["from"], made["time"]["to"]
    records = [
        Record(NAME, "events", made["events"], "events"),
        Record(NAME, "matches", total, "matches"),
        _record("run, counted", seconds),
    ]
    step("pictures", 2, 4)
    for lanes in ("type", "variable"):
        seconds, _ = await _time(worker, _ask_picture(None, None, lanes))
        records.append(_record("first picture", seconds, lanes=lanes))
        for zoom in _ZOOMS:
            span = (end - begin) / zoom
            starts = [begin + (end - begin - span) * i / (_PLACES - 1) for i in range(_PLACES)]
            times = [
                (await _time(worker, _ask_picture(start, start + span, lanes)))[0]
                for _ in range(scale.rounds)
                for start in starts
            ]
            records.append(_record("zoom, the slowest", max(times), lanes=lanes, zoom=zoom))
            median = sorted(times)[len(times) // 2]
            records.append(_record("zoom, the median", median, lanes=lanes, zoom=zoom))
    step("pages", 3, 4)
    for name, offset in (("first", 0), ("middle", total // 2), ("last", max(0, total - 50))):
        page = {"do": "matches", "run": _RUN, "offset": offset, "limit": 50}
        times = [(await _time(worker, page))[0] for _ in range(scale.rounds)]
        records.append(_record("page of 50", min(times), place=name))
    sample = {"do": "sample", "run": _RUN, "n": 50, "seed": 1}
    times = [(await _time(worker, sample))[0] for _ in range(scale.rounds)]
    return [*records, _record("sample of 50", min(times))]


def _ask_picture(start: float | None, stop: float | None, lanes: str) -> dict[str, Any]:
    place = {"start": start, "stop": stop, "width": _WIDTH, "lanes": lanes}
    return {"do": "timeline", "run": _RUN, **place}


async def _time(worker: WorkerProcess, request: Mapping[str, Any]) -> tuple[float, bytes]:
    began = perf_counter()
    told = await worker.ask(request)
    return perf_counter() - began, told


def _record(measure: str, seconds: float, **case: int | str) -> Record:
    return Record(NAME, measure, 1000 * seconds, "ms", case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return the zooms, and the other answers."""

    def find_once(measure: str) -> Any:
        return next(r.value for r in records if r.measure == measure)

    pictures = tabulate(
        records,
        f"A picture of {_WIDTH} bins, ms",
        "zoom, the slowest",
        {
            "lanes": "lanes",
            "part of the stream: one in": "zoom",
            "median": "zoom, the median",
            "slowest": "zoom, the slowest",
        },
    )
    pages = tabulate(
        records, "Fifty matches, ms", "page of 50", {"page": "place", "ms": "page of 50"}
    )
    rows = tuple(
        (title, f"{find_once(measure):,.0f}")
        for title, measure in (
            ("events", "events"),
            ("matches", "matches"),
            ("run and exact count, ms", "run, counted"),
            ("first picture, ms", "first picture"),
            ("sample of fifty, ms", "sample of 50"),
        )
    )
    return [Table("The run", ("", "number"), rows), pictures, pages]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the slowest zooms."""
    return [
        {"lanes": r.case["lanes"], "zoom": r.case["zoom"], "ms": r.value}
        for r in records
        if r.measure == "zoom, the slowest"
    ]


SERVE = Benchmark(
    name=NAME,
    title="The playground",
    question=f"""
How long does the playground's server take for a picture of a part of a million events, and for a
page of their matches?

`{QUERY}`

The goal is a zoom within 200 ms.
""",
    run=run_serve,
    tables=build_tables,
    points=build_points,
)
