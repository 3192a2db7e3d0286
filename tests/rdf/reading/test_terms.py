"""The dictionary of terms."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.rdf.reading.terms import Terms


@given(st.lists(st.lists(st.text(max_size=4), max_size=12), max_size=6))
def test_a_text_has_one_code_and_codes_are_dense(batches: list[list[str]]) -> None:
    terms = Terms()
    for texts in batches:
        codes = terms.encode(texts)
        assert terms.texts(codes).to_pylist() == texts
    seen = list(dict.fromkeys(text for texts in batches for text in texts))
    assert [terms.text(code) for code in range(len(terms))] == seen
    assert [terms.code(text) for text in seen] == list(range(len(seen)))


def test_one_text_at_a_time_and_many_at_once_share_the_codes() -> None:
    terms = Terms()
    assert terms.code("<a>") == 0
    assert terms.encode(pa.array(["<b>", "<a>"])).tolist() == [1, 0]
    assert terms.code("<c>") == 2
    assert terms.encode(["<c>", "<d>"]).tolist() == [2, 3]
    assert terms.text(3) == "<d>"


def test_looking_for_a_term_adds_nothing() -> None:
    terms = Terms()
    assert terms.find("<a>") == -1
    assert "<a>" not in terms
    assert len(terms) == 0


def test_what_is_unbound_has_no_text() -> None:
    terms = Terms()
    terms.code("<a>")
    assert terms.texts([-1, 0]).to_pylist() == [None, "<a>"]
    with pytest.raises(IndexError):
        terms.text(-1)


def test_no_texts_have_no_codes() -> None:
    assert Terms().encode([]).tolist() == []
