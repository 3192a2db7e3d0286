"""Rows that cannot be read: fail, skip and count them, or set them aside.

One `Mistakes` serves all sources of one `open_events`. A bad row that is set aside is
one JSON line: source, row, column (or null), reason, text. Their file appears when all events
have been read (`cernis.output`).
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cernis.errors import DataError
from cernis.output import OutputFile, UsedFile, refuse_overwriting
from cernis.pattern import suggest

BadRow = dict[str, Any]
OnError = str | Path | Callable[[BadRow], object]


class Mistakes:
    """The policy for bad rows, and how many there were per source."""

    def __init__(self, on_error: OnError = "fail") -> None:
        self.fails = on_error == "fail"
        self.skipped: dict[str, int] = {}
        self._quiet = False
        self._call: Callable[[BadRow], object] | None = on_error if callable(on_error) else None
        self.path: str | Path | None = None
        """The file of bad rows."""
        if isinstance(on_error, (str, Path)) and on_error not in ("fail", "skip"):
            self.path = on_error
        self.used: tuple[UsedFile, ...] = ()
        """The latest inputs that are files, and the file of bad rows."""
        self._output: OutputFile | None = None

    def open(self, inputs: Iterable[UsedFile]) -> None:
        """Open the file of bad rows, which must be none of the inputs."""
        self.used = tuple(inputs)
        if self.path is None:
            return
        refuse_overwriting(self.path, "the bad rows", self.used)
        self.used += (UsedFile("the file of bad rows", self.path),)
        if self._output is None:
            self._output = OutputFile(self.path)
            weakref.finalize(self, self._output.close)

    def complete(self) -> None:
        """Give the file of bad rows its name: all events so far have been read."""
        if self._output is not None:
            self._output.complete()

    def begin(self, source: str, *, quiet: bool) -> None:
        """Start a pass over a source; a quiet one neither counts nor writes."""
        self._quiet = quiet
        if not quiet:
            self.skipped[source] = 0

    def bad(
        self,
        source: str,
        row: int,
        column: str | None,
        reason: str,
        *,
        text: str | None,
        where: str,
    ) -> None:
        """Raise for a bad row, or count it and set it aside."""
        if self.fails:
            at = where if column is None else f"{where}, column {column!r}"
            raise DataError(f"{at}: {reason}")
        if self._quiet:
            return
        self.skipped[source] = self.skipped.get(source, 0) + 1
        record = {"source": source, "row": row, "column": column, "reason": reason, "text": text}
        if self._call is not None:
            self._call(record)
        if self._output is not None:
            line = json.dumps(record, ensure_ascii=False, default=str) + "\n"
            self._output.file.write(line.encode(errors="backslashreplace"))
            self._output.file.flush()


def no_column(label: str, name: str, purpose: str, names: Sequence[str]) -> str:
    """Return the message for a column that is not there.

    >>> no_column("a.csv", "tpe", "the event type", ["type", "ts"])
    "a.csv: no column 'tpe' for the event type; did you mean 'type'?"
    """
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    help_ = did_you_mean(name, names) or f"; its columns are {shown or 'none'}"
    return f"{label}: no column {name!r} for {purpose}{help_}"


def check_names(label: str, names: Sequence[str]) -> None:
    """Raise if two columns have one name, or if a name is no text."""
    seen: set[str] = set()
    for name in names:
        if not _is_text(name):
            raise DataError(f"{label}: the column name {name!r} is not text")
        if name in seen:
            raise DataError(f"{label}: the column name {name!r} occurs twice")
        seen.add(name)


def _is_text(name: object) -> bool:
    if not isinstance(name, str):
        return False
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:  # half a character
        return False


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return `; did you mean 'price'?`, or nothing.

    >>> did_you_mean("prise", ["price", "name"])
    "; did you mean 'price'?"
    """
    meant = suggest.did_you_mean(name, known)
    return f"; {meant}" if meant else ""
