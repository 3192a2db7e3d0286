"""Every example in README.md and docs/ is run, and says what the page says it says.

* ```python blocks are run in order, in one namespace for each page: as doctests where
  they have a prompt, as a program where they have none.
* ```console blocks: each line `$ cernis …` or `$ cat FILE | cernis …` is run; the lines below it
  are its output.
* a block under the comment `<!-- file: NAME -->` is written to that file first.

* the ```python blocks of each page type-check as one program (`mypy --strict`).

Each page has an empty directory of its own. `...` in an output stands for anything.
Pages with examples on Spark share one small session, which those examples find running.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cernis.cli.main import main
from cernis.spark.local.session import local_session

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SMALL = {"spark.sql.shuffle.partitions": "4"}

_BLOCK = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SPARK = re.compile(
    r"cernis\.spark\.session|--engine spark|cernis stream(?!.*--engine local)(?=.*--)"
)


class Block(NamedTuple):
    language: str
    file: str | None
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(page):
        line = page.count("\n", 0, found.start("text"))
        yield Block(found["language"], found["file"], found["text"], line)


def commands(text: str) -> Iterator[tuple[str | None, list[str], str]]:
    """(piped file, arguments, expected output) of each command; a backslash continues the line."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", "").partition("\n")
        match shlex.split(command):
            case ["cernis", *words]:
                yield None, words, output
            case ["cat", file, "|", "cernis", *words]:
                yield file, words, output


@contextmanager
def piped(file: str | None) -> Iterator[None]:
    """Let a file be standard input."""
    if file is None:
        yield
        return
    before = os.dup(0)
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        os.dup2(cat.stdout.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


def run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    if ">>> " not in block.text:
        code = compile("\n" * block.line + block.text, str(page), "exec")
        exec(code, names)
        return
    test = doctest.DocTestParser().get_doctest(
        block.text, names, f"{page.name}, line {block.line}", str(page), block.line
    )
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


def run_console(block: Block, page: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for file, arguments, expected in commands(block.text):
        capfd.readouterr()
        with piped(file):
            main(arguments)
        captured = capfd.readouterr()
        found = captured.out + captured.err
        checker = doctest.OutputChecker()
        assert checker.check_output(expected, found, FLAGS), (
            f"{page.name}, line {block.line}: cernis {shlex.join(arguments)}\n"
            f"expected:\n{expected}\nfound:\n{found}"
        )


def asks_for_spark(page: Path) -> bool:
    """Whether some example on the page runs on Spark."""
    return any(
        block.language in ("python", "console") and _SPARK.search(block.text)
        for block in blocks(page.read_text(encoding="utf-8"))
    )


def name_of(page: Path) -> str:
    return f"{page.relative_to(ROOT)}{', on Spark' if asks_for_spark(page) else ''}"


def test_the_first_example_of_the_readme_needs_no_extra(tmp_path: Path) -> None:
    for block in blocks(PAGES[0].read_text(encoding="utf-8")):
        if block.language == "python":
            break
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    code = """if True:
        import doctest, sys
        class NoExtras:
            def find_spec(self, name, path, target=None):
                if name in ("pandas", "polars", "altair"):
                    raise ModuleNotFoundError(name, name=name)
        sys.meta_path.insert(0, NoExtras())
        sys.exit(doctest.testfile(sys.argv[1], module_relative=False).failed)
    """
    (tmp_path / "example.txt").write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", code, "example.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_example_on_the_page_holds(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if asks_for_spark(page):
        local_session(2, memory="1g", conf=SMALL)  # ends with this process
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            run_python(block, page, names)
        elif block.language == "console":
            run_console(block, page, capfd)


# pages use a name for one thing after the other, and their functions need no annotations
_LENIENT = "# mypy: allow-redefinition, allow-untyped-defs, allow-untyped-calls"


def program(page: Path) -> str:
    """Return the Python code of a page, on the lines where it stands; the first is its title."""
    text = page.read_text(encoding="utf-8")
    lines = [_LENIENT, *[""] * text.count("\n")]
    for block in blocks(text):
        if block.language != "python" or block.file is not None:
            continue
        parts = [(block.line, block.text)]
        if ">>> " in block.text:
            examples = doctest.DocTestParser().get_examples(block.text)
            parts = [(block.line + e.lineno, e.source) for e in examples if e.exc_msg is None]
        for line, code in parts:
            source = code.splitlines()
            lines[line : line + len(source)] = source
    return "\n".join(lines)


def test_every_example_type_checks(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    files = []
    for page in PAGES:
        name = "_".join(page.relative_to(ROOT).with_suffix(".py").parts).replace("-", "_")
        files.append(tmp_path / name)
        files[-1].write_text(program(page), encoding="utf-8")
    options = ["--config-file", "pyproject.toml", "--strict", "--no-error-summary"]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert found.stdout + found.stderr == ""
