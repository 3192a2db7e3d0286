"""Conditions on a whole run of events that are decided while it is read.

One more event never makes some conditions false. Take
`SELECT MAX … WHERE E+ AS x FILTER COUNT(DISTINCT x[a]) >= 4 … WITHIN d`. At each end the run W
of all E in the window contains every other match. If the condition holds of some match, it holds
of W. So W is the match of that end, or there is none, whether the strategy is MAX, NEXT, LAST or
ANY; with LONGEST the runs of different ends are compared as always. `E->+` and `E:+` have W as
well: the E in a row, up to the end. The engine finds W as NEXT does, and counts decide
(`engine.unary.thresholds`), at O(1) for each event.

Without a strategy, the matches of `E->+` and `E:+` that share an end are W without some of its
first events. The condition holds from one start back, so those matches are cut out of W.

Conditions that count: `COUNT(x) >= n` (and `E{n,}`), `COUNT(x[a]) >= n` and
`COUNT(DISTINCT x[a]) >= n`; `MAX(x[a]) >= c` and `MIN(x[a]) <= c`, where one event is enough. An
automaton counts few events where each start is a match, and for groups, which need no match.

Matches share the events of a run, with their variables. So alternatives that give one event
different variables (`(E AS a OR E AS b)+`) are no runs, unless no event fits both.

One more event may make others false: a sum or an average against a bound, and `MIN(x[a]) >= c` and
`MAX(x[a]) <= c`, which every event has to pass. The matches of `E->+` and `E:+` that share an end
are the later parts of W, and MAX, NEXT, LAST and ANY take the longest of those for which the
condition holds. It is the one from the earliest start on for which it does
(`engine.unary.run_sums`). Of `E+` that is W itself where no value is below 0 (`x[a >= 0]`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations
from math import isfinite
from typing import NamedTuple

from cernis.automata.unary.construct import is_correlated
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.advice.truth import never_holds
from cernis.pattern.check.scopes import is_single_event
from cernis.pattern.query import Consume, Pattern, Strategy
from cernis.pattern.write import write_condition

MOST_ROUNDS = 100
"""Up to so many events an automaton counts."""
_WHOLE = (Strategy.MAX, Strategy.NEXT, Strategy.LAST, Strategy.ANY, Strategy.LONGEST)


@dataclass(frozen=True, slots=True)
class RunCount:
    """At least so many events, or events that pass a test, or different values."""

    least: int
    test: pred.Predicate | None = None
    """None: every event counts."""
    attribute: pred.Attribute | None = None
    """Whose different values count; None: events do."""


@dataclass(frozen=True, slots=True)
class RunSum:
    """A sum, or an average, and its bound, which it has to pass where that `is_strict`."""

    attribute: pred.Attribute
    factor: int
    """-1: the bound is one from above, and all is turned around."""
    bound: pred.Number
    """The constant that it is compared with."""
    is_strict: bool
    is_mean: bool


@dataclass(frozen=True, slots=True)
class RunCondition:
    """The counts that a run has to reach."""

    counts: tuple[RunCount, ...]
    cuts: bool
    """Whether the later starts of a run are matches of their own."""
    sum: RunSum | None = None
    """What the longest later part of a run has to reach, which then is the match."""
    bars: tuple[pred.Predicate, ...] = ()
    """What no event of that part may satisfy."""

    @property
    def takes_part(self) -> bool:
        """Whether the match is a later part of a run."""
        return self.sum is not None or bool(self.bars)


def take_run_counts(pattern: Pattern) -> tuple[Pattern, RunCondition | None]:
    """Return the pattern that finds runs, and what they have to reach; None: it stays as it is.

    >>> from cernis.languages.ceql import parse
    >>> text = "SELECT MAX * WHERE E{2,} AS x FILTER COUNT(DISTINCT x[a]) >= 4 AND x[b > 5]"
    >>> runs, condition = take_run_counts(parse(text))
    >>> print(runs)
    SELECT NEXT * WHERE E+ AS x FILTER x[b > 5]
    >>> [count.least for count in condition.counts], condition.cuts
    ([4, 2], False)
    """
    run = _read_run(pattern.formula)
    if run is None or pattern.without or not _is_free(pattern, run):
        return pattern, None
    names, counts, sums, bars = {*_name_run(pattern.formula)}, [], [], []
    for part in run.conditions:
        if isinstance(part, pred.Holds):
            continue
        if (count := _read_count(part, names)) is not None:
            counts.append(count)
        elif (bar := _read_bar(part, names)) is not None:
            bars.append(bar.test)
            counts.append(RunCount(1, bar.passes))
        elif (total := _read_sum(part, names)) is not None:
            sums.append(total)
            counts.append(RunCount(1, pred.IsNull(total.attribute.own_value, negated=True)))
        else:
            return pattern, None
    takes_part = bool(sums or bars)
    if takes_part and (len(sums) > 1 or not _has_longest_part(pattern, run, sums, names)):
        return pattern, None
    if not takes_part and all(c.test is None and c.least <= MOST_ROUNDS for c in counts):
        if pattern.strategy is Strategy.ALL:  # an automaton counts so few
            return pattern, None
        if pattern.grouping is not None:
            is_max = pattern.strategy is Strategy.MAX
            return replace(pattern, strategy=Strategy.NEXT) if is_max else pattern, None
    if run.rounds.low > 1:  # every event of a run is counted, from the first on
        counts.append(RunCount(run.rounds.low))
    formula = _replace_run(pattern.formula, replace(run.rounds, low=1, separator=cel.LATER))
    strategy = pattern.strategy if pattern.strategy is Strategy.LONGEST else Strategy.NEXT
    runs = replace(pattern, formula=formula, strategy=strategy)
    cuts = pattern.strategy is Strategy.ALL
    total = next(iter(sums), None)
    return runs, RunCondition(tuple(counts), cuts, total, tuple(bars))


def list_run_counts(pattern: Pattern) -> tuple[str, ...]:
    """Return the conditions on a run that are decided while reading.

    >>> from cernis.languages.ceql import parse
    >>> list_run_counts(parse("SELECT MAX * WHERE E{3,} AS x FILTER COUNT(DISTINCT x[a]) >= 4"))
    ('COUNT(*) >= 3', 'COUNT(DISTINCT x[a]) >= 4')
    """
    _, counted = take_run_counts(pattern)
    run = None if counted is None else _read_run(pattern.formula)
    if run is None:
        return ()
    rounds = (f"COUNT(*) >= {run.rounds.low}",) if run.rounds.low > 1 else ()
    conditions = (each for each in run.conditions if not isinstance(each, pred.Holds))
    return (*rounds, *map(write_condition, conditions))


@dataclass(frozen=True, slots=True)
class _CountedRun:
    rounds: cel.Iterate
    conditions: tuple[pred.Condition, ...]


def _read_run(node: cel.Formula) -> _CountedRun | None:
    """Return the iteration that a formula is, and the conditions on it."""
    match node:
        case cel.As(body=body):
            return _read_run(body)
        case cel.Filter(body=body, condition=condition):
            inside = _read_run(body)
            if inside is None:
                return None
            return replace(inside, conditions=(*inside.conditions, *pred.conjuncts(condition)))
        case cel.Iterate(body=body, high=None, low=low) if low >= 1:
            if node.separator.gap is None and is_single_event(body):
                return _CountedRun(node, ())
    return None


def _name_run(node: cel.Formula) -> Iterator[str]:
    """Yield the variables that hold all events of a run."""
    match node:
        case cel.As(body=body, variable=variable):
            yield variable
            yield from _name_run(body)
        case cel.Filter(body=body) | cel.Iterate(body=body):
            yield from _name_run(body)
        case cel.Event(type=name) if name != cel.ANY_TYPE:
            yield name


class _RunAlternative(NamedTuple):
    """An event of a run, the variables that it has, and what is asked of it."""

    event: cel.Event
    names: frozenset[str] = frozenset()
    tests: tuple[pred.Predicate, ...] = ()

    def excludes(self, other: _RunAlternative) -> bool:
        """Whether no event fits this one and the other."""
        kinds = {self.event.type, other.event.type}
        return (len(kinds) == 2 and cel.ANY_TYPE not in kinds) or never_holds(
            pred.And((*self.tests, *other.tests))
        )


def _list_alternatives(
    node: cel.Formula, names: frozenset[str] = frozenset(), holds: tuple[pred.Holds, ...] = ()
) -> Iterator[_RunAlternative]:
    """Yield the events of an iteration of single events."""
    match node:
        case cel.As(body=body, variable=variable):
            yield from _list_alternatives(body, names | {variable}, holds)
        case cel.Filter(body=body, condition=condition):
            own = (part for part in pred.conjuncts(condition) if isinstance(part, pred.Holds))
            yield from _list_alternatives(body, names, (*holds, *own))
        case cel.Iterate(body=body):
            yield from _list_alternatives(body, names, holds)
        case cel.Choice(parts=parts):
            for part in parts:
                yield from _list_alternatives(part, names, holds)
        case cel.Event(type=name):
            every = names if name == cel.ANY_TYPE else names | {name}
            tests = tuple(each.predicate for each in holds if each.variable in every)
            yield _RunAlternative(node, every, tests)


def _labels_once(formula: cel.Formula) -> bool:
    """Whether an event has the same variables in every match, whichever alternatives it fits."""
    pairs = combinations(_list_alternatives(formula), 2)
    return all(one.names == other.names or one.excludes(other) for one, other in pairs)


def _replace_run(node: cel.Formula, rounds: cel.Iterate) -> cel.Formula:
    """Return the formula with another iteration, and without the conditions that count."""
    match node:
        case cel.As(body=body):
            return replace(node, body=_replace_run(body, rounds))
        case cel.Filter(body=body, condition=condition):
            body = _replace_run(body, rounds)
            kept = tuple(p for p in pred.conjuncts(condition) if isinstance(p, pred.Holds))
            if not kept:
                return body
            left = kept[0] if len(kept) == 1 else pred.AllOf(kept, span=condition.span)
            return replace(node, body=body, condition=left)
    return rounds


def _is_free(pattern: Pattern, run: _CountedRun) -> bool:
    """Whether the strategy leaves runs, or their later starts."""
    if is_correlated(run.rounds) or not _labels_once(pattern.formula):
        return False
    if pattern.strategy in _WHOLE:
        return True
    follows = run.rounds.contiguous or run.rounds.separator.next
    keeps_all = pattern.consume is Consume.NONE and pattern.order is None
    return pattern.strategy is Strategy.ALL and follows and keeps_all


def _has_longest_part(
    pattern: Pattern, run: _CountedRun, sums: Sequence[RunSum], names: set[str]
) -> bool:
    """Whether the match of an end is the longest later part of a run."""
    if pattern.strategy not in _WHOLE or pattern.strategy is Strategy.LONGEST:
        return False
    if pattern.consume is not Consume.NONE:  # it looks at the start of W
        return False
    if run.rounds.contiguous or run.rounds.separator.next:
        return True
    return all(
        one.factor > 0 and not one.is_mean and _is_never_negative(one.attribute, run, names)
        for one in sums
    ) and bool(sums)


def _is_never_negative(attribute: pred.Attribute, run: _CountedRun, names: set[str]) -> bool:
    """Whether every event of a run is asked for a number from 0 on."""
    asked = [
        part.predicate
        for part in run.conditions
        if isinstance(part, pred.Holds) and part.variable in names
    ]
    for one in (part for each in asked for part in _list_parts(each)):
        match one:
            case pred.Comparison(op=">" | ">=", left=left, right=pred.Literal(value=number)):
                is_number = isinstance(number, int | float | Decimal) and number >= 0
                if left == attribute.own_value and is_number:
                    return True
    return False


def _list_parts(predicate: pred.Predicate) -> Iterator[pred.Predicate]:
    if isinstance(predicate, pred.And):
        for part in predicate.parts:
            yield from _list_parts(part)
    else:
        yield predicate


class _Barring(NamedTuple):
    """What no event may satisfy, and what one has to."""

    test: pred.Predicate
    passes: pred.Predicate


_EVERY = {"MIN": (">", ">="), "MAX": ("<", "<=")}
_OPPOSITE: dict[str, pred.Operator] = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def _read_bar(part: pred.Condition, names: set[str]) -> _Barring | None:
    """Return a condition that every event has to pass; None: it is none."""
    match _turn(part):
        case pred.CompareTerms(
            op=op,
            left=pred.Aggregate(function=function, argument=pred.Reference() as side),
            right=pred.Literal() as limit,
        ) if op in _EVERY.get(function, ()) and _is_number(limit) and side.variable in names:
            value = side.attribute.own_value
            test = pred.Comparison(_OPPOSITE[op], value, limit)
            return _Barring(test, pred.Comparison(op, value, limit))
    return None


def _read_sum(part: pred.Condition, names: set[str]) -> RunSum | None:
    """Return a sum with its bound; None: the condition is none."""
    match _turn(part):
        case pred.CompareTerms(
            op="<" | "<=" | ">" | ">=" as op,
            left=pred.Aggregate(
                function="SUM" | "AVG" as function,
                argument=pred.Reference() as side,
                distinct=False,
            ),
            right=pred.Literal(value=int() | float() | Decimal() as number) as limit,
        ) if _is_number(limit) and side.variable in names:
            factor = 1 if op in (">", ">=") else -1
            return RunSum(side.attribute, factor, number, op in ("<", ">"), function == "AVG")
    return None


def _turn(part: pred.Condition) -> pred.Condition:
    """Return a comparison with the constant on its right."""
    if isinstance(part, pred.CompareTerms) and isinstance(part.left, pred.Literal):
        return pred.CompareTerms(pred.MIRRORED[part.op], part.right, part.left)
    return part


def _is_number(limit: pred.Literal) -> bool:
    value = limit.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    return isfinite(value)


_ENOUGH = {"MAX": (">", ">="), "MIN": ("<", "<=")}


def _read_count(part: pred.Condition, names: set[str]) -> RunCount | None:
    """Return a condition as a number to reach; None: it is none."""
    match _turn(part):
        case pred.CompareTerms(
            op=">" | ">=" as op,
            left=pred.Aggregate(function="COUNT", argument=counted, distinct=is_distinct),
            right=pred.Literal(value=int(n)),
        ) if not isinstance(n, bool):
            least = n + (op == ">")
            if least < 1:
                return None
            if counted is None or isinstance(counted, str):
                return RunCount(least) if counted is None or counted in names else None
            if counted.variable in names:
                attribute = counted.attribute
                test = pred.IsNull(attribute.own_value, negated=True)
                return RunCount(least, test, attribute if is_distinct else None)
        case pred.CompareTerms(
            op=op,
            left=pred.Aggregate(function=function, argument=pred.Reference() as side),
            right=pred.Literal(value=int() | float() | Decimal()) as limit,
        ) if not isinstance(limit.value, bool) and side.variable in names:
            if op in _ENOUGH.get(function, ()):
                return RunCount(1, pred.Comparison(op, side.attribute.own_value, limit))
    return None
