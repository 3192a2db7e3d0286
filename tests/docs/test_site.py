"""The site: links lead somewhere, the navigation is whole, nothing comes from outside."""

from __future__ import annotations

import json
import re
import socket
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from cernis.errors import CernisError
from tools.manual.__main__ import main
from tools.manual.build import build_site, is_sphinx_installed, write_versions_page
from tools.manual.pages import find_broken_links, list_linked, read_pages
from tools.manual.sources import FOLDERS, NESTED, write_sources

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)"'
)


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert find_broken_links(ROOT, read_pages(ROOT)) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    pages = {"a.md": "# A\n[x](b.md#here) [y](b.md#there) [z](c.md)", "b.md": "# Here"}
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    assert find_broken_links(tmp_path, pages) == [
        "a.md: no heading #there in b.md",
        "a.md: no file c.md",
    ]


@pytest.mark.parametrize("folder", [f"docs/{name}" for name in (*FOLDERS, *NESTED)])
def test_the_contents_of_a_folder_have_all_its_pages(folder: str) -> None:
    pages = read_pages(ROOT)
    index = f"{folder}/index.md"
    inside = {page for page in pages if page.startswith(f"{folder}/") and page != index}
    for nested in (f"docs/{name}/" for name in NESTED if f"docs/{name}" != folder):
        inside = {p for p in inside if not p.startswith(nested) or p == f"{nested}index.md"}
    assert set(list_linked(index, pages[index], folder)) == inside


def test_files_are_named_above_their_blocks(tmp_path: Path) -> None:
    page = "# A\n\n<!-- file: x.csv -->\n```csv\ntype\n```\n\n```python\n>>> 1\n1\n\n```\n"
    write_sources(ROOT, {"docs/how-to/a.md": page}, tmp_path)
    assert (tmp_path / "how-to" / "a.md").read_text() == (
        "# A\n\n```{code-block} text\n:caption: x.csv\n\ntype\n```\n\n```python\n>>> 1\n1\n```\n"
    )


def test_versions_are_listed_from_the_newest(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.2.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").touch()
    page = write_versions_page(tmp_path)
    assert re.findall(r'href="([^"]+)/index.html"', page) == ["0.10.0", "0.9.0", "0.2.0"]


def find_dead_links(pages: list[Path]) -> list[str]:
    """Return the links inside of a site that lead to no file, or to no place in a page."""
    texts = {page.resolve(): page.read_text("utf-8") for page in pages}
    ids = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    dead = []
    for page, text in texts.items():
        for target in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text):
            path, _, anchor = unquote(unescape(target)).partition("#")
            place = (page.parent / path).resolve() if path else page
            leads = place.is_file() and anchor in ("", *ids.get(place, ()))
            if not leads and not re.match(r"\w+:", target):
                dead.append(f"{page.name}: {target}")
    return dead


def test_dead_links_of_a_site_are_found(tmp_path: Path) -> None:
    links = ("b.html", "b.html#c", "b.html#d", "e.html", "#f", "https://example.org/")
    (tmp_path / "a.html").write_text("".join(f'<a href="{link}">x</a>' for link in links))
    (tmp_path / "b.html").write_text('<p id="c">x</p>')
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    assert find_dead_links(pages) == ["a.html: b.html#d", "a.html: e.html", "a.html: #f"]


@pytest.mark.fuzz  # a minute; links and contents are checked without it
@pytest.mark.filterwarnings("ignore:.* is deprecated. Check CHANGES for Sphinx")  # in MyST
@pytest.mark.skipif(not is_sphinx_installed(), reason="the extra `site` is not installed")
def test_the_site_builds_without_a_network_and_loads_nothing_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the site asks the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    first = build_site(ROOT, tmp_path)
    pages = [path for path in first.parent.rglob("*.html") if "_static" not in path.parts]
    assert len(pages) > len(read_pages(ROOT))  # and the page of the search
    for page in pages:
        loaded = [one or other for one, other in _LOADED.findall(page.read_text("utf-8"))]
        assert [target for target in loaded if re.match(r"\w+:|//", target)] == []
    assert find_dead_links(pages) == []
    styles = "".join(path.read_text("utf-8") for path in first.parent.rglob("*.css"))
    assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", styles)
    assert (tmp_path / "index.html").is_file()
    for word, page in (("burst", "find-bursts"), ("funnel", "funnel"), ("overlap", "find-bursts")):
        assert f"how-to/{page}" in find_pages(first.parent / "searchindex.js", word)


def find_pages(index: Path, stem: str) -> list[str]:
    """Return the pages that the search of a site lists for a word, by its stem."""
    text = index.read_text("utf-8")
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    pages = []
    for part in ("titleterms", "terms"):
        numbers = found[part].get(stem, [])
        pages += [numbers] if isinstance(numbers, int) else numbers
    return [found["docnames"][number] for number in pages]


def test_a_missing_sphinx_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tools.manual.build.is_sphinx_installed", lambda: False)
    with pytest.raises(CernisError, match=r"the site needs Sphinx, MyST and Furo: pip install"):
        build_site(ROOT, tmp_path)


def test_the_command_needs_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.manual.__main__.ROOT", tmp_path)
    assert main(["site"]) == 1
    assert capsys.readouterr().err == (
        "error: the manual is built from a checkout of Cernis, and this is none\n"
    )


def test_a_broken_link_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(root: Path, target: Path) -> Path:
        raise CernisError("the site has broken pages:\nhow-to/a.md: no such page")

    monkeypatch.setattr("tools.manual.__main__.build_site", fail)
    assert main(["site"]) == 1
    assert capsys.readouterr().err == (
        "error: the site has broken pages:\nhow-to/a.md: no such page\n"
    )
