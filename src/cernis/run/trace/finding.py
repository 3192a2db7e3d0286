"""`Finding`: whether some rows are a match, and if not, what is in their way."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

ObstacleKind = Literal[
    "type", "condition", "key", "order", "gap", "next", "excluded", "window", "absence",
    "strategy", "missing", "extra",
]  # fmt: skip


class Obstacle(NamedTuple):
    """Something that keeps rows from being a match, known once the event at a rank is read."""

    kind: ObstacleKind
    rank: int
    condition: str
    """The part of the query that does not hold."""
    reason: str
    """Why, in a sentence."""

    @property
    def weight(self) -> int:
        """How far the rows are from a match: an event in the wrong place counts twice."""
        return 2 if self.kind in ("type", "missing", "extra") else 1


class RowStep(NamedTuple):
    """One of the rows: what it would be in the match, and whether it fits."""

    row: int
    state: str
    """The variables that the event would join, or its place in the pattern."""
    ok: bool | None
    """None: an earlier row has stopped the match."""
    condition: str = ""
    reason: str = ""


class Finding(NamedTuple):
    """The answer to *why are these rows no match?*; `str()` is a sentence."""

    matches: bool
    steps: tuple[RowStep, ...]
    stopped_at: int | None
    """The row at which they stop; None where they match, or nothing can be said."""
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "matches": self.matches,
            "steps": [step._asdict() for step in self.steps],
            "stopped_at": self.stopped_at,
            "sentence": self.sentence,
        }
