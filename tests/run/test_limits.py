"""Hostile queries end in a clear error; huge answers cost what their compact set costs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis
from cernis.cli.check import list_problems
from cernis.encoding.keys import KeyCoder
from cernis.engine.unary import runtime
from cernis.events.batch import EventBatch
from cernis.generators.stock import stock_stream

AB = pa.table({"type": ["A", "B"] * 50, "x": [1, 2] * 50})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (" OR ".join(f"T{i}" for i in range(5000)), "5,000 different questions"),
        (" ALL ".join(["(A ; B)"] * 20), "more than 200,000 moves"),
        ("(A OR B)+ ; A ; " + " ; ".join(["(A OR B)"] * 20), "4,096 deterministic states"),
        ("((A{300}){300}){300}", "50,000 automaton states"),
        (
            "(A AS a OR B AS b) FILTER " + " AND ".join(["(a[x = 1] OR b[x = 2])"] * 20),
            "more than 1,000 cases",
        ),
    ],
)
def test_a_pattern_that_would_explode_is_refused(query: str, message: str) -> None:
    with pytest.raises(cernis.BudgetError, match=message):
        cernis.query(f"SELECT * WHERE {query}").run(AB)


def test_checking_rules_names_each_that_asks_too_many_questions() -> None:
    many = " OR ".join(f"T{i}" for i in range(5000))
    text = f"RULE a AS SELECT * WHERE {many} RULE b AS SELECT * WHERE A RULE c AS SELECT * WHRE A"
    problems = list_problems(text, "ceql")
    assert [one["severity"] for one in problems] == ["error", "error"]
    assert "rule a" in problems[1]["message"]
    assert "5,000 different" in problems[1]["message"]
    assert "rule c" in problems[0]["message"]


def test_a_correlation_with_too_many_candidates_is_refused() -> None:
    query = cernis.query("SELECT * WHERE (A+ AS a ; B AS b) FILTER a[x] < b[x]")
    with pytest.raises(cernis.BudgetError, match="budget of 1,000"):
        query.run(AB, budget=1000)


def kleene(strategy: str = "ALL", n: int = 200) -> cernis.Matches:
    """Every nonempty choice of n A's before one B."""
    events = pa.table({"type": ["A"] * n + ["B"]})
    return cernis.query(f"SELECT {strategy} * WHERE A+ AS a ; B").run(events)


def test_counts_are_exact_integers() -> None:
    assert kleene().count() == 2**200 - 1


def test_a_sample_of_an_astronomic_answer_is_uniform_enough_to_have_half_of_the_events() -> None:
    sample = kleene().sample(200, seed=7)
    sizes = [len(match.vars["a"]) for match in sample]
    assert len({str(match.vars) for match in sample}) == 200
    assert 95 < np.mean(sizes) < 105
    assert [m.vars for m in kleene().sample(3, seed=7)] == [
        m.vars for m in kleene().sample(3, seed=7)
    ]


@pytest.mark.parametrize(
    ("strategy", "rows"),
    [
        ("LAST", list(range(200))),
        ("NEXT", list(range(200))),
        ("MAX", list(range(200))),
        ("ANY", list(range(200))),
    ],
)
def test_a_strategy_answers_at_once_where_there_are_astronomically_many(
    strategy: str, rows: list[int]
) -> None:
    [match] = kleene(strategy)
    assert match.vars["a"] == rows


def test_head_reads_only_what_it_shows() -> None:
    assert len(kleene().head(5)) == 5


def test_a_limit_is_taken_without_enumerating_the_rest() -> None:
    events = pa.table({"type": ["A"] * 200 + ["B"]})
    found = cernis.query("SELECT * WHERE A+ AS a ; B LIMIT 4").run(events)
    assert found.count() == len(list(found)) == 4


def test_each_of_many_keys_is_a_stream_of_its_own() -> None:
    keys = 200_000
    events = pa.table(
        {"type": ["A"] * keys + ["B"] * keys, "k": [*range(keys), *reversed(range(keys))]}
    )
    found = cernis.query("SELECT * WHERE A ; B PARTITION BY [k]").run(events)
    assert found.count() == keys
    first = found.head(1)[0]
    assert (first.start, first.end) == (keys - 1, keys)


QUERY = "SELECT * FROM S WHERE (SELL AS a ; BUY+ AS b) FILTER a[price > 100] WITHIN 50 EVENTS"


def test_the_arena_does_not_grow_with_the_stream() -> None:
    session = cernis.query(QUERY).session()
    sizes = []
    batch = stock_stream(100_000, seed=1).drop_columns(["ts"])
    for _ in range(8):
        found = session.push(batch)
        assert len(found.counts()) > 0
        sizes.append(len(session.engine.memory.arena))
        del found
    assert sizes[-1] == sizes[0]
    assert session.events == 800_000


def test_events_that_no_match_can_reach_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.run.stages.pipeline._FORGET_EVERY", 1000)
    session = cernis.query(QUERY).session()
    for _ in range(20):
        session.push(stock_stream(1000, seed=2).drop_columns(["ts"]))
    assert session.kept_from > 15_000


def test_matches_stay_valid_when_the_session_goes_on() -> None:
    session = cernis.query(QUERY).session()
    batch = stock_stream(5_000, seed=3).drop_columns(["ts"])
    first = session.push(batch)
    before = [m.vars for m in first.head(100)]
    for _ in range(10):
        session.push(batch)
    session.forget()
    assert [m.vars for m in first.head(100)] == before


def test_keys_that_have_left_the_window_cost_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.engine.unary.runtime._MANY_ROWS", 1 << 6)
    query = cernis.query("SELECT * WHERE A ; B PARTITION BY [k] WITHIN 10 MILLISECONDS")
    session = query.session()
    for part in range(10):
        low = part * 10_000
        session.push(
            pa.table(
                {
                    "type": ["A"] * 10_000,
                    "k": np.arange(low, low + 10_000),
                    "ts": np.arange(low, low + 10_000),
                }
            )
        )
    assert session.engine.memory.slots.shape[0] < 1_000


def test_keys_that_never_come_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.run.stages.pipeline._FORGET_EVERY", 1000)
    monkeypatch.setattr("cernis.run.stages.pipeline._FORGET_KEYS", 100)
    query = cernis.query("SELECT * WHERE A ; B PARTITION BY [k, j], [i] WITHIN 9 MILLISECONDS")
    session = query.session()
    found = 0
    for low in range(0, 20_000, 500):
        ts = np.arange(low, low + 500)
        key = pa.array(ts // 2).cast(pa.string())
        types = ["A", "B"] * 250
        events = {"type": types, "k": key, "j": key, "i": ts // 4, "ts": ts}
        found += session.push(pa.table(events)).count()
    assert found == 10_000
    assert session.pipeline.keys is not None
    assert len(session.pipeline.keys) < 3_000


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xyz")), max_size=30), st.data())
def test_forgetting_keys_changes_nothing(drawn: list[tuple[int, str]], data: st.DataObject) -> None:
    """A coder that forgets all but some keys still tells exactly the same keys apart."""
    coder = KeyCoder([["a"], ["b"]])
    events = pa.table(
        {
            "type": ["T"] * len(drawn),
            "a": pa.array([a for a, _ in drawn], pa.int64()),
            "b": pa.array([b for _, b in drawn], pa.string()),
        }
    )
    first = coder.encode(EventBatch.of(events))
    keys = sorted({int(code) for code in first})
    kept = sorted(data.draw(st.sets(st.sampled_from(keys)))) if keys else []
    coder.keep_only(np.array(kept, np.int64))
    assert len(coder) == len(kept)
    again = coder.encode(EventBatch.of(events)).tolist()
    named = dict(zip(again, first.tolist(), strict=True))
    assert [named[code] for code in again] == first.tolist()
    assert [named[i] for i in range(len(kept))] == kept
    assert len(named) == len(keys)


def test_a_session_that_failed_in_the_middle_says_so() -> None:
    session = cernis.query("SELECT * WHERE A ; B WITHIN 5 [x]").session()
    with pytest.raises(cernis.DataError, match="decreases at row 1"):
        session.push(pa.table({"type": ["A", "B"], "x": [5, 3]}))
    with pytest.raises(cernis.StateError, match="this session has failed before"):
        session.push(pa.table({"type": ["A"], "x": [9]}))


def test_a_push_that_is_refused_before_it_is_read_changes_nothing() -> None:
    session = cernis.query("SELECT * WHERE (A AS a ; B) FILTER a[x > 1]").session()
    session.push(pa.table({"type": ["A"], "x": [5]}))
    with pytest.raises(cernis.QueryError, match="unknown attribute 'x'"):
        session.push(pa.table({"type": ["B"]}))
    assert session.push(pa.table({"type": ["B"], "x": [0]})).count() == 1


def test_events_that_come_too_late_are_refused_and_the_session_goes_on() -> None:
    session = cernis.query("SELECT * WHERE A ; B WITHIN 5 SECONDS").session()
    session.push(pa.table({"type": ["A"], "ts": [1000]}))
    with pytest.raises(cernis.DataError, match="row 1, column 'ts': the event is earlier"):
        session.push(pa.table({"type": ["B"], "ts": [500]}))
    assert session.push(pa.table({"type": ["B"], "ts": [2000]})).count() == 1


def test_more_maximal_matches_than_can_be_compared_are_refused() -> None:
    events = pa.table({"type": ["A", "B"] * 30 + ["C"]})
    query = cernis.query("SELECT MAX * WHERE (A OR B){5,6} AS x ; C")
    with pytest.raises(cernis.BudgetError, match="more than 65,536 matches"):
        query.run(events)


def test_more_partitions_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.engine.unary.runtime.MOST_SLOT_BYTES", 1 << 14)
    events = pa.table({"type": ["A"] * 2000, "k": range(2000)})
    with pytest.raises(cernis.BudgetError, match="1,024 partitions alive at once"):
        cernis.query("SELECT * WHERE A ; B PARTITION BY [k]").run(events)


def test_a_stream_that_was_left_early_says_so() -> None:
    session = cernis.query("SELECT * WHERE A").session()
    batches = session.stream(iter([pa.table({"type": ["A"]}), pa.table({"type": ["A"]})]))
    assert next(batches).count() == 1
    batches.close()
    with pytest.raises(cernis.StateError, match=r"failed before \(GeneratorExit\)"):
        session.push(pa.table({"type": ["A"]}))


def test_counts_and_samples_of_correlated_matches_are_exact_beyond_any_listing() -> None:
    """Every nonempty choice of n events with one value, by an index on equal values."""
    events = pa.table({"type": ["A"] * 200, "id": [7] * 200})
    query = cernis.query("SELECT * WHERE A+ AS a FILTER PREV(a)[id] = a[id]")
    matches = query.run(events)
    assert matches.count() == 2**200 - 1
    drawn = matches.sample(20, seed=1)
    assert len({tuple(match.vars["a"]) for match in drawn}) == 20
    assert sum(len(match.vars["a"]) for match in drawn) > 20 * 60


def test_chosen_matches_that_need_too_much_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "MOST_CHOSEN_BYTES", 1 << 20)
    query = cernis.query("SELECT MAX * FROM S WHERE A AS a ; B+ AS b WITHIN 400 EVENTS")
    with pytest.raises(cernis.BudgetError) as raised:
        query.run(pa.table({"type": ["A"] * 50 + ["B"] * 350})).count()
    assert str(raised.value) == (
        "the matches that the strategy chooses need more than 0.000976562 GiB: each lists its "
        "events; narrow the window, or push fewer events at once"
    )
