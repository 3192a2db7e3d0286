"""Turn failures into a message on standard error and an exit code, without a traceback.

0 done, 1 a user's mistake, 2 wrong usage (the parser's own), and by custom 130 after Ctrl-C, 143
and 129 after SIGTERM and SIGHUP, and 141 when the reader of the output has closed it.
CERNIS_DEBUG=1 shows the traceback. A signal ends a command as an error does: unfinished files are
deleted.

Failures inside of Spark come as text, with the tracebacks of a worker and of Java. The module
of its class tells an exception of Spark's, so that Spark need not be imported.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from cernis.cli.arguments import find_file
from cernis.cli.log import is_structured, write_record
from cernis.errors import CernisError, MemoryShortage, QueryError, StrictError, write_message

MISTAKE, INTERRUPTED, CLOSED_PIPE = 1, 130, 141

_LESS = "a window (WITHIN), a LIMIT or --count would need less"

_OURS = re.compile(r"^cernis\.\w+Error: (.*?)(?=\n\s*\n|\n\s+at |\Z)", re.DOTALL | re.MULTILINE)
_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)
_CODE = re.compile(r"^(?:[\w.$]+(?:Error|Exception): )?(?:\[[A-Z_0-9.]+\] )?")


@contextmanager
def reported() -> Iterator[None]:
    """Turn any failure of the body into a message and an exit code."""
    _keep_logs_quiet()
    try:
        with _end_by_signal():
            yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        _drop_output()
        raise typer.Exit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        raise _failed("error: interrupted", INTERRUPTED) from None
    except _Ended as end:
        raise _failed(f"error: ended by {end.signal.name}", 128 + end.signal) from None
    except BaseException as error:
        if isinstance(error, SystemExit | GeneratorExit) or os.environ.get("CERNIS_DEBUG"):
            raise
        raise _failed(_message(error), MISTAKE) from None


class _Ended(BaseException):
    """A signal has asked the command to end."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)


@contextmanager
def _end_by_signal() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise an exception, where they would end the process at once."""

    def end(number: int, frame: object) -> None:
        raise _Ended(number)

    wanted = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    if threading.current_thread() is not threading.main_thread():
        wanted = []  # only the main thread receives signals
    changed = [n for n in wanted if n is not None and signal.getsignal(n) is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def _keep_logs_quiet() -> None:
    """Let Python not print what libraries log: Py4J logs a traceback for each call Ctrl-C ends."""
    root = logging.getLogger()
    if not root.handlers and not os.environ.get("CERNIS_DEBUG"):
        root.addHandler(logging.NullHandler())


def _drop_output() -> None:
    """Send the rest of standard output nowhere: Python would complain at exit."""
    with suppress(OSError, ValueError):  # there may be no such file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: BaseException) -> str:
    match error:
        case QueryError(diagnostics=diagnostics, source=source):
            file = find_file(source)
            return "\n".join(
                f"error: {'' if file is None else file + (', ' if each.span else ': ')}"
                f"{each.render(source)}"
                for each in diagnostics
            )
        case StrictError(warnings=warnings):
            return "\n".join(f"error: {warning}" for warning in warnings)
        case CernisError():
            return f"error: {error}"
        case MemoryShortage():
            return f"error: out of memory: {error}; {_LESS}"
        case MemoryError():
            return f"error: out of memory; {_LESS}"
        case _ if (said := describe_spark_failure(error)) is not None:
            return said
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO, filename=None):
            _drop_output()
            return f"error: the output, or a temporary file, cannot be written: {error.strerror}"
        case OSError(filename=str() | bytes() as name, strerror=str() as reason):
            return f"error: {os.fsdecode(name)}: {reason}"
        case _:
            return _internal(f"{type(error).__name__}: {error}")


def _internal(what: str) -> str:
    return f"internal error: {' '.join(what.split())} (CERNIS_DEBUG=1 shows where)"


def describe_spark_failure(error: BaseException) -> str | None:
    """Return the message of a failure inside of Spark; None: it is no such failure."""
    is_of_spark = type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
    return _from_spark(error) if is_of_spark else None


def _from_spark(error: BaseException) -> str:
    text = str(error)
    if ours := _OURS.findall(text):
        return f"error: {ours[-1].rstrip()}"
    if "java.lang.OutOfMemoryError" in text or "MemoryError" in text:
        return f"error: Spark is out of memory; {_LESS}"
    if "No space left on device" in text:
        return "error: Spark cannot write its temporary files: No space left on device"
    if "Traceback (most recent call last)" in text:  # of a worker: a mistake in Cernis
        raised = _RAISED.findall(text)
        if raised and raised[-1].startswith("ModuleNotFoundError"):
            return (
                f"error: a worker's Python lacks what Cernis needs ({raised[-1]}); "
                "PYSPARK_PYTHON names the Python that workers run"
            )
        return _internal(raised[-1] if raised else text)
    if type(error).__name__ == "Py4JNetworkError":
        return "error: Spark's Java process has ended"
    lines = [line for line in text.splitlines() if not line.startswith("An error occurred")]
    first = _CODE.sub("", (lines or [text])[0].removeprefix(": "))
    return f"error: Spark: {first.partition(' SQLSTATE:')[0]}"


def _failed(message: str, code: int) -> typer.Exit:
    typer.echo(write_message(write_record(message) if is_structured() else message), err=True)
    return typer.Exit(code)
