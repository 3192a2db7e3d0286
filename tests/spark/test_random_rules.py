"""Random sets of rules: Spark finds what this process does, in batch and as a stream.

Detections over wide events, and sequences whose events are compared with any earlier one.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.spark import batch, recognize_rules
from tools.cases.far import FAR, make_far_events
from tools.cases.rule_sets import make_events, write_rule

pytestmark = pytest.mark.usefixtures("few_partitions")

SETS = max(1, int(os.environ.get("CERNIS_FUZZ_N", "1")) // 10)
"""How many sets are tried; `make soak` tries more."""
RULES, EVENTS = 24, 120
KINDS = ("detections", "comparisons")
LATE = datetime(2001, 1, 1, tzinfo=UTC)


def make_set(kind: str, seed: int) -> tuple[dict[str, str], pa.Table]:
    """Return rules and events, with times and texts as Spark has them."""
    chance = Random(f"{kind} on Spark {seed}")
    if kind == "detections":
        rules = [write_rule(chance) for _ in range(RULES)]
        events = make_events(chance, EVENTS)
        at = events.schema.get_field_index("Image")
        events = events.set_column(at, "Image", events.column("Image").cast(pa.string()))
    else:
        texts = [chance.choice(FAR)(chance, after=False) for _ in range(RULES)]
        rules = [text if "WITHIN" in text else f"{text} WITHIN 8 EVENTS" for text in texts]
        rows = [row for _ in range(14) for row in make_far_events(chance, "A B C D ")][:EVENTS]
        times = accumulate(chance.choice([0, 1, 1]) for _ in rows)
        rows = [{**row, "ts": time} for row, time in zip(rows, times, strict=True)]
        events = pa.Table.from_pylist(rows)
    at = events.schema.get_field_index("ts")
    times = events.column("ts").cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
    return {f"r{i}": rule for i, rule in enumerate(rules)}, events.set_column(at, "ts", times)


def list_lines(found: dict[str, Any]) -> list[str]:
    """Return the lines of all rules, with their names, in any order."""
    return sorted(
        json.dumps({"rule": name, **json.loads(line)}, separators=(",", ":"))
        for name, matches in found.items()
        for part in matches.lines()
        for line in part["line"].to_pylist()
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(SETS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_finds_what_this_process_finds(
    spark: Any, tmp_path: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever rows the JVM sends, and whether Spark or its tasks' Python reads the files."""
    rules, events = make_set(kind, seed)
    wanted = list_lines(cernis.rules(rules).run({"log": events}))
    pq.write_table(events, tmp_path / "log.parquet", row_group_size=32)
    frame = spark.read.parquet(str(tmp_path / "log.parquet"))
    monkeypatch.setattr(batch, "_PUSHED_RULES", 8 if seed % 2 else 1000)
    found = recognize_rules({"log": frame}, rules, read_files=seed % 4 < 2).toArrow()
    assert sorted(found.column("line").to_pylist()) == wanted
    assert wanted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(SETS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_finds_what_a_session_finds(
    spark: Any, tmp_path: Path, kind: str, seed: int
) -> None:
    """In micro-batches, with a restart after each. The last event waits for a later one."""
    rules, events = make_set(kind, seed)
    late = events.slice(EVENTS - 1).set_column(
        events.schema.get_field_index("ts"), "ts", pa.array([LATE], events.schema.field("ts").type)
    )
    events = pa.concat_tables([events.slice(0, EVENTS - 1), late])
    found = list_lines(cernis.rules(rules).session().push({"log": events}))
    wanted = [line for line in found if f'"end":{EVENTS - 1},' not in line]
    told: list[str] = []
    checkpoint = str(tmp_path / "checkpoint")
    (tmp_path / "in").mkdir()
    numbered = events.append_column("n", pa.array(range(EVENTS), pa.int64()))
    for number, (first, last) in enumerate(pairwise([0, 41, 80, EVENTS])):
        piece = numbered.slice(first, last - first)
        pq.write_table(piece, tmp_path / "in" / f"{number}.parquet")
        schema = spark.read.parquet(str(tmp_path / "in")).schema
        frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
        found = recognize_rules(
            {"log": frame}, rules, row="n", tasks=2, checkpoint=checkpoint, ahead=None
        )

        def take(batch: Any, _: int) -> None:
            told.extend(batch.toArrow().column("line").to_pylist())

        started = found.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        started.trigger(availableNow=True).start().awaitTermination()
    assert sorted(told) == wanted
    assert wanted
