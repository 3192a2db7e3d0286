"""From a pattern to a plan: the cheapest sound runtime, with what it promises.

Two runtimes so far. *Compact*: everything the query asks is in the automaton and in
how roots are resolved; counting and sampling never enumerate. *Listed*: the automaton
finds candidates, each of which is checked on its own (`verify`), and strategies,
projection, consumption and limits are applied to what is left (`choose`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import floor

from cernis.automata.cea import CEA
from cernis.automata.construct import construct, correlated
from cernis.automata.determinize import Deterministic
from cernis.engine import resolve, update
from cernis.engine.runtime import Settings
from cernis.engine.tables import Tables
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.pattern.selection import marked_variables, selected_variables


class Guarantee(Enum):
    """The classes of queries by what they cost."""

    UNARY = "unary"
    RESIDUAL = "residual"


class Distribution(Enum):
    """How a query can run on many machines."""

    KEYED = "keyed"
    SLICED = "sliced"
    SINGLE = "single"


_RESOLVE = {
    Strategy.LAST: resolve.RESOLVE_LAST,
    Strategy.ANY: resolve.RESOLVE_ANY,
    Strategy.NEXT: resolve.RESOLVE_NEXT,
    Strategy.MAX: resolve.RESOLVE_MAX,
}
_CONSUME = {
    Consume.NONE: update.CONSUME_NOTHING,
    Consume.PARTITION: update.CONSUME_PARTITION,
    Consume.ANY: update.CONSUME_ALL,
}
_WINDOW = {
    None: update.NO_WINDOW,
    Unit.EVENTS: update.EVENT_WINDOW,
    Unit.TIME: update.CLOCK_WINDOW,
    Unit.ATTRIBUTE: update.CLOCK_WINDOW,
}


@dataclass(frozen=True)
class Plan:
    """A query, its automaton, and how it will be run."""

    pattern: Pattern
    guarantee: Guarantee
    distribution: Distribution
    variables: tuple[str, ...]
    """The variables of a match."""
    listed: bool
    """Candidates are checked one by one: the query is residual, or it is NEXT or MAX over
    matches that may begin with an event they do not mark."""
    cea: CEA
    automaton: Deterministic
    tables: Tables
    settings: Settings

    @property
    def candidate_variables(self) -> tuple[str, ...]:
        """What the automaton writes: the variables of a match, or all labels to check them by."""
        return tuple(sorted(self.automaton.selected)) if self.listed else self.variables


def make_plan(pattern: Pattern) -> Plan:
    """The plan of a checked pattern."""
    strategy = pattern.strategy
    residual = correlated(pattern.formula)
    cea = construct(pattern.formula, name_atoms=residual)
    variables = selected_variables(pattern)
    automaton = Deterministic(cea, variables, strategy, keep_marks=strategy in _RESOLVE)
    starts_differ = strategy in (Strategy.NEXT, Strategy.MAX) and automaton.begins_unmarked()
    listed = residual or starts_differ
    if listed:
        labels = {name for reads in cea.reads for read in reads for name in read.labels}
        automaton = Deterministic(
            cea, labels | set(marked_variables(pattern.formula)), Strategy.ALL, keep_marks=False
        )
    return Plan(
        pattern=pattern,
        guarantee=Guarantee.RESIDUAL if residual else Guarantee.UNARY,
        distribution=_distribution(pattern),
        variables=variables,
        listed=listed,
        cea=cea,
        automaton=automaton,
        tables=Tables(automaton),
        settings=_settings(pattern, listed),
    )


def _settings(pattern: Pattern, listed: bool) -> Settings:
    within = pattern.within
    return Settings(
        window=_WINDOW[within.unit if within else None],
        size=floor(within.size) if within and within.unit is Unit.EVENTS else 0,
        partitioned=bool(pattern.partition),
        shared_clock=within is None or within.unit is not Unit.ATTRIBUTE,
        consume=update.CONSUME_NOTHING if listed else _CONSUME[pattern.consume],
        resolve=0 if listed else _RESOLVE.get(pattern.strategy, 0),
    )


def _distribution(pattern: Pattern) -> Distribution:
    if pattern.consume is Consume.ANY:
        return Distribution.SINGLE
    if pattern.partition:
        return Distribution.KEYED
    sliceable = pattern.within is not None and pattern.consume is Consume.NONE
    return Distribution.SLICED if sliceable else Distribution.SINGLE
