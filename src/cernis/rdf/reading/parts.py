"""A stream's files in parts that are read apart, each event with the number it has in the whole.

A part is a file, or a piece of a large N-Quads file. A piece is exact: a first pass looks at
every line for the graph that it belongs to (a kernel, some 200 MB a second; parsing makes 40), so
that it is known where no event is open and how many lie before. Files are cut only there. A piece
also reads the events just before it, since time must not go back from them to its own first; and
when it meets a mistake, the file is read from the start, so that the message is the one that
belongs to the file.

What is not plain is not cut: a compressed file, TriG and Turtle, a file with escapes in the names
of its graphs or with a graph that comes back from afar, and any file where mistakes are skipped
(what is skipped may have counted as an event). Such a file is one part.

Several files are one stream in the order given; numbers go on from file to file. All but the
last are counted beforehand, by the same pass, or by reading them where that will not do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.errors import DataError
from cernis.events.mistakes import Mistakes
from cernis.rdf.reading.events import (
    REACH,
    EventGroup,
    GraphEvents,
    Int64s,
    StreamReader,
    Streamset,
)
from cernis.rdf.reading.quads import format_of, oxigraph, read_quads
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule

__all__ = ["PIECE", "FilePart", "NamedEvents", "Prospect", "look_ahead", "parts_of_stream"]

PIECE = 1 << 26
"""About how many bytes of a file are one part."""
_CHUNK = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file of a stream, or a piece of one."""

    path: str
    stream: int
    """The index of the stream."""
    scope: str
    """What its blank nodes are called after."""
    time: TimeRule
    format: str | None = None
    on_error: str = "fail"
    begin: int = 0
    """The byte at which reading begins."""
    end: int | None = None
    first: int = 0
    """The number of the first event that is read, and of the first that is given."""
    own: int = 0
    count: int | None = None
    """How many events are read, where that is known."""

    @property
    def whole(self) -> bool:
        return self.begin == 0 and self.end is None


class NamedEvents(StreamReader):
    """The events of a part, in batches; `names` has the graphs of the batch that was given last."""

    def __init__(self, part: FilePart, terms: Terms) -> None:
        mistakes = Mistakes(part.on_error)
        super().__init__(part.stream, part.path, terms, part.time, mistakes, REACH)
        self.part = part
        self.names: Codes = np.empty(0, np.int32)

    def __iter__(self) -> Iterator[GraphEvents]:
        part = self.part
        try:
            for events in self._read():
                skip = int(np.searchsorted(events.numbers, part.own))
                if skip:
                    events, self.names = events.part(skip, events.size), self.names[skip:]
                if events.size:
                    yield events
        except DataError:
            if not part.whole:
                for _ in NamedEvents(_whole(part), Terms()):
                    pass
            raise
        if part.count is not None and int(self._counts[1]) != part.count:
            raise DataError(f"{part.path}: the file has changed while it was read")

    def _read(self) -> Iterator[GraphEvents]:
        part = self.part
        with ExitStack() as stack:
            data: Any = part.path
            if not part.whole:
                file = stack.enter_context(Path(part.path).open("rb"))
                data = _Range(file, part.begin, part.end)
            quads = read_quads(
                data,
                self._terms,
                format=format_of(part.path, part.format),
                label=part.path,
                scope=part.scope,
                mistakes=self._mistakes,
            )
            for events in self.events(quads):
                yield events._replace(numbers=events.numbers + part.first)

    def _timed(self, group: EventGroup) -> GraphEvents:
        events = super()._timed(group)
        self.names = group.names[np.searchsorted(group.numbers, events.numbers)]
        return events

    def numbered(self) -> int:
        """How many events have had a number."""
        return int(self._counts[1])


class _Range:
    """Some bytes of a file, as a file."""

    def __init__(self, file: IO[bytes], begin: int, end: int | None) -> None:
        self._file = file
        self._file.seek(begin)
        self._left = 1 << 62 if end is None else end - begin

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        text = self._file.read(size)
        self._left -= len(text)
        return text


def _whole(part: FilePart) -> FilePart:
    return replace(part, begin=0, end=None, first=0, own=0, count=None)


# ---------------------------------------------------------------- the parts


def parts_of_stream(
    files: Sequence[str | Path],
    *,
    stream: int = 0,
    scopes: Sequence[str],
    time: TimeRule | None = None,
    format: str | None = None,
    on_error: str = "fail",
    piece: int = PIECE,
) -> list[FilePart]:
    """A stream's files in parts, in the order of its events.

    `scopes` are what the blank nodes of each file are called after. Where `time` leaves open how
    times are told, the first event decides for all.
    """
    parts: list[FilePart] = []
    rule, before = time or TimeRule(), 0
    for number, (file, scope) in enumerate(zip(files, scopes, strict=True)):
        whole = FilePart(
            path=str(file),
            stream=stream,
            scope=scope,
            time=rule,
            format=format,
            on_error=on_error,
            first=before,
            own=before,
        )
        last = number == len(files) - 1
        pieces = list(_pieces(whole, piece, counted=not last))
        if len(pieces) > 1 or len(files) > 1:
            if not rule.decided():
                rule = look_ahead(whole).time
            pieces = [replace(one, time=rule) for one in pieces]
        parts += pieces
        if not last:
            before += _number_of_events(pieces)
    return parts


def _pieces(whole: FilePart, size: int, *, counted: bool) -> Iterator[FilePart]:
    """A file cut where it may be; with `counted`, the last piece knows how many events it has."""
    path = Path(whole.path)
    plain = format_of(path, whole.format) in ("nq", "nt") and whole.on_error == "fail"
    plain = plain and path.suffix.lower() != ".gz" and path.is_file()
    if not plain or (path.stat().st_size <= size and not counted):
        yield whole
        return
    graphs = graphs_of(path)
    if graphs is None:
        yield whole
        return
    places = _cuts(graphs, path.stat().st_size, size)
    ends = [*(place.begin for place in places[1:]), None]
    nexts = [*(place.number for place in places[1:]), graphs.events]
    for place, end, following in zip(places, ends, nexts, strict=True):
        yield replace(
            whole,
            begin=place.before,
            end=end,
            first=whole.first + place.number_before,
            own=whole.first + place.number,
            count=following - place.number_before,
        )


def _number_of_events(pieces: Sequence[FilePart]) -> int:
    last = pieces[-1]
    if last.count is not None:
        return last.first - pieces[0].first + last.count
    reader = NamedEvents(last, Terms())
    for _ in reader:
        pass
    return reader.numbered()


class _Place(NamedTuple):
    """Where a piece begins, and the number of its first event; and where its reading does."""

    begin: int
    number: int
    before: int
    number_before: int


def _cuts(graphs: Graphs, length: int, size: int) -> list[_Place]:
    """Cuts about `size` bytes apart, each where no event is open."""
    clean = graphs.clean()
    begins, numbers = graphs.begin[clean], graphs.before[clean]
    places = [_Place(0, 0, 0, 0)]
    pieces = max(1, round(length / size))
    for k in range(1, pieces):
        i = int(np.searchsorted(begins, k * length // pieces))
        if i < len(begins) and begins[i] > max(places[-1].begin, begins[0]):
            # some events before: one is enough, the last of those before it
            places.append(
                _Place(
                    int(begins[i]),
                    int(numbers[i]),
                    int(begins[i - 1]) if i > 1 else 0,
                    int(numbers[i - 1]),
                )
            )
    return places


# ---------------------------------------------------------------- first look


class Prospect(NamedTuple):
    """What the first events of a stream tell."""

    time: TimeRule
    counted: bool
    """Whether times are numbers, and not dates."""
    first: int | None
    """The time of the first event; None: there is none."""
    span: int
    """About how long the stream goes on, by how much of the file has been read."""


def look_ahead(part: FilePart) -> Prospect:
    """Reads the first events of a file, until it is known how they tell their times."""
    oxigraph()
    streams = Streamset(
        {"": part.path}, Terms(), time=part.time, format=part.format, bad=part.on_error
    )
    first, last, quads = None, 0, 0
    for events in streams:
        first = int(events.times[0]) if first is None else first
        last, quads = int(events.times[-1]), quads + len(events.s)
        if last or int(events.times[0]):
            break
    size = Path(part.path).stat().st_size
    size *= 10 if part.path.lower().endswith(".gz") else 1
    share = max(1.0, size / (128 * max(quads, 1)))
    span = int(share * (last - first)) if first is not None else 0
    return Prospect(streams.rules[""] or part.time, streams.counted, first, span)


# ---------------------------------------------------------------- first pass


class Graphs(NamedTuple):
    """Every graph of a file that some quad belongs to, in the order of their first quads."""

    begin: Int64s
    """The byte at which the line of the first quad begins."""
    first: Int64s
    last: Int64s
    """The places of the first and the last quad."""
    before: Int64s
    """How many events have been numbered before; where the graph begins clean."""
    events: int

    def clean(self) -> Int64s:
        """The graphs that begin where no other is open."""
        if not len(self.first):
            return np.empty(0, np.int64)
        reached = np.maximum.accumulate(self.last)
        return np.flatnonzero(np.concatenate([[True], self.first[1:] > reached[:-1]]))


class _Seen(NamedTuple):
    """The graphs that were seen, by hash."""

    slots: Codes
    keys: NDArray[np.uint64]
    begin: Int64s
    first: Int64s
    last: Int64s
    named: NDArray[np.bool_]
    counts: Int64s


def graphs_of(path: Path, reach: int = REACH) -> Graphs | None:
    """The graphs of an N-Quads file, line by line; None if it has something that is not plain."""
    seen = _room(1 << 12)
    position = offset = 0
    for chunk in _chunks(path):
        text = np.frombuffer(chunk, np.uint8)
        lines = int(np.count_nonzero(text == 10))
        keys, named = np.empty(lines, np.uint64), np.empty(lines, np.bool_)
        at = np.empty(lines, np.int64)
        quads = _scan(
            text, 3 if offset == 0 and chunk[:3] == b"\xef\xbb\xbf" else 0, keys, named, at
        )
        if quads < 0:
            return None
        while int(seen.counts[0]) + quads > len(seen.keys):
            seen = _grown(seen)
        if not _note(seen, keys[:quads], named[:quads], at[:quads] + offset, position, reach):
            return None
        position, offset = position + quads, offset + len(chunk)
    size = int(seen.counts[0])
    upto = np.cumsum(seen.named[:size])
    events = int(upto[-1]) if size else 0
    before: Int64s = upto - seen.named[:size]
    return Graphs(seen.begin[:size], seen.first[:size], seen.last[:size], before, events)


def _chunks(path: Path) -> Iterator[bytes]:
    """The file in chunks of whole lines."""
    left = b""
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            cut = block.rfind(b"\n") + 1
            if cut:
                yield left + block[:cut]
                left = block[cut:]
            else:
                left += block
    if left:
        yield left + b"\n"


def _room(size: int) -> _Seen:
    begin, first, last = (np.empty(size, np.int64) for _ in range(3))
    slots = np.full(2 * size, -1, np.int32)
    keys, named = np.empty(size, np.uint64), np.empty(size, np.bool_)
    return _Seen(slots, keys, begin, first, last, named, np.zeros(1, np.int64))


def _grown(seen: _Seen) -> _Seen:
    larger = _room(2 * len(seen.keys))
    size = len(seen.keys)
    for old, new in zip(seen[1:6], larger[1:6], strict=True):
        new[:size] = old
    larger.counts[:] = seen.counts
    _file_again(larger)
    return larger


@kernel
def _file_again(seen: _Seen) -> None:
    mask = np.uint64(len(seen.slots) - 1)
    for entry in range(seen.counts[0]):
        slot = seen.keys[entry] & mask
        while seen.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        seen.slots[slot] = entry


@kernel
def _note(
    seen: _Seen,
    keys: NDArray[np.uint64],
    named: NDArray[np.bool_],
    at: Int64s,
    position: Any,
    reach: Any,
) -> Any:
    """Whether the graphs of some quads are as they should be; they are noted."""
    mask = np.uint64(len(seen.slots) - 1)
    for i in range(len(keys)):
        slot = keys[i] & mask
        while seen.slots[slot] >= 0 and seen.keys[seen.slots[slot]] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        entry = seen.slots[slot]
        if entry < 0:
            entry = np.int32(seen.counts[0])
            seen.counts[0] += 1
            seen.slots[slot] = entry
            seen.keys[entry] = keys[i]
            seen.begin[entry] = at[i]
            seen.first[entry] = position + i
            seen.named[entry] = False
        elif position + i - seen.last[entry] > reach:
            return False
        seen.last[entry] = position + i
        seen.named[entry] |= named[i]
    return True


_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)


@kernel
def _blank(byte: Any) -> Any:
    return byte == 32 or byte == 9


@kernel
def _past_term(text: NDArray[np.uint8], i: Any) -> Any:
    """The end of a term; -1 where there is none, or one that is not plain."""
    n = len(text)
    if text[i] == 60:  # <
        i += 1
        while i < n and text[i] != 62:
            if text[i] == 60 or text[i] == 92 or text[i] <= 32:
                return -1
            i += 1
        return i + 1 if i < n else -1
    if text[i] == 95:  # _
        while i < n and text[i] > 32 and text[i] != 60:
            i += 1
        return i if text[i - 1] != 46 else -1
    if text[i] != 34:  # "
        return -1
    i += 1
    while i < n and text[i] != 34:
        if text[i] == 10 or text[i] == 13:
            return -1
        i += 2 if text[i] == 92 else 1
    i += 1
    if i < n and text[i] == 64:  # @
        while i < n and text[i] > 32 and text[i] != 46 and text[i] != 60:
            i += 1
        return i
    if i + 2 < n and text[i] == 94 and text[i + 2] == 60:  # ^^<
        return _past_term(text, i + 2)
    return i if i < n else -1


@kernel
def _scan(
    text: NDArray[np.uint8],
    i: Any,
    keys: NDArray[np.uint64],
    named: NDArray[np.bool_],
    at: Int64s,
) -> Any:
    """For each quad: the hash of its graph's name (of its subject in the default graph), whether
    it has a graph, and where its line begins. Returns how many there are; -1: not plain."""
    n, row = len(text), 0
    while i < n:
        line = i
        while i < n and _blank(text[i]):
            i += 1
        if i < n and text[i] > 32 and text[i] != 35:  # not empty, no comment
            begin, end, column = i, i, 0
            while column < 4 and i < n and text[i] != 46:
                after = _past_term(text, i)
                if after < 0:
                    return -1
                if column == 0 or column == 3:
                    begin, end = i, after
                column += 1
                i = after
                while i < n and _blank(text[i]):
                    i += 1
            if column < 3 or i >= n or text[i] != 46:
                return -1
            value = _BASIS
            for k in range(begin, end):
                value = (value ^ np.uint64(text[k])) * _PRIME
            keys[row] = value ^ (value >> np.uint64(32))
            named[row] = column == 4
            at[row] = line
            row += 1
            i += 1
            while i < n and _blank(text[i]):
                i += 1
        if i < n and text[i] == 35:
            while i < n and text[i] != 10 and text[i] != 13:
                i += 1
        if i < n and text[i] == 13:
            i += 1
        if i >= n or text[i] != 10:
            return -1
        i += 1
    return row


def files_in(given: str | Path | Iterable[str | Path]) -> list[str]:
    """The files of a stream: one, several, or those of a folder in the order of their names."""
    several = [given] if isinstance(given, str | Path) else list(given)
    files: list[str] = []
    for one in map(Path, several):
        if one.is_dir():
            found = sorted(f for f in one.iterdir() if f.is_file() and f.name[0] not in "._")
            if not found:
                raise DataError(f"{one}: the folder has no files in it")
            files += map(str, found)
        else:
            files.append(str(one))
    if not files:
        raise DataError("a stream without files has no events: name one")
    return files
