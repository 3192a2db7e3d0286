"""Construct the automaton of a formula that compares neighbouring events while it reads.

This is Glushkov's position automaton. A state is one occurrence of an atom that has just been
read (copies count apart). A step goes from the states that may come right before to the state
that is read. So each link knows the atoms that read its two events, and a condition between
events becomes a link on the steps *inside its scope*: those that were made while the body of
its FILTER was built. Steps from one round of an iteration to the next are made later and are
outside.

An ALL is closed by its last event (`cernis.automata.correlated.close`). Parts that a condition
compares are closed as a group where that makes them neighbours.

Whether links are enough is decided for each condition (`cernis.automata.correlated.between`).
Where they are not, the automaton accepts more than the formula, and `exact` says so.
A variable that may be empty makes no equality transitive; choices and optional parts
outside iterations are then told apart, one case each (`cernis.automata.correlated.presence`).

Cost contract: size of the formula with `{m,n}` unrolled and OR written out, times the
pairs of atoms that may be neighbours; never more than `MOST_TRANSITIONS` transitions.

Names in the papers: chain-CEA, whose Proposition 7 compiles CEL with equality
like this; PCEA for ALL. The Thompson construction of `construct` was not taken:
its gap states forget which event was read last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, product

from cernis.automata.correlated import (
    across,
    between,
    close,
    fragments,
    guards,
    middles,
    presence,
)
from cernis.automata.correlated.between import FilterConditions, How, Verdict, Verdicts
from cernis.automata.correlated.classes import Key, KeyClass
from cernis.automata.correlated.fragments import NOTHING, Fragment, Refusal, RefusedError, Step
from cernis.automata.correlated.guards import NO_SCOPES, Scopes
from cernis.automata.correlated.pcea import (
    ANY_LINK,
    EVERY_INDEX,
    PCEA,
    Link,
    RunSource,
    Unindexed,
)
from cernis.automata.correlated.presence import MOST_CASES, Path
from cernis.automata.unary.construct import build_condition_test, build_type_test, name_atom
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap, Unit, Window
from cernis.pattern.guard import split_guard
from cernis.pattern.variables import single_variables
from cernis.pattern.waits import Location, find_deciding, list_waits
from cernis.pattern.write import write_formula, write_gap, write_window

Arrow = tuple[Path, int]
"""A `->`: the path of its sequence or iteration, and the number of the part after it."""

__all__ = ["Correlation", "How", "Refusal", "Verdict", "correlate"]


@dataclass(frozen=True, slots=True)
class Correlation:
    """The automaton; unless exact, it accepts more than the formula."""

    pcea: PCEA
    exact: bool
    verdicts: tuple[Verdict, ...]
    drawn: PCEA | None = None
    """The automaton that it was made of, if it gathers across events."""

    @property
    def undecided(self) -> int:
        """How many conditions the links do not decide."""
        return sum(verdict.how is How.CANDIDATE for verdict in self.verdicts)

    @property
    def hardness(self) -> tuple[int, bool]:
        """How many conditions the links do not decide, and whether those across events do."""
        return self.undecided, self.drawn is not None


@dataclass(frozen=True, slots=True)
class TimedParts:
    """Which `(φ WITHIN w)` links can decide: those whose start the indexes put in order.

    An index sorts runs by one start: that of φ. In a window, the later φ begins, the later may the
    match begin. So φ must come after one part, at any distance, or begin the match.
    """

    unit: Unit | None = None
    """What starts are measured in; None: links decide no WITHIN."""
    in_window: bool = False
    """Whether the query has a window."""
    first: bool = False
    """Whether φ has to begin the match."""

    def explain(self, window: Window, preceded: bool) -> str:
        """Return why links do not decide a WITHIN; empty: they do."""
        if window.unit is Unit.ATTRIBUTE:
            return "no index has the order of its attribute"
        if self.unit is None:
            return "it looks at a part of the match"
        if window.unit is not self.unit:
            return f"partial matches are in the order of {_UNITS[self.unit]}"
        if self.first and preceded:
            return "in a window, the start of the match does not follow from that of the part"
        return ""

    def allows(self, pcea: PCEA) -> bool:
        """Return whether the start of a match follows from that of φ wherever there is a window."""
        if not self.in_window or self.first:
            return True
        timed = pcea.timed_states
        links = [source.link for t in pcea.transitions for source in t.sources]
        begins = [
            t.sources
            for t in pcea.transitions
            if t.target in timed and not any(s.link.since for s in t.sources)
        ]
        if not any(begins):
            return True
        entries = {source for sources in begins for source in sources}
        keys = {link.equal for link in links}
        is_shared = len(keys) == 1 and all(a == b for a, b in next(iter(keys)))
        return (
            all(begins)
            and len({entry.state for entry in entries}) == 1
            and all(replace(entry.link, equal=()) == ANY_LINK for entry in entries)
            and (is_shared or not any(entry.link.equal for entry in entries))
        )


NOT_TIMED = TimedParts()
_UNITS = {Unit.TIME: "time", Unit.EVENTS: "positions"}


def correlate(
    formula: cel.Formula,
    *,
    name_atoms: bool = False,
    unindexed: Unindexed = EVERY_INDEX,
    timed: TimedParts = NOT_TIMED,
    scopes: Scopes = NO_SCOPES,
    gathers_across: bool = False,
    gathers_middles: bool = False,
) -> Correlation | Refusal:
    """Return the automaton of a formula; with `name_atoms` atoms write labels of their own as well.

    What is `unindexed` is left to be checked on candidates. `timed` says
    which WITHIN inside the formula links decide, `scopes` which UNLESS an index may decide. With
    `gathers_across`, equal values may be compared across an event between (`across`); with
    `gathers_middles`, any values across a part that compares nothing with them (`middles`).

    >>> a = pred.Attribute(("a",))
    >>> same = pred.Compare("=", pred.Reference("A", a), pred.Reference("B", a))
    >>> found = correlate(cel.Filter(cel.Sequence((cel.Event("A"), cel.Event("B"))), same))
    >>> print(found.pcea)
      0 A  A / A
    ^ 1 B  after 0 where a = a: B / B
    >>> found.exact, found.verdicts[0].how
    (True, <How.EQUAL: 'equal'>)
    """
    has_all = any(isinstance(node, cel.All) for node in cel.walk(formula))
    timed = NOT_TIMED if has_all else timed
    options = _Options(
        name_atoms,
        unindexed,
        timed,
        scopes,
        gathers_across=gathers_across,
        gathers_middles=gathers_middles,
    )
    found = _attempt(formula, options)
    if isinstance(found, Correlation) and has_all and found.hardness > (0, False):
        gathered = _attempt(formula, replace(options, gather=True))
        if isinstance(gathered, Correlation) and gathered.hardness < found.hardness:
            return gathered
    return found


@dataclass(frozen=True, slots=True)
class _Options:
    """How an automaton is built."""

    name_atoms: bool
    unindexed: Unindexed
    timed: TimedParts
    scopes: Scopes = NO_SCOPES
    """The UNLESS that an index may decide."""
    gather: bool = False
    """Whether what follows an ALL gathers the ends of its parts."""
    gathers_across: bool = False
    """Whether equal values are compared across an event between."""
    gathers_middles: bool = False
    """Whether values are compared across a part that compares nothing with them."""


def _attempt(formula: cel.Formula, options: _Options) -> Correlation | Refusal:
    arrows: dict[Arrow, frozenset[Location]] = {}
    undecided: dict[Arrow, str] = {}
    for wait in list_waits(formula):
        locations = find_deciding(formula, wait)
        if isinstance(locations, str):
            undecided[wait.node, wait.part] = locations
        else:
            arrows[wait.node, wait.part] = locations
    while True:
        building = _CorrelatedBuilder(options, undecided)
        try:
            whole = building.build(formula, (), preceded=False)
            pcea = fragments.build_automaton(
                whole, building.states, building.guards, building.removals
            )
        except RefusedError as refused:
            return refused.refusal
        wrong = {
            at: why
            for at, locations in arrows.items()
            if (why := _find_obstacle(at, locations, building, pcea))
        }
        unremovable = guards.find_unremovable(pcea)
        wrong |= {building.removing[name]: why for name, why in unremovable.items()}
        if options.gathers_across:
            crossed = _cross(formula, building, pcea, arrows, set(wrong))
            if crossed is not None:
                return crossed
        gathered = middles.GatheredMiddles(pcea, {})
        if options.gathers_middles and not pcea.timed_states:
            known = building.verdicts.found
            gathered = middles.gather_middles(pcea, formula, known, options.unindexed)
            judged = known | gathered.verdicts
            wrong = {
                at: why
                for at, why in wrong.items()
                if at in building.split
                or _name_arrow(*at) not in gathered.arrows
                or not all(judged[location].how in _FITTING for location in arrows[at])
            }
        if not wrong:
            if not options.timed.allows(pcea):
                return _attempt(formula, replace(options, timed=replace(options.timed, first=True)))
            break
        undecided |= wrong
        arrows = {at: locations for at, locations in arrows.items() if at not in wrong}
    drawn = None
    if gathered.verdicts:
        drawn, pcea = pcea, gathered.pcea
    building.verdicts.found |= gathered.verdicts | gathered.left
    verdicts = building.verdicts.in_text()
    exact = all(verdict.how is not How.CANDIDATE for verdict in verdicts)
    return Correlation(pcea, exact, verdicts, drawn)


def _cross(
    formula: cel.Formula,
    building: _CorrelatedBuilder,
    pcea: PCEA,
    arrows: Mapping[Arrow, frozenset[Location]],
    wrong: set[Arrow],
) -> Correlation | None:
    """Return the automaton that compares equal values across an event, if it decides all.

    Of the arrows, it may decide one that is wrong so far: the one that these values decide.
    """
    known = building.verdicts.found
    crossing = across.find_crossing(pcea, formula, known)
    if crossing is None:
        return None
    for at in wrong:
        decided = at in arrows and at not in building.split and crossing.arrow == _name_arrow(*at)
        hows = {known[each].how for each in arrows[at] if each in known} if decided else set()
        if not decided or not hows <= {How.UNARY, How.CANDIDATE}:
            return None
        if not all(location in known for location in arrows[at]):
            return None
    building.verdicts.found = across.judge_across(pcea, crossing, known)
    gathered = across.gather_across(pcea, crossing)
    return Correlation(gathered, True, building.verdicts.in_text(), drawn=pcea)


_FITTING = (How.EQUAL, How.ORDERED, How.UNARY)
"""How a condition is decided that says what fits."""


def _find_obstacle(
    at: Arrow, locations: frozenset[Location], building: _CorrelatedBuilder, pcea: PCEA
) -> str:
    """Return why the links of an arrow do not decide what fits; empty: they do.

    Each must ask the same index: by equal values, and by the order of one attribute at most.
    """
    known = building.verdicts.found
    if at in building.split:
        return "the formula is read case by case"
    for location in locations:
        if location not in known:
            return "it looks at events that are not in the match"
        if known[location].how not in _FITTING:
            return f"{known[location].text} decides what fits, and is checked on candidates"
    asked: dict[int, tuple[str, ...]] = {}
    for source in (source for t in pcea.transitions for source in t.sources):
        link = source.link
        if link.arrow == _name_arrow(*at):
            own = tuple(earlier for earlier, _ in sorted(link.equal))
            own = (*own, *(f"order of {each.earlier}" for each in link.ordered))
            if asked.setdefault(source.state, own) != own:
                return "its first events are compared by different attributes"
    return ""


def _name_arrow(path: Path, part: int) -> str:
    return ".".join(map(str, (*path, part)))


# --------------------------------------------------------------- fragments


class _CorrelatedBuilder:
    """The automaton while it grows."""

    def __init__(self, options: _Options, undecided: Mapping[Arrow, str]) -> None:
        self.undecided = undecided
        """Why links do not decide an arrow."""
        self.split: set[Arrow] = set()
        """Arrows in a formula that was built case by case: none has all that fits."""
        self.gather = options.gather
        self.name_atoms = options.name_atoms
        self.unindexed = options.unindexed
        self.timed = options.timed
        self.states = fragments.States()
        self.verdicts = Verdicts()
        self.decided: dict[Path, int] = {}
        self.in_part = False
        """Whether a WITHIN that links decide stands around what is built."""
        self.arranged: dict[Path, close.Arrangement] = {}
        self.scopes = options.scopes
        self.guards: list[fragments.GuardFragment] = []
        self.removals: list[fragments.RemovalFragment] = []
        self.removing: dict[str, Arrow] = {}
        """The UNLESS whose guards take runs out of indexes, by name."""

    # --------------------------------------------------- one per operator

    def build(self, node: cel.Formula, path: Path, preceded: bool) -> Fragment:
        """Return the fragment of a formula; `preceded`: its match may have an earlier event."""
        built = self.build_one(node, path, preceded)
        if len(built.steps) > fragments.MOST_TRANSITIONS:
            raise RefusedError(
                f"it takes more than {fragments.MOST_TRANSITIONS:,} transitions", node.span
            )
        return built

    def build_one(self, node: cel.Formula, path: Path, preceded: bool) -> Fragment:
        match node:
            case cel.Event():
                return self.build_event(node, path)
            case cel.Not():
                raise RefusedError("NOT passes over an event without marking it", node.span)
            case cel.Unless():
                return self.build_unless(node, path, preceded)
            case cel.As(body=body, variable=variable):
                inner = self.build(body, (*path, 0), preceded)
                self.states.mark(inner.states, variable)
                return inner
            case cel.Sequence() | cel.Contiguous():
                return self.build_sequence(node, path, preceded)
            case cel.Choice(parts=parts):
                chosen = self.decided.get(path)
                return fragments.unite_fragments(
                    self.build(part, (*path, i), preceded)
                    for i, part in enumerate(parts)
                    if chosen in (None, i)
                )
            case cel.Optional(body=body):
                if self.decided.get(path) == 0:
                    return NOTHING
                inner = self.build(body, (*path, 0), preceded)
                return replace(inner, nullable=path not in self.decided)
            case cel.Iterate():
                return self.build_iteration(node, path, preceded)
            case cel.Filter():
                return self.build_filter(node, path, preceded)
            case cel.PartitionBy():
                return self.build_partition(node, path, preceded)
            case cel.Within():
                return self.build_within(node, path, preceded)
            case cel.All():
                return self.build_all(node, path, preceded)

    def build_event(self, node: cel.Event, path: Path) -> Fragment:
        labels = {node.type, name_atom(path)} if self.name_atoms else {node.type}
        state = self.states.new(frozenset(labels), node.type)
        return Fragment((Step((), build_type_test(node), state),), (state,))

    def build_within(self, node: cel.Within, path: Path, preceded: bool) -> Fragment:
        """Build the body; each step inside it asks for runs that began it inside the window."""
        window, outside = node.window, self.in_part
        why = self.timed.explain(window, preceded)
        self.in_part = outside or not why
        body = self.build(node.body, (*path, 0), preceded)
        self.in_part = outside
        if not why and any(s.link.since for step in body.steps for s in step.sources):
            why = "another WITHIN stands inside"
        text = f"WITHIN {write_window(window)}"
        if why:
            self.verdicts.note(path, 0, Verdict(text, How.CANDIDATE, why))
            return body
        self.verdicts.note(path, 0, Verdict(text, How.GAP, "from the start of its part"))
        since = Gap(window.unit, window.size)
        steps = (
            replace(
                step,
                sources=tuple(replace(s, link=replace(s.link, since=since)) for s in step.sources),
            )
            for step in body.steps
        )
        return replace(body, steps=tuple(steps))

    def build_unless(self, node: cel.Unless, path: Path, preceded: bool) -> Fragment:
        """Build the body, and the guard beside it where its latest start decides."""
        body = self.build(node.body, (*path, 0), preceded)
        text = f"UNLESS {write_formula(node.guard)}"
        guard = self.build_guard(node, path)
        if isinstance(guard, str):
            self.verdicts.note(path, 0, Verdict(text, How.CANDIDATE, guard))
            return body
        sides = guard, self.find_body(node, path, body)
        split = split_guard(node.guard)
        links: Mapping[tuple[int, int], Link] | str = "it stands in a part of the formula"
        if path in self.scopes.paths:
            links = guards.link_last_events(split, *sides, self.unindexed)
        if not isinstance(links, str):
            self.verdicts.note(path, 0, Verdict(text, How.ABSENT, "a match begins no earlier"))
            self.guards.append(fragments.GuardFragment(guard.fragment, links))
            return body
        why = self.undecided.get((path, 1))
        name = _name_arrow(path, 1)
        removal = why or guards.link_waiting(split, *sides, name, single_variables(node.body))
        if isinstance(removal, str):
            is_whole = path in self.scopes.paths and not guard.is_single
            why = links if is_whole else removal
            self.verdicts.note(path, 0, Verdict(text, How.CANDIDATE, why))
            return body
        self.verdicts.note(path, 0, Verdict(text, How.LEAVING, guards.say_leaving(split)))
        self.removing[name] = (path, 1)
        self.removals.append(fragments.RemovalFragment(guard.fragment, removal))
        return guards.mark_waiting(body, removal)

    def build_guard(self, node: cel.Unless, path: Path) -> guards.Side | str:
        """Return the guard of a formula, or why no index decides it."""
        guard, here = split_guard(node.guard), (*path, 1)
        judged = dict(self.verdicts.found)
        try:
            built = self.build(guard.formula, here, preceded=False)
        except RefusedError as refused:
            built, why = NOTHING, refused.refusal.reason
        else:
            new = self.verdicts.found.keys() - judged.keys()
            left = [self.verdicts.found[at] for at in sorted(new)]
            why = next((v.text for v in left if v.how is How.CANDIDATE), "")
            why = why and f"{why} is checked on candidates"
        self.verdicts.found = judged
        if why:
            return why
        known = frozenset(name for state in self.states.labels for name in state)
        own = presence.find_always_present(guard.formula, here, known, self.decided)
        classes = guards.find_classes(cel.take_off(guard.formula, cel.As, cel.PartitionBy)[1], own)
        return guards.Side(built, self.states, classes, own)

    def find_body(self, node: cel.Unless, path: Path, body: Fragment) -> guards.Side:
        """Return what is known of the events of a formula that is guarded."""
        scopes = self.scopes
        if path not in scopes.paths:
            scopes = Scopes(
                conditions=(*cel.take_off(node.body, cel.As, cel.PartitionBy)[1],),
                shared=scopes.shared,
            )
        known = frozenset(name for state in self.states.labels for name in state)
        present = presence.find_always_present(node.body, (*path, 0), known, self.decided)
        classes = guards.find_classes(scopes.conditions, present, scopes.keys, scopes.shared)
        return guards.Side(body, self.states, classes, present)

    def build_sequence(
        self, node: cel.Sequence | cel.Contiguous, path: Path, preceded: bool
    ) -> Fragment:
        parts = node.parts
        built, begin = NOTHING, 0
        if self.gather and not preceded and self.link(node, path, 1) == ANY_LINK:
            gathered = self.gather_parts(parts[0], parts[1], path)
            if gathered is not None:
                built, begin = gathered, 2
        for i, part in enumerate(parts[begin:], start=begin):
            more = self.build(part, (*path, i), preceded or bool(built.steps))
            built = fragments.concatenate(built, more, self.link(node, path, i))
        if isinstance(node, cel.Sequence):
            for i, part in enumerate(parts[1:], start=1):
                self.judge_separator(node.separator_before(i), part, path, i)
        return built

    def link(
        self, node: cel.Sequence | cel.Contiguous | cel.Iterate, path: Path, part: int
    ) -> Link:
        """Return the link before a part, or between rounds."""
        match node:
            case cel.Contiguous():
                return Link(contiguous=True)
            case cel.Sequence():
                separator = node.separator_before(part) if part else cel.LATER
            case cel.Iterate(separator=separator):
                pass
        decided = separator.next and (path, part) not in self.undecided
        arrow = _name_arrow(path, part) if decided else None
        contiguous = isinstance(node, cel.Iterate) and node.contiguous
        return Link(contiguous=contiguous, gap=separator.gap, arrow=arrow)

    def judge_separator(
        self, separator: cel.Separator, after: cel.Formula, path: Path, i: int
    ) -> None:
        """Note how a `->` and a gap are decided."""
        if separator.next:
            text = f"-> {write_formula(after)}"
            why = self.undecided.get((path, i))
            verdict = Verdict(text, How.NEXT, "by equal values, an order, or the event alone")
            if why is not None:
                verdict = Verdict(text, How.CANDIDATE, why)
            self.verdicts.note(path, 2 * i, verdict)
            if self.decided:
                self.split.add((path, i))
        if separator.gap is not None:
            text = f"[{write_gap(separator.gap)}] before {write_formula(after)}"
            verdict = Verdict(text, How.GAP, "between neighbours")
            self.verdicts.note(path, 2 * i + 1, verdict)

    def gather_parts(self, first: cel.Formula, second: cel.Formula, path: Path) -> Fragment | None:
        """Build `(α ALL β) ; γ` without closing the ALL: the start of γ gathers the ends of parts.

        Then each part is next to γ, and none to another part; closed, one part is next to
        both. Which is better depends on the comparisons.
        """
        body, names, here = first, [], (*path, 0)
        while isinstance(body, cel.As):
            names.append(body.variable)
            body, here = body.body, (*here, 0)
        if not isinstance(body, cel.All):
            return None
        built = [self.build(part, (*here, i), False) for i, part in enumerate(body.parts)]
        then = self.build(second, (*path, 1), True)
        if then.nullable or any(part.nullable for part in built):
            return None
        steps = list(chain.from_iterable(part.steps for part in built))
        for name in names:
            self.states.mark((step.target for step in steps), name)
        for step in then.starts:
            for done in product(*(part.last for part in built)):
                steps.append(replace(step, sources=tuple(RunSource(state) for state in done)))
        return Fragment((*steps, *then.onward), then.last)

    def build_iteration(self, node: cel.Iterate, path: Path, preceded: bool) -> Fragment:
        """Build rounds from the last to the first, so that each number of rounds has one way."""
        decided = self.decided.get(path)
        if decided == 0 or node.high == 0:
            return NOTHING
        copies = node.high if node.high is not None else max(node.low, 1)
        self.judge_separator(node.separator, node.body, path, 0)
        if copies > fragments.MOST_TRANSITIONS:
            raise RefusedError(f"it unrolls to {copies:,} rounds", node.span)
        again = node.high is None or copies > 1
        rounds = [self.build(node.body, (*path, 0), preceded or again) for _ in range(copies)]
        low = 0 if rounds[0].nullable else node.low
        link = self.link(node, path, 0)
        built = replace(rounds[-1], nullable=copies > low)
        if node.high is None:
            loop = tuple(fragments.link_starts(built.last, built.starts, link))
            built = replace(built, steps=(*built.steps, *loop))
        for number in range(copies - 1, 0, -1):
            one = replace(rounds[number - 1], nullable=False)
            built = replace(fragments.concatenate(one, built, link), nullable=number > low)
            if len(built.steps) > fragments.MOST_TRANSITIONS:
                break  # build() refuses it
        return replace(built, nullable=low == 0 and decided is None)

    # ------------------------------------------------------------------ ALL

    def build_all(self, node: cel.All, path: Path, preceded: bool) -> Fragment:
        """Build ALL: a case for every choice of parts to leave out, each with its own copies."""
        whole = [self.build(part, (*path, i), preceded) for i, part in enumerate(node.parts)]
        there = [i for i, part in enumerate(whole) if part.steps]
        optional = [i for i in there if whole[i].nullable]
        if 2 ** len(optional) > MOST_CASES:
            raise RefusedError(f"ALL has {len(optional)} optional parts", node.span)
        cases = []
        for left_out in close.list_subsets(optional):
            kept = [i for i in there if i not in left_out]
            built = [
                self.build(node.parts[i], (*path, i), preceded) if left_out else whole[i]
                for i in kept
            ]
            parts = [replace(part, nullable=False) for part in built]
            if len(parts) == 1:
                cases += parts
            elif len(parts) > 1:
                if preceded:
                    cases.append(close.interleave(parts, self.states, node.span))
                else:
                    numbered = dict(zip(kept, parts, strict=True))
                    flat: close.Arrangement = tuple(range(len(node.parts)))
                    arrangement = self.arranged.get(path, flat)
                    cases.append(close.close_groups(arrangement, numbered, self.states, node.span))
        return replace(
            fragments.unite_fragments(cases), nullable=all(part.nullable for part in whole)
        )

    # -------------------------------------------------------------- filters

    def build_filter(self, node: cel.Filter, path: Path, preceded: bool) -> Fragment:
        leaves = tuple(pred.leaves(node.condition))
        whole = any(isinstance(leaf, pred.CompareTerms | pred.Denied) for leaf in leaves)
        if _is_one_event(node.body) and not whole:
            body = self.build(node.body, (*path, 0), preceded)
            for i, leaf in enumerate(leaves):
                self.verdicts.judge(path, i, leaf, How.UNARY, "asked of one event")
            return fragments.strengthen(
                body, self.states, lambda labels: build_condition_test(node.condition, labels)
            )
        alternatives = _list_alternatives(node.condition)
        if alternatives is None:
            raise RefusedError(f"the FILTER has more than {MOST_CASES} alternatives", node.span)
        return fragments.unite_fragments(
            fragment
            for alternative in alternatives
            for fragment in self.build_conditioned(node, path, preceded, leaves, alternative)
        )

    def build_conditioned(
        self,
        node: cel.Filter,
        path: Path,
        preceded: bool,
        leaves: tuple[pred.Leaf, ...],
        alternative: tuple[int, ...],
    ) -> list[Fragment]:
        """Return the body under conditions that hold together, a fragment per case."""
        names = frozenset(
            side.variable
            for leaf in (leaves[i] for i in alternative)
            if isinstance(leaf, pred.Compare) and leaf.is_transitive
            for side in (leaf.left, leaf.right)
        )
        before, arranged, decided = dict(self.verdicts.found), dict(self.arranged), self.decided
        whole = self.conditions(node, path, preceded, leaves, names)
        if whole.count_missing(alternative) and self.arrange(
            whole, node.body, (*path, 0), alternative
        ):
            told, self.verdicts.found = self.verdicts.found, dict(before)
            grouped = self.conditions(node, path, preceded, leaves, names)
            if grouped.count_missing(alternative) < whole.count_missing(alternative):
                whole = grouped
            else:
                self.verdicts.found, self.arranged = told, dict(arranged)
        cases = (
            presence.split_cases(node.body, (*path, 0), names, decided)
            if whole.count_missing(alternative)
            else [{}]
        )
        if len(cases) == 1:
            self.arranged = arranged
            return [whole.apply(alternative)]
        self.verdicts.found = before
        built = []
        for case in cases:
            self.decided = {**decided, **case}
            conditions = self.conditions(node, path, preceded, leaves, names)
            built.append(conditions.apply(alternative))
        self.decided, self.arranged = decided, arranged
        return built

    def arrange(
        self, conditions: FilterConditions, body: cel.Formula, path: Path, chosen: tuple[int, ...]
    ) -> bool:
        """Choose which parts of an ALL are closed first, so that compared parts are neighbours."""
        inner, here = _unwrap(body, path)
        if not isinstance(inner, cel.All) or len(inner.parts) < 3 or here in self.arranged:
            return False
        touched = [
            frozenset(
                i
                for i, part in enumerate(inner.parts)
                if any(
                    presence.find_possible(part, (*here, i), names, self.decided)
                    - {None, frozenset()}
                )
            )
            for names in conditions.list_compared(chosen)
        ]
        arrangement = close.nest_groups(len(inner.parts), touched)
        if arrangement == tuple(range(len(inner.parts))):
            return False
        self.arranged[here] = arrangement
        return True

    def conditions(
        self,
        node: cel.Filter,
        path: Path,
        preceded: bool,
        leaves: tuple[pred.Leaf, ...],
        names: frozenset[str],
    ) -> FilterConditions:
        """Return the body under the decisions taken, with the conditions to put on it."""
        body = self.build(node.body, (*path, 0), preceded)
        there = presence.find_always_present(node.body, (*path, 0), names, self.decided)
        return FilterConditions(
            body, self.states, self.verdicts, path, leaves, there, self.unindexed, self.in_part
        )

    def build_partition(self, node: cel.PartitionBy, path: Path, preceded: bool) -> Fragment:
        body = self.build(node.body, (*path, 0), preceded)
        keys: list[Key] = [(key.variable, key.attribute.name) for key in node.keys]
        agreed, gap = between.compare_class(body, self.states, KeyClass(tuple(dict.fromkeys(keys))))
        keys_text = write_formula(node).rsplit(" PARTITION BY ", 1)[1].removesuffix(")")
        text = f"PARTITION BY {keys_text}"
        if gap is None:
            self.verdicts.note(path, 0, Verdict(text, How.EQUAL, "each event agrees with the next"))
        else:
            self.verdicts.apart(path, 0, text, self.states.names[gap])
        return agreed


def _list_alternatives(condition: pred.Condition) -> list[tuple[int, ...]] | None:
    """Return the condition as an OR of ANDs of its leaves, by number; None if too many."""
    numbers = iter(range(1 << 30))

    def of(part: pred.Condition) -> list[tuple[int, ...]]:
        match part:
            case pred.AnyOf(parts=parts):
                return [found for each in parts for found in of(each)][: MOST_CASES + 1]
            case pred.AllOf(parts=parts):
                found: list[tuple[int, ...]] = [()]
                for each in parts:
                    more = of(each)
                    found = [(*a, *b) for a in found for b in more][: MOST_CASES + 1]
                return found
            case _:
                return [(next(numbers),)]

    found = of(condition)
    return found if len(found) <= MOST_CASES else None


def _is_one_event(node: cel.Formula) -> bool:
    match node:
        case cel.Event():
            return True
        case cel.As(body=body) | cel.Filter(body=body) | cel.PartitionBy(body=body):
            return _is_one_event(body)
        case cel.Choice(parts=parts):
            return all(_is_one_event(part) for part in parts)
        case _:
            return False


def _unwrap(node: cel.Formula, path: Path) -> tuple[cel.Formula, Path]:
    """Return the formula inside AS, FILTER and PARTITION BY, and its path."""
    while isinstance(node, cel.As | cel.Filter | cel.PartitionBy):
        node, path = node.body, (*path, 0)
    return node, path
