"""`CsvForm`: the delimiter, the quote and the columns of CSV, given or guessed.

A guess looks at the first records alone. A delimiter fits if it cuts all of them into as many
values as the first, more than one; of those that fit, the one with the most values is taken, and
the comma where none fits. Apostrophes are quotes only if all text of the first line stands in them:
elsewhere they are common inside of text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from cernis.errors import DataError

Columns = Sequence[str] | Mapping[str, Sequence[str]]
"""The columns of files without a header: of all streams, or by stream."""

_DELIMITERS = (",", ";", "\t", "|")
_RECORDS = 10
_NUMBER = re.compile(r"[-+]?[0-9.]*")
_QUOTED = re.compile(r"'[^'\"]*'")
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvForm:
    """How CSV is written; None is guessed."""

    columns: tuple[str, ...] | None = None
    """The columns, if the first line is no header."""
    delimiter: str | None = None
    quote: str | None = None
    """The sign around a value; "" if values are not quoted."""

    @property
    def is_given(self) -> bool:
        """Whether anything about the form was said."""
        return self != GUESSED


GUESSED = CsvForm()
"""A form of which nothing was said."""


def make_form(columns: Sequence[str] | None, delimiter: str | None, quote: str | None) -> CsvForm:
    """Return the form that a user asks for.

    >>> make_form(["type", "ts"], "tab", None)
    CsvForm(columns=('type', 'ts'), delimiter='\\t', quote=None)
    """
    if columns is None and delimiter is None and quote is None:
        return GUESSED
    if isinstance(columns, str):
        raise DataError(f"columns={columns!r}: expected a list of names")
    if columns is not None and not columns:
        raise DataError("columns: expected at least one name")
    delimiter = _WORDS.get(delimiter or "", delimiter)
    quote = "" if quote == "none" else quote
    for option, sign, least in (("delimiter", delimiter, 1), ("quote", quote, 0)):
        if sign is not None and not (
            least <= len(sign) <= 1 and sign.isascii() and sign not in ("\n", "\r")
        ):
            raise DataError(f"{option}={sign!r}: expected one ASCII sign")
    if delimiter is not None and delimiter == quote:
        raise DataError(f"delimiter={delimiter!r}: is the quote as well")
    return CsvForm(
        columns=None if columns is None else tuple(columns), delimiter=delimiter, quote=quote
    )


def columns_of(columns: Columns | None, stream: str) -> Sequence[str] | None:
    """Return the columns that are given for a stream."""
    if isinstance(columns, Mapping):
        return columns.get(stream, columns.get("*"))
    return columns


def guess_form(first: str, form: CsvForm) -> CsvForm:
    """Return the form with a delimiter and a quote, for a file that begins so.

    >>> guess_form("type;price\\nSELL;3,5\\nBUY;4,0\\n", CsvForm()).delimiter
    ';'
    """
    lines = first.splitlines(keepends=True)
    if len(lines) > 1 and not first.endswith(("\n", "\r")):
        lines.pop()  # the rest of the line is not here
    quote = _guess_quote(lines) if form.quote is None else form.quote
    delimiter = form.delimiter or _guess_delimiter(lines, quote, form.columns)
    return replace(form, delimiter=delimiter, quote=quote)


def _guess_quote(lines: Sequence[str]) -> str:
    """Return the apostrophe if all text of the first line stands in such, or quotation marks."""
    first = next((line.strip() for line in lines if line.strip()), "")
    for delimiter in _DELIMITERS:
        values = [value.strip() for value in first.split(delimiter)]
        text = [value for value in values if not _NUMBER.fullmatch(value)]
        if text and all(_QUOTED.fullmatch(value) for value in text):
            return "'"
    return '"'


def _guess_delimiter(lines: Sequence[str], quote: str, columns: tuple[str, ...] | None) -> str:
    best, most = ",", 1
    for delimiter in _DELIMITERS:
        sizes = [len(record) for record in read_records(lines, delimiter, quote, _RECORDS)]
        expected = len(columns) if columns is not None else sizes[0] if sizes else 0
        if expected > most and all(size == expected for size in sizes):
            best, most = delimiter, expected
    return best


def read_records(lines: Sequence[str], delimiter: str, quote: str, most: int) -> list[list[str]]:
    """Return the first records that are not blank, as far as they can be read."""
    found: list[list[str]] = []
    try:
        for record in islice((r for r in open_records(lines, delimiter, quote) if r), most):
            found.append(record)
    except csv.Error:
        pass
    return found


def open_records(lines: Iterable[str], delimiter: str, quote: str) -> Any:
    """Return Python's own reader of CSV, for messages and guesses."""
    if not quote:
        return csv.reader(iter(lines), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(iter(lines), delimiter=delimiter, quotechar=quote)
