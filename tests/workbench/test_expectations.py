"""`cernis test`: files of expectations, on every engine, and what is wrong with bad ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cernis.cli.main import main
from cernis.cli.test import run_on_spark
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
EVERYWHERE = Path(__file__).parent / "everywhere"
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


@pytest.mark.parametrize("path", sorted(EVERYWHERE.iterdir()), ids=lambda path: path.name)
def test_cases_with_odd_streams_hold_in_this_process_and_on_a_stream(path: Path) -> None:
    for executor in (None, run_stream):
        assert {*map(tuple, outcomes(str(path), executor=executor))} == {()}


def test_a_case_that_differs_shows_how(capfd: Capture) -> None:
    Path("pairs.test.yaml").write_text(FILE.replace("[0, 2]", "[0, 1]"))
    assert main(["test", "pairs.test.yaml", "-k", "two failures"]) == 1
    assert capfd.readouterr().out == (
        "pairs.test.yaml\n"
        "  ✗ two failures in a minute are a match\n"
        "      expected 1 match, found 1 match of which 1 differs\n"
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
    "cases:\n  - {name: a, events: x.csv, expect: 1}": "line 2: x.csv: no such file",
    "a: [": "line 1: ",
    "events: &e []\ncases: [*e]": "line 2: aliases are not read",
    "events: !!python/object/apply:os.system [ls]\ncases: []": "line 1: ",
    "cases:\n\t- name: a": "line 2: found character '\\t' that cannot start any token; YAML is "
    "indented by spaces",
    "cases: [{name: a, events: [{type: A, ts: 2024-13-01}], expect: 0}]": "line 1: month must be",
    "cases:\n- {name: a,\n   events: [{type: A, x: 1, x: 2}], expect: 0}": "line 3: `x` stands "
    "here twice",
    "cases:\n- {[a]: b}": "line 2: a key is a text",
    "cases: []\n---\ncases: []": "line 2: expected a single document in the stream, but found",
    "time: [ts]\ncases: []": "line 1: `time` is a text",
    "time_zone: 5\ncases: []": "line 1: `time_zone` is a text",
    "complete: maybe\ncases: []": "line 1: `complete` is true or false",
    "lang: c\ncases: []": "line 1: no language 'c'; there are ceql, cq, spaseq",
    "query: .\ncases: []": "line 1: . is a folder; `rules` names a folder of rules",
    "tables: {t: no.csv}\ncases: []": "line 1: no.csv: no such file",
    "tables: {t: [], t: []}\ncases: []": "line 1: `t` stands here twice",
    "rules: RULE a AS SELECT * FROM S WHERE A\ncases:\n- name: a\n  events: []\n  expect: {a: 1,"
    "\n a: 2}": "line 6: `a` stands here twice",
    "cases: [{name: a, events: , expect: 0}]": "line 1: expected a list of rows ([] for none)",
    "cases:\n- name: a\x01": "line 2: a character that YAML does not allow: '\\x01'",
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


def test_a_statement_has_no_file_of_expectations() -> None:
    Path("q.sql").write_text("SELECT 1")
    Path("q.test.yaml").write_text("query: q.sql\ncases: [{name: a, events: [], expect: 0}]")
    with pytest.raises(CernisError, match=r"line 1: q\.sql: statements have no files of expecta"):
        read_file(Path("q.test.yaml"))


def test_plain_values_are_those_of_yaml_1_2() -> None:
    Path("q.test.yaml").write_text("""\
query: SELECT a[v] AS v, a[on] AS w FROM S WHERE ON AS a ; NO AS b
cases:
  - name: words and numbers
    events: [{type: ON, v: 1e3, on: 010}, {type: NO, v: -.5}]
    expect: [{v: 1000.0, w: 10}]
  - name: a text that looks like a number is quoted
    events: [{type: ON, v: '12e5', on: yes}, {type: NO, v: x}]
    expect: []
""")
    assert outcomes("q.test.yaml")[0] == []
    assert main(["test", "q.test.yaml", "--update", "--yes"]) == 0
    assert (
        "expect:\n      - {start: 0, end: 1, v: '12e5', w: 'yes'}"
        in Path("q.test.yaml").read_text()
    )
    assert outcomes("q.test.yaml") == [[], []]


def test_a_field_that_no_match_has_is_named() -> None:
    Path("pairs.test.yaml").write_text(FILE.replace("n: 2}", "m: 2}"))
    first, _ = outcomes()
    assert first[0] == "no match has 'm'; there are start, end, start_ts, end_ts, user, n, f"


def test_a_bad_row_is_named_without_a_temporary_file() -> None:
    Path("pairs.test.yaml").write_text(FILE.replace("FAIL,bob,2024-01-02 10:00:10", "FAIL,bob"))
    _, (said, *_) = outcomes()
    assert said.startswith(
        "pairs.test.yaml, line 11: events.csv, line 3 (row 1): expected 3 values"
    )


def test_a_file_that_cannot_be_read_fails_its_case_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied", "pairs.ceql")

    monkeypatch.setattr("cernis.workbench.check_case.run_here", refuse)
    said, _ = outcomes()
    assert said == ["pairs.test.yaml, line 4: pairs.ceql: Permission denied"]


def test_a_failure_inside_of_spark_fails_its_case_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failure(Exception):
        pass

    def fail(**_: object) -> None:
        raise Failure("[OUT_OF_LUCK] An executor is lost SQLSTATE: 00000")

    Failure.__module__ = "pyspark.errors"
    monkeypatch.setattr("cernis.cli.test.choose_runner", fail)
    assert outcomes(executor=run_on_spark) == [
        ["pairs.test.yaml, line 4: Spark: An executor is lost"],
        ["pairs.test.yaml, line 11: Spark: An executor is lost"],
    ]
    Path("pairs.test.yaml").write_text("cases: [{name: nothing, events: [], expect: none}]")
    assert outcomes(executor=run_on_spark) == [[]]


def test_a_name_that_no_case_has_is_no_success(capfd: Capture) -> None:
    assert main(["test", ".", "-k", "nothing of the kind"]) == 1
    out, err = capfd.readouterr()
    assert err == "no case has 'nothing of the kind' in its name\n"
    assert out.endswith("0 passed, 0 failed\n")


def test_watch_runs_again_when_a_file_changes_or_is_replaced(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, query = Path("pairs.test.yaml"), Path("pairs.ceql")

    def touch(path: Path, text: str) -> None:
        known = path.stat().st_mtime if path.exists() else 1e9
        path.write_text(text)
        os.utime(path, (known + 2, known + 2))

    for path in (file, query):  # nothing changes while the cases run
        os.utime(path, (1e9, 1e9))
    changes = iter(
        [
            lambda: touch(query, QUERY.replace("{2}", "{3}")),
            lambda: file.unlink(),
            lambda: touch(file, FILE.replace("expect: none", "expect: 1")),
        ]
    )

    def change(_: float) -> None:
        next(changes, lambda: (_ for _ in ()).throw(KeyboardInterrupt))()

    monkeypatch.setattr("cernis.cli.test.time.sleep", change)
    assert main(["test", ".", "--watch"]) == 130
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if " passed, " in line] == [
        "2 passed, 0 failed",
        "1 passed, 1 failed",
        "0 passed, 2 failed",
    ]


def test_as_many_matches_as_possible_are_paired() -> None:
    found = [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert pair_matches([{"a": 1}, {"b": 1}], found) == {0: 1, 1: 0}


def test_a_stream_has_the_messages_of_a_query_and_may_have_no_events() -> None:
    Path("q.test.yaml").write_text(
        "query: SELECT * FROM S WHERE A AS a FILTER a[y > 1]\ncases:\n"
        "  - {name: an unknown attribute, events: [{type: A, x: 1, ts: 1}], expect: 0}\n"
        "  - {name: no events, events: [], expect: none}\n"
        "  - {name: no events in a stream, events: {S: []}, expect: none}\n"
    )
    for executor in (None, run_stream):
        (first, *_), *others = outcomes("q.test.yaml", executor=executor)
        assert first.startswith("q.test.yaml, line 3: line 1, column 39: unknown attribute 'y'"), (
            first
        )
        assert others == [[], []]


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


def test_streams_are_named_and_never_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Path("q.test.yaml").write_text(
        "query: SELECT * FROM `../out` WHERE A AS a\n"
        "cases: [{name: a name, events: {'../out': \"type,ts\\nA,1\\n\"}, expect: 1}]\n"
    )
    for executor in (None, run_stream):
        assert outcomes("q.test.yaml", executor=executor) == [[]]
    assert not (tmp_path / "out.csv").exists()


def test_what_is_not_for_a_language_is_refused() -> None:
    query = "SELECT ?x FROM STREAM S <urn:s> WHERE { SEQ (A) DEFINE GPM A ON S { ?x <urn:p> 1 } }"
    Path("g.spaseq").write_text(query)
    Path("g.test.yaml").write_text(
        "cases:\n"
        "  - {name: rows, events: [{ts: 1}], expect: 1}\n"
        "  - {name: params, params: {t: 1}, events: [], expect: 1}\n"
    )
    said = "g.test.yaml, line"
    assert outcomes("g.test.yaml") == [
        [f"{said} 2: events and background of SPAseQ are RDF: lines of it, or a file"],
        [f"{said} 3: `params` is not for SPAseQ"],
    ]
    Path("pairs.test.yaml").write_text("cases: [{name: a, background: {}, events: [], expect: 1}]")
    assert outcomes() == [["pairs.test.yaml, line 1: `background` is for SPAseQ"]]
