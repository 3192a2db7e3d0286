"""What a rate of events takes."""

from __future__ import annotations

import pytest

import cernis

SEQUENCE = "SELECT * FROM S WHERE A AS a ; B AS b {}"


def load(query: str, rate: float) -> list[str]:
    return dict(cernis.query(query).explain(rate=rate).list_entries())["load"]


def test_a_rate_gives_cores_and_memory() -> None:
    assert load(SEQUENCE.format("PARTITION BY [k] WITHIN 3 SECONDS"), 1e6) == [
        "at 1,000,000 events per second",
        "in one process: 3.3% to 50% of one core, and what reading takes",
        "on a stream of Spark: 9 to 13 cores",
        "memory: 3,000,000 events in the window; about 37 MiB on Spark, if each has two numbers",
    ]


def test_without_a_key_or_a_window_it_says_so() -> None:
    found = load(SEQUENCE.format(""), 100)
    assert found[2] == "on a stream of Spark: in one task, for there is no key to spread it by"
    assert found[3] == "memory: no window in time or events bounds it"


def test_candidates_come_on_top() -> None:
    triangle = SEQUENCE.format("; C AS c FILTER a[x] + b[x] < c[x] WITHIN 100 EVENTS")
    assert load(triangle, 100)[2].startswith("candidates come on top")


def test_there_is_no_load_without_a_rate() -> None:
    query = cernis.query(SEQUENCE.format("WITHIN 5 MINUTES"))
    assert "load" not in str(query.explain())
    with pytest.raises(cernis.CernisError, match="rate must be above 0"):
        query.explain(rate=0)
