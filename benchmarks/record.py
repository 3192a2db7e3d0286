"""`Record`: one number that a benchmark has measured, with its case.

A benchmark returns records only. Tables, charts and the JSON file are made from them, so that
they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

Case = Mapping[str, int | str]
"""The circumstances of a measurement, by name."""
EXPONENT = "exponent"
"""The unit of growth exponents, the only numbers that may be negative."""


@dataclass(frozen=True, slots=True)
class Record:
    """The `value` of a `measure` in one case; None if it could not be measured, with a `note`."""

    benchmark: str
    measure: str
    value: int | float | None
    unit: str
    case: Case = field(default_factory=dict)
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the record as plain JSON values; integers beyond 2^53 as text."""
        plain = asdict(self)
        if isinstance(self.value, int) and abs(self.value) >= 2**53:
            plain["value"] = str(self.value)
        return plain


def select(records: Iterable[Record], measure: str) -> list[Record]:
    """Return the records of a measure."""
    return [record for record in records if record.measure == measure]


def find(records: Iterable[Record], measure: str, **case: int | str) -> int | float | None:
    """Return the value of a measure in a case; None if it was not measured.

    >>> find([Record("b", "rate", 7.0, "events/s", {"n": 3})], "rate", n=3)
    7.0
    """
    record = find_record(records, measure, **case)
    return None if record is None else record.value


def find_record(records: Iterable[Record], measure: str, **case: int | str) -> Record | None:
    """Return the first record of a measure in a case."""
    found = (r for r in select(records, measure) if case.items() <= r.case.items())
    return next(found, None)


def divide(numerator: float | None, denominator: float | None) -> float | None:
    """Return a quotient; None if a side is missing or the divisor is zero."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator
