"""From a row pattern to an automaton whose transitions are in an order of preference.

The classical name is a *prioritized* (or Pike's) automaton. The edges of a state are a list: the
first that can still lead to a match is the preferred one. An edge reads a row as a variable, or
accepts; anchors are conditions of edges.

Construction. Each operator is built backwards, with two continuations: `empty` where the
innermost repetition around it has read no row in this round, and `full` where it has. A repetition
without an upper bound goes round from `full` only. So there is no cycle of empty moves, an empty
round ends its repetition (Perl's rule), and the empty moves can be followed once, here, instead of
at every row. The common construction with one continuation and a set of visited states gets the
order wrong where a reluctant part may be empty: `(|A)+`.

Cost: linear in the pattern with its bounded repetitions written out, except for PERMUTE, which has
a node for each set of parts, or for each order where parts can be read in several ways, and for
empty patterns under nested repetitions, which are built twice for each of these. A limit holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cernis.errors import BudgetError
from cernis.languages.sql.row_pattern import (
    RowAlternation,
    RowAnchor,
    RowExclusion,
    RowPattern,
    RowPermutation,
    RowRepetition,
    RowSequence,
    RowVariable,
    has_one_way,
    is_nullable,
)

MAX_NODES = 20_000
MAX_EDGES = 200_000
ACCEPT = -1
AT_START = 1
AT_END = 2


class RowEdge(NamedTuple):
    """Reads a row as a variable and goes to a state, or accepts."""

    variable: int
    """The number of the variable; ACCEPT."""
    excluded: bool
    target: int
    anchors: int
    """AT_START, AT_END: where in the partition the edge may be taken."""


@dataclass(frozen=True)
class RowAutomaton:
    """States with edges in the order of preference; a search begins in state 0."""

    variables: tuple[str, ...]
    edges: tuple[tuple[RowEdge, ...], ...]

    @property
    def size(self) -> int:
        """The number of edges."""
        return sum(map(len, self.edges))

    def __str__(self) -> str:
        lines = []
        for state, edges in enumerate(self.edges):
            told = [self._describe(edge) for edge in edges]
            lines.append(f"{state}: {', '.join(told) or 'nothing'}")
        return "\n".join(lines)

    def _describe(self, edge: RowEdge) -> str:
        anchors = ("^" if edge.anchors & AT_START else "") + ("$" if edge.anchors & AT_END else "")
        if edge.variable == ACCEPT:
            return f"{anchors}accept"
        return f"{anchors}{self.variables[edge.variable]}→{edge.target}"


def construct(pattern: RowPattern, variables: Sequence[str]) -> RowAutomaton:
    """Return the automaton of a pattern over variables, which are numbered as given.

    >>> from cernis.languages.sql.row_pattern import RowVariable as V
    >>> print(construct(RowSequence((RowRepetition(V("A"), 1, None), V("B"))), ["A", "B"]))
    0: A→1
    1: A→1, B→2
    2: accept
    """
    builder = _Builder({name: number for number, name in enumerate(variables)})
    accept = builder.add(_PatternNode())
    return builder.follow(builder.build(pattern, accept, accept), tuple(variables))


@dataclass
class _PatternNode:
    """A node of the pattern: reads a row (`variable`), asks for an anchor, or goes on in order."""

    variable: int = ACCEPT
    excluded: bool = False
    anchor: int = 0
    next: list[int] = field(default_factory=list)


@dataclass
class _Builder:
    numbers: dict[str, int]
    nodes: list[_PatternNode] = field(default_factory=list)
    built: dict[tuple[int, int, int, bool], int] = field(default_factory=dict)
    excluded: bool = False

    def add(self, node: _PatternNode) -> int:
        if len(self.nodes) >= MAX_NODES:
            raise BudgetError(
                f"the pattern needs more than {MAX_NODES:,} states; use smaller bounds in {{n,m}}, "
                "or fewer parts in PERMUTE"
            )
        self.nodes.append(node)
        return len(self.nodes) - 1

    def split(self, *targets: int) -> int:
        return targets[0] if len(targets) == 1 else self.add(_PatternNode(next=list(targets)))

    def build(self, pattern: RowPattern, empty: int, full: int) -> int:
        """Return the node from which a pattern is read, given where it goes on."""
        if not is_nullable(pattern):
            empty = full
        key = (id(pattern), empty, full, self.excluded)
        if key not in self.built:
            self.built[key] = self._build(pattern, empty, full)
        return self.built[key]

    def _build(self, pattern: RowPattern, empty: int, full: int) -> int:
        match pattern:
            case RowVariable(name):
                return self.add(_PatternNode(self.numbers[name], self.excluded, next=[full]))
            case RowAnchor(at_end):
                return self.add(_PatternNode(anchor=AT_END if at_end else AT_START, next=[empty]))
            case RowAlternation(parts):
                return self.split(*(self.build(part, empty, full) for part in parts))
            case RowExclusion(part):
                before, self.excluded = self.excluded, True
                node = self.build(part, empty, full)
                self.excluded = before
                return node
            case RowSequence(parts):
                for part in reversed(parts):
                    empty, full = self._pair(part, (empty, full), (full, full))
                return empty
            case RowPermutation(parts):
                return self._permute(parts, (empty, full))[0]
            case RowRepetition(part, least, most, greedy):
                return self._repeat(part, least, most, greedy, (empty, full))[0]

    def _pair(
        self, part: RowPattern, empty: tuple[int, int], full: tuple[int, int]
    ) -> tuple[int, int]:
        """Build a part for a round that has read nothing before it, and for one that has."""
        return self.build(part, *empty), self.build(part, *full)

    def _repeat(
        self, part: RowPattern, least: int, most: int | None, greedy: bool, ends: tuple[int, int]
    ) -> tuple[int, int]:
        def order(round_: int, end: int) -> int:
            return self.split(*((round_, end) if greedy else (end, round_)))

        empty, full = ends
        if most is None:
            loop = self.add(_PatternNode())
            again = self.build(part, full, loop)
            self.nodes[loop].next = [again, full] if greedy else [full, again]
            empty = loop if empty == full else order(self.build(part, empty, loop), empty)
            full = loop
        else:
            for _ in range(most - least):
                first, later = self._pair(part, (empty, full), (full, full))
                full = order(later, ends[1])
                empty = full if (first, *ends) == (later, *ends[::-1]) else order(first, ends[0])
        for _ in range(least):
            empty, full = self._pair(part, (empty, full), (full, full))
        return empty, full

    def _permute(self, parts: tuple[RowPattern, ...], ends: tuple[int, int]) -> tuple[int, int]:
        """Build the parts in any order.

        After a part that can be read in one way only, all orders of the parts that are left share
        a node. After any other part they do not: the first order, in all its ways, is preferred to
        the second.
        """
        known: dict[int, list[tuple[int, int]]] = {0: [ends]}
        for left in range(1, 1 << len(parts)):
            known[left] = []
            for i, part in enumerate(parts):
                if left >> i & 1:
                    rest = known[left & ~(1 << i)]
                    rest = [self._split_pairs(rest)] if has_one_way(part) else rest
                    known[left] += [self._pair(part, pair, (pair[1],) * 2) for pair in rest]
            if len(known[left]) > MAX_NODES:
                raise BudgetError("PERMUTE has too many parts that can be read in several ways")
        return self._split_pairs(known[(1 << len(parts)) - 1])

    def _split_pairs(self, pairs: list[tuple[int, int]]) -> tuple[int, int]:
        empty, full = (self.split(*targets) for targets in zip(*pairs, strict=True))
        return empty, full

    # ------------------------------------------------------------ empty moves

    def follow(self, start: int, variables: tuple[str, ...]) -> RowAutomaton:
        """Follow the empty moves: a state is the start, or a node after a row."""
        states = {start: 0}
        edges: list[tuple[RowEdge, ...]] = []
        size = 0
        for node in (queue := [start]):
            own = self._list_edges(node, states, queue)
            edges.append(own)
            size += len(own)
            if size > MAX_EDGES:
                raise BudgetError(
                    f"the pattern needs more than {MAX_EDGES:,} transitions; use smaller bounds in "
                    "{n,m}"
                )
        return RowAutomaton(variables, tuple(edges))

    def _list_edges(
        self, start: int, states: dict[int, int], queue: list[int]
    ) -> tuple[RowEdge, ...]:
        found: dict[RowEdge, None] = {}
        seen: set[tuple[int, int]] = set()
        stack = [(start, 0)]
        while stack:
            visit = number, anchors = stack.pop()
            if visit in seen:
                continue
            seen.add(visit)
            node = self.nodes[number]
            if node.variable != ACCEPT:
                target = node.next[0]
                if target not in states:
                    states[target] = len(states)
                    queue.append(target)
                found[RowEdge(node.variable, node.excluded, states[target], anchors)] = None
            elif not node.next:
                found[RowEdge(ACCEPT, False, 0, anchors)] = None
                if not anchors:
                    break  # nothing after it is ever preferred
            else:
                anchors |= node.anchor
                stack += [(target, anchors) for target in reversed(node.next)]
        return tuple(found)
