"""The local session: quiet, tidy, on this interpreter, and not in the way of another session."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

from cernis.errors import CernisError
from cernis.spark.local import java, start_python
from cernis.spark.local import session as local
from cernis.spark.local.daemon import PRELOADED
from cernis.spark.local.session import local_session, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(local.__file__).parents[2]

JOB = """
from cernis.spark.local.session import local_session

spark = local_session(2, memory="1g", conf={"spark.sql.shuffle.partitions": "3"})
spark.range(20).selectExpr("id", "id % 3 AS k").write.saveAsTable("numbers")
out = spark.table("numbers").repartition("k").mapInArrow(lambda batches: batches, "id long, k long")
print(out.count())
"""


def test_nothing_is_printed_and_nothing_is_left_behind(tmp_path: Path) -> None:
    for folder in ("here", "temporary"):
        (tmp_path / folder).mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        cwd=tmp_path / "here",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("20\n", "")
    assert list((tmp_path / "here").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_workers_run_this_interpreter_and_its_pyspark(spark: SparkSession) -> None:
    def who(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"who": [sys.executable, pyspark.__file__]})

    rows = spark.range(1, numPartitions=1).mapInArrow(who, "who string").collect()
    assert [row.who for row in rows] == [sys.executable, pyspark.__file__]


def test_workers_begin_with_the_engine_imported(spark: SparkSession) -> None:
    def list_modules(number: int) -> list[str]:
        import sys

        return [name for name in PRELOADED if name in sys.modules]

    (found,) = spark.sparkContext.parallelize([0], 1).map(list_modules).collect()
    assert found == list(PRELOADED)


SLOW = """
import sys, time
from pathlib import Path

class Wait:
    def find_spec(self, name, path=None, target=None):
        while name == "pyspark" and not Path("connected").exists():
            time.sleep(0.01)

sys.meta_path.insert(0, Wait())
"""


def test_a_process_answers_spark_before_it_imports_anything(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        module = "pyspark.sql.streaming.transform_with_state_driver_worker"
        started = subprocess.Popen(
            [sys.executable, start_python.__file__, "-m", module],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as file:
                assert file.read(10) == b"\0\0\0\6secret"
                file.write(b"\0\0\0\2ok")
                file.flush()
                (tmp_path / "connected").touch()
                assert int.from_bytes(file.read(4)) == started.pid
        finally:
            started.kill()
            started.wait()


def test_the_time_zone_is_that_of_the_machine(spark: SparkSession) -> None:
    machine = spark.sparkContext._jvm.java.util.TimeZone.getDefault().getID()  # type: ignore[union-attr]
    assert spark.conf.get("spark.sql.session.timeZone") == machine


def test_settings_of_the_caller_come_last(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_a_session_that_runs_is_used(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext
    assert local_session(1).sparkContext is spark.sparkContext


@pytest.mark.parametrize(("cores", "partitions"), [(3, "6"), ("5", "10")])
def test_there_are_two_partitions_for_each_core(cores: int | str, partitions: str) -> None:
    settings = local._settings(cores, "1g", "test")
    assert settings["spark.master"] == f"local[{cores}]"
    assert settings["spark.sql.shuffle.partitions"] == partitions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARK_REMOTE", "sc://somewhere"),
        ("PYSPARK_GATEWAY_PORT", "1234"),
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell"),
    ],
)
def test_who_starts_the_process_may_say_where_spark_is(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    for known in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(known, raising=False)
    assert not local.is_chosen()
    monkeypatch.setenv(name, value)
    assert local.is_chosen()


def test_without_pyspark_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(CernisError, match=r"Spark is not installed") as caught:
        local_session()
    assert str(caught.value).endswith("help: pip install 'cernis[spark]'")


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_java_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho out of memory >&2\nexit 1\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    monkeypatch.setattr(local, "find_java", lambda: java.Java(tmp_path, "17"))
    monkeypatch.setattr(local, "_folder", lambda: tmp_path)
    monkeypatch.setenv("JAVA_HOME", "replaced")
    with pytest.raises(CernisError) as caught:
        local._gateway(pyspark.SparkConf(loadDefaults=False))
    said = str(caught.value).splitlines()
    assert said[0] == f"Spark did not start with Java 17 in {tmp_path}"
    assert "  out of memory" in said
