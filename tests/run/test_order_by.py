"""ORDER BY: against the oracle, without listing what is not asked for, and by interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import list_warnings
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.testing import oracle
from tools.cases.differential import ComparableMatch, comparable_match, describe_case
from tools.cases.grammar import split_batches
from tools.cases.strategies import cuts, ordered_cases
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

some = settings(
    max_examples=max(40, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


def table_of(pattern: Pattern, events: Events) -> pa.Table:
    within = pattern.within
    timed = pattern.ranks_intervals or (within is not None and within.unit is Unit.TIME)
    return make_table(events, timed=True if timed else None)


def values_by_group(
    pattern: Pattern, events: Events, matches: Iterable[ComparableMatch]
) -> dict[Any, list[str]]:
    """Return the values of each group, in order; equal values may stand for other matches."""
    order = pattern.order
    assert order is not None
    groups: dict[Any, list[str]] = {}
    for match in matches:
        group: Any = match.end
        if order.every is not None:
            key = [events[match.end].get(name) for names in pattern.partition for name in names]
            group = (events[match.end]["ts"] // (order.every / 1_000_000), *key)
        groups.setdefault(group, []).append(dict(match.values)["v"])
    return groups


def compare(pattern: Pattern, events: Events, found: Iterable[cernis.Matches]) -> None:
    got = [comparable_match(match, values=True) for part in found for match in part]
    free = replace(pattern, order=None, limit=None)
    allowed = Counter(comparable_match(m, values=True) for m in oracle.evaluate(free, events))
    assert not Counter(got) - allowed, describe_case(pattern, events)
    kept = [comparable_match(m, values=True) for m in oracle.evaluate(pattern, events)]
    expected = values_by_group(pattern, events, kept)
    assert values_by_group(pattern, events, got) == expected, describe_case(pattern, events)


@some
@given(ordered_cases(consume=tuple(Consume)))
def test_order_by_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@some
@given(ordered_cases(strategies=tuple(Strategy), binary=True, size=7, events=8))
def test_order_by_after_strategies_and_comparisons_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    if pattern.strategy is Strategy.ANY:  # any choice is right, and decides what is ordered
        pattern = replace(pattern, strategy=Strategy.ALL)
    compare(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@some
@given(data=st.data())
def test_the_best_of_an_interval_agree_with_the_oracle_in_any_batches(data: st.DataObject) -> None:
    drawn = ordered_cases(
        every=True, untimed=False, disorder=False, strategies=(Strategy.ALL, Strategy.LONGEST)
    )
    pattern, events = data.draw(drawn)
    events = sorted(events, key=lambda event: event["ts"])
    query, whole = cernis.query(pattern), table_of(pattern, events)
    session, found = query.session(), []
    for piece in split_batches(range(len(events)), data.draw(cuts(len(events)))):
        found.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session = query.thaw(session.freeze())
    compare(pattern, events, [*found, session.finish()])


def list_in_order(found: Iterable[cernis.Matches]) -> list[ComparableMatch]:
    return [comparable_match(match, values=True) for part in found for match in part]


def compare_exactly(pattern: Pattern, events: Events, found: Iterable[cernis.Matches]) -> None:
    """Compare the matches with those of the oracle, in their order: ties have one as well."""
    expected = [comparable_match(m, values=True) for m in oracle.evaluate(pattern, events)]
    assert list_in_order(found) == expected, describe_case(pattern, events)


@some
@given(
    ordered_cases(overall=True, consume=tuple(Consume), strategies=(Strategy.ALL, Strategy.LONGEST))
)
def test_the_best_of_all_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare_exactly(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@some
@given(ordered_cases(overall=True, binary=True, size=7, events=8))
def test_the_best_of_all_of_compared_events_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare_exactly(pattern, events, [cernis.query(pattern).run(table_of(pattern, events))])


@some
@given(
    kinds=st.text("ABBC", min_size=2, max_size=9),
    values=st.lists(st.integers(0, 1), min_size=9, max_size=9),
    term=st.sampled_from(["SUM(b[x])", "COUNT(b)", "a[x]", "a[x] + SUM(b[x])", "0 - COUNT(b)"]),
    select=st.sampled_from(["*", "a, b", "b", "a"]),
    shape=st.sampled_from(
        ["A AS a ; B+ AS b ; C", "A AS a ; B+ AS b", "A AS a ; (B AS c OR B)+ AS b"]
    ),
    limit=st.integers(0, 12),
    within=st.sampled_from(["", "WITHIN 4 EVENTS"]),
)
def test_ties_of_the_best_of_all_on_the_compact_set_agree_with_the_oracle(
    kinds: str, values: list[int], term: str, select: str, shape: str, limit: int, within: str
) -> None:
    query = cernis.query(
        f"SELECT {select}, {term} AS v WHERE {shape} {within} ORDER BY v DESC LIMIT {limit} OVERALL"
        if select != "*"
        else f"SELECT * WHERE {shape} {within} ORDER BY {term} DESC LIMIT {limit} OVERALL"
    )
    events = [{"type": k, "x": x} for k, x in zip(kinds, values, strict=False)]
    compare_exactly(query.pattern, events, [query.run(events, budget=0)])


@some
@given(data=st.data())
def test_the_best_of_all_agree_with_the_oracle_in_pieces_and_frozen(data: st.DataObject) -> None:
    drawn = ordered_cases(
        overall=True, untimed=False, disorder=False, strategies=(Strategy.ALL, Strategy.LONGEST)
    )
    pattern, events = data.draw(drawn)
    events = sorted(events, key=lambda event: event["ts"])
    query, whole = cernis.query(pattern), table_of(pattern, events)
    session, found = query.session(), []
    for piece in split_batches(range(len(events)), data.draw(cuts(len(events)))):
        found.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session.forget()
        if data.draw(st.booleans()):
            session = query.thaw(session.freeze())
    assert not list_in_order(found)
    compare_exactly(pattern, events, [session.finish()])


def outages(number: int) -> list[dict[str, Any]]:
    return [
        {"type": kind, "ts": 100 * i + wait, "x": i}
        for i in range(number)
        for kind, wait in (("DOWN", 0), ("UP", 1 + 7 * i % 10))
    ]


OUTAGES = "SELECT u[ts] - d[ts] AS outage FROM S WHERE DOWN AS d -> UP AS u ORDER BY outage DESC"


def test_a_limit_that_leaves_nothing_out_has_a_warning_with_the_words_to_write() -> None:
    query = cernis.query(f"{OUTAGES} LIMIT 5")
    found = query.run(outages(20))
    assert found.count() == 20
    assert [warning.code for warning in list_warnings(found.notes)] == ["limit-per-end"]
    assert "write LIMIT 5 OVERALL for the best of all" in found.notes[0]
    with pytest.raises(cernis.StrictError):
        query.run(outages(20), strict=True)
    best = cernis.query(f"{OUTAGES} LIMIT 5 OVERALL").run(outages(20))
    assert [match.values["outage"] for match in best] == [10, 10, 9, 9, 8]
    assert not best.notes


def test_a_limit_that_leaves_matches_out_has_no_warning() -> None:
    query = cernis.query("SELECT * FROM S WHERE DOWN AS d ; UP AS u ORDER BY d[x] DESC LIMIT 1")
    found = query.run(outages(5))
    assert found.count() == 5
    assert not found.notes
    assert not cernis.query(f"{OUTAGES} LIMIT 20").run(outages(20)).notes


def test_the_best_of_all_are_kept_with_their_events_and_no_others() -> None:
    query = cernis.query("SELECT a FROM S WHERE A AS a ORDER BY a[x] LIMIT 3 OVERALL")
    session = query.session()
    for first in range(0, 60_000, 10_000):
        rows = range(first, first + 10_000)
        found = session.push(
            pa.table({"type": ["A"] * 10_000, "x": rows, "pad": ["x" * 50] * 10_000})
        )
        assert found.count() == 0
        session.forget()
        assert session.store.nbytes < 1_000
    assert "finish() gives them" in found.notes[-1]
    assert [match.events("a")[0]["x"] for match in session.finish()] == [0, 1, 2]


def test_null_and_nan_are_one_last_place_of_the_best_of_all() -> None:
    values = [None, float("nan"), -0.0, None, 0.0, float("nan")]
    events = [{"type": "A", "x": x} for x in values]
    for direction in ("ASC", "DESC"):
        query = cernis.query(f"SELECT * FROM S WHERE A ORDER BY A[x] {direction} LIMIT 5 OVERALL")
        assert [match.start for match in query.run(events)] == [2, 4, 0, 1, 3]


def test_a_spent_budget_leaves_no_best_of_all() -> None:
    query = cernis.query(
        "SELECT * FROM S WHERE A ; B+ AS b ; C ORDER BY MAX(b[x]) DESC LIMIT 1 OVERALL"
    )
    events = [{"type": "A", "x": 0}, *steps(12), {"type": "C", "x": 0}]
    with pytest.raises(cernis.BudgetError, match="ORDER BY lists all matches"):
        query.run(events, budget=100)
    session = query.session(budget=100, on_budget="partial")
    session.push(events)
    session.push([{"type": "A", "x": 0}, *steps(2), {"type": "C", "x": 0}])
    assert session.finish().partial
    assert not list(session.finish())


def test_rules_read_the_best_of_all_when_the_input_has_ended() -> None:
    rules = cernis.rules("""
        RULE best AS INSERT INTO Best SELECT a[x] AS x FROM S WHERE A AS a
            ORDER BY a[x] DESC LIMIT 2 OVERALL;
        RULE pairs AS SELECT b[x] AS b, c[x] AS c FROM Best WHERE Best AS b ; Best AS c
    """)
    events = [{"type": "A", "x": x, "ts": x} for x in range(5)]
    found = rules.run(events)
    assert [match.values for match in found["pairs"]] == [{"b": 3, "c": 4}]
    session = rules.session()
    for event in events:
        assert session.push([event])["pairs"].count() == 0
    assert [match.values for match in session.finish()["pairs"]] == [{"b": 3, "c": 4}]


@some
@given(st.one_of(ordered_cases(every=True), ordered_cases(overall=True)))
def test_the_text_of_a_query_gives_it_back(case: Case) -> None:
    pattern, _ = case
    again = cernis.query(str(pattern)).pattern
    assert (again.order, again.limit) == (pattern.order, pattern.limit)
    assert str(again) == str(pattern)


def test_an_event_type_may_be_called_order() -> None:
    query = cernis.query("SELECT * WHERE ORDER ; PAY ORDER BY ORDER[x] DESC LIMIT 1")
    assert str(query) == "SELECT * WHERE ORDER ; PAY ORDER BY ORDER[x] DESC LIMIT 1"
    events = [{"type": "ORDER", "x": 1}, {"type": "ORDER", "x": 2}, {"type": "PAY", "x": 0}]
    assert [match.vars["ORDER"] for match in query.run(events)] == [[1]]


def steps(number: int) -> list[dict[str, Any]]:
    return [{"type": "B", "x": x} for x in range(1, number + 1)]


def test_the_best_of_very_many_matches_are_found_without_listing_the_others() -> None:
    query = cernis.query(
        "SELECT SUM(b[x]) AS total FROM S WHERE A ; B+ AS b ; C ORDER BY total DESC LIMIT 3"
    )
    found = query.run([{"type": "A", "x": 0}, *steps(200), {"type": "C", "x": 0}], budget=10)
    whole = 200 * 201 // 2
    assert [match.values["total"] for match in found] == [whole, whole - 1, whole - 2]


def test_the_least_come_first_unless_desc_says_otherwise() -> None:
    query = cernis.query(
        "SELECT SUM(b[x]) AS total FROM S WHERE A ; B+ AS b ; C ORDER BY total LIMIT 4"
    )
    found = query.run([{"type": "A", "x": 0}, *steps(80), {"type": "C", "x": 0}], budget=10)
    assert [match.values["total"] for match in found] == [1, 2, 3, 3]


def test_other_terms_list_within_the_budget() -> None:
    query = cernis.query("SELECT * FROM S WHERE A ; B+ AS b ; C ORDER BY MAX(b[x]) DESC LIMIT 1")
    events = [{"type": "A", "x": 0}, *steps(12), {"type": "C", "x": 0}]
    assert query.run(events).count() == 1
    with pytest.raises(cernis.BudgetError, match="ORDER BY lists all matches"):
        query.run(events, budget=100)
    found = query.run(events, budget=100, on_budget="partial")
    assert found.partial
    assert not list(found)


def test_null_and_nan_come_last_in_both_directions() -> None:
    values = [None, 2.0, float("nan"), 1.0]
    events = [*({"type": "A", "x": x} for x in values), {"type": "B", "x": 0.0}]
    for direction, first in (("DESC", [1, 3]), ("ASC", [3, 1])):
        query = cernis.query(f"SELECT * FROM S WHERE A ; B ORDER BY A[x] {direction}")
        found = [match.vars["A"][0] for match in query.run(events)]
        assert found[:2] == first
        assert sorted(found[2:]) == [0, 2]


def test_whole_numbers_beyond_64_bits_are_listed_not_wrapped() -> None:
    events = [{"type": "A", "x": 2**62}, {"type": "A", "x": 5}, {"type": "B", "x": 2**62}]
    query = cernis.query("SELECT A FROM S WHERE A ; B ORDER BY A[x] + B[x] DESC LIMIT 1")
    assert [match.vars["A"] for match in query.run(events)] == [[1]]


def test_of_equal_values_the_latest_start_comes_first() -> None:
    query = cernis.query("SELECT A FROM S WHERE A ; B ORDER BY A[x] DESC LIMIT 2")
    events = [{"type": kind, "x": 1} for kind in "AAAB"]
    assert [match.vars["A"] for match in query.run(events)] == [[2], [1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT COUNT(*) WHERE A GROUP BY END ORDER BY COUNT(*)",
            """\
line 1, column 38: ORDER BY does not go with GROUP BY
  SELECT COUNT(*) WHERE A GROUP BY END ORDER BY COUNT(*)
                                       ^^^^^^^^^^^^^^^^^
  help: it orders matches: select variables or values""",
        ),
        (
            "SELECT COUNT(*) WHERE A ORDER BY A[x]",
            """\
line 1, column 25: ORDER BY does not go with SELECT COUNT(*) alone
  SELECT COUNT(*) WHERE A ORDER BY A[x]
                          ^^^^^^^^^^^^^
  help: it orders matches: select variables or values""",
        ),
        (
            "SELECT * WHERE A ORDER BY 3",
            """\
line 1, column 18: ORDER BY takes a value of the match, not a constant
  SELECT * WHERE A ORDER BY 3
                   ^^^^^^^^^^
  expected: an attribute or an aggregate""",
        ),
        (
            "SELECT * WHERE A LIMIT 3 EVERY 5 SECONDS",
            """\
line 1, column 32: EVERY after LIMIT needs ORDER BY
  SELECT * WHERE A LIMIT 3 EVERY 5 SECONDS
                                 ^^^^^^^^^
  help: write ORDER BY term DESC LIMIT k EVERY duration""",
        ),
        (
            "SELECT * WHERE A LIMIT 3 OVERALL",
            """\
line 1, column 18: OVERALL after LIMIT needs ORDER BY
  SELECT * WHERE A LIMIT 3 OVERALL
                   ^^^^^^^^^^^^^^^
  help: write ORDER BY term DESC LIMIT k OVERALL""",
        ),
        (
            "SELECT * WHERE A ORDER BY A[x] LIMIT 3 OVERALL PER PARTITION",
            """\
line 1, column 32: PER PARTITION needs PARTITION BY
  SELECT * WHERE A ORDER BY A[x] LIMIT 3 OVERALL PER PARTITION
                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: name the key: PARTITION BY [a], or leave PER PARTITION out""",
        ),
    ],
)
def test_the_message(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(text)
    assert str(raised.value) == message


def test_the_best_of_a_partition_are_those_of_equal_keys() -> None:
    best = cernis.query("""
        SELECT x WHERE A AS x PARTITION BY [k] ORDER BY x[n] LIMIT 1 EVERY 1 SECOND
    """)
    for keys in ([0.0, -0.0, 0.0], [[1], [1], [1]], [{"a": 1}] * 3):
        rows = [{"type": "A", "ts": 0, "k": key, "n": n} for n, key in enumerate(keys)]
        assert [match.start for match in best.run(rows)] == [0]
