"""Rules of different shapes share an engine in a bucket whose events come out of order.

Within the allowed lateness, neither the order of arrival nor the micro-batches nor restarts change
what the oracle finds. Without Spark: the state store is a dictionary.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.events.order import Scale
from cernis.run.rules.shared.shared_rules import SMALLEST
from cernis.run.session import RunOptions
from cernis.testing.rules import evaluate_rules
from cernis.work import log
from cernis.work.bucket import Bucket, BucketWork, restore_bucket
from cernis.work.carriers import write_blob
from cernis.work.columns import ROW
from cernis.work.query import line_schema
from cernis.work.reading import RowWork, StreamColumns
from cernis.work.rule_record import BucketGroup, RuleKey, RuleRecord, RuleText, RuleVersion
from cernis.work.rules import RuleWork
from tools.cases.differential import (
    MatchTriple,
    assert_agrees,
    assert_suppression_agrees,
    comparable_match,
)
from tools.cases.state_store import MemoryStore

few = settings(
    max_examples=max(8, settings.default.max_examples // 8),
    suppress_health_check=list(HealthCheck),
)
FOREVER = 2**40
HOSTS = ("h0", "h1", "h2")
SCHEMA = pa.schema(
    {
        "type": pa.string(),
        "host": pa.string(),
        "user": pa.string(),
        "size": pa.int64(),
        "ts": pa.int64(),
        ROW: pa.int64(),
    }
)
READERS = {
    "pairs of D": "SELECT * FROM D WHERE D AS x ; D AS y",
    "D after A": "SELECT * FROM S, D WHERE S>A AS a : D AS x FILTER x[size > 1]",
}


def make_rule(random: Random, window: bool, silences: bool, inserts: bool) -> str:
    """Return a rule on the events of one host, or of two."""
    names = "abc"[: random.randint(1, 3)]
    steps = [f"{random.choice(['A', 'B', '*'])} AS {name}" for name in names]
    if len(steps) > 1:
        steps[-1] = steps[-1].replace(" AS ", random.choice((" AS ", "+ AS ", "{1,2} AS ")))
    if len(steps) > 2 and random.random() < 0.5:
        steps[:2] = [f"({steps[0]} OR {steps[1]})"]
    host = random.choice(HOSTS)
    tests = [f"{name}[host = '{host}']" for name in names]
    if random.random() < 0.3:
        tests[0] = f"{names[0]}[host IN {{'{host}', 'h2'}}]"
    if random.random() < 0.5:
        condition = random.choice(("size > {}", "size <= {}", "size != {}", "size IS NULL"))
        tests.append(f"{random.choice(names)}[{condition.format(random.randint(0, 3))}]")
    chosen = random.choice(("*", names[-1]))
    if inserts:  # the value of the end: matches of one end have no order
        chosen = f"LAST({names[-1]}[size]) AS size"
    within = f"WITHIN {random.randint(2, 4)} ms" if window else ""
    silence = f"SUPPRESS BY [user] FOR {random.randint(1, 4)} ms" if silences else ""
    return (
        f"{'INSERT INTO D ' * inserts}SELECT {chosen} FROM S WHERE ({' ; '.join(steps)}) "
        f"FILTER {' AND '.join(tests)} PARTITION BY [user] {within} {silence}"
    )


def make_rules(random: Random) -> dict[str, str]:
    """Return rules of two kinds, and rules that read the stream that some insert into."""
    kinds = ((False, False), (True, False), (False, True), (True, True))
    texts = {}
    for silences, inserts in random.sample(kinds, 2):
        window = random.random() < 0.7
        for i in range(SMALLEST):
            name = f"{'silent ' * silences}{'maker ' * inserts}{i}"
            texts[name] = make_rule(random, window, silences, inserts)
    return texts | READERS if any("INSERT" in text for text in texts.values()) else texts


def make_events(random: Random) -> list[dict[str, Any]]:
    """Return events in the order of time, some at the same time."""
    events, ts = [], 0
    for _ in range(random.randint(1, 9)):
        ts += random.choice((0, 1, 1, 2))
        event = {"type": random.choice("AAB"), "host": random.choice((*HOSTS[:2], *HOSTS))}
        event |= {"user": random.choice(("x", "x", "y", None)), "size": random.choice((0, 1, 2, 3))}
        event |= {"size": None} if random.random() < 0.1 else {}
        events.append({**event, "ts": ts})
    return events


@dataclass
class DisorderedRun:
    """Rules on micro-batches of one bucket, by several workers."""

    stream: BucketWork
    store: MemoryStore
    workers: list[dict[int, Bucket]]

    @classmethod
    def of(cls, texts: dict[str, str]) -> DisorderedRun:
        columns = {name: name for name in SCHEMA.names if name != ROW}
        reading = RowWork(
            streams=(StreamColumns(name="S", columns=columns),),
            reading=RunOptions(time="ts"),
            scale=Scale(10**6, 10**6),
        )
        lines = line_schema(reading, SCHEMA)
        work = RuleWork(**{**reading.__dict__, "rows": SCHEMA, "schema": lines})
        rules = tuple(RuleText(name, str(cernis.query(text))) for name, text in texts.items())
        record = RuleRecord((BucketGroup(RuleKey(), (0,)),), (RuleVersion(0, (rules,)),))
        stream = BucketWork(work=work, query="q", buckets=(0,), numbered=True, record=record)
        return cls(stream, MemoryStore(), [{}, {}])

    def batch(
        self, rows: list[dict[str, Any]], watermark: int | None, worker: int, *, fails: bool = False
    ) -> list[dict[str, Any]]:
        """Return the lines of a micro-batch; one that fails writes nothing."""
        store, live = self.store.copy() if fails else self.store, self.workers[worker]
        bucket = restore_bucket(self.stream, 0, store, live.pop(0, None))
        bucket.revise(store, 0)
        blobs = [write_blob(pa.Table.from_pylist(rows, SCHEMA))] if rows else []
        found = [
            json.loads(line)
            for batch in bucket.take(store, blobs, watermark, lambda _, __: None)
            for line in batch.column("line").to_pylist()
        ]
        assert bucket.late is None
        live[0] = bucket
        return found


def run_disordered(
    random: Random, texts: dict[str, str], events: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the lines of all rules, for events in any order within the lateness."""
    run, lateness = DisorderedRun.of(texts), random.choice((0, 1, 3, 10))
    rows = [{**event, ROW: row} for row, event in enumerate(events)]
    # an event that comes before one that is `lateness` earlier is within the lateness
    rows.sort(key=lambda row: row["ts"] - random.randint(0, lateness))
    found: list[dict[str, Any]] = []
    seen: int | None = None
    while rows:
        size = random.randint(1, 5)
        now, rows = rows[:size], rows[size:]
        watermark = None if seen is None else seen - lateness
        match random.choice(("fine", "fine", "fails", "restarts")):
            case "fails":
                run.batch(
                    now[: random.randint(0, size)], watermark, random.randint(0, 1), fails=True
                )
            case "restarts":
                run.workers = [{}, {}]
        found += run.batch(now, watermark, random.randint(0, 1))
        times = [row["ts"] for row in now]
        seen = max(times if seen is None else [seen, *times])
    return found + run.batch([], FOREVER, random.randint(0, 1))


@pytest.fixture(autouse=True)
def _small_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SMALLEST_SNAPSHOT", 1 << 11)


@few
@given(st.integers(0, 2**32))
def test_bundles_find_what_the_oracle_finds_in_any_order_of_arrival(seed: int) -> None:
    random = Random(seed)
    texts, events = make_rules(random), make_events(random)
    rules = cernis.rules(texts)
    assert sum(len(bundle.rules) for bundle in rules.bundles) >= SMALLEST
    found: dict[str, list[tuple[MatchTriple, int | None]]] = {name: [] for name in texts}
    for line in run_disordered(random, texts, events):
        triple = line["start"], line["end"], line["vars"]
        found[line["rule"]].append((triple, line.get("suppressed")))
    own = [{name: value for name, value in e.items() if value is not None} for e in events]
    patterns = {rule.name: rule.query.pattern for rule in rules}
    derived = evaluate_rules(patterns, own)
    for name, pattern in patterns.items():
        matches = [match for match, _ in found[name]]
        if pattern.suppress is not None:
            assert_suppression_agrees(pattern, own, found[name])
        elif name in READERS:
            expected = Counter(map(comparable_match, derived[name]))
            assert Counter(map(comparable_match, matches)) == expected, name
        else:
            assert_agrees(pattern, own, matches)
