"""`--engine spark` before Spark starts, and what is said when it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cernis.cli.failure import reported
from cernis.cli.main import main

QUERY = "SELECT * FROM S WHERE A AS a ; B AS b"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    (tmp_path / "s.csv").write_text("type,ts\nA,1\nB,2\n")
    (tmp_path / "nothing").mkdir()


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without Spark."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "arguments",
    [
        [QUERY, "-e", "S=t.csv"],
        [QUERY, "-e", "S=s.csv", "--time", "when"],
        [QUERY, "-e", "S=s.csv", "--type", "kind"],
        [QUERY + " FILTER a[price > 3]", "-e", "S=s.csv"],
        [QUERY, "-e", "S=s.csv", "-o", "no/where.jsonl"],
        ["SELECT * FROM S, T WHERE S>A ; T>B", "-e", "S=s.csv"],
    ],
)
def test_mistakes_are_found_before_spark_starts(arguments: list[str], capfd: Capture) -> None:
    assert main(["run", *arguments]) == 1
    here = capfd.readouterr()
    assert main(["run", *arguments, "--engine", "spark"]) == 1
    assert capfd.readouterr() == here
    assert here.err.startswith("error: ")


@pytest.mark.usefixtures("no_spark")
def test_a_folder_of_a_table_is_said_so(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "nothing" / "_delta_log").mkdir()
    assert main(["run", QUERY, "-e", "S=nothing", "--engine", "spark"]) == 1
    assert capfd.readouterr().err == (
        "error: nothing: is a table of Delta, and not all files in it are part of the table; read "
        "it with Spark, and pass the DataFrame\n"
    )


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", ["run", "explain"])
def test_spark_that_is_not_installed_is_said_so(command: str, capfd: Capture) -> None:
    assert main([command, QUERY, "-e", "S=s.csv", "--engine", "spark"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: Spark is not installed")
    assert "help: pip install 'cernis[spark]'" in err


def test_explaining_needs_events_on_spark(capfd: Capture) -> None:
    assert main(["explain", QUERY, "--engine", "spark"]) == 2
    assert "name a file of events" in capfd.readouterr().err


def test_the_automaton_is_drawn_without_spark(capfd: Capture) -> None:
    assert main(["explain", QUERY, "--mermaid", "--engine", "spark"]) == 0
    assert "-->" in capfd.readouterr().out


def test_the_command_line_loads_spark_only_when_it_runs_there() -> None:
    code = "import cernis.cli.run_on_spark, sys; print('pyspark' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert found.stdout == "False\n"


# ----------------------------------------------------------------- failures


def failing(module: str, name: str, text: str) -> BaseException:
    """An exception as Spark's Python packages raise it."""
    return type(name, (Exception,), {"__module__": module})(text)


IN_A_WORKER = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "cernis/spark/worker.py", line 1, in recognize_rows
    raise DataError("…")
cernis.DataError: row 3, column 'ts': the time is missing
  help: set it aside
"""
IN_JAVA = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "cernis/spark/worker.py", line 1, in recognize_rows
cernis.BudgetError: the budget is spent

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
OUR_MISTAKE = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "cernis/spark/worker.py", line 1, in recognize_rows
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            failing("pyspark.errors.exceptions.captured", "PythonException", IN_A_WORKER),
            "error: row 3, column 'ts': the time is missing\n  help: set it aside\n",
        ),
        (
            failing("pyspark.errors.exceptions.connect", "SparkException", IN_JAVA),
            "error: the budget is spent\n",
        ),
        (
            failing("pyspark.errors.exceptions.captured", "PythonException", OUR_MISTAKE),
            "internal error: ZeroDivisionError: division by zero (CERNIS_DEBUG=1 shows where)\n",
        ),
        (
            failing(
                "pyspark.errors.exceptions.captured",
                "AnalysisException",
                "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\nmore",
            ),
            "error: Spark: Path does not exist: file:/x.\n",
        ),
        (
            failing(
                "py4j.protocol",
                "Py4JJavaError",
                "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: "
                "[FAILED_READ_FILE.NO_HINT] Could not read x.parquet.\n\tat org.apache",
            ),
            "error: Spark: Could not read x.parquet.\n",
        ),
        (
            failing(
                "py4j.protocol",
                "Py4JJavaError",
                "An error occurred while calling o1.parquet.\n: java.lang.OutOfMemoryError: Java",
            ),
            (
                "error: Spark is out of memory; a window (WITHIN), a LIMIT or --count would need "
                "less\n"
            ),
        ),
        (
            failing("py4j.protocol", "Py4JNetworkError", "Answer from Java side is empty"),
            "error: Spark's Java process has ended\n",
        ),
    ],
)
def test_what_fails_in_spark_is_told_in_few_lines(
    error: BaseException, message: str, capfd: Capture
) -> None:
    with pytest.raises(typer.Exit) as ended, reported():
        raise error
    assert ended.value.exit_code == 1
    assert capfd.readouterr() == ("", message)
