"""Functions in every place of a query: the embedded engine against the oracle."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

import cernis
from cernis.events.evaluation.attributes import calculate_attribute
from cernis.languages.ceql import parse
from cernis.pattern.functions import FUNCTIONS
from tools.cases.differential import assert_agrees
from tools.cases.functions import SCHEMA, make_events, make_query


@pytest.mark.parametrize("seed", range(120))
def test_random_expressions_agree_with_the_oracle(seed: int) -> None:
    chance = random.Random(seed)
    text, events = make_query(chance), make_events(chance, 7)
    pattern = parse(text)
    assert parse(str(pattern)) == pattern
    table = pa.Table.from_pylist(events, SCHEMA)
    assert_agrees(pattern, events, list(cernis.query(text).run(table)))


# ------------------------------------------------------ functions of users

EVENTS = pa.table(
    {
        "type": ["A", "B", "A", "B"],
        "ts": [1, 2, 3, 4],
        "v": [1.0, 2.0, None, 8.0],
        "s": ["x", "Y", "z", "W"],
    }
)
SCORED = (
    "SELECT a, b, SCORE(b[v], b[s]) AS score FROM S WHERE A AS a ; B AS b FILTER b[score(v, s) > 3]"
)


def score(values: pa.Array, texts: pa.Array) -> pa.Array:
    """Two points for each unit, and one for a text."""
    return pc.add(pc.multiply(values, 2.0), pc.cast(pc.utf8_length(texts), pa.float64()))


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    names = []

    def add(name: str, *arguments: Any, **options: Any) -> None:
        names.append(name)
        cernis.function(name, *arguments, **options)

    yield add
    for name in names:
        cernis.forget_function(name)


def test_a_users_function_stands_in_any_place(register: Callable[..., None]) -> None:
    with pytest.raises(cernis.QueryError, match="unknown function 'SCORE'"):
        cernis.query(SCORED).run(EVENTS)
    register("score", score, returns="double", args=("double", "string"))
    found = cernis.query(SCORED).run(EVENTS).to_arrow()
    assert found["score"].to_pylist() == [5.0, 17.0, 17.0]
    keyed = "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [SCORE(NULLIF(v, 8.0), 'ab')]"
    assert len(cernis.query(keyed).run(EVENTS)) == 0
    best = "SELECT b FROM S WHERE B AS b ORDER BY SCORE(b[v], b[s]) DESC LIMIT 1 OVERALL"
    assert [match.end for match in cernis.query(best).run(EVENTS)] == [3]


def test_numpy_and_pandas_are_taken_by_annotation(register: Callable[..., None]) -> None:
    def of_numpy(values: NDArray[np.float64]) -> NDArray[np.float64]:
        assert isinstance(values, np.ndarray)
        return values + 1

    def of_pandas(values: pd.Series) -> pd.Series:
        assert isinstance(values, pd.Series)
        return values.fillna(0) + 2

    register("plus_one", of_numpy, returns="double", args=("double",))
    register("plus_two", of_pandas, returns="double", args=("double",))
    text = "SELECT PLUS_ONE(x[v]) AS p, PLUS_TWO(x[v]) AS q FROM S WHERE B AS x"
    found = cernis.query(text).run(EVENTS).to_arrow()
    assert found.select(["p", "q"]).to_pylist() == [{"p": 3.0, "q": 4.0}, {"p": 9.0, "q": 10.0}]


def test_an_exception_names_the_function_the_stream_and_the_row(
    register: Callable[..., None],
) -> None:
    def fragile(values: pa.Array) -> list[float]:
        return [1 / (value - 2) for value in values.to_pylist() if value is not None]

    register("fragile", fragile, returns="double", args=("double",))
    table = EVENTS.filter(EVENTS["v"].is_valid())
    query = cernis.query(
        "SELECT * FROM S WHERE * AS x ; B AS y FILTER FRAGILE(x[v]) = FRAGILE(y[v])"
    )
    with pytest.raises(cernis.DataError) as caught:
        query.run(table)
    message = "stream 'S', row 1: the function FRAGILE failed on (2.0): ZeroDivisionError"
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT FRAGILE(x[v]) AS f FROM S WHERE B AS x",
        "SELECT * FROM S WHERE B AS x FILTER x[FRAGILE(v) > 0]",
        "SELECT * FROM S WHERE A AS a ; B AS x FILTER FRAGILE(a[v] + x[v] - 1) > 0",
        "SELECT SUM(FRAGILE(x[v])) AS f FROM S WHERE B+ AS x",
        "SELECT * FROM S WHERE B AS x ORDER BY FRAGILE(x[v]) LIMIT 1",
        "SELECT SUM(FRAGILE(x[v])) AS f FROM S WHERE B AS x GROUP BY EVERY 1 SECOND",
        "SELECT * FROM S WHERE B AS x PARTITION BY [FRAGILE(v)]",
        "SELECT FRAGILE(a[v] + x[v] - 1) AS f FROM S WHERE A AS a ; B AS x",
        "SELECT * FROM S JOIN u ON FRAGILE(v) = u.k WHERE B AS x",
    ],
)
def test_errors_in_all_places_name_the_row(register: Callable[..., None], query: str) -> None:
    def fragile(values: pa.Array) -> list[float]:
        return [1 / (value - 2) for value in values.to_pylist()]

    register("fragile", fragile, returns="double", args=("double",))
    tables = {"u": pa.table({"k": [1.0]})} if "JOIN" in query else {}
    table = EVENTS.set_column(2, "v", pa.array([1.0, 2.0, 3.0, 8.0]))
    with pytest.raises(cernis.DataError, match="stream 'S', row 1: the function FRAGILE failed on"):
        cernis.query(query).run(table, tables=tables).to_arrow()


def test_a_wrong_length_or_type_is_an_error(register: Callable[..., None]) -> None:
    register("short", lambda x: x[:0], returns="double", args=("double",))
    register("text", lambda x: pa.array(["a"] * len(x)), returns="int", args=("double",))
    for name, words in (("SHORT", "it returned 0 values for"), ("TEXT", "ArrowInvalid")):
        with pytest.raises(cernis.DataError, match=words):
            cernis.query(f"SELECT {name}(x[v]) AS v FROM S WHERE B AS x").run(EVENTS).to_arrow()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("abs", {"returns": "double"}, "is one of the package"),
        ("a b", {"returns": "double"}, "no name of a function"),
        ("if", {"returns": "double"}, "no name of a function"),
        ("f", {"returns": "float128"}, "unknown type 'float128'"),
    ],
)
def test_what_cannot_be_registered(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(cernis.CernisError, match=message):
        cernis.function(name, lambda x: x, **options)  # type: ignore[arg-type]


def test_a_checkpoint_notes_the_version(register: Callable[..., None]) -> None:
    types = {"returns": "double", "args": ("double", "string")}
    register("score", score, version="1", **types)
    query = cernis.query(SCORED)
    session = query.session()
    session.push(EVENTS.slice(0, 2))
    state = session.freeze()
    assert len(list(query.thaw(state).push(EVENTS.slice(2)))) == 2
    register("score", score, version="2", **types)
    with pytest.raises(cernis.StateError, match="version '1' of the function SCORE, and '2'"):
        query.thaw(state)
    register("score", score, version="2", accepts=("1",), **types)
    assert len(list(query.thaw(state).push(EVENTS.slice(2)))) == 2


def test_the_state_of_rules_notes_versions(register: Callable[..., None]) -> None:
    types = {"returns": "double", "args": ("double", "string")}
    register("score", score, version="1", **types)
    rules = cernis.rules({"a": SCORED, "b": "SELECT * FROM S WHERE A ; B"})
    session = rules.session()
    session.push(EVENTS.slice(0, 2))
    state = session.freeze()
    assert len(rules.thaw(state).push(EVENTS.slice(2))["a"]) == 2
    register("score", score, version="2", **types)
    with pytest.raises(cernis.StateError, match="version '1' of the function SCORE, and '2'"):
        rules.thaw(state)
    register("score", score, version="2", accepts=["1"], **types)
    assert len(rules.thaw(state).push(EVENTS.slice(2))["a"]) == 2


def test_a_text_is_read_again_once_its_function_is_registered(
    register: Callable[..., None],
) -> None:
    assert calculate_attribute(EVENTS, "LATE(v)") is None
    register("late", lambda x: x, returns="double", args=("double",))
    assert calculate_attribute(EVENTS, "LATE(v)") is not None


def test_a_function_is_computed_once_for_a_batch(register: Callable[..., None]) -> None:
    calls = []

    def slow(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return pc.add(values, 1.0)

    register("slow", slow, returns="double", args=("double",))
    text = (
        "SELECT * FROM S WHERE A AS a ; B AS b FILTER SLOW(a[v]) = SLOW(b[v]) "
        "PARTITION BY [SLOW(v)], [ABS(SLOW(v))]"
    )
    cernis.query(text).run(EVENTS).count()
    assert calls == [4]
    calls.clear()
    # atoms that look at the same columns are evaluated together
    text = "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[SLOW(v) > t - 9 AND SLOW(v) * 2 < t]"
    table = EVENTS.append_column("t", pa.array([9.0] * 4))
    cernis.query(text).run(table).count()
    assert calls == [4]


def test_a_plan_brings_its_functions(register: Callable[..., None]) -> None:
    register("score", score, returns="double", args=("double", "string"))
    plan = cernis.query(SCORED).plan
    state = pickle.dumps(plan)
    cernis.forget_function("score")
    assert "SCORE" not in FUNCTIONS
    pickle.loads(state)
    assert "SCORE" in FUNCTIONS


# ----------------------------------------------------------------- places


def test_tables_are_joined_on_a_function() -> None:
    users = pa.table({"name": ["x", "y"], "rank": [1, 2]})
    text = "SELECT a[u.rank] AS r FROM S JOIN u ON LOWER(s) = u.name WHERE B AS a"
    found = cernis.query(text).run(EVENTS, tables={"u": users}).to_arrow()
    assert found["r"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("LOWER(a[s]) = LOWER(b[s])", "by an index on equal values"),
        ("b[v] > 1.05 * a[v]", "by an ordered index"),
        ("ROUND(b[v]) > 1.05 * a[v]", "by an ordered index"),
        ("HOUR(a[ts]) < 6 AND a[v] < b[v]", "asked of each event alone"),
        ("ABS(a[v] - b[v]) <= 5", "by an ordered index (a[v + 0] >= b[from v - 5] and a[v + 0] <="),
        ("b[v] - a[v] < 5", "by an ordered index (a[v + 0] >= b[above v - 5])"),
        ("ABS(a[v] - b[v]) < 0.01 * a[v]", "by an ordered index"),
        ("b[ts] - a[ts] <= 5 MINUTES", "by an index in the order of time"),
        ("ABS(a[v] - b[v]) > 5", "on each candidate"),
    ],
)
def test_explain_shows_the_rewriting(condition: str, words: str) -> None:
    explained = str(
        cernis.query(f"SELECT * FROM S WHERE A AS a ; B AS b FILTER {condition}").explain()
    )
    line = next(line for line in explained.splitlines() if line.startswith("conditions"))
    assert words in line


def test_a_function_of_time_takes_a_zone() -> None:
    table = pa.table({"type": ["A"] * 2, "ts": [datetime(2024, 1, 1, 5), datetime(2024, 7, 1, 5)]})
    text = "SELECT HOUR(x[ts], 'Europe/Berlin') AS h, HOUR(END) AS e FROM S WHERE A AS x"
    found = cernis.query(text).run(table).to_arrow()
    assert found["h"].to_pylist() == [6, 7]
    assert found["e"].to_pylist() == [5, 5]


def test_a_session_has_a_time_zone() -> None:
    times = [datetime(2024, 1, 1, 23, 30), datetime(2024, 7, 1, 22, 30)]
    table = pa.table({"type": ["A"] * 2, "ts": times})
    text = (
        "SELECT HOUR(x[ts]) AS h, HOUR(x[ts], 'UTC') AS u, CAST(x[ts] AS DATE) AS d, "
        "CAST(END AS STRING) AS s, DATE_TRUNC('DAY', x[ts]) AS t FROM S WHERE A AS x "
        "PARTITION BY [DAY(ts)]"
    )
    query = cernis.query(text, time_zone="Europe/Berlin")
    assert cernis.query(str(query)).pattern == query.pattern
    found = query.run(table).to_arrow()
    assert found["h"].to_pylist() == [0, 0]
    assert found["u"].to_pylist() == [23, 22]
    assert [str(day) for day in found["d"].to_pylist()] == ["2024-01-02", "2024-07-02"]
    assert found["s"].to_pylist() == ["2024-01-02 00:30:00", "2024-07-02 00:30:00"]
    assert [time.hour for time in found["t"].to_pylist()] == [23, 22]
    rules = cernis.rules({"a": text}, time_zone="Europe/Berlin")
    assert rules["a"].pattern == query.pattern
    assert "HOUR(ts)" in str(cernis.query(text))
    with pytest.raises(cernis.CernisError, match="unknown time zone 'Mars/Olympus'"):
        cernis.query(text, time_zone="Mars/Olympus")


@pytest.mark.parametrize(
    "text",
    [
        "Q(x, y) <- T(a: x), S(a: y), LOWER(x) = LOWER(y)",
        "Q(x, y) <- T(v: x), S(v: y), ABS(x - y) <= 5",
        "Q(x, y) <- T(a: x, v: y), LENGTH(x) > 0, CONCAT(x, 'b') != 'xb'",
        "Q(x, y) <- T(v: x), S(a: y), x > LENGTH(y), 2 > LENGTH(y)",
        "Q(x, y, t, u) <- T(a: x)@t, S(a: y)@u, t < u, UPPER(x) = y WITHIN 5 EVENTS",
        "Q(x, y) <- T(a: x), S(a: y), LENGTH(x) > LENGTH(REPLACE(y, 'y', ''))",
        "Q(x, y, z) <- T(v: x), S(v: y), T(v: z), GREATEST(x, y) < z",
    ],
)
def test_conjunctive_queries_compare_functions(text: str) -> None:
    chance = random.Random(len(text))
    events = [
        {
            "type": chance.choice("TS"),
            "ts": i,
            "a": chance.choice(("x", "X", "y", None)),
            "v": chance.choice((1.0, 2.0, 7.0, 9.5, None)),
        }
        for i in range(9)
    ]
    query = cernis.query(text, lang="cq")
    assert cernis.query(str(query), lang="cq").pattern == query.pattern
    assert_agrees(query.pattern, events, list(query.run(pa.Table.from_pylist(events))))


def test_mistakes_in_functions_of_conjunctive_queries_are_told() -> None:
    for text, message in (
        ("Q(x) <- T(a: x), LOWR(x) = 'x'", "did you mean 'LOWER'"),
        ("Q(x) <- T(a: x), LOWER(w) = 'x'", "'w' is compared and not in any atom"),
        ("Q(x) <- T(a: x), ABS(1) = 1", "a comparison needs a variable"),
        (f"Q(x) <- T(a: x), {'ABS(' * 900}x{')' * 900} = 1", "nested more than"),
    ):
        with pytest.raises(cernis.QueryError, match=message):
            cernis.query(text, lang="cq")
