"""Whatever goes wrong: a message, an exit code, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from cernis.cli.failure import reported
from cernis.errors import CernisError, Diagnostic, QueryError, Span


def failing_with(error: BaseException) -> int:
    with pytest.raises(typer.Exit) as caught, reported():
        raise error
    return int(caught.value.exit_code)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CernisError("no such thing"), "error: no such thing\n"),
        (
            MemoryError(),
            "error: out of memory; a window (WITHIN), a LIMIT or --count would need less\n",
        ),
        (
            FileNotFoundError(2, "No such file or directory", "x.csv"),
            "error: x.csv: No such file or directory\n",
        ),
        (
            ZeroDivisionError("by\nzero"),
            "internal error: ZeroDivisionError: by zero (CERNIS_DEBUG=1 shows where)\n",
        ),
        (RecursionError(), "internal error: RecursionError: (CERNIS_DEBUG=1 shows where)\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_message_and_exit_code_1(
    error: BaseException,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    assert failing_with(error) == 1
    assert capsys.readouterr() == ("", message)


def test_every_mistake_in_a_query_shows_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    mistakes = [Diagnostic("odd", Span(2, 4)), Diagnostic("strange", Span(5, 6))]
    assert failing_with(QueryError(mistakes, "A ;; B")) == 1
    assert capsys.readouterr().err == (
        "error: line 1, column 3: odd\n  A ;; B\n    ^^\n"
        "error: line 1, column 6: strange\n  A ;; B\n       ^\n"
    )


def test_an_interrupt_is_exit_code_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing_with(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERNIS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError), reported():
        os.getpid() / 0


def test_usage_errors_are_left_to_the_parser() -> None:
    with pytest.raises(typer.BadParameter), reported():
        raise typer.BadParameter("x")


@pytest.mark.parametrize("debug", ["", "1"])
def test_what_libraries_log_is_printed_for_debugging_alone(debug: str) -> None:
    logging = "import logging; from cernis.cli.failure import reported\nwith reported():\n"
    told = subprocess.run(
        [sys.executable, "-c", f"{logging} logging.error('Exception while sending command.')"],
        env={**os.environ, "CERNIS_DEBUG": debug},
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert ("Exception while sending command." in told) == bool(debug)
