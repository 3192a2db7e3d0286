"""Results as a notebook shows them: how many there are, a picture, a table of the first.

The picture (`views.timeline`) shows the values of an event to the pointer that rests on it. In the
table, the events of each match can be unfolded. Everything that comes from data is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from html import escape
from typing import Any, NamedTuple, Protocol

_MOST_ROWS = 8
_MOST_EVENTS = 50
_MOST_VALUES = 6


class ShownMatch(Protocol):
    """What a view shows of a match."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def start_ts(self) -> Any: ...
    @property
    def end_ts(self) -> Any: ...
    @property
    def deadline_ts(self) -> Any: ...
    @property
    def suppressed(self) -> int | None: ...
    @property
    def vars(self) -> Mapping[str, Sequence[int]]: ...
    @property
    def partition(self) -> Mapping[str, Any]: ...
    @property
    def values(self) -> Mapping[str, Any]: ...
    @property
    def interval(self) -> tuple[int, int]: ...
    @property
    def positions(self) -> Mapping[str, Sequence[int]]: ...
    def events(self, variable: str) -> list[dict[str, Any]]: ...


class Markup(NamedTuple):
    """A cell that is HTML already, with a text for the pointer that rests on it."""

    html: str
    text: str


def html_table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[object]], *, more: bool, picture: str
) -> str:
    """Return the title, a picture, a table of the rows if there are any, an ellipsis if `more`."""
    parts = [f"<p><b>{escape(title)}</b></p>", picture]
    if rows:
        parts.append(_table(names, rows) + ("<p>…</p>" if more else ""))
    return "".join(parts)


def match_table(matches: Sequence[ShownMatch]) -> tuple[list[str], list[list[object]]]:
    """Return the columns of some matches: interval, partition, values, and events to unfold."""
    if not matches:
        return [], []
    drawn = any(match.positions for match in matches)
    waited = any(match.deadline_ts is not None for match in matches)
    silences = any(match.suppressed is not None for match in matches)
    times = ["from", "to", *(["deadline"] if waited else [])]
    times += ["suppressed"] if silences else []
    names = ["start", "end", *times, *matches[0].partition, *matches[0].values]
    rows = []
    for match in matches:
        row: list[object] = [match.start, match.end, match.start_ts, match.end_ts]
        row += [match.deadline_ts] if waited else []
        row += [match.suppressed] if silences else []
        row += [*match.partition.values(), *match.values.values()]
        rows.append([*row, _unfold(match)] if drawn else row)
    return [*names, "events"] if drawn else names, rows


def match_view(match: ShownMatch, picture: str) -> str:
    """Return one match: its columns, its picture, and the table of its events."""
    names, (row,) = match_table([match])
    if not match.positions:
        return _table(names, [row])
    return f"{_table(names[:-1], [row[:-1]])}<p>{picture}</p>{_events(match)}"


def _unfold(match: ShownMatch) -> Markup:
    text = "; ".join(f"{name}: {_rows(rows)}" for name, rows in match.vars.items())
    return Markup(f"<details><summary>events</summary>{_events(match)}</details>", text)


def _events(match: ShownMatch) -> str:
    """Return a table of a match's events with their variables, in the order of the stream."""
    marked = [
        (position, name, event)
        for name in match.positions
        for position, event in zip(match.positions[name], match.events(name), strict=True)
    ]
    columns = list(dict.fromkeys(key for _, _, event in marked for key in event))
    shown = sorted(marked, key=lambda one: one[0])[:_MOST_EVENTS]
    rows = [[name, *(event.get(column) for column in columns)] for _, name, event in shown]
    return _table(["", *columns], rows) + ("<p>…</p>" if len(marked) > len(shown) else "")


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return f'<td title="{escape(value.text)}">{value.html}</td>'
    return f"<td>{escape(write_value(value))}</td>"


def write_value(value: object) -> str:
    """Return a value as people read it: a dash for NULL, times without the letter T.

    >>> write_value(datetime(2024, 1, 2, 10, 0, 0, 500_000)), write_value(None)
    ('2024-01-02 10:00:00.5', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, datetime | date):
        whole, dot, fraction = str(value).partition(".")
        digits = fraction[:6].rstrip("0")
        return f"{whole}{dot if digits else ''}{digits}{fraction[6:]}"
    return str(value)


def write_event(event: Mapping[str, Any]) -> str:
    """Return the first values of an event in one line."""
    shown = [f"{name}={write_value(value)}" for name, value in list(event.items())[:_MOST_VALUES]]
    return ", ".join(shown) + (", …" if len(event) > _MOST_VALUES else "")


def _rows(rows: Sequence[int]) -> str:
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    return shown + (", …" if len(rows) > _MOST_ROWS else "")
