"""`cernis bench endless`: memory and rate along a stream that does not end.

There is one process for each class of query, and for each set of rules. Its session reads batch
after batch; samples along the way have the memory of the process and the rate. `make endless
LENGTH=1000000000` is the long form. A set of rules that share no engine reads a twentieth of the
events; one of a thousand detections (`benchmarks.detections`) reads all, of a log of hosts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from benchmarks.benchmark import Benchmark, Step
from benchmarks.detections import detection_rules
from benchmarks.endurance_process import HOST_BATCH, observe_process
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, tabulate
from cernis.errors import CernisError

NAME = "endless"
VARIABLE = "CERNIS_ENDLESS_EVENTS"
SAMPLES = 20
SETTLED = SAMPLES // 5
"""The first samples, in which buffers grow to their working size."""

_RARE = "FILTER a[volume > 900] AND b[volume > 900]"
QUERIES = {
    "sequence": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} WITHIN 1000 EVENTS",
    "Kleene": "SELECT * FROM S WHERE (SELL AS a ; BUY+ AS b ; SELL AS c) FILTER c[volume > 980] "
    "WITHIN 20 EVENTS",
    "partitions": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} PARTITION BY [name] "
    "WITHIN 30 SECONDS",
    "fresh keys": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} PARTITION BY [visit] "
    "WITHIN 5 SECONDS",
    "forgotten keys": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} PARTITION BY [visit] "
    "WITHIN 20 EVENTS FORGET AFTER 5 SECONDS",
    "strategy": f"SELECT MAX * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} WITHIN 100 EVENTS",
    "consumed": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} PARTITION BY [name] "
    "WITHIN 30 SECONDS CONSUME BY PARTITION",
    "counted": "SELECT COUNT(*) FROM S WHERE (SELL AS a ; BUY AS b ; SELL AS c) WITHIN 1000 EVENTS",
    "grouped": "SELECT [name], COUNT(*) AS n FROM S WHERE (SELL AS a ; BUY AS b) "
    "PARTITION BY [name] WITHIN 100 EVENTS GROUP BY [name], EVERY 1 MINUTES",
    "equal values": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} AND a[name] = b[name] "
    "WITHIN 1000 EVENTS",
    "ordered values": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b) {_RARE} AND a[name] = b[name] "
    "AND a[price] < b[price] WITHIN 1000 EVENTS",
    "join": f"SELECT * FROM S WHERE (SELL AS a ALL BUY AS b) {_RARE} AND a[name] = b[name] "
    "WITHIN 1000 EVENTS",
    "residual": f"SELECT * FROM S WHERE (SELL AS a ; BUY AS b ; SELL AS c) {_RARE} AND "
    "c[volume > 900] AND a[name] = c[name] AND a[price] < c[price] WITHIN 100 EVENTS",
    "next": f"SELECT * FROM S WHERE (SELL AS a -> BUY AS b) {_RARE} AND a[name] = b[name] "
    "WITHIN 1000 EVENTS",
    "gap": f"SELECT * FROM S WHERE (SELL AS a ;[2 SECONDS] BUY AS b) {_RARE}",
    "absence": "SELECT * FROM S WHERE SELL AS a FILTER a[volume > 900] "
    "WITHOUT BUY FOR 1 SECONDS PARTITION BY [name]",
    "longest": "SELECT LONGEST v FROM S WHERE (SELL:+ AS v) PARTITION BY [visit] WITHIN 5 SECONDS",
}
"""A query of each class: of runtimes, windows, keys, strategies and aggregates."""

RULES = 200
RULE_SHARE = 20
"""Sets of rules read one event in so many."""
_RULE = "SELECT * FROM S WHERE (SELL AS a ; BUY AS b) FILTER {0} AND b[volume > 900] {1}"


def write_rules(condition: str, key: str = "") -> dict[str, str]:
    """Return rules that differ in a threshold and in the window, which has 1 to 5 seconds."""
    windows = (f"{key} WITHIN {1 + i % 5} SECONDS" for i in range(RULES))
    tests = (f"{condition} AND a[volume > {800 + i % 200}]" for i in range(RULES))
    pairs = zip(tests, windows, strict=True)
    return {f"r{i}": _RULE.format(test, window) for i, (test, window) in enumerate(pairs)}


RULE_SETS = {
    f"{RULES} rules": write_rules("a[price > 0]", "PARTITION BY [name]"),
    f"{RULES} rules, equal values": write_rules("a[name] = b[name]"),
}
"""Sets of rules that run alone, over the same events."""
DETECTIONS = "1,000 detections"


def choose_events(scale: BenchmarkScale) -> int:
    """Return how many events a session reads; the environment may say another number."""
    chosen = os.environ.get(VARIABLE, "")
    if not chosen:
        return scale.endless_events
    if not chosen.isdecimal() or int(chosen) < SAMPLES:
        raise CernisError(f"{VARIABLE} is {chosen!r}; it must be a number of at least {SAMPLES}")
    return int(chosen)


def run_endless(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure each class along the stream."""
    events = choose_events(scale)
    kinds = scale.endless_classes or (*QUERIES, *RULE_SETS, DETECTIONS)
    sets = {**RULE_SETS, DETECTIONS: detection_rules(1000)}
    records = []
    for done, kind in enumerate(kinds):
        own, texts = events, QUERIES.get(kind) or sets[kind]
        if kind in RULE_SETS:
            own = max(SAMPLES, events // RULE_SHARE)
        step(f"{kind}, {own:,} events", done, len(kinds))
        log, batch = ("hosts", HOST_BATCH) if kind == DETECTIONS else ("stock", scale.batch)
        observed = observe_process(texts, own, batch, SAMPLES, log)
        for sample in observed:
            case: Case = {"query": kind, "events": sample.events}
            records.append(Record(NAME, "memory", sample.bytes, "B", case))
            records.append(Record(NAME, "rate", sample.rate, "events/s", case))
        first, rest = observed[:SETTLED], observed[SETTLED:]
        case = {"query": kind, "events": own}
        memory = divide(max(s.bytes for s in rest), max(s.bytes for s in first))
        rate = divide(_middle([s.rate for s in rest]), _middle([s.rate for s in first]))
        records.append(Record(NAME, "most memory, to the first fifth", memory, "×", case))
        records.append(Record(NAME, "rate, to the first fifth", rate, "×", case))
        records.append(Record(NAME, "peak", max(s.bytes for s in observed), "B", case))
        records.append(
            Record(NAME, "median rate", _middle([s.rate for s in rest]), "events/s", case)
        )
    return records


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with a row per class."""
    columns = {
        "query": "query",
        "events": "events",
        "peak, MiB": "peak",
        "most memory, to the first fifth": "most memory, to the first fifth",
        "events/s": "median rate",
        "rate, to the first fifth": "rate, to the first fifth",
    }
    return [tabulate(records, "Along the stream", "peak", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return memory and rate along the stream, relative to the end of the first fifth."""
    points: list[Mapping[str, object]] = []
    for measure in ("memory", "rate"):
        for kind in dict.fromkeys(r.case["query"] for r in records):
            own = [r for r in select(records, measure) if r.case["query"] == kind]
            base = find(records, measure, **own[SETTLED - 1].case)
            points += [{**r.case, "what": measure, "ratio": divide(r.value, base)} for r in own]
    return points


ENDLESS = Benchmark(
    name=NAME,
    title="An endless stream",
    question="""
Does a session that runs for long need more and more memory, or more and more time? A session of
each class of query, of sets of 200 rules and of 1,000 detections, reads batch after batch, with
keys and times that go on; memory and rate are noted twenty times on the way, rates by processor
time. The number of events is that of `make endless LENGTH=…`, and a twentieth of it for the sets of
200 rules.
""",
    run=run_endless,
    tables=build_tables,
    points=build_points,
)
