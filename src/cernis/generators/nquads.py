"""N-Quads text for generated streams: columns of terms become lines without a loop over events.

An event is a named graph; its time is a triple about the graph's name in the default graph,
by `prov:generatedAtTime`. Columns are Arrow's; the text of a whole stream is the data of one
Arrow array, so that a million quads take about a second.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Column = Any
"""An Arrow array of text, or one text for all rows."""
Streams = Callable[[int, int], dict[str, bytes]]
Background = Callable[[int, int], bytes]

GENERATED: Final = "<http://www.w3.org/ns/prov#generatedAtTime>"
OPENING: Final = 1_704_186_000_000
"""2024-01-02 09:00 UTC, in milliseconds."""

_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_SLICE: Final = 1 << 17  # rows at a time: an Arrow array of text holds at most 2 GB


def write_iris(base: str, numbers: NDArray[np.integer]) -> pa.Array:
    """Write numbered IRIs.

    >>> write_iris("http://x/H", np.array([1, 7])).to_pylist()
    ['<http://x/H1>', '<http://x/H7>']
    """
    return _join(f"<{base}", pa.array(numbers).cast(pa.string()), ">")


def write_integers(numbers: NDArray[np.integer]) -> pa.Array:
    """Write literals of xsd:integer.

    >>> write_integers(np.array([5])).to_pylist()
    ['"5"^^<http://www.w3.org/2001/XMLSchema#integer>']
    """
    return _join('"', pa.array(numbers).cast(pa.string()), f'"^^<{_XSD}integer>')


def write_hundredths(numbers: NDArray[np.integer]) -> pa.Array:
    """Write numbers of hundredths as literals of xsd:decimal.

    >>> write_hundredths(np.array([1205])).to_pylist()
    ['"12.05"^^<http://www.w3.org/2001/XMLSchema#decimal>']
    """
    whole = pa.array(numbers // 100).cast(pa.string())
    part = pc.utf8_lpad(pa.array(numbers % 100).cast(pa.string()), 2, "0")
    return _join('"', whole, ".", part, f'"^^<{_XSD}decimal>')


def write_timestamps(milliseconds: NDArray[np.int64]) -> pa.Array:
    """Write milliseconds as literals of xsd:dateTime.

    >>> write_timestamps(np.array([OPENING])).to_pylist()
    ['"2024-01-02T09:00:00.000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>']
    """
    text = pa.array(milliseconds).cast(pa.timestamp("ms")).cast(pa.string())
    return _join('"', pc.replace_substring(text, " ", "T"), f'Z"^^<{_XSD}dateTime>')


def choose_words(words: Sequence[str], codes: NDArray[np.integer]) -> pa.Array:
    """Return the words of codes.

    >>> choose_words(['"fuel"', '"wind"'], np.array([1, 0])).to_pylist()
    ['"wind"', '"fuel"']
    """
    return pa.array(words, pa.string()).take(pa.array(codes))


def write_stream(
    iri: str, times: NDArray[np.int64], triples: Sequence[tuple[Column, str, Column]]
) -> bytes:
    """Write events that all have triples of one form as N-Quads; times are milliseconds.

    >>> triples = [("<urn:s>", "<urn:p>", '"x"')]
    >>> text = write_stream("urn:e", np.array([OPENING]), triples)
    >>> print(text.decode().splitlines()[1])
    <urn:s> <urn:p> "x" <urn:e/0> .
    """
    graphs = write_iris(f"{iri}/", np.arange(len(times)))
    pieces: list[Column] = [graphs, f" {GENERATED} ", write_timestamps(times), " .\n"]
    for s, p, o in triples:
        pieces += [s, f" {p} ", o, " ", graphs, " .\n"]
    return _write_rows(pieces, len(graphs))


def write_graph(name: str, triples: Sequence[tuple[pa.Array, str, Column]], most: int) -> bytes:
    """Write the first `most` triples of one graph as N-Quads, subject by subject."""
    pieces: list[Column] = []
    for s, p, o in triples:
        pieces += [s, f" {p} ", o, f" {name} .\n"]
    lines = _write_rows(pieces, len(triples[0][0])).splitlines(keepends=True)
    return b"".join(lines[:most])


def _write_rows(pieces: list[Column], rows: int) -> bytes:
    merged: list[Column] = []
    for piece in pieces:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    parts = []
    for begin in range(0, rows, _SLICE):
        part = _join(*(p if isinstance(p, str) else p.slice(begin, _SLICE) for p in merged))
        _, offsets, text = part.buffers()
        parts.append(memoryview(text)[: int(np.frombuffer(offsets, np.int32)[len(part)])])
    return b"".join(parts)


def _join(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def list_people() -> list[str]:
    """Return four hundred names as literals.

    >>> list_people()[1]
    '"Ada Baker"'
    """
    first = "Ada Ben Cleo Dov Eve Finn Gül Hana Ines Jan Kai Lea Mia Noé Olga Per Quin Rosa Sam Tom"
    last = (
        "Abel Baker Cruz Dahl Engel Fox Gray Hall Ito Jones "
        "Klein López Maier Novak Osman Park Quist Rossi Smith Tan"
    )
    return [f'"{one} {other}"' for one in first.split() for other in last.split()]


def check_count(count: int, what: str) -> None:
    if count < 0:
        raise ValueError(f"there cannot be {count} {what}")


def main(
    name: str, streams: Streams, background: Background | None, arguments: Sequence[str] | None
) -> None:
    """Run `python -m cernis.generators.<name> DIR`: write the streams and the background graph."""
    parser = argparse.ArgumentParser(
        prog=f"python -m cernis.generators.{name}",
        description=(streams.__doc__ or "").strip().splitlines()[0],
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="where the files go")
    parser.add_argument("--events", type=int, default=10_000, help="in all streams together")
    parser.add_argument("--seed", type=int, default=0)
    if background is not None:
        parser.add_argument("--triples", type=int, default=10_000, help="of the background graph")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{stream}.nq": text for stream, text in streams(given.events, given.seed).items()}
    if background is not None:
        texts["background.nq"] = background(given.triples, given.seed)
    for file, text in texts.items():
        (given.folder / file).write_bytes(text)
        sys.stdout.write(f"{given.folder / file}\n")
