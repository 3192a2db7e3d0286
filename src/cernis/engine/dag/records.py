"""The records of the run DAG: plain arrays with integer links.

A *vertex* is an event as a transition read it (a vertex of the run DAG of the chain
automata paper, a node of the PCEA paper): its position, its labels, and one *source* for
each run it gathered. A source does not name the runs: it names an index, a version of it,
and the values it was asked for.

Runs wait in *stores*, one for each state and way of being asked; a store has a *bucket*
for each key (the values compared by =). `ordinal` is the time of the last insertion into
a bucket: the rank of the event, or for strict stores its moment; `before` is the root
before that moment. The root depends on the store's kind:

* `UNION`: a persistent heap-ordered tree (`unions`), for keys alone;
* `UNLIKE`: a list with back pointers (`unlike`), for keys and values compared by ≠;
* `SORTED`: a persistent search tree (`ordered`), for keys and a value compared by order;
* `RECENT`: such a tree whose runs must have ended lately: where a gap stands beside an order, the
  start of a run in the index is its last event, in units of the gap;
* `ROUNDS`: two such trees, of runs and of the rounds that they may have had (`rounds`). The second
  is in `before`, and in the `group` of a source;
* `ENDED`, and `ENDED_ONCE` where the first row that fits takes a run: the same for rounds that the
  next step ends. `last` are the runs that are ready: they have had a round since they were taken.
  `part`, and the last word that a source asks for, is a tree of the rows that took runs.

The linked runtime gives a bucket a new number whenever it begins with nothing: `group` is that
of the bucket that a source asks, or that a node belongs to. `rank` is that of a vertex's row
among the rows of its moment. `slide` counts by these.

`start` is always the latest start of the runs below, in units of the window (the
papers' max-start). Index 0 of every array is "nothing".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import record
from cernis.engine.settings import FOREVER
from cernis.errors import BudgetError

MOST_RECORDS = 2**30

UNION, UNLIKE, SORTED, RECENT, ROUNDS, ENDED, ENDED_ONCE = range(7)

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(4)
EQUAL, DIFFERENT, IN_GAP, IN_SPAN, IN_ENDS = 4, 5, 6, 7, 8
"""IN_GAP asks a search tree for a range: the two words are its ends, both included. With IN_SPAN,
the two words of a run are the ends of a range: it asks for the runs whose range has a value.
IN_ENDS is IN_GAP for values of two words between ends of one; + 1 and + 2 leave the upper and the
lower end out."""
OPERATORS = {
    "<": LESS,
    "<=": LESS_EQUAL,
    ">": GREATER,
    ">=": GREATER_EQUAL,
    "=": EQUAL,
    "!=": DIFFERENT,
}

NOTHING = np.int64(-(2**63))
"""The order value of NULL and NaN; as a start: there is no run."""
BEGINS = NOTHING + 1
"""As the earliest start that a vertex allows: it begins a part that has a WITHIN of its own."""
MISSING = -1
EQUALS_NOTHING = -2
"""Codes of values: NULL; and NaN, which is present but equals nothing."""
LARGEST_NUMBER = np.int64(0x7FF0000000000000)
KIND_BITS = 34
"""Order values: numbers are at most this; every other kind has its own bits from here on."""
NO_CLOCK = np.int64(2**63 - 1)
"""The start of a run whose first event has no reading of the window's clock."""

VERTEX = record("position start", "label first count rank")
SOURCE = record("version", "link at asked group")
NODE = record("start since", "vertex left right later up group")
ENTRY = record("start best", "vertex before store spare")
BRANCH = record("high low start best", "vertex left right priority")
BUCKET = record("ordinal", "root last part before")
ROOT = record("end bound key", "vertex spare")
"""The matches of one vertex that start at or after `bound`."""

VERTICES, SOURCES, NODES, ENTRIES, BRANCHES, ASKED, ROOTS, PENDING, FILED, RELEVANT = range(10)
"""Indices in `counters`: how many records each array has; how many vertices wait to be
filed, and how many of them have been; how many events have made a vertex."""
SHARED = 10
"""The first branch of the vertices that are being filed: no source refers to it or a later one."""
COUNTERS = 11


class RunMemory(NamedTuple):
    """The state of a stream. Arrays grow by being replaced."""

    counters: NDArray[np.int64]
    vertices: NDArray[np.void]
    facts: NDArray[np.int64]
    """Per vertex, the values that are compared with events far away in the match."""
    sources: NDArray[np.void]
    nodes: NDArray[np.void]
    entries: NDArray[np.void]
    values: NDArray[np.int64]
    """Per entry, the values compared by ≠."""
    back: NDArray[np.int32]
    """Per entry, its back pointers."""
    branches: NDArray[np.void]
    asked: NDArray[np.int64]
    """The values that sources asked for: those compared by ≠, two words of an order value, or the
    ends of a gap. The last word may be the earliest last event, where an order stands beside a gap,
    or a tree of the rows that have ended rounds (`rounds`)."""
    buckets: NDArray[np.void]
    base: NDArray[np.int64]
    """Where each store's buckets begin."""
    roots: NDArray[np.void]
    part_events: NDArray[np.int64]
    """Per partition, how many events it has had."""
    part_bound: NDArray[np.int64]
    """Per partition, the bound of its window at its last event, where that is a clock."""
    pending_vertex: NDArray[np.int32]
    pending_store: NDArray[np.int32]


GROWING = ("vertices", "sources", "nodes", "entries", "branches", "asked", "roots")
"""The arrays that grow, in the order of their counters; `values` and `back`
follow `entries`, `facts` follows `vertices`."""


class Widths(NamedTuple):
    """The sizes of the arrays that not every query needs."""

    facts: int = 0
    values: int = 0
    """Values compared by ≠; 0: there are no lists with back pointers."""
    back: int = 1
    ordered: bool = False
    more: bool = False
    """Whether sources ask for one word more."""
    parts: int = 1
    pending: int = 1


_NO_MORE = Widths()


def new_memory(size: int, widths: Widths = _NO_MORE, buckets: int = 0) -> RunMemory:
    """Make memory with room for so many records of each sort that is used."""
    counters = np.zeros(COUNTERS, np.int64)
    counters[: ASKED + 1] = 1
    counters[SOURCES] = 0
    entries = size if widths.values else 1
    width = max(widths.values, 1)
    return RunMemory(
        counters=counters,
        vertices=np.zeros(size, VERTEX),
        facts=np.zeros((size, widths.facts), np.int64),
        sources=np.zeros(size, SOURCE),
        nodes=np.zeros(size, NODE),
        entries=np.zeros(entries, ENTRY),
        values=np.zeros((entries, width), np.int64),
        back=np.zeros((entries, widths.back), np.int32),
        branches=np.zeros(size if widths.ordered else 1, BRANCH),
        asked=np.zeros((size, max(width, 2) + widths.more), np.int64),
        buckets=np.zeros(buckets, BUCKET),
        base=np.zeros(0, np.int64),
        roots=np.zeros(size, ROOT),
        part_events=np.zeros(widths.parts, np.int64),
        part_bound=np.full(widths.parts, FOREVER),
        pending_vertex=np.zeros(widths.pending, np.int32),
        pending_store=np.zeros(widths.pending, np.int32),
    )


def make_room(memory: RunMemory, array: int, room: int, least: int) -> RunMemory:
    """Return the memory with room for so many more records of one sort."""
    name = GROWING[array]
    used, current = int(memory.counters[array]), getattr(memory, name)
    if used + room <= len(current):
        return memory
    # room for several times the live records, so that a record is seldom copied
    wanted = max(least, min(4 * used, 2 * used + (1 << 22)), used + 2 * room)
    if wanted > MOST_RECORDS:
        raise BudgetError("more than 2^30 partial matches are alive; set a smaller window")
    followers = {VERTICES: ("facts",), ENTRIES: ("values", "back")}.get(array, ())
    names = (name, *followers)
    return memory._replace(**{n: _lengthen(getattr(memory, n), used, wanted) for n in names})


def count_branches(memory: RunMemory) -> int:
    """Return how many branches the memory has: those that came later are in longer arrays."""
    return min(int(memory.counters[BRANCHES]), len(memory.branches))


def _lengthen(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer
