"""The record of one row in a trace: active states, edges taken, matches completed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.views.automaton import AutomatonView, write_label


class ExampleMark(NamedTuple):
    """An event of a partial match, and those before it."""

    event: int
    labels: frozenset[str]
    before: ExampleMark | None

    def list_marks(self) -> list[tuple[int, frozenset[str]]]:
        """Return the events from the first on, each with its variables."""
        found = [(self.event, self.labels)]
        mark = self.before
        while mark is not None:
            found.append((mark.event, mark.labels))
            mark = mark.before
        return found[::-1]


class PartialMatches(NamedTuple):
    """Partial matches that wait together: how many, where the first began, one of the latest."""

    number: int
    since: int
    example: ExampleMark | None

    def join(self, other: PartialMatches) -> PartialMatches:
        """Return all of both."""
        return PartialMatches(
            self.number + other.number, min(self.since, other.since), other.example or self.example
        )

    def add_to(self, alive: dict[int, PartialMatches], state: int) -> None:
        """Let them wait in a state, beside those that do."""
        known = alive.get(state)
        alive[state] = self if known is None else known.join(self)


class Replayed(NamedTuple):
    """The end of a replay, by states and edges of the automaton's view."""

    alive: dict[int, PartialMatches]
    taken: dict[int, int]
    """How many partial matches took each edge at the last event."""
    completed: int
    """How many matches the last event completed, before strategy, WITHOUT, CONSUME and LIMIT."""


class AliveState(NamedTuple):
    """A state in which partial matches wait."""

    state: int
    name: str
    partial: int
    since: int
    """The row at which the earliest of them begins."""
    example: tuple[tuple[int, str], ...]
    """The rows of one of them, each with its variables."""


class TakenEdge(NamedTuple):
    """An edge that the last event took, and how many partial matches took it."""

    edge: int
    source: int
    target: int
    label: str
    partial: int


class TraceStep(NamedTuple):
    """What an event did, and what waits after it."""

    row: int
    event: dict[str, Any]
    states: tuple[AliveState, ...]
    taken: tuple[TakenEdge, ...]
    completed: int
    """How many matches end at the row."""
    whole: bool
    """Whether the replay began at the first event that can matter; a limit may have cut it."""
    exact: bool
    """Whether each of the partial matches satisfies what it can so far; some conditions are
    checked only when a candidate is complete."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; counts are text, they may have any size."""
        return {
            "row": self.row,
            "event": self.event,
            "states": [
                {"state": one.state, "name": one.name, "partial": str(one.partial)}
                | {"since": one.since}
                for one in self.states
            ],
            "taken": [
                {"edge": one.edge, "from": one.source, "to": one.target, "label": one.label}
                | {"partial": str(one.partial)}
                for one in self.taken
            ],
            "waiting": [
                {
                    "state": one.state,
                    "marks": [{"row": row, "variable": name} for row, name in one.example],
                }
                for one in self.states
                if one.example
            ],
            "completed": str(self.completed),
            "whole": self.whole,
            "exact": self.exact,
        }


def write_step(
    row: int,
    event: dict[str, Any],
    replayed: Replayed,
    view: AutomatonView | None,
    rows: NDArray[np.int64],
    shown: frozenset[str] = frozenset(),
) -> TraceStep:
    """Return the end of a replay in terms of the automaton's view; nothing is completed yet.

    `rows` has the row of each event of the run, `shown` the variables that people named. Without a
    view there is nothing to replay.
    """
    drawn, edges = (view.states, view.edges) if view is not None else ((), ())
    states = []
    for state, waiting in sorted(replayed.alive.items()):
        marks = waiting.example.list_marks() if waiting.example is not None else []
        example = tuple(
            (int(rows[index]), name)
            for index, labels in marks
            for name in sorted(labels & shown or labels)
        )
        since, name = int(rows[waiting.since]), drawn[state].name
        states.append(AliveState(state, name, waiting.number, since, example))
    taken = []
    for edge, number in sorted(replayed.taken.items()):
        seen = edges[edge]
        taken.append(TakenEdge(edge, seen.source, seen.target, write_label(seen), number))
    return TraceStep(row, event, tuple(states), tuple(taken), 0, True, True)
