"""Files to events: one stream as a `StreamReader`, several as a `Streamset`.

A reader goes from quads to groups (`group`) to events with times (`timing`); a streamset merges
its readers (`merge`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from cernis.errors import DataError
from cernis.events.reading.mistakes import Mistakes, OnError, did_you_mean
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.group import REACH, EventGroup, QuadGrouper
from cernis.rdf.reading.merge import MergedStreams
from cernis.rdf.reading.quads import BATCH, Input, Quads, read_quads
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.reading.timing import EventTimer


class StreamReader:
    """Read the events of one stream, in the order of their numbers; batches may part a timestamp.

    `index` is the index of the stream, `label` its name in messages.
    """

    def __init__(
        self,
        index: int,
        label: str,
        terms: Terms,
        rule: TimeRule,
        mistakes: Mistakes,
        reach: int = REACH,
        *,
        ordered: bool = True,
    ) -> None:
        """Unless events are `ordered`, their times may go back."""
        self.label = label
        self._terms, self._mistakes = terms, mistakes
        self.grouper = QuadGrouper(label, terms, mistakes, reach)
        self.timer = EventTimer(index, label, terms, rule, mistakes, ordered=ordered)

    @property
    def rule(self) -> TimeRule:
        """Where the stream has its times."""
        return self.timer.rule

    @property
    def numeric_times(self) -> bool | None:
        """Whether times are numbers; None before the first that is not zero."""
        return self.timer.numeric_times

    def events(self, quads: Iterable[Quads]) -> Iterator[GraphEvents]:
        """Yield the events of some quads, in batches."""
        return (events for _, events in self._grouped_events(quads) if events.size)

    def read_piece(self, quads: Iterable[Quads]) -> Iterator[GraphEvents]:
        """Yield the events of one more piece of the stream, which has whole events."""
        names: list[Codes] = []
        for group, events in self._grouped_events(quads):
            names.append(group.names)
            if events.size:
                yield events
        if names:
            self.grouper.end_piece(np.concatenate(names))

    def _grouped_events(self, quads: Iterable[Quads]) -> Iterator[tuple[EventGroup, GraphEvents]]:
        """Yield events with the groups that they come from; a group may have no event."""
        for batch in quads:
            self.grouper.add(batch)
            yield from self._close(at_end=False)
        yield from self._close(at_end=True)

    def _close(self, *, at_end: bool) -> Iterator[tuple[EventGroup, GraphEvents]]:
        group = self.grouper.close(at_end=at_end)
        if group is not None:
            yield group, self.timer.build_events(group)

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms that the reader buffers."""
        yield from self.grouper.codes()
        yield from self.timer.codes()

    def recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms."""
        self.grouper.recode(new_codes)
        self.timer.recode(new_codes)


class Streamset:
    """Several named streams (files, bytes, open binary files) as one; iterate once, for batches.

    A stream's index is its position in `sources`. `time` says where its times are, for all streams
    or for each. `bad` is "fail", "skip", or where mistakes go. A source that is None has no events.

    >>> stream = b'''<http://x/a> <http://x/p> "1" <urn:e:5> .
    ... <http://x/a> <http://x/p> "2" <urn:e:9> .'''
    >>> events = Streamset({"S": stream}, Terms())
    >>> [batch.times.tolist() for batch in events]
    [[5000000, 9000000]]
    """

    def __init__(
        self,
        sources: Mapping[str, Input | None],
        terms: Terms,
        *,
        time: TimeRule | Mapping[str, TimeRule] | None = None,
        format: str | None = None,
        bad: OnError | Mistakes = "fail",
        reach: int = REACH,
        batch: int = BATCH,
    ) -> None:
        self.terms, self.format = terms, format
        self.mistakes = bad if isinstance(bad, Mistakes) else Mistakes(bad)
        given = time if isinstance(time, Mapping) else dict.fromkeys(sources, time)
        for name in given:
            if name not in sources:
                raise DataError(
                    f"no stream {name!r} to read times of{did_you_mean(name, tuple(sources))}"
                )
        self.readers: dict[str, StreamReader] = {}
        batches = []
        for index, (name, data) in enumerate(sources.items()):
            label = str(data) if isinstance(data, (str, Path)) else name
            rule = given.get(name) or TimeRule()
            reader = StreamReader(index, label, terms, rule, self.mistakes, reach)
            self.readers[name] = reader
            if data is not None:
                quads = read_quads(
                    data, terms, format=format, label=label, mistakes=self.mistakes, batch=batch
                )
                batches.append(reader.events(quads))
        self._merge = MergedStreams(batches)

    @property
    def rules(self) -> dict[str, TimeRule]:
        """Where each stream has its times, as far as is decided."""
        return {name: reader.rule for name, reader in self.readers.items()}

    @property
    def numeric_times(self) -> bool:
        """Whether times are numbers and not dates, as far as is known."""
        known = [reader.numeric_times for reader in self.readers.values()]
        return all(one for one in known if one is not None)

    @property
    def skipped(self) -> dict[str, int]:
        """How many lines, triples and events of each stream were left out, of the last piece."""
        skipped = self.mistakes.skipped
        return {name: skipped.get(reader.label, 0) for name, reader in self.readers.items()}

    def __iter__(self) -> Iterator[GraphEvents]:
        return self._merge

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms in events that were read and not given yet."""
        yield from self._merge.codes()
        for stream in self.readers.values():
            yield from stream.codes()

    def recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms."""
        self._merge.recode(new_codes)
        for stream in self.readers.values():
            stream.recode(new_codes)
