"""Matches as arrays of positions and labels, and their marks per variable.

Every runtime lists its matches in this form, block by block.

Cost contract: linear in the marks, with no Python object per match.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.compiled.tiers import call_briefly


class Listing(NamedTuple):
    """Matches as arrays: the root of each, its start position, and its marks by `offset`.

    The marks of a match run from its last event to its first.
    """

    root: NDArray[np.int64]
    start: NDArray[np.int64]
    offset: NDArray[np.int64]
    position: NDArray[np.int64]
    label: NDArray[np.int32]


def empty_listing(matches: int, marks: int) -> Listing:
    """Make buffers for so many matches and marks."""
    return Listing(
        np.empty(matches, np.int64),
        np.empty(matches, np.int64),
        np.empty(matches + 1, np.int64),
        np.empty(marks, np.int64),
        np.empty(marks, np.int32),
    )


def trim_listing(listing: Listing, matches: int, marks: int) -> Listing:
    """Return the part of the buffers that is in use."""
    return Listing(
        listing.root[:matches],
        listing.start[:matches],
        listing.offset[: matches + 1],
        listing.position[:marks],
        listing.label[:marks],
    )


@kernel
def split_marks(offset, position, label, first, members, offsets, totals, flat):
    """Write the marks per variable and match, first event first, in one pass over the marks.

    `members[first[l]:first[l + 1]]` are the variables of label set l. If `flat` is empty,
    the kernel only counts: `totals` become the marks of each variable. Otherwise `totals`
    are the indices in `flat` where the marks of each variable begin.
    """
    counting = len(flat) == 0
    last = np.empty(len(totals), np.int64)
    for m in range(len(offset) - 1):
        last[:] = -1
        for k in range(offset[m + 1] - 1, offset[m] - 1, -1):
            for j in range(first[label[k]], first[label[k] + 1]):
                variable = members[j]
                if last[variable] == position[k]:
                    continue  # an event that several parts of a match mark counts once
                last[variable] = position[k]
                if not counting:
                    flat[totals[variable]] = position[k]
                totals[variable] += 1
        if counting:
            for variable in range(len(totals)):
                offsets[variable, m + 1] = totals[variable]


def _split_alike(
    listing: Listing, labels: list[frozenset[str]], variables: tuple[str, ...]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[NDArray[np.int64], ...]] | None:
    """Return what `split_by_variable` does, by columns, if all matches mark alike; None: if not.

    A sequence has as many events in each match, and their labels are the same.
    """
    matches = len(listing.offset) - 1
    width = int(listing.offset[-1]) // matches if matches else 0
    number = np.arange(matches + 1)
    if not width or not np.array_equal(listing.offset, width * number):
        return None
    label = listing.label
    if not np.array_equal(label[width:], label[:-width]):
        return None
    position = listing.position.reshape(matches, width)[:, ::-1]
    marked = [labels[each] for each in label[width - 1 :: -1]]
    columns = [[i for i, names in enumerate(marked) if name in names] for name in variables]
    for own in columns:
        if any((position[:, i] == position[:, j]).any() for i, j in pairwise(own)):
            return None  # an event that several parts of a match mark counts once
    flat = tuple(position.T[own].T.reshape(-1) for own in columns)
    return tuple(number if len(own) == 1 else len(own) * number for own in columns), flat


def split_by_variable(
    listing: Listing, labels: list[frozenset[str]], variables: tuple[str, ...]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[NDArray[np.int64], ...]]:
    """Return (offsets, positions) per variable, as list arrays have them."""
    alike = _split_alike(listing, labels, variables)
    if alike is not None:
        return alike
    numbers = [[v for v, name in enumerate(variables) if name in names] for names in labels]
    first = np.cumsum([0, *map(len, numbers)], dtype=np.int64)
    members = np.array([v for vs in numbers for v in vs], np.int64)
    offsets = np.zeros((len(variables), len(listing.offset)), np.int64)
    totals = np.zeros(len(variables), np.int64)
    marks = listing.offset, listing.position, listing.label, first, members, offsets
    work = len(listing.position) + len(listing.offset)
    call_briefly(split_marks, work, *marks, totals, np.empty(0, np.int64))
    ends = np.cumsum(totals)
    flat = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    if len(flat):
        call_briefly(split_marks, work, *marks, ends - totals, flat)
    begins = ends - totals
    return tuple(offsets), tuple(flat[b:e] for b, e in zip(begins, ends, strict=True))
