"""A list of partial runs in Python: what people write by hand, and how OpenCEP works inside.

For each event every run that is not over is looked at; one that the event continues is copied, so
that it can also wait for another one. The cost is the number of partial runs for each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from benchmarks.peers.answering import Finder, Found, add_up, answer_questions, read_steps
from benchmarks.peers.questions import SESSION
from benchmarks.peers.write import PeerSteps


class RowEvent(NamedTuple):
    """An event, with its columns in their order."""

    row: int
    ts: int
    type: str
    key: int
    price: int


Run = tuple[RowEvent, ...]
"""A partial match: an event for each step so far, of a repetition the last."""


def open_events(events: pa.Table) -> Finder:
    """Return the function that reads the events with a list of runs."""
    columns = [column.to_pylist() for column in events.columns]
    given = [RowEvent(*values) for values in zip(*columns, strict=True)]

    def find(request: Mapping[str, Any]) -> Found:
        rows = sorted(given, key=itemgetter(1)) if request["lateness"] else given
        if request["steps"] == "sessions":
            return _find_sessions(rows)
        if request["steps"] == "V shapes":
            return _find_v_shapes(rows)
        return add_up(_find(rows, read_steps(each)) for each in request["steps"])

    return find


def _find(rows: list[RowEvent], steps: PeerSteps) -> Found:
    if steps.mode == "absent":
        return _find_absent(rows, steps)
    if not steps.is_keyed:
        return _find_runs(rows, steps)
    keys: dict[int, list[RowEvent]] = {}
    for event in rows:
        keys.setdefault(event.key, []).append(event)
    return add_up(_find_runs(own, steps) for own in keys.values())


def _find_runs(rows: list[RowEvent], steps: PeerSteps) -> Found:
    types, is_next, last = steps.types, steps.mode == "next", len(steps.types) - 1
    repeats, least, most = steps.repeated or (-1, 1, 1)
    conditions = [
        [(c.earlier, c.attribute, c.operator, c.plus) for c in steps.compared if c.later == step]
        for step in range(len(types))
    ]
    floors = [steps.floor(step) for step in range(len(types))]

    def fits(event: RowEvent, run: Run) -> bool:
        step = len(run)
        floor = floors[step]
        if event.type != types[step] or (floor is not None and event.price <= floor):
            return False
        for earlier, attribute, operator, plus in conditions[step]:
            before = getattr(run[earlier], attribute) + plus
            now = getattr(event, attribute)
            if not (now > before if operator == "<" else now == before):
                return False
        return True

    assert least == 1
    kinds = frozenset(types)
    runs: list[tuple[Run, int]] = []  # with how often its last step was repeated
    number = first = end = 0
    for event in rows:
        if event.type not in kinds:
            continue
        going: list[tuple[Run, int]] = []
        for run, times in runs:
            if event.ts - run[0].ts > steps.window:
                continue
            moves = fits(event, run)
            if moves and len(run) == last:
                number, first, end = number + 1, first + run[0].row, end + event.row
            elif moves:
                going.append(((*run, event), 1))
            if len(run) - 1 == repeats and event.type == types[repeats] and times != most:
                going.append((run, times + 1))
            if not (moves and is_next):
                going.append((run, times))
        runs = going
        if fits(event, ()):
            runs.append(((event,), 1))
    return number, first, end


def _find_absent(rows: list[RowEvent], steps: PeerSteps) -> Found:
    begins, ends = steps.types
    waiting: dict[int, list[RowEvent]] = {}
    number = total = 0
    last = rows[-1].ts
    for event in rows:
        if event.type not in steps.types:
            continue
        own = waiting.get(event.key, [])
        over = [one for one in own if event.ts - one.ts > steps.window]
        number, total = number + len(over), total + sum(one.row for one in over)
        if event.type == ends:
            waiting[event.key] = []
        elif event.type == begins:
            waiting[event.key] = [*own[len(over) :], event]
    over = [one for own in waiting.values() for one in own if last - one.ts > steps.window]
    number, total = number + len(over), total + sum(one.row for one in over)
    return number, total, total


def _find_sessions(rows: list[RowEvent]) -> Found:
    open_sessions: dict[int, tuple[int, RowEvent]] = {}
    number = first = end = 0
    for event in rows:
        begin, before = open_sessions.get(event.key, (event.row, event))
        if event.ts - before.ts > SESSION:
            number, first, end, begin = number + 1, first + begin, end + before.row, event.row
        open_sessions[event.key] = (begin, event)
    for begin, before in open_sessions.values():
        number, first, end = number + 1, first + begin, end + before.row
    return number, first, end


def _find_v_shapes(rows: list[RowEvent]) -> Found:
    tops: dict[int, tuple[int, RowEvent, bool]] = {}  # the top, the row before, whether prices fall
    number = first = end = 0
    for event in rows:
        top, before, falls = tops.get(event.key, (event.row, event, False))
        if event.price < before.price:
            tops[event.key] = (top if falls else before.row, event, True)
            continue
        if falls and event.price > before.price:
            number, first, end = number + 1, first + top, end + event.row
        tops[event.key] = (event.row, event, False)
    return number, first, end


if __name__ == "__main__":
    answer_questions(open_events)
