"""A processor with state for each key: the plain way to find pairs, for benchmarks.

One would write this with Spark's stateful processors alone. It reads events in order of
arrival within a micro-batch, at a fixed cost for each key in each micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd


class EachKey(StatefulProcessor):
    """Pairs of A and B within the window, key by key."""

    def __init__(self, window: int) -> None:
        self.window = window

    def init(self, handle: Any) -> None:
        self.open = handle.getValueState("open", "times string")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        saved = self.open.get()
        times = json.loads(saved[0]) if saved else []
        pairs = 0
        for frame in rows:
            events = zip(frame["type"], frame["ts"], strict=True)
            for type_, ts in sorted(events, key=itemgetter(1)):
                now = ts.timestamp() * 1000
                times = [t for t in times if now - t <= self.window]
                if type_ == "A":
                    times.append(now)
                else:
                    pairs += len(times)
        self.open.update((json.dumps(times),))
        if pairs:
            import pandas as pd

            yield pd.DataFrame({"k": [key[0]], "pairs": [pairs]})

    def close(self) -> None:
        """Nothing is held open."""
