"""`Layout`: how the events of a query are spread over tasks, and which of them travel.

*keyed*: all events of a match share a key, and a task has whole keys. *sliced*: no key,
but a window, or gaps or `:` that bound a match: the time line (or the line of positions) is cut; a
slice reports the matches that end in itself. It also reads as far back as a match can reach, and
with WITHOUT as far ahead as a deadline. *single*: neither.

An event on which no test of the automaton passes is irrelevant and dropped, unless its position
counts: `:`, STRICT, windows of EVENTS and FORGET AFTER count irrelevant events too. Inside a key,
Python counts them, over rows that carry only their key and time. Across the whole stream
(`ranked`) Spark numbers all events first, in one more shuffle, and the relevant ones travel with
their numbers. Where more than a window counts positions (WITHOUT … EVENTS, gaps, `:` without a
window), all events of a slice travel, and Python counts them.

A key with too many events for one task is cut into slices as well, if time bounds its matches.

Does not import Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from cernis.events.order import Scale
from cernis.pattern.predicate import TIME
from cernis.pattern.query import Consume, Pattern, Strategy, Unit
from cernis.plan.plan import Distribution, Plan
from cernis.plan.reach import bound_match, is_bounded_in_events, is_bounded_in_time
from cernis.run.requirements import compared_attributes


@dataclass(frozen=True, slots=True)
class Layout:
    """How a query is spread over tasks."""

    distribution: Distribution
    ranked: bool = False
    """Events are numbered over the whole stream before any is dropped."""
    gaps: bool = False
    """One irrelevant event stays wherever some lay between relevant ones."""
    cut: bool = False
    """Slices of time are possible."""
    why_all: str = ""
    """Why irrelevant events travel, too; empty if they do not."""
    parallel: str = ""
    """For a single task: what would make the query parallel."""
    key: tuple[str, ...] = ()
    """Of solutions of graph patterns: the variables that spread them."""
    repeats: bool = False
    """Tasks may find the same match, by keys that the answer does not show."""
    window: int | None = None
    """How far back a match of solutions reaches, in nanoseconds."""
    ticks: bool = False
    """Timestamps count even if no graph pattern has a solution at them."""

    @property
    def counts_in_slices(self) -> bool:
        """Whether slices of positions hold every event, and are counted in Python."""
        return self.ranked and bool(self.why_all)


def choose_layout(plan: Plan, *, timed: bool, countable: bool = True) -> Layout:
    """Choose the layout of a plan on a batch.

    `timed`: there is a time column. `countable`: reading the events twice gives them the
    same order, so that they can be counted before they are numbered.
    """
    pattern = plan.pattern
    why_all = _why_all_count(pattern, timed)
    if pattern.consume is Consume.ANY:
        advice = "CONSUME BY ANY looks at the whole stream; CONSUME BY PARTITION would not"
        return Layout(Distribution.SINGLE, why_all=why_all, parallel=advice)
    if pattern.suppress is not None:
        if pattern.spreading_groups:
            return Layout(Distribution.KEYED, why_all=why_all)
        advice = "SUPPRESS BY a component of the partition: other values meet in all keys"
        return Layout(Distribution.SINGLE, why_all=why_all, parallel=advice)
    in_time = timed and is_bounded_in_time(pattern)
    if pattern.partition:
        return Layout(Distribution.KEYED, cut=in_time and pattern.is_free, why_all=why_all)
    forgets = pattern.forget is not None  # by the gaps of the whole stream
    otherwise = Layout(Distribution.SINGLE, why_all=why_all, parallel=_advise(pattern, timed))
    if why_all and countable and pattern.is_free and not forgets and is_bounded_in_events(pattern):
        otherwise = Layout(Distribution.SLICED, ranked=True, why_all=why_all)
    if pattern.without:
        if in_time and pattern.is_free:
            return Layout(Distribution.SLICED, cut=True, why_all=why_all)
        return otherwise
    in_events = pattern.within is not None and pattern.within.unit is Unit.EVENTS
    keyed = plan.key is not None and pattern.is_free and (timed or not _refers_to_time(pattern))
    keyed = keyed and not forgets
    inside = Unit.EVENTS in pattern.inner_units
    if in_events and (forgets or inside or not countable):
        return otherwise
    if keyed or (pattern.is_free and (in_time or in_events)):
        distribution = Distribution.KEYED if keyed else Distribution.SLICED
        if in_events:
            return Layout(distribution, ranked=True, gaps=pattern.contiguous)
        return Layout(distribution, cut=in_time, why_all=why_all)
    return otherwise


def choose_stream_layout(plan: Plan) -> Layout:
    """Choose the layout of a plan on a stream.

    Streams have no slices, which would have to wait for each other. Distinct answers need
    one task, which remembers them, and so does a group of EVERY with matches of several keys.
    `cut` says that the state is the events of the window: not where groups are open beside them.
    """
    pattern = plan.pattern
    batch = choose_layout(plan, timed=True, countable=False)
    keyed = batch.distribution is Distribution.KEYED and plan.head is None
    keyed = keyed and not pattern.merges_best  # batches of rules have no other merge
    advice = batch.parallel or "a key (PARTITION BY, or a comparison by = that all events share)"
    grouping = pattern.grouping
    stays_open = grouping is not None and not grouping.end
    if keyed and grouping is not None and stays_open:
        named = bool(pattern.partition) and {*pattern.components} <= {*grouping.components}
        keyed, advice = named, "GROUP BY every component of the partition"
    return Layout(
        Distribution.KEYED if keyed else Distribution.SINGLE,
        cut=_has_time_window(pattern, True)
        and pattern.is_free
        and plan.head is None
        and not pattern.without
        and not stays_open,
        why_all=batch.why_all,
        parallel="" if keyed else advice,
    )


def back_in_ticks(pattern: Pattern, scale: Scale) -> int | None:
    """Return how far back in time a match and its WITHOUT … BEFORE reach; None: no bound."""
    within, before = pattern.within, pattern.absent_before
    if within is not None and within.plain:
        back = scale.plain_ticks(within.size, within.strict)
    else:
        bound = bound_match(pattern)
        if bound is None:
            return None
        back = scale.ticks(bound)
    return back + (0 if before is None else scale.ticks(before.within.size))


def ahead_in_ticks(pattern: Pattern, scale: Scale) -> int:
    """Return how far ahead of a match the deadline of WITHOUT … FOR lies."""
    after = pattern.absent_after
    return 0 if after is None else scale.ticks(after.within.size)


def back_in_events(pattern: Pattern) -> int:
    """Return how far back in events a bounded match and its WITHOUT … BEFORE reach."""
    bound, before = bound_match(pattern, Unit.EVENTS), pattern.absent_before
    assert bound is not None
    return floor(bound) + (0 if before is None else floor(before.within.size))


def ahead_in_events(pattern: Pattern) -> int:
    """Return how far ahead of a match the event lies that is beyond its deadline."""
    after = pattern.absent_after
    return 0 if after is None else floor(after.within.size) + 1


def _why_all_count(pattern: Pattern, timed: bool) -> str:
    """Return what counts irrelevant events, in words; empty: nothing does."""
    if pattern.within is not None and pattern.within.unit is Unit.EVENTS:
        return "WITHIN … EVENTS counts every event"
    if Unit.EVENTS in pattern.inner_units:
        return "a gap or WITHIN in EVENTS counts every event"
    if not timed and _refers_to_time(pattern):
        return "without a time column, times are the places of events"
    if pattern.contiguous:
        strict = pattern.strategy is Strategy.STRICT
        return f"{'STRICT' if strict else repr(':')} asks that nothing lies between"
    for absence in pattern.without:
        if absence.within.unit is Unit.EVENTS:
            return "WITHOUT … EVENTS counts every event"
        guard = replace(pattern, formula=absence.formula, without=())
        if why := _why_all_count(guard, timed):
            return why
    if pattern.forget is not None:
        return "FORGET AFTER counts the time since any event"
    return ""


def _refers_to_time(pattern: Pattern) -> bool:
    """Return whether the query refers to times, other than by a window in units of time."""
    if pattern.within is not None and pattern.within.plain:
        return True
    return TIME.name in compared_attributes(pattern)


def _has_time_window(pattern: Pattern, timed: bool) -> bool:
    within = pattern.within
    return timed and within is not None and (within.unit is Unit.TIME or within.plain)


def _advise(pattern: Pattern, timed: bool) -> str:
    if pattern.strategy is Strategy.LONGEST:
        return "a key (PARTITION BY): LONGEST compares matches of all ends"
    if pattern.ranks_intervals:
        return "a key (PARTITION BY): LIMIT … EVERY compares matches of all ends"
    if pattern.without:
        return "a key (PARTITION BY), or WITHIN in the unit of WITHOUT, time or EVENTS"
    if pattern.forget is not None:
        return "a key (PARTITION BY): FORGET AFTER looks at the whole stream"
    if pattern.consume is Consume.PARTITION:
        return "CONSUME BY PARTITION without PARTITION BY is one partition: name its key"
    if pattern.within is None:
        return "a key (PARTITION BY, or a comparison by = that all events share) or a WITHIN"
    if pattern.within.unit is Unit.ATTRIBUTE and timed:
        return "a key (PARTITION BY), or a window in time or in EVENTS"
    return "a key (PARTITION BY), or a time column (or row=) for the window"
