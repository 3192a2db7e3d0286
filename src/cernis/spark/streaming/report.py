"""`Report`: the numbers of one call of a bucket, and those of its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class EngineState(NamedTuple):
    """What the engine of a bucket holds; the names are those of `Report`."""

    keys: int
    records: int
    stored: int = 0
    stored_bytes: int = 0


@dataclass(slots=True)
class Report:
    """The numbers of one call."""

    events: int = 0
    late: int = 0
    matches: int = 0
    waiting: int = 0
    kept: int = 0
    """Bytes of state."""
    keys: int = 0
    """Partitions that the engine has numbers for."""
    records: int = 0
    """Nodes and vertices of partial matches; dead ones count until they are collected."""
    stored: int = 0
    """Events that the engine keeps because a match may still report them; rules share them."""
    stored_bytes: int = 0
    """The memory of these events."""
    recalled: int = 0
    """Events that were read again because another worker ran the bucket before."""
    engine_ms: float = 0.0
    state_ms: float = 0.0
