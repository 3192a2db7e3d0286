"""N-Quads, TriG, N-Triples, Turtle and JSON-LD to batches of encoded quads.

Cost: 340,000 quads a second; memory is bounded by one batch. pyoxigraph parses, and writes the
quads as canonical N-Quads, one quad a line and one space between terms, in a loop of its own
(450,000 quads a second). A kernel cuts the lines into terms, Arrow finds the distinct ones, and
only those become Python strings. The rejected design asks pyoxigraph's objects for their terms
and texts: 190,000 quads a second. Without the parser's check of IRIs reading would be faster by a
third, but mistakes in the data would go unnoticed.

Measured and turned down: a kernel that finds the lines that are canonical already, with IRIs,
labels and literals of plain characters, and leaves the others to the library. It checks a line in
0.28 to 0.49 µs where pyoxigraph takes 1.9 to 2.8, so reading is 2.5 to 2.9 times as fast, and whole
runs 1.2 (market), 1.8 (smart grid) and 1.9 times (traffic). That is too little for a second grammar
of terms that must agree with the library's in every detail.

Line formats are read in chunks of whole lines, which also isolates mistakes: a bad line is
reported with its number and, where mistakes are skipped, does not affect its neighbours. A line
is bad exactly when it does not parse on its own; the parser's own recovery lets an open quote
swallow the rest of the file. TriG, Turtle and JSON-LD are read by one parser from start to end; a
syntax error there is always fatal. A context of JSON-LD that is not in the file is such an error:
nothing is fetched.

Blank nodes are renamed by file: `_:b` of the first file is `_:f0.b`. Nodes without a label, to
which pyoxigraph gives random names, are numbered in order, `_:f0-0`, `_:f0-1`.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.compiled.tiers import expect_events
from cernis.errors import CernisError, DataError
from cernis.events.reading.mistakes import Mistakes
from cernis.events.reading.text import describe_too_long, longest_record
from cernis.extras import import_extra
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms

Input = str | Path | bytes | IO[bytes]

BATCH = 1 << 15
_EVENTS_PER_QUAD = 10
"""A quad takes about as long as so many events, when kernels run as plain Python."""
"""The number of quads in a batch, about."""

FORMATS = {
    "nq": "N_QUADS",
    "nt": "N_TRIPLES",
    "trig": "TRIG",
    "ttl": "TURTLE",
    "n3": "TURTLE",
    "jsonld": "JSON_LD",
}
_LONG_NAMES = {"nquads": "nq", "ntriples": "nt", "turtle": "ttl", "n3": "ttl"}
LINES = ("nq", "nt")
"""The formats with one quad a line."""
_SHOWN = 100
"""Bytes of a line that is too long, in a file of bad rows."""
_LINE_BYTES = 128  # of a usual quad, to turn a number of quads into one of bytes


class Quads(NamedTuple):
    """Some quads; `g` is -1 in the default graph."""

    s: Codes
    p: Codes
    o: Codes
    g: Codes


def import_oxigraph() -> Any:
    """Import pyoxigraph, or raise an error that says how to install it."""
    return import_extra("pyoxigraph", "RDF data")


def find_format(data: Input, format: str | None = None) -> str:
    """Return `nq`, `nt`, `trig`, `ttl` or `jsonld`: as given, by the file's name, or else `nq`.

    >>> find_format("plant.trig.gz"), find_format(b"", "ttl"), find_format(b"", "nquads")
    ('trig', 'ttl', 'nq')
    """
    if format is not None:
        found = format.lower().removeprefix(".")
        found = _LONG_NAMES.get(found, found)
    elif isinstance(data, (str, Path)):
        name = Path(data).name.lower().removesuffix(".gz")
        found = name.rpartition(".")[2]
    else:
        found = "nq"
    if found not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        named = f"format {format!r}" if format is not None else f"file name {str(data)!r}"
        raise DataError(
            f"no RDF format is known by the {named}; expected one of {known} (or with .gz), "
            "or a format that is given"
        )
    return _LONG_NAMES.get(found, found)


def read_quads(
    data: Input,
    terms: Terms,
    *,
    format: str | None = None,
    label: str | None = None,
    scope: str | None = None,
    piece: int | None = None,
    mistakes: Mistakes | None = None,
    batch: int = BATCH,
    line: int = 1,
) -> Iterator[Quads]:
    """Yield the quads of a file (or bytes, or an open binary file), about `batch` at a time.

    `label` is its name in messages, `scope` the prefix of its blank nodes, `mistakes` takes bad
    lines, which are counted from `line` on. Inputs of one scope are pieces of one document: `piece`
    tells their nameless nodes apart.
    A file that cannot be opened is an error at once.

    >>> terms = Terms()
    >>> [quads] = read_quads(b'<http://x/a> <http://x/p> _:b <http://x/g> .', terms)
    >>> terms.text(quads.o[0]), terms.text(quads.g[0])
    ('_:f0.b', '<http://x/g>')
    """
    known = find_format(data, format)
    ox = import_oxigraph()
    label = label or (str(data) if isinstance(data, (str, Path)) else "input")
    mistakes = mistakes or Mistakes()
    mistakes.begin(label, quiet=False)
    blanks = BlankNames(scope or terms.new_scope(), numbered=known not in LINES, piece=piece)
    _check_readable(data, label)
    parser = find_parser(ox, known)
    if known in LINES:
        texts = _parse_lines(ox, data, parser, label, mistakes, batch * _LINE_BYTES, line)
    else:
        texts = _parse_whole(ox, data, parser, label, batch)
    return _encode_batches(texts, terms, blanks, label)


def find_parser(ox: Any, format: str) -> Any:
    """Return pyoxigraph's name of a format."""
    parser = getattr(ox.RdfFormat, FORMATS[format], None)
    if parser is None:
        raise CernisError(f"{format} needs a newer pyoxigraph: pip install -U pyoxigraph")
    return parser


def encode_quads(quads: Iterable[Any], terms: Terms, *, batch: int = BATCH) -> Iterator[Quads]:
    """Yield the quads of pyoxigraph, such as those of a store, about `batch` at a time."""
    ox = import_oxigraph()
    blanks = BlankNames(terms.new_scope(), numbered=False)
    texts = _serialize_batches(ox, iter(quads), batch)
    return _encode_batches(texts, terms, blanks, "quads")


def _encode_batches(
    texts: Iterator[bytes], terms: Terms, blanks: BlankNames, label: str
) -> Iterator[Quads]:
    try:
        for text in texts:
            if text:
                yield encode_lines(text, terms, blanks)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{label}: cannot be read: {reason}") from error


# -------------------------------------------------------------------- files


def _check_readable(data: Input, label: str) -> None:
    if isinstance(data, (str, Path)):
        try:
            with Path(data).open("rb"):
                pass
        except OSError as error:
            raise DataError(f"{label}: cannot be read: {error.strerror}") from error


@contextmanager
def _open(data: Input) -> Iterator[_MarklessFile]:
    """Open an input for reading, without its byte order mark."""
    if isinstance(data, bytes):
        yield _MarklessFile(io.BytesIO(data))
    elif not isinstance(data, (str, Path)):
        yield _MarklessFile(data)
    elif str(data).lower().endswith(".gz"):
        with gzip.open(data) as file:
            yield _MarklessFile(file)
    else:
        with Path(data).open("rb") as plain:
            yield _MarklessFile(plain)


class _MarklessFile:
    """A binary file without its byte order mark."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._begun = False

    def read(self, size: int = -1) -> bytes:
        read: Callable[[int], bytes] = self._file.read
        if self._begun:
            return read(size)
        self._begun = True
        head = b""
        while len(head) < 3 and (more := read(3 - len(head))):
            head += more
        head = head.removeprefix(b"\xef\xbb\xbf")
        return head + read(max(size - len(head), 0) if size >= 0 else -1)


def _parse_whole(ox: Any, data: Input, parser: Any, label: str, batch: int) -> Iterator[bytes]:
    with _open(data) as file:
        try:
            yield from _serialize_batches(ox, ox.parse(file, format=parser), batch)
        except SyntaxError as error:
            where, words = explain_syntax_error(error)
            line = "" if error.lineno is None else f", line {error.lineno}"
            raise DataError(f"{label}{line}{where}: {words}") from error


def _serialize_batches(ox: Any, quads: Iterator[Any], batch: int) -> Iterator[bytes]:
    while text := ox.serialize(islice(quads, batch), format=ox.RdfFormat.N_QUADS):
        yield text


def _parse_lines(
    ox: Any, data: Input, parser: Any, label: str, mistakes: Mistakes, size: int, first: int
) -> Iterator[bytes]:
    def parse(lines: bytes | io.BytesIO) -> bytes:
        text: bytes = ox.serialize(ox.parse(lines, format=parser), format=ox.RdfFormat.N_QUADS)
        return text

    number, longest = first, longest_record()
    with _open(data) as file:
        for chunk in _split_lines(file, size, longest):
            if isinstance(chunk, _LongLine):
                shown = chunk.beginning.decode("utf-8", "replace")
                at, words = f"{label}, line {number}", describe_too_long(longest)
                mistakes.bad(label, number, None, words, text=shown, where=at)
                number += 1
                continue
            try:
                text = parse(chunk)
            except SyntaxError as error:
                text = _skip_bad_lines(chunk, error, parse, number, label, mistakes)
            yield text
            number += _count_lines(chunk)


class _LongLine(NamedTuple):
    """A line that is longer than a record may be."""

    beginning: bytes


def _split_lines(file: _MarklessFile, size: int, longest: int) -> Iterator[bytes | _LongLine]:
    """Yield the file in chunks of whole lines, of about `size` bytes or one longer line."""
    parts: list[bytes] = []
    beginning = b""  # of a line that is too long, and has not ended yet
    while block := file.read(min(size, longest)):
        # the last byte may be half of a \r\n
        end = block.find(b"\n") + 1 or block.find(b"\r", 0, -1) + 1
        length = sum(map(len, parts)) + (end or len(block))
        if beginning or length > longest + len(b"\r\n"):
            beginning = beginning or b"".join((*parts, block))[:_SHOWN]
            parts = []
            if not end:
                continue
            yield _LongLine(beginning)
            beginning, block = b"", block[end:]
        cut = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, -1) + 1
        if cut:
            yield b"".join((*parts, block[:cut]))
            parts = []
        parts.append(block[cut:])
    if beginning:
        yield _LongLine(beginning)
    elif any(parts):
        yield b"".join(parts)


def _count_lines(chunk: bytes) -> int:
    """Count the lines that end in a chunk; bytes.count would take a tenth of the run."""
    newlines = int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == 10))
    if b"\r" not in chunk:
        return newlines
    return newlines + chunk.count(b"\r") - chunk.count(b"\r\n")


def _skip_bad_lines(
    chunk: bytes,
    error: SyntaxError,
    parse: Callable[[bytes | io.BytesIO], bytes],
    number: int,
    label: str,
    mistakes: Mistakes,
) -> bytes:
    """Return the good lines of a chunk as canonical N-Quads, and report the bad ones.

    No line is parsed more than twice.
    """
    lines = chunk.splitlines(keepends=True)
    starts = np.cumsum([0, *map(len, lines)])
    good, begin = [], 0
    found: SyntaxError | None = error
    while found is not None:
        bad, found = _find_bad_line(lines, begin, found, parse)
        where, words = explain_syntax_error(found)
        text = lines[bad].decode("utf-8", "replace").rstrip("\r\n")
        if text.lstrip().lower().startswith(("@prefix", "prefix", "@base", "base")):
            words += "; this looks like Turtle or TriG: name the file so, or give its format"
        at = f"{label}, line {number + bad}{where}"
        mistakes.bad(label, number + bad, None, words, text=text, where=at)
        good.append(parse(chunk[starts[begin] : starts[bad]]))
        begin, found = bad + 1, None
        rest = io.BytesIO(chunk)  # shares the bytes
        rest.seek(int(starts[begin]))
        try:
            good.append(parse(rest))
        except SyntaxError as another:
            found = another
    return b"".join(good)


def _find_bad_line(
    lines: list[bytes],
    begin: int,
    error: SyntaxError,
    parse: Callable[[bytes | io.BytesIO], bytes],
) -> tuple[int, SyntaxError]:
    """Return the first bad line from `begin` on, searching first where the parser failed."""
    near = begin + (error.lineno or 1) - 1
    for i in (*range(max(begin, near - 1), min(near + 1, len(lines))), *range(begin, len(lines))):
        try:
            parse(lines[i].rstrip(b"\r\n"))
        except SyntaxError as own:
            return i, own
    return min(near, len(lines) - 1), error


def explain_syntax_error(error: SyntaxError) -> tuple[str, str]:
    """Return `, column 7`, and the parser's message without its line and column."""
    words = re.sub(r"^Parser error.*?column.*?\d+: ", "", error.msg or str(error))
    column = f", column {error.offset}" if error.offset else ""
    return column, words


# -------------------------------------------------------------------- terms


@kernel
def _skip_quotes(text: NDArray[np.uint8], i: int) -> int:
    i += 1
    while text[i] != 34:
        i += 2 if text[i] == 92 else 1  # \
    return i + 1


@kernel
def _skip_triple(text: NDArray[np.uint8], i: int) -> int:
    """Return the end of a triple term, which may be nested."""
    depth = 0
    while True:
        if text[i] == 34:
            i = _skip_quotes(text, i)
        elif text[i] == 60 and text[i + 1] == 60:
            depth += 1
            i += 2
        elif text[i] == 62 and text[i + 1] == 62:
            depth -= 1
            i += 2
            if depth == 0:
                return i
        else:
            i += 1


@kernel
def _cut_terms(text: NDArray[np.uint8], cuts: NDArray[np.int32]) -> int:
    """Write the begin and end of each term of canonical N-Quads, four terms a line.

    The fourth is empty in the default graph. Return the number of lines.
    """
    i, row = 0, 0
    while i < len(text):
        at = 8 * row
        column = 0
        while text[i] != 46:  # .
            cuts[at + 2 * column] = i
            if text[i] == 34:  # "
                i = _skip_quotes(text, i)
            elif text[i] == 60 and text[i + 1] == 60:  # <<( … )>>
                i = _skip_triple(text, i)
            while text[i] != 32:  # a blank
                i += 1
            cuts[at + 2 * column + 1] = i
            column += 1
            i += 1
        while column < 4:
            cuts[at + 2 * column] = i
            cuts[at + 2 * column + 1] = i
            column += 1
        i += 2
        row += 1
    cuts[8 * row] = i
    return row


def encode_lines(text: bytes, terms: Terms, blanks: BlankNames | None) -> Quads:
    """Return the quads of canonical N-Quads; without `blanks`, blank nodes keep their names."""
    data = np.frombuffer(text, np.uint8)
    lines = int(np.count_nonzero(data == 10))
    expect_events(_EVENTS_PER_QUAD * lines)
    cuts = np.empty(8 * lines + 1, np.int32)
    _cut_terms(data, cuts)
    # one array over the bytes, in which terms alternate with the blanks between them
    pieces = pa.StringArray.from_buffers(8 * lines, pa.py_buffer(cuts), pa.py_buffer(text))
    every_other = pa.array(np.arange(0, 8 * lines, 2, dtype=np.int32))
    encoded = pieces.take(every_other).dictionary_encode()
    codes = _encode_terms(encoded.dictionary, terms, blanks)[np.asarray(encoded.indices)]
    table = np.ascontiguousarray(codes.reshape(lines, 4).T)
    return Quads(*table)


def _encode_terms(distinct: pa.StringArray, terms: Terms, blanks: BlankNames | None) -> Codes:
    texts = distinct.to_pylist()
    if blanks is not None:
        for mark in ("_:", "<<("):
            for i in np.flatnonzero(np.asarray(pc.starts_with(distinct, mark))):
                texts[i] = blanks.rename(texts[i])
    if "" not in texts:
        return terms.add(texts)
    nothing = texts.index("")  # the name of the default graph
    del texts[nothing]
    return np.insert(terms.add(texts), nothing, UNBOUND)


class BlankNames:
    """New names for the blank nodes of one file."""

    _inside = re.compile(r'"(?:[^"\\]|\\.)*"|<[^<>]*>|_:[^ ]+')
    _nameless = re.compile(r"_:[a-f][0-9a-f]{23,31}")  # 128 random bits, zeros in front left out

    def __init__(self, scope: str, numbered: bool, piece: int | None = None) -> None:
        self._scope = scope
        self._nameless_scope = scope if piece is None else f"{scope}-{piece}"
        self._numbered = numbered
        self._numbers: dict[str, int] = {}

    def rename(self, text: str) -> str:
        """Return a blank node, or a triple term with blank nodes, under its new name."""
        return self.rename_all(text) if text.startswith("<<(") else self._name(text)

    def rename_all(self, text: str) -> str:
        """Return some lines, or a term, with all blank nodes in it under their new names."""
        return self._inside.sub(lambda m: self._name(m[0]), text)

    def _name(self, text: str) -> str:
        if not text.startswith("_:"):
            return text
        if self._numbered and self._nameless.fullmatch(text):
            number = self._numbers.setdefault(text, len(self._numbers))
            return f"_:{self._nameless_scope}-{number}"
        return f"_:{self._scope}.{text[2:]}"
