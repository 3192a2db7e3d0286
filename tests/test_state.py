"""Declared state: what is written is read again; whatever is not as declared is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cernis.errors import StateError
from cernis.state import (
    Sizes,
    Tree,
    array,
    choice,
    flag,
    frozen_record,
    listed,
    named,
    nested,
    number,
    optional,
    pack,
    part,
    read,
    require,
    text,
    unpack,
    write,
)

EVENT = np.dtype([("at", np.int64), ("kind", np.int32)])


@frozen_record
class Chain:
    """Some numbers in order."""

    links: NDArray[np.int32] = array(np.int32, "links", low=0, below="events")
    name: str = text()

    def check(self, sizes: Sizes) -> None:
        require(bool((np.diff(self.links) >= 0).all()), "links are not in order")


@frozen_record
class Sample:
    """A record with every kind of field."""

    position: int = number(0, 100)
    last: int | None = optional(number(0, "position+1"))
    events: NDArray[np.void] = array(
        EVENT, "events", columns={"at": (0, "position+1"), "kind": (-1, 3)}
    )
    rows: NDArray[np.int64] = array(np.int64, "rows", "width", low=0, below="events")
    ends: NDArray[np.int64] = array(np.int64, "rows+1")
    chains: list[Chain] = listed(nested(Chain))
    unit: str = choice(("s", "ms"))
    is_open: bool = flag()
    notes: dict[str, int] = named(number())
    rest: Tree = part()


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    position, events, rows = draw(st.tuples(*3 * [st.integers(1, 9)]))
    seed = random.Random(draw(st.integers()))
    log = np.zeros(events, EVENT)
    log["at"] = [seed.randint(0, position) for _ in range(events)]
    chains = [
        Chain(np.sort([seed.randrange(events) for _ in range(seed.randrange(4))]), f"chain {i}")
        for i in range(seed.randrange(3))
    ]
    numbers = [[seed.randrange(events) for _ in range(2)] for _ in range(rows)]
    return Sample(
        position,
        seed.choice((None, position)),
        log,
        np.array(numbers),
        np.arange(rows + 1),
        chains,
        seed.choice(("s", "ms")),
        seed.random() < 0.5,
        {"a.b/c": 2**70 % 2**63, "": -1},
        {"own": [{"at": np.arange(3)}, None, 1.5]},
    )


def read_again(tree: Tree) -> Sample:
    return read(Sample, unpack(pack(tree)), width=2)


@given(samples())
def test_what_is_written_is_read_again(sample: Sample) -> None:
    found = read_again(write(sample))
    for name in ("position", "last", "unit", "is_open", "notes"):
        assert getattr(found, name) == getattr(sample, name)
    for name in ("events", "rows", "ends"):
        assert np.array_equal(getattr(found, name), getattr(sample, name))
    assert [chain.links.tolist() for chain in found.chains] == [
        chain.links.tolist() for chain in sample.chains
    ]
    assert found.rest["own"][0]["at"].tolist() == [0, 1, 2]


def change(tree: Tree, path: str, value: Any) -> Tree:
    *steps, last = path.split("/")
    inner: Any = tree
    for step in steps:
        inner = inner[int(step) if isinstance(inner, list) else step]
    inner[last] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("position", 100, "'position' is no such number"),
        ("position", True, "'position' is no such number"),
        ("position", None, "'position' is no such number"),
        ("last", 6, "'last' is no such number"),
        ("events", np.zeros(2, np.int64), "'events' has another type or shape"),
        ("events", np.zeros(13, np.uint8), "'events' has another type or shape"),
        ("events", np.array([(6, 0)], EVENT), "'at of events' is out of range"),
        ("events", np.array([(0, 3)], EVENT), "'kind of events' is out of range"),
        ("rows", np.zeros((1, 3), np.int64), "'rows' has another type or shape"),
        ("rows", np.zeros((1, 2), np.int32), "'rows' has another type or shape"),
        ("rows", np.array([[0, 1]]), "'rows' is out of range"),
        ("rows", np.array([[0, -1]]), "'rows' is out of range"),
        ("rows", None, "'rows' is missing"),
        ("ends", np.zeros(3, np.int64), "'ends' has another type or shape"),
        ("chains", {}, "'chains' is no such list"),
        ("chains/0/links", np.array([0, 1], np.int32), "'links' is out of range"),
        ("chains/0/name", 5, "'name' is no text"),
        ("chains/0/name", "\ud800", "'name' is no text"),
        ("unit", "h", "'unit' has another value"),
        ("is_open", 1, "'is_open' has another value"),
        ("notes", {"a": "b"}, "'notes' is no such number"),
        ("rest", [], "'rest' is no set of names and values"),
    ],
)
def test_what_is_not_as_declared_is_refused(path: str, value: Any, message: str) -> None:
    links, rows = np.zeros(2, np.int32), np.zeros((1, 2), np.int64)
    sample = Sample(
        5, 5, np.zeros(1, EVENT), rows, np.zeros(2), [Chain(links, "x")], "s", True, {"a": 1}, {}
    )
    read_again(write(sample))
    with pytest.raises(StateError) as raised:
        read_again(change(write(sample), path, value))
    assert str(raised.value) == f"the frozen state is damaged: {message}"


def test_a_relation_between_fields_is_checked() -> None:
    with pytest.raises(StateError, match="links are not in order"):
        read(Chain, {"links": np.array([1, 0], np.int32), "name": ""}, events=9)


@given(samples(), st.randoms(use_true_random=False))
def test_damaged_bytes_are_refused_or_are_another_state(
    sample: Sample, draw: random.Random
) -> None:
    state = bytearray(pack(write(sample)))
    state[draw.randrange(len(state))] ^= 1 << draw.randrange(8)
    with pytest.raises(StateError):
        unpack(bytes(state))


@pytest.mark.parametrize("path", ["rows/x", "rows/7", "none/at", "rows/0/at/deeper", "end"])
def test_arrays_that_stand_nowhere_are_refused(path: str) -> None:
    packed = pack({"rows": [{"at": np.array([3])}], "end": 5})
    damaged = packed.replace(b'"rows/0/at"', b'"%b"' % path.encode())
    length = len(damaged) - len(packed)
    import struct
    import zlib

    head = list(struct.unpack_from("<8sHIQ", packed))
    body = damaged[struct.calcsize("<8sHIQ") :]
    head[2:] = [zlib.crc32(body), head[3] + length]
    with pytest.raises(StateError, match="the frozen state is damaged"):
        unpack(struct.pack("<8sHIQ", *head) + body)
