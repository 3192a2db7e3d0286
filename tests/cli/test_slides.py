"""The stock examples of the CORE slides, as a person would run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cernis.cli.main import main

STOCKS = """\
type,name,price,ts
SELL,MSFT,101,2022-01-03 10:00:00
SELL,MSFT,102,2022-01-03 10:02:00
SELL,INTL,80,2022-01-03 10:10:00
BUY,INTL,80,2022-01-03 10:14:00
SELL,AMZN,1900,2022-01-03 10:25:00
BUY,INTL,81,2022-01-03 10:30:00
BUY,AMZN,1920,2022-01-03 10:33:00
"""
SEQUENCE = """\
SELECT * FROM Stocks
WHERE SELL AS msft ; SELL AS intl ; SELL AS amzn
FILTER msft[name = 'MSFT'] AND msft[price > 100]
   AND intl[name = 'INTL']
   AND amzn[name = 'AMZN'] AND amzn[price < 2000]
"""
PARTITIONED = """\
SELECT s, b FROM Stocks
WHERE (BUY or SELL) as s; (BUY or SELL) as b
PARTITION BY [name]
WITHIN 5 minute
"""


def matches(
    query: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> list[tuple[dict[str, list[int]], dict[str, str]]]:
    (tmp_path / "stocks.csv").write_text(STOCKS)
    (tmp_path / "query.ceql").write_text(query)
    files = [str(tmp_path / "query.ceql"), "--events", str(tmp_path / "stocks.csv")]
    assert main(["run", *files, "--output", "-"]) == 0
    lines = map(json.loads, capfd.readouterr().out.splitlines())
    return [(line["vars"], line["partition"]) for line in lines]


def test_microsoft_then_intel_then_amazon(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert matches(SEQUENCE, tmp_path, capfd) == [
        ({"msft": [1], "intl": [2], "amzn": [4]}, {}),
        ({"msft": [0], "intl": [2], "amzn": [4]}, {}),
    ]


def test_two_trades_of_one_stock_within_five_minutes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert matches(PARTITIONED, tmp_path, capfd) == [
        ({"s": [0], "b": [1]}, {"name": "MSFT"}),
        ({"s": [2], "b": [3]}, {"name": "INTL"}),
    ]
