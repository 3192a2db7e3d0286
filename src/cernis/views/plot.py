"""`plot_timeline`: a timeline as an Altair chart, which people can restyle and combine.

Altair is an extra (`cernis[notebook]`), imported when a chart is asked for. The chart has the data
of the view: marks or bins, never the events of a whole stream.

By default Altair lets the browser fetch Vega from a server. `import_altair` has it put Vega into
the output instead, which costs a megabyte for each chart in a notebook. It does so for all charts,
since one that is restyled or combined is another object. A renderer that the user has chosen stays.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from cernis.extras import import_extra
from cernis.views.timeline import Timeline


def import_altair() -> Any:
    """Import Altair; unless the user has chosen a renderer, charts are drawn without a network."""
    altair = import_extra("altair", "a chart")
    if altair.renderers.active == "default" and find_spec("vl_convert") is not None:
        altair.renderers.enable("html", template="inline")
    return altair


def plot_timeline(view: Timeline, width: int = 640) -> Any:
    """Return an Altair chart: events by lane, a few matches as lines, the ends of matches."""
    alt = import_altair()
    names = [lane.name for lane in view.lanes]
    kind = "temporal" if view.unit == "ms" else "quantitative"
    title = {"row": "row", "number": "time"}.get(view.unit)
    scale = alt.Scale(domain=[_round_time(view.start), _round_time(view.stop)])
    x = alt.X("at", type=kind, title=title, scale=scale)
    y = alt.Y("lane", type="nominal", title=None, sort=names)
    lines = alt.Data(values=_list_marks(view))
    layers = [
        _draw_events(alt, view, x, y),
        alt.Chart(lines)
        .mark_line(opacity=0.6, color="#777777", strokeWidth=1)
        .encode(x=x, y=y, detail="match:N", order="order:Q"),
        alt.Chart(lines)
        .mark_circle(opacity=1, size=60)
        .encode(
            x=x, y=y, color=alt.Color("variable:N", title=None), tooltip=["row:Q", "variable:N"]
        ),
    ]
    upper = alt.layer(*layers).properties(width=width, height=26 * max(2, len(names)))
    if not any(view.ends):
        return upper
    ends = (
        alt.Chart(alt.Data(values=_list_bins(view, "matches", view.ends)))
        .mark_rect(opacity=0.6, color="#777777")
        .encode(
            x=x,
            x2="to",
            y=alt.Y("count:Q", title="matches end"),
            y2=alt.datum(0),
            tooltip=["count:Q"],
        )
        .properties(width=width, height=60)
    )
    return alt.vconcat(upper, ends).resolve_scale(x="shared")


def _draw_events(alt: Any, view: Timeline, x: Any, y: Any) -> Any:
    """Return marks for few events, a strip of densities for many."""
    if view.events or not any(any(lane.bins) for lane in view.lanes):
        values = [
            {"at": _round_time(mark.at), "lane": view.lanes[mark.lane].name, "row": mark.row}
            for mark in view.events
        ]
        marks = alt.Chart(alt.Data(values=values)).mark_tick(opacity=0.5, thickness=2)
        return marks.encode(x=x, y=y, tooltip=["row:Q"])
    bins = [each for lane in view.lanes for each in _list_bins(view, lane.name, lane.bins)]
    strip = alt.Chart(alt.Data(values=bins)).mark_rect(color="#3b6fb6")
    opacity = alt.Opacity("count:Q", scale=alt.Scale(range=[0.1, 0.9]), legend=None)
    return strip.encode(x=x, x2="to", y=y, opacity=opacity, tooltip=["count:Q"])


def _list_marks(view: Timeline) -> list[dict[str, Any]]:
    return [
        {
            "at": _round_time(mark.at),
            "lane": view.lanes[mark.lane].name,
            "row": mark.row,
            "variable": mark.variable,
            "match": str(one.number),
            "order": i,
        }
        for one in view.matches
        for i, mark in enumerate(one.marks)
        if mark.lane >= 0 and view.start <= mark.at <= view.stop
    ]


def _list_bins(view: Timeline, lane: str, counts: tuple[int, ...]) -> list[dict[str, Any]]:
    step = (view.stop - view.start) / max(1, len(counts))
    return [
        {
            "at": _round_time(view.start + i * step),
            "to": _round_time(view.start + (i + 1) * step),
            "lane": lane,
            "count": float(count),
        }
        for i, count in enumerate(counts)
        if count
    ]


def _round_time(at: float) -> float:
    return round(at, 3)
