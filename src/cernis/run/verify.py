"""Whether a candidate is a valuation of the formula: the part no automaton decided.

A candidate says which atom of the formula marked which event. That splits it among the
parts of `;`, `:`, OR and ALL without a choice; only where one iteration ends and the
next begins is open, and `_iterations` tries every cut. So a check is polynomial in the
candidate (times the length of its interval where NOT is involved), except for UNLESS
whose guard itself compares events: that guard's candidates are searched one by one.

The rejected design was to filter the finished match by its variables: a condition
inside an iteration must hold in each round, and the finished match has forgotten the
rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from cernis.automata.unary.alphabet import Alphabet, passes
from cernis.automata.unary.cea import find_atoms
from cernis.automata.unary.construct import (
    build_event_test,
    build_test,
    construct,
    is_correlated,
    name_atom,
)
from cernis.automata.unary.runs import Runs
from cernis.errors import BudgetError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs

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


class Window(NamedTuple):
    """The events that a check may look at, by position inside the partition."""

    truth: Callable[[int], dict[Atom, bool]]
    value: Callable[[int, pred.Attribute], Any]


def questions(formula: cel.Formula) -> tuple[Atom, ...]:
    """Every question that checking the formula may ask of one event."""
    found: dict[Atom, None] = {}
    for node in cel.walk(formula):
        match node:
            case cel.Event(type=name, stream=stream):
                found[TypeIs(name, stream)] = None
            case cel.Filter(condition=condition):
                for holds in _holds(condition):
                    found.update(dict.fromkeys(find_atoms(build_test(holds.predicate))))
            case cel.Not(body=body):
                found.update(dict.fromkeys(find_atoms(build_event_test(body))))
    return tuple(found)


def _holds(condition: pred.Condition) -> Iterator[pred.Holds]:
    match condition:
        case pred.Holds():
            yield condition
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            for part in parts:
                yield from _holds(part)


class Verifier:
    """Checks candidates of one formula."""

    def __init__(self, formula: cel.Formula) -> None:
        self.formula = formula
        self.atoms = questions(formula)
        self._labels = {name_atom(path): path for path, _ in _events(formula, ())}
        self._variables: dict[Path, dict[str, frozenset[Path]]] = {}
        self._guards: dict[Path, Runs] = {}

    def path_of(self, label: str) -> Path | None:
        """The path that an atom's label stands for; None for a variable's label."""
        return self._labels.get(label)

    def accepts(self, marks: Marks, start: int, end: int, window: Window) -> bool:
        """Whether the formula has a valuation with exactly these marks on [start, end]."""
        ordered = tuple(sorted(marks))
        return (start, end) in self._spans(self.formula, (), ordered, start, end, window)

    def _spans(
        self, node: cel.Formula, path: Path, marks: Marks, low: int, high: int, window: Window
    ) -> Spans:
        match node:
            case cel.Event():
                return frozenset({(marks[0].position,) * 2}) if len(marks) == 1 else NO_SPAN
            case cel.Not(body=body):
                if marks:
                    return NO_SPAN
                test = build_event_test(body)
                return frozenset(
                    (p, p) for p in range(low, high + 1) if not passes(test, window.truth(p))
                )
            case cel.As(body=body):
                return self._spans(body, (*path, 0), marks, low, high, window)
            case cel.Optional(body=body):
                inner = self._spans(body, (*path, 0), marks, low, high, window)
                return inner if marks else inner | {None}
            case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
                contiguous = isinstance(node, cel.Contiguous)
                spans: Spans = frozenset({None})
                for i, part in enumerate(parts):
                    here = (*path, i)
                    more = self._spans(part, here, _below(marks, here), low, high, window)
                    spans = _concatenate(spans, more, contiguous)
                return spans
            case cel.Choice(parts=parts):
                return frozenset(
                    span
                    for i, part in enumerate(parts)
                    if len(_below(marks, (*path, i))) == len(marks)
                    for span in self._spans(part, (*path, i), marks, low, high, window)
                )
            case cel.All(parts=parts):
                spans = frozenset({None})
                for i, part in enumerate(parts):
                    here = (*path, i)
                    more = self._spans(part, here, _below(marks, here), low, high, window)
                    spans = frozenset(_hull(a, b) for a in spans for b in more)
                return spans
            case cel.Iterate():
                return self._iterations(node, path, marks, low, high, window)
            case cel.Filter(body=body, condition=condition):
                if not self._satisfied(condition, body, (*path, 0), marks, window):
                    return NO_SPAN
                return self._spans(body, (*path, 0), marks, low, high, window)
            case cel.PartitionBy(body=body, keys=keys):
                if not self._one_value(keys, body, (*path, 0), marks, window):
                    return NO_SPAN
                return self._spans(body, (*path, 0), marks, low, high, window)
            case cel.Unless(body=body, guard=guard):
                return frozenset(
                    span
                    for span in self._spans(body, (*path, 0), marks, low, high, window)
                    if span is None
                    or not self._occurs(guard, (*path, 1), span[0] + 1, span[1] - 1, window)
                )

    def _iterations(
        self, node: cel.Iterate, path: Path, marks: Marks, low: int, high: int, window: Window
    ) -> Spans:
        """Every way to cut the marks into rounds; a round takes the next few of them."""
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
                for more in self._spans(node.body, here, group, begin, high, window):
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

    # ---------------------------------------------------------- conditions

    def _positions(self, variable: str, body: cel.Formula, path: Path, marks: Marks) -> list[int]:
        """μ(variable) of the valuation of `body` that these marks describe."""
        names = self._variables.get(path)
        if names is None:
            names = self._variables[path] = _bound(body, path)
        atoms = names.get(variable, frozenset())
        return sorted({mark.position for mark in marks if mark.path in atoms})

    def _satisfied(
        self,
        condition: pred.Condition,
        body: cel.Formula,
        path: Path,
        marks: Marks,
        window: Window,
    ) -> bool:
        match condition:
            case pred.Holds(variable=variable, predicate=predicate):
                test = build_test(predicate)
                events = self._positions(variable, body, path, marks)
                return all(passes(test, window.truth(p)) for p in events)
            case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
                one = self._positions(left.variable, body, path, marks)
                other = self._positions(right.variable, body, path, marks)
                return all(
                    compare(
                        op,
                        window.value(p, left.attribute),
                        _shifted(window.value(q, right.attribute), shift),
                    )
                    for p, q in (
                        _neighbours(one, other, marks) if adjacent else product(one, other)
                    )
                )
            case pred.AllOf(parts=parts):
                return all(self._satisfied(c, body, path, marks, window) for c in parts)
            case pred.AnyOf(parts=parts):
                return any(self._satisfied(c, body, path, marks, window) for c in parts)

    def _one_value(
        self,
        keys: Sequence[cel.KeyPart],
        body: cel.Formula,
        path: Path,
        marks: Marks,
        window: Window,
    ) -> bool:
        values = []
        for key in keys:
            events = (
                sorted({mark.position for mark in marks})
                if key.variable is None
                else self._positions(key.variable, body, path, marks)
            )
            values += [window.value(p, key.attribute) for p in events]
        return all(compare("=", values[0], value) for value in values)

    # -------------------------------------------------------------- guards

    def _occurs(self, guard: cel.Formula, path: Path, low: int, high: int, window: Window) -> bool:
        """Whether the guard has a valuation inside [low, high]."""
        runs = self._guards.get(path)
        if runs is None:
            cea = construct(guard, name_atoms=True)
            runs = self._guards[path] = Runs(cea, Alphabet(cea))
        exact = not is_correlated(guard)
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
                    if exact or verifier.accepts(marks, start, position - 1, window):
                        return True
                    continue
                if position > high:
                    continue
                truth = window.truth(position)
                symbol = runs.alphabet.symbol([truth[a] for a in runs.alphabet.atoms])
                for labels, moved in runs.moves(configuration, symbol):
                    paths = (verifier.path_of(label) for label in labels)
                    new = tuple(Mark(position, p) for p in paths if p is not None and not exact)
                    stack.append((moved, position + 1, marks + new))
        return False


# ------------------------------------------------------------ small parts


def compare(op: str, left: Any, right: Any) -> bool:
    """A comparison that holds; unknown does not."""
    if left is None or right is None:
        return False
    text = isinstance(left, str), isinstance(right, str)
    if text[0] != text[1] or isinstance(left, bool) != isinstance(right, bool):
        return False
    try:
        match op:
            case "=":
                return bool(left == right)
            case "!=":
                return bool(left != right)
            case "<":
                return bool(left < right)
            case "<=":
                return bool(left <= right)
            case ">":
                return bool(left > right)
            case _:
                return bool(left >= right)
    except TypeError:
        return False


def _shifted(value: Any, shift: float | None) -> Any:
    """A number plus the shift; anything else cannot be shifted."""
    if shift is None:
        return value
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return value + shift if numeric else None


def _neighbours(
    earlier: Sequence[int], later: Sequence[int], marks: Marks
) -> Iterator[tuple[int, int]]:
    """The pairs of the two that are consecutive among all positions of the marks."""
    first, second = set(earlier), set(later)
    for p, q in pairwise(sorted({mark.position for mark in marks})):
        if p in first and q in second:
            yield p, q


def _below(marks: Marks, path: Path) -> Marks:
    return tuple(mark for mark in marks if mark.path[: len(path)] == path)


def _hull(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
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


def _events(node: cel.Formula, path: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """Every atom that can mark an event, with the variables it then belongs to."""
    match node:
        case cel.Event(type=name):
            yield path, frozenset({name})
        case cel.Not():
            return
        case cel.As(body=body, variable=variable):
            for below, names in _events(body, (*path, 0)):
                yield below, names | {variable}
        case cel.Unless(body=body):
            yield from _events(body, (*path, 0))
        case _:
            for i, child in enumerate(cel.children(node)):
                yield from _events(child, (*path, i))


def _bound(body: cel.Formula, path: Path) -> dict[str, frozenset[Path]]:
    """variable → the atoms of the formula that give it events."""
    found: dict[str, set[Path]] = {}
    for below, names in _events(body, path):
        for name in names:
            found.setdefault(name, set()).add(below)
    return {name: frozenset(paths) for name, paths in found.items()}
