"""Buckets of SPAseQ queries find the matches of one run over the whole streams: whatever the order
of arrival, the micro-batches, the worker that runs them, attempts that fail and restarts."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cernis.errors import StateError
from cernis.rdf.query import GraphQuery
from cernis.spark.rdf.files import check_knowledge
from cernis.spark.rdf.layout import choose_solution_stream_layout
from cernis.spark.rdf.solve import SolutionSpreader, SolutionWork
from cernis.spark.streaming.packing import pack_buckets
from cernis.work import log
from cernis.work.bucket import Bucket, BucketWork, restore_bucket
from cernis.work.columns import EVENT
from cernis.work.rdf import solution_answer_schema
from tools.cases.spaseq.corpus import (
    SECOND,
    comparable_match,
    read_cases,
    write_background,
    write_stream,
)
from tools.cases.spaseq.grammar import random_background, random_query, random_streams
from tools.cases.state_store import MemoryStore

FOREVER = 2**40
RELEASED = Path(__file__).parent / "checkpoints"
KEYED = """PREFIX : <http://example.org/> SELECT ?x ?a ?b {} FROM STREAM S1 <http://example.org/s>
WHERE {{ SEQ (A ; B)
  DEFINE GPM A ON S1 {{ ?a :k ?x }} DEFINE GPM B ON S1 {{ ?b :v ?n . ?b :k ?x }} }}
"""


def make_work(query: GraphQuery, background: Any, buckets: Sequence[int], unit: str) -> Any:
    layout = choose_solution_stream_layout(query.plan)
    work = SolutionWork(
        plan=query.plan,
        background=check_knowledge(query, background),
        unit=unit,
        numeric_times=True,
        layout=layout,
        tasks=len(buckets),
        form="lines",
    )
    work = replace(work, schema=solution_answer_schema(work))
    numbers = tuple(buckets) if layout.key else (buckets[0],)
    return BucketWork(work=work, query="q", buckets=numbers, window=query.plan.window)


class Stream:
    """A query on micro-batches, by several workers."""

    def __init__(self, work: BucketWork, *, side_output: bool = False) -> None:
        self.work = work
        self.spread = SolutionSpreader(work.work, work.buckets, side_output)
        self.stores = {number: MemoryStore() for number in work.buckets}
        self.workers: list[dict[int, Bucket]] = [{}, {}]
        self.found: list[tuple[Any, ...]] = []

    def batch(
        self, rows: pa.Table | None, watermark: int | None, worker: int = 0, *, fails: bool = False
    ) -> list[Bucket]:
        """Run one micro-batch; one that fails leaves only what its worker has in memory."""
        blobs: dict[int, list[bytes]] = {number: [] for number in self.work.buckets}
        for solved in [] if rows is None else self.spread(rows):
            for packed in pack_buckets(solved, 0):
                for number, blob in zip(packed["bucket"], packed["blob"], strict=True):
                    blobs[number.as_py()].append(blob.as_py())
        ran = []
        for number, some in blobs.items():
            store = self.stores[number].copy() if fails else self.stores[number]
            live = self.workers[worker].pop(number, None)
            bucket = restore_bucket(self.work, number, store, live)
            batches = [*bucket.take(store, some, watermark, lambda before, after: None)]
            self.workers[worker][number] = bucket
            ran.append(bucket)
            for batch in [] if fails else batches:
                assert batch.schema == self.work.work.schema
                self.found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return ran

    def restart(self) -> None:
        for worker in self.workers:
            worker.clear()

    @property
    def lines(self) -> list[str]:
        return [line for *_, line in sorted(self.found)]


def make_rows(streams: dict[str, Iterable[Any]], tick: int) -> pa.Table:
    """The events of some streams as rows, in order of time."""
    rows = [
        {
            "stream": name,
            "number": number,
            "ts": time * tick,
            "triples": [dict(zip("spo", triple, strict=True)) for triple in triples],
        }
        for name, events in streams.items()
        for number, (time, triples) in enumerate(events)
    ]
    triple = pa.struct({"s": pa.string(), "p": pa.string(), "o": pa.string()})
    fields = {"stream": pa.string(), "number": pa.int64(), "ts": pa.int64()}
    schema = pa.schema({**fields, "triples": pa.list_(triple)})
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]), schema=schema)


def run_at_random(work: BucketWork, rows: pa.Table, draw: random.Random) -> Stream:
    """Feed the rows in any order within the lateness, in any batches, to any worker."""
    stream = Stream(work)
    ms = 10**6
    times = [time // ms for time in rows.column("ts").to_pylist()]
    lateness = draw.choice((0, 1, 3))
    early = [draw.randint(0, lateness) for _ in times]
    order = sorted(range(len(times)), key=lambda i: (times[i] - early[i], i))
    seen: int | None = None
    while order or seen is None:
        size = draw.randint(1, 5)
        now, order = order[:size], order[size:]
        watermark = None if seen is None else seen - lateness
        some = rows.take(pa.array(now, pa.int64())).combine_chunks() if now else None
        if draw.random() < 0.2:
            stream.batch(some, watermark, draw.randrange(2), fails=True)
        if draw.random() < 0.2:
            stream.restart()
        for bucket in stream.batch(some, watermark, draw.randrange(2)):
            assert bucket.late is None
        seen = max([times[i] for i in now] + ([] if seen is None else [seen]), default=0)
    stream.batch(None, FOREVER, draw.randrange(2))
    return stream


def local(query: GraphQuery, files: Any, background: Any, unit: str) -> list[str]:
    text = io.BytesIO()
    query.run(files, background=background, time_unit=unit).write_jsonl(text)
    return text.getvalue().decode().splitlines()


@pytest.fixture(autouse=True)
def _small_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SMALLEST_SNAPSHOT", 1 << 11)


# -------------------------------------------------------------------- answers


def test_random_queries_have_the_matches_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.rdf.solving.exchange._MANY_TERMS", 30)  # drops terms on the way
    found = keyed = snapshots = 0
    for seed in range(30):
        draw = random.Random(seed)
        query = GraphQuery(random_query(draw))
        streams = random_streams(draw, draw.randrange(4, 25))
        background = {
            name[1:-1]: write_background(triples)
            for name, triples in random_background(draw).items()
        }
        files = {name: write_stream(name, events) for name, events in streams.items()}
        expected = local(query, files, background, "ms")
        work = make_work(query, background, (3, 5, 8), "ms")
        if draw.random() < 0.5:
            work = replace(work, window=None)
        stream = run_at_random(work, make_rows(streams, 10**6), draw)
        assert stream.lines == expected, f"{seed}: {query}"
        found, keyed = found + bool(expected), keyed + (len(work.buckets) > 1)
        snapshots += any(store.frozen is not None for store in stream.stores.values())
    assert min(found, keyed, snapshots) > 3


@pytest.mark.parametrize("part", range(4))
def test_the_corpus_has_the_answers_worked_out_by_hand(part: int) -> None:
    for i, case in enumerate(read_cases()):
        if i % 4 == part and case.graphs is None:
            query = GraphQuery(case.parsed)
            work = make_work(query, case.knowledge(), (1, 2), "s")
            rows = make_rows(dict(case.streams), SECOND)
            stream = run_at_random(work, rows, random.Random(i))
            lines = (SimpleNamespace(**json.loads(line)) for line in stream.lines)
            case.check(comparable_match(line) for line in lines)


# ---------------------------------------------------------------------- events


def graph(name: str, key: str, value: int) -> list[tuple[str, str, str]]:
    ns = "<http://example.org/{}>".format
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    node = ns(name)
    return [(node, ns("k"), ns(key)), (node, ns("v"), f'"{value}"^^{integer}')]


def test_a_late_graph_is_counted_and_set_aside_once_whatever_its_solutions() -> None:
    query = GraphQuery(KEYED.format("WITHIN 5 SECONDS"))
    work = make_work(query, None, (3, 4, 5, 6), "s")
    many = [triple for i in range(6) for triple in graph(f"n{i}", f"key{i}", i)]
    rows = make_rows({"S1": [(2, many), (9, many)]}, SECOND)
    whole = rows.append_column(EVENT, pa.array(["early", "on time"]))
    stream = Stream(work, side_output=True)
    ran = stream.batch(whole, 5000)
    assert sum(bucket.report.late for bucket in ran) == 1
    assert sum(bucket.report.events for bucket in ran) == 1
    tables = [aside for bucket in ran if (aside := bucket.read_aside()) is not None]
    assert [event for aside in tables for event in aside.column(EVENT).to_pylist()] == ["early"]


def test_a_late_graph_without_a_solution_is_not_set_aside() -> None:
    text = KEYED.format("WITHIN 5 SECONDS").replace("A ; B", "A , B")
    work = make_work(GraphQuery(text), None, (0,), "s")
    assert work.work.layout.ticks
    other = [("<urn:a>", "<urn:b>", "<urn:c>")]
    rows = make_rows({"S1": [(2, other), (9, other)]}, SECOND)
    [bucket] = Stream(work, side_output=True).batch(
        rows.append_column(EVENT, pa.array(["early", "on time"])), 5000
    )
    assert (bucket.report.late, bucket.report.events, bucket.read_aside()) == (0, 0, None)


def test_state_does_not_outgrow_the_window() -> None:
    query = GraphQuery(KEYED.format("WITHIN 2 SECONDS"))
    work = make_work(query, None, (0,), "s")
    stream, sizes = Stream(work), []
    for at in range(0, 400, 4):
        events = [(at + i, graph(f"n{at + i}", f"key{at}", i)) for i in range(4)]
        stream.batch(make_rows({"S1": events}, SECOND), 1000 * at)
        sizes.append(stream.stores[0].size)
    assert max(sizes[50:]) <= max(sizes[:50])
    assert len(stream.found) == 99 * 3


def test_the_state_of_another_query_is_refused() -> None:
    query = GraphQuery(KEYED.format(""))
    work = make_work(query, None, (0,), "s")
    stream = Stream(work)
    stream.batch(make_rows({"S1": [(1, graph("n", "k", 1))]}, SECOND), None)
    stream.work = replace(work, query="another")
    stream.restart()
    with pytest.raises(StateError, match="belongs to another query"):
        stream.batch(None, 5000)


def test_damaged_snapshots_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SMALLEST_SNAPSHOT", 1)
    work = make_work(GraphQuery(KEYED.format("")), None, (0,), "s")
    stream = Stream(work)
    stream.batch(make_rows({"S1": [(1, graph("n", "k", 1))]}, SECOND), None)
    stream.batch(None, 5000)
    store = stream.stores[0]
    assert store.frozen is not None
    frozen, waiting = store.frozen
    store.frozen = frozen[:-1] + bytes([frozen[-1] ^ 1]), waiting
    stream.restart()
    with pytest.raises(StateError, match="its snapshot is not as it was written"):
        stream.batch(None, 6000)


def test_blobs_have_only_what_buckets_read() -> None:
    work = make_work(GraphQuery(KEYED.format("WITHIN 5 SECONDS")), None, (0,), "s")
    stream = Stream(work)
    stream.batch(make_rows({"S1": [(1, graph("n", "k", 1))]}, SECOND), None)
    chunk = log.read_chunk(stream.stores[0].chunks[0], 0)
    assert chunk.column_names == work.work.open_session().source.format.schema.names


# -------------------------------------------------------------------- upgrades

KEPT = {"graph-chunks": "WITHIN 60 SECONDS", "graph-snapshot": ""}
"""The names of kept checkpoints, and the windows of their queries."""


def start(name: str, store: MemoryStore | None = None) -> Stream:
    """A stream over a kept checkpoint that no worker has in memory."""
    stream = Stream(make_work(GraphQuery(KEYED.format(KEPT[name])), None, (0,), "s"))
    stream.stores[0] = store or stream.stores[0]
    return stream


def feed(stream: Stream, times: Iterable[int], watermark: int | None) -> None:
    events = [(at, graph(f"n{at}", f"key{at % 5}", at)) for at in times]
    stream.batch(make_rows({"S1": events}, SECOND), watermark)


@pytest.mark.parametrize("name", KEPT)
def test_a_checkpoint_of_this_version_goes_on(name: str) -> None:
    kept = start(name, MemoryStore.load(RELEASED / name / f"version-{log.VERSION}"))
    whole = start(name)
    write_kept(whole)
    whole.found.clear()
    for stream in (kept, whole):
        feed(stream, range(40, 50), 40_000)
        stream.batch(None, FOREVER)
    assert kept.lines == whole.lines != []


def write_kept(stream: Stream) -> None:
    """Feed the events that a kept checkpoint has read, and some that still wait."""
    for first in (0, 20):
        feed(stream, range(first, first + 20), 1000 * first or None)
    stream.batch(None, 30_000)


def write_missing_checkpoints() -> None:
    log.SMALLEST_SNAPSHOT = 1
    for name in KEPT:
        folder = RELEASED / name / f"version-{log.VERSION}"
        if not folder.exists():
            stream = start(name)
            write_kept(stream)
            stream.stores[0].save(folder)


if __name__ == "__main__":
    write_missing_checkpoints()
