"""The generated RDF streams: as asked for, the same for a seed, and with matches in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest

from cernis.generators import cards, market, nquads, smartgrid, traffic, vessels
from cernis.languages.spaseq import parse
from cernis.rdf.reading.background import load_background
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Terms
from cernis.testing.spaseq.oracle import find_matches

DOMAINS = [smartgrid, cards, market, traffic, vessels]
WITH_BACKGROUND = [smartgrid, cards, vessels]
EXAMPLES = Path(__file__).parents[2] / "examples" / "spaseq"

Graph = frozenset[tuple[str, str, str]]


def events_of(texts: dict[str, bytes], terms: Terms) -> dict[str, list[tuple[int, Graph]]]:
    """The events of each stream, as the reader finds them."""
    found: dict[str, list[tuple[int, Graph]]] = {name: [] for name in texts}
    names = list(texts)
    for batch in Streamset(texts, terms):
        for i in range(batch.size):
            rows = slice(int(batch.first[i]), int(batch.first[i + 1]))
            columns = [terms.texts(c[rows]).to_pylist() for c in (batch.s, batch.p, batch.o)]
            graph = frozenset(zip(*columns, strict=True))
            found[names[batch.streams[i]]].append((int(batch.times[i]), graph))
    return found


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("count", [0, 1, 2, 100, 1001])
def test_a_domain_has_as_many_events_as_asked_for(domain: ModuleType, count: int) -> None:
    texts = domain.make_streams(count, seed=1)
    assert set(texts) == set(domain.STREAMS)
    assert sum(text.count(b"generatedAtTime") for text in texts.values()) == count
    events = events_of(texts, Terms())
    assert sum(map(len, events.values())) == count
    for name, text in texts.items():
        canonical = ox.serialize(
            ox.parse(text, format=ox.RdfFormat.N_QUADS), format=ox.RdfFormat.N_QUADS
        )
        assert canonical == text
        assert text.count(f"<{domain.STREAMS[name]}/".encode()) == text.count(b"\n")


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: d.__name__)
def test_a_seed_gives_one_stream_and_another_seed_another(domain: ModuleType) -> None:
    assert domain.make_streams(500, 1) == domain.make_streams(500, 1)
    assert domain.make_streams(500, 1) != domain.make_streams(500, 2)


@pytest.mark.parametrize("domain", WITH_BACKGROUND, ids=lambda d: d.__name__)
@pytest.mark.parametrize("count", [0, 1, 14, 1000])
def test_a_background_has_as_many_triples_as_asked_for(domain: ModuleType, count: int) -> None:
    text = domain.make_background(count, 1)
    assert text.count(b"\n") == count
    assert text == domain.make_background(count, 1)
    terms = Terms()
    names = [terms.text(name) for name in load_background(text, terms)]
    assert names == ([f"<{domain.GRAPH}>"] if count else [])


def test_events_of_the_roads_share_their_timestamps() -> None:
    events = events_of(traffic.make_streams(300, 1), Terms())
    one, two, three = ([time for time, _ in stream] for stream in events.values())
    assert one == two == three


def test_each_minute_of_the_market_has_a_price_of_every_company() -> None:
    [events] = events_of(market.make_streams(100, 1, companies=5), Terms()).values()
    times = np.array([time for time, _ in events]).reshape(20, 5)
    assert (times == times[:, :1]).all()
    assert (np.diff(times[:, 0]) > 0).all()


def test_a_fleet_or_a_market_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one company"):
        market.make_streams(1, companies=0)
    with pytest.raises(ValueError, match="at least one vessel"):
        vessels.make_streams(1, vessels=0)
    with pytest.raises(ValueError, match="-1 events"):
        cards.make_streams(-1)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: d.__name__)
def test_a_domain_is_a_command_that_writes_files(domain: ModuleType, tmp_path: Path) -> None:
    background: Callable[[int, int], bytes] | None = getattr(domain, "make_background", None)
    arguments = [str(tmp_path / "new"), "--events", "30", "--seed", "7"]
    nquads.main("x", domain.make_streams, background, arguments)
    for name, text in domain.make_streams(30, 7).items():
        assert (tmp_path / "new" / f"{name}.nq").read_bytes() == text
    assert (tmp_path / "new" / "background.nq").exists() == (background is not None)


# ------------------------------------------------------- the paper's queries

QUERIES: list[tuple[str, ModuleType, dict[str, Any], int]] = [
    ("q1", smartgrid, {"events": 240, "seed": 2, "houses": 30, "places": 10}, 100),
    ("q2", cards, {"events": 150, "seed": 1, "cards": 40}, 60),
    ("q3", market, {"events": 600, "seed": 1, "companies": 5}, 0),
    ("q4", market, {"events": 100, "seed": 1, "companies": 5}, 0),
    ("q5", traffic, {"events": 300, "seed": 2}, 0),
    ("q6", vessels, {"events": 300, "seed": 1, "vessels": 10}, 40),
]


@pytest.mark.parametrize(
    ("name", "domain", "options", "triples"), QUERIES, ids=lambda x: str(x)[:2]
)
def test_some_events_match_the_papers_queries_and_some_do_not(
    name: str, domain: ModuleType, options: dict[str, Any], triples: int
) -> None:
    query = parse((EXAMPLES / f"{name}.spaseq").read_text(encoding="utf-8"))
    assert dict(query.streams) == domain.STREAMS
    terms = Terms()
    events = events_of(domain.make_streams(**options), terms)
    known = load_background(domain.make_background(triples, 1), terms) if triples else {}
    kb = {
        terms.text(graph): frozenset(
            zip(*(terms.texts(column).to_pylist() for column in triples), strict=True)
        )
        for graph, triples in known.items()
    }
    starts = {match.events[0] for match in find_matches(query, events, kb)}
    assert 0 < len(starts) < len(events["S1"]) / 2


def test_the_queries_say_what_was_repaired() -> None:
    for path in EXAMPLES.glob("*.spaseq"):
        head = path.read_text(encoding="utf-8").partition("PREFIX")[0]
        assert re.match(rf"# Query {path.stem[1]} of the SPAseQ paper", head)
        assert "# Repaired:" in head
