"""Numbers of a stream for Prometheus: the text, the port and the file, without Spark."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cernis.cli.metrics import MetricsTarget, StreamMetrics, parse_metrics, publish, write_file
from cernis.errors import CernisError
from cernis.work.progress import Progress, RuleNumbers


def progress(batch: int, **numbers: Any) -> Progress:
    counts = ("rows", "events", "late", "ahead", "untimed", "undecodable", "waiting", "matches")
    gauges = ("per_bucket", "waiting_per_bucket", "keys_per_bucket", "records_per_bucket")
    told: dict[str, Any] = {**dict.fromkeys(counts, 0), **{name: {} for name in gauges}}
    told |= {"query": "q", "run": "r", "batch": batch, "recalled": 0, "state_bytes": 0}
    told |= {"watermark": None, "milliseconds": {"addBatch": 1500.0, "engine": 250.0}}
    return Progress(**{**told, **numbers})


def taken() -> StreamMetrics:
    metrics = StreamMetrics()
    assert metrics.take(
        progress(3, rows=10, events=6, late=1, ahead=2, keys_per_bucket={0: 4, 1: 5})
    )
    for is_new in (True, False):  # told twice
        second = progress(
            4,
            rows=5,
            events=5,
            matches=7,
            keys_per_bucket={1: 6},
            records_per_bucket={1: 30},
            stored_per_bucket={1: 12},
            stored_bytes_per_bucket={1: 480},
            watermark="1970-01-01T00:01:00.500Z",
        )
        assert metrics.take(second) is is_new
    metrics.warn("absent-type")
    return metrics


def test_counters_add_up_and_gauges_are_the_last_of_each_bucket() -> None:
    assert (
        taken().write()
        == """\
# HELP cernis_batches_total Micro-batches.
# TYPE cernis_batches_total counter
cernis_batches_total 2
# HELP cernis_rows_total Rows that came.
# TYPE cernis_rows_total counter
cernis_rows_total 15
# HELP cernis_events_total Rows that the query can use.
# TYPE cernis_events_total counter
cernis_events_total 11
# HELP cernis_irrelevant_rows_total Rows that no test of the query passes.
# TYPE cernis_irrelevant_rows_total counter
cernis_irrelevant_rows_total 1
# HELP cernis_late_events_total Events after the watermark had passed them.
# TYPE cernis_late_events_total counter
cernis_late_events_total 1
# HELP cernis_recalled_events_total Events read again by another worker.
# TYPE cernis_recalled_events_total counter
cernis_recalled_events_total 0
# HELP cernis_matches_total Matches.
# TYPE cernis_matches_total counter
cernis_matches_total 7
# HELP cernis_dropped_events_total Events that cannot be read.
# TYPE cernis_dropped_events_total counter
cernis_dropped_events_total{reason="ahead"} 2
cernis_dropped_events_total{reason="undecodable"} 0
cernis_dropped_events_total{reason="untimed"} 0
# HELP cernis_warnings_total Warnings about the events, each counted once.
# TYPE cernis_warnings_total counter
cernis_warnings_total{code="absent-type"} 1
# HELP cernis_stage_seconds_total Time in each stage; engine and state are summed over tasks.
# TYPE cernis_stage_seconds_total counter
cernis_stage_seconds_total{stage="addBatch"} 3
cernis_stage_seconds_total{stage="engine"} 0.5
# HELP cernis_waiting_events Events that wait for the watermark.
# TYPE cernis_waiting_events gauge
cernis_waiting_events 0
# HELP cernis_state_bytes Bytes of state.
# TYPE cernis_state_bytes gauge
cernis_state_bytes 0
# HELP cernis_keys Partitions that the engine has numbers for.
# TYPE cernis_keys gauge
cernis_keys 10
# HELP cernis_vertices Nodes and vertices of partial matches.
# TYPE cernis_vertices gauge
cernis_vertices 30
# HELP cernis_stored_events Events that a match may still report.
# TYPE cernis_stored_events gauge
cernis_stored_events 12
# HELP cernis_stored_bytes Memory of these events.
# TYPE cernis_stored_bytes gauge
cernis_stored_bytes 480
# HELP cernis_watermark_seconds The watermark, since 1970.
# TYPE cernis_watermark_seconds gauge
cernis_watermark_seconds 60.5
"""
    )


def test_a_port_gives_the_numbers_of_the_moment_and_is_free_afterwards() -> None:
    metrics = StreamMetrics()
    with publish(MetricsTarget(port=0), metrics) as address:
        assert address is not None
        metrics.take(progress(0, rows=42))
        with urllib.request.urlopen(address) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert "\ncernis_rows_total 42\n" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("metrics", "other"))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        target = MetricsTarget(port=other.getsockname()[1])
        with (
            pytest.raises(CernisError, match=rf"^--metrics {target.port}: Address already in use$"),
            publish(target, StreamMetrics()),
        ):
            pass


def test_a_file_is_there_from_the_start_and_replaced(tmp_path: Path) -> None:
    target = parse_metrics(str(tmp_path / "numbers.prom"))
    assert target.path is not None
    metrics = StreamMetrics()
    with publish(target, metrics) as address:
        assert address is None
        assert "\ncernis_rows_total 0\n" in target.path.read_text()
        metrics.take(progress(0, rows=42))
        write_file(target, metrics)
    assert target.path.read_text() == metrics.write()
    assert list(tmp_path.iterdir()) == [target.path]


def test_a_port_beyond_the_last_is_refused() -> None:
    with pytest.raises(CernisError, match=r"^--metrics 65536: ports go up to 65535$"):
        parse_metrics("65536")


def test_rules_have_numbers_of_their_own_for_as_long_as_they_run() -> None:
    metrics = StreamMetrics()
    metrics.change_rules(["a", 'b "loud"'], {})
    first = {"a": RuleNumbers(5, 2, 0, 7, 250.0), 'b "loud"': RuleNumbers(5, 1, 4, 1, 1.0)}
    metrics.take(progress(0, rules_per_bucket={0: first, 1: {"a": RuleNumbers(1, 0, 0, 3, 250.0)}}))
    metrics.take(progress(1, rules_per_bucket={0: {"a": RuleNumbers(2, 1, 0, 4, 500.0)}}))
    lines = metrics.write().splitlines()
    for line in (
        "cernis_rules 2",
        'cernis_rule_events_total{rule="a"} 8',
        'cernis_rule_matches_total{rule="a"} 3',
        'cernis_rule_seconds_total{rule="a"} 1',
        'cernis_rule_vertices{rule="a"} 7',
        'cernis_rule_suppressed_total{rule="b \\"loud\\""} 4',
    ):
        assert line in lines
    metrics.change_rules(["a"], {"removed": 1, "refused": 2})
    lines = metrics.write().splitlines()
    assert 'cernis_rule_changes_total{change="refused"} 2' in lines
    assert not any("loud" in line for line in lines)
