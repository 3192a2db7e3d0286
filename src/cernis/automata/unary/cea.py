"""Complex event automata (CEA): a finite automaton that reads events and marks some.

A transition asks a `Test` of the event and writes *labels*: the variables that the
event joins, empty for an event that is read without being marked (the paper's ∘).
ε-moves are kept, so that the automaton is linear in the formula.

Two operators are not regular expressions over one automaton; they stay linear here
because a run carries them along (see `determinize`):

* `UNLESS`: a *scope* is a guard automaton, given by its entry and exit state; every
  state knows the scopes it lies in. A run inside a scope drags the set of guard states
  along and dies when it goes on after the guard has been satisfied.
* `ALL`: a *fork* state stands for several automata that run side by side.

The rejected design was to multiply both out into plain transitions: exponential in
the size of the guard, and unreadable when printed.

`str()` of an automaton has a line for each transition, `>` at the start, `^` at the end:

    > 0  A / A → 1          reads an A, the event joins variable A
      1  * / - → 1          any event may pass, unmarked
         ε → 2              moves on without reading
         all of 3…4, 5…6 → 7
      4  within scope 0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.predicate import HashedOnce
from cernis.pattern.write import write_predicate

# ------------------------------------------------------------------- tests


@dataclass(frozen=True, slots=True)
class Is(HashedOnce):
    """The atom holds."""

    __hash__ = HashedOnce.__hash__

    atom: Atom


@dataclass(frozen=True, slots=True)
class Isnt(HashedOnce):
    """The test does not hold."""

    __hash__ = HashedOnce.__hash__

    body: Test


@dataclass(frozen=True, slots=True)
class Both(HashedOnce):
    """All parts hold; with no parts, any event will do."""

    __hash__ = HashedOnce.__hash__

    parts: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True)
class Either(HashedOnce):
    """At least one part holds."""

    __hash__ = HashedOnce.__hash__

    parts: tuple[Test, ...]


Test = Is | Isnt | Both | Either

ANYTHING = Both()
NO_EVENT = Isnt(ANYTHING)


def test_parts(test: Test) -> tuple[Test, ...]:
    """Return the tests that a test is the conjunction of."""
    return test.parts if isinstance(test, Both) else (test,)


def conjoin(left: Test, right: Test) -> Test:
    """Return the conjunction, flattened.

    >>> conjoin(ANYTHING, Both((ANYTHING,))) == Both((ANYTHING,))
    True
    """
    return conjoin_tests((left, right))


def conjoin_tests(tests: Iterable[Test]) -> Test:
    """Return the conjunction of all tests; linear in their parts."""
    asked = [test for test in dict.fromkeys(tests) if test != ANYTHING]
    if len(asked) < 2:
        return asked[0] if asked else ANYTHING
    return Both(tuple(dict.fromkeys(part for test in asked for part in test_parts(test))))


def find_atoms(test: Test) -> Iterator[Atom]:
    """Yield the atoms that a test asks, from left to right."""
    stack = [test]
    while stack:
        match stack.pop():
            case Is(atom=atom):
                yield atom
            case Isnt(body=body):
                stack.append(body)
            case Both(parts=parts) | Either(parts=parts):
                stack.extend(reversed(parts))


def write_test(test: Test) -> str:
    """Return a test as a reader would write it.

    >>> write_test(Isnt(Is(TypeIs("A"))))
    'not A'
    """
    match test:
        case Is(atom=atom):
            if isinstance(atom, TypeIs):
                return f"{atom.stream}>{atom.type}" if atom.stream else atom.type
            return f"[{write_predicate(atom)}]"
        case Isnt(body=body):
            text = write_test(body)
            return f"not {text}" if isinstance(body, Is) else f"not ({text})"
        case Both(parts=parts):
            if test == ANYTHING:
                return "*"
            return " ".join(
                f"({write_test(p)})" if isinstance(p, Either) else write_test(p) for p in parts
            )
        case Either(parts=parts):
            return " or ".join(write_test(p) for p in parts)


# -------------------------------------------------------------- automaton


@dataclass(frozen=True, slots=True)
class Read:
    """Reads one event that passes the test, writes the labels, goes to the target."""

    test: Test
    labels: frozenset[str]
    target: int

    def __str__(self) -> str:
        return f"{write_test(self.test)} / {','.join(sorted(self.labels)) or '-'}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The guard of one UNLESS: it is violated when a run from entry reaches exit."""

    entry: int
    exit: int


@dataclass(frozen=True, slots=True)
class Fork:
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
    forks: dict[int, Fork] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.reads)

    @property
    def plain(self) -> bool:
        """No scope and no fork: a run is in one state."""
        return not self.scopes and not self.forks

    @property
    def ends(self) -> frozenset[int]:
        """Where a run, a guard or a part of a fork ends."""
        parts = {exit_ for fork in self.forks.values() for _, exit_ in fork.parts}
        return frozenset({self.final, *(scope.exit for scope in self.scopes), *parts})

    def tests(self) -> tuple[Test, ...]:
        """Return the distinct tests, in order of appearance."""
        return tuple(dict.fromkeys(read.test for reads in self.reads for read in reads))

    def changing(self) -> tuple[Test, ...]:
        """Return tests that an event passes if it can change what a state waits for.

        Those of all transitions, but where one passes over an event and stays: there an event
        that does not pass makes the change.
        """
        tests: dict[Test, None] = {}
        for state, reads in enumerate(self.reads):
            for read in reads:
                if read.labels or read.target != state:
                    tests[read.test] = None
                elif isinstance(read.test, Isnt):
                    tests[read.test.body] = None
                elif read.test != ANYTHING:
                    tests[read.test] = None
        return tuple(tests)

    def atoms(self) -> tuple[Atom, ...]:
        """Return the distinct atoms, in order of appearance."""
        return tuple(dict.fromkeys(atom for test in self.tests() for atom in find_atoms(test)))

    def __str__(self) -> str:
        lines: list[str] = []
        ends = {scope.exit for scope in self.scopes}
        for state in range(self.size):
            mark = ">" if state == self.initial else "^" if state == self.final else " "
            head = f"{mark} {state}"
            facts = [f"{read} → {read.target}" for read in self.reads[state]]
            facts += [f"ε → {move}" for move in self.silent[state]]
            if state in self.forks:
                fork = self.forks[state]
                parts = ", ".join(f"{a}…{b}" for a, b in fork.parts)
                facts.append(f"all of {parts} → {fork.target}")
            if self.scopes_of[state]:
                facts.append("within scope " + ", ".join(map(str, self.scopes_of[state])))
            if state in ends:
                facts.append("(end of a guard)")
            lines.append(f"{head}  {facts[0]}" if facts else head)
            lines += [f"{' ' * len(head)}  {fact}" for fact in facts[1:]]
        lines += [
            f"scope {i}: unless {scope.entry} … {scope.exit}" for i, scope in enumerate(self.scopes)
        ]
        return "\n".join(lines)
