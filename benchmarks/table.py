"""Tables of records, as data: a row for each case of a measure, a column for each number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.record import EXPONENT, Case, Record, find_record, select

Columns = Mapping[str, str | Callable[[Case], int | float | str | None]]
"""By title: a name of the case, a measure, or a function of the case."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table for the terminal and for the page: text cells, one note below."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def format_number(value: int | float | str | None) -> str:
    """Return a number for a table: `1.23 M`, `4.1e12`, `–` for None; a text as it is.

    >>> [format_number(value) for value in (28_100_000, 0.5, None, 2**60, 12, 2**4000)]
    ['28.1 M', '0.5', '–', '1.15e+18', '12', '1.31e+1204']
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) >= 2**1000:
        exponent = len(str(abs(value))) - 1
        return f"{value // 10 ** (exponent - 2) / 100:.2f}e+{exponent}"
    if abs(value) >= 1e12:
        return f"{float(value):.3g}"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def format_record(record: Record | None) -> str:
    """Return a record's value in the form that suits its unit: bytes as MiB, exponents as 0.12."""
    value = None if record is None else record.value
    if record is None or value is None or record.unit not in ("B", EXPONENT):
        return format_number(value)
    return f"{value / 2**20:.0f}" if record.unit == "B" else f"{value:.2f}"


def tabulate(
    records: Sequence[Record],
    title: str,
    measure: str,
    columns: Columns,
    note: str = "",
) -> Table:
    """Return a table with a row for each case of a measure.

    >>> rates = [Record("b", "rate", 7.0, "events/s", {"keys": 3000})]
    >>> tabulate(rates, "Rates", "rate", {"keys": "keys", "events/s": "rate"}).rows
    (('3,000', '7'),)
    """

    def cell(source: str | Callable[[Case], Any], case: Case) -> str:
        if callable(source):
            return format_number(source(case))
        known = case.get(source)
        if known is None:
            return format_record(find_record(records, source, **case))
        return f"{known:,}" if isinstance(known, int) else known

    rows = [tuple(cell(one, r.case) for one in columns.values()) for r in select(records, measure)]
    return Table(title, tuple(columns), tuple(rows), note)


def tabulate_ratios(records: Iterable[Record]) -> Table:
    """Return a table of all records that are ratios."""
    rows = ((r.measure, format_number(r.value)) for r in records if r.unit == "×")
    return Table("Ratios", ("", "×"), tuple(rows))
