"""A SPAseQ query over RDF streams, from files to matches.

One session reads one streamset: events in batches, solutions of the graph patterns, rows, the
engine. `collect` keeps every row; `stream` gives the matches of each batch and drops the rows and
terms that no partial match needs. `push` takes streams that go on, in pieces
(`cernis.rdf.reading.pieces`).

Cost: parsing is most of it; see `cernis.rdf.reading.quads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from cernis.compiled.tiers import count_compiling_seconds, note_compiling
from cernis.engine.dag.links import DagSegment
from cernis.errors import DataError, StateError, StrictError, WarningNote, list_warnings
from cernis.events.mistakes import Mistakes, OnError
from cernis.output import UsedFile, input_files
from cernis.plan.graphs import GraphPlan
from cernis.rdf.advice import GraphSights
from cernis.rdf.freeze import freeze_session, read_state, thaw_session
from cernis.rdf.live_background import BackgroundFiles
from cernis.rdf.matches import GraphMatches
from cernis.rdf.name_streams import name_streams
from cernis.rdf.reading.background import explain_stores, load_background
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.pieces import StreamPieces
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.recognizer import GraphRecognizer, parse_time
from cernis.rdf.solving.solve import PatternSolver
from cernis.rdf.solving.values import TermValues
from cernis.signature import Secret, sign_state


class GraphRunOptions(NamedTuple):
    """How to read the streams of a run."""

    time: TimeRule | Mapping[str, TimeRule] | None = None
    format: str | None = None
    on_error: OnError = "fail"
    strict: bool = False
    """Whether warnings about the events are errors, at the end of a run."""


class GraphSession(GraphRecognizer):
    """One run of a query over RDF streams; an error closes it."""

    def __init__(
        self,
        plan: GraphPlan,
        options: GraphRunOptions,
        background: Any = None,
        unit: str = "ms",
        *,
        keep: bool = False,
        live: bool = False,
    ) -> None:
        """`keep` the matches of pieces, for `pull`; the background may be `live`."""
        if keep and live:
            raise StateError("a session that keeps its matches has no live background")
        self._compiled = count_compiling_seconds()
        values = TermValues(Terms())
        self._files, content = BackgroundFiles(background) if live else None, None
        if self._files is not None:
            content = self._files.read()
            graphs = content.load(values.terms)
        else:
            graphs = load_background(background, values.terms)
        self._remarks = explain_stores(background, values.terms)
        self.solver = PatternSolver(plan, values, graphs)
        super().__init__(plan, values, unit)
        self.versions = None if content is None else [content.version]
        self.options, self.mistakes = options, Mistakes(options.on_error)
        self.streams: Streamset | None = None
        self.pieces = self._make_pieces(self._name_rules())
        self._background = _background_files(background)
        self._kept: list[DagSegment] | None = [] if keep else None
        self._now = 0
        """The time of the last event that was recognized."""
        self._is_finished = False
        self._sights, self._is_read = GraphSights(plan.query), False
        """What the events are like, and whether all of a run were read."""

    def _make_pieces(self, rules: Mapping[str, TimeRule]) -> StreamPieces:
        names = [name for name, _ in self.query.streams]
        return StreamPieces(names, self.terms, rules, self.mistakes, self.options.format)

    def _name_rules(self) -> dict[str, TimeRule]:
        """Return where each stream has its times."""
        rule, names = self.options.time, [name for name, _ in self.query.streams]
        if isinstance(rule, Mapping):
            return {name: one for name, one in rule.items() if name in names}
        return dict.fromkeys(names, rule or TimeRule(unit=self.unit))

    @property
    def _source(self) -> Streamset | StreamPieces:
        return self.pieces if self.streams is None else self.streams

    @property
    def used(self) -> tuple[UsedFile, ...]:
        """The files of the run."""
        return self.mistakes.used

    @property
    def notes(self) -> list[str]:
        """What a store may have changed, and how many lines or events of a stream were skipped."""
        skipped = self._source.skipped
        left_out = [
            f"{stream}: {number:,} {'lines or events were' if number > 1 else 'line or event was'}"
            " left out"
            for stream, number in skipped.items()
            if number
        ]
        unit = self.unit if self.streams is not None and self.numeric_times else None
        odd = self._sights.warn(skipped, unit) if self._is_read else ()
        warnings = (WarningNote.of(one, self.query.source) for one in odd)
        return [*self._remarks, *left_out, *warnings, *note_compiling(self._compiled)]

    @property
    def numeric_times(self) -> bool:
        """Whether times are numbers, not dates."""
        return self._source.numeric_times

    def open(self, sources: Mapping[str, Any]) -> Streamset:
        """Open the streams of the query, in its order."""
        missing = [name for name, _ in self.query.streams if name not in sources]
        if missing:
            raise DataError(
                f"no events for the stream {missing[0]}: give a file for each of "
                f"{', '.join(name for name, _ in self.query.streams)}"
            )
        if self._is_finished or self.streams is not None or self.pieces.pieces:
            raise StateError("this session has begun: push the events that follow, or begin anew")
        ordered = {name: sources[name] for name, _ in self.query.streams}
        self.mistakes.open([*input_files(ordered.values()), *self._background])
        self.streams = Streamset(
            ordered,
            self.terms,
            time=self.options.time or TimeRule(unit=self.unit),
            format=self.options.format,
            bad=self.mistakes,
        )
        return self.streams

    def collect(self, sources: Mapping[str, Any]) -> GraphMatches:
        """Return all matches of some streams."""
        with self.guard:
            found = [one for batch in self.open(sources) for one in self._push(batch)]
            self.mistakes.complete()
            self._end_run()
            return self.matches(found)

    def stream(self, sources: Mapping[str, Any]) -> Iterator[GraphMatches]:
        """Yield the matches of each batch that has some."""
        with self.guard:
            for batch in self.open(sources):
                if found := self._push(batch):
                    matches = self.matches(found)
                    with self.guard.paused():
                        yield matches
                self._forget()
            self.mistakes.complete()
            self._end_run()

    def _end_run(self) -> None:
        """All events were read: raise the warnings about them, if they are errors."""
        self._is_read = True
        if self.options.strict and (found := list_warnings(self.notes)):
            raise StrictError(found)

    def take(self, events: GraphEvents) -> GraphMatches:
        """Return the matches that end in a batch, which must not end within a timestamp."""
        with self.guard:
            return self.matches(self._push(events))

    def _push(self, events: GraphEvents) -> list[DagSegment]:
        found = self.solver.solve(events)
        self._sights.add(events, found, self.terms)
        return self.recognize(events, found)

    # ---------------------------------------------------------------- pieces

    def push(self, events: Any) -> GraphMatches:
        """Return the matches that a piece makes certain; it follows all pieces before in time.

        `events` are files or bytes, as `GraphQuery.run` takes them; streams without events may be
        missing. The next piece may have events at the last timestamp of this one, so its matches
        come with the first later event, with `advance` or with `finish`.
        """
        self.guard.check()
        sources = name_streams(self.query, events, whole=False)
        self._continue()
        with self.guard:
            self._renew_background()
        pieces = self.pieces
        self.mistakes.open([*input_files(sources.values()), *self._background])
        with self.guard:
            return self._recognize_pieces(pieces.read(sources))

    def _renew_background(self) -> None:
        """Read a live background again if its files have changed.

        New knowledge has its own terms and plans of the patterns; the state moves over to them as
        frozen bytes do. Files that cannot be read leave everything as it was.
        """
        if self._files is None or not self._files.look():
            return
        assert self.versions is not None
        values = TermValues(Terms())
        try:
            content = self._files.read()
            graphs = content.load(values.terms)
        except DataError as error:
            self._remarks = [f"the background is still {self.versions[-1]}: {error}"]
            return
        self._remarks = []
        if content.version == self.versions[-1]:
            return
        frozen = read_state(freeze_session(self, self.pieces), self.plan)
        self.solver = PatternSolver(self.plan, values, graphs)
        self._begin(values)
        self.pieces = self._make_pieces(frozen.rules)
        thaw_session(self, self.pieces, frozen)
        self.versions = [*(self.versions or ()), content.version]

    def advance(self, time: int | float | str | datetime) -> GraphMatches:
        """Return the matches that are certain now that no event before a time comes.

        `time` is a number of the session's unit, or a date.
        """
        self.guard.check()
        pieces = self._continue()
        moment = parse_time(time, self.unit, "advance to")
        with self.guard:
            return self._recognize_pieces(pieces.advance(moment))

    def finish(self) -> GraphMatches:
        """Return the matches at the last timestamp, now that no further event comes."""
        with self.guard:
            self._is_finished = True
            return self._recognize_pieces(self.pieces.finish())

    def pull(self) -> GraphMatches:
        """Return all matches so far; with a window, those that start inside the one that ends now.

        Only for sessions that were opened with `keep=True`.
        """
        if self._kept is None:
            raise StateError("nothing is kept to pull: open the session with keep=True")
        self.guard.check()
        self._drop_past()
        return self.matches(self._kept)

    def freeze(self, *, secret: Secret = None) -> bytes:
        """Return the state as versioned bytes; `GraphQuery.thaw` goes on from there.

        With a `secret`, the bytes are signed, and thaw with the same secret only.
        """
        if self._kept is not None:
            raise StateError(
                "a session that keeps its matches (keep=True) cannot be frozen; freeze one "
                "that only pushes"
            )
        self.guard.check()
        pieces = self._continue()
        with self.guard:
            state = freeze_session(self, pieces)
        return sign_state(state, secret)

    @classmethod
    def thaw(
        cls, plan: GraphPlan, state: bytes, options: GraphRunOptions, background: Any = None
    ) -> GraphSession:
        """Return the session that `freeze` turned into bytes; StateError if they are not its own.

        The bytes say where the times are, and whether the background is live; `options` has the
        rest.
        """
        frozen = read_state(state, plan)
        live = frozen.meta.get("versions") is not None
        options = options._replace(time=frozen.rules)
        session = cls(plan, options, background, frozen.unit, live=live)
        now = session.versions
        thaw_session(session, session.pieces, frozen)
        if session.versions is not None and now is not None:
            session.versions += now if now != session.versions[-1:] else []
        return session

    def _continue(self) -> StreamPieces:
        """Return the streams, if more events may come."""
        if self._is_finished or self.streams is not None:
            raise StateError("this session is finished: no events can follow; begin a new one")
        return self.pieces

    def _recognize_pieces(self, batches: Iterator[GraphEvents]) -> GraphMatches:
        found = []
        for batch in batches:
            found += self._push(batch)
            self._now = int(batch.times[-1])
        self.mistakes.complete()
        if self._kept is not None:
            self._kept += found
        matches = self.matches(found)
        self._forget()
        return matches

    def earliest_row(self) -> int:
        """Return the number of the earliest row that a match to come or to pull has."""
        if self._kept is None:
            return super().earliest_row()
        self._drop_past()
        return min(super().earliest_row(), self.store.find_row(self._find_bound()))

    def _find_bound(self) -> int:
        """Return the earliest start inside the window that ends now."""
        return int(self.builder.window.bounds(np.array([self._now], np.int64))[0])

    def _drop_past(self) -> None:
        """Drop the kept matches that have left the window."""
        bound, kept = self._find_bound(), []
        for links, dag, roots in self._kept or ():
            inside = roots[dag.vertices["start"][roots["vertex"]] >= bound]
            if len(inside):
                inside["bound"] = np.maximum(inside["bound"], bound)
                kept.append(DagSegment(links, dag, inside))
        self._kept = kept

    def _codes(self) -> Iterator[Codes]:
        yield from super()._codes()
        yield from self._source.codes()

    def _recode(self, new_codes: Codes) -> None:
        super()._recode(new_codes)
        self._source.recode(new_codes)


def _background_files(background: Any) -> list[UsedFile]:
    """Return the files of background knowledge; there may be several for each graph."""
    given = background.values() if isinstance(background, Mapping) else (background,)
    lists = (one if isinstance(one, (list, tuple)) else (one,) for one in given)
    return [UsedFile("the background", file.path) for each in lists for file in input_files(each)]
