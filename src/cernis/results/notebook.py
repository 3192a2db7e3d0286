"""A set of matches as a notebook shows it: a count, and the first matches with timelines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cernis.results.match import Match
from cernis.results.timeline import timeline_svg

_MOST_ROWS = 8


def html_table(title: str, matches: Sequence[Match], more: bool) -> str:
    """The title, a row for each match, and an ellipsis where there are more."""
    head = ["start", "end", "from", "to"]
    head += list(matches[0].partition) if matches else []
    head += list(matches[0].aggregates) if matches else []
    drawn = any(match.positions for match in matches)
    head += ["events"] if drawn else []
    parts = [f"<p><b>{escape(title)}</b></p>"]
    if matches:
        parts.append("<table><thead><tr>" + _cells("th", head) + "</tr></thead><tbody>")
        for match in matches:
            values = [match.start, match.end, match.start_ts, match.end_ts]
            values += [*match.partition.values(), *match.aggregates.values()]
            picture = timeline_svg(match.positions, *match.interval) if drawn else ""
            held = "; ".join(f"{name}: {_rows(rows)}" for name, rows in match.vars.items())
            drawing = f'<td title="{escape(held)}">{picture}</td>' if drawn else ""
            parts.append("<tr>" + _cells("td", values) + drawing + "</tr>")
        parts.append("</tbody></table>" + ("<p>…</p>" if more else ""))
    return "".join(parts)


def _cells(tag: str, values: Sequence[object]) -> str:
    return "".join(f"<{tag}>{escape(str(value))}</{tag}>" for value in values)


def _rows(rows: Sequence[int]) -> str:
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    return shown + (", …" if len(rows) > _MOST_ROWS else "")
