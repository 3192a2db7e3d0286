from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cernis.languages.ceql.parse import parse
from cernis.pattern.query import Consume, Pattern, Strategy
from cernis.testing import oracle
from cernis.testing.oracle import OracleMatch, evaluate
from cernis.testing.predicates import Event
from tools.cases.differential import Executor, assert_agrees, assert_counts_agree, check
from tools.cases.grammar import EVERYTHING, Events, random_case

PAIRS = "SELECT * FROM S WHERE A ; B"


def events(names: str) -> Events:
    return [{"type": name} for name in names]


def test_the_oracle_agrees_with_itself() -> None:
    for seed in range(200):
        check(*random_case(seed, EVERYTHING), evaluate)


def test_order_and_empty_variables_do_not_count() -> None:
    pattern = parse(PAIRS)
    assert_agrees(
        pattern,
        events("AAB"),
        [(0, 2, {"B": [2], "A": [0]}), (1, 2, {"B": [2], "A": [1], "x": []})],
    )


def test_a_counterexample_shows_query_events_missing_and_surplus() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_agrees(
            parse(PAIRS), events("AAB"), [(0, 2, {"A": [0], "B": [2]}), (0, 2, {"A": [1]})]
        )
    assert str(caught.value).splitlines() == [
        "the answer differs from the oracle's",
        *str(parse(PAIRS)).splitlines(),
        "",
        "row  type",
        "0    'A'",
        "1    'A'",
        "2    'B'",
        "",
        "missing:",
        "  [1, 2]  A = 1  B = 2",
        "surplus:",
        "  [0, 2]  A = 1",
    ]


def test_a_match_given_twice_is_surplus() -> None:
    match = (0, 1, {"A": [0], "B": [1]})
    with pytest.raises(AssertionError, match="surplus"):
        assert_agrees(parse(PAIRS), events("AB"), [match, match])


def test_under_limit_any_matches_will_do_but_so_many() -> None:
    pattern = parse(f"{PAIRS} LIMIT 2")
    found = evaluate(replace(pattern, limit=None), events("AAAB"))
    for left_out in found:
        assert_agrees(pattern, events("AAAB"), [m for m in found if m != left_out])
    for wrong in (found, found[:1]):
        with pytest.raises(AssertionError, match="2 matches that end at 3"):
            assert_agrees(pattern, events("AAAB"), wrong)


Pick = Callable[[Sequence[OracleMatch]], OracleMatch]


def one_of_each_end(pick: Pick) -> Executor:
    """An executor of ANY that picks in its own way, then consumes."""

    def run(pattern: Pattern, given: Sequence[Event]) -> list[OracleMatch]:
        free = replace(pattern, strategy=Strategy.ALL, consume=Consume.NONE, limit=None)
        rank = {row: i for i, row in enumerate(oracle.order_rows(pattern, given))}
        found = evaluate(free, given)
        used: dict[tuple[object, ...], int] = {}
        kept = []
        for end in sorted({m.end for m in found}, key=rank.__getitem__):
            chosen = pick([m for m in found if m.end == end])
            key = chosen.partition if pattern.consume is Consume.PARTITION else ()
            if rank[chosen.start] > used.get(key, -1):
                kept.append(chosen)
                if pattern.consume is not Consume.NONE:
                    used[key] = rank[end]
        return kept

    return run


@pytest.mark.parametrize("pick", [min, max], ids=["one", "the other"])
def test_under_any_every_choice_is_right_and_so_is_what_follows_from_it(
    pick: Callable[..., OracleMatch],
) -> None:
    run = one_of_each_end(lambda here: pick(here, key=lambda m: (m.start, sorted(m.vars.items()))))
    for seed in range(200):
        pattern, given = random_case(seed, replace(EVERYTHING, strategies=(Strategy.ANY,)))
        if pattern.limit != 0:
            check(pattern, given, run)


def test_under_any_two_matches_none_or_a_wrong_one_are_noticed() -> None:
    pattern = parse("SELECT ANY * FROM S WHERE A ; B")
    found = evaluate(replace(pattern, strategy=Strategy.ALL), events("AAB"))
    with pytest.raises(AssertionError, match="where one is asked for"):
        assert_agrees(pattern, events("AAB"), found)
    with pytest.raises(AssertionError, match="a match that ends at 2"):
        assert_agrees(pattern, events("AAB"), [])
    with pytest.raises(AssertionError, match="surplus"):
        assert_agrees(pattern, events("AAB"), [(0, 2, {"A": [0]})])


def test_under_any_a_match_that_is_used_up_is_noticed() -> None:
    pattern = parse("SELECT ANY * FROM S WHERE A ; B CONSUME BY ANY")
    first, late = (0, 1, {"A": [0], "B": [1]}), (0, 2, {"A": [0], "B": [2]})
    assert_agrees(pattern, events("ABB"), [first])
    with pytest.raises(AssertionError, match="used up"):
        assert_agrees(pattern, events("ABB"), [first, late])


def test_counts_are_compared_end_by_end() -> None:
    pattern = parse("SELECT COUNT(*) FROM S WHERE A ; B")
    assert_counts_agree(pattern, events("ABAB"), [(1, 1), (2, 0), (3, 2)])
    with pytest.raises(AssertionError, match="end 3: 2 expected, 1 found"):
        assert_counts_agree(pattern, events("ABAB"), [(1, 1), (3, 1)])
