"""`RuleChanges`: which rules were added, replaced, removed and kept from one rule set to another.

Cost: one look-up for each rule.
"""

from __future__ import annotations

from typing import NamedTuple

from cernis.run.rules.rule import shorten_names
from cernis.run.rules.shared_rules import SharedRules


class RuleChanges(NamedTuple):
    """How rules have changed, by their names; those that are kept have the same text."""

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        """Return what has changed, in words.

        >>> print(RuleChanges(("a",), (), ("b", "c"), ()))
        added a; removed b, c
        """
        changes = []
        for word, names in self._asdict().items():
            if names:
                changes.append(f"{word} {shorten_names(names)}")
        return "; ".join(changes)


def compare_rules(before: SharedRules, after: SharedRules) -> RuleChanges:
    """Return how rules have changed."""
    texts = {rule.name: rule.text for rule in before}
    same = {rule.name for rule in after if texts.get(rule.name) == rule.text}
    old, new = {*texts}, {*after.names}
    return RuleChanges(
        tuple(sorted(new - old)),
        tuple(sorted((new & old) - same)),
        tuple(sorted(old - new)),
        tuple(sorted(same)),
    )
