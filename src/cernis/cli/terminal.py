"""The terminal: its two consoles, tables of matches and answers, a spinner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cernis.errors import WarningNote, neutralize, write_message
from cernis.results.answers import Answer
from cernis.results.deadline import DEADLINE
from cernis.results.groups import MatchGroup
from cernis.results.match import Match

if TYPE_CHECKING:
    from cernis.rdf.matches import GraphMatch

_MOST_ROWS = 6


def output_console() -> Console:
    """Return standard output, without markup: its text is data."""
    return Console(markup=False, highlight=False, emoji=False)


def error_console() -> Console:
    """Return standard error, for progress and notes."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def make_table(names: Iterable[str], right: Collection[str] = ()) -> Table:
    """Return a table without rows; the columns named in `right` are flush right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(Text(neutralize(name)), justify="right" if name in right else "left")
    return table


def matches_table(matches: Sequence[Match], *, counting: bool = False) -> Table:
    """Return a row for each match: interval, times, partition, values, rows of variables."""
    first = matches[0]
    numbers = ["end"] if counting else ["start", "end"]
    times = ["end_ts"] if counting else ["start_ts", "end_ts"]
    if any(match.deadline_ts is not None for match in matches):
        times.append(DEADLINE)
    names = (*numbers, *times, *first.partition, *first.values, *first.vars)
    table = make_table(names, right={*numbers, *first.values})
    for match in matches:
        values = [getattr(match, name) for name in (*numbers, *times)]
        values += [*match.partition.values(), *match.values.values()]
        cells = [value_text(value) for value in values]
        table.add_row(*cells, *(_rows_text(rows) for rows in match.vars.values()))
    return table


def groups_table(groups: Sequence[MatchGroup]) -> Table:
    """Return a row for each group: its time, its components of the partition, its values."""
    first = groups[0]
    table = make_table((*first.time, *first.partition, *first.values), right={*first.values})
    for group in groups:
        cells = (*group.time.values(), *group.partition.values(), *group.values.values())
        table.add_row(*map(value_text, cells))
    return table


def answers_table(answers: Sequence[Answer]) -> Table:
    """Return a row for each answer: the values of the head, and where it first appears."""
    table = make_table((*answers[0].values, "end", "end_ts"), right={"end"})
    for answer in answers:
        table.add_row(*map(value_text, (*answer.values.values(), answer.end, answer.end_ts)))
    return table


def graph_matches_table(matches: Sequence[GraphMatch]) -> Table:
    """Return a row for each match: times, variables, events."""
    names = list(dict.fromkeys(name for match in matches for name in match.bindings))
    table = make_table(("start_ts", "end_ts", *(f"?{name}" for name in names), "events"))
    for match in matches:
        bound = [match.bindings.get(name) for name in names]
        events = ", ".join(f"{stream} {number}" for stream, number in match.events)
        cells = [value_text(value) for value in (match.start_ts, match.end_ts, *bound)]
        table.add_row(*cells, Text(neutralize(events)))
    return table


def events_table(match: Match) -> Table:
    """Return the events of one match with their variables, in the order of the stream."""
    places = [
        (position, name, event)
        for name in match.vars
        for position, event in zip(match.positions[name], match.events(name), strict=True)
    ]
    columns = dict.fromkeys(key for _, _, event in places for key in event)
    table = make_table(("", *columns))
    for _, name, event in sorted(places, key=lambda place: place[0]):
        cells = (value_text(event.get(column)) for column in columns)
        table.add_row(Text(neutralize(name), style="bold cyan"), *cells)
    return table


def value_text(value: Any) -> Text:
    """Return a value as a cell; NULL is a dash, times keep milliseconds only."""
    if value is None:
        return Text("–", style="dim")
    if hasattr(value, "isoformat"):
        return Text(str(value).removesuffix("000") if "." in str(value) else str(value))
    return Text(neutralize(str(value)))


def _rows_text(rows: Sequence[int]) -> Text:
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    return Text(shown + (f", … ({len(rows)})" if len(rows) > _MOST_ROWS else ""))


def print_notes(notes: Iterable[str]) -> None:
    """Print remarks on a run to standard error."""
    for note in notes:
        kind = "warning" if isinstance(note, WarningNote) else "note"
        print_message(f"{kind}: {note}")


def print_message(text: str) -> None:
    """Print a message to standard error."""
    error_console().print(write_message(text), soft_wrap=True)


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show a spinner while a long step runs, if standard error is a terminal."""
    console = error_console()
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
