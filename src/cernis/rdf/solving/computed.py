"""Values of expressions in SELECT, for blocks of matches: `((?y - ?x) AS ?d)`, `(AVG(?v) AS ?m)`.

An aggregate goes over the values that `LIST` would have: one for each round or step that binds the
variable. Over no values COUNT, SUM and AVG are 0, and MIN and MAX are errors. Numbers are those of
filters; MIN and MAX compare numbers, dates or strings, and are errors for a mixture.

Cost: a few passes over the values of a block, in NumPy; texts are made once per distinct value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import find_aggregates
from cernis.languages.spaseq.terms import XSD, write_literal
from cernis.rdf.reading.events import Int64s
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.solving.columns import extend_table, plan_column, replace_parts
from cernis.rdf.solving.solutions import Solutions
from cernis.rdf.solving.terms.functions import write_exact
from cernis.rdf.solving.terms.values import TermValues

Lists = tuple[Int64s, Int64s]
"""The values of a variable in each match: offsets, and codes."""


def check_expression(expression: g.Expression, source: str) -> None:
    """Raise QueryError if an expression cannot be computed."""
    hidden = {id(call): g.GraphVariable("_:aggregate") for call in find_aggregates(expression)}
    plan_column(replace_parts(expression, hidden), (), TermValues(Terms()), source)


def compute_texts(
    expression: g.Expression,
    singles: Mapping[str, Int64s],
    lists: Mapping[str, Lists],
    look_up: Callable[[Int64s], pa.Array],
    rows: int,
) -> pa.Array:
    """Return the value of an expression for each of so many matches; null for an error.

    `singles` has the last value of each variable, `lists` all values of those that are aggregated;
    `look_up` gives the texts of codes.
    """
    values = TermValues(Terms())
    every = [np.zeros(0, np.int64), *singles.values(), *(codes for _, codes in lists.values())]
    used = np.unique(np.concatenate(every))
    used = used[used >= 0]
    own = values.terms.encode(look_up(used))

    def recode(codes: Int64s) -> Codes:
        indices = np.searchsorted(used, codes)
        return np.where(codes >= 0, own[np.minimum(indices, len(own) - 1)] if len(own) else -1, -1)

    columns = {name: recode(codes) for name, codes in singles.items()}
    hidden: dict[int, g.GraphVariable] = {}
    for number, call in enumerate(find_aggregates(expression)):
        (variable,) = g.find_mentions(call)
        offsets, all_codes = lists[variable.name]
        hidden[id(call)] = g.GraphVariable(f"_:aggregate {number}")
        texts = _aggregate(call.name, offsets, recode(all_codes), values)
        columns[hidden[id(call)].name] = np.array(
            [e.UNBOUND if text is None else values.terms.code(text) for text in texts], np.int32
        )
    names = tuple(columns)
    plan = plan_column(replace_parts(expression, hidden), names, values, "")
    codes = np.stack([np.zeros(rows, np.int32), *columns.values()], axis=1)[:, 1:]
    table = Solutions(names, np.zeros(rows, np.int32), np.ascontiguousarray(codes, np.int32))
    found = extend_table(table, "_:value", plan, values).codes[:, -1]
    return values.terms.texts(found)


def _aggregate(name: str, offsets: Int64s, codes: Codes, values: TermValues) -> list[str | None]:
    """Return an aggregate of each list as a term; None for an error."""
    values.update()
    name, _, distinct = name.partition(" ")
    if distinct:
        offsets, codes = _drop_repeats(offsets, codes)
    sizes = np.diff(offsets)
    if name == "COUNT":
        return [_write_integer(size) for size in sizes.tolist()]
    filled = np.flatnonzero(sizes)
    empty = None if name in ("MIN", "MAX") else _write_integer(0)
    texts: list[str | None] = [empty] * len(sizes)
    if len(filled):
        facts, begins = values.facts(codes), offsets[:-1][filled]
        fold = _extreme if name in ("MIN", "MAX") else _total
        for row, text in zip(
            filled.tolist(), fold(name, facts, begins, codes, values), strict=True
        ):
            texts[row] = text
    return texts


def _drop_repeats(offsets: Int64s, codes: Codes) -> tuple[Int64s, Codes]:
    """Return lists with each value once, where it comes first."""
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    _, first = np.unique(np.stack([lists, codes]), axis=1, return_index=True)
    kept = np.sort(first)
    return np.searchsorted(lists[kept], np.arange(len(offsets))), codes[kept]


def _total(
    name: str, facts: NDArray[np.void], begins: Int64s, codes: Codes, values: TermValues
) -> list[str | None]:
    """Return sums, or averages: exact where all values of a list are."""
    kinds = facts["kind"]
    is_number = (kinds >= e.INTEGER) & (kinds <= e.DOUBLE)
    sound = np.logical_and.reduceat(is_number, begins)
    highest = np.maximum.reduceat(np.where(is_number, kinds, 0), begins)
    is_exact = is_number & (kinds <= e.DECIMAL) & (facts["scale"] >= 0)
    exact = np.logical_and.reduceat(is_exact, begins)
    scale = int(facts["scale"][is_exact].max(initial=0))
    tens = np.array([10**k for k in range(scale + 1)], object)
    whole = facts["exact"].astype(object)
    whole = whole * tens[np.where(is_exact, scale - facts["scale"], 0)]
    sums = np.add.reduceat(whole, begins)
    floats = np.add.reduceat(np.where(is_number, facts["number"], 0.0), begins)
    ends = np.append(begins[1:], len(codes))
    texts: list[str | None] = []
    for i, size in enumerate((ends - begins).tolist()):
        kind = int(highest[i])
        if not sound[i]:
            texts.append(None)
            continue
        if exact[i]:
            total: Decimal | float = Decimal(sums[i]).scaleb(-scale)
        else:
            total = float(floats[i])
        if name == "AVG":
            kind = max(kind, e.DECIMAL)
            total = total / size
        texts.append(write_exact(kind, total))
    return texts


def _extreme(
    name: str, facts: NDArray[np.void], begins: Int64s, codes: Codes, values: TermValues
) -> list[str | None]:
    """Return the least or the greatest values."""
    kinds = facts["kind"].astype(np.int64)
    family = np.where((kinds >= e.INTEGER) & (kinds <= e.DOUBLE), e.DOUBLE, kinds)
    same = np.minimum.reduceat(family, begins) == np.maximum.reduceat(family, begins)
    keys = facts["number"].astype(np.float64)
    strings = np.flatnonzero((kinds == e.STRING) | (kinds == e.BOOLEAN))
    if len(strings):
        texts = np.array(values.lexical(codes[strings]).to_pylist(), object)
        keys[strings] = np.unique(texts, return_inverse=True)[1]
    numbers = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(codes))))
    order = np.lexsort((keys if name == "MIN" else -keys, numbers))
    chosen = codes[order][begins]
    known = np.isin(family[begins], (e.DOUBLE, e.STRING, e.BOOLEAN, e.INSTANT, e.LOCAL_INSTANT))
    return [
        values.terms.text(code) if ok else None
        for code, ok in zip(chosen.tolist(), (same & known).tolist(), strict=True)
    ]


def _write_integer(number: int) -> str:
    return write_literal(str(number), datatype=XSD + "integer")
