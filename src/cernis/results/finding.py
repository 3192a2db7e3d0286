"""`Finding`: whether some rows are a match, and if not, what is in their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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


def write_finding(
    rows: Mapping[int, int],
    names: Mapping[int, Sequence[str]],
    obstacles: Sequence[Obstacle],
    agreed: str,
) -> Finding:
    """Return what obstacles say of some rows; without obstacles they match, and `agreed` says so.

    `rows` are given by their ranks, in ascending order; `names` are those of each rank's events in
    the match. An obstacle belongs to the last of the rows that is read when it is known.
    """
    blamed: dict[int, list[Obstacle]] = {}
    in_order = sorted(obstacles, key=lambda obstacle: obstacle.rank)
    for obstacle in in_order:
        at = max((rank for rank in rows if rank <= obstacle.rank), default=next(iter(rows)))
        blamed.setdefault(at, []).append(obstacle)
    steps: list[RowStep] = []
    for rank, row in rows.items():
        own = blamed.get(rank, [])
        stopped = any(step.ok is False for step in steps)
        steps.append(
            RowStep(
                row,
                ", ".join(dict.fromkeys(names.get(rank, []))),
                None if stopped and not own else not own,
                "; ".join(obstacle.condition for obstacle in own),
                "; ".join(obstacle.reason for obstacle in own),
            )
        )
    if not obstacles:
        return Finding(True, tuple(steps), None, agreed)
    times = Counter(f"{obstacle.condition}: {obstacle.reason}" for obstacle in in_order)
    sentences = [f"{said} ({n} times)" if n > 1 else said for said, n in times.items()]
    return Finding(False, tuple(steps), rows[min(blamed)], "; ".join(sentences))
