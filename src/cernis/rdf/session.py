"""`GraphSession`: a SPAseQ query over RDF streams, from files to matches.

The session of all languages (`cernis.run.stream_session`) over a source of solutions and the feed
of the linked engine. `collect` keeps every row; `stream` gives the matches of each batch and drops
the rows and terms that no partial match needs. `push` takes streams that go on, in pieces.

Frozen bytes hold the states of the feed and of the source, and the texts of all their terms.
Terms have codes of their own in the bytes: a session that thaws them may have other codes, of other
background knowledge. The bytes name their query; another query refuses them. Cost: linear in the
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from cernis.engine.dag.links import DagSegment
from cernis.engine.linked.runtime import LinkedEngine
from cernis.errors import DataError, StateError
from cernis.events.times import UNITS
from cernis.plan.linked import LinkedPlan
from cernis.rdf.feed import LinkedFeed
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.pieces import FrozenStream
from cernis.rdf.reading.terms import Terms, check_terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.shape import TimeFormat, shape_answers
from cernis.rdf.solving.solutions import SolvedBatch
from cernis.rdf.source import GraphSource, SolutionSource
from cernis.run.freeze import fingerprint_text, unpack_own
from cernis.run.stream_session import StreamSession
from cernis.signature import Secret
from cernis.state import (
    Arrays,
    Sizes,
    Tree,
    choice,
    frozen_record,
    listed,
    nested,
    optional,
    pack,
    read,
    read_array,
    require,
    text,
    write,
)

_COLUMNS = ("rows.codes", "keys", "held.s", "held.p", "held.o", "ended")
"""The arrays of terms' codes, beside those of the engine's entries."""


class GraphSession(StreamSession[GraphMatches, Iterator[SolvedBatch]]):
    """One run of a query over a source; an error in what is read closes it."""

    def __init__(
        self,
        plan: LinkedPlan,
        source: SolutionSource,
        *,
        strict: bool = False,
        keep: bool = False,
    ) -> None:
        """`keep` the matches, for `pull`."""
        if keep and source.versions is not None:
            raise StateError("a session that keeps its matches has no live background")
        super().__init__(source.mistakes, strict=strict, keep=keep)
        self.plan, self._shape = plan, shape_answers(plan.query, plan.linked)
        self._use(source)

    def _use(self, source: SolutionSource) -> None:
        self.source = source
        self.feed = LinkedFeed(self.plan, source.values, source.unit, keep=self.keep)

    @property
    def events(self) -> int:
        """The number of events read."""
        return self.feed.builder.events

    @property
    def engine(self) -> LinkedEngine:
        return self.feed.engine

    @property
    def versions(self) -> list[str] | None:
        """The versions of a live background so far, the last of which is current."""
        return self.source.versions

    # ---------------------------------------------------------------- reading

    def open(self, events: Any) -> Iterator[SolvedBatch]:
        """Open whole streams, for `read`."""
        return self._begin(events, whole=True)

    def read(self, batch: SolvedBatch) -> list[DagSegment]:
        """Read a batch; return the compact sets of the matches that end in it."""
        with self.guard:
            return self.feed.take(batch)

    def take(self, batch: SolvedBatch) -> GraphMatches:
        """Return the matches that end in a batch."""
        return self.matches(self.read(batch))

    def _begin(self, events: Any, *, whole: bool) -> Iterator[SolvedBatch]:
        self.guard.check()
        return self.source.open(events, whole=whole)

    def _batches(
        self, reading: Iterator[SolvedBatch], *, last: bool = False
    ) -> Iterator[list[Any]]:
        for batch in reading:
            found = self.feed.take(batch)
            self.notes = self.source.list_notes(last=False)
            yield found
        self.mistakes.complete()
        self.notes = self.source.list_notes(last=last)

    def push(self, events: Any) -> GraphMatches:
        """Return the matches that a piece makes certain; it follows all pieces before in time.

        `events` are files or bytes, as `GraphQuery.run` takes them; streams without events may be
        missing. The next piece may have events at the last timestamp of this one, so its matches
        come with the first later event, with `advance` or with `finish`.
        """
        self._renew_background()
        return super().push(events)

    def _renew_background(self) -> None:
        """Read a live background again if its files have changed.

        The state moves over to the terms and plans of the new one as frozen bytes do.
        """
        self.guard.check()
        if isinstance(self.source, GraphSource):
            with self.guard:
                source = self.source.renew()
                if source is not None:
                    state = self._freeze()
                    self._use(source)
                    thaw_graphs(state, self.plan, self.source, self.feed)

    def advance(self, time: int | float | str | datetime) -> GraphMatches:
        """Return the matches that are certain now that no event before a time comes.

        `time` is a number of the session's unit, or a date.
        """
        self.guard.check()
        batches = self._streams.advance(time)
        with self.guard:
            found = self._collect(batches)
            self._forget_if_due()
            return found

    def finish(self) -> GraphMatches:
        """Return the matches at the last timestamp, now that no further event comes."""
        with self.guard:
            return self._collect(self._streams.finish())

    @property
    def _streams(self) -> GraphSource:
        assert isinstance(self.source, GraphSource)
        return self.source

    # ---------------------------------------------------------------- results

    def matches(self, segments: list[DagSegment]) -> GraphMatches:
        """Return the matches of some compact sets."""
        source, feed, shape = self.source, self.feed, self._shape
        if source.versions is not None:
            shape = shape._replace(versions=tuple(source.versions))
        return GraphMatches(
            feed.find(segments),
            feed.store.copy(),
            source.terms.view(),
            shape,
            TimeFormat(source.unit if source.numeric_times else None),
            not feed.builder.likeness.merges,
            self._list_notes(),
            self.mistakes.used,
        )

    def _result(self, segments: list[Any], *, last: bool = False) -> GraphMatches:
        return self.matches(segments)

    def _pull(self) -> GraphMatches:
        return self.matches(self.feed.pull())

    # ------------------------------------------------------------------ state

    def forget(self) -> None:
        """Drop the rows and terms that no partial match needs, if there are many."""
        with self.guard:
            self._forget_if_due()

    def _forget_if_due(self) -> None:
        self.feed.forget_if_due(self.source)

    def freeze(self, *, secret: Secret = None) -> bytes:
        """Return the state as versioned bytes; `GraphQuery.thaw` goes on from there.

        With a `secret`, the bytes are signed, and thaw with the same secret only.
        """
        self.guard.check()
        if isinstance(self.source, GraphSource):
            self.source.check_goes_on()
        return super().freeze(secret=secret)

    def _freeze(self) -> bytes:
        return freeze_graphs(self.plan, self.source, self.feed)

    def thaw(self, state: bytes) -> None:
        """Put a new session into a frozen state; StateError if it is not one of this query."""
        with self.guard:
            thaw_graphs(state, self.plan, self.source, self.feed)


# -------------------------------------------------------------------- frozen


@frozen_record
class FrozenGraphs:
    """How a frozen session reads solutions."""

    unit: str = choice(tuple(UNITS))
    versions: list[str] | None = optional(listed(text()))
    """Those of a live background."""
    streams: list[FrozenStream] | None = optional(listed(nested(FrozenStream)))
    """Those of RDF, which its source writes."""

    def check(self, sizes: Sizes) -> None:
        """Raise StateError if a live background has no version."""
        require(self.versions != [], "there is no version of the background")


class FrozenStreams(NamedTuple):
    """How a frozen session reads RDF."""

    unit: str
    time: dict[str, TimeRule]
    live: bool
    """Whether its background is live."""


def freeze_graphs(plan: LinkedPlan, source: SolutionSource, feed: LinkedFeed) -> bytes:
    """Return the state of a session between two batches."""
    tree: Tree = {"query": fingerprint_text(str(plan.query))}
    tree |= write(FrozenGraphs(source.unit, source.versions, None))
    tree |= feed.freeze(live=source.versions is not None) | source.freeze()
    return pack(_write_terms(tree, source.terms))


def _write_terms(tree: Tree, terms: Terms) -> Tree:
    """Return a state with codes of its own, and the texts of these."""
    columns = [(tree, name) for name in _COLUMNS if name in tree]
    columns.append((tree["engine"]["entries"], "codes"))
    used = np.unique(np.concatenate([part[name].reshape(-1) for part, name in columns]))
    used = used[used >= 0]
    for part, name in columns:
        codes = part[name]
        own = np.where(codes >= 0, np.searchsorted(used, codes), codes)
        part[name] = own.astype(np.int32)
    texts = [text.encode() for text in terms.texts(used).to_pylist()]
    tree["terms.ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    tree["terms.text"] = np.frombuffer(b"".join(texts), np.uint8)
    return tree


def read_state(state: bytes, plan: LinkedPlan) -> FrozenStreams:
    """Return how the session of frozen bytes reads RDF, if they belong to this query."""
    tree = unpack_own(state, str(plan.query))
    frozen = read(FrozenGraphs, tree)
    names = [name for name, _ in plan.query.streams]
    streams = frozen.streams or ()
    require(len(streams) == len(names), "it has other streams")
    try:
        rules = {
            name: TimeRule(one.property, one.pattern, one.unit)
            for name, one in zip(names, streams, strict=True)
        }
    except DataError as error:
        raise StateError(f"the frozen state is damaged: {error}") from error
    return FrozenStreams(frozen.unit, rules, frozen.versions is not None)


def thaw_graphs(state: bytes, plan: LinkedPlan, source: SolutionSource, feed: LinkedFeed) -> None:
    """Put a new source and its feed into the state that was frozen."""
    tree = unpack_own(state, str(plan.query))
    frozen = read(FrozenGraphs, tree)
    require(frozen.unit == source.unit, "it has another unit of time")
    codes = source.terms.add(_read_terms(tree))
    feed.thaw(tree, codes, len(frozen.versions or ()))
    source.thaw(tree, codes)
    source.continue_versions(frozen.versions)


def _read_terms(arrays: Arrays) -> list[str]:
    """Return the texts of terms, none twice."""
    written = read_array(arrays, "terms.text", np.uint8).tobytes()
    ends = read_array(arrays, "terms.ends", np.int64, low=0, below=len(written) + 1).tolist()
    begins = [0, *ends[:-1]]
    require(
        all(begin <= end for begin, end in zip(begins, ends, strict=False))
        and (ends[-1] if ends else 0) == len(written),
        "its terms do not fill their text",
    )
    try:
        texts = [written[b:e].decode() for b, e in zip(begins, ends, strict=False)]
    except UnicodeDecodeError as error:
        raise StateError("the frozen state is damaged: a term is no text") from error
    check_terms(texts)
    require(len(set(texts)) == len(texts), "a term comes twice")
    return texts
