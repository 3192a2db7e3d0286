"""Say how rules share the work, which of them cost most, and why some find nothing.

Cost contract: the plans of all rules; no event is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from cernis.integers import count_noun
from cernis.plan.equalities import list_tests
from cernis.plan.plan import Guarantee
from cernis.run.metrics import SessionMetrics, rank_by_time
from cernis.run.rules.routing.router import RoutedRules, Router
from cernis.run.rules.rule import Rule, shorten_names
from cernis.run.rules.shared.shared_rules import SharedRules

_COSTLY = 10
"""So many rules are shown of those that took most of the time."""


def list_work(rules: SharedRules) -> Iterator[str]:
    """Yield which rules read which events, which share an engine, and their guarantees."""
    yield f"rules        {len(rules)}"
    routed = _list_routed(rules)
    router = Router(routed, "type")
    indexed = ", ".join(
        f"{n} ({count_noun(count, 'constant')})" for n, count in router.attributes.items()
    )
    yield f"routed       {_count_readers(len(routed))} the events that can move them"
    if indexed:
        yield f"             by look-ups of {indexed}"
    yield f"whole        {_count_readers(len(rules.wholes))} every event"
    for name, why in rules.wholes.items():
        yield f"             {name}: {why}"
    if rules.families:
        several = sum(len(family.rules) for family in rules.families)
        queries = count_noun(len(rules.families), "query", "queries")
        yield f"families     {several} rules differ in one constant: {queries}"
    if rules.bundles:
        several = sum(len(bundle.rules) for bundle in rules.bundles)
        engines = count_noun(len(rules.bundles), "engine")
        yield f"bundles      {several} rules of other shapes share {engines}"
    kinds: dict[Guarantee, list[str]] = {}
    for rule in rules:
        kinds.setdefault(rule.query.plan.guarantee, []).append(rule.name)
    shown = sorted(f"{len(names)} {kind.value}" for kind, names in kinds.items())
    yield f"classes      {', '.join(shown)}"
    if residual := kinds.get(Guarantee.RESIDUAL):
        why = "some conditions are checked on candidates, whose number has no bound"
        yield f"             {shorten_names(residual)}: {why}"


def _count_readers(number: int) -> str:
    return count_noun(number, "rule reads", "rules read")


def _list_routed(rules: SharedRules) -> dict[int, RoutedRules]:
    """Return the rules that need not read every event, by their numbers."""
    return {
        number: RoutedRules(rule.query.pattern.streams, {None: rule.needed})
        for number, rule in enumerate(rules)
        if rule.name not in rules.wholes and rule.needed is not None
    }


def list_costly(
    rules: SharedRules, numbers: Mapping[str, SessionMetrics], matches: Mapping[str, int | None]
) -> Iterator[str]:
    """Yield the rules that took most of the time, with what they read, found and kept.

    Where `matches` has None, there are too many candidates to count them.
    """
    total = sum(sum(each.seconds.values()) for each in numbers.values()) or 1.0
    yield "costly       the rules that took most of the time"
    for name in rank_by_time(numbers)[:_COSTLY]:
        own = numbers[name]
        records = f"{count_noun(own.records, 'record')} of partial matches"
        number = matches[name]
        found = "matches not counted" if number is None else count_noun(number, "match", "matches")
        kept = f"{own.stored_bytes / 2**20:,.1f} MiB of events"
        read = f"{count_noun(own.events, 'event')}, {found}, {records}, {kept}"
        spent = sum(own.seconds.values())
        why = rules.wholes.get(name, "it reads the events that can move it")
        yield f"             {name}: {spent / total:.0%}, {read}; {why}"


def list_silent(silent: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the rules that found nothing, each with its reason."""
    find = count_noun(len(silent), "rule finds", "rules find")
    yield f"silent       {find} nothing in these events"
    yield from (f"             {name}: {why}" for name, why in silent)


def describe_silence(rule: Rule, events: int, warnings: Sequence[str]) -> str:
    """Return why a rule finds nothing, by the number of its events and the warnings about them."""
    if not events and rule.equalities:
        tests = sorted(map(str, rule.equalities))
        more = f" or {count_noun(len(tests) - 3, 'other')}" if len(tests) > 3 else ""
        every = (test for test in list_tests(rule.needed or frozenset()) if test.attribute)
        others = "" if rule.equalities.issuperset(every) else ", and meets its other conditions"
        return f"no event has {' or '.join(tests[:3])}{more}{others}"
    if not warnings:
        return "events move it, and none completes a match"
    return re.sub(r"^line \d+, column \d+: ", "", warnings[0].splitlines()[0])
