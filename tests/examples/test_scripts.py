"""The folders of examples/: scripts that run, find something and look alike.

Those on Spark are run by `tests/spark/test_example_scripts.py`.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import cernis

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/query.ceql"))
PUBLIC = {"cernis", "cernis.generators"}


def without_own_words(script: Path) -> list[str]:
    """Return the lines of a script, without the title, the generator and its call."""
    lines = script.read_text().splitlines()[1:]
    own = re.compile(r"^from cernis\.generators import|^events = ")
    return [line for line in lines if not own.match(line)]


def test_there_are_eight_domains() -> None:
    assert len(FOLDERS) == 8


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_embedded_script_finds_matches(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = runpy.run_path(str(folder / "embedded.py"))
    assert 0 < names["matches"].count() < 10_000
    assert not names["matches"].notes
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == repr(names["matches"])
    assert len(shown) == 6


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_page_shows_the_query_of_the_file(folder: Path) -> None:
    (shown,) = re.findall(r"^```ceql\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S)
    text = (folder / "query.ceql").read_text()
    assert shown == text
    assert cernis.query(text).warnings == ()


@pytest.mark.parametrize("name", ["embedded.py", "on_spark.py", "streaming.py"])
def test_twins_differ_in_their_data_alone(name: str) -> None:
    assert len({tuple(without_own_words(folder / name)) for folder in FOLDERS}) == 1


def test_scripts_import_public_modules_only() -> None:
    text = "".join(path.read_text() for path in EXAMPLES.glob("*/*.py"))
    assert set(re.findall(r"^(?:from|import) (cernis[\w.]*)", text, re.MULTILINE)) == PUBLIC
