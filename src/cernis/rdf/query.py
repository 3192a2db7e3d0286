"""`GraphQuery`: a SPAseQ query, checked, ready to run over RDF streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cernis.events.reading.mistakes import OnError
from cernis.languages.spaseq import parse
from cernis.languages.spaseq.query import SpaseqQuery
from cernis.plan.explain_linked import LinkedExplanation
from cernis.plan.linked import LinkedPlan, make_linked_plan
from cernis.rdf.hoist import hoist_functions
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.times import DIGITS_IN_NAME, TimeRule
from cernis.rdf.session import GraphSession, read_state
from cernis.rdf.source import GraphSource, name_streams
from cernis.signature import Secret, open_state
from cernis.views.progress import find_display, show_progress

if TYPE_CHECKING:
    from cernis.rdf.trace.look import GraphTrace


class GraphQuery:
    """A SPAseQ query. It is cheap to make and reads nothing before it runs.

    Any number of threads may use it at once. A session belongs to one thread at a time.

    >>> q = GraphQuery('''PREFIX : <http://example.org/>
    ... SELECT ?a ?b WITHIN 10 SECONDS FROM STREAM S <http://example.org/s>
    ... WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is 1 } DEFINE GPM B ON S { ?b :is 2 } }''')
    >>> [stream for stream, _ in q.query.streams]
    ['S']
    """

    def __init__(self, query: str | SpaseqQuery) -> None:
        self.query = parse(query) if isinstance(query, str) else query

    @cached_property
    def plan(self) -> LinkedPlan:
        return make_linked_plan(hoist_functions(self.query))

    def session(
        self,
        *,
        background: Any = None,
        time: str | TimeRule | Mapping[str, TimeRule] | None = None,
        time_unit: str = "ms",
        format: str | None = None,
        on_error: OnError = "fail",
        strict: bool = False,
        keep: bool = False,
        live: bool = False,
    ) -> GraphSession:
        """Return a run that has read nothing; `keep` the matches of pieces, for `pull`.

        The files of a `live` background are read again between two pieces when they have changed;
        each match then names the versions that its events were solved with (`background`).
        """
        rule = parse_time_rule(time, time_unit)
        source = GraphSource(
            self.plan,
            self.name_graphs(background),
            time=rule,
            unit=time_unit,
            format=format,
            on_error=on_error,
            live=live,
        )
        return GraphSession(self.plan, source, strict=strict, keep=keep)

    def thaw(
        self,
        frozen: bytes,
        *,
        background: Any = None,
        format: str | None = None,
        on_error: OnError = "fail",
        secret: Secret = None,
    ) -> GraphSession:
        """Return the session that `GraphSession.freeze` turned into bytes.

        `secret` is the one that they were signed with. The bytes do not hold background knowledge,
        nor the form of files, nor what to do with bad lines and events. They know whether the
        background is live.
        """
        state = open_state(frozen, secret)
        reading = read_state(state, self.plan)._asdict()
        graphs = self.name_graphs(background)
        source = GraphSource(self.plan, graphs, format=format, on_error=on_error, **reading)
        session = GraphSession(self.plan, source)
        session.thaw(state)
        return session

    def run(self, events: Any, *, progress: bool | None = None, **reading: Any) -> GraphMatches:
        """Return all matches in the streams: a file (or bytes) for each, by name or in order.

        `background` has the files of background graphs, as {IRI: file}; for a query with one
        GRAPH a file is enough. `time` is the property that has the times of events, or `graph:`
        and a regular expression for the names of their graphs; numbers count `time_unit`s.
        `on_error` is "fail", "skip", or a path or function that receives bad lines and events.
        With `strict`, warnings (the notes that have a code) raise `StrictError`. A run of more than
        a second shows its `progress` in a terminal and in a notebook; False: it does not.
        """
        session = self.session(**reading)
        shown = None if progress is False else find_display()
        with show_progress(lambda: session.events, None, shown):
            return session.collect(events)

    def trace(self, events: Any, **reading: Any) -> GraphTrace:
        """Run the query once more and return the run, to be looked into.

        Matches do not keep the graphs, so it takes what `run` takes. `step(graph)` says what waits
        at a graph, `why(graphs)` why graphs are no match, `automaton()` how often each edge was
        taken; `matches` are the matches.
        """
        from cernis.rdf.trace.graphs import TracedGraphs
        from cernis.rdf.trace.look import GraphTrace

        return GraphTrace(TracedGraphs(self.session(**reading), self.name_streams(events)))

    def stream(self, events: Any, **reading: Any) -> Iterator[GraphMatches]:
        """Yield the matches batch by batch."""
        return self.session(**reading).stream(events)

    def follow(self, source: Any, **options: Any) -> Any:
        """Return the matches in RDF that goes on coming, as they are certain: `cernis.follow`.

        Iterate over them, also with `async for`.
        """
        return import_module("cernis.live.follow").follow(self, source, **options)

    def explain(self, **reading: Any) -> LinkedExplanation:
        """Explain how the query runs and what it costs."""
        return LinkedExplanation(self.plan)

    def _repr_html_(self) -> str:
        """Show the query and its automaton in a notebook."""
        return f"<pre>{escape(str(self))}</pre>{self.explain().draw()}"

    # ----------------------------------------------------------------- naming

    def name_streams(self, events: Any) -> dict[str, Any]:
        """Return the input of each stream."""
        return name_streams(self.query, events)

    def name_graphs(self, background: Any) -> Any:
        """Return background by name; a file without one has the name of the query's only GRAPH."""
        if background is None or isinstance(background, Mapping):
            return background
        names = self.plan.background
        if len(names) != 1:
            return background
        return {names[0]: background}

    def __str__(self) -> str:
        return str(self.query)

    def __repr__(self) -> str:
        return f"cernis.query({str(self)!r}, lang='spaseq')"


def parse_time_rule(
    time: str | TimeRule | Mapping[str, TimeRule] | None, unit: str
) -> TimeRule | Mapping[str, TimeRule] | None:
    """Return the rule that a text stands for: an IRI, or `graph:` and a pattern.

    >>> print(parse_time_rule("graph:-([0-9]+)$", "s"))
    the name of the graph, by '-([0-9]+)$'
    >>> parse_time_rule("graph", "s").pattern == DIGITS_IN_NAME
    True
    """
    if time is None:
        return TimeRule(unit=unit)
    if not isinstance(time, str):
        return time
    if time == "graph" or time.startswith("graph:"):
        pattern = time.partition(":")[2]
        return TimeRule(pattern=pattern or DIGITS_IN_NAME, unit=unit)
    return TimeRule(property=time, unit=unit)
