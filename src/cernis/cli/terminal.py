"""Matches and answers on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cernis.results.answers import Answer
from cernis.results.match import Match

_MOST_ROWS = 6


def output() -> Console:
    """Standard output; without markup, for everything in it is data."""
    return Console(markup=False, highlight=False, emoji=False)


def errors() -> Console:
    """Standard error, for progress and notes."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def matches_table(matches: Sequence[Match], *, counting: bool = False) -> Table:
    """A row for each match: interval, times, partition, aggregates, rows of variables."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    first = matches[0]
    numbers = ["end"] if counting else ["start", "end"]
    times = ["end_ts"] if counting else ["start_ts", "end_ts"]
    for name in numbers:
        table.add_column(name, justify="right")
    for name in (*times, *first.partition):
        table.add_column(Text(name))
    for name in first.aggregates:
        table.add_column(Text(name), justify="right")
    for name in first.vars:
        table.add_column(Text(name))
    for match in matches:
        values = [getattr(match, name) for name in (*numbers, *times)]
        values += [*match.partition.values(), *match.aggregates.values()]
        cells = [value_text(value) for value in values]
        table.add_row(*cells, *(_rows_text(rows) for rows in match.vars.values()))
    return table


def answers_table(answers: Sequence[Answer]) -> Table:
    """A row for each answer: the values of the head, and where it first appears."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in answers[0].values:
        table.add_column(Text(name))
    table.add_column("end", justify="right")
    table.add_column("end_ts")
    for answer in answers:
        table.add_row(
            *map(value_text, (*answer.values.values(), answer.end, answer.end_ts)),
        )
    return table


def events_table(match: Match) -> Table:
    """The events of one match, variable by variable, in the order of the stream."""
    held = {name: match.events(name) for name in match.vars}
    columns = dict.fromkeys(key for events in held.values() for event in events for key in event)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", style="bold cyan")
    for name in columns:
        table.add_column(Text(name))
    places = [
        (position, name, event)
        for name, events in held.items()
        for position, event in zip(match.positions[name], events, strict=True)
    ]
    for _, name, event in sorted(places, key=lambda place: place[0]):
        table.add_row(Text(name), *(value_text(event.get(column)) for column in columns))
    return table


def value_text(value: Any) -> Text:
    """A value as a cell; NULL is a dash, a time of day keeps milliseconds only."""
    if value is None:
        return Text("–", style="dim")
    if hasattr(value, "isoformat"):
        return Text(str(value).removesuffix("000") if "." in str(value) else str(value))
    return Text(str(value))


def _rows_text(rows: Sequence[int]) -> Text:
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    return Text(shown + (f", … ({len(rows)})" if len(rows) > _MOST_ROWS else ""))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner on standard error while a long step runs, if someone is looking."""
    console = errors()
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
