"""`Progress`: the numbers of one micro-batch of a stream, on any host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class RuleNumbers(NamedTuple):
    """One rule in one micro-batch."""

    events: int
    """Events that it has read."""
    matches: int
    suppressed: int
    """Matches that SUPPRESS BY has silenced."""
    records: int
    """Nodes and vertices of its partial matches at the end; dead ones count until collected."""
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One micro-batch of one query."""

    query: str
    run: str
    batch: int
    rows: int
    """Rows that came."""
    events: int
    """Rows that the query can use; they are buffered, then read."""
    late: int
    ahead: int
    untimed: int
    undecodable: int
    waiting: int
    """Events in the buffers, which wait for the watermark."""
    matches: int
    state_bytes: int
    per_bucket: Mapping[int, int]
    """Bytes of state in each bucket that ran."""
    waiting_per_bucket: Mapping[int, int]
    """Events in the buffer of each bucket that ran; others have as many as before."""
    keys_per_bucket: Mapping[int, int]
    """Partitions that the engine of each bucket that ran has numbers for."""
    records_per_bucket: Mapping[int, int]
    """Nodes and vertices of partial matches in each bucket that ran."""
    recalled: int
    """Events that were read again because another worker ran their bucket before."""
    watermark: str | None
    milliseconds: Mapping[str, float]
    """Time in each part: Spark's own parts, and `engine` and `state` summed over buckets."""
    stored_per_bucket: Mapping[int, int] = field(default_factory=dict)
    """Events that the engine of each bucket that ran keeps; rules share them."""
    stored_bytes_per_bucket: Mapping[int, int] = field(default_factory=dict)
    """The memory of these events, in the worker."""
    rules_per_bucket: Mapping[int, Mapping[str, RuleNumbers]] = field(default_factory=dict)
    """Of a rule set: the numbers of each rule that has read events, in each bucket that ran."""
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What Spark has observed of the rows of each stream, for `Notes`."""

    @property
    def irrelevant(self) -> int:
        """Rows that no test of the query passes; they never leave the JVM."""
        unread = self.late + self.ahead + self.untimed + self.undecodable
        return max(0, self.rows - self.events - unread)
