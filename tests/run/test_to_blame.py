"""Where nothing matches, a note names the clause or the condition that is to blame."""

from __future__ import annotations

from typing import Any

import pytest

import cernis

EVENTS = [{"type": "AB"[i % 2], "ts": i * 10_000, "x": i} for i in range(60)]


def notes(query: str, events: Any = EVENTS, **options: Any) -> tuple[str, ...]:
    return cernis.query(f"SELECT * FROM S WHERE {query}").run(events, time="ts", **options).notes


@pytest.mark.parametrize(
    ("query", "blamed"),
    [
        ("(A AS a ; B AS b) WITHIN 3 SECONDS", "WITHIN 3 SECONDS"),
        ("(A AS a ; B AS b) PARTITION BY [x]", "PARTITION BY [x]"),
        ("(A AS a ; B AS b) FILTER a[x] > b[x]", "a[x] > b[x]"),
        ("(A AS a ; B AS b) FILTER a[x] > b[x] AND a[x > 3]", "a[x] > b[x]"),
        ("(A AS a ; B AS b ; A) UNLESS B", "UNLESS B"),
        ("A AS a WITHOUT B FOR 10 SECONDS", "WITHOUT B FOR 10 SECONDS"),
        ("((A AS a ; B AS b) PARTITION BY [x]) ; A", "PARTITION BY [x]"),
        ("A+ AS a FILTER COUNT(a) > 40", "COUNT(a) > 40"),
    ],
)
def test_what_is_to_blame_is_named(query: str, blamed: str) -> None:
    assert f"nothing matched; without {blamed} something would" in notes(query)


def test_several_that_are_each_to_blame_are_all_named() -> None:
    assert notes("(A AS a ; B AS b) FILTER b[x] - a[x] > 100 AND a[x] = b[x]") == ()
    (note,) = notes("(A AS a ; B AS b) FILTER b[x] - a[x] > 3 WITHIN 10 SECONDS")
    blamed = "WITHIN 10 SECONDS; b[x] - a[x] > 3"
    assert note == f"nothing matched; without any one of these something would: {blamed}"


def test_nothing_is_blamed_where_something_matches_or_few_events_are_there() -> None:
    assert notes("(A AS a ; B AS b) WITHIN 10 SECONDS") == ()
    assert notes("(A AS a ; B AS b) WITHIN 3 SECONDS", EVENTS[:20]) == ()


def test_a_warning_says_enough() -> None:
    (warning,) = notes("(A AS a ; B AS b) FILTER a[x > 100] WITHIN 3 SECONDS")
    assert warning.startswith("warning") or "no event satisfies" in warning


def test_of_long_streams_the_first_events_are_tried() -> None:
    events = [{"type": "AB"[i % 2], "ts": i * 10_000} for i in range(3000)]
    assert notes("(A AS a ; B AS b) WITHIN 3 SECONDS", events) == (
        "nothing matched; without WITHIN 3 SECONDS something would in the first 2,000 events",
    )


def test_two_streams_out_of_order_are_tried_as_they_were_read() -> None:
    streams = {"S": EVENTS[::2], "R": EVENTS[1::2]}
    query = cernis.query("SELECT * FROM S, R WHERE (A AS a ; B AS b) WITHIN 3 SECONDS")
    assert query.run(streams, time="ts").notes[-1].startswith("nothing matched")


def test_a_stream_has_the_note_at_its_end() -> None:
    session = cernis.query("SELECT * FROM S WHERE (A ; B) WITHIN 3 SECONDS").session(time="ts")
    assert sum(len(piece.head(1)) for piece in session.stream(EVENTS)) == 0
    assert session.notes == ["nothing matched; without WITHIN 3 SECONDS something would"]
