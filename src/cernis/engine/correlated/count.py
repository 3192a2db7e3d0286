"""How many matches of a star end at each root, without listing them.

`automata.correlated.stars` says what is counted so. Each centre has a vector of numbers: its first
one is 1 while the centre is inside the window, and each other one is how many chains of events
after it end in a state. A vertex adds a number to another one, for all centres that it fits; a root
adds up a number of those that it fits.

The centres of a key lie side by side in the order of their values. So those that a vertex fits are
a range, and a segment tree of vectors does the same to all of them at once: a node has the sum of
the vectors below it, and a matrix that its children have not had yet. This takes conditions whose
values rise together, as those of `0.95 * a[p]` and `1.01 * a[p]` do. With conditions on two values
that do not, centres are points of a plane, and no way is known to add to all that lie in one half
of it and to sum over another half in logarithmic time.

Cost contract: O(numbers³ · log centres) for each vertex inside the window, whatever the number of
matches. Numbers are floats, exact below 2^53; larger ones are counted again modulo primes
(`residues`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.correlated.pcea import Link
from cernis.automata.correlated.stars import CountedStar
from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.compiled.tiers import call_patiently, cut_events
from cernis.engine.correlated.tables import (
    CODE,
    HIGH,
    LOW,
    CorrelatedTables,
    find_ends,
    find_operator,
    find_order,
)
from cernis.engine.dag import records as r
from cernis.engine.dag.links import DagSegment
from cernis.engine.dag.steps import search
from cernis.engine.residues import add, count_exactly, reduce

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_FIRST, _LAST = np.int64(-(2**63)), np.int64(2**63 - 1)


class _Centres(NamedTuple):
    """Centres in the order of their keys and values."""

    vertex: Ints
    key: Ints
    words: Ints
    """Per condition and centre, the two words that are compared."""
    by_start: Ints
    """Their places, by key and start."""
    start: Ints
    """The starts, in this order."""


class _StarRows(NamedTuple):
    """Vertices in the order in which they act: key by key, and last steps of an event first."""

    vertex: Ints
    number: Ints
    """Which number of the centres changes, 0: a centre begins; of a root, which is added up."""
    before: Ints
    root: Ints
    """-1: no root."""
    begin: Ints
    end: Ints
    """The range of centres."""
    first: Ints
    last: Ints
    """The centres of the key."""
    bound: Ints


class _FittingCentres(NamedTuple):
    """Per vertex, the range of centres that it fits, and whether it has a value."""

    begin: Ints
    end: Ints
    is_asked: NDArray[np.bool_]


class _StarTree(NamedTuple):
    """A segment tree of centres. A node has two children, from 2 · node on."""

    values: Floats
    maps: Floats
    """Per node, what its children are still to be told."""
    is_told: NDArray[np.uint8]
    """Whether they have had everything."""


@inner
def _add_number(tree, node, number, before, prime):
    """Add one number of a node to another."""
    values, maps = tree.values[node], tree.maps[node]
    values[number] = add(values[number], values[before], prime)
    for k in range(before + 1):
        maps[number, k] = add(maps[number, k], maps[before, k], prime)
    tree.is_told[node] = 0


@inner
def _map_values(told, values, prime):
    """Multiply a vector with a matrix; what is added to a number comes from earlier ones."""
    for number in range(len(values) - 1, -1, -1):
        total = 0.0
        for k in range(number + 1):
            total = add(total, reduce(told[number, k] * values[k], prime), prime)
        values[number] = total


@inner
def _tell_child(tree, node, child, prime):
    """Tell a child what its parent has been told."""
    told, maps = tree.maps[node], tree.maps[child]
    _map_values(told, tree.values[child], prime)
    for number in range(len(told) - 1, -1, -1):
        for column in range(number + 1):
            total = 0.0
            for k in range(column, number + 1):
                total = add(total, reduce(told[number, k] * maps[k, column], prime), prime)
            maps[number, column] = total
    tree.is_told[child] = 0


@inner
def _go_down(tree, leaf, height, prime):
    """Tell all nodes above a leaf what they have not been told."""
    for level in range(height, 0, -1):
        node = leaf >> level
        if tree.is_told[node] == 0:
            _tell_child(tree, node, 2 * node, prime)
            _tell_child(tree, node, 2 * node + 1, prime)
            tree.maps[node] = 0.0
            for number in range(tree.maps.shape[1]):
                tree.maps[node, number, number] = 1.0
            tree.is_told[node] = 1


@inner
def _go_up(tree, leaf, height, prime):
    """Add up the vectors above a leaf."""
    for level in range(1, height + 1):
        node = leaf >> level
        for number in range(tree.values.shape[1]):
            one, other = tree.values[2 * node, number], tree.values[2 * node + 1, number]
            tree.values[node, number] = add(one, other, prime)
        if tree.is_told[node] == 0:
            _map_values(tree.maps[node], tree.values[node], prime)


@inner
def _set_centre(tree, leaf, height, is_inside, prime):
    """Let a centre begin, or leave the window."""
    _go_down(tree, leaf, height, prime)
    tree.values[leaf] = 0.0
    tree.values[leaf, 0] = is_inside
    _go_up(tree, leaf, height, prime)


@inner
def _act(tree, rows, i, node, prime):
    """Return what a root adds up at a node; of another row, add a number there."""
    if rows.root[i] >= 0:
        return tree.values[node, rows.before[i]]
    _add_number(tree, node, rows.number[i], rows.before[i], prime)
    return 0.0


@kernel
def _count_rows(rows, centres, tree, prime, span, out):
    """Count the matches of the roots among some rows.

    `span` has the first row, the one after the last, how many centres have left before, and the
    height of the tree; return how many have left.
    """
    first, after, gone, height = span
    leaves = 1 << height
    for i in range(first, after):
        left, right, total = leaves + rows.begin[i], leaves + rows.end[i], 0.0
        if rows.root[i] >= 0:
            gone = max(gone, rows.first[i])
            while gone < rows.last[i] and centres.start[gone] < rows.bound[i]:
                _set_centre(tree, leaves + centres.by_start[gone], height, 0.0, prime)
                gone += 1
        elif rows.number[i] == 0:
            _set_centre(tree, left, height, 1.0, prime)
            continue
        if left >= right:
            continue
        begin, end = left, right - 1
        _go_down(tree, begin, height, prime)
        _go_down(tree, end, height, prime)
        while left < right:
            if left & 1:
                total = add(total, _act(tree, rows, i, left, prime), prime)
                left += 1
            if right & 1:
                right -= 1
                total = add(total, _act(tree, rows, i, right, prime), prime)
            left //= 2
            right //= 2
        if rows.root[i] >= 0:
            out[rows.root[i]] = add(out[rows.root[i]], total, prime)
        else:
            _go_up(tree, begin, height, prime)
            _go_up(tree, end, height, prime)
    return gone


@kernel
def _find_ranges(words, operator, asked, begin, end):
    """Narrow the ranges of centres of rows to those whose words are in a relation to the rows'.

    `operator` is that of the condition of each row, after the number of the condition; -1: none.
    """
    for i in range(len(begin)):
        condition, one = operator[i, 0], operator[i, 1]
        if condition < 0:
            continue
        first, last, upper = begin[i], end[i], (asked[i, 0], asked[i, 1])
        high, low = words[condition, 0], words[condition, 1]
        if one == r.IN_SPAN:
            begin[i] = search(low, low, first, last, (asked[i, 1], _FIRST), False)
            upper = asked[i, 0], _LAST
        elif one == r.IN_GAP or one == r.IN_ENDS:
            begin[i] = search(high, low, first, last, (asked[i, 0], _FIRST), False)
            upper = asked[i, 1], _LAST if one == r.IN_GAP else np.int64(0)
        elif one in (r.GREATER, r.GREATER_EQUAL, r.EQUAL):
            begin[i] = search(high, low, first, last, upper, one == r.GREATER)
        if one not in (r.GREATER, r.GREATER_EQUAL):
            end[i] = search(high, low, first, last, upper, one != r.LESS)


class _StarCounter:
    """Reads the rows of a star in a segment."""

    def __init__(self, tables: CorrelatedTables, star: CountedStar, segment: DagSegment) -> None:
        self.tables, self.star = tables, star
        self.memory, self.roots = segment.memory, segment.roots
        last = int(self.roots["vertex"].max(initial=0)) + 1
        self.vertices = self.memory.vertices[:last]
        steps = self._find_steps()
        self.number, self.before, self.fits = steps[:, 0], steps[:, 1], steps[:, 2]
        self.key = self._read_facts((CODE, tables.columns[star.column]))

    def _find_steps(self) -> Ints:
        """Return the number, the one before and the condition of each vertex; -1: none of the star.

        A vertex that begins a run has the transition of its label.
        """
        pcea, vertices = self.tables.pcea, self.vertices
        steps = np.full((len(pcea.transitions) + 1, 3), -1, np.int64)
        for i, step in self.star.steps.items():
            steps[i] = step.number, step.before, step.fits
        counts = [len(t.sources) for t in pcea.transitions]
        of_link = np.repeat(np.arange(len(counts)), counts)
        of_label = np.full(len(self.tables.labels), -1, np.int64)
        for i, t in enumerate(pcea.transitions):
            if not t.sources:
                of_label[self.tables.label(t.labels)] = i
        transition = of_label[vertices["label"]]
        has_sources = vertices["count"] > 0
        links = self.memory.sources["link"][vertices["first"][has_sources]]
        transition[has_sources] = of_link[links]
        transition[:1] = -1
        found: Ints = steps[transition]
        return found

    def _read_facts(self, fact: tuple[int, int]) -> Ints:
        facts = self.memory.facts[: len(self.vertices), self.tables.facts.index(fact)]
        return facts.astype(np.int64)

    def place_centres(self) -> _Centres | None:
        """Return the centres; None: their values do not rise together."""
        bound, starts = self.roots["bound"].min(initial=_LAST), self.vertices["start"]
        is_inside = (self.number == 0) & (self.key >= 0) & (starts >= bound)
        pairs = np.array([self.tables.find_words(link) for link in self.star.fits], np.int64)
        facts = self.memory.facts[: len(starts), pairs.ravel()]
        words = facts.T.reshape(len(pairs), 2, len(starts)).astype(np.int64)
        is_inside &= (words[:, 0] != r.NOTHING).all(axis=0)
        for i, link in enumerate(self.star.fits):
            is_inside &= (words[i, 1] != r.NOTHING) if link.is_span else True
        vertex = np.flatnonzero(is_inside)
        columns = words[:, :, vertex].reshape(2 * len(pairs), len(vertex))
        order = np.lexsort((vertex, *columns[::-1], self.key[vertex]))
        vertex, words = vertex[order], np.ascontiguousarray(words[:, :, vertex[order]])
        key = self.key[vertex]
        by_start = np.lexsort((vertex, key))
        start, is_same = starts[vertex[by_start]], key[1:] == key[:-1]
        sinks = is_same & (start[1:] < start[:-1])
        for (high, low), link in zip(words, self.star.fits, strict=True):
            is_lower = low[1:] < low[:-1]
            is_lower &= True if link.is_span else high[1:] == high[:-1]
            sinks |= is_same & (is_lower | (high[1:] < high[:-1]))
        if sinks.any() or (words[:, 0] > r.LARGEST_NUMBER).any():
            return None
        return _Centres(vertex, key, words, by_start, start)

    def list_rows(self, centres: _Centres) -> _StarRows | None:
        """Return the rows, in their order; None: windows end in no order."""
        size, vertices = self.star.size, self.vertices
        earliest = int(centres.vertex.min(initial=len(vertices)))
        steps = np.flatnonzero((self.number > 0) & (self.number < size))
        steps = steps[steps > earliest]
        own = self.roots["vertex"].astype(np.int64)
        is_own = self.number[own] == size
        ends = own[is_own]
        vertex = np.concatenate([centres.vertex, steps, ends])
        root = np.full(len(vertex), -1, np.int64)
        root[len(vertex) - len(ends) :] = np.flatnonzero(is_own)
        key = self.key[vertex]
        begin = np.searchsorted(centres.key, key)
        end = np.searchsorted(centres.key, key, side="right")
        inside = self._list_ranges(centres, vertex, begin.copy(), end.copy())
        places = np.arange(len(centres.vertex))
        inside.begin[: len(places)], inside.end[: len(places)] = places, places + 1
        number, before = self.number[vertex], self.before[vertex]
        # what an event adds does not count for itself: later numbers first, rounds before others
        turn = -2 * number - (number == before)
        order = np.lexsort((turn, vertices["position"][vertex], key))
        order = order[(inside.is_asked & (begin < end))[order]]
        bound = np.full(len(vertex), _FIRST, np.int64)
        bound[root >= 0] = self.roots["bound"][is_own]
        rows = (vertex, number, before, root, *inside[:2], begin, end, bound)
        found = _StarRows(*(column[order].astype(np.int64) for column in rows))
        is_root = found.root >= 0
        due, first = found.bound[is_root], found.first[is_root]
        sinks = (due[1:] < due[:-1]) & (first[1:] == first[:-1])
        return None if sinks.any() or self._repeats_rounds(found) else found

    def _repeats_rounds(self, rows: _StarRows) -> bool:
        """Whether an event takes two rounds of one state."""
        is_round = rows.number == rows.before
        is_round &= rows.number > 0
        rounds = rows.vertex[is_round]
        pairs = np.stack([self.vertices["position"][rounds], rows.number[is_round]])
        return bool(np.unique(pairs, axis=1).shape[1] < len(rounds))

    def _list_ranges(
        self, centres: _Centres, vertex: Ints, begin: Ints, end: Ints
    ) -> _FittingCentres:
        """Narrow the ranges of the centres of each vertex to those that it fits."""
        asked, operator = np.zeros((len(vertex), 2), np.int64), np.full((len(vertex), 2), -1)
        for i, link in enumerate(self.star.fits):
            own = np.flatnonzero(self.fits[vertex] == i)
            if link.once:
                last = self.vertices["first"] + self.vertices["count"] - 1
                question = self.memory.sources["asked"][last[vertex[own]]]
                asked[own] = self.memory.asked[question, :2]
            else:
                asked[own] = self._ask_values(link, vertex[own])
            operator[own] = i, find_operator(link, find_order(link))
        has_value = asked[:, 0] != r.NOTHING
        _find_ranges(centres.words, operator.astype(np.int64), asked, begin, end)
        return _FittingCentres(begin, np.maximum(begin, end), has_value)

    def _ask_values(self, link: Link, vertex: Ints) -> Ints:
        """Return the two words that events ask by: see `middles.ask_ends`."""
        names = [self.tables.ordered.index(order.later) for order in link.ordered]
        high = self._read_facts((HIGH, names[0]))[vertex]
        if link.is_range:
            low = self._read_facts((HIGH, names[1]))[vertex]
            is_number = np.maximum(high, low) <= r.LARGEST_NUMBER
            alike = is_number | (high >> r.KIND_BITS == low >> r.KIND_BITS)
            return np.stack([np.where(alike, high, r.NOTHING), low], axis=1)
        low = self._read_facts((LOW, names[0]))[vertex]
        if link.is_span:
            lower, upper = find_ends(link)
            is_exact, is_known = low == 0, high != r.NOTHING
            low = np.where(is_exact, high + upper, high + 1)
            high = high + np.where(is_exact & is_known, lower, 0)
        return np.stack([high, low], axis=1)


def count_stars(tables: CorrelatedTables, segment: DagSegment) -> list[int] | None:
    """Return the number of matches of every root; None: not all are counted without listing."""
    total = [0] * len(segment.roots)
    if not tables.stars:
        return None
    for star in tables.stars:
        counter = _StarCounter(tables, star, segment)
        centres = counter.place_centres()
        rows = None if centres is None else counter.list_rows(centres)
        if centres is None or rows is None:
            return None
        for root, number in enumerate(_count(star, centres, rows, len(total))):
            total[root] += number
    return total


def _count(star: CountedStar, centres: _Centres, rows: _StarRows, roots: int) -> list[int]:
    height = max(len(centres.vertex) - 1, 0).bit_length()

    def count(prime: float) -> Floats:
        nodes, out, gone = 2 << height, np.zeros(roots), 0
        maps = np.tile(np.eye(star.size), (nodes, 1, 1))
        tree = _StarTree(np.zeros((nodes, star.size)), maps, np.ones(nodes, np.uint8))
        for piece in cut_events(len(rows.vertex)):
            span = piece.start, piece.stop, gone, height
            gone = call_patiently(_count_rows, rows, centres, tree, prime, span, out)
        return out

    # an event doubles a number at most
    return count_exactly(count, lambda: len(rows.vertex) + height)
