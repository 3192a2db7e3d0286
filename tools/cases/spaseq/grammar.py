"""Random SPAseQ queries and streamsets, small enough for the oracle.

Events hold one or two nodes with a key, a number and sometimes a further key; patterns ask for
them under few names, so that steps share variables by chance. Every operator, separator and
clause turns up; conditions compare numbers with those of earlier steps.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

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

EXAMPLE = "http://example.org/"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
STREAMS = ("S1", "S2")
GRAPH = f"<{EXAMPLE}kb>"
_KEYS, _NUMBERS, _MORE = ("x", "y"), ("a", "b", "c"), ("x", "y", "z")


def iri(name: str) -> str:
    return f"<{EXAMPLE}{name}>"


def number(value: int) -> str:
    return f'"{value}"^^<{INTEGER}>'


# ------------------------------------------------------------------- streams


def random_streams(random: Random, events: int) -> dict[str, list[tuple[int, Triples]]]:
    """Make streams with events at times that sometimes coincide."""
    streams: dict[str, list[tuple[int, Triples]]] = {name: [] for name in STREAMS}
    time = 0
    for _ in range(events):
        time += random.choice((0, 1, 1, 2))
        streams[random.choice(STREAMS)].append((time, random_graph(random)))
    return streams


def random_graph(random: Random) -> list[tuple[str, str, str]]:
    triples = []
    for node in range(random.choice((1, 1, 1, 2))):
        name = iri(f"n{node}")
        triples.append((name, iri("k"), iri(f"k{random.randrange(2)}")))
        triples.append((name, iri("v"), random_value(random)))
        if random.random() < 0.4:
            triples.append((name, iri("w"), iri(f"k{random.randrange(2)}")))
    return triples


def random_value(random: Random) -> str:
    """Make a small integer, seldom a decimal or a text."""
    value, kind = random.randrange(4), random.random()
    if kind < 0.85:
        return number(value)
    if kind < 0.97:
        return f'"{value}.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    return f'"{value}"'


def random_background(random: Random) -> dict[str, list[tuple[str, str, str]]]:
    known = [
        (iri(f"k{i}"), iri("near"), iri(f"k{j}"))
        for i in range(2)
        for j in range(2)
        if random.random() < 0.6
    ]
    return {GRAPH: known}


# ------------------------------------------------------------------- queries


def random_query(random: Random) -> SpaseqQuery:
    """Make a query that passes the checks of the language."""
    if random.random() < 0.2:
        return random_rounds(random)
    partition = random.random() < 0.15
    gpms = [_make_gpm(random, name, partition) for name in "ABCD"]
    steps = _make_steps(random)
    used = {leaf.gpm for step in steps for leaf in find_gpm_names(step.element)}
    gpms = [_add_condition(random, gpm, gpms, steps) for gpm in gpms if gpm.name in used]
    query = SpaseqQuery(
        None,
        tuple((name, f"{EXAMPLE}{name}") for name in STREAMS),
        tuple(gpms),
        steps,
        within=random.choice((None, 3, 6)),
        partition=("x",) if partition else (),
    )
    return replace(_add_select(random, query), distinct=random.random() < 0.08)


def random_rounds(random: Random) -> SpaseqQuery:
    """Make a query in which rounds, or the step that ends them, compare a value of an earlier step.

    >>> str(random_rounds(Random(5))).count("B+")
    1
    """
    link, key = random.choice(",;:"), random.random() < 0.8
    gpms, steps = [_make_priced(random, "A", key)], [SequenceStep(GpmName("A"), None)]
    if random.random() < 0.5:
        gpms.append(_make_priced(random, "B", key, _compare_first(random, "b")))
        steps.append(SequenceStep(GpmName("B"), link, rounds=link))
        if random.random() < 0.6:
            op = random.choice(("<", "<=", ">", "!="))
            last = g.ComparisonExpression(op, g.GraphVariable("c"), g.GraphVariable("b"))
            gpms.append(_make_priced(random, "C", key, last if random.random() < 0.6 else None))
            steps.append(SequenceStep(GpmName("C"), random.choice(",;:")))
    else:
        gpms.append(_make_priced(random, "B", key))
        gpms.append(_make_priced(random, "C", key, _compare_first(random, "c")))
        steps.append(SequenceStep(GpmName("B"), link, rounds=random.choice((link, link, None))))
        steps.append(SequenceStep(GpmName("C"), random.choice(",;:")))
    if random.random() < 0.3:
        gpms.append(_make_priced(random, "D", key))
        steps[0] = replace(steps[0], link=random.choice(",;:"))
        steps.insert(0, SequenceStep(GpmName("D"), None))
    query = SpaseqQuery(
        None,
        tuple((name, f"{EXAMPLE}{name}") for name in STREAMS),
        tuple(gpms),
        tuple(steps),
        within=random.choice((None, 4, 8)),
        partition=("x",) if key and random.random() < 0.1 else (),
    )
    return replace(_add_select(random, query), distinct=random.random() < 0.05)


def _compare_first(random: Random, name: str) -> g.Expression:
    """Return a condition that compares a number with the number of A."""
    value: g.Expression = g.GraphVariable(name)
    if random.random() < 0.3:
        offset = g.Term(number(random.randrange(3)))
        value = g.ArithmeticExpression(random.choice("+*"), value, offset)
    sides = [value, g.GraphVariable("a")]
    random.shuffle(sides)
    return g.ComparisonExpression(random.choice(("<", "<=", ">", ">=")), *sides)


def _make_priced(
    random: Random, name: str, key: bool, condition: g.Expression | None = None
) -> Gpm:
    """Make a pattern of a number that has the pattern's name, mostly with a key."""
    node = g.GraphVariable("_:" + name)
    triples = [_make_triple(node, "v", name.lower())]
    if key or random.random() < 0.3:
        triples.append(_make_triple(node, "k", "x"))
    pattern: g.GraphPattern = g.BasicPattern(tuple(triples))
    if condition is not None:
        pattern = g.FilterPattern(pattern, condition)
    streams = STREAMS if random.random() < 0.5 else (random.choice(STREAMS),)
    return Gpm(name, streams, pattern)


def _make_steps(random: Random) -> tuple[SequenceStep, ...]:
    names = list("ABCD")
    random.shuffle(names)
    count = random.choice((1, 2, 2, 3, 3, 4))
    steps: list[SequenceStep] = []
    for place in range(count):
        element = _make_element(random, names)
        link = random.choice(",;:") if place else None
        steps.append(SequenceStep(element, link))
    for place, step in enumerate(steps):
        kind = random.random()
        inner = 0 < place < count - 1
        if kind < 0.25:
            default = "," if count > 1 else ";"
            rounds = random.choice((default, ";", ":"))
            steps[place] = replace(step, rounds=rounds)
        elif kind < 0.4:
            steps[place] = replace(step, optional=True)
        elif kind < 0.55 and inner:
            steps[place] = replace(step, negated=True)
    if all(step.optional or step.negated for step in steps):
        steps[0] = replace(steps[0], optional=False)
    for place in range(1, count):
        if steps[place].negated and steps[place - 1].negated:
            steps[place] = replace(steps[place], negated=False)
    return tuple(steps)


def _make_element(random: Random, names: list[str]) -> Element:
    kind = random.random()
    first = GpmName(random.choice(names))
    if kind < 0.7:
        return first
    second = GpmName(random.choice([name for name in names if name != first.gpm]))
    return GpmConjunction((first, second)) if kind < 0.85 else GpmDisjunction((first, second))


def _make_gpm(random: Random, name: str, partition: bool) -> Gpm:
    node = g.GraphVariable("_:" + name) if random.random() < 0.8 else g.GraphVariable("e")
    key = "x" if partition else random.choice(_KEYS)
    numeral = random.choice(_NUMBERS)
    triples = (_make_triple(node, "k", key), _make_triple(node, "v", numeral))
    pattern: g.GraphPattern = g.BasicPattern(triples)
    kind = random.random()
    further = g.BasicPattern((_make_triple(node, "w", random.choice(_MORE)),))
    if kind < 0.15:
        pattern = g.OptionalPattern(pattern, further)
    elif kind < 0.25:
        pattern = g.JoinPattern((pattern, further))
    elif kind < 0.32 and not partition:
        pattern = g.UnionPattern((pattern, further))
    elif kind < 0.4:
        near = g.BasicPattern((_make_triple(g.GraphVariable(key), "near", "n"),))
        pattern = g.JoinPattern((pattern, g.BackgroundPattern(g.Term(GRAPH), near)))
    if random.random() < 0.3:
        op, limit = random.choice(("<", ">", "!=")), g.Term(number(random.randrange(4)))
        few = g.ComparisonExpression(op, g.GraphVariable(numeral), limit)
        pattern = g.FilterPattern(pattern, few)
    pattern = _add_element(random, pattern, g.GraphVariable(key), g.GraphVariable(numeral))
    streams = STREAMS if random.random() < 0.15 else (random.choice(STREAMS),)
    return Gpm(name, streams, pattern)


def _add_element(
    random: Random, pattern: g.GraphPattern, key: g.GraphVariable, numeral: g.GraphVariable
) -> g.GraphPattern:
    """Sometimes add an element that the paper does not have."""
    kind = random.random()
    other = g.BasicPattern((g.Triple(g.GraphVariable("o"), g.Term(iri("w")), key),))
    if kind < 0.02:
        return g.MinusPattern(pattern, other)
    if kind < 0.04:
        return g.FilterPattern(pattern, g.NotExpression(g.ExistsExpression(other)))
    if kind < 0.06:
        fewer = g.ComparisonExpression("<", g.GraphVariable("o"), numeral)
        other = g.BasicPattern((g.Triple(key, g.Term(iri("v")), g.GraphVariable("o")),))
        return g.FilterPattern(pattern, g.ExistsExpression(other, fewer))
    if kind < 0.1:
        double = g.ArithmeticExpression("*", numeral, g.Term(number(2)))
        return g.BindPattern(pattern, g.GraphVariable("twice"), double)
    if kind < 0.12:
        rows = ((g.Term(iri("k0")), None), (None, g.Term(number(1))))
        return g.JoinPattern((pattern, g.ValuesPattern((key, numeral), rows)))
    if kind < 0.16:
        step = g.PathChoice((g.Term(iri("w")), g.InversePath(g.Term(iri("k")))))
        # a way of no step from an unbound node may begin at the event's own, which files have
        signs = "*+?" if key.name in g.find_certain_variables(pattern) else "+"
        way = g.RepeatedPath(step, random.choice(signs))
        return g.JoinPattern((pattern, g.ClosurePattern(key, way, g.GraphVariable("far"))))
    return pattern


def _make_triple(node: g.GraphVariable, name: str, variable: str) -> g.Triple:
    return g.Triple(node, g.Term(iri(name)), g.GraphVariable(variable))


def _add_condition(
    random: Random, gpm: Gpm, gpms: list[Gpm], steps: tuple[SequenceStep, ...]
) -> Gpm:
    """Sometimes add a condition on a number that earlier steps bind at every use of the pattern."""
    if random.random() < 0.5:
        return gpm
    patterns = {one.name: one.pattern for one in gpms}
    known: set[str] | None = None
    for place, step in enumerate(steps):
        if gpm.name in {leaf.gpm for leaf in find_gpm_names(step.element)}:
            before = {
                name
                for earlier in steps[:place]
                if not earlier.negated
                for leaf in find_gpm_names(earlier.element)
                for name in g.find_variables(patterns[leaf.gpm])
            }
            known = before if known is None else known & before
    own = [name for name in _NUMBERS if name in g.find_variables(gpm.pattern)]
    others = sorted((known or set()) & set(_NUMBERS) - set(own))
    if not others or not own:
        return gpm
    if len(others) > 1 and random.random() < 0.2:
        own.append(others.pop(random.randrange(len(others))))
        triple = _make_triple(g.GraphVariable("e4"), random.choice("vw"), own[-1])
        gpm = replace(gpm, pattern=g.OptionalPattern(gpm.pattern, g.BasicPattern((triple,))))
    left: g.Expression = g.GraphVariable(random.choice(own))
    right: g.Expression = g.GraphVariable(random.choice(others))
    if random.random() < 0.3:
        right = g.ArithmeticExpression(random.choice("+*"), right, g.Term(number(2)))
    op = random.choice(("<", "<=", ">", "=", "!="))
    condition: g.Expression = g.ComparisonExpression(op, left, right)
    if random.random() < 0.25:
        uses = [leaf.gpm for step in steps for leaf in find_gpm_names(step.element)]
        condition = _make_late_function(random, own, others, uses.count(gpm.name) == 1)
    if random.random() < 0.2:
        bound = g.CallExpression("BOUND", (g.GraphVariable(others[0]),))
        condition = g.OrExpression((condition, g.NotExpression(bound)))
    return replace(gpm, pattern=g.FilterPattern(gpm.pattern, condition))


def _make_late_function(
    random: Random, own: list[str], others: list[str], is_single: bool
) -> g.Expression:
    """Make a condition with a function of several variables, of the pattern alone or of two.

    EXISTS is for patterns of a single step.
    """

    def text(name: str) -> g.Expression:
        return g.CallExpression("STR", (g.GraphVariable(name),))

    mine, other = text(random.choice(own)), text(random.choice(others))
    op = random.choice(("<", "=", "!=", ">="))
    kind = random.random()
    if kind < 0.5:
        limit = g.Term(f'"{random.randrange(4)}{random.randrange(4)}"')
        return g.ComparisonExpression(op, g.CallExpression("CONCAT", (mine, other)), limit)
    if kind < 0.7:
        twice = g.CallExpression("CONCAT", (mine, text(own[-1])))
        return g.ComparisonExpression(op, twice, g.CallExpression("CONCAT", (other, other)))
    if kind < 0.85:
        both = g.CallExpression("STRLEN", (g.CallExpression("CONCAT", (other, mine)),))
        return g.ComparisonExpression(op, both, g.GraphVariable(random.choice(own)))
    if kind < 0.95 and is_single:
        exists = _make_late_exists(random, own, others)
        return g.NotExpression(exists) if random.random() < 0.5 else exists
    double = g.ArithmeticExpression("*", g.GraphVariable(own[0]), g.Term(number(2)))
    datatype = g.CallExpression("DATATYPE", (double,))
    same = g.ComparisonExpression("=", datatype, g.Term(f"<{INTEGER}>"))
    return g.AndExpression((same, g.ComparisonExpression("<", mine, other)))


def _make_late_exists(random: Random, own: list[str], others: list[str]) -> g.Expression:
    """Make EXISTS with a variable of another step: in its triples, in its FILTER, or in both."""
    inner, other = g.GraphVariable("e2"), g.GraphVariable(random.choice(others))
    in_triples, in_filter = random.choice(((True, False), (False, True), (True, True)))
    node, link = (g.Term(iri(word)) for word in (random.choice("vw"), random.choice("vw")))
    pattern: g.GraphPattern = g.BasicPattern((g.Triple(g.GraphVariable("e1"), node, inner),))
    if in_triples:
        more = g.BasicPattern((g.Triple(g.GraphVariable("e1"), link, other),))
        pattern = random.choice((g.OptionalPattern(pattern, more), g.JoinPattern((pattern, more))))
    if random.random() < 0.3:  # a variable that the pattern around may leave unbound
        mine = g.GraphVariable(random.choice(own))
        more = g.BasicPattern((g.Triple(g.GraphVariable("e3"), link, mine),))
        pattern = g.JoinPattern((pattern, more))
    condition: g.Expression | None = None
    if in_filter:
        compared = g.GraphVariable(random.choice(others))
        op = random.choice(("<", ">=", "=", "!="))
        condition = g.ComparisonExpression(op, random.choice((inner, inner, other)), compared)
        if random.random() < 0.3:
            limited = g.ComparisonExpression(op, inner, g.GraphVariable(random.choice(own)))
            condition = random.choice((g.AndExpression, g.OrExpression))((condition, limited))
        if random.random() < 0.2:
            bound = g.CallExpression("BOUND", (compared,))
            condition = g.OrExpression((condition, g.NotExpression(bound)))
    mentioned = {one.name for one in g.find_mentions(condition)} if condition else set[str]()
    asked = sorted(mentioned.intersection(others).difference(g.find_variables(pattern)))
    shared = (other,) if in_triples else ()
    return g.ExistsExpression(
        pattern, condition, shared=shared, asked=tuple(map(g.GraphVariable, asked))
    )


def _add_select(random: Random, query: SpaseqQuery) -> SpaseqQuery:
    if random.random() < 0.5:
        return query
    patterns = {gpm.name: gpm.pattern for gpm in query.gpms}
    bound = {
        name: step
        for step in query.steps
        if not step.negated
        for leaf in find_gpm_names(step.element)
        for name in g.find_variables(patterns[leaf.gpm])
        if not name.startswith("_:")
    }
    chosen = random.sample(sorted(bound), min(2, len(bound)))
    select = [SelectedVariable(name, name) for name in chosen]
    rounds = sorted(name for name, step in bound.items() if step.rounds)
    if rounds and random.random() < 0.5:
        select.append(SelectedVariable(random.choice(rounds), "list", listed=True))
    return replace(query, select=tuple(select))
