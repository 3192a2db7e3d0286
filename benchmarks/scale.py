"""The sizes of the benchmarks' workloads: full for numbers, quick for tests.

`CERNIS_BENCH_SCALE=quick` chooses the quick scale, at which every line of every benchmark runs in
seconds. Its numbers mean nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from cernis.errors import CernisError

VARIABLE = "CERNIS_BENCH_SCALE"


@dataclass(frozen=True, slots=True)
class BenchmarkScale:
    """The sizes of all workloads."""

    name: str = "full"
    rounds: int = 3
    first_rows: tuple[int, ...] = (2000, 20_000, 40_000, 200_000)
    first_spark_rows: int = 20_000
    first_pairs: int = 9
    first_runs: int = 3
    peer_rows: tuple[int, ...] = (50_000, 500_000)
    """The fewest first."""
    peer_checked: int = 12_000
    peer_cap: float = 10.0
    """Processor seconds for a question."""
    peer_names: tuple[str, ...] | None = None
    """None: all contestants."""
    peer_questions: tuple[str, ...] | None = None
    """None: all questions."""
    lengths: tuple[int, ...] = (3, 6, 9, 12, 24)
    windows: tuple[int, ...] = (100, 1000, 10_000)
    events: int = 2_000_000
    peer_events: int = 200_000
    most_enumerated: int = 2_000_000
    keys: tuple[int, ...] = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    keyed_events: int = 2_000_000
    waiting: tuple[int, ...] = (100, 1000, 10_000, 100_000, 1_000_000)
    waiting_events: int = 1_500_000
    cost_events: int = 400_000
    cost_keys: tuple[int, ...] = (1, 10, 100, 1000, 10_000, 100_000)
    cost_rules: tuple[int, ...] = (1, 3, 10, 30, 100, 300)
    cost_matches: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    cluster_minutes: int = 60
    rules: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    mixed_rules: tuple[int, ...] = (1, 10, 100, 1000)
    rule_events: int = 2_000_000
    pattern_rows: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    pattern_spark_rows: int = 100_000
    """0: not on Spark."""
    pattern_flink_rows: int = 20_000
    pattern_trino_rows: int = 5_000
    detections: tuple[int, ...] = (1, 10, 100, 1000, 3000, 10_000)
    detected_events: int = 100_000
    pushes: tuple[int, ...] = (500, 5000, 50_000)
    served: str = "stocks-million"
    """A sample of the playground."""
    live_rates: tuple[int, ...] = (1000, 10_000, 100_000)
    live_seconds: float = 6.0
    live_events: int = 1_000_000
    workbench_events: int = 10_000_000
    workbench_window: int = 2000
    workbench_values: int = 100
    workbench_labelled: int = 100_000
    workbench_labellings: int = 2000
    threaded_events: int = 6_000_000
    strategy_events: int = 500_000
    strategy_windows: tuple[int, ...] = (20, 100, 500, 2000)
    aggregate_lengths: tuple[int, ...] = (3, 6, 12, 24)
    aggregate_windows: tuple[int, ...] = (100, 1000, 10_000, 100_000)
    aggregate_events: int = 500_000
    aggregate_walked: int = 10_000
    """The widest window in which the compact set is walked."""
    endless: tuple[str, ...] = ("sequence", "Kleene", "partitions")
    stream_lengths: tuple[int, ...] = (1_000_000, 10_000_000, 100_000_000)
    batch: int = 100_000
    endless_events: int = 10_000_000
    endless_classes: tuple[str, ...] | None = None
    """None: all of them."""
    endless_minutes: int = 10
    endless_samples: int = 20
    """On Spark."""
    correlated_windows: tuple[int, ...] = (1000, 5000, 20_000, 100_000)
    correlated_turns: int = 20
    far_windows: tuple[int, ...] = (300, 1000, 3000, 10_000)
    far_events: int = 100_000
    far_longer: int = 1_000_000
    far_join_cap: float = 120.0
    """The most seconds that a join of the longer stream may be expected to take."""
    listed_windows: tuple[int, ...] = (20, 40, 80, 160)
    listed_events: int = 200
    correlated_keys: tuple[int, ...] = (1, 1000, 100_000)
    correlated_key_window: int = 10_000
    correlated_keyed_events: int = 900_000
    candidates: int = 20_000
    asking: int = 2000
    counted: int = 1000
    spark_rows: int = 5_000_000
    spark_rounds: int = 2
    spark_pairs: int = 9
    spark_cases: tuple[str, ...] | None = None
    """None: all of them."""
    spark_joined: tuple[int, ...] = (250_000, 2_000_000)
    spark_cores: tuple[int, ...] = (1, 2)
    spark_key: tuple[int, ...] = (1_000_000, 10_000_000)
    streaming_keys: tuple[int, ...] = (10, 1000, 100_000)
    streaming_rows: int = 300_000
    streaming_files: int = 4
    streaming_plain_rows: int = 50_000
    streaming_kept: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    streaming_small: int = 1000
    streaming_small_files: int = 10
    streaming_state: tuple[tuple[int, int], ...] = ((50_000, 12), (50_000, 36), (500_000, 60))
    """Windows in milliseconds and numbers of files; a second, longer, a third, wider."""
    streaming_latency: int = 6
    streaming_graphs: int = 20_000
    streaming_graph_keys: int = 1000
    spaseq_events: int = 96_000
    spaseq_windows: tuple[int, ...] = (500, 2000, 8000, 32_000)
    spaseq_clauses: tuple[int, ...] = (3, 5, 7, 9)
    spaseq_clause_events: int = 20_000
    spaseq_background: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    spaseq_known_events: int = 20_000
    spaseq_stage_events: int = 30_000
    spaseq_listed_windows: tuple[int, ...] = (100, 400, 1600)
    spaseq_listed_events: int = 1500


FULL = BenchmarkScale()
QUICK = BenchmarkScale(
    name="quick",
    rounds=1,
    peer_rows=(1000, 2000),
    peer_checked=2000,
    peer_names=("Cernis", "DuckDB", "pandas", "run list", "SPARQL store"),
    peer_questions=("sequence 3, 100", "next event", "absence", "sessions", "RDF"),
    lengths=(3, 24),
    windows=(50, 200),
    events=4000,
    peer_events=2000,
    most_enumerated=50_000,
    keys=(1, 10, 1000),
    keyed_events=4000,
    waiting=(100, 1000),
    waiting_events=2000,
    cost_events=2000,
    cost_keys=(1, 10, 100),
    cost_rules=(1, 2, 4),
    cost_matches=(100, 300, 1000),
    cluster_minutes=5,
    rules=(1, 10),
    mixed_rules=(1, 10),
    rule_events=2000,
    pattern_rows=(200, 400),
    pattern_spark_rows=0,
    pattern_flink_rows=400,
    pattern_trino_rows=400,
    detections=(1, 10),
    detected_events=1000,
    pushes=(100, 400),
    served="stocks",
    live_rates=(1000,),
    live_seconds=2.0,
    live_events=20_000,
    workbench_events=4000,
    workbench_window=50,
    workbench_values=5,
    workbench_labelled=500,
    workbench_labellings=10,
    threaded_events=3000,
    strategy_events=2000,
    strategy_windows=(20, 100),
    aggregate_lengths=(3, 6),
    aggregate_windows=(50, 200),
    aggregate_events=2000,
    aggregate_walked=200,
    endless=("Kleene",),
    stream_lengths=(4000, 8000),
    batch=1000,
    endless_events=4000,
    endless_classes=("sequence",),
    endless_minutes=0,
    endless_samples=5,
    correlated_windows=(50, 100, 200),
    correlated_turns=1,
    far_windows=(20, 50),
    far_events=400,
    far_longer=800,
    listed_windows=(5, 10),
    listed_events=20,
    correlated_keys=(1, 100),
    correlated_key_window=100,
    correlated_keyed_events=3000,
    candidates=1000,
    asking=100,
    counted=20,
    first_rows=(200,),
    first_spark_rows=400,
    first_pairs=1,
    first_runs=1,
    spark_rows=4000,
    spark_rounds=1,
    spark_pairs=1,
    spark_cases=(
        "keyed",
        "keyed, from files",
        "keyed, grouped",
        "keyed, rows",
        "keyed, packed",
        "sliced",
        "recognized",
        "joined",
    ),
    spark_joined=(1000, 2000),
    spark_cores=(2,),
    spark_key=(1000, 2000),
    streaming_keys=(10,),
    streaming_rows=2000,
    streaming_files=3,
    streaming_plain_rows=500,
    streaming_kept=(100, 200),
    streaming_small=100,
    streaming_small_files=2,
    streaming_state=((200, 2), (200, 3), (400, 2)),
    streaming_latency=1,
    streaming_graphs=200,
    streaming_graph_keys=10,
    spaseq_events=2400,
    spaseq_windows=(500, 1000),
    spaseq_clauses=(3, 7),
    spaseq_clause_events=2000,
    spaseq_background=(100, 1000),
    spaseq_known_events=300,
    spaseq_stage_events=300,
    spaseq_listed_windows=(60, 120),
    spaseq_listed_events=200,
)


def choose_scale() -> BenchmarkScale:
    """Return the scale that the environment names."""
    name = os.environ.get(VARIABLE, "full")
    for scale in (FULL, QUICK):
        if scale.name == name:
            return scale
    raise CernisError(f"{VARIABLE} is {name!r}; it can be 'full' or 'quick'")
