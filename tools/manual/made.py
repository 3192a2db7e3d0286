"""The files of a checkout that are made from the code; a test says when one is out of date."""

from __future__ import annotations

from pathlib import Path

from cernis.languages.ceql.parse import SYNTAX as CEQL
from cernis.languages.conjunctive.parse import SYNTAX as CONJUNCTIVE
from cernis.languages.spaseq.parse import SYNTAX as SPASEQ
from cernis.languages.sql.pattern import SYNTAX as ROW_PATTERN
from cernis.languages.text.tables import FILE
from tools.manual.aims import write_aims_page
from tools.manual.codes import write_codes_pages
from tools.manual.diagrams import draw_section
from tools.manual.files import write_files_page
from tools.manual.functions import write_functions_page
from tools.manual.grammar import SOURCES, name_diagram, read_sections, write_grammar_page
from tools.manual.measured import with_numbers
from tools.manual.messages import write_messages_page
from tools.manual.pictures import draw_pictures

_CODES, _GRAMMARS = "docs/reference/codes", "docs/reference/grammar"


def make_pages(root: Path) -> dict[str, str]:
    """Return the text of each made page and picture of a checkout, by its path."""
    return {
        "README.md": with_numbers(root),
        "docs/benchmarks/aims.md": write_aims_page(root),
        **{f"{_CODES}/{name}": text for name, text in write_codes_pages().items()},
        "docs/reference/functions.md": write_functions_page(),
        "docs/reference/messages.md": write_messages_page(root / "src" / "cernis"),
        "docs/explanation/files.md": write_files_page(root),
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


def make_tables() -> dict[str, bytes]:
    """Return the tables of each grammar that has none for this version of Lark, by their paths.

    Lark numbers the same tables in another way each time, so the others stay as they are.
    """
    return {
        f"src/{grammar.packages[-1].replace('.', '/')}/{FILE}": grammar.write()
        for grammar in (syntax.grammar for syntax in (CEQL, CONJUNCTIVE, SPASEQ, ROW_PATTERN))
        if grammar.find_shipped() is None
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
    for path, tables in make_tables().items():
        (root / path).write_bytes(tables)
        changed.append(path)
    return changed
