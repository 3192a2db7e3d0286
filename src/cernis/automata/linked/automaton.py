"""Automata of links, for SPAseQ sequences: stores in which runs wait, and transitions that join.

The paper's NFA_scep, with states that runs share. A *state* is a step that has been matched,
with the variables that are bound and still needed (live). A run is its live values alone, so
runs with the same values move as one. Between a state and a step that may follow it lies a
*store*, in which runs wait under the separator that stands there:

* `,` for the next timestamp only, `;` until something fits, `:` for ever.

A *reading* is one way to match a step at a timestamp: the patterns of one alternative of `|`,
all of one `&`, and which of the variables that may be missing are bound. A *transition* takes the
runs of a store that agree with a reading on the variables both bind, and for which the conditions
hold that mention earlier variables. A *guard* takes them away: a negated pattern that fits.

Size: linear in the sequence, times 2^k for the k variables of a step that OPTIONAL, UNION or `|`
may leave unbound and another step asks for (k is bounded).

Turned down: one automaton per run that keeps all bindings (the paper's cache history), which
must be asked run by run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cernis.languages.spaseq.graphs import graph as g


class Alternative(NamedTuple):
    """Patterns that are matched at one timestamp, as one step."""

    step: int
    gpms: tuple[str, ...]
    names: tuple[str, ...]
    certain: frozenset[str]
    own: tuple[g.Expression, ...]
    """Conditions between patterns of an `&`."""
    late: tuple[g.Expression, ...]
    """Conditions that mention variables of earlier steps."""


class LinkedReading(NamedTuple):
    """An alternative, and which of the needed variables it binds."""

    alternative: int
    bound: frozenset[str]


class LinkedState(NamedTuple):
    """A step that has been matched last, and the live variables that are bound."""

    step: int
    bound: frozenset[str]

    def __str__(self) -> str:
        return f"{self.step + 1}({', '.join('?' + name for name in sorted(self.bound))})"


class LinkedStore(NamedTuple):
    """Where the runs of a state wait for a step."""

    state: int
    step: int
    link: str
    kept: tuple[str, ...]
    """The variables whose values tell its runs apart."""


class LinkedTransition(NamedTuple):
    """Takes the runs of a store that agree with a reading on the joined variables."""

    store: int | None
    """None: a match begins."""
    reading: int
    joins: tuple[str, ...]
    fresh: frozenset[str]
    """Variables of a round that are bound afresh."""
    target: int
    final: bool


class Guard(NamedTuple):
    """Removes the runs of a store that agree with a reading of a negated pattern."""

    store: int
    reading: int
    joins: tuple[str, ...]


class LinkedExit(NamedTuple):
    """A step that was matched, and the step that comes next: what a run then takes along."""

    step: int
    following: int
    """-1: the match ends."""
    told: tuple[str, ...]
    """The variables whose values from this row the answer tells."""
    kept: tuple[str, ...]
    """The variables that this step binds first and later ones compare."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The variables in `kept` that the answer does not tell."""
        return tuple(name for name in self.kept if name not in self.told)


class LinkedAutomaton(NamedTuple):
    """The automaton of a sequence."""

    columns: tuple[str, ...]
    """The variables that steps or SELECT need: the columns of a row."""
    alternatives: tuple[Alternative, ...]
    readings: tuple[LinkedReading, ...]
    states: tuple[LinkedState, ...]
    stores: tuple[LinkedStore, ...]
    transitions: tuple[LinkedTransition, ...]
    guards: tuple[Guard, ...]
    local: tuple[frozenset[str], ...]
    """For each step, the variables that are bound afresh in each round."""
    exits: tuple[LinkedExit, ...]
    """In the order of steps."""
    loose: tuple[frozenset[str], ...]
    """For each step, the variables of the answer that either it or another row may bind."""
    rivals: frozenset[frozenset[int]]
    """Pairs of steps that may take the same events in two runs with the same events."""

    def conditions(self, reading: int) -> tuple[g.Expression, ...]:
        return self.alternatives[self.readings[reading].alternative].late

    def __str__(self) -> str:
        """A line for each transition: its store, its reading, and the variables that it joins."""
        lines = [f"{_count_noun(self.states, 'state')}, {_count_noun(self.stores, 'store')}"]
        for transition in self.transitions:
            source = "start"
            if transition.store is not None:
                store = self.stores[transition.store]
                source = f"{self.states[store.state]} {store.link}"
            lines.append(
                f"{source} {self._write_reading(transition.reading)}"
                f"{_write_joins(transition.joins)}{self._write_conditions(transition.reading)}"
                f" → {self.states[transition.target]}{' ■' if transition.final else ''}"
            )
        for guard in self.guards:
            store = self.stores[guard.store]
            lines.append(
                f"{self.states[store.state]} {store.link} waits for step {store.step + 1}: not "
                f"{self._write_reading(guard.reading)}{_write_joins(guard.joins)}"
            )
        return "\n".join(lines)

    def _write_reading(self, reading: int) -> str:
        alternative, bound = self.readings[reading]
        ways = [other.bound for other in self.readings if other.alternative == alternative]
        missing = sorted(frozenset().union(*ways) - bound)
        name = " & ".join(self.alternatives[alternative].gpms)
        return name + (f" without {', '.join('?' + v for v in missing)}" if missing else "")

    def _write_conditions(self, reading: int) -> str:
        number = len(self.conditions(reading))
        return f" if {number} condition{'s' * (number > 1)} hold{'s' * (number == 1)}" * bool(
            number
        )


def _write_joins(joins: tuple[str, ...]) -> str:
    return f" on {', '.join('?' + name for name in joins)}" if joins else ""


def _count_noun(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"
