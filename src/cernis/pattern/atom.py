"""Atoms: the yes-or-no questions that an automaton asks of one event.

An atom is a type test or a predicate; it *holds* or it does not (an unknown of the
three-valued logic counts as "does not hold"). An event's truth values for all atoms
of a query are its *vector*; only the distinct vectors that occur matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from cernis.pattern.predicate import Predicate


@dataclass(frozen=True, slots=True)
class TypeIs:
    """The event has this type, and comes from this stream where one is named."""

    type: str
    stream: str | None = None


Atom = TypeIs | Predicate
