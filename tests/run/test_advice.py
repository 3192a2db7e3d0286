"""Warnings about the events of a run: in the notes, word by word, and as errors."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

import cernis
from cernis.errors import list_warnings
from cernis.pattern.query import Unit
from tools.cases.grammar import RandomCase
from tools.cases.strategies import cases
from tools.cases.tables import make_table

SALES = [{"type": "SELL", "price": n, "ts": 1000 * n} for n in range(5)]
PAIR = "SELECT * FROM S WHERE SELL AS s ; BUY AS b"
NOW = 1_700_000_000


def warn(query: str, events: Any, **options: Any) -> list[tuple[str, str]]:
    found = cernis.query(query).run(events, **options)
    return [(note.code, str(note)) for note in list_warnings(found.notes)]


def at(*times: Any) -> list[dict[str, Any]]:
    return [{"type": "A", "ts": time} for time in times]


def test_a_type_that_no_event_has_is_shown_with_the_types_that_there_are() -> None:
    text = """\
line 1, column 35: no event has the type 'BUY'
  SELECT * FROM S WHERE SELL AS s ; BUY AS b
                                    ^^^
  help: the types of events are SELL"""
    assert warn(PAIR, SALES) == [("absent-type", text)]


def test_a_misspelt_type_has_a_suggestion() -> None:
    text = """\
line 1, column 23: no event has the type 'sell'
  SELECT * FROM S WHERE sell AS s
                        ^^^^
  help: did you mean 'SELL'?"""
    assert warn("SELECT * FROM S WHERE sell AS s", SALES) == [("absent-type", text)]


def test_a_type_may_still_come_to_a_session() -> None:
    session = cernis.query(PAIR).session()
    assert session.push(SALES).notes == ()


@pytest.mark.parametrize(
    ("condition", "blamed"),
    [
        ("s[price > 100]", "s[price > 100]"),
        ("s[price > 1 AND price > 100]", "s[price > 100]"),
        ("s[price > 1] AND s[price > 100]", "s[price > 100]"),
        ("(s[price > 100] OR s[price > 1]) AND s[price < 0]", "s[price < 0]"),
    ],
)
def test_the_condition_that_no_event_satisfies_is_to_blame(condition: str, blamed: str) -> None:
    ((code, text),) = warn(f"SELECT * FROM S WHERE SELL AS s FILTER {condition}", SALES)
    assert code == "unmet-condition"
    first, line, carets = text.splitlines()
    assert first.endswith(f": nothing can match: no event satisfies {blamed}")
    marked = line[carets.index("^") : carets.rindex("^") + 1]
    assert marked in blamed


def test_conditions_that_never_hold_at_once_are_to_blame_together() -> None:
    events = [{"type": "A", "x": 1, "y": 0}, {"type": "A", "x": 0, "y": 1}]
    ((_, text),) = warn("SELECT * FROM S WHERE A AS a FILTER a[x = 1 AND y = 1]", events)
    assert "no event satisfies a[x = 1 AND y = 1] at once" in text


@pytest.mark.parametrize(
    "formula",
    [
        "SELL AS s FILTER s[price > 3]",
        "SELL AS s ; (SELL AS t FILTER t[price > 100])?",
        "(SELL AS s FILTER s[price > 100]) OR SELL AS t",
        "SELL AS s FILTER s[price > 100] OR s[price < 2]",
        "SELL AS s ; SELL{0,2} AS t FILTER t[price > 100]",
        "SELL AS s FILTER s[price = 4] AND s[ts > 0]",
        "SELL AS s ; SELL AS t FILTER s[price] > t[price]",
    ],
)
def test_a_condition_that_may_fail_is_not_to_blame(formula: str) -> None:
    assert warn(f"SELECT * FROM S WHERE {formula}", SALES) == []


def test_seconds_that_were_read_as_milliseconds_have_a_warning() -> None:
    text = """\
the times lie in January 1970, if 'ts' counts milliseconds
  help: in seconds they begin on 2023-11-14: write --time-unit s, in Python time_unit="s\""""
    assert warn("SELECT * FROM S WHERE A", at(NOW, NOW + 60)) == [("odd-times", text)]
    assert warn("SELECT * FROM S WHERE A", at(NOW, NOW + 60), time_unit="s") == []
    assert warn("SELECT * FROM S WHERE A", at(NOW + 0.5)) == [("odd-times", text)]


def test_microseconds_that_were_read_as_milliseconds_have_a_warning() -> None:
    text = """\
the times lie beyond the year 2200, if 'ts' counts milliseconds
  help: in microseconds they begin on 2023-11-14: write --time-unit us, in Python time_unit="us\""""
    assert warn("SELECT * FROM S WHERE A", at(NOW * 10**6)) == [("odd-times", text)]


def test_timestamps_made_of_seconds_have_a_warning() -> None:
    table = pa.table({"type": ["A"], "ts": pa.array([NOW], pa.timestamp("ns"))})
    text = """\
the timestamps in 'ts' lie in January 1970
  help: their numbers are seconds that begin on 2023-11-14: convert them so, as in \
pandas.to_datetime(…, unit="s")"""
    assert warn("SELECT * FROM S WHERE A", table) == [("odd-times", text)]


@pytest.mark.parametrize(
    "times",
    [
        (0, 1, 2),
        (5, 1_000_000),
        (NOW * 1000, NOW * 1000 + 5),
        (0, NOW),
        (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC)),
        (datetime(2024, 1, 1, tzinfo=UTC),),
        (datetime(2300, 1, 1), datetime(2300, 1, 2)),
    ],
)
def test_plain_times_and_small_clocks_are_silent(times: tuple[Any, ...]) -> None:
    assert warn("SELECT * FROM S WHERE A", at(*times)) == []


def test_a_source_of_which_most_rows_are_skipped_has_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("type,ts\nA,2024-01-01\nA,soon\nA,later\n")
    text = f"""\
{path}: 2 of 3 rows were skipped
  help: --on-error fail (on_error="fail") says what is wrong with the first one"""
    found = warn("SELECT * FROM x WHERE A", path, on_error="skip", time="ts")
    assert found == [("most-skipped", text)]


def test_warnings_are_errors_if_the_run_is_strict() -> None:
    with pytest.raises(cernis.StrictError, match="no event has the type 'BUY'") as raised:
        cernis.query(PAIR).run(SALES, strict=True)
    assert [note.code for note in raised.value.warnings] == ["absent-type"]
    with pytest.raises(cernis.StrictError, match="excludes nothing"):
        cernis.query("SELECT * FROM S WHERE SELL UNLESS BUY").run(SALES, strict=True)
    late = [SALES[1], SALES[0]]
    found = cernis.query("SELECT * FROM S WHERE SELL").run(late, strict=True)
    assert found.notes == ("events were out of order: 1 row sorted by 'ts'",)


def test_a_strict_stream_raises_at_its_end() -> None:
    stream = cernis.query("SELECT * FROM S WHERE SELL OR BUY").stream(SALES, strict=True)
    assert next(stream).count() == 5
    with pytest.raises(cernis.StrictError, match="no event has the type 'BUY'"):
        next(stream)


@given(cases())
def test_a_query_with_an_unmet_condition_has_no_match(case: RandomCase) -> None:
    pattern, events = case
    timed = pattern.within is not None and pattern.within.unit is Unit.TIME
    found = cernis.query(pattern).run(make_table(events, timed=timed or None))
    if any(note.code == "unmet-condition" for note in list_warnings(found.notes)):
        assert found.count() == 0


def test_a_query_and_its_explanation_have_the_warnings_without_events() -> None:
    query = cernis.query("SELECT * FROM S WHERE SELL UNLESS BUY")
    (note,) = query.warnings
    assert note.code == "unless-idle"
    lines = str(query.explain()).splitlines()
    assert "warning      line 1, column 35: UNLESS BUY excludes nothing: " in "\n".join(lines)


# ----------------------------------------------------------------- rule sets


def test_a_rule_set_has_warnings_about_its_rules_and_its_events() -> None:
    rules = cernis.rules({"one": "SELECT * FROM S WHERE SELL UNLESS BUY"})
    found = rules.run([{"type": "SELL", "ts": NOW}])["one"]
    codes = [note.code for note in list_warnings(found.notes)]
    assert codes == ["odd-times", "unless-idle", "absent-type"]
    with pytest.raises(cernis.StrictError, match="excludes nothing"):
        rules.run(SALES, strict=True)


RULES = """RULE typo AS SELECT * FROM S WHERE SEL AS s;
RULE high AS SELECT * FROM S WHERE SELL AS s FILTER s[price > 100];
RULE fine AS SELECT * FROM S WHERE SELL AS s FILTER s[name = 'x'] AND s[price > 1]"""
SOLD = [{"type": "SELL", "price": 1, "name": "x"}, {"type": "SELL", "price": 2, "name": "y"}]


def test_each_rule_of_a_set_has_its_own_warnings() -> None:
    found = cernis.rules(RULES).run(SOLD)
    codes = {name: [w.code for w in list_warnings(one.notes)] for name, one in found.items()}
    assert codes == {"typo": ["absent-type"], "high": ["unmet-condition"], "fine": []}


def test_a_strict_rule_set_raises_the_warnings_with_their_rules() -> None:
    with pytest.raises(cernis.StrictError) as caught:
        cernis.rules(RULES).run(SOLD, strict=True)
    assert (
        str(caught.value)
        == """\
rule typo: line 1, column 36: no event has the type 'SEL'
  RULE typo AS SELECT * FROM S WHERE SEL AS s;
                                     ^^^
  help: did you mean 'SELL'?
rule high: line 2, column 53: nothing can match: no event satisfies s[price > 100]
  RULE high AS SELECT * FROM S WHERE SELL AS s FILTER s[price > 100];
                                                      ^^^^^^^^^^^^^^"""
    )


def test_rules_that_have_not_read_all_events_are_not_blamed() -> None:
    session = cernis.rules("RULE a AS SELECT * FROM S WHERE BUY").session()
    session.push([{"type": "SELL"}, {"type": "BUY"}])
    session.update(cernis.rules("RULE b AS SELECT * FROM S WHERE BUY"))
    (found,) = session.collect([{"type": "SELL"}]).values()
    assert not list_warnings(found.notes)
    text = "RULE a AS INSERT INTO T SELECT s[price] AS p FROM S WHERE BUY AS s;"
    derived = cernis.rules(text + "RULE b AS SELECT * FROM T WHERE T").run(SOLD)
    assert [w.code for w in list_warnings(derived["a"].notes)] == ["absent-type"]
    assert not list_warnings(derived["b"].notes)
