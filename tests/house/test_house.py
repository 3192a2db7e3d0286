"""The rules of the house that a program can check."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.manual.files import Module, read_modules

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"
MOST_ARGUMENTS = 8
MOST_LAYERS = 6
LANGUAGES = re.compile("[Cc]eql|[Ss]paseq|[Ss]parql|[Ss]ql|[Cc]onjunctive|[Rr]df|[Gg]raph|SQL|RDF")
THEIR_PLACES = {"languages", "automata", "engine", "testing", "generators", "rdf", "rows"}
"""Folders and files of languages, and of the sources that one language alone reads."""


def modules() -> dict[str, Module]:
    """Return the modules of the package, the benchmarks and the tools by their dotted names."""
    return read_modules(ROOT)


@cache
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


def layers() -> dict[str, list[str]]:
    """Return the longest chain of imports between the files and folders of each folder."""
    below: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, module in modules().items():
        for other in {name, *imports_of(module)}:
            parts, others = name.split("."), other.split(".")
            for i in range(2, min(len(parts), len(others))):
                if parts[:i] != others[:i]:
                    break
                below[".".join(parts[:i])][parts[i]] |= {others[i]} - {parts[i]}
    return {
        folder: max((_descend(inner, graph) for inner in graph), key=len)
        for folder, graph in below.items()
    }


def _descend(inner: str, graph: dict[str, set[str]]) -> list[str]:
    """Return the longest chain of imports that begins with a file or folder."""
    return [inner, *max((_descend(other, graph) for other in graph[inner]), key=len, default=[])]


def kernels() -> Iterator[tuple[Module, ast.FunctionDef]]:
    """Yield the functions that Numba compiles, each with its module."""
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
                names = {d.id for d in decorators if isinstance(d, ast.Name)}
                if names & {"kernel", "borrowing", "inner", "inlined", "apart"}:
                    yield module, node


def classes() -> Iterator[tuple[str, str]]:
    """Yield the name of each class at the top of a module, with the module's name."""
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, module.name


def _is_known(name: str) -> bool:
    """Return whether a dotted name is a module, or a name that a module defines."""
    known, (module, _, last) = modules(), name.rpartition(".")
    if name in known or module not in known:
        return name in known
    defined = (getattr(node, "name", None) for node in ast.walk(known[module].tree))
    return last in set(defined)


def test_no_two_files_import_each_other() -> None:
    assert circles() == []


def test_imports_inside_a_folder_form_at_most_six_layers() -> None:
    deep = {folder: chain for folder, chain in layers().items() if len(chain) > MOST_LAYERS}
    assert deep == {}


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


def test_what_no_language_owns_is_not_named_after_one() -> None:
    named = {name for name in modules() if LANGUAGES.search(name.rpartition(".")[2])}
    named |= {f"{module}.{name}" for name, module in classes() if LANGUAGES.search(name)}
    own = (name for name in named if name.startswith("cernis.") and not _has_language(name))
    assert sorted(own) == []


def _has_language(name: str) -> bool:
    """Return whether a dotted name is in a folder or a file of a language, such as `live.rdf`."""
    return any(part in THEIR_PLACES or part.startswith("rdf_") for part in name.split("."))


def test_no_module_has_the_name_of_a_builtin_or_a_standard_module() -> None:
    taken = sys.stdlib_module_names | set(dir(builtins))
    named = {module.name for module in modules().values() if module.path.stem in taken}
    # the pass that lists matches, in each runtime
    assert {name for name in named if not name.endswith(".enumerate")} == set()


def test_every_module_says_what_it_is_for() -> None:
    assert [module.name for module in modules().values() if not module.summary] == []


def test_the_architecture_names_only_files_that_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ARCHITECTURE, GLOSSARY))
    paths = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.[a-z]+)?)`", text))
    places = (ROOT, ROOT / "src" / "cernis")
    assert {path for path in paths if not any((at / path).exists() for at in places)} == set()
    names = set(re.findall(r"`(cernis(?:\.[a-z_]+)+)", text))
    assert {name for name in names if not _is_known(name)} == set()
