"""Sessions that get their streams in pieces, by hand; `test_differential` has random ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import cernis
from cernis.rdf.matches import GraphMatches
from cernis.rdf.query import GraphQuery
from cernis.rdf.session import GraphSession

PAIRS = """
PREFIX : <urn:x:>
SELECT ?a ?b WITHIN 1 MINUTE FROM STREAM S <urn:x:s> FROM STREAM T <urn:x:t>
WHERE { SEQ (A : B) DEFINE GPM A ON S { ?a :is ?k } DEFINE GPM B ON T { ?b :was ?k } }
"""


def write_event(verb: str, time: int, *, what: str = "<urn:x:a>") -> bytes:
    return f"{what} <urn:x:{verb}> <urn:x:k> <urn:x:{verb}/{time}> .\n".encode()


def open_session(**options: Any) -> GraphSession:
    return cernis.query(PAIRS, lang="spaseq").session(time_unit="s", **options)


def ends(matches: GraphMatches) -> list[Any]:
    return [match.end_ts for match in matches]


def test_the_last_timestamp_waits_for_a_later_event() -> None:
    session = open_session()
    assert ends(session.push({"S": write_event("is", 1)})) == []
    assert ends(session.push({"T": write_event("was", 2)})) == []
    assert ends(session.push({"T": write_event("was", 3)})) == [2]
    assert ends(session.finish()) == [3]
    assert session.events == 3


def test_advancing_makes_the_timestamps_before_certain() -> None:
    session = open_session()
    session.push({"S": write_event("is", 1), "T": write_event("was", 2)})
    assert ends(session.advance(2)) == []
    assert ends(session.advance(3)) == [2]
    with pytest.raises(cernis.DataError) as raised:
        session.push({"S": write_event("is", 2)})
    assert str(raised.value) == (
        "S, graph <urn:x:is/2> (event 1): time goes back: 2 comes after 3, to which the session "
        "has advanced"
    )


def test_pieces_follow_each_other_in_time() -> None:
    session = open_session()
    session.push({"S": write_event("is", 7)})
    with pytest.raises(cernis.DataError, match="time goes back: 5 comes after 7 of the graph"):
        session.push({"T": write_event("was", 5)})
    with pytest.raises(cernis.StateError, match="has failed before"):
        session.push({"T": write_event("was", 9)})


def test_an_event_must_not_be_in_two_pieces() -> None:
    session = open_session()
    session.push({"S": write_event("is", 7)})
    with pytest.raises(cernis.DataError) as raised:
        session.push({"S": write_event("is", 7, what="<urn:x:b>")})
    assert str(raised.value) == (
        "S, quad 1, graph <urn:x:is/7>: the piece before this one has quads of the graph already: "
        "<urn:x:b> <urn:x:is> <urn:x:k> .; push all quads of an event in one piece"
    )


def same_subject() -> GraphQuery:
    """A query for two events of one stream about one subject."""
    text = PAIRS.replace("SELECT ?a ?b", "SELECT ?a").replace("?b", "?a")
    query = cernis.query(text, lang="spaseq").query
    return GraphQuery(replace(query, gpms=tuple(replace(g, streams=("S",)) for g in query.gpms)))


def test_a_label_of_a_blank_node_is_one_node_in_all_pieces() -> None:
    session = same_subject().session(time_unit="s")
    session.push({"S": write_event("is", 1, what="_:b")})
    session.push({"S": write_event("was", 2, what="_:b")})
    assert ends(session.finish()) == [2]


def test_nodes_without_a_label_are_others_in_each_piece() -> None:
    session = same_subject().session(time_unit="s", format="trig")
    session.push({"S": b"<urn:x:e/1> { [] <urn:x:is> <urn:x:k> }"})
    session.push({"S": b"<urn:x:e/2> { [] <urn:x:was> <urn:x:k> }"})
    assert ends(session.finish()) == []


def test_nothing_follows_the_end() -> None:
    session = open_session()
    session.push({"S": write_event("is", 1)})
    session.finish()
    for go_on in (lambda: session.push({}), lambda: session.advance(5)):
        with pytest.raises(cernis.StateError, match="no events can follow; begin a new one"):
            go_on()
    assert session.finish().count() == 0


def test_an_unknown_stream_leaves_the_session_as_it_was() -> None:
    session = open_session()
    session.push({"S": write_event("is", 1)})
    with pytest.raises(cernis.DataError, match="the query has no stream 'U'"):
        session.push({"U": write_event("was", 2)})
    session.push({"T": write_event("was", 2)})
    assert ends(session.finish()) == [2]


def test_a_session_that_keeps_nothing_cannot_be_pulled() -> None:
    with pytest.raises(cernis.StateError, match="open the session with keep=True"):
        open_session().pull()


def test_many_pieces_are_few_batches_of_rows() -> None:
    session = open_session()
    for time in range(300):
        session.push({"S": write_event("is", time)})
    assert session.feed.store.size == 299
    assert len(list(session.feed.store.codes())) < 10
    assert session.push({"T": write_event("was", 300)}).count() == 0
    found = session.finish()
    assert [match.events[0] for match in found] == [("S", n) for n in range(299, 239, -1)]
