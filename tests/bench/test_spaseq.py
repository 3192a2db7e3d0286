"""`cernis bench spaseq`: that its queries are the paper's, and that all ways find the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks import BENCHMARKS
from benchmarks.record import Record, find
from benchmarks.scale import QUICK
from benchmarks.spaseq.compare import compare_with_lists
from benchmarks.spaseq.figures import PRINTED
from benchmarks.spaseq.queries import (
    HEAD_AND_SHOULDERS,
    STRATEGIES,
    WORKLOADS,
    GraphWorkload,
    make_zigzag,
)
from benchmarks.spaseq.runs import RunList, collect_events, compile_condition, read_values
from benchmarks.spaseq.stages import SolvedStreams, replay, solve_query, solve_workload
from benchmarks.spaseq.store import ASKED
from benchmarks.spaseq.tables import LIST, LIST_BY_STREAM, OURS, STORE, STORE_OURS
from cernis.languages.spaseq import parse
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.query import GraphQuery
from cernis.testing.spaseq import oracle

EXAMPLES = Path(__file__).parents[2] / "examples" / "spaseq"
CASES = [(name, link) for name in WORKLOADS for link in STRATEGIES]
GENERATED = "<http://www.w3.org/ns/prov#generatedAtTime>"
QUAD = re.compile(r'(<\S*>) (<\S*>) (<\S*>|"[^"]*"\S*)(?: (<\S*>))? \.')


@pytest.mark.parametrize(
    ("example", "printed"),
    [(f"q{n}", next(name for name in PRINTED if f"Query {n}" in name)) for n in range(1, 6)],
)
def test_the_queries_are_those_of_the_examples(example: str, printed: str) -> None:
    workload, sequence, window = PRINTED[printed]
    ours = parse(workload.query(sequence, window))
    theirs = parse((EXAMPLES / f"{example}.spaseq").read_text())
    assert ours.gpms == theirs.gpms
    assert ours.streams == theirs.streams
    assert ours.within == theirs.within == workload.window(window)
    assert [str(step.link) for step in ours.steps] == [str(step.link) for step in theirs.steps]
    assert ours.select is not None
    assert theirs.select is not None
    assert {one.name for one in ours.select} == {one.name for one in theirs.select}


def test_a_zigzag_of_three_is_a_v() -> None:
    assert make_zigzag(3) == WORKLOADS["market"]
    assert make_zigzag(5).sequences[","] == "A, B, C, D, E"
    assert "FILTER (?p4 < ?p3)" in make_zigzag(5).definitions
    assert len(parse(HEAD_AND_SHOULDERS.query("A; B; C; D; E; F; G", 9)).gpms) == 7


def listed(ready: SolvedStreams, window: int, *, index: bool) -> list[tuple[int, ...]]:
    """The matches of a list of runs."""
    query = ready.query
    runs = RunList(query.query, query.plan.linked, read_values(ready), window, index=index)
    return list(runs.run(collect_events(ready)))


@pytest.mark.parametrize(("name", "link"), CASES)
def test_a_list_of_runs_finds_as_many_matches_as_the_engine(name: str, link: str) -> None:
    workload = WORKLOADS[name]
    ready = solve_workload(workload, workload.sequences[link], 100, 400, 1000)
    counts = {}
    for events in (10, 100):
        window = workload.window(events)
        counts[events] = replay(ready, window).matches
        assert replay(ready, window, listed=True).matches == counts[events]
        for index in (True, False):
            found = listed(ready, window, index=index)
            assert len(found) == len(set(found)) == counts[events]
    assert counts[100] > 0
    text = workload.query(workload.sequences[link], 100)
    whole = GraphQuery(text).run(workload.streams(400), background=workload.make_background(1000))
    assert whole.count() == counts[100]


@pytest.mark.parametrize(("name", "link"), CASES)
def test_a_list_of_runs_finds_what_the_oracle_finds(name: str, link: str) -> None:
    workload = WORKLOADS[name]
    events = 60 if name == "traffic" else 100
    ready = solve_workload(workload, workload.sequences[link], 80, events, 1000)
    window = workload.window(80)
    streams = graph_events(workload, events)
    told = {
        term
        for held in streams.values()
        for _, graph in held
        for s, _, o in graph
        for term in (s, o)
    }
    # what is known of others makes no difference, except that it takes the oracle long
    known = {
        f"<{iri}>": [(s, p, o) for s, p, o, _ in quads(text) if s in told]
        for iri, text in (workload.make_background(1000) or {}).items()
    }
    expected = oracle.find_matches(ready.query.query, streams, known)
    assert len(listed(ready, window, index=True)) == len(expected) > 0


def graph_events(workload: GraphWorkload, events: int) -> dict[str, list[oracle.Event]]:
    """The streams of a workload as the oracle reads them."""
    streams = {}
    for name, text in workload.streams(events).items():
        graphs: dict[str, list[tuple[str, str, str]]] = {}
        times: dict[str, int] = {}
        for s, p, o, graph in quads(text):
            if p == GENERATED:
                moment = datetime.fromisoformat(o[1:].partition('"')[0])
                times[s] = round(moment.timestamp() * 1000) * 1_000_000
            else:
                graphs.setdefault(graph, []).append((s, p, o))
        streams[name] = [(times[graph], held) for graph, held in graphs.items()]
    return streams


def quads(text: bytes) -> list[tuple[str, str, str, str]]:
    found = [QUAD.fullmatch(line) for line in text.decode().splitlines()]
    return [(one[1], one[2], one[3], one[4]) for one in found if one is not None]


def test_a_window_replayed_is_a_window_asked_for() -> None:
    workload = WORKLOADS["market"]
    wide = solve_workload(workload, "A; B; C", 500, 1000)
    for events in (60, 200):
        narrow = solve_workload(workload, "A; B; C", events, 1000, written=True)
        assert replay(wide, workload.window(events)).matches == narrow.matches > 0


def test_only_the_last_events_are_asked_for_their_matches() -> None:
    workload = WORKLOADS["market"]
    ready = solve_workload(workload, "A, B, C", 60, 400)
    every = replay(ready, workload.window(60))
    some = replay(ready, workload.window(60), told=100)
    none = replay(ready, workload.window(60), told=0)
    late = replay(ready, workload.window(60), workload.window(300))
    assert every.matches > some.matches == late.matches > none.matches == 0
    assert (every.told, some.told, late.told, none.told) == (400, 100, 100, 0)


def test_all_ways_take_turns_in_every_case() -> None:
    workload = WORKLOADS["smart grid"]
    ready = solve_workload(workload, "A; B+, C", 60, 200, 1000)
    ways = (OURS, LIST, LIST_BY_STREAM)
    found = compare_with_lists(QUICK, {w: (ready, workload.window(w)) for w in (20, 60)}, ways)
    assert [*found] == [20, 60]
    assert all([*one.costs] == [*ways] for one in found.values())
    assert found[20].matches <= found[60].matches


def test_a_list_of_runs_says_what_it_does_not_know() -> None:
    traffic = WORKLOADS["traffic"]
    workload = traffic._replace(before=traffic.before.replace(" ?v2", ""))
    negated = solve_query(workload.query("A; B!; C", 9), workload.streams(9))
    with pytest.raises(ValueError, match="knows no `!`"):
        listed(negated, 9, index=True)
    with pytest.raises(ValueError, match="cannot evaluate"):
        compile_condition(g.CallExpression("ABS", (g.GraphVariable("x"),)), [])


@pytest.fixture
def records(measured: Callable[[str], list[Record]]) -> list[Record]:
    return measured("spaseq")


def test_the_stages_of_a_query_are_all_of_its_time(records: list[Record]) -> None:
    for name in PRINTED:
        shares = [r.value for r in records if r.measure == "share" and r.case["query"] == name]
        assert sum(share for share in shares if share is not None) == pytest.approx(1)


def test_every_strategy_says_how_its_cost_grows(records: list[Record]) -> None:
    for name, link in CASES:
        for measure in ("automaton", "whole", "counting"):
            case = {"query": name, "strategy": link}
            assert find(records, f"{measure}, growth", **case) is not None
    assert find(records, f"{LIST_BY_STREAM}, growth", query="smart grid") is not None


def test_a_sparql_store_finds_as_many_matches_from_nquads(records: list[Record]) -> None:
    for name, link in ASKED:
        case = {"query": name, "strategy": link}
        assert find(records, "matches found", **case)
        for way in (STORE, STORE_OURS):
            assert (find(records, way, **case) or 0) > 0


def test_the_chart_has_the_automaton_and_the_list_of_runs(records: list[Record]) -> None:
    points = BENCHMARKS["spaseq"].points(records)
    ways = {(point["query"], point["way"]) for point in points}
    assert {("market", ";"), ("market", "; list of runs"), ("smart grid", ":")} <= ways
