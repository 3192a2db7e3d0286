"""From queries and DataFrames to a `Job`: every decision, before anything runs.

A job says what travels and where: which predicates Spark evaluates, which columns travel, how
rows are spread over tasks. `batch` and `streaming.recognize` build DataFrames from it,
`explanation` prints it.

The rules of a set are checked against the columns, and those of one key share a shuffle (`keys`).
In batches the columns travel that some rule needs. On streams all columns travel, whichever rules
there are: rules of a stream may change, and the events in its state do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any

import pyarrow as pa

from cernis.encoding.masks import BITS, mask_column
from cernis.errors import CernisError, DataError, Diagnostic, QueryError
from cernis.events.batch import is_computed
from cernis.events.order import Scale
from cernis.events.source import choose_inputs, read_table, stream_of
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.check import resolve
from cernis.pattern.functions import find_user_functions
from cernis.pattern.predicate import RANK
from cernis.pattern.query import Pattern, Unit
from cernis.plan.plan import Distribution, Plan
from cernis.run.feed import Measures
from cernis.run.query import Query, refuse_insert
from cernis.run.requirements import find_columns, required_attributes, tests_and_atoms
from cernis.run.rules.reading.streams import name_streams
from cernis.run.rules.rule import Rule, RuleSetError, describe_mistake, refuse_inserts
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.run.session import RunOptions
from cernis.run.stages.groups import find_measures
from cernis.run.tables import find_table
from cernis.schema import Schema
from cernis.spark.arrangement import Arrangement, find_arrangement, is_small
from cernis.spark.frame import Frame, arrow_type, make_frames
from cernis.spark.keys import KeyedRules, key_rules
from cernis.spark.numbering import has_fixed_numbers, number_rows
from cernis.spark.options import JobOptions, count_tasks
from cernis.spark.relevance import Pushdown, push_down
from cernis.spark.row_groups import (
    GAIN,
    MOST_FILES,
    Times,
    cut_lots,
    find_files,
    list_groups,
    number_positions,
)
from cernis.spark.tables import join_tables
from cernis.work.columns import ROW, STREAM
from cernis.work.group_parts import exact_columns
from cernis.work.layout import (
    Layout,
    ahead_in_events,
    ahead_in_ticks,
    back_in_events,
    back_in_ticks,
    choose_layout,
    choose_stream_layout,
)
from cernis.work.query import (
    QueryWork,
    answer_schema,
    carry_answer,
    line_schema,
    part_schema,
    refuse_overall,
)
from cernis.work.reading import StreamColumns
from cernis.work.row_groups import RowGroups
from cernis.work.rules import MEASURES, RuleWork, add_order, name_answers, unite_answers

Columns = Mapping[str, Mapping[str, str]]
"""For each stream, which of the columns that travel holds which attribute."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """The decisions that queries and rule sets have in common."""

    options: JobOptions
    frames: tuple[Frame, ...]
    scale: Scale
    """How times are counted."""
    columns: Columns

    @property
    def is_streaming(self) -> bool:
        return bool(self.frames[0].source.isStreaming)


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryJob(Job):
    """The decisions about a query on DataFrames."""

    query: Query
    plan: Plan
    layout: Layout
    arrangement: Arrangement
    tasks: int
    window: int | None
    """How far back a match reaches, in units of the line that is cut: ticks, or positions."""
    ahead: int
    """How far ahead WITHOUT looks, in the same units; 0 where nothing is cut."""
    pushdown: Pushdown
    groups: RowGroups | None = None
    """The row groups of Parquet files that tasks read; None: Spark sends rows."""
    unread: str = ""
    """Why tasks do not read the Parquet files, if that could be thought."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleJob(Job):
    """The decisions about a rule set on DataFrames."""

    rules: RuleSet
    keyed: tuple[KeyedRules, ...]
    work: RuleWork


def prepare_job(
    events: Any, query: str | Query | Pattern, options: JobOptions, *, lang: str = "ceql"
) -> QueryJob:
    """Decide how a query runs on a DataFrame, or on several in a dict by stream."""
    options.check()
    if not isinstance(query, Query):
        query = Query(query, lang=lang)
    refuse_insert(query.pattern)
    frames = make_frames(events, query.pattern.streams, options)
    frames = tuple(_join_tables(frame, query.pattern, options) for frame in frames)
    _check_deadlines(query.pattern, frames)
    check_grouping(query.pattern, frames, options)
    if query.pattern.suppress is not None:
        frames[0].scale.ticks(query.pattern.suppress.length, "SUPPRESS BY … FOR")
    plan, layout = _choose_plan(query, frames, options)
    single = layout.distribution is Distribution.SINGLE
    scale = _find_scale(frames)
    pushdown = push_down(plan, frames, enabled=options.pushdown)
    job = QueryJob(
        query=query,
        plan=plan,
        options=options,
        frames=frames,
        layout=layout,
        arrangement=_arrangement(plan, layout, frames),
        tasks=1 if single else options.tasks or _choose_tasks(frames),
        scale=scale,
        window=reach_back(plan.pattern, layout, scale),
        ahead=reach_ahead(plan.pattern, layout, scale),
        pushdown=pushdown,
        columns=_choose_columns(plan, frames, pushdown.left, options),
    )
    return _read_in_tasks(job)


def _read_in_tasks(job: QueryJob) -> QueryJob:
    """Return the job with tasks that read Parquet files themselves, where they can."""
    frame, options, layout = job.frames[0], job.options, job.layout
    is_cut = layout.cut or layout.ranked
    if len(job.frames) > 1 or not options.read_files or not (is_cut or job.tasks == 1):
        return job
    files = find_files(frame, options.row)
    columns = _choose_columns(job.plan, job.frames, job.pushdown.atoms, options, from_files=True)
    types = {name: arrow_type(frame.fields[name].dataType) for name in columns[frame.stream]}
    if not files or not types:
        return job
    if len(files) > MOST_FILES:
        return replace(job, unread=f"there are more than {MOST_FILES:,}")
    times = None if frame.time is None else Times(frame.time, frame.time_unit, job.scale)
    try:
        groups = list_groups(files, types, times)
    except (OSError, pa.ArrowException, ValueError, OverflowError):
        return job  # Spark says what is wrong
    if not groups:
        return replace(job, unread="their footers tell no order of time, or types differ")
    after = job.plan.pattern.absent_after
    is_timed = after is not None and after.within.unit is Unit.TIME and frame.time is not None
    last = groups[-1].high if is_timed else None
    if layout.ranked:
        groups = number_positions(groups)
    lots = cut_lots(groups, job.window or 0, job.ahead, job.tasks)
    cores = frame.data.sparkSession.sparkContext.defaultParallelism
    if len(lots) < min(job.tasks, ceil(cores / GAIN)):
        return replace(job, unread="matches reach too far for tasks to share them")
    return replace(
        job,
        plan=job.query.plan.for_schema(_read_schema(job.frames), options.time),
        arrangement=Arrangement(),
        tasks=len(lots),
        columns=columns,
        pushdown=job.pushdown.without_masks(),
        groups=RowGroups(
            lots=tuple(lots),
            types=types,
            by_time=layout.cut,
            now=last,
        ),
    )


def _join_tables(frame: Frame, pattern: Pattern, options: JobOptions) -> Frame:
    if all(join.stream != frame.stream for join in pattern.joins):
        return frame
    if not frame.source.isStreaming:  # a join moves rows
        frame = replace(frame, data=number_rows(frame, options.row), joined=True)
    return join_tables(frame, pattern, options)


def _find_scale(frames: Sequence[Frame]) -> Scale:
    scales = [frame.scale for frame in frames]
    return Scale(scales[0].unit_ns, min(scale.own for scale in scales))


def _choose_tasks(frames: Sequence[Frame]) -> int:
    """Return how many tasks share the rows, unless the user says it."""
    if all(is_small(frame.source) for frame in frames):
        return 1
    return count_tasks(frames[0].data.sparkSession)


def check_grouping(pattern: Pattern, frames: Sequence[Frame], options: JobOptions) -> None:
    """Raise an error for what does not go with GROUP BY, LIMIT … EVERY and LIMIT … OVERALL."""
    if pattern.ranks_intervals and frames[0].time is None:
        raise DataError("LIMIT … EVERY needs a column of times")
    if frames[0].source.isStreaming:
        refuse_overall(pattern)
    grouping = pattern.grouping
    if grouping is None:
        return
    endless, help_ = "", None
    if grouping.every is None and not grouping.end:
        endless = "GROUP BY on a stream needs EVERY or END: other groups never end"
        help_ = "GROUP BY …, EVERY 1 HOUR"
    elif pattern.group_wait is None:
        endless = "EVERY … OF START on a stream needs WITHIN a time: other groups never end"
        help_ = "WITHIN 1 DAY"
    if endless and frames[0].source.isStreaming:
        raise QueryError([Diagnostic(endless, grouping.span, suggestion=help_)], pattern.source)
    if options.matches == "count":
        raise CernisError("matches='count' does not go with GROUP BY: select COUNT(*)")
    if options.ids:
        raise CernisError("ids=True does not go with GROUP BY: groups have no names")
    if grouping.every is not None and frames[0].time is None:
        raise DataError("GROUP BY EVERY needs a column of times")


def _check_deadlines(pattern: Pattern, frames: Sequence[Frame]) -> None:
    """Raise an error for WITHOUT a time on frames without times."""
    for absence in pattern.without:
        if absence.within.unit is Unit.TIME:
            clause = "WITHOUT … BEFORE" if absence.before else "WITHOUT … FOR"
            frames[0].scale.ticks(absence.within.size, f"{clause} a time")


def has_whole_groups(job: QueryJob) -> bool:
    """Return whether one session finds all matches of a group."""
    pattern = job.plan.pattern
    if pattern.grouping is None or pattern.grouping.end or job.is_streaming:
        return True
    if job.layout.distribution is Distribution.SINGLE:
        return True
    if job.tasks == 1 and not job.arrangement.together:
        return True
    if job.options.placed or job.options.matches == "lines":
        return False  # one task puts the groups of all in order
    has_key = bool(pattern.partition) and {*pattern.components} <= {*pattern.grouping.components}
    return has_key and not is_sliced(job)


def is_sliced(job: QueryJob) -> bool:
    """Return whether a task may read several parts, or rows of the window before its own."""
    if job.arrangement.together or job.tasks == 1:
        return False
    hot = job.layout.cut and job.options.sample > 0
    return hot or job.layout.distribution is Distribution.SLICED


def make_work(job: QueryJob) -> QueryWork:
    """Return the description of the work that travels to the workers."""
    options = job.options
    work = QueryWork(
        plan=job.plan,
        bits={atom: i for i, atom in enumerate(job.pushdown.translated)},
        streams=_list_streams(job.frames, job.columns),
        reading=_choose_reading(job.frames, options),
        scale=job.scale,
        form=options.matches,
        text=options.text,
        placed=options.placed,
        limit=options.limit if job.plan.head is None else None,
        ids=options.ids,
        measures=_choose_measures(job),
        numbers=options.numbers,
        ranked=job.plan.pattern.ranks_overall and options.matches != "count",
    )
    rows = empty_rows(job)
    if job.plan.pattern.grouping is not None:
        found = replace(work, form="events", placed=False)
        exact = exact_columns(job.plan.pattern, answer_schema(found, rows))
        parts = None if has_whole_groups(job) else part_schema(work, rows)
        work = replace(work, exact=exact, parts=parts)
    answer = answer_schema(work, rows)
    return replace(work, answer=answer, schema=carry_answer(answer))


def _choose_reading(
    frames: Sequence[Frame], options: JobOptions, tables: Mapping[str, pa.Table] | None = None
) -> RunOptions:
    return RunOptions(
        time=frames[0].time,
        type=options.type_column,
        time_unit=options.time_unit,
        budget=options.budget,
        on_budget=options.on_budget,
        complete=options.complete,
        tables=tables or {},
    )


def _choose_measures(job: QueryJob) -> Measures | None:
    """Return the aggregates that are enough, where matches are counted or grouped."""
    pattern = job.plan.pattern
    if pattern.grouping is not None:
        columns = [frame.arrow for frame in job.frames]
        return find_measures(pattern, _read_schema(job.frames), columns)
    return {} if job.options.matches == "count" else None


def _read_schema(frames: Sequence[Frame]) -> Schema:
    return Schema(tuple(stream_of(frame.stream, frame.arrow) for frame in frames))


def _choose_plan(query: Query, frames: Sequence[Frame], options: JobOptions) -> tuple[Plan, Layout]:
    """Check the query against the columns, and choose how it is planned and spread."""
    pattern = query.pattern
    schema = _read_schema(frames)
    if pattern.declared is None and not any(frame.is_blank for frame in frames):
        resolve(pattern, _name_all(frames))
    plan = query.plan.for_schema(schema, options.time)
    if frames[0].source.isStreaming:
        return plan, choose_stream_layout(plan)
    if options.corrupt is not None:
        raise CernisError(
            f"corrupt={options.corrupt!r} is for streams; of a batch, filter such rows first"
        )
    timed = frames[0].time is not None
    countable = timed or all(has_fixed_numbers(frame, options.row) for frame in frames)
    layout = choose_layout(plan, timed=timed, countable=countable)
    if pattern.merges_best and options.matches == "count":  # counts are not merged
        layout = Layout(Distribution.SINGLE, why_all=layout.why_all, parallel="matches='events'")
    if layout.ranked and not layout.counts_in_slices:
        plan = plan.by_rank()
    return plan, layout


def _name_all(frames: Sequence[Frame]) -> Schema:
    """Return the schema with the columns that cannot travel, about which there is a message."""
    streams = []
    for frame in frames:
        untold = [(name, pa.null()) for name in frame.fields if name not in frame.arrow.names]
        streams.append(stream_of(frame.stream, pa.schema([*frame.arrow, *untold])))
    return Schema(tuple(streams))


def _arrangement(plan: Plan, layout: Layout, frames: Sequence[Frame]) -> Arrangement:
    """Return how the rows lie, where the layout can use it."""
    frame, groups = frames[0], plan.pattern.spreading_groups
    if len(frames) > 1 or layout.ranked or frame.source.isStreaming or frame.joined:
        return Arrangement()
    if layout.distribution is Distribution.SINGLE:
        return find_arrangement(frame.source, None, frame.time)
    if groups and all(len(group) == 1 for group in groups):
        return find_arrangement(frame.source, [group[0] for group in groups], frame.time)
    return Arrangement()


def reach_back(pattern: Pattern, layout: Layout, scale: Scale) -> int | None:
    """Return how far back a match reaches, as a number of 64 bits."""
    window = None
    if layout.counts_in_slices:
        window = back_in_events(pattern)
    elif pattern.within is not None and layout.ranked:
        window = floor(pattern.within.size)
    elif layout.cut and scale.unit_ns is not None:
        window = back_in_ticks(pattern, scale)
    return None if window is None else min(window, 2**63 - 1)


def reach_ahead(pattern: Pattern, layout: Layout, scale: Scale) -> int:
    """Return how far ahead of a match a slice reads, as a number of 64 bits."""
    if layout.counts_in_slices:
        return min(ahead_in_events(pattern), 2**62)
    return min(ahead_in_ticks(pattern, scale), 2**62) if layout.cut else 0


def _choose_columns(
    plan: Plan,
    frames: Sequence[Frame],
    left: Sequence[Atom],
    options: JobOptions,
    *,
    from_files: bool = False,
) -> Columns:
    """Choose the columns that travel, or that tasks read from files: there, fields are whole."""
    named = options.matches in ("lines", "flat")
    shown = options.matches == "events" or (named and options.text != "named")
    names, whole = required_attributes(plan, left, shown=shown, named=named)
    if frames[0].time is not None:
        names.add(frames[0].time)
    if any(isinstance(atom, TypeIs) for atom in left):
        names.add(frames[0].type)
    if from_files:
        names = {name for name in find_columns(names) if name in frames[0].fields}
    wanted: dict[str, dict[str, Any]] = {}
    for frame in frames:
        own = wanted.setdefault(frame.stream, {})
        every = [name for name in frame.fields if whole and not is_computed(name)]
        for name in dict.fromkeys([*every, *sorted(names)]):
            found = frame.attribute(name)
            is_inside = name not in frame.fields and ("." in name or name.endswith(")"))
            if found is None or (whole and is_inside):
                continue
            if arrow_type(found[1]) is None:
                raise DataError(
                    f"stream {frame.stream!r}: the column {name!r} holds "
                    f"{found[1].simpleString()}, which cannot travel to Python; drop it, or "
                    "name the attributes that the answer shall show"
                )
            own[name] = found[1]
    return _share_columns(wanted)


def _share_columns(wanted: Mapping[str, Mapping[str, Any]]) -> Columns:
    """Name the columns that travel; attributes of one name and type share one."""
    travelling: dict[tuple[str, str], str] = {}
    return {
        stream: {
            name: travelling.setdefault((name, type_.json()), f"a{len(travelling)}")
            for name, type_ in own.items()
        }
        for stream, own in wanted.items()
    }


def _list_streams(frames: Sequence[Frame], columns: Columns) -> tuple[StreamColumns, ...]:
    """Return which column holds which attribute of each stream, in the worker."""
    return tuple(
        StreamColumns(
            name=frame.stream,
            columns=(own := columns[frame.stream]),
            types={name: type_ for name in own if (type_ := frame.own_type(name)) is not None},
            is_blank=frame.is_blank,
        )
        for frame in frames
    )


def empty_rows(job: QueryJob) -> pa.Table:
    """Return a table without rows that has the columns which travel."""
    masks = range(ceil(len(job.pushdown.translated) / BITS))
    more = {RANK.name: pa.int64(), **{mask_column(i): pa.int64() for i in masks}}
    rows = _row_schema(job.frames, job.columns)
    return pa.schema([*rows, *more.items()]).empty_table()


def _row_schema(frames: Sequence[Frame], columns: Columns) -> pa.Schema:
    """Return the columns that travel, with the number and the stream of each event."""
    fields: dict[str, pa.DataType] = {}
    for frame in frames:
        for name, column in columns[frame.stream].items():
            found = frame.attribute(name)
            assert found is not None
            fields[column] = arrow_type(found[1])
    return pa.schema({**fields, ROW: pa.int64(), STREAM: pa.int32()})


# -------------------------------------------------------------------- rules


def prepare_rule_job(events: Any, rules: RuleSet, options: JobOptions) -> RuleJob:
    """Decide how rules run on a DataFrame, or on several in a dict by stream.

    The mistakes of all rules are raised together.
    """
    options.check()
    patterns = [rule.query.pattern for rule in rules]
    names = name_streams(patterns)
    events, options = _choose_streams(events, names, options)
    frames = make_frames(events, tuple(names), options)
    scale = _find_scale(frames)
    joined = dict.fromkeys(join.table for pattern in patterns for join in pattern.joins)
    tables = {name: _load_table(name, options.tables) for name in joined}
    reading, columns = _choose_reading(frames, options, tables), _choose_rule_columns(frames)
    work = _make_rule_work(frames, columns, reading, scale, rules)
    session = RuleSession(rules, reading, families=False)
    _check_rules(rules, frames, options)
    session.prepare(work.known_streams, scale)
    plans = [each.plan for each in session.sessions]
    if not frames[0].source.isStreaming:
        columns = _choose_rule_columns(frames, _list_attributes(plans, frames, options))
        work = _make_rule_work(frames, columns, reading, scale, rules)
        work = _form_answers(work, rules, options)
    return RuleJob(
        rules=rules,
        options=options,
        frames=frames,
        scale=scale,
        columns=columns,
        keyed=key_rules(rules, plans, ordered=options.placed),
        work=work,
    )


def _make_rule_work(
    frames: Sequence[Frame],
    columns: Columns,
    reading: RunOptions,
    scale: Scale,
    rules: RuleSet,
) -> RuleWork:
    streams, rows = _list_streams(frames, columns), _row_schema(frames, columns)
    functions = find_user_functions(" ".join(rule.text for rule in rules))
    work = RuleWork(streams=streams, reading=reading, scale=scale, rows=rows, functions=functions)
    return replace(work, schema=line_schema(work, rows))


def _form_answers(work: RuleWork, rules: RuleSet, options: JobOptions) -> RuleWork:
    """Return the work with the columns of its answer."""
    form, text, ordered = options.matches, options.text, options.placed
    work = replace(work, form=form, text=text, limit=options.limit)
    if ordered:
        work = replace(work, numbers={name: i for i, name in enumerate(rules.names)})
    if form == "measures":
        return replace(work, schema=MEASURES)
    assert work.schema is not None
    if form == "lines":
        return replace(work, schema=add_order(work.schema) if ordered else work.schema)
    session = RuleSession(rules, work.reading, families=False)
    session.prepare(work.known_streams, work.scale)
    united = unite_answers(session, form, text)
    return replace(work, united=united, schema=name_answers(united, ordered=ordered))


def _list_attributes(
    plans: Iterable[Plan], frames: Sequence[Frame], options: JobOptions
) -> set[str] | None:
    """Return the columns that some rule needs, or its matches; None: all."""
    names = {name for frame in frames for name in (frame.type, frame.time) if name is not None}
    shown = options.matches == "events" or options.text != "named"
    for plan in plans:
        _, atoms = tests_and_atoms(plan)
        own, whole = required_attributes(plan, atoms, shown=shown, named=True)
        if whole:
            return None
        own |= {name for join in plan.pattern.joins for name, _ in join.keys}
        names |= own | {name.split(".")[0] for name in own}
    return names


def _check_rules(rules: RuleSet, frames: Sequence[Frame], options: JobOptions) -> None:
    mistakes: dict[str, str] = {}
    for rule in rules:
        pattern = rule.query.pattern
        try:
            if rule.query.conjunctive is not None:
                raise CernisError("the rules of a set on Spark are CEQL")
            check_grouping(pattern, frames, replace(options, matches="lines"))
        except CernisError as error:
            mistakes[rule.name] = describe_mistake(rule.name, rule.origin, error)
    if mistakes:
        raise RuleSetError([*mistakes.values()], [*mistakes])


def _load_table(name: str, given: Mapping[str, Any]) -> pa.Table:
    """Return a table that travels to the workers."""
    table = find_table(name, given)
    if hasattr(table, "toArrow"):
        table = table.toArrow()
    return read_table(name, table)


def _choose_rule_columns(frames: Sequence[Frame], names: Collection[str] | None = None) -> Columns:
    """Choose the columns that travel, all or some of them."""
    return _share_columns(
        {
            frame.stream: {
                name: field.dataType
                for name, field in frame.fields.items()
                if (names is None or name in names)
                and not is_computed(name)
                and arrow_type(field.dataType) is not None
            }
            for frame in frames
        }
    )


def prepare_rules_apart(
    events: Any, rules: RuleSet, options: JobOptions
) -> list[tuple[Rule, QueryJob]]:
    """Decide how each rule runs; raise the mistakes of all rules together."""
    refuse_inserts(rules)
    names = name_streams([rule.query.pattern for rule in rules])
    events, options = _choose_streams(events, names, options)
    jobs, mistakes = [], []
    for rule in rules:
        try:
            job = prepare_job(events, rule.query, options)
        except CernisError as error:
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
            continue
        jobs.append((rule, job))
    if mistakes:
        raise RuleSetError(mistakes)
    return jobs


def _choose_streams(
    events: Any, names: Sequence[str], options: JobOptions
) -> tuple[Any, JobOptions]:
    """Return the streams that rules read, and options by which rows are numbered through all."""
    if not isinstance(events, Mapping) or not events:
        choose_inputs([(None, events)], names)
        return events, options
    chosen = dict(choose_inputs([*events.items()], names))
    is_numbered = options.row is None and len(chosen) > 1
    return chosen, replace(options, streams=chosen) if is_numbered else options
