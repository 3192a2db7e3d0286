"""Quads are those that pyoxigraph reads, in batches of any size; mistakes have a place."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.errors import DataError
from cernis.events.reading.mistakes import Mistakes
from cernis.rdf.reading.quads import Input, encode_quads, find_format, read_quads
from cernis.rdf.reading.terms import Terms

Row = tuple[str | None, ...]

TRIPLE = b"<http://x/a> <http://x/p> <http://x/b> .\n"


def read_rows(data: Input, terms: Terms | None = None, **options: Any) -> list[Row]:
    """Every quad as four texts; None is the default graph."""
    terms = Terms() if terms is None else terms
    found = []
    for quads in read_quads(data, terms, **options):
        columns = [terms.texts(column).to_pylist() for column in quads]
        found += list(zip(*columns, strict=True))
    return found


def parse_with_pyoxigraph(text: bytes, format: ox.RdfFormat) -> list[Row]:
    def write_term(term: Any) -> str | None:
        if isinstance(term, ox.DefaultGraph):
            return None
        return re.sub(r"^_:", "_:f0.", str(term))

    return [
        tuple(write_term(t) for t in (q.subject, q.predicate, q.object, q.graph_name))
        for q in ox.parse(text, format=format)
    ]


# ---------------------------------------------------------------- any quads

texts = st.text(st.characters(codec="utf-8"), max_size=8)
odd_texts = st.sampled_from(
    ['"', "\\", "\n\r\t", " . ", "<<(", ")>>", "_:b", "é\u2028\x7f\x01", "𝄞"]
)
iris = st.sampled_from(
    ["http://x/a", "http://x/b#c", "urn:a:1", "http://é.x/ü?q=1", "http://x/%20", "tag:,x"]
).map(ox.NamedNode)
blanks = st.sampled_from(["b", "b0", "1", "é", "a.b", "a-b"]).map(ox.BlankNode)
literals = st.one_of(
    (texts | odd_texts).map(ox.Literal),
    st.builds(
        lambda v, t: ox.Literal(v, language=t), texts | odd_texts, st.sampled_from(["en", "de-ch"])
    ),
    st.builds(lambda v, t: ox.Literal(v, datatype=t), texts | odd_texts, iris),
)
quads = st.builds(
    ox.Quad,
    iris | blanks,
    iris,
    iris | blanks | literals,
    iris | blanks | st.just(ox.DefaultGraph()),
)
between = st.sampled_from([b"", b"\n", b"# a comment\n", b"  \t\n", b'#"\n', b"\r\n"])


@st.composite
def line_files(draw: st.DrawFn) -> bytes:
    """N-Quads as people write them: comments, gaps, escapes, either end of line."""
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    lines = []
    for quad in draw(st.lists(quads, max_size=12)):
        line = ox.serialize([quad], format=ox.RdfFormat.N_QUADS).rstrip(b"\n")
        if "_:é".encode() not in line and draw(st.booleans()):
            line = b"".join(
                rb"\U%08X" % ord(c) if ord(c) > 127 and draw(st.booleans()) else c.encode()
                for c in line.decode()
            )
        line = draw(st.sampled_from([b"", b" ", b"\t"])) + line
        line += draw(st.sampled_from([b"", b" ", b" # end"]))
        lines.append(draw(between) + line + end)
    text = b"".join(lines)
    return text.removesuffix(end) if draw(st.booleans()) else text


@given(line_files(), st.integers(1, 40))
def test_n_quads_are_read_as_pyoxigraph_reads_them(text: bytes, batch: int) -> None:
    assert read_rows(text, batch=batch) == parse_with_pyoxigraph(text, ox.RdfFormat.N_QUADS)


@given(st.lists(quads, max_size=12), st.integers(1, 5))
def test_trig_is_read_as_pyoxigraph_reads_it(given_quads: list[ox.Quad], batch: int) -> None:
    text = ox.serialize(given_quads, format=ox.RdfFormat.TRIG)
    assert read_rows(text, format="trig", batch=batch) == parse_with_pyoxigraph(
        text, ox.RdfFormat.TRIG
    )


@given(st.lists(quads, max_size=12))
def test_the_text_of_a_term_is_that_of_pyoxigraph(given_quads: list[ox.Quad]) -> None:
    terms = Terms()
    list(encode_quads(given_quads, terms, batch=3))
    expected = {
        str(term).replace("_:", "_:f0.", 1) if isinstance(term, ox.BlankNode) else str(term)
        for quad in given_quads
        for term in (*quad.triple, quad.graph_name)
        if not isinstance(term, ox.DefaultGraph)
    }
    assert set(terms.texts(range(len(terms))).to_pylist()) == expected


# -------------------------------------------------------------------- files


def test_formats_are_known_by_the_name_of_the_file(tmp_path: Path) -> None:
    nothing = "<http://x/a> <http://x/p> <http://x/b>"
    files = {
        "a.nq": f"{nothing} .",
        "b.nt": f"{nothing} .",
        "c.ttl": "@prefix : <http://x/> . :a :p :b .",
        "d.TRIG": "@prefix : <http://x/> . { :a :p :b }",
        "e.n3": "@prefix : <http://x/> . :a :p :b .",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        for path in (tmp_path / name, str(tmp_path / f"{name}.gz")):
            assert read_rows(path) == [("<http://x/a>", "<http://x/p>", "<http://x/b>", None)]


def test_an_unknown_format_is_named_with_those_that_are_known() -> None:
    with pytest.raises(DataError, match=r"file name 'a\.json'; expected one of \.nq, \.nt, \.trig"):
        find_format("a.json")
    with pytest.raises(DataError, match="format 'xml'"):
        find_format(b"", "xml")


def test_a_file_that_is_not_there_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.nq: cannot be read: No such file"):
        read_quads(tmp_path / "none.nq", Terms())


@pytest.mark.parametrize("name", ["a.nq.gz", "a.trig.gz"])
def test_a_broken_archive_is_an_error_with_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TRIPLE * 10_000)[:150])
    with pytest.raises(DataError, match=re.escape(f"{path}: cannot be read")):
        read_rows(path)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    mark = b"\xef\xbb\xbf"
    assert len(read_rows(mark + TRIPLE)) == len(read_rows(mark + TRIPLE, format="ttl")) == 1
    assert read_rows(mark) == read_rows(b"") == []


def test_open_files_are_read_as_well() -> None:
    assert len(read_rows(io.BytesIO(TRIPLE * 3), batch=1)) == 3


def test_a_line_longer_than_a_batch_is_one_line() -> None:
    line = b'<http://x/a> <http://x/p> "%s" .\n' % (b"x" * 10_000)
    assert len(read_rows(line + TRIPLE + line, batch=1)) == 3


def test_old_ends_of_lines_are_ends_of_lines() -> None:
    text = (TRIPLE * 30).replace(b"\n", b"\r")
    assert len(read_rows(text, batch=1)) == 30
    with pytest.raises(DataError, match="line 31, column"):
        read_rows(text + b"what", batch=1)


# -------------------------------------------------------------- blank nodes


def test_blank_nodes_of_two_files_are_never_the_same() -> None:
    terms = Terms()
    text = b"_:b <http://x/p> _:b _:b ."
    assert read_rows(text, terms) == [("_:f0.b", "<http://x/p>", "_:f0.b", "_:f0.b")]
    assert read_rows(text, terms) == [("_:f1.b", "<http://x/p>", "_:f1.b", "_:f1.b")]
    assert read_rows(text, terms, scope="mine")[0][0] == "_:mine.b"


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_nodes_without_a_label_get_the_same_names_each_time(batch: int) -> None:
    text = b"@prefix : <http://x/> . :g { :a :p [ :q [] ] . _:x :p ( 1 2 ) } :h { _:x :p [] }"
    first = read_rows(text, format="trig", batch=batch)
    assert first == read_rows(text, format="trig", batch=100)
    found = {text for row in first for text in row if text and text.startswith("_:")}
    assert found == {"_:f0.x", *(f"_:f0-{i}" for i in range(5))}


def test_triple_terms_are_terms_and_their_blank_nodes_are_renamed() -> None:
    term = '<<( _:a <http://x/p> <<( <http://x/_:b> <http://x/p> "_:c \\")>>"@en )>> )>>'
    [row] = read_rows(f"<http://x/a> <http://x/p> {term} <http://x/g> .".encode())
    assert row == ("<http://x/a>", "<http://x/p>", term.replace("_:a", "_:f0.a"), "<http://x/g>")


# ----------------------------------------------------------------- mistakes


def test_a_bad_line_is_named_by_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "power.nq"
    path.write_bytes(
        b"# head\n" + TRIPLE + b"<http://x/a> <http://x/p q> <http://x/b> .\n" + TRIPLE
    )
    with pytest.raises(DataError) as caught:
        read_rows(path)
    assert str(caught.value) == f"{path}, line 3, column 14: Invalid IRI code point ' '"


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_line_numbers_count_across_batches(batch: int) -> None:
    with pytest.raises(DataError, match="input, line 501, column 13: Unexpected end"):
        read_rows(TRIPLE * 500 + b"<http://x/a>\n" + TRIPLE, batch=batch)


BAD = [
    b'<http://x/a> <http://x/p> "never closed .',
    b"<http://x/a>",
    b"<http://x/a> <http://x/p>",
    b"<http://x/a> <http://x/p> <http://x/b> . <http://x/a> <http://x/p> <http://x/b> .",
    b"<http://x/a> <http://x/p> <http://x/b> <http://x/g> <http://x/g> .",
    b'<http://x/a> <http://x/p> "\xff" .',
    b'<http://x/a> <http://x/p> "\\q" .',
    b"<a> <http://x/p> <http://x/b> .",
    b'"a" <http://x/p> <http://x/b> .',
    b"{",
]


@given(
    st.lists(st.sampled_from([*BAD, TRIPLE.rstrip(), b"", b"# c"]), max_size=12), st.integers(1, 9)
)
def test_skipping_leaves_out_exactly_the_bad_lines(lines: list[bytes], batch: int) -> None:
    aside: list[dict[str, Any]] = []
    mistakes = Mistakes(aside.append)
    found = read_rows(b"\n".join(lines), mistakes=mistakes, batch=batch)
    assert len(found) == lines.count(TRIPLE.rstrip())
    assert [bad["row"] for bad in aside] == [i + 1 for i, x in enumerate(lines) if x in BAD]
    assert mistakes.skipped == {"input": len(aside)}


def test_thousands_of_bad_lines_are_counted() -> None:
    mistakes = Mistakes("skip")
    assert len(read_rows((b"what\n" + TRIPLE) * 5000, mistakes=mistakes)) == 5000
    assert mistakes.skipped == {"input": 5000}


def test_turtle_in_a_file_of_lines_is_recognized() -> None:
    with pytest.raises(DataError, match=r"line 1, column 1: .* looks like Turtle or TriG"):
        read_rows(b"@prefix : <http://x/> .\n:a :p :b .\n")


def test_a_mistake_in_trig_is_fatal_and_has_its_line() -> None:
    text = b"@prefix : <http://x/> .\n:g { :a :p :b .\n :a :p }\n"
    with pytest.raises(DataError, match=r"plant, line 3, column 8: .*"):
        read_rows(text, format="trig", label="plant", mistakes=Mistakes("skip"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("length", [200, 203, 1000])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_line_that_is_too_long_is_named_and_can_be_skipped(
    length: int, end: bytes, is_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERNIS_LONGEST_RECORD", "200")
    triple = TRIPLE.rstrip()
    long = b"<http://x/a> <http://x/p> <http://x/" + b"b" * length
    long = long[: length - 3] + b"> ."
    lines = end.join([triple, triple, long] if is_last else [triple, triple, long, triple, b""])
    good = 3 if is_last else 4
    if length == 200:
        assert len(read_rows(lines)) == good
        return
    with pytest.raises(DataError) as raised:
        read_rows(lines, label="s.nq")
    assert str(raised.value) == (
        "s.nq, line 3: the record is longer than 200 bytes (CERNIS_LONGEST_RECORD allows more)"
    )
    mistakes = Mistakes("skip")
    assert len(read_rows(lines, label="s.nq", mistakes=mistakes)) == good - 1
    assert mistakes.skipped == {"s.nq": 1}
