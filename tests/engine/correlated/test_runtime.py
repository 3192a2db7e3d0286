"""The runtime of parallelized automata against a list of all runs."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest

from cernis.automata.correlated.pcea import PCEA, Link, Ordered, RunSource, Transition
from cernis.automata.unary.cea import Is
from cernis.engine.correlated import runtime
from cernis.engine.correlated.runtime import CorrelatedEngine
from cernis.engine.correlated.tables import CorrelatedTables
from cernis.engine.dag import count
from cernis.engine.dag.count import DagCounts, count_matches
from cernis.engine.dag.count_paths import PathWalk
from cernis.engine.dag.enumerate import list_blocks
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.records import NOTHING, VERTICES
from cernis.engine.settings import EVENT_WINDOW, NO_WINDOW, Settings
from cernis.pattern.atom import TypeIs

Event = dict[str, Any]
Match = tuple[int, tuple[tuple[int, str], ...]]


# ------------------------------------------------------------------- naive


def holds(link: Link, earlier: Event, later: Event) -> bool:
    def pair(a: str, b: str) -> tuple[Any, Any] | None:
        left, right = earlier.get(a), later.get(b)
        return None if left is None or right is None else (left, right)

    operations = {
        "<": lambda p: p[0] < p[1],
        "<=": lambda p: p[0] <= p[1],
        ">": lambda p: p[0] > p[1],
        ">=": lambda p: p[0] >= p[1],
    }
    equal = all((p := pair(a, b)) and p[0] == p[1] for a, b in link.equal)
    different = all((p := pair(a, b)) and p[0] != p[1] for a, b in link.different)
    unlike = all(not ((p := pair(a, b)) and p[0] == p[1]) for a, b in link.unlike)
    ordered = all((p := pair(o.earlier, o.later)) and operations[o.op](p) for o in link.ordered)
    close = not link.contiguous or earlier["ordinal"] == later["ordinal"] - 1
    return bool(equal and different and unlike and ordered and close)


def all_runs(pcea: PCEA, events: list[Event], window: int | None) -> Counter[Match]:
    """Every match with its multiplicity, by keeping every run."""
    found: Counter[Match] = Counter()
    runs: list[tuple[int, Event, tuple[tuple[int, str], ...], int]] = []
    ordinals: Counter[Any] = Counter()
    for position, event in enumerate(events):
        key = event.get("key")
        if key is None:
            continue
        event = event | {"position": position, "ordinal": ordinals[key]}
        ordinals[key] += 1
        made = []
        for t in pcea.transitions:
            if t.test != Is(TypeIs(event["type"])):
                continue
            choices = [
                [
                    run
                    for run in runs
                    if run[0] == s.state and run[1]["key"] == key and holds(s.link, run[1], event)
                ]
                for s in t.sources
            ]
            label = ",".join(sorted(t.labels))
            for chosen in product(*choices):
                marks = ((position, label), *(mark for run in chosen for mark in run[2]))
                first = min([event["ordinal"], *(run[3] for run in chosen)])
                if window is not None and event["ordinal"] - first > window:
                    continue
                made.append((t.target, event, tuple(sorted(marks)), first))
        runs += made
        for state, _, marks, _ in made:
            if state in pcea.finals:
                found[position, marks] += 1
    return found


# ------------------------------------------------------------------ engine


class Numbers:
    """Codes for the columns of the tables, as the events package would give them."""

    def __init__(self, tables: CorrelatedTables, partitioned: bool) -> None:
        self.tables = tables
        self.partitioned = partitioned
        self.codes: list[dict[Any, int]] = [{} for _ in tables.domains]

    def of(self, events: list[Event]) -> np.ndarray[Any, Any]:
        rows = []
        for domain, columns in enumerate(self.tables.domains):
            for column in columns:
                rows.append([self._code(domain, column, event) for event in events])
        return np.array(rows, np.int64).reshape(len(rows), len(events))

    def _code(self, domain: int, column: tuple[str, ...], event: Event) -> int:
        values = tuple(event.get(name) for name in column)
        if self.partitioned:
            values = (event.get("key"), *values)
        if None in values:
            return -1
        return self.codes[domain].setdefault(values, len(self.codes[domain]))


def order_values(tables: CorrelatedTables, events: list[Event]) -> np.ndarray[Any, Any]:
    rows = [
        [int(NOTHING) if e.get(name) is None else e[name] for e in events]
        for name in tables.ordered
    ]
    return np.array(rows, np.int64).reshape(len(rows), len(events))


def matches_of(tables: CorrelatedTables, segment: DagSegment) -> Counter[Match]:
    found: Counter[Match] = Counter()
    for listing in list_blocks(segment, block=7):
        for m in range(len(listing.start)):
            low, high = listing.offset[m], listing.offset[m + 1]
            marks = tuple(
                sorted(
                    (int(p), ",".join(sorted(tables.labels[label])))
                    for p, label in zip(
                        listing.position[low:high], listing.label[low:high], strict=True
                    )
                )
            )
            assert listing.start[m] == marks[0][0]
            found[int(segment.roots["end"][listing.root[m]]), marks] += 1
    return found


def moments(events: list[Event]) -> np.ndarray[Any, Any]:
    """For each event, the position of the first one with its time."""
    first: dict[Any, int] = {}
    return np.array([first.setdefault(e["@time"], i) for i, e in enumerate(events)], np.int64)


def run_engine(
    pcea: PCEA,
    events: list[Event],
    window: int | None,
    partitioned: bool,
    cuts: list[int],
    collapsed: frozenset[int] = frozenset(),
) -> tuple[Counter[Match], CorrelatedEngine]:
    tables = CorrelatedTables(pcea, collapsed)
    settings = Settings(
        window=NO_WINDOW if window is None else EVENT_WINDOW,
        size=window or 0,
        partitioned=partitioned,
    )
    engine = CorrelatedEngine(tables, settings)
    numbers = Numbers(tables, partitioned)
    keys: dict[Any, int] = {}
    found: Counter[Match] = Counter()
    segments = []
    for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True):
        batch = events[low:high]
        symbols = np.array(
            [
                tables.alphabet.symbol(tuple(a.type == e["type"] for a in tables.alphabet.atoms))  # type: ignore[union-attr]
                for e in batch
            ],
            np.int32,
        )
        tables.add_symbols()
        codes = numbers.of(batch)
        engine.reserve_codes([len(known) for known in numbers.codes])
        parts = np.array(
            [-1 if e["key"] is None else keys.setdefault(e["key"], len(keys)) for e in batch],
            np.int64,
        )
        values = order_values(tables, batch)
        pushed = engine.push(
            symbols,
            codes,
            values,
            np.zeros_like(values),
            keys=parts if partitioned else None,
            moments=moments(events)[low:high] if tables.strict else None,
        )
        segments += pushed
    for segment in segments:
        listed = matches_of(tables, segment)
        counted = count_matches(segment)
        assert sum(counted) == listed.total()
        with mock.patch.object(count, "EXACT", 1.0):
            assert count_matches(segment) == counted, "modulo primes"
        by_paths = PathWalk(segment, 1 << 20).count()
        assert by_paths is None or by_paths.tolist() == counted
        drawn: Counter[Match] = Counter()
        for root, number in zip(segment.roots, counted, strict=True):
            exact = DagCounts(segment, root)
            assert exact.of(2 * int(root["vertex"])) == number
            for rank in range(number):
                chosen = segment.memory.vertices[exact.match(rank)]
                marks = zip(chosen["position"].tolist(), chosen["label"].tolist(), strict=True)
                named = ((p, ",".join(sorted(tables.labels[label]))) for p, label in marks)
                drawn[int(root["end"]), tuple(sorted(named))] += 1
        assert drawn == listed
        found += listed
    return found, engine


# ------------------------------------------------------------------ random

TYPES = "ABC"


def random_link(draw: random.Random) -> Link:
    kind = draw.choice(["none", "equal", "equal", "two", "different", "unlike", "both", "order"])
    a, b = draw.choice("xy"), draw.choice("xy")
    equal = ((a, b),) if kind in ("equal", "both") or draw.random() < 0.3 else ()
    if kind == "two":
        equal = (("x", "y"), ("y", "x"))
    return Link(
        equal=equal,
        different=((b, a),) if kind in ("different", "both") else (),
        unlike=(("x", "x"), ("y", "y"))[: draw.randint(1, 2)] if kind == "unlike" else (),
        ordered=(Ordered(a, draw.choice(["<", "<=", ">", ">="]), b),) if kind == "order" else (),
        contiguous=draw.random() < 0.15,
    )


def random_pcea(draw: random.Random) -> PCEA:
    states = draw.randint(2, 4)
    transitions = []
    for n in range(draw.randint(states, states + 3)):
        target = n % states
        sources = []
        for state in range(states):
            if n and draw.random() < 0.45 and len(sources) < 2:
                sources.append(RunSource(state, random_link(draw)))
        test = Is(TypeIs(draw.choice(TYPES)))
        transitions.append(Transition(tuple(sources), test, frozenset({f"v{n}"}), target))
    finals = frozenset({states - 1, draw.randrange(states)})
    return PCEA(tuple(f"q{s}" for s in range(states)), tuple(transitions), finals)


def random_events(draw: random.Random, length: int, partitioned: bool) -> list[Event]:
    return [
        {
            "type": draw.choice(TYPES),
            "x": draw.choice([0, 1, 2, 2, None]),
            "y": draw.choice([0, 1, 2, 3]),
            "key": draw.choice(["p", "p", "q", None]) if partitioned else "p",
        }
        for _ in range(length)
    ]


@pytest.mark.parametrize("seed", range(150))
def test_matches_are_those_of_a_list_of_all_runs(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(runtime, "FIRST_RECORDS", 8 if seed % 2 else 1 << 12)
    draw = random.Random(seed)
    pcea = random_pcea(draw)
    partitioned = seed % 3 == 0
    window = draw.choice([None, 2, 5, 9])
    length = draw.randint(6, 14 if window is None else 40)
    events = random_events(draw, length, partitioned)
    expected = all_runs(pcea, events, window)
    while expected.total() > 5_000:
        events = events[: len(events) // 2]
        expected = all_runs(pcea, events, window)
    cuts = sorted(draw.sample(range(len(events)), draw.randint(0, min(3, len(events)))))
    found, _ = run_engine(pcea, events, window, partitioned, cuts)
    assert found == expected


# ------------------------------------------------------- time, latest starts

AFTER = Ordered("@time", "<", "@time")


def random_chain(draw: random.Random) -> PCEA:
    """Events one after the other, some of them at a later time than the one before."""
    length = draw.randint(2, 4)
    transitions = []
    for state in range(length):
        equal = draw.choice([(), (("x", "x"),), (("x", "y"),), (("x", "x"), ("y", "y"))])
        link = Link(equal=equal, ordered=(AFTER,) if draw.random() < 0.7 else ())
        sources = (RunSource(state - 1, link),) if state else ()
        test = Is(TypeIs(draw.choice(TYPES)))
        transitions.append(Transition(sources, test, frozenset({f"v{state}"}), state))
    names = tuple(f"q{state}" for state in range(length))
    return PCEA(names, tuple(transitions), frozenset({length - 1}))


def timed(draw: random.Random, events: list[Event]) -> list[Event]:
    now = 0
    found = []
    for event in events:
        now += draw.choice([0, 0, 1])
        found.append(event | {"@time": now})
    return found


@pytest.mark.parametrize("seed", range(60))
def test_what_has_the_same_time_is_not_earlier(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(runtime, "FIRST_RECORDS", 8 if seed % 2 else 1 << 12)
    draw = random.Random(seed)
    pcea = random_chain(draw)
    events = timed(draw, random_events(draw, draw.randint(8, 30), seed % 3 == 0))
    window = draw.choice([None, 3, 8])
    cuts = sorted(draw.sample(range(len(events)), 2))
    found, _ = run_engine(pcea, events, window, seed % 3 == 0, cuts)
    assert found == all_runs(pcea, events, window)


@pytest.mark.parametrize("seed", range(80))
def test_of_collapsed_states_only_the_latest_start_counts(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(runtime, "FIRST_RECORDS", 8 if seed % 2 else 1 << 12)
    draw = random.Random(seed)
    pcea = random_chain(draw)
    partitioned = seed % 3 == 0
    events = timed(draw, random_events(draw, draw.randint(8, 40), partitioned))
    window = draw.choice([None, 3, 8, 20])
    collapsed = frozenset(range(draw.randint(1, len(pcea.names) - 1)))
    cuts = sorted(draw.sample(range(len(events)), 2))
    kept = {f"v{state}" for state in range(len(pcea.names)) if state not in collapsed}
    expected = {
        (end, tuple(mark for mark in marks if mark[1] in kept))
        for end, marks in all_runs(pcea, events, window)
    }
    found, engine = run_engine(pcea, events, window, partitioned, cuts, collapsed)
    assert found == Counter(expected)
    if len(collapsed) == len(pcea.names) - 1:
        engine.collect()
        buckets = engine.memory.buckets
        held = np.count_nonzero(buckets["root"]) + np.count_nonzero(buckets["before"])
        assert engine.memory.counters[VERTICES] - 1 <= held
