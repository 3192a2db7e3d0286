"""The scripts of examples/ on Spark: they find what the embedded script finds.

`make test` runs those of one folder, `make soak` all.
"""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/query.ceql"))
FOLDERS = [
    pytest.param(EXAMPLES / name, id=name, marks=[] if name == "orders" else [pytest.mark.fuzz])
    for name in NAMES
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_script_on_a_dataframe_finds_the_same(folder: Path, spark: SparkSession) -> None:
    here = runpy.run_path(str(folder / "embedded.py"))["matches"].to_arrow()["end_ts"].to_pylist()
    there = runpy.run_path(str(folder / "on_spark.py"))["matches"].select("end_ts").collect()
    assert sorted(row.end_ts for row in there) == sorted(here)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_script_on_a_stream_finds_what_is_certain(folder: Path, spark: SparkSession) -> None:
    here = runpy.run_path(str(folder / "embedded.py"))["matches"].to_arrow()["end_ts"].to_pylist()
    runpy.run_path(str(folder / "streaming.py"))
    there = [row.end_ts for row in spark.table("found").select("end_ts").collect()]
    assert Counter(there) <= Counter(here)
    assert len(there) > 0.9 * len(here)
