"""Ticks of an axis: round numbers or round times, and how people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil, floor, log10
from typing import NamedTuple

_SECOND, _MINUTE, _HOUR, _DAY = 1000.0, 60_000.0, 3_600_000.0, 86_400_000.0
_STEPS = (
    *(_SECOND * n for n in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30, 90, 180, 365)),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tick(NamedTuple):
    """A value on the axis and its text."""

    at: float
    text: str


def list_ticks(start: float, stop: float, unit: str, most: int = 6) -> list[Tick]:
    """Return at most about so many ticks between two values of an axis.

    >>> [tick.text for tick in list_ticks(0, 100, "number", 5)]
    ['0', '20', '40', '60', '80', '100']
    >>> [tick.text for tick in list_ticks(0, 180_000, "ms", 4)]
    ['00:00', '00:01', '00:02', '00:03']
    """
    if not start < stop:
        return [Tick(start, write_tick(start, unit))]
    step = _choose_step((stop - start) / max(1, most), unit)
    if step <= 0 or start + step == start:
        return [Tick(start, write_tick(start, unit))]
    first = ceil(start / step - 1e-9)
    last = min(floor(stop / step + 1e-9), first + 4 * most)
    return [Tick(n * step, write_tick(n * step, unit, step)) for n in range(first, last + 1)]


def _choose_step(least: float, unit: str) -> float:
    if unit == "ms":
        for step in _STEPS:
            if step >= least and least > _SECOND / 2:
                return step
    power = 10.0 ** floor(log10(least))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= least * (1 - 1e-9))
    return max(step, 1.0) if unit == "row" else step


def write_tick(at: float, unit: str, step: float | None = None) -> str:
    """Return a value on an axis as text; a time has the digits that a step needs, or all of them.

    >>> write_tick(1_000, "ms"), write_tick(7.0, "row"), write_tick(0.25, "number")
    ('1970-01-01 00:00:01', '7', '0.25')
    """
    if unit != "ms":
        return f"{at:.12g}"
    try:
        time = _EPOCH + timedelta(milliseconds=at)
    except OverflowError:
        return f"{at:.12g}"
    fraction = f".{time.microsecond:06d}".rstrip("0").rstrip(".")
    if step is None:
        return f"{time:%Y-%m-%d %H:%M:%S}{fraction}"
    if step >= _DAY:
        return f"{time:%b %d}" if step < 300 * _DAY else f"{time:%Y}"
    if step >= _MINUTE:
        return f"{time:%H:%M}"
    return f"{time:%H:%M:%S}{fraction if step < _SECOND else ''}"
