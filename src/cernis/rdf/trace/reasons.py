"""Say in sentences what is in the way of a match of graphs: patterns, values, times, neighbours."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.graphs.write import write_expression, write_pattern_lines, write_triple
from cernis.languages.spaseq.query import SequenceStep
from cernis.pattern.write import write_duration
from cernis.rdf.reading.terms import Codes
from cernis.rdf.trace.graphs import TracedGraphs
from cernis.results.finding import Obstacle

_LONGEST = 80
_Blame = tuple[str, str]
"""A part of a pattern, and why it has no solution."""


class GraphReasons:
    """Makes obstacles for graphs of one run, by their ranks."""

    def __init__(self, graphs: TracedGraphs) -> None:
        self.graphs, self.query = graphs, graphs.plan.query

    def _list(self, ranks: list[int]) -> str:
        return " and ".join(map(self.graphs.name, ranks))

    def _value(self, code: int) -> str:
        text = self.graphs.text(code)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    # --------------------------------------------------------------- patterns

    def unsolved(self, gpm: str, rank: int) -> Obstacle:
        """Return why a graph pattern has no solution in a graph."""
        one, name = self.query.gpm(gpm), self.graphs.name(rank)
        stream = self.graphs.stream_of(rank)
        if stream not in one.streams:
            reason = f"{name} is of {stream}, {gpm} reads {', '.join(one.streams)}"
            return Obstacle("type", rank, f"{gpm} ON {', '.join(one.streams)}", reason)
        part, reason = self._blame(g.split_filters(one.pattern)[0], gpm, rank)
        return Obstacle("type", rank, f"{gpm}: {part}" if part else gpm, reason)

    def apart(self, gpms: tuple[str, ...], ranks: list[int]) -> Obstacle:
        """Return that the patterns of `&` have solutions, and none in common."""
        reason = f"their solutions in {self._list(ranks)} do not agree"
        return Obstacle("type", ranks[-1], " & ".join(gpms), reason)

    def alone(self, gpm: str, gpms: tuple[str, ...], ranks: list[int]) -> Obstacle:
        """Return that no given graph is one of the patterns of `&`."""
        reason = f"{gpm} has no solution in {self._list(ranks)}"
        return Obstacle("type", ranks[-1], " & ".join(gpms), reason)

    def _blame(self, pattern: g.GraphPattern, scope: str, rank: int) -> _Blame:
        """Return the smallest part of a pattern that has no solution, and why."""
        name = self.graphs.name(rank)
        match pattern:
            case g.FilterPattern(inner, condition):
                names, codes = self.graphs.solve(inner, rank)
                if not len(codes):
                    return self._blame(inner, scope, rank)
                mentioned = {variable.name for variable in g.find_mentions(condition)}
                values = [
                    f"?{n} is {self._value(code)}"
                    for n, code in zip(names, codes[0].tolist(), strict=True)
                    if n in mentioned
                ]
                said = " and ".join(values) or "it does not hold"
                return f"FILTER ({write_expression(condition)})", f"in {name} {said}"
            case g.BasicPattern(triples):
                for triple in triples:
                    if not self._is_solved(g.BasicPattern((triple,)), rank):
                        written = write_triple(triple, scope).removesuffix(" .")
                        return written, f"{name} has no such triple"
                return "", f"no triples of {name} fit all of its triples at once"
            case g.JoinPattern(parts):
                for part in parts:
                    if not self._is_solved(part, rank):
                        return self._blame(part, scope, rank)
                return "", f"the solutions of its parts in {name} do not agree"
            case g.OptionalPattern(inner) | g.BindPattern(inner):
                return self._blame(inner, scope, rank)
            case g.MinusPattern(inner):
                if not self._is_solved(inner, rank):
                    return self._blame(inner, scope, rank)
                return "MINUS", f"it removes every solution in {name}"
            case g.UnionPattern(parts):
                each = (self._blame(part, scope, rank) for part in parts)
                words = "; ".join(": ".join(filter(None, one)) for one in each)
                return "UNION", f"none of its parts has a solution: {words}"
            case g.BackgroundPattern(graph):
                written = f"?{graph.name}" if isinstance(graph, g.GraphVariable) else graph.text
                return f"GRAPH {written}", "the background has no solution"
            case g.ValuesPattern():
                return "VALUES", "it has no rows"
            case g.ClosurePattern() | g.UnfoldPattern():
                (line,) = write_pattern_lines(pattern, scope)
                found = "way" if isinstance(pattern, g.ClosurePattern) else "triple"
                return line.removesuffix(" ."), f"{name} has no such {found}"

    def _is_solved(self, pattern: g.GraphPattern, rank: int) -> bool:
        return bool(len(self.graphs.solve(pattern, rank)[1]))

    # ------------------------------------------------------------- conditions

    def differs(self, column: int, codes: tuple[int, int], ranks: tuple[int, int]) -> Obstacle:
        """Return that a graph has another value of a variable than an earlier one."""
        (before, now), (earlier, here) = codes, ranks
        reason = (
            f"it is {self._value(now)} in {self.graphs.name(here)}, "
            f"{self._value(before)} in {self.graphs.name(earlier)}"
        )
        return Obstacle("key", here, f"?{self.graphs.linked.columns[column]}", reason)

    def condition(
        self, condition: g.Expression, codes: Codes, sources: Codes, rank: int
    ) -> Obstacle:
        """Return why a FILTER on several graphs does not hold."""
        columns = self.graphs.linked.columns
        said = []
        for name in dict.fromkeys(variable.name for variable in g.find_mentions(condition)):
            at = columns.index(name) if name in columns else -1
            if at < 0 or codes[at] < 0:
                said.append(f"?{name} is unbound")
            else:
                where = self.graphs.name(int(sources[at]))
                said.append(f"?{name} is {self._value(int(codes[at]))} in {where}")
        text = f"FILTER ({write_expression(condition)})"
        return Obstacle("condition", rank, text, ", ".join(said) or "it does not hold")

    # ------------------------------------------------------------------ order

    def between(self, before: int, rank: int, found: list[int]) -> Obstacle:
        """Return that graphs at other timestamps stand between two neighbours."""
        one = len(found) == 1
        what = self.graphs.name(found[0]) if one else f"{len(found)} graphs"
        reason = f"{what} {'stands' if one else 'stand'} between "
        reason += f"{self.graphs.name(before)} and {self.graphs.name(rank)}"
        return Obstacle("order", rank, "',' (the next timestamp)", reason)

    def next(self, found: int, rank: int) -> Obstacle:
        reason = f"{self.graphs.name(found)} comes before {self.graphs.name(rank)} and fits"
        return Obstacle("next", rank, "';' (the first that fits)", f"{reason} as well")

    def excluded(self, step: SequenceStep, found: int, rank: int) -> Obstacle:
        return Obstacle("excluded", rank, step.write(""), f"{self.graphs.name(found)} is one")

    def missing(self, step: SequenceStep, rank: int) -> Obstacle:
        return Obstacle("missing", rank, step.write(""), f"none of the graphs is {step.element}")

    def extra(self, rank: int) -> Obstacle:
        reason = f"{self.graphs.name(rank)} has no place beside the others"
        return Obstacle("extra", rank, "SEQ", reason)

    def window(self, first: int, last: int) -> Obstacle | None:
        """Return that a match takes too long; None: it does not."""
        times, window = self.graphs.events.times, self.graphs.window
        if window.size is None or times[first] >= window.bounds(times[last : last + 1])[0]:
            return None
        clause = f"WITHIN {write_duration(Fraction(window.size))}"
        names = self.graphs.name(first), self.graphs.name(last)
        if window.origin is None:
            far = int(times[last] - times[first])
            over = write_duration(Fraction(far - window.size))
            reason = f"from {names[0]} to {names[1]} are {write_duration(Fraction(far))}"
            return Obstacle("window", last, clause, f"{reason}, {over} too long")
        reason = f"{names[0]} and {names[1]} lie in different windows"
        if times[first] < window.origin:
            reason = f"{names[0]} lies before the first window"
        return Obstacle("window", last, f"{clause} TUMBLING", reason)


def list_differences(codes: Codes, row: Codes) -> list[int]:
    """Return the columns in which bindings and a row have different values."""
    return np.flatnonzero((codes >= 0) & (row >= 0) & (codes != row)).tolist()
