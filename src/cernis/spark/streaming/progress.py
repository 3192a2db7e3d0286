"""`Progress`: the numbers of each micro-batch, from Spark's own listeners.

The JVM counts rows, buckets report their numbers; both are observed metrics of the streaming
query, so they are also in `query.lastProgress`, in Spark's event log and on its web pages.

    cernis.spark.watch(spark, lambda progress: print(progress.matches, progress.late))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from cernis.work.columns import AHEAD, UNDECODABLE, UNTIMED
from cernis.work.progress import Progress, RuleNumbers

BUCKETS, ROWS = "cernis.buckets.", "cernis.rows."
"""The prefixes of observed metrics: of all buckets, and of the rows of a stream."""
GAUGES = ("kept", "waiting", "keys", "records", "stored", "stored_bytes")
"""The numbers of a bucket that stay until its next call."""


def progress_of(told: Mapping[str, Any]) -> Progress | None:
    """Return the numbers of `query.lastProgress`; None if the query is not one of Cernis."""
    observed = told.get("observedMetrics") or {}
    buckets = [_numbers(row) for name, row in observed.items() if name.startswith(BUCKETS)]
    streams = {
        name.removeprefix(ROWS): _numbers(row)
        for name, row in observed.items()
        if name.startswith(ROWS)
    }
    if not buckets:
        return None

    def rows(name: str) -> int:
        return sum(int(stream.get(name) or 0) for stream in streams.values())

    def sums(name: str) -> int:
        return sum(int(one.get(name) or 0) for one in buckets)

    spent = {name: float(value) for name, value in (told.get("durationMs") or {}).items()}
    spent |= {part: float(sums(f"{part}_ms")) for part in ("engine", "state")}

    def per_bucket(name: str) -> dict[int, int]:
        told = [
            (key.partition(f"{name} in "), value) for one in buckets for key, value in one.items()
        ]
        return {int(n): int(value) for (_, found, n), value in told if found and value is not None}

    def rules() -> dict[int, dict[str, RuleNumbers]]:
        told = [(key.partition("rules in "), text) for one in buckets for key, text in one.items()]
        return {
            int(number): {name: _read_rule(*own) for name, own in json.loads(text).items()}
            for (_, found, number), text in told
            if found and text is not None
        }

    return Progress(
        query=str(told.get("id")),
        run=str(told.get("runId")),
        batch=int(told.get("batchId", 0)),
        rows=rows("rows"),
        events=sums("events"),
        late=sums("late"),
        ahead=rows(AHEAD),
        untimed=rows(UNTIMED),
        undecodable=rows(UNDECODABLE),
        waiting=sums("waiting"),
        matches=sums("matches"),
        state_bytes=sums("kept"),
        per_bucket=per_bucket("kept"),
        waiting_per_bucket=per_bucket("waiting"),
        keys_per_bucket=per_bucket("keys"),
        records_per_bucket=per_bucket("records"),
        stored_per_bucket=per_bucket("stored"),
        stored_bytes_per_bucket=per_bucket("stored_bytes"),
        recalled=sums("recalled"),
        watermark=(told.get("eventTime") or {}).get("watermark"),
        milliseconds=spent,
        rules_per_bucket=rules(),
        streams=streams,
    )


def _read_rule(*numbers: float) -> RuleNumbers:
    *counts, milliseconds = numbers
    events, matches, suppressed, records = (round(count) for count in counts)
    return RuleNumbers(events, matches, suppressed, records, milliseconds)


def _numbers(row: Any) -> dict[str, Any]:
    return dict(row) if isinstance(row, Mapping) else row.asDict()


class _Listener(StreamingQueryListener):
    def __init__(self, told: Callable[[Progress], None]) -> None:
        self.told = told

    def onQueryStarted(self, event: Any) -> None:
        """Nothing has happened yet."""

    def onQueryProgress(self, event: Any) -> None:
        observed = {"observedMetrics": event.progress.observedMetrics}
        progress = progress_of(json.loads(event.progress.json) | observed)
        if progress is not None:
            self.told(progress)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing came."""

    def onQueryTerminated(self, event: Any) -> None:
        """Spark tells the user."""


def watch(spark: Any, told: Callable[[Progress], None]) -> StreamingQueryListener:
    """Call `told` after every micro-batch of a query of Cernis.

    Returns a listener, for `spark.streams.removeListener`.
    """
    listener = _Listener(told)
    spark.streams.addListener(listener)
    return listener
