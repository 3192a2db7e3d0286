"""Integers as text, and back: of any length, and with the noun that they count.

Counts of matches have thousands of digits where iterations explode. `str` and `int` refuse more
than 4,300 of them, since their time is quadratic; the limit belongs to the whole process, and is
not a library's to change. `Decimal` has no limit, and takes little more than linear time.
"""

from __future__ import annotations

from decimal import Decimal
from math import inf

_SHORT = 4000
_FEW = 10**_SHORT
_EXACT_ABOUT = 10**24


def write_integer(number: int) -> str:
    """Return the digits of an integer.

    >>> write_integer(-7), len(write_integer(2**20_000))
    ('-7', 6021)
    """
    return str(number) if -_FEW < number < _FEW else format(Decimal(number), "f")


def read_integer(digits: str) -> int:
    """Return the integer that some digits write.

    >>> read_integer(write_integer(2**20_000)) == 2**20_000
    True
    """
    if len(digits) < _SHORT:
        return int(digits)
    if not (digits.isascii() and digits.removeprefix("-").isdecimal()):
        raise ValueError("an integer has digits alone")
    return int(Decimal(digits))


def to_nearest(number: float) -> float:
    """Return the nearest float of a number of any size.

    >>> to_nearest(2**53 + 1) == 2.0**53, to_nearest(-(2**20_000))
    (True, -inf)
    """
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def describe_integer(number: int, exact_below: int = _EXACT_ABOUT) -> str:
    """Return an integer as people read it: in groups of three digits, or its size.

    >>> describe_integer(1234567), describe_integer(2**20_000)
    ('1,234,567', 'about 10^6020')
    """
    if number < exact_below:
        return f"{number:,}"
    return f"about 10^{len(write_integer(number)) - 1}"


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count_noun(1, "match"), count_noun(2000, "match"), count_noun(0, "row")
    ('1 match', '2,000 matches', '0 rows')
    >>> count_noun(2, "query", "queries"), count_noun(1, "rule reads", "rules read")
    ('2 queries', '1 rule reads')
    """
    usual = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural or usual}"
