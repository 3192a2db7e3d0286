"""Verify that a candidate is a valuation of the formula.

A candidate says which atom of the formula marked which event. That splits it among the
parts of `;`, `:`, OR and ALL without a choice. Only the cuts between the rounds of an
iteration are open, and `_find_iterations` tries all of them.

Cost contract: a check is polynomial in the candidate, times the length of its interval where
NOT is involved. An UNLESS whose guard compares events is the exception: its candidates are
searched one by one.

The rejected design was to filter the finished match by its variables: a condition
inside an iteration must hold in each round, and the finished match has forgotten the
rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from cernis.automata.unary import construct
from cernis.automata.unary.alphabet import Alphabet, passes
from cernis.automata.unary.cea import find_atoms
from cernis.automata.unary.runs import Runs
from cernis.errors import BudgetError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.run.terms import Valued, compare_terms, evaluate_term

MOST_GUARD_STEPS = 1_000_000

Path = tuple[int, ...]
Spans = frozenset[tuple[int, int] | None]
"""Intervals that a formula can cover with given marks; None is the empty valuation."""

NO_SPAN: Spans = frozenset()


class Mark(NamedTuple):
    """The event at `position` (counted inside its partition) was read by the atom at `path`."""

    position: int
    path: Path


Marks = tuple[Mark, ...]


class EventView(NamedTuple):
    """The events that a check reads, by position inside the partition."""

    truth: Callable[[int], dict[Atom, bool]]
    value: Callable[[int, pred.Attribute], Any]
    time: Callable[[int], Any]
    tick: int
    """The nanoseconds of one unit of the time column, where it holds numbers."""


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
                for leaf in pred.leaves(condition):
                    if isinstance(leaf, pred.Holds):
                        test = construct.build_test(leaf.predicate)
                        found.update(dict.fromkeys(find_atoms(test)))
            case cel.Not(body=body):
                found.update(dict.fromkeys(find_atoms(construct.build_event_test(body))))
    return tuple(found)


class Verifier:
    """Checks candidates of one formula."""

    def __init__(self, formula: cel.Formula) -> None:
        self.formula = formula
        self.atoms = list_atoms(formula)
        self._labels = {construct.name_atom(path): path for path, _ in _list_events(formula, ())}
        self._variables: dict[Path, dict[str, frozenset[Path]]] = {}
        self._guards: dict[Path, Runs] = {}

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
                for i, part in enumerate(parts):
                    here = (*path, i)
                    more = self._find_spans(part, here, _select_below(marks, here), low, high, view)
                    if isinstance(node, cel.All):
                        spans = frozenset(_span_both(a, b) for a in spans for b in more)
                    else:
                        spans = _concatenate(spans, more, isinstance(node, cel.Contiguous))
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
            case cel.Unless(body=body, guard=guard):
                return frozenset(
                    span
                    for span in self._find_spans(body, (*path, 0), marks, low, high, view)
                    if span is None
                    or not self._occurs(guard, (*path, 1), span[0] + 1, span[1] - 1, view)
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
                    for joined in _concatenate(
                        frozenset({span}), frozenset({more}), node.contiguous
                    ):
                        counted = rounds + 1
                        if node.high is None or more is None:
                            counted = min(counted, max(node.low, 1))
                        state = (joined, upto, counted)
                        if state not in seen:
                            seen.add(state)
                            stack.append(state)
        return frozenset(found)

    def _find_positions(
        self, variable: str, body: cel.Formula, path: Path, marks: Marks
    ) -> list[int]:
        """Return μ(variable) of the valuation of `body` that these marks describe."""
        names = self._variables.get(path)
        if names is None:
            names = self._variables[path] = _find_bound(body, path)
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
        match condition:
            case pred.Holds(variable=variable, predicate=predicate):
                test = construct.build_test(predicate)
                events = self._find_positions(variable, body, path, marks)
                return all(passes(test, view.truth(p)) for p in events)
            case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
                one = self._find_positions(left.variable, body, path, marks)
                other = self._find_positions(right.variable, body, path, marks)
                return all(
                    compare(
                        op,
                        view.value(p, left.attribute),
                        _shift(view.value(q, right.attribute), shift),
                    )
                    for p, q in (
                        _pair_neighbours(one, other, marks) if adjacent else product(one, other)
                    )
                )
            case pred.CompareTerms(op=op, left=former, right=latter):
                found = Valued(
                    lambda variable: self._find_positions(variable, body, path, marks),
                    sorted({mark.position for mark in marks}),
                    *(span or (0, 0)),
                    view.value,
                    view.time,
                    view.tick,
                )
                values = evaluate_term(former, found), evaluate_term(latter, found)
                return compare_terms(op, *values, view.tick)
            case pred.Monotone(variable=variable, attribute=attribute, op=op):
                events = self._find_positions(variable, body, path, marks)
                ordered = [view.value(p, attribute) for p in events]
                return all(compare(op, a, b) for a, b in pairwise(ordered))
            case pred.AllOf(parts=parts):
                return all(self._is_satisfied(c, body, path, marks, view, span) for c in parts)
            case pred.AnyOf(parts=parts):
                return any(self._is_satisfied(c, body, path, marks, view, span) for c in parts)

    def _has_one_value(
        self,
        keys: Sequence[cel.KeyPart],
        body: cel.Formula,
        path: Path,
        marks: Marks,
        view: EventView,
    ) -> bool:
        values = []
        for key in keys:
            events = (
                sorted({mark.position for mark in marks})
                if key.variable is None
                else self._find_positions(key.variable, body, path, marks)
            )
            values += [view.value(p, key.attribute) for p in events]
        return all(compare("=", values[0], value) for value in values)

    def _occurs(self, guard: cel.Formula, path: Path, low: int, high: int, view: EventView) -> bool:
        """Whether the guard has a valuation inside [low, high]."""
        runs = self._guards.get(path)
        if runs is None:
            cea = construct.construct(guard, name_atoms=True)
            runs = self._guards[path] = Runs(cea, Alphabet(cea))
        exact = not construct.is_correlated(guard)
        steps = 0
        verifier = self if exact else Verifier(guard)
        for start in range(low, high + 1):
            stack: list[tuple[Any, int, Marks]] = [(c, start, ()) for c in runs.start]
            while stack:
                steps += 1
                if steps > MOST_GUARD_STEPS:
                    raise BudgetError("an UNLESS that compares events has too many candidates")
                configuration, position, marks = stack.pop()
                if runs.accepts(configuration):
                    if exact or verifier.accepts(marks, start, position - 1, view):
                        return True
                    continue
                if position > high:
                    continue
                truth = view.truth(position)
                symbol = runs.alphabet.symbol([truth[a] for a in runs.alphabet.atoms])
                for labels, moved in runs.moves(configuration, symbol):
                    paths = (verifier.path_of(label) for label in labels)
                    new = tuple(Mark(position, p) for p in paths if p is not None and not exact)
                    stack.append((moved, position + 1, marks + new))
        return False


def compare(op: pred.Operator, left: Any, right: Any) -> bool:
    """Whether a comparison holds; one with an unknown value does not."""
    if left is None or right is None:
        return False
    text = isinstance(left, str), isinstance(right, str)
    if text[0] != text[1] or isinstance(left, bool) != isinstance(right, bool):
        return False
    try:
        return bool(pred.COMPARE[op](left, right))
    except TypeError:
        return False


def _shift(value: Any, shift: float | None) -> Any:
    """Return a number plus the shift; None for anything else."""
    if shift is None:
        return value
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return value + shift if numeric else None


def _pair_neighbours(
    earlier: Sequence[int], later: Sequence[int], marks: Marks
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of the two that are consecutive among the positions of the marks."""
    first, second = set(earlier), set(later)
    for p, q in pairwise(sorted({mark.position for mark in marks})):
        if p in first and q in second:
            yield p, q


def _looks_at_interval(condition: pred.Condition) -> bool:
    """Whether a condition mentions START or END."""
    match condition:
        case pred.CompareTerms(left=left, right=right):
            both = (*pred.walk_term(left), *pred.walk_term(right))
            return any(isinstance(part, pred.IntervalTime) for part in both)
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


def _concatenate(left: Spans, right: Spans, contiguous: bool) -> Spans:
    joined: set[tuple[int, int] | None] = set()
    for a in left:
        for b in right:
            if a is None or b is None:
                joined.add(a or b)
            elif a[1] + 1 == b[0] if contiguous else a[1] < b[0]:
                joined.add((a[0], b[1]))
    return frozenset(joined)


def _list_events(node: cel.Formula, path: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """Yield each atom that can mark an event, with the variables that the event joins."""
    match node:
        case cel.Event(type=name):
            yield path, frozenset({name})
        case cel.Not():
            return
        case cel.As(body=body, variable=variable):
            for below, names in _list_events(body, (*path, 0)):
                yield below, names | {variable}
        case cel.Unless(body=body):
            yield from _list_events(body, (*path, 0))
        case _:
            for i, child in enumerate(cel.children(node)):
                yield from _list_events(child, (*path, i))


def _find_bound(body: cel.Formula, path: Path) -> dict[str, frozenset[Path]]:
    """Return for each variable the atoms of the formula that give it events."""
    found: dict[str, set[Path]] = {}
    for below, names in _list_events(body, path):
        for name in names:
            found.setdefault(name, set()).add(below)
    return {name: frozenset(paths) for name, paths in found.items()}
