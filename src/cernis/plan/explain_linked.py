"""The plan of a SPAseQ query in words: its class, why, what it groups runs by, its automaton."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.automata.linked.mermaid import draw_linked
from cernis.automata.linked.order import find_ended, find_rounds, find_sorted
from cernis.integers import count_noun
from cernis.plan.linked import LinkedPlan
from cernis.plan.plan import Guarantee
from cernis.plan.report import PlanReport
from cernis.views.automaton import AutomatonView
from cernis.views.describe_linked import describe_linked


@dataclass(frozen=True, slots=True)
class LinkedExplanation(PlanReport):
    """The plan of a SPAseQ query."""

    plan: LinkedPlan

    @property
    def key(self) -> tuple[str, ...]:
        """The variables that all events of a match share: what to spread a stream by."""
        return self.plan.key

    def list_entries(self) -> Iterator[tuple[str, Sequence[str]]]:
        plan = self.plan
        yield "query", [" ".join(str(plan.query).split())]
        yield "class", [_describe_class(plan)]
        reasons = [*dict.fromkeys(_describe_stores(plan))]
        yield "reason", reasons or ["one step: nothing waits"]
        yield "counting", [*dict.fromkeys(_describe_counting(plan))]
        yield "spread by", [_describe_key(plan)]
        yield "automaton", str(plan.linked).splitlines()

    def automaton(self) -> AutomatonView:
        return describe_linked(self.plan.linked).view

    def mermaid(self) -> str:
        return draw_linked(self.plan.linked)


def _describe_class(plan: LinkedPlan) -> str:
    match plan.guarantee:
        case Guarantee.ORDERED:
            return "ordered: runs wait in the order of a value, and only those that fit are met"
        case Guarantee.RESIDUAL:
            return "residual: conditions on earlier variables are checked group by group"
    stores = plan.linked.stores
    if any(stores[t.store].kept != t.joins for t in plan.linked.transitions if t.store is not None):
        return "linked: runs that agree on their live variables move at once, each such group"
    return "linked: all runs of a join key move at once, in constant time"


_LINKS = {",": "the next timestamp", ";": "the first that fits", ":": "any later one"}


def _describe_stores(plan: LinkedPlan) -> Iterator[str]:
    """Yield what the runs of each store wait for, and by which variables they are grouped."""
    linked = plan.linked
    decided = {rounds.again: rounds.variable for rounds in find_rounds(linked)}
    ended = {store: one for one in find_ended(linked) for store in (one.again, one.left)}
    for number, (store, ordered) in enumerate(zip(linked.stores, find_sorted(linked), strict=True)):
        grouped = [f"?{name}" for name in store.kept if name != ordered]
        names = _name_step(plan, store.step)
        rounds = plan.query.steps[store.step].rounds
        again = ", again" if rounds and linked.states[store.state].step == store.step else ""
        if number in decided:
            yield (
                f"waiting for {names}, again ({_LINKS[store.link]}): in the same order, without a "
                f"group for each round: ?{decided[number]} decides which rounds a run takes"
            )
            continue
        if number in ended:
            between = _name_step(plan, linked.stores[ended[number].first].step)
            yield (
                f"waiting for {names}{again} ({_LINKS[store.link]}): in the same order, without a "
                f"group for each value: {between} asks nothing of ?{ended[number].variable}"
            )
            continue
        how = f", in the order of ?{ordered}" if ordered else _describe_live(linked, number)
        yield (
            f"waiting for {names}{again} ({_LINKS[store.link]}): "
            f"grouped by {', '.join(grouped) or 'nothing'}{how}"
        )


def _describe_live(linked: LinkedAutomaton, store: int) -> str:
    """Name the values that a row does not join and later steps need: it takes group by group."""
    taken = [one for one in linked.transitions if one.store == store]
    live = {
        name
        for one in taken
        for name in linked.stores[store].kept
        if name not in one.joins and name in linked.states[one.target].bound
    }
    if not live:
        return ""
    names = " and ".join(f"?{name}" for name in sorted(live))
    return f", each group by itself: {names} {'stays' if len(live) == 1 else 'stay'} live"


_MOST_REASONS = 6


def _describe_counting(plan: LinkedPlan) -> Iterator[str]:
    """Yield the data for which two runs may be one match, so that counting lists matches."""
    if plan.query.distinct:
        yield "lists matches: DISTINCT makes one answer of those with equal values"
        return
    linked = plan.linked
    names = [_name_step(plan, step) for step in range(len(plan.query.steps))]
    hidden = [(names[one.step], _list_names(one.hidden)) for one in linked.exits if one.hidden]
    lists = [f"if {name} matches an event in ways that differ in {v} only" for name, v in hidden]
    lists += [
        f"if {name} matches an event both with and without {_list_names(sorted(loose))}"
        for name, loose in zip(names, linked.loose, strict=True)
        if loose
    ]
    lists += [
        f"if an event matches both {names[one]} and {names[two]}"
        + f" (steps {one + 1} and {two + 1})" * (names[one] == names[two])
        for one, two in sorted(map(sorted, linked.rivals))
    ]
    lists = [*dict.fromkeys(lists)]
    yield from (f"lists matches {reason}" for reason in lists[:_MOST_REASONS])
    if len(lists) > _MOST_REASONS:
        more = len(lists) - _MOST_REASONS
        yield f"and in {count_noun(more, 'other case like this', 'other cases like these')}"
    if not lists:
        yield "lists nothing: each match has one run"


def _name_step(plan: LinkedPlan, step: int) -> str:
    return " | ".join(" & ".join(one.gpms) for one in plan.linked.alternatives if one.step == step)


def _list_names(names: Sequence[str]) -> str:
    """
    >>> _list_names(("a", "b", "c"))
    '?a, ?b or ?c'
    """
    *others, last = (f"?{name}" for name in names)
    return f"{', '.join(others)} or {last}" if others else last


def _describe_key(plan: LinkedPlan) -> str:
    if plan.key:
        return ", ".join(f"?{name}" for name in plan.key)
    if plan.query.distinct:
        return "nothing: no variable that DISTINCT shows is in every pattern"
    if plan.counts_all_timestamps:
        return "nothing: ',' counts the timestamps of all streams; PARTITION BY gives a key"
    return "nothing: no variable is in every pattern"
