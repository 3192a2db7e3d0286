"""SPAseQ on the command line: from files of RDF to output, and what is said about mistakes."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from cernis.cli.main import main
from cernis.generators import cards, market, smartgrid, traffic, vessels
from cernis.languages.spaseq import parse
from cernis.testing.spaseq.oracle import SpaseqMatch, find_matches

ox = pytest.importorskip("pyoxigraph")

EXAMPLES = Path(__file__).parents[2] / "examples" / "spaseq"
PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
XSD = "http://www.w3.org/2001/XMLSchema#"
EX = "http://example.org/"

Capture = pytest.CaptureFixture[str]


def event(name: str, time: int, *triples: str) -> str:
    """One event as N-Quads; `a is A` is short for a triple of three IRIs."""
    graph = f"<urn:{name}>"
    lines = [f'{graph} {PROV} "{time}"^^<{XSD}integer> .']
    for triple in triples:
        terms = [term if term[0] in '"<_' else f"<{EX}{term}>" for term in triple.split()]
        lines.append(f"{' '.join(terms)} {graph} .")
    return "".join(f"{line}\n" for line in lines)


PAIR = """\
PREFIX : <http://example.org/>
SELECT ?a ?b WITHIN 10 SECONDS FROM STREAM S <http://example.org/letters>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is :A } DEFINE GPM B ON S { ?b :is :B } }
"""
LETTERS = (
    event("e0", 1, "a1 is A")
    + event("e1", 2, "x1 is X")
    + event("e2", 3, "b1 is B", "b1 near a1")
    + event("e3", 4, "a2 is A")
    + event("e4", 5, "b2 is B")
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a query and a stream, and a terminal of a known width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("CERNIS_DEBUG", raising=False)
    (tmp_path / "pair.spaseq").write_text(PAIR)
    (tmp_path / "letters.nq").write_text(LETTERS)
    return tmp_path


def cernis(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------- the paper's queries

QUERIES: list[tuple[str, ModuleType, dict[str, Any], int]] = [
    ("q1", smartgrid, {"events": 240, "seed": 2, "houses": 30, "places": 10}, 100),
    ("q2", cards, {"events": 150, "seed": 1, "cards": 40}, 60),
    ("q3", market, {"events": 600, "seed": 1, "companies": 5}, 0),
    ("q4", market, {"events": 100, "seed": 1, "companies": 5}, 0),
    ("q5", traffic, {"events": 300, "seed": 2}, 0),
    ("q6", vessels, {"events": 300, "seed": 1, "vessels": 10}, 40),
]


def nanoseconds(time: str) -> int:
    moment = datetime.fromisoformat(time.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1000) * 1_000_000


def events_of(text: bytes) -> list[tuple[int, list[tuple[str, str, str]]]]:
    """The events of a generated stream, as pyoxigraph reads it."""
    times: dict[str, int] = {}
    graphs: dict[str, list[tuple[str, str, str]]] = {}
    for quad in ox.parse(text, format=ox.RdfFormat.N_QUADS):
        if isinstance(quad.graph_name, ox.DefaultGraph):
            times[str(quad.subject)] = nanoseconds(quad.object.value)
        else:
            s, p, o = map(str, quad.triple)
            graphs.setdefault(str(quad.graph_name), []).append((s, p, o))
    return [(times[name], triples) for name, triples in graphs.items()]


def background_of(text: bytes) -> dict[str, list[tuple[str, str, str]]]:
    graphs: dict[str, list[tuple[str, str, str]]] = {}
    for quad in ox.parse(text, format=ox.RdfFormat.N_QUADS):
        s, p, o = map(str, quad.triple)
        graphs.setdefault(str(quad.graph_name), []).append((s, p, o))
    return graphs


@pytest.mark.parametrize(
    ("name", "domain", "options", "triples"), QUERIES, ids=lambda x: str(x)[:2]
)
def test_the_papers_queries_find_in_files_what_they_mean(
    name: str,
    domain: ModuleType,
    options: dict[str, Any],
    triples: int,
    here: Path,
    capfd: Capture,
) -> None:
    texts = domain.make_streams(**options)
    for stream, text in texts.items():
        (here / f"{stream}.nq").write_bytes(text)
    arguments: list[str | Path] = [EXAMPLES / f"{name}.spaseq"]
    arguments += [word for stream in texts for word in ("--events", f"{stream}.nq")]
    known: dict[str, list[tuple[str, str, str]]] = {}
    if triples:
        (here / "background.nq").write_bytes(domain.make_background(triples, 1))
        known = background_of(domain.make_background(triples, 1))
        arguments += ["--background", "background.nq"]
    assert cernis("run", *arguments, "--output", "-") == 0
    out, err = capfd.readouterr()
    assert err == ""
    found = lines(out)
    assert all(list(one) == ["start_ts", "end_ts", "bindings", "events"] for one in found)
    query = parse((EXAMPLES / f"{name}.spaseq").read_text(encoding="utf-8"))
    events = {stream: events_of(text) for stream, text in texts.items()}
    got = {
        SpaseqMatch(
            nanoseconds(one["start_ts"]),
            nanoseconds(one["end_ts"]),
            tuple((stream, number) for stream, number in one["events"]),
            tuple(sorted(one["bindings"].items())),
        )
        for one in found
    }
    assert len(got) == len(found) > 0
    assert got == find_matches(query, events, known)
    assert cernis("run", *arguments, "--count") == 0
    assert capfd.readouterr().out == f"{len(found)}\n"


# ------------------------------------------------------------------------- output


def test_a_line_for_each_match(capfd: Capture) -> None:
    assert cernis("run", "pair.spaseq", "--events", "letters.nq", "--output", "-") == 0
    assert capfd.readouterr() == (
        (
            '{"start_ts":1,"end_ts":3,"bindings":{"a":"<http://example.org/a1>",'
            '"b":"<http://example.org/b1>"},"events":[["S",0],["S",2]]}\n'
            '{"start_ts":4,"end_ts":5,"bindings":{"a":"<http://example.org/a2>",'
            '"b":"<http://example.org/b2>"},"events":[["S",3],["S",4]]}\n'
        ),
        "",
    )


def test_what_is_unbound_is_not_in_the_line_and_lists_are_lists(here: Path, capfd: Capture) -> None:
    (here / "list.spaseq").write_text("""
        PREFIX : <http://example.org/>
        SELECT ?n (LIST(?b) AS ?all) FROM STREAM S <http://example.org/letters>
        WHERE { SEQ (A ; B+;)
          DEFINE GPM A ON S { ?a :is :A OPTIONAL { ?a :name ?n } } DEFINE GPM B ON S { ?b :is :B } }
    """)
    (here / "s.nq").write_text(
        event("e0", 1, "a1 is A", 'a1 name "x\\"y"@en')
        + event("e1", 2, "b1 is B")
        + event("e2", 3, "a2 is A")
        + event("e3", 4, "_:b is B")
    )
    assert cernis("run", "list.spaseq", "--events", "s.nq", "--output", "-") == 0
    assert [(m["bindings"], m["events"]) for m in lines(capfd.readouterr().out)] == [
        ({"n": '"x\\"y"@en', "all": [f"<{EX}b1>"]}, [["S", 0], ["S", 1]]),
        ({"all": ["_:f0.b"]}, [["S", 2], ["S", 3]]),
        ({"n": '"x\\"y"@en', "all": [f"<{EX}b1>", "_:f0.b"]}, [["S", 0], ["S", 1], ["S", 3]]),
    ]


def test_a_table_of_the_first_matches_is_shown(capfd: Capture) -> None:
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "--limit", "1") == 0
    assert [line.split() for line in capfd.readouterr().out.splitlines()] == [
        ["start_ts", "end_ts", "?a", "?b", "events"],
        ["1", "3", f"<{EX}a1>", f"<{EX}b1>", "S", "0,", "S", "2"],
        ["2", "matches;", "1", "more"],
    ]


def test_counts_and_limits(capfd: Capture) -> None:
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "--count") == 0
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "--count", "--limit", "1") == 0
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "-o", "-", "--limit", "0") == 0
    assert capfd.readouterr() == ("2\n1\n", "")


def test_parquet_has_a_column_for_each_variable(here: Path, capfd: Capture) -> None:
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "-o", "m.parquet") == 0
    assert capfd.readouterr() == ("", "wrote 2 matches to m.parquet\n")
    table = pq.read_table(here / "m.parquet")
    assert table.column_names == ["start_ts", "end_ts", "a", "b", "events"]
    assert table.slice(1).to_pylist() == [
        {
            "start_ts": 4,
            "end_ts": 5,
            "a": f"<{EX}a2>",
            "b": f"<{EX}b2>",
            "events": [{"stream": "S", "number": 3}, {"stream": "S", "number": 4}],
        }
    ]


def test_parquet_has_its_columns_also_where_nothing_matches(here: Path, capfd: Capture) -> None:
    (here / "none.nq").write_text("")
    assert cernis("run", "pair.spaseq", "-e", "none.nq", "-o", "m.parquet") == 0
    assert capfd.readouterr() == ("", "wrote 0 matches to m.parquet\n")
    table = pq.read_table(here / "m.parquet")
    assert table.column_names == ["start_ts", "end_ts", "a", "b", "events"]


def test_dates_are_shown_as_dates(here: Path, capfd: Capture) -> None:
    dated = LETTERS.replace("integer", "dateTime")
    for digit in "12345":
        dated = dated.replace(f'"{digit}"', f'"2024-01-02T10:00:0{digit}.5Z"')
    (here / "letters.nq").write_text(dated)
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "-o", "-", "--limit", "1") == 0
    [match] = lines(capfd.readouterr().out)
    assert (match["start_ts"], match["end_ts"]) == (
        "2024-01-02T10:00:01.5Z",
        "2024-01-02T10:00:03.5Z",
    )


def test_tumbling_windows_may_begin_at_a_date(here: Path, capfd: Capture) -> None:
    dated = LETTERS.replace("integer", "dateTime")
    for digit in "12345":
        dated = dated.replace(f'"{digit}"', f'"2024-01-02T10:00:0{digit}Z"')
    (here / "letters.nq").write_text(dated)
    window = 'WITHIN 2 SECONDS TUMBLING FROM "2024-01-02T12:00:02+02:00"'
    (here / "pair.spaseq").write_text(PAIR.replace("WITHIN 10 SECONDS", window))
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "-o", "-") == 0
    assert [match["events"] for match in lines(capfd.readouterr().out)] == [[["S", 3], ["S", 4]]]


# ---------------------------------------------------------------------- CONSTRUCT

ALARMS = """\
PREFIX : <http://example.org/>
CONSTRUCT { [] a :Alarm ; :about ?a } FROM STREAM S <http://example.org/letters>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is :A } DEFINE GPM B ON S { ?b :is :B } }
"""


def test_construct_writes_a_stream(here: Path, capfd: Capture) -> None:
    (here / "alarms.spaseq").write_text(ALARMS)
    assert cernis("run", "alarms.spaseq", "-e", "letters.nq", "-o", "alarms.nq") == 0
    assert capfd.readouterr() == ("", "wrote 2 matches to alarms.nq\n")
    assert (here / "alarms.nq").read_text() == (
        f'<urn:cernis:match:0> {PROV} "3"^^<{XSD}integer> .\n'
        f"_:m0xb0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EX}Alarm> "
        "<urn:cernis:match:0> .\n"
        f"_:m0xb0 <{EX}about> <{EX}a1> <urn:cernis:match:0> .\n"
        f'<urn:cernis:match:1> {PROV} "5"^^<{XSD}integer> .\n'
        f"_:m1xb0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EX}Alarm> "
        "<urn:cernis:match:1> .\n"
        f"_:m1xb0 <{EX}about> <{EX}a2> <urn:cernis:match:1> .\n"
    )


def test_another_query_reads_what_construct_has_written(here: Path, capfd: Capture) -> None:
    (here / "alarms.spaseq").write_text(ALARMS)
    (here / "twice.spaseq").write_text("""
        PREFIX : <http://example.org/>
        SELECT ?x ?y ?n FROM STREAM Alarms <http://example.org/alarms>
        FROM STREAM Letters <http://example.org/letters>
        WHERE { SEQ (A , L , B)
          DEFINE GPM A ON Alarms { [] a :Alarm ; :about ?x }
          DEFINE GPM L ON Letters { ?n :is :A }
          DEFINE GPM B ON Alarms { [] a :Alarm ; :about ?y } }
    """)
    assert cernis("run", "alarms.spaseq", "-e", "letters.nq", "-o", "alarms.nq") == 0
    assert cernis("run", "twice.spaseq", "-e", "letters.nq", "alarms.nq", "-o", "-") == 0
    assert lines(capfd.readouterr().out) == [
        {
            "start_ts": 3,
            "end_ts": 5,
            "bindings": {"x": f"<{EX}a1>", "y": f"<{EX}a2>", "n": f"<{EX}a2>"},
            "events": [["Alarms", 0], ["Letters", 3], ["Alarms", 1]],
        }
    ]


def test_only_construct_writes_graphs(capfd: Capture) -> None:
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "-o", "m.nq") == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "told by its suffix: .jsonl, .csv, .parquet or .arrow" in said


# ---------------------------------------------------------- which file is which stream

TWO = """\
PREFIX : <http://example.org/>
SELECT ?a ?b FROM STREAM First <http://example.org/ones> FROM STREAM Then <http://example.org/twos#>
WHERE { SEQ (A ; B) DEFINE GPM A ON First { ?a :is :A } DEFINE GPM B ON Then { ?b :is :B } }
"""


@pytest.mark.parametrize(
    ("names", "given"),
    [
        (("x.nq", "y.nq"), ("First=x.nq", "Then=y.nq")),
        (("x.nq", "y.nq"), ("Then=y.nq", "First=x.nq")),
        (("first.nq", "THEN.nq"), ("THEN.nq", "first.nq")),
        (("ones.nq", "twos.nq"), ("twos.nq", "ones.nq")),
        (("ones.nq", "then.nq"), ("then.nq", "ones.nq")),
        (("x.nq", "y.nq"), ("x.nq", "y.nq")),
        (("x.nq", "first.nq"), ("x.nq", "first.nq")),
    ],
    ids=[
        "by name",
        "by name in another order",
        "by the stem, whatever its case",
        "by the end of the IRI",
        "by either",
        "in their order",
        "in their order where a stem says nothing",
    ],
)
def test_a_file_is_found_its_stream(
    names: tuple[str, str], given: tuple[str, str], here: Path, capfd: Capture
) -> None:
    (here / "two.spaseq").write_text(TWO)
    (here / names[0]).write_text(event("e0", 1, "a1 is A"))
    (here / names[1]).write_text(event("e0", 2, "b1 is B"))
    assert cernis("run", "two.spaseq", "--events", *given, "-o", "-") == 0
    [match] = lines(capfd.readouterr().out)
    assert match["events"] == [["First", 0], ["Then", 0]]


def test_background_may_be_named_or_takes_the_name_of_the_only_graph(
    here: Path, capfd: Capture
) -> None:
    (here / "owners.spaseq").write_text("""
        PREFIX : <http://example.org/>
        SELECT ?a ?o FROM STREAM S <http://example.org/letters>
        WHERE { SEQ (A) DEFINE GPM A ON S { ?a :is :A GRAPH :db { ?a :owner ?o } } }
    """)
    (here / "kb.ttl").write_text("@prefix : <http://example.org/> . :a1 :owner :ann .")
    (here / "kb.nq").write_text(f"<{EX}a2> <{EX}owner> <{EX}bob> <{EX}db> .\n")
    for background in (["kb.ttl"], [f"{EX}db=kb.ttl"], ["kb.nq"], ["kb.ttl", "kb.nq"]):
        options = [word for file in background for word in ("--background", file)]
        assert cernis("run", "owners.spaseq", "-e", "letters.nq", *options, "--count") == 0
    assert capfd.readouterr().out == "1\n1\n1\n2\n"


def test_times_may_be_in_the_names_of_graphs_and_in_another_unit(
    here: Path, capfd: Capture
) -> None:
    text = "".join(line for line in LETTERS.splitlines(keepends=True) if PROV not in line)
    (here / "letters.nq").write_text(text)
    options = ("-e", "letters.nq", "--time", r"graph:e([0-9]+)$", "-o", "-")
    assert cernis("run", "pair.spaseq", *options) == 0
    assert [(m["start_ts"], m["end_ts"]) for m in lines(capfd.readouterr().out)] == [(0, 2), (3, 4)]
    (here / "pair.spaseq").write_text(PAIR.replace("10 SECONDS", "1 SECOND"))
    assert cernis("run", "pair.spaseq", *options, "--time-unit", "s") == 0
    assert [(m["start_ts"], m["end_ts"]) for m in lines(capfd.readouterr().out)] == [(3, 4)]


def test_trig_is_told_by_its_suffix_or_said(here: Path, capfd: Capture) -> None:
    (here / "letters.trig").write_text("""
        @prefix : <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
        :g1 { :a1 :is :A } :g2 { :b1 :is :B . :g2 prov:generatedAtTime 2 }
        :g1 prov:generatedAtTime 1 .
    """)
    (here / "letters.txt").write_text((here / "letters.trig").read_text())
    assert cernis("run", "pair.spaseq", "-e", "letters.trig", "--count") == 0
    assert cernis("run", "pair.spaseq", "-e", "letters.txt", "--format", "trig", "--count") == 0
    assert capfd.readouterr() == ("1\n1\n", "")


@pytest.mark.parametrize("name", ["nq", "nquads"])
def test_n_quads_have_two_names(name: str, here: Path, capfd: Capture) -> None:
    (here / "letters.txt").write_text(LETTERS)
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "--count") == 0
    assert cernis("run", "pair.spaseq", "-e", "letters.txt", "--format", name, "--count") == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == second


# --------------------------------------------------------------- check and explain


def test_a_query_without_mistakes_is_ok(capfd: Capture) -> None:
    assert cernis("check", "pair.spaseq") == 0
    assert cernis("check", PAIR, "--lang", "spaseq") == 0
    assert capfd.readouterr() == ("OK\nOK\n", "")


def test_explain_says_what_waits_for_what(capfd: Capture) -> None:
    assert cernis("explain", "pair.spaseq") == 0
    out = capfd.readouterr().out
    assert "reason       waiting for B (the first that fits): grouped by nothing\n" in out
    assert "             1() ; B → 2() ■\n" in out


def test_explain_tells_the_classes_apart(capfd: Capture) -> None:
    def explained(separator: str, condition: str = "", clause: str = "") -> str:
        query = f"""PREFIX : <http://example.org/>
            SELECT ?k FROM STREAM S <http://example.org/s> WHERE {{ SEQ (A {separator} B)
            DEFINE GPM A ON S {{ :a :of ?k ; :value ?v }}
            DEFINE GPM B ON S {{ :b :of ?k ; :value ?w {condition} }} }} {clause}"""
        assert cernis("explain", query, "--lang", "spaseq") == 0
        return capfd.readouterr().out

    assert "class        linked: all runs of a join key move at once" in explained(";")
    assert "class        ordered: " in explained(";", "FILTER (?w + 1 < ?v)")
    assert "class        residual: " in explained(",", "FILTER (?w < ?v)")
    assert "class        residual: " in explained(":", "FILTER (?w != ?v)")
    assert "class        residual: " in explained(":", "FILTER (?w < ?v * 2)")
    assert "spread by    ?k\n" in explained(";")
    assert "spread by    nothing: ',' counts the timestamps of all streams" in explained(",")
    assert "spread by    ?k\n" in explained(",", clause="PARTITION BY (?k)")


def test_explain_draws_the_automaton(capfd: Capture) -> None:
    assert cernis("explain", "pair.spaseq", "--mermaid") == 0
    assert capfd.readouterr().out == (
        "stateDiagram-v2\n    [*] --> q0 : A\n    q0 --> q1 : ; B\n    q1 --> [*]\n"
    )


# ------------------------------------------------------------------------ mistakes

TAIL = "DEFINE GPM A ON S { ?a :is :A } }"
MISTAKES_IN_QUERIES = {
    "an undeclared stream": (
        "WHERE { SEQ (A) DEFINE GPM A ON T { ?a :is :A } }",
        """\
error: q.spaseq, line 3, column 33: unknown stream 'T'
  WHERE { SEQ (A) DEFINE GPM A ON T { ?a :is :A } }
                                  ^
  expected: S
""",
    ),
    "an undeclared graph pattern": (
        f"WHERE {{ SEQ (A ; B) {TAIL}",
        """\
error: q.spaseq, line 3, column 18: unknown graph pattern 'B'
  WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is :A } }
                   ^
  expected: A
""",
    ),
    "an unknown prefix": (
        "WHERE { SEQ (A) DEFINE GPM A ON S { ?a ex:is :A } }",
        """\
error: q.spaseq, line 3, column 40: unknown prefix 'ex:'
  WHERE { SEQ (A) DEFINE GPM A ON S { ?a ex:is :A } }
                                         ^^^^^
  help: declare it before SELECT: PREFIX ex: <http://…>
""",
    ),
    "several mistakes at once": (
        "WHERE { SEQ (B) DEFINE GPM A ON T { ?a ex:is :A } }",
        """\
error: q.spaseq, line 3, column 14: unknown graph pattern 'B'
  WHERE { SEQ (B) DEFINE GPM A ON T { ?a ex:is :A } }
               ^
  expected: A
error: q.spaseq, line 3, column 33: unknown stream 'T'
  WHERE { SEQ (B) DEFINE GPM A ON T { ?a ex:is :A } }
                                  ^
  expected: S
error: q.spaseq, line 3, column 40: unknown prefix 'ex:'
  WHERE { SEQ (B) DEFINE GPM A ON T { ?a ex:is :A } }
                                         ^^^^^
  help: declare it before SELECT: PREFIX ex: <http://…>
""",
    ),
}
HEAD = "PREFIX : <http://example.org/>\nSELECT ?a FROM STREAM S <http://example.org/s>\n"


@pytest.mark.parametrize("mistake", MISTAKES_IN_QUERIES)
def test_a_mistake_in_a_query_says_what_is_wrong_and_where(
    mistake: str, here: Path, capfd: Capture
) -> None:
    text, message = MISTAKES_IN_QUERIES[mistake]
    (here / "q.spaseq").write_text(HEAD + text)
    assert cernis("run", "q.spaseq", "-e", "letters.nq") == 1
    assert capfd.readouterr() == ("", message)
    assert cernis("check", "q.spaseq") == 1
    assert capfd.readouterr() == ("", message)


def test_a_variable_that_no_step_binds(here: Path, capfd: Capture) -> None:
    (here / "pair.spaseq").write_text(PAIR.replace("SELECT ?a ?b", "SELECT ?a ?c"))
    assert cernis("run", "pair.spaseq", "-e", "letters.nq") == 1
    assert capfd.readouterr() == (
        "",
        """\
error: pair.spaseq, line 2, column 11: no step binds ?c
  SELECT ?a ?c WITHIN 10 SECONDS FROM STREAM S <http://example.org/letters>
            ^^
  expected: ?a or ?b
""",
    )


BROKEN = LETTERS.replace(f"<{EX}b1> <{EX}near> <{EX}a1>", f"<{EX}b1> near <{EX}a1>")
UNTIMED = LETTERS + f"<{EX}a3> <{EX}is> <{EX}A> <urn:later> .\n"
NO_TIMES = f"<{EX}a3> <{EX}is> <{EX}A> <urn:event> .\n"
BACKWARDS = LETTERS + event("e5", 2, "b3 is B")
TWICE = LETTERS + event("e5", 6, "b3 is B") + event("e5", 7, "b3 is B")
STRAY = LETTERS + f"<{EX}a3> <{EX}is> <{EX}A> .\n"
NO_TIME = LETTERS.replace(f'"2"^^<{XSD}integer>', '"soon"')

MISTAKES_IN_DATA = {
    "an event without a time": (
        UNTIMED,
        (
            "bad.nq, graph <urn:later> (event 5): the event has no time: no "
            "<http://www.w3.org/ns/prov#generatedAtTime> in it"
        ),
    ),
    "events without any times": (
        NO_TIMES,
        (
            "bad.nq, graph <urn:event> (event 0): the event has no time: none of "
            "<http://www.w3.org/ns/prov#generatedAtTime>, "
            "<http://www.w3.org/2006/time#inXSDDateTimeStamp>, "
            "<http://www.w3.org/2006/time#inXSDDateTime>, <http://www.w3.org/ns/sosa/resultTime>, "
            "<http://purl.oclc.org/NET/ssnx/ssn#observationResultTime>, no triple about the "
            "graph's own name with a time, no time in the name; say with --time (in Python "
            "time=) which property or part of the name it is"
        ),
    ),
    "what is no time": (
        NO_TIME,
        (
            'bad.nq, graph <urn:e1> (event 1): "soon" by '
            "<http://www.w3.org/ns/prov#generatedAtTime> is no time; write "
            '"soon"^^xsd:dateTime, or a number, or another property'
        ),
    ),
    "two times": (
        TWICE,
        (
            "bad.nq, graph <urn:e5> (event 5): the event has two times by "
            "<http://www.w3.org/ns/prov#generatedAtTime>: 6 and 7"
        ),
    ),
    "time that goes back": (
        BACKWARDS,
        (
            "bad.nq, graph <urn:e5> (event 5): time goes back: 2 comes after 5 "
            "of the graph <urn:e4>; sort the events of a stream by time"
        ),
    ),
    "a triple of no event": (
        STRAY,
        (
            f"bad.nq: a triple of the default graph is about no event: <{EX}a3> <{EX}is> <{EX}A> "
            ".; put it into the named graph of an event, or into background knowledge"
        ),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES_IN_DATA)
def test_a_mistake_in_the_data_says_what_is_wrong_and_where(
    mistake: str, here: Path, capfd: Capture
) -> None:
    text, message = MISTAKES_IN_DATA[mistake]
    (here / "bad.nq").write_text(text)
    assert cernis("run", "pair.spaseq", "-e", "bad.nq") == 1
    assert capfd.readouterr() == ("", f"error: {message}\n")


def test_a_line_that_is_no_quad_is_told_by_its_number(here: Path, capfd: Capture) -> None:
    (here / "bad.nq").write_text(BROKEN)
    assert cernis("run", "pair.spaseq", "-e", "bad.nq") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: bad.nq, line 7, column 25: ")
    assert cernis("run", "pair.spaseq", "-e", "bad.nq", "--on-error", "skip", "--count") == 0
    assert capfd.readouterr() == ("2\n", "note: S: 1 line or event was left out\n")


@pytest.mark.parametrize("mistake", MISTAKES_IN_DATA)
def test_mistakes_that_are_skipped_are_counted(mistake: str, here: Path, capfd: Capture) -> None:
    (here / "bad.nq").write_text(MISTAKES_IN_DATA[mistake][0])
    found = 0 if mistake == "events without any times" else 2
    options = ("-e", "bad.nq", "--on-error", "skip", "--count")
    assert cernis("run", "pair.spaseq", *options) == 0
    assert capfd.readouterr() == (f"{found}\n", "note: S: 1 line or event was left out\n")


def test_mistakes_may_be_set_aside(here: Path, capfd: Capture) -> None:
    (here / "bad.nq").write_text(BROKEN + event("e5", 2, "b3 is B"))
    options = ("-e", "bad.nq", "--on-error", "aside.jsonl", "--count")
    assert cernis("run", "pair.spaseq", *options) == 0
    assert capfd.readouterr() == ("2\n", "note: S: 2 lines or events were left out\n")
    aside = lines((here / "aside.jsonl").read_text())
    assert [(one["source"], one["row"], one["text"]) for one in aside] == [
        ("bad.nq", 7, f"<{EX}b1> near <{EX}a1> <urn:e2> ."),
        ("bad.nq", 5, "<urn:e5>"),
    ]


def test_trig_that_does_not_parse_cannot_be_skipped(here: Path, capfd: Capture) -> None:
    (here / "bad.trig").write_text("<urn:g> { <urn:a> <urn:b> }\n")
    options = ("-e", "bad.trig", "--on-error", "skip")
    assert cernis("run", "pair.spaseq", *options) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: bad.trig, line 1, column ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-e", "gone.nq"], "gone.nq: cannot be read: No such file or directory"),
        (
            ["-e", "T=letters.nq"],
            "the query has no stream 'T'; it has S",
        ),
        (
            ["-e", "letters.nq", "letters.nq"],
            "the query reads 1 stream (S), and there are 2 files; name them as NAME=FILE",
        ),
        (
            ["-e", "letters.nq", "--format", "csv"],
            "--format csv: RDF streams are nquads, trig or jsonld",
        ),
        (
            ["-e", "pair.spaseq"],
            (
                "no RDF format is known by the file name 'pair.spaseq'; expected one of .nq, .nt, "
                ".trig, .ttl, .n3, .jsonld (or with .gz), or a format that is given"
            ),
        ),
        (
            ["-e", "letters.nq", "--time", "graph:e"],
            (
                "the regular expression 'e' for times must have one group, the time; it has 0 "
                "(write (?:…) for those that only group)"
            ),
        ),
        (
            ["-e", "letters.nq", "--time", f"{EX}at"],
            (
                "letters.nq, graph <urn:e0> (event 0): the event has no time: no "
                "<http://example.org/at> in it"
            ),
        ),
        (
            ["-e", "letters.nq", "-b", "gone.ttl"],
            "gone.ttl: cannot be read: No such file or directory",
        ),
        (
            ["-e", "letters.nq", "-b", "a.ttl", "-b", f"{EX}db=b.ttl"],
            "name the graph of each file of background knowledge, as IRI=FILE, or of none",
        ),
        (["-e", "letters.nq", "-o", "no/m.jsonl"], "no/m.jsonl: there is no directory no"),
    ],
)
def test_a_mistake_in_the_arguments_says_what_is_wrong(
    arguments: list[str], message: str, capfd: Capture
) -> None:
    assert cernis("run", "pair.spaseq", *arguments) == 1
    assert capfd.readouterr() == ("", f"error: {message}\n")


def test_two_streams_need_two_files(here: Path, capfd: Capture) -> None:
    (here / "two.spaseq").write_text(TWO)
    assert cernis("run", "two.spaseq", "-e", "letters.nq") == 1
    assert cernis("run", "two.spaseq", "-e", "First=letters.nq") == 1
    assert capfd.readouterr().err == (
        "error: the query reads 2 streams (First, Then), and there is 1 file; name them as "
        "NAME=FILE\n"
        "error: no events for the stream Then: give a file for each of First, Then\n"
    )


@pytest.mark.parametrize(
    ("background", "loaded"), [([], "none"), ([f"{EX}other=kb.ttl"], f"<{EX}other>")]
)
def test_a_background_graph_that_nobody_gives_is_missed(
    background: list[str], loaded: str, here: Path, capfd: Capture
) -> None:
    (here / "kb.ttl").write_text(f"<{EX}a1> <{EX}owner> <{EX}ann> .")
    (here / "owners.spaseq").write_text("""
        PREFIX : <http://example.org/>
        SELECT ?a FROM STREAM S <http://example.org/letters>
        WHERE { SEQ (A) DEFINE GPM A ON S { ?a :is :A GRAPH :db { ?a :owner ?o } } }
    """)
    options = [word for file in background for word in ("--background", file)]
    assert cernis("run", "owners.spaseq", "-e", "letters.nq", *options) == 1
    assert capfd.readouterr() == (
        "",
        f"error: no background graph <{EX}db> is loaded (loaded: {loaded}): give a file for it\n",
    )


def test_background_is_for_rdf_queries(capfd: Capture) -> None:
    query = "SELECT * FROM S WHERE A"
    assert cernis("run", query, "-e", "letters.nq", "--background", "kb.ttl") == 2
    assert "Invalid value for --background: is for RDF queries" in capfd.readouterr().err


def test_without_the_rdf_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyoxigraph", None)
    assert cernis("run", "pair.spaseq", "-e", "letters.nq") == 1
    assert capfd.readouterr().err == (
        "error: RDF data needs pyoxigraph, which is not installed: pip install 'cernis[rdf]'\n"
    )
    assert cernis("check", "pair.spaseq") == 0


def test_a_named_form_goes_before_the_suffix_of_the_output(capfd: Capture, here: Any) -> None:
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", "-o", "found.txt") == 2
    assert "the form of the output is told by its suffix" in capfd.readouterr().err
    options = ["-o", "found.txt", "--output-format", "csv"]
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", *options) == 0
    assert Path("found.txt").read_text().startswith('"start_ts"')
    options = ["--output-format", "nq"]
    assert cernis("run", "pair.spaseq", "-e", "letters.nq", *options) == 1
    assert "only CONSTRUCT makes graphs; this query SELECTs" in capfd.readouterr().err
