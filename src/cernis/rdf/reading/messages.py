"""Texts to events: messages of one graph each, or documents of many; in any order, in any process.

A message is one event: its only named graph, together with all triples of its default graph; or
its default graph, if no graph in it has a name. A document is read as a file is, without the
order of time. The events of a text depend on nothing else, so tasks that read some of the texts
of a stream agree: on times (`timing`), and on the names of blank nodes, which begin with the scope
of their text.

A text that cannot be read is a mistake with its number and a reason; the others are not affected.

Cost: messages of N-Quads are parsed together, unless one of them is bad or has blank nodes, at the
cost of a file; other messages one by one, some 20 µs each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cernis.errors import DataError
from cernis.events.reading.mistakes import BadRow, Mistakes
from cernis.rdf.reading.events import GraphEvents, Int64s
from cernis.rdf.reading.group import REACH, EventGroup, EventQuads, QuadGrouper
from cernis.rdf.reading.quads import (
    LINES,
    BlankNames,
    encode_lines,
    explain_syntax_error,
    find_parser,
    import_oxigraph,
    read_quads,
)
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.reading.timing import EventTimer

Reject = Callable[[int, str], None]
"""Receives the number of a text that cannot be read, and why."""


class ReadTexts(NamedTuple):
    """The events of some texts."""

    events: GraphEvents
    """Their numbers are those of their texts, or of the events in a document."""
    names: Codes
    """The names of the events' graphs; -1 for a default graph."""


class GraphTextReader:
    """Read texts of one format; `rule` says where events have their times.

    With `timeless`, times are elsewhere: each event has the time 0.
    """

    def __init__(
        self, terms: Terms, rule: TimeRule, format: str = "nq", *, timeless: bool = False
    ) -> None:
        self._terms, self._rule, self._format = terms, rule, format
        self._timeless = timeless
        self._ox = import_oxigraph()
        self._parser = find_parser(self._ox, format)

    # -------------------------------------------------------------- messages

    def read_messages(
        self, texts: Sequence[bytes], scopes: Sequence[str], reject: Reject
    ) -> ReadTexts:
        """Return the events of messages, by the numbers of these; the others are rejected.

        >>> reader = GraphTextReader(Terms(), TimeRule(pattern="([0-9]+)$"))
        >>> message = b'<urn:a> <urn:p> "1" <urn:e:%d> .'
        >>> rejected = []
        >>> found = reader.read_messages([message % 9, b"?", message % 5], "abc",
        ...     lambda number, reason: rejected.append(number))
        >>> found.events.times.tolist(), found.events.numbers.tolist(), rejected
        ([9000000, 5000000], [0, 2], [1])
        """
        text, sizes = self._parse_together(texts) or self._parse_apart(texts, scopes, reject)
        quads = encode_lines(text, self._terms, None)
        n, event = len(texts), np.repeat(np.arange(len(texts), dtype=np.int32), sizes)
        names = np.full(n, UNBOUND, np.int32)
        np.maximum.at(names, event, quads.g)
        is_other = (quads.g >= 0) & (quads.g != names[event])
        good = sizes > 0
        for i in np.unique(event[is_other]).tolist():
            good[i] = False
            reject(i, "a message is one graph, and this one has several")
        index = (np.cumsum(good) - 1).astype(np.int32)
        own = EventQuads(event, quads.s, quads.p, quads.o).take(good[event])
        own = own._replace(event=index[own.event])
        first = np.concatenate(([0], np.cumsum(sizes[good])))
        return self._time(EventGroup(names[good], np.flatnonzero(good), first, own), reject)

    def _parse_together(self, texts: Sequence[bytes]) -> tuple[bytes, Int64s] | None:
        """Return the lines of all texts, and how many each has; None if it takes more care.

        A line has one quad at most. So each line has one if there are as many.
        """
        together = b"\n".join(texts)
        if self._format not in LINES or b"_:" in together:
            return None
        try:
            lines = self._parse(together)
        except SyntaxError:
            return None
        sizes = np.array([text.count(b"\n") + (text[-1:] != b"\n") for text in texts], np.int64)
        return (lines, sizes) if sizes.sum() == lines.count(b"\n") else None

    def _parse_apart(
        self, texts: Sequence[bytes], scopes: Sequence[str], reject: Reject
    ) -> tuple[bytes, Int64s]:
        parsed = []
        for i, (text, scope) in enumerate(zip(texts, scopes, strict=True)):
            lines = b""
            try:
                lines = self._parse(text)
            except SyntaxError as error:
                where, words = explain_syntax_error(error)
                line = f"line {error.lineno}{where}: " if error.lineno is not None else ""
                reject(i, f"{line}{words}")
            else:
                if not lines:
                    reject(i, "there is no triple in it")
            if b"_:" in lines:
                blanks = BlankNames(scope, numbered=self._format not in LINES)
                lines = blanks.rename_all(lines.decode()).encode()
            parsed.append(lines)
        return b"".join(parsed), np.array([lines.count(b"\n") for lines in parsed], np.int64)

    def _parse(self, text: bytes) -> bytes:
        ox = self._ox
        lines: bytes = ox.serialize(
            ox.parse(text, format=self._parser), format=ox.RdfFormat.N_QUADS
        )
        return lines

    # ------------------------------------------------------------- documents

    def read_document(self, text: bytes, scope: str, reject: Reject) -> Iterator[ReadTexts]:
        """Yield the events of a document, by their numbers in it; bad lines are rejected."""

        def report(bad: BadRow) -> None:
            shown = "" if bad["text"] is None else f": {bad['text']}"
            reject(int(bad["row"]), f"{bad['reason']}{shown}")

        mistakes = Mistakes(report)
        grouper = QuadGrouper(scope, self._terms, mistakes, REACH)
        try:
            for quads in read_quads(
                text, self._terms, format=self._format, label=scope, scope=scope, mistakes=mistakes
            ):
                grouper.add(quads)
                if (group := grouper.close(at_end=False)) is not None:
                    yield self._time(group, reject)
            if (group := grouper.close(at_end=True)) is not None:
                yield self._time(group, reject)
        except DataError as error:
            reject(0, str(error))

    # ----------------------------------------------------------------- times

    def _time(self, group: EventGroup, reject: Reject) -> ReadTexts:
        """Return the events of a group that have a time; reject the others."""
        mistakes = Mistakes(lambda bad: reject(int(bad["row"]), str(bad["reason"])))
        timer = EventTimer(0, "", self._terms, self._rule, mistakes, ordered=False)
        if self._timeless:
            return ReadTexts(timer.sort_events(group), group.names)
        events = timer.build_events(group)
        return ReadTexts(events, group.names[np.searchsorted(group.numbers, events.numbers)])
