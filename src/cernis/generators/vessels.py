"""Vessels on their way, for the paper's Query 6: from the harbour to where fish are caught.

    S1  ?vessel pred:speed 9 ; pred:location "sea" ; pred:direction 120 .

Every minute each vessel reports, all at the same time. A trip is: out of the harbour, a
few reports at sea that are faster and mostly keep the course, a stop (often in the fishing
area), the way back, a rest. The background graph knows names and who operates a vessel.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from cernis.generators import nquads

NS: Final = "http://example/"
STREAMS: Final = {"S1": "http://harbour.org/boats"}
GRAPH: Final = "http://harbour.org/db"

_PLACES: Final = ('"harbour"', '"sea"', '"fishingarea"', '"sandbank"')
_HARBOUR, _SEA, _FISHING, _SANDBANK = range(4)
_TICK: Final = 60_000  # milliseconds
_SHORTEST: Final = 1 + 2 + 1 + 2 + 1  # reports of a trip
_OUT, _AWAY, _STOP, _BACK, _REST = range(5)
_ABOUT_A_VESSEL: Final = 3  # triples
_COMPANIES: Final = 12


def make_streams(events: int, seed: int = 0, vessels: int = 20) -> dict[str, bytes]:
    """Make speed, place and direction of vessels as N-Quads, by the name of the stream."""
    nquads.check_count(events, "events")
    if vessels < 1:
        raise ValueError(f"a harbour needs at least one vessel, not {vessels}")
    rng = np.random.default_rng(seed)
    ticks = -(-events // vessels)
    trips = ticks // _SHORTEST + 1
    # each row a vessel's trip; its phases last so many reports
    away, back = rng.integers(2, 7, (2, vessels * trips))
    stop, rest = rng.integers(1, 4, (2, vessels * trips))
    lasts = np.stack([np.ones_like(away), away, stop, back, rest], axis=1)
    trip = np.repeat(np.arange(vessels * trips), lasts.sum(axis=1))
    phase = np.repeat(np.tile(np.arange(5), vessels * trips), lasts.ravel())
    vessel = trip // trips
    begins = np.searchsorted(vessel, np.arange(vessels))
    report = np.arange(len(trip)) - begins[vessel]
    kept = np.flatnonzero(report < ticks)
    kept = kept[np.lexsort((vessel[kept], report[kept]))][:events]
    trip, phase, vessel, report = trip[kept], phase[kept], vessel[kept], report[kept]

    n = len(trip)
    goal = rng.choice([_FISHING, _SEA, _SANDBANK], vessels * trips, p=[0.5, 0.3, 0.2])[trip]
    slow = rng.integers(2, 7, vessels * trips)[trip]
    fast = slow + rng.integers(1, 8, n)
    course = rng.integers(0, 36, vessels * trips)[trip] * 10
    strays = (phase == _AWAY) & (rng.random(n) < 0.1)
    place = np.select([phase == _OUT, phase == _STOP, phase == _REST], [0, goal, 0], _SEA)
    speed = np.select([phase == _OUT, (phase == _STOP) | (phase == _REST)], [slow, 0], fast)
    direction = np.where(strays, rng.integers(0, 360, n), course)
    direction = np.where(phase == _BACK, (course + 180) % 360, direction)
    subject = nquads.write_iris("http://harbour.org/vessel/", vessel)
    triples = [
        (subject, f"<{NS}speed>", nquads.write_integers(speed)),
        (subject, f"<{NS}location>", nquads.choose_words(_PLACES, place)),
        (subject, f"<{NS}direction>", nquads.write_integers(direction)),
    ]
    times = nquads.OPENING + report * _TICK
    return {name: nquads.write_stream(iri, times, triples) for name, iri in STREAMS.items()}


def make_background(triples: int, seed: int = 0) -> bytes:
    """Make a background graph of the vessels as N-Quads: three triples a vessel.

    The companies' names come first.
    """
    nquads.check_count(triples, "triples")
    rng = np.random.default_rng(seed)
    company = nquads.write_iris("http://harbour.org/company/", np.arange(_COMPANIES))
    firms = [f'"{name[1:-1].split()[1]} & Co"' for name in nquads.list_people()[:_COMPANIES]]
    head = nquads.write_graph(f"<{GRAPH}>", [(company, f"<{NS}name>", pa.array(firms))], triples)
    left = max(0, triples - _COMPANIES)
    vessels = -(-left // _ABOUT_A_VESSEL)
    subject = nquads.write_iris("http://harbour.org/vessel/", np.arange(vessels))
    companies = rng.integers(0, _COMPANIES, vessels)
    operators = nquads.write_iris("http://harbour.org/company/", companies)
    called = [f'"{name[1:-1].split()[0]} {i}"' for i, name in enumerate(nquads.list_people())]
    names = nquads.choose_words(called, rng.integers(0, len(called), vessels))
    known = [
        (subject, f"<{NS}name>", names),
        (subject, f"<{NS}operatedBy>", operators),
        (subject, f"<{NS}length>", nquads.write_integers(rng.integers(8, 60, vessels))),
    ]
    return head + nquads.write_graph(f"<{GRAPH}>", known, left)


if __name__ == "__main__":
    nquads.main("vessels", make_streams, make_background, None)
