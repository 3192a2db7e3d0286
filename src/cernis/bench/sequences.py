"""`cernis bench sequences`: the CORE paper's workload, and CORE beside it.

The query is a sequence of n events, SELL and BUY in turn, each with the name of one of 20
symbols, in a window of so many events. An event of a stream of 20 symbols and two types is
one of 40 kinds; the i-th step of the pattern asks for the symbol number i (beyond the
twentieth they begin again), so that of all events 3 in 40 can move the shortest pattern,
and half of them the longest. The expected number of matches that end at a position with
the last symbol is C(window, n - 1) / 40^(n - 1): about 3 for n = 3 and a window of 100,
10^32 for n = 24 and 10000. All matches are therefore enumerated only where their number,
which is counted first (on the events that CORE gets, too), is bounded; elsewhere the first
match of each position is.

Measured, from an Arrow table in memory, with the predicates:

- *recognised*: the compact set of all matches is built, nothing is enumerated. The main series.
- *silent*: the same with one more step that no event ever satisfies, which is how CORE's own
  experiments keep output out of the measurement.
- *first*: `LIMIT 1`, enumerated to Arrow.
- *all*: every match, enumerated to Arrow.
- *bare pass*: a compiled loop that reads an int32 symbol of each event and adds a number
  that it finds under that symbol in a table; no engine that looks at every event is faster.

CORE runs the *silent* and the *first* query with fewer events; the faster one of the two
stands for it, and the slower one of *recognised* and *silent* for Cernis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import cernis
from cernis.bench.answer import answered
from cernis.bench.benchmark import Benchmark, Step
from cernis.bench.clock import Contestant, race, timed
from cernis.bench.endless import peak_of
from cernis.bench.peer import ABSENT, Peer, find_peer, start_peer
from cernis.bench.record import Record, Table, find, ratio, short
from cernis.bench.scale import Scale
from cernis.generators.stock import stock_stream

NAME = "sequences"
SEED = 20
TYPES = ("SELL", "BUY")
NEVER = "NO SUCH NAME"

AIM_PEER = 20.0
AIM_LENGTH = 0.5
AIM_WINDOW = 0.8
AIM_MEMORY = 1.1


def sequence_query(
    length: int,
    window: int,
    names: Sequence[str],
    *,
    silent: bool = False,
    limit: int | None = None,
) -> str:
    """The query in CEQL, as Cernis and CORE both read it.

    >>> print(sequence_query(2, 100, ["A", "B"], limit=1))
    SELECT * FROM S WHERE (SELL AS t1; BUY AS t2) FILTER t1[name='A'] AND t2[name='B'] \
WITHIN 100 EVENTS LIMIT 1
    """
    steps = [(TYPES[i % 2], names[i % len(names)]) for i in range(length)]
    if silent:
        steps.append((TYPES[length % 2], NEVER))
    pattern = "; ".join(f"{kind} AS t{i}" for i, (kind, _) in enumerate(steps, 1))
    filters = " AND ".join(f"t{i}[name='{name}']" for i, (_, name) in enumerate(steps, 1))
    bound = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT * FROM S WHERE ({pattern}) FILTER {filters} WITHIN {window} EVENTS{bound}"


def symbol_codes(table: pa.Table, names: Sequence[str]) -> npt.NDArray[np.int32]:
    """`type number * len(names) + name number` of each event."""
    kinds = _indices(table["type"], TYPES)
    symbols = _indices(table["name"], names)
    return np.asarray(kinds * len(names) + symbols, dtype=np.int32)


def _indices(column: pa.ChunkedArray, values: Sequence[str]) -> npt.NDArray[np.int32]:
    plain = column.cast(pa.string())
    found = pc.index_in(plain, value_set=pa.array(values, pa.string()))
    return np.asarray(found.to_numpy(), dtype=np.int32)


@numba.njit(cache=True)
def bare_pass(codes: npt.NDArray[np.int32], weights: npt.NDArray[np.int64]) -> int:
    """The least that can be done per event: read its symbol and look it up."""
    total = 0
    for code in codes:
        total += weights[code]
    return total


def run_sequences(scale: Scale, step: Step) -> list[Record]:
    """Every length with every window, CORE where it is, and the memory of a long stream."""
    events = stock_stream(scale.events, SEED)
    few = stock_stream(scale.peer_events, SEED)
    names = sorted(pc.unique(events["name"].cast(pa.string())).to_pylist())
    codes = symbol_codes(events, names)
    cases = list(product(scale.lengths, scale.windows))
    total = len(cases) + len(scale.stream_lengths)
    records: list[Record] = []
    with ExitStack() as stack:
        python = find_peer()
        peer = None
        if python is not None:
            few_codes = symbol_codes(few, names).astype(np.uint16)
            peer = stack.enter_context(start_peer(python, list(TYPES), names, few_codes))
        for done, (length, window) in enumerate(cases):
            step(f"n = {length}, window {window}", done, total)
            records += _measure(scale, events, few, codes, names, peer, length, window)
    for done, length in enumerate(scale.stream_lengths):
        step(f"memory, {short(length)} events", len(cases) + done, total)
        text = sequence_query(scale.lengths[0], scale.windows[-1], names)
        peak = peak_of(text, length, scale.batch)
        records.append(Record(NAME, "peak memory", peak.peak_bytes, "B", {"events": length}))
    return records + list(_ratios(records, scale))


def _measure(
    scale: Scale,
    events: pa.Table,
    few: pa.Table,
    codes: npt.NDArray[np.int32],
    names: Sequence[str],
    peer: Peer | None,
    length: int,
    window: int,
) -> list[Record]:
    """One length and window: Cernis, the bare pass and CORE take turns."""
    case: Mapping[str, int | str] = {"n": length, "window": window}
    recognised = cernis.query(sequence_query(length, window, names))
    silent = cernis.query(sequence_query(length, window, names, silent=True))
    first = cernis.query(sequence_query(length, window, names, limit=1))
    count = recognised.run(few).count()
    weights = np.arange(2 * len(names), dtype=np.int64)
    bare_pass(codes[:1], weights)
    contestants: dict[str, Contestant] = {
        "recognised": timed(partial(recognised.run, events)),
        "silent": timed(partial(silent.run, events)),
        "first": timed(partial(answered, first, events)),
        "bare pass": timed(partial(bare_pass, codes, weights)),
    }
    bounded = count * scale.events <= scale.most_enumerated * scale.peer_events
    if bounded:
        contestants["all"] = timed(partial(answered, recognised, events))
    for query in (silent, first):
        answered(query, few)
    if peer is not None:
        contestants["CORE silent"] = _on_core(
            peer, sequence_query(length, window, names, silent=True)
        )
        contestants["CORE first"] = _on_core(peer, sequence_query(length, window, names, limit=1))
    best = race(contestants, scale.rounds)
    records = [
        Record(
            NAME,
            measure,
            (scale.peer_events if measure.startswith("CORE") else scale.events) / seconds,
            "events/s",
            case,
        )
        for measure, seconds in best.items()
    ]
    records.append(Record(NAME, "matches", count / scale.peer_events, "matches/event", case))
    if bounded:
        extra = best["all"] - best["recognised"]
        written = answered(recognised, events)
        rate = written / extra if written and extra > 0 else None
        records.append(Record(NAME, "enumerated", rate, "matches/s", case))
    if bounded and peer is not None:
        there = peer.run(sequence_query(length, window, names)).matches
        records.append(Record(NAME, "same count as CORE", int(count == there), "yes/no", case))
    if peer is None:
        records.append(Record(NAME, "CORE silent", None, "events/s", case, ABSENT))
    return records


def _on_core(peer: Peer, text: str) -> Callable[[], float]:
    return lambda: peer.run(text).seconds


def _ratios(records: Sequence[Record], scale: Scale) -> Iterator[Record]:
    """What the aims speak of."""
    for length, window in product(scale.lengths, scale.windows):
        here, core, bare = _rates(records, length, window)
        case: Mapping[str, int | str] = {"n": length, "window": window}
        yield Record(NAME, "times CORE", ratio(here, core), "×", case)
        yield Record(NAME, "share of bare pass", ratio(here, bare), "×", case)
    for window in scale.windows:
        longest = _rates(records, scale.lengths[-1], window)[0]
        shortest = _rates(records, scale.lengths[0], window)[0]
        value = ratio(longest, shortest)
        yield Record(NAME, "longest to shortest pattern", value, "×", {"window": window})
    for length in scale.lengths:
        widest = _rates(records, length, scale.windows[-1])[0]
        narrowest = _rates(records, length, scale.windows[0])[0]
        yield Record(
            NAME, "widest to narrowest window", ratio(widest, narrowest), "×", {"n": length}
        )
    peaks = [find(records, "peak memory", events=n) for n in scale.stream_lengths]
    yield Record(NAME, "longest to shortest stream, memory", ratio(peaks[-1], peaks[0]), "×")


def _rates(
    records: Sequence[Record], length: int, window: int
) -> tuple[float | None, float | None, float | None]:
    """Events/s of Cernis at its slower, of CORE at its faster, and of the bare pass."""

    def values(*measures: str) -> list[float]:
        found = (find(records, measure, n=length, window=window) for measure in measures)
        return [value for value in found if value is not None]

    here, core = values("recognised", "silent"), values("CORE silent", "CORE first")
    return min(here, default=None), max(core, default=None), max(values("bare pass"), default=None)


def tables(records: Sequence[Record]) -> list[Table]:
    """Rates by length and window, then the aims."""
    measured = [r.case for r in records if r.measure == "recognised"]
    cases = [(int(case["n"]), int(case["window"])) for case in measured]
    rows = []
    for n, window in cases:

        def cell(measure: str, n: int = n, window: int = window) -> str:
            return short(find(records, measure, n=n, window=window))

        core = _rates(records, n, window)[1]
        rows.append(
            (
                str(n),
                str(window),
                cell("recognised"),
                cell("silent"),
                cell("first"),
                cell("all"),
                cell("matches"),
                cell("bare pass"),
                cell("share of bare pass"),
                short(core),
                cell("times CORE"),
            )
        )
    absent = any(record.note == ABSENT for record in records)
    rates = Table(
        "Events per second",
        (
            "n",
            "window",
            "recognised",
            "silent",
            "first match",
            "all matches",
            "matches/event",
            "bare pass",
            "share",
            "CORE",
            "times CORE",
        ),
        tuple(rows),
        ABSENT if absent else "",
    )
    return [rates, _aims(records)]


def _aims(records: Sequence[Record]) -> Table:
    def worst(measure: str) -> float | None:
        values = [r.value for r in records if r.measure == measure and r.value is not None]
        return min(values, default=None)

    checks = (
        ("Cernis to CORE, at every n and window", worst("times CORE"), f"≥ {AIM_PEER:g}"),
        ("longest to shortest pattern", worst("longest to shortest pattern"), f"≥ {AIM_LENGTH}"),
        ("widest to narrowest window", worst("widest to narrowest window"), f"≥ {AIM_WINDOW}"),
        (
            "peak memory, longest to shortest stream",
            worst("longest to shortest stream, memory"),
            f"≤ {AIM_MEMORY}",
        ),
    )
    rows = tuple((what, short(value), aim) for what, value, aim in checks)
    return Table("The aims, at their worst case", ("ratio", "measured", "aim"), rows)


def points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Events/s by length, window and engine."""
    engines = {"recognised": "Cernis", "first": "Cernis, first match", "CORE silent": "CORE"}
    return [
        {
            "n": record.case["n"],
            "window": record.case["window"],
            "engine": engines[record.measure],
            "rate": record.value,
        }
        for record in records
        if record.measure in engines and record.value is not None
    ]


SEQUENCES = Benchmark(
    name=NAME,
    title="Sequences on a stock stream",
    question="""
How many events per second go through a sequence of n events in a window, how does that
depend on n and on the window, and what does CORE do with the same query on the same machine?

`SELECT * FROM S WHERE (SELL AS t1; BUY AS t2; …) FILTER t1[name='…'] AND … WITHIN w EVENTS`
on a generated stream of SELL and BUY events of 20 symbols, an Arrow table in memory; the
evaluation of the predicates is part of every number. *recognised*: all matches are found
and held as a compact set, none is written out. *silent*: the same with a last step that
never comes, as in CORE's own experiments. *first match*: with `LIMIT 1`, written to
Arrow. *all matches*: everything written to Arrow, where that is bounded. *bare pass*: a
compiled loop that only looks up each event's symbol; *share* is what part of its rate
remains. CORE gets its events ready-made in memory and is worth the better of *silent* and
*first match*; Cernis is worth the worse of *recognised* and *silent*.
""",
    run=run_sequences,
    tables=tables,
    points=points,
)
