from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.events.batch import EventBatch, share_events
from cernis.events.column_types import common_type
from cernis.events.order import Ordering
from cernis.events.source import open_events
from cernis.events.store import EventStore, _rank_positions, _rank_with_arrays


def store_of(events: Any) -> EventStore:
    store = EventStore()
    for batch in Ordering(open_events(events)):
        store.append(batch)
    return store


def at(*positions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(positions, np.int64)


LEFT = [{"type": "A", "ts": 10, "x": 1, "only": "l"}, {"type": "A", "ts": 30, "x": 2, "only": "m"}]
RIGHT = [{"type": "B", "ts": 20, "x": 2.5}, {"type": "B", "ts": 30, "x": None}]


@st.composite
def streams(draw: st.DrawFn) -> dict[str, pa.Table]:
    made = {}
    for name in "LMR"[: draw(st.integers(1, 3))]:
        times = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=8)))
        columns: dict[str, Any] = {"type": [name] * len(times), "ts": times}
        columns["x"] = [f"{name}{i}" for i in range(len(times))]
        if draw(st.booleans()):
            columns["x"] = pa.array(columns["x"]).dictionary_encode()
        columns[name] = list(range(len(times)))
        made[name] = pa.table(columns)
    return made


@given(streams=streams(), data=st.data())
def test_events_are_gathered_in_the_order_asked_for(
    streams: dict[str, pa.Table], data: st.DataObject
) -> None:
    batches = list(Ordering(open_events(streams)))
    store = EventStore()
    events: list[tuple[int, dict[str, Any]]] = []
    for batch in batches:
        store.append(batch)
        for i in range(len(batch)):
            part = 0 if batch.which is None else batch.which[i]
            row = i if batch.index is None else int(batch.index[i])
            event = batch.parts[part][1].slice(row, 1).to_pylist()[0]
            events.append((int(batch.rows[i]), event))
    some = data.draw(st.lists(st.integers(0, len(events) - 1), max_size=20))
    positions = np.array(some, np.int64)
    assert store.rows(positions).tolist() == [events[p][0] for p in some]
    for name in ("x", "L", "R"):
        assert store.column(positions, name).to_pylist() == [events[p][1].get(name) for p in some]
    assert store.times(positions).to_pylist() == [events[p][1]["ts"] for p in some]
    for found, p in zip(store.structs(positions).to_pylist(), some, strict=True):
        assert {k: v for k, v in found.items() if v is not None} == events[p][1]


def test_streams_are_united_with_nulls_and_wider_types() -> None:
    store = store_of({"L": LEFT, "R": RIGHT})
    found = store.structs(at(0, 1, 2, 3))
    assert str(found.type) == ("struct<type: string, ts: int64, x: double, only: string>")
    assert found.to_pylist() == [
        {"type": "A", "ts": 10, "x": 1.0, "only": "l"},
        {"type": "B", "ts": 20, "x": 2.5, "only": None},
        {"type": "A", "ts": 30, "x": 2.0, "only": "m"},
        {"type": "B", "ts": 30, "x": None, "only": None},
    ]
    assert store.rows(at(0, 1, 2, 3)).tolist() == [0, 2, 1, 3]


def test_named_attributes_come_in_the_order_named() -> None:
    store = store_of(LEFT)
    assert store.structs(at(1), ["only", "nothing", "x"]).to_pylist() == [
        {"only": "m", "nothing": None, "x": 2}
    ]
    assert store.structs(at(0, 1), []).to_pylist() == [{}, {}]
    assert len(store.structs(at())) == 0


def test_type_and_time_come_first() -> None:
    table = pa.table({"x": [1], "at": [5], "kind": ["A"]})
    store = EventStore()
    for batch in Ordering(open_events(table, time="at", type="kind")):
        store.append(batch)
    assert [field.name for field in store.structs(at(0)).type] == ["kind", "at", "x"]
    assert store.times(at(0)).to_pylist() == [5]


def test_without_a_time_column_the_times_are_row_numbers() -> None:
    assert store_of([{"type": "A"}, {"type": "B"}]).times(at(1, 0)).to_pylist() == [1, 0]


def test_dictionaries_come_out_as_plain_values() -> None:
    table = pa.table({"type": pa.array(["A", "B"]).dictionary_encode()})
    assert store_of(table).column(at(1, 0), "type").equals(pa.array(["B", "A"]))


def test_nested_attributes_are_found() -> None:
    store = store_of([{"type": "A", "u": {"id": 7}}, {"type": "A", "u": None}])
    assert store.column(at(0, 1), "u.id").to_pylist() == [7, None]
    assert store.column(at(0, 1), "u.none").to_pylist() == [None, None]


def test_batches_before_a_position_are_forgotten_as_wholes() -> None:
    store = EventStore()
    for base in (0, 2, 4):
        store.append(EventBatch.of(pa.table({"type": ["A"] * 2, "x": [base, base + 1]}), base=base))
    before = copy.copy(store)
    store.forget_before(3)
    assert store.column(at(2, 5), "x").to_pylist() == [2, 5]
    with pytest.raises(LookupError, match="position 1 is no longer"):
        store.column(at(1), "x")
    with pytest.raises(LookupError, match="no event at position 6"):
        store.rows(at(6))
    assert before.column(at(0, 5), "x").to_pylist() == [0, 5]
    assert [batch.base for batch in store.stored_batches()] == [2, 4]


def test_a_batch_must_follow_the_one_before() -> None:
    store = store_of(LEFT)
    with pytest.raises(ValueError, match="must start where"):
        store.append(EventBatch.of(pa.table({"type": ["A"]}), base=5))


def test_kept_batches_can_be_appended_elsewhere() -> None:
    store, other = store_of({"L": LEFT, "R": RIGHT}), EventStore()
    for batch in store.stored_batches():
        other.append(batch)
    everything = at(0, 1, 2, 3)
    assert other.structs(everything).equals(store.structs(everything))
    assert other.rows(everything).tolist() == store.rows(everything).tolist()


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.uint64(), pa.uint8(), pa.uint64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.decimal128(9, 2), pa.int64(), pa.float64()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.null(), pa.bool_(), pa.bool_()),
        (pa.bool_(), pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_types_that_differ_are_promoted(a: pa.DataType, b: pa.DataType, both: pa.DataType) -> None:
    assert common_type(a, b) == both
    store = EventStore()
    store.append(EventBatch.of(pa.table({"type": ["A"], "x": pa.nulls(1, a)})))
    store.append(EventBatch.of(pa.table({"type": ["A"], "x": pa.nulls(1, b)}), base=1))
    assert store.column(at(0, 1), "x").type == both


def test_records_that_differ_are_united() -> None:
    store = store_of(
        {
            "L": [{"type": "A", "ts": 1, "u": {"a": 1}}],
            "R": [{"type": "A", "ts": 2, "u": {"b": "x"}}],
        }
    )
    assert store.column(at(1, 0), "u").to_pylist() == [{"a": None, "b": "x"}, {"a": 1, "b": None}]


@given(sizes=st.lists(st.integers(1, 40), min_size=100, max_size=300), data=st.data())
def test_small_batches_are_joined_and_keep_their_events(
    sizes: list[int], data: st.DataObject
) -> None:
    store, early, base = EventStore(), None, 0
    for number, size in enumerate(sizes):
        values = range(base, base + size)
        table = pa.table({"type": pa.array(["A"] * size).dictionary_encode(), "x": [*values]})
        store.append(EventBatch.of(table, base=base))
        base += size
        if number == 50:
            early = copy.copy(store), base
    assert len(store.batches) < 100
    wanted = data.draw(st.lists(st.integers(0, base - 1), min_size=1, max_size=20))
    assert store.column(at(*wanted), "x").to_pylist() == wanted
    assert store.rows(at(*wanted)).tolist() == wanted
    assert early is not None  # matches that were given before keep the events as they were
    known = [position for position in wanted if position < early[1]]
    assert early[0].column(at(*known), "x").to_pylist() == known
    kept = data.draw(st.integers(0, base - 1))
    store.forget_before(kept)
    assert store.column(at(base - 1), "x").to_pylist() == [base - 1]


def test_batches_that_stores_share_are_not_joined() -> None:
    store = EventStore()
    for base in range(200):
        table = pa.table({"type": ["A"], "x": [base]})
        store.append(share_events(EventBatch.of(table, base=base)))
    assert len(store.batches) == 200


def test_batches_of_other_columns_are_not_joined() -> None:
    store = EventStore()
    for base in range(200):
        table = pa.table({"type": ["A"], "x": [base if base % 2 else str(base)]})
        store.append(EventBatch.of(table, base=base))
    assert len(store.batches) == 200


texts = st.one_of(
    st.lists(st.text("ab", min_size=3, max_size=3), min_size=1, max_size=9),  # of one length
    st.lists(st.sampled_from(["é", "ab", ""]), min_size=1, max_size=9),  # of bytes, or not
    st.lists(st.none() | st.sampled_from(["x", "y"]), min_size=1, max_size=9),
)


@given(texts, st.sampled_from([pa.string(), pa.large_string()]), st.data())
def test_texts_of_one_length_or_several_are_gathered(
    values: list[str | None], type_: pa.DataType, data: st.DataObject
) -> None:
    store = store_of(pa.table({"type": ["A"] * len(values), "x": pa.array(values, type_)}))
    chosen = st.lists(st.integers(0, len(values) - 1), min_size=9, max_size=40)
    positions = np.array(data.draw(chosen), np.int64)
    column = store.column(positions, "x")
    column.validate(full=True)
    assert column.type == type_
    assert column.to_pylist() == [values[position] for position in positions.tolist()]


@given(st.lists(st.integers(5, 60), min_size=9, max_size=80))
def test_each_position_is_gathered_once(positions: list[int]) -> None:
    compiled, arrays = (
        rank(np.array(positions, np.int64), 5, 56) for rank in (_rank_positions, _rank_with_arrays)
    )
    for distinct, back in (compiled, arrays):
        assert distinct.tolist() == sorted(set(positions))
        assert distinct[back].tolist() == positions
