"""A PCEA as arrays: transitions by symbol, the links they ask, the stores runs are filed in.

A link asks a *store*: the runs that wait in one state, by the attributes they are
compared by. Links that ask the same of the same state share a store, so a vertex is
filed once.

`cernis.encoding.compare` numbers the compared values: a *column* is a tuple of attributes
whose values together get one code per event; columns that are compared with each other
belong to one *domain* and share their codes. Attributes compared by order are columns of
their own.

Cost contract: built once per query, O(size of the automaton); new symbols are added as
they occur. The sessions of a query share its tables, in any threads: no array changes once it
is there, and a lock lets one thread at a time replace the arrays of symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.correlated.pcea import (
    ANY_LINK,
    PCEA,
    Apart,
    Link,
    Ordered,
    PassedStage,
    StarStage,
    Transition,
    WeightBound,
)
from cernis.automata.correlated.stars import find_stars
from cernis.automata.unary.alphabet import Alphabet
from cernis.engine.dag.links import FarConditions, Links, SumBounds
from cernis.engine.dag.records import (
    EQUAL,
    IN_ENDS,
    IN_GAP,
    IN_SPAN,
    OPERATORS,
    RECENT,
    SORTED,
    UNION,
    UNLIKE,
)
from cernis.engine.dag.unlike import MOST_VALUES, sequences
from cernis.pattern.formula import Gap, Unit
from cernis.pattern.predicate import NUMBER
from cernis.pattern.write import write_gap

Column = tuple[str, ...]


class StoreKey(NamedTuple):
    """The properties in which two stores may differ. States are frozen with its `repr`."""

    state: int
    kind: int
    column: Column
    contiguous: bool
    values: tuple[tuple[str, bool], ...]
    """Attributes compared by ≠; whether they must be present."""
    ordered: str | None
    """An attribute, in words the longest gap after which no run is asked for, or both; and the `->`
    whose runs leave together."""
    strict: bool
    """Only runs whose last event has an earlier timestamp are asked for."""
    collapsed: bool
    """Only the latest start is kept, not the runs; of sets without order alone."""


class Removal(NamedTuple):
    """Reading into a state of a guard takes runs out of a store."""

    state: int
    store: StoreKey
    column: Column | None
    """The attributes of the guard that give the bucket; None: all buckets, whose links ask for the
    runs that have come since."""
    groups: StoreKey | None
    """The store that numbers groups of runs with equal values; None: the whole bucket leaves."""
    group_column: Column
    """The attributes of the guard that give the group."""


class CorrelatedArrays(NamedTuple):
    """The arrays that the kernels read."""

    links: Links
    transition_target: NDArray[np.int32]
    transition_label: NDArray[np.int32]
    transition_final: NDArray[np.uint8]
    transition_first: NDArray[np.int32]
    """Its first link."""
    transition_count: NDArray[np.int32]
    """How many links it has."""
    link_column: NDArray[np.int32]
    link_ordered: NDArray[np.int32]
    link_upper: NDArray[np.int32]
    """The column of the upper end, where a link asks for a range of values, or -1."""
    link_ray: NDArray[np.uint8]
    """Whether a link asks for rays of a star: which, is known once its centre is chosen."""
    link_ends: NDArray[np.int32]
    """Per link that asks for ranges with a value, what is added to it for each end: an end may be
    left out."""
    link_values: NDArray[np.int32]
    """Per link and value compared by ≠, the column of the code asked for, or -1."""
    store_column: NDArray[np.int32]
    store_contiguous: NDArray[np.uint8]
    store_strict: NDArray[np.uint8]
    store_collapsed: NDArray[np.uint8]
    store_ordered: NDArray[np.int32]
    store_values: NDArray[np.int32]
    """Per store and value compared by ≠, the column of the code that is kept, or -1."""
    store_required: NDArray[np.uint8]
    """Per store and value: it must be present on both sides."""
    state_first: NDArray[np.int32]
    """Stores state_first[q] … state_first[q+1]-1 file the runs of state q."""
    fact_kind: NDArray[np.int32]
    fact_column: NDArray[np.int32]
    """What a vertex keeps of its event: a code, or the high or low word of an order value."""
    symbol_first: NDArray[np.int32]
    symbol_transitions: NDArray[np.int32]
    link_arrow: NDArray[np.uint8]
    """What an event that takes the link takes out of the bucket: NO_RUN, or those that it fits."""
    link_gap: NDArray[np.int32]
    """NO_GAP, or what the gap of the link is measured in."""
    store_gap: NDArray[np.int32]
    store_first: NDArray[np.uint8]
    """Whether its runs have one event each."""
    link_since: NDArray[np.int32]
    """NO_GAP, or what the WITHIN of the part that the link stands in is measured in."""
    transition_begins: NDArray[np.uint8]
    """Whether the event begins a part that has a WITHIN of its own."""
    guard_first: NDArray[np.int32]
    """Links guard_first[q] … guard_first[q+1]-1 ask for what must be absent from matches of state
    q; empty: nothing must."""
    removal_first: NDArray[np.int32]
    """An event that is read into state q of a guard makes the removals removal_first[q] …
    removal_first[q+1]-1; empty: there are none."""
    removals: NDArray[np.int32]
    """Per removal: the store, or -1 if its links ask for what has come since, and the column of the
    guard's code there; the store that numbers groups, or -1, and the column of the code there."""
    store_groups: NDArray[np.int32]
    """Per store, the store that numbers the groups by which it is sorted, itself if it numbers
    them, or -1."""
    store_since: NDArray[np.uint8]
    """Whether links ask for the last group of the store alone."""
    link_after: NDArray[np.uint8]
    """What a link asks for after the last run of the bucket that the link before it asks: NO_RUN if
    it does not ask so, ALL_RUNS, or FIRST_RUN."""
    link_touches: NDArray[np.uint8]
    """Whether an event that takes the link ends what it asks for."""
    store_facts: NDArray[np.int32]
    """Per store whose runs come out of a waiting store: the facts of its code, of the two words of
    its ordered value, and of each value compared by ≠; else -1."""
    store_late: NDArray[np.uint8]
    """Whether its runs come out of a waiting store alone."""
    store_upper: NDArray[np.int32]
    """Per store whose runs have a range each, the column of its upper end; else -1."""
    store_stages: NDArray[np.int32]
    """Per store in which runs wait: the store that they go on to, the rank of the stage, the fact
    that notes when they go on, the link that an event has to fit, -1: none; the column of the code
    that what they wait for has; where that has to have passed stages of its own, its facts: the
    code, and the two words that it asks for; and where runs wait for the last stage again, the fact
    after which it has to come, and the one that noted it before."""
    move_first: NDArray[np.int32]
    moves: NDArray[np.int32]
    """A run that is complete in state q lets runs of the stores moves[move_first[q]] …
    moves[move_first[q+1]-1] go on."""
    done_first: NDArray[np.int32]
    """A run that is filed in store s lets runs of the stores dones[done_first[s]] …
    dones[done_first[s+1]-1] go on; empty: no store's runs do."""
    dones: NDArray[np.int32]


NO_GAP, TIME_GAP, EVENTS_GAP = range(3)
NO_RUN, ALL_RUNS, RUNS_IN_RANGE, FIRST_RUN = range(4)
_AFTER = {None: NO_RUN, "all": ALL_RUNS, "first": FIRST_RUN}
_GAP_UNITS = {Unit.TIME: TIME_GAP, Unit.EVENTS: EVENTS_GAP}


def find_order(link: Link) -> Ordered | None:
    return link.ordered[0] if link.ordered and not link.strict else None


def store_of(state: int, link: Link, collapsed: bool = False) -> StoreKey:
    """Return the store that a link into a state asks."""
    order = find_order(link)
    differing = [(a, True) for a, _ in link.different] + [(a, False) for a, _ in link.unlike]
    reach = None if link.gap is None else f"[{write_gap(replace(link.gap, least=Fraction(0)))}]"
    kind = UNLIKE if differing else UNION
    grouped = is_grouped(link)
    if order or reach or grouped:
        kind = RECENT if order and reach else SORTED
    earlier = dict.fromkeys(o.earlier for o in link.ordered) if order else ()
    sorted_by = " ".join(filter(None, (" to ".join(earlier), reach)))
    if link.ray is not None and (link.is_next or len(link.ordered) > 1):
        kind, sorted_by = SORTED, f"{sorted_by} as ray {link.ray.stage}"
    if grouped and link.unless:
        sorted_by = ", ".join(link.unless.by)
    waits = "" if link.arrow is None else f" -> {link.arrow}{' again' * link.again}"
    waits += f" once {_name_stages(link.once)}" if link.once else ""
    waits += "" if link.unless is None else f" unless {link.unless.guard}"
    return StoreKey(
        state=state,
        kind=kind,
        column=pair_columns(link.equal)[0],
        contiguous=link.contiguous,
        values=tuple(differing),
        ordered=f"{sorted_by}{waits}" if sorted_by or waits else None,
        strict=link.strict,
        collapsed=collapsed and kind == UNION,
    )


def wait_for(store: StoreKey, link: Link) -> tuple[StoreKey, ...]:
    """Return the stores in which runs wait, one after the other, until they are filed in a store.

    They wait by position, or by the value that an event has to fit; for each key, where the stage
    has one.
    """
    asked = " ".join([*store.column, *(name for name, _ in store.values), store.ordered or ""])
    until = [f"until {asked}", *(f"until {asked}, stage {i}" for i in range(1, len(link.once)))]
    columns = [pair_columns(stage.equal)[0] for stage in link.once]
    return tuple(
        store._replace(kind=SORTED, column=column, values=(), ordered=one)
        for one, column in zip(until, columns, strict=True)
    )


def pair_columns(equal: tuple[tuple[str, str], ...]) -> tuple[Column, Column]:
    """Return the columns of two events that are compared by these attributes.

    >>> pair_columns((("id", "parent"), ("day", "day")))
    (('day', 'id'), ('day', 'parent'))
    """
    pairs = sorted(equal)
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _name_stages(stages: tuple[PassedStage, ...]) -> str:
    """Return the states of the stages; of those that an event has to fit, in parentheses."""
    names = []
    for stage in stages:
        name = f"{stage.state} after {_name_stages(stage.after)}" if stage.after else stage.state
        names.append(f"{name}" if stage.fits is None else f"({name})")
    return ", ".join(names)


def is_grouped(link: Link) -> bool:
    """Return whether a guard takes some runs of a bucket out, and leaves others."""
    equal = sorted(a for a, _ in link.equal)
    return link.unless is not None and sorted(link.unless.by) != equal


def _number_groups(state: int, link: Link) -> StoreKey:
    """Return the store that numbers the groups of runs that a guard takes out together."""
    named = store_of(state, replace(link, unless=None), collapsed=True)
    return named._replace(ordered=f" unless {link.unless.guard}" if link.unless else None)


def list_removals(pcea: PCEA) -> tuple[Removal, ...]:
    """Return what the events of guards take out, by state of the guard."""
    found: dict[Removal, None] = {}
    waiting = [source for t in pcea.transitions for source in t.sources]
    for state, taken in pcea.removals:
        own, asked = sorted(taken.link.equal), dict(taken.link.equal)
        for source in waiting:
            if (source.state, source.link.unless) == (taken.state, taken.link.unless):
                store = store_of(source.state, source.link)
                groups = _number_groups(taken.state, taken.link)
                is_last = bool(store.column) and not own
                column = None if is_last else tuple(asked[name] for name in store.column)
                group_column = tuple(name for _, name in own)
                grouped = groups if is_grouped(source.link) else None
                found[Removal(state, store, column, grouped, group_column)] = None
    return tuple(sorted(found, key=lambda removal: removal.state))


class CorrelatedTables:
    """The automaton for the kernels; `arrays` is replaced when symbols are added.

    Of runs in `collapsed` states, and of guards, only the latest start is kept, and no match lists
    them.
    FarConditions `apart` are checked when matches are listed, and sums kept inside their `bounds`.
    """

    def __init__(
        self,
        pcea: PCEA,
        collapsed: frozenset[int] = frozenset(),
        apart: tuple[Apart, ...] = (),
        bounds: tuple[WeightBound, ...] = (),
    ) -> None:
        self.pcea = pcea
        self.collapsed = collapsed | pcea.guard_states
        self.apart = apart
        self.bounds = bounds
        self.weights = tuple(dict.fromkeys(b.attribute for b in bounds if b.attribute is not None))
        """The attributes that are added up; their values are facts of vertices."""
        self.alphabet = Alphabet(pcea)
        self.labels: list[frozenset[str]] = []
        self.removals = list_removals(pcea)
        self.since_stores = {
            one.store: one.groups
            for one in self.removals
            if one.column is None and one.groups is not None
        }
        """Stores whose last group alone is asked for, and the stores that number the groups."""
        self.domains = _domains(pcea, apart, self.removals)
        self.columns = {c: i for i, c in enumerate(c for d in self.domains for c in d)}
        self.domain_of = [d for d, columns in enumerate(self.domains) for _ in columns]
        asking = [*(link for link in _links_of(pcea) if find_order(link)), *_list_fits(pcea)]
        orders = [order for link in asking for order in link.ordered]
        far = [(a.attribute, a.other_attribute) for a in apart if a.op in _ORDERS]
        self.ordered_pairs = tuple(dict.fromkeys([*((o.earlier, o.later) for o in orders), *far]))
        self.ordered = tuple(dict.fromkeys(name for pair in self.ordered_pairs for name in pair))
        links = [link for link in (*_links_of(pcea), *_list_fits(pcea)) if link.ray is None]
        ranges = [order for link in links if link.is_range for order in link.ordered]
        numbers = [order for order in ranges if order.earlier.endswith(NUMBER)]
        self.one_word = frozenset(name for o in numbers for name in (o.earlier, o.later))
        """The numbers of ranges of differences: trees compare their first words alone."""
        spans = [link for link in (*_links_of(pcea), *_list_fits(pcea)) if link.is_span]
        self.ends = frozenset(order.earlier for link in spans for order in link.ordered)
        self.ends |= {order.later for order in ranges if not order.earlier.endswith(NUMBER)}
        """The ends of other ranges: trees compare the first words of those, too."""
        unequal = [(a.attribute, a.other_attribute) for a in apart if a.op == "!="]
        self.different = tuple(
            dict.fromkeys([*(p for link in _links_of(pcea) for p in link.different), *unequal])
        )
        sources = pcea.sources
        numbering = {removal.groups for removal in self.removals if removal.groups is not None}
        self.ready = {store_of(s.state, s.link): s.link for s in sources if s.link.once}
        """The stores whose runs come out of a waiting store, and links that ask them."""
        self.waiting = {
            waiting: (store, i)
            for store, link in self.ready.items()
            for i, waiting in enumerate(wait_for(store, link))
        }
        """The stores in which runs wait for a stage: the store that they go on to in the end, and
        the number of the stage."""
        is_whole = not (self.collapsed or apart or bounds)
        self.stars = find_stars(pcea) if is_whole else ()
        """The stars whose matches are counted without listing; empty: none are."""
        self.stores = sorted(
            {store_of(s.state, s.link, s.state in self.collapsed) for s in sources}
            | numbering
            | {*self.waiting},
            key=lambda k: (k.state, k not in numbering, repr(k)),
        )
        self.store_domain = [self.domain_of[self.columns[s.column]] for s in self.stores]
        self.width = max([len(s.values) for s in self.stores], default=0)
        assert self.width <= MOST_VALUES
        self.strict = any(store.strict for store in self.stores)
        self.is_sorted = any(store.kind in (SORTED, RECENT) for store in self.stores)
        self.is_recent = any(store.kind == RECENT for store in self.stores)
        self.gaps = tuple(source.link.gap for source in sources)
        """The gap of each link."""
        self.sinces = tuple(source.link.since for source in sources)
        """Per link, the WITHIN of the part that it stands in."""
        self.reaches = self._find_reaches()
        """Per store, the gap after which no run is asked for."""
        self.most_links = max([len(t.sources) for t in pcea.transitions], default=0)
        self.facts = self._find_facts()
        self.arrays = self._arrays()
        self._growth = Lock()

    @property
    def is_timed(self) -> bool:
        """Whether a part of the formula has a WITHIN that the links decide."""
        return any(self.sinces)

    @property
    def has_middles(self) -> bool:
        """Whether some runs are asked for by the events between (`middles`)."""
        return bool(self.ready)

    @property
    def has_far_links(self) -> bool:
        """Whether links decide what versions before this one left to candidates."""
        return self.has_middles or bool(self.ends)

    @property
    def counts_positions(self) -> bool:
        """Whether starts count positions, whatever the clock of the window is."""
        return self.has_middles or bool(self.pcea.guards)

    @property
    def has_leaving(self) -> bool:
        """Whether events take runs out of indexes: of a `->`, or by a guard."""
        links = _links_of(self.pcea)
        return bool(self.removals) or any(link.arrow is not None or link.touches for link in links)

    def add_symbols(self) -> None:
        """Work out the symbols that are new in the alphabet."""
        with self._growth:
            arrays = self.arrays
            new = self.alphabet.passed[len(arrays.symbol_first) - 1 :]
            if not new:
                return
            transitions = self.pcea.transitions
            passing = [[i for i, t in enumerate(transitions) if t.test in tests] for tests in new]
            ends = arrays.symbol_first[-1] + np.cumsum([len(some) for some in passing])
            self.arrays = arrays._replace(
                symbol_first=_ints([*arrays.symbol_first, *ends]),
                symbol_transitions=_ints([*arrays.symbol_transitions, *chain(*passing)]),
            )

    def _find_facts(self) -> tuple[Fact, ...]:
        """Return the facts that vertices keep."""
        found = dict.fromkeys(_facts(self.apart, self.columns, self.ordered, self.weights))
        asked = [order for link in _list_fits(self.pcea) for order in link.ordered]
        for store, link in self.ready.items():
            found[CODE, self.columns[store.column]] = None
            found |= {(CODE, self.columns[(name,)]): None for name, _ in store.values}
            asked += [order for order in link.ordered if not link.strict]
            if link.again:
                found[CODE, self.columns[pair_columns(link.once[-1].equal)[0]]] = None
            if link.is_centre:
                keys = {pair_columns(stage.equal)[0] for stage in link.once[1:]}
                keys |= {pair_columns(stage.equal)[1] for stage in link.once if stage.after}
                found |= {(CODE, self.columns[key]): None for key in sorted(keys)}
                inner = [stage.fits for stage in link.once if stage.after and stage.fits]
                found |= {
                    (kind, self.ordered.index(order.later)): None
                    for fits in inner
                    for order in fits.ordered
                    for kind in (HIGH, LOW)
                }
        names = [order.earlier for order in asked]
        fits = (link for star in self.stars for link in star.fits if not link.once)
        names += [order.later for link in fits for order in link.ordered]
        for name in names:
            found |= {(kind, self.ordered.index(name)): None for kind in (HIGH, LOW)}
        found |= {(STAGE, i): None for i, store in enumerate(self.stores) if self._notes(store)}
        if self.is_timed:
            found[SINCE, 0] = None
        if self.has_middles:
            found[OWN, 0] = None
        return tuple(found)

    def _notes(self, store: StoreKey) -> bool:
        """Whether it is noted when runs leave a waiting store: others may have to come after."""
        final, stage = self.waiting.get(store, (store, -1))
        if stage < 0:
            return store in self.ready and self.ready[store].again
        return self.ready[final].is_centre

    def _waits_first(self, store: StoreKey) -> bool:
        """Whether runs wait in a store from their last event on."""
        return self.waiting.get(store, (store, -1))[1] == 0

    def _comes_again(self, store: StoreKey) -> bool:
        """Whether runs wait for the stage of a store once more."""
        final, stage = self.waiting.get(store, (store, -1))
        return stage >= 0 and self.ready[final].again and stage == len(self.ready[final].once) - 1

    def _find_store_facts(self, width: int) -> NDArray[np.int32]:
        """Return which facts give the key and the values of the runs that have waited."""
        rows = np.full((len(self.stores), 3 + width), -1, np.int32)
        nexts = {store_of(s.state, s.link) for s in self.pcea.sources if s.link.is_next}
        for row, store in zip(rows, self.stores, strict=True):
            final, stage = self.waiting.get(store, (store, -1))
            if store in nexts:
                row[1:3] = self.facts.index((OWN, 0))
            if final not in self.ready or (stage == 0 and not self._comes_again(store)):
                continue
            link: Link | None = self.ready[final]
            if link is not None and stage >= 0:
                link = link.once[stage].fits
            columns = [store.column, *((name,) for name, _ in store.values)]
            row[0], *row[3 : 3 + len(store.values)] = (
                self.facts.index((CODE, self.columns[column])) for column in columns
            )
            if link is not None and find_order(link) is not None:
                row[1:3] = self.find_words(link)
        return rows

    def find_words(self, link: Link) -> tuple[int, int]:
        """Return the facts of the two words by which a link's runs are sorted."""
        one, *others = [self.ordered.index(order.earlier) for order in link.ordered]
        second = (HIGH, others[0]) if link.is_span else (LOW, one)
        return self.facts.index((HIGH, one)), self.facts.index(second)

    def _find_rays(self) -> NDArray[np.int32]:
        """Return what each link to a ray asks of the centre of its star."""
        if not any(link.is_centre for link in self.ready.values()):
            return np.zeros((0, 3), np.int32)
        sources, number = self.pcea.sources, {store: i for i, store in enumerate(self.stores)}
        rows = np.full((len(sources), 3), -1, np.int32)
        for row, source in zip(rows, sources, strict=True):
            link = source.link
            if link.ray is None:
                continue
            stage, star = link.ray.stage, self._find_star(link.ray)
            row[2] = self.facts.index((STAGE, number[star[stage]]) if stage >= 0 else (OWN, 0))
            if link.ordered:
                names = [self.ordered.index(order.later) for order in link.ordered]
                second = HIGH if link.is_range else LOW
                row[0] = self.facts.index((HIGH, names[0]))
                row[1] = self.facts.index((second, names[-1]))
            elif link.is_next:
                row[:2] = self.facts.index((STAGE, number[star[stage + 1]]))
        return rows

    def _find_star(self, star: StarStage) -> tuple[StoreKey, ...]:
        """Return the stores in which the centres of a star wait."""
        ends = (s for t in self.pcea.transitions if t.target == star.last for s in t.sources)
        centre = next(s for s in ends if s.link.is_centre and s.state == star.centre)
        return wait_for(store_of(centre.state, centre.link), centre.link)

    def _find_inner(self) -> dict[StoreKey, StoreKey]:
        """Return, per waiting store, the store of the rays that let runs go on, if these rays have
        to have passed stages of their own."""
        rays = {
            (source.state, source.link.once): store
            for source, store in zip(self.pcea.sources, self._asked_stores(), strict=True)
            if source.link.ray is not None
        }
        found = {}
        for store, (final, stage) in self.waiting.items():
            passed = self.ready[final].once[stage]
            if passed.after:
                found[store] = rays[passed.state, passed.after]
        return found

    def _asked_stores(self) -> list[StoreKey]:
        return [store_of(s.state, s.link, s.state in self.collapsed) for s in self.pcea.sources]

    def _rank_stages(self) -> dict[StoreKey, int]:
        """Return the order of waiting stores in time: inner stages come before what they let go."""
        inner = self._find_inner()
        found: dict[StoreKey, int] = {}

        def rank(final: StoreKey) -> None:
            for store in wait_for(final, self.ready[final]):
                if store in inner:
                    rank(inner[store])
                found.setdefault(store, len(found))

        for final in self.ready.keys() - {*inner.values()}:
            rank(final)
        return found

    def _find_stages(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return what waiting stores wait for, and which of them a complete run concerns, by its
        state."""
        number = {store: i for i, store in enumerate(self.stores)}
        rows = np.full((len(self.stores), 10), -1, np.int32)
        moves = []
        fits, inner, ranks = _list_fits(self.pcea), self._find_inner(), self._rank_stages()
        for store, (final, stage) in self.waiting.items():
            stages, i = self.ready[final].once, number[store]
            following = (*wait_for(final, self.ready[final]), final)[stage + 1]
            rows[i, :2] = number[following], ranks[store]
            if self._notes(store):
                rows[i, 2] = self.facts.index((STAGE, i))
            own = stages[stage].fits
            if own is not None and own.ordered:
                rows[i, 3] = len(self.pcea.sources) + fits.index(own)
            rows[i, 4] = self.columns[pair_columns(stages[stage].equal)[1]]
            if store in inner:
                rows[i, 5:8] = self._find_asked(stages[stage])
            else:
                moves.append((stages[stage].state, i))
            if self._comes_again(store):
                rows[number[final]] = self._find_return(final, rows[i, 2])
                moves += [(state, number[final]) for state in self._list_askers(final)]
        moves.sort()
        states = np.arange(len(self.pcea.names) + 1)
        return (
            rows,
            _ints(np.searchsorted([state for state, _ in moves], states)),
            _ints([store for _, store in moves]),
        )

    def _find_return(self, final: StoreKey, noted: int) -> list[int]:
        """Return how runs go back from a store to the last stage before it, which `noted` notes."""
        link, number = self.ready[final], {store: i for i, store in enumerate(self.stores)}
        *others, last = wait_for(final, link)
        since = self.facts.index((STAGE, number[others[-1]]) if others else (OWN, 0))
        left = self.facts.index((STAGE, number[final]))
        asked = [store_of(s.state, s.link) for s in self.pcea.sources].index(final)
        column = self.columns[pair_columns(link.equal)[1]]
        return [number[last], len(self.stores), left, asked, column, -1, -1, -1, since, noted]

    def _list_askers(self, final: StoreKey) -> set[int]:
        """Return the states whose events ask a store."""
        transitions = self.pcea.transitions
        return {
            t.target for t in transitions for s in t.sources if store_of(s.state, s.link) == final
        }

    def _find_asked(self, passed: PassedStage) -> tuple[int, int, int]:
        """Return the facts of a ray that runs have to fit: the code, and two words of a value."""
        code = self.facts.index((CODE, self.columns[pair_columns(passed.equal)[1]]))
        orders = [] if passed.fits is None else passed.fits.ordered
        words = [self.ordered.index(order.later) for order in orders]
        if passed.fits is None or not words:
            return code, -1, -1
        second = (HIGH, words[1]) if passed.fits.is_range else (LOW, words[0])
        return code, self.facts.index((HIGH, words[0])), self.facts.index(second)

    def _find_done(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return which waiting stores a run concerns that is filed in a store, by that store."""
        inner = self._find_inner()
        number = {store: i for i, store in enumerate(self.stores)}
        pairs = sorted((number[done], number[waiting]) for waiting, done in inner.items())
        starts = np.searchsorted([done for done, _ in pairs], np.arange(len(self.stores) + 1))
        return _ints(starts if pairs else []), _ints([waiting for _, waiting in pairs])

    def _find_reaches(self) -> list[Gap | None]:
        sources = self.pcea.sources
        found = {store_of(s.state, s.link, s.state in self.collapsed): s.link.gap for s in sources}
        return [found.get(store) for store in self.stores]

    def _find_orders(self, numbers: Mapping[str, int], *, upper: bool = False) -> NDArray[np.int32]:
        """Return, per store, the number of the attribute that it is sorted by; -1: by none.

        The `upper` one is the second of two.
        """
        sources = self.pcea.sources
        found = {store_of(s.state, s.link, s.state in self.collapsed): s.link for s in sources}
        for store, (final, stage) in self.waiting.items():
            found[store] = self.ready[final].once[stage].fits or ANY_LINK
        links = [found.get(store, ANY_LINK) for store in self.stores]
        return _ints(
            [
                numbers[link.ordered[upper].earlier]
                if find_order(link) and (link.is_span or not upper)
                else -1
                for link in links
            ]
        )

    def _find_removals(self) -> NDArray[np.int32]:
        """Return where the removals of each state begin."""
        states = np.arange(len(self.pcea.names) + 1)
        starts = np.searchsorted([removal.state for removal in self.removals], states)
        return _ints(starts if self.removals else [])

    def _number_removals(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the removals in numbers, and the store that numbers the groups of each store."""
        number = {store: i for i, store in enumerate(self.stores)}
        rows, groups = np.full((len(self.removals), 4), -1, np.int32), _ints([-1] * len(number))
        for i, removal in enumerate(self.removals):
            if removal.column is not None:
                rows[i, :2] = number[removal.store], self.columns[removal.column]
            if removal.groups is not None:
                home = number[removal.groups]
                rows[i, 2:] = home, self.columns[removal.group_column]
                groups[number[removal.store]] = groups[home] = home
        return rows, groups

    def label(self, labels: frozenset[str]) -> int:
        """Return the number of a label set."""
        if labels not in self.labels:
            self.labels.append(labels)
        return self.labels.index(labels)

    def _arrays(self) -> CorrelatedArrays:
        transitions, sources = self.pcea.transitions, self.pcea.sources
        width = max(self.width, 1)
        order = {name: i for i, name in enumerate(self.ordered)}
        counts = [len(t.sources) for t in transitions]
        labels = [self.label(t.labels) for t in transitions]
        removals, groups = self._number_removals()
        stages, move_first, moves = self._find_stages()
        facts = self._find_store_facts(width)
        done_first, dones = self._find_done()
        asking = [*(s.link for s in sources), *_list_fits(self.pcea)]
        return CorrelatedArrays(
            links=self._links(width),
            transition_target=_ints([t.target for t in transitions]),
            transition_label=_ints(labels),
            transition_final=_flags([t.target in self.pcea.finals for t in transitions]),
            transition_first=_ints(np.cumsum([0, *counts])[:-1]),
            transition_count=_ints(counts),
            link_column=_ints([self.columns[pair_columns(s.link.equal)[1]] for s in sources]),
            link_ordered=_ints(
                [order[link.ordered[0].later] if find_order(link) else -1 for link in asking]
            ),
            link_upper=_ints(
                [order[link.ordered[1].later] if link.is_range else -1 for link in asking]
            ),
            link_ray=_flags([bool(link.ray and (link.ordered or link.is_next)) for link in asking]),
            link_ends=np.array([find_ends(link) for link in asking], np.int32).reshape(-1, 2),
            link_values=self._pad(
                [[b for _, b in (*s.link.different, *s.link.unlike)] for s in sources], width
            ),
            store_column=_ints([self.columns[s.column] for s in self.stores]),
            store_contiguous=_flags([s.contiguous for s in self.stores]),
            store_strict=_flags([s.strict for s in self.stores]),
            store_collapsed=_flags([s.collapsed for s in self.stores]),
            store_ordered=self._find_orders(order),
            store_values=self._pad([[a for a, _ in s.values] for s in self.stores], width),
            store_required=np.array(
                [[v < len(s.values) and s.values[v][1] for v in range(width)] for s in self.stores],
                np.uint8,
            ).reshape(-1, width),
            state_first=_ints(
                np.searchsorted([s.state for s in self.stores], np.arange(len(self.pcea.names) + 1))
            ),
            fact_kind=_ints([kind for kind, _ in self.facts]),
            fact_column=_ints([column for _, column in self.facts]),
            symbol_first=np.zeros(1, np.int32),
            symbol_transitions=np.zeros(0, np.int32),
            link_arrow=_flags([_find_leaving(s.link) for s in sources]),
            link_gap=_units(self.gaps),
            store_gap=_units(self.reaches),
            store_first=_flags([s.state not in _find_later(self.pcea) for s in self.stores]),
            link_since=_units(self.sinces),
            transition_begins=_flags(
                [_begins(t, self.pcea.timed_states) or _is_ray(t) for t in transitions]
            ),
            guard_first=self._find_guards(),
            removal_first=self._find_removals(),
            removals=removals,
            store_groups=groups,
            store_since=_flags([s in self.since_stores for s in self.stores]),
            link_after=_flags([_AFTER[s.link.after_last] for s in sources]),
            link_touches=_flags([s.link.touches for s in sources]),
            store_facts=facts,
            store_late=_flags(
                [
                    fact >= 0 and not self._waits_first(store)
                    for fact, store in zip(facts[:, 0].tolist(), self.stores, strict=True)
                ]
            ),
            store_upper=self._find_orders(order, upper=True),
            store_stages=stages,
            move_first=move_first,
            moves=moves,
            done_first=done_first,
            dones=dones,
        )

    def _find_guards(self) -> NDArray[np.int32]:
        """Return where the guards of each state begin among the links."""
        guards, states = self.pcea.guards, np.arange(len(self.pcea.names) + 1)
        first = len(self.pcea.sources) - len(guards)
        return (
            _ints(first + np.searchsorted([final for final, _ in guards], states))
            if guards
            else _ints([])
        )

    def _links(self, width: int) -> Links:
        sources = self.pcea.sources
        numbers = {store: i for i, store in enumerate(self.stores)}
        stores = self._asked_stores()
        asking = [*(s.link for s in sources), *_list_fits(self.pcea)]
        return Links(
            store=_ints([numbers[store] for store in stores]),
            operator=_ints([find_operator(link, find_order(link)) for link in asking]),
            kind=_ints([s.kind for s in self.stores]),
            width=_ints([len(s.values) for s in self.stores]),
            steps=sequences(width),
            conditions=self._conditions(),
            bounds=self._bounds(),
            since=_ints([self.facts.index((SINCE, 0))] if self.is_timed else []),
            own=_ints([self.facts.index((OWN, 0))] if self.has_middles else []),
            once=_flags([bool(s.link.once) for s in sources]),
            rays=self._find_rays(),
        )

    def _bounds(self) -> SumBounds:
        index = {name: len(self.ordered) + i for i, name in enumerate(self.weights)}
        facts = [
            -1 if b.attribute is None else self.facts.index((HIGH, index[b.attribute]))
            for b in self.bounds
        ]
        counted = [b.variable for b in self.bounds]
        marks = [[name is None or name in label for name in counted] for label in self.labels]
        return SumBounds(
            fact=_ints(facts),
            sign=np.array([b.sign for b in self.bounds], np.float64),
            limit=np.array([b.limit for b in self.bounds], np.float64),
            counts=np.array(marks, np.uint8).reshape(len(self.labels), len(self.bounds)),
            extreme=_flags([b.is_extreme for b in self.bounds]),
            terms=_ints([b.terms for b in self.bounds]),
        )

    def _conditions(self) -> FarConditions:
        number = {fact: i for i, fact in enumerate(self.facts)}
        facts = [
            [number[_fact(a.op, name, self.columns, self.ordered)] for a, name in sides]
            for sides in (
                [(a, a.attribute) for a in self.apart],
                [(a, a.other_attribute) for a in self.apart],
            )
        ]
        return FarConditions(
            operator=_ints([OPERATORS[a.op] for a in self.apart]),
            left=_ints(facts[0]),
            right=_ints(facts[1]),
            on_left=self._marks([a.variable for a in self.apart]),
            on_right=self._marks([a.other for a in self.apart]),
        )

    def _marks(self, variables: list[str]) -> NDArray[np.uint8]:
        """Return, per label and variable, whether the label has the variable."""
        marks = [[name in labels for name in variables] for labels in self.labels]
        return np.array(marks, np.uint8).reshape(len(self.labels), len(variables))

    def _pad(self, attributes: list[list[str]], width: int) -> NDArray[np.int32]:
        padded = np.full((len(attributes), width), -1, np.int32)
        for row, names in enumerate(attributes):
            padded[row, : len(names)] = [self.columns[(name,)] for name in names]
        return padded


def find_operator(link: Link, order: Ordered | None) -> int:
    """Return how a link asks a search tree; -1: it asks none."""
    if link.is_next:
        return EQUAL
    if order is not None:
        if link.is_range and (link.ray is not None or not order.earlier.endswith(NUMBER)):
            one, other = (each.op in ("<", ">") for each in link.ordered)
            return IN_ENDS + 2 * one + other
        return IN_SPAN if link.is_span else IN_GAP if link.is_range else OPERATORS[order.op]
    if link.after_last is not None:
        return EQUAL if link.after_last == "first" else OPERATORS[">="]
    return -1 if link.gap is None and not is_grouped(link) else IN_GAP


def find_ends(link: Link) -> tuple[int, int]:
    """Return what is added to the two words that a link asks for, if an end is left out."""
    if not link.is_span:
        return 0, 0
    one, other = (order.op in ("<", ">") for order in link.ordered)
    return -one, int(other)


def _list_fits(pcea: PCEA) -> list[Link]:
    """Return the links by which events of later stages fit the runs that wait."""
    stages = [stage for link in _links_of(pcea) for stage in link.once]
    return [stage.fits for stage in stages if stage.fits is not None]


def _is_ray(transition: Transition) -> bool:
    """Return whether a transition reads a ray of a star, which begins anywhere."""
    links = [source.link for source in transition.sources]
    return any(link.ray for link in links) and not any(
        link.is_centre and link.ray is None for link in links
    )


def _find_later(pcea: PCEA) -> frozenset[int]:
    """Return the states whose runs have more than one event."""
    return frozenset(t.target for t in pcea.transitions if t.sources)


def _begins(transition: Transition, timed: frozenset[int]) -> bool:
    """Return whether a transition begins a part that has a WITHIN of its own."""
    return transition.target in timed and not any(s.link.since for s in transition.sources)


def _find_leaving(link: Link) -> int:
    """Return which runs an event that takes the link takes out of the index."""
    if link.arrow is None or link.again:
        return NO_RUN
    return ALL_RUNS if find_order(link) is None else RUNS_IN_RANGE


def _units(gaps: Sequence[Gap | None]) -> NDArray[np.int32]:
    return _ints([NO_GAP if gap is None else _GAP_UNITS[gap.unit] for gap in gaps])


def _ints(numbers: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int32]:
    return np.asarray(numbers, np.int32)


def _flags(booleans: Sequence[int]) -> NDArray[np.uint8]:
    return np.array(booleans, np.uint8)


def _links_of(pcea: PCEA) -> list[Link]:
    return [source.link for source in pcea.sources]


CODE, HIGH, LOW, SINCE, OWN, STAGE = range(6)
_ORDERS = frozenset({"<", "<=", ">", ">="})

Fact = tuple[int, int]


def _fact(op: str, name: str, columns: Mapping[Column, int], ordered: Sequence[str]) -> Fact:
    """Return the (first) fact that a side of a condition compares."""
    return (HIGH, ordered.index(name)) if op in _ORDERS else (CODE, columns[(name,)])


def _facts(
    apart: Iterable[Apart],
    columns: Mapping[Column, int],
    ordered: Sequence[str],
    weights: Sequence[str],
) -> tuple[Fact, ...]:
    """Return the facts that vertices keep; low words follow their high words.

    Weights are rows of high words after those of the ordered attributes.
    """
    found: dict[Fact, None] = {}
    for condition in apart:
        for name in (condition.attribute, condition.other_attribute):
            fact = _fact(condition.op, name, columns, ordered)
            if fact not in found:
                found[fact] = None
                if fact[0] == HIGH:
                    found[LOW, fact[1]] = None
    found |= {(HIGH, len(ordered) + i): None for i in range(len(weights))}
    return tuple(found)


def _domains(
    pcea: PCEA, apart: Iterable[Apart] = (), removals: Iterable[Removal] = ()
) -> tuple[tuple[Column, ...], ...]:
    """Group the columns that are compared with each other.

    >>> from cernis.automata.unary.cea import ANYTHING
    >>> from cernis.automata.correlated.pcea import RunSource, Transition
    >>> link = Link(equal=(("id", "reply"),))
    >>> loop = Transition((RunSource(0, link),), ANYTHING, frozenset(), 0)
    >>> _domains(PCEA(("a",), (loop,), frozenset({0})))
    ((('id',), ('reply',)),)
    """
    compared: list[tuple[Column, Column]] = []
    for link in _links_of(pcea):
        compared.append(pair_columns(link.equal))
        compared += [pair_columns(stage.equal) for stage in link.once]
        compared += [((a,), (b,)) for a, b in (*link.different, *link.unlike)]
    compared += [((a.attribute,), (a.other_attribute,)) for a in apart if a.op not in _ORDERS]
    compared += [(one.store.column, one.column) for one in removals if one.column is not None]
    compared += [(r.groups.column, r.group_column) for r in removals if r.groups is not None]
    together: dict[Column, list[Column]] = {}
    for left, right in compared:
        ours = together.setdefault(left, [left])
        theirs = together.setdefault(right, [right])
        if ours is not theirs:
            ours += theirs
            for column in theirs:
                together[column] = ours
    distinct = {id(columns): columns for columns in together.values()}
    return tuple(tuple(columns) for columns in distinct.values())
