"""A small stream and a store for it, by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cernis.events.batch import EventBatch
from cernis.events.store import EventStore
from cernis.pattern.formula import As, Event
from cernis.pattern.formula import Sequence as Then
from cernis.pattern.query import Pattern, Select
from cernis.results.matches import Matches
from cernis.results.sets.matchset import ListedMatches

FORMULA = Then((As(Event("BUY"), "b"), As(Event("SELL"), "s")))


def store_table(table: pa.Table, time: str | None, order: Sequence[int] | None) -> EventStore:
    """Store the events of one table; `order` gives the row at each position."""
    rows = np.arange(len(table)) if order is None else np.array(order, np.int64)
    store = EventStore()
    store.append(EventBatch(0, rows, None, (("S", table),), None, rows, "type", time))
    return store


def stream() -> pa.Table:
    """Ten events; one price and one name are missing."""
    price: list[float | None] = [float(10 + i) for i in range(10)]
    price[5] = None
    return pa.table(
        {
            "type": ["BUY", "SELL"] * 5,
            "name": ["MSFT", "INTL", None, 'A"B', "é<", "MSFT", "INTL", "MSFT", "INTL", "MSFT"],
            "venue": [None, None, "X", None, None, None, None, None, None, None],
            "price": price,
            "volume": pa.array(range(100, 110), pa.int64()),
            "ts": pa.array(range(0, 10_000, 1000), pa.timestamp("ms")),
        }
    )


Make = Callable[..., Matches]


@pytest.fixture
def make() -> Make:
    """Matches over the stream above, from (start, end, {variable: positions})."""

    def matches(
        rows: Sequence[tuple[int, int, dict[str, list[int]]]] = (),
        *,
        select: Select | None = None,
        variables: Sequence[str] = ("b", "s"),
        partition: tuple[tuple[str, ...], ...] = (),
        time: str | None = "ts",
        order: Sequence[int] | None = None,
        table: pa.Table | None = None,
        found: Any = None,
        notes: Sequence[str] = (),
    ) -> Matches:
        pattern = Pattern(FORMULA, select or Select(), partition=partition)
        events = store_table(stream() if table is None else table, time, order)
        listed = ListedMatches.of(variables, rows)
        return Matches(found or listed, events, pattern, notes=notes)

    return matches
