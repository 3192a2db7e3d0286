"""The shape of a benchmark: a question, a run that returns records, and how to show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cernis.bench.record import Record, Table
from cernis.bench.scale import BenchmarkScale

Step = Callable[[str, int, int], None]
"""Told before each piece of work: what it is, how many are done, of how many."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`run` measures; `tables` and `points` show its records, as text and as a chart's data."""

    name: str
    title: str
    question: str
    run: Callable[[BenchmarkScale, Step], list[Record]]
    tables: Callable[[Sequence[Record]], list[Table]]
    points: Callable[[Sequence[Record]], list[Mapping[str, object]]]


def ignore_step(_description: str, _done: int, _total: int) -> None:
    """A `Step` that tells nobody."""
