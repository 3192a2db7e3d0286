"""How a command fails: a message on standard error and an exit code, never a traceback.

0 done, 1 a user's mistake, 2 wrong usage (the parser's own), and by custom 130 after
Ctrl-C and 141 when whoever read the output has gone away. With CERNIS_DEBUG=1 the
traceback is shown after all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cernis.errors import CernisError, QueryError

MISTAKE, INTERRUPTED, CLOSED_PIPE = 1, 130, 141


@contextmanager
def reported() -> Iterator[None]:
    """Turn whatever goes wrong inside into a message and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        # what is left in the buffer has nowhere to go; Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        raise _failed("error: interrupted", INTERRUPTED) from None
    except BaseException as error:
        if isinstance(error, SystemExit | GeneratorExit) or os.environ.get("CERNIS_DEBUG"):
            raise
        raise _failed(_message(error), MISTAKE) from None


def _message(error: BaseException) -> str:
    match error:
        case QueryError(diagnostics=diagnostics, source=source):
            return "\n".join(f"error: {mistake.render(source)}" for mistake in diagnostics)
        case CernisError():
            return f"error: {error}"
        case MemoryError():
            return "error: out of memory; a window (WITHIN), a LIMIT or --count would need less"
        case OSError(filename=str() | bytes() as name, strerror=str() as reason):
            return f"error: {os.fsdecode(name)}: {reason}"
        case _:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            return f"internal error: {what} (CERNIS_DEBUG=1 shows where)"


def _failed(message: str, code: int) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(code)
