"""The matchers of row patterns against the oracle, on random patterns."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cernis.automata.rows.construct import construct
from cernis.engine.rows.match import match_rows
from cernis.engine.rows.search import PathConditions, Programs, Registers, search_rows
from cernis.engine.rows.tables import PartitionedRows, Skipping, close_partitions, make_tables
from cernis.errors import BudgetError
from cernis.languages.sql.pattern import parse_pattern
from cernis.languages.sql.row_pattern import RowPattern, SkipMode
from cernis.testing.row_patterns import SkipMistake, recognize
from tools.cases.row_patterns import VARIABLES, draw_pattern


def find(pattern: RowPattern, rows: PartitionedRows, skipping: Skipping, *, search: bool) -> object:
    """Return what a matcher finds in one partition, as the oracle tells it."""
    tables = make_tables(construct(pattern, VARIABLES))
    if search:
        none = np.zeros(0, np.int64)
        registers = Registers(none, none, none, none, np.zeros((0, 3), np.bool_), np.zeros(0))
        programs = Programs(np.zeros(4, np.int64), none, none, none, np.zeros(0))
        values = np.zeros((len(rows.holds), 0))
        found, _ = search_rows(
            tables, rows, skipping, PathConditions(registers, programs, values), 10**7
        )
    else:
        found = match_rows(tables, rows, skipping)
    if found.status:
        return {1: "no row", 2: "the first row"}[found.status]
    told, used = [], 0
    for start, length in zip(found.starts.tolist(), found.lengths.tolist(), strict=True):
        labels = found.labels[used : used + max(length, 0)].tolist()
        used += len(labels)
        word = tuple((VARIABLES[label >> 1], bool(label & 1)) for label in labels)
        told.append((start, None if length < 0 else word))
    return told


@pytest.mark.parametrize("search", [False, True])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples * 8)
def test_the_preferred_match_is_the_first_of_a_backtracking_search(search: bool, seed: int) -> None:
    chance = Random(seed)
    pattern = draw_pattern(chance)
    number = chance.randrange(7)
    holds = np.array([[chance.random() < 0.6 for _ in VARIABLES] for _ in range(number)], np.bool_)
    holds = holds.reshape(number, len(VARIABLES))
    skip, target = chance.choice(list(SkipMode)), chance.choice(VARIABLES)
    limits = np.minimum(np.arange(number) + chance.choice((2, 3, 9)), number)
    try:
        expected: object = recognize(
            pattern,
            number,
            lambda start, names, _: bool(holds[start + len(names) - 1, VARIABLES.index(names[-1])]),
            skip,
            [target],
            limits.tolist(),
        )
    except SkipMistake as mistake:
        expected = str(mistake)
    rows = close_partitions(np.array([0, number]), holds, limits)
    skipping = Skipping(skip.value, np.array([name == target for name in VARIABLES]))
    assert find(pattern, rows, skipping, search=search) == expected


@given(seed=st.integers(0, 10**9))
def test_a_pattern_is_read_as_it_is_written(seed: int) -> None:
    pattern = draw_pattern(Random(seed))
    assert str(parse_pattern(str(pattern))) == str(pattern)


def test_nested_repetitions_stay_linear() -> None:
    """`((A+)+ B)` over rows that are all A, where a backtracking matcher takes forever."""
    number = 3_000
    rows = close_partitions(
        np.array([0, number]), np.tile([True, False, True], (number, 1)), np.full(number, number)
    )
    skipping = Skipping(SkipMode.TO_NEXT_ROW.value, np.zeros(3, np.bool_))
    tables = make_tables(construct(parse_pattern("((A+)+ B)"), VARIABLES))
    found = match_rows(tables, rows, skipping)
    assert found.lengths.max() == -1
    assert len(tables.variable) < 10


def test_a_pattern_has_a_limit() -> None:
    with pytest.raises(BudgetError, match="more than 20,000 states"):
        construct(parse_pattern("(A{1,200}){1,200}"), ["A"])
