"""How many matches, without enumerating them.

The matches of a vertex are the product over its sources of the matches below each; the
matches below a source are a sum over an index. In a union tree, left subtrees no longer
change and are summed once per node, the right spine once per version. Branches of a search
tree never change, so the sum below each is kept, and a range is a sum over a logarithm of
them. With ≠, with a gap, and where a range holds other values than numbers, the sum goes over
the entries: there a count costs the edges of the run DAG, not its matches.

An *item* is a vertex, a node of a union tree or a branch of a search tree, as one number:
2·vertex, 2·node+1 or -branch. A node and a branch stand for all that is below them.

Cost contract: linear in the vertices, nodes, branches and (for ≠) edges that a root
reaches inside its window. Floating point first, which is exact below 2^53; roots that
exceed it are counted again modulo primes (`residues`).

Until compiling pays, NumPy follows the paths of many roots at once, where they are few
(`count_paths`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from math import inf, prod
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.plain import viewing
from cernis.compiled.tiers import arrays_in_pieces, call_patiently, cut_events, spent_on
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.dag import rounds, unions, unlike
from cernis.engine.dag.count_paths import PathWalk
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.rounds import NO_ROUNDS, EndingRounds, RunRounds, read_rounds
from cernis.engine.residues import EXACT, count_large, reduce

_MOST_VISITS = 1 << 20
"""More visits of paths than this are left to the kernel: they take a twentieth of a second."""
Element = TypeVar("Element")


class IndexKinds(NamedTuple):
    """The indexes of a plan beside unions: True, or None, which Numba tells apart."""

    others: bool | None
    more: bool | None
    """Other ones than orders."""


class CountScratch(NamedTuple):
    """Counts by item, valid where `stamps` has the current stamp, and room to work in."""

    stamps: NDArray[np.int64]
    values: NDArray[np.float64]
    stack: NDArray[np.int64]
    items: NDArray[np.int64]
    ways: NDArray[np.float64]
    """Per item, in how many ways its runs take their rounds."""
    rounds: NDArray[np.int64]


@inner
def list_union(nodes, at, version, bound, items):
    """Write the items of a version of a union tree; return how many, or -1 without room."""
    room = len(items)
    found = 0
    while at != 0 and nodes[at]["start"] >= bound:
        if found + 2 > room:
            return -1
        items[found] = 2 * nodes[at]["vertex"]
        found += 1
        left = nodes[at]["left"]
        if left != 0 and nodes[left]["start"] >= bound:
            items[found] = 2 * left + 1
            found += 1
        at = unions.right_of(nodes, at, version)
    return found


@inner
def _list_unlike(links, memory, source, bound, items):
    """Write the vertices of a list with back pointers; return how many, or -1 without room."""
    at = memory.sources[source]["at"]
    found = 0
    while at != 0:
        if memory.entries[at]["start"] >= bound:
            if found == len(items):
                return -1
            items[found] = 2 * memory.entries[at]["vertex"]
            found += 1
        at = unlike.next_of_source(links, memory, source, memory.entries[at]["before"], bound)
    return found


@inner
def list_items(more, links, memory, source, bound, items):
    """Write the items that a source sums over; return how many, or -1 without room.

    Without `more` all indexes are unions or orders.
    """
    link, at = memory.sources[source]["link"], memory.sources[source]["at"]
    kind = links.kind[links.store[link]]
    if kind == r.UNION:
        return list_union(memory.nodes, at, memory.sources[source]["version"], bound, items)
    if more is not None and kind == r.UNLIKE:
        return _list_unlike(links, memory, source, bound, items)
    asked, operator = memory.asked[memory.sources[source]["asked"]], links.operator[link]
    if more is not None and kind == r.RECENT:
        found = list_range(memory.branches, operator, at, asked, asked[len(asked) - 1], items)
        _take_vertices(memory.branches, items, found)
        return _keep_begun(memory.vertices, bound, items, found)
    if kind < r.ROUNDS and _is_whole(memory.branches, operator, at, asked[0]):
        return _list_branches(memory.branches, operator, at, asked, bound, items)
    found = list_range(memory.branches, operator, at, asked, bound, items)
    _take_vertices(memory.branches, items, found)
    return found


@inner
def list_runs(links, memory, source, bound, items):
    """Write the branches of the runs of a source with rounds, in the order of `list_items`.

    Return how many there are, or -1 without room.
    """
    asked = memory.asked[memory.sources[source]["asked"]]
    operator, root = links.operator[memory.sources[source]["link"]], memory.sources[source]["at"]
    return list_range(memory.branches, operator, root, asked, bound, items)


@inner
def _take_vertices(branches, items, found):
    """Replace branches by their vertices."""
    for k in range(found):
        items[k] = 2 * branches[items[k]]["vertex"]


@inner
def _keep_begun(vertices, bound, items, found):
    """Keep the vertices that begin inside the window; return how many, or -1 without room."""
    kept = found if found < 0 else 0
    for k in range(found):
        if items[k] != 0 and vertices[items[k] >> 1]["start"] >= bound:
            items[kept] = items[k]
            kept += 1
    return kept


@inner
def _is_whole(branches, operator, root, high):
    """Return whether all values between a number and the end of a tree are numbers."""
    if operator > r.GREATER_EQUAL or high > r.LARGEST_NUMBER:
        return False
    below = operator == r.LESS or operator == r.LESS_EQUAL
    return below or by_order.largest(branches, root) <= r.LARGEST_NUMBER


@inner
def _list_branches(branches, operator, root, asked, bound, items):
    """Write the vertices on the way to a range's end, and the branches that lie inside of it."""
    below = operator == r.LESS or operator == r.LESS_EQUAL
    found = 0
    at = root
    while at != 0 and branches[at]["best"] >= bound:
        if found + 2 > len(items):
            return -1
        branch = branches[at]
        inside = by_order.is_in_range(branch, operator, asked[0], asked[1])
        if inside:
            if branch["start"] >= bound:
                items[found] = 2 * branch["vertex"]
                found += 1
            side = branch["left"] if below else branch["right"]
            if side != 0 and branches[side]["best"] >= bound:
                items[found] = -side
                found += 1
        at = branch["right"] if inside == below else branch["left"]
    return found


@inner
def list_range(branches, operator, root, asked, bound, items):
    """Write the branches of a search tree in range; the tail of `items` is a stack."""
    room = len(items)
    found = 0
    top = room
    if room < 1:
        return -1
    top -= 1
    items[top] = root
    while top < room:
        at = items[top]
        branch = branches[at]
        top += 1
        if top - found < 4:
            return -1
        if by_order.is_in_range(branch, operator, asked[0], asked[1]):
            is_comparable = operator >= r.IN_GAP or by_order.is_comparable(branch, asked[0])
            if branch["start"] >= bound and is_comparable:
                items[found] = at
                found += 1
            for side in (branch["left"], branch["right"]):
                if side != 0 and branches[side]["best"] >= bound:
                    top -= 1
                    items[top] = side
        else:
            left_of = by_order.is_beyond(branch, operator, asked[0], asked[1])
            side = branch["left"] if left_of else branch["right"]
            if side != 0 and branches[side]["best"] >= bound:
                top -= 1
                items[top] = side
    return found


@inner
def list_inside(memory, item, bound, items):
    """Write the items that a node or a branch sums over; return how many."""
    if item < 0:
        return _list_branch(memory.branches, -item, bound, items)
    nodes, node = memory.nodes, item >> 1
    items[0] = 2 * nodes[node]["vertex"]
    found = 1
    left = nodes[node]["left"]
    right = nodes[node]["later"] if nodes[node]["since"] >= 0 else nodes[node]["right"]
    if left != 0 and nodes[left]["start"] >= bound:
        items[found] = 2 * left + 1
        found += 1
    if right != 0 and nodes[right]["start"] >= bound:
        items[found] = 2 * right + 1
        found += 1
    return found


@inner
def _list_branch(branches, at, bound, items):
    """Write the items that a branch of a search tree sums over; return how many."""
    branch = branches[at]
    found = 0
    if branch["start"] >= bound:
        items[0] = 2 * branch["vertex"]
        found = 1
    for side in (branch["left"], branch["right"]):
        if side != 0 and branches[side]["best"] >= bound:
            items[found] = -side
            found += 1
    return found


@kernel
def _find_items(links, memory, source, bound, items):
    """Do as `list_items`, called from Python."""
    return list_items(True, links, memory, source, bound, items)


@inner
def _has_rounds(ways, memory, source):
    """Return whether runs take rounds on the way to a source."""
    return False if ways is None else ways[memory.sources[source]["link"]] != 0


@inner
def _find_ways(ways, links, memory, source, bound, scratch, prime):
    """Write the items of a source with rounds, and in how many ways each takes these.

    Return how many there are, or -1 without room. `ways` are those of links; None: none has any.
    """
    if ways is None:
        return -1
    items = scratch.items
    found = list_runs(links, memory, source, bound, items)
    for k in range(found):
        number = rounds.count_ways(links, memory, source, items[k], scratch.rounds, prime)
        if number < 0:
            return -1
        scratch.ways[k] = number
        items[k] = 2 * memory.branches[items[k]]["vertex"]
    return found


@inner
def _ways_of(ways, scratch, k):
    """Return in how many ways an item goes on, if there are links with rounds."""
    return 1.0 if ways is None else scratch.ways[k]


@kernel
def _find_runs(links, memory, source, bound, items):
    """Do as `list_runs`, called from Python."""
    return list_runs(links, memory, source, bound, items)


@kernel
def _find_inside(memory, item, bound, items):
    """Do as `list_inside`, called from Python."""
    return list_inside(memory, item, bound, items)


@inner
def _list_others(others, more, links, memory, source, bound, items):
    """Do as `list_items`, for an index that is no union; None: there is none, compile nothing."""
    return -1 if others is None else list_items(more, links, memory, source, bound, items)


@viewing("segment", "clock", "scratch")
@kernel
def _count_roots(segment, kinds, begin, clock, scratch, prime, out):
    """Count the roots from `begin` on; return the root for which the scratch is too small.

    With a `prime`, count modulo it; 0: there is none. `kinds` are the `IndexKinds` of the plan.

    Roots with the same bound share their counts: `clock` is the current stamp and its bound.
    One kernel for all roots: a call for each would cost more than most roots do.
    """
    links, memory, roots = segment.links, segment.memory, segment.roots
    vertices, sources, nodes = memory.vertices, memory.sources, memory.nodes
    stamps, values, stack, items = scratch.stamps, scratch.values, scratch.stack, scratch.items
    for i in range(begin, len(roots)):
        bound = roots[i]["bound"]
        if clock[0] == 0 or clock[1] != bound:
            clock[0] += 1
            clock[1] = bound
        stamp = clock[0]
        depth = 1
        stack[0] = 2 * roots[i]["vertex"]
        while depth > 0:
            item = stack[depth - 1]
            if stamps[item] == stamp:
                depth -= 1
                continue
            below = depth
            value = 1.0
            inside = item < 0 or item & 1 == 1
            first, count = 0, 1
            if not inside:
                first, count = vertices[item >> 1]["first"], vertices[item >> 1]["count"]
                if count == 0 and vertices[item >> 1]["start"] < bound:
                    value = 0.0
            for source in range(first, first + count):
                has_rounds = not inside and _has_rounds(links.rounds, memory, source)
                if inside:
                    found = list_inside(memory, item, bound, items)
                elif has_rounds:
                    found = _find_ways(links.rounds, links, memory, source, bound, scratch, prime)
                elif links.kind[links.store[sources[source]["link"]]] == r.UNION:
                    at, version = sources[source]["at"], sources[source]["version"]
                    found = list_union(nodes, at, version, bound, items)
                else:
                    found = _list_others(
                        kinds.others, kinds.more, links, memory, source, bound, items
                    )
                if found < 0 or depth + found > len(stack):
                    return i
                total = 0.0
                for k in range(found):
                    if stamps[items[k]] == stamp:
                        more = values[items[k]]
                        if has_rounds:
                            more = reduce(more * _ways_of(links.rounds, scratch, k), prime)
                        total += more
                    else:
                        stack[depth] = items[k]
                        depth += 1
                value = reduce(value * reduce(total, prime), prime)
            if depth == below:
                stamps[item] = stamp
                values[item] = value
                depth -= 1
        out[i] = values[2 * roots[i]["vertex"]]
    return len(roots)


def is_vertex(item: int) -> bool:
    """Return whether an item is a vertex."""
    return item >= 0 and item & 1 == 0


def count_items(memory: r.RunMemory) -> int:
    """Return the size of an array by item; branches, which are negative, have its end."""
    vertices, nodes, branches = (
        int(memory.counters[one]) for one in (r.VERTICES, r.NODES, r.BRANCHES)
    )
    return 2 * max(vertices, nodes) + 2 + branches


class DagElements(ABC, Generic[Element]):
    """An element for each item, combined from those of the items below it."""

    def __init__(self, segment: DagSegment, bound: int) -> None:
        self.segment = segment
        self.bound = bound
        self.known: dict[int, Element] = {}
        self._items = np.empty(1024, np.int64)

    def below(self, source: int) -> list[int]:
        """Return the items that a source sums over."""
        links, memory = self.segment.links, self.segment.memory
        while True:
            found = _find_items(links, memory, source, self.bound, self._items)
            if found >= 0:
                items: list[int] = self._items[:found].tolist()
                return items
            self._items = np.empty(2 * len(self._items), np.int64)

    def sources(self, vertex: int) -> range:
        """Return the sources of a vertex."""
        record = self.segment.memory.vertices[vertex]
        return range(int(record["first"]), int(record["first"]) + int(record["count"]))

    def inside(self, item: int) -> list[int]:
        """Return the items that a node or a branch sums over."""
        found = _find_inside(self.segment.memory, item, self.bound, self._items)
        items: list[int] = self._items[:found].tolist()
        return items

    def of(self, item: int) -> Element:
        """Return the element of an item."""
        stack = [item]
        while stack:
            top = stack[-1]
            if self.is_known(top):
                stack.pop()
                continue
            groups = (
                [self.inside(top)]
                if not is_vertex(top)
                else [self.below(source) for source in self.sources(top >> 1)]
            )
            missing = [i for group in groups for i in group if not self.is_known(i)]
            if missing:
                stack.extend(missing)
                continue
            self.known[top] = self.combine(top, groups)
        return self.known[item]

    def is_known(self, item: int) -> bool:
        """Return whether the element of an item is known."""
        return item in self.known

    @abstractmethod
    def combine(self, item: int, groups: list[list[int]]) -> Element:
        """Return the element of an item whose sources, or whose node, sum over these items."""


class DagCounts(DagElements[int]):
    """Exact counts in integers of any size, for choosing matches of a root by their ranks.

    The kernel counts what is below the root; Python counts again what a float does not hold.
    """

    def __init__(self, segment: DagSegment, root: np.void) -> None:
        super().__init__(segment, int(root["bound"]))
        self.vertex = int(root["vertex"])
        own = segment._replace(roots=np.array([root], segment.roots.dtype))
        self._counted = _count_into(own, 0.0, np.empty(1, np.float64))

    def is_known(self, item: int) -> bool:
        if item not in self.known:
            number = self._counted.values[item]
            if self._counted.stamps[item] == 0 or number >= EXACT:
                return False
            self.known[item] = int(number)
        return True

    def combine(self, item: int, groups: list[list[int]]) -> int:
        if is_vertex(item) and not groups:
            return int(self.segment.memory.vertices[item >> 1]["start"] >= self.bound)
        if not is_vertex(item):
            return sum(self.known[i] for i in groups[0])
        sources = self.sources(item >> 1)
        return prod(map(self._sum_source, sources, groups))

    def _sum_source(self, source: int, group: list[int]) -> int:
        ways = self._rounds_of(source, len(group))
        return sum(self.of(i) * one.ways for i, one in zip(group, ways, strict=True))

    def _rounds_of(self, source: int, number: int) -> list[RunRounds | EndingRounds]:
        """Return the rounds of each run of a source, which has so many."""
        links, memory = self.segment.links, self.segment.memory
        if links.rounds is None or links.rounds[memory.sources[source]["link"]] == 0:
            return [NO_ROUNDS] * number
        _find_runs(links, memory, source, self.bound, self._items)
        runs = self._items[:number].tolist()
        return [read_rounds(links, memory, source, run) for run in runs]

    def number(self) -> int:
        """Return the number of matches of the root."""
        return self.of(2 * self.vertex)

    def match(self, rank: int) -> list[int]:
        """Return the vertices of the match with this rank."""
        chosen: list[int] = []
        todo = [(2 * self.vertex, rank)]
        while todo:
            item, rank = todo.pop()
            if not is_vertex(item):
                group = self.inside(item)
                index, rank = self._choose(group, rank, [1] * len(group))
                todo.append((group[index], rank))
                continue
            chosen.append(item >> 1)
            for source in self.sources(item >> 1):
                group = self.below(source)
                rank, within = divmod(rank, self._sum_source(source, group))
                taken = self._rounds_of(source, len(group))
                index, within = self._choose(group, within, [one.ways for one in taken])
                way, within = divmod(within, self.of(group[index]))
                chosen += taken[index].choose(way)
                todo.append((group[index], within))
        return chosen

    def _choose(self, group: list[int], rank: int, ways: list[int]) -> tuple[int, int]:
        """Return the index of the item with a rank, and the rank inside of it."""
        for index, item in enumerate(group):
            number = self.of(item) * ways[index]
            if rank < number:
                return index, rank
            rank -= number
        raise IndexError("rank beyond the number of matches")


def count_matches(segment: DagSegment) -> list[int]:
    """Return the number of matches of every root."""
    out = np.empty(len(segment.roots), np.float64)
    done = 0
    for found in arrays_in_pieces(_count_roots, partial(_count_slice, segment), len(out)):
        out[done : done + len(found)] = found
        done += len(found)
    _count_into(segment._replace(roots=segment.roots[done:]), 0.0, out[done:])
    counts: list[int] = np.where(out < EXACT, out, 0).astype(np.int64).tolist()
    large = np.flatnonzero(out >= EXACT)
    if len(large):
        roots = segment.roots[large]
        exact = _count_exactly(segment._replace(roots=roots), float(out.max()))
        for root, number in zip(large.tolist(), exact, strict=True):
            counts[root] = number
    return counts


def _count_slice(segment: DagSegment, piece: slice) -> NDArray[np.int64] | None:
    return PathWalk(segment._replace(roots=segment.roots[piece]), _MOST_VISITS).count()


def _count_into(segment: DagSegment, prime: float, out: NDArray[np.float64]) -> CountScratch:
    """Write the numbers of matches of all roots, with a prime modulo it; return those of items."""
    size = count_items(segment.memory)
    found = set(segment.links.kind.tolist())
    kinds = IndexKinds(not found <= {r.UNION} or None, bool(found & {r.UNLIKE, r.RECENT}) or None)
    clock = np.zeros(2, np.int64)
    stamps, values = np.zeros(size, np.int64), np.empty(size, np.float64)
    scratch = _new_scratch(stamps, values, 1024)
    done, began = 0, spent_on(_count_roots)
    for piece in cut_events(len(segment.roots)):
        part = segment._replace(roots=segment.roots[: piece.stop])
        while done < piece.stop:
            args = part, kinds, done, clock, scratch, prime, out
            rest = (spent_on(_count_roots) - began) * (len(segment.roots) - done) / max(done, 1)
            done = call_patiently(_count_roots, *args, rest=rest)
            if done < piece.stop:
                scratch = _new_scratch(stamps, values, 2 * len(scratch.stack))
    return scratch


def _new_scratch(stamps: NDArray[np.int64], values: NDArray[np.float64], room: int) -> CountScratch:
    stack, items, rounds_ = (np.empty(room, np.int64) for _ in range(3))
    return CountScratch(stamps, values, stack, items, np.empty(room, np.float64), rounds_)


def _count_exactly(segment: DagSegment, most: float) -> list[int]:
    """Return the numbers of matches of all roots, of which the largest is about `most`."""
    if most == inf:
        return [DagCounts(segment, root).number() for root in segment.roots]

    def count(prime: float) -> NDArray[np.float64]:
        out = np.empty(len(segment.roots), np.float64)
        _count_into(segment, prime, out)
        return out

    return count_large(count, most, lambda: 0)
