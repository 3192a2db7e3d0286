"""`sweep`: the numbers for each value are those of the query with the value in its place."""

from __future__ import annotations

import json
import os
import random
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cernis
from cernis.cli.main import main
from cernis.engine.unary import levels
from cernis.errors import CernisError
from cernis.languages.text.parameters import set_parameters
from cernis.testing.oracle import evaluate
from cernis.workbench.sweep import parse_values, parse_vary
from cernis.workbench.tally import tally
from tools.cases.grammar import Events
from tools.cases.strategies import VERSIONS, bounded_patterns, patterns, streams

FORMULAS = ["A AS a ; B AS b", "A+ AS a ; B AS b", "(A OR B) AS a ; B+ AS b", "(A AS a ; B AS b)+"]
NESTED = [
    "a[x >= $t]",
    "a[x < $t] AND b[x <= $t]",
    "b[$t < x AND x < 9]",
    "a[x > $t] AND b[$t <= x]",
]
OF_MATCHES = [
    "COUNT(b) >= $t",
    "COUNT(b[x]) < $t AND COUNT(a) <= $t",
    "SUM(b[x]) > $t",
    "$t > AVG(b[x])",
    "MAX(b[x]) - MIN(a[x]) <= $t AND a[x > 0]",
]
OTHERS = [
    "a[x = $t]",
    "a[x > $t] OR b[x > 2]",
    "a[x > $t] AND b[x < $t]",
    "COUNT(b) >= $t AND SUM(b[x]) <= $t",
    "COUNT(b) >= $t AND b[x >= $t]",
]
WINDOWS = ["", "WITHIN 3 EVENTS", "WITHIN 4 [ts]"]
EVENT = st.fixed_dictionaries(
    {
        "type": st.sampled_from("ABC"),
        "x": st.one_of(st.none(), st.integers(0, 5)),
        "k": st.integers(0, 1),
    }
)


CASES = min(int(os.environ.get("CERNIS_FUZZ_N", "16")), 5000)


def oracle_count(query: Any, events: list[dict[str, Any]]) -> int:
    return len(evaluate(query.pattern, events))


@settings(max_examples=CASES)
@given(
    st.sampled_from(FORMULAS),
    st.sampled_from(NESTED + OF_MATCHES + OTHERS),
    st.sampled_from(WINDOWS),
    st.booleans(),
    st.lists(EVENT, max_size=7),
    st.lists(st.integers(-1, 6), min_size=1, max_size=4),
)
def test_a_sweep_counts_what_the_oracle_finds(
    formula: str,
    condition: str,
    window: str,
    keyed: bool,
    stream: list[dict[str, Any]],
    values: list[int],
) -> None:
    events = [{**event, "ts": i} for i, event in enumerate(stream)]
    by = "PARTITION BY [k]" if keyed else ""
    text = f"SELECT * FROM S WHERE ({formula}) FILTER {condition} {by} {window}"
    query = cernis.query(text)
    found = query.sweep(events, t=values)
    assert found.counts() == {v: oracle_count(query.bind(t=v), events) for v in values}
    assert (found.passes == 1) == (condition not in OTHERS or len(values) == 1), text
    if keyed:
        keys = {v: evaluate(query.bind(t=v).pattern, events) for v in values}
        table = dict(zip(values, found.to_arrow().column("keys").to_pylist(), strict=True))
        assert table == {v: len({events[m.end]["k"] for m in own}) for v, own in keys.items()}


NUMBER = re.compile(r"(?<=[<>=] )\d+(?![.\d])|(?<=WITHIN )\d+(?= EVENTS)")
BOUND = re.compile(r"\d(?=\]( PARTITION BY .*)?( WITHIN .*)?$)")


@st.composite
def queries_with_parameters(draw: st.DrawFn) -> tuple[str, Events]:
    """Draw a query whose text has `$t`, and `$u` perhaps, in the place of numbers."""
    if draw(st.booleans()):
        plain = {"binary": False, "terms": False}
        pattern = draw(bounded_patterns(draw(patterns(**{**VERSIONS, **plain}))))
        text = BOUND.sub("$t", str(pattern))
    else:
        text = str(draw(patterns(**VERSIONS)))
    for name in ("$t", "$u")[: draw(st.integers(0 if "$t" in text else 1, 2))]:
        places = [place.span() for place in NUMBER.finditer(text)]
        if places:
            begin, end = draw(st.sampled_from(places))
            text = f"{text[:begin]}{name}{text[end:]}"
    assume("$t" in text)
    return text, draw(streams(**VERSIONS))


@settings(max_examples=CASES)
@given(queries_with_parameters(), st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True))
def test_a_sweep_of_any_query_counts_what_the_oracle_finds(
    drawn: tuple[str, Events], values: list[int]
) -> None:
    text, events = drawn
    given_ = {name: values for name in ("t", "u") if f"${name}" in text}
    try:
        found = cernis.query(text).sweep(events, **given_)
    except CernisError:
        return  # the query does not fit the events
    assert len(found) == len(values) ** len(given_)
    for choice, own in found.points:
        written = text
        for name, value in zip(given_, choice, strict=True):
            written = written.replace(f"${name}", str(value))
        assert own.total == oracle_count(cernis.query(written), events), (written, found.passes)


@pytest.mark.parametrize("window", ["", "WITHIN 9 EVENTS", "WITHIN 20 [at]", "WITHIN 15 SECONDS"])
@pytest.mark.parametrize("by", ["", "PARTITION BY [k]"])
@pytest.mark.parametrize("words", [1 << 25, 1])
def test_a_sliding_window_has_the_numbers_of_each_value(
    monkeypatch: pytest.MonkeyPatch, window: str, by: str, words: int
) -> None:
    """Stacks turn often, in several partitions, and with a level at a time."""
    rng = random.Random(f"{window} {by}")
    events = [
        {
            "type": rng.choice("AABC"),
            "x": rng.choice([None, 0, 1, 2, 3]),
            "k": rng.choice([None, "u", "v"]),
            "at": 2 * i if i % 7 else None,
            "ts": datetime(2024, 1, 1) + timedelta(seconds=i),
        }
        for i in range(90)
    ]
    monkeypatch.setattr(levels, "MOST_WORDS", words)
    formula = "(A AS a ; (B OR C)+ AS b ; A AS c) OR (B AS a ; C AS b)"
    text = f"SELECT * FROM S WHERE ({formula}) FILTER b[x >= $t] {by} {window}"
    query = cernis.query(text)
    if not window:
        events = events[:25]
    found = query.sweep(events, t=[0, 1, 2, 9])
    assert found.passes == 1
    for (value,), own in found.points:
        assert own == tally(query.bind(t=value).run(events))


def test_a_stricter_value_lets_another_event_be_the_next() -> None:
    events = [{"type": "A", "x": 0}, {"type": "B", "x": 1}, {"type": "B", "x": 2}]
    query = cernis.query("SELECT * FROM S WHERE (A AS a -> B AS b) FILTER b[x >= $t]")
    found = query.sweep([{**event, "ts": i} for i, event in enumerate(events)], t=[1, 2, 3])
    assert found.counts() == {1: 1, 2: 1, 3: 0}


def test_a_bound_may_be_on_a_variable_that_matches_do_not_have() -> None:
    text = "SELECT * WHERE (A+ WITHIN 2 EVENTS) AS x FILTER SUM(A[a]) >= $t"
    events = [{"type": "A", "a": a, "ts": a} for a in (1, 2, 3)]
    query = cernis.query(text)
    found = [numbers.total for _, numbers in query.sweep(events, t=[1, 4, 9]).points]
    assert found == [query.bind(t=t).run(events).count() for t in (1, 4, 9)]
    assert found[0] > found[1] > found[2] == 0


def test_several_parameters_are_a_grid() -> None:
    events = [
        {"type": t, "x": x, "ts": i} for i, (t, x) in enumerate(zip("AABB", range(4), strict=True))
    ]
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b FILTER a[x >= $t] WITHIN $n EVENTS")
    found = query.sweep(events, n=[2, 3], t="0..1")
    assert found.counts() == {
        (n, t): oracle_count(query.bind(n=n, t=t), events) for n in (2, 3) for t in (0, 1)
    }
    assert found.passes == 2
    assert "<svg" in found._repr_html_()


def test_matches_per_day_are_counted() -> None:
    events = [{"type": "A", "x": i, "ts": datetime(2024, 1, 1 + i // 2)} for i in range(4)]
    query = cernis.query("SELECT * FROM S WHERE A AS a FILTER a[x >= $t]")
    table = query.sweep(events, t=[0, 1, 3]).to_arrow().to_pylist()
    assert [(row["days"], row["per_day"]) for row in table] == [(2, 2.0), (2, 1.5), (1, 0.5)]


def test_more_matches_than_a_word_counts_are_exact() -> None:
    events = [{"type": "A", "x": i % 2} for i in range(140)]
    query = cernis.query("SELECT * FROM S WHERE A+ AS a FILTER a[x >= $t]")
    assert query.sweep(events, t=[0, 1]).counts() == {0: 2**140 - 1, 1: 2**70 - 1}


def test_a_bound_on_whole_matches_is_swept_value_by_value_where_too_many_would_be_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = cernis.query("SELECT * FROM S WHERE A+ AS a FILTER SUM(a[x]) >= $t")
    events = [{"type": "A", "x": x} for x in (1, 0.5, 4, None)]
    listed = query.sweep(events, t=[0, 0.5, 5.5, 6])
    monkeypatch.setattr("cernis.workbench.sweep.MOST_LISTED", 3)
    others = query.sweep(events, t=[0, 0.5, 5.5, 6])
    assert (listed.passes, others.passes) == (1, 4)
    assert listed.points == others.points


def test_values_are_ranges_or_lists() -> None:
    assert parse_values("1..3") == [1, 2, 3]
    assert parse_values("1.01..1.03 by 0.01") == [1.01, 1.02, 1.03]
    assert parse_vary("$who = ann, bob") == ("who", ["ann", "bob"])
    assert parse_vary("who = 'a, b', 'it''s', 'a..b', ") == ("who", ["a, b", "it's", "a..b"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t", "expected 'NAME = FROM..TO by STEP'"),
        ("t = a..b", "expected FROM..TO by STEP"),
        ("t = 2..1", "the step must lead from the first value to the last"),
        ("t = 0..1 by 0.00001", "100,001 values; at most 10,000 are allowed"),
        ("t = ", "a sweep over $t has no values"),
        ("t = 1..inf", "expected FROM..TO by STEP"),
        ("t = nan..1", "expected FROM..TO by STEP"),
        ("t = 1..3 by 0", "the step must lead from the first value to the last"),
        ("t = 1..3 by -1", "the step must lead from the first value to the last"),
        ("t = 1..1e400 by 1e-400", "too many values; at most 10,000 are allowed"),
        ("t = 1..1e999999 by 1e-999999", "expected FROM..TO by STEP"),
    ],
)
def test_bad_values_are_refused(text: str, message: str) -> None:
    with pytest.raises(cernis.CernisError) as raised:
        parse_vary(text)
    assert message in str(raised.value)


def test_numbers_beyond_a_float_are_drawn_and_written() -> None:
    events = [{"type": "A", "x": i % 2, "ts": i} for i in range(2000)]
    found = cernis.query("SELECT * FROM S WHERE A+ AS a FILTER a[x >= $t]").sweep(
        events, t=[0, 1, 2]
    )
    assert found.counts() == {0: 2**2000 - 1, 1: 2**1000 - 1, 2: 0}
    assert found.to_arrow().column("matches").to_pylist()[1] == str(2**1000 - 1)
    assert "█" * 24 in str(found)
    assert found.svg().startswith("<svg")


def test_a_value_of_the_wrong_type_is_named() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS a FILTER a[x >= $t]")
    with pytest.raises(CernisError) as raised:
        query.sweep([{"type": "A", "x": 1, "ts": 1}], t=[1, "b", 1])
    assert str(raised.value).startswith(
        "with $t = 'b': line 1, column 39: type clash: x is a number"
    )
    with pytest.raises(CernisError, match=r"a sweep over \$t needs values in a list, not 3"):
        query.sweep([], t=3)


def test_durations_are_written_as_in_a_query() -> None:
    events = [{"type": "A", "ts": datetime(2024, 1, 1, 0, 0, i)} for i in range(3)]
    query = cernis.query("SELECT * FROM S WHERE A AS a ; A AS b WITHIN $d")
    found = query.sweep(events, d="1 SECOND, 90 SECONDS, 1 SECOND")
    assert [line.strip().split("  ")[0] for line in str(found).splitlines()] == [
        "$d", "1 SECOND", "1 MINUTE 30 SECONDS", "1 SECOND",
    ]  # fmt: skip
    assert [numbers.total for _, numbers in found.points] == [2, 3, 2]
    assert "1 MINUTE 30 SECONDS" in found.svg()


def test_events_that_are_given_once_are_kept_for_each_pass() -> None:
    events = [{"type": "AB"[i % 2], "x": i % 3, "ts": i} for i in range(9)]
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b FILTER b[x = $t]")
    values = [0, 1, 2, *(n / 200 for n in range(130))]
    assert query.sweep(iter(events), t=values) == query.sweep(events, t=values)
    one, other = query.bind(t=1), query.bind(t=2)
    assert cernis.diff(one, other, iter(events), sample=0) == cernis.diff(
        one, other, events, sample=0
    )
    assert str(one.why(iter(events))) == str(one.why(events))


@pytest.mark.parametrize("command", ["sweep", "diff", "why", "backtest"])
def test_a_pipe_is_refused_by_commands_that_read_several_times(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT * FROM S WHERE A AS a FILTER a[x >= 1]"
    more = {"sweep": ["--vary", "t = 1..2"], "diff": [query]}.get(command, [])
    text = query.replace("1]", "$t]") if command == "sweep" else query
    assert main([command, text, *more, "-e", "-"]) == 1
    assert capfd.readouterr().err == (
        "error: -: the events are read several times, and a pipe gives them once; "
        "write them to a file\n"
    )


def test_the_command_prints_a_table_and_writes_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x\nA,1\nA,2\nA,3\n")
    query = "SELECT * FROM S WHERE A AS a FILTER a[x >= $t]"
    try:
        made = ["--plot", "p.svg", "--json", "n.json"]
        assert main(["sweep", query, "-e", "S.csv", "--vary", "t = 2..3", *made]) == 0
        out, err = capfd.readouterr()
        assert out.splitlines()[1].split() == ["2", "2", "█" * 24]
        assert err == "2 choices of values in 1 pass\n"
        assert Path("p.svg").read_text().startswith("<svg")
        assert json.loads(Path("n.json").read_text())[1] == {"t": 3, "matches": 1}
        assert main(["sweep", query, "-e", "S.csv", "--vary", "u = 2..3"]) == 1
        assert "the query has no parameter $u" in capfd.readouterr().err
    finally:
        set_parameters({})
