"""`MatchNumbers`: how many matches there are, in all, per day and per key, without listing them.

Everything is derived from the numbers per end, which compact sets give exactly. Linear in the ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import CernisError
from cernis.pattern.query import Consume, Pattern, Strategy
from cernis.results.formats.columns import MatchFields, partition_columns
from cernis.results.matches import Matches

_MOST = 2**1000


def keeps_every_match(pattern: Pattern) -> bool:
    """Whether a match is one whatever other matches there are, and keeps all its variables."""
    return (
        pattern.select.everything
        and pattern.strategy is Strategy.ALL
        and pattern.consume is Consume.NONE
        and pattern.suppress is None
        and pattern.order is None
        and pattern.limit is None
        and pattern.grouping is None
    )


@dataclass(frozen=True)
class MatchNumbers:
    """Numbers of matches; `days` is None where events have no dates, `keys` without a partition."""

    total: int
    days: dict[str, int] | None = None
    keys: dict[tuple[Any, ...], int] | None = None
    span: int | None = None
    """How many days lie from the first event to the last."""

    @property
    def per_day(self) -> float | None:
        """The matches per day of the events: beyond a float, the whole ones."""
        if not self.span:
            return None
        return self.total / self.span if self.total < _MOST else self.total // self.span


@dataclass(frozen=True)
class EndGroups:
    """The days and keys of ends, each end by its index; they are read once for many tallies."""

    days: Sequence[str] | None
    day_of: NDArray[np.int64] | None
    keys: Sequence[tuple[Any, ...]] | None
    key_of: NDArray[np.int64] | None
    components: tuple[str, ...] = ()
    span: int | None = None

    def tally(self, numbers: Sequence[int] | NDArray[np.int64]) -> MatchNumbers:
        """Return the numbers of matches of all ends, by day and key; days and keys without: no."""
        is_array = isinstance(numbers, np.ndarray) and numbers.dtype != object
        is_array = is_array and bool(np.sum(numbers, dtype=np.float64) < 2**62)
        total = int(np.sum(numbers)) if is_array else sum(map(int, numbers))
        days = keys = None
        if self.days is not None and self.day_of is not None:
            days = _add_up(self.days, self.day_of, numbers, total)
        if self.keys is not None and self.key_of is not None:
            keys = _add_up(self.keys, self.key_of, numbers, total)
        return MatchNumbers(total, days, keys, self.span)


def _add_up(
    names: Sequence[Any], which: NDArray[np.int64], numbers: Iterable[int], total: int
) -> dict[Any, int]:
    if total < 2**53:
        sums = np.bincount(which, np.asarray(numbers, np.float64), len(names)).astype(np.int64)
        return {name: int(n) for name, n in zip(names, sums, strict=True) if n}
    large = [0] * len(names)
    for at, number in zip(which.tolist(), numbers, strict=True):
        large[at] += int(number)
    return {name: n for name, n in zip(names, large, strict=True) if n}


def group_ends(
    matches: Matches, ends: NDArray[np.int64], fields: MatchFields | None = None
) -> EndGroups:
    """Return the days and the keys of some ends; `fields` may have another PARTITION BY."""
    fields = matches.fields if fields is None else fields
    times = matches.store.times(ends)
    days = day_of = keys = key_of = span = None
    if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type):
        encoded = pc.dictionary_encode(pc.strftime(times, format="%Y-%m-%d"))
        days, day_of = _split(encoded)
        events = matches.store.span
        if len(events):
            edges = np.array([events.start, events.stop - 1])
            dates = matches.store.times(edges).cast(pa.date32()).to_pylist()
            span = (dates[1] - dates[0]).days + 1
    components = tuple(fields.keys)
    if components:
        several = partition_columns(ends, fields, matches.store)
        columns = [pc.dictionary_encode(_flat(column)) for column in several]
        codes = np.zeros(len(ends), np.int64)
        for column in columns:
            own = np.asarray(pc.fill_null(column.indices, -1), np.int64) + 1
            codes = codes * (len(column.dictionary) + 1) + own
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        values = [column.take(pa.array(first)).to_pylist() for column in columns]
        keys, key_of = list(zip(*values, strict=True)), np.asarray(which, np.int64)
    return EndGroups(days, day_of, keys, key_of, components, span)


def _flat(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _split(encoded: pa.DictionaryArray) -> tuple[list[str], NDArray[np.int64]]:
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)


def tally(matches: Any) -> MatchNumbers:
    """Return the numbers of matches of a result; of groups and answers, how many rows there are."""
    if not isinstance(matches, Matches):
        return MatchNumbers(len(matches))
    ends, numbers = matches.match_set.counts()
    return group_ends(matches, ends).tally(numbers)


def need_matches(found: Any, what: str) -> Matches:
    """Return a result if it is one of matches; raise an error for groups and answers."""
    if not isinstance(found, Matches):
        kind = "groups" if type(found).__name__ == "Groups" else "answers"
        raise CernisError(f"{what} needs matches; this query gives {kind}")
    return found
