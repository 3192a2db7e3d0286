"""What the page on a trillion events a day says is what the simulation gives."""

from __future__ import annotations

import pytest

from benchmarks.cluster import CASES, FULL_DAY, ROWS, Cluster, ClusterOutcome, find_limit, simulate
from benchmarks.scale import FULL


def run(name: str) -> ClusterOutcome:
    return simulate(CASES[name], 60.0 * FULL.cluster_minutes)


def test_even_keys_keep_up_with_200_cores_and_not_with_100() -> None:
    even, half = run("even keys"), run("even keys, half the cores")
    assert even.backlog < 0.01
    assert even.batch == pytest.approx(5, abs=0.5)
    assert even.latency == pytest.approx(11, abs=1)
    assert even.state == pytest.approx(97e9, rel=0.01)
    assert half.backlog == pytest.approx(1 / 3, abs=0.02)


def test_a_hot_key_breaks_first_and_more_cores_hardly_help() -> None:
    assert find_limit(CASES["even keys"]) > FULL_DAY
    assert find_limit(CASES["skewed keys (Zipf 1)"]) == pytest.approx(1e11, rel=0.02)
    few, many = "skewed keys (Zipf 1.1)", "skewed keys (Zipf 1.1), ten times the cores"
    assert find_limit(CASES[few]) == pytest.approx(5e10, rel=0.05)
    assert find_limit(CASES[many]) == pytest.approx(6e10, rel=0.05)


def test_a_late_source_costs_state_and_latency_and_no_core() -> None:
    even, late = run("even keys"), run("a source is an hour late")
    assert late.busy == even.busy
    assert late.latency == even.latency + 3600
    assert late.state == pytest.approx(672e9, rel=0.01)


def test_without_a_key_one_core_reads_all() -> None:
    assert find_limit(Cluster(keys=1, cores=200)) == pytest.approx(ROWS * 86_400)
