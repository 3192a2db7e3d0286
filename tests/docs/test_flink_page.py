"""The page for those who come from Flink: its queries equal a model of Flink's automata."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from flink_model import (
    Step,
    begin,
    following,
    following_any,
    match_events,
    not_next,
    right_after,
)

import cernis

PAGE = Path(__file__).parents[2] / "docs/how-to/coming-from-flink.md"
LOOP = following("A").one_or_more()
MANY = following("B").one_or_more()
B, C = following("B"), following("C")


def unless(step: Step, kind: str) -> Step:
    """`notFollowedBy(kind)` before a step."""
    return Step(step.type, step.follows, absent=frozenset(kind))


def draw_streams(steps: Sequence[Step]) -> list[list[str]]:
    """Return random streams of the types of a pattern, and one more."""
    named = {step.type for step in steps} | {step.until for step in steps if step.until}
    types = sorted(named.union("D", *(step.absent for step in steps)))
    rng = random.Random(34)
    return [[rng.choice(types) for _ in range(10)] for _ in range(60)]


def find(query: cernis.Query, kinds: Sequence[str]) -> set[tuple[int, ...]]:
    events = [{"type": kind, "ts": 1000 * i} for i, kind in enumerate(kinds)]
    return {
        tuple(sorted({row for rows in match.vars.values() for row in rows}))
        for match in query.run(events)
    }


def make_query(where: str, select: str = "*", clauses: str = "") -> cernis.Query:
    return cernis.query(f"SELECT {select} FROM S WHERE ({where}) {clauses}")


SAME: list[tuple[list[Step], str]] = [
    ([begin("A"), right_after("B")], "A : B"),
    ([begin("A"), B], "A -> B"),
    ([begin("A"), following_any("B")], "A ; B"),
    ([begin("C"), LOOP, B], "C -> A->+ -> B"),
    ([begin("C"), LOOP.consecutive(), B], "C -> A:+ -> B"),
    ([begin("C"), LOOP.allow_combinations(), B], "C -> A+ -> B"),
    ([begin("A"), following("B").times(2, 2), C], "A -> B->{2} -> C"),
    ([begin("A"), following("B").times(2, None), C], "A -> B->{2,} -> C"),
    ([begin("A"), MANY.optional(), C], "A -> B->{0,} -> C"),
    (
        [begin("A"), following_any("B").one_or_more().consecutive(), following_any("C")],
        "A ; B:+ ; C",
    ),
    ([begin("A"), following_any("B").one_or_more(), following_any("C")], "A ; B->+ ; C"),
    (
        [begin("A"), following_any("B").one_or_more().allow_combinations(), following_any("C")],
        "A ; B+ ; C",
    ),
    ([Step("A", high=None, until="B")], "A->+ UNLESS B"),
    ([begin("A"), MANY], "A -> B->+"),
    ([begin("B").one_or_more(), right_after("C")], "B->+ : C"),
    # greedy
    ([begin("A").one_or_more().greedy(), B], "A->{0,} -> ((A -> B) UNLESS A)"),
    ([begin("C"), LOOP.greedy(), B], "C -> A->{0,} -> ((A -> B) UNLESS A)"),
    ([begin("C"), LOOP.consecutive().greedy(), B], "C -> (A:{0,} : ((A -> B) UNLESS A))"),
    ([begin("C"), LOOP.allow_combinations().greedy(), B], "C -> (A{0,} ; ((A -> B) UNLESS A))"),
    (
        [begin("C"), following("A").times(2, 3).greedy(), B],
        "C -> A->{1,2} -> ((A -> B) UNLESS A)",
    ),
    ([begin("C"), LOOP.greedy(), following_any("B")], "C -> A->{0,} -> ((A ; B) UNLESS A)"),
    (
        [begin("C"), LOOP.optional().greedy(), B],
        "((C -> B) UNLESS A) OR (C -> A->{0,} -> ((A -> B) UNLESS A))",
    ),
    ([begin("A"), MANY.greedy()], "A -> B->+"),
    # negation
    ([begin("A"), not_next("B")], "A : NOT B"),
    ([begin("A"), not_next("B"), right_after("C")], "A : C"),
    ([begin("A"), not_next("B"), C], "(A : C) OR ((A : NOT (B OR C)) -> C)"),
    ([begin("A"), unless(C, "B")], "(A -> C) UNLESS B"),
    (
        [begin("X"), following("A"), unless(C, "B"), following("Y")],
        "X -> ((A -> C) UNLESS B) -> Y",
    ),
]


@pytest.mark.parametrize(("steps", "where"), SAME, ids=[where for _, where in SAME])
def test_a_query_of_the_page_finds_what_flink_finds(steps: list[Step], where: str) -> None:
    assert where in PAGE.read_text()
    query, number = make_query(where), 0
    for kinds in draw_streams(steps):
        found = match_events(steps, kinds)
        assert find(query, kinds) == found
        number += len(found)
    assert number > 0


@pytest.mark.parametrize("written", ["A?", "(A->{2,4})?", "A->{4}", "A:{4}", "A{4}"])
def test_optional_parts_and_numbers_of_rounds_find_what_flink_finds(written: str) -> None:
    steps = {
        "A?": following("A").optional(),
        "(A->{2,4})?": following("A").times(2, 4).optional(),
        "A->{4}": following("A").times(4, 4),
        "A:{4}": following("A").times(4, 4).consecutive(),
        "A{4}": following("A").times(4, 4).allow_combinations(),
    }
    assert f"`{written}`" in PAGE.read_text()
    chain = [begin("C"), steps[written], B]
    query = make_query(f"C -> {written} -> B")
    assert all(find(query, kinds) == match_events(chain, kinds) for kinds in draw_streams(chain))


def test_a_window_of_flink_leaves_out_its_bound() -> None:
    chain = [begin("A"), B]
    below, at = make_query("A ; B", clauses="WITHIN 2.999 SECONDS"), "WITHIN 3 SECONDS"
    wide = [begin("A"), following_any("B")]
    for kinds in draw_streams(chain):
        found = match_events(wide, kinds, within=3)
        assert find(below, kinds) == found
        assert find(make_query("A ; B", clauses=at), kinds) >= found
    assert find(make_query("A ; B", clauses=at), "ADDB") == {(0, 3)}
    assert match_events(wide, "ADDB", within=3) == set()


@pytest.mark.parametrize(
    ("steps", "where"),
    [
        ([begin("A"), B], "A -> B"),
        ([begin("A"), right_after("B"), right_after("C")], "A : B : C"),
    ],
)
def test_skipping_past_the_last_event_is_next_and_consume(steps: list[Step], where: str) -> None:
    query = make_query(where, "NEXT *", "CONSUME BY ANY")
    for kinds in draw_streams(steps):
        assert find(query, kinds) == match_events(steps, kinds, skip="skip past last")


def test_where_next_and_consume_differ_from_skipping_past_the_last_event() -> None:
    steps, kinds = [begin("A"), following_any("B")], "AABAB"
    query = make_query("A ; B", "NEXT *", "CONSUME BY ANY")
    assert match_events(steps, kinds, skip="skip past last") == {(0, 2), (3, 4)}
    assert find(query, kinds) == {(0, 2)}
    steps, kinds = [begin("A"), B, C], "ABACABC"
    query = make_query("A -> B -> C", "NEXT *", "CONSUME BY ANY")
    assert match_events(steps, kinds, skip="skip past last") == {(0, 1, 3), (4, 5, 6)}
    assert find(query, kinds) == {(0, 1, 3)}


def test_skipping_to_the_next_start_is_the_pattern_with_its_first_end() -> None:
    steps = [begin("A"), MANY]
    query = make_query("A -> B")
    for kinds in draw_streams(steps):
        assert find(query, kinds) == match_events(steps, kinds, skip="skip to next")


def test_strategies_are_not_greedy() -> None:
    """What the page said before: NEXT and MAX leave out starts, or keep shorter loops."""
    steps = [begin("A").one_or_more().greedy(), B]
    greedy = make_query("A->{0,} -> ((A -> B) UNLESS A)")
    for strategy in ("NEXT", "MAX"):
        other = make_query("A->+ -> B", f"{strategy} *")
        assert any(find(other, kinds) != find(greedy, kinds) for kinds in draw_streams(steps))
