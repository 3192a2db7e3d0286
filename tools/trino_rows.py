"""Run statements on a Trino server: `run_on_trino(url, statement, rows)`.

A statement is over the table `t (g, t, x)`. Trino's protocol is HTTP with JSON, so nothing is
installed here. `CONTRIBUTING.md` says how a server of one process is started.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.request import Request, urlopen

_HEADERS = {"X-Trino-User": "cernis", "X-Trino-Catalog": "memory", "X-Trino-Schema": "default"}


class TrinoError(Exception):
    """What Trino says of a statement."""


def run_on_trino(url: str, statement: str, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return the rows of a statement."""
    values = ", ".join(
        f"('{row['g']}', BIGINT '{row['t']}', "
        f"{'CAST(NULL AS BIGINT)' if row['x'] is None else row['x']})"
        for row in rows
    )
    text = f"WITH t (g, t, x) AS (VALUES {values}) {statement}"
    request = Request(f"{url}/v1/statement", text.encode(), _HEADERS, method="POST")
    found: list[list[Any]] = []
    while True:
        with urlopen(request) as answer:
            told = json.load(answer)
        if "error" in told:
            raise TrinoError(told["error"]["message"])
        found += told.get("data", [])
        if "nextUri" not in told:
            return found
        request = Request(told["nextUri"], headers=_HEADERS)
