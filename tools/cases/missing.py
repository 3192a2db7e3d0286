"""Tests whose browser, broker or Node is missing: they fail, unless a person leaves them out.

`CERNIS_WITHOUT=browser,kafka,node make test` leaves out the tests that need these. A skip that
nobody asked for hides a test that never runs.
"""

from __future__ import annotations

import os
from typing import Literal, NoReturn

import pytest

PARTS = ("browser", "kafka", "node")


def report_missing(part: Literal["browser", "kafka", "node"], reason: str) -> NoReturn:
    """Fail, or skip if `CERNIS_WITHOUT` names this part."""
    if part in os.environ.get("CERNIS_WITHOUT", "").split(","):
        pytest.skip(reason, allow_module_level=True)
    pytest.fail(f"{reason}; CERNIS_WITHOUT={part} leaves these tests out", pytrace=False)
