"""Quads into events, and the events of several streams into one order.

One named graph is one event. Its quads may stand apart, others between them, but never
more than `reach` quads from one to the next (metadata in the default graph included): after
that the event is over, and memory stays that of what is not over yet, and of what has to
wait behind it. A quad that comes later is a mistake. An event's number is the rank of its
graph's first quad.

A triple of the default graph whose subject is the name of an event's graph tells about that
event: it gives its time, or becomes part of its graph. A triple of the default graph about
anything else is a mistake; general knowledge belongs into a background graph.

The time of an event follows a `TimeRule`. Where none was given, the first event decides for
the whole stream: a property of `KNOWN_PROPERTIES`; or the property of the only triple about
the graph's own name whose object is a time; or the name itself. A stream that says its
time in two ways is a mistake, so it is not looked for again. The value of a property is that
of the triple about the graph's own name, in the default graph or in the graph; if there is
none, that of any triple in the graph, if they all say the same. A time that the default graph
gives is no part of the event's graph.

Within a stream time must not go back; equal times are fine. Streams are merged in order of
(time, stream, number), the paper's streamset, in batches that never part one timestamp: the
next event in time is then always in the same batch or in the next.

Cost: a few passes of kernels over the quads; the events of a batch cost no Python each. The
rejected design sorts the quads by graph: a table from the graph's code to its event, one
access per quad, does without the sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.errors import DataError
from cernis.events.mistakes import Mistakes, OnError, did_you_mean
from cernis.rdf.reading.quads import BATCH, Input, Quads, read_quads
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import (
    DATETIME_IN_NAME,
    DIGITS_IN_NAME,
    KNOWN_PROPERTIES,
    TimeRule,
    in_names,
    shown,
    times_of,
)

__all__ = ["REACH", "GraphEvents", "Streamset", "TimeRule", "stream_events"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

REACH = 1 << 16
"""How many quads may lie between two quads of one event."""

EVENTS = 1 << 16
"""The most events in a batch, unless more share one timestamp."""


class GraphEvents(NamedTuple):
    """A batch of events in order of time, then stream, then number."""

    times: Int64s
    """Nanoseconds."""
    streams: Codes
    """The index of an event's stream."""
    numbers: Int64s
    """The number of an event in its stream."""
    first: Int64s
    """Event i has the triples first[i] to first[i + 1]."""
    s: Codes
    p: Codes
    o: Codes
    """Each event's triples in order of (p, s, o), none twice."""

    @property
    def size(self) -> int:
        """The number of events."""
        return len(self.times)

    def part(self, begin: int, end: int) -> GraphEvents:
        """The events from `begin` up to `end`."""
        low, high = int(self.first[begin]), int(self.first[end])
        return GraphEvents(
            self.times[begin:end],
            self.streams[begin:end],
            self.numbers[begin:end],
            self.first[begin : end + 1] - low,
            self.s[low:high],
            self.p[low:high],
            self.o[low:high],
        )


class Streamset:
    """Named streams (files, bytes, open binary files) as one: iterate for batches of events, once.

    A stream's index is its place in `sources`. `time` says where its times are, for all streams
    or for each; `bad` what is done about mistakes: `fail`, `skip`, or where to put them.

    >>> stream = b'''<http://x/a> <http://x/p> "1" <urn:e:5> .
    ... <http://x/a> <http://x/p> "2" <urn:e:9> .'''
    >>> events = Streamset({"S": stream}, Terms())
    >>> [batch.times.tolist() for batch in events], print(events.rules["S"])
    the name of the graph, by '(?:^|[A-Za-z])[^A-Za-z0-9]*([0-9]+)$'
    ([[5000000, 9000000]], None)
    """

    def __init__(
        self,
        sources: Mapping[str, Input],
        terms: Terms,
        *,
        time: TimeRule | Mapping[str, TimeRule] | None = None,
        format: str | None = None,
        bad: OnError | Mistakes = "fail",
        reach: int = REACH,
        batch: int = BATCH,
    ) -> None:
        self.terms = terms
        self.mistakes = bad if isinstance(bad, Mistakes) else Mistakes(bad)
        self.streams = tuple(sources)
        given = time if isinstance(time, Mapping) else dict.fromkeys(sources, time)
        for name in given:
            if name not in sources:
                raise DataError(
                    f"no stream {name!r} to read times of{did_you_mean(name, self.streams)}"
                )
        self._streams = []
        for index, (name, data) in enumerate(sources.items()):
            label = str(data) if isinstance(data, (str, Path)) else name
            quads = read_quads(
                data, terms, format=format, label=label, mistakes=self.mistakes, batch=batch
            )
            rule = given.get(name) or TimeRule()
            stream = StreamReader(index, label, terms, rule, self.mistakes, reach)
            self._streams.append((stream, quads))
        self._merge = Merge(stream.events(quads) for stream, quads in self._streams)

    @property
    def rules(self) -> dict[str, TimeRule | None]:
        """Where each stream has its times; None while nobody has said and no event was read."""
        rules = [stream.rule for stream, _ in self._streams]
        decided = [rule if rule.decided() else None for rule in rules]
        return dict(zip(self.streams, decided, strict=True))

    @property
    def counted(self) -> bool:
        """Whether times are numbers, as far as is known, and not dates."""
        return all(stream.counted for stream, _ in self._streams if stream.counted is not None)

    @property
    def skipped(self) -> dict[str, int]:
        """How many lines, triples and events of each stream were left out."""
        counts = [self.mistakes.skipped.get(stream.label, 0) for stream, _ in self._streams]
        return dict(zip(self.streams, counts, strict=True))

    def __iter__(self) -> Iterator[GraphEvents]:
        """Batches of events, once."""
        return self._merge

    def held(self) -> Iterator[Codes]:
        """The codes of terms that were read and not given yet."""
        yield from self._merge.held()
        for stream, _ in self._streams:
            yield from stream.held()

    def renumber(self, moved: Codes) -> None:
        """Follows terms whose codes have changed."""
        self._merge.renumber(moved)
        for stream, _ in self._streams:
            stream.renumber(moved)


def stream_events(
    quads: Iterable[Quads],
    terms: Terms,
    *,
    stream: int = 0,
    label: str = "input",
    time: TimeRule | None = None,
    mistakes: Mistakes | None = None,
    reach: int = REACH,
) -> Iterator[GraphEvents]:
    """The events of one stream, in the order of their numbers; a timestamp may be parted."""
    reader = StreamReader(stream, label, terms, time or TimeRule(), mistakes or Mistakes(), reach)
    return reader.events(quads)


# ----------------------------------------------------------------- grouping


class _Rows(NamedTuple):
    """Quads, each with the place of its event."""

    event: Codes
    s: Codes
    p: Codes
    o: Codes
    named: Bools  # not in the default graph

    def take(self, rows: NDArray[Any]) -> _Rows:
        return _Rows(self.event[rows], self.s[rows], self.p[rows], self.o[rows], self.named[rows])

    def with_more(self, more: _Rows) -> _Rows:
        return _Rows(
            np.concatenate([self.event, more.event]),
            np.concatenate([self.s, more.s]),
            np.concatenate([self.p, more.p]),
            np.concatenate([self.o, more.o]),
            np.concatenate([self.named, more.named]),
        )


class _Open(NamedTuple):
    """The events that are not over, or wait for one that is not."""

    names: Codes
    last: Int64s  # position of the last quad
    numbers: Int64s  # -1: only triples of the default graph so far
    rows: _Rows


class EventGroup(NamedTuple):
    """Events that are over, in the order of their numbers; event i has rows first[i] and on."""

    names: Codes
    numbers: Int64s
    first: Int64s
    rows: _Rows


_UNSEEN, _OVER = -1, -2


class StreamReader:
    """One stream's way from quads to events."""

    def __init__(
        self,
        index: int,
        label: str,
        terms: Terms,
        rule: TimeRule,
        mistakes: Mistakes,
        reach: int,
    ) -> None:
        self.index, self.label, self.rule = index, label, rule
        self.counted: bool | None = None
        """Whether its times are numbers; None before the first that is not zero."""
        self._terms, self._mistakes, self._reach = terms, mistakes, max(1, reach)
        self._slots = np.empty(0, np.int32)  # by term: the entry of the graph of that name
        self._counts = np.zeros(2, np.int64)  # entries, numbers given
        self._position = 0
        self._latest: tuple[int, int] | None = None  # time and name
        codes, longs = np.empty(0, np.int32), np.empty(0, np.int64)
        rows = _Rows(codes, codes, codes, codes, np.empty(0, np.bool_))
        self._open = _Open(codes, longs, longs, rows)

    def events(self, quads: Iterable[Quads]) -> Iterator[GraphEvents]:
        for batch in quads:
            self._file(batch)
            yield from self._finished(at_end=False)
        yield from self._finished(at_end=True)

    def _file(self, quads: Quads) -> None:
        """Find the event of each quad."""
        n = len(quads.s)
        named = quads.g >= 0
        self._slots = _grown(self._slots, len(self._terms))
        before = self._open
        names = np.concatenate([before.names, np.empty(n, np.int32)])
        last = np.concatenate([before.last, np.empty(n, np.int64)])
        numbers = np.concatenate([before.numbers, np.empty(n, np.int64)])
        entry = np.empty(n, np.int32)
        keys = np.where(named, quads.g, quads.s)
        far = _file_quads(
            keys, named, self._position, self._reach, self._slots, names, last, numbers, entry,
            self._counts,
        )  # fmt: skip
        rows = _Rows(entry, quads.s, quads.p, quads.o, named)
        if far:
            self._report_far(quads, keys, entry)
            rows = rows.take(entry >= 0)
        self._position += n
        size = int(self._counts[0])
        self._open = _Open(names[:size], last[:size], numbers[:size], before.rows.with_more(rows))

    def _finished(self, at_end: bool) -> Iterator[GraphEvents]:
        waiting = self._open
        over = np.ones(len(waiting.names), np.bool_)
        if not at_end:
            over = self._position - waiting.last > self._reach
        numbered = waiting.numbers >= 0
        held = waiting.numbers[numbered & ~over]
        ready = numbered & over & (waiting.numbers < (held.min() if len(held) else _LARGEST))
        stray = ~numbered & over
        if not ready.any() and not stray.any():
            return
        if stray.any():
            self._report_strays(stray)
        group = _grouped(waiting, ready)
        self._keep(~(ready | stray))
        if len(group.names):
            events = self._timed(group)
            if events.size:
                yield events

    def _keep(self, stay: Bools) -> None:
        """Let go of all other entries, for good."""
        waiting = self._open
        self._slots[waiting.names] = _OVER
        self._slots[waiting.names[stay]] = np.arange(np.count_nonzero(stay), dtype=np.int32)
        moved = np.cumsum(stay, dtype=np.int32) - 1
        rows = waiting.rows.take(stay[waiting.rows.event])
        rows = rows._replace(event=moved[rows.event])
        self._open = _Open(waiting.names[stay], waiting.last[stay], waiting.numbers[stay], rows)
        self._counts[0] = len(self._open.names)

    def held(self) -> Iterator[Codes]:
        waiting = self._open
        yield waiting.names
        yield from (waiting.rows.s, waiting.rows.p, waiting.rows.o)
        if self._latest is not None:
            yield np.array([self._latest[1]], np.int32)

    def renumber(self, moved: Codes) -> None:
        """Graphs that are over and whose names nobody holds are new if they come back."""
        names, last, numbers, rows = self._open
        old, kept = self._slots, np.flatnonzero(moved[: len(self._slots)] >= 0)
        self._slots = np.full(int(moved.max(initial=-1)) + 1, _UNSEEN, np.int32)
        self._slots[moved[kept]] = old[kept]
        rows = rows._replace(s=moved[rows.s], p=moved[rows.p], o=moved[rows.o])
        self._open = _Open(moved[names], last, numbers, rows)
        if self._latest is not None:
            self._latest = self._latest[0], int(moved[self._latest[1]])

    # ---------------------------------------------------------------- times

    def _timed(self, group: EventGroup) -> GraphEvents:
        if not self.rule.decided():
            self._decide(group)
        if self.rule.property is not None:
            times, bad = self._by_property(group, self.rule.property)
        elif self.rule.pattern is not None:
            names = self._terms.texts(group.names)
            times, good = in_names(names, self.rule.pattern, self.rule.unit)
            if self.counted is None and times.any():
                other, _ = in_names(names, self.rule.pattern, _other_unit(self.rule.unit))
                self.counted = bool((times != other).any())
            bad = self._where(~good, lambda i: f"its name has no time, by {self.rule}")
        else:
            tried = ", ".join(f"<{iri}>" for iri in KNOWN_PROPERTIES)
            times = np.zeros(len(group.names), np.int64)
            bad = self._where(
                times == 0,
                lambda i: (
                    f"the event has no time: none of {tried}, no triple about the graph's "
                    "own name with a time, no time in the name; say which property or part of the "
                    "name it is"
                ),
            )
        for i in sorted(bad):
            self._bad_event(group, i, bad[i])
        keep = np.ones(len(times), np.bool_)
        keep[list(bad)] = False
        self._check_order(group, times, keep)
        return _events(group, times, keep, self._in_graph(group.rows), self.index)

    def _in_graph(self, rows: _Rows) -> Bools:
        """Which quads become triples of their event: not the times that the default graph has."""
        if self.rule.property is None:
            return np.ones(len(rows.s), np.bool_)
        time: Bools = rows.p == self._terms.find(f"<{self.rule.property}>")
        return rows.named | ~time

    def _by_property(self, group: EventGroup, iri: str) -> tuple[Int64s, dict[int, str]]:
        n = len(group.names)
        said = group.rows.take(np.flatnonzero(group.rows.p == self._terms.find(f"<{iri}>")))
        own = said.s == group.names[said.event]
        has_own = np.zeros(n, np.bool_)
        has_own[said.event[own]] = True
        said = said.take(own | ~has_own[said.event])
        event, objects = said.event, said.o
        texts = self._terms.texts(objects)
        found, good = times_of(texts, self.rule.unit)
        if self.counted is None and found.any():
            self.counted = bool((times_of(texts, _other_unit(self.rule.unit))[0] != found).any())
        bad: dict[int, str] = {}
        missing = np.ones(n, np.bool_)
        missing[event] = False
        bad |= self._where(missing, lambda i: f"the event has no time: no <{iri}> in it")
        begins = np.flatnonzero(np.diff(event, prepend=-1))
        times = np.zeros(n, np.int64)
        times[event[begins]] = found[begins]
        other = np.flatnonzero(found != times[event])
        for k in other[::-1]:
            one, two = shown(int(times[event[k]])), shown(int(found[k]))
            bad[int(event[k])] = f"the event has two times by <{iri}>: {one} and {two}"
        for k in np.flatnonzero(~good)[::-1]:
            text = self._terms.text(objects[k])
            bad[int(event[k])] = f"{text} by <{iri}> is no time; {_meant(text)}"
        return times, bad

    def _decide(self, group: EventGroup) -> None:
        """The rule of the stream, by its first event that has a time."""
        for i in range(len(group.names)):
            rows = group.rows.take(np.arange(group.first[i], group.first[i + 1]))
            rule = self._rule_of(int(group.names[i]), rows)
            if rule is not None:
                self.rule = rule
                return
            if self._mistakes.fails:
                return

    def _rule_of(self, name: int, rows: _Rows) -> TimeRule | None:
        _, s, p, o, _ = rows
        own = s == name
        present = [i for i in KNOWN_PROPERTIES if (p == self._terms.find(f"<{i}>")).any()]
        for iri in present:
            has = p == self._terms.find(f"<{iri}>")
            has = has & own if (has & own).any() else has
            times, good = times_of(self._terms.texts(o[has]), self.rule.unit)
            if len(times) and good.all() and (times == times[0]).all():
                return self.rule.by_property(iri)
        _, good = times_of(self._terms.texts(o[own]), self.rule.unit)
        properties = np.unique(p[own][good])
        if len(properties) == 1:
            return self.rule.by_property(self._terms.text(int(properties[0]))[1:-1])
        text = self._terms.texts([name])
        for pattern in (DATETIME_IN_NAME, DIGITS_IN_NAME):
            _, good = in_names(text, pattern, self.rule.unit)
            if good[0]:
                return self.rule.by_name(pattern)
        # none will do, but what is wrong with the first of these is what should be said
        return self.rule.by_property(present[0]) if present and self._mistakes.fails else None

    def _check_order(self, group: EventGroup, times: Int64s, keep: Bools) -> None:
        """Report and unmark events that are earlier than one before them."""
        rows = np.flatnonzero(keep)
        if not len(rows):
            return
        reached = np.maximum.accumulate(times[rows])
        if self._latest is not None:
            reached = np.maximum(reached, self._latest[0])
        holder = np.where(times[rows] == reached, np.arange(len(rows)), -1)
        holder = np.maximum.accumulate(holder)
        for k in np.flatnonzero(times[rows] < reached):
            if holder[k] >= 0:
                name = int(group.names[rows[holder[k]]])
            else:
                assert self._latest is not None
                name = self._latest[1]
            now, before = shown(int(times[rows[k]])), shown(int(reached[k]))
            reason = f"time goes back: {now} comes after {before} of the graph "
            reason += f"{self._terms.text(name)}; sort the events of a stream by time"
            self._bad_event(group, int(rows[k]), reason)
            keep[rows[k]] = False
        if holder[-1] >= 0:
            self._latest = int(reached[-1]), int(group.names[rows[holder[-1]]])

    # ------------------------------------------------------------- mistakes

    def _where(self, mask: Bools, reason: Callable[[int], str]) -> dict[int, str]:
        return {int(i): reason(int(i)) for i in np.flatnonzero(mask)}

    def _bad_event(self, group: EventGroup, i: int, reason: str) -> None:
        name, number = self._terms.text(group.names[i]), int(group.numbers[i])
        where = f"{self.label}, graph {name} (event {number})"
        self._mistakes.bad(self.label, number, None, reason, text=name, where=where)

    def _report_far(self, quads: Quads, keys: Codes, entry: Codes) -> None:
        for i in np.flatnonzero(entry < 0):
            name, at = self._terms.text(keys[i]), self._position + int(i)
            text = self._written(quads.s[i], quads.p[i], quads.o[i])
            self._mistakes.bad(
                self.label,
                at,
                None,
                f"a quad of the graph comes more than {self._reach} quads after the one before "
                f"it: {text}; bring the quads of an event together, or allow a wider reach",
                text=text,
                where=f"{self.label}, quad {at}, graph {name}",
            )

    def _report_strays(self, stray: Bools) -> None:
        rows = self._open.rows
        for i in np.flatnonzero(stray[rows.event]):
            text = self._written(rows.s[i], rows.p[i], rows.o[i])
            self._mistakes.bad(
                self.label,
                int(self._open.last[rows.event[i]]),
                None,
                f"a triple of the default graph is about no event: {text}; put it into the named "
                "graph of an event, or into background knowledge",
                text=text,
                where=self.label,
            )

    def _written(self, *codes: np.int32) -> str:
        return " ".join(self._terms.text(int(code)) for code in codes) + " ."


_LARGEST = 2**63 - 1


def _other_unit(unit: str) -> str:
    """Numbers mean something else in another unit, dates do not."""
    return "us" if unit == "ns" else "ns"


def _meant(text: str) -> str:
    if text.startswith('"') and text.endswith('"'):
        return f"write {text}^^xsd:dateTime, or a number, or another property"
    return "expected xsd:dateTime, xsd:date or a number"


def _grown(slots: Codes, size: int) -> Codes:
    if size <= len(slots):
        return slots
    larger = np.full(max(size, 2 * len(slots)), _UNSEEN, np.int32)
    larger[: len(slots)] = slots
    return larger


def _grouped(waiting: _Open, ready: Bools) -> EventGroup:
    """The quads of the events that are ready, event by event."""
    entries = np.flatnonzero(ready)
    entries = entries[np.argsort(waiting.numbers[entries])]
    place = np.full(len(ready), -1, np.int32)
    place[entries] = np.arange(len(entries), dtype=np.int32)
    event = place[waiting.rows.event]
    first = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(np.bincount(event[event >= 0], minlength=len(entries)), out=first[1:])
    order = np.empty(int(first[-1]), np.int64)
    _by_event(event, first[:-1].copy(), order)
    rows = waiting.rows.take(order)._replace(event=event[order])
    return EventGroup(waiting.names[entries], waiting.numbers[entries], first, rows)


def _events(
    group: EventGroup, times: Int64s, keep: Bools, in_graph: Bools, stream: int
) -> GraphEvents:
    """The events that are kept, their triples sorted and without repetition."""
    event, s, p, o, _ = group.rows.take(in_graph & keep[group.rows.event])
    sizes = np.bincount(event, minlength=len(times))[keep]
    first = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    end = _sort_triples(s, p, o, first)
    streams = np.full(len(sizes), stream, np.int32)
    return GraphEvents(times[keep], streams, group.numbers[keep], first, s[:end], p[:end], o[:end])


# ------------------------------------------------------------------ merging


class _Run:
    """One stream's place in the merge: events that were read and not given yet."""

    def __init__(self, events: Iterator[GraphEvents]) -> None:
        self._events = events
        self.waiting: GraphEvents | None = None
        self.ended = False

    def read_on(self) -> None:
        more = next(self._events, None)
        if more is None:
            self.ended = True
        elif self.waiting is None:
            self.waiting = more
        else:
            self.waiting = _joined([self.waiting, more])

    @property
    def until(self) -> float | int:
        """Events before this time are all there."""
        if self.ended:
            return float("inf")
        return int(self.waiting.times[-1]) if self.waiting is not None else -float("inf")

    def take(self, horizon: float | int) -> GraphEvents | None:
        """The events before a time."""
        events = self.waiting
        if events is None:
            return None
        count = events.size
        if horizon != float("inf"):
            count = int(np.searchsorted(events.times, horizon))
        self.waiting = events.part(count, events.size) if count < events.size else None
        return events.part(0, count) if count else None


class Merge:
    """Streams, each in order of time, as one; a timestamp is never parted between batches."""

    def __init__(self, streams: Iterable[Iterator[GraphEvents]]) -> None:
        self._runs = [_Run(iter(events)) for events in streams]
        self._ready: list[GraphEvents] = []
        self._begun = False

    def __iter__(self) -> Iterator[GraphEvents]:
        return self

    def __next__(self) -> GraphEvents:
        while not self._ready:
            self._advance()
        return self._ready.pop()

    def _advance(self) -> None:
        runs = self._runs
        if not self._begun:
            self._begun = True
            for run in runs:
                run.read_on()
                run.read_on()  # a short stream is then known to have ended, and is one batch
        if all(run.ended and run.waiting is None for run in runs):
            raise StopIteration
        horizon = min(run.until for run in runs)
        taken = [events for run in runs if (events := run.take(horizon)) is not None]
        for run in runs:
            if not run.ended and run.until == horizon:
                run.read_on()
        if taken:
            self._ready = list(_split(_interleaved(taken)))[::-1]

    def held(self) -> Iterator[Codes]:
        for events in self._all():
            yield from (events.s, events.p, events.o)

    def renumber(self, moved: Codes) -> None:
        self._ready = [_renumbered(events, moved) for events in self._ready]
        for run in self._runs:
            if run.waiting is not None:
                run.waiting = _renumbered(run.waiting, moved)

    def _all(self) -> list[GraphEvents]:
        return [*self._ready, *(run.waiting for run in self._runs if run.waiting is not None)]


def _renumbered(events: GraphEvents, moved: Codes) -> GraphEvents:
    # the codes were in order of what their terms were called; any order will do
    s, p, o = moved[events.s], moved[events.p], moved[events.o]
    sizes = np.diff(events.first)
    order = np.lexsort((o, s, p, np.repeat(np.arange(events.size), sizes)))
    return events._replace(s=s[order], p=p[order], o=o[order])


def _joined(parts: list[GraphEvents]) -> GraphEvents:
    """Events one after the other."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([np.diff(part.first) for part in parts])
    first = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    times, streams, numbers, _, s, p, o = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return GraphEvents(times, streams, numbers, first, s, p, o)


def _interleaved(parts: list[GraphEvents]) -> GraphEvents:
    """Events in order of time; of equal times, those of earlier parts first."""
    together = _joined(parts)
    if len(parts) == 1:
        return together
    order = np.argsort(together.times, kind="stable")
    first = np.zeros(len(order) + 1, np.int64)
    np.cumsum(np.diff(together.first)[order], out=first[1:])
    s, p, o = (np.empty_like(column) for column in together[4:])
    _copy_triples(order, together.first, together.s, together.p, together.o, first, s, p, o)
    return GraphEvents(
        together.times[order], together.streams[order], together.numbers[order], first, s, p, o
    )


def _split(events: GraphEvents) -> Iterator[GraphEvents]:
    begin = 0
    while events.size - begin > EVENTS:
        end = int(np.searchsorted(events.times, events.times[begin + EVENTS]))
        if end == begin:
            end = int(np.searchsorted(events.times, events.times[begin], side="right"))
        yield events.part(begin, end)
        begin = end
    if begin < events.size:
        yield events.part(begin, events.size) if begin else events


# ------------------------------------------------------------------ kernels


@kernel
def _file_quads(
    keys: Codes,
    named: Bools,
    position: Any,
    reach: Any,
    slots: Codes,
    names: Codes,
    last: Int64s,
    numbers: Int64s,
    entry: Codes,
    counts: Int64s,
) -> Any:
    """Each quad's entry, -1 where it comes too late; returns how many do."""
    far = 0
    for i in range(len(keys)):
        at = position + i
        key = keys[i]
        found = slots[key]
        if found == _OVER or (found >= 0 and at - last[found] > reach):
            entry[i] = -1
            far += 1
            continue
        if found < 0:
            found = np.int32(counts[0])
            counts[0] += 1
            slots[key] = found
            names[found] = key
            numbers[found] = -1
        last[found] = at
        if named[i] and numbers[found] < 0:
            numbers[found] = counts[1]
            counts[1] += 1
        entry[i] = found
    return far


@kernel
def _by_event(event: Codes, free: Int64s, order: Int64s) -> None:
    """The quads of each event one after the other; those of event -1 are left out."""
    for i in range(len(event)):
        e = event[i]
        if e >= 0:
            order[free[e]] = i
            free[e] += 1


@kernel
def _sort_triples(s: Codes, p: Codes, o: Codes, first: Int64s) -> Any:
    """Sort each event's triples by (p, s, o), leave out repetitions; `first` follows.

    Shell's sort: most events have a handful of triples, which it sorts by insertion, and
    one with a hundred thousand takes no harm. Returns the number of triples left.
    """
    write = 0
    for event in range(len(first) - 1):
        begin, end = first[event], first[event + 1]
        gap = 1
        while 3 * gap + 1 < end - begin:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(begin + gap, end):
                si, pi, oi = s[i], p[i], o[i]
                j = i
                while j - gap >= begin:
                    k = j - gap
                    if p[k] < pi or (p[k] == pi and (s[k] < si or (s[k] == si and o[k] <= oi))):
                        break
                    s[j], p[j], o[j] = s[k], p[k], o[k]
                    j = k
                s[j], p[j], o[j] = si, pi, oi
            gap //= 3
        first[event] = write
        for i in range(begin, end):
            k = write - 1
            if k >= first[event] and p[i] == p[k] and s[i] == s[k] and o[i] == o[k]:
                continue
            s[write], p[write], o[write] = s[i], p[i], o[i]
            write += 1
    first[len(first) - 1] = write
    return write


@kernel
def _copy_triples(
    order: Int64s,
    source: Int64s,
    s: Codes,
    p: Codes,
    o: Codes,
    first: Int64s,
    new_s: Codes,
    new_p: Codes,
    new_o: Codes,
) -> None:
    """The triples of events in another order."""
    for i in range(len(order)):
        at = first[i]
        for k in range(source[order[i]], source[order[i] + 1]):
            new_s[at], new_p[at], new_o[at] = s[k], p[k], o[k]
            at += 1
