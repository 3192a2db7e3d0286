"""`BucketCall` and `Report`: what Spark gives to a bucket in one call, and what it gives back.

Loads neither Spark nor Arrow, nor the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MoveTimer = Callable[[int | None, int | None], None]
"""Moves the timer of a bucket from one watermark (in milliseconds) to another; None: no timer."""


class BucketCall(NamedTuple):
    """One call of a bucket."""

    number: int
    blobs: Sequence[bytes]
    """The events that have come, in the order of their arrival."""
    watermark: int
    """Spark's watermark, in milliseconds."""
    move_timer: MoveTimer
    rang: bool = False
    """Whether the timer has called."""
    batch: int = 0
    """The number of the micro-batch."""
    run: str = "run"
    """The id of the run, which all restarts from one checkpoint share."""


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


class BucketAnswer(NamedTuple):
    """Some matches of a bucket as a blob, or at the end its report."""

    report: Report
    found: bytes | None = None
    rules: str | None = None
    """The numbers of each rule, as JSON."""
