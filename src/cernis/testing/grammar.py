"""Random queries and streams that are well-formed, small and often match.

One grammar for two drivers: everything random comes from a *chooser*, a function that
gives a number below n and for which 0 is the simplest answer. Python's generator makes
a fast one for long runs (`random_case`); Hypothesis makes one that shrinks
(`cernis.testing.strategies`). Cost: a case takes well under a millisecond, and the
length of the stream is cut so that the oracle takes milliseconds too.

`Features` switches the operators and clauses of a query. The alphabets are small on purpose:
three types and attributes with a handful of values, NULLs and missing keys among them.

`families` makes queries of one shape instead: events that are compared with each other,
mostly with their neighbours, over attributes with two values each, so that many match.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any, Literal, TypeVar

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import (
    Aggregate,
    Consume,
    Pattern,
    Select,
    Strategy,
    Unit,
    Variable,
    Window,
)

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

Family = Literal["chain", "previous", "keys", "order", "all", "mixed"]
FAMILIES: tuple[Family, ...] = ("chain", "previous", "keys", "order", "all", "mixed")
"""Shapes of queries that compare events: by = and !=, by PREV, by nested PARTITION BY, by
order, by equalities across ALL, and by everything at once."""

MILLISECOND = 1_000_000
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
    strategies: tuple[Strategy, ...] = tuple(Strategy)
    windows: tuple[Unit | None, ...] = (None, *Unit)
    consume: tuple[Consume, ...] = tuple(Consume)
    selects: tuple[str, ...] = ("*", "list", "NONE", "COUNT", "aggregates")
    partition: bool = True
    limit: bool = True
    untimed: bool = True
    disorder: bool = True


EVERYTHING = Features(binary=True, previous=True, partition_by_inside=True, streams=("S", "T"))


def random_case(seed: int, features: Features | None = None) -> RandomCase:
    """Make a query and a stream for it; a seed always gives the same case.

    >>> random_case(7) == random_case(7)
    True
    """
    return make_case(random.Random(seed).randrange, features or Features())


def make_case(choose: Chooser, features: Features) -> RandomCase:
    """Make a query and a stream that has its attributes."""
    made = make_pattern(choose, features)
    return made, make_events(choose, features, made)


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


# ----------------------------------------------------------------- queries


def make_pattern(choose: Chooser, features: Features) -> Pattern:
    """Make a random query; over several streams, FROM names all of them or the last."""
    if _happens(choose, 3):
        features = replace(features, streams=features.streams[-1:])
    if features.families:
        few = replace(features, types=features.types[:2])
        body = make_correlated(choose, few, _pick(choose, features.families))
    else:
        body = make_formula(choose, features, 1 + max(choose(features.size), choose(features.size)))
    return Pattern(
        formula=body,
        select=_make_select(choose, features, body),
        strategy=_pick_mostly_first(choose, features.strategies),
        streams=features.streams,
        partition=_choose_partition(choose) if features.partition and _happens(choose, 3) else (),
        within=_make_window(choose, _pick_mostly_first(choose, features.windows)),
        consume=_pick_mostly_first(choose, features.consume),
        limit=choose(4) if features.limit and _happens(choose, 6) else None,
    )


def make_formula(choose: Chooser, features: Features, size: int) -> cel.Formula:
    """Make a random formula of at most `size` nodes."""
    if size <= 1:
        return _make_atom(choose, features)
    make = _pick(choose, _list_makers(features, size))
    return make(choose, features, size - 1)


Maker = Callable[[Chooser, Features, int], cel.Formula]


def _list_makers(features: Features, size: int) -> list[Maker]:
    """List the operators for a node of this size, frequent ones several times."""
    found: list[Maker] = [_make_as, _make_as]
    if features.iterate:
        found += [_make_iterate, _make_iterate]
    if features.optional:
        found += [_make_optional]
    if features.filters:
        found += [_make_filter, _make_filter]
    if features.partition_by_inside:
        found += [_make_partition_by]
    if size > 2:
        found += [_make_sequence] * 5 + [_make_choice] * 2
        found += [_make_contiguous] * 2 if features.contiguous else []
        found += [_make_all] if features.all_ else []
        found += [_make_unless] * 2 if features.unless else []
    return found


def _make_atom(choose: Chooser, features: Features) -> cel.Formula:
    if features.not_ and _happens(choose, 10):
        return cel.Not(_make_single(choose, features, 3))
    return _make_event(choose, features)


def _make_event(choose: Chooser, features: Features) -> cel.Formula:
    name = _pick(choose, features.types)
    named = features.streams and _happens(choose, 3)
    return cel.Event(name, _pick(choose, features.streams) if named else None)


def _make_single(choose: Chooser, features: Features, depth: int) -> cel.Formula:
    """Make a formula of one event, which may stand under NOT."""
    kind = choose(5) if depth else 0
    if kind == 1:
        return _filter_formula(choose, features, _make_single(choose, features, depth - 1))
    if kind == 2:
        parts = (
            _make_single(choose, features, depth - 1),
            _make_single(choose, features, depth - 1),
        )
        return cel.Choice(parts)
    if kind == 3:
        return cel.As(_make_event(choose, features), _pick(choose, features.variables))
    return _make_event(choose, features)


def _make_as(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return cel.As(make_formula(choose, features, size), _pick(choose, features.variables))


def _make_optional(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return cel.Optional(make_formula(choose, features, size))


def _make_iterate(choose: Chooser, features: Features, size: int) -> cel.Formula:
    body = make_formula(choose, features, size)
    contiguous = features.contiguous and _happens(choose, 3)
    low, high = _pick(
        choose, ((1, None), (1, None), (1, 2), (2, 3), (2, None), (2, 2), (0, 2), (0, None), (1, 3))
    )
    if low == 0 and not features.optional:
        low = 1
    return cel.Iterate(body, low, high, contiguous)


def _make_sequence(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return cel.Sequence(_make_parts(choose, features, size))


def _make_contiguous(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return cel.Contiguous(_make_parts(choose, features, size))


def _make_choice(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return cel.Choice(_make_parts(choose, features, size))


def _make_all(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return cel.All(_make_parts(choose, features, size))


def _make_unless(choose: Chooser, features: Features, size: int) -> cel.Formula:
    guard = 1 + choose(max(1, size // 3))
    return cel.Unless(
        make_formula(choose, features, size - guard), make_formula(choose, features, guard)
    )


def _make_parts(choose: Chooser, features: Features, size: int) -> tuple[cel.Formula, ...]:
    """Make two or three formulas that share a size of at least 2."""
    number = 3 if size > 2 and _happens(choose, 3) else 2
    shares = [1] * number
    for _ in range(size - number):
        shares[choose(number)] += 1
    return tuple(make_formula(choose, features, share) for share in shares)


def _make_filter(choose: Chooser, features: Features, size: int) -> cel.Formula:
    return _filter_formula(choose, features, make_formula(choose, features, size))


def _filter_formula(choose: Chooser, features: Features, body: cel.Formula) -> cel.Formula:
    names = find_bound_variables(body)
    return cel.Filter(body, _make_condition(choose, features, names, 2)) if names else body


def _make_partition_by(choose: Chooser, features: Features, size: int) -> cel.Formula:
    body = make_formula(choose, features, size)
    types = sorted({node.type for node in _walk_marked(body) if isinstance(node, cel.Event)})
    if not types or choose(2) == 0:
        return cel.PartitionBy(body, (cel.KeyPart(None, _choose_attribute(choose, "ab")),))
    keys = tuple(cel.KeyPart(name, _choose_attribute(choose, "ab")) for name in types)
    return cel.PartitionBy(body, keys)


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


# -------------------------------------------------- events that are compared

_STEPS = ("x", "y", "z", "w")
_EQUAL: tuple[pred.Operator, ...] = ("=", "=", "!=")
_ORDER: tuple[pred.Operator, ...] = ("<", "<=", ">", ">=", "=")
_NEIGHBOURS: tuple[pred.Operator, ...] = ("=", "<", "!=", "<=", ">", "=", ">=")


def make_correlated(choose: Chooser, features: Features, family: Family) -> cel.Formula:
    """Make a random formula of one family."""
    match family:
        case "chain":
            return _make_chain(choose, features, _EQUAL)
        case "order":
            return _make_chain(choose, features, _ORDER)
        case "previous":
            return _make_previous(choose, features)
        case "keys":
            return _make_keyed(choose, features)
        case "all":
            return _make_gathering(choose, features)
        case "mixed":
            return _make_mixture(choose, features)


def _make_chain(
    choose: Chooser, features: Features, operators: Sequence[pred.Operator]
) -> cel.Formula:
    """Make steps that are compared; sometimes repeat the whole, or put an event after it."""
    names = _STEPS[: _pick(choose, (2, 3, 2, 3, 4))]
    links = [_make_link(choose, names, operators) for _ in range(1 + choose(2))]
    body: cel.Formula = cel.Filter(
        _make_line(choose, features, names), _join_links(choose, features, links)
    )
    if features.iterate and _happens(choose, 5):
        body = cel.Iterate(body, 1, _pick(choose, (None, 2)))
    if _happens(choose, 6):
        body = cel.Sequence((body, _make_event(choose, features)))
    return body


def _make_line(choose: Chooser, features: Features, names: Sequence[str]) -> cel.Formula:
    """Make one step for each name, after each other."""
    steps = tuple(_make_step(choose, features, name) for name in names)
    if len(steps) == 1:
        return steps[0]
    if features.contiguous and _happens(choose, 5):
        return cel.Contiguous(steps)
    if features.unless and _happens(choose, 12):
        return cel.Unless(cel.Sequence(steps), _make_event(choose, features))
    return cel.Sequence(steps)


def _make_step(choose: Chooser, features: Features, name: str) -> cel.Formula:
    """Make a step of one name: often one event, sometimes several, none, or of either type."""
    event = _make_event(choose, features)
    kind = choose(10)
    if kind >= 7 and features.iterate:
        bounds = _pick(choose, ((1, None), (1, 2), (2, None)))
        step = cel.Iterate(event, *bounds, contiguous=features.contiguous and _happens(choose, 4))
        return cel.As(step, name) if choose(2) == 0 else replace(step, body=cel.As(event, name))
    if kind == 6 and features.optional:
        return cel.Optional(cel.As(event, name))
    if kind == 5:
        return cel.As(cel.Choice((event, _make_event(choose, features))), name)
    return cel.As(event, name)


def _make_link(
    choose: Chooser, names: Sequence[str], operators: Sequence[pred.Operator]
) -> pred.Compare:
    """Compare two steps, mostly neighbours."""
    first = choose(len(names) - 1)
    left, right = names[first], names[first + 1]
    if _happens(choose, 5):
        left, right = _pick(choose, names), _pick(choose, names)
    return _make_compare(choose, left, right, operators)


def _make_compare(
    choose: Chooser, left: str, right: str, operators: Sequence[pred.Operator]
) -> pred.Compare:
    numbers = _pick(choose, ("u", "uv", "uvw", "c"))
    return pred.Compare(
        _pick(choose, operators),
        pred.Reference(left, _choose_attribute(choose, numbers)),
        pred.Reference(right, _choose_attribute(choose, numbers)),
    )


def _join_links(
    choose: Chooser, features: Features, links: Sequence[pred.Condition]
) -> pred.Condition:
    """Join the links, mostly by AND, sometimes with a test of one event."""
    parts = tuple(links)
    if features.filters and _happens(choose, 5):
        name = next(link.left.variable for link in links if isinstance(link, pred.Compare))
        limits: tuple[tuple[pred.Operator, int], ...] = (("<=", 2), ("=", 1), (">=", 1), ("!=", 2))
        op, limit = _pick(choose, limits)
        test = pred.Comparison(op, _choose_attribute(choose, "uv"), pred.Literal(limit))
        parts = (*parts, pred.Holds(name, test))
    if len(parts) == 1:
        return parts[0]
    if len(parts) > 2 and _happens(choose, 4):
        return pred.AllOf((parts[0], pred.AnyOf(parts[1:])))
    return pred.AnyOf(parts) if _happens(choose, 5) else pred.AllOf(parts)


def _make_previous(choose: Chooser, features: Features) -> cel.Formula:
    """Compare neighbours: within one variable, between two, or along the whole."""
    names = _STEPS[: 1 + choose(3)]
    line = _make_line(choose, features, names)
    if len(names) == 1 and choose(2) == 0:
        line = cel.As(cel.Iterate(_make_event(choose, features), contiguous=choose(4) == 3), "x")
    elif len(names) == 1:  # what stands between two events of x keeps them apart
        names = _STEPS[:2]
        parts = tuple(map(cel.As, map(cel.Event, features.types), names))
        line = cel.Iterate(cel.Choice(parts) if choose(3) else cel.Sequence(parts), 2)
    if _happens(choose, 3):
        line, names = cel.As(line, "m"), ("m",)
    links = []
    for _ in range(1 + choose(2)):
        first = choose(len(names))
        left, right = names[first], names[min(first + 1, len(names) - 1)]
        if choose(5) >= 3:
            left = right = _pick(choose, find_bound_variables(line))
            right = _pick(choose, find_bound_variables(line)) if choose(2) else right
        link = _make_compare(choose, left, right, _NEIGHBOURS)
        links.append(replace(link, adjacent=True))
    body: cel.Formula = cel.Filter(line, _join_links(choose, features, links))
    if _happens(choose, 5):
        body = cel.Iterate(body, 1, 2)
    return body


def _make_keyed(choose: Chooser, features: Features) -> cel.Formula:
    """Put PARTITION BY around a line, with others inside."""
    names = _STEPS[: 1 + choose(3)]
    line = _make_line(choose, features, names)
    if choose(2) and isinstance(line, cel.Sequence):
        within = choose(len(line.parts))
        group: cel.Formula = cel.Iterate(_make_event(choose, features), 1, _pick(choose, (None, 3)))
        group = cel.PartitionBy(group, (cel.KeyPart(None, _choose_attribute(choose, "uvc")),))
        parts = list(line.parts)
        parts[within] = cel.As(group, names[within])
        line = replace(line, parts=tuple(parts))
    body: cel.Formula = line
    for _ in range(1 + choose(2)):
        body = cel.PartitionBy(body, _make_keys(choose, names))
    return cel.Iterate(body, 1, 2) if _happens(choose, 6) else body


def _make_keys(choose: Chooser, names: Sequence[str]) -> tuple[cel.KeyPart, ...]:
    numbers = _pick(choose, ("u", "uv", "uvw", "c"))
    if choose(3) == 0:
        return (cel.KeyPart(None, _choose_attribute(choose, numbers)),)
    return tuple(cel.KeyPart(name, _choose_attribute(choose, numbers)) for name in names)


def _make_gathering(choose: Chooser, features: Features) -> cel.Formula:
    """Join steps by ALL that agree on an attribute, alone or before another event."""
    names = _STEPS[: 2 + choose(2)]
    parts = [_make_step(choose, features, name) for name in names]
    links = [_make_link(choose, names, ("=", "=", "=", "!=")) for _ in range(1 + choose(2))]
    if _happens(choose, 4):
        parts[0] = cel.Sequence((parts[0], cel.As(_make_event(choose, features), "w")))
        links.append(_make_compare(choose, "x", "w", _EQUAL))
    body: cel.Formula = cel.Filter(cel.All(tuple(parts)), _join_links(choose, features, links))
    if _happens(choose, 5):
        body = cel.PartitionBy(
            cel.All(tuple(parts)), (cel.KeyPart(None, _choose_attribute(choose, "u")),)
        )
    if _happens(choose, 4):
        body = cel.Sequence((body, _make_event(choose, features)))
    return body


def _make_mixture(choose: Chooser, features: Features) -> cel.Formula:
    """Combine two families: one after the other, either, or one as a guard; then compare."""
    first, second = (
        make_correlated(choose, features, _pick(choose, FAMILIES[:-1])) for _ in range(2)
    )
    match choose(4):
        case 0:
            body: cel.Formula = cel.Sequence((first, cel.As(_make_event(choose, features), "y")))
        case 1:
            body = cel.Choice((first, second))
        case 2:
            body = cel.Unless(first, cel.Sequence((_make_event(choose, features), second)))
        case _:
            body = cel.Sequence((first, second))
    names = find_bound_variables(body)
    link = _make_compare(choose, _pick(choose, names), _pick(choose, names), _NEIGHBOURS)
    return cel.Filter(body, replace(link, adjacent=choose(2) == 0))


# -------------------------------------------------- conditions, predicates


def _make_condition(
    choose: Chooser, features: Features, names: Sequence[str], depth: int
) -> pred.Condition:
    kind = choose(6) if depth else choose(4)
    if kind >= 4:
        parts = tuple(
            _make_condition(choose, features, names, depth - 1) for _ in range(2 + choose(2))
        )
        return pred.AllOf(parts) if kind == 4 else pred.AnyOf(parts)
    if features.binary and kind >= 2:
        compared = _make_comparison(choose, names)
        return replace(compared, adjacent=True) if features.previous and choose(2) else compared
    return pred.Holds(_pick(choose, names), _make_predicate(choose, features, 2))


def _make_comparison(choose: Chooser, names: Sequence[str]) -> pred.Compare:
    family = _pick(choose, ("ab", "ab", "abf", "s"))
    return pred.Compare(
        _choose_operator(choose),
        pred.Reference(_pick(choose, names), _choose_attribute(choose, family)),
        pred.Reference(_pick(choose, names), _choose_attribute(choose, family)),
    )


def _make_predicate(choose: Chooser, features: Features, depth: int) -> pred.Predicate:
    kind = choose(12) if depth else choose(9)
    match kind:
        case 0 | 1 | 2:
            return pred.Comparison(
                _choose_operator(choose), _choose_attribute(choose, "ab"), _choose_int(choose)
            )
        case 3:
            numbers = "abf" if features.nan else "ab"
            return pred.Comparison(
                _choose_operator(choose),
                _make_number(choose, numbers, 2),
                _make_number(choose, numbers, 1),
            )
        case 4:
            text = pred.Literal(_pick(choose, ("x", "y", "xy")))
            return pred.Comparison(_choose_operator(choose), _choose_attribute(choose, "s"), text)
        case 5:
            regex = _pick(choose, ("x.*", "x", "[xy]", ".*y", ".*"))
            return pred.Like(_choose_attribute(choose, "s"), regex)
        case 6:
            values = tuple(_choose_int(choose) for _ in range(1 + choose(3)))
            return pred.InSet(_choose_attribute(choose, "ab"), values)
        case 7:
            low = choose(3)
            return pred.InRange(
                _choose_attribute(choose, "ab"), pred.Literal(low), pred.Literal(low + choose(3))
            )
        case 8:
            if choose(2):
                truth = pred.Literal(choose(2) == 0)
                return pred.Comparison("=", _choose_attribute(choose, "t"), truth)
            return pred.IsNull(_choose_attribute(choose, "abst"), negated=choose(3) > 0)
        case 9 | 10:
            parts = tuple(
                _make_predicate(choose, features, depth - 1) for _ in range(2 + choose(2))
            )
            return pred.And(parts) if kind == 9 else pred.Or(parts)
        case _:
            return pred.Negation(_make_predicate(choose, features, depth - 1))


def _make_number(choose: Chooser, names: str, depth: int) -> pred.Value:
    kind = choose(5 if depth else 3)
    if kind == 0:
        return _choose_int(choose)
    if kind <= 2:
        return _choose_attribute(choose, names)
    if kind == 3:
        left, right = _make_number(choose, names, depth - 1), _make_number(choose, names, depth - 1)
        return pred.Arithmetic(_pick(choose, ("+", "-", "*", "/", "%")), left, right)
    return pred.Negative(_choose_attribute(choose, names))


def _choose_operator(choose: Chooser) -> pred.Operator:
    operators: tuple[pred.Operator, ...] = (">=", "<=", "=", "!=", "<", ">")
    return _pick(choose, operators)


def _choose_attribute(choose: Chooser, names: str) -> pred.Attribute:
    return pred.Attribute((_pick(choose, names),))


def _choose_int(choose: Chooser) -> pred.Literal:
    return pred.Literal(_pick(choose, (1, 2, 0, 3)))


# ----------------------------------------------------------------- clauses


def _make_select(choose: Chooser, features: Features, body: cel.Formula) -> Select:
    names = find_bound_variables(body)
    match _pick_mostly_first(choose, features.selects):
        case "list" if names:
            chosen = dict.fromkeys(_pick(choose, names) for _ in range(1 + choose(2)))
            return Select(False, tuple(Variable(x, _choose_kept(choose)) for x in chosen))
        case "NONE":
            return Select(False)
        case "COUNT":
            return Select(False, (Aggregate("COUNT"),))
        case "aggregates" if names:
            found = tuple(_make_aggregate(choose, names) for _ in range(1 + choose(2)))
            return Select(False, (Variable(_pick(choose, names)), *dict.fromkeys(found)))
        case _:
            return Select()


def _choose_kept(choose: Chooser) -> tuple[str, ...]:
    return ("a", "s") if _happens(choose, 4) else ()


def _make_aggregate(choose: Chooser, names: Sequence[str]) -> Aggregate:
    function = _pick(choose, ("COUNT", "SUM", "MIN", "MAX", "AVG", "FIRST", "LAST"))
    if function == "COUNT":
        return Aggregate(function, _pick(choose, names) if choose(2) else None)
    reference = pred.Reference(_pick(choose, names), _choose_attribute(choose, "ab"))
    return Aggregate(function, reference)


def _choose_partition(choose: Chooser) -> tuple[tuple[str, ...], ...]:
    groups = (
        (("k",),),
        (("k",),),
        (("g",),),
        (("k",), ("g",)),
        (("k", "h"),),
        (("h", "k"), ("g",)),
    )
    return _pick(choose, groups)


def _make_window(choose: Chooser, unit: Unit | None) -> Window | None:
    match unit:
        case None:
            return None
        case Unit.EVENTS:
            return Window(unit, Fraction(1 + choose(6)))
        case Unit.TIME:
            return Window(unit, Fraction((2 + choose(14)) * MILLISECOND, 2))
        case Unit.ATTRIBUTE:
            return Window(unit, Fraction(1 + choose(8), 2), _choose_attribute(choose, "nnm"))


# ----------------------------------------------------------------- streams


def make_events(choose: Chooser, features: Features, for_: Pattern | None = None) -> Events:
    """Make a random stream; for a query, with its types and attributes."""
    timed = not features.untimed or _needs_time(for_) or not _happens(choose, 4)
    names = [*DOMAINS, *RISING] if for_ is None else sorted(_find_attributes(for_))
    types = features.types if for_ is None else _choose_types(features, for_.formula)
    longest = features.events if for_ is None else _find_longest(for_.formula, features)
    length = max(choose(longest + 1) for _ in range(4 if features.families else 2))
    made = [_make_record(choose, features, types, names) for _ in range(length)]
    if timed:
        for event, ts in zip(made, _make_times(choose, features, len(made)), strict=True):
            event["ts"] = ts
    _fill_rising(choose, made, [name for name in names if name in RISING])
    return made


def _make_record(
    choose: Chooser, features: Features, types: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    event: dict[str, Any] = {"type": _pick(choose, types)}
    if features.streams:
        event["_stream"] = _pick(choose, features.streams)
    for name in names:
        found = _pick(choose, DOMAINS[name]) if name in DOMAINS else MISSING
        if found is not MISSING and (features.nan or found == found):
            event[name] = found
    return event


def _make_times(choose: Chooser, features: Features, length: int) -> list[int]:
    """Make times with ties, in order unless disorder is on and chosen."""
    found, now = [], 0
    for _ in range(length):
        now += _pick(choose, (1, 0, 2, 1, 0, 5))
        found.append(now)
    if features.disorder and length > 1 and _happens(choose, 4):
        for _ in range(1 + choose(3)):
            i, j = choose(length), choose(length)
            found[i], found[j] = found[j], found[i]
    return found


def _fill_rising(choose: Chooser, made: Events, names: Sequence[str]) -> None:
    """Give the attributes that never decrease their values, in time order."""
    for name in names:
        now = 0
        for event in sorted(made, key=lambda event: event.get("ts", 0)):
            now += _pick(choose, (1, 0, 2, 1, 0, 3))
            if not _happens(choose, 10):
                event[name] = now / 2 if name == "m" else now


def _needs_time(query: Pattern | None) -> bool:
    return bool(query and query.within and query.within.unit is Unit.TIME)


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
        if isinstance(item, Aggregate) and isinstance(item.argument, pred.Reference):
            found.add(item.argument.attribute.name)
    for node in cel.walk(query.formula):
        if isinstance(node, cel.Filter):
            found |= {attribute.name for attribute in _find_attributes_of(node.condition)}
        elif isinstance(node, cel.PartitionBy):
            found |= {key.attribute.name for key in node.keys}
    return found


def _find_attributes_of(condition: pred.Condition) -> Iterable[pred.Attribute]:
    match condition:
        case pred.Holds(predicate=predicate):
            return pred.attributes_of(predicate)
        case pred.Compare(left=left, right=right):
            return (left.attribute, right.attribute)
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


# ------------------------------------------------------------------ choice


def _pick(choose: Chooser, items: Sequence[T]) -> T:
    return items[choose(len(items))]


def _pick_mostly_first(choose: Chooser, items: Sequence[T]) -> T:
    """Pick the first item half of the time, otherwise any."""
    return items[0] if choose(2) == 0 else _pick(choose, items)


def _happens(choose: Chooser, out_of: int) -> bool:
    return choose(out_of) == out_of - 1
