"""`why`: how far partial matches get, step by step, and what is in the way of the others.

The parts of the formula are *steps*. The partial matches that reach a step are the matches of the
formula up to it, with the conditions that its variables decide. An *obstacle* is a condition, a
gap, a guard, a clause or a strategy; what is lost to it is counted by running without it. So each
number is the count of a query, which `pattern` holds: exact, and never a list.

Cost contract: one counting run for each step and each obstacle, linear in the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from cernis.errors import BudgetError, CernisError, DataError, QueryError
from cernis.integers import count_noun
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Consume, Pattern, Select, SelectedTerm, Strategy
from cernis.pattern.variables import marked_variables
from cernis.pattern.write import write_condition, write_duration, write_formula, write_window
from cernis.results.finding import Finding
from cernis.results.formats.columns import MatchFields
from cernis.results.matches import Matches
from cernis.run.advice.to_blame import list_trials, write_layer
from cernis.run.query import Query
from cernis.run.trace.events import TracedEvents
from cernis.views.svg import element, write
from cernis.workbench.reread import make_rereadable
from cernis.workbench.tally import group_ends, need_matches

MOST_OBSTACLES = 40
_TOO_COSTLY = "not counted: it would take too many candidates"


@dataclass(frozen=True)
class Relaxation:
    """A part of the query, and how many matches there are without it; None: it is too costly."""

    text: str
    without: int | None
    more: int | None
    """How many more than with it."""
    pattern: Pattern


@dataclass(frozen=True)
class FunnelStep:
    """A step: the events that fit it, the partial matches that reach it, and what others lack."""

    text: str
    events: int | None
    """None: the step is more than single events."""
    reached: int | None
    lost: tuple[Relaxation, ...]
    pattern: Pattern
    fitting: Pattern | None
    """The query for the events that fit."""


@dataclass(frozen=True)
class Funnel:
    """The answer to *why did it not fire?*; `str` is a report, a notebook draws it."""

    steps: tuple[FunnelStep, ...]
    matches: int | None
    relaxed: tuple[Relaxation, ...]
    finding: Finding | None = None
    """Of the rows that were given: whether they match, and the first obstacle."""
    about: str = ""
    spent: str = ""
    """Why the matches are not counted, if they are not."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""

        def told(each: Relaxation) -> dict[str, Any]:
            return {"obstacle": each.text, "without": each.without, "more": each.more}

        return {
            "about": self.about,
            "steps": [
                {
                    "step": step.text,
                    "events": step.events,
                    "reached": step.reached,
                    "lost": [told(each) for each in step.lost],
                }
                for step in self.steps
            ],
            "matches": self.matches,
            "relaxed": [told(each) for each in self.relaxed],
            "finding": None if self.finding is None else self.finding.to_dict(),
        }

    def __str__(self) -> str:
        lines = [self.about] if self.about else []
        for number, step in enumerate(self.steps, 1):
            fit = "" if step.events is None else f"{count_noun(step.events, 'event')} fit, "
            reached = _write_count(step.reached, "partial match")
            lines.append(f"{number}. {step.text}: {fit}{reached}")
            lines += [f"   {lost}" for lost in _list_lost(step)]
        lines.append(self._write_total())
        for each in self.relaxed:
            more = f" ({each.more:+,})" if each.more else ""
            lines.append(f"   without {each.text}: {_write_count(each.without, 'match')}{more}")
        if self.finding is not None:
            lines.append(str(self.finding))
        return "\n".join(lines)

    def _write_total(self) -> str:
        return f"not counted: {self.spent}" if self.spent else _write_count(self.matches, "match")

    def _repr_html_(self) -> str:
        most = max((step.reached or 0 for step in self.steps), default=0) or 1
        rows = []
        for step in self.steps:
            width = float(100 * Fraction(step.reached or 0, most))
            bar = element("div", style=f"width:{width:.1f}%;background:#3b6fb6;height:0.9em")
            lost = "; ".join(_list_lost(step))
            cells = (
                write(step.text),
                write(_write_count(step.reached, "partial match")),
                write(lost),
            )
            drawn = element("td", bar, style="width:14em")
            rows.append(element("tr", *(element("td", cell) for cell in cells), drawn))
        more = [
            element("li", write(f"without {each.text}: {_write_count(each.without, 'match')}"))
            for each in self.relaxed
        ]
        said = "" if self.finding is None else element("p", write(str(self.finding)))
        total = element("p", write(self._write_total()))
        return element("table", *rows) + total + element("ul", *more) + said


def _list_lost(step: FunnelStep) -> Iterator[str]:
    """Yield what each obstacle of a step costs it; with a `->`, more may fit because of one."""
    for each in step.lost:
        if each.more:
            what = "lost" if each.more > 0 else "owed"
            yield f"{what} to {each.text}: {abs(each.more):,}"


def _write_count(count: int | None, noun: str) -> str:
    return _TOO_COSTLY if count is None else count_noun(count, noun)


def why(
    query: Query[Any],
    events: Any,
    *,
    rows: Sequence[int] | None = None,
    key: Any = None,
    end: int | None = None,
    **options: Any,
) -> Funnel:
    """Return how far partial matches get, of one key or up to one end if asked to.

    `rows` are those that should have been a match; `key` is a value of PARTITION BY, or a tuple of
    values; `end` is the row at which a match should have ended. The other options are those of
    `Query.run`. Where the query spends its budget, the funnel has what can be counted.
    """
    pattern = query.pattern
    if pattern.grouping is not None:
        raise CernisError("why needs matches; this query gives groups")
    if pattern.into is not None:
        pattern = _stop_inserting(pattern)
        query = Query(pattern)
    events = make_rereadable(events)
    plain = _free(pattern)
    try:
        matches = need_matches(query.run(events, **options), "why")
        chosen = _CountedEnds.of(matches, key, end)
        total = chosen.add_up(matches, is_end=True)
        finding = None if rows is None else query.trace(matches).why(rows)
        spent = ""
    except BudgetError as error:
        if any(asked is not None for asked in (rows, key, end)):
            raise
        chosen, total, finding, spent = _CountedEnds(), None, None, str(error)
    count = _Counter(events, options, chosen)
    steps = tuple(_list_steps(plain, count))
    relaxed = tuple(_relax(pattern, total, count))
    return Funnel(steps, total, relaxed, finding, chosen.describe(), spent)


def _stop_inserting(pattern: Pattern) -> Pattern:
    """Return the query of a rule with INSERT INTO as one that reports its matches."""
    items = tuple(
        replace(item, alias=f"{item.name}_")  # a component of the partition is a column already
        if isinstance(item, SelectedTerm) and item.name in pattern.components
        else item
        for item in pattern.select.items
    )
    select = replace(pattern.select, items=items)
    return replace(pattern, into=None, select=select, qualified=(), spans={}, source="")


def _free(pattern: Pattern) -> Pattern:
    """Return the pattern without clauses that choose between matches."""
    return replace(
        pattern, select=Select(), strategy=Strategy.ALL, consume=Consume.NONE, order=None,
        limit=None, suppress=None, without=(), into=None, qualified=(), spans={}, source="",
    )  # fmt: skip


# ------------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class _CountedEnds:
    """Which ends count: all, those of a key, those up to an event."""

    key: tuple[Any, ...] | None = None
    end: int | None = None
    """A position."""
    fields: MatchFields | None = None
    """How keys are read; None: no key was asked for."""
    row: int | None = None

    @classmethod
    def of(cls, matches: Matches, key: Any, row: int | None) -> _CountedEnds:
        components = matches.pattern.components
        if key is not None and not components:
            raise CernisError("the query has no PARTITION BY, so it has no keys")
        values = None if key is None else key if isinstance(key, tuple) else (key,)
        if values is not None and len(values) != len(components):
            raise CernisError(
                f"a key has {count_noun(len(components), 'value')}, of {', '.join(components)}"
            )
        if row is None:
            if values is not None:
                _check_key(matches, values)
            return cls(values, None, matches.fields)
        index = TracedEvents(matches.store, matches.pattern).find_index(row)
        if index is None:
            raise DataError(f"no event of this run is row {row}")
        position = matches.store.span.start + index
        if components:
            ((*own,), *_) = group_ends(matches, np.array([position])).keys or [()]
            if None in own:
                raise CernisError(
                    f"row {row} is in no partition: it has no {components[own.index(None)]}"
                )
            if values is not None and not _is_same_key(values, own):
                raise CernisError(
                    f"row {row} has the key {_write_key(own)}, and not {_write_key(values)}"
                )
            values = tuple(own)
        return cls(values, position, matches.fields, row)

    def describe(self) -> str:
        told = [] if self.key is None else [f"key {_write_key(self.key)}"]
        told += [] if self.row is None else [f"matches that end at row {self.row}"]
        return ", ".join(told)

    def add_up(self, matches: Matches, *, is_end: bool) -> int:
        """Return how many matches count; with `is_end`, only those that end at the event."""
        ends, numbers = matches.match_set.counts()
        if self.end is not None:
            kept = ends == self.end if is_end else ends <= self.end
            numbers = [n for n, keep in zip(numbers, kept.tolist(), strict=True) if keep]
            ends = ends[kept]
        if self.key is None:
            return sum(map(int, numbers))
        keys = group_ends(matches, ends, self.fields).tally(numbers).keys or {}
        return sum(n for own, n in keys.items() if _is_same_key(own, self.key))


def _is_same_key(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two keys are written in the same way: those of a command line are texts."""
    return [*map(str, one)] == [*map(str, other)]


def _write_key(key: Sequence[Any]) -> str:
    return ", ".join(map(repr, key))


def _check_key(matches: Matches, key: Sequence[Any]) -> None:
    """Raise an error if no event of the run has a key."""
    span = matches.store.span
    positions = np.arange(span.start, span.stop, dtype=np.int64)
    known = group_ends(matches, positions).keys or []
    if not any(_is_same_key(own, key) for own in known):
        raise DataError(f"no event of this run has the key {_write_key(key)}")


@dataclass(frozen=True)
class _Counter:
    """Counts the matches of a pattern in the events."""

    events: Any
    options: dict[str, Any]
    chosen: _CountedEnds

    def __call__(self, pattern: Pattern, *, is_end: bool = False) -> int | None:
        try:
            found = Query(pattern).run(self.events, matches="count", **self.options)
        except (BudgetError, QueryError):
            return None
        return None if found.partial else self.chosen.add_up(found, is_end=is_end)


# --------------------------------------------------------------------------- steps


_Layer = cel.Within | cel.Unless | cel.PartitionBy


@dataclass(frozen=True)
class _Surroundings:
    """What stands around a formula: conditions, and windows, guards and keys from the inside out.

    Each of them only drops matches, so their order does not matter.
    """

    conditions: tuple[pred.Condition, ...]
    layers: tuple[_Layer, ...]

    def put_around(self, body: cel.Formula) -> cel.Formula:
        formula = cel.put_filter(body, self.conditions)
        for layer in self.layers:
            formula = replace(layer, body=formula)
        return formula

    def cut(self, held: set[str], *, last: bool) -> _Surroundings:
        """Return what decides on the first steps: guards and keys need the whole match."""
        conditions = (c for c in self.conditions if last or _is_decided(c, held))
        layers = (one for one in self.layers if last or isinstance(one, cel.Within))
        return _Surroundings(tuple(conditions), tuple(layers))


def _list_steps(pattern: Pattern, count: _Counter) -> Iterator[FunnelStep]:
    body, around = _take_surroundings(pattern.formula)
    parts = body.parts if isinstance(body, cel.Sequence | cel.Contiguous | cel.All) else (body,)
    known: set[int] = set()
    for number, part in enumerate(parts, 1):
        prefix = cut_formula(body, number)
        own = around.cut({*marked_variables(prefix)}, last=number == len(parts))
        fresh = [c for c in own.conditions if id(c) not in known]
        known |= {id(c) for c in own.conditions}
        step = replace(pattern, formula=own.put_around(prefix))
        reached = count(step)
        lost = []
        for text, trial in _list_obstacles(step, prefix, own, fresh, body, number):
            without = count(trial)
            more = None if without is None or reached is None else without - reached
            lost.append(Relaxation(text, without, more, trial))
        fitting = _find_fitting(pattern, part, around.conditions)
        text, fit = _write_step(body, number, part), None if fitting is None else count(fitting)
        yield FunnelStep(text, fit, reached, tuple(lost), step, fitting)


def _take_surroundings(formula: cel.Formula) -> tuple[cel.Formula, _Surroundings]:
    conditions: list[pred.Condition] = []
    layers: list[_Layer] = []
    while isinstance(formula, cel.Filter | _Layer):
        if isinstance(formula, cel.Filter):
            conditions = [*pred.conjuncts(formula.condition), *conditions]
        else:
            layers.insert(0, formula)
        formula = formula.body
    return formula, _Surroundings(tuple(conditions), tuple(layers))


def cut_formula(body: cel.Formula, number: int) -> cel.Formula:
    """Return the first parts of a sequence, a contiguous sequence or ALL."""
    if not isinstance(body, cel.Sequence | cel.Contiguous | cel.All) or number == len(body.parts):
        return body
    if number == 1:
        return body.parts[0]
    if isinstance(body, cel.Sequence):
        separators = tuple(body.separator_before(i) for i in range(1, number))
        return replace(body, parts=body.parts[:number], separators=separators)
    return replace(body, parts=body.parts[:number])


def _is_decided(condition: pred.Condition, held: set[str]) -> bool:
    named = pred.mentioned_variables(condition)
    return bool(named) and named <= held


def _list_obstacles(
    step: Pattern,
    prefix: cel.Formula,
    around: _Surroundings,
    fresh: Sequence[pred.Condition],
    body: cel.Formula,
    number: int,
) -> Iterator[tuple[str, Pattern]]:
    """Yield what a step adds to the steps before it, and the step without it."""
    for condition in fresh:
        others = tuple(c for c in around.conditions if c is not condition)
        formula = replace(around, conditions=others).put_around(prefix)
        yield write_condition(condition), replace(step, formula=formula)
    if isinstance(body, cel.Sequence) and number > 1:
        separator = body.separator_before(number - 1)
        assert isinstance(prefix, cel.Sequence)
        before = [prefix.separator_before(i) for i in range(1, number - 1)]
        if separator.gap is not None:
            free = replace(prefix, separators=(*before, replace(separator, gap=None)))
            text = f"the gap before {write_formula(body.parts[number - 1])}"
            yield text, replace(step, formula=around.put_around(free))
        if separator.next:
            free = replace(prefix, separators=(*before, replace(separator, next=False)))
            yield "-> (the next that fits)", replace(step, formula=around.put_around(free))
    if isinstance(body, cel.Contiguous) and number == 2:
        free = cel.Sequence(body.parts[:2])
        yield ": (no event between)", replace(step, formula=around.put_around(free))
    for layer in around.layers:
        if number > 1 or not isinstance(layer, cel.Within):
            free_layers = tuple(one for one in around.layers if one is not layer)
            formula = replace(around, layers=free_layers).put_around(prefix)
            yield write_layer(layer), replace(step, formula=formula)
    if step.within is not None and number > 1:
        yield f"WITHIN {write_window(step.within)}", replace(step, within=None)


def _find_fitting(
    pattern: Pattern, part: cel.Formula, conditions: Sequence[pred.Condition]
) -> Pattern | None:
    """Return the query for the events that fit a step alone; None: it is more than one event."""
    inner, own = cel.take_off(part, cel.As, cel.Iterate, cel.Optional)
    if not isinstance(inner, cel.Event):
        return None
    names = {*marked_variables(part)}
    held = [c for c in (*conditions, *own) if isinstance(c, pred.Holds) and c.variable in names]
    body: cel.Formula = inner
    for name in sorted(names - {inner.type}):
        body = cel.As(body, name)
    return replace(pattern, formula=cel.put_filter(body, held), within=None)


def _write_step(body: cel.Formula, number: int, part: cel.Formula) -> str:
    text = write_formula(part)
    if number == 1:
        return text
    if isinstance(body, cel.Sequence):
        separator = body.separator_before(number - 1)
        return f"{'->' if separator.next else ';'} {text}"
    return f"{':' if isinstance(body, cel.Contiguous) else 'ALL'} {text}"


# ----------------------------------------------------------------------- the whole


def list_relaxed(pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """Yield each obstacle of a query, and the query without it."""

    def bare(each: Pattern) -> Pattern:
        return replace(each, qualified=(), spans={}, source="")

    for text, trial in list_trials(pattern):
        yield text, bare(trial)
    if pattern.strategy is not Strategy.ALL:
        yield f"SELECT {pattern.strategy.value}", bare(replace(pattern, strategy=Strategy.ALL))
    if pattern.consume is not Consume.NONE:
        text = f"CONSUME BY {pattern.consume.value}"
        yield text, bare(replace(pattern, consume=Consume.NONE))
    if pattern.limit is not None:
        yield _write_limit(pattern), bare(replace(pattern, limit=None, order=None))
    if pattern.suppress is not None:
        yield str(pattern.suppress), bare(replace(pattern, suppress=None))


def _write_limit(pattern: Pattern) -> str:
    order = pattern.order
    every = "" if order is None or order.every is None else f" EVERY {write_duration(order.every)}"
    overall = "" if order is None or order.overall is None else f" {order.overall.value}"
    return f"LIMIT {pattern.limit}{every}{overall}"


def _relax(pattern: Pattern, total: int | None, count: _Counter) -> Iterator[Relaxation]:
    for number, (text, trial) in enumerate(list_relaxed(pattern)):
        if number == MOST_OBSTACLES:
            return
        without = count(trial, is_end=True)
        more = None if without is None or total is None else without - total
        yield Relaxation(text, without, more, trial)
