"""Warnings about the events of a stream, from the numbers of its micro-batches."""

from __future__ import annotations

from typing import Any

import pytest

import cernis
from cernis.errors import CernisError
from cernis.spark.notes import FEWEST_ROWS, Notes, WatchedQuery
from cernis.spark.streaming.progress import BUCKETS, ROWS, progress_of
from cernis.work.progress import Progress

QUERY = "SELECT * FROM S WHERE SEL AS s ; BUY AS b FILTER b[price > 9] WITHIN 5 MINUTES"


def progress(batch: int, late: int = 0, name: str = "mine", **row: Any) -> Progress:
    observed = {f"{ROWS}{name}.0": row, f"{BUCKETS}{name}": {"late": late}}
    told = progress_of({"batchId": batch, "observedMetrics": observed})
    assert told is not None
    return told


def watch(*queries: WatchedQuery) -> Notes:
    notes = Notes()
    notes.watch_stream(queries, [], "mine")
    return notes


def test_a_stream_warns_of_what_it_has_not_had_so_far() -> None:
    notes = watch(WatchedQuery(cernis.query(QUERY).plan))
    none = {"passed": 0, "type 3": "SELL", "type 5": None}
    notes.take(progress(0, rows=600, **none))
    assert notes.warnings(FEWEST_ROWS) == []
    for _ in range(2):  # told twice
        notes.take(progress(1, rows=399, **none))
    notes.take(progress(2, rows=10**6, name="another", **none))
    assert notes.warnings(FEWEST_ROWS) == []
    notes.take(progress(2, rows=1, **none))
    missing = [note.splitlines()[0].split(": ")[1] for note in notes.warnings(FEWEST_ROWS)]
    assert missing == ["no event has the type 'SEL' so far", "no event has the type 'BUY' so far"]
    assert "did you mean 'SELL'?" in notes.warnings()[0]
    notes.take(progress(3, rows=1, passed=0b111))  # both types, and a BUY that is one
    [unmet] = notes.warnings()
    assert "nothing can match so far: no event satisfies b[price > 9]" in unmet
    notes.take(progress(4, rows=1, passed=0b1000))
    assert notes.warnings() == []


def test_a_stream_warns_of_rows_that_are_skipped_and_of_the_commonest_reason() -> None:
    notes = watch()
    notes.take(progress(0, rows=10, late=4, ahead=1, undecodable=1))
    [note] = notes.warnings()
    assert (str(note), note.code) == (
        (
            "6 of 10 rows were skipped: 1 undecodable, 1 ahead of the clock, 4 late\n"
            "  help: --lateness (lateness=) says how late an event may come"
        ),
        "most-skipped",
    )
    notes.take(progress(1, rows=10))
    assert notes.warnings() == []


def test_a_rule_is_named_and_notes_belong_to_one_query() -> None:
    rules = cernis.rules({"first": "SELECT * FROM S WHERE A"})
    notes = watch(*(WatchedQuery(rule.query.plan, rule) for rule in rules))
    notes.take(progress(0, rows=1, passed=0))
    [note] = notes.warnings()
    assert note.splitlines()[0] == "rule first: line 1, column 23: no event has the type 'A' so far"
    with pytest.raises(CernisError, match="these notes belong to another DataFrame"):
        notes.watch_stream([], [], "another")
