"""`str(pattern)` is CEQL, and parsing it gives the same pattern.

The strategy makes random patterns as syntax: every node, strange names, any constant;
types need not fit.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.languages.ceql import parse
from cernis.languages.text.tree import flatten_attributes
from cernis.pattern import formula as f
from cernis.pattern import predicate as q
from cernis.pattern.query import (
    Consume,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Unit,
    Variable,
    Window,
)
from cernis.pattern.selection import settle_select
from cernis.schema import Kind, Schema, Stream

names = st.one_of(
    st.sampled_from(["A", "B", "price", "x", "größe", "_1", "last", "Select", "limit", "NOT"]),
    st.text(min_size=1, max_size=4),
)
attributes = st.builds(q.Attribute, st.lists(names, min_size=1, max_size=2).map(tuple))
dotted = st.lists(names, min_size=1, max_size=2).map(".".join)
operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
literals = st.builds(
    q.Literal,
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
)


def _several(children: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[object]:
    return st.lists(children, min_size=2, max_size=most).map(tuple)


values = st.recursive(
    st.one_of(attributes, literals),
    lambda inner: st.one_of(
        st.builds(q.Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(q.Negative, inner),
    ),
    max_leaves=5,
)
predicates = st.recursive(
    st.one_of(
        st.builds(q.Comparison, operators, values, values),
        st.builds(q.Like, values, st.text(max_size=4)),
        st.builds(q.InSet, values, st.lists(literals, min_size=1, max_size=3).map(tuple)),
        st.builds(q.InRange, values, literals, literals),
        st.builds(q.IsNull, values, st.booleans()),
    ),
    lambda inner: st.one_of(
        st.builds(q.And, _several(inner)),
        st.builds(q.Or, _several(inner)),
        st.builds(q.Negation, inner),
    ),
    max_leaves=4,
)
references = st.builds(q.Reference, names, attributes)
decimals = st.builds(
    lambda digits, scale: Fraction(digits, 10**scale), st.integers(0, 10**15), st.integers(0, 12)
)
aggregates = st.one_of(
    st.builds(q.Aggregate, st.just("COUNT"), st.none() | names),
    st.builds(q.Aggregate, st.just("COUNT"), references, st.booleans()),
    st.builds(
        q.Aggregate, st.sampled_from(["SUM", "MIN", "MAX", "AVG", "FIRST", "LAST"]), references
    ),
)
terms = st.recursive(
    st.one_of(
        references,
        aggregates,
        literals,
        st.builds(q.IntervalTime, st.sampled_from(["START", "END"])),
        st.builds(q.ConstantDuration, decimals),
    ),
    lambda inner: st.one_of(
        st.builds(q.Calculation, st.sampled_from("+-*/%"), inner, inner),
        st.builds(q.Opposite, inner),
    ),
    max_leaves=4,
)
conditions = st.recursive(
    st.one_of(
        st.builds(q.Holds, names, predicates),
        st.builds(q.Compare, operators, references, references, st.booleans()),
        st.builds(q.CompareTerms, operators, terms, aggregates),
        st.builds(q.CompareTerms, operators, aggregates, terms),
        st.builds(q.Monotone, names, attributes, st.sampled_from([*q.MONOTONE.values()])),
    ),
    lambda inner: st.one_of(
        st.builds(q.AllOf, _several(inner)), st.builds(q.AnyOf, _several(inner))
    ),
    max_leaves=3,
)
events = st.builds(f.Event, names, st.none() | names)
keys = st.builds(f.KeyPart, st.none() | names, attributes)
bounds = st.integers(0, 9)
formulas = st.recursive(
    events,
    lambda inner: st.one_of(
        st.builds(f.Sequence, _several(inner)),
        st.builds(f.Contiguous, _several(inner)),
        st.builds(f.Choice, _several(inner)),
        st.builds(f.All, _several(inner)),
        st.builds(f.As, inner, names),
        st.builds(f.Not, inner),
        st.builds(f.Iterate, inner, bounds, st.none() | bounds, st.booleans()),
        st.builds(f.Optional, inner),
        st.builds(f.Filter, inner, conditions),
        st.builds(f.PartitionBy, inner, st.lists(keys, min_size=1, max_size=2).map(tuple)),
        st.builds(f.Unless, inner, inner),
    ),
    max_leaves=6,
)
selected = st.builds(SelectedTerm, terms, st.none() | names)
variables = st.builds(Variable, names, st.lists(dotted, max_size=2).map(tuple))
selects = st.one_of(
    st.just(Select()),
    st.just(Select(False)),
    st.builds(
        Select,
        st.just(False),
        st.lists(st.one_of(variables, selected), min_size=1, max_size=3).map(tuple),
    ),
)
windows = st.one_of(
    st.builds(Window, st.just(Unit.EVENTS), st.integers(0, 10**12).map(Fraction)),
    st.builds(Window, st.just(Unit.TIME), decimals),
    st.builds(Window, st.just(Unit.ATTRIBUTE), decimals, attributes),
)
_kinds = st.dictionaries(dotted, st.sampled_from(Kind), max_size=3)
streams = st.builds(
    lambda name, events, loose: Stream(name, flatten_attributes(events, loose), events),
    names,
    st.dictionaries(names, _kinds, max_size=2),
    _kinds,
)
schemas = st.lists(streams, min_size=1, max_size=2, unique_by=lambda stream: stream.name).map(
    lambda found: Schema(tuple(found))
)
patterns = st.builds(
    Pattern,
    formulas,
    select=selects,
    strategy=st.sampled_from(Strategy),
    streams=st.lists(names, max_size=2).map(tuple),
    partition=st.lists(st.lists(dotted, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    within=st.none() | windows,
    consume=st.sampled_from(Consume),
    limit=st.none() | st.integers(0, 10**6),
    declared=st.none() | schemas,
).map(settle_select)


@settings(max_examples=max(53, settings.default.max_examples))
@given(patterns)
def test_a_written_pattern_parses_to_itself(pattern: Pattern) -> None:
    text = str(pattern)
    again = parse(text)
    assert again == pattern
    assert str(again) == text
    assert hash(again) == hash(pattern)
