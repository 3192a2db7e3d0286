"""Index the events and matches of a result for pictures of its timeline (`views.timeline_index`).

Cost contract: one pass over the types (or, for lanes of variables, over the columns that conditions
on single events read) and the times of all stored events, and what `MatchSet.counts` costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.automata.unary.alphabet import passes
from cernis.automata.unary.cea import Either, Test, conjoin_tests, find_atoms
from cernis.automata.unary.construct import build_test, build_type_test
from cernis.encoding.encode import AtomEncoder
from cernis.events.column_types import is_number
from cernis.events.evaluation.attributes import attribute
from cernis.events.event_types import convert_types
from cernis.events.store import EventStore
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.predicate import TIME_NS
from cernis.results.notebook import write_event
from cernis.results.sets.correlated import CorrelatedMatches
from cernis.results.sets.matchset import MatchBlock, MatchSet, Positions, join, take
from cernis.results.values import python_records
from cernis.views.timeline import MatchMark, Timeline, view_marks
from cernis.views.timeline_index import FoundMatch, Lane, TimelineIndex, cumulate

LanesBy = Literal["type", "variable"]

MOST_LANES = 24
_MOST_TITLES = 500
_SORTED = 256
OTHER_TYPES = "other types"


def index_timeline(
    events: EventStore,
    formula: cel.Formula,
    found: MatchSet,
    lanes: LanesBy = "type",
    *,
    show: bool = True,
) -> TimelineIndex:
    """Return the index of a result; lanes are the types of events, or the variables of matches.

    The lane of a variable has the events that it may hold: those of its types that satisfy the
    conditions on it alone. Unless it should `show` matches, they are counted only.
    """
    base = events.span.start
    everything = np.arange(events.span.start, events.span.stop, dtype=np.int64)
    times, unit = _read_axis(events, everything)
    ends, counts = found.counts()
    order = np.argsort(ends, kind="stable")
    lane_of: NDArray[np.int64] | None = None
    if lanes == "type":
        lane_of, names = _number_types(events)
        rows = tuple(Lane(name, np.flatnonzero(lane_of == i)) for i, name in enumerate(names))
    else:
        rows = tuple(_list_variables(events, formula, found.variables))
    return TimelineIndex(
        times=times,
        rows=events.rows(everything),
        unit=unit,
        lanes=rows,
        lane_of=lane_of,
        ends=ends[order] - base,
        counts=cumulate([counts[i] for i in order.tolist()]),
        find_matches=partial(_find_first, found, base) if show else None,
        base=base,
    )


def view_match(
    events: EventStore, interval: tuple[int, int], marks: Sequence[tuple[str, Sequence[int]]]
) -> Timeline:
    """Return the timeline of one match: a lane for each variable, from its start to its end."""
    held = {position for _, positions in marks for position in positions}
    positions = np.array(sorted(held | set(interval)), np.int64)
    times, unit = _read_axis(events, positions)
    rows = dict(zip(positions.tolist(), events.rows(positions).tolist(), strict=True))
    at = dict(zip(positions.tolist(), times.tolist(), strict=True))
    shown = (
        MatchMark(rows[p], at[p], lane, name, p)
        for lane, (name, positions) in enumerate(marks)
        for p in positions
    )
    span = (at[interval[0]], at[interval[1]])
    return view_marks([name for name, _ in marks], shown, span, unit)


def title_marks(events: EventStore, view: Timeline) -> dict[int, str]:
    """Return the values of the events of the matches in view, by position."""
    held = sorted({mark.position for one in view.matches for mark in one.marks})[:_MOST_TITLES]
    records = python_records(events.structs(np.array(held, np.int64)))
    return dict(zip(held, map(write_event, records), strict=True))


def _read_axis(events: EventStore, everything: Positions) -> tuple[NDArray[np.float64], str]:
    """Return the times as numbers that never decrease, and their unit."""
    if not events.is_timed:
        return events.rows(everything).astype(np.float64), "row"
    times = events.times(everything)
    unit = "number" if is_number(times.type) else "ms"
    if unit == "ms":
        ticks = pc.fill_null(events.column(everything, TIME_NS.name), 0).to_numpy()
        values = ticks // 1_000_000 + ticks % 1_000_000 / 1e6  # whole milliseconds stay exact
    else:
        values = times.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.maximum.accumulate(np.nan_to_num(values)) if len(values) else values, unit


def _number_types(events: EventStore) -> tuple[NDArray[np.int64], list[str]]:
    """Return the lane of each event and the names of lanes: the most frequent types first named.

    Beyond a number of types, the rarest share a lane.
    """
    numbers: dict[str, int] = {}

    def number_part(stream: str, table: pa.Table) -> NDArray[np.int64]:
        column = attribute(table, (events.type_column,))
        if column is None:
            return np.full(table.num_rows, numbers.setdefault(stream, len(numbers)), np.int64)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        chunks = [number_chunk(chunk) for chunk in encoded.chunks]
        return np.concatenate([np.empty(0, np.int64), *chunks])

    def number_chunk(chunk: pa.DictionaryArray) -> NDArray[np.int64]:
        texts = convert_types(pa.chunked_array([chunk.dictionary]))[0].to_pylist()
        lanes = [-1 if t is None else numbers.setdefault(t, len(numbers)) for t in texts]
        indices = pc.fill_null(chunk.indices.cast(pa.int64()), -1).to_numpy()
        return np.asarray(np.array([*lanes, -1], np.int64)[indices], np.int64)

    parts = [batch.interleave(number_part) for batch in events.stored_batches()]
    codes = np.concatenate([np.empty(0, np.int64), *parts])
    names = [*numbers]
    if len(names) <= MOST_LANES:
        return codes, names
    often = np.bincount(codes[codes >= 0], minlength=len(names))
    kept = np.sort(np.argsort(-often, kind="stable")[: MOST_LANES - 1])
    lanes = np.full(len(names) + 1, len(kept), np.int64)
    lanes[kept], lanes[-1] = np.arange(len(kept)), -1
    return lanes[codes], [*(names[i] for i in kept), OTHER_TYPES]


def _list_variables(
    events: EventStore, formula: cel.Formula, variables: Sequence[str]
) -> Iterator[Lane]:
    tests = {name: _build_variable_test(formula, name) for name in variables[:MOST_LANES]}
    atoms = tuple(dict.fromkeys(atom for test in tests.values() for atom in find_atoms(test)))
    encoder = AtomEncoder(atoms, events.type_column)
    codes = [np.zeros(0, np.int32), *(encoder.encode(b) for b in events.stored_batches())]
    every = np.concatenate(codes)
    truths = [dict(zip(atoms, vector, strict=True)) for vector in encoder.vectors]
    for name, test in tests.items():
        holds = np.array([passes(test, truth) for truth in truths], np.bool_)
        yield Lane(name, np.flatnonzero(holds[every]) if len(every) else every.astype(np.int64))


def _build_variable_test(formula: cel.Formula, variable: str) -> Test:
    """Return the test of the events that a variable may hold."""
    held: list[Test] = []
    conditions: list[Test] = []
    stack: list[tuple[cel.Formula, bool]] = [(formula, False)]
    while stack:
        node, inside = stack.pop()
        match node:
            case cel.Event(type=name):
                if inside or name == variable:
                    held.append(build_type_test(node))
            case cel.Not():
                pass
            case cel.As(body=body, variable=name):
                stack.append((body, inside or name == variable))
            case cel.Unless(body=body):
                stack.append((body, inside))
            case cel.Filter(body=body, condition=condition):
                conditions += [
                    build_test(part.predicate)
                    for part in pred.conjuncts(condition)
                    if isinstance(part, pred.Holds) and part.variable == variable
                ]
                stack.append((body, inside))
            case _:
                stack.extend((child, inside) for child in cel.children(node))
    return conjoin_tests([Either(tuple(held)), *conditions])


def _find_first(found: MatchSet, base: int, ends: Positions) -> list[FoundMatch]:
    """Return the first match of each end.

    Runs that compare events come in any order, so a few of each end are listed and sorted.
    """
    most = _SORTED if isinstance(found, CorrelatedMatches) else 1
    block = join(list(found.of_ends(ends + base, most)), len(found.variables))
    if most > 1:
        block = take(block, np.lexsort((-block.start, block.end)))
        block = take(block, np.unique(block.end, return_index=True)[1])
    return list(_list_marks(block, found.variables, base))


def _list_marks(block: MatchBlock, variables: Sequence[str], base: int) -> Iterator[FoundMatch]:
    for i, end in enumerate(block.end.tolist()):
        marks = tuple(
            (name, tuple((positions[offsets[i] : offsets[i + 1]] - base).tolist()))
            for name, offsets, positions in zip(
                variables, block.offsets, block.positions, strict=True
            )
        )
        yield FoundMatch(end - base, marks)
