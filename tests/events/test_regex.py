"""Regular expressions are RE2's: it alone says what is right, and the query says where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cernis
from cernis.events.evaluation.regex import anchor, like_mistake
from cernis.pattern.formula import Event, Filter
from cernis.pattern.predicate import Attribute, Holds, Like
from cernis.pattern.query import Pattern

EXPECTED = "  expected: the syntax of RE2, without backreferences and lookaround"


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        (r"MS.*|A(?:B|C)+\d{2,3}", "ABC12"),
        (r"(?i)abc(?s:.)\x{1F600}\Qa.b\E", "aBC\n😀a.b"),
        (r"[*+]+[]x]\++", "*+]+"),
        (r"\pL+[[:alpha:]]\z", "äa"),
        (r"a\+\+b\\1?", "a++b\\"),
        ("(?<n>a)", "a"),
        ("(?P<n>a)", "a"),
        ("(?U)a+", "aa"),
        (r"\Qa.b)", "a.b)"),
        (r"\Qa\Eb\Q\c", r"ab\c"),
        (r"\\Q", r"\Q"),
        ("a|b", "b"),
        ("", ""),
        ("(" * 500 + "a" + ")" * 500, "a"),
    ],
)
def test_a_regular_expression_of_re2_is_accepted_and_matches_whole_strings(
    regex: str, text: str
) -> None:
    pattern = Pattern(Filter(Event("A"), Holds("A", Like(Attribute(("x",)), regex))))
    events = [{"type": "A", "x": each} for each in (text, f"{text}\n", f"-{text}")]
    assert [match.start for match in cernis.query(pattern).run(events)] == [0]


@pytest.mark.parametrize(
    ("regex", "wrong"),
    [
        ("a*+", "bad repetition operator: *+"),
        ("(?<!a)b", "invalid perl operator: (?<!"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"a\Z", r"invalid escape sequence: \Z"),
        ("(?x) a", "invalid perl operator: (?x"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("a{1,99999}", "invalid repetition size: {1,99999}"),
        ("((a{100}){100}){100}", "invalid repetition size: {100}"),
        ("a**", "bad repetition operator: **"),
        ("[a", "missing ]: [a"),
        ("a)|(b", "unexpected ): a)|(b"),
        ("[[:foo:]]", "invalid character class range: [:foo:]"),
        ("a\\", "trailing \\"),
        ("(\n", "missing ): ("),
        ("a" * 1_000_000, "pattern too large - compile failed"),
        ("(" * 1000, f"missing ): {'(' * 69}…"),
        ("\ud800", "it has half a character (a lone surrogate)"),
    ],
    ids=range(17),
)
def test_what_re2_refuses_is_refused_in_its_words(regex: str, wrong: str) -> None:
    pattern = Pattern(Filter(Event("A"), Holds("A", Like(Attribute(("x",)), regex))))
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query(pattern)
    assert str(caught.value) == f"bad regular expression: {wrong}\n{EXPECTED}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * WHERE A FILTER A[x LIKE '[[:foo:]]']",
            """\
line 1, column 34: bad regular expression: invalid character class range: [:foo:]
  SELECT * WHERE A FILTER A[x LIKE '[[:foo:]]']
                                   ^^^^^^^^^^^""",
        ),
        (
            "SELECT *\nWHERE A FILTER A[x NOT LIKE 'it''s (' OR y = 1]",
            """\
line 2, column 29: bad regular expression: missing ): it's (
  WHERE A FILTER A[x NOT LIKE 'it''s (' OR y = 1]
                              ^^^^^^^^^""",
        ),
    ],
)
def test_a_wrong_regular_expression_is_shown_where_it_stands(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query(text)
    assert str(caught.value) == f"{message}\n{EXPECTED}"


def test_it_is_told_together_with_other_mistakes() -> None:
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query("SELECT z WHERE A FILTER A[x LIKE '('] LIMIT 1")
    assert [mistake.message for mistake in caught.value.diagnostics] == [
        "unknown variable 'z' in SELECT",
        "bad regular expression: missing ): (",
    ]


@given(st.text("ab\\QE()[]|*.", max_size=8))
def test_what_is_accepted_runs(regex: str) -> None:
    if like_mistake(regex) is None:
        query = cernis.query(
            Pattern(Filter(Event("A"), Holds("A", Like(Attribute(("x",)), regex))))
        )
        query.run([{"type": "A", "x": "ab"}, {"type": "A", "x": "a)|(b"}]).count()
    assert anchor(regex).startswith(r"\A(?:")
