"""`str(query)` is SPAseQ, and parsing it gives the same query.

The generator makes random queries that pass all checks: a pattern first, then conditions over
what the pattern binds, or what an earlier step does. It draws from a seed, because thousands of
small choices are slow as strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.languages.spaseq import parse
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
from cernis.languages.spaseq.terms import RDF_TYPE, XSD, write_literal

LINKS = ",;:"
NAMES = ("A", "B", "C", "select", "a_1", "_")
STREAMS = (("S", "http://e/s"), ("on", "urn:x:é"), ("_2", "http://e/?q#f"))
IRIS = ("<http://e/p>", "<http://e/é%20?a#b>", "<urn:a:b>", RDF_TYPE)
DIGITS = ("5", "-5", "+05", "5.0", "-.5", "5e0", "1.E-3", "x", "", "5.")
KINDS = ("integer", "decimal", "double", "boolean", "string")
CHARACTERS = "a\"'\\\n\r\t\0\x7f é\u2028\uffff😀@^<?{#"
VARIABLES = ("x", "y", "z", "é", "1", "a")
MOMENTS = ("2015-01-01T00:00:00Z", "1970-01-01T00:00:00.5-01:30")


def named(pattern: g.GraphPattern) -> list[str]:
    return [name for name in g.find_variables(pattern) if not name.startswith("_:")]


class Maker:
    """Draws the parts of one query."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.one = self.random.choice

    def chance(self, parts: int) -> bool:
        return self.random.randrange(parts) == 0

    def some(self, least: int, most: int, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self.random.randint(least, most))]

    def sample(self, of: Iterable[Any], least: int = 1) -> list[Any]:
        known = list(of)
        return self.random.sample(known, self.random.randint(min(least, len(known)), len(known)))

    # ------------------------------------------------------------------ terms

    def text(self) -> str:
        return "".join(self.some(0, 4, lambda: self.one(CHARACTERS)))

    def iri(self) -> g.Term:
        return g.Term(self.one(IRIS))

    def literal(self) -> g.Term:
        match self.random.randrange(4):
            case 0:
                return g.Term(write_literal(self.text()))
            case 1:
                return g.Term(write_literal(self.text(), language=self.one(["en", "de-at"])))
            case 2:
                return g.Term(
                    write_literal(self.one(["true", "false", "1"]), datatype=XSD + "boolean")
                )
            case _:
                return g.Term(write_literal(self.one(DIGITS), datatype=XSD + self.one(KINDS)))

    def node(self, scope: str, names: Iterable[str]) -> g.Node:
        blanks = [f"_:{scope}.b0", f"_:{scope}.x.y"]
        return self.iri() if self.chance(3) else g.GraphVariable(self.one([*names, *blanks]))

    def triple(self, scope: str, names: Iterable[str]) -> g.Triple:
        shown = list(names)
        predicate = g.GraphVariable(self.one(shown)) if shown and self.chance(3) else self.iri()
        last = self.literal() if self.chance(2) else self.node(scope, shown)
        return g.Triple(self.node(scope, shown), predicate, last)

    # ------------------------------------------------------------ expressions

    def expression(self, known: list[str], depth: int = 3) -> g.Expression:
        def inner() -> g.Expression:
            return self.expression(known, depth - 1)

        match self.random.randrange(11) if depth else 0:
            case 0 | 1:
                if known and not self.chance(3):
                    return g.GraphVariable(self.one(known))
                return self.literal() if self.chance(2) else self.iri()
            case 2 | 3 as kind:
                chain = g.OrExpression if kind == 2 else g.AndExpression
                parts = [p for p in self.some(2, 4, inner) if not isinstance(p, chain)]
                return chain(tuple(parts)) if len(parts) > 1 else self.literal()
            case 4:
                return g.NotExpression(inner())
            case 5:
                return g.NegativeExpression(inner())
            case 6:
                return g.ComparisonExpression(
                    self.one(["=", "!=", "<", "<=", ">", ">="]), inner(), inner()
                )
            case 7:
                return g.InExpression(inner(), tuple(self.some(0, 2, inner)), self.chance(2))
            case 8:
                return g.ArithmeticExpression(self.one("+-*/"), inner(), inner())
            case 9:
                return g.CallExpression(self.one(["STR", f"<{XSD}integer>"]), (inner(),))
            case _:
                return g.CallExpression("REGEX", tuple(self.some(2, 3, inner)))

    # --------------------------------------------------------------- patterns

    def bare(self, scope: str, depth: int = 3) -> g.GraphPattern:
        """A pattern without conditions."""

        def inner() -> g.GraphPattern:
            return self.bare(scope, depth - 1)

        match self.random.randrange(6) if depth else 0:
            case 0 | 1:
                return g.BasicPattern(tuple(self.some(0, 3, lambda: self.triple(scope, VARIABLES))))
            case 2:
                parts = [
                    part
                    for part in self.some(2, 4, inner)
                    if not isinstance(part, g.JoinPattern) and part != g.BasicPattern(())
                ]
                return g.JoinPattern(tuple(parts)) if len(parts) > 1 else g.BasicPattern(())
            case 3:
                return g.UnionPattern(tuple(self.some(2, 3, inner)))
            case 4:
                return g.OptionalPattern(inner(), inner())
            case _:
                name = g.GraphVariable(self.one(VARIABLES)) if self.chance(2) else self.iri()
                return g.BackgroundPattern(name, inner())

    def dressed(self, pattern: g.GraphPattern, known: list[str]) -> g.GraphPattern:
        """The pattern with conditions here and there."""
        match pattern:
            case g.JoinPattern(parts):
                pattern = g.JoinPattern(tuple(self.dressed(part, known) for part in parts))
            case g.UnionPattern(parts):
                pattern = g.UnionPattern(tuple(self.dressed(part, known) for part in parts))
            case g.BackgroundPattern(name, inner):
                pattern = g.BackgroundPattern(name, self.dressed(inner, known))
            case g.OptionalPattern(inner, extra, _):
                condition = self.expression(known, 2) if self.chance(2) else None
                inner, extra = self.dressed(inner, known), self.dressed(extra, known)
                pattern = g.OptionalPattern(inner, extra, condition)
        return g.FilterPattern(pattern, self.expression(known, 2)) if self.chance(4) else pattern

    # -------------------------------------------------------------- sequences

    def element(self, names: list[str], depth: int = 2) -> Element:
        kind = self.random.randrange(4) if depth else 0
        if kind < 2:
            return GpmName(self.one(names))
        made: type[GpmConjunction] | type[GpmDisjunction] = (
            GpmConjunction if kind == 2 else GpmDisjunction
        )
        parts = self.some(2, 3, lambda: self.element(names, depth - 1))
        apart = [part for part in parts if not isinstance(part, made)]
        return made(tuple(apart)) if len(apart) > 1 else GpmName(self.one(names))

    def steps(self, names: list[str]) -> tuple[SequenceStep, ...]:
        count = self.random.randint(1, 4)
        plain = self.random.randrange(count)
        steps = []
        for number in range(count):
            edge = number in (0, count - 1)
            kind = self.one([" +", " +?", " +?!"][0 if number == plain else 1 if edge else 2])
            steps.append(
                SequenceStep(
                    self.element(names),
                    self.one(LINKS) if number else None,
                    rounds=self.one(LINKS) if kind == "+" else None,
                    optional=kind == "?",
                    negated=kind == "!",
                )
            )
        return tuple(steps)

    def select(self, bound: list[str], repeated: list[str]) -> tuple[SelectedVariable, ...] | None:
        if not bound or self.chance(4):
            return None
        found: dict[str, SelectedVariable] = {}
        for _ in range(3):
            listed = bool(repeated) and self.chance(2)
            variable = self.one(repeated if listed else bound)
            name = variable if self.chance(2) else self.one("nm")
            found[name] = SelectedVariable(variable, name, listed)
        return tuple(found.values())

    def query(self) -> SpaseqQuery:
        names = self.sample(NAMES)[:3]
        streams = self.sample(STREAMS)
        steps = self.steps(names)
        patterns = {name: self.bare(name) for name in names}
        first = steps[0].element.gpm if isinstance(steps[0].element, GpmName) else ""
        gpms = []
        for name in names:
            known = named(patterns[name])
            pattern = self.dressed(patterns[name], known)
            if not isinstance(pattern, g.FilterPattern) and self.chance(2):
                before = named(patterns[first]) if first and name != first else []
                pattern = g.FilterPattern(pattern, self.expression(known + before))
            gpms.append(Gpm(name, tuple(self.sample(stream for stream, _ in streams)), pattern))

        def of(some: Iterable[SequenceStep]) -> list[str]:
            found = (leaf.gpm for step in some for leaf in find_gpm_names(step.element))
            return list(dict.fromkeys(v for gpm in found for v in named(patterns[gpm])))

        bound = of(step for step in steps if not step.negated)
        repeated = of(step for step in steps if step.rounds is not None)
        used = {leaf.gpm for step in steps for leaf in find_gpm_names(step.element)}
        keys = set.intersection(*(g.find_certain_variables(patterns[name]) for name in used))
        within = self.random.randrange(10**15) + 1 if self.chance(2) else None
        start = self.one([None, self.random.randrange(-(10**12), 10**12), *MOMENTS])
        construct = None
        if self.chance(3):
            construct = tuple(self.some(0, 3, lambda: self.triple("", bound)))
        return SpaseqQuery(
            select=None if construct is not None else self.select(bound, repeated),
            streams=tuple(streams),
            gpms=tuple(gpms),
            steps=steps,
            within=within,
            tumbling_from=None if within is None else start,
            partition=tuple(self.sample(sorted(k for k in keys if not k.startswith("_:")), 0)),
            construct=construct,
        )


@settings(max_examples=max(53, settings.default.max_examples))
@given(st.integers(0, 2**32))
def test_parsing_what_is_written_gives_the_same_query(seed: int) -> None:
    query = Maker(seed).query()
    text = str(query)
    again = parse(text)
    assert again == query
    assert str(again) == text


def test_a_query_is_written_in_full() -> None:
    query = parse(
        """
        PREFIX : <http://e/>
        SELECT ?house (LIST(?sp) AS ?wind) WITHIN 90 MINUTES TUMBLING FROM 0
        FROM STREAM S1 :main FROM STREAM S2 :weather
        WHERE { SEQ (A; (B+;), (C & D)!, A:E?)
          DEFINE GPM A ON S1 { ?house a :House ; :pow [ :source 'fuel' ; :fare ?fr ] .
            FILTER (?fr > 20 && !(?fr IN (1, -2.5)))
            GRAPH <http://e/db> { ?house :city ?c } OPTIONAL { ?house :of ?o FILTER (?o != ?c) } }
          DEFINE GPM B ON S1, S2 { { ?w :sp ?sp } UNION { ?w :old true FILTER (?w = :w) } }
          DEFINE GPM C ON S2 { ?w :sp ?sp2 FILTER regex(str(?sp2), "^-(a|b)", "i") }
          DEFINE GPM D ON S2 { } DEFINE GPM E ON S2 { ?w :sp -5 } }
        """
    )
    assert (
        str(query)
        == """\
SELECT ?house (LIST(?sp) AS ?wind)
WITHIN 1 HOUR 30 MINUTES TUMBLING FROM 0
FROM STREAM S1 <http://e/main>
FROM STREAM S2 <http://e/weather>
WHERE {
  SEQ (A ; B+; , (C & D)! , A : E?)
  DEFINE GPM A ON S1 {
    ?house a <http://e/House> .
    ?house <http://e/pow> _:b0 .
    _:b0 <http://e/source> "fuel" .
    _:b0 <http://e/fare> ?fr .
    GRAPH <http://e/db> {
      ?house <http://e/city> ?c .
    }
    OPTIONAL {
      ?house <http://e/of> ?o .
      FILTER (?o != ?c)
    }
    FILTER (?fr > 20 && !(?fr IN (1, -2.5)))
  }
  DEFINE GPM B ON S1, S2 {
    {
      ?w <http://e/sp> ?sp .
    }
    UNION {
      ?w <http://e/old> true .
      FILTER (?w = <http://e/w>)
    }
  }
  DEFINE GPM C ON S2 {
    ?w <http://e/sp> ?sp2 .
    FILTER (REGEX(STR(?sp2), "^-(a|b)", "i"))
  }
  DEFINE GPM D ON S2 {
  }
  DEFINE GPM E ON S2 {
    ?w <http://e/sp> -5 .
  }
}"""
    )
    assert parse(str(query)) == query


def test_exists_knows_the_variables_of_other_steps_again() -> None:
    query = parse(
        "PREFIX : <http://e/> SELECT * FROM STREAM S <http://e/s> WHERE { SEQ (A ; B) "
        "DEFINE GPM A ON S { ?a :is ?k } "
        "DEFINE GPM B ON S { ?b :p ?v "
        "FILTER (?v > 3 || !EXISTS { ?b :q ?k , ?other FILTER (?other < ?a) }) } }"
    )
    _, (condition,) = g.split_filters(query.gpm("B").pattern)
    [exists] = g.find_exists(condition)
    assert [variable.name for variable in exists.shared] == ["k"]
    assert [variable.name for variable in exists.asked] == ["a"]
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    "group",
    [
        "?s :p ?v BIND (?v * 2 AS ?w) FILTER (?w > 3) MINUS { ?s :q [] }",
        "VALUES (?s ?v) { (:a 1) (UNDEF 2.5) } ?s :p ?v",
        "?s :p ?v FILTER (!EXISTS { ?s :q _:b . _:b :r ?w FILTER (?w > ?v) } || ?v = 3)",
        "?s :p/^:q/(:r|a) ?v . ?s !(:p|^:q) ?w . ?w !:r ?s",
        "?s :p (1 ?v (:x)) . () :q ?s",
        "{ ?s :p ?v } UNION { ?s !:p ?v } { ?s :q ?w BIND (1 AS ?n) } ?v :r ?s",
        "?s :p ?v BIND (IF(BOUND(?v), CONCAT(STR(?s), STR(?v)), COALESCE(?v, 1)) AS ?w)",
    ],
)
def test_elements_beyond_the_paper_are_written_and_read(group: str) -> None:
    query = parse(
        "PREFIX : <http://e/> SELECT * FROM STREAM S <http://e/s> WHERE { SEQ (A) "
        f"DEFINE GPM A ON S {{ {group} }} }}"
    )
    assert parse(str(query)) == query
