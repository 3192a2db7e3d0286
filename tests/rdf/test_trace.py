"""Look into runs of SPAseQ: compared with the oracle on random cases, sentences word for word."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import DataError
from cernis.languages.spaseq.query import GpmConjunction, GpmName, SpaseqQuery
from cernis.rdf.query import GraphQuery
from cernis.rdf.trace import why
from cernis.rdf.trace.look import GraphTrace
from cernis.testing.spaseq.oracle import (
    Reference,
    SpaseqRun,
    Streams,
    find_matches,
    find_runs,
)
from tools.cases.spaseq.corpus import write_background, write_stream
from tools.cases.spaseq.grammar import (
    iri,
    number,
    random_background,
    random_query,
    random_streams,
)

pytest.importorskip("pyoxigraph")
some = settings(max_examples=20, suppress_health_check=list(HealthCheck))


class TracedCase(NamedTuple):
    query: SpaseqQuery
    streams: Streams
    known: Any
    origin: int | None

    def trace(self) -> GraphTrace:
        known = {name[1:-1]: write_background(triples) for name, triples in self.known.items()}
        files = {n: write_stream(n, [(t, list(g)) for t, g in e]) for n, e in self.streams.items()}
        return GraphQuery(self.query).trace(files, background=known, time_unit="ns")

    def find_runs(self) -> list[tuple[SpaseqRun, frozenset[int]]]:
        return find_runs(self.query, self.streams, self.known, self.origin)

    def find_events(self) -> list[tuple[Reference, ...]]:
        found = find_matches(self.query, self.streams, self.known, self.origin)
        return [match.events for match in found]

    def time(self, event: Reference) -> int:
        return self.streams[event[0]][event[1]][0]


def draw_case(seed: int) -> TracedCase:
    rng = random.Random(seed)
    query = random_query(rng)
    streams = random_streams(rng, rng.randrange(1, 10))
    origin = query.tumbling_from
    assert not isinstance(origin, str)
    return TracedCase(query, streams, random_background(rng), origin)


SEEDS = st.integers(0, 2**32)


@some
@given(SEEDS)
def test_graphs_match_exactly_when_the_oracle_has_that_match(seed: int) -> None:
    case, rng = draw_case(seed), random.Random(seed)
    expected = {frozenset(events) for events in case.find_events()}
    every = [(name, i) for name, events in case.streams.items() for i in range(len(events))]
    asked = {frozenset(rng.sample(every, min(len(every), n))) for n in (1, 2, 3, 3)}
    seen = case.trace()
    for events in {*list(expected)[:5], *asked}:
        finding = seen.why(events)
        assert finding.matches == (events in expected), (finding, events)
        assert (finding.stopped_at is None) == finding.matches or not finding.steps
        assert finding.sentence


@some
@given(SEEDS)
def test_what_waits_and_ends_at_each_graph_is_what_the_oracle_has(seed: int) -> None:
    case = draw_case(seed)
    seen = case.trace()
    ends, runs = case.find_events(), case.find_runs()
    linked = seen.graphs.linked
    plain = all(
        isinstance(part, GpmName)
        for step in case.query.steps
        for part in (
            step.element.parts if isinstance(step.element, GpmConjunction) else (step.element,)
        )
    )
    for place in range(seen.graphs.size):
        step = seen.step(place)
        event = (step.event["stream"], step.event["number"])
        assert seen.find_row(*event) == place
        now = case.time(event)
        waiting = [run for run, times in runs if now in times]
        assert step.whole
        assert {linked.states[one.state].step for one in step.states} == {r.step for r in waiting}
        for state in {run.step for run in waiting}:
            own = [one for one in step.states if linked.states[one.state].step == state]
            mine = [run for run in waiting if run.step == state]
            times = [int(seen.graphs.events.times[one.since]) for one in own]
            assert min(times) == min(run.times[0] for run in mine)
            events = {run.events for run in mine}
            for one in own:
                named = [seen.step(place).event for place, _ in one.example]
                assert tuple((e["stream"], e["number"]) for e in named) in events
            if plain:
                assert sum(one.partial for one in own) == len(told_apart(mine, linked.columns))
        last = [e for e in ends if event in e and case.time(e[-1]) == now]
        assert step.completed == len(last)


def told_apart(runs: list[SpaseqRun], columns: tuple[str, ...]) -> set[object]:
    """The runs that differ in their events or in variables that somebody asks for."""
    return {
        (
            run.events,
            tuple(
                (step, tuple(tuple((c, one.get(c)) for c in columns) for one in rounds))
                for step, rounds in sorted(run.rounds.items())
            ),
        )
        for run in runs
    }


@some
@given(SEEDS)
def test_an_edge_is_counted_exactly_when_a_run_of_the_oracle_takes_it(seed: int) -> None:
    case = draw_case(seed)
    seen = case.trace()
    expected = set()
    for run, _ in case.find_runs():
        path = [-1, *(step for step in sorted(run.rounds) for _ in run.rounds[step])]
        expected |= set(pairwise(path))
    states = [one.step for one in seen.graphs.linked.states] + [-1]
    taken = {
        (states[edge.source], states[edge.target])
        for edge in seen.automaton().edges
        if edge.kind == "read" and edge.taken
    }
    assert taken == expected


# -------------------------------------------------------------------- sentences

LOADS = """PREFIX : <http://example.org/>
SELECT * WITHIN 10 SECONDS FROM STREAM S <http://example.org/s> FROM STREAM T <http://example.org/t>
WHERE {{ SEQ ({steps})
  DEFINE GPM A ON S {{ ?house :load ?a . FILTER (?a > 5) }}
  DEFINE GPM B ON S {{ ?house :load ?b . FILTER (?b > ?a) }}
  DEFINE GPM C ON T {{ ?house :alarm ?c }}
  DEFINE GPM D ON S {{ {{ ?house :off 1 }} UNION {{ ?house :load 0 . ?house :off ?d }} }}
  DEFINE GPM E ON S {{ ?house :in+ ?city }}
  DEFINE GPM F ON S {{ ?house :says <<( ?house :load ?f )>> }} }}"""
HOUSES: list[tuple[int, str, str, int]] = [
    (0, "h1", "load", 7), (2, "h2", "load", 9), (3, "h1", "load", 3), (4, "h1", "load", 9),
    (5, "h1", "load", 11), (20, "h1", "load", 12), (21, "h1", "off", 2),
]  # fmt: skip
ALARMS = [(4, "h1", "alarm", 1), (5, "h2", "alarm", 2)]


def write_houses(name: str, events: list[tuple[int, str, str, int]]) -> bytes:
    graphs = [(t, [(iri(house), iri(what), number(n))]) for t, house, what, n in events]
    return write_stream(name, graphs)


def trace_houses(steps: str) -> GraphTrace:
    streams = {"S": write_houses("S", HOUSES), "T": write_houses("T", ALARMS)}
    return cernis.query(LOADS.format(steps=steps), lang="spaseq").trace(streams, time_unit="s")


SENTENCES = {
    ("A ; B", "S0 S3"): "these graphs are a match",
    ("A ; B", "S0 S4"): "';' (the first that fits): S 3 comes before S 4 and fits as well",
    ("A , B", "S0 S3"): "',' (the next timestamp): 2 graphs stand between S 0 and S 3",
    ("A : B", "S0 S1"): f"?house: it is {iri('h2')} in S 1, {iri('h1')} in S 0",
    ("A : B", "S0 S2"): "FILTER (?b > ?a): ?b is 3 in S 2, ?a is 7 in S 0",
    ("A : B", "S2 S3"): "A: FILTER (?a > 5): in S 2 ?a is 3",
    ("A : B", "S0 S5"): (
        "WITHIN 10 SECONDS: from S 0 to S 5 are 20 SECONDS, 10 SECONDS too long"
    ),
    ("A : B", "S6"): (
        f"A: ?house {iri('load')} ?a: S 6 has no such triple; B: none of the graphs is B"
    ),
    ("A : B", "S0 S3 S4"): "SEQ: S 4 has no place beside the others",
    ("A : C", "S0 S3"): "C ON T: S 3 is of S, C reads T",
    ("A ; C! ; B", "S0 S4"): (
        "';' (the first that fits): S 3 comes before S 4 and fits as well; C!: T 0 is one"
    ),
    ("A : (B & C)", "S0 S3 T0"): "these graphs are a match",
    ("A : (B & C)", "S0 S4 T1"): "B & C: their solutions in S 4 and T 1 do not agree",
    ("A : (B & C)", "S0 S3"): "C ON T: S 3 is of S, C reads T",
    ("D", "S6"): (
        f"D: UNION: none of its parts has a solution: ?house {iri('off')} 1: S 6 has no such "
        f"triple; ?house {iri('load')} 0: S 6 has no such triple"
    ),
    ("E", "S6"): f"E: ?house {iri('in')}+ ?city: S 6 has no such way",
    ("F", "S6"): (
        f"F: ?house {iri('says')} <<( ?house {iri('load')} ?f )>>: S 6 has no such triple"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "graphs"), SENTENCES)
def test_a_sentence_says_what_is_in_the_way(steps: str, graphs: str) -> None:
    asked = [(name[0], int(name[1:])) for name in graphs.split()]
    assert str(trace_houses(steps).why(asked)) == SENTENCES[steps, graphs]


def test_each_graph_says_whether_it_fits() -> None:
    finding = trace_houses("A : B").why([("S", 0), ("S", 2)])
    assert [(step.row, step.state, step.ok) for step in finding.steps] == [
        (0, "A", True), (2, "B", False),
    ]  # fmt: skip
    assert finding.stopped_at == 2
    assert finding.steps[1].condition == "FILTER (?b > ?a)"


def test_a_window_that_tumbles_is_named() -> None:
    text = LOADS.format(steps="A : B").replace("10 SECONDS", "4 SECONDS TUMBLING FROM 0")
    streams = {"S": write_houses("S", HOUSES), "T": write_houses("T", ALARMS)}
    seen = cernis.query(text, lang="spaseq").trace(streams, time_unit="s")
    told = "WITHIN 4 SECONDS TUMBLING: S 0 and S 3 lie in different windows"
    assert str(seen.why([("S", 0), ("S", 3)])) == told


def test_a_graph_that_is_not_there_is_named() -> None:
    seen = trace_houses("A")
    with pytest.raises(DataError, match=r"^no graph of this run is S 99$"):
        seen.step(("S", 99))
    with pytest.raises(DataError, match=r"^no graph of this run is row 50$"):
        seen.why([50])
    with pytest.raises(DataError, match=r"^no graphs are given"):
        seen.why([])
    with pytest.raises(DataError, match="at most 64 can be explained"):
        trace_many(70).why(range(70))


def trace_many(size: int) -> GraphTrace:
    events = [(i, "h1", "load", 10) for i in range(size)]
    streams = {"S": write_houses("S", events), "T": write_houses("T", ALARMS)}
    text = LOADS.format(steps="A+: : B").replace("?b > ?a", "?b < ?a")
    return cernis.query(text, lang="spaseq").trace(streams, time_unit="ms")


def test_limits_cut_a_replay_and_a_search_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = trace_many(30)
    assert not seen.step(29, limit=5).whole
    assert seen.step(("S", 29)).states[0].partial == 2**30 - 1
    assert seen.automaton(limit=10).edges[0].taken == 8  # and two alarms
    monkeypatch.setattr(why, "MOST_FITS", 5)
    assert "too many ways" in str(seen.why(range(10)))


def test_a_graph_that_takes_partial_matches_away_is_shown_at_its_guard() -> None:
    seen = trace_houses("A : C! : B")
    step = seen.step(("T", 0))
    assert [(edge.label, edge.partial) for edge in step.taken] == [
        ("before B: C with the same ?house", 1)
    ]
    counted = {edge.condition: edge.taken for edge in seen.automaton().edges}
    assert counted["before B: C with the same ?house"] == 2


# --------------------------------------------------------------------- pictures


def test_matches_of_graphs_are_drawn_along_time() -> None:
    matches = trace_houses("A : B").matches
    view = matches.timeline(width=3)
    assert [(lane.name, lane.total) for lane in view.lanes] == [("S", 6), ("T", 0)]
    assert view.unit == "number"
    assert sum(view.ends) == matches.count() == 3
    marks = [[(mark.at, mark.variable) for mark in one.marks] for one in view.matches]
    assert [(0.0, "S"), (4.0, "S")] in marks
    drawn = matches._repr_html_()
    assert "<svg" in drawn
    assert "S 3" in drawn.partition("<table")[0]
    match = matches.head(1)[0]._repr_html_()
    assert "a match from 0 to 4" in match
    picture = match.partition("</svg>")[0]
    assert "S: S 0" in picture
    assert "S: S 3" in picture
    assert "<td>S 0, S 3</td>" in match
    assert "<svg" not in trace_houses("C ; A ; C").matches._repr_html_()


def test_dates_are_drawn_in_milliseconds_and_ends_may_be_told_apart_by_listing_alone() -> None:
    time = "<http://www.w3.org/ns/prov#generatedAtTime>"
    kind = "<http://www.w3.org/2001/XMLSchema#dateTime>"
    quads = [
        f'<urn:{n}> {time} "1970-01-01T00:00:0{n}Z"^^{kind} .\n<urn:s> <urn:p> "{n}" <urn:{n}> .\n'
        for n in range(3)
    ]
    text = """SELECT ?s FROM STREAM S <urn:s> WHERE { SEQ ((A | B) : C)
      DEFINE GPM A ON S { ?s <urn:p> ?a } DEFINE GPM B ON S { ?s <urn:p> ?b }
      DEFINE GPM C ON S { ?s <urn:p> ?c } }"""
    seen = cernis.query(text, lang="spaseq").trace({"S": "".join(quads).encode()})
    view = seen.matches.timeline()
    assert (view.start, view.stop, view.unit) == (0.0, 2000.0, "ms")
    assert sum(view.ends) == 3
    assert [seen.step(row).completed for row in range(3)] == [0, 1, 2]
