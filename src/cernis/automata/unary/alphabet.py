"""Symbols: the classes of events that an automaton cannot tell apart.

An event's truth values for the atoms are its vector; the automaton only sees which of
its *tests* hold. Two vectors on which all tests agree are one symbol, so the alphabet
is minimal for the automaton and independent of how many predicates were written.

Cost contract: one evaluation of all tests per distinct vector; symbols are numbered as
they appear and never change. The sessions of a query share its alphabet, in any threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Protocol

from cernis.automata.unary.cea import Both, Either, Is, Isnt, Test, test_parts
from cernis.errors import BudgetError
from cernis.pattern.atom import Atom

MOST_SYMBOLS = 65_536
MOST_ATOMS = 4_096
_MOST_CHOICES = 1 << 16
"""An OR of conditions is one question, but for a pattern with more conditions than this."""
_KNOWN = 256  # vectors whose symbols are kept for further sessions


def passes(test: Test, truth: Mapping[Atom, bool]) -> bool:
    """Whether an event with these truth values passes the test."""
    match test:
        case Is(atom=atom):
            return truth[atom]
        case Isnt(body=body):
            return not passes(body, truth)
        case Both(parts=parts):
            return all(passes(part, truth) for part in parts)
        case Either(parts=parts):
            return any(passes(part, truth) for part in parts)


def _count_questions(tests: Iterable[Test]) -> int:
    """Return how many different parts tests have; conditions that are joined by OR are one."""
    return len({part for test in tests for part in test_parts(test)})


class TestedAutomaton(Protocol):
    """An automaton, by the tests that it asks of single events."""

    def tests(self) -> tuple[Test, ...]: ...
    def atoms(self) -> tuple[Atom, ...]: ...


class Alphabet:
    """vector → symbol, and symbol → which tests hold."""

    def __init__(self, automaton: TestedAutomaton) -> None:
        self.atoms = automaton.atoms()
        self.tests = automaton.tests()
        questions = len(self.atoms)
        if MOST_ATOMS < questions <= _MOST_CHOICES:
            questions = _count_questions(self.tests)
        if questions > MOST_ATOMS:
            raise BudgetError(
                f"this pattern asks {questions:,} different questions of an event; "
                f"at most {MOST_ATOMS:,} are allowed (use IN {{…}} for many values)"
            )
        self.passed: list[frozenset[Test]] = []
        self._symbols: dict[frozenset[Test], int] = {}
        self._known: dict[tuple[bool, ...], int] = {}
        self._growth = Lock()

    def symbol(self, vector: tuple[bool, ...]) -> int:
        """Return the symbol of an event with these truth values of `atoms`."""
        known = self._known.get(vector)
        if known is None:
            truth = dict(zip(self.atoms, vector, strict=True))
            known = self.symbol_of(frozenset(t for t in self.tests if passes(t, truth)))
            if len(self._known) < _KNOWN:
                self._known[vector] = known
        return known

    def symbol_of(self, passed: frozenset[Test]) -> int:
        with self._growth:
            known = self._symbols.get(passed)
            if known is None:
                known = len(self.passed)
                if known >= MOST_SYMBOLS:
                    raise BudgetError(
                        f"the predicates tell more than {MOST_SYMBOLS:,} kinds of events apart"
                    )
                self.passed.append(passed)
                self._symbols[passed] = known
            return known
