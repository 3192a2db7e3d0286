"""Hypothesis strategies for queries, streams, and both together, which shrink well.

`cases(**features)` is what most tests want: a query and a stream that asks for its
attributes. `patterns`, `streams` and `cuts` give the parts. The switches are those of
`cernis.testing.grammar.Features`:

    @given(cases(binary=True, strategies=(Strategy.NEXT, Strategy.LAST)))
    def test_the_engine_agrees_with_the_oracle(case): ...

`random_case(seed)` is the same grammar without Hypothesis, for long runs.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from cernis.pattern.query import Pattern
from cernis.testing import grammar
from cernis.testing.conjunctive import grammar as join_grammar
from cernis.testing.conjunctive.grammar import JoinCase, JoinFeatures
from cernis.testing.grammar import Chooser, Events, Features, RandomCase, random_case, split_batches

__all__ = [
    "Features",
    "cases",
    "cuts",
    "joins",
    "patterns",
    "random_case",
    "split_batches",
    "streams",
]


def _chooser(draw: st.DrawFn) -> Chooser:
    return lambda below: draw(st.integers(0, below - 1))


def cases(**features: Any) -> st.SearchStrategy[RandomCase]:
    """Draw a query and a stream for it."""
    switched = Features(**features)

    @st.composite
    def make(draw: st.DrawFn) -> RandomCase:
        return grammar.make_case(_chooser(draw), switched)

    return make()


def patterns(**features: Any) -> st.SearchStrategy[Pattern]:
    """Draw a well-formed query."""
    switched = Features(**features)

    @st.composite
    def make(draw: st.DrawFn) -> Pattern:
        return grammar.make_pattern(_chooser(draw), switched)

    return make()


def streams(for_: Pattern | None = None, **features: Any) -> st.SearchStrategy[Events]:
    """Draw a stream with every attribute, or those of a query."""
    switched = Features(**features)

    @st.composite
    def make(draw: st.DrawFn) -> Events:
        return grammar.make_events(_chooser(draw), switched, for_)

    return make()


def joins(**features: Any) -> st.SearchStrategy[JoinCase]:
    """Draw the text of a conjunctive query and a stream; switches of `JoinFeatures`."""
    switched = JoinFeatures(**features)

    @st.composite
    def make(draw: st.DrawFn) -> JoinCase:
        return join_grammar.make_join(_chooser(draw), switched)

    return make()


@st.composite
def cuts(draw: st.DrawFn, length: int) -> list[int]:
    """Draw where to split a stream of this length; see `grammar.split_batches`."""
    return grammar.make_cuts(_chooser(draw), length)
