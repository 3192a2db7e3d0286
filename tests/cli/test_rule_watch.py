"""A folder of rules that changes: sound changes are taken, and what is broken stays what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cernis.cli.main import main
from cernis.cli.streams.rule_watch import RuleRevision, RuleWatch
from cernis.errors import CernisError
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.rule_set import RuleSet

A, B = "RULE a AS SELECT * WHERE A", "RULE b AS SELECT * WHERE B"


class Folder:
    """A folder of rules, with times that differ from write to write."""

    def __init__(self, path: Path) -> None:
        self.path, self.writes = path, 0

    def write(self, name: str, text: str) -> None:
        self.writes += 1
        (self.path / name).write_text(text)
        os.utime(self.path / name, (self.writes, self.writes))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("a.ceql", A)
    made.write("b.ceql", B)
    return made


def fits(rules: RuleSet) -> None:
    """All rules fit the streams."""


def look(watch: RuleWatch) -> RuleRevision:
    assert watch.look(fits) is None  # files may still be written
    revision = watch.look(fits)
    assert revision is not None
    return revision


def texts(rules: RuleSet) -> dict[str, str]:
    return {rule.name: rule.text for rule in rules}


def test_nothing_is_read_while_nothing_changes(folder: Folder) -> None:
    watch = RuleWatch(folder.path)
    assert watch.look(fits) is watch.look(fits) is None
    assert RuleWatch(A).look(fits) is None


def test_changes_are_taken_and_what_is_broken_stays_what_it_was(folder: Folder) -> None:
    watch = RuleWatch(folder.path)
    folder.write("a.ceql", "RULE a AS SELECT * WHRE A RULE c AS SELECT * WHERE C")
    folder.write("b.ceql", "RULE b AS SELECT * WHERE B ; B")
    revision = look(watch)
    assert texts(revision.rules) == {
        "a": "SELECT * WHERE A",
        "b": "SELECT * WHERE B ; B",
        "c": "SELECT * WHERE C",
    }
    assert [mistake.splitlines()[0] for mistake in revision.refused] == [
        f"{folder.path}/a.ceql: rule a: line 1, column 20: unexpected 'WHRE'"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * WHERE A", "a rule set is made of rules"),
        ("RULE b AS SELECT * WHERE C", "two rules are named 'b'"),
        ("RULE a AS INSERT INTO D SELECT d[x] AS x FROM D WHERE D AS d", "in a circle: D → D"),
    ],
)
def test_a_folder_that_makes_no_sense_changes_nothing(
    folder: Folder, text: str, message: str
) -> None:
    watch = RuleWatch(folder.path)
    folder.write("a.ceql", text)
    revision = look(watch)
    assert texts(revision.rules)["b"] == "SELECT * WHERE B"
    assert message in "\n".join(revision.refused)


def test_an_empty_folder_changes_nothing(folder: Folder) -> None:
    watch = RuleWatch(folder.path)
    for file in folder.path.iterdir():
        file.unlink()
    revision = look(watch)
    assert texts(revision.rules) == texts(watch.rules)
    assert revision.refused == [f"{folder.path}: no file of rules (.ceql)"]


def test_rules_that_do_not_fit_the_streams_are_refused_one_by_one(folder: Folder) -> None:
    watch = RuleWatch(folder.path)
    folder.write("a.ceql", "RULE a AS SELECT * WHERE X RULE c AS SELECT * WHERE X")
    folder.write("b.ceql", "RULE b AS SELECT * WHERE Y")

    def check(rules: RuleSet) -> None:
        wrong = [name for name, text in texts(rules).items() if text.endswith("X")]
        if wrong:
            raise RuleSetError([f"{name} has an X" for name in wrong], wrong)

    assert watch.look(check) is None
    revision = watch.look(check)
    assert revision is not None
    assert texts(revision.rules) == {"a": "SELECT * WHERE A", "b": "SELECT * WHERE Y"}
    assert revision.refused == ["a has an X", "c has an X"]


def test_a_mistake_of_no_rule_refuses_all_changes(folder: Folder) -> None:
    watch = RuleWatch(folder.path)
    folder.write("a.ceql", "RULE a AS SELECT * WHERE X")

    def check(rules: RuleSet) -> None:
        raise CernisError("no such stream")

    assert watch.look(check) is None
    revision = watch.look(check)
    assert revision is not None
    assert texts(revision.rules) == texts(watch.rules)
    assert revision.refused == ["no such stream"]


def test_rules_that_are_wrong_are_left_out_from_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.ceql"
    rules.write_text("RULE a AS SELECT * WHRE A; RULE b AS SELECT * WHERE B")
    assert main(["explain", str(rules)]) == 1
    capsys.readouterr()
    assert main(["explain", str(rules), "--on-bad-rule", "skip"]) == 0
    assert "rules        1" in capsys.readouterr().out
    assert RuleWatch(rules, "skip").rules.names == ("b",)
    assert "rules: left out: " in capsys.readouterr().err
