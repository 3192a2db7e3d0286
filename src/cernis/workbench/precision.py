"""How many matches are real: the share of a sample, with its confidence interval.

The interval is Wilson's. It has a closed form, stays inside 0 and 1, and covers the truth about as
often as it says for the tens of labels that a person gives. Clopper and Pearson's, turned down,
covers it more often than it says and asks for more labels for the same width; the normal interval
fails near 0 and 1, where good rules are. The sample is drawn without replacement, so its size
counts for more the larger a part of all matches it is (finite population).

Strata are weighted by their numbers of matches. The variance of a stratum is smoothed by half a
label of each kind, so that a stratum with one label is not taken for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt

Z = 1.959963984540054
"""Of 95 in 100."""
_ENDLESS = 10**15
"""A sample of so many matches is one of endless ones."""


@dataclass(frozen=True)
class Stratum:
    """The labels of a part of the matches."""

    real: int
    labelled: int
    size: int
    """How many matches it has."""


@dataclass(frozen=True)
class Share:
    """A share with its interval of 95 in 100."""

    value: float | None
    low: float
    high: float
    labelled: int
    size: int = 0
    """How many matches it is a share of; 0: of a share that has a value, not known."""

    @property
    def width(self) -> float:
        return self.high - self.low

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown: there are no {'labels' if self.size else 'matches'}"
        return f"{self.value:.1%} (between {self.low:.1%} and {self.high:.1%})"


def wilson(share: float, number: float) -> tuple[float, float]:
    """Return Wilson's interval of a share among so many.

    >>> [round(end, 3) for end in wilson(0.8, 10)]
    [0.49, 0.943]
    """
    if number == inf:
        return share, share
    centre = (share + Z * Z / (2 * number)) / (1 + Z * Z / number)
    spread = Z / (1 + Z * Z / number) * sqrt(share * (1 - share) / number + (Z / (2 * number)) ** 2)
    return max(0.0, centre - spread), min(1.0, centre + spread)


def estimate(strata: Sequence[Stratum]) -> Share:
    """Return the share of real matches, from the labels of each stratum."""
    known = [each for each in strata if each.labelled]
    total = sum(each.size for each in known)
    labelled = sum(each.labelled for each in known)
    if not known or not total:
        return Share(None, 0.0, 1.0, 0, sum(each.size for each in strata))
    share = sum(each.size / total * each.real / each.labelled for each in known)
    number = _count_effective(known, total)
    low, high = wilson(share, number)
    return Share(share, low, high, labelled, total)


def _count_effective(strata: Sequence[Stratum], total: int) -> float:
    """Return how many labels of a uniform sample of endless matches would say as much."""
    if len(strata) == 1:
        (only,) = strata
        left = only.size - only.labelled
        return inf if left <= 0 else only.labelled * max(only.size - 1, 1) / left
    variance, smoothed = 0.0, 0.0
    for each in strata:
        weight = each.size / total
        share = (each.real + 0.5) / (each.labelled + 1)
        unseen = max(each.size - each.labelled, 0) / max(each.size - 1, 1)
        variance += weight * weight * share * (1 - share) / each.labelled * unseen
        smoothed += weight * share
    return inf if variance <= 0 else smoothed * (1 - smoothed) / variance


def count_missing(share: Share, width: float) -> int:
    """Return about how many more labels bring the interval to a width.

    >>> share = estimate([Stratum(9, 10, 40)])
    >>> count_missing(share, 0.1), count_missing(Share(0.9, share.low, share.high, 10), 0.1)
    (22, 132)
    """
    if share.value is None and not share.size:
        return 0  # there are no matches
    if share.value is None:
        needed: float = Z * Z / width**2
    elif share.width <= width:
        return 0
    else:
        low, high = 1.0, 1e9
        while high - low > 0.5:
            middle = (low + high) / 2
            below, above = wilson(share.value, middle)
            low, high = (middle, high) if above - below > width else (low, middle)
        needed = high
    if 0 < share.size < _ENDLESS:  # of few matches, few are enough
        needed = needed * share.size / (needed + share.size - 1)
    return max(1, ceil(needed) - share.labelled)
