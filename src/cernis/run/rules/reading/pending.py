"""`PendingEvents`: events that a rule may not read yet, since matches may still come before them.

A match of LONGEST stands at its end as an event of its stream, and is certain later. So the rules
that read the stream wait: they read up to the event after which the next match may stand, the
*bound*. What they derive is known up to there, too. A rule that reads several streams waits for the
least of their bounds.

Cost contract: per chunk one comparison for each event that waits. State: the events after the
bound, and for each inserting rule that holds matches the paths of its events from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.events.batch import Int64s
from cernis.events.frozen import read_table, write_table
from cernis.run.rules.reading.derived import LATE, NOTHING, InputLog, PathLog, RulePart, widen
from cernis.state import check_list, check_text, read_array, require

Arrays = dict[str, np.ndarray[Any, Any]]

_MOST_PARTS = 32
"""Events in more tables than this are copied to one table for each stream."""


class DerivedBound(NamedTuple):
    """Up to where the events of a stream are known: all that come no later than this path."""

    path: tuple[int, ...]
    tick: int
    """No event to come is earlier than this time."""


def find_bound(log: PathLog, position: int) -> DerivedBound:
    """Return the bound of a rule whose next match may stand after the event at a position.

    At an event with a time of its own, others of that time may come before it.

    >>> log = PathLog(7, np.array([[3, NOTHING, NOTHING], [3, 0, 1]]), np.array([20, 20]))
    >>> find_bound(log, 8)
    DerivedBound(path=(3, 0, 1), tick=20)
    """
    at = position - log.first
    path = tuple(log.paths[at].tolist())
    if len(path) > 1 and path[1] == LATE:
        path = (*path[:3], *(NOTHING for _ in path[3:]))
    return DerivedBound(path, 0 if log.time is None else int(log.time[at]))


def find_least(bounds: Iterable[DerivedBound | None]) -> DerivedBound | None:
    """Return the least bound; None: everything is known."""
    return min((bound for bound in bounds if bound is not None), default=None)


class PendingEvents:
    """The events that wait until a rule may read them."""

    def __init__(self, parts: Sequence[RulePart] = ()) -> None:
        self.parts = list(parts)

    @property
    def width(self) -> int:
        return max((part.paths.shape[1] for part in self.parts), default=1)

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def widen(self, width: int) -> None:
        self.parts = [part._replace(paths=widen(part.paths, width)) for part in self.parts]

    def take(self, new: Sequence[RulePart], bound: DerivedBound | None) -> list[RulePart]:
        """Return the events up to a bound, of these and of those that wait; the others wait."""
        parts = [*self.parts, *new]
        if bound is None:
            self.parts = []
            return parts
        known = [_is_known(part.paths, bound.path) for part in parts]
        self.parts = _select(parts, [~each for each in known])
        if len(self.parts) > _MOST_PARTS:
            self._copy()
        return _select(parts, known)

    def _copy(self) -> None:
        """Copy the events to one table for each stream and its columns."""
        alike: dict[tuple[str, pa.Schema], list[RulePart]] = {}
        for part in self.parts:
            name, table = part.part
            alike.setdefault((name, table.schema), []).append(part)
        self.parts = [_join(name, parts) for (name, _), parts in alike.items()]

    # -------------------------------------------------------------- frozen

    def freeze(self, name: str) -> tuple[list[str], Arrays]:
        """Return the streams of the parts, and arrays under this name."""
        self._copy()
        arrays: Arrays = {}
        for i, part in enumerate(self.parts):
            own = f"{name}.{i}"
            arrays |= {f"{own}.rows": part.rows, f"{own}.paths": part.paths}
            arrays[f"{own}.table"] = write_table(part.part[1])
            if part.time is not None:
                arrays[f"{own}.time"] = part.time
        return [part.part[0] for part in self.parts], arrays

    @classmethod
    def thaw(cls, name: str, streams: object, arrays: Arrays) -> PendingEvents:
        """Return what `freeze` has written."""
        parts = []
        for i, stream in enumerate(check_list(streams, "the streams of waiting events")):
            own = f"{name}.{i}"
            table = read_table(arrays.get(f"{own}.table"))
            size, time = (table.num_rows,), None
            if f"{own}.time" in arrays:
                time = read_array(arrays, f"{own}.time", np.int64, size)
            rows = read_array(arrays, f"{own}.rows", np.int64, size)
            paths = read_paths(arrays, f"{own}.paths", table.num_rows)
            part = (check_text(stream, "a stream of waiting events"), table)
            parts.append(RulePart(part, np.arange(len(rows)), rows, time, paths))
        return cls(parts)


def freeze_log(name: str, log: PathLog) -> Arrays:
    """Return the paths of the events that a rule has read, as arrays under this name."""
    arrays = {f"{name}.paths": log.paths}
    return arrays if log.time is None else {**arrays, f"{name}.time": log.time}


def thaw_log(name: str, arrays: Arrays, events: int) -> PathLog:
    """Return what `freeze_log` has written; there are so many events before."""
    if f"{name}.paths" not in arrays:
        return PathLog(events)
    paths, time = read_paths(arrays, f"{name}.paths"), None
    require(len(paths) <= events, "a rule has read fewer events than it remembers")
    if f"{name}.time" in arrays:
        time = read_array(arrays, f"{name}.time", np.int64, (len(paths),))
    return PathLog(events - len(paths), paths, time)


def thaw_input(arrays: Arrays, events: int) -> InputLog:
    """Return the last events of the input, of a frozen session that has read so many."""
    rows = read_array(arrays, "input.rows", np.int64)
    require(len(rows) <= events, "the input has fewer events than it remembers")
    time = read_array(arrays, "input.time", np.int64, rows.shape)
    return InputLog(events - len(rows), time, rows)


def read_paths(arrays: Arrays, name: str, size: int | None = None) -> Int64s:
    """Return paths from a frozen state: one row for each event."""
    paths = read_array(arrays, name, np.int64, (size, None))
    width = paths.shape[1]
    lengths = (paths != NOTHING).sum(axis=1)
    is_before_end = np.arange(width) < lengths[:, None]
    require(
        width % 2 == 1
        and bool((lengths % 2 == 1).all())
        and bool((is_before_end == (paths != NOTHING)).all()),
        f"{name!r} has another type or shape",
    )
    return paths


def _is_known(paths: Int64s, bound: Sequence[int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which paths come no later than a bound."""
    is_before = np.zeros(len(paths), np.bool_)
    is_equal = np.ones(len(paths), np.bool_)
    for column, value in zip(paths.T, bound, strict=True):
        is_before |= is_equal & (column < value)
        is_equal &= column == value
    return is_before | is_equal


def _select(
    parts: Sequence[RulePart], masks: Sequence[np.ndarray[Any, np.dtype[np.bool_]]]
) -> list[RulePart]:
    """Return the events of each part that a mask selects; a part without any is left out."""
    kept = []
    for part, mask in zip(parts, masks, strict=True):
        if mask.all():
            kept.append(part)
        elif mask.any():
            time = None if part.time is None else part.time[mask]
            own = part.indices[mask], part.rows[mask], time, part.paths[mask]
            kept.append(RulePart(part.part, *own))
    return kept


def _join(name: str, parts: Sequence[RulePart]) -> RulePart:
    """Return the events of parts with the same columns in a table of their own."""
    tables = [part.part[1].take(pa.array(part.indices)) for part in parts]
    times = [part.time for part in parts if part.time is not None]
    rows = np.concatenate([part.rows for part in parts])
    return RulePart(
        (name, pa.concat_tables(tables).unify_dictionaries()),
        np.arange(len(rows)),
        rows,
        np.concatenate(times) if times else None,
        np.concatenate([part.paths for part in parts]),
    )
