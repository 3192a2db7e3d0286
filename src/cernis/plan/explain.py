"""Describe a plan: its class and why, its indexes, how it can be distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor

from cernis.automata.correlated.between import How, Verdict, hardness
from cernis.automata.correlated.mermaid import draw_pcea
from cernis.automata.correlated.pcea import ANY_DISTANCE, Apart, PassedStage, WeightBound
from cernis.automata.unary.construct import compares_events
from cernis.automata.unary.mermaid import draw_cea
from cernis.engine.correlated.tables import CorrelatedTables, store_of
from cernis.engine.dag.records import RECENT, SORTED, UNION, UNLIKE
from cernis.integers import count_noun
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Consume, Overall, Pattern, Strategy, Unit, counts_only
from cernis.pattern.rising import find_direction
from cernis.pattern.selection import group_terms, list_distinct
from cernis.pattern.variables import starred_variables
from cernis.pattern.write import (
    write_condition,
    write_duration,
    write_formula,
    write_gap,
    write_name,
    write_operand,
    write_reference,
    write_window,
)
from cernis.plan.absence import link_guard
from cernis.plan.load import describe_load
from cernis.plan.plan import Distribution, Guarantee, Plan, list_comparisons
from cernis.plan.reach import is_bounded_in_time
from cernis.plan.report import PlanReport
from cernis.views.automaton import AutomatonView
from cernis.views.describe_automaton import DrawnCea, DrawnPcea, describe_cea, describe_pcea

WAITS_UNBOUNDED = (
    "it may wait until the input ends (add WITHIN, FORGET AFTER, or ':' or gaps between events)"
)
"""What a user should know of LONGEST where nothing bounds how long a match waits."""
WAITS_FOR_INDEXES = (
    "it may wait until the input ends (add WITHIN: indexes by order and by != do not see that a "
    "run is broken)"
)
"""The same where the formula has a bound that the indexes do not see."""


def describe_unbounded_wait(plan: Plan) -> str:
    """Return what makes a match of LONGEST wait until the input ends; "" if nothing does."""
    if plan.pattern.waits_unbounded:
        return WAITS_UNBOUNDED
    return WAITS_FOR_INDEXES if plan.waits_unbounded else ""


@dataclass(frozen=True, slots=True)
class Explanation(PlanReport):
    """The plan of a query over events."""

    plan: Plan
    notes: tuple[str, ...] = ()
    query: str = ""
    """The query as it was written, where it was not CEQL."""
    decided: tuple[str, ...] = ()
    """The conditions that the automaton has taken up."""
    rate: float | None = None
    """How many events come in a second, if somebody asks what they take."""

    def mermaid(self) -> str:
        unary, tables = self.plan.unary, self.plan.tables
        if tables is not None:
            return draw_pcea(tables.pcea)
        return draw_cea(unary.cea) if unary is not None else ""

    def automaton(self) -> AutomatonView | None:
        drawn = describe_automaton(self.plan)
        return None if drawn is None else drawn.view

    def list_entries(self) -> Iterator[tuple[str, Sequence[str]]]:
        plan = self.plan
        yield "query", (self.query or str(plan.pattern)).splitlines()
        yield "class", _describe_guarantee(plan)
        how = "by the automaton" if plan.runs is None else "while reading, by counts along the run"
        decided = [f"{condition}: {how}" for condition in self.decided]
        yield "conditions", [*decided, *_describe_conditions(plan)]
        yield "q-tree", plan.correlated.tree if plan.correlated else ()
        yield "indexes", _describe_indexes(plan)
        yield "answers", [plan.answers] if plan.answers else []
        yield "tables", _describe_tables(plan)
        yield "without", _describe_absence(plan)
        yield "groups", _describe_groups(plan)
        yield "order", _describe_order(plan)
        yield "suppress", _describe_suppress(plan)
        yield "window", [_describe_window(plan)]
        yield "partition", _describe_partition(plan)
        yield "strategy", _describe_strategy(plan)
        yield "events", [_describe_relevance(plan)]
        yield "distributed", [_describe_distribution(plan)]
        yield "load", [] if self.rate is None else [*describe_load(plan, self.rate)]
        yield "note", [*_list_determinized(plan), *plan.notes, *self.notes]
        yield "warning", [line for one in plan.warnings for line in one.splitlines()]
        yield "automaton", _describe_automaton(plan)


def describe_automaton(plan: Plan) -> DrawnCea | DrawnPcea | None:
    """Return the automaton of a plan as people see it."""
    shown = frozenset(starred_variables(plan.pattern.formula))
    if plan.tables is not None:
        own = plan.correlated.drawn if plan.correlated is not None else None
        return describe_pcea(own or plan.tables.pcea, shown)
    return None if plan.unary is None else describe_cea(plan.unary.cea, shown)


_CLASSES = {
    Guarantee.UNARY: (
        "unary: every condition looks at one event at a time",
        "per event: O(automaton), whatever the window and the partial matches",
        "between two matches: linear in the match",
    ),
    Guarantee.CHAIN: (
        "chain: neighbours in a match are compared by = and !=",
        "per event: O(automaton) amortized, whatever the window and the partial matches",
        "between two matches: linear in the match",
    ),
    Guarantee.HIERARCHICAL: (
        "hierarchical: events in any order, joined by equal values that nest",
        "per event: O(automaton) amortized, whatever the window and the partial matches",
        "between two matches: linear in the match",
    ),
    Guarantee.ORDERED: (
        "ordered: neighbours in a match are compared by < <= > >=",
        "per event: O(automaton · log(partial matches with the same key))",
        "between two matches: linear in the match, times that logarithm",
    ),
    Guarantee.RESIDUAL: (
        "residual: some conditions can only be checked on candidates",
        "per event: the cost of the conditions that are indexed",
        "between two matches: no bound; a budget guards the number of candidates",
    ),
}


def _describe_guarantee(plan: Plan) -> list[str]:
    name, *costs = _CLASSES[plan.guarantee]
    if plan.guarantee is Guarantee.ORDERED and plan.tables is not None:
        gaps = {gap for gap in plan.tables.gaps if gap is not None}
        if plan.tables.has_middles:
            name = "ordered: events are compared across others, as if they were neighbours"
        elif gaps == {ANY_DISTANCE} and not plan.tables.ordered:
            name = "ordered: equal values are compared across an event, which a search tree keeps"
        elif gaps:
            name = "ordered: neighbours in a match lie within a gap, or are compared by < <= > >="
        elif not plan.tables.ordered:
            name = "ordered: what must be absent takes partial matches out of a search tree"
    lines = [name, *_explain_residual(plan), *costs]
    if counts_only(plan.pattern) and plan.can_aggregate:
        return [*lines, "counting: per event, whatever the window and the matches; none are kept"]
    if plan.runs is not None and (plan.runs.cuts or plan.runs.takes_part):
        return [*lines, "counting and sampling: by listing"]
    if not plan.listed and _counts_stars(plan):
        counting = "counting: without enumerating where matches are many; sampling: by listing"
        return [*lines, counting]
    if not plan.listed:
        return [*lines, f"counting and sampling: {_describe_counting(plan)}"]
    if plan.exact:
        lines.append(f"listed: {_explain_listed(plan)}")
    return [*lines, "counting and sampling: by listing"]


def _explain_residual(plan: Plan) -> list[str]:
    found = plan.correlated
    if found is None or plan.guarantee is not Guarantee.RESIDUAL:
        return []
    if found.pcea is None:
        return [f"no index is kept: {found.refused}"]
    return [f"not hierarchical: {found.broken}"] if found.broken else []


def _explain_listed(plan: Plan) -> str:
    pattern, found = plan.pattern, plan.correlated
    if pattern.strategy is not Strategy.ALL:
        if found is None:
            return (
                f"{pattern.strategy.value} where a match may begin with NOT is decided one by one"
            )
        return f"{pattern.strategy.value} is decided match by match"
    if pattern.consume is not Consume.NONE:
        return f"CONSUME BY {pattern.consume.value} is decided match by match"
    if found is not None and not found.unique:
        return "the same match may be found in several ways, and is kept once"
    return "where the window's attribute is NULL a match has no start"


def _list_determinized(plan: Plan) -> tuple[str, ...]:
    found = plan.correlated
    return found.notes if found is not None and found.unique else ()


def _lists_to_count(tables: CorrelatedTables) -> bool:
    """Whether numbers of matches are found by listing them."""
    return bool(tables.apart or tables.bounds or tables.is_timed or tables.has_middles)


def _counts_stars(plan: Plan) -> bool:
    """Whether matches are counted for all centres of a star at once.

    The values of the centre that are compared rise, or fall, with the same attribute.
    """
    if plan.tables is None:
        return False
    sides = (side for leaf in list_comparisons(plan.pattern) for side in (leaf.left, leaf.right))
    directions = {side.attribute.name: find_direction(side.attribute) for side in sides}
    names = [
        {order.earlier for link in star.fits for order in link.ordered}
        for star in plan.tables.stars
    ]
    followed = [{directions.get(name) for name in own} for own in names if len(own) > 1]
    return bool(names) and all(len(own) == 1 and None not in own for own in followed)


def _describe_counting(plan: Plan) -> str:
    tables = plan.tables
    if tables is not None and (tables.apart or tables.is_timed or tables.has_middles):
        return "by listing"
    if tables is not None and any(store.kind != UNION for store in tables.stores):
        return "without enumerating, in the number of neighbours that can be compared"
    return "without enumerating"


_HOW = {
    How.EQUAL: "by an index on equal values",
    How.DIFFERENT: "by an index on different values",
    How.ORDERED: "by an ordered index",
    How.NEXT: "by taking runs out of the index",
    How.ABSENT: "by the latest start of what must be absent",
    How.LEAVING: "by taking the partial matches that it forbids out of the index",
    How.GAP: "by an index in the order of time",
    How.UNARY: "by the event alone",
    How.CANDIDATE: "on each candidate",
}
_WHILE_LISTING = "while listing, once both events are chosen"


def _describe_conditions(plan: Plan) -> list[str]:
    """Return a line for each condition: how it is decided, and why."""
    found = plan.correlated
    if found is None:
        return []
    if not found.verdicts:
        return [f"{text}: on each candidate" for text in _list_residual(plan.pattern.formula)]
    early = {_write_apart(plan, condition): _WHILE_LISTING for condition in found.apart}
    verdicts = _merge_verdicts(found.verdicts)
    if plan.tables is not None:
        early |= {bound.text: _describe_bound(bound) for bound in plan.tables.bounds}
    if plan.threshold is not None:
        early[plan.threshold.text] = "candidates come in the order of this value, up to it"
    return [f"{v.text}: {early.get(v.text) or _describe_how(v)} ({v.why})" for v in verdicts]


def _merge_verdicts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return a verdict for each text: one condition may be several comparisons."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.text, []).append(verdict)
    return [
        Verdict(text, max(own, key=hardness).how, " and ".join(dict.fromkeys(v.why for v in own)))
        for text, own in found.items()
    ]


def _describe_bound(bound: WeightBound) -> str:
    if bound.is_extreme:
        return "on each candidate, which is left as soon as its values lie too far apart"
    if bound.attribute is None:
        return "on each candidate, which is left as soon as it counts more"
    return "on each candidate, which is left as soon as the sum is beyond, if values have one sign"


def _describe_how(verdict: Verdict) -> str:
    if verdict.how is How.ORDERED and write_name(pred.TIME.name) in verdict.text:
        return "by the order of time"
    return _HOW[verdict.how]


def _write_apart(plan: Plan, apart: Apart) -> str:
    def side(variable: str, name: str) -> pred.Reference:
        return pred.Reference(variable, plan.calculated.get(name) or pred.Attribute.named(name))

    left = side(apart.variable, apart.attribute)
    right = side(apart.other, apart.other_attribute)
    compared = pred.Compare(apart.op, left, right)
    for leaf in list_comparisons(plan.pattern):
        if replace(leaf, origin=None, reach=None) == compared:
            return write_condition(leaf)
    return write_condition(compared)


def _name_stage(stage: PassedStage, names: Sequence[str]) -> str:
    """Return what runs wait for; with what that waits for, if it is a centre itself."""
    inner = ", ".join(_name_stage(each, names) for each in stage.after)
    return f"{names[stage.state]}, after {inner}" if inner else names[stage.state]


def _describe_indexes(plan: Plan) -> list[str]:
    """Return a line for each index of partial matches."""
    tables = plan.tables
    if tables is None:
        return []
    names = tables.pcea.names
    lines = []
    rays, others = (
        {store_of(s.state, s.link) for s in tables.pcea.sources if (s.link.ray is None) is plain}
        for plain in (False, True)
    )
    for store in tables.stores:
        by = " and ".join(store.column) or "nothing"
        kind = "set"
        if store.kind == UNLIKE:
            kind = f"list with back pointers over {', '.join(a for a, _ in store.values)}"
        ordered, guard, _ = (store.ordered or "").partition(" unless ")
        ordered, _, _ = ordered.partition(" once ")
        ordered, _, _ = ordered.partition(" as ray ")
        is_ray = store.kind == SORTED and store in rays - others
        sorted_by, arrow, _ = ordered.partition(" -> ")
        final, stage = tables.waiting.get(store, (store, -1))
        stages = tables.ready[final].once if final in tables.ready else ()
        fits = stages[stage].fits if stage >= 0 else None
        if fits is not None and fits.ordered:
            sides = dict.fromkeys(order.earlier for order in fits.ordered)
            kind = f"search tree over {' to '.join(sides)}"
        elif stage >= 0:
            kind = "search tree in the order of positions"
        elif store.kind == SORTED:
            kind = f"search tree over {sorted_by}" if sorted_by else "search tree"
            if sorted_by == f"[{write_gap(ANY_DISTANCE)}]" or (is_ray and not sorted_by):
                kind = "search tree in the order of positions"
            elif sorted_by.startswith("["):
                reach = sorted_by[1:-1].lower()
                kind = f"search tree in the order of time, each run for {reach}"
        if store.kind == RECENT:
            name, reach = sorted_by.rsplit(" [", 1)
            kind = f"search tree over {name}, each run for {reach[:-1].lower()}"
        facts = [f"a {kind} for each {by}" if store.column else f"one {kind}"]
        if stage >= 0:
            which = "one that fits of " if fits is not None else ""
            facts.append(f"where runs wait for {which}{_name_stage(stages[stage], names)}")
        elif stages:
            passed = [names[each.state] for each in stages]
            are = "are" if len(passed) > 1 else "is"
            facts.append(f"once {', '.join(passed)} {are} there")
        if is_ray and stage < 0:
            facts.append(f"asked for what {'fits' if sorted_by else 'took'} the event before")
        if arrow:
            facts.append("runs leave it with the next that fits")
        if guard:
            facts.append("runs leave it with what must be absent")
        if store.contiguous:
            facts.append("of the event right before")
        if store.strict:
            facts.append("with an earlier timestamp")
        if store.collapsed:
            kept = "group" if guard else "latest start"
            facts = [f"the {kept} for each {by}" if store.column else f"one {kept}"]
        lines.append(f"after {names[store.state]}: {', '.join(facts)}")
    return [*dict.fromkeys(lines)]


def _list_residual(formula: cel.Formula) -> Iterator[str]:
    for node in cel.walk(formula):
        match node:
            case cel.Filter(condition=condition) if compares_events(condition):
                yield f"FILTER {write_condition(condition)}"
            case cel.Sequence(parts=parts):
                for i, part in enumerate(parts[1:], start=1):
                    yield from _list_checks(node.separator_before(i), part)
            case cel.Iterate(body=body):
                yield from _list_checks(node.separator, body)
            case cel.Within(window=window):
                yield f"WITHIN {write_window(window)}"
            case cel.PartitionBy(keys=keys):
                named = ", ".join(
                    f"{key.variable}[{key.attribute.name}]" if key.variable else key.attribute.name
                    for key in keys
                )
                yield f"PARTITION BY [{named}]"


def _list_checks(separator: cel.Separator, after: cel.Formula) -> Iterator[str]:
    if separator.next:
        yield f"-> {write_formula(after)}"
    if separator.gap is not None:
        yield f"[{write_gap(separator.gap)}] before {write_formula(after)}"


def _describe_absence(plan: Plan) -> list[str]:
    """Say what must be absent, how that is decided, and what waits for how long."""
    lines = []
    for absence in plan.pattern.without:
        links = link_guard(plan.pattern, absence)
        written = write_operand(absence.formula)
        length = write_window(absence.within).lower()
        if absence.before:
            lines.append(f"{written} in the {length} before a match: decided when the match ends")
        else:
            lines.append(f"{written} in the {length} after a match: a match waits for so long")
        for pair in links.equal:
            inside, outside = write_reference(pair.inside), write_reference(pair.outside)
            lines.append(f"{inside} = {outside}: by an index on equal values")
        for condition in links.residual:
            pairs = "each pair with equal values" if links.equal else "each pair"
            lines.append(f"{write_condition(condition)}: on {pairs}, within the budget")
        if links.is_free:
            lines.append("per event: O(automaton); per match and occurrence: O(1) amortized")
    after = plan.pattern.absent_after
    if after is not None:
        clock = (
            "an event of its key beyond that"
            if after.within.unit is Unit.EVENTS
            else ("an event of the input beyond that time, or the watermark")
        )
        lines.append(f"certain with {clock}; at the end of the input with complete=True")
    return lines


_ONE_PER_END = (Strategy.LAST, Strategy.ANY)
"""The strategies that choose one set of events at an end, and not by its start alone."""


def _describe_groups(plan: Plan) -> list[str]:
    """Say what aggregates over the matches of a group cost, and when a group is reported."""
    grouping = plan.pattern.grouping
    if grouping is None:
        return []
    cost = "matches are listed, each adds its own values: linear in the matches"
    measured = any(True for term in group_terms(plan.pattern) for _ in pred.variables_of(term))
    tables = plan.tables
    strategy = plan.pattern.strategy
    is_listed = plan.listed or strategy is Strategy.MAX
    is_bounded = tables is not None and (tables.is_timed or tables.has_middles)
    if not is_listed and not measured and not is_bounded:
        cost = "matches are counted, not listed"
        if strategy is Strategy.LONGEST:
            cost += ": linear in the events between the start and the end of one"
    elif not plan.listed and tables is not None and not _lists_to_count(tables):
        cost = (
            "sums and least values on partial matches, no match is listed: linear in those that an "
            "end reaches (numbers; other values: listed)"
        )
    elif plan.listed and strategy is not Strategy.ALL:
        cost = (
            "all matches are listed, within the budget, and those that the strategy keeps add "
            "their values: linear in all"
        )
    elif strategy in _ONE_PER_END:
        cost = (
            "the events that the strategy chooses at each end are listed and add their values: "
            "linear in these"
        )
    elif strategy in (Strategy.MAX, Strategy.LONGEST):
        cost = (
            "the matches that the strategy keeps at each end are listed and add their values: "
            "linear in their events"
        )
    if plan.can_aggregate:
        cost = "a constant cost per event, no match is made (numbers; other values: listed)"
    if grouping.of_start and plan.can_aggregate_starts:
        cost = (
            "a cost per event and interval with starts in its window, no match is made (numbers; "
            "other values: listed)"
        )
    if list_distinct(plan.pattern) or (grouping.of_start and not plan.can_aggregate_starts):
        what = "different values" if list_distinct(plan.pattern) else "starts"
        cost = f"matches are listed, within the budget, for their {what}: linear in the matches"
    when = "a group is reported when the input ends"
    if grouping.end:
        when = "a group is reported at its end position"
    elif grouping.of_start and plan.pattern.group_wait is not None:
        when = "a group is reported when time has passed its interval and the window after it"
    elif grouping.every is not None and not grouping.of_start:
        when = "a group is reported when time has passed its interval"
    return [cost, when]


def _describe_order(plan: Plan) -> list[str]:
    """Say how ORDER BY finds the first matches, and when they come."""
    order = plan.pattern.order
    if order is None:
        return []
    how = "matches are listed, within the budget, and sorted"
    if plan.pattern.limit is not None:
        if plan.weights is not None:
            how = "best first on the compact set, by weights of events: the others are not listed"
        elif plan.listed or plan.unary is None:
            how = f"{how}: events are compared"
        else:
            how = f"{how}: the term is no sum over events"
    if order.overall is not None:
        of = "the input" if order.overall is Overall.INPUT else "each partition"
        kept = f"state: the {plan.pattern.limit} best of {of} so far, with their events"
        return [how, f"the best of {of} are reported when the input ends", kept]
    if order.every is None and plan.pattern.limit is not None:
        limit = f"LIMIT {plan.pattern.limit}"
        return [how, f"{limit} counts the matches of each end; {limit} OVERALL those of the input"]
    when = "the best of an interval are reported when time has passed it"
    return [how] if order.every is None else [how, when]


def _describe_tables(plan: Plan) -> list[str]:
    """Say how tables are joined to events."""
    lines = []
    for join in plan.pattern.joins:
        fate = "stay, with NULL" if join.outer else "are not in the stream"
        lines.append(f"{join} to {join.stream}: a look-up per event; events without a row {fate}")
    return lines


def _describe_suppress(plan: Plan) -> list[str]:
    """Say what silences matches, how they are counted, and what is kept."""
    suppress = plan.pattern.suppress
    if suppress is None:
        return []
    by, length = ", ".join(suppress.names), write_duration(suppress.length).lower()
    how = "all matches are listed, within the budget"
    if plan.pattern.suppresses_by_key and not plan.listed and plan.pattern.order is None:
        how = "silenced matches are counted, not listed"
    kept = "a time and a number for each key that is silent or has silenced a match"
    return [f"one match of {by} silences the next {length}", how, f"state: {kept}"]


def _describe_window(plan: Plan) -> str:
    within = plan.pattern.within
    if within is None and plan.gaps_in_time:
        return "none: partial matches leave with the gap"
    if within is None:
        until = "for ever" if plan.pattern.forget is None else "until they are forgotten"
        return f"none: partial matches are kept {until} (WITHIN bounds memory)"
    if within.unit is Unit.EVENTS:
        return f"{_count(within.size, 'event')}: a match spans at most {floor(within.size) + 1}"
    if within.unit is Unit.TIME:
        return _count(within.size / 10**9, "second")
    if within.plain:
        least = "less than " if within.strict else ""
        return f"{least}{_write_number(within.size)} in the unit of the time column"
    name = within.attribute.name if within.attribute else ""
    return f"{_count(within.size, 'unit')} of {name}, which must never decrease"


def _count(size: Fraction, noun: str) -> str:
    return f"{_write_number(size)} {noun}{'' if size == 1 else 's'}"


def _write_number(size: Fraction) -> str:
    return str(size.numerator) if size.denominator == 1 else str(float(size))


def _describe_partition(plan: Plan) -> list[str]:
    pattern = plan.pattern
    idle = "" if pattern.forget is None else f"after {write_duration(pattern.forget).lower()}"
    if not pattern.partition:
        return [f"none; an idle stream is forgotten {idle}"] if idle else []
    by = f"by {', '.join(' or '.join(group) for group in pattern.partition)}"
    if idle:
        return [f"{by}; idle keys are forgotten {idle}"]
    if plan.keeps_idle:
        return [f"{by}; idle keys stay: {why_idle_stay(pattern)}"]
    if plan.gaps_in_time:
        return [f"{by}; idle keys leave with the gap"]
    if not pattern.keeps_idle:
        return [f"{by}; idle keys leave with the window"]
    leave = "at once" if not pattern.without else "when WITHOUT needs them no more"
    return [f"{by}; idle keys leave {leave}: a match is a single event"]


def why_idle_stay(pattern: Pattern) -> str:
    """Return why partitions without events keep their state, and what to write."""
    if any(one.within.unit is Unit.EVENTS for one in pattern.without):
        return "WITHOUT … EVENTS counts events inside the key (add FORGET AFTER a time)"
    if pattern.within is None:
        return "without a window, nothing ends (add WITHIN a time, or FORGET AFTER a time)"
    attribute = pattern.within.attribute
    counted = "events" if attribute is None else attribute.name
    return f"the window counts {counted} inside the key (add FORGET AFTER a time)"


def _describe_strategy(plan: Plan) -> list[str]:
    pattern = plan.pattern
    how = {
        Strategy.ALL: "every match",
        Strategy.STRICT: "by the automaton: no event may be skipped",
        Strategy.NEXT: "by the automaton for each start, then the earliest start",
        Strategy.LAST: "by the latest events, on the compact set",
        Strategy.ANY: "the first of LAST, on the compact set",
        Strategy.MAX: "by the automaton for each start, then those inside others drop",
        Strategy.LONGEST: "by the automaton for each start, then the earliest start of each end",
    }[pattern.strategy]
    if plan.settings.from_earliest:
        how = "the indexes give the earliest start of each end"
        if plan.listed:
            how += "; of equal intervals, match by match"
    elif plan.listed and pattern.strategy is not Strategy.ALL:
        how = "decided match by match"
    elif plan.runs is not None:
        how = "the run of all events that fit, at each end"
        if plan.runs.cuts:
            how = "every start of a run, up to the latest from which its counts are reached"
        if plan.runs.takes_part:
            how = "the longest later part of the run of all events for which its conditions hold"
    lines = [f"{pattern.strategy.value}: {how}"]
    if plan.written is not None and plan.written.strategy is not pattern.strategy:
        lines = ["MAX: every match, as all have as many events: none contains another"]
        if pattern.strategy is Strategy.NEXT:
            lines = ["MAX: the run of all events that fit, at each end: it contains the others"]
    if pattern.strategy is Strategy.LONGEST:
        lines.append(f"a match is pushed when no longer one can come: {_describe_wait(plan)}")
    return lines


def _describe_wait(plan: Plan) -> str:
    """Say how long a match of LONGEST may wait."""
    pattern = plan.pattern
    unbounded = describe_unbounded_wait(plan)
    if unbounded:
        return unbounded
    bounds = []
    if pattern.within is not None:
        bounds.append("the window has passed")
    if pattern.forget is not None:
        bounds.append("its partition is forgotten")
    if not pattern.skips and plan.sees_breaks:
        bounds.append("its run is broken or its gap is too long")
    return f"at the latest when {' or '.join(bounds)}"


def _describe_relevance(plan: Plan) -> str:
    if plan.pattern.contiguous:
        return "contiguity: no event can be passed over while a match waits"
    return "one that no transition can see costs a look-up"


def _describe_distribution(plan: Plan) -> str:
    match plan.distribution:
        case Distribution.KEYED:
            if plan.pattern.partition:
                groups = ", ".join("|".join(group) for group in plan.pattern.spreading_groups)
                return f"keyed: by {groups}"
            key = plan.key or {}
            names = ", ".join(f"{type_}.{name}" for type_, name in sorted(key.items()))
            return f"keyed: by {names}, which all events of a match share"
        case Distribution.SLICED:
            line = "time" if is_bounded_in_time(plan.pattern) else "positions"
            return f"sliced: overlapping slices of {line}, each match where it ends"
        case Distribution.SINGLE:
            if plan.pattern.consume is not Consume.NONE:
                return "single: CONSUME BY looks at all matches before"
            if plan.pattern.suppress is not None:
                return "single: SUPPRESS BY values alone meets all keys (name a component)"
            if plan.pattern.strategy is Strategy.LONGEST:
                return "single: LONGEST compares matches of all ends (add PARTITION BY)"
            if plan.pattern.without:
                units = "WITHIN in the unit of WITHOUT"
                return f"single: WITHOUT looks beyond a match (add PARTITION BY, or {units})"
            return "single: add PARTITION BY or WITHIN to make it parallel"


def _describe_automaton(plan: Plan) -> list[str]:
    if plan.unary is not None:
        cea = plan.unary.cea
        reads = sum(len(reads) for reads in cea.reads)
        return [_write_sizes(cea.size, reads, len(cea.atoms())), *str(cea).splitlines()]
    if plan.tables is None:
        return []
    pcea = plan.tables.pcea
    size = _write_sizes(len(pcea.names), len(pcea.transitions), len(pcea.atoms()))
    return [size, *str(pcea).splitlines()]


def _write_sizes(states: int, transitions: int, predicates: int) -> str:
    named = ((states, "state"), (transitions, "transition"), (predicates, "predicate"))
    return ", ".join(count_noun(n, name) for n, name in named)
