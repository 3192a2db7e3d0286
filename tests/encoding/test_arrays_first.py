"""What NumPy and Arrow do in place of kernels that are not compiled has the same results."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from cernis.compiled import tiers
from cernis.compiled.tiers import Warmth
from cernis.encoding.compare import _words
from cernis.encoding.encode import AtomEncoder
from cernis.encoding.hashing import BytesTable, IntTable
from cernis.events.batch import EventBatch
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs

TEXTS = [
    "",
    "a",
    "ab",
    "é",
    "A",
    "a text of more than eight bytes",
    "a text of more than eight",
    "\0",
]
Prefer = Callable[[bool], None]


@pytest.fixture
def prefer(monkeypatch: pytest.MonkeyPatch) -> Prefer:
    """Choose arrays, or kernels."""
    return lambda arrays: monkeypatch.setattr(tiers, "prefers_arrays", lambda kernel: arrays)


def compare(name: str, op: str, value: float | str) -> pred.Predicate:
    return pred.Comparison(op, pred.Attribute((name,)), pred.Literal(value))


ATOMS: list[Atom] = [
    TypeIs("a"),
    TypeIs("a text of more than eight bytes"),
    compare("text", "=", "ab"),
    compare("text", "=", ""),
    compare("int", "<", 3),
    compare("int", ">=", 2.5),
    compare("float", "<", 1.0),
    compare("float", "=", 0.5),
    compare("word", "<", "b"),
    compare("flag", "=", 1),
]


def make_column(chance: random.Random, values: list[object], type_: pa.DataType) -> pa.Array:
    """Make a column that begins in the middle of its buffers."""
    rows = [None if chance.random() < 0.2 else chance.choice(values) for _ in range(60)]
    if chance.random() < 0.3:
        rows = [values[0] if row is None else row for row in rows]
    return pa.array(rows, type_).slice(11, 40)


def make_events(chance: random.Random) -> pa.Table:
    texts = chance.choice([pa.string(), pa.large_string()])
    words = pa.dictionary(pa.int8(), pa.string())
    return pa.table(
        {
            "type": make_column(chance, TEXTS, texts),
            "text": make_column(chance, TEXTS, texts),
            "int": make_column(chance, [-(2**63), 2, 3, 2**63 - 1], pa.int64()),
            "float": make_column(
                chance, [-0.0, 0.5, 1.0, float("nan"), float("inf")], pa.float64()
            ),
            "word": make_column(chance, TEXTS, words),
            "flag": make_column(chance, [True, False], pa.bool_()),
        }
    )


@pytest.mark.parametrize("seed", range(20))
def test_an_encoder_gives_the_same_codes_with_arrays(seed: int, prefer: Prefer) -> None:
    tables = [make_events(random.Random(seed * 10 + i)) for i in range(3)]
    found = []
    for choices in ([False] * 3, [True] * 3, [True, False, True]):
        encoder, codes = AtomEncoder(ATOMS), []
        for arrays, table in zip(choices, tables, strict=True):
            prefer(arrays)
            codes.append(encoder.encode(EventBatch.of(table)).tolist())
        found.append((codes, encoder.vectors))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("most", [3, 1_000, 2**63 - 1])
def test_integers_have_the_same_codes_with_arrays(most: int, prefer: Prefer) -> None:
    numbers = np.random.default_rng(most % 7)
    first, second = IntTable(), IntTable()
    for rows in (0, 5, 3_000, 40, 3_000):
        keys, valid = numbers.integers(-most, most, rows), numbers.random(rows) < 0.8
        for marks in (valid, None):
            prefer(True)
            codes = first.codes(keys, marks)
            prefer(False)
            assert codes.tolist() == second.codes(keys, marks).tolist()
    assert first.values.tolist() == second.values.tolist()


@pytest.mark.parametrize("distinct", [3, 1_000, 100_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_strings_have_the_same_codes_with_arrays(
    distinct: int, dtype: type, prefer: Prefer
) -> None:
    chance = random.Random(distinct)
    first, second = BytesTable(), BytesTable()
    for rows in (0, 5, 3_000, 40, 3_000):
        texts = [b"x" * chance.randrange(12) + b"%d" % chance.randrange(distinct)] * (rows > 0)
        texts += [b"%d" % chance.randrange(distinct) for _ in range(rows - 1)] + [b""] * (rows > 2)
        offsets = np.cumsum([0, *map(len, texts)]).astype(dtype)
        data = np.frombuffer(b"".join(texts), np.uint8)
        valid = np.array([chance.random() < 0.8 for _ in texts], np.bool_)
        for marks in (valid, None):
            prefer(True)
            codes = first.codes(offsets, data, marks)
            prefer(False)
            assert codes.tolist() == second.codes(offsets, data, marks).tolist()
    assert first.pool.tolist() == second.pool.tolist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0, 1, -1, None, 2**53 - 1, -(2**53)]),
        pa.array([0, None, 2**53, -(2**53) - 1, 2**63 - 1, -(2**63)]),
        pa.array([0, None, 2**53 - 1, 2**63], pa.uint64()),
        pa.array([0, None, 5], pa.uint64()),
        pa.array([0.0, -0.0, None, float("nan"), float("inf"), -float("inf"), -1.5]),
        pa.array([None, True, False]),
        pa.array([0, None, 2**62, -(2**62), 7], pa.timestamp("us")),
        pa.array([0, None, 2**31 - 1, -5], pa.date32()),
        pa.array([0, None, 2**62, -3], pa.duration("s")),
        pa.array([], pa.int64()),
    ],
    ids=lambda values: str(values.type),
)
def test_ordered_values_have_the_same_words_with_arrays(values: pa.Array, prefer: Prefer) -> None:
    found = []
    for arrays in (True, False):
        prefer(arrays)
        high, low = _words(values)
        found.append((high.tolist(), low if low is None else low.tolist()))
    assert found[0] == found[1]


def test_a_kernel_is_called_when_arrays_have_taken_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "WARMTH", Warmth())
    monkeypatch.setattr(tiers, "_brief", {})

    class NewKernel:
        overloads: tuple[object, ...] = ()

    kernel = NewKernel()
    ways = []
    for spent in (0.0, 0.1, 10.0):
        tiers._brief[id(kernel)] = spent
        ways.append(tiers.arrays_first(kernel, lambda: "arrays", lambda: "kernel"))
    assert ways == ["arrays", "arrays", "kernel"]
    assert tiers.arrays_first(NewKernel(), lambda: None, lambda: "kernel") == "kernel"
