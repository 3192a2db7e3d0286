"""Rule sets on Spark: each rule finds what it finds in this process, and errors name the rule."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import cernis
from benchmarks.detections import host_log, write_detection
from cernis.cli.main import main
from cernis.generators.stock import stock_stream
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.shared.shared_rules import SMALLEST
from cernis.spark import batch
from cernis.spark.recognition import recognize_rules

RULES = """
RULE keyed AS SELECT * FROM S WHERE SELL AS s ; BUY AS b
    FILTER s[volume > 800] AND b[volume > 800] PARTITION BY [name] WITHIN 2 SECONDS;
RULE counted AS SELECT COUNT(*) FROM S WHERE SELL ; BUY PARTITION BY [name] WITHIN 1 SECOND;
RULE sliced AS SELECT s FROM S WHERE (SELL AS s ; BUY AS b) FILTER s[price > 30] WITHIN 1 SECOND;
RULE rare AS SELECT * FROM S WHERE BUY AS b FILTER b[name = 'nobody']
"""
TWO = """
RULE first AS SELECT * FROM S WHERE A AS a;
RULE both AS SELECT * FROM S, T WHERE S>A AS a ; T>A AS b;
RULE second AS SELECT * FROM T WHERE A AS a
"""
STREAMS = {
    "S": [{"type": "A", "k": 1, "ts": 1}, {"type": "A", "k": 2, "ts": 3}],
    "T": [{"type": "A", "k": 1, "ts": 2}, {"type": "A", "k": 3, "ts": 4}],
}
INSERTS = """
RULE low AS INSERT INTO Low SELECT a[k] AS k FROM S WHERE A AS a;
RULE high AS SELECT * FROM Low WHERE Low ; Low
"""
REFUSED = """\
rule low: line 2, column 13: INSERT INTO Low needs rules that run together
  RULE low AS INSERT INTO Low SELECT a[k] AS k FROM S WHERE A AS a;
              ^^^^^^^^^^^^^^^
  help: cernis.spark.recognize_rules(…, together=True)"""
TOGETHER = (
    RULES
    + """;
RULE alone AS SELECT s FROM S WHERE SELL AS s WITHOUT BUY FOR 1 SECOND PARTITION BY [name];
RULE low AS INSERT INTO Low SELECT s[name] AS name, b[price] - s[price] AS gain
    FROM S WHERE SELL AS s ; BUY AS b PARTITION BY [name] WITHIN 1 SECOND LIMIT 1;
RULE high AS SELECT * FROM S, Low WHERE Low AS l ; S>SELL AS s ; Low AS m FILTER l[gain] < m[gain]
    PARTITION BY [name] WITHIN 1 SECOND;
RULE quiet AS INSERT INTO Quiet SELECT s[name] AS name FROM S WHERE SELL AS s
    WITHOUT BUY FOR 1 SECOND PARTITION BY [name];
RULE rate AS INSERT INTO Rate SELECT COUNT(*) AS n FROM S WHERE SELL PARTITION BY [name]
    GROUP BY [name], EVERY 2 SECONDS;
RULE calm AS SELECT q, r[n] AS n FROM Quiet, Rate WHERE Quiet AS q ; Rate AS r
    PARTITION BY [name] WITHIN 3 SECONDS;
RULE any AS SELECT COUNT(*) FROM Low WHERE Low AS l FILTER l[gain > 0] WITHIN 1 SECOND;
RULE runs AS INSERT INTO Runs SELECT LONGEST LAST(s[name]) AS name, COUNT(s) AS n
    FROM S WHERE (SELL:+) AS s PARTITION BY [name] WITHIN 2 SECONDS;
RULE spare AS INSERT INTO Runs SELECT s[name] AS name, 0 AS n FROM S WHERE SELL AS s
    WITHOUT BUY FOR 1 EVENTS PARTITION BY [name];
RULE after AS SELECT r[n] AS n FROM S, Runs WHERE Runs AS r : S>BUY AS b PARTITION BY [name]
"""
)
BUNDLE = "".join(
    f""";
RULE bundled{i} AS SELECT * FROM S WHERE SELL AS s ; BUY{"+" * (i % 2)} AS b
    FILTER s[name = 'MSFT'] AND b[name = 'MSFT'] AND b[price > {i}]
    PARTITION BY [name] WITHIN 1 SECOND SUPPRESS BY [name] FOR {i + 1} SECONDS"""
    for i in range(SMALLEST)
)
TOGETHER += BUNDLE
TWO_COLUMNS = """
RULE one AS SELECT s[volume] AS n FROM S WHERE SELL AS s FILTER s[price > 30];
RULE other AS SELECT b[name] AS name FROM S WHERE BUY AS b FILTER b[price > 30]
"""
MORE = """
RULE best AS SELECT s[price] AS rule FROM S WHERE SELL AS s PARTITION BY [name]
    ORDER BY s[price] LIMIT 2 EVERY 3 SECONDS;
RULE hours AS SELECT [name], COUNT(*) AS n, MAX(s[price]) AS top FROM S WHERE SELL AS s
    PARTITION BY [name] GROUP BY [name], EVERY 5 SECONDS;
RULE long AS SELECT LONGEST s FROM S WHERE (SELL:+) AS s PARTITION BY [name] WITHIN 2 SECONDS;
RULE top AS SELECT s[price] AS rule FROM S WHERE SELL AS s PARTITION BY [name]
    ORDER BY s[price] DESC LIMIT 3 OVERALL;
RULE silent AS SELECT * FROM S WHERE SELL AS s PARTITION BY [name] SUPPRESS BY [name] FOR 1 SECOND
"""


@pytest.fixture(autouse=True)
def _single_tasks_may_warn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this query runs in a single task")
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "stock.ceql").write_text(RULES)
    (tmp_path / "two.ceql").write_text(TWO)
    (tmp_path / "inserts.ceql").write_text(INSERTS)
    pa.csv.write_csv(stock_stream(300, seed=3, symbols=4), tmp_path / "stock.csv")
    for name, events in STREAMS.items():
        text = "".join(json.dumps(event) + "\n" for event in events)
        (tmp_path / f"{name}.jsonl").write_text(text)
    return tmp_path


def frames(spark: Any) -> dict[str, Any]:
    return {
        name: spark.createDataFrame(pa.Table.from_pylist(rows)) for name, rows in STREAMS.items()
    }


def test_each_rule_has_a_frame_with_the_matches_that_it_has_in_this_process(spark: Any) -> None:
    events = stock_stream(300, seed=3, symbols=4)
    at = events.schema.get_field_index("ts")
    times = events.column("ts").cast(pa.timestamp("us", "UTC"))
    events = events.set_column(at, "ts", times)
    df = spark.createDataFrame(events)
    found = recognize_rules(df, RULES, matches="lines", together=False)
    here = cernis.rules(RULES).run(events)
    assert [*found] == [*here]
    for name, df in found.items():
        lines = [row.line for row in df.orderBy("end_ts", "end", "place").collect()]
        assert lines == [line for part in here[name].lines() for line in part["line"].to_pylist()]


def test_rows_are_numbered_through_all_streams_of_the_rules(spark: Any) -> None:
    found = recognize_rules(frames(spark), TWO, together=False)
    here = cernis.rules(TWO).run(STREAMS)
    for name, df in found.items():
        ends = sorted(row["end"] for row in df.collect())
        assert ends == sorted(match.end for match in here[name])
    assert sorted(row["end"] for row in found["second"].collect()) == [2, 3]


def test_rules_that_spark_does_not_run_are_named(spark: Any) -> None:
    with pytest.raises(RuleSetError) as raised:
        recognize_rules(frames(spark)["S"], INSERTS, together=False)
    assert str(raised.value) == REFUSED
    wrong = "\n".join(
        f"RULE {name} AS SELECT * FROM S WHERE A AS a FILTER a[{key} = 1]"
        for name, key in (("a", "kk"), ("b", "l"))
    )
    with pytest.raises(RuleSetError) as raised:
        recognize_rules(frames(spark)["S"], wrong, together=False)
    assert [text.splitlines()[0] for text in raised.value.mistakes] == [
        "rule a: line 1, column 49: unknown attribute 'kk'",
        "rule b: line 2, column 49: unknown attribute 'l'",
    ]


@pytest.mark.usefixtures("spark", "folder")
@pytest.mark.parametrize(
    "arguments",
    [
        ["rules", "S=stock.csv"],
        ["rules", "stock.csv", "--limit", "2"],
        ["two.ceql", "S=S.jsonl", "T=T.jsonl"],
    ],
    ids=" ".join,
)
def test_the_command_line_writes_what_it_writes_in_this_process(arguments: list[str]) -> None:
    for engine in ("local", "spark"):
        assert main(["run", *arguments, "--engine", engine, "-o", f"{engine}.jsonl"]) == 0
    assert Path("spark.jsonl").read_bytes() == Path("local.jsonl").read_bytes() != b""


@pytest.mark.usefixtures("spark", "folder")
def test_explain_with_events_names_the_rules_that_find_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    never = "RULE never AS SELECT * FROM S WHERE SELL AS a FILTER a[name = 'NONE']"
    rules = f"RULE buys AS SELECT * FROM S WHERE BUY AS b; {never}"
    for engine in ("local", "spark"):
        assert main(["explain", rules, "--events", "S=stock.csv", "--engine", engine]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert "costly       the rules that took most of the time" in lines
        assert lines[-2:] == [
            "silent       1 rule finds nothing in these events",
            "             never: no event has name = 'NONE'",
        ]


@pytest.mark.usefixtures("spark", "folder")
def test_the_command_line_writes_the_columns_of_all_rules() -> None:
    rules = f"{TOGETHER}; {MORE}"
    for engine in ("local", "spark"):
        run = ["run", rules, "S=stock.csv", "--engine", engine, "-o"]
        assert main([*run, f"{engine}.parquet"]) == 0
        assert main([*run, f"{engine}.csv", "--events-in-output", "--limit", "7"]) == 0
    found, here = pq.read_table("spark.parquet"), pq.read_table("local.parquet")
    by_end = [("rule", "ascending"), ("end", "ascending"), ("start", "ascending")]
    held = pa.array(["runs", "spare"])  # one process writes them when they are certain
    is_held = pc.is_in(found.column("rule"), held)
    assert found.filter(pc.invert(is_held)).equals(here.filter(pc.invert(is_held)))
    assert found.sort_by(by_end).equals(here.sort_by(by_end))
    assert {*found.column("rule").to_pylist()} == {*cernis.rules(rules).names} - {"rare"}
    assert Path("spark.csv").read_bytes() == Path("local.csv").read_bytes() != b""


@pytest.mark.usefixtures("spark", "folder")
def test_the_command_line_counts_and_shows_rules(capfd: pytest.CaptureFixture[str]) -> None:
    for form in (["--count"], []):
        shown = []
        for engine in ("local", "spark"):
            assert main(["run", "rules", "stock.csv", "--engine", engine, *form]) == 0
            lines = capfd.readouterr().out.splitlines()
            shown.append([line.split()[:3] for line in lines])  # tasks read fewer events
        assert shown[0] == shown[1]
        assert "keyed" in [row[0] for row in shown[0]]


def test_rules_run_together_in_one_job(spark: Any) -> None:
    events = stock_stream(300, seed=3, symbols=4)
    at = events.schema.get_field_index("ts")
    events = events.set_column(at, "ts", events.column("ts").cast(pa.timestamp("us", "UTC")))
    df = spark.createDataFrame(events)
    found = recognize_rules(df, TOGETHER).toArrow().to_pylist()
    here = cernis.rules(TOGETHER).run(events)
    wanted = list_lines(here)
    lines = [json.loads(row["line"]) for row in found]
    assert sorted(map(json.dumps, lines)) == sorted(map(json.dumps, wanted))
    assert {line["rule"] for line in lines} == {*here} - {"rare"}
    columns = recognize_rules(df, TWO_COLUMNS, matches="events").orderBy("end").toArrow()
    assert columns.select(["rule", "end", "n", "name"]).to_pylist() == [
        {"rule": name, "end": match.end, "n": None, "name": None, **match.values}
        for name, match in sorted(
            (
                (name, each)
                for name, own in cernis.rules(TWO_COLUMNS).run(events).items()
                for each in own
            ),
            key=lambda pair: pair[1].end,
        )
    ]
    assert all(row["rule"] == json.loads(row["line"])["rule"] for row in found)


def test_rules_together_read_the_columns_and_the_rows_that_they_need(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(stock_stream(50, seed=3, symbols=4), tmp_path / "S.parquet")
    df = spark.read.parquet(str(tmp_path / "S.parquet"))
    rules = "RULE a AS SELECT * FROM S WHERE SELL AS s FILTER s[name = 'MSFT'] WITHIN 1 SECOND"
    recognize_rules(df, rules).explain()
    plan = capfd.readouterr().out
    assert "price" not in plan
    assert "volume" not in plan
    assert "EqualTo(name,MSFT)" in plan


@pytest.mark.usefixtures("spark", "folder")
def test_the_command_line_runs_rules_on_streams_of_matches(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for form in (["--count"], ["--limit", "3", "--output", "-"]):
        shown = []
        for engine in ("local", "spark"):
            run = ["run", TOGETHER, "S=stock.csv", "--engine", engine]
            assert main([*run, *form]) == 0
            shown.append(capfd.readouterr().out)
        assert shown[0] == shown[1]
        assert "high" in shown[0]


def test_large_sets_read_the_rows_that_some_rule_can_use(
    spark: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the rarest of their conditions: constants, texts and ranges are joined by column."""
    monkeypatch.setattr(batch, "_PUSHED_RULES", 8)
    log = host_log(3000, seed=2, columns=30)
    rare = pa.array([None if row % 100 else row for row in range(3000)], pa.int64())
    log = log.append_column("size", rare)
    at = log.schema.get_field_index("ts")
    log = log.set_column(at, "ts", log.column("ts").cast(pa.timestamp("us", "UTC")))
    pq.write_table(log, tmp_path / "log.parquet")
    df = spark.read.parquet(str(tmp_path / "log.parquet"))
    texts = {f"r{i}": write_detection(i, seed=5) for i in range(30)}
    step = "e[Channel = 'Sysmon' AND size >= {} AND size < {}]"
    texts |= {
        f"size {low}": "SELECT * FROM log WHERE log AS e FILTER " + step.format(low, low + 200)
        for low in range(0, 2000, 400)
    }
    wanted = list_lines(cernis.rules(texts).run({"log": log}))
    found = recognize_rules({"log": df}, texts)
    found.explain()
    plan = capfd.readouterr().out
    assert "RLIKE" in plan
    assert " >= " in plan
    recognize_rules({"log": df}, texts, pushdown=False).explain()
    assert "RLIKE" not in capfd.readouterr().out
    lines = [json.loads(row["line"]) for row in found.toArrow().to_pylist()]
    assert sorted(map(json.dumps, lines)) == sorted(map(json.dumps, wanted))
    assert {line["rule"] for line in wanted} > {"size 0", "size 400"}


def list_lines(found: Any) -> list[dict[str, Any]]:
    """Return the lines of all rules, with their names."""
    return [
        {"rule": name, **json.loads(line)}
        for name, matches in found.items()
        for part in matches.lines()
        for line in part["line"].to_pylist()
    ]
