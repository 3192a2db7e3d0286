"""`Layout`: how the events of a query are spread over tasks, and which of them travel.

*keyed*: all events of a match share a key, and a task has whole keys. *sliced*: no key,
but a window: the time line (or the line of positions) is cut; a slice also reads the
window before it, and reports the matches that end in itself. *single*: neither.

An event on which no test of the automaton passes can be dropped, unless its place counts:
`:`, STRICT and windows of EVENTS count events that they do not look at. Inside a key that
count is taken in Python, over rows that carry nothing but their key and time; across the
whole stream (`ranked`) Spark numbers the events first, in one more shuffle, and what is
left travels with its number.

A key whose share of the events is too large for one task is cut into slices as well,
where a window in time allows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cernis.events.order import Scale
from cernis.pattern.predicate import TIME
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.plan.plan import Distribution, Plan
from cernis.spark.requirements import compared


@dataclass(frozen=True, slots=True)
class Layout:
    """How a query is spread."""

    distribution: Distribution
    ranked: bool = False
    """Events are numbered over the whole stream before any is dropped."""
    gaps: bool = False
    """Of those dropped then, one must stay wherever there were some: something lay between."""
    cut: bool = False
    """Slices of time are possible."""
    places: str = ""
    """Why events that no test passes must travel all the same; empty: they need not."""
    parallel: str = ""
    """For a single task: what would make it many."""


def layout(plan: Plan, *, timed: bool, countable: bool = True) -> Layout:
    """The layout of a plan.

    `timed`: there is a time column. `countable`: reading the events twice gives them the
    same order, so that some can be counted before others are numbered.
    """
    pattern = plan.pattern
    places = _places(pattern, timed)
    if pattern.consume is Consume.ANY:
        advice = "CONSUME BY ANY looks at the whole stream; CONSUME BY PARTITION would not"
        return Layout(Distribution.SINGLE, places=places, parallel=advice)
    in_time = _in_time(pattern, timed)
    free = pattern.consume is Consume.NONE
    if pattern.partition:
        return Layout(Distribution.KEYED, cut=in_time and free, places=places)
    in_events = pattern.within is not None and pattern.within.unit is Unit.EVENTS
    keyed = plan.key is not None and free and (timed or not _asks_time(pattern))
    if in_events and not countable:
        return Layout(Distribution.SINGLE, places=places, parallel=_advice(pattern, timed))
    if keyed or (free and (in_time or in_events)):
        distribution = Distribution.KEYED if keyed else Distribution.SLICED
        if in_events:
            return Layout(distribution, ranked=True, gaps=pattern.contiguous)
        return Layout(distribution, cut=in_time, places=places)
    return Layout(Distribution.SINGLE, places=places, parallel=_advice(pattern, timed))


def streamed(plan: Plan) -> Layout:
    """The layout of a plan on a stream that goes on.

    Slices have no place there: they would have to wait for each other. Answers that are given
    once are remembered in one place. `cut` says that the state is what lies in the window.
    """
    pattern = plan.pattern
    spread = layout(plan, timed=True, countable=False)
    keyed = spread.distribution is Distribution.KEYED and plan.head is None
    advice = spread.parallel or "a key (PARTITION BY, or a comparison by = that all events share)"
    return Layout(
        Distribution.KEYED if keyed else Distribution.SINGLE,
        cut=_in_time(pattern, True) and pattern.consume is Consume.NONE and plan.head is None,
        places=spread.places,
        parallel="" if keyed else advice,
    )


def window_in_ticks(pattern: Pattern, scale: Scale) -> int | None:
    """How far back in time a match reaches, for a window in time."""
    within = pattern.within
    if within is None or not _in_time(pattern, True):
        return None
    if within.plain:
        return scale.plain_ticks(within.size, within.strict)
    return scale.ticks(within.size)


def _places(pattern: Pattern, timed: bool) -> str:
    """What counts events that it does not look at."""
    if pattern.within is not None and pattern.within.unit is Unit.EVENTS:
        return "WITHIN … EVENTS counts every event"
    if not timed and _asks_time(pattern):
        return "without a time column, times are the places of events"
    if pattern.contiguous:
        strict = pattern.strategy is Strategy.STRICT
        return f"{'STRICT' if strict else repr(':')} asks that nothing lies between"
    return ""


def _asks_time(pattern: Pattern) -> bool:
    """Whether the query itself speaks of times, other than by a window in units of time."""
    if pattern.within is not None and pattern.within.plain:
        return True
    return TIME.name in compared(pattern)


def _in_time(pattern: Pattern, timed: bool) -> bool:
    within = pattern.within
    return timed and within is not None and (within.unit is Unit.TIME or within.plain)


def _advice(pattern: Pattern, timed: bool) -> str:
    if pattern.consume is Consume.PARTITION:
        return "CONSUME BY PARTITION without PARTITION BY is one partition: name its key"
    if pattern.within is None:
        return "a key (PARTITION BY, or a comparison by = that all events share) or a WITHIN"
    if pattern.within.unit is Unit.ATTRIBUTE and timed:
        return "a key (PARTITION BY), or a window in time or in EVENTS"
    return "a key (PARTITION BY), or a time column (or row=) for the window"
