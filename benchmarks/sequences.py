"""`cernis bench sequences`: the workload of the CORE paper, on Cernis and on CORE.

The query is a sequence of n events, SELL and BUY in turn, each with the name of one of 20
symbols, in a window of events. An event of a stream of 20 symbols and two types is one of 40
kinds. Step i of the pattern takes symbol i, modulo 20, so that 3 in 40 events can move the
shortest pattern, and half of them the longest. The expected number of matches that end at a
position with the last symbol is C(window, n - 1) / 40^(n - 1): about 3 for n = 3 and a window of
100, 10^32 for n = 24 and 10000. So all matches are counted first, and enumerated only if there are
not too many, in the events that CORE gets; otherwise the first match of each position is
enumerated.

CORE runs the *silent*, the *first* and, if it is bounded, the *all* query on fewer events; the
question of the benchmark (below) says what these are. All cases take turns in one race, so that
they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import Contestant, race, time_call
from benchmarks.endless import measure_peak
from benchmarks.output import write_matches
from benchmarks.peer import ABSENT, Peer, PeerError, find_peer, start_peer
from benchmarks.record import Case, Record, divide, find, select
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Columns, Table, format_number, tabulate
from cernis.generators.stock import stock_stream

NAME = "sequences"
SEED = 20
TYPES = ("SELL", "BUY")
NEVER = "NO SUCH NAME"

AIM_PEER = 20.0
AIM_LENGTH = 0.5
AIM_WINDOW = 0.8
AIM_MEMORY = 1.1
AIM_NEXT = 1.5
AIM_LATER = 2.0


def write_sequence_query(
    length: int,
    window: int,
    names: Sequence[str],
    *,
    silent: bool = False,
    limit: int | None = None,
    separator: str = ";",
) -> str:
    """Return the query in CEQL, which Cernis and CORE both read.

    >>> print(write_sequence_query(2, 100, ["A", "B"], limit=1))
    SELECT * FROM S WHERE (SELL AS t1; BUY AS t2) FILTER t1[name='A'] AND t2[name='B'] \
WITHIN 100 EVENTS LIMIT 1
    """
    steps = [(TYPES[i % 2], names[i % len(names)]) for i in range(length)]
    if silent:
        steps.append((TYPES[length % 2], NEVER))
    pattern = f"{separator} ".join(f"{kind} AS t{i}" for i, (kind, _) in enumerate(steps, 1))
    filters = " AND ".join(f"t{i}[name='{name}']" for i, (_, name) in enumerate(steps, 1))
    bound = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT * FROM S WHERE ({pattern}) FILTER {filters} WITHIN {window} EVENTS{bound}"


def encode_symbols(table: pa.Table, names: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return `type number * len(names) + name number` of each event."""
    kinds = _find_indices(table["type"], TYPES)
    symbols = _find_indices(table["name"], names)
    return np.asarray(kinds * len(names) + symbols, dtype=np.int32)


def _find_indices(column: pa.ChunkedArray, values: Sequence[str]) -> npt.NDArray[np.int32]:
    plain = column.cast(pa.string())
    found = pc.index_in(plain, value_set=pa.array(values, pa.string()))
    return np.asarray(found.to_numpy(), dtype=np.int32)


@numba.njit(cache=True)
def run_bare_pass(codes: npt.NDArray[np.int32], weights: npt.NDArray[np.int64]) -> int:
    """Do the least work per event: look up its symbol."""
    total = 0
    for code in codes:
        total += weights[code]
    return total


def run_sequences(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure every length in every window, CORE if it is there, and memory on a long stream."""
    stock = Stock.generate(scale)
    cases = [SequenceCase(n, window) for n, window in product(scale.lengths, scale.windows)]
    with ExitStack() as stack:
        peer = _start_core(stack, stock)
        counts: dict[SequenceCase, int] = {}
        contestants: dict[tuple[SequenceCase, str], Contestant] = {}
        for done, case in enumerate(cases):
            step(f"{_describe_case(case)}: making ready", done, len(cases))
            counts[case], entered = _make_contestants(scale, stock, peer, case)
            contestants |= {(case, measure): entrant for measure, entrant in entered.items()}

        def turn(whose: tuple[SequenceCase, str], done: int, total: int) -> None:
            step(f"{_describe_case(whose[0])}: {whose[1]}", done, total)

        best = race(contestants, scale.rounds, turn)
        records = _record_rates(scale, best)
        for case in cases:
            records += _record_counts(scale, stock, peer, case, counts[case], best)
    for done, length in enumerate(scale.stream_lengths):
        step(f"memory, {format_number(length)} events", done, len(scale.stream_lengths))
        text = write_sequence_query(scale.lengths[0], scale.windows[-1], stock.names)
        peak = measure_peak(text, length, scale.batch)
        records.append(Record(NAME, "peak memory", peak.peak_bytes, "B", {"events": length}))
    return records + list(_record_ratios(records, scale))


class SequenceCase(NamedTuple):
    """The length of the pattern and the width of the window."""

    n: int
    window: int


@dataclass(frozen=True, slots=True)
class Stock:
    """The events, the few that CORE gets, the names of symbols, and a code per event."""

    events: pa.Table
    encoded: pa.Table
    """The same events, with their strings in dictionaries."""
    few: pa.Table
    names: list[str]
    codes: npt.NDArray[np.int32]

    @classmethod
    def generate(cls, scale: BenchmarkScale) -> Stock:
        events = stock_stream(scale.events, SEED)
        names = sorted(pc.unique(events["name"]).to_pylist())
        codes = encode_symbols(events, names)
        encoded = stock_stream(scale.events, SEED, dictionary=True)
        return cls(events, encoded, events.slice(0, scale.peer_events), names, codes)


def _describe_case(case: SequenceCase) -> str:
    return f"n = {case.n}, window {case.window}"


def _start_core(stack: ExitStack, stock: Stock) -> Peer | None:
    python = find_peer()
    if python is None:
        return None
    codes = stock.codes[: len(stock.few)].astype(np.uint16)
    try:
        return stack.enter_context(start_peer(python, list(TYPES), stock.names, codes))
    except PeerError:
        return None


def _make_contestants(
    scale: BenchmarkScale, stock: Stock, peer: Peer | None, case: SequenceCase
) -> tuple[int, dict[str, Contestant]]:
    """Return the number of matches in the few events, and the contestants of this case."""
    texts = {
        "recognised": write_sequence_query(*case, stock.names),
        "silent": write_sequence_query(*case, stock.names, silent=True),
        "first": write_sequence_query(*case, stock.names, limit=1),
        "next that fits": write_sequence_query(*case, stock.names, separator=" ->"),
        "contiguous": write_sequence_query(*case, stock.names, separator=":"),
    }
    queries = {measure: cernis.query(text) for measure, text in texts.items()}
    for measure in ("silent", "first"):
        write_matches(queries[measure], stock.few)
    count = queries["recognised"].run(stock.few).count()
    weights = np.arange(2 * len(stock.names), dtype=np.int64)
    run_bare_pass(stock.codes[:1], weights)
    entered = {
        "recognised": time_call(partial(queries["recognised"].run, stock.events, threads=1)),
        "dictionaries": time_call(partial(queries["recognised"].run, stock.encoded, threads=1)),
        "silent": time_call(partial(queries["silent"].run, stock.events, threads=1)),
        "next that fits": time_call(
            partial(queries["next that fits"].run, stock.events, threads=1)
        ),
        "contiguous": time_call(partial(queries["contiguous"].run, stock.events, threads=1)),
        "first": time_call(partial(write_matches, queries["first"], stock.events)),
        "bare pass": time_call(partial(run_bare_pass, stock.codes, weights)),
    }
    bounded = count <= scale.most_enumerated
    if bounded:
        entered["all"] = time_call(partial(write_matches, queries["recognised"], stock.few))
    if peer is not None:
        entered["CORE silent"] = partial(_run_peer, peer, texts["silent"])
        entered["CORE first"] = partial(_run_peer, peer, texts["first"])
    if peer is not None and bounded:
        entered["CORE all"] = partial(_run_peer, peer, texts["recognised"])
    return count, entered


def _run_peer(peer: Peer, text: str) -> float:
    return peer.run(text).seconds


def _record_rates(
    scale: BenchmarkScale, best: Mapping[tuple[SequenceCase, str], float]
) -> list[Record]:
    """Return the seconds as events per second."""
    few = {"all", "CORE all", "CORE silent", "CORE first"}
    return [
        Record(
            NAME,
            measure,
            (scale.peer_events if measure in few else scale.events) / seconds,
            "events/s",
            case._asdict(),
        )
        for (case, measure), seconds in best.items()
    ]


def _record_counts(
    scale: BenchmarkScale,
    stock: Stock,
    peer: Peer | None,
    case: SequenceCase,
    count: int,
    best: Mapping[tuple[SequenceCase, str], float],
) -> Iterator[Record]:
    """Yield moving events, matches, their rate of writing, and whether CORE has as many."""
    where = case._asdict()
    session = cernis.query(write_sequence_query(*case, stock.names)).session()
    session.push(stock.few)
    moving = session.engine.relevant / scale.peer_events
    yield Record(NAME, "moving events", moving, "share", where)
    yield Record(NAME, "matches", count / scale.peer_events, "matches/event", where)
    if (case, "all") in best:
        share = scale.peer_events / scale.events
        extra = best[case, "all"] - share * best[case, "recognised"]
        rate = count / extra if count and extra > 0 else None
        yield Record(NAME, "enumerated", rate, "matches/s", where)
    if peer is None:
        yield Record(NAME, "CORE silent", None, "events/s", where, ABSENT)
    elif (case, "all") in best:
        there = peer.run(write_sequence_query(*case, stock.names)).matches
        yield Record(NAME, "same count as CORE", int(count == there), "yes/no", where)


def _record_ratios(records: Sequence[Record], scale: BenchmarkScale) -> Iterator[Record]:
    """Yield the ratios of the aims."""
    for n, window in product(scale.lengths, scale.windows):
        here, core, bare = _find_rates(records, n=n, window=window)
        case: Case = {"n": n, "window": window}
        yield Record(NAME, "times CORE", divide(here, core), "×", case)
        yield Record(NAME, "share of bare pass", divide(here, bare), "×", case)
        encoded = find(records, "dictionaries", n=n, window=window)
        yield Record(NAME, "dictionaries to bare pass", divide(encoded, bare), "×", case)
        following = find(records, "next that fits", n=n, window=window)
        for other, measure in (("contiguous", "-> to :"), ("recognised", "-> to ;")):
            rate = find(records, other, n=n, window=window)
            yield Record(NAME, measure, divide(rate, following), "×", case)

    def ratio(*cases: Case) -> float | None:
        return divide(*(_find_rates(records, **case)[0] for case in cases))

    (shortest, *_, longest), (narrowest, *_, widest) = scale.lengths, scale.windows
    for w in scale.windows:
        value = ratio({"n": longest, "window": w}, {"n": shortest, "window": w})
        yield Record(NAME, "longest to shortest pattern", value, "×", {"window": w})
    for n in scale.lengths:
        value = ratio({"n": n, "window": widest}, {"n": n, "window": narrowest})
        yield Record(NAME, "widest to narrowest window", value, "×", {"n": n})
    peaks = [find(records, "peak memory", events=n) for n in scale.stream_lengths]
    yield Record(NAME, "longest to shortest stream, memory", divide(peaks[-1], peaks[0]), "×")


def _find_rates(
    records: Sequence[Record], **case: int | str
) -> tuple[float | None, float | None, float | None]:
    """Return the events/s of Cernis at its slower, of CORE at its faster, and of the bare pass."""

    def values(*measures: str) -> list[float]:
        found = (find(records, measure, **case) for measure in measures)
        return [value for value in found if value is not None]

    here, core = values("recognised", "silent"), values("CORE silent", "CORE first")
    return min(here, default=None), max(core, default=None), max(values("bare pass"), default=None)


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return the rates by length and window, then the aims."""
    columns: Columns = {
        "n": "n",
        "window": "window",
        "moving": "moving events",
        "recognised": "recognised",
        "silent": "silent",
        "->": "next that fits",
        ":": "contiguous",
        "first match": "first",
        "all matches": "all",
        "matches/s": "enumerated",
        "matches/event": "matches",
        "bare pass": "bare pass",
        "share": "share of bare pass",
        "share, dictionaries": "dictionaries to bare pass",
        "CORE": lambda case: _find_rates(records, **case)[1],
        "times CORE": "times CORE",
        "CORE, all matches": "CORE all",
    }
    note = ABSENT if any(record.note == ABSENT for record in records) else ""
    rates = tabulate(records, "Events per second", "recognised", columns, note)
    return [rates, _tabulate_aims(records)]


def _tabulate_aims(records: Sequence[Record]) -> Table:
    """Return each ratio in its usual case (shortest pattern, middle window) and at its worst."""
    cases = [r.case for r in select(records, "recognised")]
    shortest = min(int(case["n"]) for case in cases)
    windows = sorted({int(case["window"]) for case in cases})
    usual = windows[len(windows) // 2]

    def row(what: str, measure: str, aim: str, **case: int) -> tuple[str, ...]:
        values = [r.value for r in select(records, measure) if r.value is not None]
        usually = find(records, measure, **case)
        worst = max(values, default=None) if aim.startswith("≤") else min(values, default=None)
        return what, format_number(usually), format_number(worst), aim

    length, window = "longest to shortest pattern", "widest to narrowest window"
    where = f"(n = {shortest}, window {usual})"
    rows = (
        row(f"Cernis to CORE {where}", "times CORE", f"≥ {AIM_PEER:g}", n=shortest, window=usual),
        row(f"{length} (window {usual})", length, f"≥ {AIM_LENGTH}", window=usual),
        row(f"{window} (n = {shortest})", window, f"≥ {AIM_WINDOW}", n=shortest),
        row(f"time of -> to : {where}", "-> to :", f"≤ {AIM_NEXT}", n=shortest, window=usual),
        row(f"time of -> to ; {where}", "-> to ;", f"≤ {AIM_LATER}", n=shortest, window=usual),
        row(
            "peak memory, longest to shortest stream",
            "longest to shortest stream, memory",
            f"≤ {AIM_MEMORY}",
        ),
    )
    return Table(
        "The aims",
        ("ratio", "measured", "worst case", "aim"),
        rows,
        "The cases of a ratio differ in what there is to do: the column `moving` of the table "
        "above is the share of events that begin or move a partial match.",
    )


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return events/s by length, window and engine, as in the table."""
    drawn: list[Mapping[str, object]] = []
    for case in (r.case for r in select(records, "recognised")):
        here, core, _ = _find_rates(records, **case)
        first = find(records, "first", **case)
        rates = {"Cernis": here, "Cernis, first match": first, "CORE": core}
        drawn += [
            {**case, "engine": engine, "rate": rate} for engine, rate in rates.items() if rate
        ]
    return drawn


SEQUENCES = Benchmark(
    name=NAME,
    title="Sequences on a stock stream",
    question="""
How many events per second go through a sequence of n events in a window, how does that
depend on n and on the window, and what does CORE do with the same query on the same machine?

`SELECT * FROM S WHERE (SELL AS t1; BUY AS t2; …) FILTER t1[name='…'] AND … WITHIN w EVENTS`
on a generated stream of SELL and BUY events of 20 symbols, an Arrow table in memory; the
evaluation of the predicates is part of every number. *recognised*: all matches are found
and held as a compact set, none is written out; *moving* is the share of events that begin
or move a partial match. *silent*: the same with a last step that
never comes, as in CORE's own experiments. *first match*: with `LIMIT 1`, written to
Arrow. *all matches*: everything written to Arrow, where that is bounded; *matches/s* is
the rate of the writing alone. *bare pass*: a
compiled loop that only looks up each event's symbol; *share* is what part of its rate
remains, and *share, dictionaries* what *recognised* keeps of it where the strings of the events
are encoded as dictionaries. CORE gets its events ready-made in memory. Its rate is the better of
*silent* and *first match*; the rate of Cernis is the worse of *recognised* and *silent*. The
columns `->` and `:` are *recognised* with the next that fits (Flink's followedBy) and with
contiguity, not `;`.
""",
    run=run_sequences,
    tables=build_tables,
    points=build_points,
)
