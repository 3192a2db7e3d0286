"""`--help` of every command says what the command requires."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from cernis.cli.main import app, main

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
QUERY = "SELECT * FROM S WHERE A"
POSITIONAL = ("QUERY", "PATH", "OLD", "NEW", "RULES")
REQUIRED = {
    "run": {"QUERY": QUERY, "--events": "s.csv"},
    "stream": {"QUERY": QUERY, "--source": "in", "--sink": "out"},
    "explain": {"QUERY": QUERY},
    "check": {"QUERY": QUERY},
    "test": {"PATH": "q.test.yaml"},
    "why": {"QUERY": QUERY, "--events": "s.csv"},
    "diff": {"OLD": QUERY, "NEW": QUERY, "--events": "s.csv"},
    "sweep": {"QUERY": QUERY, "--events": "s.csv", "--vary": "t = 1..2"},
    "label": {"QUERY": QUERY, "--events": "s.csv", "--out": "l.jsonl"},
    "backtest": {"RULES": QUERY, "--events": "s.csv"},
    "demo": {},
    "warm": {},
    "serve": {},
    "bench": {},
}


def find(command: str, name: str) -> Any:
    for parameter in COMMANDS[command].params:
        if name in parameter.opts or parameter.metavar == name:
            return parameter
    raise AssertionError(f"{command} has no {name}")


def test_every_command_is_looked_at() -> None:
    assert COMMANDS.keys() == REQUIRED.keys()


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command, names in REQUIRED.items() for name in names]
)
def test_help_names_what_is_required(
    command: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    parameter = find(command, name)
    assert parameter.required or "Required" in parameter.help
    given = {other: value for other, value in REQUIRED[command].items() if other != name}
    arguments = [part for pair in given.items() for part in pair if part not in POSITIONAL]
    assert main([command, *arguments]) == 2, "it is not required"
    assert name in capfd.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_sentence(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"cernis {command}" in capfd.readouterr().out
    texts = [parameter.help or "" for parameter in COMMANDS[command].params]
    assert all(text.endswith(".") for text in texts)
