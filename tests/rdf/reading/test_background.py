"""Background knowledge: files, stores and names of graphs."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.errors import DataError
from cernis.rdf.reading.background import Triples, load_background, read_graphs
from cernis.rdf.reading.terms import Terms

DB = "http://x/db"

names = st.sampled_from([ox.NamedNode(f"http://x/{name}") for name in "abc"])
nodes = names | st.integers(0, 3).map(ox.Literal) | st.just(ox.BlankNode("b"))
graphs = st.sampled_from([ox.DefaultGraph(), ox.NamedNode(DB), ox.NamedNode("http://x/other")])
quads = st.builds(ox.Quad, names, names, nodes, graphs)


def write_graphs(found: dict[int, Triples], terms: Terms) -> dict[str, set[tuple[str, ...]]]:
    """Graphs as sets of texts, after a look at their order."""
    result = {}
    for name, triples in found.items():
        codes = list(zip(triples.p.tolist(), triples.s.tolist(), triples.o.tolist(), strict=True))
        assert codes == sorted(set(codes))
        texts = [terms.texts(column).to_pylist() for column in triples]
        result[terms.text(name)] = set(zip(*texts, strict=True))
        assert len(result[terms.text(name)]) == triples.size
    return result


def expect_graphs(given_quads: list[ox.Quad], scope: str = "f0") -> dict[str, set[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {f"<{DB}>": set()}
    for quad in given_quads:
        name = f"<{DB}>" if quad.graph_name == ox.DefaultGraph() else str(quad.graph_name)
        texts = tuple(str(term).replace("_:", f"_:{scope}.") for term in quad.triple)
        found.setdefault(name, set()).add(texts)
    return found


@given(st.lists(quads, max_size=30))
def test_graphs_are_sorted_sets_from_whichever_source(given_quads: list[ox.Quad]) -> None:
    lines = ox.serialize(given_quads, format=ox.RdfFormat.N_QUADS)
    trig = ox.serialize(given_quads, format=ox.RdfFormat.TRIG)
    store = ox.Store()
    store.extend(given_quads)
    for source, format in ((lines, None), (trig, "trig"), (store, None)):
        terms = Terms()
        found = load_background({DB: source}, terms, format=format)
        assert write_graphs(found, terms) == expect_graphs(given_quads)


def test_what_several_sources_say_about_a_graph_is_put_together(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("@prefix : <http://x/> . :a :p :b , :c .")
    (tmp_path / "b.nt").write_text("<http://x/a> <http://x/p> <http://x/b> .")
    (tmp_path / "c.nq").write_text(f"<http://x/d> <http://x/p> _:n <{DB}> .")
    terms = Terms()
    one = load_background({DB: [tmp_path / "a.ttl", tmp_path / "b.nt", tmp_path / "c.nq"]}, terms)
    assert write_graphs(one, terms) == {
        f"<{DB}>": {
            ("<http://x/a>", "<http://x/p>", "<http://x/b>"),
            ("<http://x/a>", "<http://x/p>", "<http://x/c>"),
            ("<http://x/d>", "<http://x/p>", "_:f2.n"),
        }
    }


def test_quads_bring_their_names() -> None:
    terms = Terms()
    found = load_background(b"<urn:a> <urn:p> <urn:b> <urn:g> .", terms)
    assert list(write_graphs(found, terms)) == ["<urn:g>"]


def test_triples_without_a_name_for_their_graph_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<urn:a> <urn:p> <urn:b> .")
    with pytest.raises(DataError, match=r"a\.nt: a triple is in no named graph: <urn:a> <urn:p>"):
        load_background([tmp_path / "a.nt"], Terms())


def test_a_graph_that_was_named_is_there_even_if_it_is_empty() -> None:
    terms = Terms()
    assert write_graphs(read_graphs(b"", terms, name=DB), terms) == {f"<{DB}>": set()}


def test_a_bad_line_is_fatal_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> .")
    with pytest.raises(DataError, match=r"a\.nt, line 2, column"):
        load_background({DB: tmp_path / "a.nt"}, Terms())


def test_a_name_must_be_an_iri() -> None:
    with pytest.raises(DataError, match=r"'my graph' is no name of a graph: .*expected an IRI"):
        load_background({"my graph": b""}, Terms())
