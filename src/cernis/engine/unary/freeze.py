"""The state of an engine as versioned bytes, and back.

Layout: magic, version, checksum, length of a JSON header, the header, then the bytes of the
arrays. Nothing in it is code: thawing reads numbers and names only. The kernels trust their arrays,
so `thaw_unary` checks all of them first (`cernis.state`).

States and label sets are written by their meaning (configurations, variable names), not by
their numbers, so another process that has met states in another order can thaw them.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

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
from cernis.engine.unary.residue import prime_moduli
from cernis.engine.unary.runtime import UnaryEngine, enlarge_slots
from cernis.engine.unary.semiring import Lanes, Pool, Weights
from cernis.engine.unary.stacks import LOGGED, LOGGED_EVENT, ROW, WORDS, SlidingMemory
from cernis.engine.unary.tables import UnaryTables
from cernis.errors import StateError
from cernis.state import (
    ABOVE,
    LOWEST,
    MOST_EVENTS,
    Arrays,
    check_list,
    check_number,
    check_text,
    is_inside,
    read_array,
    require,
)

MAGIC = b"CERNIS\n\x00"
VERSION = 1
_HEAD = struct.Struct("<8sHIQ")
_PLAIN = ("|u1", "<i2", "<i4", "<i8", "<f8", LOGGED_EVENT.str, ROW.str)
_KINDS: dict[str, np.dtype[Any]] = {"node": NODE, **{name: np.dtype(name) for name in _PLAIN}}
"""The types of arrays, by their names in the header."""

_PER_ROW = ("key_of_row", "row_ordinal", "row_epoch", "row_bound", "free_rows")

_EARLIEST = ("start", "position")

_MOST_RESIDUES = 1 << 12


def pack(meta: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return a header and arrays as one string of bytes."""
    described, blobs = [], []
    for name, array in arrays.items():
        flat = np.ascontiguousarray(array)
        kind = "node" if flat.dtype == NODE else flat.dtype.str
        described.append([name, kind, list(flat.shape), flat.nbytes])
        blobs.append(flat.tobytes())
    header = json.dumps({"meta": dict(meta), "arrays": described}).encode()
    body = header + b"".join(blobs)
    return _HEAD.pack(MAGIC, VERSION, zlib.crc32(body), len(header)) + body


def unpack(frozen: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what `pack` got; raise StateError for other bytes."""
    if not isinstance(frozen, bytes | bytearray | memoryview) or bytes(frozen[:8]) != MAGIC:
        raise StateError("these bytes are not a frozen Cernis state")
    require(len(frozen) >= _HEAD.size, "its header cannot be read")
    _, version, checksum, length = _HEAD.unpack_from(frozen)
    if version != VERSION:
        raise StateError(
            f"the state was frozen in version {version} of the format, and this Cernis reads "
            f"version {VERSION}; thaw it with the Cernis that froze it, or run the query on the "
            "stream from its beginning"
        )
    body = memoryview(frozen)[_HEAD.size :]
    if zlib.crc32(body) != checksum or length > len(body):
        raise StateError("the frozen state is damaged: its checksum does not match")
    arrays: dict[str, NDArray[Any]] = {}
    at = length
    try:
        header = json.loads(bytes(body[:length]))
        meta, described = header["meta"], header["arrays"]
        for name, kind, shape, size in described:
            dtype = _KINDS[kind]
            sides = [check_number(side, "the shape of an array", 0) for side in shape]
            require(size == prod(sides) * dtype.itemsize, "an array has another size")
            require(isinstance(name, str) and name not in arrays, "an array comes twice")
            arrays[name] = np.frombuffer(body[at : at + size], dtype).reshape(sides).copy()
            at += size
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise StateError("the frozen state is damaged: its header cannot be read") from error
    require(isinstance(meta, dict) and at == len(body), "its parts do not fill it")
    return meta, arrays


def freeze_unary(engine: UnaryEngine) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of an engine that has just been collected, to be packed."""
    memory = engine.memory
    used = np.flatnonzero(memory.slots.any(axis=0))
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "states": [_write_state(engine.tables.automaton.states[s]) for s in used],
        "labels": [sorted(names) for names in engine.tables.labels],
    }
    arrays = {
        "arena": memory.arena[: engine.records],
        "counters": memory.counters,
        "slots": memory.slots[:, used],
        "consumed": engine.consumed,
        **{name: getattr(memory, name) for name in ("row_of_key", *_PER_ROW)},
    }
    if engine.earliest_starts is not None:
        known = engine.earliest_starts.of_slot[:, used]
        arrays |= {f"earliest.{name}": known[name] for name in _EARLIEST}
    return meta, arrays


def thaw_unary(engine: UnaryEngine, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Put a fresh engine of the same query into a frozen state.

    The tables of the engine learn the states and labels of the frozen one: they must not be
    shared with others, unless they know these (`is_known`).
    """
    tables = engine.tables
    position = check_number(meta.get("position"), "the position", 0, MOST_EVENTS)
    bound = check_number(meta.get("bound"), "the bound of the window")
    states = _read_states(tables.automaton, meta)
    labels = _read_labels(_list_labels(tables.automaton), meta)
    nodes = _read_arena(arrays, len(labels), position)
    counters, per_row = _read_rows(engine, arrays, len(states), len(nodes), position)

    columns = tables.number_states(states)
    used = per_row.pop("slots")
    slots = enlarge_slots(used[:, :0], len(used), len(tables.arrays.expanded))
    slots[:, columns] = used
    known = np.zeros(slots.shape, a.FIRST)
    if engine.earliest_starts is not None:
        first = None if "earliest.start" in per_row else _find_earliest(nodes)[used]
        for name in _EARLIEST:
            known[name][:, columns] = (
                per_row.pop(f"earliest.{name}") if first is None else nodes[name][first]
            )
    numbers = np.array([tables.label(names) for names in labels], np.int32)
    arena = _restore_arena(engine, nodes, numbers)
    engine.position, engine.bound, engine.consumed = position, bound, per_row.pop("consumed")
    engine.memory = engine.memory._replace(arena=arena, slots=slots, counters=counters, **per_row)
    if engine.earliest_starts is not None:
        engine.earliest_starts = engine.earliest_starts._replace(of_slot=known)
        engine.fit_earliest()
        link_starts(arena, len(nodes))
    engine.fit_tables()


def _restore_arena(
    engine: UnaryEngine, nodes: NDArray[np.void], labels: NDArray[np.int32]
) -> NDArray[np.void]:
    """Return an arena with these nodes, whose label sets have new numbers."""
    items = nodes["label"] != UNION
    nodes["label"][items] = labels[nodes["label"][items]]
    arena = engine.memory.arena
    if len(nodes) > len(arena):
        return np.concatenate([nodes, np.zeros(len(nodes), NODE)])
    arena[: len(nodes)] = nodes
    return arena


class FrozenUnit(NamedTuple):
    """The states of one automaton of a bundle, and the columns of slots that they have."""

    owner: int
    columns: list[int]
    states: list[State]


class FrozenUnits(NamedTuple):
    """The states of the automata of a bundle, and the label sets of all."""

    units: list[FrozenUnit]
    labels: list[frozenset[str]]
    width: int
    """The number of columns."""


def freeze_bundle(
    engine: UnaryEngine,
    owners: NDArray[np.int64],
    automata: Mapping[int, Deterministic],
    labels: Sequence[frozenset[str]],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of the engine of a bundle; rows and automata have owners."""
    memory = engine.memory
    rows, columns = np.nonzero(memory.slots)
    width = int(columns.max(initial=-1)) + 1
    pairs = np.unique(owners[rows] * max(width, 1) + columns).tolist()
    units: dict[int, list[Any]] = {}
    for owner, column in (divmod(pair, max(width, 1)) for pair in pairs):
        state = _write_state(automata[owner].states[column])
        units.setdefault(owner, []).append([column, state])
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "width": width,
        "units": [[owner, states] for owner, states in units.items()],
        "labels": [sorted(names) for names in labels],
    }
    arrays = {
        "arena": memory.arena[: engine.records],
        "counters": memory.counters,
        "slots": memory.slots[:, :width],
        "owners": owners,
        "consumed": engine.consumed,
        **{name: getattr(memory, name) for name in ("row_of_key", *_PER_ROW)},
    }
    if engine.earliest_starts is not None:
        known = engine.earliest_starts.of_slot[:, :width]
        arrays |= {f"earliest.{name}": known[name] for name in _EARLIEST}
    return meta, arrays


def read_units(meta: Mapping[str, Any], automata: Mapping[int, Deterministic]) -> FrozenUnits:
    """Return the states of the automata of a frozen bundle, if these could be in them."""
    width = check_number(meta.get("width"), "the number of states", 0, MOST_STATES)
    units = []
    for each in check_list(meta.get("units"), "'units'"):
        owner, written = check_list(each, "a unit", 2)
        require(type(owner) is int and owner in automata, "it has the states of another rule")
        pairs = [check_list(pair, "a state", 2) for pair in check_list(written, "'states'")]
        columns = [check_number(column, "a column", 0, width) for column, _ in pairs]
        states = _read_states(automata[owner], {"states": [state for _, state in pairs]})
        require(len(columns) == len({*columns}), "two states have one column")
        units.append(FrozenUnit(owner, columns, states))
    require(len(units) == len({unit.owner for unit in units}), "a rule comes twice")
    known = frozenset[str]().union(*(_list_labels(each) for each in automata.values()))
    return FrozenUnits(units, _read_labels(known, meta), width)


def list_unknown(frozen: FrozenUnits, automata: Mapping[int, Deterministic]) -> list[int]:
    """Return the owners of automata that have not met all of their frozen states."""
    return [
        unit.owner for unit in frozen.units if not all(map(automata[unit.owner].knows, unit.states))
    ]


def thaw_bundle(
    engine: UnaryEngine,
    meta: Mapping[str, Any],
    arrays: Arrays,
    frozen: FrozenUnits,
    numbers: tuple[Mapping[int, Sequence[int]], Sequence[int]],
) -> None:
    """Put a fresh engine of the same bundle into a frozen state.

    `numbers` are those of the states of each owner, and of the label sets.
    """
    position = check_number(meta.get("position"), "the position", 0, MOST_EVENTS)
    bound = check_number(meta.get("bound"), "the bound of the window")
    states, labels = numbers
    nodes = _read_arena(arrays, len(labels), position)
    counters, per_row = _read_rows(engine, arrays, frozen.width, len(nodes), position)
    used, consumed = per_row.pop("slots"), per_row.pop("consumed")
    owners = read_array(arrays, "owners", np.int64, (len(used),), low=-1, below=1 << 31)
    slots = enlarge_slots(used[:, :0], len(used), len(engine.tables.arrays.expanded))
    rows, columns = np.nonzero(used)
    pairs = owners[rows] * max(frozen.width, 1) + columns
    known = {
        unit.owner * frozen.width + column: number
        for unit in frozen.units
        for column, number in zip(unit.columns, states[unit.owner], strict=True)
    }
    distinct, back = np.unique(pairs, return_inverse=True)
    require(all(pair in known for pair in distinct.tolist()), "a partition has no such state")
    targets = np.array([known[pair] for pair in distinct.tolist()], np.int64)[back.reshape(-1)]
    slots[rows, targets] = used[rows, columns]
    earliest = np.zeros(slots.shape, a.FIRST)
    if engine.earliest_starts is not None:
        for name in _EARLIEST:
            require(f"earliest.{name}" in per_row, "the earliest starts are missing")
            earliest[name][rows, targets] = per_row.pop(f"earliest.{name}")[rows, columns]
    arena = _restore_arena(engine, nodes, np.array(labels, np.int32))
    engine.position, engine.bound, engine.consumed = position, bound, consumed
    engine.memory = engine.memory._replace(arena=arena, slots=slots, counters=counters, **per_row)
    if engine.earliest_starts is not None:
        engine.earliest_starts = engine.earliest_starts._replace(of_slot=earliest)
        engine.fit_earliest()
        link_starts(arena, len(nodes))
    engine.fit_tables()


def is_known(tables: UnaryTables, meta: Mapping[str, Any]) -> bool:
    """Return whether the tables have all states and labels of a frozen engine."""
    automaton = tables.automaton
    return all(map(automaton.knows, _read_states(automaton, meta))) and frozenset(
        _read_labels(_list_labels(automaton), meta)
    ) <= frozenset(tables.labels)


_LAYOUTS = {"residues": (0, 2, 1), "lanes": (1, 2, 0)}
"""How states of before order the integers of a vector, by the name of the number of residues: the
axes that have the quantities, the elements and the residues."""


def freeze_sliding(engine: SlidingAggregator) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of an aggregator that has just been collected, to be packed."""
    memory, alphabet = engine.memory, engine.tables.automaton.alphabet
    # the events of the log lead through states that may hold no partial match by now
    used = np.flatnonzero(engine.tables.arrays.expanded[: memory.places.shape[1]])
    tests = {test: number for number, test in enumerate(alphabet.tests)}
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "moduli": len(engine.lanes.moduli.primes),
        "states": [_write_state(engine.tables.automaton.states[s]) for s in used],
        "symbols": [sorted(tests[test] for test in passed) for passed in alphabet.passed],
    }
    logged = memory.counters[LOGGED]
    arrays = {
        "words": memory.pool.words[: memory.counters[WORDS]],
        "log": memory.log[:logged],
        **{f"log.{name}": getattr(memory.log_weights, name)[:logged] for name in Weights._fields},
        "places": memory.places[:, used],
        **{name: getattr(memory, name) for name in ("counters", "rows", "row_of_key", "free_rows")},
        **({"firsts": memory.firsts[:, used]} if engine.lanes.ranks else {}),
    }
    return meta, arrays


def thaw_sliding(engine: SlidingAggregator, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Put a fresh aggregator of the same query into a frozen state.

    Its tables must not be shared with others, as those of `thaw_unary`.
    """
    tables, alphabet = engine.tables, engine.tables.automaton.alphabet
    position = check_number(meta.get("position"), "the position", 0, MOST_EVENTS)
    bound = check_number(meta.get("bound"), "the bound of the window")
    layout = next((name for name in _LAYOUTS if name in meta), "moduli")
    written = meta.get(layout)
    residues = check_number(written, "the number of residues", 1, _MOST_RESIDUES)
    states = _read_states(tables.automaton, meta)
    passed = _read_symbols(alphabet, meta)
    typed = _read_sliding(engine, arrays, residues, len(states), len(passed), position)
    symbols = np.array([alphabet.symbol_of(tests) for tests in passed], np.int32)
    tables.add_symbols()
    columns = tables.number_states(states)
    places = np.zeros((len(typed["rows"]), len(tables.arrays.expanded)), np.int64)
    firsts = np.zeros_like(places)
    places[:, columns] = typed["places"]
    firsts[:, columns] = typed["firsts"]
    log, words = typed["log"], typed["words"]
    log["symbol"] = symbols[log["symbol"]]
    lanes = engine.new_lanes(residues)
    if layout == "residues" and residues > 1:
        lanes = lanes._replace(moduli=prime_moduli(residues))
    if layout in _LAYOUTS and lanes.floats > 1:
        _transpose_vectors(words, lanes, typed["rows"], typed["places"], _LAYOUTS[layout])
    engine.position, engine.bound = position, bound
    reach = np.where(places != 0, typed["rows"]["size"][:, None], 0)
    engine.restore(
        SlidingMemory(
            pool=Pool(words, words.view(np.float64)),
            log=log,
            log_weights=Weights(*(typed[f"log.{name}"] for name in Weights._fields)),
            places=places,
            reach=reach,
            sum_reach=reach.copy(),
            loads=np.ones_like(places),
            firsts=firsts,
            **{name: typed[name] for name in ("counters", "rows", "row_of_key", "free_rows")},
        ),
        lanes,
    )


def _transpose_vectors(
    words: NDArray[np.int64],
    lanes: Lanes,
    rows: NDArray[np.void],
    places: NDArray[np.int64],
    layout: tuple[int, int, int],
) -> None:
    """Put the residues of each number together, which states of before had apart."""
    residues = len(lanes.moduli.primes)
    for record, row in zip(rows, places, strict=True):
        size, integers = int(record["size"]), lanes.floats * int(record["size"])
        stride = 1 + lanes.words * size
        fronts = record["front"] + 1 + stride * np.arange(record["fronts"])
        for at in (*row[row != 0], *fronts):
            axes = np.array([lanes.quantities, size, residues])
            vector = words[at : at + integers].reshape(axes[np.argsort(layout)])
            words[at : at + integers] = vector.transpose(layout).ravel()


def _read_symbols(alphabet: Alphabet, meta: Mapping[str, Any]) -> list[frozenset[Test]]:
    """Return the tests that the symbols of a frozen aggregator pass."""
    tests = alphabet.tests
    symbols = check_list(meta.get("symbols"), "'symbols'")
    require(len(symbols) <= MOST_SYMBOLS, "it has too many symbols")
    return [
        frozenset(
            tests[check_number(test, "a test", 0, len(tests))]
            for test in check_list(symbol, "a symbol")
        )
        for symbol in symbols
    ]


def _read_sliding(
    engine: SlidingAggregator,
    arrays: Arrays,
    residues: int,
    states: int,
    symbols: int,
    position: int,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an aggregator: vectors inside the pool, chains of events that end."""
    typed: dict[str, NDArray[Any]] = {
        name: read_array(arrays, name, np.int64) for name in ("words", "free_rows")
    }
    for name, dtype in (("log", LOGGED_EVENT), ("rows", ROW)):
        typed[name] = read_array(arrays, name, np.dtype(dtype.str)).view(dtype)
    log, rows, used = typed["log"], typed["rows"], len(typed["words"])
    typed["row_of_key"] = read_array(arrays, "row_of_key", np.int32, low=-1, below=len(rows))
    typed["places"] = read_array(arrays, "places", np.int64, (len(rows), states), low=0, below=used)
    typed["firsts"] = np.zeros_like(typed["places"])
    if engine.lanes.ranks:
        typed["firsts"] = read_array(arrays, "firsts", np.int64, (len(rows), states), low=0)
    size = engine.memory.counters.size
    counters = typed["counters"] = read_array(arrays, "counters", np.int64, (size,))
    for name in Weights._fields:
        fresh = getattr(engine.memory.log_weights, name)
        shape = (len(log), fresh.shape[1])
        typed[f"log.{name}"] = read_array(arrays, f"log.{name}", fresh.dtype, shape)
    lanes = engine.new_lanes(residues)
    require(
        counters[WORDS] == used >= 1
        and counters[LOGGED] == len(log)
        and counters[stacks.ENDS] == 0
        and 0 <= counters[stacks.RELEVANT] <= position
        and 0 <= counters[stacks.FREE_ROWS] <= len(rows) > 0
        and is_inside(rows["size"], 1, used + 1)
        and is_inside(rows["ordinal"], 0, position + 1)
        and is_inside(rows["scale"], 0, 1 << 20)
        and is_inside(rows["fronts"], 0, used)
        and is_inside(rows["last"], -1, len(log))
        and is_inside(log["before"], -1, max(len(log), 1))
        and is_inside(log["symbol"], 0, symbols)
        and is_inside(typed["free_rows"], 0, len(rows))
        and len(typed["free_rows"]) == len(rows),
        "the counts of its rows do not agree",
    )
    free = typed["free_rows"][: counters[stacks.FREE_ROWS]]
    _check_partitions(engine.settings.partitioned, rows["key"], typed["row_of_key"], free)
    places, vector = typed["places"], lanes.words * rows["size"]
    taken = places != 0
    front, fronts, stride = rows["front"], rows["fronts"], 1 + vector + lanes.ranks * rows["size"]
    require(
        is_inside(places[taken], lanes.header + 1)
        and bool((places + vector[:, None] <= used)[taken].all())
        and is_inside(front[fronts > 0], 1, used)
        and bool((front + fronts * stride <= used)[fronts > 0].all())
        and not places[free].any(),
        "a vector lies outside",
    )
    headers = places[taken][:, None] - np.arange(1, lanes.header + 1)
    bounds = typed["words"].view(np.float64)[headers]
    before, last = log["before"], rows["last"]
    followed = np.bincount(np.concatenate([before[before >= 0], last[last >= 0]]), minlength=1)
    require(
        bool((np.isfinite(bounds) & (bounds >= 0)).all())
        and bool(((before == -1) | (before > np.arange(len(log)))).all())
        and int(followed.max()) <= 1
        and bool((_count_begun(log, last) == rows["begun"]).all()),
        "the events of its partitions are mixed up",
    )
    rows["spare"] = 0
    return typed


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


def _read_arena(arrays: Arrays, labels: int, position: int) -> NDArray[np.void]:
    """Return the nodes: each after its children, which start no later and end no later."""
    nodes = read_array(arrays, "arena", NODE)
    require(len(nodes) > 0, "'arena' has no first node")
    start, at, label = nodes["start"], nodes["position"], nodes["label"]
    left, right = nodes["left"], nodes["right"]
    unions = label == UNION
    below = np.maximum(np.arange(len(nodes)), 1)
    require(
        start[0] == FOREVER
        and not label[0]
        and is_inside(at, 0, max(position, 1))
        and is_inside(label, UNION, labels)
        and is_inside(left, 0, below)
        and is_inside(right, 0, below),
        "a node of 'arena' leads nowhere",
    )
    has_left, has_right = left != 0, right != 0
    require(
        bool((has_left & has_right)[unions].all())
        and bool((start == start[left])[has_left].all())
        and bool((at > at[left])[has_left & ~unions].all())
        and bool((at >= at[left])[unions].all())
        and bool(((start >= start[right]) & (at >= at[right]))[has_right].all()),
        "a node of 'arena' does not follow from those below it",
    )
    return nodes


def _read_rows(
    engine: UnaryEngine, arrays: Arrays, states: int, nodes: int, position: int
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Return the counters, and the arrays of rows and partitions."""
    settings = engine.settings
    counters = read_array(arrays, "counters", np.int64, (a.COUNTERS,))
    slots = read_array(arrays, "slots", np.int32, (None, states), low=0, below=nodes)
    rows = len(slots)
    row_of_key = read_array(arrays, "row_of_key", np.int32, low=-1, below=rows)
    key_of_row, ordinal, epoch, bound, free_rows = (
        read_array(arrays, name, np.int64, (rows,)) for name in _PER_ROW
    )
    consumed = read_array(arrays, "consumed", np.int64, low=-1, below=max(position, 1))
    fresh = a.new_counters()
    for place, below in (
        (a.NODES, nodes + 1),
        (a.FREE_ROWS, rows + 1),
        (a.EPOCH, MOST_EVENTS),
        (a.RELEVANT, position + 1),
    ):
        fresh[place] = check_number(int(counters[place]), "'counters'", 0, below)
    require(
        fresh[a.NODES] == nodes
        and is_inside(ordinal, 0, position + 1)
        and is_inside(epoch, 0, int(fresh[a.EPOCH]) + 1)
        and len(row_of_key) > 0
        and len(consumed) > 0
        and (settings.consume != CONSUME_PARTITION or len(consumed) == len(row_of_key)),
        "the counts of its rows do not agree",
    )
    require(is_inside(free_rows, 0, max(rows, 1)), "a row leads to no partition")
    free = free_rows[: fresh[a.FREE_ROWS]]
    _check_partitions(settings.partitioned, key_of_row, row_of_key, free)
    require(not slots[free].any(), "a free row has partial matches")
    per_row = dict(zip(_PER_ROW, (key_of_row, ordinal, epoch, bound, free_rows), strict=True))
    if settings.keeps_first and any(f"earliest.{name}" in arrays for name in _EARLIEST):
        for name, low, below in (("start", LOWEST, ABOVE), ("position", 0, max(position, 1))):
            per_row[f"earliest.{name}"] = read_array(
                arrays, f"earliest.{name}", np.int64, slots.shape, low=low, below=below
            )
    return fresh, {"slots": slots, "row_of_key": row_of_key, "consumed": consumed, **per_row}


def _find_earliest(nodes: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the item with the earliest start below each node.

    For states of NEXT that were frozen before their slots had it.
    """
    starts = [*zip(*(nodes[name].tolist() for name in _EARLIEST), strict=True)]
    first = list(range(len(nodes)))
    for node, (left, right) in enumerate(zip(nodes["left"], nodes["right"], strict=True)):
        below = [first[left] if left else node, *([first[right]] if right else ())]
        first[node] = min(below, key=starts.__getitem__)
    return np.array(first, np.int64)


def _check_partitions(
    partitioned: bool,
    key_of_row: NDArray[np.int64],
    row_of_key: NDArray[np.int32],
    free: NDArray[np.int64],
) -> None:
    """A row is free, or belongs to the partition that leads to it."""
    require(is_inside(key_of_row, -1, len(row_of_key)), "a row leads to no partition")
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


# ------------------------------------------------------------------ states


def _read_states(automaton: Deterministic, meta: Mapping[str, Any]) -> list[State]:
    """Return the states of a frozen engine, if the automaton could be in them."""
    try:
        states = [_read_state(state) for state in check_list(meta.get("states"), "'states'")]
        sound = all(map(automaton.is_possible, states))
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError("the frozen state is damaged: 'states' cannot be read") from error
    require(
        sound and len(states) == len(set(states)) <= MOST_STATES,
        "the query has no such states",
    )
    return states


def _list_labels(automaton: Deterministic) -> frozenset[str]:
    """Return the labels that an automaton writes."""
    return automaton.selected | ({MARK} if automaton.keep_marks else set())


def _read_labels(known: frozenset[str], meta: Mapping[str, Any]) -> list[frozenset[str]]:
    """Return the label sets of a frozen engine, of known labels; the first is empty."""
    labels = [
        frozenset(check_text(name, "a label") for name in check_list(names, "a label set"))
        for names in check_list(meta.get("labels"), "'labels'")
    ]
    require(
        labels[:1] == [frozenset()]
        and len(labels) == len(set(labels))
        and all(names <= known for names in labels),
        "the query has no such labels",
    )
    return labels


def _write_state(state: State) -> list[Any]:
    return [sorted(map(_write_configuration, part), key=repr) for part in state]


def _write_configuration(configuration: Configuration) -> list[Any]:
    return [
        configuration.state,
        [
            None if guard is None else sorted(map(_write_configuration, guard), key=repr)
            for guard in configuration.guards
        ],
        [None if part is None else _write_configuration(part) for part in configuration.parts],
    ]


def _read_state(written: list[Any]) -> State:
    return State(*(frozenset(map(_read_configuration, part)) for part in written))


def _read_configuration(written: list[Any]) -> Configuration:
    state, guards, parts = written
    return Configuration(
        check_number(state, "a state"),
        tuple(None if g is None else frozenset(map(_read_configuration, g)) for g in guards),
        tuple(None if p is None else _read_configuration(p) for p in parts),
    )
