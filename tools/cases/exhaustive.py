"""Every small query over every short stream, after RE2's exhaustive tester.

Random cases find frequent mistakes; these find every mistake that a small case shows.
`list_formulas` has all formulas up to a number of nodes, `list_variants` adds the clauses, and
`list_streams` has all streams of one length: of each event that the formula can tell apart, and of
one that it does not name. A match depends on the events up to its end alone, so the streams of one
length cover the shorter ones.

`join_streams` makes each stream a partition of one: a single run of a query reads them all, with
their events interleaved. The oracle reads each stream alone.

Left out, because another case covers them: formulas in which B comes before A, and chains of one
operator with brackets to the right.

Cost: a few milliseconds a query for the engine, about 50 µs a stream for the oracle. There are 15
formulas of up to 2 nodes, 206 of 3, 3,096 of 4 and some 50,000 of 5, each with some 15 clauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, product
from typing import Any, NamedTuple

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap, Unit, Window
from cernis.pattern.query import Absence, Consume, Pattern, Select, Strategy, Variable
from tools.cases.grammar import find_bound_variables

Event = Mapping[str, Any]
Stream = tuple[Event, ...]
Chain = type[cel.Sequence] | type[cel.Contiguous] | type[cel.Choice] | type[cel.All]

VALUES = (0, 1, None)
"""The values of the attribute."""

_A = pred.Attribute(("a",))
_KEY = "stream"
_TYPES = ("A", "B")
_OTHER = "C"
_CHAINS: tuple[Chain, ...] = (cel.Sequence, cel.Contiguous, cel.Choice, cel.All)
_COMPARED: tuple[pred.Operator, ...] = ("=", "!=", "<")
_MILLISECOND = 1_000_000
_WINDOW = Window(Unit.EVENTS, Fraction(1))
_NEAR = Gap(Unit.EVENTS, Fraction(1))


# ---------------------------------------------------------------- formulas


def list_formulas(nodes: int) -> Iterator[cel.Formula]:
    """Yield every formula of up to so many nodes, small ones first.

    >>> [len(list(list_formulas(nodes))) for nodes in (1, 2, 3)]
    [1, 16, 234]
    """
    for size in range(1, nodes + 1):
        for formula in _make_formulas(size):
            types = [node.type for node in cel.walk(formula) if isinstance(node, cel.Event)]
            if types[0] == _TYPES[0]:
                yield formula


@cache
def _make_formulas(nodes: int) -> tuple[cel.Formula, ...]:
    """Return the formulas of exactly so many nodes."""
    if nodes == 1:
        return tuple(map(cel.Event, _TYPES))
    below = _make_formulas(nodes - 1)
    return (
        *chain.from_iterable(map(_extend, below)),
        *chain.from_iterable(
            _combine(left, right)
            for size in range(1, nodes - 1)
            for left, right in product(_make_formulas(size), _make_formulas(nodes - 1 - size))
        ),
    )


def _extend(body: cel.Formula) -> Iterator[cel.Formula]:
    """Yield the formulas with one node above the body."""
    yield cel.Iterate(body)
    yield cel.Iterate(body, contiguous=True)
    yield cel.Iterate(body, 2, 2)
    yield cel.Optional(body)
    yield cel.Iterate(body, separator=cel.Separator(gap=_NEAR))
    yield cel.Within(body, _WINDOW)
    if _begins_single(body):
        yield cel.Iterate(body, separator=cel.Separator(next=True))
    names = find_bound_variables(body)
    if "x" not in names:
        yield cel.As(body, "x")
    if _is_single(body):
        yield cel.Not(body)
    if names:
        yield cel.PartitionBy(body, (cel.KeyPart(None, _A),))
    for condition in _list_conditions(names):
        yield cel.Filter(body, condition)


def _is_single(body: cel.Formula) -> bool:
    """Whether the formula may stand under NOT."""
    while isinstance(body, cel.Filter | cel.As):
        if isinstance(body, cel.Filter) and not isinstance(body.condition, pred.Holds):
            return False
        body = body.body
    return isinstance(body, cel.Event)


def _begins_single(body: cel.Formula) -> bool:
    """Whether the formula may stand after `->`."""
    while isinstance(body, cel.As | cel.Iterate):
        body = body.body
    return isinstance(body, cel.Event)


def _list_conditions(names: tuple[str, ...]) -> Iterator[pred.Condition]:
    """Yield conditions on one event, on pairs, on neighbours and on the whole."""
    for x in names:
        yield pred.Holds(x, pred.Comparison("=", _A, pred.Literal(1)))
        yield pred.Compare("<", pred.Reference(x, _A), pred.Reference(x, _A), adjacent=True)
        sooner = pred.Reference(x, _A, previous=True)
        step = pred.Calculation("-", pred.Reference(x, _A), sooner)
        yield pred.CompareNeighbours("=", step, pred.Literal(1))
        most = pred.CompareTerms("<", pred.Aggregate("COUNT", x), pred.Literal(2))
        least = pred.CompareTerms(
            ">", pred.Aggregate("SUM", pred.Reference(x, _A)), pred.Literal(0)
        )
        yield from (most, least)
    for i, x in enumerate(names):
        for y in names[i + 1 :]:
            for op in _COMPARED:
                yield pred.Compare(op, pred.Reference(x, _A), pred.Reference(y, _A))


def _combine(left: cel.Formula, right: cel.Formula) -> Iterator[cel.Formula]:
    """Yield the formulas with one node above the two."""
    for operator in _CHAINS:
        if not isinstance(right, operator):
            parts = left.parts if isinstance(left, operator) else (left,)
            yield operator((*parts, right))
    yield cel.Unless(left, right)
    yield cel.Sequence((left, right), (cel.Separator(gap=_NEAR),))
    if _begins_single(right):
        yield cel.Sequence((left, right), (cel.Separator(next=True),))


# ----------------------------------------------------------------- clauses


def list_variants(formula: cel.Formula) -> Iterator[Pattern]:
    """Yield the formula as a query, plainly and with each clause."""
    plain = Pattern(formula)
    yield plain
    for strategy in Strategy:
        if strategy is not Strategy.ALL:
            yield replace(plain, strategy=strategy)
    time = Window(Unit.TIME, Fraction(_MILLISECOND))
    for within in (_WINDOW, time):
        yield replace(plain, within=within)
        for before in (False, True):
            yield replace(plain, without=(Absence(cel.Event("B"), within, before),))
    yield replace(plain, consume=Consume.PARTITION)
    yield replace(plain, limit=1)
    yield replace(plain, select=Select(False))
    names = find_bound_variables(formula)
    if len(names) > 1:
        yield replace(plain, select=Select(False, (Variable(names[-1]),)))
    window = Window(Unit.EVENTS, Fraction(2))
    yield replace(plain, strategy=Strategy.MAX, within=window)
    yield replace(plain, strategy=Strategy.NEXT, consume=Consume.PARTITION)


# ----------------------------------------------------------------- streams


def list_streams(formula: cel.Formula, events: int) -> list[Stream]:
    """Return every stream of so many events that the formula can tell apart.

    >>> len(list_streams(cel.Event("A"), 2)), len(list_streams(cel.Event("B"), 3))
    (4, 8)
    """
    found = {node.type for node in cel.walk(formula) if isinstance(node, cel.Event)}
    reads_values = any(isinstance(node, cel.Filter | cel.PartitionBy) for node in cel.walk(formula))
    letters = [
        {"type": type, "a": value}
        for type in sorted(found)
        for value in (VALUES if reads_values else VALUES[:1])
    ]
    letters.append({"type": _OTHER, "a": VALUES[0]})
    return [
        tuple({**letter, "ts": i} for i, letter in enumerate(word))
        for word in product(letters, repeat=events)
    ]


class JoinedStreams(NamedTuple):
    """Streams as the partitions of one: row r is event r // n of stream r % n, of n streams."""

    streams: list[Stream]
    columns: dict[str, list[Any]]

    def locate(self, row: int) -> tuple[int, int]:
        """Return the stream of a row, and the row in that stream."""
        event, stream = divmod(row, len(self.streams))
        return stream, event


def join_streams(streams: list[Stream]) -> JoinedStreams:
    """Return the streams as the partitions of one.

    >>> join_streams(list_streams(cel.Event("A"), 1)).columns["type"]
    ['A', 'C']
    """
    rows = [(i, event) for events in zip(*streams, strict=True) for i, event in enumerate(events)]
    columns = {name: [event[name] for _, event in rows] for name in ("type", "a", "ts")}
    return JoinedStreams(streams, {**columns, _KEY: [i for i, _ in rows]})


def partition_pattern(pattern: Pattern) -> Pattern:
    """Return the query with each of the joined streams as a partition."""
    return replace(pattern, partition=((_KEY,),))
