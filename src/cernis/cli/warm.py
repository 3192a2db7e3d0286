"""`cernis warm`: compile the engine ahead of the first query, for images and clusters.

Runs a query of each class over a short stream with compiled code, in as many processes as there are
processors: the compiler uses one at a time. Each process finds what the others have compiled
(`cernis.compiled.cache`). Kernels are compiled for the types of their arguments, so a query of your
own may still compile a kernel or two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context

_PAIR = "SELECT * FROM S WHERE (SELL AS a ; BUY AS b)"
QUERIES = {
    "sequences": f"{_PAIR} FILTER a[volume > 900]",
    "windows of events": f"{_PAIR} WITHIN 20 EVENTS",
    "windows of time": f"{_PAIR} WITHIN 1 SECONDS",
    "partitions": f"{_PAIR} PARTITION BY [name] WITHIN 1 SECONDS",
    "partitions of events": f"{_PAIR} PARTITION BY [name] WITHIN 20 EVENTS FORGET AFTER 1 HOUR",
    "strategies": "SELECT MAX * FROM S WHERE (SELL AS a ; BUY+ AS b) WITHIN 10 EVENTS",
    "longest": "SELECT LONGEST a FROM S WHERE (SELL:+ AS a) PARTITION BY [name] WITHIN 20 EVENTS",
    "consumption": f"{_PAIR} PARTITION BY [name] WITHIN 20 EVENTS CONSUME BY PARTITION",
    "counts": "SELECT COUNT(*) FROM S WHERE (SELL AS a ; BUY AS b) WITHIN 20 EVENTS",
    "groups": "SELECT COUNT(*), SUM(a[price]), MIN(b[volume]) FROM S WHERE (SELL AS a ; BUY AS b) "
    "WITHIN 20 EVENTS GROUP BY EVERY 1 SECONDS",
    "equal values": f"{_PAIR} FILTER a[name] = b[name] WITHIN 20 EVENTS",
    "unlike values": f"{_PAIR} FILTER a[name] != b[name] WITHIN 20 EVENTS",
    "ordered values": f"{_PAIR} FILTER a[price] < b[price] WITHIN 20 EVENTS",
    "the next that fits": "SELECT * FROM S WHERE (SELL AS a -> BUY AS b) FILTER a[name] = b[name]",
    "equal and unlike values": "SELECT * FROM S WHERE (SELL AS a ; BUY AS b ; SELL AS c) "
    "FILTER a[name] = b[name] AND b[volume] != c[volume] AND b[price] < c[price] WITHIN 20 EVENTS",
    "joins": "SELECT * FROM S WHERE (SELL AS a ALL BUY AS b) FILTER a[name] = b[name] "
    "WITHIN 20 EVENTS",
    "gaps": "SELECT * FROM S WHERE (SELL AS a ;[1 SECONDS] BUY AS b)",
    "absence": "SELECT * FROM S WHERE SELL AS a WITHOUT (BUY AS b FILTER a[name] = b[name]) "
    "FOR 1 SECONDS",
    "best first": f"{_PAIR} WITHIN 20 EVENTS ORDER BY a[volume] + b[volume] DESC LIMIT 2",
}
"""A query for each part of the engine."""
SPASEQ = "RDF streams"
_STREAMS = {
    "market": """PREFIX : <{ns}> SELECT ?c ?p1 ?p2 ?p3 WITHIN 600 SECONDS FROM STREAM S1 <{S1}>
        WHERE {{ SEQ (A{link} B{link} C)
            DEFINE GPM A ON S1 {{ ?c :price ?p1 }}
            DEFINE GPM B ON S1 {{ ?c :price ?p2 FILTER (?p2 < ?p1) }}
            DEFINE GPM C ON S1 {{ ?c :price ?p3 FILTER (?p3 > ?p2) }} }}""",
    "traffic": """PREFIX ssn: <{ssn}> SELECT ?p WITHIN 2000 SECONDS
        FROM STREAM S1 <{S1}> FROM STREAM S2 <{S2}> FROM STREAM S3 <{S3}>
        WHERE {{ SEQ (A{link} (B & C))
            DEFINE GPM A ON S1 {{ ?x ssn:observedProperty ?p }}
            DEFINE GPM B ON S2 {{ ?y ssn:observedProperty ?p }}
            DEFINE GPM C ON S3 {{ ?z ssn:observedProperty ?p }} }}""",
}
"""Queries on two generated streamsets, for each separator."""


def list_classes() -> list[str]:
    """Return the classes of queries whose kernels can be compiled here."""
    return [*QUERIES, *([SPASEQ] if find_spec("pyoxigraph") is not None else [])]


def warm(jobs: int | None = None) -> Iterator[str]:
    """Compile the kernels of each class; yield its name when it is done."""
    workers = jobs or os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        tasks = {pool.submit(compile_class, name): name for name in list_classes()}
        for task in as_completed(tasks):
            task.result()
            yield tasks[task]


def compile_class(name: str) -> None:
    """Compile the kernels that the queries of a class call."""
    from cernis.compiled.tiers import compile_from_now

    compile_from_now()
    if name == SPASEQ:
        _run_spaseq()
    else:
        _run_ceql(QUERIES[name])


def _run_ceql(text: str) -> None:
    import cernis
    from cernis.generators.stock import stock_stream
    from cernis.results.matches import Matches

    query, events = cernis.query(text), stock_stream(200, seed=1)
    found = query.run(events, complete=True)
    found.count()
    found.head(2)
    found.to_arrow()
    if isinstance(found, Matches) and "COUNT(*)" not in text:
        found.sample(2, seed=1)
    session = query.session()
    session.push(events.slice(0, 100))
    query.thaw(session.freeze()).push(events.slice(100))


def _run_spaseq() -> None:
    import cernis
    from cernis.generators import market, traffic

    names = {
        "market": {"ns": market.NS, **market.STREAMS},
        "traffic": {"ssn": traffic.SSN, **traffic.STREAMS},
    }
    streams = {"market": market.make_streams(200), "traffic": traffic.make_streams(200)}
    for (name, text), link in product(_STREAMS.items(), (",", ";", ":")):
        query = cernis.query(text.format(link=link, **names[name]), lang="spaseq")
        found = query.run(streams[name])
        found.count()
        found.head(2)
