"""`cernis bench endless-spark`: memory and time along micro-batches that do not end.

The twin of `cernis.bench.endurance` on Spark: a query of each class there, one in SPAseQ and a rule
set run as streaming queries of one session. `make endless-spark MINUTES=60` is the long form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from cernis.bench.benchmark import Benchmark, Step
from cernis.bench.endurance import QUERIES
from cernis.bench.record import Case, Record, divide, select
from cernis.bench.scale import BenchmarkScale
from cernis.bench.spark.endurance_process import GRAPHS, RULES, HourSample, observe_hour
from cernis.bench.table import Columns, Table, tabulate
from cernis.errors import CernisError

NAME = "endless-spark"
VARIABLE = "CERNIS_ENDLESS_MINUTES"
CLASSES = (*QUERIES, GRAPHS, RULES)
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


def _record_ratios(samples: Sequence[HourSample]) -> Iterator[Record]:
    """Yield what the rest of the time needs, in multiples of its first fifth."""
    settled = max(1, len(samples) // 5)
    first, rest = samples[:settled], samples[settled:]
    for part in samples[0].memory:
        case: Case = {"part": part}
        early, late = (max(s.memory[part] for s in some) for some in (first, rest))
        yield Record(NAME, "most memory, first fifth", early, "B", case)
        yield Record(NAME, "most memory, then", late, "B", case)
        yield Record(NAME, "most memory, to the first fifth", divide(late, early), "×", case)
    for kind in samples[0].seconds:
        case = {"query": kind, "micro-batches": samples[-1].batches}
        spent = [median(s.seconds[kind] for s in some) for some in (first, rest)]
        kept = [max(s.state[kind] for s in some) for some in (first, rest)]
        yield Record(NAME, "median of a micro-batch", spent[1], "s", case)
        yield Record(NAME, "micro-batch, to the first fifth", divide(spent[1], spent[0]), "×", case)
        yield Record(NAME, "most state", kept[1], "B", case)
        yield Record(NAME, "most state, to the first fifth", divide(kept[1], kept[0]), "×", case)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table with the parts of the session, and one with a row per class."""
    session: Columns = {
        "": "part",
        "first fifth, MiB": "most memory, first fifth",
        "then, MiB": "most memory, then",
        "most memory, to the first fifth": "most memory, to the first fifth",
    }
    state = {tuple(r.case.values()): r.value or 0 for r in select(records, "most state")}
    classes: Columns = {
        "query": "query",
        "micro-batches": "micro-batches",
        "CPU seconds of a micro-batch": "median of a micro-batch",
        "time, to the first fifth": "micro-batch, to the first fifth",
        "most state, KiB": lambda case: f"{state[tuple(case.values())] / 1024:,.0f}",
        "state, to the first fifth": "most state, to the first fifth",
    }
    return [
        tabulate(records, "Memory of the session", "most memory, first fifth", session),
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
noted on the way. `make endless-spark MINUTES=60` runs longer.
""",
    run=run_endless_spark,
    tables=build_tables,
    points=build_points,
)
