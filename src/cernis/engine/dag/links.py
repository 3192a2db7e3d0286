"""The part of an automaton that readers of the run DAG look at.

A source of a vertex names the *link* it was gathered by. The link says which *store* holds the
runs, the store which kind of index it is. The linked runtime has one link and one store
(`link_of_unions`): its runs are found by hash tables of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.dag.records import UNION, RunMemory
from cernis.engine.dag.unlike import sequences


class FarConditions(NamedTuple):
    """Conditions between far events of a match, checked when matches are listed."""

    operator: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    """The (first) fact that each side compares."""
    on_left: NDArray[np.uint8]
    on_right: NDArray[np.uint8]
    """Per label and condition, whether the event is on that side of it."""


class SumBounds(NamedTuple):
    """Sums of weights that no match exceeds: the listing leaves a branch that does."""

    fact: NDArray[np.int32]
    """The fact that holds the value, as the bits of a float; -1: each event weighs 1."""
    sign: NDArray[np.float64]
    limit: NDArray[np.float64]
    counts: NDArray[np.uint8]
    """Per label and bound, whether the event counts."""


class Links(NamedTuple):
    """The links between events, and the stores they ask."""

    store: NDArray[np.int32]
    """Per link, its store."""
    operator: NDArray[np.int32]
    """Per link, the operator by which an ordered store is asked."""
    kind: NDArray[np.int32]
    """Per store: UNION, UNLIKE or SORTED."""
    width: NDArray[np.int32]
    """Per store, how many values are compared by ≠."""
    steps: NDArray[np.int32]
    """The sequences of back pointers, see `unlike.sequences`."""
    conditions: FarConditions
    bounds: SumBounds


class DagSegment(NamedTuple):
    """A compact set of matches: the links and records they consist of, and their roots."""

    links: Links
    memory: RunMemory
    roots: NDArray[np.void]


def link_of_unions() -> Links:
    """Return a single link to a store of unions, without conditions."""
    none, one = np.zeros(0, np.int32), np.zeros(1, np.int32)
    sides = np.zeros((0, 0), np.uint8)
    return Links(
        store=one,
        operator=one,
        kind=np.full(1, UNION, np.int32),
        width=one,
        steps=sequences(1),
        conditions=FarConditions(none, none, none, sides, sides),
        bounds=SumBounds(none, none.astype(np.float64), none.astype(np.float64), sides),
    )
