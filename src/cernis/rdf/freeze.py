"""A session over RDF streams as versioned bytes, and back.

The bytes hold the engine's state, the rows that a match can still reach back to, the events of the
last timestamp, how far each stream has come, and the texts of all terms in these. Terms have codes
of their own in the bytes: a session that thaws them may have other codes, of other background
knowledge. The bytes name their query; another query refuses them.

A session over solutions (`cernis.rdf.exchange`) reads no streams; its bytes have the rest.

Cost contract: linear in the state.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.encoding.keys import select_arrays
from cernis.engine.linked.freeze import Extent, ThawedTerms, freeze_linked, thaw_linked
from cernis.engine.unary.freeze import pack, unpack
from cernis.errors import DataError, StateError
from cernis.events.times import UNITS
from cernis.plan.graphs import GraphPlan
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.pieces import StreamPieces
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.reading.timing import LatestTime
from cernis.rdf.recognizer import GraphRecognizer
from cernis.rdf.row_store import RowStore, StoredShape
from cernis.state import (
    MOST_EVENTS,
    Arrays,
    check_list,
    check_mapping,
    check_number,
    check_text,
    is_inside,
    read_array,
    require,
)

_IRI = r'<[^\x00-\x20<>"{}|^`\\]*>'
_TERM = (
    rf"^(?:{_IRI}|_:[^\x00-\x20<>\"]+|<<\(.*\)>>"
    r'|"(?:[^"\\\x00-\x1f]|\\[tbnrf"\\]|\\u00[0-7][0-9A-Fa-f])*"'
    rf"(?:@[A-Za-z0-9-]+|\^\^{_IRI})?)$"
)
"""The forms of terms, as `Terms` has them."""

_COLUMNS = ("entry.codes", "rows.codes", "keys", "held.s", "held.p", "held.o", "ended")
"""The arrays of terms' codes."""


class FrozenGraphs(NamedTuple):
    """The parts of a frozen session."""

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    unit: str
    rules: dict[str, TimeRule]


def fingerprint(plan: GraphPlan) -> str:
    """Return a short name of the query as written."""
    return hashlib.sha256(str(plan.query).encode()).hexdigest()[:16]


# -------------------------------------------------------------------- freezing


def freeze_session(session: GraphRecognizer, pieces: StreamPieces) -> bytes:
    """Return the state of a session between two pieces."""
    meta, arrays = _freeze_recognizer(session)
    if pieces.held is not None:
        arrays |= {f"held.{name}": one for name, one in pieces.held._asdict().items()}
    ended = [reader.grouper.ended for reader in pieces.readers.values()]
    arrays["ended"] = np.concatenate(ended)
    latest = pieces.latest
    meta |= {
        "pieces": pieces.pieces,
        "latest": None if latest is None else latest.time,
        "latest_graph": None
        if latest is None or latest.name == UNBOUND
        else session.terms.text(latest.name),
        "streams": [
            {
                "property": reader.rule.property,
                "pattern": reader.rule.pattern,
                "unit": reader.rule.unit,
                "numeric": reader.numeric_times,
                "events": reader.grouper.event_count,
                "quads": reader.grouper.quad_count,
                "ended": len(reader.grouper.ended),
            }
            for reader in pieces.readers.values()
        ],
    }
    return pack(meta, _write_terms(arrays, session.terms))


def freeze_solutions(session: GraphRecognizer) -> bytes:
    """Return the state of a session over solutions."""
    meta, arrays = _freeze_recognizer(session)
    return pack(meta, _write_terms(arrays, session.terms))


def _freeze_recognizer(
    session: GraphRecognizer,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    builder = session.builder
    engine, arrays = freeze_linked(session.engine)
    stored = session.store.freeze(session.engine.earliest())
    arrays |= {f"rows.{name}": column for name, column in stored.items()}
    keys = {number: key for key, number in builder.parts.items()}
    live = session.engine.live_keys().tolist() if builder.partition else []
    arrays["keys"] = np.array([keys[number] for number in live], np.int32).reshape(
        len(live), len(builder.partition)
    )
    meta = {
        "query": fingerprint(session.plan),
        "unit": session.unit,
        "engine": engine,
        "rows": builder.rows,
        "events": builder.events,
        "moments": builder.moments,
        "merges": builder.likeness.merges,
    }
    if session.versions is None:
        arrays.pop("rows.versions", None)
    else:
        meta["versions"] = session.versions
    return meta, arrays


def _write_terms(arrays: dict[str, NDArray[Any]], terms: Terms) -> dict[str, NDArray[Any]]:
    """Return the arrays with codes of their own, and the texts of these."""
    coded = [arrays[name].reshape(-1) for name in _COLUMNS if name in arrays]
    used = np.unique(np.concatenate(coded))
    used = used[used >= 0]
    for name in _COLUMNS:
        if name in arrays:
            codes = arrays[name]
            own = np.where(codes >= 0, np.searchsorted(used, codes), codes)
            arrays[name] = own.astype(np.int32)
    texts = [text.encode() for text in terms.texts(used).to_pylist()]
    arrays["terms.ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    arrays["terms.text"] = np.frombuffer(b"".join(texts), np.uint8)
    return arrays


# --------------------------------------------------------------------- thawing


def read_state(state: bytes, plan: GraphPlan) -> FrozenGraphs:
    """Return the parts of frozen bytes, if they belong to this query."""
    meta, arrays = _open_state(state, plan)
    unit = check_text(meta.get("unit"), "the unit of time")
    require(unit in UNITS, "it has another unit of time")
    names = [name for name, _ in plan.query.streams]
    streams = check_list(meta.get("streams"), "the streams", len(names))
    rules = {name: _read_rule(one) for name, one in zip(names, streams, strict=True)}
    return FrozenGraphs(meta, arrays, unit, rules)


def _open_state(state: bytes, plan: GraphPlan) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    meta, arrays = unpack(state)
    if meta.get("query") != fingerprint(plan):
        raise StateError(
            "the state was frozen by another query; run the new query on the stream from its "
            "beginning, or thaw with the query that froze it"
        )
    return meta, arrays


def _read_rule(written: object) -> TimeRule:
    rule = check_mapping(written, "a stream")
    found = {
        name: None if rule.get(name) is None else check_text(rule[name], "the time of events")
        for name in ("property", "pattern")
    }
    try:
        return TimeRule(**found, unit=check_text(rule.get("unit"), "the unit of time"))
    except DataError as error:
        raise StateError(f"the frozen state is damaged: {error}") from error


def thaw_session(session: GraphRecognizer, pieces: StreamPieces, frozen: FrozenGraphs) -> None:
    """Put a new session into the state that was frozen."""
    number = check_number(frozen.meta.get("pieces"), "the number of pieces", 0, MOST_EVENTS)
    texts = _read_terms(frozen.arrays)
    _thaw_recognizer(session, frozen.meta, frozen.arrays, texts)
    _thaw_pieces(pieces, frozen, session.terms.add(texts))
    pieces.pieces = number


def thaw_solutions(session: GraphRecognizer, state: bytes) -> None:
    """Put a new session over solutions into the state that was frozen."""
    meta, arrays = _open_state(state, session.plan)
    require(meta.get("unit") == session.unit, "it has another unit of time")
    _thaw_recognizer(session, meta, arrays, _read_terms(arrays))


def _thaw_recognizer(
    session: GraphRecognizer, meta: dict[str, Any], arrays: Arrays, texts: list[str]
) -> None:
    builder, engine = session.builder, check_mapping(meta.get("engine"), "'engine'")
    rows, events, moments = (
        check_number(meta.get(name), f"the number of {name}", 0, MOST_EVENTS)
        for name in ("rows", "events", "moments")
    )
    # states from before `merges` have "repeats", and runs that may be one match if it is true
    merges = meta.get("merges", meta.get("repeats"))
    require(
        rows == engine.get("position") and isinstance(merges, bool),
        "its rows are not those of its engine",
    )
    keys = read_array(
        arrays, "keys", np.int32, (None, len(builder.partition)), low=-1, below=len(texts)
    )
    versions = meta.get("versions")
    if versions is not None:
        versions = [check_text(one, "a version") for one in check_list(versions, "the versions")]
        require(bool(versions), "there is no version of the background")
    shape = StoredShape(
        rows,
        events,
        len(texts),
        len(session.linked.columns),
        len(session.linked.alternatives),
        builder.width,
        len(session.query.streams),
        len(versions or ()),
    )
    store = RowStore.thaw(select_arrays("rows.", arrays), shape)
    codes = session.terms.add(texts)
    facts = session.values.update().facts
    first = rows if store.first_row is None else store.first_row
    extent = Extent(moments, len(keys), first)
    thaw_linked(session.engine, engine, arrays, ThawedTerms(codes, facts), extent)
    session.store = store.recode(codes)
    moved = np.append(codes, np.int32(UNBOUND))[keys]
    builder.parts = {tuple(key): i for i, key in enumerate(moved.tolist())}
    require(len(builder.parts) == len(keys), "a partition comes twice")
    builder.rows, builder.events, builder.moments = rows, events, moments
    builder.likeness.merges = bool(merges)
    session.versions = versions


def _read_terms(arrays: Arrays) -> list[str]:
    """Return the texts of terms, none twice."""
    written = read_array(arrays, "terms.text", np.uint8).tobytes()
    ends = read_array(arrays, "terms.ends", np.int64, low=0, below=len(written) + 1).tolist()
    begins = [0, *ends[:-1]]
    require(
        all(begin <= end for begin, end in zip(begins, ends, strict=False))
        and (ends[-1] if ends else 0) == len(written),
        "its terms do not fill their text",
    )
    try:
        texts = [written[b:e].decode() for b, e in zip(begins, ends, strict=False)]
    except UnicodeDecodeError as error:
        raise StateError("the frozen state is damaged: a term is no text") from error
    _check_terms(texts)
    require(len(set(texts)) == len(texts), "a term comes twice")
    return texts


def _check_terms(texts: list[str]) -> None:
    good = pc.match_substring_regex(pa.array(texts, pa.string()), _TERM)
    require(bool(np.asarray(good).all()), "a term is no term")


def _thaw_pieces(pieces: StreamPieces, frozen: FrozenGraphs, codes: Codes) -> None:
    """Let the streams go on where they were."""
    meta, arrays = frozen.meta, frozen.arrays
    ended = read_array(arrays, "ended", np.int32, low=0, below=len(codes))
    at, counts = 0, []
    for reader, written in zip(pieces.readers.values(), meta["streams"], strict=True):
        events, quads, number = (
            check_number(written.get(name), f"the number of {name}", 0, MOST_EVENTS)
            for name in ("events", "quads", "ended")
        )
        require(
            written.get("numeric") in (None, True, False) and at + number <= len(ended),
            "a stream is damaged",
        )
        reader.grouper.continue_from(events, quads, codes[ended[at : at + number]])
        reader.timer.numeric_times = written["numeric"]
        at += number
        counts.append(events)
    require(at == len(ended), "a stream is damaged")
    if meta.get("latest") is not None:
        name, text = UNBOUND, meta.get("latest_graph")
        if text is not None:
            _check_terms([check_text(text, "the name of a graph")])
            name = pieces.terms.code(text)
        pieces.latest = LatestTime(check_number(meta["latest"], "the latest time"), name)
    if any(name.startswith("held.") for name in arrays):
        pieces.held = _read_held(arrays, np.array(counts), codes)
        require(
            pieces.latest is not None and pieces.latest.time >= int(pieces.held.times[0]),
            "the last events are not the latest",
        )


def _read_held(arrays: Arrays, counts: NDArray[Any], codes: Codes) -> GraphEvents:
    """Return the events of the last timestamp."""
    times = read_array(arrays, "held.times", np.int64)
    n = len(times)
    require(n > 0 and bool((times == times[0]).all()), "the last events have several times")
    streams = read_array(arrays, "held.streams", np.int32, (n,), low=0, below=len(counts))
    numbers = read_array(arrays, "held.numbers", np.int64, (n,), low=0, below=counts[streams])
    p = read_array(arrays, "held.p", np.int32, low=0, below=len(codes))
    size = len(p)
    s, o = (
        read_array(arrays, f"held.{name}", np.int32, (size,), low=0, below=len(codes))
        for name in "so"
    )
    first = read_array(arrays, "held.first", np.int64, (n + 1,), low=0, below=size + 1)
    order = np.lexsort((numbers, streams))
    require(
        first[0] == 0
        and first[-1] == size
        and is_inside(np.diff(first), 0)
        and bool((order == np.arange(n)).all()),
        "the last events are not in order",
    )
    return GraphEvents(times, streams, numbers, first, s, p, o).recode(codes)
