"""The same statements on Trino and here return the same rows.

`CERNIS_TRINO` is the address of a Trino server; without it the test is skipped. The statements are
the random ones of `tools/cases`, with the rows that the oracle says they return. Trino has no
WITHIN. Two differences are left out: its RUNNING FIRST sees rows after the current one, and its
matcher has an error of its own on some alternatives that may be empty.
"""

from __future__ import annotations

import os
import re

import pytest

from tools.cases.row_patterns import draw_case
from tools.trino_rows import TrinoError, run_on_trino

TRINO = os.environ.get("CERNIS_TRINO", "")
CASES = int(os.environ.get("CERNIS_TRINO_CASES", "40"))
LEFT_OUT = re.compile(r"\) WITHIN|(?:MEASURES|,) FIRST\([AU].*ALL ROWS")
OWN_ERROR = "matched labels for compared threads differ in length"


@pytest.mark.skipif(not TRINO, reason="CERNIS_TRINO is the address of a Trino server")
def test_trino_returns_the_same_rows() -> None:
    compared = 0
    for seed in range(4 * CASES):
        case = draw_case(seed, dependent=bool(seed % 2))
        text = case.statement
        if LEFT_OUT.search(text):
            continue
        text = text if "DEFINE" in text else f"{text[:-1]} DEFINE A AS true)"
        found: list[list[object]] | None = None
        told = "AFTER MATCH SKIP"
        try:
            found = run_on_trino(TRINO, text, case.rows)
        except TrinoError as error:
            told = str(error)
        if OWN_ERROR in told:
            continue
        expected = case.expected and sorted(map(list, case.expected), key=repr)
        assert "AFTER MATCH SKIP" in told, (text, told)
        assert (None if found is None else sorted(found, key=repr)) == expected, text
        compared += 1
    assert compared >= CASES
