"""Warnings about the graphs of a run, each with its exact text."""

from __future__ import annotations

import pytest

import cernis

QUERY = """PREFIX : <urn:x:>
SELECT ?a WITHIN 1 MINUTES FROM STREAM S <urn:x:s>
WHERE {
  SEQ (A ; B)
  DEFINE GPM A ON S { ?a :price ?p }
  DEFINE GPM B ON S { ?a :volume ?v FILTER (?v > 5) }
}"""
ABSENT = """line 6, column 26: no event has the predicate <urn:x:volume>
    DEFINE GPM B ON S { ?a :volume ?v FILTER (?v > 5) }
                           ^^^^^^^
  help: did you mean '<urn:x:volumes>'?"""
ODD_TIMES = """the times lie in January 1970, if the time of an event counts milliseconds
  help: in seconds they begin on 2023-11-14: write --time-unit s, in Python time_unit="s\""""
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"


def make_events(first: str, second: str, begin: int = 0) -> bytes:
    return "".join(
        f'<urn:x:a> <urn:x:{name}> "{i}"^^{INTEGER} <urn:x:e{i}/at/{begin + i}> .\n'
        for i, name in enumerate((first, second))
    ).encode()


def find_notes(events: bytes) -> list[tuple[str, str]]:
    notes = cernis.query(QUERY, lang="spaseq").run(events).notes
    return [(getattr(note, "code", ""), str(note)) for note in notes]


def test_a_predicate_that_no_event_has_is_named_with_the_closest() -> None:
    assert find_notes(make_events("price", "volumes")) == [("absent-type", ABSENT)]


def test_a_graph_pattern_that_no_event_satisfies_is_to_blame() -> None:
    ((code, note),) = find_notes(make_events("price", "volume"))
    assert code == "unmet-condition"
    assert note.startswith(
        "line 6, column 14: nothing can match: no event satisfies the graph pattern B\n"
    )


def test_times_in_another_unit_are_told_with_the_unit() -> None:
    notes = find_notes(make_events("price", "volume", begin=1_700_000_000))
    assert notes[0] == ("odd-times", ODD_TIMES)


@pytest.mark.parametrize("bad", [1, 3])
def test_a_stream_of_which_most_was_left_out_warns(bad: int) -> None:
    lines = make_events("price", "volume") + b"nonsense\n" * bad
    found = cernis.query(QUERY, lang="spaseq").run(lines, on_error="skip").notes
    codes = [getattr(note, "code", "") for note in found]
    assert ("most-skipped" in codes) == (bad > 2)


def test_more_events_may_come_after_a_push_so_it_tells_nothing() -> None:
    session = cernis.query(QUERY, lang="spaseq").session()
    assert session.push(make_events("price", "other")).notes == ()


def test_a_strict_run_raises_its_warnings() -> None:
    query, events = cernis.query(QUERY, lang="spaseq"), make_events("price", "volumes")
    with pytest.raises(cernis.StrictError, match="no event has the predicate"):
        query.run(events, strict=True)
    with pytest.raises(cernis.StrictError, match="no event has the predicate"):
        list(query.stream(events, strict=True))
    assert len(query.run(events, strict=False).notes) == 1
