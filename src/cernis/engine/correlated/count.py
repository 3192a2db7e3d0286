"""How many matches, without enumerating them.

The matches of a vertex are the product over its sources of the matches below each; the
matches below a source are a sum over an index. A union tree is summed once per node for
the part that no longer changes (left subtrees), and along the right spine for each
version. With ≠ and order, the sum goes over the entries in range: there a count costs
the edges of the run DAG, not its matches.

Cost contract: linear in the vertices, nodes and (for ≠ and order) edges that a root
reaches inside its window. Floating point first, which is exact below 2^53; a root that
exceeds it is counted again in Python's integers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cernis.compiled import borrowing as kernel
from cernis.engine.correlated import ordered as by_order
from cernis.engine.correlated import records as r
from cernis.engine.correlated import unions, unlike
from cernis.engine.correlated.enumerate import Snapshot

_EXACT = float(2**53)


@kernel
def _below(tables, memory, source, bound, items, room):
    """Lists what a source sums over, as 2·vertex or 2·node+1; returns how many, -1: no room."""
    link = memory.sources[source]["link"]
    kind = tables.store_kind[tables.link_store[link]]
    at = memory.sources[source]["at"]
    found = 0
    if kind == r.UNION:
        version = memory.sources[source]["version"]
        while at != 0 and memory.nodes[at]["start"] >= bound:
            if found + 2 > room:
                return -1
            items[found] = 2 * memory.nodes[at]["vertex"]
            found += 1
            left = memory.nodes[at]["left"]
            if left != 0 and memory.nodes[left]["start"] >= bound:
                items[found] = 2 * left + 1
                found += 1
            at = unions.right_of(memory.nodes, at, version)
        return found
    asked = memory.asked[memory.sources[source]["asked"]]
    if kind == r.UNLIKE:
        while at != 0:
            if memory.entries[at]["start"] >= bound:
                if found == room:
                    return -1
                items[found] = 2 * memory.entries[at]["vertex"]
                found += 1
            at = unlike.live_from(tables, memory, source, memory.entries[at]["before"], bound)
        return found
    return _in_range(memory, tables.link_operator[link], at, asked, bound, items, room)


@kernel
def _in_range(memory, operator, root, asked, bound, items, room):
    """The vertices of a search tree in range; the tail of `items` serves as a stack."""
    below = operator in (r.LESS, r.LESS_EQUAL)
    found = 0
    top = room
    if room < 1:
        return -1
    top -= 1
    items[top] = root
    while top < room:
        branch = memory.branches[items[top]]
        top += 1
        if top - found < 4:
            return -1
        if by_order.stands(branch, operator, asked[0], asked[1]):
            if branch["start"] >= bound and by_order.comparable(branch, asked[0]):
                items[found] = 2 * branch["vertex"]
                found += 1
            for side in (branch["left"], branch["right"]):
                if side != 0 and memory.branches[side]["best"] >= bound:
                    top -= 1
                    items[top] = side
        else:
            side = branch["left"] if below else branch["right"]
            if side != 0 and memory.branches[side]["best"] >= bound:
                top -= 1
                items[top] = side
    return found


@kernel
def _tally(tables, memory, root, bound, stamp, stamps, values, stack, items):
    """Matches of one vertex; False where a scratch array is too small.

    `stamps` and `values` are indexed by 2·vertex and 2·node+1.
    """
    depth = 1
    stack[0] = 2 * root
    while depth > 0:
        item = stack[depth - 1]
        if stamps[item] == stamp:
            depth -= 1
            continue
        waits = False
        value = 1.0
        if item & 1 == 1:
            node = item >> 1
            value = 0.0
            left = memory.nodes[node]["left"]
            right = memory.nodes[node]["right"]
            if memory.nodes[node]["since"] >= 0:
                right = memory.nodes[node]["later"]
            for below in (
                2 * memory.nodes[node]["vertex"],
                2 * left + 1 if left != 0 and memory.nodes[left]["start"] >= bound else 0,
                2 * right + 1 if right != 0 and memory.nodes[right]["start"] >= bound else 0,
            ):
                if below == 0:
                    continue
                if stamps[below] == stamp:
                    value += values[below]
                else:
                    waits = True
                    if depth == len(stack):
                        return False
                    stack[depth] = below
                    depth += 1
        else:
            vertex = item >> 1
            first, count = memory.vertices[vertex]["first"], memory.vertices[vertex]["count"]
            if count == 0:
                value = 1.0 if memory.vertices[vertex]["start"] >= bound else 0.0
            for source in range(first, first + count):
                found = _below(tables, memory, source, bound, items, len(items))
                if found < 0:
                    return False
                total = 0.0
                for k in range(found):
                    if stamps[items[k]] == stamp:
                        total += values[items[k]]
                    else:
                        waits = True
                        if depth == len(stack):
                            return False
                        stack[depth] = items[k]
                        depth += 1
                value *= total
        if not waits:
            stamps[item] = stamp
            values[item] = value
            depth -= 1
    return True


@kernel
def _tally_roots(tables, memory, roots, begin, clock, stamps, values, stack, items, out):
    """Counts the roots from `begin` on; returns the one that a scratch array is too small for.

    Roots with the same bound share what is counted: `clock` is the stamp and the bound of it.
    """
    for i in range(begin, len(roots)):
        bound = roots[i]["bound"]
        if clock[0] == 0 or clock[1] != bound:
            clock[0] += 1
            clock[1] = bound
        vertex = roots[i]["vertex"]
        if not _tally(tables, memory, vertex, bound, clock[0], stamps, values, stack, items):
            return i
        out[i] = values[2 * vertex]
    return len(roots)


class Exact:
    """The same in integers of any size; also used to draw a match by its rank."""

    def __init__(self, snapshot: Snapshot, bound: int) -> None:
        self.snapshot = snapshot
        self.bound = bound
        self._known: dict[int, int] = {}
        self._items = np.empty(1024, np.int64)

    def below(self, source: int) -> list[int]:
        """What a source sums over."""
        snapshot = self.snapshot
        while True:
            found = _below(
                snapshot.tables, snapshot.memory, source, self.bound, self._items, len(self._items)
            )
            if found >= 0:
                items: list[int] = self._items[:found].tolist()
                return items
            self._items = np.empty(2 * len(self._items), np.int64)

    def sources(self, vertex: int) -> range:
        record = self.snapshot.memory.vertices[vertex]
        return range(int(record["first"]), int(record["first"]) + int(record["count"]))

    def inside(self, node: int) -> Iterator[int]:
        """A node of a union tree as what it sums over."""
        nodes = self.snapshot.memory.nodes
        record = nodes[node]
        yield 2 * int(record["vertex"])
        right = int(record["later"] if record["since"] >= 0 else record["right"])
        for side in (int(record["left"]), right):
            if side and nodes[side]["start"] >= self.bound:
                yield 2 * side + 1

    def of(self, item: int) -> int:
        """Matches of 2·vertex or 2·node+1."""
        stack = [item]
        while stack:
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            groups = (
                [list(self.inside(top >> 1))]
                if top & 1
                else [self.below(source) for source in self.sources(top >> 1)]
            )
            missing = [i for group in groups for i in group if i not in self._known]
            if missing:
                stack.extend(missing)
                continue
            self._known[top] = self._combined(top, groups)
        return self._known[item]

    def _combined(self, item: int, groups: list[list[int]]) -> int:
        if not item & 1 and not groups:
            return int(self.snapshot.memory.vertices[item >> 1]["start"] >= self.bound)
        total = 1
        for group in groups:
            total *= sum(self._known[i] for i in group)
        return total

    def root(self, root: np.void) -> int:
        """Matches of a root."""
        return self.of(2 * int(root["vertex"]))

    def match(self, vertex: int, rank: int) -> list[int]:
        """The vertices of the match with this rank."""
        chosen: list[int] = []
        todo = [(2 * vertex, rank)]
        while todo:
            item, rank = todo.pop()
            if item & 1:
                todo.append(self._ranked(list(self.inside(item >> 1)), rank))
                continue
            chosen.append(item >> 1)
            for source in self.sources(item >> 1):
                group = self.below(source)
                rank, within = divmod(rank, sum(self.of(i) for i in group))
                todo.append(self._ranked(group, within))
        return chosen

    def _ranked(self, group: list[int], rank: int) -> tuple[int, int]:
        for item in group:
            number = self.of(item)
            if rank < number:
                return item, rank
            rank -= number
        raise IndexError("rank beyond the number of matches")


def count_roots(snapshot: Snapshot) -> list[int]:
    """The number of matches of every root."""
    counters, roots = snapshot.memory.counters, snapshot.roots
    size = 2 * max(int(counters[r.VERTICES]), int(counters[r.NODES])) + 2
    clock = np.zeros(2, np.int64)
    stamps, values = np.zeros(size, np.int64), np.empty(size, np.float64)
    out = np.empty(len(roots), np.float64)
    room, done = 1024, 0
    while done < len(roots):
        stack, items = np.empty(room, np.int64), np.empty(room, np.int64)
        done = _tally_roots(
            snapshot.tables, snapshot.memory, roots, done, clock, stamps, values, stack, items, out
        )
        room *= 2
    counts: list[int] = np.where(out < _EXACT, out, 0).astype(np.int64).tolist()
    exact: Exact | None = None
    for large in np.flatnonzero(out >= _EXACT).tolist():
        bound = int(roots[large]["bound"])
        if exact is None or exact.bound != bound:
            exact = Exact(snapshot, bound)
        counts[large] = exact.root(roots[large])
    return counts
