"""Patterns: the algebra that every language lowers to, and a builder for it.

`import cernis.pattern as p` gives the builder (`p.event`, `p.seq`, `p.select`, …) and the
parts of a `Pattern`. The nodes themselves are in `cernis.pattern.formula` and
`cernis.pattern.predicate`.

>>> import cernis.pattern as p
>>> a, b = p.var("a"), p.var("b")
>>> rise = (p.event("BUY").as_("a") >> p.event("BUY").as_("b")).filter(a["price"] < b["price"])
>>> print(p.select("a", "b", strategy="NEXT").from_("S").where(rise).within(events=10).build())
SELECT NEXT a, b FROM S WHERE (BUY AS a ; BUY AS b) FILTER a[price] < b[price] WITHIN 10 EVENTS
"""

from __future__ import annotations

from cernis.pattern import formula, predicate
from cernis.pattern.builder.conditions import (
    END,
    START,
    aggregate,
    call,
    count,
    if_,
    prev,
    var,
)
from cernis.pattern.builder.durations import gap
from cernis.pattern.builder.formulas import all_of, either, event, follow, no, seq, then
from cernis.pattern.builder.predicates import any_element, attr, const
from cernis.pattern.builder.queries import select, select_none
from cernis.pattern.predicate import Aggregate
from cernis.pattern.query import (
    Consume,
    OrderBy,
    Overall,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Suppression,
    Unit,
    Variable,
    Window,
)

__all__ = [
    "END",
    "START",
    "Aggregate",
    "Consume",
    "OrderBy",
    "Overall",
    "Pattern",
    "Select",
    "SelectedTerm",
    "Strategy",
    "Suppression",
    "Unit",
    "Variable",
    "Window",
    "aggregate",
    "all_of",
    "any_element",
    "attr",
    "call",
    "const",
    "count",
    "either",
    "event",
    "follow",
    "formula",
    "gap",
    "if_",
    "no",
    "predicate",
    "prev",
    "select",
    "select_none",
    "seq",
    "then",
    "var",
]


def __dir__() -> list[str]:
    return list(__all__)
