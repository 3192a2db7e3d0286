"""The rounds of `B+` between a run and its last round: found when they are asked for.

In `A ; B+; ; C` with `?p2 < ?p1` each round compares the price of A. So the rounds between an A and
its last B are those B that are below that price, and nobody has to write them down for each A. All
A of a join key wait in one search tree by price. A vertex of B names a range of the tree, whatever
rounds its runs have had, and a second tree: the B before it, by their limits, each with its moment
instead of a start. The last B before a moment that fits an A is the latest one among those whose
limit is not beyond the price: a question to the version of the tree at that moment.

With `;` and `,` a run takes every round that fits it, with `:` any of them. Rows of one moment
that fit are alternatives.

If B asks nothing and C compares the price, then C *ends* the rounds. A vertex of C names the range
of As, in the version of their tree at the last B, and the Bs. Under `;` a C takes the runs that it
ends, so the last round of a run comes after those that an earlier C has ended for it. These Cs are
in a third tree, by their limits, each with the last B before it as its vertex. A C hides earlier
ones with tighter limits, which leave the tree.

All Bs fit then, and are filed under FIRST_WORD. Of rows that a match tells apart only if they are
the last round, all but one are filed under LAST_WORD.

`Links.rounds` has 0 for links without rounds, else NEXT_ROUNDS, ANY_ROUNDS, STRICT_ROUNDS or
ONE_ROUND, with a minus where the values of runs that fit are below the limit of a round, or of the
row that ends them.

Cost contract: O(log rounds) for each round that fits. A row that is read pays for one vertex, and
for filing it in the second or third tree.

Turned down: a vertex for each A and B that fit, which costs each B as many vertices as prices wait;
intervals of prices handed down from B to B, which end in nothing where no A of the interval is
inside the window.
"""

from __future__ import annotations

from itertools import accumulate, groupby, zip_longest
from math import prod
from operator import mul
from typing import NamedTuple

import numpy as np

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.dag.links import ANY_ROUNDS, ONE_ROUND, Links
from cernis.engine.residues import reduce

FIRST_WORD, LAST_WORD = range(2)
"""The low words of ended rounds: of all, and of those that can only be the last. The high word is
the largest number, so that a round takes the runs of all values."""


@inner
def begin_of(vertices, vertex):
    """Return the position at which the moment of a vertex begins."""
    return vertices[vertex]["position"] - vertices[vertex]["rank"]


@inner
def round_operator(way):
    """Return how the limit of a round, or of a row, is to the value of a run that fits it."""
    return r.LESS_EQUAL if way > 0 else r.GREATER_EQUAL


@inner
def is_ended(links, memory, source):
    """Return whether a source ends the rounds of its runs."""
    return links.kind[links.store[memory.sources[source]["link"]]] >= r.ENDED


@inner
def ask_rounds(links, memory, source, run, is_last):
    """Return the question for the rounds that fit a run: an operator and two words."""
    if is_ended(links, memory, source):
        return r.LESS_EQUAL, r.LARGEST_NUMBER, np.int64(LAST_WORD if is_last else FIRST_WORD)
    begun = memory.branches[run]
    operator = round_operator(links.rounds[memory.sources[source]["link"]])
    return operator, begun["high"], begun["low"]


@inner
def rounds_before(memory, vertex):
    """Return the rounds before the moment of a round."""
    return memory.sources[memory.vertices[vertex]["first"]]["group"]


@inner
def find_round(links, memory, source, root, run, is_last):
    """Return the last round after a run that fits it, 0: there is none; and if it is alone.

    `root` are the rounds to look at, `run` is the branch of the run. The last round of a run that
    is ended has to come after those that an earlier row has ended.
    """
    if root == 0:
        return 0, True
    branches, begun = memory.branches, memory.branches[run]
    operator, high, low = ask_rounds(links, memory, source, run, is_last)
    found, alone = by_order.latest_run(branches, root, operator, high, low)
    if found == 0 or branches[found]["vertex"] == 0:
        return 0, True
    after = begin_of(memory.vertices, begun["vertex"])
    if is_last:
        after = max(after, _find_taken(links, memory, source, run))
    return (found, alone) if branches[found]["start"] > after else (0, True)


@inner
def _find_taken(links, memory, source, run):
    """Return the beginning of the last round that an earlier row has ended for a run."""
    root = memory.asked[memory.sources[source]["asked"], 2]
    if root == 0:
        return r.NOTHING
    branches, begun = memory.branches, memory.branches[run]
    operator = round_operator(links.rounds[memory.sources[source]["link"]])
    taken, _ = by_order.latest_run(branches, root, operator, begun["high"], begun["low"])
    return r.NOTHING if taken == 0 else branches[taken]["start"]


@inner
def _list_moment(branches, question, root, begin, out, found):
    """Write the rounds of one moment that fit a run; return where they end, -1: no room.

    The tail of `out` is a stack.
    """
    operator, high, low = question
    top = len(out) - 1
    if top <= found:
        return -1
    out[top] = root
    while top < len(out):
        at = out[top]
        top += 1
        if top - found < 4:
            return -1
        inside = by_order.is_in_range(branches[at], operator, high, low)
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
def list_rounds(links, memory, source, root, run, is_last, out):
    """Write the rounds after a run that fit it, from the last; return how many, -1: no room."""
    found = 0
    question = ask_rounds(links, memory, source, run, is_last)
    while True:
        last, alone = find_round(links, memory, source, root, run, is_last)
        if last == 0:
            return found
        begin = memory.branches[last]["start"]
        if not alone:
            found = _list_moment(memory.branches, question, root, begin, out, found)
        elif found < len(out):
            out[found] = last
            found += 1
        else:
            found = -1
        if found < 0:
            return -1
        root = rounds_before(memory, memory.branches[last]["vertex"])


@inner
def _count_fitting(links, memory, source, root, run, is_last, out):
    """Return a round of the last moment that has some for a run, and how many; -1: no room."""
    last, alone = find_round(links, memory, source, root, run, is_last)
    if last == 0 or alone:
        return last, int(last != 0)
    question = ask_rounds(links, memory, source, run, is_last)
    begin = memory.branches[last]["start"]
    return last, _list_moment(memory.branches, question, root, begin, out, 0)


@inner
def count_ways(links, memory, source, run, out, prime):
    """Return in how many ways a run can take its rounds, -1: no room in `out`, which is scratch."""
    way, root = abs(links.rounds[memory.sources[source]["link"]]), memory.sources[source]["group"]
    ended = is_ended(links, memory, source)
    number, ends = 0.0 if ended else 1.0, int(ended)
    while True:
        last, fitting = _count_fitting(links, memory, source, root, run, False, out)
        if last == 0:
            return number
        if ends > 0:
            _, ends = _count_fitting(links, memory, source, root, run, True, out)
        if min(fitting, ends) < 0:
            return -1.0
        if way == ONE_ROUND:
            fitting = 1
        elif way == ANY_ROUNDS:
            fitting += 1
        number = reduce(number * fitting + ends, prime)
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
            rank, index = divmod(rank, len(moment))
            chosen.append(moment[index])
        return [vertex for vertex in chosen if vertex != 0]


class EndingRounds(NamedTuple):
    """The rounds that a run can take before a row that ends them.

    >>> some = EndingRounds(((5,), (3, 4)), ((5,), (3, 4), (1,)))
    >>> some.ways, some.choose(0), some.choose(3)
    (4, [5, 3, 1], [4, 1])
    """

    ends: tuple[tuple[int, ...], ...]
    """For each moment from the last, the vertices of which one can be its last round,"""
    moments: tuple[tuple[int, ...], ...]
    """and those of which it takes one if its last round is later; 0: it takes none."""

    @property
    def ways(self) -> int:
        """In how many ways it can take them."""
        number = 0
        for ends, moment in zip_longest(self.ends, self.moments, fillvalue=()):
            number = number * len(moment) + len(ends)
        return number

    def choose(self, rank: int) -> list[int]:
        """Return the vertices that it takes in the way with this rank."""
        lengths = [len(moment) for moment in reversed(self.moments)]
        before = [*accumulate(lengths, mul, initial=1)][-2::-1]
        for index, (ends, ways) in enumerate(zip(self.ends, before, strict=False)):
            if rank < len(ends) * ways:
                last, rank = divmod(rank, ways)
                return [ends[last], *RunRounds(self.moments[index + 1 :]).choose(rank)]
            rank -= len(ends) * ways
        raise IndexError("rank beyond the ways to take rounds")


NO_ROUNDS = RunRounds(())


def read_rounds(
    links: Links, memory: r.RunMemory, source: int, run: int
) -> RunRounds | EndingRounds:
    """Return the rounds of a run, which is a branch, on the way to a source."""
    assert links.rounds is not None
    link = memory.sources["link"][source]
    way, kind = abs(int(links.rounds[link])), links.kind[links.store[link]]
    moments = _list_moments(links, memory, source, run, is_last=False)
    if way == ONE_ROUND:
        moments = tuple((0,) for _ in moments)
    elif way == ANY_ROUNDS:
        moments = tuple((0, *moment) for moment in moments)
    if kind == r.ROUNDS:
        return RunRounds(moments)
    return EndingRounds(_list_moments(links, memory, source, run, is_last=True), moments)


def _list_moments(
    links: Links, memory: r.RunMemory, source: int, run: int, *, is_last: bool
) -> tuple[tuple[int, ...], ...]:
    """Return the vertices of the rounds of a run, moment by moment, from the last."""
    out, root = np.empty(64, np.int64), memory.sources["group"][source]
    while (found := list_rounds(links, memory, source, root, run, is_last, out)) < 0:
        out = np.empty(2 * len(out), np.int64)
    listed = memory.branches[out[:found]]
    pairs = zip(listed["start"].tolist(), listed["vertex"].tolist(), strict=True)
    by_moment = groupby(pairs, key=lambda pair: pair[0])
    return tuple(tuple(vertex for _, vertex in some) for _, some in by_moment)
