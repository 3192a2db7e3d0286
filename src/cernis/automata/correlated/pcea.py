"""Parallelized complex event automata (PCEA): runs that wait for each other and compare events.

A transition reads one event. It asks a test of that event alone, gathers one run from
each of its *sources*, and compares, for each source, the last event of that run with
the event it reads (the source's *link*). A transition without sources begins a run.
With at most one source everywhere this is a chain automaton (chain-CEA): a run is a
line, each event compared with the one before it. With several, a run is a tree whose
root is the last event read: that is what ALL and conjunctive queries need.

A state stands for one way of having read its last event, so that what a link calls
"the earlier event" is always read by a known atom. A run that waits in a state waits
for ever (until its window ends): skipping events is not a transition. Contiguity is
a property of a link.

Names of the papers: chain-CEA (its B= and B≠ are `equal` and `unlike`), PCEA (its Ω
are the labels). `different` is SQL's `!=` (both values present and not
equal); `unlike` is the complement of `=`, which a missing value satisfies; only
determinization needs it.

A guard (`UNLESS`) is an automaton beside the others: the runs that have ended in its last states
forbid the matches that have begun before them. No match contains their events. A guard of one event
may instead take the runs that it forbids out of the index in which they wait (a *removal*).

`str()` of an automaton has a line for each transition, under the state it leads to:

      0 x  A / A,x          an A begins a run
    ^ 1 y  after 0 where a = b: B / B,y
           after 0 and 2: …  gathers a run from either
           unless 3 has begun: no run of a guard lies strictly inside the match
           takes out 0 where k = k: the runs of 0 with this value end here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, NamedTuple

from cernis.automata.unary.cea import Test, find_atoms, write_test
from cernis.automata.unary.tidy import find_reachable
from cernis.pattern.atom import Atom
from cernis.pattern.formula import Gap, Unit
from cernis.pattern.predicate import Operator
from cernis.pattern.write import write_gap

Order = Literal["<", "<=", ">", ">=", "="]


@dataclass(frozen=True, slots=True)
class Ordered:
    """`earlier op later`: the earlier event's attribute against the later event's.

    A tree decides `=` where not all events of a star have the value, so that it is no key.
    """

    earlier: str
    op: Order
    later: str

    @property
    def turned(self) -> Ordered:
        """The same order, as the other event is asked for it.

        >>> Ordered("p", "<", "q").turned
        Ordered(earlier='q', op='>', later='p')
        """
        return Ordered(self.later, _TURNED[self.op], self.earlier)


_TURNED: Mapping[Order, Order] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Leaving:
    """An event of a guard takes the runs out of the index that equal it in these attributes."""

    guard: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PassedStage:
    """What a run waits for before it is filed where a link asks (`middles`)."""

    state: int
    fits: Link | None = None
    """An event of the state that fits the run; None: a run of the state that has begun since."""
    equal: tuple[tuple[str, str], ...] = ()
    """The attributes of the run, and of what it waits for, that have to be equal (`middles`)."""
    after: tuple[PassedStage, ...] = ()
    """The stages that the event has to have passed itself, as the centre of another star."""

    def __str__(self) -> str:
        parts = [f"{a} = {b}" for a, b in self.equal]
        parts += [] if self.fits is None or not self.fits.ordered else [str(self.fits)]
        text = f"{self.state} with {' and '.join(parts)}" if parts else f"{self.state}"
        return f"{text} (and {', then '.join(map(str, self.after))})" if self.after else text


class StarStage(NamedTuple):
    """How far a star has come: which one, and how many of its stages less one are passed."""

    centre: int
    last: int
    """The state in which it ends."""
    stage: int
    """The last stage that is passed; -1: none."""


AFTER = Ordered("@time", "<", "@time")
"""An index holds earlier events only, so this excludes those of the same timestamp."""


@dataclass(frozen=True, slots=True)
class Link:
    """What must hold between the last event of a waiting run and the event read now.

    Pairs are (attribute of the earlier event, attribute of the event read now).
    """

    equal: tuple[tuple[str, str], ...] = ()
    different: tuple[tuple[str, str], ...] = ()
    unlike: tuple[tuple[str, str], ...] = ()
    ordered: tuple[Ordered, ...] = ()
    contiguous: bool = False
    gap: Gap | None = None
    """How far the event read now lies after the earlier one."""
    since: Gap | None = None
    """How far it lies after the first event of the part of the formula that has this WITHIN."""
    arrow: str | None = None
    """The `->` that it belongs to: an event that passes its test takes all runs that it fits out of
    the index, so that they meet no other."""
    unless: Leaving | None = None
    """The `UNLESS` that it stands in, if the events of its guard take runs out of the index."""
    after_last: Literal["all", "first"] | None = None
    """It asks for runs of one event each that came after the last run in the bucket of the source
    before it: all of them, or the first."""
    touches: bool = False
    """An event that passes its test ends what it asks for: the next asks for what comes after, or
    where the first is asked for, the runs of the source before it leave once there is one."""
    inside: bool = False
    """It asks for runs that began after the last event of the next source's run (`middles`)."""
    once: tuple[PassedStage, ...] = ()
    """It asks for runs that have passed these stages, one after the other."""
    ray: StarStage | None = None
    """It asks for rays of this star: events compared with the centre, whose attributes stand for
    those of the event read now. They come after the time at which the centre has passed this
    stage; -1: after the centre itself."""
    is_next: bool = False
    """It asks for the ray of a `->`: the one that let the centre go on."""
    again: bool = False
    """The runs that an event takes out wait for the last stage once more (`middles`)."""

    @property
    def strict(self) -> bool:
        """Whether only the timestamps are compared by order, and the index need not keep it."""
        return self.ordered == (AFTER,) and not self.contiguous and self.arrow is None

    @property
    def is_range(self) -> bool:
        """Whether an attribute of the earlier event lies between two of the event read now."""
        return len(self.ordered) > 1 and not self.is_span

    @property
    def is_span(self) -> bool:
        """Whether an attribute of the event read now lies between two of the earlier event."""
        return len(self.ordered) > 1 and self.ordered[0].later == self.ordered[1].later

    @property
    def asks_recent(self) -> bool:
        """Whether an order stands beside the gap: the index is by value, and by what is recent."""
        return self.gap is not None and bool(self.ordered)

    @property
    def is_centre(self) -> bool:
        """Whether it asks for the centres of a star."""
        return any(stage.fits is not None for stage in self.once)

    def __str__(self) -> str:
        parts = [f"{a} = {b}" for a, b in self.equal]
        parts += [f"{a} != {b}" for a, b in self.different]
        parts += [f"not {a} = {b}" for a, b in self.unlike]
        parts += [f"{o.earlier} {o.op} {o.later}" for o in self.ordered]
        if self.contiguous:
            parts.append("right before")
        if self.after_last is not None:
            parts.append("first after that" if self.after_last == "first" else "after that")
        elif self.gap is not None:
            parts.append(f"[{write_gap(self.gap)}] before")
        if self.since is not None:
            parts.append(f"begun [{write_gap(self.since)}] before")
        if self.inside:
            parts.append("begun after the other")
        if self.ray is not None and self.ordered:
            parts.append("of the centre")
        if self.is_next:
            parts.append("the next of the centre")
        if self.once:
            parts.append(f"once {', then '.join(map(str, self.once))} has followed")
        if self.arrow is not None:
            parts.append("next, again and again" if self.again else "next")
        if self.unless is not None:
            parts.append("not taken out")
        return " and ".join(parts)


ANY_LINK = Link()

ANY_DISTANCE = Gap(Unit.EVENTS, Fraction(2**50))
"""The gap of links that only ask for the order of positions."""


@dataclass(frozen=True, slots=True)
class Unindexed:
    """What indexes do not compare, by the kinds of values.

    >>> known = Unindexed(unordered=frozenset({"name"}), mixed=frozenset({"b"}))
    >>> known.explain("<", "name", "name")
    'no index keeps the order of text, or of decimals with more than 34 digits'
    >>> known.explain("!=", "a", "b")
    'values differ only if they are of one kind, and an attribute has several'
    """

    unordered: frozenset[str] = frozenset()
    """Attributes that hold text or long decimals, whose order no index keeps."""
    mixed: frozenset[str] = frozenset()
    """Attributes that hold values of several kinds, which no index compares by !=."""
    rounded: frozenset[str] = frozenset()
    """Calculated attributes of differences, which an index would round otherwise."""
    wide: frozenset[str] = frozenset()
    """Attributes that may hold whole numbers beyond 2⁵³, of which a range sees the float below."""
    untimed: frozenset[str] = frozenset()
    """`ts`, where another column has the time of events."""
    decimals: frozenset[str] = frozenset()
    """`p beside (2 * q)`: decimals that are compared with a calculated number, as `lower_terms` has
    it: an index keeps the nearest float of them."""
    far: bool = False
    """What states of the first version leave to candidates: events with others between them, and
    calculated values that are compared by =."""

    def __or__(self, other: Unindexed) -> Unindexed:
        return Unindexed(
            self.unordered | other.unordered,
            self.mixed | other.mixed,
            self.rounded | other.rounded,
            self.wide | other.wide,
            self.untimed | other.untimed,
            self.decimals | other.decimals,
            self.far or other.far,
        )

    def covers(self, other: Unindexed) -> bool:
        """Whether indexes leave out all that the other leaves out."""
        return self | other == self

    def explain(self, op: Operator, one: str, other: str) -> str:
        """Return why no index compares two attributes so, or \"\"."""
        if op == "!=" and not self.mixed.isdisjoint((one, other)):
            return "values differ only if they are of one kind, and an attribute has several"
        if not self.rounded.isdisjoint((one, other)):
            if any(name.startswith(f"({_PREV}") for name in (one, other)):
                return "a difference of numbers is rounded; an index needs PREV alone on one side"
            return "an index takes the difference of numbers, or of times"
        if op not in ("=", "!=") and not self.unordered.isdisjoint((one, other)):
            return "no index keeps the order of text, or of decimals with more than 34 digits"
        return ""

    def write_names(self) -> list[str]:
        """Return the attributes as the header of a state and the note of a checkpoint have them.

        >>> Unindexed(unordered=frozenset({"name"}), mixed=frozenset({"b"})).write_names()
        ['@mixed b', 'name']
        """
        own = self.mixed, self.rounded, self.wide, self.untimed, self.decimals
        sets = zip(_MARKS, own, strict=True)
        return sorted([*self.unordered, *(mark + name for mark, names in sets for name in names)])

    @classmethod
    def read_names(cls, names: Iterable[str]) -> Unindexed:
        """Return what `write_names` has written.

        >>> Unindexed.read_names(["@mixed b", "name"]).mixed
        frozenset({'b'})
        """
        given = frozenset(names)
        mixed, rounded, wide, untimed, decimals = (
            frozenset(name.removeprefix(mark) for name in given if name.startswith(mark))
            for mark in _MARKS
        )
        unordered = frozenset(name for name in given if not name.startswith(_MARKS))
        return cls(unordered, mixed, rounded, wide, untimed, decimals)


EVERY_INDEX = Unindexed()
_MARKS = ("@mixed ", "@rounded ", "@wide ", "@untimed ", "@decimal ")
_PREV = "PREV("


@dataclass(frozen=True, slots=True)
class Apart:
    """`x[a] op y[b]` of every pair in a match, neighbours or not: no link can say it."""

    variable: str
    attribute: str
    op: Operator
    other: str
    other_attribute: str


@dataclass(frozen=True, slots=True)
class WeightBound:
    """The weights of the events of a variable add up to at most `limit`, or the greatest of them.

    Several bounds in a row may be terms of one condition: the last one has the limit of their sum.
    """

    variable: str | None
    """None: all events of the match."""
    attribute: str | None
    """None: each event weighs 1."""
    sign: float
    """What the value is multiplied by; a sum bounds nothing where a weight is negative."""
    limit: float
    text: str = ""
    """The condition."""
    is_extreme: bool = False
    """Whether the greatest weight counts, not the sum."""
    terms: int = 1
    """How many bounds up to this one have the limit together; 0: a later one has it."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run in this state is needed, whose last event satisfies the link."""

    state: int
    link: Link = ANY_LINK

    def __str__(self) -> str:
        return f"{self.state}" if self.link == ANY_LINK else f"{self.state} where {self.link}"


@dataclass(frozen=True, slots=True)
class Transition:
    """Reads an event that passes the test, with a run from each source; writes the labels."""

    sources: tuple[RunSource, ...]
    test: Test
    labels: frozenset[str]
    target: int

    @property
    def reads(self) -> str:
        """The test and the labels, as text."""
        return f"{write_test(self.test)} / {','.join(sorted(self.labels)) or '-'}"

    def __str__(self) -> str:
        if not self.sources:
            return self.reads
        return f"after {' and '.join(map(str, self.sources))}: {self.reads}"


@dataclass(frozen=True, slots=True)
class PCEA:
    """States are 0 … len(names)-1; a run that reaches a final state is a match."""

    names: tuple[str, ...]
    """For each state the atom that it has read last, for printing."""
    transitions: tuple[Transition, ...]
    finals: frozenset[int]
    guards: tuple[tuple[int, RunSource], ...] = ()
    """Final states, each with runs that must not have begun inside the match (UNLESS)."""
    removals: tuple[tuple[int, RunSource], ...] = ()
    """States of guards, each with runs that reading into it takes out of their indexes."""

    @property
    def sources(self) -> tuple[RunSource, ...]:
        """The sources of all transitions, then those of the guards, by final state."""
        gathered = [source for t in self.transitions for source in t.sources]
        return (*gathered, *(source for _, source in self.guards))

    @property
    def guard_states(self) -> frozenset[int]:
        """The states of guards: their runs are no part of a match."""
        into: dict[int, set[int]] = {}
        for t in self.transitions:
            into.setdefault(t.target, set()).update(source.state for source in t.sources)
        ends = {source.state for _, source in self.guards}
        ends |= {state for state, _ in self.removals}
        return frozenset(find_reachable(ends, lambda state: into.get(state, ())))

    def drop_guards(self) -> PCEA:
        """Return the automaton that accepts what no guard has left out; states keep numbers."""
        if not self.guard_states:
            return self
        gone = self.guard_states
        kept = tuple(t for t in self.transitions if t.target not in gone)
        return replace(self, transitions=kept, guards=(), removals=())

    @property
    def size(self) -> int:
        """The paper's |P|: states, sources and labels of all transitions."""
        return len(self.names) + sum(len(t.sources) + len(t.labels) for t in self.transitions)

    @property
    def timed_states(self) -> frozenset[int]:
        """The states inside a part of the formula with a WITHIN of its own, where links decide it.

        A transition into such a state begins the part, unless its link says how long it may last.
        """
        links = [(t.target, s) for t in self.transitions for s in t.sources]
        timed = [(target, s.state) for target, s in links if s.link.since is not None]
        return frozenset(state for pair in timed for state in pair)

    @property
    def is_chain(self) -> bool:
        """No transition gathers more than one run."""
        return all(len(t.sources) <= 1 for t in self.transitions)

    def tests(self) -> tuple[Test, ...]:
        """Return the distinct tests, in order of appearance."""
        return tuple(dict.fromkeys(t.test for t in self.transitions))

    def atoms(self) -> tuple[Atom, ...]:
        """Return the distinct atoms, in order of appearance."""
        return tuple(dict.fromkeys(atom for test in self.tests() for atom in find_atoms(test)))

    def __str__(self) -> str:
        lines: list[str] = []
        for state, name in enumerate(self.names):
            head = f"{'^' if state in self.finals else ' '} {state} {name}"
            facts = [str(t) for t in self.transitions if t.target == state] or ["never"]
            lines.append(f"{head}  {facts[0]}")
            facts += [
                f"unless {source} has begun" for final, source in self.guards if final == state
            ]
            facts += [
                f"takes out {replace(source, link=replace(source.link, unless=None))}"
                for taker, source in self.removals
                if taker == state
            ]
            lines += [f"{' ' * len(head)}  {fact}" for fact in facts[1:]]
        return "\n".join(lines)
