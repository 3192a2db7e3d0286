"""The pages of the manual: their links, their anchors, and which of the links are broken.

Links are checked without a build, by the rules that GitHub and the site share: a target is a path
beside the page, an anchor the slug of a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import NamedTuple

PROJECT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

_FENCE = re.compile(r"^(?P<mark>```+|~~~+).*?^(?P=mark)\s*?$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?P<mark>`+)(?!`).*?(?<!`)(?P=mark)(?!`)", re.DOTALL)
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^()\s]+)(?=\))")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)

Pages = Mapping[str, str]
"""The text of each page, by its path in the repository."""


class PageLink(NamedTuple):
    """A link to a file of the repository: path, anchor or "", and where its target stands."""

    path: str
    anchor: str
    start: int
    end: int


def read_pages(root: Path) -> dict[str, str]:
    """Return the text of every page of the manual."""
    files = [
        root / "README.md",
        *(root / name for name in PROJECT_PAGES),
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "examples").rglob("*.md")),
    ]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}


def find_links(page: str, text: str) -> Iterator[PageLink]:
    """Yield the links of a page that lead to files of the repository, or to the page itself.

    >>> text = "[a](b.md#c), `[code](x.md)`, [far](https://example.org)"
    >>> [(link.path, link.anchor) for link in find_links("docs/a.md", text)]
    [('docs/b.md', 'c')]
    """
    for found in _LINK.finditer(_blank_code(text)):
        target = text[found.start("target") : found.end("target")]
        if _ELSEWHERE.match(target):
            continue
        path, _, anchor = target.partition("#")
        place = normpath(join(dirname(page), path)) if path else page
        yield PageLink(place, anchor, *found.span("target"))


def find_anchors(text: str) -> set[str]:
    """Return the slugs of the headings of a page.

    >>> sorted(find_anchors("# A `b` c?\\n## Twice\\n## Twice"))
    ['a-b-c', 'twice', 'twice-1']
    """
    found: dict[str, int] = {}
    slugs = set()
    for heading in _HEADING.findall(_blank_fences(text)):
        slug = slugify(heading)
        slugs.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return slugs


def slugify(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def find_broken_links(root: Path, pages: Pages) -> list[str]:
    """Return a sentence for each link that leads nowhere."""
    anchors = {page: find_anchors(text) for page, text in pages.items()}
    return [
        f"{page}: {problem}"
        for page, text in pages.items()
        for link in find_links(page, text)
        for problem in _problems(root, link, anchors)
    ]


def list_linked(page: str, text: str, folder: str) -> list[str]:
    """Return the pages of a folder that a page links to, in the order of the first links."""
    paths = (link.path for link in find_links(page, text))
    inside = (path for path in paths if path.endswith(".md") and path != page)
    return list(dict.fromkeys(path for path in inside if path.startswith(f"{folder}/")))


def _problems(root: Path, link: PageLink, anchors: Mapping[str, set[str]]) -> Iterable[str]:
    if not (root / link.path).exists():
        yield f"no file {link.path}"
    elif link.anchor and link.path in anchors and link.anchor not in anchors[link.path]:
        yield f"no heading #{link.anchor} in {link.path}"


def _blank_fences(text: str) -> str:
    return _FENCE.sub(_blank, text)


def _blank_code(text: str) -> str:
    return _CODE.sub(_blank, _blank_fences(text))


def _blank(found: re.Match[str]) -> str:
    """Return as many characters, in as many lines, without the text."""
    return re.sub(r"[^\n]", " ", found[0])
