"""The tour, which ends on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from cernis.cli.main import main


def test_the_tour_shows_its_queries_with_matches_and_speed_and_the_same_on_spark(
    spark: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["demo", "--events", "20000"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.count("SELECT") == 5
    assert out.count("million events per second") == 4
    assert out.count("●") >= 8
    assert "\n0 matches" not in out
    assert "keyed: by a hash of name" in out
    assert "The same answers." in out
