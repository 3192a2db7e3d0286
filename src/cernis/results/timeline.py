"""A match drawn along the stream: one line for each variable, a mark for each event.

While there is room, every event of the stream has a cell, which shows the skipped events. A longer
match is scaled; events that fall into one cell share a mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from cernis.errors import neutralize

Marks = Mapping[str, Sequence[int]]

_MARK, _SKIPPED, _LINE = "●", "·", "─"
_WIDEST_NAME, _WIDEST_STEP = 16, 3
_COLOURS = ("#3b6fb6", "#c4572e", "#3f8f5b", "#8a4fa3", "#a8812a", "#3a9aa3")


def timeline(
    marks: Marks, start: int, end: int, *, width: int = 60, ends: tuple[str, str] | None = None
) -> str:
    """Draw the marks of each variable between the positions `start` and `end`, as text.

    `ends` are the texts above the two ends: by default, their positions.

    >>> print(timeline({"b": [3], "s": [5, 9]}, 3, 9, width=20))
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


def timeline_svg(
    marks: Marks,
    start: int,
    end: int,
    *,
    width: int = 320,
    titles: Mapping[str, Mapping[int, str]] | None = None,
) -> str:
    """Draw the picture of `timeline` as an SVG element.

    `titles` are texts for the pointer that rests on a mark, by variable and position.

    >>> timeline_svg({"<b>": [3]}, 3, 3).count("&lt;b&gt;")
    2
    """
    row, names, radius = 16, 90, 4
    left, right = names + radius, width - radius
    scale = (right - left) / (end - start) if end > start else 0.0
    height = row * max(1, len(marks))
    frame = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img" {font}>']
    for i, (name, positions) in enumerate(marks.items()):
        middle, colour = row * i + row // 2, _COLOURS[i % len(_COLOURS)]
        parts.append(
            f'<text x="0" y="{middle + 4}" fill="currentColor">{escape(_shorten(name))}</text>'
            f'<line x1="{left}" x2="{right}" y1="{middle}" y2="{middle}" '
            'stroke="currentColor" stroke-opacity="0.25"/>'
        )
        places: dict[int, list[int]] = {}
        for position in positions:
            places.setdefault(round(left + (position - start) * scale), []).append(position)
        for x, here in places.items():
            said = (titles or {}).get(name, {})
            each = [said.get(position, str(position)) for position in here[:5]]
            what = f"{name}: {'; '.join(each)}{'; …' if len(here) > 5 else ''}"
            parts.append(
                f'<circle cx="{x}" cy="{middle}" r="{radius}" fill="{colour}">'
                f"<title>{escape(what)}</title></circle>"
            )
    return "".join([*parts, "</svg>"])


def _shorten(name: str) -> str:
    name = neutralize(name)
    return name if len(name) <= _WIDEST_NAME else name[: _WIDEST_NAME - 1] + "…"
