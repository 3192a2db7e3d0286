"""A job sent to a cluster whose Python has no Cernis: `spark-submit --py-files cernis.zip`.

The executors are processes of their own (`local-cluster`), and so are their workers. Their
interpreter has what Cernis needs, but not Cernis; that comes with the job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

import cernis
from cernis.spark.local.java import find_java

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="local-cluster needs a Unix")

PACKAGE = Path(cernis.__file__).parent

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Java need not optimize what runs for seconds
# of an A and a B at most nine events later, in A B A B …, 60 events and 120 long
HALF, WHOLE = 30 + 29 + 28 + 27 + 26, 60 + 59 + 58 + 57 + 56

JOB = """
import json
import sys

import cernis.spark

QUERY = "SELECT * FROM S WHERE A AS a ; B AS b WITHIN 10 EVENTS"


def work(batches):
    import os
    import sys

    import pyarrow as pa

    import cernis
    from cernis.engine.unary.step import step

    table = pa.Table.from_batches(list(batches))
    found = {
        "count": cernis.query(QUERY).run(table).count(),
        "process": os.getpid(),
        "python": sys.executable,
        "package": cernis.__file__,
        "compiled": sum(step.stats.cache_misses.values()),
    }
    yield pa.RecordBatch.from_pylist([found])


for _ in range(2):
    spark = cernis.spark.session(app="shipped")
    numbers = spark.range(0, 120, 1, 2)
    events = numbers.selectExpr("id AS ts", "IF(id % 2 = 0, 'A', 'B') AS type")
    found = "count long, process long, python string, package string, compiled long"
    rows = events.mapInArrow(work, found).collect()
    told = {
        "master": spark.sparkContext.master,
        "driver": sys.executable,
        "matches": cernis.spark.recognize(events, QUERY, time="ts", tasks=2).count(),
        "tasks": [row.asDict() for row in rows],
    }
    print(json.dumps(told), flush=True)
    spark.stop()
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter with everything that is installed here, except what is being worked on."""
    venv.create(tmp_path / "cluster", with_pip=False, symlinks=True)
    here = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (packages,) = (tmp_path / "cluster").glob("lib/python*/site-packages")
    # the .pth files in that folder, by which an editable install is found, are not read from here
    (packages / "those.pth").write_text("\n".join(sorted(here)) + "\n")
    return tmp_path / "cluster" / "bin" / "python"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    target = tmp_path / "cernis.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for file in PACKAGE.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, file.relative_to(PACKAGE.parent))
    return target


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Spark as it is installed, in a folder in which executors can make theirs."""
    pyspark = pytest.importorskip("pyspark")
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home


def clean_environment(**settings: object) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "NUMBA", "VIRTUAL_ENV"))
    }
    return {**kept, **{name: str(value) for name, value in settings.items()}}


@pytest.mark.fuzz  # Spark starts its executors anew: `make soak` runs it
def test_a_zip_is_all_that_a_cluster_needs(
    tmp_path: Path, python: Path, archive: Path, spark_home: Path
) -> None:
    alone = subprocess.run(
        [python, "-c", "import numba, pyarrow, pyspark, cernis"],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'cernis'" in alone.stderr

    job = tmp_path / "job.py"
    job.write_text(JOB)
    command = [spark_home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]"]
    for setting in (
        "spark.ui.enabled=false",
        "spark.ui.showConsoleProgress=false",
        "spark.driver.host=127.0.0.1",
        "spark.executor.memory=512m",
        f"spark.driver.extraJavaOptions={QUICK}",
        f"spark.executor.extraJavaOptions={QUICK}",
        f"spark.executorEnv.XDG_CACHE_HOME={tmp_path}",
    ):
        command += ["--conf", setting]
    done = subprocess.run(
        [*command, "--py-files", archive, job],
        env=clean_environment(
            JAVA_HOME=find_java().home, SPARK_HOME=spark_home, PYSPARK_PYTHON=python
        ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    for run in runs:
        assert (run["master"], run["driver"]) == ("local-cluster[2,1,1024]", str(python))
        assert [task["count"] for task in run["tasks"]] == [HALF, HALF]
        assert run["matches"] == WHOLE
        assert {task["python"] for task in run["tasks"]} == {str(python)}
        assert all("cernis.zip" in task["package"] for task in run["tasks"])
    first, second = ({task["process"] for task in run["tasks"]} for run in runs)
    assert not first & second

    assert sum(task["compiled"] for task in runs[0]["tasks"]) > 0
    assert [task["compiled"] for task in runs[1]["tasks"]] == [0, 0]
    assert list((tmp_path / "cernis" / "kernels").glob("cernis.engine.unary.step.step-*"))
