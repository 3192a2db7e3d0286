"""Verify that a candidate is a valuation of the formula.

A candidate says which atom of the formula marked which event. That splits it among the
parts of `;`, `:`, OR and ALL without a choice. Only the cuts between the rounds of an
iteration are open, and `_find_iterations` tries all of them.

Cost contract: a check is polynomial in the candidate, times the length of its interval where
NOT or `->` is involved. An UNLESS whose guard compares events is the exception: its candidates are
searched one by one.

The rejected design was to filter the finished match by its variables: a condition
inside an iteration must hold in each round, and the finished match has forgotten the
rounds.

`cernis.run.trace.why` fits rows into a formula, too, but by another search: its rows have no atoms
yet, so it builds parts from the events up and carries along each condition that fails, where this
one knows the marks, splits them from the top and stops at the first that fails. For the marks of a
candidate that search takes 10 times as long where it has 6 events, and 90 times with 26.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from cernis.automata.unary import construct
from cernis.automata.unary.alphabet import Alphabet, passes
from cernis.automata.unary.cea import find_atoms
from cernis.automata.unary.runs import Runs
from cernis.errors import BudgetError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.formula import Gap, Unit, Window
from cernis.pattern.guard import SplitGuard, split_guard
from cernis.pattern.variables import single_variables
from cernis.pattern.waits import Path, Wait, find_bound, is_below, list_events, list_waits
from cernis.run.check.conditions import EventView, MarkedEvents, compare, satisfies

MOST_GUARD_STEPS = 1_000_000

Spans = frozenset[tuple[int, int] | None]
"""Intervals that a formula can cover with given marks; None is the empty valuation."""

NO_SPAN: Spans = frozenset()


class Mark(NamedTuple):
    """The event at `position` (counted inside its partition) was read by the atom at `path`."""

    position: int
    path: Path


Marks = tuple[Mark, ...]


class EnclosingCondition(NamedTuple):
    """A FILTER or PARTITION BY around the first atom of a wait."""

    path: Path
    node: cel.Filter | cel.PartitionBy
    inside: bool
    """It stands in the part after the arrow, so it sees no event before."""
    repeated: bool
    """It sees several rounds of an iteration that the arrow is in."""


def list_condition_atoms(condition: pred.Condition) -> Iterator[Atom]:
    """Yield the atoms that a condition asks of an event."""
    for leaf in pred.leaves(condition):
        if isinstance(leaf, pred.Holds):
            yield from find_atoms(construct.build_test(leaf.predicate))
        elif isinstance(leaf, pred.Denied) and isinstance(leaf.body, pred.Holds):
            yield from find_atoms(construct.build_test(pred.Negation(leaf.body.predicate)))


def list_atoms(formula: cel.Formula) -> tuple[Atom, ...]:
    """Return the atoms that checking the formula may ask of an event."""
    found: dict[Atom, None] = {}
    for node in cel.walk(formula):
        match node:
            case cel.Event(type=cel.ANY_TYPE):
                continue
            case cel.Event(type=name, stream=stream):
                found[TypeIs(name, stream)] = None
            case cel.Filter(condition=condition):
                found.update(dict.fromkeys(list_condition_atoms(condition)))
            case cel.Not(body=body):
                found.update(dict.fromkeys(find_atoms(construct.build_event_test(body))))
    return tuple(found)


class Verifier:
    """Checks candidates of one formula."""

    def __init__(self, formula: cel.Formula) -> None:
        self.formula = formula
        self.atoms = list_atoms(formula)
        self._labels = {construct.name_atom(path): path for path, _ in list_events(formula)}
        self._variables: dict[Path, dict[str, frozenset[Path]]] = {}
        self.waits = {(wait.node, wait.part): wait for wait in list_waits(formula)}
        self._enclosing: dict[tuple[Wait, Path], tuple[EnclosingCondition, ...]] = {}
        self._guards: dict[Path, SearchedGuard] = {}

    def path_of(self, label: str) -> Path | None:
        """Return the path that an atom's label stands for; None for a variable's label."""
        return self._labels.get(label)

    def accepts(self, marks: Marks, start: int, end: int, view: EventView) -> bool:
        """Whether the formula has a valuation with exactly these marks on [start, end]."""
        ordered = tuple(sorted(marks))
        return (start, end) in self._find_spans(self.formula, (), ordered, start, end, view)

    def _find_spans(
        self, node: cel.Formula, path: Path, marks: Marks, low: int, high: int, view: EventView
    ) -> Spans:
        match node:
            case cel.Event():
                return frozenset({(marks[0].position,) * 2}) if len(marks) == 1 else NO_SPAN
            case cel.Not(body=body):
                if marks:
                    return NO_SPAN
                test = construct.build_event_test(body)
                return frozenset(
                    (p, p) for p in range(low, high + 1) if not passes(test, view.truth(p))
                )
            case cel.As(body=body):
                return self._find_spans(body, (*path, 0), marks, low, high, view)
            case cel.Optional(body=body):
                inner = self._find_spans(body, (*path, 0), marks, low, high, view)
                return inner if marks else inner | {None}
            case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts) | cel.All(parts=parts):
                spans: Spans = frozenset({None})
                before: Marks = ()
                for i, part in enumerate(parts):
                    own = _select_below(marks, (*path, i))
                    more = self._find_spans(part, (*path, i), own, low, high, view)
                    if isinstance(node, cel.All):
                        spans = frozenset(_span_both(a, b) for a in spans for b in more)
                    else:
                        spans = self._concatenate(node, spans, more, (path, i), before, view)
                        before += own
                return spans
            case cel.Choice(parts=parts):
                return frozenset(
                    span
                    for i, part in enumerate(parts)
                    if len(_select_below(marks, (*path, i))) == len(marks)
                    for span in self._find_spans(part, (*path, i), marks, low, high, view)
                )
            case cel.Iterate():
                return self._find_iterations(node, path, marks, low, high, view)
            case cel.Filter(body=body, condition=condition):
                below = (*path, 0)
                if not _looks_at_interval(condition):
                    if not self._is_satisfied(condition, body, below, marks, view):
                        return NO_SPAN
                    return self._find_spans(body, below, marks, low, high, view)
                return frozenset(
                    span
                    for span in self._find_spans(body, below, marks, low, high, view)
                    if self._is_satisfied(condition, body, below, marks, view, span)
                )
            case cel.PartitionBy(body=body, keys=keys):
                if not self._has_one_value(keys, body, (*path, 0), marks, view):
                    return NO_SPAN
                return self._find_spans(body, (*path, 0), marks, low, high, view)
            case cel.Within(body=body, window=window):
                return frozenset(
                    span
                    for span in self._find_spans(body, (*path, 0), marks, low, high, view)
                    if span is None or is_within(window, *span, view)
                )
            case cel.Unless(body=body):
                return frozenset(
                    span
                    for span in self._find_spans(body, (*path, 0), marks, low, high, view)
                    if span is None or self.find_occurrence(node, path, marks, span, view) is None
                )

    def _find_iterations(
        self, node: cel.Iterate, path: Path, marks: Marks, low: int, high: int, view: EventView
    ) -> Spans:
        """Return the spans of all ways to cut the marks into rounds of consecutive marks."""
        here = (*path, 0)
        cuts = [i for i in range(len(marks)) if i == 0 or marks[i][0] != marks[i - 1][0]]
        cuts.append(len(marks))
        found: set[tuple[int, int] | None] = set()
        # (interval so far, marks used, rounds); rounds beyond `low` count alike if unbounded
        seen: set[tuple[tuple[int, int] | None, int, int]] = {(None, 0, 0)}
        stack = list(seen)
        while stack:
            span, used, rounds = stack.pop()
            if used == len(marks) and rounds >= node.low:
                found.add(span)
            if node.high is not None and rounds >= node.high:
                continue
            begin = low if span is None else span[1] + 1
            for upto in (cut for cut in cuts if cut >= used):
                group = marks[used:upto]
                for more in self._find_spans(node.body, here, group, begin, high, view):
                    for joined in self._concatenate(
                        node, {span}, {more}, (path, 0), marks[:used], view
                    ):
                        counted = rounds + 1
                        if node.high is None or more is None:
                            counted = min(counted, max(node.low, 1))
                        state = (joined, upto, counted)
                        if state not in seen:
                            seen.add(state)
                            stack.append(state)
        return frozenset(found)

    def _concatenate(
        self,
        node: cel.Sequence | cel.Contiguous | cel.Iterate,
        left: Iterable[tuple[int, int] | None],
        right: Iterable[tuple[int, int] | None],
        boundary: tuple[Path, int],
        before: Marks,
        view: EventView,
    ) -> Spans:
        """Return the spans of two parts, or rounds, one after the other.

        `boundary` is the node's path and the number of the part, `before` are the marks before it.
        """
        contiguous = isinstance(node, cel.Contiguous) or (
            isinstance(node, cel.Iterate) and node.contiguous
        )
        wait, gap = self.waits.get(boundary), find_gap(node, boundary[1])
        joined: set[tuple[int, int] | None] = set()
        for a in left:
            for b in right:
                if a is None or b is None:
                    joined.add(a or b)
                    continue
                follows = a[1] + 1 == b[0] if contiguous else a[1] < b[0]
                if not follows or (gap is not None and not is_in_gap(gap, a[1], b[0], view)):
                    continue
                between = range(a[1] + 1, b[0]) if wait is not None else ()
                if wait is None or not any(self.fits(wait, before, p, view) for p in between):
                    joined.add((a[0], b[1]))
        return frozenset(joined)

    # ------------------------------------------------------------------ waits

    def fits(self, wait: Wait, before: Marks, position: int, view: EventView) -> bool:
        """Whether an event can begin the part after an arrow, after these marks."""
        for path, atom in wait.first:
            if passes(construct.build_type_test(atom), view.truth(position)):
                mark = Mark(position, path)
                if all(
                    self._holds_so_far(one, wait, (mark,) if one.inside else (*before, mark), view)
                    for one in self._find_enclosing(wait, path)
                ):
                    return True
        return False

    def _find_enclosing(self, wait: Wait, path: Path) -> tuple[EnclosingCondition, ...]:
        """Return the conditions around a first atom of a wait, from the outside."""
        found = self._enclosing.get((wait, path))
        if found is None:
            node = self.formula
            nodes: list[tuple[Path, cel.Formula]] = [((), node)]
            for depth, child in enumerate(path):
                node = cel.children(node)[child]
                nodes.append((path[: depth + 1], node))
            rounds = [
                at for at, n in nodes if isinstance(n, cel.Iterate) and is_below(wait.node, at)
            ]
            found = self._enclosing[wait, path] = tuple(
                EnclosingCondition(
                    at,
                    n,
                    inside=not is_below(wait.node, at),
                    repeated=any(len(each) > len(at) for each in rounds),
                )
                for at, n in nodes
                if isinstance(n, cel.Filter | cel.PartitionBy)
            )
        return found

    def _holds_so_far(
        self, one: EnclosingCondition, wait: Wait, marks: Marks, view: EventView
    ) -> bool:
        """Whether a condition holds of the events up to the first of the part after an arrow."""
        body, below = one.node.body, (*one.path, 0)
        if isinstance(one.node, cel.PartitionBy):
            return self._has_one_value(one.node.keys, body, below, marks, view)

        def settle(condition: pred.Condition) -> pred.Condition:
            match condition:
                case pred.CompareTerms() | pred.Denied(body=pred.CompareTerms()):
                    terms = condition.body if isinstance(condition, pred.Denied) else condition
                    assert isinstance(terms, pred.CompareTerms)
                    settled = self._is_settled(terms, one, wait, marks)
                    return condition if settled else pred.AllOf(())
                case pred.Compare(origin=pred.CompareTerms() as whole):
                    return settle(whole)
                case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
                    return replace(condition, parts=tuple(map(settle, parts)))
                case _:
                    return condition

        return self._is_satisfied(settle(one.node.condition), body, below, marks, view)

    def _is_settled(
        self, leaf: pred.CompareTerms, one: EnclosingCondition, wait: Wait, marks: Marks
    ) -> bool:
        """Whether the terms of a condition have their values already.

        A variable's events are all there if it has one in every valuation, and here, or if the
        parts before the arrow alone give it events.
        """
        parts = [part for term in (leaf.left, leaf.right) for part in pred.walk_term(term)]
        if any(p == pred.Aggregate("COUNT") or isinstance(p, pred.IntervalTime) for p in parts):
            return False
        body, below = one.node.body, (*one.path, 0)
        single = single_variables(body)
        bound = find_bound(body, below)
        return all(
            (name in single and bool(self.find_positions(name, body, below, marks)))
            or (
                not one.inside
                and not one.repeated
                and all(any(is_below(at, side) for side in wait.before) for at in bound[name])
            )
            for name in pred.leaf_variables(leaf)
        )

    # ------------------------------------------------------------- conditions

    def find_positions(
        self, variable: str, body: cel.Formula, path: Path, marks: Marks
    ) -> list[int]:
        """Return μ(variable) of the valuation of `body` that these marks describe."""
        names = self._variables.get(path)
        if names is None:
            names = self._variables[path] = find_bound(body, path)
        atoms = names.get(variable, frozenset())
        return sorted({mark.position for mark in marks if mark.path in atoms})

    def _is_satisfied(
        self,
        condition: pred.Condition,
        body: cel.Formula,
        path: Path,
        marks: Marks,
        view: EventView,
        span: tuple[int, int] | None = None,
    ) -> bool:
        """Whether a condition holds of the valuation of `body` with these marks.

        `span` is its interval, for conditions that look at that.
        """
        return satisfies(condition, self.find_marked(body, path, marks, span), view)

    def find_marked(
        self, body: cel.Formula, path: Path, marks: Marks, span: tuple[int, int] | None = None
    ) -> MarkedEvents:
        """Return the events of the valuation of `body` that these marks describe."""
        return MarkedEvents(
            lambda variable: self.find_positions(variable, body, path, marks),
            lambda: sorted({mark.position for mark in marks}),
            span,
        )

    def _has_one_value(
        self,
        keys: Sequence[cel.KeyPart],
        body: cel.Formula,
        path: Path,
        marks: Marks,
        view: EventView,
    ) -> bool:
        values = [value for _, _, value in self.list_values(keys, body, path, marks, view)]
        return all(compare("=", values[0], value) for value in values)

    def list_values(
        self,
        keys: Sequence[cel.KeyPart],
        body: cel.Formula,
        path: Path,
        marks: Marks,
        view: EventView,
    ) -> list[tuple[int, pred.Attribute, Any]]:
        """Return the values of a PARTITION BY, each with its event and attribute."""
        found = self.find_marked(body, path, marks)
        return [
            (position, key.attribute, view.value(position, key.attribute))
            for key in keys
            for position in (found.everything() if key.variable is None else found.of(key.variable))
        ]

    def find_occurrence(
        self, node: cel.Unless, path: Path, marks: Marks, span: tuple[int, int], view: EventView
    ) -> tuple[int, int] | None:
        """Return an occurrence of the guard strictly inside the span of the body's marks."""
        guard = self._guards.get(path)
        if guard is None:
            guard = self._guards[path] = SearchedGuard.of(node.guard)

        def find(variable: str) -> list[int]:
            return self.find_positions(variable, node.body, (*path, 0), marks)

        return search_guard(guard, (span[0] + 1, span[1] - 1), find, view)


class SearchedGuard(NamedTuple):
    """The guard of an UNLESS, whose occurrences are searched one by one."""

    split: SplitGuard
    runs: Runs
    is_exact: bool
    """Whether every run is an occurrence."""
    verifier: Verifier | None
    """What checks its candidates; None if every run is an occurrence that counts."""

    @classmethod
    def of(cls, guard: cel.Formula) -> SearchedGuard:
        split = split_guard(guard)
        cea = construct.construct(split.formula, name_atoms=True)
        is_exact = not construct.is_correlated(split.formula)
        plain = is_exact and not split.conditions
        verifier = None if plain else Verifier(split.formula)
        return cls(split, Runs(cea, Alphabet(cea)), is_exact, verifier)


def search_guard(
    guard: SearchedGuard,
    span: tuple[int, int],
    find_outer: Callable[[str], list[int]],
    view: EventView,
) -> tuple[int, int] | None:
    """Return the first occurrence of a guard inside a span, or None.

    `find_outer` gives the events of the variables of the match that it guards.
    """
    low, high = span
    runs, steps = guard.runs, 0
    for start in range(low, high + 1):
        stack: list[tuple[Any, int, Marks]] = [(c, start, ()) for c in runs.start]
        while stack:
            steps += 1
            if steps > MOST_GUARD_STEPS:
                raise BudgetError("an UNLESS that compares events has too many candidates")
            configuration, position, inside = stack.pop()
            if runs.accepts(configuration):
                if guard.verifier is None:
                    return start, position - 1
                is_valid = guard.is_exact or guard.verifier.accepts(
                    inside, start, position - 1, view
                )
                if is_valid and _meets(guard, inside, find_outer, view):
                    return start, position - 1
                continue
            if position > high:
                continue
            truth = view.truth(position)
            symbol = runs.alphabet.symbol(tuple(truth[a] for a in runs.alphabet.atoms))
            for labels, moved in runs.moves(configuration, symbol):
                new: Marks = ()
                if guard.verifier is not None:
                    paths = map(guard.verifier.path_of, labels)
                    new = tuple(Mark(position, p) for p in paths if p is not None)
                stack.append((moved, position + 1, inside + new))
    return None


def _meets(
    guard: SearchedGuard, inside: Marks, find_outer: Callable[[str], list[int]], view: EventView
) -> bool:
    """Whether the conditions between a guard's events and those of the match hold."""
    if not guard.split.conditions:
        return True
    assert guard.verifier is not None
    own = guard.verifier

    def find(variable: str) -> list[int]:
        if variable in guard.split.names:
            return own.find_positions(variable, guard.split.formula, (), inside)
        return find_outer(variable)

    found = MarkedEvents(find, lambda: sorted({mark.position for mark in inside}))
    return all(satisfies(condition, found, view) for condition in guard.split.conditions)


def find_gap(node: cel.Sequence | cel.Contiguous | cel.Iterate, part: int) -> Gap | None:
    """Return the gap before a part, or between the rounds of an iteration."""
    match node:
        case cel.Sequence():
            return node.separator_before(part).gap if part else None
        case cel.Iterate(separator=separator):
            return separator.gap
        case _:
            return None


def is_in_gap(gap: Gap, end: int, start: int, view: EventView) -> bool:
    """Whether an event lies in the gap after another."""
    if gap.unit is Unit.EVENTS:
        return gap.allows(start - end)
    return gap.allows(measure_time(end, start, view))


def measure_time(earlier: int, later: int, view: EventView) -> int:
    """Return the nanoseconds between two events."""
    begin, end = (view.value(position, pred.TIME_NS) for position in (earlier, later))
    if begin is not None and end is not None:
        return int(end - begin)
    # before 1677 or after 2262, where nanoseconds exceed 64 bits
    span = view.time(later) - view.time(earlier)
    if isinstance(span, timedelta):
        return span // timedelta(microseconds=1) * 1000
    return int(span * view.tick)


def is_within(window: Window, start: int, end: int, view: EventView) -> bool:
    """Whether an interval is within a window."""
    match window.unit:
        case Unit.EVENTS:
            return end - start <= window.size
        case Unit.TIME:
            return measure_time(start, end, view) <= window.size
        case Unit.ATTRIBUTE:
            assert window.attribute is not None
            ends = [view.value(p, window.attribute) for p in (start, end)]
            if not all(map(pred.is_number, ends)):
                return False
            span = ends[1] - ends[0]
            size = float(window.size) if isinstance(span, float) else window.size
            return bool(span < size if window.strict else span <= size)


def _looks_at_interval(condition: pred.Condition) -> bool:
    """Whether a condition mentions START or END."""
    match condition:
        case pred.CompareTerms(left=left, right=right):
            both = (*pred.walk_term(left), *pred.walk_term(right))
            return any(isinstance(part, pred.IntervalTime) for part in both)
        case pred.Denied(body=body):
            return _looks_at_interval(body)
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            return any(map(_looks_at_interval, parts))
        case _:
            return False


def _select_below(marks: Marks, path: Path) -> Marks:
    return tuple(mark for mark in marks if mark.path[: len(path)] == path)


def _span_both(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    if a is None or b is None:
        return a or b
    return min(a[0], b[0]), max(a[1], b[1])
