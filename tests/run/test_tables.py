"""JOIN: events with the rows of a table, against the oracle; its mistakes, its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
import cernis.pattern as p
from cernis.cli.main import main
from cernis.encoding import lookup
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern, TableJoin, counts_only
from cernis.pattern.variables import marked_variables
from cernis.testing import oracle
from tools.cases.differential import assert_agrees, assert_counts_agree
from tools.cases.grammar import split_batches
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table

Events = Sequence[dict[str, Any]]
Rows = list[dict[str, Any]]

some = settings(
    max_examples=max(53, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


@st.composite
def joined_cases(draw: st.DrawFn, **features: Any) -> tuple[Pattern, Events, Rows]:
    """Draw a query that joins a table by one of its attributes, a stream, and the table."""
    pattern, events = draw(cases(partition=True, binary=True, size=6, events=9, **features))
    by = draw(st.sampled_from("ab"))
    outer = draw(st.booleans())
    keys = draw(st.lists(st.integers(-1, 4), unique=True, max_size=4))
    rows = [{"id": key, "w": draw(st.integers(0, 2) | st.none())} for key in keys]
    rows.append({"id": None, "w": 1})
    weight = pred.Attribute(("co", "w"))
    formula = pattern.formula
    names = marked_variables(formula)
    if names and draw(st.booleans()):
        held = pred.Holds(names[0], pred.Comparison("<", weight, pred.Literal(2)))
        formula = cel.Filter(formula, held)
    partition = (("co.w",),) if draw(st.booleans()) else pattern.partition
    joins = (TableJoin("S", "co", ((by, "id"),), outer),)
    changed = replace(pattern, formula=formula, partition=partition, streams=("S",), joins=joins)
    return changed, events, rows


def compare(pattern: Pattern, events: Events, rows: Rows, found: Sequence[Any]) -> None:
    if counts_only(pattern):
        counted = [row for part in found for row in part.counts().to_pylist()]
        got = [(row["end"], row["count"]) for row in counted]
        assert_counts_agree(pattern, events, got, tables={"co": rows})
    else:
        got = [match for part in found for match in part]
        assert_agrees(pattern, events, got, tables={"co": rows})


@some
@given(joined_cases())
def test_the_engine_agrees_with_the_oracle(case: tuple[Pattern, Events, Rows]) -> None:
    pattern, events, rows = case
    timed = any("ts" in event for event in events) or None
    found = cernis.query(pattern).run(make_table(events, timed=timed), tables={"co": rows})
    compare(pattern, events, rows, [found])


@some
@given(st.data())
def test_batches_and_freezing_change_nothing(data: st.DataObject) -> None:
    pattern, events, rows = data.draw(joined_cases(untimed=False, disorder=False))
    events = sorted(events, key=lambda event: event["ts"])
    query, whole = cernis.query(pattern), make_table(events, timed=True)
    session, found = query.session(tables={"co": rows}), []
    for piece in split_batches(range(len(events)), data.draw(cuts(len(events)))):
        found.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session.forget()
        session = query.thaw(session.freeze(), tables={"co": rows})
    compare(pattern, events, rows, found)


@some
@given(joined_cases())
def test_the_text_of_a_query_gives_it_back(case: tuple[Pattern, Events, Rows]) -> None:
    pattern, _, _ = case
    again = cernis.query(str(pattern)).pattern
    assert (again.joins, str(again)) == (pattern.joins, str(pattern))


QUERY = "SELECT a FROM S JOIN companies ON name = companies.ticker WHERE A AS a"
COMPANIES = [{"ticker": "MSFT", "sector": "tech"}, {"ticker": "SHEL", "sector": "oil"}]


def trades(*names: str | None) -> list[dict[str, Any]]:
    return [{"type": "A", "name": name} for name in names]


def test_an_event_that_is_shown_has_the_row_as_a_struct() -> None:
    found = cernis.query(QUERY).run(trades("SHEL", "X"), tables={"companies": COMPANIES})
    (match,) = found
    assert match.events("a") == [{"type": "A", "name": "SHEL", "companies": COMPANIES[1]}]
    column = found.to_arrow().column("a")
    assert column.to_pylist() == [[{"type": "A", "name": "SHEL", "companies": COMPANIES[1]}]]
    left = cernis.query(QUERY.replace("JOIN", "LEFT JOIN"))
    (match,) = left.run(trades("X"), tables={"companies": COMPANIES})
    assert match.events("a") == [{"type": "A", "name": "X", "companies": None}]


def test_a_table_larger_than_a_batch_gives_the_rows_that_the_batch_needs() -> None:
    many = [{"ticker": f"T{i}", "sector": str(i)} for i in range(1000)]
    query = QUERY.replace("SELECT a", "SELECT a[companies.sector] AS s")
    session = cernis.query(query).session(tables={"companies": many})
    found = [session.push(trades(f"T{i}", "none")) for i in (5, 999)]
    assert [match.values["s"] for part in found for match in part] == ["5", "999"]
    assert len(session.freeze()) < 10_000


def test_keys_that_the_table_lacks_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_SPARE", 10)
    rows = lookup.Lookup([pa.chunked_array([["a", "b"]])])
    for first in range(0, 1000, 100):
        keys = [*map(str, range(first, first + 100)), "b"]
        assert rows.find([pa.chunked_array([keys])]).tolist() == [-1] * 100 + [1]
        assert rows._keys.value_count <= 2 * 2 + 10 + 102


def test_a_session_takes_another_table_with_the_same_columns() -> None:
    session = cernis.query(QUERY).session(tables={"companies": COMPANIES})
    assert session.push(trades("X")).count() == 0
    session.use_tables({"companies": [*COMPANIES, {"ticker": "X", "sector": "new"}]})
    assert session.push(trades("X")).count() == 1
    with pytest.raises(cernis.StateError, match="table 'companies' has changed its columns"):
        session.use_tables({"companies": [{"ticker": "X"}]})
    frozen = session.freeze()
    thawed = cernis.query(QUERY).thaw(frozen, tables={"companies": [{"ticker": "X"}]})
    with pytest.raises(cernis.StateError, match="table 'companies' has changed its columns"):
        thawed.push(trades("X"))


def test_the_builder_joins_tables() -> None:
    query = p.select("a").from_("S").join("companies", {"name": "ticker"})
    assert str(query.where(p.event("A").as_("a")).build()) == QUERY
    left = p.select().from_("S", "R").join("t", {"a": "x", "b": "y"}, left=True, stream="S")
    text = "SELECT * FROM S LEFT JOIN t ON a = t.x AND b = t.y, R WHERE A"
    assert str(left.where("A").build()) == text
    assert str(cernis.query(text)) == text


def test_explain_names_the_tables() -> None:
    assert "JOIN companies ON name = companies.ticker to S" in str(cernis.query(QUERY).explain())


def test_the_oracle_joins_as_the_law_says() -> None:
    pattern = cernis.query(QUERY).pattern
    found = oracle.evaluate(pattern, trades("MSFT", None, "X"), tables={"companies": COMPANIES})
    assert [match.start for match in found] == [0]


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * FROM S JOIN t ON a < t.b WHERE A",
            """\
line 1, column 27: ON compares an attribute of the stream with a column of 't' by =
  SELECT * FROM S JOIN t ON a < t.b WHERE A
                            ^^^^^^^
  expected: a = t.b""",
        ),
        (
            "SELECT * FROM S JOIN t ON a = b WHERE A",
            """\
line 1, column 27: ON compares an attribute of the stream with a column of 't' by =
  SELECT * FROM S JOIN t ON a = b WHERE A
                            ^^^^^
  expected: a = t.b""",
        ),
        (
            "SELECT * FROM S JOIN t ON a = t.b LEFT JOIN t ON c = t.d WHERE A",
            """\
line 1, column 35: 't' is joined to 'S' twice
  SELECT * FROM S JOIN t ON a = t.b LEFT JOIN t ON c = t.d WHERE A
                                    ^^^^^^^^^^^^^^^^^^^^^^""",
        ),
        (
            "SELECT * FROM S JOIN WHERE A",
            """\
line 1, column 22: unexpected 'WHERE'
  SELECT * FROM S JOIN WHERE A
                       ^^^^^
  expected: a table name""",
        ),
    ],
)
def test_the_message(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(text)
    assert str(raised.value) == message


def test_a_column_that_the_table_does_not_have_is_an_error() -> None:
    text = "SELECT a[t.area] AS x FROM S JOIN t ON k = t.k WHERE A AS a FILTER a[t.zone = 'eu']"
    events = [{"type": "A", "k": 1}]
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(text).run({"S": events}, tables={"t": [{"k": 1, "zones": "eu"}]})
    assert (
        str(raised.value)
        == f"""\
line 1, column 10: unknown attribute 't.area'
  {text}
           ^^^^^^
  expected: t.k, t.zones
line 1, column 70: unknown attribute 't.zone'
  {text}
                                                                       ^^^^^^
  help: did you mean 't.zones'?"""
    )


TWICE = "table 'companies': rows 0 and 2 have the same key, ticker = 'A'; a key stands for one row"


@pytest.mark.parametrize(
    ("companies", "message"),
    [
        (
            [{"tikker": "A"}],
            """\
line 1, column 17: table 'companies' has no column 'ticker'
  SELECT a FROM S JOIN companies ON name = companies.ticker WHERE A AS a
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: tikker
  help: did you mean 'tikker'?""",
        ),
        (
            [{"ticker": 5}],
            """\
line 1, column 17: type clash: name is a string, companies.ticker is a number
  SELECT a FROM S JOIN companies ON name = companies.ticker WHERE A AS a
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
        ),
        (
            [{"ticker": "A"}, {"ticker": "B"}, {"ticker": "A"}],
            TWICE,
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(companies: Rows, message: str) -> None:
    with pytest.raises(cernis.CernisError) as raised:
        cernis.query(QUERY).run(trades("A"), tables={"companies": companies})
    assert str(raised.value) == message


def test_a_table_that_is_missing_is_named() -> None:
    with pytest.raises(cernis.DataError) as raised:
        cernis.query(QUERY).run(trades("A"), tables={"company": COMPANIES})
    assert str(raised.value) == (
        "the query joins the table 'companies', which is not given; the tables are 'company'; "
        "did you mean 'company'?; pass tables={'companies': …} or --table companies=FILE"
    )


def test_the_name_of_a_table_may_not_be_that_of_a_column() -> None:
    events = [{"type": "A", "name": "MSFT", "companies": 1}]
    message = "stream 'S' has a column 'companies' of its own"
    with pytest.raises(cernis.QueryError, match=message):
        cernis.query(QUERY).run(events, tables={"companies": COMPANIES})


def test_an_unknown_attribute_in_on_is_a_mistake() -> None:
    with pytest.raises(cernis.QueryError, match="unknown attribute 'name' in ON"):
        cernis.query(QUERY).run([{"type": "A", "nam": "x"}], tables={"companies": COMPANIES})


def test_the_command_line_reads_tables(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "S.csv").write_text("type,name\nA,MSFT\nA,X\n")
    (tmp_path / "companies.csv").write_text("ticker,sector\nMSFT,tech\n")
    run = ["run", QUERY, str(tmp_path / "S.csv"), "--count"]
    assert main([*run, "--table", f"companies={tmp_path / 'companies.csv'}"]) == 0
    assert capfd.readouterr().out == "1\n"
    assert main(run) == 1
    assert "joins the table 'companies', which is not given" in capfd.readouterr().err
    assert main([*run, "--table", "companies"]) == 1
    assert "--table companies: expected NAME=FILE" in capfd.readouterr().err


def test_the_rules_of_a_session_go_on_with_newer_tables() -> None:
    text = "SELECT x[co.w] AS w FROM S JOIN co ON k = co.id WHERE A AS x"
    rules = cernis.rules({"one": text, "two": f"INSERT INTO D {text}", "all": "SELECT * WHERE A"})
    event = {"type": "A", "k": 1, "ts": 1}
    session = rules.session(tables={"co": [{"id": 1, "w": 10}]})
    session.push({"S": [event]})
    with pytest.raises(cernis.StateError):
        session.use_tables({"co": [{"id": 1, "v": 20}]})
    session.use_tables({"co": [{"id": 1, "w": 20}]})
    session.update(cernis.rules({rule.name: rule.query for rule in rules} | {"three": text}))
    found = session.push({"S": [event]})
    assert [[m.values["w"] for m in found[name]] for name in ("one", "two", "three")] == [[20]] * 3
    with pytest.raises(cernis.StateError, match="the rules join no tables"):
        cernis.rules({"all": "SELECT * WHERE A"}).session().use_tables({})


@pytest.mark.parametrize(
    ("own", "other", "side"),
    [
        (pa.map_(pa.string(), pa.int64()), pa.int64(), "m"),
        (pa.int64(), pa.map_(pa.string(), pa.int64()), "t.k"),
        (pa.list_(pa.map_(pa.string(), pa.int64())), pa.int64(), "m"),
        (pa.struct({"x": pa.map_(pa.string(), pa.int64())}), pa.int64(), "m"),
    ],
)
def test_maps_are_no_keys_of_a_join(own: pa.DataType, other: pa.DataType, side: str) -> None:
    events = pa.table({"type": ["A"], "m": pa.nulls(1, own)})
    table = pa.table({"k": pa.nulls(1, other), "w": [1]})
    query = cernis.query("SELECT * FROM S JOIN t ON m = t.k WHERE A AS a")
    with pytest.raises(cernis.QueryError) as raised:
        query.run(events, tables={"t": table})
    assert str(raised.value).startswith(
        f"line 1, column 17: {side} holds maps, which cannot be compared\n"
    )
