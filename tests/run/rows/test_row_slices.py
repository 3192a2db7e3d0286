"""A partition that is cut into slices of time has the matches of the whole; without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.plan.rows.matcher import MATCH, PLACE, ROW, TIME
from cernis.run.rows.feed import RowFeed, describe_rows
from cernis.run.rows.row_trace import RowTrace
from cernis.work.columns import OWN
from cernis.work.reading import Work, recognize_rows
from cernis.work.row_slices import EARLY, GROUP, SLICE, ChosenWork, SeamWork, SliceWork
from tools.cases.row_patterns import RowCase, draw_case

MATCH_SLICE = RowFeed.match_slice
SCHEMA = pa.schema([("g", pa.string()), ("t", pa.int64()), ("x", pa.int64())])


def draw_sliced_case(seed: int) -> tuple[RowCase, int]:
    """Return a case whose partitions can be cut, and its WITHIN."""
    for number in range(seed, seed + 10_000):
        case = draw_case(number, dependent=bool(number % 2))
        within = re.search(r"WITHIN (\d+)", case.statement)
        if (
            within
            and case.expected
            and not cernis.SqlQuery(case.statement).plans[0].whole_partitions
        ):
            return case, int(within[1])
    raise AssertionError


def cut(table: pa.Table, cuts: list[int], within: int) -> Iterator[pa.Table]:
    """Yield what tasks read: own rows, and ahead those that a match may have."""
    for number, (low, high) in enumerate(zip([-(10**9), *cuts], [*cuts, 10**9], strict=True)):
        times = np.asarray(table.column(TIME))
        read = (low <= times) & (times < high + within)
        own, early = times < high, times < low + within
        part = table.append_column(SLICE, pa.array(np.full(len(times), number), pa.int32()))
        part = part.append_column(OWN, pa.array(own)).append_column(EARLY, pa.array(early))
        yield part.filter(pa.array(read))


def run(work: Work, tables: list[pa.Table]) -> list[pa.Table]:
    batches = [batch for table in tables for batch in table.to_batches(max_chunksize=3)]
    return [pa.Table.from_batches([batch]) for batch in recognize_rows(work, batches)]


def join_slices(trace: RowTrace, cuts: list[int], within: int) -> list[dict[str, Any]]:
    named: dict[str, Any] = {"matcher": trace.feed.matcher, "kept": (ROW,)}
    found: list[dict[str, Any]] = []
    for head in np.unique(trace.partitions):
        table = trace.table.filter(pa.array(trace.partitions == head))
        blobs = run(SliceWork(keys=(), **named), list(cut(table, cuts, within)))
        group = pa.array([int(head)], pa.int64())
        blobs = [blob.append_column(GROUP, group) for blob in blobs]
        chosen = run(ChosenWork(**named), run(SeamWork(**named), blobs))
        found += [row for rows in chosen for row in rows.to_pylist()]
    return sorted(found, key=lambda row: (row[MATCH], row[PLACE]))


def match_one_search(feed: RowFeed, table: pa.Table, own: int, entries: tuple[int, int]) -> Any:
    return MATCH_SLICE(feed, table, own, entries) if entries[0] == entries[1] else None


def draw_cuts(chance: Random, within: int) -> list[int]:
    cuts, at = [], chance.randrange(6)
    while at < 20:
        cuts.append(at)
        at += within + chance.randrange(6)
    return cuts


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 2)
@pytest.mark.parametrize("meet", [True, False])
def test_slices_are_joined_to_what_the_whole_has(meet: bool, seed: int) -> None:
    """Also where the searches of a slice do not meet, and it travels as it is."""
    case, within = draw_sliced_case(seed)
    trace = cernis.SqlQuery(case.statement).trace({"t": pa.Table.from_pylist(case.rows, SCHEMA)})
    numbers = np.asarray(trace.table.column(ROW), np.int64)
    described = describe_rows(trace.matched, numbers, trace.feed.matcher)
    whole = pa.table({ROW: numbers[trace.matched.rows], **described}).to_pylist()
    with pytest.MonkeyPatch.context() as patched:
        if not meet:
            patched.setattr(RowFeed, "match_slice", match_one_search)
        found = join_slices(trace, draw_cuts(Random(seed), within), within)
    assert found == sorted(whole, key=lambda row: (row[MATCH], row[PLACE]))
