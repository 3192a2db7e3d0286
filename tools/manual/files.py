"""The page that lists every source file with the first sentence of its docstring.

Folders stand in the order of the data's way through them. `tests/house` reads the same modules.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDERS = (
    "languages", "pattern", "automata", "plan", "events", "encoding", "engine", "results", "views",
    "run", "rdf", "work", "live", "spark", "serve", "workbench", "cli", "compiled", "generators",
    "testing",
)  # fmt: skip
"""The folders of the package, in the order of the data's way."""
PACKAGES = ("src/cernis", "benchmarks", "tools")
_HEAD = """\
# Every file

Each source file with the first sentence of its docstring. The folders of the package stand in the
order of the data's way; [ARCHITECTURE.md](../../ARCHITECTURE.md) follows that way. This page is
generated: `make pages` writes it.
"""


class Module(NamedTuple):
    """A source file: its dotted name, its path and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of a folder."""
        return self.path.name == "__init__.py"

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        text = re.sub(r"\s+", " ", (ast.get_docstring(self.tree) or "").split("\n\n")[0])
        return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".:")


@cache
def read_modules(root: Path) -> dict[str, Module]:
    """Return every module of a checkout by its dotted name: the package's, then those beside it."""
    found = {}
    for package in PACKAGES:
        above = (root / package).parent
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(above).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def write_files_page(root: Path) -> str:
    """Return the page: a heading for each folder, a line for each module."""
    known = read_modules(root)
    lines = [_HEAD]
    packages = [module for module in known.values() if module.is_package]
    for folder in sorted(packages, key=lambda module: _rank(module.name)):
        path = folder.path.parent.relative_to(root)
        inside = [m for m in known.values() if m.path.parent == folder.path.parent and m != folder]
        lines += [f"## `{path}/`", "", f"{folder.summary}.", ""]
        lines += [f"- `{module.path.name}`: {module.summary}" for module in inside]
        lines += [""] if inside else []
    return "\n".join(lines)


def _rank(name: str) -> tuple[int, int, str]:
    """Return the rank of a package in the order of the page."""
    top, folder = [*name.split("."), ""][:2]
    is_inside = top == "cernis" and folder
    return (top != "cernis", FOLDERS.index(folder) + 1 if is_inside else 0, name)
