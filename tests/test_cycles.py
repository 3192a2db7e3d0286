"""The pause of the search for cycles ends as it began."""

from __future__ import annotations

import gc

import pytest

from cernis.cycles import make_lasting


def test_a_pause_within_a_pause_ends_with_the_outer_one() -> None:
    with make_lasting():
        with make_lasting():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_python_does_not_search_it_does_not_afterwards() -> None:
    gc.disable()
    try:
        with make_lasting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(KeyError), make_lasting():
        raise KeyError
    assert gc.isenabled()


def test_lasting_objects_are_old_and_can_still_be_collected() -> None:
    with make_lasting():
        made: list[object] = []
        made.append(made)
    assert not any(one is made for one in gc.get_objects(0))
    assert gc.is_tracked(made)
    assert gc.get_freeze_count() == 0


def test_objects_that_others_have_frozen_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with make_lasting():
            pass
        assert gc.get_freeze_count() == pytest.approx(frozen, rel=0.1)
    finally:
        gc.unfreeze()
