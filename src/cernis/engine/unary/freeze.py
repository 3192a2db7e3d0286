"""The state of the unary runtime as declared records, and back.

States and label sets are written by their meaning (configurations, variable names), not by their
numbers, so another process that has met states in another order can thaw them. The records below
declare the type and bounds of everything that is frozen (`cernis.state`), and their methods `check`
have the relations between them: the kernels trust their arrays.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.alphabet import MOST_SYMBOLS, Alphabet
from cernis.automata.unary.cea import Test
from cernis.automata.unary.determinize import MARK, MOST_STATES, Deterministic, State
from cernis.automata.unary.runs import Configuration
from cernis.compiled import kernel
from cernis.engine.settings import CONSUME_PARTITION, FOREVER
from cernis.engine.unary import arena as a
from cernis.engine.unary import stacks
from cernis.engine.unary.aggregate import SlidingAggregator
from cernis.engine.unary.arena import NODE, UNION
from cernis.engine.unary.collect import link_starts
from cernis.engine.unary.runtime import UnaryEngine, enlarge_slots
from cernis.engine.unary.semiring import Pool, Weights
from cernis.engine.unary.stacks import LOGGED, LOGGED_EVENT, ROW, WORDS, SlidingMemory
from cernis.engine.unary.tables import UnaryTables
from cernis.errors import StateError
from cernis.state import (
    MOST_EVENTS,
    Sizes,
    Tree,
    array,
    at_least_one,
    check_number,
    declare,
    frozen_record,
    is_inside,
    listed,
    nested,
    number,
    optional,
    read,
    require,
    text,
    write,
)

Ints = NDArray[np.int64]

_MOST_RESIDUES = 1 << 12
_PER_ROW = ("key_of_row", "row_ordinal", "row_epoch", "row_bound")


# -------------------------------------------------------- states and labels


class _WrittenState:
    """A state of an automaton, as the configurations that it stands for."""

    def write(self, value: State) -> Any:
        return [sorted(map(_write_configuration, part), key=repr) for part in value]

    def read(self, written: Any, name: str, sizes: Sizes) -> State:
        try:
            return State(*(frozenset(map(_read_configuration, part)) for part in written))
        except (TypeError, ValueError, RecursionError) as error:
            raise StateError(f"the frozen state is damaged: {name!r} cannot be read") from error


def _write_configuration(configuration: Configuration) -> list[Any]:
    return [
        configuration.state,
        [
            None if guard is None else sorted(map(_write_configuration, guard), key=repr)
            for guard in configuration.guards
        ],
        [None if part is None else _write_configuration(part) for part in configuration.parts],
    ]


def _read_configuration(written: list[Any]) -> Configuration:
    state, guards, parts = written
    return Configuration(
        check_number(state, "a state"),
        tuple(None if g is None else frozenset(map(_read_configuration, g)) for g in guards),
        tuple(None if p is None else _read_configuration(p) for p in parts),
    )


def _check_states(automaton: Deterministic, states: Sequence[State]) -> None:
    """Refuse states that the automaton cannot be in."""
    try:
        sound = all(map(automaton.is_possible, states))
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError("the frozen state is damaged: 'states' cannot be read") from error
    require(
        sound and len(states) == len(set(states)) <= MOST_STATES, "the query has no such states"
    )


def _list_labels(automaton: Deterministic) -> frozenset[str]:
    """Return the labels that an automaton writes."""
    return automaton.selected | ({MARK} if automaton.keep_marks else set())


def _read_labels(known: frozenset[str], labels: Sequence[Sequence[str]]) -> list[frozenset[str]]:
    """Return label sets, of known labels; the first is empty."""
    sets = [frozenset(names) for names in labels]
    require(
        sets[:1] == [frozenset()]
        and len(sets) == len(set(sets))
        and all(names <= known for names in sets),
        "the query has no such labels",
    )
    return sets


# ----------------------------------------------------------- partial matches


_EVENTS = at_least_one("position")
"""The positions of events that were read; node 0 has the position 0 before there is any."""


def _list_earlier(sizes: Sizes) -> Ints:
    """Return how many nodes come before each node; node 0 leads to itself."""
    return np.maximum(np.arange(sizes["nodes"]), 1)


@frozen_record
class FrozenFirsts:
    """The earliest start of the partial matches of each row and state."""

    start: Ints = array(np.int64, "rows", "states")
    position: Ints = array(np.int64, "rows", "states", low=0, below=_EVENTS)


@frozen_record
class FrozenMatches:
    """The partial matches of an engine, without the meaning of its states."""

    position: int = number(0, MOST_EVENTS)
    bound: int = number()
    labels: list[list[str]] = listed(listed(text()))
    arena: NDArray[np.void] = array(
        NODE,
        "nodes",
        columns={
            "position": (0, _EVENTS),
            "label": (UNION, "labels"),
            "left": (0, _list_earlier),
            "right": (0, _list_earlier),
        },
    )
    slots: NDArray[np.int32] = array(np.int32, "rows", "states", low=0, below="nodes")
    row_of_key: NDArray[np.int32] = array(np.int32, "keys", low=-1, below="rows")
    key_of_row: Ints = array(np.int64, "rows", low=-1, below="keys")
    row_ordinal: Ints = array(np.int64, "rows", low=0, below="position+1")
    epoch: int = number(0, MOST_EVENTS)
    row_epoch: Ints = array(np.int64, "rows", low=0, below="epoch+1")
    row_bound: Ints = array(np.int64, "rows")
    free_rows: Ints = array(np.int64, "free", low=0, below="rows")
    relevant: int = number(0, "position+1")
    consumed: Ints = array(np.int64, "consumers", low=-1, below=_EVENTS)
    earliest: FrozenFirsts | None = optional(nested(FrozenFirsts))

    def check(self, sizes: Sizes) -> None:
        require(len(self.row_of_key) > 0 and len(self.consumed) > 0, "its rows are missing")
        _check_arena(self.arena)
        require(not self.slots[self.free_rows].any(), "a free row has partial matches")


def _check_arena(nodes: NDArray[np.void]) -> None:
    """A node comes after its children, which start no later and end no later."""
    require(len(nodes) > 0, "'arena' has no first node")
    start, at, label = nodes["start"], nodes["position"], nodes["label"]
    left, right = nodes["left"], nodes["right"]
    unions, has_left, has_right = label == UNION, left != 0, right != 0
    require(
        start[0] == FOREVER
        and not label[0]
        and bool((has_left & has_right)[unions].all())
        and bool((start == start[left])[has_left].all())
        and bool((at > at[left])[has_left & ~unions].all())
        and bool((at >= at[left])[unions].all())
        and bool(((start >= start[right]) & (at >= at[right]))[has_right].all()),
        "a node of 'arena' does not follow from those below it",
    )


def _check_partitions(
    partitioned: bool, key_of_row: Ints, row_of_key: NDArray[np.int32], free: Ints
) -> None:
    """A row is free, or belongs to the partition that leads to it."""
    used, keys = np.flatnonzero(key_of_row != -1), np.flatnonzero(row_of_key != -1)
    if partitioned:
        times = np.bincount(np.concatenate([free, used]), minlength=len(key_of_row))
        sound = (
            bool((times == 1).all())
            and len(used) == len(keys)
            and bool((row_of_key[key_of_row[used]] == used).all())
        )
    else:
        sound = len(key_of_row) == 1 and not len(used) and not len(keys) and not len(free)
    require(sound, "rows and partitions do not belong to each other")


@frozen_record
class FrozenUnary(FrozenMatches):
    """The state of an engine of one automaton."""

    states: list[State] = listed(declare(_WrittenState()), "states")


def _describe(engine: UnaryEngine, columns: Any) -> dict[str, Any]:
    """Return the fields of `FrozenMatches`, with these columns of slots."""
    memory, firsts = engine.memory, None
    if engine.earliest_starts is not None:
        known = engine.earliest_starts.of_slot[:, columns]
        firsts = FrozenFirsts(known["start"], known["position"])
    return {
        "position": engine.position,
        "bound": engine.bound,
        "arena": memory.arena[: engine.records],
        "slots": memory.slots[:, columns],
        "row_of_key": memory.row_of_key,
        **{name: getattr(memory, name) for name in _PER_ROW},
        "epoch": memory.counters[a.EPOCH],
        "free_rows": memory.free_rows[: memory.counters[a.FREE_ROWS]],
        "relevant": memory.counters[a.RELEVANT],
        "consumed": engine.consumed,
        "earliest": firsts,
    }


def freeze_unary(engine: UnaryEngine) -> Tree:
    """Return the state of an engine that has just been collected."""
    used, tables = np.flatnonzero(engine.memory.slots.any(axis=0)), engine.tables
    return write(
        FrozenUnary(
            **_describe(engine, used),
            labels=[sorted(names) for names in tables.labels],
            states=[tables.automaton.states[state] for state in used],
        )
    )


def read_unary(automaton: Deterministic, tree: Tree) -> FrozenUnary:
    """Return the state of an engine, if the automaton could be in it."""
    frozen = read(FrozenUnary, tree)
    _check_states(automaton, frozen.states)
    _read_labels(_list_labels(automaton), frozen.labels)
    return frozen


def is_known(tables: UnaryTables, frozen: FrozenUnary) -> bool:
    """Return whether the tables have all states and labels of a frozen engine."""
    labels = {frozenset(names) for names in frozen.labels}
    return all(map(tables.automaton.knows, frozen.states)) and labels <= frozenset(tables.labels)


def thaw_unary(engine: UnaryEngine, frozen: FrozenUnary) -> None:
    """Put a fresh engine of the same query into a frozen state.

    The tables of the engine learn the states and labels of the frozen one: they must not be
    shared with others, unless they know these (`is_known`).
    """
    _check_engine(engine, frozen)
    tables = engine.tables
    columns = tables.number_states(frozen.states)
    slots = enlarge_slots(frozen.slots[:, :0], len(frozen.slots), len(tables.arrays.expanded))
    slots[:, columns] = frozen.slots
    firsts = np.zeros(slots.shape, a.FIRST)
    if frozen.earliest is not None:
        firsts["start"][:, columns] = frozen.earliest.start
        firsts["position"][:, columns] = frozen.earliest.position
    labels = np.array([tables.label(frozenset(names)) for names in frozen.labels], np.int32)
    _restore(engine, frozen, slots, firsts, labels)


def _check_engine(engine: UnaryEngine, frozen: FrozenMatches) -> None:
    """Refuse the state of an engine with other settings."""
    settings = engine.settings
    _check_partitions(settings.partitioned, frozen.key_of_row, frozen.row_of_key, frozen.free_rows)
    require(
        settings.consume != CONSUME_PARTITION or len(frozen.consumed) == len(frozen.row_of_key),
        "the counts of its rows do not agree",
    )
    require(
        (frozen.earliest is None) == (engine.earliest_starts is None),
        "the earliest starts are missing",
    )


def _restore(
    engine: UnaryEngine,
    frozen: FrozenMatches,
    slots: NDArray[np.int32],
    firsts: NDArray[np.void],
    labels: NDArray[np.int32],
) -> None:
    """Give an engine frozen partial matches, with new numbers of their labels."""
    nodes = frozen.arena
    items = nodes["label"] != UNION
    nodes["label"][items] = labels[nodes["label"][items]]
    arena = engine.memory.arena
    if len(nodes) > len(arena):
        arena = np.concatenate([nodes, np.zeros(len(nodes), NODE)])
    arena[: len(nodes)] = nodes
    counters, free_rows = a.new_counters(), np.zeros(len(slots), np.int64)
    counters[a.NODES], counters[a.FREE_ROWS] = len(nodes), len(frozen.free_rows)
    counters[a.EPOCH], counters[a.RELEVANT] = frozen.epoch, frozen.relevant
    free_rows[: len(frozen.free_rows)] = frozen.free_rows
    engine.position, engine.bound, engine.consumed = frozen.position, frozen.bound, frozen.consumed
    engine.memory = engine.memory._replace(
        arena=arena,
        slots=slots,
        counters=counters,
        row_of_key=frozen.row_of_key,
        free_rows=free_rows,
        **{name: getattr(frozen, name) for name in _PER_ROW},
    )
    if engine.earliest_starts is not None:
        engine.earliest_starts = engine.earliest_starts._replace(of_slot=firsts)
        engine.fit_earliest()
        link_starts(arena, len(nodes))
    engine.fit_tables()


# -------------------------------------------------------------------- bundles


@frozen_record
class FrozenUnit:
    """The states of one automaton of a bundle, and the columns of slots that they have."""

    owner: int = number()
    columns: list[int] = listed(number(0, "states"))
    states: list[State] = listed(declare(_WrittenState()), "columns")

    def check(self, sizes: Sizes) -> None:
        require(len(self.columns) == len({*self.columns}), "two states have one column")


@frozen_record
class FrozenBundle(FrozenMatches):
    """The state of an engine of many automata; rows have owners."""

    owners: Ints = array(np.int64, "rows", low=-1, below=1 << 31)
    units: list[FrozenUnit] = listed(nested(FrozenUnit))

    def check(self, sizes: Sizes) -> None:
        super().check(sizes)
        require(
            sizes["states"] < MOST_STATES
            and len(self.units) == len({unit.owner for unit in self.units}),
            "a rule comes twice",
        )


def freeze_bundle(
    engine: UnaryEngine,
    owners: Ints,
    automata: Mapping[int, Deterministic],
    labels: Sequence[frozenset[str]],
) -> Tree:
    """Return the state of the engine of a bundle; rows and automata have owners."""
    rows, columns = np.nonzero(engine.memory.slots)
    width = int(columns.max(initial=-1)) + 1
    used: dict[int, list[int]] = {}
    for pair in np.unique(owners[rows] * max(width, 1) + columns).tolist():
        owner, column = divmod(pair, max(width, 1))
        used.setdefault(owner, []).append(column)
    return write(
        FrozenBundle(
            **_describe(engine, slice(width)),
            labels=[sorted(names) for names in labels],
            owners=owners,
            units=[
                FrozenUnit(owner, own, [automata[owner].states[column] for column in own])
                for owner, own in used.items()
            ],
        )
    )


def read_bundle(tree: Tree, automata: Mapping[int, Deterministic]) -> FrozenBundle:
    """Return the state of the engine of a bundle, if these automata could be in it."""
    frozen = read(FrozenBundle, tree)
    for unit in frozen.units:
        require(unit.owner in automata, "it has the states of another rule")
        _check_states(automata[unit.owner], unit.states)
    known = frozenset[str]().union(*(_list_labels(each) for each in automata.values()))
    _read_labels(known, frozen.labels)
    return frozen


def list_unknown(frozen: FrozenBundle, automata: Mapping[int, Deterministic]) -> list[int]:
    """Return the owners of automata that have not met all of their frozen states."""
    return [
        unit.owner for unit in frozen.units if not all(map(automata[unit.owner].knows, unit.states))
    ]


def thaw_bundle(
    engine: UnaryEngine,
    frozen: FrozenBundle,
    states: Mapping[int, Sequence[int]],
    labels: Sequence[int],
) -> None:
    """Put a fresh engine of the same bundle into a frozen state.

    `states` are the numbers of the states of each owner, `labels` those of the label sets.
    """
    _check_engine(engine, frozen)
    width = max(frozen.slots.shape[1], 1)
    slots = enlarge_slots(
        frozen.slots[:, :0], len(frozen.slots), len(engine.tables.arrays.expanded)
    )
    rows, columns = np.nonzero(frozen.slots)
    known = {
        unit.owner * width + column: state
        for unit in frozen.units
        for column, state in zip(unit.columns, states[unit.owner], strict=True)
    }
    distinct, back = np.unique(frozen.owners[rows] * width + columns, return_inverse=True)
    require(all(pair in known for pair in distinct.tolist()), "a partition has no such state")
    targets = np.array([known[pair] for pair in distinct.tolist()], np.int64)[back.reshape(-1)]
    slots[rows, targets] = frozen.slots[rows, columns]
    firsts = np.zeros(slots.shape, a.FIRST)
    if frozen.earliest is not None:
        firsts["start"][rows, targets] = frozen.earliest.start[rows, columns]
        firsts["position"][rows, targets] = frozen.earliest.position[rows, columns]
    _restore(engine, frozen, slots, firsts, np.array(labels, np.int32))


# ----------------------------------------------------------------- aggregates


@frozen_record
class FrozenWeights:
    """The values of the events in the log."""

    sums: Ints = array(np.int64, "logged", "weighed_sums")
    floats: NDArray[np.float64] = array(np.float64, "logged", "weighed_floats")
    leasts: Ints = array(np.int64, "logged", "weighed_leasts")


@frozen_record
class FrozenAggregates:
    """The state of an aggregator."""

    position: int = number(0, MOST_EVENTS)
    bound: int = number()
    moduli: int = number(1, _MOST_RESIDUES)
    states: list[State] = listed(declare(_WrittenState()))
    symbols: list[list[int]] = listed(listed(number(0, "tests")))
    words: Ints = array(np.int64, "used")
    log: NDArray[np.void] = array(
        LOGGED_EVENT, "logged", columns={"before": (-1, "logged"), "symbol": (0, "symbols")}
    )
    weights: FrozenWeights = nested(FrozenWeights)
    row_of_key: NDArray[np.int32] = array(np.int32, "keys", low=-1)
    rows: NDArray[np.void] = array(
        ROW,
        "partitions",
        columns={
            "key": (-1, "keys"),
            "size": (1, "used+1"),
            "fronts": (0, "used"),
            "last": (-1, "logged"),
            "ordinal": (0, "position+1"),
            "scale": (0, 1 << 20),
        },
    )
    places: Ints = array(np.int64, "partitions", "states", low=0, below="used")
    firsts: Ints | None = optional(array(np.int64, "partitions", "states", low=0))
    free_rows: Ints = array(np.int64, "free", low=0, below="partitions")
    relevant: int = number(0, "position+1")

    def check(self, sizes: Sizes) -> None:
        require(
            len(self.words) > 0
            and len(self.rows) > 0
            and len(self.symbols) <= MOST_SYMBOLS
            and is_inside(self.row_of_key, below=len(self.rows)),
            "the counts of its rows do not agree",
        )
        before, last = self.log["before"], self.rows["last"]
        followed = np.bincount(np.concatenate([before[before >= 0], last[last >= 0]]), minlength=1)
        require(
            bool(((before == -1) | (before > np.arange(len(before)))).all())
            and int(followed.max()) <= 1
            and bool((_count_begun(self.log, last) == self.rows["begun"]).all()),
            "the events of its partitions are mixed up",
        )


@kernel
def _count_begun(log, last):
    """Count the events of each partition that begin a match; chains of events end."""
    begun = np.zeros(len(last), np.int64)
    for row in range(len(last)):
        event = last[row]
        while event >= 0:
            begun[row] += log[event]["begins"] != 0
            event = log[event]["before"]
    return begun


def freeze_sliding(engine: SlidingAggregator) -> Tree:
    """Return the state of an aggregator that has just been collected."""
    memory, automaton = engine.memory, engine.tables.automaton
    # the events of the log lead through states that may hold no partial match by now
    used = np.flatnonzero(engine.tables.arrays.expanded[: memory.offsets.shape[1]])
    tests = {test: index for index, test in enumerate(automaton.alphabet.tests)}
    logged, log_weights = memory.counters[LOGGED], cast(tuple[Any, ...], memory.log_weights)
    return write(
        FrozenAggregates(
            position=engine.position,
            bound=engine.bound,
            moduli=len(engine.lanes.moduli.primes),
            states=[automaton.states[state] for state in used],
            symbols=[
                sorted(tests[test] for test in passed) for passed in automaton.alphabet.passed
            ],
            words=memory.pool.words[: memory.counters[WORDS]],
            log=memory.log[:logged],
            weights=FrozenWeights(*(weights[:logged] for weights in log_weights)),
            row_of_key=memory.row_of_key,
            rows=memory.rows,
            places=memory.offsets[:, used],
            firsts=memory.firsts[:, used] if engine.lanes.ranks else None,
            free_rows=memory.free_rows[: memory.counters[stacks.FREE_ROWS]],
            relevant=memory.counters[stacks.RELEVANT],
        )
    )


def thaw_sliding(engine: SlidingAggregator, tree: Tree) -> None:
    """Put a fresh aggregator of the same query into a frozen state.

    Its tables must not be shared with others, as those of `thaw_unary`.
    """
    tables, alphabet = engine.tables, engine.tables.automaton.alphabet
    fresh = engine.memory.log_weights
    frozen = read(
        FrozenAggregates,
        tree,
        tests=len(alphabet.tests),
        **{f"weighed_{name}": getattr(fresh, name).shape[1] for name in Weights._fields},
    )
    _check_states(tables.automaton, frozen.states)
    _check_vectors(engine, frozen)
    symbols = _number_symbols(alphabet, frozen.symbols)
    tables.add_symbols()
    columns = tables.number_states(frozen.states)
    offsets = np.zeros((len(frozen.rows), len(tables.arrays.expanded)), np.int64)
    firsts = np.zeros_like(offsets)
    offsets[:, columns] = frozen.places
    if frozen.firsts is not None:
        firsts[:, columns] = frozen.firsts
    frozen.log["symbol"] = symbols[frozen.log["symbol"]]
    frozen.rows["spare"] = 0
    counters, free_rows = np.zeros_like(engine.memory.counters), np.zeros(len(offsets), np.int64)
    counters[WORDS], counters[LOGGED] = len(frozen.words), len(frozen.log)
    counters[stacks.FREE_ROWS] = len(frozen.free_rows)
    counters[stacks.RELEVANT] = frozen.relevant
    free_rows[: len(frozen.free_rows)] = frozen.free_rows
    engine.position, engine.bound = frozen.position, frozen.bound
    reach = np.where(offsets != 0, frozen.rows["size"][:, None], 0)
    weights = frozen.weights
    engine.restore(
        SlidingMemory(
            counters=counters,
            pool=Pool(frozen.words, frozen.words.view(np.float64)),
            log=frozen.log,
            log_weights=Weights(weights.sums, weights.floats, weights.leasts),
            rows=frozen.rows,
            offsets=offsets,
            reach=reach,
            sum_reach=reach.copy(),
            loads=np.ones_like(offsets),
            firsts=firsts,
            row_of_key=frozen.row_of_key,
            free_rows=free_rows,
        ),
        engine.new_lanes(frozen.moduli),
    )


def _number_symbols(alphabet: Alphabet, symbols: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return the numbers of symbols that are written as the tests that they pass."""

    def find_tests(numbers: Sequence[int]) -> frozenset[Test]:
        return frozenset(alphabet.tests[index] for index in numbers)

    return np.array([alphabet.symbol_of(find_tests(numbers)) for numbers in symbols], np.int32)


def _check_vectors(engine: SlidingAggregator, frozen: FrozenAggregates) -> None:
    """Vectors lie inside the pool, with sound bounds before them; free rows have none."""
    lanes, rows, offsets = engine.new_lanes(frozen.moduli), frozen.rows, frozen.places
    used, vector = len(frozen.words), lanes.words * rows["size"]
    _check_partitions(engine.settings.partitioned, rows["key"], frozen.row_of_key, frozen.free_rows)
    taken = offsets != 0
    front, fronts, stride = rows["front"], rows["fronts"], 1 + vector + lanes.ranks * rows["size"]
    require(
        is_inside(offsets[taken], lanes.header + 1)
        and bool((offsets + vector[:, None] <= used)[taken].all())
        and is_inside(front[fronts > 0], 1, used)
        and bool((front + fronts * stride <= used)[fronts > 0].all())
        and not offsets[frozen.free_rows].any()
        and bool(lanes.ranks) == (frozen.firsts is not None),
        "a vector lies outside",
    )
    headers = offsets[taken][:, None] - np.arange(1, lanes.header + 1)
    bounds = frozen.words.view(np.float64)[headers]
    require(bool((np.isfinite(bounds) & (bounds >= 0)).all()), "a bound is no number")
