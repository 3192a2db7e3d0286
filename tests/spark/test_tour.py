"""The tour on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from cernis.cli.main import main


def test_the_tour_shows_the_same_answers_on_spark(
    spark: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["demo", "--events", "60000", "--spark"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "The same answers." in out
