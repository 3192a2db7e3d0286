"""`cernis test --engine spark`: the files of expectations that hold on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cernis.cli.test import run_on_spark
from cernis.workbench.check_case import check_case
from cernis.workbench.expectations import read_file

EVERYWHERE = Path(__file__).parents[1] / "workbench" / "everywhere"


@pytest.mark.parametrize("path", sorted(EVERYWHERE.iterdir()), ids=lambda path: path.name)
def test_cases_with_odd_streams_hold_on_spark(spark: Any, path: Path) -> None:
    file = read_file(path)
    for case in file.cases:
        assert check_case(file, case, run_on_spark).lines == ()
