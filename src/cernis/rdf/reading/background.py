"""Background knowledge: named graphs that do not change, encoded and sorted.

The paper's G_D. Triples come from files, or from a dataset or store of pyoxigraph's; each graph
becomes three arrays of codes in order of (p, s, o), without repetition. Events have the same order,
so that one search serves both.

Cost: reading (`cernis.rdf.reading.quads`) and one sort: a million triples take some three seconds.
Memory is 12 bytes a triple besides the terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import DataError
from cernis.languages.spaseq.terms import XSD
from cernis.rdf.reading.quads import Input, Quads, encode_quads, import_oxigraph, read_quads
from cernis.rdf.reading.tags import INTEGERS
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms

Graphs = dict[int, "Triples"]

_NUMBERS = "|".join((*INTEGERS, "decimal", "double", "float"))
_REWRITTEN = rf'"\^\^<{re.escape(XSD)}(?:{_NUMBERS}|boolean|dateTime|time|duration)>$'
"""The literals that a store of pyoxigraph's writes anew."""


class Triples(NamedTuple):
    """A graph: its triples in order of (p, s, o), none twice."""

    s: Codes
    p: Codes
    o: Codes

    @property
    def size(self) -> int:
        return len(self.s)


def load_background(
    sources: Mapping[str, Any] | Sequence[Input] | Input | Any,
    terms: Terms,
    *,
    format: str | None = None,
) -> Graphs:
    """Return all graphs of some sources, by the code of their name.

    A source is a file, bytes, an open binary file, a `pyoxigraph.Dataset` or a `pyoxigraph.Store`
    (see `explain_stores`). With a mapping, its keys name the graphs for triples without a graph;
    otherwise there must be no such triples.
    Graphs of the same name are merged; None has none.

    >>> terms = Terms()
    >>> graphs = load_background({"http://x/db": b"<urn:a> <urn:p> <urn:b> ."}, terms)
    >>> [(terms.text(name), graph.size) for name, graph in graphs.items()]
    [('<http://x/db>', 1)]
    """
    if sources is None:
        return {}
    if isinstance(sources, Mapping):
        pairs = [(name, source) for name, given in sources.items() for source in _as_list(given)]
        return merge_graphs(read_graphs(s, terms, name=n, format=format) for n, s in pairs)
    return merge_graphs(read_graphs(s, terms, format=format) for s in _as_list(sources))


def explain_stores(sources: Any, terms: Terms) -> list[str]:
    """Return a note if a store among the sources may have rewritten some of the terms.

    A store keeps the values of literals, not their texts, and variables join texts. The texts are
    lost before Cernis sees the store, so the user has to be told.
    """
    given = sources.values() if isinstance(sources, Mapping) else (sources,)
    kind = import_oxigraph().Store
    if not any(isinstance(source, kind) for one in given for source in _as_list(one)):
        return []
    texts = terms.texts(np.arange(len(terms), dtype=np.int32))
    if not pc.any(pc.match_substring_regex(texts, _REWRITTEN)).as_py():
        return []
    note = (
        "the background is a pyoxigraph.Store, which does not keep how numbers and times are "
        "written: 2.0 is 2 in it, and does not join the 2.0 of an event; give the file or a "
        "pyoxigraph.Dataset"
    )
    return [note]


def read_graphs(
    source: Input | Any, terms: Terms, *, name: str | None = None, format: str | None = None
) -> Graphs:
    """Return the graphs of one source; triples without a graph go to the graph `name`."""
    own = UNBOUND if name is None else terms.code(write_graph_name(name))
    columns: list[Quads] = []
    for quads in _read_source(source, terms, format):
        nameless = quads.g < 0
        if nameless.any():
            if name is None:
                raise _make_nameless_error(source, terms, quads, int(np.argmax(nameless)))
            quads = quads._replace(g=np.where(nameless, np.int32(own), quads.g))
        columns.append(quads)
    graphs = _split_graphs(columns)
    if own != UNBOUND and own not in graphs:
        graphs[own] = Triples(*np.empty((3, 0), np.int32))
    return graphs


def merge_graphs(parts: Iterable[Graphs]) -> Graphs:
    """Merge graphs of the same name."""
    found: dict[int, list[Triples]] = {}
    for graphs in parts:
        for name, triples in graphs.items():
            found.setdefault(name, []).append(triples)
    return {
        name: several[0] if len(several) == 1 else _sort_triples(*_stack(several))
        for name, several in found.items()
    }


def write_graph_name(name: str) -> str:
    """Return a graph's name as a term; an IRI may lack its brackets.

    >>> write_graph_name("http://x/db"), write_graph_name("<http://x/db>")
    ('<http://x/db>', '<http://x/db>')
    """
    if name.startswith("_:") or (name.startswith("<") and name.endswith(">")):
        return name
    ox = import_oxigraph()
    try:
        return str(ox.NamedNode(name))
    except ValueError as error:
        raise DataError(f"{name!r} is no name of a graph: {error}; expected an IRI") from error


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _read_source(source: Any, terms: Terms, format: str | None) -> Iterator[Quads]:
    ox = import_oxigraph()
    if isinstance(source, (ox.Store, ox.Dataset)):
        return encode_quads(source, terms)
    label = None if isinstance(source, (str, Path)) else "background"
    return read_quads(source, terms, format=format, label=label)


def _make_nameless_error(source: Any, terms: Terms, quads: Quads, i: int) -> DataError:
    label = str(source) if isinstance(source, (str, Path)) else "background"
    triple = " ".join(terms.text(int(column[i])) for column in quads[:3])
    return DataError(
        f"{label}: a triple is in no named graph: {triple} .; say the name of the graph that "
        "such triples belong to"
    )


def _split_graphs(columns: list[Quads]) -> Graphs:
    if not columns:
        return {}
    s, p, o, g = _stack(columns)
    names, sizes = np.unique(g, return_counts=True)
    if len(names) > 1:
        order = np.argsort(g, kind="stable")
        s, p, o = s[order], p[order], o[order]
    ends = np.cumsum(sizes)
    return {
        int(name): _sort_triples(s[end - size : end], p[end - size : end], o[end - size : end])
        for name, size, end in zip(names, sizes, ends, strict=True)
    }


def _stack(parts: Sequence[Sequence[Codes]]) -> list[Codes]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _sort_triples(s: Codes, p: Codes, o: Codes) -> Triples:
    order = np.lexsort((o, s, p))
    s, p, o = s[order], p[order], o[order]
    new: NDArray[np.bool_] = np.ones(len(s), np.bool_)
    new[1:] = (p[1:] != p[:-1]) | (s[1:] != s[:-1]) | (o[1:] != o[:-1])
    return Triples(s[new], p[new], o[new])
