"""`RuleWatch`: a folder or a file of rules that may change while its stream runs.

A change is taken when two looks in a row find the same files, so that half-written files are not
read. A rule with a mistake is refused, and its former version stays (`revise_rules`).

Cost: a listing of the folder for each look; files are read when one of them has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cernis.cli.metrics import StreamMetrics
from cernis.cli.terminal import print_message
from cernis.errors import CernisError
from cernis.run.rules.rule import (
    Rule,
    RuleSetError,
    plan_rules,
    revise_rules,
    shorten_mistakes,
)
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.shared.shared_rules import compare_rules

_Stock = dict[Path, tuple[int, int]]


class RuleRevision(NamedTuple):
    """The rules after a change, and the mistakes of those that were refused."""

    rules: RuleSet
    refused: Sequence[str]


class RuleWatch:
    """The rules that run, and the files that they stand in."""

    def __init__(self, source: str | Path, on_bad_rule: str = "fail") -> None:
        """With `on_bad_rule="skip"`, rules that are wrong from the first are left out, and told."""
        self.source = source
        self._seen = self._changing = self._look()
        self.rules = RuleSet.of(source, on_bad_rule)
        for mistake in self.rules.refused:
            print_message(f"rules: left out: {mistake}")

    def read_again(self) -> None:
        """Let the next look read the files, whether they have changed or not."""
        self._changing = self._look()
        self._seen = {Path(): (0, 0)}

    def look(self, check: Callable[[RuleSet], None]) -> RuleRevision | None:
        """Return the rules if files have changed since the last look; None: nothing to do.

        `check` raises the mistakes that rules have on the streams.
        """
        stock = self._look()
        if stock == self._seen:
            return None
        if stock != self._changing:
            self._changing = stock
            return None
        self._seen = stock
        rules, refused = revise_rules(self.source, self.rules.rules)
        rules, more = _refuse_wrong(rules, self.rules.rules, check)
        return RuleRevision(RuleSet(rules), [*refused, *more])

    def take_changes(self, check: Callable[[RuleSet], None], metrics: StreamMetrics) -> bool:
        """Take the rules of files that have changed, and say what they are; return whether any is.

        `check` raises the mistakes that rules have on the streams.
        """
        revision = self.look(check)
        if revision is None:
            return False
        for mistake in shorten_mistakes(revision.refused):
            print_message(f"rules: refused, and what was there stays: {mistake}")
        changes = compare_rules(self.rules, revision.rules)
        numbers = {word: len(names) for word, names in changes._asdict().items() if word != "kept"}
        metrics.change_rules(revision.rules.names, {**numbers, "refused": len(revision.refused)})
        if not any(numbers.values()):
            return False
        self.rules = revision.rules
        print_message(f"rules: {changes}")
        return True

    def _look(self) -> _Stock:
        if not isinstance(self.source, Path):
            return {}
        files = self.source.rglob("*.ceql") if self.source.is_dir() else [self.source]
        stock: _Stock = {}
        for file in files:
            try:
                told = file.stat()
            except OSError:  # removed meanwhile
                continue
            stock[file] = told.st_mtime_ns, told.st_size
        return stock


def _refuse_wrong(
    rules: Sequence[Rule], before: Sequence[Rule], check: Callable[[RuleSet], None]
) -> tuple[list[Rule], list[str]]:
    """Return the rules that can run and fit the streams, with the mistakes of the others."""
    known, refused = {rule.name: rule for rule in before}, list[str]()
    after = list(rules)
    while after:
        try:
            plan_rules(after)
            check(RuleSet(after))
        except RuleSetError as error:
            refused += error.mistakes
            wrong = {*error.rules}
            after = [
                known[rule.name] if rule.name in wrong else rule
                for rule in after
                if rule.name not in wrong or known.get(rule.name) not in (None, rule)
            ]
            if not wrong:
                break
        except CernisError as error:
            refused.append(str(error))
            break
        else:
            return after, refused
    return list(before), refused
