"""SPAseQ by brute force: the definition of a match as a program, one match at a time.

Every runtime is compared with this. An event is (time, triples) in a named stream; a run is what
has been matched so far; a step is added in every way that its separator allows. Exponential, for
tests only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import (
    Element,
    GpmConjunction,
    GpmName,
    SelectedExpression,
    SpaseqQuery,
    find_gpm_names,
)
from cernis.testing.spaseq.graph_patterns import (
    Dataset,
    Solution,
    Triples,
    compute_value,
    decide_exists,
    find_solutions,
    is_compatible,
    is_true,
    join_solutions,
)

Event = tuple[int, Triples]
Streams = Mapping[str, Sequence[Event]]
"""The events of each stream, in order of time."""
Reference = tuple[str, int]
"""An event: its stream, and its number in it."""


class SpaseqMatch(NamedTuple):
    """A match: its first and last time, its events, its selected values."""

    start: int
    end: int
    events: tuple[Reference, ...]
    bindings: tuple[tuple[str, str | tuple[str, ...]], ...]
    hidden: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    """The values that only expressions of SELECT mention: they tell matches apart as well."""


class ElementRow(NamedTuple):
    """A solution of an element at a timestamp."""

    events: tuple[Reference, ...]
    solution: Solution
    late: tuple[g.Expression, ...]
    """Conditions on this solution together with those of earlier steps."""


class SpaseqRun(NamedTuple):
    step: int
    times: tuple[int, ...]
    events: tuple[Reference, ...]
    bound: Solution
    rounds: Mapping[int, tuple[Solution, ...]]
    """For each step that was taken, the solutions of its rounds."""


def find_matches(
    query: SpaseqQuery, streams: Streams, kb: Dataset | None = None, origin: int | None = None
) -> set[SpaseqMatch]:
    """Return all matches. `origin` is where tumbling windows begin, in the unit of the times."""
    found = set(_Finder(query, streams, kb or {}, origin).find_matches())
    return _keep_distinct(query, found) if query.distinct else found


def _keep_distinct(query: SpaseqQuery, found: set[SpaseqMatch]) -> set[SpaseqMatch]:
    """Return of matches with one end and the same values the one that comes first."""
    streams = [name for name, _ in query.streams]

    def sort_key(match: SpaseqMatch) -> tuple[int, list[tuple[int, int]]]:
        return -match.start, [(streams.index(name), number) for name, number in match.events]

    kept: dict[object, SpaseqMatch] = {}
    for match in sorted(found, key=sort_key):
        kept.setdefault((match.end, match.bindings), match._replace(hidden=()))
    return set(kept.values())


def find_runs(
    query: SpaseqQuery, streams: Streams, kb: Dataset | None = None, origin: int | None = None
) -> list[tuple[SpaseqRun, frozenset[int]]]:
    """Return all partial matches, complete ones among them, each with the times after which it
    waits for more."""
    finder = _Finder(query, streams, kb or {}, origin)
    return [
        (run, frozenset(now for now in finder.times if finder.is_waiting(run, now)))
        for run in finder.find_runs()
    ]


class _Finder:
    def __init__(
        self, query: SpaseqQuery, streams: Streams, kb: Dataset, origin: int | None
    ) -> None:
        self.query, self.streams, self.kb, self.origin = query, streams, kb, origin
        self.steps = query.steps
        self.times = sorted({time for events in streams.values() for time, _ in events})
        elements = [
            {
                name
                for leaf in find_gpm_names(step.element)
                for name in g.find_variables(query.gpm(leaf.gpm).pattern)
                if not name.startswith("_:")
            }
            for step in self.steps
        ]
        self.local = [
            elements[i] - set(query.partition).union(*elements[:i], *elements[i + 1 :])
            if s.rounds
            else set()
            for i, s in enumerate(self.steps)
        ]

    # ------------------------------------------------------------------ rows

    @cached_property
    def _rows_at(self) -> dict[tuple[str, int], list[ElementRow]]:
        """The solutions of each pattern at each timestamp."""
        found: dict[tuple[str, int], list[ElementRow]] = {}
        for gpm in self.query.gpms:
            local, late = g.split_filters(gpm.pattern)
            for stream in gpm.streams:
                for number, (time, triples) in enumerate(self.streams.get(stream, ())):
                    rows = found.setdefault((gpm.name, time), [])
                    for solution in find_solutions(local, triples, self.kb):
                        asked = tuple(decide_exists(c, solution, triples, self.kb) for c in late)
                        row = ElementRow(((stream, number),), _drop_blank_nodes(solution), asked)
                        if row not in rows:
                            rows.append(row)
        return found

    def find_rows(self, element: Element, time: int) -> Iterator[ElementRow]:
        if isinstance(element, GpmName):
            yield from self._rows_at.get((element.gpm, time), ())
        elif isinstance(element, GpmConjunction):
            for rows in product(*(list(self.find_rows(part, time)) for part in element.parts)):
                united: list[Solution] = [{}]
                for row in rows:
                    united = list(join_solutions(united, [row.solution]))
                for solution in united:
                    yield ElementRow(
                        tuple(e for row in rows for e in row.events),
                        solution,
                        tuple(c for row in rows for c in row.late),
                    )
        else:
            for part in element.parts:
                yield from self.find_rows(part, time)

    def find_fitting(
        self, step: int, run: SpaseqRun, time: int
    ) -> list[tuple[ElementRow, Solution]]:
        """Return the rows of a step at a timestamp that fit a run, each with all bindings then."""
        own = self.local[step] if run.step == step else set()
        bound = {name: term for name, term in run.bound.items() if name not in own}
        found: list[tuple[ElementRow, Solution]] = []
        for row in self.find_rows(self.steps[step].element, time):
            if is_compatible(bound, row.solution):
                both = {**bound, **row.solution}
                if all(is_true(condition, both) for condition in row.late):
                    found.append((row, both))
        return found

    # ------------------------------------------------------------------ runs

    def find_matches(self) -> Iterator[SpaseqMatch]:
        for run in self.find_runs():
            if all(s.optional or s.negated for s in self.steps[run.step + 1 :]):
                yield self._make_match(run)

    def find_runs(self) -> Iterator[SpaseqRun]:
        """Yield every partial match, complete ones among them."""
        for step in self._find_next(-1):
            for time in self.times:
                empty = SpaseqRun(-1, (), (), {}, {})
                for run in self._extend(step, empty, time):
                    yield from self._go_on(run)

    def _go_on(self, run: SpaseqRun) -> Iterator[SpaseqRun]:
        """Yield a run inside its window, and all that continue it."""
        if self._is_inside(run, run.times[-1]):
            yield run
            for step, link in self._find_links(run.step):
                yield from self._continue(run, step, link)

    def _find_links(self, step: int) -> Iterator[tuple[int, str | None]]:
        """Yield what may follow a step: one more round, or later steps; with their separators."""
        if self.steps[step].rounds:
            yield step, self.steps[step].rounds
        for following in self._find_next(step):
            yield following, self.steps[following].link

    def is_waiting(self, run: SpaseqRun, now: int) -> bool:
        """Whether something after a time may still continue a run."""
        if run.times[-1] > now or not self._is_inside(run, now):
            return False
        passed = [time for time in self._find_later(run) if time <= now]
        return any(
            not any(self._is_cut(run, step, link, time) for time in passed)
            for step, link in self._find_links(run.step)
        )

    def _find_next(self, step: int) -> Iterator[int]:
        """Yield the steps that may follow one."""
        for k in range(step + 1, len(self.steps)):
            if not self.steps[k].negated:
                yield k
                if not self.steps[k].optional:
                    return

    def _continue(self, run: SpaseqRun, step: int, link: str | None) -> Iterator[SpaseqRun]:
        for time in self._find_later(run):
            for extended in self._extend(step, run, time):
                yield from self._go_on(extended)
            if self._is_cut(run, step, link, time):
                return

    def _is_cut(self, run: SpaseqRun, step: int, link: str | None, time: int) -> bool:
        """Whether a run waits for a step no longer, after a timestamp."""
        if link == "," or (link == ";" and self.find_fitting(step, run, time)):
            return True
        guards = (k for k in range(run.step + 1, step) if self.steps[k].negated)
        return any(self.find_fitting(k, run, time) for k in guards)

    def _find_later(self, run: SpaseqRun) -> list[int]:
        """Return the timestamps after a run; with PARTITION BY, those of its partition."""
        later = [time for time in self.times if time > run.times[-1]]
        if not self.query.partition:
            return later
        key = {name: run.bound[name] for name in self.query.partition}
        used = [leaf for step in self.steps for leaf in find_gpm_names(step.element)]
        return [
            time
            for time in later
            if any(
                key.items() <= row.solution.items()
                for leaf in used
                for row in self.find_rows(leaf, time)
            )
        ]

    def _extend(self, step: int, run: SpaseqRun, time: int) -> Iterator[SpaseqRun]:
        for row, bound in self.find_fitting(step, run, time):
            yield SpaseqRun(
                step,
                (*run.times, time),
                run.events + row.events,
                bound,
                {**run.rounds, step: (*run.rounds.get(step, ()), row.solution)},
            )

    def _is_inside(self, run: SpaseqRun, last: int) -> bool:
        """Whether a time is within the window of a run."""
        first, within = run.times[0], self.query.within
        if within is None:
            return True
        if self.origin is None:
            return last - first <= within
        if first < self.origin:
            return False
        return (first - self.origin) // within == (last - self.origin) // within

    def _make_match(self, run: SpaseqRun) -> SpaseqMatch:
        query = self.query
        if query.select is None:
            told: dict[str, str | tuple[str, ...]] = dict(run.bound)
        else:
            told = {}
            for one in query.select:
                if isinstance(one, SelectedExpression):
                    text = self._compute(one.expression, run)
                    told |= {} if text is None else {one.name: text}
                elif one.listed:
                    told[one.name] = self._list_values(one.variable, run)
                elif one.variable in run.bound:
                    told[one.name] = run.bound[one.variable]
        hidden: dict[str, str | tuple[str, ...]] = {}
        for one in query.select or ():
            if isinstance(one, SelectedExpression):
                hidden |= {v: run.bound[v] for v in one.last_values if v in run.bound}
                hidden |= {f"LIST {v}": self._list_values(v, run) for v in one.all_values}
        return SpaseqMatch(
            run.times[0],
            run.times[-1],
            run.events,
            tuple(sorted(told.items())),
            tuple(sorted(hidden.items())),
        )

    def _list_values(self, variable: str, run: SpaseqRun) -> tuple[str, ...]:
        return tuple(
            solution[variable]
            for step in sorted(run.rounds)
            for solution in run.rounds[step]
            if variable in solution
        )

    def _compute(self, expression: g.Expression, run: SpaseqRun) -> str | None:
        """Return the value of an expression, with aggregates over the values of a variable."""
        lists = {v.name: self._list_values(v.name, run) for v in g.find_mentions(expression)}
        return compute_value(expression, run.bound, lists)


def _drop_blank_nodes(solution: Solution) -> Solution:
    """Return a solution without its blank nodes, which are local to the pattern."""
    return {name: term for name, term in solution.items() if not name.startswith("_:")}
