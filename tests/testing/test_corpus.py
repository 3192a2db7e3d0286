from __future__ import annotations

from collections import Counter

import pytest

from cernis.languages import conjunctive
from cernis.testing import heads, oracle
from cernis.testing.corpus import Case, cases
from cernis.testing.differential import answer
from cernis.testing.oracle import OracleMatch

CASES = [pytest.param(case, id=f"{case.topic}: {case.name}") for case in cases()]


@pytest.mark.parametrize("case", CASES)
def test_the_oracle_gives_the_answer_worked_out_by_hand(case: Case) -> None:
    pattern = case.pattern()
    found = oracle.evaluate(pattern, case.events)
    assert (case.matches, case.counts) != (None, None)
    if case.matches is not None:
        case.check(found)
        keys = {answer(m): m.partition for m in case.matches if m.partition}
        assert keys == {answer(m): m.partition for m in found if answer(m) in keys}
    if case.counts is not None:
        assert tuple(oracle.counts(pattern, case.events)) == case.counts
    if case.aggregates is not None:
        matches = {answer(m): m for m in found}
        given = [matches[answer(m)] for m in case.matches or ()]
        values = [tuple(oracle.aggregates(pattern, m, case.events)) for m in given]
        assert values == list(case.aggregates)
    if case.answers is not None:
        query = conjunctive.parse(case.query)
        projected = heads.answers(query, case.events)
        rows = [(row, dict(zip(query.head, held, strict=True))) for held, row in projected.items()]
        assert rows == list(case.answers)


def test_no_two_cases_of_a_topic_share_a_name() -> None:
    names = Counter((case.topic, case.name) for case in cases())
    assert [name for name, times in names.items() if times > 1] == []


def test_a_case_notices_what_is_missing_and_what_is_surplus() -> None:
    right = OracleMatch(0, 1, {"A": (0,), "B": (1,)})
    wrong = OracleMatch(0, 1, {"A": (0,)})
    case = Case("t", "n", "q", ({"type": "A"}, {"type": "B"}), (right,))
    case.check([right])
    case.check([(0, 1, {"B": [1], "A": [0], "empty": []})])
    with pytest.raises(AssertionError, match=r"missing \[0, 1\]  A = 0  B = 1"):
        case.check([])
    with pytest.raises(AssertionError, match=r"surplus \[0, 1\]  A = 0"):
        case.check([right, wrong])
    with pytest.raises(AssertionError, match="surplus"):
        case.check([right, right])


def test_a_case_with_a_choice_counts_the_matches_of_each_end() -> None:
    either = tuple(OracleMatch(start, 2, {"A": (start,)}) for start in (0, 1))
    case = Case("t", "n", "q", (), either, per_end=1)
    case.check(either[:1])
    case.check(either[1:])
    for wrong in ((), either):
        with pytest.raises(AssertionError, match="matches end at 2, not 1"):
            case.check(wrong)
