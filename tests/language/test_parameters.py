"""Parameters: `$name` is a constant that is given when the query is run."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis
from cernis.cli.main import main
from cernis.languages.text.parameters import set_parameters

LARGE = "SELECT * FROM S WHERE BUY AS b FILTER b[price >= $least]"
EVENTS = [{"type": "BUY", "price": price} for price in (1, 5, 9)]


def message(text: str, **values: Any) -> str:
    with pytest.raises(cernis.CernisError) as raised:
        cernis.query(text).bind(**values).run(EVENTS)
    return str(raised.value)


def test_a_bound_query_is_the_query_with_the_constant() -> None:
    query = cernis.query(LARGE)
    assert query.unbound == ("least",)
    assert str(query) == LARGE
    assert query.bind(least=5).run(EVENTS).count() == 2
    assert query.bind(least=6).run(EVENTS).count() == 1
    assert query.bind(least=5).pattern == cernis.query(LARGE.replace("$least", "5")).pattern


@pytest.mark.parametrize(
    ("value", "written"),
    [(-3, "-3"), (2.5, "2.5"), (1e-7, "1e-07"), (Decimal("0.1"), "0.1"), (True, "TRUE")],
)
def test_each_kind_of_constant_is_one_constant(value: Any, written: str) -> None:
    bound = cernis.query(LARGE).bind(least=value)
    assert bound.pattern == cernis.query(LARGE.replace("$least", written)).pattern


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_a_text_is_never_read_as_a_query(text: str) -> None:
    query = cernis.query("SELECT * FROM S WHERE BUY AS b FILTER b[who = $who]").bind(who=text)
    found = query.run([{"type": "BUY", "who": text}, {"type": "BUY", "who": f"{text}x"}])
    assert [match.end for match in found] == [0]


def test_windows_limits_and_durations_take_parameters() -> None:
    text = "SELECT * FROM S WHERE A ; B WITHIN $w LIMIT $n"
    bound = cernis.query(text).bind(w=timedelta(minutes=5), n=2)
    assert str(bound) == "SELECT * FROM S WHERE A ; B WITHIN 5 MINUTES LIMIT 2"


def test_the_parameter_clause_has_defaults() -> None:
    query = cernis.query("PARAMETER $least = 5, $who = 'ann' " + LARGE)
    assert query.unbound == ()
    assert query.run(EVENTS).count() == 2
    assert query.bind(least=9).run(EVENTS).count() == 1


def test_conjunctive_queries_have_parameters() -> None:
    query = cernis.query("Q(x) <- BUY(price: x), BUY(price: $k)", lang="cq").bind(k=5)
    assert str(query) == "Q(x) <- BUY(price: x), BUY(price: 5)"


def test_rules_have_parameters() -> None:
    text = f"PARAMETER $least = 5\nRULE a AS {LARGE}\nRULE b AS {LARGE.replace('>=', '<')}"
    found = cernis.rules(text).run(EVENTS)
    assert {name: own.count() for name, own in found.items()} == {"a": 2, "b": 1}
    found = cernis.rules(text, params={"least": 2}).run(EVENTS)
    assert {name: own.count() for name, own in found.items()} == {"a": 2, "b": 1}
    with pytest.raises(cernis.CernisError, match=r"rule a: .*the parameter \$least has no value"):
        cernis.rules(f"RULE a AS {LARGE}")


def test_a_missing_value_has_a_place() -> None:
    assert message(LARGE) == (
        "line 1, column 50: the parameter $least has no value\n"
        f"  {LARGE}\n"
        "                                                   ^^^^^^\n"
        "  help: give it one: --param least=…, query.bind(least=…), or PARAMETER $least = …"
    )


def test_mistakes_in_values_are_explained() -> None:
    assert message(LARGE, lest=3) == (
        "the query has no parameter $lest\n  help: did you mean $least?"
    )
    told = message("PARAMETER $least = 5 " + LARGE, least="x")
    assert "the parameter $least is a number, and its value 'x' is a text" in told
    assert "is no constant; expected a number" in message(LARGE, least=[1])
    assert "is not finite" in message(LARGE, least=float("nan"))
    assert "expected: a constant" in message("PARAMETER $least = x " + LARGE)
    assert "$least is declared twice" in message("PARAMETER $least = 1, $least = 2 " + LARGE)


def test_the_command_line_gives_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,price\nBUY,1\nBUY,5\nBUY,9\n")
    try:
        run = ["run", LARGE, "-e", "S.csv", "--count"]
        assert main([*run, "--param", "least=5"]) == 0
        assert capfd.readouterr().out == "2\n"
        assert main([*run, "--param", "$lest=5"]) == 1
        assert "the query has no parameter $lest" in capfd.readouterr().err
        assert main(["check", LARGE, "--param", "least=ann"]) == 0
        assert main(["check", LARGE, "--param", "least"]) == 1
        assert "expected NAME=VALUE" in capfd.readouterr().err
        set_parameters({})
        assert main(run) == 1
        assert "the parameter $least has no value" in capfd.readouterr().err
    finally:
        set_parameters({})
