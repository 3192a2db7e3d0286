"""Pages of the repository as the sources of the site: other paths, names of files, navigation.

README.md is the first page, `docs/how-to/x.md` is `how-to/x`, ARCHITECTURE.md and its like are in
`project/`. The page `index.md` of a folder is its table of contents: the navigation has the pages
of the folder in the order in which it links to them.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, relpath
from shutil import copyfile

from tools.manual.pages import PROJECT_PAGES, Pages, find_links, list_linked

FOLDERS = ("tutorials", "how-to", "reference", "explanation", "benchmarks")
"""The folders of docs/, in the order of the navigation."""
NESTED = ("reference/codes",)
"""Folders of docs/ inside of these that have contents of their own."""

_LEXERS = {"csv": "text", "mermaid": "text", "trig": "turtle"}
"""Languages of blocks that Pygments does not know, and what is nearest."""
_NAMED_BLOCK = re.compile(r"^<!-- file: (\S+) -->\n```(\w*)\n", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)$", re.MULTILINE)
_SESSION_END = re.compile(r"(^```python\n(?:(?!^```).)*?)\n+```$", re.MULTILINE | re.DOTALL)
"""A Python block; doctests end with an empty line, which readers need not see."""


def write_sources(root: Path, pages: Pages, target: Path) -> None:
    """Write the sources of the site, with the files that the pages link to."""
    for page, text in pages.items():
        written = _move_links(root, pages, page, text)
        written = _name_blocks(written) + _write_navigation(pages, page)
        place = target / place_of(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(written, encoding="utf-8")
    for path in {link.path for page, text in pages.items() for link in find_links(page, text)}:
        if path not in pages and (root / path).is_file():
            place = target / place_of(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            copyfile(root / path, place)


def place_of(path: str) -> str:
    """Return where a file of the repository stands among the sources of the site.

    >>> [place_of(path) for path in ("README.md", "docs/how-to/x.md", "SECURITY.md")]
    ['index.md', 'how-to/x.md', 'project/security.md']
    """
    if path == "README.md":
        return "index.md"
    if path in PROJECT_PAGES:
        return f"project/{path.lower()}"
    if path.startswith("examples/"):
        return re.sub(r"README\.md$", "index.md", path)
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"


def _move_links(root: Path, pages: Pages, page: str, text: str) -> str:
    parts, done = [], 0
    for link in find_links(page, text):
        path = link.path
        if (root / path).is_dir():
            path = next(one for one in (f"{path}/README.md", f"{path}/index.md") if one in pages)
        moved = relpath(place_of(path), dirname(place_of(page)) or ".")
        parts += [text[done : link.start], moved, f"#{link.anchor}" if link.anchor else ""]
        done = link.end
    return "".join([*parts, text[done:]])


def _name_blocks(text: str) -> str:
    """Return the text with the names of files above their blocks, and lexers that are known."""
    text = _SESSION_END.sub(r"\1\n```", text)
    named = _NAMED_BLOCK.sub(r"```{code-block} \2\n:caption: \1\n\n", text)
    named = named.replace("```{code-block} \n", "```{code-block} text\n")
    for language, nearest in _LEXERS.items():
        named = named.replace(f"```{{code-block}} {language}\n", f"```{{code-block}} {nearest}\n")
    return _BLOCK.sub(lambda found: f"```{_LEXERS.get(found[1], found[1])}", named)


def _write_navigation(pages: Pages, page: str) -> str:
    folder = dirname(page)
    if page == "README.md":
        contents = [*(f"docs/{name}/index.md" for name in FOLDERS), "examples/README.md"]
        return _write_toctree("", contents) + _write_toctree("Project", list(PROJECT_PAGES))
    if (
        page in (f"docs/{name}/index.md" for name in (*FOLDERS, *NESTED))
        or page == "examples/README.md"
    ):
        here = dirname(place_of(page))
        names = [relpath(place_of(one), here) for one in list_linked(page, pages[page], folder)]
        return _write_toctree("", names, moved=True)
    return ""


def _write_toctree(caption: str, paths: list[str], moved: bool = False) -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    names = paths if moved else [place_of(path) for path in paths]
    return "\n".join(["", "```{toctree}", *options, "", *names, "```", ""])
