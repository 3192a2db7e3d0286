"""Every small SPAseQ query over every short graph stream, as `tools.cases.exhaustive` for CEQL.

`list_sequences` has all sequences up to a number of nodes: steps, `&`, `|`, `+`, `?` and `!` count
one each. `list_graph_queries` adds what the patterns A and B compare and the clauses, and
`list_graph_streams` has all streams of one length: of each graph that the patterns can tell apart,
and of one that none matches, at times that differ or coincide.

`join_graph_streams` puts the streams one after the other, further apart than any window: a single
run of a query reads them all. The oracle reads each stream alone.

Left out, because another case covers them: sequences in which B comes before A.

Cost: about 0.2 s a query for the oracle, on all streams of 3 events, and less for the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import (
    Element,
    Gpm,
    GpmConjunction,
    GpmDisjunction,
    GpmName,
    SelectedVariable,
    SequenceStep,
    SpaseqQuery,
    find_gpm_names,
)
from cernis.testing.spaseq.graph_patterns import Triples
from cernis.testing.spaseq.oracle import Event, SpaseqMatch
from tools.cases.spaseq.grammar import EXAMPLE, iri, number

STREAM = "S"
GraphStream = tuple[Event, ...]
Steps = tuple[SequenceStep, ...]

_LINKS = (",", ";", ":")
_FAR = 100
"""How far two joined streams lie apart."""
_GRAPHS = (("p", 0), ("p", 1), ("q", 0), ("q", 1), ("pq", 0), ("r", 0))
_TIMES = ((0, 1, 2, 3), (0, 0, 1, 1))


# --------------------------------------------------------------- sequences


def list_sequences(nodes: int) -> Iterator[Steps]:
    """Yield every sequence of up to so many nodes, small ones first.

    >>> [len(list(list_sequences(nodes))) for nodes in (1, 2, 3)]
    [1, 12, 120]
    """
    for size in range(1, nodes + 1):
        for steps in _make_sequences(size):
            if _is_allowed(steps) and next(find_gpm_names(steps[0].element)).gpm == "A":
                yield steps


@cache
def _make_sequences(nodes: int) -> tuple[Steps, ...]:
    """Return the sequences of exactly so many nodes."""
    alone = _make_steps(nodes, None)
    return (
        *((step,) for step in alone),
        *(
            (*before, step)
            for size in range(1, nodes)
            for before, link in product(_make_sequences(nodes - size), _LINKS)
            for step in _make_steps(size, link)
        ),
    )


@cache
def _make_steps(nodes: int, link: str | None) -> tuple[SequenceStep, ...]:
    """Return the steps of exactly so many nodes."""
    below = _list_elements(nodes - 1)
    return (
        *(SequenceStep(element, link) for element in _list_elements(nodes)),
        *(SequenceStep(element, link, rounds=rounds) for element in below for rounds in _LINKS),
        *(SequenceStep(element, link, optional=True) for element in below),
        *(SequenceStep(element, link, negated=True) for element in below),
    )


def _list_elements(nodes: int) -> tuple[Element, ...]:
    one, two = GpmName("A"), GpmName("B")
    if nodes == 1:
        return one, two
    return (GpmConjunction((one, two)), GpmDisjunction((one, two))) if nodes == 2 else ()


def _is_allowed(steps: Steps) -> bool:
    """Return whether the language has the sequence."""
    negated = [step.negated for step in steps]
    return (
        not all(step.optional or step.negated for step in steps)
        and not (negated[0] or negated[-1])
        and not any(map(bool.__and__, negated, negated[1:]))
    )


# ----------------------------------------------------------------- queries


def list_graph_queries(nodes: int) -> Iterator[SpaseqQuery]:
    """Yield every query with up to so many nodes in its sequence.

    >>> len(list(list_graph_queries(2)))
    72
    """
    for steps in list_sequences(nodes):
        for gpms in _list_patterns(steps):
            query = SpaseqQuery(None, ((STREAM, f"{EXAMPLE}{STREAM}"),), gpms, steps, within=2)
            yield query
            yield replace(query, within=1)
            yield replace(query, select=(SelectedVariable("x", "x"),))
            if all("x" in g.find_variables(gpm.pattern) for gpm in gpms):
                yield replace(query, partition=("x",))


def _list_patterns(steps: Steps) -> Iterator[tuple[Gpm, ...]]:
    """Yield the patterns of a sequence: B has the value of A, any value, or a greater one."""
    names = [{leaf.gpm for leaf in find_gpm_names(step.element)} for step in steps]
    first = Gpm("A", (STREAM,), _make_pattern("a", "p", "x"))
    if not any("B" in used for used in names):
        yield (first,)
        return
    other = _make_pattern("b", "q", "y")
    yield first, Gpm("B", (STREAM,), _make_pattern("b", "q", "x"))
    yield first, Gpm("B", (STREAM,), other)
    bound = next(i for i, step in enumerate(steps) if "A" in names[i] and not step.negated)
    if not any("B" in used for used in names[: bound + 1]):
        greater = g.ComparisonExpression(">", g.GraphVariable("y"), g.GraphVariable("x"))
        yield first, Gpm("B", (STREAM,), g.FilterPattern(other, greater))


def _make_pattern(node: str, name: str, variable: str) -> g.BasicPattern:
    triple = g.Triple(g.GraphVariable(node), g.Term(iri(name)), g.GraphVariable(variable))
    return g.BasicPattern((triple,))


# ----------------------------------------------------------------- streams


def list_graph_streams(events: int) -> list[GraphStream]:
    """Return every stream of so many events.

    >>> len(list_graph_streams(2))
    72
    """
    return [
        tuple((time, _make_graph(*graph)) for time, graph in zip(times, graphs, strict=False))
        for times in _TIMES
        for graphs in product(_GRAPHS, repeat=events)
    ]


def _make_graph(names: str, value: int) -> Triples:
    return [(iri("n"), iri(name), number(value)) for name in names]


class JoinedGraphStreams(NamedTuple):
    """Streams one after the other, as one."""

    events: GraphStream
    length: int
    """Of each stream."""

    def locate(self, match: SpaseqMatch) -> tuple[int, SpaseqMatch]:
        """Return the stream of a match, and the match as that stream alone has it."""
        stream = match.events[0][1] // self.length
        shift = stream * _FAR
        events = tuple((name, row - stream * self.length) for name, row in match.events)
        return stream, match._replace(
            start=match.start - shift, end=match.end - shift, events=events
        )


def join_graph_streams(streams: list[GraphStream]) -> JoinedGraphStreams:
    """Put streams of one length one after the other, further apart than any window."""
    moved = (
        (time + i * _FAR, triples) for i, stream in enumerate(streams) for time, triples in stream
    )
    return JoinedGraphStreams(tuple(moved), len(streams[0]))
