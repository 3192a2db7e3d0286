"""Charts of the workbench: lines and bars, as SVG and as text.

Written by hand, on `views.svg`: a chart of a few hundred points needs no library, and pictures that
every front end shows must hold neither script nor style of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from cernis.views.svg import FONT, INK, element, stroke, title, write

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 560.0, 220.0, 64.0, 34.0
_BAR = 24


def list_bars(values: Sequence[int]) -> list[str]:
    """Return a bar of text for each value; values may be larger than a float.

    >>> list_bars([0, 1, 2])
    ['', '████████████', '████████████████████████']
    """
    most = max(values, default=0) or 1
    sizes = [round(_BAR * Fraction(value, most)) for value in values]
    return ["█" * max(size, value > 0) for size, value in zip(sizes, values, strict=True)]


def draw_lines(lines: Mapping[str, Sequence[tuple[Any, int]]], x_title: str, y_title: str) -> str:
    """Return lines through points as a picture; x are numbers or else ranks, y whole numbers."""
    every = [x for points in lines.values() for x, _ in points]
    numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for x in every)
    ranks = {x: float(i) for i, x in enumerate(dict.fromkeys(every))}
    at = {x: float(x) if numeric else ranks[x] for x in every}
    low, high = min(at.values(), default=0.0), max(at.values(), default=1.0)
    top = max((y for points in lines.values() for _, y in points), default=0) or 1

    def locate(x: Any, y: int) -> tuple[float, float]:
        across = (at[x] - low) / ((high - low) or 1.0)
        right = _LEFT + across * (_WIDTH - _LEFT - 16)
        return right, _HEIGHT - _BOTTOM - float(Fraction(y, top)) * (_HEIGHT - _BOTTOM - 16)

    drawn = []
    for number, (name, points) in enumerate(lines.items()):
        located = [locate(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in located)
        drawn.append(element("polyline", points=path, stroke_width=2, **stroke(number)))
        for (x, y), (px, py) in zip(points, located, strict=True):
            told = f"{name + ': ' if name else ''}{x_title} = {x}: {y:,}"
            drawn.append(element("circle", title(told), cx=px, cy=py, r=3, **stroke(number)))
    labels = [
        _label(x_title, (_WIDTH + _LEFT) / 2, _HEIGHT - 4),
        _label(y_title, _LEFT - 8, 12, "end"),
        _label(f"{top:,}", _LEFT - 8, 30, "end"),
        _label("0", _LEFT - 8, _HEIGHT - _BOTTOM, "end"),
    ]
    if every:
        first, last = min(every, key=at.__getitem__), max(every, key=at.__getitem__)
        labels += [
            _label(str(first), _LEFT, _HEIGHT - 18),
            _label(str(last), _WIDTH - 16, _HEIGHT - 18),
        ]
    axis = f"M{_LEFT},16 V{_HEIGHT - _BOTTOM} H{_WIDTH - 8}"
    frame = element("path", d=axis, stroke=INK, fill="none", stroke_width=1)
    return element(
        "svg", frame, *drawn, *labels, xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}", width=f"{_WIDTH:.0f}", role="img",
        font_family=FONT, font_size="11",
    )  # fmt: skip


def _label(text: str, x: float, y: float, anchor: str = "middle") -> str:
    return element("text", write(text, 40), x=x, y=y, fill=INK, text_anchor=anchor)
