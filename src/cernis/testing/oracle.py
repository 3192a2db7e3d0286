"""The meaning of a query as a short program: the oracle of every test.

`find_valuations` is the table of complex event logic, one case per row; `evaluate` is the
seven steps of a query, in their order. Nothing here is clever: sets of valuations are
built whole, so the cost is exponential in the stream. Ten events are plenty.

Terms. A *position* is the rank of an event in time order inside its partition; a *row*
is its index in the list as given, and matches report rows. A *valuation* is an
interval of positions with labels (variable, position); the optional and {0,n} add the
empty valuation `EPSILON`, which is neutral in `;`, `:` and ALL and is never a match.

Where the definition leaves a choice, this is the one taken:

* The events that a NOT passes over are in the interval and in no variable, so they are
  not in the set of positions that AS marks and strategies compare.
* They are not neighbours either: `PREV(x)` is the event before among those that some
  variable holds, types included.
* An UNLESS whose guard or body is empty (EPSILON) has nothing inside: it changes nothing.
* Values of a key agree when `=` is true of them. So NULL and NaN are no keys: such an
  event is in no partition, and no valuation that holds it has one common value.
* `SELECT *` leaves out what stands under NOT or in the guard of an UNLESS: no match can
  bind it.
* `ANY` is a valuation whose positions are best in the order of LAST, then the latest
  start, then the smallest labels; `LIMIT` keeps the latest starts, then the smallest
  labels. Another choice is as good: `tools.cases.differential` allows it.
* Of matches with equal values, ORDER BY puts the latest starts first, then the smallest labels.
  With OVERALL the earliest come first: by end, then start; then the match that holds the first
  position, and of its variables the first name, that only one of two matches has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import count, pairwise
from itertools import product as pairs
from typing import Any, Final, NamedTuple

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap
from cernis.pattern.guard import SplitGuard, split_guard
from cernis.pattern.predicate import Aggregate
from cernis.pattern.query import (
    Absence,
    Consume,
    OrderBy,
    Overall,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Unit,
    Variable,
    Window,
)
from cernis.pattern.selection import group_terms
from cernis.pattern.variables import single_variables
from cernis.pattern.waits import is_nullable
from cernis.testing.predicates import (
    Event,
    calculate,
    call,
    compare,
    holds,
    kind_of,
    negate,
    read_attribute,
    read_literal,
    shift_value,
    truth,
)

Labels = frozenset[tuple[str, int]]
STREAM: Final = "_stream"
TICK: Final = "@tick"
NANOSECONDS: Final = 1_000_000


class Valuation(NamedTuple):
    """An interval of positions, both ends included, and which variable holds which."""

    start: int
    end: int
    labels: Labels


EPSILON: Final = Valuation(0, -1, frozenset())
"""The empty valuation: an empty interval, no labels."""


def positions(v: Valuation) -> frozenset[int]:
    """Return the positions that some variable holds."""
    return frozenset(position for _, position in v.labels)


# --------------------------------------------------------------------- CEL


def find_valuations(
    formula: cel.Formula,
    events: Sequence[Event],
    *,
    type: str = "type",
    around: tuple[cel.Formula, ...] = (),
) -> set[Valuation]:
    """Return every valuation of the formula over the events in order, EPSILON included.

    `around` are the formulas that it is a part of, from the inside; `->` asks their FILTERs.

    >>> A, B = cel.Event("A"), cel.Event("B")
    >>> stream = [{"type": "A"}, {"type": "A"}, {"type": "B"}]
    >>> sorted((v.start, v.end) for v in find_valuations(cel.Sequence((A, B)), stream))
    [(0, 2), (1, 2)]
    >>> sorted((v.start, v.end) for v in find_valuations(cel.Contiguous((A, B)), stream))
    [(1, 2)]
    """

    def of(f: cel.Formula) -> set[Valuation]:
        return find_valuations(f, events, type=type, around=(formula, *around))

    match formula:
        case cel.Event(type=name):
            return {
                Valuation(i, i, frozenset({(name, i)}))
                for i, event in enumerate(events)
                if _is_event(formula, event, type)
            }
        case cel.Not(body=body):
            such = {v.start for v in of(body)}
            return {Valuation(i, i, frozenset()) for i in range(len(events)) if i not in such}
        case cel.As(body=body, variable=x):
            return {
                v._replace(labels=v.labels | {(x, position) for position in positions(v)})
                for v in of(body)
            }
        case cel.Sequence(parts=parts):
            found = of(parts[0])
            for i, part in enumerate(parts[1:], start=1):
                separator = formula.separator_before(i)
                arrow = _Arrow(formula, parts[:i], part, around, events, type)
                follows = arrow.is_next if separator.next else _is_after
                product = _make_product(_bound_gap(follows, separator.gap, events))
                found = product(found, of(part))
            return found
        case cel.Contiguous(parts=parts):
            return _fold(_make_product(_is_right_after), map(of, parts))
        case cel.Choice(parts=parts):
            return set().union(*map(of, parts))
        case cel.All(parts=parts):
            return _fold(_join_all, map(of, parts))
        case cel.Iterate(body=body, low=low, high=high, contiguous=contiguous):
            rounds: Follows = _is_right_after if contiguous else _is_after
            if formula.separator.next:
                rounds = _Arrow(formula, (body,), body, around, events, type).is_next
            product = _make_product(_bound_gap(rounds, formula.separator.gap, events))
            return _raise_to_powers(of(body), low, high, product)
        case cel.Optional(body=body):
            return of(body) | {EPSILON}
        case cel.Filter(body=body, condition=condition):
            return {v for v in of(body) if satisfies(condition, v, events)}
        case cel.PartitionBy(body=body, keys=keys):
            return {v for v in of(body) if _has_common_value(keys, v, events)}
        case cel.Within(body=body, window=window):
            return {v for v in of(body) if v == EPSILON or is_within(window, v, events)}
        case cel.Unless(body=body, guard=guard):
            split = split_guard(guard)
            guards = find_valuations(split.formula, events, type=type) - {EPSILON}
            return {
                v
                for v in of(body)
                if not any(
                    v.start < w.start and w.end < v.end and _meets(split, v, w, events)
                    for w in guards
                )
            }


def _is_event(atom: cel.Event, event: Event, type: str) -> bool:
    """Whether an event has the type, and the stream, that an atom asks for."""
    named = atom.type in (cel.ANY_TYPE, event.get(type))
    return named and atom.stream in (None, event.get(STREAM))


def _meets(guard: SplitGuard, v: Valuation, w: Valuation, events: Sequence[Event]) -> bool:
    """Whether the conditions of a guard hold of its valuation w and the guarded v together."""
    outside = frozenset((x, p) for x, p in v.labels if x not in guard.names)
    both = w._replace(labels=w.labels | outside)
    return all(satisfies(condition, both, events) for condition in guard.conditions)


Product = Callable[[set[Valuation], set[Valuation]], set[Valuation]]


def _fold(product: Product, sets: Iterable[set[Valuation]]) -> set[Valuation]:
    result = {EPSILON}
    for each in sets:
        result = product(result, each)
    return result


def _is_after(v: Valuation, w: Valuation) -> bool:
    return v.end < w.start


def _is_right_after(v: Valuation, w: Valuation) -> bool:
    return v.end + 1 == w.start


Follows = Callable[[Valuation, Valuation], bool]


def _bound_gap(follows: Follows, gap: Gap | None, events: Sequence[Event]) -> Follows:
    """Return the relation, where the second valuation also lies in the gap after the first."""
    if gap is None:
        return follows

    def is_in_gap(v: Valuation, w: Valuation) -> bool:
        if not follows(v, w):
            return False
        if gap.unit is Unit.EVENTS:
            return gap.allows(w.start - v.end)
        return gap.allows(measure_time(events[v.end], events[w.start]))

    return is_in_gap


def measure_time(earlier: Event, later: Event) -> Fraction:
    """Return the nanoseconds between two events."""
    elapsed: Fraction = (later[pred.TIME.name] - earlier[pred.TIME.name]) * Fraction(later[TICK])
    return elapsed


def _make_product(follows: Follows) -> Product:
    """Return the product of `;` or `:`."""

    def product(left: set[Valuation], right: set[Valuation]) -> set[Valuation]:
        return {
            w if v == EPSILON else v if w == EPSILON else _unite(v, w)
            for v in left
            for w in right
            if EPSILON in (v, w) or follows(v, w)
        }

    return product


def _join_all(left: set[Valuation], right: set[Valuation]) -> set[Valuation]:
    """Return the product of ALL."""
    return {w if v == EPSILON else v if w == EPSILON else _unite(v, w) for v in left for w in right}


def _unite(v: Valuation, w: Valuation) -> Valuation:
    return Valuation(min(v.start, w.start), max(v.end, w.end), v.labels | w.labels)


def _raise_to_powers(
    body: set[Valuation], low: int, high: int | None, product: Product
) -> set[Valuation]:
    """Return the union of the powers low..high of the body."""
    result, power = set[Valuation](), {EPSILON}
    for times in count():
        if times >= low:
            result |= power
        if times == high:
            return result
        following = product(power, body)
        if following == power:  # and so is every later power
            return result | power
        power = following
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class _Arrow:
    """One `->`: the parts before it, the part after it, and the formulas around it.

    An event *fits* after V₁ if, put in the place of the first event after the arrow, it has the
    type of an atom there, and V₁ with that event satisfies every FILTER and PARTITION BY around
    the atom (those after the arrow see that event alone). Variables without events satisfy
    their conditions; a condition on terms counts once its terms have their values.
    """

    node: cel.Formula
    before: tuple[cel.Formula, ...]
    after: cel.Formula
    around: tuple[cel.Formula, ...]
    events: Sequence[Event]
    type: str

    def is_next(self, v: Valuation, w: Valuation) -> bool:
        return v.end < w.start and not any(self.fits(v, i) for i in range(v.end + 1, w.start))

    def fits(self, v: Valuation, i: int) -> bool:
        return any(self._continues(v, i, wraps) for wraps in _list_first(self.after))

    def _continues(self, v: Valuation, i: int, wraps: tuple[cel.Formula, ...]) -> bool:
        atom, *inside = wraps
        if not isinstance(atom, cel.Event) or not _is_event(atom, self.events[i], self.type):
            return False
        after = self._wrap(Valuation(i, i, frozenset({(atom.type, i)})), inside, (), False)
        if after is None:
            return False
        repeated = isinstance(self.node, cel.Iterate)
        return self._wrap(_unite(v, after), self.around, self.before, repeated) is not None

    def _wrap(
        self,
        v: Valuation,
        nodes: Iterable[cel.Formula],
        before: tuple[cel.Formula, ...],
        repeated: bool,
    ) -> Valuation | None:
        """Return the valuation inside these formulas; None where a condition does not hold."""
        for node in nodes:
            match node:
                case cel.As(variable=x):
                    v = v._replace(labels=v.labels | {(x, p) for p in positions(v)})
                case cel.Filter(body=body, condition=condition):
                    counts = partial(_is_settled, v, body, () if repeated else before)
                    if not satisfies(condition, v, self.events, counts):
                        return None
                case cel.PartitionBy(keys=keys):
                    if not _has_common_value(keys, v, self.events):
                        return None
                case cel.Iterate():
                    repeated = True
        return v


def _is_settled(
    v: Valuation, body: cel.Formula, before: tuple[cel.Formula, ...], leaf: pred.CompareTerms
) -> bool:
    """Whether v has all events of the variables of a condition on terms.

    A variable that has one event in every valuation of the FILTER's body has it; so has one that
    the parts before the arrow alone give events.
    """
    terms = [part for side in (leaf.left, leaf.right) for part in pred.walk_term(side)]
    if any(part == Aggregate("COUNT") or isinstance(part, pred.IntervalTime) for part in terms):
        return False
    held = {x for x, _ in v.labels}
    return all(
        (x in held and x in single_variables(body))
        or _count_atoms(body, x) == sum(_count_atoms(part, x) for part in before)
        for x in pred.leaf_variables(leaf)
    )


def _count_atoms(formula: cel.Formula, x: str, named: bool = False) -> int:
    """Return how many atoms give the variable events."""
    match formula:
        case cel.Event(type=name):
            return int(named or name == x)
        case cel.Not():
            return 0
        case cel.As(body=body, variable=variable):
            return _count_atoms(body, x, named or variable == x)
        case cel.Unless(body=body):
            return _count_atoms(body, x, named)
        case _:
            return sum(_count_atoms(child, x, named) for child in cel.children(formula))


def _list_first(formula: cel.Formula) -> list[tuple[cel.Formula, ...]]:
    """Return the atoms that can begin the formula, each with the formulas around it."""
    match formula:
        case cel.Event():
            return [(formula,)]
        case cel.Not() | cel.All():
            raise ValueError("what follows -> must begin with single events")
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            found = list[tuple[cel.Formula, ...]]()
            for part in parts:
                found += _list_first(part)
                if not is_nullable(part):
                    break
        case cel.Choice(parts=parts):
            found = [first for part in parts for first in _list_first(part)]
        case _:
            found = _list_first(formula.body)
    return [(*first, formula) for first in found]


def satisfies(
    condition: pred.Condition,
    v: Valuation,
    events: Sequence[Event],
    counts: Callable[[pred.CompareTerms], bool] = lambda leaf: True,
) -> bool:
    """Whether a filter's condition holds: of every event, of every pair, of all neighbours.

    Conditions on terms that do not count hold.
    """

    def of(x: str) -> list[Event]:
        return [events[position] for variable, position in v.labels if variable == x]

    match condition:
        case pred.Holds(variable=x, predicate=predicate):
            return all(holds(predicate, event) for event in of(x))
        case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
            inside = sorted(positions(v))
            return all(
                compare(
                    op,
                    read_attribute(left.attribute, events[p]),
                    shift_value(read_attribute(right.attribute, events[q]), shift),
                )
                is True
                for p, q in (pairwise(inside) if adjacent else pairs(inside, inside))
                if (left.variable, p) in v.labels and (right.variable, q) in v.labels
            )
        case pred.CompareNeighbours(op=op, left=one, right=other):
            x, y = condition.variables
            return all(
                compare(op, *(_evaluate_pair(term, events[p], events[q]) for term in (one, other)))
                is True
                for p, q in pairwise(sorted(positions(v)))
                if (x, p) in v.labels and (y, q) in v.labels
            )
        case pred.CompareTerms(op=op, left=one, right=other):
            if not counts(condition):
                return True
            return compare(op, *(evaluate_term(term, v, events) for term in (one, other))) is True
        case pred.Monotone(variable=x, attribute=attribute, op=op):
            inside = sorted(position for variable, position in v.labels if variable == x)
            values = [read_attribute(attribute, events[position]) for position in inside]
            return all(compare(op, a, b) is True for a, b in pairwise(values))
        case pred.Denied(body=body):
            return _is_false(body, v, events, counts)
        case pred.AllOf(parts=parts):
            return all(satisfies(part, v, events, counts) for part in parts)
        case pred.AnyOf(parts=parts):
            return any(satisfies(part, v, events, counts) for part in parts)


def _is_false(
    leaf: pred.Statement,
    v: Valuation,
    events: Sequence[Event],
    counts: Callable[[pred.CompareTerms], bool],
) -> bool:
    """Whether a condition is false of an event, of a pair, of two neighbours; not unknown."""
    if isinstance(leaf, pred.CompareTerms) and not counts(leaf):
        return True
    inside = sorted(positions(v))
    found: list[bool | None] = []
    match leaf:
        case pred.Holds(variable=x, predicate=predicate):
            found = [truth(predicate, events[p]) for y, p in v.labels if x == y]
        case pred.Compare(op=op, left=left, right=right, adjacent=adjacent, shift=shift):
            found = [
                compare(
                    op,
                    read_attribute(left.attribute, events[p]),
                    shift_value(read_attribute(right.attribute, events[q]), shift),
                )
                for p, q in (pairwise(inside) if adjacent else pairs(inside, inside))
                if (left.variable, p) in v.labels and (right.variable, q) in v.labels
            ]
        case pred.CompareNeighbours(op=op, left=one, right=other):
            x, y = leaf.variables
            found = [
                compare(op, *(_evaluate_pair(term, events[p], events[q]) for term in (one, other)))
                for p, q in pairwise(inside)
                if (x, p) in v.labels and (y, q) in v.labels
            ]
        case pred.CompareTerms(op=op, left=one, right=other):
            found = [compare(op, *(evaluate_term(term, v, events) for term in (one, other)))]
        case pred.Monotone(variable=x, attribute=attribute, op=op):
            own = sorted(position for variable, position in v.labels if variable == x)
            values = [read_attribute(attribute, events[position]) for position in own]
            found = [compare(op, a, b) for a, b in pairwise(values)]
    return False in found


def evaluate_term(term: pred.MatchTerm, v: Valuation, events: Sequence[Event]) -> Any:
    """Return the value that a term has for a valuation; None for NULL.

    Times are numbers here, so a duration is a number too: of the ticks of the events' times.
    """

    def of(x: str) -> list[Event]:
        return [events[position] for position in sorted(p for y, p in v.labels if x == y)]

    match term:
        case pred.Literal():
            return read_literal(term)
        case pred.Reference(variable=x, attribute=attribute):
            (event,) = of(x)
            return read_attribute(attribute, event)
        case pred.Aggregate(argument=None):
            return len(positions(v))
        case pred.Aggregate(argument=str(x)):
            return len(of(x))
        case pred.Aggregate(function=function, argument=pred.Reference() as reference):
            found = [read_attribute(reference.attribute, event) for event in of(reference.variable)]
            known = [value for value in found if value is not None]
            return _count_distinct(known) if term.distinct else _aggregate(function.upper(), known)
        case pred.IntervalTime(which=which):
            return events[v.start if which == "START" else v.end].get(pred.TIME.name)
        case pred.ConstantDuration(nanoseconds=nanoseconds):
            return _count_ticks(nanoseconds, events[0] if events else {})
        case pred.Opposite(body=body):
            return negate(evaluate_term(body, v, events))
        case pred.TermCall(function=function, arguments=arguments):
            return call(function, [evaluate_term(each, v, events) for each in arguments])
        case pred.Calculation(op=op, left=left, right=right):
            return calculate(op, evaluate_term(left, v, events), evaluate_term(right, v, events))


def _count_distinct(values: Sequence[Any]) -> int:
    return len({(kind_of(value), value) for value in values})


def _evaluate_pair(term: pred.MatchTerm, earlier: Event, later: Event) -> Any:
    """Return the value that a term has for two neighbours."""
    match term:
        case pred.Literal(value=value):
            return value
        case pred.Reference(attribute=attribute, previous=previous):
            return read_attribute(attribute, earlier if previous else later)
        case pred.ConstantDuration(nanoseconds=nanoseconds):
            return _count_ticks(nanoseconds, later)
        case pred.Opposite(body=body):
            return calculate("-", 0, _evaluate_pair(body, earlier, later))
        case pred.TermCall(function=function, arguments=arguments):
            return call(function, [_evaluate_pair(each, earlier, later) for each in arguments])
        case pred.Calculation(op=op, left=left, right=right):
            return calculate(op, *(_evaluate_pair(each, earlier, later) for each in (left, right)))
        case _:
            raise ValueError(f"not a value of two neighbours: {term}")


def _count_ticks(nanoseconds: Fraction, event: Event) -> int | Fraction:
    """Return a duration as a number of the ticks of the events' times."""
    ticks = nanoseconds / Fraction(event.get(TICK, NANOSECONDS))
    return ticks.numerator if ticks.denominator == 1 else ticks


def _has_common_value(keys: Sequence[cel.KeyPart], v: Valuation, events: Sequence[Event]) -> bool:
    found = [
        read_attribute(key.attribute, events[position])
        for key in keys
        for variable, position in v.labels
        if key.variable in (None, variable)
    ]
    return all(compare("=", first, second) is True for first in found for second in found)


# -------------------------------------------------------------------- CEQL


@dataclass(frozen=True, slots=True)
class OracleMatch:
    """A match in row numbers: `vars` has the variables in SELECT, `partition` the key, `values`
    the terms in SELECT by the names of their columns."""

    start: int
    end: int
    vars: Mapping[str, tuple[int, ...]]
    partition: tuple[Any, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    suppressed: int | None = None
    """Of SUPPRESS BY: how many matches were silenced since the one before."""


class _PositionedValuation(NamedTuple):
    """A valuation on its way to being a match, in positions of its partition.

    `global_start` and `global_end` are ranks among all events.
    """

    partition: _Partition
    valuation: Valuation
    global_start: int
    global_end: int


class _Partition(NamedTuple):
    key: tuple[Any, ...]
    ranks: tuple[int, ...]


def evaluate(
    pattern: Pattern,
    events: Sequence[Event],
    *,
    time: str = "ts",
    type: str = "type",
    stream: str | None = None,
    tick: int = NANOSECONDS,
    complete: bool = False,
    tables: Mapping[str, Sequence[Event]] | None = None,
    until: int | None = None,
) -> list[OracleMatch]:
    """Return the matches by end position, latest start first.

    `time` counts ticks of `tick` nanoseconds; `stream` names the stream of the events
    that do not say theirs in "_stream" (the only stream in FROM, if there is but one).
    A lone `SELECT COUNT(*)` gives the matches it counts; see `count_matches`. Unless the input
    is `complete`, WITHOUT … FOR gives those matches alone that are certain, by the last event or a
    time that has come (`until`). `tables` are those of JOIN, by name.
    """
    rows, ordered = _order_events(pattern, events, time, stream, tick)
    rows, ordered = join_tables(pattern, rows, ordered, tables or {})
    last = None if until is None else _read_times(len(ordered), until, tick)
    matches = _find_matches(pattern, ordered, time, type, tick, complete, last)
    # 6. CONSUME BY
    matches = _consume(pattern.consume, matches)
    # 7. ORDER BY, LIMIT
    if pattern.order is not None:
        matches = _order(pattern.order, pattern.limit, matches, ordered)
    else:
        matches = _limit(pattern.limit, matches)
    found = [_make_match(m, pattern, rows, ordered) for m in matches]
    # SUPPRESS BY
    return found if pattern.suppress is None else _suppress(pattern, found, rows, ordered)


def join_tables(
    pattern: Pattern,
    rows: list[int],
    ordered: list[Event],
    tables: Mapping[str, Sequence[Event]],
) -> tuple[list[int], list[Event]]:
    """Return the events with the rows of their tables, without those that JOIN drops."""
    for join in pattern.joins:
        kept = []
        for row, event in zip(rows, ordered, strict=True):
            if event.get(STREAM) != join.stream:
                kept.append((row, event))
                continue
            partners = [
                other
                for other in tables[join.table]
                if all(
                    compare("=", _read_named(a, event), _read_named(b, other)) is True
                    for a, b in join.keys
                )
            ]
            assert len(partners) <= 1
            if partners or join.outer:
                kept.append((row, {**event, join.table: partners[0] if partners else None}))
        rows, ordered = [row for row, _ in kept], [event for _, event in kept]
    return rows, ordered


def _read_named(name: str, event: Event) -> Any:
    return event[name] if name in event else read_attribute(pred.Attribute.named(name), event)


def _suppress(
    pattern: Pattern, matches: list[OracleMatch], rows: list[int], ordered: Sequence[Event]
) -> list[OracleMatch]:
    """Return the matches that are reported; they come in the order of their ends."""
    suppress = pattern.suppress
    assert suppress is not None
    rank = {row: i for i, row in enumerate(rows)}
    last: dict[Hashable, Event] = {}
    silenced: Counter[Hashable] = Counter()
    reported: list[OracleMatch] = []
    for m in matches:
        known = dict(zip(pattern.components, m.partition, strict=True)) | dict(m.values)
        key = [known[name] for name in suppress.names]
        if any(compare("=", part, part) is not True for part in key):  # NULL equals nothing
            reported.append(replace(m, suppressed=0))
            continue
        identity = tuple((kind_of(part), part) for part in key)
        end = ordered[rank[m.end]]
        if identity in last and measure_time(last[identity], end) <= suppress.length:
            silenced[identity] += 1
            continue
        reported.append(replace(m, suppressed=silenced.pop(identity, 0)))
        last[identity] = end
    return reported


def _order_events(
    pattern: Pattern, events: Sequence[Event], time: str, stream: str | None, tick: int
) -> tuple[list[int], list[Event]]:
    """Return the rows in time order, and their events with their times and streams."""
    rows = order_rows(pattern, events, time=time, stream=stream)
    ordered: list[Event] = [
        {STREAM: _find_stream(pattern, stream), **_read_times(rank, events[row].get(time), tick)}
        | dict(events[row])
        for rank, row in enumerate(rows)
    ]
    return rows, ordered


def _find_matches(
    pattern: Pattern,
    ordered: Sequence[Event],
    time: str,
    type: str,
    tick: int,
    complete: bool = False,
    last: Event | None = None,
) -> list[_PositionedValuation]:
    """Return the matches after step 5, by end position, latest start first.

    `last` tells the time that has come, if it is not the last event.
    """
    names = find_selected(pattern)
    matches: list[_PositionedValuation] = []
    # 1. PARTITION BY: each key is a stream of its own, FORGET AFTER: and each of its lives
    for partition in _split_lives(pattern, _make_partitions(pattern.partition, ordered), ordered):
        local = [ordered[rank] for rank in partition.ranks]
        # 2. the valuations of the formula
        found = find_valuations(pattern.formula, local, type=type) - {EPSILON}
        # 3. WITHIN
        found = {v for v in found if is_within(pattern.within, v, local)}
        # WITHOUT
        for absence in pattern.without:
            found = _keep_without(absence, found, local, type)
            if not absence.before and not complete:
                now = last or ordered[-1]
                found = {v for v in found if _is_certain(absence, v, local, now)}
        if pattern.strategy is Strategy.LONGEST:  # 4. over all ends
            found = keep_longest(found)
        for end in range(len(local)):
            # 4. the strategy, among those that end at one position
            chosen = choose(pattern.strategy, {v for v in found if v.end == end})
            # 5. SELECT, as a set
            chosen = {v._replace(labels=restrict(v.labels, names)) for v in chosen}
            matches.extend(
                _PositionedValuation(partition, v, partition.ranks[v.start], partition.ranks[v.end])
                for v in chosen
            )
    matches.sort(key=lambda m: (m.global_end, -m.global_start, sorted(m.valuation.labels)))
    return matches


def _keep_without(
    absence: Absence, found: set[Valuation], events: Sequence[Event], type: str
) -> set[Valuation]:
    """Return the valuations that no valuation of the guard follows (or precedes) in time."""
    guard, window = split_guard(absence.formula), absence.within
    guards = find_valuations(guard.formula, events, type=type) - {EPSILON}

    def is_near(v: Valuation, w: Valuation) -> bool:
        if absence.before:
            first, last, is_outside = w.start, v.start, w.end < v.start
        else:
            first, last, is_outside = v.end, w.end, w.start > v.end
        between = Valuation(first, last, frozenset())
        return is_outside and is_within(window, between, events)

    return {
        v for v in found if not any(is_near(v, w) and _meets(guard, v, w, events) for w in guards)
    }


def _is_certain(absence: Absence, v: Valuation, events: Sequence[Event], last: Event) -> bool:
    """Whether time has passed the deadline of a valuation; `last` is the last event of all."""
    window = absence.within
    if window.unit is Unit.EVENTS:
        return len(events) - 1 - v.end > window.size
    return measure_time(events[v.end], last) > window.size


def find_following(pattern: Pattern, events: Sequence[Event], row: int) -> tuple[int, ...]:
    """Return the rows after this one that belong to the same partition."""
    rows, ordered = _order_events(pattern, events, "ts", None, NANOSECONDS)
    for partition in _split_lives(pattern, _make_partitions(pattern.partition, ordered), ordered):
        own = [rows[rank] for rank in partition.ranks]
        if row in own:
            return tuple(own[own.index(row) + 1 :])
    return ()


@dataclass(frozen=True, slots=True)
class OracleGroup:
    """A group of matches: `when` is (from, to) of EVERY, (row,) of END, or empty."""

    partition: Mapping[str, Any]
    when: tuple[int, ...]
    values: Mapping[str, Any]


def evaluate_groups(
    pattern: Pattern,
    events: Sequence[Event],
    *,
    time: str = "ts",
    type: str = "type",
    stream: str | None = None,
    tick: int = NANOSECONDS,
    complete: bool = False,
) -> list[OracleGroup]:
    """Return the groups of a query with GROUP BY that HAVING keeps."""
    grouping = pattern.grouping
    assert grouping is not None
    rows, ordered = _order_events(pattern, events, time, stream, tick)
    groups: dict[tuple[Any, ...], list[_PositionedValuation]] = {}
    for m in _find_matches(pattern, ordered, time, type, tick, complete):
        key = dict(zip(pattern.components, m.partition.key, strict=True))
        kept = tuple((name, key[name]) for name in grouping.components)
        when: tuple[int, ...] = ()
        if grouping.every is not None:
            size = grouping.every / tick
            at = m.global_start if grouping.of_start else m.global_end
            number = ordered[at][pred.TIME.name] // size
            when = (number * size, (number + 1) * size)
        elif grouping.end:
            when = (rows[m.global_end],)
        groups.setdefault((kept, when), []).append(m)
    found = []
    for (kept, when), members in groups.items():

        def value(term: pred.MatchTerm, of: list[_PositionedValuation] = members) -> Any:
            return _evaluate_over(term, of, ordered)

        if grouping.having is None or _is_kept(grouping.having, value):
            items = [item for item in pattern.select.items if isinstance(item, SelectedTerm)]
            values = {item.name: value(item.term) for item in items}
            found.append(OracleGroup(dict(kept), when, values))
    return found


def _evaluate_over(
    term: pred.MatchTerm, matches: Sequence[_PositionedValuation], ordered: Sequence[Event]
) -> Any:
    """Return the value of a term over all matches of a group."""
    match term:
        case pred.Literal():
            return read_literal(term)
        case pred.Aggregate(argument=None):
            return len(matches)
        case pred.Aggregate(function=function, argument=(str() | pred.Reference()) as argument):
            name = argument if isinstance(argument, str) else argument.variable
            held = [
                ordered[m.partition.ranks[position]]
                for m in matches
                for variable, position in m.valuation.labels
                if variable == name
            ]
            if isinstance(argument, str):
                return len(held)
            read = [read_attribute(argument.attribute, event) for event in held]
            known = [value for value in read if value is not None]
            return _count_distinct(known) if term.distinct else _aggregate(function, known)
        case pred.Opposite(body=body):
            return negate(_evaluate_over(body, matches, ordered))
        case pred.TermCall(function=function, arguments=arguments):
            return call(function, [_evaluate_over(each, matches, ordered) for each in arguments])
        case pred.Calculation(op=op, left=left, right=right):
            one, other = (_evaluate_over(side, matches, ordered) for side in (left, right))
            return calculate(op, one, other)
        case _:
            raise ValueError(f"not a term of a group: {term}")


def _is_kept(condition: pred.Condition, value: Callable[[pred.MatchTerm], Any]) -> bool:
    match condition:
        case pred.AllOf(parts=parts):
            return all(_is_kept(part, value) for part in parts)
        case pred.AnyOf(parts=parts):
            return any(_is_kept(part, value) for part in parts)
        case pred.CompareTerms(op=op, left=left, right=right):
            return compare(op, value(left), value(right)) is True
        case pred.Denied(body=pred.CompareTerms(op=op, left=left, right=right)):
            return compare(op, value(left), value(right)) is False
        case _:
            raise ValueError(f"not a condition of HAVING: {condition}")


def count_matches(
    pattern: Pattern,
    events: Sequence[Event],
    *,
    time: str = "ts",
    type: str = "type",
    stream: str | None = None,
    tick: int = NANOSECONDS,
    complete: bool = False,
    tables: Mapping[str, Sequence[Event]] | None = None,
) -> list[tuple[int, int]]:
    """Return the row of each end that has matches and their number, in time order."""
    options: dict[str, Any] = {"time": time, "type": type, "stream": stream, "tick": tick}
    found = evaluate(pattern, events, complete=complete, tables=tables, **options)
    return list(Counter(m.end for m in found).items())


def order_rows(
    pattern: Pattern, events: Sequence[Event], *, time: str = "ts", stream: str | None = None
) -> list[int]:
    """Return the rows of the streams in FROM in time order; equal times keep the order given."""
    known = [event.get(STREAM, _find_stream(pattern, stream)) for event in events]
    rows = [
        row for row in range(len(events)) if not pattern.streams or known[row] in pattern.streams
    ]
    if all(event.get(time) is None for event in events):
        return rows
    return sorted(rows, key=lambda row: events[row][time])


def _read_times(rank: int, time: Any, tick: int) -> dict[str, Any]:
    """Return the attributes @time, @ns and @tick of an event."""
    if time is None:
        return {pred.TIME.name: rank, TICK: tick}
    exact = time * tick if isinstance(time, int) else time
    return {pred.TIME.name: time, pred.TIME_NS.name: exact, TICK: tick}


def _find_stream(pattern: Pattern, stream: str | None) -> str | None:
    if stream is None and len(pattern.streams) == 1:
        return pattern.streams[0]
    return stream


def _make_partitions(
    groups: tuple[tuple[str, ...], ...], events: Sequence[Event]
) -> list[_Partition]:
    """Return the ranks of each key's events; an event without a whole key has no partition."""
    keys: dict[Hashable, tuple[Any, ...]] = {}
    members: dict[Hashable, list[int]] = {}
    for rank, event in enumerate(events):
        key = tuple(
            next((v for a in group if (v := _read_named(a, event)) is not None), None)
            for group in groups
        )
        if any(compare("=", part, part) is not True for part in key):
            continue
        identity = tuple((kind_of(part), part) for part in key)
        keys.setdefault(identity, key)
        members.setdefault(identity, []).append(rank)
    return [_Partition(keys[each], tuple(members[each])) for each in keys]


def _split_lives(
    pattern: Pattern, partitions: list[_Partition], events: Sequence[Event]
) -> Iterator[_Partition]:
    """Yield the lives of the partitions: one ends where no event comes for longer than FORGET."""
    for key, ranks in partitions:
        begin = 0
        for i in range(1, len(ranks)) if pattern.forget is not None else ():
            before, after = (events[rank] for rank in ranks[i - 1 : i + 1])
            if pattern.forget is not None and measure_time(before, after) > pattern.forget:
                yield _Partition(key, ranks[begin:i])
                begin = i
        yield _Partition(key, ranks[begin:])


def is_within(window: Window | None, v: Valuation, events: Sequence[Event]) -> bool:
    """Whether the interval of a valuation is within a window."""
    if window is None:
        return True
    first, last = events[v.start], events[v.end]
    match window.unit:
        case Unit.EVENTS:
            return v.end - v.start <= window.size
        case Unit.TIME:
            return measure_time(first, last) <= window.size
        case Unit.ATTRIBUTE:
            assert window.attribute is not None
            low, high = (
                read_attribute(window.attribute, first),
                read_attribute(window.attribute, last),
            )
            if kind_of(low) != "number" or kind_of(high) != "number":
                return False
            # a column of floats is measured in floats: 0.3 - 0.2 is within 0.1 or not as they say
            span = high - low
            if window.strict:
                return bool(span < window.size)
            return bool(span <= (float(window.size) if isinstance(span, float) else window.size))


def choose(strategy: Strategy, found: set[Valuation]) -> set[Valuation]:
    """Select among the valuations of one partition that end at one position."""
    match strategy:
        case Strategy.ALL:
            return found
        case Strategy.STRICT:
            return {v for v in found if positions(v) == set(range(v.start, v.end + 1))}
        case Strategy.NEXT:
            return {v for v in found if not any(_is_decided_by(v, w, min) for w in found)}
        case Strategy.LAST:
            return {v for v in found if not any(_is_decided_by(v, w, max) for w in found)}
        case Strategy.MAX:
            return {v for v in found if not any(positions(v) < positions(w) for w in found)}
        case Strategy.ANY:
            last = choose(Strategy.LAST, found)
            return set(sorted(last, key=lambda v: (-v.start, sorted(v.labels)))[:1])
        case Strategy.LONGEST:  # `keep_longest` has left one start
            return choose(Strategy.MAX, found)


def keep_longest(found: set[Valuation]) -> set[Valuation]:
    """Return the valuations whose interval no other properly contains."""
    return {
        v
        for v in found
        if not any(
            w.start <= v.start and v.end <= w.end and (w.start, w.end) != (v.start, v.end)
            for w in found
        )
    }


def _is_decided_by(v: Valuation, w: Valuation, pick: Callable[[frozenset[int]], int]) -> bool:
    """Whether the smallest (largest) position that only one of the two has is w's."""
    difference = positions(v) ^ positions(w)
    return bool(difference) and pick(difference) in positions(w)


def _consume(consume: Consume, matches: list[_PositionedValuation]) -> list[_PositionedValuation]:
    """Drop the matches that start at or before an earlier end; they are in order of ends."""
    if consume is Consume.NONE:
        return matches
    kept: list[_PositionedValuation] = []
    for m in matches:
        used = [
            earlier.global_end
            for earlier in kept
            if earlier.global_end < m.global_end
            and (consume is Consume.ANY or earlier.partition == m.partition)
        ]
        if all(m.global_start > end for end in used):
            kept.append(m)
    return kept


def _limit(limit: int | None, matches: list[_PositionedValuation]) -> list[_PositionedValuation]:
    if limit is None:
        return matches
    kept, ends = list[_PositionedValuation](), Counter[int]()
    for m in matches:
        if ends[m.global_end] < limit:
            kept.append(m)
            ends[m.global_end] += 1
    return kept


def _order(
    order: OrderBy,
    limit: int | None,
    matches: list[_PositionedValuation],
    ordered: Sequence[Event],
) -> list[_PositionedValuation]:
    """Sort the matches of each end, of each key and interval, or all, and keep the first."""
    if order.overall is not None:  # of equal values, the earliest first
        matches = sorted(matches, key=_find_earliest)
    groups: dict[Any, list[tuple[Any, _PositionedValuation]]] = {}
    valued: list[tuple[Any, _PositionedValuation]] = []
    for m in matches:
        local = [ordered[rank] for rank in m.partition.ranks]
        group: Any = m.global_end
        if order.every is not None:
            end = ordered[m.global_end]
            group = (end[pred.TIME.name] // (order.every / end[TICK]), m.partition.key)
        if order.overall is not None:
            group = m.partition.key if order.overall is Overall.PARTITION else None
        valued.append((evaluate_term(order.term, m.valuation, local), m))
        groups.setdefault(group, []).append(valued[-1])
    kept = [m for members in groups.values() for m in _sort_by_value(order, members)[:limit]]
    if order.overall is None:
        return kept
    return [m for m in _sort_by_value(order, valued) if m in kept]


def _sort_by_value(
    order: OrderBy, valued: list[tuple[Any, _PositionedValuation]]
) -> list[_PositionedValuation]:
    """Return the matches by their values, NULL and NaN last; equal values stay as they are."""
    known = [(v, m) for v, m in valued if compare("=", v, v) is True]
    unknown = [m for v, m in valued if compare("=", v, v) is not True]
    known.sort(key=lambda each: each[0], reverse=order.descending)
    return [*(m for _, m in known), *unknown]


def _find_earliest(m: _PositionedValuation) -> tuple[Any, ...]:
    """Return the end, the start, and the marks: what marks an earlier event comes first."""
    marks = sorted((position, variable) for variable, position in m.valuation.labels)
    return m.global_end, m.global_start, [*marks, (len(m.partition.ranks), "")]


def _make_match(
    m: _PositionedValuation, pattern: Pattern, rows: Sequence[int], ordered: Sequence[Event]
) -> OracleMatch:
    ranks = m.partition.ranks
    held = {
        x: tuple(sorted(rows[ranks[i]] for y, i in m.valuation.labels if x == y))
        for x in find_columns(pattern)
    }
    local = [ordered[rank] for rank in ranks]
    values = {
        item.name: evaluate_term(item.term, m.valuation, local)
        for item in pattern.select.items
        if isinstance(item, SelectedTerm) and not is_count_alone(pattern.select)
    }
    return OracleMatch(rows[m.global_start], rows[m.global_end], held, m.partition.key, values)


# ------------------------------------------------------------------ SELECT


def restrict(labels: Labels, names: Iterable[str]) -> Labels:
    """Return the labels of the named variables."""
    kept = set(names)
    return frozenset((x, position) for x, position in labels if x in kept)


def is_count_alone(select: Select) -> bool:
    """Whether this is `SELECT COUNT(*)` with nothing else."""
    return select.items == (SelectedTerm(Aggregate("COUNT")),)


def find_columns(pattern: Pattern) -> tuple[str, ...]:
    """Return the variables that are columns of the result."""
    if pattern.select.everything:
        return tuple(dict.fromkeys(_find_starred(pattern.formula)))
    if is_count_alone(pattern.select):
        return find_selected(pattern)
    return tuple(item.name for item in pattern.select.items if isinstance(item, Variable))


def find_selected(pattern: Pattern) -> tuple[str, ...]:
    """Return the variables that tell matches apart, in the order in which they are first named."""
    select = pattern.select
    found: list[str] = []
    if select.everything:
        found += _find_starred(pattern.formula)
    if pattern.grouping is not None:  # the matches are those of SELECT *
        found += _find_starred(pattern.formula)
        for term in group_terms(pattern):
            found += pred.variables_of(term)
        return tuple(dict.fromkeys(found))
    for item in select.items:
        match item:
            case Variable(name=name):
                found.append(name)
            case SelectedTerm(term=term):
                found += pred.variables_of(term)
                if Aggregate("COUNT") in pred.walk_term(term):
                    found += _find_starred(pattern.formula)
    if pattern.order is not None:
        found += pred.variables_of(pattern.order.term)
        if Aggregate("COUNT") in pred.walk_term(pattern.order.term):
            found += _find_starred(pattern.formula)
    return tuple(dict.fromkeys(found))


def _find_starred(formula: cel.Formula, under_as: bool = False) -> list[str]:
    """Return every AS variable, and every type outside any AS."""
    match formula:
        case cel.Event(type=name):
            return [] if under_as or name == cel.ANY_TYPE else [name]
        case cel.As(body=body, variable=x):
            return [x, *_find_starred(body, True)]
        case cel.Not():
            return []
        case cel.Unless(body=body):
            return _find_starred(body, under_as)
        case _:
            return [x for child in cel.children(formula) for x in _find_starred(child, under_as)]


def _aggregate(function: str, found: list[Any]) -> Any:
    if function == "COUNT":
        return len(found)
    if not found:
        return None
    ordered = [value for value in found if value == value] or found  # without NaN
    kinds = {kind_of(value) for value in found}
    if function in ("SUM", "AVG") and kinds != {"number"}:
        return None
    if function in ("MIN", "MAX") and len(kinds) > 1:
        return None
    match function:
        case "SUM":
            with localcontext(prec=400):
                return sum(found)
        case "MIN":
            return min(ordered)
        case "MAX":
            return max(ordered)
        case "AVG":
            return sum(float(v) if isinstance(v, Decimal) else v for v in found) / len(found)
        case "FIRST":
            return found[0]
        case "LAST":
            return found[-1]
        case _:
            raise ValueError(f"no such aggregate: {function}")
