"""FORGET AFTER: lives of partitions against the oracle, and state that stays bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.cli.main import main
from cernis.pattern.query import counts_only
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.grammar import FAMILIES, Family
from tools.cases.grammar import split_batches as split
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

many = settings(
    max_examples=max(53, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


def compare(pattern: Any, events: Any, parts: list[Any]) -> None:
    if counts_only(pattern):
        counted = [row for part in parts for row in part.counts().to_pylist()]
        assert_counts_agree(pattern, events, [(row["end"], row["count"]) for row in counted])
    else:
        assert_agrees(pattern, events, [match for part in parts for match in part])


@many
@given(cases(forget=True))
def test_lives_agree_with_the_oracle(case: Any) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(make_table(events, timed=True))])


@many
@given(cases(forget=True, binary=True, previous=True, partition_by_inside=True, size=7, events=7))
def test_lives_agree_where_events_are_compared(case: Any) -> None:
    pattern, events = case
    compare(pattern, events, [cernis.query(pattern).run(make_table(events, timed=True))])


def check_batches(pattern: Any, events: Any, at: list[int], freezes: bool) -> None:
    events = sorted(events, key=lambda event: event["ts"])
    whole = make_table(events, timed=True)
    query = cernis.query(pattern)
    session, parts = query.session(), []
    for piece in split(range(len(events)), at):
        parts.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session.forget()
        if freezes:
            session = query.thaw(session.freeze())
    compare(pattern, events, parts)


with_cuts = cases(forget=True, disorder=False, binary=True, previous=True).flatmap(
    lambda case: st.tuples(st.just(case), cuts(len(case[1])))
)


@pytest.mark.parametrize("freezes", [False, True])
@many
@given(drawn=with_cuts)
def test_batches_and_freezing_change_nothing(freezes: bool, drawn: Any) -> None:
    (pattern, events), at = drawn
    check_batches(pattern, events, at, freezes)


@pytest.mark.parametrize("renumbers", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=max(40, settings.default.max_examples))
@given(data=st.data())
def test_families_do_not_depend_on_batches(
    family: Family, renumbers: bool, data: st.DataObject
) -> None:
    case = data.draw(cases(forget=True, families=(family,), events=14, disorder=False))
    at = data.draw(cuts(len(case[1])))
    with pytest.MonkeyPatch.context() as patch:
        if renumbers:
            patch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", -100)
        check_batches(*case, at, freezes=renumbers)


@many
@given(drawn=with_cuts)
def test_renumbering_keys_after_each_batch_changes_nothing(drawn: Any) -> None:
    (pattern, events), at = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", -100)
        check_batches(pattern, events, at, freezes=True)


def test_it_needs_a_time_column() -> None:
    query = cernis.query("SELECT * WHERE A ; B FORGET AFTER 5 MINUTES")
    with pytest.raises(cernis.DataError, match="FORGET AFTER needs a time column"):
        query.run([{"type": "A"}, {"type": "B"}])


def test_a_session_with_many_partitions_that_stay_has_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cernis.run.session.MANY_KEYS", 2)
    query = "SELECT * WHERE A ; B PARTITION BY [k] WITHIN 5 EVENTS"
    events = [{"type": t, "k": k, "ts": k} for k in range(2) for t in "AB"]
    note = (
        "2 partitions, and idle ones stay: the window counts events inside the key "
        "(add FORGET AFTER a time)"
    )
    assert cernis.query(query).session().push(events).notes == (note,)
    assert cernis.query(query).run(events).notes == ()
    assert cernis.query(f"{query} FORGET AFTER 1 HOUR").session().push(events).notes == ()


def push_keys(session: Any, keys: list[int]) -> Any:
    types = ["A" if key >= 0 else "B" for key in keys]
    return session.push(pa.table({"type": types, "k": [abs(key) for key in keys]}))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A ; B PARTITION BY [k]",
        "SELECT * WHERE A AS a ; B AS b FILTER a[k] = b[k] PARTITION BY [k]",
        "SELECT LAST * WHERE A AS a ; B AS b FILTER a[k] <= b[k] PARTITION BY [k]",
        "SELECT COUNT(*) WHERE A ; B PARTITION BY [k]",
    ],
)
@pytest.mark.parametrize("freezes", [False, True])
def test_more_partitions_than_allowed_drop_those_that_are_idle_longest(
    query: str, freezes: bool
) -> None:
    options: dict[str, Any] = {"max_keys": 3, "on_full": "oldest"}
    one = cernis.query(query)
    session = one.session(**options)
    push_keys(session, [1, 2, 3, 1])
    if freezes:
        session = one.thaw(session.freeze(), **options)
    found = push_keys(session, [4])
    assert found.notes == (
        "1 partition was dropped, idle longest: max_keys is 3; matches may be missing",
    )
    found = push_keys(session, [-1, -2, -3, -4])
    assert found.counts().column("end").to_pylist() == [5, 7, 8]


def test_more_partitions_than_allowed_are_an_error() -> None:
    session = cernis.query("SELECT * WHERE A ; B PARTITION BY [k]").session(max_keys=2)
    push_keys(session, [1, 2])
    with pytest.raises(cernis.BudgetError, match="max_keys is 2; add FORGET AFTER"):
        push_keys(session, [3])


def test_partitions_that_have_left_the_window_do_not_count() -> None:
    query = cernis.query("SELECT * WHERE A ; B PARTITION BY [k] WITHIN 1 SECOND")
    session = query.session(max_keys=2)
    for key in range(10):
        session.push(pa.table({"type": ["A"], "k": [key], "ts": [1000 * key]}))


QUERIES = {
    "unary": "SELECT * WHERE A ; B PARTITION BY [k] WITHIN 100 EVENTS",
    "attribute": "SELECT * WHERE A ; B PARTITION BY [k] WITHIN 100 [n]",
    "no window": "SELECT * WHERE A ; B PARTITION BY [k]",
    "counted": "SELECT COUNT(*) WHERE A ; B PARTITION BY [k] WITHIN 100 EVENTS",
    "correlated": "SELECT * WHERE A AS a ; B AS b FILTER a[v] = b[v] PARTITION BY [k]",
    "listed": "SELECT LAST * WHERE A AS a ; B AS b FILTER a[v] < b[v] PARTITION BY [k]",
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_state_of_fresh_keys_stays_bounded(name: str) -> None:
    """Each key has one event: 1,000 keys are alive at any time."""
    total = 100_000 if name == "listed" else 600_000
    step = total // 20
    query = cernis.query(f"{QUERIES[name]} FORGET AFTER 999 MILLISECONDS")
    session = query.session()
    sizes = []
    for first in range(0, total, step):
        ts = np.arange(first, first + step)
        session.push(pa.table({"type": ["A"] * step, "k": ts, "ts": ts, "n": ts, "v": ts % 7}))
        pipeline = session.pipeline
        assert len(pipeline.keys) <= 4 * (1 << 16) + step
        sizes.append(len(session.freeze()))
        assert len(pipeline.engine.live_keys()) == 1_000
        assert pipeline.engine.position - pipeline.kept_from == (0 if name == "counted" else 1_000)
    assert max(sizes) < {"correlated": 5_000_000, "counted": 10_000_000}.get(name, 3_000_000)
    assert max(sizes[10:]) <= 1.5 * max(sizes[:10])


# ------------------------------------------------------------ command line


def test_the_command_line_bounds_the_partitions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "S.jsonl"
    file.write_text('{"type":"A","k":1}\n{"type":"A","k":2}\n{"type":"B","k":2}\n')
    run = ["run", "SELECT * WHERE A ; B PARTITION BY [k]", str(file), "--count", "--max-keys", "1"]
    assert main(run) == 1
    assert "2 partitions have partial matches, and max_keys is 1" in capfd.readouterr().err
    assert main([*run, "--drop-oldest"]) == 0
    out, err = capfd.readouterr()
    assert out == "1\n"
    assert "note: 1 partition was dropped, idle longest: max_keys is 1" in err
    assert main([*run, "--engine", "spark"]) == 2


@pytest.mark.parametrize("window", ["", "WITHIN 5 EVENTS", "WITHIN 100 MILLISECONDS"])
@pytest.mark.parametrize("condition", ["", "FILTER a[v] < b[v]", "FILTER SUM(m[v]) > 0"])
def test_pull_does_not_show_the_matches_of_a_forgotten_partition(
    window: str, condition: str
) -> None:
    text = (
        f"(A AS a ; B AS b) AS m {condition} PARTITION BY [k] {window} FORGET AFTER 3 MILLISECONDS"
    )
    session = cernis.query(f"SELECT a, b FROM S WHERE {text}").session(keep=True)

    def push(*events: tuple[str, str, int]) -> list[tuple[int, int]]:
        rows = [{"type": t, "k": k, "ts": ts, "v": ts} for t, k, ts in events]
        session.push(rows)
        return sorted((match.start, match.end) for match in session.pull())

    assert push(("A", "x", 0), ("A", "y", 1), ("B", "x", 2)) == [(0, 2)]
    assert push(("B", "y", 3), ("A", "y", 5)) == [(0, 2), (1, 3)]
    assert push(("A", "z", 6)) == [(1, 3)]  # nothing of x for longer than 3 ms
    assert push(("A", "x", 7), ("B", "x", 8)) == [(1, 3), (6, 7)]
    session.forget()
    assert push(("C", "z", 9)) == [(6, 7)]
