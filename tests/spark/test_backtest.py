"""`cernis backtest --engine spark` reports what it reports in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from cernis.cli.main import main
from tests.workbench.test_backtest import RULES, write_events


@pytest.mark.usefixtures("spark")
def test_the_report_on_spark_is_that_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_events(Path("S.csv"), range(30))
    Path("r.ceql").write_text(RULES)
    told = []
    for engine in ("local", "spark"):
        assert main(["backtest", "r.ceql", "-e", "S.csv", "--engine", engine]) == 0
        told.append(capfd.readouterr().out)
    assert told[0] == told[1]
    assert told[1].splitlines()[-1].startswith("the stream agrees: ")
