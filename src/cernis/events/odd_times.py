"""Times in January 1970 or beyond 2200, which are plain dates in another unit.

Small numbers stay silent: streams whose clock counts from 0 are common. A warning needs one unit,
and only one, in which all times lie between 1990 and 2200.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cernis.errors import Diagnostic
from cernis.events.batch import EventBatch
from cernis.events.column_types import is_number, value_type
from cernis.events.source import Source
from cernis.events.times import UNITS

CODE = "odd-times"

_SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _nanoseconds(year: int, month: int = 1) -> int:
    return int((datetime(year, month, 1, tzinfo=UTC) - _EPOCH).total_seconds()) * _SECOND


_FEBRUARY_1970, _FROM, _TO = _nanoseconds(1970, 2), _nanoseconds(1990), _nanoseconds(2200)


class TimeSpan(NamedTuple):
    """The first and the last time of a stream, in nanoseconds."""

    first: int
    last: int


def find_odd_times(
    span: TimeSpan, unit_ns: int, column: str, *, typed: bool = False
) -> Diagnostic | None:
    """Return a warning if the times of a column are probably in another unit.

    `column` says where the times are; `unit_ns` is the unit that its numbers were taken for.
    `typed` columns hold timestamps already.

    >>> read_as_ms = TimeSpan(1_700_000_000 * 10**6, 1_700_003_600 * 10**6)
    >>> find_odd_times(read_as_ms, 10**6, "'ts'").message
    "the times lie in January 1970, if 'ts' counts milliseconds"
    """
    if span.first >= _TO:
        where = "beyond the year 2200"
    elif span.first >= 0 and span.last < _FEBRUARY_1970:
        where = "in January 1970"
    else:
        return None
    first, last = span.first // unit_ns, span.last // unit_ns
    units = [name for name, size in UNITS.items() if _FROM <= first * size <= last * size < _TO]
    if len(units) != 1:
        return None
    (unit,) = units
    day = (_EPOCH + timedelta(seconds=first * UNITS[unit] // _SECOND)).date()
    read = next((name for name, size in UNITS.items() if size == unit_ns), "")
    if typed:
        return Diagnostic(
            f"the timestamps in {column} lie {where}",
            suggestion=f"their numbers are {_NAMES[unit]} that begin on {day}: convert them so, as "
            f'in pandas.to_datetime(…, unit="{unit}")',
            code=CODE,
        )
    return Diagnostic(
        f"the times lie {where}, if {column} counts {_NAMES.get(read, 'them')}",
        suggestion=f"in {_NAMES[unit]} they begin on {day}: write --time-unit {unit}, in Python "
        f'time_unit="{unit}"',
        code=CODE,
    )


def extend_span(span: TimeSpan | None, batch: EventBatch, unit_ns: int | None) -> TimeSpan | None:
    """Return the span of the times so far and of a batch, whose ticks have `unit_ns`."""
    if batch.time is None or unit_ns is None or not len(batch):
        return span
    first, last = int(batch.time[0]) * unit_ns, int(batch.time[-1]) * unit_ns
    return TimeSpan(first if span is None else span.first, last)


def unite_spans(spans: Iterable[TimeSpan]) -> TimeSpan:
    """Return the span of all times.

    >>> unite_spans([TimeSpan(3, 5), TimeSpan(1, 4)])
    TimeSpan(first=1, last=5)
    """
    firsts, lasts = zip(*spans, strict=True)
    return TimeSpan(min(firsts), max(lasts))


def check_times(sources: Sequence[Source], span: TimeSpan) -> Iterator[Diagnostic]:
    """Yield a warning if the times of a run are probably in another unit."""
    timed = [source for source in sources if source.timed_by is not None]
    if len({source.unit for source in timed}) != 1:
        return
    source = timed[0]
    assert source.timed_by is not None
    typed = not is_number(value_type(source.columns.field(source.timed_by).type))
    if typed and source.is_text:
        return  # dates in a text are what they say
    odd = find_odd_times(span, source.unit, repr(source.timed_by), typed=typed)
    if odd is not None:
        yield odd
