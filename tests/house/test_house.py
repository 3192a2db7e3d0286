"""The rules of the house that a program can check, and the list of files in ARCHITECTURE.md.

Run as a program, this writes that list anew (`make architecture`).
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
# the way of the data
FOLDERS = (
    "languages", "pattern", "automata", "plan", "events", "encoding", "engine", "results", "views",
    "run", "rdf", "spark", "serve", "cli", "compiled", "generators", "bench", "testing", "manual",
)  # fmt: skip
MOST_ARGUMENTS = 8
BEGIN, END = "<!-- files: written by make architecture -->", "<!-- end of files -->"


class Module(NamedTuple):
    """A source file: its dotted name, its path and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        text = re.sub(r"\s+", " ", (ast.get_docstring(self.tree) or "").split("\n\n")[0])
        return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".:")


@cache
def modules() -> dict[str, Module]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in sorted((SOURCE / "cernis").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def imports_of(module: Module) -> set[str]:
    """Return the modules of the package that a module imports, anywhere in its text."""
    known = modules()
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & known.keys()) - {module.name}


def circles() -> list[list[str]]:
    """Return the groups of modules that import each other, however indirectly (Tarjan)."""
    graph = {name: imports_of(module) for name, module in modules().items()}
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            if len(stack) > at + 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in order:
            visit(name)
    return found


def kernels() -> Iterator[tuple[Module, ast.FunctionDef]]:
    """Yield the functions that Numba compiles, each with its module."""
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
                names = {d.id for d in decorators if isinstance(d, ast.Name)}
                if names & {"kernel", "borrowing", "inner", "inlined"}:
                    yield module, node


def classes() -> Iterator[tuple[str, str]]:
    """Yield the name of each class at the top of a module, with the module's name."""
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, module.name


def _place(name: str) -> tuple[int, str]:
    """Return where a folder stands on the way of the data."""
    top = [*name.split("."), ""][1]
    return (FOLDERS.index(top) + 1 if top else 0, name)


def _is_known(name: str) -> bool:
    """Return whether a dotted name is a module, or a name that a module defines."""
    known, (module, _, last) = modules(), name.rpartition(".")
    if name in known or module not in known:
        return name in known
    defined = (getattr(node, "name", None) for node in ast.walk(known[module].tree))
    return last in set(defined)


def file_list() -> str:
    """Return the list of files: a heading for each folder, a line for each module."""
    known = modules()
    lines: list[str] = []
    packages = [module for module in known.values() if module.is_package]
    for folder in sorted(packages, key=lambda module: _place(module.name)):
        path = folder.path.parent.relative_to(SOURCE)
        inside = [m for m in known.values() if m.path.parent == folder.path.parent and m != folder]
        lines += [f"### `{path}/`", "", f"{folder.summary}.", ""]
        lines += [f"- `{module.path.name}`: {module.summary}" for module in inside]
        lines += [""] if inside else []
    return "\n".join(lines)


def with_file_list(text: str) -> str:
    """Return the text of ARCHITECTURE.md with the list of files as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{file_list()}\n{END}{after}"


def test_no_two_files_import_each_other() -> None:
    assert circles() == []


def test_a_kernel_takes_at_most_eight_arguments() -> None:
    long = [
        f"{module.name}.{kernel.name}: {len(kernel.args.args)}"
        for module, kernel in kernels()
        if len(kernel.args.args) > MOST_ARGUMENTS
    ]
    assert long == []


def test_a_noun_names_one_class() -> None:
    where = defaultdict(list)
    for name, module in classes():
        where[name.lstrip("_")].append(module)
    assert {name: modules for name, modules in where.items() if len(modules) > 1} == {}


def test_no_module_has_the_name_of_a_builtin_or_a_standard_module() -> None:
    taken = sys.stdlib_module_names | set(dir(builtins))
    named = {module.name for module in modules().values() if module.path.stem in taken}
    # the pass that lists matches, in each runtime
    assert {name for name in named if not name.endswith(".enumerate")} == set()


def test_every_module_says_what_it_is_for() -> None:
    assert [module.name for module in modules().values() if not module.summary] == []


def test_the_architecture_lists_every_file_once_as_it_is() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert with_file_list(text) == text, "run: make architecture"


def test_the_architecture_names_only_files_that_exist() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8").partition(BEGIN)[0]
    paths = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.[a-z]+)?)`", text))
    places = (ROOT, SOURCE / "cernis")
    assert {path for path in paths if not any((at / path).exists() for at in places)} == set()
    names = set(re.findall(r"`(cernis(?:\.[a-z_]+)+)", text))
    assert {name for name in names if not _is_known(name)} == set()


if __name__ == "__main__":
    ARCHITECTURE.write_text(with_file_list(ARCHITECTURE.read_text("utf-8")), "utf-8")
