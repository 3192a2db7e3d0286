"""`SparkExplanation`: the report of how Spark will run a query.

Nothing runs, unless `measure` asks for the share of relevant events: one job counts them, and
finds what is odd about the events (`notes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from cernis.automata.unary.cea import Is, write_test
from cernis.errors import CernisError, WarningNote
from cernis.integers import count_noun
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Unit, Window
from cernis.pattern.write import write_window
from cernis.plan.plan import Distribution
from cernis.plan.reach import bound_match
from cernis.plan.report import write_entry
from cernis.run.query import Query
from cernis.spark.notes import Notes, Sights, WatchedQuery
from cernis.spark.numbering import describe_numbers
from cernis.spark.options import JobOptions
from cernis.spark.prepare import QueryJob, has_whole_groups, prepare_job
from cernis.spark.relevance import make_masks
from cernis.spark.slices import APART, HOT
from cernis.work.layout import Layout
from cernis.work.row_groups import RowGroups


@dataclass(frozen=True)
class SparkExplanation:
    """The decisions about a query on DataFrames; `str()` is the report."""

    job: QueryJob
    share: float | None = None
    """The share of relevant events; None if they were not counted."""
    notes: Sequence[WarningNote] = ()
    """Warnings about the events, if they were counted."""

    def __str__(self) -> str:
        job = self.job
        lines = [str(job.query.explain())]
        lines += write_entry("on Spark", [*_describe_layout(job)])
        if job.unread:
            lines += write_entry("files", [f"Spark reads them: {job.unread}"])
        if job.plan.pattern.grouping is not None:
            lines += write_entry("groups", [_describe_groups(job)])
        lines += write_entry("in Catalyst", [*_describe_predicates(job)])
        lines += write_entry("dropped", [*_describe_drops(job, self.share)])
        lines += write_entry("travelling", [*_describe_columns(job)])
        lines += write_entry("rows", [_describe_rows(job)])
        for note in self.notes:
            lines += write_entry("warning", note.splitlines())
        return "\n".join(lines)


def explain(
    events: Any,
    query: str | Query | Pattern,
    *,
    lang: str = "ceql",
    measure: bool = False,
    **options: Any,
) -> SparkExplanation:
    """Explain how a query runs on DataFrames; `measure` counts the relevant events.

    The same job then finds what is odd about the events: `notes` has warnings as those of a run.
    """
    job = prepare_job(events, query, JobOptions(**options), lang=lang)
    if measure and job.is_streaming:
        raise CernisError("the events of a stream cannot be counted before they come")
    return _measure(job) if measure else SparkExplanation(job)


def _measure(job: QueryJob) -> SparkExplanation:
    """Count the events, the relevant ones, and what is odd about them."""
    fitting, sights, notes = 0, Sights(), Notes()
    notes.watch_batch(WatchedQuery(job.plan), job.frames)
    for frame in job.frames:
        fits = job.pushdown.relevance[frame.stream]
        counted = F.lit(True) if fits is None else F.coalesce(fits, F.lit(False))
        fitting_rows = F.count_if(counted).alias("fitting")
        row = frame.data.agg(fitting_rows, *notes.batch_columns(frame)).collect()[0].asDict()
        sights.add(row)
        fitting += row["fitting"]
    share = fitting / sights.rows if sights.rows else None
    return SparkExplanation(job, share, notes.read(sights))


def _describe_stream(job: QueryJob) -> Iterator[str]:
    buckets = f"{job.tasks} bucket{'' if job.tasks == 1 else 's'}"
    if job.layout.distribution is Distribution.KEYED:
        yield f"streaming: by a hash of {_describe_key(job)}, {buckets}"
    else:
        yield f"streaming: {buckets}; what would make it parallel: {job.layout.parallel}"
    windowed = "the events of the window, and those that wait for the watermark"
    whole = "snapshots of the engine, and the events since the last one"
    yield f"state: {whole if job.window is None else windowed}"


def _describe_key(job: QueryJob) -> str:
    if job.plan.pattern.partition:
        return ", ".join(" or ".join(group) for group in job.plan.pattern.spreading_groups)
    return ", ".join(f"{t}.{name}" for t, name in sorted((job.plan.key or {}).items()))


def _describe_layout(job: QueryJob) -> Iterator[str]:
    if job.is_streaming:
        yield from _describe_stream(job)
        return
    if job.groups is not None:
        yield from _describe_files(job, job.groups)
        return
    if job.arrangement.together:
        sorted_ = job.arrangement.ordered and job.options.row is None
        order = "nor sorted" if sorted_ else "but sorted"
        yield f"{job.layout.distribution.value}: rows lie together already, not shuffled {order}"
        return
    layout, tasks = job.layout, f"{job.tasks} tasks"
    match layout.distribution:
        case Distribution.SINGLE:
            yield f"single: 1 task; what would make it parallel: {layout.parallel}"
        case _ if job.tasks == 1:
            yield "1 task, as asked for" if job.options.tasks else "1 task: the rows are few"
        case Distribution.KEYED:
            yield f"keyed: by a hash of {_describe_key(job)}, {tasks}"
            if layout.cut and job.options.sample:
                yield f"a task with {HOT} times its share of events is cut into slices of time"
        case Distribution.SLICED:
            line = "positions" if layout.ranked else "time"
            yield f"sliced: {tasks}, each with a slice of {line}; cuts are quantiles"
            around = _describe_around(job.query.pattern, job.layout)
            if around:
                yield f"a slice reads {around} as well: at most 1 event in {APART} twice"
    if layout.ranked:
        yield "events are numbered first, over the whole stream: one more shuffle"


def _describe_files(job: QueryJob, groups: RowGroups) -> Iterator[str]:
    tasks, files = count_noun(job.tasks, "task"), count_noun(groups.files, "Parquet file")
    if job.layout.distribution is Distribution.SINGLE:
        yield f"single: 1 task; what would make it parallel: {job.layout.parallel}"
    read = "reads" if job.tasks == 1 else "read"
    yield f"{tasks} {read} the row groups of {files}, in order of time; Spark moves no row"
    around = _describe_around(job.query.pattern, job.layout)
    if job.tasks > 1 and around:
        yield f"a task reads {around} as well: at most each row twice"


def _describe_around(pattern: Pattern, layout: Layout) -> str:
    """Return how far a slice reads around itself, in units of time or events."""
    sides = []
    unit = Unit.EVENTS if layout.counts_in_slices else Unit.TIME
    if pattern.within is not None and not pattern.within.plain:
        sides.append(f"the {write_window(pattern.within).lower()} before it")
    elif pattern.within is None and (bound := bound_match(pattern, unit)):
        sides.append(f"the {write_window(Window(unit, bound)).lower()} before it")
    if pattern.absent_before is not None:
        length = write_window(pattern.absent_before.within).lower()
        sides.append(f"{length} more" if sides else f"the {length} before it")
    if pattern.absent_after is not None:
        sides.append(f"the {write_window(pattern.absent_after.within).lower()} after it")
    return " and ".join(sides)


def _describe_groups(job: QueryJob) -> str:
    if has_whole_groups(job):
        return "each in one task, which reports it"
    return "each task gives its part, and Spark adds the parts up: one more shuffle, of parts"


def _describe_predicates(job: QueryJob) -> Iterator[str]:
    if job.groups is not None:
        yield "nothing: tasks read the files"
        return
    bits = len(job.pushdown.translated)
    yield f"{bits} of {len(job.pushdown.atoms)} predicates, as bits of one integer"
    frame, left = job.frames[0], job.pushdown.left
    reasons = make_masks(left, frame.columns, frame.type, frame.stream).untranslated
    for atom in left:
        why = f" ({reasons[atom]})" if atom in reasons else ""
        yield f"in Python: {write_test(Is(atom))}{why}"


def _describe_drops(job: QueryJob, share: float | None) -> Iterator[str]:
    layout = job.layout
    measured = "" if share is None else f": {1 - share:.1%} of the events here"
    if all(job.pushdown.relevance[frame.stream] is None for frame in job.frames):
        yield f"nothing: {_why_all(job)}"
    elif job.groups is not None:
        yield f"in the tasks, events that no test passes{measured}"
    elif not layout.why_all and (layout.ranked or job.arrangement.together):
        yield f"before Python, events that no test passes{measured}"
    elif layout.why_all:
        yield f"nothing, {layout.why_all}; what no test passes travels without attributes{measured}"
    else:
        yield f"before the shuffle, events that no test passes{measured}"


def _why_all(job: QueryJob) -> str:
    if not job.options.pushdown:
        return "predicates stay in Python (pushdown=False)"
    if any(isinstance(node, cel.Not) for node in cel.walk(job.plan.pattern.formula)):
        return "NOT looks at every event"
    return "some test may pass on any event"


def _describe_columns(job: QueryJob) -> Iterator[str]:
    for frame in job.frames:
        names = [*job.columns[frame.stream]]
        about = f"{frame.stream}: " if len(job.frames) > 1 else ""
        shown = ", ".join(names) if names else "none"
        yield f"{about}{len(names)} of {count_noun(len(frame.fields), 'column')}: {shown}"


def _describe_rows(job: QueryJob) -> str:
    if job.is_streaming and job.options.row is None:
        return "numbered as they come, in each bucket"
    return f"numbered by {describe_numbers(job.frames[0], job.options.row)}"
