"""Pages that are made from the code: they are as the code is, and their cases hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cernis.error_codes import KINDS
from cernis.errors import BudgetError, CernisError, DataError, QueryError, StateError
from tools.manual.codes import CASES, WarningCase, collect_codes, find_notes
from tools.manual.diagrams import is_railroad_installed
from tools.manual.error_cases import EXAMPLES, run_example
from tools.manual.grammar import (
    SOURCES,
    GrammarSource,
    Maybe,
    Named,
    OneOf,
    Part,
    Repeat,
    Series,
    Word,
    read_sections,
)
from tools.manual.made import make_diagrams, make_pages, make_tables
from tools.manual.messages import collect_messages

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cernis"


def test_pages_and_diagrams_are_up_to_date() -> None:
    made = make_pages(ROOT) | (make_diagrams() if is_railroad_installed() else {})
    old = [path for path in made if (ROOT / path).read_text(encoding="utf-8") != made[path]]
    assert old == [], "run: make pages"


def test_the_tables_of_grammars_are_up_to_date() -> None:
    assert list(make_tables()) == [], "run: make pages"


def test_every_warning_has_a_case() -> None:
    errors = {kind.code for kind in KINDS}
    assert sorted(case.code for case in CASES) == sorted({*collect_codes(SOURCE)} - errors)


def test_every_code_of_an_error_has_an_example_and_messages() -> None:
    codes = [kind.code for kind in KINDS]
    assert list(EXAMPLES) == codes
    assert len({*codes, *(case.code for case in CASES)}) == len(codes) + len(CASES)
    assert {message.code for message in collect_messages(SOURCE)} == {*codes}


def test_every_class_of_errors_has_a_kind_for_the_rest() -> None:
    raised = {one.__name__ for one in (QueryError, DataError, BudgetError, StateError, CernisError)}
    assert {name for kind in KINDS if not kind.words for name in kind.errors} == raised


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_has_the_code_of_its_page(code: str) -> None:
    assert run_example(EXAMPLES[code]).code == code


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


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_rule_that_a_grammar_names_is_drawn(source: GrammarSource) -> None:
    rules = {rule.name: rule.part for section in read_sections(source) for rule in section.rules}
    shared = {rule.name for section in read_sections(SOURCES[-1]) for rule in section.rules}
    named = {name for part in rules.values() for name in names_in(part) if name.islower()}
    assert named - rules.keys() - (shared if source.name != "spaseq" else set()) == set()


def names_in(part: Part) -> Iterator[str]:
    """Yield the names of rules and lexemes in a part."""
    match part:
        case Named(name):
            yield name
        case Series(parts) | OneOf(parts):
            yield from (name for one in parts for name in names_in(one))
        case Maybe(inner) | Repeat(inner, None):
            yield from names_in(inner)
        case Repeat(inner, between) if between is not None:
            yield from names_in(Series((inner, between)))


def test_a_list_is_drawn_as_a_loop_with_its_separator() -> None:
    rules = {rule.name: rule.part for one in read_sections(SOURCES[0]) for rule in one.rules}
    group = Series((Word("["), Repeat(Named("key value"), Word(",")), Word("]")))
    assert rules["group"] == group
    assert rules["strategy"] == OneOf(
        (Word("ALL"), OneOf(tuple(map(Word, ("ANY", "NEXT", "STRICT", "LONGEST", "LAST", "MAX")))))
    )
