"""`SessionMetrics`: the numbers of a session, or of a rule, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetrics:
    """What a session has read, what it keeps, and where its time went."""

    events: int
    """Events that were read."""
    relevant: int
    """Events that have begun or moved a partial match."""
    stored: int
    """Events that are kept because a match may still reach back to them."""
    stored_bytes: int
    """The memory of these events; rules share events that several of them keep."""
    keys: int
    """Partitions that the engine has numbers for."""
    dropped_keys: int
    """Partitions that `max_keys` has dropped."""
    records: int
    """Nodes and vertices of partial matches; dead ones count until they are collected."""
    suppressed: int
    """Matches that SUPPRESS BY has silenced."""
    seconds: Mapping[str, float]
    """Time in each stage: `encode` (keys and clocks), `engine`, `find` (matches, without listing
    them)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMetrics(SessionMetrics):
    """The numbers of a rule of a session."""

    matches: int
    """Matches, or groups, that were reported."""


class RuleSetMetrics(dict[str, RuleMetrics]):
    """The numbers of each rule of a session, by the names of the rules."""

    def costliest(self, most: int = 10) -> dict[str, RuleMetrics]:
        """Return the rules that took most of the time, the costliest first."""
        return {name: self[name] for name in rank_by_time(self)[:most]}

    @property
    def silent(self) -> tuple[str, ...]:
        """The rules that have reported nothing."""
        return tuple(name for name, numbers in self.items() if not numbers.matches)


def rank_by_time(numbers: Mapping[str, SessionMetrics]) -> list[str]:
    """Return the names of rules, the costliest first."""
    return sorted(numbers, key=lambda name: -sum(numbers[name].seconds.values()))
