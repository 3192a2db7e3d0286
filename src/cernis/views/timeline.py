"""`Timeline`: what a picture of an interval shows, and the picture as SVG.

Lanes have marks, or densities where events are many; matches are connected marks; a strip below
counts the ends of matches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cernis.integers import count_noun, describe_integer, write_integer
from cernis.views import svg
from cernis.views.axis import list_ticks, write_tick

_LANE, _STRIP, _AXIS, _TOP = 26.0, 26.0, 24.0, 8.0
_LETTER, _LONGEST_NAME, _RIGHT = 7.2, 20, 16.0
_DOT, _MARK = 3.0, 4.5

Titles = Mapping[int, str]
"""What a pointer shows on the mark of a match, by position."""


class LaneView(NamedTuple):
    """A lane in an interval: how many events it has there, in all and in each bin."""

    name: str
    total: int
    bins: tuple[int, ...]


class EventMark(NamedTuple):
    """One event: its row, its time on the axis, the number of its lane, its type."""

    row: int
    at: float
    lane: int
    label: str


class MatchMark(NamedTuple):
    """One event of a match; `lane` is -1 where no lane has it."""

    row: int
    at: float
    lane: int
    variable: str
    position: int = -1
    """Its rank in the order of time."""


class MatchView(NamedTuple):
    """One match: its number in the order of the result, and its events in order of time.

    Matches with one end share the number of the first of them. Where very many share an end, pages
    list them in another order.
    """

    number: int
    marks: tuple[MatchMark, ...]


class Timeline(NamedTuple):
    """What a picture of the interval from `start` to `stop` shows."""

    start: float
    stop: float
    unit: str
    """Of the axis: "ms" since 1970, "number" for times that are numbers, "row" without times."""
    lanes: tuple[LaneView, ...]
    events: tuple[EventMark, ...]
    """The events one by one, if they are few."""
    matches: tuple[MatchView, ...]
    """A few matches that end here, or span all of it."""
    ends: tuple[int, ...]
    """How many matches end in each bin, exactly."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; counts of matches are text, they may have any size."""
        return {
            "from": self.start,
            "to": self.stop,
            "unit": self.unit,
            "lanes": [{**lane._asdict(), "bins": [*lane.bins]} for lane in self.lanes],
            "events": [_write_mark(mark) for mark in self.events],
            "matches": [
                {
                    "index": write_integer(one.number),
                    "marks": [_write_mark(mark) for mark in one.marks],
                }
                for one in self.matches
            ],
            "ends": {"bins": [write_integer(count) for count in self.ends]},
        }

    def svg(self, width: int = 860, *, standalone: bool = True) -> str:
        """Return the picture as an SVG element; `standalone`: with a background of its own."""
        return draw_timeline(self, width, standalone=standalone)

    def _repr_html_(self) -> str:
        return self.svg(standalone=False)


def view_marks(
    lanes: Sequence[str], marks: Iterable[MatchMark], span: tuple[float, float], unit: str
) -> Timeline:
    """Return the timeline of one match alone: its marks, from its start to its end."""
    shown = tuple(sorted(marks, key=lambda mark: (mark.at, mark.position, mark.lane)))
    counts = Counter(mark.lane for mark in shown)
    rows = tuple(LaneView(name, counts[i], ()) for i, name in enumerate(lanes))
    start, stop = span
    if start == stop:
        start, stop = start - 0.5, stop + 0.5
    return Timeline(start, stop, unit, rows, (), (MatchView(0, shown),), ())


def _write_mark(mark: EventMark | MatchMark) -> dict[str, Any]:
    values = mark._asdict()
    values.pop("position", None)
    return {**values, "ts": values.pop("at")}


class _Plot(NamedTuple):
    """Where the lanes lie."""

    left: float
    right: float
    start: float
    stop: float
    lanes: int

    def x(self, at: float) -> float:
        span = self.stop - self.start
        return self.left + (at - self.start) / span * (self.right - self.left)

    def y(self, lane: int) -> float:
        return _TOP + _LANE * lane + _LANE / 2

    @property
    def bottom(self) -> float:
        return _TOP + _LANE * self.lanes


def draw_timeline(
    view: Timeline, width: int = 860, *, standalone: bool = True, titles: Titles | None = None
) -> str:
    """Return the picture of a timeline; `titles` say more of the marks of matches.

    >>> lane = LaneView("<b>", 2, (1, 1))
    >>> mark = MatchMark(0, 0.0, 0, "x")
    >>> view = Timeline(0.0, 1.0, "row", (lane,), (), (MatchView(0, (mark,)),), (0, 1))
    >>> draw_timeline(view).count("&lt;b&gt;")
    2
    """
    names = [lane.name for lane in view.lanes]
    longest = max([7, *(min(len(name), _LONGEST_NAME) for name in names)])
    left = 14 + longest * _LETTER + 14
    plot = _Plot(left, width - _RIGHT, view.start, view.stop, len(names))
    counted = any(view.ends)
    height = plot.bottom + (_STRIP if counted else 0) + _AXIS
    parts = [_draw_axis(view, plot, height)]
    for i, lane in enumerate(view.lanes):
        parts.append(_draw_lane(view, plot, i, lane))
    parts += [_draw_match(plot, one, view.unit, titles or {}) for one in view.matches]
    if counted:
        parts.append(_draw_ends(view, plot))
    total = sum(lane.total for lane in view.lanes)
    label = f"Timeline: {count_noun(total, 'event')} in {count_noun(len(names), 'lane')}"
    return svg.picture(float(width), height, "".join(parts), label, standalone=standalone)


def _draw_axis(view: Timeline, plot: _Plot, height: float) -> str:
    ticks = list_ticks(view.start, view.stop, view.unit, max(2, int(plot.right - plot.left) // 110))
    parts = []
    for tick in ticks:
        x = plot.x(tick.at)
        parts.append(
            svg.element(
                "line",
                x1=x,
                x2=x,
                y1=_TOP,
                y2=height - _AXIS + 4,
                class_="line",
                stroke="currentColor",
                stroke_opacity=0.09,
            )
        )
        anchor = "end" if x > plot.right - 24 else "start" if x < plot.left + 24 else "middle"
        parts.append(
            svg.element(
                "text",
                svg.write(tick.text),
                x=x,
                y=height - 7,
                text_anchor=anchor,
                font_size=11,
                opacity=0.62,
                fill="currentColor",
            )
        )
    caption = {"ms": write_tick(view.start, "ms")[:10], "row": "row"}.get(view.unit, "")
    parts.append(
        svg.element(
            "text",
            svg.write(caption),
            x=14,
            y=height - 7,
            font_size=11,
            opacity=0.62,
            fill="currentColor",
        )
    )
    return "".join(parts)


def _draw_lane(view: Timeline, plot: _Plot, number: int, lane: LaneView) -> str:
    y = plot.y(number)
    name = svg.element(
        "text",
        svg.title(f"{lane.name}: {count_noun(lane.total, 'event')}"),
        svg.write(lane.name, _LONGEST_NAME),
        x=14,
        y=y + 4,
        fill="currentColor",
    )
    line = svg.element(
        "line",
        x1=plot.left,
        x2=plot.right,
        y1=y,
        y2=y,
        class_="line",
        stroke="currentColor",
        stroke_opacity=0.16,
    )
    marks = [mark for mark in view.events if mark.lane == number]
    if marks or not any(lane.bins):
        dots = "".join(
            svg.element(
                "circle",
                svg.title(f"row {mark.row}, {mark.label}, {write_tick(mark.at, view.unit)}"),
                cx=plot.x(mark.at),
                cy=y,
                r=_DOT,
            )
            for mark in marks
        )
        return name + line + svg.element("g", dots, opacity=0.45, **svg.colour(number))
    area = _draw_area(lane.bins, plot, y + _LANE / 2 - 3, _LANE - 7)
    return name + line + svg.element("path", d=area, opacity=0.5, **svg.colour(number))


def _draw_area(bins: Sequence[int], plot: _Plot, bottom: float, height: float) -> str:
    """Return the path of a histogram; bins narrower than a pixel and a half are joined.

    Heights grow with the square root, so that few beside many stay visible.
    """
    width = plot.right - plot.left
    joined = max(1, -(-len(bins) * 3 // int(2 * width)))
    sums = [sum(bins[i : i + joined]) for i in range(0, len(bins), joined)]
    most = max(sums) or 1
    step = width * joined / len(bins)
    path: list[str] = []
    for i, count in enumerate(sums):
        if count:
            x, right = plot.left + i * step, min(plot.left + (i + 1) * step, plot.right)
            top = bottom - max(1.5, height * _scale(count, most))
            path.append(f"M{x:.1f} {bottom:.1f}V{top:.1f}H{right:.1f}V{bottom:.1f}")
    return "".join(path)


def _scale(count: int, most: int) -> float:
    """Return the square root of a share of whole numbers of any size."""
    return math.sqrt(count * 1_000_000 // most / 1_000_000)


def _draw_match(plot: _Plot, one: MatchView, unit: str, titles: Titles) -> str:
    marks = [mark for mark in one.marks if mark.lane >= 0]
    inside = [mark for mark in marks if plot.start <= mark.at <= plot.stop]
    if not inside:
        return ""
    points = [(min(max(plot.x(m.at), plot.left), plot.right), plot.y(m.lane)) for m in marks]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (x + to_x) / 2
        path += f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    line = svg.element(
        "path",
        d=path,
        class_="line",
        fill="none",
        stroke="currentColor",
        stroke_opacity=0.5,
        stroke_width=1.4,
    )
    dots = "".join(
        svg.element(
            "circle",
            svg.title(_say_mark(mark, unit, titles)),
            cx=plot.x(mark.at),
            cy=plot.y(mark.lane),
            r=_MARK,
            stroke_width=1.5,
            **{
                **svg.colour(mark.lane),
                "class_": f"c{mark.lane % len(svg.LIGHT)} ring",
                "stroke": svg.PAPER,
            },
        )
        for mark in inside
    )
    return svg.element("g", line, dots)


def _say_mark(mark: MatchMark, unit: str, titles: Titles) -> str:
    known = titles.get(mark.position)
    return f"{mark.variable}: {known or f'row {mark.row}, {write_tick(mark.at, unit)}'}"


def _draw_ends(view: Timeline, plot: _Plot) -> str:
    total = sum(view.ends)
    ending = "match ends here" if total == 1 else "matches end here"
    title = f"{describe_integer(total, 10**15)} {ending}"
    bottom = plot.bottom + _STRIP - 2
    area = _draw_area(view.ends, plot, bottom, _STRIP - 8)
    return (
        svg.element(
            "text",
            svg.title(title),
            "matches",
            x=14,
            y=bottom - 7,
            fill="currentColor",
            opacity=0.62,
            font_size=11,
        )
        + svg.element(
            "line",
            x1=plot.left,
            x2=plot.right,
            y1=bottom,
            y2=bottom,
            class_="line",
            stroke="currentColor",
            stroke_opacity=0.3,
        )
        + svg.element(
            "path",
            svg.title(title),
            d=area,
            class_="ink",
            fill="currentColor",
            opacity=0.42,
        )
    )
