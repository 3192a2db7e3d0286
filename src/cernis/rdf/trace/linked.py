"""Replay graphs in an automaton of links, as its definition has it.

Partial matches that begin with the same graph and have the same live values wait together. A replay
from the first timestamp of a window has exactly the partial matches inside it.

Cost contract: for each row of a timestamp, one pass in NumPy over the partial matches that wait for
its step. Python per row: it serves people who look, not runs.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.rdf.reading.terms import Codes
from cernis.rdf.trace.graphs import TracedGraphs, agree, unite
from cernis.results.trace_steps import ExampleMark, PartialMatches, Replayed
from cernis.views.describe_linked import DrawnLinked


class _WaitingGroup(NamedTuple):
    """Partial matches that have the same first graph, state and live values."""

    number: int
    state: int
    part: int
    codes: Codes
    waiting: PartialMatches


class _LinkMove(NamedTuple):
    """A row that took partial matches along an edge, or away at a guard."""

    edge: int
    row: int
    partial: int
    final: bool


class LinkedReplay:
    """Replays the graphs of one run."""

    def __init__(self, drawn: DrawnLinked, graphs: TracedGraphs) -> None:
        self.drawn, self.graphs, self.linked = drawn, graphs, graphs.linked

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """For each state, which columns it keeps."""
        columns = self.linked.columns
        return np.array([[c in state.bound for c in columns] for state in self.linked.states])

    def replay(self, first: int, graph: int) -> Replayed:
        """Read the moments from `first` to the moment of a graph; say what the graph did.

        What waits then has read the whole timestamp.
        """
        found = _LinkedReplaying(self)
        moves: list[_LinkMove] = []
        for moment in range(first, int(self.graphs.moments[graph]) + 1):
            moves = found.read(moment)
        alive: dict[int, PartialMatches] = {}
        for group in found.list_groups():
            group.waiting.add_to(alive, group.state)
        own = [move for move in moves if graph in self.graphs.rows.event[move.row]]
        taken: dict[int, int] = {}
        for move in own:
            taken[move.edge] = taken.get(move.edge, 0) + move.partial
        return Replayed(alive, taken, sum(move.partial for move in own if move.final))

    def count_edges(self, last: int) -> dict[int, int]:
        """Return how many graphs of the moments up to one took each edge of the view."""
        found = _LinkedReplaying(self)
        seen: dict[int, set[int]] = {}
        for moment in range(last + 1):
            found.drop_before(int(self.graphs.bounds[moment]))
            for move in found.read(moment):
                events = self.graphs.rows.event[move.row]
                seen.setdefault(move.edge, set()).update(events[events >= 0].tolist())
        return {edge: len(graphs) for edge, graphs in seen.items()}


class _LinkedReplaying:
    """The partial matches so far, in the stores in which they wait."""

    def __init__(self, replay: LinkedReplay) -> None:
        self.replay, self.graphs, self.linked = replay, replay.graphs, replay.linked
        self.stores: list[dict[int, _WaitingGroup]] = [{} for _ in self.linked.stores]
        self._made = 0

    def list_groups(self) -> list[_WaitingGroup]:
        """Return what waits anywhere, each once, from the first made on."""
        found = {number: group for store in self.stores for number, group in store.items()}
        return [found[number] for number in sorted(found)]

    def drop_before(self, bound: int) -> None:
        """Drop what begins before a time."""
        times = self.graphs.events.times
        for i, store in enumerate(self.stores):
            if any(times[group.waiting.since] < bound for group in store.values()):
                self.stores[i] = {
                    number: group
                    for number, group in store.items()
                    if times[group.waiting.since] >= bound
                }

    def read(self, moment: int) -> list[_LinkMove]:
        """Read the rows of a timestamp; return what they moved."""
        rows = self.graphs.rows
        here = self.graphs.list_rows(moment, moment)
        by_reading: dict[int, list[int]] = {}
        for row in range(here.start, here.stop):
            by_reading.setdefault(int(rows.reading[row]), []).append(row)
        before = [[*store.values()] for store in self.stores]
        made: dict[tuple[int, int, bytes], _WaitingGroup] = {}
        moves: list[_LinkMove] = []
        for number, transition in enumerate(self.linked.transitions):
            for row in by_reading.get(transition.reading, ()):
                if transition.store is None:
                    extended = self._begin(row, moment)
                else:
                    fitting = self._find_fitting(
                        before[transition.store], transition.reading, row, transition.fresh
                    )
                    if self.linked.stores[transition.store].link == ";":
                        for group in fitting:
                            self.stores[transition.store].pop(group.number, None)
                    extended = [group for group in fitting if self._is_inside(group, moment)]
                if not extended:
                    continue
                ways = sum(group.waiting.number for group in extended)
                edge = self.replay.drawn.edge_of[number]
                moves.append(_LinkMove(edge, row, ways, transition.final))
                for group in extended:
                    self._extend(group, row, transition.target, made)
        for number, guard in enumerate(self.linked.guards):
            for row in by_reading.get(guard.reading, ()):
                caught = self._find_fitting(before[guard.store], guard.reading, row, frozenset())
                held = [g for g in caught if self.stores[guard.store].pop(g.number, None)]
                if held:
                    ways = sum(group.waiting.number for group in held)
                    moves.append(_LinkMove(self.replay.drawn.guard_of[number], row, ways, False))
        self._end_moment({int(rows.part[row]) for row in range(here.start, here.stop)}, before)
        for group in made.values():
            for store, one in enumerate(self.linked.stores):
                if one.state == group.state:
                    self.stores[store][group.number] = group
        return moves

    def _begin(self, row: int, moment: int) -> list[_WaitingGroup]:
        """Return the match that begins with a row, before it has read it."""
        rows = self.graphs.rows
        reading, last = int(rows.reading[row]), int(rows.event[row].max())
        begins = self.graphs.events.times[last] >= self.graphs.bounds[moment]
        if not begins or not self._hold(reading, rows.codes[row : row + 1])[0]:
            return []
        graphs = rows.event[row]
        since = int(graphs[graphs >= 0].min())
        nothing = np.full_like(rows.codes[row], -1)
        return [_WaitingGroup(-1, -1, int(rows.part[row]), nothing, PartialMatches(1, since, None))]

    def _hold(self, reading: int, codes: Codes) -> NDArray[np.bool_]:
        return self.graphs.check(self.linked.conditions(reading), codes)

    def _find_fitting(
        self, groups: list[_WaitingGroup], reading: int, row: int, fresh: frozenset[str]
    ) -> list[_WaitingGroup]:
        """Return the groups that agree with a row and for which its conditions hold."""
        if not groups:
            return []
        codes = np.array([group.codes for group in groups], np.int32)
        codes[:, [c in fresh for c in self.linked.columns]] = -1
        own = self.graphs.rows.codes[row]
        mask = agree(codes, own)
        mask[mask] = self._hold(reading, unite(codes[mask], own))
        return [groups[i] for i in np.flatnonzero(mask).tolist()]

    def _is_inside(self, group: _WaitingGroup, moment: int) -> bool:
        times = self.graphs.events.times
        return bool(times[group.waiting.since] >= self.graphs.bounds[moment])

    def _extend(
        self,
        group: _WaitingGroup,
        row: int,
        target: int,
        made: dict[tuple[int, int, bytes], _WaitingGroup],
    ) -> None:
        """Add what a group is after a row."""
        rows = self.graphs.rows
        codes = np.where(self.replay.live[target], unite(group.codes, rows.codes[row]), -1)
        mark = group.waiting.example
        gpms = self.linked.alternatives[int(rows.alternative[row])].gpms
        for gpm, graph in zip(gpms, rows.event[row].tolist(), strict=False):
            mark = ExampleMark(graph, frozenset({gpm}), mark)
        waiting = group.waiting._replace(example=mark)
        key = (target, waiting.since, codes.tobytes())
        known = made.get(key)
        if known is not None:
            made[key] = known._replace(waiting=known.waiting.join(waiting))
            return
        part = int(rows.part[row])
        made[key] = _WaitingGroup(self._made, target, part, codes.astype(np.int32), waiting)
        self._made += 1

    def _end_moment(self, parts: set[int], before: list[list[_WaitingGroup]]) -> None:
        """Drop what waited for this timestamp only; with PARTITION BY, for one of its partition."""
        partitioned = bool(self.graphs.plan.query.partition)
        for store, groups in enumerate(before):
            if self.linked.stores[store].link == ",":
                for group in groups:
                    if not partitioned or group.part in parts:
                        self.stores[store].pop(group.number, None)
