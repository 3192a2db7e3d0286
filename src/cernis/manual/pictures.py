"""Pictures of the manual, drawn by the package: the timeline of the README's first example."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

_FIRST_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDTH = 780


def draw_front_picture(root: Path) -> str:
    """Run the first example of the README, and return the timeline of its matches."""
    found = _FIRST_BLOCK.search((root / "README.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(found[1] if found else ""):
        if not example.source.startswith("print"):
            exec(example.source, names)
    return f"{names['matches'].timeline().svg(_WIDTH)}\n"
