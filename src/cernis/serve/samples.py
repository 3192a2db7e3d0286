"""The sample streams that ship with the package, each with queries to try.

A stream is generated when it is first asked for, in the worker that needs it: the generators are
seeded, so every worker has the same events. `rows` is written down, so that the list of samples
costs nothing; a test compares it with the streams.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from textwrap import dedent
from typing import Any, NamedTuple

import pyarrow as pa

from cernis.serve.data import EventData
from cernis.serve.rdf import GraphData


class SampleQuery(NamedTuple):
    """A query to try."""

    title: str
    text: str
    language: str = "ceql"


class Sample(NamedTuple):
    """A generated stream: what it is about, and what to ask of it."""

    id: str
    title: str
    about: str
    streams: tuple[str, ...]
    rows: int
    make: Callable[[], EventData | GraphData]
    queries: tuple[SampleQuery, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the sample as the page lists it."""
        return {
            "id": self.id,
            "title": self.title,
            "about": self.about,
            "language": self.queries[0].language,
            "streams": list(self.streams),
            "rows": self.rows,
            "queries": [query._asdict() for query in self.queries],
        }


def _ask(title: str, text: str, language: str = "ceql") -> SampleQuery:
    return SampleQuery(title, dedent(text).strip() + "\n", language)


# ------------------------------------------------------------------------ events


def _stocks() -> EventData:
    from cernis.generators import stock_stream

    return EventData.of({"stocks": stock_stream(20_000, seed=1)})


def _million() -> EventData:
    from cernis.generators import stock_stream

    return EventData.of({"stocks": stock_stream(1_000_000, seed=1)})


def _taxis() -> EventData:
    from cernis.generators import taxi_stops

    return EventData.of({"stops": taxi_stops()})


def _homes() -> EventData:
    from cernis.generators import power_readings

    return EventData.of({"power": power_readings()})


def _cluster() -> EventData:
    from cernis.generators import cluster_tasks

    return EventData.of({"tasks": cluster_tasks()})


def _logins() -> EventData:
    from cernis.generators import login_stream

    return EventData.of({"logins": login_stream(20_000, seed=1, attacks=12)})


def _city() -> EventData:
    from cernis.generators import parking_and_traffic

    return EventData.of(parking_and_traffic())


def _core_paper() -> EventData:
    types = ["SELL", "SELL", "SELL", "BUY", "SELL", "BUY", "BUY"]
    names = ["MSFT", "MSFT", "INTL", "INTL", "AMZN", "INTL", "AMZN"]
    minutes = [0, 2, 10, 14, 25, 30, 33]
    first = 1_704_189_600_000  # 2024-01-02 10:00
    times = pa.array([first + 60_000 * minute for minute in minutes]).cast(pa.timestamp("ms"))
    prices = [101, 102, 80, 80, 1900, 81, 1920]
    return EventData.of(
        {"Stocks": pa.table({"type": types, "name": names, "price": prices, "ts": times})}
    )


def _pcea_paper() -> EventData:
    events = {
        "type": ["S", "T", "R", "S", "T", "R"],
        "a": [2, 2, 1, 2, 1, 2],
        "b": [11, None, 10, 11, None, 11],
    }
    return EventData.of({"S0": pa.table(events)})


# --------------------------------------------------------------------------- RDF


def _cards() -> GraphData:
    from cernis.generators import cards

    background = {cards.GRAPH: cards.make_background(600, seed=1)}
    return GraphData(cards.make_streams(2_000, seed=1, cards=200), background)


def _grid() -> GraphData:
    from cernis.generators import smartgrid

    return GraphData(smartgrid.make_streams(2_000, seed=1, houses=40, places=8))


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "stocks",
        "Stocks",
        "Who sells or buys which stock, at which price: 20 symbols, some 20 events a second.",
        ("stocks",),
        20_000,
        _stocks,
        (
            _ask(
                "A dear sale, then a purchase",
                """
                SELECT * FROM stocks
                WHERE SELL AS s ; BUY AS b
                FILTER s[price > 200] AND s[volume >= 900]
                PARTITION BY [name]
                WITHIN 1 MINUTE
                """,
            ),
            _ask(
                "Prices that rise five times in a row",
                """
                SELECT LONGEST COUNT(up) AS trades, FIRST(up[price]) AS low, LAST(up[price]) AS high
                FROM stocks
                WHERE (SELL OR BUY):{5,} AS up
                FILTER up INCREASING BY price
                PARTITION BY [name]
                """,
            ),
            _ask(
                "V shapes in SQL",
                """
                SELECT * FROM stocks MATCH_RECOGNIZE (
                  PARTITION BY name ORDER BY ts
                  MEASURES FIRST(price) AS top, LAST(down.price) AS bottom, LAST(price) AS back
                  AFTER MATCH SKIP TO LAST up
                  PATTERN (strt down{3,} up{3,})
                  DEFINE down AS price < PREV(price), up AS price > PREV(price)
                )
                """,
                "sql",
            ),
            _ask(
                "More matches than anyone could list",
                """
                SELECT * FROM stocks
                WHERE SELL AS first ; BUY+ AS some ; SELL AS last
                WITHIN 10 SECONDS
                """,
            ),
        ),
    ),
    Sample(
        "stocks-million",
        "A million trades",
        "The same market for most of a day: a million events.",
        ("stocks",),
        1_000_000,
        _million,
        (
            _ask(
                "Three trades of one stock",
                """
                SELECT * FROM stocks
                WHERE SELL AS a ; BUY AS b ; SELL AS c
                PARTITION BY [name]
                WITHIN 10 MINUTES
                """,
            ),
            _ask(
                "How many, hour by hour",
                """
                SELECT COUNT(*) AS matches FROM stocks
                WHERE SELL AS a ; BUY AS b
                PARTITION BY [name]
                WITHIN 1 MINUTE
                GROUP BY EVERY 1 HOUR
                """,
            ),
        ),
    ),
    Sample(
        "taxis",
        "Taxis",
        "Pickups and drop-offs of 30 taxis in a day, with the zone where they stop.",
        ("stops",),
        1_154,
        _taxis,
        (
            _ask(
                "Taxis that stand for 45 minutes",
                """
                SELECT d, d[zone] AS zone
                FROM stops
                WHERE DROPOFF AS d WITHOUT PICKUP FOR 45 MINUTES
                PARTITION BY [taxi]
                """,
            ),
            _ask(
                "Sessions of work",
                """
                SELECT LONGEST COUNT(d) AS rides, SUM(d[fare]) AS fares, END - START AS length
                FROM stops
                WHERE DROPOFF+[1 HOUR] AS d
                PARTITION BY [taxi]
                """,
            ),
        ),
    ),
    Sample(
        "homes",
        "Smart homes",
        "The power of 12 houses, read every five minutes for a day.",
        ("power",),
        3_456,
        _homes,
        (
            _ask(
                "Episodes of high power",
                """
                SELECT LONGEST COUNT(r) AS readings, MAX(r[watts]) AS peak, END - START AS length
                FROM power
                WHERE POWER:{3,} AS r
                FILTER r[watts > 2000]
                PARTITION BY [house]
                """,
            ),
            _ask(
                "A jump between two readings",
                """
                SELECT a, b FROM power
                WHERE POWER AS a : POWER AS b
                FILTER b[watts] > a[watts] AND a[watts < 300] AND b[watts > 3000]
                PARTITION BY [house]
                """,
            ),
        ),
    ),
    Sample(
        "cards",
        "Cards",
        "Card transactions as RDF, with a graph that knows who holds a card (SPAseQ, Query 2).",
        ("S1",),
        2_000,
        _cards,
        (
            _ask(
                "Small sums right after a big one",
                """
                PREFIX pred: <http://example/>
                SELECT ?card ?amount1 ?amount2 ?name
                WITHIN 30 MINUTES
                FROM STREAM S1 <http://creditcard.org/transactions>
                WHERE {
                  SEQ (A, B+)

                  DEFINE GPM A ON S1 {
                    ?card pred:id ?id1 .
                    ?card pred:amount ?amount1 .
                    FILTER (?amount1 > 500)
                  }

                  DEFINE GPM B ON S1 {
                    ?card pred:id ?id1 .
                    ?card pred:amount ?amount2 .
                    FILTER (?amount2 * 10 <= ?amount1)
                    GRAPH <http://creditcard.org/db> { ?id1 pred:cardHolder ?name . }
                  }
                }
                """,
                "spaseq",
            ),
            _ask(
                "The same place twice",
                """
                PREFIX pred: <http://example/>
                SELECT ?card ?place ?amount1 ?amount2
                WITHIN 10 MINUTES
                FROM STREAM S1 <http://creditcard.org/transactions>
                WHERE {
                  SEQ (A ; B)
                  DEFINE GPM A ON S1 { ?card pred:loc ?place ; pred:amount ?amount1 . }
                  DEFINE GPM B ON S1 { ?card pred:loc ?place ; pred:amount ?amount2 . }
                }
                """,
                "spaseq",
            ),
        ),
    ),
    Sample(
        "cluster",
        "Cluster",
        "The life of 150 tasks on a cluster: submitted, evicted, failed, finished.",
        ("tasks",),
        804,
        _cluster,
        (
            _ask(
                "Tasks that fail after many evictions",
                """
                SELECT MAX e, COUNT(e) AS evictions, f[machine] AS machine
                FROM tasks
                WHERE EVICT{3,} AS e ; FAIL AS f
                PARTITION BY [task]
                WITHIN 1 HOUR
                """,
            ),
            _ask(
                "Evicted from one machine to the next",
                """
                SELECT * FROM tasks
                WHERE EVICT AS a ; EVICT AS b
                FILTER a[machine] != b[machine]
                PARTITION BY [task]
                WITHIN 30 MINUTES
                """,
            ),
        ),
    ),
    Sample(
        "logins",
        "Logins",
        "20,000 logins in a day; in a dozen accounts somebody guesses the password.",
        ("logins",),
        20_000,
        _logins,
        (
            _ask(
                "Failed logins that end in a success",
                """
                SELECT MAX f, ok, COUNT(f) AS failures, ok[address] AS address
                FROM logins
                WHERE FAIL{5,} AS f ; OK AS ok
                PARTITION BY [user]
                WITHIN 10 MINUTES
                """,
            ),
            _ask(
                "Every choice of five failures or more",
                """
                SELECT * FROM logins
                WHERE FAIL{5,} AS f ; OK AS ok
                PARTITION BY [user]
                WITHIN 10 MINUTES
                """,
            ),
        ),
    ),
    Sample(
        "city",
        "Parking and traffic",
        "Two streams of one city: garages that are full, and roads with a jam.",
        ("parking", "traffic"),
        600,
        _city,
        (
            _ask(
                "A full garage, then a jam in the same district",
                """
                SELECT full, jam FROM parking, traffic
                WHERE parking>FULL AS full ; traffic>JAM AS jam
                FILTER full[district] = jam[area]
                WITHIN 10 MINUTES
                """,
            ),
            _ask(
                "A jam without a full garage before it",
                """
                SELECT jam FROM parking, traffic
                WHERE JAM AS jam WITHOUT FULL BEFORE 10 MINUTES
                """,
            ),
        ),
    ),
    Sample(
        "grid",
        "Smart grid (RDF)",
        "Power of houses, weather and power in storage, as three RDF streams (SPAseQ, Query 1).",
        ("S1", "S2", "S3"),
        2_000,
        _grid,
        (
            _ask(
                "Dear power, then wind, then cheap storage",
                """
                PREFIX : <http://smartgrid.org/ns#>
                SELECT ?house ?fr1 ?fr2
                WITHIN 30 MINUTES
                FROM STREAM S1 <http://smartgrid.org/mainSource>
                FROM STREAM S2 <http://smartgrid.org/weather>
                FROM STREAM S3 <http://smartgrid.org/storageSource>
                WHERE {
                  SEQ (A; B+, C)

                  DEFINE GPM A ON S1 {
                    ?house :loc ?l ; :pow ?pw .
                    ?pw :source "fuel" ; :fare ?fr1 .
                    FILTER (?fr1 > 20)
                  }

                  DEFINE GPM B ON S2 {
                    ?weather :loc ?l ; :value ?v .
                    ?v :windsp ?speed .
                    FILTER (?speed > 5)
                  }

                  DEFINE GPM C ON S3 {
                    ?storage :loc ?l ; :pow ?pw2 .
                    ?pw2 :source "solar" ; :fare ?fr2 .
                    FILTER (?fr2 < ?fr1)
                  }
                }
                """,
                "spaseq",
            ),
        ),
    ),
    Sample(
        "paper-core",
        "The stocks of the CORE paper",
        "Seven trades, small enough to follow each step by hand.",
        ("Stocks",),
        7,
        _core_paper,
        (
            _ask(
                "Three sales one after another",
                """
                SELECT * FROM Stocks
                WHERE SELL AS msft ; SELL AS intl ; SELL AS amzn
                FILTER msft[name = 'MSFT'] AND msft[price > 100] AND intl[name = 'INTL']
                   AND amzn[name = 'AMZN'] AND amzn[price < 2000]
                """,
            ),
            _ask(
                "Two trades of one stock within five minutes",
                """
                SELECT s, b FROM Stocks
                WHERE (BUY OR SELL) AS s ; (BUY OR SELL) AS b
                PARTITION BY [name] WITHIN 5 MINUTES
                """,
            ),
        ),
    ),
    Sample(
        "paper-pcea",
        "The running example of the PCEA paper",
        "Six events, joined in any order by a conjunctive query.",
        ("S0",),
        6,
        _pcea_paper,
        (
            _ask(
                "T, S and R in any order",
                "Q0(x, y) <- T(a: x), S(a: x, b: y), R(a: x, b: y)",
                "cq",
            ),
            _ask("Distinct values alone", "Q(y) <- S(a: x, b: y), T(a: x)", "cq"),
        ),
    ),
)

_BY_ID = {sample.id: sample for sample in SAMPLES}


def find_sample(id: str) -> Sample | None:
    """Return a sample by its id."""
    return _BY_ID.get(id)


@cache
def load_sample(id: str) -> EventData | GraphData:
    """Return the events of a sample, which are generated once in a process."""
    return _BY_ID[id].make()
