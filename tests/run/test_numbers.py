"""Numbers beyond 64 bits: they are answered right, or refused where they stand."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis import pattern as p
from cernis.cli.main import main
from cernis.encoding.clock import subtract
from cernis.integers import read_integer

BEYOND = [2**63 - 1, 2**63, 10**19, 2**64, 10**39]
EVENTS = pa.table({"type": ["A", "B"], "ts": [1, 2], "x": [1, 2], "f": [1.0, 2.0], "k": [7, 7]})

SPASEQ = """SELECT ?a WITHIN {} SECONDS FROM STREAM S <urn:s>
WHERE {{ SEQ (A) DEFINE GPM A ON S {{ ?a <urn:p> ?b }} }}"""


@pytest.mark.parametrize("size", BEYOND)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A ; B WITHIN {} EVENTS",
        "SELECT * WHERE A ; B PARTITION BY [k] WITHIN {} EVENTS",
        "SELECT LAST * WHERE A ; B WITHIN {} EVENTS",
        "SELECT COUNT(*) WHERE A ; B WITHIN {} EVENTS",
        "SELECT COUNT(*) WHERE A ; B PARTITION BY [k] WITHIN {} EVENTS",
        "SELECT COUNT(*) WHERE A ; B LIMIT {}",
        "SELECT * WHERE (A AS a ; B AS b) FILTER a[x] < b[x] WITHIN {} EVENTS",
        "SELECT * WHERE (A AS a ; B AS b) FILTER a[x] < b[x] PARTITION BY [k] WITHIN {} EVENTS",
        "SELECT * WHERE A ; B WITHIN {} SECONDS",
        "SELECT * WHERE A ; B WITHIN {} [x]",
        "SELECT * WHERE A ; B WITHIN {} [f]",
        "SELECT * WHERE A ; B LIMIT {}",
        "SELECT * WHERE (A AS a ; B AS b) FILTER a[x] < b[x] LIMIT {}",
        "Q(x) <- A(x: x)@t, B(x: y)@u, t < u WITHIN {} EVENTS",
        "Q(x) <- A(x: x)@t, B(x: y)@u, t < u WITHIN {} SECONDS",
        "Q(x) <- A(x: x)@t, B(x: y)@u, t < u, u - t < {}",
        "Q(x) <- A(x: x)@t, B(x: y)@u, t < u, u - t < {} SECONDS",
    ],
)
def test_a_window_or_limit_may_be_beyond_64_bits(query: str, size: int) -> None:
    lang = "cq" if "<-" in query else "ceql"
    asked: Any = cernis.query(query.format(size), lang=lang)
    found = asked.run(EVENTS)
    assert found.count() == len(found.to_arrow()) == 1
    session = asked.session(keep=True)
    session.push(EVENTS)
    assert session.pull().count() == 1
    assert str(asked.explain())


@pytest.mark.parametrize("number", [10**19, 10**41])
@pytest.mark.parametrize(
    ("query", "lang"),
    [
        ("SELECT * WHERE A AS a FILTER a[x < {}]", "ceql"),
        ("SELECT * WHERE A AS a FILTER a[x IN {{1, -{}}}]", "ceql"),
        ("SELECT * WHERE A AS a FILTER a[x + {} > 1]", "ceql"),
        ("Q(x) <- A(x: x, k: {})", "cq"),
        ("Q(x) <- A(x: x), x < {}", "cq"),
        (SPASEQ, "spaseq"),
    ],
)
def test_other_numbers_beyond_64_bits_are_refused_where_they_stand(
    query: str, lang: str, number: int
) -> None:
    with pytest.raises(cernis.QueryError, match=r"line 1, column \d+: .*(range|64 bits)(.|\n)*\^"):
        cernis.query(query.format(number), lang=lang)


@pytest.mark.parametrize("number", [10**19, 10**400])
def test_a_limit_of_a_result_may_be_beyond_64_bits(number: int) -> None:
    matches = cernis.query("SELECT * WHERE A ; B").run(EVENTS)
    answers: Any = cernis.query("Q(x) <- A(x: x), B(x: y)", lang="cq").run(EVENTS)
    for result in (matches, answers):
        assert len(result.head(number)) == len(result.sample(number)) == 1
        assert len(result.to_arrow(number)) == 1
        assert result.write_jsonl("/dev/null", limit=number) == 1


def test_a_limit_beyond_64_bits_limits_the_count() -> None:
    events = pa.table({"type": ["A"] * 200 + ["B"]})
    assert cernis.query("SELECT * WHERE A+ AS a ; B").run(events).count() == 2**200 - 1
    limited = cernis.query(f"SELECT * WHERE A+ AS a ; B LIMIT {10**39}").run(events)
    assert limited.count() == 10**39
    assert len(limited.head(3)) == 3


def test_a_window_that_no_text_can_write_is_refused() -> None:
    formula = p.select().where(p.event("A") >> p.event("B"))
    for window in ({"events": 10**400}, {"seconds": 10**400}, {"attribute": "f", "size": 10**400}):
        with pytest.raises(cernis.QueryError, match="the size of WITHIN is out of range"):
            formula.within(**window).build()  # type: ignore[arg-type]


def test_a_window_on_readings_that_differ_by_more_than_63_bits_is_exact() -> None:
    ends = np.array([-(2**63), 0, 2**63 - 1])
    for size in (2**62, 2**63 - 1, 2**63, 10**19, 2**64 - 2, 2**64 - 1, 2**64, 10**30):
        inside = ends[None, :] >= subtract(ends, size)[:, None]
        exact = [[int(e) - int(s) <= size for s in ends] for e in ends]
        assert inside.tolist() == exact


@pytest.mark.parametrize(("hour", "found"), [(1, 1), (2, 0)])
def test_gaps_between_times_whose_nanoseconds_exceed_64_bits_are_exact(
    hour: int, found: int
) -> None:
    query = "SELECT * WHERE A AS a ;[1 HOUR] B AS b ; C AS c FILTER a[x] + b[x] < c[x]"
    drawn = [("A", 0, 0), ("B", 1, hour), ("C", 2, 5)]
    events = [{"type": t, "x": x, "ts": datetime(9998, 1, 1, at)} for t, x, at in drawn]
    assert cernis.query(query).run(events).count() == found


@pytest.mark.parametrize("key", ["EVERY 1 HOUR", "EVERY 1 HOUR OF START"])
def test_intervals_of_times_whose_nanoseconds_exceed_64_bits_are_exact(key: str) -> None:
    query = cernis.query(f"SELECT COUNT(*) AS n WHERE A ; B GROUP BY {key}")
    events = [{"type": kind, "ts": datetime(9998, 1, 1, 5, 30)} for kind in "AB"]
    (group,) = query.run(events)
    assert (group.values, group.time["from_ts"]) == ({"n": 1}, datetime(9998, 1, 1, 5))


def test_the_first_match_of_each_interval_of_far_times_is_found() -> None:
    events = [{"type": "A", "x": x, "ts": datetime(9998, 1, 1, x)} for x in (3, 4, 5)]
    best = cernis.query("SELECT * WHERE A ORDER BY A[x] LIMIT 1 EVERY 2 HOURS").session()
    found = [match.start for event in events for match in best.push([event])]
    assert [*found, *(match.start for match in best.finish())] == [0, 1]


@pytest.mark.parametrize("key", ["EVERY 1 MILLISECOND", "EVERY 1 MILLISECOND OF START"])
def test_intervals_beyond_64_bits_are_refused(key: str) -> None:
    events = pa.table({"type": ["A"], "ts": pa.array([2**62], pa.timestamp("s"))})
    query = cernis.query(f"SELECT COUNT(*) AS n FROM S WHERE A GROUP BY {key}")
    far = "^GROUP BY EVERY: a time lies too far from 1970 to count its intervals$"
    with pytest.raises(cernis.DataError, match=far):
        query.run(events).count()


EXPLODING = pa.table({"type": ["A", *["B"] * 15_000, "C"], "ts": range(15_002)})


def test_counts_of_thousands_of_digits_are_shown_written_and_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matches = cernis.query("SELECT * WHERE A ; B+ ; C").run(EXPLODING)
    assert matches.count() == 2**15_000 - 1
    assert repr(matches) == "<about 10^4515 matches>"
    (written,) = matches.counts().column("count").to_pylist()
    assert read_integer(written) == 2**15_000 - 1
    assert sum(map(read_integer, matches.timeline().to_dict()["ends"]["bins"])) == 2**15_000 - 1

    query = cernis.query("SELECT COUNT(*) WHERE A ; B+ ; C GROUP BY EVERY 1 HOUR")
    session = query.session()
    session.push(EXPLODING)
    (group,) = query.thaw(session.freeze()).finish()
    assert read_integer(group.values["COUNT(*)"]) == 2**15_000 - 1

    events = tmp_path / "S.parquet"
    pq.write_table(EXPLODING, events)
    for more in ["--count"], []:
        assert main(["run", "SELECT * WHERE A ; B+ ; C", "--events", str(events), *more]) == 0
    number, *_, last = capsys.readouterr().out.splitlines()
    assert read_integer(number) == 2**15_000 - 1
    assert last == "about 10^4515 matches; about 10^4515 more"
