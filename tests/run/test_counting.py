"""Numbers of matches: `SELECT COUNT(*)` alone, sessions that only count, and `Matches.count`."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Consume, Strategy
from cernis.results.sets import unary
from cernis.run.feed import SlidingFeed, UnaryFeed
from cernis.run.session import Session
from tools.cases.differential import assert_counts_agree
from tools.cases.grammar import split_batches
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

COUNT = "SELECT COUNT(*) FROM S WHERE A ; B+ ; C PARTITION BY [k] WITHIN 9 EVENTS"


def events(number: int = 400) -> list[dict[str, Any]]:
    draw = np.random.default_rng(5)
    types, keys = draw.choice(list("ABC"), number), draw.choice(list("xyz"), number)
    return [{"type": str(t), "k": str(k)} for t, k in zip(types, keys, strict=True)]


def rows(counted: cernis.Matches) -> list[tuple[Any, ...]]:
    return list(zip(*counted.counts().to_pydict().values(), strict=True))


def expected() -> list[tuple[Any, ...]]:
    return rows(cernis.query(COUNT.replace("COUNT(*)", "*")).run(make_table(events())))


def test_counting_keeps_no_matches() -> None:
    session = cernis.query(COUNT).session()
    assert isinstance(session.pipeline.feed, SlidingFeed)
    found = session.push(make_table(events()))
    assert found.counting
    assert rows(found) == expected()
    session.forget()
    assert session.kept_from == 400
    with pytest.raises(cernis.StateError, match="keep no matches"):
        found.sample(1)


@pytest.mark.parametrize(
    "text",
    [
        COUNT + " LIMIT 3",
        COUNT + " CONSUME BY ANY",
        COUNT.replace("SELECT", "SELECT LAST"),
        COUNT.replace("COUNT(*)", "*"),
    ],
)
def test_other_queries_keep_matches(text: str) -> None:
    assert isinstance(cernis.query(text).session().pipeline.feed, UnaryFeed)


def test_batches_streams_and_frozen_sessions_count_the_same() -> None:
    table, query = make_table(events()), cernis.query(COUNT)
    pieces = [table.slice(at, 37) for at in range(0, 400, 37)]
    session = query.session()
    assert [row for piece in pieces for row in rows(session.push(piece))] == expected()
    assert [row for found in query.stream(table) for row in rows(found)] == expected()
    session, found = query.session(), []
    for piece in pieces:
        found += rows(session.push(piece))
        session = cernis.query(COUNT).thaw(session.freeze())
    assert found == expected()


def test_pulling_counts_the_matches_inside_the_window() -> None:
    table = make_table(events())
    session = cernis.query(COUNT).session(keep=True)
    plain = cernis.query(COUNT.replace("COUNT(*)", "*")).session(keep=True)
    for at in range(0, 400, 50):
        session.push(table.slice(at, 50))
        plain.push(table.slice(at, 50))
        assert session.pull().count() == plain.pull().count()


def test_a_damaged_state_is_refused() -> None:
    from tools.cases.frozen import pack_parts as pack
    from tools.cases.frozen import unpack_parts as unpack

    session = cernis.query(COUNT).session()
    session.push(make_table(events()))
    state = session.freeze()
    for name, value in (("places", 10**9), ("free_rows", 900), ("row_of_key", 70), ("words", None)):
        meta, arrays = unpack(state)
        if value is None:
            del arrays[f"engine/{name}"]
        else:
            arrays[f"engine/{name}"].flat[0] = value
        with pytest.raises(cernis.StateError, match="the frozen state is damaged"):
            cernis.query(COUNT).thaw(pack(meta, arrays))


@settings(
    max_examples=max(80, settings.default.max_examples), suppress_health_check=list(HealthCheck)
)
@given(
    cases(
        disorder=False,
        selects=("COUNT",),
        strategies=(Strategy.ALL, Strategy.STRICT, Strategy.NEXT),
        consume=(Consume.NONE,),
    ).flatmap(lambda c: st.tuples(st.just(c), cuts(len(c[1]))))
)
def test_any_split_into_batches_agrees_with_the_oracle(drawn: Any) -> None:
    (pattern, made), at = drawn
    made = sorted(made, key=lambda e: e["ts"]) if made and "ts" in made[0] else made
    timed = None if made and "ts" not in made[0] else True
    table, session = make_table(made, timed=timed), cernis.query(pattern).session()
    found = []
    for number, piece in enumerate(split_batches(range(len(made)), at)):
        pushed = session.push(table.slice(piece[0] if piece else 0, len(piece)))
        counted = pushed.counts().to_pydict()
        found += zip(counted["end"], counted["count"], strict=True)
        if number == 1:
            session = cernis.query(pattern).thaw(session.freeze())
    assert_counts_agree(pattern, made, found)


@settings(
    max_examples=max(40, settings.default.max_examples), suppress_health_check=list(HealthCheck)
)
@given(cases(disorder=False).flatmap(lambda c: st.tuples(st.just(c), cuts(len(c[1])))))
def test_a_session_that_only_counts_agrees_with_the_oracle(drawn: Any) -> None:
    (pattern, made), at = drawn
    made = sorted(made, key=lambda e: e["ts"]) if made and "ts" in made[0] else made
    timed = None if made and "ts" not in made[0] else True
    table, query = make_table(made, timed=timed), cernis.query(pattern)
    session, found = query.session(matches="count"), []
    for number, piece in enumerate(split_batches(range(len(made)), at)):
        pushed = session.push(table.slice(piece[0] if piece else 0, len(piece)))
        found += [(row["end"], row["count"]) for row in pushed.to_arrow().to_pylist()]
        assert isinstance(session.pipeline.feed, SlidingFeed) is session.plan.can_aggregate
        if number == 1:
            session = cernis.query(pattern).thaw(session.freeze())
    found += [(row["end"], row["count"]) for row in session.finish().to_arrow().to_pylist()]
    assert_counts_agree(pattern, made, found)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("SELECT * FROM S WHERE A ; B", {"matches": "lines"}, "expected 'events' or 'count'"),
        ("SELECT * FROM S WHERE A ; B", {"keep": True}, "does not go with keep=True"),
        ("SELECT COUNT(*) FROM S WHERE A GROUP BY END", {}, "does not go with GROUP BY"),
    ],
)
def test_counting_is_refused_where_there_is_nothing_to_count(
    text: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(cernis.CernisError, match=message):
        cernis.query(text).session(**{"matches": "count", **options})


def test_answers_of_a_head_are_not_counted_by_end() -> None:
    query = cernis.query("Q(x) <- A(a: x), B(a: x, b: y) WITHIN 9 EVENTS", lang="cq")
    with pytest.raises(cernis.CernisError, match="count its answers"):
        query.session(matches="count")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the walk give up at the first node."""
    monkeypatch.setattr(unary, "_FEW_NODES", 0)
    monkeypatch.setattr(unary, "_NODES_PER_EVENT", 0)


@pytest.mark.usefixtures("impatient")
@settings(
    max_examples=max(40, settings.default.max_examples), suppress_health_check=list(HealthCheck)
)
@given(cases(consume=(Consume.NONE,), limit=False))
def test_a_walk_that_gives_up_leaves_the_same_numbers(case: Any) -> None:
    pattern, made = case
    timed = None if made and "ts" not in made[0] else True
    counted = cernis.query(pattern).run(make_table(made, timed=timed)).counts().to_pydict()
    assert_counts_agree(pattern, made, zip(counted["end"], counted["count"], strict=True))


@pytest.mark.usefixtures("impatient")
def test_matches_that_are_counted_again_can_be_listed_and_drawn() -> None:
    table = make_table(events(120))
    found = cernis.query(COUNT.replace("COUNT(*)", "*")).run(table)
    every = [(m.start, m.end, m.vars) for m in found]
    assert found.count() == len(every)
    drawn = [(m.start, m.end, m.vars) for m in found.sample(9, seed=3)]
    assert len(drawn) == 9
    assert all(each in every for each in drawn)


@pytest.mark.parametrize("has_code", [True, False])
def test_the_walk_is_more_patient_while_the_aggregator_would_have_to_be_compiled(
    has_code: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unary, "_FEW_NODES", 100)
    monkeypatch.setattr(unary, "_NODES_PER_EVENT", 0)
    monkeypatch.setattr(unary, "is_compiled", lambda: has_code)
    recounted: list[object] = []
    count_again = unary.CompactMatches._count_again
    monkeypatch.setattr(
        unary.CompactMatches,
        "_count_again",
        lambda self, recount: recounted.append(recount) or count_again(self, recount),
    )
    found = cernis.query(COUNT.replace("COUNT(*)", "*")).run(make_table(events(120)))
    assert found.count() == len(list(found))
    assert bool(recounted) is has_code


@pytest.mark.usefixtures("impatient")
def test_counts_of_a_run_are_exact_beyond_64_bits() -> None:
    parts = " ; ".join(["A"] * 40)
    found = cernis.query(f"SELECT * FROM S WHERE {parts} WITHIN 299 EVENTS").run(
        make_table([{"type": "A"}] * 300)
    )
    assert found.count() == comb(300, 40)


def test_only_a_whole_run_with_a_window_is_counted_again() -> None:
    query, table = cernis.query(COUNT.replace("COUNT(*)", "*")), make_table(events())

    def remembers(session: Session[cernis.Matches]) -> bool:
        assert isinstance(session.pipeline.feed, UnaryFeed)
        return session.pipeline.feed.read is not None

    whole, later, limited = query.session(), query.session(), query.session(max_keys=5)
    whole.collect(table)
    later.push(table.slice(0, 9))
    later.collect(table.slice(9))
    limited.collect(table)
    assert [remembers(each) for each in (whole, later, limited)] == [True, False, False]


def test_twenty_thousand_partitions_have_the_pairs_of_each_alone() -> None:
    chance, number = np.random.default_rng(3), 90_000
    keys, kinds = chance.integers(0, 20_000, number), chance.choice(["A", "B"], number)
    events = pa.table({"type": kinds, "k": keys})
    query = cernis.query("SELECT * FROM S WHERE A ; B PARTITION BY [k]")
    expected, waiting = 0, dict[int, int]()
    for key, kind in zip(keys.tolist(), kinds.tolist(), strict=True):
        before = waiting.get(key, 0)
        expected += before if kind == "B" else 0
        waiting[key] = before + (kind == "A")

    session = query.session()
    pieces = [session.push(events.slice(low, 20_000)) for low in range(0, number, 20_000)]
    assert sum(piece.count() for piece in pieces) == expected
    assert sum(len(piece.to_arrow()) for piece in pieces) == expected
