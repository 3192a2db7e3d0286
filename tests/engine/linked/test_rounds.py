"""Rounds that are looked up: a row makes one vertex, and a count does not list."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby
from unittest import mock

import pytest

import cernis
from cernis.engine.dag.count import count_matches
from cernis.engine.dag.count_pairs import list_pairs, slide_pairs
from cernis.engine.dag.count_ranges import count_rounds
from cernis.engine.dag.records import VERTICES
from cernis.engine.dag.steps import choose_vertices
from cernis.engine.linked import runtime
from cernis.rdf.reading import merge
from cernis.rdf.session import GraphSession
from cernis.results.sets import linked

QUERY = """
PREFIX : <urn:g:>
SELECT * {within} FROM STREAM S <urn:g:s>
WHERE {{
  SEQ ({sequence})
  DEFINE GPM A ON S {{ ?x :a ?a ; :of ?k }}
  DEFINE GPM B ON S {{ ?y :b ?b ; :of ?k {of_b} }}
  DEFINE GPM C ON S {{ ?z :c ?c ; :of ?k {of_c} }}
}}
"""
Event = tuple[int, str, int]
"""The time, the name of its step, and the value."""
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
FORMS = [
    pytest.param("A ; B+;", "FILTER (?b < ?a)", "", id="a value decides rounds"),
    pytest.param("A : B+: : C", "FILTER (?b < ?a)", "", id="any rounds of those that fit"),
    pytest.param("A ; B+; ; C", "", "FILTER (?c < ?a)", id="a step ends rounds"),
    pytest.param("A : B+: : C", "", "FILTER (?c < ?a)", id="a step ends any rounds"),
    pytest.param("A : B : C", "", "FILTER (?c < ?a)", id="a step ends one round"),
]


def write(events: list[Event]) -> dict[str, bytes]:
    lines = []
    for number, (time, name, value) in enumerate(events):
        graph = f"<urn:g:e{number}/at/{time}>"
        lines += [
            f'<urn:g:n{number}> <urn:g:{name}> "{value}"^^{INTEGER} {graph} .',
            f"<urn:g:n{number}> <urn:g:of> <urn:g:k> {graph} .",
        ]
    return {"S": "\n".join(lines).encode()}


def read(sequence: str, of_b: str, of_c: str, events: list[tuple[str, int]]) -> GraphSession:
    text = QUERY.format(sequence=sequence, of_b=of_b, of_c=of_c, within="")
    session = cernis.query(text, lang="spaseq").session(time_unit="s", keep=True)
    session.push(write([(time, *event) for time, event in enumerate(events)]))
    session.finish()
    return session


@pytest.mark.parametrize(("sequence", "of_b", "of_c"), FORMS)
@pytest.mark.parametrize("values", [20, 200])
def test_a_row_makes_one_vertex_however_many_values_wait(
    sequence: str, of_b: str, of_c: str, values: int
) -> None:
    firsts = [("a", number) for number in range(1, values + 1)]
    session = read(sequence, of_b, of_c, firsts + [("b", 0), ("c", 0)] * 3)
    rows = values + (6 if "C" in sequence else 3)
    assert session.engine.memory.dag.counters[VERTICES] - 1 == rows


@pytest.mark.parametrize(
    ("sequence", "number"),
    [
        ("A ; B+; ; C", 300 * 150),
        ("A : B+: : C", 150 * (2**300 - 1)),
        ("A : B : C", 300 * 150),
        ("A : B+: ; C", 150 * (2**300 - 1)),
    ],
)
def test_matches_that_nobody_could_list_are_counted(sequence: str, number: int) -> None:
    firsts = [("a", number) for number in range(300)]
    events = [*firsts, *[("b", 0)] * 300, ("c", 149)]
    session = read(sequence, "", "FILTER (?c < ?a)", events)
    assert session.pull().count() == number


def count_by_hand(sequence: str, of_c: str, within: int, events: list[Event]) -> dict[int, int]:
    """Count the matches of `A : B+:` or `A , B+,`, with a C after it or not, by their ends."""
    numbers: Counter[int] = Counter()
    moments = [(time, list(some)) for time, some in groupby(events, key=lambda one: one[0])]
    for begin, (first, rows) in enumerate(moments):
        for _, _, a in (row for row in rows if row[1] == "a"):
            ways, last = 1, {}
            for time, some in moments[begin + 1 :]:
                if time - first > within:
                    break
                fitting = [b for _, name, b in some if name == "b" and b < a]
                thirds = [c for _, name, c in some if name == "c"]
                if "C" not in sequence:
                    numbers[time] += ways * len(fitting)
                    thirds = []
                for c in thirds:
                    numbers[time] += sum(n for b, n in last.items() if not of_c or c > b)
                if "," in sequence:
                    last = {}
                for b in fitting:
                    last[b] = last.get(b, 0) + ways
                ways *= len(fitting) + ("," not in sequence)
                if ways == 0:
                    break
    return {time: number for time, number in numbers.items() if number}


COUNTED = [
    pytest.param("A : B+:", "", id="rounds end a match"),
    pytest.param("A : B+: : C", "", id="a step follows"),
    pytest.param("A : B+: : C", "FILTER (?c > ?b)", id="a step compares the last round"),
    pytest.param("A , B+,", "", id="rounds without a gap"),
    pytest.param("A , B+, , C", "FILTER (?c > ?b)", id="a step after rounds without a gap"),
]


@pytest.mark.parametrize(("sequence", "of_c"), COUNTED)
@pytest.mark.parametrize("within", [3, 60, 1000])
@pytest.mark.parametrize("beside", [0.0, 0.3], ids=["one at a time", "several at a time"])
@pytest.mark.parametrize("few", [2**62, -1], ids=["by pairs", "by ranges"])
def test_rounds_that_a_value_decides_are_counted_in_any_window(
    sequence: str, of_c: str, within: int, beside: float, few: int
) -> None:
    rng, time, events = random.Random(within), 0, []
    for _ in range(240):
        time += rng.random() >= beside
        name = rng.choice("abbbbc")
        events.append((time, name, rng.randrange(1000) if name == "b" else 2 * rng.randrange(700)))
    text = QUERY.format(
        sequence=sequence, of_b="FILTER (?b < ?a)", of_c=of_c, within=f"WITHIN {within} SECONDS"
    )
    matches = cernis.query(text, lang="spaseq").run(write(events), time_unit="s")
    with mock.patch.object(linked, "_FEW_PAIRS", few):
        ends, counts = matches.counts().to_pydict().values()
    assert dict(zip(ends, counts, strict=True)) == count_by_hand(sequence, of_c, within, events)
    assert within < 1000 or ":" not in sequence or max(counts) > 2**60


@pytest.mark.parametrize(
    ("sequence", "of_b", "of_c"),
    [
        ("A : B+:", "FILTER (?b < ?a)", ""),
        ("A ; B+;", "FILTER (?b < ?a)", ""),
        ("A : B+: : C", "FILTER (?b < ?a)", ""),
        ("A : B+: ; C", "FILTER (?b < ?a)", ""),
        ("A : B+: , C", "FILTER (?b < ?a)", ""),
        ("A ; B+; : C", "FILTER (?b < ?a)", ""),
        ("A , B+,", "FILTER (?b < ?a)", ""),
        ("A , B+, , C", "FILTER (?b < ?a)", ""),
        ("A , B+, : C", "FILTER (?b < ?a)", ""),
        ("A : B+: : C", "", "FILTER (?c < ?a)"),
    ],
)
def test_ranges_of_runs_are_counted_without_pairs(sequence: str, of_b: str, of_c: str) -> None:
    rng = random.Random(sequence)
    events = [(time, rng.choice("abbc"), rng.randrange(50)) for time in range(200)]
    events += [(time, "b", rng.randrange(50)) for time, name, _ in events if name == "b"]
    events.sort()
    text = QUERY.format(sequence=sequence, of_b=of_b, of_c=of_c, within="WITHIN 40 SECONDS")
    matches = cernis.query(text, lang="spaseq").run(write(events), time_unit="s")
    with mock.patch.multiple(linked, _count_pairs=None, _FEW_PAIRS=-1):
        counts = matches.counts()
    with mock.patch.object(linked, "_FEW_PAIRS", 2**62):
        assert (
            counts == cernis.query(text, lang="spaseq").run(write(events), time_unit="s").counts()
        )


@pytest.mark.parametrize(
    ("sequence", "of_b", "of_c"),
    [
        ("A : B+:", "FILTER (?b < ?a)", ""),
        ("A : B+: : C", "FILTER (?b < ?a)", ""),
        ("A : B+: : C", "", "FILTER (?c < ?a)"),
    ],
)
@pytest.mark.parametrize("few", [2**62, -1], ids=["by pairs", "by ranges"])
def test_counts_beyond_floats_are_exact(sequence: str, of_b: str, of_c: str, few: int) -> None:
    events = [("a", 1), ("a", 5), ("a", 7), *[("b", 3)] * 1300, ("c", 2)]
    session = read(sequence, of_b, of_c, events)
    with mock.patch.object(linked, "_FEW_PAIRS", few):
        assert session.pull().count() == 2 * (2**1300 - 1)


@pytest.mark.parametrize("sequence", ["A : B+: ; C", "A ; B+; ; C", "A : B ; C"])
def test_rows_of_another_search_tree_take_no_runs(sequence: str) -> None:
    rng = random.Random(2)
    events = [(time, rng.choice("abc"), rng.randrange(5)) for time in range(400)]
    text = QUERY.format(
        sequence=sequence, of_b="", of_c="FILTER (?c >= ?a)", within="WITHIN 5 SECONDS"
    )
    session = cernis.query(text, lang="spaseq").session(time_unit="s")
    segments = [segment for batch in session.open(write(events)) for segment in session.read(batch)]
    numbers = [number for segment in segments for number in count_matches(segment)]
    segment = linked.join_segments(segments)
    chosen = choose_vertices(segment)
    by_pairs = slide_pairs(segment, chosen, list_pairs(segment, chosen))
    assert by_pairs == count_rounds(segment, chosen) == numbers


@pytest.mark.parametrize(
    ("sequence", "of_c"),
    [("A : B+:", ""), ("A : B+: : C", ""), ("A , B+,", ""), ("A : B+: : C", "FILTER (?c > ?b)")],
)
@pytest.mark.parametrize("few", [2**62, -1], ids=["by pairs", "by ranges"])
def test_kept_matches_are_counted_after_later_events(sequence: str, of_c: str, few: int) -> None:
    rng = random.Random(few)
    events = [(time, rng.choice("abbc"), rng.randrange(90)) for time in range(300)]
    text = QUERY.format(
        sequence=sequence, of_b="FILTER (?b < ?a)", of_c=of_c, within="WITHIN 30 SECONDS"
    )
    session = cernis.query(text, lang="spaseq").session(time_unit="s")
    kept = []
    with (
        mock.patch.object(merge, "EVENTS", 10),
        mock.patch.object(runtime, "FIRST_RECORDS", 4),
        mock.patch.object(linked, "_FEW_PAIRS", few),
    ):
        for batch in session.open(write(events)):
            kept.append(session.take(batch))
            if rng.random() < 0.3:
                session.engine.collect()
        found = {}
        for matches in kept:
            ends, counts = matches.counts().to_pydict().values()
            found.update(zip(ends, counts, strict=True))
    assert found == count_by_hand(sequence, of_c, 30, events)
