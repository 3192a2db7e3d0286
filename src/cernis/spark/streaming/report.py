"""`Report`: the numbers of one call of a bucket."""

from __future__ import annotations

from dataclasses import dataclass


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
    recalled: int = 0
    """Events that were read again because another worker ran the bucket before."""
    engine_ms: float = 0.0
    state_ms: float = 0.0
