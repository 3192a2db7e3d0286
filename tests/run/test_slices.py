"""Slices on threads give what one thread gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import cernis
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.run import slices
from cernis.run.stages.pipeline import Pipeline
from tools.cases.strategies import cases
from tools.cases.tables import make_table

Case = tuple[Pattern, Sequence[dict[str, Any]]]
SLICED = (Unit.EVENTS, Unit.TIME)


@pytest.fixture(autouse=True)
def _small_batches() -> Iterator[None]:
    """Cut a few events into many batches, however far back slices have to read."""
    with (
        mock.patch("cernis.events.order.BATCH_ROWS", 2),
        mock.patch("cernis.events.reading.reader.BATCH_ROWS", 2),
        mock.patch.object(slices, "_SPARE", 0),
    ):
        yield


@pytest.fixture
def handed() -> Iterator[list[int]]:
    """The number of slices that were read apart."""
    real, number = Pipeline.go_on_as, [0]

    def count(*args: Any) -> None:
        number[0] += 1
        real(*args)

    with mock.patch.object(Pipeline, "go_on_as", count):
        yield number


def look(query: cernis.Query[Any], events: pa.Table, threads: int) -> list[Any]:
    session = query.session(threads=threads)
    found = session.collect(events)
    if isinstance(found, cernis.Matches):
        shown = [found.to_arrow().to_pylist(), found.count(), found.counts().to_pylist()]
    else:
        shown = [found.to_arrow().to_pylist()]
    return [*shown, found.notes, session.metrics().relevant, session.events]


def check(case: Case) -> None:
    pattern, rows = case
    timed = pattern.within is not None and pattern.within.unit is Unit.TIME
    events = make_table(rows, timed=True if timed else None)
    one = look(cernis.query(pattern), events, 1)
    for threads in (2, 3):
        assert look(cernis.query(pattern), events, threads) == one


@pytest.mark.parametrize(
    "kind",
    [
        {"events": 14},
        {"binary": True, "previous": True, "size": 6, "events": 12},
        {"partition": True, "strategies": tuple(Strategy), "events": 12},
    ],
    ids=["plain", "comparisons", "partitions and strategies"],
)
def test_slices_find_the_matches_of_the_whole(handed: list[int], kind: dict[str, Any]) -> None:
    @settings(max_examples=max(30, settings.default.max_examples))
    @given(cases(windows=SLICED, **kind))
    def run(case: Case) -> None:
        check(case)

    run()
    assert handed[0] > 3


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM S WHERE A AS a ; B AS b WITHIN 3 EVENTS",
        "SELECT COUNT(*) FROM S WHERE A ; B PARTITION BY [k] WITHIN 5 SECONDS GROUP BY [k]",
        "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[k] = b[k] WITHIN 4 EVENTS",
        "SELECT * FROM S WHERE A AS a ; B AS b WITHIN 4 EVENTS ORDER BY a[k] LIMIT 2",
        "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[k > 7] WITHIN 3 EVENTS",
        "SELECT * FROM S WHERE A AS a ; X AS b WITHIN 3 EVENTS",
    ],
)
def test_clauses_and_notes_do_not_depend_on_threads(handed: list[int], query: str) -> None:
    chance = np.random.default_rng(3)
    kinds = ["AB"[i] for i in chance.integers(0, 2, 60)]
    events = pa.table({"type": kinds, "k": chance.integers(0, 3, 60), "ts": np.arange(60) * 1000})
    before = handed[0]
    parsed = cernis.query(query)
    assert look(parsed, events, 3) == look(parsed, events, 1)
    assert handed[0] > before


def test_a_session_goes_on_after_slices() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 4 SECONDS")
    times = np.arange(41)
    events = pa.table({"type": ["AB"[i % 2] for i in times], "k": times % 3, "ts": times * 1000})
    found = []
    for threads in (1, 2):
        session = query.session(time="ts", threads=threads)
        session.collect(events.slice(0, 40))
        found.append(session.push(events.slice(40)).to_arrow().to_pylist())
    assert found[0] == found[1]


def test_no_threads_are_refused() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS a")
    with pytest.raises(cernis.CernisError, match="threads must be at least 1"):
        query.run([{"type": "A"}], threads=0)
