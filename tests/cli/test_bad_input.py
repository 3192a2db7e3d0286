"""What a person sees who made a mistake: the exact message, exit code 1, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cernis.cli.main import main

FILES = {
    "stocks.csv": "type,name,price,ts\nSELL,MSFT,101,1\nBUY,INTL,80,2\nBUY,AMZN,81,3\n",
    "broken.csv": "type,name,price,ts\nSELL,MSFT,101,1\nBUY,INTL\nBUY,AMZN,81,3\n",
    "disorder.csv": "type,name,price,ts\nSELL,MSFT,101,5\nBUY,INTL,80,2\nBUY,AMZN,81,9\n",
    "falls.csv": "type,seq\nA,5\nB,3\n",
}

MISTAKES = {
    "an unknown attribute": (
        ["SELECT * FROM stocks WHERE SELL AS a FILTER a[prise > 100]", "stocks.csv"],
        """\
error: line 1, column 47: unknown attribute 'prise'
  SELECT * FROM stocks WHERE SELL AS a FILTER a[prise > 100]
                                                ^^^^^
  help: did you mean 'price'?
""",
    ),
    "a type that is a number": (
        ["SELECT * FROM stocks WHERE 1 AS a", "stocks.csv"],
        """\
error: line 1, column 28: unexpected '1'
  SELECT * FROM stocks WHERE 1 AS a
                             ^
  expected: an event type, NOT, '(' or '*'
  help: a type that is a number stands in backquotes: `1`
""",
    ),
    "the form of the matches given as the form of the events": (
        ["SELECT * FROM stocks WHERE SELL AS a", "stocks.csv", "--format", "jsonl"],
        """\
error: stocks.csv, line 1 (row 0): not valid JSON: Expecting value at character 1
  help: --format is the form of the events; for matches --output-format jsonl
""",
    ),
    "a type clash": (
        ["SELECT * FROM stocks WHERE SELL AS a FILTER a[price = 'high']", "stocks.csv"],
        """\
error: line 1, column 47: type clash: price is a number, 'high' is a string
  SELECT * FROM stocks WHERE SELL AS a FILTER a[price = 'high']
                                                ^^^^^^^^^^^^^^
""",
    ),
    "an unbalanced parenthesis": (
        ["SELECT * FROM stocks WHERE (SELL AS a ; BUY", "stocks.csv"],
        """\
error: line 1, column 28: '(' is never closed
  SELECT * FROM stocks WHERE (SELL AS a ; BUY
                             ^
""",
    ),
    "an unknown variable in FILTER": (
        ["SELECT * FROM stocks WHERE SELL AS a ; BUY AS b FILTER c[price > 3]", "stocks.csv"],
        """\
error: line 1, column 56: unknown variable 'c' in FILTER
  SELECT * FROM stocks WHERE SELL AS a ; BUY AS b FILTER c[price > 3]
                                                         ^
  expected: BUY, SELL, a, b
""",
    ),
    "PARTITION BY that covers nothing": (
        ["SELECT * FROM stocks WHERE SELL ; BUY PARTITION BY [symbol]", "stocks.csv"],
        """\
error: line 1, column 53: unknown attribute 'symbol' in PARTITION BY: the group covers nothing
  SELECT * FROM stocks WHERE SELL ; BUY PARTITION BY [symbol]
                                                      ^^^^^^
  expected: name, price, ts, type
""",
    ),
    "several mistakes at once": (
        ["SELECT z FROM stocks WHERE SELL AS a FILTER a[prise > 1] LIMIT -1", "stocks.csv"],
        """\
error: line 1, column 8: unknown variable 'z' in SELECT
  SELECT z FROM stocks WHERE SELL AS a FILTER a[prise > 1] LIMIT -1
         ^
  expected: SELL, a
error: line 1, column 58: LIMIT must not be negative
  SELECT z FROM stocks WHERE SELL AS a FILTER a[prise > 1] LIMIT -1
                                                           ^^^^^^^^
""",
    ),
    "a window on a column that decreases": (
        ["SELECT * FROM falls WHERE A ; B WITHIN 10 [seq]", "falls.csv"],
        """\
error: WITHIN 10 [seq]: 'seq' decreases at row 1 (3 after 5); the attribute of a window must \
never decrease
""",
    ),
    "a time window without a time column": (
        ["SELECT * FROM falls WHERE A ; B WITHIN 10 SECONDS", "falls.csv"],
        """\
error: a time window needs a time column: no input has a column 'ts', and none was named
""",
    ),
    "a broken row": (
        ["SELECT * FROM broken WHERE SELL", "broken.csv"],
        "error: broken.csv, line 3 (row 1): expected 4 values, found 2: 'BUY,INTL'\n",
    ),
    "a file that is not there": (
        ["SELECT * FROM stocks WHERE SELL", "stock.csv"],
        "error: stock.csv: no such file; did you mean 'stocks.csv'?\n",
    ),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(query: str, file: str, *options: str) -> int:
    return main(["run", query, "--events", file, *options])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_what_is_wrong_and_where(
    mistake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (query, file, *options), message = MISTAKES[mistake]
    assert run(query, file, *options) == 1
    assert capfd.readouterr() == ("", message)


def test_events_out_of_order_are_sorted_with_a_note(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("SELECT * FROM disorder WHERE BUY ; SELL", "disorder.csv", "--output", "-") == 0
    found, said = capfd.readouterr()
    assert said == "note: events were out of order: 1 row sorted by 'ts'\n"
    assert found == (
        '{"start":1,"end":0,"start_ts":2,"end_ts":5,"vars":{"BUY":[1],"SELL":[0]},"partition":{}}\n'
    )


def test_bad_rows_that_are_skipped_are_counted(capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--on-error", "skip", "--count")
    assert run("SELECT * FROM broken WHERE SELL", "broken.csv", *options) == 0
    assert capfd.readouterr() == ("1\n", "note: broken.csv: 1 bad row skipped\n")
