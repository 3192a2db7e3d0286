"""A stock market as RDF, for the paper's Queries 3 and 4: prices of many companies.

    S1  ?company pred:price 101.25 ; pred:volume 300 .

Every minute each company's price is quoted once, all at the same time, so that the next
timestamp holds the next price of every company. Prices are random walks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cernis.generators import nquads

NS: Final = "http://example/"
STREAMS: Final = {"S1": "http://stockmarket.org/stocks"}

_TICK: Final = 60_000  # milliseconds
_STEP: Final = 60.0  # cents, standard deviation of one move
_LOWEST: Final = 100  # cents


def make_streams(events: int, seed: int = 0, companies: int = 20) -> dict[str, bytes]:
    """Make prices and volumes of companies as N-Quads, by the name of the stream."""
    nquads.check_count(events, "events")
    if companies < 1:
        raise ValueError(f"a market needs at least one company, not {companies}")
    rng = np.random.default_rng(seed)
    ticks = -(-events // companies)
    moves = np.rint(rng.normal(0.0, _STEP, (ticks, companies))).astype(np.int64)
    walk = rng.integers(5_000, 30_000, companies) + np.cumsum(moves, axis=0)
    cents = (_LOWEST + np.abs(walk - _LOWEST)).ravel()[:events]
    company = nquads.write_iris("http://stockmarket.org/company/", np.arange(events) % companies)
    triples = [
        (company, f"<{NS}price>", nquads.write_hundredths(cents)),
        (company, f"<{NS}volume>", nquads.write_integers(rng.integers(1, 100, events) * 10)),
    ]
    times = nquads.OPENING + np.arange(events) // companies * _TICK
    return {name: nquads.write_stream(iri, times, triples) for name, iri in STREAMS.items()}


if __name__ == "__main__":
    nquads.main("market", make_streams, None, None)
