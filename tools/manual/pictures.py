"""Pictures of the manual, drawn by the package: the README's first example, and its automaton."""

from __future__ import annotations

import doctest
import re
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_FIRST_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDTH = 780


def draw_pictures(root: Path) -> dict[str, str]:
    """Return the pictures by their names: the timeline of the matches, the automaton."""
    names = _run_first_example((root / "README.md").read_text(encoding="utf-8"))
    return {
        "timeline.svg": f"{names['matches'].timeline().svg(_WIDTH)}\n",
        "automaton.svg": f"{names['guessed'].explain().automaton().svg()}\n",
    }


def _run_first_example(page: str) -> dict[str, Any]:
    """Run the first Python block of a page, without what it prints; return its names.

    Files that the page shows before it are in the folder in which it runs.
    """
    found = _FIRST_BLOCK.search(page)
    assert found is not None
    names: dict[str, Any] = {}
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
        for file, text in _FILE.findall(page[: found.start()]):
            Path(file).write_text(text, encoding="utf-8")
        for example in doctest.DocTestParser().get_examples(found[1]):
            exec(example.source, names)
    return names
