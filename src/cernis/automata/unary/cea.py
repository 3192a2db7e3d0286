"""Complex event automata (CEA): a finite automaton that reads events and marks some.

A transition asks a `Test` of the event and writes *labels*: the variables that the
event joins, empty for an event that is read without being marked (the paper's ∘).
ε-moves are kept, so that the automaton is linear in the formula.

Two operators are not regular expressions over one automaton; they stay linear here
because a run carries them along (see `determinize`):

* `UNLESS`: a *scope* is a guard automaton, given by its entry and exit state; every
  state knows the scopes it lies in. A run inside a scope drags the set of guard states
  along and dies when it goes on after the guard has been satisfied.
* `ALL`: a *join* state stands for several automata that run side by side.

The rejected design was to multiply both out into plain transitions: exponential in
the size of the guard, and unreadable when printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cernis.pattern.atom import Atom

# ------------------------------------------------------------------- tests


@dataclass(frozen=True, slots=True)
class Is:
    """The atom holds."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Isnt:
    """The test does not hold."""

    body: Test


@dataclass(frozen=True, slots=True)
class Both:
    """All parts hold; with no parts, any event will do."""

    parts: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds."""

    parts: tuple[Test, ...]


Test = Is | Isnt | Both | Either

ANYTHING = Both()


def both(left: Test, right: Test) -> Test:
    """The conjunction, flattened.

    >>> both(ANYTHING, Both((ANYTHING,))) == Both((ANYTHING,))
    True
    """
    if left == ANYTHING:
        return right
    if right == ANYTHING or left == right:
        return left
    parts: dict[Test, None] = {}
    for side in (left, right):
        parts.update(dict.fromkeys(side.parts if isinstance(side, Both) else (side,)))
    return Both(tuple(parts))


def atoms_of(test: Test) -> Iterator[Atom]:
    """The atoms that a test asks, from left to right."""
    stack = [test]
    while stack:
        match stack.pop():
            case Is(atom=atom):
                yield atom
            case Isnt(body=body):
                stack.append(body)
            case Both(parts=parts) | Either(parts=parts):
                stack.extend(reversed(parts))


# -------------------------------------------------------------- automaton


@dataclass(frozen=True, slots=True)
class Read:
    """Reads one event that passes the test, writes the labels, goes to the target."""

    test: Test
    labels: frozenset[str]
    target: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The guard of one UNLESS: it is violated when a run from entry reaches exit."""

    entry: int
    exit: int


@dataclass(frozen=True, slots=True)
class Join:
    """The parts of one ALL, each by entry and exit state, and where the run goes after."""

    parts: tuple[tuple[int, int], ...]
    target: int


@dataclass(frozen=True, slots=True)
class CEA:
    """A complex event automaton; states are 0 … size-1."""

    initial: int
    final: int
    reads: tuple[tuple[Read, ...], ...]
    silent: tuple[tuple[int, ...], ...]
    scopes_of: tuple[tuple[int, ...], ...]
    scopes: tuple[Scope, ...] = ()
    joins: dict[int, Join] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.reads)

    @property
    def plain(self) -> bool:
        """No scope and no join: a run is in one state."""
        return not self.scopes and not self.joins

    def tests(self) -> tuple[Test, ...]:
        """The distinct tests, in order of appearance."""
        return tuple(dict.fromkeys(read.test for reads in self.reads for read in reads))

    def changing(self) -> tuple[Test, ...]:
        """The tests of all transitions but those that pass over an event and stay."""
        tests = {
            read.test: None
            for state, reads in enumerate(self.reads)
            for read in reads
            if read.labels or read.target != state or read.test != ANYTHING
        }
        return tuple(tests)

    def atoms(self) -> tuple[Atom, ...]:
        """The distinct atoms, in order of appearance."""
        return tuple(dict.fromkeys(atom for test in self.tests() for atom in atoms_of(test)))

    def __str__(self) -> str:
        from cernis.automata.render import as_text

        return as_text(self)
