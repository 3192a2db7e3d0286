"""`Record`: one number that a benchmark has measured, with its case.

A benchmark returns records only. Tables, charts and the JSON file are made from them, so that
they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Record:
    """The `value` of a `measure` in one case; None if it could not be measured, with a `note`."""

    benchmark: str
    measure: str
    value: int | float | None
    unit: str
    case: Mapping[str, int | str] = field(default_factory=dict)
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the record as plain JSON values; integers beyond 2^53 as text."""
        plain = asdict(self)
        if isinstance(self.value, int) and abs(self.value) >= 2**53:
            plain["value"] = str(self.value)
        plain["case"] = dict(self.case)
        return plain


@dataclass(frozen=True, slots=True)
class Table:
    """A table for the terminal and for the page: text cells, one note below."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def select(records: Iterable[Record], measure: str) -> list[Record]:
    """Return the records of a measure."""
    return [record for record in records if record.measure == measure]


def find(records: Iterable[Record], measure: str, **case: int | str) -> int | float | None:
    """Return the value of a measure in a case; None if it was not measured.

    >>> find([Record("b", "rate", 7.0, "events/s", {"n": 3})], "rate", n=3)
    7.0
    """
    for record in records:
        if record.measure == measure and all(record.case.get(k) == v for k, v in case.items()):
            return record.value
    return None


def format_number(value: int | float | None, digits: int = 3) -> str:
    """Return a number for a table: `1.23 M`, `4.1e12`, `–` for None.

    >>> [format_number(value) for value in (28_100_000, 0.5, None, 2**60, 12, 2**4000)]
    ['28.1 M', '0.5', '–', '1.15e+18', '12', '1.31e+1204']
    """
    if value is None:
        return "–"
    if isinstance(value, int) and abs(value) >= 2**1000:
        exponent = len(str(abs(value))) - 1
        return f"{value // 10 ** (exponent - 2) / 100:.2f}e+{exponent}"
    if abs(value) >= 1e12:
        return f"{float(value):.{digits}g}"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value:.{digits}g}"


def format_fixed(value: float | None) -> str:
    """Return a number with two decimals for a table; `–` for None."""
    return "–" if value is None else f"{value:.2f}"


def divide(numerator: float | None, denominator: float | None) -> float | None:
    """Return a quotient; None if a side is missing or the divisor is zero."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator
