"""Spark Connect, from an environment that has the package pyspark-client only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from cernis.spark.local.java import find_java

CLIENT = Path(__file__).with_name("connect.py")


def run_client(*arguments: str) -> None:
    command = [sys.executable, str(CLIENT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


def test_nothing_that_a_query_imports_needs_a_full_spark() -> None:
    run_client()


@pytest.fixture
def address() -> Iterator[str]:
    """A Spark Connect server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
    }
    server = subprocess.Popen(
        [*command, "spark-connect"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            assert server.poll() is None
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.5)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.fuzz
def test_batches_and_streams_run_through_spark_connect(address: str, tmp_path: Path) -> None:
    """A server and a client of its own take a minute: `make soak` runs it."""
    run_client(address, str(tmp_path))
