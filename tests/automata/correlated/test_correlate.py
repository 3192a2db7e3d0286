"""Formulas that compare events as automata: golden prints, and all of them against the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import pytest

from cernis.automata.correlated.correlate import Correlation, How, Refusal, correlate
from cernis.automata.correlated.mermaid import draw_pcea
from cernis.automata.correlated.pcea import PCEA
from cernis.languages.ceql.parse import parse
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import Atom, TypeIs
from cernis.run.check.conditions import EventView
from cernis.run.check.verify import Mark, Verifier
from cernis.testing import oracle
from cernis.testing.predicates import holds, read_attribute
from tools.cases.grammar import FAMILIES, Features, random_case
from tools.cases.naive import NaiveRuns

Found = set[tuple[int, int, frozenset[tuple[str, int]]]]
Events = Sequence[dict[str, Any]]


def formula(text: str) -> cel.Formula:
    return parse(f"SELECT * WHERE {text}").formula


def correlation(of: str | cel.Formula, name_atoms: bool = False) -> Correlation:
    found = correlate(formula(of) if isinstance(of, str) else of, name_atoms=name_atoms)
    assert isinstance(found, Correlation), found
    return found


def stream(seed: int, length: int = 7, types: str = "ABCD") -> Events:
    """Few values, so that they agree often; some are missing."""
    chosen = random.Random(seed)
    return [
        {
            "type": chosen.choice(types),
            "a": chosen.choice((0, 1, 1, None)),
            "b": chosen.choice((0, 1)),
            "p": chosen.choice((1, 2, 3, float("nan"))),
        }
        for _ in range(length)
    ]


def accepted(pcea: PCEA, events: Events) -> Found | None:
    """What the automaton accepts; None where that is too much for a test."""
    runs = NaiveRuns(pcea)
    found: Found = set()
    for event in events:
        for match in runs.push(event):
            labels = ((x, p) for x, held in match.labels.items() for p in held)
            found.add((match.start, match.end, frozenset(labels)))
        if runs.size > 20_000:
            return None
    return found


def meant(of: cel.Formula, events: Events) -> Found:
    return {
        (v.start, v.end, v.labels) for v in oracle.find_valuations(of, events) - {oracle.EPSILON}
    }


def check(of: cel.Formula, events: Events) -> None:
    """Exact automata accept what is meant; of the others, what a check of candidates leaves."""
    found = correlate(of)
    if isinstance(found, Refusal):
        return
    got, wanted = accepted(found.pcea, events), meant(of, events)
    if got is None:
        return
    assert wanted <= got
    if found.exact:
        assert got == wanted
    else:
        named = accepted(correlation(of, name_atoms=True).pcea, events)
        assert named is None or verified(of, named, events) == wanted


def verified(of: cel.Formula, candidates: Found, events: Events) -> Found:
    verifier = Verifier(of)

    def truth(position: int) -> dict[Atom, bool]:
        event = events[position]
        return {
            atom: event["type"] == atom.type if isinstance(atom, TypeIs) else holds(atom, event)
            for atom in verifier.atoms
        }

    window = EventView(
        truth,
        lambda position, name: read_attribute(name, events[position]),
        lambda position: events[position].get("ts"),
        1_000_000,
    )
    found: Found = set()
    for start, end, labels in candidates:
        paths = {(label, p): verifier.path_of(label) for label, p in labels}
        marks = tuple(Mark(p, path) for (_, p), path in paths.items() if path is not None)
        if verifier.accepts(marks, start, end, window):
            kept = frozenset(pair for pair, path in paths.items() if path is None)
            found.add((start, end, kept))
    return found


GOLDEN = {
    "A AS x ; B AS y FILTER x[a] = y[b]": """
          0 x  A / A,x
        ^ 1 y  after 0 where a = b: B / B,y
    """,
    "(A : B?) ; C": """
          0 A  A / A
          1 B  after 0 where right before: B / B
        ^ 2 C  after 1: C / C
               after 0: C / C
    """,
    "(A+ AS x) FILTER PREV(x)[p] < x[p]": """
        ^ 0 x  A / A,x
               after 0 where p < p: A / A,x
    """,
    "(A+ AS x) FILTER x[a] = x[a]": """
        ^ 0 x  A [a = a] / A,x
               after 0 where a = a: A / A,x
    """,
    "((A AS x ; B AS y) FILTER x[a] = y[a])+": """
          0 x  A / A,x
               after 1: A / A,x
        ^ 1 y  after 0 where a = a: B / B,y
    """,
    "A{1,3}": """
        ^ 0 A  A / A
        ^ 1 A  after 0: A / A
        ^ 2 A  after 1: A / A
    """,
    "(A ; B ; C PARTITION BY [a])": """
          0 A  A / A
          1 B  after 0 where a = a: B / B
        ^ 2 C  after 1 where a = a: C / C
    """,
    "(A AS x ALL A AS y) FILTER x[a] = y[b]": """
          0 x  A / A,x
          1 y  A / A,y
        ^ 2 x  after 1 where b = a: A / A,x
        ^ 3 y  after 0 where a = b: A / A,y
        ^ 4 x & y  A [a = b] / A,x,y
    """,
    "(A AS x ALL B AS y ALL C AS z) FILTER x[a] = y[a] AND y[a] = z[a]": """
          0 x  A / A,x
          1 y  B / B,y
          2 z  C / C,z
        ^ 3 x  after 1 where a = a and 2 where a = a: A / A,x
        ^ 4 y  after 0 where a = a and 2 where a = a: B / B,y
        ^ 5 z  after 0 where a = a and 1 where a = a: C / C,z
    """,
    "C ; (A ALL B)": """
          0 C  C / C
          1 A  after 0: A / A
        ^ 2 B  after 1: B / B
          3 B  after 0: B / B
        ^ 4 A  after 3: A / A
    """,
    "A FILTER A[a = 1] OR A[b = 1]": """
        ^ 0 A  A ([a = 1] or [b = 1]) / A
    """,
}


@pytest.mark.parametrize("text", GOLDEN)
def test_the_automaton_of_each_operator(text: str) -> None:
    assert str(correlation(text).pcea) == dedent(GOLDEN[text]).strip("\n")


EXACT = [
    "A",
    "A ; B : C",
    "(A OR B)+ ; C?",
    "A AS x FILTER x[a] = x[b]",
    "(A AS x ; B AS y) FILTER x[a] = y[b]",
    "(A AS x ; B AS y) FILTER x[a] != y[a]",
    "(A AS x ; B AS y) FILTER x[p] < y[p]",
    "(A AS x ; B AS y) FILTER y[p] >= x[p]",
    "(A AS x ; B AS y ; C AS z) FILTER x[a] = y[a] AND y[a] = z[a]",
    "(A AS x ; B AS y ; C AS z) FILTER x[a] = z[a] AND x[a] = y[b]",
    "(A AS x ; B AS y ; C AS z) FILTER x[p] < y[p] AND y[p] > z[p]",
    "(A AS x ; B+ AS y ; C AS z) FILTER x[a] = y[a] AND y[a] = z[a]",
    "(A+ AS x ; B AS y) FILTER x[a] = y[b] AND x[b] = x[b]",
    "(A+ AS x) FILTER PREV(x)[p] < x[p]",
    "((A OR B)+ AS x) FILTER PREV(A)[a] != B[a] AND PREV(B)[p] <= x[p]",
    "((A AS x ; B AS y) FILTER x[a] = y[a])+",
    "((A AS x ; B AS y) FILTER x[a] = y[a]){2,3} FILTER PREV(y)[b] = x[b]",
    "(A ; (B OR C) AS z) FILTER A[a] = B[a] AND A[a] = C[b]",
    "(A ; B? ; C) FILTER A[a] = B[a] AND B[a] = C[a]",
    "(A ; B? ; C) FILTER A[a] = B[a] AND A[a] = C[a]",
    "(A? ; (B OR C) ; D?) FILTER A[a] = B[a] AND B[a] = D[a] AND C[b] = D[b]",
    "(A{2,3} AS x ; B) FILTER x[a] = B[a]",
    "(A:{2,3} AS x : B) FILTER x[a] = B[a] AND B[b = 1]",
    "((A ; B) AS x ; C) FILTER x[a] = C[a]",
    "((A ; B) FILTER A[a] = B[a] ; C) FILTER B[b] = C[b]",
    "(A ; B) FILTER A[a] = B[a] OR A[p > 1]",
    "(A ; B ; C PARTITION BY [a])",
    "(((A AS x OR B AS y)+) PARTITION BY [x[a], y[b]])",
    "(((A ; B PARTITION BY [a])+) PARTITION BY [b])",
    "(A ALL B PARTITION BY [a])",
    "(A AS x ALL A AS y) FILTER x[a] = y[b]",
    "(A AS x ALL B AS y) FILTER x[p] < y[p]",
    "(A AS x ALL B AS y ALL C AS z) FILTER x[a] = y[a] AND y[a] = z[a]",
    "(A AS x ALL B AS y ALL C AS z) FILTER x[a] = y[a] AND y[a] = z[a] AND x[b] = y[b]",
    "(A AS x ALL B AS y ALL C AS z) FILTER y[p] < z[p]",
    "((A ALL B) : C) FILTER A[a] = B[a] AND B[a] = C[a]",
    "(C : (A ALL B)) FILTER A[a] = B[a] AND B[a] = C[a]",
    "((A ; B) ALL (C ; D)) FILTER B[a] = D[a]",
    "((A ALL B) FILTER A[a] = B[a]) ALL C",
    "(A+ ALL B?) FILTER A[a] = A[a]",
]

CANDIDATES = [
    "(A AS x ; B AS y ; C AS z) FILTER x[a] = z[a]",
    "(A AS x ; B AS y ; C AS z) FILTER x[p] < z[p]",
    "(A AS x ; B+ AS y) FILTER x[a] != y[a]",
    "(A+ AS x ; B) FILTER x[p] <= x[p]",
    "((A OR B)+ ; C) FILTER A[a] = B[a]",
    "(A AS x ; B AS y) FILTER x[p] < y[p] AND x[a] < y[a]",
    "(A AS x ; B AS y) FILTER x[p] < y[p] AND x[a] != y[a]",
    "(A AS x ALL B AS y ALL C AS z) FILTER x[a] = y[a] AND y[b] = z[b]",
    "(A AS x ALL B AS y ALL C) FILTER PREV(x)[p] < y[p]",
    "((A ; B ; C) ALL D) FILTER A[a] = D[a]",
]

REFUSED = {
    "A ; NOT B ; C": "NOT passes over an event without marking it",
    "A ; (B ALL (C ; D))": "something comes before an ALL whose parts are not single events",
    "((A ; B) ALL C)+": "something comes before an ALL whose parts are not single events",
    "A ; (A ALL B ALL C ALL D)": "something comes before an ALL of more than 3 parts",
    "A{2,2001}": "it unrolls to 2,001 rounds",
    "(A OR B OR C){1,600}": "it takes more than 2,000 transitions",
}


@pytest.mark.parametrize("text", EXACT)
def test_links_are_enough_for_these(text: str) -> None:
    assert correlation(text).exact
    for seed in range(12):
        check(formula(text), stream(seed, types="ABCD" if "D" in text else "ABC"))


@pytest.mark.parametrize("text", CANDIDATES)
def test_links_accept_too_much_for_these_and_never_too_little(text: str) -> None:
    assert not correlation(text).exact
    for seed in range(12):
        check(formula(text), stream(seed, types="ABCD" if "D" in text else "ABC"))


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_says_why_and_where(text: str) -> None:
    found = correlate(formula(text))
    assert isinstance(found, Refusal)
    assert found.reason == REFUSED[text]
    assert found.span is not None


@pytest.mark.parametrize("family", FAMILIES)
def test_random_formulas_that_compare_events_mean_what_the_oracle_says(family: Any) -> None:
    for seed in range(60):
        pattern, events = random_case(seed, Features(families=(family,), events=7))
        check(pattern.formula, events)


def test_random_formulas_mean_what_the_oracle_says() -> None:
    features = Features(
        binary=True, partition_by_inside=True, not_=False, unless=False, events=7, size=10
    )
    for seed in range(250):
        pattern, events = random_case(seed, features)
        check(pattern.formula, events)


def test_a_variable_that_is_empty_ties_no_others_together() -> None:
    text = "(A ; C ; B? ; D?) FILTER A[a] = C[a] AND A[a] = B[a] AND B[a] = D[a]"
    events = [{"type": type_, "a": a} for type_, a in (("A", 1), ("C", 1), ("D", 2), ("B", 1))]
    assert correlation(text).exact
    check(formula(text), events)
    assert (0, 2) in {(start, end) for start, end, _ in meant(formula(text), events)}


def maybe_empty(chosen: random.Random) -> cel.Formula:
    """Variables that are there or not, and equalities among them."""
    names = "xyzw"[: chosen.choice((2, 3, 4))]

    def part(variable: str) -> cel.Formula:
        event = cel.As(cel.Event(chosen.choice("AB")), variable)
        other = cel.As(cel.Event(chosen.choice("AB")), chosen.choice(names))
        return chosen.choice(
            (
                event,
                event,
                cel.Optional(event),
                cel.Choice((event, other)),
                cel.Iterate(event, *chosen.choice(((1, None), (0, 2)))),
            )
        )

    def side() -> pred.Reference:
        return pred.Reference(chosen.choice(names), pred.Attribute((chosen.choice("aab"),)))

    operator = chosen.choice((cel.Sequence, cel.Sequence, cel.Contiguous, cel.All, cel.Choice))
    body = operator(tuple(part(variable) for variable in names))
    asked = tuple(pred.Compare("=", side(), side()) for _ in range(chosen.choice((1, 2, 3))))
    return cel.Filter(body, pred.AllOf(asked) if len(asked) > 1 else asked[0])


def test_equalities_of_variables_that_may_be_empty_mean_what_the_oracle_says() -> None:
    for seed in range(400):
        check(maybe_empty(random.Random(seed)), stream(seed, length=5, types="AB"))


def test_parts_of_different_types_are_never_closed_at_once() -> None:
    parts = tuple(cel.Event(f"T{i}") for i in range(30))
    assert len(correlation(cel.All(parts)).pcea.transitions) == 60


# ------------------------------------------------------------------ verdicts


def verdicts(text: str) -> list[tuple[str, How, str]]:
    return [(v.text, v.how, v.why) for v in correlation(text).verdicts]


def test_verdicts_are_in_the_order_of_the_text() -> None:
    text = "((A ; B) FILTER A[a] = B[a] AND A[b = 1] ; C) FILTER B[p] < C[p] AND A[p] != C[p]"
    assert verdicts(text) == [
        ("A[a] = B[a]", How.EQUAL, "each event agrees with the next"),
        ("A[b = 1]", How.UNARY, "asked of each event alone"),
        ("B[p] < C[p]", How.ORDERED, "all its pairs are neighbours"),
        ("A[p] != C[p]", How.CANDIDATE, "B can stand between the events it compares"),
    ]


def test_a_partition_inside_is_one_verdict() -> None:
    assert verdicts("(A AS x ; B AS y PARTITION BY [x[a], y[b]])") == [
        ("PARTITION BY [x[a], y[b]]", How.EQUAL, "each event agrees with the next")
    ]


def test_a_link_has_room_for_three_values_that_differ() -> None:
    asked = " AND ".join(f"A[{name}] != B[{name}]" for name in "abpqr")
    assert [how for _, how, _ in verdicts(f"(A ; B) FILTER {asked}")] == [
        *[How.DIFFERENT] * 3,
        *[How.CANDIDATE] * 2,
    ]
    (source,) = correlation(f"(A ; B) FILTER {asked}").pcea.transitions[1].sources
    assert source.link.different == (("a", "a"), ("b", "b"), ("p", "p"))


def test_a_link_has_room_for_one_order() -> None:
    assert verdicts("(A ; B) FILTER A[a] != B[a] AND A[p] < B[p] AND A[b] < B[b]") == [
        ("A[a] != B[a]", How.CANDIDATE, "the same events are compared by order already"),
        ("A[p] < B[p]", How.ORDERED, "all its pairs are neighbours"),
        ("A[b] < B[b]", How.CANDIDATE, "the same events are compared by order already"),
    ]


def test_a_comparison_that_calculates_is_left_to_the_check() -> None:
    left, right = (pred.Reference(x, pred.Attribute(("p",))) for x in "AB")
    shifted = pred.Compare("<", left, right, shift=1)
    found = correlation(cel.Filter(cel.Sequence((cel.Event("A"), cel.Event("B"))), shifted))
    assert [v.how for v in found.verdicts] == [How.CANDIDATE]
    assert found.pcea.transitions[1].sources[0].link.ordered == ()


def test_the_time_of_an_event_is_compared_with_itself_without_asking() -> None:
    x, y = pred.Reference("A", pred.TIME), pred.Reference("x", pred.TIME)
    single = cel.As(cel.Event("A"), "x")
    assert str(correlation(cel.Filter(single, pred.Compare("<=", x, y))).pcea) == "^ 0 x  A / A,x"
    never = correlation(cel.Filter(single, pred.Compare("<", x, y))).pcea
    assert accepted(never, stream(0)) == set()


def test_every_atom_can_write_a_label_of_its_own() -> None:
    pcea = correlation("A ; (B AS x)+", name_atoms=True).pcea
    assert {t.labels for t in pcea.transitions} == {
        frozenset({"A", "#0"}),
        frozenset({"B", "x", "#1.0.0"}),
    }


def test_a_diagram_shows_joins() -> None:
    drawn = draw_pcea(correlation("(A ALL B ALL C PARTITION BY [a])").pcea)
    assert drawn.splitlines()[:2] == ["stateDiagram-v2", "  direction LR"]
    assert "  state j3 <<join>>" in drawn
    assert "  s1 --> j3 : a = a" in drawn
    assert "  j3 --> s3 : A / A" in drawn
    assert "  s3 --> [*]" in drawn
