"""From a SPAseQ sequence to its automaton of links.

Three passes: the alternatives of each step; for each step, the variables that it compares with
earlier steps and those that later steps need; states, stores and transitions, from the start on.

Cost contract: linear in the automaton.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import NamedTuple

from cernis.automata.linked.automaton import (
    Alternative,
    Guard,
    LinkedAutomaton,
    LinkedExit,
    LinkedReading,
    LinkedState,
    LinkedStore,
    LinkedTransition,
)
from cernis.errors import Diagnostic, QueryError
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import Element, GpmConjunction, GpmName, SpaseqQuery

MOST_MISSING = 6
"""The most variables of a step that may be missing and are asked for elsewhere."""


MOST_COMPARED = 20
"""The most steps of a sequence that is searched for two ways to take the same events."""

_Pair = tuple[int, int, bool]
"""The steps that two runs have reached, and whether they have differed in a step."""


class _Next(NamedTuple):
    """A step that may follow another: its separator, and what must not come in between."""

    step: int
    link: str
    guards: tuple[int, ...]


def construct_linked(query: SpaseqQuery) -> LinkedAutomaton:
    """Return the automaton of a checked query."""
    return _LinkedBuilder(query).build()


class _LinkedBuilder:
    def __init__(self, query: SpaseqQuery) -> None:
        self.query = query
        self.steps = query.steps
        self.told, self.listed = _find_told(query)
        self.alternatives = [
            self._make_alternative(step, gpms)
            for step, one in enumerate(self.steps)
            for gpms in _list_alternatives(one.element)
        ]
        self.of_step = [
            [a for a, one in enumerate(self.alternatives) if one.step == step]
            for step in range(len(self.steps))
        ]
        self.shared = list(self._find_shared())
        self.local = tuple(
            frozenset(self._list_names(step) - self.shared[step] if one.rounds else ())
            for step, one in enumerate(self.steps)
        )
        self.wants = [self._find_wanted(step) for step in range(len(self.steps))]
        self.needs = self._find_needs()
        self.readings: list[LinkedReading] = []
        self.readings_of: dict[int, list[int]] = {}
        self.states: list[LinkedState] = []
        self.stores: list[LinkedStore] = []
        self.transitions: list[LinkedTransition] = []
        self.guards: list[Guard] = []

    # ------------------------------------------------------------------ steps

    def _make_alternative(self, step: int, gpms: tuple[str, ...]) -> Alternative:
        patterns = [self.query.gpm(name).pattern for name in gpms]
        named = dict.fromkeys(v for p in patterns for v in g.find_variables(p))
        names = tuple(name for name in named if not name.startswith("_:"))
        beyond = [condition for p in patterns for condition in g.split_filters(p)[1]]
        certain = frozenset().union(*map(g.find_certain_variables, patterns))
        own = [c for c in beyond if all(v.name in certain for v in g.find_mentions(c))]
        late = [c for c in beyond if c not in own]
        return Alternative(step, gpms, names, certain, tuple(own), tuple(late))

    def _list_names(self, step: int) -> set[str]:
        return {v for a in self.of_step[step] for v in self.alternatives[a].names}

    def _find_shared(self) -> Iterator[set[str]]:
        """Yield for each step the variables that other steps or PARTITION BY have as well."""
        names = [self._list_names(step) for step in range(len(self.steps))]
        for step, own in enumerate(names):
            yield own & set(self.query.partition).union(*names[:step], *names[step + 1 :])

    def _find_wanted(self, step: int) -> set[str]:
        """Return the variables that a step compares with those of earlier steps."""
        asked = {
            name
            for a in self.of_step[step]
            for condition in self.alternatives[a].late
            for name in _list_mentions(condition)
        }
        return self.shared[step] | (asked - self.local[step])

    def follow(self, step: int) -> Iterator[_Next]:
        """Yield the steps that may follow a step; -1 is the beginning."""
        if step >= 0 and (link := self.steps[step].rounds):
            yield _Next(step, link, ())
        guards: list[int] = []
        for k in range(step + 1, len(self.steps)):
            if self.steps[k].negated:
                guards.append(k)
                continue
            yield _Next(k, self.steps[k].link or "", tuple(guards))
            if not self.steps[k].optional:
                return

    def _find_needs(self) -> list[set[str]]:
        """Return for each step the variables that later steps may need."""
        needs: list[set[str]] = [set() for _ in self.steps]
        while True:
            before = [set(need) for need in needs]
            for step in range(len(self.steps)):
                for following in self.follow(step):
                    needs[step] |= self.wants[following.step] | needs[following.step]
                    needs[step] |= set().union(*(self.wants[k] for k in following.guards))
            if needs == before:
                return needs

    # ------------------------------------------------------------ construction

    def build(self) -> LinkedAutomaton:
        for alternative in range(len(self.alternatives)):
            self._read(alternative)
        for following in self.follow(-1):
            for reading in self._list_readings(following.step):
                bound = self.readings[reading].bound
                self._take(None, reading, frozenset(), frozenset(), bound)
        done = 0
        while done < len(self.states):
            self._leave(done)
            done += 1
        return LinkedAutomaton(
            self._list_columns(),
            tuple(self.alternatives),
            tuple(self.readings),
            tuple(self.states),
            tuple(self.stores),
            tuple(self.transitions),
            tuple(self.guards),
            self.local,
            tuple(self._list_exits()),
            tuple(map(self._find_loose, range(len(self.steps)))),
            self._find_rivals(),
        )

    def _read(self, alternative: int) -> None:
        one = self.alternatives[alternative]
        asked = self.shared[one.step] | self.needs[one.step]
        relevant = [name for name in one.names if name in asked]
        missing = [name for name in relevant if name not in one.certain]
        if len(missing) > MOST_MISSING:
            raise QueryError(
                [
                    Diagnostic(
                        f"{len(missing)} variables of {' & '.join(one.gpms)} may be unbound and "
                        f"are asked for elsewhere; at most {MOST_MISSING} may be",
                        self.steps[one.step].span,
                    )
                ],
                self.query.source,
            )
        certain = frozenset(relevant) - frozenset(missing)
        for some in _list_subsets(missing):
            self.readings_of.setdefault(alternative, []).append(len(self.readings))
            self.readings.append(LinkedReading(alternative, certain | some))

    def _list_readings(self, step: int) -> Iterator[int]:
        for alternative in self.of_step[step]:
            yield from self.readings_of[alternative]

    def _take(
        self,
        store: int | None,
        reading: int,
        joins: frozenset[str],
        fresh: frozenset[str],
        bound: frozenset[str],
    ) -> None:
        step = self.alternatives[self.readings[reading].alternative].step
        target = LinkedState(step, bound & frozenset(self.needs[step]))
        if target not in self.states:
            self.states.append(target)
        final = self._is_last(step)
        self.transitions.append(
            LinkedTransition(
                store, reading, tuple(sorted(joins)), fresh, self.states.index(target), final
            )
        )

    def _leave(self, state: int) -> None:
        step, bound = self.states[state]
        for following in self.follow(step):
            asked = set().union(*(self.wants[k] for k in (following.step, *following.guards)))
            fresh = self.local[step] if following.step == step else frozenset()
            kept = bound & frozenset(asked | self.needs[following.step]) - fresh
            store = len(self.stores)
            self.stores.append(
                LinkedStore(state, following.step, following.link, tuple(sorted(kept)))
            )
            for reading in self._list_readings(following.step):
                own = self.readings[reading].bound
                self._take(store, reading, kept & own, fresh, kept | own)
            for guard in following.guards:
                for reading in self._list_readings(guard):
                    joins = kept & self.readings[reading].bound
                    self.guards.append(Guard(store, reading, tuple(sorted(joins))))

    # -------------------------------------------------------------- properties

    def _list_columns(self) -> tuple[str, ...]:
        """Return every variable that a step or SELECT needs, in order of appearance."""
        names = dict.fromkeys(v for one in self.alternatives for v in one.names)
        asked = set().union(*self.wants, *self.needs) if len(self.steps) > 1 else set()
        asked |= {v for one in self.alternatives for c in one.late for v in _list_mentions(c)}
        asked |= set(self.query.partition)
        return tuple(name for name in names if name in asked or self._is_selected(name))

    def _is_selected(self, name: str) -> bool:
        return name in self.told or name in self.listed

    # ------------------------------------------------------------- one match

    def _list_exits(self) -> Iterator[LinkedExit]:
        """Yield the ways to leave each step, with what tells the runs there apart."""
        kept_by: dict[tuple[int, int], set[str]] = {}
        for store in self.stores:
            kept_by.setdefault((self.states[store.state].step, store.step), set()).update(
                store.kept
            )
        begin = [following.step for following in self.follow(-1)]
        for step, one in enumerate(self.steps):
            if one.negated:
                continue
            names = self._list_names(step)
            known = set() if step in begin else self._find_known(step)
            if self._is_last(step):
                yield LinkedExit(step, -1, self._sort(names & (self.told | self.listed)), ())
            for following in self.follow(step):
                fresh = self.local[step] if following.step == step else frozenset()
                told = names & (self.told - fresh | self.listed)
                kept = names & kept_by.get((step, following.step), set()) - known
                yield LinkedExit(step, following.step, self._sort(told), self._sort(kept))

    def _find_known(self, step: int) -> set[str]:
        """Return the variables that all runs have bound that wait for a step."""
        return set.intersection(*(set(one.kept) for one in self.stores if one.step == step))

    def _find_loose(self, step: int) -> frozenset[str]:
        """Return the variables of the answer of which rows of two steps or rounds may be the one
        that binds them: their values do not tell which."""
        certain = frozenset.intersection(
            *(self.alternatives[a].certain for a in self.of_step[step])
        )
        names = self._list_names(step) - certain
        rounds = names & self.listed if self.steps[step].rounds else set()
        return frozenset(names & self.shared[step] & (self.told | self.listed) | rounds)

    def _find_rivals(self) -> frozenset[frozenset[int]]:
        """Return the pairs of steps that two runs with events of the same streams may differ in.

        A search through the pairs of steps that two such runs can have reached. In long sequences,
        any two steps that may take the same events.
        """
        if len(self.steps) > MOST_COMPARED:
            taken = [step for step, one in enumerate(self.steps) if not one.negated]
            alike = (pair for pair in combinations(taken, 2) if self._are_alike(*pair))
            return frozenset(map(frozenset, alike))
        begin = [following.step for following in self.follow(-1)]
        todo = [(a, b, a != b) for a, b in product(begin, begin) if self._are_alike(a, b)]
        before: dict[_Pair, list[_Pair]] = {pair: [] for pair in todo}
        while todo:
            pair = one, two, is_apart = todo.pop()
            for a, b in product(self.follow(one), self.follow(two)):
                if self._are_alike(a.step, b.step):
                    after = (a.step, b.step, is_apart or a.step != b.step)
                    if after not in before:
                        before[after] = []
                        todo.append(after)
                    before[after].append(pair)
        todo = [(a, b, c) for a, b, c in before if c and self._is_last(a) and self._is_last(b)]
        useful = set(todo)
        while todo:
            more = [pair for pair in before[todo.pop()] if pair not in useful]
            useful.update(more)
            todo += more
        return frozenset(frozenset((a, b)) for a, b, _ in useful if a != b)

    def _is_last(self, step: int) -> bool:
        return all(one.optional or one.negated for one in self.steps[step + 1 :])

    def _are_alike(self, one: int, two: int) -> bool:
        """Whether two steps may take the same events."""
        return one == two or any(
            len(ways[0].gpms) == len(ways[1].gpms)
            and all(
                set(self.query.gpm(a).streams) & set(self.query.gpm(b).streams)
                for a, b in zip(ways[0].gpms, ways[1].gpms, strict=True)
            )
            for ways in product(
                *([self.alternatives[a] for a in self.of_step[step]] for step in (one, two))
            )
        )

    def _sort(self, names: set[str]) -> tuple[str, ...]:
        return tuple(name for name in self._list_columns() if name in names)


def _find_told(query: SpaseqQuery) -> tuple[set[str], set[str]]:
    """Return the variables whose last values the answer tells, and those of which it tells all."""
    if query.construct is not None:
        return {variable.name for variable in g.find_template_variables(query.construct)}, set()
    if query.select is None:
        gpms = (
            name
            for step in query.steps
            if not step.negated
            for way in _list_alternatives(step.element)
            for name in way
        )
        return {v for name in gpms for v in g.find_variables(query.gpm(name).pattern)}, set()
    listed = {name for one in query.select for name in one.all_values}
    return {name for one in query.select for name in one.last_values}, listed


def _list_mentions(condition: g.Expression) -> Iterator[str]:
    return (variable.name for variable in g.find_mentions(condition))


def _list_alternatives(element: Element) -> list[tuple[str, ...]]:
    """Return the patterns of an element as alternatives of conjunctions."""
    if isinstance(element, GpmName):
        return [(element.gpm,)]
    parts = [_list_alternatives(part) for part in element.parts]
    if isinstance(element, GpmConjunction):
        return [tuple(name for one in ways for name in one) for ways in product(*parts)]
    return list(dict.fromkeys(way for part in parts for way in part))


def _list_subsets(names: Iterable[str]) -> Iterator[frozenset[str]]:
    names = list(names)
    for size in range(len(names) + 1):
        yield from map(frozenset, combinations(names, size))
