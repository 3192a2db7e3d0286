"""The files of docs/ that are made from the code; a test says when one is out of date."""

from __future__ import annotations

from pathlib import Path

from cernis.manual.codes import write_codes_page
from cernis.manual.messages import write_messages_page


def make_files(root: Path) -> dict[str, str]:
    """Return the text of each made file of a checkout, by its path."""
    source = root / "src" / "cernis"
    return {
        "docs/reference/codes.md": write_codes_page(),
        "docs/reference/messages.md": write_messages_page(source),
    }


def write_files(root: Path) -> list[str]:
    """Write the made files anew; return the paths of those that have changed."""
    changed = []
    for path, text in make_files(root).items():
        place = root / path
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
