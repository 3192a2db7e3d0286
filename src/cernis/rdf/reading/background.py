"""Background knowledge: named graphs that do not change, encoded and sorted.

The paper's G_D. Triples come from files or from a store of pyoxigraph's; each graph ends as
three arrays of codes in order of (p, s, o), without repetition, the same order that events
have, so that one way of joining serves both.

Cost: that of reading (`cernis.rdf.reading.quads`), and one sort: a million triples take some
three seconds. All of it is kept in memory, 12 bytes a triple besides the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.errors import DataError
from cernis.rdf.reading.quads import Input, Quads, encode_quads, oxigraph, read_quads
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms

__all__ = ["Triples", "graph_term", "load_background", "merge_graphs", "read_graphs"]

Graphs = dict[int, "Triples"]


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
    """All graphs of some sources, by the code of their name.

    A source is a file, bytes, an open binary file or a `pyoxigraph.Store`. With a mapping, its
    keys are the names of the graphs that triples without a graph belong to; without, there
    must be none of those. What several sources say about one graph is put together.

    >>> terms = Terms()
    >>> graphs = load_background({"http://x/db": b"<urn:a> <urn:p> <urn:b> ."}, terms)
    >>> [(terms.text(name), graph.size) for name, graph in graphs.items()]
    [('<http://x/db>', 1)]
    """
    if isinstance(sources, Mapping):
        pairs = [(name, source) for name, given in sources.items() for source in _each(given)]
        return merge_graphs(read_graphs(s, terms, name=n, format=format) for n, s in pairs)
    return merge_graphs(read_graphs(s, terms, format=format) for s in _each(sources))


def read_graphs(
    source: Input | Any, terms: Terms, *, name: str | None = None, format: str | None = None
) -> Graphs:
    """The graphs of one source; `name` is that of the graph of triples without one."""
    own = UNBOUND if name is None else terms.code(graph_term(name))
    columns: list[Quads] = []
    for quads in _quads(source, terms, format):
        nameless = quads.g < 0
        if nameless.any():
            if name is None:
                raise _nameless(source, terms, quads, int(np.argmax(nameless)))
            quads = quads._replace(g=np.where(nameless, np.int32(own), quads.g))
        columns.append(quads)
    graphs = _graphs(columns)
    if own != UNBOUND and own not in graphs:
        graphs[own] = Triples(*np.empty((3, 0), np.int32))
    return graphs


def merge_graphs(parts: Iterable[Graphs]) -> Graphs:
    """The union of graphs of the same name."""
    found: dict[int, list[Triples]] = {}
    for graphs in parts:
        for name, triples in graphs.items():
            found.setdefault(name, []).append(triples)
    return {
        name: several[0] if len(several) == 1 else _sorted(*_stacked(several))
        for name, several in found.items()
    }


def graph_term(name: str) -> str:
    """A graph's name as a term: an IRI with or without its brackets.

    >>> graph_term("http://x/db"), graph_term("<http://x/db>")
    ('<http://x/db>', '<http://x/db>')
    """
    if name.startswith("_:") or (name.startswith("<") and name.endswith(">")):
        return name
    ox = oxigraph()
    try:
        return str(ox.NamedNode(name))
    except ValueError as error:
        raise DataError(f"{name!r} is no name of a graph: {error}; expected an IRI") from error


def _each(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _quads(source: Any, terms: Terms, format: str | None) -> Iterator[Quads]:
    if isinstance(source, oxigraph().Store):
        return encode_quads(source, terms)
    label = None if isinstance(source, (str, Path)) else "background"
    return read_quads(source, terms, format=format, label=label)


def _nameless(source: Any, terms: Terms, quads: Quads, i: int) -> DataError:
    label = str(source) if isinstance(source, (str, Path)) else "background"
    triple = " ".join(terms.text(int(column[i])) for column in quads[:3])
    return DataError(
        f"{label}: a triple is in no named graph: {triple} .; say the name of the graph that "
        "such triples belong to"
    )


def _graphs(columns: list[Quads]) -> Graphs:
    if not columns:
        return {}
    s, p, o, g = _stacked(columns)
    names, sizes = np.unique(g, return_counts=True)
    if len(names) > 1:
        order = np.argsort(g, kind="stable")
        s, p, o = s[order], p[order], o[order]
    ends = np.cumsum(sizes)
    return {
        int(name): _sorted(s[end - size : end], p[end - size : end], o[end - size : end])
        for name, size, end in zip(names, sizes, ends, strict=True)
    }


def _stacked(parts: Sequence[Sequence[Codes]]) -> list[Codes]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _sorted(s: Codes, p: Codes, o: Codes) -> Triples:
    order = np.lexsort((o, s, p))
    s, p, o = s[order], p[order], o[order]
    new: NDArray[np.bool_] = np.ones(len(s), np.bool_)
    new[1:] = (p[1:] != p[:-1]) | (s[1:] != s[:-1]) | (o[1:] != o[:-1])
    return Triples(s[new], p[new], o[new])
