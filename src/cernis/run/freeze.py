"""A session as versioned bytes, and back.

The bytes hold the engine's state, the partition keys, the events that a match can still
reach back to (Arrow's own stream format), and how far the stream has come. They name
their query; thawing them with another query is refused before anything is touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cernis.automata.correlated.pcea import Unindexed
from cernis.encoding.keys import KeyCoder
from cernis.encoding.lives import LifeCoder
from cernis.engine.unary.aggregate import Measure
from cernis.errors import StateError
from cernis.events.frozen import FrozenBatch, freeze_batch, thaw_batch
from cernis.events.order import StreamPosition
from cernis.events.source import TimeColumns, TypeColumns
from cernis.events.times import DAY, UNITS
from cernis.pattern.functions import find_user_functions
from cernis.plan.plan import Plan
from cernis.run.feed import SlidingFeed, make_feed
from cernis.run.stages.pipeline import Pipeline
from cernis.state import (
    MOST_EVENTS,
    Tree,
    array,
    check_list,
    check_mapping,
    check_number,
    check_text,
    flag,
    frozen_record,
    is_inside,
    listed,
    named,
    nested,
    number,
    optional,
    pack,
    part,
    read,
    require,
    text,
    unpack,
    write,
)

Int64s = NDArray[np.int64]
Columns = tuple[TimeColumns, TypeColumns, str]
"""The time columns, the type columns, and the unit of time."""


@frozen_record
class FrozenMeasure:
    """A measure, and the path to its attribute."""

    variable: str = text()
    attribute: str = text()
    is_real: bool = flag()
    total: bool = flag()
    least: bool = flag()
    greatest: bool = flag()
    scale: int = number(0, 19)
    path: list[str] = listed(text())


@frozen_record
class FrozenRun:
    """A run: its engine, its stages, and the events that it holds."""

    engine: Tree = part()
    stages: Tree = part()
    kept_from: int = number(0, MOST_EVENTS)
    candidates: int = number(0)
    unordered: list[str] = listed(text())
    """What its plan left to candidates."""
    middles: bool | None = optional(flag())
    """Whether its plan has the events between two that are compared."""
    counting: bool | None = optional(flag())
    """Whether numbers of matches are the result."""
    tables: dict[str, str] | None = optional(named(text()))
    """The columns of the tables that were joined."""
    batches: list[FrozenBatch] = listed(nested(FrozenBatch))
    thinned: list[FrozenBatch] | None = optional(listed(nested(FrozenBatch)))
    """Earlier events that stages hold, with their positions."""
    measures: list[FrozenMeasure] | None = optional(listed(nested(FrozenMeasure)))
    keys: Tree | None = optional(part())
    lives: Int64s | None = optional(array(np.int64, "stored", low=-1))
    last_events: Int64s | None = optional(array(np.int64, "owners"))
    clock: Tree | None = optional(part())


class FrozenState(NamedTuple):
    """The parts of a frozen session."""

    run: FrozenRun
    columns: Columns
    progress: StreamPosition
    """Without its position, which the engine has."""
    unindexed: Unindexed
    """What its plan left to candidates."""


def _write_query(plan: Plan) -> str:
    return str(plan.pattern if plan.head is None else plan.conjunctive)


def fingerprint_text(query: str) -> str:
    """Return a short name of a query's text."""
    return hashlib.sha256(query.encode()).hexdigest()[:16]


def list_versions(*queries: str) -> dict[str, str]:
    """Return the versions of the functions of users that queries call, by name."""
    used = find_user_functions(" ".join(queries))
    return {name: function.version for name, function in used.items()}


def check_versions(noted: object, *queries: str) -> None:
    """Raise StateError where a function has another version than the one that was noted."""
    known = check_mapping(noted or {}, "the versions of functions")
    for name, function in find_user_functions(" ".join(queries)).items():
        before = known.get(name, function.version)
        if before != function.version and before not in function.accepts_versions:
            raise StateError(
                f"the state was frozen with version {before!r} of the function {name}, and "
                f"{function.version!r} is registered; register that version, or register this one "
                f"with accepts=({before!r},) to go on with it"
            )


def unpack_own(state: bytes, query: str) -> Tree:
    """Return the tree of frozen bytes, if they belong to the text of a query."""
    tree = unpack(state)
    if tree.get("query") != fingerprint_text(query):
        raise StateError(
            "the state was frozen by another query; run the new query on the stream from its "
            "beginning, or thaw with the query that froze it"
        )
    return tree


def freeze_pipeline(
    pipeline: Pipeline, progress: StreamPosition, columns: Columns, tables: Mapping[str, str]
) -> bytes:
    """Return the state of a pipeline, how its stream is read, and the columns of its tables."""
    pipeline.forget(every_key=True)  # compacts the engine; the bytes hold live keys only
    run, plan = pipeline.run, pipeline.plan
    query, keys, lives, measures = _write_query(plan), run.keys, None, None
    thinned = [freeze_batch(b, p) for p, b in run.store.thinned_batches()]
    if isinstance(keys, LifeCoder):
        lives = pipeline.stages.opening.read_keys(run.kept_from, run.position)
    if isinstance(run.feed, SlidingFeed) and plan.pattern.grouping is not None:
        named_by = run.feed.measures.items()
        measures = [FrozenMeasure(**asdict(one), path=list(path)) for one, path in named_by]
    frozen = FrozenRun(
        engine=run.feed.freeze(),
        stages={stage.name: stage.freeze(pipeline.stages) for stage in pipeline.stages},
        kept_from=run.kept_from,
        candidates=run.budget.used,
        unordered=plan.unindexed.write_names(),
        middles=plan.has_middles or None,
        counting=run.purpose.counting or None,
        tables=dict(tables) or None,
        batches=[freeze_batch(batch) for batch in run.store.stored_batches()],
        thinned=thinned or None,
        measures=measures,
        keys=None if keys is None else keys.freeze(),
        lives=lives,
        last_events=None if pipeline.limit.most is None else pipeline.limit.last,
        clock=None if pipeline.clock is None else pipeline.clock.freeze(),
    )
    tree: Tree = {
        "query": fingerprint_text(query),
        "progress": list(astuple(progress)),
        "reading": freeze_reading(columns),
    }
    if versions := list_versions(query):
        tree["functions"] = versions
    return pack(tree | write(frozen))


def read_state(state: bytes, plan: Plan) -> FrozenState:
    """Return the parts of frozen bytes, if they belong to this query."""
    tree = unpack_own(state, _write_query(plan))
    check_versions(tree.get("functions"), _write_query(plan))
    reading = read_reading(tree)
    run = read(FrozenRun, tree)
    unindexed = Unindexed.read_names(run.unordered)
    if plan.has_middles and not run.middles:
        unindexed |= Unindexed(far=True)
    return FrozenState(run, *reading, unindexed)


class FrozenReading(NamedTuple):
    """How a frozen session reads events, and how far it has come."""

    columns: Columns
    progress: StreamPosition
    """Without its position."""


def freeze_reading(columns: Columns) -> list[Any]:
    """Return the columns that events are read by, as a header has them."""
    return [dict(c) if isinstance(c, Mapping) else c for c in columns]


def read_reading(meta: Mapping[str, Any]) -> FrozenReading:
    """Return how events were read, if the header of a state says it soundly."""
    time, type_, unit = check_list(meta.get("reading"), "the columns", 3)
    columns = (
        cast(TimeColumns, _check_columns(time, "the time column")),
        _check_columns(type_, "the type column"),
        check_text(unit, "a unit"),
    )
    _, row, last, tick = check_list(meta.get("progress"), "the progress", 4)
    require(unit in UNITS and tick in (None, DAY, *UNITS.values()), "it has another unit of time")
    progress = StreamPosition(
        row=check_number(row, "the progress", 0, MOST_EVENTS),
        time=None if last is None else check_number(last, "the progress"),
        unit_ns=tick,
    )
    return FrozenReading(columns, progress)


def thaw_pipeline(pipeline: Pipeline, frozen: FrozenState) -> None:
    """Put a new pipeline into the state that was frozen."""
    own, run = frozen.run, pipeline.run
    if own.measures is not None:
        measures = {_read_measure(each): tuple(each.path) for each in own.measures}
        run.feed = make_feed(run.plan, run.encode, run.store.time_unit, measures)
    run.feed.thaw(own.engine)
    position, kept_from = run.position, own.kept_from
    if run.keys is not None:
        coded = check_mapping(own.keys, "the keys")
        if isinstance(run.keys, LifeCoder):
            # the matches of LONGEST that wait for a deadline keep their lives
            opening = pipeline.stages.opening
            opened = check_mapping(own.stages.get(opening.name), f"'{opening.name}'")
            run.keys.thaw(coded, opening.count_held(opened))
        else:
            run.keys.thaw(coded)
        live = run.feed.engine.live_keys()
        require(is_inside(live, 0, len(run.keys)), "a partition has no key")
    if own.last_events is not None:
        pipeline.limit.last = own.last_events
    if pipeline.clock is not None:
        pipeline.clock.thaw(check_mapping(own.clock, "the clock"), len(run.keys or ()))
    is_held = kept_from <= position and run.feed.engine.earliest() >= kept_from
    require(is_held, "it needs events that it does not hold")
    run.kept_from, run.budget.used = kept_from, own.candidates
    for stage in pipeline.stages:
        stage.thaw(check_mapping(own.stages.get(stage.name), f"'{stage.name}'"))
    batches = [thaw_batch(each) for each in own.batches]
    ends = [batch.base + len(batch) for batch in batches]
    require(
        [batch.base for batch in batches[1:]] + [position] == (ends or [kept_from])
        and all(batch.base <= kept_from for batch in batches[:1]),
        "some of its events are missing",
    )
    _thaw_thinned(pipeline, own, batches[0].base if batches else position)
    lives = None
    if isinstance(run.keys, LifeCoder) and own.lives is not None:
        is_whole = len(own.lives) == position - kept_from
        require(is_whole and is_inside(own.lives, -1, len(run.keys)), "'lives' is out of range")
        before = kept_from - batches[0].base if batches else 0
        lives = np.concatenate([np.full(before, -1, np.int64), own.lives])
    # the stages of other queries do not ask for the partitions of stored events
    needs_keys = run.plan.listed or bool(run.plan.pattern.without)
    for batch in batches:
        run.store.append(batch)
        keys = None
        if needs_keys and isinstance(run.keys, KeyCoder):
            keys = run.keys.encode(batch)
        if lives is not None:
            keys, lives = lives[: len(batch)], lives[len(batch) :]
        for stage in pipeline.stages:
            stage.note_stored(batch, keys)


def _thaw_thinned(pipeline: Pipeline, frozen: FrozenRun, base: int) -> None:
    """Restore the events from before the position `base` that stages hold."""
    known = np.empty(0, np.int64)
    for batch in frozen.thinned or ():
        require(batch.positions is not None, "'positions' is missing")
        assert batch.positions is not None
        known = np.append(known, batch.positions)
        is_ordered = is_inside(np.diff(known), 1) and is_inside(known, 0, base)
        require(is_ordered, "the events of the best matches are not in order")
        pipeline.store.append_thinned(batch.positions, thaw_batch(batch))
    held = pipeline.list_held()
    early = held[held < base]
    require(bool(np.isin(early, known).all()), "it needs events that it does not hold")


def _read_measure(frozen: FrozenMeasure) -> Measure:
    return Measure(**{each.name: getattr(frozen, each.name) for each in fields(Measure)})


def _check_columns(given: object, what: str) -> str | dict[str, str | None] | None:
    """Return a column, or columns by stream."""
    if not isinstance(given, dict):
        return None if given is None else check_text(given, what)
    return {
        check_text(stream, "a stream"): None if name is None else check_text(name, what)
        for stream, name in given.items()
    }
