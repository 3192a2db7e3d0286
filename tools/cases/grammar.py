"""Random queries and streams that are well-formed, small and often match.

One grammar for two drivers: everything random comes from a *chooser*, a function that
gives a number below n and for which 0 is the simplest answer. Python's generator makes
a fast one for long runs (`random_case`); Hypothesis makes one that shrinks
(`tools.cases.strategies`). Cost: a case takes well under a millisecond, and the
length of the stream is cut so that the oracle takes milliseconds too.

`Features` switches the operators and clauses of a query. The alphabets are small on purpose:
three types and attributes with a handful of values, NULLs and missing keys among them.

`families` makes queries of one shape instead: events that are compared with each other,
mostly with their neighbours, over attributes with two values each, so that many match.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, pairwise
from math import prod
from typing import Any, Literal, TypeVar

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap
from cernis.pattern.predicate import Aggregate
from cernis.pattern.query import (
    Absence,
    Consume,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Unit,
    Variable,
    Window,
)
from cernis.pattern.waits import list_first
from tools.cases.absences import LINKS, Link, link_guard, make_absence
from tools.cases.terms import make_term_condition, make_value_select

T = TypeVar("T")
Chooser = Callable[[int], int]
Events = list[dict[str, Any]]
RandomCase = tuple[Pattern, Events]

MISSING = object()

DOMAINS: dict[str, tuple[Any, ...]] = {
    "a": (1, 0, 2, 3, 1, 2, None, MISSING),
    "b": (1, 0, 2, 3, 1, 2, None, MISSING),
    "f": (1.5, 0.5, 1.0, 2.0, -1.0, float("nan"), None, MISSING),
    "s": ("x", "y", "xy", "", None, MISSING),
    "t": (True, False, True, None, MISSING),
    "k": ("p", "q", "p", "p", None, MISSING),
    "h": ("q", "p", "q", None, MISSING),
    "g": (1, 2, 1, 1, None, MISSING),
    "u": (1, 2, 1, 1, 2, 1, 2, 1, 1, None),
    "v": (1, 2, 1, 2, 1, 1, 1, 2, 3, MISSING),
    "w": (1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.5, 1.0, float("nan"), None),
    "c": ("p", "q", "p", "p", "q", "p", "p", "", None, MISSING),
}
"""The values of each attribute; a value may stand twice to come up more often."""

RISING = ("n", "m")
"""Attributes that never decrease: integers and floats."""

Family = Literal["chain", "previous", "neighbours", "keys", "order", "all", "mixed"]
FAMILIES: tuple[Family, ...] = (
    "chain", "previous", "neighbours", "keys", "order", "all", "mixed",
)  # fmt: skip
"""Shapes of queries that compare events: by = and !=, by PREV, by PREV in arithmetic, by nested
PARTITION BY, by order, by equalities across ALL, and by everything at once."""

MILLISECOND = 1_000_000
_PARTITIONS = (
    (("k",),), (("k",),), (("g",),), (("k",), ("g",)), (("k", "h"),), (("h", "k"), ("g",)),
)  # fmt: skip
_BOUNDS = ((1, None), (1, None), (1, 2), (2, 3), (2, None), (2, 2), (0, 2), (0, None), (1, 3))
_COMPARED = ("u", "uv", "uvw", "c")
_LIMITS: tuple[tuple[pred.Operator, int], ...] = (("<=", 2), ("=", 1), (">=", 1), ("!=", 2))
_OPERATORS: tuple[pred.Operator, ...] = (">=", "<=", "=", "!=", "<", ">")
_STEPS = ("x", "y", "z", "w")
_EQUAL: tuple[pred.Operator, ...] = ("=", "=", "!=")
_ORDER: tuple[pred.Operator, ...] = ("<", "<=", ">", ">=", "=")
_NEIGHBOURS: tuple[pred.Operator, ...] = ("=", "<", "!=", "<=", ">", "=", ">=")
_LARGEST_ANSWER = 20_000
_LARGEST_LINE = 200_000  # without ALL the bound on a family is cruder


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a random query may contain, and how large it and its stream may be."""

    size: int = 9
    events: int = 10
    types: tuple[str, ...] = ("A", "B", "C")
    variables: tuple[str, ...] = ("x", "y", "z")
    contiguous: bool = True
    next_: bool = False
    gaps: bool = False
    iterate: bool = True
    optional: bool = True
    filters: bool = True
    not_: bool = True
    all_: bool = True
    unless: bool = True
    binary: bool = False
    previous: bool = False
    families: tuple[Family, ...] = ()
    partition_by_inside: bool = False
    streams: tuple[str, ...] = ()
    nan: bool = True
    strategies: tuple[Strategy, ...] = tuple(s for s in Strategy if s is not Strategy.LONGEST)
    """LONGEST is for tests of its own: its matches are pushed after their ends."""
    windows: tuple[Unit | None, ...] = (None, *Unit)
    consume: tuple[Consume, ...] = tuple(Consume)
    selects: tuple[str, ...] = ("*", "list", "NONE", "COUNT", "aggregates")
    partition: bool = True
    limit: bool = True
    terms: bool = False
    forget: bool = False
    after: tuple[Link, ...] = ()
    """How WITHOUT … FOR may depend on the match; none: there is none."""
    before: tuple[Link, ...] = ()
    """The same of WITHOUT … BEFORE."""
    linked_unless: bool = False
    """Whether conditions of UNLESS may mention variables of the match."""
    untimed: bool = True
    disorder: bool = True


EVERYTHING = Features(
    binary=True, previous=True, partition_by_inside=True, next_=True, streams=("S", "T")
)


def random_case(seed: int, features: Features | None = None) -> RandomCase:
    """Make a query and a stream for it; a seed always gives the same case.

    >>> random_case(7) == random_case(7)
    True
    """
    return QueryGrammar(random.Random(seed).randrange, features or Features()).make_case()


def make_cuts(choose: Chooser, length: int) -> list[int]:
    """Choose where to split a stream into batches: ascending; repeats make empty batches."""
    return sorted(choose(length + 1) for _ in range(choose(4)))


def split_batches(items: Sequence[T], at: Sequence[int]) -> list[Sequence[T]]:
    """Split the items at the cuts.

    >>> split_batches("abcd", [1, 1, 3])
    ['a', '', 'bc', 'd']
    """
    edges = [0, *at, len(items)]
    return [items[low:high] for low, high in pairwise(edges)]


class Choices:
    """Random choices by a chooser."""

    def __init__(self, choose: Chooser) -> None:
        self.choose = choose

    def pick(self, items: Sequence[T]) -> T:
        return items[self.choose(len(items))]

    def pick_mostly_first(self, items: Sequence[T]) -> T:
        """Pick the first item half of the time, otherwise any."""
        return items[0] if self.choose(2) == 0 else self.pick(items)

    def happens(self, out_of: int) -> bool:
        return self.choose(out_of) == out_of - 1


class QueryGrammar(Choices):
    """Random queries with some features, and streams for them."""

    def __init__(self, choose: Chooser, features: Features) -> None:
        super().__init__(choose)
        self.features = features

    def make_case(self) -> RandomCase:
        """Make a query and a stream that has its attributes."""
        made = self.make_pattern()
        return made, self.make_events(made)

    # -------------------------------------------------------- queries

    def make_pattern(self) -> Pattern:
        """Make a random query; over several streams, FROM names all of them or the last."""
        on = self.features
        if self.happens(3):
            on = replace(on, streams=on.streams[-1:])
        if on.families:
            few = QueryGrammar(self.choose, replace(on, types=on.types[:2]))
            body = few.make_correlated(self.pick(on.families))
        else:
            size = 1 + max(self.choose(on.size), self.choose(on.size))
            body = QueryGrammar(self.choose, on).make_formula(size)
        valued = on.terms and self.choose(4) > 0
        if on.terms and self.choose(4) > 0:
            body = cel.Filter(body, make_term_condition(self.choose, body))
            if self.happens(4):
                body = cel.Iterate(body, 1, 2)
        select = make_value_select(self.choose, body) if valued else self._make_select(body)
        return Pattern(
            formula=body,
            select=select,
            strategy=self.pick_mostly_first(on.strategies),
            streams=on.streams,
            partition=self.pick(_PARTITIONS) if on.partition and self.happens(3) else (),
            within=self._make_window(self.pick_mostly_first(on.windows)),
            consume=self.pick_mostly_first(on.consume),
            limit=self.choose(4) if on.limit and self.happens(6) else None,
            forget=Fraction((1 + self.choose(8)) * MILLISECOND, 2) if on.forget else None,
            without=tuple(self._make_without(body)),
        )

    def _make_without(self, body: cel.Formula) -> Iterator[Absence]:
        on = self.features
        names = ("p", "q", *on.variables[:1])
        few = QueryGrammar(self.choose, replace(on, families=(), variables=names, all_=False))
        for before, links in ((False, on.after), (True, on.before)):
            if links:
                guard = few.make_formula(1 + self.choose(4))
                link = self.pick(links)
                yield make_absence(self.choose, link, body, guard, before=before)

    def make_formula(self, size: int) -> cel.Formula:
        """Make a random formula of at most `size` nodes."""
        if size <= 1:
            return self._make_atom()
        return self.pick(self._list_makers(size))(size - 1)

    def _list_makers(self, size: int) -> list[Callable[[int], cel.Formula]]:
        """List the operators for a node of this size, frequent ones several times."""
        on = self.features
        weights: list[tuple[Callable[[int], cel.Formula], int]] = [
            (self._make_as, 2),
            (self._make_iterate, 2 * on.iterate),
            (self._make_optional, on.optional),
            (self._make_filter, 2 * on.filters),
            (self._make_partition_by, on.partition_by_inside),
            (self._make_within, 2 * on.gaps),
        ]
        if size > 2:
            weights += [
                (partial(self._make_several, self._make_sequence), 5),
                (partial(self._make_several, cel.Choice), 2),
                (partial(self._make_several, cel.Contiguous), 2 * on.contiguous),
                (partial(self._make_several, cel.All), on.all_),
                (self._make_unless, 2 * on.unless),
            ]
        return [make for make, weight in weights for _ in range(weight)]

    def _make_atom(self) -> cel.Formula:
        if self.features.not_ and self.happens(10):
            return cel.Not(self._make_single(3))
        return self._make_event()

    def _make_event(self) -> cel.Formula:
        name = self.pick(self.features.types)
        named = self.features.streams and self.happens(3)
        return cel.Event(name, self.pick(self.features.streams) if named else None)

    def _make_single(self, depth: int) -> cel.Formula:
        """Make a formula of one event, which may stand under NOT."""
        kind = self.choose(5) if depth else 0
        if kind == 1:
            return self._filter_formula(self._make_single(depth - 1))
        if kind == 2:
            return cel.Choice((self._make_single(depth - 1), self._make_single(depth - 1)))
        if kind == 3:
            return cel.As(self._make_event(), self.pick(self.features.variables))
        return self._make_event()

    def _make_as(self, size: int) -> cel.Formula:
        return cel.As(self.make_formula(size), self.pick(self.features.variables))

    def _make_optional(self, size: int) -> cel.Formula:
        return cel.Optional(self.make_formula(size))

    def _make_iterate(self, size: int) -> cel.Formula:
        body = self.make_formula(size)
        contiguous = self.features.contiguous and self.happens(3)
        low, high = self.pick(_BOUNDS)
        if low == 0 and not self.features.optional:
            low = 1
        separator = cel.LATER if contiguous else self._make_separator(body)
        return cel.Iterate(body, low, high, contiguous, separator)

    def _make_separator(self, after: cel.Formula) -> cel.Separator:
        """Make what may stand between two parts: `->` where the second part allows it."""
        allowed = all(isinstance(first, cel.Event) for _, first in list_first(after))
        next_ = self.features.next_ and allowed and self.choose(2) == 1
        gap = self._make_gap() if self.features.gaps and self.choose(2) == 1 else None
        return cel.Separator(next_, gap)

    def _make_gap(self) -> Gap:
        most, least = 1 + self.choose(4), self.pick((0, 0, 0, 1, 2))
        scale = self.pick((Fraction(1), Fraction(MILLISECOND)))
        if scale == 1:
            return Gap(Unit.EVENTS, Fraction(most), Fraction(min(least, most)))
        size = Fraction(most) if self.choose(2) else Fraction(2 * most - 1, 2)
        return Gap(Unit.TIME, size * scale, min(Fraction(least), size) * scale)

    def _make_within(self, size: int) -> cel.Formula:
        unit = self.pick(tuple(Unit))
        window = self._make_window(unit)
        assert window is not None
        return cel.Within(self.make_formula(size), window)

    def _make_unless(self, size: int) -> cel.Formula:
        guard = 1 + self.choose(max(1, size // 3))
        body, inside = self.make_formula(size - guard), self.make_formula(guard)
        if self.features.linked_unless:
            inside = link_guard(self.choose, self.pick(LINKS), body, inside)
        return cel.Unless(body, inside)

    def _make_several(
        self, operator: Callable[[tuple[cel.Formula, ...]], cel.Formula], size: int
    ) -> cel.Formula:
        """Make an operator of two or three formulas, which share a size of at least 2."""
        number = 3 if size > 2 and self.happens(3) else 2
        shares = [1] * number
        for _ in range(size - number):
            shares[self.choose(number)] += 1
        return operator(tuple(self.make_formula(share) for share in shares))

    def _make_sequence(self, parts: tuple[cel.Formula, ...]) -> cel.Formula:
        return cel.Sequence(parts, tuple(map(self._make_separator, parts[1:])))

    def _make_filter(self, size: int) -> cel.Formula:
        return self._filter_formula(self.make_formula(size))

    def _filter_formula(self, body: cel.Formula) -> cel.Formula:
        names = find_bound_variables(body)
        return cel.Filter(body, self._make_condition(names, 2)) if names else body

    def _make_partition_by(self, size: int) -> cel.Formula:
        body = self.make_formula(size)
        types = sorted({node.type for node in _walk_marked(body) if isinstance(node, cel.Event)})
        if not types or self.choose(2) == 0:
            return cel.PartitionBy(body, (cel.KeyPart(None, self._choose_attribute("ab")),))
        keys = tuple(cel.KeyPart(name, self._choose_attribute("ab")) for name in types)
        return cel.PartitionBy(body, keys)

    # ------------------------------------------ events that are compared

    def make_correlated(self, family: Family) -> cel.Formula:
        """Make a random formula of one family."""
        makers: dict[Family, Callable[[], cel.Formula]] = {
            "chain": partial(self._make_chain, _EQUAL),
            "order": partial(self._make_chain, _ORDER),
            "previous": self._make_previous,
            "neighbours": partial(self._make_previous, arithmetic=True),
            "keys": self._make_keyed,
            "all": self._make_gathering,
            "mixed": self._make_mixture,
        }
        return makers[family]()

    def _make_chain(self, operators: Sequence[pred.Operator]) -> cel.Formula:
        """Make steps that are compared; sometimes repeat the whole, or put an event after it."""
        names = _STEPS[: self.pick((2, 3, 2, 3, 4))]
        links = [self._make_link(names, operators) for _ in range(1 + self.choose(2))]
        body: cel.Formula = cel.Filter(self._make_line(names), self._join_links(links))
        if self.features.iterate and self.happens(5):
            body = cel.Iterate(body, 1, self.pick((None, 2)))
        if self.happens(6):
            body = cel.Sequence((body, self._make_event()))
        return body

    def _make_line(self, names: Sequence[str]) -> cel.Formula:
        """Make one step for each name, after each other."""
        steps = tuple(self._make_step(name) for name in names)
        if len(steps) == 1:
            return steps[0]
        if self.features.contiguous and self.happens(5):
            return cel.Contiguous(steps)
        if self.features.unless and self.happens(12):
            return cel.Unless(self._make_sequence(steps), self._make_event())
        return self._make_sequence(steps)

    def _make_step(self, name: str) -> cel.Formula:
        """Make a step of one name: often one event, sometimes several, none, or of either type."""
        event = self._make_event()
        kind = self.choose(10)
        if kind >= 7 and self.features.iterate:
            bounds = self.pick(((1, None), (1, 2), (2, None)))
            contiguous = self.features.contiguous and self.happens(4)
            step = cel.Iterate(event, *bounds, contiguous=contiguous)
            inside = self.choose(2)
            return replace(step, body=cel.As(event, name)) if inside else cel.As(step, name)
        if kind == 6 and self.features.optional:
            return cel.Optional(cel.As(event, name))
        if kind == 5:
            return cel.As(cel.Choice((event, self._make_event())), name)
        return cel.As(event, name)

    def _make_link(self, names: Sequence[str], operators: Sequence[pred.Operator]) -> pred.Compare:
        """Compare two steps, mostly neighbours."""
        first = self.choose(len(names) - 1)
        left, right = names[first], names[first + 1]
        if self.happens(5):
            left, right = self.pick(names), self.pick(names)
        return self._make_compare(left, right, operators)

    def _make_compare(
        self, left: str, right: str, operators: Sequence[pred.Operator]
    ) -> pred.Compare:
        numbers, operator = self.pick(_COMPARED), self.pick(operators)
        one, other = self._choose_attribute(numbers), self._choose_attribute(numbers)
        return pred.Compare(operator, pred.Reference(left, one), pred.Reference(right, other))

    def _join_links(self, links: Sequence[pred.Condition]) -> pred.Condition:
        """Join the links, mostly by AND, sometimes with a test of one event."""
        parts = tuple(links)
        if self.features.filters and self.happens(5):
            name = next(name for link in links for name in pred.leaf_variables(*pred.leaves(link)))
            op, limit = self.pick(_LIMITS)
            test = pred.Comparison(op, self._choose_attribute("uv"), pred.Literal(limit))
            parts = (*parts, pred.Holds(name, test))
        if len(parts) == 1:
            return parts[0]
        if len(parts) > 2 and self.happens(4):
            return pred.AllOf((parts[0], pred.AnyOf(parts[1:])))
        return pred.AnyOf(parts) if self.happens(5) else pred.AllOf(parts)

    def _make_previous(self, arithmetic: bool = False) -> cel.Formula:
        """Compare neighbours: within one variable, between two, or along the whole."""
        names = _STEPS[: 1 + self.choose(3)]
        line = self._make_line(names)
        if len(names) == 1 and self.choose(2) == 0:
            line = cel.As(cel.Iterate(self._make_event(), contiguous=self.choose(4) == 3), "x")
        elif len(names) == 1:  # what stands between two events of x keeps them apart
            names = _STEPS[:2]
            parts = tuple(map(cel.As, map(cel.Event, self.features.types), names))
            line = cel.Iterate(cel.Choice(parts) if self.choose(3) else cel.Sequence(parts), 2)
        if self.happens(3):
            line, names = cel.As(line, "m"), ("m",)
        links: list[pred.Condition] = []
        for _ in range(1 + self.choose(2)):
            first = self.choose(len(names))
            left, right = names[first], names[min(first + 1, len(names) - 1)]
            if self.choose(5) >= 3:
                left = right = self.pick(find_bound_variables(line))
                right = self.pick(find_bound_variables(line)) if self.choose(2) else right
            link = replace(self._make_compare(left, right, _NEIGHBOURS), adjacent=True)
            links.append(self._calculate_pair(link) if arithmetic else link)
        body = cel.Filter(line, self._join_links(links))
        return cel.Iterate(body, 1, 2) if self.happens(5) else body

    def _calculate_pair(self, link: pred.Compare) -> pred.Condition:
        """Compare neighbours with arithmetic on either side, or with both on one side."""
        op, x, y = link.op, link.left.variable, link.right.variable
        earlier = pred.Reference(x, self._choose_attribute("uvw"), previous=True)
        later, more = (pred.Reference(y, self._choose_attribute("uvw")) for _ in range(2))
        step = pred.Literal(self.choose(3))
        duration = pred.ConstantDuration(Fraction(self.choose(3) * MILLISECOND, 2))
        match self.choose(8):
            case 0:
                return pred.compare_terms(op, pred.Calculation("+", earlier, step), later)
            case 1:
                return pred.compare_terms(op, later, pred.Calculation("-", earlier, duration))
            case 2:
                return pred.compare_terms(op, pred.Calculation("-", later, earlier), step)
            case 3:
                return pred.compare_terms(op, pred.Calculation("-", later, earlier), duration)
            case 4:
                double = pred.Calculation("*", pred.Literal(2), earlier)
                return pred.compare_terms(op, double, pred.Calculation("+", later, more))
            case 5:
                half = pred.Calculation("/", earlier, pred.Literal(2))
                return pred.compare_terms(op, half, pred.Opposite(pred.Opposite(later)))
            case 6:
                return pred.compare_terms(op, step, pred.Calculation("%", later, earlier))
            case _:
                return pred.compare_terms(op, pred.Opposite(earlier), later)

    def _make_keyed(self) -> cel.Formula:
        """Put PARTITION BY around a line, with others inside."""
        names = _STEPS[: 1 + self.choose(3)]
        line = self._make_line(names)
        if self.choose(2) and isinstance(line, cel.Sequence):
            within = self.choose(len(line.parts))
            group: cel.Formula = cel.Iterate(self._make_event(), 1, self.pick((None, 3)))
            group = cel.PartitionBy(group, (cel.KeyPart(None, self._choose_attribute("uvc")),))
            parts = list(line.parts)
            parts[within] = cel.As(group, names[within])
            line = replace(line, parts=tuple(parts))
        body: cel.Formula = line
        for _ in range(1 + self.choose(2)):
            body = cel.PartitionBy(body, self._make_keys(names))
        return cel.Iterate(body, 1, 2) if self.happens(6) else body

    def _make_keys(self, names: Sequence[str]) -> tuple[cel.KeyPart, ...]:
        numbers = self.pick(_COMPARED)
        if self.choose(3) == 0:
            return (cel.KeyPart(None, self._choose_attribute(numbers)),)
        return tuple(cel.KeyPart(name, self._choose_attribute(numbers)) for name in names)

    def _make_gathering(self) -> cel.Formula:
        """Join steps by ALL that agree on an attribute, alone or before another event."""
        names = _STEPS[: 2 + self.choose(2)]
        parts = [self._make_step(name) for name in names]
        links = [self._make_link(names, ("=", "=", "=", "!=")) for _ in range(1 + self.choose(2))]
        if self.happens(4):
            parts[0] = cel.Sequence((parts[0], cel.As(self._make_event(), "w")))
            links.append(self._make_compare("x", "w", _EQUAL))
        body: cel.Formula = cel.Filter(cel.All(tuple(parts)), self._join_links(links))
        if self.happens(5):
            key = cel.KeyPart(None, self._choose_attribute("u"))
            body = cel.PartitionBy(cel.All(tuple(parts)), (key,))
        if self.happens(4):
            body = cel.Sequence((body, self._make_event()))
        return body

    def _make_mixture(self) -> cel.Formula:
        """Combine two families: one after the other, either, or one as a guard; then compare."""
        first, second = (self.make_correlated(self.pick(FAMILIES[:-1])) for _ in range(2))
        match self.choose(4):
            case 0:
                body: cel.Formula = cel.Sequence((first, cel.As(self._make_event(), "y")))
            case 1:
                body = cel.Choice((first, second))
            case 2:
                body = cel.Unless(first, cel.Sequence((self._make_event(), second)))
            case _:
                body = cel.Sequence((first, second))
        names = find_bound_variables(body)
        link = self._make_compare(self.pick(names), self.pick(names), _NEIGHBOURS)
        return cel.Filter(body, replace(link, adjacent=self.choose(2) == 0))

    # --------------------------------------------- conditions, predicates

    def _make_condition(self, names: Sequence[str], depth: int) -> pred.Condition:
        kind = self.choose(6) if depth else self.choose(4)
        if kind >= 4:
            number = 2 + self.choose(2)
            parts = tuple(self._make_condition(names, depth - 1) for _ in range(number))
            return pred.AllOf(parts) if kind == 4 else pred.AnyOf(parts)
        if self.features.binary and kind >= 2:
            compared = self._make_comparison(names)
            adjacent = self.features.previous and self.choose(2) > 0
            return replace(compared, adjacent=adjacent)
        return pred.Holds(self.pick(names), self._make_predicate(2))

    def _make_comparison(self, names: Sequence[str]) -> pred.Compare:
        family = self.pick(("ab", "ab", "abf", "s"))
        return pred.Compare(
            self.pick(_OPERATORS),
            pred.Reference(self.pick(names), self._choose_attribute(family)),
            pred.Reference(self.pick(names), self._choose_attribute(family)),
        )

    def _make_predicate(self, depth: int) -> pred.Predicate:
        kind = self.choose(12) if depth else self.choose(9)
        match kind:
            case 0 | 1 | 2:
                op, left = self.pick(_OPERATORS), self._choose_attribute("ab")
                return pred.Comparison(op, left, self._choose_int())
            case 3:
                op, numbers = self.pick(_OPERATORS), "abf" if self.features.nan else "ab"
                first, second = self._make_number(numbers, 2), self._make_number(numbers, 1)
                return pred.Comparison(op, first, second)
            case 4:
                text, op = pred.Literal(self.pick(("x", "y", "xy"))), self.pick(_OPERATORS)
                return pred.Comparison(op, self._choose_attribute("s"), text)
            case 5:
                regex = self.pick(("x.*", "x", "[xy]", ".*y", ".*"))
                return pred.Like(self._choose_attribute("s"), regex)
            case 6:
                values = tuple(self._choose_int() for _ in range(1 + self.choose(3)))
                return pred.InSet(self._choose_attribute("ab"), values)
            case 7:
                low, body = self.choose(3), self._choose_attribute("ab")
                return pred.InRange(body, pred.Literal(low), pred.Literal(low + self.choose(3)))
            case 8:
                if self.choose(2):
                    truth = pred.Literal(self.choose(2) == 0)
                    return pred.Comparison("=", self._choose_attribute("t"), truth)
                return pred.IsNull(self._choose_attribute("abst"), negated=self.choose(3) > 0)
            case 9 | 10:
                number = 2 + self.choose(2)
                parts = tuple(self._make_predicate(depth - 1) for _ in range(number))
                return pred.And(parts) if kind == 9 else pred.Or(parts)
            case _:
                return pred.Negation(self._make_predicate(depth - 1))

    def _make_number(self, names: str, depth: int) -> pred.Value:
        kind = self.choose(5 if depth else 3)
        if kind == 0:
            return self._choose_int()
        if kind <= 2:
            return self._choose_attribute(names)
        if kind == 3:
            left, right = self._make_number(names, depth - 1), self._make_number(names, depth - 1)
            return pred.Arithmetic(self.pick(("+", "-", "*", "/", "%")), left, right)
        return pred.Negative(self._choose_attribute(names))

    def _choose_attribute(self, names: str) -> pred.Attribute:
        return pred.Attribute((self.pick(names),))

    def _choose_int(self) -> pred.Literal:
        return pred.Literal(self.pick((1, 2, 0, 3)))

    # -------------------------------------------------------- clauses

    def _make_select(self, body: cel.Formula) -> Select:
        names = find_bound_variables(body)
        match self.pick_mostly_first(self.features.selects):
            case "list" if names:
                chosen = dict.fromkeys(self.pick(names) for _ in range(1 + self.choose(2)))
                kept = {x: ("a", "s") if self.happens(4) else () for x in chosen}
                return Select(False, tuple(Variable(x, names) for x, names in kept.items()))
            case "NONE":
                return Select(False)
            case "COUNT":
                return Select(False, (SelectedTerm(Aggregate("COUNT")),))
            case "aggregates" if names:
                found = tuple(self._make_aggregate(names) for _ in range(1 + self.choose(2)))
                terms = map(SelectedTerm, dict.fromkeys(found))
                return Select(False, (Variable(self.pick(names)), *terms))
            case _:
                return Select()

    def _make_aggregate(self, names: Sequence[str]) -> Aggregate:
        function = self.pick(("COUNT", "SUM", "MIN", "MAX", "AVG", "FIRST", "LAST"))
        if function == "COUNT":
            return Aggregate(function, self.pick(names) if self.choose(2) else None)
        reference = pred.Reference(self.pick(names), self._choose_attribute("ab"))
        return Aggregate(function, reference)

    def _make_window(self, unit: Unit | None) -> Window | None:
        match unit:
            case None:
                return None
            case Unit.EVENTS:
                return Window(unit, Fraction(1 + self.choose(6)))
            case Unit.TIME:
                return Window(unit, Fraction((2 + self.choose(14)) * MILLISECOND, 2))
            case Unit.ATTRIBUTE:
                return Window(unit, Fraction(1 + self.choose(8), 2), self._choose_attribute("nnm"))

    # -------------------------------------------------------- streams

    def make_events(self, for_: Pattern | None = None) -> Events:
        """Make a random stream; for a query, with its types and attributes."""
        on, needed = self.features, False
        names, types, longest = [*DOMAINS, *RISING], on.types, on.events
        if for_ is not None:
            in_time = for_.within is not None and for_.within.unit is Unit.TIME
            in_time = in_time or any(one.within.unit is Unit.TIME for one in for_.without)
            needed = in_time or for_.forget is not None or Unit.TIME in for_.inner_units
            formulas = [for_.formula, *(one.formula for one in for_.without)]
            names = sorted(_find_attributes(for_))
            types = tuple(name for one in formulas for name in _choose_types(on, one))
            longest = min(_find_longest(one, on) for one in formulas)
        timed = not on.untimed or needed or not self.happens(4)
        length = max(self.choose(longest + 1) for _ in range(4 if on.families else 2))
        made = [self._make_record(types, names) for _ in range(length)]
        if timed:
            for event, ts in zip(made, self._make_times(len(made)), strict=True):
                event["ts"] = ts
        self._fill_rising(made, [name for name in names if name in RISING])
        return made

    def _make_record(self, types: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
        event: dict[str, Any] = {"type": self.pick(types)}
        if self.features.streams:
            event["_stream"] = self.pick(self.features.streams)
        for name in names:
            found = self.pick(DOMAINS[name]) if name in DOMAINS else MISSING
            if found is not MISSING and (self.features.nan or found == found):
                event[name] = found
        return event

    def _make_times(self, length: int) -> list[int]:
        """Make times with ties, in order unless disorder is on and chosen."""
        found, now = [], 0
        for _ in range(length):
            now += self.pick((1, 0, 2, 1, 0, 5))
            found.append(now)
        if self.features.disorder and length > 1 and self.happens(4):
            for _ in range(1 + self.choose(3)):
                i, j = self.choose(length), self.choose(length)
                found[i], found[j] = found[j], found[i]
        return found

    def _fill_rising(self, made: Events, names: Sequence[str]) -> None:
        """Give the attributes that never decrease their values, in time order."""
        for name in names:
            now = 0
            for event in sorted(made, key=lambda event: event.get("ts", 0)):
                now += self.pick((1, 0, 2, 1, 0, 3))
                if not self.happens(10):
                    event[name] = now / 2 if name == "m" else now


# ----------------------------------------------- attributes, types, sizes


def find_bound_variables(body: cel.Formula) -> tuple[str, ...]:
    """Return the variables that a valuation of the formula can hold, types included.

    >>> find_bound_variables(cel.Unless(cel.As(cel.Event("A"), "x"), cel.Event("B")))
    ('A', 'x')
    """
    names = set()
    for node in _walk_marked(body):
        if isinstance(node, cel.Event):
            names.add(node.type)
        elif isinstance(node, cel.As) and find_bound_variables(node.body):
            names.add(node.variable)
    return tuple(sorted(names))


def _walk_marked(node: cel.Formula) -> Iterable[cel.Formula]:
    """Yield the nodes whose events are marked: not those under NOT nor in a guard."""
    yield node
    below = () if isinstance(node, cel.Not) else cel.children(node)
    for child in below[:1] if isinstance(node, cel.Unless) else below:
        yield from _walk_marked(child)


def _choose_types(features: Features, body: cel.Formula) -> tuple[str, ...]:
    """Return the types of the formula, each twice, and one more."""
    named = tuple(sorted({node.type for node in cel.walk(body) if isinstance(node, cel.Event)}))
    return (*named, *named, *features.types[-1:])


def _find_attributes(query: Pattern) -> set[str]:
    """Return the attributes that a query reads."""
    found = {name for group in query.partition for name in group}
    if query.within and query.within.attribute:
        found.add(query.within.attribute.name)
    for item in query.select.items:
        if isinstance(item, SelectedTerm):
            found |= {attribute.name for attribute in pred.term_attributes(item.term)}
    formulas = [query.formula, *(one.formula for one in query.without)]
    for node in chain.from_iterable(map(cel.walk, formulas)):
        if isinstance(node, cel.Filter):
            found |= {attribute.name for attribute in _find_attributes_of(node.condition)}
        elif isinstance(node, cel.Within) and node.window.attribute:
            found.add(node.window.attribute.name)
        elif isinstance(node, cel.PartitionBy):
            found |= {key.attribute.name for key in node.keys}
    return found


def _find_attributes_of(condition: pred.Condition) -> Iterable[pred.Attribute]:
    match condition:
        case pred.Holds(predicate=predicate):
            return pred.attributes_of(predicate)
        case pred.Compare(left=left, right=right):
            return (left.attribute, right.attribute)
        case (
            pred.CompareTerms(left=one, right=other) | pred.CompareNeighbours(left=one, right=other)
        ):
            return (*pred.term_attributes(one), *pred.term_attributes(other))
        case pred.Monotone(attribute=attribute):
            return (attribute,)
        case pred.Denied(body=body):
            return _find_attributes_of(body)
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            return [attribute for part in parts for attribute in _find_attributes_of(part)]


def _find_longest(body: cel.Formula, features: Features) -> int:
    """Return the length of the longest stream on which the oracle stays fast."""
    line = features.families and not any(isinstance(node, cel.All) for node in cel.walk(body))
    most = _LARGEST_LINE if line else _LARGEST_ANSWER
    return next((n for n in range(features.events, 2, -1) if _bound_work(body, n) <= most), 2)


def _bound_work(body: cel.Formula, n: int) -> int:
    """Return a bound on the work of the oracle on n events."""
    below = [_bound_work(child, n) for child in cel.children(body)]
    match body:
        case cel.Event() | cel.Not():
            return n
        case cel.Choice():
            return sum(below)
        case cel.All():
            return prod(each + 1 for each in below)
        case cel.Sequence() | cel.Contiguous():
            return min(prod(each + 1 for each in below), sum(below) << n)
        case cel.Iterate(high=high):
            return min(int((1 + below[0]) ** (high or n)), max(1, below[0] // n) << n)
        case _:
            return max(below) + 1
