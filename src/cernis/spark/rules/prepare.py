"""From rules and DataFrames to a `RuleJob`: every decision, before anything runs.

The rules are checked against the columns, and those of one key share a shuffle (`keys`).
In batches the columns travel that some rule needs. On streams all columns travel, whichever rules
there are: rules of a stream may change, and the events in its state do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cernis.errors import CernisError
from cernis.events.batch import is_computed
from cernis.events.order import Scale
from cernis.events.source import choose_inputs, read_table
from cernis.pattern.query import Pattern
from cernis.plan.plan import Plan
from cernis.run.rules.rule import RuleSetError, describe_mistake
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.run.rules.streams import name_streams
from cernis.run.session import RunOptions
from cernis.run.tables import find_table
from cernis.spark.frame import Frame, arrow_type, make_frames
from cernis.spark.options import JobOptions
from cernis.spark.prepare import check_grouping, stream_columns
from cernis.spark.requirements import required_attributes, tests_and_atoms
from cernis.spark.rules.answers import add_order, name_answers, unite_answers
from cernis.spark.rules.keys import KeyedRules, key_rules
from cernis.spark.rules.worker import RuleWork, line_schema
from cernis.spark.worker import ROW, STREAM, RowReading


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleJob:
    """The decisions about a rule set on DataFrames."""

    rules: RuleSet
    options: JobOptions
    frames: tuple[Frame, ...]
    scale: Scale
    columns: Mapping[str, Mapping[str, str]]
    """For each stream, which of the columns that travel holds which attribute."""
    keyed: tuple[KeyedRules, ...]
    work: RuleWork

    @property
    def is_streaming(self) -> bool:
        return bool(self.frames[0].source.isStreaming)


def prepare_rule_job(events: Any, rules: RuleSet, options: JobOptions) -> RuleJob:
    """Decide how rules run on a DataFrame, or on several in a dict by stream.

    The mistakes of all rules are raised together.
    """
    options.check()
    patterns = [rule.query.pattern for rule in rules]
    names = name_streams(patterns)
    if isinstance(events, Mapping) and events:
        events = dict(choose_inputs([*events.items()], names))
        if options.row is None and len(events) > 1:
            options = replace(options, streams=events)
    frames = make_frames(events, tuple(names), options)
    scales = [frame.scale for frame in frames]
    scale = Scale(scales[0].unit_ns, min(each.own for each in scales))
    reading, columns = _choose_reading(frames, patterns, options), _choose_columns(frames)
    work = _make_work(frames, columns, reading, scale)
    session = RuleSession(rules, reading, families=False)
    _check_rules(rules, frames, options)
    session.prepare(work.known_streams, scale)
    plans = [each.plan for each in session.sessions]
    if not frames[0].source.isStreaming:
        columns = _choose_columns(frames, _list_attributes(plans, frames, options))
        work = _make_work(frames, columns, reading, scale)
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


def _make_work(
    frames: Sequence[Frame],
    columns: Mapping[str, Mapping[str, str]],
    options: RunOptions,
    scale: Scale,
) -> RuleWork:
    streams = tuple(stream_columns(frame, columns[frame.stream]) for frame in frames)
    reading = RowReading(streams=streams, reading=options, scale=scale)
    rows = _row_schema(frames, columns)
    return RuleWork(**reading.__dict__, rows=rows, schema=line_schema(reading, rows))


def _form_answers(work: RuleWork, rules: RuleSet, options: JobOptions) -> RuleWork:
    """Return the work with the columns of its answer."""
    form, text, ordered = options.matches, options.text, options.placed
    work = replace(work, form=form, text=text, limit=options.limit)
    if ordered:
        work = replace(work, numbers={name: i for i, name in enumerate(rules.names)})
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


def _choose_reading(
    frames: Sequence[Frame], patterns: Iterable[Pattern], options: JobOptions
) -> RunOptions:
    joined = dict.fromkeys(join.table for pattern in patterns for join in pattern.joins)
    return RunOptions(
        time=frames[0].time,
        type=options.type_column,
        time_unit=options.time_unit,
        budget=options.budget,
        on_budget=options.on_budget,
        complete=options.complete,
        tables={name: _load_table(name, options.tables) for name in joined},
    )


def _load_table(name: str, given: Mapping[str, Any]) -> pa.Table:
    """Return a table that travels to the workers."""
    table = find_table(name, given)
    if hasattr(table, "toArrow"):
        table = table.toArrow()
    return read_table(name, table)


def _choose_columns(
    frames: Sequence[Frame], names: Collection[str] | None = None
) -> dict[str, dict[str, str]]:
    """Choose the names of the columns that travel, all or some of them.

    Attributes of one name and type share one.
    """
    columns: dict[str, dict[str, str]] = {}
    travelling: dict[tuple[str, str], str] = {}
    for frame in frames:
        own = columns.setdefault(frame.stream, {})
        for name, field in frame.fields.items():
            is_wanted = names is None or name in names
            if is_wanted and not is_computed(name) and arrow_type(field.dataType) is not None:
                kind = (name, field.dataType.json())
                own[name] = travelling.setdefault(kind, f"a{len(travelling)}")
    return columns


def _row_schema(frames: Sequence[Frame], columns: Mapping[str, Mapping[str, str]]) -> pa.Schema:
    """Return the columns that travel."""
    fields: dict[str, pa.DataType] = {}
    for frame in frames:
        for name, column in columns[frame.stream].items():
            fields[column] = arrow_type(frame.fields[name].dataType)
    return pa.schema({**fields, ROW: pa.int64(), STREAM: pa.int32()})
