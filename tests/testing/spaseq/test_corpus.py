"""The corpus of SPAseQ on the definition: the answers worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from cernis.testing.spaseq.oracle import SpaseqMatch
from tools.cases.spaseq.corpus import SpaseqCase, read_cases

CASES = [pytest.param(case, id=f"{case.topic}: {case.name}") for case in read_cases()]


@pytest.mark.parametrize("case", CASES)
def test_the_definition_gives_the_answer_worked_out_by_hand(case: SpaseqCase) -> None:
    case.check(case.oracle())


def test_no_two_cases_of_a_topic_share_a_name() -> None:
    names = Counter((case.topic, case.name) for case in read_cases())
    assert [name for name, times in names.items() if times > 1] == []


def test_every_case_is_worth_its_place() -> None:
    assert [case.name for case in read_cases() if not any(case.streams.values())] == []
    assert [case.name for case in read_cases() if not case.matches and case.topic != "paper"] == []
    assert all(len(case.graphs or case.matches) == len(case.matches) for case in read_cases())


def test_a_case_notices_what_is_missing_and_what_is_surplus() -> None:
    right = SpaseqMatch(1, 2, (("S", 0), ("S", 1)), (("a", "<urn:x>"),))
    wrong = right._replace(bindings=(("a", "<urn:y>"),))
    case = SpaseqCase("t", "n", "q", {"S": [(1, []), (2, [])]}, (right,))
    case.check([right])
    with pytest.raises(AssertionError, match=r"missing 1\.\.2 S\.0 S\.1 \?a=<urn:x>"):
        case.check([])
    with pytest.raises(AssertionError, match=r"surplus 1\.\.2 S\.0 S\.1 \?a=<urn:y>"):
        case.check([right, wrong])
    with pytest.raises(AssertionError, match="surplus"):
        case.check([right, right])
