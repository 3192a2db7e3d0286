"""Hypothesis strategies for queries, streams, and both together, which shrink well.

`cases(**features)` is what most tests want: a query and a stream that asks for its
attributes. `grouped_cases` is the same with GROUP BY. `patterns`, `streams` and `cuts` give the
parts; `bounded_patterns` changes a query, `ordered_cases` has ORDER BY, `suppressed_cases` SUPPRESS
BY, `guarded_cases` UNLESS around the formula. The switches are those of
`tools.cases.grammar.Features`:

    @given(cases(binary=True, strategies=(Strategy.NEXT, Strategy.LAST)))
    def test_the_engine_agrees_with_the_oracle(case): ...

`tools.cases.grammar.random_case(seed)` is the same grammar without Hypothesis, for long runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from cernis.languages.ceql import parse
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import (
    Consume,
    Grouping,
    OrderBy,
    Overall,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Suppression,
    Variable,
)
from cernis.pattern.variables import marked_variables, starred_variables
from tools.cases.conjunctive import JoinCase, JoinFeatures, JoinGrammar
from tools.cases.crossings import make_crossing_events, make_crossing_query
from tools.cases.far import (
    FAR,
    make_clause_query,
    make_far_events,
)
from tools.cases.grammar import Chooser, Events, Features, QueryGrammar, RandomCase, make_cuts
from tools.cases.guards import make_guarded_events, make_guarded_query
from tools.cases.terms import make_term

T = TypeVar("T")

VERSIONS: Final[Mapping[str, Any]] = {
    "consume": (Consume.NONE,), "selects": ("*",), "limit": False, "nan": False, "untimed": False,
    "gaps": True, "next_": True, "binary": True, "terms": True, "partition_by_inside": True,
}  # fmt: skip
"""Features of queries whose changed versions are counted and compared."""

_AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG")


def cases(**features: Any) -> st.SearchStrategy[RandomCase]:
    """Draw a query and a stream for it."""
    return _draw(lambda choose: QueryGrammar(choose, Features(**features)).make_case())


@st.composite
def bounded_patterns(draw: st.DrawFn, pattern: Pattern) -> Pattern:
    """Draw a version that keeps all matches in which a variable is within a bound."""
    names = marked_variables(pattern.formula)
    if not names:
        return pattern
    value = pred.Attribute((draw(st.sampled_from("ab")),))
    ops: list[pred.Operator] = ["<", "<=", ">", ">="]
    op = draw(st.sampled_from(ops))
    bound = pred.Comparison(op, value, pred.Literal(draw(st.integers(0, 3))))
    formula = cel.Filter(pattern.formula, pred.Holds(draw(st.sampled_from(names)), bound))
    return replace(pattern, select=Select(), formula=formula, strategy=Strategy.ALL)


@st.composite
def grouped_cases(draw: st.DrawFn, /, **features: Any) -> RandomCase:
    """Draw a query with GROUP BY over a random pattern, and a stream for it."""
    pattern, events = draw(
        cases(consume=(Consume.NONE,), limit=False, nan=False, untimed=False, **features)
    )
    names = marked_variables(pattern.formula)

    def draw_aggregate() -> pred.Aggregate:
        function = draw(st.sampled_from([*_AGGREGATES, "DISTINCT", "*", "x"]))
        if function == "*" or not names:
            return pred.Aggregate("COUNT")
        name = draw(st.sampled_from(names))
        if function == "x":
            return pred.Aggregate("COUNT", name)
        reference = pred.Reference(name, pred.Attribute((draw(st.sampled_from("ab")),)))
        if function == "DISTINCT":
            return pred.Aggregate("COUNT", reference, distinct=True)
        return pred.Aggregate(function, reference)

    terms = [draw_aggregate() for _ in range(draw(st.integers(1, 3)))]
    items = tuple(SelectedTerm(term, f"v{i}") for i, term in enumerate(terms))
    having = None
    if draw(st.booleans()):
        limit = pred.Literal(draw(st.integers(0, 3)))
        having = pred.CompareTerms(draw(st.sampled_from(["<", ">=", "!="])), terms[0], limit)
    components = tuple(name for name in pattern.components if draw(st.booleans()))
    every = draw(st.sampled_from([None, 1, 2, 5]))
    end = every is None and (not components or draw(st.booleans()))
    size = None if every is None else Fraction(every * 1_000_000)
    of_start = every is not None and draw(st.booleans())
    grouping = Grouping(components, size, end, having, of_start)
    return replace(pattern, select=Select(False, items), grouping=grouping), events


@st.composite
def ordered_cases(
    draw: st.DrawFn, /, every: bool = False, overall: bool = False, **features: Any
) -> RandomCase:
    """Draw a query with ORDER BY, whose value is the column `v`, and a stream for it."""
    pattern, events = draw(cases(**{"limit": False, "selects": ("*",), **features}))

    def choose(below: int) -> int:
        return draw(st.integers(0, below - 1))

    term = make_term(choose, pattern.formula, choose(3))
    if not any(
        isinstance(part, pred.Reference | pred.Aggregate | pred.IntervalTime)
        for part in pred.walk_term(term)
    ):
        term = pred.IntervalTime("START")
    names = map(Variable, starred_variables(pattern.formula))
    select = Select(False, (*names, SelectedTerm(term, "v")))
    size = Fraction((1 + choose(4)) * 1_000_000) if every else None
    scopes = [Overall.INPUT, *([Overall.PARTITION] if pattern.partition else [])]
    scope = draw(st.sampled_from(scopes)) if overall else None
    order = OrderBy(term, draw(st.booleans()), size, scope)
    limit = choose(4) if every or overall or choose(4) else None
    return replace(pattern, select=select, order=order, limit=limit), events


@st.composite
def guarded_cases(draw: st.DrawFn, /, *, after: bool = True) -> RandomCase:
    """Draw a query with UNLESS around its formula, and a stream for it."""
    random = draw(st.randoms(use_true_random=False))
    return parse(make_guarded_query(random, after=after)), make_guarded_events(random)


@st.composite
def crossing_cases(draw: st.DrawFn, /, *, after: bool = True) -> RandomCase:
    """Draw a query that compares events across others, and a stream for it."""
    random = draw(st.randoms(use_true_random=False))
    make_query = random.choice((make_crossing_query, *FAR))
    text = make_query(random, after=after)
    is_crossing = make_query is make_crossing_query
    events = make_crossing_events(random) if is_crossing else make_far_events(random, text)
    return parse(text), events


@st.composite
def far_clause_cases(draw: st.DrawFn, /) -> RandomCase:
    """Draw a query with another clause around comparisons of far events, and a stream for it."""
    random = draw(st.randoms(use_true_random=False))
    text = make_clause_query(random)
    return parse(text), make_far_events(random, text)


@st.composite
def suppressed_cases(draw: st.DrawFn, /, **features: Any) -> RandomCase:
    """Draw a query with SUPPRESS BY components of its partition or a value, and a stream for it."""
    wanted = {"selects": ("*",), "untimed": False, "partition": True, **features}
    pattern, events = draw(cases(**wanted))

    def choose(below: int) -> int:
        return draw(st.integers(0, below - 1))

    names = [name for name in dict.fromkeys(pattern.components) if choose(3)]
    select = pattern.select
    if not names or not choose(3):
        names.append("v")
        shown = map(Variable, starred_variables(pattern.formula))
        term = make_term(choose, pattern.formula, choose(2))
        select = Select(False, (*shown, SelectedTerm(term, "v")))
    suppress = Suppression(tuple(names), Fraction((1 + choose(8)) * 500_000))
    return replace(pattern, select=select, suppress=suppress), events


def patterns(**features: Any) -> st.SearchStrategy[Pattern]:
    """Draw a well-formed query."""
    return _draw(lambda choose: QueryGrammar(choose, Features(**features)).make_pattern())


def streams(for_: Pattern | None = None, **features: Any) -> st.SearchStrategy[Events]:
    """Draw a stream with every attribute, or those of a query."""
    return _draw(lambda choose: QueryGrammar(choose, Features(**features)).make_events(for_))


def joins(**features: Any) -> st.SearchStrategy[JoinCase]:
    """Draw the text of a conjunctive query and a stream; switches of `JoinFeatures`."""
    return _draw(lambda choose: JoinGrammar(choose, JoinFeatures(**features)).make_case())


def cuts(length: int) -> st.SearchStrategy[list[int]]:
    """Draw where to split a stream of this length; see `grammar.split_batches`."""
    return _draw(lambda choose: make_cuts(choose, length))


def _draw(make: Callable[[Chooser], T]) -> st.SearchStrategy[T]:
    @st.composite
    def drawn(draw: st.DrawFn) -> T:
        return make(lambda below: draw(st.integers(0, below - 1)))

    return drawn()
