"""Texts of graphs, read on their own: events, times, names of blank nodes, and what is rejected."""

from __future__ import annotations

from typing import Any

import pytest

from cernis.rdf.reading.messages import GraphTextReader
from cernis.rdf.reading.terms import UNBOUND, Terms
from cernis.rdf.reading.times import TimeRule

BY_NAME = TimeRule(pattern="([0-9]+)$", unit="s")
QUAD = b'<urn:a> <urn:p> "1" <urn:e:%d> .'


def read(messages: list[bytes], rule: TimeRule = BY_NAME, format: str = "nq") -> Any:
    """The events as (number, seconds, name of the graph, triples), and the rejected numbers."""
    terms, rejected = Terms(), {}
    reader = GraphTextReader(terms, rule, format)
    scopes = [f"m{i}" for i in range(len(messages))]
    events, names = reader.read_messages(messages, scopes, rejected.__setitem__)
    found = []
    for i in range(events.size):
        own = slice(events.first[i], events.first[i + 1])
        columns = [
            terms.texts(column[own]).to_pylist() for column in (events.s, events.p, events.o)
        ]
        name = None if names[i] == UNBOUND else terms.text(names[i])
        triples = [" ".join(triple) for triple in zip(*columns, strict=True)]
        found.append((int(events.numbers[i]), int(events.times[i]) // 10**9, name, triples))
    return found, rejected


def test_messages_are_events_in_any_order() -> None:
    found, rejected = read([QUAD % 9, QUAD % 5 + b"\n", QUAD % 9])
    assert found == [
        (0, 9, "<urn:e:9>", ['<urn:a> <urn:p> "1"']),
        (1, 5, "<urn:e:5>", ['<urn:a> <urn:p> "1"']),
        (2, 9, "<urn:e:9>", ['<urn:a> <urn:p> "1"']),
    ]
    assert not rejected


@pytest.mark.parametrize(
    "odd", [b"# a comment\n" + QUAD % 3, b"\n\n" + QUAD % 3 + b"\r\n", QUAD % 3 + b" # and so on"]
)
def test_lines_without_a_quad_do_not_shift_the_messages(odd: bytes) -> None:
    found, _ = read([QUAD % 1, odd, QUAD % 4])
    assert [(number, time) for number, time, *_ in found] == [(0, 1), (1, 3), (2, 4)]


def test_a_bad_message_does_not_affect_the_others() -> None:
    found, rejected = read([QUAD % 1, b"<urn:a> .", b"", QUAD % 2, QUAD % 3 + b"\n" + QUAD % 4])
    assert [number for number, *_ in found] == [0, 3]
    assert [*rejected] == [1, 2, 4]
    assert rejected[2] == "there is no triple in it"
    assert rejected[4] == "a message is one graph, and this one has several"


def test_blank_nodes_belong_to_their_message_and_have_the_same_names_each_time() -> None:
    message = b'_:b <urn:p> "_:no" <urn:e:1> .'
    found, _ = read([message, message])
    assert [triples for *_, triples in found] == [
        ['_:m0.b <urn:p> "_:no"'],
        ['_:m1.b <urn:p> "_:no"'],
    ]
    trig = b"<urn:e:1> { [] <urn:p> [] }"
    assert read([trig], format="trig") == read([trig], format="trig")


def test_all_triples_of_a_message_belong_to_its_graph() -> None:
    text = b"<urn:e:4> <urn:is> <urn:X> . <urn:other> <urn:p> 1 . <urn:e:4> { <urn:a> <urn:p> 2 }"
    [(_, time, name, triples)], _ = read([text], format="trig")
    assert (time, name, len(triples)) == (4, "<urn:e:4>", 3)


def test_a_message_without_a_named_graph_is_its_default_graph() -> None:
    at = b'<urn:a> <http://www.w3.org/ns/sosa/resultTime> "1970-01-01T00:00:07Z" .'
    found, rejected = read([at, b"<urn:a> <urn:p> 1 ."], TimeRule(), "ttl")
    assert [(time, name) for _, time, name, _ in found] == [(7, None)]
    assert rejected[1].startswith("the event has no time: none of <http://www.w3.org/ns/prov#")
    assert read([at], BY_NAME, "ttl")[1][0].startswith("its name has no time")


def test_a_context_that_would_have_to_be_fetched_is_rejected() -> None:
    found, rejected = read([b'{"@context": "http://example.org/c", "p": 1}'], format="jsonld")
    assert not found
    assert "remote contexts" in rejected[0]


def test_a_document_has_events_in_any_order_and_its_bad_lines_are_rejected() -> None:
    terms, rejected = Terms(), {}
    reader = GraphTextReader(terms, BY_NAME)
    text = b"\n".join([QUAD % 9, b"no quad", QUAD % 5, b'<urn:b> <urn:p> "2" <urn:e:9> .'])
    [(events, names)] = reader.read_document(text, "d", rejected.__setitem__)
    assert (events.times // 10**9).tolist() == [9, 5]
    assert terms.texts(names).to_pylist() == ["<urn:e:9>", "<urn:e:5>"]
    assert [*rejected] == [2]
    trig = GraphTextReader(Terms(), BY_NAME, "trig")
    assert [*trig.read_document(b"<urn:e:1> {", "d", rejected.__setitem__)] == []
    assert "line 1" in rejected[0]
