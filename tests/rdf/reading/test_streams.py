"""Quads to events, and several streams to one order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.errors import DataError
from cernis.rdf.reading import merge
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Terms
from cernis.rdf.reading.times import DATETIME_IN_NAME, DIGITS_IN_NAME, TimeRule

XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"


class Seen(NamedTuple):
    time: int
    stream: int
    number: int
    triples: frozenset[tuple[str, str, str]]


def describe_events(batches: Iterable[GraphEvents], terms: Terms) -> list[Seen]:
    """Every event, after a look at the promises of the arrays."""
    found = []
    for batch in batches:
        assert batch.size
        assert batch.first[0] == 0
        assert batch.first[-1] == len(batch.s) == len(batch.p) == len(batch.o)
        for i in range(batch.size):
            rows = slice(int(batch.first[i]), int(batch.first[i + 1]))
            codes = list(zip(batch.p[rows].tolist(), batch.s[rows], batch.o[rows], strict=True))
            assert all(one < other for one, other in pairwise(codes))
            triples = frozenset((terms.text(s), terms.text(p), terms.text(o)) for p, s, o in codes)
            found.append(
                Seen(int(batch.times[i]), int(batch.streams[i]), int(batch.numbers[i]), triples)
            )
    return found


def read_events(*streams: str, **options: Any) -> list[Seen]:
    terms = Terms()
    sources = {f"S{i + 1}": text.encode() for i, text in enumerate(streams)}
    return describe_events(Streamset(sources, terms, **options), terms)


def integer(n: int) -> str:
    return f'"{n}"^^<{XSD}integer>'


def quad(graph: str, o: str = "<http://x/o>", p: str = "<http://x/p>") -> str:
    return f"<http://x/s> {p} {o} {graph} .\n"


def at(graph: str, time: int) -> str:
    return f"{graph} {PROV} {integer(time)} .\n"


# ------------------------------------------------------------- any streams


class Written(NamedTuple):
    """A stream as text, and the events that are in it."""

    text: str
    events: list[Seen]


@st.composite
def streams(draw: st.DrawFn, stream: int = 0) -> Written:
    """Events whose quads are mixed; their graphs begin in the order of time."""
    times = np.cumsum(draw(st.lists(st.integers(0, 3), max_size=12))).tolist()
    events, waiting = [], []
    for i, time in enumerate(times):
        name = f"<http://x/{stream}/e{i}>"
        objects = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4))
        lines = [quad(name, f'"{o}"') for o in objects]
        triples = {("<http://x/s>", "<http://x/p>", f'"{o}"') for o in objects}
        if draw(st.booleans()):
            lines.append(f'{name} <http://x/about> "it" .\n')
            triples.add((name, "<http://x/about>", '"it"'))
        lines.insert(draw(st.integers(0, len(lines))), at(name, time))
        triples.add((name, PROV, integer(time)))
        waiting.append(lines)
        events.append(Seen(time * 10**6, stream, i, frozenset(triples)))
    text, begun = "", 0
    while any(waiting):
        i = draw(st.sampled_from([k for k, lines in enumerate(waiting[: begun + 1]) if lines]))
        line = waiting[i].pop(0)
        text += line
        if i == begun:
            while not line.startswith("<http://x/s>"):
                line = waiting[i].pop(0)
                text += line
            begun += 1
    return Written(text, events)


@given(streams(), st.integers(1, 30))
def test_mixed_quads_give_the_same_events_in_batches_of_any_size(one: Written, size: int) -> None:
    assert read_events(one.text, batch=size) == one.events
    assert read_events(one.text) == one.events


@given(streams(), st.integers(1, 30), st.integers(1, 30))
def test_a_small_reach_changes_nothing_or_is_an_error(one: Written, reach: int, size: int) -> None:
    def read_in_batches(batch: int) -> list[Seen] | str:
        try:
            return read_events(one.text, batch=batch, reach=reach)
        except DataError:
            return "a mistake"

    found = read_in_batches(size)
    assert found in (one.events, "a mistake")
    assert found == read_in_batches(1000)


@given(streams(0), streams(1), streams(2), st.integers(1, 20), st.integers(1, 5))
def test_streams_are_merged_by_time_then_stream_then_number(
    one: Written, two: Written, three: Written, size: int, most: int
) -> None:
    expected = sorted([*one.events, *two.events, *three.events], key=lambda e: e[:3])
    terms = Terms()
    sources = {n: w.text.encode() for n, w in zip("abc", (one, two, three), strict=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "EVENTS", most)
        batches = list(Streamset(sources, terms, batch=size))
    assert describe_events(batches, terms) == expected
    for before, after in pairwise(batches):
        assert before.times[-1] < after.times[0]
    assert all(b.size <= most or len(set(b.times.tolist())) == 1 for b in batches)


def test_a_long_stream_comes_in_many_batches() -> None:
    text = "".join(at(g, i) + quad(g) for i in range(3000) if (g := f"<http://x/e{i}>"))
    terms = Terms()
    batches = list(Streamset({"S": text.encode()}, terms, batch=64, reach=8))
    assert len(batches) > 20
    assert [e.number for e in describe_events(batches, terms)] == list(range(3000))


def test_a_graph_larger_than_the_reach_is_one_event() -> None:
    text = at("<urn:g>", 1) + "".join(quad("<urn:g>", f'"{i % 700}"') for i in range(1500))
    [event] = read_events(text, reach=4, batch=16)
    assert len(event.triples) == 701


# -------------------------------------------------------------- where a time is


def find_rule(text: str, **options: Any) -> TimeRule | None:
    events = Streamset({"S": text.encode()}, Terms(), **options)
    assert not events.rules["S"].is_decided()
    list(events)
    rule = events.rules["S"]
    return rule if rule.is_decided() else None


def test_the_time_may_be_in_the_default_graph_like_all_that_is_said_of_the_event() -> None:
    [event] = read_events(at("<urn:g>", 7) + quad("<urn:g>"))
    said = {("<http://x/s>", "<http://x/p>", "<http://x/o>"), ("<urn:g>", PROV, integer(7))}
    assert event == Seen(7_000_000, 0, 0, frozenset(said))


def test_the_time_may_be_in_the_graph_itself_and_stays_in_it() -> None:
    [event] = read_events(quad("<urn:g>") + f"<urn:g> {PROV} {integer(7)} <urn:g> .")
    assert event.time == 7_000_000
    assert ("<urn:g>", PROV, integer(7)) in event.triples


def test_the_only_value_in_the_graph_is_the_time_whatever_its_subject() -> None:
    said = "<http://x/sensor> <http://www.w3.org/ns/sosa/resultTime>"
    [event] = read_events(
        quad("<urn:g>") + f'{said} "1970-01-01T00:00:01Z"^^<{XSD}dateTime> <urn:g> .'
    )
    assert event.time == 10**9


def test_a_triple_about_the_graph_itself_counts_before_others() -> None:
    text = quad("<urn:g>", integer(9), PROV) + at("<urn:g>", 7)
    assert [e.time for e in read_events(text)] == [7_000_000]


def test_the_same_time_said_twice_is_one_time() -> None:
    moment = f'"1970-01-01T00:00:00.007Z"^^<{XSD}dateTime>'
    text = at("<urn:g>", 7) + quad("<urn:g>") + f"<urn:g> {PROV} {moment} <urn:g> .\n"
    assert [e.time for e in read_events(text)] == [7_000_000]


def test_a_property_can_be_configured() -> None:
    text = quad("<urn:g1>", integer(5), "<http://x/at>") + quad(
        "<urn:g2>", integer(6), "<http://x/at>"
    )
    for iri in ("http://x/at", "<http://x/at>"):
        rule = TimeRule(property=iri, unit="s")
        assert [e.time for e in read_events(text, time=rule)] == [5 * 10**9, 6 * 10**9]


def test_a_pattern_can_be_configured_for_one_of_the_streams() -> None:
    one, two = quad("<urn:e:5:x>"), quad("<urn:e:6>")
    rule = TimeRule(pattern=r":(\d+):")
    assert [e.time for e in read_events(one, two, time={"S1": rule})] == [5_000_000, 6_000_000]
    with pytest.raises(DataError, match="no stream 'S3' to read times of"):
        read_events(one, time={"S3": rule})


def test_the_first_event_decides_and_the_choice_is_told() -> None:
    about = f"<urn:g1> <http://x/when> {integer(3)} .\n"
    known = "http://www.w3.org/ns/prov#generatedAtTime"
    assert find_rule(at("<urn:g1>", 1) + quad("<urn:g1>")) == TimeRule(property=known)
    assert find_rule(about + quad("<urn:g1>")) == TimeRule(property="http://x/when")
    assert find_rule(quad("<urn:g1>")) == TimeRule(pattern=DIGITS_IN_NAME)
    dated = "<urn:g:2024-01-01T00:00:00Z>"
    assert find_rule(quad(dated)) == TimeRule(pattern=DATETIME_IN_NAME)
    # a number about something else says nothing about the event
    assert find_rule(quad("<urn:g1>", integer(5))) == TimeRule(pattern=DIGITS_IN_NAME)


def test_a_stream_that_says_its_time_in_two_ways_is_a_mistake() -> None:
    with pytest.raises(
        DataError, match=r"graph <urn:g2> \(event 1\): the event has no time: no <h"
    ):
        read_events(at("<urn:g1>", 1) + quad("<urn:g1>") + quad("<urn:g2>"))


# ----------------------------------------------------------------- mistakes


def read_and_skip(text: str, **options: Any) -> tuple[list[int], list[str]]:
    """Numbers of the events that are left, and what was wrong with the rest."""
    terms, reasons = Terms(), []
    stream = Streamset(
        {"S": text.encode()}, terms, bad=lambda bad: reasons.append(bad["reason"]), **options
    )
    numbers = [event.number for event in describe_events(stream, terms)]
    assert stream.skipped == {"S": len(reasons)}
    return numbers, reasons


@pytest.mark.parametrize("size", [1, 1000])
def test_events_without_a_proper_time_are_left_out_and_keep_their_numbers(size: int) -> None:
    text = (
        at("<urn:a>", 1) + quad("<urn:a>")
        + quad("<urn:b>")
        + at("<urn:c>", 2) + at("<urn:c>", 3) + quad("<urn:c>")
        + f'<urn:d> {PROV} "yesterday" .\n' + quad("<urn:d>")
        + at("<urn:e>", 4) + quad("<urn:e>")
    )  # fmt: skip
    numbers, reasons = read_and_skip(text, batch=size)
    assert numbers == [0, 4]
    assert "has no time" in reasons[0]
    assert "two times" in reasons[1]
    assert ": 2 and 3" in reasons[1]
    assert '"yesterday" by' in reasons[2]
    assert "^^xsd:dateTime" in reasons[2]


def test_when_the_first_event_has_no_time_the_next_one_decides() -> None:
    numbers, reasons = read_and_skip(quad("<urn:a>") + at("<urn:b>", 1) + quad("<urn:b>"))
    assert numbers == [1]
    assert len(reasons) == 1


def test_an_event_without_any_time_is_told_what_was_tried(tmp_path: Path) -> None:
    path = tmp_path / "power.nq"
    path.write_text(quad("<urn:g>"))
    with pytest.raises(DataError) as caught:
        list(Streamset({"S": path}, Terms()))
    message = str(caught.value)
    assert message.startswith(f"{path}, graph <urn:g> (event 0): the event has no time: none of")
    assert "say with --time (in Python time=) which property or part of the name it is" in message


@pytest.mark.parametrize("size", [1, 1000])
def test_time_that_goes_back_is_a_mistake_with_both_times(size: int) -> None:
    times = {"<urn:a>": 5, "<urn:b>": 9, "<urn:c>": 7, "<urn:d>": 9, "<urn:e>": 8}
    text = "".join(at(name, time) + quad(name) for name, time in times.items())
    with pytest.raises(DataError) as caught:
        read_events(text, batch=size)
    assert str(caught.value) == (
        "S1, graph <urn:c> (event 2): time goes back: 7 comes after 9 of the "
        "graph <urn:b>; sort the events of a stream by time"
    )
    numbers, reasons = read_and_skip(text, batch=size)
    assert numbers == [0, 1, 3]
    assert "of the graph <urn:b>" in reasons[0]
    assert "of the graph <urn:d>" in reasons[1]


def test_a_triple_about_no_event_is_a_mistake_with_a_suggestion() -> None:
    stray = "<http://x/s> <http://x/p> <http://x/o> .\n"
    text = stray + at("<urn:g>", 1) + quad("<urn:g>")
    with pytest.raises(DataError, match=r"S1: .* is about no event: <http://x/s> .* background"):
        read_events(text)
    numbers, reasons = read_and_skip(text + stray.replace("/o>", "/o2>"))
    assert (numbers, len(reasons)) == ([0], 2)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_quad_that_comes_too_late_is_a_mistake(size: int) -> None:
    others = "".join(at(g, i + 2) + quad(g) for i in range(20) if (g := f"<urn:g{i}>"))
    text = at("<urn:a>", 1) + quad("<urn:a>") + others + quad("<urn:a>", '"late"')
    with pytest.raises(DataError, match=r"quad 42, graph <urn:a>: .* more than 10 quads after"):
        read_events(text, reach=10, batch=size)
    numbers, reasons = read_and_skip(text, reach=10, batch=size)
    assert numbers == list(range(21))
    assert len(reasons) == 1
    assert any('"late"' in triple for e in read_events(text) for triple in e.triples)


def test_bad_lines_and_bad_events_are_counted_together() -> None:
    text = at("<urn:a>", 1) + quad("<urn:a>") + "what\n" + quad("<urn:b>")
    assert [len(part) for part in read_and_skip(text)] == [1, 2]


def test_trig_and_empty_streams_are_streams_too() -> None:
    trig = f"""
        @prefix : <http://x/> . @prefix prov: <http://www.w3.org/ns/prov#> .
        :g1 prov:generatedAtTime 1 . :g1 {{ :s :p [ :q 1 ] }}
        :g2 {{ :s :p :o }} :g2 prov:generatedAtTime "1970-01-01T00:00:00.002Z"^^<{XSD}dateTime> .
    """
    assert [(e.time, len(e.triples)) for e in read_events(trig, "", format="trig")] == [
        (1_000_000, 3),
        (2_000_000, 2),
    ]
    assert read_events("", "") == []
