"""`cernis run --engine spark` writes, shows and says what the embedded engine would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cernis.cli.main import main
from cernis.generators.stock import stock_stream
from cernis.run.session import MAY_WAIT

pytestmark = pytest.mark.usefixtures("spark")

Capture = pytest.CaptureFixture[str]

SHOP = """\
type,user,item,price,ts
VIEW,ann,pen,3,1
VIEW,ann,pen,3,1
CART,ann,pen,3,2
VIEW,bob,cup,8,3
PAY,ann,pen,3,5
CART,bob,cup,8,6
PAY,bob,cup,9,7
CART,ann,cup,1,8
CART,ann,pen,2,8
"""
FILES = {
    "shop.csv": SHOP,
    "late.csv": "type,k,ts\nB,1,5\nA,1,3\nA,2,4\nB,,6\nB,2,3\n",
    "bad.csv": "type,k,ts\nA,1,1\nB,1,2,3,4\nB,1,5\nB,1,\nB,1,7\n",
    "iso.jsonl": (
        '{"type":"A","ts":"2024-01-02T10:00:00Z","u":{"id":7,"n":null},"t":[1]}\n'
        '{"type":"B","ts":"2024-01-02T10:00:00.000000001Z","u":{"id":7}}\n'
        '{"type":"B","ts":"2024-01-02T11:00:01+01:00","u":null,"late":1}\n'
    ),
    "day.csv": "type,ts,k\nA,10:00:00,1\nB,10:00:01,\nB,11:00:01,1\n",
    "nano.csv": "type,ts\nA,2024-01-02 10:00:00.1234567\n",
    "x.csv": "type,ts,v\nA,2024-01-02 10:00:00,1\nA,2024-01-02 10:00:03,2\nbad\n",
    "many.csv": "type,k\n" + "A,1\n" * 60,
    "head.cq": "q(u, i) <- VIEW(user: u), CART(user: u, item: i)\n",
    "seen.cq": "seen(u, i) <- VIEW(u, i, _), CART(u, i, _)\n",
}

FALLS = """SELECT name, 2 * fall AS twice, low, n FROM stock MATCH_RECOGNIZE (
  PARTITION BY name ORDER BY ts
  MEASURES FIRST(price) - LAST(price) AS fall, LAST(ts) AS low, COUNT(*) AS n
  PATTERN (high down+) DEFINE down AS price < PREV(price)) WHERE fall > 0"""
AB = "SELECT * FROM S WHERE A AS a ; B AS b"
KEYED = AB + " PARTITION BY [k]"
FAR = "SELECT * FROM shop WHERE (VIEW AS a ; CART AS b ; PAY AS c) FILTER a[price] + b[price] < 99"
STREAMS = "SELECT * FROM X, Y WHERE X>A AS a ; Y>B AS b WITHIN 1 HOUR"

STOCK = {
    "keyed": "SELECT * FROM S WHERE (SELL AS s ; BUY AS b) PARTITION BY [name] WITHIN 1 SECOND",
    "sliced": """SELECT b FROM S WHERE (SELL AS s ; BUY AS b) FILTER s[volume > 500]
        WITHIN 1 SECOND LIMIT 2""",
    "of events": "SELECT * FROM S WHERE (SELL AS s : BUY AS b) FILTER s[price > 9] WITHIN 5 EVENTS",
    "compared": """SELECT * FROM S WHERE (SELL AS s ; BUY AS b)
        FILTER s[name] = b[name] AND s[price] < b[price] WITHIN 2 SECONDS""",
    "counted": "SELECT COUNT(*) FROM S WHERE SELL ; BUY PARTITION BY [name] WITHIN 2 SECONDS",
    "aggregated": """SELECT s, COUNT(b), MAX(b[ts]), SUM(b[price]) FROM S
        WHERE (SELL AS s ; BUY+ AS b) FILTER b[volume > 900] WITHIN 1 SECOND""",
    "grouped": """SELECT [name], COUNT(*) AS n, MIN(s[price]) AS least, SUM(b[volume]) AS total
        FROM S WHERE SELL AS s ; BUY AS b PARTITION BY [name] WITHIN 2 SECONDS
        GROUP BY [name], EVERY 3 SECONDS HAVING COUNT(*) > 1""",
    "grouped by ends": "SELECT COUNT(*) AS n FROM S WHERE SELL ; BUY WITHIN 1 SECOND GROUP BY END",
    "absent": "SELECT s FROM S WHERE SELL AS s WITHOUT BUY FOR 1 EVENTS PARTITION BY [name]",
    "best of all": """SELECT s, b, s[price] + b[price] AS sum FROM S WHERE SELL AS s ; BUY AS b
        WITHIN 1 SECOND ORDER BY s[volume] DESC LIMIT 9 OVERALL""",
    "the next": "SELECT NEXT * FROM S WHERE SELL AS s ; BUY AS b PARTITION BY [name]",
    "in one task": "SELECT MAX * FROM S WHERE (SELL AS s : BUY+ AS b) FILTER s[volume > 900]",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files of these tests."""
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    stock = stock_stream(300, seed=3, symbols=4)
    pa.csv.write_csv(stock, folder / "stock.csv")
    pq.write_table(stock, folder / "stock.parquet", row_group_size=70)
    (folder / "days").mkdir()
    pq.write_table(stock.slice(0, 100), folder / "days" / "1.parquet")
    pq.write_table(stock.slice(100), folder / "days" / "2.parquet")
    (folder / "stock.jsonl").write_text(
        "".join(json.dumps(event | {"ts": str(event["ts"])}) + "\n" for event in stock.to_pylist())
    )
    ticks = [datetime(2024, 1, 2, 10, 0, 1), datetime(2024, 1, 2, 10, 0, 9), None]
    events: dict[str, Any] = {
        "type": ["A", "B", "B"],
        "ts": pa.array(ticks, pa.timestamp("ms")),
        "k": pa.array([2**64 - 1, 2**64 - 1, 3], pa.uint64()),
    }
    pq.write_table(pa.table(events), folder / "null.parquet")
    events |= {"K": pa.array([1, 2, 3], pa.uint8()), "z": pa.nulls(3)}
    events |= {"d": pa.array([1, 2, 3], pa.duration("s")), "x y": ["p", "q", None]}
    pq.write_table(pa.table(events), folder / "x[1].parquet")
    pq.write_table(pa.table(events).slice(0, 2).select(["type", "ts"]), folder / "_y.parquet")
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    before = {*folder.iterdir()}
    yield
    for path in {*folder.iterdir()} - before:
        path.unlink()  # nothing but files that a test named may be left


def run(engine: str, query: str, *options: str) -> int:
    return main(["run", query, "--engine", engine, *options])


def lines(engine: str, query: str, *options: str) -> bytes:
    assert run(engine, query, *options, "-o", f"{engine}.jsonl") == 0
    return Path(f"{engine}.jsonl").read_bytes()


def table(engine: str, query: str, *options: str) -> pa.Table:
    assert run(engine, query, *options, "-o", f"{engine}.parquet") == 0
    return pq.read_table(f"{engine}.parquet")


def assert_same_lines(query: str, *options: str) -> bytes:
    found = lines("spark", query, *options)
    assert found == lines("local", query, *options)
    assert found, "a query without matches shows nothing"
    return found


def assert_same_tables(query: str, *options: str) -> None:
    here, there = table("local", query, *options), table("spark", query, *options)
    assert there.schema == here.schema
    assert there.equals(here)
    assert there.num_rows


def said(capfd: Capture) -> str:
    """What was said, but for what only one of the engines has to say."""
    own = ("note: this query runs in a single task", "note: events were out of order")
    lines = capfd.readouterr().err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(own))


# ------------------------------------------------------------------- output


@pytest.mark.parametrize("query", STOCK.values(), ids=STOCK.keys())
def test_lines_are_the_same_in_the_same_order(query: str) -> None:
    assert_same_lines(query, "-e", "S=stock.csv")


@pytest.mark.parametrize(
    ("file", "kind"), [("stock.parquet", "of events"), ("stock.jsonl", "compared")]
)
def test_lines_are_the_same_for_every_form_of_file(file: str, kind: str) -> None:
    assert_same_lines(STOCK[kind], "-e", f"S={file}")


@pytest.mark.parametrize("kind", ["counted", "aggregated", "grouped"])
def test_parquet_has_the_same_columns_and_rows(kind: str) -> None:
    assert_same_tables(STOCK[kind], "-e", "S=stock.parquet")


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (STOCK["aggregated"], ["-e", "S=stock.csv"]),
        (STOCK["keyed"], ["-e", "S=stock.parquet", "--events-in-output", "--limit", "9"]),
        (STOCK["counted"], ["-e", "S=stock.csv"]),
        (STOCK["grouped"], ["-e", "S=stock.csv"]),
        ("SELECT a[k], b FROM S WHERE A AS a ; B AS b PARTITION BY [k]", ["-e", "S=x[1].parquet"]),
        ("head.cq", ["-e", "shop.csv"]),
        (AB + " FILTER a[k = 9]", ["-e", "S=late.csv"]),
    ],
)
def test_csv_is_the_same_text(query: str, options: list[str]) -> None:
    for engine in ("local", "spark"):
        assert run(engine, query, *options, "--on-error", "skip", "-o", f"{engine}.csv") == 0
    assert Path("spark.csv").read_text() == Path("local.csv").read_text()


def test_arrow_files_have_the_same_columns_and_rows() -> None:
    for engine in ("local", "spark"):
        assert run(engine, STOCK["compared"], "-e", "S=stock.csv", "-o", f"{engine}.arrow") == 0
    here, there = (pa.ipc.open_file(f"{engine}.arrow").read_all() for engine in ("local", "spark"))
    assert there.schema == here.schema
    assert there.equals(here)
    assert there.num_rows


def test_lines_may_have_the_events_of_matches() -> None:
    found = assert_same_lines(AB, "-e", "S=iso.jsonl", "--events-in-output")
    assert b'"events":{"a":[{' in found


@pytest.mark.parametrize("file", ["late.csv", "iso.jsonl"])
def test_events_are_shown_under_the_same_table(file: str, capfd: Capture) -> None:
    options = ("-e", f"S={file}", "--events-in-output", "--output-format", "table")
    for engine in ("local", "spark"):
        assert run(engine, "SELECT * FROM S WHERE A+ AS a ; B AS b", *options) == 0
    here, there = re.split(r"(?m)(?=^start )", capfd.readouterr().out)[1:]
    assert there == here
    assert "rows " in there


def test_a_folder_of_parquet_files_is_one_stream() -> None:
    found = lines("spark", STOCK["the next"], "-e", "S=days")
    assert found == lines("local", STOCK["the next"], "-e", "S=stock.parquet")


def test_a_note_says_that_matches_without_a_deadline_are_left_out(capfd: Capture) -> None:
    query = "SELECT * FROM S WHERE A WITHOUT B FOR 1 HOUR"
    for option, expected in (([], [f"note: {MAY_WAIT}"]), (["--complete"], [])):
        assert run("spark", query, "-e", "S=late.csv", "--on-error", "skip", *option) == 0
        said = capfd.readouterr().err.splitlines()
        assert [line for line in said if "left out;" in line] == expected


def test_a_limit_gives_the_first_matches() -> None:
    found = assert_same_lines(STOCK["keyed"], "-e", "S=stock.parquet", "--limit", "7")
    assert len(found.splitlines()) == 7


def test_a_limit_ends_an_explosive_query() -> None:
    query = "SELECT * FROM S WHERE A AS a ; A+ AS b ; A AS c"
    assert_same_lines(query, "-e", "S=many.csv", "--limit", "5")


@pytest.mark.parametrize("query", ["head.cq", "seen.cq"])
def test_conjunctive_queries_are_the_same(query: str) -> None:
    assert_same_lines(query, "-e", "shop.csv")


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_statements_have_the_same_lines_in_some_order(form: str) -> None:
    options = ("-e", f"stock.{form}", "--lang", "sql")
    found = sorted(lines("spark", FALLS, *options).splitlines())
    assert found == sorted(lines("local", FALLS, *options).splitlines())
    assert len(found) > 10


def test_a_mistake_in_a_statement_is_shown_at_the_same_place(capfd: Capture) -> None:
    wrong = FALLS.replace("PREV(price)", "PREV(prize)")
    told = []
    for engine in ("local", "spark"):
        assert run(engine, wrong, "-e", "stock.csv", "--lang", "sql") == 1
        told.append(said(capfd))
    assert told[0] == told[1]
    assert told[0].startswith("error: line 4, column 52: unknown column 'prize'\n")
    assert "^^^^^\n  help: did you mean 'price'?\n" in told[0]


def test_answers_are_the_same_table() -> None:
    assert_same_tables("head.cq", "-e", "shop.csv")


@pytest.mark.parametrize(
    ("query", "file"),
    [
        (KEYED, "late.csv"),
        (AB + " WITHIN 1 SECOND", "iso.jsonl"),
        (AB + " PARTITION BY [u.id]", "iso.jsonl"),
        (AB + " WITHIN 1 SECOND", "day.csv"),
    ],
)
def test_order_and_times_of_any_form_are_the_same(query: str, file: str) -> None:
    assert_same_lines(query, "-e", f"S={file}")


def test_types_that_spark_does_not_have_come_back() -> None:
    assert_same_tables(AB + " PARTITION BY [k]", "-e", "S=x[1].parquet", "--on-error", "skip")


def test_streams_of_different_forms_are_merged(capfd: Capture) -> None:
    options = ("-e", "X=x.csv", "-e", "Y=_y.parquet", "--on-error", "skip")
    assert_same_lines(STREAMS, *options)
    assert "note: x.csv: 1 bad row skipped\n" in capfd.readouterr().err
    assert_same_tables(STREAMS, "-e", "Y=iso.jsonl", "-e", "X=x.csv", "--on-error", "skip")


# ------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (STOCK["the next"], ["-e", "S=stock.csv", "--limit", "3"]),
        (STOCK["counted"], ["-e", "S=stock.parquet"]),
        ("head.cq", ["-e", "shop.csv"]),
        ("SELECT * FROM S WHERE A AS a ; NO AS b", ["-e", "S=late.csv"]),
        ("SELECT * FROM S WHERE BUY AS a ; NO AS b", ["-e", "S=stock.parquet"]),
        ("SELECT a[ts, type] FROM S WHERE A:+ AS a", ["-e", "S=late.csv"]),
    ],
)
def test_the_table_of_the_first_matches_is_the_same(
    query: str, options: list[str], capfd: Capture
) -> None:
    assert run("local", query, *options) == 0
    here = capfd.readouterr().out
    assert run("spark", query, *options) == 0
    out, err = capfd.readouterr()
    assert out == here
    assert (": no event has the type 'NO'\n" in err) == ("NO" in query)


def test_matches_are_counted_however_many_they_are(capfd: Capture) -> None:
    query = "SELECT * FROM S WHERE A AS a ; A+ AS b ; A AS c"
    for engine in ("local", "spark"):
        assert run(engine, query, "-e", "S=many.csv", "--count") == 0
    here, there = capfd.readouterr().out.split()
    assert here == there
    assert int(there) > 2**56


def test_standard_output_has_the_form_that_is_named(capfd: Capture) -> None:
    for engine in ("local", "spark"):
        assert run(engine, KEYED, "-e", "S=late.csv", "--output-format", "csv") == 0
    text = capfd.readouterr().out
    assert text == 2 * text[: len(text) // 2]
    assert text.startswith('"start","end"')


def test_standard_output_has_the_lines(capfd: Capture) -> None:
    options = ("-e", "S=late.csv", "--output", "-")
    assert run("local", KEYED, *options) == 0
    here = capfd.readouterr().out
    assert run("spark", KEYED, *options) == 0
    assert capfd.readouterr() == (here, "")


# -------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("file", "choice"),
    [("bad.csv", "aside.jsonl"), ("null.parquet", "skip"), ("null.parquet", "aside.jsonl")],
)
def test_bad_rows_end_the_run_or_are_left_out(file: str, choice: str, capfd: Capture) -> None:
    assert run("spark", KEYED, "-e", f"S={file}", "-o", "m.jsonl") == 1
    there = capfd.readouterr()
    assert not Path("m.jsonl").exists()
    assert run("local", KEYED, "-e", f"S={file}", "-o", "m.jsonl") == 1
    assert there == capfd.readouterr()
    options = ("-e", f"S={file}", "--on-error", choice)
    seen = []
    for engine in ("local", "spark"):
        found = lines(engine, KEYED, *options)
        apart = Path(choice).read_text() if choice != "skip" else ""
        seen.append((found, said(capfd).replace(f"{engine}.jsonl", "a file"), apart))
    assert seen[0] == seen[1]
    assert f"note: {file}: " in seen[1][1]


def test_a_budget_that_is_spent_in_a_worker_ends_the_run(capfd: Capture) -> None:
    assert run("local", FAR, "-e", "shop.csv", "--budget", "1") == 1
    here = capfd.readouterr().err
    assert run("spark", FAR, "-e", "shop.csv", "--budget", "1") == 1
    assert said(capfd) == here
    assert run("spark", FAR, "-e", "shop.csv", "--budget", "1", "--partial", "--count") == 0
    assert "matches may be missing" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("query", "file"),
    [
        ("SELECT * FROM S WHERE AA AS a", "late.csv"),
        (AB + " FILTER a[k > 7]", "late.csv"),
        (AB + " FILTER a[k > 7]", "seconds.parquet"),
        (AB, "seconds.csv"),
        (AB + " FILTER a[k] > b[k]", "many.csv"),
    ],
)
def test_warnings_about_events_are_the_same(query: str, file: str, capfd: Capture) -> None:
    events = pa.table({"type": ["A", "B"], "k": [1, 1], "ts": [1_700_000_000, 1_700_000_060]})
    pq.write_table(events, "seconds.parquet")
    pa.csv.write_csv(events, "seconds.csv")
    pa.csv.write_csv(pa.table({"type": ["A", "B"] * 20, "k": [1] * 40}), "many.csv")
    found = []
    for engine in ("local", "spark"):
        assert run(engine, query, "-e", f"S={file}", "--count") == 0
        pattern = r"(?m)^(?:warning: |note: nothing matched).*(?:\n  .*)*"
        found.append(sorted(re.findall(pattern, said(capfd))))
    assert found[1] == found[0]
    assert found[0]


def test_times_that_spark_cannot_hold_are_refused(capfd: Capture) -> None:
    assert run("spark", "SELECT * FROM S WHERE A AS a", "-e", "S=nano.csv") == 1
    assert capfd.readouterr() == (
        "",
        (
            "error: nano.csv, row 0, column 'ts': Spark counts microseconds and cannot hold this "
            "time; round it, or use --engine local\n"
        ),
    )


def test_a_window_on_a_column_that_decreases_is_said_in_the_same_words(capfd: Capture) -> None:
    query = "SELECT * FROM S WHERE A AS a ; B AS b WITHIN 1 [k]"
    assert run("local", query, "-e", "S=late.csv", "--type", "type") == 1
    here = capfd.readouterr().err.replace("note: events were out of order", "")
    assert run("spark", query, "-e", "S=late.csv") == 1
    assert said(capfd) == here


# ------------------------------------------------------------------- explain


def test_explaining_says_what_spark_will_do(capfd: Capture) -> None:
    command = ["explain", STOCK["sliced"], "-e", "S=stock.parquet", "--engine", "spark"]
    assert main(command) == 0
    out, err = capfd.readouterr()
    assert "on Spark     1 task: the rows are few" in out
    assert "% of the events here" in out
    assert "numbered by the files" in out
    assert err == ""
