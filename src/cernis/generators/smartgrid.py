"""Smart grid streams, for the paper's Query 1: power of houses, weather, power in storage.

    S1  ?house :loc ?l ; :pow ?pw .      ?pw :source "fuel" ; :fare 23 ; :watt 120 .
    S2  ?weather :loc ?l ; :value ?v .   ?v :windsp 7 ; :temp 12 .
    S3  ?storage :loc ?l ; :pow ?pw .    ?pw :source "solar" ; :fare 9 ; :watt 80 .

Places report in rounds: the power of a house, the weather once or a few times, the storage.
No two events share a timestamp. The background graph knows cities, neighbours and owners.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cernis.generators import nquads

NS: Final = "http://smartgrid.org/ns#"
STREAMS: Final = {
    "S1": "http://smartgrid.org/mainSource",
    "S2": "http://smartgrid.org/weather",
    "S3": "http://smartgrid.org/storageSource",
}
GRAPH: Final = "http://smartgrid.org/db"

_SOURCES: Final = ('"fuel"', '"solar"', '"wind"')
_MEAN_GAP: Final = 15_000  # milliseconds
_ABOUT_A_HOUSE: Final = 5  # triples


def make_streams(
    events: int, seed: int = 0, houses: int = 200, places: int = 25
) -> dict[str, bytes]:
    """Make power, weather and storage of a smart grid as N-Quads, by the name of the stream."""
    nquads.check_count(events, "events")
    rng = np.random.default_rng(seed)
    rounds = events // 3 + 1
    lengths = rng.integers(3, 6, rounds)
    ends = np.cumsum(lengths)
    which = np.repeat(np.arange(rounds), lengths)[:events]
    at = np.arange(events)
    kind = np.where(at == (ends - lengths)[which], 0, np.where(at == ends[which] - 1, 2, 1))
    gaps = 1 + (rng.standard_exponential(events) * _MEAN_GAP).astype(np.int64)
    times = nquads.OPENING + np.cumsum(gaps)
    house = rng.integers(0, houses, rounds)[which]
    fare = np.where(kind == 0, rng.integers(5, 41, events), rng.integers(1, 31, events))
    source = np.where(
        kind == 0,
        rng.choice(len(_SOURCES), events, p=[0.5, 0.3, 0.2]),
        rng.choice(len(_SOURCES), events, p=[0.2, 0.6, 0.2]),
    )
    watt = rng.integers(20, 400, events)
    wind = rng.integers(0, 15, events)
    warmth = rng.integers(-5, 35, events)

    texts = {}
    for k, (name, iri) in enumerate(STREAMS.items()):
        rows = np.flatnonzero(kind == k)
        of, place = house[rows], nquads.write_iris(f"{NS}L", house[rows] % places)
        if name == "S2":
            sensor = nquads.write_iris(f"{NS}W", of % places)
            value = nquads.write_iris(f"{NS}Vl", np.arange(len(rows)))
            triples = [
                (sensor, f"<{NS}loc>", place),
                (sensor, f"<{NS}value>", value),
                (value, f"<{NS}windsp>", nquads.write_integers(wind[rows])),
                (value, f"<{NS}temp>", nquads.write_integers(warmth[rows])),
            ]
        else:
            names = ("H", "Pw") if name == "S1" else ("St", "Sp")
            owner, power = (nquads.write_iris(f"{NS}{letters}", of) for letters in names)
            triples = [
                (owner, f"<{NS}loc>", place),
                (owner, f"<{NS}pow>", power),
                (power, f"<{NS}source>", nquads.choose_words(_SOURCES, source[rows])),
                (power, f"<{NS}fare>", nquads.write_integers(fare[rows])),
                (power, f"<{NS}watt>", nquads.write_integers(watt[rows])),
            ]
        texts[name] = nquads.write_stream(iri, times[rows], triples)
    return texts


def make_background(triples: int, seed: int = 0) -> bytes:
    """Make a background graph of the houses as N-Quads: five triples a house."""
    nquads.check_count(triples, "triples")
    rng = np.random.default_rng(seed)
    houses = -(-triples // _ABOUT_A_HOUSE)
    house = np.arange(houses)
    subject = nquads.write_iris(f"{NS}H", house)
    near = (house + rng.integers(1, max(houses, 2), (2, houses))) % max(houses, 1)
    cities = nquads.write_iris(f"{NS}City", rng.integers(0, 40, houses))
    owners = nquads.choose_words(nquads.list_people(), rng.integers(0, 400, houses))
    known = [
        (subject, f"<{NS}locatedIn>", cities),
        (subject, f"<{NS}nearBy>", nquads.write_iris(f"{NS}H", near[0])),
        (subject, f"<{NS}ownerName>", owners),
        (subject, f"<{NS}nearBy>", nquads.write_iris(f"{NS}H", near[1])),
        (subject, f"<{NS}unit>", f"<{NS}Watt>"),
    ]
    return nquads.write_graph(f"<{GRAPH}>", known, triples)


if __name__ == "__main__":
    nquads.main("smartgrid", make_streams, make_background, None)
