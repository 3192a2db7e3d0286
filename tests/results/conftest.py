"""A small stream and a store for it, by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cernis.pattern.formula import As, Event
from cernis.pattern.formula import Sequence as Then
from cernis.pattern.query import Pattern, Select
from cernis.results.matches import Matches
from cernis.results.matchset import ListedMatches

FORMULA = Then((As(Event("BUY"), "b"), As(Event("SELL"), "s")))


class TableEvents:
    """The events of one table; `order` gives the row at each position."""

    def __init__(self, table: pa.Table, time: str | None, order: Sequence[int] | None) -> None:
        self.table = table.combine_chunks()
        self.time = time
        self.order = np.arange(len(table)) if order is None else np.array(order, np.int64)

    def rows(self, positions: np.ndarray) -> np.ndarray:
        return self.order[positions]

    def times(self, positions: np.ndarray) -> pa.Array:
        if self.time is None:
            return pa.array(self.rows(positions), pa.int64())
        return self.column(positions, self.time)

    def structs(self, positions: np.ndarray, attributes: Sequence[str] | None = None) -> Any:
        names = list(attributes or self.table.schema.names)
        return pa.StructArray.from_arrays([self.column(positions, n) for n in names], names)

    def column(self, positions: np.ndarray, attribute: str) -> pa.Array:
        if attribute not in self.table.schema.names:
            return pa.nulls(len(positions))
        return self.table[attribute].combine_chunks().take(pa.array(self.rows(positions)))


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
        events = TableEvents(stream() if table is None else table, time, order)
        listed = ListedMatches.of(variables, rows)
        return Matches(found or listed, events, pattern, notes=notes)

    return matches
