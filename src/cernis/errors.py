"""Errors that users can cause, and messages that say how to mend them.

Every error that a user's input can cause derives from `CernisError`; the command
line prints its text and exits with 1. Any other exception that escapes is a bug of Cernis.

A query's mistakes are `Diagnostic`s: a message, the span of the text it is about,
and optionally what was expected and a suggestion. Several are reported together.
The rendering follows rust-lang/regex and DuckDB: line, column, the source line,
carets under the span.

Every error has a code, which names the kind of mistake (`cernis.error_codes`).

A warning is a `Diagnostic` with a code, about a query that is right or about its events. Rendered,
it is a `WarningNote`: one of the notes of a run, or with `strict` the reason of a `StrictError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from traceback import extract_tb, format_exception, format_exception_only, format_list
from typing import Any, NamedTuple

from cernis.error_codes import find_kind

_WIDEST_LINE = 120
LONGEST_MESSAGE = 1000
"""The characters in a line of a message; the middle of a longer one is left out."""
_SIGNS = {
    **{code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}
"""Signs for the characters that steer a terminal: control characters, changes of direction."""


def neutralize(text: str) -> str:
    r"""Return text that a terminal shows as it is: with signs for control characters.

    >>> neutralize("\x1b[31mred\x07")
    '␛[31mred␇'
    """
    return text.translate(_SIGNS)


def write_message(text: object) -> str:
    """Return a message as people see it: neutralized, and without the middle of endless lines."""
    lines = neutralize(str(text)).split("\n")
    return "\n".join(map(_shorten_line, lines))


def _shorten_line(line: str) -> str:
    if len(line) <= LONGEST_MESSAGE:
        return line
    left_out = len(line) - LONGEST_MESSAGE
    tail = LONGEST_MESSAGE // 4
    return f"{line[: LONGEST_MESSAGE - tail]} […{left_out:,} characters…] {line[-tail:]}"


class Span(NamedTuple):
    """A stretch of query text, as character offsets [start, end)."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of another."""
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake in a query, or with a code one warning."""

    message: str
    span: Span | None = None
    expected: str | None = None
    suggestion: str | None = None
    code: str = ""

    def render(self, source: str) -> str:
        """Return the mistake with line, column, source line and carets.

        >>> mistake = Diagnostic("unknown attribute 'prise'", Span(7, 12), suggestion="try 'price'")
        >>> print(mistake.render("FILTER prise > 3"))
        line 1, column 8: unknown attribute 'prise'
          FILTER prise > 3
                 ^^^^^
          help: try 'price'
        """
        lines = []
        if self.span is None:
            lines.append(self.message)
        else:
            line, column, text, offset = _locate(source, self.span.start)
            width = max(1, min(self.span.end - self.span.start, len(text) - offset))
            lines.append(f"line {line}, column {column}: {self.message}")
            lines.append(f"  {text}")
            lines.append(f"  {' ' * offset}{'^' * width}")
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.suggestion:
            lines.append(f"  help: {self.suggestion}")
        return write_message("\n".join(lines))

    def find_code(self) -> str:
        """Return the code of the warning, or of the kind of mistake.

        >>> Diagnostic("unknown attribute 'prise'").find_code()
        'unknown-name'
        """
        return self.code or find_kind((QueryError.__name__,), self.message).code

    def to_dict(self, source: str) -> dict[str, Any]:
        """Return plain values for JSON; lines and columns count from 1."""
        location: dict[str, Any] = {"line": None, "column": None, "length": None}
        if self.span is not None:
            line, column, _, _ = _locate(source, self.span.start)
            location = {"line": line, "column": column, "length": self.span.end - self.span.start}
        values = {"code": self.find_code(), "message": neutralize(self.message)}
        return {**values, **location, "expected": self.expected, "help": self.suggestion}


def _locate(source: str, position: int) -> tuple[int, int, str, int]:
    """Return line, column, the line's text cut to a readable width, and the caret's offset."""
    position = min(position, len(source))
    begin = source.rfind("\n", 0, position) + 1
    end = source.find("\n", position)
    text = source[begin : end if end >= 0 else len(source)].replace("\t", " ")
    line, column = source.count("\n", 0, begin) + 1, position - begin + 1
    offset = column - 1
    if len(text) > _WIDEST_LINE:
        left = max(0, min(offset - _WIDEST_LINE // 2, len(text) - _WIDEST_LINE))
        cut = text[left : left + _WIDEST_LINE]
        head, tail = "…" if left else "", "…" if left + _WIDEST_LINE < len(text) else ""
        return line, column, head + cut + tail, offset - left + len(head)
    return line, column, text, offset


_PACKAGE = Path(__file__).parent


class MemoryShortage(MemoryError):
    """Memory is used up; the message says by what."""


class CernisError(Exception):
    """The base of everything that a user's input can cause."""

    def __init__(self, message: object = "") -> None:
        super().__init__(write_message(message))

    @property
    def code(self) -> str:
        """The kind of mistake, which stays when the message is worded anew.

        >>> DataError("trades.csv: no such file").code
        'no-such-file'
        """
        own = (one.__name__ for one in type(self).__mro__ if issubclass(one, CernisError))
        return find_kind(tuple(own), str(self)).code

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the frames of the user's code, and the message.

        CERNIS_DEBUG=1 shows all frames.
        """
        if os.environ.get("CERNIS_DEBUG"):
            return format_exception(self)
        frames = [
            frame
            for frame in extract_tb(self.__traceback__)
            if _PACKAGE not in (path := Path(frame.filename)).parents
            and "IPython" not in path.parts
            and path.name != "functools.py"  # of a cached property of ours
        ]
        return [*format_list(frames), *format_exception_only(self)]


class QueryError(CernisError):
    """The query's text or types are wrong; carries every mistake found."""

    def __init__(self, diagnostics: Iterable[Diagnostic], source: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        super().__init__("\n".join(d.render(source) for d in self.diagnostics))

    @property
    def code(self) -> str:
        """The code of the first mistake; each of `diagnostics` has its own (`find_code`)."""
        return self.diagnostics[0].find_code() if self.diagnostics else super().code


class DataError(CernisError):
    """The events are wrong: which input, row and column, and what to do about it."""


class RowError(DataError):
    """A row is wrong. The reader that knows its stream adds the stream and the row."""

    def __init__(self, message: str, row: int, length: int) -> None:
        super().__init__(message)
        self.row = row
        """The first such row."""
        self.length = length
        """The number of rows of the table."""

    def __reduce__(self) -> tuple[type[RowError], tuple[str, int, int]]:
        return RowError, (str(self), self.row, self.length)

    def locate(self, stream: str, row: int | None) -> DataError:
        """Return the error with the stream, and with the number of the row if that is known."""
        where = "" if row is None else f", row {row}"
        return DataError(f"stream {stream!r}{where}: {self}")


class BudgetError(CernisError):
    """A query or a stream would cost more than the limit that guards it."""

    def __init__(self, message: str = "", span: Span | None = None) -> None:
        super().__init__(message)
        self.span = span
        """The part of the query that costs too much, if one does."""

    def locate(self, source: str) -> BudgetError:
        """Return the error with line, column and carets, where it is about a part of the text."""
        if self.span is None or not source:
            return self
        return BudgetError(Diagnostic(str(self), self.span).render(source))


class StateError(CernisError):
    """Frozen state that does not belong to this query or version, or a session that has failed."""


class WarningNote(str):
    """A note that says what probably is not meant; its `code` names the kind.

    >>> note = WarningNote.of(Diagnostic("no event has the type 'BYU'", code="absent-type"))
    >>> note, note.code
    ("no event has the type 'BYU'", 'absent-type')
    """

    code: str = ""

    @classmethod
    def of(cls, warning: Diagnostic, source: str = "") -> WarningNote:
        """Render a warning; `source` is the text of the query."""
        note = cls(warning.render(source))
        note.code = warning.code
        return note


def list_warnings(notes: Iterable[str]) -> tuple[WarningNote, ...]:
    """Return the warnings among notes."""
    return tuple(note for note in notes if isinstance(note, WarningNote))


class StrictError(CernisError):
    """Warnings that the caller wants as errors."""

    def __init__(self, warnings: Iterable[WarningNote]) -> None:
        self.warnings = tuple(warnings)
        super().__init__("\n".join(self.warnings))

    @property
    def code(self) -> str:
        """The code of the first warning."""
        return self.warnings[0].code if self.warnings else super().code


class SessionGuard:
    """Close a session once a change of its state has failed, whatever the error.

    Such a session may have read half a batch. Going on would give wrong answers.

    >>> guard = SessionGuard()
    >>> try:
    ...     with guard:
    ...         raise DataError("row 3: no time")
    ... except DataError:
    ...     guard.check()
    Traceback (most recent call last):
    cernis.StateError: this session has failed before (row 3: no time); begin a new one
    """

    def __init__(self, remedy: str = "begin a new one") -> None:
        self._remedy = remedy
        self._failure = ""
        self._lock = Lock()

    def check(self) -> None:
        """Raise StateError if the session has failed."""
        if self._failure:
            raise StateError(f"this session has failed before ({self._failure}); {self._remedy}")

    def __enter__(self) -> None:
        with self._lock:
            self.check()
            self._failure = _INTERRUPTED

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep other threads away while the state is read; an error does not close the session."""
        self.__enter__()
        try:
            yield
        finally:
            self._failure = ""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._failure = "" if error is None else str(error) or type(error).__name__

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the caller use the session in the middle of a change: a stream between batches."""
        self._failure = ""
        yield
        self.check()
        self._failure = _INTERRUPTED


_INTERRUPTED = "it was interrupted, or another thread uses it"

for _error in (CernisError, QueryError, DataError, BudgetError, StateError, StrictError):
    _error.__module__ = "cernis"  # tracebacks show the public name
