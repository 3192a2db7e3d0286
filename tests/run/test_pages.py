"""Pages of a result against its listing: each item once, in the order of iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.generators import stock_stream
from cernis.pattern.query import Pattern, Strategy, Unit, counts_only
from cernis.results.result import Result
from cernis.results.sets import rooted
from tools.cases.strategies import cases
from tools.cases.tables import make_table

Case = tuple[Pattern, Sequence[dict[str, Any]]]

some = settings(
    max_examples=settings.default.max_examples // 2, suppress_health_check=list(HealthCheck)
)


def list_pages(found: Result[Any], size: int) -> list[Any]:
    total = len(found)
    return [item for offset in range(0, total, size) for item in found.page(offset, size)]


def run(case: Case) -> cernis.Matches:
    pattern, events = case
    timed = pattern.within is not None and pattern.within.unit is Unit.TIME
    return cernis.query(pattern).run(make_table(events, timed=True if timed else None))


def key(match: Any) -> Any:
    return match.start, match.end, tuple((n, tuple(r)) for n, r in match.vars.items())


@some
@given(cases(partition=True), st.integers(1, 7))
def test_pages_put_together_are_the_listing(case: Case, size: int) -> None:
    found = run(case)
    assert list_pages(found, size) == list(found)


@some
@given(cases(binary=True, size=6, events=7), st.integers(1, 7))
def test_pages_of_compared_events_are_the_listing(case: Case, size: int) -> None:
    found = run(case)
    assert list_pages(found, size) == list(found)


@some
@given(cases(strategies=(Strategy.ALL, Strategy.MAX, Strategy.ANY)), st.integers(1, 5))
def test_pages_by_rank_have_each_match_once(case: Case, size: int) -> None:
    with mock.patch.object(rooted, "LISTED", 0):
        found = run(case)
        listed, paged = list(found), list_pages(found, size)
    if not counts_only(case[0]):
        assert Counter(map(key, paged)) == Counter(map(key, listed))
        assert [match.end_ts for match in paged] == [match.end_ts for match in listed]


def test_pages_deep_in_a_set_that_nobody_could_list() -> None:
    query = cernis.query("SELECT * FROM S WHERE SELL ; BUY+ ; SELL WITHIN 10 SECONDS")
    found = query.run(stock_stream(2_000, seed=1))
    total = found.count()
    assert total > 10**30
    page = found.page(total // 3, 20)
    assert len(set(map(key, page))) == 20
    assert found.page(total // 3 + 5, 15) == page[5:]
    assert [*map(key, found.page(total - 3, 20))] == [*map(key, found.page(total - 3, 3))]
    assert found.page(total, 5) == []
    assert found.page(0, 30) == found.head(30)


def test_a_page_of_counts_answers_and_groups_is_a_slice() -> None:
    events = pa.table({"type": ["A", "B", "A", "B", "B"], "x": [1, 2, 3, 4, 5]})
    counted = cernis.query("SELECT COUNT(*) FROM S WHERE A ; B").run(events)
    assert counted.page(1, 5) == list(counted)[1:]
    answers = cernis.query("Q(x) <- B(x: x), A(x: y)", lang="cq").run(events)
    assert answers.page(1, 1) == list(answers)[1:2]
    grouped = cernis.query("SELECT COUNT(*) AS n FROM S WHERE A ; B GROUP BY END").run(events)
    assert grouped.page(1, 9) == list(grouped)[1:]


def test_limit_bounds_the_pages_too() -> None:
    events = pa.table({"type": ["A"] * 6 + ["B"] * 3})
    found = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b LIMIT 2").run(events)
    assert list_pages(found, 4) == list(found)
    assert len(list(found)) == 6


def test_a_page_cannot_begin_before_the_first_match() -> None:
    found = cernis.query("SELECT * FROM S WHERE A").run([{"type": "A"}])
    with pytest.raises(ValueError, match="a page cannot begin at -1"):
        found.page(-1)
