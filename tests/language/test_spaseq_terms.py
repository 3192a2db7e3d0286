"""Terms of SPAseQ have the text that pyoxigraph gives them, so that data and queries agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.languages.spaseq import parse
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.terms import XSD, read_iri, write_literal

ox = pytest.importorskip("pyoxigraph")

characters = st.characters(exclude_categories=["Cs"])
texts = st.text(
    st.one_of(characters, st.sampled_from("\"'\\\t\n\r\b\f\0\x7f\x85\u2028\ufffe\uffff@^<>")),
    max_size=8,
)
datatypes = st.sampled_from([f"{XSD}{name}" for name in ("integer", "string", "dateTime")])


def theirs(turtle: str) -> str:
    """The object of one triple, as pyoxigraph reads and writes it."""
    text = f"PREFIX : <http://e/> PREFIX xsd: <{XSD}> <http://e/s> <http://e/p> {turtle} ."
    (quad,) = ox.parse(input=text, format=ox.RdfFormat.TURTLE)
    return str(quad.object)


def ours(written: str, prologue: str = "PREFIX : <http://e/>") -> str:
    query = parse(
        f"{prologue} SELECT * FROM STREAM S <http://e/s> WHERE {{ SEQ (A)"
        f" DEFINE GPM A ON S {{ ?s ?p {written} . }} }}"
    )
    pattern = query.gpms[0].pattern
    assert isinstance(pattern, g.BasicPattern)
    (triple,) = pattern.triples
    assert isinstance(triple.object, g.Term)
    return triple.object.text


@given(texts)
def test_plain_strings_are_escaped_as_in_the_data(value: str) -> None:
    assert write_literal(value) == str(ox.Literal(value))


@given(texts, datatypes)
def test_typed_strings_are_escaped_as_in_the_data(value: str, datatype: str) -> None:
    expected = str(ox.Literal(value, datatype=ox.NamedNode(datatype)))
    assert write_literal(value, datatype=datatype) == expected


@given(texts, st.sampled_from(["en", "de-AT", "zh-Hans-CN"]))
def test_languages_are_in_small_letters_as_in_the_data(value: str, language: str) -> None:
    assert write_literal(value, language=language) == str(ox.Literal(value, language=language))


@given(texts)
def test_what_is_written_is_read_back(value: str) -> None:
    text = write_literal(value)
    assert ours(text) == text == theirs(text)


@pytest.mark.parametrize(
    "written",
    [
        "5", "-5", "+5.0", "1.5e3", "-.5E-1", "true", "false", "'a'", '"""a\n"b"""', "'''a\\''''",
        r'"\u00e9\U0001F600\b\f\'"', '"a"@EN-us', '"5"^^xsd:byte', '"a"^^xsd:string', ":a.b", ":",
        r":a\-b\,c", ":a%2Fb", ":a:b", ":1é-", "<http://e/é?q#f>", r"<http://e/\u00e9>",
        "'\u2028\x85'", "'\ufeff'",
    ],
)  # fmt: skip
def test_every_way_to_write_a_term_means_the_same(written: str) -> None:
    assert ours(written) == theirs(written)


@pytest.mark.parametrize(
    "base", ["http://a/b/c/d;p?q", "http://a", "http://a/b/", "http://a/b?c/d"]
)
@pytest.mark.parametrize(
    "reference",
    [
        "", "g", "./g", "g/", "/g", "//g", "?y", "g?y", "#s", "g#s", "g?y#s", ";x", "g;x", ".",
        "./", "..", "../", "../g", "../..", "../../", "../../g", "../../../g", "../../../../g",
        "/./g", "/../g", "g.", ".g", "g..", "..g", "./../g", "./g/.", "g/./h", "g/../h",
        "g;x=1/./y", "g;x=1/../y", "g?y/./x", "g?y/../x", "g#s/./x", "g#s/../x", "a//b/../c",
    ],
)  # fmt: skip
def test_relative_iris_are_resolved_as_in_the_data(base: str, reference: str) -> None:
    text = f"BASE <{base}> <http://e/s> <http://e/p> <{reference}> ."
    (quad,) = ox.parse(input=text, format=ox.RdfFormat.TURTLE)
    assert read_iri(f"<{reference}>", base) == quad.object.value
    assert ours(f"<{reference}>", f"BASE <{base}>") == str(quad.object)
