"""The files of a stream in parts for parallel reading; events keep their numbers in the stream.

A part is a file, or a piece of a large N-Quads file. A first pass (`scan`) finds where no event is
open and how many events lie before; files are cut only there. A piece also reads the events just
before it, since time must not go back from them to its own first event. A piece that meets a
mistake reads the file again from the start, so that the message has the numbers of the file.

Some files are one part: compressed files, TriG and Turtle, files with escapes in the names of
graphs or with a graph that comes back from beyond the reach, and files whose mistakes are skipped
(a skipped graph may have counted as an event).

Several files are one stream in the order given; numbers continue from file to file. To number the
next file, all files but the last are counted first, by the scan, or by reading them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from cernis.errors import DataError
from cernis.events.reading.mistakes import Mistakes
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.quads import find_format, import_oxigraph, read_quads
from cernis.rdf.reading.scan import GraphIndex, scan_graphs
from cernis.rdf.reading.streams import StreamReader, Streamset
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule

PIECE = 1 << 26
"""The size of a piece in bytes, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file of a stream, or a piece of one."""

    path: str
    stream: int
    """The index of the stream."""
    scope: str
    """The prefix of its blank nodes."""
    time: TimeRule
    format: str | None = None
    on_error: str = "fail"
    begin: int = 0
    """The byte at which reading begins."""
    end: int | None = None
    first: int = 0
    """The number of the first event that is read."""
    own: int = 0
    """The number of the first event that the part gives."""
    count: int | None = None
    """The number of events that are read, where it is known."""

    @property
    def whole(self) -> bool:
        return self.begin == 0 and self.end is None


class PartReader(StreamReader):
    """Read the events of a part, in batches; `names` has the graphs of the last batch."""

    def __init__(self, part: FilePart, terms: Terms) -> None:
        mistakes = Mistakes(part.on_error)
        super().__init__(part.stream, part.path, terms, part.time, mistakes)
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
                for _ in PartReader(_make_whole(part), Terms()):
                    pass
            raise
        if part.count is not None and self.event_count != part.count:
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
                format=find_format(part.path, part.format),
                label=part.path,
                scope=part.scope,
                mistakes=self._mistakes,
            )
            for group, events in self._grouped_events(quads):
                if events.size:
                    self.names = group.names[np.searchsorted(group.numbers, events.numbers)]
                    yield events._replace(numbers=events.numbers + part.first)

    @property
    def event_count(self) -> int:
        """The number of events so far, with those that were skipped."""
        return self.grouper.event_count


class _Range:
    """A range of bytes of a file, as a file."""

    def __init__(self, file: IO[bytes], begin: int, end: int | None) -> None:
        self._file = file
        self._file.seek(begin)
        self._left = 1 << 62 if end is None else end - begin

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        text = self._file.read(size)
        self._left -= len(text)
        return text


def _make_whole(part: FilePart) -> FilePart:
    return replace(part, begin=0, end=None, first=0, own=0, count=None)


# ---------------------------------------------------------------- the parts


def list_files(given: str | Path | Iterable[str | Path]) -> list[str]:
    """Return the files of a stream: one, several, or those of a folder sorted by name."""
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


def split_stream(
    files: Sequence[str | Path],
    *,
    stream: int = 0,
    scopes: Sequence[str],
    time: TimeRule | None = None,
    format: str | None = None,
    on_error: str = "fail",
    piece: int = PIECE,
) -> list[FilePart]:
    """Return a stream's files in parts, in the order of its events.

    `scopes` has the prefix of each file's blank nodes. Where `time` is undecided, the first event
    decides for all files.
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
        pieces = list(_split_file(whole, piece, must_count=not last))
        if len(pieces) > 1 or len(files) > 1:
            if not rule.is_decided():
                rule = look_ahead(whole).time
            pieces = [replace(one, time=rule) for one in pieces]
        parts += pieces
        if not last:
            before += _count_events(pieces)
    return parts


def _split_file(whole: FilePart, size: int, *, must_count: bool) -> Iterator[FilePart]:
    """Yield the pieces of a file; with `must_count`, the last one knows its number of events."""
    path = Path(whole.path)
    plain = find_format(path, whole.format) in ("nq", "nt") and whole.on_error == "fail"
    plain = plain and path.suffix.lower() != ".gz" and path.is_file()
    if not plain or (path.stat().st_size <= size and not must_count):
        yield whole
        return
    graphs = scan_graphs(path)
    if graphs is None:
        yield whole
        return
    cuts = _choose_cuts(graphs, path.stat().st_size, size)
    ends = [*(cut.begin for cut in cuts[1:]), None]
    nexts = [*(cut.number for cut in cuts[1:]), graphs.events]
    for cut, end, following in zip(cuts, ends, nexts, strict=True):
        yield replace(
            whole,
            begin=cut.before,
            end=end,
            first=whole.first + cut.number_before,
            own=whole.first + cut.number,
            count=following - cut.number_before,
        )


def _count_events(pieces: Sequence[FilePart]) -> int:
    last = pieces[-1]
    if last.count is not None:
        return last.first - pieces[0].first + last.count
    reader = PartReader(last, Terms())
    for _ in reader:
        pass
    return reader.event_count


class _Cut(NamedTuple):
    """Where a piece begins and where its reading does, each with the number of the first event."""

    begin: int
    number: int
    before: int
    number_before: int


def _choose_cuts(graphs: GraphIndex, length: int, size: int) -> list[_Cut]:
    """Return cuts about `size` bytes apart, each where no event is open."""
    clean = graphs.clean()
    begins, numbers = graphs.begin[clean], graphs.before[clean]
    cuts = [_Cut(0, 0, 0, 0)]
    pieces = max(1, round(length / size))
    for k in range(1, pieces):
        i = int(np.searchsorted(begins, k * length // pieces))
        if i < len(begins) and begins[i] > max(cuts[-1].begin, begins[0]):
            # reading begins one clean graph earlier, for the time before the first event
            cuts.append(
                _Cut(
                    int(begins[i]),
                    int(numbers[i]),
                    int(begins[i - 1]) if i > 1 else 0,
                    int(numbers[i - 1]),
                )
            )
    return cuts


# ---------------------------------------------------------------- first look


class Prospect(NamedTuple):
    """What the first events of a stream say about all of it."""

    time: TimeRule
    numeric_times: bool
    """Whether times are numbers, not dates."""
    first: int | None
    """The time of the first event; None without events."""
    span: int
    """About how long the stream lasts, by the share of the file that has been read."""


def look_ahead(part: FilePart) -> Prospect:
    """Read the first events of a file, until one has a time other than zero."""
    import_oxigraph()
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
    rule = streams.rules[""]
    decided = rule if rule.is_decided() else part.time
    return Prospect(decided, streams.numeric_times, first, span)
