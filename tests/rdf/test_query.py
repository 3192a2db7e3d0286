"""SPAseQ in Python: queries, runs, and matches in all their forms."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

import cernis
from cernis.rdf.matches import GraphMatch
from cernis.rdf.reading.times import TimeRule

ox = pytest.importorskip("pyoxigraph")

EX = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
QUERY = """
PREFIX : <http://example.org/>
SELECT ?k (LIST(?b) AS ?bs) FROM STREAM S <http://example.org/s>
WHERE { SEQ (A ; B+;) DEFINE GPM A ON S { ?a :is :A ; :of ?k } DEFINE GPM B ON S { ?b :is :B } }
"""


def event(name: str, *triples: str) -> bytes:
    """An event whose time is in its name."""
    lines = []
    for triple in triples:
        terms = " ".join(f"<{EX}{term}>" for term in triple.split())
        lines.append(f"{terms} <urn:event:{name}> .\n")
    return "".join(lines).encode()


STREAM = (
    event("1", "a1 is A", "a1 of x")
    + event("2", "b1 is B")
    + event("4", "a2 is A", "a2 of y")
    + event("7", "b2 is B")
)


@pytest.fixture
def matches() -> cernis.GraphMatches:
    return cernis.query(QUERY, lang="spaseq").run(STREAM)


def test_a_match_has_times_bindings_and_events(matches: cernis.GraphMatches) -> None:
    x, y, b1, b2 = (f"<{EX}{name}>" for name in ("x", "y", "b1", "b2"))
    assert list(matches) == [
        GraphMatch(1, 2, {"k": x, "bs": [b1]}, (("S", 0), ("S", 1))),
        GraphMatch(4, 7, {"k": y, "bs": [b2]}, (("S", 2), ("S", 3))),
        GraphMatch(1, 7, {"k": x, "bs": [b1, b2]}, (("S", 0), ("S", 1), ("S", 3))),
    ]
    assert repr(matches) == "<3 matches>"


def test_matches_are_arrow(matches: cernis.GraphMatches) -> None:
    table = matches.to_arrow()
    assert table.schema == matches.schema
    assert table.schema.names == ["start_ts", "end_ts", "k", "bs", "events"]
    assert table.column("end_ts").to_pylist() == [2, 7, 7]
    assert pa.table(matches).equals(table)
    assert matches.to_pandas(limit=2)["k"].tolist() == [f"<{EX}x>", f"<{EX}y>"]


def test_matches_are_lines_of_json(matches: cernis.GraphMatches, tmp_path: Path) -> None:
    assert matches.write_jsonl(tmp_path / "m.jsonl") == 3
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {
        "start_ts": 4,
        "end_ts": 7,
        "bindings": {"k": f"<{EX}y>", "bs": [f"<{EX}b2>"]},
        "events": [["S", 2], ["S", 3]],
    }
    file = io.BytesIO()
    assert matches.write_jsonl(file, limit=1) == 1
    assert file.getvalue().decode() == lines[0] + "\n"


def test_variables_may_have_the_names_of_columns() -> None:
    query = cernis.query(
        """SELECT ?start_ts ?events ?events_ FROM STREAM S <http://example.org/s>
        WHERE { SEQ (A) DEFINE GPM A ON S { ?start_ts ?events ?events_ } }""",
        lang="spaseq",
    )
    matches = query.run(event("1", "a b c"))
    bound = {"start_ts": f"<{EX}a>", "events": f"<{EX}b>", "events_": f"<{EX}c>"}
    assert list(matches) == [GraphMatch(1, 1, bound, (("S", 0),))]
    assert matches.to_arrow().column_names == [
        *("start_ts", "end_ts", "start_ts_", "events__", "events_", "events"),
    ]
    file = io.BytesIO()
    matches.write_jsonl(file)
    assert json.loads(file.getvalue())["bindings"] == bound


def test_nothing_found_is_an_answer_too() -> None:
    nothing = cernis.query(QUERY, lang="spaseq").run(b"")
    assert (nothing.count(), list(nothing), nothing.head(), nothing.sample(3)) == (0, [], [], [])
    assert nothing.to_arrow().num_rows == 0
    assert nothing.write_jsonl(io.BytesIO()) == 0


def test_only_construct_has_graphs(matches: cernis.GraphMatches) -> None:
    with pytest.raises(cernis.CernisError, match="only a CONSTRUCT query has graphs to write"):
        matches.write_nquads(io.BytesIO())


def test_a_query_is_written_as_text_that_reads_the_same() -> None:
    query = cernis.query(QUERY, lang="spaseq")
    again = cernis.query(str(query), lang="spaseq")
    assert again.query == query.query
    assert repr(query).startswith("cernis.query('SELECT ?k")


def test_times_may_be_said_for_each_stream() -> None:
    query = cernis.query(
        """PREFIX : <http://example.org/>
        SELECT ?a ?b FROM STREAM S <http://example.org/s> FROM STREAM T <http://example.org/t>
        WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is :A } DEFINE GPM B ON T { ?b :is :B } }""",
        lang="spaseq",
    )
    timed = f'<{EX}b1> <{EX}at> "2.5"^^<{XSD}decimal> <urn:later> .\n'.encode()
    streams = {"S": event("1", "a1 is A"), "T": event("x", "b1 is B").replace(b"event:x", b"later")}
    streams["T"] += timed
    rules = {"S": TimeRule(pattern="([0-9])$", unit="s"), "T": TimeRule(f"{EX}at", unit="s")}
    [match] = query.run(streams, time=rules, time_unit="ms")
    assert (match.start_ts, match.end_ts) == (1000, 2500)


def test_dates_are_datetimes() -> None:
    dated = STREAM.replace(b":event:", b":event:2024-01-02T00:00:0")
    dated = b"".join(line.replace(b"> .", b"Z> .") for line in dated.splitlines(keepends=True))
    [match, *_] = cernis.query(QUERY, lang="spaseq").run(dated)
    assert match.start_ts.isoformat() == "2024-01-02T00:00:01+00:00"


def test_numbers_are_told_in_their_unit() -> None:
    [match, *_] = cernis.query(QUERY, lang="spaseq").run(STREAM, time_unit="s")
    assert match.start_ts == 1


def test_the_streams_must_be_those_of_the_query() -> None:
    query = cernis.query(QUERY, lang="spaseq")
    with pytest.raises(cernis.DataError, match="the query has no stream 'T'; it has S"):
        query.run({"T": STREAM})
    with pytest.raises(cernis.DataError, match="reads 1 stream"):
        query.run([STREAM, STREAM])
    with pytest.raises(cernis.DataError, match="int is no RDF: give files or bytes"):
        query.run(5)


def test_a_stream_may_be_an_open_file(tmp_path: Path) -> None:
    (tmp_path / "s.nq").write_bytes(STREAM)
    with open(tmp_path / "s.nq", "rb") as file:
        assert cernis.query(QUERY, lang="spaseq").run(file).count() == 3
    assert cernis.query(QUERY, lang="spaseq").run({"S": io.BytesIO(STREAM)}).count() == 3


def test_bad_lines_may_be_given_to_a_function() -> None:
    bad: list[dict[str, object]] = []
    query = cernis.query(QUERY, lang="spaseq")
    session = query.session(on_error=bad.append)
    assert session.collect({"S": STREAM + b"nonsense\n"}).count() == 3
    assert [(one["source"], one["row"], one["text"]) for one in bad] == [("S", 7, "nonsense")]
    assert session.notes == ["S: 1 line or event was left out"]


def test_events_and_batches_are_counted() -> None:
    session = cernis.query(QUERY, lang="spaseq").session()
    assert sum(found.count() for found in session.stream({"S": STREAM})) == 3
    assert session.events == 4


def test_patterns_find_the_time_in_the_default_graph() -> None:
    text = """
        PREFIX prov: <http://www.w3.org/ns/prov#>
        SELECT ?t FROM STREAM S <http://example.org/s>
        WHERE { SEQ (A) DEFINE GPM A ON S { ?e prov:generatedAtTime ?t } }
    """
    time = f'"5"^^<{XSD}integer>'
    stream = f"<urn:event:x> <http://www.w3.org/ns/prov#generatedAtTime> {time} .\n".encode()
    [match] = cernis.query(text, lang="spaseq").run(stream + event("x", "a1 is A"))
    assert match.bindings == {"t": time}


def test_a_match_without_a_triple_makes_no_graph() -> None:
    text = """
        PREFIX : <http://example.org/>
        CONSTRUCT { ?a :of ?k } FROM STREAM S <http://example.org/s>
        WHERE { SEQ (A) DEFINE GPM A ON S { ?a :is :A OPTIONAL { ?a :of ?k } } }
    """
    query, file = cernis.query(text, lang="spaseq"), io.BytesIO()
    stream = event("1", "a1 is A") + event("2", "a2 is A", "a2 of x")
    assert query.run(stream).write_nquads(file) == 2
    assert file.getvalue().decode() == (
        f'<urn:cernis:match:1> <http://www.w3.org/ns/prov#generatedAtTime> "2"^^<{XSD}integer> .\n'
        f"<{EX}a2> <{EX}of> <{EX}x> <urn:cernis:match:1> .\n"
    )
    again = cernis.query(
        text.replace("?a :is :A OPTIONAL { ?a :of ?k }", "?a :of ?k"), lang="spaseq"
    )
    assert again.run(file.getvalue()).count() == 1


def test_formats_have_the_same_names_as_on_the_command_line() -> None:
    query = cernis.query(QUERY, lang="spaseq")
    assert query.run(STREAM, format="nquads").count() == query.run(STREAM, format="nq").count() == 3


def test_six_shared_variables_may_be_unbound() -> None:
    several = " ".join(f"OPTIONAL {{ ?x :p{i} ?v{i} }}" for i in range(6))
    text = f"""
        PREFIX : <http://example.org/>
        SELECT ?x FROM STREAM S <http://example.org/s>
        WHERE {{ SEQ (A ; A) DEFINE GPM A ON S {{ ?x :is :A {several} }} }}
    """
    stream = (
        event("1", "a is A", "a p0 one", "a p5 one")
        + event("2", "a is A", "a p0 two")
        + event("3", "a is A", "a p5 one", "a p1 two")
    )
    found = cernis.query(text, lang="spaseq").run(stream)
    assert [match.events for match in found] == [(("S", 1), ("S", 2)), (("S", 0), ("S", 2))]


def test_a_store_that_rewrites_numbers_is_noted_and_a_dataset_keeps_them() -> None:
    text = """
        PREFIX : <http://example.org/>
        SELECT ?k FROM STREAM S <http://example.org/s>
        WHERE { SEQ (A) DEFINE GPM A ON S { ?a :at ?v GRAPH :kb { ?k :limit ?v } } }
    """
    query, two = cernis.query(text, lang="spaseq"), f'"2.0"^^<{XSD}decimal>'
    stream = f"<{EX}a> <{EX}at> {two} <urn:event:1> .".encode()
    known = list(ox.parse(f"<{EX}k> <{EX}limit> {two} .", format=ox.RdfFormat.N_TRIPLES))
    exact = query.run(stream, background=ox.Dataset(known))
    assert (exact.count(), exact.notes) == (1, ())
    store = ox.Store()
    store.extend(known)
    note, blamed = query.run(stream, background=store).notes
    assert note == (
        "the background is a pyoxigraph.Store, which does not keep how numbers and times are "
        "written: 2.0 is 2 in it, and does not join the 2.0 of an event; give the file or a "
        "pyoxigraph.Dataset"
    )
    names = ox.Store()
    names.extend(ox.parse(f"<{EX}k> <{EX}limit> <{EX}v> .", format=ox.RdfFormat.N_TRIPLES))
    assert query.run(stream, background=names).notes == (blamed,)
    assert "nothing can match: no event satisfies the graph pattern A" in blamed


def test_the_graphs_of_a_query_are_the_stream_of_another() -> None:
    first = cernis.query(
        QUERY.replace("SELECT ?k (LIST(?b) AS ?bs)", "CONSTRUCT { ?k :has ?b }"), lang="spaseq"
    )
    second = cernis.query(
        """PREFIX : <http://example.org/> SELECT ?k ?b FROM STREAM found <http://example.org/found>
        WHERE { SEQ (A) DEFINE GPM A ON found { ?k :has ?b } }""",
        lang="spaseq",
    )
    matches = first.run(STREAM)
    file = io.BytesIO()
    matches.write_nquads(file)
    assert matches.open_nquads().read() == file.getvalue()
    pieces = matches.open_nquads()
    assert b"".join(iter(lambda: pieces.read(7), b"")) == file.getvalue()
    wanted = list(second.run(file.getvalue()))
    assert len(wanted) == 3
    assert list(second.run(matches)) == list(second.run({"found": matches})) == wanted
    session, found = second.session(), []
    half = first.run(STREAM[: STREAM.index(b"<http://example.org/a2>")])
    found += session.push({"found": half.open_nquads()})
    found += session.finish()
    assert found == wanted[: half.count()]


def test_only_construct_can_be_read_as_a_stream(matches: cernis.GraphMatches) -> None:
    with pytest.raises(cernis.CernisError, match="only a CONSTRUCT query has graphs to read"):
        cernis.query(QUERY, lang="spaseq").run(matches)
