"""The part of an automaton that readers of the run DAG look at.

A source of a vertex names the *link* it was gathered by. The link says which *store* holds the
runs, the store which kind of index it is. The linked runtime finds its runs by hash tables of its
own, and has a link for each way to name them (`links_of_runs`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import inner
from cernis.engine.dag.records import (
    ENDED,
    ENDED_ONCE,
    EQUAL,
    GREATER_EQUAL,
    LESS_EQUAL,
    ROUNDS,
    SORTED,
    UNION,
    RunMemory,
)
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
    """Sums of weights that no match exceeds: the listing leaves a branch that does.

    Or greatest weights, which one more event does not lower either.
    """

    fact: NDArray[np.int32]
    """The fact that holds the value, as the bits of a float; -1: each event weighs 1. NaN: none."""
    sign: NDArray[np.float64]
    limit: NDArray[np.float64]
    counts: NDArray[np.uint8]
    """Per label and bound, whether the event counts."""
    extreme: NDArray[np.uint8]
    """Whether the greatest weight counts, not the sum."""
    terms: NDArray[np.int32]
    """How many bounds up to this one have the limit together; 0: a later one has it."""


class Links(NamedTuple):
    """The links between events, and the stores they ask."""

    store: NDArray[np.int32]
    """Per link, its store."""
    operator: NDArray[np.int32]
    """Per link, the operator by which an ordered store is asked."""
    kind: NDArray[np.int32]
    """Per store: UNION, UNLIKE, SORTED, RECENT, ROUNDS, ENDED or ENDED_ONCE."""
    width: NDArray[np.int32]
    """Per store, how many values are compared by ≠."""
    steps: NDArray[np.int32]
    """The sequences of back pointers, see `unlike.sequences`."""
    conditions: FarConditions
    bounds: SumBounds
    since: NDArray[np.int32]
    """The fact that holds the earliest start that a vertex allows, where a part of the formula has
    a WITHIN of its own; empty: no part has."""
    own: NDArray[np.int32]
    """The fact that holds where the event of a vertex stands, in the unit of starts, where a middle
    lies between two compared events; empty: nowhere."""
    once: NDArray[np.uint8]
    """Per link, whether the run that it finds bounds what the source before it finds: the start of
    a middle, or a ray of the star whose centre it is."""
    rays: NDArray[np.int32]
    """Per link to a ray of a star: which two facts of the centre are asked for, and the fact that
    says after which position; -1: no ray. Empty: there is no star."""
    rounds: NDArray[np.int32] | None = None
    """Per link, which rounds lie between the runs and the vertex, see `rounds`; None: no link has
    rounds, and kernels are compiled without them."""

    @property
    def is_bounded(self) -> bool:
        """Whether runs below a vertex have bounds of their own beside the window."""
        return len(self.since) + len(self.own) > 0


BY_UNION, BY_LESS, BY_GREATER, BY_VALUE = range(4)
"""The links of the linked runtime: all runs of a group, and the runs of a search tree up to a
value, from a value on, or with a value."""
NEXT_ROUNDS, ANY_ROUNDS, STRICT_ROUNDS, ONE_ROUND = range(1, 5)
"""How runs take rounds that fit them: all (`;`), any (`:`), all one after the other (`,`), or one
alone, which is no `+`."""
_WAYS = (NEXT_ROUNDS, ANY_ROUNDS, STRICT_ROUNDS, ONE_ROUND)
ROUNDS_LINKS, ENDED_LINKS = 4, 4 + 4 * len(_WAYS)
"""The first link to runs with rounds, and with ended ones: see `link_rounds` and `link_ended`."""


class DagSegment(NamedTuple):
    """A compact set of matches: the links and records they consist of, and their roots."""

    links: Links
    memory: RunMemory
    roots: NDArray[np.void]


def links_of_runs() -> Links:
    """Return the links of the linked runtime: to unions, and to ranges of search trees.

    Those with rounds follow (`link_rounds`): for each way to take them, to values up to the limit
    of a round and from it on, and to one value of each. So do those to rounds that a row ends
    (`link_ended`), with runs that stay, and with runs that it takes.
    """
    none, sides = np.zeros(0, np.int32), np.zeros((0, 0), np.uint8)
    ranges = [LESS_EQUAL, GREATER_EQUAL, EQUAL, EQUAL]
    ways = _WAYS * 3
    return Links(
        store=np.array([0, 1, 1, 1, *[2] * 16, *[3] * 16, *[4] * 16], np.int32),
        operator=np.array([0, *ranges[:3], *ranges * len(ways)], np.int32),
        kind=np.array([UNION, SORTED, ROUNDS, ENDED, ENDED_ONCE], np.int32),
        width=np.zeros(5, np.int32),
        steps=sequences(1),
        conditions=FarConditions(none, none, none, sides, sides),
        bounds=SumBounds(
            none,
            none.astype(np.float64),
            none.astype(np.float64),
            sides,
            none.astype(np.uint8),
            none,
        ),
        since=none,
        own=none,
        once=np.zeros(4 + 4 * len(ways), np.uint8),
        rays=np.zeros((0, 3), np.int32),
        rounds=np.array([0] * 4 + [sign * way for way in ways for sign in (-1, 1) * 2], np.int32),
    )


@inner
def link_rounds(way, below, one_value):
    """Return the link to runs with rounds: up to a limit or from it on, of one value or of all."""
    return ROUNDS_LINKS + 4 * (way - NEXT_ROUNDS) + 2 * one_value + (not below)


@inner
def link_ended(way, below, one_value, once):
    """Return the link to runs whose rounds a row ends; `once`: it takes these runs away."""
    number = way - NEXT_ROUNDS + once * len(_WAYS)
    return ENDED_LINKS + 4 * number + 2 * one_value + (not below)
