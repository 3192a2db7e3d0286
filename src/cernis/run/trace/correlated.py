"""Replay events in the automaton of a correlated plan, as its definition has it.

Each transition that an event can take makes a *vertex*: it stands for as many partial matches as
there are ways to combine runs from its sources. Vertices never leave their state. So a replay from
the first event of a window has exactly the partial matches inside the window.

Cost contract: O(events² · transitions) in Python, over at most the events that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from cernis.automata.correlated.pcea import Link, Transition
from cernis.automata.unary.alphabet import passes
from cernis.pattern.formula import Unit
from cernis.pattern.predicate import Attribute
from cernis.results.trace_steps import ExampleMark, PartialMatches, Replayed
from cernis.run.check.conditions import EventView, compare
from cernis.run.check.verify import measure_time
from cernis.run.trace.events import Int64s, TracedEvents
from cernis.views.describe_automaton import DrawnPcea


class _Vertex(NamedTuple):
    """Runs that have read their last event at the same rank in the same way."""

    number: int
    state: int
    rank: int
    waiting: PartialMatches
    begun: int
    """The rank at which they began the part that has a WITHIN of its own; -1: they are in none."""


class CorrelatedReplay:
    """Replays events of one run."""

    def __init__(
        self, drawn: DrawnPcea, calculated: Mapping[str, Attribute], events: TracedEvents
    ) -> None:
        self.drawn = drawn
        self.pcea = drawn.pcea
        self.events = events
        self._calculated = calculated
        self.timed = drawn.pcea.timed_states

    @cached_property
    def _asked(self) -> frozenset[int]:
        """The states from which runs go on."""
        return frozenset(s.state for t in self.pcea.transitions for s in t.sources)

    def replay(self, members: Int64s, first: int, last: int) -> Replayed:
        """Read the events at ranks first to last of a partition; say what the last one did."""
        found = _Replaying(self, members)
        taken: dict[int, int] = {}
        completed = 0
        for rank in range(first, last + 1):
            taken, completed = found.read(rank)
        alive: dict[int, PartialMatches] = {}
        for vertex in found.vertices:
            if vertex.state in self._asked:
                vertex.waiting.add_to(alive, vertex.state)
        return Replayed(alive, taken, completed)

    def count_edges(self, members: Int64s, firsts: list[int]) -> dict[int, int]:
        """Return how many events of a partition took each edge of the view.

        `firsts` has for each rank the first one inside its window.
        """
        counts: dict[int, int] = {}
        found = _Replaying(self, members)
        for rank, first in enumerate(firsts):
            found.drop_before(first)
            taken, _ = found.read(rank)
            for edge in taken:
                counts[edge] = counts.get(edge, 0) + 1
        return counts

    def attribute(self, name: str) -> Attribute:
        return self._calculated.get(name) or Attribute.named(name)


class _Replaying:
    """The vertices of a partition so far."""

    def __init__(self, replay: CorrelatedReplay, members: Int64s) -> None:
        self.replay = replay
        self.members = members
        self.view: EventView = replay.events.view(members, replay.pcea.atoms())
        self.vertices: list[_Vertex] = []
        self._gone: dict[str, set[int]] = {}
        """By arrow or UNLESS, the numbers of the vertices that have left its index."""
        self._made = 0

    def drop_before(self, first: int) -> None:
        """Drop the runs that begin before a rank."""
        if first and any(v.waiting.since < self.members[first] for v in self.vertices):
            kept = [v for v in self.vertices if v.waiting.since >= self.members[first]]
            self.vertices = kept

    def read(self, rank: int) -> tuple[dict[int, int], int]:
        """Read an event; return which edges it took, and how many matches it completed."""
        pcea, index = self.replay.pcea, int(self.members[rank])
        truth = self.view.truth(rank)
        made: list[_Vertex] = []
        met: list[tuple[str, _Vertex]] = []
        taken: dict[int, int] = {}
        completed = 0
        for number, transition in enumerate(pcea.transitions):
            if not passes(transition.test, truth):
                continue
            groups = []
            for source in transition.sources:
                group = [v for v in self.vertices if self._fits(v, source.state, source.link, rank)]
                groups.append(group)
                if source.link.arrow is not None:
                    met += [(source.link.arrow, vertex) for vertex in group]
            if not all(groups) or not (groups or self.replay.events.is_usable(index)):
                continue
            for begun, joined in self._part_beginnings(transition, groups, rank):
                ways = prod(sum(v.waiting.number for v in group) for group in joined)
                since = min([index, *(v.waiting.since for group in joined for v in group)])
                example = joined[0][-1].waiting.example if joined else None
                mark = ExampleMark(index, transition.labels, example)
                waiting = PartialMatches(ways, since, mark)
                made.append(_Vertex(self._made, transition.target, rank, waiting, begun))
                self._made += 1
                for edge in self.replay.drawn.edges_of[number]:
                    taken[edge] = taken.get(edge, 0) + ways
                usable = self.replay.events.is_usable(index)
                if self._is_final(transition.target, since, rank) and usable:
                    completed += ways
        met += self._list_removed(rank)
        for arrow, vertex in met:
            self._gone.setdefault(arrow, set()).add(vertex.number)
        self.vertices += made
        return taken, completed

    def _list_removed(self, rank: int) -> list[tuple[str, _Vertex]]:
        """Return what the event takes out as one of a guard, with the name of the UNLESS."""
        pcea, truth = self.replay.pcea, self.view.truth(rank)
        read = {t.target for t in pcea.transitions if passes(t.test, truth)}
        return [
            (f"unless {source.link.unless.guard}", vertex)
            for taker, source in pcea.removals
            if taker in read and source.link.unless is not None
            for vertex in self.vertices
            if self._fits(vertex, source.state, source.link, rank)
        ]

    def _is_final(self, state: int, since: int, rank: int) -> bool:
        """Whether runs that began with an event are matches: nothing forbids them."""
        guards = (source for final, source in self.replay.pcea.guards if final == state)
        return state in self.replay.pcea.finals and not any(
            vertex.waiting.since > since
            for source in guards
            for vertex in self.vertices
            if self._fits(vertex, source.state, source.link, rank)
        )

    def _part_beginnings(
        self, transition: Transition, groups: list[list[_Vertex]], rank: int
    ) -> Iterator[tuple[int, list[list[_Vertex]]]]:
        """Yield the runs that a transition gathers, by the rank at which they began their part.

        Where something must be absent from matches: by the event with which they began.
        """
        if self.replay.pcea.guards:
            starts = [sorted({vertex.waiting.since for vertex in group}) for group in groups]
            for chosen in product(*starts):
                together = zip(groups, chosen, strict=True)
                yield -1, [[v for v in group if v.waiting.since == at] for group, at in together]
            return
        if not any(source.link.since for source in transition.sources):
            yield rank if transition.target in self.replay.timed else -1, groups
            return
        (group,) = groups
        for begun in sorted({vertex.begun for vertex in group}):
            yield begun, [[vertex for vertex in group if vertex.begun == begun]]

    def _fits(self, vertex: _Vertex, state: int, link: Link, rank: int) -> bool:
        """Whether the event at a rank can go on from a vertex over a link."""
        if vertex.state != state or vertex.number in self._gone.get(link.arrow or "", ()):
            return False
        if link.unless and vertex.number in self._gone.get(f"unless {link.unless.guard}", ()):
            return False
        if link.contiguous and vertex.rank + 1 != rank:
            return False
        for gap, earlier in ((link.gap, vertex.rank), (link.since, vertex.begun)):
            if gap is not None:
                in_events = gap.unit is Unit.EVENTS
                far = rank - earlier if in_events else measure_time(earlier, rank, self.view)
                if not gap.allows(far):
                    return False

        def pair(a: str, b: str) -> tuple[object, object]:
            earlier, later = self.replay.attribute(a), self.replay.attribute(b)
            return self.view.value(vertex.rank, earlier), self.view.value(rank, later)

        return (
            all(compare("=", *pair(a, b)) for a, b in link.equal)
            and all(compare("!=", *pair(a, b)) for a, b in link.different)
            and not any(compare("=", *pair(a, b)) for a, b in link.unlike)
            and all(compare(o.op, *pair(o.earlier, o.later)) for o in link.ordered)
        )
