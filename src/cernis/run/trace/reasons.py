"""Say in sentences what is in the way of a match: the values, the times, the events between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from cernis.automata.unary import construct
from cernis.automata.unary.alphabet import passes
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap, Unit, Window
from cernis.pattern.query import Absence
from cernis.pattern.write import (
    write_condition,
    write_decimal,
    write_duration,
    write_formula,
    write_gap,
    write_reference,
    write_term,
    write_value,
    write_window,
)
from cernis.results.finding import Obstacle
from cernis.run.check.conditions import (
    EventView,
    MarkedEvents,
    compare,
    find_broken_pair,
    satisfies,
)
from cernis.run.check.terms import Elapsed, Instant, Valued, evaluate_term
from cernis.run.check.verify import measure_time
from cernis.run.trace.events import Int64s, TracedEvents

_LONGEST = 60


class Reasons:
    """Makes obstacles for events of one partition, by their ranks."""

    def __init__(self, view: EventView, events: TracedEvents, members: Int64s) -> None:
        self.view, self.events, self.members = view, events, members
        self._kinds: dict[int, str] = {}

    def name(self, rank: int) -> str:
        return self.events.name(int(self.members[rank]))

    def _kind(self, rank: int) -> str:
        """Return the type of an event."""
        if rank not in self._kinds:
            event = self.events.read_event(int(self.members[rank]))
            found = event.get(self.events.store.type_column)
            self._kinds[rank] = "an event without a type" if found is None else str(found)
        return self._kinds[rank]

    # ------------------------------------------------------------- the events

    def type(self, atom: cel.Event, names: frozenset[str], rank: int) -> Obstacle:
        wanted = f"{atom.type} of {atom.stream}" if atom.stream else atom.type
        own = sorted(names - {atom.type})
        takes = f"{', '.join(own)} takes" if own else "the pattern takes"
        reason = f"{self.name(rank)} is {self._kind(rank)}, {takes} {wanted}"
        return Obstacle("type", rank, write_formula(atom), reason)

    def missing(self, atom: cel.Event, names: frozenset[str]) -> Obstacle:
        own = sorted(names - {atom.type})
        what = f"{', '.join(own)} ({atom.type})" if own else atom.type
        last = len(self.members) - 1
        return Obstacle("missing", last, write_formula(atom), f"none of the events is {what}")

    def extra(self, rank: int) -> Obstacle:
        reason = f"{self.name(rank)} ({self._kind(rank)}) has no place beside the others"
        return Obstacle("extra", rank, "the pattern", reason)

    def negated(self, body: cel.Formula, rank: int) -> Obstacle:
        return Obstacle("excluded", rank, f"NOT {write_formula(body)}", f"{self.name(rank)} is one")

    def between(self, end: int, start: int) -> Obstacle:
        many = start - end - 1
        what = self.name(end + 1) if many == 1 else f"{many} events"
        verb = "stands" if many == 1 else "stand"
        reason = f"{what} {verb} between {self.name(end)} and {self.name(start)}"
        return Obstacle("order", start, "':' (right after)", reason)

    def strict(self, used: Sequence[int], span: tuple[int, int]) -> Obstacle:
        free = next(rank for rank in range(span[0], span[1] + 1) if rank not in set(used))
        reason = f"{self.name(free)} lies between the events and is not one of them"
        return Obstacle("strategy", span[1], "STRICT", reason)

    def next(self, rank: int, start: int) -> Obstacle:
        reason = f"{self.name(rank)} comes before {self.name(start)} and fits as well"
        return Obstacle("next", start, "'->' (the first that fits)", reason)

    def gap(self, gap: Gap, end: int, start: int) -> Obstacle:
        if gap.unit is Unit.EVENTS:
            far = f"{start - end} EVENTS"
        else:
            far = write_duration(Fraction(measure_time(end, start, self.view)))
        reason = f"from {self.name(end)} to {self.name(start)} are {far}"
        return Obstacle("gap", start, f"[{write_gap(gap)}]", reason)

    # ---------------------------------------------------------------- windows

    def window(self, window: Window, span: tuple[int, int] | None) -> Obstacle:
        assert span is not None
        start, end = span
        rows = f"from {self.name(start)} to {self.name(end)} are"
        match window.unit:
            case Unit.EVENTS:
                over = Fraction(end - start) - window.size
                far, beyond = f"{end - start} EVENTS", f"{write_decimal(over)} too many"
            case Unit.TIME:
                elapsed = Fraction(measure_time(start, end, self.view))
                far = write_duration(elapsed)
                beyond = f"{write_duration(elapsed - window.size)} too long"
            case Unit.ATTRIBUTE:
                assert window.attribute is not None
                low, high = (self.view.value(rank, window.attribute) for rank in span)
                if low is None or high is None:
                    return Obstacle(
                        "window", end, f"WITHIN {write_window(window)}", "a value is missing"
                    )
                far, beyond = f"{high - low}", f"{high - low - _plain(window.size)} too much"
        reason = f"{rows} {far}, {beyond}"
        return Obstacle("window", end, f"WITHIN {write_window(window)}", reason)

    # ----------------------------------------------------------------- guards

    def excluded(
        self, guard: cel.Formula, occurs: tuple[int, int], span: tuple[int, int]
    ) -> Obstacle:
        reason = f"{self._say_span(occurs)} in between"
        return Obstacle("excluded", span[1], f"UNLESS {write_formula(guard)}", reason)

    def absent(self, absence: Absence, occurs: tuple[int, int], span: tuple[int, int]) -> Obstacle:
        clause = "BEFORE" if absence.before else "FOR"
        words = f"WITHOUT {write_formula(absence.formula)} {clause} {write_window(absence.within)}"
        where = "before it" if absence.before else "after it"
        return Obstacle("absence", span[1], words, f"{self._say_span(occurs)} {where}")

    def _say_span(self, span: tuple[int, int]) -> str:
        if span[0] == span[1]:
            return f"{self.name(span[0])} ({self._kind(span[0])}) comes"
        return f"{self.name(span[0])} to {self.name(span[1])} come"

    # ------------------------------------------------------------- conditions

    def key(self, values: Sequence[tuple[int, pred.Attribute, Any]]) -> Obstacle | None:
        """Return where values that must be one differ; None: they are one."""
        for rank, attribute, value in values:
            first = values[0]
            if not compare("=", first[2], value):
                text = f"{write_value(attribute)} is {_say(value)} in {self.name(rank)}"
                other = f"{write_value(first[1])} is {_say(first[2])} in {self.name(first[0])}"
                reason = text if rank == first[0] else f"{text}, {other}"
                return Obstacle("key", rank, f"PARTITION BY [{write_value(attribute)}]", reason)
        return None

    def condition(
        self, leaf: pred.Condition, found: MarkedEvents, everything: Sequence[int]
    ) -> Obstacle:
        """Return why a condition does not hold."""
        rank, reason = self._blame(leaf, found, everything)
        return Obstacle("condition", rank, write_condition(leaf), reason)

    def _blame(
        self, leaf: pred.Condition, found: MarkedEvents, everything: Sequence[int]
    ) -> tuple[int, str]:
        last = max(everything, default=0)
        match leaf:
            case pred.Holds(variable=variable, predicate=predicate):
                test = construct.build_test(predicate)
                for rank in found.of(variable):
                    if not passes(test, self.view.truth(rank)):
                        return rank, f"in {self.name(rank)} {self._say_values(predicate, rank)}"
            case (pred.CompareNeighbours() as compared) | pred.Compare(
                origin=pred.CompareNeighbours() as compared
            ):
                pair = find_broken_pair(compared, found, self.view)
                if pair is not None:
                    return pair.end, self._say_neighbours(compared, pair)
            case pred.Compare(origin=pred.CompareTerms() as whole):
                return self._blame(whole, found, everything)
            case pred.Compare(left=left, right=right):
                for p, q in product(found.of(left.variable), found.of(right.variable)):
                    alone = MarkedEvents(
                        lambda v, p=p, q=q, x=left.variable: [p] if v == x else [q],  # type: ignore[misc]
                        lambda p=p, q=q: sorted({p, q}),  # type: ignore[misc]
                        found.span,
                    )
                    same = left.variable == right.variable
                    if not same and not satisfies(leaf, alone, self.view):
                        return max(p, q), self._say_pair(leaf, p, q)
            case pred.CompareTerms(left=one, right=other):
                return last, ", ".join(
                    self._say_term(term, found, everything)
                    for term in (one, other)
                    if not isinstance(term, pred.Literal | pred.ConstantDuration)
                )
            case pred.Monotone(variable=variable, attribute=attribute, op=op):
                name = write_value(attribute)
                for p, q in pairwise(found.of(variable)):
                    a, b = self.view.value(p, attribute), self.view.value(q, attribute)
                    if not compare(op, a, b):
                        words = (
                            f"{name} is {_say(a)} in {self.name(p)}, {_say(b)} in {self.name(q)}"
                        )
                        return q, words
            case pred.AllOf(parts=parts):
                for part in parts:
                    if not satisfies(part, found, self.view):
                        return self._blame(part, found, everything)
            case pred.AnyOf(parts=parts):
                said = [self._blame(part, found, everything) for part in parts]
                if said:
                    rank = max(rank for rank, _ in said)
                    return rank, f"none of its parts holds: {'; '.join(words for _, words in said)}"
        return last, "it does not hold"

    def _say_pair(self, leaf: pred.Compare, p: int, q: int) -> str:
        sides = ((leaf.left, p), (leaf.right, q))
        return ", ".join(
            f"{write_reference(side)} is {_say(self.view.value(rank, side.attribute))} "
            f"in {self.name(rank)}"
            for side, rank in sides
        )

    def _say_neighbours(self, leaf: pred.CompareNeighbours, pair: Valued) -> str:
        return ", ".join(
            f"{write_reference(part)} is {_say(evaluate_term(part, pair))} "
            f"in {self.name(pair.start if part.previous else pair.end)}"
            for part in dict.fromkeys(leaf.references)
        )

    def _say_term(
        self, term: pred.MatchTerm, found: MarkedEvents, everything: Sequence[int]
    ) -> str:
        valued = Valued(
            found.of,
            [*everything],
            *(found.span or (0, 0)),
            self.view.value,
            self.view.time,
            self.view.tick,
        )
        return f"{write_term(term)} is {_say(evaluate_term(term, valued))}"

    def _say_values(self, predicate: pred.Predicate, rank: int) -> str:
        names = dict.fromkeys(pred.attributes_of(predicate))
        values = [f"{write_value(a)} is {_say(self.view.value(rank, a))}" for a in names]
        return " and ".join(values) or "it is false"


def _plain(size: Fraction) -> int | float:
    return int(size) if size.denominator == 1 else float(size)


def _say(value: Any) -> str:
    """Return a value as people read it."""
    match value:
        case None:
            return "missing"
        case Elapsed(nanoseconds=nanoseconds):
            return (
                write_duration(nanoseconds)
                if nanoseconds >= 0
                else f"-{_say(Elapsed(-nanoseconds))}"
            )
        case Instant(nanoseconds=nanoseconds):
            return f"{nanoseconds} ns"
        case timedelta():
            return str(value)
        case Fraction():
            return write_decimal(value)
        case str():
            text = value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
            return f"'{text}'"
        case _:
            return str(value)
