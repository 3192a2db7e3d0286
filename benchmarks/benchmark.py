"""`Benchmark`: a question, a run that returns records, and how to show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.record import Record
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table

Part = tuple[str, Callable[[], list[Record]]]
"""A part of a run, with its description."""
Step = Callable[[str, int, int], None]
"""Called before each part of a run with its description, the parts done, and all parts."""


BEST = (
    "Each contestant runs once per round; the tables show its best round. Compare numbers\n"
    "within a table, not across machines."
)
MEDIANS = (
    "Contestants take turns; the tables show medians of their rounds. Compare numbers\n"
    "within a table, not across machines."
)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: `run` measures, `tables` shows records as text, `points` as a chart's data."""

    name: str
    title: str
    question: str
    run: Callable[[BenchmarkScale, Step], list[Record]]
    tables: Callable[[Sequence[Record]], list[Table]]
    points: Callable[[Sequence[Record]], list[Mapping[str, object]]]
    method: str = BEST
    """How the numbers came about."""


def run_parts(parts: Sequence[Part], step: Step) -> list[Record]:
    """Run the parts of a benchmark one after the other."""
    records: list[Record] = []
    for done, (name, measure) in enumerate(parts):
        step(name, done, len(parts))
        records += measure()
    return records
