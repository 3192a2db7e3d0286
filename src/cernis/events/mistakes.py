"""Rows that cannot be read: fail, skip and count them, or set them aside.

One `Mistakes` serves all sources of one `open_events`. A bad row that is set aside is
one JSON line: source, row, column (or null), reason, text.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from cernis.errors import DataError
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
        self._file: TextIO | None = None
        if isinstance(on_error, (str, Path)) and on_error not in ("fail", "skip"):
            self._file = _open_bad_rows(Path(on_error))
            weakref.finalize(self, self._file.close)

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
        if self._file is not None:
            self._file.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
            self._file.flush()


def _open_bad_rows(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise DataError(f"{path}: cannot write the bad rows there: {error.strerror}") from error


def no_column(label: str, name: str, purpose: str, names: Sequence[str]) -> str:
    """Return the message for a column that is not there.

    >>> no_column("a.csv", "tpe", "the event type", ["type", "ts"])
    "a.csv: no column 'tpe' for the event type; did you mean 'type'?"
    """
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    help_ = did_you_mean(name, names) or f"; its columns are {shown or 'none'}"
    return f"{label}: no column {name!r} for {purpose}{help_}"


def check_names(label: str, names: Sequence[str]) -> None:
    """Raise if two columns have one name."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataError(f"{label}: the column name {name!r} occurs twice")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return `; did you mean 'price'?`, or nothing.

    >>> did_you_mean("prise", ["price", "name"])
    "; did you mean 'price'?"
    """
    meant = suggest.did_you_mean(name, known)
    return f"; {meant}" if meant else ""
