"""A checkpoint of one process goes on on Spark, and comes back: no match is lost, none comes twice.

Each move starts Spark, so these are few (`make soak`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

import cernis
from cernis.cli.main import main

pytestmark = pytest.mark.fuzz

WINDOW = (
    "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] PARTITION BY [k] WITHIN 40 SECONDS"
)
CONSUMES = f"{WINDOW} CONSUME BY PARTITION"
ABSENT = "SELECT * FROM S WHERE A AS a WITHOUT B FOR 3 SECONDS PARTITION BY [k]"
RULES = f"RULE pairs AS {WINDOW}; RULE absent AS {ABSENT};"
PIECE = 60


def events(count: int = 4 * PIECE) -> list[dict[str, object]]:
    numbers = ((7 * i * i + 3 * i) % 101 for i in range(count))
    return [
        {"type": "AB"[n % 2], "ts": 1000 * i, "v": n % 9, "k": n % 5} for i, n in enumerate(numbers)
    ]


def put(number: int) -> None:
    piece = events()[number * PIECE : (number + 1) * PIECE]
    path = Path("in", f"{number}.jsonl")
    path.write_text("".join(json.dumps(event) + "\n" for event in piece))
    os.utime(path, (number, number))


def stream(*arguments: str) -> None:
    command = ["stream", *arguments, "--source", "S=in", "--sink", "out", "--once"]
    command += ["--checkpoint", "cp", "--output-format", "jsonl", "--time-unit", "ms"]
    assert main([*command, "--ahead", "none"]) == 0


def read_out() -> list[str]:
    paths = [path for path in Path("out").iterdir() if path.name[0] not in "._"]
    return [line for path in paths for line in path.read_text().splitlines()]


@pytest.mark.parametrize("text", [CONSUMES, RULES])
def test_each_match_is_there_once_when_a_stream_moves_up_and_down_and_up_again(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for number, engine in enumerate(("local", "spark", "local", "spark")):
        put(number)
        stream(text, "--engine", engine)
    stream(text, "--engine", "local")
    found = Counter(
        (line.get("rule", ""), line["start"], line["end"], write(line["vars"]))
        for line in map(json.loads, read_out())
    )
    queries = {"pairs": WINDOW, "absent": ABSENT} if text == RULES else {"": text}
    expected = Counter(
        (name, match.start, match.end, write({n: [*rows] for n, rows in match.vars.items()}))
        for name, query in queries.items()
        for match in cernis.query(query).run(events())
    )
    assert found == expected


def write(variables: object) -> str:
    return json.dumps(variables, sort_keys=True)
