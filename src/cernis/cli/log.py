"""Messages on standard error: as text for people, or as JSON lines for programs that collect logs.

    {"time": "2024-01-02T10:00:00.123+00:00", "level": "note", "message": "…", …}

`level` is `error`, `warning`, `note` or `info`; the numbers of a running stream are fields of their
own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_LEVEL = re.compile(r"(error|warning|note|internal error): ")
_is_json: ContextVar[bool] = ContextVar("is_json", default=False)


@contextmanager
def log_as(form: str | None) -> Iterator[None]:
    """Let messages have a form, `text` or `json`, while the body runs."""
    before = _is_json.set(form == "json")
    try:
        yield
    finally:
        _is_json.reset(before)


def is_structured() -> bool:
    """Return whether messages are JSON lines."""
    return _is_json.get()


def write_record(text: str, **fields: Any) -> str:
    """Return a message as a line of JSON.

    >>> json.loads(write_record("note: metrics are there", rows=3))["level"]
    'note'
    """
    level = _LEVEL.match(text)
    record = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": "info" if level is None else level[1].split()[-1],
        "message": text if level is None else text[level.end() :],
        **fields,
    }
    return json.dumps(record)


def log_numbers(text: str, **fields: Any) -> None:
    """Write numbers of a running stream, where messages are JSON lines."""
    if is_structured():
        sys.stderr.write(f"{write_record(text, **fields)}\n")
        sys.stderr.flush()
