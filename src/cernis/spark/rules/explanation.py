"""Explain how Spark runs a rule set: which rules share a shuffle, by which key.

Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from cernis.run.rules.rule_set import RuleSet
from cernis.spark.rules.keys import KeyedRules, key_rules


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


_SHOWN = 10
