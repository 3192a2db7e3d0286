"""From a pattern to a plan: the cheapest sound runtime, and what it promises.

A plan is made once, here, from a pattern, the conjunctive query that it was lowered from, and
the attributes whose order no index keeps. Sessions, Spark and its workers receive it.

There are two engines: one reads symbols (`unary`), the other also compares events with each
other (`tables`). Either gives matches in one of two ways. *Compact*: the automaton and the
resolution of roots decide the whole query; counting and sampling never enumerate. *Listed*: the
automaton finds candidates. Each is verified where conditions are undecided (`run.check.verify`);
then strategy, projection, consumption and limit apply (`run.stages.sieve`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from math import floor
from typing import Any

from cernis.automata.correlated.between import How
from cernis.automata.correlated.pcea import EVERY_INDEX, Unindexed
from cernis.automata.unary.cea import CEA
from cernis.automata.unary.construct import construct, is_correlated
from cernis.automata.unary.determinize import Deterministic
from cernis.engine import settings
from cernis.engine.correlated.tables import CorrelatedTables
from cernis.engine.settings import Settings
from cernis.engine.unary.tables import UnaryTables
from cernis.errors import BudgetError, WarningNote
from cernis.languages.conjunctive.query import ConjunctiveQuery
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.advice import find_warnings
from cernis.pattern.check import resolve
from cernis.pattern.check.scopes import is_single_event
from cernis.pattern.functions import FUNCTIONS, Function, find_user_functions
from cernis.pattern.predicate import RANK, Attribute
from cernis.pattern.query import Consume, Pattern, Strategy, Unit, Window
from cernis.pattern.rising import is_float
from cernis.pattern.selection import selected_variables
from cernis.pattern.variables import marked_variables
from cernis.pattern.waits import list_waits
from cernis.plan.absence import lists_matches, make_guard_query, needs_every_label
from cernis.plan.bounds import find_bounds
from cernis.plan.correlated import Correlated, plan_correlated
from cernis.plan.distances import is_bounded
from cernis.plan.equal_sizes import drop_idle_max
from cernis.plan.heads import Head, describe_cost, find_collapsible, make_head
from cernis.plan.inner_windows import lower_inner_windows
from cernis.plan.key import find_shared_key
from cernis.plan.lower_terms import find_decimals, lower_terms
from cernis.plan.reach import is_bounded_in_events, is_bounded_in_time
from cernis.plan.required_keys import require_keys
from cernis.plan.run_counts import RunCondition, take_run_counts
from cernis.plan.thresholds import WeightThreshold, can_list_by_weight, find_threshold
from cernis.plan.weights import EventWeight, find_weights
from cernis.plan.whole_runs import is_whole_run, take_whole_runs
from cernis.schema import Kind, Schema, are_mixed, are_times, find_unordered, list_kinds


class Guarantee(Enum):
    """The classes of queries by their cost."""

    UNARY = "unary"
    CHAIN = "chain"
    HIERARCHICAL = "hierarchical"
    ORDERED = "ordered"
    RESIDUAL = "residual"
    LINKED = "linked"


class Distribution(Enum):
    """How a query can run on many machines."""

    KEYED = "keyed"
    SLICED = "sliced"
    SINGLE = "single"


_RESOLVE = {
    Strategy.LAST: settings.RESOLVE_LAST,
    Strategy.ANY: settings.RESOLVE_ANY,
    Strategy.NEXT: settings.RESOLVE_NEXT,
    Strategy.MAX: settings.RESOLVE_MAX,
    Strategy.LONGEST: settings.RESOLVE_LONGEST,
}
_AGGREGATED = (settings.RESOLVE_NOTHING, settings.RESOLVE_NEXT)
"""The resolutions that the sliding aggregator knows."""
_CONSUME = {
    Consume.NONE: settings.CONSUME_NOTHING,
    Consume.PARTITION: settings.CONSUME_PARTITION,
    Consume.ANY: settings.CONSUME_ALL,
}
_WINDOW = {
    None: settings.NO_WINDOW,
    Unit.EVENTS: settings.EVENT_WINDOW,
    Unit.TIME: settings.CLOCK_WINDOW,
    Unit.ATTRIBUTE: settings.CLOCK_WINDOW,
}


@dataclass(frozen=True)
class Unary:
    """An automaton that looks at one event at a time, in its three forms."""

    cea: CEA
    automaton: Deterministic
    tables: UnaryTables

    @classmethod
    def of(cls, cea: CEA, automaton: Deterministic) -> Unary:
        return cls(cea, automaton, UnaryTables(automaton))

    def renew(self) -> Unary:
        """Return the same automaton without the states that it has met."""
        return Unary.of(self.cea, self.automaton.renew())


@dataclass(frozen=True)
class Plan:
    """A query, its automaton, and how it will be run.

    A plan pickles by what it was made from, and a process rebuilds it once.
    """

    pattern: Pattern
    guarantee: Guarantee
    distribution: Distribution
    variables: tuple[str, ...]
    """The variables of a match."""
    listed: bool
    """Matches are listed one by one: conditions are left to check, duplicates to drop, or
    a clause after WITHIN to decide."""
    exact: bool
    """The automaton finds matches; otherwise candidates, to be verified."""
    settings: Settings
    unary: Unary | None = None
    """The automaton that reads symbols; None where `tables` runs instead."""
    correlated: Correlated | None = None
    """For queries that compare events: how, and why."""
    tables: CorrelatedTables | None = None
    """The automaton that compares events; None where `unary` runs instead."""
    notes: tuple[str, ...] = ()
    """Notes for the user, before the first match."""
    warnings: tuple[WarningNote, ...] = ()
    """What the query probably does not mean as it is written."""
    unindexed: Unindexed = EVERY_INDEX
    """What its indexes do not compare."""
    conjunctive: ConjunctiveQuery | None = None
    """The conjunctive query that the pattern was lowered from."""
    head: Head | None = None
    """How answers are read off matches, where they are not the matches."""
    answers: str = ""
    """The cost of reading them, in words."""
    key: Mapping[str, str] | None = None
    """For each type, an attribute that all events of a match share."""
    threshold: WeightThreshold | None = None
    """The sum that must be large enough: candidates come in the order of it."""
    after: Plan | None = None
    """The plan of what must not follow a match (`WITHOUT … FOR`)."""
    before: Plan | None = None
    """The plan of what must not precede a match (`WITHOUT … BEFORE`)."""
    runs: RunCondition | None = None
    """The counts that the events of a match have to reach, beside the automaton."""
    written: Pattern | None = None
    """The pattern before it was rewritten for the automaton; None: it was not, or is not known."""
    _others: dict[Unindexed, Plan] = field(default_factory=dict, compare=False, repr=False)
    """The plans of the same query whose indexes compare less."""
    _right_for: list[Schema] = field(init=False, default_factory=list, compare=False, repr=False)
    """The schema that the query was checked against last."""

    @property
    def answer_names(self) -> list[str] | None:
        """The names of the columns of answers; None: the answers are matches."""
        return None if self.head is None else [column.name for column in self.head.columns]

    def check_schema(self, schema: Schema) -> None:
        """Raise every mistake of the query for events of this schema."""
        if self._right_for != [schema]:
            resolve(self.pattern, schema)
            self._right_for[:] = [schema]

    def for_schema(self, schema: Schema, time: str | Mapping[str, str] | None = None) -> Plan:
        """Return the plan for events of this schema, whose time is in a column (`ts`) each.

        No index keeps the order of text and of long decimals, compares values of several kinds by
        !=, or differences of neighbours that are numbers.
        """
        pairs = {pair for tables in self._tables for pair in tables.different}
        mixed = frozenset(name for pair in pairs if are_mixed(schema, pair) for name in pair)
        rounded = frozenset(
            side.attribute.name
            for plan in (self, *self.guards)
            for leaf in list_comparisons(plan.pattern)
            if not _is_decided(leaf, schema)
            for side in (leaf.left, leaf.right)
        )
        wide = frozenset(
            side.attribute.name
            for plan in (self, *self.guards)
            for leaf in list_comparisons(plan.pattern)
            if is_bounded(leaf) and Kind.INT in list_kinds(schema, _list_sources(leaf))
            for side in (leaf.left, leaf.right)
        )
        ends = {name for tables in self._tables for name in tables.ends}
        wide |= {name for name in ends if self._may_be_wide(name, schema)}
        unordered = find_unordered(schema) if self._tables else frozenset()
        opposites = {
            name
            for name, side in self.calculated.items()
            if isinstance(side.value, pred.Negative) or isinstance(side.term, pred.Opposite)
            if any(source.name in unordered for source in side.sources)
        }
        named = {time} if time is None or isinstance(time, str) else {*time.values()}
        untimed = frozenset({"ts"} if named - {None, "ts"} and self._has_reaches else ())
        exact = frozenset[str]().union(*(stream.decimals for stream in schema.streams))
        sources = {
            name
            for plan in (self, *self.guards)
            for leaf in list_comparisons(plan.pattern)
            for name in _list_sources(leaf)
        }
        whole = {name for name in sources - exact if {*list_kinds(schema, (name,))} == {Kind.INT}}
        decimals = frozenset(
            beside
            for plan in (self, *self.guards)
            for leaf in list_comparisons(plan.pattern)
            for beside in find_decimals(leaf, exact, whole)
        )
        unordered = (unordered | opposites) & self._ordered
        return self.leave_out(Unindexed(unordered, mixed, rounded, wide, untimed, decimals))

    def _may_be_wide(self, name: str, schema: Schema) -> bool:
        """Whether an attribute may have values that are no floats."""
        attribute = self.calculated.get(name) or pred.Attribute.named(name)
        sources = [source.name for source in attribute.sources]
        decimals = frozenset[str]().union(*(stream.decimals for stream in schema.streams))
        kinds = {*list_kinds(schema, sources)}
        return not is_float(attribute) and (
            not kinds <= {Kind.FLOAT} or not decimals.isdisjoint(sources)
        )

    @property
    def _has_reaches(self) -> bool:
        plans = (self, *self.guards)
        return any(leaf.reach for plan in plans for leaf in list_comparisons(plan.pattern))

    @property
    def guards(self) -> tuple[Plan, ...]:
        """The plans of what must be absent."""
        return tuple(plan for plan in (self.after, self.before) if plan is not None)

    @property
    def _ordered(self) -> frozenset[str]:
        """The attributes that an index keeps in order."""
        return frozenset(name for tables in self._tables for name in tables.ordered)

    @property
    def _tables(self) -> list[CorrelatedTables]:
        """The automata that compare events."""
        plans = (self, *self.guards)
        return [plan.tables for plan in plans if plan.tables is not None]

    def leave_out(self, unindexed: Unindexed, *, keep: bool = True) -> Plan:
        """Return the plan whose indexes do not compare this either, and keep it for other events.

        Do not `keep` the plan of attributes that come from outside.
        """
        if self.unindexed.covers(unindexed):
            return self
        plan = self._others.get(unindexed)
        if plan is None:
            plan = make_plan(self.pattern, self.unindexed | unindexed, self.conjunctive)
            plan = replace(plan, warnings=self.warnings, written=self.written)
            if keep:
                self._others[unindexed] = plan
        return plan

    def by_rank(self) -> Plan:
        """Return the plan whose window of events is measured by their rank in the whole stream."""
        within = self.pattern.within
        assert within is not None
        pattern = replace(self.pattern, within=replace(within, attribute=RANK))
        return make_plan(pattern, self.unindexed, self.conjunctive)

    def __reduce__(self) -> tuple[Any, ...]:
        # the functions that users registered travel with the plan that calls them
        functions = find_user_functions(str(self.pattern))
        made_from = self.pattern, self.unindexed, self.conjunctive
        return _restore_plan, (functions, *made_from)

    @property
    def inner_units(self) -> frozenset[Unit]:
        """The units of gaps and WITHINs inside the formulas, and of gaps that conditions give."""
        gaps = (gap for tables in self._tables for gap in tables.gaps)
        return self.pattern.inner_units.union(gap.unit for gap in gaps if gap is not None)

    @property
    def gaps_in_time(self) -> bool:
        """Whether each partial match leaves once the gap after it, in time, has passed."""
        reaches = self.tables.reaches if self.tables is not None else ()
        return bool(reaches) and all(r is not None and r.unit is Unit.TIME for r in reaches)

    @property
    def sees_breaks(self) -> bool:
        """Whether the runtime knows of each partition where its earliest partial match starts.

        Indexes by order and by `!=` do not: they keep what nothing can continue, until the window
        or a gap in time ends it, or the next event does, between neighbours without gaps (`:`).
        """
        if self.tables is None or self.settings.from_earliest or self.gaps_in_time:
            return True
        return bool(self.tables.arrays.store_contiguous.all())

    @property
    def waits_unbounded(self) -> bool:
        """Whether nothing but the end of the input may make a match of LONGEST certain."""
        pattern = self.pattern
        bounded = pattern.within is not None or pattern.forget is not None or self.sees_breaks
        return pattern.waits_unbounded or (pattern.strategy is Strategy.LONGEST and not bounded)

    @property
    def keeps_idle(self) -> bool:
        """Whether a partition keeps some state however long it has no event.

        A formula of single events has no partial matches. WITHOUT … EVENTS waits for events.
        """
        pattern = self.pattern
        waits = any(one.within.unit is Unit.EVENTS for one in pattern.without)
        if waits and pattern.partition and pattern.forget is None:
            return True
        leaves = self.gaps_in_time or is_single_event(pattern.formula)
        return pattern.keeps_idle and not leaves

    @property
    def can_aggregate(self) -> bool:
        """Whether the matches are all accepting runs of the unary automaton, or those of NEXT.

        Then aggregates over them need no match (`cernis.engine.unary.aggregate`).
        """
        settings = self.settings
        is_free = settings.resolve in _AGGREGATED and not settings.consume
        is_free = is_free and self.pattern.limit is None
        is_free = is_free and not self.pattern.without and self.pattern.order is None
        is_free = is_free and self.pattern.suppress is None and self.runs is None
        return self.unary is not None and not self.listed and self.head is None and is_free

    @property
    def can_aggregate_starts(self) -> bool:
        """Whether aggregates per interval of the start need no match: NEXT compares all starts."""
        return self.can_aggregate and not self.settings.resolve

    @property
    def weights(self) -> tuple[EventWeight, ...] | None:
        """The weights of events that ORDER BY adds up; None: matches are listed and sorted."""
        lists = self.unary is None or self.listed or self.runs is not None
        return None if lists else find_weights(self.pattern)

    @property
    def undecided(self) -> str:
        """The first condition that no index decides, and why; empty: there is none."""
        verdicts = self.correlated.verdicts if self.correlated is not None else ()
        left = [each for each in verdicts if each.how is How.CANDIDATE]
        return f"{left[0].text} ({left[0].why})" if left else ""

    @property
    def has_middles(self) -> bool:
        """Whether indexes decide what the first version left to candidates, here or in a guard.

        That is: events with others between them, calculated values by =, and sums.
        """
        plans = (self, *self.guards)
        has_threshold = any(plan.threshold is not None for plan in plans)
        has_equal = any(
            leaf.op in ("=", "!=") and isinstance(leaf.origin, pred.CompareTerms)
            for plan in plans
            for leaf in list_comparisons(plan.pattern)
        )
        far = any(tables.has_far_links for tables in self._tables)
        return has_threshold or has_equal or far

    @property
    def limit(self) -> int | None:
        """LIMIT, where it keeps the latest starts; None where ORDER BY says which."""
        return self.pattern.limit if self.pattern.order is None else None

    @property
    def lists_waiting(self) -> bool:
        """Whether matches are listed to decide WITHOUT."""
        return lists_matches(self.pattern)

    @property
    def chooses_late(self) -> bool:
        """Whether the strategy and SELECT are applied to what WITHOUT leaves."""
        return needs_every_label(self.pattern)

    @property
    def within(self) -> Window | None:
        """The WITHIN of the query; its pattern may have a smaller window."""
        return self.pattern.within if self.conjunctive is None else self.conjunctive.within

    @property
    def calculated(self) -> dict[str, Attribute]:
        """The attributes that the plan calculates, by name."""
        return _find_calculated(self.pattern)

    @property
    def candidate_variables(self) -> tuple[str, ...]:
        """The labels that the automaton writes: the variables of a match, or all for a check."""
        if not self.listed:
            return self.variables
        if self.tables is not None:
            return tuple(sorted(frozenset().union(*self.tables.labels)))
        return tuple(sorted(self.unary.automaton.selected)) if self.unary else ()


def list_comparisons(pattern: Pattern) -> Iterator[pred.Compare]:
    """Return the comparisons of two events."""
    leaves = cel.list_leaves(cel.walk(pattern.formula))
    return (leaf for leaf in leaves if isinstance(leaf, pred.Compare))


def _list_sources(leaf: pred.Compare) -> list[str]:
    """Return the columns that both sides are read from."""
    return [each.name for side in (leaf.left, leaf.right) for each in side.attribute.sources]


def _is_decided(leaf: pred.Compare, schema: Schema) -> bool:
    """Whether a comparison of calculated attributes is its origin, for columns of these kinds."""
    match leaf.origin:
        case pred.CompareNeighbours(is_difference=True, references=references):
            return are_times(schema, (each.attribute.name for each in references))
        case pred.CompareTerms(left=left, right=right) if leaf.op not in ("=", "!="):
            terms = (*pred.walk_term(left), *pred.walk_term(right))
            if any(isinstance(part, pred.ConstantDuration) for part in terms):
                sources = _list_sources(leaf)
                kinds = {*list_kinds(schema, sources)}
                is_text = leaf.reach is not None and leaf.op == "<=" and kinds == {Kind.STRING}
                return kinds in ({Kind.TIMESTAMP}, {Kind.INT}) or is_text
            return {*list_kinds(schema, _list_sources(leaf))} in (set(), {Kind.INT}, {Kind.FLOAT})
    return True


def _find_calculated(pattern: Pattern) -> dict[str, Attribute]:
    leaves = list_comparisons(pattern)
    sides = (side.attribute for leaf in leaves for side in (leaf.left, leaf.right))
    return {side.name: side for side in sides if side.is_calculated}


def make_plan(
    pattern: Pattern,
    unindexed: Unindexed = EVERY_INDEX,
    conjunctive: ConjunctiveQuery | None = None,
    *,
    is_guard: bool = False,
) -> Plan:
    """Return the plan of a checked pattern; its indexes leave out what is `unindexed`.

    A conjunctive query that the pattern was lowered from gives its variables their names. A pattern
    may be the guard of a WITHOUT.
    """
    try:
        return _make_whole_plan(pattern, unindexed, conjunctive, is_guard)
    except BudgetError as error:
        raise error.locate(pattern.source) from None


def _make_whole_plan(
    pattern: Pattern,
    unindexed: Unindexed,
    conjunctive: ConjunctiveQuery | None,
    is_guard: bool,
) -> Plan:
    """Return the plan of a pattern with those of its guards."""
    warnings = write_warnings(pattern) if conjunctive is None else ()
    written = pattern
    pattern, counted = take_run_counts(pattern) if conjunctive is None else (pattern, None)
    pattern = lower_inner_windows(require_keys(pattern))
    pattern = drop_idle_max(take_whole_runs(lower_terms(pattern, unindexed)))
    plan = _plan_formula(pattern, unindexed, conjunctive, is_guard)
    plan = replace(plan, warnings=warnings, written=written)
    if counted is not None:
        return replace(plan, pattern=written, runs=counted)
    if not pattern.without:
        return plan
    after, before = (
        None if one is None else make_plan(make_guard_query(pattern, one), unindexed, is_guard=True)
        for one in (pattern.absent_after, pattern.absent_before)
    )
    return replace(plan, after=after, before=before, unindexed=unindexed)


def write_warnings(pattern: Pattern) -> tuple[WarningNote, ...]:
    """Return the warnings about a checked pattern, with the lines that they are about."""
    return tuple(WarningNote.of(one, pattern.source) for one in find_warnings(pattern))


def _plan_formula(
    pattern: Pattern,
    unindexed: Unindexed,
    conjunctive: ConjunctiveQuery | None,
    is_guard: bool,
) -> Plan:
    """Return the plan of a pattern as if it had no WITHOUT, except for the labels of matches."""
    if is_correlated(pattern.formula):
        selected = frozenset(selected_variables(pattern))
        found = plan_correlated(pattern, selected, unindexed, conjunctive, is_guard=is_guard)
        return make_correlated_plan(pattern, found, unindexed, conjunctive)
    strategy = pattern.strategy
    cea = construct(pattern.formula)
    variables = selected_variables(pattern)
    automaton = Deterministic(cea, variables, strategy, keep_marks=strategy in _RESOLVE)
    listed = strategy in (Strategy.NEXT, Strategy.MAX) and automaton.begins_unmarked()
    listed = listed or needs_every_label(pattern)
    if listed:
        automaton = _build_candidates(pattern, cea)
    head = _make_head(pattern, conjunctive)
    return Plan(
        pattern=pattern,
        guarantee=Guarantee.UNARY,
        distribution=_decide_distribution(pattern),
        variables=variables,
        listed=listed,
        exact=True,
        settings=_make_settings(pattern, listed),
        unary=Unary.of(cea, automaton),
        answers=describe_cost(head) if head is not None else "",
        conjunctive=conjunctive,
        head=head,
    )


def _restore_plan(functions: Mapping[str, Function], *made_from: Any) -> Plan:
    """Return the plan that was pickled, and register the functions that it calls."""
    FUNCTIONS.update(functions)
    return _rebuild_plan(*made_from)


@lru_cache(maxsize=64)
def _rebuild_plan(
    pattern: Pattern, unindexed: Unindexed, conjunctive: ConjunctiveQuery | None
) -> Plan:
    """Return the plan that was pickled; the tasks of a process share its automaton."""
    return make_plan(pattern, unindexed, conjunctive)


def _build_candidates(pattern: Pattern, cea: CEA) -> Deterministic:
    """Return the automaton that writes every label."""
    labels = {name for reads in cea.reads for read in reads for name in read.labels}
    marked = labels | set(marked_variables(pattern.formula))
    return Deterministic(cea, marked, Strategy.ALL, keep_marks=False)


def make_correlated_plan(
    pattern: Pattern,
    found: Correlated,
    unindexed: Unindexed = EVERY_INDEX,
    conjunctive: ConjunctiveQuery | None = None,
) -> Plan:
    """Return the plan of a pattern with the automaton found for it, or where there is none."""
    variables = selected_variables(pattern)
    pcea = found.pcea
    loose = pcea is not None and not pcea.is_chain and _has_attribute_window(pattern)
    from_earliest = _asks_earliest(pattern, found)
    chooses = pattern.strategy is not Strategy.ALL or pattern.consume is not Consume.NONE
    if from_earliest and is_whole_run(pattern.formula):
        chooses = False  # an interval has one set of events: the engine has chosen
    listed = not found.exact or not found.unique or chooses or loose or needs_every_label(pattern)
    key = None
    if pcea is not None and not _looks_between(pattern.formula):
        key = find_shared_key(pcea, _find_calculated(pattern))
    head = _make_head(pattern, conjunctive)
    collapsed: frozenset[int] = frozenset()
    if head is not None and pcea is not None and not listed and not found.apart:
        collapsed = find_collapsible(head, pcea)
    bounds = () if found.exact else find_bounds(pattern.formula)
    threshold = None
    if pcea is not None and not unindexed.far and found.undecided == 1 and can_list_by_weight(pcea):
        threshold = find_threshold(pattern.formula)
    tables = None
    if pcea is not None and threshold is None:
        tables = CorrelatedTables(pcea, collapsed, found.apart, bounds)
    unary = None
    if tables is None:
        cea = construct(pattern.formula, name_atoms=True)
        unary = Unary.of(cea, _build_candidates(pattern, cea))
    return Plan(
        pattern=pattern,
        guarantee=_decide_guarantee(found, tables),
        distribution=_decide_distribution(pattern, key is not None),
        variables=variables,
        listed=listed,
        exact=found.exact,
        settings=replace(_make_settings(pattern, listed=True), from_earliest=from_earliest),
        unary=unary,
        correlated=found,
        tables=tables,
        notes=_write_notes(found, conjunctive),
        answers=describe_cost(head, collapsed) if head is not None else "",
        conjunctive=conjunctive,
        head=head,
        unindexed=unindexed,
        key=key,
        threshold=threshold,
    )


def _asks_earliest(pattern: Pattern, found: Correlated) -> bool:
    """Whether an index finds the earliest start of each end, all that LONGEST asks for.

    In a window the earliest start may leave it, and WITHOUT may drop it. For ≠ and order an index
    knows a bound of starts, and across other events it has to know the latest.
    """
    if pattern.strategy is not Strategy.LONGEST or pattern.within is not None or pattern.without:
        return False
    if found.pcea is None or not found.exact or found.apart or not found.pcea.is_chain:
        return False
    if found.pcea.timed_states or found.pcea.guards or found.pcea.removals:
        return False
    links = [source.link for t in found.pcea.transitions for source in t.sources]
    return not any(link.different or link.unlike or link.ordered or link.once for link in links)


def _looks_between(formula: cel.Formula) -> bool:
    """Whether events count that are not in the match, and may have any key."""
    if any(Unit.EVENTS in cel.list_units(node) for node in cel.walk(formula)):
        return True
    if next(list_waits(formula), None) is not None:
        return True
    return any(isinstance(node, cel.Unless) for node in cel.walk(formula))


def _make_head(pattern: Pattern, conjunctive: ConjunctiveQuery | None) -> Head | None:
    """Return how answers are read off matches, if the query drops variables."""
    if conjunctive is None:
        return None
    body = pattern.formula.body if isinstance(pattern.formula, cel.Filter) else pattern.formula
    parts = body.parts if isinstance(body, cel.Sequence) else ()
    order = [int(part.variable) for part in parts if isinstance(part, cel.As)]
    return make_head(conjunctive, order or None)


def _decide_guarantee(found: Correlated, tables: CorrelatedTables | None) -> Guarantee:
    if tables is None or tables.apart or not found.exact:
        return Guarantee.RESIDUAL
    if tables.is_sorted:
        return Guarantee.ORDERED
    return Guarantee.CHAIN if tables.pcea.is_chain else Guarantee.HIERARCHICAL


def _write_notes(found: Correlated, conjunctive: ConjunctiveQuery | None) -> tuple[str, ...]:
    if conjunctive is None or not found.broken:
        return ()
    return (f"not hierarchical: {found.broken}; candidates are checked one by one",)


def _has_attribute_window(pattern: Pattern) -> bool:
    within = pattern.within
    return within is not None and within.unit is Unit.ATTRIBUTE and not within.plain


def _make_settings(pattern: Pattern, listed: bool) -> Settings:
    within = pattern.within
    ranked = within is not None and within.attribute == RANK
    counts = within is not None and within.unit is Unit.EVENTS
    is_longest = pattern.strategy is Strategy.LONGEST
    return Settings(
        window=settings.CLOCK_WINDOW if ranked else _WINDOW[within.unit if within else None],
        size=min(floor(within.size), settings.MOST_EVENTS) if within and counts else 0,
        partitioned=bool(pattern.partition) or pattern.forget is not None,
        shared_clock=not _has_attribute_window(pattern),
        consume=settings.CONSUME_NOTHING if listed or is_longest else _CONSUME[pattern.consume],
        resolve=0 if listed else _RESOLVE.get(pattern.strategy, 0),
        keeps_first=is_longest or (pattern.strategy is Strategy.NEXT and not listed),
        keeps_ends=is_longest and bool(pattern.without),
    )


def _decide_distribution(pattern: Pattern, shared: bool = False) -> Distribution:
    if pattern.consume is Consume.ANY:
        return Distribution.SINGLE
    if pattern.suppress is not None:
        return Distribution.KEYED if pattern.spreading_groups else Distribution.SINGLE
    # LONGEST compares matches of different ends and of different values of a shared key
    is_free = pattern.consume is Consume.NONE and pattern.strategy is not Strategy.LONGEST
    # WITHOUT looks beyond a match, at events that do not share its key
    shared = shared and is_free and pattern.forget is None and not pattern.without
    if pattern.partition or shared:
        return Distribution.KEYED
    bounded = is_bounded_in_time(pattern)
    bounded = bounded or (pattern.forget is None and is_bounded_in_events(pattern))
    return Distribution.SLICED if bounded and is_free else Distribution.SINGLE
