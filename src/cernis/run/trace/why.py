"""Fit rows into a formula, and find the conditions that keep them from being a match.

The search is the definition of valuations (docs/explanation/semantics.md) over the given rows
alone: an atom takes one of them, `;` and `:` put parts after each other, and so on. But a condition
that does not hold is an *obstacle* that the part carries along, up to a total weight. The weight
grows until something fits. So the first answer breaks the fewest conditions, and an answer without
obstacles is a valuation. WITHIN, WITHOUT and the strategy come after.

Cost contract: at most `MOST_ROWS` rows and `MOST_PARTS` parts; beyond these the finding says so.
Between the rows, NOT, `->` and guards read the events of the partition one by one.

The rejected design was to replay the automaton with the rows alone: its states know which test
failed, and not which condition of the query, and listed plans have none.

Candidates are checked by another search (`cernis.run.check.verify`), which shares the tests of
single conditions: it knows which atom marked which event, splits these marks from the top, and
stops at the first condition that fails. Here neither is known, and parts that fail are kept, so
this search takes 10 to 90 times as long for the same marks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cernis.automata.unary import construct
from cernis.automata.unary.alphabet import passes
from cernis.errors import BudgetError, DataError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Absence, Consume, Pattern, Strategy, Unit
from cernis.pattern.waits import Path, list_events
from cernis.pattern.write import write_formula
from cernis.results.finding import Finding, Obstacle, RowStep, write_finding
from cernis.results.matches import Matches
from cernis.run.check.conditions import EventView, satisfies
from cernis.run.check.verify import (
    Mark,
    Marks,
    SearchedGuard,
    Verifier,
    find_gap,
    is_in_gap,
    is_within,
    list_atoms,
    search_guard,
)
from cernis.run.trace.events import Int64s, TracedEvents
from cernis.run.trace.reasons import Reasons

MOST_ROWS = 64
MOST_PARTS = 80_000
"""The most ways to fit some of the rows into a part of the formula that are looked at."""
MOST_WEIGHT = 12
_NEAR = 32
"""How far from the rows an event may lie that NOT takes."""
_LISTED = 20_000
"""So many matches of one end are compared with the rows, where a strategy or a clause chooses."""


class Part(NamedTuple):
    """A way to fit some of the rows into a part of the formula; no interval: no events."""

    span: tuple[int, int] | None
    marks: Marks
    obstacles: tuple[Obstacle, ...] = ()
    weight: int = 0
    """That of its obstacles."""


class _TooManyError(Exception):
    pass


NOTHING = Part(None, ())


@dataclass
class FittingSearch:
    """Fits the events at some ranks of a partition into a formula."""

    formula: cel.Formula
    view: EventView
    held: tuple[int, ...]
    """The ranks of the rows, ascending."""
    size: int
    """How many events the partition has."""
    say: Reasons
    budget: int = 0
    """The weight that obstacles may have."""
    parts: int = 0
    verifier: Verifier = field(init=False)

    def __post_init__(self) -> None:
        self.verifier = Verifier(self.formula)
        self._names = dict(list_events(self.formula))

    def find(self, budget: int) -> list[Part]:
        """Return the ways to fit all rows with obstacles of at most this weight."""
        self.budget = budget
        found = []
        for part in self._find(self.formula, (), alone=True):
            used = {mark.position for mark in part.marks}
            whole = part
            for rank in self.held:
                whole = whole if rank in used else _add(whole, self.say.extra(rank))
            if whole.weight <= budget and (whole.span is not None or whole.obstacles):
                found.append(whole)
        return found

    def name_mark(self, mark: Mark) -> str:
        """Return what an event is called in the match."""
        node = self.formula
        for child in mark.path:
            node = cel.children(node)[child]
        own = self._names[mark.path]
        types = {node.type} if isinstance(node, cel.Event) else set()
        return ", ".join(sorted(own - types or own))

    # ---------------------------------------------------------------- formula

    def _find(self, node: cel.Formula, path: Path, *, alone: bool) -> list[Part]:
        """Return the parts of a formula; `alone`: no other part holds rows between its own."""
        return self._keep(self._list(node, path, alone), alone)

    def _keep(self, parts: Iterable[Part], alone: bool) -> list[Part]:
        kept: dict[tuple[object, ...], Part] = {}
        for part in parts:
            self._spend(1)
            weight = part.weight + (2 * self._count_gaps(part) if alone else 0)
            if weight <= self.budget:
                key = (part.span, part.marks, part.obstacles)
                kept.setdefault(key, part)
        return [*kept.values()]

    def _spend(self, parts: int) -> None:
        self.parts += parts
        if self.parts > MOST_PARTS:
            raise _TooManyError

    def _count_gaps(self, part: Part) -> int:
        """Return how many rows lie between those of a part."""
        used = {mark.position for mark in part.marks}
        if not used:
            return 0
        return bisect_right(self.held, max(used)) - bisect_left(self.held, min(used)) - len(used)

    def _list(self, node: cel.Formula, path: Path, alone: bool) -> Iterator[Part]:
        match node:
            case cel.Event():
                yield from self._list_event(node, path)
            case cel.Not(body=body):
                yield from self._list_not(body)
            case cel.As(body=body):
                yield from self._find(body, (*path, 0), alone=alone)
            case cel.Optional(body=body):
                yield NOTHING
                yield from self._find(body, (*path, 0), alone=alone)
            case cel.Choice(parts=parts):
                for i, part in enumerate(parts):
                    yield from self._find(part, (*path, i), alone=alone)
            case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
                found = self._find(parts[0], (*path, 0), alone=alone)
                for i, part in enumerate(parts[1:], start=1):
                    more = self._find(part, (*path, i), alone=alone)
                    found = self._keep(self._follow(node, (path, i), found, more), alone)
                yield from found
            case cel.All(parts=parts):
                found = [NOTHING]
                for i, part in enumerate(parts):
                    more = self._find(part, (*path, i), alone=False)
                    found = self._keep((_unite(a, b) for a in found for b in more), False)
                yield from found
            case cel.Iterate():
                yield from self._list_rounds(node, path, alone)
            case cel.Filter(body=body, condition=condition):
                for fit in self._find(body, (*path, 0), alone=alone):
                    yield self._check_filter(body, (*path, 0), condition, fit)
            case cel.PartitionBy(body=body, keys=keys):
                for fit in self._find(body, (*path, 0), alone=alone):
                    yield self._check_key(body, (*path, 0), keys, fit)
            case cel.Within(body=body, window=window):
                for fit in self._find(body, (*path, 0), alone=alone):
                    wide = fit.span is not None and not is_within(window, *fit.span, self.view)
                    yield _add(fit, self.say.window(window, fit.span)) if wide else fit
            case cel.Unless(body=body):
                for fit in self._find(body, (*path, 0), alone=alone):
                    yield self._check_unless(node, path, fit)

    def _list_event(self, atom: cel.Event, path: Path) -> Iterator[Part]:
        test = construct.build_type_test(atom)
        names = self._names.get(path, frozenset({atom.type}))
        for rank in self.held:
            part = Part((rank, rank), (Mark(rank, path),))
            if passes(test, self.view.truth(rank)):
                yield part
            elif self.budget:
                yield _add(part, self.say.type(atom, names, rank))
        if self.budget:
            yield _add(NOTHING, self.say.missing(atom, names))

    def _list_not(self, body: cel.Formula) -> Iterator[Part]:
        test = construct.build_event_test(body)
        low, high = max(0, self.held[0] - _NEAR), min(self.size - 1, self.held[-1] + _NEAR)
        ranks: Iterable[int] = range(low, high + 1)
        if high - low > MOST_PARTS // 8:
            near = {rank + d for rank in self.held for d in range(-_NEAR, _NEAR + 1)}
            ranks = sorted(rank for rank in near if low <= rank <= high)
        for rank in ranks:
            part = Part((rank, rank), ())
            if not passes(test, self.view.truth(rank)):
                yield part
            elif self.budget:
                yield _add(part, self.say.negated(body, rank))

    def _list_rounds(self, node: cel.Iterate, path: Path, alone: bool) -> Iterator[Part]:
        """Yield the parts of all numbers of rounds; a round without events changes nothing."""
        body = self._find(node.body, (*path, 0), alone=alone)
        power = [NOTHING]
        if node.low == 0:
            yield NOTHING
        rounds, seen = 0, {NOTHING}
        while power and (node.high is None or rounds < node.high):
            rounds += 1
            power = self._keep(self._follow(node, (path, 0), power, body), alone)
            if rounds >= node.low:
                yield from power
                power = [part for part in power if part not in seen]
                seen.update(power)

    # ------------------------------------------------------------- one by one

    def _follow(
        self,
        node: cel.Sequence | cel.Contiguous | cel.Iterate,
        boundary: tuple[Path, int],
        left: Sequence[Part],
        right: Sequence[Part],
    ) -> Iterator[Part]:
        """Yield two parts, or rounds, one after the other."""
        for a in left:
            self._spend(len(right) // 4)
            for b in right:
                if a.weight + b.weight > self.budget:
                    continue
                if a.span is None or b.span is None:
                    yield _unite(a, b)
                elif a.span[1] < b.span[0]:
                    met = (a.span[1], b.span[0])
                    joined = _unite(a, b)
                    for obstacle in self._check_order(node, boundary, a.marks, met):
                        joined = _add(joined, obstacle)
                    yield joined

    def _check_order(
        self,
        node: cel.Sequence | cel.Contiguous | cel.Iterate,
        boundary: tuple[Path, int],
        before: Marks,
        met: tuple[int, int],
    ) -> Iterator[Obstacle]:
        end, start = met
        contiguous = isinstance(node, cel.Contiguous)
        contiguous = contiguous or (isinstance(node, cel.Iterate) and node.contiguous)
        if contiguous and end + 1 != start:
            yield self.say.between(end, start)
        gap = find_gap(node, boundary[1])
        if gap is not None and not is_in_gap(gap, end, start, self.view):
            yield self.say.gap(gap, end, start)
        wait = self.verifier.waits.get(boundary)
        if wait is not None:
            for rank in range(end + 1, start):
                if self.verifier.fits(wait, before, rank, self.view):
                    yield self.say.next(rank, start)
                    break

    # ------------------------------------------------------------- conditions

    def _check_filter(
        self, body: cel.Formula, path: Path, condition: pred.Condition, part: Part
    ) -> Part:
        """Return the part with an obstacle for each condition that it does not satisfy.

        An event of the wrong type, or one that is missing, is obstacle enough.
        """
        if part == NOTHING:
            return part
        wrong = {o.rank for o in part.obstacles if o.kind == "type"}
        is_broken = any(o.kind in ("type", "missing") for o in part.obstacles)
        marks = tuple(mark for mark in part.marks if mark.position not in wrong)
        everything = sorted({mark.position for mark in marks})
        found = self.verifier.find_marked(body, path, marks, part.span)
        for leaf in pred.conjuncts(condition):
            if is_broken and any(isinstance(one, pred.CompareTerms) for one in pred.leaves(leaf)):
                continue
            if not satisfies(leaf, found, self.view):
                part = _add(part, self.say.condition(leaf, found, everything))
        return part

    def _check_key(
        self, body: cel.Formula, path: Path, keys: Sequence[cel.KeyPart], part: Part
    ) -> Part:
        values = self.verifier.list_values(keys, body, path, part.marks, self.view)
        obstacle = self.say.key(sorted(values, key=lambda each: each[0]))
        return part if obstacle is None else _add(part, obstacle)

    def _check_unless(self, node: cel.Unless, path: Path, part: Part) -> Part:
        if part.span is None:
            return part
        occurs = self.verifier.find_occurrence(node, path, part.marks, part.span, self.view)
        if occurs is None:
            return part
        return _add(part, self.say.excluded(node.guard, occurs, part.span))


def _add(part: Part, obstacle: Obstacle) -> Part:
    obstacles, weight = (*part.obstacles, obstacle), part.weight + obstacle.weight
    return Part(part.span, part.marks, obstacles, weight)


def _unite(a: Part, b: Part) -> Part:
    span = a.span or b.span
    if a.span is not None and b.span is not None:
        span = (min(a.span[0], b.span[0]), max(a.span[1], b.span[1]))
    return Part(span, a.marks + b.marks, a.obstacles + b.obstacles, a.weight + b.weight)


# --------------------------------------------------------------- whole matches


def explain_rows(
    pattern: Pattern, events: TracedEvents, matches: Matches, rows: Iterable[int]
) -> Finding:
    """Return whether exactly these rows are a match of the pattern, and if not, why."""
    chosen = sorted(set(rows))
    if not chosen:
        raise DataError("no rows are given: name those that should have matched")
    if len(chosen) > MOST_ROWS:
        raise DataError(f"{len(chosen)} rows are given; at most {MOST_ROWS} can be explained")
    indices = []
    for row in chosen:
        index = events.find_index(row)
        if index is None:
            raise DataError(f"no event of this run is row {row}")
        indices.append(index)
    return _Explaining(pattern, events, matches, sorted(indices)).explain()


class _Explaining:
    """The explanation of some events of one run."""

    def __init__(
        self, pattern: Pattern, events: TracedEvents, matches: Matches, indices: list[int]
    ) -> None:
        self.pattern, self.events, self.matches, self.indices = pattern, events, matches, indices
        self.members: Int64s = events.list_members(indices[0])

    def explain(self) -> Finding:
        apart = self._check_partition()
        if apart is not None:
            return apart
        held = np.searchsorted(self.members, self.indices).tolist()
        atoms = list_atoms(self.pattern.formula)
        atoms += tuple(a for one in self.pattern.without for a in list_atoms(one.formula))
        view = self.events.view(self.members, tuple(dict.fromkeys(atoms)))
        say = Reasons(view, self.events, self.members)
        search = FittingSearch(self.pattern.formula, view, tuple(held), len(self.members), say)
        try:
            return self._search(search)
        except (_TooManyError, BudgetError):
            known = "these events are no match, but" if search.budget else "these events"
            words = f"{known} fit the pattern in too many ways to say more; name fewer of them"
            return Finding(False, (), None, words)

    def _search(self, search: FittingSearch) -> Finding:
        for budget in range(MOST_WEIGHT + 1):
            fitting = [self._check_clauses(part, search) for part in search.find(budget)]
            fitting = [part for part in fitting if part.weight <= budget]
            if not fitting:
                continue
            if budget == 0:
                return self._find_chosen(fitting, search)
            best = max(fitting, key=lambda part: (min(o.rank for o in part.obstacles), part.marks))
            return self._write(best, search)
        words = "these events are far from the pattern: more than six of its parts do not fit"
        return Finding(False, (), None, words)

    def _check_clauses(self, part: Part, search: FittingSearch) -> Part:
        """Return the part with the obstacles of WITHIN, WITHOUT and STRICT."""
        pattern, span = self.pattern, part.span
        if span is None:
            return part
        within = pattern.within
        if within is not None and not is_within(within, *span, search.view):
            part = _add(part, search.say.window(within, span))
        for absence in pattern.without:
            part = self._check_absence(absence, part, search)
        used = {mark.position for mark in part.marks}
        if pattern.strategy is Strategy.STRICT and len(used) != span[1] - span[0] + 1:
            part = _add(part, search.say.strict(sorted(used), span))
        return part

    def _check_absence(self, absence: Absence, part: Part, search: FittingSearch) -> Part:
        assert part.span is not None
        span = self._find_reach(absence, part.span)
        found = search.verifier.find_marked(self.pattern.formula, (), part.marks)
        occurs = search_guard(SearchedGuard.of(absence.formula), span, found.of, search.view)
        if occurs is None:
            return part
        return _add(part, search.say.absent(absence, occurs, part.span))

    def _find_reach(self, absence: Absence, span: tuple[int, int]) -> tuple[int, int]:
        """Return the first and the last rank at which an occurrence of a guard counts."""
        start, end = span
        size = int(absence.within.size)
        if absence.within.unit is Unit.EVENTS:
            low, high = start - size, end + size
        else:
            assert self.events.times is not None
            ticks = self.events.times[self.members]
            low = int(np.searchsorted(ticks, ticks[start] - size))
            high = int(np.searchsorted(ticks, ticks[end] + size, side="right")) - 1
        if absence.before:
            return max(0, low), start - 1
        return end + 1, min(high, len(self.members) - 1)

    def _check_partition(self) -> Finding | None:
        """Return why the rows are in no partition together; None: they are in one."""
        keys, rows = self.events.keys, self.events.rows
        clause = ", ".join(f"[{', '.join(group)}]" for group in self.pattern.partition)
        clause = f"PARTITION BY {clause}"
        for index in self.indices:
            if keys[index] >= 0 and keys[index] == keys[self.indices[0]]:
                continue
            row, name, first = (
                int(rows[index]),
                self.events.name(index),
                self.events.name(self.indices[0]),
            )
            if keys[index] < 0:
                reason = f"{name} has no key: {self.events.write_key(index)}"
            elif self.events.write_key(index) == self.events.write_key(self.indices[0]):
                reason = f"too long a time without events lies between {first} and {name}"
                clause = "FORGET AFTER"
            else:
                here, there = self.events.write_key(index), self.events.write_key(self.indices[0])
                reason = f"{name} has another key: {here}, where {first} has {there}"
            steps = [RowStep(int(rows[p]), "", True if p < index else None) for p in self.indices]
            stopped = RowStep(row, "", False, clause, reason)
            steps = [stopped if step.row == row else step for step in steps]
            return Finding(False, tuple(steps), row, f"{clause}: {reason}")
        return None

    # ------------------------------------------------------- after the formula

    def _find_chosen(self, fitting: Sequence[Part], search: FittingSearch) -> Finding:
        """Return that the rows match, or which clause has chosen other matches."""
        pattern = self.pattern
        free = pattern.strategy in (Strategy.ALL, Strategy.STRICT) and pattern.limit is None
        free = free and pattern.consume is Consume.NONE and pattern.suppress is None
        free = free and pattern.order is None and pattern.absent_after is None
        if free and not self.matches.partial:
            return self._write(fitting[0], search)
        others: list[list[int]] = []
        for part in fitting:
            found, seen = self._is_listed(part, search)
            if found:
                return self._write(part, search)
            others += seen
        obstacle = self._blame_clause(fitting[0], others, search)
        return self._write(_add(fitting[0], obstacle), search)

    def _is_listed(self, part: Part, search: FittingSearch) -> tuple[bool, list[list[int]]]:
        """Return whether the result has the match of a part, and events of another at its end."""
        assert part.span is not None
        found, base = self.matches.match_set, self.events.base
        start, end = (int(self.members[rank]) + base for rank in part.span)
        marked = search.verifier.find_marked(self.pattern.formula, (), part.marks)
        held = {
            name: [int(self.members[rank]) + base for rank in marked.of(name)]
            for name in found.variables
        }
        others: list[list[int]] = []
        for block in found.of_ends(np.array([end], np.int64), _LISTED):
            for i in range(len(block.start)):
                marks = {
                    name: positions[offsets[i] : offsets[i + 1]].tolist()
                    for name, offsets, positions in zip(
                        found.variables, block.offsets, block.positions, strict=True
                    )
                }
                if int(block.start[i]) == start and marks == held:
                    return True, []
                if len(others) < 1:
                    others.append(
                        sorted({p - base for positions in marks.values() for p in positions})
                    )
        return False, others

    def _blame_clause(self, part: Part, others: list[list[int]], search: FittingSearch) -> Obstacle:
        """Return the clause after the formula that has left the match out."""
        assert part.span is not None
        pattern = self.pattern
        kept = ""
        if others:
            kept = f" that ends here is kept: {', '.join(map(self.events.name, others[0]))}"
        if self.matches.partial:
            clause, reason = "the budget", "it was spent before all candidates were checked"
        elif self._is_consumed(part.span):
            clause = f"CONSUME BY {pattern.consume.value}"
            reason = "an earlier match has consumed the events before its end"
        elif pattern.absent_after is not None and not kept:
            clause = f"WITHOUT {write_formula(pattern.absent_after.formula)} FOR"
            reason = "the input ends before the deadline, so that the match is not certain"
        elif pattern.strategy is Strategy.LONGEST:
            clause, reason = "LONGEST", "a longer match contains its interval"
        elif pattern.strategy is not Strategy.ALL:
            clause = pattern.strategy.value
            reason = f"another match{kept}" if kept else "another match is better"
        elif pattern.suppress is not None:
            clause, reason = "SUPPRESS BY", "an earlier match silences it"
        else:
            clause = "LIMIT" if pattern.order is None else "ORDER BY … LIMIT"
            reason = f"another match{kept}" if kept else "other matches come before it"
        return Obstacle("strategy", part.span[1], clause, reason)

    def _is_consumed(self, span: tuple[int, int]) -> bool:
        """Whether a match ends inside the interval that may consume its events."""
        if self.pattern.consume is Consume.NONE:
            return False
        ends = np.sort(self.matches.match_set.counts()[0]) - self.events.base
        start, end = (int(self.members[rank]) for rank in span)
        inside = ends[(ends >= start) & (ends < end)]
        if self.pattern.consume is Consume.PARTITION:
            inside = inside[self.events.keys[inside] == self.events.keys[end]]
        return bool(len(inside))

    # ---------------------------------------------------------------- answers

    def _write(self, part: Part, search: FittingSearch) -> Finding:
        """Return what the obstacles of a part say of the rows."""
        names: dict[int, list[str]] = {}
        for mark in part.marks:
            names.setdefault(mark.position, []).append(search.name_mark(mark))
        ranks = np.searchsorted(self.members, self.indices).tolist()
        rows = dict(zip(ranks, self.events.rows[self.indices].tolist(), strict=True))
        return write_finding(rows, names, part.obstacles, "these events are a match")
