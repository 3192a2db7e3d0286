"""The tour."""

from __future__ import annotations

import re

import pytest

from cernis.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_tour_has_three_acts(capfd: Capture) -> None:
    assert main(["demo", "--events", "60000"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    for title in ("I. The question", "II. The answer", "III. What it would have cost elsewhere"):
        assert title in out
    assert out.count("SELECT") == 1
    assert "●" in out
    assert "plan" not in out
    assert "state" not in out


def test_what_the_tour_says_of_an_account_is_what_it_shows(capfd: Capture) -> None:
    assert main(["demo", "--events", "60000"]) == 0
    out, _ = capfd.readouterr()
    found = re.search(r"What happened to (user\d+)", out)
    assert found is not None
    user = found[1]
    row = next(line for line in out.splitlines() if user in line and "What" not in line)
    failures = int(row.split()[row.split().index(user) + 1])
    assert failures >= 5
    events = [line.split()[:2] for line in out.splitlines() if user in line]
    assert events.count(["f", "FAIL"]) == failures
    assert events.count(["ok", "OK"]) == 1


def test_the_plan_is_shown_if_asked_for(capfd: Capture) -> None:
    assert main(["demo", "--events", "60000", "--plan"]) == 0
    out, _ = capfd.readouterr()
    assert "unary: every condition looks at one event at a time" in out
