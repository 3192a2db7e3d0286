"""`SharedRules`: the rules of a set, and which of them share an engine.

Rules that differ in one constant alone are one query (`families`), and plain rules of other shapes
share an engine (`bundles`). The others run alone.

Cost contract: a plan for each rule, one for a family, made when families or bundles are first
needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from cernis.errors import CernisError
from cernis.run.rules.bundles import Bundle, find_bundles
from cernis.run.rules.families import Family, find_families
from cernis.run.rules.rule import Rule


class SharedRules:
    """Rules that run over the same events."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules)

    @cached_property
    def families(self) -> list[Family]:
        """The rules that differ in a constant alone."""
        return find_families(self.rules)

    def list_planned(self) -> list[Rule]:
        """Return the rules that need a plan of their own: one of a family is planned for all."""
        try:
            families = self.families
        except CernisError:  # of a rule that cannot be planned: planning all names each of them
            return [*self.rules]
        like_others = {rule.name for family in families for rule in family.rules[1:]}
        return [rule for rule in self.rules if rule.name not in like_others]

    @cached_property
    def bundles(self) -> list[Bundle]:
        """The rules of different shapes that share an engine."""
        return find_bundles(self.rules, apart=_list_members(self.families))

    def extend_groups(
        self, running: Sequence[Family | Bundle], alone: Collection[str]
    ) -> list[Family | Bundle]:
        """Return the families and bundles of these rules where some are running.

        The rules of a running family or bundle stay in it, and others may join them. The rules that
        run `alone` stay alone.
        """
        bundles = [each for each in running if isinstance(each, Bundle)]
        families = find_families(
            self.rules,
            [each for each in running if isinstance(each, Family)],
            [*alone, *_list_members(bundles)],
        )
        apart = [*alone, *_list_members(families)]
        return [*families, *find_bundles(self.rules, bundles, apart)]

    @cached_property
    def wholes(self) -> dict[str, str]:
        """The rules that read every event, and why."""
        made = {rule.query.pattern.into for rule in self.rules}
        found = {}
        for rule in self.rules:
            pattern = rule.query.pattern
            why = "its events are put in order with the matches of other rules"
            found[rule.name] = rule.whole if made.isdisjoint(pattern.streams) else why
        return {name: why for name, why in found.items() if why}


def _list_members(groups: Iterable[Family | Bundle]) -> list[str]:
    """Return the names of the rules in families or bundles."""
    return [rule.name for group in groups for rule in group.rules]
