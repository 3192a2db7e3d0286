"""`plot_bars`: numbers per interval of time as an Altair chart (extra `notebook`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from cernis.views.plot import import_altair

Axis = Literal["temporal", "quantitative", "nominal"]
"""Milliseconds since 1970, numbers of a column, or names."""


class Bar(NamedTuple):
    """A number of a series, in an interval of the axis."""

    at: float | str
    to: float | str
    series: str
    value: float


def plot_bars(panels: Sequence[tuple[str, Sequence[Bar]]], axis: Axis, width: int = 640) -> Any:
    """Return a chart with a panel of bars for each named number, one below the other."""
    alt = import_altair()
    charts = []
    for name, bars in panels:
        x = alt.X("at", type=axis, title=None)
        is_wide = any(bar.at != bar.to for bar in bars)
        ends = {"x2": "to", "y2": alt.datum(0)} if is_wide else {}
        several = len({bar.series for bar in bars}) > 1
        chart = alt.Chart(alt.Data(values=[bar._asdict() for bar in bars]))
        drawn = chart.mark_rect(opacity=0.7) if is_wide else chart.mark_bar()
        charts.append(
            drawn.encode(
                x=x,
                y=alt.Y("value:Q", title=name),
                color=alt.Color("series:N", title=None) if several else alt.value("#3b6fb6"),
                tooltip=["series:N", "value:Q"] if several else ["value:Q"],
                **ends,
            ).properties(width=width, height=120)
        )
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts).resolve_scale(x="shared")
