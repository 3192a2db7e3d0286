"""Pictures of a match in text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cernis.views.text_timeline import write_timeline


def test_a_short_match_shows_what_it_skips() -> None:
    assert write_timeline({"buy": [0], "s": [2]}, 0, 2, ends=("row 7", "row 9")).splitlines() == [
        "    row 7 row 9",
        "buy ●──·──·",
        "s   ·──·──●",
    ]


def test_a_single_event_is_a_single_mark() -> None:
    assert write_timeline({"a": [4]}, 4, 4) == "  4\na ●"


def test_a_long_match_is_scaled_to_the_width() -> None:
    first, second = write_timeline(
        {"a": [0, 500_000, 1_000_000]}, 0, 1_000_000, width=21
    ).splitlines()
    assert second == "a ●─────────●─────────●"
    assert first == "  0             1000000"


@given(
    st.integers(0, 1000),
    st.integers(0, 5000),
    st.integers(1, 120),
    st.lists(st.floats(0, 1), max_size=5),
)
def test_every_variable_has_its_marks_within_the_width(
    start: int, span: int, width: int, places: list[float]
) -> None:
    positions = sorted({start + round(place * span) for place in places})
    lines = write_timeline({"x": positions, "y": []}, start, start + span, width=width).splitlines()
    assert len(lines) == 3
    assert len(lines[1]) <= max(width, 2) + 2
    assert lines[2].count("●") == 0
    assert (lines[1].count("●") > 0) == bool(positions)
    assert lines[1].count("●") <= len(positions)


def test_a_long_name_is_cut() -> None:
    assert write_timeline({"x" * 40: [0]}, 0, 0).splitlines()[1] == "x" * 15 + "… ●"
