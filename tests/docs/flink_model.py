"""A small model of Flink's automata for patterns, to test the page for those who come from Flink.

It follows the behaviour of Flink's NFA: a state has edges that take an event, ignore it, or proceed
to another state without reading it; a computation follows every edge whose condition holds.
`greedy()` adds "and the event does not fit the loop" to every edge of the state after the loop.
Events are letters. Cost: all computations, so a dozen events are plenty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

Test = Callable[[str], bool]


class Contiguity(Enum):
    STRICT = "next"
    RELAXED = "followedBy"
    ANY = "followedByAny"


@dataclass(frozen=True)
class Step:
    """One pattern of a chain: the type of its events, how it follows, how often it occurs."""

    type: str
    follows: Contiguity = Contiguity.RELAXED
    low: int = 1
    high: int | None = 1
    """None: any number."""
    inner: Contiguity = Contiguity.RELAXED
    is_optional: bool = False
    is_greedy: bool = False
    until: str | None = None
    absent: frozenset[str] = frozenset()
    """Types that end the wait for this step (`notFollowedBy` before it)."""
    is_absent: bool = False
    """`notNext`: the next event is not of this type; it is no part of the match."""

    def times(self, low: int, high: int | None) -> Step:
        return replace(self, low=low, high=high)

    def one_or_more(self) -> Step:
        return self.times(1, None)

    def consecutive(self) -> Step:
        return replace(self, inner=Contiguity.STRICT)

    def allow_combinations(self) -> Step:
        return replace(self, inner=Contiguity.ANY)

    def optional(self) -> Step:
        return replace(self, is_optional=True)

    def greedy(self) -> Step:
        return replace(self, is_greedy=True)

    def fits(self, event: str) -> bool:
        return event == self.type and event != self.until

    def ignores(self, contiguity: Contiguity) -> Test | None:
        """Return which events are ignored while the step waits; None: no event is."""
        match contiguity:
            case Contiguity.STRICT:
                return None
            case Contiguity.RELAXED:
                return lambda event: event not in (self.type, self.until)
            case Contiguity.ANY:
                return lambda event: event != self.until


def begin(kind: str) -> Step:
    return Step(kind)


def following(kind: str) -> Step:
    return Step(kind, Contiguity.RELAXED)


def following_any(kind: str) -> Step:
    return Step(kind, Contiguity.ANY)


def right_after(kind: str) -> Step:
    return Step(kind, Contiguity.STRICT)


def not_next(kind: str) -> Step:
    return Step(kind, Contiguity.STRICT, is_absent=True)


class Edge(NamedTuple):
    action: str
    """Take, ignore or proceed."""
    target: State
    holds: Test


@dataclass(eq=False)
class State:
    edges: list[Edge] = field(default_factory=list)
    ends: frozenset[str] = frozenset()
    """Types that end a computation here."""

    def add(self, action: str, target: State, holds: Test = lambda _: True) -> None:
        self.edges.append(Edge(action, target, holds))


def compile_steps(steps: Sequence[Step]) -> tuple[State, State]:
    """Return the first and the last state."""
    last = sink = State()
    for step in reversed(steps):
        sink = _compile_absent(step, sink, last) if step.is_absent else _compile_step(step, sink)
    return sink, last


def _compile_absent(step: Step, after: State, last: State) -> State:
    state = State()
    state.add("ignore" if after is last else "proceed", after, lambda event: event != step.type)
    return state


def _compile_step(step: Step, after: State) -> State:
    is_loop = step.high is None
    if step.is_greedy and (is_loop or step.low != step.high):
        _restrict(after, step)
    sink = after
    inner = step.ignores(step.inner)
    if step.high is None:
        sink = State()
        sink.add("proceed", after)
        sink.add("take", sink, step.fits)
        if inner is not None:
            waiting = State()
            waiting.add("take", sink, step.fits)
            waiting.add("ignore", waiting, inner)
            sink.add("ignore", waiting, inner)
    else:
        for _ in range(step.high - step.low):
            sink = _compile_once(step, sink, after, inner, is_optional=True)
    for _ in range(step.low - 1):
        sink = _compile_once(step, sink, after, inner, is_optional=False)
    outer = step.ignores(step.follows)
    return _compile_once(step, sink, after, outer, is_optional=step.is_optional)


def _compile_once(
    step: Step, sink: State, after: State, ignores: Test | None, *, is_optional: bool
) -> State:
    state = State(ends=step.absent)
    state.add("take", sink, step.fits)
    if is_optional:
        state.add("proceed", after)
    if ignores is not None:
        waiting = state
        if is_optional:
            waiting = State(ends=step.absent)
            waiting.add("take", sink, step.fits)
            waiting.add("ignore", waiting, ignores)
        state.add("ignore", waiting, ignores)
    return state


def _restrict(state: State, loop: Step) -> None:
    """Let no edge of a state take, ignore or pass on an event that fits the loop before it."""

    def restrict(holds: Test) -> Test:
        return lambda event: holds(event) and not loop.fits(event)

    state.edges = [edge._replace(holds=restrict(edge.holds)) for edge in state.edges]


class Computation(NamedTuple):
    state: State
    taken: tuple[int, ...]


def match_events(
    steps: Sequence[Step],
    events: Sequence[str],
    *,
    within: int | None = None,
    skip: str = "no skip",
) -> set[tuple[int, ...]]:
    """Return the positions of each match; events are one tick apart."""
    first, last = compile_steps(steps)
    running: list[Computation] = []
    complete: list[tuple[int, ...]] = []
    found: set[tuple[int, ...]] = set()
    for now, event in enumerate(events):
        if within is not None:
            running = [one for one in running if now - one.taken[0] < within]
        moved: list[Computation] = []
        for one in [*running, Computation(first, ())]:
            for action, target in _list_moves(one.state, event):
                if action == "ignore":
                    if one.taken and target is last:
                        complete.append(one.taken)
                    elif one.taken:
                        moved.append(one._replace(state=target))
                    continue
                taken = (*one.taken, now)
                if target is not last:
                    moved.append(Computation(target, taken))
                if _reaches(target, last, event):
                    complete.append(taken)
        running = moved
        if skip == "no skip":
            found.update(complete)
            complete = []
            continue
        complete.sort()
        while complete and all(complete[0][0] <= one.taken[0] for one in running):
            match = complete.pop(0)
            found.add(match)
            limit = match[-1] if skip == "skip past last" else match[0]
            # those that began earlier are done already
            running = [one for one in running if one.taken[0] > limit]
            complete = [one for one in complete if one[0] > limit]
    return found


def _list_moves(state: State, event: str) -> list[tuple[str, State]]:
    """Return the edges that take or ignore an event, also after those that proceed."""
    moves: list[tuple[str, State]] = []
    if event in state.ends:
        return moves
    for action, target, holds in state.edges:
        if holds(event):
            moves += _list_moves(target, event) if action == "proceed" else [(action, target)]
    return moves


def _reaches(state: State, last: State, event: str) -> bool:
    """Whether a computation that has just taken an event is complete."""
    return state is last or any(
        action == "proceed" and holds(event) and _reaches(target, last, event)
        for action, target, holds in state.edges
    )
