from __future__ import annotations

from collections import Counter

import pytest

from cernis.languages import conjunctive
from cernis.testing import oracle
from cernis.testing.conjunctive import oracle as conjunctive_oracle
from cernis.testing.oracle import OracleMatch
from tools.cases.corpus import CorpusCase, CorpusGroup, read_cases
from tools.cases.differential import comparable_match

CASES = [pytest.param(case, id=f"{case.topic}: {case.name}") for case in read_cases()]


@pytest.mark.parametrize("case", CASES)
def test_the_oracle_gives_the_answer_worked_out_by_hand(case: CorpusCase) -> None:
    pattern = case.pattern()
    if case.groups is not None:
        groups = oracle.evaluate_groups(pattern, case.events)
        case.check_groups(CorpusGroup.of(g.when, g.partition, g.values) for g in groups)
        return
    found = oracle.evaluate(pattern, case.events, tables=case.tables)
    assert (case.matches, case.counts) != (None, None)
    if case.matches is not None:
        case.check(found)
        keys = {comparable_match(m): m.partition for m in case.matches if m.partition}
        assert keys == {
            comparable_match(m): m.partition for m in found if comparable_match(m) in keys
        }
    if case.counts is not None:
        assert tuple(oracle.count_matches(pattern, case.events)) == case.counts
    if case.values is not None:
        case.check_values((m, tuple(m.values.values())) for m in found)
    if case.suppressed is not None:
        case.check_suppressed((m, m.suppressed) for m in found)
    if case.answers is not None:
        query = conjunctive.parse(case.query)
        projected = conjunctive_oracle.find_answers(query, case.events)
        rows = [(row, dict(zip(query.head, held, strict=True))) for held, row in projected.items()]
        assert rows == list(case.answers)


def test_no_two_cases_of_a_topic_share_a_name() -> None:
    names = Counter((case.topic, case.name) for case in read_cases())
    assert [name for name, times in names.items() if times > 1] == []


def test_a_case_notices_what_is_missing_and_what_is_surplus() -> None:
    right = OracleMatch(0, 1, {"A": (0,), "B": (1,)})
    wrong = OracleMatch(0, 1, {"A": (0,)})
    case = CorpusCase("t", "n", "q", ({"type": "A"}, {"type": "B"}), (right,))
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
    case = CorpusCase("t", "n", "q", (), either, per_end=1)
    case.check(either[:1])
    case.check(either[1:])
    for wrong in ((), either):
        with pytest.raises(AssertionError, match="1 matches that end at 2"):
            case.check(wrong)


def test_a_case_notices_a_group_that_differs() -> None:
    group = CorpusGroup((0, 10), ("u",), {"n": 2})
    case = CorpusCase("t", "n", "q", (), groups=(group,))
    case.check_groups([group._replace(values={"n": 2.0})])
    for wrong in ([], [group, group], [group._replace(when=(10, 20))]):
        with pytest.raises(AssertionError, match="t: n"):
            case.check_groups(wrong)
