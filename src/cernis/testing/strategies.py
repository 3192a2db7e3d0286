"""Hypothesis strategies for queries, streams, and both together, which shrink well.

`cases(**features)` is what most tests want: a query and a stream that asks for its
attributes. `patterns`, `streams` and `cuts` give the parts. The switches are those of
`cernis.testing.grammar.Features`:

    @given(cases(binary=True, strategies=(Strategy.NEXT, Strategy.LAST)))
    def test_the_engine_agrees_with_the_oracle(case): ...

`cernis.testing.grammar.random_case(seed)` is the same grammar without Hypothesis, for long runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

from cernis.pattern.query import Pattern
from cernis.testing.conjunctive.grammar import JoinCase, JoinFeatures, JoinGrammar
from cernis.testing.grammar import Chooser, Events, Features, QueryGrammar, RandomCase, make_cuts

T = TypeVar("T")


def cases(**features: Any) -> st.SearchStrategy[RandomCase]:
    """Draw a query and a stream for it."""
    return _draw(lambda choose: QueryGrammar(choose, Features(**features)).make_case())


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
