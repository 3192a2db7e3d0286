"""Times at the ends of their range, and further apart than 63 bits measure."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import cernis
from cernis.events.order import Scale
from cernis.events.times import LARGEST_TICK
from cernis.languages.ceql import parse
from tools.cases.differential import assert_agrees, assert_groups_agree, comparable_group

HALF, FAR = 2**62, LARGEST_TICK
TIMES = [-FAR, -FAR + 1, -FAR + 2, -HALF - 1, -HALF, -2, -1, 0, 1, 2]
TIMES += [HALF - 1, HALF, HALF + 1, FAR - 2, FAR - 1, FAR]
SIZES = [1, 2, HALF, 2 * HALF - 1, 2 * HALF, 2 * HALF + 1, 4 * HALF - 2, 4 * HALF - 1, 4 * HALF]

QUERIES = [
    "SELECT * FROM S WHERE A AS a ;[{d}] B AS b",
    "SELECT * FROM S WHERE A AS a ;[{c} TO {d}] B AS b",
    "SELECT * FROM S WHERE (A+[{d}]) AS a ; B AS b",
    "SELECT * FROM S WHERE (A AS a ;[{d}] B AS b) FILTER a[x] = b[x]",
    "SELECT * FROM S WHERE (A AS a ;[{c} TO {d}] B AS b) FILTER a[x] < b[x]",
    "SELECT * FROM S WHERE (A AS a ;[{c} TO {d}] B AS b) FILTER a[x] != b[x]",
    "SELECT * FROM S WHERE A AS a ; B AS b WITHIN {d}",
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x] < b[x] WITHIN {d}",
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x] = b[x] WITHIN {d}",
    "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [x] WITHIN {d}",
    "SELECT * FROM S WHERE ((A AS a ; B AS b) WITHIN {d}) ; A AS c",
    "SELECT * FROM S WHERE ((A AS a ; B AS b) WITHIN {d}) ; A AS c WITHIN {e}",
    "SELECT * FROM S WHERE A AS a WITHOUT B FOR {d}",
    "SELECT * FROM S WHERE A AS a WITHOUT B BEFORE {d}",
    "SELECT * FROM S WHERE A AS a WITHOUT (B AS b FILTER a[x] = b[x]) FOR {d}",
    "SELECT * FROM S WHERE A AS a PARTITION BY [x] SUPPRESS BY [x] FOR {d}",
    "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [x] FORGET AFTER {d}",
    "SELECT LONGEST a FROM S WHERE (A+[{d}]) AS a",
    "SELECT MAX a FROM S WHERE (A+[{d}]) AS a",
    "SELECT * FROM S WHERE A AS a ->[{d}] B AS b",
    "SELECT * FROM S WHERE (A{{2,3}}[{d}]) AS a ; B AS b WITHIN {e}",
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER END - START <= {d}",
]


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: [event[name] for event in events] for name in events[0]})


@pytest.mark.parametrize("query", QUERIES)
def test_times_that_are_far_apart_agree_with_the_oracle(query: str) -> None:
    draw = Random(query)
    for _ in range(8):
        times = sorted(draw.choices(TIMES, k=draw.randint(2, 6)))
        events = [{"type": draw.choice("AB"), "ts": t, "x": draw.randint(0, 1)} for t in times]
        least, most = sorted((draw.choice([0, 1, *SIZES]), draw.choice(SIZES)))
        sizes = (f"{size} MILLISECONDS" for size in (least, most, draw.choice(SIZES)))
        pattern = parse(query.format_map(dict(zip("cde", sizes, strict=True))))
        found = cernis.query(pattern).run(table_of(events), complete=True)
        assert_agrees(pattern, events, list(found), tick=10**6, complete=True)


@pytest.mark.parametrize("clause", ["", " OF START"])
@pytest.mark.parametrize("window", ["", " WITHIN 7 DAYS"])
def test_groups_of_far_times_agree_with_the_oracle(window: str, clause: str) -> None:
    draw = Random(f"{window}{clause}")
    for _ in range(8):
        times = sorted(draw.choices(TIMES[3:13], k=draw.randint(2, 6)))
        events = [{"type": draw.choice("AB"), "ts": t, "x": draw.randint(0, 1)} for t in times]
        size = draw.choice([1, 7, 60_000, HALF - 5])
        pattern = parse(
            "SELECT COUNT(*) AS n, SUM(b[x]) AS s FROM S WHERE A AS a ; B AS b"
            f"{window} GROUP BY EVERY {size} MILLISECONDS{clause}"
        )
        session = cernis.query(pattern).session()
        found = [*session.push(table_of(events[:1])), *session.push(table_of(events[1:]))]
        groups = [
            comparable_group(group.time.values(), {}, group.values)
            for group in (*found, *session.finish())
        ]
        assert_groups_agree(pattern, events, groups, tick=10**6)


@pytest.mark.parametrize("time", [-(2**63), FAR + 1, -FAR - 1])
def test_numbers_at_the_ends_of_64_bits_are_no_times(time: int) -> None:
    with pytest.raises(cernis.DataError, match=f"'{time}' is not a usable time"):
        cernis.query("SELECT * FROM S WHERE A").run([{"type": "A", "ts": time}])


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00.5", "2263-01-01"])
def test_times_in_text_have_the_range_of_nanoseconds(time: str) -> None:
    with pytest.raises(cernis.DataError) as raised:
        cernis.query("SELECT * FROM S WHERE A").run([{"type": "A", "ts": time}])
    assert str(raised.value) == (
        f"stream 'S', row 0, column 'ts': {time!r} is out of range: times in text count "
        "nanoseconds, from 1677-09-21 to 2262-04-11; a column of type timestamp[us] or "
        "timestamp[s] reaches further"
    )
    column = pa.array([time]).cast(pa.timestamp("us"))
    events = pa.table({"type": ["A"], "ts": column})
    assert cernis.query("SELECT * FROM S WHERE A").run(events).count() == 1


def test_the_deadline_of_the_longest_match_is_found_for_times_beyond_nanoseconds() -> None:
    query = cernis.query(
        "SELECT LONGEST COUNT(a) AS n FROM S WHERE (A+ AS a ; B) WITHIN 60 SECONDS"
    )
    for first in (10**9, 10**11):
        times = pa.array([first + 10 * i for i in range(4)], pa.timestamp("s"))
        session = query.session()
        session.push(pa.table({"type": ["A", "A", "B", "A"], "ts": times}))
        assert session.pipeline.next_deadline(Scale(10**9)) == first + 60
