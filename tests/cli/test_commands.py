"""The commands, from their arguments to their output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cernis.cli.main import main

TRADES = """\
type,name,price,ts
SELL,MSFT,101,2024-01-02 10:00:00
SELL,MSFT,102,2024-01-02 10:02:00
SELL,INTL,80,2024-01-02 10:10:00
BUY,INTL,80,2024-01-02 10:14:00
SELL,AMZN,1900,2024-01-02 10:25:00
BUY,INTL,81,2024-01-02 10:30:00
BUY,AMZN,1920,2024-01-02 10:33:00
"""
PAIRS = "SELECT * FROM trades WHERE (SELL AS s ; BUY AS b) PARTITION BY [name]"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def trades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file of trades, and a terminal of a known width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    (tmp_path / "trades.csv").write_text(TRADES)
    return tmp_path


def cernis(*arguments: str) -> int:
    return main(list(arguments))


# ---------------------------------------------------------------------- run


def test_json_lines_go_to_standard_output(capfd: Capture) -> None:
    assert (
        cernis("run", PAIRS + " WITHIN 5 MINUTES", "--events", "trades.csv", "--output", "-") == 0
    )
    out, err = capfd.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "start": 2,
            "end": 3,
            "start_ts": "2024-01-02T10:10:00",
            "end_ts": "2024-01-02T10:14:00",
            "vars": {"s": [2], "b": [3]},
            "partition": {"name": "INTL"},
        }
    ]
    assert err == ""


def test_the_query_may_be_a_file(trades: Path, capfd: Capture) -> None:
    (trades / "q.ceql").write_text(PAIRS)
    assert cernis("run", "q.ceql", "-e", "trades.csv", "--count") == 0
    assert capfd.readouterr().out == "3\n"


def test_a_table_of_the_first_matches_is_shown(capfd: Capture) -> None:
    assert cernis("run", PAIRS, "-e", "trades.csv", "--limit", "2") == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert lines[0] == ["start", "end", "start_ts", "end_ts", "name", "s", "b"]
    assert lines[1][:2] == ["2", "3"]
    assert lines[1][-3:] == ["INTL", "2", "3"]
    assert lines[3:] == [["3", "matches;", "1", "more"]]


def test_no_matches_are_said_so(capfd: Capture) -> None:
    assert (
        cernis("run", "SELECT * FROM trades WHERE SELL : SELL : SELL : SELL", "-e", "trades.csv")
        == 0
    )
    assert capfd.readouterr().out == "0 matches\n"


def test_files_are_written_by_their_suffix(trades: Path, capfd: Capture) -> None:
    assert cernis("run", PAIRS, "-e", "trades.csv", "-o", "m.jsonl") == 0
    assert cernis("run", PAIRS, "-e", "trades.csv", "-o", "m.parquet", "--limit", "1") == 0
    assert capfd.readouterr() == ("", "wrote 3 matches to m.jsonl\nwrote 1 match to m.parquet\n")
    assert len((trades / "m.jsonl").read_text().splitlines()) == 3
    table = pq.read_table(trades / "m.parquet")
    assert table["b"].to_pylist()[0][0]["price"] == 80


def test_the_count_may_go_to_a_file(trades: Path) -> None:
    assert cernis("run", PAIRS, "-e", "trades.csv", "--count", "-o", "n.jsonl") == 0
    assert (trades / "n.jsonl").read_text() == "3\n"


def test_columns_and_units_may_be_named(trades: Path, capfd: Capture) -> None:
    (trades / "log.csv").write_text("kind,at\nA,1\nB,2\nB,3\n")
    query = "SELECT * FROM log WHERE A AS a ; B AS b WITHIN 1 SECOND"
    options = ("-e", "log.csv", "--type", "kind", "--time", "at", "--count")
    assert cernis("run", query, *options, "--time-unit", "s") == 0
    assert cernis("run", query, *options) == 0
    assert capfd.readouterr().out == "1\n2\n"


def test_several_files_are_several_streams(trades: Path, capfd: Capture) -> None:
    (trades / "x.jsonl").write_text('{"type": "A", "ts": 1}\n')
    (trades / "y.jsonl").write_text('{"type": "B", "ts": 2}\n')
    query = "SELECT * FROM X, Y WHERE X>A AS a ; Y>B AS b"
    assert cernis("run", query, "-e", "X=x.jsonl", "-e", "Y=y.jsonl", "--count") == 0
    assert cernis("run", query, "--events", "X=x.jsonl", "Y=y.jsonl", "--count") == 0
    assert capfd.readouterr().out == "1\n1\n"


def test_events_out_of_order_are_sorted_with_a_note(trades: Path, capfd: Capture) -> None:
    (trades / "late.csv").write_text("type,ts\nB,2\nA,1\n")
    assert (
        cernis("run", "SELECT * FROM late WHERE A AS a ; B AS b", "-e", "late.csv", "-o", "-") == 0
    )
    out, err = capfd.readouterr()
    assert json.loads(out)["vars"] == {"a": [1], "b": [0]}
    assert err.startswith("note: ")
    assert err.count("\n") == 1


def test_bad_rows_are_skipped_when_asked_to(trades: Path, capfd: Capture) -> None:
    (trades / "bad.csv").write_text("type,ts\nA,1\nB,2,3,4\nB,5\n")
    query = "SELECT * FROM bad WHERE A AS a ; B AS b"
    assert cernis("run", query, "-e", "bad.csv") == 1
    assert "bad.csv" in capfd.readouterr().err
    assert cernis("run", query, "-e", "bad.csv", "--on-error", "aside.jsonl", "-o", "-") == 0
    assert json.loads(capfd.readouterr().out)["vars"] == {"a": [0], "b": [2]}
    assert json.loads((trades / "aside.jsonl").read_text())["row"] == 1


def test_counting_queries_show_a_row_for_each_end(capfd: Capture) -> None:
    query = "SELECT COUNT(*) FROM trades WHERE SELL ; BUY"
    assert cernis("run", query, "-e", "trades.csv") == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert lines[0] == ["end", "end_ts", "COUNT(*)"]
    assert [(line[0], line[-1]) for line in lines[1:4]] == [("3", "3"), ("5", "4"), ("6", "4")]
    assert cernis("run", query, "-e", "trades.csv", "-o", "-") == 0
    assert json.loads(capfd.readouterr().out.splitlines()[0])["count"] == 3


def test_the_memory_of_a_statement_is_bounded(capfd: Capture) -> None:
    sorted_rows = "SELECT i FROM (SELECT range AS i FROM range({})) ORDER BY hash(i)"
    options = ["-e", "trades.csv", "--lang", "sql", "--count", "--max-memory", "60"]
    assert cernis("run", sorted_rows.format(1000), *options) == 0
    assert capfd.readouterr().out == "1000\n"
    wide = "SELECT list(repeat(hash(range)::VARCHAR, 50)) AS wide FROM range(200000)"
    assert cernis("run", wide, *options) == 1
    told = capfd.readouterr().err
    assert "error: out of memory: DuckDB has used up its limit of 59.9 MiB; max_memory" in told


# ----------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", PAIRS],
        ["run", PAIRS, "-e", "trades.csv", "--engine", "abacus"],
        ["run", PAIRS, "-e", "trades.csv", "-o", "matches.txt"],
        ["run", PAIRS, "-e", "trades.csv", "--limit", "-1"],
        ["run", PAIRS, "-e", "trades.csv", "--max-memory", "60"],
        ["fly"],
        ["run", PAIRS, "--no-such-option"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], capfd: Capture) -> None:
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "Usage: cernis" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", PAIRS, "-e", "nothing.csv"], "nothing.csv: no such file"),
        (["run", PAIRS, "-e", "no*.csv"], "no*.csv: no file has such a name"),
        (["run", "SELECT * FROM S WHERE (A ; B", "-e", "trades.csv"], "'(' is never closed"),
        (["run", PAIRS + " WITHIN 5 MINUTES", "-e", "trades.csv", "--time", "tss"], "'tss'"),
        (["run", PAIRS, "-e", "trades.csv", "-o", "no/where.jsonl"], "there is no directory no"),
        (["check", "nothing.ceql"], "nothing.ceql: no such file"),
        (["bench", "nothing"], "unknown benchmark 'nothing'"),
    ],
)
def test_a_mistake_is_exit_code_1_and_a_message(
    arguments: list[str], said: str, capfd: Capture
) -> None:
    assert main(arguments) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    assert not err.startswith("internal error")


# ------------------------------------------------------- check, explain, demo


def test_a_good_query_is_ok(capfd: Capture) -> None:
    assert cernis("check", PAIRS) == 0
    assert capfd.readouterr() == ("OK\n", "")


def test_every_mistake_of_a_query_is_shown(capfd: Capture) -> None:
    query = "SELECT * FROM S WHERE SELL AS s ; BUY AS b FILTER t[x > 1] AND u[x > 1]"
    assert cernis("check", query) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("line 1, column") == 2


def test_explaining_says_what_a_query_costs(capfd: Capture) -> None:
    assert cernis("explain", PAIRS) == 0
    plain = capfd.readouterr().out
    assert "unary" in plain
    assert cernis("explain", PAIRS, "--events", "trades.csv") == 0
    assert "unary" in capfd.readouterr().out
    assert cernis("explain", PAIRS, "--mermaid") == 0
    assert capfd.readouterr().out.startswith(("flowchart", "stateDiagram", "graph"))


def test_the_version_is_shown(capfd: Capture) -> None:
    assert cernis("--version") == 0
    assert capfd.readouterr().out.startswith("cernis 0.")


# ---------------------------------------------------------------- processes


def test_a_reader_that_goes_away_is_no_error(trades: Path) -> None:
    rows = "".join(f"A,{i}\n" for i in range(3000))
    (trades / "many.csv").write_text("type,x\n" + rows)
    query = "SELECT * FROM many WHERE A AS a ; A AS b"
    command = [sys.executable, "-m", "cernis", "run", query, "-e", "many.csv", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.wait()
    assert process.returncode == 141
    assert errors == b""


@pytest.mark.parametrize("what", ["import cernis", "import cernis.cli.main"])
def test_importing_is_light(what: str) -> None:
    heavy = ["pyspark", "pandas", "polars", "altair", "pyoxigraph"]
    if what.endswith("main"):
        heavy += ["numba", "pyarrow"]
    code = f"{what}\nimport sys\nprint([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert found.stdout == "[]\n"


def test_a_limit_ends_the_reading(trades: Path, capfd: Capture) -> None:
    (trades / "many.csv").write_text("type,x\n" + "A,1\n" * 50)
    query = "SELECT * FROM many WHERE A AS a ; A AS b"
    assert cernis("run", query, "-e", "many.csv", "-o", "-", "--limit", "3") == 0
    assert len(capfd.readouterr().out.splitlines()) == 3
    assert cernis("run", query, "-e", "many.csv", "-o", "m.parquet", "--limit", "3") == 0
    assert pq.read_table(trades / "m.parquet").num_rows == 3


def test_no_matches_are_a_parquet_file_with_columns(trades: Path) -> None:
    query = "SELECT * FROM trades WHERE NOTHING AS n"
    assert cernis("run", query, "-e", "trades.csv", "-o", "m.parquet") == 0
    table = pq.read_table(trades / "m.parquet")
    assert table.num_rows == 0
    assert table.schema.names == ["start", "end", "start_ts", "end_ts", "n"]


def test_no_events_are_a_parquet_file_with_columns(trades: Path) -> None:
    (trades / "nothing.csv").write_text("type,ts,price\n")
    query = "SELECT * FROM nothing WHERE A AS x"
    assert cernis("run", query, "-e", "nothing.csv", "-o", "m.parquet") == 0
    table = pq.read_table(trades / "m.parquet")
    assert table.num_rows == 0
    assert table.schema.names == ["start", "end", "start_ts", "end_ts", "x"]


# ----------------------------------------------------------------- warnings


def test_check_says_what_a_query_may_not_mean(capfd: Capture) -> None:
    assert cernis("check", "SELECT * FROM S WHERE A ; NOT B ; C WITHIN 10 EVENTS") == 0
    out, err = capfd.readouterr()
    assert out == "OK\n"
    assert err == (
        "warning: line 1, column 27: a B in between does not prevent a match: "
        "NOT B is any other event\n"
        "  SELECT * FROM S WHERE A ; NOT B ; C WITHIN 10 EVENTS\n"
        "                            ^^^^^\n"
        "  help: UNLESS keeps it out: A ; C UNLESS B\n"
        "note: WITHIN 10 EVENTS: a match spans at most 11 events; WITHIN 9 EVENTS are at most 10\n"
    )


def test_check_finds_patterns_that_are_too_large_to_run(capfd: Capture) -> None:
    assert main(["check", "SELECT * WHERE A{90000}"]) == 1
    assert capfd.readouterr().err.startswith("error: line 1, column 16: {90000} unrolls to 90,000")


def test_check_tells_programs_mistakes_and_warnings_with_their_codes(capfd: Capture) -> None:
    def problems(query: str, *more: str, code: int) -> list[Any]:
        assert cernis("check", query, "--json", *more) == code
        told = json.loads(capfd.readouterr().out)
        assert told["ok"] is (code == 0)
        return [(one["severity"], one["code"], one.get("column")) for one in told["problems"]]

    assert problems(PAIRS, code=0) == []
    odd = "SELECT * FROM S WHERE A ; NOT B ; C"
    assert problems(odd, code=0) == [("warning", "not-between", 27)]
    assert problems(odd, "--strict", code=1) == [("warning", "not-between", 27)]
    wrong = "SELECT * FROM S WHERE A AS a FILTER b[x > 1] AND c[x > 1]"
    assert problems(wrong, code=1) == [
        ("error", "unknown-name", 37),
        ("error", "unknown-name", 50),
    ]
    assert problems("nothing.ceql", code=1) == [("error", "no-such-file", None)]
    rules = "RULE a AS SELECT * FROM S WHERE A ; NOT B ; C"
    assert problems(rules, code=0) == [("warning", "not-between", None)]
    assert problems(rules.replace("NOT", "NTO"), code=1) == [("error", "syntax", None)]
    graphs = "SELECT ?x WHERE { SEQ (A) }"
    assert problems(graphs, "--lang", "spaseq", code=1)[0][:2] == ("error", "unbound-variable")


@pytest.mark.parametrize("command", ["check", "explain", "run"])
def test_warnings_are_errors_with_strict(command: str, capfd: Capture) -> None:
    events = ["-e", "trades.csv"] if command != "check" else []
    query = "SELECT * FROM trades WHERE SELL UNLESS BUY"
    assert cernis(command, query, *events) == 0
    capfd.readouterr()
    assert cernis(command, query, *events, "--strict") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: line 1, column 40: UNLESS BUY excludes nothing")


def test_a_rule_set_shows_the_numbers_of_each_rule(capfd: Capture, tmp_path: Path) -> None:
    events = tmp_path / "S.jsonl"
    events.write_text("".join(f'{{"type": "A", "k": 1, "ts": {i}}}\n' for i in range(3)))
    loud = "RULE loud AS SELECT * FROM S WHERE A PARTITION BY [k] SUPPRESS BY [k] FOR 1 HOUR"
    assert main(["run", f"{loud}; RULE plain AS SELECT * FROM S WHERE A", str(events)]) == 0
    header, *rows = (line.split() for line in capfd.readouterr().out.splitlines())
    assert header == ["rule", "matches", "suppressed", "events", "records", "seconds"]
    assert [row[:4] for row in rows] == [["loud", "1", "2", "3"], ["plain", "3", "0", "3"]]


def test_a_rule_set_is_checked_with_its_warnings(capfd: Capture) -> None:
    rules = "RULE a AS SELECT * WHERE A; RULE b AS SELECT * WHERE A UNLESS B"
    text = (
        "rule b: line 1, column 63: UNLESS B excludes nothing: nothing lies inside a single event\n"
        "  RULE a AS SELECT * WHERE A; RULE b AS SELECT * WHERE A UNLESS B\n"
        "                                                                ^\n"
        "  help: write WITHOUT B FOR a time\n"
    )
    assert main(["check", rules]) == 0
    assert capfd.readouterr() == ("ok: 2 rules\n", f"warning: {text}")
    assert main(["check", rules, "--strict"]) == 1
    assert capfd.readouterr() == ("", f"error: {text}")


def test_checking_a_rule_set_plans_its_rules(capfd: Capture) -> None:
    rule = "RULE b AS SELECT * FROM S WHERE ((A{300}){300}){300}"
    assert main(["check", f"RULE a AS SELECT * FROM S WHERE A; {rule}"]) == 1
    said = "error: rule b: this pattern needs more than 50,000 automaton states; "
    assert capfd.readouterr().err.startswith(said)


def test_a_strict_run_with_a_warning_about_the_events_writes_no_file(
    trades: Path, capfd: Capture
) -> None:
    query = "SELECT * FROM trades WHERE SELL OR SEL"
    assert cernis("run", query, "-e", "trades.csv", "--strict", "-o", "out.jsonl") == 1
    assert "help: did you mean 'SELL'?" in capfd.readouterr().err
    assert not (trades / "out.jsonl").exists()


def test_the_table_shows_how_many_matches_were_silenced(capfd: Capture) -> None:
    query = "SELECT s[price] AS p FROM trades WHERE SELL AS s PARTITION BY [name]"
    assert cernis("run", f"{query} SUPPRESS BY [name] FOR 1 HOUR", "-e", "trades.csv") == 0
    out, _ = capfd.readouterr()
    assert out.splitlines()[0].split() == [
        "start", "end", "start_ts", "end_ts", "suppressed", "name", "p",
    ]  # fmt: skip


# ------------------------------------------------------------------ output


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (["--output-format", "csv"], b'"start","end","start_ts","end_ts","name","s","b"\n'),
        (["--output-format", "jsonl"], b'{"start":2,"end":3,'),
        (["-o", "-", "--output-format", "table"], b"start  end  start_ts"),
        (["--output-format", "arrow"], b"\xff\xff\xff\xff"),
        (["--output-format", "parquet"], b"PAR1"),
    ],
)
def test_the_form_of_the_output_may_be_named(
    options: list[str], first: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cernis("run", PAIRS, "-e", "trades.csv", *options) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(first)
    assert err == b""


def test_the_suffix_of_a_file_tells_its_form(trades: Path, capfd: Capture) -> None:
    for name in ("m.csv", "m.arrow", "m.feather", "m.ndjson"):
        assert cernis("run", PAIRS, "-e", "trades.csv", "-o", name) == 0
        assert capfd.readouterr().err == f"wrote 3 matches to {name}\n"
    assert len((trades / "m.csv").read_text().splitlines()) == 4
    assert (trades / "m.arrow").read_bytes()[:6] == b"ARROW1"
    nothing = PAIRS.replace("BUY", "SELL").replace("SELL AS s", "(SELL AS s FILTER s[price < 0])")
    assert cernis("run", nothing, "-e", "trades.csv", "-o", "none.csv") == 0
    assert (trades / "none.csv").read_text() == '"start","end","start_ts","end_ts","name","s","b"\n'


def test_a_table_is_not_written_to_a_file(capfd: Capture) -> None:
    options = ["--output-format", "table", "-o", "m.txt"]
    assert cernis("run", PAIRS, "-e", "trades.csv", *options) == 2
    assert "a table is shown on standard output" in " ".join(capfd.readouterr().err.split())


def test_the_table_shows_the_values_of_attributes_and_the_events(capfd: Capture) -> None:
    query = "SELECT s[price] FROM trades WHERE SELL:{2} AS s PARTITION BY [name]"
    assert cernis("run", query, "-e", "trades.csv", "--events-in-output") == 0
    out, _ = capfd.readouterr()
    assert out == (
        "start  end  start_ts             end_ts               name  s[price]\n"
        "    0    1  2024-01-02 10:00:00  2024-01-02 10:02:00  MSFT  101, 102\n"
        "1 match\n"
        "\n"
        "rows 0 to 1\n"
        "   price\n"
        "s  101  \n"
        "s  102  \n"
    )
