"""Every benchmark at its smallest: that it runs, what it returns, and that it counts right."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from math import isfinite
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

import cernis
from benchmarks import BENCHMARKS, run_benchmarks
from benchmarks.aggregates import (
    FUNCTIONS,
    list_types,
    make_moving_stream,
    write_group_query,
)
from benchmarks.correlation import (
    LISTED,
    SPAN,
    WORKLOADS,
    count_enumerated,
    make_candidate_stream,
    make_keyed_stream,
    make_triple_stream,
    write_candidates_query,
)
from benchmarks.detections import detection_rules
from benchmarks.endless import push_stream
from benchmarks.endurance import QUERIES, RULE_SETS, choose_events
from benchmarks.endurance_process import make_batches, make_host_batches, observe_stream
from benchmarks.first import FIRST
from benchmarks.peer import ABSENT, find_peer, start_peer
from benchmarks.record import EXPONENT, Record, find
from benchmarks.row_patterns import MISSING, NO_TRINO
from benchmarks.scale import QUICK, VARIABLE, choose_scale
from benchmarks.sequences import TYPES, encode_symbols, write_sequence_query
from benchmarks.spark import endurance
from benchmarks.spark.batch_process import read_processor_seconds
from benchmarks.strategies import make_halting_stream, write_kleene_query
from benchmarks.watched import Watched
from cernis.errors import CernisError
from cernis.generators.stock import stock_stream
from cernis.plan.plan import Guarantee
from cernis.testing.oracle import evaluate, evaluate_groups
from tools.cases.naive import NaiveRuns

Measured = Callable[[str], list[Record]]

LONG = {
    "absence",
    "aggregates",
    "correlation",
    "cost",
    "endless",
    "endless-spark",
    "first",
    "live",
    "match-recognize",
    "memory",
    "partitions",
    "rules",
    "sequences",
    "serve",
    "spark",
    "spaseq",
    "strategies",
    "streaming",
    "threads",
    "workbench",
}
"""They compile much, take a minute or start processes by the dozen: `make soak` runs them."""
EVERY = [pytest.param(n, marks=[pytest.mark.fuzz] if n in LONG else []) for n in BENCHMARKS]


@pytest.mark.parametrize("name", EVERY)
def test_every_record_has_a_positive_value_or_says_why_not(name: str, measured: Measured) -> None:
    records = measured(name)
    assert records
    for record in records:
        assert record.benchmark == name
        if record.value is None:
            absent = record.note in (ABSENT, MISSING, NO_TRINO) or record.measure in {
                "times CORE",
                "enumerated",
            }
            assert absent, record
        elif record.unit == EXPONENT:
            assert isfinite(record.value), record
        elif record.measure != "matches":
            assert record.value > 0, record


@pytest.mark.parametrize("name", EVERY)
def test_no_case_is_measured_twice(name: str, measured: Measured) -> None:
    seen = [(r.measure, tuple(sorted(r.case.items()))) for r in measured(name)]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("name", EVERY)
def test_tables_are_rectangular(name: str, measured: Measured) -> None:
    for table in BENCHMARKS[name].tables(measured(name)):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.fuzz
def test_every_length_is_measured_in_every_window(measured: Measured) -> None:
    for n in QUICK.lengths:
        for window in QUICK.windows:
            for measure in ("recognised", "silent", "first", "bare pass", "matches"):
                value = find(measured("sequences"), measure, n=n, window=window)
                assert value is not None, (measure, n, window)


@pytest.mark.fuzz
def test_the_shortest_sequence_has_matches_to_enumerate(measured: Measured) -> None:
    case = {"n": QUICK.lengths[0], "window": QUICK.windows[0]}
    matches = find(measured("sequences"), "matches", **case)
    assert matches is not None
    assert 0 < matches <= QUICK.most_enumerated
    assert find(measured("sequences"), "all", **case) is not None


@pytest.mark.parametrize("window", [5, 20])
@pytest.mark.parametrize("length", [2, 3])
def test_the_sequence_query_finds_what_the_oracle_finds(length: int, window: int) -> None:
    events = stock_stream(60, 7, symbols=3)
    names = sorted(set(events["name"].to_pylist()))
    query = cernis.query(write_sequence_query(length, window, names))
    expected = evaluate(query.pattern, events.to_pylist())
    assert expected
    assert query.run(events).count() == len(expected)
    silent = cernis.query(write_sequence_query(length, window, names, silent=True))
    assert silent.run(events).count() == 0
    first = cernis.query(write_sequence_query(length, window, names, limit=1))
    assert first.run(events).count() == len({match.end for match in expected})


@pytest.mark.parametrize("strategy", ["ALL", "NEXT", "LAST", "MAX", "ANY"])
def test_the_kleene_query_finds_what_the_oracle_finds(strategy: str) -> None:
    events = make_halting_stream(24, 12)
    query = cernis.query(write_kleene_query(strategy, 10))
    expected = evaluate(query.pattern, events.to_pylist())
    assert expected
    assert query.run(events).count() == len(expected)


@pytest.mark.parametrize(("pattern", "every"), [("T0 ; T1 ; T2", None), ("T0 ; T1+ ; T2", 4)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_group_query_finds_what_the_oracle_finds(
    function: str, pattern: str, every: int | None
) -> None:
    events = make_moving_stream(list_types(3), 16, every)
    query = cernis.Query[cernis.Groups](write_group_query(function, pattern, 10, "T1"))
    expected = evaluate_groups(query.pattern, events.to_pylist())
    assert expected
    assert [group.values for group in query.run(events)] == [g.values for g in expected]


@pytest.mark.parametrize("every", [None, 2])
def test_every_event_of_a_moving_stream_moves_something(every: int | None) -> None:
    types = list_types(24)
    text = f"SELECT * FROM S WHERE {' ; '.join(types)} WITHIN 100 EVENTS"
    session = cernis.query(text).session()
    session.push(make_moving_stream(types, 300, every))
    before = session.engine.relevant
    session.push(make_moving_stream(types, 1300, every).slice(300))
    assert session.engine.relevant - before == 1000


GUARANTEES = {
    "chain": Guarantee.CHAIN,
    "chain with !=": Guarantee.CHAIN,
    "hierarchical": Guarantee.HIERARCHICAL,
    "ordered": Guarantee.ORDERED,
    "rising": Guarantee.ORDERED,
    "gaps": Guarantee.ORDERED,
    "part within": Guarantee.ORDERED,
    "next that fits": Guarantee.CHAIN,
    "unless": Guarantee.CHAIN,
    "across": Guarantee.ORDERED,
    "unless ordered": Guarantee.ORDERED,
    "calculated chain": Guarantee.CHAIN,
    "calculated order": Guarantee.ORDERED,
    "near": Guarantee.ORDERED,
    "gap in a condition": Guarantee.ORDERED,
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_correlated_workload_runs_on_indexes_and_finds_what_the_oracle_finds(
    name: str,
) -> None:
    workload = WORKLOADS[name]
    query = cernis.query(workload.query(8))
    assert query.plan.guarantee is GUARANTEES[name]
    assert not query.plan.listed
    # the oracle makes all iterations before it looks at the window
    events = make_keyed_stream(12 if name == "rising" else 40, 2, workload.types)
    if name == "near":  # prices that often meet
        prices = pc.round(events.column("price"))
        events = events.set_column(events.schema.names.index("price"), "price", prices)
    if SPAN in workload.where:
        events = events.append_column("ts", pa.array(range(len(events))))
    expected = evaluate(query.pattern, events.to_pylist())
    assert expected
    assert query.run(events).count() == len(expected)


@pytest.mark.parametrize("name", LISTED)
def test_the_run_list_finds_as_many_matches_as_the_engine(name: str) -> None:
    query = cernis.query(WORKLOADS[name].query(20))
    assert query.plan.tables is not None
    events = make_keyed_stream(100, 3, WORKLOADS[name].types)
    runs = NaiveRuns(query.plan.tables.pcea, 20)
    assert len(runs.run(events.to_pylist())) == query.run(events).count() > 0


@pytest.mark.fuzz
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_says_how_its_cost_grows(name: str, measured: Measured) -> None:
    records = measured("correlation")
    narrower = WORKLOADS[name].narrower
    for measure in ("engine", "session"):
        for window in QUICK.correlated_windows:
            case = {"query": name, "window": window // narrower}
            assert find(records, measure, **case) is not None
        assert find(records, f"{measure}, growth", query=name) is not None
        assert find(records, f"{measure}, widest to narrowest window", query=name) is not None


@pytest.mark.fuzz
def test_more_runs_wait_in_a_wider_window(measured: Measured) -> None:
    for name in WORKLOADS:
        waiting = [
            r.value
            for r in measured("correlation")
            if r.measure == "waiting" and r.case["query"] == name
        ]
        assert waiting == sorted(waiting), name
        assert len(set(waiting)) == len(QUICK.correlated_windows), name


@pytest.mark.parametrize("keys", [1, 7, 1000])
def test_every_event_of_a_triple_finds_its_partner(keys: int) -> None:
    watched = Watched(cernis.query(WORKLOADS["chain"].query(10)))
    watched.push(make_triple_stream(300, keys))
    assert watched.engine.relevant == 300


def test_what_is_enumerated_is_what_is_left_by_scan_and_filter() -> None:
    events = make_candidate_stream(200, 20, 0.9)
    found = {}
    for different in (True, False):
        watched = Watched(
            cernis.query(write_candidates_query(220, different=different)), keeps=True
        )
        watched.push(events)
        found[different] = watched.found()
    different, every = count_enumerated(found[True]), count_enumerated(found[False])
    assert 0 < different < every
    assert count_enumerated(found[False], events["u"].to_numpy()) == different


def test_only_a_query_on_indexes_is_watched() -> None:
    with pytest.raises(ValueError, match="no index to watch"):
        Watched(cernis.query("SELECT * FROM S WHERE A AS x ; B AS y WITHIN 5 EVENTS"))


@pytest.mark.parametrize("kind", QUERIES)
def test_every_class_of_query_runs_along_a_stream(kind: str) -> None:
    observed = observe_stream(QUERIES[kind], 2000, 50, 4)
    assert [sample.events for sample in observed] == [550, 1050, 1550, 2050]
    assert all(sample.bytes > 0 and sample.rate > 0 for sample in observed)


@pytest.mark.parametrize("kind", RULE_SETS)
def test_every_set_of_rules_runs_along_a_stream(kind: str) -> None:
    some = dict([*RULE_SETS[kind].items()][:20])
    observed = observe_stream(some, 400, 50, 2)
    assert [sample.events for sample in observed] == [250, 450]
    assert all(sample.bytes > 0 and sample.rate > 0 for sample in observed)
    assert len(RULE_SETS[kind]) == 200
    assert len(cernis.rules(some).session().sessions) == 20  # no two share an engine


def test_detections_run_along_a_log_of_hosts() -> None:
    batches = make_host_batches(100)
    first, second = next(batches)["ts"], next(batches)["ts"]
    assert second[0].as_py() - first[-1].as_py() == first[1].as_py() - first[0].as_py()
    observed = observe_stream(detection_rules(20), 400, 50, 2, "hosts")
    assert [sample.events for sample in observed] == [250, 450]


def test_times_and_visits_go_on_from_batch_to_batch() -> None:
    batches = make_batches(1000)
    first, second = next(batches), next(batches)
    assert second["ts"][0].as_py() - first["ts"][-1].as_py() == 50
    assert min(second["visit"].to_pylist()) == max(first["visit"].to_pylist()) + 1


def test_the_length_of_an_endless_stream_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_events(QUICK) == QUICK.endless_events
    monkeypatch.setenv("CERNIS_ENDLESS_EVENTS", "1000000000")
    assert choose_events(QUICK) == 10**9
    monkeypatch.setenv("CERNIS_ENDLESS_EVENTS", "many")
    with pytest.raises(CernisError, match="is 'many'; it must be a number of at least 20"):
        choose_events(QUICK)


def test_the_minutes_of_micro_batches_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert endurance.choose_minutes(QUICK) == QUICK.endless_minutes
    monkeypatch.setenv("CERNIS_ENDLESS_MINUTES", "60")
    assert endurance.choose_minutes(QUICK) == 60
    monkeypatch.setenv("CERNIS_ENDLESS_MINUTES", "1 h")
    with pytest.raises(CernisError, match="is '1 h'; it must be a number of minutes"):
        endurance.choose_minutes(QUICK)


def test_first_answers_are_compared_with_that_of_a_sequence() -> None:
    seconds = {"sequence": 2.0, "LONGEST, sessions": 5.0}
    records = [
        Record("first", "cold, processor", value, "s", {"query": query, "rows": 9})
        for query, value in seconds.items()
    ]
    table = FIRST.tables(records)[0]
    at = table.columns.index("cold, to a sequence (aim ≤ 3)")
    assert [row[at] for row in table.rows] == ["1", "2.5"]


def test_halves_of_the_time_are_compared_after_the_first_fifth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, seconds, state = [9, 2, 2, 3, 4], [5.0, 1.0, 1.0, 2.0, 2.0], [7, 10, 20, 30, 5]
    samples = [
        endurance.HourSample(i, {"Java": memory[i]}, {"a": seconds[i]}, {"a": 1024 * state[i]})
        for i in range(5)
    ]
    monkeypatch.setattr(endurance, "observe_hour", lambda *_: samples)
    records = endurance.run_endless_spark(QUICK, lambda *_: None)
    session, classes = endurance.build_tables(records)
    assert [row[-1] for row in session.rows] == ["1.75"]
    assert classes.rows == (("a", "4", "2", "2", "30", "1.5"),)
    points = [p for p in endurance.build_points(records) if p["what"] == "memory"]
    assert [point["ratio"] for point in points] == [value / 9 for value in memory]


def test_memory_is_never_more_than_its_peak() -> None:
    text = "SELECT * FROM S WHERE (SELL AS a; BUY AS b; SELL AS c) WITHIN 10 EVENTS"
    used = push_stream(text, 1000, 100)
    assert used.peak_bytes >= used.settled_bytes > 0


def test_results_go_to_the_terminal_a_page_a_chart_and_a_file(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    target = tmp_path / "records.json"
    code = run_benchmarks(["partitions"], target, console, scale=QUICK, pages=tmp_path)
    assert code == 0
    document = json.loads(target.read_text())
    assert {record["benchmark"] for record in document["records"]} == {"partitions"}
    assert "processor" in document["machine"]
    page = (tmp_path / "partitions.md").read_text()
    assert page.startswith("# Partitions\n")
    assert "cernis bench partitions" in page
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Events per second by keys" in text
    drawn = (tmp_path / "partitions.svg").exists()
    assert drawn == ("partitions.svg" in page)
    assert drawn != ("chart is left out" in text)


def test_an_unknown_benchmark_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(CernisError) as caught:
        run_benchmarks(["sequence"], None, Console(file=io.StringIO()))
    assert str(caught.value) == (
        "unknown benchmark 'sequence'; there are sequences, partitions, strategies, threads, "
        "aggregates, absence, rules, match-recognize, memory, endless, correlation, spark, "
        "streaming, endless-spark, live, spaseq, serve, first, workbench, peers, cost, cluster"
    )


def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    target = tmp_path / "nowhere" / "records.json"
    with pytest.raises(CernisError, match="there is no such directory"):
        run_benchmarks([], target, Console(file=io.StringIO()))


def test_the_scale_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "quick")
    assert choose_scale() == QUICK
    monkeypatch.setenv(VARIABLE, "tiny")
    with pytest.raises(CernisError, match="it can be 'full' or 'quick'"):
        choose_scale()


def test_an_interpreter_without_core_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CERNIS_PEER_PYTHON", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_peer() is None


@pytest.mark.skipif(find_peer() is None, reason="CORE (pycer, CPython 3.13) is not installed")
def test_core_finds_as_many_matches() -> None:
    python = find_peer()
    assert python is not None
    events = stock_stream(2000, 5)
    names = sorted(set(events["name"].to_pylist()))
    text = write_sequence_query(3, 100, names)
    codes = encode_symbols(events, names).astype("uint16")
    with start_peer(python, list(TYPES), names, codes) as peer:
        assert peer.events == 2000
        assert peer.run(text).matches == cernis.query(text).run(events).count()


def test_a_process_that_has_ended_keeps_its_seconds_until_its_parent_looks() -> None:
    import psutil

    before = read_processor_seconds()
    with subprocess.Popen([sys.executable, "-c", "sum(range(10**6))"]) as child:
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert read_processor_seconds() > before
