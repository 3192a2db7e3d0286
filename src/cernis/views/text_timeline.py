"""A match drawn in text along the stream: one line for each variable, a mark for each event.

While there is room, every event of the stream has a cell, which shows the skipped events. A longer
match is scaled; events that fall into one cell share a mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cernis.errors import neutralize

Marks = Mapping[str, Sequence[int]]

_MARK, _SKIPPED, _LINE = "●", "·", "─"
_WIDEST_NAME, _WIDEST_STEP = 16, 3


def write_timeline(
    marks: Marks, start: int, end: int, *, width: int = 60, ends: tuple[str, str] | None = None
) -> str:
    """Draw the marks of each variable between the positions `start` and `end`, as text.

    `ends` are the texts above the two ends: by default, their positions.

    >>> print(write_timeline({"b": [3], "s": [5, 9]}, 3, 9, width=20))
      3                 9
    b ●──·──·──·──·──·──·
    s ·──·──●──·──·──·──●
    """
    left, right = ends or (str(start), str(end))
    names = [_shorten(name) for name in marks]
    indent = max(map(len, names), default=0)
    span = end - start
    last = min(span * _WIDEST_STEP, max(width, 2) - 1)
    if 0 < span <= last:
        last -= last % span
    scale = last / span if span else 0.0
    head = left if start == end else left + right.rjust(last + 1 - len(left))
    if start != end and last + 1 < len(left) + 1 + len(right):
        head = f"{left} {right}"
    lines = [f"{'':{indent}} {head}"]
    for name, positions in zip(names, marks.values(), strict=True):
        track = [_LINE] * (last + 1)
        if span <= last:
            for step in range(span + 1):
                track[round(step * scale)] = _SKIPPED
        for position in positions:
            track[round((position - start) * scale)] = _MARK
        lines.append(f"{name:{indent}} {''.join(track)}")
    return "\n".join(lines)


def _shorten(name: str) -> str:
    name = neutralize(name)
    return name if len(name) <= _WIDEST_NAME else name[: _WIDEST_NAME - 1] + "…"
