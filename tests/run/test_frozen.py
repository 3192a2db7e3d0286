"""Frozen sessions: bytes of every released format keep thawing; others are refused."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cernis
from cernis.engine.unary.freeze import VERSION, pack, unpack

QUERY = "SELECT * FROM S WHERE (A AS a ; B+ AS b) FILTER a[x > 1] PARTITION BY [k] WITHIN 20 EVENTS"
BEFORE = [
    {"type": "A", "x": 2, "k": "u"},
    {"type": "A", "x": 1, "k": "u"},
    {"type": "A", "x": 3, "k": "v"},
    {"type": "B", "x": 0, "k": "u"},
]
AFTER = [{"type": "B", "x": 0, "k": "v"}, {"type": "B", "x": 0, "k": "u"}]
RELEASED = Path(__file__).parent / "frozen"


def frozen() -> bytes:
    session = cernis.query(QUERY).session()
    session.push(BEFORE)
    return session.freeze()


def answers(session: cernis.Session) -> list[tuple[dict[str, list[int]], dict[str, str]]]:
    return [(match.vars, match.partition) for match in session.push(AFTER)]


EXPECTED = [
    ({"a": [2], "b": [4]}, {"k": "v"}),
    ({"a": [0], "b": [3, 5]}, {"k": "u"}),
    ({"a": [0], "b": [5]}, {"k": "u"}),
]


def test_a_thawed_session_goes_on_where_it_was_frozen() -> None:
    assert sorted(answers(cernis.query(QUERY).thaw(frozen())), key=str) == sorted(EXPECTED, key=str)


@pytest.mark.parametrize("file", sorted(RELEASED.glob("*.bin")), ids=lambda file: file.stem)
def test_bytes_of_every_released_format_still_thaw(file: Path) -> None:
    session = cernis.query(QUERY).thaw(file.read_bytes())
    assert sorted(answers(session), key=str) == sorted(EXPECTED, key=str)


def test_the_format_of_this_version_has_its_bytes_kept() -> None:
    assert (RELEASED / f"version-{VERSION}.bin").exists()


def test_another_query_is_refused() -> None:
    with pytest.raises(cernis.StateError, match="frozen by another query"):
        cernis.query("SELECT * FROM S WHERE A").thaw(frozen())


def test_other_bytes_are_refused() -> None:
    with pytest.raises(cernis.StateError, match="not a frozen Cernis state"):
        cernis.query(QUERY).thaw(b"PK\x03\x04 something else")


def test_another_version_is_refused() -> None:
    state = bytearray(frozen())
    struct.pack_into("<H", state, 8, VERSION + 1)
    with pytest.raises(cernis.StateError, match=f"reads version {VERSION}"):
        cernis.query(QUERY).thaw(bytes(state))


def test_damaged_bytes_are_refused() -> None:
    state = bytearray(frozen())
    state[-1] ^= 1
    with pytest.raises(cernis.StateError, match="damaged"):
        cernis.query(QUERY).thaw(bytes(state))


@pytest.mark.parametrize("part", ["slots", "row_of_key", "free_rows"])
def test_numbers_that_lead_nowhere_are_refused(part: str) -> None:
    meta, arrays = unpack(frozen())
    arrays[part] = np.full_like(arrays[part], 1_000_000)
    with pytest.raises(cernis.StateError, match="do not fit together"):
        cernis.query(QUERY).thaw(pack(meta, arrays))


def test_links_that_lead_nowhere_are_refused() -> None:
    meta, arrays = unpack(frozen())
    arrays["arena"]["left"] = 1_000_000
    with pytest.raises(cernis.StateError, match="do not fit together"):
        cernis.query(QUERY).thaw(pack(meta, arrays))


# ------------------------------------------------------------- correlation

CORRELATED = [
    "(A AS x ; B AS y ; C AS z) FILTER x[id] = y[id] AND y[id] = z[id]",
    "(A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] != y[u]",
    "(A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] < y[u]",
    "(A AS x ALL B AS y ALL C AS z) FILTER x[id] = y[id] AND y[id] = z[id]",
    "(A AS x ; B AS y ; C AS z) FILTER x[id] = z[id]",
]


def correlated_events(number: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [
        {"type": draw.choice("ABC"), "id": draw.randrange(4), "u": draw.randrange(4)}
        for _ in range(number)
    ]


@pytest.mark.parametrize("formula", CORRELATED)
def test_a_damaged_state_of_correlation_is_refused_or_does_no_harm(formula: str) -> None:
    query = cernis.query(f"SELECT * FROM S WHERE {formula} WITHIN 30 EVENTS")
    session = query.session()
    session.push(correlated_events(80))
    frozen = session.freeze()
    draw = random.Random(formula)
    refused = 0
    for _ in range(60):
        meta, arrays = unpack(frozen)
        name = draw.choice([n for n, a in arrays.items() if a.size and not n.startswith("table")])
        flat = arrays[name].view(np.uint8).reshape(-1)
        flat[draw.randrange(flat.size)] = draw.choice([0, 1, 2, 3, 7, 255])
        try:
            matches = query.thaw(pack(meta, arrays)).push(correlated_events(30))
            assert matches.count() >= len(list(matches.head(5)))
        except cernis.CernisError:
            refused += 1
    assert refused


def test_what_is_not_in_the_bytes_is_said_when_thawing() -> None:
    query = cernis.query("SELECT * FROM S WHERE (A AS x ; B AS y ; C AS z) FILTER x[id] = z[id]")
    session = query.session(time="id", budget=2, on_budget="partial")
    session.push([{"type": "A", "id": 1}])
    thawed = query.thaw(session.freeze(), budget=1, on_budget="partial")
    assert thawed.reading.time == "id"
    later = [{"type": t, "id": 2} for t in "BBBC"]
    assert thawed.push([*later, {"type": "C", "id": 3}]).partial
