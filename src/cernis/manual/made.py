"""The files of a checkout that are made from the code; a test says when one is out of date."""

from __future__ import annotations

from pathlib import Path

from cernis.manual.codes import write_codes_pages
from cernis.manual.diagrams import draw_section
from cernis.manual.grammar import SOURCES, name_diagram, read_sections, write_grammar_page
from cernis.manual.measured import with_numbers
from cernis.manual.messages import write_messages_page
from cernis.manual.pictures import draw_pictures

_CODES, _GRAMMARS = "docs/reference/codes", "docs/reference/grammar"


def make_pages(root: Path) -> dict[str, str]:
    """Return the text of each made page and picture of a checkout, by its path."""
    return {
        "README.md": with_numbers(root),
        **{f"{_CODES}/{name}": text for name, text in write_codes_pages().items()},
        "docs/reference/messages.md": write_messages_page(root / "src" / "cernis"),
        **{f"docs/pictures/{name}": text for name, text in draw_pictures(root).items()},
        **{f"{_GRAMMARS}/{source.name}.md": write_grammar_page(source) for source in SOURCES},
    }


def make_diagrams() -> dict[str, str]:
    """Return the diagrams of the grammars, by their paths."""
    return {
        f"{_GRAMMARS}/{name_diagram(source, section)}": draw_section(section)
        for source in SOURCES
        for section in read_sections(source)
        if section.rules
    }


def write_files(root: Path) -> list[str]:
    """Write the made files anew; return the paths of those that have changed."""
    changed = []
    for path, text in (make_pages(root) | make_diagrams()).items():
        place = root / path
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
