"""The events that contestants are asked about: one shape for each family of public data sets.

Every event has a row, a time in milliseconds, a type, a key and a price. Rows are the order in
which events come; no two have the same time, so that no answer depends on how ties are broken.
Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from string import ascii_uppercase

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.spaseq.queries import WORKLOADS

SEED = 7
TYPES = ["A", "B", "C", *(f"T{number}" for number in range(17))]
LATENESS = 1000
"""Milliseconds by which an event of `late` may come after its time."""
GRAPHS_FOR_ROWS = 100
"""How many rows of the other streams weigh as much as one RDF graph."""

MakeEvents = Callable[[int], pa.Table]
Numbers = npt.NDArray[np.int64]


def _make_table(
    kinds: Numbers, names: list[str], ts: Numbers, key: Numbers, price: Numbers
) -> pa.Table:
    return pa.table(
        {
            "row": np.arange(len(ts)),
            "ts": ts,
            "type": np.array(names)[kinds],
            "key": key,
            "price": price,
        }
    )


def make_uniform(rows: int) -> pa.Table:
    """Return twenty types, 500 keys, a millisecond apart, as the trades of 500 symbols."""
    chance = np.random.default_rng(SEED)
    kinds = chance.integers(0, len(TYPES), rows)
    keys = chance.integers(0, 500, rows)
    return _make_table(kinds, TYPES, np.arange(rows), keys, chance.integers(0, 1000, rows))


def make_late(rows: int) -> pa.Table:
    """Return the uniform events, of which 30% come up to a second after their time."""
    events = make_uniform(rows)
    chance = np.random.default_rng(SEED + 1)
    delays = np.where(chance.random(rows) < 0.3, chance.integers(1, LATENESS, rows), 0)
    late = events.take(np.argsort(np.arange(rows) + delays, kind="stable"))
    return late.set_column(0, "row", [np.arange(rows)])


def make_steps(length: int, window: int, rows: int) -> pa.Table:
    """Return events of `length` types, four of each in a window on average, among others.

    The workload of CORE's sequences: longer windows have sparser types, so that all of them have
    about as many matches. A whole sequence is planted in every twentieth window.
    """
    chance = np.random.default_rng(SEED)
    share = min(4 / window, 0.96 / length)
    kinds = np.minimum((chance.random(rows) / share).astype(np.int64), length)
    for begin in range(0, rows - window, 20 * window):
        kinds[begin + (window // (length + 1)) * np.arange(1, length + 1)] = np.arange(length)
    names = [*ascii_uppercase[:length], "Z"]
    zeros = np.zeros(rows, dtype=np.int64)
    return _make_table(kinds, names, np.arange(rows), zeros, zeros)


def make_ticks(rows: int) -> pa.Table:
    """Return prices that move at random, of a hundred symbols."""
    chance = np.random.default_rng(SEED)
    ts = 2 * np.arange(rows) + np.cumsum(chance.integers(0, 2, rows))
    kinds = np.zeros(rows, dtype=np.int64)
    prices = 1000 + chance.integers(-9, 10, rows)
    return _make_table(kinds, ["A"], ts, chance.integers(0, 100, rows), prices)


def make_clicks(keys: int, rows: int) -> pa.Table:
    """Return views (A), carts (B) and purchases (C); some users have most of them (Zipf, 1.1)."""
    chance = np.random.default_rng(SEED)
    weights = 1 / np.arange(1, keys + 1) ** 1.1
    users = chance.choice(keys, rows, p=weights / weights.sum())
    kinds = chance.choice(3, rows, p=(0.88, 0.09, 0.03))
    ts = np.cumsum(chance.integers(1, 200, rows))
    return _make_table(kinds, ["A", "B", "C"], ts, users, chance.integers(0, 1000, rows))


def make_graphs(rows: int) -> pa.Table:
    """Return the RDF streams of a market as N-Quads, a row for each stream."""
    streams = WORKLOADS["market"].streams(max(rows // GRAPHS_FOR_ROWS, 60))
    return pa.table(
        {"stream": [*streams], "text": pa.array([*streams.values()], pa.large_binary())}
    )


STREAMS: dict[str, MakeEvents] = {
    "uniform": make_uniform,
    "late": make_late,
    "ticks": make_ticks,
    "clicks": partial(make_clicks, 500),
    "skewed": partial(make_clicks, 100_000),
    "graphs": make_graphs,
    **{
        f"steps {length} {window}": partial(make_steps, length, window)
        for length, window in ((3, 100), (3, 1000), (3, 10_000), (6, 1000), (12, 1000), (24, 1000))
    },
}
