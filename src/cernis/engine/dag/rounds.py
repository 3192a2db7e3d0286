"""The rounds of `B+` between a run and its last round: found when they are asked for.

In `A ; B+; ; C` with `?p2 < ?p1` each round compares the price of A. So the rounds between an A and
its last B are those B that are below that price, and nobody has to write them down for each A. All
A of a join key wait in one search tree by price. A vertex of B names a range of the tree, whatever
rounds its runs have had, and a second tree: the B before it, by their limits, each with its moment
in place of a start. The last B before a moment that fits an A is the latest one among those whose
limit is not beyond the price: a question to the version of the tree at that moment.

With `;` and `,` a run takes every round that fits it, with `:` any of them. Rows of one moment
that fit are alternatives.

`Links.rounds` has 0 for links without rounds, else NEXT_ROUNDS, ANY_ROUNDS or STRICT_ROUNDS, with a
minus where the values of runs that fit are below the limit of a round.

Cost contract: O(log rounds) for each round that fits. A row that is read pays for one vertex, and
for filing it in the second tree.

Turned down: a vertex for each A and B that fit, which costs each B as many vertices as prices wait;
intervals of prices handed down from B to B, which end in nothing where no A of the interval is
inside the window.
"""

from __future__ import annotations

from itertools import groupby
from math import prod
from typing import NamedTuple

import numpy as np

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.dag.links import ANY_ROUNDS
from cernis.engine.dag.residues import reduce


@inner
def begin_of(vertices, vertex):
    """Return the position at which the moment of a vertex begins."""
    return vertices[vertex]["position"] - vertices[vertex]["rank"]


@inner
def round_operator(way):
    """Return how the limit of a round is to the value of a run that fits it."""
    return r.LESS_EQUAL if way > 0 else r.GREATER_EQUAL


@inner
def rounds_before(memory, vertex):
    """Return the rounds before the moment of a round."""
    return memory.sources[memory.vertices[vertex]["first"]]["group"]


@inner
def find_round(memory, way, root, run):
    """Return the last round after a run that fits it, 0: there is none; and if it is alone.

    `root` are the rounds to look at, `run` is the branch of the run.
    """
    if root == 0:
        return 0, True
    branches, begun = memory.branches, memory.branches[run]
    found, alone = by_order.latest_run(
        branches, root, round_operator(way), begun["high"], begun["low"]
    )
    is_after = branches[found]["start"] > begin_of(memory.vertices, begun["vertex"])
    if found == 0 or branches[found]["vertex"] == 0 or not is_after:
        return 0, True
    return found, alone


@inner
def _list_moment(memory, way, root, run, begin, out, found):
    """Write the rounds of one moment that fit a run; return where they end, -1: no room.

    The tail of `out` is a stack.
    """
    branches, begun, operator = memory.branches, memory.branches[run], round_operator(way)
    top = len(out) - 1
    if top <= found:
        return -1
    out[top] = root
    while top < len(out):
        at = out[top]
        top += 1
        if top - found < 4:
            return -1
        inside = by_order.is_in_range(branches[at], operator, begun["high"], begun["low"])
        if inside and branches[at]["start"] == begin and branches[at]["vertex"] != 0:
            out[found] = at
            found += 1
        for side, is_left in ((branches[at]["left"], True), (branches[at]["right"], False)):
            may_fit = inside or is_left == (operator == r.LESS_EQUAL)
            if side != 0 and may_fit and branches[side]["best"] >= begin:
                top -= 1
                out[top] = side
    return found


@kernel
def list_rounds(memory, way, root, run, out):
    """Write the rounds after a run that fit it, from the last; return how many, -1: no room."""
    found = 0
    while True:
        last, alone = find_round(memory, way, root, run)
        if last == 0:
            return found
        begin = memory.branches[last]["start"]
        if not alone:
            found = _list_moment(memory, way, root, run, begin, out, found)
        elif found < len(out):
            out[found] = last
            found += 1
        else:
            found = -1
        if found < 0:
            return -1
        root = rounds_before(memory, memory.branches[last]["vertex"])


@inner
def count_ways(memory, way, root, run, out, prime):
    """Return in how many ways a run can take its rounds, -1: no room in `out`, which is scratch."""
    number = 1.0
    while True:
        last, alone = find_round(memory, way, root, run)
        if last == 0:
            return number
        begin, fitting = memory.branches[last]["start"], 1
        if not alone:
            fitting = _list_moment(memory, way, root, run, begin, out, 0)
            if fitting < 0:
                return -1.0
        if abs(way) == ANY_ROUNDS:
            fitting += 1
        number = reduce(number * fitting, prime)
        root = rounds_before(memory, memory.branches[last]["vertex"])


class RunRounds(NamedTuple):
    """The rounds that a run can take: for each moment, the vertices of which it takes one.

    >>> RunRounds(((), (5,), (3, 4))).ways, RunRounds(((0, 5), (3, 4))).choose(3)
    (0, [5, 4])
    """

    moments: tuple[tuple[int, ...], ...]
    """0: it takes none."""

    @property
    def ways(self) -> int:
        """In how many ways it can take them."""
        return prod(map(len, self.moments))

    def choose(self, rank: int) -> list[int]:
        """Return the vertices that it takes in the way with this rank."""
        chosen = []
        for moment in self.moments:
            rank, place = divmod(rank, len(moment))
            chosen.append(moment[place])
        return [vertex for vertex in chosen if vertex != 0]


NO_ROUNDS = RunRounds(())


def read_rounds(memory: r.RunMemory, way: int, root: int, run: int) -> RunRounds:
    """Return the rounds of a run, which is a branch, among those of a root."""
    out = np.empty(64, np.int64)
    while (found := list_rounds(memory, way, root, run, out)) < 0:
        out = np.empty(2 * len(out), np.int64)
    listed = memory.branches[out[:found]]
    none = (0,) if abs(way) == ANY_ROUNDS else ()
    pairs = zip(listed["start"].tolist(), listed["vertex"].tolist(), strict=True)
    by_moment = groupby(pairs, key=lambda pair: pair[0])
    return RunRounds(tuple((*none, *(vertex for _, vertex in some)) for _, some in by_moment))
