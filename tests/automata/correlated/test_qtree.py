from __future__ import annotations

import random
from itertools import combinations

import pytest

from cernis.automata.correlated.qtree import (
    Node,
    build_forest,
    build_q_trees,
    compact,
    draw_trees,
    find_components,
    find_conflict,
)

# T(x), S(x, y), R(x, y) of the paper, and one with a deeper tree
Q0 = [("x",), ("x", "y"), ("x", "y")]
DEEP = [("x", "y", "z"), ("x", "y", "v"), ("x", "y", "z"), ("x", "w"), ("u", "x")]


def texts(atoms: list[tuple[str, ...]]) -> list[str]:
    return [f"{i}({', '.join(variables)})" for i, variables in enumerate(atoms)]


def test_the_first_query_of_the_paper_is_hierarchical() -> None:
    assert find_conflict(Q0) is None
    assert draw_trees(build_q_trees(Q0), ["T(x)", "S(x, y)", "R(x, y)"]).splitlines() == [
        "x",
        "├─ T(x)",
        "└─ y",
        "   ├─ S(x, y)",
        "   └─ R(x, y)",
    ]


def test_the_second_query_of_the_paper_is_not_and_the_variables_are_told() -> None:
    atoms = [("x",), ("x", "y"), ("y",), ("x",)]
    found = find_conflict(atoms)
    assert found is not None
    assert found.explain(["T(x)", "R(x, y)", "S(2, y)", "T(x)"]) == (
        "'x' and 'y' meet in R(x, y), but T(x) has only 'x' and S(2, y) only 'y'"
    )
    with pytest.raises(ValueError, match="not hierarchical"):
        build_q_trees(atoms)


def test_a_deep_tree_and_its_compact_form() -> None:
    (tree,) = build_q_trees(DEEP)
    assert draw_trees([tree], texts(DEEP)).splitlines() == [
        "x",
        "├─ y",
        "│  ├─ z",
        "│  │  ├─ 0(x, y, z)",
        "│  │  └─ 2(x, y, z)",
        "│  └─ v",
        "│     └─ 1(x, y, v)",
        "├─ w",
        "│  └─ 3(x, w)",
        "└─ u",
        "   └─ 4(u, x)",
    ]
    assert draw_trees([compact(tree)], texts(DEEP)).splitlines() == [
        "x",
        "├─ y",
        "│  ├─ z",
        "│  │  ├─ 0(x, y, z)",
        "│  │  └─ 2(x, y, z)",
        "│  └─ 1(x, y, v)",
        "├─ 3(x, w)",
        "└─ 4(u, x)",
    ]


def test_variables_of_the_same_atoms_share_a_node() -> None:
    (tree,) = build_q_trees([("x", "y"), ("y", "x")])
    assert (tree.variables, tree.atoms()) == (("x", "y"), (0, 1))


def test_components_hang_below_a_root_without_variables() -> None:
    atoms = [("x",), ("y",), ("x", "z"), ()]
    assert find_components(atoms) == ((0, 2), (1,), (3,))
    assert draw_trees([build_forest(atoms)], texts(atoms)).splitlines() == [
        "×",
        "├─ x",
        "│  ├─ 0(x)",
        "│  └─ 2(x, z)",
        "├─ 1(y)",
        "└─ 3()",
    ]


def test_one_atom_is_its_own_tree() -> None:
    assert build_forest([("x", "y")]) == Node(("x", "y"), (), 0)
    assert build_forest([()]) == Node((), (), 0)


@pytest.mark.parametrize("seed", range(200))
def test_random_atoms_are_hierarchical_as_defined_and_paths_hold_their_variables(
    seed: int,
) -> None:
    rng = random.Random(seed)
    atoms = [tuple(rng.choices("xyzuv", k=rng.randrange(4))) for _ in range(rng.randrange(1, 5))]
    holders = {x: {i for i, atom in enumerate(atoms) if x in atom} for x in "xyzuv"}
    nested = all(
        holders[x] <= holders[y] or holders[y] <= holders[x] or not holders[x] & holders[y]
        for x, y in combinations("xyzuv", 2)
    )
    found = find_conflict(atoms)
    assert (found is None) == nested
    if found is not None:
        both, one, other = holders[found.first] & holders[found.second], found.first, found.second
        assert found.both in both
        assert found.only_first in holders[one] - holders[other]
        assert found.only_second in holders[other] - holders[one]
        return
    for tree in (Node((), build_q_trees(atoms)), build_forest(atoms)):
        stack: list[tuple[Node, tuple[str, ...]]] = [(tree, tree.variables)]
        reached = []
        while stack:
            node, path = stack.pop()
            if node.atom is not None:
                reached.append(node.atom)
                assert sorted(path) == sorted(set(atoms[node.atom]))
            stack += [(child, path + child.variables) for child in node.children]
        assert sorted(reached) == list(range(len(atoms)))
    assert all(len(node.children) != 1 for node in build_forest(atoms).walk())


def test_a_long_chain_needs_no_deep_stack() -> None:
    names = [f"x{i}" for i in range(1200)]
    atoms = [tuple(names[: i + 1]) for i in range(1200)]
    assert len(list(build_forest(atoms).walk())) == 2 * len(atoms) - 1
