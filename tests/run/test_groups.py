"""GROUP BY and HAVING: the embedded engine against the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from math import comb, nan
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Pattern
from cernis.results.groups import MatchGroup
from tools.cases.differential import assert_groups_agree, comparable_group
from tools.cases.grammar import split_batches as split
from tools.cases.strategies import cuts, grouped_cases
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

some = settings(
    max_examples=max(40, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


few = settings(max_examples=max(30, settings.default.max_examples // 4))
few = settings(few, suppress_health_check=list(HealthCheck))


def compare(
    pattern: Pattern, events: Events, found: Iterable[MatchGroup], *, complete: bool = False
) -> None:
    got = (
        comparable_group(
            [at for name, at in group.time.items() if name != "end_ts"],
            group.partition,
            group.values,
        )
        for group in found
    )
    assert_groups_agree(pattern, events, got, complete=complete)


@some
@given(grouped_cases(size=6, events=8))
def test_random_groups_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, list(cernis.query(pattern).run(make_table(events, timed=True))))


@some
@given(grouped_cases(size=5, events=7, binary=True))
def test_groups_of_compared_events_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, list(cernis.query(pattern).run(make_table(events, timed=True))))


@some
@given(grouped_cases(size=5, events=8, forget=True))
def test_groups_of_lives_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, list(cernis.query(pattern).run(make_table(events, timed=True))))


WITHOUT: list[dict[str, Any]] = [
    {"after": ("free", "equal")},
    {"after": ("residual",), "before": ("free", "equal")},
]


@pytest.mark.parametrize("links", WITHOUT, ids=str)
@few
@given(data=st.data(), complete=st.booleans())
def test_groups_of_what_without_leaves_agree_with_the_oracle(
    links: dict[str, Any], complete: bool, data: st.DataObject
) -> None:
    pattern, events = data.draw(grouped_cases(**links, size=5, events=8, disorder=False))
    query = cernis.query(pattern)
    whole = query.run(make_table(events, timed=True), complete=complete)
    compare(pattern, events, list(whole), complete=complete)
    session = query.session(complete=complete)
    found: list[Any] = []
    for batch in split(events, data.draw(cuts(len(events)))):
        if batch:
            found += session.push(make_table(batch, timed=True))
        session = query.thaw(session.freeze(), complete=complete)
    compare(pattern, events, [*found, *session.finish()], complete=complete)


@some
@given(
    grouped_cases(size=5, events=8, disorder=False)
    | grouped_cases(size=5, events=8, disorder=False, forget=True),
    st.data(),
)
def test_batches_and_restarts_do_not_change_groups(case: Case, data: st.DataObject) -> None:
    pattern, events = case
    query = cernis.query(pattern)
    session = query.session()
    found: list[Any] = []
    for batch in split(events, data.draw(cuts(len(events)))):
        if batch:
            found += session.push(make_table(batch, timed=True))
        session = query.thaw(session.freeze())
    compare(pattern, events, [*found, *session.finish()])


SALES = pa.table(
    {
        "type": ["A", "B", "A", "B", "B"],
        "ts": pa.array([datetime(2024, 1, 1, 12, minute) for minute in (0, 5, 7, 40, 59)]),
        "p": [10, 11, None, 9, 5],
        "k": ["u", "u", "v", "v", "u"],
    }
)


def test_a_group_of_every_is_reported_when_its_time_has_passed() -> None:
    query = cernis.query(
        "SELECT COUNT(*) AS n, SUM(B[p]) AS s WHERE A ; B GROUP BY EVERY 30 MINUTES"
    )
    session = query.session()
    assert list(session.push(SALES.slice(0, 3))) == []
    (first,) = session.push(SALES.slice(3))
    assert first.values == {"n": 1, "s": 11}
    assert first.time["to_ts"] == datetime(2024, 1, 1, 12, 30)
    (last,) = session.finish()
    assert last.values == {"n": 4, "s": 28}
    assert list(session.finish()) == []


STARTED = "SELECT COUNT(*) AS n, SUM(B[p]) AS s WHERE A ; B"


@pytest.mark.parametrize(
    ("window", "reported"),
    [
        (" WITHIN 30 MINUTES", [[], [], [{"n": 1, "s": 11}], []]),
        (" WITHIN 31 MINUTES", [[], [], [], [{"n": 1, "s": 11}]]),
        ("", [[], [], [], [{"n": 2, "s": 16}]]),
        (" WITHIN 3 EVENTS", [[], [], [], [{"n": 1, "s": 11}]]),
    ],
)
def test_a_group_of_the_start_is_reported_when_no_match_that_starts_in_it_can_end(
    window: str, reported: list[Any]
) -> None:
    at = [datetime(2024, 1, 1, 12, minute) for minute in (0, 5, 39, 40)]
    events = pa.table({"type": ["A", "B", "C", "C"], "ts": at, "p": [1, 11, 0, 0]})
    late = pa.table({"type": ["B"], "ts": [datetime(2024, 1, 1, 12, 41)], "p": [5]})
    session = cernis.query(f"{STARTED}{window} GROUP BY EVERY 10 MINUTES OF START").session()
    found = [session.push(part) for part in (events[:3], events[3:3], events[3:])]
    found.append(session.push(late))
    found.append(session.finish())
    got = [[group.values for group in each] for each in found]
    assert [*got[:3], got[3] + got[4]] == reported


@pytest.mark.parametrize(("window", "notes"), [("", 1), (" WITHIN 1 HOUR", 0)])
def test_a_session_says_that_groups_of_the_start_wait_for_the_end(window: str, notes: int) -> None:
    query = cernis.query(f"{STARTED}{window} GROUP BY EVERY 10 MINUTES OF START")
    found = query.session().push(SALES)
    assert sum("pushes groups when the input ends" in note for note in found.notes) == notes
    assert query.run(SALES).notes == ()


def test_rules_have_the_groups_of_their_queries() -> None:
    counted = "COUNT(*) AS n, COUNT(DISTINCT B[p]) AS d"
    texts = {
        f"r{i}": f"SELECT {counted} FROM S WHERE A ; B FILTER A[k = '{k}'] "
        f"WITHIN {minutes} MINUTES GROUP BY EVERY 10 MINUTES OF START"
        for i, (k, minutes) in enumerate([("u", 60), ("v", 60), ("u", 7)])
    }
    summed = {f"{name}s": text.replace(counted, "SUM(B[p]) AS s") for name, text in texts.items()}
    texts |= summed
    found = cernis.rules(texts).run(SALES)
    for name, text in texts.items():
        expected = cernis.query(text).run(SALES).to_arrow().to_pylist()
        assert found[name].to_arrow().to_pylist() == expected
        assert expected


def test_a_group_of_the_start_waits_for_matches_that_are_not_certain() -> None:
    query = cernis.query(
        "SELECT COUNT(*) AS n WHERE A ; B WITHOUT C FOR 1 HOUR WITHIN 10 MINUTES "
        "GROUP BY EVERY 10 MINUTES OF START"
    )
    at = [
        datetime(2024, 1, 1, hour, minute) for hour, minute in ((12, 0), (12, 5), (13, 0), (13, 6))
    ]
    events = pa.table({"type": ["A", "B", "D", "D"], "ts": at})
    session = query.session()
    assert [list(session.push(events[i : i + 1])) for i in range(3)] == [[], [], []]
    (group,) = session.push(events[3:])
    assert (group.values, group.time["from_ts"]) == ({"n": 1}, at[0])


@pytest.mark.parametrize("clauses", ["", "PARTITION BY [k]"])
@pytest.mark.parametrize("window", ["", "WITHIN 45 SECONDS", "WITHIN 9 EVENTS"])
@pytest.mark.parametrize("where", ["A AS a ; B AS b", "A AS a ; C? ; B+ AS b", "A AS a : B AS b"])
def test_aggregates_per_interval_of_the_start_are_those_of_listed_matches(
    where: str, window: str, clauses: str
) -> None:
    draw = random.Random(f"{where} {window} {clauses}")
    number = 60 if "+" in where and not window else 300
    seconds = sorted(draw.randrange(3 * number) for _ in range(number))
    events = pa.table(
        {
            "type": draw.choices("AABC", k=number),
            "ts": [1000 * second for second in seconds],
            "k": draw.choices("uvw", k=number),
            "p": [draw.choice([None, -3, 2, 7]) for _ in range(number)],
            "f": [draw.random() for _ in range(number)],
        }
    )
    terms = "COUNT(*) AS n, COUNT(b) AS m, SUM(b[p]) AS s, MIN(a[f]) AS least, MAX(b[p]) AS most"
    if "+" in where:
        where = f"({where}) FILTER b[f > 0.8]"
    text = f"SELECT {terms}, AVG(a[f]) AS mean{{}} FROM S WHERE {where} {clauses} {window} "
    text += f"GROUP BY {'[k], ' if clauses else ''}EVERY 20 SECONDS OF START"
    query = cernis.query(text.format(""))
    assert "no match is made" in str(query.explain())
    listed = cernis.query(text.format(", COUNT(DISTINCT a[f]) AS firsts"))
    assert "listed, within the budget, for their different" in str(listed.explain())
    expected = listed.run(events, budget=10**9).to_arrow().drop(["firsts"]).to_pylist()
    assert len(expected) > 5
    found, session = [], query.session()
    for batch in split(events, sorted(draw.sample(range(number), 5))):
        found += session.push(batch).to_arrow().to_pylist()
        session = query.thaw(session.freeze())
    found += session.finish().to_arrow().to_pylist()
    whole = query.run(events).to_arrow().to_pylist()
    for got in (found, whole):
        assert [{**row, "mean": None} for row in got] == [{**row, "mean": None} for row in expected]
        assert [row["mean"] for row in got] == pytest.approx([row["mean"] for row in expected])


def test_the_different_values_of_a_group_are_those_of_one_column() -> None:
    kinds = [
        pa.array([0.0, -0.0, float("nan"), float("nan"), None, 1.5]),
        pa.array([Decimal("1.0"), Decimal("1.00"), Decimal("2"), Decimal("3"), None, Decimal("3")]),
        pa.array(["a", "a", "b", "c", None, "c"]).dictionary_encode(),
        pa.array([[1], [1], [2], [3], None, [3]]),
        pa.array([{"v": 1}, {"v": 1}, {"v": 2}, {"v": 3}, None, {"v": 3}]),
        pa.array([datetime(2024, 1, day) for day in (1, 1, 2, 3, 3)] + [None]),
    ]
    for kind in kinds:
        events = pa.table({"type": ["A"] * 6, "ts": range(6), "v": kind})
        query = cernis.query("SELECT COUNT(DISTINCT A[v]) AS n WHERE A GROUP BY EVERY 1 DAY")
        session = query.session()
        session.push(events[:2])
        session = query.thaw(session.freeze())
        session.push(events[2:])
        assert [group.values for group in session.finish()] == [{"n": 3}]


def test_listing_matches_for_groups_spends_the_budget() -> None:
    events = pa.table({"type": ["A"] * 20 + ["B"] * 20, "ts": range(40), "v": range(40)})
    query = cernis.query("SELECT COUNT(DISTINCT A[v]) AS n WHERE A ; B GROUP BY EVERY 1 DAY")
    assert [group.values for group in query.run(events, budget=400)] == [{"n": 20}]
    message = "the query lists matches for its groups and has more candidates"
    with pytest.raises(cernis.BudgetError, match=message):
        query.run(events, budget=399)
    found = query.run(events, budget=30, on_budget="partial")
    assert found.partial


def test_a_push_of_nothing_closes_no_group() -> None:
    query = cernis.query(
        "SELECT k, COUNT(*) AS n WHERE A ; B PARTITION BY [k] WITHIN 5 MINUTES "
        "GROUP BY [k], EVERY 1 MINUTE"
    )
    times = [datetime(2024, 1, 1, 0, minute) for minute in (0, 1, 2)]
    events = pa.table({"type": ["A", "B", "B"], "k": [1, 1, 1], "ts": times})
    session = query.session()
    found = [session.push(events[:2]), session.push([])]
    thawed = query.thaw(session.freeze())
    found += [thawed.push([]), thawed.push(events[2:]), thawed.finish()]
    assert [[row["n"] for row in one.to_arrow().to_pylist()] for one in found] == [
        [], [], [], [1], [1]
    ]  # fmt: skip


def test_counts_of_a_group_are_exact_beyond_64_bits() -> None:
    parts = " ; ".join(["A"] * 40)
    table = pa.table({"type": ["A"] * 300})
    (group,) = cernis.query(f"SELECT COUNT(*) AS n, COUNT(A) AS m WHERE {parts} GROUP BY END").run(
        table.slice(0, 40)
    )
    assert group.values == {"n": 1, "m": 40}
    found = cernis.query(f"SELECT COUNT(*) AS n WHERE {parts} GROUP BY END").run(table)

    assert [int(group.values["n"]) for group in found] == [comb(end, 39) for end in range(39, 300)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT COUNT(*) WHERE A GROUP BY [k]", "unknown component 'k' of the partition"),
        ("SELECT COUNT(*) WHERE A GROUP BY END LIMIT 2", "LIMIT does not go with GROUP BY"),
        ("SELECT A WHERE A GROUP BY END", "'A' has no single value in a group"),
        ("SELECT A[p] WHERE A GROUP BY END", "A[p] has no single value in a group"),
        ("SELECT END WHERE A GROUP BY END", "END has no single value in a group"),
        ("SELECT LAST(A[p]) WHERE A GROUP BY END", "has no meaning over the matches of a group"),
        ("SELECT COUNT(DISTINCT A) WHERE A GROUP BY END", "DISTINCT counts the values of an"),
        ("SELECT COUNT(*) WHERE A GROUP BY EVERY 1 DAY OF A", "'A' is no time of a match"),
        ("SELECT COUNT(*) WHERE A GROUP BY EVERY 1 DAY, EVERY 1 DAY OF START", "names this twice"),
        (
            "INSERT INTO D SELECT COUNT(*) AS n WHERE A GROUP BY EVERY 1 DAY OF START",
            "INSERT INTO does not go with EVERY … OF START",
        ),
        ("SELECT * WHERE A GROUP BY END", "SELECT of a query with GROUP BY takes aggregates"),
        ("SELECT COUNT(*) WHERE A GROUP BY k", "'k' is no key of a group"),
        ("SELECT COUNT(*) WHERE A GROUP BY END HAVING A[p = 1]", "HAVING compares aggregates"),
        ("SELECT COUNT(*) WHERE A HAVING COUNT(*) > 3", "HAVING stands after GROUP BY"),
    ],
)
def test_a_mistake_in_group_by_is_told(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query(text)
    assert message in str(caught.value)
    assert "^" in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        """\
line 1, column 38: LIMIT does not go with GROUP BY
  SELECT COUNT(*) WHERE A GROUP BY END LIMIT 2
                                       ^^^^^^^""",
        """\
line 1, column 38: CONSUME BY does not go with GROUP BY
  SELECT COUNT(*) WHERE A GROUP BY END CONSUME BY ANY
                                       ^^^^^^^^^^^^^^""",
        """\
line 1, column 11: 'k' is selected twice: PARTITION BY makes it a column
  SELECT A, [k] WHERE A PARTITION BY [k]
            ^^^
  help: leave it out: it stands before the columns of SELECT""",
        """\
line 1, column 8: [k] in SELECT is no component of the partition
  SELECT [k] WHERE A
         ^^^
  help: an attribute is written with the event's variable: A[k]""",
        """\
line 1, column 25: unknown component 'k' of the partition in GROUP BY
  SELECT COUNT(*) WHERE A GROUP BY [k]
                          ^^^^^^^^^^^^
  help: add PARTITION BY [k]""",
        """\
line 1, column 14: unexpected '('
  SELECT MEDIAN(A[p]) AS m WHERE A GROUP BY END
               ^
  expected: an arithmetic operator, AS, FROM, WHERE, ',', '>' or '['
  help: the functions of several events are COUNT, SUM, AVG, MIN, MAX, FIRST and LAST""",
        """\
line 1, column 38: 'n' is a column of SELECT
  SELECT COUNT(A) AS n WHERE A+ FILTER n > 3
                                       ^
  expected: an attribute or an aggregate
  help: write COUNT(A)""",
    ],
)
def test_the_caret_of_a_mistake_is_below_the_clause_to_blame(message: str) -> None:
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query(message.splitlines()[1].strip())
    assert str(caught.value) == message


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "MAX", "ANY", "STRICT", "LONGEST", "ALL"])
def test_a_component_may_stand_directly_after_a_strategy(strategy: str) -> None:
    where = "COUNT(*) AS n WHERE A ; B PARTITION BY [k] GROUP BY [k]"
    query = cernis.query(f"SELECT {strategy} [k], {where}")
    assert query.pattern == cernis.query(f"SELECT {strategy} k, {where}").pattern
    assert cernis.query(str(query.pattern)).pattern == query.pattern
    named = cernis.query(f"SELECT {strategy}x[k] WHERE A AS {strategy}x").pattern
    assert named.select.items[0].name == f"{strategy}x[k]"


def test_a_variable_may_be_called_as_a_strategy() -> None:
    pattern = cernis.query("SELECT NEXT[k] WHERE A AS NEXT").pattern
    assert str(pattern.strategy) == "Strategy.ALL"


def test_having_and_order_by_know_the_columns_of_select() -> None:
    query = "SELECT COUNT(*) AS n, SUM(A[p]) AS s WHERE A GROUP BY END HAVING {}"
    named, written = (
        cernis.query(query.format(condition)).pattern
        for condition in (
            "n > 1 AND (3 < s OR s / n >= 2)",
            "COUNT(*) > 1 AND (3 < SUM(A[p]) OR SUM(A[p]) / COUNT(*) >= 2)",
        )
    )
    assert named == written
    ordered = cernis.query("SELECT A[p] AS p WHERE A ORDER BY 2 * p DESC LIMIT 1").pattern
    assert str(ordered) == "SELECT A[p] AS p WHERE A ORDER BY 2 * A[p] DESC LIMIT 1"


@pytest.mark.parametrize(
    ("strategy", "filter_", "cost"),
    [
        ("NEXT", "", "a constant cost per event, no match is made (numbers; other values: listed)"),
        (
            "LAST",
            "",
            "chooses at each end are listed and add their values: linear in these",
        ),
        ("MAX", "", "keeps at each end are listed and add their values: linear in their events"),
        ("LONGEST", "", "keeps at each end are listed and add their values: linear in their ev"),
        ("LAST", "FILTER A[k] = B[k]", "all matches are listed, within the budget, and those that"),
    ],
)
def test_explain_says_what_a_strategy_costs_in_groups(
    strategy: str, filter_: str, cost: str
) -> None:
    query = cernis.query(f"SELECT {strategy} SUM(B[v]) WHERE A ; B+ {filter_} GROUP BY END")
    assert cost in " ".join(str(query.explain()).split())


def test_explain_says_where_max_keeps_everything() -> None:
    counted = cernis.query("SELECT MAX COUNT(*) WHERE A ; B ; C WITHIN 9 EVENTS GROUP BY END")
    assert "MAX: every match, as all have as many events" in str(counted.explain())
    assert counted.plan.can_aggregate
    compared = cernis.query("SELECT MAX * WHERE (A ; B) FILTER A[v] < B[v]")
    assert not compared.plan.listed


def test_sums_of_listed_matches_are_exact_beyond_64_bits() -> None:
    query = cernis.query("SELECT LAST SUM(B[v]) AS s, MAX(B[v]) AS m WHERE A ; B+ GROUP BY END")
    events = [{"type": "A", "v": 0}, *[{"type": "B", "v": 2**62}] * 3]
    found = query.run(events).to_arrow().to_pylist()
    assert [int(row["s"]) for row in found] == [2**62, 2**63, 3 * 2**62]
    assert {row["m"] for row in found} == {2**62}


def test_every_needs_a_column_of_times() -> None:
    query = cernis.query("SELECT COUNT(*) WHERE A GROUP BY EVERY 1 HOUR")
    with pytest.raises(cernis.DataError, match="needs a column of times"):
        query.run(pa.table({"type": ["A"]}))


def test_values_of_compared_events_are_added_up_without_listing_matches() -> None:
    """2^80 matches at the last end; of those inside the window of the other there are 2^9."""
    events = pa.table({"type": ["A"] * 80 + ["B"], "v": [*range(80), 5], "k": [1] * 81})
    text = (
        "SELECT COUNT(a) AS n, SUM(a[v]) AS s, MIN(a[v]) AS low, MAX(a[v]) AS high, AVG(b[v]) AS m"
        " WHERE (A+ AS a ; B AS b) FILTER a[k] = b[k] {} GROUP BY END"
    )
    query = cernis.query(text.format(""))
    assert "sums and least values on partial matches" in str(query.explain())
    whole = query.run(events, budget=10).to_arrow().to_pylist()[0]
    assert int(whole["n"]) == 80 * 2**79
    assert int(whole["s"]) == sum(range(80)) * 2**79
    assert (whole["low"], whole["high"], whole["m"]) == (0, 79, 5.0)
    (last,) = cernis.query(text.format("WITHIN 9 EVENTS")).run(events, budget=10)
    expected = {"n": 9 * 2**8, "s": sum(range(71, 80)) * 2**8, "low": 71, "high": 79, "m": 5.0}
    assert last.values == expected


def test_matches_of_compared_events_are_counted_and_not_listed() -> None:
    """2^60 matches at the last end: listing them would not end."""
    events = pa.table({"type": ["A"] * 60 + ["B"], "v": [1] * 61, "ts": range(61)})
    query = cernis.query(
        "SELECT COUNT(*) AS n WHERE (A+ AS a ; B AS b) FILTER a[v] = b[v] GROUP BY END"
    )
    assert "matches are counted, not listed" in str(query.explain())
    assert query.run(events).to_arrow()["n"].to_pylist() == [2**60 - 1]


def bounds(times: pa.Array, every: str) -> list[tuple[Any, Any]]:
    """Return the interval of each group of single events, as text."""
    table = pa.table({"type": ["A"] * len(times), "ts": times})
    found = cernis.query(f"SELECT COUNT(*) AS n WHERE A GROUP BY EVERY {every}").run(table)
    rows = found.to_arrow().to_pylist()
    return [tuple(None if v is None else str(v) for v in list(row.values())[:2]) for row in rows]


def test_bounds_of_intervals_are_as_fine_as_the_duration() -> None:
    seconds = pa.array([0, 1], pa.timestamp("s"))
    assert bounds(seconds, "0.6 SECONDS") == [
        ("1970-01-01 00:00:00", "1970-01-01 00:00:00.600000"),
        ("1970-01-01 00:00:00.600000", "1970-01-01 00:00:01.200000"),
    ]
    assert bounds(pa.array([1]), "0.5 MILLISECONDS") == [("1.0", "1.5")]


def test_dates_lie_in_intervals_of_hours() -> None:
    for kind in (pa.date32(), pa.date64()):
        days = pa.array([date(2024, 1, 1)]).cast(kind)
        assert bounds(days, "36 HOURS") == [("2023-12-31 00:00:00", "2024-01-01 12:00:00")]
        assert bounds(days, "2 DAYS") == [("2023-12-31", "2024-01-02")]


def test_bounds_of_times_that_are_text_are_times() -> None:
    text = pa.array(["2024-01-01T10:30:00+01:00"])
    assert bounds(text, "1 HOUR") == [("2024-01-01 09:00:00+00:00", "2024-01-01 10:00:00+00:00")]


def test_an_interval_may_be_longer_than_all_times() -> None:
    one = [("1970-01-01 00:00:00", "4707-11-29 00:00:00")]
    assert bounds(pa.array([0, 1], pa.timestamp("us")), "1000000 DAYS") == one
    last = pa.array([datetime(2262, 4, 11)], pa.timestamp("ns"))
    assert bounds(last, "10000 DAYS")[0][1] is None
    best = cernis.query("SELECT * WHERE A ORDER BY A[x] LIMIT 1 EVERY 1000000 DAYS")
    rows = [{"type": "A", "x": x, "ts": x} for x in (3, 2, -1, -2)]
    assert [match.start for match in best.run(rows)] == [3, 1]


def test_groups_may_be_lists_and_records() -> None:
    places: list[Any] = [[1, 2], {"lat": 1.5, "lon": [2]}]
    counted = cernis.query("""
        SELECT place, COUNT(*) AS n WHERE A PARTITION BY [place] GROUP BY [place], EVERY 1 SECOND
    """)
    for place in places:
        rows = [{"type": "A", "ts": 0, "place": place}]
        one = {"from_ts": 0, "to_ts": 1000, "place": place, "n": 2}
        assert counted.run(rows * 2).to_arrow().to_pylist() == [one]
        session = counted.session()
        session.push(rows)
        thawed = counted.thaw(session.freeze())
        thawed.push(rows)
        assert thawed.finish().to_arrow().to_pylist() == [one]


def test_values_of_another_type_than_those_before_are_refused() -> None:
    one_type = "GROUP BY aggregates values of one type"
    least = cernis.query("SELECT MIN(z[x]) WHERE (A ; B) AS z GROUP BY END")
    session = least.session()
    session.push([{"type": "A", "x": 1}])
    frozen = session.freeze()
    with pytest.raises(cernis.DataError) as raised:
        session.push([{"type": "B", "x": "1"}])
    before = "held numbers in the first events"
    assert str(raised.value) == f"'x' holds string here, and {before}; {one_type}"
    with pytest.raises(cernis.DataError) as raised:
        least.thaw(frozen).push([{"type": "B", "x": Decimal("1.0")}])
    before = "held whole numbers in the first events"
    assert str(raised.value) == f"'x' holds decimal128(2, 1) here, and {before}; {one_type}"


def test_whole_numbers_before_fractions_are_fractions() -> None:
    session = cernis.query("SELECT MAX(z[x]) AS most WHERE (A ; B) AS z GROUP BY END").session()
    session.push([{"type": "A", "x": 2**53 + 1}])
    assert session.push([{"type": "B", "x": 2.0}]).to_arrow()["most"].to_pylist() == [2.0**53]


@some
@given(
    grouped_cases(size=5, events=8, disorder=False)
    | grouped_cases(size=5, events=8, disorder=False, binary=True),
    st.data(),
)
def test_whole_numbers_of_the_first_batches_are_added_to_fractions(
    case: Case, data: st.DataObject
) -> None:
    pattern, events = case
    query = cernis.query(pattern)
    session = query.session()
    first, *others = split(events, data.draw(cuts(len(events))))
    pieces = [first, *([add_halves(data, event) for event in batch] for batch in others)]
    found: list[Any] = []
    for batch in pieces:
        if batch:
            found += session.push(make_table(batch, timed=True))
        session = query.thaw(session.freeze()) if data.draw(st.booleans()) else session
    compare(pattern, [*chain(*pieces)], [*found, *session.finish()])


def add_halves(data: st.DataObject, event: dict[str, Any]) -> dict[str, Any]:
    halves = data.draw(st.sampled_from([0, 0.5]))
    held = {name: event[name] for name in "ab" if type(event.get(name)) is int}
    return event | {name: value + halves for name, value in held.items()}


EXTREMES = [-(2**63), 2**63 - 1, 2**53 + 1, 2**62]


@pytest.mark.parametrize("key", ["EVERY 20 SECONDS", "EVERY 20 SECONDS OF START", "END", "[k]"])
@pytest.mark.parametrize("window", ["", "WITHIN 30 SECONDS", "WITHIN 160 EVENTS"])
@pytest.mark.parametrize(
    ("strategy", "where"),
    [("", "A AS a ; B AS b"), ("", "A AS a ; C? ; B+ AS b"), ("NEXT", "A AS a ; C? ; B+ AS b")],
)
def test_sums_of_whole_numbers_become_sums_of_fractions(
    strategy: str, where: str, window: str, key: str
) -> None:
    draw, number = random.Random(f"{strategy} {where} {window} {key}"), 400
    events = pa.table(
        {
            "type": draw.choices("AABBBC", k=number),
            "ts": pa.array(sorted(draw.choices(range(number), k=number)), pa.timestamp("s")),
            "k": draw.choices("uvw", k=number),
            "p": [draw.choice([None, -3, 2, 7, 0]) for _ in range(number)],
            "q": [draw.choice([None, 1, *EXTREMES]) for _ in range(number)],
        }
    )
    cut = sorted(draw.sample(range(number // 2, number), 5))
    pieces: list[pa.Table] = []
    for place, piece in enumerate(split(events, cut)):
        halves = [value and value + 0.5 for value in piece["p"].to_pylist()]
        later, rounded = pa.array(halves, pa.float64()), piece["q"].cast(pa.float64(), safe=False)
        piece = piece.set_column(3, "p", later) if place > 1 else piece
        pieces.append(piece.set_column(4, "q", rounded) if place > 2 else piece)
    terms = "COUNT(*) AS n, COUNT(b[p]) AS m, SUM(b[p]) AS s, MIN(a[p]) AS least, MAX(b[p]) AS most"
    terms += ", AVG(a[p]) AS mean, MIN(b[q]) AS low, MAX(a[q]) AS high"
    by = "PARTITION BY [k]" if key == "[k]" or draw.random() < 0.5 else ""
    query = cernis.query(
        f"SELECT {strategy} {terms} FROM S WHERE {where} {by} {window} GROUP BY {key}"
    )
    listed = strategy == "NEXT" and key.endswith("START")
    assert ("no match is made" in str(query.explain())) is not listed
    whole = pa.concat_tables([piece.cast(pieces[-1].schema, safe=False) for piece in pieces])
    expected = query.run(whole).to_arrow().to_pylist()
    assert expected
    session, found = query.session(), []
    for piece in pieces:
        found += session.push(piece).to_arrow().to_pylist()
        session = query.thaw(session.freeze()) if draw.random() < 0.5 else session
    found += session.finish().to_arrow().to_pylist()
    for got in (found, query.run(iter(pieces)).to_arrow().to_pylist()):
        for row in got:  # a group that is reported before the first fraction has its whole numbers
            row |= {name: row[name] and float(row[name]) for name in ("s", "low", "high")}
            row |= {name: pytest.approx(row[name]) for name in ("s", "mean")}
        assert expected == got


@pytest.mark.parametrize(
    ("values", "least"), [([nan, 1.0], 1.0), ([1, nan], 1.0), ([nan, 1, 0.5], 0.5)]
)
def test_the_least_value_of_several_batches_is_a_number_where_one_is(
    values: list[float], least: float
) -> None:
    session = cernis.query(
        "SELECT MIN(A[x]) AS least, MAX(A[x]) AS most FROM S WHERE A GROUP BY EVERY 1 HOUR"
    ).session()
    for value in values:
        session.push([{"type": "A", "ts": 0, "x": value}])
    (group,) = session.finish()
    assert group.values == {"least": least, "most": 1.0}


def test_whole_numbers_are_added_up_exactly_until_a_fraction_comes() -> None:
    query = cernis.query(
        "SELECT SUM(z[x]) AS s FROM S WHERE (A ; A ; B) AS z GROUP BY EVERY 1 HOUR"
    )
    session = query.session()
    session.push([{"type": "A", "ts": 0, "x": 2**53 + 1}, {"type": "A", "ts": 1, "x": -(2**53)}])
    session.push([{"type": "B", "ts": 2, "x": 0.5}])
    assert session.finish().to_arrow()["s"].to_pylist() == [1.5]


def test_sums_of_whole_numbers_take_none_beyond_64_bits() -> None:
    written = "SELECT SUM(A[x]) AS total FROM S WHERE A GROUP BY EVERY 1 HOUR"
    large = pa.table({"type": ["A"], "ts": [0], "x": pa.array([2**63], pa.uint64())})
    session = cernis.query(written).session()
    session.push([{"type": "A", "ts": 0, "x": 1}])
    before = "held numbers of 64 bits in the first events"
    with pytest.raises(cernis.DataError, match=f"^'x' {before}.*CREATE STREAM: x:double$"):
        session.push(large)
    declared = cernis.query(f"CREATE STREAM S {{ EVENT A {{ x:double }} }} {written}").session()
    declared.push([{"type": "A", "ts": 0, "x": 1}])
    declared.push(large)
    assert declared.finish().to_arrow()["total"].to_pylist() == [2.0**63]


def test_open_groups_of_more_than_any_double_go_on_with_fractions() -> None:
    query = cernis.query("SELECT SUM(A[x]) AS s FROM S WHERE A+ GROUP BY EVERY 1 HOUR")
    session = query.session()
    session.push(pa.table({"type": ["A"] * 1100, "ts": [0] * 1100, "x": [1] * 1100}))
    session = query.thaw(session.freeze())
    session.push([{"type": "A", "ts": 1, "x": 0.5}])
    session = query.thaw(session.freeze())
    session.push([{"type": "A", "ts": 2, "x": 1}])
    assert session.finish().to_arrow()["s"].to_pylist() == [float("inf")]


@pytest.mark.parametrize("clause", ["END", "EVERY 1 HOUR"])
def test_values_that_64_bits_do_not_hold_are_aggregated_as_they_are(clause: str) -> None:
    digits, large = Decimal("123456789012345678.1234"), 2**64 - 1
    table = pa.table(
        {
            "type": ["A", "B", "B"],
            "ts": [1, 2, 2],
            "d": pa.array([None, digits, None], pa.decimal128(38, 4)),
            "u": pa.array([None, 7, large], pa.uint64()),
        }
    )
    terms = "SUM(b[d]) AS s, MIN(b[d]) AS m, MAX(b[u]) AS g, COUNT(b[d]) AS n"
    found = cernis.query(f"SELECT {terms} WHERE A ; B AS b GROUP BY {clause}").run(table).to_arrow()
    rows = found.select(["s", "m", "g", "n"]).to_pylist()
    first, none = {"s": digits, "m": digits, "g": 7, "n": 1}, {"s": None, "m": None, "n": 0}
    assert rows == ([first, none | {"g": large}] if clause == "END" else [first | {"g": large}])


DECIMALS = [pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal128(18, 0), pa.decimal128(30, 3)]


@pytest.mark.parametrize("by", ["END", "EVERY 10 SECONDS"])
@pytest.mark.parametrize("where", ["A ; B+ ; C", "(A ; B ; C) FILTER A[v] <= B[v]"])
@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals_of_all_matches_of_a_group_are_added_up_exactly(
    kind: pa.DataType, where: str, by: str
) -> None:
    draw = random.Random(kind.scale)
    values = [
        None if draw.random() < 0.1 else Decimal(draw.randint(-9999, 9999)).scaleb(-kind.scale)
        for _ in range(60)
    ]
    types = [draw.choice("ABC") for _ in values]
    table = pa.table({"type": types, "ts": range(len(values)), "v": pa.array(values, kind)})
    body = f"FROM S WHERE {where} WITHIN 9 EVENTS"
    terms = "COUNT(B[v]) AS n, SUM(B[v]) AS s, MIN(B[v]) AS a, MAX(B[v]) AS b"
    query = cernis.query(f"SELECT {terms} {body} GROUP BY {by}")
    expected: dict[int, list[Decimal]] = {}
    for match in cernis.query(f"SELECT * {body}").run(table, time_unit="s"):
        end = match.interval[1]
        held = expected.setdefault(end if by == "END" else end // 10 * 10, [])
        held += [value for row in match.vars["B"] if (value := values[row]) is not None]
    key = "end" if by == "END" else "from_ts"

    def read(found: Iterable[pa.Table]) -> dict[int, tuple[Any, ...]]:
        rows = [row for each in found for row in each.to_pylist()]
        return {row[key]: (row["n"], row["s"], row["a"], row["b"]) for row in rows}

    wanted = {
        at: (len(held), sum(held), min(held), max(held)) if held else (0, None, None, None)
        for at, held in expected.items()
    }
    whole = query.run(table, time_unit="s").to_arrow()
    assert read([whole]) == wanted
    assert whole.schema.field("s").type == pa.decimal128(38, kind.scale)
    assert whole.schema.field("a").type == kind
    session = query.session(time_unit="s")
    pieces = []
    for at in range(0, 60, 7):
        session = query.thaw(session.freeze())
        pieces.append(session.push(table.slice(at, 7)).to_arrow())
    assert read([*pieces, session.finish().to_arrow()]) == wanted


def test_decimals_of_more_matches_than_any_number_are_texts_and_compare_as_numbers() -> None:
    types = ["A", *["B"] * 300, "C"]
    cents = pa.array([Decimal("0.01")] * 302, pa.decimal128(9, 2))
    table = pa.table({"type": types, "ts": range(302), "v": cents})
    text = (
        "SELECT SUM(B[v]) AS s FROM S WHERE A ; B+ ; C GROUP BY EVERY 1 HOUR HAVING SUM(B[v]) > {}"
    )
    (row,) = cernis.query(text.format(1000)).run(table, time_unit="s").to_arrow().to_pylist()
    assert int(row["s"].replace(".", "")) == 300 * 2**299
    assert not cernis.query(text.format("-1.5") + " AND SUM(B[v]) < 7").run(table, time_unit="s")


def test_decimals_with_other_places_than_before_are_refused() -> None:
    session = cernis.query("SELECT SUM(A[v]) AS s FROM S WHERE A GROUP BY EVERY 1 HOUR").session()

    def push(value: str, places: int) -> None:
        column = pa.array([Decimal(value)], pa.decimal128(9, places))
        session.push(pa.table({"type": ["A"], "ts": [1], "v": column}))

    push("0.25", 2)
    held = r"'v' holds decimal128\(9, 3\) here, and held decimals with a scale of 2"
    with pytest.raises(cernis.DataError, match=held):
        push("0.250", 3)
