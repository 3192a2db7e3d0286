"""A Spark session on this machine, for the command line, the tour, benchmarks and tests.

It needs no settings and leaves no files: `java` finds a Java, workers run this interpreter, and
tables, spilled data and the Java process's output go to a temporary folder that is removed at
the end. Spark prints a dozen lines at every start, some before it reads its logging settings;
its errors reach the user as exceptions. If Spark does not start, the message has the end of
that output.

The session's time zone is the user's choice: it decides how Spark shows times.

Cost: about 6 s to start, 450 MB; `memory` limits Java's.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cernis.errors import CernisError
from cernis.spark.local import start_python
from cernis.spark.local.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINES_SHOWN = 20
_PATIENCE = "600s"
"""How long Spark waits for a process on this machine, where a setting says it."""


def session(cores: int | str = "*", *, app: str = "cernis") -> SparkSession:
    """Return the active session, the chosen one (spark-submit, SPARK_REMOTE), or a local one."""
    SparkSession = spark_class()
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    if is_chosen():
        return SparkSession.builder.appName(app).getOrCreate()
    return local_session(cores, app=app)


def local_session(
    cores: int | str = "*",
    *,
    memory: str | None = None,
    app: str = "cernis",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session in this process, on so many cores; if one runs already, that one."""
    SparkSession = spark_class()
    from pyspark import SparkConf, SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        settings = {**_settings(cores, memory or _memory(), app), **(conf or {})}
        configuration = SparkConf().setAll(list(settings.items()))
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["PYSPARK_PYTHON"] = _write_interpreter()
        try:
            context = SparkContext(conf=configuration, gateway=_gateway(configuration))
        finally:
            os.environ["PYSPARK_PYTHON"] = sys.executable  # of processes that outlive this one
    return SparkSession(context)


def _write_interpreter() -> str:
    """Return the command that Spark starts Python with: one that answers it at once."""
    if sys.platform == "win32":
        return sys.executable
    script = _folder() / "python"
    words = shlex.join([sys.executable, start_python.__file__])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o700)
    return str(script)


def spark_class() -> type[SparkSession]:
    """Return Spark's class of sessions; an error says how to install Spark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise CernisError(
            f"Spark is not installed ({error})\n  help: pip install 'cernis[spark]'"
        ) from None
    return SparkSession


def is_chosen() -> bool:
    """Return whether the environment of this process says where Spark runs."""
    from pyspark import SparkContext

    submitted = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    return (
        SparkContext._active_spark_context is not None
        or "SPARK_REMOTE" in os.environ
        or "PYSPARK_GATEWAY_PORT" in os.environ
        or "--master" in submitted
        or "--remote" in submitted
    )


def _settings(cores: int | str, memory: str, app: str) -> dict[str, str]:
    partitions = 2 * (_cores() if cores == "*" else int(cores))
    folder = _folder()
    return {
        "spark.master": f"local[{cores}]",
        "spark.app.name": app,
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",  # the machine's name may not resolve
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.python.daemon.module": "cernis.spark.local.daemon",
        # a busy machine is slow, not broken
        "spark.python.authenticate.socketTimeout": _PATIENCE,
        "spark.network.timeout": _PATIENCE,
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    """Return a quarter of the memory, as Java itself would take, from 1 to 8 GB."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        there = 0
    with suppress(OSError, ValueError):  # a container may have less; "max" is no limit
        there = min(there, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return f"{min(max(there // 4 >> 20, 1024), 8192)}m"


def _gateway(configuration: Any) -> Any:
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # of a session that was stopped
        return SparkContext._gateway
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    log = _folder() / "java.log"
    try:
        with log.open("wb") as out, _home_without_zip():
            launch: Any = launch_gateway
            return launch(configuration, {"stdout": out, "stderr": out})
    except PySparkRuntimeError:
        lines = log.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
        said = "\n".join(f"  {line}" for line in lines)
        raise CernisError(
            f"Spark did not start with Java {java.version} in {java.home}\n{said}"
        ) from None


@contextmanager
def _home_without_zip() -> Iterator[None]:
    """Let workers import PySpark from where it is installed, compiled.

    Spark puts the zip of PySpark in its home before all else that they import. Python compiles the
    modules of a zip in every process, which is most of the time that a process takes to start. A
    streaming query starts one for each operator with state, which has ten seconds to answer. So
    Spark gets a home without that zip, unless the user has chosen one.
    """
    import py4j
    import pyspark

    own, home = Path(pyspark.__file__).parent, _folder() / "home"
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    installed = {str(Path(str(one.__file__)).parents[1]) for one in (py4j, pyspark)}
    if "SPARK_HOME" in os.environ or not installed <= folders or home.exists():
        yield
        return
    try:
        home.mkdir()
        for name in ("bin", "jars", "sbin"):
            (home / name).symlink_to(own / name)
    except OSError:  # no links here
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="cernis-spark-"))
    atexit.register(_leave, folder)
    return folder


def _leave(folder: Path) -> None:
    from pyspark import SparkContext

    with suppress(Exception):  # Java may be gone already
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    shutil.rmtree(folder, ignore_errors=True)
