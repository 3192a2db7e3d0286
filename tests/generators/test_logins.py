"""The generated logins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cernis.generators.logins import login_stream


def test_the_stream_has_the_agreed_columns_and_length_and_is_in_order() -> None:
    events = login_stream(5000, seed=2)
    assert {field.name: str(field.type) for field in events.schema} == {
        "type": "string",
        "user": "string",
        "address": "string",
        "ts": "timestamp[ms]",
    }
    assert events.num_rows == 5000
    assert (np.diff(events["ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    assert set(pc.unique(events["type"]).to_pylist()) == {"OK", "FAIL"}


@pytest.mark.parametrize("events", [2, 3, 10, 999])
def test_short_streams_have_their_length(events: int) -> None:
    assert login_stream(events).num_rows == events


@pytest.mark.parametrize(("events", "attacks"), [(0, None), (1, None), (10, 6), (10, 0)])
def test_a_stream_needs_room_for_its_attacks(events: int, attacks: int | None) -> None:
    with pytest.raises(ValueError, match="cannot have"):
        login_stream(events, attacks=attacks)
