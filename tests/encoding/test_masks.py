"""Truth values that come as bits give the same vectors as those that are evaluated here."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cernis.encoding.encode import AtomEncoder
from cernis.encoding.masks import BITS, MaskEncoder, mask_column
from cernis.events.batch import EventBatch
from cernis.pattern.atom import Atom, TypeIs
from cernis.pattern.predicate import Attribute, Comparison, Literal

TYPES = [TypeIs(name) for name in "ABC"]


def _atoms(count: int) -> list[Atom]:
    prices = [Comparison("<", Attribute(("price",)), Literal(n)) for n in range(count)]
    return [*TYPES, *prices]


@given(
    st.lists(st.tuples(st.sampled_from("ABCD"), st.none() | st.integers(-1, 70)), max_size=30),
    st.sets(st.integers(0, 72)),
    st.integers(0, 70),
)
def test_masks_and_evaluation_agree_whatever_is_left_to_evaluate(
    rows: list[tuple[str, int | None]], left: set[int], count: int
) -> None:
    atoms = _atoms(count)
    events = pa.table(
        {
            "type": pa.array([kind for kind, _ in rows], pa.string()),
            "price": pa.array([price for _, price in rows], pa.int64()),
        }
    )
    plain = AtomEncoder(atoms)
    expected = [plain.vectors[code] for code in plain.encode(EventBatch.of(events))]
    translated = [atom for i, atom in enumerate(atoms) if i not in left]
    bits = {atom: i for i, atom in enumerate(translated)}
    for column in range(len(translated) // BITS + 1):
        masks = [
            sum(
                vector[atoms.index(atom)] << bits[atom] % BITS
                for atom in translated
                if bits[atom] // BITS == column
            )
            for vector in expected
        ]
        events = events.append_column(mask_column(column), pa.array(masks, pa.int64()))
    encoder = MaskEncoder(atoms, bits)
    for half in (events.slice(0, len(rows) // 2), events.slice(len(rows) // 2)):
        found = [encoder.vectors[code] for code in encoder.encode(EventBatch.of(half))]
        assert found == expected[: half.num_rows]
        expected = expected[half.num_rows :]
