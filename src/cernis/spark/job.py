"""`recognize`: the matches of a query in DataFrames, as a DataFrame.

    rows ─ masks, relevance (Catalyst) ─▶ bucket or slice ─ shuffle ─ sort by time ─▶ worker

Nothing runs until the result is asked for. What reaches Python are the events that some
test of the automaton passes, with one integer for all predicates and the columns that are
shown or compared. `Job` holds all decisions; `explain` prints them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from math import ceil, floor
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cernis.automata.unary.cea import Test
from cernis.encoding.masks import BITS, mask_column
from cernis.errors import CernisError, DataError
from cernis.events.order import Scale
from cernis.events.source import stream_of
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.check import resolve
from cernis.pattern.query import Pattern
from cernis.plan.plan import Distribution, Plan
from cernis.run.budget import CANDIDATE_BUDGET, OnBudget
from cernis.run.query import Query
from cernis.schema import Schema
from cernis.spark import slices
from cernis.spark.arrangement import Arrangement, arrangement
from cernis.spark.carriers import carried
from cernis.spark.frame import MOMENT, Frame, arrow_type, frames_of
from cernis.spark.keys import has_key, implied_hash, partition_hash
from cernis.spark.layout import Layout, layout, streamed, window_in_ticks
from cernis.spark.numbering import count_before, numbered, repeatable
from cernis.spark.relevance import masks, relevant
from cernis.spark.requirements import asked, needed
from cernis.spark.slices import Line
from cernis.spark.worker import (
    BUCKET,
    PLACE,
    ROW,
    STREAM,
    TICKS,
    Part,
    Wanted,
    Work,
    answer_schema,
    recognize_rows,
)

OnRows = Literal["fail", "skip"]

SAMPLE = 0.02
DEFAULT_TASKS = "200"  # what Spark has for spark.sql.shuffle.partitions unless told otherwise


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a query is run on Spark."""

    time: str | None = None
    type: str = "type"
    time_unit: str = "ms"
    row: str | None = None
    matches: Wanted = "events"
    tasks: int | None = None
    sample: float = SAMPLE
    pushdown: bool = True
    on_error: OnRows = "fail"
    budget: int = CANDIDATE_BUDGET
    on_budget: OnBudget = "fail"
    placed: bool = False
    """A last column says in which order the matches of one end are found."""
    limit: int | None = None
    """Each task may stop after so many matches: no more of its first ones are wanted."""
    ids: bool = False
    corrupt: str | None = None


def recognize(
    events: Any,
    query: str | Query | Pattern,
    *,
    lang: str = "ceql",
    time: str | None = None,
    type: str = "type",
    time_unit: str = "ms",
    row: str | None = None,
    matches: Wanted = "events",
    tasks: int | None = None,
    sample: float = SAMPLE,
    pushdown: bool = True,
    on_error: OnRows = "fail",
    budget: int = CANDIDATE_BUDGET,
    on_budget: OnBudget = "fail",
    ids: bool = False,
    lateness: str | timedelta = "0 seconds",
    ahead: str | timedelta | None = "1 hour",
    late_output: str | None = None,
    corrupt: str | None = None,
    checkpoint: str | None = None,
) -> Any:
    """The matches in a DataFrame (or several, in a dict by stream), as a lazy DataFrame.

    `time`, `type` and `time_unit` are those of `Query.run`. `row` names a column of row
    numbers, which break ties of time; without it rows are numbered as they come.
    `matches="count"` gives the number of matches at each end, `matches="lines"` each match as
    a line of JSON with row numbers, as the command line writes it. `tasks` is how many tasks the
    work is spread over; `sample` is the share of the events by which time is cut into slices,
    and by which keys are found that have far too many of them (0: they are not looked for,
    which saves a look at all keys and times). `pushdown=False` evaluates predicates
    in Python, to measure what Catalyst saves. `on_error` is what becomes of rows without a
    usable time. `budget` holds for each task. With `ids`, a column `id` names each match, the
    same whenever its events have the same rows.

    Of streaming DataFrames the result is one, too. `lateness` is how long after later ones an
    event may still come; matches are reported when it has passed. Events that come later
    than that are counted, and so are those that lie more than `ahead` after the clock of the
    machine (None: there are none), and bad ones, if `on_error="skip"`; `late_output` is a
    folder where all of these are written to. `corrupt` names a column that is not NULL where a
    row could not be decoded. `checkpoint` is the folder that the query will be started with: it
    is refused here and now if it belongs to another query. There, `tasks` is the number of
    buckets that keys are spread over, which stays the same for a checkpoint, and `budget` holds
    for each of them in each micro-batch. The rest is for batches alone.
    """
    options = Options(
        time=time,
        type=type,
        time_unit=time_unit,
        row=row,
        matches=matches,
        tasks=tasks,
        sample=sample,
        pushdown=pushdown,
        on_error=on_error,
        budget=budget,
        on_budget=on_budget,
        ids=ids,
        corrupt=corrupt,
    )
    job = job_of(events, query, options, lang=lang)
    if not job.streaming:
        return job.matches()
    from cernis.spark.streaming.recognize import Live, StreamJob  # it needs more of Spark

    live = Live(
        lateness=lateness,
        ahead=ahead,
        late_output=late_output,
        checkpoint=checkpoint,
    )
    return StreamJob(job, live).matches()


def recognizer(query: str | Query | Pattern, **options: Any) -> Callable[[Any], Any]:
    """The same for `df.transform(recognizer(query))`."""
    return partial(recognize, query=query, **options)


def job_of(
    events: Any, query: str | Query | Pattern, options: Options, *, lang: str = "ceql"
) -> Job:
    """What `recognize` decides before anything runs."""
    _check(options)
    if not isinstance(query, Query):
        query = Query(query, lang=lang)
    pattern = query.pattern
    frames = frames_of(
        events,
        pattern.streams,
        time=options.time,
        type=options.type,
        time_unit=options.time_unit,
        row=options.row,
        corrupt=options.corrupt,
    )
    schema = Schema(tuple(stream_of(frame.stream, frame.arrow) for frame in frames))
    if pattern.declared is None:
        resolve(pattern, schema)
    plan = query.plan.for_schema(schema)
    if frames[0].source.isStreaming:
        return Job(query, plan, streamed(plan), frames, options)
    if options.corrupt is not None:
        raise CernisError(
            f"corrupt={options.corrupt!r} is for streams; of a batch, filter such rows first"
        )
    timed = frames[0].time is not None
    countable = timed or all(repeatable(frame, options.row) for frame in frames)
    spread = layout(plan, timed=timed, countable=countable)
    if spread.ranked:
        plan = plan.by_rank()
    return Job(query, plan, spread, frames, options)


def _check(options: Options) -> None:
    if options.matches not in ("events", "count", "lines"):
        raise CernisError(f"matches={options.matches!r}: expected 'events', 'count' or 'lines'")
    if options.on_error not in ("fail", "skip"):
        raise CernisError(f"on_error={options.on_error!r}: expected 'fail' or 'skip'")
    if not 0 <= options.sample <= 1:
        raise CernisError(f"sample={options.sample}: expected a share between 0 and 1")
    if options.tasks is not None and options.tasks < 1:
        raise CernisError(f"tasks={options.tasks}: at least one task is needed")


@dataclass(frozen=True)
class Job:
    """A query on DataFrames, decided and not yet run."""

    query: Query
    plan: Plan
    layout: Layout
    frames: list[Frame]
    options: Options

    # ------------------------------------------------------------ decisions

    @property
    def streaming(self) -> bool:
        """Whether the events go on for ever."""
        return bool(self.frames[0].source.isStreaming)

    @cached_property
    def tasks(self) -> int:
        """How many tasks the work is spread over."""
        if self.layout.distribution is Distribution.SINGLE:
            return 1
        if self.options.tasks is not None:
            return self.options.tasks
        session = self.frames[0].data.sparkSession
        told = session.conf.get("spark.sql.shuffle.partitions", DEFAULT_TASKS)
        context = getattr(session, "_sc", None)
        if told == DEFAULT_TASKS and context is not None:
            return max(1, 2 * int(context.defaultParallelism))
        return max(1, int(told))

    @cached_property
    def arranged(self) -> Arrangement:
        """How the rows lie before anything is done to them."""
        groups = self.plan.pattern.partition
        if len(self.frames) > 1 or self.layout.ranked or self.streaming:
            return Arrangement()
        time = self.frames[0].time
        if self.layout.distribution is Distribution.SINGLE:
            return arrangement(self.frames[0].source, None, time)
        if groups and all(len(group) == 1 for group in groups):
            return arrangement(self.frames[0].source, [group[0] for group in groups], time)
        return Arrangement()

    @cached_property
    def _asked(self) -> tuple[tuple[Test, ...], tuple[Atom, ...]]:
        return asked(self.plan)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """What the automaton asks of an event."""
        return self._asked[1]

    @cached_property
    def translated(self) -> tuple[Atom, ...]:
        """The atoms that Catalyst evaluates, in all frames."""
        if not self.options.pushdown:
            return ()
        known = [masks(self.atoms, f.columns, f.type, f.stream).atoms for f in self.frames]
        return tuple(atom for atom in self.atoms if all(atom in some for some in known))

    @cached_property
    def _masks(self) -> dict[str, tuple[Column, ...]]:
        """Their bits, for each stream."""
        return {
            frame.stream: masks(self.translated, frame.columns, frame.type, frame.stream).columns
            for frame in self.frames
        }

    @cached_property
    def left(self) -> tuple[Atom, ...]:
        """The atoms that the workers evaluate."""
        return tuple(atom for atom in self.atoms if atom not in set(self.translated))

    @cached_property
    def _relevance(self) -> dict[str, Column | None]:
        tests = self._asked[0]
        return {
            f.stream: relevant(tests, f.columns, f.type, f.stream)
            if self.options.pushdown
            else None
            for f in self.frames
        }

    def relevance(self, frame: Frame) -> Column | None:
        """Which events of a frame some test may pass; None: possibly all."""
        return self._relevance[frame.stream]

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """For each stream, which column of the rows that travel holds which attribute."""
        names, whole = needed(self.plan, self.left, shown=self.options.matches == "events")
        if self.frames[0].time is not None:
            names.add(self.frames[0].time)
        if any(isinstance(atom, TypeIs) for atom in self.left):
            names.add(self.frames[0].type)
        columns: dict[str, dict[str, str]] = {}
        travelling: dict[tuple[str, str], str] = {}
        for frame in self.frames:
            held = columns.setdefault(frame.stream, {})
            own = [*frame.fields] if whole else []
            for name in dict.fromkeys([*own, *sorted(names)]):
                found = frame.attribute(name)
                if found is None or (whole and name not in frame.fields and "." in name):
                    continue
                if arrow_type(found[1]) is None:
                    raise DataError(
                        f"stream {frame.stream!r}: the column {name!r} holds "
                        f"{found[1].simpleString()}, which cannot travel to Python; drop it, or "
                        "name the attributes that the answer shall show"
                    )
                kind = (name, found[1].json())
                held[name] = travelling.setdefault(kind, f"a{len(travelling)}")
        return columns

    @cached_property
    def work(self) -> Work:
        """What the workers are told."""
        fields = [field.with_type(carried(field.type) or field.type) for field in self.answer]
        return replace(self._asked_of_workers, schema=pa.schema(fields))

    @cached_property
    def answer(self) -> pa.Schema:
        """The columns of the answer as workers find them, before they are Spark's."""
        return answer_schema(self._asked_of_workers, self._no_rows())

    @cached_property
    def _asked_of_workers(self) -> Work:
        first = self.frames[0]
        return Work(
            plan=self.plan,
            bits={atom: i for i, atom in enumerate(self.translated)},
            parts=tuple(map(self._part, self.frames)),
            time=first.time,
            type=first.type,
            time_unit=first.time_unit,
            scale=self.scale,
            wanted=self.options.matches,
            budget=self.options.budget,
            on_budget=self.options.on_budget,
            placed=self.options.placed,
            limit=self.options.limit if self.plan.head is None else None,
            ids=self.options.ids,
        )

    def _part(self, frame: Frame) -> Part:
        columns = self.columns[frame.stream]
        own = {name: type_ for name in columns if (type_ := frame.own_type(name)) is not None}
        return Part(stream=frame.stream, columns=columns, types=own)

    @cached_property
    def scale(self) -> Scale:
        """How times are counted."""
        scales = [frame.scale for frame in self.frames]
        return Scale(scales[0].unit_ns, min(scale.own for scale in scales))

    def _no_rows(self) -> pa.Table:
        """A table without rows, with the columns that travel."""
        fields: dict[str, pa.DataType] = {}
        for frame in self.frames:
            for name, column in self.columns[frame.stream].items():
                found = frame.attribute(name)
                assert found is not None
                fields[column] = arrow_type(found[1])
        fields |= {ROW: pa.int64(), STREAM: pa.int32(), pred.RANK.name: pa.int64()}
        for i in range(ceil(len(self.translated) / BITS)):
            fields[mask_column(i)] = pa.int64()
        return pa.schema(fields).empty_table()

    @cached_property
    def window(self) -> int | None:
        """The window in what the line of events is cut by: ticks, or positions."""
        within = self.plan.pattern.within
        if within is not None and self.layout.ranked:
            return floor(within.size)
        return window_in_ticks(self.plan.pattern, self.scale) if self.layout.cut else None

    # ------------------------------------------------------------ DataFrames

    def matches(self) -> Any:
        """The DataFrame of the answer."""
        if self.layout.distribution is Distribution.SINGLE:
            warnings.warn(
                f"this query runs in a single task; what would make it parallel: "
                f"{self.layout.parallel}",
                stacklevel=3,
            )
        work = self.work
        assert work.schema is not None
        schema = from_arrow_schema(work.schema, prefer_timestamp_ntz=True)
        found = self.rows().mapInArrow(partial(recognize_rows, work), schema)
        return found if self.plan.head is None else self._distinct(found)

    def rows(self) -> Any:
        """What travels to the workers: spread, and in order."""
        return self._rows

    @cached_property
    def _rows(self) -> Any:
        return self._ordered(self._spread(self.prepared()))

    def prepared(self, *, numbers: bool = True) -> Any:
        """The events of all streams, each with its mask, row, moment and bucket.

        Without row numbers where only the moments and buckets of events are looked at:
        numbers cost a join, which Spark would carry out for nothing.
        """
        prepared = None
        for i, frame in enumerate(self.frames):
            rows = self._of_frame(i, frame, numbers or frame.moment is None)
            prepared = (
                rows if prepared is None else prepared.unionByName(rows, allowMissingColumns=True)
            )
        return prepared

    def _numbered(self, i: int, frame: Frame, numbers: bool) -> Any:
        """A frame with row numbers that go on after those of the frames before."""
        if not numbers:
            return frame.data.withColumn(ROW, F.lit(0).cast("bigint"))
        data = numbered(frame, self.options.row)
        if self.options.row is None:
            for before in self.frames[:i]:
                data = data.withColumn(ROW, F.col(ROW) + count_before(before))
        return data

    def _of_frame(self, i: int, frame: Frame, numbers: bool) -> Any:
        data = self._numbered(i, frame, numbers)
        moment = frame.moment
        bad = frame.untimed
        fits = self.relevance(frame)
        kept = self.kept(frame, fits)
        if self.options.on_error == "skip" and bad is not None:
            data = data.filter(~bad)
            bad = None
        if kept is not None:
            data = data.filter(kept if bad is None else kept | bad)
        columns = self.travelling(frame, fits if kept is None or self.layout.places else None)
        extra = [F.col(ROW), (F.col(ROW) if moment is None else moment).alias(MOMENT)]
        if len(self.frames) > 1:
            extra.append(F.lit(i).alias(STREAM))
        extra += self._bucket(frame)
        if self.layout.ranked:
            fitting = F.lit(True) if fits is None else F.coalesce(fits, F.lit(False))
            if bad is not None:
                fitting = fitting | bad
            extra.append(fitting.alias(slices.FITS))
        return data.select(*columns, *extra)

    def kept(self, frame: Frame, fits: Column | None) -> Column | None:
        """Which events of a frame are read at all."""
        kept = fits if not (self.layout.places or self.layout.ranked) else None
        if not self.plan.pattern.partition:
            return kept
        keyed = has_key(frame, self.plan.pattern.partition)
        return keyed if kept is None else kept & keyed

    def travelling(self, frame: Frame, fits: Column | None) -> list[Column]:
        """Masks and attributes; empty for events that only take up a place."""
        key = {name for group in self.plan.pattern.partition for name in group}
        columns = []
        for name, column in self.columns[frame.stream].items():
            found = frame.attribute(name)
            assert found is not None
            value = found[0]
            if fits is not None and name != frame.time and name not in key:
                value = F.when(fits, value)
            columns.append(value.alias(column))
        bits = self._masks[frame.stream]
        return [*columns, *(bit.alias(mask_column(i)) for i, bit in enumerate(bits))]

    def _bucket(self, frame: Frame) -> list[Column]:
        """For which task an event is; nothing where that need not be said."""
        keyed = self.layout.distribution is Distribution.KEYED
        if not keyed or self.tasks == 1 or self.arranged.together:
            return []
        return [self.bucket(frame, self.tasks).alias(BUCKET)]

    def bucket(self, frame: Frame, number: int) -> Column:
        """Which of so many buckets an event's key falls into."""
        if self.plan.pattern.partition:
            key = partition_hash(frame, self.plan.pattern.partition)
        else:
            assert self.plan.key is not None
            key = implied_hash(frame, self.plan.key)
        return F.coalesce(F.pmod(key, F.lit(number)), F.lit(0)).cast("int")

    def _spread(self, data: Any) -> Any:
        """Each event for the task (or tasks) that reads it."""
        if self.arranged.together:
            return data
        tasks, window = self.tasks, self.window
        cuts = None
        if self.layout.ranked:
            line = Line(pred.RANK.name, window or 0, slices.later_position)
            bare = self.prepared(numbers=False)
            moments = slices.quantiles_of(self._sample(bare), tasks)
            data, cuts = slices.ranked(data, bare, moments, line, tasks, self.layout.gaps)
        if tasks == 1:
            return data.repartition(1)
        if self.layout.distribution is Distribution.KEYED:
            cuts = None
            if self.layout.cut and self.options.sample:
                line = Line(MOMENT, window or 0, self.frames[0].later)
                cuts = slices.cuts_of_hot(self._sample(self.prepared(numbers=False)), line, tasks)
        elif cuts is None:
            line = Line(MOMENT, window or 0, self.frames[0].later)
            cuts = slices.cuts_of_all(self._sample(self.prepared(numbers=False)), line, tasks)
        if cuts is not None:
            data = slices.sliced(data, cuts, line, tasks)
        return data.repartitionById(tasks, F.col(BUCKET)).drop(BUCKET)

    def _sample(self, data: Any) -> Any:
        """Some of the events, always the same ones."""
        share = self.options.sample or SAMPLE
        return data if share >= 1 else data.sample(share, seed=1)

    def _ordered(self, data: Any) -> Any:
        """Sorted by time within each task, without what the workers need not see."""
        if self.arranged.ordered and self.options.row is None:
            return data.drop(MOMENT)  # rows are numbered as they lie
        ties = [ROW, STREAM] if len(self.frames) > 1 else [ROW]
        if self.frames[0].time is None:
            return data.sortWithinPartitions(*ties).drop(MOMENT)
        data = data.sortWithinPartitions(MOMENT, *ties)
        if TICKS in self.frames[0].columns:
            return data.withColumnRenamed(MOMENT, TICKS)
        return data.drop(MOMENT)

    def _distinct(self, found: Any) -> Any:
        """Answers once each: at the first match that has them, whichever task found it."""
        *names, end, end_ts = (name for name in found.columns if name != PLACE)
        place = [PLACE] if self.options.placed else []
        first = F.min(F.struct(F.col(end_ts), F.col(end), *place)).alias("@first")
        grouped = found.groupBy(*names).agg(first) if names else found.agg(first).dropna()
        return grouped.select(
            *names, *(F.col("@first")[name].alias(name) for name in (end, end_ts, *place))
        )


__all__ = ["Job", "Options", "job_of", "recognize", "recognizer"]
