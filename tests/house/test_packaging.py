"""What a user needs to install Cernis is there, and the pages say it as it is."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_install_lines_work_with_this_directory_alone(page: Path) -> None:
    """A package that is not published cannot be installed by its name."""
    text = page.read_text(encoding="utf-8").partition("Once it is published")[0]
    if page.is_relative_to(ROOT / "docs" / "reference"):  # messages are quoted as they are
        text = re.sub(r"^(\| `.*|cernis\.\w+: .*)$", "", text, flags=re.MULTILINE)
    assert re.findall(r"pip install '?cernis", text) == []


def test_the_image_copies_files_that_are_there() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert copied == ["pyproject.toml", "requirements-dev.lock", "README.md", "LICENSE", "src"]
    shown = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name in copied:
        assert (ROOT / name).exists()
        assert any(fnmatch(name, line[1:]) for line in shown if line.startswith("!"))
    assert lines[-1] == 'CMD ["cernis", "demo"]'
