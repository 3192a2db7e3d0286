"""`GraphQuery`: a SPAseQ query, checked, ready to run over RDF streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from cernis.errors import DataError
from cernis.events.mistakes import OnError, did_you_mean
from cernis.languages.spaseq import parse
from cernis.pattern.spaseq import SpaseqQuery
from cernis.plan.explain_graphs import GraphExplanation
from cernis.plan.graphs import GraphPlan, make_graph_plan
from cernis.rdf.matches import GraphMatches
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.session import GraphRunOptions, GraphSession


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
    def plan(self) -> GraphPlan:
        return make_graph_plan(self.query)

    def session(
        self,
        *,
        background: Any = None,
        time: str | TimeRule | Mapping[str, TimeRule] | None = None,
        time_unit: str = "ms",
        format: str | None = None,
        on_error: OnError = "fail",
    ) -> GraphSession:
        """Return a run that has read nothing."""
        rule = parse_time_rule(time, time_unit)
        options = GraphRunOptions(rule, format, on_error)
        return GraphSession(self.plan, options, self.name_graphs(background), time_unit)

    def run(self, events: Any, **reading: Any) -> GraphMatches:
        """Return all matches in the streams: a file (or bytes) for each, by name or in order.

        `background` has the files of background graphs, as {IRI: file}; for a query with one
        GRAPH a file is enough. `time` is the property that has the times of events, or `graph:`
        and a regular expression for the names of their graphs; numbers count `time_unit`s.
        `on_error` is "fail", "skip", or a path or function that receives bad lines and events.
        """
        return self.session(**reading).collect(self.name_streams(events))

    def stream(self, events: Any, **reading: Any) -> Iterator[GraphMatches]:
        """Yield the matches batch by batch."""
        return self.session(**reading).stream(self.name_streams(events))

    def explain(self, **reading: Any) -> GraphExplanation:
        """Explain how the query runs and what it costs."""
        return GraphExplanation(self.plan)

    # ----------------------------------------------------------------- naming

    def name_streams(self, events: Any) -> dict[str, Any]:
        """Return the input of each stream.

        Inputs are assigned by name; by the stem of a file, which is the stream's name in any case
        or the end of its IRI; or in the order of FROM STREAM, if some stem is neither.
        """
        names = [name for name, _ in self.query.streams]
        if isinstance(events, Mapping):
            for name in events:
                if name not in names:
                    raise DataError(
                        f"the query has no stream {name!r}{did_you_mean(str(name), names)}; "
                        f"it has {', '.join(names)}"
                    )
            return dict(events)
        if isinstance(events, str | bytes | Path) or hasattr(events, "read"):
            events = [events]
        if not isinstance(events, Iterable):
            raise DataError(
                f"{type(events).__name__} is no RDF: give files or bytes, by the names of streams"
            )
        given = list(events)
        if len(given) != len(names):
            raise DataError(
                f"the query reads {_count_noun(len(names), 'stream')} ({', '.join(names)}), "
                f"and there {'is' if len(given) == 1 else 'are'} "
                f"{_count_noun(len(given), 'file')}; name them as NAME=FILE"
            )
        guesses = [self._guess_stream(one) for one in given]
        if None not in guesses and len(set(guesses)) == len(names):
            return {str(name): one for name, one in zip(guesses, given, strict=True)}
        return dict(zip(names, given, strict=True))

    def _guess_stream(self, data: Any) -> str | None:
        """Return the stream that a file is named after."""
        if not isinstance(data, str | Path):
            return None
        stem = Path(data).name.split(".")[0].lower()
        for name, iri in self.query.streams:
            if stem in (name.lower(), iri.rstrip("/#").replace("#", "/").split("/")[-1].lower()):
                return name
        return None

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
    """
    if time is None:
        return TimeRule(unit=unit)
    if not isinstance(time, str):
        return time
    if time == "graph" or time.startswith("graph:"):
        pattern = time.partition(":")[2]
        return TimeRule(pattern=pattern or r"([0-9]+)$", unit=unit)
    return TimeRule(property=time, unit=unit)


def _count_noun(count: int, noun: str) -> str:
    """
    >>> _count_noun(1, "file"), _count_noun(2, "file")
    ('1 file', '2 files')
    """
    return f"{count} {noun}{'s' * (count != 1)}"
