"""Drivers are killed, and each match is there once.

The driver and its Java get SIGKILL at random moments, also while a micro-batch is written,
and the query is started again from its checkpoint. Once in CI; `make crash` does
it for long.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cernis.generators.stock import stock_stream
from cernis.spark import recognize

QUERY = """
SELECT * FROM S
WHERE SELL AS a ; BUY AS b ; SELL AS c
FILTER a[volume > 800] AND b[volume > 800] AND c[volume > 800]
PARTITION BY [name]
WITHIN 5 SECONDS
"""

CRASHES = int(os.environ.get("CERNIS_CRASHES", "1"))
FILES = 4 + 2 * CRASHES
ROWS = 3000


def arriving(chance: random.Random) -> tuple[pa.Table, list[pa.Table]]:
    """A stock stream, and the same as it comes: out of order by up to two seconds, in files."""
    events = stock_stream(FILES * ROWS, 5, symbols=6)
    at = events.schema.get_field_index("ts")
    micros = np.asarray(events.column("ts").cast(pa.timestamp("us")).cast(pa.int64()))
    micros = np.maximum.accumulate(micros - np.arange(len(micros))) + np.arange(len(micros))
    times = pa.array(micros).cast(pa.timestamp("us", "UTC"))
    events = events.set_column(at, "ts", times)
    early = np.array([chance.random() * 1.9e6 for _ in range(len(micros))])
    order = np.argsort(micros - early, kind="stable")
    files = [events.take(pa.array(order[i : i + ROWS])) for i in range(0, len(order), ROWS)]
    last = events.slice(0, 1).set_column(
        at, "ts", pa.array([int(micros[-1]) + 60_000_000]).cast(pa.timestamp("us", "UTC"))
    )
    return events, [*files, last.set_column(0, "type", pa.array(["NOTHING"]))]


def put(folder: Path, files: list[pa.Table]) -> None:
    (folder / "in").mkdir()
    (folder / "query.ceql").write_text(QUERY)
    for number, events in enumerate(files):
        path = folder / "in" / f"{number:06}.parquet"
        pq.write_table(events, path)
        os.utime(path, (10**9 + number, 10**9 + number))


def start(folder: Path) -> subprocess.Popen[str]:
    """The driver, when it has begun."""
    driver = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "driver.py"), str(folder)],
        stdout=subprocess.PIPE,
        stderr=(folder / "driver.log").open("a"),
        text=True,
        start_new_session=True,
    )
    assert driver.stdout is not None
    said = driver.stdout.readline()
    assert said == "begun\n", (folder / "driver.log").read_text()[-3000:]
    return driver


def kill(driver: subprocess.Popen[str]) -> None:
    os.killpg(driver.pid, signal.SIGKILL)  # Java is in the same group
    driver.wait()


def committed(folder: Path) -> int:
    return len([*(folder / "checkpoint" / "commits").glob("[0-9]*")])


def test_killed_at_any_moment_a_query_finds_each_match_once(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("CERNIS_SEED", "1")))
    events, files = arriving(chance)
    put(tmp_path, files)
    for _ in range(CRASHES):
        driver = start(tmp_path)
        before = committed(tmp_path)
        while driver.poll() is None and committed(tmp_path) == before:
            time.sleep(0.02)
        time.sleep(chance.random() * 2)
        kill(driver)
    last = start(tmp_path)
    assert last.wait(300) == 0, (tmp_path / "driver.log").read_text()[-3000:]

    found = spark.read.parquet(str(tmp_path / "out"))
    expected = recognize(spark.createDataFrame(events), QUERY, tasks=2)
    assert found.select("id").distinct().count() == found.count() == expected.count() > 100
    shown = ["name", "start_ts", "end_ts", "a", "b", "c"]
    assert found.select(shown).exceptAll(expected.select(shown)).isEmpty()
    assert not (tmp_path / "late").exists()
