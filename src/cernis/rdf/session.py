"""A SPAseQ query over RDF streams, from files to matches.

One session reads one streamset: events in batches, solutions of the graph patterns, rows, the
engine. `collect` keeps every row; `stream` gives the matches of each batch and drops the rows and
terms that no partial match needs.

Cost: parsing is most of it; see `cernis.rdf.reading.quads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cernis.engine.dag.links import DagSegment
from cernis.errors import DataError
from cernis.events.mistakes import Mistakes, OnError
from cernis.output import UsedFile, input_files
from cernis.plan.graphs import GraphPlan
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.background import explain_stores, load_background
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.recognizer import GraphRecognizer
from cernis.rdf.solving.solve import PatternSolver
from cernis.rdf.solving.values import TermValues


class GraphRunOptions(NamedTuple):
    """How to read the streams of a run."""

    time: TimeRule | Mapping[str, TimeRule] | None = None
    format: str | None = None
    on_error: OnError = "fail"


class GraphSession(GraphRecognizer):
    """One run of a query over RDF streams; an error closes it."""

    def __init__(
        self,
        plan: GraphPlan,
        options: GraphRunOptions,
        background: Any = None,
        unit: str = "ms",
    ) -> None:
        values = TermValues(Terms())
        graphs = load_background(background, values.terms)
        self._remarks = explain_stores(background, values.terms)
        self.solver = PatternSolver(plan, values, graphs)
        super().__init__(plan, values, unit)
        self.options, self.mistakes = options, Mistakes(options.on_error)
        self.streams: Streamset | None = None
        self._background = _background_files(background)

    @property
    def used(self) -> tuple[UsedFile, ...]:
        """The files of the run."""
        return self.mistakes.used

    @property
    def notes(self) -> list[str]:
        """What a store may have changed, and how many lines or events of a stream were skipped."""
        skipped = self.streams.skipped if self.streams is not None else {}
        return self._remarks + [
            f"{stream}: {number:,} {'lines or events were' if number > 1 else 'line or event was'}"
            " left out"
            for stream, number in skipped.items()
            if number
        ]

    @property
    def numeric_times(self) -> bool:
        """Whether times are numbers, not dates."""
        return self.streams is not None and self.streams.numeric_times

    def open(self, sources: Mapping[str, Any]) -> Streamset:
        """Open the streams of the query, in its order."""
        missing = [name for name, _ in self.query.streams if name not in sources]
        if missing:
            raise DataError(
                f"no events for the stream {missing[0]}: give a file for each of "
                f"{', '.join(name for name, _ in self.query.streams)}"
            )
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

    def push(self, events: GraphEvents) -> GraphMatches:
        """Return the matches that end in a batch, which must not end within a timestamp."""
        with self.guard:
            return self.matches(self._push(events))

    def _push(self, events: GraphEvents) -> list[DagSegment]:
        return self.recognize(events, self.solver.solve(events))

    def _codes(self) -> Iterator[Codes]:
        yield from super()._codes()
        if self.streams is not None:
            yield from self.streams.codes()

    def _recode(self, new_codes: Codes) -> None:
        super()._recode(new_codes)
        if self.streams is not None:
            self.streams.recode(new_codes)


def _background_files(background: Any) -> list[UsedFile]:
    """Return the files of background knowledge; there may be several for each graph."""
    given = background.values() if isinstance(background, Mapping) else (background,)
    lists = (one if isinstance(one, (list, tuple)) else (one,) for one in given)
    return [UsedFile("the background", file.path) for each in lists for file in input_files(each)]
