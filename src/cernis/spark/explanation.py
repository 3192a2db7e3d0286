"""What Spark will do for a query, before it does it.

Nothing runs, unless the share of events that travel is asked for: then one job counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from cernis.automata.render import test_text
from cernis.automata.unary.cea import Is
from cernis.errors import CernisError
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern
from cernis.plan.explain import Explanation, entry
from cernis.plan.plan import Distribution
from cernis.run.query import Query
from cernis.spark.job import Job, Options, job_of
from cernis.spark.numbering import how_numbered
from cernis.spark.relevance import masks
from cernis.spark.slices import APART, HOT


@dataclass(frozen=True)
class SparkExplanation:
    """`str()` is the report; `job.matches().explain()` would print Spark's own plan."""

    job: Job
    share: float | None = None
    """Of the events, how many travel to the workers; None where that was not counted."""

    def __str__(self) -> str:
        job = self.job
        query = Explanation(job.query.plan, query=str(job.query.conjunctive or ""))
        lines = [str(query)]
        lines += entry("on Spark", [*_distributed(job)])
        lines += entry("in Catalyst", [*_predicates(job)])
        lines += entry("dropped", [*_dropped(job, self.share)])
        lines += entry("travelling", [*_columns(job)])
        lines += entry("rows", [_rows(job)])
        return "\n".join(lines)


def explain(
    events: Any,
    query: str | Query | Pattern,
    *,
    lang: str = "ceql",
    measure: bool = False,
    **options: Any,
) -> SparkExplanation:
    """How a query will be run on DataFrames; `measure` counts the events that will travel."""
    job = job_of(events, query, Options(**options), lang=lang)
    if measure and job.streaming:
        raise CernisError("the events of a stream cannot be counted before they come")
    return SparkExplanation(job, _share(job) if measure else None)


def _share(job: Job) -> float | None:
    """The part of all events that some test may pass."""
    total = fitting = 0
    for frame in job.frames:
        fits = job.relevance(frame)
        counted = F.lit(True) if fits is None else F.coalesce(fits, F.lit(False))
        row = frame.data.agg(F.count(F.lit(1)), F.count_if(counted)).collect()[0]
        total, fitting = total + row[0], fitting + row[1]
    return fitting / total if total else None


def _streamed(job: Job) -> Iterator[str]:
    """How a query is run on a stream that goes on."""
    buckets = f"{job.tasks} bucket{'' if job.tasks == 1 else 's'}"
    if job.layout.distribution is Distribution.KEYED:
        yield f"streaming: by a hash of {_key(job)}, {buckets}"
    else:
        yield f"streaming: {buckets}; what would make it parallel: {job.layout.parallel}"
    if job.window is not None:
        yield "state: the events of the window, and those that wait for the watermark"
    else:
        yield "state: snapshots of the engine, and the events since the last one"


def _key(job: Job) -> str:
    if job.plan.pattern.partition:
        return ", ".join(" or ".join(group) for group in job.plan.pattern.partition)
    return ", ".join(f"{t}.{name}" for t, name in sorted((job.plan.key or {}).items()))


def _distributed(job: Job) -> Iterator[str]:
    if job.streaming:
        yield from _streamed(job)
        return
    if job.arranged.together:
        order = "nor sorted" if job.arranged.ordered and job.options.row is None else "but sorted"
        yield f"{job.layout.distribution.value}: rows lie together already, not shuffled {order}"
        return
    layout, tasks = job.layout, f"{job.tasks} task{'' if job.tasks == 1 else 's'}"
    match layout.distribution:
        case Distribution.SINGLE:
            yield f"single: {tasks}; what would make it parallel: {layout.parallel}"
        case Distribution.KEYED:
            yield f"keyed: by a hash of {_key(job)}, {tasks}"
            if layout.cut and job.options.sample and job.tasks > 1:
                yield f"a task with {HOT} times its share of events is cut into slices of time"
        case Distribution.SLICED:
            line = "positions" if layout.ranked else "time"
            yield f"sliced: {tasks}, each with a slice of {line}; cuts are quantiles"
            yield from _overlap(job)
    if layout.ranked:
        yield "events are numbered first, over the whole stream: one more shuffle"


def _overlap(job: Job) -> Iterator[str]:
    within = job.query.pattern.within
    if within is not None and not within.plain:
        window = str(within).lower()
        yield f"a slice reads the {window} before it as well: at most 1 event in {APART} twice"


def _predicates(job: Job) -> Iterator[str]:
    bits = len(job.translated)
    yield f"{bits} of {len(job.atoms)} predicates, as bits of one integer"
    for frame in job.frames[:1]:
        kept = masks(job.left, frame.columns, frame.type, frame.stream).kept
        for atom in job.left:
            yield f"in Python: {test_text(Is(atom))}{_why(kept.get(atom))}"


def _why(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _dropped(job: Job, share: float | None) -> Iterator[str]:
    layout = job.layout
    told = "" if share is None else f": {1 - share:.1%} of the events here"
    if all(job.relevance(frame) is None for frame in job.frames):
        yield f"nothing: {_why_all(job)}"
    elif layout.ranked or (job.arranged.together and not layout.places):
        yield f"before Python, events that no test passes{told}"
    elif layout.places:
        yield f"nothing, {layout.places}; what no test passes travels without attributes{told}"
    else:
        yield f"before the shuffle, events that no test passes{told}"


def _why_all(job: Job) -> str:
    if not job.options.pushdown:
        return "predicates stay in Python (pushdown=False)"
    if any(isinstance(node, cel.Not) for node in cel.walk(job.plan.pattern.formula)):
        return "NOT looks at every event"
    return "some test may pass on any event"


def _columns(job: Job) -> Iterator[str]:
    for frame in job.frames:
        names = [*job.columns[frame.stream]]
        about = f"{frame.stream}: " if len(job.frames) > 1 else ""
        told = ", ".join(names) if names else "none"
        yield f"{about}{len(names)} of {len(frame.fields)} columns: {told}"


def _rows(job: Job) -> str:
    if job.streaming and job.options.row is None:
        return "numbered as they come, in each bucket"
    return f"numbered by {how_numbered(job.frames[0], job.options.row)}"
