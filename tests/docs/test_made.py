"""Pages that are made from the code: they are as the code is, and their cases hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from cernis.manual.codes import CASES, WarningCase, collect_codes, find_notes
from cernis.manual.made import make_files
from cernis.manual.messages import collect_messages

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cernis"
MADE = make_files(ROOT)


@pytest.mark.parametrize("path", MADE)
def test_the_page_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == MADE[path], "run: make pages"


def test_every_code_has_a_case() -> None:
    assert sorted(case.code for case in CASES) == sorted(set(collect_codes(SOURCE)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_what_to_write_instead_has_no_warning(case: WarningCase) -> None:
    if case.instead.startswith("SELECT"):
        assert find_notes(case, case.instead) == ()


def test_messages_are_read_with_their_variable_parts_left_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.py").write_text(
        'raise DataError(f"row {n}: no " + "time")\n'
        'yield Diagnostic(f"{a}{b!r} is odd", span, suggestion=f"write {c}")\n'
        'yield Diagnostic("a warning", span, code=CODE)\n'
        "raise DataError(message)\n"
    )
    found = [(one.error, one.text, one.help) for one in collect_messages(tmp_path)]
    assert found == [
        ("DataError", "row …: no time", ""),
        ("QueryError", "… is odd", "write …"),
    ]
