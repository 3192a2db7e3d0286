"""Results as a notebook shows them: how many there are, and a table of the first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from cernis.results.match import Match
from cernis.results.timeline import timeline_svg

_MOST_ROWS = 8


class Picture(NamedTuple):
    """A cell that shows a drawing, with a text for the pointer that rests on it."""

    svg: str
    text: str


def html_table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[object]], *, more: bool
) -> str:
    """Return the title, a table of the rows if there are any, and an ellipsis if `more` exist."""
    parts = [f"<p><b>{escape(title)}</b></p>"]
    if rows:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        parts += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows]
        parts.append("</tbody></table>" + ("<p>…</p>" if more else ""))
    return "".join(parts)


def match_table(matches: Sequence[Match]) -> tuple[list[str], list[list[object]]]:
    """Return the columns of some matches: interval, partition, values, and a timeline.

    Matches without variables have no timeline.
    """
    if not matches:
        return [], []
    drawn = any(match.positions for match in matches)
    waited = any(match.deadline_ts is not None for match in matches)
    times = ["from", "to", *(["deadline"] if waited else [])]
    names = ["start", "end", *times, *matches[0].partition, *matches[0].values]
    rows = []
    for match in matches:
        row: list[object] = [match.start, match.end, match.start_ts, match.end_ts]
        row += [match.deadline_ts] if waited else []
        row += [*match.partition.values(), *match.values.values()]
        rows.append([*row, _picture(match)] if drawn else row)
    return [*names, "events"] if drawn else names, rows


def _picture(match: Match) -> Picture:
    text = "; ".join(f"{name}: {_rows(rows)}" for name, rows in match.vars.items())
    return Picture(timeline_svg(match.positions, *match.interval), text)


def _cell(value: object) -> str:
    if isinstance(value, Picture):
        return f'<td title="{escape(value.text)}">{value.svg}</td>'
    return f"<td>{escape(str(value))}</td>"


def _rows(rows: Sequence[int]) -> str:
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    return shown + (", …" if len(rows) > _MOST_ROWS else "")
