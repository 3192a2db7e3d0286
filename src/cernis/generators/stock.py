"""A stock market stream: who sells or buys what, at which price, when.

Everything is drawn with one seeded generator and vectorized, so that a stream of ten
million events takes a few seconds, and the same seed gives the same stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.generators.nquads import OPENING

SYMBOLS: Final = (
    "MSFT", "INTL", "AMZN", "AAPL", "GOOG", "NVDA", "ORCL", "CSCO", "QCOM", "IPIX",
    "DELL", "IBMC", "ADBE", "NFLX", "TSLA", "META", "AMDX", "SAPG", "HPQX", "TXNI",
)  # fmt: skip
TYPES: Final = ("SELL", "BUY")

_MEAN_GAP: Final = 50.0  # milliseconds
_STEP: Final = 0.15  # standard deviation of one move of a price
_LOWEST: Final = 1.0


def stock_stream(n: int, seed: int = 0, symbols: int = 20, dictionary: bool = False) -> pa.Table:
    """Make `n` events with type, name, price, volume and ts, in order of ts.

    Each symbol's price is a random walk in cents that never falls below 1; `ts` rises
    by some 50 milliseconds an event, sometimes by none. With `dictionary`, type and
    name are dictionary-encoded.

    >>> stock_stream(3, seed=1).schema.names
    ['type', 'name', 'price', 'volume', 'ts']
    >>> stock_stream(1000, seed=1).equals(stock_stream(1000, seed=1))
    True
    """
    if n < 0:
        raise ValueError(f"a stream cannot have {n} events")
    names = name_symbols(symbols)
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, len(TYPES), n, dtype=np.int8)
    name = rng.integers(0, symbols, n, dtype=np.int32)
    gaps = rng.standard_exponential(n, dtype=np.float32) * np.float32(_MEAN_GAP)
    ts = OPENING + np.cumsum(gaps.astype(np.int64))
    columns = {
        "type": _encode_words(kind, TYPES, dictionary=dictionary),
        "name": _encode_words(name, names, dictionary=dictionary),
        "price": pa.array(_make_prices(name, symbols, rng)),
        "volume": pa.array(rng.integers(1, 100, n, dtype=np.int64) * 10),
        "ts": pa.array(ts).cast(pa.timestamp("ms")),
    }
    return pa.table(columns)


def name_symbols(symbols: int) -> list[str]:
    """Return that many names: the well-known ones, then numbered ones.

    >>> name_symbols(22)[18:]
    ['HPQX', 'TXNI', 'S0020', 'S0021']
    """
    if symbols < 1:
        raise ValueError(f"a market needs at least one symbol, not {symbols}")
    return [*SYMBOLS[:symbols], *(f"S{i:04d}" for i in range(len(SYMBOLS), symbols))]


def _encode_words(
    codes: NDArray[np.integer], words: Sequence[str], *, dictionary: bool
) -> pa.Array:
    encoded = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words, pa.string()))
    return encoded if dictionary else encoded.dictionary_decode()


def _make_prices(
    name: NDArray[np.int32], symbols: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Make a random walk for each symbol, advanced by that symbol's events, in cents.

    The events are grouped by symbol, so that one running sum serves all walks; a walk
    that would fall below the lowest price is reflected at it.
    """
    n = len(name)
    order = np.argsort(name, kind="stable")
    walk = np.cumsum(rng.standard_normal(n, dtype=np.float32) * np.float32(_STEP), dtype=np.float64)
    sizes = np.bincount(name, minlength=symbols)
    first = np.cumsum(sizes) - sizes
    before = np.where(first > 0, walk[np.minimum(first, n) - 1] if n else 0.0, 0.0)
    opening = rng.uniform(20.0, 300.0, symbols)
    prices = np.empty(n)
    prices[order] = walk + np.repeat(opening - before, sizes)
    return np.round(_LOWEST + np.abs(prices - _LOWEST), 2)
