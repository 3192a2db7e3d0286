"""`KeyedRules`: the rules of one key, which share a shuffle.

An event travels once for all rules of a key, to the bucket of its value, and one session there
reads it for all. Rules without a key share one bucket on streams; in batches they are spread over
the tasks, and each event travels to all of these.

Rules that are connected by INSERT INTO have to meet, since the matches of one are events of the
other. They keep a key if all of them are partitioned by the same attributes and each derived event
has them: then it stays in the bucket of its match. Otherwise they join the rules without a key.

`explain_rules` prints it. Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern, SelectedTerm
from cernis.pattern.simple_tests import ConstantTest, NeededTests
from cernis.plan.plan import Distribution, Plan
from cernis.run.rules.rule import Rule
from cernis.run.rules.rule_set import RuleSet
from cernis.work.layout import choose_stream_layout
from cernis.work.rule_record import RuleKey
from cernis.work.rules import is_ordered_by_rank

_SHOWN = 10
"""How many rules of a key are named."""


class KeyedRules(NamedTuple):
    """The rules of one key, which share a shuffle and a session."""

    key: RuleKey
    rules: tuple[Rule, ...]

    @property
    def streams(self) -> frozenset[str]:
        """The streams that they read; empty: all."""
        patterns = [rule.query.pattern for rule in self.rules]
        if not all(pattern.streams for pattern in patterns):
            return frozenset()
        return frozenset(name for pattern in patterns for name in pattern.streams)

    @property
    def equalities(self) -> frozenset[ConstantTest] | None:
        """Equalities of which one holds for each event that moves a rule; None: any event may."""
        made = {rule.query.pattern.into for rule in self.rules}
        found: frozenset[ConstantTest] = frozenset()
        for rule in self.rules:
            derives = rule.query.pattern.into or not made.isdisjoint(rule.query.pattern.streams)
            if derives or rule.whole or rule.equalities is None:
                return None
            found |= rule.equalities
        return found

    def find_needed(self, stream: str) -> tuple[NeededTests, ...] | None:
        """Return the tests that find the events of a stream for each rule; None: any may move one.

        For a batch, at whose end time passes for rules that wait for it.
        """
        made = {rule.query.pattern.into for rule in self.rules} - {None}
        found = []
        for rule in self.rules:
            streams = rule.query.pattern.streams
            derives = rule.query.pattern.into or not made.isdisjoint(streams)
            if derives or (rule.whole and not rule.is_paced) or rule.needed is None:
                return None
            if not streams or stream in streams:
                found.append(rule.needed)
        return tuple(found)


def key_rules(
    rules: RuleSet, plans: Sequence[Plan], *, ordered: bool = False
) -> tuple[KeyedRules, ...]:
    """Return the rules of each key, in the order of the rules.

    Where the matches are `ordered`, rules have no key whose matches one task has to put in order.

    >>> texts = {"a": "SELECT * WHERE A PARTITION BY [k]", "b": "SELECT * WHERE B"}
    >>> rules = RuleSet.of({**texts, "c": "SELECT * WHERE C PARTITION BY [k]"})
    >>> keyed = key_rules(rules, [rule.query.plan for rule in rules])
    >>> [(keys.key.partition, [rule.name for rule in keys.rules]) for keys in keyed]
    [((('k',),), ['a', 'c']), ((), ['b'])]
    """
    patterns = [plan.pattern for plan in plans]
    keys = [
        RuleKey() if ordered and is_ordered_by_rank(plan.pattern) else _find_key(plan)
        for plan in plans
    ]
    for connected in _connect(patterns):
        if not _stay_together([patterns[i] for i in connected], [keys[i] for i in connected]):
            for i in connected:
                keys[i] = RuleKey()
    found: dict[RuleKey, list[Rule]] = {}
    for rule, key in zip(rules, keys, strict=True):
        found.setdefault(key, []).append(rule)
    return tuple(KeyedRules(key, tuple(own)) for key, own in found.items())


def spread_rules(rules: Sequence[Rule], tasks: int) -> tuple[tuple[Rule, ...], ...]:
    """Return rules without a key in lots, at most one for each task; connected ones stay together.

    >>> rules = RuleSet.of({name: f"SELECT * WHERE {name}" for name in "ABC"}).rules
    >>> [[rule.name for rule in lot] for lot in spread_rules(rules, 2)]
    [['A', 'C'], ['B']]
    """
    connected = _connect([rule.query.pattern for rule in rules])
    inside = {number for several in connected for number in several}
    parts = [*connected, *([number] for number in range(len(rules)) if number not in inside)]
    parts.sort()
    size = max(1, min(tasks, len(parts)))
    lots = (sorted(number for part in parts[i::size] for number in part) for i in range(size))
    return tuple(tuple(rules[number] for number in lot) for lot in lots)


def _find_key(plan: Plan) -> RuleKey:
    pattern = plan.pattern
    if choose_stream_layout(plan).distribution is not Distribution.KEYED:
        return RuleKey()
    if not pattern.partition:
        return RuleKey(implied=tuple(sorted((plan.key or {}).items())))
    groups = pattern.spreading_groups
    joined = {join.table for join in pattern.joins}
    if any(name.split(".")[0] in joined for group in groups for name in group):
        return RuleKey()  # workers join tables, after events have travelled
    return RuleKey(partition=groups)


def _connect(patterns: Sequence[Pattern]) -> list[list[int]]:
    """Return the rules that are connected by streams of matches, each such set once."""
    made = {pattern.into for pattern in patterns if pattern.into is not None}
    connected: list[tuple[set[str], list[int]]] = []
    for number, pattern in enumerate(patterns):
        streams = made & {*pattern.streams, *([pattern.into] if pattern.into else [])}
        if not streams:
            continue
        rules, apart = [number], []
        for others, members in connected:
            if others.isdisjoint(streams):
                apart.append((others, members))
            else:
                streams, rules = streams | others, [*members, *rules]
        connected = [*apart, (streams, rules)]
    return [sorted(members) for _, members in connected]


def _stay_together(patterns: Sequence[Pattern], keys: Sequence[RuleKey]) -> bool:
    """Return whether connected rules have one key, and derived events keep it."""
    key = keys[0]
    if any(other != key for other in keys) or not key.partition:
        return False
    makers = [pattern for pattern in patterns if pattern.into is not None]
    return all(
        len(group) == 1 and all(_inserts_key(maker, group[0]) for maker in makers)
        for group in key.partition
    )


def _inserts_key(pattern: Pattern, name: str) -> bool:
    """Return whether each match becomes an event with the key of its partition."""
    for item in pattern.select.items:
        if isinstance(item, SelectedTerm) and item.name == name:
            match item.term:
                case (
                    pred.Reference(attribute=attribute)
                    | pred.Aggregate(
                        function="FIRST" | "LAST" | "MIN" | "MAX",
                        argument=pred.Reference(attribute=attribute),
                    )
                ):
                    return attribute.name == name
    return False


# -------------------------------------------------------------- explanation


def explain_rules(rules: RuleSet) -> str:
    """Return what the rules share in a task, and in which shuffles their events travel.

    >>> texts = {"a": "SELECT * WHERE A PARTITION BY [k]", "b": "SELECT * WHERE B"}
    >>> print("\\n".join(explain_rules(RuleSet.of(texts)).splitlines()[-4:]))
    jobs         1 for all rules; together=False runs each rule as a job of its own
    shuffles     2, each for the rules of one key
                 by [k]: a; rows that can move it travel
                 no key: b; rows that can move it travel
    """
    return "\n".join([rules.explain(), *_explain(rules)])


def _explain(rules: RuleSet) -> Iterator[str]:
    keyed = key_rules(rules, [rule.query.plan for rule in rules])
    if any(rule.query.pattern.into is not None for rule in rules):
        yield "jobs         1, since matches of some rules are events of others (INSERT INTO)"
    else:
        yield "jobs         1 for all rules; together=False runs each rule as a job of its own"
    yield f"shuffles     {len(keyed)}, each for the rules of one key"
    for group in keyed:
        yield f"             {group.key.describe()}: {_name_rules(group)}; {_name_rows(group)}"


def _name_rules(group: KeyedRules) -> str:
    names = [rule.name for rule in group.rules]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _name_rows(group: KeyedRules) -> str:
    if group.equalities is None:
        return "all rows travel"
    return f"rows that can move {'it' if len(group.rules) == 1 else 'them'} travel"
