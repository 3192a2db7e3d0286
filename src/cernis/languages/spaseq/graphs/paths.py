"""Property paths: the patterns that they stand for, and their text.

A path of a fixed length between two nodes is triples, unions and a filter (SPARQL 1.1, 18.2.2.4). A
path with `*`, `+` or `?` is a `ClosurePattern`, which keeps the path that it repeats;
`step_pattern` is the pattern of one of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from cernis.languages.spaseq.graphs import graph as g

Statement = g.Triple | g.GraphPattern
"""A triple, or the pattern that a property path stands for."""

START, END = g.GraphVariable("_:path start"), g.GraphVariable("_:path end")
"""The ends of a step. No text has such names."""


def follow_path(
    subject: g.Node, path: g.Path, object_: g.Node, make_blank: Callable[[], g.GraphVariable]
) -> list[Statement]:
    """Return the triples and patterns of a path between two nodes."""
    match path:
        case g.InversePath(inner):
            return follow_path(object_, inner, subject, make_blank)
        case g.PathChain(steps):
            nodes = [subject, *(make_blank() for _ in steps[1:]), object_]
            return [
                one
                for i, step in enumerate(steps)
                for one in follow_path(nodes[i], step, nodes[i + 1], make_blank)
            ]
        case g.PathChoice(paths):
            ways = (follow_path(subject, one, object_, make_blank) for one in paths)
            return [g.UnionPattern(tuple(map(join_statements, ways)))]
        case g.NegatedPath(forwards, backwards):
            sides = [(subject, object_, forwards)] if forwards or not backwards else []
            sides += [(object_, subject, backwards)] if backwards else []
            found = tuple(_avoid(*side, make_blank()) for side in sides)
            return [found[0] if len(found) == 1 else g.UnionPattern(found)]
        case g.RepeatedPath():
            return [g.ClosurePattern(subject, path, object_)]
    return [g.Triple(subject, path, object_)]


def _avoid(
    subject: g.Node, object_: g.Node, predicates: tuple[g.Term, ...], predicate: g.GraphVariable
) -> g.GraphPattern:
    """Return the pattern of a triple whose predicate is none of these."""
    triple = g.BasicPattern((g.Triple(subject, predicate, object_),))
    return g.FilterPattern(triple, g.InExpression(predicate, predicates, negated=True))


def step_pattern(path: g.RepeatedPath) -> g.GraphPattern:
    """Return the pattern of one step of a path, between START and END."""
    numbers = count()
    ways = follow_path(START, path.path, END, lambda: g.GraphVariable(f"_:path {next(numbers)}"))
    return join_statements(ways)


def join_patterns(left: g.GraphPattern, right: g.GraphPattern) -> g.GraphPattern:
    """Return the join of two patterns, flat, and without empty ones."""
    empty = g.BasicPattern(())
    if left == empty or right == empty:
        return right if left == empty else left
    parts: list[g.GraphPattern] = []
    for side in (left, right):
        parts += side.parts if isinstance(side, g.JoinPattern) else (side,)
    return g.JoinPattern(tuple(parts))


def join_statements(statements: Iterable[Statement]) -> g.GraphPattern:
    """Return the pattern of triples, one after the other, and of paths among them."""
    pattern: g.GraphPattern = g.BasicPattern(())
    triples: list[g.Triple] = []
    for one in statements:
        if isinstance(one, g.Triple):
            triples.append(one)
        else:
            pattern = join_patterns(pattern, g.BasicPattern(tuple(triples)))
            pattern, triples = join_patterns(pattern, one), []
    return join_patterns(pattern, g.BasicPattern(tuple(triples)))
