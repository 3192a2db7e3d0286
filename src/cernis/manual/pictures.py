"""Pictures of the manual, drawn by the package: the README's first example, and its automaton."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

_FIRST_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDTH = 780


def draw_pictures(root: Path) -> dict[str, str]:
    """Return the pictures by their names: the timeline of the matches, the automaton."""
    names = _run_first_example((root / "README.md").read_text(encoding="utf-8"))
    return {
        "timeline.svg": f"{names['matches'].timeline().svg(_WIDTH)}\n",
        "automaton.svg": f"{names['guessed'].explain().automaton().svg()}\n",
    }


def _run_first_example(page: str) -> dict[str, Any]:
    """Run the first Python block of a page, without what it prints; return its names."""
    found = _FIRST_BLOCK.search(page)
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(found[1] if found else ""):
        if not example.source.startswith("print"):
            exec(example.source, names)
    return names
