"""`cernis warm`: compiled code for every class of query, ahead of the first."""

from __future__ import annotations

import pytest

from cernis.cli import warm
from cernis.cli.main import main


def test_a_query_of_each_class_is_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "list_classes", lambda: ["sequences", "equal values"])
    assert main(["warm", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == ["compiled: sequences", "compiled: equal values"]


@pytest.mark.parametrize("name", warm.list_classes())
def test_the_query_of_a_class_runs(name: str) -> None:
    warm.compile_class(name)
