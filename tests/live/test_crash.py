"""A live run that is killed goes on: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os

import pytest

from tests.live.crash import KINDS, crash


@pytest.mark.parametrize("kind", KINDS)
def test_kills_lose_and_double_nothing(kind: str) -> None:
    seed = int(os.environ.get("CERNIS_SEED", "0"))
    matches, lost, doubled = crash(kind, kills=2, events=2000, seed=seed)
    assert (lost, doubled) == (0, 0)
    assert matches > 100
