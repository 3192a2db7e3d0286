"""Build the site with Sphinx: MyST reads the pages, Furo shows them, light and dark.

Everything that a page loads lies beside it, so the site works without a network and from a folder
on disk; the search is an index in the browser. Any warning fails the build: links to pages and
headings that are not there are warnings. A version has a folder of its own, and the first page
lists the folders that are there. MkDocs with the theme Material was rejected: Material reaches
its end of life in May 2027, and its successor is not stable yet.
"""

from __future__ import annotations

import io
import re
from html import escape
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from cernis import __version__
from cernis.errors import CernisError
from cernis.languages.highlight import CeqlLexer, ConjunctiveLexer, SpaseqLexer
from tools.manual.pages import read_pages
from tools.manual.sources import write_sources

_VERSIONS_LINK = """\
<div class="sidebar-tree"><ul><li class="toctree-l1">
<a class="reference" href="{{ pathto('../index.html', 1) }}">All versions</a>
</li></ul></div>
"""
_STYLE = """\
@media (min-width: 92em) { .content { width: 56rem } }
div.highlight pre { font-size: 0.82em }
"""
"""Wider than Furo has it: tables of benchmarks and outputs of 100 columns fit."""
_VERSIONS_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Cernis</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark }} body {{ font: 1.1rem/1.6 sans-serif; margin: 3rem }}
</style>
</head><body><h1>Cernis</h1><p>The manual of each version:</p>
<ul>
{items}
</ul></body></html>
"""


def is_sphinx_installed() -> bool:
    """Return whether the packages of the extra `site` are there."""
    return all(find_spec(name) for name in ("sphinx", "myst_parser", "furo"))


def build_site(root: Path, target: Path) -> Path:
    """Build the site of a checkout into a folder of its version, and return its first page."""
    if not is_sphinx_installed():
        raise CernisError("the site needs Sphinx, MyST and Furo: pip install '.[site]'")
    made = target / __version__
    rmtree(made, ignore_errors=True)
    with TemporaryDirectory() as folder:
        sources, theme = Path(folder) / "sources", Path(folder) / "theme"
        write_sources(root, read_pages(root), sources)
        for path, text in {"sidebar/versions.html": _VERSIONS_LINK, "wide.css": _STYLE}.items():
            (theme / path).parent.mkdir(parents=True, exist_ok=True)
            (theme / path).write_text(text, encoding="utf-8")
        _run_sphinx(sources, theme, made, Path(folder) / "trees")
    (target / "index.html").write_text(write_versions_page(target), encoding="utf-8")
    return made / "index.html"


def write_versions_page(target: Path) -> str:
    """Return the page that lists the versions whose manuals are in a folder, the newest first."""
    folders = [path.parent.name for path in target.glob("*/index.html")]
    items = (
        f'<li><a href="{escape(name)}/index.html">{escape(name)}</a></li>'
        for name in sorted(folders, key=_version_key, reverse=True)
    )
    return _VERSIONS_PAGE.format(items="\n".join(items))


def _version_key(name: str) -> list[tuple[bool, int, str]]:
    parts = re.findall(r"\d+|[a-z]+", name)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _settings(theme: Path) -> dict[str, Any]:
    sidebar = ["brand", "search", "scroll-start", "navigation", "versions", "scroll-end"]
    return {
        "project": "Cernis",
        "release": __version__,
        "language": "en",
        "extensions": ["myst_parser"],
        "myst_heading_anchors": 4,
        "html_theme": "furo",
        "html_title": f"Cernis {__version__}",
        "html_sidebars": {"**": [f"sidebar/{name}.html" for name in sidebar]},
        "html_copy_source": False,
        "html_use_index": False,
        "html_show_copyright": False,
        "html_show_sphinx": False,
        "templates_path": [str(theme)],
        "html_static_path": [str(theme / "wide.css")],
        "html_css_files": ["wide.css"],
        # results of benchmarks go from # to ###, and outputs in blocks need not be whole programs
        "suppress_warnings": ["myst.header", "misc.highlighting_failure"],
    }


def _run_sphinx(sources: Path, theme: Path, made: Path, trees: Path) -> None:
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            sources, None, made, trees, "html", confoverrides=_settings(theme),
            status=None, warning=warnings, freshenv=True,
        )  # fmt: skip
        for lexer in (CeqlLexer, ConjunctiveLexer, SpaseqLexer):
            app.add_lexer(lexer.aliases[0], lexer)
        app.build(force_all=True)
    (made / ".buildinfo").unlink(missing_ok=True)
    found = warnings.getvalue().replace(f"{sources}/", "")
    if found:
        raise CernisError(f"the site has broken pages:\n{found.rstrip()}")
