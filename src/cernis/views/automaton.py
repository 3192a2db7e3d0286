"""`AutomatonView`: an automaton as people look at it: states, edges in words, a layout, an SVG.

The view of a unary automaton has no silent moves: a state takes over the edges of the states that
it reaches without reading, and states with the same edges are one. Whether a match is complete is
a matter of the edge that arrives, so a state may be final and go on. The view of a correlated
automaton has a start, and a knot where a transition joins several runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from cernis.integers import count_noun
from cernis.views import svg
from cernis.views.layout import Point, StateEdge, StateLayout, lay_out_graph

StateKind = Literal["state", "fork", "part", "guard", "join"]
EdgeKind = Literal["read", "skip", "wait", "all", "guard"]

_LETTER, _PILL, _LINE = 6.7, 26.0, 14.0
_LONGEST_LABEL, _LONGEST_NAME, _MOST_LINES = 46, 22, 4
_SIDE = 18.0


class StateView(NamedTuple):
    """A state, what it is called, and where its middle lies."""

    id: int
    name: str
    initial: bool
    final: bool
    kind: StateKind
    x: float
    y: float


class EdgeView(NamedTuple):
    """An edge: which events take it, and which variables they join.

    `wait`: any event may pass while a run waits; `skip`: an event that a NOT takes; `all`: the
    parts of an ALL begin and end; `guard`: what UNLESS excludes.
    """

    id: int
    source: int
    target: int
    label: str
    """The variables that the event joins."""
    condition: str
    """What the event must satisfy, in words."""
    kind: EdgeKind
    taken: int | None
    """How many events have taken it; None: not counted."""
    points: tuple[Point, ...]
    """The way from state to state, where it is not straight."""


class DrawnState(NamedTuple):
    """A state before it is laid out."""

    name: str
    kind: StateKind = "state"
    initial: bool = False
    final: bool = False


class DrawnEdge(NamedTuple):
    """An edge before it has a way."""

    source: int
    target: int
    condition: str
    label: str = ""
    kind: EdgeKind = "read"

    @property
    def is_loop(self) -> bool:
        return self.source == self.target


class AutomatonView(NamedTuple):
    """An automaton with a point for each state and a route for each edge."""

    states: tuple[StateView, ...]
    edges: tuple[EdgeView, ...]
    width: float
    height: float
    back: frozenset[int]
    """The edges that run below."""

    def with_counts(self, counts: Mapping[int, int]) -> AutomatonView:
        """Return the view with how often edges were taken; 0 for those that are not there."""
        counted = tuple(
            edge._replace(taken=counts.get(edge.id, 0 if edge.kind in ("read", "skip") else None))
            for edge in self.edges
        )
        return self._replace(edges=counted)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "states": [state._asdict() for state in self.states],
            "edges": [
                {
                    "id": edge.id,
                    "from": edge.source,
                    "to": edge.target,
                    "label": edge.label,
                    "condition": edge.condition,
                    "kind": edge.kind,
                    "count": edge.taken,
                    "points": [list(point) for point in edge.points],
                }
                for edge in self.edges
            ],
            "width": self.width,
            "height": self.height,
        }

    def svg(self, *, standalone: bool = True, alive: Mapping[int, str] | None = None) -> str:
        """Return the picture as an SVG element; states that are `alive` have a text below."""
        return _draw(self, standalone, alive or {})

    def _repr_html_(self) -> str:
        return self.svg(standalone=False)


def lay_out(states: Sequence[DrawnState], edges: Sequence[DrawnEdge]) -> AutomatonView:
    """Return the view of a graph; the state that is initial comes first.

    >>> view = lay_out(
    ...     [DrawnState("start", initial=True), DrawnState("after a", final=True)],
    ...     [DrawnEdge(0, 1, "A with x > 3", "a"), DrawnEdge(1, 1, "any event", kind="wait")],
    ... )
    >>> [(state.name, state.x < 100) for state in view.states]
    [('start', True), ('after a', False)]
    """
    widths = [_measure_state(state) for state in states]
    start = next((i for i, state in enumerate(states) if state.initial), 0)
    rooms = [StateEdge(e.source, e.target, _measure_edge(e)) for e in edges]
    layout = lay_out_graph(widths, rooms, start)
    head = _find_head(layout, states, edges)
    left = _SIDE + 14
    loops = [(layout.points[e.source][0], _measure_edge(e) / 2) for e in edges if e.is_loop]
    left = max([left, *(half - x + _SIDE for x, half in loops)])
    widest = max([layout.width, *(x + half for x, half in loops)])
    tail = 30.0 if layout.back else 44.0

    def move(point: Point) -> Point:
        return round(point[0] + left, 1), round(point[1] + head, 1)

    return AutomatonView(
        tuple(
            StateView(i, s.name, s.initial, s.final, s.kind, *move(layout.points[i]))
            for i, s in enumerate(states)
        ),
        tuple(
            EdgeView(
                i, e.source, e.target, e.label, e.condition, e.kind, None,
                tuple(map(move, layout.routes[i])),
            )
            for i, e in enumerate(edges)
        ),
        round(widest + left + _SIDE, 1),
        round(layout.height + head + tail, 1),
        layout.back,
    )  # fmt: skip


def _find_head(
    layout: StateLayout, states: Sequence[DrawnState], edges: Sequence[DrawnEdge]
) -> float:
    """Return the room above the highest state that loops and labels need."""
    head = 30.0
    for i in range(len(states)):
        loops = sum(e.source == e.target == i and e.kind != "wait" for e in edges)
        lines = min(loops, _MOST_LINES)
        if lines:
            head = max(head, 46 + lines * _LINE - layout.points[i][1])
    bundles: dict[tuple[int, int], int] = {}
    for e in edges:
        if e.source != e.target:
            bundles[e.source, e.target] = bundles.get((e.source, e.target), 0) + 1
    for (a, b), size in bundles.items():
        middle = (layout.points[a][1] + layout.points[b][1]) / 2
        head = max(head, 12 + min(size, _MOST_LINES) * _LINE - middle)
    return head


def _measure_state(state: DrawnState) -> float:
    if state.kind == "join":
        return 12.0
    return max(44.0, min(len(state.name), _LONGEST_NAME) * _LETTER + 24)


def _measure_edge(edge: DrawnEdge | EdgeView) -> float:
    if edge.kind == "wait":
        return 0.0
    return min(len(write_label(edge)), _LONGEST_LABEL) * _LETTER * 0.93 + 12


def write_label(edge: DrawnEdge | EdgeView) -> str:
    """Return what an edge asks of an event, and what it marks."""
    return f"{edge.condition} → {edge.label}" if edge.label else edge.condition


# ------------------------------------------------------------------- drawing


def _draw(view: AutomatonView, standalone: bool, alive: Mapping[int, str]) -> str:
    parts: list[str] = []
    bundles: dict[tuple[int, int], list[EdgeView]] = {}
    for edge in view.edges:
        bundles.setdefault((edge.source, edge.target), []).append(edge)
    labels: list[_Box] = []
    for bundle in sorted(bundles.values(), key=lambda one: not _is_flat(view, one[0])):
        if bundle[0].source == bundle[0].target:
            parts.append(_draw_loops(view.states[bundle[0].source], bundle))
        else:
            parts.append(_draw_edge(view, bundle, labels))
    parts += [_draw_state(state, alive.get(state.id)) for state in view.states]
    names = ", ".join(state.name for state in view.states[:8])
    label = f"Automaton with {count_noun(len(view.states), 'state')}: {names}"
    return svg.picture(view.width, view.height, "".join(parts), label, standalone=standalone)


def _draw_state(state: StateView, alive: str | None) -> str:
    if state.kind == "join":
        return svg.element(
            "circle", cx=state.x, cy=state.y, r=4, class_="ink", fill="currentColor", opacity=0.6
        )
    width = _measure_state(DrawnState(state.name, state.kind))
    number = {"guard": 1, "fork": 4, "part": 4}.get(state.kind, 2 if state.final else 0)

    def box(grow: float, **more: object) -> str:
        return svg.element(
            "rect",
            x=state.x - width / 2 - grow,
            y=state.y - _PILL / 2 - grow,
            width=width + 2 * grow,
            height=_PILL + 2 * grow,
            rx=_PILL / 2 + grow,
            **more,
        )

    parts = [box(0.0, fill_opacity=0.34 if alive else 0.1, **svg.colour(number))]
    parts.append(box(0.0, stroke_width=1.3, **svg.stroke(number)))
    if state.final:
        parts.append(box(3.5, stroke_width=1.0, stroke_opacity=0.7, **svg.stroke(number)))
    if state.initial:
        x = state.x - width / 2
        parts.append(
            svg.element("path", d=f"M{x - 18:.1f} {state.y:.1f}H{x - 7:.1f}", class_="line",
                        stroke="currentColor", stroke_opacity=0.6, fill="none")
        )  # fmt: skip
        parts.append(_draw_head(x - 1, state.y, 1.0, 0.0))
    parts.append(
        svg.element(
            "text", svg.title(state.name), svg.write(state.name, _LONGEST_NAME), x=state.x,
            y=state.y + 4, text_anchor="middle", fill="currentColor",
        )
    )  # fmt: skip
    if alive:
        parts.append(
            svg.element("text", svg.write(alive, 30), x=state.x, y=state.y + _PILL / 2 + 15,
                        text_anchor="middle", font_size=11, font_weight=600, **svg.colour(number))
        )  # fmt: skip
    return "".join(parts)


class _Box(NamedTuple):
    """The room of some labels: their middle, the last line, half of their width, their lines."""

    x: float
    y: float
    half: float
    lines: int

    def overlaps(self, other: _Box) -> bool:
        apart = abs(self.x - other.x) >= self.half + other.half
        above, below = sorted((self, other), key=lambda box: box.y)
        return not apart and below.y - (below.lines - 1) * _LINE - above.y < _LINE


def _is_flat(view: AutomatonView, edge: EdgeView) -> bool:
    """Whether an edge is a straight line, which has one point for its label."""
    same = view.states[edge.source].y == view.states[edge.target].y
    return same and not edge.points and edge.id not in view.back


def _draw_edge(view: AutomatonView, bundle: Sequence[EdgeView], labels: list[_Box]) -> str:
    """Draw the edges between two states as one line, with their labels where no others stand."""
    first = bundle[0]
    source, target = view.states[first.source], view.states[first.target]
    soft = first.kind in ("guard", "all")
    if first.id in view.back:
        (_, low), _ = first.points
        begin, end = (source.x, source.y + _PILL / 2), (target.x, target.y + _PILL / 2 + 2)
        (x, y), (to_x, to_y) = begin, end
        path = (
            f"M{x:.1f} {y:.1f}C{x:.1f} {low:.1f} {x - 14:.1f} {low:.1f} {(x + to_x) / 2:.1f} "
            f"{low:.1f}S{to_x:.1f} {low:.1f} {to_x:.1f} {to_y:.1f}"
        )
        middle, direction = ((begin[0] + end[0]) / 2, low - 4), (0.0, -1.0)
    else:
        half = [_measure_state(DrawnState(s.name, s.kind)) / 2 for s in (source, target)]
        double = 3.5 if target.final else 0.0
        begin = (source.x + half[0] + (3.5 if source.final else 0.0), source.y)
        end = (target.x - half[1] - double - 2, target.y)
        points = [begin, *first.points, end]
        path = f"M{begin[0]:.1f} {begin[1]:.1f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            bend = (x + to_x) / 2
            path += f"C{bend:.1f} {y:.1f} {bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        at = (len(points) - 2) // 2
        room = _Box(0, 0, max(map(_measure_edge, bundle)) / 2, min(_MOST_LINES, len(bundle)))
        boxes = [
            room._replace(x=x, y=y)
            for x, y in _list_label_points(view, bundle, points[at], points[at + 1])
        ]
        free = (box for box in boxes if not any(map(box.overlaps, labels)))
        chosen = next(free, boxes[0])
        labels.append(chosen)
        middle, direction = (chosen.x, chosen.y), (1.0, 0.0)
    line = svg.element(
        "path", d=path, class_="line", fill="none", stroke="currentColor",
        stroke_opacity=0.55, stroke_width=1.2, stroke_dasharray="4 4" if soft else None,
    )  # fmt: skip
    arrow = _draw_head(*end, *direction)
    under = len(bundle) == 1 and _is_flat(view, first)
    written = _draw_labels(bundle, *middle, under=under)
    return svg.element("g", _name_bundle(bundle), line, arrow, written)


def _list_label_points(
    view: AutomatonView, bundle: Sequence[EdgeView], begin: Point, end: Point
) -> list[Point]:
    """Return points for the last label of an edge, the best first.

    That is above or below the end at which it is flat; where more edges meet than part, that is its
    beginning. Others are the other side of that end, and both sides of the other end.
    """
    source, target = bundle[0].source, bundle[0].target
    leaves = len({e.target for e in view.edges if e.source == source} - {source})
    enters = len({e.source for e in view.edges if e.target == target} - {target})
    (x, y), (to_x, to_y) = begin, end
    middle, under = (x + to_x) / 2, 4 + _LINE * min(_MOST_LINES, len(bundle))
    if abs(y - to_y) < 1:
        return [(middle, y - 6), (middle, y + under)]
    levels = [(y, to_y < y), (to_y, to_y > y)]
    if enters <= leaves:
        levels.reverse()
    sides = [(level + under, level - 6) if below else (level - 6, level + under)
             for level, below in levels]  # fmt: skip
    return [(middle, at) for side in sides for at in side]


def _draw_loops(state: StateView, bundle: Sequence[EdgeView]) -> str:
    """Draw what keeps a run in its state: above what it reads, below that it waits."""
    reads = [edge for edge in bundle if edge.kind != "wait"]
    parts: list[str] = []
    grow = 3.5 if state.final else 0.0
    if reads:
        top = state.y - _PILL / 2 - grow
        path = (
            f"M{state.x - 13:.1f} {top:.1f}C{state.x - 20:.1f} {top - 28:.1f} "
            f"{state.x + 20:.1f} {top - 28:.1f} {state.x + 13:.1f} {top - 2:.1f}"
        )
        line = svg.element("path", d=path, class_="line", fill="none", stroke="currentColor",
                           stroke_opacity=0.55, stroke_width=1.2)  # fmt: skip
        arrow = _draw_head(state.x + 13, top - 1, -0.25, 1.0)
        parts += [_name_bundle(reads), line, arrow, _draw_labels(reads, state.x, top - 26)]
    if len(reads) < len(bundle):
        low = state.y + _PILL / 2 + grow
        path = (
            f"M{state.x - 9:.1f} {low:.1f}C{state.x - 14:.1f} {low + 16:.1f} "
            f"{state.x + 14:.1f} {low + 16:.1f} {state.x + 9:.1f} {low:.1f}"
        )
        parts.append(
            svg.element("path", svg.title("waits: any event may pass"), d=path, class_="line",
                        fill="none", stroke="currentColor", stroke_opacity=0.4,
                        stroke_dasharray="1.5 3", stroke_width=1.2)
        )  # fmt: skip
    return svg.element("g", *parts)


def _name_bundle(bundle: Sequence[EdgeView]) -> str:
    return svg.title("; ".join(write_label(edge) for edge in bundle))


def _draw_labels(bundle: Sequence[EdgeView], x: float, y: float, *, under: bool = False) -> str:
    """Write the labels of edges above a point, one under the other.

    Counts stand beside them, or `under` the line.
    """
    lines = [(_cut(write_label(edge)), edge.taken) for edge in bundle if write_label(edge)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], (f"and {len(lines) - _MOST_LINES + 1} more", None)]

    def write(text: str, at: float, *more: str, **style: object) -> str:
        return svg.element(
            "text", svg.write(text), *more, x=x, y=at, text_anchor="middle", font_size=11,
            fill="currentColor", **{"opacity": 0.85, **style},
        )  # fmt: skip

    parts = []
    for i, (text, count) in enumerate(lines):
        number = "" if count is None else f"{count:,}×"
        at = y - (len(lines) - 1 - i) * _LINE
        if number and under:
            parts += [write(text, at), write(number, y + 20, font_weight=600, opacity=0.65)]
        else:
            beside = svg.element("tspan", svg.write(f"  {number}"), font_weight=600)
            parts.append(write(text, at, beside if number else ""))
    return "".join(parts)


def _cut(text: str) -> str:
    """Return a label that fits; what an event joins stays visible."""
    if len(text) <= _LONGEST_LABEL:
        return text
    head, arrow, tail = text.rpartition(" → ")
    if not arrow:
        return text[: _LONGEST_LABEL - 1] + "…"
    tail = tail[:12]
    return f"{head[: _LONGEST_LABEL - len(tail) - 4]}… → {tail}"


def _draw_head(x: float, y: float, to_x: float, to_y: float) -> str:
    """Draw the head of an arrow that ends here, in a direction."""
    length = (to_x**2 + to_y**2) ** 0.5
    a, b = to_x / length, to_y / length
    back_x, back_y = x - 7 * a, y - 7 * b
    path = (
        f"M{x:.1f} {y:.1f}L{back_x - 3.2 * b:.1f} {back_y + 3.2 * a:.1f}"
        f"L{back_x + 3.2 * b:.1f} {back_y - 3.2 * a:.1f}Z"
    )
    return svg.element("path", d=path, class_="ink", fill="currentColor", opacity=0.7)
