"""Sessions over long streams: dropping rows and terms does not change the matches."""

from __future__ import annotations

from typing import Any
from unittest import mock

import cernis
from cernis.engine.linked import runtime
from cernis.generators import market
from cernis.rdf.reading import merge

PAIRS = """
PREFIX : <http://example/>
SELECT ?company ?p ?q WITHIN 2 MINUTES FROM STREAM S1 <http://stockmarket.org/stocks>
WHERE {
  SEQ (A ; B)
  DEFINE GPM A ON S1 { ?company :price ?p }
  DEFINE GPM B ON S1 { ?company :price ?q FILTER (?q < ?p) }
}
"""


def describe_matches(matches: Any) -> list[Any]:
    return sorted((m.start_ts, m.end_ts, m.events, sorted(m.bindings.items())) for m in matches)


def test_terms_and_rows_in_no_state_are_dropped() -> None:
    query = cernis.query(PAIRS, lang="spaseq")
    streams = market.make_streams(5_000, seed=3)
    keeping = query.session()
    whole = keeping.collect(streams)
    session = query.session()
    session.feed.many_rows = session.feed.many_terms = 1000
    found = []
    with mock.patch.object(merge, "EVENTS", 200):
        for matches in session.stream(streams):
            found += describe_matches(matches)
    assert sorted(found) == describe_matches(whole)
    assert session.feed.store.size < 3 * 1000
    assert len(session.feed.terms) < len(keeping.feed.terms)


def test_any_number_of_events_may_share_a_timestamp() -> None:
    query = """
    PREFIX : <urn:x:>
    SELECT ?a WITHIN 1 SECOND FROM STREAM S <urn:x:s>
    WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is 1 } DEFINE GPM B ON S { ?b :is 2 } }
    """
    one, two = (f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in (1, 2))
    many = 20_000
    lines = [f"<urn:x:a{i}> <urn:x:is> {one} <urn:x:first-{i}/at/7> ." for i in range(many)]
    lines += [f"<urn:x:b{i}> <urn:x:is> {two} <urn:x:then-{i}/at/9> ." for i in range(many)]
    matches = cernis.query(query, lang="spaseq").run("\n".join(lines).encode())
    assert matches.count() == many**2


def test_a_timestamp_may_need_room_in_several_arrays_at_once() -> None:
    query = """
    PREFIX : <urn:x:>
    SELECT ?a ?b WITHIN 1 SECOND FROM STREAM S <urn:x:s>
    WHERE { SEQ (A : B) DEFINE GPM A ON S { ?a :is ?k } DEFINE GPM B ON S { ?b :was ?k } }
    """
    few, many = 8, 300
    lines = [f"<urn:x:a{i}> <urn:x:is> <urn:x:k{i}> <urn:x:first-{i}/at/7> ." for i in range(few)]
    lines += [
        f"<urn:x:b{i}> <urn:x:was> <urn:x:k{i % few}> <urn:x:then-{i}/at/9> ." for i in range(many)
    ]
    with (
        mock.patch.object(runtime, "FIRST_ENTRIES", 4),
        mock.patch.object(runtime, "FIRST_RECORDS", 4),
    ):
        matches = cernis.query(query, lang="spaseq").run("\n".join(lines).encode())
    assert matches.count() == many
