"""From a SPAseQ query to its plan: the automaton of links, and what it promises.

The guarantee depends on what a step compares with earlier ones. Equal variables alone are found
by an index (*linked*). A single condition that orders one value of an earlier step has an index in
that order (*ordered*). Any other condition is checked group by group (*residual*).

A plan pickles by its query, and a process rebuilds it once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.automata.linked.construct import construct_linked
from cernis.automata.linked.order import find_order, find_rounds, name_sources
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import SelectedVariable, SpaseqQuery
from cernis.plan.plan import Distribution, Guarantee


@dataclass(frozen=True)
class LinkedPlan:
    """A SPAseQ query, its automaton, and how it will be run."""

    query: SpaseqQuery
    linked: LinkedAutomaton
    guarantee: Guarantee
    distribution: Distribution
    key: tuple[str, ...]
    """The variables that every graph pattern binds for certain, and all events of a match share.

    Solutions with different values of them never meet."""
    window: int | None
    """How far back a match reaches, in nanoseconds; None: to the beginning."""
    strict: bool
    """Whether `,` counts timestamps."""
    background: tuple[str, ...]
    """The IRIs of the background graphs that the query names."""

    @property
    def counts_all_timestamps(self) -> bool:
        """Whether `,` counts the timestamps of the whole streamset, and not of a partition."""
        return self.strict and not self.query.partition

    @cached_property
    def patterns(self) -> dict[str, tuple[str, ...]]:
        """The graph patterns that steps use, with the variables to solve each for.

        These are the variables that other steps or the answer need, or patterns joined by `&`.
        """
        linked, patterns = self.linked, dict[str, tuple[str, ...]]()
        for gpm in self.query.gpms:
            uses = [one for one in linked.alternatives if gpm.name in one.gpms]
            if uses:
                needed = {*linked.columns}.union(*(one.names for one in uses if len(one.gpms) > 1))
                patterns[gpm.name] = tuple(n for n in g.find_variables(gpm.pattern) if n in needed)
        return patterns

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_linked_plan, (self.query,)


def make_linked_plan(query: SpaseqQuery) -> LinkedPlan:
    """Return the plan of a checked query."""
    linked = construct_linked(query)
    strict = any("," in (step.link, step.rounds) for step in query.steps)
    key = _find_key(query, linked, strict)
    single = len(query.steps) == 1 and not query.steps[0].rounds
    window = 0 if single else query.within  # the events of one step have one timestamp
    distribution = Distribution.SINGLE
    if key:
        distribution = Distribution.KEYED
    elif window is not None:
        distribution = Distribution.SLICED
    background = dict.fromkeys(
        name for gpm in query.gpms for name in _find_graph_names(gpm.pattern)
    )
    return LinkedPlan(
        query=query,
        linked=linked,
        guarantee=_decide_guarantee(linked),
        distribution=distribution,
        key=key,
        window=window,
        strict=strict,
        background=tuple(background),
    )


@lru_cache(maxsize=16)
def _rebuild_linked_plan(query: SpaseqQuery) -> LinkedPlan:
    """Return the plan that was pickled; the tasks of a process share its automaton."""
    return make_linked_plan(query)


def _find_key(query: SpaseqQuery, linked: LinkedAutomaton, strict: bool) -> tuple[str, ...]:
    """Return the key; where `,` counts timestamps, only PARTITION BY tells solutions apart."""
    common = set(linked.columns).difference(*linked.local)
    for name in {name for one in linked.alternatives for name in one.gpms}:
        common &= set(g.find_certain_variables(query.gpm(name).pattern))
    if strict:
        common &= set(query.partition)
    if query.distinct and query.select is not None:
        # equal answers of different keys are one
        common &= {one.variable for one in query.select if isinstance(one, SelectedVariable)}
    return tuple(name for name in linked.columns if name in common)


def _decide_guarantee(linked: LinkedAutomaton) -> Guarantee:
    links = [(t.store, t.reading) for t in linked.transitions if t.store is not None]
    links += [(guard.store, guard.reading) for guard in linked.guards]
    compared = [(store, reading) for store, reading in links if linked.conditions(reading)]
    if not compared:
        return Guarantee.LINKED
    decided = {store for one in find_rounds(linked) for store in (one.first, one.again)}
    left = [(store, reading) for store, reading in compared if store not in decided]
    if all(_orders_one_value(linked, store, reading) for store, reading in left):
        return Guarantee.ORDERED
    return Guarantee.RESIDUAL


def _orders_one_value(linked: LinkedAutomaton, store: int, reading: int) -> bool:
    """Whether the only condition is an order of one value, in whose order runs can wait."""
    if linked.stores[store].link == "," or len(linked.conditions(reading)) != 1:
        return False
    (condition,) = linked.conditions(reading)
    return find_order(condition, *name_sources(linked, reading, store)) is not None


def _find_graph_names(node: g.GraphPattern | g.Expression) -> Iterator[str]:
    """Yield the background graphs that a pattern names, as IRIs."""
    if isinstance(node, g.BackgroundPattern) and isinstance(node.name, g.Term):
        yield node.name.text[1:-1]
    for child in g.list_children(node):
        yield from _find_graph_names(child)
