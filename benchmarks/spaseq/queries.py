"""The queries of `cernis bench spaseq`: those of the SPAseQ paper, for any sequence and window.

A `GraphWorkload` is a query of the paper (as repaired in `examples/spaseq`), the generator of its
streams, and the sequence to look for under each of the three separators. Streams of different
workloads tick at different speeds, so windows are counted in events of the whole streamset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cernis.generators import cards, market, smartgrid, traffic

STRATEGIES = (",", ";", ":")
SECOND = 1_000_000_000
"""In nanoseconds, the unit of engines."""


class GraphWorkload(NamedTuple):
    """A query of the paper, and its streams."""

    streams: Callable[[int], dict[str, bytes]]
    seconds: int
    """From one event to the next, on average."""
    sequences: Mapping[str, str]
    """The sequence of SEQ, by separator."""
    before: str
    """PREFIX and SELECT."""
    iris: Mapping[str, str]
    definitions: str
    graph: str = ""
    """The IRI of the background graph."""
    background: Callable[[int], bytes] | None = None

    def window(self, events: int) -> int:
        """Return the length of a window of so many events, in nanoseconds."""
        return events * self.seconds * SECOND

    def query(self, sequence: str, events: int) -> str:
        """Return the query in a window of so many events.

        >>> print(WORKLOADS["traffic"].query("A; (B & C)", 18).splitlines()[3])
        WITHIN 1800 SECONDS
        """
        streams = "\n".join(f"FROM STREAM {name} <{iri}>" for name, iri in self.iris.items())
        return (
            f"{self.before}\nWITHIN {events * self.seconds} SECONDS\n{streams}\n"
            f"WHERE {{\n  SEQ ({sequence})\n{self.definitions}\n}}"
        )

    def make_background(self, triples: int) -> dict[str, bytes] | None:
        """Return a background graph of this size by its name; None if the query has none."""
        if self.background is None:
            return None
        return {self.graph: self.background(triples)}


_GRID = GraphWorkload(
    smartgrid.make_streams,
    seconds=15,
    sequences={",": "A, B+, C", ";": "A; B+;; C", ":": "A: B+:: C"},
    before=f"PREFIX : <{smartgrid.NS}>\nSELECT ?house ?fr1 ?fr2 ?house2 ?city ?oname",
    iris=smartgrid.STREAMS,
    definitions="""
  DEFINE GPM A ON S1 {
    ?house :loc ?l . ?house :pow ?pw . ?pw :source "fuel" . ?pw :fare ?fr1 .
    FILTER (?fr1 > 20)
    GRAPH <http://smartgrid.org/db> {
      ?house :locatedIn ?city . ?house :nearBy ?house2 . ?house :ownerName ?oname .
    }
  }
  DEFINE GPM B ON S2 { ?wther :loc ?l . ?wther :value ?vl . ?vl :windsp ?sp . FILTER (?sp > 5) }
  DEFINE GPM C ON S3 {
    ?storage :loc ?l . ?storage :pow ?pw2 . ?pw2 :source "solar" . ?pw2 :fare ?fr2 .
    FILTER (?fr2 < ?fr1)
  }""",
    graph=smartgrid.GRAPH,
    background=smartgrid.make_background,
)

_CARDS = GraphWorkload(
    cards.make_streams,
    seconds=4,
    sequences={",": "A, B+", ";": "A; B+;", ":": "A: B+:"},
    before=f"PREFIX pred: <{cards.NS}>\nSELECT ?card ?id1 ?amount1 ?amount2 ?name ?address",
    iris=cards.STREAMS,
    definitions="""
  DEFINE GPM A ON S1 {
    ?card pred:id ?id1 . ?card pred:amount ?amount1 . ?card pred:loc ?loc .
    FILTER (?amount1 > 0)
  }
  DEFINE GPM B ON S1 {
    ?card pred:id ?id1 . ?card pred:amount ?amount2 .
    FILTER (?amount2 * 10 <= ?amount1)
    GRAPH <http://creditcard.org/db> {
      ?id1 pred:cardHolder ?name . ?id1 pred:holderAddress ?address .
    }
  }""",
    graph=cards.GRAPH,
    background=cards.make_background,
)

_TRAFFIC = GraphWorkload(
    traffic.make_streams,
    seconds=100,
    sequences={",": "A, (B & C)", ";": "A; (B & C)", ":": "A: (B & C)"},
    before=f"PREFIX ssn: <{traffic.SSN}>\nPREFIX sao: <{traffic.SAO}>\nSELECT ?p1 ?v1 ?v2 ?v3",
    iris=traffic.STREAMS,
    definitions="""
  DEFINE GPM A ON S1 {
    ?traffic1 ssn:observedProperty ?p1 . ?traffic1 sao:hasValue ?v1 . FILTER (?v1 > 3)
  }
  DEFINE GPM B ON S2 {
    ?traffic2 ssn:observedProperty ?p1 . ?traffic2 sao:hasValue ?v2 . FILTER (?v2 > 3)
  }
  DEFINE GPM C ON S3 {
    ?traffic3 ssn:observedProperty ?p1 . ?traffic3 sao:hasValue ?v3 . FILTER (?v3 > 3)
  }""",
)


def make_market_workload(conditions: tuple[str, ...]) -> GraphWorkload:
    """Return a query on the prices ?p1, ?p2 … of a company, with a clause for each condition.

    >>> make_market_workload(("", "?p2 < ?p1")).sequences[";"]
    'A; B'
    """
    numbers = range(1, len(conditions) + 1)
    names = [chr(ord("A") + i - 1) for i in numbers]
    definitions = [
        f"  DEFINE GPM {name} ON S1 {{ ?company pred:price ?p{i} . ?company pred:volume ?vol{i} ."
        f"{f' FILTER ({condition})' if condition else ''} }}"
        for i, name, condition in zip(numbers, names, conditions, strict=True)
    ]
    selected = " ".join(f"?p{i} ?vol{i}" for i in numbers)
    return GraphWorkload(
        market.make_streams,
        seconds=3,
        sequences={link: f"{link} ".join(names) for link in STRATEGIES},
        before=f"PREFIX pred: <{market.NS}>\nSELECT ?company {selected}",
        iris=market.STREAMS,
        definitions="\n".join(definitions),
    )


def make_zigzag(clauses: int) -> GraphWorkload:
    """Return a query for prices down and up in turns; three clauses are the V of Query 4."""
    turns = (f"?p{i} {'<' if i % 2 == 0 else '>'} ?p{i - 1}" for i in range(2, clauses + 1))
    return make_market_workload(("", *turns))


HEAD_AND_SHOULDERS = make_market_workload(
    (
        "",
        "?p2 > ?p1",
        "?p3 < ?p2 && ?p3 > ?p1",
        "?p4 > ?p2",
        "?p5 < ?p4 && ?p5 > ?p1",
        "?p6 > ?p5 && ?p6 < ?p4",
        "?p7 < ?p6",
    )
)
"""The paper's Query 3."""

_FALLS = make_zigzag(3)._replace(sequences=_GRID.sequences)

WORKLOADS = {
    "market": make_zigzag(3),
    "falls": _FALLS,
    "cards": _CARDS,
    "traffic": _TRAFFIC,
    "smart grid": _GRID,
}
"""The V on the market (the paper's Query 4), the same with `B+` (Figure 19), Query 2, Query 5 and
Query 1."""
