"""The generated stock market stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cernis.generators.stock import stock_stream


def test_the_stream_has_the_agreed_columns() -> None:
    schema = stock_stream(10).schema
    assert {field.name: str(field.type) for field in schema} == {
        "type": "string",
        "name": "string",
        "price": "double",
        "volume": "int64",
        "ts": "timestamp[ms]",
    }


def test_time_never_goes_back_and_prices_are_whole_cents() -> None:
    events = stock_stream(20_000, seed=3)
    assert (np.diff(events["ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    price = events["price"].to_numpy()
    assert price.min() >= 1
    assert np.allclose(price * 100, np.round(price * 100))


def test_types_and_symbols_are_all_there() -> None:
    events = stock_stream(5000, symbols=20)
    assert set(events["type"].to_pylist()) == {"SELL", "BUY"}
    assert len(pc.unique(events["name"])) == 20
    assert {"MSFT", "INTL", "AMZN"} < set(events["name"].to_pylist())


def test_a_symbols_price_moves_in_small_steps() -> None:
    events = stock_stream(20_000, seed=5)
    price = events.filter(pc.equal(events["name"], "MSFT"))["price"].to_numpy()
    assert np.abs(np.diff(price)).max() < 1.5
    assert len(set(price.tolist())) > 100


def test_a_seed_gives_one_stream_and_another_seed_another() -> None:
    assert stock_stream(100, seed=1).equals(stock_stream(100, seed=1))
    assert not stock_stream(100, seed=1).equals(stock_stream(100, seed=2))


def test_dictionary_encoding_keeps_the_values() -> None:
    plain, encoded = stock_stream(100, seed=1), stock_stream(100, seed=1, dictionary=True)
    assert pa.types.is_dictionary(encoded.schema.field("name").type)
    assert encoded["name"].to_pylist() == plain["name"].to_pylist()


def test_there_may_be_any_number_of_events_and_symbols() -> None:
    assert stock_stream(0).num_rows == 0
    assert stock_stream(1, symbols=1)["name"].to_pylist() == ["MSFT"]
    assert stock_stream(10, symbols=100_000).num_rows == 10
    with pytest.raises(ValueError, match="-1 events"):
        stock_stream(-1)
    with pytest.raises(ValueError, match="at least one symbol"):
        stock_stream(1, symbols=0)
