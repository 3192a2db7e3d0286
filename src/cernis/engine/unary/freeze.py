"""The state of an engine as versioned bytes, and back.

Layout: magic, version, checksum, length of a JSON header, the header, then the bytes of the
arrays. Nothing in it is code: thawing reads numbers and names only, so bytes from a stranger
can be refused but never run.

States and label sets are written by their meaning (configurations, variable names), not by
their numbers, so another process that has met states in another order can thaw them.

Cost contract: linear in the state, which should have been collected just before.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.automata.unary.determinize import State
from cernis.automata.unary.runs import Configuration
from cernis.engine.unary.aggregate import SlidingAggregator
from cernis.engine.unary.arena import COUNTERS, FREE_ROWS, NODE, NODES, ROOTS, UNION
from cernis.engine.unary.runtime import UnaryEngine
from cernis.engine.unary.semiring import Pool, Weights
from cernis.engine.unary.slide import ENDS, LOGGED, LOGGED_EVENT, ROW, WORDS, SlidingMemory
from cernis.engine.unary.slide import FREE_ROWS as FREE_SLIDING_ROWS
from cernis.errors import StateError

MAGIC = b"CERNIS\n\x00"
VERSION = 1
_HEAD = struct.Struct("<8sHIQ")

Arrays = Mapping[str, NDArray[Any]]

_PER_ROW = ("key_of_row", "row_ordinal", "row_epoch", "row_bound", "free_rows")
_DTYPES = {
    "arena": NODE,
    "counters": np.int64,
    "slots": np.int32,
    "row_of_key": np.int32,
    "consumed": np.int64,
    **dict.fromkeys(_PER_ROW, np.int64),
}

_SLIDING = {
    "log": LOGGED_EVENT,
    "rows": ROW,
    "row_of_key": np.int32,
    "log.floats": np.float64,
    **dict.fromkeys(
        ("words", "places", "counters", "free_rows", "log.sums", "log.leasts"), np.int64
    ),
}
_MISFIT = "the frozen state is damaged: its parts do not fit together"


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
    if len(frozen) < _HEAD.size or frozen[: len(MAGIC)] != MAGIC:
        raise StateError("these bytes are not a frozen Cernis state")
    _, version, checksum, length = _HEAD.unpack_from(frozen)
    if version != VERSION:
        raise StateError(
            f"the state was frozen by format version {version}; this Cernis reads version {VERSION}"
        )
    body = memoryview(frozen)[_HEAD.size :]
    if zlib.crc32(body) != checksum or length > len(body):
        raise StateError("the frozen state is damaged: its checksum does not match")
    arrays, at = {}, length
    try:
        header = json.loads(bytes(body[:length]))
        for name, kind, shape, size in header["arrays"]:
            dtype = NODE if kind == "node" else np.dtype(kind)
            arrays[name] = np.frombuffer(body[at : at + size], dtype).reshape(shape).copy()
            at += size
        return header["meta"], arrays
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"the frozen state is damaged: {error}") from error


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
    return meta, arrays


def thaw_unary(engine: UnaryEngine, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Put a fresh engine of the same query into a frozen state."""
    _check(meta, arrays)
    tables = engine.tables
    engine.position, engine.bound = int(meta["position"]), int(meta["bound"])
    columns = tables.number_states(map(_read_state, meta["states"]))
    slots = np.zeros((arrays["slots"].shape[0], len(tables.arrays.expanded)), np.int32)
    slots[:, columns] = arrays["slots"]
    nodes = arrays["arena"]
    labels = np.array([tables.label(frozenset(names)) for names in meta["labels"]], np.int32)
    items = nodes["label"] != UNION
    nodes["label"][items] = labels[nodes["label"][items]]
    arena = engine.memory.arena
    if len(nodes) <= len(arena):
        arena[: len(nodes)] = nodes
    else:
        arena = np.concatenate([nodes, np.zeros(len(nodes), NODE)])
    arrays["counters"][ROOTS] = 0
    engine.consumed = arrays["consumed"]
    engine.memory = engine.memory._replace(
        arena=arena,
        slots=slots,
        **{name: arrays[name] for name in ("counters", "row_of_key", *_PER_ROW)},
    )
    engine.fit_tables()


def freeze_sliding(engine: SlidingAggregator) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of an aggregator that has just been collected, to be packed."""
    memory, alphabet = engine.memory, engine.tables.automaton.alphabet
    used = np.flatnonzero(memory.places.any(axis=0))
    tests = {test: number for number, test in enumerate(alphabet.tests)}
    meta = {
        "position": engine.position,
        "bound": engine.bound,
        "residues": len(engine.lanes.moduli.primes),
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
    }
    return meta, arrays


def thaw_sliding(engine: SlidingAggregator, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Put a fresh aggregator of the same query into a frozen state."""
    tables, alphabet = engine.tables, engine.tables.automaton.alphabet
    arrays = _check_sliding(engine, meta, arrays)
    engine.position, engine.bound = int(meta["position"]), int(meta["bound"])
    symbols = np.array(
        [alphabet.symbol_of(frozenset(alphabet.tests[t] for t in s)) for s in meta["symbols"]],
        np.int32,
    )
    tables.add_symbols()
    columns = tables.number_states(map(_read_state, meta["states"]))
    places = np.zeros((arrays["places"].shape[0], len(tables.arrays.expanded)), np.int64)
    places[:, columns] = arrays["places"]
    log, words = arrays["log"], arrays["words"]
    log["symbol"] = symbols[log["symbol"]]
    engine.restore(
        SlidingMemory(
            pool=Pool(words, words.view(np.float64)),
            log=log,
            log_weights=Weights(*(arrays[f"log.{name}"] for name in Weights._fields)),
            places=places,
            **{name: arrays[name] for name in ("counters", "rows", "row_of_key", "free_rows")},
        ),
        int(meta["residues"]),
    )


def _check(meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Raise StateError if a link leads nowhere: the kernels trust their arrays."""
    try:
        typed = all(arrays[name].dtype == dtype for name, dtype in _DTYPES.items())
        sound = typed and _fits(meta, arrays)
    except (KeyError, IndexError, TypeError, ValueError):
        sound = False
    if not sound:
        raise StateError(_MISFIT)


def _fits(meta: Mapping[str, Any], arrays: Arrays) -> bool:
    arena, slots, counters = arrays["arena"], arrays["slots"], arrays["counters"]
    rows = slots.shape[0]
    children = np.maximum(np.arange(len(arena)), 1)  # a child comes before its parent
    return (
        len(counters) == COUNTERS
        and counters[NODES] == len(arena) >= 1
        and 0 <= counters[FREE_ROWS] <= rows
        and all(_is_inside(arena[side], 0, children) for side in ("left", "right"))
        and _is_inside(arena["label"], UNION, len(meta["labels"]))
        and _is_inside(slots, 0, len(arena))
        and slots.shape[1] == len(meta["states"])
        and all(len(arrays[name]) == rows for name in _PER_ROW)
        and _is_inside(arrays["row_of_key"], -1, rows)
        and _is_inside(arrays["key_of_row"], -1, len(arrays["row_of_key"]))
        and _is_inside(arrays["free_rows"], 0, max(rows, 1))
    )


def _check_sliding(
    engine: SlidingAggregator, meta: Mapping[str, Any], arrays: Arrays
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an aggregator; raise StateError if a link leads nowhere."""
    try:
        typed = {name: arrays[name].view(dtype) for name, dtype in _SLIDING.items()}
        sound = _fits_sliding(engine, meta, typed)
    except (KeyError, IndexError, TypeError, ValueError):
        sound = False
    if not sound:
        raise StateError(_MISFIT)
    return typed


def _fits_sliding(engine: SlidingAggregator, meta: Mapping[str, Any], arrays: Arrays) -> bool:
    log, rows, places = arrays["log"], arrays["rows"], arrays["places"]
    lanes = engine.new_lanes(int(meta["residues"]))
    tests = len(engine.tables.automaton.alphabet.tests)
    used, vector = len(arrays["words"]), lanes.words * rows["size"]
    taken, fronts = places[places != 0], rows["fronts"] > 0
    ends = places + np.where(places != 0, vector[:, None], 0)
    before = log["before"]
    return bool(
        len(arrays["counters"]) == engine.memory.counters.size
        and arrays["counters"][WORDS] == used >= 1
        and arrays["counters"][LOGGED] == len(log)
        and 0 <= arrays["counters"][FREE_SLIDING_ROWS] <= len(rows)
        and arrays["counters"][ENDS] == 0
        and _is_inside(rows["size"], 1, used + 1)
        and _is_inside(taken, lanes.header + 1, used)
        and (ends <= used).all()
        and _is_inside(rows["fronts"], 0, used)
        and _is_inside(rows["front"][fronts], 1, used)
        and (rows["front"] + rows["fronts"] * (1 + vector) <= used)[fronts].all()
        and _is_inside(rows["last"], -1, len(log))
        and ((before == -1) | (before > np.arange(len(log)))).all()  # a chain comes to an end
        and _is_inside(before, -1, max(1, len(log)))
        and _is_inside(log["symbol"], 0, len(meta["symbols"]))
        and all(0 <= test < tests for symbol in meta["symbols"] for test in symbol)
        and places.shape == (len(rows), len(meta["states"]))
        and _is_inside(arrays["row_of_key"], -1, len(rows))
        and _is_inside(rows["key"], -1, len(arrays["row_of_key"]))
        and len(arrays["free_rows"]) == len(rows)
        and _is_inside(arrays["free_rows"], 0, len(rows))
        and all(
            arrays[f"log.{name}"].shape
            == (len(log), getattr(engine.memory.log_weights, name).shape[1])
            for name in Weights._fields
        )
    )


def _is_inside(numbers: NDArray[Any], low: int, below: int | NDArray[Any]) -> bool:
    return bool(((numbers >= low) & (numbers < below)).all())


# ------------------------------------------------------------------ states


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
        int(state),
        tuple(None if g is None else frozenset(map(_read_configuration, g)) for g in guards),
        tuple(None if p is None else _read_configuration(p) for p in parts),
    )
