"""The terminal: its two consoles, tables of matches and answers, a spinner."""

from __future__ import annotations

import io
import os
from codecs import getincrementaldecoder
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cernis.cli.log import is_structured, write_record
from cernis.errors import WarningNote, neutralize, write_message
from cernis.integers import write_integer
from cernis.results.answers import Answer
from cernis.results.formats.columns import SUPPRESSED
from cernis.results.groups import MatchGroup
from cernis.results.match import Match
from cernis.results.terms.deadline import DEADLINE

if TYPE_CHECKING:
    from cernis.rdf.matches import GraphMatch

_MOST_ROWS = 6
_WIDEST, _BETWEEN = 40, 2
"""The cells of a column, where a table must be cut, and between two columns."""
_UNBOUNDED = 1 << 16


def output_console() -> Console:
    """Return standard output, without markup: its text is data."""
    return Console(markup=False, highlight=False, emoji=False)


def error_console() -> Console:
    """Return standard error, for progress and notes."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


class TerminalFile(io.RawIOBase):
    """A file for text that goes to a terminal: it has signs for control characters."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write bytes of UTF-8, which may end inside of a character."""
        self._file.write(neutralize(self._decoder.decode(bytes(data))).encode())
        return len(data)

    def flush(self) -> None:
        """Show all that was written."""
        self._file.flush()


def table_console() -> Console:
    """Return standard output for tables: as wide as they need, unless it is a terminal."""
    console = output_console()
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _UNBOUNDED
    return console


def make_table(
    names: Iterable[str], rows: Iterable[Iterable[Text]], right: Collection[str] = ()
) -> Table:
    """Return a table of cells, cut to the terminal; a caption names the columns that do not fit.

    The columns named in `right` are flush right.
    """
    titles, cells = [_one_line(name) for name in names], [list(row) for row in rows]
    width = table_console().width
    shown = _count_fitting(titles, cells, width)
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    flush = {_one_line(name) for name in right}
    for title in titles[:shown]:
        side: Literal["left", "right"] = "right" if title in flush else "left"
        table.add_column(Text(title), justify=side, no_wrap=True, overflow="ellipsis")
    for row in cells:
        table.add_row(*row[:shown])
    if shown < len(titles):
        hidden = f"{len(titles) - shown} more: {', '.join(titles[shown:])}"
        hidden = hidden if len(hidden) <= width else hidden[: max(1, width - 1)] + "…"
        table.caption = Text(hidden, style="dim")
    return table


def _count_fitting(titles: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> int:
    """Return how many columns fit, at least one; wide cells may be cut to `_WIDEST`."""
    used = 0
    for at, title in enumerate(titles):
        widest = max((cell_len(title), *(row[at].cell_len for row in rows)))
        used += min(widest, _WIDEST) + (_BETWEEN if at else 0)
        if at and used > width:
            return at
    return len(titles)


def matches_table(matches: Sequence[Match], *, counting: bool = False) -> Table:
    """Return a row for each match: interval, times, partition, values, variables.

    A variable shows the rows of its events, or the values of the attributes that SELECT names.
    """
    first = matches[0]
    numbers = ["end"] if counting else ["start", "end"]
    times = ["end_ts"] if counting else ["start_ts", "end_ts"]
    if any(match.deadline_ts is not None for match in matches):
        times.append(DEADLINE)
    if any(match.suppressed is not None for match in matches):
        times.append(SUPPRESSED)
    names = [*numbers, *times, *first.partition, *first.values]
    for name in first.vars:
        held = first.attributes.get(name, ())
        names += [f"{name}[{attribute}]" for attribute in held] or [name]
    rows = []
    for match in matches:
        values = [getattr(match, name) for name in (*numbers, *times)]
        values += [*match.partition.values(), *match.values.values()]
        rows.append([*map(value_text, values), *_variable_cells(match)])
    values_of_all = [match.values for match in matches]
    return make_table(names, rows, right={*numbers, *_find_numbers(values_of_all)})


def _find_numbers(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the columns that hold numbers alone."""
    kinds = (int, float, Decimal, NoneType)
    return {name for name in rows[0] if all(isinstance(row[name], kinds) for row in rows)}


def _variable_cells(match: Match) -> Iterator[Text]:
    for name, rows in match.vars.items():
        held = match.attributes.get(name, ())
        events = match.events(name) if held else []
        for attribute in held:
            yield _list_text([value_text(event.get(attribute)).plain for event in events])
        if not held:
            yield _list_text(list(map(str, rows)))


def groups_table(groups: Sequence[MatchGroup]) -> Table:
    """Return a row for each group: its time, its components of the partition, its values."""
    first = groups[0]
    names = (*first.time, *first.partition, *first.values)
    rows = [
        map(value_text, (*group.time.values(), *group.partition.values(), *group.values.values()))
        for group in groups
    ]
    return make_table(names, rows, right=_find_numbers([group.values for group in groups]))


def answers_table(answers: Sequence[Answer]) -> Table:
    """Return a row for each answer: the values of the head, and where it first appears."""
    rows = [
        map(value_text, (*answer.values.values(), answer.end, answer.end_ts)) for answer in answers
    ]
    return make_table((*answers[0].values, "end", "end_ts"), rows, right={"end"})


def graph_matches_table(matches: Sequence[GraphMatch]) -> Table:
    """Return a row for each match: times, variables, events."""
    from cernis.rdf.matches import write_bound

    names = list(dict.fromkeys(name for match in matches for name in match.bindings))
    rows = []
    for match in matches:
        found = [match.bindings.get(name) for name in names]
        bound = [None if value is None else write_bound(value) for value in found]
        events = ", ".join(f"{stream} {number}" for stream, number in match.events)
        cells = [value_text(value) for value in (match.start_ts, match.end_ts, *bound)]
        rows.append([*cells, Text(neutralize(events))])
    return make_table(("start_ts", "end_ts", *(f"?{name}" for name in names), "events"), rows)


def events_table(match: Match) -> Table:
    """Return the events of one match with their variables, in the order of the stream."""
    marked = [
        (position, name, event)
        for name in match.vars
        for position, event in zip(match.positions[name], match.events(name), strict=True)
    ]
    columns = list(dict.fromkeys(key for _, _, event in marked for key in event))
    rows = [
        [Text(neutralize(name), style="bold cyan"), *(value_text(event.get(c)) for c in columns)]
        for _, name, event in sorted(marked, key=lambda one: one[0])
    ]
    return make_table(("", *columns), rows)


def value_text(value: Any) -> Text:
    """Return a value as a cell; NULL is a dash, times keep milliseconds."""
    if value is None:
        return Text("–", style="dim")
    if hasattr(value, "isoformat") or isinstance(value, timedelta):
        return Text(str(value).removesuffix("000") if "." in str(value) else str(value))
    return Text(_one_line(write_integer(value) if isinstance(value, int) else str(value)))


def _one_line(text: str) -> str:
    """Return text for one line of a terminal."""
    return neutralize(text).replace("\n", "␊").replace("\t", " ")


def _list_text(values: Sequence[str]) -> Text:
    shown = ", ".join(values[:_MOST_ROWS])
    return Text(shown + (f", … ({len(values)})" if len(values) > _MOST_ROWS else ""))


def print_notes(notes: Iterable[str]) -> None:
    """Print remarks on a run to standard error."""
    for note in notes:
        print_note(note)


def print_note(note: str) -> None:
    """Print a remark to standard error."""
    kind = "warning" if isinstance(note, WarningNote) else "note"
    print_message(f"{kind}: {note}")


def print_message(text: str) -> None:
    """Print a message to standard error."""
    if is_structured():
        text = write_record(text)
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
