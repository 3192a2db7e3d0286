"""A session as versioned bytes, and back.

The bytes hold the engine's state, the partition keys, the events that a match can still
reach back to (Arrow's own stream format), and how far the stream has come. They name
their query; thawing them with another query is refused before anything is touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any, NamedTuple, cast

import numpy as np

from cernis.automata.correlated.pcea import Unindexed
from cernis.encoding.keys import KeyCoder
from cernis.encoding.lives import LifeCoder
from cernis.engine.unary.aggregate import Measure
from cernis.errors import StateError
from cernis.events.frozen import freeze_batches, thaw_batches
from cernis.events.order import StreamPosition
from cernis.events.source import TimeColumns, TypeColumns
from cernis.events.times import DAY, UNITS
from cernis.pattern.functions import find_user_functions
from cernis.plan.plan import Plan
from cernis.run.feed import SlidingFeed, make_feed
from cernis.run.pipeline import Pipeline
from cernis.state import (
    MOST_EVENTS,
    Tree,
    check_list,
    check_mapping,
    check_number,
    check_text,
    is_inside,
    pack,
    read_array,
    require,
    unpack,
)

Columns = tuple[TimeColumns, TypeColumns, str]
"""The time columns, the type columns, and the unit of time."""


class FrozenState(NamedTuple):
    """The parts of a frozen session."""

    tree: Tree
    columns: Columns
    progress: StreamPosition
    """Without its position, which is that of the engine."""
    unindexed: Unindexed
    """What its plan left to candidates."""
    tables: dict[str, str]
    """The columns of the tables that were joined."""
    counting: bool
    """Whether numbers of matches are the result."""


def fingerprint(plan: Plan) -> str:
    """Return a short name of the query's meaning as written."""
    return fingerprint_text(_write_query(plan))


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
    tree: Tree = {
        "query": fingerprint(plan),
        "engine": run.feed.freeze(),
        "progress": list(astuple(progress)),
        "reading": freeze_reading(columns),
        "batches": freeze_batches(run.store.stored_batches()),
        "kept_from": run.kept_from,
        "candidates": run.budget.used,
        "unordered": plan.unindexed.write_names(),
        "stages": {stage.name: stage.freeze(pipeline.stages) for stage in pipeline.stages},
    }
    if plan.has_middles:
        tree["middles"] = True
    if versions := list_versions(_write_query(plan)):
        tree["functions"] = versions
    if run.purpose.counting:
        tree["counting"] = True
    if tables:
        tree["tables"] = dict(tables)
    if isinstance(run.feed, SlidingFeed) and plan.pattern.grouping is not None:
        tree["measures"] = [[*astuple(each), list(p)] for each, p in run.feed.measures.items()]
    if thinned := [*run.store.thinned_batches()]:
        tree["thinned"] = freeze_batches(batch for _, batch in thinned)
        for batch, (positions, _) in zip(tree["thinned"], thinned, strict=True):
            batch["positions"] = positions
    if isinstance(run.keys, LifeCoder):
        lives = pipeline.stages.opening.read_keys(run.kept_from, run.position)
        tree |= {} if lives is None else {"lives": lives}
    if run.keys is not None:
        tree["keys"] = run.keys.freeze()
    if pipeline.limit.most is not None:
        tree["last_events"] = pipeline.limit.last
    if pipeline.clock is not None:
        tree["clock"] = pipeline.clock.freeze()
    return pack(tree)


def read_state(state: bytes, plan: Plan) -> FrozenState:
    """Return the parts of frozen bytes, if they belong to this query."""
    tree = unpack_own(state, _write_query(plan))
    check_versions(tree.get("functions"), _write_query(plan))
    reading = read_reading(tree)
    unordered = check_list(tree.get("unordered", []), "the attributes that hold text")
    names = [check_text(name, "an attribute that holds text") for name in unordered]
    unindexed = Unindexed.read_names(names)
    if plan.has_middles and tree.get("middles") is not True:
        unindexed |= Unindexed(far=True)  # the version before left them to candidates
    written = check_mapping(tree.get("tables", {}), "the tables")
    tables = {name: check_text(each, "the columns of a table") for name, each in written.items()}
    counting = tree.get("counting", False)
    require(isinstance(counting, bool), "it does not say whether it counts")
    return FrozenState(tree, *reading, unindexed, tables, counting)


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
    tree, run = frozen.tree, pipeline.run
    states = check_mapping(tree.get("stages"), "'stages'")
    if "measures" in tree:
        measures = _read_measures(check_list(tree["measures"], "the measures"))
        run.feed = make_feed(run.plan, run.encode, run.store.time_unit, measures)
    run.feed.thaw(check_mapping(tree.get("engine"), "'engine'"))
    position = run.position
    if run.keys is not None:
        coded = check_mapping(tree.get("keys"), "the keys")
        if isinstance(run.keys, LifeCoder):
            # the matches of LONGEST that wait for a deadline keep their lives
            opening = pipeline.stages.opening
            opened = check_mapping(states.get(opening.name), f"'{opening.name}'")
            run.keys.thaw(coded, opening.count_held(opened))
        else:
            run.keys.thaw(coded)
        live = run.feed.engine.live_keys()
        require(is_inside(live, 0, len(run.keys)), "a partition has no key")
    if "last_events" in tree:
        pipeline.limit.last = read_array(tree, "last_events", np.int64).copy()
    if pipeline.clock is not None:
        pipeline.clock.thaw(check_mapping(tree.get("clock"), "the clock"), len(run.keys or ()))
    run.kept_from = check_number(tree.get("kept_from"), "'kept_from'", 0, position + 1)
    is_held = run.feed.engine.earliest() >= run.kept_from
    require(is_held, "it needs events that it does not hold")
    run.budget.used = check_number(tree.get("candidates"), "the number of candidates", 0)
    for stage in pipeline.stages:
        stage.thaw(check_mapping(states.get(stage.name), f"'{stage.name}'"))
    batches = list(thaw_batches(tree.get("batches")))
    ends = [batch.base + len(batch) for batch in batches]
    require(
        [batch.base for batch in batches[1:]] + [position] == (ends or [run.kept_from])
        and all(batch.base <= run.kept_from for batch in batches[:1]),
        "some of its events are missing",
    )
    _thaw_thinned(pipeline, tree, batches[0].base if batches else position)
    lives = None
    if isinstance(run.keys, LifeCoder) and "lives" in tree:
        stored, below = (position - run.kept_from,), len(run.keys)
        lives = read_array(tree, "lives", np.int64, stored, low=-1, below=below)
        before = run.kept_from - batches[0].base if batches else 0
        lives = np.concatenate([np.full(before, -1, np.int64), lives])
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


def _thaw_thinned(pipeline: Pipeline, tree: Tree, base: int) -> None:
    """Restore the events from before the position `base` that stages hold."""
    known, thinned = np.empty(0, np.int64), tree.get("thinned", [])
    for batch, written in zip(thaw_batches(thinned), thinned, strict=True):
        low = int(known.max(initial=-1)) + 1
        shape = batch.rows.shape
        positions = read_array(written, "positions", np.int64, shape, low=low, below=base)
        require(is_inside(np.diff(positions), 1), "the events of the best matches are not in order")
        pipeline.store.append_thinned(positions, batch)
        known = np.append(known, positions)
    held = pipeline.list_held()
    early = held[held < base]
    require(bool(np.isin(early, known).all()), "it needs events that it does not hold")


def _read_measures(written: list[Any]) -> dict[Measure, tuple[str, ...]]:
    measures = {}
    for each in written:
        variable, attribute, *flags, scale, path = check_list(each, "a measure", 8)
        require(all(isinstance(flag, bool) for flag in flags), "a measure is damaged")
        measure = replace(
            Measure(
                check_text(variable, "a variable"), check_text(attribute, "an attribute"), *flags
            ),
            scale=check_number(scale, "the places of decimals", 0, 19),
        )
        names = check_list(path, "the path of a measure")
        measures[measure] = tuple(check_text(name, "an attribute") for name in names)
    return measures


def _check_columns(given: object, what: str) -> str | dict[str, str | None] | None:
    """Return a column, or columns by stream."""
    if not isinstance(given, dict):
        return None if given is None else check_text(given, what)
    return {
        check_text(stream, "a stream"): None if name is None else check_text(name, what)
        for stream, name in given.items()
    }
