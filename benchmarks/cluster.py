"""`cernis bench cluster`: a stream on many machines, simulated with measured constants.

Nothing runs on a cluster. Micro-batches are simulated, one after the other: sources are late by
different amounts, keys go to partitions by their hash, partitions to cores in turn, a core reads as
many rows in a second as one was measured to, and the next micro-batch takes what has come
meanwhile. State is the rows that the window and the watermark hold. Cost: some milliseconds for
each simulated micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.benchmark import Benchmark, Step
from benchmarks.record import Record, find
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number, tabulate

NAME = "cluster"
SEED = 20
DAY = 86_400
FULL_DAY = 10**12
"""Events a day."""

ROWS = 78_400.0
"""Rows of one core in a second: `cernis bench streaming`, recognized, the slowest keys."""
FIXED = 1.4
"""Seconds of a micro-batch with next to no rows: `cernis bench streaming`, a small batch."""
STORED = 13.8
"""Bytes of an event of two numbers in the state: `cernis bench streaming`, a million."""
SHUFFLED = 48.0
"""Bytes of a row in the shuffle, assumed: key, time, code, two numbers, overhead."""
PREFIX = 1000
"""Keys whose shares are reckoned one by one; the others are spread evenly."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A stream and the machines that read it."""

    events: float = FULL_DAY / DAY
    """In a second."""
    cores: int = 200
    window: float = 600.0
    """Seconds."""
    keys: int = 10**8
    skew: float = 0.0
    """The exponent of Zipf's law; 0: all keys are alike."""
    late: float = 0.0
    """By how many seconds the slowest source is behind."""
    dropped: float = 0.0
    """The share of events that Catalyst drops before the shuffle."""


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """What a simulation has found."""

    busy: float
    """The share of the time in which the busiest core works."""
    hottest: float
    """The share of events that one key has."""
    batch: float
    """Seconds of a micro-batch, the median of the last half."""
    latency: float
    """Seconds from an event to the end of its micro-batch, and the watermark, at most."""
    state: float
    """Bytes."""
    backlog: float
    """The events that wait at the end, as a share of those that came."""


def share_keys(keys: int, skew: float) -> tuple[npt.NDArray[np.float64], float]:
    """Return the shares of the most frequent keys, and what all others have together.

    >>> shares, rest = share_keys(10**6, 1.1)
    >>> round(float(shares[0]), 2), round(float(shares.sum() + rest), 6)
    (0.12, 1.0)
    """
    first = np.arange(1, min(keys, PREFIX) + 1, dtype=np.float64) ** -skew
    low, high = min(keys, PREFIX) + 0.5, keys + 0.5
    rest = (
        np.log(high / low) if skew == 1 else (high ** (1 - skew) - low ** (1 - skew)) / (1 - skew)
    )
    total = first.sum() + rest
    return first / total, float(rest / total)


def load_cores(cluster: Cluster) -> tuple[npt.NDArray[np.float64], float]:
    """Return the share of the events that each core reads, and the share of the most frequent key.

    There are as many partitions as cores. A key is never split.
    """
    shares, rest = share_keys(cluster.keys, cluster.skew)
    chance = np.random.default_rng(SEED)
    loads = np.bincount(
        chance.integers(0, cluster.cores, len(shares)), shares, minlength=cluster.cores
    )
    return np.asarray(loads + rest / cluster.cores, np.float64), float(shares[0])


def simulate(cluster: Cluster, seconds: float) -> ClusterOutcome:
    """Simulate micro-batches until so many seconds are over."""
    loads, hottest = load_cores(cluster)
    kept = cluster.events * (1 - cluster.dropped)
    now = waiting = 0.0
    batches: list[float] = []
    pending = FIXED
    while now < seconds:
        rows = waiting + kept * pending
        busiest = FIXED + rows * float(loads.max()) / ROWS
        # as a rate limit of the source does, a minute cuts a micro-batch
        taken = rows if busiest <= 60 else (60 - FIXED) * ROWS / float(loads.max())
        pending = min(busiest, 60.0)
        waiting = rows - taken
        now += pending
        batches.append(pending)
    batch = float(np.median(batches[len(batches) // 2 :]))
    return ClusterOutcome(
        busy=kept * float(loads.max()) / ROWS,
        hottest=hottest,
        batch=batch,
        latency=2 * batch + cluster.late,
        state=kept * (cluster.window + cluster.late + batch) * STORED,
        backlog=waiting / (kept * now),
    )


def find_limit(cluster: Cluster) -> float:
    """Return the events a day at which the busiest core has no time left: more pile up."""
    loads, _ = load_cores(cluster)
    return ROWS / (float(loads.max()) * (1 - cluster.dropped)) * DAY


CASES: Mapping[str, Cluster] = {
    "even keys, half the cores": Cluster(cores=100),
    "even keys": Cluster(),
    "even keys, 9 of 10 events dropped early": Cluster(cores=20, dropped=0.9),
    "a source is an hour late": Cluster(late=3600),
    "window of a day": Cluster(window=DAY),
    "skewed keys (Zipf 0.8)": Cluster(skew=0.8),
    "skewed keys (Zipf 1)": Cluster(skew=1.0),
    "skewed keys (Zipf 1.1)": Cluster(skew=1.1),
    "skewed keys (Zipf 1.1), ten times the cores": Cluster(skew=1.1, cores=2000),
}


def run_cluster(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Simulate each case."""
    records: list[Record] = []
    for done, (name, cluster) in enumerate(CASES.items()):
        step(name, done, len(CASES))
        records += _list_records(name, cluster, simulate(cluster, 60.0 * scale.cluster_minutes))
    for events in (10**9, 10**10, 10**11, 10**12):
        for skew in (0.0, 0.8, 1.0, 1.1):
            cores = int(np.ceil(1.5 * events / DAY / ROWS))
            cluster = replace(Cluster(), events=events / DAY, cores=cores, skew=skew)
            busy = simulate(cluster, 60.0 * scale.cluster_minutes).busy
            case = {"events a day": f"{events:.0e}".replace("+", ""), "skew": f"{skew:g}"}
            records.append(Record(NAME, "cores", cores, "", case))
            records.append(Record(NAME, "busiest", busy, "", case))
    return records


def _list_records(name: str, cluster: Cluster, found: ClusterOutcome) -> Iterator[Record]:
    case = {"case": name}
    kept = cluster.events * (1 - cluster.dropped)
    for measure, value, unit in (
        ("cores of it", cluster.cores, ""),
        ("shuffle", kept * SHUFFLED, "bytes/s"),
        ("shuffle for each core", kept * SHUFFLED / cluster.cores, "bytes/s"),
        ("state", found.state, "bytes"),
        ("state for each core", found.state / cluster.cores, "bytes"),
        ("hottest", found.hottest, ""),
        ("busy", found.busy, ""),
        ("batch", found.batch, "s"),
        ("latency", found.latency, "s"),
        *([("backlog", found.backlog, "")] if found.backlog >= 0.01 else []),
        ("limit", find_limit(cluster), "events/day"),
    ):
        yield Record(NAME, measure, value, unit, case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return what each case takes, where it breaks, and which rates keep up."""

    def say(case: Mapping[str, int | str]) -> str:
        return "yes" if (find(records, "busiest", **case) or 0.0) < 1 else "no"

    def write_backlog(case: Mapping[str, int | str]) -> str:
        share = find(records, "backlog", **case)
        return "none" if share is None else f"{share:.0%} of all events wait"

    constants = (
        (
            "rows of a core in a second",
            format_number(ROWS),
            "`cernis bench streaming`, recognized, 1,000 keys",
        ),
        (
            "seconds of a micro-batch without rows",
            f"{FIXED}",
            "`cernis bench streaming`, a small batch",
        ),
        (
            "bytes of an event in the state",
            f"{STORED}",
            "`cernis bench streaming`, 1 M events in the state",
        ),
        ("bytes of a row in the shuffle", f"{SHUFFLED:g}", "assumed, for two numbers"),
    )
    return [
        tabulate(
            records,
            "What 10^12 events a day take",
            "cores of it",
            {
                "case": "case",
                "cores": "cores of it",
                "shuffle, bytes/s": "shuffle",
                "for each core": "shuffle for each core",
                "state, bytes": "state",
                "state for each core": "state for each core",
            },
        ),
        tabulate(
            records,
            "Where it breaks",
            "busy",
            {
                "case": "case",
                "share of the hottest key": "hottest",
                "busiest core": "busy",
                "micro-batch, s": "batch",
                "latency, s": "latency",
                "backlog after an hour": write_backlog,
                "events a day at which it breaks": "limit",
            },
            "A busiest core above 1 has more to read than it can: the stream never catches up.",
        ),
        tabulate(
            records,
            "Which rates keep up, with half as many cores again as even keys need",
            "cores",
            {
                "events a day": "events a day",
                "skew of keys (Zipf)": "skew",
                "cores": "cores",
                "busiest core": "busiest",
                "keeps up": say,
            },
        ),
        Table("Constants", ("constant", "value", "measured by"), constants),
    ]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the load of the busiest core by events a day and skew."""
    return [
        {"events": float(str(r.case["events a day"])), "skew": r.case["skew"], "busiest": r.value}
        for r in records
        if r.measure == "busiest"
    ]


CLUSTER = Benchmark(
    name=NAME,
    title="A trillion events a day, simulated",
    question="""
What would 10^12 events a day (11.6 million a second) take on a cluster, and what breaks first?

This is a simulation, not a measurement: nothing here ran on more than one machine. It reckons with
what one core was measured to do, in proportion; network, disks and the scheduler cost nothing, so
real clusters need more. Two numbers of an event are kept; the window is ten minutes, keys are a
hundred million. [The explanation](../explanation/scale.md) says what follows.
""",
    run=run_cluster,
    tables=build_tables,
    points=build_points,
    method="The machine has no part in the numbers: they are computed.",
)
