"""Enumeration: from roots to matches as arrays, without looking at what does not match.

A match is a tree of vertices. The walk keeps the vertices chosen so far (`trail`), the
sources that still need a run (`todo`, a linked list), and the choices not yet taken.
Where the index is exact (= and order), every choice leads to at least one match, so the
delay is linear in the match (times a logarithm for order). With ≠ in a window, a run
outside the window costs a step if later runs of its list are inside.

The kernel fills fixed buffers and goes on where it stopped; choices are taken last in
first out, so memory is bounded by the longest match, not by the answer. Where a match has a bound
on the sum of its weights, or on the greatest, a branch that exceeds it is left at once
(`SumBounds`).

Where an order stands beside a gap, the index knows which runs have ended lately, not which have
begun in the window: a run outside the window costs a step.

Inside `(φ WITHIN w)` runs that began φ too early are cut like runs outside the window. If what
comes before φ has left the window, it has for each earlier beginning of φ as well. So each such
failure raises the earliest beginning that is looked at (`FLOOR`), and a root has few of them.

Where events are compared across a middle, the earlier one is chosen first. The runs of the middle
are then those that began after it: its position is the bound of their starts, as the window is for
others. An index holds an earlier event only once there is such a run, so none is looked for in
vain.

Of a star, the centre is chosen first, then its rays from the last one back. What a ray is asked for
are values of the centre, and it comes after the first time at which all before it was complete: the
index then has at least one (`cernis.engine.correlated.middles`).

A run that takes rounds (`rounds`) is chosen first, then its rounds from the last one back. Where a
row ends them, its last round is looked for first: once for each, and once in vain.

Within one end position matches come in the order of the indexes; `results` sorts what fits a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner, record
from cernis.compiled.tiers import call_briefly
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.dag import rounds, unions, unlike
from cernis.engine.dag.links import ANY_ROUNDS, ONE_ROUND, DagSegment, SumBounds
from cernis.engine.listing import Listing, empty_listing, trim_listing

ALL_DONE, BUFFERS_FULL, NO_ROOM, SPENT = range(4)
ROOT_INDEX, CHOICES, TRAIL, CELLS, TODO, WALKING, FOUND, MATCHES, MARKS, FLOOR = range(10)
CENTRE = 10
_NEW_CURSOR = (0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
ALIVE, DEAD = 1, 2
"""Whether the trail may still become a match."""

CHOICE = record("bound", "source at trail cells todo run")


class DagWalk(NamedTuple):
    """Where a walk stands, the choices left, the vertices chosen, the sources to come."""

    cursor: NDArray[np.int64]
    choices: NDArray[np.void]
    trail: NDArray[np.int32]
    cell_source: NDArray[np.int32]
    cell_next: NDArray[np.int32]
    cell_root: NDArray[np.int32]
    cell_run: NDArray[np.int32]
    """Of a source with rounds that is written as -1 - source: the rounds still to be looked at, and
    the branch of the run that takes them. Of a ray: `cell_run` is the centre of its star."""
    cell_bound: NDArray[np.int64]
    """The earliest start of the runs of a source."""
    totals: NDArray[np.float64]
    """Per vertex of the trail and bound, the sum of the weights up to it."""


def _new_walk(size: int, bounds: int = 0) -> DagWalk:
    return DagWalk(
        cursor=np.array(_NEW_CURSOR, np.int64),
        choices=np.empty(size, CHOICE),
        trail=np.empty(size, np.int32),
        cell_source=np.empty(size, np.int32),
        cell_next=np.empty(size, np.int32),
        cell_root=np.empty(size, np.int32),
        cell_run=np.empty(size, np.int32),
        cell_bound=np.empty(size, np.int64),
        totals=np.empty((size, bounds), np.float64),
    )


_SPARE = 1e-9
"""Rounding makes a sum larger by a smaller part than this, a difference by that of its sides."""


def _find_limits(segment: DagSegment) -> SumBounds:
    """Return the bounds with the limits that hold: none where a weight is negative."""
    bounds, memory = segment.links.bounds, segment.memory
    limits = bounds.limit + _SPARE * np.abs(bounds.limit)
    for b, fact in enumerate(bounds.fact.tolist()):
        if fact >= 0 and not bounds.extreme[b]:
            facts = np.ascontiguousarray(memory.facts[1 : memory.counters[r.VERTICES], fact])
            weights = bounds.sign[b] * facts.view(np.float64)
            if (weights < 0).any():
                limits[b] = np.inf
    return bounds._replace(limit=limits)


@inner
def _stays_inside(bounds, memory, walk, vertex):
    """Add the weights of a vertex to those of the trail; return whether no limit is exceeded."""
    depth = walk.cursor[TRAIL]
    label = memory.vertices[vertex]["label"]
    inside = True
    for b in range(len(bounds.fact)):
        is_extreme = bounds.extreme[b] != 0
        total = -np.inf if is_extreme else 0.0
        if depth > 0:
            total = walk.totals[depth - 1, b]
        if bounds.counts[label, b]:
            fact = bounds.fact[b]
            weight = 1.0
            if fact >= 0:
                weight = bounds.sign[b] * memory.facts[vertex, fact : fact + 1].view(np.float64)[0]
            if weight == weight:
                total = max(total, weight) if is_extreme else total + weight
        walk.totals[depth, b] = total
        whole, size = 0.0, 0.0
        for k in range(b + 1 - bounds.terms[b], b + 1):
            whole += walk.totals[depth, k]
            size += abs(walk.totals[depth, k])
        inside = inside and not whole > bounds.limit[b] + _SPARE * size
    return inside


@inner
def _choose(walk, source, at, bound=0, run=0):
    """Leave a choice for later."""
    cursor = walk.cursor
    c = cursor[CHOICES]
    cursor[CHOICES] = c + 1
    walk.choices[c]["bound"] = bound
    walk.choices[c]["source"] = source
    walk.choices[c]["at"] = at
    walk.choices[c]["trail"] = cursor[TRAIL]
    walk.choices[c]["cells"] = cursor[CELLS]
    walk.choices[c]["todo"] = cursor[TODO]
    walk.choices[c]["run"] = run


@inner
def _limit(links, memory, vertex, before, bound):
    """Return the earliest start of the runs that a vertex may go on with.

    Inside a part with a WITHIN of its own the last event of the part says so, elsewhere the window.
    """
    since = memory.facts[vertex, links.since[0]]
    return max(since, before) if since > r.BEGINS else bound


@inner
def _take(links, memory, walk, vertex, bound):
    """Put a vertex on the trail and its sources on the list, with the earliest start of these."""
    cursor = walk.cursor
    centre = cursor[CENTRE] if len(links.rays) > 0 else 0
    walk.trail[cursor[TRAIL]] = vertex
    cursor[TRAIL] += 1
    first = memory.vertices[vertex]["first"]
    for source in range(first, first + memory.vertices[vertex]["count"]):
        cell = cursor[CELLS]
        cursor[CELLS] = cell + 1
        walk.cell_source[cell] = source
        walk.cell_bound[cell] = bound
        walk.cell_run[cell] = centre
        if centre != 0:
            since = links.rays[memory.sources[source]["link"], 2]
            if since >= 0:
                walk.cell_bound[cell] = memory.facts[centre, since] + 1
        walk.cell_next[cell] = cursor[TODO]
        cursor[TODO] = cell


@inner
def _pick(links, memory, walk, source, at, bound):
    """Return the vertex at this node of an index, or 0; leave those below it as choices."""
    if at == 0:
        return 0
    link = memory.sources[source]["link"]
    kind = links.kind[links.store[link]]
    if kind == r.UNION:
        if memory.nodes[at]["start"] < bound:
            return 0
        left = memory.nodes[at]["left"]
        right = unions.right_of(memory.nodes, at, memory.sources[source]["version"])
        if left != 0 and memory.nodes[left]["start"] >= bound:
            _choose(walk, source, left, bound)
        if right != 0 and memory.nodes[right]["start"] >= bound:
            _choose(walk, source, right, bound)
        return memory.nodes[at]["vertex"]
    if kind == r.UNLIKE:
        before = memory.entries[at]["before"]
        before = unlike.next_of_source(links, memory, source, before, bound)
        if before != 0:
            _choose(walk, source, before, bound)
        return memory.entries[at]["vertex"] if memory.entries[at]["start"] >= bound else 0
    operator = links.operator[link]
    branch = memory.branches[at]
    asked = memory.asked[memory.sources[source]["asked"]]
    high, low = asked[0], asked[1]
    if len(links.rays) > 0 and links.rays[link, 0] >= 0:
        facts = memory.facts[walk.cursor[CENTRE]]
        high, low = facts[links.rays[link, 0]], facts[links.rays[link, 1]]
        if operator == r.IN_SPAN:  # rays have one word for each end of their range
            low = high if low == 0 else high + 1
    begun = bound
    if kind == r.RECENT:
        bound = asked[len(asked) - 1]
    if branch["best"] < bound:
        return 0
    centre = walk.cursor[CENTRE]
    if by_order.is_in_range(branch, operator, high, low):
        left, right = branch["left"], branch["right"]
        if left != 0 and memory.branches[left]["best"] >= bound:
            _choose(walk, source, left, begun, centre)
        if right != 0 and memory.branches[right]["best"] >= bound:
            _choose(walk, source, right, begun, centre)
        is_comparable = operator >= r.IN_GAP or by_order.is_comparable(branch, high)
        if branch["start"] >= bound and is_comparable:
            vertex = branch["vertex"]
            if kind != r.RECENT or memory.vertices[vertex]["start"] >= begun:
                return vertex
        return 0
    left_of = by_order.is_beyond(branch, operator, high, low)
    side = branch["left"] if left_of else branch["right"]
    if side != 0 and memory.branches[side]["best"] >= bound:
        _choose(walk, source, side, begun, centre)
    return 0


@inner
def _advance(links, memory, walk, source, at, limit, bound, apart):
    """Take the vertex at this node of an index; return False if it cannot be in the match.

    `limit` is the earliest start of the runs of this source, `bound` that of the match.
    """
    timed, since, inherited = len(links.since) > 0, r.NOTHING, limit
    if timed:
        since = memory.facts[walk.trail[walk.cursor[TRAIL] - 1], links.since[0]]
        if since > r.BEGINS:
            limit = max(limit, walk.cursor[FLOOR])
    vertex = _pick(links, memory, walk, source, at, limit)
    if vertex == 0 and since == r.BEGINS:
        begun = memory.vertices[walk.trail[walk.cursor[TRAIL] - 1]]["start"]
        walk.cursor[FLOOR] = max(walk.cursor[FLOOR], begun)
    if vertex == 0 or (apart and not _agrees(links.conditions, memory, walk, vertex)):
        return False
    if len(links.bounds.fact) > 0 and not _stays_inside(links.bounds, memory, walk, vertex):
        return False
    if timed:
        inherited = _limit(links, memory, vertex, inherited, bound)
    if len(links.own) > 0 and links.once[memory.sources[source]["link"]]:
        _bound_next(links, memory, walk, vertex, inherited)
    _take(links, memory, walk, vertex, inherited)
    _begin_rounds(links.rounds, links, memory, walk, source, at)
    return True


@inner
def _bound_next(links, memory, walk, vertex, inherited):
    """Bound what comes next by the vertex: the start of a middle, or a ray by its centre."""
    cell, since = walk.cursor[TODO], links.own[0]
    if len(links.rays) > 0:
        ray = links.rays[memory.sources[walk.cell_source[cell]]["link"]]
        if ray[2] >= 0:
            walk.cell_run[cell], since = vertex, ray[2]
    walk.cell_bound[cell] = max(inherited, memory.facts[vertex, since] + 1)


@inner
def _begin_rounds(ways, links, memory, walk, source, run):
    """Put the rounds of a run on the list; without links that have rounds, do nothing."""
    if ways is None:
        return
    if ways[memory.sources[source]["link"]] != 0:
        if rounds.is_ended(links, memory, source):
            run = -run
        _list_rounds_later(walk, -1 - source, memory.sources[source]["group"], run)


@inner
def _list_rounds_later(walk, source, root, run):
    cursor = walk.cursor
    cell = cursor[CELLS]
    cursor[CELLS] = cell + 1
    walk.cell_source[cell] = source
    walk.cell_root[cell] = root
    walk.cell_run[cell] = run
    walk.cell_next[cell] = cursor[TODO]
    cursor[TODO] = cell


@inner
def _go_on(links, memory, walk, cell, bound, apart):
    """Go on with what a cell lists; return False if it cannot be in the match."""
    source = walk.cell_source[cell]
    if source >= 0:
        at, limit = memory.sources[source]["at"], walk.cell_bound[cell]
        walk.cursor[CENTRE] = walk.cell_run[cell]
        return _advance(links, memory, walk, source, at, limit, bound, apart)
    root, run = walk.cell_root[cell], walk.cell_run[cell]
    return _take_round(links.rounds, links, memory, walk, source, -root, run)


@inner
def _turn_to(links, memory, walk, choice, bound, apart):
    """Take up a choice that was left; return False if it cannot be in the match."""
    if choice["source"] >= 0:
        source, at, limit = choice["source"], choice["at"], choice["bound"]
        walk.cursor[CENTRE] = choice["run"]
        return _advance(links, memory, walk, source, at, limit, bound, apart)
    at, run = choice["at"], choice["run"]
    return _take_round(links.rounds, links, memory, walk, choice["source"], at, run)


@inner
def _take_round(ways, links, memory, walk, source, at, run):
    """Take the round before, if there is one; return False if the choice holds none.

    `at` is -root of the rounds to look at, or a branch below which other rounds of the moment are
    that was chosen last at this step of the trail. `run` is negative while the last of rounds that
    are ended is to be found.
    """
    if ways is None:
        return False
    cursor, branches = walk.cursor, memory.branches
    one, is_last, begun = -1 - source, run < 0, abs(run)
    way = abs(ways[memory.sources[one]["link"]])
    if at > 0:
        begin = rounds.begin_of(memory.vertices, walk.trail[cursor[TRAIL]])
        vertex = _pick_round(links, memory, walk, source, at, run, begin)
    else:
        last, alone = rounds.find_round(links, memory, one, -at, begun, is_last)
        if last == 0:
            return not is_last
        vertex = branches[last]["vertex"]
        if is_last or way == ANY_ROUNDS:
            _choose(walk, source, -rounds.rounds_before(memory, vertex), 0, run)
        if not alone:
            begin = branches[last]["start"]
            walk.trail[cursor[TRAIL]] = vertex
            vertex = _pick_round(links, memory, walk, source, -at, run, begin)
    if vertex == 0:
        return False
    walk.trail[cursor[TRAIL]] = vertex
    cursor[TRAIL] += 1
    if way != ONE_ROUND:
        _list_rounds_later(walk, source, rounds.rounds_before(memory, vertex), begun)
    return True


@inner
def _pick_round(links, memory, walk, source, at, run, begin):
    """Return the round of a moment at this branch, or 0; leave those below it as choices."""
    branches = memory.branches
    branch = branches[at]
    operator, high, low = rounds.ask_rounds(links, memory, -1 - source, abs(run), run < 0)
    inside = by_order.is_in_range(branch, operator, high, low)
    for side, is_left in ((branch["left"], True), (branch["right"], False)):
        may_fit = inside or is_left == (operator == r.LESS_EQUAL)
        if side != 0 and may_fit and branches[side]["best"] >= begin:
            _choose(walk, source, side, 0, run)
    return branch["vertex"] if inside and branch["start"] == begin else 0


@kernel
def list_matches(segment, limit, walk, listing, steps):
    """Fill the listing from where the walk stands; at most `limit` matches per end position.

    `steps` are the vertices looked at so far, and how many may be (-1: any number). Without
    conditions between far events, only branches that are left count.
    """
    links, memory, roots = segment.links, segment.memory, segment.roots
    cursor, conditions = walk.cursor, links.conditions
    apart = len(conditions.operator) > 0
    matches, marks = 0, 0
    listing.offset[0] = 0
    room = len(walk.choices)
    status = ALL_DONE
    while cursor[ROOT_INDEX] < len(roots):
        root = cursor[ROOT_INDEX]
        bound = roots[root]["bound"]
        if cursor[WALKING] == 0:
            if root > 0 and roots[root]["end"] != roots[root - 1]["end"]:
                cursor[FOUND] = 0
            cursor[CHOICES], cursor[TRAIL], cursor[CELLS], cursor[TODO] = 0, 0, 1, 0
            cursor[FLOOR], cursor[CENTRE] = r.NOTHING, 0
            if cursor[FOUND] == limit:
                cursor[ROOT_INDEX] += 1
                continue
            vertex = roots[root]["vertex"]
            if memory.vertices[vertex]["count"] + 2 > room:
                status = NO_ROOM
                break
            agrees = not apart or _agrees(conditions, memory, walk, vertex)
            if len(links.bounds.fact) > 0:
                agrees = _stays_inside(links.bounds, memory, walk, vertex) and agrees
            cursor[WALKING] = ALIVE if agrees else DEAD
            begun = bound
            if len(links.since) > 0:
                begun = _limit(links, memory, vertex, bound, bound)
            _take(links, memory, walk, vertex, begun)
        dead = cursor[WALKING] == DEAD
        while True:
            if steps[0] > steps[1] >= 0:
                status = SPENT
                break
            # a step leaves at most three choices, takes one vertex and lists its sources
            if (
                cursor[CHOICES] + 4 > room
                or cursor[TRAIL] + 2 > room
                or cursor[CELLS] + len(links.store) + 2 > room
            ):
                status = NO_ROOM
                break
            if not dead and cursor[TODO] != 0:
                cell = cursor[TODO]
                cursor[TODO] = walk.cell_next[cell]
                dead = not _go_on(links, memory, walk, cell, bound, apart)
                if apart or dead:
                    steps[0] += 1
                continue
            if not dead:
                length = cursor[TRAIL]
                if matches == len(listing.start) or marks + length > len(listing.position):
                    status = BUFFERS_FULL
                    break
                if _write(memory, walk.trail, length, bound, listing, matches, marks):
                    listing.root[matches] = root
                    matches += 1
                    marks += length
                    listing.offset[matches] = marks
                    cursor[FOUND] += 1
                    if cursor[FOUND] == limit:
                        cursor[CHOICES] = 0
            if cursor[CHOICES] == 0:
                cursor[WALKING] = 0
                break
            cursor[CHOICES] -= 1
            choice = walk.choices[cursor[CHOICES]]
            cursor[TRAIL] = choice["trail"]
            cursor[CELLS] = choice["cells"]
            cursor[TODO] = choice["todo"]
            dead = not _turn_to(links, memory, walk, choice, bound, apart)
            if apart or dead:
                steps[0] += 1
        if status != ALL_DONE:
            if cursor[WALKING] != 0:
                cursor[WALKING] = DEAD if dead else ALIVE
            break
        cursor[ROOT_INDEX] += 1
    cursor[MATCHES], cursor[MARKS] = matches, marks
    return status


@inner
def _agrees(conditions, memory, walk, vertex):
    """Return whether a vertex agrees with the trail in every condition between far events."""
    label = memory.vertices[vertex]["label"]
    for c in range(len(conditions.operator)):
        for k in range(-1, walk.cursor[TRAIL]):
            other = vertex if k < 0 else walk.trail[k]
            there = memory.vertices[other]["label"]
            forth = conditions.on_left[label, c] and conditions.on_right[there, c]
            if forth and not _holds(conditions, memory.facts, c, vertex, other):
                return False
            back = k >= 0 and conditions.on_right[label, c] and conditions.on_left[there, c]
            if back and not _holds(conditions, memory.facts, c, other, vertex):
                return False
    return True


@inner
def _holds(conditions, facts, condition, left, right):
    """Return whether a condition holds between two vertices."""
    operator = conditions.operator[condition]
    one, other = conditions.left[condition], conditions.right[condition]
    a, b = facts[left, one], facts[right, other]
    if operator == r.EQUAL:
        return a == b and a >= 0
    if operator == r.DIFFERENT:
        return a != r.MISSING and b != r.MISSING and (a != b or a < 0)
    if r.NOTHING in (a, b):
        return False
    if max(a, b) > r.LARGEST_NUMBER and a >> r.KIND_BITS != b >> r.KIND_BITS:
        return False
    if a == b:
        a, b = facts[left, one + 1], facts[right, other + 1]
        if a == b:
            return operator in (r.LESS_EQUAL, r.GREATER_EQUAL)
    return a < b if operator in (r.LESS, r.LESS_EQUAL) else a > b


@inner
def _write(memory, trail, length, bound, listing, match, marks):
    """Write the trail as marks, last event first; return False if it starts outside the window."""
    for k in range(length):
        vertex = trail[k]
        position = memory.vertices[vertex]["position"]
        at = marks + k
        while at > marks and listing.position[at - 1] < position:
            listing.position[at] = listing.position[at - 1]
            listing.label[at] = listing.label[at - 1]
            at -= 1
        listing.position[at] = position
        listing.label[at] = memory.vertices[vertex]["label"]
    start = listing.position[marks + length - 1]
    inside = False
    for k in range(length):
        vertex = trail[k]
        if memory.vertices[vertex]["count"] == 0:
            if memory.vertices[vertex]["start"] < bound:
                return False
            if memory.vertices[vertex]["position"] == start:
                inside = memory.vertices[vertex]["start"] != r.NO_CLOCK
    listing.start[match] = start
    return inside


def list_blocks(
    segment: DagSegment,
    limit: int | None = None,
    block: int = 65_536,
    steps: NDArray[np.int64] | None = None,
) -> Iterator[Listing]:
    """Give all matches of the roots, `limit` of each end position at most, block by block.

    `steps` counts the vertices looked at, up to a limit: steps[0] > steps[1] says that the
    limit has ended the listing.
    """
    steps = np.array([0, -1], np.int64) if steps is None else steps
    walk = _new_walk(256, len(segment.links.bounds.fact))
    if len(segment.links.bounds.fact):
        segment = segment._replace(links=segment.links._replace(bounds=_find_limits(segment)))
    most = -1 if limit is None else limit
    marks = 4 * block
    status = BUFFERS_FULL
    while status not in (ALL_DONE, SPENT):
        listing = empty_listing(block, marks)
        status = call_briefly(list_matches, block, segment, most, walk, listing, steps)
        found, used = int(walk.cursor[MATCHES]), int(walk.cursor[MARKS])
        if found:
            yield trim_listing(listing, found, used)
        if status == BUFFERS_FULL and not found:
            marks *= 2
        elif status == NO_ROOM:
            walk = DagWalk(walk.cursor, *(_double(array) for array in walk[1:]))


def _double(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])
