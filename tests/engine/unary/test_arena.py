"""The compact set by itself: unions, counts, enumeration, compaction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cernis.compiled import callable_from_python
from cernis.engine.settings import FOREVER
from cernis.engine.unary import arena as nodes
from cernis.engine.unary.arena import (
    NODES,
    ROOT,
    UNION,
    ArenaSegment,
    new_arena,
    new_counters,
)
from cernis.engine.unary.count import ArenaCounts, count_matches, count_paths
from cernis.engine.unary.enumerate import list_blocks

join = callable_from_python(nodes.join)
make_item = callable_from_python(nodes.make_item)

Arena = tuple[NDArray[np.void], NDArray[np.int64]]


def empty() -> Arena:
    return new_arena(4096), new_counters()


def root(node: int, bound: int = int(FOREVER)) -> NDArray[np.void]:
    made = np.zeros(1, ROOT)
    made[0] = (9, bound, 0, node, 0)
    return made


def starts(arena: Arena, node: int, bound: int = int(FOREVER)) -> list[int]:
    return [
        int(s)
        for block in list_blocks(ArenaSegment(arena[0], root(node, bound)))
        for s in block.start
    ]


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=5), min_size=1, max_size=8),
    st.integers(0, 30),
)
def test_a_union_has_the_matches_of_both_sides_inside_the_window(
    groups: list[list[int]], bound: int
) -> None:
    """Sets of starts, joined in any order; what has left the window is not given."""
    arena = empty()
    joined = 0
    for group in groups:
        part = 0
        for start in group:
            item = make_item(*arena, start, 1, 0, start)
            part = join(*arena, item, part, FOREVER)
        joined = join(*arena, part, joined, FOREVER)
    inside = sorted(s for group in groups for s in group if s >= bound)
    alive = arena[0][joined]["start"] >= bound
    assert bool(inside) == alive
    if alive:
        segment = ArenaSegment(arena[0], root(joined, bound))
        assert count_matches(segment) == [len(inside)]
        assert count_paths(segment, 1_000) == [len(inside)]
        assert starts(arena, joined, bound) == inside[::-1]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30))
def test_the_left_side_of_a_union_never_starts_before_the_right(values: list[int]) -> None:
    arena = empty()
    joined = 0
    for start in values:
        joined = join(*arena, make_item(*arena, start, 1, 0, start), joined, FOREVER)
    unions = arena[0][1 : arena[1][NODES]]
    unions = unions[unions["label"] == UNION]
    assert (arena[0]["start"][unions["left"]] >= arena[0]["start"][unions["right"]]).all()


def doubled(times: int) -> tuple[Arena, int]:
    """A chain that doubles the number of matches at every step."""
    arena = empty()
    node = make_item(*arena, 0, 1, 0, 0)
    for step in range(times):
        one = make_item(*arena, step + 1, 1, node, 0)
        other = make_item(*arena, step + 1, 2, node, 0)
        node = join(*arena, one, other, FOREVER)
    return arena, node


def test_counts_are_exact_however_large() -> None:
    for times in (10, 60, 200, 1200):
        arena, node = doubled(times)
        assert count_matches(ArenaSegment(arena[0], root(node))) == [2**times]


def test_many_paths_are_not_followed() -> None:
    arena, node = doubled(10)
    segment = ArenaSegment(arena[0], root(node))
    assert count_paths(segment, 1 << 12) == [2**10]
    assert count_paths(segment, 1 << 10) is None


def labels(arena: Arena, node: int, block: int = 65_536) -> list[tuple[int, ...]]:
    """The labels of every match, in order."""
    return [
        tuple(listing.label[listing.offset[i] : listing.offset[i + 1]].tolist())
        for listing in list_blocks(ArenaSegment(arena[0], root(node)), block=block)
        for i in range(len(listing.root))
    ]


def test_every_rank_is_another_match() -> None:
    arena, node = doubled(6)
    counts = ArenaCounts(arena[0], root(node)[0])
    ranked = [tuple(arena[0]["label"][counts.path(rank)]) for rank in range(2**6)]
    assert len(set(ranked)) == 2**6
    assert sorted(ranked) == sorted(labels(arena, node))


def test_a_limit_cuts_the_enumeration_of_each_root() -> None:
    arena, node = doubled(200)
    blocks = list_blocks(ArenaSegment(arena[0], root(node)), limit=3)
    assert sum(len(block.root) for block in blocks) == 3


def test_enumeration_goes_on_where_a_full_block_stopped() -> None:
    arena, node = doubled(10)
    assert labels(arena, node, block=7) == labels(arena, node)


def test_an_answer_beyond_the_limits_is_still_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    arena, node = doubled(12)
    whole = labels(arena, node)
    monkeypatch.setattr("cernis.engine.unary.enumerate.MOST_WAITING", 64)
    assert len(set(whole)) == 2**12
    assert sorted(labels(arena, node)) == sorted(whole)
