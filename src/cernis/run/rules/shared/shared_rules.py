"""`SharedRules`: the rules of a set, and which of them share an engine.

Rules that differ in one constant alone are a family, plain rules of other shapes are bundles
(`group`). The others run alone. When rules change (`RuleChanges`), those that run stay where they
are, and others may join them.

Cost contract: a plan for each rule, one for a family, made when groups are first needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from cernis.encoding.bundle import MOST_ATOMS
from cernis.engine.settings import CLOCK_WINDOW, CONSUME_NOTHING, NO_WINDOW
from cernis.errors import CernisError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import TypeIs
from cernis.pattern.formula import Window
from cernis.pattern.query import Consume, Pattern, Strategy, Suppression, Unit, counts_only
from cernis.pattern.simple_tests import COMPUTED, Constant, ConstantTest
from cernis.plan.plan import Guarantee, Unary
from cernis.run.query import Query
from cernis.run.rules.rule import Rule, shorten_names
from cernis.run.rules.shared.group import RuleGroup, list_units, merge_alphabet
from cernis.state import require

SMALLEST = 8
"""Fewer rules run one by one."""
MOST_RULES = 1024
"""More rules are several bundles: tables have an entry for each rule and constant."""
_STRATEGIES = (Strategy.ALL, Strategy.ANY, Strategy.NEXT, Strategy.LAST, Strategy.MAX)
"""Strategies that the engine decides at each end."""
_MOST_SHARING = 8
"""A rule by types alone runs alone if more rules than this name one of its types: each event is
copied for all of them, and a rule alone reads an event for about half of what it costs here."""
_MOST_EVENTS = 6
"""A rule with more events in its formula runs alone: its automaton may have many states."""


class SharedRules:
    """Rules that run over the same events."""

    def __init__(
        self, rules: Iterable[Rule], refused: Sequence[str] = (), *, skips: bool = False
    ) -> None:
        """`refused` are the mistakes of rules that were left out; `skips` leaves out further ones
        that do not fit the events, or whose budget is spent."""
        self.rules = tuple(rules)
        self.refused = tuple(refused)
        self.skips = skips

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules)

    @cached_property
    def families(self) -> list[RuleGroup]:
        """The rules that differ in a constant alone."""
        return find_families(self.rules, bounded=self.skips)

    def list_planned(self) -> list[Rule]:
        """Return the rules that need a plan of their own: one of a family is planned for all."""
        try:
            families = self.families
        except CernisError:  # of a rule that cannot be planned: planning all names each of them
            return [*self.rules]
        like_others = {rule.name for family in families for rule in family.rules[1:]}
        return [rule for rule in self.rules if rule.name not in like_others]

    @cached_property
    def bundles(self) -> list[RuleGroup]:
        """The rules of different shapes that share an engine."""
        return find_bundles(self.rules, apart=list_members(self.families))

    def extend_groups(
        self, running: Sequence[RuleGroup], alone: Collection[str]
    ) -> list[RuleGroup]:
        """Return the groups of these rules where some are running.

        The rules of a running group stay in it, and others may join them. The rules that run
        `alone` stay alone.
        """
        bundles = [each for each in running if not each.is_family]
        before = [each for each in running if each.is_family]
        inside = [*alone, *list_members(bundles)]
        families = find_families(self.rules, before, inside, bounded=self.skips)
        apart = [*alone, *list_members(families)]
        return [*families, *find_bundles(self.rules, bundles, apart)]

    @cached_property
    def wholes(self) -> dict[str, str]:
        """The rules that read every event, and why."""
        made = {rule.query.pattern.into for rule in self.rules}
        found = {}
        for rule in self.rules:
            pattern = rule.query.pattern
            why = "its events are put in order with the matches of other rules"
            own = "" if rule.is_paced else rule.whole
            found[rule.name] = own if made.isdisjoint(pattern.streams) else why
        return {name: why for name, why in found.items() if why}


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
    old = {rule.name: rule for rule in before}
    added, replaced, kept = list[str](), list[str](), list[str]()
    for rule in after:
        known = old.pop(rule.name, None)
        if known is None:
            added.append(rule.name)
        else:
            (kept if known is rule or _is_same(rule, known) else replaced).append(rule.name)
    changes = (added, replaced, [*old], kept)
    return RuleChanges(*(tuple(sorted(names)) for names in changes))


def _is_same(rule: Rule, other: Rule) -> bool:
    """Whether rules have the same text; those of other formulas are not written for it."""
    is_alike = rule.query.pattern.formula == other.query.pattern.formula
    return is_alike and rule.text == other.text


# ------------------------------------------------------------------- families


def find_families(
    rules: Sequence[Rule],
    before: Sequence[RuleGroup] = (),
    apart: Collection[str] = (),
    *,
    bounded: bool = False,
) -> list[RuleGroup]:
    """Return the families of rules, of which some run `apart`.

    `before` are families that run, whose rules stay in them and may get others. With `bounded`, no
    new one has candidates: they would share the budget of one rule.
    """
    inside = {*apart, *list_members(before)}
    running = {family.template.shared: family for family in before if family.rules}
    members: dict[Any, dict[Constant, Rule]] = {key: {} for key in running}
    for key, family in running.items():
        members[key] = {rule.known_template.constant: rule for rule in family.rules}
    free = [rule for rule in rules if rule.name not in inside]
    shapes = Counter(rule.shape for rule in free)
    joined = {family.rules[0].shape for family in running.values()}
    for rule in free:
        if shapes[rule.shape] < SMALLEST and rule.shape not in joined:
            continue  # a template costs more than a plan
        if (template := rule.template) is not None:
            several = members.setdefault(template.shared, {})
            several.setdefault(template.constant, rule)  # another rule on it is in no family
    found = []
    for key, several in members.items():
        own = [*several.values()]
        if key in running:
            found.append(running[key].add(own[len(running[key].rules) :]))
        elif len(own) >= SMALLEST:
            try:
                group = RuleGroup(tuple(own), (*range(len(own)),), Query(key[-1]), True)
                if not bounded or group.whole.plan.guarantee is not Guarantee.RESIDUAL:
                    found.append(group)
            except CernisError:  # no query of its own: the attribute is taken
                continue
    return found


# -------------------------------------------------------------------- bundles


class BundleKind(NamedTuple):
    """What the rules of a bundle have in common."""

    streams: tuple[str, ...]
    partition: tuple[tuple[str, ...], ...]
    reach: Fraction | None
    """No window is longer, in nanoseconds; None: there is none."""
    silences: tuple[str, ...] = ()
    """The components that SUPPRESS BY names; empty if the clause is absent."""
    into: str | None = None
    strategy: Strategy = Strategy.ALL


def find_kind(rule: Rule) -> BundleKind | None:
    """Return the bundles that a rule fits into; None: it runs alone."""
    if rule.whole or not rule.equalities:
        return None
    plan = rule.query.plan
    pattern, settings, within = plan.pattern, plan.settings, plan.pattern.within
    silences = () if pattern.suppress is None else pattern.suppress.names
    if pattern.consume is not Consume.NONE or settings.consume != CONSUME_NOTHING:
        return None
    if pattern.strategy not in _STRATEGIES or not {*silences} <= {*pattern.components}:
        return None
    if pattern.order is not None or counts_only(pattern):
        return None
    if pattern.declared is not None or plan.conjunctive is not None or plan.unary is None:
        return None
    if plan.tables is not None or plan.listed or plan.head is not None or plan.runs is not None:
        return None
    if settings.window not in (NO_WINDOW, CLOCK_WINDOW) or not _is_small(plan.unary, pattern):
        return None
    reach = None
    if within is not None:
        if within.unit is not Unit.TIME or within.attribute is not None or within.size < 0:
            return None
        reach = _round_up(within.size)
    streams, partition, into = pattern.streams, pattern.partition, pattern.into
    return BundleKind(streams, partition, reach, silences, into, pattern.strategy)


def _round_up(size: Fraction) -> Fraction:
    """Return the least power of four that is no smaller.

    >>> _round_up(Fraction(5)), _round_up(Fraction(0))
    (Fraction(16, 1), Fraction(1, 1))
    """
    power = Fraction(1)
    while power < size:
        power *= 4
    return power


def _is_small(unary: Unary, pattern: Pattern) -> bool:
    """Return whether an automaton has few states, and asks few atoms about columns of events."""
    nodes, atoms = [*cel.walk(pattern.formula)], merge_alphabet(unary).atoms
    plain = (cel.Event, cel.As, cel.Sequence, cel.Choice, cel.Filter, cel.Iterate, cel.Optional)
    return (
        all(isinstance(node, plain) for node in nodes)
        and not pattern.inner_units
        and _count_events(pattern.formula) <= _MOST_EVENTS
        and len(atoms) <= MOST_ATOMS
        and not any(map(_is_computed, atoms))
    )


def _count_events(formula: cel.Formula) -> int:
    """Return how many events a formula has where each round of an iteration is written out."""
    rounds = 1
    if isinstance(formula, cel.Iterate):
        rounds = max(1, formula.low, formula.high or 1)
    parts = sum(_count_events(part) for part in cel.children(formula))
    return rounds * (parts + isinstance(formula, cel.Event))


def _is_computed(atom: Any) -> bool:
    """Return whether an atom looks at a value that is no attribute of the events."""
    if isinstance(atom, TypeIs):
        return False
    return any(a in COMPUTED or a.value is not None for a in pred.attributes_of(atom))


def find_bundles(
    rules: Sequence[Rule], before: Sequence[RuleGroup] = (), apart: Collection[str] = ()
) -> list[RuleGroup]:
    """Return the bundles of rules, of which some run `apart`.

    `before` are bundles that run, whose rules stay in them and may get others.
    """
    alone = {*apart}
    inside = alone.union(list_members(before))
    made = {rule.query.pattern.into for rule in rules}
    kinds: dict[BundleKind, list[Rule]] = {}
    free = [rule for rule in rules if rule.name not in inside]
    readers: Counter[ConstantTest] = Counter()
    if any(rule.types for rule in free):
        routed = (rule for rule in rules if rule.name not in alone)
        readers.update(test for rule in routed for test in rule.types)
    for rule in free:
        if made.isdisjoint(rule.query.pattern.streams):
            kind = find_kind(rule)
            if kind is not None and not _shares_types(rule, readers):
                kinds.setdefault(kind, []).append(rule)
    found = []
    for bundle in before:
        new = kinds.get(find_kind(bundle.rules[0]) or BundleKind((), (), None), [])
        room = MOST_RULES - len(bundle.rules)
        found.append(bundle.add(new[:room]))
        del new[:room]
    for kind, several in kinds.items():
        for first in range(0, len(several), MOST_RULES):
            some = several[first : first + MOST_RULES]
            if len(some) >= SMALLEST:
                found.append(_make_bundle(kind, some, range(len(some))))
    return found


def _make_bundle(kind: BundleKind, rules: Sequence[Rule], owners: Sequence[int]) -> RuleGroup:
    """Return a bundle of rules of one kind."""
    whole = Query("SELECT START AS first WHERE * AS every").pattern
    if kind.into is None:
        whole = Query("SELECT * WHERE * AS every").pattern
    within = None if kind.reach is None else Window(Unit.TIME, kind.reach)
    suppress = Suppression(kind.silences, Fraction(1)) if kind.silences else None
    pattern = replace(
        whole,
        streams=kind.streams,
        partition=kind.partition,
        within=within,
        suppress=suppress,
        into=kind.into,
        strategy=kind.strategy,
    )
    units = tuple(list_units(rules))
    return RuleGroup(tuple(rules), tuple(owners), Query(pattern), False, units=units)


def _shares_types(rule: Rule, readers: Mapping[ConstantTest, int]) -> bool:
    """Return whether a rule finds its events by types alone, one of which many rules name."""
    tests = rule.equalities or frozenset()
    by_type = all(test.attribute is None for test in tests)
    return by_type and any(readers[test] > _MOST_SHARING for test in tests)


# ----------------------------------------------------------------------- both


def join_group(rules: Sequence[Rule], owners: Sequence[int], *, is_family: bool) -> RuleGroup:
    """Return the group of rules that were one before; StateError if they cannot be one."""
    require(len({*owners}) == len(owners), "two rules have one number")
    if is_family:
        templates = [rule.template for rule in rules]
        shared = {template.shared for template in templates if template is not None}
        constants = {template.constant for template in templates if template is not None}
        require(len(shared) == 1 and len(constants) == len(rules), "other rules are a family")
        return RuleGroup(tuple(rules), tuple(owners), Query(shared.pop()[-1]), True)
    kinds = {find_kind(rule) for rule in rules}
    kind = kinds.pop()
    require(not kinds and len(rules) <= MOST_RULES, "other rules are a bundle")
    require(kind is not None, "other rules are a bundle")
    assert kind is not None
    return _make_bundle(kind, rules, owners)


def list_members(groups: Sequence[RuleGroup]) -> list[str]:
    """Return the names of the rules in groups."""
    return [rule.name for group in groups for rule in group.rules]
