"""`sweep`: how many matches a query has for each value of its parameters.

Where a parameter bounds an attribute of single events (`b[price >= $t]`), the matches for one value
contain those for a stricter one. The query runs once, for the loosest value, and one more pass over
its encoded events counts the matches of all values (`engine.unary.levels`). Where it bounds a value
of whole matches (`SUM(b[x]) >= $t`, `COUNT(b) <= $t`), the matches for the loosest value are listed
with that value. Otherwise all values run as rules of one set: events are read, ordered and merged
once, and equal conditions encoded once.

Cost contract: one run and, per event, a few additions of vectors with a word for each value,
whatever the window; or one run and its matches, `MOST_LISTED` at most. Otherwise the cost of a rule
set with a rule for each value, at most `_TOGETHER` of them at a time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import CernisError, Span
from cernis.integers import count_noun
from cernis.languages.text.parameters import Constant
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.waits import has_arrow
from cernis.pattern.write import write_duration
from cernis.results.matches import Matches
from cernis.results.sets.counted import CountedMatches
from cernis.results.terms.term import evaluate_term
from cernis.run.query import Query
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.rule_set import RuleSet
from cernis.run.trace.events import TracedEvents
from cernis.workbench.chart import draw_lines, list_bars
from cernis.workbench.diff import MOST_LISTED
from cernis.workbench.reread import make_rereadable
from cernis.workbench.tally import EndGroups, MatchNumbers, group_ends, keeps_every_match, tally

MOST_VALUES = 10_000
_LISTED = re.compile("(?:'(?:[^']|'')*'|[^,])+")
_TOGETHER = 128
_MOST_MATCHES = 2**62
_ATOMS = 32
"""So many thresholds are evaluated together."""


@dataclass(frozen=True)
class Sweep:
    """The numbers of matches for each choice of values; draws itself in a notebook."""

    parameters: tuple[str, ...]
    points: tuple[tuple[tuple[Constant, ...], MatchNumbers], ...]
    passes: int
    """How many runs it took: 1, or one for each choice of values."""

    def __len__(self) -> int:
        return len(self.points)

    def counts(self) -> dict[Any, int]:
        """Return the number of matches by value; of several parameters, by tuples of values."""
        single = len(self.parameters) == 1
        return {given[0] if single else given: found.total for given, found in self.points}

    def to_arrow(self) -> pa.Table:
        """Return the numbers as a table: the parameters, matches, keys, days, per_day."""
        columns: dict[str, Any] = {
            name: [given[i] for given, _ in self.points] for i, name in enumerate(self.parameters)
        }
        tallies = [found for _, found in self.points]
        columns["matches"] = _fit_column([found.total for found in tallies])
        if any(found.keys is not None for found in tallies):
            columns["keys"] = [len(found.keys or ()) for found in tallies]
        if any(found.days is not None for found in tallies):
            columns["days"] = [len(found.days or ()) for found in tallies]
            columns["per_day"] = _fit_column([found.per_day or 0.0 for found in tallies])
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """Return the numbers as a pandas frame."""
        return self.to_arrow().to_pandas()

    def svg(self) -> str:
        """Return the plot: matches by the last parameter, a line for each choice of the others."""
        lines: dict[str, list[tuple[Any, int]]] = {}
        for given, found in self.points:
            pairs = zip(self.parameters[:-1], given[:-1], strict=True)
            title = ", ".join(f"{name} = {write_value(value)}" for name, value in pairs)
            last = given[-1]
            at = write_value(last) if isinstance(last, timedelta) else last
            lines.setdefault(title, []).append((at, found.total))
        return draw_lines(lines, f"${self.parameters[-1]}", "matches")

    def _repr_html_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        table = self.to_arrow()
        rows = [[_write_cell(cell) for cell in row.values()] for row in table.to_pylist()]
        names = [f"${name}" for name in self.parameters] + table.column_names[
            len(self.parameters) :
        ]
        bars = list_bars([found.total for _, found in self.points])
        lines = [[*names, ""], *([*row, bar] for row, bar in zip(rows, bars, strict=True))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == len(line) - 1 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


def _fit_column(numbers: Sequence[float]) -> Sequence[Any]:
    """Return numbers as Arrow has them: beyond 64 bits as decimals, beyond 76 digits as text."""
    most = max((n for n in numbers if isinstance(n, int)), default=0)
    if most < 2**63:
        return numbers
    return [Decimal(n) if most < 10**76 else str(n) for n in numbers]


def write_value(value: Any) -> str:
    """Return a value as it is written in a query; of a float, all digits.

    >>> write_value(timedelta(minutes=90))
    '1 HOUR 30 MINUTES'
    """
    match value:
        case timedelta():
            return write_duration(Fraction(value // timedelta(microseconds=1)) * 1000)
        case bool():
            return str(value).upper()
        case _:
            return str(value)


def _write_cell(value: Any) -> str:
    match value:
        case bool() | timedelta():
            return write_value(value)
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def sweep(query: Query[Any], events: Any, values: Mapping[str, Any], **options: Any) -> Sweep:
    """Count the matches of a query for all choices of values; the options are those of `run`."""
    if not values:
        raise CernisError("a sweep needs values: query.sweep(events, t=[1, 2, 3])")
    given = {name: _list_values(name, several) for name, several in values.items()}
    number = prod(map(len, given.values()))
    if number > MOST_VALUES:
        raise CernisError(
            f"a sweep over {number:,} choices of values; at most {MOST_VALUES:,} are allowed"
        )
    query.bind(**{name: several[0] for name, several in given.items()})  # names and types
    events = make_rereadable(events)
    for name in reversed(given):
        if found := _sweep_at_once(query, events, name, given, options):
            return found
    return _sweep_one_by_one(query, events, given, options)


def _list_values(name: str, values: Any) -> list[Constant]:
    if not isinstance(values, Iterable):
        raise CernisError(f"a sweep over ${name} needs values in a list, not {values!r}")
    listed = parse_values(values) if isinstance(values, str) else list(values)
    if not listed:
        raise CernisError(f"a sweep over ${name} has no values")
    return listed


def parse_values(text: str) -> list[Constant]:
    """Return the values of `1.01..1.20 by 0.01`, or of a list: `1, 2, 5`.

    >>> parse_values("1.0..1.2 by 0.1"), parse_values("'a, b', 'c..d'")
    ([1.0, 1.1, 1.2], ['a, b', 'c..d'])
    """
    from cernis.languages.ceql.parse import parse_constant

    low, dots, rest = text.partition("..")
    if not dots or "'" in text:
        parts = (part.strip() for part in _LISTED.findall(text))
        return [parse_constant(part) for part in parts if part]
    high, _, step = rest.partition("by")
    about = repr(text.strip())
    try:
        first, last = Decimal(low.strip()), Decimal(high.strip())
        by = Decimal(step.strip() or "1")
        if not (first.is_finite() and last.is_finite() and by.is_finite()):
            raise InvalidOperation
        if by <= 0 or last < first:
            raise CernisError(f"{about}: the step must lead from the first value to the last")
        steps = (last - first) / by
    except ArithmeticError:
        raise CernisError(f"{about}: expected FROM..TO by STEP, or values in a list") from None
    if steps >= MOST_VALUES:
        number = f"{int(steps) + 1:,} values" if steps < _MOST_MATCHES else "too many values"
        raise CernisError(f"{about}: {number}; at most {MOST_VALUES:,} are allowed")
    is_whole = all(part == part.to_integral_value() for part in (first, by))
    return [(int if is_whole else float)(first + by * i) for i in range(int(steps) + 1)]


def parse_vary(text: str) -> tuple[str, list[Constant]]:
    """Return the parameter and the values of `t = 1.01..1.20 by 0.01`."""
    name, equals, values = text.partition("=")
    name = name.strip().removeprefix("$")
    if not equals or not name.isidentifier():
        raise CernisError(
            f"--vary {text!r}: expected 'NAME = FROM..TO by STEP' or 'NAME = a, b, c'"
        )
    return name, _list_values(name, values)


# ----------------------------------------------------------------- value by value


def _sweep_one_by_one(
    query: Query[Any], events: Any, given: Mapping[str, Sequence[Constant]], options: Any
) -> Sweep:
    choices = list(product(*given.values()))
    found: list[MatchNumbers] = []
    for begin in range(0, len(choices), _TOGETHER):
        some = choices[begin : begin + _TOGETHER]
        values = [dict(zip(given, choice, strict=True)) for choice in some]
        names = [", ".join(f"${name} = {one!r}" for name, one in each.items()) for each in values]
        bound = {name: query.bind(**each) for name, each in zip(names, values, strict=True)}
        try:
            results = RuleSet.of(bound).run(events, **options)
        except RuleSetError as error:
            raise CernisError(f"with {error.mistakes[0].removeprefix('rule ')}") from None
        tallies = {name: tally(own) for name, own in results.items()}
        found += [tallies[name] for name in names]
    return Sweep(tuple(given), tuple(zip(choices, found, strict=True)), len(choices))


# ------------------------------------------------------------------------ at once


@dataclass(frozen=True)
class _Threshold:
    """A condition that compares a value of each event of a variable with the parameter."""

    variable: str
    op: pred.Operator
    value: pred.Value


@dataclass(frozen=True)
class _MatchThreshold:
    """A condition that compares a value of the whole match with the parameter."""

    op: pred.Operator
    value: pred.MatchTerm


def _sweep_at_once(
    query: Query[Any],
    events: Any,
    name: str,
    given: Mapping[str, Sequence[Constant]],
    options: Any,
) -> Sweep | None:
    """Sweep one parameter in one pass, for each choice of the others; None: it does not nest."""
    values = given[name]
    if any(isinstance(one, bool) or not isinstance(one, int | float | Decimal) for one in values):
        return None
    others = {each: several for each, several in given.items() if each != name}
    found: dict[tuple[Constant, ...], MatchNumbers] = {}
    passes = 0
    for choice in product(*others.values()):
        fixed = dict(zip(others, choice, strict=True))
        bounds = find_bounds(query.bind(**fixed, **{name: values[0]}), name)
        if not bounds or len({bound.op in (">", ">=") for bound in bounds}) > 1:
            return None
        strict = sorted(set(values), reverse=bounds[0].op in ("<", "<="))
        loosest = query.bind(**fixed, **{name: strict[0]})
        of_events = [bound for bound in bounds if isinstance(bound, _Threshold)]
        if len(of_events) == len(bounds):
            whole = {**options, "progress": False, "threads": 1}  # one engine has read all events
            matches = loosest.run(events, matches="count", **whole)
            tallies = _LevelledMatches(matches, of_events, strict).list_tallies()
        elif not of_events:
            of_matches = [bound for bound in bounds if isinstance(bound, _MatchThreshold)]
            tallies = _list_tallies(loosest.run(events, **options), of_matches, strict)
        else:
            tallies = None
        if tallies is None:
            return None
        passes += 1
        for value, own in zip(strict, tallies, strict=True):
            key = {**fixed, name: value}
            found[tuple(key[each] for each in given)] = own
    points = tuple((choice, found[choice]) for choice in product(*given.values()))
    return Sweep(tuple(given), points, passes)


def find_bounds(query: Query[Any], name: str) -> list[_Threshold | _MatchThreshold]:
    """Return the conditions that have a parameter, if all are bounds on events or whole matches.

    They stand in FILTERs around the whole formula, so they hold for all events of their variable.
    With a `->`, a stricter value can let another event be the next that fits.
    """
    pattern = query.pattern
    spans = query.find_spans(name)
    is_free = not pattern.without and keeps_every_match(pattern)
    if query.conjunctive is not None or not is_free or has_arrow(pattern.formula):
        return []
    _, conditions = cel.take_off(pattern.formula)
    bounds = [bound for one in conditions for bound in _read_bounds(one, spans)]
    return bounds if len(bounds) == len(spans) else []


def _read_bounds(
    condition: pred.Condition, spans: frozenset[Span]
) -> Iterator[_Threshold | _MatchThreshold]:
    variables = (
        set()
        if isinstance(condition, pred.AllOf | pred.AnyOf)
        else {*pred.leaf_variables(condition)}
    )
    predicate = pred.to_predicate(condition)
    if predicate is None and isinstance(condition, pred.CompareTerms):
        found = _read_bound(condition.op, condition.left, condition.right, spans)
        if found is not None:
            yield _MatchThreshold(*found)
    if len(variables) != 1 or predicate is None:
        return
    for test in predicate.parts if isinstance(predicate, pred.And) else (predicate,):
        if not isinstance(test, pred.Comparison):
            continue
        found = _read_bound(test.op, test.left, test.right, spans)
        if found is not None:
            yield _Threshold(variables.pop() if len(variables) == 1 else "", *found)
            return


def _read_bound(
    op: pred.Operator, value: Any, constant: Any, spans: frozenset[Span]
) -> tuple[pred.Operator, Any] | None:
    """Return how a value is compared with the parameter, and the value; None: it is not."""
    if isinstance(value, pred.Literal):
        op, value, constant = pred.MIRRORED[op], constant, value
    is_swept = isinstance(constant, pred.Literal) and constant.span in spans
    is_bound = is_swept and op in ("<", "<=", ">", ">=") and not isinstance(value, pred.Literal)
    return (op, value) if is_bound else None


class _LevelledMatches:
    """The matches for the loosest value, and how many of the values each event passes."""

    def __init__(
        self, matches: Matches, bounds: Sequence[_Threshold], values: Sequence[Constant]
    ) -> None:
        self.matches = matches
        self.bounds = bounds
        self.values = values

    @cached_property
    def _events(self) -> TracedEvents:
        return TracedEvents(self.matches.store, self.matches.pattern)

    def list_tallies(self) -> list[MatchNumbers] | None:
        """Return a tally for each value; None: this set of matches is not counted so."""
        found = self.matches.match_set
        if not isinstance(found, CountedMatches) or found.count_levels is None:
            return None
        ends, numbers = found.counts()
        if self._events.base or sum(numbers) >= _MOST_MATCHES:
            return None
        if any(bound.variable not in found.variables for bound in self.bounds):
            return None
        passed: dict[str, NDArray[np.int64]] = {}
        for bound in dict.fromkeys(self.bounds):
            own, known = self._count_passed(bound), passed.get(bound.variable)
            passed[bound.variable] = own if known is None else np.minimum(own, known)
        groups = _EndRows.of(self.matches, ends)
        of_events = np.full((2, self._events.size), -1, np.int64)
        of_events[:, ends] = groups.rows
        counts = found.count_levels(passed, len(self.values), of_events)
        return groups.list_tallies(counts)

    def _count_passed(self, bound: _Threshold) -> NDArray[np.int64]:
        """Return how many of the values each event passes, by its index."""
        passed = np.zeros(self._events.size, np.int64)
        for begin in range(0, len(self.values), _ATOMS):
            some = self.values[begin : begin + _ATOMS]
            atoms = tuple(
                pred.Comparison(bound.op, bound.value, pred.Literal(value))  # type: ignore[arg-type]
                for value in some
            )
            codes, truths = self._events.encode(atoms)
            held = np.array([sum(truth.values()) for truth in truths] or [0], np.int64)
            passed += held[codes]
        return passed


class _EndRows(NamedTuple):
    """The rows of a table of counts, by day and then by key, that the matches of ends count in."""

    groups: EndGroups
    days: int
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, matches: Matches, ends: NDArray[np.int64]) -> _EndRows:
        groups = group_ends(matches, ends)
        days = 1 if groups.days is None else len(groups.days)
        rows = np.full((2, len(ends)), -1, np.int64)
        rows[0] = 0 if groups.day_of is None else groups.day_of
        if groups.key_of is not None:
            rows[1] = days + groups.key_of
        return cls(groups, days, rows)

    def list_tallies(self, counts: NDArray[np.int64]) -> list[MatchNumbers]:
        """Return a tally for each column of the table."""

        def name(names: Sequence[Any] | None, own: list[int]) -> dict[Any, int] | None:
            if names is None:
                return None
            return {name: number for name, number in zip(names, own, strict=True) if number}

        groups, days = self.groups, self.days
        return [
            MatchNumbers(
                sum(own[:days]), name(groups.days, own[:days]), name(groups.keys, own[days:]),
                groups.span,
            )
            for own in counts.T.tolist()
        ]  # fmt: skip


def _list_tallies(
    matches: Matches, bounds: Sequence[_MatchThreshold], values: Sequence[Constant]
) -> list[MatchNumbers] | None:
    """Return a tally for each value, the loosest first; None: too many matches, or no numbers.

    A bound on a variable that the matches do not have is not counted so.
    """
    found = matches.match_set
    named = {name for bound in bounds for name in pred.variables_of(bound.value)}
    if matches.partial or not named <= {*found.variables} or matches.count() > MOST_LISTED:
        return None
    ends, passed = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for block in found.blocks():
        levels = np.full(len(block.end), len(values))
        for bound in bounds:
            held = evaluate_term(bound.value, block, found.variables, matches.store)
            own = _count_values(held, bound.op, values)
            if own is None:
                return None
            levels = np.minimum(levels, own)
        ends.append(block.end)
        passed.append(levels)
    known, which = np.unique(np.concatenate(ends), return_inverse=True)
    groups = _EndRows.of(matches, known)
    counts = np.zeros((int(groups.rows.max(initial=0)) + 1, len(values) + 1), np.int64)
    for rows in groups.rows:
        np.add.at(counts, (rows[which], np.concatenate(passed)), rows[which] >= 0)
    return groups.list_tallies(counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def _count_values(
    held: pa.Array, op: pred.Operator, values: Sequence[Constant]
) -> NDArray[np.int64] | None:
    """Return how many of the values, the loosest first, each match passes; None: not numbers."""
    encoded = pc.dictionary_encode(held)
    known = encoded.dictionary.to_pylist()
    if not all(isinstance(one, int | float | Decimal) and one == one for one in known):
        return None

    def count(one: int | float | Decimal) -> int:
        def is_beyond(value: Constant) -> bool:
            return not pred.compare_values(op, one, value)

        return bisect_left(values, True, key=is_beyond)

    passed = [count(one) for one in known]
    which: NDArray[np.int64] = np.asarray(pc.fill_null(encoded.indices, -1), np.int64)
    return np.array([*passed, 0], np.int64)[which]


def describe_passes(found: Sweep) -> str:
    """Return how many runs a sweep took, in words."""
    passes = count_noun(found.passes, "pass", "passes")
    return f"{count_noun(len(found), 'choice')} of values in {passes}"
