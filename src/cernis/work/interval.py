"""Parse intervals as people write them: `30 seconds`, `5 min`, `1h`."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from cernis.errors import CernisError

_UNITS = {
    1: ("ms", "millisecond"),
    1000: ("s", "sec", "second"),
    60_000: ("m", "min", "minute"),
    3_600_000: ("h", "hour"),
    86_400_000: ("d", "day"),
}
_FACTORS = {name: factor for factor, names in _UNITS.items() for name in names}
_FACTORS |= {f"{name}s": factor for name, factor in _FACTORS.items() if len(name) > 2}
_INTERVAL = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)", re.IGNORECASE)
_MOST = 36_500 * _FACTORS["day"]


def parse_milliseconds(option: str, interval: str | timedelta) -> int:
    """Return the value of an option in milliseconds, rounded up.

    >>> parse_milliseconds("lateness", "30s"), parse_milliseconds("lateness", "1.5 minutes")
    (30000, 90000)
    """
    if isinstance(interval, timedelta):
        amount = interval / timedelta(milliseconds=1)
    else:
        amount = _amount(interval.strip().lower())
    if not amount >= 0:
        raise CernisError(f"{option} {interval}: expected a time like '30s', '5 min' or '1 hour'")
    if amount > _MOST:
        raise CernisError(f"{option} {interval}: that is more than a hundred years")
    return math.ceil(round(amount, 6))


def _amount(text: str) -> float:
    """Return milliseconds; NaN if the text is no interval."""
    found = _INTERVAL.fullmatch(text)
    if found is None or found[2] not in _FACTORS:
        return 0.0 if text == "0" else math.nan
    return float(found[1]) * _FACTORS[found[2]]
