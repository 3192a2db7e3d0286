"""Traffic sensors, for the paper's Query 5: three roads that report at the same times.

    S1, S2, S3  ?observation a ssn:Observation ; ssn:observedBy ?sensor ;
                    ssn:observedProperty city:CongestionLevel ; sao:hasValue 4 .

Every five minutes each sensor reports a level from 0 to 10. A jam builds up and dissolves over
some reports, on each road by itself, with now and then one that takes hold of all three.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cernis.generators import nquads

SSN: Final = "http://purl.oclc.org/NET/ssnx/ssn#"
SAO: Final = "http://purl.oclc.org/NET/UNIS/sao/sao#"
CITY: Final = "http://www.insight-centre.org/citytraffic#"
_SERVICE: Final = "http://www.insight-centre.org/dataset/SampleEventService#AarhusTrafficData"
STREAMS: Final = {
    "S1": f"{_SERVICE}182955",
    "S2": f"{_SERVICE}195578",
    "S3": f"{_SERVICE}195446",
}

_TICK: Final = 300_000  # milliseconds
_KEPT: Final = 5  # reports whose influence a level still shows
_TYPE: Final = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def make_streams(events: int, seed: int = 0) -> dict[str, bytes]:
    """Make congestion on three roads as N-Quads, by the name of the stream."""
    nquads.check_count(events, "events")
    rng = np.random.default_rng(seed)
    counts = [len(part) for part in np.array_split(np.arange(events), len(STREAMS))]
    everywhere = _smooth_noise(rng.standard_normal(counts[0] + _KEPT))
    texts = {}
    for count, (name, iri) in zip(counts, STREAMS.items(), strict=True):
        mood = _smooth_noise(rng.standard_normal(counts[0] + _KEPT)) + everywhere
        level = np.clip(np.rint(2.6 + 1.4 * mood[:count]), 0, 10).astype(np.int64)
        number = np.arange(count)
        observation = nquads.write_iris(f"{iri}-", number)
        triples = [
            (observation, _TYPE, f"<{SSN}Observation>"),
            (observation, f"<{SSN}observedBy>", f"<{iri}>"),
            (observation, f"<{SSN}observedProperty>", f"<{CITY}CongestionLevel>"),
            (observation, f"<{SAO}hasValue>", nquads.write_integers(level)),
        ]
        texts[name] = nquads.write_stream(iri, nquads.OPENING + number * _TICK, triples)
    return texts


def _smooth_noise(noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a running mean, scaled to a deviation of one."""
    total = np.concatenate([[0.0], np.cumsum(noise)])
    mean: NDArray[np.float64] = (total[_KEPT:] - total[:-_KEPT]) / np.sqrt(_KEPT)
    return mean


if __name__ == "__main__":
    nquads.main("traffic", make_streams, None, None)
