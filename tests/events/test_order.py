from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.errors import DataError
from cernis.events.batch import EventBatch
from cernis.events.order import Ordering, StreamPosition
from cernis.events.source import open_events


def seen(batches: Iterable[EventBatch]) -> list[tuple[int, int, int | None, str, Any]]:
    """(position, row, time, stream, attribute x) of every event."""
    events = []
    for batch in batches:
        for i in range(len(batch)):
            part = 0 if batch.which is None else int(batch.which[i])
            row = i if batch.index is None else int(batch.index[i])
            stream, table = batch.parts[part]
            time = None if batch.time is None else int(batch.time[i])
            x = table.column("x")[row].as_py()
            events.append((batch.base + i, int(batch.rows[i]), time, stream, x))
    return events


def stream_of(times: list[int], cuts: Iterable[int] = (), start: int = 0) -> pa.Table:
    """Events at the given times, numbered by x, in chunks."""
    xs = [start + i for i in range(len(times))]
    table = pa.table({"type": ["A"] * len(times), "ts": pa.array(times, pa.int64()), "x": xs})
    at = sorted({0, *(cut % (len(times) + 1) for cut in cuts), len(times)})
    pieces = [table.slice(a, b - a) for a, b in pairwise(at)]
    return pa.concat_tables(pieces or [table])


def reader_of(table: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


times = st.lists(st.integers(0, 8), max_size=12)
cuts = st.lists(st.integers(0, 12), max_size=4)


# ---------------------------------------------------------------- one stream


@given(times=times, cuts=cuts)
def test_events_come_by_time_and_then_as_they_stood(times: list[int], cuts: list[int]) -> None:
    events = Ordering(open_events(stream_of(times, cuts)))
    expected = sorted((time, row) for row, time in enumerate(times))
    assert seen(events) == [(i, row, time, "S", row) for i, (time, row) in enumerate(expected)]


@given(times=times, cuts=cuts)
def test_a_table_in_order_gives_no_note_and_any_other_gives_one(
    times: list[int], cuts: list[int]
) -> None:
    events = Ordering(open_events(stream_of(times, cuts)))
    seen(events)
    late = sum(time < max(times[: i + 1]) for i, time in enumerate(times))
    rows = "row" if late == 1 else "rows"
    note = f"events were out of order: {late} {rows} sorted by 'ts'"
    assert events.notes == ([note] if late else [])


def test_without_a_time_column_the_order_is_that_of_the_rows() -> None:
    events = Ordering(open_events([{"type": "A", "x": 7}, {"type": "A", "x": 8}]))
    assert seen(events) == [(0, 0, None, "S", 7), (1, 1, None, "S", 8)]
    assert events.unit_ns is None
    with pytest.raises(DataError) as error:
        events.scale.ticks(Fraction(1))
    assert str(error.value) == (
        "a time window needs a time column: no input has a column 'ts', and none was named"
    )


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("load_bytes", [0, 1 << 20])
def test_a_file_out_of_order_is_sorted(tmp_path: Path, suffix: str, load_bytes: int) -> None:
    table = stream_of([3, 1, 2, 1])
    path = tmp_path / f"S.{suffix}"
    if suffix == "csv":
        table.to_pandas().to_csv(path, index=False)
    elif suffix == "jsonl":
        table.to_pandas().to_json(path, orient="records", lines=True)
    else:
        pq.write_table(table, path, row_group_size=2)
    events = Ordering(open_events(path), load_bytes=load_bytes)
    assert [event[1:3] for event in seen(events)] == [(1, 1), (3, 1), (2, 2), (0, 3)]
    assert events.notes == ["events were out of order: 3 rows sorted by 'ts'"]
    assert [event[1:3] for event in seen(events)] == [(1, 1), (3, 1), (2, 2), (0, 3)]


def test_a_file_in_order_is_read_again_rather_than_kept(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_text("type,ts,x\nA,1,0\nbroken\nA,2,1\n")
    bad: list[dict[str, Any]] = []
    events = Ordering(open_events(path, on_error=bad.append), load_bytes=0)
    assert [event[1:3] for event in seen(events)] == [(0, 1), (2, 2)]
    assert [row["row"] for row in bad] == [1]
    assert events.notes == []


def test_a_stream_that_is_read_once_must_be_in_order() -> None:
    assert len(seen(Ordering(open_events(reader_of(stream_of([1, 2, 2], [1])))))) == 3
    with pytest.raises(DataError) as error:
        seen(Ordering(open_events(reader_of(stream_of([1, 5, 4], [2])))))
    assert str(error.value) == (
        "stream 'S', row 2, column 'ts': the event is earlier than the one before it, and the "
        "input can be read only once; sort it first, or pass all of it as one table"
    )


# ----------------------------------------------------------- several streams


@given(st.lists(st.tuples(times, cuts), min_size=2, max_size=4))
def test_streams_are_merged_by_time_then_in_the_order_given(
    given: list[tuple[list[int], list[int]]],
) -> None:
    tables, start, expected = {}, 0, []
    for number, (some, at) in enumerate(given):
        name = f"S{number}"
        tables[name] = stream_of(some, at, start)
        expected += [(time, start + i, name) for i, time in enumerate(some)]
        start += len(some)
    expected.sort(key=lambda event: event[:2])
    # rows are numbered through the streams, so x, the row and the merge agree
    assert seen(Ordering(open_events(tables))) == [
        (i, row, time, name, row) for i, (time, row, name) in enumerate(expected)
    ]


@given(st.lists(st.tuples(times.map(sorted), cuts), min_size=2, max_size=3), st.booleans())
def test_streams_that_are_read_once_are_merged_alike(
    given: list[tuple[list[int], list[int]]], from_tables: bool
) -> None:
    tables = {f"S{i}": stream_of(some, at) for i, (some, at) in enumerate(given)}
    readers: dict[str, Any] = {name: reader_of(table) for name, table in tables.items()}
    if from_tables:
        readers["S0"] = tables["S0"]
    assert seen(Ordering(open_events(readers))) == seen(Ordering(open_events(tables)))


def test_streams_with_many_small_batches_are_merged_in_bounded_pieces() -> None:
    left = stream_of(list(range(0, 1000, 2)), range(0, 500, 7))
    right = stream_of(list(range(1, 1000, 2)), range(0, 500, 50), start=500)
    events = Ordering(open_events({"L": reader_of(left), "R": reader_of(right)}))
    batches = list(events)
    assert max(len(batch) for batch in batches) <= 550
    assert [time for batch in batches for time in batch.time.tolist()] == list(range(1000))  # type: ignore[union-attr]


def test_the_finest_unit_among_streams_is_the_common_one() -> None:
    seconds = pa.table({"type": ["A"], "ts": pa.array([2], pa.timestamp("s")), "x": [0]})
    millis = pa.table({"type": ["A"], "ts": pa.array([1500], pa.timestamp("ms")), "x": [1]})
    events = Ordering(open_events({"s": seconds, "ms": millis}))
    assert events.unit_ns == 1_000_000
    assert seen(events) == [(0, 1, 1500, "ms", 1), (1, 0, 2000, "s", 0)]
    assert events.scale.ticks(Fraction(2_500_000)) == 2


def test_a_time_beyond_the_common_unit_is_named() -> None:
    far = pa.table({"type": ["A"], "ts": pa.array([2**40], pa.timestamp("s"))})
    fine = pa.table({"type": ["A"], "ts": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(DataError) as error:
        list(Ordering(open_events({"far": far, "fine": fine})))
    assert str(error.value) == (
        "stream 'far', row 0, column 'ts': '1099511627776 timestamp[s]' is not a usable time"
    )


def test_streams_without_times_follow_one_another() -> None:
    events = Ordering(
        open_events({"L": [{"type": "A", "x": 1}], "R": [{"type": "A", "x": 2}, {"type": "A"}]})
    )
    assert seen(events) == [(0, 0, None, "L", 1), (1, 1, None, "R", 2), (2, 2, None, "R", None)]


def test_a_stream_without_times_cannot_be_merged_with_one_that_has_them() -> None:
    with pytest.raises(DataError) as error:
        Ordering(open_events({"L": [{"type": "A", "ts": 1}], "R": [{"type": "A"}]}))
    assert str(error.value) == (
        "stream 'R': no column 'ts' for the time, by which it is merged with stream 'L'"
    )


# ------------------------------------------------------------------ progress


@given(times=times.map(sorted), cut=st.integers(0, 12))
def test_what_comes_in_two_parts_is_numbered_as_if_it_came_in_one(
    times: list[int], cut: int
) -> None:
    table = stream_of(times)
    first = Ordering(open_events(table.slice(0, cut)))
    events = seen(first)
    second = Ordering(open_events(table.slice(cut)), after=first.progress)
    events += seen(second)
    assert events == seen(Ordering(open_events(table)))


def test_progress_is_that_of_the_batch_at_hand() -> None:
    events = Ordering(open_events(stream_of([1, 2, 3])))
    for batch in events:
        assert events.progress == StreamPosition(len(batch), 3, 3, 1_000_000)


def test_progress_counts_rows_that_were_skipped(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_text("type,x\nA,1\nbroken\n")
    events = Ordering(open_events(path, on_error="skip"))
    assert len(seen(events)) == 1
    assert events.progress.row == 2


def test_a_part_must_not_begin_before_the_last_one_ended() -> None:
    first = Ordering(open_events(stream_of([1, 5])))
    seen(first)
    with pytest.raises(DataError) as error:
        seen(Ordering(open_events(stream_of([4])), after=first.progress))
    assert str(error.value) == (
        "row 2, column 'ts': the event is earlier than one that was handled before; "
        "sort the events, or hold them back until they are in order"
    )


def test_a_part_may_be_coarser_but_not_finer_than_the_first() -> None:
    millis = pa.table({"type": ["A"], "ts": pa.array([5], pa.timestamp("ms")), "x": [0]})
    seconds = pa.table({"type": ["A"], "ts": pa.array([1], pa.timestamp("s")), "x": [1]})
    micros = pa.table({"type": ["A"], "ts": pa.array([1_000_001], pa.timestamp("us")), "x": [2]})
    first = Ordering(open_events(millis))
    seen(first)
    second = Ordering(open_events(seconds), after=first.progress)
    assert seen(second) == [(1, 1, 1000, "S", 1)]
    with pytest.raises(DataError, match="usable time"):
        seen(Ordering(open_events(micros), after=second.progress))


def test_rows_are_plain_int64() -> None:
    [batch] = Ordering(open_events(stream_of([1, 2])))
    assert batch.rows.dtype == np.int64
