"""Card transactions, for the paper's Query 2: small sums right after a big one.

    S1  ?card pred:id ?id ; pred:amount 12.50 ; pred:loc "Lyon" .

Most transactions are of some card or other; now and then one card pays a large sum and, with
no other transaction in between, one or a few small ones. No two events share a timestamp.
The background graph knows who holds a card, and who has issued it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cernis.generators import nquads

NS: Final = "http://example/"
STREAMS: Final = {"S1": "http://creditcard.org/transactions"}
GRAPH: Final = "http://creditcard.org/db"

_CITIES: Final = ('"Paris"', '"Lyon"', '"Lille"', '"Nantes"', '"Nice"', '"Metz"')
_MEAN_GAP: Final = 4_000  # milliseconds
_SERIES: Final = 0.03  # share of single transactions that are a big one with small ones after it
_ABOUT_A_CARD: Final = 3  # triples


def make_streams(events: int, seed: int = 0, cards: int = 1000) -> dict[str, bytes]:
    """Make transactions of cards as N-Quads, by the name of the stream."""
    nquads.check_count(events, "events")
    rng = np.random.default_rng(seed)
    small = np.where(rng.random(events) < _SERIES, rng.integers(1, 5, events), 0)
    which = np.repeat(np.arange(events), 1 + small)[:events]
    first = np.diff(which, prepend=-1) > 0
    usual = (np.exp(rng.normal(3.5, 0.8, events)) * 100).astype(np.int64) + 100
    big, little = rng.integers(50_000, 300_000, events), rng.integers(100, 5_000, events)
    cents = np.where(small[which] == 0, usual, np.where(first, big, little))
    gaps = 1 + (rng.standard_exponential(events) * _MEAN_GAP).astype(np.int64)
    number = rng.integers(0, cards, events)[which]
    card = nquads.write_iris("http://creditcard.org/card/", number)
    triples = [
        (card, f"<{NS}id>", nquads.write_iris("http://creditcard.org/id/", number)),
        (card, f"<{NS}amount>", nquads.write_hundredths(cents)),
        (card, f"<{NS}loc>", nquads.choose_words(_CITIES, rng.integers(0, len(_CITIES), events))),
    ]
    times = nquads.OPENING + np.cumsum(gaps)
    return {name: nquads.write_stream(iri, times, triples) for name, iri in STREAMS.items()}


def make_background(triples: int, seed: int = 0) -> bytes:
    """Make a background graph of the cards as N-Quads: three triples a card."""
    nquads.check_count(triples, "triples")
    rng = np.random.default_rng(seed)
    cards = -(-triples // _ABOUT_A_CARD)
    subject = nquads.write_iris("http://creditcard.org/id/", np.arange(cards))
    names = nquads.list_people()
    holders = nquads.choose_words(names, rng.integers(0, len(names), cards))
    cities = nquads.choose_words(_CITIES, rng.integers(0, len(_CITIES), cards))
    banks = nquads.write_iris("http://creditcard.org/bank/", rng.integers(0, 20, cards))
    known = [
        (subject, f"<{NS}cardHolder>", holders),
        (subject, f"<{NS}holderAddress>", cities),
        (subject, f"<{NS}issuedBy>", banks),
    ]
    return nquads.write_graph(f"<{GRAPH}>", known, triples)


if __name__ == "__main__":
    nquads.main("cards", make_streams, make_background, None)
