"""`cernis test`: files of expectations, on every engine, and what is wrong with bad ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cernis.cli.main import main
from cernis.errors import CernisError
from cernis.workbench.check_case import check_case, pair_matches, run_stream
from cernis.workbench.expectations import read_file

QUERY = "SELECT f, COUNT(f) AS n FROM logins WHERE FAIL{2} AS f PARTITION BY [user] WITHIN 1 MINUTE"
FILE = """\
# two failures of one user
time_unit: s
cases:
  - name: two failures in a minute are a match
    events:
      - {type: FAIL, user: ann, ts: 0}
      - {type: OK, user: ann, ts: 5}
      - {type: FAIL, user: ann, ts: 9}
    expect:
      - {f: [0, 2], user: ann, n: 2}  # rows
  - name: failures of two users are none
    events: |
      type,user,ts
      FAIL,ann,2024-01-02 10:00:00
      FAIL,bob,2024-01-02 10:00:10
    expect: none
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("pairs.ceql").write_text(QUERY)
    Path("pairs.test.yaml").write_text(FILE)
    return tmp_path


def outcomes(path: str = "pairs.test.yaml", **options: Any) -> list[list[str]]:
    file = read_file(Path(path))
    return [[*check_case(file, case, **options).lines] for case in file.cases]


def test_cases_that_hold_pass(capfd: Capture) -> None:
    assert main(["test", "."]) == 0
    assert capfd.readouterr().out == (
        "pairs.test.yaml\n"
        "  ✓ two failures in a minute are a match\n"
        "  ✓ failures of two users are none\n"
        "2 passed, 0 failed\n"
    )


def test_the_same_file_holds_on_a_stream() -> None:
    assert outcomes(executor=run_stream) == [[], []]


def test_a_case_that_differs_shows_how(capfd: Capture) -> None:
    Path("pairs.test.yaml").write_text(FILE.replace("[0, 2]", "[0, 1]"))
    assert main(["test", "pairs.test.yaml", "-k", "two failures"]) == 1
    assert capfd.readouterr().out == (
        "pairs.test.yaml\n"
        "  ✗ two failures in a minute are a match\n"
        "      expected 1 match, found 1 match of which 1 differ\n"
        "      - {f: [0, 1], user: ann, n: 2}\n"
        "      + {user: ann, n: 2, f: [0, 2]}\n"
        "0 passed, 1 failed\n"
    )


def test_update_writes_what_was_found_and_keeps_comments(capfd: Capture) -> None:
    wrong = FILE.replace("[0, 2], user: ann, n: 2", "[0, 1]").replace("expect: none", "expect: 3")
    Path("pairs.test.yaml").write_text(wrong)
    assert main(["test", ".", "--update", "--yes"]) == 0
    assert Path("pairs.test.yaml").read_text() == FILE.replace(", user: ann, n: 2", "")
    assert "1 passed" not in capfd.readouterr().out
    Path("pairs.test.yaml").write_text(FILE.replace("expect: none", "expect:\n      - {f: 0}"))
    assert main(["test", ".", "--update", "--yes"]) == 0
    assert Path("pairs.test.yaml").read_text() == FILE


def test_junit_has_every_case() -> None:
    Path("pairs.test.yaml").write_text(FILE.replace("expect: none", "expect: 1"))
    assert main(["test", ".", "--junit", "report.xml"]) == 1
    suite = ET.parse("report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failures = [case.find("failure") for case in suite]
    assert failures[0] is None
    assert failures[1] is not None
    assert failures[1].get("message") == "expected 1 match, found none"


def test_pytest_collects_the_files() -> None:
    Path("pairs.test.yaml").write_text(FILE.replace("expect: none", "expect: 1"))
    # an installed package brings it by name, one that runs in place does not
    plugin = ["-p", "no:cernis", "-p", "cernis.workbench.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "."],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "pairs.test.yaml, line 11: failures of two users are none" in done.stdout
    assert "expected 1 match, found none" in done.stdout


def test_rules_params_tables_zones_and_counts() -> None:
    Path("rules.ceql").write_text(
        "PARAMETER $least = 5\n"
        "RULE big AS SELECT a[x] AS x FROM S JOIN t ON k = t.k WHERE A AS a"
        " FILTER a[x >= $least AND t.ok = 1];\n"
        "RULE late AS SELECT * FROM S WHERE A AS a FILTER a[HOUR(ts) >= 22]"
    )
    Path("rules.test.yaml").write_text("""\
rules: rules.ceql
time_zone: Asia/Tokyo
tables:
  t: [{k: 1, ok: 1}, {k: 2, ok: 0}]
events:
  - {type: A, k: 1, x: 6, ts: 2024-01-02 10:00:00}
  - {type: A, k: 1, x: 4, ts: 2024-01-02 13:30:00}
  - {type: A, k: 2, x: 9, ts: 2024-01-02 13:30:00}
cases:
  - name: the default
    expect: {big: [{x: 6, end_ts: 2024-01-02 10:00:00}], late: {count: 2, contains: [{a: 1}]}}
  - name: a lower bound
    params: {least: 4}
    expect: {big: 2}
  - name: a higher one
    params: {least: 7}
    expect: {big: none, other: 1}
""")
    assert outcomes("rules.test.yaml") == [
        [],
        [],
        ["there is no rule 'other'; there are big, late"],
    ]


BAD = {
    "cases:\n  - name: a\n    event: []\n    expect: none": "line 3: unknown key `event`; did you "
    "mean `events`?",
    "cases: []": "line 1: `cases` is a list of cases",
    "cases:\n  - {name: a, expect: none}": "line 2: the case has no `events`",
    "query: none.ceql\ncases: []": "line 1: none.ceql: no such file (a query as text contains",
    "cases:\n  - {name: a, events: [1], expect: none}": "line 2: an event is written as",
    "cases:\n  - {name: a, events: [], expect: few}": "line 2: expected none, a number",
    "cases:\n  - {name: a, events: x.csv, expect: 1}": "line 2: x.csv: no such file of events",
    "a: [": "line 1: ",
    "events: &e []\ncases: [*e]": "line 2: aliases are not read",
    "events: !!python/object/apply:os.system [ls]\ncases: []": "line 1: ",
    "events: []\ncases:\n- {name: a, expect: 0}\n- {name: a, expect: 0}": "line 4: two cases are "
    "named 'a'; the other is in line 3",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_is_refused_with_its_line(text: str) -> None:
    Path("pairs.test.yaml").write_text(text)
    with pytest.raises(CernisError) as raised:
        read_file(Path("pairs.test.yaml"))
    assert str(raised.value).startswith(f"pairs.test.yaml, {BAD[text]}")


def test_a_mistake_in_the_query_fails_the_case_with_its_place() -> None:
    Path("pairs.ceql").write_text(QUERY.replace("{2}", "{$n}"))
    (first, *_), _ = outcomes()
    assert first.startswith("pairs.test.yaml, line 4: pairs.ceql, line 1, column ")
    assert "the parameter $n has no value" in first


def test_as_many_matches_as_possible_are_paired() -> None:
    found = [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert pair_matches([{"a": 1}, {"b": 1}], found) == {0: 1, 1: 0}


def test_rows_without_times_are_in_their_order_also_on_a_stream() -> None:
    Path("pairs.test.yaml").write_text(
        "query: SELECT * FROM S WHERE A AS a ; B AS b FILTER b[x >= $t]\n"
        "cases:\n"
        "  - name: without times\n"
        "    params: {t: 1}\n"
        "    events: [{type: A, x: 0}, {type: B, x: 3}]\n"
        "    expect: [{a: 0, b: 1}]\n"
    )
    assert main(["test", "pairs.test.yaml", "--engine", "stream"]) == 0


def test_a_file_without_times_is_a_stream_in_the_order_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x\nA,1\nB,2\nB,1\n")
    Path("q.test.yaml").write_text(
        "query: SELECT * FROM S WHERE (A AS a ; B AS b) FILTER b[x > 1]\n"
        "cases: [{name: a pair, events: S.csv, expect: [{a: 0, b: 1}]}]\n"
    )
    assert main(["test", "q.test.yaml", "--engine", "stream"]) == 0
