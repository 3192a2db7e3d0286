"""A plugin of pytest that collects files of expectations (`*.test.yaml`): each case is a test.

pytest loads it by its entry point in every run, so it imports Cernis when it meets such a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cernis.workbench.expectations import ExpectationFile, ExpectedCase


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CollectedFile | None:
    """Collect a file whose name ends as those of expectations do."""
    if not file_path.name.endswith((".test.yaml", ".test.yml")):
        return None
    collected: CollectedFile = CollectedFile.from_parent(parent, path=file_path)
    return collected


class CollectedFile(pytest.File):
    """A file of expectations."""

    def collect(self) -> Iterator[CollectedCase]:
        from cernis.errors import CernisError
        from cernis.workbench.expectations import read_file

        try:
            file = read_file(self.path)
        except CernisError as error:
            raise self.CollectError(str(error)) from None
        for case in file.cases:
            yield CollectedCase.from_parent(self, name=case.name, file=file, case=case)


class CollectedCase(pytest.Item):
    """A case of a file of expectations."""

    def __init__(self, *, file: ExpectationFile, case: ExpectedCase, **others: Any) -> None:
        super().__init__(**others)
        self._file, self._case = file, case

    def runtest(self) -> None:
        from cernis.workbench.check_case import check_case

        outcome = check_case(self._file, self._case)
        if not outcome.ok:
            raise _CaseError("\n".join(outcome.lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the difference alone, without a traceback."""
        if isinstance(excinfo.value, _CaseError):
            return f"{self._file.path}, line {self._case.line}: {self.name}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._case.line - 1, self.name


class _CaseError(Exception):
    """A case does not hold."""
