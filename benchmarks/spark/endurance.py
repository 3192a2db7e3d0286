"""`cernis bench endless-spark`: memory and time along micro-batches that do not end.

The twin of `benchmarks.endurance` on Spark: a query of each class there, one in SPAseQ and a rule
set run as streaming queries of one session. `make endless-spark MINUTES=60` is the long form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median

from benchmarks.benchmark import Benchmark, Step
from benchmarks.endurance import QUERIES
from benchmarks.record import Case, Record, divide, select
from benchmarks.scale import BenchmarkScale
from benchmarks.spark.endurance_process import GRAPHS, RULES, HourSample, observe_hour
from benchmarks.table import Columns, Table, tabulate
from cernis.errors import CernisError

NAME = "endless-spark"
VARIABLE = "CERNIS_ENDLESS_MINUTES"
CLASSES = (*QUERIES, GRAPHS, RULES)
_SPANS = ("first fifth", "first half of the rest", "second half")
_PARTS = {"memory": "part", "seconds of a micro-batch": "query"}


def choose_minutes(scale: BenchmarkScale) -> float:
    """Return how long the queries run; the environment may say another number."""
    chosen = os.environ.get(VARIABLE, "")
    if not chosen:
        return scale.endless_minutes
    if not chosen.isdecimal():
        raise CernisError(f"{VARIABLE} is {chosen!r}; it must be a number of minutes")
    return int(chosen)


def run_endless_spark(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure all classes side by side."""
    minutes = choose_minutes(scale)
    kinds = list(scale.endless_classes or CLASSES)
    step(f"{len(kinds)} queries, {minutes:g} minutes", 0, 1)
    samples = observe_hour(kinds, QUERIES, minutes, scale.endless_samples)
    return [*_record_samples(samples), *_record_ratios(samples)]


def _record_samples(samples: Sequence[HourSample]) -> Iterator[Record]:
    for sample in samples:
        for part, value in sample.memory.items():
            case: Case = {"part": part, "micro-batches": sample.batches}
            yield Record(NAME, "memory", value, "B", case)
        for kind, seconds in sample.seconds.items():
            case = {"query": kind, "micro-batches": sample.batches}
            yield Record(NAME, "seconds of a micro-batch", seconds, "s", case)
            yield Record(NAME, "state", sample.state[kind], "B", case)


def _split(samples: Sequence[HourSample]) -> tuple[Sequence[HourSample], ...]:
    """Return the first fifth, in which everything warms up, and both halves of the rest.

    Logs and snapshots grow and shrink in turns, so that a few samples say little.
    """
    settled = max(1, len(samples) // 5)
    middle = (settled + len(samples)) // 2
    return samples[:settled], samples[settled:middle], samples[middle:]


def _record_ratios(samples: Sequence[HourSample]) -> Iterator[Record]:
    """Yield what the second half of the time needs, in multiples of the first half."""
    spans = dict(zip(_SPANS, _split(samples), strict=True))
    for part in samples[0].memory:
        case: Case = {"part": part}
        used = {span: mean(s.memory[part] for s in some) for span, some in spans.items()}
        for span, value in used.items():
            yield Record(NAME, f"mean memory, {span}", value, "B", case)
        early, late = (used[span] for span in _SPANS[1:])
        yield Record(NAME, "memory, second half to first", divide(late, early), "×", case)
    for kind in samples[0].seconds:
        case = {"query": kind, "micro-batches": samples[-1].batches}
        halves = [spans[span] for span in _SPANS[1:]]
        spent = [median(s.seconds[kind] for s in some) for some in halves]
        kept = [max(s.state[kind] for s in some) for some in halves]
        yield Record(NAME, "median of a micro-batch", spent[1], "s", case)
        yield Record(NAME, "time, second half to first", divide(spent[1], spent[0]), "×", case)
        yield Record(NAME, "most state", kept[1], "B", case)
        yield Record(NAME, "state, second half to first", divide(kept[1], kept[0]), "×", case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with the parts of the session, and one with a row per class."""
    ratio = "second half to first"
    session: Columns = {
        "": "part",
        **{f"{span}, MiB": f"mean memory, {span}" for span in _SPANS},
        ratio: f"memory, {ratio}",
    }
    state = {tuple(r.case.values()): r.value or 0 for r in select(records, "most state")}
    classes: Columns = {
        "query": "query",
        "micro-batches": "micro-batches",
        "CPU seconds of a micro-batch": "median of a micro-batch",
        f"time, {ratio}": f"time, {ratio}",
        "most state, KiB": lambda case: f"{state[tuple(case.values())] / 1024:,.0f}",
        f"state, {ratio}": f"state, {ratio}",
    }
    return [
        tabulate(records, "Memory of the session", f"memory, {ratio}", session),
        tabulate(records, "Each query", "median of a micro-batch", classes),
    ]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return memory and time along the way, relative to the first fifth."""
    points: list[Mapping[str, object]] = []
    for measure, name in _PARTS.items():
        lines: dict[int | str, list[Record]] = {}
        for record in select(records, measure):
            lines.setdefault(record.case[name], []).append(record)
        for line, own in lines.items():
            base = median(r.value or 0 for r in own[: max(1, len(own) // 5)])
            points += [
                {
                    "line": line,
                    "what": measure,
                    "micro-batches": r.case["micro-batches"],
                    "ratio": divide(r.value, base),
                }
                for r in own
            ]
    return points


ENDLESS_SPARK = Benchmark(
    name=NAME,
    title="Endless micro-batches",
    question="""
Do streaming queries that run for long need more and more memory, or more and more time? One session
on Spark runs a query of each class, one in SPAseQ, and a rule set of all classes, over files of
events with keys and times that go on. Memory, state and the processor time of a micro-batch are
noted on the way. The first fifth of the time is for warming up. The tables compare the two halves
of the rest: the mean memory, the most state, and the median time. `make endless-spark MINUTES=60`
runs longer.

State grows and shrinks in turns: a bucket writes a snapshot when its log outweighs the one before.
Checkpoints are files on disk, and have the list of all files that Spark's source has read: some
hundred bytes for each, which a topic does not need.
Spark keeps logs of the past that grow for hours by default. The session bounds them, as [a stream
that runs for long](../how-to/stream-files.md#for-weeks) should. Java has its whole heap from the
beginning, so that its process gains only what lies outside the heap.
""",
    run=run_endless_spark,
    tables=build_tables,
    points=build_points,
)
