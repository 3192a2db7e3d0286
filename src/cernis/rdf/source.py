"""Sources of a SPAseQ run: RDF streams, or tables of solutions, as batches in order of time.

    files, pieces ─ reading ─▶ GraphEvents ─ solving ─▶ SolvedBatch ─▶ `rdf.feed.LinkedFeed`

A batch holds whole timestamps: its events, and the solutions of each graph pattern in them. A
`GraphSource` reads and solves RDF; a `TableSource` reads solutions that other processes have
written (`cernis.rdf.solving.exchange`). A source owns the dictionary of terms that its feed uses as
well.

Cost: parsing is most of it; see `cernis.rdf.reading.quads`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.errors import DataError, StateError, WarningNote
from cernis.events.reading.mistakes import Mistakes, OnError, did_you_mean
from cernis.integers import count_noun
from cernis.languages.spaseq.query import SpaseqQuery
from cernis.output import UsedFile, input_files
from cernis.plan.linked import LinkedPlan
from cernis.rdf.reading.background import Graphs, explain_stores, load_background
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.live_background import BackgroundFiles
from cernis.rdf.reading.pieces import StreamPieces
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule, parse_time
from cernis.rdf.solving.advice import GraphSights
from cernis.rdf.solving.exchange import SolutionFormat
from cernis.rdf.solving.solutions import SolvedBatch
from cernis.rdf.solving.solve import PatternSolver
from cernis.rdf.solving.terms.values import TermValues
from cernis.state import Tree


class SolutionSource(ABC):
    """Gives batches of solutions; terms have codes of its own dictionary."""

    def __init__(self, plan: LinkedPlan, unit: str, mistakes: Mistakes) -> None:
        self.plan, self.unit, self.mistakes = plan, unit, mistakes
        self.values = TermValues(Terms())
        self.versions: list[str] | None = None
        """The versions of a live background so far, the last of which is current."""

    @property
    def terms(self) -> Terms:
        return self.values.terms

    @property
    @abstractmethod
    def numeric_times(self) -> bool:
        """Whether times are numbers, not dates."""

    @abstractmethod
    def open(self, events: Any, *, whole: bool) -> Iterator[SolvedBatch]:
        """Open `whole` streams, or what follows; an error leaves the source as it was."""

    def list_notes(self, *, last: bool) -> list[str]:
        """Return remarks on what was read; some need all events (`last`)."""
        return []

    def codes(self) -> Iterator[Codes]:
        """Yield the codes of the terms that the next batch needs."""
        return iter(())

    def recode(self, new_codes: Codes) -> None:  # noqa: B027
        """Replace the codes of terms."""

    def freeze(self) -> Tree:
        """Return how far the streams have come."""
        return {}

    def thaw(self, tree: Tree, codes: Codes) -> None:  # noqa: B027
        """Go on where a frozen source was; its terms have these codes."""

    def continue_versions(self, frozen: list[str] | None) -> None:
        """Go on after the versions of a frozen source."""
        self.versions = frozen


class TableSource(SolutionSource):
    """Reads tables of solutions, each of whole timestamps."""

    def __init__(
        self, plan: LinkedPlan, unit: str, numeric_times: bool, *, live: bool = False
    ) -> None:
        super().__init__(plan, unit, Mistakes())
        self._numeric_times = numeric_times
        self.format = SolutionFormat(plan, live=live)
        self.versions = [""] if live else None

    @property
    def numeric_times(self) -> bool:
        return self._numeric_times

    def open(self, events: pa.Table, *, whole: bool) -> Iterator[SolvedBatch]:
        solved, names = self.format.read(events, self.terms)
        yield solved if names is None else solved._replace(versions=self._number(names))

    def _number(self, names: pa.Array) -> Codes:
        """Return the numbers of versions; new ones are added."""
        encoded, known = names.fill_null("").dictionary_encode(), self.versions or []
        named = encoded.dictionary.to_pylist()
        self.versions = known = [*known, *(name for name in named if name not in known)]
        numbers = np.array([known.index(name) for name in named], np.int32)
        versions: Codes = numbers[np.asarray(encoded.indices)]
        return versions


class GraphSource(SolutionSource):
    """Reads RDF streams, whole or in pieces, and solves the graph patterns of a query."""

    def __init__(
        self,
        plan: LinkedPlan,
        background: Any = None,
        *,
        time: TimeRule | Mapping[str, TimeRule] | None = None,
        unit: str = "ms",
        format: str | None = None,
        on_error: OnError = "fail",
        live: bool = False,
    ) -> None:
        """The files of a `live` background are read again when they change."""
        super().__init__(plan, unit, Mistakes(on_error))
        self.query, self._time, self._format = plan.query, time, format
        self.streams: Streamset | None = None
        self._is_finished = False
        self._sights = GraphSights(plan.query)
        """What the events are like."""
        self._used = _background_files(background)
        self._files = BackgroundFiles(background) if live else None
        if self._files is not None:
            content = self._files.read()
            self.versions = [content.version]
            self._begin(content.load(self.terms))
        else:
            self._begin(load_background(background, self.terms))
        self._remarks = explain_stores(background, self.terms)

    def _begin(self, graphs: Graphs) -> None:
        """Solve with some background, in streams that begin."""
        self.solver = PatternSolver(self.plan, self.values, graphs)
        rule, names = self._time, [name for name, _ in self.query.streams]
        if isinstance(rule, Mapping):
            rules = {name: one for name, one in rule.items() if name in names}
        else:
            rules = dict.fromkeys(names, rule or TimeRule(unit=self.unit))
        self.pieces = StreamPieces(names, self.terms, rules, self.mistakes, self._format)

    def renew(self) -> GraphSource | None:
        """Return a source with the background that there is now; None if it is as it was.

        New knowledge has its own terms and plans of the patterns. Files that cannot be read leave
        everything as it was.
        """
        if self._files is None or self.versions is None or not self._files.look():
            return None
        values = TermValues(Terms())
        try:
            content = self._files.read()
            graphs = content.load(values.terms)
        except DataError as error:
            self._remarks = [f"the background is still {self.versions[-1]}: {error}"]
            return None
        self._remarks = []
        if content.version == self.versions[-1]:
            return None
        other = copy.copy(self)
        other.values, other.versions = values, [content.version]
        other._time = self.pieces.rules
        other._begin(graphs)
        return other

    def continue_versions(self, frozen: list[str] | None) -> None:
        if frozen is not None and self.versions is not None and self.versions != frozen[-1:]:
            frozen = [*frozen, *self.versions]
        self.versions = frozen

    # ---------------------------------------------------------------- reading

    @property
    def _current(self) -> Streamset | StreamPieces:
        return self.pieces if self.streams is None else self.streams

    @property
    def numeric_times(self) -> bool:
        return self._current.numeric_times

    def list_notes(self, *, last: bool) -> list[str]:
        """Return what a store may have changed, and how many lines or events were skipped."""
        skipped = self._current.skipped
        left_out = [
            f"{stream}: {number:,} {'lines or events were' if number > 1 else 'line or event was'}"
            " left out"
            for stream, number in skipped.items()
            if number
        ]
        unit = self.unit if self.streams is not None and self.numeric_times else None
        odd = self._sights.warn(skipped, unit) if last else ()
        warnings = (WarningNote.of(one, self.query.source) for one in odd)
        return [*self._remarks, *left_out, *warnings]

    def open(self, events: Any, *, whole: bool) -> Iterator[SolvedBatch]:
        if whole:
            return self._read_whole(self._make_streams(events))
        sources = name_streams(self.query, events, whole=False)
        self.check_goes_on()
        self.mistakes.open([*input_files(sources.values()), *self._used])
        return map(self.solve, self.pieces.read(sources))

    def _read_whole(self, streams: Streamset) -> Iterator[SolvedBatch]:
        """Read streams; only now they are those of the session, which an error closes."""
        self.streams = streams
        yield from map(self.solve, streams)

    def open_streams(self, events: Any) -> Streamset:
        """Return whole streams, to solve batch by batch."""
        self.streams = self._make_streams(events)
        return self.streams

    def _make_streams(self, events: Any) -> Streamset:
        """Return whole streams, in the order of the query; nothing has changed so far."""
        sources = name_streams(self.query, events)
        names = [name for name, _ in self.query.streams]
        missing = [name for name in names if name not in sources]
        if missing:
            raise DataError(
                f"no events for the stream {missing[0]}: give a file for each of {', '.join(names)}"
            )
        if self._is_finished or self.streams is not None or self.pieces.pieces:
            raise StateError("this session has begun: push the events that follow, or begin anew")
        ordered = {name: sources[name] for name in names}
        self.mistakes.open([*input_files(ordered.values()), *self._used])
        return Streamset(
            ordered,
            self.terms,
            time=self._time or TimeRule(unit=self.unit),
            format=self._format,
            bad=self.mistakes,
        )

    def solve(self, events: GraphEvents) -> SolvedBatch:
        """Return the solutions of the graph patterns in a batch of whole timestamps."""
        found = self.solver.solve(events)
        self._sights.add(events, found, self.terms)
        version = max(len(self.versions or ()) - 1, 0)
        return SolvedBatch(events, found, np.full(events.size, version, np.int32))

    def check_goes_on(self) -> None:
        """Raise an error if no more events may come."""
        if self._is_finished or self.streams is not None:
            raise StateError("this session is finished: no events can follow; begin a new one")

    def advance(self, time: int | float | str | datetime) -> Iterator[SolvedBatch]:
        """Return the events before a time, now that none of those can come."""
        self.check_goes_on()
        return map(self.solve, self.pieces.advance(parse_time(time, self.unit, "advance to")))

    def finish(self) -> Iterator[SolvedBatch]:
        """Return the events of the last timestamp, now that no more can come."""
        self._is_finished = True
        return map(self.solve, self.pieces.finish())

    # ------------------------------------------------------------------ state

    def codes(self) -> Iterator[Codes]:
        return self._current.codes()

    def recode(self, new_codes: Codes) -> None:
        self._current.recode(new_codes)

    def freeze(self) -> Tree:
        return self.pieces.freeze()

    def thaw(self, tree: Tree, codes: Codes) -> None:
        self.pieces.thaw(tree, codes)


def _background_files(background: Any) -> list[UsedFile]:
    """Return the files of background knowledge; there may be several for each graph."""
    given = background.values() if isinstance(background, Mapping) else (background,)
    lists = (one if isinstance(one, (list, tuple)) else (one,) for one in given)
    return [UsedFile("the background", file.path) for each in lists for file in input_files(each)]


def check_stream(name: Any, names: Sequence[str]) -> None:
    """Raise an error for a stream that is none of the query's."""
    if name not in names:
        raise DataError(
            f"the query has no stream {name!r}{did_you_mean(str(name), names)}; "
            f"it has {', '.join(names)}"
        )


def name_streams(query: SpaseqQuery, events: Any, *, whole: bool = True) -> dict[str, Any]:
    """Return the input of each stream; unless they are `whole`, a list may lack some.

    Inputs are assigned by name; by the stem of a file, which is the stream's name in any case or
    the end of its IRI; or in the order of FROM STREAM, if some stem is neither.
    """
    names = [name for name, _ in query.streams]
    if isinstance(events, Mapping):
        for name in events:
            check_stream(name, names)
        return {name: _open_matches(one) for name, one in events.items()}
    if hasattr(events, "open_nquads"):
        events = [events]
    if isinstance(events, str | bytes | Path) or hasattr(events, "read"):
        events = [events]
    if not isinstance(events, Iterable):
        raise DataError(
            f"{type(events).__name__} is no RDF: give files or bytes, by the names of streams"
        )
    given = [_open_matches(one) for one in events]
    guesses = [_guess_stream(query, one) for one in given]
    is_known = None not in guesses and len(set(guesses)) == len(given)
    if is_known and (not whole or len(given) == len(names)):
        return {str(name): one for name, one in zip(guesses, given, strict=True)}
    if len(given) != len(names):
        raise DataError(
            f"the query reads {count_noun(len(names), 'stream')} ({', '.join(names)}), "
            f"and there {'is' if len(given) == 1 else 'are'} "
            f"{count_noun(len(given), 'file')}; name them as NAME=FILE"
        )
    return dict(zip(names, given, strict=True))


def _open_matches(data: Any) -> Any:
    """Return the graphs of another query's matches as a file; any other input as it is."""
    return data.open_nquads() if hasattr(data, "open_nquads") else data


def _guess_stream(query: SpaseqQuery, data: Any) -> str | None:
    """Return the stream that a file is named after."""
    if not isinstance(data, str | Path):
        return None
    stem = Path(data).name.split(".")[0].lower()
    for name, iri in query.streams:
        if stem in (name.lower(), iri.rstrip("/#").replace("#", "/").split("/")[-1].lower()):
            return name
    return None
