"""SUPPRESS BY: against the oracle in any batches, its numbers, its state, its mistakes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
import cernis.pattern as p
from cernis.cli.main import main
from cernis.pattern.query import Consume, Pattern, Strategy
from cernis.run.stages.suppress import Suppressor
from tools.cases.differential import assert_suppression_agrees
from tools.cases.grammar import split_batches
from tools.cases.strategies import cuts, suppressed_cases
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Case = tuple[Pattern, Events]

some = settings(
    max_examples=max(33, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)
CHOOSING = tuple(each for each in Strategy if each is not Strategy.ANY)


def compare(pattern: Pattern, events: Events, found: Sequence[cernis.Matches]) -> None:
    given_ = [(match, match.suppressed) for part in found for match in part]
    assert_suppression_agrees(pattern, events, given_)


@some
@given(suppressed_cases(consume=tuple(Consume)))
def test_the_engine_agrees_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(make_table(events, timed=True))])


@some
@given(suppressed_cases(strategies=CHOOSING, binary=True, size=7, events=8))
def test_strategies_and_comparisons_agree_with_the_oracle(case: Case) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(make_table(events, timed=True))])


@some
@given(st.data())
def test_batches_and_freezing_change_nothing(data: st.DataObject) -> None:
    chosen = (Strategy.ALL, Strategy.NEXT, Strategy.LONGEST)
    pattern, events = data.draw(suppressed_cases(disorder=False, strategies=chosen))
    events = sorted(events, key=lambda event: event["ts"])
    query, whole = cernis.query(pattern), make_table(events, timed=True)
    session, found = query.session(), []
    for piece in split_batches(range(len(events)), data.draw(cuts(len(events)))):
        found.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session.forget()
        session = query.thaw(session.freeze())
    compare(pattern, events, [*found, session.finish()])


@some
@given(suppressed_cases())
def test_the_text_of_a_query_gives_it_back(case: Case) -> None:
    pattern, _ = case
    again = cernis.query(str(pattern)).pattern
    assert (again.suppress, str(again)) == (pattern.suppress, str(pattern))


def alarms(*rows: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"type": "ALARM", "host": host, "ts": ts} for host, ts in rows]


QUERY = "SELECT * FROM S WHERE ALARM PARTITION BY [host] SUPPRESS BY [host] FOR 10 MILLISECONDS"


def test_every_form_of_the_answer_has_the_number() -> None:
    found = cernis.query(QUERY).run(alarms(("a", 0), ("a", 3), ("b", 4), ("a", 10), ("a", 11)))
    assert found.count() == 3
    table = found.to_arrow()
    assert table.column_names[:6] == ["start", "end", "start_ts", "end_ts", "suppressed", "host"]
    assert table.column("suppressed").to_pylist() == [0, 0, 2]
    assert [match.suppressed for match in found] == [0, 0, 2]
    lines = [json.loads(line) for batch in found.lines() for line in batch["line"].to_pylist()]
    assert [line["suppressed"] for line in lines] == [0, 0, 2]
    (plain,) = cernis.query("SELECT * FROM S WHERE ALARM").run(alarms(("a", 0)))
    assert plain.suppressed is None


def test_a_flood_of_matches_is_counted_without_listing_it() -> None:
    """2 ** 60 matches end at each C: each end reports one, and silences the others."""
    query = cernis.query(
        "SELECT * FROM S WHERE A ; B+ AS b ; C PARTITION BY [k] SUPPRESS BY [k] FOR 1 MILLISECOND"
    )
    kinds = ["A", *"B" * 60, "C", "C"]
    events = [{"type": kind, "k": 1, "ts": 5 * i} for i, kind in enumerate(kinds)]
    found = query.run(events, budget=10)
    assert [match.suppressed for match in found] == [0, 2**60 - 2]
    kinds = ["A", *"B" * 80, "C", "C"]
    events = [{"type": kind, "k": 1, "ts": 5 * i} for i, kind in enumerate(kinds)]
    assert [match.suppressed for match in query.run(events)] == [0, 2**63 - 1]


def test_a_value_lists_all_matches_within_the_budget() -> None:
    query = cernis.query(
        "SELECT COUNT(b) AS n FROM S WHERE A ; B+ AS b ; C SUPPRESS BY [n] FOR 1 SECOND"
    )
    kinds = ["A", *"B" * 10, "C"]
    events = [{"type": kind, "ts": i} for i, kind in enumerate(kinds)]
    assert sorted(match.values["n"] for match in query.run(events)) == list(range(1, 11))
    with pytest.raises(cernis.BudgetError, match="SUPPRESS BY a value lists all matches"):
        query.run(events, budget=100)


def test_pull_gives_what_was_reported() -> None:
    session = cernis.query(QUERY).session(keep=True)
    session.push(alarms(("a", 0), ("a", 3)))
    session.push(alarms(("a", 20)))
    assert [(match.end, match.suppressed) for match in session.pull()] == [(0, 0), (2, 1)]


def test_keys_that_have_silenced_nothing_leave_the_state() -> None:
    session = cernis.query(QUERY).session()
    for first in range(0, 50_000, 10_000):
        ts = np.arange(first, first + 10_000)
        session.push(pa.table({"type": ["ALARM"] * len(ts), "host": ts, "ts": ts}))
        session.forget()
        (suppressor,) = session.pipeline.stages.choosing
        assert isinstance(suppressor, Suppressor)
        assert len(suppressor) == 11


def test_it_needs_a_time_column() -> None:
    with pytest.raises(cernis.DataError, match="SUPPRESS BY … FOR needs a time column"):
        cernis.query(QUERY).run([{"type": "ALARM", "host": "a"}])


def test_the_builder_writes_the_clause() -> None:
    query = p.select(p.var("a")["x"].as_("x")).where(p.event("A").as_("a"))
    built = query.partition_by(["k", "h"]).suppress_by("k|h", "x", seconds=90).build()
    text = str(built)
    assert text.endswith("PARTITION BY [k, h] SUPPRESS BY [k, h], [x] FOR 1 MINUTE 30 SECONDS")
    assert cernis.query(text).pattern == built


def test_explain_says_what_is_silenced_and_what_is_kept() -> None:
    text = str(cernis.query(QUERY).explain())
    assert "one match of host silences the next 10 milliseconds" in text
    assert "silenced matches are counted, not listed" in text
    value = "SELECT ALARM[x] AS x FROM S WHERE ALARM SUPPRESS BY [x] FOR 1 SECOND"
    text = str(cernis.query(value).explain())
    assert "all matches are listed, within the budget" in text
    assert "single: SUPPRESS BY values alone meets all keys" in text


def test_the_command_line_shows_the_number(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "S.jsonl"
    file.write_text(
        "".join(json.dumps(row) + "\n" for row in alarms(("a", 0), ("a", 1), ("a", 11)))
    )
    assert main(["run", QUERY, str(file), "--output", "-"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(line["end"], line["suppressed"]) for line in lines] == [(0, 0), (2, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * WHERE A PARTITION BY [host] SUPPRESS BY [hots] FOR 1 SECOND",
            """\
line 1, column 38: unknown component or value 'hots' in SUPPRESS BY
  SELECT * WHERE A PARTITION BY [host] SUPPRESS BY [hots] FOR 1 SECOND
                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: did you mean 'host'?""",
        ),
        (
            "SELECT * WHERE A SUPPRESS BY [x] FOR 1 SECOND",
            """\
line 1, column 18: unknown component or value 'x' in SUPPRESS BY
  SELECT * WHERE A SUPPRESS BY [x] FOR 1 SECOND
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: PARTITION BY [x], or give a value the name: SELECT … AS x""",
        ),
        (
            "SELECT * WHERE A PARTITION BY [k] SUPPRESS BY [k, k] FOR 1 SECOND",
            """\
line 1, column 35: SUPPRESS BY names 'k' twice
  SELECT * WHERE A PARTITION BY [k] SUPPRESS BY [k, k] FOR 1 SECOND
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 0 SECONDS",
            """\
line 1, column 35: SUPPRESS BY … FOR needs a duration longer than 0
  SELECT * WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 0 SECONDS
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT COUNT(*) WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 1 SECOND",
            """\
line 1, column 42: SUPPRESS BY does not go with SELECT COUNT(*) alone
  SELECT COUNT(*) WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 1 SECOND
                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: it silences matches: select variables or values""",
        ),
        (
            "SELECT COUNT(*) WHERE A PARTITION BY [k] GROUP BY [k] SUPPRESS BY [k] FOR 1 SECOND",
            """\
line 1, column 55: SUPPRESS BY does not go with GROUP BY
  SELECT COUNT(*) WHERE A PARTITION BY [k] GROUP BY [k] SUPPRESS BY [k] FOR 1 SECOND
                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: it silences matches: select variables or values""",
        ),
        (
            "SELECT A[x] AS k WHERE A ORDER BY k LIMIT 1 EVERY 1 DAY SUPPRESS BY [k] FOR 1 DAY",
            """\
line 1, column 57: SUPPRESS BY does not go with LIMIT … EVERY
  SELECT A[x] AS k WHERE A ORDER BY k LIMIT 1 EVERY 1 DAY SUPPRESS BY [k] FOR 1 DAY
                                                          ^^^^^^^^^^^^^^^^^^^^^^^^^
  help: EVERY keeps the best of each interval: silence matches, or rank them""",
        ),
        (
            "SELECT * WHERE A WITHOUT B FOR 3 EVENT PARTITION BY [k],[h] SUPPRESS BY [k] FOR 1 DAY",
            """\
line 1, column 61: beside WITHOUT … FOR … EVENTS, SUPPRESS BY names every component of the partition
  SELECT * WHERE A WITHOUT B FOR 3 EVENT PARTITION BY [k],[h] SUPPRESS BY [k] FOR 1 DAY
                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: k, h
  help: such matches have no common order across partitions""",
        ),
        (
            "SELECT A[x] AS suppressed WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 1 DAY",
            """\
line 1, column 8: every match has a column 'suppressed' already
  SELECT A[x] AS suppressed WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 1 DAY
         ^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * WHERE A PARTITION BY [k] SUPPRESS BY k FOR 1 DAY",
            """\
line 1, column 47: unexpected 'k'
  SELECT * WHERE A PARTITION BY [k] SUPPRESS BY k FOR 1 DAY
                                                ^
  expected: '['
  help: write SUPPRESS BY [k]""",
        ),
    ],
)
def test_the_message(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(text)
    assert str(raised.value) == message
